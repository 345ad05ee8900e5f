/* Queues: an item is delivered to one worker at a time, until it is done. */
#include "rowlock/rowlock_queue.h"

#include "conformance/clients.h"

static uint64_t put_with(const char *queue, const char *payload, rowlock_put_options options)
{
    uint64_t id = 0;
    WANT(OK, rowlock_queue_put(client, queue, payload, strlen(payload), &options, &id, &ts_err));
    assert_true(id > 0);
    return id;
}

static uint64_t put(const char *queue, const char *payload)
{
    return put_with(queue, payload, (rowlock_put_options){.delay_ms = 0});
}

static rowlock_item *take_for(rowlock_client *from, const char *queue, int64_t ttl_ms)
{
    const rowlock_take_options options = {.ttl_ms = ttl_ms};
    rowlock_item *item = NULL;
    WANT(OK, rowlock_queue_take(from, queue, &options, &item, &ts_err));
    WANT(OK, rowlock_item_check(item, &ts_err));
    return item;
}

static rowlock_item *take(const char *queue)
{
    return take_for(client, queue, 30000);
}

static rowlock_status try_take(rowlock_client *from, const char *queue)
{
    rowlock_item *item = NULL;
    rowlock_status status = rowlock_queue_take(from, queue, NULL, &item, &ts_err);
    if (status == ROWLOCK_OK)
        WANT(OK, rowlock_item_release(item, &ts_err));
    return status;
}

static void takes(const char *queue, uint64_t id)
{
    rowlock_item *item = take(queue);
    assert_int_equal(rowlock_item_id(item), id);
    WANT(OK, rowlock_item_done(item, &ts_err));
}

static rowlock_queue_info counts(const char *queue)
{
    rowlock_queue_info info = {.depth = 0};
    WANT(OK, rowlock_queue_get(other, queue, &info, &ts_err));
    return info;
}

static void has(const char *queue, uint64_t ready, uint64_t in_flight, uint64_t delayed,
                uint64_t behind, uint64_t dead)
{
    const rowlock_queue_info info = counts(queue);
    assert_int_equal(info.ready, ready);
    assert_int_equal(info.in_flight, in_flight);
    assert_int_equal(info.delayed, delayed);
    assert_int_equal(info.behind, behind);
    assert_int_equal(info.dead, dead);
    assert_int_equal(info.depth, ready + in_flight + delayed + behind);
}

/* How many groups have a row. */
static uint64_t groups(const char *queue)
{
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM queue_group WHERE queue_id = %" PRIu64,
                      ts_id_of(mysql, queue));
}

static void expire(uint64_t id)
{
    ts_sql(mysql, "UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) WHERE id = %" PRIu64, id);
}

/* ------------------------------------------------------------------------- put and take */

TS_ONCE(test_an_item_is_what_was_put)
{
    const char *name = ts_name("bytes");
    char payload[256];
    for (int i = 0; i < 256; i++)
        payload[i] = (char)i;
    const rowlock_put_options options = {.key = "a key", .group = "a group", .priority = 7};
    uint64_t id = 0;
    WANT(OK, rowlock_queue_put(client, name, payload, 256, &options, &id, &ts_err));
    rowlock_item *item = take(name);
    assert_int_equal(rowlock_item_id(item), id);
    assert_int_equal(rowlock_item_size(item), 256);
    assert_memory_equal(rowlock_item_payload(item), payload, 256);
    assert_int_equal(((const char *)rowlock_item_payload(item))[256], 0);
    assert_string_equal(rowlock_item_queue(item), name);
    assert_string_equal(rowlock_item_key(item), "a key");
    assert_string_equal(rowlock_item_group(item), "a group");
    assert_int_equal(rowlock_item_priority(item), 7);
    assert_int_equal(rowlock_item_attempt(item), 1);
    assert_int_equal(rowlock_item_attempts(item), ROWLOCK_QUEUE_ATTEMPTS);
    assert_int_equal(rowlock_item_token(item), 1);
    assert_between(29000 - ts_slack_ms(), rowlock_item_remaining_ms(item), 30000);
    WANT(OK, rowlock_item_done(item, &ts_err));
    WANT(OK, rowlock_queue_put(client, name, NULL, 0, NULL, NULL, &ts_err));
    item = take(name);
    assert_int_equal(rowlock_item_size(item), 0);
    assert_string_equal(rowlock_item_key(item), "");
    assert_string_equal(rowlock_item_group(item), "");
    WANT(OK, rowlock_item_done(item, &ts_err));
    has(name, 0, 0, 0, 0, 0);
    WANT(BUSY, try_take(other, name));
}

TS_ONCE(test_the_largest_payload)
{
    const char *name = ts_name("large");
    char *payload = calloc(1, ROWLOCK_PAYLOAD_MAX + 1);
    assert_non_null(payload);
    memset(payload, 'x', ROWLOCK_PAYLOAD_MAX);
    WANT(OK, rowlock_queue_put(client, name, payload, ROWLOCK_PAYLOAD_MAX, NULL, NULL, &ts_err));
    rowlock_item *item = take(name);
    assert_int_equal(rowlock_item_size(item), ROWLOCK_PAYLOAD_MAX);
    assert_memory_equal(rowlock_item_payload(item), payload, ROWLOCK_PAYLOAD_MAX);
    WANT(OK, rowlock_item_done(item, &ts_err));
    WANT(INVALID,
         rowlock_queue_put(client, name, payload, ROWLOCK_PAYLOAD_MAX + 1, NULL, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, "1048577"));
    has(name, 0, 0, 0, 0, 0);
    free(payload);
}

/* Items are taken by priority, then by how long they have been ready. */
TS_ONCE(test_the_order)
{
    const char *name = ts_name("order");
    const uint64_t first = put(name, "1");
    const uint64_t second = put(name, "2");
    const uint64_t urgent = put_with(name, "3", (rowlock_put_options){.priority = 9});
    const uint64_t middle = put_with(name, "4", (rowlock_put_options){.priority = 1});
    takes(name, urgent);
    takes(name, middle);
    takes(name, first);
    takes(name, second);
}

/* An item that is put with a higher priority does not wait for all that are there: the whole queue
 * is searched again after 50 ms, or after 20 times what the last such search took. */
TS_ONCE(test_a_higher_priority_comes_soon)
{
    const char *name = ts_name("soon");
    uint64_t urgent = 0;
    for (int i = 0; i < 40; i++)
        put(name, "x");
    const int64_t start_ms = ts_now_ms();
    rowlock_item *first = take(name);
    const int64_t search_ms = ts_now_ms() - start_ms + 1; /* at most */
    WANT(OK, rowlock_item_done(first, &ts_err));
    urgent = put_with(name, "!", (rowlock_put_options){.priority = 3});
    ts_pass_ms(60 + 20 * search_ms);
    takes(name, urgent);
}

/* An item that is committed late, and so became ready before others that were taken since, is
 * taken. */
TS_ONCE(test_what_is_committed_late_is_taken)
{
    const char *name = ts_name("late");
    for (int i = 0; i < 3; i++)
        put(name, "x");
    const uint64_t early = put(name, "early");
    ts_sql(
        mysql,
        "UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE id = %" PRIu64,
        early);
    for (int i = 0; i < 3; i++)
        WANT(OK, rowlock_item_done(take(name), &ts_err));
    ts_sql(
        mysql,
        "UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) - INTERVAL 1 HOUR WHERE id = %" PRIu64,
        early);
    takes(name, early);
}

TS_ONCE(test_a_delay)
{
    const char *name = ts_name("delay");
    rowlock_item *item = NULL;
    const int64_t start_ms = ts_now_ms();
    put_with(name, "x", (rowlock_put_options){.delay_ms = 3000});
    const int64_t put_ms = ts_now_ms();
    WANT(BUSY, try_take(other, name));
    assert_between(1, counts(name).next_ms, 3000);
    assert_int_equal(counts(name).oldest_ms, -1);
    WANT(OK, rowlock_queue_take(client, name, &(rowlock_take_options){.wait_ms = 20000}, &item,
                                &ts_err));
    const int64_t now_ms = ts_now_ms();
    assert_true(now_ms - start_ms >= 2999);
    assert_between(0, now_ms - put_ms, 4000 + ts_slack_ms());
    WANT(OK, rowlock_item_done(item, &ts_err));
}

