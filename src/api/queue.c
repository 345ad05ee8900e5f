#include "rowlock/rowlock_mysql.h"
#include "base/error.h"

rowlock_status rowlock_queue_put(rowlock_client *client, const char *queue, const void *payload, size_t size, const rowlock_put_options *options, uint64_t *id, rowlock_error *err)
{
    (void)client;
    (void)queue;
    (void)payload;
    (void)size;
    (void)options;
    (void)id;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}

rowlock_status rowlock_queue_put_batch(rowlock_client *client, const char *queue, const rowlock_put_entry *entries, size_t count, uint64_t *ids, rowlock_error *err)
{
    (void)client;
    (void)queue;
    (void)entries;
    (void)count;
    (void)ids;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}

rowlock_status rowlock_queue_take(rowlock_client *client, const char *queue, const rowlock_take_options *options, rowlock_item **item, rowlock_error *err)
{
    (void)client;
    (void)queue;
    (void)options;
    (void)item;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}

rowlock_status rowlock_queue_take_batch(rowlock_client *client, const char *queue, size_t most, const rowlock_take_options *options, rowlock_item **items, size_t *count, rowlock_error *err)
{
    (void)client;
    (void)queue;
    (void)most;
    (void)options;
    (void)items;
    (void)count;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}

uint64_t rowlock_item_id(const rowlock_item *item)
{
    (void)item;
    return 0;
}

const void * rowlock_item_payload(const rowlock_item *item)
{
    (void)item;
    return 0;
}

size_t rowlock_item_size(const rowlock_item *item)
{
    (void)item;
    return 0;
}

const char * rowlock_item_queue(const rowlock_item *item)
{
    (void)item;
    return 0;
}

const char * rowlock_item_key(const rowlock_item *item)
{
    (void)item;
    return 0;
}

const char * rowlock_item_group(const rowlock_item *item)
{
    (void)item;
    return 0;
}

unsigned rowlock_item_priority(const rowlock_item *item)
{
    (void)item;
    return 0;
}

unsigned rowlock_item_attempt(const rowlock_item *item)
{
    (void)item;
    return 0;
}

unsigned rowlock_item_attempts(const rowlock_item *item)
{
    (void)item;
    return 0;
}

uint64_t rowlock_item_token(const rowlock_item *item)
{
    (void)item;
    return 0;
}

rowlock_status rowlock_item_check(const rowlock_item *item, rowlock_error *err)
{
    (void)item;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}

int64_t rowlock_item_remaining_ms(const rowlock_item *item)
{
    (void)item;
    return 0;
}

int rowlock_item_fd(rowlock_item *item)
{
    (void)item;
    return 0;
}

rowlock_status rowlock_item_extend(rowlock_item *item, int64_t ttl_ms, rowlock_error *err)
{
    (void)item;
    (void)ttl_ms;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}

rowlock_status rowlock_item_done(rowlock_item *item, rowlock_error *err)
{
    (void)item;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}

rowlock_status rowlock_item_done_batch(rowlock_item *const *items, size_t count, rowlock_status *statuses, rowlock_error *err)
{
    (void)items;
    (void)count;
    (void)statuses;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}

rowlock_status rowlock_item_retry(rowlock_item *item, const rowlock_retry_options *options, rowlock_error *err)
{
    (void)item;
    (void)options;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}

rowlock_status rowlock_item_dead(rowlock_item *item, const char *reason, rowlock_error *err)
{
    (void)item;
    (void)reason;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}

rowlock_status rowlock_item_release(rowlock_item *item, rowlock_error *err)
{
    (void)item;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}

void rowlock_item_forget(rowlock_item *item)
{
    (void)item;
}

rowlock_status rowlock_queue_get(rowlock_client *client, const char *queue, rowlock_queue_info *info, rowlock_error *err)
{
    (void)client;
    (void)queue;
    (void)info;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}

rowlock_status rowlock_items_get(rowlock_client *client, const char *queue, const rowlock_items_options *options, rowlock_items **items, rowlock_error *err)
{
    (void)client;
    (void)queue;
    (void)options;
    (void)items;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}

size_t rowlock_items_count(const rowlock_items *items)
{
    (void)items;
    return 0;
}

const rowlock_item_info * rowlock_items_at(const rowlock_items *items, size_t i)
{
    (void)items;
    (void)i;
    return 0;
}

void rowlock_items_free(rowlock_items *items)
{
    (void)items;
}

rowlock_status rowlock_queue_requeue(rowlock_client *client, const char *queue, uint64_t id, uint64_t *count, rowlock_error *err)
{
    (void)client;
    (void)queue;
    (void)id;
    (void)count;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}

rowlock_status rowlock_queue_purge(rowlock_client *client, const char *queue, const rowlock_queue_purge_options *options, uint64_t *count, rowlock_error *err)
{
    (void)client;
    (void)queue;
    (void)options;
    (void)count;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}

rowlock_status rowlock_tx_queue_put(rowlock_client *client, MYSQL *mysql, const char *queue, const void *payload, size_t size, const rowlock_put_options *options, uint64_t *id, rowlock_error *err)
{
    (void)client;
    (void)mysql;
    (void)queue;
    (void)payload;
    (void)size;
    (void)options;
    (void)id;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}

rowlock_status rowlock_tx_queue_done(rowlock_client *client, MYSQL *mysql, const char *queue, uint64_t id, uint64_t token, rowlock_error *err)
{
    (void)client;
    (void)mysql;
    (void)queue;
    (void)id;
    (void)token;
    return rl_fail(err, ROWLOCK_UNSUPPORTED, "not yet");
}
