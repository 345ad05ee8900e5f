/*
 * Once in a period. To begin is to look at the ledger's row, to change it by a statement that
 * compares what was seen, and to look again: what the row says then is the answer, whatever became
 * of the statement (a lost reply, a KILL QUERY, another client that was faster). To end is one
 * statement, and a look where it found nothing to change.
 */
#include "kind/once.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/name.h"
#include "engine/settle.h"
#include "wait/backoff.h"

enum { STATE_SIZE = 9 }; /* "running" */

typedef struct once {
    const rowlock_hold *hold;
    rowlock_client *client;
    const rl_budget *budget;
    const char *name;
    rl_trace request; /* the last one that changes the row ... */
    bool open;        /* ... whose reply was lost */
    bool unread;      /* it has changed the row, or may have, and the row was not read since */
} once;

static once once_of(const rowlock_hold *hold, const rl_budget *budget)
{
    return (once){
        .hold = hold, .client = hold->client, .budget = budget, .name = hold->locks[0].name};
}

static rowlock_status lease_lost(const once *o, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_LOST, "'%s' is no longer held (token %" PRIu64 ")", o->name,
                   o->hold->locks[0].version);
}

/* OK: the request has ended, and the row tells its result. */
static rowlock_status settle(once *o, rowlock_error *err)
{
    if (!o->open)
        return ROWLOCK_OK;
    RL_TRY(rl_settle(o->client, o->budget, &o->request, err));
    o->open = false;
    return ROWLOCK_OK;
}

/* OK: *rows were there to be changed. Where it is not `patient`, a try waits only for a moment for
 * an open transaction, which a slow server may take, too. */
static rowlock_status change(once *o, bool patient, rl_sql_id id, const rl_value *values,
                             uint64_t *rows, rowlock_error *err)
{
    rl_done done = {0};
    rowlock_status status =
        rl_client_change(o->client, o->budget, NULL, patient, id, values, &o->request, &done, err);
    *rows = done.rows;
    o->open = status == ROWLOCK_UNKNOWN;
    o->unread = o->unread || o->open || *rows > 0;
    if (o->open)
        return ROWLOCK_UNAVAILABLE;
    if (status == ROWLOCK_TIMEOUT)
        return rl_fail(err, ROWLOCK_BUSY,
                       "'%s': its row, or the period's, is locked by an open transaction", o->name);
    return status;
}

static bool is_unread(const void *data)
{
    return ((const once *)data)->unread;
}

/* `data` begins with *o. */
static rowlock_status until(once *o, rl_attempt attempt, void *data, rowlock_error *err)
{
    const rl_attempts how = {.budget = o->budget,
                             .outage_us = o->client->outage_us,
                             .backoff = RL_BACKOFF_USUAL,
                             .unsettled = is_unread};
    rowlock_status status = rl_attempt_until(&how, attempt, data, err);
    if (status == ROWLOCK_OK || !o->unread)
        return status;
    return rl_fail(err, ROWLOCK_UNKNOWN,
                   "the server could not be asked again: the period of '%s' may have been changed",
                   o->name);
}

/* ----------------------------------------------------------------------------------- begin */

typedef struct beginning {
    once o; /* first */
    rl_period period;
    unsigned attempts;
    bool again;
    rowlock_once_result *result;
} beginning;

typedef struct ledger_look {
    bool holds;             /* the lease is this hold's */
    char state[STATE_SIZE]; /* of the period; "": it was not begun */
    uint64_t token;         /* of its last attempt ... */
    unsigned made;          /* ... which was the first, second, ... */
    bool mine;              /* ... and is this hold's */
    bool elsewhere;         /* this hold has begun another period */
    bool other;             /* the row is of a period with another end */
    char label[ROWLOCK_LABEL_MAX * 4 + 1];
} ledger_look;