TS_ONCE(test_a_time)
{
    const char *name = ts_name("time");
    const uint64_t now_us =
        ts_sql_u64(mysql, "SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))");
    put_with(name, "later", (rowlock_put_options){.at_us = (int64_t)now_us + 3600000000});
    has(name, 0, 0, 1, 0, 0);
    assert_between(3590000, counts(name).next_ms, 3600000);
    const uint64_t past = put_with(name, "past", (rowlock_put_options){.at_us = 1});
    /* It is ready at once, not in 50 years. */
    assert_between(0, counts(name).oldest_ms, 10000 + ts_slack_ms());
    takes(name, past);
}

TS_ONCE(test_a_key)
{
    const char *name = ts_name("key");
    const uint64_t first = put_with(name, "1", (rowlock_put_options){.key = "k"});
    assert_int_equal(put_with(name, "2", (rowlock_put_options){.key = "k"}), first);
    const uint64_t another = put_with(name, "3", (rowlock_put_options){.key = "k2"});
    assert_true(another != first);
    has(name, 2, 0, 0, 0, 0);
    rowlock_item *item = take(name);
    assert_int_equal(rowlock_item_id(item), first);
    assert_int_equal(put_with(name, "4", (rowlock_put_options){.key = "k"}), first);
    WANT(OK, rowlock_item_dead(item, "bad", &ts_err));
    /* A dead item frees its key, and so does a done one. */
    const uint64_t second = put_with(name, "5", (rowlock_put_options){.key = "k"});
    assert_true(second != first);
    WANT(BUSY, rowlock_queue_requeue(client, name, first, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, "same key"));
    takes(name, another);
    takes(name, second);
    assert_true(put_with(name, "6", (rowlock_put_options){.key = "k"}) != second);
}

TS_ONCE(test_many_are_put_together)
{
    const char *name = ts_name("batch");
    const rowlock_put_options grouped = {.group = "g"};
    const rowlock_put_options keyed = {.key = "k"};
    const rowlock_put_entry entries[] = {{.payload = "1", .size = 1},
                                         {.payload = "2", .size = 1, .options = &grouped},
                                         {.payload = "3", .size = 1, .options = &grouped},
                                         {.payload = "4", .size = 1, .options = &keyed},
                                         {.payload = "5", .size = 1, .options = &keyed}};
    uint64_t ids[5] = {0};
    WANT(OK, rowlock_queue_put_batch(client, name, entries, 5, ids, &ts_err));
    for (int i = 1; i < 4; i++)
        assert_true(ids[i] > ids[i - 1]);
    assert_int_equal(ids[4], ids[3]);
    has(name, 3, 0, 0, 1, 0);
    for (int i = 0; i < 4; i++)
        takes(name, ids[i]);
    /* A batch is put as a whole or not at all. */
    const rowlock_put_options bad = {.priority = 10};
    const rowlock_put_entry not_all[] = {{.payload = "1", .size = 1},
                                         {.payload = "2", .size = 1, .options = &bad}};
    WANT(INVALID, rowlock_queue_put_batch(client, name, not_all, 2, NULL, &ts_err));
    has(name, 0, 0, 0, 0, 0);
}

/* Items without key and group are put together by one statement, each with its options. */
TS_ONCE(test_many_plain_ones_are_put_together)
{
    enum { COUNT = 27, KEYED = 9 };
    const char *name = ts_name("plain");
    rowlock_put_options options[COUNT] = {{.delay_ms = 0}};
    rowlock_put_entry entries[COUNT];
    uint64_t ids[COUNT] = {0};
    for (int i = 0; i < COUNT; i++) {
        options[i].priority = (unsigned)(i % 3);
        options[i].attempts = (unsigned)i + 1;
        options[i].delay_ms = i == 1 ? 3600000 : 0;
        options[i].at_us = i == 2 ? INT64_C(4102444800000000) : 0; /* 2100 */
        entries[i] = (rowlock_put_entry){.payload = &ids[i], .options = &options[i]};
        entries[i].size = (size_t)i % 8; /* bytes of zeros */
    }
    options[KEYED].key = "k";
    WANT(OK, rowlock_queue_put_batch(client, name, entries, COUNT, ids, &ts_err));
    for (int i = 1; i < COUNT; i++)
        assert_true(ids[i] > ids[i - 1]);
    has(name, COUNT - 2, 0, 2, 0, 0);
    assert_int_equal(
        ts_sql_u64(mysql, "SELECT YEAR(ready_at) FROM queue_item WHERE id = %" PRIu64, ids[2]),
        2100);
    for (int n = 0; n < COUNT; n++) {
        const int want = 2 - n / 9 + n % 9 * 3; /* the highest priority first */
        if (want == 1 || want == 2)
            continue;
        rowlock_item *item = take(name);
        assert_int_equal(rowlock_item_id(item), ids[want]);
        assert_int_equal(rowlock_item_size(item), want % 8);
        assert_int_equal(rowlock_item_attempts(item), want + 1);
        assert_int_equal(rowlock_item_priority(item), want % 3);
        WANT(OK, rowlock_item_done(item, &ts_err));
    }
    has(name, 0, 0, 2, 0, 0);
}

TS_ONCE(test_many_are_taken_together)
{
    const char *name = ts_name("many");
    rowlock_item *items[8] = {NULL};
    size_t count = 0;
    uint64_t ids[5];
    for (int i = 0; i < 5; i++)
        ids[i] = put(name, "x");
    WANT(OK, rowlock_queue_take_batch(client, name, 3, NULL, items, &count, &ts_err));
    assert_int_equal(count, 3);
    size_t more = 0;
    WANT(OK, rowlock_queue_take_batch(other, name, 5, NULL, items + 3, &more, &ts_err));
    assert_int_equal(more, 2);
    for (int i = 0; i < 5; i++)
        assert_int_equal(rowlock_item_id(items[i]), ids[i]);
    has(name, 0, 5, 0, 0, 0);
    WANT(INVALID, rowlock_item_done_batch(items, 5, NULL, &ts_err)); /* of two clients */
    /* One was delivered again; the others are done in any case. */
    rowlock_status statuses[3];
    ts_sql(mysql, "UPDATE queue_item SET token = token + 1 WHERE id = %" PRIu64, ids[1]);
    WANT(LOST, rowlock_item_done_batch(items, 3, statuses, &ts_err));
    assert_int_equal(statuses[0], ROWLOCK_OK);
    assert_int_equal(statuses[1], ROWLOCK_LOST);
    assert_int_equal(statuses[2], ROWLOCK_OK);
    WANT(OK, rowlock_item_done_batch(items + 3, 2, NULL, &ts_err));
    has(name, 0, 1, 0, 0, 0);
}

/* -------------------------------------------------------------------------- while it is held */

TS_ONCE(test_an_item_is_kept)
{
    const char *name = ts_name("kept");
    put(name, "x");
    rowlock_item *item = take_for(client, name, TS_KEPT_TTL);
    for (int64_t end = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < end; ts_pass_ms(20)) {
        WANT(OK, rowlock_item_check(item, &ts_err));
        WANT(BUSY, try_take(other, name));
    }
    WANT(OK, rowlock_item_done(item, &ts_err));
}

typedef struct loss {
    atomic_int times;
    rowlock_item *item;
} loss;

static void on_lost(void *data, rowlock_item *item, const char *reason)
{
    loss *l = data;
    assert_true(*reason);
    l->item = item;
    atomic_fetch_add(&l->times, 1);
}

