/* Queues, as an operator sees them: counts, lists, what is made ready again, what is deleted. */
#include <inttypes.h>
#include <string.h>

#include "admin/admin.h"
#include "engine/settle.h"
#include "kind/queue.h"
#include "wait/backoff.h"

#define IDS_AT_ONCE 1000

/* ------------------------------------------------------------------------------ counts */

typedef struct counting {
    char kind[17];
    rowlock_queue_info info;
} counting;

static void keep_counts(void *data, const rl_cell *cells)
{
    counting *c = data;
    rl_copy_label(c->kind, sizeof c->kind, cells[0].text);
    c->info = (rowlock_queue_info){.ready = cells[1].u64,
                                   .in_flight = cells[2].u64,
                                   .delayed = cells[3].u64,
                                   .behind = cells[4].u64,
                                   .dead = cells[5].u64,
                                   .oldest_ms = -1,
                                   .next_ms = -1};
    c->info.depth = c->info.ready + c->info.in_flight + c->info.delayed + c->info.behind;
    if (cells[7].u64 == 0)
        return;
    c->info.next_ms = cells[8].i64 > 0 ? (cells[8].i64 + 999) / 1000 : 0;
    if (cells[6].i64 >= 0)
        c->info.oldest_ms = cells[6].i64 / 1000;
}

static rowlock_status purged(rowlock_client *client, const char *queue, rowlock_error *err)
{
    rl_resource_forget(client, queue);
    return rl_fail(err, ROWLOCK_NOT_FOUND, "there is no queue '%s'", queue);
}

rowlock_status rl_queue_count(rowlock_client *client, const rl_budget *budget, const char *queue,
                              rowlock_queue_info *info, rowlock_error *err)
{
    counting c = {.kind = ""};
    uint64_t id = 0;
    bool found = false;
    RL_TRY(rl_resource_known(client, budget, queue, RL_KIND_QUEUE, &id, err));
    const rl_value values[] = {rl_u64(id), rl_text(queue)};
    RL_TRY(
        rl_client_read(client, budget, RL_SQL_QUEUE_COUNT, values, keep_counts, &c, &found, err));
    if (!found)
        return purged(client, queue, err);
    *info = c.info;
    return ROWLOCK_OK;
}

/* ------------------------------------------------------------------------------- a list */

/* The columns of queue_items. */
enum {
    COLUMN_ID,
    COLUMN_STATE,
    COLUMN_TAKEN,
    COLUMN_PAST,
    COLUMN_LANE,
    COLUMN_ATTEMPTS,
    COLUMN_ATTEMPTS_MOST,
    COLUMN_TOKEN,
    COLUMN_SIZE,
    COLUMN_KEY,
    COLUMN_GROUP,
    COLUMN_LABEL,
    COLUMN_ERROR,
    COLUMN_CREATED,
    COLUMN_READY,
    COLUMN_READY_US
};

static rowlock_item_state state_of(const rl_cell *cells)
{
    if (strcmp(cells[COLUMN_STATE].text, "dead") == 0)
        return ROWLOCK_ITEM_DEAD;
    if (strcmp(cells[COLUMN_STATE].text, "behind") == 0)
        return ROWLOCK_ITEM_BEHIND;
    if (cells[COLUMN_PAST].u64)
        return ROWLOCK_ITEM_READY;
    return cells[COLUMN_TAKEN].u64 ? ROWLOCK_ITEM_IN_FLIGHT : ROWLOCK_ITEM_DELAYED;
}

static rowlock_status add(void *data, const rl_cell *cells, rowlock_error *err)
{
    rl_list *list = data;
    rl_cell key = cells[COLUMN_KEY];
    rowlock_item_info *item = rl_list_add(list, err);
    if (!item)
        return ROWLOCK_SYSTEM;
    key.text = *key.text == '=' ? key.text + 1 : "";
    *item = (rowlock_item_info){.id = cells[COLUMN_ID].u64,
                                .state = state_of(cells),
                                .priority = ROWLOCK_PRIORITY_MAX - (unsigned)cells[COLUMN_LANE].u64,
                                .attempt = (unsigned)cells[COLUMN_ATTEMPTS].u64,
                                .attempts = (unsigned)cells[COLUMN_ATTEMPTS_MOST].u64,
                                .token = cells[COLUMN_TOKEN].u64,
                                .size = cells[COLUMN_SIZE].u64,
                                .key = rl_list_keep(list, &key),
                                .group = rl_list_keep(list, &cells[COLUMN_GROUP]),
                                .owner_label = rl_list_keep(list, &cells[COLUMN_LABEL]),
                                .error = rl_list_keep(list, &cells[COLUMN_ERROR]),
                                .created_at = rl_list_keep(list, &cells[COLUMN_CREATED]),
                                .ready_at = rl_list_keep(list, &cells[COLUMN_READY]),
                                .ready_ms = cells[COLUMN_READY_US].i64 / 1000};
    return ROWLOCK_OK;
}

