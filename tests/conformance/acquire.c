/* Acquire, wait, cancel, release: the same for both modes. */
#include "conformance/clients.h"

TS_ONCE(test_defaults)
{
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_acquire(client, ts_name("default"), NULL, &hold, &ts_err));
    assert_int_equal(rowlock_hold_mode(hold), ROWLOCK_OPTIMISTIC);
    assert_between(ROWLOCK_TTL_DEFAULT_MS / 2, rowlock_hold_remaining_ms(hold),
                   ROWLOCK_TTL_DEFAULT_MS);
    WANT(OK, rowlock_release(hold, NULL));
}

TS_BOTH(test_what_a_hold_says)
{
    const char *name = ts_name("says");
    TS_HOLD *hold = ts_take(client, name, mode, 20000);
    assert_true(rowlock_hold_token(hold) > 0);
    assert_string_equal(rowlock_hold_name(hold), name);
    assert_int_equal(rowlock_hold_mode(hold), mode);
    assert_int_equal(rowlock_hold_count(hold), 1);
    assert_string_equal(rowlock_hold_name_at(hold, 0), name);
    assert_true(rowlock_hold_token_at(hold, 0) == rowlock_hold_token(hold));
    assert_null(rowlock_hold_name_at(hold, 1));
    assert_true(rowlock_hold_token_at(hold, 1) == 0);
    assert_int_equal(rowlock_hold_depth(hold), 1);
    assert_between(0, rowlock_hold_waited_ms(hold), 1000 + ts_slack_ms());
    assert_between(15000, rowlock_hold_remaining_ms(hold), 20000);
    assert_held(hold);
    assert_between(1, (int64_t)strlen(rowlock_hold_owner(hold)), ROWLOCK_OWNER_MAX);
    char *owner =
        ts_sql_text(mysql, "SELECT owner FROM resource WHERE resource_name = %s", ts_quote(name));
    assert_string_equal(owner, rowlock_hold_owner(hold));
    free(owner);
    TS_HOLD *another = ts_take(client, ts_name("owner"), mode, 30000);
    assert_string_not_equal(rowlock_hold_owner(another), rowlock_hold_owner(hold));
}

TS_BOTH(test_a_try_is_busy_at_once)
{
    const char *name = ts_name("try");
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    WANT(BUSY, ts_try(other, name, mode)); /* it looks for the name */
    for (int i = 0; i < 3; i++)
        WANT_WITHIN(BUSY, 0, 500, ts_try(other, name, mode));
    assert_non_null(strstr(ts_err.message, name));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_try(other, name, mode));
    WANT(OK, ts_try(client, name, mode));
}

TS_BOTH(test_a_wait_ends_on_time)
{
    static const int64_t waits[] = {1, 40, 250, 1300};
    const char *name = ts_name("timeout");
    size_t unknown = 0;
    const int64_t stood = ts_stood_ms();
    const int64_t strain = ts_strain_ms();
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    WANT(BUSY, ts_try(other, name, mode));
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        /* A lease that was granted to a call that has ended is free again before the loop below
         * gives up. */
        rowlock_acquire_options options = {
            .mode = mode, .wait_ms = waits[i], .ttl_ms = TS_KEPT_TTL};
        rowlock_hold *none = NULL;
        int64_t start = ts_now_ms();
        unknown +=
            WANT_TIMEOUT(mode, strain, rowlock_acquire(other, name, &options, &none, &ts_err));
        assert_between(waits[i] - 1, ts_now_ms() - start, waits[i] + ts_slack_ms());
        assert_null(none);
        assert_non_null(strstr(ts_err.message, name));
    }
    assert_true(unknown < sizeof waits / sizeof waits[0]);
    WANT(OK, rowlock_release(hold, &ts_err));
    /* The ended waits leave nothing behind: the last one had 200 ms to be stopped (END_US,
     * src/kind/row.c). On a busy machine, one that could not be stopped in time stays
     * until the server sees that its connection has ended. */
    assert_true(POLL_UNTIL(ts_try(client, name, mode) == ROWLOCK_OK,
                           unknown == 0 && ts_stood_ms() == stood ? 200 : 10000));
    WANT(OK, ts_try(client, name, mode));
    WANT(OK, ts_try(other, name, mode));
}

