/* Fences on tables: rowlock_fence_install(), rowlock_present(), and what the triggers refuse. */
#include "conformance/clients.h"

#define REFUSED 1644 /* SIGNAL */

static const char *shop; /* the schema of the tables */

static int open_shop(void **state)
{
    open_clients(state);
    shop = ts_extra_schema("shop", false);
    assert_int_equal(mysql_select_db(mysql, shop), 0);
    return mysql_select_db(watch, shop);
}

/* A table of three rows, fenced by `name`; its name is static storage. */
static const char *fenced_table(const char *name)
{
    static char table[32];
    static unsigned count;
    snprintf(table, sizeof table, "work_%u", ++count);
    ts_sql(watch, "CREATE TABLE %s (id INT PRIMARY KEY, n INT NOT NULL DEFAULT 0) ENGINE = InnoDB",
           table);
    ts_sql(watch, "INSERT INTO %s (id) VALUES (1), (2), (3)", table);
    WANT(OK, rowlock_fence_install(client, shop, table, name, &ts_err));
    return table;
}

static uint64_t checksum(const char *table)
{
    return ts_sql_u64(watch, "SELECT COALESCE(SUM(id * 1000 + n), 0) FROM %s", table);
}

/* `pattern` with the table's name in place of @. */
static const char *with_table(const char *pattern, const char *table)
{
    static char text[400];
    const char *at = strchr(pattern, '@');
    snprintf(text, sizeof text, "%.*s%s%s", at ? (int)(at - pattern) : (int)strlen(pattern),
             pattern, at ? table : "", at ? at + 1 : "");
    return text;
}

/* The statement is refused for lack of a token, and the message names the table and the lock. */
static void want_refused(MYSQL *conn, const char *table, const char *name, const char *pattern)
{
    const char *text = with_table(pattern, table);
    unsigned number = ts_sql_try(conn, "%s", text);
    if (number != REFUSED)
        fail_msg("%s: %u %s", text, number, mysql_error(conn));
    assert_string_equal(mysql_sqlstate(conn), "RLLST");
    assert_non_null(strstr(mysql_error(conn), table));
    assert_non_null(strstr(mysql_error(conn), name));
}

static const char *const writes[] = {
    "INSERT INTO @ (id) VALUES (10)",
    "INSERT IGNORE INTO @ (id) VALUES (10)",
    "INSERT IGNORE INTO @ (id) VALUES (1)",
    "INSERT INTO @ (id) VALUES (1) ON DUPLICATE KEY UPDATE n = 7",
    "INSERT INTO @ (id) SELECT 20 + id FROM other",
    "REPLACE INTO @ (id, n) VALUES (1, 7)",
    "UPDATE @ SET n = n + 1",
    "UPDATE IGNORE @ SET n = n + 1",
    "UPDATE @ w JOIN other o ON o.id = w.id SET w.n = 9",
    "DELETE FROM @ WHERE id = 2",
    "DELETE IGNORE FROM @",
    "DELETE w FROM @ w JOIN other o ON o.id = w.id",
    "INSERT INTO through (id) VALUES (10)",
    "UPDATE through SET n = 5",
};

enum { WRITES = sizeof writes / sizeof writes[0] };

static void want_no_write(MYSQL *conn, const char *table, const char *name)
{
    uint64_t before = checksum(table);
    for (size_t i = 0; i < WRITES; i++)
        want_refused(conn, table, name, writes[i]);
    ts_sql(conn, "SET @mode = @@sql_mode, sql_mode = ''");
    for (size_t i = 0; i < WRITES; i++)
        want_refused(conn, table, name, writes[i]);
    ts_sql(conn, "SET sql_mode = @mode");
    assert_int_equal(checksum(table), before);
}

