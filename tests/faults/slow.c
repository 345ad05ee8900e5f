/*
 * A dead connection: silent for ever, without a notice to either end. No holder takes a lock for
 * its own beyond its deadline, and every call returns.
 */
#include <sys/mman.h>

#include "faults/through.h"
#include "rowlock/rowlock_barrier.h"

enum { LATE_TTL = 3000 };

/* *at: the last time that it did. */
static bool believes(rowlock_hold *hold, int64_t *at)
{
    int64_t now = ts_now_ms();
    if (rowlock_hold_check(hold) != ROWLOCK_OK)
        return false;
    *at = now;
    return true;
}

/* Delays the reply to the renewal for as long as it may be. */
static void renew_late(rowlock_hold *hold)
{
    ts_proxy_arm(proxy, TS_STALL_REPLY, "lease_renewed", 1, false);
    (void)POLL_UNTIL(ts_proxy_fired(proxy), LATE_TTL);
    ts_pass_ms(LATE_TTL / 4);
    int64_t before = rowlock_hold_remaining_ms(hold);
    ts_proxy_flow(proxy);
    (void)POLL_UNTIL(rowlock_hold_remaining_ms(hold) > before, LATE_TTL);
}

/* The server counts from the grant, and a holder from before its request: if the connection is dead
 * from the reply on, the holder knows of the loss before anybody else has the lease, and a waiter
 * gets it in time. A row lock's holder knows by its ping. (In hundredths of the TTL.) */
TS_BOTH(test_believes_no_longer_than_the_server)
{
    static const struct {
        int up, down;
        bool renewal;
    } lanes[] = {{0, 0, false}, {0, 0, true}, {0, 50, false}, {0, 90, false}, {45, 45, false}};
    for (int i = 0; i < (mode == ROWLOCK_OPTIMISTIC ? 5 : 1); i++) {
        const char *name = ts_name("late");
        int64_t believed_at = 0;
        int64_t stood = ts_stood_ms();
        rowlock_hold *hold = NULL;
        const rowlock_acquire_options how = {
            .mode = mode, .wait_ms = 3 * LATE_TTL, .ttl_ms = LATE_TTL};
        TS_CLIENT *client = through_open();
        WANT(OK, ts_try(client, name, mode));
        ts_proxy_delay(proxy, LATE_TTL * lanes[i].up / 100, LATE_TTL * lanes[i].down / 100);
        rowlock_status status = rowlock_acquire(client, name, &how, &hold, &ts_err);
        if (hold && lanes[i].renewal)
            renew_late(hold);
        ts_proxy_stall(proxy, true);
        int64_t start = ts_now_ms();
        if (status == ROWLOCK_OK) {
            TS_WAITER rival = ts_wait(direct, name, mode, 60000, 30000);
            assert_true(POLL_UNTIL(!believes(hold, &believed_at), 10000));
            assert_between(0, ts_now_ms() - start, LATE_TTL + ts_slack_ms());
            ASSERT_GETS_IN(&rival, rowlock_hold_token(hold), 20000);
            assert_between(0, rival.ended_ms - start, LATE_TTL + 3000 + ts_slack_ms());
            if (mode == ROWLOCK_OPTIMISTIC)
                assert_between(believed_at, rival.ended_ms, INT64_MAX);
            ts_proxy_cut(proxy);
            ts_proxy_flow(proxy);
            WANT(LOST, rowlock_release(hold, &ts_err));
            assert_held(rival.hold);
        }
        /* With a short delay it was held for some time, if the machine did not stand still. */
        if (lanes[i].up + lanes[i].down <= 50 && believed_at == 0)
            assert_between(LATE_TTL / 4, ts_stood_ms() - stood, INT64_MAX);
        ts_proxy_cut(proxy);
        ts_proxy_flow(proxy);
    }
}