rowlock_status rl_items_list(rowlock_client *client, const char *queue,
                             const rowlock_items_options *options, rowlock_items **out,
                             rowlock_error *err)
{
    const rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    uint64_t id = 0;
    RL_TRY(rl_resource_known(client, &budget, queue, RL_KIND_QUEUE, &id, err));
    const rl_value values[] = {rl_u64(id), rl_u64(options->dead), rl_u64(options->after),
                               rl_u64(options->limit)};
    rowlock_items *items = rl_list_new(client, sizeof *items, sizeof(rowlock_item_info), err);
    if (!items)
        return ROWLOCK_SYSTEM;
    rowlock_status status = rl_list_read(&items->all, RL_SQL_QUEUE_ITEMS, values, add, err);
    if (status == ROWLOCK_OK)
        *out = items;
    else
        rl_list_free(items);
    return rl_no_effect(status, err);
}

/* -------------------------------------------------- one item, whosever it is: requeue, purge */

typedef struct operating {
    rl_queue_work work; /* first */
    uint64_t queue_id;
    uint64_t item;
    bool deletes;   /* else it is made ready again */
    bool only_dead; /* a worker that was late may have given it back since it was listed */
    /* As it was found. */
    char state[8];
    char group[ROWLOCK_NAME_MAX * 4 + 1];
    uint64_t token;
} operating;

static void keep_item(void *data, const rl_cell *cells)
{
    operating *o = data;
    rl_copy_label(o->state, sizeof o->state, cells[0].text);
    memcpy(o->group, cells[1].text, cells[1].length + 1);
    o->token = cells[2].u64;
}

static bool is_dead(const operating *o)
{
    return strcmp(o->state, "dead") == 0;
}

/* Somebody has changed the item since it was looked at, or deleted it. */
static rowlock_status changed(const operating *o, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_BUSY, "item %" PRIu64 " of '%s' changed just now", o->item,
                   o->work.queue);
}

static rowlock_status delete_item(void *data, rl_conn *conn, rowlock_error *err)
{
    const operating *o = data;
    const rl_value values[] = {rl_u64(o->item), rl_u64(o->queue_id), rl_u64(o->token),
                               rl_u64(o->only_dead)};
    rl_done done = {0};
    RL_TRY(rl_queue_change(&o->work, conn, RL_SQL_QUEUE_DELETE, values, &done, err));
    if (done.rows == 0)
        return changed(o, err);
    if (!*o->group || is_dead(o))
        return ROWLOCK_OK;
    return rl_queue_leave_group(&o->work, conn, o->queue_id, o->group, o->item, err);
}

/* For a dead item of a group. (One that is alive is the head of its group, and stays that.) */
static rowlock_status revive_in_group(const operating *o, rl_conn *conn, rowlock_error *err)
{
    const rl_value enter[] = {rl_text(o->group), rl_u64(o->queue_id), rl_text(o->work.queue)};
    const rl_value revive[] = {rl_u64(o->item), rl_u64(o->queue_id), rl_u64(o->token)};
    const rl_value head[] = {rl_u64(o->item), rl_u64(o->queue_id), rl_text(o->group)};
    rl_done done = {0};
    RL_TRY(rl_queue_change(&o->work, conn, RL_SQL_QUEUE_GROUP_ENTER, enter, &done, err));
    if (done.rows > 0)
        RL_TRY(rl_queue_change(&o->work, conn, RL_SQL_QUEUE_REQUEUE_GROUPED, revive, &done, err));
    if (done.rows == 0)
        return changed(o, err);
    return rl_queue_change(&o->work, conn, RL_SQL_QUEUE_GROUP_HEAD, head, &done, err);
}

static rowlock_status requeue_item(void *data, rl_conn *conn, rowlock_error *err)
{
    const operating *o = data;
    const rl_value values[] = {rl_u64(o->item), rl_u64(o->queue_id), rl_u64(o->token)};
    rl_done done = {0};
    if (*o->group && is_dead(o))
        return revive_in_group(o, conn, err);
    RL_TRY(rl_queue_change(&o->work, conn, RL_SQL_QUEUE_REQUEUE, values, &done, err));
    return done.rows > 0 ? ROWLOCK_OK : changed(o, err);
}

