/*
 * Waiting for a lease by the bell: in the order of arrival, woken one by one, without a
 * statement meanwhile. The waiters here are clients and threads; processes that die or are
 * stopped are in faults/bell.c.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mode/client.h"
#include "rowlock/rowlock_mysql.h"
#include "stmt/bell.h"
#include "support/proxy.h"
#include "support/support.h"

enum { WAITERS = 8, LONG_TTL = 30000, SOON = 1000 };
enum { LOOK_MS = 4000 }; /* a waiter in the queue looks at the row no sooner (mode/lease.c) */

static MYSQL *mysql;
static ts_proxy *proxy;

static int begin(void **state)
{
    ts_suite_begin(state);
    mysql = ts_connect(ts_schema());
    proxy = ts_proxy_start(ts_socket());
    return 0;
}

static int end(void **state)
{
    ts_proxy_stop(proxy);
    mysql_close(mysql);
    return ts_suite_end(state);
}

/* ----------------------------------------------------------------- what the server sees */

static bool queue_becomes(const char *name, uint64_t count)
{
    return POLL_UNTIL(ts_in_queue(mysql, name) == count, 5000);
}

/* The connection that has the bell; 0: nobody. */
static uint64_t bell_holder(const char *name)
{
    char prefix[RL_BELL_PREFIX_MAX + 1];
    rl_bell_prefix(ts_schema(), prefix);
    return ts_sql_u64(mysql, "SELECT COALESCE(IS_USED_LOCK('%s%" PRIu64 "'), 0)", prefix,
                      ts_id_of(mysql, name));
}

/* A free lease that nobody waits for has no bell. The server may still have to notice that the
 * connection of a wait that was broken off has ended. */
static void nothing_is_left(const char *name)
{
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == 0 && bell_holder(name) == 0, 10000));
}

static uint64_t token_of(const char *name)
{
    return ts_sql_u64(mysql, "SELECT version FROM resource WHERE resource_name = %s",
                      ts_quote(name));
}

/* ------------------------------------------------------------------------------ clients */

static rowlock_client *open_as(const char *user, rowlock_waiting way)
{
    rowlock_client_options options = ts_options();
    rowlock_client *client = NULL;
    if (user) {
        options.user = user;
        options.password = "bell";
    }
    options.waiting = way;
    options.no_history = true;
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    return client;
}

static rowlock_client *open_through(rowlock_waiting way)
{
    rowlock_client_options options = ts_options();
    rowlock_client *client = NULL;
    options.socket = ts_proxy_socket(proxy);
    options.waiting = way;
    options.no_history = true;
    ts_proxy_flow(proxy);
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    return client;
}

static rowlock_hold *take(rowlock_client *client, const char *name)
{
    return ts_take(client, name, ROWLOCK_OPTIMISTIC, LONG_TTL);
}

static rowlock_status try(rowlock_client *client, const char *name)
{
    return ts_try(client, name, ROWLOCK_OPTIMISTIC);
}

static ts_waiter waiter_of(rowlock_client *client, const char *name)
{
    return (ts_waiter){
        .client = client, .name = name, .options = {.wait_ms = 20000, .ttl_ms = LONG_TTL}};
}

/* Starts to wait, and stands in the queue at the server as the nth. */
static void queue_up(ts_waiter *waiter, uint64_t nth)
{
    ts_waiter_start(waiter);
    assert_true(queue_becomes(waiter->name, nth));
}

static int64_t got_after(ts_waiter *waiter, int64_t since_ms)
{
    WANT(OK, ts_waiter_join(waiter, 20000));
    return waiter->ended_ms - since_ms;
}

static ts_waiter *one_that_ended(ts_waiter *waiters, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (waiters[i].at_work && ts_waiter_ended(&waiters[i]))
            return &waiters[i];
    return NULL;
}

/* All of them, as they come to their turn: who was woken, and stood still for a second with all of
 * the machine, may be passed by. */
static void serve_all(ts_waiter *waiters, unsigned count)
{
    for (unsigned served = 0; served < count; served++) {
        ts_waiter *next = NULL;
        assert_true(POLL_UNTIL((next = one_that_ended(waiters, count)) != NULL, 10000));
        WANT(OK, ts_waiter_join(next, 0));
        WANT(OK, rowlock_release(next->hold, &ts_err));
    }
}

/* -------------------------------------------------------------------- first come, first */

/* One release, one is woken: the one that came first. */
static void test_first_come_first_served(void **state)
{
    const char *name = ts_name("fifo");
    rowlock_client *holder = ts_open();
    rowlock_client *clients[WAITERS];
    ts_waiter waiters[WAITERS];
    rowlock_hold *hold = take(holder, name);
    uint64_t token = rowlock_hold_token(hold);
    (void)state;
    for (unsigned i = 0; i < WAITERS; i++) {
        clients[i] = ts_open();
        waiters[i] = waiter_of(clients[i], name);
        queue_up(&waiters[i], i + 1);
    }
    for (unsigned i = 0; i < WAITERS; i++) {
        int64_t released = ts_now_ms();
        WANT(OK, rowlock_release(hold, &ts_err));
        assert_between(0, got_after(&waiters[i], released), SOON + ts_slack_ms());
        hold = waiters[i].hold;
        assert_int_equal(rowlock_hold_token(hold), token + i + 1);
        assert_int_equal(ts_in_queue(mysql, name), WAITERS - 1 - i);
    }
    WANT(OK, rowlock_release(hold, &ts_err));
    nothing_is_left(name);
    rowlock_client_close(holder);
    for (unsigned i = 0; i < WAITERS; i++)
        rowlock_client_close(clients[i]);
}

/* Nobody polls: while a holder holds and renews, the waiters send nothing but a look at the
 * lease about when it would end. */
