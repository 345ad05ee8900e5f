/*
 * The lease. Acquire, as the design has it:
 *
 *   1. take_free():  UPDATE the row if it is free; the OK packet carries the token. The bell
 *                    comes with it, unless somebody waits who was there before.
 *   2. look():       nobody gave it to us: who has it, and for how long?
 *   3. take_over():  its time is over: compare-and-swap on the version that was seen.
 *   4. await_turn(): wait until the bell is ours (bell/turn.c), and begin again.
 *   5. still held then (its holder lost the bell, not the lease), or no bell there: wait
 *                    (wait/backoff.c), at most as long as the lease still runs.
 *
 * Who had to wait the last time begins with 4.
 *
 * A reply that was lost leaves the call `open`: the next thing it does is to make sure that
 * the server is done with the request (settle.c), and to look whether the row carries its
 * owner id. Only a call that ends open says UNKNOWN.
 */
#include "kind/lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/random.h"
#include "bell/turn.h"
#include "engine/settle.h"
#include "engine/verdict.h"
#include "stmt/session.h"
#include "wait/backoff.h"

#define FIRST_DELAY_US  5000
#define MOST_DELAY_US   250000
#define RUNG_SOON_US    1000000 /* what became free so lately is somebody's whose bell rings */
#define UNRUNG_LOOK_US  1000000 /* looking again at a lease whose holder has no bell to ring */
#define LOOK_MARGIN_US  50000   /* looking again: so long after the time that was seen ... */
#define LOOK_JITTER_US  250000  /* ... and up to this later */
#define LOOK_MOST_US    4000000
#define SHUT_LOOK_US    200000   /* a lease that was broken may be opened before its time */
#define KEPT_US         20000    /* a try, at what is free and kept: between its few attempts */
#define TOUCH_AFTER_US  15000000 /* connections with bells that were idle for so long */
#define LOST_LIMIT_MS   1000     /* for the release of what is lost already */
#define LABEL_IN_DETAIL 251      /* bytes of a label in an event, its end included */

typedef struct lease_row {
    char kind[17];
    rl_verdict verdict;
    int64_t left_us; /* how long that lasts if nobody changes the row */
    uint64_t version;
    bool ours; /* the owner id is the asking hold's */
    char label[ROWLOCK_LABEL_MAX * 4 + 1];
    int64_t held_us;
    uint64_t connection_id; /* on which its holder has the bell; 0: it has none */
    bool read_only;         /* the server */
} lease_row;

typedef struct lease_call {
    rowlock_hold *hold;
    const rl_budget *budget;
    rl_lock *lock;
    int64_t ttl_us; /* of this acquisition: the TTL, or a shorter max_hold */
    rl_turn turn;
    bool demoted; /* the server has become read-only meanwhile */
    bool open;    /* a request's reply was lost; it may have been granted */
    rl_trace lost_request;
    int64_t sent_us;   /* before the request that was granted */
    uint64_t identity; /* of the server that granted it */
    bool patient;      /* the row is free: only the server is slow */
    bool over;         /* taken over from a holder whose time was over */
    char detail[400];
} lease_call;

static void keep_row(void *data, const rl_cell *cells)
{
    lease_row *row = data;
    snprintf(row->kind, sizeof row->kind, "%s", cells[0].text);
    row->verdict = rl_verdict_of(cells[1].text);
    row->left_us = cells[2].i64;
    row->version = cells[3].u64;
    row->ours = cells[4].u64 != 0;
    snprintf(row->label, sizeof row->label, "%s", cells[5].text);
    row->held_us = cells[6].i64;
    row->connection_id = cells[7].u64;
    row->read_only = cells[8].u64 != 0;
}

static rowlock_status look(const rowlock_hold *hold, const rl_budget *budget, lease_row *row,
                           rowlock_error *err)
{
    const rl_lock *lock = &hold->locks[0];
    const rl_value values[] = {rl_u64(lock->id), rl_text(lock->name), rl_text(hold->owner)};
    bool found = false;
    *row = (lease_row){.verdict = RL_VERDICT_GONE};
    return rl_client_read(hold->client, budget, RL_SQL_LEASE_LOOK, values, keep_row, row, &found,
                          err);
}

static bool is_held(const lease_row *row)
{
    return row->verdict == RL_VERDICT_HELD || row->verdict == RL_VERDICT_EXPIRED;
}

/* The row is ours; which version it has, the OK packet did not say: with a trigger on the table
 * (somebody's audit), MariaDB 10.11 answers 0 for LAST_INSERT_ID(expr). */
