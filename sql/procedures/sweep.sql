-- The sweeper in the server: as src/admin/sweeper.c, with the same statements. The event rowlock_sweep (rowlock init --event)
-- calls rl_sweep. A batch is a transaction; rows that others have locked are left to the next sweep.

-- p_history_us, p_unused_us: 0 is for ever.
CREATE PROCEDURE rl_sweep(IN p_history_us BIGINT UNSIGNED, IN p_history_rows BIGINT UNSIGNED,
                          IN p_unused_us BIGINT UNSIGNED)
BEGIN
    DECLARE v_alone, v_begun BOOLEAN DEFAULT FALSE;
    DECLARE v_error VARCHAR(400) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_expired, v_readers, v_rows, v_events, v_purged BIGINT UNSIGNED DEFAULT 0;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        GET DIAGNOSTICS CONDITION 1 v_error = MESSAGE_TEXT;
        ROLLBACK AND NO CHAIN NO RELEASE;
        CALL rl_sweep_end(v_expired + v_rows, v_events, v_purged, v_error);
        DO RELEASE_LOCK('{bell}sweep');
        RESIGNAL;
    END;
    CALL rl_sweep_alone(v_alone);
    IF v_alone AND NOT ({{read_only}}) THEN
        -- Whatever the server's defaults are.
        SET SESSION autocommit = TRUE, sql_safe_updates = FALSE, sql_big_selects = TRUE;
        SET SESSION innodb_lock_wait_timeout = 1; -- who has it longer is left to the next run
        CALL rl_sweep_begin(v_begun);
    END IF;
    IF v_begun THEN
        CALL rl_sweep_leases(v_expired);
        CALL rl_sweep_shared(v_readers);
        CALL rl_sweep_rows(v_rows);
        CALL rl_sweep_history(p_history_us, p_history_rows, v_events);
        CALL rl_sweep_once(p_history_us, v_events);
        CALL rl_sweep_sessions();
        IF p_unused_us > 0 THEN
            CALL rl_sweep_names(p_unused_us, v_purged);
        END IF;
        CALL rl_sweep_end(v_expired + v_readers + v_rows, v_events, v_purged, '');
    END IF;
    IF v_alone THEN
        DO RELEASE_LOCK('{bell}sweep');
    END IF;
END;

-- Ends if another sweep is still running, which takes longer than the interval. If the server refuses GET_LOCK, two may run,
-- which does no harm.
CREATE PROCEDURE rl_sweep_alone(OUT p_alone BOOLEAN)
BEGIN
    DECLARE EXIT HANDLER FOR 1105, 1235, 1305, 1370 SET p_alone = TRUE;
    SET p_alone = COALESCE(GET_LOCK('{bell}sweep', 0), 0);
END;

-- If several nodes write, each may have the event enabled, and GET_LOCK is the node's own. A sweep ends if another node's began
-- in the last half of the interval; of several that begin at the same moment, the cluster certifies one.
CREATE PROCEDURE rl_sweep_begin(OUT p_begun BOOLEAN)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_many BOOLEAN;
    DECLARE EXIT HANDLER FOR 1205, 1213, 1020, 1180, 3101
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET p_begun = FALSE;
    END;
    CALL rl_quiet(v_many);
    CALL rl_now(v_now);
    UPDATE sweep_event
       SET started_at = v_now
     WHERE id = 1
       AND (NOT v_many
            OR started_at IS NULL
            -- (A time far ahead comes from a node with another clock.)
            OR ABS(TIMESTAMPDIFF(MICROSECOND, started_at, v_now)) >= every_s * 500000);
    SET p_begun = ROW_COUNT() > 0;
END;

