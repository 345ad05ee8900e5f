#include "clusters/sql.h"

void sql_install(int node)
{
    const rowlock_client_options options = cluster_options(node);
    rowlock_procedures_result result;
    WANT(OK, rowlock_procedures_install(&options, NULL, &result, &ts_err));
    for (int n = 1; n <= CLUSTER_NODES; n++) {
        TS_MYSQL *mysql = sql_at(n);
        SOON(cluster_so(mysql,
                        "%u = (SELECT COUNT(*) FROM information_schema.routines"
                        " WHERE routine_schema = DATABASE())",
                        (unsigned)result.total));
    }
}

void want_sqlstate(MYSQL *mysql, const char *statement, const char *state)
{
    assert_int_not_equal(ts_sql_try(mysql, "%s", statement), 0);
    assert_string_equal(mysql_sqlstate(mysql), state);
}

enum { TURNS = 6, WORKERS = 2 * CLUSTER_NODES };

typedef struct worker {
    int node;
    MYSQL *mysql;
    pthread_t thread;
    char odd[700]; /* the first error */
} worker;

static bool run(worker *w, const char *text)
{
    if (ts_sql_try(w->mysql, "%s", text) == 0)
        return true;
    snprintf(w->odd, sizeof w->odd, "node %d: %.100s: %.500s", w->node, text,
             mysql_error(w->mysql));
    return false;
}

/* Adds one to a number, by a read and a write: only the lock keeps the count right. */
static bool work(worker *w)
{
    return run(w, "START TRANSACTION") && run(w, "CALL rowlock_fence(@name, @token)") &&
           run(w, "SET @value = (SELECT value FROM tally)") &&
           run(w, "INSERT INTO turn VALUES (@token)") &&
           run(w, "UPDATE tally SET value = @value + 1") && run(w, "COMMIT");
}

/* Where another node's commit ends the call between two of its statements, the server runs no
 * handler of the procedure and answers 1213 (docs/servers.md, 1): nothing is held, and it is called
 * again. */
static bool acquire(worker *w)
{
    const char *text = "CALL rowlock_acquire(@name, 60, 120, @token)";
    while (!run(w, text)) {
        if (mysql_errno(w->mysql) != 1213)
            return false;
        *w->odd = '\0';
    }
    return true;
}

static void *take_turns(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < TURNS && !*w->odd; i++)
        (void)(acquire(w) && work(w) && run(w, "CALL rowlock_release(@name, @token)"));
    mysql_thread_end();
    return NULL;
}

/* SQL sessions at every node take turns; each turn has a higher token than the one before. */
void test_sql_sessions_from_every_node(void)
{
    worker workers[WORKERS] = {0};
    const char *name = ts_name("sql");
    const char *first = "";
    sql_install(1);
    TS_MYSQL *mysql = sql_at(1);
    ts_sql(mysql, "CREATE TABLE tally (id INT PRIMARY KEY, value BIGINT NOT NULL)");
    ts_sql(mysql, "CREATE TABLE turn (token BIGINT PRIMARY KEY)");
    ts_sql(mysql, "INSERT INTO tally VALUES (1, 0)");
    for (int i = 0; i < WORKERS; i++) {
        worker *w = &workers[i];
        *w = (worker){.node = i % CLUSTER_NODES + 1};
        w->mysql = sql_at(w->node);
        ts_sql(w->mysql, "SET @name = '%s'", name);
        SOON(cluster_so(w->mysql, "(SELECT COUNT(*) FROM turn) = 0"
                                  " AND (SELECT COUNT(*) FROM tally) = 1"));
    }
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, take_turns, &workers[i]), 0);
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(workers[i].thread, NULL);
        first = *workers[i].odd ? workers[i].odd : first;
        mysql_close(workers[i].mysql);
    }
    assert_string_equal(first, "");
    SOON(cluster_so(mysql, "(SELECT COUNT(*) FROM turn) = %d", WORKERS * TURNS));
    assert_int_equal(ts_sql_u64(mysql, "SELECT value FROM tally"), WORKERS * TURNS);
    /* What was answered with an error has taken nothing. */
    SOON(cluster_so(mysql,
                    "(SELECT SUM(event = 'acquired') = %d AND SUM(event = 'released') = %d"
                    " AND COUNT(*) = %d FROM lock_event WHERE resource_name = '%s')",
                    WORKERS * TURNS, WORKERS * TURNS, 2 * WORKERS * TURNS, name));
    want_sqlstate(mysql, "CALL rowlock_row_make(NULL)", "RLINV");
    ts_sql(mysql, "CALL rowlock_row_make('sql row')");
    ts_sql(mysql, "START TRANSACTION");
    want_sqlstate(mysql, "CALL rowlock_row_lock('sql row', 0)", "RLUNS");
}

/* The lease of an open fenced transaction runs out, and is taken at another node, which does not
 * know of the transaction: what that wrote is not committed. */
void test_a_fenced_sql_transaction_is_overtaken(void)
{
    const char *name = ts_name("overtaken");
    sql_install(1);
    TS_MYSQL *late = sql_at(1);
    TS_MYSQL *next = sql_at(2);
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
}

