/*
 * Another server answers than the one that granted a lock: after a failover to a replica that may
 * lag, a change of DNS, or when a primary has become a replica. The usual server is `here`, a
 * second one `there`; a proxy leads the client from one to the other.
 */
#include "support/own_server.h"
#include "support/proxy.h"

#define IN_TIME   15000
#define LONG_TTL  120000
#define SHORT_TTL 6000
#define PASSWORD  "an0ther-pA55"

static char here[200];
static char there[200];
static ts_proxy *proxy;

/* Sets the server that the helpers use. */
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

static rowlock_client *open_through_proxy(const char *user)
{
    return ts_open_as((rowlock_client_options){
        .socket = ts_proxy_socket(proxy), .user = user, .password = user ? PASSWORD : NULL});
}

static rowlock_client *client; /* through the proxy, as root */

static int begin(TS_NO_STATE)
{
    proxy = ts_proxy_start(here);
    client = open_through_proxy(NULL);
    return 0;
}

static int end(TS_NO_STATE)
{
    rowlock_client_close(client);
    ts_proxy_stop(proxy);
    return 0;
}

/* Cuts the client's connections; the next ones lead to `socket`. */
static void fail_over(const char *socket)
{
    ts_proxy_lead(proxy, socket);
    ts_proxy_cut(proxy);
}

static rowlock_hold *take_told(rowlock_client *from, const char *name, rowlock_mode mode,
                               int64_t ttl_ms, ts_loss *l)
{
    return ts_take_with(
        from, name,
        (rowlock_acquire_options){
            .mode = mode, .ttl_ms = ttl_ms, .on_lost = ts_on_lost, .on_lost_data = l});
}

/* A call that needs a connection. */
static void look(rowlock_client *from)
{
    rowlock_list *list = NULL;
    WANT(OK, rowlock_list_get(from, NULL, &list, &ts_err));
    rowlock_list_free(list);
}

static void assert_replaced(ts_loss *l)
{
    assert_true(POLL_UNTIL(atomic_load(&l->times) > 0, IN_TIME));
    if (!strstr(l->reason, "replaced"))
        fail_msg("lost, but: %s", l->reason);
}

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

/* Copies the tables, as a replica would. */
static void copy_there(void)
{
    static const char *const tables[] = {"resource", "resource_lock", "lease_renewal",
                                         "version_floor"};
    TS_MYSQL *from = connect_at(here);
    TS_MYSQL *to = connect_at(there);
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
}

static char *dump_there(void)
{
    TS_MYSQL *mysql = connect_at(there);
    return ts_dump(mysql, ts_schema());
}

/* How often that server's history says so. */
static uint64_t times_lost(MYSQL *mysql, const char *name, const char *why)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM lock_event WHERE resource_name = '%s'"
                      " AND event = 'lost' AND detail LIKE '%%%s%%'",
                      name, why);
}

/* The holder finds out by its renewal; long before by another call, if there is one; and by its
 * release. The copy has the same rows, owner and token included: the lease is neither renewed there
 * nor freed. It stays lost when the old server is back, and the history says why. */
TS_ONCE(test_another_server_is_found_out)
{
    static const struct {
        const char *by;
        int64_t ttl_ms;
        bool copy, call, release;
    } ways[] = {{"a stranger, by the renewal", SHORT_TTL, false, false, false},
                {"a copy, by the renewal", SHORT_TTL, true, false, false},
                {"a copy, by any call", LONG_TTL, true, true, false},
                {"a copy, by the release", LONG_TTL, true, false, true}};
    TS_MYSQL *mysql = connect_at(here);
    TS_MYSQL *other = connect_at(there);
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        ts_loss l = {0};
        print_message("# %s\n", ways[i].by);
        const char *name = ts_name("another");
        rowlock_hold *hold = take_told(client, name, ROWLOCK_OPTIMISTIC, ways[i].ttl_ms, &l);
        if (ways[i].copy)
            copy_there();
        char *before = dump_there();
        /* All of the history is written: otherwise the keeper would find it out by that. */
        WANT(OK, rowlock_client_flush(client, IN_TIME, &ts_err));
        fail_over(there);
        if (ways[i].call)
            look(client);
        if (!ways[i].release) {
            assert_replaced(&l);
            WANT(LOST, rowlock_hold_check(hold));
            assert_int_equal(rowlock_hold_remaining_ms(hold), 0);
        }
        if (ways[i].call) {
            fail_over(here);
            look(client);
            WANT(LOST, rowlock_hold_check(hold));
        }
        WANT(LOST, rowlock_release(hold, &ts_err));
        if (ways[i].release)
            assert_non_null(strstr(ts_err.message, "replaced"));
        ts_same(before, dump_there());
        fail_over(here);
        look(client);
        WANT(OK, rowlock_client_flush(client, IN_TIME, &ts_err));
        /* The event is in the history of the server that the client used a tenth of a second later.
         * It is there twice if the way back cut the connection during the write. */
        const char *why = ways[i].release ? "found at its release" : "replaced";
        assert_between(1, times_lost(mysql, name, why) + times_lost(other, name, why), 2);
    }
}