/* The second of two threads of one client waits for the first, too. */
TS_BOTH(test_a_waiter_gets_it_when_it_is_released)
{
    const struct {
        rowlock_client *from;
        int64_t wait_ms;
    } waits[] = {{other, ROWLOCK_WAIT_FOREVER}, {other, 20000}, {client, 20000}};
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        const char *name = ts_name("handover");
        rowlock_hold *hold = ts_take(client, name, mode, 30000);
        uint64_t token = rowlock_hold_token(hold);
        WANT(BUSY, ts_try(waits[i].from, name, mode));
        TS_WAITER waiter = ts_wait(waits[i].from, name, mode, waits[i].wait_ms, 0);
        ts_pass_ms(600);
        assert_false(ts_waiter_ended(&waiter));
        WANT(OK, rowlock_release(hold, &ts_err));
        ASSERT_GETS_IN(&waiter, token, 10000);
        /* The thread may begin a little later than it was started. */
        assert_between(600 - ts_slack_ms(), rowlock_hold_waited_ms(waiter.hold),
                       waiter.ended_ms - waiter.started_ms + 1);
    }
}

static void check_cancelled(ts_waiter *waiter, int64_t fired_ms)
{
    WANT(CANCELLED, ts_waiter_join(waiter, 10000));
    assert_between(-1, waiter->ended_ms - fired_ms, ts_slack_ms());
    assert_null(waiter->hold);
}

TS_BOTH(test_cancel_from_another_thread)
{
    const char *name = ts_name("cancel");
    TS_CANCEL *cancel = ts_cancel();
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    rowlock_acquire_options options = {.mode = mode, .wait_ms = -1, .cancel = cancel};
    ts_waiter first = {.client = other, .name = name, .options = options};
    ts_waiter second = {.client = client, .name = name, .options = options};
    ts_waiter_start(&first);
    ts_waiter_start(&second);
    ts_pass_ms(400);
    int64_t fired = ts_now_ms();
    rowlock_cancel_fire(cancel);
    check_cancelled(&first, fired);
    check_cancelled(&second, fired);
    /* "now and later" */
    ts_waiter late = {.client = other, .name = name, .options = options};
    fired = ts_now_ms();
    ts_waiter_start(&late);
    check_cancelled(&late, fired);
    rowlock_hold *none = NULL; /* also for a free lock */
    for (int i = 0; i < 10; i++) {
        const char *vacant = ts_name("cancel-free");
        WANT(OK, ts_try(other, vacant, mode)); /* an idle connection could acquire it at once */
        WANT(CANCELLED, rowlock_acquire(other, vacant, &options, &none, &ts_err));
    }
    assert_null(none);
    rowlock_cancel_reset(cancel);
    WANT(OK, rowlock_release(hold, &ts_err));
    TS_WAITER again = {.client = other, .name = name, .options = options};
    ts_waiter_start(&again);
    WANT(OK, ts_waiter_join(&again, 10000));
}

static rowlock_cancel *signal_cancel;

static void on_signal(int number)
{
    (void)number;
    rowlock_cancel_fire(signal_cancel);
}

TS_BOTH(test_cancel_from_a_signal_handler)
{
    const char *name = ts_name("signal");
    signal_cancel = ts_cancel();
    struct sigaction action = {.sa_handler = on_signal};
    struct sigaction before;
    sigaction(SIGUSR1, &action, &before);
    TS_HOLD *hold = ts_take(client, name, mode, 30000);
    ts_waiter waiter = {.client = other, .name = name};
    waiter.options =
        (rowlock_acquire_options){.mode = mode, .wait_ms = -1, .cancel = signal_cancel};
    ts_waiter_start(&waiter);
    ts_pass_ms(200);
    int64_t fired = ts_now_ms();
    pthread_kill(waiter.thread, SIGUSR1);
    check_cancelled(&waiter, fired);
    sigaction(SIGUSR1, &before, NULL);
    rowlock_cancel_free(signal_cancel);
}

typedef struct worker {
    rowlock_client *client;
    const char *name;
    rowlock_mode mode;
    atomic_int *inside;
    uint64_t *last; /* the last token; protected by the lock alone */
    unsigned odd;
    rowlock_status status;
    pthread_t thread;
} worker;

