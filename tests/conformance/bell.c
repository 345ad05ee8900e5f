/*
 * Waiting for a lease by the bell: waiters are woken one by one, in the order of arrival, and send
 * no statement meanwhile. The waiters here are clients and threads; processes that die or are
 * stopped are in faults/bell.c.
 */
#include "bell/bell.h"
#include "engine/client.h"
#include "support/proxy.h"

#include "conformance/clients.h" /* last: its names are parameters in other headers */

enum { WAITERS = 8, MANY = 64, LONG_TTL = 120000, SOON = 3000 };
enum { LOOK_MS = 4000 }; /* the first look of a waiter in the queue (engine/acquire.c) */

static ts_proxy *proxy;
static rowlock_client *holder;

static int begin(void **state)
{
    open_clients(state);
    proxy = ts_proxy_start(ts_socket());
    holder = ts_open();
    return 0;
}

static int end(void **state)
{
    rowlock_client_close(holder);
    ts_proxy_stop(proxy);
    return close_clients(state);
}

static bool queue_becomes(const char *name, uint64_t count)
{
    return POLL_UNTIL(ts_in_queue(mysql, name) == count, 10000);
}

static rowlock_client *open_as(const char *user, const char *socket, rowlock_waiting way)
{
    return ts_open_as((rowlock_client_options){.user = user,
                                               .password = user ? "bell" : NULL,
                                               .socket = socket,
                                               .waiting = way,
                                               .no_history = true});
}

static rowlock_client *open_through(rowlock_waiting way)
{
    ts_proxy_flow(proxy);
    return open_as(NULL, ts_proxy_socket(proxy), way);
}

static rowlock_hold *take(rowlock_client *from, const char *name)
{
    return ts_take(from, name, ROWLOCK_OPTIMISTIC, LONG_TTL);
}

static rowlock_status try(rowlock_client *from, const char *name)
{
    return ts_try(from, name, ROWLOCK_OPTIMISTIC);
}

/* A waiter that will hand over as on a slow disk, since other tests probably have a quick one. */
static ts_waiter waiter_of(rowlock_client *from, const char *name)
{
    ts_commits_slowly(from);
    return (ts_waiter){
        .client = from, .name = name, .options = {.wait_ms = LONG_TTL, .ttl_ms = LONG_TTL}};
}

/* Starts a waiter, and waits until it is the nth in the queue at the server. */
static ts_waiter queue_up(rowlock_client *from, const char *name, uint64_t nth)
{
    ts_waiter waiter = waiter_of(from, name);
    ts_waiter_start(&waiter);
    assert_true(queue_becomes(name, nth));
    return waiter;
}

static int64_t got_after(ts_waiter *waiter, int64_t since_ms)
{
    WANT(OK, ts_waiter_join(waiter, 20000));
    return waiter->ended_ms - since_ms;
}

/* Releases; the waiter acquires within so long. */
static rowlock_hold *pass(rowlock_hold *hold, ts_waiter *waiter, int64_t within_ms)
{
    int64_t released = ts_now_ms();
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_between(0, got_after(waiter, released), within_ms + ts_slack_ms());
    return waiter->hold;
}

/* The last holder releases. */
static void finish(rowlock_hold *hold, const char *name)
{
    WANT(OK, rowlock_release(hold, &ts_err));
    ts_no_bell(mysql, name);
}

/* Waiters in a queue, each with a client of its own. */
typedef struct crowd {
    unsigned count;
    rowlock_client *clients[MANY];
    ts_waiter waiters[MANY];
} crowd;

static crowd gather(const char *name, unsigned count, bool through_proxy)
{
    crowd c = {.count = count};
    for (unsigned i = 0; i < count; i++)
        c.clients[i] = through_proxy ? open_through(ROWLOCK_WAITING_AUTO) : ts_open();
    for (unsigned i = 0; i < count; i++)
        c.waiters[i] = queue_up(c.clients[i], name, i + 1);
    return c;
}

