/*
 * The row lock. To acquire it:
 *
 *   1. a connection for this hold alone, autocommit off, wait_timeout = the TTL;
 *   2. lock_rows():  SELECT ... FOR UPDATE for each name in order. Waiting happens in the
 *                    server, first come first served; the io ends it with KILL QUERY.
 *   3. publish():    holding the rows, bump each version on a *second* connection in
 *                    autocommit (the first could not commit it and keep the lock);
 *   4. ping the first: only if it answers was the bump made under the lock.
 *
 * Unfenced, 3 and 4 are left out, unless a dead holder is still published: its token has to end.
 * Most names are always used in one way, so a row remembers whether it was ever fenced, and
 * only of such a name is the question asked.
 *
 * A lost connection is never ambiguous here: the lock is gone with it.
 */
#include "kind/row.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/settle.h"
#include "kind/publish.h"
#include "stmt/session.h"
#include "wait/backoff.h"

#define END_US         200000 /* a connection that did not answer is ended, though the time is over */
#define FROZEN_LOOK_US 200000 /* looking again at a frozen name */

int64_t rl_row_ttl_ms(int64_t ttl_ms)
{
    return (ttl_ms + 999) / 1000 * 1000;
}

rowlock_status rl_row_check(const rowlock_client *client, rowlock_error *err)
{
    rl_cluster cluster = rl_pool_cluster(&client->pool);
    if (!rl_many_writers(cluster, client->single_writer))
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNSUPPORTED,
                   "the server is %s: the other nodes write too and do not see its row locks; use "
                   "a lease, or say that this node is the only one in use (--single-writer, "
                   "single_writer)",
                   rl_cluster_traits_of(cluster)->name);
}

/* ---------------------------------------------------------------------------- locking */

/* The server's name may lead to the new primary by now: close this connection. */
static rowlock_status not_primary(rl_conn *conn, const rl_lock *lock, rowlock_error *err)
{
    conn->demoted = true;
    return rl_fail(err, ROWLOCK_READONLY,
                   "%s: a row lock there excludes nobody; '%s' was not locked",
                   rowlock_status_text(ROWLOCK_READONLY), lock->name);
}

/* A wait that was ended by KILL QUERY is no outage. */
static void note_stopped(rl_row_call *call, rowlock_status status, const rowlock_error *err)
{
    const rl_conn *conn = call->conn;
    if (status == ROWLOCK_UNAVAILABLE && !conn->broken &&
        rl_server_status(err->server_errno, conn->flavour) == ROWLOCK_CANCELLED)
        call->reached_us = rl_now_us();
}

static rl_sql_id way_to_lock(const rl_row_call *call, const rl_lock *lock)
{
    if (lock->shared)
        return call->budget->try_once ? RL_SQL_ROW_SHARE_TRY : RL_SQL_ROW_SHARE;
    return call->budget->try_once ? RL_SQL_ROW_TRY : RL_SQL_ROW_LOCK;
}

static rowlock_status lock_row(rl_row_call *call, rl_lock *lock, rowlock_error *err)
{
    rowlock_error spare = {0};
    err = rl_error_or(err, &spare);
    const rl_value values[] = {rl_u64(lock->id)};
    rl_io io = rl_budget_lock_io(call->budget);
    rl_rows rows;
    bool found = false;
    call->sent_us = rl_now_us();
    rowlock_status status =
        rl_query_one(call->conn, way_to_lock(call, lock), values, &io, &found, &rows, err);
    note_stopped(call, status, err);
    if (status != ROWLOCK_OK || call->conn->interrupted)
        return rl_row_stopped(call, status == ROWLOCK_OK ? ROWLOCK_UNKNOWN : status, err);
    if (found && rows.cells[2].u64 != 0)
        return not_primary(call->conn, lock, err);
    lock->fenced = found && rows.cells[1].u64 != 0;
    snprintf(lock->ticket, sizeof lock->ticket, "%s", found ? rows.cells[3].text : "");
    if (found && strcmp(rows.cells[0].text, lock->name) == 0)
        return ROWLOCK_OK;
    /* Purged since we learned its id. */
    rl_resource_forget(call->hold->client, lock->name);
    return rl_fail(err, ROWLOCK_NOT_FOUND, "'%s' was purged just now", lock->name);
}

