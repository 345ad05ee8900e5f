#include "mode/sweeper.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "mode/pessimistic.h"
#include "mode/settle.h"
#include "mode/turn.h"
#include "wait/backoff.h"

#define PACE_GOAL_US         10000 /* a batch holds its row locks for about so long */
#define PACE_FIRST           8     /* so that a slow server shows soon, and does little harm */
#define BATCH                1000  /* at most */
#define DEAD_BATCH           200
#define KILLED_WAIT_MS       500
#define BREAK_MOST           50
#define NOT_OWNER            1095 /* of the connection that is to be ended */
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

/* The names of a batch: first those that were found, then those whose rows were got. */
typedef struct names {
    size_t count;
    size_t locked[3]; /* by each of the statements that have locked them */
    struct {
        uint64_t id;
        uint64_t version;
    } rows[BATCH];
} names;

static rowlock_status add_name(void *data, const rl_cell *cells, rowlock_error *err)
{
    names *batch = data;
    if (batch->count == BATCH)
        return rl_fail(err, ROWLOCK_DAMAGED, "the server answered with more rows than it was to");
    batch->rows[batch->count].id = cells[0].u64;
    batch->rows[batch->count++].version = cells[1].u64;
    return ROWLOCK_OK;
}

/* [[id, version], ...], as the statements take it. */
static rowlock_status names_json(const names *batch, rl_buffer *json, rowlock_error *err)
{
    rl_buffer_puts(json, "[");
    for (size_t i = 0; i < batch->count; i++) {
        rl_buffer_puts(json, i == 0 ? "[" : ",[");
        rl_json_u64(json, batch->rows[i].id);
        rl_buffer_puts(json, ",");
        rl_json_u64(json, batch->rows[i].version);
        rl_buffer_puts(json, "]");
    }
    rl_buffer_puts(json, "]");
    return json->failed ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory") : ROWLOCK_OK;
}

static rowlock_status add_locked(rl_conn *conn, rl_sql_id id, const rl_value *values,
                                 const rl_io *io, names *batch, rowlock_error *err)
{
    rl_rows rows;
    rowlock_status status = rl_query(conn, id, values, io, &rows, err);
    if (status != ROWLOCK_OK)
        return status;
    while (status == ROWLOCK_OK && rl_next(&rows))
        status = add_name(batch, rows.cells, err);
    rl_end(&rows);
    return status == ROWLOCK_OK ? rows.status : status;
}

/* Leaves those names in the batch whose rows one of the statements has locked. */
static rowlock_status lock_names(const sweep *s, rl_conn *conn, const rl_sql_id *ids, size_t count,
                                 const rl_io *io, names *batch, rowlock_error *err)
{
    rl_buffer json = {0};
    rowlock_status status = names_json(batch, &json, err);
    const rl_value values[] = {rl_text_n(json.text, json.length), rl_u64(s->unused_us)};
    batch->count = 0;
    for (size_t i = 0; status == ROWLOCK_OK && i < count; i++) {
        size_t before = batch->count;
        status = add_locked(conn, ids[i], values, io, batch, err);
        batch->locked[i] = batch->count - before;
    }
    rl_buffer_free(&json);
    return status;
}

/* What a batch is changed by, and how many rows have to be changed at least. */
typedef struct change {
    rl_sql_id id;
    size_t rows;
} change;

/*
 * In a transaction. MariaDB's JSON_TABLE (10.11, 11.8) ends too early, without an error, when KILL
 * QUERY meets it: half of a batch is not to be committed.
 */
static rowlock_status change_names(rl_conn *conn, const change *changes, size_t count,
                                   const rl_io *io, const names *batch, rowlock_error *err)
{
    rl_buffer json = {0};
    rl_done done = {0};
    rowlock_status status = names_json(batch, &json, err);
    const rl_value values[] = {rl_text_n(json.text, json.length)};
    for (size_t i = 0; status == ROWLOCK_OK && i < count; i++) {
        status = rl_run(conn, changes[i].id, values, io, &done, err);
        if (status == ROWLOCK_OK && done.rows < changes[i].rows)
            status = rl_fail(err, ROWLOCK_UNAVAILABLE,
                             "a statement of the sweep was stopped by somebody (%s)",
                             rl_sql_table[changes[i].id].name);
    }
    rl_buffer_free(&json);
    return status;
}

/* One part of a sweep: how it finds names, and what it does to a batch in a transaction. */
typedef struct part {
    rl_sql_id find;
    rowlock_status (*work)(const sweep *s, rl_conn *conn, const rl_io *io, names *batch,
                           rowlock_error *err);
    bool always; /* once even for nothing: a server that would refuse is to say so */
} part;

static rowlock_status find_names(const sweep *s, const part *p, uint64_t after, size_t size,
                                 names *batch, rowlock_error *err)
{
    bool purge = p->find == RL_SQL_PURGE_CANDIDATES;
    const rl_value sweep_values[] = {rl_u64(after), rl_u64(size)};
    const rl_value purge_values[] = {rl_u64(after), rl_u64(s->unused_us), rl_u64(size)};
    batch->count = 0;
    return rl_client_read_all(s->client, s->budget, p->find, purge ? purge_values : sweep_values,
                              add_name, batch, err);
}

