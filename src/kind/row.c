/*
 * The row lock. Acquire, as the design has it:
 *
 *   1. a connection for this hold alone, autocommit off, wait_timeout = the TTL;
 *   2. lock_rows():  SELECT ... FOR UPDATE for each name in order. Waiting happens in the
 *                    server, first come first served; the io ends it with KILL QUERY.
 *   3. publish():    holding the rows, bump each version on a *second* connection in
 *                    autocommit (the first could not commit it and keep the lock);
 *   4. ping the first: only if it answers was the bump made under the lock.
 *
 * Unfenced, 3 and 4 are left out, unless a dead holder is still published: its token has to end.
 * Most names are used in one way for ever, so a row remembers whether it was ever fenced, and
 * only of such a name is the question asked.
 *
 * A lost connection is never ambiguous here: the lock is gone with it.
 */
#include "kind/row.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/settle.h"
#include "stmt/session.h"
#include "wait/backoff.h"

#define END_US 200000 /* for ending a connection that did not answer, although the time is over */

#define FIRST_DELAY_US  5000
#define MOST_DELAY_US   250000
#define LABEL_IN_DETAIL 251 /* bytes of a label in an event, its end included */

typedef struct row_call {
    rowlock_hold *hold;
    const rl_budget *budget;
    rl_conn *conn;
    int64_t sent_us;    /* before the last request on conn that was answered */
    int64_t reached_us; /* when the server was there for sure, last */
    bool patient;       /* nobody is published, or we are: only the server is slow */
    bool wary;          /* a connection that the pool had not looked at was gone */
    bool over;          /* the last holder died without putting it back */
    char detail[400];
} row_call;

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

/* Stopped because our time was over, or somebody cancelled: which? The lock cannot have been
 * kept, whatever the server answered. */
static rowlock_status stopped(const row_call *call, rowlock_status status, rowlock_error *err)
{
    if (status == ROWLOCK_TIMEOUT || status == ROWLOCK_CANCELLED)
        return status;
    bool cancelled = rl_budget_cancelled(call->budget);
    bool over = !call->budget->try_once && rl_budget_spent(call->budget);
    if (call->conn->interrupted && (cancelled || over))
        return rl_fail(err, cancelled ? ROWLOCK_CANCELLED : ROWLOCK_TIMEOUT, "%s",
                       rowlock_status_text(cancelled ? ROWLOCK_CANCELLED : ROWLOCK_TIMEOUT));
    return status == ROWLOCK_UNKNOWN
               ? rl_fail(err, ROWLOCK_UNAVAILABLE, "the connection that waited for it was lost")
               : status;
}

/* The name may lead to who is the primary by now: the connection is not kept. */
static rowlock_status not_primary(rl_conn *conn, const rl_lock *lock, rowlock_error *err)
{
    conn->demoted = true;
    return rl_fail(err, ROWLOCK_READONLY,
                   "%s: its row locks are nobody's business; '%s' was not locked",
                   rowlock_status_text(ROWLOCK_READONLY), lock->name);
}

/* Somebody has ended the wait with KILL QUERY: that is no outage. */
static void note_stopped(row_call *call, rowlock_status status, const rowlock_error *err)
{
    const rl_conn *conn = call->conn;
    if (status == ROWLOCK_UNAVAILABLE && !conn->broken &&
        rl_server_status(err->server_errno, conn->flavour) == ROWLOCK_CANCELLED)
        call->reached_us = rl_now_us();
}

