/*
 * Processes that are killed, on a server of the test's own. After each death: at most one holder at
 * any time (by the holders' guarded beats), the next one acquires within TTL + 1 s, tokens rise.
 */
#include "engine/settle.h"
#include "faults/process.h"
#include "support/own_server.h"

static MYSQL *mysql;

/* After a restart within a second, our connection may have the number of one that a client wants to
 * have ended (src/engine/settle.c), and be ended in its place. So this connects again after an
 * error. */
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

/* `a` has the lock and beats, `b` waits for it. There is a pair of each mode, and both go through
 * the same. */
typedef struct pair {
    rowlock_mode mode;
    const char *name;
    int64_t ttl;
    process a;
    process b;
    uint64_t first;
} pair;

static void pairs_start(pair pairs[2], const char *word, int64_t ttl)
{
    for (pair *p = pairs; p < pairs + 2; p++) {
        char name[60];
        rowlock_mode mode = ts_modes[p - pairs];
        snprintf(name, sizeof name, "%s-%s", word, ts_mode_word(mode));
        *p = (pair){.mode = mode, .name = ts_guarded(mysql, name), .ttl = ttl};
        p->a = process_start(p->name, mode, ttl);
        p->first = process_expect_token(&p->a, 10000);
        expect_beats(p->name, p->first);
        p->b = process_start(p->name, mode, ttl);
    }
    for (pair *p = pairs; p < pairs + 2; p++)
        assert_false(process_hear(&p->b, 300));
}

static void b_gets_in(pair *p, int64_t within_ms)
{
    uint64_t second = process_expect_token(&p->b, within_ms + ts_slack_ms());
    assert_true(second > p->first);
    expect_beats(p->name, second);
}

/* `a` has kept the lock; it releases, and `b` acquires. */
static void a_has_kept_it(pair *p)
{
    process_ask(&p->a, "check", "CHECK OK");
    expect_beats(p->name, p->first);
    assert_false(process_hear(&p->b, 100));
    process_ask(&p->a, "release", "RELEASE OK");
    b_gets_in(p, 10000);
}

/* The late release of `a` does no harm. */
static void a_has_lost_it(pair *p)
{
    process_ask(&p->a, "check", "CHECK LOST");
    process_ask(&p->a, "release", "RELEASE LOST");
    process_ask(&p->b, "check", "CHECK OK");
}

static void pairs_end(pair pairs[2])
{
    for (pair *p = pairs; p < pairs + 2; p++) {
        process_ask(&p->b, "release", "RELEASE OK");
        process_finish(&p->b);
        if (p->a.pid)
            process_finish(&p->a);
        ts_nobody_was_late(mysql, p->name);
    }
}

/* Killed, or ended in order but without telling the server. */
TS_ONCE(test_holder_dies)
{
    for (int exits = 0; exits < 2; exits++) {
        pair pairs[2];
        pairs_start(pairs, exits ? "exits" : "killed", TS_KEPT_TTL);
        for (int i = 1; i >= 0; i--) { /* the row lock first, since it ends with the connection */
            pair *p = &pairs[i];
            int64_t died = ts_now_ms();
            if (exits) {
                process_tell(&p->a, "exit");
                assert_int_equal(ts_reap(p->a.pid, 10000), 0);
                p->a.pid = 0;
            } else {
                process_bury(&p->a);
            }
            int64_t within = p->mode == ROWLOCK_PESSIMISTIC ? 3000 : p->ttl + 3000;
            b_gets_in(p, within - (ts_now_ms() - died));
        }
        pairs_end(pairs);
    }
}

TS_ONCE(test_holder_stopped)
{
    pair pairs[2];
    pairs_start(pairs, "stopped", TS_KEPT_TTL);
    for (pair *p = pairs; p < pairs + 2; p++)
        process_sleep(&p->a);
    for (pair *p = pairs; p < pairs + 2; p++)
        b_gets_in(p, p->ttl + 1000);
    for (pair *p = pairs; p < pairs + 2; p++) {
        process_wake(&p->a);
        process_expect(&p->a, "LOST", 10000);
        a_has_lost_it(p);
    }
    pairs_end(pairs);
}

/* A child has the holder's sockets, and lives on silently when the holder is killed. While both
 * live, the parent has the lock. */
TS_ONCE(test_fork_in_a_holder)
{
    pair pairs[2];
    pid_t children[2];
    pairs_start(pairs, "forked", TS_KEPT_TTL);
    for (pair *p = pairs; p < pairs + 2; p++) {
        process_ask(&p->a, "fork", "CHILD ");
        children[p - pairs] = (pid_t)strtol(p->a.line + 6, NULL, 10);
    }
    ts_pass_ms(TS_KEPT_FOR);
    for (pair *p = pairs; p < pairs + 2; p++) {
        assert_false(process_hear(&p->b, 0));
        process_ask(&p->a, "check", "CHECK OK");
    }
    for (pair *p = pairs; p < pairs + 2; p++)
        process_bury(&p->a);
    for (pair *p = pairs; p < pairs + 2; p++)
        b_gets_in(p, p->ttl + 1000);
    for (int i = 0; i < 2; i++)
        kill(children[i], SIGKILL);
    pairs_end(pairs);
}