static rowlock_status read_token(lease_call *call, const rl_trace *trace, rowlock_error *err)
{
    lease_row row;
    rowlock_status status = look(call->hold, call->budget, &row, err);
    if (status != ROWLOCK_OK) {
        call->open = true;
        call->lost_request = *trace;
        return ROWLOCK_UNAVAILABLE;
    }
    if (!is_held(&row) || !row.ours)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is held", call->lock->name);
    call->lock->version = row.version;
    return ROWLOCK_OK;
}

/* The statement changed a row, or none, or nobody knows. BUSY: none. */
static rowlock_status granted(lease_call *call, rowlock_status status, const rl_done *done,
                              const rl_trace *trace, rowlock_error *err)
{
    if (status == ROWLOCK_UNKNOWN) {
        call->open = true;
        call->lost_request = *trace;
        return ROWLOCK_UNAVAILABLE;
    }
    if (status == ROWLOCK_TIMEOUT && call->budget->try_once)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is in use by a transaction", call->lock->name);
    if (status != ROWLOCK_OK)
        return status;
    if (done->rows == 0)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is held", call->lock->name);
    call->sent_us = trace->sent_us;
    call->identity = trace->identity;
    call->lock->version = done->insert_id;
    return done->insert_id ? ROWLOCK_OK : read_token(call, trace, err);
}

/* On the connection that has the bell, when it is our turn; else on one that may get it. */
static rowlock_status take_conn(lease_call *call, rl_conn **conn, rowlock_error *err)
{
    rl_pool *pool = &call->hold->client->pool;
    rl_io io = rl_budget_quick_io(call->budget);
    *conn = call->turn.conn;
    if (*conn)
        return ROWLOCK_OK;
    const rl_request wanted = {
        .pins = atomic_load(&call->hold->client->bells.polls) ? RL_PINS_FEW : RL_PINS_MANY};
    return rl_pool_take(pool, &wanted, &io, conn, err);
}

static void give_conn(lease_call *call, rl_conn *conn)
{
    if (conn != call->turn.conn)
        rl_pool_give(&call->hold->client->pool, conn);
    else if (conn->broken || conn->interrupted)
        rl_turn_lose_bell(&call->turn);
}

static rowlock_status change_on(lease_call *call, rl_conn *conn, rl_sql_id id,
                                const rl_value *values, rowlock_error *err)
{
    rl_done done = {0};
    rl_trace trace = {.sent_us = rl_now_us()};
    rowlock_status status =
        rl_client_change_on(conn, call->budget, call->patient, id, values, &trace, &done, err);
    call->turn.change_us = rl_now_us() - trace.sent_us;
    return granted(call, status, &done, &trace, err);
}

/* The server ends a connection that it has not heard of for long, and takes its bells. */
static rowlock_status may_be_silent(lease_call *call, rl_conn *conn, rowlock_error *err)
{
    uint64_t ttl_s = (uint64_t)(call->ttl_us / 1000000) + 1;
    rl_io io = rl_budget_quick_io(call->budget);
    rowlock_status status =
        conn->idle_limit_s < ttl_s ? rl_set_idle_limit(conn, ttl_s, &io, err) : ROWLOCK_OK;
    return rl_no_effect(status, err);
}

/* How to take it: with its bell, as the one who has it, or without. */
static rl_sql_id way_to_take(const lease_call *call)
{
    if (call->turn.conn)
        return RL_SQL_LEASE_INHERIT;
    bool quiet = atomic_load(&call->hold->client->bells.polls) || call->turn.unrung;
    return quiet ? RL_SQL_LEASE_ACQUIRE_QUIET : RL_SQL_LEASE_ACQUIRE;
}

static rowlock_status take_free_on(lease_call *call, rl_conn *conn, rl_sql_id way,
                                   rowlock_error *err)
{
    rowlock_hold *hold = call->hold;
    const rl_value values[] = {rl_text(hold->owner),           rl_text(hold->client->label),
                               rl_u64((uint64_t)call->ttl_us), rl_u64(call->lock->id),
                               rl_text(call->lock->name),      rl_text(hold->client->bells.prefix)};
    bool with_bell = way == RL_SQL_LEASE_ACQUIRE;
    rowlock_status status = with_bell ? may_be_silent(call, conn, err) : ROWLOCK_OK;
    if (status == ROWLOCK_OK)
        status = change_on(call, conn, way, values, err);
    if (status == ROWLOCK_OK && way != RL_SQL_LEASE_ACQUIRE_QUIET)
        rl_bell_keep(&hold->bell, conn, !with_bell);
    return status;
}

