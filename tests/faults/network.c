/*
 * Two hosts, and the cable between them is pulled: no FIN, no RST, nothing. The hosts are network
 * namespaces of this program's own, the cable a pair of virtual interfaces. On one is the server
 * and who uses its socket; on the other a process that reaches it by TCP. Skipped where the
 * machine does not allow that.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults/process.h"
#include "support/own_server.h"

#define SERVER "10.213.77.1"
#define FAR    "10.213.77.2"
#define PORT   "33066"

static char why_not[200]; /* "": it can be done */
static int here = -1;     /* the namespaces */
static int far = -1;
static rowlock_client *direct;
static MYSQL *mysql;

/* ----------------------------------------------------------------------------- the cable */

__attribute__((format(printf, 1, 2))) static bool shell(const char *format, ...)
{
    char command[300];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    return system(command) == 0;
}

static bool new_namespace(int *fd)
{
    if (unshare(CLONE_NEWNET) != 0)
        return false;
    *fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    return *fd >= 0;
}

/* From the far end. */
static bool connect_hosts(void)
{
    return shell("ip link set lo up 2>&1") &&
           shell("ip link add name rlfar type veth peer name rlhere 2>&1") &&
           shell("ip link set rlhere netns /proc/%d/fd/%d 2>&1", (int)getpid(), here) &&
           shell("ip addr add " FAR "/24 dev rlfar 2>&1 && ip link set rlfar up 2>&1");
}

static void make_hosts(void)
{
    if (!new_namespace(&here) || !new_namespace(&far))
        snprintf(why_not, sizeof why_not, "no network namespaces: %s", strerror(errno));
    else if (!connect_hosts())
        snprintf(why_not, sizeof why_not, "no virtual interfaces, or no `ip`");
    if (here >= 0)
        assert_int_equal(setns(here, CLONE_NEWNET), 0);
    if (!*why_not && !shell("ip link set lo up 2>&1 && ip addr add " SERVER
                            "/24 dev rlhere 2>&1 && ip link set rlhere up 2>&1"))
        snprintf(why_not, sizeof why_not, "the virtual interfaces cannot be set up");
}

static void pull_cable(void)
{
    assert_true(shell("ip link set rlhere down"));
}

/* What was set on an interface with its address is not lost when that goes down. */
static void plug_cable(void)
{
    assert_true(shell("ip link set rlhere up"));
}

/* A process on the other host. */
static process start_far(const char *name, rowlock_mode mode, int64_t ttl_ms)
{
    assert_int_equal(setns(far, CLONE_NEWNET), 0);
    process_reach("tcp:" SERVER ":" PORT);
    process p = process_start(name, mode, ttl_ms, "hold");
    process_reach(NULL);
    assert_int_equal(setns(here, CLONE_NEWNET), 0);
    return p;
}

static void skip_where_impossible(void)
{
    if (!*why_not)
        return;
    print_message("# %s\n", why_not);
    skip();
}

static int begin(void **state)
{
    make_hosts();
    if (*why_not)
        return 0;
    ts_own_start_with("--skip-networking=0 --bind-address=" SERVER " --port=" PORT);
    ts_suite_begin(state);
    direct = ts_open();
    mysql = ts_connect(ts_schema());
    ts_sql(mysql, "CREATE USER 'net'@'" FAR "'");
    ts_sql(mysql, "GRANT SELECT, INSERT, UPDATE, DELETE ON `%s`.* TO 'net'@'" FAR "'", ts_schema());
    ts_guard_tables(mysql);
    return 0;
}

static int end(void **state)
{
    (void)state;
    if (*why_not)
        return 0;
    rowlock_client_close(direct);
    mysql_close(mysql);
    ts_own_remove();
    return 0;
}

/* ----------------------------------------------------------------------------- the tests */

static uint64_t start_and_pause(process *p, const char *name, rowlock_mode mode, int64_t ttl)
{
    *p = start_far(name, mode, ttl);
    uint64_t token = process_expect_token(p, 20000);
    /* Its beats would hang on the dead line; they are not what is looked at here. */
    process_tell(p, "pause");
    process_expect(p, "PAUSED", 20000);
    return token;
}

/* The holder's host is gone for the server, and the server for the holder: he is told, and who
 * waits gets in within TTL + 1 s (and what a slow machine takes). */
