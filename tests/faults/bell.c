/*
 * Waiting by the bell when something breaks: waiters and holders that die or stop, replies
 * that are lost. After each: at most one holder at any time (the guarded beats of the
 * processes), the next one soon in, no bell with nobody.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults/process.h"
#include "stmt/bell.h"
#include "support/proxy.h"
#include "support/support.h"

enum { PROCESSES = 5, TTL = TS_KEPT_TTL, LONG_TTL = 30000, SOON = 1500 };

static MYSQL *mysql;
static ts_proxy *proxy;
static rowlock_client *direct; /* not through the proxy */
static pid_t orphan;

/* ------------------------------------------------------------------------------- looks */

static uint64_t bell_holder(const char *name)
{
    char prefix[RL_BELL_PREFIX_MAX + 1];
    rl_bell_prefix(ts_schema(), prefix);
    return ts_sql_u64(mysql, "SELECT COALESCE(IS_USED_LOCK('%s%" PRIu64 "'), 0)", prefix,
                      ts_id_of(mysql, name));
}

/* The server may have to notice first that a connection has ended. */
static void nothing_is_left(const char *name)
{
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == 0 && bell_holder(name) == 0, 10000));
}

/* --------------------------------------------------------------------------- processes */

static process holder_of(const char *name, int64_t ttl_ms)
{
    process p = process_start(name, ROWLOCK_OPTIMISTIC, ttl_ms, "hold");
    process_expect_token(&p, 10000);
    return p;
}

/* Stands in the queue as the nth. */
static process waiter_of(const char *name, int64_t ttl_ms, uint64_t nth)
{
    process p = process_start(name, ROWLOCK_OPTIMISTIC, ttl_ms, "hold");
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == nth, 10000));
    return p;
}

static void release(process *p)
{
    process_tell(p, "release");
    process_expect(p, "RELEASE OK", 10000);
}

/* Which of them says that it has the lease; the others wait on. */
static process *who_has_it(process *all, unsigned count, int64_t within_ms)
{
    int64_t end = ts_now_ms() + within_ms - ts_stood_ms();
    while (ts_now_ms() < end + ts_stood_ms())
        for (unsigned i = 0; i < count; i++)
            if (all[i].pid && process_hear(&all[i], 5)) {
                assert_memory_equal(all[i].line, "TOKEN ", 6);
                return &all[i];
            }
    print_error("nobody has it within %" PRId64 " ms\n", within_ms);
    fail();
    return NULL;
}

static void test_processes_in_their_order(void **state)
{
    const char *name = ts_guarded(mysql, "order");
    process all[PROCESSES];
    (void)state;
    all[0] = holder_of(name, LONG_TTL);
    for (unsigned i = 1; i < PROCESSES; i++)
        all[i] = waiter_of(name, LONG_TTL, i);
    for (unsigned i = 1; i < PROCESSES; i++) {
        release(&all[i - 1]);
        process_expect_token(&all[i], SOON);
        assert_int_equal(ts_in_queue(mysql, name), PROCESSES - 1 - i);
        for (unsigned later = i + 1; later < PROCESSES; later++)
            assert_false(process_hear(&all[later], 0));
    }
    release(&all[PROCESSES - 1]);
    for (unsigned i = 0; i < PROCESSES; i++)
        process_finish(&all[i]);
    nothing_is_left(name);
    ts_nobody_was_late(mysql, name);
}

/* The first, one in the middle and the last of those who wait are killed. */
static void test_dead_waiters(void **state)
{
    const char *name = ts_guarded(mysql, "dead-waiters");
    process all[PROCESSES];
    (void)state;
    all[0] = holder_of(name, LONG_TTL);
    for (unsigned i = 1; i < PROCESSES; i++)
        all[i] = waiter_of(name, LONG_TTL, i);
    process_bury(&all[1]);
    process_bury(&all[3]);
    release(&all[0]);
    process_expect_token(&all[2], 2500);
    release(&all[2]);
    process_expect_token(&all[4], 2500);
    release(&all[4]);
    process_finish(&all[0]);
    process_finish(&all[2]);
    process_finish(&all[4]);
    nothing_is_left(name);
    ts_nobody_was_late(mysql, name);
}

