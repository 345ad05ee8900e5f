/*
 * How a worker ends an item. Each way is one statement, which names id, token and owner. An item
 * that leaves its group is ended in a transaction, in which the group's next one becomes its head.
 *
 * After a lost reply the row shows what became of the statement: as long as the lease runs, nobody
 * but this worker changes it.
 */
#include "kind/queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "engine/settle.h"
#include "wait/backoff.h"

void rl_item_free(rowlock_item *item)
{
    if (!item)
        return;
    int fd = atomic_load(&item->held.event_fd);
    if (fd >= 0)
        close(fd);
    free(item);
}

/* One call. */
typedef struct ending {
    rl_queue_work work; /* first */
    const rowlock_item *item;
    rl_ending how;
    rl_sql_id statement;
    rl_value values[5];
    int64_t deadline_us; /* until then no other worker has it; 0: it was lost */
} ending;

static rowlock_status lost(const ending *e, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_LOST,
                   "item %" PRIu64 " of '%s' is not this worker's any more (token %" PRIu64 ")",
                   e->item->held.resource_id, e->item->queue, e->item->held.version);
}

/* ---------------------------------------------------------------------------- statements */

static void fill_in(ending *e, int64_t delay_us, const char *reason)
{
    const rl_held *held = &e->item->held;
    size_t i = 0;
    switch (e->how) {
    case RL_END_DONE:
        e->statement = RL_SQL_QUEUE_DONE;
        break;
    case RL_END_RETRY:
        e->statement = RL_SQL_QUEUE_RETRY;
        e->values[i++] = rl_u64((uint64_t)delay_us);
        e->values[i++] = rl_text(reason);
        break;
    case RL_END_RELEASE:
        e->statement = RL_SQL_QUEUE_RELEASE;
        break;
    case RL_END_BURY:
    case RL_END_USED_UP:
        e->work.hurried = e->how == RL_END_USED_UP;
        e->statement = RL_SQL_QUEUE_BURY;
        e->values[i++] = rl_text(reason);
        break;
    }
    e->values[i++] = rl_u64(held->resource_id);
    e->values[i++] = rl_u64(held->version);
    e->values[i++] = rl_text(e->item->owner);
}

static bool buries(const ending *e)
{
    return e->how == RL_END_BURY || e->how == RL_END_USED_UP;
}

static bool leaves_group(const ending *e)
{
    return *e->item->group && (e->how == RL_END_DONE || buries(e));
}

static rowlock_status end_in_group(void *data, rl_conn *conn, rowlock_error *err)
{
    const ending *e = data;
    rl_done done = {0};
    RL_TRY(rl_queue_change(&e->work, conn, e->statement, e->values, &done, err));
    if (done.rows == 0)
        return lost(e, err);
    return rl_queue_leave_group(&e->work, conn, e->item->queue_id, e->item->group,
                                e->item->held.resource_id, err);
}

static rowlock_status end_alone(ending *e, rowlock_error *err)
{
    rl_done done = {0};
    RL_TRY(rl_queue_change_alone(&e->work, e->statement, e->values, &done, err));
    return done.rows > 0 ? ROWLOCK_OK : lost(e, err);
}

/* -------------------------------------------------------------------- after a lost reply */

typedef struct row_state {
    bool found;
    bool ours; /* as it was before */
    bool dead;
    uint64_t token;
} row_state;

static void keep_state(void *data, const rl_cell *cells)
{
    *(row_state *)data = (row_state){.found = cells[0].u64 != 0,
                                     .ours = cells[1].u64 != 0,
                                     .dead = strcmp(cells[2].text, "dead") == 0,
                                     .token = cells[3].u64};
}

/* Is the row as this call would have made it? */
static bool is_ended(const ending *e, const row_state *row)
{
    if (e->how == RL_END_DONE)
        return !row->found;
    const bool untaken = row->found && row->token == e->item->held.version && !row->ours;
    return untaken && row->dead == buries(e);
}

