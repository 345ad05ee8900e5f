-- The history.

-- Many at once: `events` is a JSON array of objects, every member given, absent numbers as null. `age_us` is how long ago it
-- happened, by the client's monotonic clock: no client's wall clock goes into the history. Labels end with `login` (through
-- procedures: the caller's login), and no event is older than `oldest_us` (an older one would make the sweeper delete all events
-- before it).
-- name: event_add_many
-- via: by hand
-- params: events text, login text, oldest_us u64
INSERT INTO lock_event (resource_name, kind, event, version, owner, owner_label,
                        happened_at, waited_ms, held_ms, exit_status, detail)
SELECT e.name, e.kind, e.event, e.version, e.owner,
       CONCAT(LEFT(e.label, 255 - CHAR_LENGTH(:login)), :login),
       UTC_TIMESTAMP(6) - INTERVAL LEAST(e.age_us, :oldest_us) MICROSECOND,
       e.waited_ms, e.held_ms, e.exit_status, e.detail
  FROM JSON_TABLE(:events, '$[*]' COLUMNS (
           ord FOR ORDINALITY,
           name VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.name',
           kind VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.kind',
           event VARCHAR(16) CHARACTER SET utf8mb4 PATH '$.event',
           version BIGINT UNSIGNED PATH '$.version',
           owner VARCHAR(63) CHARACTER SET utf8mb4 PATH '$.owner',
           label VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.label',
           age_us BIGINT UNSIGNED PATH '$.age_us',
           waited_ms BIGINT PATH '$.waited_ms',
           held_ms BIGINT PATH '$.held_ms',
           exit_status INT PATH '$.exit_status',
           detail VARCHAR(600) CHARACTER SET utf8mb4 PATH '$.detail')) AS e
 ORDER BY e.ord;

-- Adds to the totals of names, many at once: [[id, holds, lost, taken_over, waited_us, waited_most_us, held_us, held_most_us,
-- failed, refused, ok_age_us, ok_us, bad_age_us, bad_exit, gap_us, gap_part], ...], each id once; only names that still exist.
-- `ok_age_us`: how long ago the last success was, by the client's monotonic clock; null: there was none. Rows are written in one
-- order, so that two clients do not deadlock. The longest gap is that of the last day (UTC) with a hold. The limits keep invented
-- numbers from spoiling the sums. (A purge in between leaves a row that nobody reads.)
-- name: total_add_many
-- via: own
-- params: totals text
INSERT INTO lock_total (id, holds, lost, taken_over, waited_us, waited_most_us, held_us, held_most_us,
                        first_at, last_at, failed, refused, succeeded_at, succeeded_us, failed_at, failed_exit, gap_us, gap_part)