static void test_the_holders_host_is_cut_off(void **state)
{
    enum { TTL = TS_KEPT_TTL };
    rowlock_mode mode = ts_mode(state);
    process a;
    skip_where_impossible();
    const char *name = ts_guarded(mysql, "cut-off");
    uint64_t token = start_and_pause(&a, name, mode, TTL);
    ts_waiter waiter = {.client = direct, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 60000, .ttl_ms = 30000};
    ts_waiter_start(&waiter);
    ts_pass_ms(300);
    assert_false(ts_waiter_ended(&waiter));
    int64_t cut = ts_now_ms();
    pull_cable();
    process_expect(&a, "LOST", TTL + 3000);
    WANT(OK, ts_waiter_join(&waiter, 60000));
    print_message("# %s: told, and the next one in after %" PRId64 " ms\n", ts_mode_word(mode),
                  waiter.ended_ms - cut);
    assert_between(0, waiter.ended_ms - cut, TTL + 1000 + 2000 + ts_slack_ms());
    assert_true(rowlock_hold_token(waiter.hold) > token);
    /* What he sent meanwhile arrives now. It changes nothing. */
    plug_cable();
    process_tell(&a, "check");
    process_expect(&a, "CHECK LOST", 10000);
    process_tell(&a, "release");
    process_expect(&a, "RELEASE ", 60000);
    assert_true(strcmp(a.line, "RELEASE LOST") == 0 || strcmp(a.line, "RELEASE UNAVAILABLE") == 0 ||
                strcmp(a.line, "RELEASE UNKNOWN") == 0);
    assert_held(waiter.hold);
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    process_finish(&a);
    ts_nobody_was_late(mysql, name);
}

/* Shorter than the TTL: nothing happens. */
static void test_a_short_cut(void **state)
{
    rowlock_mode mode = ts_mode(state);
    process a;
    skip_where_impossible();
    const char *name = ts_guarded(mysql, "short-cut");
    uint64_t token = start_and_pause(&a, name, mode, 12000);
    pull_cable();
    for (int64_t until = ts_now_ms() + 2500; ts_now_ms() < until; ts_pass_ms(50))
        WANT(BUSY, ts_try(direct, name, mode));
    plug_cable();
    assert_false(process_hear(&a, 4000));
    process_tell(&a, "check");
    process_expect(&a, "CHECK OK", 10000);
    WANT(BUSY, ts_try(direct, name, mode));
    process_tell(&a, "release");
    process_expect(&a, "RELEASE OK", 20000);
    rowlock_hold *next = ts_take(direct, name, mode, 30000);
    assert_true(rowlock_hold_token(next) > token);
    WANT(OK, rowlock_release(next, &ts_err));
    process_finish(&a);
    ts_nobody_was_late(mysql, name);
}

/* The first in line is cut off, and does not know that it is its turn: the next one gets in when
 * its TTL is over. It comes back, and waits on or starts again. */
static void test_a_waiters_host_is_cut_off(void **state)
{
    enum { TTL = 2000 };
    rowlock_mode mode = ts_mode(state);
    skip_where_impossible();
    const char *name = ts_guarded(mysql, "waiter-cut-off");
    rowlock_hold *hold = ts_take(direct, name, mode, 30000);
    uint64_t token = rowlock_hold_token(hold);
    process b = start_far(name, mode, TTL);
    assert_false(process_hear(&b, 500)); /* it stands in line */
    rowlock_client *other = ts_open();
    ts_waiter waiter = {.client = other, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 60000, .ttl_ms = 30000};
    ts_waiter_start(&waiter);
    ts_pass_ms(300);
    pull_cable();
    int64_t released = ts_now_ms();
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_waiter_join(&waiter, 60000));
    print_message("# %s: the next one in after %" PRId64 " ms\n", ts_mode_word(mode),
                  waiter.ended_ms - released);
    assert_between(0, waiter.ended_ms - released, 10000 + ts_slack_ms());
    assert_true(rowlock_hold_token(waiter.hold) > token);
    token = rowlock_hold_token(waiter.hold);
    plug_cable();
    assert_false(process_hear(&b, 1000));
    assert_held(waiter.hold);
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    assert_true(process_expect_token(&b, 60000) > token);
    process_finish(&b);
    rowlock_client_close(other);
    ts_nobody_was_late(mysql, name);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_the_holders_host_is_cut_off),
        BOTH(test_a_short_cut),
        BOTH(test_a_waiters_host_is_cut_off),
    };
    (void)argc;
    signal(SIGPIPE, SIG_IGN);
    process_begin(argv[0]);
    return cmocka_run_group_tests_name("network", tests, begin, end);
}
