-- Pieces that several statements share. cmake/clauses.awk puts them in place of {{name}} or {{name(argument, ...)}} in sql/*.sql
-- and sql/procedures/*.sql. Everywhere r is the resource, l its lease_renewal.

-- Until when a lease runs: the later of both expiries; a renewal counts only for the version it was made for.
-- clause: expiry(version)
GREATEST(r.lease_expires_at,
         IF(l.version = {version} AND l.expires_at IS NOT NULL,
            l.expires_at, r.lease_expires_at));

-- A held lease has expired: the same as a condition, which often needs no look at the renewal's row.
-- clause: expired
r.lease_expires_at <= UTC_TIMESTAMP(6)
AND (l.version <> r.version OR l.expires_at IS NULL OR l.expires_at <= UTC_TIMESTAMP(6));

-- The kinds that this program knows (src/engine/kind.c); it does not touch rows of others.
-- clause: known_kind(kind)
{kind} IN ('optimistic', 'pessimistic', 'slots', 'latch', 'barrier', 'quorum', 'queue');

-- The name is not frozen (sql/freeze.sql).
-- clause: thawed(r?)
({r}frozen_until IS NULL OR {r}frozen_until <= UTC_TIMESTAMP(6));

-- A free name can be acquired: it is not cooling (at_least, a break), not frozen, and no sessions must be ended first
-- (sql/guard.sql). `r`: "r.", or left out.
-- clause: open(r?)
({{cooled({r})}} AND {r}guarded IS NULL AND {{thawed({r})}});

-- clause: cooled(r?)
({r}not_before IS NULL OR {r}not_before <= UTC_TIMESTAMP(6));

-- It has no holder, and could be acquired but for the sessions of the last one.
-- clause: dead_guard
((r.status = 'free' AND {{cooled(r.)}})
 OR (r.status = 'held' AND {{expired}}))
AND {{thawed(r.)}};

-- A session's marker: a named lock, made of a secret that only the session and the client that registers it know, so that nobody
-- can register it who just reads the marker. Other named locks (a bell, a key) have other names.
-- clause: mark(secret)
CONCAT('rowlock.mark.', LEFT(SHA2({secret}, 256), 32));

-- The session (s, its lock_session) still exists. A named lock with another prefix does not count, in case somebody wrote one
-- into the table.
-- clause: session_there
s.marker LIKE 'rowlock.mark.%'
AND IS_USED_LOCK(s.marker) > 0;

-- ... and is not the asker itself.
-- clause: session_lives
{{session_there}}
AND IS_USED_LOCK(s.marker) <> CONNECTION_ID();

-- A freeze of a name, or of names with a prefix, matches this name. A freeze of a name also matches its slots.
-- clause: frozen_name(name, begin, is_prefix)
({name} >= {begin}
 AND LOCATE({begin}, {name}) = 1
 AND ({is_prefix} <> 0
      OR {name} = {begin}
      OR SUBSTRING({name}, CHAR_LENGTH({begin}) + 1) REGEXP '^#[0-9]+$'));

-- A freeze's pattern with its star, as it is stored. (The star matters: to the server, texts that differ in trailing blanks are
-- equal.)
-- clause: freeze_pattern(begin, is_prefix)
CONCAT({begin}, IF({is_prefix} <> 0, '*', ''));

-- The pattern of a row of lock_freeze without its star.
-- clause: freeze_begin(f)
LEFT({f}pattern, CHAR_LENGTH({f}pattern) - {f}is_prefix);

-- clause: frozen_until(until_us, for_us)
CASE WHEN {for_us} > 0 THEN UTC_TIMESTAMP(6) + INTERVAL {for_us} MICROSECOND
     WHEN {until_us} > 0 THEN {{at_us({until_us})}}
     ELSE CAST('9999-12-31' AS DATETIME(6)) END;

-- The last holder rang the bell so recently that the waiter that was woken may still come. `update_time` may be later than
-- UTC_TIMESTAMP(), which is the statement's start: the statement may have waited for the release. connection_id of a held lease:
-- the connection on which the holder has the bell, 0: none. Of a free one: not 0 if the last holder rang, or a waiter has the
-- bell (1: some connection).
-- clause: reserved(r?)
({r}connection_id <> 0
 AND {r}update_time BETWEEN UTC_TIMESTAMP(6) - INTERVAL 1 SECOND AND UTC_TIMESTAMP(6) + INTERVAL 1 SECOND);

-- It is still held by this owner, with this token.
-- clause: ours
id = :id
AND version = :version
AND owner = :owner
AND status = 'held';

-- What a new holder of a lease writes, beside the version. `connection`: on which it has the bell; 0: none. `r`: "r.", or left
-- out.
-- clause: granted(connection, r?)
{r}status = 'held',
{r}owner = :owner,
{r}owner_label = :label,
{r}connection_id = {connection},
{r}acquired_at = UTC_TIMESTAMP(6),
{r}lease_expires_at = UTC_TIMESTAMP(6) + INTERVAL :ttl_us MICROSECOND,
{r}not_before = NULL,
{r}guarded = NULL,
{r}update_time = UTC_TIMESTAMP(6);

-- There is no next writer any more.
-- clause: no_next(r?)
{r}next_owner = '',
{r}next_label = '',
{r}next_expires_at = NULL;

-- Readers may enter: there is no next writer, or it has expired.
-- clause: drain_over(r?)
({r}next_owner = '' OR {r}next_expires_at <= UTC_TIMESTAMP(6));

-- What a row lock's holder writes to be published.
-- clause: published
status = 'held',
owner = :owner,
owner_label = :label,
connection_id = :connection_id,
acquired_at = UTC_TIMESTAMP(6),
update_time = UTC_TIMESTAMP(6);

-- The time that long ago; NULL if `us` is.
-- clause: ago(us)
UTC_TIMESTAMP(6) - INTERVAL LEAST({us}, 1000000000000000) MICROSECOND;

-- clause: not_today(at)
{at} < DATE(UTC_TIMESTAMP(6));

-- It happened later than the known time.
-- clause: newer(us, at)
{us} IS NOT NULL AND ({at} IS NULL OR {at} <= {{ago({us})}});

-- The end of a released name's cooling.
-- clause: cooling
IF(:at_least_us = 0, NULL, acquired_at + INTERVAL :at_least_us MICROSECOND);

-- The waiver: the named lock by which a holder waives its version (sql/lease.sql, lease_waive). It is made from the row, so
-- that only users that may read the row can make it.
-- clause: waiver
CONCAT(:bell, id, '=', LEFT(SHA2(CONCAT(version, owner, acquired_at), 256), 20));

-- Proves to a procedure that its caller has read the row under the row's lock (sql/procedures/via.sql).
-- clause: ticket
LEFT(SHA2(CONCAT(version, owner, COALESCE(acquired_at, ''), update_time), 256), 40);

-- clause: read_only
CAST(@@global.read_only AS CHAR) NOT IN ('0', 'OFF');

-- The resources of a batch, [[id, version], ...], with unchanged versions. FORCE INDEX: see lease_renew.
-- clause: batch
JSON_TABLE(:names, '$[*]' COLUMNS (
    id BIGINT UNSIGNED PATH '$[0]',
    version BIGINT UNSIGNED PATH '$[1]')) AS k
STRAIGHT_JOIN resource r FORCE INDEX (PRIMARY) ON r.id = k.id AND r.version = k.version;

-- The rows of a derived table x as such a batch, with their number, the last id and the highest version. (MariaDB would cut an
-- aggregate of text at group_concat_max_len.)
-- clause: as_batch(row)
/*M! SET STATEMENT group_concat_max_len = 1000000 FOR */
SELECT JSON_ARRAYAGG({row}), COUNT(*), COALESCE(MAX(x.id), 0), COALESCE(MAX(x.version), 0);