/* The server does not answer the COMMIT that makes a name: an outage, not the end of a wait. */
TS_ONCE(test_a_commit_without_an_answer)
{
    TS_CLIENT *client = through_open();
    const char *name = ts_name("commit");
    ts_proxy_arm(proxy, TS_STALL_REPLY, "commit", 1, false);
    WANT(UNAVAILABLE, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    assert_true(ts_proxy_fired(proxy));
    ts_proxy_cut(proxy);
    ts_proxy_flow(proxy);
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
}

typedef struct call {
    int number;
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

/* Makes the call; they have the order of the names below. */
static rowlock_status make(call *c)
{
    static const char *const names[] = {"dead-set-a", "dead-set-b"};
    const rowlock_acquire_options rows = {.mode = ROWLOCK_PESSIMISTIC, .wait_ms = 500};
    const rowlock_acquire_options how = {.mode = c->mode, .wait_ms = c->number == 0 ? 0 : 500};
    const rowlock_client_options options = through_options();
    rowlock_list *list = NULL;
    rowlock_waiters *waiters = NULL;
    rowlock_history *history = NULL;
    rowlock_client *none = NULL;
    uint64_t version = 0;
    switch (c->number) {
    case 0:
    case 1:
        return rowlock_acquire(c->client, c->name, &how, &c->hold, &c->err);
    case 2:
        return rowlock_acquire_set(c->client, names, 2, &rows, &c->hold, &c->err);
    case 3:
        return rowlock_release(c->hold, &c->err);
    case 4:
        return rowlock_list_get(c->client, NULL, &list, &c->err);
    case 5:
        return rowlock_waiters_get(c->client, NULL, &waiters, &c->err);
    case 6:
        return rowlock_history_get(c->client, NULL, &history, &c->err);
    case 7:
        return rowlock_break(c->client, c->name, "test", &c->err);
    case 8:
        return rowlock_purge(c->client, c->name, &c->err);
    case 9:
        return rowlock_sweep(c->client, NULL, &(rowlock_sweep_result){0}, &c->err);
    case 10:
        return rowlock_version_read(c->client, "dead-version", &version, &c->err);
    default:
        return rowlock_client_open(&options, &none, &c->err);
    }
}

static const char *const call_words[] = {"try",   "wait",    "set",     "release",
                                         "list",  "waiters", "history", "break",
                                         "purge", "sweep",   "version", "open"};
enum { CALLS = sizeof call_words / sizeof call_words[0], RELEASE = 3 };

static void *make_it(void *arg)
{
    call *c = arg;
    int64_t start = ts_now_ms();
    c->status = make(c);
    c->took_ms = ts_now_ms() - start;
    atomic_store(&c->over, true);
    return NULL;
}

/* No call hangs: it returns within its wait, or its time to connect, and the time to give up. */
TS_BOTH(test_every_call_comes_back)
{
    static call calls[CALLS]; /* a thread may outlive a failed test */
    const char *name = ts_name("dead");
    TS_CLIENT *client = through_open();
    WANT(OK, ts_try(client, name, mode));
    rowlock_hold *hold = ts_take(client, ts_name("dead-release"), mode, 30000);
    ts_proxy_stall(proxy, true);
    for (int i = 0; i < CALLS; i++) {
        calls[i] = (call){.number = i, .client = client, .name = name, .mode = mode};
        calls[i].hold = i == RELEASE ? hold : NULL;
        assert_int_equal(pthread_create(&calls[i].thread, NULL, make_it, &calls[i]), 0);
    }
    for (int i = 0; i < CALLS; i++) {
        if (!POLL_UNTIL(atomic_load(&calls[i].over), 20000))
            fail_msg("%s does not come back", call_words[i]);
        pthread_join(calls[i].thread, NULL);
        print_message("# %s: %s after %" PRId64 " ms\n", call_words[i],
                      rowlock_status_name(calls[i].status), calls[i].took_ms);
        assert_true(calls[i].status == ROWLOCK_UNAVAILABLE || calls[i].status == ROWLOCK_UNKNOWN ||
                    calls[i].status == ROWLOCK_TIMEOUT);
        assert_between(0, calls[i].took_ms, 10000 + ts_slack_ms());
    }
    ts_proxy_flow(proxy);
}

/* The holder is cut off, and its TTL passes, while a transaction of its program has fenced the
 * lock: nobody acquires until that has ended, so it may commit (docs/guarantees.md, 8). */
TS_BOTH(test_fenced_for_longer_than_the_ttl)
{
    const char *name = ts_name("fenced");
    TS_MYSQL *work = ts_connect(ts_schema());
    TS_CLIENT *client = through_open();
    rowlock_hold *hold = ts_take(client, name, mode, TS_KEPT_TTL);
    uint64_t token = rowlock_hold_token(hold);
    ts_sql(work, "CREATE TABLE IF NOT EXISTS fenced (name VARCHAR(80)) ENGINE = InnoDB");
    ts_sql(work, "START TRANSACTION");
    ts_sql(work, "INSERT INTO fenced VALUES ('%s')", name);
    WANT(OK, rowlock_fence(hold, work, &ts_err));
    ts_proxy_stall(proxy, true);
    ts_waiter waiter = ts_wait(direct, name, mode, 60000, 30000);
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, TS_KEPT_TTL + 5000));
    ts_pass_ms(2000);
    assert_false(ts_waiter_ended(&waiter));
    ts_sql(work, "COMMIT");
    ASSERT_GETS_IN(&waiter, token, 20000);
    assert_int_equal(ts_sql_u64(mysql, "SELECT COUNT(*) FROM fenced WHERE name = '%s'", name), 1);
    /* It is lost. */
    ts_sql(work, "START TRANSACTION");
    WANT(LOST, rowlock_fence(hold, work, &ts_err));
    ts_sql(work, "ROLLBACK");
    ts_proxy_flow(proxy);
    assert_held(waiter.hold);
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    (void)rowlock_release(hold, &ts_err);
}

