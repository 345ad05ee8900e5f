/* Latches: waiters go on when enough have counted. */
#include "rowlock/rowlock_latch.h"

#include "conformance/clients.h"

static uint64_t set_to(const char *name, unsigned count)
{
    uint64_t generation = 0;
    WANT(OK, rowlock_latch_set(client, name, count, &generation, &ts_err));
    assert_true(generation > 0);
    return generation;
}

static void down(const char *name, const char *key)
{
    WANT(OK, rowlock_latch_down(other, name, key, 0, &ts_err));
}

static rowlock_status look_at(const char *name, uint64_t generation)
{
    const rowlock_latch_options options = {.generation = generation};
    return rowlock_latch_wait(other, name, &options, NULL, &ts_err);
}

static rowlock_latch_info info_of(const char *name)
{
    rowlock_latch_info info = {.count = 0};
    WANT(OK, rowlock_latch_get(client, name, &info, &ts_err));
    return info;
}

static rowlock_hold *join_as(const char *name, int64_t ttl_ms, const char *key)
{
    const rowlock_latch_join_options options = {.ttl_ms = ttl_ms, .key = key};
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_latch_join(other, name, &options, &hold, &ts_err));
    assert_held(hold);
    return hold;
}

static rowlock_hold *join(const char *name, int64_t ttl_ms)
{
    return join_as(name, ttl_ms, NULL);
}

/* A wait in a thread of its own, which a failed test leaves behind. */
typedef struct waiting {
    rowlock_client *from;
    const char *name;
    rowlock_latch_options options;
    pthread_t thread;
    atomic_bool ended;
    rowlock_status status;
    rowlock_error err;
    uint64_t generation;
    int64_t ended_ms;
} waiting;

static void *wait_for_it(void *data)
{
    waiting *w = data;
    w->status = rowlock_latch_wait(w->from, w->name, &w->options, &w->generation, &w->err);
    w->ended_ms = ts_now_ms();
    atomic_store(&w->ended, true);
    return NULL;
}

static waiting *start_waiting(rowlock_client *from, const char *name, int64_t wait_ms)
{
    waiting *w = calloc(1, sizeof *w);
    assert_non_null(w);
    *w = (waiting){.from = from, .name = name, .options = {.wait_ms = wait_ms}};
    assert_int_equal(pthread_create(&w->thread, NULL, wait_for_it, w), 0);
    return w;
}

/* Its status, and when it ended. */
static rowlock_status ended(waiting *w, uint64_t *generation, int64_t *at_ms)
{
    assert_true(POLL_UNTIL(atomic_load(&w->ended), 20000));
    pthread_join(w->thread, NULL);
    rowlock_status status = w->status;
    ts_err = w->err;
    if (generation)
        *generation = w->generation;
    if (at_ms)
        *at_ms = w->ended_ms;
    free(w);
    return status;
}

/* Closed until enough have counted, and then open for all. */
TS_ONCE(test_opens)
{
    const char *name = ts_name("open");
    uint64_t opened = 0;
    rowlock_latch_info info;
    const uint64_t generation = set_to(name, 3);
    WANT(BUSY, look_at(name, 0));
    assert_non_null(strstr(ts_err.message, "0 of 3"));
    down(name, NULL);
    down(name, NULL);
    WANT(BUSY, look_at(name, 0));
    assert_non_null(strstr(ts_err.message, "2 of 3"));
    info = info_of(name);
    assert_int_equal(info.state, ROWLOCK_LATCH_ARMED);
    assert_int_equal(info.count, 3);
    assert_int_equal(info.down, 2);
    down(name, NULL);
    info = info_of(name);
    assert_int_equal(info.state, ROWLOCK_LATCH_OPEN);
    assert_int_equal(info.down, 3);
    WANT(OK, rowlock_latch_wait(other, name, NULL, &opened, &ts_err));
    assert_true(opened == generation);
    WANT(OK, look_at(name, generation));
    /* One more changes nothing. */
    down(name, NULL);
    info = info_of(name);
    assert_int_equal(info.state, ROWLOCK_LATCH_OPEN);
    assert_int_equal(info.down, 3);
    assert_true(info.generation == generation);
}

