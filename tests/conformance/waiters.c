/* The list of waiters, which is read from the server: by name, the longest wait first. */
#include "bell/bell.h"
#include "conformance/clients.h"
#include "rowlock/rowlock_queue.h"
#include "support/own_server.h"

static rowlock_waiters *waiters_of(rowlock_client *from, const char *name)
{
    rowlock_waiters *waiters = NULL;
    const rowlock_waiters_options options = {.name = name};
    WANT(OK, rowlock_waiters_get(from, &options, &waiters, &ts_err));
    assert_non_null(waiters);
    return waiters;
}

/* MariaDB shows InnoDB's locks from a cache, which it refreshes only when nobody has read it for
 * 0.1 s: looking more often shows nothing new. */
#define COPY_IS_OLD_MS 120

/* The waiters, as soon as there are so many. */
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

/* Sends a statement that will have to wait, and does not wait for the reply. */
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

/* Runs a waiter's statement (bell_wait in sql/bell.sql). */
static void wait_at_bell(MYSQL *from, const char *bell, uint64_t id, uint64_t waited_ms,
                         const char *owner, const char *label)
{
    send_off(from,
             "SELECT GET_LOCK('%s', 600), 'rowlock-waiter', %" PRIu64 ", %" PRIu64 ", '%s', '%s'",
             bell, id, waited_ms, owner, in_hex(label));
}

static bool at_bell(MYSQL *from)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM " TS_PROCESSLIST " WHERE id = %lu"
                      " AND state = 'User lock'",
                      mysql_thread_id(from)) == 1;
}

static void is_at_bell(MYSQL *from)
{
    assert_true(POLL_UNTIL(at_bell(from), 10000));
}

/* Ends a connection that waits for a reply. */
static void cut(MYSQL *from)
{
    ts_sql(mysql, "KILL CONNECTION %lu", mysql_thread_id(from));
    mysql_close(from);
}

/* MySQL's precision. */
#define A_SECOND_MS 1000

