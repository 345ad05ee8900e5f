/*
 * Losses and their callbacks, and what a dead server or a refused event may cost. Clients
 * go through a proxy where the server has to vanish.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "support/proxy.h"
#include "support/support.h"

static ts_proxy *proxy;
static rowlock_client *direct; /* not through the proxy */
static MYSQL *mysql;

static int begin(void **state)
{
    ts_suite_begin(state);
    proxy = ts_proxy_start(ts_socket());
    direct = ts_open();
    mysql = ts_connect(ts_schema());
    return 0;
}

static int end(void **state)
{
    rowlock_client_close(direct);
    ts_proxy_stop(proxy);
    mysql_close(mysql);
    return ts_suite_end(state);
}

static rowlock_client *open_through(void)
{
    rowlock_client_options options = ts_options();
    rowlock_client *client = NULL;
    options.socket = ts_proxy_socket(proxy);
    options.connect_timeout_ms = 5000;
    options.no_history = true;
    ts_proxy_flow(proxy);
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    return client;
}

/* What a callback does and saw. It stays in the callback until the gate is open. */
typedef struct told {
    atomic_bool *gate;
    bool release;
    atomic_int begun;
    atomic_int ended;
    rowlock_status released;
    int64_t released_in_ms;
    bool signals_blocked;
} told;

static void on_lost(void *data, rowlock_hold *hold, const char *reason)
{
    told *t = data;
    sigset_t blocked;
    (void)reason;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    t->signals_blocked = sigismember(&blocked, SIGINT) && sigismember(&blocked, SIGUSR1);
    atomic_fetch_add(&t->begun, 1);
    while (t->gate && !atomic_load(t->gate))
        ts_pass_ms(1);
    int64_t start = ts_now_ms();
    if (t->release)
        t->released = rowlock_release(hold, NULL);
    t->released_in_ms = ts_now_ms() - start;
    atomic_fetch_add(&t->ended, 1);
}

static rowlock_hold *take(rowlock_client *client, const char *name, rowlock_mode mode,
                          int64_t ttl_ms, told *t)
{
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {.mode = mode,
                                       .wait_ms = 10000,
                                       .ttl_ms = ttl_ms,
                                       .on_lost = t ? on_lost : NULL,
                                       .on_lost_data = t};
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    return hold;
}

static bool readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static int threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int count = 0;
    assert_non_null(tasks);
    for (const struct dirent *task; (task = readdir(tasks));)
        count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
}

/* ---------------------------------------------------------------------- the callbacks */

/* While one callback does not return, other losses are seen, and what is held is kept. */
static void test_a_slow_callback_delays_nothing_else(void **state)
{
    enum { MANY = 4 };
    rowlock_mode mode = ts_mode(state);
    int64_t ttl = ts_short_ttl(mode);
    rowlock_client *client = ts_open();
    atomic_bool gate = false;
    told slow = {.gate = &gate};
    told others[MANY] = {0};
    rowlock_hold *holds[MANY];
    int fds[MANY];
    rowlock_hold *kept = take(client, ts_name("slow-kept"), mode, TS_KEPT_TTL, NULL);
    for (int i = 0; i < MANY; i++) {
        holds[i] = take(client, ts_name("slow-other"), mode, ttl, &others[i]);
        fds[i] = rowlock_hold_fd(holds[i]);
    }
    rowlock_hold *first = take(client, ts_name("slow"), mode, ttl, &slow);
    WANT(OK, rowlock_break(direct, rowlock_hold_name(first), NULL, &ts_err));
    assert_true(POLL_UNTIL(atomic_load(&slow.begun) == 1, 10000));
    for (int i = 0; i < MANY; i++)
        WANT(OK, rowlock_break(direct, rowlock_hold_name(holds[i]), NULL, &ts_err));
    for (int i = 0; i < MANY; i++)
        assert_true(POLL_UNTIL(readable(fds[i]), 10000));
    /* Released before it was told of: nobody needs to be told any more. */
    WANT(LOST, rowlock_release(holds[0], &ts_err));
    for (int64_t until = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < until; ts_pass_ms(20))
        assert_held(kept);
    assert_int_equal(atomic_load(&slow.ended), 0);
    atomic_store(&gate, true);
    for (int i = 1; i < MANY; i++)
        assert_true(POLL_UNTIL(atomic_load(&others[i].ended) == 1, 10000));
    assert_int_equal(atomic_load(&others[0].begun), 0);
    for (int i = 1; i < MANY; i++)
        WANT(LOST, rowlock_release(holds[i], &ts_err));
    WANT(LOST, rowlock_release(first, &ts_err));
    WANT(OK, rowlock_release(kept, &ts_err));
    rowlock_client_close(client);
}

