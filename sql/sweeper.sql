-- The sweeper: src/admin/sweeper.c and the procedures of sql/procedures/sweep.sql run these. Batches walk the primary key, since
-- an index on the expiry would cost every acquire and renewal a write.
--
-- A batch is found by a plain read; then its rows are locked and looked at again. Rows that somebody else has locked are left out
-- (SKIP LOCKED): a batch never waits with locks of its own. `names` is [[id, version], ...], and as_batch returns one such row.
-- Each statement that frees or deletes has all conditions in itself and does not rely on an earlier one: on Galera, the locks of
-- that one may be undone. MySQL would also lock the derived table, and refuses that (3569), unless OF names the tables to lock;
-- MariaDB has no OF. FORCE INDEX: see lease_renew.

-- name: sweep_expired
-- params: after u64, limit u64
-- columns: names text(65000), count u64, last u64, highest u64
{{as_batch(JSON_ARRAY(x.id, x.version))}}
  FROM (SELECT r.id, r.version
          FROM resource r
          JOIN lease_renewal l ON l.id = r.id
         WHERE r.id > :after
           AND {{dead_lease}}
         ORDER BY r.id
         LIMIT :limit) AS x;

-- These three run in one transaction. As everywhere, the resource is locked before the renewal.
-- name: sweep_expired_lock
-- params: names text
-- columns: names text(65000), count u64, last u64, highest u64
{{as_batch(JSON_ARRAY(x.id, x.version))}}
  FROM (SELECT r.id, r.version
          FROM {{batch}}
          STRAIGHT_JOIN lease_renewal l FORCE INDEX (PRIMARY) ON l.id = r.id
         WHERE {{dead_lease}}
           FOR UPDATE /*!80000 OF r, l */ SKIP LOCKED) AS x;

-- name: sweep_expired_record
-- params: names text
INSERT INTO lock_event (resource_name, kind, event, version, owner, owner_label,
                        happened_at, waited_ms, held_ms, exit_status, detail)
SELECT r.resource_name, r.kind, 'expired', r.version, r.owner, r.owner_label,
       UTC_TIMESTAMP(6), NULL,
       COALESCE(TIMESTAMPDIFF(MICROSECOND, r.acquired_at, UTC_TIMESTAMP(6)), 0) DIV 1000,
       NULL, 'its lease ran out'
  FROM {{batch}}
  STRAIGHT_JOIN lease_renewal l FORCE INDEX (PRIMARY) ON l.id = r.id
 WHERE {{dead_lease}};

-- name: sweep_expired_free
-- params: names text
UPDATE {{batch}}
  STRAIGHT_JOIN lease_renewal l FORCE INDEX (PRIMARY) ON l.id = k.id
   SET r.not_before = NULL,
       {{taken_away(k.version)}}
 WHERE {{dead_lease}};

-- The next row lock that is published as held. Only the lock on its row shows whether it still is.
-- name: sweep_published
-- params: after u64
-- columns: id u64, name text(1020), version u64, owner text(64), owner_label text(1024), held_us i64
SELECT id, resource_name, version, owner, owner_label,
       COALESCE(TIMESTAMPDIFF(MICROSECOND, acquired_at, UTC_TIMESTAMP(6)), 0)
  FROM resource
 WHERE id > :after
   AND kind = 'pessimistic'
   AND status = 'held'
 ORDER BY id
 LIMIT 1;

-- The upper end of the oldest batch of history to delete; NULL: none.
-- name: sweep_events_before
-- params: age_us u64, limit u64
-- columns: upto u64
SELECT MAX(h.id)
  FROM (SELECT id, happened_at FROM lock_event ORDER BY id LIMIT :limit) h
 WHERE h.happened_at < UTC_TIMESTAMP(6) - INTERVAL :age_us MICROSECOND;

-- The oldest id among the newest `keep` rows; no row if there are fewer.
-- name: sweep_events_beyond
-- params: keep u64
-- columns: upto u64
SELECT id FROM lock_event ORDER BY id DESC LIMIT 1 OFFSET :keep;

-- name: sweep_events_delete
-- params: upto u64, limit u64
DELETE FROM lock_event WHERE id <= :upto ORDER BY id LIMIT :limit;