static void disperse(crowd *c)
{
    for (unsigned i = 0; i < c->count; i++)
        rowlock_client_close(c->clients[i]);
}

static ts_waiter *one_that_ended(crowd *c)
{
    for (unsigned i = 0; i < c->count; i++)
        if (c->waiters[i].at_work && ts_waiter_ended(&c->waiters[i]))
            return &c->waiters[i];
    return NULL;
}

static ts_waiter *first_at_work(crowd *c)
{
    ts_waiter *waiter = c->waiters;
    while (!waiter->at_work)
        waiter++;
    return waiter;
}

/* Serves all in their turn. A waiter that was woken may be overtaken if the whole machine stood
 * still for a second. */
static void serve_all(crowd *c)
{
    for (unsigned served = 0; served < c->count; served++) {
        ts_waiter *next = NULL;
        assert_true(POLL_UNTIL((next = one_that_ended(c)) != NULL, 10000));
        WANT(OK, ts_waiter_join(next, 0));
        WANT(OK, rowlock_release(next->hold, &ts_err));
    }
}

/* For a second the lease is reserved for the waiter that was woken; on a machine that is too slow
 * for that, somebody else may get it. */
enum { RESERVED = 900 };

/* A release wakes the waiter that came first. */
TS_ONCE(test_first_come_first_served)
{
    const char *name = ts_name("fifo");
    rowlock_hold *hold = take(holder, name);
    uint64_t token = rowlock_hold_token(hold);
    crowd c = gather(name, MANY, false);
    for (unsigned i = 0; i < MANY; i++) {
        ts_waiter *first = first_at_work(&c);
        ts_waiter *next = NULL;
        const int64_t strain_ms = ts_strain_ms();
        const int64_t released_ms = ts_now_ms();
        WANT(OK, rowlock_release(hold, &ts_err));
        assert_true(POLL_UNTIL((next = one_that_ended(&c)) != NULL, 20000));
        WANT(OK, ts_waiter_join(next, 0));
        hold = next->hold;
        assert_between(next == first ? 0 : RESERVED, next->ended_ms - released_ms,
                       SOON + ts_slack_ms());
        assert_true(next == first || ts_strain_ms() - strain_ms >= 10);
        assert_int_equal(rowlock_hold_token(hold), token + i + 1);
        assert_true(queue_becomes(name, MANY - 1 - i));
    }
    finish(hold, name);
    disperse(&c);
}

/* Waiters do not poll: while a holder holds and renews, they only look at the lease about when it
 * would expire. */
TS_ONCE(test_waiters_are_silent)
{
    static const int64_t ttls[] = {LONG_TTL, TS_KEPT_TTL};
    for (unsigned round = 0; round < 2; round++) {
        const char *name = ts_name("silent");
        rowlock_hold *hold = ts_take(holder, name, ROWLOCK_OPTIMISTIC, ttls[round]);
        crowd c = gather(name, WAITERS, true);
        unsigned before = ts_proxy_commands(proxy);
        ts_pass_ms(round == 0 ? 2500 : TS_KEPT_FOR);
        unsigned sent = ts_proxy_commands(proxy) - before;
        /* Each looks after four seconds, or at the expiry that it saw, again and again; the first
         * look needs a connection. Polling would take at least 160 statements. */
        bool before_any_look = round == 0 && ts_now_ms() < c.waiters[0].started_ms + LOOK_MS;
        assert_between(0, sent, before_any_look ? 0 : 10 * WAITERS);
        assert_held(hold);
        /* A waiter that has just looked is in the queue again at once. */
        assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == WAITERS, 10000));
        WANT(OK, rowlock_release(hold, &ts_err));
        serve_all(&c);
        ts_no_bell(mysql, name);
        disperse(&c);
    }
}

