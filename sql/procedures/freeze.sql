-- Freezes: as src/admin/freeze.c, with the same statements. A pattern is a name, or the beginning of names and a `*`.

-- Nobody can acquire the locks for so many seconds, NULL: until they are thawed. Holders keep theirs. The reason may be NULL.
CREATE PROCEDURE rowlock_freeze(IN p_pattern LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                IN p_seconds DECIMAL(40, 6),
                                IN p_reason LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_begin VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_prefix, v_found BOOLEAN;
    CALL rl_freeze_pattern(p_pattern, v_begin, v_prefix);
    IF p_seconds <= 0 OR p_seconds > 315360000 THEN
        CALL rl_signal('RLINV', p_pattern, CONCAT('the time for which %s is to be frozen is ', p_seconds + 0e0,
                                                  ' s; give more than 0, at most 10 years, or NULL'));
    END IF;
    CALL rl_alone('freezing', p_pattern);
    CALL rl_writable_for(p_pattern);
    CALL rl_freeze_change(p_pattern, v_begin, v_prefix, FALSE, COALESCE(CEIL(p_seconds * 1000000), 0), p_reason, v_found);
END;

CREATE PROCEDURE rowlock_thaw(IN p_pattern LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_begin VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_prefix, v_found BOOLEAN;
    CALL rl_freeze_pattern(p_pattern, v_begin, v_prefix);
    CALL rl_alone('thawing', p_pattern);
    CALL rl_writable_for(p_pattern);
    CALL rl_freeze_change(p_pattern, v_begin, v_prefix, TRUE, 0, NULL, v_found);
    IF NOT v_found THEN
        CALL rl_signal('RLNOF', p_pattern, '%s is not frozen by that pattern; look at its spelling');
    END IF;
END;

CREATE PROCEDURE rl_freeze_pattern(IN p_pattern LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                   OUT p_begin VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, OUT p_prefix BOOLEAN)
BEGIN
    SET p_prefix = COALESCE(RIGHT(p_pattern, 1) = '*', FALSE);
    IF p_prefix AND CHAR_LENGTH(p_pattern) <= 256 THEN
        SET p_begin = LEFT(p_pattern, CHAR_LENGTH(p_pattern) - 1);
        -- The appended x keeps a prefix from being refused for its end.
        CALL rl_name_check(CONCAT(LEFT(p_begin, 254), 'x'));
    ELSE
        CALL rl_name_check(p_pattern);
        SET p_begin = p_pattern;
    END IF;
END;

-- While this waits for a row, nobody can make a name. So it waits for a second, and its caller tries again. (On MySQL the limit
-- is the session's: see rl_row_wait.)
CREATE PROCEDURE rl_freeze_change(IN p_pattern VARCHAR(256) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                  IN p_begin VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                  IN p_prefix BOOLEAN, IN p_thaws BOOLEAN, IN p_for_us BIGINT UNSIGNED,
                                  IN p_reason LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, OUT p_found BOOLEAN)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id BIGINT UNSIGNED;
    DECLARE v_begin VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_prefix BOOLEAN;
    DECLARE v_until VARCHAR(32) CHARACTER SET ascii;
    DECLARE v_over BOOLEAN DEFAULT FALSE;
    DECLARE v_reason VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
        DEFAULT LEFT(REGEXP_REPLACE(COALESCE(p_reason, ''), '[\\x{0}-\\x{1f}\\x{7f}-\\x{9f}\\x{2028}\\x{2029}]', '?'), 250);
    DECLARE v_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
        DEFAULT CONCAT(LEFT(USER(), 200), ' ', CONNECTION_ID(), ' sql');
    DECLARE v_last BIGINT UNSIGNED DEFAULT LAST_INSERT_ID();
    DECLARE v_safe BOOLEAN DEFAULT @@session.sql_safe_updates;
    DECLARE v_unique BOOLEAN DEFAULT @@session.unique_checks;
    DECLARE v_big BOOLEAN DEFAULT @@session.sql_big_selects;
    DECLARE v_error, v_number INT;
    /*!80000 DECLARE v_before BIGINT UNSIGNED DEFAULT @@session.innodb_lock_wait_timeout; */
    DECLARE freezes CURSOR FOR
        SELECT {{freeze_begin(f.)}}, f.is_prefix, CAST(f.until_at AS CHAR) FROM lock_freeze f WHERE id <> 1 AND until_at > v_now;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_over = TRUE;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        GET DIAGNOSTICS v_number = NUMBER; -- the last one is the error
        GET DIAGNOSTICS CONDITION v_number v_error = MYSQL_ERRNO;
        ROLLBACK AND NO CHAIN NO RELEASE;
        SET sql_safe_updates = v_safe, unique_checks = v_unique, sql_big_selects = v_big;
        /*!80000 SET SESSION innodb_lock_wait_timeout = v_before, @rowlock_limit = NULL; */
        SET v_last = LAST_INSERT_ID(v_last);
        IF v_error IN (1205, 1213, 1020, 1180, 3101) THEN
            CALL rl_signal('RLBSY', p_pattern, 'a lock of %s is in use by a transaction; try again later');
        END IF;
        RESIGNAL;
    END;
    SET sql_safe_updates = FALSE, unique_checks = TRUE, sql_big_selects = TRUE;
    /*!80000
    IF CAST(@rowlock_limit AS CHAR) REGEXP CONCAT('^[0-9]{1,9} ', v_before, '$') THEN
        SET v_before = SUBSTRING_INDEX(CAST(@rowlock_limit AS CHAR), ' ', 1);
    END IF;
    SET @rowlock_limit = CONCAT(v_before, ' ', 1);
    SET SESSION innodb_lock_wait_timeout = 1;
    */
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    /*M! SET STATEMENT innodb_lock_wait_timeout = 1 FOR */
    {{freeze_lock()}} INTO v_id;
    IF v_id IS NULL THEN
        CALL rl_signal('RLDMG', p_pattern, '%s: the table lock_freeze has lost its first row; see `rowlock doctor`');
    END IF;
    CALL rl_now(v_now);
    IF p_thaws THEN
        /*M! SET STATEMENT innodb_lock_wait_timeout = 1 FOR */
        {{freeze_end(begin = p_begin, is_prefix = p_prefix, now = v_now)}};
        SET p_found = ROW_COUNT() > 0;
    ELSE
        /*M! SET STATEMENT innodb_lock_wait_timeout = 1 FOR */
        {{freeze_put(begin = p_begin, is_prefix = p_prefix, label = v_label, reason = v_reason, until_us = 0,
                     for_us = p_for_us, now = v_now)}};
        SET p_found = TRUE;
    END IF;
    /*M! SET STATEMENT innodb_lock_wait_timeout = 1 FOR */
    {{freeze_thaw(begin = p_begin, is_prefix = p_prefix)}};
    SET v_over = FALSE;
    OPEN freezes;
    mark: LOOP
        FETCH freezes INTO v_begin, v_prefix, v_until;
        IF v_over THEN
            LEAVE mark;
        END IF;
        /*M! SET STATEMENT innodb_lock_wait_timeout = 1 FOR */
        {{freeze_mark(until = v_until, changed = p_begin, changed_is_prefix = p_prefix, begin = v_begin, is_prefix = v_prefix)}};
    END LOOP;
    CLOSE freezes;
    IF p_found THEN
        CALL rl_event(LEFT(p_pattern, 255), 'optimistic', IF(p_thaws, 'thawed', 'frozen'), 0, '', v_label, v_now, NULL, NULL, v_reason);
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
    SET sql_safe_updates = v_safe, unique_checks = v_unique, sql_big_selects = v_big;
    /*!80000 SET SESSION innodb_lock_wait_timeout = v_before, @rowlock_limit = NULL; */
    SET v_last = LAST_INSERT_ID(v_last);
END;
