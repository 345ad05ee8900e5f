-- The lease; in SQL and in `kind` it is called 'optimistic'. Expiry is decided by the clauses `expiry` and `expired`, by the server's clock alone.
-- UTC_TIMESTAMP(6) is the time at which the statement started.

-- Takes a free lease: one row, one statement. The OK packet carries the new version (LAST_INSERT_ID(expr)). `id` comes from a
-- cache and may be stale, so the name is compared, too. The statement also takes the bell (sql/bell.sql), on this connection,
-- without another round trip. If another connection has the bell, a waiter was woken, and for a second after the ring the row is
-- reserved for that waiter (clause `reserved`); after that, or if the holder did not ring, the row can be taken without the bell.
-- GET_LOCK depends on the row, so it is called only for a row that is free, when all other conditions hold.
-- name: lease_acquire
-- via: own
-- params: owner text, label text, ttl_us u64, id u64, name text, bell text
UPDATE resource
   SET version = LAST_INSERT_ID(version + 1),
       {{granted(IF(COALESCE(IS_USED_LOCK(CONCAT(:bell, id)), 0) = CONNECTION_ID(), CONNECTION_ID(), 0))}}
 WHERE id = :id
   AND resource_name = :name
   AND kind = 'optimistic'
   AND status = 'free'
   AND {{open}}
   AND (GET_LOCK(CONCAT(:bell, id), 0) = 1 OR NOT {{reserved}});

-- For a waiter that has the bell. Beside a free row it may take one that is held, if the holder has waived exactly the version
-- that is found there (lease_waive): a hand-over, with one write to the disk instead of two.
-- name: lease_inherit
-- via: own
-- params: owner text, label text, ttl_us u64, id u64, name text, bell text
UPDATE resource
   SET version = LAST_INSERT_ID(version + 1),
       {{granted(CONNECTION_ID())}}
 WHERE id = :id
   AND resource_name = :name
   AND kind = 'optimistic'
   AND (   (status = 'free' AND {{open}})
        OR (status = 'held' AND guarded IS NULL AND {{thawed}} AND IS_USED_LOCK(
                {{waiver}}
            ) IS NOT NULL));

-- Takes a free lease on a server without bells.
-- name: lease_acquire_quiet
-- via: own
-- params: owner text, label text, ttl_us u64, id u64, name text
UPDATE resource
   SET version = LAST_INSERT_ID(version + 1),
       {{granted(0)}}
 WHERE id = :id
   AND resource_name = :name
   AND kind = 'optimistic'
   AND status = 'free'
   AND {{open}};

-- Takes an expired lease over: a compare-and-swap on the version that was seen. Both rows change, the resource first: a
-- transaction may have it locked (a fence), and a wait for that must not hold the renewal's row, which a batch of renewals needs.
-- name: lease_take_over
-- via: own
-- params: seen u64, owner text, label text, connection_id u64, ttl_us u64, id u64, name text
UPDATE resource r
  STRAIGHT_JOIN lease_renewal l ON l.id = r.id
   SET r.version = LAST_INSERT_ID(:seen + 1),
       {{granted(:connection_id, r.)}},
       l.version = :seen + 1,
       l.expires_at = NULL
 WHERE r.id = :id
   AND r.resource_name = :name
   AND r.kind = 'optimistic'
   AND r.status = 'held'
   AND r.version = :seen
   AND r.guarded IS NULL
   AND {{thawed(r.)}}
   AND {{expired}};

-- All leases of a client in one statement. `leases` is [[id, version, ttl_us, owner], ...]. The resource's row is not read, since
-- a transaction may have it locked (a fence), and an UPDATE over two tables locks both (seen on MariaDB 10.11). It need not be: a
-- statement that takes a lease away raises l.version above its holder's. FORCE INDEX: without it, MariaDB 10.11 and 11.8 read all
-- rows of a small table from the second execution on, and wait for locked rows that are not in the list (of a release in a long
-- transaction).
-- name: lease_renew
-- via: by hand
-- params: leases text
UPDATE JSON_TABLE(:leases, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]',
           version BIGINT UNSIGNED PATH '$[1]',
           ttl_us BIGINT UNSIGNED PATH '$[2]')) AS k
  STRAIGHT_JOIN lease_renewal l FORCE INDEX (PRIMARY) ON l.id = k.id AND l.version <= k.version
   SET l.version = k.version,
       l.expires_at = UTC_TIMESTAMP(6) + INTERVAL k.ttl_us MICROSECOND;

-- Which of them still belong to their holder, renewed or not: a row for each, with its place in the list. A missing row proves
-- nothing: MariaDB (10.11, 11.8) answers OK when a KILL QUERY ends a scan of JSON_TABLE. `asked`: the number of the last ask
-- (sql/ask.sql); 0: none.
-- name: lease_renewed
-- via: own
-- params: leases text
-- columns: place u64, held u64, asked u64
SELECT k.place, r.id IS NOT NULL, COALESCE(a.number, 0)
  FROM JSON_TABLE(:leases, '$[*]' COLUMNS (
           place FOR ORDINALITY,
           id BIGINT UNSIGNED PATH '$[0]',
           version BIGINT UNSIGNED PATH '$[1]',
           owner VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin PATH '$[3]')) AS k
  LEFT JOIN lease_renewal l FORCE INDEX (PRIMARY) ON l.id = k.id AND l.version <= k.version
  LEFT JOIN resource r FORCE INDEX (PRIMARY)
    ON r.id = l.id AND r.version = k.version AND r.owner = k.owner AND r.status = 'held'
  LEFT JOIN lock_ask a FORCE INDEX (PRIMARY) ON a.resource_id = r.id AND a.version = r.version;

