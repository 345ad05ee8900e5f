/* The optimistic section, alone and with rows. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rowlock/rowlock_mysql.h"
#include "support/support.h"

static rowlock_client *client;
static rowlock_client *rival;
static MYSQL *mysql;
static MYSQL *rival_mysql;

static int open_clients(void **state)
{
    ts_suite_begin(state);
    client = ts_open();
    rival = ts_open();
    mysql = ts_connect(ts_schema());
    rival_mysql = ts_connect(ts_schema());
    ts_sql(mysql, "CREATE TABLE work (id INT PRIMARY KEY AUTO_INCREMENT, who VARCHAR(40),"
                  " n BIGINT NOT NULL DEFAULT 0) ENGINE = InnoDB");
    return 0;
}

static int close_clients(void **state)
{
    return ts_suite_end_with(state, client, rival, mysql, rival_mysql);
}

/* What one section's fn is to do. */
typedef struct script {
    unsigned undo; /* a rival changes the version in so many attempts */
    rowlock_status answer;
    rowlock_cancel *fire; /* in the first attempt */
    uint64_t deadlocks;   /* tx: so many attempts are rolled back by the server */
    /* seen */
    unsigned calls;
    uint64_t versions[64];
    char name[64];
} script;

static uint64_t version_of(const char *name)
{
    return ts_sql_u64(rival_mysql, "SELECT version FROM resource WHERE resource_name = %s",
                      ts_quote(name));
}

static rowlock_status play(void *data, const rowlock_section *section)
{
    script *s = data;
    snprintf(s->name, sizeof s->name, "%s", section->name);
    assert_int_equal(section->attempt, s->calls + 1);
    s->versions[s->calls++ % 64] = section->version;
    if (s->fire && s->calls == 1)
        rowlock_cancel_fire(s->fire);
    if (s->calls <= s->undo) {
        uint64_t made = 0;
        WANT(OK, rowlock_version_bump(rival, section->name, section->version, &made, &ts_err));
        assert_true(made == section->version + 1);
    }
    return s->answer;
}

static rowlock_section_options quick(unsigned attempts)
{
    return (rowlock_section_options){
        .max_attempts = attempts, .backoff_ms = 1, .backoff_max_ms = 5};
}

static void test_undisturbed(void **state)
{
    const char *name = ts_name("section");
    script s = {0};
    rowlock_section_result result = {0};
    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        s.calls = 0;
        WANT(OK, rowlock_section_run(client, name, NULL, play, &s, &result, &ts_err));
        assert_string_equal(s.name, name);
        assert_int_equal(s.calls, 1);
        assert_int_equal(result.attempts, 1);
        assert_int_equal(result.conflicts, 0);
        assert_true(result.version > s.versions[0]);
        assert_true(result.version == version_of(name));
    }
    WANT(OK, rowlock_section_run(client, name, NULL, play, &(script){0}, NULL, &ts_err));
}

static void test_conflicts_are_counted(void **state)
{
    const char *name = ts_name("conflicts");
    script s = {.undo = 3};
    rowlock_section_options options = quick(10);
    rowlock_section_result result = {0};
    (void)state;
    WANT(OK, rowlock_section_run(client, name, &options, play, &s, &result, &ts_err));
    assert_int_equal(s.calls, 4);
    assert_int_equal(result.attempts, 4);
    assert_int_equal(result.conflicts, 3);
    assert_true(s.versions[3] > s.versions[2] && s.versions[2] > s.versions[1]);
    assert_true(result.version == version_of(name));
}

static void test_too_many_conflicts(void **state)
{
    const char *name = ts_name("too-many");
    script s = {.undo = 100};
    rowlock_section_options options = quick(4);
    rowlock_section_result result = {0};
    (void)state;
    WANT(CONFLICT, rowlock_section_run(client, name, &options, play, &s, &result, &ts_err));
    assert_non_null(strstr(ts_err.message, name));
    assert_int_equal(s.calls, 4);
    assert_int_equal(result.attempts, 4);
    assert_int_equal(result.conflicts, 4);
    /* Ten by default. */
    s.calls = 0;
    options = quick(0);
    WANT(CONFLICT, rowlock_section_run(client, name, &options, play, &s, &result, &ts_err));
    assert_int_equal(s.calls, 10);
}