/* A hand-over costs a few statements, however many wait, since only one is woken. */
TS_ONCE(test_a_release_wakes_one)
{
    const char *name = ts_name("one");
    rowlock_hold *hold = take(holder, name);
    crowd c = gather(name, WAITERS, true);
    unsigned before = ts_proxy_commands(proxy);
    WANT(OK, rowlock_release(hold, &ts_err));
    serve_all(&c);
    /* Each prepares and sends its acquire and its release; on a slow machine it has looked at the
     * lease before. */
    unsigned sent = ts_proxy_commands(proxy) - before;
    bool before_any_look = ts_now_ms() < c.waiters[0].started_ms + LOOK_MS;
    assert_between(2 * WAITERS, sent, (before_any_look ? 6 : 10) * WAITERS);
    disperse(&c);
}

static bool passes_by(rowlock_client *from, const char *name, int64_t released_ms)
{
    rowlock_status status = try(from, name);
    if (status == ROWLOCK_OK && ts_now_ms() - released_ms >= RESERVED)
        return true;
    WANT(BUSY, status);
    return false;
}

/* A holder that releases and acquires again at once does not overtake waiters. (Without a history:
 * writing it on the same connection would delay a ring.) */
TS_ONCE(test_nobody_barges)
{
    const char *name = ts_name("barge");
    TS_CLIENT *greedy = open_as(NULL, NULL, ROWLOCK_WAITING_AUTO);
    TS_CLIENT *quiet = open_as(NULL, NULL, ROWLOCK_WAITING_AUTO);
    rowlock_hold *hold = take(greedy, name);
    for (unsigned i = 0; i < ts_rounds(100); i++) {
        uint64_t token = rowlock_hold_token(hold);
        ts_waiter waiter = queue_up(quiet, name, 1);
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
    finish(hold, name);
}

/* The waiter that was woken is slow (the reply to its GET_LOCK is held back): a try does not
 * overtake it, however the lease was freed: with its bell, by a holder that had to wait itself, or
 * by one that has lost its connection. */
TS_ONCE(test_nobody_passes_who_was_woken)
{
    TS_CLIENT *quiet = open_as(NULL, NULL, ROWLOCK_WAITING_AUTO);
    TS_CLIENT *tries = open_as(NULL, NULL, ROWLOCK_WAITING_AUTO);
    TS_CLIENT *slow = open_through(ROWLOCK_WAITING_AUTO);
    for (unsigned way = 0; way < 3; way++) {
        const char *name = ts_name("woken");
        rowlock_hold *hold = take(way == 1 ? tries : quiet, name);
        if (way == 1) {
            ts_waiter waited = queue_up(quiet, name, 1);
            hold = pass(hold, &waited, 10000);
        }
        WANT(BUSY, try(tries, name));
        ts_proxy_arm(proxy, TS_STALL_REPLY, "bell_wait", 1, false);
        ts_waiter waiter = queue_up(slow, name, 1);
        if (way == 2)
            ts_cut(mysql, name);
        int64_t released = ts_now_ms();
        WANT(OK, rowlock_release(hold, &ts_err));
        (void)passes_by(tries, name, released);
        /* Nor does one whose statement began before the release, and waited for the row. */
        ts_sql(mysql,
               "UPDATE resource SET update_time = UTC_TIMESTAMP(6) + INTERVAL 500000 MICROSECOND"
               " WHERE status = 'free' AND resource_name = %s",
               ts_quote(name));
        (void)passes_by(tries, name, released);
        ts_proxy_flow(proxy);
        WANT(OK, ts_waiter_join(&waiter, 10000));
        finish(waiter.hold, name);
    }
}

/* Nor if the lease was taken from its readers, which have no bell: by a writer that waited for
 * them, or by the next one in line. */
TS_ONCE(test_nobody_passes_who_waits_behind_a_writer)
{
    const rowlock_acquire_options together = {.shared = true, .ttl_ms = LONG_TTL};
    TS_CLIENT *quiet = open_as(NULL, NULL, ROWLOCK_WAITING_AUTO);
    TS_CLIENT *tries = open_as(NULL, NULL, ROWLOCK_WAITING_AUTO);
    TS_CLIENT *slow = open_through(ROWLOCK_WAITING_AUTO);
    for (unsigned before = 0; before < 2; before++) {
        const char *name = ts_name("behind-a-writer");
        rowlock_hold *reader = NULL;
        WANT(OK, rowlock_acquire(tries, name, &together, &reader, &ts_err));
        ts_waiter writer = waiter_of(quiet, name);
        ts_waiter_start(&writer);
        assert_true(POLL_UNTIL(ts_is_closed(mysql, name), 10000));
        ts_proxy_arm(proxy, TS_STALL_REPLY, "bell_wait", 1, false);
        ts_waiter waiter = waiter_of(slow, name);
        if (before) {
            ts_waiter_start(&waiter);
            assert_true(POLL_UNTIL(ts_bell_holder(mysql, name) != 0, 10000));
        }
        WANT(OK, rowlock_release(reader, &ts_err));
        WANT(OK, ts_waiter_join(&writer, 10000));
        if (!before)
            waiter = queue_up(slow, name, 1);
        int64_t released = ts_now_ms();
        WANT(OK, rowlock_release(writer.hold, &ts_err));
        (void)passes_by(tries, name, released);
        ts_proxy_flow(proxy);
        WANT(OK, ts_waiter_join(&waiter, 10000));
        finish(waiter.hold, name);
    }
}

TS_ONCE(test_a_try_after_a_release)
{
    const char *name = ts_name("after");
    rowlock_client *const clients[] = {client, other, holder};
    for (unsigned i = 0; i < ts_rounds(1000); i++)
        WANT(OK, try(clients[i % 7 % 3], name));
    ts_no_bell(mysql, name);
}

/* If the machine stood still for the whole of a short wait, the call may not even have
 * connected. */
static bool was_too_late(rowlock_status status)
{
    return status == ROWLOCK_TIMEOUT || status == ROWLOCK_UNAVAILABLE;
}

static uint64_t connections_of(const char *user, const char *also)
{
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM " TS_PROCESSLIST " WHERE user = '%s'%s", user,
                      also);
}

