/*
 * What is killed or stopped at a chosen point: the server just before, in and just after the commit
 * that decides; connections and statements, by KILL; waiters for a row lock and holders, by
 * signals. death.c has the kills at any moment, bell.c those of waiters for a lease.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults/process.h"
#include "faults/through.h"
#include "support/own_server.h"

#define PASSWORD "kills"

/* ------------------------------------------------------------- the server, at its commit */

typedef enum point { BEFORE_COMMIT, IN_COMMIT, AFTER_COMMIT, POINTS } point;

/* Bears the time that a restart takes. */
static rowlock_client *open_patient(void)
{
    rowlock_client_options options = through_options();
    rowlock_client *client = NULL;
    options.connect_timeout_ms = 20000;
    options.reconnect_ms = 60000;
    ts_proxy_flow(proxy);
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    return client;
}

/* Lets nobody commit from now on; ends with the server. */
static MYSQL *block_commits(void)
{
    MYSQL *blocker = ts_connect(NULL);
    ts_sql(blocker, "BACKUP STAGE START");
    ts_sql(blocker, "BACKUP STAGE FLUSH");
    ts_sql(blocker, "BACKUP STAGE BLOCK_DDL");
    ts_sql(blocker, "BACKUP STAGE BLOCK_COMMIT");
    return blocker;
}

static bool somebody_commits(void)
{
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM information_schema.processlist"
                             " WHERE db = DATABASE() AND state LIKE '%%backup lock%%'") > 0;
}

typedef struct moment {
    point at;
    const char *statement; /* that decides */
    MYSQL *blocker;
} moment;

/* From here on the server will be killed there. */
static void prepare(moment *m)
{
    m->blocker = m->at == IN_COMMIT ? block_commits() : NULL;
    if (m->at != IN_COMMIT)
        ts_proxy_arm(proxy, m->at == BEFORE_COMMIT ? TS_DELAY_COMMAND : TS_STALL_REPLY,
                     m->statement, 1, false);
}

/* `done`: an SQL condition on the name's row that holds once it is committed. */
static void kill_at(moment *m, const char *name, const char *done)
{
    if (m->at == IN_COMMIT)
        assert_true(POLL_UNTIL(somebody_commits(), 10000));
    else
        assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 10000));
    if (m->at == AFTER_COMMIT)
        assert_true(POLL_UNTIL(ts_sql_u64(mysql,
                                          "SELECT COUNT(*) FROM resource"
                                          " WHERE resource_name = '%s' AND %s",
                                          name, done) == 1,
                               10000));
    ts_own_kill();
    if (m->blocker)
        mysql_close(m->blocker);
    ts_own_restart();
    ts_proxy_flow(proxy);
    ts_reconnect(&mysql);
}

/* It is not known at first, and found out when the server is back: held, by the table, too. */
static void acquire_and_kill(rowlock_mode mode, point at)
{
    const char *name = ts_name("kill-acquire");
    rowlock_client *client = open_patient();
    char done[60];
    uint64_t token = 0;
    next_one_gets_in(name, mode, &token);
    WANT(OK, ts_try(client, name, mode));
    token = version_of(name);
    moment m = {.at = at, .statement = taking(mode)};
    prepare(&m);
    ts_waiter waiter = {.client = client, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 120000, .ttl_ms = 60000};
    ts_waiter_start(&waiter);
    snprintf(done, sizeof done, "version = %" PRIu64, token + 1);
    kill_at(&m, name, done);
    WANT(OK, ts_waiter_join(&waiter, 60000));
    assert_true(rowlock_hold_token(waiter.hold) > token);
    token = rowlock_hold_token(waiter.hold);
    assert_true(is_ours(waiter.hold));
    assert_held(waiter.hold);
    WANT(BUSY, ts_try(direct, name, mode));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    next_one_gets_in(name, mode, &token);
    rowlock_client_close(client);
}

static void test_server_killed_at_the_commit_of_an_acquire(void **state)
{
    for (int at = 0; at < POINTS; at++)
        acquire_and_kill(ts_mode(state), (point)at);
}

typedef struct release {
    rowlock_hold *hold;
    rowlock_status status;
    rowlock_error err;
} release;

static void *release_it(void *arg)
{
    release *r = arg;
    r->status = rowlock_release(r->hold, &r->err);
    return NULL;
}

/* Given back, or found out not to be ours any more, or not known; free in any case, a lease when
 * its TTL is over. */
