#include "kind/publish.h"

#include <inttypes.h>
#include <stdio.h>

#include "kind/row.h"
#include "wait/backoff.h"

rowlock_status rl_row_stopped(const rl_row_call *call, rowlock_status status, rowlock_error *err)
{
    if (status == ROWLOCK_TIMEOUT || status == ROWLOCK_CANCELLED)
        return status;
    bool cancelled = rl_budget_cancelled(call->budget);
    bool over = !call->budget->try_once && rl_budget_spent(call->budget);
    rowlock_status why = cancelled ? ROWLOCK_CANCELLED : ROWLOCK_TIMEOUT;
    if (call->conn->interrupted && (cancelled || over))
        return rl_fail(err, why, "%s", rowlock_status_text(why));
    return status == ROWLOCK_UNKNOWN
               ? rl_fail(err, ROWLOCK_UNAVAILABLE, "the connection that waited for it was lost")
               : status;
}

rowlock_status rl_row_look(const rowlock_hold *hold, const rl_budget *budget, const rl_lock *lock,
                           rl_seen *seen, rowlock_error *err)
{
    return rl_look(hold->client, budget, lock->id, lock->name, RL_KIND_ROW, hold->owner, seen, err);
}

/* Only if the holding connection answers now was the bump made under the lock. */
static rowlock_status confirm(rl_row_call *call, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(call->budget);
    int64_t sent_us = rl_now_us();
    if (rl_conn_ping(call->conn, &io, err) != ROWLOCK_OK)
        return rl_row_stopped(call, ROWLOCK_UNKNOWN, err);
    call->sent_us = sent_us;
    return ROWLOCK_OK;
}

/* Through procedures: the proof, made of the row as it is now, that we have its lock. */
static rowlock_status renew_ticket(rl_row_call *call, rl_lock *lock, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(call->budget);
    const rl_value values[] = {rl_u64(lock->id)};
    rl_rows rows;
    bool found = false;
    int64_t sent_us = rl_now_us();
    if (!call->conn->session.via)
        return ROWLOCK_OK;
    if (rl_query_one(call->conn, RL_SQL_ROW_TICKET, values, &io, &found, &rows, err) != ROWLOCK_OK)
        return rl_row_stopped(call, ROWLOCK_UNKNOWN, err);
    snprintf(lock->ticket, sizeof lock->ticket, "%s", found ? rows.cells[0].text : "");
    call->sent_us = sent_us;
    return ROWLOCK_OK;
}

/* ------------------------------------------------------------------- a dead holder's */

/* We stopped a change, and a busy server did not answer the KILL QUERY in time: a time-out of ours,
 * although the connection had to be closed. */
static rowlock_status broken_off(const rl_budget *budget, const rl_trace *trace,
                                 rowlock_status status, rowlock_error *err)
{
    bool ours = budget->try_once ? trace->stopped : rl_budget_spent(budget);
    if (status != ROWLOCK_UNKNOWN || !ours)
        return status;
    return rl_fail(err, ROWLOCK_TIMEOUT, "%s", rowlock_status_text(ROWLOCK_TIMEOUT));
}

static rowlock_status end_stale(rowlock_client *client, const rl_budget *budget,
                                const rl_conn *beside, uint64_t seen, const rl_lock *lock,
                                rowlock_error *err)
{
    const rl_value values[] = {rl_u64(seen), rl_u64(lock->id), rl_text(lock->ticket)};
    rl_trace trace = {0};
    rowlock_status status = rl_client_change(client, budget, beside, false, RL_SQL_ROW_END_STALE,
                                             values, &trace, NULL, err);
    status = broken_off(budget, &trace, status, err);
    if (status == ROWLOCK_TIMEOUT && budget->try_once)
        return rl_fail(err, ROWLOCK_BUSY, "a transaction is using it");
    return rl_no_effect(status, err);
}

static void keep_version(void *data, const rl_cell *cells)
{
    *(uint64_t *)data = cells[0].u64;
}

