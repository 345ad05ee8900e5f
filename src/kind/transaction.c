#include "kind/transaction.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "kind/latch.h"
#include "kind/publish.h"
#include "kind/row.h"
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
    if (wanted && !inside && rl_commits_by_itself(mysql))
        return rl_fail(err, ROWLOCK_INVALID,
                       "the connection is not in a transaction; START TRANSACTION first");
    if (!wanted && inside)
        return rl_fail(err, ROWLOCK_INVALID,
                       "the connection is in a transaction already; commit or roll back first");
    return ROWLOCK_OK;
}

/* What waits for nobody; again, if a KILL QUERY has stopped this, too. */
static rowlock_status insist(const rl_caller *caller, rl_sql_id id)
{
    rl_io io = rl_io_until(RL_NEVER);
    uint64_t rows = 0;
    rowlock_status status = ROWLOCK_BUSY;
    for (int tries = 0; status == ROWLOCK_BUSY && tries < ASK_MOST; tries++)
        status = rl_caller_run(caller, id, NULL, &io, &rows, NULL, 0, NULL);
    return status;
}

/* An error packet does not say; the reply to any other statement does. */
static bool still_inside(const rl_caller *caller, rowlock_status status)
{
    rowlock_status answer =
        status == ROWLOCK_OK ? ROWLOCK_OK : insist(caller, RL_SQL_CALLER_NOTHING);
    return answer == ROWLOCK_OK && rl_in_transaction(caller->mysql);
}

rowlock_status rl_tx_whole(const rl_caller *caller, const rl_io *io, rl_tx_steps steps, void *data,
                           rowlock_error *err)
{
    uint64_t rows = 0;
    RL_TRY(rl_caller_run(caller, RL_SQL_CALLER_SAVEPOINT, NULL, io, &rows, NULL, 0, err));
    rowlock_status status = steps(data, err);
    /* Where this fails, the whole transaction is gone: rl_tx_outcome() sees that. */
    if (status != ROWLOCK_OK)
        (void)!insist(caller, RL_SQL_CALLER_UNDO);
    return status;
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
    RL_TRY(rl_caller_run(&call->caller,
                         call->waits_in_server ? RL_SQL_CALLER_ROW_LOCK : RL_SQL_CALLER_ROW_TRY,
                         values, &io, &rows, name, sizeof name, err));
    if (rows > 0 && strcmp(name, call->name) == 0)
        return ROWLOCK_OK;
    /* Final: the locking read of a missing row has locked the gap it would be made in again. */
    rl_resource_forget(call->client, call->name);
    if (call->caller.via)
        return rl_fail(err, ROWLOCK_DEADLOCK,
                       "'%s' was purged just now; the transaction was rolled back", call->name);
    return rl_fail(err, ROWLOCK_NOT_FOUND, "'%s' was purged just now", call->name);
}

rowlock_status rl_tx_gone(const char *name, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_UNAVAILABLE,
                   "'%s': the connection is gone, and its transaction with it", name);
}

/* What the transaction survives is tried again; a deadlock ends it, as does a lost connection. */
static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    tx_call *call = data;
    RL_TRY(rl_resource_id(call->client, call->budget, call->name, RL_KIND_ROW, &call->id, err));
    rowlock_status status = lock_row(call, err);
    status = rl_tx_outcome(&call->caller, call->name, status, err);
    /* The procedure has ended it in the caller's transaction: it knows who has the row's lock. */
    if (status == ROWLOCK_OK && call->caller.via)
        return status;
    if (status == ROWLOCK_OK)
        return rl_row_end_stale(call->client, call->budget, call->id, err);
    /* The session's own innodb_lock_wait_timeout ended it: queue again, at once. */
    if (status == ROWLOCK_BUSY && call->waits_in_server)
        *hint_us = RL_AT_ONCE;
    if (status == ROWLOCK_DEADLOCK || status == ROWLOCK_UNKNOWN || status == ROWLOCK_NOT_FOUND)
        *hint_us = RL_FINAL;
    if (status == ROWLOCK_UNKNOWN)
        return rl_tx_gone(call->name, err);
    if (status == ROWLOCK_NOT_FOUND)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' was purged just now", call->name);
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
    RL_TRY(rl_row_check(client, err));
    /* A locking read of a row that is gone would lock its gap: no old knowledge here. */
    rl_resource_forget(client, name);
    const rl_attempts how = {.budget = &budget,
                             .outage_us = client->outage_us,
                             .backoff = {.first_us = FIRST_DELAY_US, .most_us = MOST_DELAY_US}};
    rowlock_status status = rl_attempt_until(&how, attempt, &call, err);
    if (status == ROWLOCK_BUSY && err && err->server_errno)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is held by somebody else", name);
    return status;
}

