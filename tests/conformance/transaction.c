/* In the caller's own transaction: rowlock_tx_acquire() and rowlock_fence(). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rowlock/rowlock_mysql.h"
#include "support/support.h"

static rowlock_client *client;
static rowlock_client *other;
static MYSQL *mysql;
static MYSQL *watch;

static int open_clients(void **state)
{
    ts_suite_begin(state);
    client = ts_open();
    other = ts_open();
    mysql = ts_connect_beside();
    watch = ts_connect(ts_schema());
    ts_sql(watch, "CREATE TABLE work (id INT PRIMARY KEY AUTO_INCREMENT, who VARCHAR(60),"
                  " n BIGINT NOT NULL DEFAULT 0) ENGINE = InnoDB");
    ts_grant_role(watch, "work");
    return 0;
}

static int close_clients(void **state)
{
    return ts_suite_end_with(state, client, other, mysql, watch);
}

static void begin(const char *name)
{
    ts_sql(mysql, "BEGIN");
    ts_sql(mysql, "INSERT INTO work (who) VALUES (%s)", ts_quote(name));
}

static uint64_t rows_of(const char *name)
{
    return ts_sql_u64(watch, "SELECT COUNT(*) FROM work WHERE who = %s", ts_quote(name));
}

static bool in_transaction(MYSQL *conn)
{
    ts_sql(conn, "DO 0");
    return (conn->server_status & SERVER_STATUS_IN_TRANS) != 0;
}

/* ----------------------------------------------------------------------- tx_acquire */