/* Its thread is there when it is needed, takes no signal of the host's, and goes again. */
static void test_the_thread_of_the_callbacks(void **state)
{
    rowlock_mode mode = ts_mode(state);
    int64_t ttl = ts_short_ttl(mode);
    rowlock_client *client = ts_open();
    int before = threads();
    for (int round = 0; round < 3; round++) {
        atomic_bool gate = false;
        told t = {.gate = &gate};
        rowlock_hold *hold = take(client, ts_name("thread"), mode, ttl, &t);
        assert_int_equal(threads(), before);
        WANT(OK, rowlock_break(direct, rowlock_hold_name(hold), NULL, &ts_err));
        assert_true(POLL_UNTIL(atomic_load(&t.begun) == 1, 10000));
        assert_int_equal(threads(), before + 1);
        atomic_store(&gate, true);
        assert_true(POLL_UNTIL(threads() == before, 10000));
        assert_int_equal(atomic_load(&t.ended), 1);
        assert_true(t.signals_blocked);
        WANT(LOST, rowlock_release(hold, &ts_err));
    }
    rowlock_client_close(client);
}

static void *release_it(void *hold)
{
    rowlock_status status = rowlock_release(hold, NULL);
    return (void *)(uintptr_t)status;
}

/* Another thread's release waits for the callback: it frees what the callback is given. */
static void test_a_release_waits_for_the_callback(void **state)
{
    rowlock_mode mode = ts_mode(state);
    rowlock_client *client = ts_open();
    atomic_bool gate = false;
    told t = {.gate = &gate};
    pthread_t thread;
    void *status;
    rowlock_hold *hold = take(client, ts_name("waits"), mode, ts_short_ttl(mode), &t);
    WANT(OK, rowlock_break(direct, rowlock_hold_name(hold), NULL, &ts_err));
    assert_true(POLL_UNTIL(atomic_load(&t.begun) == 1, 10000));
    assert_int_equal(pthread_create(&thread, NULL, release_it, hold), 0);
    ts_pass_ms(50);
    assert_int_equal(pthread_tryjoin_np(thread, &status), EBUSY);
    atomic_store(&gate, true);
    pthread_join(thread, &status);
    assert_int_equal(atomic_load(&t.ended), 1);
    assert_int_equal((uintptr_t)status, ROWLOCK_LOST);
    rowlock_client_close(client);
}

/* ---------------------------------------------------------------------- a dead server */

/* What is lost is released with a single try: nothing depends on it. */
static void test_releasing_what_is_lost(void **state)
{
    rowlock_mode mode = ts_mode(state);
    rowlock_client *client = open_through();
    rowlock_hold *hold = take(client, ts_name("lost"), mode, ts_short_ttl(mode), NULL);
    int fd = rowlock_hold_fd(hold);
    ts_proxy_refuse(proxy, true);
    ts_proxy_cut(proxy);
    int64_t cut = ts_now_ms();
    assert_true(POLL_UNTIL(readable(fd), 10000));
    assert_between(0, ts_now_ms() - cut, ts_short_ttl(mode) + ts_slack_ms());
    int64_t start = ts_now_ms();
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_between(0, ts_now_ms() - start, ts_slack_ms() + 100);
    ts_proxy_flow(proxy);
    rowlock_client_close(client);
}

