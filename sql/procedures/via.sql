-- For clients that work through procedures (sql/via.sql): statements whose procedures an attacker could misuse if they were made
-- like the others (cmake/via_procedures.awk).
--
-- Those of row locks run in the caller's transaction. They read only rows whose lock the caller has or gets; they roll back the
-- transaction of a caller that does not have it, or that names a missing row. Otherwise rows that they locked in vain (under
-- REPEATABLE READ a row that did not match, or a gap; under SERIALIZABLE all rows that were read) would stay locked as long as
-- the caller likes.

-- Renews only leases whose owner and version are the given ones. lease_renew itself does not read the resource (sql/lease.sql),
-- so it would take any version: 2^64 - 1 would end the holder's renewals for ever. The resource is read without a lock, since a
-- fence may have it; if the lease is taken over meanwhile, the renewal's row has a higher version.
CREATE PROCEDURE rl_via_lease_renew(p_leases LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_theirs LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_renewed BIGINT DEFAULT 0;
    IF NOT COALESCE(@@autocommit AND JSON_VALID(p_leases), FALSE) THEN
        SIGNAL SQLSTATE 'RLINV' SET MESSAGE_TEXT = 'the argument of rl_via_lease_renew is not valid, or autocommit is off';
    END IF;
    CALL rl_writable();
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    /*M! SET STATEMENT group_concat_max_len = 1073741824 FOR */
    SELECT JSON_ARRAYAGG(JSON_ARRAY(k.id, k.version, k.ttl_us)) INTO v_theirs
      FROM JSON_TABLE(p_leases, '$[*]' COLUMNS (
               id BIGINT UNSIGNED PATH '$[0]',
               version BIGINT UNSIGNED PATH '$[1]',
               ttl_us BIGINT UNSIGNED PATH '$[2]',
               owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin PATH '$[3]')) AS k
      STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY)
        ON r.id = k.id AND r.version = k.version AND r.owner = k.owner
       AND r.status = 'held' AND r.kind = 'optimistic'
     WHERE k.ttl_us BETWEEN 1 AND 86400000000
       AND SUBSTRING(k.owner, 37, 1) = '.';
    IF v_theirs IS NOT NULL THEN
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
        {{lease_renew(leases = v_theirs, now = v_now)}};
        SET v_renewed = ROW_COUNT();
    END IF;
    SELECT v_renewed, 0;
END;

