/*
 * Working through procedures (via=procedures): what a user with EXECUTE alone can do by the
 * library, and cannot do by calling the procedures himself with whatever values and session
 * variables.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rowlock/rowlock_mysql.h"
#include "support/support.h"

#define STRANGER "00000000-0000-4000-8000-000000000000.1" /* an owner id that is nobody's */

static char app[64], mallory[64]; /* users with EXECUTE alone */
static MYSQL *root, *attacker;
static rowlock_client *victim, *tables;
/* By the tables, and not root: on MySQL nobody's procedure ends the connection of a SYSTEM_USER. */
static rowlock_client *by_tables;

static rowlock_client_options options_of(const char *user, rowlock_via via)
{
    rowlock_client_options options = ts_options();
    options.user = user;
    options.via = via;
    options.password = strcmp(user, "root") == 0 ? NULL : "a-password";
    options.label = "somebody";
    return options;
}

static rowlock_client *open_as(const char *user, rowlock_via via)
{
    rowlock_client_options options = options_of(user, via);
    rowlock_client *client = NULL;
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    return client;
}

static MYSQL *connect_as(const char *user)
{
    return ts_connect_as(user, "a-password", ts_schema());
}

static int begin(void **state)
{
    ts_suite_begin(state);
    rowlock_client_options options = options_of("root", ROWLOCK_VIA_TABLES);
    WANT(OK, rowlock_procedures_install(&options, NULL, NULL, &ts_err));
    snprintf(app, sizeof app, "%s", ts_user("app", "a-password", "EXECUTE", ts_schema()));
    snprintf(mallory, sizeof mallory, "%s",
             ts_user("mallory", "a-password", "EXECUTE", ts_schema()));
    root = ts_connect(ts_schema());
    attacker = connect_as(mallory);
    victim = open_as(app, ROWLOCK_VIA_PROCEDURES);
    tables = open_as("root", ROWLOCK_VIA_TABLES);
    by_tables = open_as(ts_user("holder", "a-password", "ALL", ts_schema()), ROWLOCK_VIA_TABLES);
    return 0;
}

static int end(void **state)
{
    rowlock_client_close(by_tables);
    return ts_suite_end_with(state, victim, tables, attacker, root);
}

/* ------------------------------------------------------------------------- calling by hand */

static char answers[65536]; /* every cell of what the last call answered */

static void keep_answers(MYSQL_RES *result)
{
    for (MYSQL_ROW row; (row = mysql_fetch_row(result));)
        for (unsigned i = 0; i < mysql_num_fields(result); i++) {
            size_t used = strlen(answers);
            snprintf(answers + used, sizeof answers - used, "%s|", row[i] ? row[i] : "NULL");
        }
}

/* The server's number, 0 when good. */
static unsigned call(MYSQL *mysql, const char *format, ...) __attribute__((format(printf, 2, 3)));
static unsigned call(MYSQL *mysql, const char *format, ...)
{
    char text[4000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    answers[0] = '\0';
    if (mysql_query(mysql, text))
        return mysql_errno(mysql);
    int more;
    do {
        MYSQL_RES *result = mysql_store_result(mysql);
        if (result)
            keep_answers(result);
        mysql_free_result(result);
        more = mysql_next_result(mysql);
    } while (more == 0);
    return more > 0 ? mysql_errno(mysql) : 0;
}

static uint64_t id_of(const char *name)
{
    return ts_sql_u64(root, "SELECT id FROM resource WHERE resource_name = %s", ts_quote(name));
}

static uint64_t version_of(const char *name)
{
    return ts_sql_u64(root, "SELECT version FROM resource WHERE resource_name = %s",
                      ts_quote(name));
}

/* Nobody has a row of this name locked: the holder's renewal and release would meet it. */
static void assert_unlocked(const char *name)
{
    uint64_t id = id_of(name);
    static const char *const of[] = {"resource", "lease_renewal"};
    ts_sql(root, "BEGIN");
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        assert_int_equal(ts_sql_try(root,
                                    "SELECT id FROM %s WHERE id = %" PRIu64 " FOR UPDATE NOWAIT",
                                    of[i], id),
                         0);
    ts_sql(root, "ROLLBACK");
}

/* The attacker's session is set to this, and to a transaction of its own, or not. */
static const char *const sessions[] = {
    "SET autocommit = 1",
    "SET autocommit = 0",
    "SET autocommit = 1, SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "START TRANSACTION",
    "SET timestamp = 2000000000",
    "SET sql_mode = '', unique_checks = 0, foreign_key_checks = 0",
};

static MYSQL *session(size_t i)
{
    MYSQL *mysql = connect_as(mallory);
    if (i == 2)
        ts_sql(mysql, "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE");
    else
        ts_sql(mysql, "%s", sessions[i]);
    if (i == 2)
        ts_sql(mysql, "START TRANSACTION");
    return mysql;
}

/* ----------------------------------------------------------------------------- no rights */

static void test_no_table_may_be_touched(void **state)
{
    static const char *const of[] = {"resource",      "resource_lock", "lease_renewal",
                                     "version_floor", "lock_event",    "rowlock_schema_version"};
    (void)state;
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        assert_int_equal(ts_sql_try(attacker, "SELECT 1 FROM %s", of[i]), 1142);
        assert_int_equal(ts_sql_try(attacker, "DELETE FROM %s", of[i]), 1142);
    }
    /* What the procedures share is of no use to who has no rights himself. */
    assert_int_not_equal(call(attacker,
                              "CALL rl_event('x', 'optimistic', 'broken', 1, 'o', 'root', "
                              "'2001-01-01', 0, 0, '')"),
                         0);
    assert_int_equal(ts_sql_u64(root, "SELECT COUNT(*) FROM lock_event WHERE owner = 'o'"), 0);
}