/* The server vanishes under several; each callback releases its own. All are seen in time. */
static void test_callbacks_that_release_on_a_dead_line(void **state)
{
    enum { MANY = 3 };
    rowlock_mode mode = ts_mode(state);
    int64_t ttl = ts_short_ttl(mode);
    rowlock_client *client = open_through();
    told releasing[MANY] = {{0}};
    told watching = {0};
    rowlock_hold *watched = take(client, ts_name("dead-watched"), mode, ttl + 400, &watching);
    int fd = rowlock_hold_fd(watched);
    for (int i = 0; i < MANY; i++) {
        releasing[i] = (told){.release = true, .released = ROWLOCK_OK};
        (void)take(client, ts_name("dead-releasing"), mode, ttl, &releasing[i]);
    }
    ts_proxy_stall(proxy, true);
    /* Its time is over while the callbacks of the others run. */
    int64_t due = ts_now_ms() + rowlock_hold_remaining_ms(watched);
    assert_true(POLL_UNTIL(readable(fd), 10000));
    assert_between(0, ts_now_ms(), due + ts_slack_ms());
    assert_true(POLL_UNTIL(atomic_load(&watching.ended) == 1, 10000));
    for (int i = 0; i < MANY; i++) {
        assert_true(POLL_UNTIL(atomic_load(&releasing[i].ended) == 1, 10000));
        assert_int_equal(releasing[i].released, ROWLOCK_LOST);
        assert_between(0, releasing[i].released_in_ms, 1000 + 2 * ts_slack_ms());
    }
    WANT(LOST, rowlock_release(watched, &ts_err));
    ts_proxy_flow(proxy);
    rowlock_client_close(client);
}

/* Closing has one limit for all holds, however long a single call may take. */
static void test_closing_with_many_on_a_dead_line(void **state)
{
    enum { MANY = 8 };
    rowlock_mode mode = ts_mode(state);
    rowlock_client *client = open_through();
    const char *names[MANY];
    for (int i = 0; i < MANY; i++) {
        names[i] = ts_name("dead-close");
        (void)take(client, names[i], mode, 30000, NULL);
    }
    ts_proxy_stall(proxy, true);
    int64_t start = ts_now_ms();
    rowlock_client_close(client);
    assert_between(0, ts_now_ms() - start, 5000 + ts_slack_ms());
    ts_proxy_flow(proxy);
    ts_proxy_cut(proxy);
    /* A row lock ends with its connection; a lease whose release got lost runs its time. */
    for (int i = 0; i < MANY && mode == ROWLOCK_PESSIMISTIC; i++)
        assert_true(POLL_UNTIL(ts_try(direct, names[i], mode) == ROWLOCK_OK, 10000));
}

/* A live server is given back all of them. */
static void test_closing_gives_all_back(void **state)
{
    enum { MANY = 20 };
    rowlock_mode mode = ts_mode(state);
    rowlock_client *client = ts_open();
    const char *names[MANY];
    for (int i = 0; i < MANY; i++) {
        names[i] = ts_name("close-all");
        (void)take(client, names[i], mode, 30000, NULL);
    }
    rowlock_client_close(client);
    for (int i = 0; i < MANY; i++)
        WANT(OK, ts_try(direct, names[i], mode));
}

/* A lease of minutes is renewed over a connection that died; one of seconds cannot wait. */
static void test_a_long_lease_does_not_hold_up_a_short_one(void **state)
{
    rowlock_client *client = open_through();
    (void)state;
    rowlock_hold *longer = take(client, ts_name("long"), ROWLOCK_OPTIMISTIC, 12000, NULL);
    ts_proxy_arm(proxy, TS_STALL_REPLY, "UPDATE JSON_TABLE", 1, false);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 10000));
    rowlock_hold *shorter = take(client, ts_name("short"), ROWLOCK_OPTIMISTIC, TS_KEPT_TTL, NULL);
    for (int64_t until = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < until; ts_pass_ms(20)) {
        assert_held(shorter);
        assert_held(longer);
    }
    WANT(OK, rowlock_release(shorter, &ts_err));
    WANT(OK, rowlock_release(longer, &ts_err));
    rowlock_client_close(client);
}

/* ---------------------------------------------------------- closing against callbacks */

typedef struct opener {
    atomic_bool *gate;
    atomic_bool closing;
} opener;

/* Opens the gate when the main thread has had time to get into the close. */
static void *open_gate(void *data)
{
    opener *o = data;
    while (!atomic_load(&o->closing))
        ts_pass_ms(1);
    ts_pass_ms(100);
    atomic_store(o->gate, true);
    return NULL;
}

