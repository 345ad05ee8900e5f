/*
 * What the network can do to a call: lose it, lose its reply, stall, cut. In between
 * stands a proxy. After each fault: at most one holder, the next one gets in within
 * TTL + 1 s, tokens rise, and UNKNOWN is said only where nobody could be asked.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "faults/through.h"
#include "rowlock/rowlock_mysql.h"

static int begin(void **state)
{
    through_begin(state);
    ts_sql(mysql, "CREATE TABLE work (id INT PRIMARY KEY AUTO_INCREMENT, who VARCHAR(60))"
                  " ENGINE = InnoDB");
    return 0;
}

static rowlock_client *open_polling(void)
{
    rowlock_client_options options = through_options();
    rowlock_client *client = NULL;
    options.waiting = ROWLOCK_WAITING_POLL;
    ts_proxy_flow(proxy);
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    return client;
}

/* ---------------------------------------------------------------------- lost replies */

/* The reply is lost, but the server can be asked: the call says what is. */
static void test_a_lost_reply_is_looked_up(void **state)
{
    static const ts_fault faults[] = {TS_LOSE_REPLY, TS_LOSE_COMMAND};
    rowlock_mode mode = ts_mode(state);
    rowlock_client *client = through_open();
    for (int i = 0; i < 2; i++) {
        const char *name = ts_name("looked-up");
        uint64_t token = 0;
        rowlock_hold *hold = NULL;
        next_one_gets_in(name, mode, &token);
        WANT(OK, ts_try(client, name, mode)); /* from here on it knows name and statements */
        ts_proxy_arm(proxy, faults[i], taking(mode), 1, false);
        WANT(OK, acquire_kept(client, name, mode, 5000, &hold));
        assert_true(ts_proxy_fired(proxy));
        assert_true(rowlock_hold_token(hold) > token);
        token = rowlock_hold_token(hold);
        assert_true(is_ours(hold));
        WANT(BUSY, ts_try(direct, name, mode));
        WANT(OK, rowlock_release(hold, &ts_err));
        next_one_gets_in(name, mode, &token);
    }
    rowlock_client_close(client);
}

/* A server that is late with the change is no lock that is held: it is found out, or done again. */
static void test_a_late_reply_to_a_try(void **state)
{
    rowlock_mode mode = ts_mode(state);
    rowlock_client *client = through_open();
    const char *name = ts_name("late-reply");
    rowlock_hold *hold = NULL;
    uint64_t token = 0;
    next_one_gets_in(name, mode, &token);
    WANT(OK, ts_try(client, name, mode));
    ts_proxy_arm(proxy, TS_STALL_REPLY, taking(mode), 1, false);
    WANT(OK, acquire_kept(client, name, mode, 0, &hold));
    assert_true(ts_proxy_fired(proxy));
    assert_true(rowlock_hold_token(hold) > token);
    token = rowlock_hold_token(hold);
    assert_true(is_ours(hold));
    WANT(BUSY, ts_try(direct, name, mode));
    WANT(OK, rowlock_release(hold, &ts_err));
    ts_proxy_flow(proxy);
    next_one_gets_in(name, mode, &token);
    rowlock_client_close(client);
}

/* Nobody can be asked. A lease may be held by nobody for its TTL; a row lock ended with its
 * connection, and that is known. */
static void test_a_lost_reply_and_nobody_to_ask(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("unknown");
    rowlock_client *client = through_open_hasty();
    uint64_t token = 0;
    rowlock_hold *hold = NULL;
    next_one_gets_in(name, mode, &token);
    WANT(OK, ts_try(client, name, mode));
    ts_proxy_arm(proxy, TS_LOSE_REPLY, taking(mode), 1, true);
    if (mode == ROWLOCK_OPTIMISTIC)
        WANT(UNKNOWN, acquire(client, name, mode, 0, &hold));
    else
        WANT(UNAVAILABLE, acquire(client, name, mode, 0, &hold));
    assert_true(ts_proxy_fired(proxy));
    assert_null(hold);
    ts_proxy_flow(proxy);
    next_one_gets_in(name, mode, &token);
    WANT(OK, ts_try(client, name, mode));
    rowlock_client_close(client);
}

