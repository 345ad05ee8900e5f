#include "migrate/open.h"

#include <string.h>

#include "stmt/session.h"
#include "stmt/stmt.h"
#include "wait/reach.h"

#define LOCK_WAIT_DEFAULT_MS 60000
#define LOCK_WAIT_MOST_S     31536000

static rowlock_status connect_once(const rl_params *to, const rl_io *io, rl_conn **conn,
                                   rowlock_error *err)
{
    rowlock_status status = rl_conn_open(to, io, conn, err);
    if (status != ROWLOCK_OK)
        return status;
    status = rl_stmt_pool_hooks.setup(*conn, RL_WORK, io, err);
    if (status == ROWLOCK_OK)
        status = rl_run_text(*conn, RL_SQL_MIGRATION_PATIENCE, NULL, io, err);
    if (status != ROWLOCK_OK) {
        rl_conn_close(*conn);
        *conn = NULL;
    }
    /* Nothing but the session's own settings was sent. */
    return status == ROWLOCK_UNKNOWN
               ? rl_fail(err, ROWLOCK_UNAVAILABLE, "the server ended a new connection")
               : status;
}

typedef struct connecting {
    rl_params to;
    const rl_io *io;
    rl_conn **conn;
} connecting;

static rowlock_status try_to_connect(void *data, int64_t limit_ms, rowlock_error *err)
{
    connecting *c = data;
    c->to.connect_timeout_ms = limit_ms;
    return connect_once(&c->to, c->io, c->conn, err);
}

rowlock_status rl_migrate_connect(const rl_params *params, const char *schema, const rl_io *io,
                                  rl_conn **conn, rowlock_error *err)
{
    connecting c = {.to = *params, .io = io, .conn = conn};
    const rl_reach how = {.retry_ms = params->retry_ms, .limit_ms = params->connect_timeout_ms};
    c.to.schema = (char *)(uintptr_t)schema;
    return rl_reach_server(&how, try_to_connect, &c, err);
}

static uint64_t lock_wait_s(int64_t wait_ms)
{
    if (wait_ms == 0)
        wait_ms = LOCK_WAIT_DEFAULT_MS;
    if (wait_ms < 0 || wait_ms / 1000 >= LOCK_WAIT_MOST_S)
        return LOCK_WAIT_MOST_S;
    return (uint64_t)(wait_ms + 999) / 1000;
}

static rowlock_status lock(rl_conn *conn, const char *schema, int64_t wait_ms, const rl_io *io,
                           rowlock_error *err)
{
    const rl_value values[] = {rl_text(schema), rl_u64(lock_wait_s(wait_ms))};
    uint64_t got = 0;
    rowlock_status status = rl_query_number(conn, RL_SQL_MIGRATE_LOCK, values, io, &got, err);
    if (status == ROWLOCK_OK && got != 1)
        return rl_fail(err, ROWLOCK_TIMEOUT,
                       "another `rowlock init` is working on '%s' and did not finish in time",
                       schema);
    return status;
}

rowlock_status rl_migrate_open(rl_params *params, int64_t wait_ms, const rl_io *io, rl_conn **conn,
                               rowlock_error *err)
{
    rl_conn *opened = NULL;
    rowlock_status status = rl_migrate_connect(params, params->schema, io, &opened, err);
    if (status == ROWLOCK_OK)
        status = rl_session_name_schema(opened, params, io, err);
    if (status == ROWLOCK_OK)
        status = lock(opened, params->schema, wait_ms, io, err);
    if (status == ROWLOCK_OK)
        *conn = opened;
    else
        rl_conn_close(opened);
    return status;
}
