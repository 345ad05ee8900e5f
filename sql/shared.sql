-- Shared leases, for readers. A reader is a row of lock_grant, and enters only while its resource is `shared` and has no next
-- writer. A writer first becomes the next writer: from then on no reader enters, and their number only falls. When the writer
-- sees none left, it takes the name, and only then owner and version change.
--
-- No reader is overlooked: a reader has the resource's row locked in share mode until its own row is committed, so a writer that
-- closes the name waits for that, and reads the readers afterwards.

-- A reader enters: one row, one statement, one commit. Repeated with the same owner, after a lost reply, it finds its own row,
-- and has entered. The OK packet carries the token.
-- name: shared_enter
-- via: own
-- params: owner text, label text, ttl_us u64, id u64, name text
INSERT INTO lock_grant (resource_id, owner, owner_label, version, acquired_at, expires_at)
SELECT r.id, :owner, :label, LAST_INSERT_ID(r.version), UTC_TIMESTAMP(6),
       UTC_TIMESTAMP(6) + INTERVAL :ttl_us MICROSECOND
  FROM resource r
 WHERE r.id = :id
   AND r.resource_name = :name
   AND r.kind = 'optimistic'
   AND r.status = 'shared'
   AND r.next_owner = ''
   AND {{thawed(r.)}}
  LOCK IN SHARE MODE
    ON DUPLICATE KEY UPDATE
       version = r.version,
       expires_at = UTC_TIMESTAMP(6) + INTERVAL :ttl_us MICROSECOND;

-- For the first reader: opens a name that is free, or whose next writer has expired. `turn`: it is the asker's turn; otherwise a
-- free name may be reserved for the waiter that was woken, and has the bell. (A token is above 0.)
-- name: shared_open
-- via: own
-- params: turn u64, bell text, id u64, name text
UPDATE resource
   SET version = GREATEST(version, 1),
       status = 'shared',
       connection_id = 0,
       {{no_next}},
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND resource_name = :name
   AND kind = 'optimistic'
   AND (   (status = 'free' AND {{open}}
            AND (:turn <> 0 OR NOT {{reserved}} OR IS_USED_LOCK(CONCAT(:bell, id)) IS NULL))
        OR (status = 'shared' AND {{drain_over}}));

-- After a lost reply: whether this owner has entered.
-- name: shared_token
-- via: own
-- params: id u64, owner text
-- columns: version u64
SELECT version
  FROM lock_grant
 WHERE resource_id = :id
   AND owner = :owner
   AND version <> 0
   AND expires_at > UTC_TIMESTAMP(6);

-- name: shared_leave
-- via: own
-- params: id u64, version u64, owner text
DELETE FROM lock_grant
 WHERE resource_id = :id
   AND owner = :owner
   AND version = :version;

-- As lease_renew. An expired row may be deleted by anybody, and counts as gone.
-- name: shared_renew
-- via: own
-- params: leases text
UPDATE JSON_TABLE(:leases, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]',
           version BIGINT UNSIGNED PATH '$[1]',
           ttl_us BIGINT UNSIGNED PATH '$[2]',
           owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin PATH '$[3]')) AS k
  STRAIGHT_JOIN lock_grant g FORCE INDEX (PRIMARY)
    ON g.resource_id = k.id AND g.owner = k.owner AND g.version = k.version
   SET g.expires_at = UTC_TIMESTAMP(6) + INTERVAL k.ttl_us MICROSECOND
 WHERE g.expires_at > UTC_TIMESTAMP(6)
   AND k.ttl_us BETWEEN 1 AND 86400000000;

-- As lease_renewed.
-- name: shared_renewed
-- via: own
-- params: leases text
-- columns: place u64, held u64, asked u64
SELECT k.place, g.owner IS NOT NULL, COALESCE(a.number, 0)
  FROM JSON_TABLE(:leases, '$[*]' COLUMNS (
           place FOR ORDINALITY,
           id BIGINT UNSIGNED PATH '$[0]',
           version BIGINT UNSIGNED PATH '$[1]',
           owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin PATH '$[3]')) AS k
  LEFT JOIN lock_grant g FORCE INDEX (PRIMARY)
    ON g.resource_id = k.id AND g.owner = k.owner AND g.version = k.version
   AND g.expires_at > UTC_TIMESTAMP(6)
  LEFT JOIN lock_ask a FORCE INDEX (PRIMARY)
    ON a.resource_id = g.resource_id AND a.version = g.version AND a.asked_at >= g.acquired_at;

-- ---------------------------------------------------------------------------------- the next writer

-- The asker becomes the next writer: no reader enters any more. If it expires, another writer may replace it. `seen`: no writer
-- has come since the look. `turn`: it is the asker's turn; otherwise it may not overtake waiters. The version stays as it is: it
-- is set so that LAST_INSERT_ID() tells whether a procedure that was stopped has changed the row.
-- name: shared_close
-- via: own
-- params: turn u64, bell text, seen u64, owner text, label text, ttl_us u64, id u64, name text
UPDATE resource
   SET version = LAST_INSERT_ID(version),
       next_owner = :owner,
       next_label = :label,
       next_expires_at = UTC_TIMESTAMP(6) + INTERVAL :ttl_us MICROSECOND
 WHERE id = :id
   AND resource_name = :name
   AND kind = 'optimistic'
   AND version = :seen
   AND status = 'shared'
   AND ({{drain_over}} OR next_owner = :owner)
   AND (:turn <> 0 OR IS_USED_LOCK(CONCAT(:bell, id)) IS NULL);

