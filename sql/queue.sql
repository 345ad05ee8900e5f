-- Queues. An item can be taken when it is alive and ready_at is past; the worker that takes it sets ready_at to the end of its lease, so an
-- item whose worker is gone is ready again by itself. Every statement of a worker names its item by id, token and owner, and has the
-- condition `taken = 1`: it matches nothing once the item was delivered again.
--
-- A take is a transaction: the rows are locked in the order of the index, what others have locked is skipped, and they are
-- written and committed before anybody works on them. An empty answer does not prove an empty queue: see queue_look.
--
-- The items of a group: the group's row names its head, the one that is alive. Each put and each end of an item of the group locks that
-- row first, but for the item that ends: the order of locks is that item, the group's row, other items.

-- ------------------------------------------------------------------------------------ put

-- The OK packet carries the item's id; where an item with this key is there already, that one's. (No INSERT ... SELECT: while that
-- waits for a key, MariaDB has the table's next ids locked, and every put into every queue waits. Where the name is gone, the queue's id
-- is NULL, which the table refuses.)
-- name: queue_put
-- params: id u64, name text, lane u64, at u64, delay_us u64, attempts u64, item_key text, payload bytes
INSERT INTO queue_item (queue_id, state, lane, ready_at, attempts_most, item_key, created_at, payload)
VALUES ((SELECT r.id FROM resource r WHERE r.id = :id AND r.resource_name = :name AND r.kind = 'queue' LOCK IN SHARE MODE),
        'alive', :lane, {{ready_at}}, :attempts, :item_key, UTC_TIMESTAMP(6), :payload)
    ON DUPLICATE KEY UPDATE
       id = LAST_INSERT_ID(queue_item.id);

-- Eight at a time, in a transaction, none with a key of the user's: this locks the name, as queue_put does; then queue_put_8 puts them,
-- under ids that differ by `step`.
-- name: queue_share
-- params: id u64, name text
-- columns: step u64
SELECT @@session.auto_increment_increment
  FROM resource
 WHERE id = :id
   AND resource_name = :name
   AND kind = 'queue'
  LOCK IN SHARE MODE;

-- name: queue_put_8
-- params: id u64, lane0 u64, at0 u64, delay0 u64, attempts0 u64, key0 text, payload0 bytes, lane1 u64, at1 u64, delay1 u64, attempts1 u64, key1 text, payload1 bytes, lane2 u64, at2 u64, delay2 u64, attempts2 u64, key2 text, payload2 bytes, lane3 u64, at3 u64, delay3 u64, attempts3 u64, key3 text, payload3 bytes, lane4 u64, at4 u64, delay4 u64, attempts4 u64, key4 text, payload4 bytes, lane5 u64, at5 u64, delay5 u64, attempts5 u64, key5 text, payload5 bytes, lane6 u64, at6 u64, delay6 u64, attempts6 u64, key6 text, payload6 bytes, lane7 u64, at7 u64, delay7 u64, attempts7 u64, key7 text, payload7 bytes
INSERT INTO queue_item (queue_id, state, lane, ready_at, attempts_most, item_key, created_at, payload)
VALUES {{put_row(0)}}, {{put_row(1)}}, {{put_row(2)}}, {{put_row(3)}}, {{put_row(4)}}, {{put_row(5)}}, {{put_row(6)}}, {{put_row(7)}};

-- After a put whose reply was lost: the item with its key; 0: none. A row as long as the name is there.
-- name: queue_find
-- params: item_key text, id u64
-- columns: item u64
SELECT COALESCE(i.id, 0)
  FROM resource r
  LEFT JOIN queue_item i FORCE INDEX (by_key) ON i.queue_id = r.id AND i.item_key = :item_key AND i.grave = 0
 WHERE r.id = :id;

-- An item of a group is put in a transaction: the group's row (this), the item (queue_put_grouped), and where the group has no other one,
-- the item as its head (queue_group_head).
-- name: queue_group_enter
-- params: group_key text, id u64, name text
INSERT INTO queue_group (queue_id, group_key)
SELECT r.id, :group_key
  FROM resource r
 WHERE r.id = :id
   AND r.resource_name = :name
   AND r.kind = 'queue'
  LOCK IN SHARE MODE
    ON DUPLICATE KEY UPDATE
       changes = queue_group.changes + 1;

