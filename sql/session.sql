-- Statements about a connection of rowlock's own.
--
-- How to read these files: a block starts with `-- name:`. `:word` is a parameter, bound in the order of `-- params:`.
-- The result is declared with `-- columns:`: u64, i64, or text(bytes). `-- kind: text` marks a statement that is sent as text,
-- with numbers as its values, since the server takes no parameters there; all others are prepared. `{table}` is the quoted name
-- of the connection's own table (see ledger.sql). `{schema}` is the quoted schema; only statements on the caller's own
-- connection, or before the schema exists, use it.

-- READ COMMITTED: no gap locks, and every statement reads what is committed now (REPEATABLE READ gives gap-lock deadlocks between
-- different names). The others are settings that a server's or an option file's defaults could make harmful (Connector/C reads
-- option files after the program's own options, so their default-character-set wins): with sql_safe_updates the server refuses
-- the renewals, without unique_checks a name may be inserted twice, a chained COMMIT begins a transaction. The limits for
-- statements and idle transactions exist on one flavour each. From 11.6.2 on, MariaDB's innodb_snapshot_isolation is on: with it,
-- an UPDATE waits for locked rows that do not match, also at READ COMMITTED, and a row that has just changed is error 1020.
-- name: session_setup
-- kind: text
-- params: autocommit u64, lock_wait_s u64, idle_s u64
SET SESSION autocommit = :autocommit,
    innodb_lock_wait_timeout = :lock_wait_s,
    wait_timeout = :idle_s,
    sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION',
    time_zone = '+00:00',
    sql_safe_updates = 0,
    unique_checks = 1,
    sql_big_selects = 1,
    sql_select_limit = 18446744073709551615,
    completion_type = 0,
    character_set_client = 'utf8mb4',
    character_set_connection = 'utf8mb4',
    character_set_results = 'utf8mb4'
    /*M! , tx_isolation = 'READ-COMMITTED', max_statement_time = 0, idle_transaction_timeout = 0,
       idle_readonly_transaction_timeout = 0, idle_write_transaction_timeout = 0 */
    /*M!110602 , innodb_snapshot_isolation = OFF */
    /*!80000 , transaction_isolation = 'READ-COMMITTED', max_execution_time = 0 */;

-- After so long without a statement the server ends the connection. For a row lock this is its TTL, and the lock ends with the
-- connection; for a connection that has or awaits a bell see IDLE_LEAST_S in src/bell/turn.c.
-- name: session_idle_limit
-- kind: text
-- params: idle_s u64
SET SESSION wait_timeout = :idle_s;

-- Which server this connection leads to. Each connection asks, since the next one may lead to another one (a failover).
-- src/db/flavour.c reads the answers. It is not a SELECT, since no server has all of these variables. pseudo_thread_id is the
-- connection's number.
-- name: session_server
-- kind: text
-- columns: name text(64), value text(512)
SHOW VARIABLES WHERE Variable_name IN (
    'version', 'version_comment', 'pseudo_thread_id', 'hostname', 'port', 'datadir',
    'server_id', 'gtid_domain_id', 'server_uuid', 'wsrep_on', 'group_replication_group_name',
    'group_replication_single_primary_mode', 'read_only', 'super_read_only', 'log_bin',
    'binlog_format', 'lower_case_table_names');

-- The server's spelling of the schema. Run only if it makes names lower case (lower_case_table_names = 1).
-- name: session_schema
-- kind: text
-- columns: name text(256)
SELECT DATABASE();

-- The account, for a GRANT: an error message has the host of the connection, not the account's.
-- name: session_account
-- kind: text
-- columns: account text(1600)
SELECT CURRENT_USER();

-- name: session_galera
-- kind: text
-- columns: name text(64), value text(512)
SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_cluster_state_uuid', 'wsrep_cluster_status');

-- Not every user may read it.
-- name: session_group
-- kind: text
-- columns: name text(64), value text(512)
SELECT 'member_state', member_state
  FROM performance_schema.replication_group_members
 WHERE member_id = @@server_uuid;

-- Sent on a row lock's connection instead of a ping: fails (1242) if the server has become read-only, since another one is the
-- primary then. It has no result to read. (No DO: MariaDB's hides errors. Not every version has read_only as a number.)
-- name: session_probe
-- kind: text
SET @rowlock = IF(@@global.read_only NOT IN ('0', 'OFF'), (SELECT 1 UNION SELECT 2), 0);

-- The same for a node that may be cut off from its cluster.
-- name: session_probe_node
-- kind: text
SET @rowlock = IF(@@global.read_only NOT IN ('0', 'OFF')
                  OR EXISTS (SELECT 1
                               FROM /*M! information_schema.global_status */
                                    /*!80000 performance_schema.global_status */
                              WHERE variable_name = 'wsrep_cluster_status'
                                AND variable_value = 'non-Primary'),
                  (SELECT 1 UNION SELECT 2), 0);

-- name: kill_query
-- kind: text
-- params: connection_id u64
KILL QUERY :connection_id;

-- While a procedure runs, its connection belongs to the procedure's definer, and KILL by its own user is refused (1095). So a
-- connection that works through procedures takes a named lock with a secret name; a session that knows the name may stop it by a
-- procedure of the same definer.
-- name: session_key
-- kind: text
-- params: key text
DO GET_LOCK(:key, 0);

-- name: session_forget_key
-- kind: text
-- params: key text
DO RELEASE_LOCK(:key);

-- name: session_insert_id
-- kind: text
SELECT LAST_INSERT_ID();

-- A user that publishes a row lock through a procedure may pass any connection's number; the procedure puts the user's login
-- behind the label, in brackets. This checks that the connection is one of that login's, as far as the asker may see (PROCESS). A
-- user that writes the tables itself has no login in its label, and is not checked.
-- name: connection_is_holders
-- params: label text, connection_id u64
-- columns: theirs u64
SELECT RIGHT(:label, 1) <> ']'
       OR (SELECT COUNT(*)
             FROM /*M! information_schema.processlist */ /*!80000 performance_schema.processlist */ p
            WHERE p.id = :connection_id
              AND CAST(RIGHT(:label, CHAR_LENGTH(p.user) + 3) AS BINARY) = CAST(CONCAT(' [', p.user, ']') AS BINARY)) > 0;

-- name: kill_connection
-- kind: text
-- params: connection_id u64
KILL CONNECTION :connection_id;

-- The connection that has this named lock; 0: none.
-- name: session_marked
-- params: marker text
-- columns: connection_id u64
SELECT IFNULL(IS_USED_LOCK(:marker), 0);

-- name: begin
-- kind: text
START TRANSACTION;

-- name: commit
-- kind: text
COMMIT;

-- name: rollback
-- kind: text
ROLLBACK;

-- How long the server has been up: connections' numbers begin anew when it starts.
-- name: session_uptime
-- columns: name text(256), seconds text(32)
SHOW GLOBAL STATUS LIKE 'Uptime';
