/*
 * A line that is slow, with round trips near the TTL and beyond it, or dead: silent for ever, with
 * neither end told. Nobody believes to hold a lock beyond his own deadline, and every call comes
 * back.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "faults/through.h"
#include "rowlock/rowlock_mysql.h"

/* ------------------------------------------------------------------------ near the TTL */

enum { TTL = 1000, LANES = 10, ACQUIRE_MS = 6000, WATCH_MS = 4000 };

/* In hundredths of the TTL. */
static const int delays[LANES][2] = {
    {5, 5}, {20, 0}, {0, 20}, {25, 25}, {50, 0}, {0, 50}, {45, 45}, {100, 0}, {0, 120}, {60, 60},
};

typedef struct lane {
    ts_proxy *proxy;
    const char *name;
    ts_waiter holder;
    ts_waiter rival; /* started when the holder has it; not through the proxy */
    int64_t watched_from;
    int64_t believed_at; /* the last time that he did */
    bool lost;
} lane;

static rowlock_client *open_lane(const lane *l)
{
    rowlock_client_options options = through_options();
    rowlock_client *client = NULL;
    options.socket = ts_proxy_socket(l->proxy);
    options.connect_timeout_ms = 10000;
    options.reconnect_ms = 60000;
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    return client;
}

static void lane_start(lane *l, rowlock_mode mode, const int delay[2])
{
    *l = (lane){.proxy = ts_proxy_start(ts_socket()), .name = ts_name("slow")};
    l->holder = (ts_waiter){.client = open_lane(l), .name = l->name};
    l->holder.options =
        (rowlock_acquire_options){.mode = mode, .wait_ms = ACQUIRE_MS, .ttl_ms = TTL};
    l->rival = (ts_waiter){.client = ts_open(), .name = l->name};
    l->rival.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 60000, .ttl_ms = 30000};
    WANT(OK, ts_try(l->holder.client, l->name, mode));
    ts_proxy_delay(l->proxy, TTL * delay[0] / 100, TTL * delay[1] / 100);
    ts_waiter_start(&l->holder);
}

static bool lane_is_over(lane *l)
{
    if (!ts_waiter_ended(&l->holder))
        return false;
    bool watched = l->watched_from > 0 && ts_now_ms() > l->watched_from + WATCH_MS;
    return !l->holder.hold || l->lost || watched;
}

/* One look. What was believed is believed at the time before it. */
static void lane_watch(lane *l)
{
    if (!ts_waiter_ended(&l->holder) || lane_is_over(l))
        return;
    if (l->watched_from == 0) {
        l->watched_from = ts_now_ms();
        ts_waiter_start(&l->rival);
    }
    int64_t before = ts_now_ms();
    if (rowlock_hold_check(l->holder.hold) == ROWLOCK_OK)
        l->believed_at = before;
    else
        l->lost = true;
}

/* When it was given to its holder by the server, at the latest, by our clock. */
static int64_t granted_at(const char *name)
{
    uint64_t age_us = ts_sql_u64(mysql,
                                 "SELECT TIMESTAMPDIFF(MICROSECOND, acquired_at, UTC_TIMESTAMP(6))"
                                 "  FROM resource WHERE resource_name = '%s'",
                                 name);
    return ts_now_ms() - (int64_t)age_us / 1000 + 1;
}

static void lane_end(lane *l, rowlock_mode mode, const int delay[2])
{
    ts_proxy_flow(l->proxy);
    rowlock_status status = ts_waiter_join(&l->holder, 10000);
    print_message("# %s, %d ms up, %d ms down: %s%s\n", ts_mode_word(mode), TTL * delay[0] / 100,
                  TTL * delay[1] / 100, rowlock_status_name(status), l->lost ? ", then LOST" : "");
    if (status == ROWLOCK_OK) {
        uint64_t token = rowlock_hold_token(l->holder.hold);
        (void)rowlock_release(l->holder.hold, &ts_err);
        WANT(OK, ts_waiter_join(&l->rival, 20000));
        assert_between(l->believed_at, granted_at(l->name), INT64_MAX);
        assert_true(rowlock_hold_token(l->rival.hold) > token);
        assert_held(l->rival.hold);
        WANT(OK, rowlock_release(l->rival.hold, &ts_err));
    } else {
        assert_true(status == ROWLOCK_TIMEOUT || status == ROWLOCK_UNKNOWN ||
                    status == ROWLOCK_UNAVAILABLE);
        rowlock_hold *next = ts_take(direct, l->name, mode, TTL); /* waits for 20 s */
        WANT(OK, rowlock_release(next, &ts_err));
    }
    rowlock_client_close(l->holder.client);
    rowlock_client_close(l->rival.client);
    ts_proxy_stop(l->proxy);
}

