-- The row lock: pessimistic mode. By primary key: a locking read of a missing row
-- or over a secondary index locks more than the row.

-- A read-only server grants the row, too: MySQL to everybody, MariaDB 10.11 to administrators.
-- But somebody else is the primary then. `ticket`: see row_ticket.
-- name: row_lock
-- via: by hand
-- params: id u64
-- columns: name text(1020), fenced u64, read_only u64, ticket text(40)
SELECT resource_name, fenced, {{read_only}}, '' FROM resource_lock WHERE id = :id FOR UPDATE;

-- name: row_try
-- via: by hand
-- params: id u64
-- columns: name text(1020), fenced u64, read_only u64, ticket text(40)
SELECT resource_name, fenced, {{read_only}}, '' FROM resource_lock WHERE id = :id FOR UPDATE NOWAIT;

-- Together with others that ask for it so; nothing is written, and nobody is published.
-- name: row_share
-- via: by hand
-- params: id u64
-- columns: name text(1020), fenced u64, read_only u64, ticket text(40)
SELECT resource_name, fenced, {{read_only}}, '' FROM resource_lock WHERE id = :id
    /*M! LOCK IN SHARE MODE */ /*!80000 FOR SHARE */;

-- name: row_share_try
-- via: by hand
-- params: id u64
-- columns: name text(1020), fenced u64, read_only u64, ticket text(40)
SELECT resource_name, fenced, {{read_only}}, '' FROM resource_lock WHERE id = :id
    /*M! LOCK IN SHARE MODE */ /*!80000 FOR SHARE */ NOWAIT;

-- Of the release. Prepared: it comes as often as row_lock.
-- name: row_commit
COMMIT;

-- Before a name is published for the first time, and committed before that. See row_stale.
-- name: row_fence
-- via: by hand
-- params: id u64
UPDATE resource_lock SET fenced = TRUE WHERE id = :id;

-- Having its row's lock: which version of a dead holder is still published? Not asked for a name that is not
-- `fenced`: a subquery in row_lock, or this, would be a good part of its cost.
-- name: row_stale
-- via: by hand
-- params: id u64
-- columns: version u64
SELECT version FROM resource WHERE id = :id AND kind = 'pessimistic' AND status = 'held';

-- name: row_probe
-- via: by hand
-- params: id u64
-- columns: name text(1020)
SELECT resource_name FROM resource_lock WHERE id = :id FOR UPDATE SKIP LOCKED;

-- Through procedures anybody may call what follows; that somebody published is dead is known to who
-- has the row's lock, and proven by this. Whoever sees it now has the lock, and it is of no use as
-- soon as the row has changed. It is given to nobody else: the procedure looks.
-- name: row_ticket
-- via: by hand
-- params: id u64
-- columns: ticket text(40)
SELECT {{ticket}}
  FROM resource
 WHERE id = :id;

-- On a second connection, in autocommit, while the row lock is held on the first. The
-- usual case: the last holder has put it back.
-- name: row_publish
-- via: own
-- params: owner text, label text, connection_id u64, id u64, name text, ticket text
UPDATE resource
   SET version = LAST_INSERT_ID(version + 1),
       {{published}}
 WHERE id = :id
   AND resource_name = :name
   AND kind = 'pessimistic'
   AND status = 'free'
   AND {{thawed}}
   AND (:ticket = '' OR {{ticket}} = :ticket);

-- The other case: it died. Its row lock is gone, or we would not be here.
-- name: row_publish_over
-- via: own
-- params: seen u64, owner text, label text, connection_id u64, id u64, name text, ticket text
UPDATE resource
   SET version = LAST_INSERT_ID(:seen + 1),
       {{published}}
 WHERE id = :id
   AND resource_name = :name
   AND kind = 'pessimistic'
   AND status = 'held'
   AND version = :seen
   AND {{thawed}}
   AND (:ticket = '' OR {{ticket}} = :ticket);

-- Before the COMMIT that frees the row, so that the next holder finds it free.
-- name: row_unpublish
-- via: own
-- params: id u64, version u64, owner text
UPDATE resource
   SET status = 'free',
       connection_id = 0,
       update_time = UTC_TIMESTAMP(6)
 WHERE {{ours}};

-- We have the row lock and do not publish ourselves: whoever is still published is dead, and
-- a fence with its token must not pass. Waits for a transaction that has fenced it. `seen`: what was
-- published when it was looked at, since this runs on another connection than the row lock is on; in the
-- very transaction that has the lock, procedures say `version`: whatever is there.
-- name: row_end_stale
-- via: own
-- params: seen u64, id u64, ticket text
UPDATE resource
   SET version = :seen + 1,
       status = 'free',
       connection_id = 0,
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND kind = 'pessimistic'
   AND status = 'held'
   AND version = :seen
   AND (:ticket = '' OR {{ticket}} = :ticket);
