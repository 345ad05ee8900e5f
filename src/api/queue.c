#include "kind/queue.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "admin/admin.h"
#include "api/options.h"
#include "base/name.h"
#include "base/random.h"
#include "base/text.h"
#include "kind/transaction.h"

#define LIMIT_DEFAULT  100
#define LIMIT_MOST     100000
#define AT_MOST_US     INT64_C(253402300799999999) /* the end of the year 9999 */
#define RETRY_FIRST_MS 1000
#define RETRY_MOST_MS  3600000

static rowlock_status check(const rowlock_client *client, const char *queue, rowlock_error *err)
{
    RL_TRY(rl_client_check(client, err));
    return rl_name_check(queue, err);
}

/* --------------------------------------------------------------------------------- put */

static rowlock_status check_text(const char *what, const char *text, rowlock_error *err)
{
    rowlock_error why = {0};
    if (!text || rl_name_check(text, &why) == ROWLOCK_OK)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_INVALID,
                   "the %s is not valid: it has 1 to %d characters, none of them a control "
                   "character, and no white space at either end",
                   what, ROWLOCK_NAME_MAX);
}

static rowlock_status check_times(const rowlock_put_options *options, rowlock_error *err)
{
    RL_TRY(rl_range_check("a delay", options->delay_ms, 0, ROWLOCK_QUEUE_DELAY_MAX_MS, err));
    if (options->at_us < 0 || options->at_us > AT_MOST_US)
        return rl_fail(err, ROWLOCK_INVALID,
                       "an item is ready in 1970 or later, and before the year 10000");
    if (options->at_us && options->delay_ms)
        return rl_fail(err, ROWLOCK_INVALID,
                       "an item is ready after a delay, or at a time, not both");
    return ROWLOCK_OK;
}

static rowlock_status check_put(const rowlock_put_options *options, rowlock_error *err)
{
    if (!options)
        return ROWLOCK_OK;
    RL_TRY(check_times(options, err));
    RL_TRY(check_text("key", options->key, err));
    RL_TRY(check_text("group", options->group, err));
    if (options->priority > ROWLOCK_PRIORITY_MAX)
        return rl_fail(err, ROWLOCK_INVALID, "a priority of %u is not 0 to %d", options->priority,
                       ROWLOCK_PRIORITY_MAX);
    if (options->attempts > ROWLOCK_QUEUE_ATTEMPTS_MAX)
        return rl_fail(err, ROWLOCK_INVALID, "%u attempts are over %d", options->attempts,
                       ROWLOCK_QUEUE_ATTEMPTS_MAX);
    return ROWLOCK_OK;
}

static rowlock_status check_entry(const char *queue, const rowlock_put_entry *entry,
                                  rowlock_error *err)
{
    RL_TRY(check_put(entry->options, err));
    if (!entry->payload && entry->size > 0)
        return rl_fail(err, ROWLOCK_INVALID, "no payload was given (NULL)");
    if (entry->size > ROWLOCK_PAYLOAD_MAX)
        return rl_fail(err, ROWLOCK_INVALID,
                       "a payload of %zu bytes is over %d: put it elsewhere, and where it is into "
                       "'%s'",
                       entry->size, ROWLOCK_PAYLOAD_MAX, queue);
    return ROWLOCK_OK;
}

rowlock_status rowlock_queue_put(rowlock_client *client, const char *queue, const void *payload,
                                 size_t size, const rowlock_put_options *options, uint64_t *id,
                                 rowlock_error *err)
{
    const rowlock_put_entry entry = {.payload = payload, .size = size, .options = options};
    uint64_t put = 0;
    RL_TRY(check(client, queue, err));
    RL_TRY(check_entry(queue, &entry, err));
    RL_TRY(rl_queue_put(client, queue, &entry, 1, &put, err));
    if (id)
        *id = put;
    return ROWLOCK_OK;
}

static rowlock_status check_count(size_t count, const char *what, rowlock_error *err)
{
    if (count >= 1 && count <= ROWLOCK_QUEUE_BATCH_MAX)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_INVALID, "%zu items are not 1 to %d to %s at once", count,
                   ROWLOCK_QUEUE_BATCH_MAX, what);
}

rowlock_status rowlock_queue_put_batch(rowlock_client *client, const char *queue,
                                       const rowlock_put_entry *entries, size_t count,
                                       uint64_t *ids, rowlock_error *err)
{
    RL_TRY(check(client, queue, err));
    RL_TRY(check_count(count, "put", err));
    if (!entries)
        return rl_fail(err, ROWLOCK_INVALID, "no items were given (NULL)");
    for (size_t i = 0; i < count; i++)
        RL_TRY(check_entry(queue, &entries[i], err));
    uint64_t *put = calloc(count, sizeof *put);
    if (!put)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    rowlock_status status = rl_queue_put(client, queue, entries, count, put, err);
    if (status == ROWLOCK_OK && ids)
        memcpy(ids, put, count * sizeof *put);
    free(put);
    return status;
}

