-- Once in a period. The ledger's row decides, not the lease: each statement that changes it is a compare-and-swap. The lease's
-- holder begins an attempt, with the lease's row locked in share mode; the attempt's token, which no later one has, ends it.
-- Periods are passed as microseconds since 1970, UTC. LAST_INSERT_ID(expr): see src/stmt/call.c, rl_call_may_have_changed().

-- The lease's holder, and the state of the period: one row as long as the name exists. `mine`: this hold has begun it;
-- `elsewhere`: this hold has begun another period. `other`: the row is of a period with the same begin and another end.
-- name: once_look
-- via: own
-- params: version u64, owner text, end u64, start u64, id u64, name text
-- columns: holds u64, state text(8), token u64, attempts u64, mine u64, label text(1024), elsewhere u64, other u64
SELECT r.version = :version AND r.owner = :owner AND r.status = 'held' AND r.kind = 'optimistic',
       COALESCE(o.state, ''), COALESCE(o.token, 0), COALESCE(o.attempts, 0),
       COALESCE(o.token = :version AND o.owner = :owner AND o.period_end = {{at_us(:end)}}, 0), COALESCE(o.owner_label, ''),
       m.token IS NOT NULL, COALESCE(o.period_end <> {{at_us(:end)}}, 0)
  FROM resource r
  LEFT JOIN once_run o FORCE INDEX (PRIMARY)
    ON o.resource_id = r.id AND o.period_start = {{at_us(:start)}}
  LEFT JOIN once_run m FORCE INDEX (by_token)
    ON m.resource_id = r.id AND m.token = :version
   AND (m.period_start <> {{at_us(:start)}} OR m.period_end <> {{at_us(:end)}})
 WHERE r.id = :id
   AND r.resource_name = :name;

-- The first attempt. It changes neither a period that exists, nor another one with this token.
-- name: once_insert
-- via: own
-- params: start u64, end u64, id u64, version u64, owner text
INSERT INTO once_run (resource_id, period_start, period_end, state, token, owner, owner_label, attempts, started_at)
SELECT r.id, {{at_us(:start)}}, {{at_us(:end)}}, 'running', LAST_INSERT_ID(r.version), r.owner, r.owner_label, 1, UTC_TIMESTAMP(6)
  FROM resource r
 WHERE r.id = :id
   AND r.version = :version
   AND r.owner = :owner
   AND r.status = 'held'
   AND r.kind = 'optimistic'
  LOCK IN SHARE MODE
    ON DUPLICATE KEY UPDATE
       resource_id = r.id;

-- A further attempt, after the one that was `seen`. `again`: also if that one is done, or the row is of a period with another
-- end; the attempts are counted anew.
-- name: once_take
-- via: own
-- params: end u64, again u64, id u64, version u64, owner text, start u64, seen u64, attempts u64
UPDATE resource r
  STRAIGHT_JOIN once_run o FORCE INDEX (PRIMARY) ON o.resource_id = r.id
   SET o.period_end = {{at_us(:end)}},
       o.state = 'running',
       o.token = LAST_INSERT_ID(r.version),
       o.owner = r.owner,
       o.owner_label = r.owner_label,
       o.attempts = IF(:again <> 0, 1, o.attempts + 1),
       o.started_at = UTC_TIMESTAMP(6),
       o.ended_at = NULL,
       o.exit_status = NULL
 WHERE r.id = :id
   AND r.version = :version
   AND r.owner = :owner
   AND r.status = 'held'
   AND r.kind = 'optimistic'
   AND o.period_start = {{at_us(:start)}}
   AND o.token = :seen
   AND o.token < r.version
   AND (:again <> 0 OR (o.state <> 'done' AND o.attempts < :attempts));

-- name: once_end
-- via: own
-- params: done u64, exit_status u64, id u64, version u64, owner text
UPDATE once_run
   SET state = IF(:done <> 0, 'done', 'failed'),
       token = LAST_INSERT_ID(token),
       ended_at = UTC_TIMESTAMP(6),
       exit_status = :exit_status
 WHERE resource_id = :id
   AND token = :version
   AND owner = :owner
   AND state = 'running';

-- The state of the attempt with this token: one row as long as the name exists. '': no period has this token any more.
-- name: once_state
-- via: own
-- params: version u64, id u64
-- columns: state text(8)
SELECT COALESCE(o.state, '')
  FROM resource r
  LEFT JOIN once_run o FORCE INDEX (by_token) ON o.resource_id = r.id AND o.token = :version
 WHERE r.id = :id;

-- The newest periods of a name that end later than `ends_after` and begin earlier than `starts_before`. There is always a row,
-- for the server's time: without a period its name is ''.
-- name: once_list
-- via: own
-- params: name text, ends_after u64, starts_before u64, limit u64
-- columns: now_us i64, name text(1020), start_us i64, end_us i64, state text(8), alive u64, token u64, label text(1024), attempts u64, started_at text(32), ended_at text(32), took_us i64, exit_status i64
SELECT {{once_shown}}
  FROM (SELECT 1 AS one) x
  LEFT JOIN ({{once_chosen}}
              WHERE r.resource_name = :name
                AND o.period_end > {{at_us(:ends_after)}}
                AND o.period_start < {{at_us(:starts_before)}}
              ORDER BY o.period_start DESC
              LIMIT :limit) v ON TRUE
 ORDER BY v.period_start DESC;

-- The newest period of each name.
-- name: once_list_all
-- via: own
-- params: after text, limit u64
-- columns: now_us i64, name text(1020), start_us i64, end_us i64, state text(8), alive u64, token u64, label text(1024), attempts u64, started_at text(32), ended_at text(32), took_us i64, exit_status i64
SELECT {{once_shown}}
  FROM (SELECT 1 AS one) x
  LEFT JOIN ({{once_chosen}}
              WHERE r.resource_name > :after
                AND o.period_start = (SELECT MAX(n.period_start) FROM once_run n WHERE n.resource_id = r.id)
              ORDER BY r.resource_name
              LIMIT :limit) v ON TRUE
 ORDER BY v.resource_name;