-- The purge of a batch first raises the floor, where new names' versions begin, above all of its versions; then it deletes the
-- names. Each statement commits by itself: a floor that is too high does no harm, and others wait for one write only. A name can
-- be made again only after its row is deleted, and the floor was raised before that. (A client that reads the floor earlier still
-- finds the row.)

-- `half`: the name of a row lock without a row, since its maker died.
-- name: purge_candidates
-- params: after u64, unused_us u64, limit u64
-- columns: names text(65000), count u64, last u64, highest u64
{{as_batch(JSON_ARRAY(x.id, x.version, x.half))}}
  FROM (SELECT r.id, r.version, r.kind = 'pessimistic' AND q.id IS NULL AS half
          FROM resource r
          LEFT JOIN resource_lock q ON q.id = r.id
         WHERE r.id > :after
           AND {{unused}}
         ORDER BY r.id
         LIMIT :limit) AS x;

-- name: purge_floor_raise
-- params: version u64
UPDATE version_floor SET version = GREATEST(version, :version) WHERE id = 1;

-- Before the names, deletes counts of latches that have opened or were broken, which are not needed any more.
-- name: purge_counts
-- params: names text, unused_us u64
DELETE d
  FROM (SELECT r.id
          FROM {{batch}}
         WHERE r.kind = 'latch'
           AND {{unused}}
         LIMIT 1000
           FOR UPDATE /*!80000 OF r */ SKIP LOCKED) AS x
  STRAIGHT_JOIN latch_down d FORCE INDEX (PRIMARY) ON d.resource_id = x.id;

-- DELETE has no SKIP LOCKED, so a derived table locks the rows that are not locked by others. (With LIMIT, both servers make that
-- table before they delete; a batch has at most 1000 names.) `names` is [[id, version, half], ...]. If a half-made name has got
-- its row since, that is deleted, too.
-- name: purge_names
-- params: names text, unused_us u64
DELETE r, l, q, t, g, v, a, o, s
  FROM (SELECT r.id
          FROM JSON_TABLE(:names, '$[*]' COLUMNS (
                   id BIGINT UNSIGNED PATH '$[0]',
                   version BIGINT UNSIGNED PATH '$[1]',
                   half BIGINT UNSIGNED PATH '$[2]')) AS k
          STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = k.id AND r.version = k.version
         WHERE (r.kind <> 'pessimistic' OR k.half)
           AND {{unused}}
         LIMIT 1000
           FOR UPDATE /*!80000 OF r */ SKIP LOCKED) AS x
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = x.id
  LEFT JOIN lease_renewal l FORCE INDEX (PRIMARY) ON l.id = r.id
  LEFT JOIN resource_lock q FORCE INDEX (PRIMARY) ON q.id = r.id
  LEFT JOIN lock_total t FORCE INDEX (PRIMARY) ON t.id = r.id
  LEFT JOIN lock_grant g FORCE INDEX (PRIMARY) ON g.resource_id = r.id
  LEFT JOIN lock_value v FORCE INDEX (PRIMARY) ON v.resource_id = r.id
  LEFT JOIN lock_ask a FORCE INDEX (PRIMARY) ON a.resource_id = r.id
  LEFT JOIN lock_session s FORCE INDEX (PRIMARY) ON s.resource_id = r.id
  LEFT JOIN once_run o FORCE INDEX (PRIMARY) ON o.resource_id = r.id;

-- An unfenced row lock does not write its resource: only the lock on its row shows that it is in use.
-- name: purge_row_locks
-- params: names text, unused_us u64
DELETE r, q, t, a
  FROM (SELECT r.id
          FROM {{batch}}
          STRAIGHT_JOIN resource_lock q FORCE INDEX (PRIMARY) ON q.id = r.id
         WHERE r.kind = 'pessimistic'
           AND {{unused}}
         LIMIT 1000
           FOR UPDATE /*!80000 OF r, q */ SKIP LOCKED) AS x
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = x.id
  STRAIGHT_JOIN resource_lock q FORCE INDEX (PRIMARY) ON q.id = r.id
  LEFT JOIN lock_total t FORCE INDEX (PRIMARY) ON t.id = r.id
  LEFT JOIN lock_ask a FORCE INDEX (PRIMARY) ON a.resource_id = r.id;

