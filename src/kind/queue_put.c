/*
 * Putting items. One item is one statement; several, or one of a group, are a transaction. After a
 * lost reply the item is looked for by the key that it was put with. If it is not there, nobody
 * knows whether it was put: it may have been done since.
 */
#include "kind/queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/settle.h"
#include "wait/backoff.h"

#define PUT_TOGETHER    8       /* as queue_put_8 */
#define SETTLED_LATE_US 1000000 /* an item that is ready so much later was not taken yet */

/* One call. */
typedef struct putting {
    rl_queue_work work; /* first */
    const rowlock_put_entry *entries;
    size_t count;
    uint64_t *ids;                     /* 0: not known yet */
    char (*keys)[RL_ITEM_KEY_MAX + 1]; /* as they are stored */
    uint64_t queue_id;
    uint64_t gone_id; /* of a row that was not there; 0: none yet */
    uint64_t step;    /* between two ids of one statement; 0: the name is not locked yet */
} putting;

static const rowlock_put_options *options_of(const putting *p, size_t i)
{
    static const rowlock_put_options defaults = {0};
    return p->entries[i].options ? p->entries[i].options : &defaults;
}

void rl_item_key(rowlock_client *client, const char *key, char item_key[RL_ITEM_KEY_MAX + 1])
{
    if (key) {
        snprintf(item_key, RL_ITEM_KEY_MAX + 1, "=%s", key);
        return;
    }
    item_key[0] = '.';
    rl_client_owner(client, item_key + 1);
}

static rowlock_status purged(putting *p, int64_t *hint_us, rowlock_error *err)
{
    p->gone_id = p->queue_id;
    rl_resource_forget(p->work.client, p->work.queue);
    *hint_us = RL_AT_ONCE;
    return rl_fail(err, ROWLOCK_BUSY, "'%s' was purged just now", p->work.queue);
}

/* ------------------------------------------------------------------- after a lost reply */

typedef struct found {
    uint64_t item;
} found;

static void keep_found(void *data, const rl_cell *cells)
{
    ((found *)data)->item = cells[0].u64;
}

static rowlock_status find(const putting *p, size_t i, uint64_t *item, rowlock_error *err)
{
    const rl_value values[] = {rl_text(p->keys[i]), rl_u64(p->queue_id)};
    found row = {0};
    bool there = false;
    RL_TRY(rl_client_read(p->work.client, p->work.budget, RL_SQL_QUEUE_FIND, values, keep_found,
                          &row, &there, err));
    *item = row.item;
    return ROWLOCK_OK;
}

/* Of an item that was not found: true if it would still be there had it been put, since no worker
 * can have taken it yet. */
static bool is_surely_not_put(const putting *p, size_t i)
{
    const int64_t passed_us = rl_now_us() - p->work.request.sent_us;
    return options_of(p, i)->delay_ms * 1000 > passed_us + SETTLED_LATE_US;
}

/* An item that is there without a key of the user's was put by this call; one with such a key
 * counts as put, whichever call has put it. */
static rowlock_status look_for_them(putting *p, bool *put, bool *surely_not, rowlock_error *err)
{
    size_t there = 0;
    *put = *surely_not = false;
    for (size_t i = 0; i < p->count && !*put; i++) {
        uint64_t item = 0;
        RL_TRY(find(p, i, &item, err));
        p->ids[i] = item ? item : p->ids[i];
        there += item != 0;
        *put = there == p->count || (item != 0 && !options_of(p, i)->key);
        *surely_not = *surely_not || (item == 0 && is_surely_not_put(p, i));
    }
    return ROWLOCK_OK;
}

/* OK: they are put, all of them. BUSY: they are not. */
static rowlock_status settle(putting *p, int64_t *hint_us, rowlock_error *err)
{
    bool put = false;
    bool surely_not = false;
    RL_TRY(rl_settle(p->work.client, p->work.budget, &p->work.request, err));
    RL_TRY(look_for_them(p, &put, &surely_not, err));
    p->work.open = !put && !surely_not;
    *hint_us = p->work.open ? RL_FINAL : RL_AT_ONCE;
    if (put)
        return ROWLOCK_OK;
    if (p->work.open)
        return ROWLOCK_UNAVAILABLE;
    return rl_fail(err, ROWLOCK_BUSY, "'%s': nothing was put", p->work.queue);
}

/* ----------------------------------------------------------------------------- one item */

enum { WHERE_VALUES = 2, ROW_VALUES = 6, PUT_VALUES = WHERE_VALUES + ROW_VALUES };

static void fill_in_row(const putting *p, size_t i, rl_value values[ROW_VALUES])
{
    const rowlock_put_options *o = options_of(p, i);
    values[0] = rl_u64(ROWLOCK_PRIORITY_MAX - o->priority);
    values[1] = rl_u64((uint64_t)o->at_us);
    values[2] = rl_u64((uint64_t)o->delay_ms * 1000);
    values[3] = rl_u64(o->attempts ? o->attempts : ROWLOCK_QUEUE_ATTEMPTS);
    values[4] = rl_text(p->keys[i]);
    values[5] = rl_bytes(p->entries[i].size ? p->entries[i].payload : "", p->entries[i].size);
}

