#include "admin/admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kind/row.h"
#include "kind/shared.h"

#define PACE_GOAL_US         10000 /* how long a batch may hold its row locks */
#define PACE_FIRST           8     /* small, since the server may be slow */
#define BATCH                1000  /* at most */
#define DAY_MS               86400000LL
#define HISTORY_DEFAULT_MS   (30 * DAY_MS)
#define HISTORY_DEFAULT_ROWS 1000000
#define UNUSED_DEFAULT_MS    (90 * DAY_MS)

/* The names of a batch: first those that were found, then those that the sweep has got. */
typedef struct names {
    size_t count;
    uint64_t last;
    uint64_t highest; /* version */
    char json[65001]; /* as the statements answer and take them */
} names;

/* One sweep: what its parts share. */
typedef struct sweep {
    rowlock_client *client;
    const rl_budget *budget;
    uint64_t unused_us;
    uint64_t queue; /* whose items are looked at */
    uint64_t dead_items_us;
    rowlock_sweep_result done;
    names batch;
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

static void keep_names(void *data, const rl_cell *cells)
{
    names *batch = data;
    batch->count = (size_t)cells[1].u64;
    batch->last = cells[2].u64;
    batch->highest = cells[3].u64;
    snprintf(batch->json, sizeof batch->json, "%s", cells[0].text);
}

static rowlock_status find_names(sweep *s, rl_sql_id id, const rl_value *values, rowlock_error *err)
{
    bool found = false;
    s->batch.count = 0;
    return rl_client_read(s->client, s->budget, id, values, keep_names, &s->batch, &found, err);
}

/*
 * One part of a sweep: finds names, and changes a batch of them; the batch then has those that were
 * changed. DEADLOCK, BUSY: another session is at work on the same rows.
 */
typedef struct part {
    rowlock_status (*find)(sweep *s, uint64_t after, size_t size, rowlock_error *err);
    rowlock_status (*work)(sweep *s, rl_conn *conn, const rl_io *io, rowlock_error *err);
    bool always; /* runs once even if nothing was found: a server that would refuse says so */
} part;

/* Another sweep, or a transaction, has these rows: the next sweep finds what is left. (On a cluster
 * the other node's work may be seen only at the commit, as a DEADLOCK.) */
static bool left_to_others(rowlock_status status)
{
    return status == ROWLOCK_BUSY || status == ROWLOCK_DEADLOCK;
}

/* On one connection: another may lead to another node, which has not heard of the floor yet. */
static rowlock_status work_on_batch(sweep *s, const part *p, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(s->budget);
    RL_BORROWED conn = NULL;
    RL_TRY(rl_pool_take(&s->client->pool, NULL, &io, &conn, err));
    rowlock_status status = p->work(s, conn, &io, err);
    /* A COMMIT that failed may have left it in the transaction. */
    if (status != ROWLOCK_OK && rl_in_transaction(conn->mysql))
        conn->broken = true;
    return status;
}

/* In batches whose size follows the server's speed. */
static rowlock_status in_batches(sweep *s, const part *p, uint64_t *changed, rowlock_error *err)
{
    names *batch = &s->batch;
    size_t size = PACE_FIRST;
    uint64_t after = 0;
    for (bool last = false; !last;) {
        RL_TRY(p->find(s, after, size, err));
        if (batch->count == 0 && !(p->always && after == 0))
            return ROWLOCK_OK;
        last = batch->count < size;
        after = batch->last;
        int64_t start = rl_now_us();
        rowlock_status status = work_on_batch(s, p, err);
        if (left_to_others(status))
            batch->count = 0;
        else
            RL_TRY(status);
        *changed += batch->count;
        size = rl_sweep_pace(size, batch->count, rl_now_us() - start);
    }
    return ROWLOCK_OK;
}

/* ----------------------------------------------------------------------- dead leases */

static rowlock_status find_expired(sweep *s, uint64_t after, size_t size, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(after), rl_u64(size)};
    return find_names(s, RL_SQL_SWEEP_EXPIRED, values, err);
}

/* Locks the batch's rows; the batch then has those that it has locked. */
static rowlock_status lock_expired(sweep *s, rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    const rl_value values[] = {rl_text(s->batch.json)};
    rl_rows rows;
    bool found = false;
    RL_TRY(rl_query_one(conn, RL_SQL_SWEEP_EXPIRED_LOCK, values, io, &found, &rows, err));
    s->batch.count = 0;
    if (found)
        keep_names(&s->batch, rows.cells);
    return ROWLOCK_OK;
}