/* Nothing was sent: nothing can have been taken. */
static void test_no_connection_at_all(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("refused");
    rowlock_client *client = through_open_hasty();
    rowlock_hold *hold = NULL;
    WANT(OK, ts_try(client, name, mode));
    ts_proxy_refuse(proxy, true);
    ts_proxy_cut(proxy);
    WANT(UNAVAILABLE, acquire(client, name, mode, 0, &hold));
    WANT(OK, ts_try(direct, name, mode));
    /* A wait bears an outage of reconnect_ms. */
    int64_t start = ts_now_ms();
    WANT(UNAVAILABLE, acquire(client, name, mode, 10000, &hold));
    assert_between(100, ts_now_ms() - start, 1500 + ts_slack_ms());
    ts_proxy_flow(proxy);
    WANT(OK, ts_try(client, name, mode));
    rowlock_client_close(client);
}

static void test_a_release_without_its_reply(void **state)
{
    static const ts_fault faults[] = {TS_LOSE_REPLY, TS_LOSE_COMMAND};
    rowlock_mode mode = ts_mode(state);
    rowlock_client *client = through_open();
    for (int i = 0; i < 2; i++) {
        const char *name = ts_name("release");
        uint64_t token = 0;
        rowlock_hold *hold = NULL;
        WANT(OK, ts_try(client, name, mode));
        WANT(OK, acquire_kept(client, name, mode, 0, &hold));
        token = rowlock_hold_token(hold);
        ts_proxy_arm(proxy, faults[i], giving(mode), 1, false);
        WANT(OK, rowlock_release(hold, &ts_err));
        assert_true(ts_proxy_fired(proxy));
        WANT(OK, ts_try(direct, name, mode));
        next_one_gets_in(name, mode, &token);
    }
    rowlock_client_close(client);
}

/* The COMMIT is on its way and arrives for nobody: the server would keep the row for the TTL. */
static void test_a_release_whose_commit_is_stuck(void **state)
{
    const char *name = ts_name("release-stuck");
    rowlock_client *client = through_open();
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_PESSIMISTIC, 60000);
    (void)state;
    ts_proxy_arm(proxy, TS_DELAY_COMMAND, giving(ROWLOCK_PESSIMISTIC), 1, false);
    rowlock_status status = rowlock_release(hold, &ts_err);
    assert_true(status == ROWLOCK_OK || status == ROWLOCK_UNKNOWN);
    assert_true(ts_proxy_fired(proxy));
    WANT(OK, acquire(direct, name, ROWLOCK_PESSIMISTIC, 10000, &hold));
    WANT(OK, rowlock_release(hold, &ts_err));
    ts_proxy_flow(proxy);
    rowlock_client_close(client);
}

static void test_a_release_and_nobody_to_ask(void **state)
{
    static const ts_fault faults[] = {TS_LOSE_REPLY, TS_LOSE_COMMAND};
    rowlock_mode mode = ts_mode(state);
    for (int i = 0; i < 2; i++) {
        rowlock_client *client = through_open_hasty();
        const char *name = ts_name("release-unknown");
        uint64_t token = 0;
        rowlock_hold *hold = NULL;
        WANT(OK, ts_try(client, name, mode));
        WANT(OK, acquire_kept(client, name, mode, 0, &hold));
        token = rowlock_hold_token(hold);
        ts_proxy_arm(proxy, faults[i], giving(mode), 1, true);
        WANT(UNKNOWN, rowlock_release(hold, &ts_err));
        ts_proxy_flow(proxy);
        next_one_gets_in_after(TS_KEPT_TTL, name, mode, &token);
        rowlock_client_close(client);
    }
}

/* ---------------------------------------------------------- every command, one by one */

