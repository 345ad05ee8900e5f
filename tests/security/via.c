/*
 * Working through procedures (via=procedures): what a user with EXECUTE alone can do with the
 * library, and cannot do by calling the procedures by hand, with any values and session variables.
 */
#include "rowlock/rowlock_leader.h"
#include "rowlock/rowlock_mysql.h"
#include "rowlock/rowlock_once.h"
#include "rowlock/rowlock_queue.h"
#include "support/support.h"

#define STRANGER "00000000-0000-4000-8000-000000000000.1" /* an owner id of no client */
#define KEY      "rowlock.key.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static char app[64], mallory[64]; /* users with EXECUTE alone */
static MYSQL *root, *attacker;
static rowlock_client *victim, *tables;
/* A client that works by the tables. Not root: on MySQL no procedure may end the connection of a
 * SYSTEM_USER. */
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
    return ts_open_with(options_of(user, via));
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

static char answers[65536]; /* every cell of what the last call answered */

static void keep_answers(MYSQL_RES *result)
{
    for (MYSQL_ROW row; (row = mysql_fetch_row(result));)
        for (unsigned i = 0; i < mysql_num_fields(result); i++) {
            size_t used = strlen(answers);
            snprintf(answers + used, sizeof answers - used, "%s|", row[i] ? row[i] : "NULL");
        }
}

/* Calls rowlock's procedure, "row_make(@name)" or "via_row_lock(@id)"; the server's number, 0 when
 * good. */
static unsigned call(MYSQL *mysql, const char *what)
{
    char text[1000];
    snprintf(text, sizeof text, "CALL %s%s", strncmp(what, "via_", 4) == 0 ? "rl_" : "rowlock_",
             what);
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

/* A call, and the server's number that it ends with. */
typedef struct attempt {
    const char *what;
    unsigned wanted;
} attempt;

/* ANY: every answer will do, as long as the procedure exists. */
enum { ANY = 1, NO_SUCH = 1305, OTHER_ARGUMENTS = 1318 };

static void try_each(MYSQL *mysql, const attempt *of, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        unsigned got = call(mysql, of[i].what);
        bool good =
            of[i].wanted == ANY ? got != NO_SUCH && got != OTHER_ARGUMENTS : got == of[i].wanted;
        if (!good)
            print_error("%s: %u\n", of[i].what, got);
        assert_true(good);
    }
}

/* Sets the variables that the calls of this session name: @name, @id and @v (the lock's version);
 * @me is a stranger's owner id. */
static void aim(MYSQL *mysql, const char *name)
{
    ts_sql(mysql, "SET @name = %s, @id = %" PRIu64 ", @v = %" PRIu64 ", @me = '" STRANGER "'",
           ts_quote(name), ts_id_of(root, name), ts_version_of(root, name));
}

/* Locks the row as root, and sets @ticket, the proof of it, in both sessions. */
static void lock_row(MYSQL *mysql)
{
    ts_sql(mysql, "SET autocommit = 0");
    assert_int_equal(call(mysql, "via_row_lock(@id)"), 0);
    const char *ticket = strrchr(answers, '|') - 40;
    assert_int_equal(strspn(ticket, "0123456789abcdef"), 40);
    ts_sql(mysql, "SET @ticket = '%.40s'", ticket);
    ts_sql(attacker, "SET @ticket = '%.40s'", ticket);
}

/* No session keeps a row of this name locked: the holder's renewal and release would wait for
 * it. */
static void assert_unlocked(const char *name)
{
    static const char *const of[] = {"resource", "lease_renewal"};
    ts_sql(root, "BEGIN");
    for (size_t i = 0; i < COUNT(of); i++)
        assert_int_equal(ts_sql_try(root,
                                    "SELECT id FROM %s WHERE id = %" PRIu64 " FOR UPDATE NOWAIT",
                                    of[i], ts_id_of(root, name)),
                         0);
    ts_sql(root, "ROLLBACK");
}

