#include "mode/sweeper.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mode/lease.h"
#include "mode/pessimistic.h"
#include "mode/settle.h"
#include "wait/backoff.h"

#define BATCH                200
#define EVENT_BATCH          1000
#define KILLED_WAIT_MS       500
#define DAY_MS               86400000LL
#define HISTORY_DEFAULT_MS   (30 * DAY_MS)
#define HISTORY_DEFAULT_ROWS 1000000
#define UNUSED_DEFAULT_MS    (90 * DAY_MS)

/* ---------------------------------------------------------------------- dead holders */

typedef struct dead {
    uint64_t id;
    uint64_t version;
    int64_t held_us;
    char name[ROWLOCK_NAME_MAX * 4 + 1];
    char owner[ROWLOCK_OWNER_MAX + 1];
    char label[ROWLOCK_LABEL_MAX * 4 + 1];
} dead;

typedef struct dead_batch {
    dead *rows;
    size_t count;
} dead_batch;

static rowlock_status read_dead(rl_conn *conn, rl_sql_id id, uint64_t after, const rl_io *io,
                                dead_batch *batch, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(after), rl_u64(BATCH)};
    rl_rows rows;
    batch->count = 0;
    rowlock_status status = rl_query(conn, id, values, io, &rows, err);
    if (status != ROWLOCK_OK)
        return status;
    while (batch->count < BATCH && rl_next(&rows)) {
        dead *row = &batch->rows[batch->count++];
        row->id = rows.cells[0].u64;
        row->version = rows.cells[2].u64;
        row->held_us = rows.cells[5].i64;
        snprintf(row->name, sizeof row->name, "%s", rows.cells[1].text);
        snprintf(row->owner, sizeof row->owner, "%s", rows.cells[3].text);
        snprintf(row->label, sizeof row->label, "%s", rows.cells[4].text);
    }
    rl_end(&rows);
    return rows.status;
}

static void record_expired(rowlock_client *client, const dead *row, const char *kind,
                           const char *detail)
{
    const rl_event event = {.name = row->name,
                            .kind = kind,
                            .event = "expired",
                            .version = row->version,
                            .owner = row->owner,
                            .label = row->label,
                            .waited_ms = RL_UNKNOWN_MS,
                            .held_ms = row->held_us / 1000,
                            .detail = detail};
    rl_client_record(client, &event);
}

static rowlock_status free_one(rowlock_client *client, const rl_budget *budget, bool lease,
                               const dead *row, rowlock_sweep_result *done, rowlock_error *err)
{
    bool freed = false;
    rowlock_status status =
        lease ? rl_lease_expire(client, budget, row->id, row->version, &freed, err)
              : rl_row_expire(client, budget, row->id, row->version, row->owner, &freed, err);
    /* Somebody works on this very row, a fenced transaction perhaps: the next sweep's. */
    if (status == ROWLOCK_BUSY || status == ROWLOCK_DEADLOCK)
        return ROWLOCK_OK;
    if (status != ROWLOCK_OK || !freed)
        return status;
    done->expired++;
    record_expired(client, row, lease ? RL_KIND_LEASE : RL_KIND_ROW,
                   lease ? "its lease ran out" : "its connection ended");
    return ROWLOCK_OK;
}

static rowlock_status free_dead(rowlock_client *client, const rl_budget *budget, bool lease,
                                dead_batch *batch, rowlock_sweep_result *done, rowlock_error *err)
{
    uint64_t after = 0;
    do {
        rl_io io = rl_budget_quick_io(budget);
        rl_conn *conn = NULL;
        rowlock_status status = rl_pool_take(&client->pool, RL_WORK, &io, &conn, err);
        if (status == ROWLOCK_OK)
            status = read_dead(conn, lease ? RL_SQL_SWEEP_EXPIRED : RL_SQL_SWEEP_PUBLISHED, after,
                               &io, batch, err);
        rl_pool_give(&client->pool, conn);
        for (size_t i = 0; status == ROWLOCK_OK && i < batch->count; i++)
            status = free_one(client, budget, lease, &batch->rows[i], done, err);
        if (status != ROWLOCK_OK)
            return status;
        if (batch->count > 0)
            after = batch->rows[batch->count - 1].id;
    } while (batch->count == BATCH);
    return ROWLOCK_OK;
}

/* --------------------------------------------------------------------------- history */

static void keep_upto(void *data, const rl_cell *cells)
{
    *(uint64_t *)data = cells[0].null ? 0 : cells[0].u64;
}

static rowlock_status forget_upto(rowlock_client *client, const rl_budget *budget, uint64_t upto,
                                  rowlock_sweep_result *done, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(upto), rl_u64(EVENT_BATCH)};
    for (;;) {
        rl_done deleted = {0};
        rowlock_status status =
            rl_client_run(client, budget, RL_SQL_SWEEP_EVENTS_DELETE, values, &deleted, err);
        if (status != ROWLOCK_OK)
            return status;
        done->events += deleted.rows;
        if (deleted.rows < EVENT_BATCH)
            return ROWLOCK_OK;
    }
}