-- What is written when a lease is taken from its holder and becomes free. Both versions rise, which ends late renewals and late
-- fences. It has no connection, since nobody rang.
-- clause: taken_away(version)
{{given_to_nobody({version})}},
l.version = {version} + 1,
l.expires_at = NULL;

-- clause: given_to_nobody(version)
r.version = {version} + 1,
r.status = 'free',
r.connection_id = 0,
r.update_time = UTC_TIMESTAMP(6);

-- A free lease is cooling because of a break (lease_break), not of at_least.
-- clause: broken
l.version = r.version AND l.expires_at IS NOT NULL AND l.expires_at = r.not_before;

-- A held lease that has expired.
-- clause: dead_lease
r.kind = 'optimistic'
AND r.status = 'held'
AND {{expired}};

-- A name that was not used for so long. Closed latches, barriers with members and names with slots are in use, and so is a name
-- while sessions of its last holder are left, or until its last period is over: without the row the work would be done again.
-- (Counts, since for a KILL QUERY MariaDB may return NULL, which then keeps the name.)
-- clause: unused
(r.status = 'free' OR (r.kind = 'quorum' AND r.lease_expires_at <= UTC_TIMESTAMP(6)))
AND r.kind IN ('optimistic', 'pessimistic', 'latch', 'barrier', 'quorum')
AND (r.kind <> 'barrier'
     OR (SELECT COUNT(*) FROM lock_grant b WHERE b.resource_id = r.id AND b.expires_at > UTC_TIMESTAMP(6)) = 0)
