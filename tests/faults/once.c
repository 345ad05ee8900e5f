/*
 * Once in a period when a statement or its reply is lost, somebody stops it, or the worker dies at
 * any step. The ledger is compared with the work that was done.
 */
#include "faults/through.h"
#include "rowlock/rowlock_once.h"

#define HOUR INT64_C(3600000000)

static const int64_t first = 400000 * HOUR;

static rowlock_hold *take(rowlock_client *client, const char *name)
{
    return ts_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
}

static rowlock_status begin(rowlock_hold *hold, int64_t start_us, rowlock_once_result *result)
{
    return rowlock_once_begin(hold, start_us, start_us + HOUR, NULL, result, &ts_err);
}

static void begins(rowlock_hold *hold, int64_t start_us, unsigned attempt)
{
    rowlock_once_result result = {.attempt = 0};
    WANT(OK, begin(hold, start_us, &result));
    assert_int_equal(result.state, ROWLOCK_ONCE_BEGUN);
    assert_int_equal(result.attempt, attempt);
}

/* Prepares the client's statements. */
static void warm_up(rowlock_client *client)
{
    const char *name = ts_name("warm");
    for (unsigned i = 1; i <= 3; i++) {
        rowlock_hold *hold = take(client, name);
        begins(hold, first, i);
        if (i > 1)
            WANT(OK, rowlock_once_failed(hold, 1, &ts_err));
        if (i > 1) /* a repeated call reads the state */
            WANT(OK, rowlock_once_failed(hold, 1, &ts_err));
        WANT(OK, rowlock_release(hold, &ts_err));
    }
}

/* A period is begun once, by one attempt, whichever reply is lost. */
TS_ONCE(test_a_begin)
{
    static const char *const steps[] = {"once_insert", "once_look"};
    TS_CLIENT *client = through_open();
    warm_up(client);
    for (unsigned i = 0; i < 6; i++) {
        const char *name = ts_name("begin");
        rowlock_hold *hold = take(client, name);
        /* The fault hits the first look, or the one that finds it begun. */
        ts_proxy_arm(proxy, lost[i % 2], steps[i / 2 > 0], i / 2 == 2 ? 2 : 1, false);
        begins(hold, first, 1);
        happened();
        ledger_is(name, "running 1");
        WANT(OK, rowlock_once_done(hold, &ts_err));
        WANT(OK, rowlock_release(hold, &ts_err));
        ledger_is(name, "done 1");
    }
}

TS_ONCE(test_a_further_attempt)
{
    TS_CLIENT *client = through_open();
    warm_up(client);
    for (unsigned i = 0; i < 2; i++) {
        const char *name = ts_name("further");
        rowlock_hold *hold = take(direct, name);
        begins(hold, first, 1);
        WANT(OK, rowlock_release(hold, &ts_err));
        hold = take(client, name);
        ts_proxy_arm(proxy, lost[i], "once_take", 1, false);
        begins(hold, first, 2);
        happened();
        begins(hold, first, 2);
        ledger_is(name, "running 2");
        WANT(OK, rowlock_release(hold, &ts_err));
    }
}

/* The period ends as reported. */
TS_ONCE(test_an_end)
{
    TS_CLIENT *client = through_open();
    warm_up(client);
    for (unsigned i = 0; i < 4; i++) {
        const char *name = ts_name("end");
        rowlock_hold *hold = take(client, name);
        begins(hold, first, 1);
        ts_proxy_arm(proxy, lost[i % 2], "once_end", 1, false);
        WANT(OK, i < 2 ? rowlock_once_done(hold, &ts_err) : rowlock_once_failed(hold, 5, &ts_err));
        happened();
        ledger_is(name, i < 2 ? "done 1" : "failed 1");
        WANT(OK, rowlock_release(hold, &ts_err));
    }
}

/* It was begun, and the server cannot be reached before that is read. */
TS_ONCE(test_a_begin_that_nobody_knows)
{
    TS_CLIENT *client = through_open_hasty();
    warm_up(client);
    const char *name = ts_name("unknown_begin");
    rowlock_hold *hold = take(client, name);
    rowlock_once_result result = {.attempt = 0};
    ts_proxy_arm(proxy, TS_LOSE_COMMAND, "once_look", 2, true);
    WANT(UNKNOWN, begin(hold, first, &result));
    ledger_is(name, "running 1");
    ts_proxy_flow(proxy);
    begins(hold, first, 1);
    (void)!rowlock_release(hold, NULL);
}

