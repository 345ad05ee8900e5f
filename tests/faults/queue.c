/*
 * Queues when a statement or its reply is lost, or somebody stops it. After each fault: an item was
 * put once, is held by one worker, and has ended as reported; or the caller was told that the
 * outcome is unknown.
 */
#include "faults/through.h"
#include "rowlock/rowlock_queue.h"

enum { DEADLOCKED = 1213 };

static rowlock_status put(rowlock_client *client, const char *queue, const char *group)
{
    const rowlock_put_options options = {.group = group};
    return rowlock_queue_put(client, queue, "x", 1, &options, NULL, &ts_err);
}

static rowlock_item *take(rowlock_client *client, const char *queue)
{
    const rowlock_take_options options = {.wait_ms = 20000, .ttl_ms = 60000};
    rowlock_item *item = NULL;
    WANT(OK, rowlock_queue_take(client, queue, &options, &item, &ts_err));
    return item;
}

/* "alive 1 0" for each item: its state, how often it was taken, whether a worker has it. */
static void queue_is(const char *queue, const char *wanted)
{
    char *got = ts_sql_text(
        mysql,
        "SELECT COALESCE(GROUP_CONCAT(CONCAT_WS(' ', i.state, i.attempts, i.taken) ORDER BY i.id), "
        "'')"
        " FROM queue_item i JOIN resource r ON r.id = i.queue_id WHERE r.resource_name = %s",
        ts_quote(queue));
    assert_string_equal(got, wanted);
    free(got);
}

/* Prepares the client's statements, also on a connection without autocommit. */
static void warm_up(rowlock_client *client)
{
    const char *name = ts_name("warm");
    rowlock_item *items[3] = {NULL};
    size_t count = 0;
    for (int i = 0; i < 8; i++)
        WANT(OK, put(client, name, i % 2 ? "g" : NULL));
    WANT(OK, rowlock_item_done(take(client, name), &ts_err));
    WANT(OK, rowlock_item_done(take(client, name), &ts_err));
    WANT(OK, rowlock_item_retry(take(client, name), NULL, &ts_err));
    WANT(OK, rowlock_item_release(take(client, name), &ts_err));
    WANT(OK, rowlock_item_dead(take(client, name), NULL, &ts_err));
    WANT(OK, put(client, name, NULL));
    WANT(OK, put(client, name, NULL));
    WANT(OK, rowlock_queue_take_batch(client, name, 2, NULL, items, &count, &ts_err));
    WANT(OK, rowlock_item_done_batch(items, count, NULL, &ts_err));
    WANT(OK, rowlock_queue_requeue(client, name, 0, NULL, &ts_err));
    WANT(OK, rowlock_queue_purge(client, name, &(rowlock_queue_purge_options){.all = true}, NULL,
                                 &ts_err));
}

static void arm(ts_fault fault, const char *step)
{
    ts_proxy_arm(proxy, fault, step, 1, false);
}

/* ------------------------------------------------------------------------------------ put */

/* An item that is there was put once. If there is none, it was not put, or is done already: that
 * cannot be told. */
TS_ONCE(test_a_put)
{
    TS_CLIENT *client = open_patient();
    warm_up(client);
    for (int i = 0; i < 2; i++) {
        const char *name = ts_name("put");
        arm(lost[i], "queue_put");
        if (lost[i] == TS_LOSE_REPLY)
            WANT(OK, put(client, name, NULL));
        else
            WANT(UNKNOWN, put(client, name, NULL));
        happened();
        queue_is(name, lost[i] == TS_LOSE_REPLY ? "alive 0 0" : "");
    }
}

/* An item that no worker can have taken yet is there, or was not put. */
TS_ONCE(test_a_put_with_a_delay)
{
    TS_CLIENT *client = open_patient();
    const rowlock_put_options later = {.delay_ms = 3600000};
    warm_up(client);
    for (int i = 0; i < 2; i++) {
        const char *name = ts_name("delay");
        uint64_t id = 0;
        arm(lost[i], "queue_put");
        WANT(OK, rowlock_queue_put(client, name, "x", 1, &later, &id, &ts_err));
        happened();
        assert_true(id > 0);
        queue_is(name, "alive 0 0");
    }
}

