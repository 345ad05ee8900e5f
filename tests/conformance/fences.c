/* Fences on tables: rowlock_fence_install(), rowlock_present(), and what the triggers refuse. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rowlock/rowlock_mysql.h"
#include "support/support.h"

#define REFUSED 1644 /* SIGNAL */

static rowlock_client *client;
static rowlock_client *other;
static MYSQL *mysql;
static MYSQL *watch;
static const char *shop; /* the schema of the tables */

static int open_clients(void **state)
{
    ts_suite_begin(state);
    client = ts_open();
    other = ts_open();
    shop = ts_extra_schema("shop", false);
    mysql = ts_connect(shop);
    watch = ts_connect(shop);
    return 0;
}

static int close_clients(void **state)
{
    return ts_suite_end_with(state, client, other, mysql, watch);
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

/* `pattern` with the table's name for its @. */
static const char *with_table(const char *pattern, const char *table)
{
    static char text[400];
    const char *at = strchr(pattern, '@');
    snprintf(text, sizeof text, "%.*s%s%s", at ? (int)(at - pattern) : (int)strlen(pattern),
             pattern, at ? table : "", at ? at + 1 : "");
    return text;
}

/* The statement is refused for want of a token, and says which table and which lock. */
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

/* ------------------------------------------------------------------------ what is refused */

static void test_nobody_writes_without_the_token(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("only");
    const char *table = fenced_table(name);
    MYSQL *old_program = ts_connect(shop);
    ts_sql(watch, "CREATE TABLE IF NOT EXISTS other (id INT PRIMARY KEY) ENGINE = InnoDB");
    ts_sql(watch, "INSERT IGNORE INTO other VALUES (1), (2)");
    ts_sql(watch, "CREATE OR REPLACE VIEW through AS SELECT id, n FROM %s", table);
    want_no_write(old_program, table, name);
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    want_no_write(old_program, table, name);
    WANT(OK, rowlock_present(hold, mysql, &ts_err));
    want_no_write(old_program, table, name); /* another session's is not ours */
    for (size_t i = 0; i < WRITES; i++) {
        ts_sql(mysql, "BEGIN");
        ts_sql(mysql, "%s", with_table(writes[i], table));
        ts_sql(mysql, "ROLLBACK");
    }
    ts_sql(mysql, "UPDATE %s SET n = 1", table);
    assert_int_equal(checksum(table), 6003);
    WANT(OK, rowlock_release(hold, &ts_err));
    want_no_write(mysql, table, name);
    mysql_close(old_program);
}

static void test_a_holder_that_comes_back_writes_nothing(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("moved");
    const char *table = fenced_table(name);
    MYSQL *next = ts_connect(shop);
    rowlock_hold *old = ts_take(client, name, mode, 30000);
    WANT(OK, rowlock_present(old, mysql, &ts_err));
    ts_sql(mysql, "UPDATE %s SET n = 1 WHERE id = 1", table);
    ts_expire(watch, name, mode);
    rowlock_hold *hold = ts_take(other, name, mode, 30000);
    want_refused(mysql, table, name, "UPDATE @ SET n = 2");
    WANT(OK, rowlock_present(hold, next, &ts_err));
    ts_sql(next, "UPDATE %s SET n = 3 WHERE id = 2", table);
    want_refused(mysql, table, name, "INSERT INTO @ (id) VALUES (4)");
    WANT(OK, rowlock_release(hold, &ts_err));
    /* Free again is not the old holder's again. */
    want_refused(mysql, table, name, "DELETE FROM @");
    assert_int_equal(checksum(table), 6004);
    WANT(LOST, rowlock_release(old, &ts_err));
    mysql_close(next);
}

/* It read before the take-over, in a transaction that is still open, and writes after it. */
static void test_a_transaction_from_before_the_take_over(void **state)
{
    static const char *const levels[] = {"READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"};
    rowlock_mode mode = ts_mode(state);
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
        WANT(OK, rowlock_release(hold, &ts_err));
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
        ts_expire(watch, name, mode); /* nobody has taken it: still good, as to rowlock_fence() */
    ts_sql(mysql, "SET TRANSACTION ISOLATION LEVEL %s", level);
    ts_sql(mysql, "START TRANSACTION");
    ts_sql(mysql, "UPDATE %s SET n = 1 WHERE id = 1", table);
    if (mode == ROWLOCK_PESSIMISTIC)
        ts_expire(watch, name, mode);
    ts_waiter waiter = {.client = other, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 30000};
    ts_waiter_start(&waiter);
    assert_true(ts_server_waits(watch, "%resource%", 10000));
    ts_sql(mysql, "UPDATE %s SET n = 1 WHERE id = 2", table);
    ts_pass_ms(300);
    assert_false(ts_waiter_ended(&waiter));
    ts_sql(mysql, "COMMIT");
    WANT(OK, ts_waiter_join(&waiter, 15000));
    assert_true(rowlock_hold_token(waiter.hold) > token);
    want_refused(mysql, table, name, "UPDATE @ SET n = 1 WHERE id = 3");
    assert_int_equal(checksum(table), 6002);
    WANT(LOST, rowlock_release(old, &ts_err));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
}

static void test_a_take_over_waits_for_the_writer(void **state)
{
    take_over_from_a_writer(ts_mode(state), "READ COMMITTED");
    take_over_from_a_writer(ts_mode(state), "REPEATABLE READ");
}

static void test_a_long_writer_keeps_its_lock(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("long");
    const char *table = fenced_table(name);
    rowlock_hold *hold = ts_take(client, name, mode, TS_KEPT_TTL);
    WANT(OK, rowlock_present(hold, mysql, &ts_err));
    ts_sql(mysql, "BEGIN");
    ts_sql(mysql, "UPDATE %s SET n = 1 WHERE id = 1", table);
    int64_t end = ts_now_ms() + TS_KEPT_FOR;
    while (ts_now_ms() < end) {
        assert_held(hold);
        WANT(BUSY, ts_try(other, name, mode));
        ts_pass_ms(50);
    }
    ts_sql(mysql, "UPDATE %s SET n = 1 WHERE id = 2", table);
    ts_sql(mysql, "COMMIT");
    assert_int_equal(checksum(table), 6002);
    assert_held(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* Workers of one holder write side by side. */
static void test_sessions_of_one_holder_do_not_wait(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("side");
    const char *table = fenced_table(name);
    MYSQL *second = ts_connect(shop);
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    WANT(OK, rowlock_present(hold, mysql, &ts_err));
    WANT(OK, rowlock_present(hold, second, &ts_err));
    ts_sql(mysql, "SET SESSION innodb_lock_wait_timeout = 1");
    ts_sql(second, "SET SESSION innodb_lock_wait_timeout = 1");
    ts_sql(mysql, "BEGIN");
    ts_sql(second, "BEGIN");
    ts_sql(mysql, "UPDATE %s SET n = 1 WHERE id = 1", table);
    ts_sql(second, "UPDATE %s SET n = 1 WHERE id = 2", table);
    ts_sql(mysql, "INSERT INTO %s VALUES (4, 0)", table);
    ts_sql(mysql, "COMMIT");
    ts_sql(second, "COMMIT");
    /* rowlock_fence() first, then writes: the same transaction's. */
    ts_sql(mysql, "BEGIN");
    WANT(OK, rowlock_fence(hold, mysql, &ts_err));
    ts_sql(mysql, "UPDATE %s SET n = 2 WHERE id = 1", table);
    assert_int_equal(ts_sql_try(second, "UPDATE %s SET n = 2 WHERE id = 2", table), 1205);
    ts_sql(mysql, "COMMIT");
    ts_sql(mysql, "SET SESSION innodb_lock_wait_timeout = DEFAULT");
    assert_int_equal(checksum(table), 10003);
    WANT(OK, rowlock_release(hold, &ts_err));
    mysql_close(second);
}

/* Written, then fenced, while somebody waits for the row: one of them is rolled back, and what the
 * old holder has committed came before the new one. */
static void test_a_late_fence_and_a_take_over(void **state)
{
    const char *name = ts_name("late");
    const char *table = fenced_table(name);
    (void)state;
    rowlock_hold *old = ts_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
    WANT(OK, rowlock_present(old, mysql, &ts_err));
    ts_expire(watch, name, ROWLOCK_OPTIMISTIC);
    ts_sql(mysql, "BEGIN");
    ts_sql(mysql, "UPDATE %s SET n = 1 WHERE id = 1", table);
    ts_waiter waiter = {.client = other, .name = name};
    waiter.options = (rowlock_acquire_options){.wait_ms = 30000};
    ts_waiter_start(&waiter);
    assert_true(ts_server_waits(watch, "%resource%", 10000));
    rowlock_status status = rowlock_fence(old, mysql, &ts_err);
    if (status == ROWLOCK_OK)
        assert_false(ts_waiter_ended(&waiter));
    else
        assert_true(status == ROWLOCK_DEADLOCK || status == ROWLOCK_LOST);
    ts_sql(mysql, status == ROWLOCK_OK ? "COMMIT" : "ROLLBACK");
    WANT(OK, ts_waiter_join(&waiter, 15000));
    assert_int_equal(checksum(table), status == ROWLOCK_OK ? 6001 : 6000);
    WANT(LOST, rowlock_release(old, &ts_err));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
}

/* An engine without transactions: what is refused is not written; what was written stays. */
static void test_an_engine_without_transactions(void **state)
{
    const char *name = ts_name("myisam");
    (void)state;
    ts_sql(watch, "CREATE TABLE flat (id INT PRIMARY KEY) ENGINE = MyISAM");
    WANT(OK, rowlock_fence_install(client, shop, "flat", name, &ts_err));
    want_refused(mysql, "flat", name, "INSERT INTO @ VALUES (1)");
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
    WANT(OK, rowlock_present(hold, mysql, &ts_err));
    ts_sql(mysql, "INSERT INTO flat VALUES (1)");
    ts_expire(watch, name, ROWLOCK_OPTIMISTIC);
    rowlock_hold *next = ts_take(other, name, ROWLOCK_OPTIMISTIC, 30000);
    want_refused(mysql, "flat", name, "INSERT INTO @ VALUES (2)");
    assert_int_equal(ts_sql_u64(watch, "SELECT COUNT(*) FROM flat"), 1);
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(next, &ts_err));
}

/* ---------------------------------------------------------------------------- presenting */

static void test_what_cannot_be_presented(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("present");
    WANT(INVALID, rowlock_present(NULL, mysql, &ts_err));
    rowlock_hold *hold = ts_take(client, name, mode, 3000);
    WANT(INVALID, rowlock_present(hold, NULL, &ts_err));
    const char *names[] = {ts_name("present-set"), ts_name("present-set")};
    rowlock_acquire_options options = {.mode = ROWLOCK_PESSIMISTIC};
    rowlock_hold *set = NULL;
    WANT(OK, rowlock_acquire_set(client, names, 2, &options, &set, &ts_err));
    WANT(INVALID, rowlock_present(set, mysql, &ts_err));
    options.unfenced = true;
    rowlock_hold *bare = NULL;
    WANT(OK, rowlock_acquire(client, ts_name("present-bare"), &options, &bare, &ts_err));
    WANT(INVALID, rowlock_present(bare, mysql, &ts_err));
    WANT(OK, rowlock_break(other, name, NULL, &ts_err));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 15000));
    WANT(LOST, rowlock_present(hold, mysql, &ts_err));
    WANT(OK, rowlock_release(bare, &ts_err));
    WANT(OK, rowlock_release(set, &ts_err));
    WANT(LOST, rowlock_release(hold, &ts_err));
}

