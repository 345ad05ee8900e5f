/*
 * Another server answers, where the one was that granted a lock: the failover to a copy that may
 * lag, a name that leads elsewhere, a primary that is none any more. The usual server is `here`, a
 * second one `there`; a proxy leads the client from one to the other.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/own_server.h"
#include "support/proxy.h"
#include "support/support.h"

#define IN_TIME   15000
#define LONG_TTL  120000
#define SHORT_TTL 6000
#define PASSWORD  "an0ther-pA55"

static char here[200];
static char there[200];
static ts_proxy *proxy;

/* Which server the helpers talk to. */
static void at(const char *socket)
{
    setenv("ROWLOCK_TEST_SOCKET", socket, 1);
}

static MYSQL *connect_at(const char *socket)
{
    at(socket);
    MYSQL *mysql = ts_connect(ts_schema());
    at(here);
    return mysql;
}

static int two_servers(void **state)
{
    (void)state;
    snprintf(here, sizeof here, "%s", ts_socket());
    if (ts_suite_begin(state) != 0)
        return -1;
    ts_own_start_with("--server-id=2");
    snprintf(there, sizeof there, "%s", ts_socket());
    rowlock_client_options options = ts_options();
    WANT(OK, rowlock_migrate(&options, NULL, &(rowlock_migrate_result){0}, &ts_err));
    at(here);
    return 0;
}

static int one_server(void **state)
{
    at(there);
    ts_own_remove();
    at(here);
    return ts_suite_end(state);
}

static int begin(void **state)
{
    (void)state;
    proxy = ts_proxy_start(here);
    return 0;
}

static int end(void **state)
{
    (void)state;
    ts_proxy_stop(proxy);
    return 0;
}

/* A connection of the client's is cut, and the next ones lead to `socket`. */
static void fail_over(const char *socket)
{
    ts_proxy_lead(proxy, socket);
    ts_proxy_cut(proxy);
}

typedef struct loss {
    atomic_bool told;
    char reason[200];
} loss;

static void note_loss(void *data, rowlock_hold *hold, const char *reason)
{
    loss *l = data;
    (void)hold;
    snprintf(l->reason, sizeof l->reason, "%s", reason);
    atomic_store(&l->told, true);
}

static rowlock_client *open_through_proxy(const char *user)
{
    rowlock_client *client = NULL;
    rowlock_client_options options = ts_options();
    options.socket = ts_proxy_socket(proxy);
    if (user) {
        options.user = user;
        options.password = PASSWORD;
    }
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    return client;
}

static rowlock_hold *take_told(rowlock_client *client, const char *name, rowlock_mode mode,
                               int64_t ttl_ms, loss *l)
{
    rowlock_hold *hold = NULL;
    const rowlock_acquire_options options = {
        .mode = mode, .ttl_ms = ttl_ms, .on_lost = note_loss, .on_lost_data = l};
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    return hold;
}

/* Any call that needs a connection. */
static void look(rowlock_client *client)
{
    rowlock_list *list = NULL;
    WANT(OK, rowlock_list_get(client, NULL, &list, &ts_err));
    rowlock_list_free(list);
}

static void assert_replaced(loss *l)
{
    assert_true(POLL_UNTIL(atomic_load(&l->told), IN_TIME));
    if (!strstr(l->reason, "replaced"))
        fail_msg("lost, but: %s", l->reason);
}

/* ------------------------------------------------------------------------------ copies */

static void copy_row(MYSQL *to, const char *table, MYSQL_ROW row, unsigned columns)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (unsigned i = 0; i < columns; i++)
        fprintf(out, "%s%s", i ? "," : "", row[i] ? ts_quote(row[i]) : "NULL");
    fclose(out);
    ts_sql(to, "REPLACE INTO %s VALUES (%s)", table, text);
    free(text);
}

