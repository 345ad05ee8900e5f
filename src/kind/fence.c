#include "kind/fence.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "kind/transaction.h"

static rowlock_status check_hold(const rowlock_hold *hold, rowlock_error *err)
{
    const rl_lock *lock = &hold->locks[0];
    if (hold->unfenced || hold->count != 1 || hold->member != RL_NO_MEMBER)
        return rl_fail(err, ROWLOCK_INVALID, "'%s' %s; it cannot fence a transaction", lock->name,
                       hold->unfenced ? "is held unfenced, it has no token"
                       : hold->member ? "is a latch or a barrier"
                                      : "is one of a set");
    return ROWLOCK_OK;
}

static rowlock_status lost(const rl_lock *lock, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_LOST, "'%s' is no longer held (token %" PRIu64 "); roll back",
                   lock->name, lock->version);
}

/*
 * The fence is a write to the resource's row, under the condition that it still carries the hold's
 * token. Every step that gives the lock to another client writes that row, and so waits for the
 * transaction to end; a renewal does not.
 */
rowlock_status rl_fence(rowlock_hold *hold, MYSQL *mysql, rowlock_error *err)
{
    const rl_lock *lock = &hold->locks[0];
    RL_TRY(check_hold(hold, err));
    RL_TRY(rl_tx_check(mysql, true, err));
    if (rl_hold_lost(hold))
        return lost(lock, err);
    rowlock_error spare = {0};
    err = rl_error_or(err, &spare);
    rl_caller caller = rl_tx_caller(hold->client, mysql);
    const rl_value values[] = {rl_u64(lock->id), rl_u64(lock->version), rl_text(hold->owner),
                               rl_text(caller.key)};
    const rl_value shared[] = {rl_u64(lock->id), rl_u64(lock->version), rl_text(caller.key)};
    const rl_sql_id way = hold->shared ? RL_SQL_CALLER_FENCE_SHARED : RL_SQL_CALLER_FENCE;
    rl_budget budget = rl_budget_start(hold->client->limit_ms, hold->client->limit_ms, NULL);
    rl_io io = rl_budget_lock_io(&budget);
    uint64_t rows = 0;
    rowlock_status status =
        rl_caller_run(&caller, way, hold->shared ? shared : values, &io, &rows, NULL, 0, err);
    /* Its procedure has rolled back what did not match. */
    if (status != ROWLOCK_OK || rows > 0 || !caller.via)
        status = rl_tx_outcome(&caller, lock->name, status, err);
    /* Without a number it is not the server that says BUSY: somebody has stopped the statement. */
    if (status == ROWLOCK_TIMEOUT || (status == ROWLOCK_BUSY && err->server_errno))
        return rl_fail(err, ROWLOCK_BUSY, "another transaction fences '%s' and is still open",
                       lock->name);
    if (status == ROWLOCK_UNKNOWN)
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "'%s': the connection is gone, and its transaction with it", lock->name);
    return status == ROWLOCK_OK && rows == 0 ? lost(lock, err) : status;
}

void rl_presented_as(const char *schema, const char *name, char as[RL_PRESENTED_MAX + 1])
{
    rl_put_hex(as, schema);
    size_t n = strlen(as);
    as[n] = '.';
    rl_put_hex(as + n + 1, name);
}

rowlock_status rl_present(rowlock_hold *hold, MYSQL *mysql, rowlock_error *err)
{
    const rl_lock *lock = &hold->locks[0];
    RL_TRY(check_hold(hold, err));
    if (hold->shared)
        return rl_fail(err, ROWLOCK_INVALID,
                       "'%s' is held together with others; a fenced table is written only by a "
                       "holder that has its lock alone",
                       lock->name);
    if (!mysql)
        return rl_fail(err, ROWLOCK_INVALID, "no connection was given (NULL)");
    if (rl_hold_lost(hold))
        return lost(lock, err);
    char as[RL_PRESENTED_MAX + 1];
    rl_presented_as(hold->client->schema, lock->name, as);
    rl_caller caller = rl_tx_caller(hold->client, mysql);
    const rl_value values[] = {rl_text(as), rl_u64(lock->version)};
    rl_budget budget = rl_budget_start(hold->client->limit_ms, hold->client->limit_ms, NULL);
    rl_io io = rl_budget_lock_io(&budget);
    uint64_t rows = 0;
    rowlock_status status =
        rl_caller_run(&caller, RL_SQL_CALLER_PRESENT, values, &io, &rows, NULL, 0, err);
    if (status == ROWLOCK_UNKNOWN)
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "'%s': the connection is gone", lock->name);
    return status;
}