static void kill_connections(void)
{
    char *ids = ts_sql_text(mysql,
                            "SELECT GROUP_CONCAT(id) FROM " TS_PROCESSLIST
                            " WHERE id <> CONNECTION_ID() AND db = '%s'",
                            ts_schema());
    for (char *at = ids; *at; at += *at == ',')
        ts_sql_try(mysql, "KILL CONNECTION %lu", strtoul(at, &at, 10));
    free(ids);
}

/* The server ends all connections of holder and waiter. A lease survives that. */
TS_ONCE(test_connections_cut)
{
    pair pairs[2];
    pairs_start(pairs, "cut", TS_KEPT_TTL);
    /* A hold's socket is watched from 50 ms on (docs/guarantees.md, 4). */
    ts_pass_ms(100);
    for (pair *p = pairs; p < pairs + 2; p++)
        process_ask(&p->a, "pause", "PAUSED");
    kill_connections();
    /* The row lock's holder may be told late: until then it must not work. */
    process_expect(&pairs[1].a, "LOST", 10000);
    for (pair *p = pairs; p < pairs + 2; p++)
        process_tell(&p->a, "resume");
    b_gets_in(&pairs[1], TS_KEPT_TTL + 1000);
    assert_false(process_hear(&pairs[0].b, TS_KEPT_FOR));
    a_has_kept_it(&pairs[0]);
    a_has_lost_it(&pairs[1]);
    pairs_end(pairs);
}

/* The first in line for a row lock is stopped: it gets the row, but does not run. The server ends
 * its connection when its TTL is over; it finds out when it goes on. */
TS_ONCE(test_stopped_waiter_for_a_row)
{
    const char *name = ts_guarded(mysql, "stopped-waiter");
    process a = process_start(name, ROWLOCK_PESSIMISTIC, TS_KEPT_TTL);
    uint64_t first = process_expect_token(&a, 10000);
    process b = process_start(name, ROWLOCK_PESSIMISTIC, TS_KEPT_TTL);
    assert_true(ts_row_waits(mysql, "resource_lock", 10000));
    process c = process_start(name, ROWLOCK_PESSIMISTIC, TS_KEPT_TTL);
    assert_false(process_hear(&c, 300));
    kill(b.pid, SIGSTOP);
    process_ask(&a, "release", "RELEASE OK");
    uint64_t second = process_expect_token(&c, TS_KEPT_TTL + 5000);
    assert_true(second > first);
    kill(b.pid, SIGCONT);
    assert_false(process_hear(&b, 1000));
    process_ask(&c, "check", "CHECK OK");
    process_ask(&c, "release", "RELEASE OK");
    assert_true(process_expect_token(&b, 10000) > second);
    process_finish(&a);
    process_finish(&b);
    process_finish(&c);
    ts_nobody_was_late(mysql, name);
}

static void bring_server_back(void)
{
    ts_own_restart();
    ts_reconnect(&mysql);
}

/* A lease with a TTL longer than the outage goes on, however slowly the server starts. */
TS_ONCE(test_server_killed_while_held)
{
    pair pairs[2];
    pairs_start(pairs, "server", 120000);
    ts_own_kill();
    process_expect(&pairs[1].a, "LOST", 10000);
    bring_server_back();
    b_gets_in(&pairs[1], 16000);
    assert_false(process_hear(&pairs[0].b, 500));
    a_has_kept_it(&pairs[0]);
    a_has_lost_it(&pairs[1]);
    pairs_end(pairs);
}

TS_ONCE(test_server_away_for_longer_than_the_ttl)
{
    pair pairs[2];
    pairs_start(pairs, "away", TS_KEPT_TTL);
    ts_own_kill();
    for (pair *p = pairs; p < pairs + 2; p++)
        process_expect(&p->a, "LOST", p->ttl + 1000);
    ts_own_restart();
    int64_t back = ts_now_ms();
    ts_reconnect(&mysql);
    for (pair *p = pairs; p < pairs + 2; p++)
        b_gets_in(p, p->ttl + 1000 - (ts_now_ms() - back));
    for (pair *p = pairs; p < pairs + 2; p++)
        a_has_lost_it(p);
    pairs_end(pairs);
}

/* A request was sent just before the server's restart, and another connection has its connection's
 * number now: settling the request does not end that one. */
TS_ONCE(test_a_number_from_before_a_restart)
{
    enum { MOST = 40 };
    MYSQL *strangers[MOST] = {0};
    const rl_budget budget = rl_budget_start(10000, 0, NULL);
    unsigned count = 0;
    /* Without a connection for the history. */
    TS_CLIENT *client = ts_open_as((rowlock_client_options){.no_history = true});
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
}

static int begin(void **state)
{
    ts_own_start();
    ts_suite_begin(state);
    mysql = ts_connect(ts_schema());
    ts_guard_tables(mysql);
    return 0;
}

static int end(TS_NO_STATE)
{
    mysql_close(mysql);
    ts_own_remove();
    return 0;
}

PROCESS_MAIN("death", begin, end)