static void test_waiters_are_silent(void **state)
{
    static const int64_t ttls[] = {LONG_TTL, TS_KEPT_TTL};
    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        const char *name = ts_name("silent");
        rowlock_client *holder = ts_open();
        rowlock_client *clients[WAITERS];
        ts_waiter waiters[WAITERS];
        rowlock_hold *hold = ts_take(holder, name, ROWLOCK_OPTIMISTIC, ttls[round]);
        for (unsigned i = 0; i < WAITERS; i++)
            clients[i] = open_through(ROWLOCK_WAITING_AUTO);
        int64_t start = ts_now_ms();
        for (unsigned i = 0; i < WAITERS; i++) {
            waiters[i] = waiter_of(clients[i], name);
            queue_up(&waiters[i], i + 1);
        }
        unsigned before = ts_proxy_commands(proxy);
        ts_pass_ms(round == 0 ? 2500 : TS_KEPT_FOR);
        unsigned sent = ts_proxy_commands(proxy) - before;
        /* Each looks after four seconds, or when what it saw expires, again and again; the first
         * look needs a connection. Polling would take 160 at least. */
        bool before_any_look = round == 0 && ts_now_ms() < start + LOOK_MS;
        assert_between(0, sent, before_any_look ? 0 : 10 * WAITERS);
        assert_held(hold);
        assert_int_equal(ts_in_queue(mysql, name), WAITERS);
        WANT(OK, rowlock_release(hold, &ts_err));
        serve_all(waiters, WAITERS);
        nothing_is_left(name);
        rowlock_client_close(holder);
        for (unsigned i = 0; i < WAITERS; i++)
            rowlock_client_close(clients[i]);
    }
}

/* A hand-over costs a few statements, however many wait: the others are not woken. */
static void test_a_release_wakes_one(void **state)
{
    const char *name = ts_name("one");
    rowlock_client *holder = ts_open();
    rowlock_client *clients[WAITERS];
    ts_waiter waiters[WAITERS];
    rowlock_hold *hold = take(holder, name);
    (void)state;
    for (unsigned i = 0; i < WAITERS; i++) {
        clients[i] = open_through(ROWLOCK_WAITING_AUTO);
        waiters[i] = waiter_of(clients[i], name);
        queue_up(&waiters[i], i + 1);
    }
    unsigned before = ts_proxy_commands(proxy);
    WANT(OK, rowlock_release(hold, &ts_err));
    serve_all(waiters, WAITERS);
    /* Each prepares and sends its acquire and its release. */
    assert_between(2 * WAITERS, ts_proxy_commands(proxy) - before, 6 * WAITERS);
    rowlock_client_close(holder);
    for (unsigned i = 0; i < WAITERS; i++)
        rowlock_client_close(clients[i]);
}

/* For a second it is kept for the one that was woken; on a machine that stood still since, a try
 * may have it. */
static bool passes_by(rowlock_client *client, const char *name, int64_t released_ms)
{
    rowlock_status status = try(client, name);
    if (status == ROWLOCK_OK && ts_now_ms() - released_ms >= 900)
        return true;
    WANT(BUSY, status);
    return false;
}

/* Who releases and comes again at once does not pass by those who wait. (The history would be
 * written on the same connection now and then; a release in that moment rings later.) */
static void test_nobody_barges(void **state)
{
    const char *name = ts_name("barge");
    rowlock_client *greedy = open_as(NULL, ROWLOCK_WAITING_AUTO);
    rowlock_client *other = open_as(NULL, ROWLOCK_WAITING_AUTO);
    (void)state;
    rowlock_hold *hold = take(greedy, name);
    for (unsigned i = 0; i < ts_rounds(100); i++) {
        ts_waiter waiter = waiter_of(other, name);
        uint64_t token = rowlock_hold_token(hold);
        queue_up(&waiter, 1);
        int64_t released = ts_now_ms();
        WANT(OK, rowlock_release(hold, &ts_err));
        bool passed = passes_by(greedy, name, released);
        ts_waiter again = waiter_of(greedy, name);
        ts_waiter_start(&again);
        WANT(OK, ts_waiter_join(&waiter, 10000));
        if (ts_now_ms() - released < 900)
            assert_int_equal(rowlock_hold_token(waiter.hold), token + 1 + passed);
        WANT(OK, rowlock_release(waiter.hold, &ts_err));
        WANT(OK, ts_waiter_join(&again, 10000));
        hold = again.hold;
    }
    WANT(OK, rowlock_release(hold, &ts_err));
    nothing_is_left(name);
    rowlock_client_close(greedy);
    rowlock_client_close(other);
}

/* The one that was woken is slow (the reply to its GET_LOCK is held back): a try does not pass it.
 * However the lease was freed: with its bell, by one that had to wait itself, and by one that has
 * lost its connection. */
static void test_nobody_passes_who_was_woken(void **state)
{
    rowlock_client *holder = open_as(NULL, ROWLOCK_WAITING_AUTO);
    rowlock_client *other = open_as(NULL, ROWLOCK_WAITING_AUTO);
    rowlock_client *slow = open_through(ROWLOCK_WAITING_AUTO);
    (void)state;
    for (unsigned way = 0; way < 3; way++) {
        const char *name = ts_name("woken");
        ts_waiter waited = waiter_of(holder, name);
        rowlock_hold *hold = take(way == 1 ? other : holder, name);
        if (way == 1) {
            queue_up(&waited, 1);
            WANT(OK, rowlock_release(hold, &ts_err));
            WANT(OK, ts_waiter_join(&waited, 10000));
            hold = waited.hold;
        }
        WANT(BUSY, try(other, name));
        ts_proxy_arm(proxy, TS_STALL_REPLY, "rowlock-waiter", 1, false);
        ts_waiter waiter = waiter_of(slow, name);
        queue_up(&waiter, 1);
        if (way == 2)
            ts_cut(mysql, name);
        int64_t released = ts_now_ms();
        WANT(OK, rowlock_release(hold, &ts_err));
        (void)passes_by(other, name, released);
        ts_proxy_flow(proxy);
        WANT(OK, ts_waiter_join(&waiter, 10000));
        WANT(OK, rowlock_release(waiter.hold, &ts_err));
        nothing_is_left(name);
    }
    rowlock_client_close(holder);
    rowlock_client_close(other);
    rowlock_client_close(slow);
}

static void test_a_try_after_a_release(void **state)
{
    const char *name = ts_name("after");
    rowlock_client *clients[3] = {ts_open(), ts_open(), ts_open()};
    (void)state;
    for (unsigned i = 0; i < ts_rounds(1000); i++)
        WANT(OK, try(clients[i % 7 % 3], name));
    nothing_is_left(name);
    for (unsigned i = 0; i < 3; i++)
        rowlock_client_close(clients[i]);
}