static rowlock_status lock_row(row_call *call, rl_lock *lock, rowlock_error *err)
{
    rowlock_error spare = {0};
    err = rl_error_or(err, &spare);
    bool try_once = call->budget->try_once;
    const rl_value values[] = {rl_u64(lock->id)};
    rl_io io = rl_budget_lock_io(call->budget);
    rl_rows rows;
    bool found = false;
    call->sent_us = rl_now_us();
    rowlock_status status = rl_query_one(call->conn, try_once ? RL_SQL_ROW_TRY : RL_SQL_ROW_LOCK,
                                         values, &io, &found, &rows, err);
    note_stopped(call, status, err);
    if (status != ROWLOCK_OK || call->conn->interrupted)
        return stopped(call, status == ROWLOCK_OK ? ROWLOCK_UNKNOWN : status, err);
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

static rowlock_status find_rows(row_call *call, rowlock_error *err)
{
    for (size_t i = 0; i < call->hold->count; i++) {
        rl_lock *lock = &call->hold->locks[i];
        rowlock_status status = rl_resource_row_id(call->hold->client, call->budget, lock->name,
                                                   !call->hold->unfenced, &lock->id, err);
        if (status != ROWLOCK_OK)
            return status;
    }
    return ROWLOCK_OK;
}

static rowlock_status lock_each(row_call *call, rowlock_error *err)
{
    for (size_t i = 0; i < call->hold->count; i++) {
        rowlock_status status = lock_row(call, &call->hold->locks[i], err);
        if (status != ROWLOCK_OK)
            return status;
    }
    return ROWLOCK_OK;
}

/* Holding the rows, which the COMMIT lets go. */
static rowlock_status mark_fenced(row_call *call, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(call->budget);
    rowlock_status status = ROWLOCK_OK;
    for (size_t i = 0; i < call->hold->count && status == ROWLOCK_OK; i++) {
        const rl_value values[] = {rl_u64(call->hold->locks[i].id)};
        status = rl_run(call->conn, RL_SQL_ROW_FENCE, values, &io, NULL, err);
    }
    if (status == ROWLOCK_OK)
        status = rl_run(call->conn, RL_SQL_ROW_COMMIT, NULL, &io, NULL, err);
    return status == ROWLOCK_OK ? status : stopped(call, status, err);
}

static bool all_fenced(const rowlock_hold *hold)
{
    for (size_t i = 0; i < hold->count; i++)
        if (!hold->locks[i].fenced)
            return false;
    return true;
}

/* Once in the life of a name that was unfenced: marked and locked anew before it is published. */
static rowlock_status lock_rows(row_call *call, rowlock_error *err)
{
    rowlock_status status = lock_each(call, err);
    if (status != ROWLOCK_OK || call->hold->unfenced || all_fenced(call->hold))
        return status;
    status = mark_fenced(call, err);
    return status == ROWLOCK_OK ? lock_each(call, err) : status;
}

/* ------------------------------------------------------------------------- publishing */

typedef struct published {
    bool held;
    uint64_t version;
    char label[ROWLOCK_LABEL_MAX * 4 + 1];
    bool ours; /* the owner id is the asking hold's */
    char kind[17];
} published;

static void keep_published(void *data, const rl_cell *cells)
{
    published *row = data;
    snprintf(row->kind, sizeof row->kind, "%s", cells[0].text);
    row->held = strcmp(cells[1].text, "held") == 0;
    row->version = cells[2].u64;
    row->ours = cells[3].u64 != 0;
    snprintf(row->label, sizeof row->label, "%s", cells[4].text);
}

static rowlock_status read_published(const rowlock_hold *hold, const rl_budget *budget,
                                     const rl_lock *lock, bool *found, published *row,
                                     rowlock_error *err)
{
    const rl_value values[] = {rl_u64(lock->id), rl_text(lock->name), rl_text(hold->owner)};
    return rl_client_read(hold->client, budget, RL_SQL_ROW_LOOK, values, keep_published, row, found,
                          err);
}

/* Only if the holding connection answers now was the bump made under the lock. */
static rowlock_status confirm(row_call *call, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(call->budget);
    int64_t sent_us = rl_now_us();
    rowlock_status status = rl_conn_ping(call->conn, &io, err);
    if (status != ROWLOCK_OK)
        return stopped(call, ROWLOCK_UNKNOWN, err);
    call->sent_us = sent_us;
    return ROWLOCK_OK;
}

/* The proof, made of the row as it is now, that we have its lock. */
static rowlock_status renew_ticket(row_call *call, rl_lock *lock, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(call->budget);
    const rl_value values[] = {rl_u64(lock->id)};
    rl_rows rows;
    bool found = false;
    int64_t sent_us = rl_now_us();
    rowlock_status status =
        rl_query_one(call->conn, RL_SQL_ROW_TICKET, values, &io, &found, &rows, err);
    if (status != ROWLOCK_OK)
        return stopped(call, ROWLOCK_UNKNOWN, err);
    snprintf(lock->ticket, sizeof lock->ticket, "%s", found ? rows.cells[0].text : "");
    call->sent_us = sent_us;
    return ROWLOCK_OK;
}

/* The row says that somebody holds it, and we have the row lock: its holder is dead (or it
 * is us, and our first reply was lost). */
static rowlock_status publish_over(row_call *call, rl_lock *lock, rl_trace *trace, rl_done *done,
                                   rowlock_error *err)
{
    rowlock_client *client = call->hold->client;
    published row = {0};
    bool found = false;
    rowlock_status status = read_published(call->hold, call->budget, lock, &found, &row, err);
    if (status != ROWLOCK_OK)
        return status;
    if (found && strcmp(row.kind, RL_KIND_ROW) != 0)
        return rl_resource_wrong_kind(lock->name, row.kind, RL_KIND_ROW, err);
    if (!found) {
        rl_resource_forget(client, lock->name);
        return rl_fail(err, ROWLOCK_NOT_FOUND, "'%s' was purged just now", lock->name);
    }
    if (!row.held) {
        call->patient = true;
        status = call->conn->via ? renew_ticket(call, lock, err) : ROWLOCK_OK;
        return status == ROWLOCK_OK
                   ? rl_fail(err, ROWLOCK_BUSY, "'%s' changed just now", lock->name)
                   : status;
    }
    /* Alive after the look, and so the last to have the row's lock before the swap: whoever is
     * published is not somebody who got the lock when our own connection died. */
    status = call->conn->via ? renew_ticket(call, lock, err) : confirm(call, err);
    if (status != ROWLOCK_OK)
        return status;
    /* What we sent before has come to pass after all: the server is slow, and no transaction has
     * fenced a token that nobody knows yet. */
    call->patient = call->patient || row.ours;
    const rl_value values[] = {rl_u64(row.version),    rl_text(call->hold->owner),
                               rl_text(client->label), rl_u64(call->conn->id),
                               rl_u64(lock->id),       rl_text(lock->name),
                               rl_text(lock->ticket)};
    status = rl_client_change(client, call->budget, call->conn, row.ours, RL_SQL_ROW_PUBLISH_OVER,
                              values, trace, done, err);
    if (status == ROWLOCK_OK && done->rows > 0 && !row.ours) {
        call->over = true;
        char label[LABEL_IN_DETAIL];
        rl_copy_label(label, sizeof label, row.label);
        snprintf(call->detail, sizeof call->detail,
                 "from %s, token %" PRIu64 ", whose connection ended", label, row.version);
    }
    return status;
}

/* A change that we broke off, and a busy server that has not answered the KILL QUERY in time: it is
 * our time that was over, although the connection had to go. */
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
    rowlock_status status =
        rl_client_read(client, budget, RL_SQL_ROW_STALE, values, keep_version, &seen, &found, err);
    if (status != ROWLOCK_OK || !found)
        return status;
    return end_stale(client, budget, NULL, seen, &lock, err);
}