/* A count with a key counts once, however often it is made; without one, each time. */
TS_ONCE(test_keys)
{
    const char *name = ts_name("keys");
    set_to(name, 3);
    down(name, "shard-1");
    down(name, "shard-1");
    WANT(OK, rowlock_latch_down(client, name, "shard-1", 0, &ts_err));
    assert_int_equal(info_of(name).down, 1);
    down(name, "SHARD-1");
    down(name, "it's \"\\ %_ \xf0\x9f\x94\x92");
    WANT(OK, look_at(name, 0));
}

/* A wait begins before the latch is set; the last count ends all waits. */
TS_ONCE(test_waits)
{
    enum { WAITERS = 6 };
    const char *name = ts_name("waits");
    waiting *all[WAITERS];
    uint64_t opened = 0;
    int64_t at_ms = 0;
    for (int i = 0; i < WAITERS; i++)
        all[i] = start_waiting(i % 2 ? client : other, name, 60000);
    assert_true(
        POLL_UNTIL(ts_sql_u64(mysql, "SELECT COUNT(*) FROM resource WHERE resource_name = %s",
                              ts_quote(name)) == 1,
                   10000));
    const uint64_t generation = set_to(name, 2);
    down(name, NULL);
    ts_pass_ms(300);
    for (int i = 0; i < WAITERS; i++)
        assert_false(atomic_load(&all[i]->ended));
    const int64_t strain_ms = ts_strain_ms();
    down(name, NULL);
    const int64_t last_ms = ts_now_ms();
    for (int i = 0; i < WAITERS; i++) {
        WANT(OK, ended(all[i], &opened, &at_ms));
        assert_true(opened == generation);
        const int64_t most_ms = ts_strain_ms() - strain_ms < 10 ? 300 : 1500;
        assert_true(at_ms - last_ms <= most_ms + ts_slack_ms());
    }
}

/* After it is set again, each generation stays open or broken. */
TS_ONCE(test_generations)
{
    const char *name = ts_name("again");
    const uint64_t first = set_to(name, 1);
    WANT(BUSY, rowlock_latch_set(client, name, 1, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, "0 of 1"));
    WANT(NOT_FOUND, rowlock_latch_down(client, name, NULL, first + 1, &ts_err));
    WANT(BUSY, look_at(name, first + 1));
    WANT(OK, rowlock_latch_down(client, name, "k", first, &ts_err));
    const uint64_t second = set_to(name, 1);
    assert_true(second == first + 1);
    WANT(OK, look_at(name, first));
    WANT(BUSY, look_at(name, second));
    WANT(BUSY, look_at(name, 0));
    /* A late count for the first generation does not count in the second. */
    WANT(OK, rowlock_latch_down(client, name, "k", first, &ts_err));
    WANT(BUSY, look_at(name, second));
    assert_int_equal(ts_rows_of(mysql, "latch_down", name, ""), 0);
    rowlock_hold *member = join(name, 30000);
    WANT(OK, rowlock_release(member, &ts_err));
    WANT(LOST, look_at(name, second));
    const uint64_t third = set_to(name, 1);
    WANT(LOST, look_at(name, second));
    WANT(LOST, rowlock_latch_down(client, name, NULL, second, &ts_err));
    WANT(OK, look_at(name, first));
    WANT(BUSY, look_at(name, third));
    down(name, NULL);
    WANT(OK, look_at(name, third));
}

/* A waiter that slept through many generations is not told that its own has opened, if that is
 * unknown. */
TS_ONCE(test_too_long_ago)
{
    const char *name = ts_name("ago");
    const uint64_t first = set_to(name, 1);
    down(name, NULL);
    uint64_t last = first;
    while (last < first + 63) {
        last = set_to(name, 1);
        down(name, NULL);
        WANT(OK, look_at(name, last));
    }
    WANT(OK, look_at(name, first));
    set_to(name, 1);
    WANT(LOST, look_at(name, first));
    WANT(OK, look_at(name, first + 1));
}

