#include "clusters/sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rowlock/rowlock_migrate.h"
#include "rowlock/rowlock_mysql.h"

#define SOON_MS 60000

MYSQL *sql_at(int node)
{
    cluster_use(node);
    return ts_connect(ts_schema());
}

static bool has_procedures(MYSQL *mysql, uint64_t count)
{
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM information_schema.routines"
                             " WHERE routine_schema = DATABASE()") == count;
}

void sql_install(int node)
{
    const rowlock_client_options options = cluster_options(node);
    rowlock_procedures_result result;
    WANT(OK, rowlock_procedures_install(&options, NULL, &result, &ts_err));
    for (int n = 1; n <= CLUSTER_NODES; n++) {
        MYSQL *mysql = sql_at(n);
        assert_true(POLL_UNTIL(has_procedures(mysql, result.total), SOON_MS));
        mysql_close(mysql);
    }
}

void want_sqlstate(MYSQL *mysql, const char *statement, const char *state)
{
    assert_int_not_equal(ts_sql_try(mysql, "%s", statement), 0);
    assert_string_equal(mysql_sqlstate(mysql), state);
}

/* -------------------------------------------------------------------------- exclusion */

enum { TURNS = 6, WORKERS = 2 * CLUSTER_NODES };

/* Half of them are sessions of SQL alone, half programs. */
typedef struct worker {
    const char *name;
    int node;
    bool program;
    rowlock_client *client;
    MYSQL *mysql;
    pthread_t thread;
    char odd[700]; /* the first error */
} worker;

static bool run(worker *w, const char *text)
{
    if (ts_sql_try(w->mysql, "%s", text) == 0)
        return true;
    snprintf(w->odd, sizeof w->odd, "node %d: %.300s: %u %s", w->node, text, mysql_errno(w->mysql),
             mysql_error(w->mysql));
    return false;
}

static bool take(worker *w, rowlock_hold **hold)
{
    char text[300];
    rowlock_error err = {0};
    const rowlock_acquire_options options = {.wait_ms = 2L * SOON_MS, .ttl_ms = SOON_MS};
    snprintf(text, sizeof text, "CALL rowlock_acquire('%s', 60, 120, @token)", w->name);
    if (!w->program)
        return run(w, text);
    if (rowlock_acquire(w->client, w->name, &options, hold, &err) != ROWLOCK_OK) {
        snprintf(w->odd, sizeof w->odd, "node %d: %.600s", w->node, err.message);
        return false;
    }
    snprintf(text, sizeof text, "SET @token = %llu", (unsigned long long)rowlock_hold_token(*hold));
    return run(w, text);
}

/* Reads a number, and writes one more: nothing but the lock makes it right. */
static bool work(worker *w)
{
    char text[300];
    snprintf(text, sizeof text, "CALL rowlock_fence('%s', @token)", w->name);
    if (!run(w, "START TRANSACTION") || !run(w, text))
        return false;
    snprintf(text, sizeof text, "INSERT INTO turn VALUES (@token, %d, %d)", w->node, w->program);
    uint64_t value = ts_sql_u64(w->mysql, "SELECT value FROM tally");
    if (!run(w, text))
        return false;
    snprintf(text, sizeof text, "UPDATE tally SET value = %llu", (unsigned long long)value + 1);
    return run(w, text) && run(w, "COMMIT");
}

static bool give_back(worker *w, rowlock_hold *hold)
{
    char text[300];
    rowlock_error err = {0};
    snprintf(text, sizeof text, "CALL rowlock_release('%s', @token)", w->name);
    if (!w->program)
        return run(w, text);
    if (rowlock_release(hold, &err) == ROWLOCK_OK)
        return true;
    snprintf(w->odd, sizeof w->odd, "node %d: %.600s", w->node, err.message);
    return false;
}

