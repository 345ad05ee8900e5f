/*
 * A statement of rowlock's is stopped by somebody (KILL QUERY): nothing has come of it, and the
 * server is there. Who waits goes on waiting, nobody is told of what was not.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults/through.h"
#include "rowlock/rowlock_mysql.h"

#define STOPPED  1317
#define AUTO_INC 1467 /* what MariaDB says when a wait for the auto-increment lock was stopped */

/* The caller's own connection, through the proxy. */
static MYSQL *open_own(void)
{
    MYSQL *own = mysql_init(NULL);
    assert_non_null(own);
    assert_non_null(
        mysql_real_connect(own, NULL, "root", NULL, ts_schema(), 0, ts_proxy_socket(proxy), 0));
    return own;
}

static void expect_said(const char *what)
{
    if (strstr(ts_err.message, what))
        return;
    print_error("'%s' is not in: %s\n", what, ts_err.message);
    fail();
}

/* --------------------------------------------------------------------------- the wait */

static uint64_t waits_on(void)
{
    char *ids = ts_lock_waits(mysql);
    const char *last = strrchr(ids, ',');
    uint64_t id = last ? strtoull(last + 1, NULL, 10) : 0;
    free(ids);
    return id;
}

/* Each time it was there and waited for far longer than it would bear an outage. */
static void stopped_while_it_waits(const char *what)
{
    const char *name = ts_name("stopped");
    int64_t outage_ms = 1000;
    rowlock_client_options options = ts_options();
    rowlock_client *client = NULL;
    options.reconnect_ms = outage_ms;
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    rowlock_hold *hold = ts_take(direct, name, ROWLOCK_PESSIMISTIC, 30000);
    ts_waiter waiter = {.client = client, .name = name};
    waiter.options = (rowlock_acquire_options){
        .mode = ROWLOCK_PESSIMISTIC, .wait_ms = ROWLOCK_WAIT_FOREVER, .ttl_ms = 30000};
    ts_waiter_start(&waiter);
    for (int i = 0; i < 3; i++) {
        assert_true(ts_server_waits(mysql, "%resource_lock%FOR UPDATE%", 10000));
        ts_pass_ms(outage_ms * 3 / 2);
        assert_true(POLL_UNTIL(waits_on() != 0, 10000));
        ts_sql(mysql, "KILL %s %" PRIu64, what, waits_on());
    }
    ts_pass_ms(100);
    assert_false(ts_waiter_ended(&waiter));
    ts_hand_over(hold, &waiter, 10000);
    rowlock_client_close(client);
}

static void test_a_wait_for_a_row_is_stopped(void **state)
{
    (void)state;
    stopped_while_it_waits("QUERY");
}

static void test_a_waiters_connection_is_ended(void **state)
{
    (void)state;
    stopped_while_it_waits("CONNECTION");
}

/* ------------------------------------------------------------- the auto-increment lock */

static void test_the_auto_increment_lock(void **state)
{
    rowlock_client_options options = through_options();
    rowlock_client *client = NULL;
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("new");
    options.no_history = false;
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    ts_proxy_answer(proxy, AUTO_INC, "INTO resource (", 1);
    WANT(UNAVAILABLE, ts_try(client, name, mode));
    expect_said("was stopped by somebody");
    ts_proxy_answer(proxy, AUTO_INC, "INTO resource (", 1);
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
    ts_proxy_answer(proxy, AUTO_INC, "INSERT INTO lock_event", 1);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_client_flush(client, 20000, &ts_err));
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
    assert_int_equal(
        ts_sql_u64(mysql, "SELECT COUNT(*) FROM lock_event WHERE resource_name = '%s'", name), 2);
    rowlock_client_close(client);
}

/* ---------------------------------------------------------------------------- release */

static void test_an_unfenced_release(void **state)
{
    const char *name = ts_name("unfenced");
    rowlock_client *client = through_open();
    rowlock_hold *hold = NULL;
    rowlock_acquire_options how = {.mode = ROWLOCK_PESSIMISTIC, .unfenced = true};
    (void)state;
    for (int i = 0; i < 2; i++) {
        WANT(OK, rowlock_acquire(client, name, &how, &hold, &ts_err));
        ts_proxy_answer(proxy, STOPPED, "COMMIT", i);
        WANT(OK, rowlock_release(hold, &ts_err));
        assert_int_equal(ts_proxy_answers_left(proxy), 0);
        WANT(OK, ts_try(direct, name, ROWLOCK_PESSIMISTIC));
    }
    rowlock_client_close(client);
}

