-- This server's vote on the lease of a name that a quorum of independent servers locks. Such a name has no row of lease_renewal: nobody
-- fences it here, so its holder renews in the name's own row. Each statement that gives the vote, or renews it, has {{votes}} in its WHERE.

-- The member and the name, read before a vote is asked for, and for the reason when none was given. Always one row. `verdict` is of the
-- name; left_us: how long that lasts if nobody changes the row.
-- name: quorum_look
-- params: id u64, name text, owner text
-- columns: kind text(16), verdict text(16), left_us i64, ours u64, version u64, owner_label text(1024), state text(16), abstains_us i64, list text(32), server text(1600), count u64, ttl_most_us u64
SELECT COALESCE(r.kind, ''),
       CASE WHEN r.id IS NULL THEN 'GONE'
            WHEN r.kind <> 'quorum' THEN 'WRONG_KIND'
            WHEN r.status = 'held' AND r.lease_expires_at > UTC_TIMESTAMP(6) THEN 'HELD'
            WHEN NOT {{open(r.)}} THEN 'COOLING'
            WHEN r.status = 'held' THEN 'EXPIRED'
            ELSE 'FREE' END,
       COALESCE(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), GREATEST(COALESCE(r.lease_expires_at, r.not_before),
                                                                    COALESCE(r.not_before, r.lease_expires_at))), 0),
       COALESCE(r.owner = :owner, 0), COALESCE(r.version, 0), COALESCE(r.owner_label, ''),
       {{member_state}}, COALESCE({{abstains_us}}, 0), COALESCE(m.list, ''), {{this_server}}, COALESCE(m.count, 0),
       COALESCE(m.ttl_most_us, 0)
  FROM (SELECT 1 AS one) o
  LEFT JOIN quorum_member m ON m.id = 1
  LEFT JOIN resource r ON r.id = :id AND r.resource_name = :name;

-- Gives the vote to an owner who has none. `least`: the version is this one at least (the owner has its token already, and comes back to a
-- member that lost the vote). `over`: also in place of an owner whose lease has run out.
-- name: quorum_take
-- params: least u64, owner text, label text, ttl_us u64, id u64, name text, over u64, list text, server text
UPDATE resource
   SET version = LAST_INSERT_ID(GREATEST(version + 1, :least)),
       {{granted(0)}}
 WHERE id = :id
   AND resource_name = :name
   AND kind = 'quorum'
   AND (status = 'free' OR (:over <> 0 AND lease_expires_at <= UTC_TIMESTAMP(6)))
   AND {{open}}
   AND {{votes}};

-- Renews the owner's vote, and writes its token: the highest version that the members have given it. With that in this row, no later owner
-- who has this member's vote gets a lower token.
-- name: quorum_renew
-- params: token u64, ttl_us u64, id u64, owner text, list text, server text
UPDATE resource
   SET version = LAST_INSERT_ID(GREATEST(version, :token)),
       lease_expires_at = UTC_TIMESTAMP(6) + INTERVAL :ttl_us MICROSECOND,
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND kind = 'quorum'
   AND status = 'held'
   AND owner = :owner
   AND lease_expires_at > UTC_TIMESTAMP(6)
   AND {{votes}};

-- By owner alone: whatever version the owner was given, also by a request whose reply was lost. A name that was broken opens, since its
-- holder's work has ended.
-- name: quorum_release
-- params: at_least_us u64, id u64, owner text
UPDATE resource
   SET status = 'free',
       not_before = {{cooling}},
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND kind = 'quorum'
   AND owner = :owner
   AND (status = 'held' OR not_before > UTC_TIMESTAMP(6));

-- Taken from its holder by force: see lease_break. `owner` stays: the holder opens the name when its work has ended (quorum_release).
-- name: quorum_break
-- params: at_once u64, seen u64, id u64
UPDATE resource
   SET not_before = IF(:at_once, NULL, lease_expires_at),
       version = :seen + 1,
       status = 'free',
       connection_id = 0,
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND kind = 'quorum'
   AND status = 'held'
   AND version = :seen;

-- By force, before its time; where it was broken only if that is accepted: see lease_open. (A break closes it until the lease's end.)
-- name: quorum_open
-- params: at_once u64, seen u64, id u64
UPDATE resource
   SET not_before = NULL,
       update_time = UTC_TIMESTAMP(6)
 WHERE id = :id
   AND kind = 'quorum'
   AND status = 'free'
   AND version = :seen
   AND not_before > UTC_TIMESTAMP(6)
   AND (:at_once <> 0 OR not_before <> lease_expires_at);

-- ------------------------------------------------------------------------------------------------------------------ the list

-- This server as a member, for a client that makes a quorum or looks at one. `version`: no token that it gave to a quorum is higher.
-- name: member_get
-- columns: state text(16), abstains_us i64, list text(32), number u64, count u64, members text(16000), server text(1600), ttl_most_us u64, durable u64, version u64
SELECT {{member_state}}, COALESCE({{abstains_us}}, 0), COALESCE(m.list, ''), COALESCE(m.number, 0), COALESCE(m.count, 0),
       COALESCE(m.members, ''), {{this_server}}, COALESCE(m.ttl_most_us, 0), {{durable}},
       GREATEST(f.version, (SELECT COALESCE(MAX(r.version), 0) FROM resource r WHERE r.kind = 'quorum'))
  FROM version_floor f
  LEFT JOIN quorum_member m ON m.id = 1
 WHERE f.id = 1;

-- Its first list, or the one that it had and lost. It votes after `abstain_us`. (Error 1062: somebody has given it one meanwhile.)
-- name: member_add
-- params: list text, number u64, count u64, members text, ttl_most_us u64, abstain_us u64
INSERT INTO quorum_member (id, list, number, count, members, server, state, ttl_most_us, votes_from)
VALUES (1, :list, :number, :count, :members, {{this_server}}, 'voting', :ttl_most_us,
        UTC_TIMESTAMP(6) + INTERVAL :abstain_us MICROSECOND);

-- From now on the member gives no vote of that list, and renews none. A request that still found the list open began before now, so the
-- lease that it gave ends within the longest TTL from now.
-- name: member_close
-- params: list text
UPDATE quorum_member
   SET state = 'closed'
 WHERE id = 1
   AND list = :list;

-- The next list, or the same one anew, in place of one that was closed. A caller that comes late matches nothing (`old`).
-- name: member_change
-- params: list text, number u64, count u64, members text, ttl_most_us u64, abstain_us u64, old text
UPDATE quorum_member
   SET list = :list,
       number = :number,
       count = :count,
       members = :members,
       server = {{this_server}},
       state = 'voting',
       ttl_most_us = :ttl_most_us,
       votes_from = UTC_TIMESTAMP(6) + INTERVAL :abstain_us MICROSECOND
 WHERE id = 1
   AND list = :old AND state = 'closed';

-- Raises the names that are here already; names that are made from now on begin at the floor, which was raised before (sql/resource.sql).
-- A transaction that has read the floor before that, and has not committed, has the row of lock_freeze locked: this waits for it.
-- name: member_raise
-- params: version u64
UPDATE lock_freeze f
  STRAIGHT_JOIN resource r
   SET f.frozen_at = f.frozen_at,
       r.version = GREATEST(r.version, :version)
 WHERE f.id = 1
   AND r.kind = 'quorum'
   AND r.version < :version;
