/*
 * Real processes, real kills, a server of its own. After each death: at most one holder at
 * any time (the holders' guarded beats), the next one gets in within TTL + 1 s, tokens rise.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults/process.h"
#include "mode/settle.h"
#include "support/own_server.h"
#include "support/support.h"

static MYSQL *mysql;

/* ------------------------------------------------------------------------ the guard */

/* After a restart within a second our connection may have the number of one that a client wants to
 * be sure has ended (src/mode/settle.c), and be ended in its place. */
static uint64_t guard(const char *name, const char *column)
{
    if (ts_sql_try(mysql, "DO 0"))
        ts_reconnect(&mysql);
    return ts_sql_u64(mysql, "SELECT %s FROM guard WHERE name = '%s'", column, name);
}

static void expect_beats(const char *name, uint64_t token)
{
    assert_true(POLL_UNTIL(guard(name, "token") == token, 10000));
    uint64_t before = guard(name, "beats");
    assert_true(POLL_UNTIL(guard(name, "beats") > before + 3, 10000));
}

/* --------------------------------------------------------------------------- clients */

static void test_holder_killed(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_guarded(mysql, "killed");
    int64_t ttl = TS_KEPT_TTL;
    process a = process_start(name, mode, ttl, "hold");
    uint64_t first = process_expect_token(&a, 10000);
    expect_beats(name, first);
    process b = process_start(name, mode, ttl, "hold");
    assert_false(process_hear(&b, 500));
    int64_t killed = ts_now_ms();
    process_bury(&a);
    uint64_t second = process_expect_token(&b, ttl + 1000);
    /* A row lock ends with the connection: at once. */
    if (mode == ROWLOCK_PESSIMISTIC)
        assert_between(0, ts_now_ms() - killed, 1000 + ts_slack_ms());
    assert_true(second > first);
    expect_beats(name, second);
    process_tell(&b, "release");
    process_expect(&b, "RELEASE OK", 10000);
    process_finish(&b);
    ts_nobody_was_late(mysql, name);
}

static void test_holder_stopped(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_guarded(mysql, "stopped");
    int64_t ttl = TS_KEPT_TTL;
    process a = process_start(name, mode, ttl, "hold");
    uint64_t first = process_expect_token(&a, 10000);
    expect_beats(name, first);
    process b = process_start(name, mode, ttl, "hold");
    /* Not in the middle of a beat, which no lock could call back. */
    process_tell(&a, "pause");
    process_expect(&a, "PAUSED", 10000);
    kill(a.pid, SIGSTOP);
    uint64_t second = process_expect_token(&b, ttl + 1000);
    assert_true(second > first);
    expect_beats(name, second);
    process_tell(&a, "resume");
    kill(a.pid, SIGCONT);
    process_expect(&a, "LOST", 10000);
    process_tell(&a, "check");
    process_expect(&a, "CHECK LOST", 10000);
    process_tell(&a, "release");
    process_expect(&a, "RELEASE LOST", 10000);
    /* The late release has harmed nobody. */
    process_tell(&b, "check");
    process_expect(&b, "CHECK OK", 10000);
    expect_beats(name, second);
    process_tell(&b, "release");
    process_expect(&b, "RELEASE OK", 10000);
    process_finish(&a);
    process_finish(&b);
    ts_nobody_was_late(mysql, name);
}

/* Stopped for less than its TTL: nothing happens. */
static void test_holder_stopped_for_a_moment(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_guarded(mysql, "moment");
    process a = process_start(name, mode, 6000, "hold");
    uint64_t first = process_expect_token(&a, 10000);
    process b = process_start(name, mode, 6000, "hold");
    for (int i = 0; i < 3; i++) {
        kill(a.pid, SIGSTOP);
        ts_pass_ms(500);
        kill(a.pid, SIGCONT);
        ts_pass_ms(300);
    }
    process_tell(&a, "check");
    process_expect(&a, "CHECK OK", 10000);
    expect_beats(name, first);
    assert_false(process_hear(&b, 100));
    process_tell(&a, "release");
    process_expect(&a, "RELEASE OK", 10000);
    process_expect_token(&b, 10000);
    process_finish(&a);
    process_finish(&b);
    ts_nobody_was_late(mysql, name);
}

