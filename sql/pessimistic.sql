-- The row lock: pessimistic mode. By primary key: a locking read of a missing row
-- or over a secondary index locks more than the row.

-- A read-only server grants the row lock, too (MySQL to everybody, MariaDB 10.11 to administrators), though another server is the
-- primary then. `ticket`: see row_ticket.
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

-- Shared with others that ask for it so. Nothing is written, and no holder is published.
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

-- For the release. Prepared, since it runs as often as row_lock.
-- name: row_commit
COMMIT;

-- Committed before a name is published for the first time. See row_stale.
-- name: row_fence
-- via: by hand
-- params: id u64
UPDATE resource_lock SET fenced = TRUE WHERE id = :id;

-- Run under the row's lock: which version of a dead holder is still published. Not run for a name that is not `fenced`, since
-- this, or a subquery in row_lock, would add much to the cost of row_lock.
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

-- Anybody may call the next statements through procedures; but only a session with the row's lock knows that a published holder
-- is dead. The ticket proves to them that the caller had the lock: its procedure gives it to no other session, and it is void as
-- soon as the row changes.
-- name: row_ticket
-- via: by hand
-- params: id u64
-- columns: ticket text(40)
SELECT {{ticket}}
  FROM resource
 WHERE id = :id;

-- Publishes on a second connection, in autocommit, while the first one has the row lock. The usual case: the last holder's
-- publication has ended.
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

-- The other case: the last holder has died; its row lock has ended, since we have it.
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

-- Ends the publication before the COMMIT that frees the row, so that the next holder finds it ended.
-- name: row_unpublish
-- via: own
-- params: id u64, version u64, owner text
UPDATE resource
   SET status = 'free',
       connection_id = 0,
       update_time = UTC_TIMESTAMP(6)
 WHERE {{ours}};

-- For a holder that does not publish itself: a holder that is still published is dead, since we have the row lock, and a fence
-- with its token must not pass. Waits for a transaction that has fenced it. `seen`: the version that was published at the look,
-- since this runs on another connection than the row lock; in the transaction with the row lock, procedures pass `version`.
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
