/* Who waits: found in the server, by name, the longest wait first. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stmt/bell.h"
#include "support/own_server.h"
#include "support/support.h"

static rowlock_client *client;
static rowlock_client *other;
static MYSQL *mysql;

static int open_clients(void **state)
{
    ts_suite_begin(state);
    client = ts_open();
    other = ts_open();
    mysql = ts_connect(ts_schema());
    return 0;
}

static int close_clients(void **state)
{
    return ts_suite_end_with(state, client, other, mysql, NULL);
}

/* -------------------------------------------------------------------------- looking */

static rowlock_waiters *waiters_of(rowlock_client *from, const char *name)
{
    rowlock_waiters *waiters = NULL;
    const rowlock_waiters_options options = {.name = name};
    WANT(OK, rowlock_waiters_get(from, &options, &waiters, &ts_err));
    assert_non_null(waiters);
    return waiters;
}

/* MariaDB shows InnoDB's locks out of a copy, which it makes anew only when nobody has read it for
 * 0.1 s: looking more often sees nothing new. */
#define COPY_IS_OLD_MS 120

/* As soon as there are so many. */
static rowlock_waiters *waiters_when(rowlock_client *from, const char *name, size_t count)
{
    int64_t end = ts_now_ms() + 10000 - ts_stood_ms();
    rowlock_waiters *waiters = waiters_of(from, name);
    while (rowlock_waiters_count(waiters) != count && ts_now_ms() < end + ts_stood_ms()) {
        rowlock_waiters_free(waiters);
        ts_pass_ms(COPY_IS_OLD_MS);
        waiters = waiters_of(from, name);
    }
    assert_int_equal(rowlock_waiters_count(waiters), count);
    return waiters;
}

static uint64_t id_of(const char *schema, const char *name)
{
    uint64_t id = ts_sql_u64(mysql, "SELECT id FROM `%s`.resource WHERE resource_name = %s", schema,
                             ts_quote(name));
    assert_true(id > 0);
    return id;
}

/* ---------------------------------------------------- statements of other connections */

/* Sends what will have to wait, and does not wait for the answer. */
__attribute__((format(printf, 2, 3))) static void send_off(MYSQL *from, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&text, format, args);
    va_end(args);
    assert_true(length > 0);
    assert_int_equal(mysql_send_query(from, text, (unsigned long)length), 0);
    free(text);
}

static const char *in_hex(const char *text)
{
    static char hex[2 * 600 + 1];
    hex[0] = '\0';
    for (size_t at = 0; text[at] && at < 600; at++)
        snprintf(hex + 2 * at, 3, "%02x", (unsigned char)text[at]);
    return hex;
}

/* The name of a lease's bell. */
static const char *bell_of(const char *schema, uint64_t id)
{
    static char bell[RL_BELL_PREFIX_MAX + 21];
    char prefix[RL_BELL_PREFIX_MAX + 1];
    rl_bell_prefix(schema, prefix);
    snprintf(bell, sizeof bell, "%s%" PRIu64, prefix, id);
    return bell;
}

/* A connection that has the bell, so that others wait for it; the lease is free. */
static MYSQL *hold_bell(const char *bell)
{
    MYSQL *holder = ts_connect(ts_schema());
    assert_int_equal(ts_sql_u64(holder, "SELECT GET_LOCK('%s', 5)", bell), 1);
    return holder;
}

/* What a waiter in another program runs (bell_wait in sql/bell.sql). */
static void wait_at_bell(MYSQL *from, const char *bell, uint64_t id, uint64_t waited_ms,
                         const char *owner, const char *label)
{
    send_off(from,
             "SELECT GET_LOCK('%s', 600), 'rowlock-waiter', %" PRIu64 ", %" PRIu64 ", '%s', '%s'",
             bell, id, waited_ms, owner, in_hex(label));
}

/* MySQL's information_schema has none while a statement runs that is not UTF-8. */
#define PROCESSES                                                                                  \
    "/*M! information_schema.processlist */ /*!80000 performance_schema.processlist */"

