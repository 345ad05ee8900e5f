#include "admin/sweeper.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "engine/settle.h"
#include "kind/row.h"
#include "wait/backoff.h"

#define PACE_GOAL_US         10000 /* a batch holds its row locks for about so long */
#define PACE_FIRST           8     /* so that a slow server shows soon, and does little harm */
#define BATCH                1000  /* at most */
#define DEAD_BATCH           200
#define KILLED_WAIT_MS       500
#define BREAK_MOST           50
#define OPEN_LOOK_US         250000 /* between looks at what was broken and is still shut */
#define NOT_OWNER            1095   /* of the connection that is to be ended */
#define DAY_MS               86400000LL
#define HISTORY_DEFAULT_MS   (30 * DAY_MS)
#define HISTORY_DEFAULT_ROWS 1000000
#define UNUSED_DEFAULT_MS    (90 * DAY_MS)

/* One sweep: what its parts share. */
typedef struct sweep {
    rowlock_client *client;
    const rl_budget *budget;
    uint64_t unused_us;
    rowlock_sweep_result done;
} sweep;

/* --------------------------------------------------------------------------- batches */

size_t rl_sweep_pace(size_t size, size_t changed, int64_t took_us)
{
    if (changed == 0)
        return size;
    uint64_t took = took_us > 0 ? (uint64_t)took_us : 1;
    uint64_t next = changed * (uint64_t)PACE_GOAL_US / took;
    if (next > 2 * size)
        next = 2 * size;
    if (next > BATCH)
        next = BATCH;
    return next > 0 ? (size_t)next : 1;
}

/* The names of a batch: first those that were found, then those that the sweep has got. */
typedef struct names {
    size_t count;
    struct {
        uint64_t id;
        uint64_t version;
        bool half; /* of a row lock, and its row was never made */
    } rows[BATCH];
} names;

static rowlock_status add_name(names *batch, uint64_t id, uint64_t version, bool half,
                               rowlock_error *err)
{
    if (batch->count == BATCH)
        return rl_fail(err, ROWLOCK_DAMAGED, "the server answered with more rows than it was to");
    batch->rows[batch->count].id = id;
    batch->rows[batch->count].version = version;
    batch->rows[batch->count++].half = half;
    return ROWLOCK_OK;
}

/* [[id, version, half], ...], as the statements take it. */
static rowlock_status names_json(const names *batch, rl_buffer *json, rowlock_error *err)
{
    rl_buffer_puts(json, "[");
    for (size_t i = 0; i < batch->count; i++) {
        rl_buffer_puts(json, i == 0 ? "[" : ",[");
        rl_json_u64(json, batch->rows[i].id);
        rl_buffer_puts(json, ",");
        rl_json_u64(json, batch->rows[i].version);
        rl_buffer_puts(json, batch->rows[i].half ? ",1]" : ",0]");
    }
    rl_buffer_puts(json, "]");
    return json->failed ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory") : ROWLOCK_OK;
}

/*
 * One part of a sweep: how it finds names, and what it does to a batch, which then has those that
 * it has done it to. DEADLOCK, BUSY: somebody else is at work on the same rows.
 */
typedef struct part {
    rowlock_status (*find)(const sweep *s, uint64_t after, size_t size, names *batch,
                           rowlock_error *err);
    rowlock_status (*work)(const sweep *s, names *batch, rowlock_error *err);
    bool always; /* runs once even if nothing was found: a server that would refuse says so */
} part;

/* Another sweep, or a transaction, has these rows: the next sweep finds what is left. (On a cluster
 * the other node's work may be seen only at the commit, as a DEADLOCK.) */
static bool left_to_others(rowlock_status status)
{
    return status == ROWLOCK_BUSY || status == ROWLOCK_DEADLOCK;
}

