/* clusters/queue.c - see queue.h. */
#include "clusters/queue.h"

#include "rowlock/rowlock_queue.h"

enum { WORKERS = 6, EACH = 40, ITEMS = WORKERS * EACH, GROUPS = 3, BATCH = 4, TTL = 60000 };

/* What all workers saw: they are threads of one process, so this order is the real one. */
typedef struct queue_record {
    const char *name;
    atomic_uint inside[ITEMS];
    atomic_uint done[ITEMS];
    atomic_uint groups[GROUPS];
    atomic_uint last[GROUPS][WORKERS]; /* per group and putter: the last number seen, plus one */
    atomic_uint done_count;
} queue_record;

/* Every third item has no group. */
static bool is_grouped(unsigned number)
{
    return number % 3 > 0;
}

static unsigned group_of(unsigned number)
{
    return number / 3 % GROUPS;
}

/* The answers of a node whose change conflicts with another node's; nothing has changed then. */
static bool yields(rowlock_status status)
{
    return status == ROWLOCK_DEADLOCK || status == ROWLOCK_BUSY || status == ROWLOCK_UNAVAILABLE;
}

static const char *put_one(const cluster_worker *w, unsigned number)
{
    char group[20];
    snprintf(group, sizeof group, "g%u", group_of(number));
    const queue_record *all = w->what;
    const rowlock_put_options options = {.group = is_grouped(number) ? group : NULL};
    rowlock_error err;
    rowlock_status status;
    const int64_t end = ts_now_ms() + SOON_MS;
    do
        status =
            rowlock_queue_put(w->client, all->name, &number, sizeof number, &options, NULL, &err);
    while (yields(status) && ts_now_ms() < end);
    return status == ROWLOCK_OK ? NULL : strdup(err.message);
}

static const char *enter(queue_record *all, const rowlock_item *item, unsigned *number)
{
    if (rowlock_item_size(item) != sizeof *number)
        return "another payload";
    memcpy(number, rowlock_item_payload(item), sizeof *number);
    if (*number >= ITEMS)
        return "another payload";
    if (atomic_fetch_add(&all->inside[*number], 1) > 0)
        return "two have one item";
    if (atomic_load(&all->done[*number]) > 0)
        return "it was done, and is delivered again";
    if (!is_grouped(*number))
        return NULL;
    if (atomic_fetch_add(&all->groups[group_of(*number)], 1) > 0)
        return "two have items of one group";
    /* The items of one putter come in the order in which it put them. */
    atomic_uint *last = &all->last[group_of(*number)][*number / EACH];
    if (atomic_exchange(last, *number + 1) > *number + 1)
        return "an item of a group comes after a later one";
    return NULL;
}

static void leave(queue_record *all, unsigned number)
{
    if (is_grouped(number))
        atomic_fetch_sub(&all->groups[group_of(number)], 1);
    atomic_fetch_sub(&all->inside[number], 1);
}

static const char *work_on(queue_record *all, rowlock_item *item)
{
    unsigned number;
    rowlock_error err;
    const char *why = enter(all, item, &number);
    if (why)
        return why;
    ts_pass_ms(number % 5);
    leave(all, number);
    atomic_store(&all->done[number], 1);
    if (rowlock_item_done(item, &err) != ROWLOCK_OK)
        return strdup(err.message);
    atomic_fetch_add(&all->done_count, 1);
    return NULL;
}

static const char *take_some(const cluster_worker *w)
{
    const queue_record *all = w->what;
    const rowlock_take_options options = {.wait_ms = 200, .ttl_ms = TTL};
    rowlock_item *items[BATCH];
    size_t count = 0;
    rowlock_error err;
    const rowlock_status status = rowlock_queue_take_batch(w->client, all->name, 1 + w->who % BATCH,
                                                           &options, items, &count, &err);
    /* After UNKNOWN (a node that stood still for longer than the wait) an item may be taken without
     * a worker that knows of it; it is delivered again when its TTL is over. */
    if (status == ROWLOCK_TIMEOUT || status == ROWLOCK_NOT_FOUND || status == ROWLOCK_UNKNOWN ||
        yields(status))
        return NULL;
    if (status != ROWLOCK_OK)
        return strdup(err.message);
    const char *why = NULL;
    for (size_t i = 0; i < count && !why; i++)
        why = work_on(w->what, items[i]);
    return why;
}

static const char *work(cluster_worker *w)
{
    const queue_record *all = w->what;
    const char *why = NULL;
    const int64_t end = ts_now_ms() + 240000;
    for (unsigned i = 0; i < EACH && !why; i++) {
        why = put_one(w, w->who * EACH + i);
        if (!why && i % 2)
            why = take_some(w);
    }
    while (!why && atomic_load(&all->done_count) < ITEMS)
        why = ts_now_ms() < end ? take_some(w) : "not all were done";
    return why;
}

/* Each item is held by one worker at a time and done once; those of a group one after the other. */
void test_a_queue_from_every_node(void)
{
    static queue_record all;
    all = (queue_record){.name = ts_name("queue")};
    cluster_all_work(WORKERS, &all, work);
    assert_int_equal(atomic_load(&all.done_count), ITEMS);
}

static rowlock_item *take_one(rowlock_client *client, const char *name, int64_t ttl_ms)
{
    const rowlock_take_options options = {.wait_ms = SOON_MS, .ttl_ms = ttl_ms};
    rowlock_item *item = NULL;
    WANT(OK, rowlock_queue_take(client, name, &options, &item, &ts_err));
    return item;
}

/* The first worker ends without an answer; the next one has a higher token, and the first one's
 * late answer changes nothing. */
void test_an_item_is_delivered_again_at_another_node(void)
{
    const char *name = ts_name("again");
    TS_CLIENT *first = cluster_open(1);
    TS_CLIENT *second = cluster_open(2);
    WANT(OK, rowlock_queue_put(first, name, "a", 1, NULL, NULL, &ts_err));
    rowlock_item *item = take_one(first, name, 2000);
    const uint64_t id = rowlock_item_id(item);
    const uint64_t token = rowlock_item_token(item);
    rowlock_item_forget(item);
    rowlock_item *again = take_one(second, name, TTL);
    assert_true(rowlock_item_id(again) == id && rowlock_item_token(again) > token);
    assert_int_equal(rowlock_item_attempt(again), 2);
    cluster_use(1);
    TS_MYSQL *own = sql_at(1);
    SOON(cluster_so(own, "(SELECT token FROM queue_item WHERE id = %" PRIu64 ") > %" PRIu64, id,
                    token));
    ts_sql(own, "BEGIN");
    WANT(LOST, rowlock_tx_queue_done(first, own, name, id, token, &ts_err));
    ts_sql(own, "ROLLBACK");
    WANT(OK, rowlock_item_done(again, &ts_err));
    /* Refused: an item that another node puts meanwhile would belong to no name. */
    WANT(UNSUPPORTED, rowlock_purge(second, name, &ts_err));
    assert_non_null(strstr(ts_err.message, "may be put at another node"));
    WANT(OK, rowlock_queue_put(first, name, "b", 1, NULL, NULL, &ts_err));
}