-- For `rowlock doctor`. Another node's run may end in the same moment.
CREATE PROCEDURE rl_sweep_end(IN p_expired BIGINT UNSIGNED, IN p_events BIGINT UNSIGNED,
                              IN p_purged BIGINT UNSIGNED,
                              IN p_error VARCHAR(400) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_noted BOOLEAN DEFAULT FALSE;
    DECLARE v_tries INT DEFAULT 0;
    WHILE NOT v_noted AND v_tries < 10 DO
        SET v_tries = v_tries + 1;
        CALL rl_sweep_note(p_expired, p_events, p_purged, p_error, v_noted);
    END WHILE;
END;

CREATE PROCEDURE rl_sweep_note(IN p_expired BIGINT UNSIGNED, IN p_events BIGINT UNSIGNED,
                               IN p_purged BIGINT UNSIGNED,
                               IN p_error VARCHAR(400) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                               OUT p_noted BOOLEAN)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE EXIT HANDLER FOR 1205, 1213, 1020, 1180, 3101
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET p_noted = FALSE;
    END;
    SET p_noted = TRUE;
    CALL rl_now(v_now);
    UPDATE sweep_event
       SET ended_at = v_now,
           runs = runs + 1,
           failures = IF(p_error = '', 0, failures + 1),
           expired = p_expired,
           events = p_events,
           purged = p_purged,
           error = p_error
     WHERE id = 1;
END;

CREATE PROCEDURE rl_sweep_leases(OUT p_freed BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_names LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_count, v_got, v_size INT DEFAULT 100;
    DECLARE v_after, v_highest BIGINT UNSIGNED DEFAULT 0;
    SET p_freed = 0;
    WHILE v_count = v_size DO
        CALL rl_now(v_now);
        {{sweep_expired(after = v_after, limit = v_size, now = v_now)}} INTO v_names, v_count, v_after, v_highest;
        IF v_count > 0 THEN
            CALL rl_sweep_leases_batch(v_names, v_now, v_got);
            SET p_freed = p_freed + v_got;
        END IF;
    END WHILE;
END;

CREATE PROCEDURE rl_sweep_leases_batch(IN p_names LONGTEXT CHARACTER SET utf8mb4,
                                       IN p_now DATETIME(6), OUT p_got INT)
BEGIN
    DECLARE v_names LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_rows INT DEFAULT 0;
    DECLARE v_last, v_highest BIGINT UNSIGNED;
    DECLARE EXIT HANDLER FOR 1205, 1213, 1020, 1180, 3101
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET p_got = 0;
    END;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    {{sweep_expired_lock(names = p_names, now = p_now)}} INTO v_names, p_got, v_last, v_highest;
    IF p_got > 0 THEN
        -- The history first, since it records the old token and holder.
        {{sweep_expired_record(names = v_names, now = p_now)}};
        SET v_rows = ROW_COUNT();
        {{sweep_expired_free(names = v_names, now = p_now)}};
        SET v_rows = v_rows + ROW_COUNT();
    END IF;
    -- Three rows for each lease; if some are missing, the next sweep does it.
    IF v_rows = 3 * p_got THEN
        COMMIT AND NO CHAIN NO RELEASE;
    ELSE
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET p_got = 0;
    END IF;
END;

-- Expired readers; then names without readers, each statement a transaction of its own.
CREATE PROCEDURE rl_sweep_shared(OUT p_readers BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_names LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_count, v_size INT DEFAULT 100;
    DECLARE v_after, v_highest BIGINT UNSIGNED DEFAULT 0;
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin DEFAULT CONCAT('sweeper.', UUID());
    -- Rows that others have locked are left to the next sweep.
    DECLARE EXIT HANDLER FOR 1205, 1213, 1020, 1180, 3101 BEGIN END;
    SET p_readers = 0;
    WHILE v_count = v_size DO
        CALL rl_now(v_now);
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        {{sweep_readers(limit = v_size, now = v_now)}};
        SET v_count = ROW_COUNT(), p_readers = p_readers + v_count;
    END WHILE;
    SET v_count = v_size;
    WHILE v_count = v_size DO
        CALL rl_now(v_now);
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        {{sweep_shared(after = v_after, limit = v_size, now = v_now)}} INTO v_names, v_count, v_after, v_highest;
        IF v_count > 0 THEN
            SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
            {{sweep_shared_close(names = v_names, owner = v_owner, now = v_now)}};
            SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
            {{sweep_shared_free(names = v_names, owner = v_owner, now = v_now)}};
            SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
            {{sweep_shared_reopen(names = v_names, owner = v_owner)}};
        END IF;
    END WHILE;
END;

-- Published row locks whose row is not locked: their holders are dead. One by one. Not where several nodes write: another node's
-- row locks do not show here.
CREATE PROCEDURE rl_sweep_rows(OUT p_freed BIGINT UNSIGNED)
BEGIN
    DECLARE v_quiet, v_got BOOLEAN;
    DECLARE v_id, v_version BIGINT UNSIGNED DEFAULT 0;
    DECLARE v_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_held_us BIGINT;
    DECLARE v_now DATETIME(6);
    DECLARE v_found BOOLEAN DEFAULT TRUE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_found = FALSE;
    SET p_freed = 0;
    CALL rl_quiet(v_quiet);
    look: WHILE NOT v_quiet DO
        CALL rl_now(v_now);
        SET v_found = TRUE;
        {{sweep_published(after = v_id, now = v_now)}}
          INTO v_id, v_name, v_version, v_owner, v_label, v_held_us;
        IF NOT v_found THEN
            LEAVE look;
        END IF;
        CALL rl_sweep_row(v_id, v_name, v_version, v_owner, v_label, v_held_us, v_now, v_got);
        SET p_freed = p_freed + v_got;
    END WHILE;
END;

-- Does not wait for a fence's transaction, since others wait for the lock meanwhile.
CREATE PROCEDURE rl_sweep_row(IN p_id BIGINT UNSIGNED,
                              IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                              IN p_version BIGINT UNSIGNED,
                              IN p_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin,
                              IN p_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                              IN p_held_us BIGINT, IN p_now DATETIME(6), OUT p_got BOOLEAN)
BEGIN
    DECLARE v_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_id BIGINT UNSIGNED;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET p_got = FALSE;
    DECLARE EXIT HANDLER FOR 1205, 1213, 1020, 1180, 3101
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET p_got = FALSE;
    END;
    SET p_got = TRUE;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    -- (MariaDB takes no INTO after FOR UPDATE; a derived table's rows are locked, too.)
    SELECT x.resource_name INTO v_name FROM ({{row_probe(id = p_id)}}) AS x;
    IF p_got THEN
        SELECT id INTO v_id FROM resource WHERE id = p_id FOR UPDATE SKIP LOCKED;
    END IF;
    IF p_got THEN
        {{row_unpublish(id = p_id, version = p_version, owner = p_owner, now = p_now)}};
        SET p_got = ROW_COUNT() > 0;
    END IF;
    IF p_got THEN
        CALL rl_event(p_name, 'pessimistic', 'expired', p_version, p_owner, p_label, p_now, NULL,
                      p_held_us DIV 1000, 'its connection ended');
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
END;

CREATE PROCEDURE rl_sweep_history(IN p_age_us BIGINT UNSIGNED, IN p_rows BIGINT UNSIGNED,
                                  OUT p_forgotten BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_upto BIGINT UNSIGNED;
    DECLARE v_size INT DEFAULT 1000;
    DECLARE v_found, v_all BOOLEAN DEFAULT TRUE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_found = FALSE;
    SET p_forgotten = 0;
    old: WHILE p_age_us > 0 AND v_all DO
        CALL rl_now(v_now);
        {{sweep_events_before(age_us = p_age_us, limit = v_size, now = v_now)}} INTO v_upto;
        IF v_upto IS NULL THEN
            LEAVE old;
        END IF;
        CALL rl_sweep_forget(v_upto, p_forgotten, v_all);
    END WHILE;
    SET v_found = TRUE;
    {{sweep_events_beyond(keep = p_rows)}} INTO v_upto;
    IF v_found THEN
        CALL rl_sweep_forget(v_upto, p_forgotten, v_all);
    END IF;
END;

-- p_all FALSE: somebody else has some of them locked.
CREATE PROCEDURE rl_sweep_forget(IN p_upto BIGINT UNSIGNED, INOUT p_forgotten BIGINT UNSIGNED,
                                 OUT p_all BOOLEAN)
BEGIN
    DECLARE v_size, v_rows INT DEFAULT 100;
    DECLARE EXIT HANDLER FOR 1205, 1213, 1020, 1180, 3101
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET p_all = FALSE;
    END;
    SET p_all = TRUE;
    WHILE v_rows = v_size DO
        {{sweep_events_delete(upto = p_upto, limit = v_size)}};
        SET v_rows = ROW_COUNT();
        SET p_forgotten = p_forgotten + v_rows;
    END WHILE;
END;

CREATE PROCEDURE rl_sweep_sessions()
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_size, v_rows INT DEFAULT 100;
    DECLARE EXIT HANDLER FOR 1205, 1213, 1020, 1180, 3101 ROLLBACK AND NO CHAIN NO RELEASE;
    WHILE v_rows = v_size DO
        CALL rl_now(v_now);
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        {{sweep_sessions(limit = v_size, now = v_now)}};
        SET v_rows = ROW_COUNT();
    END WHILE;
END;

-- Old periods of `once`.
CREATE PROCEDURE rl_sweep_once(IN p_age_us BIGINT UNSIGNED, INOUT p_forgotten BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_size, v_rows INT DEFAULT 100;
    DECLARE EXIT HANDLER FOR 1205, 1213, 1020, 1180, 3101 ROLLBACK AND NO CHAIN NO RELEASE;
    WHILE p_age_us > 0 AND v_rows = v_size DO
        CALL rl_now(v_now);
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        {{sweep_once(age_us = p_age_us, limit = v_size, now = v_now)}};
        SET v_rows = ROW_COUNT();
        SET p_forgotten = p_forgotten + v_rows;
    END WHILE;
END;

CREATE PROCEDURE rl_sweep_names(IN p_unused_us BIGINT UNSIGNED, OUT p_purged BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_names LONGTEXT CHARACTER SET utf8mb4;
    DECLARE v_count, v_got, v_size INT DEFAULT 100;
    DECLARE v_after, v_highest BIGINT UNSIGNED DEFAULT 0;
    SET p_purged = 0;
    WHILE v_count = v_size DO
        CALL rl_now(v_now);
        {{purge_candidates(after = v_after, unused_us = p_unused_us, limit = v_size, now = v_now)}}
          INTO v_names, v_count, v_after, v_highest;
        IF v_count > 0 THEN
            CALL rl_sweep_names_batch(v_names, v_count, v_highest, p_unused_us, v_now, v_got);
            SET p_purged = p_purged + v_got;
        END IF;
    END WHILE;
END;

-- The floor is raised and committed before a name is deleted.
CREATE PROCEDURE rl_sweep_names_batch(IN p_names LONGTEXT CHARACTER SET utf8mb4, IN p_count INT,
                                      IN p_highest BIGINT UNSIGNED, IN p_unused_us BIGINT UNSIGNED,
                                      IN p_now DATETIME(6), OUT p_got INT)
BEGIN
    DECLARE v_left INT;
    DECLARE v_floor BIGINT UNSIGNED;
    DECLARE EXIT HANDLER FOR 1205, 1213, 1020, 1180, 3101
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET p_got = 0;
    END;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    {{purge_floor_raise(version = p_highest)}};
    -- Not with SET: a subquery there locks what it reads.
    SELECT MAX(version) INTO v_floor FROM version_floor WHERE id = 1;
    IF v_floor IS NULL THEN
        CALL rl_signal('RLDMG', '', 'the table version_floor has lost its row; INSERT (1, the highest version ever used)');
    END IF;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    {{purge_counts(names = p_names, unused_us = p_unused_us, now = p_now)}};
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    {{purge_names(names = p_names, unused_us = p_unused_us, now = p_now)}};
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    {{purge_row_locks(names = p_names, unused_us = p_unused_us, now = p_now)}};
    {{purge_left(names = p_names)}} INTO v_left;
    SET p_got = p_count - v_left;
END;
