-- Statements about a connection of rowlock's own.
--
-- How to read these files: a block starts with `-- name:`. `:word` is a parameter,
-- bound in the order of `-- params:`. `-- columns:` declares the result: u64, i64, or
-- text(bytes). `-- kind: text` marks a statement that is sent as text, with numbers
-- alone filled in (where the server takes no parameters); all others are prepared.
-- `{schema}` is the quoted schema; only statements that run on the caller's own
-- connection, or before the schema is there, name it.

-- READ COMMITTED: no gap locks, and every statement reads what is committed now
-- (REPEATABLE READ gives gap-lock deadlocks between different names).
-- name: session_isolation
-- kind: text
SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;

-- What a server's or an option file's defaults could turn against a lock (Connector/C reads
-- option files after the program's own options: default-character-set wins). The
-- statement and idle-transaction limits exist on one flavour each.
-- name: session_setup
-- kind: text
-- params: autocommit u64, lock_wait_s u64, idle_s u64
SET SESSION autocommit = :autocommit,
    innodb_lock_wait_timeout = :lock_wait_s,
    wait_timeout = :idle_s,
    sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION',
    time_zone = '+00:00',
    character_set_client = 'utf8mb4',
    character_set_connection = 'utf8mb4',
    character_set_results = 'utf8mb4'
    /*M! , max_statement_time = 0, idle_transaction_timeout = 0,
       idle_readonly_transaction_timeout = 0, idle_write_transaction_timeout = 0 */
    /*!80000 , max_execution_time = 0 */;

-- The server-side TTL of a row lock: idle for so long, and the server ends the
-- connection, and the lock with it.
-- name: session_idle_limit
-- kind: text
-- params: idle_s u64
SET SESSION wait_timeout = :idle_s;

-- name: session_server
-- columns: version text(128), comment text(256), read_only u64, super_read_only u64, server_id u64, hostname text(256), connection_id u64
SELECT VERSION(), @@version_comment, @@global.read_only,
       0 /*!80000 + @@global.super_read_only */,
       @@server_id, @@hostname, CONNECTION_ID();

-- name: kill_query
-- kind: text
-- params: connection_id u64
KILL QUERY :connection_id;

-- name: kill_connection
-- kind: text
-- params: connection_id u64
KILL CONNECTION :connection_id;

-- name: commit
-- kind: text
COMMIT;

-- name: rollback
-- kind: text
ROLLBACK;

-- For how long the server has been up: numbers of connections begin anew when it starts.
-- name: session_uptime
-- columns: name text(256), seconds text(32)
SHOW GLOBAL STATUS LIKE 'Uptime';

-- Variables that not every server has. READ COMMITTED needs row images in the binary log.
-- name: session_variables
-- columns: name text(256), value text(8192)
SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_on', 'log_bin', 'binlog_format');