/* --------------------------------------------------------- on the caller's connection */

static void test_a_fence(void **state)
{
    rowlock_mode mode = ts_mode(state);
    rowlock_client *client = through_open();
    MYSQL *own = open_own();
    rowlock_hold *hold = ts_take(client, ts_name("fence"), mode, 30000);
    ts_sql(own, "START TRANSACTION");
    ts_proxy_answer(proxy, STOPPED, "fence_count = fence_count + 1", 1);
    WANT(BUSY, rowlock_fence(hold, own, &ts_err));
    expect_said("was stopped by somebody");
    /* And so is, twice, the question whether the transaction is still there. */
    ts_proxy_answer(proxy, STOPPED, "", 3);
    WANT(BUSY, rowlock_fence(hold, own, &ts_err));
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
    WANT(OK, rowlock_fence(hold, own, &ts_err));
    ts_sql(own, "COMMIT");
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
    mysql_close(own);
}

static rowlock_status add_one(void *data, const rowlock_section *section, MYSQL *own)
{
    unsigned *attempts = data;
    *attempts = section->attempt;
    ts_sql(own, "UPDATE added SET n = n + 1");
    return ROWLOCK_OK;
}

/* At its beginning, at the swap, at the COMMIT: the work is done once. */
static void test_a_section_in_a_transaction(void **state)
{
    static const char *const statements[] = {"START TRANSACTION", "SET version = version + 1",
                                             "COMMIT"};
    rowlock_client *client = through_open();
    MYSQL *own = open_own();
    (void)state;
    ts_sql(mysql, "CREATE TABLE added (n INT NOT NULL) ENGINE = InnoDB");
    ts_sql(mysql, "INSERT INTO added VALUES (0)");
    for (unsigned i = 0; i < 3; i++) {
        rowlock_section_result result = {0};
        unsigned attempts = 0;
        /* Before the work no attempt was made, and none is used up. */
        const rowlock_section_options options = {.max_attempts = i == 0 ? 1 : 2};
        ts_proxy_answer(proxy, STOPPED, statements[i], 1);
        WANT(OK, rowlock_tx_section_run(client, own, "stops-section", &options, add_one, &attempts,
                                        &result, &ts_err));
        assert_int_equal(ts_proxy_answers_left(proxy), 0);
        assert_int_equal(ts_sql_u64(mysql, "SELECT n FROM added"), i + 1);
        assert_int_equal(result.attempts, attempts);
        assert_int_equal(attempts, i == 0 ? 1 : 2);
    }
    rowlock_client_close(client);
    mysql_close(own);
}

/* ----------------------------------------------------------------------- the doctor */

static void note_finding(void *data, const rowlock_finding *finding)
{
    char *all = data;
    size_t at = strlen(all);
    snprintf(all + at, 2000 - at, "%s: %d\n", finding->check, (int)finding->level);
}

/* Stopped once, it asks again and finds what it would have found; stopped again and again, it finds
 * nothing wrong with the server. */
static void test_a_look_at_the_server(void **state)
{
    static const char *const statements[] = {"rowlock_schema_version", "information_schema.tables",
                                             "GET_LOCK", "innodb_trx", "metadata lock"};
    rowlock_client_options options = through_options();
    char quiet[2000] = "";
    (void)state;
    WANT(OK, rowlock_diagnose(&options, 0, note_finding, quiet, &ts_err));
    for (size_t i = 0; i < sizeof statements / sizeof statements[0]; i++) {
        char found[2000] = "";
        ts_proxy_answer(proxy, STOPPED, statements[i], 2);
        WANT(OK, rowlock_diagnose(&options, 0, note_finding, found, &ts_err));
        assert_int_equal(ts_proxy_answers_left(proxy), 0);
        assert_string_equal(found, quiet);
        found[0] = '\0';
        ts_proxy_answer(proxy, STOPPED, statements[i], 1000000);
        WANT(UNAVAILABLE, rowlock_diagnose(&options, 0, note_finding, found, &ts_err));
        ts_proxy_answer(proxy, 0, "", 0);
        assert_memory_equal(found, quiet, strlen(found));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONCE(test_a_wait_for_a_row_is_stopped),
        ONCE(test_a_waiters_connection_is_ended),
        BOTH(test_the_auto_increment_lock),
        ONCE(test_an_unfenced_release),
        BOTH(test_a_fence),
        ONCE(test_a_section_in_a_transaction),
        ONCE(test_a_look_at_the_server),
    };
    return cmocka_run_group_tests_name("stops", tests, through_begin, through_end);
}
