-- Slots: as src/kind/slots.c, for one slot. A slot is a lease of its own, NAME#0, NAME#1, ..., taken without a bell. Waiters
-- stand in the line of the name's own bell; the first one looks for a slot, takes it, and the next one becomes first.

CREATE PROCEDURE rowlock_acquire_slot(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                      IN p_slots DECIMAL(40, 6), IN p_ttl DECIMAL(40, 6), IN p_wait DECIMAL(40, 6),
                                      OUT p_slot BIGINT UNSIGNED, OUT p_token BIGINT UNSIGNED)
BEGIN
    DECLARE v_wanted INT UNSIGNED;
    DECLARE v_ttl_us BIGINT UNSIGNED;
    DECLARE v_state CHAR(5) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_text VARCHAR(400) CHARACTER SET utf8mb4;
    CALL rl_name_check(p_name);
    CALL rl_slots_check(p_name, p_slots, v_wanted);
    CALL rl_ttl_check(p_name, p_ttl, v_ttl_us);
    CALL rl_alone('taking a slot of', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_slot_acquire(p_name, v_wanted, v_ttl_us, p_wait, p_slot, p_token, v_state, v_text);
    IF p_token IS NULL THEN
        CALL rl_signal(v_state, p_name, v_text);
    END IF;
END;

-- The name must stay valid with the longest number, #999. p_slots NULL: as many as the name has.
CREATE PROCEDURE rl_slots_check(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                IN p_given DECIMAL(40, 6), OUT p_slots INT UNSIGNED)
BEGIN
    IF CHAR_LENGTH(p_name) > 250 THEN
        CALL rl_signal('RLINV', p_name,
                       'the lock''s name %s is too long for slots: 250 characters at most; give a shorter one');
    ELSEIF p_given < 1 OR p_given > 1000 OR p_given <> FLOOR(p_given) THEN
        CALL rl_signal('RLINV', p_name, CONCAT('the number of slots of %s is ', p_given + 0e0,
                                               '; give 1 to 1000, or NULL for as many as it has'));
    END IF;
    SET p_slots = p_given;
END;

-- Takes a slot, or returns p_token NULL with p_state and p_text (rl_signal). No call keeps the line's bell: if the session has it
-- at the start, a killed call has left it.
CREATE PROCEDURE rl_slot_acquire(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                 IN p_wanted INT UNSIGNED, IN p_ttl_us BIGINT UNSIGNED, IN p_wait DECIMAL(40, 6),
                                 OUT p_slot BIGINT UNSIGNED, OUT p_token BIGINT UNSIGNED,
                                 OUT p_state CHAR(5) CHARACTER SET ascii COLLATE ascii_bin,
                                 OUT p_text VARCHAR(400) CHARACTER SET utf8mb4)
BEGIN
    DECLARE v_started, v_now DATETIME(6);
    DECLARE v_id, v_next, v_line BIGINT UNSIGNED;
    DECLARE v_slots INT UNSIGNED;
    -- v_pass: the holder of the bell does not look.
    DECLARE v_quiet, v_bell, v_pass BOOLEAN DEFAULT FALSE;
    DECLARE v_login CHAR(27) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
        DEFAULT CONCAT(LEFT(USER(), 200), ' ', CONNECTION_ID(), ' sql');
    DECLARE v_verdict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
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
    take: LOOP
        CALL rl_slots_of(p_name, p_wanted, v_budget_us, v_next, v_slots, v_line);
        IF v_id <> COALESCE(v_next, 0) AND NOT v_quiet THEN
            CALL rl_bell_ring(v_id); -- of a row that was purged
        END IF;
        SET v_id = v_next, v_bell = NOT v_quiet AND v_line = CONNECTION_ID(), v_pass = FALSE;
        IF NOT v_quiet AND v_line NOT IN (0, CONNECTION_ID()) THEN
            CALL rl_slots_asleep(v_id, v_pass);
        END IF;
        IF v_slots = 0 THEN
            SET v_verdict = 'CHANGED';
        ELSEIF v_quiet OR v_pass OR v_line IN (0, CONNECTION_ID()) THEN
            CALL rl_slot_attempt(p_name, v_id, v_slots, v_quiet OR v_pass, v_owner, v_label, p_ttl_us, v_started,
                                 p_slot, p_token, v_verdict);
        ELSE
            SET v_verdict = 'LINE';
        END IF;
        IF v_verdict = 'GRANTED' THEN
            LEAVE take;
        END IF;
        CALL rl_now(v_now);
        SET v_waited_us = GREATEST(TIMESTAMPDIFF(MICROSECOND, v_started, v_now), 0),
            v_budget_us = IF(v_wait_us = 0 AND v_verdict <> 'HELD', 20000, v_wait_us) - v_waited_us;
        IF v_budget_us <= 0 THEN
            LEAVE take;
        END IF;
        IF v_quiet OR v_bell OR v_pass OR v_verdict = 'CHANGED' OR v_budget_us < 1000000 THEN
            -- Nobody rings for a slot: the first in line looks, at least every 80 ms.
            SET v_delay_us = LEAST(v_delay_us * 2, IF(v_quiet, 250000, 80000));
            CALL rl_sleep(LEAST(v_delay_us * (0.5 + RAND() / 2), v_budget_us));
        ELSE
            -- In line for ten seconds at most, since a waiter cannot see whether the first one still looks.
            CALL rl_bell_wait(v_id, LEAST(FLOOR(v_budget_us / 1e6), 10), v_waited_us DIV 1000, v_owner, v_label, v_bell);
            SET v_delay_us = 500;
            IF NOT v_bell THEN
                CALL rl_sleep(RAND() * 50000);
            END IF;
        END IF;
    END LOOP;
    IF v_id IS NOT NULL AND NOT v_quiet THEN
        CALL rl_bell_ring(v_id);
    END IF;
    IF p_token IS NULL THEN
        CALL rl_frozen(v_id, v_verdict);
        SET p_state = CASE WHEN v_verdict = 'FROZEN' THEN 'RLFRZ' WHEN v_wait_us = 0 THEN 'RLBSY' ELSE 'RLTMO' END,
            p_text = CASE v_verdict
                WHEN 'FROZEN' THEN '%s is frozen; nobody gets a slot before it is thawed'
                WHEN 'HELD' THEN IF(v_slots = 1, 'the only slot of %s is in use', CONCAT('none of the ', v_slots, ' slots of %s is free'))
                WHEN 'LINE' THEN 'others wait for the slots of %s'
                ELSE '%s or its slots are in use by a transaction; try again later' END;
    END IF;
END;

-- After a refusal: sets p_verdict if the name is frozen, held or not.
CREATE PROCEDURE rl_frozen(IN p_id BIGINT UNSIGNED,
                           INOUT p_verdict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
BEGIN
    DECLARE v_now DATETIME(6);
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT IF(COUNT(*) > 0, 'FROZEN', p_verdict) INTO p_verdict FROM resource WHERE id = p_id AND frozen_until > v_now;
    COMMIT AND NO CHAIN NO RELEASE;
END;

-- The name's row, how many slots it has, and the first in line (0: nobody). The first to use the name sets the number. p_slots 0:
-- a transaction has locked the row, or the gap where it belongs.
CREATE PROCEDURE rl_slots_of(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                             IN p_wanted INT UNSIGNED, IN p_wait_us BIGINT, OUT p_id BIGINT UNSIGNED,
                             OUT p_slots INT UNSIGNED, OUT p_line BIGINT UNSIGNED)
BEGIN
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_idle BIGINT;
    DECLARE v_has_lock, v_has_renewal BOOLEAN;
    SET p_slots = 0, p_line = 0;
    IF p_wanted IS NOT NULL THEN
        CALL rl_resource(p_name, 'slots', p_wait_us, p_id);
    ELSE
        CALL rl_resource_find(p_name, p_id, v_kind, v_idle, v_has_lock, v_has_renewal);
        IF p_id IS NOT NULL AND v_kind <> 'slots' THEN
            CALL rl_wrong_kind(p_name, v_kind, 'slots');
        END IF;
    END IF;
    IF p_id IS NOT NULL THEN
        CALL rl_slots_count(p_name, p_id, p_slots, p_line);
    END IF;
    IF p_id IS NOT NULL AND p_slots = 0 AND p_wanted IS NOT NULL THEN
        CALL rl_slots_claim(p_id, p_wanted);
        CALL rl_slots_count(p_name, p_id, p_slots, p_line);
    END IF;
    IF p_slots = 0 AND p_wanted IS NULL THEN
        CALL rl_signal('RLNOF', p_name, '%s has no number of slots yet; say how many');
    ELSEIF p_slots <> 0 AND p_slots <> p_wanted THEN
        CALL rl_signal('RLMOD', p_name, CONCAT('%s has ', p_slots, IF(p_slots = 1, ' slot', ' slots'), ', not ', p_wanted,
                                               ' (`rowlock slots` changes it)'));
    END IF;
END;

-- p_slots 0: the number was not set yet, or the row was purged.
CREATE PROCEDURE rl_slots_count(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                IN p_id BIGINT UNSIGNED, OUT p_slots INT UNSIGNED, OUT p_line BIGINT UNSIGNED)
BEGIN
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET p_slots = 0, p_line = 0;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    {{slots_count(id = p_id, name = p_name, bell = '{bell}')}} INTO p_slots, p_line;
    COMMIT AND NO CHAIN NO RELEASE;
END;

-- A failure does not matter, since the number is read again. (It waits for no row; see rl_own.)
CREATE PROCEDURE rl_slots_claim(IN p_id BIGINT UNSIGNED, IN p_slots INT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_locked BIGINT UNSIGNED;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR 1205, 1213, 1020, 1180, 3101 ROLLBACK AND NO CHAIN NO RELEASE;
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    SELECT id INTO v_locked FROM resource WHERE id = p_id FOR UPDATE SKIP LOCKED;
    IF v_locked IS NOT NULL THEN
        {{slots_claim(slots = p_slots, id = p_id, now = v_now)}};
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
END;

-- Whether the first in line has stopped looking: its session has run nothing for two seconds, since a call was killed, or it is
-- stopped. FALSE also if the procedures' definer may not see other users' connections (PROCESS).
CREATE PROCEDURE rl_slots_asleep(IN p_id BIGINT UNSIGNED, OUT p_asleep BOOLEAN)
BEGIN
    DECLARE v_connection BIGINT UNSIGNED DEFAULT 0;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION SET p_asleep = FALSE;
    {{bell_sleeper(bell = '{bell}', id = p_id, asleep_s = 2)}} INTO v_connection;
    COMMIT AND NO CHAIN NO RELEASE;
    SET p_asleep = v_connection <> 0;
END;

-- Looks for a slot and takes it. p_pass: may overtake the line. p_verdict: GRANTED; HELD: no slot is free; LINE: others wait;
-- FROZEN; CHANGED, IN_TRANSACTION: try again.
CREATE PROCEDURE rl_slot_attempt(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                 IN p_id BIGINT UNSIGNED, IN p_slots INT UNSIGNED, IN p_pass BOOLEAN,
                                 IN p_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin,
                                 IN p_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                 IN p_ttl_us BIGINT UNSIGNED, IN p_started DATETIME(6),
                                 OUT p_slot BIGINT UNSIGNED, OUT p_token BIGINT UNSIGNED,
                                 OUT p_verdict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
BEGIN
    DECLARE v_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_text VARCHAR(400) CHARACTER SET utf8mb4;
    DECLARE v_lease BIGINT UNSIGNED;
    DECLARE v_left_us BIGINT;
    DECLARE v_bell, v_rings BOOLEAN DEFAULT FALSE;
    DECLARE v_ended, v_there INT DEFAULT 0;
    DECLARE v_session BIGINT UNSIGNED;
    DECLARE v_why VARCHAR(100) CHARACTER SET utf8mb4;
    SET p_token = NULL, p_verdict = 'HELD';
    CALL rl_slot_find(p_name, p_slots, p_slot);
    IF p_slot IS NOT NULL THEN
        SET v_name = CONCAT(p_name, '#', p_slot), p_verdict = 'IN_TRANSACTION';
        CALL rl_resource(v_name, 'optimistic', 0, v_lease);
    END IF;
    IF v_lease IS NOT NULL THEN
        CALL rl_attempt(v_name, v_lease, p_owner, p_label, p_ttl_us, p_started, TRUE, FALSE, TRUE, p_id, p_slot, p_pass,
                        v_bell, p_token, p_verdict, v_left_us, v_rings, v_text);
    END IF;
    IF p_verdict = 'GUARDED' THEN -- of who had it as a lease, before the name had slots
        CALL rl_guard_end(v_name, v_lease, p_label, v_ended, v_there, v_session, v_why);
    END IF;
    IF p_verdict NOT IN ('GRANTED', 'HELD', 'LINE', 'IN_TRANSACTION', 'FROZEN') THEN
        SET p_verdict = 'CHANGED';
    END IF;
END;

-- A free slot (it may have no row yet), or else one whose lease has expired; NULL: none. It begins at a random one, so that
-- callers at the same time do not all want the same slot.
CREATE PROCEDURE rl_slot_find(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                              IN p_slots INT UNSIGNED, OUT p_slot BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_first INT UNSIGNED DEFAULT FLOOR(RAND() * p_slots);
    DECLARE v_seen, v_slot INT UNSIGNED DEFAULT 0;
    DECLARE v_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_kind, v_verdict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_verdict = 'FREE';
    SET p_slot = NULL, v_verdict = 'HELD';
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    WHILE v_seen < p_slots AND v_verdict NOT IN ('FREE', 'WRONG_KIND') DO
        SET v_slot = (v_first + v_seen) % p_slots, v_seen = v_seen + 1, v_name = CONCAT(p_name, '#', v_slot);
        SELECT r.kind,
               CASE WHEN r.kind <> 'optimistic' THEN 'WRONG_KIND'
                    WHEN r.status = 'held' AND {{expiry(r.version)}} <= v_now THEN 'EXPIRED'
                    WHEN r.status <> 'free' OR r.not_before > v_now OR r.frozen_until > v_now THEN 'HELD'
                    ELSE 'FREE' END
          INTO v_kind, v_verdict
          FROM resource r
          LEFT JOIN lease_renewal l ON l.id = r.id
         WHERE r.resource_name = v_name;
        IF v_verdict IN ('FREE', 'EXPIRED') THEN
            SET p_slot = v_slot;
        END IF;
    END WHILE;
    COMMIT AND NO CHAIN NO RELEASE;
    IF v_verdict = 'WRONG_KIND' THEN
        CALL rl_wrong_kind(v_name, v_kind, 'optimistic');
    END IF;
END;

-- Called in the transaction that takes a slot: checks the name's number, which stays until the end, and that it is our turn. As
-- slots_keep, but without waiting for a row (see rl_own). p_verdict: KEPT, CHANGED, or LINE: others wait.
CREATE PROCEDURE rl_slot_kept(IN p_id BIGINT UNSIGNED, IN p_slot BIGINT UNSIGNED, IN p_pass BOOLEAN,
                              OUT p_verdict VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
BEGIN
    DECLARE v_slots INT UNSIGNED DEFAULT 0;
    DECLARE v_line BIGINT UNSIGNED DEFAULT 0;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT slots, COALESCE(IS_USED_LOCK(CONCAT('{bell}', id)), 0) INTO v_slots, v_line
      FROM resource
     WHERE id = p_id AND kind = 'slots' /*M! LOCK IN SHARE MODE */ /*!80000 FOR SHARE */ SKIP LOCKED;
    SET p_verdict = IF(v_slots <= p_slot, 'CHANGED', IF(p_pass OR v_line IN (0, CONNECTION_ID()), 'KEPT', 'LINE'));
END;

-- The next slot of a name, in byte order after p_slot ('': the first one), that is held or closed; NULL: there is none. Of all
-- that exist, also above a lowered number.
CREATE PROCEDURE rl_slot_next(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                              INOUT p_slot VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_big BOOLEAN DEFAULT @@session.sql_big_selects;
    DECLARE v_after VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT p_slot;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET p_slot = NULL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        SET sql_big_selects = v_big;
        RESIGNAL;
    END;
    CALL rl_now(v_now);
    SET sql_big_selects = TRUE;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT c.resource_name INTO p_slot
      FROM resource c
     WHERE {{slot_of(p_name)}}
       AND c.resource_name > v_after
       AND (c.status <> 'free' OR c.not_before > v_now)
     ORDER BY c.resource_name
     LIMIT 1;
    COMMIT AND NO CHAIN NO RELEASE;
    SET sql_big_selects = v_big;
END;