AND {{cooled(r.)}}
AND {{thawed(r.)}}
AND (SELECT COUNT(*) FROM lock_session s WHERE s.resource_id = r.id AND s.version = r.guarded AND {{session_there}}) = 0
AND r.update_time <= UTC_TIMESTAMP(6) - INTERVAL :unused_us MICROSECOND
AND (SELECT COALESCE(o.period_end, CAST('1970-01-01' AS DATETIME(6)))
       FROM (SELECT 1 AS one) p
       LEFT JOIN once_run o ON o.resource_id = r.id
      ORDER BY o.period_start DESC
      LIMIT 1) <= UTC_TIMESTAMP(6);

-- What a list shows of the names in a derived table v, which has these columns.
-- clause: shown
v.id, v.resource_name, v.kind, v.status, v.version,
IF(:open OR v.owner = '', CAST(v.owner AS CHAR), CONCAT('#', LEFT(SHA2(v.owner, 256), 16))), v.owner_label,
v.connection_id, v.acquired_at, v.expires_at, v.not_before,
TIMESTAMPDIFF(MICROSECOND, v.acquired_at, UTC_TIMESTAMP(6)),
TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), v.expires_at),
TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), v.not_before),
v.description,
v.holds, v.lost, v.taken_over, v.waited_us, v.waited_most_us, v.held_us, v.held_most_us, v.first_at, v.last_at,
v.readers, v.slots, v.slots_held, v.wanted, v.come, v.value, v.asked_at, v.asked_by, v.asked_why, v.stop_by,
TIMESTAMPDIFF(MICROSECOND, v.asked_at, UTC_TIMESTAMP(6)), v.period_start, v.period_end, v.period_state,
v.queue, v.failed, v.refused, v.succeeded_at, TIMESTAMPDIFF(MICROSECOND, v.succeeded_at, UTC_TIMESTAMP(6)), v.succeeded_us,
v.failed_at, TIMESTAMPDIFF(MICROSECOND, v.failed_at, UTC_TIMESTAMP(6)), v.failed_exit, v.gap_us, v.gap_part,
v.frozen_until, v.frozen_by, v.frozen_why, v.sessions;

-- The number of readers, or of a barrier's members. For lists only: no lock depends on it.
-- clause: readers
IF(r.status = 'shared' OR r.kind = 'barrier',
   (SELECT COUNT(*) FROM lock_grant g WHERE g.resource_id = r.id AND g.expires_at > UTC_TIMESTAMP(6)), 0);

-- The connections that the holder has registered, or that are left of the last one. Also for lists only.
-- clause: sessions
IF(r.guarded IS NULL, '',
   COALESCE(LEFT((SELECT GROUP_CONCAT(s.connection_id ORDER BY s.connection_id SEPARATOR ', ')
                    FROM lock_session s
                   WHERE s.resource_id = r.id AND s.version = r.guarded AND {{session_there}}), 1000), ''));

