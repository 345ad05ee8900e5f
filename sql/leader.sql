-- Leaders: the holder of a lease publishes a value, which others read.

-- The lease's holder publishes. It reads the name's row without a lock, since a transaction (a fence) may have locked it. So it
-- may come late, as after a lost reply; then it does not replace a value of a later holder, or one of its own with a higher
-- number. The order in which the columns are set matters.
-- name: leader_publish
-- via: own
-- params: value text, number u64, id u64, version u64, owner text
INSERT INTO lock_value (resource_id, version, number, value, set_at)
SELECT r.id, r.version, :number, :value, UTC_TIMESTAMP(6)
  FROM resource r
 WHERE {{ours}}
   AND kind = 'optimistic'
    ON DUPLICATE KEY UPDATE
       value = IF({{published_before}}, :value, lock_value.value),
       set_at = IF({{published_before}}, UTC_TIMESTAMP(6), lock_value.set_at),
       number = IF({{published_before}}, :number, lock_value.number),
       version = GREATEST(lock_value.version, r.version);

-- The leader: it holds the lease, by the server's clock, and has published a value.
-- name: leader_look
-- via: own
-- params: name text
-- columns: kind text(16), leads u64, token u64, value text(4096), label text(1024), held_us i64, left_us i64
SELECT r.kind,
       {{leads}},
       r.version, COALESCE(v.value, ''), r.owner_label,
       COALESCE(TIMESTAMPDIFF(MICROSECOND, r.acquired_at, UTC_TIMESTAMP(6)), 0),
       COALESCE(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), {{expiry(r.version)}}), 0)
  FROM resource r
  LEFT JOIN lease_renewal l ON l.id = r.id
  LEFT JOIN lock_value v ON v.resource_id = r.id
 WHERE r.resource_name = :name;
