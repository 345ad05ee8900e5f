/*
 * How a row is acquired, whatever the kind of lock. The loop is rl_attempt_until(), in
 * wait/backoff.c; attempt() is one round of it:
 *
 *   1. take:      UPDATE the row if it is free; the OK packet carries the token.
 *   2. look:      it was not granted: read who holds it, and for how long. If it is free by now,
 *                 or reserved, take it once more (take_at_last()). A holder whose time is over may
 *                 have registered sessions: end them first (guard.c).
 *   3. take over: the holder's time is over: compare-and-swap on the version that was read.
 *
 * Between two attempts:
 *
 *   4. wait:      in the bell queue, on another connection, until that has the bell
 *                 (bell/turn.c). look_from_queue() ends the wait when the row can be had without.
 *   5. pause:     with the bell, and the row still held (its holder's connection has ended, its
 *                 lease has not); or the server has no bell: pause (wait/backoff.c), at most until
 *                 the lease ends.
 *
 * A client whose last wait for the name was a real one begins with 4 (rl_turn_waits_first()).
 *
 * A lost reply leaves the call unsettled (RL_STAGE_SETTLE): the next attempt ends the connection
 * that the request went out on (settle.c), and then looks whether the row carries this hold's
 * owner id. Only a call that ends unsettled answers UNKNOWN.
 */
#include "engine/acquire.h"

#include <inttypes.h>

#include "base/random.h"
#include "engine/guard.h"
#include "engine/settle.h"
#include "wait/backoff.h"

#define LOOK_RETRY_US   1000000 /* look again after a look that failed, or at a frozen name */
#define NO_BELL_LOOK_US 1000000 /* look again at a lease whose holder has no bell */
#define LOOK_MARGIN_US  50000   /* look again so long after the end that was read ... */
#define LOOK_JITTER_US  250000  /* ... and up to this later */
#define LOOK_MOST_US    4000000
#define COOLING_LOOK_US 200000 /* a broken lease may be opened before its time is over */
#define GUARDED_LOOK_US 20000  /* have the last holder's sessions ended? Look again */
#define RESERVED_US     20000  /* the pause of a try at a reserved lease */

/* -------------------------------------------------------------------------- one attempt */

static rowlock_status look(const rl_acquisition *a, const rl_budget *budget, rl_seen *seen,
                           rowlock_error *err)
{
    RL_TRY(rl_look(a->hold->client, budget, a->lock->id, a->lock->name, a->driver->kind,
                   a->hold->owner, seen, err));
    rl_hold_saw_frozen(a->hold, seen->frozen);
    return ROWLOCK_OK;
}

/* For an OK packet without the version: MariaDB 10.11 answers 0 for LAST_INSERT_ID(expr) where the
 * table has a trigger (an audit, say). */
static rowlock_status read_token(rl_acquisition *a, rowlock_error *err)
{
    rl_seen seen = {0};
    rowlock_status status =
        a->driver->shared ? a->driver->find(a, err) : look(a, a->budget, &seen, err);
    if (status == ROWLOCK_BUSY || (status == ROWLOCK_OK && a->driver->shared))
        return status;
    if (status != ROWLOCK_OK) {
        a->stage = RL_STAGE_SETTLE;
        return ROWLOCK_UNAVAILABLE;
    }
    if (!rl_seen_status_held(&seen) || !seen.ours)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is held", a->lock->name);
    a->lock->version = seen.version;
    return ROWLOCK_OK;
}

static rowlock_status in_use(const rl_acquisition *a, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_BUSY, "'%s' is in use by a transaction", a->lock->name);
}

rowlock_status rl_acquire_with(rl_acquisition *a, rl_conn *conn, bool known_free, rl_sql_id id,
                               const rl_value *values, rowlock_error *err)
{
    rl_done done = {0};
    rl_trace trace = {0};
    int64_t sent_us = rl_now_us();
    rowlock_status status =
        rl_client_change_on(conn, a->budget, known_free, id, values, &trace, &done, err);
    a->turn.change_us = rl_now_us() - sent_us;
    a->met_transaction = status == ROWLOCK_BUSY || status == ROWLOCK_TIMEOUT;
    if (status == ROWLOCK_TIMEOUT && a->budget->try_once)
        return in_use(a, err);
    if (status != ROWLOCK_OK && status != ROWLOCK_UNKNOWN)
        return status;
    if (status == ROWLOCK_OK && done.rows == 0)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is held", a->lock->name);
    a->request = trace;
    a->was_close = false;
    /* UNAVAILABLE makes rl_attempt_until() call attempt() again; RL_STAGE_SETTLE says that the
     * request may have been granted. */
    if (status == ROWLOCK_UNKNOWN) {
        a->stage = RL_STAGE_SETTLE;
        return ROWLOCK_UNAVAILABLE;
    }
    rl_bell_note_commit(a->turn.bells, a->turn.change_us);
    a->lock->version = done.insert_id;
    return done.insert_id ? ROWLOCK_OK : read_token(a, err);
}

