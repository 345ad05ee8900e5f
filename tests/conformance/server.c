/* Servers, users and tables of all kinds, and the status that follows. */
#include "conformance/clients.h"
#include "support/own_server.h"

#define PASSWORD "pA55-\"'\\%s\xc3\xa9"
#define ALL      "SELECT, INSERT, UPDATE, DELETE"

static rowlock_status open_as(const char *user, const char *password, const char *schema,
                              rowlock_client **opened)
{
    rowlock_client_options options = ts_options();
    options.user = user;
    options.password = password;
    options.schema = schema;
    return rowlock_client_open(&options, opened, &ts_err);
}

TS_ONCE(test_who_may_open_what)
{
    const char *user = ts_user("pw", PASSWORD, ALL, ts_schema());
    const char *idle = ts_user("nothing", PASSWORD, NULL, NULL);
    const struct {
        const char *user, *password, *schema;
        rowlock_status status;
        const char *says;
    } cases[] = {
        {user, PASSWORD, ts_schema(), ROWLOCK_OK, NULL},
        {user, "wrong-pA55", ts_schema(), ROWLOCK_DENIED, user},
        {user, NULL, ts_schema(), ROWLOCK_DENIED, user},
        {"rl_no_such_user", "wrong-pA55", ts_schema(), ROWLOCK_DENIED, ""},
        {idle, PASSWORD, ts_schema(), ROWLOCK_DENIED, ""},
        {"root", NULL, "rl_no_such_schema", ROWLOCK_SCHEMA, "rl_no_such_schema"},
        {"root", NULL, ts_extra_schema("empty", false), ROWLOCK_SCHEMA, "init"},
    };
    ts_secret("wrong-pA55");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        TS_CLIENT *opened = NULL;
        rowlock_status status = open_as(cases[i].user, cases[i].password, cases[i].schema, &opened);
        if (status != cases[i].status)
            fail_msg("case %zu: %s %s", i, rowlock_status_name(status), ts_err.message);
        assert_int_equal(opened != NULL, status == ROWLOCK_OK);
        for (int n = 0; opened && n < 2; n++)
            WANT(OK, ts_try(opened, ts_name("plain-user"), ts_modes[n]));
        if (!opened) {
            assert_null(ts_error_flaw(status, &ts_err));
            assert_non_null(strstr(ts_err.message, cases[i].says));
        }
        if (i == 1) {
            assert_int_equal(ts_err.server_errno, 1045);
            assert_string_equal(ts_err.sqlstate, "28000");
        }
    }
}

/* We may not end another user's row lock. */
TS_ONCE(test_break_needs_the_right)
{
    const char *name = ts_name("break-denied");
    const char *user = ts_user("breaker", PASSWORD, ALL, ts_schema());
    TS_CLIENT *theirs = NULL;
    WANT(OK, open_as(user, PASSWORD, ts_schema(), &theirs));
    TS_HOLD *hold = ts_take(client, name, ROWLOCK_PESSIMISTIC, 30000);
    WANT(DENIED, rowlock_break(theirs, name, "please", &ts_err));
    assert_held(hold);
    WANT(BUSY, ts_try(theirs, name, ROWLOCK_PESSIMISTIC));
}

typedef struct damage {
    const char *word;
    const char *sql; /* run in the schema */
} damage;

static const damage damages[] = {
    {"column", "ALTER TABLE resource DROP COLUMN owner"},
    {"column2", "ALTER TABLE lease_renewal DROP COLUMN expires_at"},
    {"table", "DROP TABLE lease_renewal"},
    {"table2", "DROP TABLE resource_lock"},
    {"table3", "DROP TABLE resource"},
    {"table4", "DROP TABLE version_floor"},
    {"table5", "DROP TABLE lock_event"},
    {"engine", "ALTER TABLE resource_lock ENGINE = /*M! MyISAM */ /*!80000 MEMORY */"},
    {"engine2", "ALTER TABLE resource ENGINE = /*M! Aria */ /*!80000 MEMORY */"},
    {"unique", "ALTER TABLE resource DROP KEY resource_name"},
    {"primary", "ALTER TABLE resource_lock DROP PRIMARY KEY"},
};

/* Uses both modes on a damaged schema: at least one reports it. */
static rowlock_status use_damaged(const char *schema)
{
    TS_CLIENT *damaged = NULL;
    rowlock_status worst = open_as("root", NULL, schema, &damaged);
    for (int i = 0; damaged && i < 2; i++) {
        rowlock_hold *hold = NULL;
        rowlock_acquire_options options = {.mode = ts_modes[i], .ttl_ms = 600};
        rowlock_error err = {0};
        rowlock_status status =
            rowlock_acquire(damaged, i ? "row" : "lease", &options, &hold, &err);
        if (status == ROWLOCK_OK && POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 3000))
            status = ROWLOCK_DAMAGED; /* it cannot be renewed, and is lost in time */
        else
            ts_err = err;
        if (hold)
            (void)rowlock_release(hold, NULL);
        if (status != ROWLOCK_OK)
            worst = status;
    }
    return worst;
}

