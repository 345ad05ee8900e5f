/*
 * A server that refuses: no connection is left, rows are locked by others for longer than it waits,
 * statements end with a deadlock (1213) or because of a change since the snapshot (1020). Each is
 * answered clearly and on time; when it is over, everything goes on.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults/through.h"
#include "rowlock/rowlock_mysql.h"
#include "support/own_server.h"

#define PASSWORD "refusals"
#define ALL      "SELECT, INSERT, UPDATE, DELETE"

static rowlock_status open_as(const char *user, rowlock_client **client)
{
    rowlock_client_options options = ts_options();
    options.user = user;
    options.password = PASSWORD;
    options.reconnect_ms = 20000;
    return rowlock_client_open(&options, client, &ts_err);
}

/* ------------------------------------------------------------------- max_connections */

enum { HOGS = 40 };

static MYSQL *hogs[HOGS];

/* From now on nobody gets a connection; who has one keeps it. */
static void fill(const char *user)
{
    for (int i = 0; i < HOGS; i++)
        hogs[i] = ts_connect_as(user, PASSWORD, NULL);
    ts_sql(mysql, "SET GLOBAL max_connections = 10");
}

static void empty(void)
{
    ts_sql(mysql, "SET GLOBAL max_connections = 500");
    for (int i = 0; i < HOGS; i++)
        mysql_close(hogs[i]);
}

static void test_no_connection_is_left(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("full");
    const char *user = ts_user(mode ? "holdp" : "holdl", PASSWORD, ALL, ts_schema());
    const char *hog = ts_user(mode ? "hogp" : "hogl", PASSWORD, ALL, ts_schema());
    rowlock_client *holder = NULL;
    rowlock_client *waiting = NULL;
    rowlock_client *none = NULL;
    WANT(OK, open_as(user, &holder));
    WANT(OK, open_as(hog, &waiting));
    rowlock_hold *hold = ts_take(holder, name, mode, TS_KEPT_TTL);
    uint64_t token = rowlock_hold_token(hold);
    ts_waiter waiter = {.client = waiting, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 60000, .ttl_ms = 30000};
    ts_waiter_start(&waiter);
    ts_pass_ms(300);
    fill(hog);
    int64_t start = ts_now_ms();
    WANT(UNAVAILABLE, open_as(user, &none));
    assert_int_equal(ts_err.server_errno, 1040);
    assert_between(0, ts_now_ms() - start, 5000 + ts_slack_ms());
    /* Who has his connections does not notice. */
    for (int64_t until = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < until; ts_pass_ms(20))
        assert_held(hold);
    assert_false(ts_waiter_ended(&waiter));
    /* Without them, a lease cannot be renewed: told in time, as a row lock is. */
    kill_all_of(user, "CONNECTION");
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    /* In the moment of its deadline, that nobody could be asked is right, too. */
    rowlock_status status = rowlock_release(hold, &ts_err);
    assert_true(status == ROWLOCK_LOST || status == ROWLOCK_UNAVAILABLE);
    /* A call that may wait waits for a connection, too. */
    ts_waiter patient = {.client = holder, .name = ts_name("full-other")};
    patient.options = waiter.options;
    ts_waiter_start(&patient);
    ts_pass_ms(500);
    assert_false(ts_waiter_ended(&patient));
    empty();
    WANT(OK, ts_waiter_join(&patient, 20000));
    WANT(OK, rowlock_release(patient.hold, &ts_err));
    WANT(OK, ts_waiter_join(&waiter, 20000));
    assert_true(rowlock_hold_token(waiter.hold) > token);
    WANT(BUSY, ts_try(holder, name, mode));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    rowlock_client_close(holder);
    rowlock_client_close(waiting);
}

/* ------------------------------------------------------------------ lock wait timeout */

/* The server is patient for a second; who waits here is for longer. */
static void test_a_wait_beyond_the_servers_patience(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("patience");
    ts_sql(mysql, "SET GLOBAL innodb_lock_wait_timeout = 1");
    rowlock_client *waiting = ts_open();
    rowlock_hold *hold = ts_take(direct, name, mode, 30000);
    ts_waiter waiter = {.client = waiting, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 60000, .ttl_ms = 30000};
    ts_waiter_start(&waiter);
    ts_pass_ms(2500);
    assert_false(ts_waiter_ended(&waiter));
    ts_hand_over(hold, &waiter, 10000);
    rowlock_client_close(waiting);
    ts_sql(mysql, "SET GLOBAL innodb_lock_wait_timeout = 50");
}

