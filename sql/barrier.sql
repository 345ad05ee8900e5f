-- Barriers: so many enter together, and leave together. A generation gathers in the rows of lock_grant that have the barrier's version; who
-- makes it complete raises that in the same transaction, so that it is complete for all, or for nobody.

-- In one transaction: the next five. The first one locks the barrier's row until the transaction ends, and writes it: a cluster
-- certifies writes alone. The first to use the name says how many it takes.
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

-- Of those that gather, who was not heard of again; and what is left of `owner`, who enters anew. (Who has entered with the others
-- is missed by them.)
-- name: barrier_drop
-- params: id u64, owner text
DELETE g
  FROM resource r
  STRAIGHT_JOIN lock_grant g FORCE INDEX (PRIMARY) ON g.resource_id = r.id AND g.version = r.version
 WHERE r.id = :id
   AND (g.expires_at <= UTC_TIMESTAMP(6) OR g.owner = :owner);

-- Who gathers: a row in any case, without a place where nobody does. `gone`: one that barrier_drop has not deleted. (MariaDB
-- answers a DELETE that somebody has stopped as one that found nothing.)
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

-- How it stands: a row as long as the name is there. `mine`: this owner has entered that generation; `entered`: so many have.
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

-- Waits no longer: only while it is not complete. The resource first, which is written, too: who makes it complete has that
-- locked, and a cluster certifies writes alone. The next one to enter deletes the row.
-- name: barrier_withdraw
-- params: id u64, owner text, generation u64
UPDATE resource r
  STRAIGHT_JOIN lock_grant g FORCE INDEX (PRIMARY)
    ON g.resource_id = r.id AND g.owner = :owner AND g.version = r.version
   SET r.update_time = UTC_TIMESTAMP(6),
       g.expires_at = UTC_TIMESTAMP(6)
 WHERE r.id = :id
   AND r.version = :generation;

-- Is ready to leave.
-- name: barrier_leave
-- params: id u64, owner text, generation u64
UPDATE lock_grant
   SET left_at = COALESCE(left_at, UTC_TIMESTAMP(6))
 WHERE resource_id = :id
   AND owner = :owner
   AND version = :generation
   AND expires_at > UTC_TIMESTAMP(6);

-- Who is not ready: how many, and one whose time is over ('': none is). A row as long as the name is there.
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

-- Goes without having been ready: its row stays, and tells the others.
-- name: barrier_quit
-- params: id u64, owner text, generation u64
UPDATE lock_grant
   SET expires_at = UTC_TIMESTAMP(6)
 WHERE resource_id = :id
   AND owner = :owner
   AND version = :generation
   AND expires_at > UTC_TIMESTAMP(6);

-- By force: those that are in are lost, and hear of it at their next renewal; of one generation, or (0) of all. Who still
-- gathers has nothing to lose.
-- name: barrier_break
-- params: id u64, generation u64
UPDATE resource r
  STRAIGHT_JOIN lock_grant g FORCE INDEX (PRIMARY) ON g.resource_id = r.id AND g.version < r.version
   SET g.expires_at = UTC_TIMESTAMP(6)
 WHERE r.id = :id
   AND :generation IN (0, g.version)
   AND g.left_at IS NULL
   AND g.expires_at > UTC_TIMESTAMP(6);

-- Nobody is in, and nobody gathers: the next one to enter says how many it takes. (Who enters has the row locked.)
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