/* A cycle in which the nth command is lost. False: there were fewer commands. */
static bool cycle_with_fault(rowlock_mode mode, ts_fault fault, unsigned nth, bool then_refuse)
{
    const char *name = ts_name("cycle");
    uint64_t token = 0;
    rowlock_hold *hold = NULL;
    rowlock_client *client = then_refuse ? through_open_hasty() : through_open();
    ts_proxy_arm(proxy, fault, NULL, nth, then_refuse);
    /* What is left behind where it can be looked up would be in the way of the next one. */
    const rowlock_acquire_options how = {
        .mode = mode, .wait_ms = 10000, .ttl_ms = then_refuse ? ts_short_ttl(mode) : 60000};
    rowlock_status status = rowlock_acquire(client, name, &how, &hold, &ts_err);
    if (status == ROWLOCK_OK) {
        token = rowlock_hold_token(hold);
        if (rowlock_hold_check(hold) == ROWLOCK_OK && !ts_proxy_fired(proxy))
            assert_true(is_ours(hold));
        status = rowlock_release(hold, &ts_err);
        assert_true(status == ROWLOCK_OK || ts_proxy_fired(proxy));
    }
    if (!then_refuse && status != ROWLOCK_OK)
        print_error("%s, command %u, fault %d: %s\n", ts_mode_word(mode), nth, (int)fault,
                    ts_err.message);
    assert_true(status == ROWLOCK_OK || then_refuse);
    assert_true(status == ROWLOCK_OK || status == ROWLOCK_UNAVAILABLE ||
                status == ROWLOCK_UNKNOWN || status == ROWLOCK_LOST);
    bool fired = ts_proxy_fired(proxy);
    ts_proxy_flow(proxy);
    next_one_gets_in(name, mode, &token);
    rowlock_client_close(client);
    return fired;
}

static void test_every_command_of_a_cycle(void **state)
{
    static const ts_fault faults[] = {TS_LOSE_COMMAND, TS_LOSE_REPLY};
    rowlock_mode mode = ts_mode(state);
    for (int i = 0; i < 2; i++)
        for (int refuse = 0; refuse < 2; refuse++) {
            unsigned nth = 1;
            while (nth < 100 && cycle_with_fault(mode, faults[i], nth, refuse))
                nth++;
            assert_between(5, nth, 99);
        }
}

static rowlock_status nothing(void *data, const rowlock_section *section)
{
    (void)section;
    ++*(unsigned *)data;
    return ROWLOCK_OK;
}

/* Exactly one version more, whatever was lost; with nobody to ask, at most one. */
static void test_every_command_of_a_section(void **state)
{
    static const ts_fault faults[] = {TS_LOSE_COMMAND, TS_LOSE_REPLY};
    (void)state;
    for (int i = 0; i < 4; i++) {
        bool refuse = i >= 2;
        bool fired = true;
        for (unsigned nth = 1; fired && nth < 100; nth++) {
            const char *name = ts_name("section");
            uint64_t before = 0;
            unsigned calls = 0;
            rowlock_section_result result = {0};
            WANT(OK, rowlock_version_read(direct, name, &before, &ts_err));
            rowlock_client *client = refuse ? through_open_hasty() : through_open();
            ts_proxy_arm(proxy, faults[i % 2], NULL, nth, refuse);
            rowlock_status status =
                rowlock_section_run(client, name, NULL, nothing, &calls, &result, &ts_err);
            fired = ts_proxy_fired(proxy);
            uint64_t after = ts_sql_u64(
                mysql, "SELECT version FROM resource WHERE resource_name = %s", ts_quote(name));
            if (!refuse) {
                WANT(OK, status);
                assert_int_equal(result.version, after);
            }
            if (status == ROWLOCK_OK)
                assert_int_equal(after, before + 1);
            else if (status == ROWLOCK_UNAVAILABLE)
                assert_int_equal(after, before);
            else
                WANT(UNKNOWN, status);
            ts_proxy_flow(proxy);
            rowlock_client_close(client);
        }
        assert_false(fired);
    }
}

static void test_every_command_of_opening(void **state)
{
    static const ts_fault faults[] = {TS_LOSE_COMMAND, TS_LOSE_REPLY};
    rowlock_client_options options = ts_options();
    (void)state;
    options.socket = ts_proxy_socket(proxy);
    options.connect_timeout_ms = 3000;
    for (int i = 0; i < 2; i++) {
        bool fired = true;
        for (unsigned nth = 1; fired && nth < 100; nth++) {
            rowlock_client *client = NULL;
            ts_proxy_arm(proxy, faults[i], NULL, nth, false);
            rowlock_status status = rowlock_client_open(&options, &client, &ts_err);
            fired = ts_proxy_fired(proxy);
            if (status == ROWLOCK_OK)
                rowlock_client_close(client);
            else
                WANT(UNAVAILABLE, status);
            ts_proxy_flow(proxy);
        }
        assert_false(fired);
    }
}