/* In batches as large as the server is fast. */
static rowlock_status in_batches(const sweep *s, const part *p, names *batch, uint64_t *changed,
                                 rowlock_error *err)
{
    size_t size = PACE_FIRST;
    uint64_t after = 0;
    for (;;) {
        batch->count = 0;
        rowlock_status status = p->find(s, after, size, batch, err);
        bool idle = batch->count == 0 && !(p->always && after == 0);
        if (status != ROWLOCK_OK || idle)
            return status;
        bool last = batch->count < size;
        if (!last)
            after = batch->rows[batch->count - 1].id;
        int64_t start = rl_now_us();
        status = p->work(s, batch, err);
        if (left_to_others(status))
            batch->count = 0;
        else if (status != ROWLOCK_OK)
            return status;
        *changed += batch->count;
        size = rl_sweep_pace(size, batch->count, rl_now_us() - start);
        if (last)
            return ROWLOCK_OK;
    }
}

/* ----------------------------------------------------------------------- dead leases */

static rowlock_status add_expired(void *data, const rl_cell *cells, rowlock_error *err)
{
    return add_name(data, cells[0].u64, cells[1].u64, false, err);
}

static rowlock_status find_expired(const sweep *s, uint64_t after, size_t size, names *batch,
                                   rowlock_error *err)
{
    const rl_value values[] = {rl_u64(after), rl_u64(size)};
    return rl_client_read_all(s->client, s->budget, RL_SQL_SWEEP_EXPIRED, values, add_expired,
                              batch, err);
}

static rowlock_status read_locked(rl_conn *conn, const rl_value *json, const rl_io *io,
                                  names *batch, rowlock_error *err)
{
    rl_rows rows;
    rowlock_status status = rl_query(conn, RL_SQL_SWEEP_EXPIRED_LOCK, json, io, &rows, err);
    if (status != ROWLOCK_OK)
        return status;
    batch->count = 0;
    while (status == ROWLOCK_OK && rl_next(&rows))
        status = add_expired(batch, rows.cells, err);
    rl_end(&rows);
    return status == ROWLOCK_OK ? rows.status : status;
}

/* Leaves those in the batch whose rows it has locked. */
static rowlock_status lock_expired(rl_conn *conn, const rl_io *io, names *batch, rowlock_error *err)
{
    rl_buffer text = {0};
    rowlock_status status = names_json(batch, &text, err);
    const rl_value json[] = {rl_text_n(text.text, text.length)};
    if (status == ROWLOCK_OK)
        status = read_locked(conn, json, io, batch, err);
    rl_buffer_free(&text);
    return status;
}

/*
 * MariaDB's JSON_TABLE (10.11, 11.8) ends too early, without an error, when KILL QUERY meets it:
 * half of a batch is not to be committed.
 */
static rowlock_status change_all(rl_conn *conn, rl_sql_id id, const rl_value *json, size_t rows,
                                 const rl_io *io, rowlock_error *err)
{
    rl_done done = {0};
    rowlock_status status = rl_run(conn, id, json, io, &done, err);
    if (status != ROWLOCK_OK || done.rows == rows)
        return status;
    return rl_fail(err, ROWLOCK_UNAVAILABLE,
                   "a statement of the sweep was stopped by somebody (%s)", rl_sql_table[id].name);
}

/* The history first: it tells of the token and the holder that were. */
static rowlock_status free_locked(const sweep *s, rl_conn *conn, const rl_io *io,
                                  const names *batch, rowlock_error *err)
{
    rl_buffer text = {0};
    rowlock_status status = names_json(batch, &text, err);
    const rl_value json[] = {rl_text_n(text.text, text.length)};
    if (status == ROWLOCK_OK && !s->client->journal.off)
        status = change_all(conn, RL_SQL_SWEEP_EXPIRED_RECORD, json, batch->count, io, err);
    if (status == ROWLOCK_OK) /* of each, two tables */
        status = change_all(conn, RL_SQL_SWEEP_EXPIRED_FREE, json, 2 * batch->count, io, err);
    rl_buffer_free(&text);
    return status;
}