rowlock_status rl_row_end_stale(rowlock_client *client, const rl_budget *budget, uint64_t id,
                                rowlock_error *err)
{
    const rl_value values[] = {rl_u64(id)};
    const rl_lock lock = {.id = id};
    uint64_t seen = 0;
    bool found = false;
    RL_TRY(
        rl_client_read(client, budget, RL_SQL_ROW_STALE, values, keep_version, &seen, &found, err));
    return found ? end_stale(client, budget, NULL, seen, &lock, err) : ROWLOCK_OK;
}

static rowlock_status changed(const rl_lock *lock, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_BUSY, "'%s' changed just now", lock->name);
}

static void note_taken_over(rl_row_call *call, const rl_seen *seen)
{
    char label[RL_LABEL_IN_DETAIL];
    rl_copy_label(label, sizeof label, seen->label);
    snprintf(call->taken_over, sizeof call->taken_over,
             "from %s, token %" PRIu64 ", whose connection ended", label, seen->version);
}

/* The row says that the lock is held, and we have the row lock: that holder is dead (or it is us,
 * and our first reply was lost). */
static rowlock_status publish_over(rl_row_call *call, rl_lock *lock, rl_trace *trace, rl_done *done,
                                   rowlock_error *err)
{
    rowlock_client *client = call->hold->client;
    rl_seen seen;
    RL_TRY(rl_row_look(call->hold, call->budget, lock, &seen, err));
    if (seen.verdict == RL_VERDICT_WRONG_KIND)
        return rl_resource_wrong_kind(lock->name, seen.kind, RL_KIND_ROW, err);
    if (seen.verdict == RL_VERDICT_GONE) {
        rl_resource_forget(client, lock->name);
        return rl_fail(err, ROWLOCK_NOT_FOUND, "'%s' was purged just now", lock->name);
    }
    rl_hold_saw_frozen(call->hold, seen.frozen);
    if (seen.frozen)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is frozen", lock->name);
    if (!rl_seen_status_held(&seen)) {
        call->patient = true;
        RL_TRY(renew_ticket(call, lock, err));
        return changed(lock, err);
    }
    /* Alive after the look, and so the last to have the row's lock before the swap: the holder that
     * is published is not one who got the lock when our own connection died. */
    RL_TRY(call->conn->session.via ? renew_ticket(call, lock, err) : confirm(call, err));
    /* Our earlier request has been carried out after all: the server is slow, and no transaction
     * can have fenced a token that no client knows yet. */
    call->patient = call->patient || seen.ours;
    const rl_value values[] = {rl_u64(seen.version),   rl_text(call->hold->owner),
                               rl_text(client->label), rl_u64(call->conn->id),
                               rl_u64(lock->id),       rl_text(lock->name),
                               rl_text(lock->ticket)};
    RL_TRY(rl_client_change(client, call->budget, call->conn, seen.ours, RL_SQL_ROW_PUBLISH_OVER,
                            values, trace, done, err));
    if (done->rows > 0 && !seen.ours)
        note_taken_over(call, &seen);
    return ROWLOCK_OK;
}

/* ------------------------------------------------------------------------ publishing */

/* Where the OK packet did not say it: see read_token() of engine/acquire.c. */
static rowlock_status read_token(const rl_row_call *call, rl_lock *lock, rowlock_error *err)
{
    rl_seen seen;
    RL_TRY(rl_row_look(call->hold, call->budget, lock, &seen, err));
    if (!rl_seen_status_held(&seen) || !seen.ours)
        return changed(lock, err);
    lock->version = seen.version;
    return ROWLOCK_OK;
}

