/*
 * Taking items, and keeping them.
 *
 *   take:  in a transaction the next rows are locked in the order of the index, past what others
 *          have locked; then they are written, and committed.
 *   wait:  in line (kind/await.h); the first one looks when the next item is ready, takes it, and
 *          lets the next in line go on. After some looks in vain it has the server look, many
 *          times in one statement (queue_watch): each look costs a third then.
 *
 * An item that was delivered as often as it may be is buried by the worker that gets it once more.
 */
#include "kind/queue.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "engine/settle.h"
#include "kind/await.h"

#define PAUSE_FIRST_US 1000 /* of the first in line, between two looks, from this ... */
#define PAUSE_MOST_US  6000 /* ... to this: one waiter looks, however many wait */
#define LOOKS_AHEAD    100  /* one in so many looks is queue_look, not queue_peek */
#define LOOKS_SINGLE   16   /* looks in vain before it has the server look ... */
#define LOOKS_WATCHED  40   /* ... so often in one statement */
#define LOOK_SLOW_US   4000 /* looks that take so long (an old snapshot) ... */
#define LOOK_PART      10   /* ... may take one part in so many of the time */
#define SKIPPED_US     500  /* look again: what is ready is locked by a worker that takes it */

/* ------------------------------------------------------------------------- a held item */

bool rl_item_lost(const rowlock_item *item)
{
    /* See rl_hold_lost(). */
    return atomic_load(&item->held.lost) || rl_held_over((rl_held *)(uintptr_t)&item->held);
}

void rl_item_tell_lost(rl_held *held, const char *reason)
{
    rowlock_item *item = (rowlock_item *)held;
    rl_log_line(&item->client->log, ROWLOCK_LOG_WARNING, "item %" PRIu64 " of '%s' is lost: %s",
                item->held.resource_id, item->queue, reason);
    if (item->on_lost)
        item->on_lost(item->on_lost_data, item, reason);
}

/* One block: the item, and its texts. */
static rowlock_item *new_item(rowlock_client *client, const char *queue, const rl_cell *cells)
{
    const char *key = cells[5].text[0] == '=' ? cells[5].text + 1 : "";
    const size_t queue_size = strlen(queue) + 1;
    const size_t key_size = strlen(key) + 1;
    const size_t group_size = cells[6].length + 1;
    const size_t payload_size = cells[7].length + 1;
    rowlock_item *item =
        calloc(1, sizeof *item + queue_size + key_size + group_size + payload_size);
    if (!item)
        return NULL;
    /* The payload first: what it holds may want to be aligned. */
    char *at = (char *)(item + 1);
    item->client = client;
    item->payload = memcpy(at, cells[7].text, payload_size);
    item->queue = memcpy(at += payload_size, queue, queue_size);
    item->key = memcpy(at += queue_size, key, key_size);
    item->group = memcpy(at + key_size, cells[6].text, group_size);
    item->size = cells[7].length;
    item->ready_us = (int64_t)cells[8].u64;
    item->priority = ROWLOCK_PRIORITY_MAX - (unsigned)cells[1].u64;
    item->attempt = (unsigned)cells[3].u64 + 1;
    item->attempts = (unsigned)cells[4].u64;
    item->held.resource_id = cells[0].u64;
    item->held.version = cells[2].u64 + 1;
    item->held.kept = RL_KEPT_ITEM;
    item->held.owner = item->owner;
    item->held.end_us = item->held.long_at_us = item->held.look_at_us = RL_NEVER;
    item->held.on_lost = rl_item_tell_lost;
    atomic_store(&item->held.event_fd, -1);
    return item;
}

static void begin_item(rowlock_item *item)
{
    rowlock_client *client = item->client;
    pthread_mutex_lock(&client->mutex);
    item->next = client->items;
    if (client->items)
        client->items->previous = item;
    client->items = item;
    pthread_mutex_unlock(&client->mutex);
    rl_keeper_add(&client->keeper, &item->held);
}

void rl_item_leave(rowlock_item *item)
{
    rowlock_client *client = item->client;
    (void)rl_keeper_remove(&client->keeper, &item->held);
    pthread_mutex_lock(&client->mutex);
    if (item->previous)
        item->previous->next = item->next;
    else if (client->items == item)
        client->items = item->next;
    if (item->next)
        item->next->previous = item->previous;
    item->next = item->previous = NULL;
    pthread_mutex_unlock(&client->mutex);
}