/* Somebody's own transaction has the row of a free lock locked, for longer than anybody waits. */
static void test_the_row_is_locked_by_a_stranger(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("stranger");
    MYSQL *stranger = ts_connect(ts_schema());
    ts_sql(mysql, "SET GLOBAL innodb_lock_wait_timeout = 1");
    rowlock_client *client = ts_open();
    WANT(OK, ts_try(client, name, mode));
    uint64_t token = version_of(name);
    ts_sql(stranger, "START TRANSACTION");
    ts_sql(stranger, "SELECT 1 FROM resource WHERE resource_name = '%s' FOR UPDATE", name);
    rowlock_acquire_options how = {.mode = mode, .wait_ms = 1700, .ttl_ms = 30000};
    rowlock_hold *hold = NULL;
    int64_t stood = ts_stood_ms();
    int64_t start = ts_now_ms();
    rowlock_status status = rowlock_acquire(client, name, &how, &hold, &ts_err);
    if (status != ROWLOCK_BUSY)
        WANT_TIMEOUT(mode, stood, status);
    assert_between(1690, ts_now_ms() - start, 1700 + 5000 + ts_slack_ms());
    assert_int_equal(version_of(name), token);
    how.wait_ms = 60000;
    ts_waiter waiter = {.client = client, .name = name, .options = how};
    ts_waiter_start(&waiter);
    ts_pass_ms(2500); /* two time-outs of the server's */
    assert_false(ts_waiter_ended(&waiter));
    ts_sql(stranger, "ROLLBACK");
    WANT(OK, ts_waiter_join(&waiter, 10000));
    assert_true(rowlock_hold_token(waiter.hold) > token);
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    rowlock_client_close(client);
    mysql_close(stranger);
    ts_sql(mysql, "SET GLOBAL innodb_lock_wait_timeout = 50");
}

/* A stranger has the renewal's row locked for longer than the TTL: the keeper does not hang, the
 * holder is told before anybody else can have it. */
static void test_the_renewal_is_locked_by_a_stranger(void **state)
{
    const char *name = ts_name("renewal");
    MYSQL *stranger = ts_connect(ts_schema());
    rowlock_client *client = ts_open();
    rowlock_client *waiting = ts_open();
    (void)state;
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 1500);
    uint64_t token = rowlock_hold_token(hold);
    ts_sql(stranger, "START TRANSACTION");
    ts_sql(stranger,
           "SELECT 1 FROM lease_renewal l JOIN resource r ON r.id = l.id"
           " WHERE r.resource_name = '%s' FOR UPDATE",
           name);
    ts_waiter waiter = {.client = waiting, .name = name};
    waiter.options = (rowlock_acquire_options){.wait_ms = 60000, .ttl_ms = 30000};
    ts_waiter_start(&waiter);
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    assert_false(ts_waiter_ended(&waiter)); /* it writes that row, too */
    ts_sql(stranger, "ROLLBACK");
    WANT(OK, ts_waiter_join(&waiter, 10000));
    assert_true(rowlock_hold_token(waiter.hold) > token);
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    rowlock_client_close(client);
    rowlock_client_close(waiting);
    mysql_close(stranger);
}

/* ---------------------------------------------------------------- errors that are made */

static const unsigned numbers[] = {1205, 1213, 1020};

/* Each statement of an acquire that can meet a lock. */
static const char *const of_an_acquire[2][2] = {
    {"lease_expires_at = UTC_TIMESTAMP(6) + INTERVAL", NULL},
    {"FOR UPDATE", "SET version = LAST_INSERT_ID(version + 1)"},
};

