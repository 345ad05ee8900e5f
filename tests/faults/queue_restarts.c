/*
 * The server is killed and restarted while a queue is used: just before and just after each
 * statement of a call, and for longer than a worker's TTL. Afterwards everything is as reported;
 * nothing is lost, and nothing happens twice.
 */
#include "faults/restart.h"
#include "rowlock/rowlock_queue.h"

enum { BATCH = 3 };

/* --------------------------------------------------------- a call that is under way then */

typedef enum what {
    PUT,
    PUT_GROUPED,
    PUT_BATCH,
    TAKE,
    TAKE_BATCH,
    DONE,
    DONE_GROUPED,
    DONE_BATCH,
    RETRY,
    RELEASE,
    BURY,
    EXTEND,
    CALLS
} what;

typedef struct call {
    restart_call of;
    what what;
    rowlock_item *items[BATCH];
    size_t count;
    uint64_t ids[BATCH];
} call;

static rowlock_status put_batch(call *c)
{
    rowlock_put_entry entries[BATCH] = {{0}};
    for (int i = 0; i < BATCH; i++)
        entries[i] = (rowlock_put_entry){.payload = "batch", .size = 5};
    return rowlock_queue_put_batch(c->of.client, c->of.name, entries, BATCH, c->ids, &c->of.err);
}

static rowlock_status take(call *c, size_t most)
{
    const rowlock_take_options options = {.wait_ms = RESTART, .ttl_ms = LONG};
    return rowlock_queue_take_batch(c->of.client, c->of.name, most, &options, c->items, &c->count,
                                    &c->of.err);
}

static rowlock_status carry_out(restart_call *of)
{
    call *c = (call *)of;
    const rowlock_retry_options retry = {.delay_ms = LONG, .reason = "why"};
    const rowlock_put_options grouped = {.group = "g"};
    switch (c->what) {
    case PUT:
        return rowlock_queue_put(c->of.client, c->of.name, "one", 3, NULL, c->ids, &c->of.err);
    case PUT_GROUPED:
        return rowlock_queue_put(c->of.client, c->of.name, "one", 3, &grouped, c->ids, &c->of.err);
    case PUT_BATCH:
        return put_batch(c);
    case TAKE:
        return take(c, 1);
    case TAKE_BATCH:
        return take(c, BATCH);
    case DONE:
    case DONE_GROUPED:
        return rowlock_item_done(c->items[0], &c->of.err);
    case DONE_BATCH:
        return rowlock_item_done_batch(c->items, c->count, NULL, &c->of.err);
    case RETRY:
        return rowlock_item_retry(c->items[0], &retry, &c->of.err);
    case RELEASE:
        return rowlock_item_release(c->items[0], &c->of.err);
    case BURY:
        return rowlock_item_dead(c->items[0], "why", &c->of.err);
    case EXTEND:
        return rowlock_item_extend(c->items[0], 2L * LONG, &c->of.err);
    case CALLS:
        break;
    }
    return ROWLOCK_INVALID;
}

static void put(rowlock_client *client, const char *name, const char *payload, const char *group)
{
    const rowlock_put_options options = {.group = group};
    WANT(OK, rowlock_queue_put(client, name, payload, strlen(payload), &options, NULL, &ts_err));
}

/* A client that has prepared all of these statements. */
static rowlock_client *open_through(void)
{
    rowlock_client *client = open_patiently();
    const char *name = ts_name("warm");
    for (int kind = 0; kind < CALLS; kind++) {
        call c = {.of = {.carry_out = carry_out, .client = client, .name = name},
                  .what = PUT_BATCH};
        WANT(OK, carry_out(&c.of));
        put(client, name, "g", "g");
        put(client, name, "g", "g");
        c.what = TAKE_BATCH;
        WANT(OK, carry_out(&c.of));
        c.what = (unsigned)kind == EXTEND || kind < DONE ? RELEASE : (what)kind;
        if (kind >= DONE)
            WANT(OK, carry_out(&c.of));
    }
    return client;
}

/* The queue as text: each item's state, attempts and whether a worker has it. */
static char *how_it_is(const char *name)
{
    return ts_sql_text(
        mysql,
        "SELECT COALESCE(GROUP_CONCAT(CONCAT(i.payload, ' ', i.state, ' ', i.attempts,"
        " IF(i.taken = 1, ' taken', ''), IF(i.ready_at > UTC_TIMESTAMP(6), ' later', '')) "
        "ORDER BY i.id SEPARATOR '; '), '') FROM queue_item i JOIN resource r"
        " ON r.id = i.queue_id WHERE r.resource_name = %s",
        ts_quote(name));
}

static void assert_so(const char *name, const char *wanted)
{
    char *is = how_it_is(name);
    assert_string_equal(is, wanted);
    free(is);
}

/* ------------------------------------------------------------------------------ each of them */

typedef struct step {
    what what;
    const char *statements[5]; /* the deciding statements of the call */
    const char *before;        /* the items before: one or three, with or without a group */
    const char *after;         /* the queue afterwards */
} step;

#define THREE(state) "a " state "; b " state "; c " state

static const step steps[] = {
    {PUT, {"queue_put"}, "", "one alive 0"},
    {PUT_GROUPED,
     {"queue_group_enter", "queue_put_grouped", "queue_group_head", "row_commit"},
     "",
     "one alive 0"},
    {PUT_BATCH, {"queue_put", "row_commit"}, "", "batch alive 0; batch alive 0; batch alive 0"},
    {TAKE, {"queue_ready", "queue_take", "row_commit"}, "a", "a alive 1 taken later"},
    {TAKE_BATCH,
     {"queue_ready", "queue_take_batch", "row_commit"},
     "abc",
     THREE("alive 1 taken later")},
    {DONE, {"queue_done"}, "a", ""},
    {DONE_GROUPED,
     {"queue_done", "queue_group_next", "queue_group_promote", "row_commit"},
     "gabc",
     "b alive 0; c behind 0"},
    {DONE_BATCH, {"queue_done_batch", "row_commit"}, "abc", ""},
    {RETRY, {"queue_retry"}, "a", "a alive 1 later"},
    {RELEASE, {"queue_release"}, "a", "a alive 0"},
    {BURY, {"queue_bury"}, "a", "a dead 1"},
    {EXTEND, {"queue_extend"}, "a", "a alive 1 taken later"},
};