/* Killed at the very moment at which it is its turn. */
static void test_a_waiter_dies_at_its_turn(void **state)
{
    const char *name = ts_guarded(mysql, "dies-at-turn");
    (void)state;
    process a = holder_of(name, TTL);
    for (unsigned round = 0; round < 3; round++) {
        process b = waiter_of(name, TTL, 1);
        process c = waiter_of(name, TTL, 2);
        process_tell(&a, "release");
        ts_pass_ms(round);
        process_bury(&b);
        process_expect(&a, "RELEASE OK", 10000);
        /* It may have had the lease already: then for its TTL. */
        process_expect_token(&c, TTL + 1000);
        process_finish(&a);
        a = c;
    }
    release(&a);
    process_finish(&a);
    nothing_is_left(name);
    ts_nobody_was_late(mysql, name);
}

/* The first of the queue is stopped: the bell rings for it and nobody answers. The others wait
 * for a time that has a limit; it does no harm when it wakes up. */
static void test_a_stopped_waiter(void **state)
{
    const char *name = ts_guarded(mysql, "stopped-waiter");
    (void)state;
    process a = holder_of(name, TTL);
    process b = waiter_of(name, TTL, 1);
    process others[2];
    for (unsigned i = 0; i < 2; i++)
        others[i] = waiter_of(name, TTL, i + 2);
    kill(b.pid, SIGSTOP);
    release(&a);
    process *next = who_has_it(others, 2, TTL + SOON);
    process *last = next == &others[0] ? &others[1] : &others[0];
    release(next);
    process_expect_token(last, TTL + SOON);
    kill(b.pid, SIGCONT);
    assert_false(process_hear(&b, 500));
    process_tell(last, "check");
    process_expect(last, "CHECK OK", 10000);
    release(last);
    process_expect_token(&b, SOON);
    release(&b);
    process_finish(&a);
    process_finish(&b);
    process_finish(next);
    process_finish(last);
    nothing_is_left(name);
    ts_nobody_was_late(mysql, name);
}

/* All waiters in the order of their coming, with a holder that is killed before. */
static void test_a_killed_holder_with_many_waiters(void **state)
{
    const char *name = ts_guarded(mysql, "killed-holder");
    process all[PROCESSES];
    (void)state;
    all[0] = holder_of(name, TTL);
    for (unsigned i = 1; i < PROCESSES; i++)
        all[i] = waiter_of(name, LONG_TTL, i);
    process_bury(&all[0]);
    process_expect_token(&all[1], TTL + 1000);
    for (unsigned i = 2; i < PROCESSES; i++) {
        release(&all[i - 1]);
        process_expect_token(&all[i], SOON);
    }
    release(&all[PROCESSES - 1]);
    for (unsigned i = 1; i < PROCESSES; i++)
        process_finish(&all[i]);
    nothing_is_left(name);
    ts_nobody_was_late(mysql, name);
}

/* A stopped holder has the bell, and its connection lives: the next is in when its lease has
 * ended, and from then on they hand the lease over as ever, and a try is as good as ever. */
static void test_a_stopped_holder_with_waiters(void **state)
{
    const char *name = ts_guarded(mysql, "stopped-holder");
    process waiters[3];
    (void)state;
    process a = holder_of(name, TTL);
    for (unsigned i = 0; i < 3; i++)
        waiters[i] = waiter_of(name, LONG_TTL, i + 1);
    process_tell(&a, "pause");
    process_expect(&a, "PAUSED", 10000);
    kill(a.pid, SIGSTOP);
    int64_t within = TTL + 1000;
    for (unsigned i = 0; i < 3; i++) {
        process *has = who_has_it(waiters, 3, within);
        release(has);
        process_finish(has);
        has->pid = 0;
        within = 2500;
    }
    for (unsigned i = 0; i < 3; i++)
        WANT(OK, ts_try(direct, name, ROWLOCK_OPTIMISTIC));
    process_tell(&a, "resume");
    kill(a.pid, SIGCONT);
    process_expect(&a, "LOST", 10000);
    process_tell(&a, "release");
    process_expect(&a, "RELEASE LOST", 10000);
    process_finish(&a);
    nothing_is_left(name);
    ts_nobody_was_late(mysql, name);
}

/* A child of the killed holder has its sockets, and with them the bell. */
static void test_the_child_of_a_killed_holder(void **state)
{
    const char *name = ts_guarded(mysql, "orphan");
    process waiters[2];
    (void)state;
    process a = holder_of(name, TTL);
    process_tell(&a, "fork");
    process_expect(&a, "CHILD ", 10000);
    orphan = (pid_t)strtol(a.line + 6, NULL, 10);
    for (unsigned i = 0; i < 2; i++)
        waiters[i] = waiter_of(name, LONG_TTL, i + 1);
    process_bury(&a);
    int64_t within = TTL + 1000;
    for (unsigned i = 0; i < 2; i++) {
        process *has = who_has_it(waiters, 2, within);
        release(has);
        process_finish(has);
        has->pid = 0;
        within = 2500;
    }
    for (unsigned i = 0; i < 3; i++)
        WANT(OK, ts_try(direct, name, ROWLOCK_OPTIMISTIC));
    kill(orphan, SIGKILL);
    orphan = 0;
    nothing_is_left(name);
    ts_nobody_was_late(mysql, name);
}