/*
 * MariaDB's JSON_TABLE (10.11, 11.8) ends too early, without an error, when KILL QUERY meets it:
 * half of a batch is not to be committed.
 */
static rowlock_status change_all(const sweep *s, rl_conn *conn, rl_sql_id id, size_t rows,
                                 const rl_io *io, rowlock_error *err)
{
    const rl_value values[] = {rl_text(s->batch.json)};
    rl_done done = {0};
    RL_TRY(rl_run(conn, id, values, io, &done, err));
    if (done.rows == rows)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNAVAILABLE,
                   "a statement of the sweep was stopped by somebody (%s)", rl_sql_table[id].name);
}

/* The history first: it tells of the token and the holder that were. */
static rowlock_status lock_and_free(sweep *s, rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    RL_TRY(lock_expired(s, conn, io, err));
    const size_t count = s->batch.count;
    if (count == 0)
        return ROWLOCK_OK;
    if (!s->client->journal.off)
        RL_TRY(change_all(s, conn, RL_SQL_SWEEP_EXPIRED_RECORD, count, io, err));
    return change_all(s, conn, RL_SQL_SWEEP_EXPIRED_FREE, 2 * count, io, err); /* two tables */
}

static rowlock_status free_expired(sweep *s, rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    static const rl_sql_id needed[] = {RL_SQL_SWEEP_EXPIRED_LOCK, RL_SQL_SWEEP_EXPIRED_FREE,
                                       RL_SQL_SWEEP_EXPIRED_RECORD};
    rowlock_status status = rl_prepare_all(conn, needed, s->client->journal.off ? 2 : 3, io, err);
    if (status == ROWLOCK_OK)
        status = rl_run_text(conn, RL_SQL_BEGIN, NULL, io, err);
    if (status != ROWLOCK_OK)
        return rl_no_effect(status, err);
    status = lock_and_free(s, conn, io, err);
    if (status == ROWLOCK_OK)
        return rl_run_text(conn, RL_SQL_COMMIT, NULL, io, err);
    if (rl_run_text(conn, RL_SQL_ROLLBACK, NULL, io, NULL) != ROWLOCK_OK)
        conn->broken = true;
    return status;
}

/* -------------------------------------------------------------------------- readers */

static rowlock_status find_shared(sweep *s, uint64_t after, size_t size, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(after), rl_u64(size)};
    return find_names(s, RL_SQL_SWEEP_SHARED, values, err);
}

static rowlock_status free_shared(sweep *s, rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    char owner[ROWLOCK_OWNER_MAX + 1];
    rl_client_owner(s->client, owner);
    const rl_value values[] = {rl_text(s->batch.json), rl_text(owner)};
    rl_done closed = {0};
    rl_done freed = {0};
    RL_TRY(rl_run(conn, RL_SQL_SWEEP_SHARED_CLOSE, values, io, &closed, err));
    rowlock_status status = rl_run(conn, RL_SQL_SWEEP_SHARED_FREE, values, io, &freed, err);
    s->batch.count = (size_t)freed.rows;
    if (freed.rows < closed.rows)
        (void)!rl_run(conn, RL_SQL_SWEEP_SHARED_REOPEN, values, io, NULL, NULL);
    return status;
}

/* Runs a DELETE again and again; its last value is how many rows it deletes at most. */
static rowlock_status delete_all(sweep *s, rl_sql_id id, rl_value *values, size_t limit_at,
                                 uint64_t *deleted, rowlock_error *err)
{
    size_t size = PACE_FIRST;
    for (bool last = false; !last;) {
        rl_done gone = {0};
        int64_t start = rl_now_us();
        values[limit_at] = rl_u64(size);
        rowlock_status status =
            rl_no_effect(rl_client_run(s->client, s->budget, id, values, &gone, err), err);
        if (left_to_others(status))
            break;
        RL_TRY(status);
        last = gone.rows < size;
        *deleted += gone.rows;
        size = rl_sweep_pace(size, (size_t)gone.rows, rl_now_us() - start);
    }
    return ROWLOCK_OK;
}

/* Readers that are gone, then the names that no reader is left of. */
static rowlock_status sweep_shared(sweep *s, rowlock_error *err)
{
    static const part shared = {.find = find_shared, .work = free_shared};
    uint64_t freed = 0;
    rl_value limit;
    RL_TRY(delete_all(s, RL_SQL_SWEEP_READERS, &limit, 0, &s->done.expired, err));
    return in_batches(s, &shared, &freed, err);
}