static rowlock_status held_by(const rl_acquisition *a, const rl_seen *seen, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_BUSY,
                   "'%s' is held by %s (token %" PRIu64 ", lease ends in %.3f s)", a->lock->name,
                   seen->label, seen->version, (double)seen->left_us / 1e6);
}

/* The next writer waits for the readers to leave. */
static rowlock_status drained_by(rl_acquisition *a, const rl_seen *seen, rowlock_error *err)
{
    a->hint_us = seen->left_us + 1000;
    return rl_fail(err, ROWLOCK_BUSY, "'%s' is held by readers, and %s is the next writer",
                   a->lock->name, seen->label);
}

/* When to look again at a lease that ends after `after_us`, if the bell does not ring. */
static int64_t look_again(int64_t after_us)
{
    int64_t us = after_us < LOOK_MOST_US ? after_us : LOOK_MOST_US;
    return rl_now_us() + us + LOOK_MARGIN_US + (int64_t)(rl_random_u32() % LOOK_JITTER_US);
}

/* Of a call that does not wait: it looks once more, a moment later. */
static void give_moment(rl_acquisition *a, int64_t us)
{
    if (!a->budget->try_once)
        return;
    rl_give_moment(a->budget, us);
    a->hint_us = RL_AT_ONCE;
}

/*
 * The row is free, but another connection has the bell: the waiter that was woken will take the row
 * at once, or that connection is being closed, and its bell will be free. A call that does not wait
 * gives that a moment.
 */
static rowlock_status reserved(rl_acquisition *a, rowlock_error *err)
{
    give_moment(a, RESERVED_US);
    return rl_fail(err, ROWLOCK_BUSY, "'%s' is free, but reserved for the next waiter",
                   a->lock->name);
}

static rowlock_status cooling(rl_acquisition *a, const rl_seen *seen, rowlock_error *err)
{
    /* It cannot be taken earlier, even if the bell rings. */
    a->hint_us =
        RL_NOT_BEFORE(seen->left_us < COOLING_LOOK_US ? seen->left_us + 1000 : COOLING_LOOK_US);
    a->turn.look_us = look_again(seen->left_us);
    return rl_fail(err, ROWLOCK_BUSY,
                   "nobody holds '%s', but it is closed for another %.3f s (at-least, or it was "
                   "broken)",
                   a->lock->name, (double)seen->left_us / 1e6);
}

/* The present holder or readers keep it; no other client gets it until it is thawed, at any
 * time. */
static rowlock_status frozen(rl_acquisition *a, rowlock_error *err)
{
    a->hint_us = RL_NOT_BEFORE(COOLING_LOOK_US);
    a->turn.look_us = look_again(LOOK_MOST_US);
    return rl_fail(err, ROWLOCK_BUSY, "'%s' is frozen", a->lock->name);
}

/* Ends the sessions that the last holder registered; no client gets the lease before. */
static rowlock_status end_sessions(rl_acquisition *a, const rl_seen *seen, rowlock_error *err)
{
    const rl_guard guard = {.id = a->lock->id, .name = a->lock->name, .version = seen->guarded};
    rowlock_status status =
        rl_guard_end(a->hold->client, a->budget, &guard, &a->sessions_ended, err);
    if (status != ROWLOCK_BUSY)
        return status;
    a->turn.look_us = look_again(0);
    a->hint_us = RL_NOT_BEFORE(GUARDED_LOOK_US);
    give_moment(a, RESERVED_US / 4);
    return status;
}

static rowlock_status take_at_last(rl_acquisition *a, const rl_seen *seen, rowlock_error *err)
{
    if (a->turn.take_without_bell && seen->connection_id != 0)
        /* The waiter that was woken did not take the row: end its connection, so that others wait
         * on. (0: none was woken; then a SQL session may have the bell, whose lease another one
         * released.) */
        rl_bell_seize(&a->hold->client->bells, a->budget, a->lock->id, RL_ANY_ASLEEP);
    rowlock_status status = a->driver->take(a, true, err);
    if (status != ROWLOCK_BUSY)
        return status;
    /* A try has waited for the row as long as the server lets it. */
    return a->met_transaction && a->budget->try_once ? in_use(a, err) : reserved(a, err);
}