rowlock_status rl_item_extend(rowlock_item *item, int64_t ttl_us, rowlock_error *err)
{
    rowlock_client *client = item->client;
    const rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    const rl_queue_work work = {.queue = item->queue};
    const rl_value values[] = {rl_u64((uint64_t)ttl_us), rl_u64(item->held.resource_id),
                               rl_u64(item->held.version), rl_text(item->owner)};
    rl_trace trace = {0};
    rl_done done = {0};
    rowlock_status status = ROWLOCK_OK;
    /* Twice, as rl_run_match(). */
    for (int i = 0; i < 2 && status == ROWLOCK_OK && done.rows == 0; i++)
        status = rl_client_change(client, &budget, NULL, true, RL_SQL_QUEUE_EXTEND, values, &trace,
                                  &done, err);
    if (status != ROWLOCK_OK)
        return rl_queue_in_use(&work, status, err);
    if (done.rows == 0)
        rl_keeper_lose(&client->keeper, &item->held);
    else if (rl_keeper_extend(&client->keeper, &item->held, trace.sent_us, ttl_us))
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_LOST, "item %" PRIu64 " of '%s' is lost", item->held.resource_id,
                   item->queue);
}

/* ------------------------------------------------------------------------------- a take */

/* One call. */
typedef struct taking {
    rl_queue_work work; /* first */
    const rowlock_take_options *options;
    int64_t ttl_us;
    uint64_t queue_id;
    rl_await await;
    bool looks;      /* before it takes: nothing was ready the last time */
    unsigned single; /* looks since queue_watch found something */
    unsigned unseen; /* looks since queue_look, which sees more */
    int64_t look_us; /* how long the last look took */
    int64_t sent_us;
    size_t most;
    rowlock_item **items; /* room for `most` */
    size_t count;
    bool buried; /* what it took last was used up, or some of it */
    char owner[ROWLOCK_OWNER_MAX + 1];
} taking;

static void drop_items(taking *t)
{
    while (t->count > 0)
        rl_item_free(t->items[--t->count]);
}

static rowlock_status nothing_ready(const taking *t, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_BUSY, "'%s' has no item that is ready", t->work.queue);
}

static rowlock_status lock_rows(taking *t, rl_conn *conn, rl_sql_id id, const rl_value *values,
                                rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(t->work.budget);
    rl_rows rows;
    drop_items(t);
    RL_TRY(rl_no_effect(rl_query(conn, id, values, &io, &rows, err), err));
    while (rl_next(&rows) && t->count < t->most) {
        rowlock_item *item = new_item(t->work.client, t->work.queue, rows.cells);
        if (!item)
            return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
        t->items[t->count++] = item;
    }
    return t->count > 0 ? ROWLOCK_OK : nothing_ready(t, err);
}

static rowlock_status lock_any(taking *t, rl_conn *conn, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(t->queue_id), rl_u64(t->most)};
    const int64_t start_us = rl_now_us();
    rowlock_status status = lock_rows(t, conn, RL_SQL_QUEUE_READY, values, err);
    rl_cursor_was_whole(t->work.client, t->queue_id, rl_now_us() - start_us);
    return status;
}

static rowlock_status lock_next(taking *t, rl_conn *conn, rowlock_error *err)
{
    rl_cursor from;
    if (!rl_cursor_get(t->work.client, t->queue_id, &from))
        return lock_any(t, conn, err);
    const rl_value values[] = {rl_u64(t->queue_id), rl_u64(from.lane),
                               rl_u64((uint64_t)from.from_us), rl_u64(t->most)};
    rowlock_status status = lock_rows(t, conn, RL_SQL_QUEUE_READY_FROM, values, err);
    if (status == ROWLOCK_BUSY || (status == ROWLOCK_OK && t->count < t->most))
        return lock_any(t, conn, err);
    return status;
}

/* [[id, token, ttl, owner], ...]; the token less `before`. */
static bool items_json(rl_buffer *json, const taking *t, uint64_t before)
{
    for (size_t i = 0; i < t->count; i++) {
        rl_buffer_puts(json, i ? ",[" : "[[");
        rl_json_u64(json, t->items[i]->held.resource_id);
        rl_buffer_puts(json, ",");
        rl_json_u64(json, t->items[i]->held.version - before);
        rl_buffer_puts(json, ",");
        rl_json_i64(json, t->ttl_us);
        rl_buffer_puts(json, ",");
        rl_json_string(json, t->owner);
        rl_buffer_puts(json, "]");
    }
    rl_buffer_puts(json, "]");
    return !json->failed;
}

