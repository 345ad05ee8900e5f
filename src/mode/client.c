#include "mode/client.h"

#include <string.h>

#include "base/text.h"

/* Not with snprintf(): it is made for every hold. */
void rl_client_owner(rowlock_client *client, char owner[ROWLOCK_OWNER_MAX + 1])
{
    char *at = stpcpy(owner, client->uuid);
    *at++ = '.';
    rl_put_u64(at, atomic_fetch_add(&client->owners, 1) + 1);
}

rowlock_status rl_client_check(const rowlock_client *client, rowlock_error *err)
{
    if (!client)
        return rl_fail(err, ROWLOCK_INVALID, "no client was given (NULL)");
    if (!rl_home_is_here(&client->home))
        return rl_fail(err, ROWLOCK_FORKED,
                       "this client belongs to process %d; open one after fork()",
                       (int)client->home.pid);
    return ROWLOCK_OK;
}

void rl_client_record(rowlock_client *client, const rl_event *event)
{
    if (rl_journal_add(&client->journal, event))
        rl_keeper_wake(&client->keeper);
}

rowlock_status rl_client_run(rowlock_client *client, const rl_budget *budget, rl_sql_id id,
                             const rl_value *values, rl_done *done, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(budget);
    rl_conn *conn = NULL;
    rowlock_status status = rl_pool_take(&client->pool, RL_WORK, &io, &conn, err);
    if (status != ROWLOCK_OK)
        return status;
    status = rl_run(conn, id, values, &io, done, err);
    rl_pool_give(&client->pool, conn);
    return status;
}

rowlock_status rl_client_change(rowlock_client *client, const rl_budget *budget,
                                const rl_conn *beside, bool patient, rl_sql_id id,
                                const rl_value *values, rl_trace *trace, rl_done *done,
                                rowlock_error *err)
{
    /* The connection may take its time; the change may not. */
    rl_io open_io = rl_budget_quick_io(budget);
    rl_conn *conn = NULL;
    rowlock_status status = rl_pool_take(&client->pool, RL_WORK, &open_io, &conn, err);
    if (status != ROWLOCK_OK)
        return status;
    if (beside && beside->server.node != conn->server.node)
        status = rl_fail(err, ROWLOCK_UNAVAILABLE,
                         "two connections led to different servers (a failover?)");
    else
        status = rl_client_change_on(conn, budget, patient, id, values, trace, done, err);
    rl_pool_give(&client->pool, conn);
    return status;
}

rowlock_status rl_client_change_on(rl_conn *conn, const rl_budget *budget, bool patient,
                                   rl_sql_id id, const rl_value *values, rl_trace *trace,
                                   rl_done *done, rowlock_error *err)
{
    *trace = (rl_trace){.connection_id = conn->id,
                        .peer = conn->peer,
                        .identity = conn->server.identity,
                        .sent_us = rl_now_us()};
    /* Preparing waits for no row: only the change itself is not to take long. */
    rl_io io = rl_budget_quick_io(budget);
    rowlock_status status = rl_prepare(conn, id, &io, err);
    if (status != ROWLOCK_OK)
        return status;
    io = rl_budget_change_io(budget, patient);
    return rl_run(conn, id, values, &io, done, err);
}

rowlock_status rl_client_read(rowlock_client *client, const rl_budget *budget, rl_sql_id id,
                              const rl_value *values, rl_keep_row keep, void *data, bool *found,
                              rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(budget);
    rl_conn *conn = NULL;
    rl_rows rows;
    bool any = false;
    rowlock_status status = rl_pool_take(&client->pool, RL_WORK, &io, &conn, err);
    if (status == ROWLOCK_OK)
        status = rl_query_one(conn, id, values, &io, &any, &rows, err);
    if (status == ROWLOCK_OK && any)
        keep(data, rows.cells);
    rl_pool_give(&client->pool, conn);
    if (status == ROWLOCK_UNKNOWN)
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "the connection to the server was lost");
    if (status == ROWLOCK_OK)
        *found = any;
    return status;
}

static rowlock_status hand_over(rl_rows *rows, rl_each_row each, void *data, rowlock_error *err)
{
    rowlock_status status = ROWLOCK_OK;
    while (status == ROWLOCK_OK && rl_next(rows))
        status = each(data, rows->cells, err);
    rl_end(rows);
    return status == ROWLOCK_OK ? rows->status : status;
}

rowlock_status rl_client_read_all(rowlock_client *client, const rl_budget *budget, rl_sql_id id,
                                  const rl_value *values, rl_each_row each, void *data,
                                  rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(budget);
    rl_conn *conn = NULL;
    rl_rows rows;
    rowlock_status status = rl_pool_take(&client->pool, RL_WORK, &io, &conn, err);
    if (status != ROWLOCK_OK)
        return status;
    status = rl_query(conn, id, values, &io, &rows, err);
    if (status == ROWLOCK_OK)
        status = hand_over(&rows, each, data, err);
    rl_pool_give(&client->pool, conn);
    if (status == ROWLOCK_UNKNOWN)
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "the connection to the server was lost");
    return status;
}