static rowlock_status find_rows(rl_row_call *call, rowlock_error *err)
{
    for (size_t i = 0; i < call->hold->count; i++) {
        rl_lock *lock = &call->hold->locks[i];
        RL_TRY(rl_resource_row_id(call->hold->client, call->budget, lock->name,
                                  !call->hold->unfenced, &lock->id, err));
    }
    return ROWLOCK_OK;
}

static rowlock_status lock_each(rl_row_call *call, rowlock_error *err)
{
    for (size_t i = 0; i < call->hold->count; i++) {
        call->at = &call->hold->locks[i];
        RL_TRY(lock_row(call, &call->hold->locks[i], err));
    }
    return ROWLOCK_OK;
}

/* Holds the rows, which the COMMIT frees. */
static rowlock_status mark_fenced(rl_row_call *call, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(call->budget);
    rowlock_status status = ROWLOCK_OK;
    for (size_t i = 0; i < call->hold->count && status == ROWLOCK_OK; i++) {
        const rl_value values[] = {rl_u64(call->hold->locks[i].id)};
        status = rl_run(call->conn, RL_SQL_ROW_FENCE, values, &io, NULL, err);
    }
    if (status == ROWLOCK_OK)
        status = rl_run(call->conn, RL_SQL_ROW_COMMIT, NULL, &io, NULL, err);
    return status == ROWLOCK_OK ? status : rl_row_stopped(call, status, err);
}

static bool all_fenced(const rowlock_hold *hold)
{
    for (size_t i = 0; i < hold->count; i++)
        if (!hold->locks[i].fenced)
            return false;
    return true;
}

/* Once in the life of a name that was unfenced: marked and locked anew before it is published. */
static rowlock_status lock_rows(rl_row_call *call, rowlock_error *err)
{
    RL_TRY(lock_each(call, err));
    if (call->hold->unfenced || all_fenced(call->hold))
        return ROWLOCK_OK;
    RL_TRY(mark_fenced(call, err));
    return lock_each(call, err);
}

/* ---------------------------------------------------------------------------- acquire */

/* Back to no transaction, or no connection. */
static void let_go(rl_row_call *call)
{
    if (!call->conn)
        return;
    /* Also where the pool will close it: the server lets the rows go before we return. */
    rl_io io = rl_io_until(rl_time_add(rl_now_us(), RL_GRACE_US));
    if (rl_run_text(call->conn, RL_SQL_ROLLBACK, NULL, &io, NULL) != ROWLOCK_OK)
        call->conn->broken = true;
    rl_pool_give(&call->hold->client->pool, call->conn);
    call->conn = NULL;
}

/* What may run while its rows are locked: in a transaction nothing is prepared. Of a set, some rows
 * may be shared. */
static rowlock_status prepare_conn(const rl_row_call *call, const rl_io *io, rowlock_error *err)
{
    const rowlock_hold *hold = call->hold;
    const bool unfenced = hold->unfenced;
    for (size_t i = 1; i < hold->count; i++)
        RL_TRY(rl_prepare(call->conn, way_to_lock(call, &hold->locks[i]), io, err));
    const rl_sql_id needed[] = {RL_SQL_ROW_COMMIT, unfenced ? RL_SQL_ROW_STALE : RL_SQL_ROW_FENCE,
                                RL_SQL_ROW_TICKET};
    return rl_prepare_all(call->conn, needed, call->conn->session.via ? 3 : 2, io, err);
}