static void *take_turns(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < TURNS && !*w->odd; i++) {
        rowlock_hold *hold = NULL;
        if (take(w, &hold) && work(w))
            (void)give_back(w, hold);
        else if (hold)
            (void)rowlock_release(hold, NULL);
    }
    mysql_thread_end();
    return NULL;
}

static bool tally_arrived(MYSQL *mysql)
{
    return ts_sql_try(mysql, "DO (SELECT COUNT(*) FROM turn)") == 0 &&
           ts_sql_try(mysql, "DO (SELECT COUNT(*) FROM tally)") == 0 &&
           ts_sql_u64(mysql, "SELECT COUNT(*) FROM tally") == 1;
}

static void worker_start(worker *w)
{
    w->mysql = sql_at(w->node);
    w->client = w->program ? cluster_open(w->node) : NULL;
    assert_true(POLL_UNTIL(tally_arrived(w->mysql), SOON_MS));
}

/* SQL and C, at every node: they take turns, and each turn has a higher token than the one before.
 */
void test_sql_sessions_from_every_node(void **state)
{
    (void)state;
    cluster_needed();
    worker workers[WORKERS] = {0};
    const char *name = ts_name("sql");
    const char *odd = "";
    sql_install(1);
    MYSQL *mysql = sql_at(1);
    ts_sql(mysql, "CREATE TABLE tally (id INT PRIMARY KEY, value BIGINT NOT NULL)");
    ts_sql(mysql, "CREATE TABLE turn (token BIGINT PRIMARY KEY, node INT, program INT)");
    ts_sql(mysql, "INSERT INTO tally VALUES (1, 0)");
    for (int i = 0; i < WORKERS; i++) {
        workers[i] =
            (worker){.name = name, .node = i % CLUSTER_NODES + 1, .program = i < CLUSTER_NODES};
        worker_start(&workers[i]);
    }
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, take_turns, &workers[i]), 0);
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        odd = *workers[i].odd ? workers[i].odd : odd;
        mysql_close(workers[i].mysql);
        rowlock_client_close(workers[i].client);
    }
    assert_string_equal(odd, "");
    assert_true(POLL_UNTIL(
        ts_sql_u64(mysql, "SELECT COUNT(*) FROM turn") == (uint64_t)WORKERS * TURNS, SOON_MS));
    assert_int_equal(ts_sql_u64(mysql, "SELECT value FROM tally"), WORKERS * TURNS);
    want_sqlstate(mysql, "CALL rowlock_row_make(NULL)", "RLINV");
    ts_sql(mysql, "CALL rowlock_row_make('sql row')");
    ts_sql(mysql, "START TRANSACTION");
    want_sqlstate(mysql, "CALL rowlock_row_lock('sql row', 0)", "RLUNS");
    mysql_close(mysql);
}

/* The lease of an open fenced transaction runs out, and is taken at another node, which does not
 * know of it: what the transaction wrote is not committed. */
void test_a_fenced_sql_transaction_is_overtaken(void **state)
{
    (void)state;
    cluster_needed();
    const char *name = ts_name("overtaken");
    sql_install(1);
    MYSQL *late = sql_at(1);
    MYSQL *next = sql_at(2);
    ts_sql(late, "CREATE TABLE late (id INT PRIMARY KEY)");
    ts_sql(late, "CALL rowlock_acquire('%s', 1, 30, @token)", name);
    ts_sql(late, "START TRANSACTION");
    ts_sql(late, "CALL rowlock_fence('%s', @token)", name);
    ts_sql(late, "INSERT INTO late VALUES (1)");
    ts_sql(next, "CALL rowlock_acquire('%s', 300, 60, @token)", name);
    assert_int_not_equal(ts_sql_try(late, "COMMIT"), 0);
    (void)ts_sql_try(late, "ROLLBACK");
    assert_int_equal(ts_sql_u64(late, "SELECT COUNT(*) FROM late"), 0);
    ts_sql(next, "CALL rowlock_check('%s', @token)", name);
    assert_true(ts_sql_u64(next, "SELECT @token") > ts_sql_u64(late, "SELECT @token"));
    ts_sql(next, "CALL rowlock_release('%s', @token)", name);
    mysql_close(late);
    mysql_close(next);
}