/* Where the OK packet did not say it: see read_token() of the lease. */
static rowlock_status read_token(const row_call *call, rl_lock *lock, rowlock_error *err)
{
    published row = {0};
    bool found = false;
    rowlock_status status = read_published(call->hold, call->budget, lock, &found, &row, err);
    if (status != ROWLOCK_OK)
        return status;
    if (!found || !row.held || !row.ours)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' changed just now", lock->name);
    lock->version = row.version;
    return ROWLOCK_OK;
}

/* Of an unfenced hold: not itself, but the end of the dead holder's publication. */
static rowlock_status publish_end(row_call *call, rl_lock *lock, uint64_t stale, rowlock_error *err)
{
    rowlock_status status = call->conn->via ? renew_ticket(call, lock, err) : ROWLOCK_OK;
    if (status != ROWLOCK_OK)
        return status;
    return end_stale(call->hold->client, call->budget, call->conn, stale, lock, err);
}

static rowlock_status publish_row(row_call *call, rl_lock *lock, rowlock_error *err)
{
    rowlock_client *client = call->hold->client;
    const rl_value values[] = {rl_text(call->hold->owner), rl_text(client->label),
                               rl_u64(call->conn->id),     rl_u64(lock->id),
                               rl_text(lock->name),        rl_text(lock->ticket)};
    rl_done done = {0};
    rl_trace trace = {0};
    rowlock_status status = rl_client_change(client, call->budget, call->conn, call->patient,
                                             RL_SQL_ROW_PUBLISH, values, &trace, &done, err);
    /* Also where the answer to our KILL QUERY was late, and nobody knows: a look tells. */
    bool broken = status == ROWLOCK_TIMEOUT || (status == ROWLOCK_UNKNOWN && trace.stopped);
    bool stuck = broken && call->budget->try_once;
    if (stuck || (status == ROWLOCK_OK && done.rows == 0))
        status = publish_over(call, lock, &trace, &done, err);
    /* The version may have risen once more; a token that nobody got does no harm. */
    status = broken_off(call->budget, &trace, status, err);
    if (status == ROWLOCK_TIMEOUT && call->budget->try_once)
        return rl_fail(err, ROWLOCK_BUSY, "a transaction is using it");
    if (status == ROWLOCK_UNKNOWN)
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "the connection to the server was lost");
    if (status == ROWLOCK_OK && done.rows == 0)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' changed just now", lock->name);
    if (status != ROWLOCK_OK)
        return status;
    lock->version = done.insert_id;
    if (!done.insert_id)
        status = read_token(call, lock, err);
    if (status != ROWLOCK_OK)
        return status;
    return rl_resource_check_token(client, call->budget, lock->name, lock->id, lock->version,
                                   call->hold->owner, err);
}