-- How many names of a batch still exist.
-- name: purge_left
-- params: names text
-- columns: count u64
SELECT COUNT(*)
  FROM JSON_TABLE(:names, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]')) AS k
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = k.id;

-- Names that were opened for readers over an hour ago, and have none, are freed by three statements: the first one closes them,
-- as a writer does; the second one frees those without readers; the third one opens the others again. The second one begins after
-- the first is committed, and so sees every reader (sql/shared.sql).
-- name: sweep_shared
-- params: after u64, limit u64
-- columns: names text(65000), count u64, last u64, highest u64
{{as_batch(JSON_ARRAY(x.id, x.version))}}
  FROM (SELECT r.id, r.version
          FROM resource r
          LEFT JOIN lock_grant g ON g.resource_id = r.id
         WHERE r.id > :after
           AND r.status = 'shared'
           AND {{drain_over(r.)}}
           AND g.owner IS NULL
           AND r.update_time <= UTC_TIMESTAMP(6) - INTERVAL 1 HOUR
         ORDER BY r.id
         LIMIT :limit) AS x;

-- name: sweep_shared_close
-- params: names text, owner text
UPDATE {{batch}}
   SET r.next_owner = :owner,
       r.next_expires_at = UTC_TIMESTAMP(6) + INTERVAL 10 SECOND
 WHERE r.status = 'shared'
   AND {{drain_over(r.)}};

-- name: sweep_shared_free
-- params: names text, owner text
UPDATE {{batch}}
  LEFT JOIN lock_grant g ON g.resource_id = r.id
   SET r.status = 'free',
       {{no_next(r.)}},
       r.update_time = UTC_TIMESTAMP(6)
 WHERE r.status = 'shared'
   AND r.next_owner = :owner
   AND g.owner IS NULL;

-- name: sweep_shared_reopen
-- params: names text, owner text
UPDATE {{batch}}
   SET {{no_next(r.)}}
 WHERE r.status = 'shared'
   AND r.next_owner = :owner;

-- Deletes readers and members a minute after they have expired (a next writer does so at once). A member of a closed latch stays,
-- since its expiry breaks the latch; one of a complete barrier stays for 30 days, for the others to miss it. (Rows that others
-- have locked are left out: see purge_names.)
-- name: sweep_readers
-- params: limit u64
DELETE g
  FROM (SELECT g.resource_id, g.owner
          FROM lock_grant g
          STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = g.resource_id
         WHERE g.expires_at <= UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE
           AND {{known_kind(r.kind)}}
           AND NOT (r.kind = 'latch' AND r.status = 'held' AND r.version = g.version)
           AND NOT (r.kind = 'barrier' AND r.version > g.version AND g.expires_at > UTC_TIMESTAMP(6) - INTERVAL 30 DAY)
         LIMIT :limit
           FOR UPDATE /*!80000 OF g, r */ SKIP LOCKED) AS x
  STRAIGHT_JOIN lock_grant g FORCE INDEX (PRIMARY) ON g.resource_id = x.resource_id AND g.owner = x.owner;

-- Deletes periods of the ledger that ended before the history begins, if their last attempt did, too; but not the newest of a name.
-- name: sweep_once
-- params: age_us u64, limit u64
DELETE o
  FROM (SELECT o.resource_id, o.period_start
          FROM once_run o
         WHERE o.period_end <= UTC_TIMESTAMP(6) - INTERVAL :age_us MICROSECOND
           AND COALESCE(o.ended_at, o.started_at) <= UTC_TIMESTAMP(6) - INTERVAL :age_us MICROSECOND
           AND EXISTS (SELECT 1 FROM once_run n WHERE n.resource_id = o.resource_id AND n.period_start > o.period_start)
         LIMIT :limit
           FOR UPDATE /*!80000 OF o */ SKIP LOCKED) AS x
  STRAIGHT_JOIN once_run o FORCE INDEX (PRIMARY) ON o.resource_id = x.resource_id AND o.period_start = x.period_start;

-- Deletes an unused name with slots, after the rows of its slots.
-- name: purge_slots
-- params: id u64
DELETE FROM resource WHERE id = :id AND kind = 'slots';