/* -------------------------------------------------------------------------- the event */

static bool has_event(MYSQL *mysql, const char *status)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM information_schema.events WHERE event_schema ="
                      " DATABASE() AND event_name = 'rowlock_sweep' AND status LIKE '%%%s'",
                      status) == 1;
}

/* Started anew: what it has not done yet is not waited for. */
void event_install(int node)
{
    const rowlock_client_options options = cluster_options(node);
    const rowlock_sweep_event_options how = {.every_ms = 1000};
    MYSQL *mysql = sql_at(node);
    WANT(OK, rowlock_sweep_event_install(&options, &how, NULL, &ts_err));
    assert_true(has_event(mysql, "ENABLED"));
    ts_sql(mysql, "SET GLOBAL event_scheduler = ON");
    mysql_close(mysql);
}

void event_add_dead(MYSQL *mysql, const char *prefix, unsigned count)
{
    ts_sql(mysql,
           "INSERT INTO resource (resource_name, kind, status, version, owner, owner_label,"
           " acquired_at, lease_expires_at, update_time)"
           " WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < %u)"
           " SELECT CONCAT('%s-', i), 'optimistic', 'held', 7, 'owner', 'label',"
           " UTC_TIMESTAMP(6), '2020-01-01', UTC_TIMESTAMP(6) FROM n",
           count, prefix);
    ts_sql(mysql,
           "INSERT INTO lease_renewal (id)"
           " SELECT id FROM resource WHERE resource_name LIKE '%s-%%'",
           prefix);
}

bool event_freed_all(MYSQL *mysql, const char *prefix, unsigned count)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM resource WHERE resource_name LIKE '%s-%%'"
                      " AND status = 'free' AND version = 8",
                      prefix) == count &&
           ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM lock_event WHERE resource_name LIKE '%s-%%'"
                      " AND event = 'expired'",
                      prefix) == count;
}

typedef struct looked {
    rowlock_level level;
    char found[700];
} looked;

static void note_event(void *data, const rowlock_finding *finding)
{
    looked *l = data;
    if (strcmp(finding->check, "event") != 0)
        return;
    l->level = finding->level;
    snprintf(l->found, sizeof l->found, "%s", finding->found);
}

bool event_is(int node, rowlock_level level, const char *found)
{
    const rowlock_client_options options = cluster_options(node);
    looked l = {.level = ROWLOCK_BROKEN};
    WANT(OK, rowlock_diagnose(&options, 0, note_event, &l, &ts_err));
    return l.level == level && strstr(l.found, found) != NULL;
}

/* As an administrator does it: at this node alone. */
static void enable_here(MYSQL *mysql)
{
    const char *local = ts_is_mysql(mysql) ? "sql_log_bin" : "wsrep_on";
    ts_sql(mysql, "SET SESSION %s = OFF", local);
    ts_sql(mysql, "ALTER EVENT rowlock_sweep ENABLE");
    ts_sql(mysql, "SET SESSION %s = ON", local);
}

/* What the server's error log says of events that failed. */
static unsigned event_errors(int node)
{
    char path[300];
    char line[2000];
    unsigned count = 0;
    snprintf(path, sizeof path, "%s", cluster_socket(node));
    char *slash = strrchr(path, '/');
    snprintf(slash, sizeof path - (size_t)(slash - path), "/error.log");
    FILE *log = fopen(path, "re");
    assert_non_null(log);
    while (fgets(line, sizeof line, log))
        count += strstr(line, "[ERROR]") && strstr(line, "rowlock_sweep]");
    fclose(log);
    return count;
}

static uint64_t runs(MYSQL *mysql)
{
    return ts_sql_u64(mysql, "SELECT runs FROM sweep_event");
}

