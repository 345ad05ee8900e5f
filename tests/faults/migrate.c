/*
 * rowlock_migrations_apply() when the network fails or another migrator takes over: no statement of
 * the old migrator starts afterwards, an unknown outcome is looked up, and reported as unknown if
 * that fails. (Processes that are killed and paused: tests/cli/migrate_death.bats.)
 */
#include "faults/through.h"

static const char *app; /* the schema to migrate, a new one for each test */
static char folder[200];

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

/* A folder with one file, and a schema without a history. */
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

static void check_seen(const char *wanted)
{
    char *text = ts_sql_text(
        mysql, "SELECT GROUP_CONCAT(what ORDER BY what SEPARATOR ' ') FROM %s.seen", app);
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

typedef struct migrator {
    rowlock_client *client;
    rowlock_migrations_options options;
    pthread_t thread;
    rowlock_status status;
    rowlock_error err;
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

/* A migrator has noted its statement and sent it, and the statement arrives after another one has
 * taken over: its connection has ended. */
TS_ONCE(test_a_statement_that_is_late_goes_nowhere)
{
    start_with("-- rowlock: resumable\nINSERT INTO seen VALUES ('one');\n");
    static migrator late; /* the thread may outlive a test that fails */
    late = (migrator){.client = through_open(), .options = options_of(TS_KEPT_TTL)};
    ts_proxy_arm(proxy, TS_DELAY_COMMAND, "=INSERT INTO seen VALUES ('one')", 1, false);
    start_migrator(&late);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 30000));
    break_the_lock();
    WANT(OK, apply_directly());
    check_seen("one");
    ts_proxy_flow(proxy);
    assert_int_equal(end_migrator(&late), ROWLOCK_LOST);
    check_seen("one");
}

static void overtake_in_the_history(void *data, const rowlock_migrations_progress *now)
{
    (void)data;
    if (now->event == ROWLOCK_MIGRATIONS_STATEMENT)
        ts_sql(mysql, "UPDATE %s.rowlock_migration SET token = token + 1 WHERE version = 0", app);
}

/* The token alone stops it, even if its connection lives. */
TS_ONCE(test_another_token_in_the_history_ends_it)
{
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

/* The test's own statement runs, or waits, in its schema. */
static bool runs(const char *like)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM " TS_PROCESSLIST " WHERE db = '%s' AND info LIKE '%s'",
                      app, like) == 1;
}

/* A folder with one file, whose statement waits until `keeper` ends its transaction. */
static void start_with_gate(const char *text, MYSQL *keeper)
{
    start_with(text);
    ts_sql(mysql, "CREATE TABLE %s.gate (id INT PRIMARY KEY)", app);
    ts_sql(mysql, "INSERT INTO %s.gate VALUES (1)", app);
    ts_sql(keeper, "START TRANSACTION");
    ts_sql(keeper, "UPDATE %s.gate SET id = 2", app);
}

/* Its host is cut off during a statement, for longer than its TTL. */
TS_ONCE(test_one_that_is_cut_off_is_ended)
{
    TS_MYSQL *keeper = ts_connect(NULL);
    start_with_gate("-- rowlock: resumable\nINSERT INTO seen SELECT 'one' FROM gate FOR UPDATE;\n",
                    keeper);
    static migrator cut; /* the threads may outlive a test that fails */
    static migrator next;
    cut = (migrator){.client = through_open(), .options = options_of(TS_KEPT_TTL)};
    next = (migrator){.client = ts_open(), .options = options_of(0)};
    start_migrator(&cut);
    assert_true(POLL_UNTIL(runs("INSERT INTO seen%gate%"), 30000));
    uint64_t old =
        ts_sql_u64(mysql, "SELECT connection_id FROM %s.rowlock_migration WHERE version = 0", app);
    ts_proxy_stall(proxy, true);
    start_migrator(&next);
    /* The new migrator ended the old one's statement before it began its own, which waits now. */
    assert_true(
        POLL_UNTIL(ts_sql_u64(mysql, "SELECT COUNT(*) FROM " TS_PROCESSLIST " WHERE id = %llu",
                              (unsigned long long)old) == 0 &&
                       runs("INSERT INTO seen%gate%"),
                   60000));
    ts_sql(keeper, "ROLLBACK");
    assert_int_equal(end_migrator(&next), ROWLOCK_OK);
    ts_proxy_stall(proxy, false);
    assert_int_equal(end_migrator(&cut), ROWLOCK_LOST);
    check_seen("one");
}

/* Somebody's session has the marker. */
static void take_the_marker(MYSQL *session)
{
    ts_sql(session,
           "DO GET_LOCK(CONCAT('rowlock.migrate.', "
           "LEFT(SHA2('%s.rowlock_migration', 256), 40)), 0)",
           app);
}

/* Also when the time to wait for the lock is over, as it may be before a later file. */
TS_ONCE(test_a_marker_is_waited_for_with_pauses)
{
    start_with("INSERT INTO seen VALUES ('one');\n");
    TS_MYSQL *stranger = ts_connect(NULL);
    TS_CLIENT *client = through_open();
    rowlock_migrations_options options = options_of(0);
    options.wait_ms = 1500;
    take_the_marker(stranger);
    const unsigned before = ts_proxy_commands(proxy);
    WANT(OK, rowlock_migrations_apply(client, &options, NULL, &ts_err));
    assert_in_range(ts_proxy_commands(proxy) - before, 1, 300);
}

/* It asks who has the marker, and is overtaken meanwhile: it must not end the connection of the one
 * that works now. */