static uint64_t cycle(rowlock_client *from, const char *name, rowlock_mode mode)
{
    rowlock_hold *hold = ts_take(from, name, mode, LONG_TTL);
    uint64_t token = rowlock_hold_token(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    return token;
}

/* A replica that lagged gives a token that was given before. */
TS_BOTH(test_a_token_that_goes_back)
{
    const char *name = ts_name("lagging");
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
}

/* MariaDB shows this from a cache, which is refreshed when nobody has read it for 0.1 s. */
static bool waits_at(MYSQL *mysql)
{
    ts_pass_ms(150);
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM information_schema.innodb_trx"
                             " WHERE trx_state = 'LOCK WAIT' AND trx_mysql_thread_id IN"
                             " (SELECT id FROM " TS_PROCESSLIST " WHERE db = DATABASE())") == 1;
}

/* A wait that began before the failover: the old server's grant is not the lock that others ask for
 * now. */
TS_ONCE(test_a_wait_that_began_at_the_old_server)
{
    const char *name = ts_name("moved");
    TS_CLIENT *old = ts_open();
    TS_MYSQL *mysql = connect_at(here);
    at(there);
    TS_CLIENT *new = ts_open();
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
}

static void set_id(MYSQL *mysql, const char *name, unsigned id)
{
    ts_sql(mysql, "UPDATE resource SET id = %u WHERE resource_name = %s", id, ts_quote(name));
    ts_sql(mysql, "UPDATE resource_lock SET id = %u WHERE resource_name = %s", id, ts_quote(name));
}

/* The id that the client knows from the old server is another, held name's at the new one: the
 * client does not wait for that. */
TS_ONCE(test_an_id_is_one_servers)
{
    enum { ID = 777777 };
    const char *name = ts_name("known");
    const char *strange = ts_name("stranger");
    TS_CLIENT *old = ts_open();
    TS_MYSQL *mysql = connect_at(here);
    TS_MYSQL *holder = connect_at(there);
    at(there);
    TS_CLIENT *new = ts_open();
    at(here);
    WANT(OK, ts_try(old, name, ROWLOCK_PESSIMISTIC));
    set_id(mysql, name, ID);
    WANT(OK, ts_try(client, name, ROWLOCK_PESSIMISTIC));
    WANT(OK, ts_try(new, strange, ROWLOCK_PESSIMISTIC));
    for (int i = 0; i < 4; i++) /* so that its tokens do not go back */
        WANT(OK, ts_try(new, name, ROWLOCK_PESSIMISTIC));
    set_id(holder, strange, ID);
    ts_sql(holder, "BEGIN");
    ts_sql(holder, "DO (SELECT id FROM resource_lock WHERE id = %d FOR UPDATE)", ID);
    fail_over(there);
    const rowlock_acquire_options options = {
        .mode = ROWLOCK_PESSIMISTIC, .ttl_ms = LONG_TTL, .wait_ms = IN_TIME};
    TS_HOLD *hold = ts_take_with(client, name, options);
    WANT(BUSY, ts_try(new, name, ROWLOCK_PESSIMISTIC));
}

/* The old server lives on, with the connection that holds the row there. */
TS_ONCE(test_a_row_lock_is_left_behind)
{
    ts_loss l = {0};
    rowlock_hold *hold =
        take_told(client, ts_name("left-behind"), ROWLOCK_PESSIMISTIC, LONG_TTL, &l);
    ts_proxy_lead(proxy, there);
    /* More connections than the pool has, each kept by its hold, so that one of them is new. */
    const rowlock_acquire_options row = {.mode = ROWLOCK_PESSIMISTIC, .ttl_ms = LONG_TTL};
    rowlock_hold *crowd[12] = {NULL};
    for (size_t i = 0; i < sizeof crowd / sizeof crowd[0]; i++)
        (void)!rowlock_acquire(client, ts_name("crowd"), &row, &crowd[i], NULL);
    for (size_t i = 0; i < sizeof crowd / sizeof crowd[0]; i++)
        if (crowd[i])
            (void)rowlock_release(crowd[i], NULL);
    assert_replaced(&l);
    WANT(LOST, rowlock_release(hold, &ts_err));
}