TS_ONCE(test_a_put_into_a_group)
{
    static const char *const steps[] = {"queue_group_enter", "queue_put_grouped",
                                        "queue_group_head", "row_commit"};
    TS_CLIENT *client = open_patient();
    warm_up(client);
    for (int i = 0; i < 8; i++) {
        const char *name = ts_name("group");
        const bool unknown = i == 7;
        WANT(OK, put(client, name, NULL)); /* makes the name, which would be a COMMIT, too */
        arm(lost[i % 2], steps[i / 2]);
        if (unknown)
            WANT(UNKNOWN, put(client, name, "g"));
        else
            WANT(OK, put(client, name, "g"));
        happened();
        WANT(OK, put(direct, name, "g"));
        queue_is(name, unknown ? "alive 0 0,alive 0 0" : "alive 0 0,alive 0 0,behind 0 0");
    }
}

/* ----------------------------------------------------------------------------------- take */

TS_ONCE(test_a_take)
{
    static const char *const steps[] = {"queue_ready queue_ready_from", "queue_take", "row_commit"};
    TS_CLIENT *client = open_patient();
    warm_up(client);
    for (int i = 0; i < 6; i++) {
        const char *name = ts_name("take");
        WANT(OK, put(direct, name, NULL));
        arm(lost[i % 2], steps[i / 2]);
        rowlock_item *item = take(client, name);
        happened();
        assert_int_equal(rowlock_item_token(item), 1);
        queue_is(name, "alive 1 1");
        WANT(OK, rowlock_item_done(item, &ts_err));
        queue_is(name, "");
    }
}

TS_ONCE(test_a_take_of_many)
{
    static const char *const steps[] = {"queue_ready queue_ready_from", "queue_take_batch",
                                        "row_commit"};
    TS_CLIENT *client = open_patient();
    const rowlock_take_options options = {.wait_ms = 20000, .ttl_ms = 60000};
    warm_up(client);
    for (int i = 0; i < 6; i++) {
        const char *name = ts_name("many");
        rowlock_item *items[3] = {NULL};
        size_t count = 0;
        for (int k = 0; k < 3; k++)
            WANT(OK, put(direct, name, NULL));
        arm(lost[i % 2], steps[i / 2]);
        WANT(OK, rowlock_queue_take_batch(client, name, 3, &options, items, &count, &ts_err));
        happened();
        assert_int_equal(count, 3);
        queue_is(name, "alive 1 1,alive 1 1,alive 1 1");
        arm(lost[i % 2], i / 2 ? "row_commit" : "queue_done_batch");
        WANT(OK, rowlock_item_done_batch(items, count, NULL, &ts_err));
        happened();
        queue_is(name, "");
    }
}

typedef struct vanishing {
    rowlock_client *client;
    const char *queue;
} vanishing;

static void *take_and_vanish(void *data)
{
    const vanishing *v = data;
    const rowlock_take_options options = {.wait_ms = 10000};
    rowlock_item *item = NULL;
    (void)!rowlock_queue_take(v->client, v->queue, &options, &item, NULL);
    assert_null(item);
    return NULL;
}

/* A host that vanishes inside a take, when it has locked the item and not yet written it: the
 * server gives up on it after 20 s. */
TS_ONCE(test_a_host_that_vanishes_in_its_take)
{
    TS_CLIENT *client = open_patient();
    vanishing v = {.client = client, .queue = ts_name("vanish")};
    const rowlock_take_options patient = {.wait_ms = 40000};
    rowlock_item *item = NULL;
    pthread_t thread;
    warm_up(client);
    WANT(OK, put(direct, v.queue, NULL));
    ts_proxy_arm(proxy, TS_DELAY_COMMAND, "queue_take", 1, false);
    assert_int_equal(pthread_create(&thread, NULL, take_and_vanish, &v), 0);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 20000));
    ts_proxy_stall(proxy, true);
    WANT_WITHIN(OK, 0, 25000, rowlock_queue_take(direct, v.queue, &patient, &item, &ts_err));
    assert_int_equal(rowlock_item_token(item), 1);
    WANT(OK, rowlock_item_done(item, &ts_err));
    pthread_join(thread, NULL);
    ts_proxy_flow(proxy);
}

/* ------------------------------------------------------------------------------------ end */

typedef enum way { DONE, RETRY, RELEASE, BURY, WAYS } way;