-- The readers that are left. There is always a row: with a reader, or without one if none is left. No row: the statement was
-- stopped. `closed`: for this owner, so that nobody can have entered.
-- name: shared_reader
-- via: own
-- params: version u64, owner text, id u64
-- columns: closed u64, reader text(64), label text(1024), left_us i64
SELECT r.version = :version AND r.status = 'shared' AND r.next_owner = :owner,
       COALESCE(g.owner, ''), COALESCE(g.owner_label, ''),
       COALESCE(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), g.expires_at), 0)
  FROM resource r
  LEFT JOIN lock_grant g ON g.resource_id = r.id AND g.owner <> :owner
 WHERE r.id = :id
 LIMIT 1;

-- Deletes expired readers, which cannot be renewed any more.
-- name: shared_expire
-- via: own
-- params: id u64
DELETE FROM lock_grant
 WHERE resource_id = :id
   AND expires_at <= UTC_TIMESTAMP(6);

-- Takes the name for the writer, when no reader is left and none can have entered. (The writer has looked; the statement looks
-- again, in case the close came late, when readers had entered again.)
-- name: shared_take
-- via: own
-- params: seen u64, owner text, label text, connection_id u64, ttl_us u64, id u64, name text
UPDATE resource r
  LEFT JOIN lock_grant g FORCE INDEX (PRIMARY) ON g.resource_id = r.id AND g.owner <> :owner
   SET r.version = LAST_INSERT_ID(:seen + 1),
       {{granted(:connection_id, r.)}},
       {{no_next(r.)}}
 WHERE r.id = :id
   AND r.resource_name = :name
   AND r.status = 'shared'
   AND r.version = :seen
   AND r.next_owner = :owner
   AND g.owner IS NULL;

-- The next writer stops waiting: the readers keep the name, and others may enter again.
-- name: shared_reopen
-- via: own
-- params: id u64, owner text
UPDATE resource
   SET {{no_next}}
 WHERE id = :id
   AND status = 'shared'
   AND next_owner = :owner;

-- Frees a closed name without readers, for an optimistic section.
-- name: shared_free
-- via: own
-- params: owner text, id u64
UPDATE resource r
  LEFT JOIN lock_grant g FORCE INDEX (PRIMARY) ON g.resource_id = r.id
   SET r.status = 'free',
       {{no_next(r.)}},
       r.update_time = UTC_TIMESTAMP(6)
 WHERE r.id = :id
   AND r.status = 'shared'
   AND r.next_owner = :owner
   AND g.owner IS NULL;

-- Turns a writer into a reader: first it gets a reader's row; then others may enter.
-- name: shared_join
-- via: own
-- params: label text, ttl_us u64, id u64, version u64, owner text
INSERT INTO lock_grant (resource_id, owner, owner_label, version, acquired_at, expires_at)
SELECT r.id, r.owner, :label, r.version, r.acquired_at, UTC_TIMESTAMP(6) + INTERVAL :ttl_us MICROSECOND
  FROM resource r
 WHERE r.id = :id
   AND r.version = :version
   AND r.owner = :owner
   AND r.status = 'held'
  LOCK IN SHARE MODE
    ON DUPLICATE KEY UPDATE
       version = r.version,
       expires_at = UTC_TIMESTAMP(6) + INTERVAL :ttl_us MICROSECOND;

-- name: shared_begin
-- via: own
-- params: id u64, version u64, owner text
UPDATE resource
   SET status = 'shared',
       connection_id = 0,
       guarded = NULL,
       {{no_next}},
       update_time = UTC_TIMESTAMP(6)
 WHERE {{ours}};

-- A break: the tokens of all readers are void at once, for fences by the resource's version, for renewals by the reader's. Each
-- reader is told at its next renewal. Until then, or until it would have expired, its row keeps writers out, unless the break is
-- `at_once` and deletes the rows. Other readers may enter.
-- name: shared_break
-- params: seen u64, id u64
UPDATE resource
   SET version = :seen + 1,
       {{no_next}},
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND version = :seen
   AND status = 'shared';

-- name: shared_break_readers
-- params: id u64, seen u64
UPDATE lock_grant
   SET version = 0
 WHERE resource_id = :id
   AND version <= :seen;

-- name: shared_drop_readers
-- params: id u64, seen u64
DELETE FROM lock_grant
 WHERE resource_id = :id
   AND version <= :seen;

-- A broken reader has ended its work.
-- name: shared_ended
-- via: own
-- params: id u64, owner text
DELETE FROM lock_grant
 WHERE resource_id = :id
   AND owner = :owner
   AND version = 0;