/* ------------------------------------------------------- the commit of a transaction */

static rowlock_status insert_one(void *data, const rowlock_section *section, MYSQL *conn)
{
    (void)data;
    ts_sql(conn, "INSERT INTO work (who) VALUES (%s)", ts_quote(section->name));
    return ROWLOCK_OK;
}

/* The caller's own connection loses its COMMIT, or the reply to it. */
static void test_the_commit_of_a_section(void **state)
{
    static const ts_fault faults[] = {TS_LOSE_REPLY, TS_LOSE_COMMAND};
    (void)state;
    for (int i = 0; i < 2; i++) {
        const char *name = ts_name("commit");
        MYSQL *own = mysql_init(NULL);
        assert_non_null(
            mysql_real_connect(own, NULL, "root", NULL, ts_schema(), 0, ts_proxy_socket(proxy), 0));
        ts_proxy_arm(proxy, faults[i], "COMMIT", 1, false);
        rowlock_section_result result = {0};
        rowlock_status status =
            rowlock_tx_section_run(direct, own, name, NULL, insert_one, NULL, &result, &ts_err);
        assert_true(ts_proxy_fired(proxy));
        uint64_t rows =
            ts_sql_u64(mysql, "SELECT COUNT(*) FROM work WHERE who = %s", ts_quote(name));
        if (faults[i] == TS_LOSE_REPLY) {
            WANT(OK, status);
            assert_int_equal(rows, 1);
        } else {
            WANT(UNAVAILABLE, status);
            assert_int_equal(rows, 0);
        }
        mysql_close(own);
        ts_proxy_flow(proxy);
    }
}

/* ------------------------------------------------------------------ stalled and cut */

static void test_a_cut_while_held(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("cut");
    rowlock_client *client = through_open();
    rowlock_hold *hold = NULL;
    uint64_t token = 0;
    const rowlock_acquire_options how = {.mode = mode, .ttl_ms = TS_KEPT_TTL};
    WANT(OK, rowlock_acquire(client, name, &how, &hold, &ts_err));
    token = rowlock_hold_token(hold);
    int64_t cut = ts_now_ms();
    ts_proxy_cut(proxy);
    if (mode == ROWLOCK_PESSIMISTIC) {
        /* The lock ends with its connection, and that shows at once. */
        assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
        assert_between(0, ts_now_ms() - cut, 250 + ts_slack_ms());
        next_one_gets_in(name, mode, &token);
        WANT(LOST, rowlock_release(hold, &ts_err));
    } else {
        /* A lease does not: it is renewed on another one. */
        for (int64_t until = cut + TS_KEPT_FOR; ts_now_ms() < until; ts_pass_ms(20))
            assert_held(hold);
        WANT(BUSY, ts_try(direct, name, mode));
        WANT(OK, rowlock_release(hold, &ts_err));
        next_one_gets_in(name, mode, &token);
    }
    rowlock_client_close(client);
}

/* The line is dead for longer than the TTL: the holder knows before anybody else can have it
 * (a lease), or when its ping is not answered (a row lock). */
static void test_a_long_stall_while_held(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("stall");
    int64_t ttl = ts_short_ttl(mode);
    rowlock_client *client = through_open();
    rowlock_hold *hold = NULL;
    WANT(OK, acquire(client, name, mode, 0, &hold));
    uint64_t token = rowlock_hold_token(hold);
    ts_waiter waiter = {.client = direct, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 10000};
    ts_waiter_start(&waiter);
    int64_t start = ts_now_ms();
    int64_t stood = ts_stood_ms();
    ts_proxy_stall(proxy, true);
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    int64_t told = ts_now_ms();
    assert_between(0, told - start, ttl + ts_slack_ms());
    WANT(OK, ts_waiter_join(&waiter, 10000));
    assert_between(0, waiter.ended_ms - start, ttl + 1000 + ts_slack_ms());
    if (mode == ROWLOCK_OPTIMISTIC)
        assert_between(0, told, waiter.ended_ms + ts_stood_ms() - stood); /* when we looked */
    assert_true(rowlock_hold_token(waiter.hold) > token);
    ts_proxy_stall(proxy, false);
    ts_proxy_flow(proxy);
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_held(waiter.hold);
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    rowlock_client_close(client);
}

