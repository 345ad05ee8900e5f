-- Statements that run on the caller's own connection. They are sent as text, so that they work on any MYSQL *; their values are
-- numbers and owner ids that rowlock has made. `key` is for their procedures: see session_key.

-- name: caller_row_lock
-- via: by hand
-- kind: text
-- params: id u64, key text
-- columns: name text(1020)
SELECT CAST(resource_name AS BINARY) FROM {schema}.resource_lock WHERE id = :id AND :key IS NOT NULL FOR UPDATE;

-- name: caller_row_try
-- via: by hand
-- kind: text
-- params: id u64, key text
-- columns: name text(1020)
SELECT CAST(resource_name AS BINARY) FROM {schema}.resource_lock WHERE id = :id AND :key IS NOT NULL FOR UPDATE NOWAIT;

-- A write, not a locking read, since a cluster certifies only writes. Renewals do not touch this row; a take-over, a break and a
-- release do, and wait for the transaction.
-- name: caller_fence
-- via: by hand
-- kind: text
-- params: id u64, version u64, owner text, key text
UPDATE {schema}.resource
   SET fence_count = fence_count + 1
 WHERE {{ours}}
   AND :key IS NOT NULL;

-- The fence of a reader: no writer has had the name since. It keeps the next writer out until the transaction ends; renewals
-- write another row. A shared lock is enough, since shared leases need a server whose row locks hold for the whole cluster
-- (src/kind/shared.c).
-- name: caller_fence_shared
-- via: by hand
-- kind: text
-- params: id u64, version u64, key text
-- columns: version u64
SELECT version
  FROM {schema}.resource
 WHERE id = :id
   AND version = :version
   AND status = 'shared'
   AND :key IS NOT NULL
  LOCK IN SHARE MODE;

-- Writes the token into the session's variable, beside those of other locks, for the triggers of sql/fence.sql. It begins no
-- transaction and waits for nobody.
-- name: caller_present
-- kind: text
-- params: presented_as text, version u64
SET @rowlock_presented =
    JSON_SET(IF(JSON_VALID(@rowlock_presented), IF(JSON_TYPE(@rowlock_presented) = 'OBJECT',
                CONVERT(@rowlock_presented USING utf8mb4), '{}'), '{}'),
             CONCAT('$."', :presented_as, '"'), CAST(:version AS CHAR));

-- The secret of the connection's marker (sql/guard.sql): the one that it has already, or else this new one; '': neither. It
-- begins no transaction and waits for nobody.
-- name: caller_mark
-- kind: text
-- params: secret text
-- columns: secret text(64)
SELECT IF(IS_USED_LOCK({{mark(COALESCE(@rowlock_marker, ''))}}) = CONNECTION_ID(), @rowlock_marker,
          IF(GET_LOCK({{mark(:secret)}}, 0) = 1, :secret, ''));

-- name: caller_keep_mark
-- kind: text
-- params: secret text
SET @rowlock_marker = :secret;

-- name: caller_section_swap
-- via: by hand
-- kind: text
-- params: owner text, id u64, expected u64, key text
UPDATE {schema}.resource
   SET version = version + 1,
       owner = :owner,
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND kind = 'optimistic'
   AND status = 'free'
   AND {{open}}
   AND version = :expected
   AND :key IS NOT NULL;

-- As latch_down. Name and key come in hexadecimal digits, since they may be any text. A key that was counted already is reported
-- as a changed row, too, whatever the flags of the caller's connection, since its time goes on by a microsecond.
-- (LAST_INSERT_ID() is the caller's own.)
-- name: caller_latch_down
-- via: by hand
-- kind: text
-- params: down_key text, owner text, id u64, name text, generation u64, key text
INSERT INTO {schema}.latch_down (resource_id, generation, down_key, owner, down_at)
SELECT r.id, r.version, CONVERT(UNHEX(:down_key) USING utf8mb4), :owner, UTC_TIMESTAMP(6)
  FROM {schema}.resource r
 WHERE r.id = :id
   AND CAST(r.resource_name AS BINARY) = UNHEX(:name)
   AND r.kind = 'latch'
   AND r.status = 'held'
   AND :generation IN (0, r.version)
   AND :key IS NOT NULL
  LOCK IN SHARE MODE
    ON DUPLICATE KEY UPDATE
       down_at = latch_down.down_at + INTERVAL 1 MICROSECOND;

-- The token proves that the attempt is the caller's. Another attempt of the period waits until the transaction has ended. (By its
-- token: while the name has one period, MariaDB and MySQL would read the primary key, and in REPEATABLE READ lock the gaps beside it,
-- too: those who begin other periods and names would wait.)
-- name: caller_once_done
-- via: by hand
-- kind: text
-- params: id u64, version u64, key text
UPDATE {schema}.once_run FORCE INDEX (by_token)
   SET state = 'done',
       ended_at = UTC_TIMESTAMP(6),
       exit_status = 0
 WHERE resource_id = :id
   AND token = :version
   AND state = 'running'
   AND :key IS NOT NULL;