static rowlock_status forget_old(rowlock_client *client, const rl_budget *budget, int64_t age_ms,
                                 rowlock_sweep_result *done, rowlock_error *err)
{
    const rl_value values[] = {rl_u64((uint64_t)age_ms * 1000), rl_u64(EVENT_BATCH)};
    for (;;) {
        uint64_t upto = 0;
        bool found = false;
        rowlock_status status = rl_client_read(client, budget, RL_SQL_SWEEP_EVENTS_BEFORE, values,
                                               keep_upto, &upto, &found, err);
        if (status != ROWLOCK_OK || upto == 0)
            return status;
        status = forget_upto(client, budget, upto, done, err);
        if (status != ROWLOCK_OK)
            return status;
    }
}

static rowlock_status forget_many(rowlock_client *client, const rl_budget *budget, uint64_t keep,
                                  rowlock_sweep_result *done, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(keep)};
    uint64_t upto = 0;
    bool found = false;
    rowlock_status status = rl_client_read(client, budget, RL_SQL_SWEEP_EVENTS_BEYOND, values,
                                           keep_upto, &upto, &found, err);
    if (status != ROWLOCK_OK || !found)
        return status;
    return forget_upto(client, budget, upto, done, err);
}

/* ----------------------------------------------------------------------------- purge */

typedef struct unused {
    uint64_t id;
    uint64_t version;
    bool row_lock;
} unused;

static rowlock_status read_unused(rl_conn *conn, uint64_t after, int64_t unused_ms, const rl_io *io,
                                  unused *batch, size_t *count, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(after), rl_u64((uint64_t)unused_ms * 1000), rl_u64(BATCH)};
    rl_rows rows;
    *count = 0;
    rowlock_status status = rl_query(conn, RL_SQL_PURGE_CANDIDATES, values, io, &rows, err);
    if (status != ROWLOCK_OK)
        return status;
    while (*count < BATCH && rl_next(&rows))
        batch[(*count)++] = (unused){.id = rows.cells[0].u64,
                                     .row_lock = strcmp(rows.cells[1].text, RL_KIND_ROW) == 0,
                                     .version = rows.cells[2].u64};
    rl_end(&rows);
    return rows.status;
}

/* An unfenced row lock leaves no trace in its resource: its row says whether it is in use. */
static rowlock_status row_in_use(rl_conn *conn, const unused *row, const rl_io *io, bool *in_use,
                                 rowlock_error *err)
{
    *in_use = false;
    if (!row->row_lock)
        return ROWLOCK_OK;
    const rl_value values[] = {rl_u64(row->id)};
    rl_rows rows;
    bool got = false;
    rowlock_status status = rl_query_one(conn, RL_SQL_ROW_PROBE, values, io, &got, &rows, err);
    *in_use = status == ROWLOCK_OK && !got;
    return status;
}

static rowlock_status delete_name(rl_conn *conn, uint64_t id, const rl_io *io, rowlock_error *err)
{
    static const rl_sql_id deletes[] = {RL_SQL_PURGE_LOCK, RL_SQL_PURGE_RENEWAL,
                                        RL_SQL_PURGE_RESOURCE};
    const rl_value values[] = {rl_u64(id)};
    rowlock_status status = ROWLOCK_OK;
    for (size_t i = 0; status == ROWLOCK_OK && i < sizeof deletes / sizeof deletes[0]; i++)
        status = rl_run(conn, deletes[i], values, io, NULL, err);
    return status;
}

/* In one transaction: the floor is raised before the names go. */
static rowlock_status purge_batch(rl_conn *conn, const rl_io *io, uint64_t *after,
                                  int64_t unused_ms, size_t *found, uint64_t *purged,
                                  rowlock_error *err)
{
    unused batch[BATCH];
    rl_rows rows;
    bool floor = false;
    uint64_t highest = 0;
    rowlock_status status = rl_query_one(conn, RL_SQL_PURGE_FLOOR, NULL, io, &floor, &rows, err);
    if (status == ROWLOCK_OK && !floor)
        return rl_fail(
            err, ROWLOCK_DAMAGED,
            "the table version_floor has lost its row; INSERT (1, the highest version ever used)");
    if (status == ROWLOCK_OK)
        status = read_unused(conn, *after, unused_ms, io, batch, found, err);
    for (size_t i = 0; status == ROWLOCK_OK && i < *found; i++)
        if (batch[i].version > highest)
            highest = batch[i].version;
    if (status == ROWLOCK_OK && *found > 0) {
        const rl_value values[] = {rl_u64(highest)};
        status = rl_run(conn, RL_SQL_PURGE_FLOOR_RAISE, values, io, NULL, err);
        *after = batch[*found - 1].id;
    }
    for (size_t i = 0; status == ROWLOCK_OK && i < *found; i++) {
        bool in_use = false;
        status = row_in_use(conn, &batch[i], io, &in_use, err);
        if (status != ROWLOCK_OK || in_use)
            continue;
        status = delete_name(conn, batch[i].id, io, err);
        *purged += status == ROWLOCK_OK;
    }
    return status;
}