/* Who may wait tries again; who may not is told, and nothing has changed. */
static void forced_at_an_acquire(rowlock_client *client, rowlock_mode mode, unsigned number,
                                 const char *statement)
{
    const char *name = ts_name("forced");
    WANT(OK, ts_try(client, name, mode));
    /* Each statement once: the server has to have seen the types of its parameters. */
    WANT(OK, rowlock_release(ts_take(client, name, mode, 30000), &ts_err));
    uint64_t token = version_of(name);
    ts_proxy_answer(proxy, number, statement, 3);
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
    assert_true(rowlock_hold_token(hold) > token);
    WANT(BUSY, ts_try(direct, name, mode));
    WANT(OK, rowlock_release(hold, &ts_err));
    token = version_of(name);
    ts_proxy_answer(proxy, number, statement, 1000000);
    int64_t start = ts_now_ms();
    rowlock_status status = ts_try(client, name, mode);
    ts_proxy_answer(proxy, 0, "", 0);
    print_message("# %s, %u at '%s': a try says %s\n", ts_mode_word(mode), number, statement,
                  rowlock_status_name(status));
    assert_true(status == ROWLOCK_BUSY || status == ROWLOCK_DEADLOCK);
    assert_between(0, ts_now_ms() - start, 5000 + ts_slack_ms());
    assert_int_equal(version_of(name), token);
    next_one_gets_in(name, mode, &token);
}

static void test_forced_at_an_acquire(void **state)
{
    rowlock_mode mode = ts_mode(state);
    rowlock_client *client = through_open();
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        for (int s = 0; s < 2; s++)
            if (of_an_acquire[mode][s])
                forced_at_an_acquire(client, mode, numbers[i], of_an_acquire[mode][s]);
    rowlock_client_close(client);
}

/* A release tries again, or says why not; then it ends with the TTL, or the connection. */
static void test_forced_at_a_release(void **state)
{
    rowlock_mode mode = ts_mode(state);
    rowlock_client *client = through_open();
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        const char *name = ts_name("forced-release");
        WANT(OK, ts_try(client, name, mode));
        rowlock_hold *hold = ts_take(client, name, mode, TS_KEPT_TTL);
        uint64_t token = rowlock_hold_token(hold);
        ts_proxy_answer(proxy, numbers[i], "SET status = 'free'", 2);
        rowlock_status status = rowlock_release(hold, &ts_err);
        ts_proxy_answer(proxy, 0, "", 0);
        print_message("# %s, %u: a release says %s\n", ts_mode_word(mode), numbers[i],
                      rowlock_status_name(status));
        assert_true(status == ROWLOCK_OK || status == ROWLOCK_BUSY || status == ROWLOCK_DEADLOCK);
        rowlock_hold *next = ts_take(direct, name, mode, TS_KEPT_TTL); /* waits for 20 s */
        assert_true(rowlock_hold_token(next) > token);
        WANT(OK, rowlock_release(next, &ts_err));
    }
    rowlock_client_close(client);
}

/* Renewals that fail are made again in time. */
static void test_forced_at_a_renewal(void **state)
{
    rowlock_client *client = through_open();
    (void)state;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        rowlock_hold *hold =
            ts_take(client, ts_name("forced-renewal"), ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
        ts_proxy_answer(proxy, numbers[i], "UPDATE JSON_TABLE", 2);
        assert_true(POLL_UNTIL(ts_proxy_answers_left(proxy) == 0, 10000));
        for (int64_t until = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < until; ts_pass_ms(20))
            assert_held(hold);
        WANT(OK, rowlock_release(hold, &ts_err));
    }
    rowlock_client_close(client);
}

#define PROBE "SET @rowlock = IF"

/* A KILL QUERY, a time limit or a quota may meet the question whether the server is still to be
 * written to: no word of that, nor of the row lock, which its holder keeps. */
static void test_stopped_probes(void **state)
{
    const unsigned stopped[] = {1317, 1969, 3024, 1226};
    rowlock_client *client = through_open();
    (void)state;
    for (size_t i = 0; i < sizeof stopped / sizeof stopped[0]; i++) {
        rowlock_hold *hold = ts_take(client, ts_name("stopped"), ROWLOCK_PESSIMISTIC, TS_KEPT_TTL);
        ts_proxy_answer(proxy, stopped[i], PROBE, 3);
        for (int64_t until = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < until; ts_pass_ms(20))
            assert_held(hold);
        assert_int_equal(ts_proxy_answers_left(proxy), 0);
        WANT(OK, rowlock_release(hold, &ts_err));
    }
    rowlock_client_close(client);
}

