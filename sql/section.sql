-- The optimistic section: compare and swap on the version.

-- name: section_read
-- via: own
-- params: id u64, name text
-- columns: kind text(16), status text(8), version u64, remaining_us i64
SELECT r.kind, IF(r.status = 'free' AND r.not_before > UTC_TIMESTAMP(6), 'shut', r.status), r.version,
       COALESCE(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6),
           IF(r.status = 'free', r.not_before,
              {{expiry(r.version)}})), 0)
  FROM resource r
  LEFT JOIN lease_renewal l ON l.id = r.id
 WHERE r.id = :id
   AND r.resource_name = :name;

-- A lease on the same name keeps sections out, and so does one that is shut.
-- name: section_swap
-- via: own
-- params: owner text, label text, id u64, name text, expected u64
UPDATE resource
   SET version = version + 1,
       owner = :owner,
       owner_label = :label,
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND resource_name = :name
   AND kind = 'optimistic'
   AND status = 'free'
   AND {{open}}
   AND version = :expected;

-- After a lost reply: was it us who made the version?
-- name: section_whose
-- via: own
-- params: id u64, name text, owner text
-- columns: version u64, ours u64, status text(8)
SELECT version, owner = :owner, status FROM resource WHERE id = :id AND resource_name = :name;