typedef struct publishing {
    row_call *call;
    rl_lock *lock;
    uint64_t stale; /* the version that a dead holder has published; unfenced alone */
} publishing;

/* BUSY: a transaction has fenced the last holder's token and is still open. The row lock is
 * kept meanwhile: it is our turn. */
static rowlock_status publish_attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    publishing *now = data;
    bool was_patient = now->call->patient;
    rowlock_status status = now->call->hold->unfenced
                                ? publish_end(now->call, now->lock, now->stale, err)
                                : publish_row(now->call, now->lock, err);
    if (status == ROWLOCK_BUSY && now->call->patient && !was_patient)
        *hint_us = RL_AT_ONCE;
    if (status == ROWLOCK_BUSY)
        rl_error_prefix(err,
                        "'%s' is fenced by a transaction of its last holder: ", now->lock->name);
    if (status == ROWLOCK_BUSY || status == ROWLOCK_OK) {
        rowlock_status alive = confirm(now->call, status == ROWLOCK_OK ? err : NULL);
        if (alive != ROWLOCK_OK)
            return rl_fail(err, alive, "the connection that holds '%s' was lost", now->lock->name);
    }
    return status;
}

static rowlock_status publish_one(row_call *call, rl_lock *lock, uint64_t stale, rowlock_error *err)
{
    publishing now = {.call = call, .lock = lock, .stale = stale};
    const rl_attempts how = {.budget = call->budget,
                             .backoff = {.first_us = FIRST_DELAY_US, .most_us = MOST_DELAY_US}};
    return rl_attempt_until(&how, publish_attempt, &now, err);
}

/* Which version of a dead holder is still published? 0: none. */
static rowlock_status look_for_stale(row_call *call, const rl_lock *lock, uint64_t *stale,
                                     rowlock_error *err)
{
    *stale = 0;
    if (!lock->fenced)
        return ROWLOCK_OK;
    rl_io io = rl_budget_quick_io(call->budget);
    const rl_value values[] = {rl_u64(lock->id)};
    rowlock_status status = rl_query_number(call->conn, RL_SQL_ROW_STALE, values, &io, stale, err);
    return status == ROWLOCK_OK ? status : stopped(call, status, err);
}

/* Unfenced, nothing is written, unless a dead holder's token has to be ended. */
static rowlock_status publish(row_call *call, rowlock_error *err)
{
    for (size_t i = 0; i < call->hold->count; i++) {
        rl_lock *lock = &call->hold->locks[i];
        rowlock_status status = ROWLOCK_OK;
        uint64_t stale = 0;
        if (call->hold->unfenced)
            status = look_for_stale(call, lock, &stale, err);
        if (status == ROWLOCK_OK && (!call->hold->unfenced || stale))
            status = publish_one(call, lock, stale, err);
        if (status != ROWLOCK_OK)
            return status;
    }
    /* The TTL counts from before the last answered request; that may have been a long wait. */
    bool long_ago = rl_now_us() - call->sent_us >= rl_margin_us(call->hold->held.ttl_us);
    return long_ago ? confirm(call, err) : ROWLOCK_OK;
}

/* ---------------------------------------------------------------------------- acquire */

/* Back to no transaction, or no connection. */
static void let_go(row_call *call)
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

/* What may run while its rows are locked: in a transaction nothing is prepared. */
static rowlock_status prepare_conn(const row_call *call, const rl_io *io, rowlock_error *err)
{
    const bool unfenced = call->hold->unfenced;
    const rl_sql_id needed[] = {RL_SQL_ROW_COMMIT, unfenced ? RL_SQL_ROW_STALE : RL_SQL_ROW_FENCE,
                                RL_SQL_ROW_TICKET};
    return rl_prepare_all(call->conn, needed, call->conn->via ? 3 : 2, io, err);
}

