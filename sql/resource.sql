-- Names: which id and kind a name has, and making a new one.

-- Without EXISTS: for that, MariaDB (10.11, 11.8) returns FALSE without an error when KILL QUERY hits.
-- name: resource_find
-- via: own
-- params: name text
-- columns: id u64, kind text(16), idle_s i64, has_lock u64, has_renewal u64
SELECT r.id, r.kind, TIMESTAMPDIFF(SECOND, r.update_time, UTC_TIMESTAMP(6)),
       k.id IS NOT NULL, l.id IS NOT NULL
  FROM resource r
  LEFT JOIN resource_lock k ON k.id = r.id
  LEFT JOIN lease_renewal l ON l.id = r.id
 WHERE r.resource_name = :name;

-- The verdict on a name's row for a client that wants it as `kind` (engine/look.h), and how long it lasts if nobody changes the
-- row. RESERVED: only the client with the bell can take it. SHARED, which readers may enter, lasts until a second after the row's
-- last change, as RESERVED does: by then the waiter that was woken has come, or will not, and others go ahead without the bell.
-- Other clients' owner ids are not returned, only whether the row is the asker's: `ours`; where readers may be in, whether the
-- next writer is. `last_ours`: the last to hold it alone, or to change it, was the asker. `frozen`: nobody can acquire it now,
-- whatever the verdict is. `guarded`: nor while sessions of that version are left (sql/guard.sql); 0: there are none.
-- name: resource_look
-- via: own
-- params: id u64, name text, owner text, kind text
-- columns: kind text(16), verdict text(16), left_us i64, version u64, ours u64, owner_label text(1024), held_us i64, connection_id u64, read_only u64, frozen u64, guarded u64, last_ours u64
SELECT r.kind,
       CASE WHEN r.kind <> :kind THEN 'WRONG_KIND'
            WHEN r.status = 'held' THEN IF(r.kind <> 'optimistic' OR {{expiry(r.version)}} > UTC_TIMESTAMP(6),
                                           'HELD', 'EXPIRED')
            WHEN r.status = 'shared' THEN IF({{drain_over(r.)}}, 'SHARED', 'DRAINING')
            WHEN NOT ({{cooled(r.)}} AND {{thawed(r.)}}) THEN 'COOLING'
            WHEN {{reserved(r.)}} THEN 'RESERVED'
            ELSE 'FREE' END,
       COALESCE(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6),
           CASE WHEN r.status = 'held' THEN {{expiry(r.version)}}
                WHEN r.status = 'shared' THEN IF({{drain_over(r.)}}, r.update_time + INTERVAL 1 SECOND,
                                                 r.next_expires_at)
                WHEN NOT {{thawed(r.)}} THEN LEAST(r.frozen_until, UTC_TIMESTAMP(6) + INTERVAL 1 SECOND)
                WHEN NOT {{cooled(r.)}} THEN r.not_before
                WHEN {{reserved(r.)}} THEN r.update_time + INTERVAL 1 SECOND
                ELSE UTC_TIMESTAMP(6) END), 0),
       r.version, IF(r.status = 'shared', r.next_owner, r.owner) = :owner,
       IF(r.status = 'shared', r.next_label, r.owner_label),
       COALESCE(TIMESTAMPDIFF(MICROSECOND, r.acquired_at, UTC_TIMESTAMP(6)), 0),
       r.connection_id, {{read_only}}, NOT {{thawed(r.)}}, IF(({{dead_guard}}), COALESCE(r.guarded, 0), 0),
       r.owner = :owner
  FROM resource r
  LEFT JOIN lease_renewal l ON l.id = r.id
 WHERE r.id = :id
   AND r.resource_name = :name;

-- A new name is one transaction: these, and the row that its kind needs; in READ COMMITTED, so that two inserts into one gap do
-- not deadlock. Its version begins at the floor, so that it never has a token that the name had before a purge. The floor is read
-- after the INSERT, without a lock: the INSERT succeeds only after the old row's deletion is committed, and the floor was raised
-- before that (sql/sweeper.sql). The lock on the first row of lock_freeze keeps others from freezing names meanwhile; if that row
-- is missing, or KILL QUERY stops reading it, the version is NULL, which the table refuses. (No INSERT ... SELECT: during that,
-- MariaDB locks the table's next ids.)
-- name: resource_create
-- via: by hand
-- params: name text, kind text
INSERT INTO resource (resource_name, kind, version, update_time)
VALUES (:name, :kind, (SELECT 0 FROM lock_freeze WHERE id = 1 LOCK IN SHARE MODE), UTC_TIMESTAMP(6));

-- `frozen_until`: '': not frozen. (A join, since a subquery that KILL QUERY hits may return nothing.)
-- name: resource_floor
-- params: name text
-- columns: version u64, frozen_until text(32)
SELECT v.version, COALESCE(MAX(f.until_at), '')
  FROM version_floor v
  LEFT JOIN lock_freeze f
    ON f.id <> 1 AND f.until_at > UTC_TIMESTAMP(6) AND {{frozen_name(:name, LEFT(f.pattern, CHAR_LENGTH(f.pattern) - f.is_prefix), f.is_prefix)}}
 WHERE v.id = 1
 GROUP BY v.version;

-- A freeze belongs to one server, so names of a quorum are never frozen.
-- name: resource_begin_at
-- params: version u64, frozen_until text, id u64
UPDATE resource
   SET version = :version,
       frozen_until = IF(kind IN ('optimistic', 'pessimistic', 'slots'), NULLIF(:frozen_until, ''), NULL)
 WHERE id = :id;

-- A holder may be published although there was no row (it was deleted by hand). The lock on the resource makes this and a purge,
-- which has found no such row, wait for each other.
-- name: resource_create_lock
-- via: own
-- params: name text, fenced u64, id u64
INSERT INTO resource_lock (id, resource_name, fenced, update_time)
SELECT id, resource_name, :fenced OR status = 'held', UTC_TIMESTAMP(6)
  FROM resource
 WHERE id = :id
   AND resource_name = :name
   AND kind = 'pessimistic'
  LOCK IN SHARE MODE;

-- name: resource_create_renewal
-- via: own
-- params: id u64
INSERT INTO lease_renewal (id)
SELECT id FROM resource WHERE id = :id AND kind = 'optimistic';

-- Unfenced locks do not write this row; this touches it now and then, so that the name is not purged as unused.
-- name: resource_touch
-- via: own
-- params: id u64
UPDATE resource SET update_time = UTC_TIMESTAMP(6) WHERE id = :id AND kind = 'pessimistic' AND status = 'free';

-- A holder frees its lock, whose token is not above one that was seen before: the server has lost commits. The next token is
-- above `seen`.
-- name: resource_raise
-- via: by hand
-- params: seen u64, id u64, version u64, owner text
UPDATE resource
   SET version = GREATEST(version, :seen),
       status = 'free',
       connection_id = 0,
       update_time = UTC_TIMESTAMP(6)
 WHERE {{ours}};
