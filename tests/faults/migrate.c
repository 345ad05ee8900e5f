/*
 * rowlock_migrations_apply() when the network or another migrator comes in between: a statement of
 * a migrator that was overtaken never starts, what is not known is not guessed, and what can be
 * asked is asked. (Processes that are killed and paused: tests/cli/migrate_death.bats.)
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "faults/through.h"
#include "rowlock/rowlock_migrate.h"

static const char *app; /* the schema that is migrated, anew for each test */
static char folder[200];

/* ---------------------------------------------------------------------------- set-up */

static int begin(void **state)
{
    through_begin(state);
    app = ts_extra_schema("app", false);
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/migrate-XXXXXX", tmp ? tmp : "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static const char *path_of_file(void)
{
    static char path[240];
    snprintf(path, sizeof path, "%s/0001_file.sql", folder);
    return path;
}

static int end(void **state)
{
    unlink(path_of_file());
    rmdir(folder);
    return through_end(state);
}

/* The one file, and a schema without a history. */
static void start_with(const char *text)
{
    FILE *file = fopen(path_of_file(), "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    ts_proxy_flow(proxy);
    ts_sql(mysql, "DROP DATABASE IF EXISTS %s", app);
    ts_sql(mysql, "CREATE DATABASE %s", app);
    ts_sql(mysql, "CREATE TABLE %s.seen (what VARCHAR(20))", app);
}

static rowlock_migrations_options options_of(int64_t ttl_ms)
{
    return (rowlock_migrations_options){
        .folder = folder, .schema = app, .ttl_ms = ttl_ms, .wait_ms = 60000};
}

static char *seen(void)
{
    return ts_sql_text(mysql, "SELECT GROUP_CONCAT(what ORDER BY what SEPARATOR ' ') FROM %s.seen",
                       app);
}

static void check_seen(const char *wanted)
{
    char *text = seen();
    assert_string_equal(text, wanted);
    free(text);
}

static void break_the_lock(void)
{
    char name[200];
    snprintf(name, sizeof name, "migrate:%s", app);
    WANT(OK, rowlock_break(direct, name, "a test", &ts_err));
}

static rowlock_status apply_directly(void)
{
    const rowlock_migrations_options options = options_of(0);
    return rowlock_migrations_apply(direct, &options, NULL, &ts_err);
}

/* ----------------------------------------------------------------- one in a thread */

typedef struct migrator {
    rowlock_client *client;
    rowlock_migrations_options options;
    pthread_t thread;
    rowlock_status status;
    rowlock_error err;
    atomic_bool waits; /* before its first statement */
    atomic_bool goes_on;
} migrator;

static void *run_migrator(void *data)
{
    migrator *m = data;
    m->status = rowlock_migrations_apply(m->client, &m->options, NULL, &m->err);
    return NULL;
}

static void start_migrator(migrator *m)
{
    assert_int_equal(pthread_create(&m->thread, NULL, run_migrator, m), 0);
}

static rowlock_status end_migrator(migrator *m)
{
    pthread_join(m->thread, NULL);
    rowlock_client_close(m->client);
    print_message("# it ended with %s: %s\n", rowlock_status_name(m->status),
                  m->status == ROWLOCK_OK ? "" : m->err.message);
    return m->status;
}

static void wait_before_statement(void *data, const rowlock_migrations_progress *now)
{
    migrator *m = data;
    if (now->event != ROWLOCK_MIGRATIONS_STATEMENT)
        return;
    atomic_store(&m->waits, true);
    assert_true(POLL_UNTIL(atomic_load(&m->goes_on), 60000));
}

/* -------------------------------------------------------------------------- overtaken */

/* It has noted its statement and sent it, and the statement arrives when another one has taken
 * over: the connection that it was for has ended. */
static void test_a_statement_that_is_late_goes_nowhere(void **state)
{
    (void)state;
    start_with("-- rowlock: resumable\nINSERT INTO seen VALUES ('one');\n");
    migrator late = {.client = through_open(), .options = options_of(0)};
    ts_proxy_arm(proxy, TS_DELAY_COMMAND, "INTO seen", 1, false);
    start_migrator(&late);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 30000));
    break_the_lock();
    WANT(OK, apply_directly());
    check_seen("one");
    ts_proxy_flow(proxy);
    assert_int_equal(end_migrator(&late), ROWLOCK_LOST);
    check_seen("one");
}

/* It is paused before it notes its statement. */
static void test_one_that_sleeps_before_its_note_runs_nothing(void **state)
{
    (void)state;
    start_with("INSERT INTO seen VALUES ('one');\nINSERT INTO seen VALUES ('two');\n");
    migrator sleeper = {.client = through_open(), .options = options_of(0)};
    sleeper.options.progress = wait_before_statement;
    sleeper.options.progress_data = &sleeper;
    start_migrator(&sleeper);
    assert_true(POLL_UNTIL(atomic_load(&sleeper.waits), 30000));
    break_the_lock();
    WANT(OK, apply_directly());
    check_seen("one two");
    atomic_store(&sleeper.goes_on, true);
    assert_int_equal(end_migrator(&sleeper), ROWLOCK_LOST);
    check_seen("one two");
    WANT(OK, apply_directly());
}