static rowlock_status free_in_transaction(const sweep *s, rl_conn *conn, const rl_io *io,
                                          names *batch, rowlock_error *err)
{
    static const rl_sql_id needed[] = {RL_SQL_SWEEP_EXPIRED_LOCK, RL_SQL_SWEEP_EXPIRED_FREE,
                                       RL_SQL_SWEEP_EXPIRED_RECORD};
    rowlock_status status = rl_prepare_all(conn, needed, s->client->journal.off ? 2 : 3, io, err);
    if (status == ROWLOCK_OK)
        status = rl_run_text(conn, RL_SQL_BEGIN, NULL, io, err);
    if (status != ROWLOCK_OK)
        return rl_no_effect(status, err);
    status = lock_expired(conn, io, batch, err);
    if (status == ROWLOCK_OK && batch->count > 0)
        status = free_locked(s, conn, io, batch, err);
    if (status == ROWLOCK_OK)
        return rl_run_text(conn, RL_SQL_COMMIT, NULL, io, err);
    if (rl_run_text(conn, RL_SQL_ROLLBACK, NULL, io, NULL) != ROWLOCK_OK)
        conn->broken = true;
    return status;
}

static rowlock_status free_expired(const sweep *s, names *batch, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(s->budget);
    rl_conn *conn = NULL;
    rowlock_status status = rl_pool_take(&s->client->pool, NULL, &io, &conn, err);
    if (status != ROWLOCK_OK)
        return status;
    status = free_in_transaction(s, conn, &io, batch, err);
    /* A COMMIT that failed may have left it in the transaction. */
    if (status != ROWLOCK_OK && rl_in_transaction(conn->mysql))
        conn->broken = true;
    rl_pool_give(&s->client->pool, conn);
    return status;
}

/* -------------------------------------------------------------------- dead row locks */

typedef struct dead {
    uint64_t id;
    uint64_t version;
    int64_t held_us;
    char name[ROWLOCK_NAME_MAX * 4 + 1];
    char owner[ROWLOCK_OWNER_MAX + 1];
    char label[ROWLOCK_LABEL_MAX * 4 + 1];
} dead;

typedef struct dead_batch {
    size_t count;
    dead rows[DEAD_BATCH];
} dead_batch;

static rowlock_status add_dead(void *data, const rl_cell *cells, rowlock_error *err)
{
    dead_batch *batch = data;
    if (batch->count == DEAD_BATCH)
        return rl_fail(err, ROWLOCK_DAMAGED, "the server answered with more rows than it was to");
    dead *row = &batch->rows[batch->count++];
    row->id = cells[0].u64;
    row->version = cells[2].u64;
    row->held_us = cells[5].i64;
    snprintf(row->name, sizeof row->name, "%s", cells[1].text);
    snprintf(row->owner, sizeof row->owner, "%s", cells[3].text);
    snprintf(row->label, sizeof row->label, "%s", cells[4].text);
    return ROWLOCK_OK;
}

static void record_expired(rowlock_client *client, const dead *row)
{
    const rl_event event = {.name = row->name,
                            .kind = RL_KIND_ROW,
                            .event = "expired",
                            .version = row->version,
                            .owner = row->owner,
                            .label = row->label,
                            .waited_ms = RL_UNKNOWN_MS,
                            .held_ms = row->held_us / 1000,
                            .detail = "its connection ended"};
    rl_client_record(client, &event);
}

/* One by one: each takes two connections, and there are few. */
static rowlock_status free_row(sweep *s, const dead *row, rowlock_error *err)
{
    bool freed = false;
    rowlock_status status =
        rl_row_expire(s->client, s->budget, row->id, row->version, row->owner, &freed, err);
    /* A fenced transaction, perhaps. */
    if (left_to_others(status))
        return ROWLOCK_OK;
    if (status != ROWLOCK_OK || !freed)
        return status;
    s->done.expired++;
    record_expired(s->client, row);
    return ROWLOCK_OK;
}

static rowlock_status free_rows(sweep *s, dead_batch *batch, rowlock_error *err)
{
    uint64_t after = 0;
    do {
        const rl_value values[] = {rl_u64(after), rl_u64(DEAD_BATCH)};
        batch->count = 0;
        rowlock_status status = rl_client_read_all(s->client, s->budget, RL_SQL_SWEEP_PUBLISHED,
                                                   values, add_dead, batch, err);
        for (size_t i = 0; status == ROWLOCK_OK && i < batch->count; i++)
            status = free_row(s, &batch->rows[i], err);
        if (status != ROWLOCK_OK)
            return status;
        if (batch->count > 0)
            after = batch->rows[batch->count - 1].id;
    } while (batch->count == DEAD_BATCH);
    return ROWLOCK_OK;
}

