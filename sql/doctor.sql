-- What the doctor looks for in the server: who waits for a metadata lock, and who has it. Statements about
-- connections have the same columns; `waiter` is whom it holds up, else 0.

-- Whoever changes a table waits for every transaction that has used it, and everybody who comes
-- later waits behind. Without the privilege PROCESS the server shows connections of the same user.
-- name: doctor_blocked
-- params: limit u64
-- columns: waiter u64, id u64, user text(512), host text(1024), command text(64), state text(256), age_ms i64, query text(1024), transaction_ms i64, object text(600), lock text(64)
SELECT 0, p.id, p.user, p.host, p.command, p.state,
       /*M! CAST(GREATEST(p.time_ms, 0) AS UNSIGNED) */ /*!80000 GREATEST(p.time, 0) * 1000 */,
       COALESCE(LEFT(p.info, 200), ''), CAST(NULL AS SIGNED), '', ''
  FROM /*M! information_schema.processlist */ /*!80000 performance_schema.processlist */ p
 WHERE p.state LIKE 'Waiting for % metadata lock'
 ORDER BY 7 DESC, p.id
 LIMIT :limit;

-- Who holds what a waiter wants. MySQL, and a MariaDB whose performance_schema is on and has the
-- instrument wait/lock/metadata/sql/mdl enabled. What conflicts with what: sql/mdl.cc, the two
-- matrices (of tables and the like; of global, schema, commit and backup locks).
-- name: doctor_holders
-- columns: waiter u64, id u64, user text(512), host text(1024), command text(64), state text(256), age_ms i64, query text(1024), transaction_ms i64, object text(600), lock text(64)
SELECT wt.processlist_id, ht.processlist_id,
       COALESCE(MAX(ht.processlist_user), ''), COALESCE(MAX(ht.processlist_host), ''),
       COALESCE(MAX(ht.processlist_command), ''), COALESCE(MAX(ht.processlist_state), ''),
       COALESCE(MAX(ht.processlist_time), 0) * 1000,
       COALESCE(LEFT(MAX(COALESCE(ht.processlist_info, e.sql_text)), 200), ''),
       MAX(TIMESTAMPDIFF(SECOND, CONVERT_TZ(t.trx_started, 'SYSTEM', '+00:00'), UTC_TIMESTAMP())) * 1000,
       COALESCE(CONCAT_WS('.', w.object_schema, w.object_name), w.object_type), MAX(h.lock_type)
  FROM performance_schema.metadata_locks w
  JOIN performance_schema.metadata_locks h
    ON h.object_type = w.object_type
   AND h.object_schema <=> w.object_schema
   AND h.object_name <=> w.object_name
   AND h.owner_thread_id <> w.owner_thread_id
   AND h.lock_status = 'GRANTED'
   AND CASE w.lock_type
           WHEN 'EXCLUSIVE' THEN TRUE
           WHEN 'INTENTION_EXCLUSIVE' THEN h.lock_type IN ('SHARED', 'EXCLUSIVE')
           WHEN 'SHARED_NO_READ_WRITE' THEN h.lock_type NOT IN ('SHARED', 'SHARED_HIGH_PRIO')
           WHEN 'SHARED_NO_WRITE' THEN h.lock_type NOT IN ('SHARED', 'SHARED_HIGH_PRIO', 'SHARED_READ', 'SHARED_READ_ONLY')
           WHEN 'SHARED_UPGRADABLE' THEN h.lock_type IN ('SHARED_UPGRADABLE', 'SHARED_NO_WRITE', 'SHARED_NO_READ_WRITE', 'EXCLUSIVE')
           WHEN 'SHARED_READ_ONLY' THEN h.lock_type IN ('SHARED_WRITE', 'SHARED_WRITE_LOW_PRIO', 'SHARED_NO_READ_WRITE', 'EXCLUSIVE')
           WHEN 'SHARED_WRITE' THEN h.lock_type IN ('SHARED_READ_ONLY', 'SHARED_NO_WRITE', 'SHARED_NO_READ_WRITE', 'EXCLUSIVE')
           WHEN 'SHARED_WRITE_LOW_PRIO' THEN h.lock_type IN ('SHARED_READ_ONLY', 'SHARED_NO_WRITE', 'SHARED_NO_READ_WRITE', 'EXCLUSIVE')
           WHEN 'SHARED' THEN h.lock_type IN ('INTENTION_EXCLUSIVE', 'EXCLUSIVE')
           ELSE h.lock_type IN ('SHARED_NO_READ_WRITE', 'EXCLUSIVE')
       END
  JOIN performance_schema.threads wt ON wt.thread_id = w.owner_thread_id
  JOIN performance_schema.threads ht ON ht.thread_id = h.owner_thread_id
  LEFT JOIN performance_schema.events_statements_current e ON e.thread_id = h.owner_thread_id
  LEFT JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = ht.processlist_id
 WHERE w.lock_status = 'PENDING'
   AND w.object_type <> 'USER LEVEL LOCK'
   AND wt.processlist_id IS NOT NULL
   AND ht.processlist_id IS NOT NULL
 GROUP BY wt.processlist_id, ht.processlist_id, w.object_type, w.object_schema, w.object_name
 ORDER BY 1, 2;