static void release_and_kill(rowlock_mode mode, point at)
{
    const char *name = ts_name("kill-release");
    rowlock_client *client = open_patient();
    pthread_t thread;
    WANT(OK, ts_try(client, name, mode));
    release r = {.hold = ts_take(client, name, mode, 4000)};
    uint64_t token = rowlock_hold_token(r.hold);
    moment m = {.at = at, .statement = giving(mode)};
    /* What a row lock's release commits is that nobody is published. */
    if (mode == ROWLOCK_PESSIMISTIC)
        m.statement = "SET status = 'free'";
    prepare(&m);
    assert_int_equal(pthread_create(&thread, NULL, release_it, &r), 0);
    kill_at(&m, name, "status = 'free'");
    pthread_join(thread, NULL);
    if (r.status != ROWLOCK_OK && r.status != ROWLOCK_LOST && r.status != ROWLOCK_UNKNOWN &&
        r.status != ROWLOCK_UNAVAILABLE) {
        ts_err = r.err;
        WANT(OK, r.status);
    }
    int64_t back = ts_now_ms();
    rowlock_hold *next = NULL;
    rowlock_acquire_options how = {.mode = mode, .wait_ms = 20000};
    WANT(OK, rowlock_acquire(direct, name, &how, &next, &ts_err));
    assert_between(0, ts_now_ms() - back, 4000 + 3000 + ts_slack_ms());
    assert_true(rowlock_hold_token(next) > token);
    WANT(OK, rowlock_release(next, &ts_err));
    rowlock_client_close(client);
}

static void test_server_killed_at_the_commit_of_a_release(void **state)
{
    for (int at = 0; at < POINTS; at++)
        release_and_kill(ts_mode(state), (point)at);
}

/* ----------------------------------------------------------------- the server, stopped */

static pid_t servers_pid(void)
{
    char *file = ts_sql_text(mysql, "SELECT @@pid_file");
    FILE *in = fopen(file, "r");
    int pid = 0;
    assert_non_null(in);
    assert_int_equal(fscanf(in, "%d", &pid), 1);
    fclose(in);
    free(file);
    return pid;
}

/* It answers nobody for longer than the TTL. Everybody comes back on time; who waits gets it
 * when it goes on, and the old holder knows. */
static void test_server_stopped(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("stopped");
    int64_t ttl = TS_KEPT_TTL;
    rowlock_client *holder = ts_open();
    rowlock_client *waiting = ts_open();
    rowlock_client *hasty = ts_open();
    rowlock_hold *hold = ts_take(holder, name, mode, ttl);
    uint64_t token = rowlock_hold_token(hold);
    pid_t pid = servers_pid();
    WANT(BUSY, ts_try(hasty, name, mode));
    ts_waiter waiter = {.client = waiting, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 60000, .ttl_ms = 30000};
    ts_waiter on_time = {.client = hasty, .name = name};
    on_time.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 1500};
    ts_waiter_start(&waiter);
    ts_waiter_start(&on_time);
    ts_pass_ms(200);
    int64_t stopped = ts_now_ms();
    assert_int_equal(kill(pid, SIGSTOP), 0);
    bool told = POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000);
    int64_t told_after = ts_now_ms() - stopped;
    bool ended = POLL_UNTIL(ts_waiter_ended(&on_time), 15000);
    assert_int_equal(kill(pid, SIGCONT), 0); /* before anything can fail */
    assert_true(told && ended);
    assert_between(0, told_after, ttl + 2000 + ts_slack_ms());
    rowlock_status status = ts_waiter_join(&on_time, 0);
    assert_true(status == ROWLOCK_TIMEOUT || status == ROWLOCK_UNAVAILABLE ||
                status == ROWLOCK_UNKNOWN);
    assert_between(1490, on_time.ended_ms - on_time.started_ms, 1500 + 5000 + ts_slack_ms());
    WANT(OK, ts_waiter_join(&waiter, 20000));
    assert_true(rowlock_hold_token(waiter.hold) > token);
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_held(waiter.hold);
    assert_true(is_ours(waiter.hold));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    rowlock_client_close(holder);
    rowlock_client_close(waiting);
    rowlock_client_close(hasty);
}

/* ----------------------------------------------------------------------- KILL [QUERY] */

