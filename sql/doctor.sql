-- The doctor's questions to the server. Statements with a level return findings as they are printed (rowlock_level: 0 fine, 1
-- note, 2 care, 3 broken); of a fine one, the consequence and the remedy are not printed.

-- The server's settings. `ttl_s`: the TTL of the user's leases.
-- name: doctor_settings
-- params: read_only u64, ttl_s u64, binlog u64, binlog_format text
-- columns: check text(64), level u64, found text(700), follows text(700), remedy text(700)
SELECT 'read-only', IF(:read_only, 3, 0), IF(:read_only, 'the server is read-only', 'the server takes writes'),
       'only who may write to it all the same can take locks on it', 'connect to the primary'
UNION ALL
SELECT 'flush', IF(@@global.innodb_flush_log_at_trx_commit = 1, 0, 2),
       CONCAT('innodb_flush_log_at_trx_commit is ', @@global.innodb_flush_log_at_trx_commit),
       'a crash of the server can lose the newest lease and take a token back: two holders',
       'SET GLOBAL innodb_flush_log_at_trx_commit = 1;'
UNION ALL
SELECT 'isolation', 0,
       CONCAT(s.isolation, ' by default; rowlock''s own connections use READ-COMMITTED',
              IF(s.isolation = 'READ-COMMITTED', '', ' whatever the default')), '', ''
  FROM (SELECT CAST(/*M! @@global.tx_isolation */ /*!80000 @@global.transaction_isolation */ AS CHAR) AS isolation) s
UNION ALL
SELECT 'wait_timeout', IF(s.idle_s > s.ttl_s, 0, 2),
       IF(s.idle_s > s.ttl_s,
          CONCAT(s.idle_s, ' s by default; rowlock sets the TTL (', s.ttl_s, ' s) where it holds a row lock'),
          CONCAT(s.idle_s, ' s, not above the TTL of ', s.ttl_s, ' s')),
       'rowlock sets its own; but your own transactions that wait so long between statements
        lose the locks they took with rowlock_tx_acquire()',
       CONCAT('set the global wait_timeout to ', IF(s.ttl_s < 14400, 28800, s.ttl_s * 2), ' or more')
  FROM (SELECT @@global.wait_timeout AS idle_s, CAST(:ttl_s AS UNSIGNED) AS ttl_s) s
UNION ALL
SELECT 'connections', IF(@@global.max_connections < 50, 2, 0),
       CONCAT('max_connections is ', @@global.max_connections),
       'each held or awaited row lock takes one', 'SET GLOBAL max_connections = 151;'
UNION ALL
SELECT 'binlog', IF(:binlog AND :binlog_format = 'STATEMENT', 3, 0),
       CASE
           WHEN NOT :binlog THEN 'no binary log'
           WHEN :binlog_format = 'STATEMENT' THEN 'binlog_format is STATEMENT'
           ELSE 'the binary log takes rows'
       END,
       'the server refuses changes at READ-COMMITTED, which rowlock needs', 'SET GLOBAL binlog_format = ''ROW'';';

-- name: doctor_clock
-- params: here_us u64
-- columns: check text(64), level u64, found text(700), follows text(700), remedy text(700)
SELECT 'clock', IF(ABS(s.ahead_us) > 1000000, 1, 0),
       CONCAT('this host is ', CAST(ABS(s.ahead_us) / 1000000 AS DECIMAL(20, 3)), ' s ',
              IF(s.ahead_us < 0, 'behind', 'ahead of'), ' the server'),
       'no lock depends on it; times in your own logs will differ', 'let NTP run on both'
  FROM (SELECT CAST(:here_us AS SIGNED) - TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS ahead_us) s;

-- Metadata locks: waiters and holders. Statements about connections have the same columns; `waiter` is the connection that is
-- held up, or 0.

-- A change of a table waits for every transaction that has used the table, and later statements wait behind it. Without the
-- privilege PROCESS the server shows only connections of the same user.
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

