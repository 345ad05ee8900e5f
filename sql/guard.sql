-- Sessions that the holder of a lease has registered. The client that takes the lease over ends those that are left, and waits
-- until their work is undone. A session holds a named lock, its marker, which the server releases when the session's transaction
-- is undone. So the marker proves which session it is, and its release that nothing of that session goes on. (Connections'
-- numbers do not: they begin anew when a server starts.)
--
-- `guarded` in the name's row is the version whose rows of lock_session count; no other row does. The holder sets it, while its
-- lease runs; its release clears it, or a client that has seen that no such session is left. Until then nobody can acquire the
-- lease (clauses open, dead_guard). The row is written before `guarded`, so a client that finds `guarded` set finds the row.

-- Registers a session. The connection that has the marker must be at this server.
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

-- Why no row was added: 0: the session is not at this server.
-- name: guard_marked
-- params: secret text
-- columns: connection_id u64
SELECT COALESCE(IS_USED_LOCK({{mark(:secret)}}), 0);

-- The statement with which another session registers itself. The name is in hexadecimal digits.
-- name: guard_command
-- kind: text
-- params: name text, version u64
CALL {schema}.rowlock_session(CONVERT(UNHEX(:name) USING utf8mb4), :version);

-- No row: this holder has lost the lease, or it has expired.
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

-- The next session that is left, except the asking one. (Through procedures: guard_end.)
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

-- For clients that work through procedures: ends the sessions that are left, as far as the procedures' definer may. `there` 0:
-- none is left, and `guarded` is cleared.
-- name: guard_end
-- via: by hand
-- params: id u64
-- columns: there u64, connection_id u64, why text(1600)
SELECT 0, :id, '';

-- No session is left. It looks again, since the holder may have renewed the lease and registered another one meanwhile. (As a
-- count: see clause unused.)
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

-- Deletes rows that do not count (any more). guard_set follows guard_add in less than an hour.
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
