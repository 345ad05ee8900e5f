-- The sweeper. Batches walk the primary key: an index on the expiry would cost every
-- acquire and renewal a write.

-- name: sweep_expired
-- params: after u64, limit u64
-- columns: id u64, name text(1020), version u64, owner text(64), owner_label text(1024), held_us i64
SELECT r.id, r.resource_name, r.version, r.owner, r.owner_label,
       COALESCE(TIMESTAMPDIFF(MICROSECOND, r.acquired_at, UTC_TIMESTAMP(6)), 0)
  FROM resource r
  JOIN lease_renewal l ON l.id = r.id
 WHERE r.id > :after
   AND r.kind = 'optimistic'
   AND r.status = 'held'
   AND r.lease_expires_at <= UTC_TIMESTAMP(6)
   AND (l.version <> r.version OR l.expires_at IS NULL OR l.expires_at <= UTC_TIMESTAMP(6))
 ORDER BY r.id
 LIMIT :limit;

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

-- The purge runs in one transaction: the floor first, which new rows read under a
-- shared lock, then the names.
-- name: purge_floor
-- columns: version u64
SELECT version FROM version_floor WHERE id = 1 FOR UPDATE;

-- name: purge_candidates
-- params: after u64, unused_us u64, limit u64
-- columns: id u64, kind text(16), version u64
SELECT id, kind, version
  FROM resource
 WHERE id > :after
   AND status = 'free'
   AND (not_before IS NULL OR not_before <= UTC_TIMESTAMP(6))
   AND update_time <= UTC_TIMESTAMP(6) - INTERVAL :unused_us MICROSECOND
 ORDER BY id
 LIMIT :limit
   FOR UPDATE SKIP LOCKED;

-- name: purge_floor_raise
-- params: version u64
UPDATE version_floor SET version = GREATEST(version, :version) WHERE id = 1;

-- name: purge_resource
-- params: id u64
DELETE FROM resource WHERE id = :id;

-- name: purge_lock
-- params: id u64
DELETE FROM resource_lock WHERE id = :id;

-- name: purge_renewal
-- params: id u64
DELETE FROM lease_renewal WHERE id = :id;