/* Never answered, it is no proof. */
static void test_probes_are_always_stopped(void **state)
{
    rowlock_client *client = through_open();
    (void)state;
    rowlock_hold *hold = ts_take(client, ts_name("stopped-always"), ROWLOCK_PESSIMISTIC, 2000);
    ts_proxy_answer(proxy, 1317, PROBE, 1000000);
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    ts_proxy_answer(proxy, 0, "", 0);
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_non_null(strstr(ts_err.message, "did not answer a ping in time"));
    rowlock_client_close(client);
}

static uint64_t kills_sent(void)
{
    return ts_sql_u64(mysql, "SELECT variable_value FROM information_schema.global_status"
                             " WHERE variable_name = 'Com_kill'");
}

/* A hold whose probe has been answered so; the reply is still on its way. */
static rowlock_hold *take_behind_a_probe(rowlock_client *client, const char *name, unsigned answer)
{
    WANT(OK, ts_try(client, name, ROWLOCK_PESSIMISTIC));
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_PESSIMISTIC, TS_KEPT_TTL);
    ts_proxy_delay(proxy, 0, 500);
    ts_proxy_answer(proxy, answer, PROBE, 1);
    assert_true(POLL_UNTIL(ts_proxy_answers_left(proxy) == 0, 10000));
    ts_proxy_delay(proxy, 0, 0);
    return hold;
}

/* It is given back on the connection that has it, which is not taken for broken (and its remains at
 * the server ended by KILL). */
static void test_a_release_behind_a_stopped_probe(void **state)
{
    const char *name = ts_name("stopped-release");
    rowlock_client *client = through_open();
    (void)state;
    rowlock_hold *hold = take_behind_a_probe(client, name, 1317);
    uint64_t sent = kills_sent();
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_int_equal(kills_sent(), sent);
    WANT(OK, ts_try(direct, name, ROWLOCK_PESSIMISTIC));
    rowlock_client_close(client);
}

/* 1242: the server is not the primary any more. */
static void test_a_release_behind_a_probe_that_says_no(void **state)
{
    rowlock_client *client = through_open();
    (void)state;
    rowlock_hold *hold = take_behind_a_probe(client, ts_name("demoted-release"), 1242);
    WANT(LOST, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
}

/* --------------------------------------------------------------------- 1020, in earnest */

/* Under REPEATABLE READ the caller's snapshot is older than the lock: MariaDB with
 * innodb_snapshot_isolation ends the transaction. Said as a deadlock is; the next try works. */
static void test_a_fence_behind_its_snapshot(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("snapshot");
    if (ts_sql_try(mysql, "SET GLOBAL innodb_snapshot_isolation = ON") != 0) {
        print_message("# no innodb_snapshot_isolation here\n");
        skip();
    }
    MYSQL *work = ts_connect(ts_schema());
    rowlock_client *client = ts_open();
    ts_sql(work, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    ts_sql(work, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    WANT(DEADLOCK, rowlock_fence(hold, work, &ts_err));
    assert_int_equal(ts_err.server_errno, 1020);
    assert_held(hold);
    ts_sql(work, "ROLLBACK");
    ts_sql(work, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
    WANT(OK, rowlock_fence(hold, work, &ts_err));
    ts_sql(work, "COMMIT");
    WANT(OK, rowlock_release(hold, &ts_err));
    /* rowlock's own connections read what is committed: to them it is all the same. */
    for (int i = 0; i < 5; i++)
        WANT(OK, ts_try(i % 2 ? client : direct, name, mode));
    ts_sql(mysql, "SET GLOBAL innodb_snapshot_isolation = OFF");
    rowlock_client_close(client);
    mysql_close(work);
}

static int begin(void **state)
{
    ts_own_start();
    return through_begin(state);
}

static int end(void **state)
{
    through_end(state);
    ts_own_remove();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_no_connection_is_left),
        BOTH(test_a_wait_beyond_the_servers_patience),
        BOTH(test_the_row_is_locked_by_a_stranger),
        ONCE(test_the_renewal_is_locked_by_a_stranger),
        BOTH(test_forced_at_an_acquire),
        BOTH(test_forced_at_a_release),
        ONCE(test_forced_at_a_renewal),
        ONCE(test_stopped_probes),
        ONCE(test_probes_are_always_stopped),
        ONCE(test_a_release_behind_a_stopped_probe),
        ONCE(test_a_release_behind_a_probe_that_says_no),
        BOTH(test_a_fence_behind_its_snapshot),
    };
    return cmocka_run_group_tests_name("refusals", tests, begin, end);
}
