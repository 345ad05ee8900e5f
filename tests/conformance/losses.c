/*
 * Losses and their callbacks, and how long a dead server or a refused event may delay a call.
 * Clients go through a proxy if the server has to vanish.
 */
#include "engine/client.h"
#include "support/proxy.h"

#include "conformance/clients.h" /* last: its names are parameters in other headers */

static ts_proxy *proxy;

static int begin(void **state)
{
    open_clients(state);
    proxy = ts_proxy_start(ts_socket());
    return 0;
}

static int end(void **state)
{
    ts_proxy_stop(proxy);
    return close_clients(state);
}

static rowlock_client *open_through(void)
{
    ts_proxy_flow(proxy);
    return ts_open_as((rowlock_client_options){
        .socket = ts_proxy_socket(proxy), .connect_timeout_ms = 5000, .no_history = true});
}

/* What a callback does and saw. The callback waits until the gate is open. */
typedef struct told {
    atomic_bool *gate;
    bool release;
    atomic_int begun;
    atomic_int ended;
    rowlock_status released;
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
    if (t->release)
        t->released = rowlock_release(hold, NULL);
    atomic_fetch_add(&t->ended, 1);
}

static rowlock_hold *take(rowlock_client *from, const char *name, rowlock_mode mode, int64_t ttl_ms,
                          told *t)
{
    return ts_take_with(from, name,
                        (rowlock_acquire_options){.mode = mode,
                                                  .wait_ms = 10000,
                                                  .ttl_ms = ttl_ms,
                                                  .on_lost = t ? on_lost : NULL,
                                                  .on_lost_data = t});
}

/* If the machine stood still, it may have expired already. */
static void take_away(rowlock_hold *hold)
{
    rowlock_status status = rowlock_break(other, rowlock_hold_name(hold), NULL, &ts_err);
    if (status != ROWLOCK_BUSY || ts_stood_ms() < 500)
        WANT(OK, status);
}

/* Acquires, and makes it lost; the callback has begun. */
static rowlock_hold *lose(rowlock_client *from, const char *name, rowlock_mode mode, told *t)
{
    rowlock_hold *hold = take(from, name, mode, ts_short_ttl(mode), t);
    take_away(hold);
    assert_true(POLL_UNTIL(atomic_load(&t->begun) == 1, 10000));
    return hold;
}

/* /proc has a folder for each. */
static int threads(void)
{
    struct stat tasks;
    assert_int_equal(stat("/proc/self/task", &tasks), 0);
    return (int)tasks.st_nlink - 2;
}

/* While one callback does not return, other losses are noticed, and other holds are kept. There is
 * a thread for callbacks as long as one is to be called. */
TS_BOTH(test_a_slow_callback_delays_nothing_else)
{
    enum { MANY = 4 };
    atomic_bool gate = false;
    told slow = {.gate = &gate};
    told others[MANY] = {0};
    rowlock_hold *holds[MANY];
    int fds[MANY];
    TS_HOLD *kept = take(client, ts_name("slow-kept"), mode, TS_KEPT_TTL, NULL);
    for (int i = 0; i < MANY; i++) {
        /* None of them is lost before the test makes it so. */
        holds[i] = take(client, ts_name("slow-other"), mode, TS_KEPT_TTL, &others[i]);
        fds[i] = rowlock_hold_fd(holds[i]);
    }
    int before = threads();
    rowlock_hold *first = lose(client, ts_name("slow"), mode, &slow);
    assert_int_equal(threads(), before + 1);
    for (int i = 0; i < MANY; i++)
        take_away(holds[i]);
    for (int i = 0; i < MANY; i++)
        assert_true(POLL_UNTIL(readable(fds[i]), 10000));
    /* Released before its callback was called: it is not called any more. */
    WANT(LOST, rowlock_release(holds[0], &ts_err));
    ASSERT_KEPT(kept, TS_KEPT_FOR);
    assert_int_equal(atomic_load(&slow.ended), 0);
    assert_true(slow.signals_blocked);
    atomic_store(&gate, true);
    for (int i = 1; i < MANY; i++)
        assert_true(POLL_UNTIL(atomic_load(&others[i].ended) == 1, 10000));
    assert_true(POLL_UNTIL(threads() == before, 10000));
    assert_int_equal(atomic_load(&others[0].begun), 0);
    for (int i = 1; i < MANY; i++)
        WANT(LOST, rowlock_release(holds[i], &ts_err));
    WANT(LOST, rowlock_release(first, &ts_err));
}

static void *release_it(void *hold)
{
    rowlock_status status = rowlock_release(hold, NULL);
    return (void *)(uintptr_t)status;
}