/* It begins no transaction, and is there whatever a session had in that variable before. */
static void test_presenting_is_the_sessions(void **state)
{
    static const char *const before[] = {"NULL",         "'[1, 2]'", "'no json'", "12.5",
                                         "'{\"a\": 1}'", "''",       "X'5B5D'"};
    const char *name = ts_name("session");
    const char *second = ts_name("session");
    const char *table = fenced_table(name);
    MYSQL *conn = ts_connect(shop);
    (void)state;
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
    rowlock_hold *another = ts_take(client, second, ROWLOCK_PESSIMISTIC, 30000);
    ts_sql(conn, "SET autocommit = 0");
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++) {
        ts_sql(conn, "SET @rowlock_presented = %s", before[i]);
        want_refused(conn, table, name, "UPDATE @ SET n = 1");
        ts_sql(conn, "ROLLBACK");
        WANT(OK, rowlock_present(hold, conn, &ts_err));
        WANT(OK, rowlock_present(another, conn, &ts_err));
        assert_int_equal(conn->server_status & SERVER_STATUS_IN_TRANS, 0);
        ts_sql(conn, "UPDATE %s SET n = %zu", table, i + 1);
        ts_sql(conn, "COMMIT");
    }
    assert_int_equal(mysql_reset_connection(conn), 0);
    want_refused(conn, table, name, "UPDATE @ SET n = 1");
    WANT(OK, rowlock_release(another, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    mysql_close(conn);
}

/* Guessed, or of another lock, or of another schema's lock of that name. */
static void test_tokens_that_are_not_it(void **state)
{
    const char *name = ts_name("forged");
    const char *table = fenced_table(name);
    const char *elsewhere = ts_extra_schema("elsewhere", true);
    rowlock_client_options options = ts_options();
    rowlock_client *their = NULL;
    (void)state;
    options.schema = elsewhere;
    WANT(OK, rowlock_client_open(&options, &their, &ts_err));
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
    rowlock_hold *same_name = ts_take(their, name, ROWLOCK_OPTIMISTIC, 30000);
    rowlock_hold *other_name = ts_take(client, ts_name("forged"), ROWLOCK_OPTIMISTIC, 30000);
    assert_int_equal(rowlock_hold_token(hold), rowlock_hold_token(same_name));
    MYSQL *conn = ts_connect(shop);
    WANT(OK, rowlock_present(same_name, conn, &ts_err));
    WANT(OK, rowlock_present(other_name, conn, &ts_err));
    want_refused(conn, table, name, "UPDATE @ SET n = 1");
    static const char *const values[] = {"0",
                                         "-1",
                                         "'1 '",
                                         "'01'",
                                         "1.0",
                                         "'1e0'",
                                         "18446744073709551615",
                                         "18446744073709551616",
                                         "NULL",
                                         "TRUE",
                                         "'x'",
                                         "''"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        ts_sql(conn, "SET @rowlock_presented = JSON_OBJECT(CONCAT(HEX('%s'), '.', HEX(%s)), %s)",
               ts_schema(), ts_quote(name), values[i]);
        want_refused(conn, table, name, "UPDATE @ SET n = 1");
    }
    WANT(OK, rowlock_present(hold, conn, &ts_err));
    ts_sql(conn, "UPDATE %s SET n = 1", table);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(same_name, &ts_err));
    WANT(OK, rowlock_release(other_name, &ts_err));
    rowlock_client_close(their);
    mysql_close(conn);
}