/* --------------------------------------------------------------------------- history */

static void keep_upto(void *data, const rl_cell *cells)
{
    *(uint64_t *)data = cells[0].null ? 0 : cells[0].u64;
}

static rowlock_status forget_upto(sweep *s, uint64_t upto, size_t *size, rowlock_error *err)
{
    for (;;) {
        size_t asked = *size;
        const rl_value values[] = {rl_u64(upto), rl_u64(asked)};
        rl_done deleted = {0};
        int64_t start = rl_now_us();
        rowlock_status status =
            rl_client_run(s->client, s->budget, RL_SQL_SWEEP_EVENTS_DELETE, values, &deleted, err);
        if (status != ROWLOCK_OK)
            return status;
        s->done.events += deleted.rows;
        *size = rl_sweep_pace(asked, (size_t)deleted.rows, rl_now_us() - start);
        if (deleted.rows < asked)
            return ROWLOCK_OK;
    }
}

static rowlock_status forget_old(sweep *s, int64_t age_ms, size_t *size, rowlock_error *err)
{
    const rl_value values[] = {rl_u64((uint64_t)age_ms * 1000), rl_u64(BATCH)};
    for (;;) {
        uint64_t upto = 0;
        bool found = false;
        rowlock_status status = rl_client_read(s->client, s->budget, RL_SQL_SWEEP_EVENTS_BEFORE,
                                               values, keep_upto, &upto, &found, err);
        if (status != ROWLOCK_OK || upto == 0)
            return status;
        status = forget_upto(s, upto, size, err);
        if (status != ROWLOCK_OK)
            return status;
    }
}

static rowlock_status forget_many(sweep *s, uint64_t keep, size_t *size, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(keep)};
    uint64_t upto = 0;
    bool found = false;
    rowlock_status status = rl_client_read(s->client, s->budget, RL_SQL_SWEEP_EVENTS_BEYOND, values,
                                           keep_upto, &upto, &found, err);
    if (status != ROWLOCK_OK || !found)
        return status;
    return forget_upto(s, upto, size, err);
}

static rowlock_status bound_history(sweep *s, const rowlock_sweep_options *options,
                                    rowlock_error *err)
{
    size_t size = PACE_FIRST;
    rowlock_status status = ROWLOCK_OK;
    if (options->history_ms > 0)
        status = forget_old(s, options->history_ms, &size, err);
    if (status == ROWLOCK_OK)
        status = forget_many(s, options->history_rows, &size, err);
    return left_to_others(status) ? ROWLOCK_OK : status;
}

/* ----------------------------------------------------------------------------- purge */

static rowlock_status add_unused(void *data, const rl_cell *cells, rowlock_error *err)
{
    return add_name(data, cells[0].u64, cells[1].u64, cells[2].u64 != 0, err);
}

static rowlock_status find_unused(const sweep *s, uint64_t after, size_t size, names *batch,
                                  rowlock_error *err)
{
    const rl_value values[] = {rl_u64(after), rl_u64(s->unused_us), rl_u64(size)};
    return rl_client_read_all(s->client, s->budget, RL_SQL_PURGE_CANDIDATES, values, add_unused,
                              batch, err);
}

static rowlock_status raise_floor(rl_conn *conn, const rl_io *io, const names *batch,
                                  rowlock_error *err)
{
    uint64_t highest = 0;
    for (size_t i = 0; i < batch->count; i++)
        if (batch->rows[i].version > highest)
            highest = batch->rows[i].version;
    const rl_value values[] = {rl_u64(highest)};
    rl_done done = {0};
    rowlock_status status = rl_run(conn, RL_SQL_PURGE_FLOOR_RAISE, values, io, &done, err);
    if (status != ROWLOCK_OK || done.rows > 0)
        return status;
    return rl_fail(
        err, ROWLOCK_DAMAGED,
        "the table version_floor has lost its row; INSERT (1, the highest version ever used)");
}