static rowlock_status write_one(const taking *t, rl_conn *conn, rl_done *done, rowlock_error *err)
{
    const rl_held *held = &t->items[0]->held;
    const rl_value values[] = {rl_u64((uint64_t)t->ttl_us), rl_text(t->owner),
                               rl_text(t->work.client->label), rl_u64(held->resource_id),
                               rl_u64(held->version - 1)};
    return rl_queue_change(&t->work, conn, RL_SQL_QUEUE_TAKE, values, done, err);
}

static rowlock_status write_all(const taking *t, rl_conn *conn, rl_done *done, rowlock_error *err)
{
    RL_CLEANUP(rl_buffer_free) rl_buffer json = {0};
    if (!items_json(&json, t, 1))
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    const rl_value values[] = {rl_text_n(json.text, json.length), rl_u64((uint64_t)t->ttl_us),
                               rl_text(t->owner), rl_text(t->work.client->label)};
    return rl_queue_change(&t->work, conn, RL_SQL_QUEUE_TAKE_BATCH, values, done, err);
}

static rowlock_status take_steps(void *data, rl_conn *conn, rowlock_error *err)
{
    taking *t = data;
    rl_done done = {0};
    RL_TRY(lock_next(t, conn, err));
    t->sent_us = rl_now_us();
    RL_TRY(t->count == 1 ? write_one(t, conn, &done, err) : write_all(t, conn, &done, err));
    if (done.rows == t->count)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNAVAILABLE,
                   "'%s': nothing was taken, since a statement was stopped", t->work.queue);
}

/* --------------------------------------------------------------------- it is the worker's */

static void move_up(taking *t, size_t i)
{
    t->count--;
    for (; i < t->count; i++)
        t->items[i] = t->items[i + 1];
}

/* The worker is told of those that it has in time; the others are delivered again. */
static bool is_in_time(const taking *t, rowlock_item *item)
{
    item->queue_id = t->queue_id;
    memcpy(item->owner, t->owner, sizeof item->owner);
    item->on_lost = t->options->on_lost;
    item->on_lost_data = t->options->on_lost_data;
    item->held.identity = t->work.request.identity;
    item->held.ttl_us = t->ttl_us;
    rl_held_start(&item->held, t->sent_us, t->ttl_us);
    return !rl_item_lost(item) &&
           t->work.request.identity == atomic_load(&t->work.client->pool.identity);
}

/*
 * Makes the item dead. Which worker lost it, and why, is not known any more. If this fails, also
 * since somebody has locked its group, the next worker does it.
 */
static void bury(const rl_budget *call, rowlock_item *item)
{
    const int64_t most_ms = call->try_once ? call->limit_us / 1000 : rl_budget_left_ms(call);
    const rl_budget budget = rl_budget_start(0, most_ms, call->cancel);
    char reason[80];
    snprintf(reason, sizeof reason, "its worker was lost, at the last of %u attempts",
             item->attempts);
    (void)!rl_item_end(item, &budget, RL_END_USED_UP, 0, reason, NULL);
    rl_item_free(item);
}

/* Items whose attempts are used up are made dead last, when the keeper renews the others. */
static rowlock_status begin_items(taking *t, int64_t *hint_us, rowlock_error *err)
{
    rowlock_item *used_up = NULL;
    for (size_t i = t->count; i-- > 0;) {
        rowlock_item *item = t->items[i];
        const bool in_time = is_in_time(t, item);
        if (in_time && item->attempt <= item->attempts)
            continue;
        move_up(t, i);
        if (!in_time) {
            rl_item_free(item);
            continue;
        }
        item->next = used_up;
        used_up = item;
    }
    for (size_t i = 0; i < t->count; i++)
        begin_item(t->items[i]);
    t->buried = used_up != NULL;
    for (rowlock_item *next; used_up; used_up = next) {
        next = used_up->next;
        bury(t->work.budget, used_up);
    }
    if (t->count > 0)
        return ROWLOCK_OK;
    *hint_us = RL_AT_ONCE;
    return nothing_ready(t, err);
}