static rowlock_status look(operating *o, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(o->item), rl_u64(o->queue_id)};
    bool found = false;
    RL_TRY(rl_client_read(o->work.client, o->work.budget, RL_SQL_QUEUE_ITEM_LOOK, values, keep_item,
                          o, &found, err));
    if (found)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_NOT_FOUND, "'%s' has no item %" PRIu64, o->work.queue, o->item);
}

/* Error 1062: another item has its key by now. */
static rowlock_status explain(const operating *o, rowlock_status status, rowlock_error *err)
{
    if (status != ROWLOCK_DAMAGED || err->server_errno != 1062)
        return status;
    return rl_fail(err, ROWLOCK_BUSY,
                   "item %" PRIu64 " of '%s' stays dead: an item that is alive has the same key",
                   o->item, o->work.queue);
}

/* After a COMMIT without an answer: the item shows whether it took effect. */
static rowlock_status settle(operating *o, rowlock_error *err)
{
    const uint64_t before = o->token;
    RL_TRY(rl_settle(o->work.client, o->work.budget, &o->work.request, err));
    rowlock_status status = look(o, err);
    if (status == ROWLOCK_OK || status == ROWLOCK_NOT_FOUND)
        o->work.open = false;
    if (status == ROWLOCK_NOT_FOUND)
        return o->deletes ? ROWLOCK_OK : status;
    RL_TRY(status);
    return !o->deletes && o->token != before ? ROWLOCK_OK : ROWLOCK_BUSY;
}

static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    static const rl_sql_id needed[] = {RL_SQL_QUEUE_DELETE,          RL_SQL_QUEUE_GROUP_ENTER,
                                       RL_SQL_QUEUE_GROUP_HEAD,      RL_SQL_QUEUE_REQUEUE,
                                       RL_SQL_QUEUE_REQUEUE_GROUPED, RL_QUEUE_LEAVE_GROUP};
    operating *o = data;
    if (o->work.open) {
        rowlock_status status = settle(o, err);
        if (status != ROWLOCK_BUSY)
            return status;
    }
    RL_TRY(look(o, err));
    if (o->only_dead && !is_dead(o)) {
        *hint_us = RL_FINAL;
        return changed(o, err);
    }
    if (!o->deletes && strcmp(o->state, "behind") == 0)
        return ROWLOCK_OK;
    rowlock_status status = rl_queue_transact(&o->work, needed, sizeof needed / sizeof needed[0],
                                              o->deletes ? delete_item : requeue_item, o, err);
    if (status == ROWLOCK_DAMAGED && err->server_errno == 1062)
        *hint_us = RL_FINAL;
    return explain(o, status, err);
}

static rowlock_status operate(operating *o, rowlock_error *err)
{
    const rl_attempts how = {.budget = o->work.budget,
                             .outage_us = o->work.client->outage_us,
                             .backoff = RL_BACKOFF_USUAL,
                             .unsettled = rl_queue_unsettled};
    rowlock_status status = rl_attempt_until(&how, attempt, o, err);
    if (status != ROWLOCK_OK && o->work.open)
        return rl_fail(err, ROWLOCK_UNKNOWN,
                       "the reply was lost and the server could not be asked again: item %" PRIu64
                       " of '%s' may have been changed",
                       o->item, o->work.queue);
    return rl_queue_in_use(&o->work, status, err);
}

/* ------------------------------------------------------------------------------ all of them */

typedef struct ids {
    uint64_t list[IDS_AT_ONCE];
    size_t count;
} ids;

static rowlock_status keep_id(void *data, const rl_cell *cells, rowlock_error *err)
{
    ids *those = data;
    (void)err;
    if (those->count < IDS_AT_ONCE)
        those->list[those->count++] = cells[0].u64;
    return ROWLOCK_OK;
}

/* Which of them; as rowlock_queue_purge_options. */
typedef struct chosen {
    bool all;
    int64_t older_ms;
} chosen;

static rowlock_status each(operating *o, const chosen *what, uint64_t *count, rowlock_error *err)
{
    const rl_budget *whole = o->work.budget;
    ids those = {.count = 0};
    uint64_t after = 0;
    do {
        const rl_value values[] = {rl_u64(o->queue_id), rl_u64(after), rl_u64(what->all),
                                   rl_u64((uint64_t)what->older_ms * 1000), rl_u64(IDS_AT_ONCE)};
        those.count = 0;
        RL_TRY(rl_client_read_all(o->work.client, whole, RL_SQL_QUEUE_ITEM_IDS, values, keep_id,
                                  &those, err));
        for (size_t i = 0; i < those.count; i++) {
            const rl_budget budget =
                rl_budget_start(o->work.client->limit_ms, o->work.client->limit_ms, NULL);
            o->item = after = those.list[i];
            o->work.open = false;
            o->work.budget = &budget;
            rowlock_status status = operate(o, err);
            /* Another one was faster; or its key is in use: it stays. */
            if (status == ROWLOCK_NOT_FOUND || status == ROWLOCK_BUSY)
                continue;
            RL_TRY(status);
            ++*count;
        }
    } while (those.count == IDS_AT_ONCE);
    return ROWLOCK_OK;
}

