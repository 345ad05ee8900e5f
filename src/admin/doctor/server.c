/* admin/doctor/server.c - what rowlock has in the server: its procedures, and the event that
 * sweeps.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "admin/doctor/parts.h"
#include "migrate/migrate.h"

#define LATE_RUNS     3  /* of the event: so many intervals, */
#define LATE_MORE     60 /* and so many seconds, without one */
#define NO_SUCH_TABLE 1146

void rl_doctor_check_procedures(rl_doctor *d)
{
    rl_procedures_seen seen;
    rowlock_status status;
    do
        status = rl_procedures_look(d->conn, d->params->schema, &d->io, &seen, NULL);
    while (rl_doctor_again(d, status));
    if (status != ROWLOCK_OK)
        return;
    if (seen.there == 0)
        rl_doctor_fine(d, "procedures",
                       "none that this user sees; `rowlock init --procedures` installs them");
    else if (seen.same < seen.there)
        rl_doctor_tell(d, "procedures", ROWLOCK_CARE,
                       "SQL programs get what that program did, with its bugs",
                       "`rowlock init` with the newest program in use brings them up to date",
                       "%u of %u are not this program's, but of %s", seen.there - seen.same,
                       seen.there, seen.other);
    else if (*seen.missing)
        rl_doctor_tell(d, "procedures", ROWLOCK_CARE, "what calls them fails",
                       "`rowlock init` makes them again; what was granted on each by itself may "
                       "have to be granted again",
                       "%u of %u are missing, %s for one", seen.all - seen.there, seen.all,
                       seen.missing);
    else if (seen.there < seen.all)
        rl_doctor_tell(d, "procedures", ROWLOCK_NOTE,
                       "a CALL of one of the others fails, with error 1305 or 1370",
                       "`rowlock init` makes what is missing; what is there and not seen takes the "
                       "privilege EXECUTE",
                       "%u of %u are there and this user's to see, as of this program (%s)",
                       seen.there, seen.all, rowlock_version());
    else
        rl_doctor_fine(d, "procedures",
                       "all %u, the internal ones counted, as of this program (%s)", seen.there,
                       rowlock_version());
}

/* -------------------------------------------------------------------------- the event */

typedef enum event_sight { EVENT_HIDDEN, EVENT_GONE, EVENT_SEEN } event_sight;

typedef struct event {
    uint64_t every_s;
    int64_t installed_s; /* ago */
    int64_t started_s;   /* ago; < 0: never */
    bool running;
    bool scheduler;
    uint64_t failures;
    uint64_t expired;
    uint64_t events;
    uint64_t purged;
    char error[801];
    event_sight sight;
    /* When it is seen; "" else. */
    char status[65];
    char definer[400];
    bool definer_gone;
    char run[200];
    char last[120];
} event;

static rowlock_status read_event(rl_doctor *d, event *e, bool *found, rowlock_error *err)
{
    rl_rows rows;
    RL_TRY(rl_query_one(d->conn, RL_SQL_DOCTOR_EVENT, NULL, &d->io, found, &rows, err));
    if (!*found)
        return ROWLOCK_OK;
    *e = (event){.every_s = rows.cells[0].u64,
                 .installed_s = rows.cells[1].i64,
                 .started_s = rows.cells[2].null ? -1 : rows.cells[2].i64,
                 .running = rows.cells[3].u64 != 0,
                 .failures = rows.cells[5].u64,
                 .expired = rows.cells[6].u64,
                 .events = rows.cells[7].u64,
                 .purged = rows.cells[8].u64,
                 .scheduler = strcasecmp(rows.cells[10].text, "ON") == 0};
    snprintf(e->error, sizeof e->error, "%s", rows.cells[9].text);
    return ROWLOCK_OK;
}

static void count_one(void *data, const char *const *cells)
{
    (void)cells;
    ++*(unsigned *)data;
}