/* Old periods of the ledger. */
static rowlock_status sweep_once(sweep *s, const rowlock_sweep_options *options, rowlock_error *err)
{
    rl_value values[] = {rl_u64((uint64_t)options->history_ms * 1000), rl_u64(0)};
    if (options->history_ms < 0)
        return ROWLOCK_OK;
    return delete_all(s, RL_SQL_SWEEP_ONCE, values, 1, &s->done.events, err);
}

/* Of holders that are gone. */
static rowlock_status sweep_sessions(sweep *s, rowlock_error *err)
{
    uint64_t gone = 0;
    rl_value limit;
    return delete_all(s, RL_SQL_SWEEP_SESSIONS, &limit, 0, &gone, err);
}

/* Items whose worker was lost at their last attempt, and that no other worker has taken since. */
static rowlock_status find_used_up(sweep *s, uint64_t after, size_t size, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(s->queue), rl_u64(s->dead_items_us), rl_u64(after),
                               rl_u64(size)};
    return find_names(s, RL_SQL_SWEEP_USED_UP, values, err);
}

static rowlock_status delete_used_up(sweep *s, rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    const rl_value values[] = {rl_text(s->batch.json)};
    rl_done gone = {0};
    RL_TRY(rl_no_effect(rl_run(conn, RL_SQL_SWEEP_USED_UP_DELETE, values, io, &gone, err), err));
    s->batch.count = (size_t)gone.rows;
    return ROWLOCK_OK;
}

static void keep_queue(void *data, const rl_cell *cells)
{
    *(uint64_t *)data = cells[0].u64;
}

/* Items of queues that are dead, where that is asked for. */
static rowlock_status sweep_items(sweep *s, const rowlock_sweep_options *options,
                                  rowlock_error *err)
{
    static const part used_up = {.find = find_used_up, .work = delete_used_up};
    if (options->dead_items_ms <= 0)
        return ROWLOCK_OK;
    s->dead_items_us = (uint64_t)options->dead_items_ms * 1000;
    for (;;) {
        rl_value values[] = {rl_u64(s->queue), rl_u64(s->dead_items_us), rl_u64(0)};
        bool found = false;
        RL_TRY(rl_client_read(s->client, s->budget, RL_SQL_SWEEP_NEXT_QUEUE, values, keep_queue,
                              &s->queue, &found, err));
        if (!found || s->queue == 0)
            return ROWLOCK_OK;
        values[0] = rl_u64(s->queue);
        RL_TRY(delete_all(s, RL_SQL_SWEEP_DEAD_ITEMS, values, 2, &s->done.dead_items, err));
        RL_TRY(in_batches(s, &used_up, &s->done.dead_items, err));
    }
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

static void keep_dead(void *data, const rl_cell *cells)
{
    dead *row = data;
    row->id = cells[0].u64;
    row->version = cells[2].u64;
    row->held_us = cells[5].i64;
    snprintf(row->name, sizeof row->name, "%s", cells[1].text);
    snprintf(row->owner, sizeof row->owner, "%s", cells[3].text);
    snprintf(row->label, sizeof row->label, "%s", cells[4].text);
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

static rowlock_status free_row(sweep *s, const dead *row, rowlock_error *err)
{
    bool freed = false;
    rowlock_status status =
        rl_row_expire(s->client, s->budget, row->id, row->version, row->owner, &freed, err);
    /* A fenced transaction, perhaps. */
    if (left_to_others(status))
        return ROWLOCK_OK;
    RL_TRY(status);
    if (freed) {
        s->done.expired++;
        record_expired(s->client, row);
    }
    return ROWLOCK_OK;
}

/* One by one: each takes two connections, and there are few. */
static rowlock_status free_rows(sweep *s, rowlock_error *err)
{
    dead row = {0};
    for (;;) {
        const rl_value values[] = {rl_u64(row.id)};
        bool found = false;
        RL_TRY(rl_client_read(s->client, s->budget, RL_SQL_SWEEP_PUBLISHED, values, keep_dead, &row,
                              &found, err));
        if (!found)
            return ROWLOCK_OK;
        RL_TRY(free_row(s, &row, err));
    }
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
        RL_TRY(
            rl_client_run(s->client, s->budget, RL_SQL_SWEEP_EVENTS_DELETE, values, &deleted, err));
        s->done.events += deleted.rows;
        *size = rl_sweep_pace(asked, (size_t)deleted.rows, rl_now_us() - start);
        if (deleted.rows < asked)
            return ROWLOCK_OK;
    }
}

/* `newest`: the statement that says up to which; by age it is one of the oldest, and asked again.
 */
static rowlock_status forget(sweep *s, rl_sql_id newest, const rl_value *values, size_t *size,
                             rowlock_error *err)
{
    uint64_t upto = 0;
    do {
        bool found = false;
        upto = 0;
        RL_TRY(rl_client_read(s->client, s->budget, newest, values, keep_upto, &upto, &found, err));
        if (upto > 0)
            RL_TRY(forget_upto(s, upto, size, err));
    } while (upto > 0 && newest == RL_SQL_SWEEP_EVENTS_BEFORE);
    return ROWLOCK_OK;
}

static rowlock_status bound_history(sweep *s, const rowlock_sweep_options *options,
                                    rowlock_error *err)
{
    const rl_value older[] = {rl_u64((uint64_t)options->history_ms * 1000), rl_u64(BATCH)};
    const rl_value beyond[] = {rl_u64(options->history_rows)};
    size_t size = PACE_FIRST;
    rowlock_status status = ROWLOCK_OK;
    if (options->history_ms > 0)
        status = forget(s, RL_SQL_SWEEP_EVENTS_BEFORE, older, &size, err);
    if (status == ROWLOCK_OK)
        status = forget(s, RL_SQL_SWEEP_EVENTS_BEYOND, beyond, &size, err);
    return left_to_others(status) ? ROWLOCK_OK : status;
}

/* ----------------------------------------------------------------------------- purge */

static rowlock_status find_unused(sweep *s, uint64_t after, size_t size, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(after), rl_u64(s->unused_us), rl_u64(size)};
    return find_names(s, RL_SQL_PURGE_CANDIDATES, values, err);
}

