/* The doctor's findings for things that are wrong: the check that reports each, and its level. */
#include "rowlock/rowlock_mysql.h"
#include "support/own_server.h"

typedef struct findings {
    const char *check; /* the check that is looked for */
    bool found;
    rowlock_level level;
    char found_text[400];
    char remedy[1200];
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
    snprintf(f->remedy, sizeof f->remedy, "%s", finding->remedy);
}

/* The worst finding of that check has this level, says `says`, and its remedy has `remedy` (NULL:
 * any). */
static findings expect(const rowlock_client_options *options, const char *check,
                       rowlock_level level, const char *says, const char *remedy)
{
    findings f = {.check = check};
    WANT(OK, rowlock_diagnose(options, 0, note, &f, &ts_err));
    assert_true(f.found);
    assert_int_equal(f.level, level);
    assert_true(!says || strstr(f.found_text, says));
    assert_true(!remedy || strstr(f.remedy, remedy));
    return f;
}

TS_ONCE(test_all_is_well)
{
    rowlock_client_options options = ts_options();
    static const char *const checks[] = {"server", "schema", "privileges", "columns", "waiting"};
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        expect(&options, checks[i], ROWLOCK_FINE, NULL, NULL);
}

TS_ONCE(test_schemas)
{
    rowlock_client_options options = ts_options_on("there_is_no_such_schema");
    expect(&options, "schema", ROWLOCK_BROKEN, NULL, "there_is_no_such_schema");
    options.schema = ts_extra_schema("empty", false);
    expect(&options, "schema", ROWLOCK_BROKEN, NULL, NULL);
    options.schema = ts_extra_schema("maimed", true);
    MYSQL *mysql = ts_connect(options.schema);
    ts_sql(mysql, "ALTER TABLE resource DROP COLUMN description");
    ts_sql(mysql, "ALTER TABLE lock_event DROP COLUMN detail");
    mysql_close(mysql);
    expect(&options, "columns", ROWLOCK_BROKEN, NULL, NULL);
}

static rowlock_client_options options_of(const char *user, const char *privileges)
{
    rowlock_client_options options = ts_options();
    options.user = ts_user(user, "secret-of-a-user", privileges, ts_schema());
    options.password = "secret-of-a-user";
    return options;
}

TS_ONCE(test_users)
{
    rowlock_client_options options = options_of("reader", "SELECT");
    findings f = expect(&options, "privileges", ROWLOCK_BROKEN, NULL, options.user);
    /* The remedy grants all that is missing, and nothing that is there. */
    assert_non_null(strstr(f.remedy, "GRANT INSERT (resource_name, kind, version, update_time), "
                                     "UPDATE (version, status, "));
    assert_non_null(strstr(f.remedy, "GRANT INSERT ON "));
    assert_null(strstr(f.remedy, "SELECT"));
    expect(&options, "waiters", ROWLOCK_NOTE, NULL, NULL);
    /* A user that takes locks and does not sweep. */
    options = options_of("taker", "SELECT, INSERT, UPDATE");
    TS_MYSQL *root = ts_connect(ts_schema());
    ts_sql(root, "GRANT DELETE ON lock_grant TO '%s'@'localhost'", options.user);
    ts_sql(root, "GRANT DELETE ON latch_down TO '%s'@'localhost'", options.user);
    ts_sql(root, "GRANT DELETE ON queue_item TO '%s'@'localhost'", options.user);
    ts_sql(root, "GRANT DELETE ON lock_session TO '%s'@'localhost'", options.user);
    ts_sql(root, "GRANT DELETE ON queue_group TO '%s'@'localhost'", options.user);
    expect(&options, "privileges", ROWLOCK_NOTE, "but not `rowlock sweep`", NULL);
}

TS_ONCE(test_polling_is_told)
{
    rowlock_client_options options = ts_options();
    options.waiting = ROWLOCK_WAITING_POLL;
    expect(&options, "waiting", ROWLOCK_NOTE, NULL, NULL);
}

