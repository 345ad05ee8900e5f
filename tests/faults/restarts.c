/*
 * The server is killed and restarted during a leader's calls, a job once in a period, and an ask:
 * between two calls, just before and just after the deciding statement, and for longer than a TTL.
 * Afterwards everything is as reported, and nothing is done twice.
 */
#include "faults/restart.h"
#include "rowlock/rowlock_leader.h"
#include "rowlock/rowlock_once.h"

#define HOUR INT64_C(3600000000)

static const int64_t first = 400000 * HOUR;
/* --------------------------------------------------------- a call that is under way then */

typedef enum what { LEAD, SET_VALUE, BEGIN, DONE, FAILED } what;

static const char *const statements[] = {[LEAD] = "leader_publish",
                                         [SET_VALUE] = "leader_publish",
                                         [BEGIN] = "once_insert once_take",
                                         [DONE] = "once_end",
                                         [FAILED] = "once_end"};

typedef struct call {
    restart_call of;
    what what;
    rowlock_hold *hold;
    rowlock_once_result result;
} call;

static rowlock_status lead(rowlock_client *client, const char *name, const char *value,
                           rowlock_hold **hold, rowlock_error *err)
{
    const rowlock_acquire_options options = {.wait_ms = RESTART, .ttl_ms = LONG, .value = value};
    return rowlock_acquire(client, name, &options, hold, err);
}

static rowlock_status begin_period(rowlock_hold *hold, rowlock_once_result *result,
                                   rowlock_error *err)
{
    const rowlock_once_options options = {.wait_ms = RESTART};
    return rowlock_once_begin(hold, first, first + HOUR, &options, result, err);
}

static rowlock_status carry_out(restart_call *of)
{
    call *c = (call *)of;
    switch (c->what) {
    case LEAD:
        return lead(of->client, of->name, "during", &c->hold, &of->err);
    case SET_VALUE:
        return rowlock_hold_set_value(c->hold, "during", &of->err);
    case BEGIN:
        return begin_period(c->hold, &c->result, &of->err);
    case DONE:
        return rowlock_once_done(c->hold, &of->err);
    case FAILED:
        return rowlock_once_failed(c->hold, 7, &of->err);
    }
    return ROWLOCK_INVALID;
}

static uint64_t changed(const char *name)
{
    return ts_sql_u64(mysql,
                      "SELECT COALESCE(SUM(o.attempts * 10 + (o.state = 'running')), 0)"
                      " + (SELECT COUNT(*) FROM lock_value v WHERE v.resource_id = r.id"
                      "     AND v.value = 'during') * 1000 FROM resource r LEFT JOIN once_run o"
                      " ON o.resource_id = r.id WHERE r.resource_name = %s",
                      ts_quote(name));
}

/* A client that has prepared all of these statements. */
static rowlock_client *open_through(void)
{
    rowlock_client *client = open_patiently();
    const char *name = ts_name("warm");
    for (int i = 0; i < 2; i++) {
        rowlock_once_result result;
        rowlock_hold *hold = NULL;
        WANT(OK, lead(client, name, "warm", &hold, &ts_err));
        WANT(OK, begin_period(hold, &result, &ts_err));
        WANT(OK, rowlock_once_failed(hold, 1, &ts_err));
        WANT(OK, rowlock_release(hold, &ts_err));
    }
    return client;
}

/* The call still succeeds. */
static void good_all_the_same(call *c, ts_fault moment)
{
    killed_at(&c->of, sizeof *c, statements[c->what], moment, changed);
    WANT(OK, c->of.status);
    assert_held(c->hold);
}

/* --------------------------------------------------------------------------------- leaders */

static void led_with(const char *name, const char *value, uint64_t token)
{
    rowlock_leader leader;
    WANT(OK, rowlock_observe(patient, name, NULL, &leader, &ts_err));
    assert_string_equal(leader.value, value);
    assert_true(leader.token == token);
    assert_int_equal(leader.leads, *value != 0);
}

static ts_waiter next_leader(const char *name)
{
    ts_waiter waiter = {.client = patient,
                        .name = name,
                        .options = {.wait_ms = 2L * RESTART, .ttl_ms = LONG, .value = "next"}};
    ts_waiter_start(&waiter);
    return waiter;
}

/* The leader goes on leading, with its value, and the waiter acquires after it. */
TS_ONCE(test_a_leader_leads_on)
{
    const char *name = ts_name("leads-on");
    TS_CLIENT *client = open_through();
    rowlock_hold *hold = NULL;
    WANT(OK, lead(client, name, "before", &hold, &ts_err));
    const uint64_t token = rowlock_hold_token(hold);
    ts_waiter waiter = next_leader(name);
    restart_server();
    led_with(name, "before", token);
    WANT(OK, rowlock_hold_set_value(hold, "after", &ts_err));
    led_with(name, "after", token);
    assert_false(ts_waiter_ended(&waiter));
    WANT(OK, rowlock_release(hold, &ts_err));
    ASSERT_GETS_IN(&waiter, token, RESTART);
    led_with(name, "next", rowlock_hold_token(waiter.hold));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
}