/* A worker whose item is taken away is told by the next renewal, for each way to lose it. */
TS_ONCE(test_an_item_is_lost)
{
    const char *name = ts_name("lost");
    loss told = {.item = NULL};
    const rowlock_take_options options = {
        .ttl_ms = TS_KEPT_TTL, .on_lost = on_lost, .on_lost_data = &told};
    const uint64_t id = put(name, "x");
    rowlock_item *item = NULL;
    rowlock_item *next = NULL;
    WANT(OK, rowlock_queue_take(client, name, &options, &item, &ts_err));
    const int fd = rowlock_item_fd(item);
    assert_false(readable(fd));
    ts_sql(mysql, "UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) WHERE id = %" PRIu64, id);
    WANT(OK, rowlock_queue_take(other, name, NULL, &next, &ts_err));
    assert_int_equal(rowlock_item_attempt(next), 2);
    assert_int_equal(rowlock_item_token(next), 2);
    assert_true(POLL_UNTIL(atomic_load(&told.times) == 1, 10000));
    assert_ptr_equal(told.item, item);
    assert_true(readable(fd));
    WANT(LOST, rowlock_item_check(item, &ts_err));
    assert_int_equal(rowlock_item_remaining_ms(item), 0);
    WANT(LOST, rowlock_item_extend(item, 30000, &ts_err));
    WANT(LOST, rowlock_item_done(item, &ts_err));
    WANT(OK, rowlock_item_done(next, &ts_err));
}

/* All calls that end an item name its token, so a late one changes nothing. */
TS_ONCE(test_who_comes_late_changes_nothing)
{
    const char *name = ts_name("comes-late");
    put(name, "x");
    for (int way = 0; way < 4; way++) {
        rowlock_item *item = take(name);
        expire(rowlock_item_id(item));
        rowlock_item *next = take_for(other, name, 30000);
        switch (way) {
        case 0:
            WANT(LOST, rowlock_item_done(item, &ts_err));
            break;
        case 1:
            WANT(LOST, rowlock_item_retry(item, NULL, &ts_err));
            break;
        case 2:
            WANT(LOST, rowlock_item_dead(item, "x", &ts_err));
            break;
        default:
            WANT(LOST, rowlock_item_release(item, &ts_err));
        }
        has(name, 0, 1, 0, 0, 0);
        WANT(OK, rowlock_item_release(next, &ts_err));
    }
}

TS_ONCE(test_a_lease_is_extended)
{
    const char *name = ts_name("extend");
    put(name, "x");
    rowlock_item *item = take_for(client, name, 2000);
    WANT(OK, rowlock_item_extend(item, 60000, &ts_err));
    assert_between(58000 - ts_slack_ms(), rowlock_item_remaining_ms(item), 60000);
    assert_between(50,
                   ts_sql_u64(mysql,
                              "SELECT TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), ready_at)"
                              " FROM queue_item WHERE id = %" PRIu64,
                              rowlock_item_id(item)),
                   60);
    WANT(OK, rowlock_item_done(item, &ts_err));
}

static uint64_t minutes_left(const rowlock_item *item)
{
    return ts_sql_u64(mysql,
                      "SELECT TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(6), ready_at)"
                      " FROM queue_item WHERE id = %" PRIu64,
                      rowlock_item_id(item));
}

static void *extend(void *data)
{
    rowlock_error err;
    rowlock_status status = ROWLOCK_BUSY; /* it has waited for the row for a second */
    while (status == ROWLOCK_BUSY)
        status = rowlock_item_extend(data, 60000, &err);
    assert_int_equal(status, ROWLOCK_OK);
    return NULL;
}

/* The item's row is locked until both statements wait for it. */
static void extend_twice_at_once(rowlock_item *item)
{
    TS_MYSQL *own = ts_connect(ts_schema());
    pthread_t threads[2];
    ts_sql(own, "BEGIN");
    ts_sql(own, "SELECT * FROM queue_item WHERE id = %" PRIu64 " FOR UPDATE",
           rowlock_item_id(item));
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, extend, item), 0);
    assert_true(POLL_UNTIL(ts_row_waiters(mysql, "queue_item") == 2, 8000));
    ts_sql(own, "ROLLBACK");
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
}

/* Neither by a late renewal, nor by two threads that extend it: the worker would not know in time.
 * The keeper goes on with the client's other holds. */
TS_ONCE(test_a_lease_is_never_shortened)
{
    const char *name = ts_name("shorten");
    TS_CLIENT *own = ts_open();
    put(name, "1");
    put(name, "2");
    rowlock_item *extended = take_for(own, name, 30000);
    rowlock_item *item = take_for(own, name, TS_KEPT_TTL);
    extend_twice_at_once(extended);
    ts_sql(mysql,
           "UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"
           " WHERE id = %" PRIu64,
           rowlock_item_id(item));
    for (int64_t end = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < end; ts_pass_ms(20))
        WANT(OK, rowlock_item_check(item, &ts_err));
    assert_between(50, minutes_left(item), 60); /* it was renewed meanwhile */
    WANT(OK, rowlock_item_extend(item, 1000, &ts_err));
    assert_between(50, minutes_left(item), 60);
    WANT(OK, rowlock_item_done(item, &ts_err));
    WANT(OK, rowlock_item_done(extended, &ts_err));
}

static int64_t cpu_ms(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return used.tv_sec * 1000 + used.tv_nsec / 1000000;
}

/* A process that has not taken the item ends it by its id and token. */
TS_ONCE(test_an_item_that_another_process_holds)
{
    const char *name = ts_name("held");
    const char *lease = ts_name("lease");
    TS_MYSQL *own = ts_connect(ts_schema());
    TS_CLIENT *hasty = ts_open_as((rowlock_client_options){.connect_timeout_ms = 2000});
    rowlock_item *same = NULL;
    const uint64_t id = put_with(
        name, "x", (rowlock_put_options){.key = "k", .group = "g", .priority = 3, .attempts = 7});
    rowlock_item *item = take_for(other, name, 30000);
    const uint64_t token = rowlock_item_token(item);
    WANT(OK, ts_try(client, lease, ROWLOCK_OPTIMISTIC));
    WANT(MODE, rowlock_queue_held(client, lease, id, token, &same, &ts_err));
    WANT(NOT_FOUND, rowlock_queue_held(client, ts_name("none"), id, token, &same, &ts_err));
    WANT(LOST, rowlock_queue_held(client, name, id, token + 1, &same, &ts_err));
    WANT(LOST, rowlock_queue_held(client, name, id + 1000000, token, &same, &ts_err));
    WANT(INVALID, rowlock_queue_held(client, name, id, token, NULL, &ts_err));
    assert_null(same);
    WANT(OK, rowlock_queue_held(hasty, name, id, token, &same, &ts_err));
    assert_int_equal(rowlock_item_id(same), id);
    assert_int_equal(rowlock_item_token(same), token);
    assert_int_equal(rowlock_item_attempt(same), 1);
    assert_int_equal(rowlock_item_attempts(same), 7);
    assert_int_equal(rowlock_item_priority(same), 3);
    assert_int_equal(rowlock_item_size(same), 0);
    assert_string_equal(rowlock_item_key(same), "k");
    assert_string_equal(rowlock_item_group(same), "g");
    assert_between(1, rowlock_item_remaining_ms(same), 30000);
    /* It is not renewed before it is extended; an item that is not extended costs nothing. */
    ts_sql(own, "BEGIN");
    ts_sql(own, "SELECT * FROM queue_item WHERE id = %" PRIu64 " FOR UPDATE", id);
    WANT(BUSY, rowlock_item_extend(same, 60000, &ts_err));
    const int64_t used_ms = cpu_ms();
    ts_pass_ms(400);
    assert_true(cpu_ms() - used_ms < 200);
    ts_sql(own, "ROLLBACK");
    WANT(OK, rowlock_item_extend(same, 3600000, &ts_err));
    assert_between(50, minutes_left(same), 60);
    WANT(OK, rowlock_item_check(item, &ts_err));
    WANT(OK, rowlock_item_done(same, &ts_err));
    WANT(LOST, rowlock_item_done(item, &ts_err));
    WANT(LOST, rowlock_queue_held(client, name, id, token, &same, &ts_err));
}

