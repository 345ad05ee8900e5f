-- Lists of locks, and what the doctor asks. Without `open`, an owner's id is shown as a hash: whoever knows the id can release.

-- `begin`: the beginning of the names; '' for all. No LIKE: its range ends before characters beyond the BMP.
-- name: list_names
-- via: own
-- params: after text, begin text, all u64, limit u64, open u64
-- columns: id u64, name text(1020), kind text(16), status text(8), version u64, owner text(64), owner_label text(1024), connection_id u64, acquired_at text(32), expires_at text(32), cooling_until text(32), held_us i64, remaining_us i64, cooling_us i64, description text(4096), holds u64, lost u64, taken_over u64, waited_us u64, waited_most_us u64, total_us u64, most_us u64, first_at text(32), last_at text(32), readers u64, slots u64, slots_held u64, count u64, down u64, value text(4096), asked_at text(32), asked_by text(1024), asked_why text(1024), stop_by text(32), asked_us i64, period_start text(32), period_end text(32), period_state text(16), queue text(128), failed u64, refused u64, succeeded_at text(32), succeeded_age_us i64, succeeded_us i64, failed_at text(32), failed_age_us i64, failed_exit i64, gap_us i64, gap_part u64, frozen_until text(32), frozen_by text(1024), frozen_why text(1024), sessions text(1024)
SELECT {{shown}}
  FROM ({{chosen}}
         WHERE r.resource_name > :after
           AND r.resource_name >= :begin
           AND LOCATE(:begin, r.resource_name) = 1
           AND (:all <> 0 OR (r.status = 'held' AND (r.kind <> 'latch' OR {{come_so_far}} < r.slots))
                OR r.not_before > UTC_TIMESTAMP(6) OR {{readers}} > 0 OR {{slots_held}} > 0
                OR (r.kind = 'queue' AND (SELECT i.id FROM queue_item i FORCE INDEX (by_ready) WHERE i.queue_id = r.id LIMIT 1) > 0))
         ORDER BY r.resource_name
         LIMIT :limit) v
 ORDER BY v.resource_name;

-- name: list_name
-- via: own
-- params: name text, open u64
-- columns: id u64, name text(1020), kind text(16), status text(8), version u64, owner text(64), owner_label text(1024), connection_id u64, acquired_at text(32), expires_at text(32), cooling_until text(32), held_us i64, remaining_us i64, cooling_us i64, description text(4096), holds u64, lost u64, taken_over u64, waited_us u64, waited_most_us u64, total_us u64, most_us u64, first_at text(32), last_at text(32), readers u64, slots u64, slots_held u64, count u64, down u64, value text(4096), asked_at text(32), asked_by text(1024), asked_why text(1024), stop_by text(32), asked_us i64, period_start text(32), period_end text(32), period_state text(16), queue text(128), failed u64, refused u64, succeeded_at text(32), succeeded_age_us i64, succeeded_us i64, failed_at text(32), failed_age_us i64, failed_exit i64, gap_us i64, gap_part u64, frozen_until text(32), frozen_by text(1024), frozen_why text(1024), sessions text(1024)
SELECT {{shown}}
  FROM ({{chosen}}
         WHERE r.resource_name = :name) v;

-- The engines and keys that client_open checks. `ours`: the table's comment says that rowlock made it.
-- name: schema_shape
-- via: own
-- columns: table_name text(256), engine text(256), primary_key text(1024), name_unique u64, ours u64
SELECT t.table_name, COALESCE(t.engine, ''), COALESCE(k.primary_key, ''), COALESCE(k.name_unique, 0),
       t.table_comment LIKE 'rowlock: %'
  FROM information_schema.tables t
  LEFT JOIN (SELECT s.table_name AS of_table,
                    GROUP_CONCAT(IF(s.index_name = 'PRIMARY', s.column_name, NULL)
                                 ORDER BY s.seq_in_index) AS primary_key,
                    SUM(s.non_unique = 0 AND s.index_name <> 'PRIMARY'
                        AND s.seq_in_index = 1 AND s.column_name = 'resource_name') AS name_unique
               FROM information_schema.statistics s
              WHERE s.table_schema = DATABASE()
                AND s.table_name IN ({{lock_tables}})
              GROUP BY s.table_name) k ON k.of_table = t.table_name
 WHERE t.table_schema = DATABASE()
   AND t.table_name IN ({{lock_tables}});

-- Refused to a user that may not read the table; information_schema would show such a user nothing.
-- name: schema_see
-- kind: text
-- params: table name
-- columns: one text(8)
SELECT 1 FROM :table LIMIT 0;