static rowlock_status in_transaction(const sweep *s, const part *p, names *batch,
                                     rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(s->budget);
    rl_conn *conn = NULL;
    rowlock_status status = rl_pool_take(&s->client->pool, RL_HOLD, &io, &conn, err);
    if (status != ROWLOCK_OK)
        return status;
    status = p->work(s, conn, &io, batch, err);
    rl_sql_id end = status == ROWLOCK_OK ? RL_SQL_COMMIT : RL_SQL_ROLLBACK;
    rowlock_status ended = rl_run_text(conn, end, NULL, &io, status == ROWLOCK_OK ? err : NULL);
    if (ended != ROWLOCK_OK)
        conn->broken = true;
    rl_pool_give(&s->client->pool, conn);
    return status == ROWLOCK_OK ? ended : status;
}

/* What somebody else works on is the next sweep's (on a cluster, that may be seen late). */
static rowlock_status work_on(const sweep *s, const part *p, names *batch, rowlock_error *err)
{
    rowlock_status status = in_transaction(s, p, batch, err);
    if (status != ROWLOCK_BUSY && status != ROWLOCK_DEADLOCK)
        return status;
    batch->count = 0;
    return ROWLOCK_OK;
}

/* In batches as large as the server is fast. */
static rowlock_status in_batches(const sweep *s, const part *p, names *batch, uint64_t *changed,
                                 rowlock_error *err)
{
    size_t size = PACE_FIRST;
    uint64_t after = 0;
    for (;;) {
        rowlock_status status = find_names(s, p, after, size, batch, err);
        bool idle = batch->count == 0 && !(p->always && after == 0);
        if (status != ROWLOCK_OK || idle)
            return status;
        bool last = batch->count < size;
        if (!last)
            after = batch->rows[batch->count - 1].id;
        int64_t start = rl_now_us();
        status = work_on(s, p, batch, err);
        if (status != ROWLOCK_OK)
            return status;
        *changed += batch->count;
        size = rl_sweep_pace(size, batch->count, rl_now_us() - start);
        if (last)
            return ROWLOCK_OK;
    }
}

/* ----------------------------------------------------------------------- dead leases */

/* The history first: it tells of the token and the holder that were. */
static rowlock_status free_leases(const sweep *s, rl_conn *conn, const rl_io *io, names *batch,
                                  rowlock_error *err)
{
    static const rl_sql_id lock[] = {RL_SQL_SWEEP_EXPIRED_LOCK};
    rowlock_status status = lock_names(s, conn, lock, 1, io, batch, err);
    if (status != ROWLOCK_OK || batch->count == 0)
        return status;
    /* Of each, two tables. */
    const change changes[] = {{RL_SQL_SWEEP_EXPIRED_RECORD, batch->count},
                              {RL_SQL_SWEEP_EXPIRED_FREE, 2 * batch->count}};
    if (s->client->journal.off)
        return change_names(conn, &changes[1], 1, io, batch, err);
    return change_names(conn, changes, 2, io, batch, err);
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
    /* Somebody works on this very row, a fenced transaction perhaps: the next sweep's. */
    if (status == ROWLOCK_BUSY || status == ROWLOCK_DEADLOCK)
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
    return status == ROWLOCK_OK ? forget_many(s, options->history_rows, &size, err) : status;
}

/* ----------------------------------------------------------------------------- purge */

static rowlock_status lock_floor(rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    rl_rows rows;
    bool found = false;
    rowlock_status status = rl_query_one(conn, RL_SQL_PURGE_FLOOR, NULL, io, &found, &rows, err);
    if (status != ROWLOCK_OK || found)
        return status;
    return rl_fail(
        err, ROWLOCK_DAMAGED,
        "the table version_floor has lost its row; INSERT (1, the highest version ever used)");
}

static rowlock_status raise_floor(rl_conn *conn, const rl_io *io, const names *batch,
                                  rowlock_error *err)
{
    uint64_t highest = 0;
    for (size_t i = 0; i < batch->count; i++)
        if (batch->rows[i].version > highest)
            highest = batch->rows[i].version;
    const rl_value values[] = {rl_u64(highest)};
    return rl_run(conn, RL_SQL_PURGE_FLOOR_RAISE, values, io, NULL, err);
}