static void *take_turns(void *arg)
{
    worker *w = arg;
    const rowlock_acquire_options options = {.mode = w->mode, .wait_ms = 60000};
    for (unsigned i = 0; i < ts_rounds(50) && w->status == ROWLOCK_OK; i++) {
        rowlock_hold *hold = NULL;
        w->status = rowlock_acquire(w->client, w->name, &options, &hold, NULL);
        if (w->status != ROWLOCK_OK)
            break;
        w->odd += atomic_fetch_add(w->inside, 1) != 0;
        w->odd += rowlock_hold_token(hold) <= *w->last;
        *w->last = rowlock_hold_token(hold);
        atomic_fetch_sub(w->inside, 1);
        w->status = rowlock_release(hold, NULL);
    }
    return NULL;
}

/* Threads of clients that queue, and of one that polls: at most one holder, and tokens rise. */
TS_BOTH(test_many_threads)
{
    TS_CLIENT *poller = ts_open_as((rowlock_client_options){.waiting = ROWLOCK_WAITING_POLL});
    rowlock_client *const clients[] = {client, other, client, other, poller, poller};
    enum { THREADS = sizeof clients / sizeof clients[0] };
    worker workers[THREADS];
    atomic_int inside = 0;
    uint64_t last = 0;
    const char *name = ts_name("threads");
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){
            .client = clients[i], .name = name, .mode = mode, .inside = &inside, .last = &last};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, take_turns, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        WANT(OK, workers[i].status);
        assert_int_equal(workers[i].odd, 0);
    }
}

TS_BOTH(test_a_name_keeps_its_kind)
{
    rowlock_mode wrong = mode == ROWLOCK_OPTIMISTIC ? ROWLOCK_PESSIMISTIC : ROWLOCK_OPTIMISTIC;
    const char *name = ts_name("kind");
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    char *before = ts_dump(mysql, ts_schema());
    WANT(MODE, ts_try(client, name, wrong));
    WANT(MODE, ts_try(other, name, wrong));
    assert_non_null(strstr(ts_err.message, name));
    if (mode == ROWLOCK_PESSIMISTIC) {
        uint64_t version = 0;
        unsigned calls = 0;
        WANT(MODE, rowlock_version_read(other, name, &version, &ts_err));
        WANT(MODE, rowlock_version_bump(other, name, 1, &version, &ts_err));
        WANT(MODE, rowlock_section_run(other, name, NULL, ts_no_work, &calls, NULL, &ts_err));
        assert_int_equal(calls, 0);
    }
    ts_same(before, ts_dump(mysql, ts_schema()));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(MODE, ts_try(other, name, wrong));
}

/* An INSERT is refused because of a row that no read sees yet; this takes as long as 200 ms here.
 */
TS_BOTH(test_another_commits_the_name)
{
    ts_sql(mysql, "CREATE TRIGGER committing BEFORE INSERT ON resource FOR EACH ROW"
                  " BEGIN"
                  " SET @first = COALESCE(@first, SYSDATE(6));"
                  " IF SYSDATE(6) < @first + INTERVAL 200000 MICROSECOND THEN"
                  " SIGNAL SQLSTATE '23000' SET MYSQL_ERRNO = 1062;"
                  " END IF;"
                  " SET @first = NULL;"
                  " END");
    WANT(OK, ts_try(client, ts_name("committing"), mode));
    ts_sql(mysql, "DROP TRIGGER committing");
}

static rowlock_hold *reenter(const char *name, rowlock_mode mode)
{
    return ts_take_with(
        client, name, (rowlock_acquire_options){.mode = mode, .wait_ms = 20000, .reentrant = true});
}

TS_BOTH(test_reentrance_counts)
{
    const char *name = ts_name("reenter");
    TS_HOLD *hold = reenter(name, mode);
    uint64_t token = rowlock_hold_token(hold);
    assert_ptr_equal(reenter(name, mode), hold);
    assert_ptr_equal(reenter(name, mode), hold);
    assert_int_equal(rowlock_hold_depth(hold), 3);
    assert_true(rowlock_hold_token(hold) == token);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_int_equal(rowlock_hold_depth(hold), 1);
    assert_held(hold);
    WANT(BUSY, ts_try(other, name, mode));
    WANT(BUSY, ts_try(client, name, mode)); /* this thread did not acquire it */
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_try(other, name, mode));
    /* It is released for good: the next acquire makes a new hold. */
    hold = reenter(name, mode);
    assert_int_equal(rowlock_hold_depth(hold), 1);
    assert_true(rowlock_hold_token(hold) > token);
}