-- The holders of locks that a waiter wants. For MySQL, and a MariaDB whose performance_schema is on and has the instrument
-- wait/lock/metadata/sql/mdl enabled. Which locks conflict is in two matrices of the server's sql/mdl.cc (of tables and the like;
-- of global, schema, commit and backup locks).
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

-- The same by MariaDB's plugin metadata_lock_info, which lists granted locks, not requested ones. So a waiter's tables are those
-- on which it has a weaker lock already (ALTER does), or which its statement names. Only strong locks hold up a waiter that wants
-- to read or write.
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

-- Transactions that have been open for at least so long, the oldest first.
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

-- Transactions of that age without a connection: after an XA PREPARE whose client has gone. (One that is being undone after a
-- crash has no connection, too.)
-- name: doctor_prepared
-- params: older_s u64
-- columns: check text(64), level u64, found text(700), follows text(700), remedy text(700)
SELECT 'prepared', 2,
       CONCAT(COUNT(*), ' prepared (XA) transactions have no connection; the oldest began ',
              MAX(TIMESTAMPDIFF(SECOND, CONVERT_TZ(t.trx_started, 'SYSTEM', '+00:00'), UTC_TIMESTAMP())), ' s ago'),
       'what they have locked stays locked, over a restart of the server, too: where that is a lock''s row
        (rowlock_fence), nobody takes, gives back or breaks it',
       /*M! 'XA RECOVER FORMAT=''SQL''; lists them; those that their coordinator has forgotten, end with
             XA COMMIT or XA ROLLBACK and that text' */
       /*!80000 'XA RECOVER CONVERT XID; lists them (it takes XA_RECOVER_ADMIN); those that their coordinator
                 has forgotten, end with XA COMMIT or XA ROLLBACK' */
  FROM information_schema.innodb_trx t
 WHERE t.trx_mysql_thread_id = 0
   AND t.trx_state <> 'ROLLING BACK'
   AND CONVERT_TZ(t.trx_started, 'SYSTEM', '+00:00') <= UTC_TIMESTAMP() - INTERVAL :older_s SECOND
HAVING COUNT(*) > 0;

