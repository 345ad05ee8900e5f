-- Barriers: N members enter together, and leave together. The members that gather are the rows of lock_grant with the barrier's
-- version. The member that completes the generation raises that version in the same transaction, so that the generation is
-- complete for all or for none.

-- The next five run in one transaction. The first one locks the barrier's row until the transaction ends, and writes it, since a
-- cluster certifies only writes. The first member to use the name sets how many enter together.
-- name: barrier_lock
-- params: count u64, id u64, name text
UPDATE resource
   SET version = GREATEST(version, 1),
       slots = :count,
       acquired_at = UTC_TIMESTAMP(6),
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND resource_name = :name
   AND kind = 'barrier'
   AND slots IN (0, :count);

-- Deletes members that gather and have expired, and the old row of `owner`, which enters again. (A member that has entered with
-- the others stays, for the others to miss it.)
-- name: barrier_drop
-- params: id u64, owner text
DELETE g
  FROM resource r
  STRAIGHT_JOIN lock_grant g FORCE INDEX (PRIMARY) ON g.resource_id = r.id AND g.version = r.version
 WHERE r.id = :id
   AND (g.expires_at <= UTC_TIMESTAMP(6) OR g.owner = :owner);

-- The members that gather; if there are none, one row without a place. `gone`: a row that barrier_drop should have deleted.
-- (MariaDB answers OK and no rows for a DELETE that was stopped.)
-- name: barrier_gathered
-- params: owner text, id u64
-- columns: generation u64, place i64, gone u64
SELECT r.version, CAST(COALESCE(g.place, -1) AS SIGNED),
       CAST(COALESCE(g.expires_at <= UTC_TIMESTAMP(6) OR g.owner = :owner, 0) AS UNSIGNED)
  FROM resource r
  LEFT JOIN lock_grant g ON g.resource_id = r.id AND g.version = r.version
 WHERE r.id = :id;

-- name: barrier_enter
-- params: id u64, owner text, label text, generation u64, place u64, ttl_us u64
INSERT INTO lock_grant (resource_id, owner, owner_label, version, place, acquired_at, expires_at)
VALUES (:id, :owner, :label, :generation, :place, UTC_TIMESTAMP(6),
        UTC_TIMESTAMP(6) + INTERVAL :ttl_us MICROSECOND);

-- name: barrier_complete
-- params: id u64, generation u64
UPDATE resource
   SET version = version + 1,
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND version = :generation;

-- The barrier's state: a row as long as the name exists. `mine`: this owner has entered that generation; `entered`: how many
-- have.
-- name: barrier_look
-- params: owner text, generation u64, id u64, name text
-- columns: kind text(16), version u64, count u64, entered u64, mine u64
SELECT r.kind, r.version, r.slots, COUNT(g.owner), CAST(COALESCE(SUM(g.owner = :owner), 0) AS UNSIGNED)
  FROM resource r
  LEFT JOIN lock_grant g
    ON g.resource_id = r.id AND g.version = :generation AND g.expires_at > UTC_TIMESTAMP(6)
 WHERE r.id = :id
   AND r.resource_name = :name
 GROUP BY r.id, r.kind, r.version, r.slots;

-- Withdraws a member, if the generation is not complete. It writes the resource, too, and first, since the member that completes
-- the generation has that locked, and since a cluster certifies only writes. The next member to enter deletes the row.
-- name: barrier_withdraw
-- params: id u64, owner text, generation u64
UPDATE resource r
  STRAIGHT_JOIN lock_grant g FORCE INDEX (PRIMARY)
    ON g.resource_id = r.id AND g.owner = :owner AND g.version = r.version
   SET r.update_time = UTC_TIMESTAMP(6),
       g.expires_at = UTC_TIMESTAMP(6)
 WHERE r.id = :id
   AND r.version = :generation;

-- The member is ready to leave.
-- name: barrier_leave
-- params: id u64, owner text, generation u64
UPDATE lock_grant
   SET left_at = COALESCE(left_at, UTC_TIMESTAMP(6))
 WHERE resource_id = :id
   AND owner = :owner
   AND version = :generation
   AND expires_at > UTC_TIMESTAMP(6);

-- How many members are not ready, and one of them that has expired ('': none). A row as long as the name exists.
-- name: barrier_leaving
-- params: generation u64, id u64
-- columns: working u64, dead text(1024)
SELECT CAST(COALESCE(SUM(g.expires_at > UTC_TIMESTAMP(6)), 0) AS UNSIGNED),
       COALESCE(MAX(IF(g.expires_at <= UTC_TIMESTAMP(6), g.owner_label, NULL)), '')
  FROM resource r
  LEFT JOIN lock_grant g
    ON g.resource_id = r.id AND g.version = :generation AND g.left_at IS NULL
 WHERE r.id = :id
 GROUP BY r.id;

-- The member goes without having been ready: its row stays, for the others to see.
-- name: barrier_quit
-- params: id u64, owner text, generation u64
UPDATE lock_grant
   SET expires_at = UTC_TIMESTAMP(6)
 WHERE resource_id = :id
   AND owner = :owner
   AND version = :generation
   AND expires_at > UTC_TIMESTAMP(6);

-- A break: members that have entered this generation (0: any) are lost, and are told at their next renewal. Members that still
-- gather stay.
-- name: barrier_break
-- params: id u64, generation u64
UPDATE resource r
  STRAIGHT_JOIN lock_grant g FORCE INDEX (PRIMARY) ON g.resource_id = r.id AND g.version < r.version
   SET g.expires_at = UTC_TIMESTAMP(6)
 WHERE r.id = :id
   AND :generation IN (0, g.version)
   AND g.left_at IS NULL
   AND g.expires_at > UTC_TIMESTAMP(6);

-- Without members, the number is forgotten: the next one to enter sets it. (A member that enters has the row locked.)
-- name: barrier_reset
-- params: id u64
UPDATE resource r
  LEFT JOIN lock_grant g
    ON g.resource_id = r.id AND g.version = r.version AND g.expires_at > UTC_TIMESTAMP(6)
   SET r.slots = 0
 WHERE r.id = :id
   AND r.kind = 'barrier'
   AND r.slots > 0
   AND g.owner IS NULL;