/* The server cannot be reached after the request: the call reports neither that it is done, nor
 * that it is not. */
TS_ONCE(test_an_end_that_nobody_knows)
{
    TS_CLIENT *client = through_open_hasty();
    warm_up(client);
    const char *name = ts_name("unknown");
    rowlock_hold *hold = take(client, name);
    begins(hold, first, 1);
    ts_proxy_arm(proxy, TS_LOSE_REPLY, "once_end", 1, true);
    WANT(UNKNOWN, rowlock_once_done(hold, &ts_err));
    ledger_is(name, "done 1");
    ts_proxy_flow(proxy);
    WANT(OK, rowlock_once_done(hold, &ts_err));
    (void)!rowlock_release(hold, NULL);
}

/* Each call is stopped, also with the answer that no row was there: the row's content counts. */
TS_ONCE(test_what_is_stopped)
{
    static const char *const steps[] = {"once_insert", "once_look"};
    TS_CLIENT *client = through_open();
    warm_up(client);
    for (unsigned i = 0; i < 4; i++) {
        const char *name = ts_name("stopped");
        rowlock_once_result result;
        rowlock_hold *hold = take(client, name);
        ts_proxy_answer(proxy, i < 2 ? STOPPED : 0, steps[i % 2], 1);
        /* A look without a row was stopped, or the lease is lost. */
        (void)!begin(hold, first, &result);
        assert_int_equal(ts_proxy_answers_left(proxy), 0);
        ts_proxy_flow(proxy);
        begins(hold, first, 1);
        ts_proxy_answer(proxy, i < 2 ? STOPPED : 0, "once_end", 1);
        (void)!rowlock_once_done(hold, &ts_err);
        ts_proxy_flow(proxy);
        WANT(OK, rowlock_once_done(hold, &ts_err));
        ledger_is(name, "done 1");
        WANT(OK, rowlock_release(hold, &ts_err));
    }
}

/* ------------------------------------------------------- the ledger against the work */

/* The step at which a worker dies. */
typedef enum step {
    GRANTED,
    BEGUN,
    HALF_WAY, /* in the transaction */
    WORKED,   /* committed; for a worker that says done in the transaction, also done */
    DONE,
    RELEASED,
    STEPS
} step;

enum { PERIODS = 12, WORKERS = 3, PERIOD_ATTEMPTS = 1000 };

typedef struct job {
    const char *name;
    bool in_transaction; /* the transaction includes done */
    unsigned seed;
} job;

/* Dies at random at any step, seldom enough for progress. */
static void die_perhaps(job *j, step at)
{
    (void)at;
    if (rand_r(&j->seed) % (3 * STEPS) == 0)
        kill(getpid(), SIGKILL);
}

static void add_work(const job *j, MYSQL *own, const char *table, unsigned number, uint64_t token)
{
    ts_sql(own, "INSERT INTO %s (name, period, token) VALUES (%s, %u, %" PRIu64 ")", table,
           ts_quote(j->name), number, token);
}

static void do_work(job *j, rowlock_client *client, MYSQL *own, unsigned number, uint64_t token)
{
    ts_sql(own, "BEGIN");
    add_work(j, own, "work", number, token);
    die_perhaps(j, HALF_WAY);
    rowlock_status status =
        j->in_transaction ? rowlock_tx_once_done(client, own, j->name, token, &ts_err) : ROWLOCK_OK;
    ts_sql(own, status == ROWLOCK_OK ? "COMMIT" : "ROLLBACK");
    die_perhaps(j, WORKED);
}

static void attempt(job *j, rowlock_client *client, MYSQL *own, unsigned number)
{
    const rowlock_acquire_options how = {.wait_ms = 60000, .ttl_ms = ROWLOCK_TTL_MIN_MS};
    const rowlock_once_options many = {.attempts = PERIOD_ATTEMPTS, .wait_ms = 20000};
    const int64_t start_us = first + number * HOUR;
    rowlock_once_result result = {.attempt = 0};
    rowlock_hold *hold = NULL;
    if (rowlock_acquire(client, j->name, &how, &hold, &ts_err) != ROWLOCK_OK)
        return;
    die_perhaps(j, GRANTED);
    if (rowlock_once_begin(hold, start_us, start_us + HOUR, &many, &result, &ts_err) ==
            ROWLOCK_OK &&
        result.state == ROWLOCK_ONCE_BEGUN) {
        add_work(j, own, "begun", number, rowlock_hold_token(hold));
        die_perhaps(j, BEGUN);
        do_work(j, client, own, number, rowlock_hold_token(hold));
        if (rowlock_once_done(hold, &ts_err) == ROWLOCK_OK)
            add_work(j, own, "told", number, rowlock_hold_token(hold));
        die_perhaps(j, DONE);
    }
    (void)!rowlock_release(hold, NULL);
    die_perhaps(j, RELEASED);
}