static void test_a_short_stall_while_held(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("short-stall");
    int64_t ttl = TS_KEPT_TTL;
    rowlock_client *client = through_open();
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {.mode = mode, .ttl_ms = ttl};
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    for (int i = 0; i < 3; i++) {
        ts_proxy_stall(proxy, true);
        ts_pass_ms(ttl / 8);
        ts_proxy_stall(proxy, false);
        ts_pass_ms(ttl / 3);
        assert_held(hold);
    }
    WANT(BUSY, ts_try(direct, name, mode));
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
}

/* What a call that has ended sent into the dead line, and the server reads later, may not
 * take the lock behind everybody's back: unless the call said UNKNOWN, nothing happens. */
static void after_the_line_is_back(const char *name, rowlock_mode mode, rowlock_status said,
                                   uint64_t token)
{
    ts_proxy_flow(proxy);
    ts_pass_ms(100);
    uint64_t now =
        ts_sql_u64(mysql, "SELECT version FROM resource WHERE resource_name = %s", ts_quote(name));
    if (said != ROWLOCK_UNKNOWN)
        assert_int_equal(now, token);
    else
        assert_between((int64_t)token, (int64_t)now, (int64_t)token + 1);
    next_one_gets_in(name, mode, &token);
}

/* A call in progress when the line goes dead ends on time all the same. */
static void test_a_wait_on_a_dead_line(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("dead-line");
    rowlock_client *client = through_open();
    rowlock_hold *hold = ts_take(direct, name, mode, 30000);
    uint64_t token = rowlock_hold_token(hold);
    WANT(BUSY, ts_try(client, name, mode));
    ts_waiter waiter = {.client = client, .name = name};
    waiter.options =
        (rowlock_acquire_options){.mode = mode, .wait_ms = 1000, .ttl_ms = ts_short_ttl(mode)};
    ts_waiter_start(&waiter);
    ts_pass_ms(200);
    ts_proxy_stall(proxy, true);
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_status status = ts_waiter_join(&waiter, 10000);
    assert_true(status == ROWLOCK_TIMEOUT || status == ROWLOCK_UNAVAILABLE ||
                status == ROWLOCK_UNKNOWN);
    assert_between(990, waiter.ended_ms - waiter.started_ms, 1000 + 2 * ts_slack_ms());
    after_the_line_is_back(name, mode, status, token);
    rowlock_client_close(client);
}

static void test_cancel_on_a_dead_line(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("dead-cancel");
    rowlock_client *client = through_open();
    rowlock_cancel *cancel = NULL;
    WANT(OK, rowlock_cancel_new(&cancel, &ts_err));
    rowlock_hold *hold = ts_take(direct, name, mode, 30000);
    uint64_t token = rowlock_hold_token(hold);
    WANT(BUSY, ts_try(client, name, mode));
    ts_waiter waiter = {.client = client, .name = name};
    waiter.options = (rowlock_acquire_options){
        .mode = mode, .wait_ms = -1, .ttl_ms = ts_short_ttl(mode), .cancel = cancel};
    ts_waiter_start(&waiter);
    ts_pass_ms(200);
    ts_proxy_stall(proxy, true);
    ts_pass_ms(300);
    WANT(OK, rowlock_release(hold, &ts_err));
    int64_t fired = ts_now_ms();
    rowlock_cancel_fire(cancel);
    rowlock_status status = ts_waiter_join(&waiter, 10000);
    assert_true(status == ROWLOCK_CANCELLED || status == ROWLOCK_UNKNOWN);
    assert_between(-1, waiter.ended_ms - fired, 2 * ts_slack_ms());
    after_the_line_is_back(name, mode, status, token);
    rowlock_client_close(client);
    rowlock_cancel_free(cancel);
}

/* ------------------------------------------------------------------- late commands */

static void expect_kept(rowlock_hold *hold, int64_t ms)
{
    for (int64_t until = ts_now_ms() + ms; ts_now_ms() < until; ts_pass_ms(10)) {
        assert_held(hold);
        WANT(BUSY, ts_try(direct, rowlock_hold_name(hold), rowlock_hold_mode(hold)));
    }
}