static void overtake_in_the_history(void *data, const rowlock_migrations_progress *now)
{
    (void)data;
    if (now->event == ROWLOCK_MIGRATIONS_STATEMENT)
        ts_sql(mysql, "UPDATE %s.rowlock_migration SET token = token + 1 WHERE version = 0", app);
}

/* The token alone stops it, whatever became of its connection. */
static void test_another_token_in_the_history_ends_it(void **state)
{
    (void)state;
    static const char *const files[] = {
        "INSERT INTO seen VALUES ('one');\n",
        "-- rowlock: transaction\nINSERT INTO seen VALUES ('one');"};
    for (size_t i = 0; i < 2; i++) {
        start_with(files[i]);
        rowlock_migrations_options options = options_of(0);
        options.progress = overtake_in_the_history;
        WANT(LOST, rowlock_migrations_apply(direct, &options, NULL, &ts_err));
        check_seen("");
    }
}

typedef struct overtaker {
    MYSQL *session;
    pthread_t thread;
    bool begun;
} overtaker;

static void *take_the_gate(void *data)
{
    const overtaker *o = data;
    ts_sql(o->session, "UPDATE gate SET id = 3");
    ts_sql(o->session, "COMMIT");
    return NULL;
}

static bool wants_the_gate(void)
{
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM information_schema.processlist"
                             " WHERE info LIKE 'UPDATE gate SET id = 3%%'") == 1;
}

/* With another token in the guard, not committed, it wants the row that the file has changed. The
 * server ends the one that has changed less: the file. */
static void overtake_and_want_the_gate(void *data, const rowlock_migrations_progress *now)
{
    overtaker *o = data;
    if (now->event != ROWLOCK_MIGRATIONS_STATEMENT || now->step != 2)
        return;
    ts_sql(o->session, "START TRANSACTION");
    ts_sql(o->session, "INSERT INTO heavy SELECT a.id, b.id FROM ten AS a, ten AS b");
    ts_sql(o->session, "UPDATE rowlock_migration SET token = token + 1 WHERE version = 0");
    assert_int_equal(pthread_create(&o->thread, NULL, take_the_gate, o), 0);
    o->begun = true;
    assert_true(POLL_UNTIL(wants_the_gate(), 30000));
}

/* The deadlock is how it came to light, not what happened. */
static void test_a_deadlock_at_its_commit_is_told_as_the_loss_it_is(void **state)
{
    (void)state;
    start_with("-- rowlock: transaction\nUPDATE gate SET id = 2;\n"
               "INSERT INTO seen VALUES ('one');\n");
    ts_sql(mysql, "CREATE TABLE %s.gate (id INT PRIMARY KEY)", app);
    ts_sql(mysql, "INSERT INTO %s.gate VALUES (1)", app);
    ts_sql(mysql, "CREATE TABLE %s.ten (id INT PRIMARY KEY)", app);
    ts_sql(mysql, "INSERT INTO %s.ten VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10)",
           app);
    ts_sql(mysql, "CREATE TABLE %s.heavy (a INT, b INT)", app);
    overtaker o = {.session = ts_connect(app)};
    rowlock_migrations_options options = options_of(0);
    options.progress = overtake_and_want_the_gate;
    options.progress_data = &o;
    WANT(LOST, rowlock_migrations_apply(direct, &options, NULL, &ts_err));
    assert_true(o.begun);
    pthread_join(o.thread, NULL);
    mysql_close(o.session);
    assert_non_null(strstr(ts_err.message, "nothing of it took effect"));
    assert_non_null(strstr(ts_err.message, "the lock of the migrations of the schema"));
    check_seen("");
}

static bool gate_waits(void)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM information_schema.processlist"
                      " WHERE db = '%s' AND info LIKE 'INSERT INTO seen%%gate%%'",
                      app) == 1;
}

/* Its host is cut off in the middle of a statement, for longer than its TTL. */
static void test_one_that_is_cut_off_is_ended(void **state)
{
    (void)state;
    start_with("-- rowlock: resumable\nINSERT INTO seen SELECT 'one' FROM gate FOR UPDATE;\n");
    ts_sql(mysql, "CREATE TABLE %s.gate (id INT PRIMARY KEY)", app);
    ts_sql(mysql, "INSERT INTO %s.gate VALUES (1)", app);
    MYSQL *keeper = ts_connect(app);
    ts_sql(keeper, "START TRANSACTION");
    ts_sql(keeper, "UPDATE gate SET id = 2");
    migrator cut = {.client = through_open(), .options = options_of(2000)};
    migrator next = {.client = ts_open(), .options = options_of(0)};
    start_migrator(&cut);
    assert_true(POLL_UNTIL(gate_waits(), 30000));
    uint64_t old =
        ts_sql_u64(mysql, "SELECT connection_id FROM %s.rowlock_migration WHERE version = 0", app);
    ts_proxy_stall(proxy, true);
    start_migrator(&next);
    /* It ended the old one's before it began its own, which waits now. */
    assert_true(POLL_UNTIL(
        ts_sql_u64(mysql, "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %llu",
                   (unsigned long long)old) == 0 &&
            gate_waits(),
        60000));
    ts_sql(keeper, "ROLLBACK");
    assert_int_equal(end_migrator(&next), ROWLOCK_OK);
    ts_proxy_stall(proxy, false);
    assert_int_equal(end_migrator(&cut), ROWLOCK_LOST);
    check_seen("one");
    mysql_close(keeper);
}