TS_BOTH(test_nobody_writes_without_the_token)
{
    const char *name = ts_name("only");
    const char *table = fenced_table(name);
    TS_MYSQL *old_program = ts_connect(shop);
    ts_sql(watch, "CREATE TABLE IF NOT EXISTS other (id INT PRIMARY KEY) ENGINE = InnoDB");
    ts_sql(watch, "INSERT IGNORE INTO other VALUES (1), (2)");
    ts_sql(watch, "CREATE OR REPLACE VIEW through AS SELECT id, n FROM %s", table);
    want_no_write(old_program, table, name);
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    want_no_write(old_program, table, name);
    WANT(OK, rowlock_present(hold, mysql, &ts_err));
    want_no_write(old_program, table, name); /* another session's token does not count */
    for (size_t i = 0; i < WRITES; i++) {
        ts_sql(mysql, "BEGIN");
        ts_sql(mysql, "%s", with_table(writes[i], table));
        ts_sql(mysql, "ROLLBACK");
    }
    ts_sql(mysql, "UPDATE %s SET n = 1", table);
    assert_int_equal(checksum(table), 6003);
    WANT(OK, rowlock_release(hold, &ts_err));
    want_no_write(mysql, table, name);
}

/* The transaction read before the take-over, is still open, and writes after it. */
TS_BOTH(test_a_transaction_from_before_the_take_over)
{
    static const char *const levels[] = {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"};
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        const char *name = ts_name("snapshot");
        const char *table = fenced_table(name);
        rowlock_hold *old = ts_take(client, name, mode, 30000);
        WANT(OK, rowlock_present(old, mysql, &ts_err));
        ts_sql(mysql, "SET TRANSACTION ISOLATION LEVEL %s", levels[i]);
        ts_sql(mysql, "START TRANSACTION");
        (void)ts_sql_u64(mysql, "SELECT COUNT(*) FROM %s", table);
        ts_expire(watch, name, mode);
        rowlock_hold *hold = ts_take(other, name, mode, 30000);
        unsigned number = ts_sql_try(mysql, "UPDATE %s SET n = 1", table);
        /* MariaDB (innodb_snapshot_isolation) sees that the lock's row has changed since. */
        if (number != REFUSED && number != 1020)
            fail_msg("%u %s", number, mysql_error(mysql));
        ts_sql(mysql, "COMMIT");
        assert_int_equal(checksum(table), 6000);
        want_refused(mysql, table, name, "INSERT INTO @ (id) VALUES (4)");
        WANT(OK, rowlock_release(hold, &ts_err));
        /* A free lock is not the old holder's again. */
        want_refused(mysql, table, name, "DELETE FROM @");
        assert_int_equal(checksum(table), 6000);
        WANT(LOST, rowlock_release(old, &ts_err));
    }
}

/* (Under REPEATABLE READ a trigger's reads lock by themselves.) */
static void take_over_from_a_writer(rowlock_mode mode, const char *level)
{
    const char *name = ts_name("writer");
    const char *table = fenced_table(name);
    rowlock_hold *old = ts_take(client, name, mode, 30000);
    uint64_t token = rowlock_hold_token(old);
    WANT(OK, rowlock_present(old, mysql, &ts_err));
    if (mode == ROWLOCK_OPTIMISTIC)
        ts_expire(watch, name, mode); /* still good, as for rowlock_fence() */
    ts_sql(mysql, "SET TRANSACTION ISOLATION LEVEL %s", level);
    ts_sql(mysql, "START TRANSACTION");
    ts_sql(mysql, "UPDATE %s SET n = 1 WHERE id = 1", table);
    if (mode == ROWLOCK_PESSIMISTIC)
        ts_expire(watch, name, mode);
    TS_WAITER waiter = ts_wait(other, name, mode, 30000, 0);
    assert_true(ts_row_waits(watch, "resource", 10000));
    ts_sql(mysql, "UPDATE %s SET n = 1 WHERE id = 2", table);
    ts_pass_ms(300);
    assert_false(ts_waiter_ended(&waiter));
    ts_sql(mysql, "COMMIT");
    ASSERT_GETS_IN(&waiter, token, 15000);
    want_refused(mysql, table, name, "UPDATE @ SET n = 1 WHERE id = 3");
    assert_int_equal(checksum(table), 6002);
    WANT(LOST, rowlock_release(old, &ts_err));
}

TS_BOTH(test_a_take_over_waits_for_the_writer)
{
    take_over_from_a_writer(mode, "READ COMMITTED");
    take_over_from_a_writer(mode, "REPEATABLE READ");
}