static void keep_look(void *data, const rl_cell *cells)
{
    ledger_look *seen = data;
    seen->holds = cells[0].u64 != 0;
    snprintf(seen->state, sizeof seen->state, "%s", cells[1].text);
    seen->token = cells[2].u64;
    seen->made = (unsigned)cells[3].u64;
    seen->mine = cells[4].u64 != 0;
    snprintf(seen->label, sizeof seen->label, "%s", cells[5].text);
    seen->elsewhere = cells[6].u64 != 0;
    seen->other = cells[7].u64 != 0;
}

static rowlock_status look(beginning *b, ledger_look *seen, rowlock_error *err)
{
    const rl_lock *lock = &b->o.hold->locks[0];
    const rl_value values[] = {rl_u64(lock->version),
                               rl_text(b->o.hold->owner),
                               rl_u64((uint64_t)b->period.end_us),
                               rl_u64((uint64_t)b->period.start_us),
                               rl_u64(lock->id),
                               rl_text(lock->name)};
    bool found = false;
    RL_TRY(rl_client_read(b->o.client, b->o.budget, RL_SQL_ONCE_LOOK, values, keep_look, seen,
                          &found, err));
    b->o.unread = false;
    /* Held, it cannot have been purged: the read was stopped, or the hold has been lost for long.
     */
    return found ? ROWLOCK_OK : lease_lost(&b->o, err);
}

static rowlock_status answer(const beginning *b, const ledger_look *seen, rowlock_once_begun state)
{
    b->result->state = state;
    b->result->attempt = seen->made;
    rl_copy_label(b->result->owner_label, sizeof b->result->owner_label, seen->label);
    return ROWLOCK_OK;
}

static rowlock_status insert(beginning *b, rowlock_error *err)
{
    const rl_lock *lock = &b->o.hold->locks[0];
    const rl_value values[] = {rl_u64((uint64_t)b->period.start_us),
                               rl_u64((uint64_t)b->period.end_us), rl_u64(lock->id),
                               rl_u64(lock->version), rl_text(b->o.hold->owner)};
    uint64_t ignored = 0; /* a row that is there already is counted, too */
    return change(&b->o, true, RL_SQL_ONCE_INSERT, values, &ignored, err);
}

/* Begins the period anew, whatever the row says of an earlier attempt. */
static bool is_anew(const beginning *b, const ledger_look *seen)
{
    return b->again || seen->other;
}

/* An open transaction may have said that a running attempt is done: a try hardly waits for it. */
static rowlock_status take(beginning *b, const ledger_look *seen, rowlock_error *err)
{
    const bool patient = strcmp(seen->state, "running") != 0;
    const rl_lock *lock = &b->o.hold->locks[0];
    const rl_value values[] = {rl_u64((uint64_t)b->period.end_us),
                               rl_u64(is_anew(b, seen)),
                               rl_u64(lock->id),
                               rl_u64(lock->version),
                               rl_text(b->o.hold->owner),
                               rl_u64((uint64_t)b->period.start_us),
                               rl_u64(seen->token),
                               rl_u64(b->attempts)};
    uint64_t ignored = 0;
    return change(&b->o, patient, RL_SQL_ONCE_TAKE, values, &ignored, err);
}

/* What can be answered without a change. BUSY: the period is to be begun. */
static rowlock_status decide(const beginning *b, const ledger_look *seen, rowlock_error *err)
{
    const bool done = strcmp(seen->state, "done") == 0;
    if (seen->mine && strcmp(seen->state, "running") == 0)
        return answer(b, seen, ROWLOCK_ONCE_BEGUN);
    if (seen->elsewhere || seen->mine)
        return rl_fail(err, ROWLOCK_INVALID,
                       "'%s': this hold (token %" PRIu64 ") has %s; acquire it again for the next",
                       b->o.name, b->o.hold->locks[0].version,
                       seen->elsewhere ? "begun another period" : "ended this attempt");
    if (done && !is_anew(b, seen))
        return answer(b, seen, ROWLOCK_ONCE_DONE);
    if (!seen->holds)
        return lease_lost(&b->o, err);
    if (*seen->state && !is_anew(b, seen) && seen->made >= b->attempts)
        return answer(b, seen, ROWLOCK_ONCE_USED_UP);
    if (seen->token >= b->o.hold->locks[0].version)
        return rl_fail(err, ROWLOCK_DAMAGED,
                       "'%s': somebody else has begun the period with token %" PRIu64
                       ", though this hold's (%" PRIu64 ") should be higher",
                       b->o.name, seen->token, b->o.hold->locks[0].version);
    return ROWLOCK_BUSY;
}