-- name: queue_put_grouped
-- params: id u64, group_key text, lane u64, at u64, delay_us u64, attempts u64, item_key text, payload bytes
INSERT INTO queue_item (queue_id, group_key, state, lane, ready_at, attempts_most, item_key, created_at, payload)
VALUES (:id, :group_key,
        (SELECT IF(g.head = 0, 'alive', 'behind') FROM queue_group g WHERE g.queue_id = :id AND g.group_key = :group_key LOCK IN SHARE MODE),
        :lane, {{ready_at}}, :attempts, :item_key, UTC_TIMESTAMP(6), :payload)
    ON DUPLICATE KEY UPDATE
       id = LAST_INSERT_ID(queue_item.id);

-- name: queue_group_head
-- params: item u64, id u64, group_key text
UPDATE queue_group g
  STRAIGHT_JOIN queue_item i FORCE INDEX (PRIMARY)
    ON i.id = :item AND i.queue_id = g.queue_id AND i.group_key = g.group_key AND i.state = 'alive'
   SET g.head = i.id
 WHERE g.queue_id = :id
   AND g.group_key = :group_key
   AND g.head = 0;

-- The item was there already, in another group or in none: a group that was made for it alone goes.
-- name: queue_group_leave
-- params: id u64, group_key text
DELETE FROM queue_group
 WHERE queue_id = :id
   AND group_key = :group_key
   AND head = 0;

-- ------------------------------------------------------------------------------------ take

-- Locks the next ones, in the order of the index: a range of it for each lane.
-- name: queue_ready
-- params: id u64, limit u64
-- columns: item u64, lane u64, token u64, attempts u64, attempts_most u64, item_key text(1024), group_key text(1020), payload bytes(1048576), ready u64
SELECT {{item}}
  FROM queue_item FORCE INDEX (by_ready)
 WHERE queue_id = :id
   AND state = 'alive'
   AND lane IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
   AND ready_at <= UTC_TIMESTAMP(6)
 ORDER BY lane, ready_at, id
 LIMIT :limit
   FOR UPDATE SKIP LOCKED;

-- The same of one lane, and of what became ready at `from` or later (src/kind/queue_cursor.c).
-- name: queue_ready_from
-- params: id u64, lane u64, from u64, limit u64
-- columns: item u64, lane u64, token u64, attempts u64, attempts_most u64, item_key text(1024), group_key text(1020), payload bytes(1048576), ready u64
SELECT {{item}}
  FROM queue_item FORCE INDEX (by_ready)
 WHERE queue_id = :id
   AND state = 'alive'
   AND lane = :lane
   AND ready_at BETWEEN {{at_us(:from)}} AND UTC_TIMESTAMP(6)
 ORDER BY ready_at, id
 LIMIT :limit
   FOR UPDATE SKIP LOCKED;

-- name: queue_take
-- params: ttl_us u64, owner text, label text, item u64, token u64
UPDATE queue_item
   SET {{taken}}
 WHERE id = :item
   AND token = :token
   AND state = 'alive'
   AND ready_at <= UTC_TIMESTAMP(6);

-- The same of several, [[id, token], ...]; how many matched is compared with how many there are.
-- name: queue_take_batch
-- params: items text, ttl_us u64, owner text, label text
UPDATE JSON_TABLE(:items, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]',
           token BIGINT UNSIGNED PATH '$[1]')) AS k
  STRAIGHT_JOIN queue_item i FORCE INDEX (PRIMARY) ON i.id = k.id AND i.token = k.token
   SET {{taken(i.)}}
 WHERE i.state = 'alive'
   AND i.ready_at <= UTC_TIMESTAMP(6);

-- Is one ready? One search, for a waiter that looks again in a moment.
-- name: queue_peek
-- params: id u64
-- columns: item u64
SELECT id
  FROM queue_item FORCE INDEX (by_ready)
 WHERE queue_id = :id
   AND state = 'alive'
   AND lane IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
   AND ready_at <= UTC_TIMESTAMP(6)
 LIMIT 1;

-- For a waiter behind the first in line: a row as long as the name is there and no item is ready. (It costs half of queue_look.)
-- name: queue_calm
-- params: id u64, name text
-- columns: id u64
SELECT r.id
  FROM resource r
 WHERE r.id = :id
   AND r.resource_name = :name
   AND NOT EXISTS (SELECT 1
                     FROM queue_item FORCE INDEX (by_ready)
                    WHERE queue_id = :id
                      AND state = 'alive'
                      AND lane IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
                      AND ready_at <= UTC_TIMESTAMP(6));

