#include "kind/transaction.h"

#include <string.h>

#include "kind/row.h"
#include "kind/section.h"
#include "stmt/session.h"
#include "wait/backoff.h"

#define FIRST_DELAY_US 2000
#define MOST_DELAY_US  50000
#define ASK_MOST       20

rl_caller rl_tx_caller(rowlock_client *client, MYSQL *mysql)
{
    rl_caller caller = {.mysql = mysql,
                        .pool = &client->pool,
                        .schema = client->schema,
                        .via = rl_client_via(client)};
    /* Without a key it cannot be stopped before its time. */
    if (caller.via && !rl_key_make(caller.key))
        caller.key[0] = '\0';
    return caller;
}

rowlock_status rl_tx_check(MYSQL *mysql, bool wanted, rowlock_error *err)
{
    if (!mysql)
        return rl_fail(err, ROWLOCK_INVALID, "no connection was given (NULL)");
    bool inside = rl_in_transaction(mysql);
    if (wanted && !inside)
        return rl_fail(err, ROWLOCK_INVALID,
                       "the connection is not in a transaction; START TRANSACTION first");
    if (!wanted && inside)
        return rl_fail(err, ROWLOCK_INVALID,
                       "the connection is in a transaction already; commit or roll back first");
    return ROWLOCK_OK;
}

/* An error packet does not say; the reply to any other statement does. */
static bool still_inside(const rl_caller *caller, rowlock_status status)
{
    rl_io io = rl_io_until(RL_NEVER);
    uint64_t rows = 0;
    /* BUSY: somebody has stopped the question, too. */
    rowlock_status answer = status == ROWLOCK_OK ? ROWLOCK_OK : ROWLOCK_BUSY;
    for (int asked = 0; answer == ROWLOCK_BUSY && asked < ASK_MOST; asked++)
        answer = rl_caller_run(caller, RL_SQL_CALLER_NOTHING, NULL, &io, &rows, NULL, 0, NULL);
    return answer == ROWLOCK_OK && rl_in_transaction(caller->mysql);
}

rowlock_status rl_tx_outcome(const rl_caller *caller, const char *name, rowlock_status status,
                             rowlock_error *err)
{
    bool meant_inside = status == ROWLOCK_OK || status == ROWLOCK_BUSY ||
                        status == ROWLOCK_TIMEOUT || status == ROWLOCK_CANCELLED;
    if (!meant_inside || still_inside(caller, status))
        return status;
    return rl_fail(err, ROWLOCK_DEADLOCK, "'%s': the transaction was rolled back while it waited",
                   name);
}

/* ------------------------------------------------------------------------- row lock */

typedef struct tx_call {
    rowlock_client *client;
    const rl_budget *budget;
    rl_caller caller;
    const char *name;
    bool waits_in_server; /* KILL QUERY can end the wait: of the same user, or by its key */
    uint64_t id;
} tx_call;

static rowlock_status lock_row(tx_call *call, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(call->id), rl_text(call->caller.key)};
    rl_io io = rl_budget_lock_io(call->budget);
    char name[ROWLOCK_NAME_MAX * 4 + 1] = "";
    uint64_t rows = 0;
    rowlock_status status = rl_caller_run(
        &call->caller, call->waits_in_server ? RL_SQL_CALLER_ROW_LOCK : RL_SQL_CALLER_ROW_TRY,
        values, &io, &rows, name, sizeof name, err);
    if (status != ROWLOCK_OK)
        return status;
    if (rows > 0 && strcmp(name, call->name) == 0)
        return ROWLOCK_OK;
    /* Final: the locking read of a missing row has locked the gap it would be made in again. */
    rl_resource_forget(call->client, call->name);
    if (call->caller.via)
        return rl_fail(err, ROWLOCK_DEADLOCK,
                       "'%s' was purged just now; the transaction was rolled back", call->name);
    return rl_fail(err, ROWLOCK_NOT_FOUND, "'%s' was purged just now", call->name);
}

/* rl_attempt_until() tries again what the transaction survives; a deadlock ends it, as does a
 * lost connection. */
typedef struct tx_end {
    tx_call *call;
    rowlock_status status; /* OK: none yet */
} tx_end;

static rowlock_status tx_attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    tx_end *end = data;
    tx_call *call = end->call;
    rowlock_status status =
        rl_resource_id(call->client, call->budget, call->name, RL_KIND_ROW, &call->id, err);
    if (status != ROWLOCK_OK)
        return status;
    status = lock_row(call, err);
    status = rl_tx_outcome(&call->caller, call->name, status, err);
    /* The procedure has ended it in the caller's transaction: it knows who has the row's lock. */
    if (status == ROWLOCK_OK && call->caller.via)
        return status;
    if (status == ROWLOCK_OK)
        return rl_row_end_stale(call->client, call->budget, call->id, err);
    /* The session's own innodb_lock_wait_timeout ended it: queue again, at once. */
    if (status == ROWLOCK_BUSY && call->waits_in_server)
        *hint_us = RL_AT_ONCE;
    if (status == ROWLOCK_DEADLOCK || status == ROWLOCK_UNKNOWN || status == ROWLOCK_NOT_FOUND) {
        end->status = status == ROWLOCK_UNKNOWN     ? ROWLOCK_UNAVAILABLE
                      : status == ROWLOCK_NOT_FOUND ? ROWLOCK_BUSY
                                                    : status;
        return ROWLOCK_OK;
    }
    return status;
}