/* --------------------------------------------------------------- install, list, remove */

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

static void test_twice_is_once(void **state)
{
    const char *name = ts_name("twice");
    const char *table = fenced_table(name);
    (void)state;
    WANT(OK, rowlock_fence_install(other, shop, table, name, &ts_err));
    assert_int_equal(triggers_of(table), 3);
    WANT(INVALID, rowlock_fence_install(client, shop, table, ts_name("twice"), &ts_err));
    assert_non_null(strstr(ts_err.message, name));
    want_listed(table, name, true);
    WANT(OK, rowlock_fence_remove(other, shop, table, &ts_err));
    WANT(NOT_FOUND, rowlock_fence_remove(client, shop, table, &ts_err));
    want_listed(table, NULL, false);
    assert_int_equal(triggers_of(table), 0);
    ts_sql(mysql, "UPDATE %s SET n = 1", table);
}

static void test_a_hole_is_shown_and_mended(void **state)
{
    const char *name = ts_name("hole");
    const char *table = fenced_table(name);
    (void)state;
    char *trigger = ts_sql_text(watch,
                                "SELECT trigger_name FROM information_schema.triggers WHERE"
                                " event_object_schema = %s AND event_object_table = %s"
                                " AND event_manipulation = 'UPDATE'",
                                ts_quote(shop), ts_quote(table));
    ts_sql(watch, "DROP TRIGGER `%s`", trigger);
    free(trigger);
    want_listed(table, name, false);
    WANT(OK, rowlock_fence_install(client, shop, table, name, &ts_err));
    want_listed(table, name, true);
    assert_int_equal(triggers_of(table), 3);
}