static rowlock_status purge_unused(rowlock_client *client, const rl_budget *budget,
                                   int64_t unused_ms, rowlock_sweep_result *done,
                                   rowlock_error *err)
{
    uint64_t after = 0;
    size_t found = 0;
    do {
        rl_io io = rl_budget_quick_io(budget);
        rl_conn *conn = NULL;
        uint64_t purged = 0;
        rowlock_status status = rl_pool_take(&client->pool, RL_HOLD, &io, &conn, err);
        if (status != ROWLOCK_OK)
            return status;
        status = purge_batch(conn, &io, &after, unused_ms, &found, &purged, err);
        rl_sql_id end = status == ROWLOCK_OK ? RL_SQL_COMMIT : RL_SQL_ROLLBACK;
        rowlock_status ended = rl_run_text(conn, end, NULL, &io, status == ROWLOCK_OK ? err : NULL);
        if (ended != ROWLOCK_OK)
            conn->broken = true;
        rl_pool_give(&client->pool, conn);
        if (status == ROWLOCK_OK)
            status = ended;
        if (status != ROWLOCK_OK)
            return status;
        done->purged += purged;
    } while (found == BATCH);
    return ROWLOCK_OK;
}

/* --------------------------------------------------------------------------- the sweep */

static rowlock_status free_all_dead(rowlock_client *client, const rl_budget *budget,
                                    rowlock_sweep_result *done, rowlock_error *err)
{
    dead_batch batch = {.rows = malloc(BATCH * sizeof *batch.rows)};
    if (!batch.rows)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    rowlock_status status = free_dead(client, budget, true, &batch, done, err);
    if (status == ROWLOCK_OK)
        status = free_dead(client, budget, false, &batch, done, err);
    free(batch.rows);
    return status;
}

rowlock_status rl_sweep(rowlock_client *client, const rowlock_sweep_options *options,
                        rowlock_sweep_result *result, rowlock_error *err)
{
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    int64_t history_ms = options->history_ms ? options->history_ms : HISTORY_DEFAULT_MS;
    int64_t unused_ms = options->unused_ms ? options->unused_ms : UNUSED_DEFAULT_MS;
    uint64_t rows = options->history_rows ? options->history_rows : HISTORY_DEFAULT_ROWS;
    rowlock_sweep_result done = {0};
    rowlock_status status = free_all_dead(client, &budget, &done, err);
    if (status == ROWLOCK_OK && history_ms > 0)
        status = forget_old(client, &budget, history_ms, &done, err);
    if (status == ROWLOCK_OK)
        status = forget_many(client, &budget, rows, &done, err);
    if (status == ROWLOCK_OK && unused_ms > 0)
        status = purge_unused(client, &budget, unused_ms, &done, err);
    if (status == ROWLOCK_OK && result)
        *result = done;
    return status;
}

/* ----------------------------------------------------------------------------- break */

typedef struct victim {
    bool row_lock;
    bool held;
    uint64_t id;
    uint64_t version;
    uint64_t connection_id;
    int64_t held_us;
    int64_t shut_us;
    char owner[ROWLOCK_OWNER_MAX + 1];
    char label[ROWLOCK_LABEL_MAX * 4 + 1];
} victim;

static void keep_victim(void *data, const rl_cell *cells)
{
    victim *v = data;
    v->id = cells[0].u64;
    v->row_lock = strcmp(cells[2].text, RL_KIND_ROW) == 0;
    v->held = strcmp(cells[3].text, "held") == 0;
    v->version = cells[4].u64;
    snprintf(v->owner, sizeof v->owner, "%s", cells[5].text);
    snprintf(v->label, sizeof v->label, "%s", cells[6].text);
    v->connection_id = cells[7].u64;
    v->held_us = cells[11].null ? 0 : cells[11].i64;
    v->shut_us = cells[13].null ? 0 : cells[13].i64;
}

static rowlock_status break_lease(rowlock_client *client, const rl_budget *budget, const victim *v,
                                  bool *broken, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(v->version), rl_u64(v->id)};
    rl_done done = {0};
    rowlock_status status = rl_client_run(client, budget, RL_SQL_LEASE_BREAK, values, &done, err);
    *broken = status == ROWLOCK_OK && done.rows > 0;
    return status;
}