static rowlock_status take_free(lease_call *call, rowlock_error *err)
{
    rl_sql_id way = way_to_take(call);
    rl_conn *conn = NULL;
    rowlock_status status = take_conn(call, &conn, err);
    if (status != ROWLOCK_OK)
        return status;
    rowlock_error spare = {0};
    err = rl_error_or(err, &spare);
    status = take_free_on(call, conn, way, err);
    if (way == RL_SQL_LEASE_ACQUIRE && rl_bell_refused(&call->hold->client->bells, status, err))
        status = take_free_on(call, conn, RL_SQL_LEASE_ACQUIRE_QUIET, err);
    else if (way == RL_SQL_LEASE_ACQUIRE && status != ROWLOCK_OK && status != ROWLOCK_BUSY)
        /* It may have the bell, and not the lease: the server takes it back with the connection. */
        conn->broken = true;
    give_conn(call, conn);
    return status;
}

/* From who had it on that connection, if it has; for the next one who waits. */
static void take_bell_too(lease_call *call, rl_conn *conn, uint64_t from_connection)
{
    rowlock_client *client = call->hold->client;
    rl_io io = rl_budget_quick_io(call->budget);
    bool has_bell = conn == call->turn.conn;
    if (!has_bell)
        rl_bell_seize(&client->bells, call->budget, call->lock->id, from_connection);
    if (!has_bell && (atomic_load(&client->bells.polls) ||
                      rl_bell_take(conn, client->bells.prefix, call->lock->id, &io) != ROWLOCK_OK))
        return;
    rl_bell_keep(&call->hold->bell, conn, has_bell);
}

static void note_taken_over(lease_call *call, const lease_row *row)
{
    char label[LABEL_IN_DETAIL];
    rl_copy_label(label, sizeof label, row->label);
    call->over = true;
    snprintf(call->detail, sizeof call->detail,
             "from %s, token %" PRIu64 ", held %" PRId64 " ms, whose lease ran out", label,
             row->version, row->held_us / 1000);
}

static rowlock_status take_over(lease_call *call, const lease_row *row, rowlock_error *err)
{
    const rl_conn *bell = call->turn.conn;
    const rl_value values[] = {rl_u64(row->version),
                               rl_text(call->hold->owner),
                               rl_text(call->hold->client->label),
                               rl_u64(bell ? bell->id : 0),
                               rl_u64((uint64_t)call->ttl_us),
                               rl_u64(call->lock->id),
                               rl_text(call->lock->name)};
    rl_conn *conn = NULL;
    rowlock_status status = take_conn(call, &conn, err);
    if (status != ROWLOCK_OK)
        return status;
    status = change_on(call, conn, RL_SQL_LEASE_TAKE_OVER, values, err);
    if (status == ROWLOCK_OK) {
        take_bell_too(call, conn, row->connection_id);
        note_taken_over(call, row);
    }
    give_conn(call, conn);
    return status;
}

static rowlock_status held_by(const lease_call *call, const lease_row *row, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_BUSY,
                   "'%s' is held by %s (token %" PRIu64 ", lease until %.3f s from now)",
                   call->lock->name, row->label, row->version, (double)row->left_us / 1e6);
}

/* It is ours since the request whose reply was lost. */
static rowlock_status adopt(lease_call *call, const lease_row *row)
{
    call->lock->version = row->version;
    call->sent_us = call->lost_request.sent_us;
    call->identity = call->lost_request.identity;
    call->open = false;
    return ROWLOCK_OK;
}

/* When to look again at what will be free so long from now, if nobody rings. */
static int64_t look_again(int64_t after_us)
{
    int64_t us = after_us < LOOK_MOST_US ? after_us : LOOK_MOST_US;
    return rl_now_us() + us + LOOK_MARGIN_US + (int64_t)(rl_random_u32() % LOOK_JITTER_US);
}

/*
 * Free, and somebody else has the bell: whoever was woken comes for it at once, or else a
 * connection is being closed, and the server will give its bell back. A try gives that a moment.
 */
static rowlock_status kept_free(const lease_call *call, int64_t *hint_us, rowlock_error *err)
{
    rl_budget moment = *call->budget;
    if (moment.try_once) {
        moment.deadline_us = RL_NEVER;
        rl_give_time(&moment, KEPT_US);
        *hint_us = RL_AT_ONCE;
    }
    return rl_fail(err, ROWLOCK_BUSY, "'%s' is free, but reserved for the next waiter",
                   call->lock->name);
}

static rowlock_status cooling(lease_call *call, const lease_row *row, int64_t *hint_us,
                              rowlock_error *err)
{
    /* Not even a bell would open it. */
    *hint_us = RL_NOT_BEFORE(row->left_us < SHUT_LOOK_US ? row->left_us + 1000 : SHUT_LOOK_US);
    call->turn.look_us = look_again(row->left_us);
    return rl_fail(err, ROWLOCK_BUSY,
                   "'%s' is free, but shut for another %.3f s (at_least, or it was broken)",
                   call->lock->name, (double)row->left_us / 1e6);
}

