/*
 * Waiting by the bell when waiters or holders die or stop, or replies are lost. After each fault:
 * at most one holder at any time (by the guarded beats of the processes), the next one acquires
 * soon, and no bell is left behind.
 */
#include "bell/bell.h"
#include "faults/process.h"
#include "faults/through.h"

enum { TTL = TS_KEPT_TTL, LONG_TTL = 30000, SOON = 3000 };

static pid_t orphan;

static process holder_of(const char *name, int64_t ttl_ms)
{
    process p = process_start(name, ROWLOCK_OPTIMISTIC, ttl_ms);
    process_expect_token(&p, 10000);
    return p;
}

/* Starts a waiter, and waits until it is the nth in the queue. */
static process waiter_of(const char *name, int64_t ttl_ms, uint64_t nth)
{
    process p = process_start(name, ROWLOCK_OPTIMISTIC, ttl_ms);
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == nth, 10000));
    return p;
}

static void release(process *p)
{
    process_ask(p, "release", "RELEASE OK");
}

/* The process that reports the lease; the others wait on. */
static process *who_has_it(process *all, unsigned count, int64_t within_ms)
{
    int64_t end = ts_now_ms() + within_ms - ts_stood_ms();
    while (ts_now_ms() < end + ts_stood_ms())
        for (unsigned i = 0; i < count; i++)
            if (all[i].pid && process_hear(&all[i], 5)) {
                assert_memory_equal(all[i].line, "TOKEN ", 6);
                return &all[i];
            }
    fail_msg("nobody has it within %" PRId64 " ms", within_ms);
    return NULL;
}

/* The first in the queue is stopped, and does not acquire when it is woken. The others wait for a
 * limited time; the first one does no harm when it goes on. */
TS_ONCE(test_a_stopped_waiter)
{
    const char *name = ts_guarded(mysql, "stopped-waiter");
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
    process_ask(last, "check", "CHECK OK");
    release(last);
    process_expect_token(&b, SOON + ts_slack_ms());
    release(&b);
    process_finish(&a);
    process_finish(&b);
    process_finish(next);
    process_finish(last);
    ts_no_bell(mysql, name);
    ts_nobody_was_late(mysql, name);
}

/* A stopped holder has the bell, and its connection lives; so has the child of a killed one, by its
 * sockets. The next waiter acquires when the lease has expired; after that, hand-overs and tries
 * work as usual. */
TS_ONCE(test_a_bell_that_nobody_rings)
{
    enum { WAITERS = 3 };
    for (int killed = 0; killed < 2; killed++) {
        const char *name = ts_guarded(mysql, killed ? "orphan" : "stopped-holder");
        process waiters[WAITERS];
        process a = holder_of(name, TTL);
        if (killed) {
            process_ask(&a, "fork", "CHILD ");
            orphan = (pid_t)strtol(a.line + 6, NULL, 10);
        }
        for (unsigned i = 0; i < WAITERS; i++)
            waiters[i] = waiter_of(name, LONG_TTL, i + 1);
        if (killed)
            process_bury(&a);
        else
            process_sleep(&a);
        for (unsigned i = 0; i < WAITERS; i++) {
            process *has =
                who_has_it(waiters, WAITERS, (i == 0 ? TTL + SOON : SOON) + ts_slack_ms());
            release(has);
            process_finish(has);
            has->pid = 0;
        }
        for (unsigned i = 0; i < 3; i++)
            WANT(OK, ts_try(direct, name, ROWLOCK_OPTIMISTIC));
        if (killed) {
            kill(orphan, SIGKILL);
            orphan = 0;
        } else {
            process_wake(&a);
            process_expect(&a, "LOST", 10000);
            process_ask(&a, "release", "RELEASE LOST");
            process_finish(&a);
        }
        ts_no_bell(mysql, name);
        ts_nobody_was_late(mysql, name);
    }
}

/* Acquires the lease, checks that it is alone, releases. */
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

/* If a reply is held back for longer than a call may take, the outcome of its release may be
 * unknown. */
static void turn_ends_well(turn *t, int64_t within_ms, bool may_not_know)
{
    if (!POLL_UNTIL(atomic_load(&t->over), within_ms))
        fail_msg("not over within %" PRId64 " ms", within_ms);
    pthread_join(t->thread, NULL);
    ts_err = t->err;
    WANT(OK, t->got);
    if (!may_not_know || t->gave != ROWLOCK_UNKNOWN)
        WANT(OK, t->gave);
    assert_int_equal(t->odd, 0);
}

