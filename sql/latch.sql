-- Latches. A count is one row, inserted by one statement, which may be part of the user's own transaction. A generation becomes
-- open or broken when the first client changes the latch's row from `held` to `free` (latch_open, latch_break); later ones find
-- it so.

-- Begins the next generation, if the one that was `seen` has ended. The OK packet carries its number. Generations before a purge
-- of the name are unknown.
-- name: latch_set
-- via: own
-- params: count u64, owner text, label text, seen u64, id u64, name text
UPDATE resource
   SET version = LAST_INSERT_ID(version + 1),
       status = 'held',
       slots = :count,
       broken = IF(acquired_at IS NULL, ~0, broken) << 1,
       owner = :owner,
       owner_label = :label,
       acquired_at = UTC_TIMESTAMP(6),
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND resource_name = :name
   AND kind = 'latch'
   AND version = :seen
   AND status = 'free';

-- Deletes the counts of earlier generations, which are not needed any more.
-- name: latch_forget
-- via: own
-- params: id u64
DELETE FROM latch_down
 WHERE resource_id = :id
   AND generation < (SELECT version FROM resource WHERE id = :id AND kind = 'latch');

-- Counts. Until the transaction ends nobody else can set or break the latch. `generation` 0: the present one. The OK packet
-- carries it. A key that was counted already stays as it is.
-- name: latch_down
-- via: own
-- params: down_key text, owner text, id u64, name text, generation u64
INSERT INTO latch_down (resource_id, generation, down_key, owner, down_at)
SELECT r.id, LAST_INSERT_ID(r.version), :down_key, :owner, UTC_TIMESTAMP(6)
  FROM resource r
 WHERE r.id = :id
   AND r.resource_name = :name
   AND r.kind = 'latch'
   AND r.status = 'held'
   AND :generation IN (0, r.version)
  LOCK IN SHARE MODE
    ON DUPLICATE KEY UPDATE
       resource_id = r.id;

-- The latch's state: one row as long as the name exists. `generation` 0: the present one. `down`: how many have counted, while it
-- is closed; `broken` has a bit for each of the last 64 generations (see migrations/0006_latch.sql). `mine`: `member` has set it.
-- name: latch_look
-- via: own
-- params: member text, generation u64, id u64, name text
-- columns: kind text(16), version u64, unset u64, armed u64, count u64, broken u64, down u64, label text(1024), mine u64
SELECT r.kind, r.version, r.acquired_at IS NULL, r.status = 'held', r.slots, r.broken, COUNT(d.resource_id), r.owner_label,
       r.owner = :member
  FROM resource r
  LEFT JOIN latch_down d FORCE INDEX (PRIMARY)
    ON d.resource_id = r.id AND d.generation = r.version AND r.status = 'held' AND :generation IN (0, r.version)
 WHERE r.id = :id
   AND r.resource_name = :name
 GROUP BY r.id, r.kind, r.version, r.acquired_at, r.status, r.slots, r.broken, r.owner_label, r.owner;

-- Opens the latch, if all have counted. (The caller has seen that; it is checked since anybody may call it through procedures.)
-- name: latch_open
-- via: own
-- params: id u64, generation u64
UPDATE resource
   SET version = LAST_INSERT_ID(version),
       status = 'free',
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND kind = 'latch'
   AND version = :generation
   AND status = 'held'
   AND slots <= (SELECT COUNT(*) FROM latch_down d WHERE d.resource_id = resource.id AND d.generation = resource.version);

-- After a lost reply: whether this owner has counted, and how long ago the latch was set, since counts of earlier generations are
-- deleted.
-- name: latch_counted
-- via: own
-- params: owner text, id u64
-- columns: counted u64, set_us i64
SELECT (SELECT COUNT(*) FROM latch_down d WHERE d.resource_id = r.id AND d.owner = :owner),
       COALESCE(TIMESTAMPDIFF(MICROSECOND, r.acquired_at, UTC_TIMESTAMP(6)), 0)
  FROM resource r
 WHERE r.id = :id;

-- An operator breaks the latch, unless all have counted.
-- name: latch_break
-- params: who text, id u64, generation u64
UPDATE resource
   SET status = 'free',
       broken = broken | 1,
       owner_label = :who,
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND kind = 'latch'
   AND version = :generation
   AND status = 'held'
   AND slots > (SELECT COUNT(*) FROM latch_down d WHERE d.resource_id = resource.id AND d.generation = resource.version);

-- ------------------------------------------------------------------------------------ members

-- name: latch_join
-- via: own
-- params: owner text, label text, down_key text, ttl_us u64, id u64, name text, generation u64
INSERT INTO lock_grant (resource_id, owner, owner_label, version, down_key, acquired_at, expires_at)
SELECT r.id, :owner, :label, LAST_INSERT_ID(r.version), :down_key, UTC_TIMESTAMP(6),
       UTC_TIMESTAMP(6) + INTERVAL :ttl_us MICROSECOND
  FROM resource r
 WHERE r.id = :id
   AND r.resource_name = :name
   AND r.kind = 'latch'
   AND r.status = 'held'
   AND :generation IN (0, r.version)
  LOCK IN SHARE MODE
    ON DUPLICATE KEY UPDATE
       version = r.version,
       expires_at = UTC_TIMESTAMP(6) + INTERVAL :ttl_us MICROSECOND;

-- How many members have a key that was not counted yet, and one of them that has expired ('': none). There is always a row.
-- name: latch_members
-- via: own
-- params: id u64, generation u64
-- columns: members u64, dead text(1024)
SELECT COUNT(*), COALESCE(MAX(IF(g.expires_at <= UTC_TIMESTAMP(6), g.owner_label, NULL)), '')
  FROM lock_grant g
  LEFT JOIN latch_down d
    ON d.resource_id = g.resource_id AND d.generation = g.version AND d.down_key = g.down_key
 WHERE g.resource_id = :id
   AND g.version = :generation
   AND d.resource_id IS NULL;

-- Breaks the latch since a member will not count: `member`, which knows its own id, or one that has expired. (A member whose key
-- was counted has done its part.)
-- name: latch_break_member
-- via: own
-- params: id u64, generation u64, member text
UPDATE resource r
  STRAIGHT_JOIN lock_grant g FORCE INDEX (PRIMARY) ON g.resource_id = r.id AND g.version = r.version
  LEFT JOIN latch_down d FORCE INDEX (PRIMARY)
    ON d.resource_id = r.id AND d.generation = r.version AND d.down_key = g.down_key
   SET r.version = LAST_INSERT_ID(r.version),
       r.status = 'free',
       r.broken = r.broken | 1,
       r.owner_label = g.owner_label,
       r.update_time = UTC_TIMESTAMP(6)
 WHERE r.id = :id
   AND r.kind = 'latch'
   AND r.version = :generation
   AND r.status = 'held'
   AND (g.owner = :member OR g.expires_at <= UTC_TIMESTAMP(6))
   AND d.resource_id IS NULL
   AND r.slots > (SELECT COUNT(*) FROM latch_down c WHERE c.resource_id = r.id AND c.generation = r.version);
