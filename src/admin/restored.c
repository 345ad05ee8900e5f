/*
 * The schema was restored from a backup: everything is free, and no version, and no id of an item,
 * is given again that was given after the backup (sql/restored.sql). One transaction; done again
 * after a lost reply, it is the same once more.
 */
#include <inttypes.h>

#include "admin/admin.h"
#include "stmt/session.h"

/* How many rows each step is to change, of what look() has counted. */
typedef enum rows { ANY, ONE, NAMES, RENEWALS, ITEMS, ROWS } rows;

static const struct {
    rl_sql_id id;
    rows rows;
} steps[] = {{RL_SQL_RESTORED_NAMES, NAMES}, {RL_SQL_RESTORED_RENEWALS, RENEWALS},
             {RL_SQL_RESTORED_FLOOR, ONE},   {RL_SQL_RESTORED_ITEMS, ITEMS},
             {RL_SQL_RESTORED_ID_PUT, ONE},  {RL_SQL_RESTORED_ID_DROP, ONE},
             {RL_SQL_RESTORED_MEMBER, ANY}};
enum { STEPS = sizeof steps / sizeof steps[0] };

/* BUSY at once if another session has locked rows of the table. */
static rowlock_status lock(rl_conn *conn, rl_sql_id id, const rl_io *io, rowlock_error *err)
{
    uint64_t ignored = 0;
    rowlock_status status = rl_query_number(conn, id, NULL, io, &ignored, err);
    if (status != ROWLOCK_BUSY)
        return status;
    return rl_fail(err, ROWLOCK_BUSY,
                   "somebody is at work: a session has a row lock, or has fenced a lock; nothing "
                   "was changed");
}

static rowlock_status lock_all(rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    RL_TRY(lock(conn, RL_SQL_FREEZE_LOCK, io, err));
    RL_TRY(lock(conn, RL_SQL_RESTORED_LOCK, io, err));
    return lock(conn, RL_SQL_RESTORED_LOCK_ROWS, io, err);
}

/* The holder of a lease that runs by the server's clock may be at work. */
static rowlock_status look(rl_conn *conn, uint64_t counts[ROWS], uint64_t *held, const rl_io *io,
                           rowlock_error *err)
{
    rl_rows found;
    RL_TRY(rl_query(conn, RL_SQL_RESTORED_LOOK, NULL, io, &found, err));
    if (!rl_next(&found))
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "the statement was stopped by somebody");
    *held = found.cells[3].u64;
    counts[ONE] = 1;
    counts[NAMES] = found.cells[4].u64;
    counts[RENEWALS] = found.cells[5].u64;
    counts[ITEMS] = found.cells[6].u64;
    if (found.cells[0].u64 == 0)
        return ROWLOCK_OK;
    return rl_fail(
        err, ROWLOCK_BUSY,
        "somebody may be at work: '%.200s' is held, one of %" PRIu64 " leases and items "
        "that are; if nobody renews them, the last one ends in %" PRId64 " s; nothing was changed",
        found.cells[1].text, found.cells[0].u64, (found.cells[2].i64 + 999999) / 1000000);
}

static rowlock_status raise_all(rl_conn *conn, rowlock_restored_result *result, const rl_io *io,
                                rowlock_error *err)
{
    uint64_t counts[ROWS] = {0};
    RL_TRY(lock_all(conn, io, err));
    RL_TRY(look(conn, counts, &result->held, io, err));
    result->names = counts[NAMES];
    result->items = counts[ITEMS];
    for (size_t i = 0; i < STEPS; i++) {
        rl_done done = {0};
        RL_TRY(rl_run(conn, steps[i].id, NULL, io, &done, err));
        if (steps[i].rows == ANY)
            result->was_member = done.rows > 0;
        else if (done.rows != counts[steps[i].rows])
            return rl_fail(err, ROWLOCK_UNAVAILABLE, "a statement was stopped by somebody");
    }
    return ROWLOCK_OK;
}

/* Nothing is prepared in a transaction (docs/notes/data.md). */
static rowlock_status raise_in_transaction(rl_conn *conn, rowlock_restored_result *result,
                                           const rl_io *io, rowlock_error *err)
{
    rl_sql_id needed[STEPS + 4] = {RL_SQL_FREEZE_LOCK, RL_SQL_RESTORED_LOCK,
                                   RL_SQL_RESTORED_LOCK_ROWS, RL_SQL_RESTORED_LOOK};
    for (size_t i = 0; i < STEPS; i++)
        needed[4 + i] = steps[i].id;
    RL_TRY(rl_no_effect(rl_prepare_all(conn, needed, STEPS + 4, io, err), err));
    rowlock_status status = rl_run_text(conn, RL_SQL_BEGIN, NULL, io, err);
    if (status == ROWLOCK_OK)
        status = raise_all(conn, result, io, err);
    if (status == ROWLOCK_OK)
        return rl_run_text(conn, RL_SQL_COMMIT, NULL, io, err);
    if (rl_run_text(conn, RL_SQL_ROLLBACK, NULL, io, NULL) != ROWLOCK_OK)
        conn->broken = true;
    return rl_no_effect(status, err);
}

rowlock_status rl_restored(rowlock_client *client, rowlock_restored_result *result,
                           rowlock_error *err)
{
    const rl_budget budget = rl_budget_start(-1, client->limit_ms, NULL);
    const rl_io io = rl_budget_quick_io(&budget);
    rl_conn *conn = NULL;
    rowlock_restored_result done = {0};
    RL_TRY(rl_pool_take(&client->pool, NULL, &io, &conn, err));
    rowlock_status status = raise_in_transaction(conn, &done, &io, err);
    if (status != ROWLOCK_OK && rl_in_transaction(conn->mysql))
        conn->broken = true;
    rl_pool_give(&client->pool, conn);
    if (status == ROWLOCK_OK)
        *result = done;
    return status;
}