TS_BOTH(test_reentrance_is_for_one_thread)
{
    const char *name = ts_name("reenter-thread");
    rowlock_hold *hold = reenter(name, mode);
    TS_WAITER waiter = {.client = client, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 10000, .reentrant = true};
    ts_waiter_start(&waiter);
    /* A second acquire by the first thread must not let the other one in either. */
    assert_ptr_equal(reenter(name, mode), hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    ts_pass_ms(100);
    assert_false(ts_waiter_ended(&waiter));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_waiter_join(&waiter, 10000));
    assert_int_equal(rowlock_hold_depth(waiter.hold), 1);
}

/* A hold that is lost is not handed out again as if it were good. */
TS_BOTH(test_a_lost_hold_is_not_reentered)
{
    const char *name = ts_name("reenter-lost");
    rowlock_acquire_options options = {
        .mode = mode, .wait_ms = 10000, .ttl_ms = TS_KEPT_TTL, .reentrant = true};
    rowlock_hold *hold = ts_take_with(client, name, options);
    WANT(OK, rowlock_break(other, name, "test", &ts_err));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    rowlock_hold *again = NULL;
    rowlock_status status = rowlock_acquire(client, name, &options, &again, &ts_err);
    if (status == ROWLOCK_OK) {
        assert_ptr_not_equal(again, hold);
        assert_held(again);
        WANT(OK, rowlock_release(again, &ts_err));
    } else {
        assert_int_equal(status, ROWLOCK_LOST);
    }
    WANT(LOST, rowlock_release(hold, &ts_err));
}

TS_ONCE(test_release_without_a_reply)
{
    const char *name = ts_name("no-reply");
    rowlock_client *closed = ts_open();
    for (int i = 0; i < 10; i++) {
        rowlock_hold *hold = ts_take(i % 2 ? closed : other, name, ROWLOCK_PESSIMISTIC, 30000);
        rowlock_release_options options = {.no_reply = true};
        WANT(OK, rowlock_release_with(hold, &options, &ts_err));
    }
    rowlock_client_close(closed);
    WANT(OK, rowlock_release(ts_take(other, name, ROWLOCK_PESSIMISTIC, 30000), &ts_err));
}

/* Also where a call may take less than the second after which the server ends a wait for a row. (A
 * procedure that is stopped then may have released it: UNKNOWN. A row lock is free by its COMMIT,
 * so its release is OK where the answer to the stop is late.) */
TS_BOTH(test_release_of_what_is_fenced)
{
    static const int limits_ms[] = {10000, 800};
    for (int i = 0; i < (ts_via() || mode == ROWLOCK_PESSIMISTIC ? 1 : 2); i++) {
        TS_CLIENT *own = ts_open_as(
            (rowlock_client_options){.connect_timeout_ms = limits_ms[i], .retry_ms = 20000});
        TS_MYSQL *transaction = ts_connect(ts_schema());
        rowlock_hold *hold = ts_take(own, ts_name("fenced"), mode, 30000);
        ts_sql(transaction, "BEGIN");
        if (limits_ms[i] > 1000)
            WANT(OK, rowlock_fence(hold, transaction, &ts_err));
        else
            assert_true(POLL_UNTIL(rowlock_fence(hold, transaction, &ts_err) == ROWLOCK_OK, 10000));
        const rowlock_status status = rowlock_release(hold, &ts_err);
        /* The outcome is open where the server answers the stop late, or the connection for it. */
        if (status != ROWLOCK_UNKNOWN || limits_ms[i] > 1000) {
            WANT(BUSY, status);
            assert_non_null(strstr(ts_err.message, "commit it before the release"));
        }
        ts_sql(transaction, "ROLLBACK");
    }
}

TS_MAIN("acquire", open_clients, close_clients)