static rowlock_status take_at_last(lease_call *call, int64_t *hint_us, rowlock_error *err)
{
    call->patient = true;
    if (call->turn.unrung)
        /* Whoever was woken has not come for it: the bell is for those who do. */
        rl_bell_seize(&call->hold->client->bells, call->budget, call->lock->id, RL_ANY_ASLEEP);
    rowlock_status status = take_free(call, err);
    return status == ROWLOCK_BUSY ? kept_free(call, hint_us, err) : status;
}

/* Since we learned its id: it is made again at the next attempt. */
static rowlock_status purged(const lease_call *call, int64_t *hint_us, rowlock_error *err)
{
    rl_resource_forget(call->hold->client, call->lock->name);
    *hint_us = RL_AT_ONCE;
    return rl_fail(err, ROWLOCK_BUSY, "'%s' was purged just now", call->lock->name);
}

/* What the row says decides. BUSY with a hint: wait. */
static rowlock_status decide(lease_call *call, const lease_row *row, int64_t *hint_us,
                             rowlock_error *err)
{
    if (call->open && is_held(row) && row->ours)
        return adopt(call, row);
    call->open = false;
    switch (row->verdict) {
    case RL_VERDICT_GONE:
        return purged(call, hint_us, err);
    case RL_VERDICT_WRONG_KIND:
        return rl_resource_wrong_kind(call->lock->name, row->kind, RL_KIND_LEASE, err);
    case RL_VERDICT_HELD:
        *hint_us = row->left_us + 1000;
        call->turn.look_us = look_again(row->left_us);
        return held_by(call, row, err);
    case RL_VERDICT_EXPIRED:
        return take_over(call, row, err);
    case RL_VERDICT_COOLING:
        return cooling(call, row, hint_us, err);
    case RL_VERDICT_RESERVED:
    case RL_VERDICT_FREE:
        break;
    }
    return take_at_last(call, hint_us, err);
}

static rowlock_status look_and_decide(lease_call *call, int64_t *hint_us, rowlock_error *err)
{
    lease_row row;
    rowlock_status status = ROWLOCK_OK;
    if (call->open)
        status = rl_settle(call->hold->client, call->budget, &call->lost_request, err);
    if (status == ROWLOCK_OK)
        status = look(call->hold, call->budget, &row, err);
    return status == ROWLOCK_OK ? decide(call, &row, hint_us, err) : status;
}

static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    lease_call *call = data;
    rowlock_status status = rl_resource_id(call->hold->client, call->budget, call->lock->name,
                                           RL_KIND_LEASE, &call->lock->id, err);
    if (status != ROWLOCK_OK)
        return status;
    call->turn.resource_id = call->lock->id;
    if (call->open || (call->turn.unrung && !call->demoted))
        return look_and_decide(call, hint_us, err);
    if (!call->turn.unrung && rl_turn_waits_first(&call->turn))
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is held", call->lock->name);
    status = take_free(call, err);
    return status == ROWLOCK_BUSY ? look_and_decide(call, hint_us, err) : status;
}

/* ----------------------------------------------------------------------------- waiting */

static int64_t look_limit_ms(const rl_budget *budget)
{
    int64_t left_ms = budget->deadline_us == RL_NEVER ? budget->limit_us / 1000
                                                      : (budget->deadline_us - rl_now_us()) / 1000;
    if (left_ms < 1)
        return 1;
    return left_ms < budget->limit_us / 1000 ? left_ms : budget->limit_us / 1000;
}

/*
 * In the queue, now and then: has the lease been there to be taken for a while, although nobody
 * rang? Then whoever has the bell is stopped, or cut off from the server without its noticing.
 */
static bool look_from_queue(void *data, int64_t *again_us)
{
    lease_call *call = data;
    lease_row row;
    /* Over before the call's own deadline is. */
    rl_budget budget = rl_budget_start(0, look_limit_ms(call->budget), call->budget->cancel);
    budget.abrupt = true;
    if (look(call->hold, &budget, &row, NULL) != ROWLOCK_OK) {
        *again_us = look_again(RUNG_SOON_US);
        return false;
    }
    if (row.verdict == RL_VERDICT_GONE || row.verdict == RL_VERDICT_WRONG_KIND)
        return true;
    /* Not the primary any more: what changes the row will be told so. */
    call->demoted = row.read_only;
    int64_t left_us = row.left_us;
    if (row.verdict == RL_VERDICT_HELD && row.connection_id == 0 && left_us > UNRUNG_LOOK_US)
        left_us = UNRUNG_LOOK_US;
    *again_us = look_again(left_us);
    return left_us <= 0 || call->demoted;
}