-- The same by MariaDB's plugin metadata_lock_info, which lists what is granted, and not what is
-- waited for. So a waiter's tables are those on which it has a weaker lock already (ALTER does), or
-- which its statement names. Who waits to read or write is held up by strong locks alone.
-- name: doctor_holders_plugin
-- columns: waiter u64, id u64, user text(512), host text(1024), command text(64), state text(256), age_ms i64, query text(1024), transaction_ms i64, object text(600), lock text(64)
SELECT w.id, p.id, MAX(p.user), MAX(p.host), MAX(p.command), COALESCE(MAX(p.state), ''),
       CAST(GREATEST(MAX(p.time_ms), 0) AS UNSIGNED), COALESCE(LEFT(MAX(p.info), 200), ''),
       MAX(TIMESTAMPDIFF(SECOND, CONVERT_TZ(t.trx_started, 'SYSTEM', '+00:00'), UTC_TIMESTAMP())) * 1000,
       CONCAT(h.table_schema, '.', h.table_name), REPLACE(MAX(h.lock_mode), 'MDL_', '')
  FROM information_schema.processlist w
  JOIN information_schema.metadata_lock_info h
    ON h.thread_id <> w.id
   AND h.lock_type = 'Table metadata lock'
   AND (LOCATE(LOWER(h.table_name), LOWER(w.info)) > 0
        OR EXISTS (SELECT 1
                     FROM information_schema.metadata_lock_info m
                    WHERE m.thread_id = w.id
                      AND m.lock_type = h.lock_type
                      AND m.table_schema = h.table_schema
                      AND m.table_name = h.table_name))
   AND (h.lock_mode IN ('MDL_SHARED_NO_WRITE', 'MDL_SHARED_NO_READ_WRITE', 'MDL_SHARED_READ_ONLY',
                        'MDL_EXCLUSIVE')
        OR EXISTS (SELECT 1
                     FROM information_schema.metadata_lock_info m
                    WHERE m.thread_id = w.id
                      AND m.lock_type = 'Schema metadata lock'
                      AND m.lock_mode = 'MDL_INTENTION_EXCLUSIVE'))
  JOIN information_schema.processlist p ON p.id = h.thread_id
  LEFT JOIN information_schema.innodb_trx t ON t.trx_mysql_thread_id = p.id
 WHERE w.state LIKE 'Waiting for % metadata lock'
 GROUP BY w.id, p.id, h.table_schema, h.table_name
 ORDER BY 1, 2;

-- Transactions that have been open for so long, the oldest first.
-- name: doctor_transactions
-- params: older_s u64, limit u64
-- columns: waiter u64, id u64, user text(512), host text(1024), command text(64), state text(256), age_ms i64, query text(1024), transaction_ms i64, object text(600), lock text(64)
SELECT 0, p.id, p.user, p.host, p.command, COALESCE(p.state, ''),
       /*M! CAST(GREATEST(p.time_ms, 0) AS UNSIGNED) */ /*!80000 GREATEST(p.time, 0) * 1000 */,
       COALESCE(LEFT(p.info, 200), ''),
       TIMESTAMPDIFF(SECOND, CONVERT_TZ(t.trx_started, 'SYSTEM', '+00:00'), UTC_TIMESTAMP()) * 1000,
       '', ''
  FROM information_schema.innodb_trx t
  JOIN /*M! information_schema.processlist */ /*!80000 performance_schema.processlist */ p
    ON p.id = t.trx_mysql_thread_id
 WHERE CONVERT_TZ(t.trx_started, 'SYSTEM', '+00:00') <= UTC_TIMESTAMP() - INTERVAL :older_s SECOND
   AND p.id <> CONNECTION_ID()
 ORDER BY 9 DESC, p.id
 LIMIT :limit;

-- Transactions that have been so old and have no connection: XA PREPARE, and nobody came back. (What is
-- undone after a crash has none, too.)
-- name: doctor_prepared
-- params: older_s u64
-- columns: count u64, oldest_s i64
SELECT COUNT(*),
       COALESCE(MAX(TIMESTAMPDIFF(SECOND, CONVERT_TZ(t.trx_started, 'SYSTEM', '+00:00'), UTC_TIMESTAMP())), 0)
  FROM information_schema.innodb_trx t
 WHERE t.trx_mysql_thread_id = 0
   AND t.trx_state <> 'ROLLING BACK'
   AND CONVERT_TZ(t.trx_started, 'SYSTEM', '+00:00') <= UTC_TIMESTAMP() - INTERVAL :older_s SECOND;

