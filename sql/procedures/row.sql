-- Row locks, in the caller's own transaction.

-- Makes the rows of a name to lock. Not in a transaction, since they are committed at once.
CREATE PROCEDURE rowlock_row_make(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_id BIGINT UNSIGNED;
    CALL rl_name_check(p_name);
    CALL rl_alone('making', p_name);
    CALL rl_writable_for(p_name);
    CALL rl_resource_or_busy(p_name, 'pessimistic', NULL, v_id);
END;

-- The lock is held until the transaction ends. The name's rows must exist: inserting them here would make others that want this
-- name, or one beside it, wait for this transaction or deadlock with it, and a locking read of a missing row locks the gap. Only
-- a session with autocommit=0 whose transaction has not begun can make them first.
CREATE PROCEDURE rowlock_row_lock(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                  IN p_wait DECIMAL(40, 6))
BEGIN
    DECLARE v_inside BOOLEAN;
    DECLARE v_id BIGINT UNSIGNED;
    CALL rl_name_check(p_name);
    CALL rl_writable_for(p_name);
    CALL rl_inside_for(p_name, v_inside);
    IF NOT v_inside AND @@session.autocommit THEN
        CALL rl_signal('RLTXN', p_name, 'the row lock %s ends with its transaction, and there is none; START TRANSACTION first');
    END IF;
    CALL rl_single_writer(p_name);
    IF NOT v_inside THEN
        CALL rl_resource_or_busy(p_name, 'pessimistic', IF(p_wait IS NULL OR p_wait < 0, 3e15, LEAST(p_wait, 3e9) * 1000000), v_id);
    END IF;
    CALL rl_row_lock(p_name, p_wait);
END;

-- Refuses a cluster where several nodes write, since each has row locks of its own.
CREATE PROCEDURE rl_single_writer(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_many BOOLEAN;
    CALL rl_quiet(v_many);
    IF v_many THEN
        CALL rl_signal('RLUNS', p_name, 'row locks of this cluster''s nodes do not exclude each other; use a lease for %s');
    END IF;
END;

-- Only locking reads: a plain one would make the transaction's snapshot, in which later reads would not see what changed during a
-- wait. By the unique name, which locks only the row if it exists, else the gap.
CREATE PROCEDURE rl_row_lock(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                             IN p_wait DECIMAL(40, 6))
BEGIN
    DECLARE v_seconds INT UNSIGNED DEFAULT IF(p_wait IS NULL OR p_wait < 0, 100000000,
                                              LEAST(CEIL(p_wait), 100000000));
    DECLARE v_id BIGINT UNSIGNED;
    DECLARE v_fenced BOOLEAN;
    DECLARE v_now DATETIME(6);
    DECLARE v_gone BOOLEAN;
    -- Releases the gap of a missing row, or the row whose other half is in use; see rl_joined.
    DECLARE EXIT HANDLER FOR SQLSTATE 'RLNOF', SQLSTATE 'RLMOD', SQLSTATE 'RLBSY', SQLSTATE 'RLTMO'
    BEGIN
        CALL rl_joined_back(v_gone);
        RESIGNAL;
    END;
    SAVEPOINT rowlock_call;
    CALL rl_row_wait(p_name, v_seconds, v_id, v_fenced);
    IF v_id IS NULL THEN
        CALL rl_row_missing(p_name);
    END IF;
    RELEASE SAVEPOINT rowlock_call;
    -- A dead holder may still be published: its token ends now, since its row lock has ended.
    IF v_fenced THEN
        CALL rl_now(v_now);
        {{row_end_stale(seen = version, id = v_id, ticket = '', now = v_now)}};
    END IF;
END;

-- There is no row to lock: always an error.
CREATE PROCEDURE rl_row_missing(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_kind = NULL;
    SELECT kind INTO v_kind FROM resource WHERE resource_name = p_name;
    IF v_kind <> 'pessimistic' THEN
        CALL rl_wrong_kind(p_name, v_kind, 'pessimistic');
    ELSE
        CALL rl_signal('RLNOF', p_name, '%s is new: ROLLBACK, and CALL rowlock_row_make(name) once before the transaction');
    END IF;
END;

-- Whole seconds; 0: a try. Where a dead holder is still published, its row of `resource` is locked, too, since the caller ends its
-- token: an open fence of that holder may have it, and is waited for within the same limit. (Not id =: a row that a server
-- takes for a constant stays locked at READ COMMITTED though it does not match.) MySQL has no computed limit for a single
-- statement, MariaDB no NOWAIT in a procedure. After a KILL QUERY MySQL's limit stays, since no handler runs: the next call reads the
-- old and the new one from @rowlock_limit, and sets the old one.
CREATE PROCEDURE rl_row_wait(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                             IN p_seconds INT UNSIGNED, OUT p_id BIGINT UNSIGNED,
                             OUT p_fenced BOOLEAN)
BEGIN
    /*!80000 DECLARE v_before BIGINT UNSIGNED DEFAULT @@session.innodb_lock_wait_timeout; */
    DECLARE v_begun DATETIME(6) DEFAULT SYSDATE(6);
    DECLARE v_left, v_published BIGINT;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET p_id = NULL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        /*!80000 SET SESSION innodb_lock_wait_timeout = v_before, @rowlock_limit = NULL; */
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR 1205, 3572
    BEGIN
        /*!80000 SET SESSION innodb_lock_wait_timeout = v_before, @rowlock_limit = NULL; */
        CALL rl_signal(IF(p_seconds = 0, 'RLBSY', 'RLTMO'), p_name, CONCAT(
            IF(p_seconds = 0, '%s is held by another transaction; yours ', 'the wait for %s ended; the transaction '),
            /*M! IF(@@global.innodb_rollback_on_timeout, 'has been rolled back', 'is still open') */
            /*!80000 IF(@@global.innodb_rollback_on_timeout AND p_seconds > 0, 'has been rolled back', 'is still open') */));
    END;
    /*!80000
    IF CAST(@rowlock_limit AS CHAR) REGEXP CONCAT('^[0-9]{1,9} ', v_before, '$') THEN
        SET v_before = SUBSTRING_INDEX(CAST(@rowlock_limit AS CHAR), ' ', 1);
    END IF;
    SET @rowlock_limit = CONCAT(v_before, ' ', GREATEST(p_seconds, 1));
    SET SESSION innodb_lock_wait_timeout = GREATEST(p_seconds, 1);
    IF p_seconds = 0 THEN
        SELECT id, fenced INTO p_id, p_fenced FROM resource_lock WHERE resource_name = p_name FOR UPDATE NOWAIT;
        IF p_fenced THEN
            SELECT COUNT(*) INTO v_published FROM resource WHERE id >= p_id AND id <= p_id AND status = 'held' FOR UPDATE NOWAIT;
        END IF;
    ELSE
        SELECT id, fenced INTO p_id, p_fenced FROM resource_lock WHERE resource_name = p_name FOR UPDATE;
        IF p_fenced THEN
            SET v_left = GREATEST(CAST(p_seconds AS SIGNED) - TIMESTAMPDIFF(SECOND, v_begun, SYSDATE(6)), 1);
            SET SESSION innodb_lock_wait_timeout = v_left, @rowlock_limit = CONCAT(v_before, ' ', v_left);
            SELECT COUNT(*) INTO v_published FROM resource WHERE id >= p_id AND id <= p_id AND status = 'held' FOR UPDATE;
        END IF;
    END IF;
    SET SESSION innodb_lock_wait_timeout = v_before, @rowlock_limit = NULL;
    */
    /*M!
    SET STATEMENT innodb_lock_wait_timeout = p_seconds FOR
        SELECT id, fenced INTO p_id, p_fenced FROM resource_lock WHERE resource_name = p_name FOR UPDATE;
    IF p_fenced THEN
        SET v_left = IF(p_seconds = 0, 0, GREATEST(CAST(p_seconds AS SIGNED) - TIMESTAMPDIFF(SECOND, v_begun, SYSDATE(6)), 1));
        SET STATEMENT innodb_lock_wait_timeout = v_left FOR
            SELECT COUNT(*) INTO v_published FROM resource WHERE id >= p_id AND id <= p_id AND status = 'held' FOR UPDATE;
    END IF;
    */
END;
