/* What a server, a user or a table can be like, and what each comes out as. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/own_server.h"
#include "support/support.h"

#define PASSWORD "pA55-\"'\\%s\xc3\xa9"
#define ALL      "SELECT, INSERT, UPDATE, DELETE"

static rowlock_status open_as(const char *user, const char *password, const char *schema,
                              rowlock_client **client)
{
    rowlock_client_options options = ts_options();
    options.user = user;
    options.password = password;
    options.schema = schema;
    return rowlock_client_open(&options, client, &ts_err);
}

static rowlock_client *open_root(const char *schema)
{
    rowlock_client *client = NULL;
    WANT(OK, open_as("root", NULL, schema, &client));
    return client;
}

/* --------------------------------------------------------------------------- DENIED */

static void test_wrong_password(void **state)
{
    rowlock_client *none = NULL;
    (void)state;
    ts_secret("wrong-pA55");
    const char *user = ts_user("pw", PASSWORD, ALL, ts_schema());
    WANT(DENIED, open_as(user, "wrong-pA55", ts_schema(), &none));
    assert_non_null(strstr(ts_err.message, user));
    assert_int_equal(ts_err.server_errno, 1045);
    assert_string_equal(ts_err.sqlstate, "28000");
    WANT(DENIED, open_as(user, NULL, ts_schema(), &none));
    WANT(DENIED, open_as("rl_no_such_user", "wrong-pA55", ts_schema(), &none));
    assert_null(none);
}

static void test_the_right_password(void **state)
{
    rowlock_client *client = NULL;
    (void)state;
    const char *user = ts_user("pwok", PASSWORD, ALL, ts_schema());
    WANT(OK, open_as(user, PASSWORD, ts_schema(), &client));
    for (int i = 0; i < 2; i++)
        WANT(OK, ts_try(client, ts_name("plain-user"), ts_modes[i]));
    rowlock_client_close(client);
}

static void test_no_privilege_at_all(void **state)
{
    rowlock_client *none = NULL;
    (void)state;
    const char *user = ts_user("nothing", PASSWORD, NULL, NULL);
    WANT(DENIED, open_as(user, PASSWORD, ts_schema(), &none));
    assert_null(none);
}

/* A user who may only look: opens or not, but gets no lock, and is told why. */
static void test_only_select(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("select-only");
    const char *user = ts_user(mode ? "select1" : "select0", PASSWORD, "SELECT", ts_schema());
    rowlock_client *admin = ts_open();
    rowlock_client *client = NULL;
    WANT(OK, ts_try(admin, name, mode));
    rowlock_status status = open_as(user, PASSWORD, ts_schema(), &client);
    if (status == ROWLOCK_OK) {
        rowlock_list *list = NULL;
        WANT(OK, rowlock_list_get(client, NULL, &list, &ts_err));
        rowlock_list_free(list);
        MYSQL *mysql = ts_connect(ts_schema());
        char *before = ts_dump(mysql, ts_schema());
        WANT(DENIED, ts_try(client, name, mode));
        WANT(DENIED, ts_try(client, "a new name", mode));
        char *after = ts_dump(mysql, ts_schema());
        assert_string_equal(before, after);
        free(before);
        free(after);
        mysql_close(mysql);
        rowlock_client_close(client);
    } else {
        assert_int_equal(status, ROWLOCK_DENIED);
    }
    rowlock_client_close(admin);
}

/* Privileges that are taken away and given back: the server looks when it is connected to. */
static void test_revoked(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("revoked");
    const char *user = ts_user(mode ? "revoke1" : "revoke0", PASSWORD, ALL, ts_schema());
    rowlock_client *client = NULL;
    rowlock_client *none = NULL;
    MYSQL *mysql = ts_connect(NULL);
    WANT(OK, open_as(user, PASSWORD, ts_schema(), &client));
    WANT(OK, ts_try(client, name, mode));
    ts_sql(mysql, "REVOKE ALL ON `%s`.* FROM '%s'@'localhost'", ts_schema(), user);
    WANT(DENIED, open_as(user, PASSWORD, ts_schema(), &none));
    rowlock_status status = ts_try(client, name, mode);
    assert_true(status == ROWLOCK_OK || status == ROWLOCK_DENIED);
    ts_sql(mysql, "GRANT " ALL " ON `%s`.* TO '%s'@'localhost'", ts_schema(), user);
    WANT(OK, ts_try(client, name, mode));
    rowlock_client_close(client);
    mysql_close(mysql);
}

