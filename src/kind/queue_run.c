#include "kind/queue.h"

#include <string.h>

#include "engine/kind.h"
#include "stmt/session.h"

#define SILENT_S 20 /* between two statements of a transaction: then its host has vanished */

rowlock_status rl_queue_check(const rowlock_client *client, rowlock_error *err)
{
    if (!rl_client_via(client))
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNSUPPORTED,
                   "queues need rights on their tables (via=tables), or CALL rowlock_queue_put, "
                   "rowlock_queue_take, ...");
}

bool rl_queue_unsettled(const void *work)
{
    return ((const rl_queue_work *)work)->open;
}

rowlock_status rl_queue_in_use(const rl_queue_work *work, rowlock_status status, rowlock_error *err)
{
    if (status != ROWLOCK_TIMEOUT && status != ROWLOCK_DEADLOCK)
        return status;
    return rl_fail(err, ROWLOCK_BUSY, "'%s': another transaction has the same item, key or group",
                   work->queue);
}

rowlock_status rl_queue_change(const rl_queue_work *work, rl_conn *conn, rl_sql_id id,
                               const rl_value *values, rl_done *done, rowlock_error *err)
{
    rl_trace trace;
    return rl_no_effect(
        rl_client_change_on(conn, work->budget, true, id, values, &trace, done, err), err);
}

rowlock_status rl_queue_change_alone(rl_queue_work *work, rl_sql_id id, const rl_value *values,
                                     rl_done *done, rowlock_error *err)
{
    rowlock_status status = rl_client_change(work->client, work->budget, NULL, true, id, values,
                                             &work->request, done, err);
    work->open = status == ROWLOCK_UNKNOWN;
    return work->open ? ROWLOCK_UNAVAILABLE : status;
}

static rowlock_status commit(rl_queue_work *work, rl_conn *conn, rowlock_error *err)
{
    rl_done done = {0};
    rowlock_status status = rl_client_change_on(conn, work->budget, true, RL_SQL_ROW_COMMIT, NULL,
                                                &work->request, &done, err);
    if (status == ROWLOCK_OK)
        return status;
    conn->broken = true;
    /* A COMMIT that was stopped may have taken effect all the same. */
    work->open = status != ROWLOCK_DEADLOCK;
    return work->open ? ROWLOCK_UNAVAILABLE : status;
}

static void roll_back(const rl_queue_work *work, rl_conn *conn)
{
    rl_io io = rl_budget_quick_io(work->budget);
    if (!conn->broken && rl_run_text(conn, RL_SQL_ROLLBACK, NULL, &io, NULL) != ROWLOCK_OK)
        conn->broken = true;
}

rowlock_status rl_queue_transact(rl_queue_work *work, const rl_sql_id *needed, size_t count,
                                 rl_queue_steps steps, void *data, rowlock_error *err)
{
    static const rl_request hold = {.purpose = RL_HOLD};
    rl_io io = rl_budget_quick_io(work->budget);
    RL_BORROWED conn = NULL;
    RL_TRY(rl_pool_take(&work->client->pool, &hold, &io, &conn, err));
    RL_TRY(rl_no_effect(rl_set_idle_limit(conn, SILENT_S, &io, err), err));
    RL_TRY(rl_no_effect(rl_prepare_all(conn, needed, count, &io, err), err));
    RL_TRY(rl_no_effect(rl_prepare(conn, RL_SQL_ROW_COMMIT, &io, err), err));
    rowlock_status status = steps(data, conn, err);
    if (status == ROWLOCK_OK)
        return commit(work, conn, err);
    roll_back(work, conn);
    return status;
}

/* ---------------------------------------------------------------------------- groups */

static rowlock_status unread(const rl_queue_work *work, const char *group, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_UNAVAILABLE, "the group '%s' of '%s' could not be read", group,
                   work->queue);
}

/* The first column of the only row. */
static rowlock_status number_of(const rl_queue_work *work, rl_conn *conn, rl_sql_id id,
                                const rl_value *values, const char *group, uint64_t *number,
                                rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(work->budget);
    rl_rows rows;
    bool found = false;
    RL_TRY(rl_no_effect(rl_query_one(conn, id, values, &io, &found, &rows, err), err));
    if (!found)
        return unread(work, group, err);
    *number = rows.cells[0].u64;
    return ROWLOCK_OK;
}

rowlock_status rl_queue_leave_group(const rl_queue_work *work, rl_conn *conn, uint64_t queue_id,
                                    const char *group, uint64_t item, rowlock_error *err)
{
    uint64_t head = 0;
    uint64_t next = 0;
    rl_done done = {0};
    const rl_value which[] = {rl_u64(queue_id), rl_text(group)};
    const rl_sql_id lock = work->hurried ? RL_SQL_QUEUE_GROUP_TRY : RL_SQL_QUEUE_GROUP_LOCK;
    RL_TRY(number_of(work, conn, lock, which, group, &head, err));
    if (head != item)
        return ROWLOCK_OK;
    /* The group's row is locked: no item of it comes or goes now. */
    RL_TRY(number_of(work, conn, RL_SQL_QUEUE_GROUP_NEXT, which, group, &next, err));
    const rl_value promote[] = {rl_u64(next), rl_u64(queue_id), rl_text(group), rl_u64(item)};
    const rl_value end[] = {rl_u64(queue_id), rl_text(group), rl_u64(item)};
    if (next != 0)
        RL_TRY(rl_queue_change(work, conn, RL_SQL_QUEUE_GROUP_PROMOTE, promote, &done, err));
    else
        RL_TRY(rl_queue_change(work, conn, RL_SQL_QUEUE_GROUP_END, end, &done, err));
    return done.rows > 0 ? ROWLOCK_OK : unread(work, group, err);
}