TS_ONCE(test_what_takes_rights_says_so)
{
    rowlock_history *history = NULL;
    WANT(DENIED, rowlock_sweep(victim, NULL, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, "`sweeper` in sql/grants.sql"));
    assert_non_null(strstr(ts_err.message, "init --event"));
    WANT(DENIED, rowlock_purge(victim, ts_name("denied"), &ts_err));
    assert_non_null(strstr(ts_err.message, "`sweeper` in sql/grants.sql"));
    WANT(DENIED, rowlock_history_get(victim, NULL, &history, &ts_err));
    assert_non_null(strstr(ts_err.message, "SELECT on lock_event, as `looker` in sql/grants.sql"));
}

/* Each call answers UNSUPPORTED, and has done nothing. */
TS_ONCE(test_queues_need_their_tables)
{
    const char *name = ts_name("queue");
    const rowlock_put_options grouped = {.group = "g"};
    rowlock_item *item = NULL;
    rowlock_items *items = NULL;
    rowlock_queue_info info;
    TS_MYSQL *own = ts_connect(ts_schema());
    WANT(UNSUPPORTED, rowlock_queue_put(victim, name, "x", 1, NULL, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, "CALL rowlock_queue_put"));
    WANT(UNSUPPORTED, rowlock_queue_put(victim, name, "x", 1, &grouped, NULL, &ts_err));
    ts_sql(own, "BEGIN");
    WANT(UNSUPPORTED, rowlock_tx_queue_put(victim, own, name, "x", 1, NULL, NULL, &ts_err));
    WANT(UNSUPPORTED, rowlock_tx_queue_done(victim, own, name, 1, 1, &ts_err));
    ts_sql(own, "COMMIT");
    assert_int_equal(
        ts_sql_u64(root, "SELECT COUNT(*) FROM resource WHERE resource_name = %s", ts_quote(name)),
        0);
    WANT(OK, rowlock_queue_put(tables, name, "x", 1, NULL, NULL, &ts_err));
    WANT(UNSUPPORTED, rowlock_queue_take(victim, name, NULL, &item, &ts_err));
    WANT(UNSUPPORTED, rowlock_queue_held(victim, name, 1, 1, &item, &ts_err));
    WANT(UNSUPPORTED, rowlock_queue_get(victim, name, &info, &ts_err));
    WANT(UNSUPPORTED, rowlock_items_get(victim, name, NULL, &items, &ts_err));
    WANT(UNSUPPORTED, rowlock_queue_requeue(victim, name, 0, NULL, &ts_err));
    WANT(UNSUPPORTED, rowlock_queue_purge(victim, name, NULL, NULL, &ts_err));
    WANT(OK, rowlock_queue_get(tables, name, &info, &ts_err));
    assert_int_equal(info.ready, 1);
}

