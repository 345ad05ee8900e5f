/*
 * An item that another process has taken, by its id and token: to end it here, or to extend it. No
 * keeper of this process renews it unless it is extended.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/kind.h"
#include "engine/resource.h"
#include "kind/queue.h"

/* What is looked for, and what was found. */
typedef struct finding {
    rowlock_client *client;
    const char *queue;
    int64_t sent_us;
    char kind[17];
    bool is_there;
    rowlock_item *item; /* NULL: nobody holds it with this token */
    bool no_memory;
} finding;

/* One block: the item, and its texts. */
static rowlock_item *new_item(const finding *f, const rl_cell *cells)
{
    const char *key = cells[8].text[0] == '=' ? cells[8].text + 1 : "";
    const size_t queue_size = strlen(f->queue) + 1;
    const size_t key_size = strlen(key) + 1;
    const size_t group_size = cells[9].length + 1;
    rowlock_item *item = calloc(1, sizeof *item + queue_size + key_size + group_size);
    if (!item)
        return NULL;
    char *at = (char *)(item + 1);
    item->queue = memcpy(at, f->queue, queue_size);
    item->key = memcpy(at += queue_size, key, key_size);
    item->group = memcpy(at + key_size, cells[9].text, group_size);
    item->payload = "";
    return item;
}

static void keep_item(void *data, const rl_cell *cells)
{
    finding *f = data;
    memcpy(f->kind, cells[0].text, cells[0].length + 1);
    f->is_there = cells[2].u64 != 0;
    if (cells[3].u64 == 0 || cells[10].i64 <= 0)
        return;
    rowlock_item *item = f->item = new_item(f, cells);
    f->no_memory = !item;
    if (!item)
        return;
    item->client = f->client;
    item->queue_id = cells[1].u64;
    item->priority = ROWLOCK_PRIORITY_MAX - (unsigned)cells[4].u64;
    item->attempt = (unsigned)cells[5].u64;
    item->attempts = (unsigned)cells[6].u64;
    memcpy(item->owner, cells[7].text, cells[7].length + 1);
    item->held.kept = RL_KEPT_ITEM;
    item->held.owner = item->owner;
    item->held.end_us = item->held.long_at_us = item->held.look_at_us = RL_NEVER;
    item->held.on_lost = rl_item_tell_lost;
    item->held.identity = atomic_load(&f->client->pool.identity);
    atomic_store(&item->held.deadline_us, f->sent_us + cells[10].i64 - rl_margin_us(cells[10].i64));
    atomic_store(&item->held.event_fd, -1);
}

rowlock_status rl_queue_held(rowlock_client *client, const char *queue, uint64_t id, uint64_t token,
                             rowlock_item **item, rowlock_error *err)
{
    const rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    const rl_value values[] = {rl_u64(id), rl_u64(token), rl_text(queue)};
    finding f = {.client = client, .queue = queue, .sent_us = rl_now_us()};
    bool found = false;
    RL_TRY(rl_queue_check(client, err));
    RL_TRY(rl_client_read(client, &budget, RL_SQL_QUEUE_HELD, values, keep_item, &f, &found, err));
    if (!found)
        return rl_fail(err, ROWLOCK_NOT_FOUND, "there is no queue '%s'", queue);
    if (strcmp(f.kind, RL_KIND_QUEUE) != 0)
        return rl_resource_wrong_kind(queue, f.kind, RL_KIND_QUEUE, err);
    if (f.no_memory)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    if (!f.is_there)
        return rl_fail(err, ROWLOCK_LOST,
                       "'%s' has no item %" PRIu64 ": it is done, was purged, or was never put",
                       queue, id);
    if (!f.item)
        return rl_fail(err, ROWLOCK_LOST,
                       "item %" PRIu64 " of '%s' is not held with token %" PRIu64 " (any more)", id,
                       queue, token);
    f.item->held.resource_id = id;
    f.item->held.version = token;
    *item = f.item;
    return ROWLOCK_OK;
}