/* An earlier waiter is told, though the latch was set again before it looked. */
TS_ONCE(test_a_waiter_of_an_earlier_generation)
{
    const char *name = ts_name("slow");
    const uint64_t first = set_to(name, 1);
    waiting *w = start_waiting(client, name, 60000);
    assert_true(POLL_UNTIL(ts_bell_holder(mysql, name) != 0, 10000));
    uint64_t opened = 0;
    down(name, NULL);
    WANT(OK, rowlock_latch_set(other, name, 1, NULL, &ts_err));
    WANT(OK, ended(w, &opened, NULL));
    assert_true(opened == first);
}

/* ------------------------------------------------------------------------------- members */

TS_ONCE(test_members)
{
    const char *name = ts_name("members");
    const uint64_t generation = set_to(name, 2);
    rowlock_hold *one = join(name, 30000);
    rowlock_hold *two = join_as(name, 30000, "two");
    assert_true(rowlock_hold_token(one) == generation);
    assert_string_equal(rowlock_hold_name(one), name);
    assert_int_equal(info_of(name).members, 2);
    WANT(OK, rowlock_latch_done(one, &ts_err));
    assert_int_equal(info_of(name).members, 1);
    assert_int_equal(info_of(name).down, 1);
    WANT(BUSY, look_at(name, 0));
    WANT(OK, rowlock_latch_down(client, name, "two", 0, &ts_err));
    /* Its key was counted, so it has counted. */
    assert_int_equal(info_of(name).members, 0);
    WANT(OK, rowlock_latch_done(two, &ts_err));
    WANT(OK, look_at(name, 0));
    assert_int_equal(ts_rows_of(mysql, "lock_grant", name, ""), 0);
}

/* A member that leaves without having counted, or expires, breaks it; the message says which. */
TS_ONCE(test_a_member_is_lost)
{
    const char *name = ts_name("left");
    set_to(name, 2);
    rowlock_hold *member = join(name, 30000);
    waiting *w = start_waiting(client, name, 60000);
    assert_true(POLL_UNTIL(ts_bell_holder(mysql, name) != 0, 10000));
    WANT(OK, rowlock_release(member, &ts_err));
    WANT(LOST, ended(w, NULL, NULL));
    assert_non_null(strstr(ts_err.message, info_of(name).broken_by));
    assert_int_equal(info_of(name).state, ROWLOCK_LATCH_BROKEN);
    assert_true(strlen(info_of(name).broken_by) > 0);
    WANT(LOST, rowlock_latch_down(client, name, NULL, 0, &ts_err));
    const char *dead = ts_name("dead");
    set_to(dead, 2);
    member = join(dead, 30000);
    w = start_waiting(client, dead, 60000);
    assert_true(POLL_UNTIL(ts_bell_holder(mysql, dead) != 0, 10000));
    ts_sql(mysql,
           "UPDATE lock_grant SET expires_at = UTC_TIMESTAMP(6) WHERE resource_id = %" PRIu64,
           ts_id_of(mysql, dead));
    WANT(LOST, ended(w, NULL, NULL));
    WANT(LOST, rowlock_latch_done(member, &ts_err));
    set_to(dead, 1);
}

/* A latch that all have counted is open, though nobody has looked yet: nothing breaks it any
 * more. */
TS_ONCE(test_counted_is_open)
{
    const char *name = ts_name("full");
    const uint64_t generation = set_to(name, 1);
    rowlock_hold *member = join(name, 30000);
    down(name, NULL);
    assert_int_equal(info_of(name).state, ROWLOCK_LATCH_OPEN);
    WANT(OK, rowlock_release(member, &ts_err));
    WANT(OK, look_at(name, generation));
    const char *broken = ts_name("full-broken");
    set_to(broken, 1);
    down(broken, NULL);
    if (!ts_via())
        WANT(BUSY, rowlock_break(client, broken, NULL, &ts_err));
    WANT(OK, look_at(broken, 0));
}