SELECT r.id, LEAST(t.holds, 1000000000000000), LEAST(t.lost, 1000000000000000),
       LEAST(t.taken_over, 1000000000000000), LEAST(t.waited_us, 1000000000000000),
       LEAST(t.waited_most_us, 1000000000000000), LEAST(t.held_us, 1000000000000000),
       LEAST(t.held_most_us, 1000000000000000), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6),
       LEAST(t.failed, 1000000000000000), LEAST(t.refused, 1000000000000000),
       {{ago(t.ok_age_us)}}, LEAST(t.ok_us, 1000000000000000),
       {{ago(t.bad_age_us)}}, t.bad_exit, LEAST(t.gap_us, 1000000000000000), LEAST(t.gap_part, 1000000)
  FROM JSON_TABLE(:totals, '$[*]' COLUMNS (
           id BIGINT UNSIGNED PATH '$[0]',
           holds BIGINT UNSIGNED PATH '$[1]',
           lost BIGINT UNSIGNED PATH '$[2]',
           taken_over BIGINT UNSIGNED PATH '$[3]',
           waited_us BIGINT UNSIGNED PATH '$[4]',
           waited_most_us BIGINT UNSIGNED PATH '$[5]',
           held_us BIGINT UNSIGNED PATH '$[6]',
           held_most_us BIGINT UNSIGNED PATH '$[7]',
           failed BIGINT UNSIGNED PATH '$[8]',
           refused BIGINT UNSIGNED PATH '$[9]',
           ok_age_us BIGINT UNSIGNED PATH '$[10]',
           ok_us BIGINT UNSIGNED PATH '$[11]',
           bad_age_us BIGINT UNSIGNED PATH '$[12]',
           bad_exit INT PATH '$[13]',
           gap_us BIGINT UNSIGNED PATH '$[14]',
           gap_part BIGINT UNSIGNED PATH '$[15]')) AS t
  STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = t.id
 ORDER BY r.id
    ON DUPLICATE KEY UPDATE
       holds = LEAST(lock_total.holds, 4000000000000000000) + LEAST(t.holds, 1000000000000000),
       lost = LEAST(lock_total.lost, 4000000000000000000) + LEAST(t.lost, 1000000000000000),
       taken_over = LEAST(lock_total.taken_over, 4000000000000000000) + LEAST(t.taken_over, 1000000000000000),
       waited_us = LEAST(lock_total.waited_us, 4000000000000000000) + LEAST(t.waited_us, 1000000000000000),
       waited_most_us = GREATEST(lock_total.waited_most_us, LEAST(t.waited_most_us, 1000000000000000)),
       held_us = LEAST(lock_total.held_us, 4000000000000000000) + LEAST(t.held_us, 1000000000000000),
       held_most_us = GREATEST(lock_total.held_most_us, LEAST(t.held_most_us, 1000000000000000)),
       failed = LEAST(lock_total.failed, 4000000000000000000) + LEAST(t.failed, 1000000000000000),
       refused = LEAST(lock_total.refused, 4000000000000000000) + LEAST(t.refused, 1000000000000000),
       succeeded_us = IF({{newer(t.ok_age_us, lock_total.succeeded_at)}}, LEAST(t.ok_us, 1000000000000000), lock_total.succeeded_us),
       succeeded_at = IF({{newer(t.ok_age_us, lock_total.succeeded_at)}}, {{ago(t.ok_age_us)}}, lock_total.succeeded_at),
       failed_exit = IF({{newer(t.bad_age_us, lock_total.failed_at)}}, t.bad_exit, lock_total.failed_exit),
       failed_at = IF({{newer(t.bad_age_us, lock_total.failed_at)}}, {{ago(t.bad_age_us)}}, lock_total.failed_at),
       gap_us = IF(t.gap_part > lock_total.gap_part OR {{not_today(lock_total.last_at)}}, LEAST(t.gap_us, 1000000000000000), lock_total.gap_us),
       gap_part = GREATEST(IF({{not_today(lock_total.last_at)}}, 0, lock_total.gap_part), LEAST(t.gap_part, 1000000)),
       last_at = UTC_TIMESTAMP(6);

-- The newest events, by time: clients write their events late, so ids are not in that order. `begin`: as in list_names; `event`:
-- words separated by commas, '': all; `since_us`: 0: all.
-- name: event_list
-- params: begin text, event text, failed u64, since_us u64, limit u64
-- columns: id u64, name text(1020), kind text(16), event text(16), version u64, owner text(64), owner_label text(1024), happened_at text(32), waited_ms i64, held_ms i64, exit_status i64, detail text(2400)
SELECT e.*
  FROM (SELECT {{event}}
          FROM lock_event
         WHERE resource_name >= :begin
           AND LOCATE(:begin, resource_name) = 1
           AND {{event_wanted}}
         ORDER BY id DESC
         LIMIT :limit) AS e
 ORDER BY e.happened_at, e.id;

-- name: event_list_of
-- params: name text, event text, failed u64, since_us u64, limit u64
-- columns: id u64, name text(1020), kind text(16), event text(16), version u64, owner text(64), owner_label text(1024), happened_at text(32), waited_ms i64, held_ms i64, exit_status i64, detail text(2400)
SELECT e.*
  FROM (SELECT {{event}}
          FROM lock_event
         WHERE resource_name = :name
           AND {{event_wanted}}
         ORDER BY id DESC
         LIMIT :limit) AS e
 ORDER BY e.happened_at, e.id;