/* Another user's row lock is not ours to end. */
static void test_break_needs_the_right(void **state)
{
    const char *name = ts_name("break-denied");
    rowlock_client *admin = ts_open();
    rowlock_client *client = NULL;
    (void)state;
    const char *user = ts_user("breaker", PASSWORD, ALL, ts_schema());
    WANT(OK, open_as(user, PASSWORD, ts_schema(), &client));
    rowlock_hold *hold = ts_take(admin, name, ROWLOCK_PESSIMISTIC, 30000);
    WANT(DENIED, rowlock_break(client, name, "please", &ts_err));
    assert_held(hold);
    WANT(BUSY, ts_try(client, name, ROWLOCK_PESSIMISTIC));
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
    rowlock_client_close(admin);
}

/* --------------------------------------------------------------------------- SCHEMA */

static void test_no_schema(void **state)
{
    rowlock_client *none = NULL;
    (void)state;
    WANT(SCHEMA, open_as("root", NULL, "rl_no_such_schema", &none));
    assert_non_null(strstr(ts_err.message, "rl_no_such_schema"));
    WANT(SCHEMA, open_as("root", NULL, ts_extra_schema("empty", false), &none));
    assert_non_null(strstr(ts_err.message, "init"));
    assert_null(none);
}

/* ---------------------------------------------------------------------- UNAVAILABLE */

static void test_no_server(void **state)
{
    rowlock_client *none = NULL;
    rowlock_client_options options = ts_options();
    (void)state;
    options.socket = "/nonexistent/socket";
    int64_t start = ts_now_ms();
    WANT(UNAVAILABLE, rowlock_client_open(&options, &none, &ts_err));
    assert_between(0, ts_now_ms() - start, 1000 + ts_slack_ms());
    assert_non_null(strstr(ts_err.message, "/nonexistent/socket"));
    options = (rowlock_client_options){.host = "127.0.0.1", .port = 1, .user = "root"};
    WANT(UNAVAILABLE, rowlock_client_open(&options, &none, &ts_err));
    options.host = "no-such-host.invalid";
    WANT(UNAVAILABLE, rowlock_client_open(&options, &none, &ts_err));
    assert_null(none);
}

/* -------------------------------------------------------------------------- DAMAGED */

typedef struct damage {
    const char *word;
    const char *sql; /* in the schema */
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

/* Both modes on a damaged schema: one of them, at least, says that it is. */
static rowlock_status use_damaged(const char *schema)
{
    rowlock_client *client = NULL;
    rowlock_status worst = open_as("root", NULL, schema, &client);
    if (worst != ROWLOCK_OK)
        return worst;
    for (int i = 0; i < 2; i++) {
        rowlock_hold *hold = NULL;
        rowlock_acquire_options options = {.mode = ts_modes[i], .ttl_ms = 600};
        rowlock_error err = {0};
        rowlock_status status = rowlock_acquire(client, i ? "row" : "lease", &options, &hold, &err);
        if (status == ROWLOCK_OK && POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 3000))
            status = ROWLOCK_DAMAGED; /* it cannot be renewed, and says so in time */
        else
            ts_err = err;
        if (hold)
            (void)rowlock_release(hold, NULL);
        if (status != ROWLOCK_OK)
            worst = status;
    }
    rowlock_client_close(client);
    return worst;
}

/* What would let a lock be taken twice is seen when opening; a column is, at its first use. */
static void test_damage_is_seen(void **state)
{
    MYSQL *mysql = ts_connect(NULL);
    rowlock_client *none = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++) {
        const char *schema = ts_extra_schema(damages[i].word, true);
        ts_sql(mysql, "USE `%s`", schema);
        ts_sql(mysql, "%s", damages[i].sql);
        bool column = strncmp(damages[i].word, "column", 6) == 0;
        rowlock_status status = column ? use_damaged(schema) : open_as("root", NULL, schema, &none);
        if (status != ROWLOCK_DAMAGED)
            print_error("after %s: ", damages[i].sql);
        WANT(DAMAGED, status);
        assert_null(none);
    }
    mysql_close(mysql);
}

