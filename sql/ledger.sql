-- The history of `rowlock migrate`, in the schema that is migrated.
--
-- {table} is the history's name ([A-Za-z0-9_$]), in the connection's own schema; it is put in where
-- the statement is prepared (rl_conn.table).
--
-- Row 0 is no migration but the guard: whoever works here has written its fencing token there, and
-- every other write compares the token in the same statement, under the row's lock. Its `name` is
-- the lock, its `connection_id` and `server` the connection on which files are run; 0 when none is.

-- `steps_done` statements have taken effect for good; `done_checksum` is of their texts. `running`
-- is the one that was begun after them (0: none). `whole`: the file is one transaction. `decided`:
-- somebody has looked, and it is to go on behind steps_done.
-- name: ledger_create
CREATE TABLE IF NOT EXISTS {table} (
    version       BIGINT UNSIGNED NOT NULL,
    name          VARCHAR(320) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    checksum      CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    steps         INT UNSIGNED NOT NULL DEFAULT 0,
    steps_done    INT UNSIGNED NOT NULL DEFAULT 0,
    running       INT UNSIGNED NOT NULL DEFAULT 0,
    done_checksum CHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    whole         TINYINT UNSIGNED NOT NULL DEFAULT 0,
    decided       TINYINT UNSIGNED NOT NULL DEFAULT 0,
    statement     VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    error         VARCHAR(600) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    token         BIGINT UNSIGNED NOT NULL DEFAULT 0,
    applied_by    VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    connection_id BIGINT UNSIGNED NOT NULL DEFAULT 0,
    server        BIGINT UNSIGNED NOT NULL DEFAULT 0,
    started_at    DATETIME(6) NOT NULL,
    applied_at    DATETIME(6) NULL,
    duration_ms   BIGINT UNSIGNED NOT NULL DEFAULT 0,
    PRIMARY KEY (version)
) ENGINE = InnoDB COMMENT = 'rowlock migrate: applied files';

-- Row 0 comes first: its `name` is the lock.
-- name: ledger_list
-- columns: version u64, name text(1280), checksum text(64), steps u64, steps_done u64, running u64, done_checksum text(64), whole u64, decided u64, statement text(1020), error text(2400), token u64, applied_by text(1020), started_at text(26), applied_at text(26), duration_ms u64
SELECT version, name, checksum, steps, steps_done, running, done_checksum, whole, decided, statement,
       error, token, applied_by, CAST(started_at AS CHAR), IFNULL(CAST(applied_at AS CHAR), ''),
       duration_ms
  FROM {table}
 ORDER BY version;

-- name: ledger_guard
-- columns: token u64, lock_name text(1280), who text(1020), connection_id u64, server u64, age_s u64
SELECT token, name, applied_by, connection_id, server,
       CAST(GREATEST(TIMESTAMPDIFF(SECOND, started_at, UTC_TIMESTAMP(6)), 0) AS UNSIGNED)
  FROM {table} WHERE version = 0;

-- name: ledger_guard_create
INSERT INTO {table} (version, name, started_at) VALUES (0, '', UTC_TIMESTAMP(6))
    ON DUPLICATE KEY UPDATE version = 0;

-- From here on nobody with an older token writes anything. `anyhow`, for `repair` alone: also a history of another
-- lock, or one whose tokens have begun anew.
-- name: ledger_enter
-- params: token u64, lock_name text, anyhow u64
UPDATE {table}
   SET token = :token, name = :lock_name
 WHERE version = 0 AND (:anyhow = 1 OR (token <= :token AND name IN ('', :lock_name)));

-- Whose connection it is and since when stays until another one is registered.
-- name: ledger_register
-- params: connection_id u64, server u64, who text, token u64
UPDATE {table}
   SET connection_id = :connection_id, server = :server,
       applied_by = IF(:connection_id = 0, applied_by, :who),
       started_at = IF(:connection_id = 0, started_at, UTC_TIMESTAMP(6))
 WHERE version = 0 AND token = :token;