/* The floor is locked first, and raised before the names go. */
static rowlock_status purge_names(const sweep *s, rl_conn *conn, const rl_io *io, names *batch,
                                  rowlock_error *err)
{
    static const rl_sql_id locks[] = {RL_SQL_PURGE_NAMES_LOCK, RL_SQL_PURGE_ROWS_LOCK,
                                      RL_SQL_PURGE_HALVES_LOCK};
    rowlock_status status = lock_floor(conn, io, err);
    if (status == ROWLOCK_OK)
        status = lock_names(s, conn, locks, 3, io, batch, err);
    if (status != ROWLOCK_OK || batch->count == 0)
        return status;
    const change deletes[] = {{RL_SQL_PURGE_LOCK, batch->locked[1]},
                              {RL_SQL_PURGE_RENEWAL, 0},
                              {RL_SQL_PURGE_RESOURCE, batch->count}};
    status = raise_floor(conn, io, batch, err);
    return status == ROWLOCK_OK ? change_names(conn, deletes, 3, io, batch, err) : status;
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
    static const part leases = {.find = RL_SQL_SWEEP_EXPIRED, .work = free_leases};
    static const part unused = {
        .find = RL_SQL_PURGE_CANDIDATES, .work = purge_names, .always = true};
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
                                  bool *broken, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(v->version), rl_u64(v->id)};
    rl_done done = {0};
    rowlock_status status = rl_client_run(client, budget, RL_SQL_LEASE_BREAK, values, &done, err);
    *broken = status == ROWLOCK_OK && done.rows > 0;
    /* Its holder does not know yet, and would ring only then. */
    if (*broken)
        rl_bell_seize(client, budget, v->id, v->connection_id);
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
    /* At another node its connection's number is a stranger's. */
    rowlock_status status = rl_row_check(client, err);
    if (status != ROWLOCK_OK)
        return status;
    status = rl_row_expire(client, budget, v->id, v->version, v->owner, &freed, err);
    if (status == ROWLOCK_OK && !freed)
        status = check_whose(client, budget, name, v, err);
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

static rowlock_status not_held(const char *name, const victim *v, rowlock_error *err)
{
    if (v->shut_us > 0)
        return rl_fail(err, ROWLOCK_BUSY,
                       "'%s' is not held; it is shut (at_least) and opens by itself in %.3f s",
                       name, (double)v->shut_us / 1e6);
    return rl_fail(err, ROWLOCK_BUSY, "'%s' is not held%s; there is nothing to break", name,
                   v->row_lock ? " (as far as is published: an unfenced holder is not)" : "");
}

/* The procedure does it all, the history too, with the rights of whoever made it. */
static rowlock_status break_by_procedure(rowlock_client *client, const rl_budget *budget,
                                         const char *name, const char *reason, rowlock_error *err)
{
    breaker by;
    say_breaker(by, "", client, reason);
    const rl_value values[] = {rl_text(name), rl_text(by)};
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

static rowlock_status break_once(rowlock_client *client, const rl_budget *budget, const char *name,
                                 const char *reason, rowlock_error *err)
{
    victim v = {0};
    bool broken = false;
    rowlock_status status = find_victim(client, budget, name, &v, err);
    if (status != ROWLOCK_OK)
        return status;
    if (!v.held)
        return not_held(name, &v, err);
    status = v.row_lock ? break_row(client, budget, name, &v, &broken, err)
                        : break_lease(client, budget, &v, &broken, err);
    if (status != ROWLOCK_OK)
        return status;
    if (!broken)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' changed hands just now; look again", name);
    record_broken(client, name, &v, reason);
    return ROWLOCK_OK;
}

/* DEADLOCK: on a cluster, a fence or a renewal at another node was committed first; nothing was
 * changed. */
rowlock_status rl_break(rowlock_client *client, const char *name, const char *reason,
                        rowlock_error *err)
{
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    if (rl_client_via(client))
        return break_by_procedure(client, &budget, name, reason, err);
    rowlock_status status = break_once(client, &budget, name, reason, err);
    for (int i = 1; i < BREAK_MOST && status == ROWLOCK_DEADLOCK; i++)
        status = break_once(client, &budget, name, reason, err);
    return status;
}

/* ----------------------------------------------------------------------------- purge */

static rowlock_status purge_batch(rowlock_client *client, const rl_budget *budget, const char *name,
                                  names *batch, rowlock_error *err)
{
    static const part purging = {.work = purge_names};
    const sweep s = {.client = client, .budget = budget};
    rowlock_status status = work_on(&s, &purging, batch, err);
    if (status == ROWLOCK_OK && batch->count == 0)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is in use", name);
    rl_resource_forget(client, name);
    return status;
}

/* NOT_FOUND; but DENIED for who could not have removed it either: so that one can ask before one
 * makes names. The server checks rights when it prepares. */
static rowlock_status not_there(rowlock_client *client, const rl_budget *budget, rowlock_error *err)
{
    static const rl_sql_id needed[] = {RL_SQL_PURGE_FLOOR_RAISE, RL_SQL_PURGE_LOCK,
                                       RL_SQL_PURGE_RENEWAL, RL_SQL_PURGE_RESOURCE};
    rl_io io = rl_budget_quick_io(budget);
    rl_conn *conn = NULL;
    rowlock_error why = {0};
    rowlock_status status = rl_pool_take(&client->pool, RL_WORK, &io, &conn, NULL);
    if (status != ROWLOCK_OK)
        return ROWLOCK_NOT_FOUND;
    for (size_t i = 0; status == ROWLOCK_OK && i < sizeof needed / sizeof needed[0]; i++)
        status = rl_prepare(conn, needed[i], &io, &why);
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
    batch->count = 1;
    batch->rows[0].id = v.id;
    batch->rows[0].version = v.version;
    status = purge_batch(client, &budget, name, batch, err);
    free(batch);
    return status;
}