/* A machine that stood still for the whole of a short wait may not even have connected. */
static bool was_too_late(rowlock_status status)
{
    return status == ROWLOCK_TIMEOUT || status == ROWLOCK_UNAVAILABLE;
}

/* The same with waiters that came and went before. */
static void test_a_try_after_a_wait(void **state)
{
    const char *name = ts_name("after-wait");
    rowlock_client *one = ts_open();
    rowlock_client *two = ts_open();
    (void)state;
    for (unsigned i = 0; i < ts_rounds(50); i++) {
        rowlock_hold *hold = take(one, name);
        ts_waiter waiter = waiter_of(two, name);
        if (i % 2)
            waiter.options.wait_ms = 30;
        ts_waiter_start(&waiter);
        if (i % 2)
            assert_true(was_too_late(ts_waiter_join(&waiter, 10000)));
        WANT(OK, rowlock_release(hold, &ts_err));
        if (i % 2 == 0) {
            WANT(OK, ts_waiter_join(&waiter, 10000));
            WANT(OK, rowlock_release(waiter.hold, &ts_err));
        }
        WANT(OK, try(one, name));
        WANT(OK, try(two, name));
    }
    nothing_is_left(name);
    rowlock_client_close(one);
    rowlock_client_close(two);
}

/* ------------------------------------------------------------------ threads of one client */

static uint64_t connections_of(const char *user)
{
    return ts_sql_u64(
        mysql, "SELECT COUNT(*) FROM information_schema.processlist WHERE user = '%s'", user);
}

static uint64_t waiting_as(const char *user)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM information_schema.processlist WHERE user = '%s'"
                      " AND state = 'User lock'",
                      user);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Threads of the client that stand for the lock, the one at the server too. */
static unsigned in_line(rowlock_client *client, uint64_t id)
{
    unsigned count = 0;
    pthread_mutex_lock(&client->lines.mutex);
    for (rl_place *p = client->lines.buckets[id % RL_LINE_BUCKETS].first; p; p = p->next)
        count += p->key == id;
    pthread_mutex_unlock(&client->lines.mutex);
    return count;
}

static void line_up(ts_waiter *waiters, unsigned count)
{
    uint64_t id = ts_id_of(mysql, waiters[0].name);
    for (unsigned i = 0; i < count; i++) {
        ts_waiter_start(&waiters[i]);
        assert_true(POLL_UNTIL(in_line(waiters[i].client, id) == i + 1, 10000));
    }
    assert_true(queue_becomes(waiters[0].name, 1));
}

static void test_threads_wait_in_line(void **state)
{
    const char *name = ts_name("line");
    const char *user = ts_user("line", "bell", "ALL", ts_schema());
    rowlock_client *holder = ts_open();
    rowlock_client *client = open_as(user, ROWLOCK_WAITING_AUTO);
    ts_waiter waiters[WAITERS];
    (void)state;
    WANT(OK, try(client, name));
    unsigned descriptors = open_descriptors();
    rowlock_hold *hold = take(holder, name);
    uint64_t token = rowlock_hold_token(hold);
    for (unsigned i = 0; i < WAITERS; i++)
        waiters[i] = waiter_of(client, name);
    line_up(waiters, WAITERS);
    assert_int_equal(waiting_as(user), 1);
    assert_between(1, (int64_t)connections_of(user), 4);
    for (unsigned i = 0; i < WAITERS; i++) {
        WANT(OK, rowlock_release(hold, &ts_err));
        WANT(OK, ts_waiter_join(&waiters[i], 10000));
        hold = waiters[i].hold;
        assert_int_equal(rowlock_hold_token(hold), token + i + 1);
        assert_true(POLL_UNTIL(waiting_as(user) == (i + 1 < WAITERS), 10000));
    }
    WANT(OK, rowlock_release(hold, &ts_err));
    nothing_is_left(name);
    /* A few connections more may be kept; no descriptor of the line. */
    assert_between(descriptors, open_descriptors(), descriptors + 3);
    rowlock_client_close(client);
    rowlock_client_close(holder);
}

/* One in the middle gives up by its time, another is cancelled, the first one too: the others
 * keep their order. */
static void test_some_in_the_line_give_up(void **state)
{
    const char *name = ts_name("give-up");
    rowlock_client *holder = ts_open();
    rowlock_client *client = ts_open();
    rowlock_cancel *cancel = NULL;
    ts_waiter waiters[WAITERS];
    (void)state;
    WANT(OK, try(client, name));
    WANT(OK, rowlock_cancel_new(&cancel, &ts_err));
    rowlock_hold *hold = take(holder, name);
    uint64_t token = rowlock_hold_token(hold);
    for (unsigned i = 0; i < WAITERS; i++)
        waiters[i] = waiter_of(client, name);
    waiters[0].options.cancel = waiters[3].options.cancel = cancel;
    waiters[5].options.wait_ms = 1500;
    line_up(waiters, WAITERS);
    int64_t fired = ts_now_ms();
    rowlock_cancel_fire(cancel);
    WANT(CANCELLED, ts_waiter_join(&waiters[0], 10000));
    WANT(CANCELLED, ts_waiter_join(&waiters[3], 10000));
    assert_between(0, waiters[0].ended_ms - fired, ts_slack_ms());
    assert_between(0, waiters[3].ended_ms - fired, ts_slack_ms());
    WANT(TIMEOUT, ts_waiter_join(&waiters[5], 10000));
    assert_between(1499, waiters[5].ended_ms - waiters[5].started_ms, 1500 + ts_slack_ms());
    WANT(OK, rowlock_release(hold, &ts_err));
    for (unsigned i = 0; i < WAITERS; i++) {
        if (i == 0 || i == 3 || i == 5)
            continue;
        WANT(OK, ts_waiter_join(&waiters[i], 10000));
        assert_int_equal(rowlock_hold_token(waiters[i].hold), ++token);
        WANT(OK, rowlock_release(waiters[i].hold, &ts_err));
    }
    nothing_is_left(name);
    rowlock_cancel_free(cancel);
    rowlock_client_close(client);
    rowlock_client_close(holder);
}

/* ------------------------------------------------------------------------- many leases */