static rowlock_status look(const ending *e, row_state *row, rowlock_error *err)
{
    const rl_held *held = &e->item->held;
    const rl_value values[] = {rl_u64(held->version), rl_text(e->item->owner),
                               rl_u64(held->resource_id)};
    bool answered = false;
    RL_TRY(rl_client_read(e->work.client, e->work.budget, RL_SQL_QUEUE_STATE, values, keep_state,
                          row, &answered, err));
    if (!answered)
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "somebody stopped the statement that looks");
    return ROWLOCK_OK;
}

/* A statement that matched nothing may have been stopped without an error (MariaDB). BUSY: it was,
 * the item is still this worker's. LOST: it is not. */
static rowlock_status confirm_lost(const ending *e, rowlock_error *err)
{
    row_state row = {.found = false};
    RL_TRY(look(e, &row, err));
    if (row.ours)
        return rl_fail(err, ROWLOCK_BUSY, "item %" PRIu64 " was not ended",
                       e->item->held.resource_id);
    return lost(e, err);
}

/* OK: it has ended. BUSY: it has not, and is still this worker's. */
static rowlock_status settle(ending *e, rowlock_error *err)
{
    const rl_held *held = &e->item->held;
    row_state row = {.found = false};
    RL_TRY(rl_settle(e->work.client, e->work.budget, &e->work.request, err));
    RL_TRY(look(e, &row, err));
    const bool in_time = rl_now_us() < e->deadline_us;
    e->work.open = false;
    if (row.ours)
        return rl_fail(err, ROWLOCK_BUSY, "item %" PRIu64 " was not ended", held->resource_id);
    if (is_ended(e, &row) && (row.found || in_time))
        return ROWLOCK_OK;
    if (e->how == RL_END_DONE && row.found)
        return lost(e, err);
    if (e->how != RL_END_DONE && in_time) /* ended, and delivered again since */
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNKNOWN,
                   "the reply was lost, and the lease is over since: item %" PRIu64
                   " of '%s' was ended by this worker, or by a later one",
                   held->resource_id, e->item->queue);
}

/* ------------------------------------------------------------------------------ the call */

static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    static const rl_sql_id needed[] = {RL_SQL_QUEUE_DONE, RL_SQL_QUEUE_BURY, RL_QUEUE_LEAVE_GROUP};
    ending *e = data;
    (void)hint_us;
    if (e->work.open) {
        rowlock_status status = settle(e, err);
        if (status != ROWLOCK_BUSY)
            return status;
    }
    rowlock_status status =
        leaves_group(e) ? rl_queue_transact(&e->work, needed, sizeof needed / sizeof needed[0],
                                            end_in_group, e, err)
                        : end_alone(e, err);
    return status == ROWLOCK_LOST ? confirm_lost(e, err) : status;
}

static rowlock_status end(ending *e, rowlock_error *err)
{
    const rl_attempts how = {.budget = e->work.budget,
                             .outage_us = e->work.client->outage_us,
                             .backoff = RL_BACKOFF_USUAL,
                             .unsettled = rl_queue_unsettled};
    rowlock_status status = rl_attempt_until(&how, attempt, e, err);
    if (status != ROWLOCK_OK && e->work.open)
        return rl_fail(err, ROWLOCK_UNKNOWN,
                       "the reply was lost and the server could not be asked again: item %" PRIu64
                       " of '%s' may have been ended",
                       e->item->held.resource_id, e->item->queue);
    return rl_queue_in_use(&e->work, status, err);
}

static ending ending_of(const rowlock_item *item, const rl_budget *budget, rl_ending how)
{
    return (ending){.work = {.client = item->client, .budget = budget, .queue = item->queue},
                    .item = item,
                    .how = how,
                    .deadline_us = atomic_load(&item->held.deadline_us)};
}