static void damage_under_a_client(const damage *d, rowlock_mode mode)
{
    char suffix[40];
    MYSQL *mysql = ts_connect(NULL);
    rowlock_client *client = NULL;
    snprintf(suffix, sizeof suffix, "live%d_%s", (int)mode, d->word);
    const char *schema = ts_extra_schema(suffix, true);
    WANT(OK, open_as("root", NULL, schema, &client));
    WANT(OK, ts_try(client, "known", mode));
    ts_sql(mysql, "USE `%s`", schema);
    ts_sql(mysql, "%s", d->sql);
    rowlock_status status = ts_try(client, "known", mode);
    /* Some damage a mode need not notice; none may come out as anything else. */
    if (status != ROWLOCK_OK)
        assert_true(status == ROWLOCK_DAMAGED || status == ROWLOCK_SCHEMA);
    status = ts_try(client, "unknown", mode);
    if (status != ROWLOCK_OK)
        assert_true(status == ROWLOCK_DAMAGED || status == ROWLOCK_SCHEMA);
    assert_null(status == ROWLOCK_OK ? NULL : ts_error_flaw(status, &ts_err));
    rowlock_client_close(client);
    mysql_close(mysql);
}

static void test_damage_under_a_client(void **state)
{
    rowlock_mode mode = ts_mode(state);
    for (size_t i = 0; i < sizeof damages / sizeof damages[0]; i++)
        if (strncmp(damages[i].word, "engine", 6) != 0)
            damage_under_a_client(&damages[i], mode);
}

/* A column that acquires write is gone: surely noticed. */
static void test_a_lost_column_is_damage(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *schema = ts_extra_schema(mode ? "lost1" : "lost0", true);
    MYSQL *mysql = ts_connect(schema);
    rowlock_client *client = open_root(schema);
    WANT(OK, ts_try(client, "known", mode));
    ts_sql(mysql, "ALTER TABLE resource DROP COLUMN owner");
    WANT(DAMAGED, ts_try(client, "known", mode));
    assert_true(ts_err.server_errno == 1054);
    assert_true(*ts_err.statement != 0);
    rowlock_client_close(client);
    mysql_close(mysql);
}

/* Rows deleted by hand: a name is made again, or the damage named. */
static void test_rows_deleted_by_hand(void **state)
{
    static const char *const tables[] = {"resource", "resource_lock", "lease_renewal"};
    rowlock_mode mode = ts_mode(state);
    rowlock_client *client = ts_open();
    rowlock_client *other = ts_open();
    MYSQL *mysql = ts_connect(ts_schema());
    for (size_t i = 0; i < 3; i++) {
        const char *name = ts_name("by-hand");
        WANT(OK, ts_try(client, name, mode));
        uint64_t id =
            ts_sql_u64(mysql, "SELECT id FROM resource WHERE resource_name = %s", ts_quote(name));
        ts_sql(mysql, "DELETE FROM %s WHERE id = %" PRIu64, tables[i], id);
        rowlock_status status = ts_try(client, name, mode);
        if (status != ROWLOCK_OK)
            WANT(DAMAGED, status);
        else
            WANT(OK, ts_try(client, name, mode));
        /* A lease that cannot be renewed must not seem to be kept. */
        rowlock_hold *hold = NULL;
        rowlock_acquire_options options = {.mode = mode, .ttl_ms = ts_short_ttl(mode)};
        if (rowlock_acquire(client, name, &options, &hold, NULL) == ROWLOCK_OK) {
            ts_pass_ms(2 * ts_short_ttl(mode));
            status = ts_try(other, name, mode);
            bool kept = rowlock_hold_check(hold) == ROWLOCK_OK;
            if (kept)
                WANT(BUSY, status);
            else /* its holder knows a little sooner */
                assert_true(POLL_UNTIL(ts_try(other, name, mode) == ROWLOCK_OK, 10000));
            (void)rowlock_release(hold, NULL);
        }
    }
    ts_sql(mysql, "DELETE FROM version_floor");
    rowlock_status status = ts_try(client, ts_name("no-floor"), mode);
    assert_true(status == ROWLOCK_OK || status == ROWLOCK_DAMAGED);
    ts_sql(mysql, "INSERT IGNORE INTO version_floor (id, version) VALUES (1, 0)");
    mysql_close(mysql);
    rowlock_client_close(client);
    rowlock_client_close(other);
}