/* What a replica has. */
static void copy_there(void)
{
    static const char *const tables[] = {"resource", "resource_lock", "lease_renewal",
                                         "version_floor"};
    MYSQL *from = connect_at(here);
    MYSQL *to = connect_at(there);
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        char query[100];
        snprintf(query, sizeof query, "SELECT * FROM %s", tables[i]);
        ts_sql(to, "DELETE FROM %s", tables[i]);
        assert_int_equal(mysql_query(from, query), 0);
        MYSQL_RES *result = mysql_store_result(from);
        assert_non_null(result);
        for (MYSQL_ROW row; (row = mysql_fetch_row(result));)
            copy_row(to, tables[i], row, mysql_num_fields(result));
        mysql_free_result(result);
    }
    mysql_close(from);
    mysql_close(to);
}

static char *dump_there(void)
{
    MYSQL *mysql = connect_at(there);
    char *text = ts_dump(mysql, ts_schema());
    mysql_close(mysql);
    return text;
}

static void assert_untouched(char *before)
{
    char *after = dump_there();
    assert_string_equal(before, after);
    free(before);
    free(after);
}

/* ------------------------------------------------------------------------------- leases */

/* The renewal finds out: nobody asks anything else. */
static void test_the_renewal_finds_a_stranger(void **state)
{
    loss l = {0};
    (void)state;
    rowlock_client *client = open_through_proxy(NULL);
    rowlock_hold *hold = take_told(client, ts_name("stranger"), ROWLOCK_OPTIMISTIC, SHORT_TTL, &l);
    fail_over(there);
    assert_replaced(&l);
    WANT(LOST, rowlock_hold_check(hold));
    WANT(LOST, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
}

/* The same rows, owner and token included: neither renewed there nor freed. */
static void test_a_copy_is_another_server(void **state)
{
    loss l = {0};
    (void)state;
    rowlock_client *client = open_through_proxy(NULL);
    rowlock_hold *hold = take_told(client, ts_name("copy"), ROWLOCK_OPTIMISTIC, SHORT_TTL, &l);
    copy_there();
    char *before = dump_there();
    fail_over(there);
    assert_replaced(&l);
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_untouched(before);
    rowlock_client_close(client);
}

/* Long before the next renewal, by whatever call comes first. */
static void test_any_call_finds_out(void **state)
{
    loss l = {0};
    (void)state;
    rowlock_client *client = open_through_proxy(NULL);
    rowlock_hold *hold = take_told(client, ts_name("any-call"), ROWLOCK_OPTIMISTIC, LONG_TTL, &l);
    copy_there();
    fail_over(there);
    look(client);
    assert_replaced(&l);
    WANT(LOST, rowlock_hold_check(hold));
    assert_int_equal(rowlock_hold_remaining_ms(hold), 0);
    WANT(LOST, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
}

/* The release is the first to get there. */
static void test_a_release_frees_nothing_elsewhere(void **state)
{
    (void)state;
    rowlock_client *client = open_through_proxy(NULL);
    rowlock_hold *hold = ts_take(client, ts_name("elsewhere"), ROWLOCK_OPTIMISTIC, LONG_TTL);
    copy_there();
    char *before = dump_there();
    fail_over(there);
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_non_null(strstr(ts_err.message, "replaced"));
    assert_untouched(before);
    rowlock_client_close(client);
}

/* And back again: it was lost, and stays so. */
static void test_the_history_says_why(void **state)
{
    const char *name = ts_name("told");
    loss l = {0};
    (void)state;
    rowlock_client *client = open_through_proxy(NULL);
    rowlock_hold *hold = take_told(client, name, ROWLOCK_OPTIMISTIC, LONG_TTL, &l);
    fail_over(there);
    look(client);
    assert_replaced(&l);
    fail_over(here);
    look(client);
    WANT(LOST, rowlock_hold_check(hold));
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_client_flush(client, IN_TIME, &ts_err));
    MYSQL *mysql = connect_at(here);
    assert_int_equal(ts_sql_u64(mysql,
                                "SELECT COUNT(*) FROM lock_event WHERE resource_name = %s"
                                " AND event = 'lost' AND detail LIKE '%%replaced%%'",
                                ts_quote(name)),
                     1);
    mysql_close(mysql);
    rowlock_client_close(client);
}

/* The very server, restarted: nothing is lost but connections. */
static void test_a_restart_is_no_change(void **state)
{
    loss l = {0};
    (void)state;
    ts_proxy_lead(proxy, there);
    rowlock_client *client = open_through_proxy(NULL);
    rowlock_hold *hold = take_told(client, ts_name("restart"), ROWLOCK_OPTIMISTIC, LONG_TTL, &l);
    at(there);
    ts_own_kill();
    ts_own_restart();
    at(here);
    look(client);
    assert_held(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_false(atomic_load(&l.told));
    rowlock_client_close(client);
}

/* ------------------------------------------------------------------------------- tokens */

static uint64_t cycle(rowlock_client *client, const char *name, rowlock_mode mode)
{
    rowlock_hold *hold = ts_take(client, name, mode, LONG_TTL);
    uint64_t token = rowlock_hold_token(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    return token;
}

/* A copy that lagged: its next token was given to somebody before. */
static void test_a_token_that_goes_back(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("lagging");
    rowlock_client *client = open_through_proxy(NULL);
    cycle(client, name, mode);
    copy_there();
    uint64_t last = 0;
    for (int i = 0; i < 5; i++)
        last = cycle(client, name, mode);
    fail_over(there);
    look(client);
    WANT(DAMAGED, ts_try(client, name, mode));
    assert_non_null(strstr(ts_err.message, "gone back"));
    assert_true(cycle(client, name, mode) > last);
    rowlock_client_close(client);
}

/* MariaDB shows this out of a copy, made anew when nobody has read it for 0.1 s. */
static bool waits_at(MYSQL *mysql)
{
    ts_pass_ms(150);
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM information_schema.innodb_trx"
                             " WHERE trx_state = 'LOCK WAIT'") == 1;
}

/* A wait that began before the failover: what the old server grants then is not the lock that
 * others ask for now. */
static void test_a_wait_that_began_at_the_old_server(void **state)
{
    const char *name = ts_name("moved");
    rowlock_client *client = open_through_proxy(NULL);
    rowlock_client *old = ts_open();
    MYSQL *mysql = connect_at(here);
    (void)state;
    at(there);
    rowlock_client *new = ts_open();
    at(here);
    rowlock_hold *hold = ts_take(old, name, ROWLOCK_PESSIMISTIC, LONG_TTL);
    ts_waiter waiter = {
        .client = client,
        .name = name,
        .options = {
            .mode = ROWLOCK_PESSIMISTIC, .unfenced = true, .wait_ms = 60000, .ttl_ms = LONG_TTL}};
    ts_waiter_start(&waiter);
    assert_true(POLL_UNTIL(waits_at(mysql), 10000));
    ts_proxy_lead(proxy, there);
    rowlock_hold *others[2];
    for (int i = 0; i < 2; i++)
        others[i] = ts_take(client, ts_name("moved-too"), ROWLOCK_PESSIMISTIC, LONG_TTL);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_waiter_join(&waiter, 60000));
    WANT(BUSY, ts_try(new, name, ROWLOCK_PESSIMISTIC));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    for (int i = 0; i < 2; i++)
        WANT(OK, rowlock_release(others[i], &ts_err));
    mysql_close(mysql);
    rowlock_client_close(client);
    rowlock_client_close(old);
    rowlock_client_close(new);
}

static void set_id(MYSQL *mysql, const char *name, unsigned id)
{
    ts_sql(mysql, "UPDATE resource SET id = %u WHERE resource_name = %s", id, ts_quote(name));
    ts_sql(mysql, "UPDATE resource_lock SET id = %u WHERE resource_name = %s", id, ts_quote(name));
}

/* The id that the client knows of the old server is another name's at the new one, and that is
 * held: nobody waits for it. */
static void test_an_id_is_one_servers(void **state)
{
    enum { ID = 777777 };
    const char *name = ts_name("known");
    const char *strange = ts_name("stranger");
    rowlock_client *client = open_through_proxy(NULL);
    rowlock_client *old = ts_open();
    MYSQL *mysql = connect_at(here);
    MYSQL *holder = connect_at(there);
    (void)state;
    at(there);
    rowlock_client *new = ts_open();
    at(here);
    WANT(OK, ts_try(old, name, ROWLOCK_PESSIMISTIC));
    set_id(mysql, name, ID);
    WANT(OK, ts_try(client, name, ROWLOCK_PESSIMISTIC));
    WANT(OK, ts_try(new, strange, ROWLOCK_PESSIMISTIC));
    for (int i = 0; i < 4; i++) /* its tokens do not go back */
        WANT(OK, ts_try(new, name, ROWLOCK_PESSIMISTIC));
    set_id(holder, strange, ID);
    ts_sql(holder, "BEGIN");
    ts_sql(holder, "DO (SELECT id FROM resource_lock WHERE id = %d FOR UPDATE)", ID);
    fail_over(there);
    rowlock_hold *hold = NULL;
    const rowlock_acquire_options options = {
        .mode = ROWLOCK_PESSIMISTIC, .ttl_ms = LONG_TTL, .wait_ms = IN_TIME};
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    WANT(BUSY, ts_try(new, name, ROWLOCK_PESSIMISTIC));
    WANT(OK, rowlock_release(hold, &ts_err));
    mysql_close(mysql);
    mysql_close(holder);
    rowlock_client_close(client);
    rowlock_client_close(old);
    rowlock_client_close(new);
}

/* ------------------------------------------------------------------- who is the primary */

/* The old one lives on, and so does the connection that holds the row there. */
static void test_a_row_lock_is_left_behind(void **state)
{
    loss l = {0};
    (void)state;
    rowlock_client *client = open_through_proxy(NULL);
    rowlock_hold *hold =
        take_told(client, ts_name("left-behind"), ROWLOCK_PESSIMISTIC, LONG_TTL, &l);
    ts_proxy_lead(proxy, there);
    /* Two more connections than the pool has: one of them is new. */
    ts_waiter crowd[12];
    for (size_t i = 0; i < sizeof crowd / sizeof crowd[0]; i++) {
        crowd[i] = (ts_waiter){.client = client, .name = ts_name("crowd")};
        crowd[i].options.mode = ROWLOCK_PESSIMISTIC;
        ts_waiter_start(&crowd[i]);
    }
    for (size_t i = 0; i < sizeof crowd / sizeof crowd[0]; i++)
        if (ts_waiter_join(&crowd[i], IN_TIME) == ROWLOCK_OK)
            (void)rowlock_release(crowd[i].hold, NULL);
    assert_replaced(&l);
    WANT(LOST, rowlock_release(hold, &ts_err));
    rowlock_client_close(client);
}

static const char *user_of(const char *word)
{
    at(there);
    const char *user = ts_user(word, PASSWORD, "SELECT, INSERT, UPDATE, DELETE", ts_schema());
    at(here);
    MYSQL *mysql = connect_at(here);
    ts_sql(mysql, "CREATE USER '%s'@'localhost' IDENTIFIED BY '" PASSWORD "'", user);
    ts_sql(mysql, "GRANT SELECT, INSERT, UPDATE, DELETE ON `%s`.* TO '%s'@'localhost'", ts_schema(),
           user);
    mysql_close(mysql);
    return user;
}

static void set_read_only(bool on)
{
    MYSQL *mysql = connect_at(there);
    ts_sql(mysql, "SET GLOBAL read_only = %d", on);
    mysql_close(mysql);
}

/* Held there, and asked for there, without a write. */
static void test_a_demoted_server_keeps_no_row_lock(void **state)
{
    loss l = {0};
    const char *name = ts_name("unfenced");
    rowlock_hold *none = NULL;
    (void)state;
    ts_proxy_lead(proxy, there);
    rowlock_client *client = open_through_proxy(user_of("demoted"));
    const rowlock_acquire_options unfenced = {.mode = ROWLOCK_PESSIMISTIC, .unfenced = true};
    WANT(OK, rowlock_acquire(client, name, &unfenced, &none, &ts_err));
    WANT(OK, rowlock_release(none, &ts_err));
    rowlock_hold *hold = take_told(client, ts_name("held"), ROWLOCK_PESSIMISTIC, SHORT_TTL, &l);
    rowlock_client *admin = open_through_proxy(NULL);
    set_read_only(true);
    WANT(READONLY, rowlock_acquire(client, name, &unfenced, &none, &ts_err));
    /* The server itself would not refuse an administrator (MySQL refuses nobody). */
    WANT(READONLY, rowlock_acquire(admin, name, &unfenced, &none, &ts_err));
    rowlock_client_close(admin);
    bool told = POLL_UNTIL(atomic_load(&l.told), IN_TIME);
    set_read_only(false);
    assert_true(told);
    assert_non_null(strstr(l.reason, "read-only"));
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_acquire(client, name, &unfenced, &none, &ts_err));
    WANT(OK, rowlock_release(none, &ts_err));
    rowlock_client_close(client);
}

