-- Leaders: as src/kind/leader.c. Only the library waits for a change: SQL callers look again.

-- The holder of a lease publishes a value; NULL or '': none, then it is not shown as the leader.
CREATE PROCEDURE rowlock_set_value(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                   IN p_token DECIMAL(40, 6),
                                   IN p_value LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_token BIGINT UNSIGNED;
    CALL rl_name_check(p_name);
    CALL rl_token_check('token', p_name, p_token, v_token);
    CALL rl_value_check(p_name, p_value);
    CALL rl_alone('publishing a value for', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_set_value(p_name, v_token, COALESCE(p_value, ''));
END;

-- The present leader's value and token; NULL: nobody leads. In a transaction it reads the snapshot.
CREATE PROCEDURE rowlock_leader(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                OUT p_value LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                OUT p_token BIGINT UNSIGNED)
BEGIN
    DECLARE v_inside BOOLEAN;
    CALL rl_name_check(p_name);
    CALL rl_inside_for(p_name, v_inside);
    IF v_inside THEN
        CALL rl_leader(p_name, p_value, p_token);
    ELSE
        CALL rl_leader_alone(p_name, p_value, p_token);
    END IF;
END;

-- As rl_value_check() in src/kind/leader.c: the rules of a name, and at most 1024 bytes.
CREATE PROCEDURE rl_value_check(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                IN p_value LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    IF LENGTH(p_value) > 1024 OR HEX(p_value) REGEXP '^(..)*ED[AB]'
       OR p_value REGEXP '[\\x{0}-\\x{1f}\\x{7f}-\\x{9f}\\x{2028}\\x{2029}]'
       OR p_value REGEXP '^[\\x{20}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{202f}\\x{205f}\\x{3000}\\x{feff}]'
       OR p_value REGEXP '[\\x{20}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{202f}\\x{205f}\\x{3000}\\x{feff}]$' THEN
        CALL rl_signal('RLINV', p_name,
                       'the value for %s is not valid: at most 1024 bytes, no control characters, no white space around');
    END IF;
END;

CREATE PROCEDURE rl_set_value(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                              IN p_token BIGINT UNSIGNED,
                              IN p_value LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id, v_number BIGINT UNSIGNED;
    DECLARE v_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin;
    -- See rl_event.
    DECLARE v_unique BOOLEAN DEFAULT @@session.unique_checks;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET unique_checks = v_unique;
        RESIGNAL;
    END;
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    CALL rl_renewable(p_name, p_token, v_now, v_id, v_owner);
    SELECT COALESCE(MAX(number), 0) + 1 INTO v_number FROM lock_value WHERE resource_id = v_id AND version = p_token;
    SET unique_checks = TRUE;
    {{leader_publish(value = p_value, number = v_number, id = v_id, version = p_token, owner = v_owner, now = v_now)}};
    IF ROW_COUNT() = 0 THEN
        CALL rl_signal('RLLST', p_name, CONCAT('%s is not held with token ', p_token, ' any more; stop this work'));
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
    SET unique_checks = v_unique;
END;

CREATE PROCEDURE rl_leader(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                           OUT p_value LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                           OUT p_token BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_leads BOOLEAN;
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_held_us, v_left_us BIGINT;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_kind = NULL;
    CALL rl_now(v_now);
    {{leader_look(name = p_name, now = v_now)}}
      INTO v_kind, v_leads, p_token, p_value, v_label, v_held_us, v_left_us;
    IF v_kind IS NULL THEN
        CALL rl_signal('RLNOF', p_name, 'there is no lock %s; look at its spelling');
    ELSEIF v_kind <> 'optimistic' THEN
        CALL rl_wrong_kind(p_name, v_kind, 'optimistic');
    ELSEIF NOT v_leads THEN
        SET p_value = NULL, p_token = NULL;
    END IF;
END;

-- With autocommit=0 it is a transaction.
CREATE PROCEDURE rl_leader_alone(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                 OUT p_value LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                 OUT p_token BIGINT UNSIGNED)
BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        RESIGNAL;
    END;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    CALL rl_leader(p_name, p_value, p_token);
    COMMIT AND NO CHAIN NO RELEASE;
END;