/* Whose renewal it lives by; 0: nobody's. */
static uint64_t renewed_version(const char *name)
{
    return ts_sql_u64(mysql,
                      "SELECT IF(l.expires_at > UTC_TIMESTAMP(6), l.version, 0)"
                      "  FROM lease_renewal l JOIN resource r ON r.id = l.id"
                      " WHERE r.resource_name = %s",
                      ts_quote(name));
}

/* A renewal that the network delivers when its lease has long been somebody else's, and that
 * one lives by its own renewals: it must not touch them. */
static void test_a_renewal_delivered_late(void **state)
{
    const char *name = ts_name("late-renewal");
    /* Without a bell: who takes a lease over has the connection killed that keeps its bell. */
    rowlock_client *client = open_polling();
    rowlock_client *third = ts_open();
    rowlock_hold *old = NULL;
    (void)state;
    WANT(OK, acquire(client, name, ROWLOCK_OPTIMISTIC, 0, &old));
    ts_proxy_arm(proxy, TS_DELAY_COMMAND, "l.expires_at = UTC_TIMESTAMP(6) + INTERVAL k.ttl_us", 1,
                 true);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 10000));
    rowlock_hold *hold = ts_take(third, name, ROWLOCK_OPTIMISTIC, 6000);
    WANT(LOST, rowlock_hold_check(old));
    /* As if it had been renewed for long: all that it has is its renewal. */
    assert_true(POLL_UNTIL(renewed_version(name) == rowlock_hold_token(hold), 10000));
    ts_sql(mysql, "UPDATE resource SET lease_expires_at = acquired_at WHERE resource_name = %s",
           ts_quote(name));
    uint64_t commands = ts_proxy_commands(proxy);
    ts_proxy_flow(proxy);
    /* It arrives at last, from a connection whose other end has given up. */
    assert_true(POLL_UNTIL(ts_proxy_commands(proxy) > commands, 10000));
    expect_kept(hold, 400);
    assert_int_equal(renewed_version(name), rowlock_hold_token(hold));
    WANT(LOST, rowlock_release(old, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
    rowlock_client_close(third);
}

/* A take-over is on its way while the holder, who was late, renews: the holder stays. */
static void test_a_renewal_overtakes_a_take_over(void **state)
{
    const char *name = ts_name("overtaken");
    rowlock_client *client = through_open();
    rowlock_client *third = ts_open();
    (void)state;
    rowlock_hold *hold = ts_take(third, name, ROWLOCK_OPTIMISTIC, 30000);
    uint64_t token = rowlock_hold_token(hold);
    WANT(BUSY, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
    ts_proxy_arm(proxy, TS_DELAY_COMMAND, "SET r.version = LAST_INSERT_ID", 1, false);
    ts_waiter waiter = {.client = client, .name = name, .options = {.wait_ms = 4000}};
    ts_waiter_start(&waiter);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 10000));
    ts_sql(mysql,
           "UPDATE lease_renewal l JOIN resource r ON r.id = l.id SET l.version = r.version,"
           " l.expires_at = UTC_TIMESTAMP(6) + INTERVAL 60 SECOND WHERE r.resource_name = %s",
           ts_quote(name));
    ts_proxy_flow(proxy);
    rowlock_status status = ts_waiter_join(&waiter, 10000);
    assert_true(status == ROWLOCK_TIMEOUT);
    assert_held(hold);
    assert_int_equal(
        ts_sql_u64(mysql, "SELECT version FROM resource WHERE resource_name = %s", ts_quote(name)),
        token);
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
    rowlock_client_close(third);
}