/* Leaves in the count of the batch how many are gone. */
static rowlock_status delete_names(rl_conn *conn, const rl_io *io, const rl_value *values,
                                   names *batch, rowlock_error *err)
{
    rl_done done = {0};
    rl_done row_locks = {0};
    uint64_t left = batch->count;
    rowlock_status status = rl_run(conn, RL_SQL_PURGE_NAMES, values, io, &done, err);
    if (status == ROWLOCK_OK)
        status = rl_run(conn, RL_SQL_PURGE_ROW_LOCKS, values, io, &row_locks, err);
    if (status == ROWLOCK_OK && done.rows + row_locks.rows > 0)
        status = rl_query_number(conn, RL_SQL_PURGE_LEFT, values, io, &left, err);
    if (status == ROWLOCK_OK)
        batch->count -= left < batch->count ? (size_t)left : batch->count;
    return status;
}

/* The floor is raised, and that is committed, before a name goes. */
static rowlock_status purge_on(const sweep *s, rl_conn *conn, const rl_io *io, names *batch,
                               rowlock_error *err)
{
    rl_buffer json = {0};
    rowlock_status status = raise_floor(conn, io, batch, err);
    if (status != ROWLOCK_OK || batch->count == 0)
        return status;
    status = names_json(batch, &json, err);
    const rl_value values[] = {rl_text_n(json.text, json.length), rl_u64(s->unused_us)};
    if (status == ROWLOCK_OK)
        status = delete_names(conn, io, values, batch, err);
    rl_buffer_free(&json);
    return status;
}

/* On one connection: another may lead to another node, which has not heard of the floor yet. */
static rowlock_status purge_names(const sweep *s, names *batch, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(s->budget);
    rl_conn *conn = NULL;
    rowlock_status status = rl_pool_take(&s->client->pool, NULL, &io, &conn, err);
    if (status != ROWLOCK_OK)
        return status;
    status = purge_on(s, conn, &io, batch, err);
    rl_pool_give(&s->client->pool, conn);
    return status;
}

/* --------------------------------------------------------------------------- the sweep */

/* Memory for one batch of either sort at a time. */
typedef union batches {
    names names;
    dead_batch dead;
} batches;

static rowlock_status sweep_all(sweep *s, const rowlock_sweep_options *options, batches *batch,
                                rowlock_error *err)
{
    static const part leases = {.find = find_expired, .work = free_expired};
    static const part unused = {.find = find_unused, .work = purge_names, .always = true};
    rowlock_status status = in_batches(s, &leases, &batch->names, &s->done.expired, err);
    if (status == ROWLOCK_OK)
        status = free_rows(s, &batch->dead, err);
    if (status == ROWLOCK_OK)
        status = bound_history(s, options, err);
    if (status == ROWLOCK_OK && options->unused_ms >= 0)
        status = in_batches(s, &unused, &batch->names, &s->done.purged, err);
    return status;
}

void rl_sweep_fill_in(rowlock_sweep_options *options)
{
    if (options->history_ms == 0)
        options->history_ms = HISTORY_DEFAULT_MS;
    if (options->history_rows == 0)
        options->history_rows = HISTORY_DEFAULT_ROWS;
    if (options->unused_ms == 0)
        options->unused_ms = UNUSED_DEFAULT_MS;
}

rowlock_status rl_sweep(rowlock_client *client, const rowlock_sweep_options *given,
                        rowlock_sweep_result *result, rowlock_error *err)
{
    rowlock_sweep_options filled = *given;
    const rowlock_sweep_options *options = &filled;
    rl_sweep_fill_in(&filled);
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    sweep s = {.client = client, .budget = &budget};
    if (options->unused_ms > 0)
        s.unused_us = (uint64_t)options->unused_ms * 1000;
    batches *batch = malloc(sizeof *batch);
    if (!batch)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    rowlock_status status = sweep_all(&s, options, batch, err);
    free(batch);
    if (status == ROWLOCK_OK && result)
        *result = s.done;
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
                                  bool at_once, bool *broken, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(at_once), rl_u64(v->version), rl_u64(v->id)};
    rl_done done = {0};
    rowlock_status status = rl_client_run(client, budget, RL_SQL_LEASE_BREAK, values, &done, err);
    *broken = status == ROWLOCK_OK && done.rows > 0;
    /* Its holder does not know yet, and would ring only then. */
    if (*broken)
        rl_bell_seize(&client->bells, budget, v->id, v->connection_id);
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
    const rl_value values[] = {rl_text(k->name), rl_u64(1)};
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
    const rl_attempts how = {.budget = &budget,
                             .outage_us = KILLED_WAIT_MS * 1000,
                             .backoff = {.first_us = 1000, .most_us = 50000}};
    rowlock_status ignored = rl_attempt_until(&how, free_killed, &k, NULL);
    (void)ignored;
}