/* Purged after its id was read: the next attempt makes it again. */
static rowlock_status purged(rl_acquisition *a, rowlock_error *err)
{
    rl_resource_forget(a->hold->client, a->lock->name);
    a->hint_us = RL_AT_ONCE;
    return rl_fail(err, ROWLOCK_BUSY, "'%s' was purged just now", a->lock->name);
}

/* Would a try, which was stopped at its change, change this row again, for as short a time? */
static bool changes_again(const rl_acquisition *a, const rl_seen *seen)
{
    const bool has_readers =
        seen->verdict == RL_VERDICT_SHARED || seen->verdict == RL_VERDICT_DRAINING;
    return seen->verdict == RL_VERDICT_EXPIRED || (has_readers && !a->driver->shared);
}

/* Acts on the verdict. BUSY: wait, by a->hint_us and a->turn.look_us. */
static rowlock_status decide(rl_acquisition *a, const rl_seen *seen, rowlock_error *err)
{
    bool granted = a->stage == RL_STAGE_SETTLE && rl_seen_status_held(seen) && seen->ours;
    bool was_stopped =
        a->stage == RL_STAGE_SETTLE && rl_try_was_stopped(a->budget, ROWLOCK_UNKNOWN, &a->request);
    a->stage = a->turn.take_without_bell ? RL_STAGE_LOOK : RL_STAGE_TAKE;
    if (granted) {
        a->lock->version = seen->version;
        return ROWLOCK_OK;
    }
    /* Are we still the row's next writer? If that has expired, another writer may be it, or may
     * hold the lease by now. */
    a->draining = a->draining && (seen->verdict == RL_VERDICT_SHARED ||
                                  (seen->verdict == RL_VERDICT_DRAINING && seen->ours));
    if (a->upgrade && seen->version != a->lock->version)
        return rl_fail(err, ROWLOCK_LOST, "'%s' is no longer held (token %" PRIu64 ")",
                       a->lock->name, a->lock->version);
    if (a->upgrade && !a->draining)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' was closed by another writer", a->lock->name);
    if (was_stopped && changes_again(a, seen))
        return in_use(a, err);
    if (seen->guarded && !seen->frozen)
        RL_TRY(end_sessions(a, seen, err));
    const bool is_there =
        seen->verdict != RL_VERDICT_GONE && seen->verdict != RL_VERDICT_WRONG_KIND;
    if (seen->frozen && is_there && seen->verdict != RL_VERDICT_HELD && !a->upgrade)
        return frozen(a, err);
    switch (seen->verdict) {
    case RL_VERDICT_GONE:
        return purged(a, err);
    case RL_VERDICT_WRONG_KIND:
        return rl_resource_wrong_kind(a->lock->name, seen->kind, a->driver->kind, err);
    case RL_VERDICT_HELD:
        a->hint_us = seen->left_us + 1000;
        a->turn.look_us = look_again(seen->left_us);
        return held_by(a, seen, err);
    case RL_VERDICT_EXPIRED:
        return a->driver->take_over(a, seen, err);
    case RL_VERDICT_DRAINING:
        a->turn.look_us = look_again(seen->left_us);
        if (!seen->ours || a->driver->shared)
            return drained_by(a, seen, err);
        return a->driver->drain(a, seen, err);
    case RL_VERDICT_SHARED:
        if (a->driver->shared)
            break;
        if (a->turn.take_without_bell)
            rl_bell_seize(&a->hold->client->bells, a->budget, a->lock->id, RL_ANY_ASLEEP);
        return a->driver->drain(a, seen, err);
    case RL_VERDICT_COOLING:
        return cooling(a, seen, err);
    case RL_VERDICT_RESERVED:
    case RL_VERDICT_FREE:
        break;
    }
    return take_at_last(a, seen, err);
}

static rowlock_status look_and_decide(rl_acquisition *a, rowlock_error *err)
{
    rl_seen seen;
    RL_TRY(look(a, a->budget, &seen, err));
    return decide(a, &seen, err);
}