/* A client that KILL can be aimed at: the only one of its user. */
static rowlock_client *open_as(const char *user)
{
    rowlock_client_options options = ts_options();
    rowlock_client *client = NULL;
    options.user = user;
    options.password = PASSWORD;
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    return client;
}

/* How much of its TTL a hold has left when its next renewal, or ping, goes out. */
static bool is_due(const rowlock_hold *hold)
{
    return rowlock_hold_remaining_ms(hold) < TS_KEPT_TTL * 9 / 10 - TS_KEPT_TTL / 3 + 50;
}

/* Whatever runs is stopped, again and again: renewals, pings, the wait. Nobody loses anything: a
 * storm is shorter than the time that there is for a renewal. (One that never ends may stop each
 * of them, on a machine that is slow enough.) */
static void test_kill_query_everywhere(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("kill-query");
    const char *ha =
        ts_user(mode ? "kq_hp" : "kq_hl", PASSWORD, "SELECT, INSERT, UPDATE, DELETE", ts_schema());
    const char *wa =
        ts_user(mode ? "kq_wp" : "kq_wl", PASSWORD, "SELECT, INSERT, UPDATE, DELETE", ts_schema());
    rowlock_client *holder = open_as(ha);
    rowlock_client *waiting = open_as(wa);
    rowlock_hold *hold = ts_take(holder, name, mode, TS_KEPT_TTL);
    ts_waiter waiter = {.client = waiting, .name = name};
    waiter.options =
        (rowlock_acquire_options){.mode = mode, .wait_ms = 60000, .ttl_ms = TS_KEPT_TTL};
    ts_waiter_start(&waiter);
    unsigned killed = 0;
    for (int64_t until = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < until || killed <= 20;) {
        assert_true(POLL_UNTIL(is_due(hold), 10000));
        for (int64_t over = ts_now_ms() + TS_KEPT_TTL / 5; ts_now_ms() < over; ts_pass_ms(7)) {
            killed += kill_all_of(ha, "QUERY");
            killed += kill_all_of(wa, "QUERY");
        }
        assert_true(POLL_UNTIL(!is_due(hold) || rowlock_hold_check(hold) != ROWLOCK_OK, 10000));
        assert_held(hold);
        assert_false(ts_waiter_ended(&waiter));
    }
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_waiter_join(&waiter, 20000));
    assert_true(is_ours(waiter.hold));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    rowlock_client_close(holder);
    rowlock_client_close(waiting);
}

/* Every connection of a waiter's, again and again: it stands in line again. The holder's keeper:
 * a lease outlives it, a row lock does not. */
static void test_kill_connections(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("kill");
    const char *ha =
        ts_user(mode ? "kc_hp" : "kc_hl", PASSWORD, "SELECT, INSERT, UPDATE, DELETE", ts_schema());
    const char *wa =
        ts_user(mode ? "kc_wp" : "kc_wl", PASSWORD, "SELECT, INSERT, UPDATE, DELETE", ts_schema());
    rowlock_client *holder = open_as(ha);
    rowlock_client *waiting = open_as(wa);
    rowlock_hold *hold = ts_take(holder, name, mode, TS_KEPT_TTL);
    uint64_t token = rowlock_hold_token(hold);
    ts_waiter waiter = {.client = waiting, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 60000, .ttl_ms = 30000};
    ts_waiter_start(&waiter);
    for (int i = 0; i < 8; i++) {
        assert_true(POLL_UNTIL(kill_all_of(wa, "CONNECTION") > 0, 10000));
        ts_pass_ms(50);
        assert_held(hold);
        assert_false(ts_waiter_ended(&waiter));
    }
    if (mode == ROWLOCK_OPTIMISTIC) {
        for (int i = 0; i < 8; i++, ts_pass_ms(500)) {
            kill_all_of(ha, "CONNECTION");
            assert_held(hold);
            assert_false(ts_waiter_ended(&waiter));
        }
        WANT(OK, rowlock_release(hold, &ts_err));
    } else {
        assert_true(kill_all_of(ha, "CONNECTION") > 0);
        assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
        WANT(LOST, rowlock_release(hold, &ts_err));
    }
    WANT(OK, ts_waiter_join(&waiter, 20000));
    assert_true(rowlock_hold_token(waiter.hold) > token);
    assert_true(is_ours(waiter.hold));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    rowlock_client_close(holder);
    rowlock_client_close(waiting);
}

/* -------------------------------------------------------------------------- processes */