/* Leases that nobody wants need no connection of their own; and each has its bell. */
static void test_many_leases_few_connections(void **state)
{
    unsigned count = ts_rounds(2000);
    const char *user = ts_user("many", "bell", "ALL", ts_schema());
    rowlock_client *client = open_as(user, ROWLOCK_WAITING_AUTO);
    rowlock_client *other = ts_open();
    rowlock_hold **holds = calloc(count, sizeof *holds);
    const char *base = ts_name("many");
    (void)state;
    for (unsigned i = 0; i < count; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s-%u", base, i);
        holds[i] = take(client, name);
    }
    assert_between(1, (int64_t)connections_of(user), 4);
    for (unsigned round = 0; round < 20; round++) {
        unsigned which = (round * 7919 + 13) % count;
        if (!holds[which])
            continue;
        ts_waiter waiter = waiter_of(other, rowlock_hold_name(holds[which]));
        char name[64];
        snprintf(name, sizeof name, "%s", waiter.name);
        waiter.name = name;
        queue_up(&waiter, 1);
        int64_t released = ts_now_ms();
        WANT(OK, rowlock_release(holds[which], &ts_err));
        holds[which] = NULL;
        assert_between(0, got_after(&waiter, released), 200 + ts_slack_ms());
        WANT(OK, rowlock_release(waiter.hold, &ts_err));
        nothing_is_left(name);
    }
    assert_between(1, (int64_t)connections_of(user), 4);
    for (unsigned i = 0; i < count; i++)
        if (holds[i])
            WANT(OK, rowlock_release(holds[i], &ts_err));
    assert_int_equal(ts_sql_u64(mysql,
                                "SELECT COUNT(*) FROM resource"
                                " WHERE status = 'held' AND resource_name LIKE '%s-%%'",
                                base),
                     0);
    free(holds);
    rowlock_client_close(client);
    rowlock_client_close(other);
}

/* The connection that has the bell is kept by a statement of another thread, which waits for a
 * row that a transaction has fenced: the bell rings when it comes back. */
static void test_the_bell_of_a_busy_connection(void **state)
{
    const char *wanted = ts_name("busy");
    const char *fenced = ts_name("fenced");
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    rowlock_client *third = ts_open();
    MYSQL *transaction = ts_connect(ts_schema());
    (void)state;
    WANT(OK, try(client, fenced));
    WANT(OK, try(other, wanted));
    rowlock_hold *hold = take(client, wanted);
    uint64_t keeper = bell_holder(wanted);
    ts_sql(transaction, "BEGIN");
    ts_sql(transaction, "SELECT * FROM resource WHERE resource_name = %s FOR UPDATE",
           ts_quote(fenced));
    ts_waiter kept = waiter_of(client, fenced);
    ts_waiter_start(&kept);
    assert_true(ts_server_waits(mysql, "UPDATE resource%", 10000));
    assert_int_equal(ts_sql_u64(mysql,
                                "SELECT COUNT(*) FROM information_schema.processlist"
                                " WHERE id = %" PRIu64 " AND command <> 'Sleep'",
                                keeper),
                     1);
    ts_waiter waiter = waiter_of(third, wanted);
    queue_up(&waiter, 1);
    int64_t released = ts_now_ms();
    WANT(OK, rowlock_release(hold, &ts_err));
    /* A statement of the client's waits for a row for a second, and no longer. */
    assert_between(0, got_after(&waiter, released), 1500 + ts_slack_ms());
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    ts_sql(transaction, "ROLLBACK");
    WANT(OK, ts_waiter_join(&kept, 10000));
    WANT(OK, rowlock_release(kept.hold, &ts_err));
    nothing_is_left(wanted);
    nothing_is_left(fenced);
    mysql_close(transaction);
    rowlock_client_close(client);
    rowlock_client_close(other);
    rowlock_client_close(third);
}

typedef struct looper {
    rowlock_client *client;
    const char *names[4];
    pthread_t thread;
    unsigned rounds;
    unsigned refused; /* tries */
    rowlock_status status;
    rowlock_error err;
} looper;

static rowlock_status try_then_wait(looper *this, const char *name, rowlock_hold **hold)
{
    rowlock_acquire_options options = {.ttl_ms = LONG_TTL};
    rowlock_status status = rowlock_acquire(this->client, name, &options, hold, &this->err);
    if (status != ROWLOCK_BUSY)
        return status;
    this->refused++;
    options.wait_ms = 10000;
    return rowlock_acquire(this->client, name, &options, hold, &this->err);
}

/* Has several, and gives back and takes one after the other. */
static void *juggle(void *arg)
{
    looper *this = arg;
    rowlock_hold *holds[4] = {0};
    rowlock_status status = ROWLOCK_OK;
    for (unsigned i = 0; i < this->rounds && status == ROWLOCK_OK; i++) {
        if (holds[i % 4])
            status = rowlock_release(holds[i % 4], &this->err);
        if (status == ROWLOCK_OK)
            status = try_then_wait(this, this->names[i % 4], &holds[i % 4]);
    }
    for (unsigned i = 0; i < 4 && status == ROWLOCK_OK; i++)
        status = rowlock_release(holds[i], &this->err);
    this->status = status;
    return NULL;
}

/* Threads that share connections, each with names of its own: a try is not refused. (But for the
 * moment in which a server that is late has not seen yet that a connection with the bell was given
 * up; so not one in a hundred.) */
static void test_threads_with_names_of_their_own(void **state)
{
    looper all[6];
    unsigned rounds = 0;
    unsigned refused = 0;
    int64_t stood = ts_stood_ms();
    rowlock_client *client = ts_open();
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        all[i] = (looper){.client = client, .rounds = ts_rounds(300)};
        for (unsigned n = 0; n < 4; n++)
            all[i].names[n] = ts_name("own");
        pthread_create(&all[i].thread, NULL, juggle, &all[i]);
    }
    for (unsigned i = 0; i < 6; i++) {
        pthread_join(all[i].thread, NULL);
        ts_err = all[i].err;
        WANT(OK, all[i].status);
        rounds += all[i].rounds;
        refused += all[i].refused;
        for (unsigned n = 0; n < 4; n++)
            nothing_is_left(all[i].names[n]);
    }
    assert_between(0, refused, rounds / 100 + (ts_stood_ms() - stood) / 50);
    rowlock_client_close(client);
}