static bool at_bell(MYSQL *from)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM " PROCESSES " WHERE id = %lu"
                      " AND state = 'User lock'",
                      mysql_thread_id(from)) == 1;
}

static void is_at_bell(MYSQL *from)
{
    assert_true(POLL_UNTIL(at_bell(from), 10000));
}

/* Ends a connection that is waiting for an answer. */
static void cut(MYSQL *from)
{
    ts_sql(mysql, "KILL CONNECTION %lu", mysql_thread_id(from));
    mysql_close(from);
}

/* ------------------------------------------------------------------------ who waits */

static void test_nobody(void **state)
{
    const char *name = ts_name("nobody");
    rowlock_hold *hold = ts_take(client, name, ts_mode(state), 30000);
    rowlock_waiters *waiters = waiters_of(other, name);
    assert_int_equal(rowlock_waiters_count(waiters), 0);
    assert_null(rowlock_waiters_at(waiters, 0));
    assert_string_equal(rowlock_waiters_hidden(waiters), "");
    rowlock_waiters_free(waiters);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* As exactly as MySQL knows it. */
#define A_SECOND_MS 1000

static void assert_describes(const rowlock_waiter *waiter, rowlock_mode mode)
{
    assert_int_equal(waiter->mode, mode);
    assert_int_equal(ts_sql_u64(mysql,
                                "SELECT COUNT(*) FROM " PROCESSES " WHERE id = %" PRIu64
                                " AND command IN ('Query', 'Execute')",
                                waiter->connection_id),
                     1);
    if (mode == ROWLOCK_PESSIMISTIC) {
        assert_string_equal(waiter->who, "root@localhost");
        assert_string_equal(waiter->owner, "");
    } else {
        assert_string_equal(waiter->who, "the waiter's label");
        assert_int_equal(strspn(waiter->owner, "0123456789abcdef-"), 36);
        assert_int_equal(waiter->owner[36], '.');
    }
}

/* One that really waits. */
static void test_a_waiter(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("a-waiter");
    rowlock_client_options options = ts_options();
    options.label = "the waiter's label";
    rowlock_client *waiting = NULL;
    WANT(OK, rowlock_client_open(&options, &waiting, &ts_err));
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    ts_waiter waiter = {.client = waiting, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 30000};
    ts_waiter_start(&waiter);
    rowlock_waiters *waiters = waiters_when(other, name, 1);
    const rowlock_waiter *found = rowlock_waiters_at(waiters, 0);
    assert_string_equal(found->name, name);
    assert_between(0, found->waited_ms, ts_now_ms() - waiter.started_ms + A_SECOND_MS);
    assert_describes(found, mode);
    assert_string_equal(rowlock_waiters_hidden(waiters), "");
    int64_t waited_ms = found->waited_ms;
    rowlock_waiters_free(waiters);
    /* It waits longer and longer. */
    ts_pass_ms(A_SECOND_MS);
    waiters = waiters_when(other, name, 1);
    assert_true(rowlock_waiters_at(waiters, 0)->waited_ms >= waited_ms + A_SECOND_MS);
    rowlock_waiters_free(waiters);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_waiter_join(&waiter, 10000));
    rowlock_waiters_free(waiters_when(other, name, 0));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    rowlock_client_close(waiting);
}

/* A set waits for one name after the other. */
static void test_a_waiting_set(void **state)
{
    const char *const names[] = {ts_name("set"), ts_name("set")};
    (void)state;
    rowlock_hold *first = ts_take(client, names[0], ROWLOCK_PESSIMISTIC, 30000);
    rowlock_hold *second = ts_take(client, names[1], ROWLOCK_PESSIMISTIC, 30000);
    MYSQL *transaction = ts_connect(ts_schema());
    ts_sql(transaction, "SET autocommit = 0");
    send_off(transaction,
             "SELECT id FROM resource_lock WHERE id IN (%" PRIu64 ", %" PRIu64
             ") ORDER BY id FOR UPDATE",
             id_of(ts_schema(), names[0]), id_of(ts_schema(), names[1]));
    rowlock_waiters_free(waiters_when(other, names[0], 1));
    rowlock_waiters_free(waiters_when(other, names[1], 0));
    WANT(OK, rowlock_release(first, &ts_err));
    rowlock_waiters_free(waiters_when(other, names[1], 1));
    rowlock_waiters_free(waiters_when(other, names[0], 0));
    cut(transaction);
    WANT(OK, rowlock_release(second, &ts_err));
}