/* The sweeper, and somebody by hand, free the lease of a stopped holder. */
static void test_a_stopped_holder_is_swept_or_broken(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 2; round++) {
        const char *name = ts_guarded(mysql, round ? "broken" : "swept");
        process a = holder_of(name, round ? 3 * TTL : TTL);
        process b = waiter_of(name, TTL, 1);
        process_tell(&a, "pause");
        process_expect(&a, "PAUSED", 10000);
        kill(a.pid, SIGSTOP);
        if (round) {
            WANT(OK, rowlock_break(direct, name, "stopped", &ts_err));
        } else {
            rowlock_sweep_result swept = {0};
            while (!swept.expired && !process_hear(&b, 20))
                WANT(OK, rowlock_sweep(direct, NULL, &swept, &ts_err));
        }
        if (!*b.line || strncmp(b.line, "TOKEN", 5) != 0)
            process_expect_token(&b, 10000);
        /* Who is broken hears of it at the next renewal; it does not beat until then. */
        if (!round)
            process_tell(&a, "resume");
        kill(a.pid, SIGCONT);
        process_expect(&a, "LOST", 10000);
        process_tell(&b, "check");
        process_expect(&b, "CHECK OK", 10000);
        release(&b);
        WANT(OK, ts_try(direct, name, ROWLOCK_OPTIMISTIC));
        process_finish(&a);
        process_finish(&b);
        nothing_is_left(name);
        ts_nobody_was_late(mysql, name);
    }
}

/* ------------------------------------------------------------------------ lost replies */

/* A client whose every byte goes through the proxy. */
static rowlock_client *open_through(void)
{
    rowlock_client_options options = ts_options();
    rowlock_client *client = NULL;
    options.socket = ts_proxy_socket(proxy);
    options.connect_timeout_ms = 3000;
    options.reconnect_ms = 5000;
    options.no_history = true;
    ts_proxy_flow(proxy);
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    return client;
}

/* Takes the lease, sees that it is alone, gives it back. */
typedef struct turn {
    rowlock_client *client;
    const char *name;
    int64_t ttl_ms;
    atomic_int *inside;
    pthread_t thread;
    atomic_bool over;
    unsigned odd;
    rowlock_status got;
    rowlock_status gave;
    rowlock_error err;
} turn;

static void *take_a_turn(void *arg)
{
    turn *t = arg;
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {.wait_ms = 30000, .ttl_ms = t->ttl_ms};
    t->got = rowlock_acquire(t->client, t->name, &options, &hold, &t->err);
    if (t->got == ROWLOCK_OK) {
        t->odd += atomic_fetch_add(t->inside, 1) != 0;
        ts_pass_ms(10);
        atomic_fetch_sub(t->inside, 1);
        t->gave = rowlock_release(hold, &t->err);
    }
    atomic_store(&t->over, true);
    return NULL;
}

static void turn_start(turn *t, rowlock_client *client, const char *name, int64_t ttl_ms,
                       atomic_int *inside)
{
    *t = (turn){.client = client, .name = name, .ttl_ms = ttl_ms, .inside = inside};
    assert_int_equal(pthread_create(&t->thread, NULL, take_a_turn, t), 0);
}

/* With a reply that is held back for longer than a call may take, it may not know how its release
 * ended. */
static void turn_ends_well(turn *t, int64_t within_ms, bool may_not_know)
{
    if (!POLL_UNTIL(atomic_load(&t->over), within_ms)) {
        print_error("not over within %" PRId64 " ms\n", within_ms);
        fail();
    }
    pthread_join(t->thread, NULL);
    ts_err = t->err;
    WANT(OK, t->got);
    if (!may_not_know || t->gave != ROWLOCK_UNKNOWN)
        WANT(OK, t->gave);
    assert_int_equal(t->odd, 0);
}

static const char *fault_word(ts_fault fault)
{
    static const char *const words[] = {"lose command", "lose reply", "stall reply",
                                        "delay command"};
    return words[fault];
}