/* Damage that could let two hold a lock is found when opening; a damaged column at its first
 * use. */
TS_ONCE(test_damage_is_seen)
{
    rowlock_client *none = NULL;
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        const char *schema = ts_extra_schema(damages[i].word, true);
        ts_sql(watch, "USE `%s`", schema);
        ts_sql(watch, "%s", damages[i].sql);
        bool column = strncmp(damages[i].word, "column", 6) == 0;
        rowlock_status status = column ? use_damaged(schema) : open_as("root", NULL, schema, &none);
        if (status != ROWLOCK_DAMAGED)
            print_error("after %s: ", damages[i].sql);
        WANT(DAMAGED, status);
        assert_null(none);
    }
}

/* A lease whose renewal's row is gone must not seem to be kept. */
TS_BOTH(test_rows_deleted_by_hand)
{
    static const char *const tables[] = {"resource", "resource_lock", "lease_renewal"};
    for (size_t i = 0; i < 3; i++) {
        const char *name = ts_name("by-hand");
        rowlock_hold *hold = NULL;
        rowlock_acquire_options options = {.mode = mode, .ttl_ms = ts_short_ttl(mode)};
        WANT(OK, ts_try(client, name, mode));
        ts_sql(mysql, "DELETE FROM %s WHERE id = %" PRIu64, tables[i], ts_id_of(mysql, name));
        rowlock_status status = rowlock_acquire(client, name, &options, &hold, &ts_err);
        if (status != ROWLOCK_OK) {
            WANT(DAMAGED, status);
            continue;
        }
        ts_pass_ms(2 * ts_short_ttl(mode));
        status = ts_try(other, name, mode);
        if (rowlock_hold_check(hold) == ROWLOCK_OK)
            WANT(BUSY, status);
        else /* its holder is told a little sooner */
            assert_true(POLL_UNTIL(ts_try(other, name, mode) == ROWLOCK_OK, 10000));
        (void)rowlock_release(hold, NULL);
    }
}

/* An error that is not in our table. */
TS_BOTH(test_an_unexpected_error)
{
    const char *schema = ts_extra_schema(mode ? "odd1" : "odd0", true);
    TS_MYSQL *own = ts_connect(schema);
    TS_CLIENT *user = ts_open_with(ts_options_on(schema));
    WANT(OK, ts_try(user, "odd", mode));
    ts_sql(own, "CREATE TRIGGER odd BEFORE UPDATE ON resource FOR EACH ROW"
                " SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1999,"
                " MESSAGE_TEXT = 'first\\nsecond\\tline'");
    WANT(SERVER, ts_try(user, "odd", mode));
    assert_int_equal(ts_err.server_errno, 1999);
    assert_string_equal(ts_err.sqlstate, "45000");
    ts_sql(own, "DROP TRIGGER odd");
    WANT(OK, ts_try(user, "odd", mode));
}

/* An audit trigger on our table: the token is still right. */
TS_BOTH(test_a_trigger_on_the_table)
{
    const char *schema = ts_extra_schema(mode ? "audit1" : "audit0", true);
    TS_MYSQL *own = ts_connect(schema);
    TS_CLIENT *user = ts_open_with(ts_options_on(schema));
    ts_sql(own, "CREATE TABLE audit (id BIGINT AUTO_INCREMENT PRIMARY KEY, version BIGINT)");
    ts_sql(own, "CREATE TRIGGER audit AFTER UPDATE ON resource FOR EACH ROW"
                " INSERT INTO audit (version) VALUES (NEW.version)");
    for (uint64_t last = 0, i = 0; i < 3; i++) {
        rowlock_hold *hold = ts_take(user, "audited", mode, 30000);
        uint64_t token = rowlock_hold_token(hold);
        assert_true(token > last);
        assert_int_equal(token, ts_sql_u64(own, "SELECT version FROM resource"
                                                " WHERE resource_name = 'audited'"));
        assert_held(hold);
        WANT(OK, rowlock_release(hold, &ts_err));
        last = token;
    }
    assert_true(ts_sql_u64(own, "SELECT COUNT(*) FROM audit") >= 6);
}