/* One READONLY, and the pool lets go of the old primary: the next call finds the new one. */
static void test_the_pool_follows_the_primary(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("follows");
    rowlock_client *ahead = ts_open();
    for (int i = 0; i < 5; i++)
        cycle(ahead, name, mode);
    rowlock_client_close(ahead);
    ts_proxy_lead(proxy, there);
    rowlock_client *client = open_through_proxy(user_of(mode ? "follow1" : "follow0"));
    WANT(OK, ts_try(client, name, mode));
    set_read_only(true);
    ts_proxy_lead(proxy, here);
    rowlock_status first = ts_try(client, name, mode);
    rowlock_status second = ts_try(client, name, mode);
    set_read_only(false);
    assert_int_equal(first, ROWLOCK_READONLY);
    WANT(OK, second);
    rowlock_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_the_renewal_finds_a_stranger, begin, end),
        cmocka_unit_test_setup_teardown(test_a_copy_is_another_server, begin, end),
        cmocka_unit_test_setup_teardown(test_any_call_finds_out, begin, end),
        cmocka_unit_test_setup_teardown(test_a_release_frees_nothing_elsewhere, begin, end),
        cmocka_unit_test_setup_teardown(test_the_history_says_why, begin, end),
        cmocka_unit_test_setup_teardown(test_a_restart_is_no_change, begin, end),
        {"test_a_token_that_goes_back (lease)", test_a_token_that_goes_back, begin, end,
         &ts_modes[0]},
        {"test_a_token_that_goes_back (pessimistic)", test_a_token_that_goes_back, begin, end,
         &ts_modes[1]},
        cmocka_unit_test_setup_teardown(test_a_row_lock_is_left_behind, begin, end),
        cmocka_unit_test_setup_teardown(test_a_wait_that_began_at_the_old_server, begin, end),
        cmocka_unit_test_setup_teardown(test_an_id_is_one_servers, begin, end),
        cmocka_unit_test_setup_teardown(test_a_demoted_server_keeps_no_row_lock, begin, end),
        {"test_the_pool_follows_the_primary (lease)", test_the_pool_follows_the_primary, begin, end,
         &ts_modes[0]},
        {"test_the_pool_follows_the_primary (pessimistic)", test_the_pool_follows_the_primary,
         begin, end, &ts_modes[1]},
    };
    return cmocka_run_group_tests_name("identity", tests, two_servers, one_server);
}
