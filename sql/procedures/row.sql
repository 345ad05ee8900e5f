-- Row locks, in the caller's own transaction.

-- Makes the rows of a name that is to be locked. Not in a transaction: they are committed at once.
CREATE PROCEDURE rowlock_row_make(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_id BIGINT UNSIGNED;
    CALL rl_name_check(p_name);
    CALL rl_alone('making a name');
    CALL rl_writable();
    CALL rl_resource(p_name, 'pessimistic', v_id);
END;

-- Held until the transaction ends. The name's rows are there before: to insert them here would let
-- everybody who comes for the same name, or another one beside it, wait for this transaction or
-- deadlock with it, and a locking read of what is missing locks the gap. Only a session in autocommit=0
-- whose transaction has not begun can make them first.
CREATE PROCEDURE rowlock_row_lock(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                  IN p_wait DECIMAL(40, 6))
BEGIN
    DECLARE v_inside BOOLEAN;
    DECLARE v_id BIGINT UNSIGNED;
    CALL rl_name_check(p_name);
    CALL rl_writable();
    CALL rl_inside(v_inside);
    IF NOT v_inside AND @@session.autocommit THEN
        CALL rl_signal('RLTXN', p_name, 'a row lock ends with its transaction, and there is none; START TRANSACTION first');
    END IF;
    CALL rl_single_writer(p_name);
    IF NOT v_inside THEN
        CALL rl_resource(p_name, 'pessimistic', v_id);
    END IF;
    CALL rl_row_id(p_name, v_id);
    CALL rl_row_lock(p_name, v_id, p_wait);
END;

-- Where many nodes write, each has row locks of its own.
CREATE PROCEDURE rl_single_writer(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_many BOOLEAN;
    CALL rl_quiet(v_many);
    IF v_many THEN
        CALL rl_signal('RLUNS', p_name, 'row locks of this cluster''s nodes do not exclude each other; use a lease for %s');
    END IF;
END;

CREATE PROCEDURE rl_row_id(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                           OUT p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_has_lock BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET p_id = NULL;
    SELECT r.id, r.kind, EXISTS (SELECT 1 FROM resource_lock k WHERE k.id = r.id)
      INTO p_id, v_kind, v_has_lock
      FROM resource r
     WHERE r.resource_name = p_name;
    IF v_kind <> 'pessimistic' THEN
        CALL rl_signal('RLMOD', p_name, '%s is used as a lease (optimistic) lock; it cannot be a row lock too; use another name');
    ELSEIF p_id IS NULL OR NOT v_has_lock THEN
        CALL rl_signal('RLNOF', p_name, '%s is new: CALL rowlock_row_make(name) once, before the transaction (or its snapshot)');
    END IF;
END;

CREATE PROCEDURE rl_row_lock(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                             IN p_id BIGINT UNSIGNED, IN p_wait DECIMAL(40, 6))
BEGIN
    DECLARE v_seconds INT UNSIGNED DEFAULT IF(p_wait IS NULL OR p_wait < 0, 100000000,
                                              LEAST(CEIL(p_wait), 100000000));
    DECLARE v_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_fenced BOOLEAN;
    DECLARE v_now DATETIME(6);
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    IF v_seconds = 0 THEN
        SELECT resource_name, fenced INTO v_name, v_fenced
          FROM resource_lock WHERE id = p_id FOR UPDATE SKIP LOCKED;
        IF v_name IS NULL THEN
            CALL rl_signal('RLBSY', p_name, '%s is held by another transaction');
        END IF;
    ELSE
        CALL rl_row_wait(p_name, p_id, v_seconds, v_name, v_fenced);
    END IF;
    IF v_name IS NULL OR v_name <> p_name THEN
        CALL rl_signal('RLNOF', p_name, '%s was purged just now; CALL rowlock_row_make(name) before the transaction');
    END IF;
    -- A holder that died may still be published: its token ends now, as the row's lock was let go.
    IF v_fenced THEN
        CALL rl_now(v_now);
        {{row_end_stale(id = p_id, now = v_now)}};
    END IF;
END;

-- Whole seconds. MySQL has no limit for one statement that could be computed.
CREATE PROCEDURE rl_row_wait(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                             IN p_id BIGINT UNSIGNED, IN p_seconds INT UNSIGNED,
                             OUT p_found VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                             OUT p_fenced BOOLEAN)
BEGIN
    /*!80000 DECLARE v_before BIGINT UNSIGNED DEFAULT @@session.innodb_lock_wait_timeout; */
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET p_found = NULL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        /*!80000 SET SESSION innodb_lock_wait_timeout = v_before; */
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR 1205
    BEGIN
        /*!80000 SET SESSION innodb_lock_wait_timeout = v_before; */
        CALL rl_signal('RLTMO', p_name, IF(@@global.innodb_rollback_on_timeout,
            'the wait for %s ended; the server has rolled the transaction back',
            'the wait for %s ended; the transaction is still open, without it'));
    END;
    /*!80000 SET SESSION innodb_lock_wait_timeout = p_seconds; */
    /*M! SET STATEMENT innodb_lock_wait_timeout = p_seconds FOR */
    SELECT resource_name, fenced INTO p_found, p_fenced FROM resource_lock WHERE id = p_id FOR UPDATE;
    /*!80000 SET SESSION innodb_lock_wait_timeout = v_before; */
END;