/* An older version's, and that of a server that was alone: new ones take their place. */
static void test_outdated_triggers_are_replaced(void **state)
{
    const char *name = ts_name("outdated");
    const char *table = fenced_table(name);
    (void)state;
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

static void test_ours_come_first(void **state)
{
    const char *name = ts_name("order");
    (void)state;
    ts_sql(watch, "CREATE TABLE ordered (id INT PRIMARY KEY, n INT) ENGINE = InnoDB");
    ts_sql(watch, "CREATE TABLE trail (id INT) ENGINE = MyISAM");
    ts_sql(watch, "CREATE TRIGGER `a``b` BEFORE INSERT ON ordered FOR EACH ROW"
                  " INSERT INTO trail VALUES (NEW.id)");
    WANT(OK, rowlock_fence_install(client, shop, "ordered", name, &ts_err));
    want_refused(mysql, "ordered", name, "INSERT INTO @ VALUES (1, 1)");
    assert_int_equal(ts_sql_u64(watch, "SELECT COUNT(*) FROM trail"), 0);
    WANT(OK, rowlock_fence_remove(client, shop, "ordered", &ts_err));
    assert_int_equal(triggers_of("ordered"), 1);
}

/* They go with the table, and the old name is free for another. */
static void test_renamed_and_dropped(void **state)
{
    const char *name = ts_name("renamed");
    (void)state;
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
    want_listed("moved_0", NULL, false);
    want_listed("moved_1", NULL, false);
}

static void test_what_cannot_be_fenced(void **state)
{
    static const char *const none[] = {"", "no_such_table", "WORK_1", "work_1 "};
    const char *name = ts_name("cannot");
    (void)state;
    (void)fenced_table(name);
    ts_sql(watch, "CREATE OR REPLACE VIEW a_view AS SELECT 1");
    WANT(INVALID, rowlock_fence_install(client, shop, "a_view", name, &ts_err));
    WANT(INVALID, rowlock_fence_install(client, NULL, "resource", name, &ts_err));
    WANT(INVALID, rowlock_fence_install(client, ts_schema(), "lock_event", name, &ts_err));
    WANT(INVALID, rowlock_fence_install(client, "mysql", "db", name, &ts_err));
    WANT(INVALID, rowlock_fence_install(client, shop, NULL, name, &ts_err));
    WANT(INVALID, rowlock_fence_install(client, shop, "work_1", "", &ts_err));
    WANT(INVALID, rowlock_fence_install(client, shop, "work_1", NULL, &ts_err));
    WANT(INVALID, rowlock_fence_install(client, shop, "\xff", name, &ts_err));
    WANT(INVALID, rowlock_fence_install(client, shop, "\xf0\x9f\x94\x92", name, &ts_err));
    WANT(INVALID, rowlock_fence_install(client, "", "work_1", name, &ts_err));
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        rowlock_status wanted = *none[i] ? ROWLOCK_NOT_FOUND : ROWLOCK_INVALID;
        assert_int_equal(rowlock_fence_install(client, shop, none[i], name, &ts_err), wanted);
        assert_int_equal(rowlock_fence_remove(client, shop, none[i], &ts_err), wanted);
    }
    WANT(NOT_FOUND, rowlock_fence_install(client, "no_such_schema", "t", name, &ts_err));
    WANT(INVALID, rowlock_fences_get(client, NULL, &ts_err));
    ts_sql(mysql, "CREATE TEMPORARY TABLE passing (id INT)");
    WANT(NOT_FOUND, rowlock_fence_install(client, shop, "passing", name, &ts_err));
    ts_sql(mysql, "DROP TEMPORARY TABLE passing");
}