static rowlock_status publish_row(rl_row_call *call, rl_lock *lock, rowlock_error *err)
{
    rowlock_client *client = call->hold->client;
    const rl_value values[] = {rl_text(call->hold->owner), rl_text(client->label),
                               rl_u64(call->conn->id),     rl_u64(lock->id),
                               rl_text(lock->name),        rl_text(lock->ticket)};
    rl_done done = {0};
    rl_trace trace = {0};
    rowlock_status status = rl_client_change(client, call->budget, call->conn, call->patient,
                                             RL_SQL_ROW_PUBLISH, values, &trace, &done, err);
    /* Also if the answer to our KILL QUERY was late: whether it was carried out, a look tells. */
    bool stuck = rl_try_was_stopped(call->budget, status, &trace);
    if (stuck || (status == ROWLOCK_OK && done.rows == 0))
        status = publish_over(call, lock, &trace, &done, err);
    /* The version may have risen once more; a token that no client got does no harm. */
    status = broken_off(call->budget, &trace, status, err);
    if (status == ROWLOCK_TIMEOUT && call->budget->try_once)
        return rl_fail(err, ROWLOCK_BUSY, "a transaction is using it");
    if (status == ROWLOCK_UNKNOWN)
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "the connection to the server was lost");
    RL_TRY(status);
    if (done.rows == 0)
        return changed(lock, err);
    lock->version = done.insert_id;
    if (!done.insert_id)
        RL_TRY(read_token(call, lock, err));
    return rl_resource_check_token(client, call->budget, lock->name, lock->id, lock->version,
                                   call->hold->owner, err);
}

/* Of an unfenced hold: not itself, but the end of the dead holder's publication. */
static rowlock_status publish_end(rl_row_call *call, rl_lock *lock, uint64_t stale,
                                  rowlock_error *err)
{
    RL_TRY(renew_ticket(call, lock, err));
    return end_stale(call->hold->client, call->budget, call->conn, stale, lock, err);
}

typedef struct publishing {
    rl_row_call *call;
    rl_lock *lock;
    uint64_t stale; /* the version that a dead holder has published; unfenced alone */
} publishing;

/* BUSY: a transaction has fenced the last holder's token and is still open. The row lock is
 * kept meanwhile: it is our turn. */
static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    const publishing *now = data;
    bool was_patient = now->call->patient;
    rowlock_status status = now->call->hold->unfenced
                                ? publish_end(now->call, now->lock, now->stale, err)
                                : publish_row(now->call, now->lock, err);
    if (status == ROWLOCK_BUSY && now->call->patient && !was_patient)
        *hint_us = RL_AT_ONCE;
    /* The row is not kept locked during the wait for a thaw. */
    if (status == ROWLOCK_BUSY && now->call->hold->frozen)
        *hint_us = RL_FINAL;
    else if (status == ROWLOCK_BUSY)
        rl_error_prefix(err,
                        "'%s' is fenced by a transaction of its last holder: ", now->lock->name);
    if (status == ROWLOCK_BUSY || status == ROWLOCK_OK) {
        rowlock_status alive = confirm(now->call, status == ROWLOCK_OK ? err : NULL);
        if (alive != ROWLOCK_OK)
            return rl_fail(err, alive, "the connection that holds '%s' was lost", now->lock->name);
    }
    return status;
}

/* Which version of a dead holder is still published? 0: none. */
static rowlock_status look_for_stale(rl_row_call *call, const rl_lock *lock, uint64_t *stale,
                                     rowlock_error *err)
{
    if (!lock->fenced)
        return ROWLOCK_OK;
    rl_io io = rl_budget_quick_io(call->budget);
    const rl_value values[] = {rl_u64(lock->id)};
    rowlock_status status = rl_query_number(call->conn, RL_SQL_ROW_STALE, values, &io, stale, err);
    return status == ROWLOCK_OK ? status : rl_row_stopped(call, status, err);
}

static rowlock_status publish_one(rl_row_call *call, rl_lock *lock, rowlock_error *err)
{
    publishing now = {.call = call, .lock = lock};
    call->at = lock;
    const rl_attempts how = {.budget = call->budget, .backoff = RL_BACKOFF_USUAL};
    if (call->hold->unfenced)
        RL_TRY(look_for_stale(call, lock, &now.stale, err));
    if (call->hold->unfenced && !now.stale)
        return ROWLOCK_OK;
    return rl_attempt_until(&how, attempt, &now, err);
}

rowlock_status rl_row_publish(rl_row_call *call, rowlock_error *err)
{
    for (size_t i = 0; i < call->hold->count; i++)
        RL_TRY(publish_one(call, &call->hold->locks[i], err));
    /* The TTL counts from before the last answered request; that may have been a long wait. */
    bool long_ago = rl_now_us() - call->sent_us >= rl_margin_us(call->hold->held.ttl_us);
    return long_ago ? confirm(call, err) : ROWLOCK_OK;
}