/* Another thread's release waits for the callback, since it frees the callback's hold. */
TS_BOTH(test_a_release_waits_for_the_callback)
{
    atomic_bool gate = false;
    told t = {.gate = &gate};
    pthread_t thread;
    void *status;
    rowlock_hold *hold = lose(client, ts_name("waits"), mode, &t);
    assert_int_equal(pthread_create(&thread, NULL, release_it, hold), 0);
    ts_pass_ms(50);
    assert_int_equal(pthread_tryjoin_np(thread, &status), EBUSY);
    atomic_store(&gate, true);
    pthread_join(thread, &status);
    assert_int_equal(atomic_load(&t.ended), 1);
    assert_int_equal((uintptr_t)status, ROWLOCK_LOST);
}

/* A lost hold is released with a single try, since nothing depends on it. */
TS_BOTH(test_releasing_what_is_lost)
{
    TS_CLIENT *far = open_through();
    rowlock_hold *hold = take(far, ts_name("lost"), mode, ts_short_ttl(mode), NULL);
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
}

/* The keeper's thread is late: the holder finds the end of its time first, and the loss stays one,
 * although nobody else has had the lock since. */
TS_BOTH(test_a_loss_that_only_its_holder_has_seen)
{
    pthread_mutex_t *keepers = &client->keeper.mutex;
    rowlock_hold *hold = take(client, ts_name("late"), mode, ts_short_ttl(mode), NULL);
    pthread_mutex_lock(keepers);
    const bool seen = POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 20000);
    pthread_mutex_unlock(keepers);
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_true(seen);
}

/* Closing has one time limit for all holds, however long a single call may take. Then a lease
 * expires, and a row lock ends with its connection. */
TS_BOTH(test_closing_with_many_on_a_dead_line)
{
    enum { MANY = 8 };
    rowlock_client *closed = open_through();
    const char *names[MANY];
    for (int i = 0; i < MANY; i++) {
        names[i] = ts_name("dead-close");
        (void)take(closed, names[i], mode, i ? 30000 : TS_KEPT_TTL, NULL);
    }
    ts_proxy_stall(proxy, true);
    int64_t start = ts_now_ms();
    rowlock_client_close(closed);
    assert_between(0, ts_now_ms() - start, 5000 + ts_slack_ms());
    ts_proxy_flow(proxy);
    ts_proxy_cut(proxy);
    for (int i = 0; i < (mode == ROWLOCK_PESSIMISTIC ? MANY : 1); i++)
        assert_true(POLL_UNTIL(ts_try(other, names[i], mode) == ROWLOCK_OK, TS_KEPT_TTL + 1000));
}

/* With a live server, all are released. */
TS_BOTH(test_closing_gives_all_back)
{
    enum { MANY = 20 };
    rowlock_client *closed = ts_open();
    const char *names[MANY];
    for (int i = 0; i < MANY; i++) {
        names[i] = ts_name("close-all");
        (void)take(closed, names[i], mode, 30000, NULL);
    }
    rowlock_client_close(closed);
    for (int i = 0; i < MANY; i++)
        WANT(OK, ts_try(other, names[i], mode));
}

/* A lease of minutes is being renewed over a dead connection; one of seconds cannot wait for
 * that. */
TS_ONCE(test_a_long_lease_does_not_hold_up_a_short_one)
{
    TS_CLIENT *far = open_through();
    TS_HOLD *longer = take(far, ts_name("long"), ROWLOCK_OPTIMISTIC, 12000, NULL);
    ts_proxy_arm(proxy, TS_STALL_REPLY, "lease_renew", 1, false);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 10000));
    TS_HOLD *shorter = take(far, ts_name("short"), ROWLOCK_OPTIMISTIC, TS_KEPT_TTL, NULL);
    for (int64_t until = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < until; ts_pass_ms(20)) {
        assert_held(shorter);
        assert_held(longer);
    }
}

/* The callback comes first at each moment: when the loss is noticed, reported, released. */
TS_BOTH(test_closing_races_with_releasing_callbacks)
{
    enum { HOLDS = 3 };
    unsigned rounds = ts_rounds(mode == ROWLOCK_PESSIMISTIC ? 100 : 15);
    const char *names[HOLDS];
    for (int i = 0; i < HOLDS; i++)
        names[i] = ts_name("close-races");
    for (unsigned round = 0; round < rounds; round++) {
        rowlock_client *closed = ts_open();
        told t[HOLDS];
        int fd = -1;
        for (int i = 0; i < HOLDS; i++) {
            t[i] = (told){.release = true, .released = ROWLOCK_OK};
            /* Not lost before the break; its callback releases it. */
            fd = rowlock_hold_fd(take(closed, names[i], mode, TS_KEPT_TTL, &t[i]));
        }
        for (int i = 0; i < HOLDS; i++)
            WANT(OK, rowlock_break(other, names[i], NULL, &ts_err));
        int64_t until = ts_now_ms() + (int64_t)(round % 4);
        while (round % 2 ? ts_now_ms() < until : !readable(fd) && atomic_load(&t[2].begun) == 0)
            ;
        rowlock_client_close(closed);
        for (int i = 0; i < HOLDS; i++) {
            assert_int_equal(atomic_load(&t[i].ended), atomic_load(&t[i].begun));
            assert_int_equal(t[i].released, atomic_load(&t[i].begun) ? ROWLOCK_LOST : ROWLOCK_OK);
        }
    }
}