static void fill_in(const putting *p, size_t i, rl_value values[PUT_VALUES])
{
    const rowlock_put_options *o = options_of(p, i);
    values[0] = rl_u64(p->queue_id);
    values[1] = rl_text(o->group ? o->group : p->work.queue);
    fill_in_row(p, i, values + WHERE_VALUES);
}

/* The name is gone, or KILL QUERY met the statement (a server may say OK, and no row, then). Where
 * the name was found again, with its id, it was not that: a trigger writes a NULL, perhaps. */
static bool nothing_was_put(const putting *p, rowlock_status status, const rl_done *done,
                            const rowlock_error *err)
{
    if (status == ROWLOCK_OK)
        return done->rows == 0;
    return rl_resource_unread(status, err) && p->queue_id != p->gone_id;
}

static rowlock_status put_alone(putting *p, int64_t *hint_us, rowlock_error *err)
{
    rl_value values[PUT_VALUES];
    rl_done done = {0};
    fill_in(p, 0, values);
    rowlock_status status = rl_queue_change_alone(&p->work, RL_SQL_QUEUE_PUT, values, &done, err);
    if (nothing_was_put(p, status, &done, err))
        return purged(p, hint_us, err);
    if (status != ROWLOCK_OK)
        return status;
    p->ids[0] = done.insert_id;
    /* With a trigger for UPDATE on the table (somebody's audit), the server does not say the id of
     * an item that was there. It is put, whatever comes of this search. */
    if (done.insert_id == 0)
        (void)!find(p, 0, &p->ids[0], NULL);
    return ROWLOCK_OK;
}

/* -------------------------------------------------------------------- in a transaction */

static const rl_sql_id needed[] = {RL_SQL_QUEUE_PUT,         RL_SQL_QUEUE_FIND,
                                   RL_SQL_QUEUE_SHARE,       RL_SQL_QUEUE_PUT_8,
                                   RL_SQL_QUEUE_GROUP_ENTER, RL_SQL_QUEUE_PUT_GROUPED,
                                   RL_SQL_QUEUE_GROUP_HEAD,  RL_SQL_QUEUE_GROUP_LEAVE};

/* The server did not say the id: see put_alone(). */
static rowlock_status find_id(putting *p, rl_conn *conn, size_t i, rowlock_error *err)
{
    const rl_value key[] = {rl_text(p->keys[i]), rl_u64(p->queue_id)};
    rl_io io = rl_budget_quick_io(p->work.budget);
    return rl_no_effect(rl_query_number(conn, RL_SQL_QUEUE_FIND, key, &io, &p->ids[i], err), err);
}

static rowlock_status put_row(putting *p, rl_conn *conn, size_t i, rl_sql_id id, rowlock_error *err)
{
    rl_value values[PUT_VALUES];
    rl_done done = {0};
    fill_in(p, i, values);
    rowlock_status status = rl_queue_change(&p->work, conn, id, values, &done, err);
    if (nothing_was_put(p, status, &done, err))
        return ROWLOCK_NOT_FOUND;
    if (status != ROWLOCK_OK)
        return status;
    p->ids[i] = done.insert_id;
    return done.insert_id ? ROWLOCK_OK : find_id(p, conn, i, err);
}

static rowlock_status put_grouped(putting *p, rl_conn *conn, size_t i, rowlock_error *err)
{
    const rl_value group = rl_text(options_of(p, i)->group);
    const rl_value enter[] = {group, rl_u64(p->queue_id), rl_text(p->work.queue)};
    const rl_value leave[] = {rl_u64(p->queue_id), group};
    rl_done done = {0};
    RL_TRY(rl_queue_change(&p->work, conn, RL_SQL_QUEUE_GROUP_ENTER, enter, &done, err));
    if (done.rows == 0)
        return ROWLOCK_NOT_FOUND;
    RL_TRY(put_row(p, conn, i, RL_SQL_QUEUE_PUT_GROUPED, err));
    const rl_value head[] = {rl_u64(p->ids[i]), rl_u64(p->queue_id), group};
    RL_TRY(rl_queue_change(&p->work, conn, RL_SQL_QUEUE_GROUP_HEAD, head, &done, err));
    if (done.rows > 0)
        return ROWLOCK_OK;
    return rl_queue_change(&p->work, conn, RL_SQL_QUEUE_GROUP_LEAVE, leave, &done, err);
}

/* May the next eight be put by one statement? One with a key may be there already. (The size: the
 * server limits that of a statement.) */
