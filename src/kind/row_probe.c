/* Finds out whether the row's lock is held, for listing row locks and for tidying up after dead
 * holders. */
#include "kind/row.h"

#include "stmt/session.h"

/* The row locks that are published may be those of another node, which do not show here. */
static bool held_elsewhere(const rowlock_client *client, const rl_conn *conn)
{
    return conn->server.read_only || rl_many_writers(conn->server.cluster, client->single_writer);
}

/* What is published is believed, and left alone. What was read-only is asked anew the next time. */
static rowlock_status believe(rl_conn *conn, bool to_end, bool *freed, rowlock_error *err)
{
    conn->demoted = conn->server.read_only;
    if (to_end && conn->server.read_only)
        return rl_fail(err, ROWLOCK_READONLY, "%s", rowlock_status_text(ROWLOCK_READONLY));
    *freed = false;
    return ROWLOCK_OK;
}

/* Nobody has the row's lock: then `freed` conditionally, while we have it. *locked stays as it is
 * where that cannot be known. */
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
        status = believe(conn, unpublish_values, freed, err);
        rl_pool_give(&client->pool, conn);
        return status;
    }
    const rl_value values[] = {rl_u64(id)};
    status = rl_query_one(conn, RL_SQL_ROW_PROBE, values, &io, &got, &rows, err);
    /* On MySQL a user that may only look cannot lock a row, not even to see; on a read-only server
     * (1290) no user can: what is published is believed. */
    const bool believed =
        (status == ROWLOCK_DENIED || status == ROWLOCK_READONLY) && !unpublish_values;
    if (believed)
        status = ROWLOCK_OK;
    if (status == ROWLOCK_OK && got && unpublish_values)
        status = rl_client_run(client, budget, RL_SQL_ROW_UNPUBLISH, unpublish_values, &done, err);
    if (rl_run_text(conn, RL_SQL_ROLLBACK, NULL, &io, NULL) != ROWLOCK_OK)
        conn->broken = true;
    rl_pool_give(&client->pool, conn);
    if (status != ROWLOCK_OK)
        return status;
    if (!believed)
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