/* A child has the holder's sockets and lives on, silent, when the holder is killed. */
static void test_fork_in_a_holder(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_guarded(mysql, "forked");
    int64_t ttl = TS_KEPT_TTL;
    process a = process_start(name, mode, ttl, "hold");
    uint64_t first = process_expect_token(&a, 10000);
    process_tell(&a, "fork");
    process_expect(&a, "CHILD ", 10000);
    pid_t child = (pid_t)strtol(a.line + 6, NULL, 10);
    process b = process_start(name, mode, ttl, "hold");
    /* While both live, the lock is the parent's. */
    assert_false(process_hear(&b, ttl + 500));
    process_tell(&a, "check");
    process_expect(&a, "CHECK OK", 10000);
    process_bury(&a);
    uint64_t second = process_expect_token(&b, ttl + 1000);
    assert_true(second > first);
    kill(child, SIGKILL);
    expect_beats(name, second);
    process_finish(&b);
    ts_nobody_was_late(mysql, name);
}

static void kill_connections(void)
{
    char *ids = ts_sql_text(mysql,
                            "SELECT GROUP_CONCAT(id) FROM information_schema.processlist"
                            " WHERE id <> CONNECTION_ID() AND db = '%s'",
                            ts_schema());
    for (char *at = ids; *at;) {
        unsigned long id = strtoul(at, &at, 10);
        ts_sql_try(mysql, "KILL CONNECTION %lu", id);
        at += *at == ',';
    }
    free(ids);
}

/* The server ends every connection there is: of the holder, of the waiter. */
static void test_connections_cut(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_guarded(mysql, "cut");
    int64_t ttl = TS_KEPT_TTL;
    process a = process_start(name, mode, ttl, "hold");
    uint64_t first = process_expect_token(&a, 10000);
    process b = process_start(name, mode, ttl, "hold");
    expect_beats(name, first);
    /* Its socket is watched once it is 50 ms old (docs/guarantees.md, 4). */
    ts_pass_ms(100);
    process_tell(&a, "pause");
    process_expect(&a, "PAUSED", 10000);
    kill_connections();
    process_tell(&a, "resume");
    if (mode == ROWLOCK_PESSIMISTIC) {
        process_expect(&a, "LOST", 10000);
        uint64_t second = process_expect_token(&b, ttl + 1000);
        assert_true(second > first);
        expect_beats(name, second);
        process_tell(&a, "release");
        process_expect(&a, "RELEASE LOST", 10000);
    } else {
        /* A lease outlives its connections. */
        assert_false(process_hear(&b, ttl + 500));
        process_tell(&a, "check");
        process_expect(&a, "CHECK OK", 10000);
        expect_beats(name, first);
        process_tell(&a, "release");
        process_expect(&a, "RELEASE OK", 10000);
        assert_true(process_expect_token(&b, 10000) > first);
    }
    process_finish(&a);
    process_finish(&b);
    ts_nobody_was_late(mysql, name);
}

/* ---------------------------------------------------------------------------- server */

static void test_server_killed_while_held(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_guarded(mysql, "server");
    int64_t ttl = 15000;
    process a = process_start(name, mode, ttl, "hold");
    uint64_t first = process_expect_token(&a, 10000);
    expect_beats(name, first);
    process b = process_start(name, mode, ttl, "hold");
    assert_false(process_hear(&b, 300));
    ts_own_kill();
    if (mode == ROWLOCK_PESSIMISTIC)
        process_expect(&a, "LOST", 10000);
    ts_own_restart();
    ts_reconnect(&mysql);
    if (mode == ROWLOCK_PESSIMISTIC) {
        uint64_t second = process_expect_token(&b, ttl + 1000);
        assert_true(second > first);
        expect_beats(name, second);
        process_tell(&a, "release");
        process_expect(&a, "RELEASE LOST", 10000);
    } else {
        /* The outage was shorter than its TTL: it is renewed and goes on. */
        process_tell(&a, "check");
        process_expect(&a, "CHECK OK", 10000);
        expect_beats(name, first);
        assert_false(process_hear(&b, 500));
        process_tell(&a, "release");
        process_expect(&a, "RELEASE OK", 10000);
        assert_true(process_expect_token(&b, 10000) > first);
    }
    process_finish(&a);
    process_finish(&b);
    ts_nobody_was_late(mysql, name);
}