/* --------------------------------------------------------------------- order and names */

static void test_order(void **state)
{
    static const char *const names[] = {"zz a_b", "zz a%b", "zz aXb", "zz '\"\\ \xc3\xbc",
                                        "zz \xe5\xa4\x9c\xe9\x96\x93"};
    enum { NAMES = sizeof names / sizeof names[0], EACH = 3 };
    static const uint64_t waited_ms[EACH] = {1000000, 3000000, 2000000};
    MYSQL *holders[NAMES];
    MYSQL *froms[NAMES][EACH];
    (void)state;
    for (int i = 0; i < NAMES; i++) {
        WANT(OK, ts_try(client, names[i], ROWLOCK_OPTIMISTIC));
        uint64_t id = id_of(ts_schema(), names[i]);
        holders[i] = hold_bell(bell_of(ts_schema(), id));
        for (int j = 0; j < EACH; j++) {
            froms[i][j] = ts_connect(NULL);
            wait_at_bell(froms[i][j], bell_of(ts_schema(), id), id, waited_ms[j], "uuid.1",
                         names[i]);
            is_at_bell(froms[i][j]);
        }
    }
    /* Those of the tests before may not have gone yet. */
    rowlock_waiters *waiters = waiters_when(other, NULL, NAMES * EACH);
    for (size_t i = 0; i < NAMES * EACH; i++) {
        const rowlock_waiter *waiter = rowlock_waiters_at(waiters, i);
        const rowlock_waiter *last = i > 0 ? rowlock_waiters_at(waiters, i - 1) : NULL;
        assert_string_equal(waiter->who, waiter->name);
        assert_between((int64_t)(3 - i % EACH) * 1000000, waiter->waited_ms,
                       (int64_t)(3 - i % EACH) * 1000000 + 60000);
        if (last)
            assert_true(strcmp(last->name, waiter->name) <= 0);
    }
    rowlock_waiters_free(waiters);
    for (int i = 0; i < NAMES; i++) {
        waiters = waiters_of(other, names[i]);
        assert_int_equal(rowlock_waiters_count(waiters), EACH);
        for (size_t j = 0; j < EACH; j++)
            assert_string_equal(rowlock_waiters_at(waiters, j)->name, names[i]);
        assert_true(rowlock_waiters_at(waiters, 0)->connection_id == mysql_thread_id(froms[i][1]));
        rowlock_waiters_free(waiters);
        for (int j = 0; j < EACH; j++)
            cut(froms[i][j]);
        mysql_close(holders[i]);
    }
}

/* ------------------------------------------------------------------- whatever it says */

static void who_is_shown_as(const char *bell, uint64_t id, const char *name, const char *label,
                            const char *shown)
{
    MYSQL *from = ts_connect(NULL);
    wait_at_bell(from, bell, id, 0, "uuid.1", label);
    is_at_bell(from);
    rowlock_waiters *waiters = waiters_when(other, name, 1);
    assert_string_equal(rowlock_waiters_at(waiters, 0)->who, shown);
    rowlock_waiters_free(waiters);
    cut(from);
    rowlock_waiters_free(waiters_when(other, name, 0));
}