static void test_a_deadline(void **state)
{
    const char *name = ts_name("deadline");
    script s = {.undo = 1000000};
    rowlock_section_options options = {
        .max_attempts = 1000000, .wait_ms = 1000, .backoff_ms = 10, .backoff_max_ms = 50};
    rowlock_section_result result = {0};
    (void)state;
    int64_t stood = ts_stood_ms();
    int64_t start = ts_now_ms();
    WANT_TIMEOUT(ROWLOCK_OPTIMISTIC, stood,
                 rowlock_section_run(client, name, &options, play, &s, &result, &ts_err));
    assert_between(950, ts_now_ms() - start, 1000 + ts_slack_ms());
    assert_true(result.attempts > 1);
    assert_int_equal(result.attempts, s.calls);
    assert_int_equal(result.conflicts, s.calls);
}

/* Ten thousand attempts at 60 s each would never end: the delay is cancelled. */
static void test_cancel_between_attempts(void **state)
{
    const char *name = ts_name("section-cancel");
    rowlock_cancel *cancel = NULL;
    (void)state;
    WANT(OK, rowlock_cancel_new(&cancel, &ts_err));
    script s = {.undo = 1000, .fire = cancel};
    rowlock_section_options options = {
        .max_attempts = 1000, .backoff_ms = 60000, .backoff_max_ms = 60000, .cancel = cancel};
    int64_t start = ts_now_ms();
    WANT(CANCELLED, rowlock_section_run(client, name, &options, play, &s, NULL, &ts_err));
    assert_between(0, ts_now_ms() - start, ts_slack_ms() + 50);
    rowlock_cancel_free(cancel);
}

static void test_the_works_own_status(void **state)
{
    static const rowlock_status answers[] = {ROWLOCK_NOT_FOUND, ROWLOCK_CONFLICT, ROWLOCK_BUSY,
                                             ROWLOCK_SYSTEM, ROWLOCK_CANCELLED};
    const char *name = ts_name("own-status");
    uint64_t version = 0;
    (void)state;
    WANT(OK, rowlock_version_read(client, name, &version, &ts_err));
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        script s = {.answer = answers[i]};
        rowlock_section_result result = {0};
        rowlock_error err = {0};
        assert_int_equal(rowlock_section_run(client, name, NULL, play, &s, &result, &err),
                         answers[i]);
        assert_null(ts_error_flaw(answers[i], &err));
        assert_int_equal(s.calls, 1);
        assert_int_equal(result.attempts, 1);
    }
    assert_true(version_of(name) == version);
}

static void test_a_lease_keeps_sections_out(void **state)
{
    const char *name = ts_name("section-lease");
    script s = {0};
    rowlock_section_options options = quick(3);
    uint64_t version = 0;
    uint64_t made = 77;
    (void)state;
    rowlock_hold *hold = ts_take(rival, name, ROWLOCK_OPTIMISTIC, 30000);
    WANT(BUSY, rowlock_section_run(client, name, &options, play, &s, NULL, &ts_err));
    rowlock_status status = rowlock_version_read(client, name, &version, &ts_err);
    assert_true(status == ROWLOCK_OK || status == ROWLOCK_BUSY);
    version = rowlock_hold_token(hold);
    WANT(BUSY, rowlock_version_bump(client, name, version, &made, &ts_err));
    assert_true(made == 77);
    assert_true(version_of(name) == rowlock_hold_token(hold));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_section_run(client, name, &options, play, &s, NULL, &ts_err));
}

/* The lease of a dead holder does not. */
static void test_an_expired_lease_does_not(void **state)
{
    const char *name = ts_name("section-expired");
    script s = {0};
    (void)state;
    rowlock_hold *hold = ts_take(rival, name, ROWLOCK_OPTIMISTIC, 30000);
    ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
    rowlock_section_result result = {0};
    WANT(OK, rowlock_section_run(client, name, NULL, play, &s, &result, &ts_err));
    assert_true(result.version > rowlock_hold_token(hold));
    WANT(LOST, rowlock_release(hold, &ts_err));
}