/* The callback has its say first: its release is the one that counts. */
static void test_closing_waits_for_a_releasing_callback(void **state)
{
    rowlock_mode mode = ts_mode(state);
    rowlock_client *client = ts_open();
    atomic_bool gate = false;
    told t = {.gate = &gate, .release = true, .released = ROWLOCK_OK};
    opener o = {.gate = &gate};
    pthread_t thread;
    rowlock_hold *hold = take(client, ts_name("close-waits"), mode, ts_short_ttl(mode), &t);
    WANT(OK, rowlock_break(direct, rowlock_hold_name(hold), NULL, &ts_err));
    assert_true(POLL_UNTIL(atomic_load(&t.begun) == 1, 10000));
    assert_int_equal(pthread_create(&thread, NULL, open_gate, &o), 0);
    atomic_store(&o.closing, true);
    rowlock_client_close(client);
    assert_int_equal(atomic_load(&t.ended), 1);
    assert_int_equal(t.released, ROWLOCK_LOST);
    pthread_join(thread, NULL);
}

/* The same at every moment: just when the loss is marked, told, released. */
static void test_closing_races_with_releasing_callbacks(void **state)
{
    enum { HOLDS = 3 };
    rowlock_mode mode = ts_mode(state);
    unsigned rounds = ts_rounds(mode == ROWLOCK_PESSIMISTIC ? 100 : 15);
    const char *names[HOLDS];
    for (int i = 0; i < HOLDS; i++)
        names[i] = ts_name("close-races");
    for (unsigned round = 0; round < rounds; round++) {
        rowlock_client *client = ts_open();
        told t[HOLDS];
        int fd = -1;
        for (int i = 0; i < HOLDS; i++) {
            t[i] = (told){.release = true, .released = ROWLOCK_OK};
            fd = rowlock_hold_fd(
                take(client, names[i], mode, mode == ROWLOCK_OPTIMISTIC ? 1500 : 3000, &t[i]));
        }
        for (int i = 0; i < HOLDS; i++)
            WANT(OK, rowlock_break(direct, names[i], NULL, &ts_err));
        int64_t until = ts_now_ms() + (int64_t)(round % 4);
        while (round % 2 ? ts_now_ms() < until : !readable(fd) && atomic_load(&t[2].begun) == 0)
            ;
        rowlock_client_close(client);
        for (int i = 0; i < HOLDS; i++) {
            assert_int_equal(atomic_load(&t[i].ended), atomic_load(&t[i].begun));
            assert_int_equal(t[i].released, atomic_load(&t[i].begun) ? ROWLOCK_LOST : ROWLOCK_OK);
        }
    }
}

/* ------------------------------------------------------------------------- the history */

static void count_dropped(void *data, rowlock_log_level level, const char *line)
{
    if (level == ROWLOCK_LOG_WARNING && strstr(line, "missing in the history"))
        atomic_fetch_add((atomic_int *)data, 1);
}

static uint64_t events_of(const char *name)
{
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM lock_event WHERE resource_name = %s",
                      ts_quote(name));
}

/* What the server refuses is told of, and takes nothing else with it. */
static void test_a_flush_tells_of_dropped_events(void **state)
{
    const char *good = ts_name("event-good");
    const char *bad = ts_name("event-bad");
    atomic_int logged = 0;
    rowlock_client_options options = ts_options();
    rowlock_client *client = NULL;
    (void)state;
    options.log = count_dropped;
    options.log_data = &logged;
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    ts_sql(mysql,
           "CREATE TRIGGER refuse BEFORE INSERT ON lock_event FOR EACH ROW"
           " IF NEW.resource_name = %s THEN SIGNAL SQLSTATE '45000'; END IF",
           ts_quote(bad));
    WANT(OK, ts_try(client, good, ROWLOCK_OPTIMISTIC));
    WANT(OK, ts_try(client, bad, ROWLOCK_OPTIMISTIC));
    WANT(OK, ts_try(client, good, ROWLOCK_OPTIMISTIC));
    WANT(SERVER, rowlock_client_flush(client, 20000, &ts_err));
    assert_non_null(strstr(ts_err.message, " 2 "));
    assert_true(POLL_UNTIL(atomic_load(&logged) >= 1, 10000)); /* told beside the flush */
    assert_int_equal(events_of(good), 4);
    assert_int_equal(events_of(bad), 0);
    ts_sql(mysql, "DROP TRIGGER refuse");
    WANT(OK, ts_try(client, bad, ROWLOCK_OPTIMISTIC));
    WANT(OK, rowlock_client_flush(client, 20000, &ts_err));
    assert_int_equal(events_of(bad), 2);
    rowlock_client_close(client);
}