/* An item that another transaction has locked is not renewed, and delays no other one. */
TS_ONCE(test_a_locked_item_keeps_no_other_from_being_renewed)
{
    const char *name = ts_name("locked");
    TS_MYSQL *own = ts_connect(ts_schema());
    const uint64_t id = put(name, "1");
    put(name, "2");
    rowlock_item *locked = take_for(client, name, TS_KEPT_TTL);
    rowlock_item *free_one = take_for(client, name, TS_KEPT_TTL);
    rowlock_hold *lease = ts_take(client, ts_name("beside"), ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    ts_sql(own, "BEGIN");
    ts_sql(own, "SELECT * FROM queue_item WHERE id = %" PRIu64 " FOR UPDATE", id);
    for (int64_t end = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < end; ts_pass_ms(3)) {
        const bool over = ts_sql_u64(mysql,
                                     "SELECT ready_at <= UTC_TIMESTAMP(6) FROM queue_item"
                                     " WHERE id = %" PRIu64,
                                     id) != 0;
        WANT(OK, rowlock_item_check(free_one, &ts_err));
        assert_held(lease);
        /* Its worker is told first. */
        if (over)
            WANT(LOST, rowlock_item_check(locked, &ts_err));
    }
    WANT(BUSY, try_take(other, name));
    WANT(LOST, rowlock_item_check(locked, &ts_err));
    ts_sql(own, "ROLLBACK");
    WANT(LOST, rowlock_item_done(locked, &ts_err));
    WANT(OK, rowlock_item_done(free_one, &ts_err));
    WANT(OK, rowlock_release(lease, &ts_err));
    takes(name, id);
}

/* ----------------------------------------------------------------------- retry, dead, requeue */

TS_ONCE(test_a_retry)
{
    const char *name = ts_name("retry");
    const uint64_t id = put_with(name, "x", (rowlock_put_options){.attempts = 2});
    rowlock_item *item = take(name);
    WANT(OK,
         rowlock_item_retry(
             item, &(rowlock_retry_options){.reason = "no\nroute", .delay_ms = 3600000}, &ts_err));
    has(name, 0, 0, 1, 0, 0);
    expire(id);
    item = take(name);
    assert_int_equal(rowlock_item_attempt(item), 2);
    /* It was the last attempt. */
    WANT(OK, rowlock_item_retry(item, &(rowlock_retry_options){.reason = "still"}, &ts_err));
    has(name, 0, 0, 0, 0, 1);
    rowlock_items *list = NULL;
    WANT(OK,
         rowlock_items_get(other, name, &(rowlock_items_options){.dead = true}, &list, &ts_err));
    assert_int_equal(rowlock_items_count(list), 1);
    const rowlock_item_info *info = rowlock_items_at(list, 0);
    assert_int_equal(info->id, id);
    assert_int_equal(info->state, ROWLOCK_ITEM_DEAD);
    assert_string_equal(info->error, "still");
    assert_int_equal(info->attempt, 2);
    assert_int_equal(info->size, 1);
    assert_null(rowlock_items_at(list, 1));
    rowlock_items_free(list);
}

/* 1 s, doubled each time; up to a half of it is random. */
TS_ONCE(test_the_backoff)
{
    const char *name = ts_name("backoff");
    const uint64_t id = put(name, "x");
    int64_t most_ms = 1000;
    for (int i = 0; i < 14; i++) {
        rowlock_item *item = take(name);
        WANT(OK, rowlock_item_retry(item, NULL, &ts_err));
        const int64_t left_us = (int64_t)ts_sql_u64(
            mysql,
            "SELECT GREATEST(0, TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), ready_at))"
            " FROM queue_item WHERE id = %" PRIu64,
            id);
        assert_between(most_ms / 2 - 300 - ts_slack_ms(), left_us / 1000, most_ms);
        most_ms = most_ms * 2 > 3600000 ? 3600000 : most_ms * 2;
        expire(id);
    }
}

/* Its workers die; the take after its last attempt makes it dead. */
TS_ONCE(test_a_crash_loop_ends)
{
    const char *name = ts_name("crash");
    const uint64_t id = put_with(name, "x", (rowlock_put_options){.attempts = 2, .group = "g"});
    const uint64_t next = put_with(name, "y", (rowlock_put_options){.group = "g"});
    for (int i = 0; i < 2; i++) {
        rowlock_item *item = take(name);
        assert_int_equal(rowlock_item_id(item), id);
        rowlock_item_forget(item);
        expire(id);
    }
    /* The next item of its group is delivered. */
    rowlock_item *item = NULL;
    WANT(OK, rowlock_queue_take(client, name, &(rowlock_take_options){.wait_ms = 10000}, &item,
                                &ts_err));
    assert_int_equal(rowlock_item_id(item), next);
    has(name, 0, 1, 0, 0, 1);
    WANT(OK, rowlock_item_done(item, &ts_err));
    has(name, 0, 0, 0, 0, 1);
    assert_int_equal(ts_sql_u64(mysql, "SELECT attempts FROM queue_item WHERE id = %" PRIu64, id),
                     2);
}

TS_ONCE(test_a_release_is_no_attempt)
{
    const char *name = ts_name("release");
    put_with(name, "x", (rowlock_put_options){.attempts = 1});
    for (int i = 0; i < 3; i++) {
        rowlock_item *item = take(name);
        assert_int_equal(rowlock_item_attempt(item), 1);
        assert_int_equal(rowlock_item_token(item), i + 1);
        WANT(OK, rowlock_item_release(item, &ts_err));
    }
    has(name, 1, 0, 0, 0, 0);
}

TS_ONCE(test_a_client_that_is_closed_gives_its_items_back)
{
    const char *name = ts_name("closed");
    put(name, "x");
    rowlock_client *own = ts_open();
    (void)take_for(own, name, 60000);
    has(name, 0, 1, 0, 0, 0);
    rowlock_client_close(own);
    has(name, 1, 0, 0, 0, 0);
}

TS_ONCE(test_dead_ones_are_made_ready_again)
{
    const char *name = ts_name("requeue");
    uint64_t ids[3];
    uint64_t count = 0;
    for (int i = 0; i < 3; i++)
        ids[i] = put(name, "x");
    for (int i = 0; i < 3; i++)
        WANT(OK, rowlock_item_dead(take(name), NULL, &ts_err));
    WANT(OK, rowlock_queue_requeue(client, name, ids[1], &count, &ts_err));
    assert_int_equal(count, 1);
    has(name, 1, 0, 0, 0, 2);
    rowlock_item *item = take(name);
    assert_int_equal(rowlock_item_id(item), ids[1]);
    assert_int_equal(rowlock_item_attempt(item), 1);
    assert_int_equal(rowlock_item_token(item), 3);
    WANT(OK, rowlock_queue_requeue(client, name, 0, &count, &ts_err));
    assert_int_equal(count, 2);
    /* A requeue of an item in flight takes it from its worker. */
    WANT(OK, rowlock_queue_requeue(other, name, ids[1], &count, &ts_err));
    WANT(LOST, rowlock_item_done(item, &ts_err));
    has(name, 3, 0, 0, 0, 0);
    WANT(NOT_FOUND, rowlock_queue_requeue(client, name, ids[2] + 1000, &count, &ts_err));
}

TS_ONCE(test_items_are_purged)
{
    const char *name = ts_name("purge");
    uint64_t count = 7;
    for (int i = 0; i < 3; i++)
        put(name, "x");
    const uint64_t first = put_with(name, "g", (rowlock_put_options){.group = "g"});
    const uint64_t second = put_with(name, "g", (rowlock_put_options){.group = "g"});
    put_with(name, "g", (rowlock_put_options){.group = "g"});
    WANT(OK, rowlock_item_dead(take(name), NULL, &ts_err));
    WANT(OK, rowlock_queue_purge(client, name, &(rowlock_queue_purge_options){.older_ms = 3600000},
                                 &count, &ts_err));
    assert_int_equal(count, 0);
    WANT(OK, rowlock_queue_purge(client, name, NULL, &count, &ts_err));
    assert_int_equal(count, 1);
    has(name, 3, 0, 0, 2, 0);
    /* The head of a group, then a later item. */
    WANT(OK, rowlock_queue_purge(client, name, &(rowlock_queue_purge_options){.id = first}, &count,
                                 &ts_err));
    has(name, 3, 0, 0, 1, 0);
    WANT(OK, rowlock_queue_purge(client, name, &(rowlock_queue_purge_options){.id = second}, NULL,
                                 &ts_err));
    has(name, 3, 0, 0, 0, 0);
    WANT(NOT_FOUND, rowlock_queue_purge(client, name, &(rowlock_queue_purge_options){.id = first},
                                        NULL, &ts_err));
    rowlock_item *item = take(name);
    WANT(BUSY, rowlock_purge(client, name, &ts_err));
    WANT(OK, rowlock_queue_purge(client, name, &(rowlock_queue_purge_options){.all = true}, &count,
                                 &ts_err));
    assert_int_equal(count, 3);
    WANT(LOST, rowlock_item_done(item, &ts_err));
    assert_int_equal(groups(name), 0);
    WANT(OK, rowlock_purge(client, name, &ts_err));
    WANT(NOT_FOUND, rowlock_queue_purge(client, name, NULL, NULL, &ts_err));
    /* The queue is made again when it is used again, also by a client that knows it. */
    for (int i = 0; i < 2; i++) {
        put(name, "again");
        WANT(OK, try_take(other, name));
        WANT(OK, rowlock_queue_purge(other, name, &(rowlock_queue_purge_options){.all = true}, NULL,
                                     &ts_err));
        WANT(OK, rowlock_purge(other, name, &ts_err));
    }
}

/* --------------------------------------------------------------------------------- groups */

TS_ONCE(test_a_group_is_delivered_one_by_one)
{
    const char *name = ts_name("group");
    uint64_t a[3];
    uint64_t b = 0;
    for (int i = 0; i < 3; i++)
        a[i] = put_with(name, "a", (rowlock_put_options){.group = "a"});
    b = put_with(name, "b", (rowlock_put_options){.group = "b"});
    has(name, 2, 0, 0, 2, 0);
    rowlock_item *first = take(name);
    assert_int_equal(rowlock_item_id(first), a[0]);
    takes(name, b);
    WANT(BUSY, try_take(other, name));
    /* Its retry delays the others. */
    WANT(OK, rowlock_item_retry(first, &(rowlock_retry_options){.delay_ms = 3600000}, &ts_err));
    WANT(BUSY, try_take(other, name));
    expire(a[0]);
    takes(name, a[0]);
    rowlock_item *second = take(name);
    assert_int_equal(rowlock_item_id(second), a[1]);
    WANT(OK, rowlock_item_dead(second, NULL, &ts_err));
    takes(name, a[2]);
    assert_int_equal(groups(name), 0);
    /* After the requeue it has its old place. */
    const uint64_t later = put_with(name, "a", (rowlock_put_options){.group = "a"});
    const uint64_t last = put_with(name, "a", (rowlock_put_options){.group = "a"});
    WANT(OK, rowlock_queue_requeue(client, name, a[1], NULL, &ts_err));
    has(name, 1, 0, 0, 2, 0);
    takes(name, later);
    takes(name, a[1]);
    takes(name, last);
}

typedef struct requeuing {
    const char *queue;
    uint64_t id;
    rowlock_status status;
} requeuing;

static void *requeue(void *data)
{
    requeuing *r = data;
    r->status = rowlock_queue_requeue(client, r->queue, r->id, NULL, NULL);
    return NULL;
}

/* The item was alive at the look of the operator's call, and is dead, with the next one of its
 * group alive, when the call changes it: it waits for its turn. */
TS_ONCE(test_requeued_while_its_worker_buries_it)
{
    const char *name = ts_name("requeue-bury");
    TS_MYSQL *own = ts_connect(ts_schema());
    const rowlock_put_options options = {.group = "g"};
    requeuing r = {.queue = name, .id = put_with(name, "1", options)};
    const uint64_t next = put_with(name, "2", options);
    pthread_t thread;
    rowlock_item_forget(take(name));
    ts_sql(own, "BEGIN"); /* as rowlock_item_dead() */
    ts_sql(own, "UPDATE queue_item SET state = 'dead', grave = id, taken = 0 WHERE id = %" PRIu64,
           r.id);
    assert_int_equal(pthread_create(&thread, NULL, requeue, &r), 0);
    assert_true(ts_row_waits(mysql, "queue_item", 10000) > 0);
    ts_sql(own, "UPDATE queue_group SET head = %" PRIu64 " WHERE head = %" PRIu64, next, r.id);
    ts_sql(own, "UPDATE queue_item SET state = 'alive' WHERE id = %" PRIu64, next);
    ts_sql(own, "COMMIT");
    pthread_join(thread, NULL);
    assert_int_equal(r.status, ROWLOCK_OK);
    has(name, 1, 0, 0, 1, 0);
    takes(name, next);
    takes(name, r.id);
}

static void take_two(const char *queue)
{
    const rowlock_take_options options = {.ttl_ms = TS_KEPT_TTL};
    rowlock_item *items[2];
    size_t count = 0;
    WANT(OK, rowlock_queue_take_batch(other, queue, 2, &options, items, &count, &ts_err));
    assert_int_equal(count, 1);
    WANT(OK, rowlock_item_done(items[0], &ts_err));
}

/* A take that does not wait makes all of them dead, and gets the one behind them. */
TS_ONCE(test_used_up_before_another)
{
    const char *name = ts_name("used-up-before");
    uint64_t crashed[5];
    for (int i = 0; i < 5; i++) {
        crashed[i] = put_with(name, "x", (rowlock_put_options){.attempts = 1});
        rowlock_item_forget(take(name));
    }
    for (int i = 0; i < 5; i++)
        expire(crashed[i]);
    put(name, "y");
    WANT(OK, try_take(other, name));
    has(name, 1, 0, 0, 0, 5);
}

/* A batch's take meets an item that is used up, and whose group is locked: that keeps neither the
 * other items nor the caller waiting. A later take makes it dead. */
TS_ONCE(test_used_up_beside_others)
{
    const char *name = ts_name("used-up");
    TS_MYSQL *own = ts_connect(ts_schema());
    const uint64_t crashed =
        put_with(name, "1", (rowlock_put_options){.group = "g", .attempts = 1});
    put(name, "2");
    rowlock_item_forget(take(name));
    expire(crashed);
    ts_sql(own, "BEGIN");
    ts_sql(own, "SELECT * FROM queue_group FOR UPDATE");
    const int64_t start_ms = ts_now_ms();
    take_two(name);
    assert_between(0, ts_now_ms() - start_ms, 5000 + ts_slack_ms());
    has(name, 0, 1, 0, 0, 0);
    ts_sql(own, "ROLLBACK");
    expire(crashed);
    WANT(BUSY, try_take(other, name));
    has(name, 0, 0, 0, 0, 1);
}

/* If the first item of a group is used up, a take makes it dead and gets the next. */
TS_ONCE(test_a_used_up_head_of_a_group)
{
    const char *name = ts_name("used-up-head");
    const rowlock_put_options options = {.group = "g", .attempts = 1};
    rowlock_list *list = NULL;
    const uint64_t head = put_with(name, "1", options);
    const uint64_t next = put_with(name, "2", options);
    rowlock_item_forget(take(name));
    expire(head);
    has(name, 1, 0, 0, 1, 0);
    assert_int_equal(counts(name).next_ms, 0);
    assert_between(0, counts(name).oldest_ms, 10000 + ts_slack_ms());
    WANT(OK, rowlock_list_one(other, name, &list, &ts_err));
    assert_int_equal(rowlock_list_at(list, 0)->ready, 1);
    assert_int_equal(rowlock_list_at(list, 0)->dead, 0);
    assert_between(0, rowlock_list_at(list, 0)->oldest_ms, 10000 + ts_slack_ms());
    rowlock_list_free(list);
    takes(name, next);
    has(name, 0, 0, 0, 0, 1);
    assert_int_equal(counts(name).next_ms, -1);
}

typedef struct purging {
    const char *queue;
    uint64_t count;
    rowlock_status status;
} purging;

static void *purge_dead(void *data)
{
    purging *p = data;
    p->status =
        rowlock_queue_purge(other, p->queue, &(rowlock_queue_purge_options){0}, &p->count, NULL);
    return NULL;
}

/* A late worker gives a used-up item back while dead items are purged. */
TS_ONCE(test_purged_while_its_worker_gives_it_back)
{
    const char *name = ts_name("purge-release");
    TS_MYSQL *own = ts_connect(ts_schema());
    purging p = {.queue = name, .count = 7};
    pthread_t thread;
    const uint64_t id = put_with(name, "x", (rowlock_put_options){.attempts = 1});
    rowlock_item_forget(take(name));
    expire(id);
    has(name, 0, 0, 0, 0, 1);
    ts_sql(own, "BEGIN"); /* as rowlock_item_release() */
    ts_sql(own, "UPDATE queue_item SET taken = 0, attempts = 0 WHERE id = %" PRIu64, id);
    assert_int_equal(pthread_create(&thread, NULL, purge_dead, &p), 0);
    assert_true(ts_row_waits(mysql, "queue_item", 10000) > 0);
    ts_sql(own, "COMMIT");
    pthread_join(thread, NULL);
    assert_int_equal(p.status, ROWLOCK_OK);
    assert_int_equal(p.count, 0);
    takes(name, id);
}

/* A put with a key that another group has leaves nothing behind. */
TS_ONCE(test_a_key_of_another_group)
{
    const char *name = ts_name("key-group");
    const uint64_t id = put_with(name, "x", (rowlock_put_options){.key = "k", .group = "one"});
    assert_int_equal(put_with(name, "y", (rowlock_put_options){.key = "k", .group = "two"}), id);
    assert_int_equal(groups(name), 1);
    takes(name, id);
}

/* The next call waits for a transaction that puts: a put sees the item before it, and the end of an
 * item the one after it. */
TS_ONCE(test_a_put_under_way_strands_nothing)
{
    const char *name = ts_name("strand");
    TS_MYSQL *own = ts_connect(ts_schema());
    const rowlock_put_options options = {.group = "g"};
    const uint64_t first = put_with(name, "1", options);
    rowlock_item *item = take(name);
    uint64_t second = 0;
    ts_sql(own, "BEGIN");
    WANT(OK, rowlock_tx_queue_put(client, own, name, "2", 1, &options, &second, &ts_err));
    /* Its own client's limit is 10 s. */
    TS_CLIENT *hasty = ts_open_as((rowlock_client_options){.connect_timeout_ms = 3000});
    WANT(BUSY, rowlock_queue_put(hasty, name, "3", 1, &options, NULL, &ts_err));
    ts_sql(own, "COMMIT");
    has(name, 0, 1, 0, 1, 0);
    assert_int_equal(rowlock_item_id(item), first);
    WANT(OK, rowlock_item_done(item, &ts_err));
    takes(name, second);
    has(name, 0, 0, 0, 0, 0);
}

/* --------------------------------------------------------------------------------- waiting */

typedef struct worker {
    rowlock_client *from;
    const char *queue;
    int64_t wait_ms;
    rowlock_cancel *cancel;
    pthread_t thread;
    atomic_bool ended;
    rowlock_status status;
    rowlock_error err;
    uint64_t id;
    int64_t ended_ms;
} worker;

static void *work(void *data)
{
    worker *w = data;
    const rowlock_take_options options = {.wait_ms = w->wait_ms, .cancel = w->cancel};
    rowlock_item *item = NULL;
    w->status = rowlock_queue_take(w->from, w->queue, &options, &item, &w->err);
    w->ended_ms = ts_now_ms();
    if (w->status == ROWLOCK_OK) {
        w->id = rowlock_item_id(item);
        w->status = rowlock_item_done(item, &w->err);
    }
    atomic_store(&w->ended, true);
    return NULL;
}

static worker *start(rowlock_client *from, const char *queue, int64_t wait_ms,
                     rowlock_cancel *cancel)
{
    worker *w = calloc(1, sizeof *w);
    assert_non_null(w);
    *w = (worker){.from = from, .queue = queue, .wait_ms = wait_ms, .cancel = cancel};
    assert_int_equal(pthread_create(&w->thread, NULL, work, w), 0);
    return w;
}

static rowlock_status ended(worker *w, uint64_t *id, int64_t *at_ms)
{
    assert_true(POLL_UNTIL(atomic_load(&w->ended), 20000));
    pthread_join(w->thread, NULL);
    const rowlock_status status = w->status;
    ts_err = w->err;
    if (id)
        *id = w->id;
    if (at_ms)
        *at_ms = w->ended_ms;
    free(w);
    return status;
}

TS_ONCE(test_a_wait_ends)
{
    const char *name = ts_name("wait");
    TS_CANCEL *cancel = ts_cancel();
    rowlock_item *item = NULL;
    const rowlock_take_options brief = {.wait_ms = 1000};
    WANT_WITHIN(TIMEOUT, 1000, 1100, rowlock_queue_take(client, name, &brief, &item, &ts_err));
    assert_null(item);
    ASSERT_SAYS("had an item that was ready",
                rowlock_queue_take(client, name, &brief, &item, &ts_err));
    worker *w = start(other, name, ROWLOCK_WAIT_FOREVER, cancel);
    assert_true(
        POLL_UNTIL(ts_in_queue(mysql, name) > 0 || ts_bell_holder(mysql, name) != 0, 10000));
    rowlock_cancel_fire(cancel);
    WANT(CANCELLED, ended(w, NULL, NULL));
    WANT(CANCELLED, rowlock_queue_take(client, name, &(rowlock_take_options){.cancel = cancel},
                                       &item, &ts_err));
}

/* All waiters soon get an item each, threads of one client and separate clients. */
TS_ONCE(test_all_who_wait_are_served)
{
    enum { WORKERS = 6 };
    const char *name = ts_name("served");
    worker *workers[WORKERS];
    uint64_t ids[WORKERS];
    uint64_t sum = 0;
    uint64_t got = 0;
    put(name, "x");
    WANT(OK, rowlock_item_done(take(name), &ts_err));
    for (int i = 0; i < WORKERS; i++)
        workers[i] = start(i % 2 ? client : other, name, 30000, NULL);
    ts_pass_ms(100);
    const int64_t put_ms = ts_now_ms();
    for (int i = 0; i < WORKERS; i++)
        sum += ids[i] = put(name, "x");
    for (int i = 0; i < WORKERS; i++) {
        uint64_t id = 0;
        int64_t at_ms = 0;
        WANT(OK, ended(workers[i], &id, &at_ms));
        /* A second for each that may have been served before. */
        assert_between(0, at_ms - put_ms, 1000 * WORKERS + ts_slack_ms());
        got += id;
    }
    assert_int_equal(sum, got);
    has(name, 0, 0, 0, 0, 0);
}

/* A thread of the server looks for an idle worker. */
static bool is_watched(void)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM " TS_PROCESSLIST " WHERE db = '%s'"
                      " AND command = 'Execute' AND info LIKE 'WITH RECURSIVE w%%'",
                      ts_schema()) > 0;
}