-- Waives a version: its holder says that it gives the lease up, in the server's memory, by a named lock (the waiver), and
-- rings. A waiver stays true for ever, since no other holder ever has that version. The waiver's name is made from the row, so
-- that only users that may read the row can make it. `successor`: the connection that was woken, and has the bell now; 0:
-- nobody waits, and the row must be freed. `last`: the waiver that this connection had before. The columns are evaluated in
-- this order. No row: the caller does not hold the lease.
-- name: lease_waive
-- via: own
-- params: last text, bell text, id u64, version u64, owner text
-- columns: waived u64, waiver text(64), unsaid u64, rung u64, successor u64
SELECT COALESCE(GET_LOCK({{waiver}}, 0), 0),
       {{waiver}},
       COALESCE(RELEASE_LOCK(:last), 0),
       COALESCE(RELEASE_LOCK(CONCAT(:bell, id)), 0),
       COALESCE(NULLIF(IS_USED_LOCK(CONCAT(:bell, id)), CONNECTION_ID()), 0)
  FROM resource
 WHERE {{ours}};

-- Frees the lease and rings its bell, in one round trip. The bell is rung before the change is committed: the waiter that is
-- woken waits for the row's lock, and gets it as soon as InnoDB commits, which is before the log is flushed. So one flush serves
-- both. A holder that got the bell only after the lease has connection_id 0; having rung it, it makes that 1 (clause `reserved`).
-- `keep`: its registered sessions stay to be ended (sql/guard.sql).
-- name: lease_release
-- via: own
-- params: at_least_us u64, keep u64, id u64, version u64, owner text, bell text
UPDATE resource
   SET status = 'free',
       connection_id = IF(COALESCE(RELEASE_LOCK(CONCAT(:bell, id)), 0) = 1, GREATEST(connection_id, 1), connection_id),
       guarded = IF(:keep, guarded, NULL),
       not_before = {{cooling}},
       update_time = UTC_TIMESTAMP(6)
 WHERE {{ours}};

-- The same on a connection without the bell. If nobody has the bell, or a busy connection of our own has it (`own`, or `due` from
-- earlier holds, "17,23"), no waiter was woken, and connection_id is 0. Otherwise a waiter was woken, and will come.
-- name: lease_release_apart
-- via: own
-- params: at_least_us u64, keep u64, id u64, version u64, owner text, bell text, own u64, due text
UPDATE resource
   SET status = 'free',
       connection_id = IF(COALESCE(IS_USED_LOCK(CONCAT(:bell, id)), 0) IN (0, :own)
                          OR FIND_IN_SET(IS_USED_LOCK(CONCAT(:bell, id)), :due),
                          0, GREATEST(connection_id, 1)),
       guarded = IF(:keep, guarded, NULL),
       not_before = {{cooling}},
       update_time = UTC_TIMESTAMP(6)
 WHERE {{ours}};

-- Frees the lease on a server without bells.
-- name: lease_release_quiet
-- via: own
-- params: at_least_us u64, keep u64, id u64, version u64, owner text
UPDATE resource
   SET status = 'free',
       connection_id = 0,
       guarded = IF(:keep, guarded, NULL),
       not_before = {{cooling}},
       update_time = UTC_TIMESTAMP(6)
 WHERE {{ours}};

-- Frees an expired lease without taking it (for an optimistic section).
-- name: lease_expire
-- via: own
-- params: seen u64, id u64
UPDATE resource r
  STRAIGHT_JOIN lease_renewal l ON l.id = r.id
   SET r.not_before = NULL,
       {{taken_away(:seen)}}
 WHERE r.id = :id
   AND r.version = :seen
   AND {{dead_lease}};

-- Breaks a lease: its token is void at once, and its holder is told at its next renewal. Unless `at_once`, nobody can acquire the
-- lease before the time at which it would have expired, when the holder's work has ended. (not_before is set first: MariaDB
-- evaluates from left to right.) The renewal's row gets the same time, which tells a break from at_least (clause broken).
-- name: lease_break
-- params: at_once u64, seen u64, id u64
UPDATE resource r
  STRAIGHT_JOIN lease_renewal l ON l.id = r.id
   SET r.not_before = IF(:at_once, NULL,
                         {{expiry(:seen)}}),
       {{given_to_nobody(:seen)}},
       l.expires_at = IF(:at_once, NULL,
                         {{expiry(:seen)}}),
       l.version = :seen + 1
 WHERE r.id = :id
   AND r.kind = 'optimistic'
   AND r.status = 'held'
   AND r.version = :seen;

-- The holder of a broken lease has ended its work: opens the lease. (A break leaves the owner, and raises the version by one.)
-- Its sessions may still work.
-- name: lease_reopen
-- via: own
-- params: at_least_us u64, id u64, version u64, owner text
UPDATE resource
   SET not_before = {{cooling}},
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND version = :version + 1
   AND owner = :owner
   AND status = 'free'
   AND not_before > UTC_TIMESTAMP(6);

-- An operator opens a cooling lease before its time. After a break its old holder may still work; so that needs `at_once`.
-- name: lease_open
-- params: at_once u64, seen u64, id u64
UPDATE resource r
  STRAIGHT_JOIN lease_renewal l ON l.id = r.id
   SET r.not_before = NULL,
       r.update_time = UTC_TIMESTAMP(6)
 WHERE r.id = :id
   AND r.kind = 'optimistic'
   AND r.status = 'free'
   AND r.version = :seen
   AND r.not_before > UTC_TIMESTAMP(6)
   AND (:at_once <> 0 OR NOT ({{broken}}));