/* ----------------------------------------------------------- deadlines, and being told */

/* In the queue, and as its first, who has the bell but not the lease. */
static void test_cancel_and_deadline(void **state)
{
    enum { WAIT_MS = 1500 }; /* there is time to see it wait */
    rowlock_client *holder = ts_open();
    rowlock_client *client = ts_open();
    int64_t stood = ts_stood_ms();
    rowlock_cancel *cancel = NULL;
    (void)state;
    WANT(OK, rowlock_cancel_new(&cancel, &ts_err));
    for (unsigned i = 0; i < 8; i++) {
        bool first = i % 2;
        bool cancels = i / 2 % 2;
        const char *name = ts_name("ends");
        rowlock_hold *hold = take(holder, name);
        uint64_t keeper = bell_holder(name);
        if (first)
            ts_cut(mysql, name);
        ts_waiter waiter = waiter_of(client, name);
        waiter.options.cancel = cancel;
        waiter.options.wait_ms = cancels ? 20000 : WAIT_MS;
        ts_waiter_start(&waiter);
        if (first)
            assert_true(POLL_UNTIL(bell_holder(name) != keeper && bell_holder(name), 10000));
        else
            assert_true(queue_becomes(name, 1));
        int64_t due = cancels ? ts_now_ms() : waiter.started_ms + WAIT_MS;
        if (cancels)
            rowlock_cancel_fire(cancel);
        assert_held(hold);
        rowlock_status status = ts_waiter_join(&waiter, 10000);
        if (cancels)
            WANT(CANCELLED, status);
        else
            WANT_TIMEOUT(ROWLOCK_OPTIMISTIC, stood, status);
        assert_between(-1, waiter.ended_ms - due, ts_slack_ms());
        assert_true(queue_becomes(name, 0));
        WANT(OK, rowlock_release(hold, &ts_err));
        nothing_is_left(name);
        rowlock_cancel_reset(cancel);
    }
    rowlock_cancel_free(cancel);
    rowlock_client_close(client);
    rowlock_client_close(holder);
}

/* The reply had not come when there was no time left to ask for it: nobody has it, or it has been
 * taken for nobody. */
static bool free_at_last(rowlock_client *client, const char *name)
{
    ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
    return try(client, name) == ROWLOCK_OK;
}

/* Many waits that end just when the bell comes: never a bell for nobody, never two holders. A
 * server that is some 50 ms late leaves it unknown who has it; not often. */
static void test_deadlines_at_the_last_moment(void **state)
{
    const char *name = ts_name("last-moment");
    rowlock_client *holder = ts_open();
    rowlock_client *client = ts_open();
    unsigned got = 0;
    unsigned unknown = 0;
    int64_t stood = ts_stood_ms();
    (void)state;
    WANT(OK, try(client, name));
    for (unsigned i = 0; i < ts_rounds(60); i++) {
        rowlock_hold *hold = take(holder, name);
        ts_waiter waiter = waiter_of(client, name);
        waiter.options.wait_ms = 20;
        ts_waiter_start(&waiter);
        ts_pass_ms(waiter.started_ms + 17 + i % 6 - ts_now_ms());
        WANT(OK, rowlock_release(hold, &ts_err));
        rowlock_status status = ts_waiter_join(&waiter, 10000);
        if (status == ROWLOCK_OK) {
            got++;
            WANT(BUSY, try(holder, name));
            WANT(OK, rowlock_release(waiter.hold, &ts_err));
        } else if (status == ROWLOCK_UNKNOWN) {
            unknown++;
            assert_true(POLL_UNTIL(free_at_last(holder, name), 10000));
        } else {
            assert_true(was_too_late(status));
        }
        WANT(OK, try(holder, name));
    }
    assert_between(0, unknown, ts_rounds(60) / 10 + (ts_stood_ms() - stood) / 50);
    print_message("# %u of %u got it at the last moment\n", got, ts_rounds(60));
    nothing_is_left(name);
    rowlock_client_close(client);
    rowlock_client_close(holder);
}

/* ----------------------------------------------------- a holder that has lost its bell */

/* The holder's connection ends. It keeps its lease; the first of those who wait has the bell,
 * and hears of the release soon all the same. */
static void test_a_holder_without_its_bell(void **state)
{
    const char *name = ts_name("cut");
    rowlock_client *holder = ts_open();
    rowlock_client *clients[3];
    ts_waiter waiters[3];
    rowlock_hold *hold = ts_take(holder, name, ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    uint64_t token = rowlock_hold_token(hold);
    uint64_t keeper = bell_holder(name);
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        clients[i] = ts_open();
        waiters[i] = waiter_of(clients[i], name);
        queue_up(&waiters[i], i + 1);
    }
    ts_cut(mysql, name);
    assert_true(POLL_UNTIL(bell_holder(name) != keeper, 10000));
    for (int64_t until = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < until; ts_pass_ms(20)) {
        assert_held(hold);
        assert_int_equal(token_of(name), token);
    }
    assert_int_equal(ts_in_queue(mysql, name), 2);
    for (unsigned i = 0; i < 3; i++) {
        int64_t released = ts_now_ms();
        WANT(OK, rowlock_release(hold, &ts_err));
        assert_between(0, got_after(&waiters[i], released), 500 + ts_slack_ms());
        hold = waiters[i].hold;
        assert_int_equal(rowlock_hold_token(hold), token + i + 1);
    }
    WANT(OK, rowlock_release(hold, &ts_err));
    nothing_is_left(name);
    rowlock_client_close(holder);
    for (unsigned i = 0; i < 3; i++)
        rowlock_client_close(clients[i]);
}

