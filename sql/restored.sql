-- After the schema was restored from a backup (src/admin/restored.c). Tokens that were given since the backup are unknown here,
-- and may still be in use. So every version and every item's id rises by more than can have been given, and held locks become
-- free. One transaction, during which nobody makes a name (freeze_lock).

-- Fails (1205, or 3572) if a session has rows locked, since somebody is at work then.
-- name: restored_lock
-- columns: names u64
SELECT COUNT(*) FROM resource FOR UPDATE NOWAIT;

-- name: restored_lock_rows
-- columns: names u64
SELECT COUNT(*) FROM resource_lock FOR UPDATE NOWAIT;

-- How many locks are held or items in flight, by the server's clock, one of them, and when the last one expires. And how many
-- rows there are.
-- name: restored_look
-- columns: live u64, name text(1020), left_us i64, held u64, names u64, renewals u64, items u64
SELECT COUNT(x.name), COALESCE(MAX(x.name), ''), COALESCE(MAX(x.left_us), 0),
       (SELECT COUNT(*) FROM resource h WHERE h.status <> 'free'),
       (SELECT COUNT(*) FROM resource n), (SELECT COUNT(*) FROM lease_renewal a), (SELECT COUNT(*) FROM queue_item q)
  FROM (SELECT r.resource_name AS name, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), {{expiry(r.version)}}) AS left_us
          FROM resource r
          LEFT JOIN lease_renewal l ON l.id = r.id
         WHERE r.status = 'held'
           AND r.kind IN ('optimistic', 'quorum')
        UNION ALL
        SELECT r.resource_name, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), g.expires_at)
          FROM lock_grant g
          JOIN resource r ON r.id = g.resource_id
        UNION ALL
        SELECT r.resource_name, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), i.ready_at)
          FROM queue_item i
          JOIN resource r ON r.id = i.queue_id
         WHERE i.state = 'alive'
           AND i.taken = 1) x
 WHERE x.left_us > 0;

-- A latch's earlier generations become unknown, and its present one is broken.
-- name: restored_names
UPDATE resource
   SET version = version + {{restored_by}},
       status = 'free',
       connection_id = 0,
       not_before = NULL,
       broken = IF(kind = 'latch' AND acquired_at IS NOT NULL, ~0, broken),
       {{no_next}},
       update_time = UTC_TIMESTAMP(6);

-- name: restored_renewals
UPDATE lease_renewal SET version = version + {{restored_by}}, expires_at = NULL;

-- name: restored_floor
UPDATE version_floor SET version = version + {{restored_by}} WHERE id = 1;

-- name: restored_items
UPDATE queue_item SET token = token + {{restored_by}};

-- These two move the next item's id above all that were given, since an application may have kept one.
-- name: restored_id_put
INSERT INTO queue_item (id, queue_id, state, lane, ready_at, attempts_most, item_key, created_at, payload)
SELECT COALESCE(MAX(i.id), 0) + {{restored_by}}, 0, 'dead', 9, UTC_TIMESTAMP(6), 1, '.restored', UTC_TIMESTAMP(6), '' FROM queue_item i;

-- name: restored_id_drop
DELETE FROM queue_item WHERE queue_id = 0;

-- This member may have forgotten votes, so it gives none until it has rejoined (member_state is `strange`).
-- name: restored_member
UPDATE quorum_member SET server = '' WHERE id = 1;