static void keep_answer(void *data, const rl_cell *cells)
{
    *(bool *)data = cells[0].u64 != 0;
}

/* Nobody else's connection is ended for a holder that has published a number not his own. */
static rowlock_status check_whose(rowlock_client *client, const rl_budget *budget, const char *name,
                                  const victim *v, rowlock_error *err)
{
    const rl_value values[] = {rl_text(v->label), rl_u64(v->connection_id)};
    bool theirs = false;
    bool found = false;
    rowlock_status status = rl_client_read(client, budget, RL_SQL_CONNECTION_IS_HOLDERS, values,
                                           keep_answer, &theirs, &found, err);
    if (status != ROWLOCK_OK || theirs)
        return status;
    return rl_fail(err, ROWLOCK_BUSY,
                   "connection %" PRIu64 ", which the holder of '%s' says is its own, is not one "
                   "of its user's, or cannot be seen without PROCESS; nothing was ended",
                   v->connection_id, name);
}

static rowlock_status find_victim(rowlock_client *client, const rl_budget *budget, const char *name,
                                  victim *v, rowlock_error *err)
{
    const rl_value values[] = {rl_text(name), rl_u64(1)};
    bool found = false;
    rowlock_status status =
        rl_client_read(client, budget, RL_SQL_LIST_NAME, values, keep_victim, v, &found, err);
    if (status == ROWLOCK_OK && !found)
        return rl_fail(err, ROWLOCK_NOT_FOUND, "there is no lock '%s'", name);
    return status;
}

/* As it was when it was found? A connection that has let it go since may hold another lock by now.
 */
static rowlock_status is_the_same(rowlock_client *client, const rl_budget *budget, const char *name,
                                  const victim *v, bool *same, rowlock_error *err)
{
    victim now = {0};
    rowlock_status status = find_victim(client, budget, name, &now, err);
    *same = now.held && now.id == v->id && now.version == v->version &&
            now.connection_id == v->connection_id;
    return status;
}

/*
 * Its connection is ended; then its row is marked free. The holder may be dead, and the server have
 * given its number to a stranger: not when nobody has the row locked. 1094: that connection has
 * gone meanwhile.
 */
static rowlock_status end_holder(rowlock_client *client, const rl_budget *budget, const char *name,
                                 const victim *v, bool *broken, rowlock_error *err)
{
    bool same = false;
    rowlock_status status = check_whose(client, budget, name, v, err);
    if (status == ROWLOCK_OK)
        status = is_the_same(client, budget, name, v, &same, err);
    if (status != ROWLOCK_OK || !same)
        return status;
    status = rl_kill_connection(client, budget, v->connection_id, err);
    if (status == ROWLOCK_DENIED)
        return rl_fail(err, status,
                       "the connection that holds the lock belongs to another user; break it as "
                       "that user, or GRANT CONNECTION ADMIN (on MySQL CONNECTION_ADMIN) ON *.* to "
                       "yours");
    if (status != ROWLOCK_OK && err->server_errno != 1094)
        return status;
    wait_until_freed(client, name, v);
    *broken = true;
    return ROWLOCK_OK;
}

static rowlock_status break_row(rowlock_client *client, const rl_budget *budget, const char *name,
                                const victim *v, bool *broken, rowlock_error *err)
{
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    /* At another node its connection's number is a stranger's. */
    rowlock_status status = rl_row_check(client, err);
    if (status == ROWLOCK_OK)
        status = rl_row_expire(client, budget, v->id, v->version, v->owner, broken, err);
    if (status != ROWLOCK_OK || *broken)
        return status;
    return end_holder(client, budget, name, v, broken, err);
}