static const char at_the_bell[] = " AND state = 'User lock'";

/* The client's threads that wait for the lock, with the one that waits at the server. */
static unsigned in_line(rowlock_client *of, uint64_t id)
{
    unsigned count = 0;
    pthread_mutex_lock(&of->bells.lines.mutex);
    for (rl_place *p = of->bells.lines.buckets[id % RL_LINE_BUCKETS].first; p; p = p->next)
        count += p->key == id;
    pthread_mutex_unlock(&of->bells.lines.mutex);
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

TS_ONCE(test_threads_wait_in_line)
{
    const char *name = ts_name("line");
    const char *user = ts_user("line", "bell", "ALL", ts_schema());
    TS_CLIENT *crowded = open_as(user, NULL, ROWLOCK_WAITING_AUTO);
    ts_waiter waiters[WAITERS];
    WANT(OK, try(crowded, name));
    rowlock_hold *hold = take(holder, name);
    uint64_t token = rowlock_hold_token(hold);
    for (unsigned i = 0; i < WAITERS; i++)
        waiters[i] = waiter_of(crowded, name);
    line_up(waiters, WAITERS);
    assert_int_equal(connections_of(user, at_the_bell), 1);
    assert_between(1, (int64_t)connections_of(user, ""), 4);
    for (unsigned i = 0; i < WAITERS; i++) {
        hold = pass(hold, &waiters[i], 10000);
        assert_int_equal(rowlock_hold_token(hold), token + i + 1);
        assert_true(POLL_UNTIL(connections_of(user, at_the_bell) == (i + 1 < WAITERS), 10000));
    }
    finish(hold, name);
}

/* Leases without waiters need no connection of their own; and each has its bell. */
TS_ONCE(test_many_leases_few_connections)
{
    enum { MOST = 2000 };
    static rowlock_hold *holds[MOST];
    static const char *names[MOST];
    unsigned count = ts_rounds(MOST);
    const char *user = ts_user("many", "bell", "ALL", ts_schema());
    TS_CLIENT *rich = open_as(user, NULL, ROWLOCK_WAITING_AUTO);
    for (unsigned i = 0; i < count; i++) {
        names[i] = ts_name("many");
        holds[i] = take(rich, names[i]);
    }
    for (unsigned i = 0; i < count; i++) {
        if (i % (count / 20) == 0) {
            ts_waiter waiter = queue_up(other, names[i], 1);
            finish(pass(holds[i], &waiter, SOON), names[i]);
        } else {
            WANT(OK, rowlock_release(holds[i], &ts_err));
        }
        if (i % (count / 2) == 0)
            assert_between(1, (int64_t)connections_of(user, ""), 4);
    }
}

static bool connection(uint64_t id, const char *also)
{
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM " TS_PROCESSLIST " WHERE id = %" PRIu64 "%s", id,
                      also) == 1;
}