/*
 * Made at one node, it is disabled at the others; where it is enabled at all of them (by hand, or
 * because a node was copied from another) one sweeps and the others let it, without an error.
 */
void test_the_event_at_several_nodes(void **state)
{
    (void)state;
    cluster_needed();
    enum { DEAD = 300, RUNS = 6 };
    MYSQL *at[CLUSTER_NODES + 1];
    sql_install(1);
    for (int n = 1; n <= CLUSTER_NODES; n++)
        at[n] = sql_at(n);
    event_install(1);
    for (int n = 2; n <= CLUSTER_NODES; n++) {
        assert_true(POLL_UNTIL(has_event(at[n], "SIDE_DISABLED"), SOON_MS));
        assert_true(POLL_UNTIL(event_is(n, ROWLOCK_NOTE, "another server sweeps"), SOON_MS));
    }
    for (int n = 2; n <= CLUSTER_NODES; n++) {
        enable_here(at[n]);
        ts_sql(at[n], "SET GLOBAL event_scheduler = ON");
    }
    const char *prefix = ts_name("dead");
    event_add_dead(at[1], prefix, DEAD);
    assert_true(POLL_UNTIL(event_freed_all(at[1], prefix, DEAD), SOON_MS));
    uint64_t before = runs(at[1]);
    assert_true(POLL_UNTIL(runs(at[1]) >= before + RUNS, SOON_MS));
    for (int n = 1; n <= CLUSTER_NODES; n++) {
        assert_true(POLL_UNTIL(event_is(n, ROWLOCK_FINE, "the server sweeps"), SOON_MS));
        assert_int_equal(event_errors(n), 0);
    }
    /* Made anew at another node, it moves there. */
    event_install(2);
    assert_true(POLL_UNTIL(has_event(at[1], "SIDE_DISABLED"), SOON_MS));
    const rowlock_client_options options = cluster_options(3);
    WANT(OK, rowlock_sweep_event_remove(&options, NULL, NULL, &ts_err));
    for (int n = 1; n <= CLUSTER_NODES; n++)
        mysql_close(at[n]);
}

/* -------------------------------------------------------------------------- migrations */

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void remove_file(const char *folder, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

/* A migrator at another node could not be ended: refused, and nothing changed; with the word
 * that all use one node, that one's changes get to the others. */
void test_migrations_on_many_writers(void **state)
{
    (void)state;
    cluster_needed();
    char folder[200];
    ts_make_folder("files", folder, sizeof folder);
    write_file(folder, "0001_one.sql", "CREATE TABLE migrated (id INT PRIMARY KEY);");
    write_file(folder, "0002_two.sql", "INSERT INTO migrated VALUES (1), (2);");
    const rowlock_migrations_options what = {.folder = folder, .schema = ts_schema()};
    rowlock_migrations_result result;
    rowlock_client *client = cluster_open(1);
    WANT(UNSUPPORTED, rowlock_migrations_apply(client, &what, &result, &ts_err));
    assert_non_null(strstr(ts_err.message, "--single-writer"));
    rowlock_client_close(client);
    MYSQL *mysql = sql_at(1);
    assert_int_equal(ts_sql_try(mysql, "DO (SELECT COUNT(*) FROM migrated)"), 1146);
    mysql_close(mysql);
    rowlock_client_options options = cluster_options(1);
    options.single_writer = true;
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    WANT(OK, rowlock_migrations_apply(client, &what, &result, &ts_err));
    assert_int_equal(result.applied, 2);
    rowlock_client_close(client);
    mysql = sql_at(3);
    assert_true(POLL_UNTIL(ts_sql_try(mysql, "DO (SELECT COUNT(*) FROM migrated)") == 0 &&
                               ts_sql_u64(mysql, "SELECT COUNT(*) FROM migrated") == 2,
                           SOON_MS));
    mysql_close(mysql);
    remove_file(folder, "0001_one.sql");
    remove_file(folder, "0002_two.sql");
    rmdir(folder);
}
