/*
 * Wall clocks that are put forward and back by an hour while locks are held: the server's, and a
 * client's. A library that stands before the C library's clocks does it (libfaketime), for one
 * process alone; what they count time with otherwise goes on undisturbed, as it does when a real
 * clock is stepped. Skipped where that library is not installed.
 */
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "faults/process.h"
#include "faults/through.h"
#include "rowlock/rowlock_mysql.h"
#include "support/own_server.h"

static char library[300]; /* "": there is none */
static char folder[] = "/tmp/rowlock-clock.XXXXXX";
static char server_clock[60];
static char client_clock[60];

/* ------------------------------------------------------------------------- the clocks */

static void find_library(void)
{
    glob_t found = {0};
    if (glob("/usr/lib/*/faketime/libfaketimeMT.so.1", 0, NULL, &found) == 0)
        snprintf(library, sizeof library, "%s", found.gl_pathv[0]);
    globfree(&found);
}

/* Never half written: it is read at each look at the clock. */
static void set_clock(const char *clock, int seconds)
{
    char fresh[80];
    snprintf(fresh, sizeof fresh, "%s.new", clock);
    FILE *out = fopen(fresh, "w");
    assert_non_null(out);
    fprintf(out, "%+d\n", seconds);
    assert_int_equal(fchmod(fileno(out), 0644), 0); /* the server is another user */
    assert_int_equal(fclose(out), 0);
    assert_int_equal(rename(fresh, clock), 0);
}

/* What is started until wear_off() has this clock. */
static void wear(const char *clock)
{
    setenv("FAKETIME_TIMESTAMP_FILE", clock, 1);
    setenv("FAKETIME_NO_CACHE", "1", 1);
    setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1);
    setenv("LD_PRELOAD", library, 1);
}

static void wear_off(void)
{
    unsetenv("LD_PRELOAD");
    unsetenv("FAKETIME_TIMESTAMP_FILE");
    unsetenv("FAKETIME_NO_CACHE");
    unsetenv("FAKETIME_DONT_FAKE_MONOTONIC");
}

static int64_t servers_offset_s(void)
{
    int64_t servers = (int64_t)ts_sql_u64(mysql, "SELECT UNIX_TIMESTAMP()");
    return servers - (int64_t)time(NULL);
}

/* And it is seen to have moved. */
static void step_server(int seconds)
{
    set_clock(server_clock, seconds);
    assert_between(seconds - 5, servers_offset_s(), seconds + 5);
}

static void skip_without_library(void)
{
    if (*library)
        return;
    print_message("# no libfaketime here\n");
    skip();
}

static int begin(void **state)
{
    find_library();
    if (!*library)
        return 0;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0755), 0);
    snprintf(server_clock, sizeof server_clock, "%s/server", folder);
    snprintf(client_clock, sizeof client_clock, "%s/client", folder);
    set_clock(server_clock, 0);
    set_clock(client_clock, 0);
    wear(server_clock);
    ts_own_start();
    wear_off();
    through_begin(state);
    ts_guard_tables(mysql);
    return 0;
}

static int end(void **state)
{
    if (!*library)
        return 0;
    through_end(state);
    ts_own_remove();
    unlink(server_clock);
    unlink(client_clock);
    rmdir(folder);
    return 0;
}

static int clock_is_right(void **state)
{
    (void)state;
    if (*library) {
        set_clock(server_clock, 0);
        set_clock(client_clock, 0);
    }
    return 0;
}

/* ----------------------------------------------------------------- the server's, forward */

static void expect_kept(rowlock_hold *hold, int64_t ms)
{
    for (int64_t until = ts_now_ms() + ms; ts_now_ms() < until; ts_pass_ms(20)) {
        assert_held(hold);
        WANT(BUSY, ts_try(direct, rowlock_hold_name(hold), rowlock_hold_mode(hold)));
    }
}

/* A lease ends early (docs/guarantees.md, 4). Nobody's fault; but the token has risen, the fence
 * refuses, and the holder hears of it at its next renewal. */
static void test_the_servers_clock_goes_forward_lease(void **state)
{
    const char *name = ts_name("forward");
    (void)state;
    skip_without_library();
    rowlock_client *holder = ts_open();
    MYSQL *work = ts_connect(ts_schema());
    rowlock_hold *hold = ts_take(holder, name, ROWLOCK_OPTIMISTIC, 24000);
    uint64_t token = rowlock_hold_token(hold);
    WANT(BUSY, ts_try(direct, name, ROWLOCK_OPTIMISTIC));
    step_server(3600);
    rowlock_hold *next = ts_take(direct, name, ROWLOCK_OPTIMISTIC, 24000);
    assert_true(rowlock_hold_token(next) > token);
    ts_sql(work, "START TRANSACTION");
    WANT(LOST, rowlock_fence(hold, work, &ts_err));
    ts_sql(work, "ROLLBACK");
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 8000 + 10000));
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_held(next);
    ts_sql(work, "START TRANSACTION");
    WANT(OK, rowlock_fence(next, work, &ts_err));
    ts_sql(work, "COMMIT");
    WANT(OK, rowlock_release(next, &ts_err));
    mysql_close(work);
    rowlock_client_close(holder);
}

