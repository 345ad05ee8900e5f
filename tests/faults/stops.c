/*
 * Somebody stops a statement of rowlock's (KILL QUERY): it has no effect, and the server is
 * available. Waiters go on waiting, and no call reports something that did not happen.
 */
#include "faults/through.h"

#define STOPPED  1317
#define AUTO_INC 1467 /* MariaDB's error when a wait for the auto-increment lock was stopped */

static void expect_said(const char *what)
{
    if (strstr(ts_err.message, what))
        return;
    fail_msg("'%s' is not in: %s", what, ts_err.message);
}

/* The connection of a waiter, or 0. */
static uint64_t who_waits(rowlock_mode mode)
{
    uint64_t id = 0;
    if (mode == ROWLOCK_PESSIMISTIC)
        return ts_row_waits(mysql, "resource_lock", 10000);
    (void)POLL_UNTIL((id = ts_sql_u64(mysql,
                                      "SELECT COALESCE(MAX(id), 0) FROM " TS_PROCESSLIST
                                      " WHERE db = '%s' AND state = 'User lock'",
                                      ts_schema())) > 0,
                     10000);
    return id;
}

/* Stops the waiter's statement, or its connection; each time it had waited for far longer than it
 * would bear an outage. */
TS_BOTH(test_a_wait_is_stopped)
{
    static const char *const what[] = {"QUERY", "CONNECTION"};
    int64_t outage_ms = 1000;
    TS_CLIENT *client = ts_open_as((rowlock_client_options){.reconnect_ms = outage_ms});
    for (int w = 0; w < 2; w++) {
        const char *name = ts_name(what[w]);
        rowlock_hold *hold = ts_take(direct, name, mode, 30000);
        ts_waiter waiter = ts_wait(client, name, mode, ROWLOCK_WAIT_FOREVER, 30000);
        for (int i = 0; i < 3; i++) {
            assert_true(who_waits(mode) > 0);
            ts_pass_ms(outage_ms * 3 / 2);
            uint64_t id = who_waits(mode);
            assert_true(id > 0);
            ts_sql(mysql, "KILL %s %" PRIu64, what[w], id);
        }
        ts_pass_ms(100);
        assert_false(ts_waiter_ended(&waiter));
        ts_hand_over(hold, &waiter, 10000);
    }
}

TS_BOTH(test_the_auto_increment_lock)
{
    rowlock_client_options options = through_options();
    const char *name = ts_name("new");
    options.no_history = false;
    TS_CLIENT *client = ts_open_with(options);
    ts_proxy_answer(proxy, AUTO_INC, "resource_create", 1);
    WANT(UNAVAILABLE, ts_try(client, name, mode));
    expect_said("was stopped by somebody");
    ts_proxy_answer(proxy, AUTO_INC, "resource_create", 1);
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
    ts_proxy_answer(proxy, AUTO_INC, "event_add_many", 1);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_client_flush(client, 20000, &ts_err));
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
    assert_int_equal(
        ts_sql_u64(mysql, "SELECT COUNT(*) FROM lock_event WHERE resource_name = '%s'", name), 2);
}

/* The server has carried out the ROLLBACK before: nothing is held any more. */
TS_ONCE(test_an_unfenced_release)
{
    const char *name = ts_name("unfenced");
    const rowlock_acquire_options how = {.mode = ROWLOCK_PESSIMISTIC, .unfenced = true};
    TS_CLIENT *client = through_open();
    for (int i = 0; i < 2; i++) {
        rowlock_hold *hold = ts_take_with(client, name, how);
        ts_proxy_answer(proxy, STOPPED, "row_commit", i);
        WANT(OK, rowlock_release(hold, &ts_err));
        assert_int_equal(ts_proxy_answers_left(proxy), 0);
        WANT(OK, ts_try(direct, name, ROWLOCK_PESSIMISTIC));
    }
}

TS_BOTH(test_a_fence)
{
    TS_CLIENT *client = through_open();
    TS_MYSQL *own = ts_proxy_connect(proxy);
    TS_HOLD *hold = ts_take(client, ts_name("fence"), mode, 30000);
    ts_sql(own, "START TRANSACTION");
    ts_proxy_answer(proxy, STOPPED, "caller_fence", 1);
    WANT(BUSY, rowlock_fence(hold, own, &ts_err));
    expect_said("was stopped by somebody");
    /* The question whether the transaction still exists is stopped twice, too. */
    ts_proxy_answer(proxy, STOPPED, NULL, 3);
    WANT(BUSY, rowlock_fence(hold, own, &ts_err));
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
    WANT(OK, rowlock_fence(hold, own, &ts_err));
    ts_sql(own, "COMMIT");
}

static rowlock_status add_one(void *data, const rowlock_section *section, MYSQL *own)
{
    unsigned *attempts = data;
    *attempts = section->attempt;
    ts_sql(own, "UPDATE added SET n = n + 1");
    return ROWLOCK_OK;
}

/* Stopped at the beginning, at the swap, or at the COMMIT: the work is done once. */
TS_ONCE(test_a_section_in_a_transaction)
{
    static const char *const statements[] = {"caller_begin", "caller_section_swap",
                                             "caller_commit"};
    TS_CLIENT *client = through_open();
    TS_MYSQL *own = ts_proxy_connect(proxy);
    ts_sql(mysql, "CREATE TABLE added (n INT NOT NULL) ENGINE = InnoDB");
    ts_sql(mysql, "INSERT INTO added VALUES (0)");
    for (unsigned i = 0; i < 3; i++) {
        rowlock_section_result result = {0};
        unsigned attempts = 0;
        /* A stop before the work does not count as an attempt. */
        const rowlock_section_options options = {.max_attempts = i == 0 ? 1 : 2};
        ts_proxy_answer(proxy, STOPPED, statements[i], 1);
        WANT(OK, rowlock_tx_section_run(client, own, "stops-section", &options, add_one, &attempts,
                                        &result, &ts_err));
        assert_int_equal(ts_proxy_answers_left(proxy), 0);
        assert_int_equal(ts_sql_u64(mysql, "SELECT n FROM added"), i + 1);
        assert_int_equal(result.attempts, attempts);
        assert_int_equal(attempts, i == 0 ? 1 : 2);
    }
}

TS_MAIN("stops", through_begin, through_end)