/* --------------------------------------------------------------------------------- take */

static rowlock_status take(rowlock_client *client, const char *queue, size_t most,
                           const rowlock_take_options *given, rowlock_item **items, size_t *count,
                           rowlock_error *err)
{
    rowlock_take_options options = given ? *given : (rowlock_take_options){0};
    if (options.ttl_ms == 0)
        options.ttl_ms = ROWLOCK_TTL_DEFAULT_MS;
    RL_TRY(rl_range_check("a TTL", options.ttl_ms, ROWLOCK_TTL_MIN_MS, ROWLOCK_TTL_MAX_MS, err));
    const rl_budget budget = rl_budget_start(options.wait_ms, client->limit_ms, options.cancel);
    if (rl_budget_cancelled(&budget))
        return rl_fail(err, ROWLOCK_CANCELLED, "%s", rowlock_status_text(ROWLOCK_CANCELLED));
    return rl_queue_take(client, queue, most, &options, &budget, items, count, err);
}

rowlock_status rowlock_queue_take(rowlock_client *client, const char *queue,
                                  const rowlock_take_options *options, rowlock_item **item,
                                  rowlock_error *err)
{
    rowlock_item *taken = NULL;
    size_t count = 0;
    RL_TRY(check(client, queue, err));
    RL_TRY(rl_place_check(item, "the item", err));
    RL_TRY(take(client, queue, 1, options, &taken, &count, err));
    *item = taken;
    return ROWLOCK_OK;
}

rowlock_status rowlock_queue_take_batch(rowlock_client *client, const char *queue, size_t most,
                                        const rowlock_take_options *options, rowlock_item **items,
                                        size_t *count, rowlock_error *err)
{
    RL_TRY(check(client, queue, err));
    RL_TRY(check_count(most, "take", err));
    RL_TRY(rl_place_check(items, "the items", err));
    RL_TRY(rl_place_check(count, "the number of items", err));
    rowlock_item **taken = calloc(most, sizeof(rowlock_item *));
    if (!taken)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    rowlock_status status = take(client, queue, most, options, taken, count, err);
    if (status == ROWLOCK_OK)
        memcpy(items, taken, *count * sizeof(rowlock_item *));
    free(taken);
    return status;
}

/* --------------------------------------------------------------------------- a held item */

uint64_t rowlock_item_id(const rowlock_item *item)
{
    return item ? item->held.resource_id : 0;
}

const void *rowlock_item_payload(const rowlock_item *item)
{
    return item ? item->payload : NULL;
}

size_t rowlock_item_size(const rowlock_item *item)
{
    return item ? item->size : 0;
}

const char *rowlock_item_queue(const rowlock_item *item)
{
    return item ? item->queue : "";
}

const char *rowlock_item_key(const rowlock_item *item)
{
    return item ? item->key : "";
}

const char *rowlock_item_group(const rowlock_item *item)
{
    return item ? item->group : "";
}

unsigned rowlock_item_priority(const rowlock_item *item)
{
    return item ? item->priority : 0;
}

unsigned rowlock_item_attempt(const rowlock_item *item)
{
    return item ? item->attempt : 0;
}

unsigned rowlock_item_attempts(const rowlock_item *item)
{
    return item ? item->attempts : 0;
}

uint64_t rowlock_item_token(const rowlock_item *item)
{
    return item ? item->held.version : 0;
}

static rowlock_status check_item(const rowlock_item *item, rowlock_error *err)
{
    if (!item)
        return rl_fail(err, ROWLOCK_INVALID, "no item was given (NULL)");
    return rl_client_check(item->client, err);
}

static rowlock_status lost(const rowlock_item *item, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_LOST,
                   "item %" PRIu64 " of '%s' is not this worker's any more (token %" PRIu64 ")",
                   item->held.resource_id, item->queue, item->held.version);
}

rowlock_status rowlock_item_check(const rowlock_item *item, rowlock_error *err)
{
    RL_TRY(check_item(item, err));
    return rl_item_lost(item) ? lost(item, err) : ROWLOCK_OK;
}

int64_t rowlock_item_remaining_ms(const rowlock_item *item)
{
    if (!item || rl_item_lost(item))
        return 0;
    int64_t left_us = atomic_load(&item->held.deadline_us) - rl_now_us();
    return left_us > 0 ? left_us / 1000 : 0;
}