static rowlock_status open_conn(rl_row_call *call, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(call->budget);
    rl_pool *pool = &call->hold->client->pool;
    const rl_request hold = {.purpose = RL_HOLD, .fresh = call->fresh};
    rowlock_status status = rl_pool_take(pool, &hold, &io, &call->conn, err);
    if (status == ROWLOCK_OK && call->conn->pooled.used_us == 0) /* just made */
        call->reached_us = rl_now_us();
    if (status == ROWLOCK_OK)
        status =
            rl_set_idle_limit(call->conn, (uint64_t)(call->hold->held.ttl_us / 1000000), &io, err);
    if (status == ROWLOCK_OK)
        status = prepare_conn(call, &io, err);
    return rl_no_effect(status, err);
}

/* A wait may have begun before a failover: other callers now ask another server. */
static rowlock_status is_current(const rl_row_call *call, rowlock_error *err)
{
    const rowlock_hold *hold = call->hold;
    if (rl_pool_is_current(&hold->client->pool, &call->conn->server, true))
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNAVAILABLE, "'%s' was granted, but " RL_MOVED,
                   hold->locks[0].name);
}

/* The ids, and a connection to the server that gave them: a new one may lead elsewhere. */
static rowlock_status find_rows_and_open(rl_row_call *call, rowlock_error *err)
{
    uint64_t asked = atomic_load(&call->hold->client->pool.identity);
    RL_TRY(find_rows(call, err));
    RL_TRY(open_conn(call, err));
    return call->conn->server.identity == asked ? ROWLOCK_OK : find_rows(call, err);
}

static rowlock_status lock_and_publish(rl_row_call *call, rowlock_error *err)
{
    call->locked = false;
    RL_TRY(find_rows_and_open(call, err));
    RL_TRY(lock_rows(call, err));
    call->locked = true;
    RL_TRY(rl_row_publish(call, err));
    return is_current(call, err);
}

/* The pool may not have seen that it had ended: of one that has a reply to come (no_reply) it
 * cannot be seen, and a KILL returns before the server has ended what it kills. */
static bool was_dead(const rl_row_call *call, rowlock_status status)
{
    return status == ROWLOCK_UNAVAILABLE && call->conn && call->conn->broken &&
           call->conn->pooled.used_us != 0;
}

/* After an attempt that found the name frozen: locks nothing until it is thawed. */
static rowlock_status check_thawed(const rl_row_call *call, rowlock_error *err)
{
    rl_seen seen;
    if (!call->hold->frozen)
        return ROWLOCK_OK;
    RL_TRY(rl_row_look(call->hold, call->budget, call->at, &seen, err));
    rl_hold_saw_frozen(call->hold, seen.frozen);
    return seen.frozen ? rl_fail(err, ROWLOCK_BUSY, "'%s' is frozen", call->at->name) : ROWLOCK_OK;
}

static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    rl_row_call *call = data;
    call->fresh = false;
    rowlock_status status = check_thawed(call, err);
    if (status == ROWLOCK_OK)
        status = lock_and_publish(call, err);
    if (was_dead(call, status)) {
        let_go(call);
        call->fresh = true;
        status = lock_and_publish(call, err);
    }
    if (status == ROWLOCK_OK)
        return status;
    let_go(call);
    if (call->hold->frozen)
        *hint_us = RL_NOT_BEFORE(FROZEN_LOOK_US);
    if (status != ROWLOCK_NOT_FOUND)
        return status;
    *hint_us = RL_AT_ONCE;
    return ROWLOCK_BUSY;
}

/* Reads the holder for the message, and whether the name is frozen; quickly, as the time is over.
 */