static event_sight why_unseen(rl_doctor *d)
{
    unsigned count = 0;
    rowlock_status status =
        rl_query_text(d->conn, RL_SQL_DOCTOR_EVENT_RIGHT, NULL, &d->io, count_one, &count, NULL);
    return status == ROWLOCK_OK && count == 0 ? EVENT_GONE : EVENT_HIDDEN;
}

/* sweep_event has what was installed; since then ALTER EVENT and DROP EVENT may have come. */
static void read_state(rl_doctor *d, event *e)
{
    rl_rows rows;
    bool found = false;
    rowlock_status status =
        rl_query_one(d->conn, RL_SQL_DOCTOR_EVENT_STATE, NULL, &d->io, &found, &rows, NULL);
    if (status == ROWLOCK_OK && !found)
        e->sight = why_unseen(d);
    if (status != ROWLOCK_OK || !found)
        return;
    e->sight = EVENT_SEEN;
    if (rows.cells[2].u64 > 0)
        e->every_s = rows.cells[2].u64;
    snprintf(e->status, sizeof e->status, "%s", rows.cells[0].text);
    snprintf(e->definer, sizeof e->definer, "%s", rows.cells[1].text);
    /* Who sees but one account sees its own. */
    e->definer_gone = rows.cells[3].u64 == 0 && rows.cells[4].u64 > 1;
}

static const char not_swept[] =
    "expired leases stay in `rowlock ls`, the history and unused names grow; locks are right "
    "without it";

#define TELL_NEGLECT(remedy, ...)                                                                  \
    rl_doctor_tell(d, "event", ROWLOCK_CARE, not_swept, remedy, __VA_ARGS__)

/* In words: what the last run did; and when it was, or the installation. */
static void put_words(event *e)
{
    if (e->running)
        snprintf(e->run, sizeof e->run, "a run began %" PRId64 " s ago", e->started_s);
    else if (e->started_s < 0)
        snprintf(e->run, sizeof e->run, "it has not run yet");
    else
        snprintf(e->run, sizeof e->run,
                 "last %" PRId64 " s ago: expired locks freed: %" PRIu64
                 ", events forgotten: %" PRIu64 ", names purged: %" PRIu64,
                 e->started_s, e->expired, e->events, e->purged);
    if (e->started_s < 0)
        snprintf(e->last, sizeof e->last,
                 "it has never run, since it was installed %" PRId64 " s ago", e->installed_s);
    else
        snprintf(e->last, sizeof e->last, "it ran last %" PRId64 " s ago", e->started_s);
}

static bool is_late(const event *e)
{
    int64_t since_s =
        e->started_s < 0 || e->installed_s < e->started_s ? e->installed_s : e->started_s;
    return since_s > (int64_t)e->every_s * LATE_RUNS + LATE_MORE;
}

static void tell_failures(const rl_doctor *d, const event *e)
{
    TELL_NEGLECT("as it says; `rowlock init --event` makes procedures and event anew",
                 "the event that sweeps has failed %" PRIu64 " times in a row, last %" PRId64
                 " s ago: %s",
                 e->failures, e->started_s, e->error);
}

/* An event that was made at another server: SLAVESIDE_DISABLED, REPLICA_SIDE_DISABLED. */
static bool is_anothers(const event *e)
{
    return strstr(e->status, "SIDE_DISABLED") != NULL;
}

/* A server that takes no writes does not sweep; of many that do, the one where the event was made.
 * What that one notes of its runs gets here. */
static bool another_sweeps(const rl_doctor *d, const event *e)
{
    return d->server->read_only || (is_anothers(e) && rl_many_writers(d->server->cluster, false));
}