/* Two take over: the second statement arrives when the first has had its effect. */
static void test_a_take_over_overtakes_another(void **state)
{
    const char *name = ts_name("two-take-over");
    rowlock_client *client = through_open();
    (void)state;
    rowlock_hold *dead = ts_take(direct, name, ROWLOCK_OPTIMISTIC, 30000);
    WANT(BUSY, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
    ts_proxy_arm(proxy, TS_DELAY_COMMAND, "SET r.version = LAST_INSERT_ID", 1, false);
    ts_waiter waiter = {.client = client, .name = name, .options = {.wait_ms = 4000}};
    ts_waiter_start(&waiter);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 10000));
    rowlock_hold *hold = ts_take(direct, name, ROWLOCK_OPTIMISTIC, 30000);
    ts_proxy_flow(proxy);
    WANT(TIMEOUT, ts_waiter_join(&waiter, 10000));
    assert_held(hold);
    WANT(LOST, rowlock_release(dead, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
}

/* The connection that has rows locked; the view is a cache of 0.1 s. */
static unsigned long row_lockers_connection(void)
{
    unsigned long id = 0;
    for (int i = 0; id == 0 && i < 20; i++, ts_pass_ms(150))
        id = ts_sql_u64(mysql,
                        "SELECT COALESCE(MAX(id), 0) FROM information_schema.processlist"
                        " WHERE db = '%s' AND id IN (SELECT trx_mysql_thread_id FROM"
                        " information_schema.innodb_trx WHERE trx_rows_locked > 0)",
                        ts_schema());
    assert_true(id > 0);
    return id;
}

/* The connection with the row lock dies while the version is being published on another: the
 * token was not made under the lock, and nobody may believe to hold it. */
static void test_a_row_lock_dies_while_it_is_published(void **state)
{
    const char *name = ts_name("published");
    rowlock_client *client = through_open();
    (void)state;
    WANT(OK, ts_try(client, name, ROWLOCK_PESSIMISTIC));
    ts_proxy_arm(proxy, TS_DELAY_COMMAND, taking(ROWLOCK_PESSIMISTIC), 1, false);
    ts_waiter waiter = {.client = client, .name = name};
    waiter.options =
        (rowlock_acquire_options){.mode = ROWLOCK_PESSIMISTIC, .wait_ms = 10000, .ttl_ms = 30000};
    ts_waiter_start(&waiter);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 10000));
    ts_sql(mysql, "KILL CONNECTION %lu", row_lockers_connection());
    assert_true(POLL_UNTIL(ts_try(direct, name, ROWLOCK_PESSIMISTIC) == ROWLOCK_OK, 10000));
    ts_proxy_flow(proxy);
    rowlock_status status = ts_waiter_join(&waiter, 10000);
    if (status == ROWLOCK_OK) {
        /* It may have tried again, and then it has it. */
        WANT(BUSY, ts_try(direct, name, ROWLOCK_PESSIMISTIC));
        WANT(OK, rowlock_release(waiter.hold, &ts_err));
    } else {
        assert_true(status == ROWLOCK_UNAVAILABLE);
        WANT(OK, ts_try(direct, name, ROWLOCK_PESSIMISTIC));
    }
    rowlock_client_close(client);
}

/* Closing a client whose server does not answer takes a while, not for ever. */
static void test_closing_on_a_dead_line(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("dead-close");
    rowlock_client *client = through_open();
    rowlock_hold *hold = NULL;
    WANT(OK, acquire(client, name, mode, 0, &hold));
    uint64_t token = rowlock_hold_token(hold);
    ts_proxy_stall(proxy, true);
    int64_t start = ts_now_ms();
    rowlock_client_close(client);
    assert_between(0, ts_now_ms() - start, 6000 + ts_slack_ms());
    ts_proxy_flow(proxy);
    ts_proxy_cut(proxy);
    next_one_gets_in(name, mode, &token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_a_lost_reply_is_looked_up),
        BOTH(test_a_late_reply_to_a_try),
        BOTH(test_a_lost_reply_and_nobody_to_ask),
        BOTH(test_no_connection_at_all),
        BOTH(test_a_release_without_its_reply),
        ONCE(test_a_release_whose_commit_is_stuck),
        BOTH(test_a_release_and_nobody_to_ask),
        BOTH(test_every_command_of_a_cycle),
        ONCE(test_every_command_of_a_section),
        ONCE(test_every_command_of_opening),
        ONCE(test_the_commit_of_a_section),
        BOTH(test_a_cut_while_held),
        BOTH(test_a_long_stall_while_held),
        BOTH(test_a_short_stall_while_held),
        BOTH(test_a_wait_on_a_dead_line),
        BOTH(test_cancel_on_a_dead_line),
        ONCE(test_a_row_lock_dies_while_it_is_published),
        ONCE(test_a_renewal_delivered_late),
        ONCE(test_a_renewal_overtakes_a_take_over),
        ONCE(test_a_take_over_overtakes_another),
        BOTH(test_closing_on_a_dead_line),
    };
    return cmocka_run_group_tests_name("wire", tests, begin, through_end);
}