static rowlock_status not_got(const rl_row_call *call, rowlock_status status, rowlock_error *err)
{
    const rl_lock *lock = call->at;
    rl_budget budget = rl_budget_start(0, RL_GRACE_US / 2000, NULL);
    rl_seen seen;
    budget.abrupt = true;
    const bool known =
        lock->id && rl_row_look(call->hold, &budget, lock, &seen, NULL) == ROWLOCK_OK;
    const char *before =
        status == ROWLOCK_TIMEOUT ? "the wait ended before the lock was free: " : "";
    if (known && !call->hold->unfenced)
        rl_hold_saw_frozen(call->hold, seen.frozen);
    if (known && rl_seen_status_held(&seen))
        return rl_fail(err, status, "%s'%s' is held by %s (token %" PRIu64 ")", before, lock->name,
                       seen.label, seen.version);
    return rl_fail(err, status, "%s'%s' is held by somebody else", before, lock->name);
}

rowlock_status rl_row_acquire(rowlock_hold *hold, const rl_budget *budget, rowlock_error *err)
{
    rl_row_call call = {.hold = hold, .budget = budget, .at = &hold->locks[0]};
    RL_TRY(rl_row_check(hold->client, err));
    const rl_attempts how = {.budget = budget,
                             .outage_us = hold->client->outage_us,
                             .reached_us = &call.reached_us,
                             .backoff = RL_BACKOFF_USUAL};
    rowlock_status status = rl_attempt_until(&how, attempt, &call, err);
    if ((err || !hold->unfenced) && !call.locked &&
        (status == ROWLOCK_BUSY || status == ROWLOCK_TIMEOUT))
        return not_got(&call, status, err);
    RL_TRY(status);
    hold->held.conn = call.conn;
    hold->held.identity = call.conn->server.identity;
    rl_held_start(&hold->held, call.sent_us, hold->held.ttl_us);
    rl_hold_begin(hold, budget, *call.taken_over ? call.taken_over : NULL);
    return ROWLOCK_OK;
}

/* ---------------------------------------------------------------------------- release */

/* New connections lead to another server, or this one's server is no longer the primary: other
 * callers do not ask there any more. */
static bool left_behind(const rowlock_hold *hold)
{
    const rl_conn *conn = hold->held.conn;
    return conn->demoted || !rl_pool_is_current(&hold->client->pool, &conn->server, true);
}

static rowlock_status lost_with_server(const rowlock_hold *hold, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_LOST, "'%s' was lost: " RL_MOVED, hold->locks[0].name);
}

static rowlock_status unpublish(rowlock_hold *hold, const rl_budget *budget, rowlock_error *err)
{
    rowlock_status worst = ROWLOCK_OK;
    for (size_t i = 0; i < hold->count; i++) {
        const rl_lock *lock = &hold->locks[i];
        const rl_value values[] = {rl_u64(lock->id), rl_u64(lock->version), rl_text(hold->owner)};
        rl_done done = {0};
        rowlock_status status =
            rl_client_run_match(hold->client, budget, RL_SQL_ROW_UNPUBLISH, values, &done, err);
        if (status == ROWLOCK_BUSY || status == ROWLOCK_TIMEOUT)
            worst =
                rl_fail(err, ROWLOCK_BUSY,
                        "'%s': a transaction that fenced it is still open; commit it before the "
                        "release",
                        lock->name);
        else if (status == ROWLOCK_OK && done.rows == 0)
            return rl_fail(err, ROWLOCK_LOST, "'%s' was no longer held (token %" PRIu64 ")",
                           lock->name, lock->version);
        else if (status == ROWLOCK_READONLY || left_behind(hold))
            return lost_with_server(hold, err);
        else if (status == ROWLOCK_UNAVAILABLE || status == ROWLOCK_UNKNOWN)
            break; /* once is enough; the COMMIT decides, and the next holder sees it */
    }
    return worst;
}

/* The connection broke at the COMMIT. The server frees the row when it sees that, which may be
 * later than we do, and not before its own time is over where the line is dead. */
static void end_at_server(const rowlock_hold *hold, const rl_budget *budget)
{
    const rl_conn *conn = hold->held.conn;
    const rl_trace trace = {.connection_id = conn->id,
                            .peer = conn->peer,
                            .identity = conn->server.identity,
                            .sent_us = budget->start_us};
    rl_budget mine = *budget;
    int64_t soon = rl_time_add(rl_now_us(), END_US);
    if (mine.deadline_us < soon)
        mine.deadline_us = soon;
    rl_settle_connection(hold->client, &mine, &trace);
}