static rowlock_status take_next(taking *t, int64_t *hint_us, rowlock_error *err)
{
    static const rl_sql_id needed[] = {RL_SQL_QUEUE_READY, RL_SQL_QUEUE_READY_FROM,
                                       RL_SQL_QUEUE_TAKE, RL_SQL_QUEUE_TAKE_BATCH};
    const size_t count = t->most > 1 ? 4 : 3;
    rowlock_status status = rl_queue_transact(&t->work, needed, count, take_steps, t, err);
    if (status == ROWLOCK_DEADLOCK) { /* something may be ready all the same */
        *hint_us = RL_AT_ONCE;
        return nothing_ready(t, err);
    }
    RL_TRY(status);
    const rowlock_item *last = t->items[t->count - 1];
    rl_cursor_move(t->work.client, t->queue_id, ROWLOCK_PRIORITY_MAX - last->priority,
                   last->ready_us);
    return begin_items(t, hint_us, err);
}

/* Past those that are used up, however many there are. */
static rowlock_status take(taking *t, int64_t *hint_us, rowlock_error *err)
{
    const rl_budget *budget = t->work.budget;
    rowlock_status status = ROWLOCK_OK;
    do {
        *hint_us = 0;
        t->buried = false;
        status = take_next(t, hint_us, err);
    } while (t->buried && t->count == 0 && !rl_budget_cancelled(budget) &&
             (budget->try_once || !rl_budget_spent(budget)));
    return status;
}

/* The COMMIT was not answered: which of its items are ours? All of them, or none; or some, if it is
 * so long ago that the others have been delivered again. */
static rowlock_status settle(taking *t, rowlock_error *err)
{
    rowlock_client *client = t->work.client;
    RL_CLEANUP(rl_buffer_free) rl_buffer json = {0};
    rl_io io = rl_budget_quick_io(t->work.budget);
    rl_rows rows;
    size_t answers = 0;
    RL_TRY(rl_settle(client, t->work.budget, &t->work.request, err));
    if (!items_json(&json, t, 0))
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    const rl_value values[] = {rl_text_n(json.text, json.length)};
    RL_BORROWED conn = NULL;
    RL_TRY(rl_pool_take(&client->pool, NULL, &io, &conn, err));
    RL_TRY(rl_no_effect(rl_query(conn, RL_SQL_QUEUE_RENEWED, values, &io, &rows, err), err));
    for (; rl_next(&rows); answers++)
        if (rows.cells[1].u64 == 0 && rows.cells[0].u64 >= 1 && rows.cells[0].u64 <= t->count) {
            rl_item_free(t->items[rows.cells[0].u64 - 1]);
            t->items[rows.cells[0].u64 - 1] = NULL;
        }
    const size_t asked = t->count;
    t->count = 0;
    for (size_t i = 0; i < asked; i++)
        if (t->items[i])
            t->items[t->count++] = t->items[i];
    if (answers < asked)
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "somebody stopped the statement that looks");
    t->work.open = false;
    return ROWLOCK_OK;
}

/* ------------------------------------------------------------------------------ the wait */

static rowlock_status purged(const taking *t, int64_t *hint_us, rowlock_error *err)
{
    rl_resource_forget(t->work.client, t->work.queue);
    *hint_us = RL_AT_ONCE;
    return rl_fail(err, ROWLOCK_BUSY, "'%s' was purged just now", t->work.queue);
}

/* Two slow looks in succession: an old snapshot keeps the index entries of what was taken
 * (queue_cursor.c). A busy machine slows down only one of them. */
static void note_look(taking *t, int64_t took_us, int64_t *hint_us)
{
    const int64_t usual_us = took_us < t->look_us ? took_us : t->look_us;
    t->look_us = took_us;
    if (usual_us >= LOOK_SLOW_US)
        *hint_us = RL_NOT_BEFORE(usual_us * LOOK_PART);
}

/* What QUEUE_LOOK says; of QUEUE_PEEK it is `found` alone. */
typedef struct seen {
    bool found;
    char kind[32];
    bool some;       /* alive, ready or not */
    int64_t next_us; /* until the next one is ready */
} seen;

static void keep_seen(void *data, const rl_cell *cells)
{
    seen *s = data;
    snprintf(s->kind, sizeof s->kind, "%s", cells[0].text);
    s->some = cells[1].u64 != 0;
    s->next_us = cells[2].i64;
}

/* If it is our turn, the look is made on the connection that has the bell, where the others see
 * that we are awake. (The rows are read here: they end with the connection, which may be closed
 * when it is given back.) */