/* A row lock does not depend on the clock. */
static void test_the_servers_clock_goes_forward_row_lock(void **state)
{
    const char *name = ts_name("forward-row");
    (void)state;
    skip_without_library();
    rowlock_client *holder = ts_open();
    rowlock_hold *hold = ts_take(holder, name, ROWLOCK_PESSIMISTIC, TS_KEPT_TTL);
    uint64_t token = rowlock_hold_token(hold);
    step_server(3600);
    expect_kept(hold, TS_KEPT_FOR);
    WANT(OK, rowlock_release(hold, &ts_err));
    next_one_gets_in(name, ROWLOCK_PESSIMISTIC, &token);
    rowlock_client_close(holder);
}

/* -------------------------------------------------------------------- the server's, back */

/* Kept, and with a deadline that is never farther away than its TTL. */
static void test_the_servers_clock_goes_back(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("back");
    skip_without_library();
    rowlock_client *holder = ts_open();
    rowlock_hold *hold = ts_take(holder, name, mode, TS_KEPT_TTL);
    uint64_t token = rowlock_hold_token(hold);
    step_server(-3600);
    for (int64_t until = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < until; ts_pass_ms(20)) {
        assert_held(hold);
        WANT(BUSY, ts_try(direct, name, mode));
        assert_between(1, rowlock_hold_remaining_ms(hold), TS_KEPT_TTL);
    }
    WANT(OK, rowlock_release(hold, &ts_err));
    next_one_gets_in(name, mode, &token);
    /* And forward again, from what was written in the past. */
    step_server(0);
    next_one_gets_in(name, mode, &token);
    rowlock_client_close(holder);
}

/* A holder that dies when the clock has gone back leaves its lease behind for longer than its
 * TTL, as docs/guarantees.md says; break frees it. A row lock is free at once. */
static void test_a_holder_dies_when_the_clock_has_gone_back(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("back-dead");
    skip_without_library();
    ts_sql(mysql, "INSERT INTO guard (name) VALUES ('%s')", name);
    process a = process_start(name, mode, 1000, "hold");
    uint64_t token = process_expect_token(&a, 10000);
    step_server(-3600);
    process_bury(&a);
    if (mode == ROWLOCK_OPTIMISTIC) {
        ts_pass_ms(2500);
        WANT(BUSY, ts_try(direct, name, mode));
        rowlock_list *list = NULL;
        WANT(OK, rowlock_list_one(direct, name, &list, &ts_err));
        assert_between(3000000, rowlock_list_at(list, 0)->remaining_ms, 3700000);
        rowlock_list_free(list);
        WANT(OK, rowlock_break(direct, name, "the clock was put back", &ts_err));
        WANT(OK, ts_try(direct, name, mode));
    }
    next_one_gets_in(name, mode, &token);
}

/* ------------------------------------------------------------------- those who wait */

/* They hold whole hours of patience, and need none of it. */
static void test_waiters_while_the_servers_clock_steps(void **state)
{
    static const int steps[] = {3600, -3600, 0};
    enum { WAITERS = 3 };
    rowlock_mode mode = ts_mode(state);
    skip_without_library();
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const char *name = ts_name("waiters");
        /* No waiter is to take it for expired: row locks do not expire, nor does this lease. */
        rowlock_hold *hold = ts_take(direct, name, mode, mode ? 30000 : 7200000);
        uint64_t token = rowlock_hold_token(hold);
        ts_waiter waiters[WAITERS];
        for (int w = 0; w < WAITERS; w++) {
            waiters[w] = (ts_waiter){.client = ts_open(), .name = name};
            waiters[w].options =
                (rowlock_acquire_options){.mode = mode, .wait_ms = 60000, .ttl_ms = 30000};
            ts_waiter_start(&waiters[w]);
        }
        ts_pass_ms(300); /* they wait, or are about to */
        step_server(steps[i]);
        for (int w = 0; w < WAITERS; w++)
            assert_false(ts_waiter_ended(&waiters[w]));
        WANT(OK, rowlock_release(hold, &ts_err));
        for (int served = 0; served < WAITERS; served++) {
            int w = 0;
            assert_true(POLL_UNTIL(
                (w = (w + 1) % WAITERS, waiters[w].client && ts_waiter_ended(&waiters[w])), 20000));
            WANT(OK, ts_waiter_join(&waiters[w], 0));
            assert_true(rowlock_hold_token(waiters[w].hold) > token);
            token = rowlock_hold_token(waiters[w].hold);
            WANT(OK, rowlock_release(waiters[w].hold, &ts_err));
            rowlock_client_close(waiters[w].client);
            waiters[w].client = NULL;
        }
    }
}