/* Workers of one holder write at the same time, and the renewal goes on. */
TS_BOTH(test_sessions_of_one_holder_do_not_wait)
{
    const char *name = ts_name("side");
    const char *table = fenced_table(name);
    TS_MYSQL *second = ts_connect(shop);
    TS_HOLD *hold = ts_take(client, name, mode, TS_KEPT_TTL);
    WANT(OK, rowlock_present(hold, mysql, &ts_err));
    WANT(OK, rowlock_present(hold, second, &ts_err));
    ts_sql(mysql, "SET SESSION innodb_lock_wait_timeout = 1");
    ts_sql(second, "SET SESSION innodb_lock_wait_timeout = 1");
    ts_sql(mysql, "BEGIN");
    ts_sql(second, "BEGIN");
    ts_sql(mysql, "UPDATE %s SET n = 1 WHERE id = 1", table);
    ts_sql(second, "UPDATE %s SET n = 1 WHERE id = 2", table);
    ASSERT_KEPT(hold, TS_KEPT_FOR);
    ts_sql(mysql, "INSERT INTO %s VALUES (4, 0)", table);
    ts_sql(mysql, "COMMIT");
    ts_sql(second, "COMMIT");
    /* rowlock_fence() first, then writes, in one transaction. */
    ts_sql(mysql, "BEGIN");
    WANT(OK, rowlock_fence(hold, mysql, &ts_err));
    ts_sql(mysql, "UPDATE %s SET n = 2 WHERE id = 1", table);
    assert_int_equal(ts_sql_try(second, "UPDATE %s SET n = 2 WHERE id = 2", table), 1205);
    ts_sql(mysql, "COMMIT");
    ts_sql(mysql, "SET SESSION innodb_lock_wait_timeout = DEFAULT");
    assert_int_equal(checksum(table), 10003);
}

/* An engine without transactions: a refused row is not written; earlier rows stay. */
TS_ONCE(test_an_engine_without_transactions)
{
    const char *name = ts_name("myisam");
    ts_sql(watch, "CREATE TABLE flat (id INT PRIMARY KEY) ENGINE = MyISAM");
    WANT(OK, rowlock_fence_install(client, shop, "flat", name, &ts_err));
    want_refused(mysql, "flat", name, "INSERT INTO @ VALUES (1)");
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
    WANT(OK, rowlock_present(hold, mysql, &ts_err));
    ts_sql(mysql, "INSERT INTO flat VALUES (1)");
    ts_expire(watch, name, ROWLOCK_OPTIMISTIC);
    TS_HOLD *next = ts_take(other, name, ROWLOCK_OPTIMISTIC, 30000);
    want_refused(mysql, "flat", name, "INSERT INTO @ VALUES (2)");
    assert_int_equal(ts_sql_u64(watch, "SELECT COUNT(*) FROM flat"), 1);
    WANT(LOST, rowlock_release(hold, &ts_err));
}

/* A guessed token, one of another lock, or of another schema's lock of that name. (Presenting
 * begins no transaction, and works whatever the variable was.) */
TS_ONCE(test_tokens_that_are_not_it)
{
    const char *name = ts_name("forged");
    const char *table = fenced_table(name);
    const char *elsewhere = ts_extra_schema("elsewhere", true);
    TS_CLIENT *their = ts_open_with(ts_options_on(elsewhere));
    TS_HOLD *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
    TS_HOLD *same_name = ts_take(their, name, ROWLOCK_OPTIMISTIC, 30000);
    TS_HOLD *other_name = ts_take(client, ts_name("forged"), ROWLOCK_OPTIMISTIC, 30000);
    assert_int_equal(rowlock_hold_token(hold), rowlock_hold_token(same_name));
    TS_MYSQL *conn = ts_connect(shop);
    ts_sql(conn, "SET autocommit = 0, @rowlock_presented = 'no json'");
    WANT(OK, rowlock_present(same_name, conn, &ts_err));
    WANT(OK, rowlock_present(other_name, conn, &ts_err));
    want_refused(conn, table, name, "UPDATE @ SET n = 1");
    static const char *const values[] = {
        "0",  "-1",    "'1 '", "'01'", "1.0", "18446744073709551615", "18446744073709551616",
        "''", "'1e0'", "NULL", "TRUE", "'x'"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        ts_sql(conn, "SET @rowlock_presented = JSON_OBJECT(CONCAT(HEX('%s'), '.', HEX(%s)), %s)",
               ts_schema(), ts_quote(name), values[i]);
        want_refused(conn, table, name, "UPDATE @ SET n = 1");
    }
    ts_sql(conn, "ROLLBACK");
    WANT(OK, rowlock_present(hold, conn, &ts_err));
    assert_int_equal(conn->server_status & SERVER_STATUS_IN_TRANS, 0);
    ts_sql(conn, "UPDATE %s SET n = 1", table);
    ts_sql(conn, "COMMIT");
}

