-- An item by its id and token, for a process other than the one that took it. A row as long as the name is there.
-- name: queue_held
-- params: item u64, token u64, name text
-- columns: kind text(16), queue u64, found u64, held u64, lane u64, attempts u64, attempts_most u64, owner text(63), item_key text(1024), group_key text(1020), left_us i64
SELECT r.kind, r.id, i.id IS NOT NULL, COALESCE(i.token = :token AND i.taken = 1 AND i.state = 'alive', 0), COALESCE(i.lane, 0), COALESCE(i.attempts, 0), COALESCE(i.attempts_most, 0),
       COALESCE(i.owner, ''), COALESCE(i.item_key, ''), COALESCE(i.group_key, ''),
       COALESCE(TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), i.ready_at), 0)
  FROM resource r
  LEFT JOIN queue_item i FORCE INDEX (PRIMARY)
    ON i.id = :item AND i.queue_id = r.id
 WHERE r.resource_name = :name;