static void test_hostile_names(void **state)
{
    static const char *const tables[] = {
        "a`b",  "a'b",      "a\"b",
        "a.b",  "a\\b",     "-- x",
        "?:id", "{schema}", "a b",
        "`",    "Grüße ☂",  "1234567890123456789012345678901234567890123456789012345678901234"};
    static const char *const locks[] = {"a'; DROP TABLE t; --", "back\\slash", "`tick`", "☂ 🔒",
                                        "{schema} ? :name"};
    (void)state;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        const char *lock = locks[i % (sizeof locks / sizeof locks[0])];
        char quoted[200];
        char *out = quoted;
        for (const char *at = tables[i]; *at; at++) {
            if (*at == '`')
                *out++ = '`';
            *out++ = *at;
        }
        *out = '\0';
        ts_sql(watch, "CREATE TABLE `%s` (id INT PRIMARY KEY) ENGINE = InnoDB", quoted);
        WANT(OK, rowlock_fence_install(client, shop, tables[i], lock, &ts_err));
        want_listed(tables[i], lock, true);
        assert_int_equal(ts_sql_try(mysql, "INSERT INTO `%s` VALUES (1)", quoted), REFUSED);
        rowlock_hold *hold = ts_take(client, lock, ROWLOCK_OPTIMISTIC, 30000);
        WANT(OK, rowlock_present(hold, mysql, &ts_err));
        ts_sql(mysql, "INSERT INTO `%s` VALUES (1)", quoted);
        WANT(OK, rowlock_release(hold, &ts_err));
        WANT(OK, rowlock_fence_remove(client, shop, tables[i], &ts_err));
        ts_sql(watch, "DROP TABLE `%s`", quoted);
    }
}