rowlock_status rl_item_end(const rowlock_item *item, const rl_budget *budget, rl_ending how,
                           int64_t delay_us, const char *reason, rowlock_error *err)
{
    ending e = ending_of(item, budget, how);
    fill_in(&e, delay_us, reason);
    return end(&e, err);
}

/* --------------------------------------------------------------------------- many of them */

typedef struct many {
    rl_queue_work work; /* first */
    rowlock_item *const *items;
    size_t count;
    rl_buffer json;
    rowlock_status *listed; /* of each: OK if it is among those that end together */
    size_t list_count;
} many;

/* One that was lost, or leaves its group, is not among those that end together. */
static bool is_to_be_listed(const rowlock_item *item)
{
    return !*item->group && !rl_item_lost(item);
}

static bool list_items(many *m)
{
    for (size_t i = 0; i < m->count; i++) {
        const rowlock_item *item = m->items[i];
        m->listed[i] = is_to_be_listed(item) ? ROWLOCK_OK : ROWLOCK_BUSY;
        if (m->listed[i] != ROWLOCK_OK)
            continue;
        rl_buffer_puts(&m->json, m->list_count++ ? ",[" : "[[");
        rl_json_u64(&m->json, item->held.resource_id);
        rl_buffer_puts(&m->json, ",");
        rl_json_u64(&m->json, item->held.version);
        rl_buffer_puts(&m->json, ",0,");
        rl_json_string(&m->json, item->owner);
        rl_buffer_puts(&m->json, "]");
    }
    rl_buffer_puts(&m->json, "]");
    return !m->json.failed;
}

/* Ends all of those that are listed, or none. */
static rowlock_status done_steps(void *data, rl_conn *conn, rowlock_error *err)
{
    const many *m = data;
    const rl_value values[] = {rl_text_n(m->json.text, m->json.length)};
    rl_done done = {0};
    RL_TRY(rl_queue_change(&m->work, conn, RL_SQL_QUEUE_DONE_BATCH, values, &done, err));
    return done.rows == m->list_count ? ROWLOCK_OK : ROWLOCK_LOST;
}

/* OK: all that are listed are done. Else each is to be ended by itself; after a lost reply that
 * finds out whether it is done already. */
static rowlock_status done_together(many *m, rowlock_error *err)
{
    static const rl_sql_id needed[] = {RL_SQL_QUEUE_DONE_BATCH};
    if (!list_items(m))
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    if (m->list_count < 2)
        return ROWLOCK_LOST;
    return rl_queue_transact(&m->work, needed, 1, done_steps, m, err);
}

static rowlock_status done_one(const many *m, const rowlock_item *item, bool listed,
                               rowlock_error *err)
{
    ending e = ending_of(item, m->work.budget, RL_END_DONE);
    e.work.request = m->work.request;
    e.work.open = m->work.open && listed;
    if (rl_item_lost(item) && !e.work.open)
        return lost(&e, err);
    fill_in(&e, 0, "");
    return end(&e, err);
}

/* The first that is worse than OK says why; the others go on. */
rowlock_status rl_items_done(rowlock_item *const *items, size_t count, const rl_budget *budget,
                             rowlock_status *statuses, rowlock_error *err)
{
    many m = {.work = {.client = items[0]->client, .budget = budget, .queue = items[0]->queue},
              .items = items,
              .count = count,
              .listed = statuses};
    rowlock_status worst = ROWLOCK_OK;
    const bool are_done = done_together(&m, NULL) == ROWLOCK_OK;
    for (size_t i = 0; i < count; i++) {
        const bool listed = statuses[i] == ROWLOCK_OK;
        if (!are_done || !listed)
            statuses[i] = done_one(&m, items[i], listed, worst == ROWLOCK_OK ? err : NULL);
        if (worst == ROWLOCK_OK)
            worst = statuses[i];
    }
    rl_buffer_free(&m.json);
    return worst;
}
