-- Latches: as src/kind/latch.c; members exist only in the library. Nobody rings when a latch opens: waiters stand in the line of
-- the name's bell, the first one looks, and when it leaves, the next one is first.

-- Begins the next generation of the latch, which opens after so many counts.
CREATE PROCEDURE rowlock_latch_set(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                   IN p_count DECIMAL(40, 6), OUT p_generation BIGINT UNSIGNED)
BEGIN
    DECLARE v_id, v_generation BIGINT UNSIGNED;
    CALL rl_name_check(p_name);
    IF p_count IS NULL OR p_count < 1 OR p_count > 10000 OR p_count <> FLOOR(p_count) THEN
        CALL rl_signal('RLINV', p_name, CONCAT('%s cannot be set to ', COALESCE(p_count + 0e0, 'NULL'),
                                               '; give how many are to count, 1 to 10000'));
    END IF;
    CALL rl_alone('setting', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_resource_or_busy(p_name, 'latch', NULL, v_id);
    CALL rl_own('latch_set', p_name, p_count, v_generation);
    CALL rl_latch_forget(v_id);
    SET p_generation = v_generation;
END;

-- Counts: with a key once, however often it is called; without one (NULL) each time. In a transaction, or with autocommit=0, it
-- counts when that commits.
CREATE PROCEDURE rowlock_latch_down(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                    IN p_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                    IN p_generation DECIMAL(40, 6))
BEGIN
    DECLARE v_generation BIGINT UNSIGNED;
    DECLARE v_inside BOOLEAN;
    CALL rl_name_check(p_name);
    CALL rl_latch_key_check(p_name, p_key);
    CALL rl_token_check('generation', p_name, COALESCE(p_generation, 0), v_generation);
    CALL rl_writable_for(p_name);
    CALL rl_joins_for(p_name, v_inside);
    IF v_inside THEN
        CALL rl_joined('down', p_name, v_generation, p_key);
    ELSE
        CALL rl_latch_down(p_name, v_generation, p_key);
    END IF;
END;

-- Waits until the latch is open. p_generation NULL: the present one, or the first one; p_opened: which one it was.
CREATE PROCEDURE rowlock_latch_wait(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                    IN p_wait DECIMAL(40, 6), IN p_generation DECIMAL(40, 6),
                                    OUT p_opened BIGINT UNSIGNED)
BEGIN
    DECLARE v_generation BIGINT UNSIGNED;
    CALL rl_name_check(p_name);
    CALL rl_token_check('generation', p_name, COALESCE(p_generation, 0), v_generation);
    CALL rl_alone('waiting for', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_latch_await(p_name, p_wait, v_generation);
    SET p_opened = v_generation;
END;

CREATE PROCEDURE rl_latch_key_check(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                    IN p_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    -- A key has the form of a name.
    DECLARE EXIT HANDLER FOR SQLSTATE 'RLINV'
        CALL rl_signal('RLINV', p_name,
                       'the key for %s is not valid: 1 to 255 characters, no control ones, no white space around');
    IF p_key IS NOT NULL THEN
        CALL rl_name_check(p_key);
    END IF;
END;

-- The latch's state. p_generation: which one; 0: the present one, which it returns. p_state: UNSET; CLOSED; FULL: all have
-- counted, and nobody has opened it yet; OPEN; BROKEN; GONE: it was purged. p_text: the message, if it is not open.
CREATE PROCEDURE rl_latch_look(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                               IN p_id BIGINT UNSIGNED, INOUT p_generation BIGINT UNSIGNED,
                               OUT p_version BIGINT UNSIGNED,
                               OUT p_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin,
                               OUT p_text VARCHAR(400) CHARACTER SET utf8mb4)
BEGIN
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_unset, v_armed, v_mine BOOLEAN;
    DECLARE v_count, v_broken, v_down BIGINT UNSIGNED;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_kind = NULL;
    {{latch_look(member = '', generation = p_generation, id = p_id, name = p_name)}}
      INTO v_kind, p_version, v_unset, v_armed, v_count, v_broken, v_down, v_label, v_mine;
    IF v_kind IS NULL THEN
        SET p_state = 'GONE', p_text = '%s was purged just now';
    ELSE
        CALL rl_latch_state(p_generation, p_version, v_unset, v_armed, v_count, v_down, v_broken, v_label, p_state, p_text);
    END IF;
END;

-- The same from its row. p_broken has a bit for each of the last 64 generations: migrations/0006_latch.sql.
CREATE PROCEDURE rl_latch_state(INOUT p_generation BIGINT UNSIGNED, IN p_version BIGINT UNSIGNED, IN p_unset BOOLEAN,
                                IN p_armed BOOLEAN, IN p_count BIGINT UNSIGNED, IN p_down BIGINT UNSIGNED,
                                IN p_broken BIGINT UNSIGNED,
                                IN p_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                OUT p_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin,
                                OUT p_text VARCHAR(400) CHARACTER SET utf8mb4)
BEGIN
    SET p_text = NULL;
    IF p_unset OR p_generation > p_version THEN
        SET p_state = 'UNSET',
            p_text = IF(p_generation = 0, '%s was not set yet', CONCAT('%s was not set to generation ', p_generation, ' yet'));
    ELSE
        SET p_generation = IF(p_generation = 0, p_version, p_generation);
        IF p_generation = p_version AND p_armed AND p_down >= p_count THEN
            SET p_state = 'FULL', p_text = '%s is in use by a transaction; try again later';
        ELSEIF p_generation = p_version AND p_armed THEN
            SET p_state = 'CLOSED', p_text = CONCAT('%s is closed: ', p_down, ' of ', p_count, ' have counted');
        ELSEIF p_version - p_generation < 64 AND ((p_broken >> (p_version - p_generation)) & 1) = 0 THEN
            SET p_state = 'OPEN';
        ELSEIF p_generation = p_version THEN
            SET p_state = 'BROKEN', p_text = CONCAT('%s (generation ', p_generation, ') will not open, because of ', p_label);
        ELSE
            SET p_state = 'BROKEN',
                p_text = CONCAT('generation ', p_generation, ' of %s was broken, or is too long ago; the present one is ',
                                p_version);
        END IF;
    END IF;
END;

-- ------------------------------------------------------------------------------------ set

-- Called in a transaction that has the row locked (rl_own): other counts wait for its end, so all that were made show.
CREATE PROCEDURE rl_latch_set(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                              IN p_count BIGINT UNSIGNED, INOUT p_generation BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id, v_version BIGINT UNSIGNED;
    DECLARE v_present BIGINT UNSIGNED DEFAULT 0;
    DECLARE v_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_text VARCHAR(400) CHARACTER SET utf8mb4;
    DECLARE v_login CHAR(27) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
        DEFAULT CONCAT(LEFT(USER(), 200), ' ', CONNECTION_ID(), ' sql');
    DECLARE v_last BIGINT UNSIGNED DEFAULT LAST_INSERT_ID();
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT id INTO v_id FROM resource WHERE resource_name = p_name AND kind = 'latch';
    CALL rl_latch_look(p_name, v_id, v_present, v_version, v_state, v_text);
    IF v_state IN ('CLOSED', 'FULL') THEN
        CALL rl_latch_decide(v_id, v_version);
        CALL rl_latch_look(p_name, v_id, v_present, v_version, v_state, v_text);
    END IF;
    IF v_state IN ('CLOSED', 'FULL', 'GONE') THEN
        CALL rl_signal('RLBSY', p_name, v_text);
    END IF;
    CALL rl_login(v_login);
    CALL rl_now(v_now);
    SET v_owner = CONCAT(v_login, LOWER(HEX(RANDOM_BYTES(16))));
    {{latch_set(count = p_count, owner = v_owner, label = v_label, seen = v_version, id = v_id, name = p_name, now = v_now)}};
    SET p_generation = v_version + 1, v_last = LAST_INSERT_ID(v_last);
END;

-- Called in such a transaction for a closed latch: opens it if all have counted, breaks it if a member has expired without.
CREATE PROCEDURE rl_latch_decide(IN p_id BIGINT UNSIGNED, IN p_generation BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_opened BOOLEAN;
    DECLARE v_members BIGINT UNSIGNED;
    DECLARE v_dead VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT '';
    DECLARE v_last BIGINT UNSIGNED DEFAULT LAST_INSERT_ID();
    CALL rl_now(v_now);
    {{latch_open(id = p_id, generation = p_generation, now = v_now)}};
    SET v_opened = ROW_COUNT() > 0, v_last = LAST_INSERT_ID(v_last);
    IF NOT v_opened THEN
        {{latch_members(id = p_id, generation = p_generation, now = v_now)}} INTO v_members, v_dead;
    END IF;
    IF v_dead <> '' THEN
        -- As latch_break_member, but with the row locked. (With the caller's sql_safe_updates, that statement would be refused.)
        {{latch_break(who = v_dead, id = p_id, generation = p_generation, now = v_now)}};
    END IF;
END;

-- Deletes the counts of earlier generations. A failure does not matter.
CREATE PROCEDURE rl_latch_forget(IN p_id BIGINT UNSIGNED)
BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION ROLLBACK AND NO CHAIN NO RELEASE;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    {{latch_forget(id = p_id)}};
    COMMIT AND NO CHAIN NO RELEASE;
END;

-- An operator breaks it (rl_break). Its transaction has the row locked.
CREATE PROCEDURE rl_latch_break(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                IN p_id BIGINT UNSIGNED, IN p_generation BIGINT UNSIGNED, IN p_now DATETIME(6))
BEGIN
    DECLARE v_by VARCHAR(600) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    CALL rl_break_by(v_by); -- "by ..."
    {{latch_break(who = LEFT(SUBSTR(v_by, 4), 255), id = p_id, generation = p_generation, now = p_now)}};
    IF ROW_COUNT() = 0 THEN
        CALL rl_signal('RLBSY', p_name, '%s is not closed; there is nothing to break');
    END IF;
END;

-- ------------------------------------------------------------------------------------ down

-- In a transaction of the caller's, the row stays locked in share mode until the end, and nobody can set or break the latch; it
-- reads past an old snapshot. Without one, each statement is a transaction, and a later one may find what an earlier one has seen
-- changed: then it looks again.
CREATE PROCEDURE rl_latch_down(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                               IN p_generation BIGINT UNSIGNED,
                               IN p_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id, v_generation, v_version, v_count, v_broken BIGINT UNSIGNED;
    DECLARE v_unset, v_armed BOOLEAN;
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_text VARCHAR(400) CHARACTER SET utf8mb4;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_login CHAR(27) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_last BIGINT UNSIGNED DEFAULT LAST_INSERT_ID();
    -- See rl_event.
    DECLARE v_unique BOOLEAN DEFAULT @@session.unique_checks;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_kind = NULL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        SET unique_checks = v_unique, v_last = LAST_INSERT_ID(v_last);
        RESIGNAL;
    END;
    CALL rl_login(v_login);
    SET v_owner = CONCAT(v_login, LOWER(HEX(RANDOM_BYTES(16)))), unique_checks = TRUE;
    again: LOOP
        SET v_generation = p_generation;
        SELECT id, kind, version, acquired_at IS NULL, status = 'held', slots, broken, owner_label
          INTO v_id, v_kind, v_version, v_unset, v_armed, v_count, v_broken, v_label
          FROM resource WHERE resource_name = p_name LOCK IN SHARE MODE;
        IF v_kind IS NULL THEN
            CALL rl_signal('RLNOF', p_name, 'there is no latch %s; rowlock_latch_set makes it');
        ELSEIF v_kind <> 'latch' THEN
            CALL rl_wrong_kind(p_name, v_kind, 'latch');
        END IF;
        CALL rl_latch_state(v_generation, v_version, v_unset, v_armed, v_count, 0, v_broken, v_label, v_state, v_text);
        IF v_state = 'UNSET' THEN
            CALL rl_signal('RLNOF', p_name, v_text);
        ELSEIF v_state = 'BROKEN' THEN
            CALL rl_signal('RLLST', p_name, v_text);
        ELSEIF v_state = 'OPEN' THEN
            LEAVE again;
        END IF;
        CALL rl_now(v_now);
        DO LAST_INSERT_ID(0);
        {{latch_down(down_key = COALESCE(p_key, v_owner), owner = v_owner, id = v_id, name = p_name,
                     generation = v_generation, now = v_now)}};
        -- No ROW_COUNT(): for a key that was counted already it is 0. (A generation is above 0.)
        IF LAST_INSERT_ID() <> 0 THEN
            LEAVE again;
        END IF;
    END LOOP;
    SET unique_checks = v_unique, v_last = LAST_INSERT_ID(v_last);
END;

-- ------------------------------------------------------------------------------------ wait

-- p_generation as for rl_latch_look: which one it waited for. An error if it does not open in time, or was broken.
CREATE PROCEDURE rl_latch_await(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                IN p_wait DECIMAL(40, 6), INOUT p_generation BIGINT UNSIGNED)
BEGIN
    -- v_due: when to look at the members next; v_pass: the holder of the bell does not look.
    DECLARE v_started, v_now, v_due DATETIME(6);
    DECLARE v_id, v_next BIGINT UNSIGNED;
    DECLARE v_quiet, v_bell, v_pass BOOLEAN DEFAULT FALSE;
    DECLARE v_login CHAR(27) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
        DEFAULT CONCAT(LEFT(USER(), 200), ' ', CONNECTION_ID(), ' sql');
    DECLARE v_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin DEFAULT 'GONE';
    DECLARE v_text VARCHAR(400) CHARACTER SET utf8mb4;
    DECLARE v_waited_us BIGINT;
    DECLARE v_wait_us BIGINT DEFAULT IF(p_wait IS NULL OR p_wait < 0, 3e15, LEAST(p_wait, 3e9) * 1000000);
    DECLARE v_budget_us BIGINT DEFAULT v_wait_us;
    DECLARE v_delay_us BIGINT DEFAULT 500;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        IF v_id IS NOT NULL AND NOT v_quiet THEN
            CALL rl_bell_ring(v_id);
        END IF;
        RESIGNAL;
    END;
    CALL rl_login(v_login);
    SET v_owner = CONCAT(v_login, LOWER(HEX(RANDOM_BYTES(16))));
    CALL rl_quiet(v_quiet);
    CALL rl_now(v_started);
    SET v_now = v_started, v_due = v_started;
    look: LOOP
        IF v_state = 'GONE' THEN
            CALL rl_resource(p_name, 'latch', v_budget_us, v_next);
            IF v_id <> COALESCE(v_next, 0) AND NOT v_quiet THEN
                CALL rl_bell_ring(v_id); -- of a row that was purged
            END IF;
            SET v_id = v_next;
        END IF;
        IF v_id IS NULL THEN
            SET v_text = '%s is new, and a transaction has locked the place where it belongs; try again later';
        ELSE
            SET v_bell = NOT v_quiet AND COALESCE(IS_USED_LOCK(CONCAT('{bell}', v_id)) = CONNECTION_ID(), FALSE);
            CALL rl_latch_settled(p_name, v_id, v_now >= v_due, p_generation, v_state, v_text);
        END IF;
        -- When all have counted the latch is open, even if that cannot be written down at the moment.
        IF v_state IN ('OPEN', 'FULL') THEN
            LEAVE look;
        ELSEIF v_state = 'BROKEN' THEN
            CALL rl_signal('RLLST', p_name, v_text);
        END IF;
        SET v_due = IF(v_now >= v_due, v_now + INTERVAL 250000 MICROSECOND, v_due);
        CALL rl_now(v_now);
        SET v_waited_us = GREATEST(TIMESTAMPDIFF(MICROSECOND, v_started, v_now), 0),
            v_budget_us = IF(v_wait_us = 0 AND v_state = 'GONE', 20000, v_wait_us) - v_waited_us;
        IF v_budget_us <= 0 THEN
            CALL rl_signal(IF(v_wait_us = 0, 'RLBSY', 'RLTMO'), p_name, v_text);
        ELSEIF v_quiet OR v_bell OR v_pass OR v_state = 'GONE' OR v_budget_us < 1000000 THEN
            -- The first in line looks, at least every 50 ms.
            SET v_delay_us = LEAST(v_delay_us * 2, IF(v_quiet OR v_pass, 250000, 50000));
            CALL rl_sleep(LEAST(v_delay_us * (0.5 + RAND() / 2), v_budget_us));
        ELSE
            -- In line for ten seconds at most, since a waiter cannot see whether the first one still looks.
            CALL rl_bell_wait(v_id, LEAST(FLOOR(v_budget_us / 1e6), 10), v_waited_us DIV 1000, v_owner, v_label, v_bell);
            IF NOT v_bell THEN
                CALL rl_sleep(RAND() * 50000);
                CALL rl_slots_asleep(v_id, v_pass);
            END IF;
        END IF;
    END LOOP;
    IF NOT v_quiet THEN
        CALL rl_bell_ring(v_id);
    END IF;
END;

-- The state after everything that can be decided was decided; p_members: also whether a member has expired.
CREATE PROCEDURE rl_latch_settled(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                  IN p_id BIGINT UNSIGNED, IN p_members BOOLEAN, INOUT p_generation BIGINT UNSIGNED,
                                  OUT p_state VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin,
                                  OUT p_text VARCHAR(400) CHARACTER SET utf8mb4)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_version, v_members BIGINT UNSIGNED;
    DECLARE v_dead VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT '';
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    CALL rl_latch_look(p_name, p_id, p_generation, v_version, p_state, p_text);
    COMMIT AND NO CHAIN NO RELEASE;
    IF p_state = 'CLOSED' AND p_members THEN
        CALL rl_now(v_now);
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        {{latch_members(id = p_id, generation = p_generation, now = v_now)}} INTO v_members, v_dead;
        COMMIT AND NO CHAIN NO RELEASE;
    END IF;
    IF p_state = 'FULL' OR v_dead <> '' THEN
        CALL rl_latch_decide_alone(p_id, p_generation);
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        CALL rl_latch_look(p_name, p_id, p_generation, v_version, p_state, p_text);
        COMMIT AND NO CHAIN NO RELEASE;
    END IF;
END;

-- A failure does not matter, since waiters look again. (It waits for no row; see rl_own.)
CREATE PROCEDURE rl_latch_decide_alone(IN p_id BIGINT UNSIGNED, IN p_generation BIGINT UNSIGNED)
BEGIN
    DECLARE v_locked BIGINT UNSIGNED;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR 1205, 1213, 1020, 1180, 3101 ROLLBACK AND NO CHAIN NO RELEASE;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT id INTO v_locked FROM resource WHERE id = p_id FOR UPDATE SKIP LOCKED;
    IF v_locked IS NOT NULL THEN
        CALL rl_latch_decide(p_id, p_generation);
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
END;