static void test_server_away_for_longer_than_the_ttl(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_guarded(mysql, "away");
    int64_t ttl = 2000;
    process a = process_start(name, mode, ttl, "hold");
    uint64_t first = process_expect_token(&a, 10000);
    expect_beats(name, first);
    process b = process_start(name, mode, ttl, "hold");
    ts_own_kill();
    process_expect(&a, "LOST", ttl + 1000);
    ts_own_restart();
    int64_t back = ts_now_ms();
    ts_reconnect(&mysql);
    uint64_t second = process_expect_token(&b, ttl + 1000);
    assert_between(0, ts_now_ms() - back, ttl + 1000 + ts_slack_ms());
    assert_true(second > first);
    expect_beats(name, second);
    process_tell(&a, "release");
    process_expect(&a, "RELEASE LOST", 10000);
    process_tell(&b, "check");
    process_expect(&b, "CHECK OK", 10000);
    process_finish(&a);
    process_finish(&b);
    ts_nobody_was_late(mysql, name);
}

/* The kill comes a little before, with, and a little after the release. */
static void test_server_killed_in_a_release(void **state)
{
    static const int64_t leads_ms[] = {0, 10, 40};
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_guarded(mysql, "in-release");
    int64_t ttl = 1500;
    uint64_t last = 0;
    for (size_t i = 0; i < sizeof leads_ms / sizeof leads_ms[0]; i++) {
        process a = process_start(name, mode, ttl, "hold");
        uint64_t token = process_expect_token(&a, ttl + 10000);
        assert_true(token > last);
        last = token;
        pid_t killer = fork();
        if (killer == 0) {
            ts_own_kill();
            _exit(0);
        }
        ts_pass_ms(leads_ms[i]);
        process_tell(&a, "release");
        ts_reap(killer, 20000);
        ts_own_restart();
        ts_reconnect(&mysql);
        while (process_hear(&a, 20000) && strncmp(a.line, "LOST", 4) == 0)
            continue;
        assert_memory_equal(a.line, "RELEASE ", 8);
        const char *said = a.line + 8;
        assert_true(strcmp(said, "OK") == 0 || strcmp(said, "UNKNOWN") == 0 ||
                    strcmp(said, "UNAVAILABLE") == 0 || strcmp(said, "LOST") == 0);
        process_finish(&a);
    }
    process b = process_start(name, mode, ttl, "hold");
    assert_true(process_expect_token(&b, ttl + 1000) > last);
    process_finish(&b);
    ts_nobody_was_late(mysql, name);
}

/* A request went out just when the server was started anew, and its connection's number is a
 * stranger's by now: whoever looks how it ended does not end that one. */
static void test_a_number_from_before_a_restart(void **state)
{
    enum { MOST = 40 };
    MYSQL *strangers[MOST] = {0};
    rowlock_client_options options = ts_options();
    rowlock_client *client = NULL;
    const rl_budget budget = rl_budget_start(10000, 0, NULL);
    unsigned count = 0;
    (void)state;
    options.no_history = true; /* nor a connection for it */
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    rl_trace trace = {.peer = client->pool.peer};
    while (count < MOST)
        strangers[count++] = ts_connect(NULL);
    const uint64_t number = mysql_thread_id(strangers[MOST - 1]);
    ts_own_kill();
    trace.sent_us = rl_now_us();
    ts_own_restart();
    ts_reconnect(&mysql);
    while (count > 0)
        mysql_close(strangers[--count]);
    WANT(OK, ts_try(client, ts_name("anew"), ROWLOCK_OPTIMISTIC));
    while (mysql_thread_id(mysql) < number)
        ts_reconnect(&mysql);
    trace.connection_id = mysql_thread_id(mysql);
    rl_settle_connection(client, &budget, &trace);
    assert_int_equal(ts_sql_u64(mysql, "SELECT CONNECTION_ID()"), trace.connection_id);
    rowlock_client_close(client);
}