static void test_labels(void **state)
{
    const char *name = ts_name("labels");
    (void)state;
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    uint64_t id = id_of(ts_schema(), name);
    const char *bell = bell_of(ts_schema(), id);
    MYSQL *holder = hold_bell(bell);
    char full[ROWLOCK_LABEL_MAX + 1];
    memset(full, 'x', ROWLOCK_LABEL_MAX);
    full[ROWLOCK_LABEL_MAX] = '\0';
    who_is_shown_as(bell, id, name, "it's \"me\" \\ 100%, 'a', `b`",
                    "it's \"me\" \\ 100%, 'a', `b`");
    who_is_shown_as(bell, id, name, "\xe5\xa4\x9c \xc3\xbc \xf0\x9f\x94\x92",
                    "\xe5\xa4\x9c \xc3\xbc \xf0\x9f\x94\x92");
    who_is_shown_as(bell, id, name, "a\nb\r\tc\033[31m\x7f\xc2\x9b", "a?b??c?[31m??");
    who_is_shown_as(bell, id, name, "not UTF-8: \xff\xc3 .", "not UTF-8: ?? .");
    who_is_shown_as(bell, id, name, full, full);
    who_is_shown_as(bell, id, name, "", "");
    mysql_close(holder);
}

/* Anybody may run a statement that looks like a waiter's: it hides no true one. */
static void test_statements_that_are_none(void **state)
{
    const char *name = ts_name("forged");
    (void)state;
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    uint64_t id = id_of(ts_schema(), name);
    char bell[RL_BELL_PREFIX_MAX + 21];
    snprintf(bell, sizeof bell, "%s", bell_of(ts_schema(), id));
    MYSQL *holder = hold_bell(bell);
    char good_id[24];
    snprintf(good_id, sizeof good_id, "%" PRIu64, id);
    const struct {
        const char *marker, *id, *rest;
    } forged[] = {
        {"'rowlock-waiters'", good_id, "0, 'u.1', '61'"},
        {"'rowlock-waiter'", "999999999", "0, 'u.1', '61'"},
        {"'rowlock-waiter'", "-1", "0, 'u.1', '61'"},
        {"'rowlock-waiter'", "99999999999999999999999", "0, 'u.1', '61'"},
        {"'rowlock-waiter'", good_id, "18446744073709551615, 'u.1', '61'"},
        {"'rowlock-waiter'", good_id, "-1, 'u.1', '61'"},
        {"'rowlock-waiter'", good_id, "0, 'u;1', '61'"},
        {"'rowlock-waiter'", good_id, "0, 'u.1', 'xyz'"},
        {"'rowlock-waiter'", good_id, "0, 'u.1', '61', '61'"},
        {"'rowlock-waiter'", good_id, "0, 'u.1', '61' LIMIT 1"},
        {"'rowlock-waiter'", good_id, "0, 'u.1'"},
        {"'rowlock-waiter' /* comment */", good_id, "0, 'u.1', '61'"},
    };
    enum { FORGED = sizeof forged / sizeof forged[0] };
    MYSQL *froms[FORGED + 3];
    for (size_t i = 0; i < FORGED; i++) {
        froms[i] = ts_connect(NULL);
        send_off(froms[i], "SELECT GET_LOCK('%s', 600), %s, %s, %s", bell, forged[i].marker,
                 forged[i].id, forged[i].rest);
        is_at_bell(froms[i]);
    }
    /* Too long, and with bytes of all kinds. */
    char *blob = malloc(2001);
    assert_non_null(blob);
    memset(blob, 'a', 2000);
    blob[2000] = '\0';
    froms[FORGED] = ts_connect(NULL);
    send_off(froms[FORGED], "SELECT GET_LOCK('%s', 600), 'rowlock-waiter', %s, 0, 'u.1', '%s'",
             bell, good_id, blob);
    free(blob);
    froms[FORGED + 1] = ts_connect(NULL);
    send_off(froms[FORGED + 1],
             "SELECT GET_LOCK('%s', 600), 'rowlock-waiter', %s, 0, 'u.1', '\xff\xc3\x01'", bell,
             good_id);
    is_at_bell(froms[FORGED]);
    is_at_bell(froms[FORGED + 1]);
    froms[FORGED + 2] = ts_connect(NULL);
    wait_at_bell(froms[FORGED + 2], bell, id, 0, "uuid.1", "true");
    is_at_bell(froms[FORGED + 2]);
    rowlock_waiters *waiters = waiters_when(other, NULL, 1);
    assert_string_equal(rowlock_waiters_at(waiters, 0)->who, "true");
    assert_string_equal(rowlock_waiters_hidden(waiters), "");
    rowlock_waiters_free(waiters);
    for (size_t i = 0; i < FORGED + 3; i++)
        cut(froms[i]);
    mysql_close(holder);
}

