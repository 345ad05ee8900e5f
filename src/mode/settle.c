#include "mode/settle.h"

#include <stdlib.h>

#define NO_SUCH_THREAD 1094
#define NOT_OWNER      1095 /* the number belongs to somebody else's connection: ours has gone */

static void keep_uptime(void *data, const rl_cell *cells)
{
    *(int64_t *)data = strtoll(cells[1].text, NULL, 10);
}

/* Since the request went out? Its connection is gone then, and its number may be a stranger's.
 * Uptime is in whole seconds, rounded down. */
static rowlock_status restarted_since(rowlock_client *client, const rl_budget *budget,
                                      int64_t sent_us, bool *restarted, rowlock_error *err)
{
    int64_t uptime_s = 0;
    bool found = false;
    rowlock_status status = rl_client_read(client, budget, RL_SQL_SESSION_UPTIME, NULL, keep_uptime,
                                           &uptime_s, &found, err);
    if (status == ROWLOCK_OK)
        *restarted = found && (uptime_s + 1) * 1000000 < rl_now_us() - sent_us;
    return status;
}

rowlock_status rl_kill_connection(rowlock_client *client, const rl_budget *budget,
                                  uint64_t connection_id, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(connection_id)};
    rl_io io = rl_budget_quick_io(budget);
    rl_buffer text = {0};
    rl_conn *conn = NULL;
    rowlock_status status = rl_pool_take(&client->pool, RL_WORK, &io, &conn, err);
    if (status == ROWLOCK_OK)
        status = rl_render(RL_SQL_KILL_CONNECTION, "", values, &text)
                     ? rl_conn_command(conn, "kill_connection", text.text, &io, err)
                     : rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    rl_buffer_free(&text);
    rl_pool_give(&client->pool, conn);
    return status;
}

rowlock_status rl_settle(rowlock_client *client, const rl_budget *budget, const rl_trace *trace,
                         rowlock_error *err)
{
    bool restarted = false;
    rowlock_status status = restarted_since(client, budget, trace->sent_us, &restarted, err);
    if (status != ROWLOCK_OK || restarted)
        return status;
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    status = rl_kill_connection(client, budget, trace->connection_id, err);
    if (status != ROWLOCK_OK &&
        (err->server_errno == NO_SUCH_THREAD || err->server_errno == NOT_OWNER))
        return ROWLOCK_OK;
    if (status != ROWLOCK_OK && status != ROWLOCK_UNKNOWN)
        return status;
    return rl_fail(err, ROWLOCK_UNAVAILABLE,
                   "the server is still working on a request whose reply was lost");
}
