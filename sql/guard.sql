-- Sessions that the holder of a lease has registered. Who takes the lease over ends those that are still there, and waits for their
-- undo. A session keeps a named lock, its marker, which the server takes from it when its transaction is undone; so the marker proves
-- that the session is the one, and its end that nothing of it goes on. The numbers of connections begin anew when a server starts.
--
-- `guarded` in the name's row is the version whose rows of lock_session count; no other row does. It is set by the holder, while its
-- lease runs, and cleared by its release, or by who has seen that no such session is left. Until then nobody gets the lease
-- (clauses open, dead_guard). A row is written before `guarded`: who finds that set finds the row.

-- The connection that keeps the marker must be at this server.
-- name: guard_add
-- via: own
-- params: secret text, id u64, version u64, owner text
INSERT INTO lock_session (resource_id, version, connection_id, marker, registered_at)
SELECT r.id, r.version, IS_USED_LOCK({{mark(:secret)}}), {{mark(:secret)}}, UTC_TIMESTAMP(6)
  FROM resource r
  STRAIGHT_JOIN lease_renewal l ON l.id = r.id
 WHERE r.id = :id
   AND r.version = :version
   AND r.owner = :owner
   AND r.status = 'held'
   AND r.kind = 'optimistic'
   AND NOT ({{expired}})
   AND IS_USED_LOCK({{mark(:secret)}}) > 0
    ON DUPLICATE KEY UPDATE
       marker = {{mark(:secret)}},
       registered_at = UTC_TIMESTAMP(6);

-- Why no row was added: 0, it is not at this server.
-- name: guard_marked
-- params: secret text
-- columns: connection_id u64
SELECT COALESCE(IS_USED_LOCK({{mark(:secret)}}), 0);

-- What another session calls to register itself. The name comes in hexadecimal digits.
-- name: guard_command
-- kind: text
-- params: name text, version u64
CALL {schema}.rowlock_session(CONVERT(UNHEX(:name) USING utf8mb4), :version);

-- No row: the lease is not this holder's any more, or its time is over.
-- name: guard_set
-- via: own
-- params: id u64, version u64, owner text
UPDATE resource r
  STRAIGHT_JOIN lease_renewal l ON l.id = r.id
   SET r.guarded = r.version
 WHERE r.id = :id
   AND r.version = :version
   AND r.owner = :owner
   AND r.status = 'held'
   AND r.kind = 'optimistic'
   AND NOT ({{expired}});

-- The next one that is still there, but for the asker itself. (Through procedures: guard_end.)
-- name: guard_next
-- params: id u64, last u64
-- columns: connection_id u64, marker text(64)
SELECT IS_USED_LOCK(s.marker), s.marker
  FROM resource r
  STRAIGHT_JOIN lease_renewal l ON l.id = r.id
  STRAIGHT_JOIN lock_session s ON s.resource_id = r.id AND s.version = r.guarded
 WHERE r.id = :id
   AND {{dead_guard}}
   AND {{session_lives}}
   AND IS_USED_LOCK(s.marker) > :last
 ORDER BY 1
 LIMIT 1;

-- For who works through procedures: ends those that are still there, as far as the procedures' maker may; none is left, and
-- `guarded` is cleared, where `there` is 0.
-- name: guard_end
-- via: by hand
-- params: id u64
-- columns: there u64, connection_id u64, why text(1600)
SELECT 0, :id, '';

-- None is left. Another one may have been, if the lease was renewed meanwhile: so it looks, too. (As a count: see clause unused.)
-- name: guard_clear
-- params: id u64, guarded u64
UPDATE resource r
  STRAIGHT_JOIN lease_renewal l ON l.id = r.id
   SET r.guarded = NULL
 WHERE r.id = :id
   AND r.guarded = :guarded
   AND {{dead_guard}}
   AND (SELECT COUNT(*) FROM lock_session s WHERE s.resource_id = r.id AND s.version = r.guarded AND {{session_lives}}) = 0;

-- name: guard_forget
-- params: id u64, guarded u64
DELETE FROM lock_session
 WHERE resource_id = :id
   AND version <= :guarded;

-- Rows that do not count (any more). An hour is longer than guard_set comes behind guard_add.
-- name: sweep_sessions
-- params: limit u64
DELETE s
  FROM (SELECT x.resource_id, x.version, x.connection_id
          FROM lock_session x
          LEFT JOIN resource r ON r.id = x.resource_id AND r.guarded = x.version
         WHERE x.registered_at < UTC_TIMESTAMP(6) - INTERVAL 1 HOUR
           AND r.id IS NULL
         LIMIT :limit) AS k
  STRAIGHT_JOIN lock_session s FORCE INDEX (PRIMARY)
    ON s.resource_id = k.resource_id AND s.version = k.version AND s.connection_id = k.connection_id;