-- name: ledger_begin
-- params: version u64, name text, token u64
INSERT INTO {table} (version, name, started_at)
SELECT :version, :name, UTC_TIMESTAMP(6)
  FROM {table} AS guard
 WHERE guard.version = 0 AND guard.token = :token
   FOR UPDATE;

-- name: ledger_note
-- params: token u64, checksum text, steps u64, steps_done u64, running u64, done_checksum text, whole u64, decided u64, statement text, error text, who text, applied u64, duration_ms u64, version u64
UPDATE {table} AS file
  JOIN {table} AS guard ON guard.version = 0 AND guard.token = :token
   SET file.checksum = :checksum, file.steps = :steps, file.steps_done = :steps_done,
       file.running = :running, file.done_checksum = :done_checksum, file.whole = :whole,
       file.decided = :decided, file.statement = :statement, file.error = :error,
       file.token = :token, file.applied_by = :who, file.duration_ms = :duration_ms,
       file.applied_at = IF(:applied = 1, UTC_TIMESTAMP(6), NULL)
 WHERE file.version = :version;

-- Takes over the checksums of an applied file that was changed.
-- name: ledger_adopt
-- params: token u64, name text, checksum text, steps u64, done_checksum text, version u64
UPDATE {table} AS file
  JOIN {table} AS guard ON guard.version = 0 AND guard.token = :token
   SET file.name = :name, file.checksum = :checksum, file.steps = :steps,
       file.steps_done = :steps, file.done_checksum = :done_checksum
 WHERE file.version = :version;

-- name: ledger_forget
-- params: token u64, version u64
DELETE file FROM {table} AS file
  JOIN {table} AS guard ON guard.version = 0 AND guard.token = :token
 WHERE file.version = :version;

-- The marker: a named lock that the connection on which files are run keeps. The server gives it
-- up when that connection has ended, its statement included, and says whose it is.
-- name: ledger_marker
-- params: table_name text
-- columns: marker text(64), packet u64, no_backslashes u64, ansi_quotes u64
SELECT CONCAT('rowlock.migrate.', LEFT(SHA2(CONCAT(DATABASE(), '.', :table_name), 256), 40)),
       @@GLOBAL.max_allowed_packet,
       FIND_IN_SET('NO_BACKSLASH_ESCAPES', @@GLOBAL.sql_mode) > 0,
       FIND_IN_SET('ANSI_QUOTES', @@GLOBAL.sql_mode) > 0;

-- Before a statement of a file: takes the marker again, since the file may have released all locks of
-- its connection; and asks for the sql_mode by which quotes are read. After one that was refused, it
-- also tells whether a transaction is still open.
-- name: ledger_mark
-- params: marker text
-- columns: got u64, no_backslashes u64, ansi_quotes u64
SELECT IF(IS_USED_LOCK(:marker) = CONNECTION_ID(), 1, IFNULL(GET_LOCK(:marker, 0), 0)),
       FIND_IN_SET('NO_BACKSLASH_ESCAPES', @@SESSION.sql_mode) > 0,
       FIND_IN_SET('ANSI_QUOTES', @@SESSION.sql_mode) > 0;

-- Makes the session of a file one as the server gives it to everybody, but for the wait for a table
-- in use: everybody who comes later waits behind such a change, so it must not wait for a day or a
-- year, the default.
-- name: ledger_session
-- kind: text
-- params: lock_wait_s u64
SET SESSION autocommit = 1,
    innodb_lock_wait_timeout = @@GLOBAL.innodb_lock_wait_timeout,
    lock_wait_timeout = :lock_wait_s,
    sql_mode = @@GLOBAL.sql_mode,
    time_zone = @@GLOBAL.time_zone
    /*M! , tx_isolation = @@GLOBAL.tx_isolation */
    /*M!110602 , innodb_snapshot_isolation = @@GLOBAL.innodb_snapshot_isolation */
    /*!80000 , transaction_isolation = @@GLOBAL.transaction_isolation */;

-- name: ledger_sql_mode
-- params: mode text
SET SESSION sql_mode = :mode;

-- NO CHAIN: completion_type may have the session begin another transaction at each COMMIT.
-- name: ledger_commit
-- kind: text
COMMIT AND NO CHAIN;
