#include "engine/guard.h"

#include <inttypes.h>
#include <stdio.h>

#include "engine/kind.h"
#include "stmt/session.h"

/* As one look has found it. */
typedef struct found {
    uint64_t there;
    uint64_t connection_id; /* one of them */
    char why[600];          /* ... and why it is there */
} found;

static rowlock_status end_one(rl_conn *conn, const rl_io *io, const rl_cell *cells, found *all,
                              rowlock_error *err)
{
    const uint64_t connection_id = cells[0].u64;
    char marker[65];
    bool ended = false;
    rowlock_error why = {0};
    rowlock_status status;
    snprintf(marker, sizeof marker, "%s", cells[1].text);
    if (conn->server.proxied) /* which would take the number for one of its own connections' */
        status = rl_fail(&why, ROWLOCK_DENIED, "a proxy hides the server's connections");
    else
        status = rl_session_end(conn, io, connection_id, marker, &ended, &why);
    if (ended)
        return ROWLOCK_OK;
    if (status != ROWLOCK_OK && status != ROWLOCK_DENIED) {
        *err = why;
        return status;
    }
    if (!*all->why || status != ROWLOCK_OK) {
        all->connection_id = connection_id;
        snprintf(all->why, sizeof all->why, "%s",
                 status == ROWLOCK_OK ? "it is being ended, and its work undone" : why.message);
    }
    all->there++;
    return ROWLOCK_OK;
}

static rowlock_status end_all(rl_conn *conn, const rl_io *io, const rl_guard *guard, found *all,
                              rowlock_error *err)
{
    uint64_t last = 0;
    bool is_one = true;
    while (is_one) {
        const rl_value values[] = {rl_u64(guard->id), rl_u64(last)};
        rl_rows rows;
        RL_TRY(rl_query_one(conn, RL_SQL_GUARD_NEXT, values, io, &is_one, &rows, err));
        last = is_one ? rows.cells[0].u64 : 0;
        if (is_one)
            RL_TRY(end_one(conn, io, rows.cells, all, err));
    }
    return ROWLOCK_OK;
}

/* *cleared: by this very statement. A transaction may have the row: a try does not wait for that.
 */
static rowlock_status clear(rl_conn *conn, const rl_budget *budget, const rl_guard *guard,
                            bool *cleared, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(guard->id), rl_u64(guard->version)};
    rl_io io = rl_budget_change_io(budget, false, conn->session.answer_us);
    rl_done done = {0};
    rowlock_status status = rl_run(conn, RL_SQL_GUARD_CLEAR, values, &io, &done, err);
    if (status == ROWLOCK_TIMEOUT && budget->try_once)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is in use by a transaction", guard->name);
    RL_TRY(status);
    *cleared = done.rows > 0;
    io = rl_budget_quick_io(budget);
    if (*cleared)
        (void)!rl_run(conn, RL_SQL_GUARD_FORGET, values, &io, NULL, NULL);
    return ROWLOCK_OK;
}

static rowlock_status end_by_procedure(rl_conn *conn, const rl_io *io, const rl_guard *guard,
                                       found *all, bool *cleared, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(guard->id)};
    bool answered = false;
    rl_rows rows;
    RL_TRY(rl_query_one(conn, RL_SQL_GUARD_END, values, io, &answered, &rows, err));
    all->there = answered ? rows.cells[0].u64 : 1;
    all->connection_id = answered ? rows.cells[1].u64 : 0;
    snprintf(all->why, sizeof all->why, "%s", answered ? rows.cells[2].text : "");
    *cleared = all->there == 0 && *all->why;
    return ROWLOCK_OK;
}

static void record(rowlock_client *client, const rl_guard *guard, uint64_t ended)
{
    char detail[64];
    snprintf(detail, sizeof detail, "%" PRIu64 " of its holder's sessions", ended);
    const rl_event event = {.name = guard->name,
                            .kind = RL_KIND_LEASE,
                            .event = "ended",
                            .version = guard->version,
                            .owner = "",
                            .label = client->label,
                            .waited_ms = RL_UNKNOWN_MS,
                            .held_ms = RL_UNKNOWN_MS,
                            .detail = detail};
    rl_client_record(client, &event);
}

rowlock_status rl_guard_end(rowlock_client *client, const rl_budget *budget, const rl_guard *guard,
                            uint64_t *ended, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(budget);
    found all = {0};
    rowlock_error spare;
    bool cleared = false;
    RL_BORROWED conn = NULL;
    err = rl_error_or(err, &spare);
    RL_TRY(rl_pool_take(&client->pool, NULL, &io, &conn, err));
    rowlock_status status = conn->session.via
                                ? end_by_procedure(conn, &io, guard, &all, &cleared, err)
                                : end_all(conn, &io, guard, &all, err);
    if (status == ROWLOCK_OK && all.there == 0 && !conn->session.via)
        status = clear(conn, budget, guard, &cleared, err);
    if (status != ROWLOCK_OK)
        return rl_no_effect(status, err);
    if (all.there > *ended)
        *ended = all.there;
    if (all.there > 0)
        return rl_fail(err, ROWLOCK_BUSY,
                       "'%s': session %" PRIu64 " of its last holder (token %" PRIu64
                       ") is still there: %s",
                       guard->name, all.connection_id, guard->version, all.why);
    if (*ended > 0 && cleared)
        record(client, guard, *ended);
    *ended = 0;
    return ROWLOCK_OK;
}
