-- Takes several leases in one transaction: a set of names, or several slots of one name (sql/slots.sql).

-- Takes the free ones of a set, each with its bell, as lease_acquire takes one. `leases` is [[id, name], ...]; the caller
-- compares the count, and rolls back if some are missing. FORCE INDEX: see lease_renew.
-- name: set_take
-- params: owner text, label text, ttl_us u64, bell text, leases text
UPDATE JSON_TABLE(:leases, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]',
           name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[1]')) AS k
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = k.id AND r.resource_name = k.name
   SET r.version = r.version + 1,
       {{granted(IF(COALESCE(IS_USED_LOCK(CONCAT(:bell, r.id)), 0) = CONNECTION_ID(), CONNECTION_ID(), 0), r.)}}
 WHERE r.kind = 'optimistic'
   AND r.status = 'free'
   AND {{open(r.)}}
   AND (GET_LOCK(CONCAT(:bell, r.id), 0) = 1 OR NOT {{reserved(r.)}});

-- The same on a server without bells.
-- name: set_take_quiet
-- params: owner text, label text, ttl_us u64, leases text
UPDATE JSON_TABLE(:leases, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]',
           name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin PATH '$[1]')) AS k
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = k.id AND r.resource_name = k.name
   SET r.version = r.version + 1,
       {{granted(0, r.)}}
 WHERE r.kind = 'optimistic'
   AND r.status = 'free'
   AND {{open(r.)}};

-- The leases that were taken: the place in the list, from 1, and the token. Run before the COMMIT; the caller compares the count.
-- name: set_tokens
-- params: owner text, leases text
-- columns: place u64, version u64
SELECT k.place, r.version
  FROM JSON_TABLE(:leases, '$[*]' COLUMNS (
           place FOR ORDINALITY,
           id BIGINT UNSIGNED PATH '$[0]')) AS k
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = k.id
 WHERE r.owner = :owner
   AND r.status = 'held';

-- Releases the bells that set_take took in vain, but not those of leases held with their bell on this connection. If the count is
-- not that of the list, the statement was stopped.
-- name: set_ring
-- params: bell text, leases text
-- columns: asked u64, rung u64
SELECT COUNT(*),
       COALESCE(SUM(IF(r.status = 'held' AND r.connection_id = CONNECTION_ID(), 0, RELEASE_LOCK(CONCAT(:bell, k.id)))), 0)
  FROM JSON_TABLE(:leases, '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$[0]')) AS k
  LEFT JOIN resource r FORCE INDEX (PRIMARY) ON r.id = k.id;

-- Releases all, as lease_release does one. `leases` is [[id, version, owner], ...].
-- name: set_release
-- params: bell text, keep u64, leases text
UPDATE JSON_TABLE(:leases, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]',
           version BIGINT UNSIGNED PATH '$[1]',
           owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin PATH '$[2]')) AS k
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY)
    ON r.id = k.id AND r.version = k.version AND r.owner = k.owner
   SET r.status = 'free',
       r.not_before = NULL,
       r.guarded = IF(:keep, r.guarded, NULL),
       r.connection_id = IF(COALESCE(RELEASE_LOCK(CONCAT(:bell, r.id)), 0) = 1, GREATEST(r.connection_id, 1), r.connection_id),
       r.update_time = UTC_TIMESTAMP(6)
 WHERE r.status = 'held';
