/*
 * Wall clocks that are put forward and back by an hour while locks are held: the server's, and a
 * client's. libfaketime replaces the C library's wall clock in one process; monotonic clocks go on,
 * as when a real clock is stepped. Skipped if libfaketime is not installed.
 */
#include <glob.h>

#include "faults/process.h"
#include "faults/through.h"
#include "support/own_server.h"

/*
 * A ping or a renewal is due after a third of the TTL; after nine tenths without one the hold is
 * lost.
 */
enum { STOOD_TOO_LONG = TS_KEPT_TTL * 9 / 10 - TS_KEPT_TTL / 3 };

static char library[300]; /* "": there is none */
static char folder[] = "/tmp/rowlock-clock.XXXXXX";
static char server_clock[60];
static char client_clock[60];

static void find_library(void)
{
    glob_t found = {0};
    if (glob("/usr/lib/*/faketime/libfaketimeMT.so.1", 0, NULL, &found) == 0)
        snprintf(library, sizeof library, "%s", found.gl_pathv[0]);
    globfree(&found);
}

/* Replaces the file in one step, since each look at the clock reads it. */
static void set_clock(const char *clock, int seconds)
{
    char fresh[80];
    snprintf(fresh, sizeof fresh, "%s.new", clock);
    FILE *out = fopen(fresh, "w");
    assert_non_null(out);
    fprintf(out, "%+d\n", seconds);
    assert_int_equal(fchmod(fileno(out), 0644), 0); /* the server runs as another user */
    assert_int_equal(fclose(out), 0);
    assert_int_equal(rename(fresh, clock), 0);
}

/* Processes that are started until wear_off() have the client's clock. */
static void wear(void)
{
    setenv("FAKETIME_TIMESTAMP_FILE", client_clock, 1);
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

/* Steps the server's clock, and waits until that shows. */
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
    setenv("ROWLOCK_SERVER_CLOCK", server_clock, 1);
    ts_own_start();
    unsetenv("ROWLOCK_SERVER_CLOCK");
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

static int clock_is_right(TS_NO_STATE)
{
    if (*library) {
        set_clock(server_clock, 0);
        set_clock(client_clock, 0);
    }
    return 0;
}

/* A lease ends early (docs/guarantees.md, 4). That cannot be avoided; but the token has risen, the
 * fence refuses, and the holder is told at its next renewal. */
TS_ONCE(test_the_servers_clock_goes_forward_lease)
{
    const char *name = ts_name("forward");
    skip_without_library();
    TS_CLIENT *holder = ts_open();
    TS_MYSQL *work = ts_connect(ts_schema());
    rowlock_hold *hold = ts_take(holder, name, ROWLOCK_OPTIMISTIC, 24000);
    uint64_t token = rowlock_hold_token(hold);
    WANT(BUSY, ts_try(direct, name, ROWLOCK_OPTIMISTIC));
    step_server(3600);
    TS_HOLD *next = ts_take(direct, name, ROWLOCK_OPTIMISTIC, 24000);
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
}

/* A row lock does not depend on the clock. A lease is kept when the clock goes back, with a
 * deadline that is never later than its TTL. */
TS_BOTH(test_kept_while_the_servers_clock_steps)
{
    static const int steps[] = {-3600, 3600};
    skip_without_library();
    for (int i = 0; i < (mode == ROWLOCK_OPTIMISTIC ? 1 : 2); i++) {
        const char *name = ts_name(steps[i] < 0 ? "back" : "forward");
        TS_CLIENT *holder = ts_open();
        rowlock_hold *hold = ts_take(holder, name, mode, TS_KEPT_TTL);
        uint64_t token = rowlock_hold_token(hold);
        step_server(steps[i]);
        for (int64_t until = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < until;) {
            kept_from_others(hold, 20);
            assert_between(1, rowlock_hold_remaining_ms(hold), TS_KEPT_TTL);
        }
        WANT(OK, rowlock_release(hold, &ts_err));
        next_one_gets_in(name, mode, &token);
        /* And back, with times from the past in the rows. */
        step_server(0);
        next_one_gets_in(name, mode, &token);
    }
}

/* A holder that dies when the clock has gone back leaves its lease behind for longer than its
 * TTL, as docs/guarantees.md says; break frees it. A row lock is free at once. */
TS_BOTH(test_a_holder_dies_when_the_clock_has_gone_back)
{
    skip_without_library();
    const char *name = ts_guarded(mysql, "back-dead");
    process a = process_start(name, mode, TS_KEPT_TTL);
    uint64_t token = process_expect_token(&a, 10000);
    step_server(-3600);
    process_bury(&a);
    if (mode == ROWLOCK_OPTIMISTIC) {
        ts_pass_ms(TS_KEPT_TTL + 1500);
        WANT(BUSY, ts_try(direct, name, mode));
        rowlock_list *list = NULL;
        WANT(OK, rowlock_list_one(direct, name, &list, &ts_err));
        assert_between(3000000, rowlock_list_at(list, 0)->remaining_ms, 3700000);
        rowlock_list_free(list);
        WANT(OK, ts_break_now(direct, name));
        WANT(OK, ts_try(direct, name, mode));
    }
    next_one_gets_in(name, mode, &token);
}

/* Waiters have hours of time, and need none of it. */
TS_BOTH(test_waiters_while_the_servers_clock_steps)
{
    static const int steps[] = {3600, -3600, 0};
    skip_without_library();
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const char *name = ts_name("waiters");
        TS_CLIENT *first = ts_open();
        TS_CLIENT *second = ts_open();
        /* No waiter must take it for expired: row locks do not expire, nor does this lease. */
        rowlock_hold *hold = ts_take(direct, name, mode, mode ? 30000 : 7200000);
        uint64_t token = rowlock_hold_token(hold);
        ts_waiter waiters[] = {ts_wait(first, name, mode, 60000, 30000),
                               ts_wait(second, name, mode, 60000, 30000)};
        ts_pass_ms(300); /* they wait, or will soon */
        step_server(steps[i]);
        for (int w = 0; w < 2; w++)
            assert_false(ts_waiter_ended(&waiters[w]));
        WANT(OK, rowlock_release(hold, &ts_err));
        assert_true(
            POLL_UNTIL(ts_waiter_ended(&waiters[0]) || ts_waiter_ended(&waiters[1]), 20000));
        ts_waiter *next = ts_waiter_ended(&waiters[0]) ? &waiters[0] : &waiters[1];
        ASSERT_GETS_IN(next, token, 0);
        token = rowlock_hold_token(next->hold);
        ts_hand_over(next->hold, next == waiters ? &waiters[1] : &waiters[0], 20000);
    }
}

