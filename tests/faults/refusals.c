/*
 * A server that refuses: no connection is left, rows are locked by others for longer than it waits,
 * statements end with a deadlock (1213) or because of a change since the snapshot (1020). Each gets
 * a clear status in time; afterwards everything goes on.
 */
#include "faults/through.h"

#define PASSWORD "refusals"
#define ALL      "SELECT, INSERT, UPDATE, DELETE"

static rowlock_client_options options_of(const char *user)
{
    rowlock_client_options options = ts_options();
    options.user = user;
    options.password = PASSWORD;
    options.reconnect_ms = 20000;
    return options;
}

enum { HOGS = 40 };

static MYSQL *hogs[HOGS];

/* Fills the server: nobody gets a new connection; existing ones stay. */
static void fill(const char *user)
{
    for (int i = 0; i < HOGS; i++)
        hogs[i] = ts_connect_as(user, PASSWORD, NULL);
    ts_sql(mysql, "SET GLOBAL max_connections = 10");
}

static void empty(void)
{
    ts_sql(mysql, "SET GLOBAL max_connections = 500");
    for (int i = 0; i < HOGS; i++)
        mysql_close(hogs[i]);
}

TS_BOTH(test_no_connection_is_left)
{
    const char *name = ts_name("full");
    const char *user = ts_user(mode ? "holdp" : "holdl", PASSWORD, ALL, ts_schema());
    const char *hog = ts_user(mode ? "hogp" : "hogl", PASSWORD, ALL, ts_schema());
    TS_CLIENT *holder = ts_open_with(options_of(user));
    TS_CLIENT *waiting = ts_open_with(options_of(hog));
    rowlock_client *none = NULL;
    rowlock_hold *hold = ts_take(holder, name, mode, TS_KEPT_TTL);
    uint64_t token = rowlock_hold_token(hold);
    TS_WAITER waiter = ts_wait(waiting, name, mode, 300000, 30000);
    ts_pass_ms(300);
    fill(hog);
    int64_t start = ts_now_ms();
    const rowlock_client_options options = options_of(user);
    WANT(UNAVAILABLE, rowlock_client_open(&options, &none, &ts_err));
    assert_int_equal(ts_err.server_errno, 1040);
    assert_between(0, ts_now_ms() - start, 5000 + ts_slack_ms());
    /* A holder that has its connections does not notice. */
    ASSERT_KEPT(hold, TS_KEPT_FOR);
    assert_false(ts_waiter_ended(&waiter));
    /* Without connections a lease cannot be renewed: its holder is told in time, as a row
     * lock's. */
    kill_all_of(user, "CONNECTION");
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    /* At the moment of its deadline, UNAVAILABLE is right, too. */
    rowlock_status status = rowlock_release(hold, &ts_err);
    assert_true(status == ROWLOCK_LOST || status == ROWLOCK_UNAVAILABLE);
    /* A call that may wait waits for a connection, too. */
    ts_waiter patient = ts_wait(holder, ts_name("full-other"), mode, 60000, 30000);
    ts_pass_ms(500);
    assert_false(ts_waiter_ended(&patient));
    empty();
    WANT(OK, ts_waiter_join(&patient, 20000));
    WANT(OK, rowlock_release(patient.hold, &ts_err));
    ASSERT_GETS_IN(&waiter, token, 20000);
    WANT(BUSY, ts_try(holder, name, mode));
}

/* The server's limit is a second; the waiter waits longer. */
TS_BOTH(test_a_wait_beyond_the_servers_patience)
{
    const char *name = ts_name("patience");
    ts_sql(mysql, "SET GLOBAL innodb_lock_wait_timeout = 1");
    TS_CLIENT *waiting = ts_open();
    rowlock_hold *hold = ts_take(direct, name, mode, 30000);
    ts_waiter waiter = ts_wait(waiting, name, mode, 60000, 30000);
    ts_pass_ms(2500);
    assert_false(ts_waiter_ended(&waiter));
    ts_hand_over(hold, &waiter, 10000);
    ts_sql(mysql, "SET GLOBAL innodb_lock_wait_timeout = 50");
}

/* A stranger has the renewal's row locked for longer than the TTL: the keeper does not hang, and
 * the holder is told before anybody else can acquire. */