static void test_latency_near_the_ttl(void **state)
{
    rowlock_mode mode = ts_mode(state);
    lane lanes[LANES];
    unsigned over = 0;
    for (int i = 0; i < LANES; i++)
        lane_start(&lanes[i], mode, delays[i]);
    int64_t end = ts_now_ms() + 60000;
    while (over < LANES && ts_now_ms() < end) {
        over = 0;
        for (int i = 0; i < LANES; i++) {
            lane_watch(&lanes[i]);
            over += lane_is_over(&lanes[i]);
        }
        ts_pass_ms(1);
    }
    assert_int_equal(over, LANES);
    for (int i = 0; i < LANES; i++)
        lane_end(&lanes[i], mode, delays[i]);
}

/* ------------------------------------------------------------------------ dead for ever */

/* A host that vanished: the server knows nothing, and keeps what it held until its own time is
 * over. */
static void test_a_vanished_host(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("vanished");
    rowlock_client *client = through_open();
    rowlock_hold *hold = ts_take(client, name, mode, 3000);
    uint64_t token = rowlock_hold_token(hold);
    ts_proxy_stall(proxy, true);
    int64_t start = ts_now_ms();
    WANT(BUSY, ts_try(direct, name, mode));
    rowlock_hold *next = NULL;
    rowlock_acquire_options how = {.mode = mode, .wait_ms = 60000, .ttl_ms = 30000};
    WANT(OK, rowlock_acquire(direct, name, &how, &next, &ts_err));
    assert_between(500, ts_now_ms() - start, 3000 + 1000 + 2000 + ts_slack_ms());
    assert_true(rowlock_hold_token(next) > token);
    WANT(LOST, rowlock_hold_check(hold));
    WANT(OK, rowlock_release(next, &ts_err));
    (void)rowlock_release(hold, &ts_err);
    rowlock_client_close(client);
    ts_proxy_flow(proxy);
}

typedef struct call {
    const char *what;
    rowlock_status (*make)(struct call *c);
    rowlock_client *client;
    const char *name;
    rowlock_mode mode;
    rowlock_hold *hold;
    pthread_t thread;
    rowlock_status status;
    rowlock_error err;
    int64_t took_ms;
    atomic_bool over;
} call;

static rowlock_status make_try(call *c)
{
    const rowlock_acquire_options how = {.mode = c->mode};
    return rowlock_acquire(c->client, c->name, &how, &c->hold, &c->err);
}

static rowlock_status make_wait(call *c)
{
    const rowlock_acquire_options how = {.mode = c->mode, .wait_ms = 500};
    return rowlock_acquire(c->client, c->name, &how, &c->hold, &c->err);
}

static rowlock_status make_set(call *c)
{
    static const char *const names[] = {"dead-set-a", "dead-set-b"};
    const rowlock_acquire_options how = {.mode = ROWLOCK_PESSIMISTIC, .wait_ms = 500};
    return rowlock_acquire_set(c->client, names, 2, &how, &c->hold, &c->err);
}

static rowlock_status make_release(call *c)
{
    return rowlock_release(c->hold, &c->err);
}

static rowlock_status make_list(call *c)
{
    rowlock_list *list = NULL;
    return rowlock_list_get(c->client, NULL, &list, &c->err);
}

static rowlock_status make_waiters(call *c)
{
    rowlock_waiters *waiters = NULL;
    return rowlock_waiters_get(c->client, NULL, &waiters, &c->err);
}

static rowlock_status make_history(call *c)
{
    rowlock_history *history = NULL;
    return rowlock_history_get(c->client, NULL, &history, &c->err);
}

static rowlock_status make_break(call *c)
{
    return rowlock_break(c->client, c->name, "test", &c->err);
}

static rowlock_status make_purge(call *c)
{
    return rowlock_purge(c->client, c->name, &c->err);
}

static rowlock_status make_sweep(call *c)
{
    return rowlock_sweep(c->client, NULL, &(rowlock_sweep_result){0}, &c->err);
}

static rowlock_status make_version(call *c)
{
    uint64_t version = 0;
    return rowlock_version_read(c->client, "dead-version", &version, &c->err);
}

