#include "migrate/open.h"

#include <string.h>

#include "stmt/session.h"
#include "stmt/stmt.h"
#include "wait/reach.h"

#define LOCK_WAIT_DEFAULT_MS 60000
#define LOCK_WAIT_MOST_S     31536000
#define NO_LOGIN             1045
#define NO_LOGIN_BY_SOCKET   1698

static rowlock_status set_up(rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    RL_TRY(rl_stmt_pool_hooks.setup(conn, RL_WORK, io, err));
    return rl_run_text(conn, RL_SQL_MIGRATION_PATIENCE, NULL, io, err);
}

typedef struct connecting {
    rl_params to;
    const rl_io *io;
    rl_conn **conn;
} connecting;

static rowlock_status try_to_connect(void *data, int64_t limit_ms, rowlock_error *err)
{
    connecting *c = data;
    rl_conn *opened = NULL;
    c->to.connect_timeout_ms = limit_ms;
    RL_TRY(rl_conn_open(&c->to, c->io, &opened, err));
    rowlock_status status = set_up(opened, c->io, err);
    if (status == ROWLOCK_OK) {
        *c->conn = opened;
        return ROWLOCK_OK;
    }
    rl_conn_close(opened);
    /* Nothing but the session's own settings was sent. */
    return status == ROWLOCK_UNKNOWN
               ? rl_fail(err, ROWLOCK_UNAVAILABLE, "the server ended a new connection")
               : status;
}

rowlock_status rl_maker_connect(const rl_maker *m, const char *schema, rl_conn **conn,
                                rowlock_error *err)
{
    const rl_params *params = m->params;
    connecting c = {.to = *params, .io = &m->io, .conn = conn};
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

rowlock_status rl_maker_open(rl_maker *m, int64_t wait_ms, rowlock_error *err)
{
    RL_TRY(rl_maker_connect(m, m->params->schema, &m->conn, err));
    RL_TRY(rl_session_name_schema(m->conn, m->params, &m->io, err));
    const rl_value values[] = {rl_text(m->params->schema), rl_u64(lock_wait_s(wait_ms))};
    uint64_t got = 0;
    RL_TRY(rl_query_number(m->conn, RL_SQL_MIGRATE_LOCK, values, &m->io, &got, err));
    if (got != 1)
        return rl_fail(err, ROWLOCK_TIMEOUT,
                       "another `rowlock init` is working on '%s' and did not finish in time",
                       m->params->schema);
    return ROWLOCK_OK;
}

rowlock_status rl_maker_close(rl_maker *m, rowlock_status status, const char *task,
                              const char *rights, rowlock_error *err)
{
    char who[RL_GRANTEE_SIZE];
    bool login = err && (err->server_errno == NO_LOGIN || err->server_errno == NO_LOGIN_BY_SOCKET);
    bool connected = m->conn != NULL; /* else a GRANT could name nobody */
    rl_session_grantee(m->conn, status, who, sizeof who);
    rl_conn_close(m->conn);
    if (status == ROWLOCK_DENIED && !login && connected)
        rl_error_prefix(err, "%s takes GRANT %s ON `%s`.* TO %s; ", task, rights, m->params->schema,
                        who);
    else if (status == ROWLOCK_DENIED && !login)
        rl_error_prefix(err, "%s takes %s on %s.*: ", task, rights, m->params->schema);
    return status;
}