static bool has_event(MYSQL *mysql, const char *status)
{
    return cluster_so(mysql,
                      "EXISTS (SELECT 1 FROM information_schema.events WHERE event_schema ="
                      " DATABASE() AND event_name = 'rowlock_sweep' AND status LIKE '%%%s')",
                      status);
}

/* Makes the event anew: what an older one has still to do is not waited for. */
void event_install(int node)
{
    const rowlock_client_options options = cluster_options(node);
    const rowlock_sweep_event_options how = {.every_ms = 1000};
    TS_MYSQL *mysql = sql_at(node);
    WANT(OK, rowlock_sweep_event_install(&options, &how, NULL, &ts_err));
    assert_true(has_event(mysql, "ENABLED"));
    ts_sql(mysql, "SET GLOBAL event_scheduler = ON");
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
    return cluster_so(mysql,
                      "%u = (SELECT COUNT(*) FROM resource WHERE resource_name LIKE '%s-%%'"
                      " AND status = 'free' AND version = 8) AND %u = (SELECT COUNT(*)"
                      " FROM lock_event WHERE resource_name LIKE '%s-%%' AND event = 'expired')",
                      count, prefix, count, prefix);
}

bool event_is(int node, rowlock_level level, const char *found)
{
    return cluster_finds(node, "event", level, found);
}

/* Enables the event at this node alone, as an administrator might. */
static void enable_here(MYSQL *mysql)
{
    const char *local = ts_is_mysql(mysql) ? "sql_log_bin" : "wsrep_on";
    ts_sql(mysql, "SET SESSION %s = OFF", local);
    ts_sql(mysql, "ALTER EVENT rowlock_sweep ENABLE");
    ts_sql(mysql, "SET SESSION %s = ON", local);
}

/* How many failures of the event are in the server's error log. */
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

/* The event is removed at node 3 while its run at another node has changed its row, and not yet
 * committed. (Of a table that was dropped meanwhile, node 3 could not apply that change.) */
static void remove_beside_a_run(MYSQL *running)
{
    const rowlock_client_options options = cluster_options(3);
    ts_sql(running, "BEGIN");
    ts_sql(running, "UPDATE sweep_event SET runs = runs + 1 WHERE id = 1");
    WANT(OK, rowlock_sweep_event_remove(&options, NULL, NULL, &ts_err));
    (void)ts_sql_try(running, "COMMIT"); /* it may be refused */
    (void)ts_sql_try(running, "ROLLBACK");
}

/*
 * An event made at one node is disabled at the others. If it is enabled at all of them (by hand, or
 * because a node was copied from another), one sweeps and the others do nothing, without an error.
 */
void test_the_event_at_several_nodes(void)
{
    enum { DEAD = 300, RUNS = 6 };
    MYSQL *at[CLUSTER_NODES + 1];
    sql_install(1);
    for (int n = 1; n <= CLUSTER_NODES; n++)
        at[n] = sql_at(n);
    event_install(1);
    for (int n = 2; n <= CLUSTER_NODES; n++) {
        SOON(has_event(at[n], "SIDE_DISABLED"));
        SOON(event_is(n, ROWLOCK_NOTE, "another server sweeps"));
    }
    for (int n = 2; n <= CLUSTER_NODES; n++) {
        enable_here(at[n]);
        ts_sql(at[n], "SET GLOBAL event_scheduler = ON");
    }
    const char *prefix = ts_name("dead");
    event_add_dead(at[1], prefix, DEAD);
    SOON(event_freed_all(at[1], prefix, DEAD));
    ts_sql(at[1], "SET @before = (SELECT runs FROM sweep_event)");
    SOON(cluster_so(at[1], "(SELECT runs FROM sweep_event) >= @before + %d", RUNS));
    for (int n = 1; n <= CLUSTER_NODES; n++) {
        SOON(event_is(n, ROWLOCK_FINE, "the server sweeps"));
        assert_int_equal(event_errors(n), 0);
    }
    /* An event made again at another node moves there. */
    event_install(2);
    SOON(has_event(at[1], "SIDE_DISABLED"));
    remove_beside_a_run(at[2]);
    for (int n = 1; n <= CLUSTER_NODES; n++) {
        SOON(cluster_so(at[n], "NOT EXISTS (SELECT * FROM sweep_event)"));
        mysql_close(at[n]);
    }
}

/* Migrating is refused, and nothing changed, because a migrator at another node could not be
 * stopped. With the promise that all use one node, that node's changes get to the others. */
void test_migrations_on_many_writers(void)
{
    char folder[200];
    char command[700];
    ts_make_folder("files", folder, sizeof folder);
    snprintf(command, sizeof command,
             "cd '%s' && echo 'CREATE TABLE migrated (id INT PRIMARY KEY);' >0001_one.sql &&"
             " echo 'INSERT INTO migrated VALUES (1), (2);' >0002_two.sql",
             folder);
    assert_int_equal(system(command), 0);
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
    SOON(cluster_so(mysql, "(SELECT COUNT(*) FROM migrated) = 2"));
    mysql_close(mysql);
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    assert_int_equal(system(command), 0);
}