TS_ONCE(test_the_renewal_is_locked_by_a_stranger)
{
    const char *name = ts_name("renewal");
    TS_MYSQL *stranger = ts_connect(ts_schema());
    TS_CLIENT *client = ts_open();
    TS_CLIENT *waiting = ts_open();
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 1500);
    uint64_t token = rowlock_hold_token(hold);
    ts_sql(stranger, "START TRANSACTION");
    ts_sql(stranger,
           "SELECT 1 FROM lease_renewal l JOIN resource r ON r.id = l.id"
           " WHERE r.resource_name = '%s' FOR UPDATE",
           name);
    TS_WAITER waiter = ts_wait(waiting, name, ROWLOCK_OPTIMISTIC, 60000, 30000);
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    assert_false(ts_waiter_ended(&waiter)); /* the acquire writes that row, too */
    ts_sql(stranger, "ROLLBACK");
    ASSERT_GETS_IN(&waiter, token, 10000);
    WANT(LOST, rowlock_release(hold, &ts_err));
}

typedef struct initing {
    const char *schema;
    rowlock_status status;
    rowlock_error err;
    atomic_bool ended;
} initing;

static void *init_schema(void *data)
{
    initing *i = data;
    const rowlock_client_options options = ts_options_on(i->schema);
    i->status = rowlock_migrate(&options, NULL, NULL, &i->err);
    atomic_store(&i->ended, true);
    return NULL;
}

static bool waits_for_long(const char *schema)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM " TS_PROCESSLIST " WHERE db = '%s' AND time >= 2",
                      schema) > 0;
}

/* Another DDL, or the server itself, has rows locked that every DDL writes. */
TS_ONCE(test_init_beside_the_statistics)
{
    TS_MYSQL *stranger = ts_connect(NULL);
    initing init = {.schema = ts_extra_schema("stats", false)};
    pthread_t thread;
    ts_sql(stranger, "START TRANSACTION");
    (void)ts_sql_u64(stranger, "SELECT COUNT(*) FROM mysql.innodb_table_stats FOR UPDATE");
    assert_int_equal(pthread_create(&thread, NULL, init_schema, &init), 0);
    (void)POLL_UNTIL(atomic_load(&init.ended) || waits_for_long(init.schema), 20000);
    ts_sql(stranger, "ROLLBACK");
    assert_int_equal(pthread_join(thread, NULL), 0);
    ts_err = init.err;
    WANT(OK, init.status);
}

static const unsigned numbers[] = {1205, 1213, 1020};

/* The error means that somebody else was in the way: a waiting acquire asks again. */
TS_BOTH(test_forced_at_an_acquire)
{
    TS_CLIENT *client = through_open();
    const char *name = ts_name("forced");
    WANT(OK, ts_try(client, name, mode));
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        TS_HOLD *hold = NULL;
        print_message("# %u\n", numbers[i]);
        ts_proxy_answer(proxy, numbers[i], taking(mode), 2);
        WANT(OK, acquire_kept(client, name, mode, 10000, &hold));
        assert_int_equal(ts_proxy_answers_left(proxy), 0);
    }
}

/* The statements that keep a lock fail so often, with each of these errors; then the lock is kept
 * as usual. */
static void keep_through(rowlock_mode mode, const char *statements, const unsigned *with,
                         size_t count, unsigned times)
{
    TS_CLIENT *client = through_open();
    TS_HOLD *hold = ts_take(client, ts_name("forced-keeping"), mode, TS_KEPT_TTL);
    for (size_t i = 0; i < count; i++) {
        print_message("# %s: %u\n", statements, with[i]);
        ts_proxy_answer(proxy, with[i], statements, times);
        bool answered = POLL_UNTIL(
            rowlock_hold_check(hold) != ROWLOCK_OK || ts_proxy_answers_left(proxy) == 0, 10000);
        assert_held(hold);
        assert_true(answered);
    }
    ASSERT_KEPT(hold, TS_KEPT_FOR);
}

/* Failed renewals are repeated in time. */
TS_ONCE(test_forced_at_a_renewal)
{
    keep_through(ROWLOCK_OPTIMISTIC, "lease_renew", numbers, 3, 2);
}

#define PROBE "session_probe session_probe_node"

/* A KILL QUERY, a time limit or a quota may hit the probe whether the server is still writable:
 * that proves nothing about the server, or about the row lock, which its holder keeps. */