static rowlock_status look_on(const taking *t, rl_conn *conn, rl_sql_id id, const rl_value *values,
                              seen *s, rowlock_error *err)
{
    rl_rows rows;
    rl_io io = rl_budget_quick_io(t->work.budget);
    RL_TRY(rl_no_effect(rl_prepare(conn, id, &io, err), err));
    if (id == RL_SQL_QUEUE_WATCH)
        RL_TRY(rl_no_effect(rl_run_text(conn, RL_SQL_NEXT_UNCOMMITTED, NULL, &io, err), err));
    RL_TRY(rl_no_effect(rl_query_one(conn, id, values, &io, &s->found, &rows, err), err));
    if (s->found && id == RL_SQL_QUEUE_LOOK)
        keep_seen(s, rows.cells);
    return ROWLOCK_OK;
}

static rowlock_status look_by(taking *t, rl_sql_id id, const rl_value *values, seen *s,
                              rowlock_error *err)
{
    rl_conn *conn = NULL;
    RL_TRY(rl_turn_borrow(&t->await.turn, &conn, err));
    rowlock_status status = look_on(t, conn, id, values, s, err);
    rl_turn_give_back(&t->await.turn, conn);
    return status;
}

/* OK: one is ready. Else the hint is when the next one will be. */
static rowlock_status look_ahead(taking *t, int64_t *hint_us, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(t->queue_id), rl_text(t->work.queue)};
    const int64_t start_us = rl_now_us();
    seen s = {.found = false};
    t->unseen = 0;
    RL_TRY(look_by(t, RL_SQL_QUEUE_LOOK, values, &s, err));
    note_look(t, rl_now_us() - start_us, hint_us);
    if (!s.found)
        return purged(t, hint_us, err);
    if (strcmp(s.kind, RL_KIND_QUEUE) != 0)
        return rl_resource_wrong_kind(t->work.queue, s.kind, RL_KIND_QUEUE, err);
    if (s.some && s.next_us <= 0)
        return ROWLOCK_OK;
    if (s.some && *hint_us == 0)
        *hint_us = s.next_us + 1;
    return nothing_ready(t, err);
}

/* The same for a waiter that looks often; it does not see that the name was purged. */
static rowlock_status peek(taking *t, int64_t *hint_us, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(t->queue_id)};
    const int64_t start_us = rl_now_us();
    seen s = {.found = false};
    t->single++;
    t->unseen++;
    RL_TRY(look_by(t, RL_SQL_QUEUE_PEEK, values, &s, err));
    note_look(t, rl_now_us() - start_us, hint_us);
    return s.found ? ROWLOCK_OK : nothing_ready(t, err);
}

/* How many looks the server may make in one statement; 0: none, this waiter looks itself. */
static unsigned ticks_of(const taking *t)
{
    const rl_budget *budget = t->work.budget;
    const int64_t watch_us = LOOKS_WATCHED * PAUSE_MOST_US;
    const int64_t left_us =
        budget->deadline_us == RL_NEVER ? RL_NEVER : budget->deadline_us - rl_now_us();
    const bool has_time = left_us > watch_us && budget->limit_us > 4 * watch_us;
    const bool is_idle = t->single >= LOOKS_SINGLE && t->look_us < LOOK_SLOW_US;
    return is_idle && has_time && t->await.turn.conn ? LOOKS_WATCHED : 0;
}

/* It never answers OK: what it saw may not be committed. */
static rowlock_status watch(taking *t, unsigned ticks, int64_t *hint_us, rowlock_error *err)
{
    const int64_t slept_us = (int64_t)ticks * PAUSE_MOST_US;
    /* Twice as far ahead: a busy server takes longer. */
    const rl_value values[] = {rl_u64(t->queue_id), rl_u64(ticks), rl_u64(PAUSE_MOST_US),
                               rl_u64((uint64_t)slept_us * 2)};
    const int64_t start_us = rl_now_us();
    seen s = {.found = false};
    t->unseen += ticks;
    RL_TRY(look_by(t, RL_SQL_QUEUE_WATCH, values, &s, err));
    *hint_us = RL_AT_ONCE; /* it has paused already */
    if (s.found)
        t->single = 0;
    else
        note_look(t, (rl_now_us() - start_us - slept_us) / ticks, hint_us);
    return nothing_ready(t, err);
}