/* ------------------------------------------------------------------ looks on dead lines */

static void look_as(rowlock_client *client, int which, const char *name, ts_way way)
{
    rowlock_list *list = NULL;
    rowlock_history *history = NULL;
    rowlock_waiters *waiters = NULL;
    uint64_t version = 0;
    ts_proxy_cut_after(proxy, way, 0, false);
    switch (which) {
    case 0:
        WANT(OK, rowlock_list_one(client, name, &list, &ts_err));
        assert_int_equal(rowlock_list_count(list), 1);
        break;
    case 1:
        WANT(OK, rowlock_list_get(client, &(rowlock_list_options){.all = true}, &list, &ts_err));
        assert_true(rowlock_list_count(list) > 0);
        break;
    case 2:
        WANT(OK, rowlock_history_get(client, &(rowlock_history_options){.name = name}, &history,
                                     &ts_err));
        break;
    case 3:
        WANT(OK, rowlock_waiters_get(client, &(rowlock_waiters_options){.name = name}, &waiters,
                                     &ts_err));
        break;
    default:
        WANT(OK, rowlock_version_read(client, "versioned", &version, &ts_err));
    }
    assert_true(ts_proxy_fired(proxy));
    ts_proxy_flow(proxy);
    rowlock_list_free(list);
    rowlock_history_free(history);
    rowlock_waiters_free(waiters);
}

/* A connection of the pool whose end the client has not seen yet (somebody's KILL was a moment
 * ago) is no reason to say that the server cannot be reached. */
static void test_a_look_on_a_dying_connection(void **state)
{
    enum { LOOKS = 5 };
    const char *name = ts_name("looked-at");
    rowlock_client *client = open_through();
    (void)state;
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    for (int which = 0; which < LOOKS; which++) {
        look_as(client, which, name, TS_UP);
        look_as(client, which, name, TS_DOWN);
    }
    /* A server that does not answer at all is another matter: once, and then it is said. */
    rowlock_list *list = NULL;
    ts_proxy_cut_after(proxy, TS_UP, 0, true);
    WANT(UNAVAILABLE, rowlock_list_one(client, name, &list, &ts_err));
    ts_proxy_flow(proxy);
    rowlock_client_close(client);
}

/* The very case: who breaks its own lease ends a connection of its own. */
static void test_a_look_after_breaking_ones_own(void **state)
{
    rowlock_client *client = ts_open();
    (void)state;
    for (unsigned i = 0; i < ts_rounds(30); i++) {
        const char *name = ts_name("own-broken");
        rowlock_list *list = NULL;
        rowlock_hold *hold = take(client, name, ROWLOCK_OPTIMISTIC, 30000, NULL);
        WANT(OK, rowlock_break(client, name, NULL, &ts_err));
        WANT(OK, rowlock_list_one(client, name, &list, &ts_err));
        rowlock_list_free(list);
        WANT(LOST, rowlock_release(hold, &ts_err));
    }
    rowlock_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_a_slow_callback_delays_nothing_else),
        BOTH(test_the_thread_of_the_callbacks),
        BOTH(test_a_release_waits_for_the_callback),
        BOTH(test_releasing_what_is_lost),
        BOTH(test_callbacks_that_release_on_a_dead_line),
        BOTH(test_closing_with_many_on_a_dead_line),
        BOTH(test_closing_gives_all_back),
        ONCE(test_a_long_lease_does_not_hold_up_a_short_one),
        BOTH(test_closing_waits_for_a_releasing_callback),
        BOTH(test_closing_races_with_releasing_callbacks),
        ONCE(test_a_flush_tells_of_dropped_events),
        ONCE(test_a_look_on_a_dying_connection),
        ONCE(test_a_look_after_breaking_ones_own),
    };
    return cmocka_run_group_tests_name("losses", tests, begin, end);
}