-- Is anything ready, or about to be? Again and again, every `pause_us`, within one statement, for a waiter that has nothing else to do.
-- It runs at READ UNCOMMITTED (next_uncommitted), since at READ COMMITTED it would see nothing new; so it also sees what is not committed
-- yet. `span_us`: how far it looks ahead, at least until it ends. A row means only: look. RAND() makes the server search each time, in
-- place of remembering what it found. Most often nothing is alive, which the first search finds at once.
-- name: queue_watch
-- params: id u64, ticks u64, pause_us u64, span_us u64
-- columns: tick u64
WITH RECURSIVE w AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM w WHERE n + 1 < :ticks)
SELECT w.n
  FROM w
 WHERE CASE WHEN (SELECT lane FROM queue_item FORCE INDEX (by_ready)
                   WHERE queue_id = :id AND state = 'alive' AND RAND() < 2
                   LIMIT 1) IS NULL THEN SLEEP(:pause_us / 1e6)
            WHEN (SELECT lane FROM queue_item FORCE INDEX (by_ready)
                   WHERE queue_id = :id AND state = 'alive' AND lane IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
                     AND ready_at <= UTC_TIMESTAMP(6) + INTERVAL :span_us MICROSECOND AND RAND() < 2
                   LIMIT 1) IS NULL THEN SLEEP(:pause_us / 1e6)
            ELSE TRUE END
 LIMIT 1;

-- For the next statement alone.
-- name: next_uncommitted
-- kind: text
SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;

-- When is the next one ready? A row as long as the name is there; `some`: there is one that will be ready by itself, in `next_us`. The
-- first of each lane is searched by itself: for a GROUP BY, MariaDB reads all rows.
-- name: queue_look
-- params: id u64, name text
-- columns: kind text(16), some u64, next_us i64
SELECT r.kind, n.ready_at < '9999-12-31', TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), n.ready_at)
  FROM resource r
  JOIN (SELECT LEAST({{first_of(0)}}, {{first_of(1)}}, {{first_of(2)}}, {{first_of(3)}}, {{first_of(4)}},
                     {{first_of(5)}}, {{first_of(6)}}, {{first_of(7)}}, {{first_of(8)}}, {{first_of(9)}}) AS ready_at) n
 WHERE r.id = :id
   AND r.resource_name = :name;

-- ----------------------------------------------------------------------------- while it is held

-- As lease_renew. An item that a transaction has locked (one that says it is done) is left out: nobody else can take it meanwhile, and a
-- renewal that waited for it would delay that of the others. (LIMIT: see purge_names.) It never shortens a lease: the item may have been
-- extended since the renewal was sent.
-- name: queue_renew
-- params: leases text
UPDATE (SELECT i.id AS id, k.ttl_us AS ttl_us
          FROM JSON_TABLE(:leases, '$[*]' COLUMNS (
                   id BIGINT UNSIGNED PATH '$[0]',
                   version BIGINT UNSIGNED PATH '$[1]',
                   ttl_us BIGINT UNSIGNED PATH '$[2]',
                   owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin PATH '$[3]')) AS k
          STRAIGHT_JOIN queue_item i FORCE INDEX (PRIMARY)
            ON i.id = k.id AND i.token = k.version AND i.owner = k.owner
         WHERE i.taken = 1
           AND i.ready_at > UTC_TIMESTAMP(6)
           AND k.ttl_us BETWEEN 1 AND 86400000000
         LIMIT 10000
           FOR UPDATE /*!80000 OF i */ SKIP LOCKED) AS o
  STRAIGHT_JOIN queue_item i FORCE INDEX (PRIMARY) ON i.id = o.id
   SET i.ready_at = GREATEST(i.ready_at, UTC_TIMESTAMP(6) + INTERVAL o.ttl_us MICROSECOND)
 WHERE i.taken = 1
   AND i.ready_at > UTC_TIMESTAMP(6);

