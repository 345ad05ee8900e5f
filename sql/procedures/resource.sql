-- Names. A step of one statement begins no transaction, which a KILL QUERY could leave open (no handler runs then); the COMMIT is
-- for sessions with autocommit=0.

-- The id of a name, whose rows are made if it is new. Each step is a transaction of its own: the caller has none. NULL: for
-- p_wait_us, a transaction had the gap locked into which the name belongs (on MariaDB, any REPEATABLE READ one that has locked
-- the next name).
CREATE PROCEDURE rl_resource(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                             IN p_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
                             IN p_wait_us BIGINT, OUT p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_idle BIGINT;
    DECLARE v_has_lock, v_has_renewal BOOLEAN;
    DECLARE v_tries INT DEFAULT 0;
    DECLARE v_locked BOOLEAN DEFAULT FALSE;
    DECLARE v_started, v_now DATETIME(6);
    SET p_id = NULL;
    find: LOOP
        CALL rl_resource_find(p_name, p_id, v_kind, v_idle, v_has_lock, v_has_renewal);
        IF p_id IS NOT NULL AND v_kind <> p_kind THEN
            CALL rl_wrong_kind(p_name, v_kind, p_kind);
        END IF;
        IF p_id IS NOT NULL AND (p_kind IN ('slots', 'latch', 'queue') OR IF(p_kind = 'pessimistic', v_has_lock, v_has_renewal)) THEN
            LEAVE find;
        END IF;
        SET p_id = NULL;
        CALL rl_now(v_now);
        SET v_started = COALESCE(v_started, v_now);
        IF v_locked AND TIMESTAMPDIFF(MICROSECOND, v_started, v_now) >= p_wait_us THEN
            LEAVE find;
        ELSEIF v_tries = 20 THEN
            CALL rl_signal('RLDMG', p_name, 'the rows of %s could not be made; see `rowlock doctor`');
        ELSEIF v_tries > 0 THEN
            -- An INSERT may be refused for a row that no read sees yet: its COMMIT has begun and not ended.
            CALL rl_sleep(LEAST(500 << v_tries, 50000) * (0.5 + RAND() / 2));
        END IF;
        CALL rl_resource_make(p_name, p_kind, v_locked);
        SET v_tries = v_tries + (NOT v_locked);
    END LOOP;
    IF p_id IS NOT NULL AND p_kind = 'pessimistic' AND v_idle > 86400 THEN
        CALL rl_resource_touch(p_id);
    END IF;
END;

CREATE PROCEDURE rl_resource_find(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                  OUT p_id BIGINT UNSIGNED,
                                  OUT p_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
                                  OUT p_idle BIGINT, OUT p_has_lock BOOLEAN, OUT p_has_renewal BOOLEAN)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET p_id = NULL;
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    {{resource_find(name = p_name, now = v_now)}}
      INTO p_id, p_kind, p_idle, p_has_lock, p_has_renewal;
    COMMIT AND NO CHAIN NO RELEASE;
END;

-- The same without a time limit of its own: it waits as long as the session waits for rows.
CREATE PROCEDURE rl_resource_or_busy(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                     IN p_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
                                     IN p_wait_us BIGINT, OUT p_id BIGINT UNSIGNED)
BEGIN
    CALL rl_resource(p_name, p_kind, COALESCE(p_wait_us, @@session.innodb_lock_wait_timeout * 1000000), p_id);
    IF p_id IS NULL THEN
        CALL rl_signal(IF(p_wait_us > 0, 'RLTMO', 'RLBSY'), p_name, '%s is new, and a transaction has locked the place where it belongs; try again later');
    END IF;
END;

-- One attempt; another session may be quicker. If the row exists, its missing rows are made; a complete one is not locked, since
-- its holder, which has the row of resource_lock, could not release it. The caller may have unique_checks off, with which a name
-- could be inserted twice. p_locked: it has waited for a second; not longer, since KILL QUERY runs no handler. (On MySQL the
-- limit is the session's: see rl_row_wait.)
CREATE PROCEDURE rl_resource_make(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                  IN p_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
                                  OUT p_locked BOOLEAN)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id BIGINT UNSIGNED;
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_idle BIGINT;
    DECLARE v_has_lock, v_has_renewal BOOLEAN;
    DECLARE v_last BIGINT UNSIGNED DEFAULT LAST_INSERT_ID();
    DECLARE v_unique BOOLEAN DEFAULT @@session.unique_checks;
    /*!80000 DECLARE v_before BIGINT UNSIGNED DEFAULT @@session.innodb_lock_wait_timeout; */
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_id = NULL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        /*!80000 SET SESSION innodb_lock_wait_timeout = v_before, @rowlock_limit = NULL; */
        SET unique_checks = v_unique;
        SET v_last = LAST_INSERT_ID(v_last);
        RESIGNAL;
    END;
    -- 1062: another session has made it. The others: the server, or a cluster, has chosen to roll us back.
    DECLARE EXIT HANDLER FOR 1062, 1213, 1020, 1180, 3101
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        /*!80000 SET SESSION innodb_lock_wait_timeout = v_before, @rowlock_limit = NULL; */
        SET unique_checks = v_unique;
        SET v_last = LAST_INSERT_ID(v_last);
    END;
    DECLARE EXIT HANDLER FOR 1205
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        /*!80000 SET SESSION innodb_lock_wait_timeout = v_before, @rowlock_limit = NULL; */
        SET unique_checks = v_unique, p_locked = TRUE;
        SET v_last = LAST_INSERT_ID(v_last);
    END;
    SET p_locked = FALSE;
    CALL rl_writable_for(p_name);
    /*!80000
    IF CAST(@rowlock_limit AS CHAR) REGEXP CONCAT('^[0-9]{1,9} ', v_before, '$') THEN
        SET v_before = SUBSTRING_INDEX(CAST(@rowlock_limit AS CHAR), ' ', 1);
    END IF;
    SET @rowlock_limit = CONCAT(v_before, ' ', 1);
    SET SESSION innodb_lock_wait_timeout = 1;
    */
    SET unique_checks = TRUE;
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    {{resource_find(name = p_name, now = v_now)}} INTO v_id, v_kind, v_idle, v_has_lock, v_has_renewal;
    IF v_id IS NULL THEN
        SET v_has_lock = FALSE, v_has_renewal = FALSE;
        /*M! SET STATEMENT innodb_lock_wait_timeout = 1 FOR */
        {{resource_create(name = p_name, kind = p_kind, now = v_now)}};
        SELECT id INTO v_id FROM resource WHERE resource_name = p_name;
        -- On MySQL, SET insert_id = 0 sets it, though it does not show.
        IF v_id = 0 THEN
            CALL rl_signal('RLINV', p_name, '%s: insert_id is set in this session; do the INSERT that it is for first');
        END IF;
        CALL rl_resource_begin_at(p_name, v_id);
    END IF;
    IF p_kind = 'pessimistic' AND NOT v_has_lock THEN
        /*M! SET STATEMENT innodb_lock_wait_timeout = 1 FOR */
        {{resource_create_lock(name = p_name, fenced = 0, id = v_id, now = v_now)}};
    ELSEIF p_kind = 'optimistic' AND NOT v_has_renewal THEN
        /*M! SET STATEMENT innodb_lock_wait_timeout = 1 FOR */
        {{resource_create_renewal(id = v_id)}};
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
    /*!80000 SET SESSION innodb_lock_wait_timeout = v_before, @rowlock_limit = NULL; */
    SET unique_checks = v_unique;
    SET v_last = LAST_INSERT_ID(v_last);
END;

-- Called in the transaction that has made the row. (It reads all freezes, which are few.)
CREATE PROCEDURE rl_resource_begin_at(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                      IN p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_floor BIGINT UNSIGNED;
    DECLARE v_frozen VARCHAR(32) CHARACTER SET ascii;
    DECLARE v_now DATETIME(6);
    DECLARE v_big BOOLEAN DEFAULT @@session.sql_big_selects;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_floor = NULL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        SET sql_big_selects = v_big;
        RESIGNAL;
    END;
    CALL rl_now(v_now);
    SET sql_big_selects = TRUE;
    {{resource_floor(name = p_name, now = v_now)}} INTO v_floor, v_frozen;
    SET sql_big_selects = v_big;
    IF v_floor IS NULL THEN
        CALL rl_signal('RLDMG', p_name, '%s could not be made: version_floor has lost its row; see `rowlock doctor`');
    END IF;
    {{resource_begin_at(version = v_floor, frozen_until = v_frozen, id = p_id)}};
END;

-- Keeps the name from being purged as unused. A failure does not matter.
CREATE PROCEDURE rl_resource_touch(IN p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION ROLLBACK AND NO CHAIN NO RELEASE;
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    {{resource_touch(id = p_id, now = v_now)}};
    COMMIT AND NO CHAIN NO RELEASE;
END;