static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    rl_acquisition *a = data;
    rowlock_client *client = a->hold->client;
    RL_TRY(rl_resource_id(client, a->budget, a->lock->name, a->driver->kind, &a->lock->id, err));
    a->turn.resource_id = a->lock->id;
    a->hint_us = 0;
    rowlock_status status = ROWLOCK_BUSY;
    if (a->stage == RL_STAGE_SETTLE)
        RL_TRY(rl_settle(client, a->budget, &a->request, err));
    if (a->stage == RL_STAGE_SETTLE && a->driver->shared) {
        status = a->driver->find(a, err);
        if (status != ROWLOCK_BUSY)
            return status;
        /* What a try had to stop, decide() asks for again, if the look says that it may enter. */
        if (!rl_try_was_stopped(a->budget, ROWLOCK_UNKNOWN, &a->request))
            a->stage = RL_STAGE_TAKE;
    }
    if (a->stage == RL_STAGE_TAKE) {
        if (!a->turn.take_without_bell && !a->draining && rl_turn_waits_first(&a->turn))
            return rl_fail(err, ROWLOCK_BUSY, "'%s' is held", a->lock->name);
        status = a->driver->take(a, false, err);
    }
    if (status == ROWLOCK_BUSY)
        status = look_and_decide(a, err);
    if (status != ROWLOCK_OK && a->draining && a->stage == RL_STAGE_TAKE)
        a->stage = RL_STAGE_LOOK;
    *hint_us = a->hint_us;
    if (status == ROWLOCK_BUSY && a->upgrade && !a->draining) {
        *hint_us = RL_FINAL;
        return rl_fail(err, ROWLOCK_DEADLOCK,
                       "another writer waits for '%s'; release it and acquire it again",
                       a->lock->name);
    }
    return status;
}

/* ------------------------------------------------------------------------------ waiting */

/*
 * Called now and then while the call stands in the bell queue, on another connection: true if the
 * lease could have been taken for a while although nobody rang. Its holder is stopped then, or cut
 * off from the server.
 */
static bool look_from_queue(void *data, int64_t *again_us)
{
    rl_acquisition *a = data;
    rl_seen seen;
    /* Ends before the call's own deadline. */
    rl_budget budget = rl_budget_start(0, rl_budget_left_ms(a->budget), a->budget->cancel);
    budget.abrupt = true;
    if (look(a, &budget, &seen, NULL) != ROWLOCK_OK) {
        *again_us = look_again(LOOK_RETRY_US);
        return false;
    }
    /* The server is no longer the primary: the statement that takes the row will be refused. */
    if (seen.read_only)
        return true;
    int64_t left_us = seen.left_us;
    if (seen.verdict == RL_VERDICT_WRONG_KIND)
        left_us = 0;
    if (seen.verdict == RL_VERDICT_HELD && seen.connection_id == 0 && left_us > NO_BELL_LOOK_US)
        left_us = NO_BELL_LOOK_US;
    if (seen.frozen && left_us < LOOK_RETRY_US)
        left_us = LOOK_RETRY_US;
    *again_us = look_again(left_us);
    if (left_us <= 0)
        a->stage = RL_STAGE_LOOK;
    return left_us <= 0;
}

static rowlock_status await_turn(void *data, rowlock_error *err)
{
    rl_acquisition *a = data;
    /* We are the next writer, and the name is closed for all others: there is no line. */
    if (a->draining)
        return ROWLOCK_BUSY;
    a->stage = RL_STAGE_TAKE;
    return rl_turn_await(&a->turn, err);
}

/* Puts the holder into the message, and notes whether the name is frozen. The deadline has passed:
 * the look may take half of RL_GRACE_US (RL_GRACE_US / 2000 is that in ms). */
static void name_holder(const rl_acquisition *a, rowlock_error *err)
{
    rl_budget budget = rl_budget_start(0, RL_GRACE_US / 2000, NULL);
    rowlock_error why = {0};
    rl_seen seen;
    budget.abrupt = true;
    if (look(a, &budget, &seen, NULL) != ROWLOCK_OK || !rl_seen_status_held(&seen) || seen.guarded)
        return;
    (void)held_by(a, &seen, &why);
    rl_fail(err, ROWLOCK_TIMEOUT, "%s: %s", rowlock_status_text(ROWLOCK_TIMEOUT), why.message);
}

static bool unsettled(const void *data)
{
    return ((const rl_acquisition *)data)->stage == RL_STAGE_SETTLE;
}

static rowlock_status acquire_row(rl_acquisition *a, rowlock_error *err)
{
    const rl_attempts how = {.budget = a->budget,
                             .outage_us = a->hold->client->outage_us,
                             .backoff = RL_BACKOFF_USUAL,
                             .unsettled = unsettled,
                             .await = await_turn};
    rowlock_status status = rl_attempt_until(&how, attempt, a, err);
    if (status != ROWLOCK_OK && a->draining)
        a->driver->give_up(a);
    rl_turn_end(&a->turn, status == ROWLOCK_OK && !a->driver->shared);
    if (status == ROWLOCK_TIMEOUT && a->lock->id)
        name_holder(a, err);
    if (status != ROWLOCK_OK && unsettled(a) && !a->was_close)
        return rl_fail(
            err, ROWLOCK_UNKNOWN,
            "the reply was lost and the server could not be asked again: the name may stay "
            "taken, though no program holds it, for up to %" PRId64 " ms",
            a->hold->held.ttl_us / 1000);
    return status;
}