int rowlock_item_fd(rowlock_item *item)
{
    if (!item)
        return -1;
    int fd = atomic_load(&item->held.event_fd);
    if (fd >= 0)
        return fd;
    int made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made < 0)
        return -1;
    if (!atomic_compare_exchange_strong(&item->held.event_fd, &fd, made)) {
        close(made);
        return fd;
    }
    /* The keeper may have looked for it just before. */
    if (rl_item_lost(item))
        eventfd_write(made, 1);
    return made;
}

rowlock_status rowlock_item_extend(rowlock_item *item, int64_t ttl_ms, rowlock_error *err)
{
    RL_TRY(check_item(item, err));
    RL_TRY(rl_range_check("a TTL", ttl_ms, ROWLOCK_TTL_MIN_MS, ROWLOCK_TTL_MAX_MS, err));
    if (rl_item_lost(item))
        return lost(item, err);
    return rl_item_extend(item, ttl_ms * 1000, err);
}

/* --------------------------------------------------------------------------------- its end */

/* It bears an outage as long as a waiting call does: what was done is not to be done again. */
static rl_budget budget_to_end(const rowlock_client *client)
{
    return rl_budget_start(client->outage_us / 1000, client->limit_ms, NULL);
}

static rowlock_status end(rowlock_item *item, rl_ending how, int64_t delay_ms, const char *reason,
                          rowlock_error *err)
{
    const rl_budget budget = budget_to_end(item->client);
    rl_item_leave(item);
    rowlock_status status = rl_item_lost(item)
                                ? lost(item, err)
                                : rl_item_end(item, &budget, how, delay_ms * 1000, reason, err);
    rl_item_free(item);
    return status;
}

rowlock_status rowlock_item_done(rowlock_item *item, rowlock_error *err)
{
    RL_TRY(check_item(item, err));
    return end(item, RL_END_DONE, 0, "", err);
}

static rowlock_status check_items(rowlock_item *const *items, size_t count, rowlock_error *err)
{
    RL_TRY(check_count(count, "end", err));
    if (!items)
        return rl_fail(err, ROWLOCK_INVALID, "no items were given (NULL)");
    for (size_t i = 0; i < count; i++) {
        RL_TRY(check_item(items[i], err));
        if (items[i]->client != items[0]->client)
            return rl_fail(err, ROWLOCK_INVALID, "the items are of different clients");
    }
    return ROWLOCK_OK;
}

rowlock_status rowlock_item_done_batch(rowlock_item *const *items, size_t count,
                                       rowlock_status *statuses, rowlock_error *err)
{
    RL_TRY(check_items(items, count, err));
    rowlock_status *each = calloc(count, sizeof *each);
    if (!each)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    const rl_budget budget = budget_to_end(items[0]->client);
    for (size_t i = 0; i < count; i++)
        rl_item_leave(items[i]);
    rowlock_status status = rl_items_done(items, count, &budget, each, err);
    for (size_t i = 0; i < count; i++)
        rl_item_free(items[i]);
    if (statuses)
        memcpy(statuses, each, count * sizeof *each);
    free(each);
    return status;
}

/* 1 s, doubled with each attempt; of which a random part is up to a half. */
static int64_t backoff_ms(unsigned attempt)
{
    int64_t delay_ms = RETRY_FIRST_MS;
    for (unsigned i = 1; i < attempt && delay_ms < RETRY_MOST_MS; i++)
        delay_ms *= 2;
    if (delay_ms > RETRY_MOST_MS)
        delay_ms = RETRY_MOST_MS;
    return delay_ms - (int64_t)(rl_random_u32() % (uint32_t)(delay_ms / 2));
}

rowlock_status rowlock_item_retry(rowlock_item *item, const rowlock_retry_options *given,
                                  rowlock_error *err)
{
    const rowlock_retry_options options = given ? *given : (rowlock_retry_options){0};
    char reason[ROWLOCK_REASON_MAX + 1];
    RL_TRY(check_item(item, err));
    RL_TRY(rl_range_check("a delay", options.delay_ms, 0, ROWLOCK_QUEUE_DELAY_MAX_MS, err));
    rl_copy_label(reason, sizeof reason, options.reason);
    if (item->attempt >= item->attempts)
        return end(item, RL_END_BURY, 0, reason, err);
    return end(item, RL_END_RETRY, options.delay_ms ? options.delay_ms : backoff_ms(item->attempt),
               reason, err);
}

