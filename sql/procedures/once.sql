-- Once in a period: as src/kind/once.c, for a session that holds the name's lease (rowlock_acquire), or works for its holder.

-- Begins the period under the lease with that token. p_state: begun; done: it was done already; used_up: it had all its attempts
-- (p_attempts; NULL: 3). p_attempt: the number of this attempt, or of all before. p_again: also begins one that is done or used
-- up. Times are UTC.
CREATE PROCEDURE rowlock_once_begin(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                    IN p_token DECIMAL(40, 6), IN p_start DATETIME(6), IN p_end DATETIME(6),
                                    IN p_attempts DECIMAL(40, 6), IN p_again BOOLEAN,
                                    OUT p_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin,
                                    OUT p_attempt INT UNSIGNED)
BEGIN
    DECLARE v_token BIGINT UNSIGNED;
    DECLARE v_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_attempt INT UNSIGNED;
    CALL rl_name_check(p_name);
    CALL rl_token_check('token', p_name, p_token, v_token);
    IF NOT COALESCE(p_start >= '1970-01-01' AND p_start < p_end, FALSE) THEN
        CALL rl_signal('RLINV', p_name, 'the period for %s is none: give its begin, 1970 or later, and an end after that');
    ELSEIF p_attempts < 1 OR p_attempts > 1000000 OR p_attempts <> FLOOR(p_attempts) THEN
        CALL rl_signal('RLINV', p_name, CONCAT('%s cannot have ', p_attempts + 0e0, ' attempts in a period; give 1 to 1000000'));
    END IF;
    CALL rl_alone('beginning a period of', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_once_begin(p_name, v_token, p_start, p_end, COALESCE(p_attempts, 3), COALESCE(p_again, FALSE), v_state, v_attempt);
    SET p_state = v_state, p_attempt = v_attempt;
END;

-- The period that was begun with this token is done. In a transaction, or with autocommit=0, it is done when that commits, and
-- the call succeeds only once: after an error roll back. Otherwise it may be repeated.
CREATE PROCEDURE rowlock_once_done(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_token DECIMAL(40, 6))
BEGIN
    DECLARE v_token BIGINT UNSIGNED;
    DECLARE v_inside BOOLEAN;
    CALL rl_name_check(p_name);
    CALL rl_token_check('token', p_name, p_token, v_token);
    CALL rl_writable_for(p_name);
    CALL rl_joins_for(p_name, v_inside);
    IF v_inside THEN
        CALL rl_joined('once_done', p_name, v_token, NULL);
    ELSE
        CALL rl_once_end(p_name, v_token, TRUE, 0);
    END IF;
END;

-- The attempt has failed; the exit status, 0 to 255, is for people to read. A period that is done stays done.
CREATE PROCEDURE rowlock_once_failed(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_token DECIMAL(40, 6),
                                     IN p_exit_status DECIMAL(40, 6))
BEGIN
    DECLARE v_token BIGINT UNSIGNED;
    CALL rl_name_check(p_name);
    CALL rl_token_check('token', p_name, p_token, v_token);
    IF p_exit_status < 0 OR p_exit_status > 255 OR p_exit_status <> FLOOR(p_exit_status) THEN
        CALL rl_signal('RLINV', p_name, CONCAT('the exit status for %s is 0 to 255, or NULL, not ', p_exit_status + 0e0));
    END IF;
    CALL rl_alone('ending a period of', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_once_end(p_name, v_token, FALSE, p_exit_status);
END;

-- The name's periods, the newest first.
CREATE PROCEDURE rowlock_once_status(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_now DATETIME(6);
    CALL rl_name_check(p_name);
    CALL rl_now(v_now);
    SELECT o.period_start, o.period_end,
           IF(o.state = 'running' AND NOT (r.version = o.token AND r.status = 'held'
                                           AND {{expiry(r.version)}} > v_now), 'died', o.state) AS state,
           o.attempts, o.token, o.owner_label, o.started_at, o.ended_at, o.exit_status
      FROM resource r
      JOIN once_run o ON o.resource_id = r.id
      LEFT JOIN lease_renewal l ON l.id = r.id
     WHERE r.resource_name = p_name
     ORDER BY o.period_start DESC
     LIMIT 100;
END;

-- ------------------------------------------------------------------------------------ begin

-- As rl_own: a transaction that waits for no row that exists, tried again.
CREATE PROCEDURE rl_once_begin(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_token BIGINT UNSIGNED,
                               IN p_start DATETIME(6), IN p_end DATETIME(6), IN p_attempts INT UNSIGNED, IN p_again BOOLEAN,
                               OUT p_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin, OUT p_attempt INT UNSIGNED)
BEGIN
    DECLARE v_tries INT DEFAULT 0;
    DECLARE v_waited_us BIGINT DEFAULT 0;
    DECLARE v_delay_us BIGINT DEFAULT 1000;
    begin_it: LOOP
        CALL rl_once_try(p_name, p_token, p_start, p_end, p_attempts, p_again, v_tries, p_state, p_attempt);
        IF p_state <> 'locked' THEN
            LEAVE begin_it;
        END IF;
        IF v_waited_us > @@session.innodb_lock_wait_timeout * 1000000 THEN
            CALL rl_signal('RLBSY', p_name, '%s is in use by a transaction; try again later');
        END IF;
        SET v_delay_us = LEAST(v_delay_us * 2, 50000), v_waited_us = v_waited_us + v_delay_us;
        CALL rl_sleep(v_delay_us * (0.5 + RAND() / 2));
    END LOOP;
END;

-- p_state `locked`: somebody else has the row locked, or the server has rolled this back.
CREATE PROCEDURE rl_once_try(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_token BIGINT UNSIGNED,
                             IN p_start DATETIME(6), IN p_end DATETIME(6), IN p_attempts INT UNSIGNED, IN p_again BOOLEAN,
                             INOUT p_tries INT,
                             OUT p_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin, OUT p_attempt INT UNSIGNED)
BEGIN
    -- See rl_event.
    DECLARE v_unique BOOLEAN DEFAULT @@session.unique_checks;
    DECLARE v_last BIGINT UNSIGNED DEFAULT LAST_INSERT_ID();
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET unique_checks = v_unique, v_last = LAST_INSERT_ID(v_last);
        RESIGNAL;
    END;
    -- Rows are skipped, but a first attempt waits for the place of its row.
    DECLARE EXIT HANDLER FOR 1205
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET unique_checks = v_unique, v_last = LAST_INSERT_ID(v_last);
        CALL rl_signal('RLBSY', p_name, '%s is in use by a transaction; try again later');
    END;
    DECLARE EXIT HANDLER FOR 1213, 1020, 1180, 3101, 1062
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET unique_checks = v_unique, v_last = LAST_INSERT_ID(v_last), p_tries = p_tries + 1, p_state = 'locked';
        IF p_tries = 20 THEN
            RESIGNAL;
        END IF;
    END;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SET unique_checks = TRUE;
    CALL rl_once_locked(p_name, p_token, p_start, p_end, p_attempts, p_again, p_state, p_attempt);
    COMMIT AND NO CHAIN NO RELEASE;
    SET unique_checks = v_unique, v_last = LAST_INSERT_ID(v_last);
END;

-- Called in that transaction: locks the lease's row, then the ledger's, unless others have locked them.
CREATE PROCEDURE rl_once_locked(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_token BIGINT UNSIGNED,
                                IN p_start DATETIME(6), IN p_end DATETIME(6), IN p_attempts INT UNSIGNED, IN p_again BOOLEAN,
                                OUT p_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin, OUT p_attempt INT UNSIGNED)
BEGIN
    DECLARE v_now, v_acquired DATETIME(6);
    DECLARE v_id, v_seen, v_locked BIGINT UNSIGNED;
    DECLARE v_free, v_holds, v_mine, v_elsewhere, v_other, v_anew BOOLEAN;
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_label, v_by VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_start_us BIGINT UNSIGNED DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', p_start);
    DECLARE v_end_us BIGINT UNSIGNED DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', p_end);
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SET p_state = NULL;
    CALL rl_own_lock('once', p_name, v_free);
    IF v_free THEN
        CALL rl_mine(p_name, p_token, v_id, v_owner, v_label, v_acquired);
        SELECT token INTO v_locked FROM once_run WHERE resource_id = v_id AND period_start = p_start FOR UPDATE SKIP LOCKED;
        {{once_look(version = p_token, owner = v_owner, end = v_end_us, start = v_start_us, id = v_id, name = p_name)}}
          INTO v_holds, p_state, v_seen, p_attempt, v_mine, v_by, v_elsewhere, v_other;
        SET v_anew = p_again OR v_other;
        CALL rl_now(v_now);
    END IF;
    CASE
        -- A read that was stopped (KILL QUERY) may have found too little, and no error (MariaDB).
        WHEN p_state IS NULL OR (p_state <> '') <> (v_locked IS NOT NULL) THEN
            SET p_state = 'locked';
        WHEN v_mine AND p_state = 'running' THEN
            SET p_state = 'begun';
        WHEN v_mine OR v_elsewhere THEN
            CALL rl_signal('RLINV', p_name,
                           CONCAT('token ', p_token, ' of %s has ', IF(v_mine, 'ended this attempt', 'begun another period'),
                                  '; acquire it again'));
        WHEN p_state = 'done' AND NOT v_anew THEN
            SET p_state = 'done';
        WHEN p_state <> '' AND NOT v_anew AND p_attempt >= p_attempts THEN
            SET p_state = 'used_up';
        WHEN p_state <> '' AND v_seen >= p_token THEN
            CALL rl_signal('RLDMG', p_name, CONCAT('somebody else has begun the period of %s with token ', v_seen,
                                                   ', though this one (', p_token, ') should be higher'));
        WHEN p_state = '' THEN
            {{once_insert(start = v_start_us, end = v_end_us, id = v_id, version = p_token, owner = v_owner, now = v_now)}};
            SET p_state = IF(ROW_COUNT() > 0, 'begun', 'locked'), p_attempt = 1;
        ELSE
            {{once_take(end = v_end_us, again = v_anew, id = v_id, version = p_token, owner = v_owner, start = v_start_us,
                        seen = v_seen, attempts = p_attempts, now = v_now)}};
            SET p_state = IF(ROW_COUNT() > 0, 'begun', 'locked'), p_attempt = IF(v_anew, 1, p_attempt + 1);
    END CASE;
END;

-- ------------------------------------------------------------------------------------ end

-- Called in the caller's transaction. Its snapshot may be old, but the name has had its id since before the token was made.
CREATE PROCEDURE rl_once_done(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_token BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id BIGINT UNSIGNED;
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_login CHAR(27) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_kind = NULL;
    SELECT id, kind INTO v_id, v_kind FROM resource WHERE resource_name = p_name;
    CALL rl_once_kind(p_name, v_kind);
    CALL rl_login(v_login);
    CALL rl_now(v_now);
    -- See caller_once_done.
    UPDATE once_run FORCE INDEX (by_token)
       SET state = 'done', ended_at = v_now, exit_status = 0
     WHERE resource_id = v_id AND token = p_token AND state = 'running'
       AND (LEFT(owner, 27) = v_login OR SUBSTRING(owner, 37, 1) = '.');
    IF ROW_COUNT() = 0 THEN
        CALL rl_signal('RLLST', p_name, CONCAT('no period of %s is running with token ', p_token, '; roll back'));
    END IF;
END;

CREATE PROCEDURE rl_once_kind(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                              IN p_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
BEGIN
    IF p_kind IS NULL THEN
        CALL rl_signal('RLNOF', p_name, 'there is no lock %s; look at its spelling');
    ELSEIF p_kind <> 'optimistic' THEN
        CALL rl_wrong_kind(p_name, p_kind, 'optimistic');
    END IF;
END;

-- Outside of a transaction: a statement that commits by itself. (The COMMIT is for autocommit=0.) Owner ids of library and
-- command have a dot: any session with their token may work for them; a lease that was taken by SQL belongs to its login.
CREATE PROCEDURE rl_once_end(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_token BIGINT UNSIGNED,
                             IN p_done BOOLEAN, IN p_exit_status INT)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id BIGINT UNSIGNED;
    DECLARE v_ended BOOLEAN;
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin DEFAULT '';
    DECLARE v_login CHAR(27) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_state = '';
    DECLARE EXIT HANDLER FOR 1205
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        CALL rl_signal('RLBSY', p_name, '%s is in use by a transaction; try again later');
    END;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT id, kind INTO v_id, v_kind FROM resource WHERE resource_name = p_name;
    COMMIT AND NO CHAIN NO RELEASE;
    CALL rl_once_kind(p_name, v_kind);
    CALL rl_login(v_login);
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    UPDATE once_run
       SET state = IF(p_done, 'done', 'failed'), ended_at = v_now, exit_status = p_exit_status
     WHERE resource_id = v_id AND token = p_token AND state = 'running'
       AND (LEFT(owner, 27) = v_login OR SUBSTRING(owner, 37, 1) = '.');
    SET v_ended = ROW_COUNT() > 0;
    COMMIT AND NO CHAIN NO RELEASE;
    IF NOT v_ended THEN
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        SELECT state INTO v_state FROM once_run WHERE resource_id = v_id AND token = p_token;
        COMMIT AND NO CHAIN NO RELEASE;
        IF NOT (v_state = 'done' OR (v_state = 'failed' AND NOT p_done)) THEN
            CALL rl_signal('RLLST', p_name, CONCAT('no period of %s is running with token ', p_token, ' (any more)'));
        END IF;
    END IF;
END;