/* A request is on its way when its caller gives up. A server that was started "in the future" may
 * still have the request. */
TS_BOTH(test_a_late_request_while_the_clock_is_wrong)
{
    static const int steps[] = {-3600, 3600};
    skip_without_library();
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const char *name = ts_name("late-request");
        rowlock_client *client = through_open();
        rowlock_hold *hold = NULL;
        uint64_t token = 0;
        next_one_gets_in(name, mode, &token);
        WANT(OK, ts_try(client, name, mode));
        step_server(steps[i]);
        token = ts_version_of(mysql, name);
        ts_proxy_arm(proxy, TS_DELAY_COMMAND, taking(mode), 1, false);
        rowlock_status status = acquire_kept(client, name, mode, 3000, &hold);
        assert_true(ts_proxy_fired(proxy));
        if (status == ROWLOCK_OK) {
            assert_true(is_ours(hold));
            token = rowlock_hold_token(hold);
            WANT(OK, rowlock_release(hold, &ts_err));
        }
        ts_proxy_flow(proxy);
        ts_pass_ms(200); /* enough time for it to do harm */
        /* The late request acquires no lease. For a row lock, at most a token is used up. */
        uint64_t spent = status == ROWLOCK_UNKNOWN || mode == ROWLOCK_PESSIMISTIC;
        assert_between((int64_t)token, (int64_t)ts_version_of(mysql, name),
                       (int64_t)(token + spent));
        next_one_gets_in_after(TS_KEPT_TTL, name, mode, &token);
        rowlock_client_close(client);
        step_server(0);
    }
}

/* The clocks of the holder and of the waiter are wrong now. */
static bool is_kept(process *holder, process *waiter)
{
    bool silent = !process_hear(waiter, TS_KEPT_FOR);
    process_tell(holder, "check");
    return process_hear(holder, 10000) && strcmp(holder->line, "CHECK OK") == 0 && silent;
}

TS_BOTH(test_a_clients_clock_steps)
{
    static const int steps[] = {3600, -3600};
    int tries = 0;
    const char *sanitized = getenv("ROWLOCK_SANITIZE");
    skip_without_library();
    if (sanitized && *sanitized) {
        print_message("# a sanitized program cannot have its clock changed\n");
        skip();
    }
    for (size_t i = 0; i < sizeof steps / sizeof steps[0];) {
        const char *name = ts_guarded(mysql, "client");
        assert_true(tries++ < 20);
        set_clock(client_clock, 0);
        wear();
        process a = process_start(name, mode, TS_KEPT_TTL);
        uint64_t token = process_expect_token(&a, 10000);
        process b = process_start(name, mode, TS_KEPT_TTL);
        wear_off();
        assert_false(process_hear(&b, 300));
        set_clock(client_clock, steps[i]);
        int64_t stood = ts_stood_ms();
        if (!is_kept(&a, &b)) {
            /* The whole machine stood still: once more. */
            assert_between(STOOD_TOO_LONG, ts_stood_ms() - stood, INT64_MAX);
            process_bury(&a);
            process_bury(&b);
            continue;
        }
        i++;
        process_ask(&a, "release", "RELEASE OK");
        uint64_t second = process_expect_token(&b, 10000);
        assert_true(second > token);
        process_ask(&b, "check", "CHECK OK");
        /* A holder that has just read its clock is killed: the lease is free within TTL + 1 s. */
        process_bury(&b);
        rowlock_hold *next = ts_take(direct, name, mode, TS_KEPT_TTL);
        assert_true(rowlock_hold_token(next) > second);
        WANT(OK, rowlock_release(next, &ts_err));
        process_finish(&a);
        ts_nobody_was_late(mysql, name);
    }
}

int main(int argc, char **argv)
{
    (void)argc;
    process_begin(argv[0]);
    return ts_run_each("clocks", NULL, clock_is_right, begin, end);
}