/* ------------------------------------------------------------------------ lost replies */

static void test_a_lost_reply_is_not_guessed(void **state)
{
    (void)state;
    static const ts_fault faults[] = {TS_LOSE_REPLY, TS_LOSE_COMMAND};
    for (unsigned i = 0; i < 2; i++) {
        start_with("INSERT INTO seen VALUES ('one');\nINSERT INTO seen VALUES ('two');\n");
        rowlock_client *client = through_open();
        const rowlock_migrations_options options = options_of(0);
        ts_proxy_arm(proxy, faults[i], "'two'", 1, false);
        WANT(UNKNOWN, rowlock_migrations_apply(client, &options, NULL, &ts_err));
        assert_true(ts_proxy_fired(proxy));
        WANT(REPAIR, rowlock_migrations_apply(client, &options, NULL, &ts_err));
        assert_non_null(strstr(ts_err.message, "statement 2 of 2"));
        check_seen(i == 0 ? "one two" : "one");
        const rowlock_migrations_repair_options looked = {.has_done = true, .done = i == 0 ? 2 : 1};
        WANT(OK, rowlock_migrations_repair(client, &options, &looked, NULL, &ts_err));
        WANT(OK, rowlock_migrations_apply(client, &options, NULL, &ts_err));
        check_seen("one two");
        rowlock_client_close(client);
    }
}

/* The record commits with the rows: it can be asked. */
static void test_a_lost_commit_of_a_whole_file_is_looked_up(void **state)
{
    (void)state;
    start_with("-- rowlock: transaction\nINSERT INTO seen VALUES ('one');\n");
    rowlock_client *client = through_open();
    const rowlock_migrations_options options = options_of(0);
    ts_proxy_arm(proxy, TS_LOSE_COMMAND, "COMMIT AND NO CHAIN", 1, false);
    WANT(UNAVAILABLE, rowlock_migrations_apply(client, &options, NULL, &ts_err));
    assert_true(ts_proxy_fired(proxy));
    check_seen("");
    ts_proxy_arm(proxy, TS_LOSE_REPLY, "COMMIT AND NO CHAIN", 1, false);
    WANT(OK, rowlock_migrations_apply(client, &options, NULL, &ts_err));
    assert_true(ts_proxy_fired(proxy));
    check_seen("one");
    WANT(OK, rowlock_migrations_apply(client, &options, NULL, &ts_err));
    check_seen("one");
    rowlock_client_close(client);
}

/* What is written into the history is written again. */
static void test_the_history_outlives_lost_connections(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "CREATE TABLE IF NOT EXISTS", "ON DUPLICATE KEY UPDATE", "AND token <=",
        "SET connection_id =",        "AS guard WHERE",          "file.running"};
    static const ts_fault faults[] = {TS_LOSE_REPLY, TS_LOSE_COMMAND};
    for (size_t i = 0; i < 2 * sizeof texts / sizeof texts[0]; i++) {
        start_with("INSERT INTO seen VALUES ('one');\nINSERT INTO seen VALUES ('two');\n");
        rowlock_client *client = through_open();
        const rowlock_migrations_options options = options_of(0);
        ts_proxy_arm(proxy, faults[i % 2], texts[i / 2], 1, false);
        WANT(OK, rowlock_migrations_apply(client, &options, NULL, &ts_err));
        if (!ts_proxy_fired(proxy))
            fail_msg("no statement has '%s'", texts[i / 2]);
        check_seen("one two");
        rowlock_client_close(client);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONCE(test_a_statement_that_is_late_goes_nowhere),
        ONCE(test_one_that_sleeps_before_its_note_runs_nothing),
        ONCE(test_another_token_in_the_history_ends_it),
        ONCE(test_a_deadlock_at_its_commit_is_told_as_the_loss_it_is),
        ONCE(test_one_that_is_cut_off_is_ended),
        ONCE(test_a_lost_reply_is_not_guessed),
        ONCE(test_a_lost_commit_of_a_whole_file_is_looked_up),
        ONCE(test_the_history_outlives_lost_connections),
    };
    return cmocka_run_group_tests_name("migrations and faults", tests, begin, end);
}