/* ------------------------------------------------------------------- only this schema's */

/* Both are new, and their names have the same id. */
static rowlock_client *open_schema(const char *suffix)
{
    rowlock_client_options options = ts_options_on(ts_extra_schema(suffix, true));
    rowlock_client *opened = NULL;
    WANT(OK, rowlock_client_open(&options, &opened, &ts_err));
    return opened;
}

/* Their names are such as InnoDB writes in its own way, and alike for a bell. */
static void test_other_schemas(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const bool lease = mode == ROWLOCK_OPTIMISTIC;
    const char *names[] = {ts_name("there"), ts_name("elsewhere")};
    char schema[80];
    snprintf(schema, sizeof schema, "%s_%s", ts_schema(), lease ? "a$l" : "a$P");
    rowlock_client *there = open_schema(lease ? "a$l" : "a$P");
    rowlock_client *elsewhere = open_schema(lease ? "b$l" : "b$P");
    WANT(OK, ts_try(there, names[0], mode));
    WANT(OK, ts_try(elsewhere, names[1], mode));
    uint64_t id = id_of(schema, names[0]);
    const char *bell = bell_of(schema, id);
    MYSQL *holder = hold_bell(bell);
    MYSQL *from = ts_connect(schema);
    ts_sql(holder, "SET autocommit = 0");
    ts_sql(holder, "SELECT id FROM `%s`.resource_lock WHERE id = %" PRIu64 " FOR UPDATE", schema,
           id);
    if (lease)
        wait_at_bell(from, bell, id, 0, "uuid.1", "label");
    else
        send_off(from, "SELECT id FROM resource_lock WHERE id = %" PRIu64 " FOR UPDATE", id);
    rowlock_waiters *waiters = waiters_when(there, NULL, 1);
    assert_string_equal(rowlock_waiters_at(waiters, 0)->name, names[0]);
    rowlock_waiters_free(waiters);
    rowlock_waiters_free(waiters_when(elsewhere, NULL, 0));
    cut(from);
    mysql_close(holder);
    rowlock_client_close(there);
    rowlock_client_close(elsewhere);
}

/* ------------------------------------------------------------------ who may see them */

static rowlock_client *open_as(const char *user)
{
    rowlock_client_options options = ts_options();
    options.user = user;
    options.password = "p";
    rowlock_client *opened = NULL;
    WANT(OK, rowlock_client_open(&options, &opened, &ts_err));
    return opened;
}

