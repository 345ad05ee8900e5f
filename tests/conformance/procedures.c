/* Installing the stored procedures: again, at the same time, over older ones; and removing them.
 * tests/sql tests what they do. */
#include "support/own_server.h"

static rowlock_procedures_result put(const char *schema, bool update_only)
{
    rowlock_client_options options = ts_options_on(schema);
    const rowlock_procedures_options how = {.update_only = update_only};
    rowlock_procedures_result result = {0};
    WANT(OK, rowlock_procedures_install(&options, &how, &result, &ts_err));
    return result;
}

static rowlock_procedures_result install(const char *schema)
{
    return put(schema, false);
}

static rowlock_procedures_result update(const char *schema)
{
    return put(schema, true);
}

static unsigned count(const char *schema)
{
    return (unsigned)ts_sql_u64(ts_mysql,
                                "SELECT COUNT(*) FROM information_schema.routines"
                                " WHERE routine_schema = '%s'",
                                schema);
}

static bool usable(const char *schema)
{
    return ts_sql_try(ts_mysql, "CALL `%s`.rowlock_try('installed', 5, @token)", schema) == 0;
}

TS_ONCE(test_install_and_remove)
{
    const char *schema = ts_extra_schema("procedures", true);
    rowlock_client_options options = ts_options_on(schema);
    rowlock_procedures_result result = update(schema);
    assert_int_equal(result.total, 0);
    assert_int_equal(count(schema), 0);
    result = install(schema);
    assert_true(result.total > 10);
    assert_int_equal(result.changed, result.total);
    assert_int_equal(count(schema), result.total);
    const unsigned total = result.total;
    result = install(schema);
    assert_int_equal(result.changed, 0);
    assert_int_equal(result.total, total);
    assert_int_equal(update(schema).changed, 0);
    assert_true(usable(schema));
    WANT(OK, rowlock_procedures_remove(&options, NULL, &result, &ts_err));
    assert_true(result.changed > 10);
    assert_int_equal(result.total, 0);
    assert_int_equal(count(schema), 0);
    WANT(OK, rowlock_procedures_remove(&options, NULL, &result, &ts_err));
    assert_int_equal(result.changed, 0);
}

/* Older procedures are replaced, old names are dropped, and a stranger's procedure stays. */
TS_ONCE(test_update)
{
    const char *schema = ts_extra_schema("procedures3", true);
    unsigned total = install(schema).total;
    ts_sql(ts_mysql, "DROP PROCEDURE `%s`.rowlock_check", schema);
    ts_sql(ts_mysql, "ALTER PROCEDURE `%s`.rowlock_try COMMENT 'rowlock 0.0.1 0'", schema);
    ts_sql(ts_mysql, "CREATE PROCEDURE `%s`.rl_of_old() COMMENT 'rowlock 0.0.1 0' DO 0", schema);
    ts_sql(ts_mysql, "CREATE PROCEDURE `%s`.theirs() COMMENT 'rowlock 0.0.1 0' DO 0", schema);
    ts_sql(ts_mysql, "CREATE PROCEDURE `%s`.rl_theirs() DO 0", schema);
    rowlock_procedures_result result = update(schema);
    assert_int_equal(result.changed, 3);
    assert_int_equal(result.total, total);
    assert_int_equal(count(schema), total + 2);
    assert_int_equal(update(schema).changed, 0);
    assert_true(usable(schema));
}

/* On MySQL, dropping a routine also drops the rights on it. */
TS_ONCE(test_rights_on_them_stay)
{
    const char *schema = ts_extra_schema("procedures4", true);
    install(schema);
    const char *user = ts_user("caller", "secret", NULL, NULL);
    ts_sql(ts_mysql, "GRANT EXECUTE ON PROCEDURE `%s`.rowlock_try TO %s@localhost", schema, user);
    ts_sql(ts_mysql, "ALTER PROCEDURE `%s`.rowlock_try COMMENT 'rowlock 0.0.1 0'", schema);
    assert_int_equal(update(schema).changed, 1);
    TS_MYSQL *own = ts_connect_as(user, "secret", NULL);
    assert_int_equal(ts_sql_try(own, "CALL `%s`.rowlock_try('granted', 5, @token)", schema), 0);
    assert_int_not_equal(ts_sql_try(own, "CALL `%s`.rowlock_break('granted')", schema), 0);
}