/* The longest names there are, in the widest characters: the message still fits. */
static void test_the_longest_names(void **state)
{
    char lock[4 * ROWLOCK_NAME_MAX + 1] = "";
    char table[3 * 64 + 1] = "";
    (void)state;
    for (int i = 0; i < ROWLOCK_NAME_MAX; i++)
        memcpy(lock + strlen(lock), "🔒", 5);
    for (int i = 0; i < 50; i++)
        memcpy(table + strlen(table), "☂", 4);
    ts_sql(watch, "CREATE TABLE `%s` (id INT PRIMARY KEY) ENGINE = InnoDB", table);
    WANT(OK, rowlock_fence_install(client, shop, table, lock, &ts_err));
    want_listed(table, lock, true);
    assert_int_equal(ts_sql_try(mysql, "INSERT INTO `%s` VALUES (1)", table), REFUSED);
    rowlock_hold *hold = ts_take(client, lock, ROWLOCK_OPTIMISTIC, 30000);
    WANT(OK, rowlock_present(hold, mysql, &ts_err));
    ts_sql(mysql, "INSERT INTO `%s` VALUES (1)", table);
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_int_equal(ts_sql_try(mysql, "INSERT INTO `%s` VALUES (2)", table), REFUSED);
    WANT(OK, rowlock_fence_remove(client, shop, table, &ts_err));
}