static void tell_another(const rl_doctor *d, const event *e)
{
    if (e->failures > 0)
        tell_failures(d, e);
    else if (is_late(e))
        TELL_NEGLECT(d->server->read_only ? "at the primary: ALTER EVENT rowlock_sweep ENABLE;"
                                          : "ALTER EVENT rowlock_sweep ENABLE;",
                     "another server is to sweep every %" PRIu64 " s, and does not: %s", e->every_s,
                     e->last);
    else if (is_anothers(e))
        rl_doctor_tell(d, "event", ROWLOCK_NOTE,
                       "when that server is gone, or is the primary no more, nobody sweeps",
                       "then, at one that takes writes: ALTER EVENT rowlock_sweep ENABLE;",
                       "another server sweeps every %" PRIu64 " s; %s", e->every_s, e->run);
    else
        rl_doctor_fine(d, "event", "another server sweeps every %" PRIu64 " s; %s", e->every_s,
                       e->run);
}

/* It can run: does it? */
static void tell_runs(const rl_doctor *d, const event *e)
{
    if (e->failures > 0)
        tell_failures(d, e);
    else if (is_late(e))
        TELL_NEGLECT("the server's error log has the reason; `rowlock init --event` makes it anew",
                     "the event that sweeps is to run every %" PRIu64 " s, and %s", e->every_s,
                     e->last);
    else if (e->sight == EVENT_HIDDEN)
        rl_doctor_tell(d, "event", ROWLOCK_NOTE,
                       "that it is disabled or gone shows here only when its runs are late",
                       "let a user look who has the privilege EVENT on the schema",
                       "an event sweeps every %" PRIu64
                       " s, as it was installed; %s; the event itself is hidden from this user",
                       e->every_s, e->last);
    else
        rl_doctor_fine(d, "event", "the server sweeps every %" PRIu64 " s; %s", e->every_s, e->run);
}

static void tell_event(const rl_doctor *d, const event *e)
{
    if (another_sweeps(d, e))
        tell_another(d, e);
    else if (!e->scheduler)
        TELL_NEGLECT("event_scheduler=ON in the server's option file, and now: "
                     "SET GLOBAL event_scheduler = ON;",
                     "the event that sweeps is there, but the server runs no events: "
                     "event_scheduler is off; %s",
                     e->last);
    else if (e->definer_gone)
        TELL_NEGLECT("`rowlock init --event` by a user that stays",
                     "the event that sweeps runs as %s, and there is no such account; %s",
                     e->definer, e->last);
    else if (*e->status && strcmp(e->status, "ENABLED") != 0)
        rl_doctor_tell(d, "event", ROWLOCK_CARE,
                       is_anothers(e) ? "it was made at another server; nobody sweeps, unless that "
                                        "one still is the primary"
                                      : not_swept,
                       "ALTER EVENT rowlock_sweep ENABLE;", "the event that sweeps is %s; %s",
                       e->status, e->last);
    else if (e->sight == EVENT_GONE)
        TELL_NEGLECT("`rowlock init --event`; or, if it is to be so, `rowlock init --remove-event`",
                     "the event that sweeps was installed, and is not there any more; %s", e->last);
    else
        tell_runs(d, e);
}

void rl_doctor_check_event(rl_doctor *d)
{
    event e = {0};
    bool found = false;
    rowlock_error err = {0};
    rowlock_status status = read_event(d, &e, &found, &err);
    if (status == ROWLOCK_OK && found) {
        read_state(d, &e);
        put_words(&e);
        tell_event(d, &e);
    } else if (status == ROWLOCK_OK || err.server_errno == NO_SUCH_TABLE) {
        rl_doctor_fine(d, "event", "the server does not sweep by itself (`rowlock init --event`)");
    } else if (status == ROWLOCK_DENIED) {
        /* No statement: it would fail where the table is not there, and that is hidden, too. */
        rl_doctor_tell(
            d, "event", ROWLOCK_NOTE, "the table is there once the event was installed",
            rl_doctor_text(
                d, "where `rowlock init --event` was run, the right SELECT on `%s`.sweep_event",
                d->params->schema),
            "whether the server sweeps by itself is hidden from this user");
    } else {
        rl_doctor_tell(d, "event", ROWLOCK_NOTE, "", "",
                       "whether the server sweeps by itself cannot be read: %s", err.message);
    }
}