#define QUEUE "rowlock-waiter"
#define TAKE  "lease_expires_at = UTC_TIMESTAMP(6) + INTERVAL"
#define WAIVE "COALESCE(GET_LOCK"
#define GIVE  "SET status = 'free'"
#define MOST  6000

/* Only a reply that is held back may cost a lease's time: what is lost is looked up, or the server
 * hears at once that the connection has ended. */
static int64_t ttl_for(ts_fault fault)
{
    return fault == TS_STALL_REPLY ? TTL : LONG_TTL;
}

/* At once, or when the lease of a release that is not known to have been is over. */
static void free_again(const char *name, int64_t within_ms)
{
    rowlock_status status = ROWLOCK_BUSY;
    (void)POLL_UNTIL((status = ts_try(direct, name, ROWLOCK_OPTIMISTIC)) != ROWLOCK_BUSY,
                     within_ms);
    WANT(OK, status);
}

/* A waiter's way through the queue: something is lost on it. Another waits behind it. */
static void waiter_with_fault(const char *text, ts_fault fault, unsigned nth, bool *fired)
{
    const char *name = ts_guarded(mysql, "waiter-fault");
    atomic_int inside = 0;
    rowlock_client *client = open_through();
    turn first;
    turn second;
    rowlock_hold *hold = ts_take(direct, name, ROWLOCK_OPTIMISTIC, ttl_for(fault));
    bool later = text && strcmp(text, QUEUE) != 0;
    if (!later)
        ts_proxy_arm(proxy, fault, text, nth, false);
    turn_start(&first, client, name, ttl_for(fault), &inside);
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == 1 || ts_proxy_fired(proxy), 10000));
    if (later)
        ts_proxy_arm(proxy, fault, text, nth, false);
    turn_start(&second, direct, name, ttl_for(fault), &inside);
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == 2 || ts_proxy_fired(proxy), 10000));
    WANT(OK, rowlock_release(hold, &ts_err));
    turn_ends_well(&second, MOST, false);
    turn_ends_well(&first, MOST, fault == TS_STALL_REPLY);
    *fired = ts_proxy_fired(proxy);
    ts_proxy_flow(proxy);
    rowlock_client_close(client);
    nothing_is_left(name);
    free_again(name, fault == TS_STALL_REPLY ? TTL + 1000 : 0);
}

static void test_faults_of_a_waiter(void **state)
{
    static const ts_fault faults[] = {TS_LOSE_COMMAND, TS_LOSE_REPLY, TS_STALL_REPLY};
    static const char *const texts[] = {QUEUE, TAKE, WAIVE, GIVE};
    (void)state;
    for (unsigned f = 0; f < 3; f++)
        for (unsigned t = 0; t < 4; t++) {
            bool fired = false;
            print_message("# %s: %s\n", fault_word(faults[f]), texts[t]);
            waiter_with_fault(texts[t], faults[f], 1, &fired);
            assert_true(fired);
        }
}

/* A holder takes a free lease, and the bell with it, and gives it back while somebody waits. */
static void holder_with_fault(const char *text, ts_fault fault, unsigned nth, bool *fired)
{
    const char *name = ts_guarded(mysql, "holder-fault");
    atomic_int inside = 0;
    rowlock_client *client = open_through();
    turn second;
    WANT(OK, ts_try(direct, name, ROWLOCK_OPTIMISTIC));
    ts_proxy_arm(proxy, fault, text, nth, false);
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, ttl_for(fault));
    uint64_t token = rowlock_hold_token(hold);
    turn_start(&second, direct, name, ttl_for(fault), &inside);
    ts_pass_ms(50);
    assert_held(hold);
    assert_int_equal(
        ts_sql_u64(mysql, "SELECT version FROM resource WHERE resource_name = %s", ts_quote(name)),
        token);
    rowlock_status gave = rowlock_release(hold, &ts_err);
    if (fault != TS_STALL_REPLY || gave != ROWLOCK_UNKNOWN)
        WANT(OK, gave);
    turn_ends_well(&second, MOST, false);
    *fired = ts_proxy_fired(proxy);
    ts_proxy_flow(proxy);
    rowlock_client_close(client);
    nothing_is_left(name);
    free_again(name, fault == TS_STALL_REPLY ? TTL + 1000 : 0);
}

static void test_faults_of_a_holder(void **state)
{
    static const ts_fault faults[] = {TS_LOSE_COMMAND, TS_LOSE_REPLY, TS_STALL_REPLY};
    static const char *const texts[] = {"GET_LOCK(CONCAT", "RELEASE_LOCK(CONCAT"};
    (void)state;
    for (unsigned f = 0; f < 3; f++)
        for (unsigned t = 0; t < 2; t++) {
            bool fired = false;
            print_message("# %s: %s\n", fault_word(faults[f]), texts[t]);
            holder_with_fault(texts[t], faults[f], 1, &fired);
            assert_true(fired);
        }
}