/* Counts warnings about the history. */
static void count_warnings(void *data, rowlock_log_level level, const char *line)
{
    if (level == ROWLOCK_LOG_WARNING && strstr(line, "history"))
        atomic_fetch_add((atomic_int *)data, 1);
}

static uint64_t events_of(const char *name)
{
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM lock_event WHERE resource_name = %s",
                      ts_quote(name));
}

/* Events that the server refuses are reported, and do not affect others. */
TS_ONCE(test_a_flush_tells_of_dropped_events)
{
    const char *good = ts_name("event-good");
    const char *bad = ts_name("event-bad");
    atomic_int logged = 0;
    TS_CLIENT *far =
        ts_open_as((rowlock_client_options){.log = count_warnings, .log_data = &logged});
    ts_sql(mysql,
           "CREATE TRIGGER refuse BEFORE INSERT ON lock_event FOR EACH ROW"
           " IF NEW.resource_name = %s THEN SIGNAL SQLSTATE '45000'; END IF",
           ts_quote(bad));
    WANT(OK, ts_try(far, good, ROWLOCK_OPTIMISTIC));
    WANT(OK, ts_try(far, bad, ROWLOCK_OPTIMISTIC));
    WANT(OK, ts_try(far, good, ROWLOCK_OPTIMISTIC));
    WANT(SERVER, rowlock_client_flush(far, 20000, &ts_err));
    assert_non_null(strstr(ts_err.message, " 2 "));
    assert_true(POLL_UNTIL(atomic_load(&logged) >= 1, 10000)); /* logged, too */
    assert_int_equal(events_of(good), 4);
    assert_int_equal(events_of(bad), 0);
    ts_sql(mysql, "DROP TRIGGER refuse");
    WANT(OK, ts_try(far, bad, ROWLOCK_OPTIMISTIC));
    WANT(OK, rowlock_client_flush(far, 20000, &ts_err));
    assert_int_equal(events_of(bad), 2);
}

/* Events of an outage are written when the server is back. */
TS_ONCE(test_an_outage_costs_no_history)
{
    const char *name = ts_name("event-outage");
    atomic_int failures = 0;
    ts_proxy_flow(proxy);
    TS_CLIENT *far = ts_open_as((rowlock_client_options){
        .socket = ts_proxy_socket(proxy), .log = count_warnings, .log_data = &failures});
    /* The hold is lost during the outage, not before. */
    rowlock_hold *hold = ts_take(far, name, ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    WANT(OK, rowlock_client_flush(far, 20000, &ts_err));
    ts_proxy_refuse(proxy, true);
    ts_proxy_cut(proxy);
    assert_true(POLL_UNTIL(atomic_load(&failures) > 0, 20000)); /* the event of the loss */
    ts_proxy_flow(proxy);
    WANT(OK, rowlock_client_flush(far, 20000, &ts_err));
    assert_int_equal(events_of(name), 2);
    WANT(LOST, rowlock_release(hold, &ts_err));
}

/* A dead connection of the pool, whose end the client has not seen yet (a KILL a moment ago), does
 * not mean that the server cannot be reached. */
TS_ONCE(test_a_look_on_a_dying_connection)
{
    const char *name = ts_name("looked-at");
    TS_CLIENT *far = open_through();
    rowlock_list *list = NULL;
    WANT(OK, ts_try(far, name, ROWLOCK_OPTIMISTIC));
    for (int down = 0; down < 2; down++) {
        ts_proxy_cut_after(proxy, down ? TS_DOWN : TS_UP, 0, false);
        WANT(OK, rowlock_list_one(far, name, &list, &ts_err));
        assert_true(ts_proxy_fired(proxy));
        ts_proxy_flow(proxy);
        rowlock_list_free(list);
    }
    /* A server that does not answer at all is tried once, and then reported. */
    ts_proxy_cut_after(proxy, TS_UP, 0, true);
    WANT(UNAVAILABLE, rowlock_list_one(far, name, &list, &ts_err));
    ts_proxy_flow(proxy);
}

TS_MAIN("losses", begin, end)