static rowlock_status await_turn(void *data, rowlock_error *err)
{
    lease_call *call = data;
    return rl_turn_await(&call->turn, err);
}

/* For the message alone, and quickly: the call's time is over. */
static void tell_holder(const lease_call *call, rowlock_error *err)
{
    rl_budget budget = rl_budget_start(0, RL_GRACE_US / 2000, NULL);
    rowlock_error why = {0};
    lease_row row;
    budget.abrupt = true;
    if (!err || look(call->hold, &budget, &row, NULL) != ROWLOCK_OK || !is_held(&row))
        return;
    (void)held_by(call, &row, &why);
    rl_fail(err, ROWLOCK_TIMEOUT, "%s: %s", rowlock_status_text(ROWLOCK_TIMEOUT), why.message);
}

static bool unsettled(const void *data)
{
    return ((const lease_call *)data)->open;
}

static rowlock_status acquire_row(lease_call *call, rowlock_error *err)
{
    const rl_attempts how = {.budget = call->budget,
                             .outage_us = call->hold->client->outage_us,
                             .backoff = {.first_us = FIRST_DELAY_US, .most_us = MOST_DELAY_US},
                             .unsettled = unsettled,
                             .await = await_turn};
    rowlock_status status = rl_attempt_until(&how, attempt, call, err);
    rl_turn_end(&call->turn, status == ROWLOCK_OK);
    if (status == ROWLOCK_TIMEOUT && call->lock->id)
        tell_holder(call, err);
    if (status != ROWLOCK_OK && call->open)
        return rl_fail(
            err, ROWLOCK_UNKNOWN,
            "the reply was lost and the server could not be asked again: the lease may be "
            "held, by nobody, for up to %" PRId64 " ms",
            call->ttl_us / 1000);
    return status;
}

static rowlock_status give_row_back(rowlock_hold *hold, rowlock_error *err);

/* Granted; by the server that is asked today, and with a token that was never given before? */
static rowlock_status is_good(const lease_call *call, rowlock_error *err)
{
    rowlock_client *client = call->hold->client;
    if (call->identity != atomic_load(&client->pool.identity))
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "'%s' was granted, but " RL_MOVED "; its lease there runs out by itself",
                       call->lock->name);
    return rl_resource_check_token(client, call->budget, call->lock->name, call->lock->id,
                                   call->lock->version, call->hold->owner, err);
}

rowlock_status rl_lease_acquire(rowlock_hold *hold, const rowlock_acquire_options *options,
                                const rl_budget *budget, rowlock_error *err)
{
    lease_call call = {
        .hold = hold, .budget = budget, .lock = &hold->locks[0], .ttl_us = hold->held.ttl_us};
    call.turn = (rl_turn){.bells = &hold->client->bells,
                          .budget = budget,
                          .owner = hold->owner,
                          .label = hold->client->label,
                          .ttl_us = call.ttl_us,
                          .look = look_from_queue,
                          .data = &call};
    int64_t max_hold_us = options->max_hold_ms * 1000;
    /* Its margin and its renewals go by the time that is really granted, too. */
    if (max_hold_us && max_hold_us < call.ttl_us)
        call.ttl_us = hold->held.ttl_us = max_hold_us;
    rowlock_status status = acquire_row(&call, err);
    if (status != ROWLOCK_OK)
        return status;
    hold->held.identity = call.identity;
    rl_held_extend(&hold->held, call.sent_us, call.ttl_us);
    if (rl_hold_lost(hold)) {
        (void)give_row_back(hold, NULL);
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "the server took longer than the TTL to answer; the lease is given back");
    }
    status = is_good(&call, err);
    if (status != ROWLOCK_OK) {
        rl_bell_give_up(&hold->client->bells, &hold->bell, call.lock->id);
        return status;
    }
    if (max_hold_us)
        hold->held.end_us = rl_time_add(call.sent_us, max_hold_us);
    rl_hold_begin(hold, budget, call.over ? "taken_over" : "acquired",
                  call.over ? call.detail : NULL);
    return ROWLOCK_OK;
}

/* -------------------------------------------------------------------------- renewal */

/* What another server granted is not to be renewed here, whatever the rows say (a copy has the
 * same ones). */
static size_t leave_out_moved(rl_renewal *renewals, size_t count, uint64_t identity)
{
    size_t here = 0;
    for (size_t i = 0; i < count; i++) {
        renewals[i].moved = renewals[i].identity != identity;
        here += !renewals[i].moved;
    }
    return here;
}