/* ------------------------------------------------------------------------- a count */

rowlock_status rl_tx_latch_down(rowlock_client *client, MYSQL *mysql, const char *name,
                                const char *key, uint64_t generation, rowlock_error *err)
{
    const rl_caller caller = rl_tx_caller(client, mysql);
    const rl_budget budget = rl_budget_start(client->limit_ms, client->limit_ms, NULL);
    const rl_io io = rl_budget_lock_io(&budget);
    char owner[ROWLOCK_OWNER_MAX + 1];
    char name_digits[ROWLOCK_NAME_MAX * 8 + 1];
    char key_digits[ROWLOCK_NAME_MAX * 8 + 1];
    rowlock_error spare = {0};
    uint64_t id = 0;
    uint64_t rows = 0;
    err = rl_error_or(err, &spare);
    rl_client_owner(client, owner);
    rl_put_hex(name_digits, name);
    rl_put_hex(key_digits, key ? key : owner);
    RL_TRY(rl_resource_known(client, &budget, name, RL_KIND_LATCH, &id, err));
    const rl_value values[] = {rl_text(key_digits),  rl_text(owner),     rl_u64(id),
                               rl_text(name_digits), rl_u64(generation), rl_text(caller.key)};
    rowlock_status status =
        rl_caller_run(&caller, RL_SQL_CALLER_LATCH_DOWN, values, &io, &rows, NULL, 0, err);
    status = rl_tx_outcome(&caller, name, status, err);
    /* Without a number it is not the server that says BUSY: somebody has stopped the statement. */
    if (status == ROWLOCK_TIMEOUT || (status == ROWLOCK_BUSY && err->server_errno))
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is in use by a transaction that is still open",
                       name);
    if (status == ROWLOCK_UNKNOWN)
        return rl_tx_gone(name, err);
    if (status != ROWLOCK_OK || rows > 0)
        return status;
    return rl_latch_not_counted(client, &budget, name, id, generation, err);
}

/* ------------------------------------------------------------------------- a period */

rowlock_status rl_tx_once_done(rowlock_client *client, MYSQL *mysql, const char *name,
                               uint64_t token, rowlock_error *err)
{
    const rl_caller caller = rl_tx_caller(client, mysql);
    const rl_budget budget = rl_budget_start(client->limit_ms, client->limit_ms, NULL);
    const rl_io io = rl_budget_lock_io(&budget);
    rowlock_error spare = {0};
    uint64_t id = 0;
    uint64_t rows = 0;
    err = rl_error_or(err, &spare);
    RL_TRY(rl_resource_known(client, &budget, name, RL_KIND_LEASE, &id, err));
    const rl_value values[] = {rl_u64(id), rl_u64(token), rl_text(caller.key)};
    rowlock_status status =
        rl_caller_run(&caller, RL_SQL_CALLER_ONCE_DONE, values, &io, &rows, NULL, 0, err);
    /* Its procedure has rolled back what did not match. */
    if (status != ROWLOCK_OK || rows > 0 || !caller.via)
        status = rl_tx_outcome(&caller, name, status, err);
    /* Without a number it is not the server that says BUSY: somebody has stopped the statement. */
    if (status == ROWLOCK_TIMEOUT || (status == ROWLOCK_BUSY && err->server_errno))
        return rl_fail(err, ROWLOCK_BUSY, "'%s': somebody else has the period's row", name);
    if (status == ROWLOCK_UNKNOWN)
        return rl_tx_gone(name, err);
    if (status != ROWLOCK_OK || rows > 0)
        return status;
    return rl_fail(err, ROWLOCK_LOST,
                   "'%s': no period is running with token %" PRIu64
                   " any more; roll back (it was done already, or a later attempt has begun)",
                   name, token);
}