static void put_before(call *c, const step *s)
{
    const bool grouped = s->before[0] == 'g';
    for (const char *at = s->before + grouped; *at; at++)
        put(c->of.client, c->of.name, (const char[]){*at, 0}, grouped ? "g" : NULL);
    if (s->what < DONE)
        return;
    call taking = *c;
    taking.what = TAKE_BATCH;
    WANT(OK, carry_out(&taking.of));
    memcpy(c->items, taking.items, sizeof c->items);
    c->count = taking.count;
}

/* An item that was not ended still belongs to its worker. */
static void let_go(const call *c)
{
    const bool holds = c->what == TAKE || c->what == TAKE_BATCH || c->what == EXTEND;
    for (size_t i = 0; holds && i < c->count; i++) {
        WANT(OK, rowlock_item_check(c->items[i], &ts_err));
        WANT(OK, rowlock_item_done(c->items[i], &ts_err));
    }
}

/* A missing item may have been put and be done already: that cannot be told. */
static bool was_not_put(const call *c)
{
    if (c->what > PUT_BATCH || c->of.status != ROWLOCK_UNKNOWN)
        return false;
    WANT(UNKNOWN, c->of.status);
    assert_so(c->of.name, "");
    return true;
}

/* The call still succeeds. */
TS_ONCE(test_killed_at_each_statement)
{
    for (size_t s = 0; s < sizeof steps / sizeof steps[0]; s++) {
        for (unsigned i = 0; steps[s].statements[i / 2]; i++) {
            TS_CLIENT *client = open_through();
            call c = {.of = {.carry_out = carry_out, .client = client, .name = ts_name("step")},
                      .what = steps[s].what};
            put_before(&c, &steps[s]);
            killed_at(&c.of, sizeof c, steps[s].statements[i / 2], moments[i % 2], NULL);
            if (was_not_put(&c))
                continue;
            /* An extension with an unknown outcome is no loss: let_go() checks that. */
            if (c.what != EXTEND || c.of.status != ROWLOCK_UNKNOWN)
                WANT(OK, c.of.status);
            assert_so(c.of.name, steps[s].after);
            let_go(&c);
        }
    }
}

/* -------------------------------------------------------------------------- beside a worker */

static rowlock_item *take_one(rowlock_client *client, const char *name, int64_t ttl_ms)
{
    const rowlock_take_options options = {.wait_ms = RESTART, .ttl_ms = ttl_ms};
    rowlock_item *item = NULL;
    WANT(OK, rowlock_queue_take(client, name, &options, &item, &ts_err));
    return item;
}

/* The worker goes on, and its item is done once. */
TS_ONCE(test_a_worker_goes_on)
{
    const char *name = ts_name("goes-on");
    put(patient, name, "a", NULL);
    rowlock_item *item = take_one(patient, name, LONG);
    restart_server();
    WANT(OK, rowlock_item_check(item, &ts_err));
    WANT(OK, rowlock_item_extend(item, LONG, &ts_err));
    assert_so(name, "a alive 1 taken later");
    WANT(OK, rowlock_item_done(item, &ts_err));
    restart_server();
    assert_so(name, "");
}

/* The worker is told before anybody else has the item, and cannot end it any more. */
TS_ONCE(test_away_for_longer_than_its_ttl)
{
    const char *name = ts_name("away");
    put(patient, name, "a", NULL);
    rowlock_item *item = take_one(patient, name, SHORT);
    const uint64_t token = rowlock_item_token(item);
    ts_own_kill();
    assert_true(POLL_UNTIL(rowlock_item_check(item, &ts_err) == ROWLOCK_LOST, SHORT + 5000));
    ts_own_restart();
    ts_reconnect(&mysql);
    rowlock_item *again = take_one(patient, name, LONG);
    assert_true(rowlock_item_token(again) > token);
    assert_int_equal(rowlock_item_attempt(again), 2);
    WANT(LOST, rowlock_item_done(item, &ts_err));
    assert_so(name, "a alive 2 taken later");
    WANT(OK, rowlock_item_done(again, &ts_err));
    assert_so(name, "");
}

/* Put and done are part of the user's transaction: with the work, or not at all. */
TS_ONCE(test_killed_beside_transactions)
{
    for (unsigned i = 0; i < 2; i++) {
        const char *name = ts_name("transaction");
        put(patient, name, "a", NULL);
        rowlock_item *item = take_one(patient, name, LONG);
        MYSQL *own = ts_connect(ts_schema());
        ts_sql(own, "BEGIN");
        WANT(OK, rowlock_tx_queue_put(patient, own, name, "b", 1, NULL, NULL, &ts_err));
        WANT(OK, rowlock_tx_queue_done(patient, own, name, rowlock_item_id(item),
                                       rowlock_item_token(item), &ts_err));
        if (i == 1)
            ts_sql(own, "COMMIT");
        restart_server();
        mysql_close(own);
        assert_so(name, i ? "b alive 0" : "a alive 1 taken later");
        if (i == 1)
            rowlock_item_forget(item);
        else
            WANT(OK, rowlock_item_done(item, &ts_err));
    }
}

TS_MAIN("queue_restarts", restart_begin, restart_end)