/* An item that is put while the server looks for the first in line, in one statement, is seen by
 * that statement: the next one would come after 240 ms. (A busy machine delays some. If it stands
 * still, a late round does not count.) */
static void is_seen_while_watched(const char *name, int64_t delay_ms)
{
    enum { ROUNDS = 40, SOON = 150, ENOUGH = 2, TOO_MANY = -6 };
    int lead = 0;
    for (int i = 0; i < ROUNDS && lead > TOO_MANY && lead < ENOUGH; i++) {
        int64_t at_ms = 0;
        worker *w = start(other, name, 60000, NULL);
        assert_true(POLL_UNTIL(!is_watched(), 10000));
        assert_true(POLL_UNTIL(is_watched(), 60000));
        const int64_t stood_ms = ts_stood_ms();
        const int64_t ready_ms = ts_now_ms() + delay_ms;
        put_with(name, "x", (rowlock_put_options){.delay_ms = delay_ms});
        WANT(OK, ended(w, NULL, &at_ms));
        if (at_ms - ready_ms < SOON)
            lead++;
        else if (ts_stood_ms() == stood_ms)
            lead--;
    }
    assert_true(lead > TOO_MANY);
}

TS_ONCE(test_the_server_looks_for_who_is_idle)
{
    const char *name = ts_name("watched");
    is_seen_while_watched(name, 0);
    is_seen_while_watched(name, 300);
    /* Also beside an item that will not be ready for long, which the search passes over. */
    put_with(name, "later", (rowlock_put_options){.delay_ms = 3600000});
    is_seen_while_watched(name, 0);
}

