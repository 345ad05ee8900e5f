-- The sweeper: src/admin/sweeper.c and the procedures of sql/procedures/sweep.sql run these. Batches walk the
-- primary key: an index on the expiry would cost every acquire and renewal a write.
--
-- A batch is found by a plain read; then its rows are locked and looked at again. Rows that
-- somebody else has locked are left out (SKIP LOCKED): a batch never waits with locks of its
-- own. `names` is [[id, version], ...], and as_batch answers one such row. Each statement that frees or deletes names all that makes the
-- row its business, and trusts none that ran before it: on Galera what those locked may be undone.
-- MySQL takes the made-up table for one to be locked, and
-- refuses it (3569), unless told which are meant (OF); MariaDB has no OF. FORCE INDEX: see lease_renew.

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

-- In one transaction: these three. Of each lease the resource is locked first, as everywhere.
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

-- The next row lock that says it is held; whether it is, only its row knows.
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

-- The upper end of the oldest batch of history that is to go; NULL when none is.
-- name: sweep_events_before
-- params: age_us u64, limit u64
-- columns: upto u64
SELECT MAX(h.id)
  FROM (SELECT id, happened_at FROM lock_event ORDER BY id LIMIT :limit) h
 WHERE h.happened_at < UTC_TIMESTAMP(6) - INTERVAL :age_us MICROSECOND;

-- The oldest id among the newest `keep` rows; no row when there are fewer.
-- name: sweep_events_beyond
-- params: keep u64
-- columns: upto u64
SELECT id FROM lock_event ORDER BY id DESC LIMIT 1 OFFSET :keep;

-- name: sweep_events_delete
-- params: upto u64, limit u64
DELETE FROM lock_event WHERE id <= :upto ORDER BY id LIMIT :limit;

-- The purge of a batch: first the floor, which new names start at, is raised above all of its versions;
-- then the names go. Each is a statement that commits by itself: a floor that is too high does no harm,
-- and nobody waits for it longer than one write takes. A name cannot be made before its row has gone, so its
-- maker finds the floor raised (a maker that reads the floor before finds the row still there).

-- half: the name of a row lock whose maker died before the row was there.
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

-- Before them the counts of latches: of generations that are settled, so nobody asks for them any more.
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

-- DELETE has no SKIP LOCKED: so the rows that can be had are locked by a table made of them. (LIMIT: both
-- servers make such a table before they delete; 1000 is the most that a batch has.) `names` is
-- [[id, version, half], ...]. Of a half-made name the row may have been made since: it is deleted, too.
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

-- An unfenced row lock leaves no trace in its resource: only its row says that it is in use.
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

-- Of a batch, those that are still there.
-- name: purge_left
-- params: names text
-- columns: count u64
SELECT COUNT(*)
  FROM JSON_TABLE(:names, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]')) AS k
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = k.id;

-- Names that were opened for readers over an hour ago, and have none, are made free in three statements: closed, as a writer does it; of those in
-- whom nobody is, freed; the others opened again. The second one begins when the first is committed, and so sees every reader
-- that there is (sql/shared.sql).
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

-- Readers and members that were not heard of again. A minute late: a next writer does it itself. A member of a latch that is
-- closed stays, since its expiry is what will break that; one of a barrier that all have entered stays for 30 days, for the
-- others to miss it. (What somebody else has locked is left out: see purge_names.)
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

-- Periods of the ledger that ended before the history begins, and whose last attempt did, too; but not the newest of a name.
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

-- A name that nobody uses any more; its slots' own rows went before.
-- name: purge_slots
-- params: id u64
DELETE FROM resource WHERE id = :id AND kind = 'slots';
