/* What the doctor finds where something is wrong: the check that says so, and how bad it is. */
#include <stdio.h>
#include <string.h>

#include "support/support.h"

typedef struct findings {
    const char *check; /* the one that is looked for */
    bool found;
    rowlock_level level;
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
    };
    return cmocka_run_group_tests_name("doctor", tests, ts_suite_begin, ts_suite_end);
}