static const char *user_of(const char *word)
{
    at(there);
    const char *user = ts_user(word, PASSWORD, "SELECT, INSERT, UPDATE, DELETE", ts_schema());
    TS_MYSQL *mysql = connect_at(here);
    ts_sql(mysql, "CREATE USER '%s'@'localhost' IDENTIFIED BY '" PASSWORD "'", user);
    ts_sql(mysql, "GRANT SELECT, INSERT, UPDATE, DELETE ON `%s`.* TO '%s'@'localhost'", ts_schema(),
           user);
    return user;
}

static void set_read_only(bool on)
{
    TS_MYSQL *mysql = connect_at(there);
    ts_sql(mysql, "SET GLOBAL read_only = %d", on);
}

/* A row lock is held, and tried, at a demoted server, without a write. */
TS_ONCE(test_a_demoted_server_keeps_no_row_lock)
{
    ts_loss l = {0};
    const char *name = ts_name("unfenced");
    ts_proxy_lead(proxy, there);
    TS_CLIENT *theirs = open_through_proxy(user_of("demoted"));
    const rowlock_acquire_options unfenced = {.mode = ROWLOCK_PESSIMISTIC, .unfenced = true};
    rowlock_hold *none = ts_take_with(theirs, name, unfenced);
    WANT(OK, rowlock_release(none, &ts_err));
    rowlock_hold *hold = take_told(theirs, ts_name("held"), ROWLOCK_PESSIMISTIC, SHORT_TTL, &l);
    rowlock_client *admin = open_through_proxy(NULL);
    set_read_only(true);
    WANT(READONLY, rowlock_acquire(theirs, name, &unfenced, &none, &ts_err));
    /* The server itself would not refuse an administrator (MySQL would refuse nobody). */
    WANT(READONLY, rowlock_acquire(admin, name, &unfenced, &none, &ts_err));
    rowlock_client_close(admin);
    bool told = POLL_UNTIL(atomic_load(&l.times) > 0, IN_TIME);
    set_read_only(false);
    assert_true(told);
    assert_non_null(strstr(l.reason, "read-only"));
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_acquire(theirs, name, &unfenced, &none, &ts_err));
    WANT(OK, rowlock_release(none, &ts_err));
}

/* After one READONLY the pool drops the old primary: the next call finds the new one. */
TS_BOTH(test_the_pool_follows_the_primary)
{
    const char *name = ts_name("follows");
    rowlock_client *ahead = ts_open();
    for (int i = 0; i < 5; i++)
        cycle(ahead, name, mode);
    rowlock_client_close(ahead);
    ts_proxy_lead(proxy, there);
    TS_CLIENT *theirs = open_through_proxy(user_of(mode ? "follow1" : "follow0"));
    WANT(OK, ts_try(theirs, name, mode));
    /* Otherwise the keeper, which writes the history, might get the READONLY. */
    WANT(OK, rowlock_client_flush(theirs, IN_TIME, &ts_err));
    set_read_only(true);
    ts_proxy_lead(proxy, here);
    rowlock_status first = ts_try(theirs, name, mode);
    rowlock_status second = ts_try(theirs, name, mode);
    set_read_only(false);
    assert_int_equal(first, ROWLOCK_READONLY);
    WANT(OK, second);
}

static rowlock_status fail_over_at_work(void *data, const rowlock_section *section, MYSQL *own)
{
    (void)section;
    (void)own;
    fail_over(there);
    ts_proxy_arm(data, TS_LOSE_REPLY, "caller_commit", 1, false);
    return ROWLOCK_OK;
}

/* At the new server, another connection has the number of the lost COMMIT's connection, and is not
 * ended. */
TS_ONCE(test_a_connections_number_is_one_servers)
{
    const rowlock_section_options options = {.wait_ms = 5000};
    rowlock_section_result result;
    TS_PROXY *callers = ts_proxy_start(here);
    TS_MYSQL *stranger = connect_at(there);
    TS_MYSQL *own = NULL;
    do {
        mysql_close(own);
        own = ts_proxy_connect(callers);
    } while (mysql_thread_id(own) < mysql_thread_id(stranger));
    while (mysql_thread_id(stranger) < mysql_thread_id(own))
        stranger = (mysql_close(stranger), connect_at(there));
    assert_int_equal(mysql_thread_id(stranger), mysql_thread_id(own));
    WANT(UNKNOWN, rowlock_tx_section_run(client, own, ts_name("number"), &options,
                                         fail_over_at_work, callers, &result, &ts_err));
    assert_true(ts_proxy_fired(callers));
    assert_int_equal(mysql_ping(stranger), 0);
}

int main(void)
{
    return ts_run_each("identity", begin, end, two_servers, one_server);
}