/* A request is on its way when its caller gives it up. That the server was started "in the
 * future" is no sign that it has forgotten the request. */
static void test_a_late_request_while_the_clock_is_wrong(void **state)
{
    static const int steps[] = {-3600, 3600};
    rowlock_mode mode = ts_mode(state);
    skip_without_library();
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const char *name = ts_name("late-request");
        rowlock_client *client = through_open();
        rowlock_hold *hold = NULL;
        uint64_t token = 0;
        next_one_gets_in(name, mode, &token);
        WANT(OK, ts_try(client, name, mode));
        step_server(steps[i]);
        token = version_of(name);
        ts_proxy_arm(proxy, TS_DELAY_COMMAND, taking(mode), 1, false);
        rowlock_status status = acquire(client, name, mode, 3000, &hold);
        assert_true(ts_proxy_fired(proxy));
        if (status == ROWLOCK_OK) {
            assert_true(is_ours(hold));
            token = rowlock_hold_token(hold);
            WANT(OK, rowlock_release(hold, &ts_err));
        }
        ts_proxy_flow(proxy);
        ts_pass_ms(200); /* the time it would need to do harm */
        /* A lease is not taken behind everybody's back. Of a row lock, at most a token is used up.
         */
        uint64_t spent = status == ROWLOCK_UNKNOWN || mode == ROWLOCK_PESSIMISTIC;
        assert_between((int64_t)token, (int64_t)version_of(name), (int64_t)(token + spent));
        next_one_gets_in(name, mode, &token);
        rowlock_client_close(client);
        step_server(0);
    }
}

/* ------------------------------------------------------------------------- a client's */

static void test_a_clients_clock_steps(void **state)
{
    static const int steps[] = {3600, -3600};
    rowlock_mode mode = ts_mode(state);
    const char *sanitized = getenv("ROWLOCK_SANITIZE");
    skip_without_library();
    if (sanitized && *sanitized) {
        print_message("# a sanitized program cannot have its clock changed\n");
        skip();
    }
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const char *name = ts_name("client");
        ts_sql(mysql, "INSERT INTO guard (name) VALUES ('%s')", name);
        set_clock(client_clock, 0);
        wear(client_clock);
        process a = process_start(name, mode, TS_KEPT_TTL, "hold");
        uint64_t token = process_expect_token(&a, 10000);
        process b = process_start(name, mode, TS_KEPT_TTL, "hold");
        wear_off();
        assert_false(process_hear(&b, 300));
        set_clock(client_clock, steps[i]);
        /* Both clocks are wrong now: of the holder, and of who waits for it. */
        assert_false(process_hear(&b, TS_KEPT_FOR));
        process_tell(&a, "check");
        process_expect(&a, "CHECK OK", 10000);
        process_tell(&a, "release");
        process_expect(&a, "RELEASE OK", 10000);
        uint64_t second = process_expect_token(&b, 10000);
        assert_true(second > token);
        process_tell(&b, "check");
        process_expect(&b, "CHECK OK", 10000);
        /* Whoever had just looked at his clock and is killed: free within TTL + 1 s. */
        process_bury(&b);
        rowlock_hold *next = ts_take(direct, name, mode, 2000);
        assert_true(rowlock_hold_token(next) > second);
        WANT(OK, rowlock_release(next, &ts_err));
        process_finish(&a);
        assert_int_equal(ts_sql_u64(mysql, "SELECT COUNT(*) FROM late WHERE name = '%s'", name), 0);
    }
}

#define RESET(test) cmocka_unit_test_teardown(test, clock_is_right)
#define RESET_BOTH(test)                                                                           \
    {#test " (lease)", test, NULL, clock_is_right, &ts_modes[0]},                                  \
    {                                                                                              \
#test " (pessimistic)", test, NULL, clock_is_right, &ts_modes[1]                           \
    }

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        RESET(test_the_servers_clock_goes_forward_lease),
        RESET(test_the_servers_clock_goes_forward_row_lock),
        RESET_BOTH(test_the_servers_clock_goes_back),
        RESET_BOTH(test_a_holder_dies_when_the_clock_has_gone_back),
        RESET_BOTH(test_waiters_while_the_servers_clock_steps),
        RESET_BOTH(test_a_late_request_while_the_clock_is_wrong),
        RESET_BOTH(test_a_clients_clock_steps),
    };
    (void)argc;
    process_begin(argv[0]);
    return cmocka_run_group_tests_name("clocks", tests, begin, end);
}