static bool is_plain(const putting *p, size_t from)
{
    size_t size = 0;
    if (p->count - from < PUT_TOGETHER)
        return false;
    for (size_t i = from; i < from + PUT_TOGETHER; i++) {
        const rowlock_put_options *o = options_of(p, i);
        size += p->entries[i].size;
        if (o->key || o->group || size > ROWLOCK_PAYLOAD_MAX)
            return false;
    }
    return true;
}

static rowlock_status lock_name(putting *p, rl_conn *conn, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(p->queue_id), rl_text(p->work.queue)};
    rl_io io = rl_budget_quick_io(p->work.budget);
    RL_TRY(
        rl_no_effect(rl_query_number(conn, RL_SQL_QUEUE_SHARE, values, &io, &p->step, err), err));
    return p->step ? ROWLOCK_OK : ROWLOCK_NOT_FOUND;
}

static rowlock_status put_rows(putting *p, rl_conn *conn, size_t from, rowlock_error *err)
{
    rl_value values[1 + PUT_TOGETHER * ROW_VALUES] = {rl_u64(p->queue_id)};
    rl_done done = {0};
    if (!p->step)
        RL_TRY(lock_name(p, conn, err));
    for (size_t i = 0; i < PUT_TOGETHER; i++)
        fill_in_row(p, from + i, values + 1 + i * ROW_VALUES);
    RL_TRY(rl_queue_change(&p->work, conn, RL_SQL_QUEUE_PUT_8, values, &done, err));
    if (done.rows != PUT_TOGETHER)
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "'%s': a statement was stopped", p->work.queue);
    for (size_t i = 0; i < PUT_TOGETHER; i++)
        p->ids[from + i] = done.insert_id + i * p->step;
    return ROWLOCK_OK;
}

static rowlock_status put_each(void *data, rl_conn *conn, rowlock_error *err)
{
    putting *p = data;
    /* Where other nodes may come or go, the step between ids may change at any time. */
    const bool one_by_one = rl_many_writers(conn->server.cluster, p->work.client->single_writer);
    p->step = 0;
    for (size_t i = 0; i < p->count; i++) {
        if (!one_by_one && is_plain(p, i)) {
            RL_TRY(put_rows(p, conn, i, err));
            i += PUT_TOGETHER - 1;
        } else if (options_of(p, i)->group) {
            RL_TRY(put_grouped(p, conn, i, err));
        } else {
            RL_TRY(put_row(p, conn, i, RL_SQL_QUEUE_PUT, err));
        }
    }
    return ROWLOCK_OK;
}

static rowlock_status put_together(putting *p, int64_t *hint_us, rowlock_error *err)
{
    rowlock_status status =
        rl_queue_transact(&p->work, needed, sizeof needed / sizeof needed[0], put_each, p, err);
    return status == ROWLOCK_NOT_FOUND ? purged(p, hint_us, err) : status;
}

/* ------------------------------------------------------------------------------ the call */

static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    putting *p = data;
    if (p->work.open) {
        rowlock_status status = settle(p, hint_us, err);
        if (status != ROWLOCK_BUSY)
            return status;
    }
    rowlock_status status = rl_resource_id(p->work.client, p->work.budget, p->work.queue,
                                           RL_KIND_QUEUE, &p->queue_id, err);
    if (status != ROWLOCK_OK)
        return status;
    if (p->count == 1 && !options_of(p, 0)->group)
        return put_alone(p, hint_us, err);
    return put_together(p, hint_us, err);
}

static rowlock_status unknown(const putting *p, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_UNKNOWN,
                   "the reply was lost: the item of '%s' was not put, or it was put (and, if the "
                   "server can be asked, is done already)",
                   p->work.queue);
}

rowlock_status rl_queue_put(rowlock_client *client, const char *queue,
                            const rowlock_put_entry *entries, size_t count, uint64_t *ids,
                            rowlock_error *err)
{
    const rl_budget budget = rl_budget_start(client->limit_ms, client->limit_ms, NULL);
    const rl_attempts how = {.budget = &budget,
                             .outage_us = client->outage_us,
                             .backoff = RL_BACKOFF_USUAL,
                             .unsettled = rl_queue_unsettled};
    char one[1][RL_ITEM_KEY_MAX + 1];
    putting p = {.work = {.client = client, .budget = &budget, .queue = queue},
                 .entries = entries,
                 .count = count,
                 .ids = ids,
                 .keys = one};
    RL_TRY(rl_queue_check(client, err));
    if (count > 1)
        p.keys = malloc(count * sizeof one[0]);
    if (!p.keys)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    for (size_t i = 0; i < count; i++)
        rl_item_key(client, options_of(&p, i)->key, p.keys[i]);
    rowlock_status status = rl_attempt_until(&how, attempt, &p, err);
    if (p.keys != one)
        free(p.keys);
    if (status != ROWLOCK_OK && p.work.open)
        return unknown(&p, err);
    return rl_queue_in_use(&p.work, status, err);
}