-- As queue_put. Key, name and payload come in hexadecimal digits.
-- name: caller_queue_put
-- kind: text
-- params: id u64, name text, lane u64, at u64, delay_us u64, attempts u64, item_key text, payload text
INSERT INTO {schema}.queue_item (queue_id, state, lane, ready_at, attempts_most, item_key, created_at, payload)
VALUES ((SELECT r.id
           FROM {schema}.resource r
          WHERE r.id = :id AND CAST(r.resource_name AS BINARY) = UNHEX(:name) AND r.kind = 'queue'
           LOCK IN SHARE MODE),
        'alive', :lane, {{ready_at}}, :attempts, CONVERT(UNHEX(:item_key) USING utf8mb4), UTC_TIMESTAMP(6), UNHEX(:payload))
    ON DUPLICATE KEY UPDATE
       id = LAST_INSERT_ID(queue_item.id);

-- The item that was put, or was there already, if the OK packet does not tell its id.
-- name: caller_queue_find
-- kind: text
-- params: id u64, item_key text
-- columns: item text(20)
SELECT id
  FROM {schema}.queue_item FORCE INDEX (by_key)
 WHERE queue_id = :id
   AND item_key = CONVERT(UNHEX(:item_key) USING utf8mb4) COLLATE utf8mb4_bin
   AND grave = 0
  LOCK IN SHARE MODE;

-- A call of several statements takes effect as a whole, or not at all.
-- name: caller_savepoint
-- kind: text
SAVEPOINT rowlock_call;

-- name: caller_undo
-- kind: text
ROLLBACK TO SAVEPOINT rowlock_call;

-- name: caller_group_enter
-- kind: text
-- params: group_key text, id u64, name text
INSERT INTO {schema}.queue_group (queue_id, group_key)
SELECT r.id, CONVERT(UNHEX(:group_key) USING utf8mb4)
  FROM {schema}.resource r
 WHERE r.id = :id
   AND CAST(r.resource_name AS BINARY) = UNHEX(:name)
   AND r.kind = 'queue'
  LOCK IN SHARE MODE
    ON DUPLICATE KEY UPDATE
       changes = queue_group.changes + 1;

-- name: caller_queue_put_grouped
-- kind: text
-- params: id u64, group_key text, lane u64, at u64, delay_us u64, attempts u64, item_key text, payload text
INSERT INTO {schema}.queue_item (queue_id, group_key, state, lane, ready_at, attempts_most, item_key, created_at, payload)
VALUES (:id, CONVERT(UNHEX(:group_key) USING utf8mb4),
        (SELECT IF(g.head = 0, 'alive', 'behind')
           FROM {schema}.queue_group g
          WHERE g.queue_id = :id AND g.group_key = CONVERT(UNHEX(:group_key) USING utf8mb4) COLLATE utf8mb4_bin
           LOCK IN SHARE MODE),
        :lane, {{ready_at}}, :attempts, CONVERT(UNHEX(:item_key) USING utf8mb4), UTC_TIMESTAMP(6), UNHEX(:payload))
    ON DUPLICATE KEY UPDATE
       id = LAST_INSERT_ID(queue_item.id);

-- name: caller_group_head
-- kind: text
-- params: item u64, id u64, group_key text
UPDATE {schema}.queue_group g
  STRAIGHT_JOIN {schema}.queue_item i FORCE INDEX (PRIMARY)
    ON i.id = :item AND i.queue_id = g.queue_id AND i.group_key = g.group_key AND i.state = 'alive'
   SET g.head = i.id
 WHERE g.queue_id = :id
   AND g.group_key = CONVERT(UNHEX(:group_key) USING utf8mb4) COLLATE utf8mb4_bin
   AND g.head = 0;