rowlock_status rowlock_item_dead(rowlock_item *item, const char *reason, rowlock_error *err)
{
    char kept[ROWLOCK_REASON_MAX + 1];
    RL_TRY(check_item(item, err));
    rl_copy_label(kept, sizeof kept, reason);
    return end(item, RL_END_BURY, 0, kept, err);
}

rowlock_status rowlock_item_release(rowlock_item *item, rowlock_error *err)
{
    RL_TRY(check_item(item, err));
    return end(item, RL_END_RELEASE, 0, "", err);
}

void rowlock_item_forget(rowlock_item *item)
{
    if (!item || item->client->pid != getpid())
        return;
    rl_item_leave(item);
    rl_item_free(item);
}

/* ------------------------------------------------------------------- in a transaction */

rowlock_status rowlock_tx_queue_put(rowlock_client *client, MYSQL *mysql, const char *queue,
                                    const void *payload, size_t size,
                                    const rowlock_put_options *options, uint64_t *id,
                                    rowlock_error *err)
{
    const rowlock_put_entry entry = {.payload = payload, .size = size, .options = options};
    uint64_t put = 0;
    RL_TRY(check(client, queue, err));
    RL_TRY(check_entry(queue, &entry, err));
    RL_TRY(rl_tx_check(mysql, true, err));
    RL_TRY(rl_tx_queue_put(client, mysql, queue, &entry, &put, err));
    if (id)
        *id = put;
    return ROWLOCK_OK;
}

rowlock_status rowlock_tx_queue_done(rowlock_client *client, MYSQL *mysql, const char *queue,
                                     uint64_t id, uint64_t token, rowlock_error *err)
{
    RL_TRY(check(client, queue, err));
    RL_TRY(rl_tx_check(mysql, true, err));
    return rl_tx_queue_done(client, mysql, queue, id, token, err);
}

/* -------------------------------------------------------------------------- for people */

rowlock_status rowlock_queue_get(rowlock_client *client, const char *queue,
                                 rowlock_queue_info *info, rowlock_error *err)
{
    RL_TRY(check(client, queue, err));
    RL_TRY(rl_place_check(info, "the counts", err));
    RL_TRY(rl_queue_check(client, err));
    const rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    return rl_queue_count(client, &budget, queue, info, err);
}

rowlock_status rowlock_items_get(rowlock_client *client, const char *queue,
                                 const rowlock_items_options *given, rowlock_items **items,
                                 rowlock_error *err)
{
    rowlock_items_options options = given ? *given : (rowlock_items_options){0};
    RL_TRY(check(client, queue, err));
    RL_TRY(rl_place_check(items, "the list", err));
    if (options.limit > LIMIT_MOST)
        return rl_fail(err, ROWLOCK_INVALID, "a limit of %zu is over %d", options.limit,
                       LIMIT_MOST);
    if (options.limit == 0)
        options.limit = LIMIT_DEFAULT;
    RL_TRY(rl_queue_check(client, err));
    return rl_items_list(client, queue, &options, items, err);
}

size_t rowlock_items_count(const rowlock_items *items)
{
    return items ? items->all.count : 0;
}

const rowlock_item_info *rowlock_items_at(const rowlock_items *items, size_t i)
{
    return items ? rl_list_at(&items->all, i) : NULL;
}

void rowlock_items_free(rowlock_items *items)
{
    rl_list_free(items);
}

rowlock_status rowlock_queue_requeue(rowlock_client *client, const char *queue, uint64_t id,
                                     uint64_t *count, rowlock_error *err)
{
    uint64_t done = 0;
    RL_TRY(check(client, queue, err));
    const rl_budget budget = rl_budget_start(client->limit_ms, client->limit_ms, NULL);
    RL_TRY(rl_queue_requeue(client, &budget, queue, id, &done, err));
    if (count)
        *count = done;
    return ROWLOCK_OK;
}

rowlock_status rowlock_queue_purge(rowlock_client *client, const char *queue,
                                   const rowlock_queue_purge_options *given, uint64_t *count,
                                   rowlock_error *err)
{
    const rowlock_queue_purge_options options =
        given ? *given : (rowlock_queue_purge_options){.id = 0};
    uint64_t done = 0;
    RL_TRY(check(client, queue, err));
    RL_TRY(rl_range_check("an age", options.older_ms, 0, ROWLOCK_QUEUE_DELAY_MAX_MS, err));
    const rl_budget budget = rl_budget_start(client->limit_ms, client->limit_ms, NULL);
    RL_TRY(rl_queue_purge(client, &budget, queue, &options, &done, err));
    if (count)
        *count = done;
    return ROWLOCK_OK;
}