static rowlock_status open_conn(row_call *call, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(call->budget);
    rl_pool *pool = &call->hold->client->pool;
    const rl_request hold = {.purpose = RL_HOLD, .unseen = !call->wary};
    rowlock_status status = rl_pool_take(pool, &hold, &io, &call->conn, err);
    if (status == ROWLOCK_OK && call->conn->used_us == 0) /* just made */
        call->reached_us = rl_now_us();
    if (status == ROWLOCK_OK)
        status =
            rl_set_idle_limit(call->conn, (uint64_t)(call->hold->held.ttl_us / 1000000), &io, err);
    if (status == ROWLOCK_OK)
        status = prepare_conn(call, &io, err);
    return rl_no_effect(status, err);
}

/* A wait may have begun before a failover: who asks for the lock today asks another server. */
static rowlock_status is_current(const row_call *call, rowlock_error *err)
{
    const rowlock_hold *hold = call->hold;
    if (rl_pool_is_current(&hold->client->pool, &call->conn->server, true))
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNAVAILABLE, "'%s' was granted, but " RL_MOVED,
                   hold->locks[0].name);
}

/* The ids, and a connection to the server that gave them: a new one may lead elsewhere. */
static rowlock_status find_rows_and_open(row_call *call, rowlock_error *err)
{
    uint64_t asked = atomic_load(&call->hold->client->pool.identity);
    rowlock_status status = find_rows(call, err);
    if (status == ROWLOCK_OK)
        status = open_conn(call, err);
    if (status == ROWLOCK_OK && call->conn->server.identity != asked)
        status = find_rows(call, err);
    return status;
}

static rowlock_status lock_and_publish(row_call *call, rowlock_error *err)
{
    rowlock_status status = find_rows_and_open(call, err);
    if (status == ROWLOCK_OK)
        status = lock_rows(call, err);
    if (status == ROWLOCK_OK)
        status = publish(call, err);
    return status == ROWLOCK_OK ? is_current(call, err) : status;
}

/* It may have been dead in the pool, which did not look; that is not to end a try. */
static bool may_have_been_dead(const row_call *call, rowlock_status status)
{
    return status == ROWLOCK_UNAVAILABLE && call->conn && call->conn->unseen && call->conn->broken;
}

static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    row_call *call = data;
    rowlock_status status = lock_and_publish(call, err);
    if (may_have_been_dead(call, status)) {
        let_go(call);
        call->wary = true;
        status = lock_and_publish(call, err);
    }
    if (status == ROWLOCK_OK)
        return status;
    let_go(call);
    if (status != ROWLOCK_NOT_FOUND)
        return status;
    *hint_us = RL_AT_ONCE;
    return ROWLOCK_BUSY;
}

/* For the message alone, and quickly: the call's time is over. */
static rowlock_status not_got(const row_call *call, rowlock_status status, rowlock_error *err)
{
    const rl_lock *lock = &call->hold->locks[0];
    rl_budget budget = rl_budget_start(0, RL_GRACE_US / 2000, NULL);
    published row = {0};
    bool found = false;
    budget.abrupt = true;
    bool known = lock->id &&
                 read_published(call->hold, &budget, lock, &found, &row, NULL) == ROWLOCK_OK &&
                 found && row.held;
    const char *set = call->hold->count > 1 ? " (or another name of the set)" : "";
    const char *before =
        status == ROWLOCK_TIMEOUT ? "the wait ended before the lock was free: " : "";
    if (known)
        return rl_fail(err, status, "%s'%s'%s is held by %s (token %" PRIu64 ")", before,
                       lock->name, set, row.label, row.version);
    return rl_fail(err, status, "%s'%s'%s is held by somebody else", before, lock->name, set);
}

rowlock_status rl_row_acquire(rowlock_hold *hold, const rl_budget *budget, rowlock_error *err)
{
    row_call call = {.hold = hold, .budget = budget};
    rowlock_status status = rl_row_check(hold->client, err);
    if (status != ROWLOCK_OK)
        return status;
    const rl_attempts how = {.budget = budget,
                             .outage_us = hold->client->outage_us,
                             .reached_us = &call.reached_us,
                             .backoff = {.first_us = FIRST_DELAY_US, .most_us = MOST_DELAY_US}};
    status = rl_attempt_until(&how, attempt, &call, err);
    if (err && (status == ROWLOCK_BUSY || status == ROWLOCK_TIMEOUT))
        return not_got(&call, status, err);
    if (status != ROWLOCK_OK)
        return status;
    hold->held.conn = call.conn;
    rl_held_extend(&hold->held, call.sent_us, hold->held.ttl_us);
    rl_hold_begin(hold, budget, call.over ? "taken_over" : "acquired",
                  call.over ? call.detail : NULL);
    return ROWLOCK_OK;
}

