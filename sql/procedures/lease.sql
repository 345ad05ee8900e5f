-- Leases: as src/kind/lease.c, with the same statements.

-- Checks that the lease is held with that token, by a writer or by readers. In a transaction it stays so until the end, since a
-- take-over waits for that. The row is read under a shared lock, so an old snapshot does not matter. (Renewals may be newer than
-- the snapshot, and locking them would block them; so, in a transaction, an expired lease counts as held until somebody has taken
-- it over.)
CREATE PROCEDURE rowlock_check(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                               IN p_token DECIMAL(40, 6))
BEGIN
    DECLARE v_token BIGINT UNSIGNED;
    DECLARE v_inside BOOLEAN;
    CALL rl_name_check(p_name);
    CALL rl_token_check('token', p_name, p_token, v_token);
    CALL rl_inside_for(p_name, v_inside);
    IF v_inside THEN
        CALL rl_joined('check', p_name, v_token, NULL);
    ELSE
        CALL rl_check_alone(p_name, v_token);
    END IF;
END;

CREATE PROCEDURE rl_check_inside(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                 IN p_token BIGINT UNSIGNED)
BEGIN
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_version BIGINT UNSIGNED;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_kind = NULL;
    SELECT kind, status, version INTO v_kind, v_status, v_version
      FROM resource WHERE resource_name = p_name LOCK IN SHARE MODE;
    CALL rl_lost(p_name, p_token, v_kind, IF(v_status = 'shared', 'held', v_status), v_version);
END;