/* All connections of the holder's process end, again and again, with many bells on them. */
static void test_cuts_among_many(void **state)
{
    enum { MANY = 10 };
    const char *names[MANY];
    rowlock_hold *holds[MANY];
    ts_waiter waiters[MANY];
    rowlock_client *holder = ts_open();
    rowlock_client *client = ts_open();
    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        names[i] = ts_name("cuts");
        holds[i] = ts_take(holder, names[i], ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
        waiters[i] = waiter_of(client, names[i]);
        queue_up(&waiters[i], 1);
    }
    for (unsigned i = 0; i < MANY; i += 3)
        ts_cut(mysql, names[i]);
    for (unsigned i = 0; i < MANY; i++) {
        assert_held(holds[i]);
        int64_t released = ts_now_ms();
        WANT(OK, rowlock_release(holds[i], &ts_err));
        assert_between(0, got_after(&waiters[i], released), 500 + ts_slack_ms());
        WANT(OK, rowlock_release(waiters[i].hold, &ts_err));
        nothing_is_left(names[i]);
    }
    rowlock_client_close(holder);
    rowlock_client_close(client);
}

static bool is_connected(uint64_t id)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %" PRIu64,
                      id) == 1;
}

static bool is_at_bell(uint64_t id)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %" PRIu64
                      " AND state = 'User lock'",
                      id) == 1;
}

/* The first in the queue has the bell of a lease that was given back, and does not come for it. The
 * next does not wait for him for long: he is ended where he does nothing, as when his host has
 * vanished, and left alone where he is at work: on a server that stood still that may be his
 * acquire. The lease is taken without the bell then. */
static void test_who_does_not_come(void **state)
{
    static const char *const then[] = {"", ", SLEEP(600)"};
    rowlock_client *holder = ts_open();
    rowlock_client *client = ts_open();
    (void)state;
    for (unsigned at_work = 0; at_work < 2; at_work++) {
        const char *name = ts_name("slow-to-come");
        char prefix[RL_BELL_PREFIX_MAX + 1];
        char wait[200];
        MYSQL *slow = ts_connect(ts_schema());
        uint64_t id = mysql_thread_id(slow);
        rowlock_hold *hold = take(holder, name);
        rl_bell_prefix(ts_schema(), prefix);
        snprintf(wait, sizeof wait, "SELECT GET_LOCK('%s%" PRIu64 "', 600)%s", prefix,
                 ts_id_of(mysql, name), then[at_work]);
        assert_int_equal(mysql_send_query(slow, wait, strlen(wait)), 0);
        assert_true(POLL_UNTIL(is_at_bell(id), 10000));
        ts_waiter waiter = waiter_of(client, name);
        queue_up(&waiter, 1);
        WANT(OK, rowlock_release(hold, &ts_err));
        WANT(OK, ts_waiter_join(&waiter, 20000));
        if (at_work) {
            assert_true(is_connected(id));
            assert_true(bell_holder(name) == id);
            ts_sql(mysql, "KILL QUERY %" PRIu64, id);
            (void)!mysql_read_query_result(slow); /* an error, or what was found so far */
            mysql_free_result(mysql_store_result(slow));
            ts_sql(slow, "DO 0");
            assert_true(bell_holder(name) == id);
            mysql_close(slow);
            slow = NULL;
        }
        assert_true(POLL_UNTIL(!is_connected(id), 10000));
        WANT(OK, rowlock_release(waiter.hold, &ts_err));
        nothing_is_left(name);
        mysql_close(slow);
    }
    rowlock_client_close(holder);
    rowlock_client_close(client);
}

/* ---------------------------------------------------------------------------- polling */

/* Who polls sends no GET_LOCK, ever; and comes to its turn among those who queue. */
static void test_who_polls_has_no_bell(void **state)
{
    const char *name = ts_name("polls");
    rowlock_client *poller = open_through(ROWLOCK_WAITING_POLL);
    rowlock_client *other = ts_open();
    (void)state;
    ts_proxy_arm(proxy, TS_LOSE_COMMAND, "_LOCK(", 1, false);
    WANT(OK, try(poller, name));
    rowlock_hold *hold = take(other, name);
    ts_waiter waiter = waiter_of(poller, name);
    ts_waiter_start(&waiter);
    ts_pass_ms(600);
    int64_t released = ts_now_ms();
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_between(0, got_after(&waiter, released), 500 + ts_slack_ms());
    assert_int_equal(bell_holder(name), 0);
    /* The other one has the bell at once, and not the lease. */
    ts_waiter second = waiter_of(other, name);
    ts_waiter_start(&second);
    assert_true(POLL_UNTIL(bell_holder(name) != 0, 10000));
    WANT(BUSY, try(other, name));
    released = ts_now_ms();
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    assert_between(0, got_after(&second, released), 500 + ts_slack_ms());
    WANT(OK, rowlock_release(second.hold, &ts_err));
    assert_false(ts_proxy_fired(proxy));
    nothing_is_left(name);
    rowlock_client_close(poller);
    rowlock_client_close(other);
}

typedef struct mixer {
    rowlock_client *client;
    const char *name;
    atomic_int *inside;
    _Atomic uint64_t *token;
    atomic_bool *over;
    pthread_t thread;
    int64_t pause_ms;
    unsigned least_turns; /* goes on until it has had them */
    unsigned turns;
    unsigned odd;
    rowlock_status status;
} mixer;

static void *mix(void *arg)
{
    mixer *this = arg;
    while (!atomic_load(this->over) || this->turns < this->least_turns) {
        rowlock_hold *hold = NULL;
        rowlock_acquire_options options = {.wait_ms = 60000, .ttl_ms = LONG_TTL};
        this->status = rowlock_acquire(this->client, this->name, &options, &hold, NULL);
        if (this->status != ROWLOCK_OK)
            break;
        this->odd += atomic_fetch_add(this->inside, 1) != 0;
        uint64_t token = rowlock_hold_token(hold);
        this->odd += atomic_exchange(this->token, token) >= token;
        ts_pass_ms(++this->turns % 3);
        atomic_fetch_sub(this->inside, 1);
        this->status = rowlock_release(hold, NULL);
        if (this->status != ROWLOCK_OK)
            break;
        ts_pass_ms(this->pause_ms);
    }
    return NULL;
}

/* Never two inside. Those who poll come to their turn when nobody queues: at the latest when the
 * others have gone (docs/architecture.md: they may starve as long as somebody always queues). */