TS_ONCE(test_who_asks_late_whose_the_marker_is_ends_nobody)
{
    TS_MYSQL *keeper = ts_connect(NULL);
    TS_MYSQL *stranger = ts_connect(NULL);
    start_with_gate("INSERT INTO seen SELECT 'one' FROM gate FOR UPDATE;\n", keeper);
    take_the_marker(stranger);
    static migrator late; /* the threads may outlive a test that fails */
    static migrator next;
    late = (migrator){.client = through_open(), .options = options_of(TS_KEPT_TTL)};
    next = (migrator){.client = ts_open(), .options = options_of(0)};
    ts_proxy_arm(proxy, TS_DELAY_COMMAND, "session_marked", 1, false);
    start_migrator(&late);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 30000));
    ts_sql(stranger, "DO RELEASE_ALL_LOCKS()");
    break_the_lock();
    start_migrator(&next);
    assert_true(POLL_UNTIL(runs("INSERT INTO seen%gate%"), 60000));
    ts_proxy_flow(proxy);
    assert_int_equal(end_migrator(&late), ROWLOCK_LOST);
    ts_sql(keeper, "ROLLBACK");
    assert_int_equal(end_migrator(&next), ROWLOCK_OK);
    check_seen("one");
}

TS_ONCE(test_a_lost_reply_is_not_guessed)
{
    static const ts_fault faults[] = {TS_LOSE_REPLY, TS_LOSE_COMMAND};
    for (unsigned i = 0; i < 2; i++) {
        start_with("INSERT INTO seen VALUES ('one');\nINSERT INTO seen VALUES ('two');\n");
        TS_CLIENT *client = through_open();
        const rowlock_migrations_options options = options_of(0);
        ts_proxy_arm(proxy, faults[i], "=INSERT INTO seen VALUES ('two')", 1, false);
        WANT(UNKNOWN, rowlock_migrations_apply(client, &options, NULL, &ts_err));
        assert_true(ts_proxy_fired(proxy));
        WANT(REPAIR, rowlock_migrations_apply(client, &options, NULL, &ts_err));
        assert_non_null(strstr(ts_err.message, "statement 2 of 2"));
        check_seen(i == 0 ? "one two" : "one");
        const rowlock_migrations_repair_options looked = {.has_done = true, .done = i == 0 ? 2 : 1};
        WANT(OK, rowlock_migrations_repair(client, &options, &looked, NULL, &ts_err));
        WANT(OK, rowlock_migrations_apply(client, &options, NULL, &ts_err));
        check_seen("one two");
    }
}

/* An error with a number that a server cannot send: Connector/C takes the reply for malformed. */
TS_ONCE(test_a_reply_that_cannot_be_read_is_not_guessed)
{
    start_with("INSERT INTO seen VALUES ('one');\nINSERT INTO seen VALUES ('two');\n");
    TS_CLIENT *client = through_open();
    const rowlock_migrations_options options = options_of(0);
    ts_proxy_answer(proxy, 2008, "=INSERT INTO seen VALUES ('two')", 1);
    WANT(UNKNOWN, rowlock_migrations_apply(client, &options, NULL, &ts_err));
    WANT(REPAIR, rowlock_migrations_apply(client, &options, NULL, &ts_err));
}

/* The record commits with the rows, so it can be looked up. */
TS_ONCE(test_a_lost_commit_of_a_whole_file_is_looked_up)
{
    start_with("-- rowlock: transaction\nINSERT INTO seen VALUES ('one');\n");
    TS_CLIENT *client = through_open();
    const rowlock_migrations_options options = options_of(0);
    ts_proxy_arm(proxy, TS_LOSE_COMMAND, "ledger_commit", 1, false);
    WANT(UNAVAILABLE, rowlock_migrations_apply(client, &options, NULL, &ts_err));
    assert_true(ts_proxy_fired(proxy));
    check_seen("");
    ts_proxy_arm(proxy, TS_LOSE_REPLY, "ledger_commit", 1, false);
    WANT(OK, rowlock_migrations_apply(client, &options, NULL, &ts_err));
    assert_true(ts_proxy_fired(proxy));
    check_seen("one");
    WANT(OK, rowlock_migrations_apply(client, &options, NULL, &ts_err));
    check_seen("one");
}

/* A program tells by number and SQLSTATE why a file stopped. */
TS_ONCE(test_the_number_and_sqlstate_of_a_failed_statement)
{
    start_with("INSERT INTO seen VALUES ('one');\nINSERT INTO nix VALUES (1);\n");
    WANT(FAILED, apply_directly());
    assert_int_equal(ts_err.server_errno, 1146);
    assert_string_equal(ts_err.sqlstate, "42S02");
}

/* Writes into the history are repeated. */
TS_ONCE(test_the_history_outlives_lost_connections)
{
    static const char *const names[] = {"ledger_create",   "ledger_guard", "ledger_enter",
                                        "ledger_register", "ledger_begin", "ledger_note"};
    static const ts_fault faults[] = {TS_LOSE_REPLY, TS_LOSE_COMMAND};
    for (size_t i = 0; i < 2 * sizeof names / sizeof names[0]; i++) {
        start_with("INSERT INTO seen VALUES ('one');\nINSERT INTO seen VALUES ('two');\n");
        TS_CLIENT *client = through_open();
        const rowlock_migrations_options options = options_of(0);
        ts_proxy_arm(proxy, faults[i % 2], names[i / 2], 1, false);
        WANT(OK, rowlock_migrations_apply(client, &options, NULL, &ts_err));
        if (!ts_proxy_fired(proxy))
            fail_msg("%s was not sent", names[i / 2]);
        check_seen("one two");
    }
}

TS_MAIN("migrations and faults", begin, end)