/* Each command of either, one by one. */
static void test_every_command(void **state)
{
    static const ts_fault faults[] = {TS_LOSE_COMMAND, TS_LOSE_REPLY};
    (void)state;
    for (unsigned f = 0; f < 2; f++) {
        bool fired = true;
        unsigned nth = 0;
        while (fired && nth < 100)
            waiter_with_fault(NULL, faults[f], ++nth, &fired);
        assert_between(6, nth, 99);
        fired = true;
        nth = 0;
        while (fired && nth < 100)
            holder_with_fault(NULL, faults[f], ++nth, &fired);
        assert_between(5, nth, 99);
    }
}

/* Every connection of the waiters is cut, again and again, while leases go from hand to hand. */
static void test_cuts_in_a_crowd(void **state)
{
    enum { CROWD = 12 };
    const char *name = ts_guarded(mysql, "crowd");
    atomic_int inside = 0;
    turn all[CROWD];
    rowlock_client *clients[CROWD];
    rowlock_hold *hold = ts_take(direct, name, ROWLOCK_OPTIMISTIC, TTL);
    (void)state;
    for (unsigned i = 0; i < CROWD; i++) {
        clients[i] = i % 3 ? open_through() : ts_open();
        turn_start(&all[i], clients[i], name, TTL, &inside);
    }
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == CROWD, 10000));
    ts_proxy_cut(proxy);
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == CROWD, 10000));
    WANT(OK, rowlock_release(hold, &ts_err));
    for (unsigned i = 0; i < 4; i++) {
        ts_pass_ms(15);
        ts_proxy_cut(proxy);
    }
    /* Whose lease was taken and not heard of is asked for; nothing is held for its TTL. */
    for (unsigned i = 0; i < CROWD; i++)
        turn_ends_well(&all[i], 2 * MOST, false);
    for (unsigned i = 0; i < CROWD; i++)
        rowlock_client_close(clients[i]);
    nothing_is_left(name);
}

/* A waiter's line goes dead, as when its host vanishes: it has the bell in the end, and does not
 * know. The others get in; it comes back and waits on. */
static void test_a_dead_line(void **state)
{
    const char *name = ts_guarded(mysql, "dead-line");
    atomic_int inside = 0;
    rowlock_client *client = open_through();
    turn first;
    turn second;
    rowlock_hold *hold = ts_take(direct, name, ROWLOCK_OPTIMISTIC, TTL);
    (void)state;
    turn_start(&first, client, name, TTL, &inside);
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == 1, 10000));
    turn_start(&second, direct, name, TTL, &inside);
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == 2, 10000));
    ts_proxy_stall(proxy, true);
    WANT(OK, rowlock_release(hold, &ts_err));
    turn_ends_well(&second, MOST, false);
    ts_proxy_stall(proxy, false);
    turn_ends_well(&first, MOST, false);
    rowlock_client_close(client);
    nothing_is_left(name);
}

/* -------------------------------------------------------------------------------- main */

static int begin(void **state)
{
    ts_suite_begin(state);
    mysql = ts_connect(ts_schema());
    proxy = ts_proxy_start(ts_socket());
    direct = ts_open();
    ts_guard_tables(mysql);
    return 0;
}

static int end(void **state)
{
    if (orphan)
        kill(orphan, SIGKILL);
    rowlock_client_close(direct);
    ts_proxy_stop(proxy);
    mysql_close(mysql);
    return ts_suite_end(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        ONCE(test_processes_in_their_order),
        ONCE(test_dead_waiters),
        ONCE(test_a_waiter_dies_at_its_turn),
        ONCE(test_a_stopped_waiter),
        ONCE(test_a_killed_holder_with_many_waiters),
        ONCE(test_a_stopped_holder_with_waiters),
        ONCE(test_the_child_of_a_killed_holder),
        ONCE(test_a_stopped_holder_is_swept_or_broken),
        ONCE(test_faults_of_a_waiter),
        ONCE(test_faults_of_a_holder),
        ONCE(test_every_command),
        ONCE(test_cuts_in_a_crowd),
        ONCE(test_a_dead_line),
    };
    (void)argc;
    signal(SIGPIPE, SIG_IGN);
    process_begin(argv[0]);
    return cmocka_run_group_tests_name("bell_faults", tests, begin, end);
}