static bool renewals_json(rl_buffer *json, const rl_renewal *renewals, size_t count)
{
    const char *before = "[[";
    for (size_t i = 0; i < count; i++) {
        if (renewals[i].moved)
            continue;
        rl_buffer_puts(json, before);
        before = ",[";
        rl_json_u64(json, renewals[i].resource_id);
        rl_buffer_puts(json, ",");
        rl_json_u64(json, renewals[i].version);
        rl_buffer_puts(json, ",");
        rl_json_i64(json, renewals[i].ttl_us);
        rl_buffer_puts(json, ",");
        rl_json_string(json, renewals[i].owner);
        rl_buffer_puts(json, "]");
    }
    rl_buffer_puts(json, "]");
    return !json->failed;
}

static bool is_that(const rl_renewal *renewal, const rl_cell *cells)
{
    return renewal->resource_id == cells[0].u64 && renewal->version == cells[1].u64 &&
           !renewal->moved;
}

/* The rows come in the order of the list, so that each search is a step. With fewer than were asked
 * for, the statement was stopped (sql/lease.sql), and nothing is known. */
static rowlock_status which_are_held(rl_conn *conn, rl_renewal *renewals, size_t count,
                                     size_t asked, const rl_value *values, const rl_io *io,
                                     rowlock_error *err)
{
    rl_rows rows;
    rowlock_status status = rl_query(conn, RL_SQL_LEASE_RENEWED, values, io, &rows, err);
    if (status != ROWLOCK_OK)
        return status;
    size_t at = 0;
    for (; rl_next(&rows); asked -= asked > 0) {
        for (size_t step = 0; step < count && !is_that(&renewals[at], rows.cells); step++)
            at = (at + 1) % count;
        if (is_that(&renewals[at], rows.cells))
            renewals[at].held = rows.cells[2].u64 != 0;
    }
    if (rows.status == ROWLOCK_OK && asked > 0)
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "somebody stopped the statement that looks after the renewal");
    return rows.status;
}

/* Where it matched fewer rows than it was to, some lease is gone, or it was stopped half-way
 * without an error (JSON_TABLE on MariaDB, sql/lease.sql): which ones were renewed is not known
 * then. */
static rowlock_status renew_on(rl_conn *conn, rl_renewal *renewals, size_t count, const rl_io *io,
                               rowlock_error *err)
{
    size_t asked = leave_out_moved(renewals, count, conn->server.identity);
    if (asked == 0)
        return ROWLOCK_OK;
    rl_buffer json = {0};
    rl_done done = {0};
    rowlock_status status;
    if (renewals_json(&json, renewals, count)) {
        const rl_value value = rl_text_n(json.text, json.length);
        status = rl_run(conn, RL_SQL_LEASE_RENEW, &value, io, &done, err);
        if (status == ROWLOCK_OK)
            status = which_are_held(conn, renewals, count, asked, &value, io, err);
    } else {
        status = rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    }
    for (size_t i = 0; i < count; i++)
        renewals[i].renewed = renewals[i].held && done.rows >= asked;
    rl_buffer_free(&json);
    return status;
}

rowlock_status rl_lease_renew(rl_pool *pool, rl_renewal *renewals, size_t count, const rl_io *io,
                              rowlock_error *err)
{
    /* Not on one whose bell a release may want to ring meanwhile. */
    static const rl_request aside = {.pins = RL_PINS_NOT_LONG};
    rl_conn *conn = NULL;
    rowlock_status status = rl_pool_take(pool, &aside, io, &conn, err);
    if (status == ROWLOCK_OK)
        status = renew_on(conn, renewals, count, io, err);
    rl_pool_give(pool, conn);
    if (status == ROWLOCK_OK)
        rl_pool_touch_pinned(pool, rl_now_us() - TOUCH_AFTER_US, io);
    return status;
}

/* -------------------------------------------------------------------------- release */

typedef struct release_call {
    rowlock_hold *hold;
    const rl_budget *budget;
    bool open;   /* it may be released already: a reply was lost, or a successor has it */
    bool waived; /* we have said so, and it was ours */
} release_call;

/* If it was broken, it is shut until our time is over; and our work has ended. In vain is no
 * matter. */
static void reopen(const release_call *call)
{
    const rowlock_hold *hold = call->hold;
    const rl_lock *lock = &hold->locks[0];
    const rl_value values[] = {rl_u64((uint64_t)hold->at_least_us), rl_u64(lock->id),
                               rl_u64(lock->version), rl_text(hold->owner)};
    rowlock_status ignored =
        rl_client_run(hold->client, call->budget, RL_SQL_LEASE_REOPEN, values, NULL, NULL);
    (void)ignored;
}

