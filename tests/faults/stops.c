/*
 * Somebody stops a statement of rowlock's (KILL QUERY): it has no effect, and the server is
 * available. Waiters go on waiting, and no call reports something that did not happen.
 */
#include "faults/through.h"
#include "rowlock/rowlock_barrier.h"

#define AUTO_INC       1467 /* MariaDB's error when a wait for the auto-increment lock was stopped */
#define SEVERAL_TABLES 1105 /* MySQL's when an UPDATE of several tables was */

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

/* The subquery that locks the table of freezes gives NULL then. */
TS_BOTH(test_a_name_that_is_made)
{
    TS_CLIENT *client = through_open();
    ts_proxy_answer(proxy, NOT_NULL, "resource_create", 1);
    WANT(OK, ts_try(client, ts_name("made"), mode));
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
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

/* ---------------------------------------------------------------- the server has bells all the
 * same */

static void waits_in_line(rowlock_client *client)
{
    const char *name = ts_name("line");
    rowlock_hold *hold = ts_take(direct, name, ROWLOCK_OPTIMISTIC, 30000);
    ts_waiter waiter = ts_wait(client, name, ROWLOCK_OPTIMISTIC, ROWLOCK_WAIT_FOREVER, 30000);
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == 1, 10000));
    ts_hand_over(hold, &waiter, 10000);
}

/* MySQL may say so with a number that refuses bells elsewhere. */
TS_ONCE(test_a_set_is_stopped)
{
    const char *names[] = {ts_name("set-a"), ts_name("set-b")};
    const rowlock_acquire_options options = {.wait_ms = 20000, .ttl_ms = 30000};
    TS_CLIENT *client = through_open();
    for (unsigned i = 0; i < 2; i++) {
        rowlock_hold *hold = NULL;
        ts_proxy_answer(proxy, SEVERAL_TABLES, "set_take", i);
        (void)!rowlock_acquire_set(client, names, 2, &options, &hold, &ts_err);
        assert_int_equal(ts_proxy_answers_left(proxy), 0);
        if (hold)
            WANT(OK, rowlock_release(hold, &ts_err));
    }
    waits_in_line(client);
}

/* `rowlock init` installs one anew: for a moment it is not there, or nobody may call it. */
TS_ONCE(test_a_procedure_that_is_not_there)
{
    static const unsigned numbers[] = {1305, 1370};
    rowlock_client_options options = through_options();
    ts_proxy_flow(proxy);
    WANT(OK, rowlock_procedures_install(&options, NULL, NULL, &ts_err));
    options.via = ROWLOCK_VIA_PROCEDURES;
    TS_CLIENT *client = ts_open_with(options);
    for (int i = 0; i < 2; i++) {
        const char *name = ts_name("procedure");
        WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
        ts_proxy_answer(proxy, numbers[i], "lease_acquire", 1);
        (void)!ts_try(client, name, ROWLOCK_OPTIMISTIC);
        assert_int_equal(ts_proxy_answers_left(proxy), 0);
        waits_in_line(client);
    }
}

/* ---------------- MariaDB 11.8 may say OK to it, and that it has matched nothing */

static void matches_nothing(const char *statements)
{
    ts_proxy_answer(proxy, 0, statements, 1);
}

static void released(rowlock_hold *hold)
{
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
}

TS_BOTH(test_a_release_that_matches_nothing)
{
    const char *name = ts_name("nothing");
    TS_CLIENT *client = through_open();
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    matches_nothing(mode == ROWLOCK_OPTIMISTIC ? "lease_release lease_release_apart"
                                               : "row_unpublish");
    released(hold);
    WANT(OK, ts_try(direct, name, mode));
}

/* It has waited in the queue, and is the last: there is nobody to hand over to. */
TS_ONCE(test_a_last_release_that_matches_nothing)
{
    const char *name = ts_name("last");
    TS_CLIENT *client = through_open();
    rowlock_hold *hold = ts_take(direct, name, ROWLOCK_OPTIMISTIC, 30000);
    ts_commits_slowly(client);
    ts_waiter waiter = ts_wait(client, name, ROWLOCK_OPTIMISTIC, 60000, 30000);
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == 1, 10000));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_waiter_join(&waiter, 20000));
    matches_nothing("lease_release_apart");
    released(waiter.hold);
    WANT(OK, ts_try(direct, name, ROWLOCK_OPTIMISTIC));
}

TS_ONCE(test_a_member_that_matches_nothing)
{
    TS_CLIENT *client = through_open();
    rowlock_hold *member = NULL;
    WANT(OK, rowlock_barrier_enter(client, ts_name("member"), 1, NULL, &member, &ts_err));
    matches_nothing("barrier_quit");
    released(member);
}

TS_ONCE(test_a_downgrade_that_matches_nothing)
{
    static const char *const steps[] = {"shared_join", "shared_begin"};
    TS_CLIENT *client = through_open();
    for (int i = 0; i < 2; i++) {
        TS_HOLD *hold = ts_take(client, ts_name(steps[i]), ROWLOCK_OPTIMISTIC, 30000);
        matches_nothing(steps[i]);
        WANT(OK, rowlock_hold_downgrade(hold, &ts_err));
        assert_int_equal(ts_proxy_answers_left(proxy), 0);
        assert_held(hold);
    }
}

TS_ONCE(test_a_registration_that_matches_nothing)
{
    TS_CLIENT *client = through_open();
    TS_MYSQL *own = ts_proxy_connect(proxy);
    TS_HOLD *hold = ts_take(client, ts_name("registered"), ROWLOCK_OPTIMISTIC, 30000);
    matches_nothing("guard_add");
    WANT(OK, rowlock_hold_guard(hold, own, &ts_err));
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
}

TS_MAIN("stops", through_begin, through_end)