-- A holder or reader that was asked still holds it. Also for lists only.
-- clause: holder_asked
(r.status = 'held'
 OR (r.status = 'shared'
     AND a.asked_at >= (SELECT MIN(g.acquired_at)
                          FROM lock_grant g
                         WHERE g.resource_id = r.id AND g.version = r.version AND g.expires_at > UTC_TIMESTAMP(6))));

-- c is a slot of the name, NAME#0 to NAME#999; also one above the number that the name has now, since its holder may finish.
-- clause: slot_of(name)
(c.resource_name > CONCAT({name}, '#')
 AND c.resource_name < CONCAT({name}, '$')
 AND SUBSTRING(c.resource_name, CHAR_LENGTH({name}) + 2) REGEXP '^([0-9]|[1-9][0-9]|[1-9][0-9][0-9])$'
 AND c.kind IN ('optimistic', 'pessimistic'));

-- How many slots of a name are held. Also for lists only.
-- clause: slots_held
IF(r.kind = 'slots' AND r.slots > 0,
   (SELECT COUNT(*) FROM resource c WHERE {{slot_of(r.resource_name)}} AND c.status = 'held'), 0);

-- How many have counted a latch (an open one: all, a broken one: 0), or gather at a barrier. Also for lists only.
-- clause: come_so_far
CASE WHEN r.kind = 'latch' AND r.status = 'held'
     THEN LEAST(r.slots, (SELECT COUNT(*) FROM latch_down d WHERE d.resource_id = r.id AND d.generation = r.version))
     WHEN r.kind = 'latch' THEN IF(r.broken & 1, 0, r.slots)
     WHEN r.kind = 'barrier'
     THEN (SELECT COUNT(*)
             FROM lock_grant g
            WHERE g.resource_id = r.id AND g.version = r.version AND g.expires_at > UTC_TIMESTAMP(6))
     ELSE 0 END;