static void assert_describes(const rowlock_waiter *waiter, rowlock_mode mode)
{
    assert_int_equal(waiter->mode, mode);
    assert_int_equal(ts_sql_u64(mysql,
                                "SELECT COUNT(*) FROM " TS_PROCESSLIST " WHERE id = %" PRIu64
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

/* A waiter of the library. */
TS_BOTH(test_a_waiter)
{
    const char *name = ts_name("a-waiter");
    TS_CLIENT *waiting = ts_open_as((rowlock_client_options){.label = "the waiter's label"});
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    TS_WAITER waiter = ts_wait(waiting, name, mode, 30000, 0);
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
}

static void *take_item(void *from)
{
    const rowlock_take_options options = {.wait_ms = 30000};
    rowlock_item *item = NULL;
    rowlock_error err;
    assert_int_equal(rowlock_queue_take(from, "items", &options, &item, &err), ROWLOCK_OK);
    assert_int_equal(rowlock_item_done(item, &err), ROWLOCK_OK);
    return NULL;
}

/* The first waiter for an item looks for it; the next one stands in line. */
TS_ONCE(test_a_waiter_for_an_item)
{
    TS_CLIENT *waiting = ts_open_as((rowlock_client_options){.label = "the waiter's label"});
    rowlock_item *item = NULL;
    uint64_t id = 0;
    pthread_t thread;
    WANT(OK, rowlock_queue_put(client, "items", "x", 1, NULL, &id, &ts_err));
    WANT(OK, rowlock_queue_take(client, "items", NULL, &item, &ts_err));
    TS_MYSQL *first = hold_bell(bell_of(ts_schema(), id_of(ts_schema(), "items")));
    assert_int_equal(pthread_create(&thread, NULL, take_item, waiting), 0);
    rowlock_waiters *waiters = waiters_when(other, "items", 1);
    assert_string_equal(rowlock_waiters_at(waiters, 0)->name, "items");
    assert_describes(rowlock_waiters_at(waiters, 0), ROWLOCK_OPTIMISTIC);
    rowlock_waiters_free(waiters);
    WANT(OK, rowlock_item_release(item, &ts_err));
    ts_sql(first, "DO RELEASE_ALL_LOCKS()");
    pthread_join(thread, NULL);
}

/* A set waits for its names one after the other. */
TS_ONCE(test_a_waiting_set)
{
    const char *const names[] = {ts_name("set"), ts_name("set")};
    rowlock_hold *first = ts_take(client, names[0], ROWLOCK_PESSIMISTIC, 30000);
    TS_HOLD *second = ts_take(client, names[1], ROWLOCK_PESSIMISTIC, 30000);
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
}

/* Statements that look like a waiter's hide no true one. */
TS_ONCE(test_statements_that_are_none)
{
    const char *name = ts_name("forged");
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    uint64_t id = id_of(ts_schema(), name);
    const char *bell = bell_of(ts_schema(), id);
    TS_MYSQL *holder = hold_bell(bell);
    char good_id[24];
    char too_long[2100] = "0, 'u.1', '";
    snprintf(good_id, sizeof good_id, "%" PRIu64, id);
    memset(too_long + strlen(too_long), 'a', 2000);
    strcat(too_long, "'");
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
        {"'rowlock-waiter'", good_id, "0, 'u.1', '\xff\xc3\x01'"},
        {"'rowlock-waiter'", good_id, "0, 'u.1', '61', '61'"},
        {"'rowlock-waiter'", good_id, "0, 'u.1', '61' LIMIT 1"},
        {"'rowlock-waiter'", good_id, "0, 'u.1'"},
        {"'rowlock-waiter'", good_id, too_long},
        {"'rowlock-waiter' /* comment */", good_id, "0, 'u.1', '61'"},
        {"'rowlock-waiter'", good_id, "0, 'uuid.1', '74727565'"}, /* the real one */
    };
    enum { FORGED = sizeof forged / sizeof forged[0] };
    MYSQL *froms[FORGED];
    for (size_t i = 0; i < FORGED; i++) {
        froms[i] = ts_connect(NULL);
        send_off(froms[i], "SELECT GET_LOCK('%s', 600), %s, %s, %s", bell, forged[i].marker,
                 forged[i].id, forged[i].rest);
        is_at_bell(froms[i]);
    }
    rowlock_waiters *waiters = waiters_when(other, NULL, 1);
    assert_string_equal(rowlock_waiters_at(waiters, 0)->who, "true");
    assert_string_equal(rowlock_waiters_hidden(waiters), "");
    rowlock_waiters_free(waiters);
    for (size_t i = 0; i < FORGED; i++)
        cut(froms[i]);
}

/* Opens a new schema. In two of them, names have the same ids. */
static rowlock_client *open_schema(const char *suffix)
{
    rowlock_client_options options = ts_options_on(ts_extra_schema(suffix, true));
    return ts_open_with(options);
}

/* Schemas whose names InnoDB writes in its own way, and that are alike for a bell. */
TS_BOTH(test_other_schemas)
{
    const bool lease = mode == ROWLOCK_OPTIMISTIC;
    const char *names[] = {ts_name("there"), ts_name("elsewhere")};
    char schema[80];
    snprintf(schema, sizeof schema, "%s_%s", ts_schema(), lease ? "a$l" : "a$P");
    TS_CLIENT *there = open_schema(lease ? "a$l" : "a$P");
    TS_CLIENT *elsewhere = open_schema(lease ? "b$l" : "b$P");
    WANT(OK, ts_try(there, names[0], mode));
    WANT(OK, ts_try(elsewhere, names[1], mode));
    uint64_t id = id_of(schema, names[0]);
    const char *bell = bell_of(schema, id);
    TS_MYSQL *holder = hold_bell(bell);
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
}

/* On a server without the table, the other waiters are shown. */
TS_ONCE(test_a_server_that_does_not_show)
{
    const char *name = "unseen";
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

TS_ONCE(test_arguments)
{
    rowlock_waiters *waiters = NULL;
    const rowlock_waiters_options padded = {.name = " padded"};
    const rowlock_waiters_options unused = {.name = "never used"};
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

TS_MAIN("waiters", open_clients, close_clients)