/* ---------------------------------------------------------------------------- release */

/* Connections lead elsewhere by now, or this one to a server that is not the primary any more:
 * nobody who asks for the lock today asks there. */
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
            rl_client_run(hold->client, budget, RL_SQL_ROW_UNPUBLISH, values, &done, err);
        if (status == ROWLOCK_BUSY)
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
        published row = {0};
        bool found = false;
        rowlock_status status = read_published(hold, budget, &hold->locks[i], &found, &row, err);
        if (status != ROWLOCK_OK)
            return rl_fail(err, ROWLOCK_UNKNOWN,
                           "the connection that held '%s' broke at its release, and the server "
                           "cannot be asked; the lock is free",
                           hold->locks[i].name);
        if (left_behind(hold))
            return lost_with_server(hold, err);
        if (!found || row.version != hold->locks[i].version)
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
    rowlock_status status = rl_conn_settle(conn, &io, err);
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
        rl_hold_record(hold, "released", options, options->note);
    else if (status == ROWLOCK_LOST && !was_lost)
        rl_hold_record(hold, "lost", options, "found at its release");
    return status;
}

/* --------------------------------------------------------------------------- the dead */

/* The row locks that are published may be those of another node, which do not show here. */
static bool held_elsewhere(const rowlock_client *client, const rl_conn *conn)
{
    return conn->server.read_only || rl_many_writers(conn->server.cluster, client->single_writer);
}

/* What is published is believed, and left alone. What was read-only is asked anew the next time. */
static rowlock_status believe(rl_conn *conn, bool to_end, bool *locked, bool *freed,
                              rowlock_error *err)
{
    conn->demoted = conn->server.read_only;
    if (to_end && conn->server.read_only)
        return rl_fail(err, ROWLOCK_READONLY, "%s", rowlock_status_text(ROWLOCK_READONLY));
    *locked = true;
    *freed = false;
    return ROWLOCK_OK;
}

/* Nobody has the row's lock: then `freed` conditionally, while we have it. */
static rowlock_status with_row(rowlock_client *client, const rl_budget *budget, uint64_t id,
                               const rl_value *unpublish_values, bool *locked, bool *freed,
                               rowlock_error *err)
{
    static const rl_request hold = {.purpose = RL_HOLD};
    rl_io io = rl_budget_quick_io(budget);
    rl_conn *conn = NULL;
    rl_rows rows;
    bool got = false;
    rl_done done = {0};
    rowlock_status status = rl_pool_take(&client->pool, &hold, &io, &conn, err);
    if (status != ROWLOCK_OK)
        return status;
    if (held_elsewhere(client, conn)) {
        status = believe(conn, unpublish_values, locked, freed, err);
        rl_pool_give(&client->pool, conn);
        return status;
    }
    const rl_value values[] = {rl_u64(id)};
    status = rl_query_one(conn, RL_SQL_ROW_PROBE, values, &io, &got, &rows, err);
    /* Who may only look may not lock on MySQL, not even to see, nor may anybody on a read-only
     * server (1290): what is published is believed. */
    if ((status == ROWLOCK_DENIED || status == ROWLOCK_READONLY) && !unpublish_values)
        status = ROWLOCK_OK;
    if (status == ROWLOCK_OK && got && unpublish_values)
        status = rl_client_run(client, budget, RL_SQL_ROW_UNPUBLISH, unpublish_values, &done, err);
    if (rl_run_text(conn, RL_SQL_ROLLBACK, NULL, &io, NULL) != ROWLOCK_OK)
        conn->broken = true;
    rl_pool_give(&client->pool, conn);
    if (status != ROWLOCK_OK)
        return status;
    *locked = !got;
    *freed = done.rows > 0;
    return ROWLOCK_OK;
}

rowlock_status rl_row_expire(rowlock_client *client, const rl_budget *budget, uint64_t id,
                             uint64_t version, const char *owner, bool *freed, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(id), rl_u64(version), rl_text(owner)};
    bool locked = false;
    return with_row(client, budget, id, values, &locked, freed, err);
}

rowlock_status rl_row_probe(rowlock_client *client, const rl_budget *budget, uint64_t id,
                            bool *locked, rowlock_error *err)
{
    bool freed = false;
    return with_row(client, budget, id, NULL, locked, &freed, err);
}