/* Who it was and why, for the history. */
typedef char breaker[600];

static void say_breaker(breaker by, const char *prefix, const rowlock_client *client,
                        const char *reason)
{
    snprintf(by, sizeof(breaker), "%s%.250s%s%.250s", prefix, client->label, reason ? ": " : "",
             reason ? reason : "");
}

static void record_broken(rowlock_client *client, const char *name, const victim *v,
                          const char *reason)
{
    breaker detail;
    say_breaker(detail, "by ", client, reason);
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
        return rl_fail(
            err, ROWLOCK_BUSY,
            "'%s' is not held; it is shut (it was broken, or released with --at-least) and "
            "opens by itself within %.3f s; --now opens it at once",
            name, (double)v->shut_us / 1e6);
    return rl_fail(err, ROWLOCK_BUSY, "'%s' is not held%s; there is nothing to break", name,
                   v->row_lock ? " (as far as is published: an unfenced holder is not)" : "");
}

/* The procedure does it all, the history too, with the rights of whoever made it. */
static rowlock_status break_by_procedure(rowlock_client *client, const rl_budget *budget,
                                         const char *name, const rowlock_break_options *options,
                                         rowlock_error *err)
{
    breaker by;
    say_breaker(by, "", client, options->reason);
    const rl_value values[] = {rl_text(name), rl_text(by), rl_u64(options->now)};
    rl_done done = {0};
    rowlock_status status = rl_client_run(client, budget, RL_SQL_VIA_BREAK, values, &done, err);
    if (status == ROWLOCK_DENIED && err && err->server_errno == NOT_OWNER)
        return rl_fail(
            err, status,
            "the connection that holds the lock belongs to another user than who ran "
            "`rowlock init --procedures`, and who lacks CONNECTION ADMIN ON *.*; on MySQL "
            "CONNECTION_ADMIN, which ends none of a SYSTEM_USER's");
    return status;
}

/* Not held, but shut: its time is not waited for. */
static rowlock_status open_shut(rowlock_client *client, const rl_budget *budget, const char *name,
                                const victim *v, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(v->version), rl_u64(v->id)};
    rl_done done = {0};
    rowlock_status status = rl_client_run(client, budget, RL_SQL_LEASE_OPEN, values, &done, err);
    if (status != ROWLOCK_OK || done.rows > 0)
        return status;
    return rl_fail(err, ROWLOCK_BUSY, "'%s' changed hands just now; look again", name);
}

static rowlock_status break_once(rowlock_client *client, const rl_budget *budget, const char *name,
                                 const rowlock_break_options *options, rowlock_error *err)
{
    victim v = {0};
    bool broken = false;
    rowlock_status status = find_victim(client, budget, name, &v, err);
    if (status != ROWLOCK_OK)
        return status;
    if (!v.held && v.shut_us > 0 && options->now)
        return open_shut(client, budget, name, &v, err);
    if (!v.held && v.shut_us > 0 && options->wait_ms != 0)
        return ROWLOCK_OK; /* nothing is broken: it is waited for */
    if (!v.held)
        return not_held(name, &v, err);
    status = v.row_lock ? break_row(client, budget, name, &v, &broken, err)
                        : break_lease(client, budget, &v, options->now, &broken, err);
    if (status != ROWLOCK_OK)
        return status;
    if (!broken)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' changed hands just now; look again", name);
    record_broken(client, name, &v, options->reason);
    return ROWLOCK_OK;
}

/* DEADLOCK: on a cluster, a fence or a renewal at another node was committed first; nothing was
 * changed. */
static rowlock_status break_now_or_again(rowlock_client *client, const char *name,
                                         const rowlock_break_options *options, rowlock_error *err)
{
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    if (rl_client_via(client))
        return break_by_procedure(client, &budget, name, options, err);
    rowlock_status status = break_once(client, &budget, name, options, err);
    for (int i = 1; i < BREAK_MOST && status == ROWLOCK_DEADLOCK; i++)
        status = break_once(client, &budget, name, options, err);
    return status;
}