/* The member has expired, but it has counted. */
TS_ONCE(test_a_member_that_has_counted)
{
    const char *name = ts_name("counted");
    set_to(name, 2);
    rowlock_hold *member = join(name, 30000);
    ts_sql(mysql,
           "INSERT INTO latch_down (resource_id, generation, down_key, owner, down_at)"
           " VALUES (%" PRIu64 ", %" PRIu64 ", '%s', 'whose', UTC_TIMESTAMP(6))",
           ts_id_of(mysql, name), rowlock_hold_token(member), rowlock_hold_owner(member));
    ts_sql(mysql,
           "UPDATE lock_grant SET expires_at = UTC_TIMESTAMP(6) WHERE resource_id = %" PRIu64,
           ts_id_of(mysql, name));
    WANT(BUSY, look_at(name, 0));
    WANT(BUSY, rowlock_latch_set(client, name, 1, NULL, &ts_err));
    down(name, NULL);
    WANT(OK, look_at(name, 0));
    (void)!rowlock_release(member, &ts_err);
}

/* A member is renewed as any holder is. */
TS_ONCE(test_a_member_is_renewed)
{
    const char *name = ts_name("renewed");
    set_to(name, 1);
    rowlock_hold *member = join(name, TS_KEPT_TTL);
    for (int64_t end = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < end; ts_pass_ms(50)) {
        assert_held(member);
        WANT(BUSY, look_at(name, 0));
    }
    WANT(OK, rowlock_latch_done(member, &ts_err));
    WANT(OK, look_at(name, 0));
}

/* ---------------------------------------------------------------------------- refusals */

