-- Optimistic sections: read the version, work, and change it only if nobody has.

CREATE PROCEDURE rowlock_version(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                 OUT p_version BIGINT UNSIGNED)
BEGIN
    DECLARE v_inside BOOLEAN;
    DECLARE v_id BIGINT UNSIGNED;
    SET p_version = NULL;
    CALL rl_name_check(p_name);
    CALL rl_inside_for(p_name, v_inside);
    IF v_inside THEN
        CALL rl_version(p_name, p_version);
    ELSE
        CALL rl_resource_or_busy(p_name, 'optimistic', NULL, v_id);
        CALL rl_version_free(p_name, p_version);
        IF p_version IS NULL THEN
            CALL rl_sessions_ended(p_name, v_id);
            CALL rl_own('version', p_name, 0, p_version);
        END IF;
    END IF;
END;

-- The usual case, without a transaction, which a KILL QUERY could leave open. NULL: a lease is in the way, or the rest of one, or a
-- freeze.
CREATE PROCEDURE rl_version_free(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                 OUT p_version BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET p_version = NULL;
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT version INTO p_version
      FROM resource WHERE resource_name = p_name AND kind = 'optimistic' AND status = 'free' AND not_before IS NULL
       AND guarded IS NULL AND (frozen_until IS NULL OR frozen_until <= v_now);
    COMMIT AND NO CHAIN NO RELEASE;
END;

-- An expired lease is freed.
CREATE PROCEDURE rl_version(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                            OUT p_version BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id, v_version BIGINT UNSIGNED;
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_left_us BIGINT;
    DECLARE v_frozen, v_guarded BOOLEAN;
    DECLARE v_readers INT;
    SET p_version = NULL;
    CALL rl_now(v_now);
    CALL rl_lease(p_name, v_now, v_id, v_kind, v_status, v_version, v_owner, v_left_us);
    IF v_kind IS NULL THEN
        CALL rl_signal('RLNOF', p_name, '%s is new: CALL rowlock_version(name, @v) once before the transaction');
    ELSEIF v_kind <> 'optimistic' THEN
        CALL rl_wrong_kind(p_name, v_kind, 'optimistic');
    ELSEIF v_status = 'held' AND v_left_us <= 0 THEN
        CALL rl_writable();
        CALL rl_expire(p_name, v_id, v_version, v_now);
        SET p_version = v_version + 1;
    ELSEIF v_status = 'held' THEN
        CALL rl_signal('RLBSY', p_name, CONCAT('a lease on %s is held for another ',
            FORMAT(v_left_us / 1e6, 3, 'en_US'), ' s; try again then'));
    ELSEIF v_status = 'shared' THEN
        -- In the caller's transaction what rl_unshare locks would keep the readers from renewing until it ends.
        SELECT COUNT(*) INTO v_readers FROM lock_grant WHERE resource_id = v_id AND expires_at > v_now;
        IF v_readers > 0 THEN
            CALL rl_signal('RLBSY', p_name, '%s is held by readers; try again when they have left');
        END IF;
        CALL rl_writable();
        CALL rl_unshare(p_name, v_id, v_version, v_now);
        SET p_version = v_version;
    ELSE
        SELECT TIMESTAMPDIFF(MICROSECOND, v_now, not_before), frozen_until > v_now, guarded IS NOT NULL INTO v_left_us, v_frozen, v_guarded
          FROM resource WHERE id = v_id;
        IF v_frozen THEN
            CALL rl_signal('RLBSY', p_name, '%s is frozen; try again when it is thawed');
        ELSEIF v_left_us > 0 THEN
            CALL rl_signal('RLBSY', p_name, CONCAT('a lease on %s is cooling for another ',
                FORMAT(v_left_us / 1e6, 3, 'en_US'), ' s; try again then'));
        ELSEIF v_guarded THEN
            CALL rl_signal('RLBSY', p_name, 'sessions of the last holder of %s are still there; CALL rowlock_version(name, @v) outside of a transaction ends them');
        END IF;
        SET p_version = v_version;
    END IF;
END;

-- Frees a name that readers had; RLBSY if a reader is left.
CREATE PROCEDURE rl_unshare(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                            IN p_id BIGINT UNSIGNED, IN p_version BIGINT UNSIGNED, IN p_now DATETIME(6))
BEGIN
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin DEFAULT CONCAT('section-', UUID());
    {{shared_close(turn = 0, bell = '{bell}', seen = p_version, owner = v_owner, label = v_owner, ttl_us = 10000000,
                   id = p_id, name = p_name, now = p_now)}};
    {{shared_expire(id = p_id, now = p_now)}};
    {{shared_free(owner = v_owner, id = p_id, now = p_now)}};
    IF ROW_COUNT() = 0 THEN
        {{shared_reopen(id = p_id, owner = v_owner)}};
        CALL rl_signal('RLBSY', p_name, '%s is held by readers; try again when they have left');
    END IF;
END;

CREATE PROCEDURE rl_expire(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                           IN p_id BIGINT UNSIGNED, IN p_seen BIGINT UNSIGNED, IN p_now DATETIME(6))
BEGIN
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_acquired DATETIME(6);
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT owner, owner_label, acquired_at INTO v_owner, v_label, v_acquired FROM resource WHERE id = p_id;
    {{lease_expire(seen = p_seen, id = p_id, now = p_now)}};
    IF ROW_COUNT() = 0 THEN
        CALL rl_signal('RLBSY', p_name, '%s changed just now; look again');
    END IF;
    CALL rl_event(p_name, 'optimistic', 'expired', p_seen, v_owner, v_label, p_now, NULL,
                  TIMESTAMPDIFF(MICROSECOND, v_acquired, p_now) DIV 1000, NULL);
END;

-- In a transaction it is final at the COMMIT; others that come for the same version wait for that.
CREATE PROCEDURE rowlock_bump(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                              IN p_expected DECIMAL(40, 6))
BEGIN
    DECLARE v_inside BOOLEAN;
    DECLARE v_expected, v_none BIGINT UNSIGNED;
    CALL rl_name_check(p_name);
    CALL rl_token_check('version', p_name, p_expected, v_expected);
    CALL rl_writable_for(p_name);
    CALL rl_joins_for(p_name, v_inside);
    IF v_inside THEN
        CALL rl_joined('bump', p_name, v_expected, NULL);
    ELSE
        CALL rl_own('bump', p_name, v_expected, v_none);
    END IF;
END;

CREATE PROCEDURE rl_bump(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                         IN p_expected BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id, v_version, v_guarded BIGINT UNSIGNED;
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_login CHAR(27) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
        DEFAULT CONCAT(LEFT(USER(), 200), ' ', CONNECTION_ID(), ' sql');
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_kind = NULL;
    CALL rl_login(v_login);
    CALL rl_now(v_now);
    SET v_owner = CONCAT(v_login, LOWER(HEX(RANDOM_BYTES(16))));
    SELECT id, kind, status, version, guarded INTO v_id, v_kind, v_status, v_version, v_guarded
      FROM resource WHERE resource_name = p_name FOR UPDATE;
    IF v_kind IS NULL THEN
        CALL rl_signal('RLNOF', p_name, 'there is no lock %s; CALL rowlock_version(name, @v) makes it');
    ELSEIF v_kind <> 'optimistic' THEN
        CALL rl_wrong_kind(p_name, v_kind, 'optimistic');
    ELSEIF v_version <> p_expected THEN
        CALL rl_signal('RLCNF', p_name, CONCAT('%s has version ', v_version, ', not ', p_expected, '; read again'));
    ELSEIF v_status <> 'free' THEN
        CALL rl_signal('RLBSY', p_name, 'a lease on %s is held; try again when it is free');
    ELSEIF v_guarded IS NOT NULL THEN
        CALL rl_signal('RLBSY', p_name, 'sessions of the last holder of %s are still there; CALL rowlock_version(name, @v) outside of a transaction ends them');
    END IF;
    {{section_swap(owner = v_owner, label = v_label, id = v_id, name = p_name, expected = p_expected,
                   now = v_now)}};
    IF ROW_COUNT() <> 1 THEN
        CALL rl_signal('RLBSY', p_name, 'a lease on %s is cooling; try again when it is free');
    END IF;
END;