static rowlock_status attempt_begin(void *data, int64_t *hint_us, rowlock_error *err)
{
    beginning *b = data;
    ledger_look seen;
    RL_TRY(settle(&b->o, err));
    RL_TRY(look(b, &seen, err));
    rowlock_status status = decide(b, &seen, err);
    if (status != ROWLOCK_BUSY)
        return status;
    RL_TRY(*seen.state ? take(b, &seen, err) : insert(b, err));
    *hint_us = RL_AT_ONCE;
    return rl_fail(err, ROWLOCK_BUSY, "'%s': the period changed just now", b->o.name);
}

rowlock_status rl_once_begin(rowlock_hold *hold, const rl_budget *budget, const rl_period *period,
                             const rowlock_once_options *options, rowlock_once_result *result,
                             rowlock_error *err)
{
    beginning b = {.o = once_of(hold, budget),
                   .period = *period,
                   .attempts = options->attempts,
                   .again = options->again,
                   .result = result};
    if (rl_hold_lost(hold))
        return lease_lost(&b.o, err);
    RL_TRY(until(&b.o, attempt_begin, &b, err));
    /* From now on the ledger tells how the hold's work ended. */
    rl_hold_no_work(hold);
    return ROWLOCK_OK;
}

/* ------------------------------------------------------------------------------------- end */

typedef struct ending {
    once o; /* first */
    bool done;
    int exit_status;
} ending;

static void keep_state(void *data, const rl_cell *cells)
{
    snprintf(data, STATE_SIZE, "%s", cells[0].text);
}

/* OK: it has ended. BUSY: it is running. */
static rowlock_status look_for_end(ending *e, rowlock_error *err)
{
    const rl_lock *lock = &e->o.hold->locks[0];
    const rl_value values[] = {rl_u64(lock->version), rl_u64(lock->id)};
    char state[STATE_SIZE] = "";
    bool found = false;
    RL_TRY(rl_client_read(e->o.client, e->o.budget, RL_SQL_ONCE_STATE, values, keep_state, state,
                          &found, err));
    e->o.unread = false;
    if (strcmp(state, "running") == 0)
        return rl_fail(err, ROWLOCK_BUSY, "'%s': the period was not ended", e->o.name);
    if (strcmp(state, "done") == 0 || (!e->done && *state))
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_LOST, "'%s': the attempt with token %" PRIu64 " is over: %s",
                   e->o.name, lock->version,
                   *state ? "it has failed" : "a later one has begun, or there was none");
}

static rowlock_status attempt_end(void *data, int64_t *hint_us, rowlock_error *err)
{
    ending *e = data;
    const rl_lock *lock = &e->o.hold->locks[0];
    const rl_value values[] = {rl_u64(e->done), rl_u64((uint64_t)e->exit_status), rl_u64(lock->id),
                               rl_u64(lock->version), rl_text(e->o.hold->owner)};
    uint64_t rows = 0;
    RL_TRY(settle(&e->o, err));
    RL_TRY(change(&e->o, false, RL_SQL_ONCE_END, values, &rows, err));
    *hint_us = RL_AT_ONCE;
    return rows > 0 ? ROWLOCK_OK : look_for_end(e, err);
}

rowlock_status rl_once_end(rowlock_hold *hold, const rl_budget *budget, bool done, int exit_status,
                           rowlock_error *err)
{
    ending e = {.o = once_of(hold, budget), .done = done, .exit_status = exit_status};
    RL_TRY(until(&e.o, attempt_end, &e, err));
    hold->outcome = done ? RL_SUCCESS : RL_FAILURE;
    return ROWLOCK_OK;
}
