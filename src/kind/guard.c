#include "kind/guard.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "base/text.h"
#include "kind/transaction.h"
#include "stmt/session.h"

static bool is_slot(const rowlock_hold *hold)
{
    return hold->slots || (hold->whole && hold->whole->slots);
}

rowlock_status rl_guard_check(const rowlock_hold *hold, rowlock_error *err)
{
    const rl_lock *lock = &hold->locks[0];
    const rl_cluster cluster = rl_pool_cluster(&hold->client->pool);
    const char *what = hold->parts                        ? "a set"
                       : hold->grant                      ? "of a quorum of servers"
                       : hold->mode != ROWLOCK_OPTIMISTIC ? "a row lock, which ends with its "
                                                            "connection"
                       : is_slot(hold)                    ? "a slot"
                       : hold->member != RL_NO_MEMBER     ? "a latch or a barrier"
                       : hold->shared                     ? "held together with others"
                                                          : NULL;
    if (what)
        return rl_fail(err, ROWLOCK_UNSUPPORTED,
                       "'%s' is %s: connections are registered with a lease that is held alone",
                       lock->name, what);
    if (!rl_many_writers(cluster, false))
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNSUPPORTED,
                   "the server is %s: the number of a connection means nothing at another node",
                   rl_cluster_traits_of(cluster)->name);
}

static rowlock_status lost(const rl_lock *lock, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_LOST, "'%s' is no longer held (token %" PRIu64 ")", lock->name,
                   lock->version);
}

#define SECRET_SIZE 33

/* The named lock by which the connection is known until it has ended: one, however often it is
 * registered. */
static rowlock_status mark(const rl_caller *caller, char secret[SECRET_SIZE], const rl_io *io,
                           rowlock_error *err)
{
    char made[SECRET_SIZE] = "";
    uint64_t rows = 0;
    if (!rl_random_hex(made, (SECRET_SIZE - 1) / 2))
        return rl_fail(err, ROWLOCK_SYSTEM, "the system gives no random number");
    const rl_value values[] = {rl_text(made)};
    *secret = '\0';
    rowlock_status status =
        rl_caller_run(caller, RL_SQL_CALLER_MARK, values, io, &rows, secret, SECRET_SIZE, err);
    if (status == ROWLOCK_OK && !*secret)
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "the server gives the connection no named lock");
    if (status == ROWLOCK_OK && strcmp(secret, made) == 0)
        status = rl_caller_run(caller, RL_SQL_CALLER_KEEP_MARK, values, io, &rows, NULL, 0, err);
    if (status == ROWLOCK_UNKNOWN)
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "the connection is gone");
    return status;
}

static rowlock_status through_a_proxy(const rl_lock *lock, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_UNSUPPORTED,
                   "'%s': a proxy hides the server's connections: none can be registered",
                   lock->name);
}

/* In this order: sql/guard.sql. */
static rowlock_status add(rowlock_hold *hold, const char *secret, const rl_io *io,
                          rowlock_error *err)
{
    const rl_lock *lock = &hold->locks[0];
    const rl_value row[] = {rl_text(secret), rl_u64(lock->id), rl_u64(lock->version),
                            rl_text(hold->owner)};
    rl_done done = {0};
    uint64_t here = 1;
    RL_BORROWED conn = NULL;
    RL_TRY(rl_pool_take(&hold->client->pool, NULL, io, &conn, err));
    if (conn->server.identity != hold->held.identity)
        return rl_fail(err, ROWLOCK_LOST, "'%s' was lost: " RL_MOVED, lock->name);
    if (conn->server.proxied)
        return through_a_proxy(lock, err);
    RL_TRY(rl_run_match(conn, RL_SQL_GUARD_ADD, row, io, &done, err));
    if (done.rows > 0)
        RL_TRY(rl_run_match(conn, RL_SQL_GUARD_SET, row + 1, io, &done, err));
    else
        RL_TRY(rl_query_number(conn, RL_SQL_GUARD_MARKED, row, io, &here, err));
    if (!here)
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "'%s': the connection does not lead to the server that has the lease",
                       lock->name);
    return done.rows > 0 ? ROWLOCK_OK : lost(lock, err);
}

rowlock_status rl_guard_add(rowlock_hold *hold, MYSQL *mysql, rowlock_error *err)
{
    rl_budget budget = rl_budget_start(hold->client->limit_ms, hold->client->limit_ms, NULL);
    rl_io io = rl_budget_lock_io(&budget);
    const rl_caller caller = {
        .mysql = mysql, .pool = &hold->client->pool, .schema = hold->client->schema};
    char secret[SECRET_SIZE];
    RL_TRY(rl_guard_check(hold, err));
    RL_TRY(rl_tx_check(mysql, false, err));
    if (rl_hold_lost(hold))
        return lost(&hold->locks[0], err);
    RL_TRY(mark(&caller, secret, &io, err));
    return rl_no_effect(add(hold, secret, &io, err), err);
}

rowlock_status rl_guard_command(const rowlock_hold *hold, char *text, rowlock_error *err)
{
    const rl_lock *lock = &hold->locks[0];
    char name[ROWLOCK_NAME_MAX * 8 + 1];
    RL_TRY(rl_guard_check(hold, err));
    rl_put_hex(name, lock->name);
    const rl_value values[] = {rl_text(name), rl_u64(lock->version)};
    RL_CLEANUP(rl_buffer_free) rl_buffer sql = {0};
    if (!rl_render(false, RL_SQL_GUARD_COMMAND, hold->client->schema, values, &sql))
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    if (sql.length > ROWLOCK_INIT_COMMAND_MAX)
        return rl_fail(err, ROWLOCK_UNSUPPORTED, "'%s': the statement would be too long",
                       lock->name);
    snprintf(text, ROWLOCK_INIT_COMMAND_MAX + 1, "%s", sql.text);
    return ROWLOCK_OK;
}