typedef struct killing {
    rowlock_client *client;
    const rl_budget *budget;
    const victim *v;
    const char *name;
} killing;

/* The server takes a moment to roll back what it killed. */
static rowlock_status free_killed(void *data, int64_t *hint_us, rowlock_error *err)
{
    (void)hint_us;
    const killing *k = data;
    bool freed = false;
    bool found = false;
    victim now = {.held = false};
    rowlock_status status =
        rl_row_expire(k->client, k->budget, k->v->id, k->v->version, k->v->owner, &freed, err);
    if (status != ROWLOCK_OK || freed)
        return status;
    /* A waiter may have had the row at once, and be the holder already. */
    const rl_value values[] = {rl_text(k->name)};
    status = rl_client_read(k->client, k->budget, RL_SQL_LIST_NAME, values, keep_victim, &now,
                            &found, err);
    if (status == ROWLOCK_OK && found && now.held && now.version == k->v->version)
        return rl_fail(err, ROWLOCK_BUSY, "its row is still locked");
    return status;
}

/* Best effort: whoever takes the lock next does the same. */
static void wait_until_freed(rowlock_client *client, const char *name, const victim *v)
{
    rl_budget budget = rl_budget_start(KILLED_WAIT_MS, client->limit_ms, NULL);
    killing k = {.client = client, .budget = &budget, .v = v, .name = name};
    const rl_attempts how = {.budget = &budget, .backoff = {.first_us = 1000, .most_us = 50000}};
    rowlock_status ignored = rl_attempt_until(&how, free_killed, &k, NULL);
    (void)ignored;
}

/*
 * Its connection is ended; then its row is marked free. Only while somebody has the row
 * locked: the holder may be dead, and the server have given its number to a stranger. 1094:
 * that connection has gone meanwhile.
 */
static rowlock_status break_row(rowlock_client *client, const rl_budget *budget, const char *name,
                                const victim *v, bool *broken, rowlock_error *err)
{
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    bool freed = false;
    rowlock_status status = rl_row_expire(client, budget, v->id, v->version, v->owner, &freed, err);
    if (status == ROWLOCK_OK && !freed) {
        status = rl_kill_connection(client, budget, v->connection_id, err);
        if (status == ROWLOCK_DENIED)
            return rl_fail(
                err, status,
                "the connection that holds the lock belongs to another user; break it as "
                "that user, or GRANT CONNECTION ADMIN (on MySQL CONNECTION_ADMIN) ON *.* to "
                "yours");
        if (status != ROWLOCK_OK && err->server_errno != 1094)
            return status;
        status = ROWLOCK_OK;
        wait_until_freed(client, name, v);
    }
    *broken = status == ROWLOCK_OK;
    return status;
}

static void record_broken(rowlock_client *client, const char *name, const victim *v,
                          const char *reason)
{
    char detail[600];
    snprintf(detail, sizeof detail, "by %.250s%s%.250s", client->label, reason ? ": " : "",
             reason ? reason : "");
    const rl_event event = {.name = name,
                            .kind = v->row_lock ? RL_KIND_ROW : RL_KIND_LEASE,
                            .event = "broken",
                            .version = v->version,
                            .owner = v->owner,
                            .label = v->label,
                            .waited_ms = RL_UNKNOWN_MS,
                            .held_ms = v->held_us / 1000,
                            .detail = detail};
    rl_client_record(client, &event);
}

static rowlock_status not_held(const char *name, const victim *v, rowlock_error *err)
{
    if (v->shut_us > 0)
        return rl_fail(err, ROWLOCK_BUSY,
                       "'%s' is not held; it is shut (at_least) and opens by itself in %.3f s",
                       name, (double)v->shut_us / 1e6);
    return rl_fail(err, ROWLOCK_BUSY, "'%s' is not held%s; there is nothing to break", name,
                   v->row_lock ? " (as far as is published: an unfenced holder is not)" : "");
}

rowlock_status rl_break(rowlock_client *client, const char *name, const char *reason,
                        rowlock_error *err)
{
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    const rl_value values[] = {rl_text(name)};
    victim v = {0};
    bool found = false;
    bool broken = false;
    rowlock_status status =
        rl_client_read(client, &budget, RL_SQL_LIST_NAME, values, keep_victim, &v, &found, err);
    if (status != ROWLOCK_OK)
        return status;
    if (!found)
        return rl_fail(err, ROWLOCK_NOT_FOUND, "there is no lock '%s'", name);
    if (!v.held)
        return not_held(name, &v, err);
    status = v.row_lock ? break_row(client, &budget, name, &v, &broken, err)
                        : break_lease(client, &budget, &v, &broken, err);
    if (status != ROWLOCK_OK)
        return status;
    if (!broken)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' changed hands just now; look again", name);
    record_broken(client, name, &v, reason);
    return ROWLOCK_OK;
}