/* --------------------------------------------------------------------------- SERVER */

/* An error that no table of ours knows. */
static void test_an_unexpected_error(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *schema = ts_extra_schema(mode ? "odd1" : "odd0", true);
    MYSQL *mysql = ts_connect(schema);
    rowlock_client *client = open_root(schema);
    WANT(OK, ts_try(client, "odd", mode));
    ts_sql(mysql, "CREATE TRIGGER odd BEFORE UPDATE ON resource FOR EACH ROW"
                  " SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1999,"
                  " MESSAGE_TEXT = 'first\\nsecond\\tline'");
    WANT(SERVER, ts_try(client, "odd", mode));
    assert_int_equal(ts_err.server_errno, 1999);
    assert_string_equal(ts_err.sqlstate, "45000");
    ts_sql(mysql, "DROP TRIGGER odd");
    WANT(OK, ts_try(client, "odd", mode));
    rowlock_client_close(client);
    mysql_close(mysql);
}

/* Somebody's audit of our table: the token is right all the same. */
static void test_a_trigger_on_the_table(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *schema = ts_extra_schema(mode ? "audit1" : "audit0", true);
    MYSQL *mysql = ts_connect(schema);
    rowlock_client *client = open_root(schema);
    ts_sql(mysql, "CREATE TABLE audit (id BIGINT AUTO_INCREMENT PRIMARY KEY, version BIGINT)");
    ts_sql(mysql, "CREATE TRIGGER audit AFTER UPDATE ON resource FOR EACH ROW"
                  " INSERT INTO audit (version) VALUES (NEW.version)");
    for (uint64_t last = 0, i = 0; i < 3; i++) {
        rowlock_hold *hold = ts_take(client, "audited", mode, ts_short_ttl(mode));
        uint64_t token = rowlock_hold_token(hold);
        assert_true(token > last);
        assert_int_equal(token, ts_sql_u64(mysql, "SELECT version FROM resource"
                                                  " WHERE resource_name = 'audited'"));
        assert_held(hold);
        WANT(OK, rowlock_release(hold, &ts_err));
        last = token;
    }
    assert_true(ts_sql_u64(mysql, "SELECT COUNT(*) FROM audit") >= 6);
    rowlock_client_close(client);
    mysql_close(mysql);
}

/* --------------------------------------------------------------------------- SYSTEM */

static int open_without_descriptors(void *arg)
{
    rowlock_client_options options = ts_options();
    rowlock_client *client = NULL;
    rowlock_error err = {0};
    int next = dup(0);
    struct rlimit limit = {.rlim_cur = (rlim_t)next + *(int *)arg, .rlim_max = (rlim_t)next + 8};
    close(next);
    setrlimit(RLIMIT_NOFILE, &limit);
    rowlock_status status = rowlock_client_open(&options, &client, &err);
    if (status == ROWLOCK_OK) {
        rowlock_client_close(client);
        return 0;
    }
    return ts_error_flaw(status, &err) ? 99 : (int)status;
}

static void test_no_descriptors(void **state)
{
    (void)state;
    for (int spare = 0; spare < 3; spare++) {
        pid_t pid = ts_fork(open_without_descriptors, &spare);
        int status = ts_reap(pid, 20000);
        if (spare == 0)
            assert_int_equal(status, ROWLOCK_SYSTEM);
        else
            assert_true(status == ROWLOCK_OK || status == ROWLOCK_SYSTEM);
    }
}

/* ------------------------------------------------------------------------- READONLY */