-- An item whose worker was lost, and that was not taken since. In the order of by_ready; there are few.
-- clause: abandoned(i?)
{i}state = 'alive'
AND {i}lane IN (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
AND {i}ready_at <= UTC_TIMESTAMP(6)
AND {i}taken = 1;

-- ... at its last attempt: it counts as dead, and the next take makes it so. (The first item of a group counts as ready: the rest
-- of its group is not delivered before that take.)
-- clause: used_up(i?)
({i}state = 'alive' AND {i}taken = 1 AND {i}ready_at <= UTC_TIMESTAMP(6) AND {{spent({i})}});

-- clause: spent(i?)
({i}attempts >= {i}attempts_most AND {i}group_key IS NULL);

-- The same for a few of many rows i that are read from an index alone.
-- clause: spent_one
(SELECT {{spent(x.)}} FROM queue_item x FORCE INDEX (PRIMARY) WHERE x.id = i.id);

-- Of a queue: its items that are not dead, that are ready, in flight, dead; and how long the oldest one has been ready, -1: none
-- is. Of abandoned items: how many are ready, how many used up, and how long the oldest one has been ready. Also for lists only.
-- clause: queue_counts
IF(r.kind = 'queue',
   CONCAT_WS(' ',
             (SELECT CONCAT_WS(' ', COALESCE(SUM(i.state <> 'dead'), 0),
                               COALESCE(SUM(i.state = 'alive' AND i.ready_at <= UTC_TIMESTAMP(6) AND i.taken = 0), 0),
                               COALESCE(SUM(i.state = 'alive' AND i.ready_at > UTC_TIMESTAMP(6) AND i.taken = 1), 0),
                               COALESCE(SUM(i.state = 'dead'), 0),
                               COALESCE(TIMESTAMPDIFF(MICROSECOND, MIN(IF(i.state = 'alive' AND i.ready_at <= UTC_TIMESTAMP(6)
                                                                          AND i.taken = 0, i.ready_at, NULL)), UTC_TIMESTAMP(6)), -1))
                FROM queue_item i FORCE INDEX (by_ready)
               WHERE i.queue_id = r.id),
             (SELECT CONCAT_WS(' ', COALESCE(SUM(NOT {{spent(i.)}}), 0), COALESCE(SUM({{spent(i.)}}), 0),
                               COALESCE(TIMESTAMPDIFF(MICROSECOND, MIN(IF({{spent(i.)}}, NULL, i.ready_at)),
                                                      UTC_TIMESTAMP(6)), -1))
                FROM queue_item i FORCE INDEX (by_ready)
               WHERE i.queue_id = r.id
                 AND {{abandoned(i.)}})), '');

-- The same for one queue, in two parts: those that were not abandoned, from the index alone, and the few that were.
-- clause: queue_sums
SUM(state = 'alive' AND ready_at <= UTC_TIMESTAMP(6) AND taken = 0) AS ready,
SUM(state = 'alive' AND ready_at > UTC_TIMESTAMP(6) AND taken = 1) AS in_flight,
SUM(state = 'alive' AND ready_at > UTC_TIMESTAMP(6) AND taken = 0) AS later,
SUM(state = 'behind') AS behind,
SUM(state = 'dead') AS dead,
MIN(IF(state = 'alive' AND (taken = 0 OR ready_at > UTC_TIMESTAMP(6)), ready_at, NULL)) AS first_at;

-- clause: abandoned_sums
SUM(NOT {{spent()}}) AS again,
SUM({{spent()}}) AS used_up,
MIN(IF({{spent()}}, NULL, ready_at)) AS first_at;

-- When the first living item is, or was, ready; NULL: there is none.
-- clause: first_ready
LEAST(COALESCE(c.first_at, a.first_at), COALESCE(a.first_at, c.first_at));

-- Its holder has published a value (v, its lock_value), and its lease has not expired.
-- clause: leads
COALESCE(r.kind = 'optimistic' AND r.status = 'held' AND v.version = r.version AND v.value <> ''
         AND {{expiry(r.version)}} > UTC_TIMESTAMP(6), 0);

-- The row is an earlier holder's, or this one's with no higher number.
-- clause: published_before
lock_value.version < r.version OR (lock_value.version = r.version AND lock_value.number <= :number);

-- The row is an ask to an earlier holder, or to this one.
-- clause: asked_before
lock_ask.version <= r.version;

-- A time that was passed as microseconds since 1970.
-- clause: at_us(us)
(CAST('1970-01-01' AS DATETIME(6)) + INTERVAL {us} MICROSECOND);

-- The running attempt of the period still has the lease.
-- clause: period_alive
r.version = o.token AND r.status = 'held' AND NOT ({{expired}});

-- Periods of the ledger, and what a list shows of those in a derived table v. `alive`: the running attempt still has the lease.
-- clause: once_chosen
SELECT r.resource_name, o.period_start, o.period_end, o.state, o.token, o.owner_label, o.attempts, o.started_at, o.ended_at,
       o.exit_status,
       o.state = 'running' AND {{period_alive}} AS alive
  FROM once_run o
  JOIN resource r ON r.id = o.resource_id
  JOIN lease_renewal l ON l.id = r.id;

-- clause: once_shown
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), COALESCE(v.resource_name, ''),
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', v.period_start), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', v.period_end),
COALESCE(v.state, ''), COALESCE(v.alive, 0), COALESCE(v.token, 0), COALESCE(v.owner_label, ''), COALESCE(v.attempts, 0),
v.started_at, v.ended_at, TIMESTAMPDIFF(MICROSECOND, v.started_at, COALESCE(v.ended_at, UTC_TIMESTAMP(6))), v.exit_status;

-- The consequence if no event sweeps (doctor_event).
-- clause: not_swept
expired leases stay in `rowlock ls`, the history and unused names grow; locks are right without it;