-- As lease_renewed; whether an item was renewed shows in how long its lease runs.
-- name: queue_renewed
-- params: leases text
-- columns: place u64, held u64, left_us u64
SELECT k.place, i.id IS NOT NULL, COALESCE(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), i.ready_at), 0)
  FROM JSON_TABLE(:leases, '$[*]' COLUMNS (
           place FOR ORDINALITY,
           id BIGINT UNSIGNED PATH '$[0]',
           version BIGINT UNSIGNED PATH '$[1]',
           owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin PATH '$[3]')) AS k
  LEFT JOIN queue_item i FORCE INDEX (PRIMARY)
    ON i.id = k.id AND i.token = k.version AND i.owner = k.owner AND i.taken = 1
   AND i.ready_at > UTC_TIMESTAMP(6);

-- This never shortens a lease either: the worker that has the item may be another process, which renews it.
-- name: queue_extend
-- params: ttl_us u64, item u64, token u64, owner text
UPDATE queue_item
   SET ready_at = GREATEST(ready_at, UTC_TIMESTAMP(6) + INTERVAL :ttl_us MICROSECOND)
 WHERE {{item_ours}}
   AND ready_at > UTC_TIMESTAMP(6);

-- The state of an item, after a reply that was lost. Always a row.
-- name: queue_state
-- params: token u64, owner text, item u64
-- columns: found u64, ours u64, state text(8), token u64
SELECT i.id IS NOT NULL, COALESCE(i.token = :token AND i.owner = :owner AND i.taken = 1, 0), COALESCE(i.state, ''),
       COALESCE(i.token, 0)
  FROM (SELECT 1 AS one) x
  LEFT JOIN queue_item i FORCE INDEX (PRIMARY) ON i.id = :item;

-- ----------------------------------------------------------------------------- its end

-- name: queue_done
-- params: item u64, token u64, owner text
DELETE FROM queue_item
 WHERE {{item_ours}};

-- The same of several, in a transaction: [[id, token, 0, owner], ...].
-- name: queue_done_batch
-- params: items text
DELETE i
  FROM JSON_TABLE(:items, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]',
           token BIGINT UNSIGNED PATH '$[1]',
           owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin PATH '$[3]')) AS k
  STRAIGHT_JOIN queue_item i FORCE INDEX (PRIMARY)
    ON i.id = k.id AND i.token = k.token AND i.owner = k.owner AND i.taken = 1;

-- name: queue_retry
-- params: delay_us u64, reason text, item u64, token u64, owner text
UPDATE queue_item
   SET ready_at = UTC_TIMESTAMP(6) + INTERVAL :delay_us MICROSECOND,
       taken = 0,
       last_error = LEFT(:reason, 1000)
 WHERE {{item_ours}};

-- name: queue_release
-- params: item u64, token u64, owner text
UPDATE queue_item
   SET ready_at = UTC_TIMESTAMP(6),
       taken = 0,
       attempts = attempts - 1
 WHERE {{item_ours}};

-- `reason` '': that of the last retry stays. (A worker that finds an item used up has taken it once more than it may be: LEAST.)
-- name: queue_bury
-- params: reason text, item u64, token u64, owner text
UPDATE queue_item
   SET state = 'dead',
       grave = id,
       taken = 0,
       ready_at = UTC_TIMESTAMP(6),
       attempts = LEAST(attempts, attempts_most),
       last_error = IF(:reason = '', last_error, LEFT(:reason, 1000))
 WHERE {{item_ours}};

-- In the transaction in which the head of a group has ended: the group's row is locked ...
-- name: queue_group_lock
-- params: id u64, group_key text
-- columns: head u64
SELECT head
  FROM queue_group
 WHERE queue_id = :id
   AND group_key = :group_key
   FOR UPDATE;

-- ... and then the next item is looked for; 0: there is none. Always a row: no row means that the statement was stopped.
-- name: queue_group_next
-- params: id u64, group_key text
-- columns: next u64
SELECT COALESCE(i.id, 0)
  FROM (SELECT 1 AS one) x
  LEFT JOIN (SELECT id
               FROM queue_item FORCE INDEX (by_group)
              WHERE queue_id = :id
                AND group_key = :group_key
                AND state = 'behind'
              ORDER BY id
              LIMIT 1) i ON TRUE;

-- As queue_group_lock, for who waits for nobody: no row if it is locked.
-- name: queue_group_try
-- params: id u64, group_key text
-- columns: head u64
SELECT head
  FROM queue_group
 WHERE queue_id = :id
   AND group_key = :group_key
   FOR UPDATE SKIP LOCKED;