TS_ONCE(test_a_read_only_server)
{
    ts_own_start();
    rowlock_client_options options = ts_options();
    WANT(OK, rowlock_migrate(&options, NULL, &(rowlock_migrate_result){0}, &ts_err));
    MYSQL *root = ts_connect(ts_schema());
    const char *user = ts_user("reader", PASSWORD, ALL, ts_schema());
    rowlock_client *there = NULL;
    rowlock_client *none = NULL;
    WANT(OK, open_as(user, PASSWORD, ts_schema(), &there));
    rowlock_hold *holds[2];
    for (int i = 0; i < 2; i++) {
        WANT(OK, ts_try(there, i ? "ro-row" : "ro-lease", ts_modes[i]));
        holds[i] = ts_take(there, i ? "ro-held-row" : "ro-held-lease", ts_modes[i],
                           ts_short_ttl(ts_modes[i]));
    }
    ts_sql(root, "SET GLOBAL read_only = ON");
    for (int i = 0; i < 2; i++)
        WANT(READONLY, ts_try(there, i ? "ro-row" : "ro-lease", ts_modes[i]));
    WANT(READONLY, ts_try(there, "ro-new", ROWLOCK_OPTIMISTIC));
    rowlock_list *list = NULL;
    WANT(OK, rowlock_list_get(there, NULL, &list, &ts_err));
    assert_int_equal(rowlock_list_count(list), 2);
    rowlock_list_free(list);
    /* A client may look at it, or is told at once that it cannot acquire. */
    rowlock_status opened = open_as(user, PASSWORD, ts_schema(), &none);
    if (opened == ROWLOCK_OK)
        rowlock_client_close(none);
    else
        assert_int_equal(opened, ROWLOCK_READONLY);
    /* The lease cannot be renewed, and the new primary grants the row to others. */
    for (int i = 0; i < 2; i++)
        assert_true(POLL_UNTIL(rowlock_hold_check(holds[i]) == ROWLOCK_LOST, 10000));
    ts_sql(root, "SET GLOBAL read_only = OFF");
    for (int i = 0; i < 2; i++)
        assert_true(
            POLL_UNTIL(ts_try(there, i ? "ro-row" : "ro-lease", ts_modes[i]) == ROWLOCK_OK, 10000));
    /* The row still has the holder as long as nobody has taken the lease over. */
    rowlock_status status = rowlock_release(holds[0], &ts_err);
    assert_true(status == ROWLOCK_OK || status == ROWLOCK_LOST);
    WANT(LOST, rowlock_release(holds[1], &ts_err));
    rowlock_client_close(there);
    mysql_close(root);
    ts_own_remove();
}

/* READ COMMITTED needs row images in the binary log. */
TS_ONCE(test_a_binary_log_of_statements)
{
    ts_own_start_with("--log-bin --binlog-format=STATEMENT");
    rowlock_client_options options = ts_options();
    rowlock_status migrated =
        rowlock_migrate(&options, NULL, &(rowlock_migrate_result){0}, &ts_err);
    WANT(UNSUPPORTED, migrated);
    MYSQL *root = ts_connect(ts_schema());
    ts_sql(root, "SET GLOBAL binlog_format = 'ROW'");
    WANT(OK, rowlock_migrate(&options, NULL, &(rowlock_migrate_result){0}, &ts_err));
    ts_sql(root, "SET GLOBAL binlog_format = 'STATEMENT'");
    rowlock_client *there = ts_open_with(options);
    for (int i = 0; i < 2; i++)
        WANT(UNSUPPORTED, ts_try(there, i ? "un-row" : "un-lease", ts_modes[i]));
    rowlock_client_close(there);
    mysql_close(root);
    ts_own_remove();
}

/* Takes a lease and a reader's, under names that are new, and keeps them. */
static void keep_both(rowlock_client *there)
{
    rowlock_hold *holds[2];
    for (int i = 0; i < 2; i++) {
        const rowlock_acquire_options how = {.ttl_ms = TS_KEPT_TTL, .shared = i == 1};
        WANT(OK, rowlock_acquire(there, ts_name("set-up"), &how, &holds[i], &ts_err));
    }
    for (int64_t end = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < end; ts_pass_ms(20))
        for (int i = 0; i < 2; i++)
            assert_held(holds[i]);
    for (int i = 0; i < 2; i++)
        WANT(OK, rowlock_release(holds[i], &ts_err));
}

/* What a server gives to new sessions, for bulk loads, say, or against careless statements. */
TS_ONCE(test_defaults_for_sessions)
{
    ts_own_start();
    rowlock_client_options options = ts_options();
    MYSQL *root = ts_connect(NULL);
    ts_sql(root, "SET GLOBAL sql_safe_updates = 1, GLOBAL sql_big_selects = 0,"
                 " GLOBAL max_join_size = 1, GLOBAL sql_select_limit = 1,"
                 " GLOBAL unique_checks = 0, GLOBAL completion_type = CHAIN");
    WANT(OK, rowlock_migrate(&options, NULL, NULL, &ts_err));
    WANT(OK, rowlock_procedures_install(&options, NULL, NULL, &ts_err));
    for (int i = 0; i < 2; i++) {
        const rowlock_via via = i ? ROWLOCK_VIA_PROCEDURES : ROWLOCK_VIA_TABLES;
        rowlock_client *there = ts_open_as((rowlock_client_options){.via = via});
        rowlock_list *list = NULL;
        keep_both(there);
        WANT(OK, ts_try(there, ts_name("set-up-row"), ROWLOCK_PESSIMISTIC));
        WANT(OK, rowlock_list_get(there, &(rowlock_list_options){.all = true}, &list, &ts_err));
        assert_int_equal(rowlock_list_count(list), 3 * (i + 1));
        rowlock_list_free(list);
        rowlock_client_close(there);
    }
    mysql_close(root);
    ts_own_remove();
}

int main(void)
{
    ts_secret("pA55");
    return ts_run("server", open_clients, close_clients);
}