/* A transaction on the table keeps its triggers from being made: not for ever, and not in part. */
static void test_a_table_in_use(void **state)
{
    const char *name = ts_name("in-use");
    rowlock_client_options options = ts_options();
    rowlock_client *hasty = NULL;
    (void)state;
    options.connect_timeout_ms = 3000;
    WANT(OK, rowlock_client_open(&options, &hasty, &ts_err));
    ts_sql(watch, "CREATE TABLE busy (id INT PRIMARY KEY) ENGINE = InnoDB");
    ts_sql(mysql, "BEGIN");
    ts_sql(mysql, "INSERT INTO busy VALUES (1)");
    WANT(TIMEOUT, rowlock_fence_install(hasty, shop, "busy", name, &ts_err));
    assert_int_equal(triggers_of("busy"), 0);
    ts_sql(mysql, "COMMIT");
    WANT(OK, rowlock_fence_install(client, shop, "busy", name, &ts_err));
    rowlock_client_close(hasty);
}

/* Its rights: TRIGGER on the table, reading the locks; and the message says so. */
static void test_rights(void **state)
{
    const char *name = ts_name("rights");
    rowlock_client_options options = ts_options();
    rowlock_client *weak = NULL;
    rowlock_fences *list = NULL;
    (void)state;
    ts_sql(watch, "CREATE TABLE guarded (id INT PRIMARY KEY) ENGINE = InnoDB");
    options.user = ts_user("fencer", "some-pass", "SELECT", ts_schema());
    options.password = "some-pass";
    WANT(OK, rowlock_client_open(&options, &weak, &ts_err));
    WANT(NOT_FOUND, rowlock_fence_install(weak, shop, "guarded", name, &ts_err));
    ts_sql(watch, "GRANT SELECT ON `%s`.guarded TO %s@localhost", shop, options.user);
    WANT(DENIED, rowlock_fence_install(weak, shop, "guarded", name, &ts_err));
    assert_int_equal(triggers_of("guarded"), 0);
    /* What it says to run can be run as it is. */
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
    assert_non_null(strstr(rowlock_fences_at(list, 0)->definer, options.user));
    rowlock_fences_free(list);
    /* Who writes needs no right on rowlock's tables: the trigger has its definer's. */
    MYSQL *writer =
        ts_connect_as(ts_user("writer", "some-pass", "INSERT", shop), "some-pass", shop);
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
    want_refused(writer, "guarded", name, "INSERT INTO @ VALUES (1)");
    WANT(OK, rowlock_present(hold, writer, &ts_err));
    ts_sql(writer, "INSERT INTO guarded VALUES (1)");
    WANT(OK, rowlock_fence_remove(weak, shop, "guarded", &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(weak);
    mysql_close(writer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_nobody_writes_without_the_token),
        BOTH(test_a_holder_that_comes_back_writes_nothing),
        BOTH(test_a_transaction_from_before_the_take_over),
        BOTH(test_a_take_over_waits_for_the_writer),
        BOTH(test_a_long_writer_keeps_its_lock),
        BOTH(test_sessions_of_one_holder_do_not_wait),
        ONCE(test_a_late_fence_and_a_take_over),
        ONCE(test_an_engine_without_transactions),
        BOTH(test_what_cannot_be_presented),
        ONCE(test_presenting_is_the_sessions),
        ONCE(test_tokens_that_are_not_it),
        ONCE(test_twice_is_once),
        ONCE(test_a_hole_is_shown_and_mended),
        ONCE(test_outdated_triggers_are_replaced),
        ONCE(test_ours_come_first),
        ONCE(test_renamed_and_dropped),
        ONCE(test_what_cannot_be_fenced),
        ONCE(test_hostile_names),
        ONCE(test_the_longest_names),
        ONCE(test_a_table_in_use),
        ONCE(test_rights),
    };
    return cmocka_run_group_tests_name("fences", tests, open_clients, close_clients);
}