/* The leader is told before anybody else leads; its later values are not seen. */
TS_ONCE(test_away_for_longer_than_a_leaders_ttl)
{
    const char *name = ts_name("away");
    TS_CLIENT *client = open_through();
    const rowlock_acquire_options options = {.ttl_ms = TS_KEPT_TTL, .value = "before"};
    rowlock_hold *hold = ts_take_with(client, name, options);
    const uint64_t token = rowlock_hold_token(hold);
    ts_waiter waiter = next_leader(name);
    ts_own_kill();
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, TS_KEPT_TTL + 5000));
    assert_false(ts_waiter_ended(&waiter));
    ts_own_restart();
    ts_reconnect(&mysql);
    WANT(LOST, rowlock_hold_set_value(hold, "late", &ts_err));
    ASSERT_GETS_IN(&waiter, token, RESTART);
    led_with(name, "next", rowlock_hold_token(waiter.hold));
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    led_with(name, "", 0);
}

TS_ONCE(test_killed_at_a_publication)
{
    for (unsigned i = 0; i < 4; i++) {
        TS_CLIENT *client = open_through();
        const char *name = ts_name("publication");
        call c = {.of = {.carry_out = carry_out, .client = client, .name = name},
                  .what = i < 2 ? LEAD : SET_VALUE};
        if (c.what == SET_VALUE)
            WANT(OK, lead(client, name, "before", &c.hold, &ts_err));
        good_all_the_same(&c, moments[i % 2]);
        led_with(name, "during", rowlock_hold_token(c.hold));
        WANT(OK, rowlock_hold_set_value(c.hold, "after", &ts_err));
        led_with(name, "after", rowlock_hold_token(c.hold));
        WANT(OK, rowlock_release(c.hold, &ts_err));
    }
}

/* ----------------------------------------------------------------- sessions of a lease's holder */

/* After its start the server counts from 1: makes a connection with that number, if nobody has it
 * yet. */
static MYSQL *connect_as_number(unsigned long number)
{
    MYSQL *one = ts_connect(NULL);
    while (mysql_thread_id(one) < number) {
        mysql_close(one);
        one = ts_connect(NULL);
    }
    return one;
}

/* Registered sessions ended with the server; connections that have their numbers now are not
 * ended. */
TS_ONCE(test_registered_sessions_end_with_the_server)
{
    const char *name = ts_name("sessions");
    rowlock_hold *hold = ts_take(patient, name, ROWLOCK_OPTIMISTIC, LONG);
    MYSQL *own = connect_as_number(mysql_thread_id(mysql) + 50);
    const unsigned long number = mysql_thread_id(own);
    WANT(OK, rowlock_hold_guard(hold, own, &ts_err));
    restart_server();
    mysql_close(own);
    TS_MYSQL *stranger = connect_as_number(number);
    ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
    TS_CLIENT *other = open_patiently();
    TS_HOLD *next = ts_take(other, name, ROWLOCK_OPTIMISTIC, LONG);
    assert_int_equal(ts_sql_u64(stranger, "SELECT 17"), 17);
    (void)!rowlock_release(hold, &ts_err);
}

/* ------------------------------------------------------------------------------------ once */

static void begins(rowlock_hold *hold, unsigned attempt)
{
    rowlock_once_result result = {.attempt = 0};
    WANT(OK, begin_period(hold, &result, &ts_err));
    assert_int_equal(result.state, attempt ? ROWLOCK_ONCE_BEGUN : ROWLOCK_ONCE_DONE);
    if (attempt)
        assert_int_equal(result.attempt, attempt);
}

/* The next client finds the period done. */
static void is_found_done(const char *name)
{
    TS_HOLD *hold = ts_take(patient, name, ROWLOCK_OPTIMISTIC, LONG);
    begins(hold, 0);
}

/* Each step, in the first attempt and in a further one. */
TS_ONCE(test_killed_at_a_step_of_a_period)
{
    static const what steps[] = {BEGIN, DONE, FAILED};
    static const char *const after[] = {"running", "done", "failed"};
    for (unsigned i = 0; i < 12; i++) {
        TS_CLIENT *client = open_through();
        const char *name = ts_name("step");
        const unsigned attempt = 1 + i / 6;
        const unsigned step = i / 2 % 3;
        char wanted[30];
        if (attempt > 1) {
            rowlock_hold *died = ts_take(patient, name, ROWLOCK_OPTIMISTIC, LONG);
            begins(died, 1);
            WANT(OK, rowlock_release(died, &ts_err));
        }
        call c = {.of = {.carry_out = carry_out, .client = client, .name = name},
                  .what = steps[step],
                  .hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, LONG)};
        if (c.what != BEGIN)
            begins(c.hold, attempt);
        good_all_the_same(&c, moments[i % 2]);
        snprintf(wanted, sizeof wanted, "%s %u", after[step], attempt);
        ledger_is(name, wanted);
        assert_true(c.what != BEGIN || c.result.attempt == attempt);
        /* A failed attempt stays failed; a running one can be done. */
        if (c.what == FAILED)
            WANT(LOST, rowlock_once_done(c.hold, &ts_err));
        else
            WANT(OK, rowlock_once_done(c.hold, &ts_err));
        WANT(OK, rowlock_release(c.hold, &ts_err));
        if (c.what != FAILED)
            is_found_done(name);
    }
}