typedef struct opening {
    rowlock_client *client;
    const rl_budget *budget;
    const char *name;
} opening;

/* Its holder may open it before its time. */
static rowlock_status is_open(void *data, int64_t *hint_us, rowlock_error *err)
{
    const opening *o = data;
    victim v = {0};
    rowlock_status status = find_victim(o->client, o->budget, o->name, &v, err);
    if (status == ROWLOCK_NOT_FOUND || (status == ROWLOCK_OK && v.shut_us <= 0))
        return ROWLOCK_OK;
    if (status != ROWLOCK_OK)
        return status;
    *hint_us = v.shut_us + 1000;
    return rl_fail(err, ROWLOCK_BUSY,
                   "'%s' is shut for another %.3f s, or until its old holder has "
                   "ended",
                   o->name, (double)v.shut_us / 1e6);
}

static rowlock_status wait_until_open(rowlock_client *client, const char *name,
                                      const rowlock_break_options *options, rowlock_error *err)
{
    rl_budget budget = rl_budget_start(options->wait_ms, client->limit_ms, options->cancel);
    opening o = {.client = client, .budget = &budget, .name = name};
    const rl_attempts how = {.budget = &budget,
                             .outage_us = client->outage_us,
                             .backoff = {.first_us = OPEN_LOOK_US, .most_us = OPEN_LOOK_US}};
    return rl_attempt_until(&how, is_open, &o, err);
}

rowlock_status rl_break(rowlock_client *client, const char *name,
                        const rowlock_break_options *options, rowlock_error *err)
{
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    rowlock_status status = break_now_or_again(client, name, options, err);
    if (status != ROWLOCK_OK || options->wait_ms == 0)
        return status;
    return wait_until_open(client, name, options, err);
}

/* ----------------------------------------------------------------------------- purge */

/* `batch` has room for one. */
static rowlock_status purge_id(const sweep *s, uint64_t id, names *batch, rowlock_error *err)
{
    batch->count = 0;
    rowlock_status status = find_unused(s, id - 1, 1, batch, err);
    if (status != ROWLOCK_OK)
        return status;
    if (batch->count == 0 || batch->rows[0].id != id)
        return ROWLOCK_BUSY;
    status = purge_names(s, batch, err);
    if (status != ROWLOCK_OK)
        return status;
    return batch->count > 0 ? ROWLOCK_OK : ROWLOCK_BUSY;
}

/* NOT_FOUND; but DENIED for who could not have removed it either: so that one can ask before one
 * makes names. The server checks rights when it prepares. */
static rowlock_status not_there(rowlock_client *client, const rl_budget *budget, rowlock_error *err)
{
    static const rl_sql_id needed[] = {RL_SQL_PURGE_FLOOR_RAISE, RL_SQL_PURGE_NAMES,
                                       RL_SQL_PURGE_ROW_LOCKS};
    rl_io io = rl_budget_quick_io(budget);
    rl_conn *conn = NULL;
    rowlock_error why = {0};
    rowlock_status status = rl_pool_take(&client->pool, NULL, &io, &conn, NULL);
    if (status != ROWLOCK_OK)
        return ROWLOCK_NOT_FOUND;
    status = rl_prepare_all(conn, needed, sizeof needed / sizeof needed[0], &io, &why);
    rl_pool_give(&client->pool, conn);
    if (status != ROWLOCK_DENIED)
        return ROWLOCK_NOT_FOUND;
    if (err)
        *err = why;
    return status;
}

rowlock_status rl_purge(rowlock_client *client, const char *name, rowlock_error *err)
{
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    victim v = {0};
    rowlock_status status = find_victim(client, &budget, name, &v, err);
    if (status == ROWLOCK_NOT_FOUND)
        return not_there(client, &budget, err);
    if (status != ROWLOCK_OK)
        return status;
    names *batch = malloc(sizeof *batch);
    if (!batch)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    const sweep s = {.client = client, .budget = &budget};
    status = purge_id(&s, v.id, batch, err);
    free(batch);
    rl_resource_forget(client, name);
    if (left_to_others(status))
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is in use", name);
    return status;
}