/* Session variables that the attacker sets. */
static const char *const sessions[][2] = {
    {"SET autocommit = 1", "DO 0"},
    {"SET autocommit = 0", "DO 0"},
    {"SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "START TRANSACTION"},
    {"START TRANSACTION", "DO 0"},
    {"SET timestamp = 2000000000", "DO 0"},
    {"SET sql_mode = '', unique_checks = 0, foreign_key_checks = 0", "DO 0"},
};

/* A session of the attacker's, aimed at the lock. */
static MYSQL *session(size_t i, const char *name)
{
    MYSQL *mysql = connect_as(mallory);
    aim(mysql, name);
    ts_sql(mysql, "%s", sessions[i][0]);
    ts_sql(mysql, "%s", sessions[i][1]);
    return mysql;
}

static void attack_lease(MYSQL *mysql)
{
    static const attempt of[] = {
        {"via_lease_take_over(@v, @me, 'm', 0, 1000000, @id, @name)", ANY},
        {"via_lease_acquire(@me, 'm', 1000000, @id, @name, 'rowlock.x.')", ANY},
        {"via_lease_inherit(@me, 'm', 1000000, @id, @name, 'rowlock.x.')", ANY},
        {"via_lease_acquire_quiet(@me, 'm', 1000000, @id, @name)", ANY},
        {"via_lease_expire(@v, @id)", ANY},
        {"via_lease_release_quiet(0, 0, @id, @v, @me)", ANY},
        {"via_row_unpublish(@id, @v, @me)", ANY},
        {"via_row_end_stale(@v, @id, REPEAT('0', 40))", ANY},
        {"via_resource_raise(18446744073709551615, @id, @v, @me)", ANY},
        {"via_section_swap(@me, 'm', @id, @name, @v)", ANY},
        {"via_resource_touch(@id)", ANY},
        {"via_lease_renew(CONCAT('[[', @id, ', 18446744073709551615, 1, \"\"]]'))", ANY},
        {"via_lease_renew(CONCAT('[[', @id, ', 18446744073709551615, 1, \"', @me, '\"]]'))", ANY},
        {"via_lease_renew(CONCAT('[[', @id, ', ', @v, ', 1, \"', @me, '\"]]'))", ANY},
        {"via_caller_fence(@id, @v, @me, '" KEY "')", ANY},
        {"via_caller_section_swap(@me, @id, @v, '" KEY "')", ANY},
        {"via_caller_latch_down(HEX('k'), @me, @id, HEX(@name), 0, '" KEY "')", ANY},
        {"via_caller_latch_down(HEX('k'), @me, @id, HEX(@name), @v, '" KEY "')", ANY},
        {"via_latch_set(2, @me, 'm', @v, @id, @name)", ANY},
        {"via_latch_down('k', @me, @id, @name, 0)", ANY},
        {"via_latch_join(@me, 'm', 'k', 1000000, @id, @name, 0)", ANY},
        {"via_latch_open(@id, @v)", ANY},
        {"via_latch_break_member(@id, @v, @me)", ANY},
        {"via_leader_publish('v', 2, @id, @v, @me)", ANY},
        {"via_ask_put(@me, 'm', 'r', 1, @name, @v + 1)", ANY},
        {"via_ask_put(CONCAT(REPEAT('a', 26), '-x'), 'm', 'r', 1, @name, @v)", 1644},
        {"via_once_insert(0, 1000000, @id, @v, @me)", ANY},
        {"via_once_take(1000000, 1, @id, @v, @me, 0, 0, 1000000)", ANY},
        {"via_once_take(1000000, 1, @id, @v + 1, @me, 0, @v, 1000000)", ANY},
        {"via_once_end(1, 0, @id, @v, @me)", ANY},
        {"via_caller_once_done(@id, @v + 1, '" KEY "')", ANY},
    };
    try_each(mysql, of, COUNT(of));
}

/* The victim's lease is unchanged, and nothing stays locked, whatever the attacker's session
 * variables. */
TS_ONCE(test_a_lease_is_its_holders)
{
    const char *name = ts_name("mine");
    /* Its renewals, one after a third of that, would change the rows, too. */
    TS_HOLD *hold = ts_take(victim, name, ROWLOCK_OPTIMISTIC, 600000);
    WANT(OK, rowlock_hold_set_value(hold, "mine", &ts_err));
    rowlock_once_result begun;
    WANT(OK, rowlock_once_begin(hold, 0, 1000000, NULL, &begun, &ts_err));
    for (size_t i = 0; i < COUNT(sessions); i++) {
        char *before = ts_dump(root, ts_schema());
        TS_MYSQL *mysql = session(i, name);
        attack_lease(mysql);
        ts_same(before, ts_dump(root, ts_schema()));
        assert_unlocked(name);
    }
    assert_held(hold);
}

/* The owner's id is what releases a lease: no look-up hands it out. */
TS_BOTH(test_nobody_is_told_whose)
{
    static const char *const of[] = {"via_list_names('', '', 1, 1000, 1)",
                                     "via_list_name(@name, 1)",
                                     "via_resource_look(@id, @name, @me, 'optimistic')",
                                     "via_resource_look(@id, @name, @me, 'pessimistic')"};
    const char *name = ts_name("whose");
    TS_HOLD *hold = ts_take(victim, name, mode, 30000);
    const char *owner = rowlock_hold_owner(hold);
    aim(attacker, name);
    for (size_t i = 0; i < COUNT(of); i++) {
        assert_int_equal(call(attacker, of[i]), 0);
        assert_true(i > 0 || strstr(answers, name) != NULL);
        assert_null(strstr(answers, owner));
    }
    rowlock_list *list = NULL;
    WANT(OK, rowlock_list_one(victim, name, &list, &ts_err));
    assert_int_equal(rowlock_list_at(list, 0)->owner[0], '#');
    assert_null(strstr(rowlock_list_at(list, 0)->owner, owner));
    rowlock_list_free(list);
}

/* The proof that the holder is dead is given only to a session that has locked the row. */
TS_ONCE(test_a_row_lock_is_its_holders)
{
    static const attempt with_ticket[] = {
        {"via_row_publish(@me, 'm', 1, @id, @name, @ticket)", ANY},
        {"via_row_publish_over(@v, @me, 'm', 1, @id, @name, @ticket)", ANY},
        {"via_row_end_stale(@v, @id, @ticket)", ANY},
        {"via_row_end_stale(@v, @id, '')", ANY},
    };
    static const attempt in_a_transaction[] = {
        {"via_row_ticket(@id)", 1205},
        {"via_row_stale(@id)", 1205},
        {"via_row_fence(@id)", 1205},
        {"via_row_try(@id)", 1205},
    };
    /* Outside of a transaction no session keeps the row locked. */
    static const attempt outside[] = {
        {"via_row_ticket(@id)", 1644},
        {"via_row_lock(@id)", 1644},
        {"via_caller_row_try(@id, '" KEY "')", 1644},
        {"via_caller_row_lock(@id, '" KEY "')", 1644},
    };
    const char *name = ts_name("row");
    WANT(OK, ts_try(victim, name, ROWLOCK_PESSIMISTIC));
    TS_MYSQL *mysql = connect_as(mallory);
    aim(mysql, name);
    lock_row(mysql);
    ts_sql(mysql, "ROLLBACK");
    TS_HOLD *hold = ts_take(victim, name, ROWLOCK_PESSIMISTIC, 30000);
    aim(attacker, name);
    char *before = ts_dump(root, ts_schema());
    try_each(attacker, with_ticket, COUNT(with_ticket));
    try_each(mysql, in_a_transaction, COUNT(in_a_transaction));
    try_each(attacker, outside, COUNT(outside));
    assert_int_equal(ts_sql_u64(root, "SELECT IS_FREE_LOCK('%s')", KEY), 1);
    ts_same(before, ts_dump(root, ts_schema()));
}

/* The connection to be ended is found by a secret named lock: a named lock of another kind (an
 * application's, a bell) does not make its connection one, even if the attacker publishes it in the
 * table. */
TS_ONCE(test_no_other_named_lock_is_a_session)
{
    static const attempt of[] = {
        {"via_guard_add('application', @id, @v, @me)", 1644},
        {"via_guard_add(RPAD('application', 32, '.'), @id, @v, @me)", ANY},
        {"via_guard_add(@mark, @id, @v, @me)", 1644},
        {"via_guard_set(@id, @v, @me)", ANY},
    };
    const char *name = ts_name("named");
    TS_MYSQL *own = connect_as(app);
    ts_sql(own, "DO GET_LOCK('application', 0), GET_LOCK(RPAD('application', 32, '.'), 0),"
                " GET_LOCK(RPAD('rowlock.mark.', 45, 'a'), 0)");
    WANT(OK, ts_try(victim, name, ROWLOCK_OPTIMISTIC));
    aim(attacker, name);
    assert_int_equal(call(attacker, "via_lease_acquire_quiet(@me, 'm', 600000000, @id, @name)"), 0);
    aim(attacker, name);
    ts_sql(attacker, "SET @mark = RPAD('rowlock.mark.', 45, 'a')");
    try_each(attacker, of, COUNT(of));
    assert_int_equal(ts_sql_u64(root,
                                "SELECT COUNT(*) FROM lock_session WHERE resource_id = %" PRIu64,
                                ts_id_of(root, name)),
                     0);
    ts_sql(root,
           "INSERT INTO lock_session VALUES (%" PRIu64 ", %" PRIu64
           ", %lu, 'application', UTC_TIMESTAMP(6))",
           ts_id_of(root, name), ts_version_of(root, name), mysql_thread_id(own));
    ts_sql(root, "UPDATE resource SET guarded = version WHERE resource_name = %s", ts_quote(name));
    ts_expire(root, name, ROWLOCK_OPTIMISTIC);
    assert_int_equal(call(attacker, "via_guard_end(@id)"), 0);
    assert_int_equal(ts_sql_u64(own, "SELECT 17"), 17);
    WANT(OK, ts_try(victim, name, ROWLOCK_OPTIMISTIC));
}

TS_ONCE(test_what_is_too_much_is_refused)
{
    static const attempt bad[] = {
        {"via_resource_create('', 'optimistic')", 1644},
        {"via_resource_create(NULL, 'optimistic')", 1644},
        {"via_resource_create(REPEAT('x', 256), 'optimistic')", 1644},
        {"via_resource_create(' x', 'optimistic')", 1644},
        {"via_resource_create(CONCAT('x', CHAR(10)), 'optimistic')", 1644},
        {"via_resource_create('kindless', 'other')", 1644},
        {"via_resource_create('kindless', NULL)", 1644},
        /*
         * A TTL that is too long, one without an end, an endless cooling time, an owner id as SQL
         * has it.
         */
        {"via_lease_acquire_quiet(@me, 'm', 86400000001, @id, @name)", 1644},
        {"via_lease_acquire_quiet(@me, 'm', NULL, @id, @name)", 1644},
        {"via_lease_acquire_quiet(@me, 'm', 0, @id, @name)", 1644},
        {"via_lease_release_quiet(86400000001, 0, @id, 1, @me)", 1644},
        {"via_lease_acquire_quiet(CONCAT(REPEAT('a', 26), '-x'), 'm', 1000, @id, @name)", 1644},
        {"via_latch_set(0, @me, 'm', @v, @id, @name)", 1644},
        {"via_latch_set(10001, @me, 'm', @v, @id, @name)", 1644},
        {"via_latch_down('', @me, @id, @name, 0)", 1644},
        {"via_latch_down(REPEAT('k', 256), @me, @id, @name, 0)", 1644},
        {"via_latch_join(@me, 'm', 'k', 86400000001, @id, @name, 0)", 1644},
        {"via_leader_publish(REPEAT('v', 1025), 1, @id, @v, @me)", 1644},
        {"via_leader_publish(NULL, 1, @id, @v, @me)", 1644},
        {"via_ask_put(@me, 'm', REPEAT('r', 256), 1, 'other', 1)", 1644},
        {"via_ask_put(@me, 'm', NULL, 1, 'other', 1)", 1644},
        {"via_ask_put(@me, 'm', 'r', 86400000001, 'other', 1)", 1644},
        {"via_ask_put(@me, REPEAT('l', 256), 'r', 1, 'other', 1)", 1644},
        {"via_row_asked('[')", 1644},
        {"via_ask_read(NULL, 1)", 1644},
        {"via_ask_pending(NULL, 'other')", 1644},
        {"via_once_insert(0, 253402300800000000, @id, @v, @me)", 1644},
        {"via_once_insert(NULL, 1, @id, @v, @me)", 1644},
        {"via_once_take(1, 0, @id, @v, @me, 0, 0, 1000001)", 1644},
        {"via_once_end(0, 256, @id, @v, @me)", 1644},
        {"via_once_list(@name, 253402300800000000, 1, 1)", 1644},
        {"via_once_list(@name, 1, 253402300800000000, 1)", 1644},
        {"via_once_list_all('', 100001)", 1644},
        {"via_list_names('', NULL, 1, 1000, 1)", 1644},
        {"via_list_names('', REPEAT('a', 1021), 1, 1000, 1)", 1644},
        {"via_resource_create_lock('other', 0, @id)", ANY},
        {"via_resource_create_renewal(@id + 1000)", ANY},
    };
    const char *name = ts_name("much");
    WANT(OK, ts_try(victim, name, ROWLOCK_OPTIMISTIC));
    aim(attacker, name);
    char *before = ts_dump(root, ts_schema());
    try_each(attacker, bad, COUNT(bad));
    MYSQL *mysql = connect_as(mallory);
    ts_sql(mysql, "SET unique_checks = 0");
    assert_int_equal(call(mysql, "via_resource_create('twice', 'optimistic')"), 1644);
    ts_sql(mysql, "SET unique_checks = 1, insert_id = 18446744073709551615");
    assert_int_equal(call(mysql, "via_resource_create('last', 'optimistic')"), 1644);
    mysql_close(mysql);
    ts_same(before, ts_dump(root, ts_schema()));
}

TS_ONCE(test_versions_do_not_jump)
{
    const char *name = ts_name("jump");
    WANT(OK, ts_try(victim, name, ROWLOCK_OPTIMISTIC));
    uint64_t was = ts_version_of(root, name);
    aim(attacker, name);
    assert_int_equal(call(attacker, "via_lease_acquire_quiet(@me, 'm', 1000000, @id, @name)"), 0);
    assert_int_equal(ts_version_of(root, name), was + 1);
    assert_int_equal(call(attacker, "via_resource_raise(18446744073709551615, @id, @v + 1, @me)"),
                     0);
    assert_int_equal(ts_version_of(root, name), was + 1000001);
    WANT(OK, ts_try(victim, name, ROWLOCK_OPTIMISTIC));
}

TS_ONCE(test_who_wrote_it_stands_there)
{
    const char *name = ts_name("written");
    char expected[200];
    rowlock_list *list = NULL;
    TS_HOLD *hold = ts_take(victim, name, ROWLOCK_OPTIMISTIC, 30000);
    aim(attacker, name);
    assert_int_equal(
        call(attacker, "via_event_add_many(JSON_ARRAY(JSON_OBJECT('name', @name, 'kind', "
                       "'optimistic', 'event', 'broken', 'version', 7, 'owner', @me, 'label', "
                       "'root@db1', 'age_us', 99999999999999, 'waited_ms', NULL, 'held_ms', NULL, "
                       "'exit_status', NULL, 'detail', '')), '', 0)"),
        0);
    char *label = ts_sql_text(
        root, "SELECT owner_label FROM lock_event WHERE resource_name = '%s' AND version = 7",
        name);
    snprintf(expected, sizeof expected, "root@db1 [%s]", mallory);
    assert_string_equal(label, expected);
    free(label);
    assert_int_equal(
        ts_sql_u64(root,
                   "SELECT happened_at > UTC_TIMESTAMP() - INTERVAL 25 HOUR FROM lock_event"
                   " WHERE resource_name = '%s' AND version = 7",
                   name),
        1);
    WANT(OK, rowlock_list_one(tables, name, &list, &ts_err));
    snprintf(expected, sizeof expected, "somebody [%s]", app);
    assert_string_equal(rowlock_list_at(list, 0)->owner_label, expected);
    rowlock_list_free(list);
}

/* A connection is ended only by a random key, not by a bell, whose name is known to all. */
TS_ONCE(test_nobodys_connection_is_ended)
{
    const char *bell = "rowlock.somebodys.17";
    ts_sql(root, "DO GET_LOCK('%s', 0)", bell);
    assert_int_equal(call(attacker, "via_via_kill_connection('rowlock.somebodys.17')"), 1644);
    assert_int_equal(call(attacker, "via_via_kill_query('rowlock.somebodys.17')"), 1644);
    assert_int_equal(ts_sql_u64(root, "SELECT IS_USED_LOCK('%s') = CONNECTION_ID()", bell), 1);
    ts_sql(root, "DO RELEASE_LOCK('%s')", bell);
}

/* `mysql` locks the row, and publishes `connection_id` as its own. */
static void publish(MYSQL *mysql, const char *name, unsigned long connection_id)
{
    ts_sql(mysql, "CALL rowlock_row_make(%s)", ts_quote(name));
    aim(mysql, name);
    aim(attacker, name);
    lock_row(mysql);
    ts_sql(attacker, "SET @connection = %lu", connection_id);
    assert_int_equal(call(attacker, "via_row_publish(@me, 'm', @connection, @id, @name, @ticket)"),
                     0);
    assert_int_equal(ts_version_of(root, name), 1);
}

/* A statement at work with a character of four bytes (TS_PROCESSLIST says why). */
static void talk(MYSQL *talker)
{
    static const char text[] = "SELECT SLEEP(600), '\U0001F642'";
    assert_int_equal(mysql_send_query(talker, text, sizeof text - 1), 0);
    assert_true(POLL_UNTIL(ts_sql_u64(root,
                                      "SELECT COUNT(*) FROM " TS_PROCESSLIST
                                      " WHERE id = %lu AND info LIKE 'SELECT SLEEP%%'",
                                      mysql_thread_id(talker)) == 1,
                           10000));
}

/* A user that publishes a row lock may pass any connection as its own: a break by that user, or by
 * an administrator, does not end a stranger's connection. It does end the user's own. */
TS_ONCE(test_a_published_connection_of_anothers)
{
    const char *name = ts_name("published");
    MYSQL *mysql = connect_as(mallory);
    MYSQL *stranger = connect_as(app);
    MYSQL *talker = ts_connect(NULL);
    talk(talker);
    publish(mysql, name, mysql_thread_id(stranger));
    assert_int_equal(call(attacker, "break(@name)"), 1644);
    WANT(BUSY, rowlock_break(tables, name, NULL, &ts_err));
    assert_non_null(strstr(ts_err.message, "nothing was ended"));
    assert_int_equal(ts_sql_u64(stranger, "SELECT CONNECTION_ID()"), mysql_thread_id(stranger));
    assert_int_equal(ts_sql_u64(mysql, "SELECT CONNECTION_ID()"), mysql_thread_id(mysql));
    mysql_close(mysql);

    mysql = connect_as(mallory);
    publish(mysql, "published, and true", mysql_thread_id(mysql));
    WANT(OK, rowlock_break(tables, "published, and true", NULL, &ts_err));
    assert_int_not_equal(ts_sql_try(mysql, "DO 0"), 0);
    ts_sql(root, "KILL %lu", mysql_thread_id(talker));
    mysql_close(talker);
    mysql_close(mysql);
    mysql_close(stranger);
}

static ts_waiter wait_behind(rowlock_client *client, const char *name, rowlock_mode mode)
{
    ts_waiter w = ts_wait(client, name, mode, 20000, 30000);
    assert_true(mode == ROWLOCK_OPTIMISTIC ? POLL_UNTIL(ts_in_queue(root, name) > 0, 10000)
                                           : ts_row_waits(root, "resource_lock", 10000) != 0);
    return w;
}

/* The waiter gets the row and publishes itself right after the KILL. */
TS_ONCE(test_whose_token_is_broken)
{
    const char *name = ts_name("broken-waited");
    for (int i = 0; i < 5; i++) {
        rowlock_hold *hold = ts_take(by_tables, name, ROWLOCK_PESSIMISTIC, 30000);
        uint64_t token = rowlock_hold_token(hold);
        ts_waiter w = wait_behind(victim, name, ROWLOCK_PESSIMISTIC);
        WANT(OK, rowlock_break(victim, name, NULL, &ts_err));
        ASSERT_GETS_IN(&w, token, 20000);
        assert_int_equal(ts_sql_u64(root,
                                    "SELECT SUM(version = %" PRIu64 ") * 10 + COUNT(*) FROM"
                                    " lock_event WHERE event = 'broken' AND resource_name = '%s'",
                                    token, name),
                         11 + i);
        WANT(OK, rowlock_release(w.hold, &ts_err));
        WANT(LOST, rowlock_release(hold, &ts_err));
    }
}

/* A label ends with the caller's login, whatever the caller passes. */
TS_ONCE(test_nobody_breaks_as_another)
{
    const char *name = ts_name("blamed");
    rowlock_hold *hold = ts_take(victim, name, ROWLOCK_OPTIMISTIC, 30000);
    ts_sql(attacker, "SET @rowlock_by = 'root@db1 [root]'");
    aim(attacker, name);
    assert_int_equal(call(attacker, "break(@name)"), 0);
    assert_int_equal(ts_sql_u64(root,
                                "SELECT SUM(detail = 'by root@db1 [root] [%s]') * 10 + COUNT(*)"
                                " FROM lock_event WHERE event = 'broken' AND resource_name = '%s'",
                                mallory, name),
                     11);
    WANT(LOST, rowlock_release(hold, &ts_err));
    /* A label that is not valid text: either the break is refused, or the record names the login.
     * (No bell rings after a broken lease.) */
    hold = ts_take_with(victim, name, (rowlock_acquire_options){.wait_ms = 30000, .ttl_ms = 30000});
    ts_sql(attacker, "SET @rowlock_by = 0xFF");
    (void)call(attacker, "break(@name)");
    assert_int_equal(ts_sql_u64(root,
                                "SELECT COUNT(*) FROM lock_event WHERE event = 'broken'"
                                " AND resource_name = '%s' AND detail NOT LIKE '%%[%s]'",
                                name, mallory),
                     0);
    ts_sql(attacker, "SET @rowlock_by = NULL");
    (void)rowlock_release(hold, &ts_err);
}

static void assert_nothing_is_left_said(MYSQL *mysql)
{
    assert_int_equal(
        ts_sql_u64(mysql, "SELECT @rowlock_by IS NULL AND @rowlock_break_token IS NULL"), 1);
}

/* The holder with that token is broken, or none; and the session keeps nothing of the call. */
TS_ONCE(test_whose_token_is_to_be_broken)
{
    const char *name = ts_name("tokened");
    rowlock_hold *hold = ts_take(victim, name, ROWLOCK_OPTIMISTIC, 30000);
    aim(attacker, name);
    assert_int_equal(call(attacker, "via_via_break(@name, 'm', 0, @v + 1)"), 1644);
    assert_nothing_is_left_said(attacker);
    const rowlock_break_options another = {.token = rowlock_hold_token(hold) + 1};
    WANT(BUSY, rowlock_break_with(victim, name, &another, &ts_err));
    assert_non_null(strstr(ts_err.message, "nothing was broken"));
    ts_sql(attacker, "SET @rowlock_break_token = 'x'");
    assert_int_equal(call(attacker, "break(@name)"), 1644);
    assert_int_equal(ts_version_of(root, name), rowlock_hold_token(hold));
    assert_held(hold);
    assert_int_equal(call(attacker, "via_via_break(@name, 'm', 0, @v)"), 0);
    assert_nothing_is_left_said(attacker);
    WANT(LOST, rowlock_release(hold, &ts_err));
}

/* The right to execute rowlock_break decides, by whatever way it is called. */
TS_ONCE(test_without_the_right_to_break)
{
    static const char *const of[] = {"rl_via_via_break", "rl_via_via_stamp",
                                     "rl_via_migration_list", "rl_via_schema_shape"};
    const char *name = ts_name("unbroken");
    char grant[200];
    const char *bare = ts_user("bare", "a-password", NULL, NULL);
    for (size_t i = 0; i < COUNT(of); i++)
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

TS_BOTH(test_both_ways_wake_each_other)
{
    rowlock_client *const of[] = {victim, tables, victim};
    const char *name = ts_name("mixed");
    for (int i = 0; i < 2; i++) {
        rowlock_hold *hold = ts_take(of[i], name, mode, 30000);
        WANT(BUSY, ts_try(of[i + 1], name, mode));
        ts_waiter w = wait_behind(of[i + 1], name, mode);
        ts_hand_over(hold, &w, 10000);
    }
}

/* That a holder has died is told by its row's lock, inside a transaction, too. */
TS_ONCE(test_a_dead_holders_row)
{
    const char *name = ts_name("dead");
    const rowlock_tx_options wait = {.wait_ms = 10000};
    rowlock_hold *hold = ts_take(victim, name, ROWLOCK_PESSIMISTIC, 30000);
    ts_cut(root, name);
    MYSQL *own = connect_as(app);
    ts_sql(own, "BEGIN");
    WANT(OK, rowlock_tx_acquire(victim, own, name, &wait, &ts_err));
    ts_sql(own, "COMMIT");
    assert_true(ts_version_of(root, name) > rowlock_hold_token(hold));
    mysql_close(own);
    (void)rowlock_release(hold, NULL);
}

TS_ONCE(test_no_procedures_or_others)
{
    rowlock_client_options options = options_of(app, ROWLOCK_VIA_PROCEDURES);
    rowlock_client_options roots = options_of("root", ROWLOCK_VIA_TABLES);
    rowlock_client *client = NULL;
    options.schema = roots.schema = ts_extra_schema("via", true);
    ts_sql(root, "GRANT EXECUTE ON `%s`.* TO '%s'@'localhost'", options.schema, app);
    options.url = roots.url = NULL;
    WANT(SCHEMA, rowlock_client_open(&options, &client, &ts_err));
    assert_non_null(strstr(ts_err.message, "init --procedures"));
    WANT(OK, rowlock_procedures_install(&roots, NULL, NULL, &ts_err));
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    rowlock_client_close(client);
    ts_sql(root, "DROP PROCEDURE `%s`.rl_via_via_stamp", options.schema);
    ts_sql(root, "CREATE PROCEDURE `%s`.rl_via_via_stamp() SELECT 1", options.schema);
    WANT(SCHEMA, rowlock_client_open(&options, &client, &ts_err));
    assert_non_null(strstr(ts_err.message, "init --procedures"));
}

TS_MAIN("via", begin, end)