/* The call ends as soon as any other. */
TS_ONCE(test_cancelled_while_the_server_looks)
{
    const char *name = ts_name("watch-cancelled");
    rowlock_cancel *cancel = NULL;
    int64_t at_ms = 0;
    WANT(OK, rowlock_cancel_new(&cancel, &ts_err));
    worker *w = start(other, name, ROWLOCK_WAIT_FOREVER, cancel);
    assert_true(POLL_UNTIL(is_watched(), 60000));
    const int64_t fired_ms = ts_now_ms();
    rowlock_cancel_fire(cancel);
    WANT(CANCELLED, ended(w, NULL, &at_ms));
    assert_between(0, at_ms - fired_ms, 100 + ts_slack_ms());
    rowlock_cancel_free(cancel);
}

/* For longer than the moment between two of its statements, which look for 240 ms each. */
static bool is_watched_no_more(void)
{
    if (is_watched())
        return false;
    ts_pass_ms(30);
    return !is_watched();
}

/* It sees an item that is not committed, and does not take it. */
TS_ONCE(test_a_put_that_is_not_committed)
{
    const char *name = ts_name("uncommitted");
    TS_MYSQL *own = ts_connect(ts_schema());
    rowlock_error err = {0};
    uint64_t id = 0;
    uint64_t taken = 0;
    takes(name, put(name, "first"));
    worker *w = start(other, name, 60000, NULL);
    assert_true(POLL_UNTIL(is_watched(), 60000));
    ts_sql(own, "BEGIN");
    WANT(OK, rowlock_tx_queue_put(client, own, name, "x", 1, NULL, &id, &err));
    assert_true(POLL_UNTIL(is_watched_no_more(), 10000));
    assert_false(atomic_load(&w->ended));
    ts_sql(own, "COMMIT");
    WANT(OK, ended(w, &taken, NULL));
    assert_int_equal(taken, id);
}