static int install_in_child(void *schema)
{
    rowlock_client_options options = ts_options_on(schema);
    rowlock_procedures_result result = {0};
    rowlock_status status = rowlock_procedures_install(&options, NULL, &result, &ts_err);
    if (status == ROWLOCK_OK)
        status = rowlock_sweep_event_install(&options, NULL, NULL, &ts_err);
    return status == ROWLOCK_OK ? result.changed > 0 : 100 + (int)status;
}

TS_ONCE(test_many_at_once)
{
    const char *schema = ts_extra_schema("procedures5", true);
    pid_t pids[4];
    int worked = 0;
    for (int i = 0; i < 4; i++)
        pids[i] = ts_fork(install_in_child, (void *)(uintptr_t)schema);
    for (int i = 0; i < 4; i++)
        worked += ts_reap(pids[i], 60000);
    assert_int_equal(worked, 1);
    assert_true(usable(schema));
    assert_int_equal(ts_sql_u64(ts_mysql,
                                "SELECT COUNT(*) FROM information_schema.events"
                                " WHERE event_schema = '%s'",
                                schema),
                     1);
}

TS_ONCE(test_no_tables)
{
    const char *schema = ts_extra_schema("procedures6", false);
    rowlock_client_options options = ts_options_on(schema);
    rowlock_procedures_result result = {.changed = 99};
    WANT(SCHEMA, rowlock_procedures_install(&options, NULL, &result, &ts_err));
    assert_int_equal(result.changed, 99);
    options.schema = "rl_nobody_makes_this";
    WANT(SCHEMA, rowlock_procedures_install(&options, NULL, &result, &ts_err));
}

/* (cli_grants and cli_event test which rights are enough.) */
TS_ONCE(test_missing_privileges)
{
    const char *schema = ts_extra_schema("procedures7", true);
    rowlock_client_options options = ts_options_on(schema);
    options.password = "installer's";
    ts_secret("installer's");
    options.user = ts_user("tablesonly", options.password, "SELECT, INSERT, UPDATE", schema);
    WANT(DENIED, rowlock_procedures_install(&options, NULL, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, "CREATE ROUTINE"));
    assert_int_equal(count(schema), 0);
}

/* A server with the tables and the procedures; ts_own_remove() ends it. */
static MYSQL *server_with(const char *server_options)
{
    ts_own_start_with(server_options);
    rowlock_client_options options = ts_options();
    WANT(OK, rowlock_migrate(&options, NULL, NULL, &ts_err));
    (void)install(ts_schema());
    return ts_connect(ts_schema());
}

/* With --sysdate-is-now, a session can set the procedures' clock. */
TS_ONCE(test_sysdate_is_now)
{
    MYSQL *own = server_with("--sysdate-is-now");
    ts_sql(own, "CALL rowlock_acquire('x', 600, 0, @t)");
    const uint64_t future = ts_sql_u64(own, "SELECT UNIX_TIMESTAMP() + 100000");
    ts_sql(own, "SET timestamp = %llu", (unsigned long long)future);
    assert_int_equal(ts_sql_u64(own, "SELECT UNIX_TIMESTAMP(SYSDATE())"), future);
    ts_sql(own, "CALL rowlock_try('x', 30, @u)");
    assert_int_equal(ts_sql_u64(own, "SELECT COALESCE(@u, 0)"), 0);
    ts_sql(own, "CALL rowlock_try('y', 60, @u)");
    ts_sql(own, "SET timestamp = DEFAULT, time_zone = '+03:00'");
    ts_sql(own, "CALL rowlock_try('z', 60, @u)");
    assert_int_equal(ts_sql_u64(own, "SELECT COUNT(*) FROM resource WHERE resource_name <> 'x' AND"
                                     " ABS(TIMESTAMPDIFF(SECOND, lease_expires_at,"
                                     " UTC_TIMESTAMP())) <= 60"),
                     2);
    mysql_close(own);
    ts_own_remove();
}

/* The procedures convert their time from the session's zone, which fails for an hour that comes
 * twice: here the clocks are put back by an hour in twenty minutes. */