static rowlock_status make_open(call *c)
{
    rowlock_client *none = NULL;
    rowlock_client_options options = through_options();
    return rowlock_client_open(&options, &none, &c->err);
}

static void *make_it(void *arg)
{
    call *c = arg;
    int64_t start = ts_now_ms();
    c->status = c->make(c);
    c->took_ms = ts_now_ms() - start;
    atomic_store(&c->over, true);
    return NULL;
}

/* None hangs: within its wait, or its time to connect, and what it takes to give up. */
static void test_every_call_comes_back(void **state)
{
    rowlock_mode mode = ts_mode(state);
    call calls[] = {
        {.what = "try", .make = make_try},         {.what = "wait", .make = make_wait},
        {.what = "set", .make = make_set},         {.what = "release", .make = make_release},
        {.what = "list", .make = make_list},       {.what = "waiters", .make = make_waiters},
        {.what = "history", .make = make_history}, {.what = "break", .make = make_break},
        {.what = "purge", .make = make_purge},     {.what = "sweep", .make = make_sweep},
        {.what = "version", .make = make_version}, {.what = "open", .make = make_open},
    };
    enum { CALLS = sizeof calls / sizeof calls[0] };
    const char *name = ts_name("dead");
    rowlock_client *client = through_open();
    WANT(OK, ts_try(client, name, mode));
    rowlock_hold *hold = ts_take(client, ts_name("dead-release"), mode, 30000);
    ts_proxy_stall(proxy, true);
    for (int i = 0; i < CALLS; i++) {
        calls[i].client = client;
        calls[i].name = name;
        calls[i].mode = mode;
        calls[i].hold = calls[i].make == make_release ? hold : NULL;
        assert_int_equal(pthread_create(&calls[i].thread, NULL, make_it, &calls[i]), 0);
    }
    for (int i = 0; i < CALLS; i++) {
        bool back = POLL_UNTIL(atomic_load(&calls[i].over), 20000);
        if (!back)
            print_error("%s does not come back\n", calls[i].what);
        assert_true(back);
        pthread_join(calls[i].thread, NULL);
        print_message("# %s: %s after %" PRId64 " ms\n", calls[i].what,
                      rowlock_status_name(calls[i].status), calls[i].took_ms);
        assert_true(calls[i].status == ROWLOCK_UNAVAILABLE || calls[i].status == ROWLOCK_UNKNOWN ||
                    calls[i].status == ROWLOCK_TIMEOUT);
        assert_between(0, calls[i].took_ms, 10000 + ts_slack_ms());
    }
    ts_proxy_flow(proxy);
    rowlock_client_close(client);
}

/* ------------------------------------------------------- fenced for longer than the TTL */

/* The holder is cut off, and its TTL passes, while a transaction of its program's has fenced the
 * lock: nobody gets it until that has ended, and so it may commit (docs/guarantees.md, 8). */
static void test_fenced_for_longer_than_the_ttl(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("fenced");
    MYSQL *work = ts_connect(ts_schema());
    rowlock_client *client = through_open();
    rowlock_hold *hold = ts_take(client, name, mode, TTL);
    uint64_t token = rowlock_hold_token(hold);
    ts_sql(work, "CREATE TABLE IF NOT EXISTS fenced (name VARCHAR(80)) ENGINE = InnoDB");
    ts_sql(work, "START TRANSACTION");
    ts_sql(work, "INSERT INTO fenced VALUES ('%s')", name);
    WANT(OK, rowlock_fence(hold, work, &ts_err));
    ts_proxy_stall(proxy, true);
    ts_waiter waiter = {.client = direct, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 60000, .ttl_ms = 30000};
    ts_waiter_start(&waiter);
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, TTL + 5000));
    ts_pass_ms(2 * TTL);
    assert_false(ts_waiter_ended(&waiter));
    ts_sql(work, "COMMIT");
    WANT(OK, ts_waiter_join(&waiter, 20000));
    assert_true(rowlock_hold_token(waiter.hold) > token);
    assert_int_equal(ts_sql_u64(mysql, "SELECT COUNT(*) FROM fenced WHERE name = '%s'", name), 1);
    /* It is not his any more. */
    ts_sql(work, "START TRANSACTION");
    WANT(LOST, rowlock_fence(hold, work, &ts_err));
    ts_sql(work, "ROLLBACK");
    ts_proxy_flow(proxy);
    assert_held(waiter.hold);
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    (void)rowlock_release(hold, &ts_err);
    rowlock_client_close(client);
    mysql_close(work);
}