static void test_a_read_only_server(void **state)
{
    (void)state;
    ts_own_start();
    rowlock_client_options options = ts_options();
    WANT(OK, rowlock_migrate(&options, NULL, &(rowlock_migrate_result){0}, &ts_err));
    MYSQL *mysql = ts_connect(ts_schema());
    const char *user = ts_user("reader", PASSWORD, ALL, ts_schema());
    rowlock_client *client = NULL;
    rowlock_client *none = NULL;
    WANT(OK, open_as(user, PASSWORD, ts_schema(), &client));
    rowlock_hold *holds[2];
    for (int i = 0; i < 2; i++) {
        WANT(OK, ts_try(client, i ? "ro-row" : "ro-lease", ts_modes[i]));
        holds[i] = ts_take(client, i ? "ro-held-row" : "ro-held-lease", ts_modes[i],
                           ts_short_ttl(ts_modes[i]));
    }
    ts_sql(mysql, "SET GLOBAL read_only = ON");
    for (int i = 0; i < 2; i++)
        WANT(READONLY, ts_try(client, i ? "ro-row" : "ro-lease", ts_modes[i]));
    WANT(READONLY, ts_try(client, "ro-new", ROWLOCK_OPTIMISTIC));
    rowlock_list *list = NULL;
    WANT(OK, rowlock_list_get(client, NULL, &list, &ts_err));
    assert_int_equal(rowlock_list_count(list), 2);
    rowlock_list_free(list);
    /* One may look at it, or be told at once that no lock can be had. */
    rowlock_status opened = open_as(user, PASSWORD, ts_schema(), &none);
    if (opened == ROWLOCK_OK)
        rowlock_client_close(none);
    else
        assert_int_equal(opened, ROWLOCK_READONLY);
    /* The lease cannot be renewed, and whoever is the primary now grants the row to others. */
    for (int i = 0; i < 2; i++)
        assert_true(POLL_UNTIL(rowlock_hold_check(holds[i]) == ROWLOCK_LOST, 10000));
    ts_sql(mysql, "SET GLOBAL read_only = OFF");
    for (int i = 0; i < 2; i++)
        assert_true(POLL_UNTIL(ts_try(client, i ? "ro-row" : "ro-lease", ts_modes[i]) == ROWLOCK_OK,
                               10000));
    for (int i = 0; i < 2; i++)
        WANT(LOST, rowlock_release(holds[i], &ts_err));
    rowlock_client_close(client);
    mysql_close(mysql);
    ts_own_remove();
}

/* ---------------------------------------------------------------------- UNSUPPORTED */

/* READ COMMITTED needs row images in the binary log. */
static void test_a_binary_log_of_statements(void **state)
{
    (void)state;
    ts_own_start_with("--log-bin --binlog-format=STATEMENT");
    rowlock_client_options options = ts_options();
    rowlock_status migrated =
        rowlock_migrate(&options, NULL, &(rowlock_migrate_result){0}, &ts_err);
    WANT(UNSUPPORTED, migrated);
    MYSQL *mysql = ts_connect(ts_schema());
    ts_sql(mysql, "SET GLOBAL binlog_format = 'ROW'");
    WANT(OK, rowlock_migrate(&options, NULL, &(rowlock_migrate_result){0}, &ts_err));
    ts_sql(mysql, "SET GLOBAL binlog_format = 'STATEMENT'");
    rowlock_client *client = NULL;
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    for (int i = 0; i < 2; i++)
        WANT(UNSUPPORTED, ts_try(client, i ? "un-row" : "un-lease", ts_modes[i]));
    rowlock_client_close(client);
    mysql_close(mysql);
    ts_own_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONCE(test_a_binary_log_of_statements),
        ONCE(test_wrong_password),
        ONCE(test_the_right_password),
        ONCE(test_no_privilege_at_all),
        BOTH(test_only_select),
        BOTH(test_revoked),
        ONCE(test_break_needs_the_right),
        ONCE(test_no_schema),
        ONCE(test_no_server),
        ONCE(test_damage_is_seen),
        BOTH(test_damage_under_a_client),
        BOTH(test_a_lost_column_is_damage),
        BOTH(test_rows_deleted_by_hand),
        BOTH(test_an_unexpected_error),
        BOTH(test_a_trigger_on_the_table),
        ONCE(test_no_descriptors),
        ONCE(test_a_read_only_server),
    };
    ts_secret("pA55");
    return cmocka_run_group_tests_name("server", tests, ts_suite_begin, ts_suite_end);
}