CREATE PROCEDURE rl_check_alone(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                IN p_token BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id, v_version BIGINT UNSIGNED;
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_left_us BIGINT;
    -- A caller that has lost the lease may have read more, to ring its bell: with autocommit=0 that is a transaction.
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        RESIGNAL;
    END;
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    CALL rl_lease(p_name, v_now, v_id, v_kind, v_status, v_version, v_owner, v_left_us);
    COMMIT AND NO CHAIN NO RELEASE;
    CALL rl_lost(p_name, p_token, v_kind, IF(v_status = 'shared', 'held', v_status), v_version);
    IF v_status = 'held' AND v_left_us <= 0 THEN
        CALL rl_signal('RLLST', p_name, CONCAT('the lease on %s with token ', p_token, ' has run out; stop this work'));
    END IF;
END;

-- p_quiet: the server has no bells. So it is where several nodes write, since each has named locks of its own.
CREATE PROCEDURE rl_quiet(OUT p_quiet BOOLEAN)
BEGIN
    /*M! SET p_quiet = @@global.wsrep_on AND @@session.wsrep_on; */
    /*!80000 SET p_quiet = (SELECT COUNT(*) FROM performance_schema.global_variables
                             WHERE variable_name = 'group_replication_single_primary_mode'
                               AND variable_value = 'OFF') > 0
                      AND (SELECT COUNT(*) FROM performance_schema.global_variables
                            WHERE variable_name = 'group_replication_group_name'
                              AND variable_value <> '') > 0; */
END;

-- Takes the bell if nobody has it. A session takes it only once, so that one RELEASE_LOCK rings it.
CREATE PROCEDURE rl_bell_try(IN p_id BIGINT UNSIGNED, INOUT p_bell BOOLEAN)
BEGIN
    -- The server refuses GET_LOCK.
    DECLARE EXIT HANDLER FOR 1105, 1235, 1305, 1370 SET p_bell = FALSE;
    IF NOT p_bell THEN
        SET p_bell = COALESCE(IS_USED_LOCK(CONCAT('{bell}', p_id)) = CONNECTION_ID(), FALSE);
    END IF;
    IF NOT p_bell THEN
        SET p_bell = COALESCE(GET_LOCK(CONCAT('{bell}', p_id), 0), 0);
    END IF;
END;

CREATE PROCEDURE rl_bell_ring(IN p_id BIGINT UNSIGNED)
BEGIN
    DECLARE EXIT HANDLER FOR 1105, 1235, 1305, 1370 BEGIN END;
    DO RELEASE_LOCK(CONCAT('{bell}', p_id));
END;

-- Stands in the bell's queue, for whole seconds. The text of the statement says who waits, for `rowlock ls` (sql/bell.sql), so it
-- is made here. After KILL QUERY MySQL raises an error; MariaDB goes on with NULL.
CREATE PROCEDURE rl_bell_wait(IN p_id BIGINT UNSIGNED, IN p_seconds INT UNSIGNED,
                              IN p_waited_ms BIGINT UNSIGNED,
                              IN p_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin,
                              IN p_label VARCHAR(255) CHARACTER SET utf8mb4, OUT p_bell BOOLEAN)
BEGIN
    DECLARE v_refused BOOLEAN DEFAULT FALSE;
    -- There are no bells here, or a deadlock with other bells of this session: it polls.
    DECLARE CONTINUE HANDLER FOR 1105, 1213, 1235, 1305, 1370, 3058 SET v_refused = TRUE;
    SET @rowlock_wait = CONCAT('SELECT GET_LOCK(''{bell}', p_id, ''', ', p_seconds, '), ''rowlock-waiter'', ',
        p_id, ', ', p_waited_ms, ', ''', p_owner, ''', ''', LOWER(HEX(p_label)),
        ''' INTO @rowlock_wait,@rowlock_who,@rowlock_who,@rowlock_who,@rowlock_who,@rowlock_who');
    PREPARE rowlock_wait FROM @rowlock_wait;
    SET @rowlock_wait = NULL;
    EXECUTE rowlock_wait;
    DEALLOCATE PREPARE rowlock_wait;
    SET p_bell = @rowlock_wait, @rowlock_wait = NULL, @rowlock_who = NULL;
    IF p_bell IS NULL AND NOT v_refused THEN
        CALL rl_stopped();
    END IF;
    SET p_bell = COALESCE(p_bell, FALSE);
END;

-- Why a lease cannot be taken: the verdict of resource_look, or GONE (purged), or FROZEN; p_text: the message, if the caller has
-- to wait.
CREATE PROCEDURE rl_look(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                         IN p_id BIGINT UNSIGNED,
                         IN p_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin,
                         IN p_now DATETIME(6),
                         OUT p_verdict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
                         OUT p_left_us BIGINT, OUT p_rings BOOLEAN, OUT p_text VARCHAR(400) CHARACTER SET utf8mb4,
                         OUT p_version BIGINT UNSIGNED,
                         OUT p_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                         OUT p_held_us BIGINT, OUT p_ours BOOLEAN)
BEGIN
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_read_only BOOLEAN;
    DECLARE v_connection BIGINT UNSIGNED;
    DECLARE v_frozen BOOLEAN DEFAULT FALSE;
    DECLARE v_guarded BIGINT UNSIGNED DEFAULT 0;
    DECLARE v_last_ours BOOLEAN;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET p_verdict = 'GONE', p_left_us = 0;
    {{resource_look(id = p_id, name = p_name, owner = p_owner, kind = 'optimistic', now = p_now)}}
      INTO v_kind, p_verdict, p_left_us, p_version, p_ours, p_label, p_held_us, v_connection, v_read_only, v_frozen, v_guarded,
           v_last_ours;
    IF v_frozen AND p_verdict NOT IN ('GONE', 'WRONG_KIND', 'HELD') THEN
        SET p_verdict = 'FROZEN', p_left_us = 1000000;
    ELSEIF v_guarded > 0 THEN
        SET p_verdict = 'GUARDED', p_left_us = 0;
    END IF;
    SET p_rings = v_connection <> 0;
    CASE p_verdict
        WHEN 'WRONG_KIND' THEN CALL rl_wrong_kind(p_name, v_kind, 'optimistic');
        WHEN 'GONE' THEN SET p_text = '%s was purged just now';
        WHEN 'RESERVED' THEN SET p_text = '%s is free, but reserved for the next waiter';
        WHEN 'COOLING' THEN
            SET p_text = CONCAT('nobody holds %s, but it is closed for another ', FORMAT(p_left_us / 1e6, 3, 'en_US'),
                                ' s (at-least, or it was broken)');
        WHEN 'GUARDED' THEN SET p_text = CONCAT('%s: sessions of its last holder (token ', p_version, ') are still there');
        WHEN 'HELD' THEN
            SET p_text = CONCAT('%s is held (token ', p_version, ', lease ends in ',
                                FORMAT(p_left_us / 1e6, 3, 'en_US'), ' s) by ', p_label);
        WHEN 'SHARED' THEN SET p_text = '%s is held by readers, or was';
        WHEN 'DRAINING' THEN SET p_text = CONCAT('%s is held by readers, and ', p_label, ' is the next');
        ELSE SET p_text = NULL;
    END CASE;
END;

-- The same for a waiter, without a transaction, which KILL QUERY would leave open, since it runs no handler. The COMMIT is for
-- autocommit=0.
CREATE PROCEDURE rl_glance(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                           IN p_id BIGINT UNSIGNED,
                           OUT p_verdict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
                           OUT p_left_us BIGINT, OUT p_rings BOOLEAN, OUT p_text VARCHAR(400) CHARACTER SET utf8mb4)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_version BIGINT UNSIGNED;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_held_us BIGINT;
    DECLARE v_ours BOOLEAN;
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    CALL rl_look(p_name, p_id, '', v_now, p_verdict, p_left_us, p_rings, p_text, v_version, v_label, v_held_us, v_ours);
    COMMIT AND NO CHAIN NO RELEASE;
END;

-- A writer's step at a name that readers have, or had: as rl_shared_drain(). The transaction has the resource's row locked, so
-- nobody can be entering, and all readers are seen. p_closed: it is closed for us, for some more seconds. p_try: it is not closed
-- while readers are left. p_verdict: GRANTED; CLOSED: for us; CHANGED; or SHARED.
CREATE PROCEDURE rl_drain(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_id BIGINT UNSIGNED,
                          IN p_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin,
                          IN p_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                          IN p_ttl_us BIGINT UNSIGNED, IN p_version BIGINT UNSIGNED, IN p_turn BOOLEAN,
                          IN p_bell BOOLEAN, IN p_closed BOOLEAN, IN p_try BOOLEAN, IN p_now DATETIME(6),
                          OUT p_verdict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
BEGIN
    -- Without an answer a reader may be left (sql/shared.sql).
    DECLARE v_reader VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin DEFAULT '?';
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_left_us BIGINT DEFAULT 1;
    DECLARE v_ours BOOLEAN;
    DECLARE v_expired BOOLEAN DEFAULT FALSE;
    -- Switched off meanwhile, since it would refuse shared_take.
    DECLARE v_safe BOOLEAN DEFAULT @@session.sql_safe_updates;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        SET sql_safe_updates = v_safe;
        RESIGNAL;
    END;
    look: LOOP
        {{shared_reader(version = p_version, owner = p_owner, id = p_id, now = p_now)}}
          INTO v_ours, v_reader, v_label, v_left_us;
        IF v_reader = '' OR v_left_us > 0 OR v_expired THEN
            LEAVE look;
        END IF;
        {{shared_expire(id = p_id, now = p_now)}};
        SET v_expired = TRUE;
    END LOOP;
    SET p_verdict = IF(p_closed, 'CLOSED', 'SHARED');
    IF v_reader = '' OR NOT (p_closed OR p_try) THEN
        {{shared_close(turn = p_turn, bell = '{bell}', seen = p_version, owner = p_owner, label = p_label,
                       ttl_us = 10000000, id = p_id, name = p_name, now = p_now)}};
        IF ROW_COUNT() = 0 THEN
            SET p_verdict = 'SHARED';
        ELSEIF v_reader <> '' THEN
            SET p_verdict = 'CLOSED';
        ELSE
            SET sql_safe_updates = FALSE;
            {{shared_take(seen = p_version, owner = p_owner, label = p_label,
                          connection_id = IF(p_bell, CONNECTION_ID(), 0), ttl_us = p_ttl_us, id = p_id,
                          name = p_name, now = p_now)}};
            SET p_verdict = IF(ROW_COUNT() > 0, 'GRANTED', 'CHANGED'), sql_safe_updates = v_safe;
        END IF;
    END IF;
END;

-- The next writer stops waiting. If a transaction has the row locked (a reader's fence), this neither waits nor does anything:
-- the name is open again ten seconds after the next writer's last sign of life.
CREATE PROCEDURE rl_undrain(IN p_id BIGINT UNSIGNED, IN p_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin)
BEGIN
    DECLARE v_locked BIGINT UNSIGNED;
    DECLARE v_tries INT DEFAULT 0;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION ROLLBACK AND NO CHAIN NO RELEASE;
    WHILE v_locked IS NULL AND v_tries < 10 DO
        SET v_tries = v_tries + 1;
        START TRANSACTION;
        SELECT id INTO v_locked FROM resource WHERE id = p_id FOR UPDATE SKIP LOCKED;
        IF v_locked IS NOT NULL THEN
            {{shared_reopen(id = p_id, owner = p_owner)}};
        END IF;
        COMMIT AND NO CHAIN NO RELEASE;
        IF v_locked IS NULL THEN
            DO SLEEP(0.01);
        END IF;
    END WHILE;
END;

-- A reader's step, in a transaction that has the resource's row locked in share mode, as all entering readers have: so they enter
-- beside each other, and beside the fences of others. Only the first one, which opens the name, needs an exclusive lock.
-- p_version: that of the look; afterwards the token. p_verdict: GRANTED; CHANGED: try again at once; or unchanged.
CREATE PROCEDURE rl_enter(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_id BIGINT UNSIGNED,
                          IN p_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin,
                          IN p_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                          IN p_ttl_us BIGINT UNSIGNED, IN p_bell BOOLEAN, IN p_now DATETIME(6),
                          INOUT p_version BIGINT UNSIGNED,
                          INOUT p_verdict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
BEGIN
    DECLARE v_alone BIGINT UNSIGNED;
    DECLARE v_in BOOLEAN;
    -- See rl_event.
    DECLARE v_unique BOOLEAN DEFAULT @@session.unique_checks;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        SET unique_checks = v_unique;
        RESIGNAL;
    END;
    SET unique_checks = TRUE;
    {{shared_enter(owner = p_owner, label = p_label, ttl_us = p_ttl_us, id = p_id, name = p_name, now = p_now)}};
    SET v_in = ROW_COUNT() > 0;
    IF NOT v_in THEN
        SELECT id INTO v_alone FROM resource WHERE id = p_id FOR UPDATE SKIP LOCKED;
    END IF;
    IF v_alone IS NOT NULL THEN
        IF p_verdict = 'EXPIRED' THEN
            {{lease_expire(seen = p_version, id = p_id, now = p_now)}};
            SET p_version = p_version + 1;
        END IF;
        {{shared_open(turn = p_bell, bell = '{bell}', id = p_id, name = p_name, now = p_now)}};
        {{shared_enter(owner = p_owner, label = p_label, ttl_us = p_ttl_us, id = p_id, name = p_name, now = p_now)}};
        SET v_in = ROW_COUNT() > 0;
    END IF;
    SET unique_checks = v_unique;
    IF v_in THEN
        SET p_verdict = 'GRANTED', p_version = GREATEST(p_version, 1);
    ELSEIF v_alone IS NULL OR p_verdict = 'EXPIRED' THEN
        SET p_verdict = 'CHANGED';
    END IF;
END;

-- One attempt to take a lease, in one transaction. p_quiet: there are no bells. p_shared: as a reader. p_try: the caller does not
-- wait. p_bell: this session has the lease's bell (after a grant, if it could get it). p_verdict: GRANTED; CHANGED (a deadlock, a
-- late renewal) or GONE: try again at once; CLOSED: readers are left, and we are the next writer; IN_TRANSACTION: a transaction
-- has locked the row; or resource_look's, with the message p_text and p_left_us. p_rings: its holder has the bell. p_slots_id:
-- the name whose slot p_slot this is, which rl_slot_kept may refuse (CHANGED, LINE); or NULL.
CREATE PROCEDURE rl_attempt(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                            IN p_id BIGINT UNSIGNED,
                            IN p_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin,
                            IN p_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                            IN p_ttl_us BIGINT UNSIGNED, IN p_started DATETIME(6), IN p_quiet BOOLEAN,
                            IN p_shared BOOLEAN, IN p_try BOOLEAN, IN p_slots_id BIGINT UNSIGNED, IN p_slot INT UNSIGNED,
                            IN p_pass BOOLEAN, INOUT p_bell BOOLEAN, OUT p_token BIGINT UNSIGNED,
                            OUT p_verdict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
                            OUT p_left_us BIGINT, OUT p_rings BOOLEAN,
                            OUT p_text VARCHAR(400) CHARACTER SET utf8mb4)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_detail, v_from VARCHAR(600) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_locked, v_version BIGINT UNSIGNED;
    DECLARE v_held_us BIGINT;
    DECLARE v_had, v_ours, v_over BOOLEAN;
    DECLARE v_kept VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin DEFAULT 'KEPT';
    DECLARE v_last BIGINT UNSIGNED DEFAULT LAST_INSERT_ID();
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        IF p_bell AND NOT v_had THEN
            CALL rl_bell_ring(p_id);
        END IF;
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR 1205, 1213, 1020, 1180, 3101
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        IF p_bell AND NOT v_had THEN
            CALL rl_bell_ring(p_id);
        END IF;
        SET p_bell = v_had, p_verdict = 'CHANGED';
    END;
    SET v_had = p_bell, p_token = NULL, p_text = NULL, p_left_us = 0;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    IF p_slots_id IS NOT NULL THEN
        CALL rl_slot_kept(p_slots_id, p_slot, p_pass, v_kept);
    END IF;
    IF p_shared THEN
        SELECT id INTO v_locked FROM resource WHERE id = p_id /*M! LOCK IN SHARE MODE */ /*!80000 FOR SHARE */ SKIP LOCKED;
    ELSE
        SELECT id INTO v_locked FROM resource WHERE id = p_id FOR UPDATE SKIP LOCKED;
    END IF;
    CALL rl_now(v_now); -- not before: a release in between would seem to be without a bell
    CALL rl_look(p_name, p_id, p_owner, v_now, p_verdict, p_left_us, p_rings, p_text, v_version, v_label, v_held_us, v_ours);
    SET v_from = CONCAT('from ', v_label, ', token ', v_version, ', held ', v_held_us DIV 1000, ' ms, whose lease ran out');
    IF v_kept <> 'KEPT' THEN
        SET p_verdict = v_kept;
    ELSEIF p_verdict IN ('GONE', 'COOLING', 'FROZEN', 'GUARDED') OR (p_verdict = 'DRAINING' AND (p_shared OR NOT v_ours))
       OR (p_verdict = 'HELD' AND (p_shared OR NOT p_bell)) THEN
        DO 0;
    ELSEIF v_locked IS NULL THEN
        SET p_verdict = 'IN_TRANSACTION', p_text = '%s is in use by a transaction; try again later';
    ELSEIF p_shared THEN
        SET v_detail = IF(p_verdict = 'EXPIRED', v_from, NULL);
        CALL rl_enter(p_name, p_id, p_owner, p_label, p_ttl_us, p_bell, v_now, v_version, p_verdict);
    ELSE
        IF NOT p_quiet AND p_verdict <> 'HELD' THEN
            CALL rl_bell_try(p_id, p_bell);
        END IF;
        IF p_bell THEN
            -- Also a lease whose version its holder has waived (lease_waive).
            {{lease_inherit(owner = p_owner, label = p_label, ttl_us = p_ttl_us, id = p_id, name = p_name,
                            bell = '{bell}', now = v_now)}};
            SET p_verdict = IF(ROW_COUNT() > 0, 'GRANTED', p_verdict);
        ELSEIF p_verdict = 'FREE' OR (p_verdict = 'RESERVED' AND p_quiet) THEN
            {{lease_acquire_quiet(owner = p_owner, label = p_label, ttl_us = p_ttl_us, id = p_id,
                                  name = p_name, now = v_now)}};
            SET p_verdict = IF(ROW_COUNT() > 0, 'GRANTED', 'CHANGED');
        END IF;
        IF p_verdict IN ('SHARED', 'DRAINING') THEN
            -- It has been shared for a second, and we have waited as long: the holder of the bell does not come (its call was
            -- killed).
            SET v_over = p_left_us <= 0 AND TIMESTAMPDIFF(MICROSECOND, p_started, v_now) > 1000000;
            CALL rl_drain(p_name, p_id, p_owner, p_label, p_ttl_us, v_version, p_bell OR p_quiet OR v_ours OR v_over,
                          p_bell, v_ours AND p_left_us > 5000000, p_try, v_now, p_verdict);
        END IF;
        IF p_verdict = 'EXPIRED' THEN
            {{lease_take_over(seen = v_version, owner = p_owner, label = p_label,
                              connection_id = IF(p_bell, CONNECTION_ID(), 0), ttl_us = p_ttl_us, id = p_id,
                              name = p_name, now = v_now)}};
            SET p_verdict = IF(ROW_COUNT() > 0, 'GRANTED', 'CHANGED'), v_detail = v_from;
        END IF;
    END IF;
    SET p_left_us = GREATEST(p_left_us, 0);
    IF p_verdict = 'GRANTED' THEN
        SET v_version = v_version + (NOT p_shared);
        CALL rl_event(p_name, 'optimistic', IF(v_detail IS NULL, 'acquired', 'taken_over'), v_version,
                      p_owner, p_label, v_now, TIMESTAMPDIFF(MICROSECOND, p_started, v_now) DIV 1000, NULL, v_detail);
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
    IF p_verdict = 'GRANTED' THEN
        SET p_token = v_version;
    ELSEIF p_bell AND NOT v_had AND p_verdict <> 'CLOSED' THEN
        CALL rl_bell_ring(p_id);
        SET p_bell = FALSE;
    END IF;
    SET v_last = LAST_INSERT_ID(v_last);
END;

-- Takes a lease, or returns p_token NULL with p_state and p_text (rl_signal). p_shared: as a reader, p_owner. A reader keeps no
-- bell, so that the next one can enter, too.
CREATE PROCEDURE rl_acquire(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                            IN p_ttl DECIMAL(40, 6), IN p_wait DECIMAL(40, 6), IN p_shared BOOLEAN,
                            OUT p_token BIGINT UNSIGNED,
                            OUT p_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin,
                            OUT p_state CHAR(5) CHARACTER SET ascii COLLATE ascii_bin,
                            OUT p_text VARCHAR(400) CHARACTER SET utf8mb4)
BEGIN
    DECLARE v_started, v_now DATETIME(6);
    DECLARE v_id, v_next, v_ttl_us BIGINT UNSIGNED;
    -- v_closed: closed for readers, since we are the next writer.
    DECLARE v_quiet, v_bell, v_had, v_rings, v_waited, v_closed BOOLEAN DEFAULT FALSE;
    DECLARE v_ended, v_there INT DEFAULT 0; -- sessions of the last holder
    DECLARE v_session BIGINT UNSIGNED;
    DECLARE v_why VARCHAR(100) CHARACTER SET utf8mb4;
    DECLARE v_login CHAR(27) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
        DEFAULT CONCAT(LEFT(USER(), 200), ' ', CONNECTION_ID(), ' sql');
    DECLARE v_verdict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_left_us, v_budget_us, v_waited_us BIGINT;
    -- A try waits 20 ms for a lease that is free but reserved; for ever is 100 years.
    DECLARE v_wait_us BIGINT DEFAULT IF(p_wait IS NULL OR p_wait < 0, 3e15, LEAST(p_wait, 3e9) * 1000000);
    DECLARE v_delay_us BIGINT DEFAULT 1000;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        IF v_closed THEN
            CALL rl_undrain(v_id, p_owner);
        END IF;
        IF v_bell AND NOT v_had THEN
            CALL rl_bell_ring(v_id);
        END IF;
        RESIGNAL;
    END;
    CALL rl_name_check(p_name);
    CALL rl_ttl_check(p_name, p_ttl, v_ttl_us);
    CALL rl_alone('taking a lease on', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_login(v_login);
    SET p_owner = CONCAT(v_login, LOWER(HEX(RANDOM_BYTES(16))));
    CALL rl_quiet(v_quiet);
    IF p_shared AND v_quiet THEN
        CALL rl_signal('RLUNS', p_name,
                       'a writer at another node of this cluster would not see readers of %s here; hold it alone');
    END IF;
    CALL rl_now(v_started);
    CALL rl_resource(p_name, 'optimistic', v_wait_us, v_next);
    SET v_id = v_next;
    IF v_id IS NOT NULL AND NOT v_quiet THEN
        SET v_had = COALESCE(IS_USED_LOCK(CONCAT('{bell}', v_id)) = CONNECTION_ID(), FALSE), v_bell = v_had;
    END IF;
    take: LOOP
        IF v_next IS NULL THEN
            SET p_text = '%s is new, and a transaction has locked the place where it belongs; try again later';
            LEAVE take;
        END IF;
        IF v_id <> v_next THEN
            IF v_bell AND NOT v_had THEN
                CALL rl_bell_ring(v_id); -- of a row that was purged
            END IF;
            SET v_bell = FALSE, v_had = FALSE;
        END IF;
        SET v_id = v_next;
        IF v_waited THEN
            CALL rl_glance(p_name, v_id, v_verdict, v_left_us, v_rings, p_text);
            SET v_closed = v_closed AND v_verdict = 'DRAINING';
        END IF;
        IF NOT v_waited OR v_closed OR v_verdict IN ('FREE', 'RESERVED', 'EXPIRED', 'SHARED')
           OR (v_verdict = 'HELD' AND v_bell) THEN
            CALL rl_attempt(p_name, v_id, p_owner, v_label, v_ttl_us, v_started, v_quiet, p_shared, v_wait_us = 0,
                            NULL, NULL, FALSE, v_bell, p_token, v_verdict, v_left_us, v_rings, p_text);
            SET v_closed = v_verdict = 'CLOSED' OR (v_closed AND v_verdict IN ('CHANGED', 'IN_TRANSACTION'));
        END IF;
        IF v_verdict = 'GUARDED' THEN
            CALL rl_guard_end(p_name, v_id, v_label, v_ended, v_there, v_session, v_why);
            SET v_verdict = IF(v_there = 0, 'CHANGED', 'GUARDED'),
                p_text = CONCAT('%s: session ', v_session, ' of its last holder is still there: ', v_why);
        END IF;
        SET v_waited = TRUE;
        IF v_verdict = 'GRANTED' THEN
            LEAVE take;
        END IF;
        CALL rl_now(v_now);
        SET v_waited_us = GREATEST(TIMESTAMPDIFF(MICROSECOND, v_started, v_now), 0),
            v_budget_us = v_wait_us - v_waited_us;
        IF v_wait_us = 0 AND (v_verdict IN ('RESERVED', 'CHANGED', 'GONE', 'GUARDED') OR (p_shared AND v_verdict = 'IN_TRANSACTION')) THEN
            SET v_budget_us = 20000 - v_waited_us;
        END IF;
        IF v_budget_us <= 0 THEN
            LEAVE take;
        END IF;
        IF v_verdict IN ('CHANGED', 'GONE') THEN
            CALL rl_resource(p_name, 'optimistic', v_budget_us, v_next);
        END IF;
        IF v_quiet OR v_bell OR v_closed OR v_verdict IN ('CHANGED', 'GONE', 'GUARDED') OR v_budget_us < 1000000 THEN
            -- It is our turn, but the lease cannot be taken yet; or there is no bell to wait for. The last reader to leave wakes
            -- nobody.
            SET v_delay_us = LEAST(v_delay_us * 2, IF(v_closed OR v_verdict = 'GUARDED', 50000, 250000));
            CALL rl_sleep(LEAST(v_delay_us * (0.5 + RAND() / 2), v_budget_us,
                                IF(v_verdict = 'HELD', v_left_us + 1000, v_delay_us)));
        ELSE
            -- In the queue until the bell comes, or until nobody can ring: the holder has died, or never had the bell. For four
            -- seconds at most, as in C, since the next holder may have a shorter lease.
            CALL rl_bell_wait(v_id, LEAST(GREATEST(IF(v_verdict = 'COOLING' OR (v_verdict = 'HELD' AND v_rings),
                                                      CEIL(v_left_us / 1e6), 1), 1),
                                          FLOOR(v_budget_us / 1e6), 4),
                              v_waited_us DIV 1000, p_owner, v_label, v_bell);
            IF NOT v_bell THEN
                CALL rl_sleep(RAND() * 50000);
            END IF;
        END IF;
    END LOOP;
    IF p_token IS NULL THEN
        IF v_closed THEN
            SET p_text = '%s is held by readers';
            CALL rl_undrain(v_id, p_owner);
        END IF;
        CALL rl_frozen(v_id, v_verdict);
        SET p_state = CASE WHEN v_verdict = 'FROZEN' THEN 'RLFRZ' WHEN v_wait_us = 0 THEN 'RLBSY' ELSE 'RLTMO' END,
            p_text = IF(v_verdict = 'FROZEN', '%s is frozen; nobody gets it before it is thawed',
                        COALESCE(p_text, '%s is in use'));
    END IF;
    IF v_bell AND NOT v_had AND (p_shared OR p_token IS NULL) THEN
        CALL rl_bell_ring(v_id);
    END IF;
END;

CREATE PROCEDURE rowlock_acquire(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                 IN p_ttl DECIMAL(40, 6), IN p_wait DECIMAL(40, 6),
                                 OUT p_token BIGINT UNSIGNED)
BEGIN
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_state CHAR(5) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_text VARCHAR(400) CHARACTER SET utf8mb4;
    CALL rl_acquire(p_name, p_ttl, p_wait, FALSE, p_token, v_owner, v_state, v_text);
    IF p_token IS NULL THEN
        CALL rl_signal(v_state, p_name, v_text);
    END IF;
END;

CREATE PROCEDURE rowlock_try(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                             IN p_ttl DECIMAL(40, 6), OUT p_token BIGINT UNSIGNED)
BEGIN
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_state CHAR(5) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_text VARCHAR(400) CHARACTER SET utf8mb4;
    CALL rl_acquire(p_name, p_ttl, 0, FALSE, p_token, v_owner, v_state, v_text);
END;

-- Shared with all others that ask for it so. p_reader: identifies the reader for its renewal and release, since readers have the
-- same token.
CREATE PROCEDURE rowlock_acquire_shared(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                        IN p_ttl DECIMAL(40, 6), IN p_wait DECIMAL(40, 6),
                                        OUT p_token BIGINT UNSIGNED,
                                        OUT p_reader LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_state CHAR(5) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_text VARCHAR(400) CHARACTER SET utf8mb4;
    CALL rl_acquire(p_name, p_ttl, p_wait, TRUE, p_token, p_reader, v_state, v_text);
    IF p_token IS NULL THEN
        CALL rl_signal(v_state, p_name, v_text);
    END IF;
END;

-- Deletes the reader's row and writes the line of the history in a transaction each, so that no step can leave one open.
CREATE PROCEDURE rowlock_release_shared(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                        IN p_reader LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_reader VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_id, v_version BIGINT UNSIGNED;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_acquired, v_now DATETIME(6);
    DECLARE v_left BOOLEAN;
    CALL rl_name_check(p_name);
    CALL rl_reader_check(p_name, p_reader, v_reader);
    CALL rl_alone('releasing', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_reader(p_name, v_reader, v_id, v_version, v_label, v_acquired);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    {{shared_leave(id = v_id, version = v_version, owner = v_reader)}};
    SET v_left = ROW_COUNT() > 0 AND v_version <> 0;
    COMMIT AND NO CHAIN NO RELEASE;
    IF NOT v_left THEN
        -- It was broken: writers need not wait for this reader any longer.
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        {{shared_ended(id = v_id, owner = v_reader)}};
        COMMIT AND NO CHAIN NO RELEASE;
        CALL rl_reader_lost(p_name);
    END IF;
    CALL rl_now(v_now);
    CALL rl_event(p_name, 'optimistic', 'released', v_version, v_reader, v_label, v_now, NULL,
                  TIMESTAMPDIFF(MICROSECOND, v_acquired, v_now) DIV 1000, NULL);
    COMMIT AND NO CHAIN NO RELEASE;
END;

CREATE PROCEDURE rowlock_renew_shared(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                      IN p_reader LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                      IN p_ttl DECIMAL(40, 6))
BEGIN
    DECLARE v_reader VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_id, v_version, v_ttl_us BIGINT UNSIGNED;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_acquired, v_now DATETIME(6);
    DECLARE v_renewed BOOLEAN;
    CALL rl_name_check(p_name);
    CALL rl_reader_check(p_name, p_reader, v_reader);
    CALL rl_ttl_check(p_name, p_ttl, v_ttl_us);
    CALL rl_alone('renewing', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_reader(p_name, v_reader, v_id, v_version, v_label, v_acquired);
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    -- As shared_renew, for one reader. (See rl_renew.)
    UPDATE lock_grant
       SET expires_at = v_now + INTERVAL v_ttl_us MICROSECOND
     WHERE resource_id = v_id AND owner = v_reader AND version <> 0 AND expires_at > v_now;
    SET v_renewed = ROW_COUNT() > 0;
    COMMIT AND NO CHAIN NO RELEASE;
    IF NOT v_renewed THEN
        CALL rl_reader_lost(p_name);
    END IF;
END;

-- The row of a reader that this login has taken by SQL; it may have expired or been broken (version 0). Else an error.
CREATE PROCEDURE rl_reader(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                           IN p_reader VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin,
                           OUT p_id BIGINT UNSIGNED, OUT p_version BIGINT UNSIGNED,
                           OUT p_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                           OUT p_acquired DATETIME(6))
BEGIN
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_login CHAR(27) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_kind = NULL;
    CALL rl_login(v_login);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT r.id, r.kind, g.version, g.owner_label, g.acquired_at
      INTO p_id, v_kind, p_version, p_label, p_acquired
      FROM resource r
      LEFT JOIN lock_grant g ON g.resource_id = r.id AND g.owner = p_reader
     WHERE r.resource_name = p_name;
    COMMIT AND NO CHAIN NO RELEASE;
    IF v_kind IS NULL THEN
        CALL rl_signal('RLNOF', p_name, 'there is no lock %s; look at its spelling');
    ELSEIF v_kind <> 'optimistic' THEN
        CALL rl_wrong_kind(p_name, v_kind, 'optimistic');
    ELSEIF p_version IS NULL OR LEFT(p_reader, 27) <> v_login THEN
        CALL rl_reader_lost(p_name);
    END IF;
END;

CREATE PROCEDURE rl_reader_lost(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    CALL rl_signal('RLLST', p_name, '%s is not held by that reader, of this login, any more; stop this work');
END;

-- Releases a lease that this login has taken by SQL. In a transaction it is released at the COMMIT; the waiter that is woken
-- waits for that.
CREATE PROCEDURE rowlock_release(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                 IN p_token DECIMAL(40, 6))
BEGIN
    DECLARE v_token, v_none BIGINT UNSIGNED;
    DECLARE v_inside BOOLEAN;
    DECLARE EXIT HANDLER FOR SQLSTATE 'RLLST'
    BEGIN
        IF NOT v_inside THEN
            CALL rl_reopen(p_name, v_token);
        END IF;
        RESIGNAL;
    END;
    CALL rl_name_check(p_name);
    CALL rl_token_check('token', p_name, p_token, v_token);
    CALL rl_writable_for(p_name);
    CALL rl_inside_for(p_name, v_inside);
    IF v_inside THEN
        CALL rl_joined('release', p_name, v_token, NULL);
    ELSE
        CALL rl_own('release', p_name, v_token, v_none);
    END IF;
END;

-- A change in a transaction of its own, repeated if the server rolled it back to end a deadlock, or a cluster preferred another
-- node's. It never waits for a row in its transaction: KILL QUERY runs no handler (on MySQL in no statement, on MariaDB not
-- between two), and the transaction would stay open. Instead, it sleeps between tries, for up to the session's
-- innodb_lock_wait_timeout.
CREATE PROCEDURE rl_own(IN p_what VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
                        IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                        IN p_token BIGINT UNSIGNED, INOUT p_number BIGINT UNSIGNED)
BEGIN
    DECLARE v_tries INT DEFAULT 0;
    DECLARE v_waited_us BIGINT DEFAULT 0;
    DECLARE v_delay_us BIGINT DEFAULT 1000;
    DECLARE v_done BOOLEAN DEFAULT FALSE;
    DECLARE v_unlocked BOOLEAN DEFAULT TRUE;
    own: LOOP
        IF v_unlocked THEN
            CALL rl_own_try(p_what, p_name, p_token, p_number, v_tries, v_done);
        END IF;
        IF v_done THEN
            LEAVE own;
        END IF;
        IF v_waited_us > @@session.innodb_lock_wait_timeout * 1000000 THEN
            CALL rl_signal('RLBSY', p_name, '%s is in use by a transaction; try again later');
        END IF;
        SET v_delay_us = LEAST(v_delay_us * 2, 50000), v_waited_us = v_waited_us + v_delay_us;
        CALL rl_sleep(v_delay_us * (0.5 + RAND() / 2));
        CALL rl_own_lock(p_what, p_name, v_unlocked);
        COMMIT AND NO CHAIN NO RELEASE; -- for autocommit=0
    END LOOP;
END;

-- p_done FALSE: the row is locked, or the server has rolled it back.
CREATE PROCEDURE rl_own_try(IN p_what VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
                            IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                            IN p_token BIGINT UNSIGNED, INOUT p_number BIGINT UNSIGNED,
                            INOUT p_tries INT, OUT p_done BOOLEAN)
BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR 1213, 1020, 1180, 3101
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET p_tries = p_tries + 1, p_done = FALSE;
        IF p_tries = 20 THEN
            RESIGNAL;
        END IF;
    END;
    SET p_done = FALSE;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    CALL rl_own_lock(p_what, p_name, p_done);
    IF p_done THEN
        CASE p_what
            WHEN 'release' THEN CALL rl_release(p_name, p_token);
            WHEN 'renew' THEN CALL rl_renew(p_name, p_token, p_number);
            WHEN 'break' THEN CALL rl_break(p_name, p_token, p_number);
            WHEN 'version' THEN CALL rl_version(p_name, p_number);
            WHEN 'bump' THEN CALL rl_bump(p_name, p_token);
            WHEN 'latch_set' THEN CALL rl_latch_set(p_name, p_token, p_number);
            WHEN 'session' THEN CALL rl_session_add(p_name, p_token);
        END CASE;
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
END;

-- Locks the row of the change, unless a transaction has it. (The change itself handles a missing name; a version is only read.)
CREATE PROCEDURE rl_own_lock(IN p_what VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
                             IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                             OUT p_locked BOOLEAN)
BEGIN
    DECLARE v_id, v_locked, v_there BIGINT UNSIGNED;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT id INTO v_id FROM resource WHERE resource_name = p_name;
    IF p_what = 'renew' THEN
        SELECT id INTO v_locked FROM lease_renewal WHERE id = v_id FOR UPDATE SKIP LOCKED;
        -- A row lock has no renewal. (A plain read: EXISTS in an IF would wait for the row.)
        SELECT COUNT(*) INTO v_there FROM lease_renewal WHERE id = v_id;
        IF v_locked IS NULL AND v_there = 0 THEN
            SET v_locked = v_id;
        END IF;
    ELSEIF p_what <> 'version' THEN
        SELECT id INTO v_locked FROM resource WHERE id = v_id FOR UPDATE SKIP LOCKED;
    END IF;
    SET p_locked = v_id IS NULL OR v_locked IS NOT NULL OR p_what = 'version';
END;

CREATE PROCEDURE rl_release(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                            IN p_token BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id BIGINT UNSIGNED;
    DECLARE v_acquired DATETIME(6);
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_bell BOOLEAN;
    DECLARE v_over BOOLEAN DEFAULT TRUE;
    CALL rl_mine(p_name, p_token, v_id, v_owner, v_label, v_acquired);
    CALL rl_now(v_now);
    -- Released after its time, it keeps its sessions, which the next holder ends. (The row is locked. Its renewal is not, so that
    -- of a transaction's older snapshot counts.)
    SELECT lease_expires_at <= v_now INTO v_over FROM resource WHERE id = v_id FOR UPDATE;
    IF v_over THEN
        SELECT COUNT(*) = 0 INTO v_over FROM lease_renewal WHERE id = v_id AND version = p_token AND expires_at > v_now;
    END IF;
    SET v_bell = COALESCE(IS_USED_LOCK(CONCAT('{bell}', v_id)) = CONNECTION_ID(), FALSE);
    IF v_bell THEN
        {{lease_release(at_least_us = 0, keep = v_over, id = v_id, version = p_token, owner = v_owner, bell = '{bell}',
                        now = v_now)}};
    ELSE
        -- If the session that took it still has the bell, no waiter was woken.
        {{lease_release_apart(at_least_us = 0, keep = v_over, id = v_id, version = p_token, owner = v_owner,
                              bell = '{bell}', own = connection_id, due = '', now = v_now)}};
    END IF;
    CALL rl_event(p_name, 'optimistic', 'released', p_token, v_owner, v_label, v_now, NULL,
                  TIMESTAMPDIFF(MICROSECOND, v_acquired, v_now) DIV 1000, NULL);
END;

-- The work of a broken lease, which this login had with this token, is over. A failure does not matter.
CREATE PROCEDURE rl_reopen(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                           IN p_token BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id BIGINT UNSIGNED;
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_login CHAR(27) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION ROLLBACK AND NO CHAIN NO RELEASE;
    DECLARE EXIT HANDLER FOR NOT FOUND BEGIN END;
    CALL rl_now(v_now);
    CALL rl_login(v_login);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT id, owner INTO v_id, v_owner FROM resource WHERE resource_name = p_name;
    IF LEFT(v_owner, 27) = v_login THEN
        {{lease_reopen(at_least_us = 0, id = v_id, version = p_token, owner = v_owner, now = v_now)}};
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
END;

-- Locks the row of a lease that is held with this token, and was taken by this login; else an error.
CREATE PROCEDURE rl_mine(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                         IN p_token BIGINT UNSIGNED, OUT p_id BIGINT UNSIGNED,
                         OUT p_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin,
                         OUT p_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                         OUT p_acquired DATETIME(6))
BEGIN
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_version BIGINT UNSIGNED;
    DECLARE v_login CHAR(27) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_kind = NULL;
    SELECT id, kind, status, version, owner, owner_label, acquired_at
      INTO p_id, v_kind, v_status, v_version, p_owner, p_label, p_acquired
      FROM resource WHERE resource_name = p_name FOR UPDATE;
    CALL rl_login(v_login);
    CALL rl_lost(p_name, p_token, v_kind, v_status, v_version);
    IF LEFT(p_owner, 27) <> v_login THEN
        CALL rl_signal('RLLST', p_name, CONCAT('%s, token ', p_token, ', was not taken by SQL by this login; rowlock_break ends it'));
    END IF;
END;

-- Renews for the TTL from now on. The resource's row is not locked, since a transaction may have fenced it. While the renewal's
-- row is locked, nobody can take the lease over.
CREATE PROCEDURE rowlock_renew(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                               IN p_token DECIMAL(40, 6), IN p_ttl DECIMAL(40, 6))
BEGIN
    DECLARE v_token, v_ttl_us BIGINT UNSIGNED;
    CALL rl_name_check(p_name);
    CALL rl_token_check('token', p_name, p_token, v_token);
    CALL rl_ttl_check(p_name, p_ttl, v_ttl_us);
    CALL rl_alone('renewing', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_own('renew', p_name, v_token, v_ttl_us);
END;

CREATE PROCEDURE rl_renew(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                          IN p_token BIGINT UNSIGNED, IN p_ttl_us BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id BIGINT UNSIGNED;
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    CALL rl_now(v_now);
    CALL rl_renewable(p_name, p_token, v_now, v_id, v_owner);
    -- As lease_renew, for one lease. (With the caller's sql_safe_updates, that statement would be refused.)
    UPDATE lease_renewal
       SET version = p_token, expires_at = v_now + INTERVAL p_ttl_us MICROSECOND
     WHERE id = v_id AND version <= p_token;
    IF ROW_COUNT() = 0 THEN
        CALL rl_signal('RLLST', p_name, CONCAT('%s is not held with token ', p_token, ' any more; stop this work'));
    END IF;
    -- If somebody has taken it over meanwhile, the UPDATE has waited for that.
    CALL rl_renewable(p_name, p_token, v_now, v_id, v_owner);
END;

-- A lease that this login holds with this token, and that has not expired; else an error.
CREATE PROCEDURE rl_renewable(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                              IN p_token BIGINT UNSIGNED, IN p_now DATETIME(6), OUT p_id BIGINT UNSIGNED,
                              OUT p_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin)
BEGIN
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_version BIGINT UNSIGNED;
    DECLARE v_left_us BIGINT;
    DECLARE v_login CHAR(27) CHARACTER SET ascii COLLATE ascii_bin;
    CALL rl_lease(p_name, p_now, p_id, v_kind, v_status, v_version, p_owner, v_left_us);
    CALL rl_login(v_login);
    CALL rl_lost(p_name, p_token, v_kind, v_status, v_version);
    IF LEFT(p_owner, 27) <> v_login THEN
        CALL rl_signal('RLLST', p_name, CONCAT('%s, token ', p_token, ', was not taken by SQL by this login; rowlock_break ends it'));
    ELSEIF v_left_us <= 0 THEN
        CALL rl_signal('RLLST', p_name, CONCAT('the lease on %s with token ', p_token, ' has run out; stop this work'));
    END IF;
END;

-- The committed state of a name; p_kind NULL: there is no such name.
CREATE PROCEDURE rl_lease(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                          IN p_now DATETIME(6), OUT p_id BIGINT UNSIGNED,
                          OUT p_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
                          OUT p_status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin,
                          OUT p_version BIGINT UNSIGNED,
                          OUT p_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin,
                          OUT p_left_us BIGINT)
BEGIN
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET p_kind = NULL;
    SELECT r.id, r.kind, r.status, r.version, r.owner,
           COALESCE(TIMESTAMPDIFF(MICROSECOND, p_now,
               {{expiry(r.version)}}), 0)
      INTO p_id, p_kind, p_status, p_version, p_owner, p_left_us
      FROM resource r
      LEFT JOIN lease_renewal l ON l.id = r.id
     WHERE r.resource_name = p_name;
END;

-- Why a token is not, or no longer, that of a held lease; NULL if it is.
CREATE PROCEDURE rl_lost(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                         IN p_token BIGINT UNSIGNED,
                         IN p_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
                         IN p_status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin,
                         IN p_version BIGINT UNSIGNED)
BEGIN
    IF p_kind IS NULL THEN
        CALL rl_signal('RLNOF', p_name, 'there is no lock %s; look at its spelling');
    ELSEIF p_kind <> 'optimistic' THEN
        CALL rl_wrong_kind(p_name, p_kind, 'optimistic');
    ELSEIF p_status <> 'held' OR p_version <> p_token THEN
        CALL rl_bell_drop(p_name);
        CALL rl_signal('RLLST', p_name, CONCAT('%s is not held with token ', p_token, ' any more; stop this work'));
    END IF;
END;

-- Rings the bell of a lease that this session has lost, since others wait for it.
CREATE PROCEDURE rl_bell_drop(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_id, v_connection BIGINT UNSIGNED;
    DECLARE v_status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR 1105, 1235, 1305, 1370 BEGIN END;
    SELECT id, status, connection_id INTO v_id, v_status, v_connection
      FROM resource WHERE resource_name = p_name;
    IF IS_USED_LOCK(CONCAT('{bell}', v_id)) = CONNECTION_ID()
       AND (v_status = 'free' OR v_connection <> CONNECTION_ID()) THEN
        CALL rl_bell_ring(v_id);
    END IF;
END;

-- Breaks a lock. A lease: its holder is told at its next renewal; nobody can acquire it before it would have expired, or its
-- holder has released it. A row lock: its connection is ended, if the definer has the right to; an unfenced holder cannot be
-- found. A latch will not open. A barrier's members are lost. Of a name with slots, each that is held is broken.
CREATE PROCEDURE rowlock_break(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    CALL rl_break_by_force(p_name, FALSE);
END;

-- The same, but a lease is free at once: until its holder is told, two may work under it.
CREATE PROCEDURE rowlock_break_now(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    CALL rl_break_by_force(p_name, TRUE);
END;

CREATE PROCEDURE rl_break_by_force(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_now BOOLEAN)
BEGIN
    DECLARE v_id BIGINT UNSIGNED;
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_idle BIGINT;
    DECLARE v_has_lock, v_has_renewal BOOLEAN;
    CALL rl_name_check(p_name);
    CALL rl_alone('breaking', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_resource_find(p_name, v_id, v_kind, v_idle, v_has_lock, v_has_renewal);
    IF v_kind = 'slots' THEN
        CALL rl_break_slots(p_name, p_now);
    ELSEIF v_kind = 'queue' THEN
        CALL rl_signal('RLUNS', p_name,
                       '%s is a queue, which nobody holds; `rowlock queue requeue` takes an item from its worker');
    ELSE
        CALL rl_break_one(p_name, p_now);
    END IF;
END;

CREATE PROCEDURE rl_break_one(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_now BOOLEAN)
BEGIN
    DECLARE v_connection BIGINT UNSIGNED DEFAULT 0;
    DECLARE v_tries INT DEFAULT 0;
    CALL rl_own('break', p_name, p_now, v_connection);
    -- The server takes a moment to roll back what it ended.
    WHILE v_connection <> 0 DO
        SET v_tries = v_tries + 1;
        IF v_tries > 500 THEN
            CALL rl_signal('RLBSY', p_name, 'the holder of %s has been told to end, and has not ended yet');
        END IF;
        CALL rl_sleep(20000);
        CALL rl_own('break', p_name, p_now, v_connection);
    END WHILE;
END;

CREATE PROCEDURE rl_break_slots(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_now BOOLEAN)
BEGIN
    DECLARE v_slot VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT '';
    DECLARE v_one, v_broken BOOLEAN DEFAULT FALSE;
    IF @rowlock_break_token IS NOT NULL THEN
        CALL rl_signal('RLBSY', p_name, '%s has slots, each with a token of its own; break the slot');
    END IF;
    CALL rl_slot_next(p_name, v_slot);
    WHILE v_slot IS NOT NULL DO
        CALL rl_break_slot(v_slot, p_now, v_one);
        SET v_broken = v_broken OR v_one;
        CALL rl_slot_next(p_name, v_slot);
    END WHILE;
    IF NOT v_broken THEN
        CALL rl_signal('RLBSY', p_name, 'none of the slots of %s is held');
    END IF;
END;

-- One that its holder has let go meanwhile need not be broken.
CREATE PROCEDURE rl_break_slot(IN p_slot VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_now BOOLEAN,
                               OUT p_broken BOOLEAN)
BEGIN
    DECLARE EXIT HANDLER FOR SQLSTATE 'RLBSY', SQLSTATE 'RLNOF' SET p_broken = FALSE;
    CALL rl_break_one(p_slot, p_now);
    SET p_broken = TRUE;
END;

-- p_connection: the connection with the row's lock, which is being ended (pass it to the next call); 0: done. The line of the
-- history is written with the KILL, since right after that a waiter may have and publish the lock.
CREATE PROCEDURE rl_break(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_now BOOLEAN,
                          INOUT p_connection BIGINT UNSIGNED)
BEGIN
    DECLARE v_now, v_acquired, v_closed DATETIME(6);
    DECLARE v_id, v_version, v_connection, v_locked, v_readers BIGINT UNSIGNED;
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_by VARCHAR(600) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_many BOOLEAN DEFAULT FALSE;
    DECLARE v_first BOOLEAN DEFAULT p_connection = 0;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT id, kind INTO v_id, v_kind FROM resource WHERE resource_name = p_name;
    IF NOT ({{known_kind(v_kind)}}) THEN
        CALL rl_wrong_kind(p_name, v_kind, v_kind);
    ELSEIF v_kind = 'pessimistic' THEN
        CALL rl_quiet(v_many);
    END IF;
    IF v_many THEN
        CALL rl_signal('RLUNS', p_name, '%s: its holder may be at another node of the cluster; KILL its connection there by hand');
    ELSEIF v_kind = 'pessimistic' THEN
        SELECT id INTO v_locked FROM resource_lock WHERE id = v_id FOR UPDATE SKIP LOCKED;
    END IF;
    SELECT status, version, connection_id, owner, owner_label, acquired_at, not_before
      INTO v_status, v_version, v_connection, v_owner, v_label, v_acquired, v_closed
      FROM resource WHERE id = v_id FOR UPDATE;
    CALL rl_now(v_now);
    SELECT COUNT(*) INTO v_readers FROM lock_grant WHERE resource_id = v_id AND expires_at > v_now;
    IF v_status IS NULL THEN
        CALL rl_signal('RLNOF', p_name, 'there is no lock %s; look at its spelling');
    ELSEIF v_kind = 'barrier' THEN
        CALL rl_barrier_break(p_name, v_id, v_now, v_version);
        SET v_acquired = NULL;
    ELSEIF v_first AND @rowlock_break_token <> v_version THEN
        CALL rl_signal('RLBSY', p_name, CONCAT('%s has the token ', v_version, ', not ', @rowlock_break_token,
            '; nothing was broken'));
    ELSEIF v_status = 'free' AND v_closed > v_now AND v_kind IN ('optimistic', 'quorum') THEN
        IF v_kind = 'quorum' THEN
            {{quorum_open(at_once = p_now, seen = v_version, id = v_id, now = v_now)}};
        ELSE
            {{lease_open(at_once = p_now, seen = v_version, id = v_id, now = v_now)}};
        END IF;
        IF ROW_COUNT() = 0 THEN
            CALL rl_signal('RLBSY', p_name, CONCAT('%s was broken, and its old holder may still work for another ',
                FORMAT(TIMESTAMPDIFF(MICROSECOND, v_now, v_closed) / 1e6, 3, 'en_US'), ' s (rowlock_break_now opens it)'));
        END IF;
    ELSEIF v_status = 'shared' AND v_readers > 0 THEN
        SET v_owner = '', v_label = '', v_acquired = NULL; -- they are the last writer's
        {{shared_break(seen = v_version, id = v_id, now = v_now)}};
        IF p_now THEN
            {{shared_drop_readers(id = v_id, seen = v_version)}};
        ELSE
            {{shared_break_readers(id = v_id, seen = v_version)}};
        END IF;
    ELSEIF v_status <> 'held' AND p_connection = 0 THEN
        CALL rl_signal('RLBSY', p_name, IF(v_kind = 'latch', '%s is not closed; there is nothing to break',
                                           '%s is not held (as far as is published); there is nothing to break'));
    ELSEIF v_kind = 'latch' THEN
        CALL rl_latch_break(p_name, v_id, v_version, v_now);
        SET v_acquired = NULL;
    ELSEIF v_kind = 'quorum' THEN
        {{quorum_break(at_once = p_now, seen = v_version, id = v_id, now = v_now)}};
    ELSEIF v_kind = 'optimistic' THEN
        {{lease_break(at_once = p_now, seen = v_version, id = v_id, now = v_now)}};
        IF COALESCE(IS_USED_LOCK(CONCAT('{bell}', v_id)) = CONNECTION_ID(), FALSE) THEN
            CALL rl_bell_ring(v_id);
        END IF;
    ELSEIF v_status = 'held' AND v_locked IS NULL AND p_connection = 0 THEN
        CALL rl_break_whose(p_name, v_connection, v_label);
        CALL rl_kill(v_connection);
        SET p_connection = v_connection;
    ELSEIF v_status = 'held' AND v_locked IS NOT NULL AND p_connection IN (0, v_connection) THEN
        {{row_end_stale(seen = version, id = v_id, ticket = '', now = v_now)}};
        SET p_connection = 0;
    ELSEIF v_status <> 'held' OR p_connection <> v_connection THEN
        SET p_connection = 0;
    END IF;
    IF v_first THEN
        CALL rl_break_by(v_by);
        IF v_status = 'free' AND v_kind <> 'barrier' THEN
            SET v_by = CONCAT('opened ', v_by), v_acquired = NULL;
        END IF;
        CALL rl_event(p_name, v_kind, 'broken', v_version, v_owner, v_label, v_now, NULL,
                      TIMESTAMPDIFF(MICROSECOND, v_acquired, v_now) DIV 1000, v_by);
    END IF;
END;

-- Breaks a barrier's members that have entered (with @rowlock_break_token, only of that generation); without members, forgets its
-- number. p_version: for the history.
CREATE PROCEDURE rl_barrier_break(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                  IN p_id BIGINT UNSIGNED, IN p_now DATETIME(6), INOUT p_version BIGINT UNSIGNED)
BEGIN
    DECLARE v_generation BIGINT UNSIGNED DEFAULT COALESCE(@rowlock_break_token, 0);
    {{barrier_break(id = p_id, generation = v_generation, now = p_now)}};
    IF ROW_COUNT() > 0 THEN
        SET p_version = IF(v_generation > 0, v_generation, p_version - 1);
    ELSEIF v_generation > 0 THEN
        CALL rl_signal('RLBSY', p_name, CONCAT('nobody of generation ', v_generation, ' is in %s; nothing was broken'));
    ELSE
        {{barrier_reset(id = p_id, now = p_now)}};
        IF ROW_COUNT() = 0 THEN
            CALL rl_signal('RLBSY', p_name, 'nobody is in %s; there is nothing to break');
        END IF;
    END IF;
END;

-- Who breaks: the session's login, or the name in @rowlock_by (rl_via_via_break) with the login behind it.
CREATE PROCEDURE rl_break_by(OUT p_by VARCHAR(600) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_login VARCHAR(300) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT USER();
    IF @rowlock_by IS NULL THEN
        SET p_by = CONCAT('by ', v_login, ' ', CONNECTION_ID(), ' sql');
    ELSE
        -- MySQL turns a text that is not UTF-8 into NULL.
        SET p_by = CONCAT('by ', COALESCE(CONVERT(LEFT(@rowlock_by, 440) USING utf8mb4), '?'), ' [', LEFT(v_login, CHAR_LENGTH(v_login)
                          - CHAR_LENGTH(SUBSTRING_INDEX(v_login, '@', -1)) - 1), ']');
    END IF;
END;

-- A user that publishes by a procedure may pass any connection's number; its login stands behind the label
-- (cmake/via_procedures.awk). Only a connection of that login is ended.
CREATE PROCEDURE rl_break_whose(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                IN p_connection BIGINT UNSIGNED,
                                IN p_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_user VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_user = NULL;
    IF RIGHT(p_label, 1) = ']' THEN
        /*!80000
        IF NOT @@global.performance_schema THEN
            CALL rl_signal('RLBSY', p_name, 'performance_schema is off: nobody can say whose the connection of the holder of %s is');
        END IF;
        */
        SELECT user INTO v_user
          FROM /*M! information_schema.processlist */ /*!80000 performance_schema.processlist */ WHERE id = p_connection;
        IF v_user IS NULL OR RIGHT(p_label, CHAR_LENGTH(v_user) + 3) <> CONCAT(' [', v_user, ']') THEN
            CALL rl_signal('RLBSY', p_name, 'the connection of the holder of %s is not one of its user''s (that shows)');
        END IF;
    END IF;
END;

CREATE PROCEDURE rl_kill(IN p_connection BIGINT UNSIGNED)
BEGIN
    -- It has ended already.
    DECLARE CONTINUE HANDLER FOR 1094 BEGIN END;
    KILL CONNECTION p_connection;
END;