static rowlock_status not_ours(const release_call *call, rowlock_error *err)
{
    const rowlock_hold *hold = call->hold;
    reopen(call);
    return rl_fail(err, ROWLOCK_LOST,
                   "'%s' was no longer held (token %" PRIu64
                   "): it had been broken, or its time was over",
                   hold->locks[0].name, hold->locks[0].version);
}

/* Nothing matched. After a lost reply that may be because we did it. */
static rowlock_status released_before(release_call *call, rowlock_error *err)
{
    const rl_lock *lock = &call->hold->locks[0];
    lease_row row;
    rowlock_status status = look(call->hold, call->budget, &row, err);
    if (status != ROWLOCK_OK)
        return status;
    bool found = row.verdict != RL_VERDICT_GONE;
    if (found && !is_held(&row) && row.version == lock->version && row.ours)
        return ROWLOCK_OK;
    /* Before our deadline nobody could take it over. A break would have left our owner there. */
    bool in_time = !rl_hold_lost(call->hold);
    bool successors = row.version > lock->version && call->waived;
    if (successors || (in_time && found && row.version == lock->version + 1 && !row.ours))
        return ROWLOCK_OK;
    if (in_time && (!found || row.version > lock->version + 1))
        return rl_fail(err, ROWLOCK_UNKNOWN,
                       "'%s' (token %" PRIu64 ") was released or broken; others have had it since",
                       lock->name, lock->version);
    return not_ours(call, err);
}

static rowlock_status free_row_on(const release_call *call, rl_conn *conn, rl_sql_id way,
                                  rl_done *done, rowlock_error *err)
{
    const rowlock_hold *hold = call->hold;
    const rl_lock *lock = &hold->locks[0];
    bool apart = way == RL_SQL_LEASE_RELEASE_APART;
    char due[RL_RINGS_DUE_MAX] = "";
    if (apart)
        rl_bell_rings_due(&hold->client->bells, lock->id, due, sizeof due);
    const rl_value values[] = {rl_u64((uint64_t)hold->at_least_us),
                               rl_u64(lock->id),
                               rl_u64(lock->version),
                               rl_text(hold->owner),
                               rl_text(hold->client->bells.prefix),
                               rl_u64(hold->bell.connection_id),
                               rl_text(due)};
    rl_io io = rl_budget_quick_io(call->budget);
    return rl_run(conn, way, values, &io, done, err);
}

/*
 * Others have waited as we did: somebody may wait now. A successor takes the lease by our word
 * alone, and what we do then finds nothing left to free. If it has not, whatever became of it, we
 * free the row as ever; so nothing depends on our word after the release has returned.
 */
static rowlock_status hand_over(release_call *call, rl_conn *conn, rl_done *done,
                                rowlock_error *err)
{
    rowlock_hold *hold = call->hold;
    rl_bells *bells = &hold->client->bells;
    const rl_waiver waiver = {
        .resource_id = hold->locks[0].id, .version = hold->locks[0].version, .owner = hold->owner};
    rl_io io = rl_budget_quick_io(call->budget);
    rl_waived waived = {0};
    rowlock_status status = rl_bell_waive(conn, bells, &waiver, &io, &waived, err);
    /* It may have been said, and somebody have it, although the statement failed in the end. */
    call->open = call->open || status != ROWLOCK_OK;
    if (status != ROWLOCK_OK)
        return status;
    if (!waived.mine)
        return ROWLOCK_OK;
    call->waived = call->open = true;
    rl_bell_rung(&hold->bell, conn);
    if (waived.successor)
        rl_bell_await_successor(bells, call->budget);
    status = free_row_on(call, conn, RL_SQL_LEASE_RELEASE_APART, done, err);
    if (status == ROWLOCK_OK && waived.successor)
        rl_bell_note_successor(bells, done->rows == 0);
    if (status == ROWLOCK_OK)
        done->rows = 1;
    return status;
}

static rowlock_status free_and_ring(release_call *call, rl_conn *conn, rl_done *done,
                                    rowlock_error *err)
{
    rowlock_status status = free_row_on(call, conn, RL_SQL_LEASE_RELEASE, done, err);
    if (status == ROWLOCK_OK && done->rows > 0)
        rl_bell_rung(&call->hold->bell, conn);
    return status;
}

/* Another server answers: whoever has the row there is not to be touched, though it may be a copy
 * of ours. */
static rowlock_status moved(const rowlock_hold *hold, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_LOST, "'%s' was lost: " RL_MOVED, hold->locks[0].name);
}

