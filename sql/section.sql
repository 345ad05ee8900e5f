-- The optimistic section: compare and swap on the version.

-- A held or cooling lease on the same name keeps sections out.
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