/* The waiter shows: in the queue; or, as the first, with the bell that this connection had. */
static bool is_seen(const char *name, bool first, uint64_t keeper)
{
    uint64_t has_it = first ? ts_bell_holder(mysql, name) : 0;
    return first ? has_it != 0 && has_it != keeper : ts_in_queue(mysql, name) == 1;
}

/* For a waiter in the queue, and for its first one, which has the bell but not the lease. */
TS_ONCE(test_cancel_and_deadline)
{
    enum { WAIT_MS = 1500 }; /* there is time to see it wait */
    const int64_t stood = ts_stood_ms();
    const int64_t strain = ts_strain_ms();
    TS_CANCEL *cancel = ts_cancel();
    for (unsigned i = 0; i < 8; i++) {
        bool first = i % 2;
        bool cancels = i / 2 % 2;
        const char *name = ts_name("ends");
        rowlock_hold *hold = take(holder, name);
        uint64_t keeper = ts_bell_holder(mysql, name);
        if (first)
            ts_cut(mysql, name);
        ts_waiter waiter = waiter_of(client, name);
        waiter.options.cancel = cancel;
        waiter.options.wait_ms = cancels ? 20000 : WAIT_MS;
        ts_waiter_start(&waiter);
        bool seen = false;
        (void)POLL_UNTIL((seen = is_seen(name, first, keeper)) || ts_waiter_ended(&waiter), 10000);
        /* On a machine that stood still, a short wait may be over before it is seen. */
        assert_true(seen || (!cancels && ts_stood_ms() - stood > 300));
        int64_t due = cancels ? ts_now_ms() : waiter.started_ms + WAIT_MS;
        if (cancels)
            rowlock_cancel_fire(cancel);
        assert_held(hold);
        rowlock_status status = ts_waiter_join(&waiter, 10000);
        if (cancels)
            WANT(CANCELLED, status);
        else
            WANT_TIMEOUT(ROWLOCK_OPTIMISTIC, strain, status);
        assert_between(-1, waiter.ended_ms - due, ts_slack_ms());
        assert_true(queue_becomes(name, 0));
        finish(hold, name);
        rowlock_cancel_reset(cancel);
    }
}

/* The reply had not come when no time was left to ask again: the lease is free, or was granted to a
 * call that has ended. */
static bool free_at_last(rowlock_client *from, const char *name)
{
    ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
    return try(from, name) == ROWLOCK_OK;
}

/* Many waits end just when the bell comes: no bell stays behind, and there are never two holders.
 * If the server is some 50 ms late, the outcome is unknown; not often. */
