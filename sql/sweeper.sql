-- The sweeper. Batches walk the primary key: an index on the expiry would cost every
-- acquire and renewal a write.
--
-- A batch is found by a plain read; then its rows are locked and looked at again. Rows that
-- somebody else has locked are left out (SKIP LOCKED): a batch never waits with locks of its
-- own. `names` is [[id, version], ...]. MySQL takes the made-up table for one to be locked, and
-- refuses it (3569), unless told which are meant (OF); MariaDB has no OF. FORCE INDEX: see lease_renew.

-- name: sweep_expired
-- params: after u64, limit u64
-- columns: id u64, version u64
SELECT r.id, r.version
  FROM resource r
  JOIN lease_renewal l ON l.id = r.id
 WHERE r.id > :after
   AND r.kind = 'optimistic'
   AND r.status = 'held'
   AND r.lease_expires_at <= UTC_TIMESTAMP(6)
   AND (l.version <> r.version OR l.expires_at IS NULL OR l.expires_at <= UTC_TIMESTAMP(6))
 ORDER BY r.id
 LIMIT :limit;

-- In one transaction: these three. Of each lease the resource is locked first, as everywhere.
-- name: sweep_expired_lock
-- params: names text
-- columns: id u64, version u64
SELECT r.id, r.version
  FROM JSON_TABLE(:names, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]')) AS k
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = k.id
  STRAIGHT_JOIN lease_renewal l FORCE INDEX (PRIMARY) ON l.id = r.id
 WHERE r.kind = 'optimistic'
   AND r.status = 'held'
   AND r.lease_expires_at <= UTC_TIMESTAMP(6)
   AND (l.version <> r.version OR l.expires_at IS NULL OR l.expires_at <= UTC_TIMESTAMP(6))
   FOR UPDATE /*!80000 OF r, l */ SKIP LOCKED;

-- name: sweep_expired_record
-- params: names text
INSERT INTO lock_event (resource_name, kind, event, version, owner, owner_label,
                        happened_at, waited_ms, held_ms, exit_status, detail)
SELECT r.resource_name, r.kind, 'expired', r.version, r.owner, r.owner_label,
       UTC_TIMESTAMP(6), NULL,
       COALESCE(TIMESTAMPDIFF(MICROSECOND, r.acquired_at, UTC_TIMESTAMP(6)), 0) DIV 1000,
       NULL, 'its lease ran out'
  FROM JSON_TABLE(:names, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]')) AS k
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = k.id;

-- Both versions rise, as in lease_expire: that ends late renewals and late fences.
-- name: sweep_expired_free
-- params: names text
UPDATE JSON_TABLE(:names, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]',
           version BIGINT UNSIGNED PATH '$[1]')) AS k
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = k.id AND r.version = k.version
  STRAIGHT_JOIN lease_renewal l FORCE INDEX (PRIMARY) ON l.id = k.id
   SET r.version = k.version + 1,
       r.status = 'free',
       r.not_before = NULL,
       r.connection_id = 0,
       r.update_time = UTC_TIMESTAMP(6),
       l.version = k.version + 1,
       l.expires_at = NULL;

-- Row locks that say they are held; whether they are, only their row knows.
-- name: sweep_published
-- params: after u64, limit u64
-- columns: id u64, name text(1020), version u64, owner text(64), owner_label text(1024), held_us i64
SELECT id, resource_name, version, owner, owner_label,
       COALESCE(TIMESTAMPDIFF(MICROSECOND, acquired_at, UTC_TIMESTAMP(6)), 0)
  FROM resource
 WHERE id > :after
   AND kind = 'pessimistic'
   AND status = 'held'
 ORDER BY id
 LIMIT :limit;

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

-- name: purge_candidates
-- params: after u64, unused_us u64, limit u64
-- columns: id u64, version u64
SELECT id, version
  FROM resource
 WHERE id > :after
   AND status = 'free'
   AND (not_before IS NULL OR not_before <= UTC_TIMESTAMP(6))
   AND update_time <= UTC_TIMESTAMP(6) - INTERVAL :unused_us MICROSECOND
 ORDER BY id
 LIMIT :limit;

-- The purge of a batch is one transaction: the floor first, which new rows read under a
-- shared lock, then the names.
-- name: purge_floor
-- columns: version u64
SELECT version FROM version_floor WHERE id = 1 FOR UPDATE;

-- name: purge_names_lock
-- params: names text, unused_us u64
-- columns: id u64, version u64
SELECT r.id, r.version
  FROM JSON_TABLE(:names, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]')) AS k
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = k.id
 WHERE r.kind <> 'pessimistic'
   AND r.status = 'free'
   AND (r.not_before IS NULL OR r.not_before <= UTC_TIMESTAMP(6))
   AND r.update_time <= UTC_TIMESTAMP(6) - INTERVAL :unused_us MICROSECOND
   FOR UPDATE /*!80000 OF r */ SKIP LOCKED;

-- An unfenced row lock leaves no trace in its resource: only its row says that it is in use.
-- name: purge_rows_lock
-- params: names text, unused_us u64
-- columns: id u64, version u64
SELECT r.id, r.version
  FROM JSON_TABLE(:names, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]')) AS k
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = k.id
  STRAIGHT_JOIN resource_lock q FORCE INDEX (PRIMARY) ON q.id = r.id
 WHERE r.kind = 'pessimistic'
   AND r.status = 'free'
   AND (r.not_before IS NULL OR r.not_before <= UTC_TIMESTAMP(6))
   AND r.update_time <= UTC_TIMESTAMP(6) - INTERVAL :unused_us MICROSECOND
   FOR UPDATE /*!80000 OF r, q */ SKIP LOCKED;

-- Whoever made it died before its row was there: nobody can have that locked. Who makes it now waits
-- for the resource, see resource_create_lock. Should it have been made since the look, it is deleted,
-- too, and waited for where it is in use.
-- name: purge_halves_lock
-- params: names text, unused_us u64
-- columns: id u64, version u64
SELECT r.id, r.version
  FROM JSON_TABLE(:names, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]')) AS k
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = k.id
 WHERE r.kind = 'pessimistic'
   AND r.status = 'free'
   AND (r.not_before IS NULL OR r.not_before <= UTC_TIMESTAMP(6))
   AND r.update_time <= UTC_TIMESTAMP(6) - INTERVAL :unused_us MICROSECOND
   AND NOT EXISTS (SELECT 1 FROM resource_lock q WHERE q.id = r.id)
   FOR UPDATE /*!80000 OF r */ SKIP LOCKED;

-- name: purge_floor_raise
-- params: version u64
UPDATE version_floor SET version = GREATEST(version, :version) WHERE id = 1;

-- name: purge_resource
-- params: names text
DELETE r
  FROM JSON_TABLE(:names, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]')) AS k
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = k.id;

-- name: purge_lock
-- params: names text
DELETE q
  FROM JSON_TABLE(:names, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]')) AS k
  STRAIGHT_JOIN resource_lock q FORCE INDEX (PRIMARY) ON q.id = k.id;

-- name: purge_renewal
-- params: names text
DELETE l
  FROM JSON_TABLE(:names, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]')) AS k
  STRAIGHT_JOIN lease_renewal l FORCE INDEX (PRIMARY) ON l.id = k.id;