-- The lease that came nearest to its expiry lately. A renewal is due every third of the TTL; this reports one that was late by as
-- much again.
-- name: doctor_gaps
-- columns: check text(64), level u64, found text(2800), follows text(700), remedy text(700)
SELECT 'renewals', 2,
       CONCAT('the longest time between two renewals of ''', r.resource_name, ''', on the last day of its use, was ', t.gap_part DIV 10, ' % of its TTL (',
              CAST(t.gap_us / 1000000 AS DECIMAL(20, 1)), ' s)'),
       IF(t.gap_part >= 1000, 'a holder lost the lease by that', 'a little more, and its holder would have lost the lease'),
       CONCAT('give it a TTL of ', CEIL(t.gap_us / 500000), ' s or more; or find out what stopped the holder, or the server, for so long')
  FROM lock_total t
  JOIN resource r ON r.id = t.id
 WHERE t.gap_part >= 667
   AND t.last_at > UTC_TIMESTAMP(6) - INTERVAL 1 DAY
   AND r.kind = 'optimistic'
 ORDER BY t.gap_part DESC, r.resource_name
 LIMIT 1;

-- A name of a kind that this program does not know.
-- name: doctor_kinds
-- columns: name text(1020), kind text(16)
SELECT resource_name, kind FROM resource WHERE NOT ({{known_kind(kind)}}) LIMIT 1;

-- Rowlock's own published row locks, which are meant to be held for long.
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

-- The event that sweeps, by the record of its last run (sweep_event) and by its present definition, which ALTER EVENT or DROP
-- EVENT may have changed since it was installed. It returns the first reason why nobody sweeps; each reason stands below, with
-- marks in <> that are filled in. A read-only server does not sweep; of several writable ones, only the one where the event
-- was made does, and its record is replicated to the others. `hidden`: this user lacks the privilege EVENT.
--
-- If ALTER EVENT has set an interval in a unit that is unknown here, the installed interval counts. A user that may not read the
-- schema mysql sees only its own account. An event that was made at another server is SLAVESIDE_DISABLED or
-- REPLICA_SIDE_DISABLED.
-- name: doctor_event
-- params: read_only u64, many_writers u64, hidden u64
-- columns: check text(64), level u64, found text(2800), follows text(700), remedy text(700)
SELECT 'event', t.level,
       REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(REPLACE(
           t.found, '<every>', x.every_s), '<ago>', COALESCE(x.started_s, 0)), '<failures>', x.failures), '<last>', x.last_run),
           '<run>', x.run_did), '<status>', x.status), '<definer>', x.definer), '<error>', x.error),
       t.follows, t.remedy
  FROM (SELECT y.*,
               CAST(IF(y.started_s IS NULL,
                       CONCAT('it has never run, since it was installed ', y.installed_s, ' s ago'),
                       CONCAT('it ran last ', y.started_s, ' s ago')) AS CHAR) AS last_run,
               CAST(CASE
                        WHEN y.started_s IS NULL THEN 'it has not run yet'
                        WHEN y.running THEN CONCAT('a run began ', y.started_s, ' s ago')
                        ELSE CONCAT('last ', y.started_s, ' s ago: expired locks freed: ', y.expired,
                                    ', events forgotten: ', y.events, ', names purged: ', y.purged)
                    END AS CHAR) AS run_did,
               CASE
                   WHEN y.is_late AND y.failures = 0 AND :read_only THEN 'late at the primary'
                   WHEN y.is_late AND y.failures = 0 AND y.is_anothers AND :many_writers THEN 'late elsewhere'
                   WHEN y.failures = 0 AND y.is_anothers AND (:read_only OR :many_writers) THEN 'made elsewhere'
                   WHEN y.failures = 0 AND :read_only THEN 'runs elsewhere'
                   WHEN :read_only OR (y.is_anothers AND :many_writers) THEN 'fails'
                   WHEN @@global.event_scheduler <> 'ON' THEN 'not scheduled'
                   WHEN y.definer_gone THEN 'without definer'
                   WHEN y.is_anothers THEN 'disabled elsewhere'
                   WHEN y.status NOT IN ('', 'ENABLED') THEN 'disabled'
                   WHEN y.status = '' AND NOT :hidden THEN 'gone'
                   WHEN y.failures > 0 THEN 'fails'
                   WHEN y.is_late THEN 'late'
                   WHEN y.status = '' THEN 'hidden'
                   ELSE 'runs'
               END AS reason
          FROM (SELECT z.*,
                       z.status LIKE '%SIDE_DISABLED' AS is_anothers,
                       LEAST(z.installed_s, COALESCE(z.started_s, z.installed_s)) > 3 * z.every_s + 60 AS is_late
                  FROM (SELECT TIMESTAMPDIFF(SECOND, s.installed_at, UTC_TIMESTAMP(6)) AS installed_s,
                               TIMESTAMPDIFF(SECOND, s.started_at, UTC_TIMESTAMP(6)) AS started_s,
                               s.ended_at IS NULL OR s.ended_at < s.started_at AS running,
                               s.failures, s.expired, s.events, s.purged,
                               CAST(s.error AS CHAR) AS error,
                               COALESCE(NULLIF(e.every_s, 0), s.every_s) AS every_s,
                               CAST(COALESCE(e.status, '') AS CHAR) AS status,
                               CAST(COALESCE(e.definer, '') AS CHAR) AS definer,
                               COALESCE(e.accounts > 1 AND e.definers = 0, FALSE) AS definer_gone
                          FROM sweep_event s
                          LEFT JOIN (SELECT e.status, e.definer,
                                            CAST(e.interval_value *
                                                 CASE e.interval_field
                                                     WHEN 'SECOND' THEN 1
                                                     WHEN 'MINUTE' THEN 60
                                                     WHEN 'HOUR' THEN 3600
                                                     WHEN 'DAY' THEN 86400
                                                     WHEN 'WEEK' THEN 604800
                                                     ELSE 0
                                                 END AS UNSIGNED) AS every_s,
                                            (SELECT COUNT(*)
                                               FROM information_schema.user_privileges u
                                              WHERE u.grantee = CONCAT("'", LEFT(e.definer, CHAR_LENGTH(e.definer) - CHAR_LENGTH(SUBSTRING_INDEX(e.definer, '@', -1)) - 1),
                                                                       "'@'", SUBSTRING_INDEX(e.definer, '@', -1), "'")) AS definers,
                                            (SELECT COUNT(DISTINCT u.grantee)
                                               FROM information_schema.user_privileges u) AS accounts
                                       FROM information_schema.events e
                                      WHERE e.event_schema = DATABASE()
                                        AND e.event_name = 'rowlock_sweep') e ON TRUE
                         WHERE s.id = 1) z) y) x
  JOIN (SELECT 'late at the primary' AS reason, 2 AS level,
               'another server is to sweep every <every> s, and does not: <last>' AS found,
               '{{not_swept}}' AS follows, 'at the primary: ALTER EVENT rowlock_sweep ENABLE;' AS remedy
        UNION ALL
        SELECT 'late elsewhere', 2, 'another server is to sweep every <every> s, and does not: <last>',
               '{{not_swept}}', 'ALTER EVENT rowlock_sweep ENABLE;'
        UNION ALL
        SELECT 'made elsewhere', 1, 'another server sweeps every <every> s; <run>',
               'when that server is gone, or is the primary no more, nobody sweeps',
               'then, at one that takes writes: ALTER EVENT rowlock_sweep ENABLE;'
        UNION ALL
        SELECT 'runs elsewhere', 0, 'another server sweeps every <every> s; <run>', '', ''
        UNION ALL
        SELECT 'not scheduled', 2,
               'the event that sweeps is there, but the server runs no events: event_scheduler is off; <last>',
               '{{not_swept}}',
               'event_scheduler=ON in the server''s option file, and now: SET GLOBAL event_scheduler = ON;'
        UNION ALL
        SELECT 'without definer', 2, 'the event that sweeps runs as <definer>, and there is no such account; <last>',
               '{{not_swept}}', '`rowlock init --event` by a user that stays'
        UNION ALL
        SELECT 'disabled elsewhere', 2, 'the event that sweeps is <status>; <last>',
               'it was made at another server; nobody sweeps, unless that one still is the primary',
               'ALTER EVENT rowlock_sweep ENABLE;'
        UNION ALL
        SELECT 'disabled', 2, 'the event that sweeps is <status>; <last>', '{{not_swept}}',
               'ALTER EVENT rowlock_sweep ENABLE;'
        UNION ALL
        SELECT 'gone', 2, 'the event that sweeps was installed, and is not there any more; <last>', '{{not_swept}}',
               '`rowlock init --event`; or, if it is to be so, `rowlock init --remove-event`'
        UNION ALL
        SELECT 'fails', 2, 'the event that sweeps has failed <failures> times in a row, last <ago> s ago: <error>',
               '{{not_swept}}', 'as it says; `rowlock init --event` makes procedures and event anew'
        UNION ALL
        SELECT 'late', 2, 'the event that sweeps is to run every <every> s, and <last>', '{{not_swept}}',
               'the server''s error log has the reason; `rowlock init --event` makes it anew'
        UNION ALL
        SELECT 'hidden', 1,
               'an event sweeps every <every> s, as it was installed; <last>; the event itself is hidden from this user',
               'that it is disabled or gone shows here only when its runs are late',
               'let a user look who has the privilege EVENT on the schema'
        UNION ALL
        SELECT 'runs', 0, 'the server sweeps every <every> s; <run>', '', '') t ON t.reason = x.reason;

-- Refused without the privilege EVENT, where information_schema has no row.
-- name: doctor_event_right
-- kind: text
-- columns: db text(256), name text(256)
SHOW EVENTS LIKE 'rowlock_sweep';

-- The rights of this account on each column that it may see, with those on the table and the schema, and those of its active
-- roles.
-- name: doctor_columns
-- columns: table_name text(256), column_name text(256), privileges text(400)
SELECT c.table_name, c.column_name, c.privileges
  FROM information_schema.columns c
 WHERE c.table_schema = DATABASE()
   AND c.table_name IN ({{lock_tables}}, 'rowlock_schema_version');

-- The rights on all schemas and on whole ones, with those of the active roles.
-- name: doctor_grants
-- kind: text
-- columns: granted text(4000)
SHOW GRANTS;

-- The server checks rights when it prepares, also if it is read-only (where MariaDB refuses EXPLAIN). Neither statement is
-- executed. All columns:
-- name: doctor_may_read
-- kind: text
-- params: table name
PREPARE rowlock_doctor FROM 'SELECT * FROM :table';

-- name: doctor_may_delete
-- kind: text
-- params: table name
PREPARE rowlock_doctor FROM 'DELETE FROM :table WHERE FALSE';

-- This server as a member of a quorum; no row if it is none. `server`: the identity of this server.
-- name: doctor_quorum
-- params: server text
-- columns: check text(64), level u64, found text(700), follows text(700), remedy text(700)
SELECT 'quorum', t.level,
       CASE t.level
           WHEN 3 THEN 'its list of members was written on another server: this one was built anew, is a copy, or replicates that one'
           WHEN 2 THEN IF(q.state = 'closed', 'its list of members is being replaced',
                          CONCAT('a member of a quorum of ', q.count, ', whose commits are not durable'))
           ELSE CONCAT('a member of a quorum of ', q.count, ' (list ', q.number, ')')
       END,
       CASE
           WHEN t.level = 3 THEN 'it votes for nobody'
           WHEN q.state = 'closed' THEN 'nobody gets a lock of this quorum'
           ELSE CONCAT('after each start it votes for nobody for ', q.ttl_most_us DIV 1000000, ' s')
       END,
       CASE
           WHEN t.level = 3 THEN 'rowlock quorum rejoin'
           WHEN q.state = 'closed' THEN 'rowlock quorum replace, with the new members, goes on'
           ELSE 'SET GLOBAL innodb_flush_log_at_trx_commit = 1; SET GLOBAL sync_binlog = 1;'
       END
  FROM quorum_member q
  JOIN (SELECT CASE
                   WHEN q.server <> :server THEN 3
                   WHEN q.state = 'closed' OR NOT {{durable}} THEN 2
                   ELSE 0
               END AS level, q.id
          FROM quorum_member q) t ON t.id = q.id
 WHERE q.id = 1;

-- The values that are compared between the members of a quorum.
-- name: doctor_member
-- columns: list text(64), server_us u64
SELECT COALESCE(MAX(q.list), ''), CAST(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS UNSIGNED)
  FROM quorum_member q
 WHERE q.id = 1;

-- Whether this server replicates another one now.
-- name: doctor_replica
-- columns: replicates u64
SELECT CAST(COALESCE(SUM(r.running), 0) AS UNSIGNED)
  FROM (/*M! SELECT s.variable_value AS running FROM information_schema.global_status s WHERE s.variable_name = 'SLAVES_RUNNING' */
        /*!80000 SELECT 1 AS running FROM performance_schema.replication_connection_status s WHERE s.service_state = 'ON' */) r;

-- Queues: items that nobody takes, and dead ones.
-- name: doctor_queues
-- columns: check text(64), level u64, found text(700), follows text(700), remedy text(700)
SELECT 'queue', 2,
       CONCAT('''', LEFT(r.resource_name, 100), ''' has ', COUNT(*), IF(COUNT(*) = 1, ' item that has', ' items that have'),
              ' been ready for over 5 min; the oldest for ',
              MAX(TIMESTAMPDIFF(SECOND, i.ready_at, UTC_TIMESTAMP(6))), ' s'),
       'nobody takes them, or more are put than the workers take', 'start workers (`rowlock queue work`), or more of them'
  FROM resource r
  STRAIGHT_JOIN queue_item i FORCE INDEX (by_ready)
    ON i.queue_id = r.id
   AND i.state = 'alive'
   AND i.ready_at <= UTC_TIMESTAMP(6) - INTERVAL 5 MINUTE
   AND (i.taken = 0 OR NOT {{spent_one}})
 WHERE r.kind = 'queue'
 GROUP BY r.id, r.resource_name