-- `changes` is at least the number of items that are behind: each put that finds the group adds one. See caller_group_lock.
-- name: queue_group_promote
-- params: next u64, id u64, group_key text, item u64
UPDATE queue_group g
  STRAIGHT_JOIN queue_item i FORCE INDEX (PRIMARY)
    ON i.id = :next AND i.queue_id = g.queue_id AND i.group_key = g.group_key AND i.state = 'behind'
   SET g.head = i.id,
       g.changes = GREATEST(g.changes, 1) - 1,
       i.state = 'alive'
 WHERE g.queue_id = :id
   AND g.group_key = :group_key
   AND g.head = :item;

-- name: queue_group_end
-- params: id u64, group_key text, item u64
DELETE FROM queue_group
 WHERE queue_id = :id
   AND group_key = :group_key
   AND head = :item;

-- ----------------------------------------------------------------------------- for people

-- A row as long as the name is there.
-- name: queue_count
-- params: id u64, name text
-- columns: kind text(16), ready u64, in_flight u64, delayed u64, behind u64, dead u64, oldest_us i64, some u64, next_us i64
SELECT r.kind, COALESCE(c.ready, 0) + COALESCE(a.again, 0), COALESCE(c.in_flight, 0), COALESCE(c.later, 0), COALESCE(c.behind, 0),
       COALESCE(c.dead, 0) + COALESCE(a.used_up, 0), COALESCE(TIMESTAMPDIFF(MICROSECOND, {{first_ready}}, UTC_TIMESTAMP(6)), -1),
       {{first_ready}} IS NOT NULL, COALESCE(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), {{first_ready}}), -1)
  FROM resource r
  LEFT JOIN (SELECT {{queue_sums}} FROM queue_item FORCE INDEX (by_ready) WHERE queue_id = :id) c ON TRUE
  LEFT JOIN (SELECT {{abandoned_sums}} FROM queue_item FORCE INDEX (by_ready) WHERE queue_id = :id AND {{abandoned()}}) a ON TRUE
 WHERE r.id = :id
   AND r.resource_name = :name;

-- name: queue_items
-- params: id u64, dead u64, after u64, limit u64
-- columns: item u64, state text(8), taken u64, past u64, lane u64, attempts u64, attempts_most u64, token u64, size u64, item_key text(1024), group_key text(1020), label text(1024), error text(4000), created_at text(32), ready_at text(32), ready_us i64
SELECT id, IF({{used_up()}}, 'dead', state), taken, ready_at <= UTC_TIMESTAMP(6), lane, attempts, attempts_most, token, LENGTH(payload), item_key,
       COALESCE(group_key, ''), owner_label,
       IF({{used_up()}}, CONCAT('its worker was lost, at the last of ', attempts_most, ' attempts'), last_error), created_at, ready_at,
       TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), ready_at)
  FROM queue_item FORCE INDEX (PRIMARY)
 WHERE queue_id = :id
   AND id > :after
   AND (state = 'dead' OR {{used_up()}}) = :dead
 ORDER BY id
 LIMIT :limit;

-- One item, before an operator requeues or deletes it. No row: there is none.
-- name: queue_item_look
-- params: item u64, id u64
-- columns: state text(8), group_key text(1020), token u64
SELECT IF({{used_up()}}, 'dead', state), COALESCE(group_key, ''), token
  FROM queue_item
 WHERE id = :item
   AND queue_id = :id;

-- The next dead ones, or all, by their ids.
-- name: queue_item_ids
-- params: id u64, after u64, all u64, older_us u64, limit u64
-- columns: item u64
SELECT id
  FROM queue_item FORCE INDEX (PRIMARY)
 WHERE queue_id = :id
   AND id > :after
   AND IF(state = 'dead' OR {{used_up()}}, ready_at <= UTC_TIMESTAMP(6) - INTERVAL :older_us MICROSECOND, :all <> 0)
 ORDER BY id
 LIMIT :limit;

-- Ready again, as if it had never been delivered; what a worker that has it sends matches nothing any more. (A dead one of a group may
-- have to wait for its turn: queue_requeue_grouped.)
-- name: queue_requeue
-- params: item u64, id u64, token u64
UPDATE queue_item
   SET state = 'alive',
       grave = 0,
       taken = 0,
       token = token + 1,
       attempts = 0,
       ready_at = UTC_TIMESTAMP(6)
 WHERE id = :item
   AND queue_id = :id
   AND token = :token
   AND (state = 'alive' OR state = 'dead' AND group_key IS NULL);