TS_ONCE(test_stopped_probes)
{
    static const unsigned stopped[] = {1317, 1969, 3024, 1226};
    keep_through(ROWLOCK_PESSIMISTIC, PROBE, stopped, 4, 3);
}

/* A probe that never succeeds is no proof. */
TS_ONCE(test_probes_are_always_stopped)
{
    TS_CLIENT *client = through_open();
    ts_loss told = {0};
    rowlock_hold *hold = ts_take_with(client, ts_name("stopped-always"),
                                      (rowlock_acquire_options){.mode = ROWLOCK_PESSIMISTIC,
                                                                .wait_ms = 10000,
                                                                .ttl_ms = TS_KEPT_TTL,
                                                                .on_lost = ts_on_lost,
                                                                .on_lost_data = &told});
    ts_proxy_answer(proxy, 1317, PROBE, 1000000);
    /* The keeper has seen it, too: the release reports its reason. */
    assert_true(POLL_UNTIL(atomic_load(&told.times) > 0, 10000));
    assert_int_equal(rowlock_hold_check(hold), ROWLOCK_LOST);
    ts_proxy_answer(proxy, 0, NULL, 0);
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_non_null(strstr(ts_err.message, "did not answer a ping in time"));
}

static uint64_t kills_sent(void)
{
    return ts_sql_u64(mysql, "SELECT variable_value FROM information_schema.global_status"
                             " WHERE variable_name = 'Com_kill'");
}

/* The server has answered a probe so, and the reply is still on its way. Stopped: the lock is
 * released on its connection, which does not count as broken. 1242: the server is not the primary
 * any more. */
TS_ONCE(test_a_release_behind_a_probe)
{
    static const unsigned answers[] = {1317, 1242};
    for (int i = 0; i < 2; i++) {
        const char *name = ts_name("release-behind-probe");
        TS_CLIENT *client = through_open();
        print_message("# the probe is answered %u\n", answers[i]);
        WANT(OK, ts_try(client, name, ROWLOCK_PESSIMISTIC));
        rowlock_hold *hold = ts_take(client, name, ROWLOCK_PESSIMISTIC, TS_KEPT_TTL);
        ts_proxy_delay(proxy, 0, 500);
        ts_proxy_answer(proxy, answers[i], PROBE, 1);
        assert_true(POLL_UNTIL(ts_proxy_answers_left(proxy) == 0, 10000));
        ts_proxy_delay(proxy, 0, 0);
        uint64_t sent = kills_sent();
        if (answers[i] == 1242) {
            WANT(LOST, rowlock_release(hold, &ts_err));
        } else {
            WANT(OK, rowlock_release(hold, &ts_err));
            assert_int_equal(kills_sent(), sent);
            WANT(OK, ts_try(direct, name, ROWLOCK_PESSIMISTIC));
        }
    }
}

/* Under REPEATABLE READ the caller's snapshot is older than the lock: MariaDB with
 * innodb_snapshot_isolation ends the transaction. That is reported as a deadlock; the next try
 * works. */
TS_BOTH(test_a_fence_behind_its_snapshot)
{
    const char *name = ts_name("snapshot");
    if (ts_sql_try(mysql, "SET GLOBAL innodb_snapshot_isolation = ON") != 0) {
        print_message("# no innodb_snapshot_isolation here\n");
        skip();
    }
    TS_MYSQL *work = ts_connect(ts_schema());
    TS_CLIENT *client = ts_open();
    ts_sql(work, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ");
    ts_sql(work, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
    rowlock_hold *hold = ts_take(client, name, mode, 30000);
    WANT(DEADLOCK, rowlock_fence(hold, work, &ts_err));
    assert_int_equal(ts_err.server_errno, 1020);
    assert_held(hold);
    ts_sql(work, "ROLLBACK");
    ts_sql(work, "START TRANSACTION WITH CONSISTENT SNAPSHOT");
    WANT(OK, rowlock_fence(hold, work, &ts_err));
    ts_sql(work, "COMMIT");
    WANT(OK, rowlock_release(hold, &ts_err));
    /* rowlock's own connections read what is committed, so it does not concern them. */
    for (int i = 0; i < 5; i++)
        WANT(OK, ts_try(i % 2 ? client : direct, name, mode));
    ts_sql(mysql, "SET GLOBAL innodb_snapshot_isolation = OFF");
}

TS_MAIN("refusals", through_begin, through_end)