static rowlock_status look(taking *t, int64_t *hint_us, rowlock_error *err)
{
    if (atomic_load(&t->work.client->bells.polls) || t->unseen >= LOOKS_AHEAD)
        return look_ahead(t, hint_us, err);
    const unsigned ticks = ticks_of(t);
    return ticks ? watch(t, ticks, hint_us, err) : peek(t, hint_us, err);
}

static rowlock_status look_and_take(taking *t, int64_t *hint_us, rowlock_error *err)
{
    const bool polls = atomic_load(&t->work.client->bells.polls);
    if (t->looks)
        RL_TRY(look(t, hint_us, err));
    rowlock_status status = take(t, hint_us, err);
    if (status != ROWLOCK_BUSY || *hint_us == RL_AT_ONCE)
        return status;
    /* Nothing is ready, or others have it locked. One in line looks again in a moment anyway. */
    t->looks = true;
    if (!t->work.budget->try_once && !polls)
        return status;
    status = look_ahead(t, hint_us, err);
    if (status != ROWLOCK_OK)
        return status;
    *hint_us = polls ? SKIPPED_US : RL_AT_ONCE;
    return nothing_ready(t, err);
}

static void keep_nothing(void *data, const rl_cell *cells)
{
    (void)data;
    (void)cells;
}

/* Asked by a waiter behind the first in line: is an item ready that the first one has not taken, or
 * is this the line of a name that was purged? Where the server does not answer: yes. */
static bool keeps_back(void *data, const rl_budget *budget)
{
    const taking *t = data;
    const rl_value values[] = {rl_u64(t->queue_id), rl_text(t->work.queue)};
    bool is_calm = false;
    rowlock_status status = rl_client_read(t->work.client, budget, RL_SQL_QUEUE_CALM, values,
                                           keep_nothing, NULL, &is_calm, NULL);
    return status != ROWLOCK_OK || !is_calm;
}

/* All pauses alike: only one waiter looks, and most of what a look costs is that it is woken. */
static void bound_pause(const taking *t, int64_t *hint_us)
{
    const bool polls = atomic_load(&t->work.client->bells.polls);
    if (!polls && (*hint_us == 0 || *hint_us > PAUSE_MOST_US))
        *hint_us = PAUSE_MOST_US;
}

static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    taking *t = data;
    rowlock_client *client = t->work.client;
    RL_TRY(rl_resource_id(client, t->work.budget, t->work.queue, RL_KIND_QUEUE, &t->queue_id, err));
    rl_await_at(&t->await, t->queue_id);
    if (!t->work.open) {
        rowlock_status status = look_and_take(t, hint_us, err);
        bound_pause(t, hint_us);
        return status;
    }
    RL_TRY(settle(t, err));
    return begin_items(t, hint_us, err);
}

rowlock_status rl_queue_take(rowlock_client *client, const char *queue, size_t most,
                             const rowlock_take_options *options, const rl_budget *budget,
                             rowlock_item **items, size_t *count, rowlock_error *err)
{
    /* Drawn between half of it and all: the longest are PAUSE_MOST_US at least (bound_pause). */
    const rl_backoff pauses = {.first_us = PAUSE_FIRST_US, .most_us = 2 * PAUSE_MOST_US};
    taking t = {.work = {.client = client, .budget = budget, .queue = queue},
                .options = options,
                .ttl_us = options->ttl_ms * 1000,
                .most = most,
                .items = items};
    RL_TRY(rl_queue_check(client, err));
    rl_client_owner(client, t.owner);
    rl_await_init(&t.await, client, budget, t.owner, t.ttl_us);
    t.await.attempt = attempt;
    t.await.unsettled = rl_queue_unsettled;
    t.await.keeps_back = keeps_back;
    t.await.data = &t;
    t.await.many = true;
    rowlock_status status = rl_await_until(&t.await, pauses, err);
    if (status == ROWLOCK_OK) {
        *count = t.count;
        return status;
    }
    drop_items(&t);
    if (!t.work.open && status == ROWLOCK_TIMEOUT)
        return rl_fail(err, status, "the wait ended before '%s' had an item that was ready", queue);
    if (!t.work.open)
        return status == ROWLOCK_DEADLOCK ? nothing_ready(&t, err) : status;
    return rl_fail(err, ROWLOCK_UNKNOWN,
                   "the reply was lost and the server could not be asked again: items of '%s' may "
                   "stay taken, though no worker has them, for up to %" PRId64 " ms",
                   queue, options->ttl_ms);
}