-- The marker in a trigger of a fence (src/admin/fences.c).
-- clause: fence_marker
SUBSTRING_INDEX(SUBSTRING_INDEX(t.action_statement, 'DECLARE rowlock_fence VARCHAR(4096) CHARACTER SET ascii DEFAULT ''', -1), '''', 1);

-- The tables of locks; rowlock's others are rowlock_schema_version and sweep_event.
-- clause: lock_tables
'resource', 'resource_lock', 'lease_renewal', 'version_floor', 'lock_event', 'lock_total', 'lock_grant', 'latch_down',
'lock_value', 'lock_ask', 'lock_session', 'once_run', 'lock_freeze', 'quorum_member', 'queue_item', 'queue_group';

-- The schema of rowlock and the lock in a marker m.marker. '': it is no marker of rowlock's.
-- clause: fence_marks
LEFT(COALESCE(UNHEX(SUBSTRING_INDEX(SUBSTRING_INDEX(m.marker, '.', 3), '.', -1)), ''), 256),
LEFT(COALESCE(UNHEX(SUBSTRING_INDEX(m.marker, '.', -1)), ''), 1020);

-- The last success is that of the newest done period (d, in once_run), not the one that holders have reported (t, its
-- lock_total).
-- clause: period_succeeded
(d.ended_at IS NOT NULL AND (t.succeeded_at IS NULL OR d.ended_at > t.succeeded_at));

-- clause: chosen
SELECT r.id, r.resource_name, r.kind, r.status, r.version, r.owner, r.owner_label,
       r.connection_id, r.acquired_at, r.not_before, r.description,
       IF(r.kind IN ('optimistic', 'quorum'),
          {{expiry(r.version)}},
          NULL) AS expires_at,
       t.holds, t.lost, t.taken_over, t.waited_us, t.waited_most_us, t.held_us, t.held_most_us, t.first_at, t.last_at,
       t.failed, t.refused, IF({{period_succeeded}}, NULL, t.succeeded_us) AS succeeded_us, t.failed_at, t.failed_exit,
       t.gap_us, t.gap_part, IF({{period_succeeded}}, d.ended_at, t.succeeded_at) AS succeeded_at,
       {{readers}} AS readers, IF(r.kind = 'slots', r.slots, 0) AS slots, {{slots_held}} AS slots_held,
       IF(r.kind IN ('latch', 'barrier'), r.slots, 0) AS wanted, {{come_so_far}} AS come,
       IF({{leads}}, v.value, '') AS value,
       a.asked_at, a.owner_label AS asked_by, a.reason AS asked_why, a.stop_by,
       o.period_start, o.period_end, IF(o.state = 'running' AND NOT ({{period_alive}}), 'died', o.state) AS period_state,
       {{queue_counts}} AS queue,
       IF({{thawed(r.)}}, NULL, r.frozen_until) AS frozen_until, z.owner_label AS frozen_by, z.reason AS frozen_why,
       {{sessions}} AS sessions
  FROM resource r
  LEFT JOIN lease_renewal l ON l.id = r.id
  LEFT JOIN lock_total t ON t.id = r.id
  LEFT JOIN lock_value v ON v.resource_id = r.id
  LEFT JOIN lock_ask a ON a.resource_id = r.id AND a.version = r.version AND {{holder_asked}}
  LEFT JOIN once_run o ON o.resource_id = r.id
   AND o.period_start = (SELECT MAX(n.period_start) FROM once_run n WHERE n.resource_id = r.id)
  LEFT JOIN once_run d ON d.resource_id = r.id
   AND d.period_start = (SELECT n.period_start FROM once_run n
                          WHERE n.resource_id = r.id AND n.state = 'done'
                          ORDER BY n.period_start DESC
                          LIMIT 1)
  LEFT JOIN lock_freeze z ON NOT {{thawed(r.)}}
   AND z.id = (SELECT MAX(n.id) FROM lock_freeze n
                WHERE n.until_at = r.frozen_until AND {{frozen_name(r.resource_name, LEFT(n.pattern, CHAR_LENGTH(n.pattern) - n.is_prefix), n.is_prefix)}});

-- An event as it is listed, and the condition that it is wanted.
-- clause: event
id, resource_name, kind, event, version, owner, owner_label, happened_at, waited_ms, held_ms, exit_status, detail;

-- clause: event_wanted
(:event = '' OR FIND_IN_SET(event, :event) > 0)
AND (:failed = 0 OR exit_status <> 0 OR event IN ('expired', 'taken_over', 'broken', 'lost'))
AND (:since_us = 0 OR happened_at >= UTC_TIMESTAMP(6) - INTERVAL :since_us MICROSECOND);

-- The identity of a server as text: as in src/db/flavour.c.
-- clause: this_server
/*M! CONCAT(@@global.gtid_domain_id, '-', @@global.server_id, ' ', @@global.hostname, ':', @@global.port, @@global.datadir) */
/*!80000 @@global.server_uuid */;

-- Commits survive a crash. (With a binary log, recovery undoes transactions that are not in it.)
-- clause: durable
(@@global.innodb_flush_log_at_trx_commit = 1 AND (@@global.log_bin = 0 OR @@global.sync_binlog = 1));

-- How long a member of a quorum (m) still gives no vote, since it may have forgotten one that it gave. Its uptime, in whole
-- seconds, counts only if commits are not durable.
-- clause: abstains_us
GREATEST(0,
         TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), m.votes_from),
         IF({{durable}}, 0,
            CAST(m.ttl_most_us AS SIGNED) + 1000000
            - 1000000 * (SELECT CAST(s.variable_value AS SIGNED)
                           FROM /*M! information_schema.global_status */ /*!80000 performance_schema.global_status */ s
                          WHERE s.variable_name = 'Uptime')));

-- clause: member_state
CASE WHEN m.id IS NULL THEN 'none'
     WHEN m.server <> {{this_server}} THEN 'strange'
     WHEN m.state <> 'voting' THEN 'closed'
     WHEN {{abstains_us}} > 0 THEN 'abstaining'
     WHEN {{abstains_us}} = 0 THEN 'voting'
     ELSE 'unknown' END;

-- This server votes, is the member that the client means, and has the client's list. (A KILL QUERY may make it NULL, which is no
-- vote.)
-- clause: votes
(SELECT IF({{member_state}} = 'voting' AND m.server = :server, m.list, '')
   FROM quorum_member m
  WHERE m.id = 1
    AND m.ttl_most_us >= :ttl_us) = :list;

-- When an item that is put becomes ready; `at`: microseconds since 1970; 0: `delay_us` counts.
-- clause: ready_at
IF(:at = 0, UTC_TIMESTAMP(6) + INTERVAL :delay_us MICROSECOND, GREATEST({{at_us(:at)}}, UTC_TIMESTAMP(6)));

-- One row of queue_put_8: as queue_put.
-- clause: put_row(i)
(:id, 'alive', :lane{i}, GREATEST({{at_us(:at{i})}}, UTC_TIMESTAMP(6) + INTERVAL :delay{i} MICROSECOND), :attempts{i}, :key{i}, UTC_TIMESTAMP(6),
 :payload{i});

-- When the first item of a lane is ready; without one, in the year 9999.
-- clause: first_of(lane)
COALESCE((SELECT ready_at FROM queue_item FORCE INDEX (by_ready)
           WHERE queue_id = :id AND state = 'alive' AND lane = {lane}
           ORDER BY ready_at
           LIMIT 1), CAST('9999-12-31' AS DATETIME(6)));

-- The columns of an item that a worker gets.
-- clause: item
id, lane, token, attempts, attempts_most, item_key, COALESCE(group_key, ''), payload,
TIMESTAMPDIFF(MICROSECOND, '1970-01-01', ready_at);

-- What a take writes. `i`: "i.", or left out.
-- clause: taken(i?)
{i}ready_at = UTC_TIMESTAMP(6) + INTERVAL :ttl_us MICROSECOND,
{i}taken = 1,
{i}token = {i}token + 1,
{i}attempts = {i}attempts + 1,
{i}owner = :owner,
{i}owner_label = :label;

-- The item is still this worker's.
-- clause: item_ours
id = :item
AND token = :token
AND owner = :owner
AND taken = 1
AND state = 'alive';

-- More versions, or items, than were given since any backup: 2^32.
-- clause: restored_by
4294967296;