static void test_what_takes_rights_says_so(void **state)
{
    rowlock_history *history = NULL;
    (void)state;
    WANT(DENIED, rowlock_sweep(victim, NULL, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, "`sweeper` in sql/grants.sql"));
    assert_non_null(strstr(ts_err.message, "init --event"));
    WANT(DENIED, rowlock_purge(victim, ts_name("denied"), &ts_err));
    assert_non_null(strstr(ts_err.message, "`sweeper` in sql/grants.sql"));
    WANT(DENIED, rowlock_history_get(victim, NULL, &history, &ts_err));
    assert_non_null(strstr(ts_err.message, "SELECT on lock_event, as `looker` in sql/grants.sql"));
}

/* ------------------------------------------------------------------------------ stealing */

static void attack_lease(MYSQL *mysql, uint64_t id, uint64_t v, const char *name)
{
    const char *quoted = ts_quote(name);
    const char *bell = ts_quote("rowlock.x.");
    (void)call(mysql,
               "CALL rl_via_lease_take_over(%" PRIu64 ", '" STRANGER "', 'm', 0, 1000000, %" PRIu64
               ", %s)",
               v, id, quoted);
    (void)call(mysql,
               "CALL rl_via_lease_acquire('" STRANGER "', 'm', 1000000, %" PRIu64 ", %s, %s)", id,
               quoted, bell);
    (void)call(mysql,
               "CALL rl_via_lease_inherit('" STRANGER "', 'm', 1000000, %" PRIu64 ", %s, %s)", id,
               quoted, bell);
    (void)call(mysql,
               "CALL rl_via_lease_acquire_quiet('" STRANGER "', 'm', 1000000, %" PRIu64 ", %s)", id,
               quoted);
    (void)call(mysql, "CALL rl_via_lease_expire(%" PRIu64 ", %" PRIu64 ")", v, id);
    (void)call(mysql,
               "CALL rl_via_lease_release_quiet(0, %" PRIu64 ", %" PRIu64 ", '" STRANGER "')", id,
               v);
    (void)call(mysql, "CALL rl_via_row_unpublish(%" PRIu64 ", %" PRIu64 ", '" STRANGER "')", id, v);
    (void)call(mysql, "CALL rl_via_row_end_stale(%" PRIu64 ", REPEAT('0', 40))", id);
    (void)call(mysql,
               "CALL rl_via_resource_raise(18446744073709551615, %" PRIu64 ", %" PRIu64
               ", '" STRANGER "')",
               id, v);
    (void)call(mysql, "CALL rl_via_section_swap('" STRANGER "', 'm', %" PRIu64 ", %s, %" PRIu64 ")",
               id, quoted, v);
    (void)call(mysql, "CALL rl_via_resource_touch(%" PRIu64 ")", id);
    for (int owner = 0; owner < 2; owner++)
        (void)call(mysql, "CALL rl_via_lease_renew('[[%" PRIu64 ", %s, 1, \"%s\"]]')", id,
                   "18446744073709551615", owner ? STRANGER : "");
    (void)call(mysql,
               "CALL rl_via_lease_renew('[[%" PRIu64 ", %" PRIu64 ", 1, \"" STRANGER "\"]]')", id,
               v);
    (void)call(mysql,
               "CALL rl_via_caller_fence(%" PRIu64 ", %" PRIu64 ", '" STRANGER
               "', CONCAT('rowlock.key.', REPEAT('a', 32)))",
               id, v);
    (void)call(mysql,
               "CALL rl_via_caller_section_swap('" STRANGER "', %" PRIu64 ", %" PRIu64
               ", CONCAT('rowlock.key.', REPEAT('a', 32)))",
               id, v);
}

