/* In the caller's own transaction: rowlock_tx_acquire(), rowlock_fence() and
 * rowlock_tx_latch_down(). */
#include "conformance/clients.h"
#include "rowlock/rowlock_latch.h"

static int open_with_rows(void **state)
{
    open_clients(state);
    mysql_close(mysql);
    mysql = ts_connect_beside();
    make_work();
    ts_grant_role(watch, "work");
    return 0;
}

static void begin_on(MYSQL *own, const char *name)
{
    ts_sql(own, "BEGIN");
    ts_sql(own, "INSERT INTO work (who) VALUES (%s)", ts_quote(name));
}

static void begin(const char *name)
{
    begin_on(mysql, name);
}

TS_ONCE(test_it_ends_with_the_transaction)
{
    static const char *const ends[] = {"COMMIT", "ROLLBACK"};
    for (unsigned i = 0; i < 2; i++) {
        const char *name = ts_name("tx-end");
        WANT(INVALID, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
        assert_false(in_transaction(mysql));
        WANT(OK, ts_try(other, name, ROWLOCK_PESSIMISTIC));
        begin(name);
        WANT(OK, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
        assert_true(in_transaction(mysql));
        WANT(BUSY, ts_try(other, name, ROWLOCK_PESSIMISTIC));
        WANT(BUSY, ts_try(client, name, ROWLOCK_PESSIMISTIC));
        /* A second acquire in the transaction changes nothing. */
        WANT(OK, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
        ts_sql(mysql, "%s", ends[i]);
        WANT(OK, ts_try(other, name, ROWLOCK_PESSIMISTIC));
        assert_int_equal(rows_of(name), i == 0);
    }
}

/* As with drivers that turn autocommit off: the first statement begins the transaction. */
TS_ONCE(test_without_autocommit)
{
    rowlock_hold *hold = ts_take(other, ts_name("no autocommit"), ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
    ts_sql(mysql, "SET autocommit = 0");
    WANT(OK, rowlock_fence(hold, mysql, &ts_err));
    assert_true(in_transaction(mysql));
    ts_sql(mysql, "ROLLBACK");
    WANT(OK, rowlock_tx_acquire(client, mysql, "no autocommit, row", NULL, &ts_err));
    WANT(BUSY, ts_try(other, "no autocommit, row", ROWLOCK_PESSIMISTIC));
    ts_sql(mysql, "ROLLBACK");
    ts_sql(mysql, "SET autocommit = 1");
    WANT(OK, rowlock_release(hold, &ts_err));
}

TS_ONCE(test_without_a_default_schema)
{
    const char *name = ts_name("tx-schema");
    TS_MYSQL *bare = ts_connect(NULL);
    ts_sql(bare, "BEGIN");
    ts_sql(bare, "INSERT INTO `%s`.work (who) VALUES ('bare')", ts_schema());
    WANT(OK, rowlock_tx_acquire(client, bare, name, NULL, &ts_err));
    char *schema = ts_sql_text(bare, "SELECT COALESCE(DATABASE(), 'none')");
    assert_string_equal(schema, "none");
    free(schema);
    WANT(BUSY, ts_try(other, name, ROWLOCK_PESSIMISTIC));
    ts_sql(bare, "ROLLBACK");
}

typedef struct tx_waiter {
    MYSQL *conn;
    rowlock_client *owner;
    const char *name;
    rowlock_tx_options options;
    bool counts; /* counts a latch down; false: takes a row lock */
    rowlock_status status;
    rowlock_error err;
    atomic_bool ended;
    int64_t ended_ms;
    pthread_t thread;
} tx_waiter;

static void *wait_in_transaction(void *arg)
{
    tx_waiter *w = arg;
    w->status = w->counts ? rowlock_tx_latch_down(w->owner, w->conn, w->name, NULL, 0, &w->err)
                          : rowlock_tx_acquire(w->owner, w->conn, w->name, &w->options, &w->err);
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

/* After BUSY, TIMEOUT, CANCELLED the transaction has lost nothing. */
TS_ONCE(test_a_failed_wait_costs_nothing)
{
    const char *name = ts_name("tx-fail");
    TS_CANCEL *cancel = ts_cancel();
    rowlock_hold *hold = ts_take(other, name, ROWLOCK_PESSIMISTIC, 30000);
    char *before = ts_session(mysql);
    begin(name);
    WANT(BUSY, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
    assert_true(in_transaction(mysql));
    rowlock_tx_options wait = {.wait_ms = 350};
    WANT_WITHIN(TIMEOUT, 349, 350, rowlock_tx_acquire(client, mysql, name, &wait, &ts_err));
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
    ts_same(before, ts_session(mysql));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
    ts_sql(mysql, "COMMIT");
    assert_int_equal(rows_of(name), 1);
}

TS_ONCE(test_a_wait_beyond_the_servers_patience)
{
    const char *name = ts_name("tx-patience");
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

/* Another user's connection, for which we may not send KILL QUERY: still in time. */
TS_ONCE(test_another_users_connection)
{
    const char *name = ts_name("tx-user");
    const char *all = "SELECT, INSERT, UPDATE, DELETE, EXECUTE";
    TS_CLIENT *weak = ts_open_as((rowlock_client_options){
        .user = ts_user("client", "one-pass", all, ts_schema()), .password = "one-pass"});
    TS_MYSQL *own =
        ts_connect_as(ts_user("own", "two-pass", all, ts_schema()), "two-pass", ts_schema());
    rowlock_hold *hold = ts_take(other, name, ROWLOCK_PESSIMISTIC, 30000);
    begin_on(own, name);
    rowlock_tx_options wait = {.wait_ms = 400};
    WANT_WITHIN(TIMEOUT, 399, 400, rowlock_tx_acquire(weak, own, name, &wait, &ts_err));
    assert_true(in_transaction(own));
    WANT(OK, rowlock_release(hold, &ts_err));
    wait.wait_ms = 20000;
    WANT(OK, rowlock_tx_acquire(weak, own, name, &wait, &ts_err));
    WANT(BUSY, ts_try(other, name, ROWLOCK_PESSIMISTIC));
    ts_sql(own, "COMMIT");
    assert_int_equal(rows_of(name), 1);
}

TS_ONCE(test_a_lease_is_not_for_a_transaction)
{
    const char *name = ts_name("tx-mode");
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    begin(name);
    WANT(MODE, rowlock_tx_acquire(client, mysql, name, NULL, &ts_err));
    assert_true(in_transaction(mysql));
    ts_sql(mysql, "ROLLBACK");
}

/* The server ends a deadlock by rolling us back, since we have changed fewer rows. */
TS_ONCE(test_a_deadlock)
{
    const char *name = ts_name("tx-deadlock");
    TS_MYSQL *heavy = ts_connect_beside();
    ts_sql(mysql, "INSERT INTO work (who) VALUES ('row')");
    uint64_t row = mysql_insert_id(mysql);
    ts_sql(heavy, "BEGIN");
    ts_make_heavy(heavy);
    WANT(OK, rowlock_tx_acquire(other, heavy, name, NULL, &ts_err));
    begin(name);
    ts_sql(mysql, "UPDATE work SET n = 1 WHERE id = %" PRIu64, row);
    tx_waiter w = {.conn = mysql, .owner = client, .name = name, .options = {.wait_ms = 20000}};
    tx_start(&w);
    assert_true(ts_row_waits(watch, "resource_lock", 10000));
    ts_sql(heavy, "UPDATE work SET n = 2 WHERE id = %" PRIu64, row);
    WANT(DEADLOCK, tx_join(&w, 10000));
    assert_false(in_transaction(mysql));
    ts_sql(heavy, "COMMIT");
    assert_int_equal(rows_of(name), 0);
    WANT(OK, ts_try(client, name, ROWLOCK_PESSIMISTIC));
}

TS_ONCE(test_a_killed_connection)
{
    const char *name = ts_name("tx-killed");
    MYSQL *own = ts_connect_beside();
    TS_HOLD *hold = ts_take(other, name, ROWLOCK_PESSIMISTIC, 30000);
    begin_on(own, name);
    tx_waiter w = {.conn = own, .owner = client, .name = name, .options = {.wait_ms = 20000}};
    unsigned long id = mysql_thread_id(own);
    tx_start(&w);
    assert_true(ts_row_waits(watch, "resource_lock", 10000));
    ts_sql(watch, "KILL CONNECTION %lu", id);
    WANT(UNAVAILABLE, tx_join(&w, 10000));
    mysql_close(own);
    assert_int_equal(rows_of(name), 0);
}

TS_BOTH(test_what_can_be_neither_fenced_nor_presented)
{
    const char *name = ts_name("fence-none");
    TS_HOLD *hold = ts_take(client, name, mode, 30000);
    WANT(INVALID, rowlock_fence(hold, mysql, &ts_err));
    begin(name);
    WANT(INVALID, rowlock_fence(hold, NULL, &ts_err));
    const char *names[] = {ts_name("fence-set"), ts_name("fence-set")};
    rowlock_acquire_options options = {.mode = ROWLOCK_PESSIMISTIC};
    TS_HOLD *set = NULL;
    WANT(OK, rowlock_acquire_set(client, names, 2, &options, &set, &ts_err));
    options.unfenced = true;
    TS_HOLD *bare = ts_take_with(client, ts_name("fence-bare"), options);
    rowlock_hold *const none[] = {NULL, set, bare};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        WANT(INVALID, rowlock_fence(none[i], mysql, &ts_err));
        WANT(INVALID, rowlock_present(none[i], mysql, &ts_err));
    }
    WANT(INVALID, rowlock_present(hold, NULL, &ts_err));
    assert_true(in_transaction(mysql));
    ts_sql(mysql, "COMMIT");
    assert_int_equal(rows_of(name), 1);
}

/* Only fences write that column: a user without the right to it can do everything else. */
TS_BOTH(test_a_fence_without_its_right)
{
    static const struct {
        const char *right, *table;
    } others[] = {{"SELECT, INSERT", "*"},
                  {"UPDATE", "lease_renewal"},
                  {"UPDATE", "resource_lock"},
                  {"UPDATE (version, status, owner, owner_label, connection_id, acquired_at,"
                   " lease_expires_at, not_before, frozen_until, guarded, update_time)",
                   "resource"}};
    const char *name = ts_name("fence-denied");
    const char *user = ts_user(ts_mode_word(mode), "a-password", NULL, NULL);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        ts_sql(watch, "GRANT %s ON `%s`.%s TO '%s'@'localhost'", others[i].right, ts_schema(),
               others[i].table, user);
    /* The account's host is not the connection's. */
    ts_sql(watch, "RENAME USER '%s'@'localhost' TO '%s'@'local%%'", user, user);
    rowlock_client_options options = ts_options();
    options.user = user;
    options.password = "a-password";
    options.via = ROWLOCK_VIA_TABLES;
    rowlock_client *theirs = ts_open_with(options);
    MYSQL *own = ts_connect_as(user, "a-password", ts_schema());
    rowlock_hold *hold = ts_take(theirs, name, mode, 30000);
    ts_sql(own, "BEGIN");
    WANT(DENIED, rowlock_fence(hold, own, &ts_err));
    const char *grant = strstr(ts_err.message, "GRANT UPDATE (fence_count) ON ");
    assert_non_null(grant);
    ts_sql(own, "ROLLBACK");
    ts_sql(watch, "%.*s", (int)strcspn(grant, ";"), grant);
    ts_sql(own, "BEGIN");
    WANT(OK, rowlock_fence(hold, own, &ts_err));
    ts_sql(own, "COMMIT");
    WANT(OK, rowlock_release(hold, &ts_err));
    mysql_close(own);
    rowlock_client_close(theirs);
    ts_sql(watch, "RENAME USER '%s'@'local%%' TO '%s'@'localhost'", user, user);
}

/* The holder has died, but the transaction that it has fenced goes on. */
static rowlock_hold *leave_fenced(const char *name, rowlock_mode mode)
{
    rowlock_hold *old = ts_take(client, name, mode, 30000);
    if (mode == ROWLOCK_OPTIMISTIC)
        ts_expire(watch, name, mode); /* until somebody takes it, it may be fenced */
    begin(name);
    WANT(OK, rowlock_fence(old, mysql, &ts_err));
    if (mode == ROWLOCK_PESSIMISTIC)
        ts_expire(watch, name, mode);
    return old;
}

/* It may have been granted to a call that has ended. */
static bool free_at_last(const char *name, rowlock_mode mode)
{
    ts_expire(watch, name, mode);
    return ts_try(other, name, mode) == ROWLOCK_OK;
}

/* Somebody's transaction has the row, though nobody holds the name: a try waits for it once, as
 * long as the server lets it (a second). (root's: one with EXECUTE alone may not.) */
TS_ONCE(test_tries_at_a_free_name_that_is_locked)
{
    const char *name = ts_name("free-locked");
    const rowlock_acquire_options reader = {.shared = true};
    rowlock_hold *hold = NULL;
    WANT(OK, ts_try(other, name, ROWLOCK_OPTIMISTIC));
    ts_sql(watch, "BEGIN");
    ts_sql(watch, "SELECT id FROM resource WHERE resource_name = %s FOR UPDATE", ts_quote(name));
    WANT_WITHIN(BUSY, 0, 2500, ts_try(other, name, ROWLOCK_OPTIMISTIC));
    assert_non_null(strstr(ts_err.message, "transaction"));
    WANT_WITHIN(BUSY, 0, 2500, rowlock_acquire(other, name, &reader, &hold, &ts_err));
    assert_non_null(strstr(ts_err.message, "transaction"));
    ts_sql(watch, "ROLLBACK");
    WANT(OK, ts_try(other, name, ROWLOCK_OPTIMISTIC));
}

/* Neither a wait nor a try is held up by a long transaction. */
TS_BOTH(test_a_wait_ends_on_time_at_a_fence)
{
    static const int64_t waits[] = {150, 400, 1700};
    const char *name = ts_name("fence-wait-time");
    rowlock_hold *old = leave_fenced(name, mode);
    size_t unknown = 0;
    int64_t strain = ts_strain_ms();
    WANT_WITHIN(BUSY, 0, 600, ts_try(other, name, mode));
    assert_non_null(strstr(ts_err.message, "transaction"));
    for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) {
        rowlock_hold *none = NULL;
        rowlock_acquire_options options = {.mode = mode, .wait_ms = waits[i]};
        int64_t start = ts_now_ms();
        unknown +=
            WANT_TIMEOUT(mode, strain, rowlock_acquire(other, name, &options, &none, &ts_err));
        assert_between(waits[i] - 1, ts_now_ms() - start, waits[i] + ts_slack_ms());
    }
    assert_true(unknown < sizeof waits / sizeof waits[0]);
    ts_sql(mysql, "COMMIT");
    if (unknown > 0)
        assert_true(POLL_UNTIL(free_at_last(name, mode), 10000));
    WANT(OK, ts_try(other, name, mode));
    WANT(LOST, rowlock_release(old, &ts_err));
}

/* A long fence does not delay renewals of the client's other leases. */
TS_BOTH(test_it_is_kept_under_a_long_fence)
{
    const char *name = ts_name("fence-long");
    TS_HOLD *hold = ts_take(client, name, mode, TS_KEPT_TTL);
    TS_HOLD *plain = ts_take(client, ts_name("fence-not"), mode, TS_KEPT_TTL);
    begin(name);
    WANT(OK, rowlock_fence(hold, mysql, &ts_err));
    if (mode == ROWLOCK_OPTIMISTIC)
        ts_expire(watch, rowlock_hold_name(plain), mode);
    stays_held(hold);
    assert_held(plain);
    ts_sql(mysql, "COMMIT");
    assert_int_equal(rows_of(name), 1);
    assert_held(hold);
}

TS_BOTH(test_release_while_fenced)
{
    const char *name = ts_name("fence-release");
    int64_t ttl = TS_KEPT_TTL;
    rowlock_hold *hold = ts_take(client, name, mode, ttl);
    uint64_t token = rowlock_hold_token(hold);
    begin(name);
    WANT(OK, rowlock_fence(hold, mysql, &ts_err));
    /* A procedure that was stopped at the end may have taken effect. */
    rowlock_status busy = rowlock_release(hold, &ts_err);
    assert_true(busy == ROWLOCK_BUSY || (ts_via() && busy == ROWLOCK_UNKNOWN));
    WANT(BUSY, ts_try(other, name, mode));
    ts_sql(mysql, "COMMIT");
    assert_int_equal(rows_of(name), 1);
    int64_t start = ts_now_ms();
    TS_HOLD *next = ts_take(other, name, mode, 30000);
    assert_between(0, ts_now_ms() - start, ttl + 1000 + ts_slack_ms());
    assert_true(rowlock_hold_token(next) > token);
}

/* A fence on a row that a take-over has locked fails, and does not wait. */
TS_BOTH(test_a_fence_that_cannot_be_had)
{
    const char *name = ts_name("fence-busy");
    TS_MYSQL *second = ts_connect_beside();
    TS_HOLD *hold = ts_take(client, name, mode, 30000);
    begin(name);
    WANT(OK, rowlock_fence(hold, mysql, &ts_err));
    ts_sql(second, "SET SESSION innodb_lock_wait_timeout = 1");
    begin_on(second, "second");
    WANT(BUSY, rowlock_fence(hold, second, &ts_err));
    assert_true(in_transaction(second));
    ts_sql(mysql, "COMMIT");
    WANT(OK, rowlock_fence(hold, second, &ts_err));
    ts_sql(second, "COMMIT");
}

/* --------------------------------------------------------------------------- latches */

static uint64_t set_latch(const char *name, unsigned count)
{
    uint64_t generation = 0;
    WANT(OK, rowlock_latch_set(other, name, count, &generation, &ts_err));
    return generation;
}

/* The count that others see. */
static unsigned counted(const char *name)
{
    rowlock_latch_info info = {.count = 0};
    WANT(OK, rowlock_latch_get(other, name, &info, &ts_err));
    return info.down;
}

static void is_open(const char *name)
{
    WANT(OK, rowlock_latch_wait(other, name, NULL, NULL, &ts_err));
}

static rowlock_status count_down(const char *name, const char *key, uint64_t generation)
{
    return rowlock_tx_latch_down(client, mysql, name, key, generation, &ts_err);
}

TS_ONCE(test_a_count_is_the_transactions)
{
    static const char *const ends[] = {"ROLLBACK", "COMMIT"};
    const char *name = "tx 'latch' \\ \"`; --";
    const char *key = "\\'); DROP TABLE latch_down; -- \xd0\xba\xd0\xbb\xd1\x8e\xd1\x87";
    uint64_t generation = set_latch(name, 3);
    for (unsigned i = 0; i < 2; i++) {
        begin(name);
        uint64_t row = mysql_insert_id(mysql);
        WANT(OK, count_down(name, key, 0));
        WANT(OK, count_down(name, key, generation)); /* the same key counts once */
        assert_true(in_transaction(mysql));
        assert_int_equal(ts_sql_u64(mysql, "SELECT LAST_INSERT_ID()"), row);
        assert_int_equal(counted(name), 0);
        ts_sql(mysql, "%s", ends[i]);
        assert_int_equal(counted(name), i);
        assert_int_equal(rows_of(name), i);
    }
    assert_int_equal(
        ts_sql_u64(watch, "SELECT COUNT(*) FROM latch_down WHERE down_key = %s", ts_quote(key)), 1);
    begin(name);
    WANT(OK, count_down(name, NULL, 0));
    WANT(OK, count_down(name, NULL, generation));
    WANT(BUSY, rowlock_latch_wait(other, name, NULL, NULL, &ts_err));
    ts_sql(mysql, "COMMIT");
    is_open(name);
    assert_int_equal(rows_of(name), 2);
}

TS_ONCE(test_what_cannot_be_counted)
{
    static const char *const no_keys[] = {"", " key", "key ", "k\ney", "\xff"};
    const char *name = ts_name("tx-latch-none");
    const char *lease = ts_name("tx-latch-lease");
    WANT(OK, ts_try(other, lease, ROWLOCK_OPTIMISTIC));
    WANT(INVALID, count_down(name, NULL, 0)); /* not in a transaction */
    begin(name);
    WANT(INVALID, rowlock_tx_latch_down(client, NULL, name, NULL, 0, &ts_err));
    WANT(INVALID, rowlock_tx_latch_down(NULL, mysql, name, NULL, 0, &ts_err));
    WANT(INVALID, count_down(NULL, NULL, 0));
    for (size_t i = 0; i < sizeof no_keys / sizeof no_keys[0]; i++)
        WANT(INVALID, count_down(name, no_keys[i], 0));
    WANT(NOT_FOUND, count_down(name, NULL, 0));
    WANT(MODE, count_down(lease, NULL, 0));
    uint64_t generation = set_latch(name, 1);
    WANT(NOT_FOUND, count_down(name, NULL, generation + 1));
    assert_true(in_transaction(mysql));
    assert_int_equal(counted(name), 0);
    ts_sql(mysql, "COMMIT");
    assert_int_equal(rows_of(name), 1);
}

TS_ONCE(test_a_generation_that_has_ended)
{
    const char *name = ts_name("tx-latch-ended");
    uint64_t broken = set_latch(name, 1);
    WANT(OK, rowlock_break(other, name, "test", &ts_err));
    begin(name);
    WANT(LOST, count_down(name, NULL, 0));
    WANT(LOST, count_down(name, NULL, broken));
    assert_true(in_transaction(mysql));
    ts_sql(mysql, "COMMIT");
    uint64_t next = set_latch(name, 1);
    begin(name);
    WANT(LOST, count_down(name, NULL, broken));
    WANT(OK, count_down(name, NULL, next));
    ts_sql(mysql, "COMMIT");
    is_open(name);
    begin(name);
    WANT(OK, count_down(name, NULL, next)); /* open already */
    assert_true(in_transaction(mysql));
    ts_sql(mysql, "COMMIT");
    assert_int_equal(rows_of(name), 3);
}

/* Until its transaction ends nobody breaks the latch, also if the server's INSERT ... SELECT locks
 * nothing by itself. */
TS_ONCE(test_a_count_keeps_its_generation)
{
    static const char *const levels[] = {"READ COMMITTED", "REPEATABLE READ"};
    TS_CLIENT *root = ts_open_as_root();
    for (unsigned i = 0; i < 2; i++) {
        const char *name = ts_name("tx-latch-kept");
        (void)set_latch(name, 2);
        ts_sql(mysql, "SET SESSION TRANSACTION ISOLATION LEVEL %s", levels[i]);
        begin(name);
        WANT(OK, count_down(name, NULL, 0));
        WANT(BUSY, rowlock_break(root, name, NULL, &ts_err));
        ts_sql(mysql, "COMMIT");
        assert_int_equal(counted(name), 1);
        WANT(OK, rowlock_latch_down(other, name, NULL, 0, &ts_err));
        is_open(name);
    }
}

/* The snapshot is older than the latch. (With innodb_snapshot_isolation, the server would end the
 * transaction: DEADLOCK.) */
TS_ONCE(test_a_count_does_not_believe_an_old_snapshot)
{
    const char *name = ts_name("tx-latch-old");
    ts_sql(mysql, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    ts_sql(mysql, "SET @x = 1 /*M! , SESSION innodb_snapshot_isolation = OFF */");
    ts_sql(mysql, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
    uint64_t generation = set_latch(name, 1);
    WANT(OK, count_down(name, NULL, generation));
    ts_sql(mysql, "COMMIT");
    is_open(name);
    ts_sql(mysql, "SET @x = 1 /*M! , SESSION innodb_snapshot_isolation = DEFAULT */");
}

/* By another transaction, which has the latch's row locked. */
TS_ONCE(test_a_count_that_is_kept_waiting)
{
    const char *name = ts_name("tx-latch-busy");
    TS_MYSQL *second = ts_connect(ts_schema());
    (void)set_latch(name, 1);
    ts_sql(mysql, "SET SESSION innodb_lock_wait_timeout = 1");
    ts_sql(second, "BEGIN");
    ts_sql(second, "SELECT id FROM resource WHERE resource_name = %s FOR UPDATE", ts_quote(name));
    begin(name);
    WANT(BUSY, count_down(name, NULL, 0));
    assert_true(in_transaction(mysql));
    ts_sql(second, "COMMIT");
    WANT(OK, count_down(name, NULL, 0));
    ts_sql(mysql, "COMMIT");
    ts_sql(mysql, "SET SESSION innodb_lock_wait_timeout = DEFAULT");
    is_open(name);
    assert_int_equal(rows_of(name), 1);
}

/* The server ends it by rolling us back, since we have changed fewer rows. */
TS_ONCE(test_a_count_in_a_deadlock)
{
    const char *name = ts_name("tx-latch-deadlock");
    TS_MYSQL *heavy = ts_connect(ts_schema());
    (void)set_latch(name, 1);
    ts_sql(mysql, "INSERT INTO work (who) VALUES ('row')");
    uint64_t row = mysql_insert_id(mysql);
    ts_sql(heavy, "BEGIN");
    ts_make_heavy(heavy);
    ts_sql(heavy, "SELECT id FROM resource WHERE resource_name = %s FOR UPDATE", ts_quote(name));
    begin(name);
    ts_sql(mysql, "UPDATE work SET n = 1 WHERE id = %" PRIu64, row);
    tx_waiter w = {.conn = mysql, .owner = client, .name = name, .counts = true};
    tx_start(&w);
    assert_true(ts_row_waits(watch, "resource", 10000));
    ts_sql(heavy, "UPDATE work SET n = 2 WHERE id = %" PRIu64, row);
    WANT(DEADLOCK, tx_join(&w, 10000));
    assert_false(in_transaction(mysql));
    ts_sql(heavy, "COMMIT");
    assert_int_equal(rows_of(name), 0);
    assert_int_equal(counted(name), 0);
}

TS_MAIN("transaction", open_with_rows, close_clients)