static int run_worker(void *data)
{
    job j = *(const job *)data;
    rowlock_client *client = ts_open();
    MYSQL *own = ts_connect(ts_schema());
    ts_sql(own, "SET SESSION innodb_lock_wait_timeout = 60");
    for (unsigned number = 0; number < PERIODS; number++)
        attempt(&j, client, own, number);
    mysql_close(own);
    rowlock_client_close(client);
    return 0;
}

/* Starts another worker after each death. */
static void work_until_done(job *j)
{
    pid_t workers[WORKERS];
    unsigned died = 0;
    for (unsigned i = 0; i < WORKERS; i++) {
        j->seed += 7919;
        workers[i] = ts_fork(run_worker, j);
    }
    for (unsigned i = 0; i < WORKERS;) {
        if (ts_reap(workers[i], 300000) == 0) {
            i++;
            continue;
        }
        died++;
        j->seed += 7919;
        workers[i] = ts_fork(run_worker, j);
    }
    print_message("# %u died\n", died);
}

static uint64_t number_of(const char *name, const char *what)
{
    return ts_sql_u64(mysql, "SELECT COUNT(%s WHERE name = %s", what, ts_quote(name));
}

/* The ledger has each period as done, and each has at least one piece of work, of an attempt that
 * the ledger has counted. */
static void compare(const char *name, bool in_transaction)
{
    assert_int_equal(ts_sql_u64(mysql,
                                "SELECT COUNT(*) FROM once_run o JOIN resource r"
                                " ON r.id = o.resource_id WHERE r.resource_name = %s"
                                " AND o.state = 'done'",
                                ts_quote(name)),
                     PERIODS);
    assert_int_equal(number_of(name, "DISTINCT period) FROM work"), PERIODS);
    if (in_transaction)
        assert_int_equal(number_of(name, "*) FROM work"), PERIODS);
    /* Only the attempt that the ledger has was told that it is done. */
    assert_int_equal(number_of(name, "*) FROM told"),
                     number_of(name, "DISTINCT period) FROM told"));
    assert_int_equal(
        ts_sql_u64(mysql,
                   "SELECT COUNT(*) FROM told t JOIN resource r ON r.resource_name = t.name"
                   " LEFT JOIN once_run o ON o.resource_id = r.id AND o.token = t.token"
                   " WHERE t.name = %s AND o.token IS NULL",
                   ts_quote(name)),
        0);
    /* A worker that died between its begin and its note has left none, so there are at most as many
     * notes as attempts. */
    assert_true(
        ts_sql_u64(mysql, "SELECT COUNT(*) FROM begun b WHERE b.name = %s", ts_quote(name)) <=
        ts_sql_u64(mysql,
                   "SELECT SUM(o.attempts) FROM once_run o JOIN resource r"
                   " ON r.id = o.resource_id WHERE r.resource_name = %s",
                   ts_quote(name)));
    assert_true(number_of(name, "*) FROM work") <= number_of(name, "*) FROM begun"));
}

TS_ONCE(test_the_ledger_against_the_work)
{
    static const char *const tables[] = {"work", "begun", "told"};
    for (unsigned i = 0; i < 3; i++)
        ts_sql(mysql,
               "CREATE TABLE %s (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(60), period INT,"
               " token BIGINT) ENGINE = InnoDB",
               tables[i]);
    for (unsigned round = 0; round < ts_rounds(4); round++) {
        job j = {.name = ts_name(round % 2 ? "tx" : "plain"),
                 .in_transaction = round % 2,
                 .seed = (unsigned)ts_now_ms() + round};
        print_message("# seed %u\n", j.seed);
        work_until_done(&j);
        compare(j.name, j.in_transaction);
    }
}

TS_MAIN("once", through_begin, through_end)