static rowlock_status raise_floor(const sweep *s, rl_conn *conn, const rl_io *io,
                                  rowlock_error *err)
{
    const rl_value values[] = {rl_u64(s->batch.count ? s->batch.highest : 0)};
    rl_done done = {0};
    RL_TRY(rl_run(conn, RL_SQL_PURGE_FLOOR_RAISE, values, io, &done, err));
    if (done.rows > 0)
        return ROWLOCK_OK;
    return rl_fail(
        err, ROWLOCK_DAMAGED,
        "the table version_floor has lost its row; INSERT (1, the highest version ever used)");
}

/* The floor is raised, and that is committed, before a name goes. */
static rowlock_status purge_names(sweep *s, rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    const rl_value values[] = {rl_text(s->batch.json), rl_u64(s->unused_us)};
    size_t *count = &s->batch.count;
    rl_done done = {0};
    rl_done row_locks = {0};
    uint64_t left = *count;
    RL_TRY(raise_floor(s, conn, io, err));
    if (*count == 0)
        return ROWLOCK_OK;
    RL_TRY(rl_run(conn, RL_SQL_PURGE_COUNTS, values, io, NULL, err));
    RL_TRY(rl_run(conn, RL_SQL_PURGE_NAMES, values, io, &done, err));
    RL_TRY(rl_run(conn, RL_SQL_PURGE_ROW_LOCKS, values, io, &row_locks, err));
    if (done.rows + row_locks.rows > 0)
        RL_TRY(rl_query_number(conn, RL_SQL_PURGE_LEFT, values, io, &left, err));
    *count -= left < *count ? (size_t)left : *count;
    return ROWLOCK_OK;
}

static const part unused_names = {.find = find_unused, .work = purge_names, .always = true};

/* --------------------------------------------------------------------------- the sweep */