static void test_both_ways_together(void **state)
{
    enum { QUEUING = 4, POLLING = 2, ALL = QUEUING + POLLING };
    const char *name = ts_name("mixed");
    mixer all[ALL];
    atomic_int inside = 0;
    _Atomic uint64_t token = 0;
    atomic_bool over = false;
    (void)state;
    for (unsigned i = 0; i < ALL; i++) {
        bool polls = i >= QUEUING;
        all[i] =
            (mixer){.client = open_as(NULL, polls ? ROWLOCK_WAITING_POLL : ROWLOCK_WAITING_AUTO),
                    .name = name,
                    .inside = &inside,
                    .token = &token,
                    .over = &over,
                    .pause_ms = polls ? 0 : 20,
                    .least_turns = 2};
        pthread_create(&all[i].thread, NULL, mix, &all[i]);
    }
    ts_pass_ms(2000);
    atomic_store(&over, true);
    for (unsigned i = 0; i < ALL; i++) {
        pthread_join(all[i].thread, NULL);
        WANT(OK, all[i].status);
        assert_int_equal(all[i].odd, 0);
        assert_true(all[i].turns >= 2);
        rowlock_client_close(all[i].client);
    }
    nothing_is_left(name);
}

/* -------------------------------------------------------- taken away, shut, given back */

/* Long before its holder would hear of it. */
static void test_a_break_rings(void **state)
{
    const char *name = ts_name("broken");
    rowlock_client *holder = ts_open();
    rowlock_client *breaker = ts_open();
    rowlock_client *clients[2] = {ts_open(), ts_open()};
    ts_waiter waiters[2];
    rowlock_hold *hold = take(holder, name);
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        waiters[i] = waiter_of(clients[i], name);
        queue_up(&waiters[i], i + 1);
    }
    int64_t broken = ts_now_ms();
    WANT(OK, rowlock_break(breaker, name, "a test", &ts_err));
    assert_between(0, got_after(&waiters[0], broken), SOON + ts_slack_ms());
    assert_true(rowlock_hold_token(waiters[0].hold) > rowlock_hold_token(hold));
    /* The late release harms nobody, and rings for nobody. */
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_held(waiters[0].hold);
    assert_int_equal(ts_in_queue(mysql, name), 1);
    WANT(OK, rowlock_release(waiters[0].hold, &ts_err));
    WANT(OK, ts_waiter_join(&waiters[1], 10000));
    WANT(OK, rowlock_release(waiters[1].hold, &ts_err));
    nothing_is_left(name);
    rowlock_client_close(holder);
    rowlock_client_close(breaker);
    for (unsigned i = 0; i < 2; i++)
        rowlock_client_close(clients[i]);
}

/* The broken holder is told at its next renewal. */
static void test_who_is_broken_hears_of_it(void **state)
{
    const char *name = ts_name("told");
    rowlock_client *holder = ts_open();
    rowlock_client *other = ts_open();
    rowlock_hold *hold = ts_take(holder, name, ROWLOCK_OPTIMISTIC, 1500);
    (void)state;
    ts_waiter waiter = waiter_of(other, name);
    queue_up(&waiter, 1);
    WANT(OK, rowlock_break(other, name, "a test", &ts_err));
    WANT(OK, ts_waiter_join(&waiter, 10000));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    assert_held(waiter.hold);
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    nothing_is_left(name);
    rowlock_client_close(holder);
    rowlock_client_close(other);
}

static void test_a_try_after_a_break(void **state)
{
    rowlock_client *holder = ts_open();
    rowlock_client *breaker = ts_open();
    rowlock_client *other = ts_open();
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        const char *name = ts_name("break-try");
        rowlock_hold *hold = take(holder, name);
        WANT(OK, rowlock_break(breaker, name, "a test", &ts_err));
        WANT(OK, try(i % 2 ? other : breaker, name));
        WANT(LOST, rowlock_release(hold, &ts_err));
        WANT(OK, try(other, name));
        nothing_is_left(name);
    }
    rowlock_client_close(holder);
    rowlock_client_close(breaker);
    rowlock_client_close(other);
}

/* A holder that had to wait gives it up while its own fenced transaction is open: whoever waits
 * has it when that transaction has ended, not before, and need not wait for the TTL. */
static void test_given_up_while_fenced(void **state)
{
    const char *name = ts_name("fenced-away");
    rowlock_client *first = ts_open();
    rowlock_client *holder = ts_open();
    rowlock_client *client = ts_open();
    MYSQL *transaction = ts_connect(ts_schema());
    rowlock_hold *hold = take(first, name);
    (void)state;
    ts_waiter waited = waiter_of(holder, name);
    queue_up(&waited, 1);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_waiter_join(&waited, 10000));
    uint64_t token = rowlock_hold_token(waited.hold);
    ts_sql(transaction, "BEGIN");
    WANT(OK, rowlock_fence(waited.hold, transaction, &ts_err));
    ts_waiter waiter = waiter_of(client, name);
    queue_up(&waiter, 1);
    WANT(BUSY, rowlock_release(waited.hold, &ts_err));
    assert_false(ts_waiter_ended(&waiter));
    assert_int_equal(token_of(name), token);
    int64_t ended = ts_now_ms();
    ts_sql(transaction, "COMMIT");
    assert_between(0, got_after(&waiter, ended), 2000 + ts_slack_ms());
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    WANT(OK, try(first, name));
    nothing_is_left(name);
    mysql_close(transaction);
    rowlock_client_close(first);
    rowlock_client_close(holder);
    rowlock_client_close(client);
}

/* at_least: released, and shut until then; the first in the queue has it when it opens. */
static void test_at_least_with_waiters(void **state)
{
    const char *name = ts_name("at-least");
    rowlock_client *holder = ts_open();
    rowlock_client *clients[2] = {ts_open(), ts_open()};
    ts_waiter waiters[2];
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {.ttl_ms = LONG_TTL, .at_least_ms = 4000};
    (void)state;
    int64_t taken = ts_now_ms();
    WANT(OK, rowlock_acquire(holder, name, &options, &hold, &ts_err));
    for (unsigned i = 0; i < 2; i++) {
        waiters[i] = waiter_of(clients[i], name);
        queue_up(&waiters[i], i + 1);
    }
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(BUSY, try(holder, name));
    assert_between(4000, got_after(&waiters[0], taken), 4500 + ts_slack_ms());
    assert_int_equal(ts_in_queue(mysql, name), 1);
    WANT(OK, rowlock_release(waiters[0].hold, &ts_err));
    WANT(OK, ts_waiter_join(&waiters[1], 10000));
    WANT(OK, rowlock_release(waiters[1].hold, &ts_err));
    nothing_is_left(name);
    rowlock_client_close(holder);
    for (unsigned i = 0; i < 2; i++)
        rowlock_client_close(clients[i]);
}