TS_ONCE(test_a_ttl_above_wait_timeout)
{
    rowlock_client_options options = ts_options();
    findings f = {.check = "wait_timeout"};
    WANT(OK, rowlock_diagnose(&options, ROWLOCK_TTL_MAX_MS, note, &f, &ts_err));
    assert_true(f.level == ROWLOCK_CARE || f.level == ROWLOCK_NOTE);
    assert_non_null(strstr(f.remedy, "wait_timeout"));
}

TS_ONCE(test_a_server_set_up_badly)
{
    ts_own_start_with("--log-bin --binlog-format=STATEMENT --innodb-flush-log-at-trx-commit=2"
                      " --read-only --max-connections=20");
    rowlock_client_options options = ts_options();
    expect(&options, "flush", ROWLOCK_CARE, NULL, "innodb_flush_log_at_trx_commit = 1");
    expect(&options, "read-only", ROWLOCK_BROKEN, NULL, "primary");
    expect(&options, "binlog", ROWLOCK_BROKEN, NULL, "binlog_format = 'ROW'");
    expect(&options, "connections", ROWLOCK_CARE, NULL, "max_connections");
    ts_own_remove();
}

static void count(void *data, const rowlock_finding *finding)
{
    assert_string_equal(finding->check, "privileges");
    ++*(unsigned *)data;
}

TS_ONCE(test_roles)
{
    unsigned seen = 0;
    findings f = {.check = "privileges"};
    rowlock_client_options options = options_of("role", "SELECT");
    rowlock_diagnose_options how = {.role = "looker", .rights_only = true};
    WANT(OK, rowlock_diagnose_with(&options, &how, count, &seen, &ts_err));
    assert_int_equal(seen, 1);
    WANT(OK, rowlock_diagnose_with(&options, &how, note, &f, &ts_err));
    assert_int_equal(f.level, ROWLOCK_FINE);
    how.role = "sweeper";
    f.found = false;
    WANT(OK, rowlock_diagnose_with(&options, &how, note, &f, &ts_err));
    assert_int_equal(f.level, ROWLOCK_BROKEN);
    assert_non_null(strstr(f.remedy, "GRANT UPDATE, DELETE ON "));
    how.role = "king";
    WANT(INVALID, rowlock_diagnose_with(&options, &how, count, &seen, &ts_err));
    assert_int_equal(seen, 1);
}

TS_ONCE(test_procedures_of_another_program)
{
    rowlock_client_options options = ts_options_on(ts_extra_schema("routines", true));
    expect(&options, "procedures", ROWLOCK_FINE, NULL, NULL);
    WANT(OK, rowlock_procedures_install(&options, NULL, NULL, &ts_err));
    expect(&options, "procedures", ROWLOCK_FINE, NULL, NULL);
    TS_MYSQL *mysql = ts_connect(options.schema);
    ts_sql(mysql, "ALTER PROCEDURE rowlock_try COMMENT 'rowlock 0.0.1 0123456789abcdef'");
    findings f = expect(&options, "procedures", ROWLOCK_CARE, "1 of ", NULL);
    assert_non_null(strstr(f.found_text, "0.0.1"));
    WANT(OK, rowlock_procedures_install(&options, NULL, NULL, &ts_err));
    ts_sql(mysql, "DROP PROCEDURE rowlock_try");
    f = expect(&options, "procedures", ROWLOCK_CARE, "1 of ", NULL);
    assert_non_null(strstr(f.found_text, "rowlock_try"));
}

/* The lease of a guarded session was broken, and no other client has taken it since. */
TS_ONCE(test_a_session_of_a_holder_that_is_gone)
{
    rowlock_client_options options = ts_options();
    const char *name = ts_name("gone");
    TS_CLIENT *client = ts_open();
    TS_MYSQL *mysql = ts_connect(ts_schema());
    TS_MYSQL *own = ts_connect(ts_schema());
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 60000);
    findings f = {.check = "sessions"};
    WANT(OK, rowlock_hold_guard(hold, own, &ts_err));
    WANT(OK, rowlock_diagnose(&options, 0, note, &f, &ts_err));
    assert_false(f.found);
    WANT(OK, ts_break_now(client, name));
    expect(&options, "sessions", ROWLOCK_CARE, name, "KILL");
    (void)!rowlock_release(hold, &ts_err);
}

TS_MAIN("doctor", ts_suite_begin, ts_suite_end)