UNION ALL
SELECT 'queue', 1, CONCAT('''', LEFT(r.resource_name, 100), ''' has ', COUNT(*), IF(COUNT(*) = 1, ' dead item', ' dead items')),
       'their work was not done, and they stay until somebody says what is to become of them',
       '`rowlock queue dead` shows why; then `rowlock queue requeue`, or `rowlock queue purge`'
  FROM resource r
  STRAIGHT_JOIN queue_item i FORCE INDEX (by_ready)
    ON i.queue_id = r.id
   AND (i.state = 'dead'
        OR i.state = 'alive' AND i.taken = 1 AND i.ready_at <= UTC_TIMESTAMP(6) AND {{spent_one}})
 WHERE r.kind = 'queue'
 GROUP BY r.id, r.resource_name;

-- Sessions of dead holders (sql/guard.sql). A waiter of the lease ends them at once, if it has the right to.
-- name: doctor_sessions
-- columns: check text(64), level u64, found text(700), follows text(700), remedy text(700)
SELECT 'sessions', 2,
       CONCAT('''', LEFT(r.resource_name, 100), ''': its last holder is gone, and of its sessions are still there: ',
              LEFT(GROUP_CONCAT(s.connection_id ORDER BY s.connection_id SEPARATOR ', '), 300)),
       'nobody gets the lock before they have ended: nobody has wanted it, or may end them',
       'KILL them, or let those who take the lock end them (CONNECTION ADMIN, or the same user)'
  FROM resource r
  STRAIGHT_JOIN lease_renewal l ON l.id = r.id
  STRAIGHT_JOIN lock_session s ON s.resource_id = r.id AND s.version = r.guarded AND {{session_there}}
 WHERE r.guarded > 0
   AND {{dead_guard}}
 GROUP BY r.id, r.resource_name;

-- Old transactions make taking from queues slow: the server keeps all items that were deleted since they began.
-- name: doctor_queue_snapshots
-- params: older_s u64
-- columns: check text(64), level u64, found text(700), follows text(700), remedy text(700)
SELECT 'queue-snapshot', 2,
       CONCAT('there are queues, and a transaction has been open for ',
              MAX(TIMESTAMPDIFF(SECOND, CONVERT_TZ(t.trx_started, 'SYSTEM', '+00:00'), UTC_TIMESTAMP())), ' s'),
       'what workers take and finish stays in the index of the queue while it is open, and each search goes over that',
       'end it (see transactions); keep transactions short'
  FROM information_schema.innodb_trx t
  JOIN (SELECT 1 AS one FROM resource WHERE kind = 'queue' LIMIT 1) q
 WHERE CONVERT_TZ(t.trx_started, 'SYSTEM', '+00:00') <= UTC_TIMESTAMP() - INTERVAL :older_s SECOND
   AND t.trx_mysql_thread_id <> CONNECTION_ID()
HAVING COUNT(*) > 0;