CREATE PROCEDURE rl_via_resource_create(p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                        p_kind LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id BIGINT UNSIGNED;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        ROLLBACK AND NO CHAIN NO RELEASE;
        RESIGNAL;
    END;
    IF NOT COALESCE(@@autocommit AND {{known_kind(p_kind)}}, FALSE) THEN
        SIGNAL SQLSTATE 'RLINV' SET MESSAGE_TEXT = 'that is no kind of lock, or autocommit is off';
    END IF;
    -- Without unique_checks InnoDB may take a name twice; insert_id could be the last one there is.
    IF NOT @@unique_checks OR @@insert_id <> 0 THEN
        SIGNAL SQLSTATE 'RLINV' SET MESSAGE_TEXT = 'unique_checks must be on, and insert_id not set';
    END IF;
    CALL rl_name_check(p_name);
    CALL rl_writable();
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    START TRANSACTION;
    {{resource_create(name = p_name, kind = p_kind, now = v_now)}};
    SET v_id = LAST_INSERT_ID();
    CALL rl_resource_begin_at(p_name, v_id);
    IF p_kind = 'pessimistic' THEN
        {{resource_create_lock(name = p_name, fenced = 0, id = v_id, now = v_now)}};
    ELSEIF p_kind = 'optimistic' THEN
        {{resource_create_renewal(id = v_id)}};
    END IF;
    COMMIT AND NO CHAIN NO RELEASE;
    SELECT 1, 0;
END;

-- Raises by at most a million: the caller only claims to have seen the version, and none may come near 2^64.
CREATE PROCEDURE rl_via_resource_raise(p_seen BIGINT UNSIGNED, p_id BIGINT UNSIGNED, p_version BIGINT UNSIGNED,
                                       p_owner LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_now DATETIME(6);
    IF NOT COALESCE(@@autocommit AND p_seen IS NOT NULL AND SUBSTRING(p_owner, 37, 1) = '.', FALSE) THEN
        SIGNAL SQLSTATE 'RLINV' SET MESSAGE_TEXT = 'an argument of rl_via_resource_raise is not valid, or autocommit is off';
    END IF;
    CALL rl_writable();
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    {{resource_raise(seen = LEAST(p_seen, p_version + 1000000), id = p_id, version = p_version, owner = p_owner, now = v_now)}};
    SELECT ROW_COUNT(), 0;
END;

-- Puts the caller's login behind each label, and dates no event back by more than a day.
CREATE PROCEDURE rl_via_event_add_many(p_events LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                       p_login LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                       p_oldest_us BIGINT UNSIGNED)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_login VARCHAR(140) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT CONCAT(' [', LEFT(USER(),
        CHAR_LENGTH(USER()) - CHAR_LENGTH(SUBSTRING_INDEX(USER(), '@', -1)) - 1), ']');
    IF NOT COALESCE(@@autocommit AND @@insert_id = 0 AND JSON_VALID(p_events), FALSE) THEN
        SIGNAL SQLSTATE 'RLINV' SET MESSAGE_TEXT = 'the events are not valid, autocommit is off, or insert_id is set';
    END IF;
    CALL rl_writable();
    CALL rl_now(v_now);
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    {{event_add_many(events = p_events, login = v_login, oldest_us = 86400000000, now = v_now)}};
    SELECT ROW_COUNT(), 0;
END;

CREATE PROCEDURE rl_via_in_transaction()
BEGIN
    IF @@autocommit THEN
        SIGNAL SQLSTATE 'RLTXN' SET MESSAGE_TEXT = 'row locks are held with autocommit off';
    END IF;
END;

-- Checks that the caller has the row's lock, in an open transaction.
CREATE PROCEDURE rl_via_has_row(p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_id BIGINT UNSIGNED;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_id = NULL;
    CALL rl_via_in_transaction();
    -- In share mode, since a caller that shares it with others has it, too. (A derived table's rows are locked, too.)
    SELECT x.id INTO v_id FROM (SELECT id FROM resource_lock WHERE id = p_id
                                /*M! LOCK IN SHARE MODE */ /*!80000 FOR SHARE */ SKIP LOCKED) AS x;
    IF v_id IS NULL THEN
        ROLLBACK AND NO CHAIN NO RELEASE;
        SIGNAL SQLSTATE 'RLBSY' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'the row lock is not yours; the transaction was rolled back';
    END IF;
END;

-- SKIP LOCKED (MariaDB has no NOWAIT in a procedure) found nothing: tells a locked row from a missing one.
CREATE PROCEDURE rl_via_row_skipped(p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_there BOOLEAN;
    ROLLBACK AND NO CHAIN NO RELEASE;
    -- No IF EXISTS (SELECT ...): in that, MariaDB reads with a lock.
    SELECT COUNT(*) INTO v_there FROM resource_lock WHERE id = p_id;
    ROLLBACK AND NO CHAIN NO RELEASE;
    IF v_there THEN
        SIGNAL SQLSTATE 'RLBSY' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'somebody else has the row lock';
    END IF;
END;

CREATE PROCEDURE rl_via_row_lock(p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_fenced BOOLEAN;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_name = NULL;
    CALL rl_via_in_transaction();
    SELECT resource_name, fenced INTO v_name, v_fenced FROM resource_lock WHERE id = p_id FOR UPDATE;
    IF v_name IS NULL THEN
        ROLLBACK AND NO CHAIN NO RELEASE;
    END IF;
    SELECT v_name, v_fenced, CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF'), ({{row_ticket(id = p_id)}})
      FROM DUAL WHERE v_name IS NOT NULL;
END;

CREATE PROCEDURE rl_via_row_try(p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_fenced BOOLEAN;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_name = NULL;
    CALL rl_via_in_transaction();
    SELECT resource_name, fenced INTO v_name, v_fenced FROM resource_lock WHERE id = p_id FOR UPDATE SKIP LOCKED;
    IF v_name IS NULL THEN
        CALL rl_via_row_skipped(p_id);
    END IF;
    SELECT v_name, v_fenced, CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF'), ({{row_ticket(id = p_id)}})
      FROM DUAL WHERE v_name IS NOT NULL;
END;

CREATE PROCEDURE rl_via_row_share(p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_fenced BOOLEAN;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_name = NULL;
    CALL rl_via_in_transaction();
    SELECT x.resource_name, x.fenced INTO v_name, v_fenced
      FROM (SELECT resource_name, fenced FROM resource_lock WHERE id = p_id
            /*M! LOCK IN SHARE MODE */ /*!80000 FOR SHARE */) AS x;
    IF v_name IS NULL THEN
        ROLLBACK AND NO CHAIN NO RELEASE;
    END IF;
    SELECT v_name, v_fenced, CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF'), ({{row_ticket(id = p_id)}})
      FROM DUAL WHERE v_name IS NOT NULL;
END;

CREATE PROCEDURE rl_via_row_share_try(p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE v_fenced BOOLEAN;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_name = NULL;
    CALL rl_via_in_transaction();
    SELECT x.resource_name, x.fenced INTO v_name, v_fenced
      FROM (SELECT resource_name, fenced FROM resource_lock WHERE id = p_id
            /*M! LOCK IN SHARE MODE */ /*!80000 FOR SHARE */ SKIP LOCKED) AS x;
    IF v_name IS NULL THEN
        CALL rl_via_row_skipped(p_id);
    END IF;
    SELECT v_name, v_fenced, CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF'), ({{row_ticket(id = p_id)}})
      FROM DUAL WHERE v_name IS NOT NULL;
END;

CREATE PROCEDURE rl_via_row_ticket(p_id BIGINT UNSIGNED)
BEGIN
    CALL rl_via_has_row(p_id);
    {{row_ticket(id = p_id)}};
END;

CREATE PROCEDURE rl_via_row_stale(p_id BIGINT UNSIGNED)
BEGIN
    CALL rl_via_has_row(p_id);
    {{row_stale(id = p_id)}};
END;

CREATE PROCEDURE rl_via_row_fence(p_id BIGINT UNSIGNED)
BEGIN
    CALL rl_via_has_row(p_id);
    CALL rl_writable();
    {{row_fence(id = p_id)}};
    SELECT ROW_COUNT(), 0;
END;

CREATE PROCEDURE rl_via_row_probe(p_id BIGINT UNSIGNED)
BEGIN
    DECLARE v_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_name = NULL;
    CALL rl_via_in_transaction();
    SELECT resource_name INTO v_name FROM resource_lock WHERE id = p_id FOR UPDATE SKIP LOCKED;
    IF v_name IS NULL THEN
        ROLLBACK AND NO CHAIN NO RELEASE;
    END IF;
    SELECT v_name FROM DUAL WHERE v_name IS NOT NULL;
END;

-- For a connection that is not the library's, in a transaction of the caller's. The calling procedure gives the key back, also on
-- an error.
CREATE PROCEDURE rl_caller_begin(IN p_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_inside BOOLEAN;
    CALL rl_joins_for(NULL, v_inside);
    CALL rl_via_key(p_key);
    IF NOT v_inside THEN
        SIGNAL SQLSTATE 'RLTXN' SET MESSAGE_TEXT = 'the connection is not in a transaction';
    END IF;
    CALL rl_writable();
END;

-- In the caller's own transaction, on a connection that is not the library's. The publication of a dead holder is ended here, for
-- good when the transaction commits: until then nobody else gets the row.
CREATE PROCEDURE rl_via_caller_row_lock(p_id BIGINT UNSIGNED, p_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_name VARBINARY(1020);
    DECLARE v_fenced BOOLEAN;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_name = NULL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        DO RELEASE_LOCK(p_key);
        RESIGNAL;
    END;
    CALL rl_caller_begin(p_key);
    SELECT CAST(resource_name AS BINARY), fenced INTO v_name, v_fenced FROM resource_lock WHERE id = p_id FOR UPDATE;
    IF v_name IS NULL THEN
        ROLLBACK AND NO CHAIN NO RELEASE;
    ELSEIF v_fenced THEN
        CALL rl_now(v_now);
        {{row_end_stale(seen = version, id = p_id, ticket = '', now = v_now)}};
    END IF;
    DO RELEASE_LOCK(p_key);
    SELECT v_name FROM DUAL WHERE v_name IS NOT NULL;
END;

CREATE PROCEDURE rl_via_caller_row_try(p_id BIGINT UNSIGNED, p_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_id BIGINT UNSIGNED;
    DECLARE v_name VARBINARY(1020);
    DECLARE v_fenced BOOLEAN;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        DO RELEASE_LOCK(p_key);
        RESIGNAL;
    END;
    CALL rl_caller_begin(p_key);
    SELECT CAST(resource_name AS BINARY), fenced INTO v_name, v_fenced FROM resource_lock WHERE id = p_id FOR UPDATE SKIP LOCKED;
    IF v_name IS NULL THEN
        SIGNAL SQLSTATE 'RLBSY' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'somebody else has the row lock';
    END IF;
    IF v_fenced THEN
        SELECT id INTO v_id FROM resource WHERE id = p_id FOR UPDATE SKIP LOCKED;
        IF v_id IS NULL THEN
            SIGNAL SQLSTATE 'RLBSY' SET MYSQL_ERRNO = 1205, MESSAGE_TEXT = 'a transaction is using it';
        END IF;
        CALL rl_now(v_now);
        {{row_end_stale(seen = version, id = p_id, ticket = '', now = v_now)}};
    END IF;
    DO RELEASE_LOCK(p_key);
    SELECT v_name;
END;

-- Ends a call that has changed p_rows rows. A caller that has changed none has lost the lock, and must roll back; this does it,
-- so that nobody keeps another holder's row locked.
CREATE PROCEDURE rl_caller_end(IN p_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, IN p_rows BIGINT)
BEGIN
    IF p_rows < 1 THEN
        ROLLBACK AND NO CHAIN NO RELEASE;
    END IF;
    DO RELEASE_LOCK(p_key);
    SELECT p_rows, 0;
END;

CREATE PROCEDURE rl_via_caller_fence(p_id BIGINT UNSIGNED, p_version BIGINT UNSIGNED,
                                     p_owner LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                     p_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_inside BOOLEAN;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        DO RELEASE_LOCK(p_key);
        RESIGNAL;
    END;
    CALL rl_joins_for(NULL, v_inside);
    CALL rl_via_key(p_key);
    IF NOT COALESCE(v_inside AND SUBSTRING(p_owner, 37, 1) = '.', FALSE) THEN
        SIGNAL SQLSTATE 'RLTXN' SET MESSAGE_TEXT = 'the connection is not in a transaction, or the owner id not one';
    END IF;
    CALL rl_writable();
    {{caller_fence(id = p_id, version = p_version, owner = p_owner, key = p_key)}};
    CALL rl_caller_end(p_key, ROW_COUNT());
END;

CREATE PROCEDURE rl_via_caller_fence_shared(p_id BIGINT UNSIGNED, p_version BIGINT UNSIGNED,
                                            p_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_version BIGINT UNSIGNED;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_version = NULL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        DO RELEASE_LOCK(p_key);
        RESIGNAL;
    END;
    CALL rl_caller_begin(p_key);
    SELECT version INTO v_version
      FROM resource WHERE id = p_id AND version = p_version AND status = 'shared' LOCK IN SHARE MODE;
    IF v_version IS NULL THEN
        ROLLBACK AND NO CHAIN NO RELEASE;
    END IF;
    DO RELEASE_LOCK(p_key);
    SELECT v_version FROM DUAL WHERE v_version IS NOT NULL;
END;

-- The latch's row stays locked, as after any count, also if nothing was counted; a row of another kind does not.
CREATE PROCEDURE rl_via_caller_latch_down(p_down_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                          p_owner LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, p_id BIGINT UNSIGNED,
                                          p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                          p_generation BIGINT UNSIGNED,
                                          p_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE v_rows BIGINT DEFAULT 0;
    DECLARE v_unique BOOLEAN DEFAULT @@session.unique_checks;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET v_kind = NULL;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        SET unique_checks = v_unique;
        DO RELEASE_LOCK(p_key);
        RESIGNAL;
    END;
    CALL rl_caller_begin(p_key);
    IF NOT COALESCE(CHAR_LENGTH(CONVERT(UNHEX(p_down_key) USING utf8mb4)) BETWEEN 1 AND 255
                    AND LENGTH(p_owner) BETWEEN 38 AND 63 AND SUBSTRING(p_owner, 37, 1) = '.'
                    AND p_id IS NOT NULL AND p_name IS NOT NULL AND p_generation IS NOT NULL, FALSE) THEN
        SIGNAL SQLSTATE 'RLINV' SET MESSAGE_TEXT = 'an argument of rl_via_caller_latch_down is not valid';
    END IF;
    SET unique_checks = TRUE; -- see rl_event
    SELECT kind INTO v_kind FROM resource WHERE id = p_id LOCK IN SHARE MODE;
    IF v_kind = 'latch' THEN
        CALL rl_now(v_now);
        {{caller_latch_down(down_key = p_down_key, owner = p_owner, id = p_id, name = p_name,
                            generation = p_generation, key = p_key, now = v_now)}};
        SET v_rows = ROW_COUNT();
    ELSE
        ROLLBACK AND NO CHAIN NO RELEASE;
    END IF;
    SET unique_checks = v_unique;
    DO RELEASE_LOCK(p_key);
    SELECT v_rows, 0;
END;

CREATE PROCEDURE rl_via_caller_once_done(p_id BIGINT UNSIGNED, p_version BIGINT UNSIGNED,
                                         p_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        DO RELEASE_LOCK(p_key);
        RESIGNAL;
    END;
    CALL rl_caller_begin(p_key);
    CALL rl_now(v_now);
    {{caller_once_done(id = p_id, version = p_version, key = p_key, now = v_now)}};
    CALL rl_caller_end(p_key, ROW_COUNT());
END;

CREATE PROCEDURE rl_via_caller_section_swap(p_owner LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                            p_id BIGINT UNSIGNED, p_expected BIGINT UNSIGNED,
                                            p_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_now DATETIME(6);
    DECLARE v_inside BOOLEAN;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        DO RELEASE_LOCK(p_key);
        RESIGNAL;
    END;
    CALL rl_joins_for(NULL, v_inside);
    CALL rl_via_key(p_key);
    IF NOT COALESCE(v_inside AND LENGTH(p_owner) <= 63 AND SUBSTRING(p_owner, 37, 1) = '.', FALSE) THEN
        SIGNAL SQLSTATE 'RLTXN' SET MESSAGE_TEXT = 'the connection is not in a transaction, or the owner id not one';
    END IF;
    CALL rl_writable();
    CALL rl_now(v_now);
    {{caller_section_swap(owner = p_owner, id = p_id, expected = p_expected, key = p_key, now = v_now)}};
    CALL rl_caller_end(p_key, ROW_COUNT());
END;

-- A connection of the library takes its key when it is made (session_key in sql/session.sql), a caller's for one call. Only the
-- session that has a key can give it up. Keys are random, so nobody can take the key of another session.
CREATE PROCEDURE rl_via_key(p_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    IF NOT COALESCE(p_key LIKE 'rowlock.key.%' AND LENGTH(p_key) = 44, FALSE) THEN
        SIGNAL SQLSTATE 'RLINV' SET MESSAGE_TEXT = 'that is no key of a connection';
    END IF;
    DO GET_LOCK(p_key, 0);
END;

-- Sent as text, and returns no rows, since it is urgent.
CREATE PROCEDURE rl_via_via_kill_query(p_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_connection BIGINT UNSIGNED DEFAULT IS_USED_LOCK(p_key);
    DECLARE CONTINUE HANDLER FOR 1094, 1095 SET v_connection = 0;
    IF NOT COALESCE(p_key LIKE 'rowlock.key.%' AND LENGTH(p_key) = 44, FALSE) THEN
        SIGNAL SQLSTATE 'RLINV' SET MESSAGE_TEXT = 'that is no key of a connection';
    END IF;
    IF v_connection IS NOT NULL THEN
        KILL QUERY v_connection;
    END IF;
END;

-- Between two statements the connection belongs to its own user, which may end it itself.
CREATE PROCEDURE rl_via_via_kill_connection(p_key LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_connection BIGINT UNSIGNED DEFAULT IS_USED_LOCK(p_key);
    DECLARE CONTINUE HANDLER FOR 1094, 1095 SET v_connection = v_connection;
    IF NOT COALESCE(p_key LIKE 'rowlock.key.%' AND LENGTH(p_key) = 44, FALSE) THEN
        SIGNAL SQLSTATE 'RLINV' SET MESSAGE_TEXT = 'that is no key of a connection';
    END IF;
    IF v_connection IS NOT NULL THEN
        KILL CONNECTION v_connection;
    END IF;
    SELECT COALESCE(v_connection, 0);
END;

-- rowlock_break or rowlock_break_now, with the name and reason for the history. It runs with the rights of the caller, who needs
-- EXECUTE on that procedure. @rowlock_break_token, which rl_break reads, and @rowlock_by are internal: both are NULL afterwards.
CREATE PROCEDURE rl_via_via_break(p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                  p_by LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                  p_now BIGINT UNSIGNED,
                                  p_token BIGINT UNSIGNED)
    SQL SECURITY INVOKER
BEGIN
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        SET @rowlock_by = NULL, @rowlock_break_token = NULL;
        RESIGNAL;
    END;
    SET @rowlock_by = p_by, @rowlock_break_token = NULLIF(p_token, 0);
    IF p_now THEN
        CALL rowlock_break_now(p_name);
    ELSE
        CALL rowlock_break(p_name);
    END IF;
    SET @rowlock_by = NULL, @rowlock_break_token = NULL;
    SELECT 1, 0;
END;