/* Or its host has vanished: when it does not take a ready item, the others do not wait for it. Nor
 * in the line of a name that was purged meanwhile. */
TS_ONCE(test_the_first_in_line_is_stopped)
{
    for (int purged = 0; purged < 2; purged++) {
        const char *name = ts_name("first-stopped");
        TS_MYSQL *first = ts_connect(ts_schema());
        uint64_t id = 0;
        takes(name, put(name, "x"));
        ts_take_bell(first, name);
        worker *w = start(other, name, 60000, NULL);
        assert_true(POLL_UNTIL(ts_in_queue(mysql, name) > 0, 10000));
        if (purged)
            WANT(OK, rowlock_purge(client, name, &ts_err));
        const uint64_t ready = put(name, "y");
        WANT(OK, ended(w, &id, NULL));
        assert_int_equal(id, ready);
    }
}

/* --------------------------------------------------------------------- two at the same time */

typedef struct rival {
    const char *queue;
    pthread_t thread;
    unsigned done;
    rowlock_status status;
} rival;

static void *compete(void *data)
{
    rival *r = data;
    rowlock_client *own = ts_open();
    for (r->status = ROWLOCK_OK; r->status == ROWLOCK_OK;) {
        rowlock_item *item = NULL;
        rowlock_error err = {0};
        r->status = rowlock_queue_take(own, r->queue, NULL, &item, &err);
        if (r->status == ROWLOCK_OK)
            r->status = rowlock_item_done(item, &err);
        r->done += r->status == ROWLOCK_OK;
    }
    rowlock_client_close(own);
    return NULL;
}

TS_ONCE(test_each_item_is_done_once)
{
    enum { RIVALS = 4, ITEMS = 200 };
    const char *name = ts_name("rivals");
    rival rivals[RIVALS];
    unsigned done = 0;
    for (int i = 0; i < ITEMS; i++)
        put_with(name, "x", (rowlock_put_options){.priority = (unsigned)i % 3});
    for (int i = 0; i < RIVALS; i++) {
        rivals[i] = (rival){.queue = name};
        assert_int_equal(pthread_create(&rivals[i].thread, NULL, compete, &rivals[i]), 0);
    }
    for (int i = 0; i < RIVALS; i++) {
        pthread_join(rivals[i].thread, NULL);
        assert_int_equal(rivals[i].status, ROWLOCK_BUSY);
        done += rivals[i].done;
    }
    assert_int_equal(done, ITEMS);
    has(name, 0, 0, 0, 0, 0);
}

/* ------------------------------------------------------------------------------- bad input */

static void is_refused(rowlock_put_options options)
{
    WANT(INVALID, rowlock_queue_put(client, "refused", "x", 1, &options, NULL, &ts_err));
}