static rowlock_status end(rowlock_item *item, way how)
{
    const rowlock_retry_options later = {.delay_ms = 3600000, .reason = "r"};
    switch (how) {
    case DONE:
        return rowlock_item_done(item, &ts_err);
    case RETRY:
        return rowlock_item_retry(item, &later, &ts_err);
    case RELEASE:
        return rowlock_item_release(item, &ts_err);
    case BURY:
    case WAYS:
        break;
    }
    return rowlock_item_dead(item, "r", &ts_err);
}

static const char *const ends[] = {"queue_done", "queue_retry", "queue_release", "queue_bury"};
static const char *const after[] = {"", "alive 1 0", "alive 0 0", "dead 1 0"};

TS_ONCE(test_an_end)
{
    TS_CLIENT *client = open_patient();
    warm_up(client);
    for (int i = 0; i < 2 * WAYS; i++) {
        const char *name = ts_name("end");
        WANT(OK, put(direct, name, NULL));
        rowlock_item *item = take(client, name);
        arm(lost[i % 2], ends[i / 2]);
        WANT(OK, end(item, i / 2));
        happened();
        queue_is(name, after[i / 2]);
    }
}

/* The next item of the group is delivered once, whatever was lost. */
TS_ONCE(test_an_end_in_a_group)
{
    static const char *const steps[] = {"queue_done", "queue_group_lock", "queue_group_next",
                                        "queue_group_promote", "row_commit"};
    TS_CLIENT *client = open_patient();
    warm_up(client);
    for (int i = 0; i < 10; i++) {
        const char *name = ts_name("group-end");
        for (int k = 0; k < 3; k++)
            WANT(OK, put(direct, name, "g"));
        rowlock_item *item = take(client, name);
        arm(lost[i % 2], steps[i / 2]);
        WANT(OK, rowlock_item_done(item, &ts_err));
        happened();
        queue_is(name, "alive 0 0,behind 0 0");
        WANT(OK, rowlock_item_done(take(client, name), &ts_err));
        WANT(OK, rowlock_item_done(take(client, name), &ts_err));
        queue_is(name, "");
    }
}

/* Takes the item when its lease has expired, and lets the first worker's client reach the server
 * then. */
static void *next_worker(void *queue)
{
    WANT(OK, rowlock_item_done(take(direct, queue), &ts_err));
    ts_proxy_flow(proxy);
    return NULL;
}

/* The lease expires before the outcome of the end is known, and the next worker ends the item:
 * either may have done it. */
TS_ONCE(test_an_end_that_comes_too_late_to_tell)
{
    TS_CLIENT *client = open_patient();
    warm_up(client);
    const char *name = ts_name("too-late");
    rowlock_item *item = NULL;
    WANT(OK, put(direct, name, NULL));
    WANT(OK,
         rowlock_queue_take(client, name, &(rowlock_take_options){.ttl_ms = 1500}, &item, &ts_err));
    ts_proxy_arm(proxy, TS_LOSE_COMMAND, "queue_done", 1, true);
    /* The proxy refuses all connections until it flows again. */
    rowlock_error err = {0};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, next_worker, (void *)(uintptr_t)name), 0);
    rowlock_status status = rowlock_item_done(item, &err);
    pthread_join(thread, NULL);
    assert_int_equal(status, ROWLOCK_UNKNOWN);
    assert_non_null(strstr(err.message, "by a later one"));
    queue_is(name, "");
}

TS_ONCE(test_what_an_operator_does)
{
    TS_CLIENT *client = open_patient();
    warm_up(client);
    for (int i = 0; i < 4; i++) {
        const char *name = ts_name("operator");
        WANT(OK, put(direct, name, i < 2 ? NULL : "g"));
        rowlock_item *item = take(direct, name);
        const uint64_t id = rowlock_item_id(item);
        WANT(OK, rowlock_item_dead(item, NULL, &ts_err));
        arm(lost[i % 2], "row_commit");
        WANT(OK, rowlock_queue_requeue(client, name, id, NULL, &ts_err));
        happened();
        queue_is(name, "alive 0 0");
        assert_int_equal(ts_sql_u64(mysql, "SELECT token FROM queue_item WHERE id = %" PRIu64, id),
                         2);
        arm(lost[i % 2], "row_commit");
        WANT(OK, rowlock_queue_purge(client, name, &(rowlock_queue_purge_options){.id = id}, NULL,
                                     &ts_err));
        happened();
        queue_is(name, "");
    }
}