/* Each statement takes longer than a try waits for a row that is being changed. */
TS_ONCE(test_tries_at_a_server_that_is_far_away)
{
    static const rowlock_acquire_options ways[] = {{.mode = ROWLOCK_OPTIMISTIC},
                                                   {.mode = ROWLOCK_PESSIMISTIC},
                                                   {.shared = true},
                                                   {.slots = 2},
                                                   {.slots = 2, .units = 2}};
    enum { WAYS = sizeof ways / sizeof ways[0] };
    static const bool share[] = {false, true};
    const char *const names[] = {ts_name("far set"), ts_name("far set")};
    const char *alone[WAYS];
    const char *dead = ts_name("far");
    const char *barrier = ts_name("far");
    const rowlock_freeze_options freeze = {.name = barrier};
    TS_MYSQL *blocker = ts_connect(ts_schema());
    const rowlock_acquire_options in_part = {.share = share};
    rowlock_client_options options = through_options();
    rowlock_hold *hold = NULL;
    options.connect_timeout_ms = 20000;
    ts_proxy_flow(proxy);
    ts_proxy_delay(proxy, 100, 100);
    TS_CLIENT *client = ts_open_with(options);
    for (size_t i = 0; i < WAYS; i++) {
        alone[i] = ts_name("far");
        WANT(OK, rowlock_release(ts_take_with(client, alone[i], ways[i]), &ts_err));
    }
    TS_HOLD *late = ts_take(direct, dead, ROWLOCK_OPTIMISTIC, 300000);
    ts_expire(mysql, dead, ROWLOCK_OPTIMISTIC);
    WANT(OK, rowlock_acquire_set(client, names, 2, &in_part, &hold, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_barrier_enter(client, barrier, 1, NULL, &hold, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_freeze(client, &freeze, NULL, &ts_err));
    WANT(OK, rowlock_thaw(client, &freeze, &ts_err));
    /* If somebody has a row it is BUSY, after a few round trips, and a second where it is free. */
    ts_sql(blocker, "BEGIN");
    ts_sql(blocker, "SELECT id FROM resource WHERE resource_name LIKE 'far%%' FOR UPDATE");
    for (size_t i = 0; i < WAYS; i++)
        if (ways[i].units < 2) /* which is tried several times, for a second each */
            WANT(BUSY, rowlock_acquire(client, alone[i], &ways[i], &hold, &ts_err));
    WANT(BUSY, rowlock_acquire(client, dead, &ways[0], &hold, &ts_err));
    WANT(BUSY, rowlock_acquire_set(client, names, 2, &in_part, &hold, &ts_err));
    WANT(BUSY, rowlock_barrier_enter(client, barrier, 1, NULL, &hold, &ts_err));
    ts_sql(blocker, "ROLLBACK");
    ts_proxy_flow(proxy);
}

enum { STOPPED_TTL = 6000, STOPPED_FOR = 4200 };
/*
 * A ping or a renewal is due after a third of the TTL; after nine tenths without one the hold is
 * lost.
 */
enum { STOOD_TOO_LONG = STOPPED_TTL * 9 / 10 - STOPPED_TTL / 3 };

/* What the holder sees, shared with the other process. */
typedef struct sight {
    rowlock_mode mode;
    const char *name;
    pid_t parent;
    atomic_bool holds;
    atomic_bool wary; /* checks the hold without a pause */
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
        bool is_lost = rowlock_hold_check(hold) == ROWLOCK_LOST;
        if (!is_lost && atomic_load(&seen->lost))
            atomic_store(&seen->kept_after_all, true);
        if (is_lost)
            atomic_store(&seen->lost, true);
        if (!atomic_load(&seen->wary))
            ts_pass_ms(1);
    }
    (void)rowlock_release(hold, NULL);
    rowlock_client_close(client);
    return 0;
}

/* Stops the process from when the good reply is on its way until its deadline has passed. */
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

/* A process is stopped while the server's good reply is on its way, and goes on after its deadline,
 * but before the one that the reply would set: LOST is final. */
TS_BOTH(test_lost_is_final)
{
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
                 mode == ROWLOCK_PESSIMISTIC ? "session_probe session_probe_node" : "lease_renewed",
                 1, false);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy) || atomic_load(&seen->lost), STOPPED_TTL));
    if (ts_proxy_fired(proxy))
        stop_behind_the_deadline(seen, pid);
    else /* the whole machine stood still */
        assert_between(STOOD_TOO_LONG, ts_stood_ms() - stood, INT64_MAX);
    ts_pass_ms(500);
    bool was_lost = atomic_load(&seen->lost);
    assert_false(atomic_load(&seen->kept_after_all));
    assert_true(!was_lost || POLL_UNTIL(atomic_load(&seen->told), 10000));
    atomic_store(&seen->over, true);
    assert_int_equal(ts_reap(pid, 20000), 0);
    ts_proxy_flow(proxy);
    munmap(seen, sizeof *seen);
}

TS_MAIN("slow", through_begin, through_end)
