-- Slots: a name that at most N clients hold at once. Its row has the kind `slots` and the number; each slot is a lock of its own,
-- NAME#0, NAME#1, ...: a lease that is taken without a bell, or a row lock. Waiters stand in the line of the name's own bell, and
-- the first one looks for a free slot.

-- The first client to use the name sets how many slots it has.
-- name: slots_claim
-- via: own
-- params: id u64, slots u64
UPDATE resource
   SET slots = :slots,
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND kind = 'slots'
   AND slots = 0;

-- The number of slots. `line`: the connection that is the first in line; 0: nobody waits.
-- name: slots_count
-- via: own
-- params: id u64, name text, bell text
-- columns: slots u64, line u64
SELECT slots, COALESCE(IS_USED_LOCK(CONCAT(:bell, id)), 0)
  FROM resource
 WHERE id = :id
   AND resource_name = :name
   AND kind = 'slots';

-- The verdict on each slot of the list ([id, ...]), a row for each. GUARDED: first the sessions of the holder `version` must
-- end, which had it as a lease before the name had slots (sql/guard.sql).
-- name: slots_look
-- via: own
-- params: id u64, name text, bell text, leases text
-- columns: slots u64, line u64, place u64, verdict text(16), version u64
SELECT p.slots, COALESCE(IS_USED_LOCK(CONCAT(:bell, p.id)), 0), k.place,
       CASE WHEN r.id IS NULL THEN 'GONE'
            WHEN r.kind <> 'optimistic' THEN 'WRONG_KIND'
            WHEN NOT ({{thawed(p.)}} AND {{thawed(r.)}}) THEN 'FROZEN'
            WHEN r.guarded IS NOT NULL AND {{dead_guard}} THEN 'GUARDED'
            WHEN r.status = 'held' THEN IF({{expiry(r.version)}} > UTC_TIMESTAMP(6), 'HELD', 'EXPIRED')
            WHEN r.status <> 'free' OR NOT {{open(r.)}} THEN 'HELD'
            ELSE 'FREE' END,
       COALESCE(IF({{dead_guard}}, r.guarded, NULL), r.version, 0)
  FROM resource p
  STRAIGHT_JOIN JSON_TABLE(:leases, '$[*]' COLUMNS (
           place FOR ORDINALITY,
           id BIGINT UNSIGNED PATH '$')) AS k
  LEFT JOIN resource r FORCE INDEX (PRIMARY) ON r.id = k.id
  LEFT JOIN lease_renewal l FORCE INDEX (PRIMARY) ON l.id = r.id
 WHERE p.id = :id
   AND p.resource_name = :name
   AND p.kind = 'slots';

-- Takes one slot, if the name still has it (and `wanted` of them; 0: any number). `turn`: 1: it is the asker's turn; 2: it is,
-- and this connection has the name's bell, which is rung before the commit, so that the next waiter looks during the flush; 0: it
-- may not overtake waiters.
-- name: slots_take
-- via: own
-- params: turn u64, bell text, owner text, label text, ttl_us u64, id u64, wanted u64, slot u64, lease u64, name text
UPDATE resource p
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = :lease
   SET r.version = LAST_INSERT_ID(r.version + 1),
       {{granted(IF(:turn = 2 AND RELEASE_LOCK(CONCAT(:bell, p.id)) IS NULL, 0, 0), r.)}}
 WHERE p.id = :id
   AND p.kind = 'slots'
   AND p.slots > :slot
   AND {{thawed(p.)}}
   AND :wanted IN (0, p.slots)
   AND (:turn <> 0 OR IS_USED_LOCK(CONCAT(:bell, p.id)) IS NULL)
   AND r.resource_name = :name
   AND r.kind = 'optimistic'
   AND r.status = 'free'
   AND {{open(r.)}};

-- For a transaction that takes several: keeps the number until it ends.
-- name: slots_keep
-- params: id u64, bell text
-- columns: slots u64, line u64
SELECT slots, COALESCE(IS_USED_LOCK(CONCAT(:bell, id)), 0)
  FROM resource
 WHERE id = :id
   AND kind = 'slots'
  LOCK IN SHARE MODE;

-- An operator changes the number. Holders of removed slots may finish.
-- name: slots_set
-- params: slots u64, id u64
UPDATE resource
   SET slots = :slots,
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND kind = 'slots';

-- The slots of a name that are held or closed; `all`: the free ones, too.
-- name: slots_there
-- via: own
-- params: name text, all u64
-- columns: name text(1020)
SELECT c.resource_name
  FROM resource c
 WHERE {{slot_of(:name)}}
   AND (:all <> 0 OR c.status <> 'free' OR c.not_before > UTC_TIMESTAMP(6))
 ORDER BY c.resource_name;
