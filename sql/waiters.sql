-- Lists waiters, which wait in the server. All statements have the same columns. `name`: '' for the waiters of all locks. MySQL
-- (9.7) cannot read its information_schema's process list while any statement runs that holds bytes that are not UTF-8: error
-- 3854.

-- Waiters of leases, slots, latches, queues and quorums stand in GET_LOCK and say in the text of that statement who they are
-- (bell_wait; rl_bell_wait of the procedures, which keeps the result). Anybody may run a similar statement: a text of another form
-- is left out, and the client checks the label. A waiter's owner id is shown only if `open`. Without the privilege PROCESS the
-- server shows only connections of the same user.
-- name: waiters_of_leases
-- via: own
-- params: prefix text, name text, open u64
-- columns: name text(1020), who text(255), owner text(64), connection_id u64, waited_ms u64
SELECT r.resource_name,
       LEFT(UNHEX(TRIM(BOTH '''' FROM SUBSTRING_INDEX(SUBSTRING_INDEX(p.info, ', ', -1), ' ', 1))), 255),
       IF(:open, LEFT(TRIM(BOTH '''' FROM SUBSTRING_INDEX(SUBSTRING_INDEX(p.info, ', ', -2), ', ', 1)), 63), ''),
       p.id,
       CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(p.info, ', ', -3), ', ', 1) AS UNSIGNED)
           + /*M! CAST(GREATEST(p.time_ms, 0) AS UNSIGNED) */ /*!80000 GREATEST(p.time, 0) * 1000 */
  FROM /*M! information_schema.processlist */ /*!80000 performance_schema.processlist */ p
  STRAIGHT_JOIN resource r
    ON r.id = CAST(SUBSTRING_INDEX(SUBSTRING_INDEX(p.info, ', ', -4), ', ', 1) AS UNSIGNED)
   AND r.kind IN ('optimistic', 'slots', 'latch', 'queue', 'quorum')
 WHERE LEFT(p.info, 17) = 'SELECT GET_LOCK('''
   AND CHAR_LENGTH(p.info) <= 1000
   AND CAST(SUBSTRING(p.info, 18, CHAR_LENGTH(:prefix)) AS BINARY) = CAST(:prefix AS BINARY)
   AND SUBSTRING(p.info, 18 + CHAR_LENGTH(:prefix)) REGEXP
       '^[0-9]+'', [0-9]+[)], ''rowlock-waiter'', [0-9]{1,20}, [0-9]{1,15}, ''[0-9a-z.-]*'', ''[0-9a-f]*''( INTO @rowlock_wait(,@rowlock_who){5}){0,1}$'
   AND (:name = '' OR r.resource_name = :name);

-- Members that gather at a barrier: a row for each, also for the first in line, which looks, and for one that polls.
-- name: waiters_at_barriers
-- via: own
-- params: open u64, name text
-- columns: name text(1020), who text(1020), owner text(64), connection_id u64, waited_ms u64
SELECT r.resource_name,
       g.owner_label,
       IF(:open, g.owner, ''),
       0,
       CAST(GREATEST(TIMESTAMPDIFF(MICROSECOND, g.acquired_at, UTC_TIMESTAMP(6)), 0) DIV 1000 AS UNSIGNED)
  FROM resource r
  STRAIGHT_JOIN lock_grant g ON g.resource_id = r.id AND g.version = r.version AND g.expires_at > UTC_TIMESTAMP(6)
 WHERE r.kind = 'barrier'
   AND (:name = '' OR r.resource_name = :name);

-- Waiters of row locks: InnoDB's waiting transactions, each with the one lock that it wants. Only the connection tells who a
-- waiter is. For each waiter, MariaDB lists all those before it: 3 ms for 100 waiters of one row, 60 ms for 400. MariaDB needs
-- the privilege PROCESS, MySQL that and SELECT on performance_schema.data_locks. On a MySQL whose performance_schema is off, that
-- and its process list are empty: then there is a row with the connection 0.
-- name: waiters_of_rows
-- via: own
-- params: name text
-- columns: name text(1020), who text(1020), owner text(64), connection_id u64, waited_ms u64
SELECT r.resource_name,
       LEFT(CONCAT(p.user, '@', REGEXP_REPLACE(p.host, ':[0-9]+$', '')), 255),
       '',
       p.id,
       /*M! CAST(GREATEST(p.time_ms, 0) AS UNSIGNED) */ /*!80000 GREATEST(p.time, 0) * 1000 */
  FROM information_schema.innodb_trx t
  STRAIGHT_JOIN /*M! information_schema.innodb_locks */ /*!80000 performance_schema.data_locks */ l
    ON /*M! lock_id */ /*!80000 engine_lock_id */ = t.trx_requested_lock_id
   AND /*M! lock_index */ /*!80000 index_name */ = 'PRIMARY'
   AND /*M! CAST(lock_table AS BINARY) = CAST(CONCAT('`', DATABASE(), '`.`resource_lock`') AS BINARY) */
       /*!80000 object_name = 'resource_lock'
            AND CAST(object_schema AS BINARY) = CAST(DATABASE() AS BINARY) */
  STRAIGHT_JOIN resource r ON r.id = CAST(l.lock_data AS UNSIGNED) AND r.kind = 'pessimistic'
  STRAIGHT_JOIN /*M! information_schema.processlist */ /*!80000 performance_schema.processlist */ p
    ON p.id = t.trx_mysql_thread_id
 WHERE (:name = '' OR r.resource_name = :name)
 /*!80000 UNION ALL SELECT '', '', '', 0, 0 FROM DUAL WHERE NOT @@global.performance_schema */;