static rowlock_status sweep_all(sweep *s, const rowlock_sweep_options *options, rowlock_error *err)
{
    static const part leases = {.find = find_expired, .work = free_expired};
    RL_TRY(in_batches(s, &leases, &s->done.expired, err));
    RL_TRY(sweep_shared(s, err));
    RL_TRY(free_rows(s, err));
    RL_TRY(bound_history(s, options, err));
    RL_TRY(sweep_once(s, options, err));
    RL_TRY(sweep_items(s, options, err));
    RL_TRY(sweep_sessions(s, err));
    if (options->unused_ms >= 0)
        RL_TRY(in_batches(s, &unused_names, &s->done.purged, err));
    return ROWLOCK_OK;
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

static rowlock_status begin_sweep(rowlock_client *client, const rl_budget *budget, sweep **s,
                                  rowlock_error *err)
{
    *s = calloc(1, sizeof **s);
    if (!*s)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    (*s)->client = client;
    (*s)->budget = budget;
    return ROWLOCK_OK;
}

rowlock_status rl_sweep(rowlock_client *client, const rowlock_sweep_options *given,
                        rowlock_sweep_result *result, rowlock_error *err)
{
    rowlock_sweep_options options = *given;
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    sweep *s = NULL;
    rl_sweep_fill_in(&options);
    RL_TRY(begin_sweep(client, &budget, &s, err));
    if (options.unused_ms > 0)
        s->unused_us = (uint64_t)options.unused_ms * 1000;
    rowlock_status status = sweep_all(s, &options, err);
    if (status == ROWLOCK_OK && result)
        *result = s->done;
    free(s);
    return status;
}

/* ------------------------------------------------------------------------- one name */

typedef struct unused {
    uint64_t id;
    char kind[17];
    uint64_t version;
    bool shared; /* readers had it last */
} unused;

static void keep_unused(void *data, const rl_cell *cells)
{
    unused *row = data;
    row->id = cells[0].u64;
    snprintf(row->kind, sizeof row->kind, "%s", cells[2].text);
    row->version = cells[4].u64;
    row->shared = strcmp(cells[3].text, "shared") == 0;
}

/* NOT_FOUND; but DENIED for a user that could not remove names either, so that a program can find
 * that out before it makes names. The server checks rights when it prepares. */
static rowlock_status not_there(rowlock_client *client, const rl_budget *budget, const char *name,
                                rowlock_error *err)
{
    static const rl_sql_id needed[] = {RL_SQL_PURGE_FLOOR_RAISE, RL_SQL_PURGE_COUNTS,
                                       RL_SQL_PURGE_NAMES, RL_SQL_PURGE_ROW_LOCKS};
    rl_io io = rl_budget_quick_io(budget);
    RL_BORROWED conn = NULL;
    rowlock_status status = rl_pool_take(&client->pool, NULL, &io, &conn, err);
    if (status == ROWLOCK_OK)
        status = rl_prepare_all(conn, needed, sizeof needed / sizeof needed[0], &io, err);
    return status == ROWLOCK_DENIED
               ? status
               : rl_fail(err, ROWLOCK_NOT_FOUND, "there is no lock '%s'", name);
}

static rowlock_status purge_id(sweep *s, uint64_t id, rowlock_error *err)
{
    RL_TRY(find_unused(s, id - 1, 1, err));
    if (s->batch.count == 0 || s->batch.last != id)
        return ROWLOCK_BUSY;
    RL_TRY(work_on_batch(s, &unused_names, err));
    return s->batch.count > 0 ? ROWLOCK_OK : ROWLOCK_BUSY;
}

static rowlock_status purge_each(rowlock_client *client, const rl_list *slots, rowlock_error *err)
{
    for (size_t i = 0; i < slots->count; i++) {
        rowlock_status status = rl_purge(client, rl_slot_at(slots, i), err);
        if (status != ROWLOCK_OK && status != ROWLOCK_NOT_FOUND)
            return status;
    }
    return ROWLOCK_OK;
}

/* Its slots before it: while one of them is held the name stays. */
static rowlock_status purge_slots(rowlock_client *client, const rl_budget *budget, const char *name,
                                  const unused *row, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(row->id)};
    rl_list *slots = NULL;
    RL_TRY(rl_slots_there(client, name, true, &slots, err));
    rowlock_status status = purge_each(client, slots, err);
    rl_list_free(slots);
    RL_TRY(status);
    rl_resource_forget(client, name);
    return rl_client_run(client, budget, RL_SQL_PURGE_SLOTS, values, NULL, err);
}

rowlock_status rl_purge(rowlock_client *client, const char *name, rowlock_error *err)
{
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    const rl_value values[] = {rl_text(name), rl_u64(1)};
    const rl_kind *kind = NULL;
    unused row = {0};
    bool found = false;
    sweep *s = NULL;
    RL_TRY(
        rl_client_read(client, &budget, RL_SQL_LIST_NAME, values, keep_unused, &row, &found, err));
    if (!found)
        return not_there(client, &budget, name, err);
    RL_TRY(rl_kind_find(row.kind, name, &kind, err));
    if (strcmp(row.kind, RL_KIND_SLOTS) == 0)
        return purge_slots(client, &budget, name, &row, err);
    if (strcmp(row.kind, RL_KIND_QUEUE) == 0)
        return rl_queue_drop(client, &budget, name, row.id, err);
    if (row.shared)
        RL_TRY(rl_shared_make_free(client, &budget, name, row.id, row.version, err));
    RL_TRY(begin_sweep(client, &budget, &s, err));
    rowlock_status status = purge_id(s, row.id, err);
    free(s);
    rl_resource_forget(client, name);
    if (left_to_others(status))
        return rl_fail(err, ROWLOCK_BUSY,
                       "'%s' is in use, or was used in a period that is not over", name);
    return status;
}