/* Two at the bell, one of them the user's own; one for a row. */
static void test_privileges(void **state)
{
    const char *user = ts_user("plain", "p", "SELECT, INSERT, UPDATE, DELETE", ts_schema());
    const char *lease = ts_name("seen-lease");
    const char *row = ts_name("seen-row");
    (void)state;
    WANT(OK, ts_try(client, lease, ROWLOCK_OPTIMISTIC));
    rowlock_hold *hold = ts_take(client, row, ROWLOCK_PESSIMISTIC, 30000);
    uint64_t id = id_of(ts_schema(), lease);
    const char *bell = bell_of(ts_schema(), id);
    MYSQL *holder = hold_bell(bell);
    MYSQL *froms[] = {ts_connect_as(user, "p", NULL), ts_connect(NULL), ts_connect(ts_schema())};
    wait_at_bell(froms[0], bell, id, 0, "uuid.1", "its own");
    is_at_bell(froms[0]);
    wait_at_bell(froms[1], bell, id, 0, "uuid.2", "another's");
    is_at_bell(froms[1]);
    send_off(froms[2], "SELECT id FROM resource_lock WHERE id = %" PRIu64 " FOR UPDATE",
             id_of(ts_schema(), row));
    rowlock_waiters_free(waiters_when(client, NULL, 3));
    rowlock_client *plain = open_as(user);
    rowlock_waiters *waiters = waiters_of(plain, NULL);
    assert_int_equal(rowlock_waiters_count(waiters), 1);
    assert_string_equal(rowlock_waiters_at(waiters, 0)->who, "its own");
    assert_non_null(strstr(rowlock_waiters_hidden(waiters), "privilege PROCESS"));
    rowlock_waiters_free(waiters);
    rowlock_client_close(plain);
    ts_sql(mysql, "GRANT PROCESS ON *.* TO '%s'@'localhost'", user);
    /* MySQL wants this too; MariaDB has no such table. */
    ts_sql_try(mysql, "GRANT SELECT ON performance_schema.data_locks TO '%s'@'localhost'", user);
    plain = open_as(user);
    waiters = waiters_when(plain, NULL, 3);
    assert_string_equal(rowlock_waiters_hidden(waiters), "");
    rowlock_waiters_free(waiters);
    rowlock_client_close(plain);
    for (size_t i = 0; i < 3; i++)
        cut(froms[i]);
    mysql_close(holder);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* A server without the table: what can be seen is shown. */
static void test_a_server_that_does_not_show(void **state)
{
    const char *name = "unseen";
    (void)state;
    ts_own_start_with(ts_is_mysql(mysql) ? "--performance-schema=OFF" : "--innodb-locks=OFF");
    const rowlock_client_options options = ts_options();
    WANT(OK, rowlock_migrate(&options, NULL, &(rowlock_migrate_result){0}, &ts_err));
    rowlock_client *there = ts_open();
    rowlock_hold *hold = ts_take(there, name, ROWLOCK_PESSIMISTIC, 30000);
    rowlock_waiters *waiters = waiters_of(there, name);
    assert_int_equal(rowlock_waiters_count(waiters), 0);
    assert_non_null(strstr(rowlock_waiters_hidden(waiters), "this server does not show"));
    rowlock_waiters_free(waiters);
    WANT(OK, rowlock_release(hold, &ts_err));
    rowlock_client_close(there);
    ts_own_remove();
}

/* ------------------------------------------------------------------------- arguments */

static void test_arguments(void **state)
{
    rowlock_waiters *waiters = NULL;
    const rowlock_waiters_options padded = {.name = " padded"};
    const rowlock_waiters_options unused = {.name = "never used"};
    (void)state;
    WANT(INVALID, rowlock_waiters_get(NULL, NULL, &waiters, &ts_err));
    WANT(INVALID, rowlock_waiters_get(client, NULL, NULL, &ts_err));
    WANT(INVALID, rowlock_waiters_get(client, &padded, &waiters, &ts_err));
    assert_null(waiters);
    WANT(OK, rowlock_waiters_get(client, &unused, &waiters, NULL));
    assert_int_equal(rowlock_waiters_count(waiters), 0);
    rowlock_waiters_free(waiters);
    assert_int_equal(rowlock_waiters_count(NULL), 0);
    assert_null(rowlock_waiters_at(NULL, 0));
    assert_string_equal(rowlock_waiters_hidden(NULL), "");
    rowlock_waiters_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_nobody),        BOTH(test_a_waiter),   ONCE(test_a_waiting_set),
        ONCE(test_order),         ONCE(test_labels),     ONCE(test_statements_that_are_none),
        BOTH(test_other_schemas), ONCE(test_privileges), ONCE(test_a_server_that_does_not_show),
        ONCE(test_arguments),
    };
    return cmocka_run_group_tests_name("waiters", tests, open_clients, close_clients);
}