static uint64_t triggers_of(const char *table)
{
    return ts_sql_u64(watch,
                      "SELECT COUNT(*) FROM information_schema.triggers"
                      " WHERE event_object_schema = %s AND event_object_table = %s",
                      ts_quote(shop), ts_quote(table));
}

/* The fence of a table as it is listed, or NULL; free the list. */
static const rowlock_fenced *listed(rowlock_fences **list, const char *table)
{
    WANT(OK, rowlock_fences_get(client, list, &ts_err));
    for (size_t i = 0; i < rowlock_fences_count(*list); i++)
        if (strcmp(rowlock_fences_at(*list, i)->table_name, table) == 0 &&
            strcmp(rowlock_fences_at(*list, i)->table_schema, shop) == 0)
            return rowlock_fences_at(*list, i);
    return NULL;
}

static void want_listed(const char *table, const char *name, bool whole)
{
    rowlock_fences *list = NULL;
    const rowlock_fenced *fence = listed(&list, table);
    assert_int_equal(fence != NULL, name != NULL);
    if (name) {
        assert_string_equal(fence->name, name);
        assert_non_null(strchr(fence->definer, '@'));
        assert_int_equal(fence->on_insert && fence->on_update && fence->on_delete, whole);
    }
    rowlock_fences_free(list);
}

/* A missing trigger is shown, and made again; triggers of an older version, and those of a single
 * server, are replaced. */
TS_ONCE(test_triggers_are_mended)
{
    const char *name = ts_name("hole");
    const char *table = fenced_table(name);
    char *trigger = ts_sql_text(watch,
                                "SELECT trigger_name FROM information_schema.triggers WHERE"
                                " event_object_schema = %s AND event_object_table = %s"
                                " AND event_manipulation = 'UPDATE'",
                                ts_quote(shop), ts_quote(table));
    ts_sql(watch, "DROP TRIGGER `%s`", trigger);
    free(trigger);
    want_listed(table, name, false);
    WANT(OK, rowlock_fence_install(client, shop, table, name, &ts_err));
    char *which =
        ts_sql_text(watch, "SELECT CONCAT(HEX('%s'), '.', HEX(%s))", ts_schema(), ts_quote(name));
    ts_sql(watch,
           "CREATE TRIGGER older BEFORE INSERT ON %s FOR EACH ROW BEGIN DECLARE rowlock_fence "
           "VARCHAR(4096) CHARACTER SET ascii DEFAULT '0.r.%s'; END",
           table, which);
    free(which);
    assert_int_equal(triggers_of(table), 4);
    WANT(OK, rowlock_fence_install(client, shop, table, name, &ts_err));
    assert_int_equal(triggers_of(table), 3);
    want_listed(table, name, true);
}

/* The triggers follow a renamed table, and are dropped with it; the old name can be used for
 * another table. */
TS_ONCE(test_renamed_and_dropped)
{
    const char *name = ts_name("renamed");
    for (int i = 0; i < 2; i++) {
        ts_sql(watch, "CREATE TABLE moving (id INT PRIMARY KEY, n INT) ENGINE = InnoDB");
        WANT(OK, rowlock_fence_install(client, shop, "moving", name, &ts_err));
        ts_sql(watch, "RENAME TABLE moving TO moved_%d", i);
    }
    WANT(NOT_FOUND, rowlock_fence_remove(client, shop, "moving", &ts_err));
    want_listed("moved_0", name, true);
    want_listed("moved_1", name, true);
    assert_int_equal(ts_sql_try(mysql, "INSERT INTO moved_0 VALUES (1, 1)"), REFUSED);
    WANT(OK, rowlock_fence_remove(client, shop, "moved_0", &ts_err));
    ts_sql(watch, "DROP TABLE moved_1");
    want_listed("moved_0", NULL, true);
    want_listed("moved_1", NULL, true);
}

