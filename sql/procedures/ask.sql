-- Asks the holder of a lock to stop, as src/admin/ask.c does. The grace is in seconds, NULL: 60; the reason may be NULL. For a
-- name with slots it asks the holder of each slot.
CREATE PROCEDURE rowlock_ask(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                             IN p_grace DECIMAL(40, 6), IN p_reason LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_slots, v_asked, v_seen, v_one, v_one_seen BOOLEAN DEFAULT FALSE;
    DECLARE v_slot VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT '';
    CALL rl_name_check(p_name);
    IF COALESCE(p_grace, 60) NOT BETWEEN 0.001 AND 86400 THEN
        CALL rl_signal('RLINV', p_name, CONCAT('the grace for %s is ', p_grace + 0e0, '; give 0.001 to 86400 seconds'));
    END IF;
    CALL rl_alone('asking for', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_ask_slots(p_name, v_slots);
    IF NOT v_slots THEN
        CALL rl_ask(p_name, COALESCE(p_grace, 60) * 1000000, p_reason, v_asked, v_seen);
    ELSE
        CALL rl_slot_next(p_name, v_slot);
        WHILE v_slot IS NOT NULL DO
            CALL rl_ask(v_slot, COALESCE(p_grace, 60) * 1000000, p_reason, v_one, v_one_seen);
            SET v_asked = v_asked OR v_one, v_seen = v_seen OR v_one_seen;
            CALL rl_slot_next(p_name, v_slot);
        END WHILE;
    END IF;
    IF NOT v_asked AND v_seen THEN
        CALL rl_signal('RLBSY', p_name, '%s changed hands just now; look again');
    ELSEIF NOT v_asked THEN
        CALL rl_signal('RLNOF', p_name, 'nobody holds %s (as far as is published)');
    END IF;
END;

-- For a lease's holder: whether it was asked to stop. p_left: NULL: it was not; else the seconds that are left, negative: the
-- time is over. A job calls it now and then, outside a transaction. RLLST: the lease is not held with that token any more.
CREATE PROCEDURE rowlock_asked(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_token DECIMAL(40, 6),
                               OUT p_left DECIMAL(40, 6), OUT p_reason LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_token BIGINT UNSIGNED;
    CALL rl_name_check(p_name);
    CALL rl_token_check('token', p_name, p_token, v_token);
    CALL rl_alone('looking whether somebody asks for', p_name);
    CALL rl_check_alone(p_name, v_token);
    CALL rl_ask_read(p_name, v_token, p_left, p_reason);
END;

CREATE PROCEDURE rl_ask_read(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_token BIGINT UNSIGNED,
                             OUT p_left DECIMAL(40, 6), OUT p_reason VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET p_left = NULL, p_reason = NULL;
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT TIMESTAMPDIFF(MICROSECOND, v_now, a.stop_by) / 1e6, a.reason INTO p_left, p_reason
      FROM resource r
      JOIN lock_ask a ON a.resource_id = r.id AND a.version = r.version
     WHERE r.resource_name = p_name AND r.version = p_token;
    COMMIT AND NO CHAIN NO RELEASE; -- for autocommit=0
END;

-- Whether the name has slots. RLNOF: there is no such lock; RLMOD: it is of a kind that has no holder.
CREATE PROCEDURE rl_ask_slots(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, OUT p_slots BOOLEAN)
BEGIN
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT kind, kind = 'slots' INTO v_kind, p_slots FROM resource WHERE resource_name = p_name;
    COMMIT AND NO CHAIN NO RELEASE;
    IF v_kind IS NULL THEN
        CALL rl_signal('RLNOF', p_name, 'there is no lock %s; look at its spelling');
    ELSEIF v_kind IN ('latch', 'barrier', 'queue') THEN
        CALL rl_signal('RLMOD', p_name, CONCAT('%s is a ', v_kind, ', which has no holder to ask'));
    ELSEIF v_kind = 'quorum' THEN
        CALL rl_signal('RLMOD', p_name, '%s is a lease of a quorum, whose holder cannot be asked');
    ELSEIF v_kind NOT IN ('optimistic', 'pessimistic', 'slots') THEN
        CALL rl_wrong_kind(p_name, v_kind, v_kind);
    END IF;
END;

-- Three looks, since the lock may change hands between a look and the ask. p_seen: somebody held it at the last look.
CREATE PROCEDURE rl_ask(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_grace_us BIGINT UNSIGNED,
                        IN p_reason LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, OUT p_asked BOOLEAN, OUT p_seen BOOLEAN)
BEGIN
    DECLARE v_looks INT DEFAULT 3;
    SET p_asked = FALSE, p_seen = TRUE;
    WHILE p_seen AND NOT p_asked AND v_looks > 0 DO
        SET v_looks = v_looks - 1;
        CALL rl_ask_once(p_name, p_grace_us, p_reason, p_asked, p_seen);
    END WHILE;
END;

-- Each statement is a transaction of its own, so that no lock stays if somebody stops the call.
CREATE PROCEDURE rl_ask_once(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_grace_us BIGINT UNSIGNED,
                             IN p_reason LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, OUT p_asked BOOLEAN,
                             OUT p_seen BOOLEAN)
BEGIN
    DECLARE v_now, v_acquired DATETIME(6);
    DECLARE v_version BIGINT UNSIGNED;
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_holder VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_held_by VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_reason VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
        DEFAULT LEFT(REGEXP_REPLACE(COALESCE(p_reason, ''), '[\\x{0}-\\x{1f}\\x{7f}-\\x{9f}\\x{2028}\\x{2029}]', '?'), 250);
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
        DEFAULT CONCAT(LEFT(USER(), 200), ' ', CONNECTION_ID(), ' sql');
    DECLARE v_login CHAR(27) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_last BIGINT UNSIGNED DEFAULT LAST_INSERT_ID();
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_kind = NULL;
    CALL rl_login(v_login);
    CALL rl_now(v_now);
    SET p_asked = FALSE;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT r.kind, r.version, IF(r.status = 'shared', '', r.owner), IF(r.status = 'shared', '', r.owner_label), r.acquired_at
      INTO v_kind, v_version, v_holder, v_held_by, v_acquired
      FROM resource r
      LEFT JOIN lease_renewal l ON l.id = r.id
     WHERE r.resource_name = p_name
       AND (   (r.status = 'held' AND (r.kind = 'pessimistic' OR {{expiry(r.version)}} > v_now))
            OR (r.status = 'shared'
                AND (SELECT COUNT(*) FROM lock_grant g
                      WHERE g.resource_id = r.id AND g.version = r.version AND g.expires_at > v_now) > 0));
    COMMIT AND NO CHAIN NO RELEASE;
    SET p_seen = v_kind IS NOT NULL;
    IF p_seen THEN
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        {{ask_put(owner = CONCAT(v_login, LOWER(HEX(RANDOM_BYTES(16)))), label = v_label, reason = v_reason, grace_us = p_grace_us,
                  name = p_name, seen = v_version, now = v_now)}};
        SET p_asked = ROW_COUNT() > 0;
        COMMIT AND NO CHAIN NO RELEASE;
    END IF;
    IF p_asked THEN
        CALL rl_event(p_name, v_kind, 'asked', v_version, v_holder, v_held_by, v_now, NULL,
                      IF(v_holder = '', NULL, TIMESTAMPDIFF(MICROSECOND, v_acquired, v_now) DIV 1000),
                      CONCAT('by ', v_label, ', within ', p_grace_us / 1e6, 's', IF(v_reason = '', '', ': '), v_reason));
        COMMIT AND NO CHAIN NO RELEASE;
    END IF;
    SET v_last = LAST_INSERT_ID(v_last);
END;