/* max_hold: the holder hangs, and lives: the next one gets in when its time is over, and from then
 * on the lease goes from hand to hand as ever, while it still hangs. */
static void test_max_hold_with_waiters(void **state)
{
    const char *name = ts_name("max-hold");
    rowlock_client *holder = ts_open();
    rowlock_client *clients[2] = {ts_open(), ts_open()};
    ts_waiter waiters[2];
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {.ttl_ms = LONG_TTL, .max_hold_ms = 1000};
    (void)state;
    int64_t taken = ts_now_ms();
    WANT(OK, rowlock_acquire(holder, name, &options, &hold, &ts_err));
    for (unsigned i = 0; i < 2; i++) {
        waiters[i] = waiter_of(clients[i], name);
        queue_up(&waiters[i], i + 1);
    }
    assert_between(900, got_after(&waiters[0], taken), 2000 + ts_slack_ms());
    WANT(LOST, rowlock_hold_check(hold));
    int64_t released = ts_now_ms();
    WANT(OK, rowlock_release(waiters[0].hold, &ts_err));
    assert_between(0, got_after(&waiters[1], released), SOON + ts_slack_ms());
    WANT(OK, rowlock_release(waiters[1].hold, &ts_err));
    WANT(OK, try(clients[0], name));
    WANT(OK, try(clients[1], name));
    WANT(LOST, rowlock_release(hold, &ts_err));
    nothing_is_left(name);
    rowlock_client_close(holder);
    for (unsigned i = 0; i < 2; i++)
        rowlock_client_close(clients[i]);
}

/* The bell rings with the last release. */
static void test_reentrance_with_a_waiter(void **state)
{
    const char *name = ts_name("reentrant");
    rowlock_client *holder = ts_open();
    rowlock_client *client = ts_open();
    rowlock_hold *holds[3] = {0};
    rowlock_acquire_options options = {.ttl_ms = LONG_TTL, .reentrant = true};
    (void)state;
    WANT(OK, rowlock_acquire(holder, name, &options, &holds[0], &ts_err));
    ts_waiter waiter = waiter_of(client, name);
    queue_up(&waiter, 1);
    for (unsigned i = 1; i < 3; i++)
        WANT(OK, rowlock_acquire(holder, name, &options, &holds[i], &ts_err));
    for (unsigned i = 2; i > 0; i--) {
        WANT(OK, rowlock_release(holds[i], &ts_err));
        ts_pass_ms(50);
        assert_int_equal(ts_in_queue(mysql, name), 1);
    }
    int64_t released = ts_now_ms();
    WANT(OK, rowlock_release(holds[0], &ts_err));
    assert_between(0, got_after(&waiter, released), 500 + ts_slack_ms());
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    nothing_is_left(name);
    rowlock_client_close(holder);
    rowlock_client_close(client);
}

/* Closing a client gives all back, and rings. */
static void test_closing_rings(void **state)
{
    const char *name = ts_name("closing");
    rowlock_client *holder = ts_open();
    rowlock_client *client = ts_open();
    (void)state;
    assert_non_null(take(holder, name));
    ts_waiter waiter = waiter_of(client, name);
    queue_up(&waiter, 1);
    int64_t closed = ts_now_ms();
    rowlock_client_close(holder);
    assert_between(0, got_after(&waiter, closed), 500 + ts_slack_ms());
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    nothing_is_left(name);
    rowlock_client_close(client);
}

/* ------------------------------------------------------------------------------- fork */

static int close_it(void *arg)
{
    rowlock_client_close(arg);
    return 0;
}

/* A child that closes the holder's client, or ends, rings nothing. */
static void test_fork_in_a_holder(void **state)
{
    const char *name = ts_name("fork");
    rowlock_client *holder = ts_open();
    rowlock_client *client = ts_open();
    rowlock_hold *hold = take(holder, name);
    uint64_t keeper = bell_holder(name);
    (void)state;
    ts_waiter waiter = waiter_of(client, name);
    queue_up(&waiter, 1);
    assert_int_equal(ts_reap(ts_fork(close_it, holder), 10000), 0);
    assert_int_equal(ts_reap(ts_fork(close_it, client), 10000), 0);
    assert_int_equal(bell_holder(name), keeper);
    assert_int_equal(ts_in_queue(mysql, name), 1);
    int64_t released = ts_now_ms();
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_between(0, got_after(&waiter, released), 500 + ts_slack_ms());
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    nothing_is_left(name);
    rowlock_client_close(holder);
    rowlock_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONCE(test_first_come_first_served),
        ONCE(test_waiters_are_silent),
        ONCE(test_a_release_wakes_one),
        ONCE(test_nobody_barges),
        ONCE(test_nobody_passes_who_was_woken),
        ONCE(test_a_try_after_a_release),
        ONCE(test_a_try_after_a_wait),
        ONCE(test_threads_wait_in_line),
        ONCE(test_some_in_the_line_give_up),
        ONCE(test_many_leases_few_connections),
        ONCE(test_the_bell_of_a_busy_connection),
        ONCE(test_threads_with_names_of_their_own),
        ONCE(test_cancel_and_deadline),
        ONCE(test_deadlines_at_the_last_moment),
        ONCE(test_a_holder_without_its_bell),
        ONCE(test_cuts_among_many),
        ONCE(test_who_does_not_come),
        ONCE(test_who_polls_has_no_bell),
        ONCE(test_both_ways_together),
        ONCE(test_a_break_rings),
        ONCE(test_who_is_broken_hears_of_it),
        ONCE(test_a_try_after_a_break),
        ONCE(test_given_up_while_fenced),
        ONCE(test_at_least_with_waiters),
        ONCE(test_max_hold_with_waiters),
        ONCE(test_reentrance_with_a_waiter),
        ONCE(test_closing_rings),
        ONCE(test_fork_in_a_holder),
    };
    return cmocka_run_group_tests_name("bell", tests, begin, end);
}