/* Nothing of it has changed, and nothing stays locked, whatever the session. */
static void test_a_lease_is_its_holders(void **state)
{
    const char *name = ts_name("mine");
    (void)state;
    rowlock_hold *hold = ts_take(victim, name, ROWLOCK_OPTIMISTIC, 30000);
    uint64_t id = id_of(name);
    char *before = ts_dump(root, ts_schema());
    for (size_t i = 0; i < sizeof sessions / sizeof sessions[0]; i++) {
        MYSQL *mysql = session(i);
        attack_lease(mysql, id, rowlock_hold_token(hold), name);
        char *after = ts_dump(root, ts_schema());
        assert_string_equal(before, after);
        assert_unlocked(name);
        free(after);
        mysql_close(mysql);
    }
    free(before);
    assert_held(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
}

static void test_renewals_go_on(void **state)
{
    const char *name = ts_name("renewed");
    (void)state;
    rowlock_hold *hold = ts_take(victim, name, ROWLOCK_OPTIMISTIC, 6000);
    uint64_t id = id_of(name);
    MYSQL *mysql = session(2);
    attack_lease(mysql, id, rowlock_hold_token(hold), name);
    assert_true(POLL_UNTIL(ts_sql_u64(root, "SELECT version FROM lease_renewal WHERE id = %" PRIu64,
                                      id) == rowlock_hold_token(hold),
                           20000));
    attack_lease(mysql, id, rowlock_hold_token(hold), name);
    mysql_close(mysql);
    assert_held(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* Its owner's id is what releases it: no look-up hands it out. */
static void test_nobody_is_told_whose(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("whose");
    rowlock_hold *hold = ts_take(victim, name, mode, 30000);
    const char *owner = rowlock_hold_owner(hold);
    uint64_t id = id_of(name);
    assert_int_equal(call(attacker, "CALL rl_via_list_names('', 1, 1000, 1)"), 0);
    assert_non_null(strstr(answers, name));
    assert_null(strstr(answers, owner));
    assert_int_equal(call(attacker, "CALL rl_via_list_name(%s, 1)", ts_quote(name)), 0);
    assert_null(strstr(answers, owner));
    assert_int_equal(call(attacker, "CALL rl_via_lease_look(%" PRIu64 ", %s, '" STRANGER "')", id,
                          ts_quote(name)),
                     0);
    assert_null(strstr(answers, owner));
    assert_int_equal(
        call(attacker, "CALL rl_via_row_look(%" PRIu64 ", %s, '" STRANGER "')", id, ts_quote(name)),
        0);
    assert_null(strstr(answers, owner));
    assert_int_equal(
        call(attacker, "CALL rl_via_section_whose(%" PRIu64 ", %s, '')", id, ts_quote(name)), 0);
    assert_null(strstr(answers, owner));
    rowlock_list *list = NULL;
    WANT(OK, rowlock_list_one(victim, name, &list, &ts_err));
    assert_int_equal(rowlock_list_at(list, 0)->owner[0], '#');
    assert_null(strstr(rowlock_list_at(list, 0)->owner, owner));
    rowlock_list_free(list);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* The proof that its holder is dead is given only to who has the row. */
static void test_a_row_lock_is_its_holders(void **state)
{
    const char *name = ts_name("row");
    char ticket[64];
    (void)state;
    WANT(OK, ts_try(victim, name, ROWLOCK_PESSIMISTIC));
    uint64_t id = id_of(name);
    MYSQL *mysql = connect_as(mallory);
    ts_sql(mysql, "SET autocommit = 0");
    assert_int_equal(call(mysql, "CALL rl_via_row_lock(%" PRIu64 ")", id), 0);
    const char *last = strrchr(answers, '|') - 40;
    snprintf(ticket, sizeof ticket, "%.40s", last);
    assert_int_equal(strspn(ticket, "0123456789abcdef"), 40);
    ts_sql(mysql, "ROLLBACK");
    rowlock_hold *hold = ts_take(victim, name, ROWLOCK_PESSIMISTIC, 30000);
    uint64_t token = rowlock_hold_token(hold);
    char *before = ts_dump(root, ts_schema());
    (void)call(attacker, "CALL rl_via_row_publish('" STRANGER "', 'm', 1, %" PRIu64 ", %s, '%s')",
               id, ts_quote(name), ticket);
    (void)call(attacker,
               "CALL rl_via_row_publish_over(%" PRIu64 ", '" STRANGER "', 'm', 1, %" PRIu64
               ", %s, '%s')",
               token, id, ts_quote(name), ticket);
    (void)call(attacker, "CALL rl_via_row_end_stale(%" PRIu64 ", '%s')", id, ticket);
    (void)call(attacker, "CALL rl_via_row_end_stale(%" PRIu64 ", '')", id);
    assert_int_equal(call(mysql, "CALL rl_via_row_ticket(%" PRIu64 ")", id), 1205);
    assert_int_equal(call(mysql, "CALL rl_via_row_stale(%" PRIu64 ")", id), 1205);
    assert_int_equal(call(mysql, "CALL rl_via_row_fence(%" PRIu64 ")", id), 1205);
    assert_int_equal(call(mysql, "CALL rl_via_row_try(%" PRIu64 ")", id), 1205);
    /* Outside of a transaction nobody keeps the row. */
    assert_int_equal(call(attacker, "CALL rl_via_row_ticket(%" PRIu64 ")", id), 1644);
    assert_int_equal(call(attacker, "CALL rl_via_row_lock(%" PRIu64 ")", id), 1644);
    static const char key[] = "rowlock.key.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    assert_int_equal(call(attacker, "CALL rl_via_caller_row_try(%" PRIu64 ", '%s')", id, key),
                     1644);
    assert_int_equal(call(attacker, "CALL rl_via_caller_row_lock(%" PRIu64 ", '%s')", id, key),
                     1644);
    assert_int_equal(ts_sql_u64(root, "SELECT IS_FREE_LOCK('%s')", key), 1);
    char *after = ts_dump(root, ts_schema());
    assert_string_equal(before, after);
    free(before);
    free(after);
    mysql_close(mysql);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* ------------------------------------------------------------------------- what is written */

static void test_what_is_too_much_is_refused(void **state)
{
    static const char *const bad[] = {
        "CALL rl_via_resource_create('', 'optimistic')",
        "CALL rl_via_resource_create(NULL, 'optimistic')",
        "CALL rl_via_resource_create(REPEAT('x', 256), 'optimistic')",
        "CALL rl_via_resource_create(' x', 'optimistic')",
        "CALL rl_via_resource_create(CONCAT('x', CHAR(10)), 'optimistic')",
        "CALL rl_via_resource_create('kindless', 'other')",
        "CALL rl_via_resource_create('kindless', NULL)",
    };
    (void)state;
    const char *name = ts_name("much");
    WANT(OK, ts_try(victim, name, ROWLOCK_OPTIMISTIC));
    uint64_t id = id_of(name);
    char *before = ts_dump(root, ts_schema());
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(call(attacker, "%s", bad[i]), 1644);
    MYSQL *mysql = connect_as(mallory);
    ts_sql(mysql, "SET unique_checks = 0");
    assert_int_equal(call(mysql, "CALL rl_via_resource_create('twice', 'optimistic')"), 1644);
    ts_sql(mysql, "SET unique_checks = 1, insert_id = 18446744073709551615");
    assert_int_equal(call(mysql, "CALL rl_via_resource_create('last', 'optimistic')"), 1644);
    mysql_close(mysql);
    /* A lease for ever, one without an end, one shut for ever, an owner that could be SQL's. */
    static const char *const ttls[] = {"86400000001", "NULL", "0"};
    for (size_t i = 0; i < sizeof ttls / sizeof ttls[0]; i++)
        assert_int_equal(call(attacker,
                              "CALL rl_via_lease_acquire_quiet('" STRANGER "', 'm', %s, %" PRIu64
                              ", %s)",
                              ttls[i], id, ts_quote(name)),
                         1644);
    assert_int_equal(
        call(attacker,
             "CALL rl_via_lease_release_quiet(86400000001, %" PRIu64 ", 1, '" STRANGER "')", id),
        1644);
    assert_int_equal(
        call(attacker,
             "CALL rl_via_lease_acquire_quiet(CONCAT(REPEAT('a', 26), '-x'), 'm', 1000, %" PRIu64
             ", %s)",
             id, ts_quote(name)),
        1644);
    (void)call(attacker, "CALL rl_via_resource_create_lock('other', 0, %" PRIu64 ")", id);
    (void)call(attacker, "CALL rl_via_resource_create_renewal(%" PRIu64 ")", id + 1000);
    char *after = ts_dump(root, ts_schema());
    assert_string_equal(before, after);
    free(before);
    free(after);
}

static void test_versions_do_not_jump(void **state)
{
    const char *name = ts_name("jump");
    (void)state;
    WANT(OK, ts_try(victim, name, ROWLOCK_OPTIMISTIC));
    uint64_t id = id_of(name);
    uint64_t was = version_of(name);
    assert_int_equal(call(attacker,
                          "CALL rl_via_lease_acquire_quiet('" STRANGER "', 'm', 1000000, %" PRIu64
                          ", %s)",
                          id, ts_quote(name)),
                     0);
    assert_int_equal(version_of(name), was + 1);
    assert_int_equal(call(attacker,
                          "CALL rl_via_resource_raise(18446744073709551615, %" PRIu64 ", %" PRIu64
                          ", '" STRANGER "')",
                          id, was + 1),
                     0);
    assert_int_equal(version_of(name), was + 1000001);
    WANT(OK, ts_try(victim, name, ROWLOCK_OPTIMISTIC));
}

static void test_who_wrote_it_stands_there(void **state)
{
    const char *name = ts_name("written");
    char expected[200];
    (void)state;
    assert_int_equal(
        call(
            attacker,
            "CALL "
            "rl_via_event_add_many('[{\"name\":\"%s\",\"kind\":\"optimistic\",\"event\":\"broken\","
            "\"version\":7,\"owner\":\"" STRANGER
            "\",\"label\":\"root@db1\",\"age_us\":99999999999999,"
            "\"waited_ms\":null,\"held_ms\":null,\"exit_status\":null,\"detail\":\"\"}]', '', 0)",
            name),
        0);
    char *label =
        ts_sql_text(root, "SELECT owner_label FROM lock_event WHERE resource_name = '%s'", name);
    snprintf(expected, sizeof expected, "root@db1 [%s]", mallory);
    assert_string_equal(label, expected);
    free(label);
    assert_int_equal(
        ts_sql_u64(root,
                   "SELECT happened_at > UTC_TIMESTAMP() - INTERVAL 25 HOUR FROM lock_event"
                   " WHERE resource_name = '%s'",
                   name),
        1);
    rowlock_list *list = NULL;
    rowlock_hold *hold = ts_take(victim, name, ROWLOCK_OPTIMISTIC, 30000);
    WANT(OK, rowlock_list_one(tables, name, &list, &ts_err));
    snprintf(expected, sizeof expected, "somebody [%s]", app);
    assert_string_equal(rowlock_list_at(list, 0)->owner_label, expected);
    rowlock_list_free(list);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* Only by a key that is random: not by a bell, whose name anybody knows. */
static void test_nobodys_connection_is_ended(void **state)
{
    const char *bell = "rowlock.somebodys.17";
    (void)state;
    ts_sql(root, "DO GET_LOCK('%s', 0)", bell);
    assert_int_equal(call(attacker, "CALL rl_via_via_kill_connection('%s')", bell), 1644);
    assert_int_equal(call(attacker, "CALL rl_via_via_kill_query('%s')", bell), 1644);
    assert_int_equal(ts_sql_u64(root, "SELECT IS_USED_LOCK('%s') = CONNECTION_ID()", bell), 1);
    ts_sql(root, "DO RELEASE_LOCK('%s')", bell);
}

/* `mysql` has the row, and `connection_id` is said to be its number. */
static void publish(MYSQL *mysql, const char *name, unsigned long connection_id)
{
    assert_int_equal(call(mysql, "CALL rowlock_row_make(%s)", ts_quote(name)), 0);
    uint64_t id = id_of(name);
    ts_sql(mysql, "SET autocommit = 0");
    assert_int_equal(call(mysql, "CALL rl_via_row_lock(%" PRIu64 ")", id), 0);
    char ticket[64];
    snprintf(ticket, sizeof ticket, "%.40s", strrchr(answers, '|') - 40);
    assert_int_equal(
        call(attacker, "CALL rl_via_row_publish('" STRANGER "', 'm', %lu, %" PRIu64 ", %s, '%s')",
             connection_id, id, ts_quote(name), ticket),
        0);
    assert_int_equal(version_of(name), 1);
}

/* Who publishes a row lock may call any connection his own: that one is not ended when it is
 * broken, by himself or by an administrator who knows no better. His own is. */
static void test_a_published_connection_of_anothers(void **state)
{
    const char *name = ts_name("published");
    MYSQL *mysql = connect_as(mallory);
    MYSQL *stranger = connect_as(app);
    (void)state;
    publish(mysql, name, mysql_thread_id(stranger));
    assert_int_equal(call(attacker, "CALL rowlock_break(%s)", ts_quote(name)), 1644);
    WANT(BUSY, rowlock_break(tables, name, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, "nothing was ended"));
    assert_int_equal(ts_sql_u64(stranger, "SELECT CONNECTION_ID()"), mysql_thread_id(stranger));
    assert_int_equal(ts_sql_u64(mysql, "SELECT CONNECTION_ID()"), mysql_thread_id(mysql));
    mysql_close(mysql);

    mysql = connect_as(mallory);
    publish(mysql, "published, and true", mysql_thread_id(mysql));
    WANT(OK, rowlock_break(tables, "published, and true", NULL, &ts_err));
    assert_int_not_equal(ts_sql_try(mysql, "DO 0"), 0);
    mysql_close(mysql);
    mysql_close(stranger);
}

/* ------------------------------------------------------------------------------- breaking */

/* Behind a lease that was broken it may take some seconds: nobody rings. */
static rowlock_hold *take_after_break(rowlock_client *client, const char *name, rowlock_mode mode)
{
    const rowlock_acquire_options how = {.mode = mode, .wait_ms = 30000, .ttl_ms = 30000};
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_acquire(client, name, &how, &hold, &ts_err));
    return hold;
}

static char *broken_by(const char *name)
{
    return ts_sql_text(root,
                       "SELECT CONCAT(COUNT(*), ' ', MAX(detail)) FROM lock_event"
                       " WHERE event = 'broken' AND resource_name = '%s'",
                       name);
}

/* What CALL rowlock_break does, with the client's own words in the history. */
static void test_break_is_the_procedures(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("broken");
    char expected[200];
    rowlock_hold *hold = ts_take(by_tables, name, mode, 30000);
    uint64_t token = rowlock_hold_token(hold);
    WANT(OK, rowlock_break(victim, name, "it hangs", &ts_err));
    rowlock_hold *next = take_after_break(victim, name, mode);
    assert_true(rowlock_hold_token(next) > token);
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(next, &ts_err));
    char *by = broken_by(name);
    snprintf(expected, sizeof expected, "1 by somebody: it hangs [%s]", app);
    assert_string_equal(by, expected);
    free(by);
    WANT(BUSY, rowlock_break(victim, name, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, "is not held"));
    WANT(NOT_FOUND, rowlock_break(victim, "never used", NULL, &ts_err));
}

/* Who waits has the row and publishes itself right after the KILL: what is written is who was
 * broken. */
static void test_the_history_names_who_was_broken(void **state)
{
    const char *name = ts_name("broken-waited");
    (void)state;
    for (int i = 0; i < 5; i++) {
        rowlock_hold *hold = ts_take(by_tables, name, ROWLOCK_PESSIMISTIC, 30000);
        uint64_t token = rowlock_hold_token(hold);
        ts_waiter w = {.client = victim,
                       .name = name,
                       .options = {.mode = ROWLOCK_PESSIMISTIC, .wait_ms = 20000}};
        ts_waiter_start(&w);
        assert_true(ts_server_waits(root, "%resource_lock%FOR UPDATE%", 10000));
        WANT(OK, rowlock_break(victim, name, NULL, &ts_err));
        WANT(OK, ts_waiter_join(&w, 20000));
        assert_int_equal(ts_sql_u64(root,
                                    "SELECT COUNT(*) FROM lock_event WHERE event = 'broken'"
                                    " AND resource_name = '%s' AND version = %" PRIu64,
                                    name, token),
                         1);
        WANT(OK, rowlock_release(w.hold, &ts_err));
        WANT(LOST, rowlock_release(hold, &ts_err));
    }
    char *by = broken_by(name);
    assert_int_equal(by[0], '5');
    free(by);
}

/* Whoever is behind it stands at its end, whatever he says. */
static void test_nobody_breaks_as_another(void **state)
{
    const char *name = ts_name("blamed");
    char expected[200];
    (void)state;
    rowlock_hold *hold = ts_take(victim, name, ROWLOCK_OPTIMISTIC, 30000);
    ts_sql(attacker, "SET @rowlock_by = 'root@db1 [root]'");
    assert_int_equal(call(attacker, "CALL rowlock_break(%s)", ts_quote(name)), 0);
    char *by = broken_by(name);
    snprintf(expected, sizeof expected, "1 by root@db1 [root] [%s]", mallory);
    assert_string_equal(by, expected);
    free(by);
    WANT(LOST, rowlock_release(hold, &ts_err));
    hold = take_after_break(victim, name, ROWLOCK_OPTIMISTIC);
    ts_sql(attacker, "SET @rowlock_by = REPEAT(_utf8mb4 0xe29c93, 100000)");
    assert_int_equal(
        call(attacker, "CALL rl_via_via_break(%s, REPEAT('x', 100000))", ts_quote(name)), 0);
    assert_int_equal(ts_sql_u64(attacker, "SELECT @rowlock_by IS NULL"), 1);
    WANT(LOST, rowlock_release(hold, &ts_err));
    /* What is no text hides nobody, or breaks nothing. */
    hold = take_after_break(victim, name, ROWLOCK_OPTIMISTIC);
    ts_sql(attacker, "SET @rowlock_by = 0xFF");
    (void)call(attacker, "CALL rowlock_break(%s)", ts_quote(name));
    assert_int_equal(ts_sql_u64(root,
                                "SELECT COUNT(*) FROM lock_event WHERE event = 'broken'"
                                " AND resource_name = '%s' AND detail NOT LIKE '%%[%s]'",
                                name, mallory),
                     0);
    ts_sql(attacker, "SET @rowlock_by = NULL");
    (void)rowlock_release(hold, &ts_err);
}

/* The right to rowlock_break is what decides, however it is called. */
static void test_without_the_right_to_break(void **state)
{
    static const char *const of[] = {"rl_via_via_break", "rl_via_via_stamp",
                                     "rl_via_migration_list", "rl_via_schema_shape"};
    const char *name = ts_name("unbroken");
    char grant[200];
    (void)state;
    const char *bare = ts_user("bare", "a-password", NULL, NULL);
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        ts_sql(root, "GRANT EXECUTE ON PROCEDURE `%s`.%s TO '%s'@'localhost'", ts_schema(), of[i],
               bare);
    rowlock_hold *hold = ts_take(victim, name, ROWLOCK_OPTIMISTIC, 30000);
    rowlock_client *client = open_as(bare, ROWLOCK_VIA_PROCEDURES);
    WANT(DENIED, rowlock_break(client, name, NULL, &ts_err));
    snprintf(grant, sizeof grant,
             "GRANT EXECUTE ON PROCEDURE `%s`.`rowlock_break` TO '%s'@'localhost'", ts_schema(),
             bare);
    assert_non_null(strstr(ts_err.message, grant));
    rowlock_client_close(client);
    assert_held(hold);
    ts_sql(root, "GRANT EXECUTE ON PROCEDURE `%s`.rowlock_break TO '%s'@'localhost'", ts_schema(),
           bare);
    client = open_as(bare, ROWLOCK_VIA_PROCEDURES);
    WANT(OK, rowlock_break(client, name, NULL, &ts_err));
    rowlock_client_close(client);
    WANT(LOST, rowlock_release(hold, &ts_err));
}

/* ------------------------------------------------------------------------ beside the others */

static void wait_behind(rowlock_client *holder, rowlock_client *waiter, rowlock_mode mode,
                        const char *name)
{
    rowlock_hold *hold = ts_take(holder, name, mode, 30000);
    uint64_t token = rowlock_hold_token(hold);
    WANT(BUSY, ts_try(waiter, name, mode));
    ts_waiter w = {.client = waiter, .name = name, .options = {.mode = mode, .wait_ms = 20000}};
    ts_waiter_start(&w);
    if (mode == ROWLOCK_OPTIMISTIC)
        assert_true(POLL_UNTIL(
            ts_sql_u64(
                root,
                "SELECT COUNT(*) FROM information_schema.processlist "
                "WHERE info LIKE 'SELECT GET_LOCK(%%rowlock-waiter%%' AND info LIKE '%% %" PRIu64
                ", %%'",
                id_of(name)) > 0,
            10000));
    else
        assert_true(ts_server_waits(root, "%resource_lock%FOR UPDATE%", 10000));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_waiter_join(&w, 10000));
    assert_true(rowlock_hold_token(w.hold) > token);
    WANT(OK, rowlock_release(w.hold, &ts_err));
}

/* Both ways lead to the same rows. */
static void test_both_ways_exclude_and_wake_each_other(void **state)
{
    rowlock_mode mode = ts_mode(state);
    wait_behind(victim, tables, mode, ts_name("mixed"));
    wait_behind(tables, victim, mode, ts_name("mixed2"));
}

/* Its own connection may EXECUTE, and nothing else, too. */
static void test_in_its_own_transaction(void **state)
{
    const char *name = ts_name("tx");
    const char *counted = ts_name("counted");
    (void)state;
    MYSQL *own = connect_as(app);
    ts_sql(own, "BEGIN");
    WANT(OK, rowlock_tx_acquire(victim, own, name, NULL, &ts_err));
    WANT(BUSY, ts_try(tables, name, ROWLOCK_PESSIMISTIC));
    ts_sql(own, "COMMIT");
    WANT(OK, ts_try(tables, name, ROWLOCK_PESSIMISTIC));
    rowlock_hold *hold = ts_take(victim, name, ROWLOCK_PESSIMISTIC, 30000);
    ts_sql(own, "BEGIN");
    WANT(OK, rowlock_fence(hold, own, &ts_err));
    ts_sql(own, "COMMIT");
    WANT(OK, rowlock_release(hold, &ts_err));
    uint64_t version = 0, made = 0;
    WANT(OK, rowlock_version_read(victim, counted, &version, &ts_err));
    ts_sql(own, "BEGIN");
    WANT(OK, rowlock_tx_version_bump(victim, own, counted, version, &made, &ts_err));
    ts_sql(own, "COMMIT");
    assert_int_equal(version_of(counted), version + 1);
    mysql_close(own);
}

/* A holder that died: the row's lock says so, and the next one takes over. */
static void test_a_dead_holders_row(void **state)
{
    const char *name = ts_name("dead");
    (void)state;
    rowlock_hold *hold = ts_take(victim, name, ROWLOCK_PESSIMISTIC, 30000);
    uint64_t token = rowlock_hold_token(hold);
    ts_cut(root, name);
    rowlock_client *next = open_as(app, ROWLOCK_VIA_PROCEDURES);
    rowlock_hold *taken = ts_take(next, name, ROWLOCK_PESSIMISTIC, 30000);
    assert_true(rowlock_hold_token(taken) > token);
    ts_cut(root, name);
    MYSQL *own = connect_as(app);
    const rowlock_tx_options wait = {.wait_ms = 10000};
    ts_sql(own, "BEGIN");
    WANT(OK, rowlock_tx_acquire(next, own, name, &wait, &ts_err));
    ts_sql(own, "COMMIT");
    assert_true(version_of(name) > rowlock_hold_token(taken));
    mysql_close(own);
    (void)rowlock_release(hold, NULL);
    (void)rowlock_release(taken, NULL);
    rowlock_client_close(next);
}

/* ---------------------------------------------------------------------------- other versions */

static void test_no_procedures_or_others(void **state)
{
    rowlock_client_options options = options_of(app, ROWLOCK_VIA_PROCEDURES);
    rowlock_client_options roots = options_of("root", ROWLOCK_VIA_TABLES);
    rowlock_client *client = NULL;
    (void)state;
    options.schema = roots.schema = ts_extra_schema("via", true);
    ts_sql(root, "GRANT EXECUTE ON `%s`.* TO '%s'@'localhost'", options.schema, app);
    options.url = roots.url = NULL;
    rowlock_status none = rowlock_client_open(&options, &client, &ts_err);
    assert_true(none == ROWLOCK_SCHEMA);
    assert_non_null(strstr(ts_err.message, "init --procedures"));
    WANT(OK, rowlock_procedures_install(&roots, NULL, NULL, &ts_err));
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    rowlock_client_close(client);
    ts_sql(root, "DROP PROCEDURE `%s`.rl_via_via_stamp", options.schema);
    ts_sql(root, "CREATE PROCEDURE `%s`.rl_via_via_stamp() SELECT 1", options.schema);
    WANT(SCHEMA, rowlock_client_open(&options, &client, &ts_err));
    assert_non_null(strstr(ts_err.message, "init --procedures"));
}

static void test_the_url_says_so(void **state)
{
    char url[300];
    rowlock_client *client = NULL;
    (void)state;
    rowlock_client_options options = options_of(app, ROWLOCK_VIA_DEFAULT);
    snprintf(url, sizeof url, "mysql://localhost/%s?via=procedures", ts_schema());
    options.url = url;
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    WANT(OK, ts_try(client, ts_name("url"), ROWLOCK_OPTIMISTIC));
    rowlock_client_close(client);
    options.via = ROWLOCK_VIA_TABLES;
    WANT(DENIED, rowlock_client_open(&options, &client, &ts_err));
    options.via = ROWLOCK_VIA_DEFAULT;
    snprintf(url, sizeof url, "mysql://localhost/%s?via=magic", ts_schema());
    WANT(INVALID, rowlock_client_open(&options, &client, &ts_err));
    options.url = NULL;
    WANT(DENIED, rowlock_client_open(&options, &client, &ts_err));
    options.via = (rowlock_via)7;
    WANT(INVALID, rowlock_client_open(&options, &client, &ts_err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONCE(test_no_table_may_be_touched),
        ONCE(test_what_takes_rights_says_so),
        ONCE(test_a_lease_is_its_holders),
        ONCE(test_renewals_go_on),
        BOTH(test_nobody_is_told_whose),
        ONCE(test_a_row_lock_is_its_holders),
        ONCE(test_what_is_too_much_is_refused),
        ONCE(test_versions_do_not_jump),
        ONCE(test_who_wrote_it_stands_there),
        ONCE(test_nobodys_connection_is_ended),
        ONCE(test_a_published_connection_of_anothers),
        BOTH(test_break_is_the_procedures),
        ONCE(test_the_history_names_who_was_broken),
        ONCE(test_nobody_breaks_as_another),
        ONCE(test_without_the_right_to_break),
        BOTH(test_both_ways_exclude_and_wake_each_other),
        ONCE(test_in_its_own_transaction),
        ONCE(test_a_dead_holders_row),
        ONCE(test_no_procedures_or_others),
        ONCE(test_the_url_says_so),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