static rowlock_status operate_on(rowlock_client *client, const rl_budget *budget, const char *queue,
                                 uint64_t id, bool deletes, const chosen *what, uint64_t *count,
                                 rowlock_error *err)
{
    operating o = {.work = {.client = client, .budget = budget, .queue = queue},
                   .item = id,
                   .deletes = deletes,
                   .only_dead = id == 0 && !what->all};
    RL_TRY(rl_queue_check(client, err));
    RL_TRY(rl_resource_known(client, budget, queue, RL_KIND_QUEUE, &o.queue_id, err));
    if (id == 0)
        return each(&o, what, count, err);
    RL_TRY(operate(&o, err));
    *count = 1;
    return ROWLOCK_OK;
}

rowlock_status rl_queue_requeue(rowlock_client *client, const rl_budget *budget, const char *queue,
                                uint64_t id, uint64_t *count, rowlock_error *err)
{
    const chosen dead = {.all = false};
    return operate_on(client, budget, queue, id, false, &dead, count, err);
}

rowlock_status rl_queue_purge(rowlock_client *client, const rl_budget *budget, const char *queue,
                              const rowlock_queue_purge_options *options, uint64_t *count,
                              rowlock_error *err)
{
    const chosen what = {.all = options->all, .older_ms = options->older_ms};
    return operate_on(client, budget, queue, options->id, true, &what, count, err);
}

/* ------------------------------------------------------------------------------- its name */

typedef struct dropping {
    rl_queue_work work; /* first */
    uint64_t id;
} dropping;

static rowlock_status drop_name(void *data, rl_conn *conn, rowlock_error *err)
{
    const dropping *d = data;
    const rl_value values[] = {rl_u64(d->id), rl_text(d->work.queue)};
    rl_io io = rl_budget_quick_io(d->work.budget);
    rl_rows rows;
    rl_done done = {0};
    bool found = false;
    RL_TRY(
        rl_no_effect(rl_query_one(conn, RL_SQL_QUEUE_LOCK, values, &io, &found, &rows, err), err));
    if (!found)
        return rl_fail(err, ROWLOCK_NOT_FOUND, "there is no queue '%s'", d->work.queue);
    RL_TRY(
        rl_no_effect(rl_query_one(conn, RL_SQL_QUEUE_ANY, values, &io, &found, &rows, err), err));
    if (!found || rows.cells[0].u64 != 0)
        return rl_fail(err, ROWLOCK_BUSY,
                       "'%s' has items (`rowlock queue purge --all` deletes them)", d->work.queue);
    return rl_queue_change(&d->work, conn, RL_SQL_QUEUE_DROP, values, &done, err);
}

rowlock_status rl_queue_drop(rowlock_client *client, const rl_budget *budget, const char *queue,
                             uint64_t id, rowlock_error *err)
{
    static const rl_sql_id needed[] = {RL_SQL_QUEUE_LOCK, RL_SQL_QUEUE_ANY, RL_SQL_QUEUE_DROP};
    const rl_cluster cluster = rl_pool_cluster(&client->pool);
    dropping d = {.work = {.client = client, .budget = budget, .queue = queue}, .id = id};
    /* A put at another node only reads the name's row, so both would be committed. */
    if (rl_many_writers(cluster, client->single_writer))
        return rl_fail(err, ROWLOCK_UNSUPPORTED,
                       "the server is %s: an item may be put at another node meanwhile, and would "
                       "be nobody's; '%s' stays (say --single-writer, single_writer, if this node "
                       "is the only one in use)",
                       rl_cluster_traits_of(cluster)->name, queue);
    rl_resource_forget(client, queue);
    rowlock_status status =
        rl_queue_transact(&d.work, needed, sizeof needed / sizeof needed[0], drop_name, &d, err);
    if (d.work.open)
        return rl_fail(err, ROWLOCK_UNKNOWN, "the reply was lost: '%s' may have been purged",
                       queue);
    return rl_queue_in_use(&d.work, status, err);
}
