/* What the doctor finds where something is wrong: the check that says so, and how bad it is. */
#include <stdio.h>
#include <string.h>

#include "support/own_server.h"
#include "support/support.h"

typedef struct findings {
    const char *check; /* the one that is looked for */
    bool found;
    rowlock_level level;
    char found_text[400];
    char follows[200];
    char remedy[600];
} findings;

static void note(void *data, const rowlock_finding *finding)
{
    findings *f = data;
    assert_true(*finding->check && *finding->found);
    if (strcmp(finding->check, f->check) != 0 || (f->found && finding->level <= f->level))
        return;
    f->found = true;
    f->level = finding->level;
    snprintf(f->found_text, sizeof f->found_text, "%s", finding->found);
    snprintf(f->follows, sizeof f->follows, "%s", finding->follows);
    snprintf(f->remedy, sizeof f->remedy, "%s", finding->remedy);
}

/* The worst of that check. */
static findings look_for(const char *check, const rowlock_client_options *options, int64_t ttl_ms)
{
    findings f = {.check = check};
    WANT(OK, rowlock_diagnose(options, ttl_ms, note, &f, &ts_err));
    assert_true(f.found);
    return f;
}

static void test_all_is_well(void **state)
{
    (void)state;
    rowlock_client_options options = ts_options();
    static const char *const checks[] = {"server", "schema", "privileges", "columns", "waiting"};
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        assert_int_equal(look_for(checks[i], &options, 0).level, ROWLOCK_FINE);
}

static void test_no_schema(void **state)
{
    (void)state;
    rowlock_client_options options = ts_options_on("there_is_no_such_schema");
    findings f = look_for("schema", &options, 0);
    assert_int_equal(f.level, ROWLOCK_BROKEN);
    assert_non_null(strstr(f.remedy, "there_is_no_such_schema"));
}

static void test_an_empty_schema(void **state)
{
    (void)state;
    rowlock_client_options options = ts_options_on(ts_extra_schema("empty", false));
    assert_int_equal(look_for("schema", &options, 0).level, ROWLOCK_BROKEN);
}

static void test_a_user_who_may_only_read(void **state)
{
    (void)state;
    rowlock_client_options options = ts_options();
    options.user = ts_user("reader", "secret-of-reader", "SELECT", ts_schema());
    options.password = "secret-of-reader";
    findings f = look_for("privileges", &options, 0);
    assert_int_equal(f.level, ROWLOCK_BROKEN);
    assert_non_null(strstr(f.remedy, "GRANT SELECT, INSERT, UPDATE, DELETE"));
    assert_non_null(strstr(f.remedy, options.user));
    assert_int_equal(look_for("waiters", &options, 0).level, ROWLOCK_NOTE);
}

static void test_a_column_is_missing(void **state)
{
    (void)state;
    rowlock_client_options options = ts_options_on(ts_extra_schema("maimed", true));
    MYSQL *mysql = ts_connect(options.schema);
    ts_sql(mysql, "ALTER TABLE resource DROP COLUMN description");
    ts_sql(mysql, "ALTER TABLE lock_event DROP COLUMN detail");
    mysql_close(mysql);
    assert_int_equal(look_for("columns", &options, 0).level, ROWLOCK_BROKEN);
}

static void test_polling_is_told(void **state)
{
    (void)state;
    rowlock_client_options options = ts_options();
    options.waiting = ROWLOCK_WAITING_POLL;
    assert_int_equal(look_for("waiting", &options, 0).level, ROWLOCK_NOTE);
}

static void test_a_ttl_above_wait_timeout(void **state)
{
    (void)state;
    rowlock_client_options options = ts_options();
    findings f = look_for("wait_timeout", &options, ROWLOCK_TTL_MAX_MS);
    assert_true(f.level == ROWLOCK_CARE || f.level == ROWLOCK_NOTE);
    assert_non_null(strstr(f.remedy, "wait_timeout"));
}

static void test_a_server_set_up_badly(void **state)
{
    static const struct {
        const char *check;
        rowlock_level level;
        const char *remedy;
    } wrong[] = {{"flush", ROWLOCK_CARE, "innodb_flush_log_at_trx_commit = 1"},
                 {"read-only", ROWLOCK_BROKEN, "primary"},
                 {"binlog", ROWLOCK_BROKEN, "binlog_format = 'ROW'"},
                 {"connections", ROWLOCK_CARE, "max_connections"}};
    (void)state;
    ts_own_start_with("--log-bin --binlog-format=STATEMENT --innodb-flush-log-at-trx-commit=2"
                      " --read-only --max-connections=20");
    rowlock_client_options options = ts_options();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        findings f = look_for(wrong[i].check, &options, 0);
        assert_int_equal(f.level, wrong[i].level);
        assert_non_null(strstr(f.remedy, wrong[i].remedy));
    }
    ts_own_remove();
}

/* Who takes locks and does not sweep. */
static void test_a_user_who_may_not_delete(void **state)
{
    (void)state;
    rowlock_client_options options = ts_options();
    options.user = ts_user("taker", "secret-of-taker", "SELECT, INSERT, UPDATE", ts_schema());
    options.password = "secret-of-taker";
    findings f = look_for("privileges", &options, 0);
    assert_int_equal(f.level, ROWLOCK_NOTE);
    assert_non_null(strstr(f.found_text, "but not `rowlock sweep`"));
}

static void test_procedures_of_another_program(void **state)
{
    (void)state;
    rowlock_client_options options = ts_options_on(ts_extra_schema("routines", true));
    assert_int_equal(look_for("procedures", &options, 0).level, ROWLOCK_FINE);
    WANT(OK, rowlock_procedures_install(&options, NULL, NULL, &ts_err));
    assert_int_equal(look_for("procedures", &options, 0).level, ROWLOCK_FINE);
    MYSQL *mysql = ts_connect(options.schema);
    ts_sql(mysql, "ALTER PROCEDURE rowlock_try COMMENT 'rowlock 0.0.1 0123456789abcdef'");
    findings f = look_for("procedures", &options, 0);
    assert_int_equal(f.level, ROWLOCK_CARE);
    assert_non_null(strstr(f.found_text, "1 of "));
    assert_non_null(strstr(f.found_text, "0.0.1"));
    WANT(OK, rowlock_procedures_install(&options, NULL, NULL, &ts_err));
    ts_sql(mysql, "DROP PROCEDURE rowlock_try");
    f = look_for("procedures", &options, 0);
    assert_int_equal(f.level, ROWLOCK_CARE);
    assert_non_null(strstr(f.found_text, "1 of "));
    assert_non_null(strstr(f.found_text, "rowlock_try"));
    mysql_close(mysql);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONCE(test_all_is_well),
        ONCE(test_no_schema),
        ONCE(test_an_empty_schema),
        ONCE(test_a_user_who_may_only_read),
        ONCE(test_a_column_is_missing),
        ONCE(test_polling_is_told),
        ONCE(test_a_ttl_above_wait_timeout),
        ONCE(test_a_server_set_up_badly),
        ONCE(test_a_user_who_may_not_delete),
        ONCE(test_procedures_of_another_program),
    };
    return cmocka_run_group_tests_name("doctor", tests, ts_suite_begin, ts_suite_end);
}