-- A dead one of a group; the transaction has the group's row locked.
-- name: queue_requeue_grouped
-- params: item u64, id u64, token u64
UPDATE queue_group g
  STRAIGHT_JOIN queue_item i FORCE INDEX (PRIMARY) ON i.id = :item AND i.queue_id = g.queue_id AND i.group_key = g.group_key
   SET i.state = IF(g.head = 0, 'alive', 'behind'),
       i.grave = 0,
       i.taken = 0,
       i.token = i.token + 1,
       i.attempts = 0,
       i.ready_at = UTC_TIMESTAMP(6)
 WHERE g.queue_id = :id
   AND i.token = :token
   AND i.state = 'dead';

-- Whatever its state, or only where it is (still) dead: of one that is used up, a late worker may have been heard.
-- name: queue_delete
-- params: item u64, id u64, token u64, only_dead u64
DELETE FROM queue_item
 WHERE id = :item
   AND queue_id = :id
   AND token = :token
   AND (:only_dead = 0 OR state = 'dead' OR {{used_up()}});

-- The name of a queue without items is deleted in a transaction: this locks its row, which keeps puts waiting; queue_any, queue_drop.
-- name: queue_lock
-- params: id u64, name text
-- columns: id u64
SELECT id
  FROM resource
 WHERE id = :id
   AND resource_name = :name
   AND kind = 'queue'
   FOR UPDATE;

-- Is there an item? 0: none. Always a row.
-- name: queue_any
-- params: id u64
-- columns: item u64
SELECT COALESCE(i.id, 0)
  FROM resource r
  LEFT JOIN queue_item i FORCE INDEX (by_ready) ON i.queue_id = r.id
 WHERE r.id = :id
 LIMIT 1;

-- name: queue_drop
-- params: id u64
DELETE FROM resource
 WHERE id = :id
   AND kind = 'queue';

-- The next queue that has items; 0: there is none. (From the items, since there may be a million names of other kinds. Apart from the
-- DELETE: in one statement with it, the server would lock what it finds here, and wait for it.)
-- name: sweep_next_queue
-- params: after u64
-- columns: queue u64
SELECT COALESCE(MIN(queue_id), 0)
  FROM queue_item FORCE INDEX (by_ready)
 WHERE queue_id > :after;

-- Deletes its items that have been dead for `age_us`.
-- name: sweep_dead_items
-- params: id u64, age_us u64, limit u64
DELETE i
  FROM (SELECT id
          FROM queue_item FORCE INDEX (by_ready)
         WHERE queue_id = :id
           AND state = 'dead'
           AND lane IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
           AND ready_at <= UTC_TIMESTAMP(6) - INTERVAL :age_us MICROSECOND
         LIMIT :limit
           FOR UPDATE SKIP LOCKED) AS x
  STRAIGHT_JOIN queue_item i FORCE INDEX (PRIMARY) ON i.id = x.id AND i.state = 'dead';

-- And those that are as good as dead, which are found without a lock: among all that were not taken for so long.
-- name: sweep_used_up
-- params: queue u64, age_us u64, after u64, limit u64
-- columns: names text(65000), count u64, last u64, highest u64
{{as_batch(JSON_ARRAY(x.id, x.version))}}
  FROM (SELECT i.id, i.token AS version
          FROM queue_item i FORCE INDEX (by_ready)
         WHERE i.queue_id = :queue
           AND {{abandoned(i.)}}
           AND i.ready_at <= UTC_TIMESTAMP(6) - INTERVAL :age_us MICROSECOND
           AND i.id > :after
           AND {{spent_one}}
         ORDER BY i.id
         LIMIT :limit) AS x;

-- name: sweep_used_up_delete
-- params: names text
DELETE i
  FROM (SELECT i.id AS id
          FROM JSON_TABLE(:names, '$[*]' COLUMNS (
                   id BIGINT UNSIGNED PATH '$[0]',
                   token BIGINT UNSIGNED PATH '$[1]')) AS k
          STRAIGHT_JOIN queue_item i FORCE INDEX (PRIMARY) ON i.id = k.id AND i.token = k.token
         WHERE {{used_up(i.)}}
         LIMIT 10000
           FOR UPDATE /*!80000 OF i */ SKIP LOCKED) AS x
  STRAIGHT_JOIN queue_item i FORCE INDEX (PRIMARY) ON i.id = x.id AND {{used_up(i.)}};