#define QUEUE "bell_wait"
#define WAIVE "lease_waive"
#define GIVE  "lease_release lease_release_apart lease_release_quiet"
#define MOST  15000

/* Only a reply that is held back may delay others for the TTL: a lost one is looked up, or the
 * server sees at once that the connection has ended. */
static int64_t ttl_for(ts_fault fault)
{
    return fault == TS_STALL_REPLY ? 2 * TTL : LONG_TTL;
}

/* Free at once, or after an unknown release when the lease has expired. */
static void free_again(const char *name, int64_t within_ms)
{
    rowlock_status status = ROWLOCK_BUSY;
    (void)POLL_UNTIL((status = ts_try(direct, name, ROWLOCK_OPTIMISTIC)) != ROWLOCK_BUSY,
                     within_ms);
    WANT(OK, status);
}

/* Checks that nothing is left behind. True: the fault has happened. */
static bool is_over(const char *name, rowlock_client *client, ts_fault fault)
{
    bool fired = ts_proxy_fired(proxy);
    ts_proxy_flow(proxy);
    rowlock_client_close(client);
    ts_no_bell(mysql, name);
    free_again(name, fault == TS_STALL_REPLY ? ttl_for(fault) + 1000 : 0);
    return fired;
}

/* A waiter in the queue, with a fault at the nth command. Another one waits behind it. */
static bool waiter_with_fault(const char *text, ts_fault fault, unsigned nth, bool slow_disk)
{
    static atomic_int inside; /* the threads may outlive a failed test */
    static turn first;
    static turn second;
    const char *name = ts_guarded(mysql, "waiter-fault");
    rowlock_client *client = through_open();
    atomic_store(&inside, 0);
    if (slow_disk)
        ts_commits_slowly(client);
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
    return is_over(name, client, fault);
}

/* A holder acquires a free lease with its bell, and releases while another client waits. */
static bool holder_with_fault(const char *text, ts_fault fault, unsigned nth)
{
    static atomic_int inside; /* the thread may outlive a failed test */
    static turn second;
    const char *name = ts_guarded(mysql, "holder-fault");
    rowlock_client *client = through_open();
    atomic_store(&inside, 0);
    WANT(OK, ts_try(direct, name, ROWLOCK_OPTIMISTIC));
    ts_proxy_arm(proxy, fault, text, nth, false);
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, ttl_for(fault));
    uint64_t token = rowlock_hold_token(hold);
    turn_start(&second, direct, name, ttl_for(fault), &inside);
    ts_pass_ms(50);
    assert_held(hold);
    assert_int_equal(ts_version_of(mysql, name), token);
    rowlock_status gave = rowlock_release(hold, &ts_err);
    if (fault != TS_STALL_REPLY || gave != ROWLOCK_UNKNOWN)
        WANT(OK, gave);
    turn_ends_well(&second, MOST, false);
    return is_over(name, client, fault);
}

/* A reply is held back for longer than a call may take. */
TS_ONCE(test_a_late_reply)
{
    const char *const waiters[] = {QUEUE, taking(ROWLOCK_OPTIMISTIC), WAIVE, GIVE};
    const char *const holders[] = {"lease_acquire bell_take lease_waive",
                                   "lease_release lease_waive bell_ring"};
    for (unsigned i = 0; i < 4; i++)
        assert_true(waiter_with_fault(waiters[i], TS_STALL_REPLY, 1, i == 2));
    for (unsigned i = 0; i < 2; i++)
        assert_true(holder_with_fault(holders[i], TS_STALL_REPLY, 1));
}

/* The fault hits each command of either, one by one. */
TS_ONCE(test_every_command)
{
    static const ts_fault faults[] = {TS_LOSE_COMMAND, TS_LOSE_REPLY};
    for (unsigned f = 0; f < 2; f++) {
        unsigned nth;
        for (unsigned slow_disk = 0; slow_disk < 2; slow_disk++) {
            nth = 1;
            while (nth < 100 && waiter_with_fault(NULL, faults[f], nth, slow_disk))
                nth++;
            assert_between(6, nth, 99);
        }
        nth = 1;
        while (nth < 100 && holder_with_fault(NULL, faults[f], nth))
            nth++;
        assert_between(5, nth, 99);
    }
}

static int begin(void **state)
{
    through_begin(state);
    ts_guard_tables(mysql);
    return 0;
}

static int end(void **state)
{
    if (orphan)
        kill(orphan, SIGKILL);
    return through_end(state);
}

PROCESS_MAIN("bell_faults", begin, end)