static void test_it_needs_a_transaction(void **state)
{
    const char *name = ts_name("tx-none");
    (void)state;
    WANT(INVALID, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
    assert_false(in_transaction(mysql));
    WANT(OK, ts_try(other, name, ROWLOCK_PESSIMISTIC));
}

static void test_it_ends_with_the_transaction(void **state)
{
    static const char *const ends[] = {"COMMIT", "ROLLBACK"};
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        const char *name = ts_name("tx-end");
        begin(name);
        WANT(OK, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
        assert_true(in_transaction(mysql));
        WANT(BUSY, ts_try(other, name, ROWLOCK_PESSIMISTIC));
        WANT(BUSY, ts_try(client, name, ROWLOCK_PESSIMISTIC));
        /* Twice in one transaction is once. */
        WANT(OK, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
        ts_sql(mysql, "%s", ends[i]);
        WANT(OK, ts_try(other, name, ROWLOCK_PESSIMISTIC));
        assert_int_equal(rows_of(name), i == 0);
    }
}

static void test_without_a_default_schema(void **state)
{
    const char *name = ts_name("tx-schema");
    MYSQL *bare = ts_connect(NULL);
    (void)state;
    ts_sql(bare, "BEGIN");
    ts_sql(bare, "INSERT INTO `%s`.work (who) VALUES ('bare')", ts_schema());
    WANT(OK, rowlock_tx_acquire(client, bare, name, NULL, &ts_err));
    char *schema = ts_sql_text(bare, "SELECT COALESCE(DATABASE(), 'none')");
    assert_string_equal(schema, "none");
    free(schema);
    WANT(BUSY, ts_try(other, name, ROWLOCK_PESSIMISTIC));
    ts_sql(bare, "ROLLBACK");
    mysql_close(bare);
}

/* Two transactions of the same kind exclude each other, too. */
static void test_transactions_exclude_each_other(void **state)
{
    const char *name = ts_name("tx-tx");
    rowlock_tx_options wait = {.wait_ms = 250};
    MYSQL *second = ts_connect_beside();
    (void)state;
    begin(name);
    WANT(OK, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
    ts_sql(second, "BEGIN");
    ts_sql(second, "INSERT INTO work (who) VALUES ('second')");
    WANT(BUSY, rowlock_tx_acquire(other, second, name, NULL, &ts_err));
    WANT(TIMEOUT, rowlock_tx_acquire(other, second, name, &wait, &ts_err));
    ts_sql(mysql, "COMMIT");
    WANT(OK, rowlock_tx_acquire(other, second, name, NULL, &ts_err));
    ts_sql(second, "COMMIT");
    mysql_close(second);
}

typedef struct tx_waiter {
    MYSQL *conn;
    rowlock_client *owner;
    const char *name;
    rowlock_tx_options options;
    rowlock_status status;
    rowlock_error err;
    atomic_bool ended;
    int64_t ended_ms;
    pthread_t thread;
} tx_waiter;

static void *wait_in_transaction(void *arg)
{
    tx_waiter *w = arg;
    w->status = rowlock_tx_acquire(w->owner, w->conn, w->name, &w->options, &w->err);
    w->ended_ms = ts_now_ms();
    atomic_store(&w->ended, true);
    mysql_thread_end();
    return NULL;
}

static void tx_start(tx_waiter *w)
{
    assert_int_equal(pthread_create(&w->thread, NULL, wait_in_transaction, w), 0);
}

static rowlock_status tx_join(tx_waiter *w, int64_t within_ms)
{
    assert_true(POLL_UNTIL(atomic_load(&w->ended), within_ms));
    pthread_join(w->thread, NULL);
    ts_err = w->err;
    return w->status;
}

/* BUSY, TIMEOUT, CANCELLED leave everything in the transaction as it was. */
static void test_a_failed_wait_costs_nothing(void **state)
{
    const char *name = ts_name("tx-fail");
    rowlock_cancel *cancel = NULL;
    (void)state;
    WANT(OK, rowlock_cancel_new(&cancel, &ts_err));
    rowlock_hold *hold = ts_take(other, name, ROWLOCK_PESSIMISTIC, 30000);
    char *before = ts_session(mysql);
    begin(name);
    WANT(BUSY, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
    assert_true(in_transaction(mysql));
    rowlock_tx_options wait = {.wait_ms = 350};
    int64_t start = ts_now_ms();
    WANT(TIMEOUT, rowlock_tx_acquire(client, mysql, name, &wait, &ts_err));
    assert_between(349, ts_now_ms() - start, 350 + ts_slack_ms());
    assert_true(in_transaction(mysql));
    tx_waiter w = {
        .conn = mysql, .owner = client, .name = name, .options = {.wait_ms = -1, .cancel = cancel}};
    tx_start(&w);
    ts_pass_ms(200);
    int64_t fired = ts_now_ms();
    rowlock_cancel_fire(cancel);
    WANT(CANCELLED, tx_join(&w, 10000));
    assert_between(-1, w.ended_ms - fired, ts_slack_ms());
    assert_true(in_transaction(mysql));
    char *after = ts_session(mysql);
    assert_string_equal(before, after);
    free(before);
    free(after);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
    ts_sql(mysql, "COMMIT");
    assert_int_equal(rows_of(name), 1);
    rowlock_cancel_free(cancel);
}

static void test_a_wait_beyond_the_servers_patience(void **state)
{
    const char *name = ts_name("tx-patience");
    (void)state;
    rowlock_hold *hold = ts_take(other, name, ROWLOCK_PESSIMISTIC, 30000);
    ts_sql(mysql, "SET SESSION innodb_lock_wait_timeout = 1");
    begin(name);
    tx_waiter w = {.conn = mysql, .owner = client, .name = name, .options = {.wait_ms = -1}};
    tx_start(&w);
    ts_pass_ms(2500);
    assert_false(atomic_load(&w.ended));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, tx_join(&w, 10000));
    ts_sql(mysql, "COMMIT");
    ts_sql(mysql, "SET SESSION innodb_lock_wait_timeout = DEFAULT");
    assert_int_equal(rows_of(name), 1);
}

/* Not our user's connection: KILL QUERY is not ours to send. Still on time. */
static void test_another_users_connection(void **state)
{
    const char *name = ts_name("tx-user");
    const char *all = "SELECT, INSERT, UPDATE, DELETE, EXECUTE";
    rowlock_client_options options = ts_options();
    (void)state;
    options.user = ts_user("client", "one-pass", all, ts_schema());
    options.password = "one-pass";
    rowlock_client *weak = NULL;
    WANT(OK, rowlock_client_open(&options, &weak, &ts_err));
    MYSQL *own =
        ts_connect_as(ts_user("own", "two-pass", all, ts_schema()), "two-pass", ts_schema());
    rowlock_hold *hold = ts_take(other, name, ROWLOCK_PESSIMISTIC, 30000);
    ts_sql(own, "BEGIN");
    ts_sql(own, "INSERT INTO work (who) VALUES (%s)", ts_quote(name));
    rowlock_tx_options wait = {.wait_ms = 400};
    int64_t start = ts_now_ms();
    WANT(TIMEOUT, rowlock_tx_acquire(weak, own, name, &wait, &ts_err));
    assert_between(399, ts_now_ms() - start, 400 + ts_slack_ms());
    assert_true(in_transaction(own));
    tx_waiter w = {.conn = own, .owner = weak, .name = name, .options = {.wait_ms = 20000}};
    tx_start(&w);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, tx_join(&w, 10000));
    WANT(BUSY, ts_try(other, name, ROWLOCK_PESSIMISTIC));
    ts_sql(own, "COMMIT");
    assert_int_equal(rows_of(name), 1);
    mysql_close(own);
    rowlock_client_close(weak);
}

static void test_a_lease_is_not_for_a_transaction(void **state)
{
    const char *name = ts_name("tx-mode");
    (void)state;
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    begin(name);
    WANT(MODE, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
    assert_true(in_transaction(mysql));
    ts_sql(mysql, "ROLLBACK");
}

/* The server ends a deadlock by rolling us back: we are the lighter one. */
static void test_a_deadlock(void **state)
{
    const char *name = ts_name("tx-deadlock");
    MYSQL *heavy = ts_connect_beside();
    (void)state;
    ts_sql(mysql, "INSERT INTO work (who) VALUES ('row')");
    uint64_t row = mysql_insert_id(mysql);
    ts_sql(heavy, "BEGIN");
    ts_make_heavy(heavy);
    WANT(OK, rowlock_tx_acquire(other, heavy, name, NULL, &ts_err));
    begin(name);
    ts_sql(mysql, "UPDATE work SET n = 1 WHERE id = %" PRIu64, row);
    tx_waiter w = {.conn = mysql, .owner = client, .name = name, .options = {.wait_ms = 20000}};
    tx_start(&w);
    assert_true(ts_server_waits(watch, "%resource_lock%FOR UPDATE%", 10000));
    ts_sql(heavy, "UPDATE work SET n = 2 WHERE id = %" PRIu64, row);
    WANT(DEADLOCK, tx_join(&w, 10000));
    assert_false(in_transaction(mysql));
    ts_sql(heavy, "COMMIT");
    assert_int_equal(rows_of(name), 0);
    WANT(OK, ts_try(client, name, ROWLOCK_PESSIMISTIC));
    mysql_close(heavy);
}

static void test_a_killed_connection(void **state)
{
    const char *name = ts_name("tx-killed");
    MYSQL *own = ts_connect_beside();
    (void)state;
    rowlock_hold *hold = ts_take(other, name, ROWLOCK_PESSIMISTIC, 30000);
    ts_sql(own, "BEGIN");
    ts_sql(own, "INSERT INTO work (who) VALUES (%s)", ts_quote(name));
    tx_waiter w = {.conn = own, .owner = client, .name = name, .options = {.wait_ms = 20000}};
    unsigned long id = mysql_thread_id(own);
    tx_start(&w);
    assert_true(ts_server_waits(watch, "%resource_lock%FOR UPDATE%", 10000));
    ts_sql(watch, "KILL CONNECTION %lu", id);
    WANT(UNAVAILABLE, tx_join(&w, 10000));
    mysql_close(own);
    assert_int_equal(rows_of(name), 0);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* ---------------------------------------------------------------------------- fence */

static void test_a_fenced_commit(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("fence");
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    for (int i = 0; i < 2; i++) {
        begin(name);
        WANT(OK, rowlock_fence(hold, mysql, &ts_err));
        WANT(OK, rowlock_fence(hold, mysql, &ts_err));
        ts_sql(mysql, i == 0 ? "COMMIT" : "ROLLBACK");
    }
    assert_int_equal(rows_of(name), 1);
    assert_held(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_try(other, name, mode));
}

static void test_what_cannot_be_fenced(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("fence-none");
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    WANT(INVALID, rowlock_fence(hold, mysql, &ts_err));
    begin(name);
    WANT(INVALID, rowlock_fence(hold, NULL, &ts_err));
    const char *names[] = {ts_name("fence-set"), ts_name("fence-set")};
    rowlock_acquire_options options = {.mode = ROWLOCK_PESSIMISTIC};
    rowlock_hold *set = NULL;
    WANT(OK, rowlock_acquire_set(client, names, 2, &options, &set, &ts_err));
    WANT(INVALID, rowlock_fence(set, mysql, &ts_err));
    assert_true(in_transaction(mysql));
    ts_sql(mysql, "COMMIT");
    assert_int_equal(rows_of(name), 1);
    WANT(OK, rowlock_release(set, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
}

static void test_a_fence_after_the_loss(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("fence-lost");
    rowlock_hold *old = ts_take(client, name, mode, 30000);
    ts_expire(watch, name, mode);
    rowlock_hold *hold = ts_take(other, name, mode, 30000);
    begin(name);
    WANT(LOST, rowlock_fence(old, mysql, &ts_err));
    assert_true(in_transaction(mysql) || ts_via());
    ts_sql(mysql, "ROLLBACK");
    begin(name);
    WANT(OK, rowlock_fence(hold, mysql, &ts_err));
    ts_sql(mysql, "COMMIT");
    WANT(OK, rowlock_release(hold, &ts_err));
    /* Free again is not ours again. */
    begin(name);
    WANT(LOST, rowlock_fence(old, mysql, &ts_err));
    ts_sql(mysql, "ROLLBACK");
    WANT(LOST, rowlock_release(old, &ts_err));
    assert_int_equal(rows_of(name), 1);
}

static void test_a_fence_after_a_break(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("fence-broken");
    rowlock_hold *hold = ts_take(client, name, mode, 6000);
    WANT(OK, rowlock_break(other, name, NULL, &ts_err));
    begin(name);
    WANT(LOST, rowlock_fence(hold, mysql, &ts_err));
    ts_sql(mysql, "ROLLBACK");
    /* Once the client knows, the server need not be asked. */
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 30000));
    begin(name);
    WANT(LOST, rowlock_fence(hold, mysql, &ts_err));
    ts_sql(mysql, "ROLLBACK");
    WANT(LOST, rowlock_release(hold, &ts_err));
}

/* Fences alone write that column: who lacks the right to it can do all else. */
static void test_a_fence_without_its_right(void **state)
{
    static const struct {
        const char *right, *table;
    } others[] = {{"SELECT, INSERT", "*"},
                  {"UPDATE", "lease_renewal"},
                  {"UPDATE", "resource_lock"},
                  {"UPDATE (version, status, owner, owner_label, connection_id, acquired_at,"
                   " lease_expires_at, not_before, update_time)",
                   "resource"}};
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("fence-denied");
    const char *user = ts_user(ts_mode_word(mode), "a-password", NULL, NULL);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ts_sql(watch, "GRANT %s ON `%s`.%s TO '%s'@'localhost'", others[i].right, ts_schema(),
               others[i].table, user);
    rowlock_client_options options = ts_options();
    rowlock_client *theirs = NULL;
    options.user = user;
    options.password = "a-password";
    options.via = ROWLOCK_VIA_TABLES;
    WANT(OK, rowlock_client_open(&options, &theirs, &ts_err));
    MYSQL *own = ts_connect_as(user, "a-password", ts_schema());
    rowlock_hold *hold = ts_take(theirs, name, mode, 30000);
    ts_sql(own, "BEGIN");
    WANT(DENIED, rowlock_fence(hold, own, &ts_err));
    assert_non_null(strstr(ts_err.message, "GRANT UPDATE (fence_count) ON "));
    ts_sql(own, "ROLLBACK");
    ts_sql(watch, "GRANT UPDATE (fence_count) ON resource TO '%s'@'localhost'", user);
    ts_sql(own, "BEGIN");
    WANT(OK, rowlock_fence(hold, own, &ts_err));
    ts_sql(own, "COMMIT");
    WANT(OK, rowlock_release(hold, &ts_err));
    mysql_close(own);
    rowlock_client_close(theirs);
}

/* The holder is gone for everyone else; its transaction comes first all the same. */
static void test_a_take_over_waits_for_the_commit(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("fence-wait");
    rowlock_hold *old = ts_take(client, name, mode, 30000);
    uint64_t token = rowlock_hold_token(old);
    if (mode == ROWLOCK_OPTIMISTIC)
        ts_expire(watch, name, mode); /* nobody has taken it: still ours to fence */
    begin(name);
    WANT(OK, rowlock_fence(old, mysql, &ts_err));
    if (mode == ROWLOCK_PESSIMISTIC)
        ts_expire(watch, name, mode);
    ts_waiter waiter = {.client = other, .name = name};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 20000};
    ts_waiter_start(&waiter);
    assert_true(ts_server_waits(watch, "%resource%", 10000));
    ts_pass_ms(300);
    assert_false(ts_waiter_ended(&waiter));
    ts_sql(mysql, "COMMIT");
    WANT(OK, ts_waiter_join(&waiter, 10000));
    assert_true(rowlock_hold_token(waiter.hold) > token);
    assert_int_equal(rows_of(name), 1);
    WANT(LOST, rowlock_release(old, &ts_err));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
}

/* Its holder is gone, but not the transaction that it has fenced. */
static rowlock_hold *leave_fenced(const char *name, rowlock_mode mode)
{
    rowlock_hold *old = ts_take(client, name, mode, 30000);
    if (mode == ROWLOCK_OPTIMISTIC)
        ts_expire(watch, name, mode);
    begin(name);
    WANT(OK, rowlock_fence(old, mysql, &ts_err));
    if (mode == ROWLOCK_PESSIMISTIC)
        ts_expire(watch, name, mode);
    return old;
}

/* It may have been taken for nobody. */
static bool free_at_last(const char *name, rowlock_mode mode)
{
    ts_expire(watch, name, mode);
    return ts_try(other, name, mode) == ROWLOCK_OK;
}

static void test_a_wait_ends_on_time_at_a_fence(void **state)
{
    static const int64_t waits[] = {150, 400, 1700};
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("fence-wait-time");
    rowlock_hold *old = leave_fenced(name, mode);
    bool unknown = false;
    int64_t stood = ts_stood_ms();
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        rowlock_hold *none = NULL;
        rowlock_acquire_options options = {.mode = mode, .wait_ms = waits[i]};
        int64_t start = ts_now_ms();
        unknown |=
            WANT_TIMEOUT(mode, stood, rowlock_acquire(other, name, &options, &none, &ts_err));
        assert_between(waits[i] - 1, ts_now_ms() - start, waits[i] + ts_slack_ms());
    }
    ts_sql(mysql, "COMMIT");
    if (unknown)
        assert_true(POLL_UNTIL(free_at_last(name, mode), 10000));
    WANT(OK, ts_try(other, name, mode));
    WANT(LOST, rowlock_release(old, &ts_err));
}

/* A try does not hang on somebody's long transaction either. */
static void test_a_try_is_quick_at_a_fence(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("fence-try-time");
    rowlock_hold *old = leave_fenced(name, mode);
    int64_t start = ts_now_ms();
    WANT(BUSY, ts_try(other, name, mode));
    assert_between(0, ts_now_ms() - start, 200 + ts_slack_ms());
    ts_sql(mysql, "COMMIT");
    WANT(OK, ts_try(other, name, mode));
    WANT(LOST, rowlock_release(old, &ts_err));
}

static void test_it_is_kept_under_a_long_fence(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("fence-long");
    rowlock_hold *hold = ts_take(client, name, mode, TS_KEPT_TTL);
    begin(name);
    WANT(OK, rowlock_fence(hold, mysql, &ts_err));
    int64_t end = ts_now_ms() + TS_KEPT_FOR;
    while (ts_now_ms() < end) {
        assert_held(hold);
        WANT(BUSY, ts_try(other, name, mode));
        ts_pass_ms(50);
    }
    ts_sql(mysql, "COMMIT");
    assert_int_equal(rows_of(name), 1);
    assert_held(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* One client's long fence must not cost its other leases their renewal either. */
static void test_others_are_kept_under_a_long_fence(void **state)
{
    rowlock_hold *fenced = ts_take(client, ts_name("fence-one"), ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    rowlock_hold *plain = ts_take(client, ts_name("fence-two"), ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    (void)state;
    begin("fence-one");
    WANT(OK, rowlock_fence(fenced, mysql, &ts_err));
    ts_expire(watch, rowlock_hold_name(plain), ROWLOCK_OPTIMISTIC);
    ts_pass_ms(TS_KEPT_FOR);
    assert_held(fenced);
    assert_held(plain);
    ts_sql(mysql, "COMMIT");
    WANT(OK, rowlock_release(fenced, &ts_err));
    WANT(OK, rowlock_release(plain, &ts_err));
}

static void test_release_while_fenced(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("fence-release");
    int64_t ttl = 3000;
    rowlock_hold *hold = ts_take(client, name, mode, ttl);
    uint64_t token = rowlock_hold_token(hold);
    begin(name);
    WANT(OK, rowlock_fence(hold, mysql, &ts_err));
    /* A procedure that is stopped in the end may have been done. */
    rowlock_status busy = rowlock_release(hold, &ts_err);
    assert_true(busy == ROWLOCK_BUSY || (ts_via() && busy == ROWLOCK_UNKNOWN));
    WANT(BUSY, ts_try(other, name, mode));
    ts_sql(mysql, "COMMIT");
    assert_int_equal(rows_of(name), 1);
    int64_t start = ts_now_ms();
    rowlock_hold *next = ts_take(other, name, mode, 30000);
    assert_between(0, ts_now_ms() - start, ttl + 1000 + ts_slack_ms());
    assert_true(rowlock_hold_token(next) > token);
    WANT(OK, rowlock_release(next, &ts_err));
}

/* Who fences when the row is locked by a take-over in progress is told, not kept. */
static void test_a_fence_that_cannot_be_had(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = ts_name("fence-busy");
    MYSQL *second = ts_connect_beside();
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    begin(name);
    WANT(OK, rowlock_fence(hold, mysql, &ts_err));
    ts_sql(second, "SET SESSION innodb_lock_wait_timeout = 1");
    ts_sql(second, "BEGIN");
    ts_sql(second, "INSERT INTO work (who) VALUES ('second')");
    WANT(BUSY, rowlock_fence(hold, second, &ts_err));
    assert_true(in_transaction(second));
    ts_sql(mysql, "COMMIT");
    WANT(OK, rowlock_fence(hold, second, &ts_err));
    ts_sql(second, "COMMIT");
    WANT(OK, rowlock_release(hold, &ts_err));
    mysql_close(second);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONCE(test_it_needs_a_transaction),
        ONCE(test_it_ends_with_the_transaction),
        ONCE(test_without_a_default_schema),
        ONCE(test_transactions_exclude_each_other),
        ONCE(test_a_failed_wait_costs_nothing),
        ONCE(test_a_wait_beyond_the_servers_patience),
        ONCE(test_another_users_connection),
        ONCE(test_a_lease_is_not_for_a_transaction),
        ONCE(test_a_deadlock),
        ONCE(test_a_killed_connection),
        BOTH(test_a_fenced_commit),
        BOTH(test_what_cannot_be_fenced),
        BOTH(test_a_fence_after_the_loss),
        BOTH(test_a_fence_after_a_break),
        BOTH(test_a_fence_without_its_right),
        BOTH(test_a_take_over_waits_for_the_commit),
        BOTH(test_a_wait_ends_on_time_at_a_fence),
        BOTH(test_a_try_is_quick_at_a_fence),
        BOTH(test_it_is_kept_under_a_long_fence),
        ONCE(test_others_are_kept_under_a_long_fence),
        BOTH(test_release_while_fenced),
        BOTH(test_a_fence_that_cannot_be_had),
    };
    return cmocka_run_group_tests_name("transaction", tests, open_clients, close_clients);
}