TS_ONCE(test_bad_input)
{
    const char *name = ts_name("input");
    const char *lease = ts_name("lease");
    uint64_t generation = 77;
    rowlock_hold *hold = NULL;
    rowlock_latch_info info;
    WANT(INVALID, rowlock_latch_set(client, name, 0, &generation, &ts_err));
    WANT(INVALID, rowlock_latch_set(client, name, ROWLOCK_LATCH_MAX + 1, &generation, &ts_err));
    WANT(INVALID, rowlock_latch_set(client, "", 1, &generation, &ts_err));
    WANT(INVALID, rowlock_latch_set(client, NULL, 1, &generation, &ts_err));
    WANT(INVALID, rowlock_latch_set(NULL, name, 1, &generation, &ts_err));
    WANT(INVALID, rowlock_latch_wait(NULL, name, NULL, &generation, &ts_err));
    WANT(INVALID, rowlock_latch_wait(client, "", NULL, &generation, &ts_err));
    WANT(INVALID, rowlock_latch_down(NULL, name, NULL, 0, &ts_err));
    assert_true(generation == 77);
    assert_int_equal(
        ts_sql_u64(mysql, "SELECT COUNT(*) FROM resource WHERE resource_name = %s", ts_quote(name)),
        0);
    WANT(NOT_FOUND, rowlock_latch_down(client, name, NULL, 0, &ts_err));
    WANT(NOT_FOUND, rowlock_latch_get(client, name, &info, &ts_err));
    WANT(NOT_FOUND, rowlock_latch_join(client, name, NULL, &hold, &ts_err));
    WANT(INVALID, rowlock_latch_get(client, name, NULL, &ts_err));
    WANT(INVALID, rowlock_latch_join(client, name, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_latch_done(NULL, &ts_err));
    set_to(name, ROWLOCK_LATCH_MAX);
    WANT(INVALID, rowlock_latch_down(client, name, "", 0, &ts_err));
    WANT(INVALID, rowlock_latch_down(client, name, "two\nlines", 0, &ts_err));
    WANT(INVALID, rowlock_latch_down(client, name, "blank ", 0, &ts_err));
    WANT(NOT_FOUND, rowlock_latch_down(client, name, NULL, UINT64_MAX, &ts_err));
    assert_int_equal(info_of(name).down, 0);
    WANT(MODE, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    WANT(MODE, ts_try(client, name, ROWLOCK_PESSIMISTIC));
    hold = ts_take(client, lease, ROWLOCK_OPTIMISTIC, 30000);
    WANT(MODE, rowlock_latch_set(client, lease, 1, NULL, &ts_err));
    WANT(MODE, rowlock_latch_down(client, lease, NULL, 0, &ts_err));
    WANT(MODE, look_at(lease, 0));
    WANT(INVALID, rowlock_latch_done(hold, &ts_err));
    assert_held(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    hold = NULL;
    set_to(ts_name("opened"), 1);
}

TS_ONCE(test_nothing_to_join)
{
    const char *name = ts_name("join");
    rowlock_hold *hold = NULL;
    set_to(name, 1);
    down(name, NULL);
    WANT(OK, look_at(name, 0));
    WANT(INVALID, rowlock_latch_join(client, name, NULL, &hold, &ts_err));
    assert_null(hold);
}

TS_ONCE(test_waits_that_end)
{
    const char *name = ts_name("ends");
    TS_CANCEL *cancel = ts_cancel();
    const rowlock_latch_options brief = {.wait_ms = 200};
    const rowlock_latch_options cancelled = {.wait_ms = ROWLOCK_WAIT_FOREVER, .cancel = cancel};
    WANT_WITHIN(TIMEOUT, 200, 300, rowlock_latch_wait(client, name, &brief, NULL, &ts_err));
    set_to(name, 1);
    WANT_WITHIN(TIMEOUT, 200, 300, rowlock_latch_wait(client, name, &brief, NULL, &ts_err));
    ASSERT_SAYS("0 of 1", rowlock_latch_wait(client, name, &brief, NULL, &ts_err));
    rowlock_cancel_fire(cancel);
    WANT(CANCELLED, rowlock_latch_wait(client, name, &cancelled, NULL, &ts_err));
    ts_no_bell(mysql, name);
}

/* A name that is purged while a client waits is made again. */
TS_ONCE(test_purged)
{
    const char *name = ts_name("purged");
    waiting *w = start_waiting(client, name, 60000);
    assert_true(
        POLL_UNTIL(ts_sql_u64(mysql, "SELECT COUNT(*) FROM resource WHERE resource_name = %s",
                              ts_quote(name)) == 1,
                   10000));
    ts_sql(mysql, "DELETE FROM resource WHERE resource_name = %s", ts_quote(name));
    set_to(name, 1);
    down(name, NULL);
    WANT(OK, ended(w, NULL, NULL));
}

/* A count whose transaction is open keeps the generation as it is. */
TS_ONCE(test_a_count_under_way)
{
    const char *name = ts_name("under-way");
    TS_MYSQL *own = ts_connect(ts_schema());
    const uint64_t generation = set_to(name, 2);
    rowlock_hold *member = join(name, 30000);
    ts_sql(own, "BEGIN");
    ts_sql(own,
           "INSERT INTO latch_down (resource_id, generation, down_key, owner, down_at)"
           " SELECT id, version, 'k', '', UTC_TIMESTAMP(6) FROM resource"
           " WHERE resource_name = %s LOCK IN SHARE MODE",
           ts_quote(name));
    WANT(BUSY, look_at(name, 0));
    /* It cannot be broken now; it is when the member has expired. */
    WANT(BUSY, rowlock_release(member, &ts_err));
    WANT(BUSY, look_at(name, generation));
    ts_sql(own, "COMMIT");
    assert_int_equal(info_of(name).down, 1);
    ts_sql(mysql,
           "UPDATE lock_grant SET expires_at = UTC_TIMESTAMP(6) WHERE resource_id = %" PRIu64,
           ts_id_of(mysql, name));
    const rowlock_latch_options patient = {.generation = generation, .wait_ms = 20000};
    WANT(LOST, rowlock_latch_wait(other, name, &patient, NULL, &ts_err));
}

TS_MAIN("latch", open_clients, close_clients)
