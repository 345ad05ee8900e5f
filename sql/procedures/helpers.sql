-- What the procedures share. A template is a CREATE PROCEDURE in which {{statement(a = x)}} stands for a named statement of
-- sql/*.sql (cmake/embed_procedures.awk). rowlock_… and rl_via_… run with the rights of the account that installed them, helpers
-- (rl_…) with those of their caller, so an application's user cannot use them. Parameters begin with p_, variables with v_; their
-- character sets are written out, since the schema may have others.

-- The time, UTC. In a function or a trigger, UTC_TIMESTAMP(6) is the time of the whole statement, and `SET timestamp` can change
-- it. SYSDATE(6) avoids both, but is in the session's time zone, and is converted back: setting the zone could leave the session
-- with another one after a KILL QUERY. With --sysdate-is-now it can stand still, too: then the time comes from a UUID, which nobody
-- can set. (MariaDB counts that on from the server's start, so it misses a clock that is put right.) Two looks are often in one
-- microsecond, a hundred never. The time is read a moment before the row is written, so leases get shorter by that.
CREATE PROCEDURE rl_now(OUT p_now DATETIME(6))
BEGIN
    DECLARE v_zone VARCHAR(64) CHARACTER SET utf8mb4 DEFAULT @@session.time_zone;
    DECLARE v_local DATETIME(6) DEFAULT SYSDATE(6);
    DECLARE v_looks INT DEFAULT 0;
    WHILE v_looks < 100 AND SYSDATE(6) = v_local DO
        SET v_looks = v_looks + 1;
    END WHILE;
    IF v_looks = 100 THEN
        CALL rl_uuid_time(UUID(), p_now);
    ELSEIF v_zone = '+00:00' THEN
        SET p_now = v_local;
    ELSE
        SET p_now = CONVERT_TZ(v_local, v_zone, '+00:00');
        IF NOT COALESCE(CONVERT_TZ(p_now - INTERVAL 26 HOUR, '+00:00', v_zone) = v_local - INTERVAL 26 HOUR
                        AND CONVERT_TZ(p_now + INTERVAL 26 HOUR, '+00:00', v_zone) = v_local + INTERVAL 26 HOUR,
                        FALSE) THEN
            CALL rl_now_between(v_zone, p_now);
        END IF;
    END IF;
END;

-- For the day on which the zone's clocks are changed: an hour comes twice, and the conversion cannot tell which it is.
CREATE PROCEDURE rl_now_between(IN p_zone VARCHAR(64) CHARACTER SET utf8mb4, OUT p_now DATETIME(6))
BEGIN
    SET time_zone = '+00:00';
    SET p_now = SYSDATE(6);
    SET time_zone = p_zone;
END;

-- Of version 1: units of 100 ns since 15 October 1582, in three parts, the lowest first.
CREATE PROCEDURE rl_uuid_time(IN p_uuid CHAR(36) CHARACTER SET ascii, OUT p_time DATETIME(6))
BEGIN
    DECLARE v_units BIGINT UNSIGNED DEFAULT
        CONV(CONCAT(SUBSTR(p_uuid, 16, 3), SUBSTR(p_uuid, 10, 4), LEFT(p_uuid, 8)), 16, 10);
    SET p_time = CAST('1970-01-01' AS DATETIME(6)) + INTERVAL (v_units - 122192928000000000) DIV 10 MICROSECOND;
END;

-- Makes all errors. The first %s in the text becomes the lock's name. (Others belong to a label or other user's text.) MySQL
-- takes 128 characters; a longer text is cut and ends with dots.
CREATE PROCEDURE rl_signal(IN p_state CHAR(5) CHARACTER SET ascii,
                           IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                           IN p_text TEXT CHARACTER SET utf8mb4)
BEGIN
    DECLARE v_name VARCHAR(50) CHARACTER SET utf8mb4
        DEFAULT CONCAT('''', IF(CHAR_LENGTH(p_name) > 40, CONCAT(LEFT(p_name, 37), '...'), p_name), '''');
    DECLARE v_whole TEXT CHARACTER SET utf8mb4 DEFAULT INSERT(p_text, LOCATE('%s', p_text), 2, COALESCE(v_name, 'NULL'));
    DECLARE v_text VARCHAR(128) CHARACTER SET utf8mb4
        DEFAULT IF(CHAR_LENGTH(v_whole) > 128, CONCAT(LEFT(v_whole, 125), '...'), v_whole);
    CASE p_state
        WHEN 'RLBSY' THEN SIGNAL SQLSTATE 'RLBSY' SET MESSAGE_TEXT = v_text;
        WHEN 'RLTMO' THEN SIGNAL SQLSTATE 'RLTMO' SET MESSAGE_TEXT = v_text;
        WHEN 'RLCNF' THEN SIGNAL SQLSTATE 'RLCNF' SET MESSAGE_TEXT = v_text;
        WHEN 'RLLST' THEN SIGNAL SQLSTATE 'RLLST' SET MESSAGE_TEXT = v_text;
        WHEN 'RLINV' THEN SIGNAL SQLSTATE 'RLINV' SET MESSAGE_TEXT = v_text;
        WHEN 'RLMOD' THEN SIGNAL SQLSTATE 'RLMOD' SET MESSAGE_TEXT = v_text;
        WHEN 'RLTXN' THEN SIGNAL SQLSTATE 'RLTXN' SET MESSAGE_TEXT = v_text;
        WHEN 'RLRDO' THEN SIGNAL SQLSTATE 'RLRDO' SET MESSAGE_TEXT = v_text;
        WHEN 'RLUNS' THEN SIGNAL SQLSTATE 'RLUNS' SET MESSAGE_TEXT = v_text;
        WHEN 'RLFRZ' THEN SIGNAL SQLSTATE 'RLFRZ' SET MESSAGE_TEXT = v_text;
        WHEN 'RLNOF' THEN SIGNAL SQLSTATE 'RLNOF' SET MESSAGE_TEXT = v_text;
        ELSE SIGNAL SQLSTATE 'RLDMG' SET MESSAGE_TEXT = v_text;
    END CASE;
END;

CREATE PROCEDURE rl_wrong_kind(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                               IN p_is VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
                               IN p_wanted VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin)
BEGIN
    IF NOT ({{known_kind(p_is)}}) THEN
        CALL rl_signal('RLDMG', p_name, CONCAT('%s is of a kind that this program does not know: ', p_is));
    END IF;
    CALL rl_signal('RLMOD', p_name, CONCAT(
        CASE p_is WHEN 'slots' THEN '%s is a semaphore (slots)'
                  WHEN 'latch' THEN '%s is a latch'
                  WHEN 'barrier' THEN '%s is a barrier'
                  WHEN 'quorum' THEN '%s is a lease of a quorum of servers'
                  WHEN 'queue' THEN '%s is a queue'
                  WHEN 'pessimistic' THEN '%s is a row lock (pessimistic)'
                  ELSE '%s is a lock (lease)' END,
        CASE p_wanted WHEN 'slots' THEN '; it cannot have slots too'
                      WHEN 'latch' THEN '; it cannot be a latch too'
                      WHEN 'queue' THEN '; it cannot be a queue too'
                      WHEN 'pessimistic' THEN '; it cannot be a row lock (pessimistic) too'
                      ELSE '; it cannot be a lock (lease) too' END,
        '; use another name'));
END;

-- On MySQL, KILL QUERY ends only the sleep, so this ends the call, by an error of ours: that runs the handlers, which a killed
-- statement does not.
CREATE PROCEDURE rl_sleep(IN p_us BIGINT)
BEGIN
    DECLARE v_stopped BOOLEAN;
    SELECT SLEEP(GREATEST(p_us, 0) / 1e6) INTO v_stopped;
    IF v_stopped THEN
        CALL rl_stopped();
    END IF;
END;

CREATE PROCEDURE rl_stopped()
BEGIN
    SIGNAL SQLSTATE '70100' SET MYSQL_ERRNO = 1317, MESSAGE_TEXT = 'Query execution was interrupted';
END;

-- As rl_name_check() in src/base/name.c. The server has checked that it is UTF-8, except for surrogates.
CREATE PROCEDURE rl_name_check(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    IF p_name IS NULL OR p_name = '' THEN
        CALL rl_signal('RLINV', p_name, 'the lock''s name is empty or NULL; give one of 1 to 255 characters');
    ELSEIF CHAR_LENGTH(p_name) > 255 THEN
        CALL rl_signal('RLINV', p_name, 'the lock''s name %s is longer than 255 characters; give a shorter one');
    ELSEIF HEX(p_name) REGEXP '^(..)*ED[AB]' THEN
        -- MariaDB accepts surrogates as characters.
        CALL rl_signal('RLINV', p_name, 'the lock''s name is not UTF-8; give one that is');
    ELSEIF p_name REGEXP '[\\x{0}-\\x{1f}\\x{7f}-\\x{9f}\\x{2028}\\x{2029}]' THEN
        CALL rl_signal('RLINV', REGEXP_REPLACE(p_name, '[\\x{0}-\\x{1f}\\x{7f}-\\x{9f}\\x{2028}\\x{2029}]', '?'),
                       'the lock''s name %s has a control character (shown as ?); take it out');
    ELSEIF p_name REGEXP '^[\\x{20}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{202f}\\x{205f}\\x{3000}\\x{feff}]' THEN
        CALL rl_signal('RLINV', p_name, 'the lock''s name %s begins with white space; take it away');
    ELSEIF p_name REGEXP '[\\x{20}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{202f}\\x{205f}\\x{3000}\\x{feff}]$' THEN
        CALL rl_signal('RLINV', p_name, 'the lock''s name %s ends with white space; take it away');
    END IF;
END;

-- Checks a token or a version. Its type is wider than the column's, since without strict mode a number that does not fit would be
-- cut.
CREATE PROCEDURE rl_token_check(IN p_what VARCHAR(16) CHARACTER SET utf8mb4,
                                IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                IN p_given DECIMAL(40, 6), OUT p_token BIGINT UNSIGNED)
BEGIN
    IF p_given IS NULL OR p_given < 0 OR p_given > 18446744073709551615 OR p_given <> FLOOR(p_given) THEN
        CALL rl_signal('RLINV', p_name, CONCAT('the ', p_what, ' for %s is not a whole number of 64 bits',
                                               IF(p_given IS NULL, ' (NULL)', ''), '; give the one that you got'));
    END IF;
    SET p_token = p_given;
END;

-- Checks the form of a reader's id, as rl_acquire makes it.
CREATE PROCEDURE rl_reader_check(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                 IN p_given LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                 OUT p_reader VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin)
BEGIN
    IF p_given IS NULL OR CHAR_LENGTH(p_given) <> 59 OR NOT p_given REGEXP '^[0-9a-f]{26}-[0-9a-f]{32}$' THEN
        CALL rl_signal('RLINV', p_name, CONCAT('the reader for %s is not the id of one', IF(p_given IS NULL, ' (NULL)', ''),
                                               '; give what rowlock_acquire_shared gave you'));
    END IF;
    SET p_reader = p_given;
END;

CREATE PROCEDURE rl_ttl_check(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                              IN p_ttl DECIMAL(40, 6), OUT p_ttl_us BIGINT UNSIGNED)
BEGIN
    IF p_ttl IS NULL OR p_ttl < 0.5 OR p_ttl > 86400 THEN
        CALL rl_signal('RLINV', p_name, CONCAT('the TTL for %s is ', COALESCE(p_ttl + 0e0, 'NULL'),
                                               '; give 0.5 to 86400 seconds'));
    END IF;
    SET p_ttl_us = p_ttl * 1000000;
END;

-- Refuses a read-only server, on which MariaDB would let a definer with an administrator's rights write. Also refuses a set
-- insert_id, which could give a new row the last id there is; only an INSERT resets it.
CREATE PROCEDURE rl_writable_for(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_of VARCHAR(4) CHARACTER SET ascii DEFAULT IF(p_name IS NULL, '', '%s: ');
    IF CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF') THEN
        CALL rl_signal('RLRDO', p_name, CONCAT(v_of, 'this server is read-only; CALL it on the primary'));
    END IF;
    IF @@session.insert_id <> 0 THEN
        CALL rl_signal('RLINV', p_name, CONCAT(v_of, 'insert_id is set in this session; do the INSERT that it is for first'));
    END IF;
END;

CREATE PROCEDURE rl_writable()
BEGIN
    CALL rl_writable_for(NULL);
END;

-- Whether the caller is in a transaction, a function or a trigger. In a transaction, servers refuse to set the next one's
-- isolation (1568), in the others to begin one (1422; MariaDB only this).
CREATE PROCEDURE rl_inside_for(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                               OUT p_inside BOOLEAN)
BEGIN
    DECLARE CONTINUE HANDLER FOR 1568, 1422 SET p_inside = TRUE;
    SET p_inside = FALSE;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    IF NOT p_inside THEN
        CALL rl_nothing(p_name);
    END IF;
END;

CREATE PROCEDURE rl_inside(OUT p_inside BOOLEAN)
BEGIN
    CALL rl_inside_for(NULL, p_inside);
END;

-- Whether the next statement is part of a transaction of the caller's. With autocommit=0 it is, or begins one; then this does not
-- ask whether there is one, since that would use up what the caller has SET for its next transaction.
CREATE PROCEDURE rl_joins_for(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                              OUT p_joins BOOLEAN)
BEGIN
    SET p_joins = TRUE;
    IF @@autocommit THEN
        CALL rl_inside_for(p_name, p_joins);
    ELSE
        CALL rl_tables_unlocked(p_name);
    END IF;
END;

-- A transaction, which uses up the isolation that was set.
CREATE PROCEDURE rl_nothing(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    CALL rl_tables_unlocked(p_name);
    START TRANSACTION;
    COMMIT AND NO CHAIN NO RELEASE;
END;

-- Refuses a caller under LOCK TABLES, which a transaction would end silently: under it this table cannot be opened (1100).
CREATE PROCEDURE rl_tables_unlocked(IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_rows BIGINT;
    DECLARE EXIT HANDLER FOR 1100
        CALL rl_signal('RLTXN', p_name, CONCAT(IF(p_name IS NULL, '', '%s: '),
            'this session has LOCK TABLES, which a transaction would end; UNLOCK TABLES first'));
    SELECT COUNT(*) INTO v_rows FROM version_floor WHERE FALSE;
END;

-- A call in the caller's transaction. If it is refused, it must leave nothing locked, but even a wrong token locks the row (under
-- REPEATABLE READ; on MariaDB, by a secondary key, also under READ COMMITTED). InnoDB releases locks since a savepoint only if
-- the transaction had not used it before, so only if this is its first statement. p_token, p_key: arguments of the call.
CREATE PROCEDURE rl_joined(IN p_what VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
                           IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                           IN p_token BIGINT UNSIGNED,
                           IN p_key VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE EXIT HANDLER FOR SQLSTATE 'RLLST', SQLSTATE 'RLNOF', SQLSTATE 'RLMOD', SQLSTATE 'RLCNF', SQLSTATE 'RLBSY'
    BEGIN
        ROLLBACK TO SAVEPOINT rowlock_call;
        RESIGNAL;
    END;
    SAVEPOINT rowlock_call;
    CASE p_what
        WHEN 'fence' THEN CALL rl_fence(p_name, p_token);
        WHEN 'present' THEN CALL rl_present_inside(p_name, p_token);
        WHEN 'check' THEN CALL rl_check_inside(p_name, p_token);
        WHEN 'release' THEN CALL rl_release(p_name, p_token);
        WHEN 'bump' THEN CALL rl_bump(p_name, p_token);
        WHEN 'down' THEN CALL rl_latch_down(p_name, p_token, p_key);
        WHEN 'once_done' THEN CALL rl_once_done(p_name, p_token);
    END CASE;
    RELEASE SAVEPOINT rowlock_call;
END;

-- Back to the begin of such a call. After the time-out of a wait for a row, with innodb_rollback_on_timeout, the server has rolled the
-- whole transaction back; then the savepoint is gone (1305).
CREATE PROCEDURE rl_joined_back(OUT p_gone BOOLEAN)
BEGIN
    DECLARE CONTINUE HANDLER FOR 1305 SET p_gone = TRUE;
    SET p_gone = FALSE;
    ROLLBACK TO SAVEPOINT rowlock_call;
END;

-- After the time-out of a wait (1205) in such a call, for a row or for a metadata lock. p_what: what is in use, with %s for the name.
CREATE PROCEDURE rl_joined_timeout(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                                   IN p_what VARCHAR(128) CHARACTER SET utf8mb4)
BEGIN
    DECLARE v_gone BOOLEAN;
    CALL rl_joined_back(v_gone);
    CALL rl_signal('RLBSY', p_name, CONCAT(p_what, IF(v_gone, '; yours has been rolled back', '; try again later')));
END;

-- For what commits by itself.
CREATE PROCEDURE rl_alone(IN p_what VARCHAR(64) CHARACTER SET utf8mb4,
                          IN p_name LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_inside BOOLEAN;
    CALL rl_inside_for(p_name, v_inside);
    IF v_inside THEN
        CALL rl_signal('RLTXN', p_name, CONCAT(p_what, ' %s is a transaction of its own; COMMIT or ROLLBACK yours first'));
    END IF;
END;

-- The caller's login: tokens can be guessed, so a token is enough only for leases of the same login.
CREATE PROCEDURE rl_login(OUT p_login CHAR(27) CHARACTER SET ascii COLLATE ascii_bin)
BEGIN
    DECLARE v_user VARCHAR(300) CHARACTER SET utf8mb4 DEFAULT USER();
    SET p_login = CONCAT(LEFT(SHA2(LEFT(v_user, CHAR_LENGTH(v_user)
                      - CHAR_LENGTH(SUBSTRING_INDEX(v_user, '@', -1)) - 1), 256), 26), '-');
END;

-- Writes a line of the history. It keeps the caller's LAST_INSERT_ID(). Without unique_checks MariaDB would lock an empty table.
CREATE PROCEDURE rl_event(IN p_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                          IN p_kind VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
                          IN p_event VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
                          IN p_version BIGINT UNSIGNED,
                          IN p_owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin,
                          IN p_label VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
                          IN p_now DATETIME(6), IN p_waited_ms BIGINT, IN p_held_ms BIGINT,
                          IN p_detail VARCHAR(600) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)
BEGIN
    DECLARE v_last BIGINT UNSIGNED DEFAULT LAST_INSERT_ID();
    DECLARE v_unique BOOLEAN DEFAULT @@session.unique_checks;
    SET unique_checks = TRUE;
    INSERT INTO lock_event (resource_name, kind, event, version, owner, owner_label, happened_at,
                            waited_ms, held_ms, detail)
    VALUES (p_name, p_kind, p_event, p_version, p_owner, p_label, p_now, p_waited_ms, p_held_ms,
            COALESCE(p_detail, ''));
    SET unique_checks = v_unique;
    SET v_last = LAST_INSERT_ID(v_last);
END;