-- A name that this program leaves alone.
-- name: doctor_kinds
-- columns: name text(1020), kind text(16)
SELECT resource_name, kind FROM resource WHERE NOT ({{known_kind(kind)}}) LIMIT 1;

-- Row locks of rowlock's own that are published: meant to be held for long.
-- name: doctor_row_locks
-- columns: id u64
SELECT connection_id
  FROM resource
 WHERE kind = 'pessimistic'
   AND status = 'held'
   AND connection_id <> 0;

-- Which tables a connection's transaction has used, and its last statement.
-- name: doctor_used
-- params: id u64
-- columns: tables text(600), query text(1024)
SELECT COALESCE(LEFT(GROUP_CONCAT(DISTINCT CONCAT(m.object_schema, '.', m.object_name)
                                  SEPARATOR ', '), 140), ''),
       COALESCE(LEFT(MAX(e.sql_text), 200), '')
  FROM performance_schema.threads t
  LEFT JOIN performance_schema.metadata_locks m
    ON m.owner_thread_id = t.thread_id AND m.object_type = 'TABLE' AND m.lock_status = 'GRANTED'
  LEFT JOIN performance_schema.events_statements_current e ON e.thread_id = t.thread_id
 WHERE t.processlist_id = :id;

-- name: doctor_used_plugin
-- params: id u64
-- columns: tables text(600), query text(1024)
SELECT COALESCE(LEFT(GROUP_CONCAT(DISTINCT CONCAT(m.table_schema, '.', m.table_name)
                                  SEPARATOR ', '), 140), ''),
       ''
  FROM information_schema.metadata_lock_info m
 WHERE m.thread_id = :id
   AND m.lock_type = 'Table metadata lock';

-- The last run of the event that sweeps. NULL: not yet.
-- name: doctor_event
-- columns: every_s u64, installed_s i64, started_s i64, running u64, runs u64, failures u64, expired u64, events u64, purged u64, error text(1600), scheduler text(16)
SELECT every_s,
       TIMESTAMPDIFF(SECOND, installed_at, UTC_TIMESTAMP(6)),
       TIMESTAMPDIFF(SECOND, started_at, UTC_TIMESTAMP(6)),
       started_at IS NOT NULL AND (ended_at IS NULL OR ended_at < started_at),
       runs, failures, expired, events, purged, error,
       @@global.event_scheduler
  FROM sweep_event
 WHERE id = 1;

-- No row: there is none, or this user lacks the privilege EVENT. Accounts are seen by who may read
-- the schema mysql. An interval that ALTER EVENT gave it may be of a unit that is not counted here: 0.
-- name: doctor_event_state
-- columns: status text(64), definer text(1200), every_s u64, definer_there u64, accounts u64
SELECT e.status, e.definer,
       CAST(e.interval_value *
            CASE e.interval_field
                WHEN 'SECOND' THEN 1
                WHEN 'MINUTE' THEN 60
                WHEN 'HOUR' THEN 3600
                WHEN 'DAY' THEN 86400
                WHEN 'WEEK' THEN 604800
                ELSE 0
            END AS UNSIGNED),
       (SELECT COUNT(*) > 0
          FROM information_schema.user_privileges u
         WHERE u.grantee = CONCAT("'", LEFT(e.definer, CHAR_LENGTH(e.definer) - CHAR_LENGTH(SUBSTRING_INDEX(e.definer, '@', -1)) - 1),
                                  "'@'", SUBSTRING_INDEX(e.definer, '@', -1), "'")),
       (SELECT COUNT(DISTINCT u.grantee) FROM information_schema.user_privileges u)
  FROM information_schema.events e
 WHERE e.event_schema = DATABASE()
   AND e.event_name = 'rowlock_sweep';

-- Refused without the privilege EVENT, where information_schema has no row.
-- name: doctor_event_right
-- kind: text
-- columns: db text(256), name text(256)
SHOW EVENTS LIKE 'rowlock_sweep';

-- Which rights this account has on each column that it may see: those of the table, of the schema and of the
-- roles that are active, counted in.
-- name: doctor_columns
-- columns: table_name text(256), column_name text(256), privileges text(400)
SELECT c.table_name, c.column_name, c.privileges
  FROM information_schema.columns c
 WHERE c.table_schema = DATABASE()
   AND c.table_name IN ('resource', 'resource_lock', 'lease_renewal', 'version_floor', 'lock_event',
                        'rowlock_schema_version');

-- The same of all schemas, and of a whole one, with the roles that are active.
-- name: doctor_grants
-- kind: text
-- columns: granted text(4000)
SHOW GRANTS;

-- The server looks at rights when it prepares, also where it takes no writes (EXPLAIN is refused there, on
-- MariaDB). Neither is executed. Every column:
-- name: doctor_may_read
-- kind: text
-- params: table name
PREPARE rowlock_doctor FROM 'SELECT * FROM :table';

-- name: doctor_may_delete
-- kind: text
-- params: table name
PREPARE rowlock_doctor FROM 'DELETE FROM :table WHERE FALSE';