TS_ONCE(test_deadlines_at_the_last_moment)
{
    const char *name = ts_name("last-moment");
    unsigned got = 0;
    unsigned unknown = 0;
    int64_t stood = ts_stood_ms();
    WANT(OK, try(client, name));
    for (unsigned i = 0; i < ts_rounds(60); i++) {
        int64_t calm = ts_stood_ms();
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
        /* On a machine that stood still, a wait that could not be stopped in time may have the
         * bell, until the server sees that its connection has ended. */
        assert_true(POLL_UNTIL(try(holder, name) == ROWLOCK_OK, ts_stood_ms() == calm ? 0 : 10000));
    }
    assert_between(0, unknown, ts_rounds(60) / 10 + (ts_stood_ms() - stood) / 50);
    print_message("# %u of %u got it at the last moment\n", got, ts_rounds(60));
    ts_no_bell(mysql, name);
}

/* The holder's connection ends. It keeps its lease; the first waiter gets the bell, and still
 * acquires soon after the release. */
TS_ONCE(test_a_holder_without_its_bell)
{
    const char *name = ts_name("cut");
    rowlock_hold *hold = ts_take(holder, name, ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    uint64_t token = rowlock_hold_token(hold);
    uint64_t keeper = ts_bell_holder(mysql, name);
    crowd c = gather(name, 3, false);
    ts_cut(mysql, name);
    assert_true(POLL_UNTIL(ts_bell_holder(mysql, name) != keeper, 10000));
    for (int64_t until = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < until; ts_pass_ms(20)) {
        assert_held(hold);
        assert_int_equal(ts_version_of(mysql, name), token);
    }
    assert_int_equal(ts_in_queue(mysql, name), 2);
    for (unsigned i = 0; i < 3; i++) {
        hold = pass(hold, &c.waiters[i], SOON);
        assert_int_equal(rowlock_hold_token(hold), token + i + 1);
    }
    finish(hold, name);
    disperse(&c);
}

/* The first in the queue has the bell of a released lease, and does not acquire it. The next does
 * not wait long: it ends the first one's connection if that does nothing, as when its host has
 * vanished. If that runs a statement, it is left alone, since on a server that stood still that may
 * be its acquire; then the lease is taken without the bell. */
TS_ONCE(test_who_does_not_come)
{
    static const char *const then[] = {"", ", SLEEP(600)"};
    for (unsigned at_work = 0; at_work < 2; at_work++) {
        const char *name = ts_name("slow-to-come");
        char prefix[RL_BELL_PREFIX_MAX + 1];
        char wait[200];
        TS_MYSQL *slow = ts_connect(ts_schema());
        uint64_t id = mysql_thread_id(slow);
        rowlock_hold *hold = take(holder, name);
        rl_bell_prefix(ts_schema(), prefix);
        snprintf(wait, sizeof wait, "SELECT GET_LOCK('%s%" PRIu64 "', 600)%s", prefix,
                 ts_id_of(mysql, name), then[at_work]);
        assert_int_equal(mysql_send_query(slow, wait, strlen(wait)), 0);
        assert_true(POLL_UNTIL(connection(id, at_the_bell), 10000));
        ts_waiter waiter = queue_up(client, name, 1);
        hold = pass(hold, &waiter, 20000);
        if (at_work) {
            assert_true(connection(id, ""));
            assert_true(ts_bell_holder(mysql, name) == id);
            ts_sql(mysql, "KILL QUERY %" PRIu64, id);
            (void)!mysql_read_query_result(slow); /* an error, or a part of the rows */
            mysql_free_result(mysql_store_result(slow));
            ts_sql(slow, "DO 0");
            assert_true(ts_bell_holder(mysql, name) == id);
            mysql_close(slow);
            slow = NULL;
        }
        assert_true(POLL_UNTIL(!connection(id, ""), 10000));
        finish(hold, name);
    }
}

/* A client that polls sends no GET_LOCK, and gets its turn among waiters in the queue: at the
 * latest at the second try after the release (one was under way), whenever a busy machine lets it
 * run. */
TS_ONCE(test_who_polls_has_no_bell)
{
    const char *name = ts_name("polls");
    TS_CLIENT *poller = open_through(ROWLOCK_WAITING_POLL);
    ts_proxy_arm(proxy, TS_LOSE_COMMAND, "~GET_LOCK", 1, false);
    WANT(OK, try(poller, name));
    rowlock_hold *hold = take(other, name);
    ts_waiter waiter = waiter_of(poller, name);
    ts_waiter_start(&waiter);
    ts_pass_ms(600);
    WANT(OK, rowlock_release(hold, &ts_err));
    unsigned asked = ts_proxy_commands(proxy);
    WANT(OK, ts_waiter_join(&waiter, 20000));
    assert_between(0, ts_proxy_commands(proxy) - asked, 3);
    assert_int_equal(ts_bell_holder(mysql, name), 0);
    /* The other one gets the bell at once, but not the lease: it looks four times a second. */
    ts_waiter second = waiter_of(other, name);
    ts_waiter_start(&second);
    assert_true(POLL_UNTIL(ts_bell_holder(mysql, name) != 0, 10000));
    WANT(BUSY, try(other, name));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    int64_t released = ts_now_ms();
    assert_between(INT64_MIN, got_after(&second, released), SOON + ts_slack_ms());
    assert_false(ts_proxy_fired(proxy));
    finish(second.hold, name);
}

/* A holder that had to wait releases while its own fenced transaction is open: the waiter acquires
 * when that transaction has ended, not before, and without waiting for the TTL. */
TS_ONCE(test_given_up_while_fenced)
{
    const char *name = ts_name("fenced-away");
    TS_MYSQL *transaction = ts_connect(ts_schema());
    rowlock_hold *hold = take(other, name);
    ts_waiter waited = queue_up(holder, name, 1);
    hold = pass(hold, &waited, 10000);
    uint64_t token = rowlock_hold_token(hold);
    ts_sql(transaction, "BEGIN");
    WANT(OK, rowlock_fence(hold, transaction, &ts_err));
    ts_waiter waiter = queue_up(client, name, 1);
    WANT(BUSY, rowlock_release(hold, &ts_err));
    assert_false(ts_waiter_ended(&waiter));
    assert_int_equal(ts_version_of(mysql, name), token);
    int64_t ended = ts_now_ms();
    ts_sql(transaction, "COMMIT");
    assert_between(0, got_after(&waiter, ended), 2000 + ts_slack_ms());
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    WANT(OK, try(other, name));
    ts_no_bell(mysql, name);
}

/* The same client takes a lease over that it has lost, and does not know it yet: its connection has
 * the bells of its other leases, too. */
TS_ONCE(test_a_client_follows_itself)
{
    const char *lost = ts_name("follows");
    const char *kept = ts_name("keeps");
    TS_CLIENT *one = ts_open();
    TS_HOLD *beside = take(one, kept);
    rowlock_hold *old = take(one, lost);
    const uint64_t connection = ts_bell_holder(mysql, kept);
    assert_int_equal(ts_bell_holder(mysql, lost), connection);
    ts_sql(mysql, "UPDATE resource SET lease_expires_at = acquired_at WHERE resource_name = %s",
           ts_quote(lost));
    rowlock_hold *hold = take(one, lost);
    assert_true(rowlock_hold_token(hold) > rowlock_hold_token(old));
    WANT(LOST, rowlock_release(old, &ts_err));
    assert_int_equal(ts_bell_holder(mysql, kept), connection);
    assert_int_equal(ts_bell_holder(mysql, lost), connection);
    ts_waiter next = ts_wait(other, lost, ROWLOCK_OPTIMISTIC, 20000, LONG_TTL);
    assert_true(queue_becomes(lost, 1));
    ts_hand_over(hold, &next, SOON);
    ts_no_bell(mysql, lost);
}

TS_MAIN("bell", begin, end)