-- name: caller_group_leave
-- kind: text
-- params: id u64, group_key text
DELETE FROM {schema}.queue_group
 WHERE queue_id = :id
   AND group_key = CONVERT(UNHEX(:group_key) USING utf8mb4) COLLATE utf8mb4_bin
   AND head = 0;

-- Deletes an item without a group. The token proves that it is the caller's. (As a DELETE over several tables, which can name its
-- index: where one item of the queue is alive, MariaDB 10.11 would read by_ready, in REPEATABLE READ lock its gaps, too, and keep
-- every put into the queue waiting.)
-- name: caller_queue_done
-- kind: text
-- params: item u64, id u64, token u64
DELETE {schema}.queue_item
  FROM {schema}.queue_item FORCE INDEX (PRIMARY)
 WHERE id = :item
   AND queue_id = :id
   AND token = :token
   AND taken = 1
   AND state = 'alive'
   AND group_key IS NULL;

-- An item of a group: reads the group, and locks the item's row.
-- name: caller_queue_group
-- kind: text
-- params: item u64, id u64, token u64
-- columns: group_key text(2040)
SELECT HEX(group_key)
  FROM {schema}.queue_item
 WHERE id = :item
   AND queue_id = :id
   AND token = :token
   AND taken = 1
   AND state = 'alive'
   AND group_key IS NOT NULL
   FOR UPDATE;

-- It is locked already, and the caller's. (In this form, too: to a plain DELETE by a key that a KILL QUERY meets, MariaDB may say OK,
-- and no row.)
-- name: caller_queue_done_grouped
-- kind: text
-- params: item u64
DELETE {schema}.queue_item
  FROM {schema}.queue_item FORCE INDEX (PRIMARY)
 WHERE id = :item;

-- As queue_group_lock and queue_group_next. The caller's transaction may have a snapshot, so the next item is read with a lock.
-- No row: there is none. followed is 0 if none can be behind (see queue_group_promote): then none is looked for, since in REPEATABLE
-- READ that locks the gap, and puts into other groups and queues wait.
-- name: caller_group_lock
-- kind: text
-- params: id u64, group_key text, item u64
-- columns: followed text(1)
SELECT changes > 0
  FROM {schema}.queue_group
 WHERE queue_id = :id
   AND group_key = CONVERT(UNHEX(:group_key) USING utf8mb4) COLLATE utf8mb4_bin
   AND head = :item
   FOR UPDATE;

-- name: caller_group_next
-- kind: text
-- params: id u64, group_key text
-- columns: next text(20)
SELECT id
  FROM {schema}.queue_item FORCE INDEX (by_group)
 WHERE queue_id = :id
   AND group_key = CONVERT(UNHEX(:group_key) USING utf8mb4) COLLATE utf8mb4_bin
   AND state = 'behind'
 ORDER BY id
 LIMIT 1
   FOR UPDATE;

-- name: caller_group_promote
-- kind: text
-- params: next u64, id u64, group_key text, item u64
UPDATE {schema}.queue_group g
  STRAIGHT_JOIN {schema}.queue_item i FORCE INDEX (PRIMARY)
    ON i.id = :next AND i.queue_id = g.queue_id AND i.group_key = g.group_key AND i.state = 'behind'
   SET g.head = i.id,
       g.changes = GREATEST(g.changes, 1) - 1,
       i.state = 'alive'
 WHERE g.queue_id = :id
   AND g.group_key = CONVERT(UNHEX(:group_key) USING utf8mb4) COLLATE utf8mb4_bin
   AND g.head = :item;

-- name: caller_group_end
-- kind: text
-- params: id u64, group_key text, item u64
DELETE FROM {schema}.queue_group
 WHERE queue_id = :id
   AND group_key = CONVERT(UNHEX(:group_key) USING utf8mb4) COLLATE utf8mb4_bin
   AND head = :item;

-- name: caller_nothing
-- kind: text
DO 0;

-- name: caller_begin
-- kind: text
START TRANSACTION;

-- name: caller_commit
-- kind: text
COMMIT;

-- name: caller_rollback
-- kind: text
ROLLBACK;