TS_ONCE(test_bad_input_of_a_put)
{
    char long_key[ROWLOCK_NAME_MAX + 2];
    memset(long_key, 'k', sizeof long_key - 1);
    long_key[sizeof long_key - 1] = '\0';
    WANT(INVALID, rowlock_queue_put(NULL, "refused", "x", 1, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_queue_put(client, NULL, "x", 1, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_queue_put(client, "", "x", 1, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_queue_put(client, "refused ", "x", 1, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_queue_put(client, "refused", NULL, 1, NULL, NULL, &ts_err));
    is_refused((rowlock_put_options){.priority = 10});
    is_refused((rowlock_put_options){.delay_ms = -1});
    is_refused((rowlock_put_options){.delay_ms = ROWLOCK_QUEUE_DELAY_MAX_MS + 1});
    is_refused((rowlock_put_options){.at_us = -1});
    is_refused((rowlock_put_options){.at_us = INT64_C(253402300800000000)});
    is_refused((rowlock_put_options){.at_us = 1, .delay_ms = 1});
    is_refused((rowlock_put_options){.key = ""});
    is_refused((rowlock_put_options){.key = "a\nb"});
    is_refused((rowlock_put_options){.key = long_key});
    is_refused((rowlock_put_options){.group = " g"});
    is_refused((rowlock_put_options){.group = "\xff"});
    is_refused((rowlock_put_options){.attempts = ROWLOCK_QUEUE_ATTEMPTS_MAX + 1});
    const rowlock_put_entry entry = {.payload = "x", .size = 1};
    WANT(INVALID, rowlock_queue_put_batch(client, "refused", &entry, 0, NULL, &ts_err));
    WANT(INVALID, rowlock_queue_put_batch(client, "refused", &entry, 1001, NULL, &ts_err));
    WANT(INVALID, rowlock_queue_put_batch(client, "refused", NULL, 1, NULL, &ts_err));
    rowlock_queue_info info;
    WANT(NOT_FOUND, rowlock_queue_get(client, "refused", &info, &ts_err));
}

TS_ONCE(test_bad_input_of_a_worker)
{
    const char *name = ts_name("bad");
    rowlock_item *item = NULL;
    size_t count = 0;
    put(name, "x");
    WANT(INVALID, rowlock_queue_take(client, name, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_queue_take(NULL, name, NULL, &item, &ts_err));
    WANT(INVALID,
         rowlock_queue_take(client, name, &(rowlock_take_options){.ttl_ms = 1}, &item, &ts_err));
    WANT(INVALID, rowlock_queue_take_batch(client, name, 0, NULL, &item, &count, &ts_err));
    WANT(INVALID, rowlock_queue_take_batch(client, name, 1001, NULL, &item, &count, &ts_err));
    WANT(INVALID, rowlock_queue_take_batch(client, name, 1, NULL, NULL, &count, &ts_err));
    WANT(INVALID, rowlock_queue_take_batch(client, name, 1, NULL, &item, NULL, &ts_err));
    WANT(INVALID, rowlock_item_done(NULL, &ts_err));
    WANT(INVALID, rowlock_item_retry(NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_item_dead(NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_item_release(NULL, &ts_err));
    WANT(INVALID, rowlock_item_extend(NULL, 1000, &ts_err));
    WANT(INVALID, rowlock_item_check(NULL, &ts_err));
    WANT(INVALID, rowlock_item_done_batch(&item, 0, NULL, &ts_err));
    WANT(INVALID, rowlock_item_done_batch(NULL, 1, NULL, &ts_err));
    rowlock_item_forget(NULL);
    assert_int_equal(rowlock_item_id(NULL), 0);
    assert_int_equal(rowlock_item_fd(NULL), -1);
    assert_int_equal(rowlock_item_remaining_ms(NULL), 0);
    item = take(name);
    WANT(INVALID, rowlock_item_extend(item, 1, &ts_err));
    WANT(INVALID, rowlock_item_retry(item, &(rowlock_retry_options){.delay_ms = -1}, &ts_err));
    rowlock_item *twice[2] = {item, NULL};
    WANT(INVALID, rowlock_item_done_batch(twice, 2, NULL, &ts_err));
    WANT(OK, rowlock_item_done(item, &ts_err));
}

TS_ONCE(test_bad_input_of_an_operator)
{
    rowlock_queue_info info;
    rowlock_items *items = NULL;
    const char *lease = ts_name("a-lease");
    const char *name = ts_name("a-queue");
    WANT(OK, ts_try(client, lease, ROWLOCK_OPTIMISTIC));
    put(name, "x");
    WANT(MODE, rowlock_queue_put(client, lease, "x", 1, NULL, NULL, &ts_err));
    WANT(MODE, try_take(client, lease));
    WANT(MODE, rowlock_queue_get(client, lease, &info, &ts_err));
    WANT(MODE, rowlock_items_get(client, lease, NULL, &items, &ts_err));
    WANT(MODE, rowlock_queue_requeue(client, lease, 0, NULL, &ts_err));
    WANT(MODE, rowlock_queue_purge(client, lease, NULL, NULL, &ts_err));
    WANT(MODE, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    WANT(MODE, ts_try(client, name, ROWLOCK_PESSIMISTIC));
    WANT(UNSUPPORTED, rowlock_break(client, name, NULL, &ts_err));
    WANT(MODE, rowlock_ask(client, name, NULL, &ts_err));
    WANT(INVALID, rowlock_queue_get(client, name, NULL, &ts_err));
    WANT(INVALID, rowlock_items_get(client, name, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_items_get(client, name, &(rowlock_items_options){.limit = 100001}, &items,
                                    &ts_err));
    WANT(INVALID, rowlock_queue_purge(client, name, &(rowlock_queue_purge_options){.older_ms = -1},
                                      NULL, &ts_err));
    WANT(NOT_FOUND, rowlock_queue_requeue(client, "never used", 0, NULL, &ts_err));
    WANT(NOT_FOUND, rowlock_items_get(client, "never used", NULL, &items, &ts_err));
    assert_null(items);
    rowlock_items_free(NULL);
    assert_int_equal(rowlock_items_count(NULL), 0);
    assert_null(rowlock_items_at(NULL, 0));
}

TS_ONCE(test_a_queue_is_listed)
{
    const char *name = ts_name("listed");
    rowlock_list *list = NULL;
    put(name, "1");
    put(name, "2");
    put(name, "3");
    rowlock_item *item = take(name);
    WANT(OK, rowlock_item_dead(take(name), NULL, &ts_err));
    WANT(OK, rowlock_list_one(other, name, &list, &ts_err));
    const rowlock_info *info = rowlock_list_at(list, 0);
    assert_int_equal(info->kind, ROWLOCK_KIND_QUEUE);
    assert_int_equal(info->state, ROWLOCK_HELD);
    assert_int_equal(info->token, 0);
    assert_int_equal(info->depth, 2);
    assert_int_equal(info->ready, 1);
    assert_int_equal(info->in_flight, 1);
    assert_int_equal(info->dead, 1);
    assert_between(0, info->oldest_ms, 10000 + ts_slack_ms());
    rowlock_list_free(list);
    WANT(OK, rowlock_list_get(other, &(rowlock_list_options){.prefix = name}, &list, &ts_err));
    assert_int_equal(rowlock_list_count(list), 1);
    rowlock_list_free(list);
    WANT(OK, rowlock_item_done(item, &ts_err));
    rowlock_items *items = NULL;
    WANT(OK, rowlock_items_get(other, name, &(rowlock_items_options){.limit = 1}, &items, &ts_err));
    assert_int_equal(rowlock_items_count(items), 1);
    assert_int_equal(rowlock_items_at(items, 0)->state, ROWLOCK_ITEM_READY);
    rowlock_items_free(items);
}

TS_ONCE(test_dead_items_are_swept)
{
    const char *name = ts_name("swept");
    rowlock_sweep_result result = {.expired = 0};
    const uint64_t first = put(name, "x");
    put(name, "x");
    put(name, "x");
    for (int i = 0; i < 3; i++)
        WANT(OK, rowlock_item_dead(take(name), NULL, &ts_err));
    put_with(name, "used up", (rowlock_put_options){.attempts = 1});
    put_with(name, "first of its group", (rowlock_put_options){.attempts = 1, .group = "g"});
    rowlock_item_forget(take(name));
    rowlock_item_forget(take(name));
    put(name, "alive");
    ts_sql(mysql,
           "UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) - INTERVAL 2 HOUR"
           " WHERE queue_id = %" PRIu64 " AND id > %" PRIu64,
           ts_id_of(mysql, name), first);
    WANT(OK, rowlock_sweep(client, NULL, &result, &ts_err));
    assert_int_equal(result.dead_items, 0);
    has(name, 2, 0, 0, 0, 4);
    WANT(OK, rowlock_sweep(client, &(rowlock_sweep_options){.dead_items_ms = 3600000}, &result,
                           &ts_err));
    assert_int_equal(result.dead_items, 3);
    has(name, 2, 0, 0, 0, 1);
}

/* The doctor's findings on this queue. */
typedef struct said {
    const char *queue;
    unsigned late;
    unsigned dead;
} said;

static void note_finding(void *data, const rowlock_finding *finding)
{
    said *s = data;
    const bool of_it = strcmp(finding->check, "queue") == 0 && strstr(finding->found, s->queue);
    if (!of_it)
        return;
    const unsigned long count = strtoul(strstr(finding->found, " has ") + 5, NULL, 10);
    *(finding->level == ROWLOCK_CARE ? &s->late : &s->dead) = (unsigned)count;
}

TS_ONCE(test_the_doctor_looks_at_queues)
{
    const char *name = ts_name("doctor");
    const rowlock_client_options options = ts_options();
    said s = {.queue = name};
    put(name, "dead");
    WANT(OK, rowlock_item_dead(take(name), NULL, &ts_err));
    const uint64_t used_up = put_with(name, "used up", (rowlock_put_options){.attempts = 1});
    rowlock_item_forget(take(name));
    const uint64_t id = put(name, "late");
    put(name, "soon");
    WANT(OK, rowlock_diagnose(&options, 0, note_finding, &s, &ts_err));
    assert_int_equal(s.late, 0);
    assert_int_equal(s.dead, 1);
    ts_sql(mysql,
           "UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6) - INTERVAL 6 MINUTE"
           " WHERE id IN (%" PRIu64 ", %" PRIu64 ")",
           used_up, id);
    WANT(OK, rowlock_diagnose(&options, 0, note_finding, &s, &ts_err));
    assert_int_equal(s.late, 1);
    assert_int_equal(s.dead, 2);
}

TS_MAIN("queue", open_clients, close_clients)