/* Where the bell is, if that connection is idle. */
static rowlock_status free_row(release_call *call, rl_done *done, rowlock_error *err)
{
    rowlock_hold *hold = call->hold;
    rl_io io = rl_budget_quick_io(call->budget);
    rl_conn *conn = rl_bell_connection(&hold->client->bells, &hold->bell);
    bool has_bell = conn;
    rowlock_status status =
        has_bell ? ROWLOCK_OK : rl_pool_take(&hold->client->pool, NULL, &io, &conn, err);
    if (status != ROWLOCK_OK)
        return status;
    if (conn->server.identity != hold->held.identity)
        status = moved(hold, err);
    else if (atomic_load(&hold->client->bells.polls))
        status = free_row_on(call, conn, RL_SQL_LEASE_RELEASE_QUIET, done, err);
    else if (!has_bell)
        status = free_row_on(call, conn, RL_SQL_LEASE_RELEASE_APART, done, err);
    else if (hold->bell.waited_for && hold->at_least_us == 0 && !atomic_load(&hold->held.lost))
        status = hand_over(call, conn, done, err);
    else
        status = free_and_ring(call, conn, done, err);
    rl_pool_give(&hold->client->pool, conn);
    return status;
}

static rowlock_status release_attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    (void)hint_us;
    release_call *call = data;
    const rl_lock *lock = &call->hold->locks[0];
    rl_done done = {0};
    rowlock_status status = free_row(call, &done, err);
    if (status == ROWLOCK_UNKNOWN) {
        call->open = true;
        return ROWLOCK_UNAVAILABLE;
    }
    if (status == ROWLOCK_BUSY)
        return rl_fail(
            err, ROWLOCK_BUSY,
            "'%s': a transaction that fenced it is still open; commit it before the release",
            lock->name);
    if (status != ROWLOCK_OK || done.rows > 0)
        return status;
    return call->open ? released_before(call, err) : not_ours(call, err);
}

/*
 * Until it would have ended by itself, and not for longer than a call may take. What is lost
 * already is given back as a favour to the next one: a single short try.
 */
static rl_budget release_budget(const rowlock_hold *hold)
{
    int64_t left_ms = (atomic_load(&hold->held.deadline_us) - rl_now_us()) / 1000;
    int64_t limit_ms = hold->client->limit_ms;
    if (atomic_load(&hold->held.lost))
        return rl_budget_start(0, limit_ms < LOST_LIMIT_MS ? limit_ms : LOST_LIMIT_MS, NULL);
    if (left_ms < 1000)
        left_ms = 1000;
    return rl_budget_start(left_ms < limit_ms ? left_ms : limit_ms, limit_ms, NULL);
}

static rowlock_status give_row_back(rowlock_hold *hold, rowlock_error *err)
{
    rl_budget budget = release_budget(hold);
    release_call call = {.hold = hold, .budget = &budget};
    const rl_attempts how = {.budget = &budget,
                             .outage_us = hold->client->outage_us,
                             .backoff = {.first_us = FIRST_DELAY_US, .most_us = MOST_DELAY_US},
                             .busy_is_final = true};
    rowlock_status status = rl_attempt_until(&how, release_attempt, &call, err);
    rl_bell_give_up(&hold->client->bells, &hold->bell, hold->locks[0].id);
    if (status == ROWLOCK_TIMEOUT)
        status = ROWLOCK_UNAVAILABLE;
    if (status != ROWLOCK_UNAVAILABLE)
        return status;
    return rl_fail(
        err, call.open ? ROWLOCK_UNKNOWN : ROWLOCK_UNAVAILABLE,
        "'%s' could not be released, the server cannot be reached; its lease ends by itself "
        "within %" PRId64 " ms",
        hold->locks[0].name, hold->held.ttl_us / 1000);
}

rowlock_status rl_lease_release(rowlock_hold *hold, const rowlock_release_options *options,
                                rowlock_error *err)
{
    bool was_lost = atomic_load(&hold->held.lost);
    rowlock_status status = give_row_back(hold, err);
    if (was_lost)
        /* The holder was told. If nobody took it meanwhile, so much the better for them. */
        return rl_fail(err, ROWLOCK_LOST, "'%s' was lost before its release: %s",
                       hold->locks[0].name, hold->held.reason);
    if (status == ROWLOCK_OK)
        rl_hold_record(hold, "released", options, options->note);
    else if (status == ROWLOCK_LOST)
        rl_hold_record(hold, "lost", options, "found at its release");
    return status;
}

/* ------------------------------------------------------------------------- expiring */

rowlock_status rl_lease_expire(rowlock_client *client, const rl_budget *budget, uint64_t id,
                               uint64_t version, bool *freed, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(version), rl_u64(id)};
    rl_done done = {0};
    rowlock_status status = rl_client_run(client, budget, RL_SQL_LEASE_EXPIRE, values, &done, err);
    if (status == ROWLOCK_OK)
        *freed = done.rows > 0;
    return status;
}
