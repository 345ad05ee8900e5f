#include "engine/settle.h"

#include "stmt/session.h"
#include "wait/backoff.h"

/* Pauses between two looks whether the server has ended a connection. */
#define FIRST_LOOK_US 500
#define MOST_LOOK_US  20000

rowlock_status rl_kill_connection(rowlock_client *client, const rl_budget *budget,
                                  uint64_t connection_id, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(budget);
    RL_BORROWED conn = NULL;
    RL_TRY(rl_pool_take(&client->pool, NULL, &io, &conn, err));
    return rl_session_kill(conn, &io, connection_id, err);
}

/* end_on() for a client that works through procedures: its connection can be ended by its key while
 * it runs one, and only by its own user between two of them. */
static rowlock_status end_by_key(rl_conn *conn, const rl_io *io, const rl_trace *trace,
                                 rowlock_error *err)
{
    const rl_value values[] = {rl_text(trace->key)};
    uint64_t connection_id = 0;
    rowlock_status status =
        rl_query_number(conn, RL_SQL_VIA_KILL_CONNECTION, values, io, &connection_id, err);
    if (status != ROWLOCK_OK || connection_id == 0)
        return status;
    (void)!rl_session_kill(conn, io, connection_id, NULL);
    return rl_fail(err, ROWLOCK_BUSY,
                   "the server is still working on a request whose reply was lost");
}

/* OK: the connection has ended. BUSY: not yet. */
static rowlock_status end_on(rl_conn *conn, const rl_io *io, const rl_trace *trace,
                             rowlock_error *err)
{
    bool restarted = false;
    if (*trace->key)
        return end_by_key(conn, io, trace, err);
    /* A caller's connection may have its number from a proxy. */
    const uint64_t older_id = trace->callers ? 0 : trace->connection_id;
    rowlock_status status =
        rl_session_restarted(conn, io, rl_now_us() - trace->sent_us, older_id, &restarted, err);
    if (status != ROWLOCK_OK || restarted)
        return status;
    status = rl_session_kill(conn, io, trace->connection_id, err);
    if (status == ROWLOCK_OK)
        return rl_fail(err, ROWLOCK_BUSY,
                       "the server is still working on a request whose reply was lost");
    /* A caller's connection may be another account's of the same name (root@localhost, root@%). */
    bool gone = err->server_errno == RL_NO_SUCH_THREAD ||
                (err->server_errno == RL_NOT_OWNER && !trace->callers);
    return gone ? ROWLOCK_OK : status;
}

rowlock_status rl_settle(rowlock_client *client, const rl_budget *budget, const rl_trace *trace,
                         rowlock_error *err)
{
    rowlock_error spare = {0};
    err = rl_error_or(err, &spare);
    rl_io io = rl_budget_quick_io(budget);
    const rl_request there = {.peer = trace->callers ? NULL : &trace->peer};
    RL_BORROWED conn = NULL;
    /* At another server the same number is another client's connection. */
    if (rl_pool_take(&client->pool, &there, &io, &conn, err) != ROWLOCK_OK ||
        (trace->callers && conn->server.node != trace->node))
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "the server that was sent a request whose reply was lost cannot be reached");
    rowlock_status status = end_on(conn, &io, trace, err);
    if (status != ROWLOCK_BUSY)
        return rl_no_effect(status, err);
    err->status = ROWLOCK_UNAVAILABLE;
    return ROWLOCK_UNAVAILABLE;
}

void rl_settle_connection(rowlock_client *client, const rl_budget *budget, const rl_trace *trace)
{
    rowlock_error err = {0};
    rl_io io = rl_budget_quick_io(budget);
    int64_t pause_us = FIRST_LOOK_US;
    const rl_request there = {.peer = &trace->peer};
    RL_BORROWED conn = NULL;
    if (rl_pool_take(&client->pool, &there, &io, &conn, NULL) != ROWLOCK_OK)
        return;
    while (end_on(conn, &io, trace, &err) == ROWLOCK_BUSY && !rl_budget_spent(budget)) {
        rl_give_time(budget, pause_us);
        pause_us = pause_us < MOST_LOOK_US / 2 ? 2 * pause_us : MOST_LOOK_US;
    }
}