/* An identifier has at most 64 characters, none beyond U+FFFF, and is UTF-8. */
TS_ONCE(test_what_cannot_be_fenced)
{
    static char too_long[66];
    const char *name = ts_name("cannot");
    const struct {
        const char *schema, *table, *lock;
        rowlock_status status;
    } cases[] = {
        {shop, "a_view", name, ROWLOCK_INVALID},
        {NULL, "resource", name, ROWLOCK_INVALID},
        {ts_schema(), "lock_event", name, ROWLOCK_INVALID},
        {"mysql", "db", name, ROWLOCK_INVALID},
        {shop, NULL, name, ROWLOCK_INVALID},
        {shop, "", name, ROWLOCK_INVALID},
        {shop, too_long, name, ROWLOCK_INVALID},
        {too_long, "work_1", name, ROWLOCK_INVALID},
        {shop, "work_1", "", ROWLOCK_INVALID},
        {shop, "work_1", NULL, ROWLOCK_INVALID},
        {shop, "cut \xc3", name, ROWLOCK_INVALID},
        {shop, "\xf0\x9f\x94\x92", name, ROWLOCK_INVALID},
        {"", "work_1", name, ROWLOCK_INVALID},
        {shop, "no_such_table", name, ROWLOCK_NOT_FOUND},
        {shop, "WORK_1", name, ROWLOCK_NOT_FOUND},
        {shop, "work_1 ", name, ROWLOCK_NOT_FOUND},
        {shop, "passing", name, ROWLOCK_NOT_FOUND},
        {"no_such_schema", "t", name, ROWLOCK_NOT_FOUND},
    };
    (void)fenced_table(name);
    memset(too_long, 't', sizeof too_long - 1);
    ts_sql(watch, "CREATE OR REPLACE VIEW a_view AS SELECT 1");
    ts_sql(mysql, "CREATE TEMPORARY TABLE passing (id INT)");
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rowlock_status status =
            rowlock_fence_install(client, cases[i].schema, cases[i].table, cases[i].lock, &ts_err);
        if (status != cases[i].status)
            fail_msg("case %zu: %s %s", i, rowlock_status_name(status), ts_err.message);
    }
    WANT(NOT_FOUND, rowlock_fence_remove(client, shop, "no_such_table", &ts_err));
    WANT(INVALID, rowlock_fence_remove(client, shop, "", &ts_err));
    WANT(INVALID, rowlock_fence_remove(client, shop, NULL, &ts_err));
    ts_sql(mysql, "DROP TEMPORARY TABLE passing");
}

/* Of any migration. */
TS_ONCE(test_none_of_our_own_tables)
{
    for (uint64_t i = 0;; i++) {
        char *table =
            ts_sql_text(watch,
                        "SELECT COALESCE((SELECT table_name FROM information_schema.tables"
                        " WHERE table_schema = '%s' AND table_comment LIKE 'rowlock: %%'"
                        " ORDER BY table_name LIMIT %" PRIu64 ", 1), '')",
                        ts_schema(), i);
        const bool any = *table != '\0';
        if (any) {
            WANT(INVALID, rowlock_fence_install(client, NULL, table, ts_name("own"), &ts_err));
            assert_non_null(strstr(ts_err.message, "own tables"));
        }
        free(table);
        assert_true(any || i > 10);
        if (!any)
            return;
    }
}

/* Also the longest names, of the widest characters: the message still fits. */
TS_ONCE(test_hostile_names)
{
    static char longest_lock[4 * ROWLOCK_NAME_MAX + 1];
    static char longest_table[3 * 64 + 1];
    static const char *const names[][2] = {{longest_table, longest_lock},
                                           {"a'b\"c\\d", "a'; DROP TABLE t; --"},
                                           {"-- x `` ?:id {schema}", "back\\slash"},
                                           {"Grüße ☂", "{schema} ? :name `tick`"}};
    for (int i = 0; i < ROWLOCK_NAME_MAX; i++)
        memcpy(longest_lock + strlen(longest_lock), "🔒", 5);
    for (int i = 0; i < 50; i++)
        memcpy(longest_table + strlen(longest_table), "☂", 4);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *table = names[i][0]; /* as in SQL between backquotes */
        const char *as_is = i == 2 ? "-- x ` ?:id {schema}" : table;
        const char *lock = names[i][1];
        ts_sql(watch, "CREATE TABLE `%s` (id INT PRIMARY KEY) ENGINE = InnoDB", table);
        WANT(OK, rowlock_fence_install(client, shop, as_is, lock, &ts_err));
        want_listed(as_is, lock, true);
        assert_int_equal(ts_sql_try(mysql, "INSERT INTO `%s` VALUES (1)", table), REFUSED);
        rowlock_hold *hold = ts_take(client, lock, ROWLOCK_OPTIMISTIC, 30000);
        WANT(OK, rowlock_present(hold, mysql, &ts_err));
        ts_sql(mysql, "INSERT INTO `%s` VALUES (1)", table);
        WANT(OK, rowlock_release(hold, &ts_err));
        WANT(OK, rowlock_fence_remove(client, shop, as_is, &ts_err));
        ts_sql(watch, "DROP TABLE `%s`", table);
    }
}

