/* Once in a period: the ledger decides who does the work, and records that it was done. */
#include "rowlock/rowlock_once.h"

#include "conformance/clients.h"

#define HOUR INT64_C(3600000000)

static int open_with_rows(void **state)
{
    open_clients(state);
    mysql_close(mysql);
    mysql = ts_connect_beside();
    make_work();
    ts_grant_role(watch, "work");
    return 0;
}

static const int64_t today = 400000 * HOUR;

static rowlock_hold *take(rowlock_client *from, const char *name)
{
    return ts_take(from, name, ROWLOCK_OPTIMISTIC, 30000);
}

static rowlock_status begin_with(rowlock_hold *hold, int64_t start_us,
                                 const rowlock_once_options *options, rowlock_once_result *result)
{
    return rowlock_once_begin(hold, start_us, start_us + HOUR, options, result, &ts_err);
}

/* Begins the period: the result, and the number of attempts. */
static rowlock_once_begun begin(rowlock_hold *hold, int64_t start_us, unsigned *attempt)
{
    const rowlock_once_options patiently = {.wait_ms = 20000};
    rowlock_once_result result = {.attempt = 0};
    WANT(OK, begin_with(hold, start_us, &patiently, &result));
    if (attempt)
        *attempt = result.attempt;
    return result.state;
}

static void begins(rowlock_hold *hold, int64_t start_us, unsigned wanted)
{
    unsigned attempt = 0;
    assert_int_equal(begin(hold, start_us, &attempt), ROWLOCK_ONCE_BEGUN);
    assert_int_equal(attempt, wanted);
}

