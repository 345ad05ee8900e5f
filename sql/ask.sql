-- Somebody asks the holder of a lock to stop. Nothing here ends a lock: the holder decides.

-- An ask names the version that was seen, so it does not count for a later holder. Repeated with the same owner, after a lost
-- reply, it is the same ask. It reads the name's row without a lock, so it may come late: then it does not replace an ask for a
-- later holder. The order in which the columns are set matters. No row: the name is free, or somebody else holds it.
-- name: ask_put
-- via: own
-- params: owner text, label text, reason text, grace_us u64, name text, seen u64
INSERT INTO lock_ask (resource_id, version, number, owner, owner_label, reason, asked_at, stop_by)
SELECT r.id, r.version, 1, :owner, :label, :reason, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL :grace_us MICROSECOND
  FROM resource r
 WHERE r.resource_name = :name
   AND r.version = :seen
   AND r.kind IN ('optimistic', 'pessimistic')
   AND r.status IN ('held', 'shared')
    ON DUPLICATE KEY UPDATE
       number = lock_ask.number + ({{asked_before}} AND lock_ask.owner <> :owner),
       owner = IF({{asked_before}}, :owner, lock_ask.owner),
       owner_label = IF({{asked_before}}, :label, lock_ask.owner_label),
       reason = IF({{asked_before}}, :reason, lock_ask.reason),
       asked_at = IF({{asked_before}}, UTC_TIMESTAMP(6), lock_ask.asked_at),
       stop_by = IF({{asked_before}}, UTC_TIMESTAMP(6) + INTERVAL :grace_us MICROSECOND, lock_ask.stop_by),
       version = GREATEST(lock_ask.version, r.version);

-- For a call that waits: whether a holder that was asked still holds the lock, and who that is. There is always a row; without
-- one, a KILL QUERY has stopped the statement.
-- name: ask_pending
-- via: own
-- params: seen u64, name text
-- columns: held u64, label text(1024)
SELECT COALESCE(r.version = :seen
                AND (   (r.status = 'held' AND (r.kind = 'pessimistic' OR NOT ({{expired}})))
                     OR (r.status = 'shared' AND g.owner IS NOT NULL)), FALSE),
       COALESCE(IF(r.status = 'shared', g.owner_label, r.owner_label), '')
  FROM (SELECT 1 AS one) AS x
  LEFT JOIN resource r ON r.resource_name = :name
  LEFT JOIN lease_renewal l ON l.id = r.id
  LEFT JOIN lock_ask a ON a.resource_id = r.id AND a.version = :seen
  LEFT JOIN lock_grant g
    ON g.resource_id = r.id AND g.version = :seen AND g.acquired_at <= a.asked_at AND g.expires_at > UTC_TIMESTAMP(6)
 LIMIT 1;

-- For the holder, which has read in its renewal that it was asked: by whom, and why.
-- name: ask_read
-- via: own
-- params: id u64, version u64
-- columns: number u64, label text(1024), reason text(1024), asked_at text(32), stop_by text(32), left_us i64
SELECT number, owner_label, reason, asked_at, stop_by, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), stop_by)
  FROM lock_ask
 WHERE resource_id = :id
   AND version = :version;

-- The asks of row locks, which have no renewal to read them: for holders that want to be told. [[id, version], ...]
-- name: row_asked
-- via: own
-- params: leases text
-- columns: place u64, asked u64
SELECT k.place, COALESCE(a.number, 0)
  FROM JSON_TABLE(:leases, '$[*]' COLUMNS (
           place FOR ORDINALITY,
           id BIGINT UNSIGNED PATH '$[0]',
           version BIGINT UNSIGNED PATH '$[1]')) AS k
  LEFT JOIN lock_ask a FORCE INDEX (PRIMARY) ON a.resource_id = k.id AND a.version = k.version;