/* --------------------------------------------------------------- stopped, and too late */

enum { STOPPED_TTL = 6000, STOPPED_FOR = 4200 };
/* A ping or a renewal is due after a third of the TTL; nine tenths after it was granted it is lost.
 */
enum { STOOD_TOO_LONG = STOPPED_TTL * 9 / 10 - STOPPED_TTL / 3 };

/* What the holder sees, for the other process. */
typedef struct sight {
    rowlock_mode mode;
    const char *name;
    pid_t parent;
    atomic_bool holds;
    atomic_bool wary; /* looks again and again, without a pause */
    atomic_bool lost;
    atomic_bool kept_after_all;
    atomic_bool told;
    atomic_bool over;
} sight;

static void see_the_loss(void *data, rowlock_hold *hold, const char *reason)
{
    sight *seen = data;
    (void)hold;
    (void)reason;
    atomic_store(&seen->told, true);
}

static int hold_and_look(void *arg)
{
    sight *seen = arg;
    rowlock_client_options options = through_options();
    rowlock_client *client = NULL;
    rowlock_hold *hold = NULL;
    const rowlock_acquire_options how = {
        .mode = seen->mode, .ttl_ms = STOPPED_TTL, .on_lost = see_the_loss, .on_lost_data = seen};
    rowlock_error err = {0};
    if (rowlock_client_open(&options, &client, &err) != ROWLOCK_OK ||
        rowlock_acquire(client, seen->name, &how, &hold, &err) != ROWLOCK_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    atomic_store(&seen->holds, true);
    while (!atomic_load(&seen->over) && getppid() == seen->parent) {
        bool lost = rowlock_hold_check(hold) == ROWLOCK_LOST;
        if (!lost && atomic_load(&seen->lost))
            atomic_store(&seen->kept_after_all, true);
        if (lost)
            atomic_store(&seen->lost, true);
        if (!atomic_load(&seen->wary))
            ts_pass_ms(1);
    }
    (void)rowlock_release(hold, NULL);
    rowlock_client_close(client);
    return 0;
}

/* Stopped from when the good answer is on its way until its own deadline has passed. */
static void stop_behind_the_deadline(sight *seen, pid_t pid)
{
    atomic_store(&seen->wary, true);
    kill(pid, SIGSTOP);
    ts_pass_ms(50);
    ts_proxy_flow(proxy);
    ts_pass_ms(STOPPED_FOR);
    kill(pid, SIGCONT);
    (void)POLL_UNTIL(atomic_load(&seen->lost), 2000);
}

/* A process is stopped while the server's good answer is on its way, and wakes up behind its
 * deadline, and before the one that the answer would give it: LOST is final. */
static void test_lost_is_final(void **state)
{
    rowlock_mode mode = ts_mode(state);
    sight *seen =
        mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(seen != MAP_FAILED);
    seen->mode = mode;
    seen->name = ts_name("final");
    seen->parent = getpid();
    int64_t stood = ts_stood_ms();
    pid_t pid = ts_fork(hold_and_look, seen);
    assert_true(POLL_UNTIL(atomic_load(&seen->holds), 10000));
    ts_proxy_arm(proxy, TS_STALL_REPLY,
                 mode == ROWLOCK_PESSIMISTIC ? "SET @rowlock"
                                             : "r.id IS NOT NULL", /* lease_renewed */
                 1, false);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy) || atomic_load(&seen->lost), STOPPED_TTL));
    if (ts_proxy_fired(proxy))
        stop_behind_the_deadline(seen, pid);
    else /* all of the machine has done it */
        assert_between(STOOD_TOO_LONG, ts_stood_ms() - stood, INT64_MAX);
    ts_pass_ms(500);
    bool lost = atomic_load(&seen->lost);
    assert_false(atomic_load(&seen->kept_after_all));
    assert_true(!lost || POLL_UNTIL(atomic_load(&seen->told), 10000));
    atomic_store(&seen->over, true);
    assert_int_equal(ts_reap(pid, 20000), 0);
    ts_proxy_flow(proxy);
    munmap(seen, sizeof *seen);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_latency_near_the_ttl),  BOTH(test_a_vanished_host),
        BOTH(test_every_call_comes_back), BOTH(test_fenced_for_longer_than_the_ttl),
        BOTH(test_lost_is_final),
    };
    return cmocka_run_group_tests_name("slow", tests, through_begin, through_end);
}