TS_ONCE(test_an_hour_that_comes_twice)
{
    char zone[64];
    const time_t now = time(NULL);
    struct tm utc;
    assert_non_null(gmtime_r(&now, &utc));
    const int minutes = (utc.tm_hour + 1) * 60 + utc.tm_min + 20;
    snprintf(zone, sizeof zone, "AAA0BBB-1,0/0,%d/%d:%02d", utc.tm_yday, minutes / 60,
             minutes % 60);
    setenv("TZ", zone, 1);
    MYSQL *own = server_with("");
    unsetenv("TZ");
    assert_int_equal(ts_sql_u64(own, "SELECT ABS(TIMESTAMPDIFF(MINUTE, UTC_TIMESTAMP(),"
                                     " CONVERT_TZ(NOW(), 'SYSTEM', '+00:00')))"),
                     60);
    ts_sql(own, "CALL rowlock_acquire('x', 600, 0, @t)");
    assert_int_equal(ts_sql_u64(own, "SELECT COUNT(*) FROM resource WHERE"
                                     " TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(), lease_expires_at)"
                                     " BETWEEN 0 AND 600"),
                     1);
    ts_sql(own, "CALL rowlock_try('x', 30, @u)");
    assert_int_equal(ts_sql_u64(own, "SELECT COALESCE(@u, 0)"), 0);
    assert_int_equal(ts_sql_u64(own, "SELECT @@time_zone = 'SYSTEM'"), 1);
    mysql_close(own);
    ts_own_remove();
}

/* A lock that is acquired with one spelling shows with the other: one bell, one fence. */
static void use_both_spellings(const char *written, const char *named, rowlock_via via)
{
    const char *const schemas[] = {written, named};
    const char *name = ts_name("spelling");
    rowlock_client *clients[2];
    rowlock_fences *fences = NULL;
    TS_MYSQL *mysql = ts_connect("shop");
    for (int i = 0; i < 2; i++)
        clients[i] = ts_open_as((rowlock_client_options){.schema = schemas[i], .via = via});
    rowlock_hold *hold = ts_take(clients[0], name, ROWLOCK_OPTIMISTIC, 30000);
    const uint64_t token = rowlock_hold_token(hold);
    WANT(BUSY, ts_try(clients[1], name, ROWLOCK_OPTIMISTIC));
    assert_true(ts_sql_u64(mysql,
                           "SELECT IS_USED_LOCK(CONCAT('rowlock.%s.', id)) IS NOT NULL"
                           " FROM %s.resource WHERE resource_name = '%s'",
                           named, named, name));
    ts_sql(mysql, "CREATE TABLE invoice (id INT PRIMARY KEY) ENGINE = InnoDB");
    WANT(OK, rowlock_fence_install(clients[0], "shop", "invoice", name, &ts_err));
    assert_int_not_equal(ts_sql_try(mysql, "INSERT INTO invoice VALUES (0)"), 0);
    ts_sql(mysql, "CALL %s.rowlock_present('%s', %llu)", written, name, (unsigned long long)token);
    ts_sql(mysql, "INSERT INTO invoice VALUES (1)");
    ts_sql(mysql, "CALL %s.rowlock_present('%s', NULL)", named, name);
    WANT(OK, rowlock_present(hold, mysql, &ts_err));
    ts_sql(mysql, "INSERT INTO invoice VALUES (2)");
    WANT(OK, rowlock_fences_get(clients[1], &fences, &ts_err));
    assert_int_equal(rowlock_fences_count(fences), 1);
    rowlock_fences_free(fences);
    WANT(OK, rowlock_fence_remove(clients[1], "shop", "invoice", &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    for (int i = 0; i < 2; i++)
        rowlock_client_close(clients[i]);
    ts_sql(mysql, "DROP TABLE invoice");
}

/* On a server that makes names lower case, any spelling of a schema means the same: for its bells,
 * fences and procedures. */
TS_ONCE(test_a_server_that_lowers_names)
{
    ts_own_start_with("--lower-case-table-names=1");
    MYSQL *own = ts_connect(NULL);
    ts_sql(own, "CREATE DATABASE Shop");
    rowlock_client_options options = ts_options_on("RowLock");
    WANT(OK, rowlock_migrate(&options, NULL, NULL, &ts_err));
    assert_true(install("RowLock").changed > 0);
    assert_int_equal(install("rowlock").changed, 0);
    use_both_spellings("RowLock", "rowlock", ROWLOCK_VIA_TABLES);
    use_both_spellings("RowLock", "rowlock", ROWLOCK_VIA_PROCEDURES);
    mysql_close(own);
    ts_own_remove();
}

TS_MAIN("procedures", ts_suite_begin_sql, ts_suite_end_sql)
