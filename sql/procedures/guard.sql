-- Sessions of holders: as src/kind/guard.c and src/engine/guard.c.

-- Registers the calling session with the lease that is held with this token. The session is ended when somebody takes the lease
-- over; after a release it goes on. An error keeps a client that calls it first from working without the lease.
CREATE PROCEDURE rowlock_session(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                 IN p_token DECIMAL(40, 6))
BEGIN
    DECLARE v_token, v_number BIGINT UNSIGNED DEFAULT 0;
    DECLARE v_many BOOLEAN;
    CALL rl_name_check(p_name);
    CALL rl_token_check('token', p_name, p_token, v_token);
    CALL rl_alone('registering a session for', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_quiet(v_many);
    IF v_many THEN
        CALL rl_signal('RLUNS', p_name, '%s: the number of a session means nothing at the other nodes of this cluster');
    END IF;
    CALL rl_own('session', p_name, v_token, v_number);
END;

-- Called with the name's row locked.
CREATE PROCEDURE rl_session_add(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                IN p_token BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id, v_version, v_slots BIGINT UNSIGNED;
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_left_us BIGINT;
    DECLARE v_secret VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin DEFAULT LOWER(HEX(RANDOM_BYTES(16)));
    CALL rl_now(v_now);
    CALL rl_lease(p_name, v_now, v_id, v_kind, v_status, v_version, v_owner, v_left_us);
    SELECT COUNT(*) INTO v_slots
      FROM resource
     WHERE resource_name = LEFT(p_name, CHAR_LENGTH(p_name) - CHAR_LENGTH(SUBSTRING_INDEX(p_name, '#', -1)) - 1)
       AND kind = 'slots';
    IF v_kind <> 'optimistic' OR v_status = 'shared' OR v_slots > 0 THEN
        CALL rl_signal('RLUNS', p_name, '%s: sessions are registered with a lease that one holds alone, no row lock, slot or other kind');
    END IF;
    CALL rl_lost(p_name, p_token, v_kind, v_status, v_version);
    IF v_left_us <= 0 THEN
        CALL rl_signal('RLLST', p_name, CONCAT('the lease on %s with token ', p_token, ' has run out; stop this work'));
    END IF;
    {{caller_mark(secret = v_secret)}} INTO v_secret;
    IF v_secret = '' THEN
        CALL rl_signal('RLBSY', p_name, '%s: the server gives the session no named lock');
    END IF;
    SET @rowlock_marker = v_secret;
    {{guard_add(secret = v_secret, id = v_id, version = p_token, owner = v_owner, now = v_now)}};
    UPDATE resource SET guarded = p_token WHERE id = v_id;
END;

-- One look: ends the sessions that are left of the last holder, as far as the procedures' definer may. p_there: how many there
-- were; 0: none, so the lease can be acquired. p_session: one of them. p_ended: the most that the caller has seen. p_why: why a
-- session is left; if none is: that this call has cleared `guarded`, or ''.
CREATE PROCEDURE rl_guard_end(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_id BIGINT UNSIGNED,
                              IN p_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                              INOUT p_ended INT, OUT p_there INT, OUT p_session BIGINT UNSIGNED,
                              OUT p_why VARCHAR(100) CHARACTER SET utf8mb4)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_guarded, v_next, v_last BIGINT UNSIGNED DEFAULT 0;
    DECLARE v_locked BIGINT UNSIGNED;
    DECLARE v_marker VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_next = NULL;
    DECLARE CONTINUE HANDLER FOR 1095, 1227
        SET p_session = v_next, p_why = 'the procedures'' maker may not end it (CONNECTION ADMIN)';
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR 1205, 1213, 1020, 1180, 3101
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET p_there = 1, p_why = 'a transaction has the name locked';
    END;
    SET p_there = 0, p_session = 0, p_why = '';
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT COALESCE(MAX(guarded), 0) INTO v_guarded FROM resource WHERE id = p_id;
    WHILE v_next IS NOT NULL DO
        {{guard_next(id = p_id, last = v_last, now = v_now)}} INTO v_next, v_marker;
        IF v_next IS NOT NULL THEN
            SET p_there = p_there + 1, v_last = v_next;
            IF p_session = 0 THEN
                SET p_session = v_next, p_why = 'it is being ended, and its work undone';
            END IF;
            CALL rl_kill(v_next);
        END IF;
    END WHILE;
    COMMIT AND NO CHAIN NO RELEASE; -- for autocommit=0
    SET p_ended = GREATEST(p_ended, p_there);
    IF p_there = 0 AND v_guarded > 0 THEN
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        START TRANSACTION;
        SELECT id INTO v_locked FROM resource WHERE id = p_id FOR UPDATE SKIP LOCKED;
        IF v_locked IS NULL THEN
            SET p_there = 1, p_why = 'a transaction has the name locked';
        ELSE
            {{guard_clear(id = p_id, guarded = v_guarded, now = v_now)}};
            IF ROW_COUNT() > 0 THEN
                SET p_why = 'none is left';
                {{guard_forget(id = p_id, guarded = v_guarded)}};
            END IF;
        END IF;
        IF p_ended > 0 AND p_name IS NOT NULL AND p_why = 'none is left' THEN -- else the library writes it
            CALL rl_event(p_name, 'optimistic', 'ended', v_guarded, '', p_label, v_now, NULL, NULL,
                          CONCAT(p_ended, ' of its holder''s sessions'));
        END IF;
        COMMIT AND NO CHAIN NO RELEASE;
    END IF;
END;

-- Ends the sessions of a lease without a holder, and waits for their undo as long as for a transaction (rl_own).
CREATE PROCEDURE rl_sessions_ended(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_ended, v_there INT DEFAULT 0;
    DECLARE v_session BIGINT UNSIGNED;
    DECLARE v_waited_us, v_delay_us BIGINT DEFAULT 500;
    DECLARE v_why VARCHAR(100) CHARACTER SET utf8mb4;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
        DEFAULT CONCAT(LEFT(USER(), 200), ' ', CONNECTION_ID(), ' sql');
    CALL rl_guard_end(p_name, p_id, v_label, v_ended, v_there, v_session, v_why);
    WHILE v_there > 0 DO
        IF v_waited_us > @@session.innodb_lock_wait_timeout * 1000000 THEN
            CALL rl_signal('RLBSY', p_name, CONCAT('session ', v_session, ' of the last holder of %s is still there: ', v_why));
        END IF;
        SET v_delay_us = LEAST(v_delay_us * 2, 50000), v_waited_us = v_waited_us + v_delay_us;
        CALL rl_sleep(v_delay_us * (0.5 + RAND() / 2));
        CALL rl_guard_end(p_name, p_id, v_label, v_ended, v_there, v_session, v_why);
    END WHILE;
END;

CREATE PROCEDURE rl_via_guard_end(p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_ended, v_there INT DEFAULT 0;
    DECLARE v_session BIGINT UNSIGNED;
    DECLARE v_why VARCHAR(100) CHARACTER SET utf8mb4;
    IF NOT @@autocommit THEN
        SIGNAL SQLSTATE 'RLINV' SET MESSAGE_TEXT = 'autocommit is off';
    END IF;
    CALL rl_writable();
    CALL rl_guard_end(NULL, p_id, '', v_ended, v_there, v_session, v_why);
    SELECT v_there, v_session, v_why;
END;