/* A transaction on the table delays its triggers: not for ever, and all or none are made. */
TS_ONCE(test_a_table_in_use)
{
    const char *name = ts_name("in-use");
    TS_CLIENT *hasty = ts_open_as((rowlock_client_options){.connect_timeout_ms = 3000});
    ts_sql(watch, "CREATE TABLE busy (id INT PRIMARY KEY) ENGINE = InnoDB");
    ts_sql(mysql, "BEGIN");
    ts_sql(mysql, "INSERT INTO busy VALUES (1)");
    WANT(TIMEOUT, rowlock_fence_install(hasty, shop, "busy", name, &ts_err));
    assert_int_equal(triggers_of("busy"), 0);
    ts_sql(mysql, "COMMIT");
    WANT(OK, rowlock_fence_install(client, shop, "busy", name, &ts_err));
}

/* It needs TRIGGER on the table, and the right to read the locks; the message says so. */
TS_ONCE(test_rights)
{
    const char *name = ts_name("rights");
    const char *user = ts_user("fencer", "some-pass", "SELECT", ts_schema());
    rowlock_fences *list = NULL;
    ts_sql(watch, "CREATE TABLE guarded (id INT PRIMARY KEY) ENGINE = InnoDB");
    TS_CLIENT *weak = ts_open_as((rowlock_client_options){.user = user, .password = "some-pass"});
    WANT(NOT_FOUND, rowlock_fence_install(weak, shop, "guarded", name, &ts_err));
    ts_sql(watch, "GRANT SELECT ON `%s`.guarded TO %s@localhost", shop, user);
    WANT(DENIED, rowlock_fence_install(weak, shop, "guarded", name, &ts_err));
    assert_int_equal(triggers_of("guarded"), 0);
    /* The statement in the message can be run as it is. */
    const char *remedy = strstr(ts_err.message, "GRANT TRIGGER ON `");
    assert_non_null(remedy);
    assert_non_null(strchr(remedy, ';'));
    ts_sql(watch, "%.*s", (int)strcspn(remedy, ";"), remedy);
    bool trusted = ts_sql_u64(watch, "SELECT @@global.log_bin = 0"
                                     " OR @@global.log_bin_trust_function_creators") != 0;
    if (!trusted) {
        WANT(DENIED, rowlock_fence_install(weak, shop, "guarded", name, &ts_err));
        assert_non_null(strstr(ts_err.message, "log_bin_trust_function_creators"));
        ts_sql(watch, "SET GLOBAL log_bin_trust_function_creators = 1");
    }
    WANT(OK, rowlock_fence_install(weak, shop, "guarded", name, &ts_err));
    if (!trusted)
        ts_sql(watch, "SET GLOBAL log_bin_trust_function_creators = 0");
    WANT(OK, rowlock_fences_get(weak, &list, &ts_err));
    assert_int_equal(rowlock_fences_count(list), 1);
    assert_non_null(strstr(rowlock_fences_at(list, 0)->definer, user));
    rowlock_fences_free(list);
    /* A user that writes needs no right on rowlock's tables: the trigger runs with its
     * definer's. */
    TS_MYSQL *writer =
        ts_connect_as(ts_user("writer", "some-pass", "INSERT", shop), "some-pass", shop);
    TS_HOLD *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
    want_refused(writer, "guarded", name, "INSERT INTO @ VALUES (1)");
    WANT(OK, rowlock_present(hold, writer, &ts_err));
    ts_sql(writer, "INSERT INTO guarded VALUES (1)");
    WANT(OK, rowlock_fence_remove(weak, shop, "guarded", &ts_err));
}

TS_MAIN("fences", open_shop, close_clients)