/* During a job: its work is done once, and the ledger says so. */
TS_ONCE(test_killed_beside_a_job)
{
    const char *name = ts_name("job");
    rowlock_hold *hold = ts_take(patient, name, ROWLOCK_OPTIMISTIC, LONG);
    begins(hold, 1);
    restart_server();
    begins(hold, 1);
    WANT(OK, rowlock_once_done(hold, &ts_err));
    restart_server();
    ledger_is(name, "done 1");
    WANT(OK, rowlock_release(hold, &ts_err));
    is_found_done(name);
}

/* Its lease has expired: the next client begins another attempt, and the late one cannot report
 * done. If nobody has come, it can. */
TS_ONCE(test_away_for_longer_than_a_jobs_ttl)
{
    for (unsigned i = 0; i < 2; i++) {
        const char *name = ts_name("away");
        rowlock_hold *hold = ts_take(patient, name, ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
        begins(hold, 1);
        ts_own_kill();
        assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, TS_KEPT_TTL + 5000));
        ts_own_restart();
        ts_reconnect(&mysql);
        if (i == 0) {
            WANT(OK, rowlock_once_done(hold, &ts_err));
            ledger_is(name, "done 1");
        } else {
            rowlock_hold *next = ts_take_with(
                patient, name, (rowlock_acquire_options){.wait_ms = RESTART, .ttl_ms = LONG});
            begins(next, 2);
            WANT(LOST, rowlock_once_done(hold, &ts_err));
            ledger_is(name, "running 2");
            WANT(OK, rowlock_once_done(next, &ts_err));
            WANT(OK, rowlock_release(next, &ts_err));
            ledger_is(name, "done 2");
        }
        WANT(LOST, rowlock_release(hold, &ts_err));
    }
}

static unsigned number_of_work(const char *name)
{
    return (unsigned)ts_sql_u64(mysql, "SELECT COUNT(*) FROM work WHERE name = %s", ts_quote(name));
}

/* Done is part of the job's transaction: with the work, or not at all. */
TS_ONCE(test_killed_beside_a_jobs_transaction)
{
    ts_sql(mysql, "CREATE TABLE work (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(60))"
                  " ENGINE = InnoDB");
    for (unsigned i = 0; i < 2; i++) {
        const char *name = ts_name("transaction");
        rowlock_hold *hold = ts_take(patient, name, ROWLOCK_OPTIMISTIC, LONG);
        const uint64_t token = rowlock_hold_token(hold);
        begins(hold, 1);
        MYSQL *own = ts_connect(ts_schema());
        ts_sql(own, "BEGIN");
        ts_sql(own, "INSERT INTO work (name) VALUES (%s)", ts_quote(name));
        WANT(OK, rowlock_tx_once_done(patient, own, name, token, &ts_err));
        if (i == 1)
            ts_sql(own, "COMMIT");
        restart_server();
        mysql_close(own);
        ledger_is(name, i ? "done 1" : "running 1");
        assert_int_equal(number_of_work(name), i);
        if (i == 0)
            begins(hold, 1);
        WANT(OK, rowlock_once_done(hold, &ts_err));
        WANT(OK, rowlock_release(hold, &ts_err));
        is_found_done(name);
    }
}

/* ------------------------------------------------------------------------------------- ask */

/* The ask is heard once, when the server is back. */
TS_ONCE(test_killed_beside_an_ask)
{
    enum { TTL = 45000 };
    static atomic_int heard;
    const char *name = ts_name("asked");
    rowlock_hold *hold = ts_take_with(
        patient, name,
        (rowlock_acquire_options){.ttl_ms = TTL, .on_ask = ts_count_ask, .on_ask_data = &heard});
    WANT(OK, rowlock_ask(patient, name, NULL, &ts_err));
    assert_int_equal(atomic_load(&heard), 0);
    restart_server();
    assert_true(POLL_UNTIL(atomic_load(&heard) > 0, RESTART));
    ASSERT_KEPT(hold, TTL / 3 + 1000);
    assert_int_equal(atomic_load(&heard), 1);
    WANT(OK, rowlock_release(hold, &ts_err));
}

TS_MAIN("restarts", restart_begin, restart_end)