rowlock_status rl_tx_acquire(rowlock_client *client, MYSQL *mysql, const char *name,
                             const rowlock_tx_options *options, rowlock_error *err)
{
    rl_budget budget = rl_budget_start(options->wait_ms, client->limit_ms, options->cancel);
    tx_call call = {
        .client = client, .budget = &budget, .caller = rl_tx_caller(client, mysql), .name = name};
    call.waits_in_server =
        options->wait_ms != 0 && (*call.caller.key || rl_caller_same_user(mysql, client->user));
    tx_end end = {.call = &call, .status = ROWLOCK_OK};
    rowlock_status status = rl_row_check(client, err);
    if (status != ROWLOCK_OK)
        return status;
    /* A locking read of a row that is gone would lock its gap: no old knowledge here. */
    rl_resource_forget(client, name);
    const rl_attempts how = {.budget = &budget,
                             .outage_us = client->outage_us,
                             .backoff = {.first_us = FIRST_DELAY_US, .most_us = MOST_DELAY_US}};
    status = rl_attempt_until(&how, tx_attempt, &end, err);
    if (status == ROWLOCK_BUSY && err && err->server_errno)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is held by somebody else", name);
    if (status == ROWLOCK_OK && end.status == ROWLOCK_UNAVAILABLE)
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "'%s': the connection is gone, and its transaction with it", name);
    return status == ROWLOCK_OK ? end.status : status;
}

/* -------------------------------------------------------------------------- section */

rowlock_status rl_tx_swap(rowlock_client *client, MYSQL *mysql, const rl_budget *budget,
                          const char *name, uint64_t id, uint64_t expected, const char *owner,
                          rowlock_error *err)
{
    rl_caller caller = rl_tx_caller(client, mysql);
    const rl_value values[] = {rl_text(owner), rl_u64(id), rl_u64(expected), rl_text(caller.key)};
    rl_io io = rl_budget_lock_io(budget);
    uint64_t rows = 0;
    rowlock_status status =
        rl_caller_run(&caller, RL_SQL_CALLER_SECTION_SWAP, values, &io, &rows, NULL, 0, err);
    /* Its procedure has rolled back what did not match. */
    if (status != ROWLOCK_OK || rows > 0 || !caller.via)
        status = rl_tx_outcome(&caller, name, status, err);
    if (status != ROWLOCK_OK || rows > 0)
        return status;
    return rl_version_why_not(client, budget, name, id, expected, err);
}

typedef struct tx_section {
    rowlock_client *client;
    MYSQL *mysql;
    rl_caller caller;
    const char *name;
    rl_budget budget;
    rowlock_tx_section_fn fn;
    void *data;
    uint64_t node; /* to which the client's connections led when it began */
    bool gone;     /* the caller's connection, before its COMMIT was sent */
} tx_section;

static rowlock_status command(tx_section *section, rl_sql_id id, rowlock_error *err)
{
    rl_io io = rl_io_until(RL_NEVER);
    uint64_t rows = 0;
    return rl_caller_run(&section->caller, id, NULL, &io, &rows, NULL, 0, err);
}

static rowlock_status tx_begin(void *data, rowlock_error *err)
{
    tx_section *tx = data;
    tx->node = atomic_load(&tx->client->pool.node);
    rowlock_status status = command(tx, RL_SQL_CALLER_BEGIN, err);
    return status == ROWLOCK_UNKNOWN
               ? rl_fail(err, ROWLOCK_UNAVAILABLE, "the caller's connection is gone")
               : status;
}

static rowlock_status tx_work(void *data, const rowlock_section *section)
{
    tx_section *tx = data;
    return tx->fn(tx->data, section, tx->mysql);
}

static void tx_undo(void *data)
{
    (void)command(data, RL_SQL_CALLER_ROLLBACK, NULL);
}

static rowlock_status tx_swap(void *data, uint64_t id, uint64_t expected, const char *owner,
                              rl_trace *trace, rowlock_error *err)
{
    tx_section *tx = data;
    rowlock_status status =
        rl_tx_swap(tx->client, tx->mysql, &tx->budget, tx->name, id, expected, owner, err);
    /* Lost before the COMMIT was sent: the server rolls it back. */
    tx->gone = status == ROWLOCK_UNKNOWN;
    if (tx->gone)
        return ROWLOCK_LOST;
    if (status != ROWLOCK_OK)
        return status;
    bool ours = rl_caller_same_user(tx->mysql, tx->client->user);
    *trace = (rl_trace){.connection_id = ours ? mysql_thread_id(tx->mysql) : 0,
                        .callers = true,
                        .node = tx->node,
                        .sent_us = rl_now_us()};
    return command(tx, RL_SQL_CALLER_COMMIT, err);
}

rowlock_status rl_tx_section(rowlock_client *client, MYSQL *mysql, const char *name,
                             const rowlock_section_options *options, rowlock_tx_section_fn fn,
                             void *data, rowlock_section_result *result, rowlock_error *err)
{
    int64_t wait_ms = options->wait_ms ? options->wait_ms : ROWLOCK_WAIT_FOREVER;
    tx_section tx = {.client = client,
                     .mysql = mysql,
                     .caller = rl_tx_caller(client, mysql),
                     .name = name,
                     .budget = rl_budget_start(wait_ms, client->limit_ms, options->cancel),
                     .fn = fn,
                     .data = data};
    const rl_section_ways ways = {
        .data = &tx, .begin = tx_begin, .work = tx_work, .swap = tx_swap, .undo = tx_undo};
    rowlock_status status = rl_section_run(client, name, options, &ways, result, err);
    if (tx.gone)
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "'%s': the caller's connection is gone, and its transaction with it", name);
    return status;
}