/* ------------------------------------------------------------- the server cannot be asked */

TS_ONCE(test_what_nobody_knows)
{
    TS_CLIENT *client = through_open_hasty();
    warm_up(client);
    const char *name = ts_name("unknown");
    rowlock_item *item = NULL;
    ts_proxy_arm(proxy, TS_LOSE_REPLY, "queue_put", 1, true);
    WANT(UNKNOWN, put(client, name, NULL));
    queue_is(name, "alive 0 0");
    ts_proxy_flow(proxy);
    ts_proxy_arm(proxy, TS_LOSE_REPLY, "row_commit", 1, true);
    WANT(UNKNOWN, rowlock_queue_take(client, name, &(rowlock_take_options){.ttl_ms = 60000}, &item,
                                     &ts_err));
    queue_is(name, "alive 1 1");
    ts_proxy_flow(proxy);
    ts_sql(mysql, "UPDATE queue_item SET ready_at = UTC_TIMESTAMP(6)");
    item = take(client, name);
    ts_proxy_arm(proxy, TS_LOSE_REPLY, "queue_extend", 1, true);
    WANT(UNKNOWN, rowlock_item_extend(item, 50000, &ts_err));
    ts_proxy_flow(proxy);
    WANT(OK, rowlock_item_check(item, &ts_err));
    ts_proxy_arm(proxy, TS_LOSE_REPLY, "queue_done", 1, true);
    WANT(UNKNOWN, rowlock_item_done(item, &ts_err));
    ts_proxy_flow(proxy);
    queue_is(name, "");
}

/* ------------------------------------------------------------------------------ KILL QUERY */

/* Each call is stopped: it is repeated, or nothing was changed. */
TS_ONCE(test_what_is_stopped)
{
    static const unsigned puts[] = {STOPPED, NOT_NULL, NOT_NULL};
    static const char *const takes[] = {"queue_ready queue_ready_from", "queue_take", "row_commit"};
    TS_CLIENT *client = open_patient();
    warm_up(client);
    for (int i = 0; i < 3; i++) {
        const char *name = ts_name("stopped");
        ts_proxy_answer(proxy, puts[i], i == 2 ? "queue_put_grouped" : "queue_put", 1);
        WANT(OK, put(client, name, i == 2 ? "g" : NULL));
        assert_int_equal(ts_proxy_answers_left(proxy), 0);
        ts_proxy_answer(proxy, STOPPED, takes[i], 1);
        rowlock_item *item = take(client, name);
        assert_int_equal(ts_proxy_answers_left(proxy), 0);
        queue_is(name, "alive 1 1");
        ts_proxy_answer(proxy, STOPPED, "queue_done", 1);
        WANT(OK, rowlock_item_done(item, &ts_err));
        assert_int_equal(ts_proxy_answers_left(proxy), 0);
        queue_is(name, "");
    }
    /* A deadlock does not mean that no item is ready: a take that does not wait tries again,
     * too. */
    const char *name = ts_name("deadlock");
    rowlock_item *item = NULL;
    WANT(OK, put(client, name, NULL));
    ts_proxy_answer(proxy, DEADLOCKED, "queue_take", 1);
    WANT(OK, rowlock_queue_take(client, name, NULL, &item, &ts_err));
    WANT(OK, rowlock_item_done(item, &ts_err));
    /* The same again, though the queue was found once more: it is the table's fault. */
    ts_proxy_answer(proxy, NOT_NULL, "queue_put", 2);
    WANT(DAMAGED, put(client, name, NULL));
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
    /* What changed no row, without an error, put or took nothing. */
    name = ts_name("no-row");
    ts_proxy_answer(proxy, 0, "queue_put", 1);
    WANT(OK, put(client, name, NULL));
    ts_proxy_answer(proxy, 0, "queue_take", 1);
    item = take(client, name);
    assert_int_equal(rowlock_item_token(item), 1);
    queue_is(name, "alive 1 1");
    WANT(OK, rowlock_item_done(item, &ts_err));
}

TS_MAIN("queue", through_begin, through_end)