/* The row is free either way; was it ours until then? */
static rowlock_status who_has_it(rowlock_hold *hold, const rl_budget *budget, rowlock_error *err)
{
    if (left_behind(hold))
        return lost_with_server(hold, err);
    if (hold->unfenced)
        return rl_fail(err, ROWLOCK_UNKNOWN,
                       "the connection that held '%s' broke at its release; without fencing nobody "
                       "can say since when it was free",
                       hold->locks[0].name);
    for (size_t i = 0; i < hold->count; i++) {
        rl_seen seen;
        if (rl_row_look(hold, budget, &hold->locks[i], &seen, err) != ROWLOCK_OK)
            return rl_fail(err, ROWLOCK_UNKNOWN,
                           "the connection that held '%s' broke at its release, and the server "
                           "cannot be asked; the lock is free",
                           hold->locks[i].name);
        if (left_behind(hold))
            return lost_with_server(hold, err);
        if (seen.version != hold->locks[i].version)
            return rl_fail(err, ROWLOCK_LOST,
                           "the connection that held '%s' had ended, and another has had it since",
                           hold->locks[i].name);
    }
    return ROWLOCK_OK;
}

static rowlock_status commit(rowlock_hold *hold, const rl_budget *budget, bool no_reply,
                             rowlock_error *err)
{
    rl_conn *conn = hold->held.conn;
    rl_io io = rl_budget_quick_io(budget);
    rowlock_status status = rl_conn_read_due(conn, &io, err);
    if (status == ROWLOCK_OK && no_reply)
        status = rl_conn_send_only(conn, rl_sql_table[RL_SQL_COMMIT].text);
    else if (status == ROWLOCK_OK)
        status = rl_run(conn, RL_SQL_ROW_COMMIT, NULL, &io, NULL, err);
    if (status == ROWLOCK_OK)
        return status;
    /* Where the server answers, the connection had the rows until then, whatever became of the
     * COMMIT: it may have been stopped (KILL QUERY). */
    bool had_it = !conn->broken;
    conn->broken = true;
    end_at_server(hold, budget);
    if (had_it && hold->unfenced && !left_behind(hold))
        return ROWLOCK_OK;
    return who_has_it(hold, budget, err);
}

static rowlock_status end_transaction(rowlock_hold *hold, const rowlock_release_options *options,
                                      rowlock_error *err)
{
    int64_t limit_ms = hold->client->limit_ms;
    rl_budget budget = rl_budget_start(limit_ms, limit_ms, NULL);
    rowlock_status put_back = hold->unfenced ? ROWLOCK_OK : unpublish(hold, &budget, err);
    rowlock_status committed =
        commit(hold, &budget, options->no_reply, put_back == ROWLOCK_OK ? err : NULL);
    return put_back == ROWLOCK_OK ? committed : put_back;
}

rowlock_status rl_row_release(rowlock_hold *hold, const rowlock_release_options *options,
                              rowlock_error *err)
{
    rowlock_status status;
    bool was_lost = atomic_load(&hold->held.lost);
    if (was_lost) {
        hold->held.conn->broken = true;
        status = rl_fail(err, ROWLOCK_LOST, "'%s' was lost before its release: %s",
                         hold->locks[0].name, hold->held.reason);
    } else {
        status = end_transaction(hold, options, err);
    }
    rl_pool_give(&hold->client->pool, hold->held.conn);
    hold->held.conn = NULL;
    if (status == ROWLOCK_OK)
        rl_hold_was_released(hold, options);
    else if (status == ROWLOCK_LOST && !was_lost)
        rl_hold_was_lost(hold, options, "found at its release");
    else if (!was_lost)
        rl_hold_was_left(hold);
    return status;
}