enum { STORM = 6 };

static void expect_progress(const char *name, int64_t within_ms)
{
    uint64_t before = guard(name, "beats");
    assert_true(POLL_UNTIL(guard(name, "beats") > before + 10, within_ms));
}

static unsigned end_of_storm(process *h)
{
    unsigned cycles = 0;
    close(h->in);
    while (process_hear(h, 30000) && sscanf(h->line, "CYCLES %u", &cycles) != 1) {
        print_error("%s\n", h->line);
        fail();
    }
    assert_int_equal(ts_reap(h->pid, 10000), 0);
    close(h->out);
    return cycles;
}

/* Acquires, waits and releases of six processes, and the server dies in between. */
static void test_server_killed_in_a_storm(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_guarded(mysql, "storm");
    int64_t ttl = 1500;
    process storm[STORM];
    for (int i = 0; i < STORM; i++)
        storm[i] = process_start(name, mode, ttl, "storm");
    for (int round = 0; round < 3; round++) {
        expect_progress(name, ttl + 5000);
        ts_pass_ms(37 * (round + 1)); /* another moment each time */
        ts_own_kill();
        ts_own_restart();
        ts_reconnect(&mysql);
        /* Whoever had it: the next one gets in within TTL + 1 s, and it goes on. */
        expect_progress(name, ttl + 1000 + 2000);
    }
    unsigned all = 0;
    for (int i = 0; i < STORM; i++)
        all += end_of_storm(&storm[i]);
    assert_true(all > 30);
    ts_nobody_was_late(mysql, name);
}

/* A storm in which the server ends connections, and processes are killed and replaced. */
static void test_kills_in_a_storm(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_guarded(mysql, "kills");
    int64_t ttl = 1000;
    process storm[STORM];
    for (int i = 0; i < STORM; i++)
        storm[i] = process_start(name, mode, ttl, "storm");
    for (int round = 0; round < 8; round++) {
        expect_progress(name, ttl + 3000);
        process_bury(&storm[round % STORM]);
        storm[round % STORM] = process_start(name, mode, ttl, "storm");
        if (mode == ROWLOCK_OPTIMISTIC)
            kill_connections();
    }
    for (int i = 0; i < STORM; i++)
        end_of_storm(&storm[i]);
    ts_nobody_was_late(mysql, name);
}

/* ------------------------------------------------------------------------------ main */

static int begin(void **state)
{
    ts_own_start();
    ts_suite_begin(state);
    mysql = ts_connect(ts_schema());
    ts_guard_tables(mysql);
    return 0;
}

static int end(void **state)
{
    (void)state;
    mysql_close(mysql);
    ts_own_remove();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_holder_killed),
        BOTH(test_holder_stopped),
        BOTH(test_holder_stopped_for_a_moment),
        BOTH(test_fork_in_a_holder),
        BOTH(test_connections_cut),
        BOTH(test_server_killed_while_held),
        BOTH(test_server_away_for_longer_than_the_ttl),
        BOTH(test_server_killed_in_a_release),
        ONCE(test_a_number_from_before_a_restart),
        BOTH(test_server_killed_in_a_storm),
        BOTH(test_kills_in_a_storm),
    };
    (void)argc;
    signal(SIGPIPE, SIG_IGN);
    process_begin(argv[0]);
    return cmocka_run_group_tests_name("death", tests, begin, end);
}