static void expect_beats(const char *name, uint64_t token)
{
    assert_true(POLL_UNTIL(
        ts_sql_u64(mysql, "SELECT token FROM guard WHERE name = '%s'", name) == token, 10000));
}

/* It ends without a word to the server, but in order. */
static void test_holder_exits(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_guarded(mysql, "exits");
    int64_t ttl = TS_KEPT_TTL;
    process a = process_start(name, mode, ttl, "hold");
    uint64_t first = process_expect_token(&a, 10000);
    expect_beats(name, first);
    process b = process_start(name, mode, ttl, "hold");
    assert_false(process_hear(&b, 300));
    int64_t told = ts_now_ms();
    process_tell(&a, "exit");
    uint64_t second = process_expect_token(&b, ttl + 5000);
    assert_between(0, ts_now_ms() - told, ttl + 3000 + ts_slack_ms());
    assert_true(second > first);
    expect_beats(name, second);
    assert_int_equal(ts_reap(a.pid, 10000), 0);
    process_finish(&b);
    ts_nobody_was_late(mysql, name);
}

/* `a` holds it, with the token that is returned; `b` waits, and `c` behind it. */
static uint64_t three_for_a_row(const char *name, process *a, process *b, process *c)
{
    *a = process_start(name, ROWLOCK_PESSIMISTIC, TS_KEPT_TTL, "hold");
    uint64_t token = process_expect_token(a, 10000);
    *b = process_start(name, ROWLOCK_PESSIMISTIC, TS_KEPT_TTL, "hold");
    assert_true(ts_server_waits(mysql, "%resource_lock%FOR UPDATE%", 10000));
    *c = process_start(name, ROWLOCK_PESSIMISTIC, TS_KEPT_TTL, "hold");
    assert_false(process_hear(c, 300));
    return token;
}

/* The first in line for a row is killed while it waits: the server may give it the row before it
 * notices, and has to pass it on. */
static void test_dead_waiter_for_a_row(void **state)
{
    const char *name = ts_guarded(mysql, "dead-waiter");
    (void)state;
    process a;
    process b;
    process c;
    uint64_t first = three_for_a_row(name, &a, &b, &c);
    process_bury(&b);
    process_tell(&a, "release");
    process_expect(&a, "RELEASE OK", 10000);
    assert_true(process_expect_token(&c, TS_KEPT_TTL + 5000) > first);
    process_finish(&a);
    process_finish(&c);
    ts_nobody_was_late(mysql, name);
}

/* Stopped instead: it is given the row, and cannot say so. The server ends its connection when
 * its TTL is over; it finds out when it goes on. */
static void test_stopped_waiter_for_a_row(void **state)
{
    const char *name = ts_guarded(mysql, "stopped-waiter");
    (void)state;
    process a;
    process b;
    process c;
    uint64_t first = three_for_a_row(name, &a, &b, &c);
    kill(b.pid, SIGSTOP);
    process_tell(&a, "release");
    process_expect(&a, "RELEASE OK", 10000);
    uint64_t second = process_expect_token(&c, TS_KEPT_TTL + 5000);
    assert_true(second > first);
    kill(b.pid, SIGCONT);
    assert_false(process_hear(&b, 1000));
    process_tell(&c, "check");
    process_expect(&c, "CHECK OK", 10000);
    process_tell(&c, "release");
    process_expect(&c, "RELEASE OK", 10000);
    assert_true(process_expect_token(&b, 10000) > second);
    process_finish(&a);
    process_finish(&b);
    process_finish(&c);
    ts_nobody_was_late(mysql, name);
}

/* ------------------------------------------------------------------------------- main */

static int begin(void **state)
{
    ts_own_start();
    through_begin(state);
    ts_guard_tables(mysql);
    return 0;
}

static int end(void **state)
{
    through_end(state);
    ts_own_remove();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_server_killed_at_the_commit_of_an_acquire),
        BOTH(test_server_killed_at_the_commit_of_a_release),
        BOTH(test_server_stopped),
        BOTH(test_kill_query_everywhere),
        BOTH(test_kill_connections),
        BOTH(test_holder_exits),
        ONCE(test_dead_waiter_for_a_row),
        ONCE(test_stopped_waiter_for_a_row),
    };
    (void)argc;
    signal(SIGPIPE, SIG_IGN);
    process_begin(argv[0]);
    return cmocka_run_group_tests_name("kills", tests, begin, end);
}