/* ------------------------------------------------------------------------------ granted */

/* Was it granted by the server that answers now, with a token above all earlier ones? */
static rowlock_status check_server_and_token(const rl_acquisition *a, rowlock_error *err)
{
    rowlock_client *client = a->hold->client;
    if (a->request.identity != atomic_load(&client->pool.identity))
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "'%s' was granted, but " RL_MOVED "; its lease there runs out by itself",
                       a->lock->name);
    /* Members have the token of a generation, which is the same for all of them. */
    if (a->hold->member != RL_NO_MEMBER)
        return ROWLOCK_OK;
    if (a->driver->shared)
        return rl_resource_check_shared_token(client, a->lock->name, a->lock->version, err);
    return rl_resource_check_token(client, a->budget, a->lock->name, a->lock->id, a->lock->version,
                                   a->hold->owner, err);
}

static rowlock_status begin_hold(const rl_acquisition *a, rowlock_error *err)
{
    rowlock_hold *hold = a->hold;
    hold->held.identity = a->request.identity;
    rl_held_start(&hold->held, a->request.sent_us, a->hold->held.ttl_us);
    if (rl_hold_lost(hold)) {
        (void)!rl_free_row(a->driver, hold, NULL);
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "the server took longer than the TTL to answer; the lease is given back");
    }
    rowlock_status status = check_server_and_token(a, err);
    if (status != ROWLOCK_OK && a->driver->shared)
        (void)!rl_free_row(a->driver, hold, NULL);
    if (status != ROWLOCK_OK)
        rl_bell_give_up(&hold->client->bells, &hold->bell, a->lock->id);
    return status;
}

rl_acquisition rl_acquisition_of(const rl_driver *driver, rowlock_hold *hold,
                                 const rl_budget *budget)
{
    return (rl_acquisition){
        .driver = driver, .hold = hold, .budget = budget, .lock = &hold->locks[0]};
}

static void begin_turn(rl_acquisition *a)
{
    a->turn = (rl_turn){.bells = &a->hold->client->bells,
                        .budget = a->budget,
                        .owner = a->hold->owner,
                        .label = a->hold->client->label,
                        .ttl_us = a->hold->held.ttl_us,
                        .look = look_from_queue,
                        .data = a};
}

rowlock_status rl_acquired(const rl_acquisition *a, const rowlock_acquire_options *options,
                           rowlock_error *err)
{
    RL_TRY(begin_hold(a, err));
    if (options->max_hold_ms)
        a->hold->held.end_us = rl_time_add(a->request.sent_us, options->max_hold_ms * 1000);
    rl_hold_begin(a->hold, a->budget, *a->taken_over ? a->taken_over : NULL);
    return ROWLOCK_OK;
}

rowlock_status rl_acquire(const rl_driver *driver, rowlock_hold *hold,
                          const rowlock_acquire_options *options, const rl_budget *budget,
                          rowlock_error *err)
{
    rl_acquisition a = rl_acquisition_of(driver, hold, budget);
    begin_turn(&a);
    RL_TRY(acquire_row(&a, err));
    return rl_acquired(&a, options, err);
}

rowlock_status rl_acquire_alone(const rl_driver *driver, rowlock_hold *hold,
                                const rl_budget *budget, rowlock_error *err)
{
    rl_acquisition a = rl_acquisition_of(driver, hold, budget);
    begin_turn(&a);
    a.upgrade = a.draining = true;
    a.stage = RL_STAGE_LOOK;
    rowlock_status status = acquire_row(&a, err);
    /* It may have become the writer's, which is not renewed. */
    if (status == ROWLOCK_UNKNOWN)
        rl_hold_give_up(hold);
    else if (status != ROWLOCK_OK && a.left_alone)
        rl_hold_keep_again(hold);
    if (status != ROWLOCK_OK)
        return status;
    hold->shared = false;
    rl_hold_changed(hold, a.request.sent_us);
    if (rl_hold_lost(hold))
        status = rl_fail(err, ROWLOCK_LOST, "'%s' was lost before it was held alone", a.lock->name);
    else
        status = check_server_and_token(&a, err);
    /* It is not given back here: another thread may work until it hears of the loss, and so long
     * the caller was promised that no other client gets the lock. */
    if (status != ROWLOCK_OK)
        rl_hold_give_up(hold);
    return status;
}