static void release(rowlock_hold *hold)
{
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* A whole attempt that ends with that exit status. */
static void attempt(rowlock_client *from, const char *name, int64_t start_us, unsigned wanted,
                    int exit_status)
{
    rowlock_hold *hold = take(from, name);
    begins(hold, start_us, wanted);
    if (exit_status == 0)
        WANT(OK, rowlock_once_done(hold, &ts_err));
    else
        WANT(OK, rowlock_once_failed(hold, exit_status, &ts_err));
    release(hold);
}

static void is_so(const char *name, int64_t start_us, rowlock_once_begun wanted)
{
    TS_HOLD *hold = take(other, name);
    assert_int_equal(begin(hold, start_us, NULL), wanted);
}

/* The periods of a name, the newest first. */
static rowlock_once_runs *runs_of(const char *name)
{
    rowlock_once_runs *runs = NULL;
    const rowlock_once_get_options options = {.name = name};
    WANT(OK, rowlock_once_get(client, &options, &runs, &ts_err));
    return runs;
}

static void state_is(const char *name, rowlock_once_state wanted)
{
    rowlock_once_runs *runs = runs_of(name);
    assert_true(rowlock_once_count(runs) > 0);
    assert_int_equal(rowlock_once_at(runs, 0)->state, wanted);
    rowlock_once_free(runs);
}

/* Makes the lease lost: another client has it. */
static rowlock_hold *take_away(const char *name)
{
    WANT(OK, ts_break_now(other, name));
    return take(other, name);
}

TS_ONCE(test_once_in_a_period)
{
    const char *name = ts_name("once");
    rowlock_once_result result;
    attempt(client, name, today, 1, 0);
    is_so(name, today, ROWLOCK_ONCE_DONE);
    TS_HOLD *hold = take(other, name);
    WANT(OK, begin_with(hold, today, NULL, &result));
    assert_int_equal(result.state, ROWLOCK_ONCE_DONE);
    assert_int_equal(result.attempt, 1);
    assert_string_not_equal(result.owner_label, "");
    /* The period that is done was not this hold's attempt; the next one is. */
    WANT(LOST, rowlock_once_done(hold, &ts_err));
    begins(hold, today + HOUR, 1);
    WANT(OK, rowlock_once_done(hold, &ts_err));
}

TS_ONCE(test_failed_ones_are_tried_again)
{
    const char *name = ts_name("failed");
    attempt(client, name, today, 1, 3);
    attempt(other, name, today, 2, 255);
    state_is(name, ROWLOCK_ONCE_RUN_FAILED);
    attempt(client, name, today, 3, 1);
    is_so(name, today, ROWLOCK_ONCE_USED_UP);
    state_is(name, ROWLOCK_ONCE_RUN_FAILED);
    /* This caller allows one attempt more. */
    rowlock_once_result result;
    TS_HOLD *hold = take(client, name);
    WANT(OK, begin_with(hold, today, &(rowlock_once_options){.attempts = 4}, &result));
    assert_int_equal(result.state, ROWLOCK_ONCE_BEGUN);
    assert_int_equal(result.attempt, 4);
    WANT(OK, rowlock_once_done(hold, &ts_err));
}

/* An attempt that is released, or dies, without a result counts as failed. */
TS_ONCE(test_who_dies_is_followed)
{
    const char *name = ts_name("dies");
    rowlock_hold *hold = take(client, name);
    begins(hold, today, 1);
    state_is(name, ROWLOCK_ONCE_RUN_RUNNING);
    release(hold);
    state_is(name, ROWLOCK_ONCE_RUN_DIED);
    hold = take(client, name);
    begins(hold, today, 2);
    ts_expire(watch, name, ROWLOCK_OPTIMISTIC);
    rowlock_hold *next = take(other, name);
    state_is(name, ROWLOCK_ONCE_RUN_DIED);
    begins(next, today, 3);
    WANT(LOST, rowlock_once_done(hold, &ts_err));
    state_is(name, ROWLOCK_ONCE_RUN_RUNNING);
    WANT(OK, rowlock_once_done(next, &ts_err));
    WANT(LOST, rowlock_once_failed(hold, 1, &ts_err));
    state_is(name, ROWLOCK_ONCE_RUN_DONE);
    (void)!rowlock_release(hold, NULL);
    release(next);
}

/* The lease is lost, but nobody has begun another attempt: the period can be marked as done. */
TS_ONCE(test_done_after_a_loss)
{
    const char *name = ts_name("loss");
    rowlock_hold *hold = take(client, name);
    begins(hold, today, 1);
    rowlock_hold *next = take_away(name);
    WANT(OK, rowlock_once_done(hold, &ts_err));
    assert_int_equal(begin(next, today, NULL), ROWLOCK_ONCE_DONE);
    (void)!rowlock_release(hold, NULL);
    release(next);
}

TS_ONCE(test_lost_before_it_begins)
{
    const char *name = ts_name("lost");
    rowlock_once_result result;
    rowlock_hold *hold = take(client, name);
    rowlock_hold *next = take_away(name);
    WANT(LOST, begin_with(hold, today, NULL, &result));
    release(next);
    /* The lease is free, and nobody had it since. */
    WANT(LOST, begin_with(hold, today, NULL, &result));
    rowlock_once_runs *runs = runs_of(name);
    assert_int_equal(rowlock_once_count(runs), 0);
    rowlock_once_free(runs);
    (void)!rowlock_release(hold, NULL);
}

/* A repeated call has the same result. */
TS_ONCE(test_said_twice)
{
    const char *name = ts_name("twice");
    rowlock_once_result result;
    rowlock_hold *hold = take(client, name);
    begins(hold, today, 1);
    begins(hold, today, 1);
    WANT(OK, rowlock_once_done(hold, &ts_err));
    WANT(OK, rowlock_once_done(hold, &ts_err));
    /* A done period stays done. */
    WANT(OK, rowlock_once_failed(hold, 1, &ts_err));
    state_is(name, ROWLOCK_ONCE_RUN_DONE);
    WANT(INVALID, begin_with(hold, today, NULL, &result));
    WANT(INVALID, begin_with(hold, today + HOUR, NULL, &result));
    assert_non_null(strstr(ts_err.message, "another period"));
    release(hold);
    attempt(client, name, today + HOUR, 1, 7);
    hold = take(client, name);
    begins(hold, today + HOUR, 2);
    WANT(OK, rowlock_once_failed(hold, 7, &ts_err));
    WANT(OK, rowlock_once_failed(hold, 8, &ts_err));
    WANT(LOST, rowlock_once_done(hold, &ts_err));
    release(hold);
    rowlock_once_runs *runs = runs_of(name);
    assert_int_equal(rowlock_once_at(runs, 0)->exit_status, 7);
    assert_int_equal(rowlock_once_at(runs, 0)->attempts, 2);
    rowlock_once_free(runs);
}

/* A done or used-up period is done again on an operator's wish, and the attempts are counted from
 * 1. */
TS_ONCE(test_again)
{
    const char *name = ts_name("again");
    const rowlock_once_options again = {.again = true, .attempts = 1};
    rowlock_once_result result;
    attempt(client, name, today, 1, 5);
    attempt(client, name, today, 2, 0);
    rowlock_hold *hold = take(client, name);
    WANT(OK, begin_with(hold, today, &again, &result));
    assert_int_equal(result.state, ROWLOCK_ONCE_BEGUN);
    assert_int_equal(result.attempt, 1);
    WANT(OK, begin_with(hold, today, &again, &result));
    assert_int_equal(result.attempt, 1);
    WANT(OK, rowlock_once_failed(hold, 1, &ts_err));
    release(hold);
    hold = take(client, name);
    WANT(OK, begin_with(hold, today, &(rowlock_once_options){.attempts = 1}, &result));
    assert_int_equal(result.state, ROWLOCK_ONCE_USED_UP);
    WANT(OK, begin_with(hold, today, &again, &result));
    assert_int_equal(result.state, ROWLOCK_ONCE_BEGUN);
    WANT(OK, rowlock_once_done(hold, &ts_err));
    release(hold);
    is_so(name, today, ROWLOCK_ONCE_DONE);
}

/* A day and the week that begins with it are two periods, though the ledger has one row for both.
 */
TS_ONCE(test_another_end)
{
    const char *name = ts_name("end");
    rowlock_once_result result;
    attempt(client, name, today, 1, 1);
    attempt(client, name, today, 2, 0);
    rowlock_hold *hold = take(client, name);
    WANT(OK, rowlock_once_begin(hold, today, today + 7 * HOUR, NULL, &result, &ts_err));
    assert_int_equal(result.state, ROWLOCK_ONCE_BEGUN);
    assert_int_equal(result.attempt, 1);
    WANT(OK, rowlock_once_begin(hold, today, today + 7 * HOUR, NULL, &result, &ts_err));
    assert_int_equal(result.attempt, 1);
    WANT(INVALID, begin_with(hold, today, NULL, &result));
    assert_non_null(strstr(ts_err.message, "another period"));
    WANT(OK, rowlock_once_done(hold, &ts_err));
    WANT(INVALID, begin_with(hold, today, NULL, &result));
    release(hold);
    rowlock_once_runs *runs = runs_of(name);
    assert_int_equal(rowlock_once_count(runs), 1);
    assert_true(rowlock_once_at(runs, 0)->end_us == today + 7 * HOUR);
    rowlock_once_free(runs);
    /* All allowed attempts of the period with the other end. */
    attempt(client, name, today, 1, 1);
    attempt(client, name, today, 2, 1);
    attempt(client, name, today, 3, 1);
    hold = take(client, name);
    WANT(OK, rowlock_once_begin(hold, today, today + 7 * HOUR, NULL, &result, &ts_err));
    assert_int_equal(result.state, ROWLOCK_ONCE_BEGUN);
    assert_int_equal(result.attempt, 1);
    release(hold);
}

/* Tokens of a name rise: an attempt of another client with this hold's token, or a higher one, is
 * reported, not waited for. */
TS_ONCE(test_tokens_that_went_back)
{
    const char *name = ts_name("back");
    rowlock_once_result result;
    attempt(client, name, today, 1, 1);
    for (int ahead = 0; ahead < 2; ahead++) {
        TS_HOLD *hold = take(other, name);
        ts_sql(watch,
               "UPDATE once_run SET token = %llu WHERE resource_id = (SELECT id FROM resource"
               " WHERE resource_name = %s)",
               (unsigned long long)rowlock_hold_token(hold) + (unsigned)ahead, ts_quote(name));
        WANT(DAMAGED, begin_with(hold, today, &(rowlock_once_options){.wait_ms = 2000}, &result));
    }
}

TS_ONCE(test_bad_input)
{
    const char *name = ts_name("bad");
    const rowlock_once_get_options far = {.limit = 100001};
    const rowlock_once_get_options early = {.name = name, .ends_after_us = -1};
    const rowlock_once_get_options late = {.name = name,
                                           .starts_before_us = ROWLOCK_ONCE_TIME_MAX + 1};
    const rowlock_once_get_options nameless = {.name = ""};
    rowlock_once_result result = {.attempt = 77};
    rowlock_once_runs *runs = NULL;
    rowlock_hold *hold = take(client, name);
    char *before = ts_dump(watch, ts_schema());
    WANT(INVALID, rowlock_once_begin(NULL, 0, 1, NULL, &result, &ts_err));
    WANT(INVALID, rowlock_once_begin(hold, 0, 1, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_once_begin(hold, 5, 5, NULL, &result, &ts_err));
    WANT(INVALID, rowlock_once_begin(hold, 5, 4, NULL, &result, &ts_err));
    WANT(INVALID, rowlock_once_begin(hold, -1, 4, NULL, &result, &ts_err));
    WANT(INVALID, rowlock_once_begin(hold, INT64_MIN, INT64_MAX, NULL, &result, &ts_err));
    WANT(INVALID, rowlock_once_begin(hold, 1, ROWLOCK_ONCE_TIME_MAX + 1, NULL, &result, &ts_err));
    WANT(INVALID, begin_with(hold, today, &(rowlock_once_options){.attempts = 1000001}, &result));
    WANT(INVALID, rowlock_once_done(NULL, &ts_err));
    WANT(INVALID, rowlock_once_failed(hold, -1, &ts_err));
    WANT(INVALID, rowlock_once_failed(hold, 256, &ts_err));
    WANT(LOST, rowlock_once_done(hold, &ts_err));
    WANT(LOST, rowlock_once_failed(hold, 1, &ts_err));
    WANT(INVALID, rowlock_once_get(client, &far, &runs, &ts_err));
    WANT(INVALID, rowlock_once_get(client, &early, &runs, &ts_err));
    WANT(INVALID, rowlock_once_get(client, &late, &runs, &ts_err));
    WANT(INVALID, rowlock_once_get(client, &nameless, &runs, &ts_err));
    WANT(INVALID, rowlock_once_get(client, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_once_get(NULL, NULL, &runs, &ts_err));
    assert_int_equal(result.attempt, 77);
    ts_same(before, ts_dump(watch, ts_schema()));
    release(hold);
    assert_null(rowlock_once_at(NULL, 0));
    assert_int_equal(rowlock_once_count(NULL), 0);
    rowlock_once_free(NULL);
}

/* Holds that are no exclusive leases. */
TS_ONCE(test_other_holds)
{
    const char *const names[] = {ts_name("one"), ts_name("two")};
    rowlock_once_result result;
    rowlock_hold *hold = ts_take(client, ts_name("row"), ROWLOCK_PESSIMISTIC, 30000);
    WANT(INVALID, begin_with(hold, today, NULL, &result));
    release(hold);
    hold = ts_take_with(client, ts_name("shared"), (rowlock_acquire_options){.shared = true});
    WANT(INVALID, begin_with(hold, today, NULL, &result));
    release(hold);
    hold = ts_take_with(client, ts_name("slots"),
                        (rowlock_acquire_options){.slots = 2, .wait_ms = 20000});
    WANT(INVALID, begin_with(hold, today, NULL, &result));
    release(hold);
    WANT(OK, rowlock_acquire_set(client, names, 2, NULL, &hold, &ts_err));
    WANT(INVALID, begin_with(hold, today, NULL, &result));
    WANT(INVALID, rowlock_once_done(hold, &ts_err));
    release(hold);
}

TS_ONCE(test_the_ledger)
{
    const char *name = ts_name("ledger");
    rowlock_once_runs *runs = runs_of(name);
    assert_int_equal(rowlock_once_count(runs), 0);
    /* The server has this machine's clock. */
    assert_between(-5000, rowlock_once_now_us(runs) / 1000 - (int64_t)time(NULL) * 1000, 5000);
    rowlock_once_free(runs);
    attempt(client, name, today, 1, 0);
    attempt(client, name, today + 2 * HOUR, 1, 42);
    attempt(client, name, today + HOUR, 1, 0);
    runs = runs_of(name);
    assert_int_equal(rowlock_once_count(runs), 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(rowlock_once_at(runs, i)->start_us == today + (int64_t)(2 - i) * HOUR);
    assert_null(rowlock_once_at(runs, 3));
    const rowlock_once_run *run = rowlock_once_at(runs, 0);
    assert_string_equal(run->name, name);
    assert_true(run->end_us == today + 3 * HOUR);
    assert_int_equal(run->state, ROWLOCK_ONCE_RUN_FAILED);
    assert_int_equal(run->attempts, 1);
    assert_true(run->has_exit_status);
    assert_int_equal(run->exit_status, 42);
    assert_int_equal(strlen(run->started_at), 26);
    assert_int_equal(strlen(run->ended_at), 26);
    assert_between(0, run->took_ms, 5000);
    assert_true(run->token > 0);
    rowlock_once_free(runs);
    const rowlock_once_get_options some = {.name = name, .ends_after_us = today + HOUR, .limit = 1};
    WANT(OK, rowlock_once_get(client, &some, &runs, &ts_err));
    assert_int_equal(rowlock_once_count(runs), 1);
    assert_true(rowlock_once_at(runs, 0)->start_us == today + 2 * HOUR);
    rowlock_once_free(runs);
    const rowlock_once_get_options before = {
        .name = name, .starts_before_us = today + 2 * HOUR, .limit = 1};
    WANT(OK, rowlock_once_get(client, &before, &runs, &ts_err));
    assert_int_equal(rowlock_once_count(runs), 1);
    assert_true(rowlock_once_at(runs, 0)->start_us == today + HOUR);
    rowlock_once_free(runs);
    /* The newest period of each name. */
    WANT(OK, rowlock_once_get(client, NULL, &runs, &ts_err));
    unsigned found = 0;
    for (size_t i = 0; i < rowlock_once_count(runs); i++)
        if (strcmp(rowlock_once_at(runs, i)->name, name) == 0) {
            found++;
            assert_true(rowlock_once_at(runs, i)->start_us == today + 2 * HOUR);
        }
    assert_int_equal(found, 1);
    rowlock_once_free(runs);
}

/* ------------------------------------------------- done in the work's own transaction */

static void work(const char *name)
{
    ts_sql(mysql, "BEGIN");
    ts_sql(mysql, "INSERT INTO work (who) VALUES (%s)", ts_quote(name));
}

static rowlock_status tx_done(const char *name, uint64_t token)
{
    return rowlock_tx_once_done(client, mysql, name, token, &ts_err);
}

TS_ONCE(test_done_with_the_work)
{
    const char *name = ts_name("tx");
    rowlock_hold *hold = take(client, name);
    const uint64_t token = rowlock_hold_token(hold);
    begins(hold, today, 1);
    WANT(INVALID, tx_done(name, token));
    work(name);
    WANT(OK, tx_done(name, token));
    state_is(name, ROWLOCK_ONCE_RUN_RUNNING);
    ts_sql(mysql, "ROLLBACK");
    state_is(name, ROWLOCK_ONCE_RUN_RUNNING);
    assert_int_equal(rows_of(name), 0);
    work(name);
    WANT(OK, tx_done(name, token));
    ts_sql(mysql, "COMMIT");
    state_is(name, ROWLOCK_ONCE_RUN_DONE);
    assert_int_equal(rows_of(name), 1);
    /* Its work must not be done twice. */
    work(name);
    WANT(LOST, tx_done(name, token));
    ts_sql(mysql, "ROLLBACK");
    WANT(OK, rowlock_once_done(hold, &ts_err));
    release(hold);
    is_so(name, today, ROWLOCK_ONCE_DONE);
}

static void *let_row_go(void *data)
{
    ts_pass_ms(200);
    ts_sql(data, "ROLLBACK");
    return NULL;
}

/* Nobody else can be at a first attempt, so a slow server is waited for, also without wait_ms. */
TS_ONCE(test_a_first_attempt_beside_a_slow_server)
{
    const char *name = ts_name("slow");
    pthread_t later;
    rowlock_once_result result = {.attempt = 0};
    TS_HOLD *hold = take(client, name);
    ts_sql(watch, "BEGIN");
    free(ts_sql_text(watch, "SELECT id FROM resource WHERE resource_name = %s FOR UPDATE",
                     ts_quote(name)));
    const int64_t strain_ms = ts_strain_ms();
    assert_int_equal(pthread_create(&later, NULL, let_row_go, watch), 0);
    rowlock_status status = begin_with(hold, today, NULL, &result);
    pthread_join(later, NULL);
    /* The server itself waits for a row for a second. */
    if (status == ROWLOCK_BUSY && ts_strain_ms() - strain_ms >= 500)
        status = begin_with(hold, today, NULL, &result);
    WANT(OK, status);
    assert_int_equal(result.state, ROWLOCK_ONCE_BEGUN);
}

TS_ONCE(test_the_later_attempt_alone_commits)
{
    const char *name = ts_name("tx-lost");
    rowlock_once_result result;
    rowlock_hold *hold = take(client, name);
    begins(hold, today, 1);
    rowlock_hold *next = take_away(name);
    /* The first one's transaction is open: the other waits for it. */
    work(name);
    WANT(OK, tx_done(name, rowlock_hold_token(hold)));
    WANT(BUSY, begin_with(next, today, NULL, &result));
    assert_non_null(strstr(ts_err.message, "is locked by an open transaction"));
    const int64_t strain = ts_strain_ms();
    WANT_TIMEOUT(ROWLOCK_OPTIMISTIC, strain,
                 begin_with(next, today, &(rowlock_once_options){.wait_ms = 300}, &result));
    ts_sql(mysql, "ROLLBACK");
    begins(next, today, 2);
    work(name);
    WANT(LOST, tx_done(name, rowlock_hold_token(hold)));
    ts_sql(mysql, "ROLLBACK");
    work(name);
    WANT(OK, tx_done(name, rowlock_hold_token(next)));
    ts_sql(mysql, "COMMIT");
    assert_int_equal(rows_of(name), 1);
    WANT(LOST, rowlock_once_done(hold, &ts_err));
    WANT(OK, rowlock_once_done(next, &ts_err));
    (void)!rowlock_release(hold, NULL);
    release(next);
}

/* The connection is killed between the work and its COMMIT: nothing is done, and the next attempt
 * does not have to wait. */
TS_ONCE(test_killed_before_its_commit)
{
    const char *name = ts_name("tx-killed");
    rowlock_hold *hold = take(client, name);
    begins(hold, today, 1);
    work(name);
    WANT(OK, tx_done(name, rowlock_hold_token(hold)));
    ts_sql(watch, "KILL %lu", mysql_thread_id(mysql));
    assert_true(ts_sql_try(mysql, "COMMIT") != 0);
    mysql_close(mysql);
    mysql = ts_connect_beside();
    rowlock_once_result result;
    rowlock_hold *next = take_away(name);
    WANT(OK, begin_with(next, today, &(rowlock_once_options){.wait_ms = 20000}, &result));
    assert_int_equal(result.attempt, 2);
    assert_int_equal(rows_of(name), 0);
    (void)!rowlock_release(hold, NULL);
    release(next);
}

TS_ONCE(test_done_of_nothing)
{
    const char *name = ts_name("tx-none");
    const char *latch = ts_name("tx-latch");
    WANT(INVALID, rowlock_tx_once_done(client, NULL, name, 1, &ts_err));
    WANT(INVALID, rowlock_tx_once_done(NULL, mysql, name, 1, &ts_err));
    work(name);
    WANT(INVALID, tx_done("", 1));
    WANT(NOT_FOUND, tx_done(name, 1));
    assert_true(in_transaction(mysql));
    TS_HOLD *hold = take(client, name);
    WANT(LOST, tx_done(name, rowlock_hold_token(hold)));
    ts_sql(mysql, "ROLLBACK");
    rowlock_hold *row = ts_take(client, latch, ROWLOCK_PESSIMISTIC, 30000);
    release(row);
    work(name);
    WANT(MODE, tx_done(latch, 1));
    ts_sql(mysql, "ROLLBACK");
}

/* Many clients attempt the period, each when it has the lease: one works at a time, and one has
 * done it. */
typedef struct worker {
    rowlock_client *from;
    const char *name;
    pthread_t thread;
    atomic_uint *begun;
    rowlock_status status;
    rowlock_error err;
} worker;

static rowlock_status do_it_once(worker *w)
{
    rowlock_hold *hold = NULL;
    rowlock_once_result result = {.attempt = 0};
    const rowlock_acquire_options how = {.wait_ms = 60000};
    rowlock_status status = rowlock_acquire(w->from, w->name, &how, &hold, &w->err);
    if (status != ROWLOCK_OK)
        return status;
    status = rowlock_once_begin(hold, today, today + HOUR, NULL, &result, &w->err);
    if (status == ROWLOCK_OK && result.state == ROWLOCK_ONCE_BEGUN) {
        atomic_fetch_add(w->begun, 1);
        status = rowlock_once_done(hold, &w->err);
    }
    rowlock_status released = rowlock_release(hold, status == ROWLOCK_OK ? &w->err : NULL);
    return status == ROWLOCK_OK ? released : status;
}

static void *work_once(void *data)
{
    worker *w = data;
    w->status = do_it_once(w);
    return NULL;
}

TS_ONCE(test_many_at_once)
{
    enum { WORKERS = 8 };
    atomic_uint begun = 0;
    worker all[WORKERS];
    const char *name = ts_name("many");
    for (int i = 0; i < WORKERS; i++) {
        all[i] = (worker){.from = i % 2 ? client : other, .name = name, .begun = &begun};
        assert_int_equal(pthread_create(&all[i].thread, NULL, work_once, &all[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(all[i].thread, NULL);
        ts_err = all[i].err;
        WANT(OK, all[i].status);
    }
    assert_int_equal(atomic_load(&begun), 1);
}

TS_MAIN("once", open_with_rows, close_clients)