static void test_read_and_bump(void **state)
{
    const char *name = ts_name("bump");
    uint64_t version = 0;
    uint64_t made = 0;
    (void)state;
    WANT(OK, rowlock_version_read(client, name, &version, &ts_err));
    WANT(OK, rowlock_version_bump(client, name, version, &made, &ts_err));
    assert_true(made == version + 1);
    uint64_t again = 77;
    WANT(CONFLICT, rowlock_version_bump(rival, name, version, &again, &ts_err));
    assert_true(again == 77);
    WANT(OK, rowlock_version_read(rival, name, &again, &ts_err));
    assert_true(again == made);
    WANT(CONFLICT, rowlock_version_bump(rival, name, made + 1, &again, &ts_err));
    WANT(CONFLICT, rowlock_version_bump(rival, name, UINT64_MAX, &again, &ts_err));
    /* A lease on it later: the token goes on from there. */
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
    assert_true(rowlock_hold_token(hold) > made);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* ---------------------------------------------------------------- counting together */

typedef struct counter {
    rowlock_client *client;
    const char *name;
    unsigned rounds;
    _Atomic uint64_t *value; /* unprotected: read, then written by who wins */
    rowlock_status status;
    unsigned conflicts;
    uint64_t read;
    pthread_t thread;
} counter;

static rowlock_status look_at_it(void *data, const rowlock_section *section)
{
    counter *c = data;
    (void)section;
    c->read = atomic_load(c->value);
    return ROWLOCK_OK;
}

static void *count_up(void *arg)
{
    counter *c = arg;
    rowlock_section_options options = {
        .max_attempts = 100000, .backoff_ms = 1, .backoff_max_ms = 10};
    for (unsigned i = 0; i < c->rounds && c->status == ROWLOCK_OK; i++) {
        rowlock_section_result result = {0};
        c->status = rowlock_section_run(c->client, c->name, &options, look_at_it, c, &result, NULL);
        c->conflicts += result.conflicts;
    }
    return NULL;
}

/* Each section makes exactly one version: as many as there were sections. */
static void test_no_section_is_lost(void **state)
{
    const char *name = ts_name("together");
    _Atomic uint64_t value = 0;
    counter counters[4];
    uint64_t first = 0;
    (void)state;
    WANT(OK, rowlock_version_read(client, name, &first, &ts_err));
    for (int i = 0; i < 4; i++) {
        counters[i] = (counter){.client = i % 2 ? client : rival,
                                .name = name,
                                .rounds = ts_rounds(100),
                                .value = &value};
        assert_int_equal(pthread_create(&counters[i].thread, NULL, count_up, &counters[i]), 0);
    }
    unsigned conflicts = 0;
    for (int i = 0; i < 4; i++) {
        pthread_join(counters[i].thread, NULL);
        assert_string_equal(rowlock_status_name(counters[i].status), "OK");
        conflicts += counters[i].conflicts;
    }
    assert_int_equal(version_of(name), first + 4 * (uint64_t)ts_rounds(100));
    /* They did meet, or this proves nothing. */
    assert_true(conflicts > 0);
}

/* ------------------------------------------------------------------------ with rows */

static rowlock_status play_rows(void *data, const rowlock_section *section, MYSQL *conn)
{
    assert_ptr_equal(conn, mysql);
    ts_sql(conn, "INSERT INTO work (who) VALUES (%s)", ts_quote(section->name));
    return play(data, section);
}

static uint64_t rows_of(const char *name)
{
    return ts_sql_u64(rival_mysql, "SELECT COUNT(*) FROM work WHERE who = %s", ts_quote(name));
}

static bool in_transaction(MYSQL *conn)
{
    ts_sql(conn, "DO 0");
    return (conn->server_status & SERVER_STATUS_IN_TRANS) != 0;
}

static void test_rows_commit_with_the_version(void **state)
{
    const char *name = ts_name("rows");
    script s = {.undo = 2};
    rowlock_section_options options = quick(10);
    rowlock_section_result result = {0};
    (void)state;
    WANT(OK,
         rowlock_tx_section_run(client, mysql, name, &options, play_rows, &s, &result, &ts_err));
    assert_int_equal(result.attempts, 3);
    assert_int_equal(result.conflicts, 2);
    assert_true(result.version == version_of(name));
    /* The two attempts that were undone left nothing. */
    assert_int_equal(rows_of(name), 1);
    assert_false(in_transaction(mysql));
}

static void test_rows_are_rolled_back(void **state)
{
    const char *name = ts_name("rows-back");
    rowlock_section_options options = quick(3);
    uint64_t version = 0;
    (void)state;
    WANT(OK, rowlock_version_read(client, name, &version, &ts_err));
    script s = {.answer = ROWLOCK_NOT_FOUND};
    WANT(NOT_FOUND,
         rowlock_tx_section_run(client, mysql, name, &options, play_rows, &s, NULL, &ts_err));
    assert_false(in_transaction(mysql));
    assert_true(version_of(name) == version);
    s = (script){.undo = 100};
    WANT(CONFLICT,
         rowlock_tx_section_run(client, mysql, name, &options, play_rows, &s, NULL, &ts_err));
    assert_false(in_transaction(mysql));
    rowlock_hold *hold = ts_take(rival, name, ROWLOCK_OPTIMISTIC, 30000);
    s = (script){0};
    WANT(BUSY, rowlock_tx_section_run(client, mysql, name, &options, play_rows, &s, NULL, &ts_err));
    assert_false(in_transaction(mysql));
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_int_equal(rows_of(name), 0);
}

static void test_rows_in_a_transaction_already(void **state)
{
    const char *name = ts_name("rows-in");
    script s = {0};
    (void)state;
    ts_sql(mysql, "BEGIN");
    ts_sql(mysql, "INSERT INTO work (who) VALUES (%s)", ts_quote(name));
    WANT(INVALID, rowlock_tx_section_run(client, mysql, name, NULL, play_rows, &s, NULL, &ts_err));
    assert_int_equal(s.calls, 0);
    assert_true(in_transaction(mysql));
    ts_sql(mysql, "COMMIT");
    assert_int_equal(rows_of(name), 1);
}

/* The session is the caller's: nothing of it is changed, whatever the outcome. */
static void test_the_session_stays_as_it_was(void **state)
{
    const char *name = ts_name("session");
    MYSQL *own = ts_connect(NULL);
    (void)state;
    ts_sql(own, "SET SESSION innodb_lock_wait_timeout = 17, time_zone = '+03:00'");
    char *before = ts_session(own);
    uint64_t version = 0;
    uint64_t made = 0;
    WANT(OK, rowlock_version_read(client, name, &version, &ts_err));
    ts_sql(own, "BEGIN");
    WANT(OK, rowlock_tx_version_bump(client, own, name, version, &made, &ts_err));
    ts_sql(own, "COMMIT");
    char *after = ts_session(own);
    assert_string_equal(before, after);
    free(before);
    free(after);
    mysql_close(own);
}

static void test_bump_in_a_transaction(void **state)
{
    const char *name = ts_name("tx-bump");
    uint64_t version = 0;
    uint64_t made = 0;
    (void)state;
    WANT(OK, rowlock_version_read(client, name, &version, &ts_err));
    WANT(INVALID, rowlock_tx_version_bump(client, mysql, name, version, &made, &ts_err));
    ts_sql(mysql, "BEGIN");
    WANT(OK, rowlock_tx_version_bump(client, mysql, name, version, &made, &ts_err));
    assert_true(made == version + 1);
    assert_true(version_of(name) == version);
    ts_sql(mysql, "ROLLBACK");
    assert_true(version_of(name) == version);
    ts_sql(mysql, "BEGIN");
    WANT(OK, rowlock_tx_version_bump(client, mysql, name, version, &made, &ts_err));
    ts_sql(mysql, "COMMIT");
    assert_true(version_of(name) == made);
    ts_sql(mysql, "BEGIN");
    WANT(CONFLICT, rowlock_tx_version_bump(client, mysql, name, version, &made, &ts_err));
    /* The transaction is the caller's to end (a procedure has done it). */
    assert_true(in_transaction(mysql) != ts_via());
    ts_sql(mysql, "ROLLBACK");
    rowlock_hold *hold = ts_take(rival, name, ROWLOCK_OPTIMISTIC, 30000);
    ts_sql(mysql, "BEGIN");
    WANT(BUSY,
         rowlock_tx_version_bump(client, mysql, name, rowlock_hold_token(hold), &made, &ts_err));
    assert_true(in_transaction(mysql) != ts_via());
    ts_sql(mysql, "ROLLBACK");
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* Under REPEATABLE READ with snapshots that are kept (MariaDB from 11.6: the default), a
 * change by somebody else shows as 1020: the same as a conflict. MySQL has no such thing; there
 * the swap reads past the snapshot and finds another version. */
static void test_a_changed_snapshot_is_retried(void **state)
{
    const char *name = ts_name("snapshot");
    script s = {.undo = 2};
    rowlock_section_options options = quick(10);
    rowlock_section_result result = {0};
    (void)state;
    ts_sql(mysql, "ROLLBACK");
    if (!ts_is_mysql(mysql) && ts_sql_try(mysql, "SET SESSION innodb_snapshot_isolation = ON") != 0)
        skip();
    ts_sql(mysql, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    WANT(OK,
         rowlock_tx_section_run(client, mysql, name, &options, play_rows, &s, &result, &ts_err));
    assert_int_equal(result.attempts, 3);
    assert_int_equal(rows_of(name), 1);
    ts_sql_try(mysql, "SET SESSION innodb_snapshot_isolation = OFF");
}

/* A real deadlock between the section's own swap and a heavier transaction. */
typedef struct clash {
    MYSQL *heavy;
    const char *name;
    uint64_t row;
    unsigned calls;
    pthread_t thread;
    bool started;
} clash;

static void *want_the_row(void *arg)
{
    clash *c = arg;
    char text[100];
    snprintf(text, sizeof text, "UPDATE work SET n = n + 1 WHERE id = %" PRIu64, c->row);
    mysql_query(c->heavy, text);
    mysql_query(c->heavy, "ROLLBACK");
    mysql_thread_end();
    return NULL;
}

/* The heavy one has the name's row; we have a work row, which it then wants. */
static rowlock_status run_into_it(void *data, const rowlock_section *section, MYSQL *conn)
{
    clash *c = data;
    ts_sql(conn, "UPDATE work SET n = n + 1 WHERE id = %" PRIu64, c->row);
    if (c->calls++ == 0) {
        ts_sql(c->heavy, "BEGIN");
        ts_make_heavy(c->heavy);
        ts_sql(c->heavy, "UPDATE resource SET description = 'x' WHERE resource_name = %s",
               ts_quote(section->name));
        assert_int_equal(pthread_create(&c->thread, NULL, want_the_row, c), 0);
        c->started = true;
        assert_true(ts_server_waits(rival_mysql, "UPDATE work SET n%", 10000));
    }
    return ROWLOCK_OK;
}

static void test_a_deadlock_is_retried(void **state)
{
    clash c = {.heavy = ts_connect(ts_schema()), .name = ts_name("deadlock")};
    rowlock_section_options options = quick(10);
    rowlock_section_result result = {0};
    (void)state;
    ts_sql(mysql, "ROLLBACK");
    ts_sql(mysql, "INSERT INTO work (who) VALUES ('deadlock')");
    c.row = mysql_insert_id(mysql);
    WANT(OK, rowlock_tx_section_run(client, mysql, c.name, &options, run_into_it, &c, &result,
                                    &ts_err));
    assert_true(c.started);
    pthread_join(c.thread, NULL);
    assert_int_equal(c.calls, 2);
    assert_int_equal(result.attempts, 2);
    assert_int_equal(ts_sql_u64(rival_mysql, "SELECT n FROM work WHERE id = %" PRIu64, c.row), 1);
    mysql_close(c.heavy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONCE(test_undisturbed),
        ONCE(test_conflicts_are_counted),
        ONCE(test_too_many_conflicts),
        ONCE(test_a_deadline),
        ONCE(test_cancel_between_attempts),
        ONCE(test_the_works_own_status),
        ONCE(test_a_lease_keeps_sections_out),
        ONCE(test_an_expired_lease_does_not),
        ONCE(test_read_and_bump),
        ONCE(test_no_section_is_lost),
        ONCE(test_rows_commit_with_the_version),
        ONCE(test_rows_are_rolled_back),
        ONCE(test_rows_in_a_transaction_already),
        ONCE(test_the_session_stays_as_it_was),
        ONCE(test_bump_in_a_transaction),
        ONCE(test_a_changed_snapshot_is_retried),
        ONCE(test_a_deadlock_is_retried),
    };
    return cmocka_run_group_tests_name("section", tests, open_clients, close_clients);
}
