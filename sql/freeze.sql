-- Freezes: nobody can acquire the names for a while. Holders keep their locks, and finish. One transaction: lock, put or end the
-- freeze, thaw the names, and freeze those again that match another freeze.

-- The session that has this row locked is the only one that changes freezes. A session that makes a name has it locked in share
-- mode (resource_create).
-- name: freeze_lock
-- columns: id u64
SELECT id FROM lock_freeze WHERE id = 1 FOR UPDATE;

-- `until_us`: since 1970; 0: until it is thawed. `for_us`: from now on; 0: `until_us` counts.
-- name: freeze_put
-- params: begin text, is_prefix u64, label text, reason text, until_us u64, for_us u64
INSERT INTO lock_freeze (pattern, is_prefix, owner_label, reason, frozen_at, until_at)
VALUES ({{freeze_pattern(:begin, :is_prefix)}}, :is_prefix <> 0, :label, :reason, UTC_TIMESTAMP(6), {{frozen_until(:until_us, :for_us)}})
    ON DUPLICATE KEY UPDATE
       owner_label = :label,
       reason = :reason,
       frozen_at = UTC_TIMESTAMP(6),
       until_at = {{frozen_until(:until_us, :for_us)}};

-- Ends a freeze. Its row stays, for the next freeze of that pattern.
-- name: freeze_end
-- params: begin text, is_prefix u64
UPDATE lock_freeze
   SET until_at = UTC_TIMESTAMP(6)
 WHERE id <> 1
   AND pattern = {{freeze_pattern(:begin, :is_prefix)}}
   AND is_prefix = (:is_prefix <> 0)
   AND until_at > UTC_TIMESTAMP(6);

-- Walks the primary key, in which InnoDB does not wait for locked rows that do not match (READ COMMITTED). In the shorter range
-- of the name's index it would wait for each row, and for the one behind, which a fence of another name may have locked.
-- name: freeze_thaw
-- params: begin text, is_prefix u64
UPDATE resource r FORCE INDEX (PRIMARY)
   SET r.frozen_until = NULL
 WHERE r.frozen_until IS NOT NULL
   AND {{frozen_name(r.resource_name, :begin, :is_prefix)}};

-- Freezes that have not ended.
-- name: freeze_list
-- columns: begin text(1020), is_prefix u64, label text(1024), reason text(1024), frozen_at text(32), until_at text(32), since_us i64, left_us i64
SELECT {{freeze_begin(f.)}}, f.is_prefix, f.owner_label, f.reason, f.frozen_at,
       IF(f.until_at >= '9999-01-01', '', CAST(f.until_at AS CHAR)),
       TIMESTAMPDIFF(MICROSECOND, f.frozen_at, UTC_TIMESTAMP(6)),
       IF(f.until_at >= '9999-01-01', -1, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), f.until_at))
  FROM lock_freeze f
 WHERE f.id <> 1
   AND f.until_at > UTC_TIMESTAMP(6)
 ORDER BY f.pattern;

-- Of the names that were thawed, since `changed` matches them, freezes those that this freeze matches. Of several freezes, the
-- one that ends last counts. `until`: as freeze_list returns it.
-- name: freeze_mark
-- params: until text, changed text, changed_is_prefix u64, begin text, is_prefix u64
UPDATE resource r FORCE INDEX (PRIMARY)
   SET r.frozen_until = GREATEST(COALESCE(r.frozen_until, '1970-01-01'), IF(:until = '', '9999-12-31', :until))
 WHERE {{frozen_name(r.resource_name, :changed, :changed_is_prefix)}}
   AND {{frozen_name(r.resource_name, :begin, :is_prefix)}}
   AND r.kind IN ('optimistic', 'pessimistic', 'slots');

-- How many names are read and how many written, from which the time limit follows. Run before the transaction.
-- name: freeze_work
-- params: begin text, is_prefix u64
-- columns: names u64, matching u64
SELECT COUNT(*), COALESCE(SUM({{frozen_name(r.resource_name, :begin, :is_prefix)}}), 0)
  FROM resource r;

-- How many names the freeze matches, and how many of them are held.
-- name: freeze_count
-- params: begin text, is_prefix u64
-- columns: names u64, held u64
SELECT COUNT(*), COALESCE(SUM(r.status <> 'free'), 0)
  FROM resource r
 WHERE {{frozen_name(r.resource_name, :begin, :is_prefix)}}
   AND r.kind IN ('optimistic', 'pessimistic', 'slots');
