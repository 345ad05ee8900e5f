/*
 * A MariaDB primary with a semi-synchronous and an asynchronous replica. After a promotion the new
 * primary may lack the newest locks, and tokens may go back: a holder of a lock at the old primary
 * is told of the loss as soon as its client reaches the new one.
 */
#include "clusters/sql.h"

enum { PRIMARY = 1, SEMI_SYNCHRONOUS = 2, ASYNCHRONOUS = 3 };

#define TTL_MS  60000
/* Earlier than the holder's own deadline: the holder was told, and did not merely run out of
 * time. */
#define TOLD_MS 45000

static const char *user;

static int begin(TS_NO_STATE)
{
    return cluster_begin("replicas");
}

/* A client of a user that read_only stops (it does not stop root). */
static rowlock_client *open_at(int node)
{
    rowlock_client_options options = cluster_options(node);
    options.user = user;
    options.password = "secret";
    return ts_open_with(options);
}

static void make_user(void)
{
    cluster_use(PRIMARY);
    user = ts_user("locks", "secret", "SELECT, INSERT, UPDATE, DELETE", ts_schema());
    for (int n = SEMI_SYNCHRONOUS; n <= ASYNCHRONOUS; n++) {
        TS_MYSQL *mysql = sql_at(n);
        SOON(ts_sql_u64(mysql, "SELECT COUNT(*) FROM mysql.db WHERE User = '%s'", user) == 1);
    }
}

TS_ONCE(test_a_replica_refuses)
{
    make_user();
    TS_CLIENT *primary = open_at(PRIMARY);
    for (int n = SEMI_SYNCHRONOUS; n <= ASYNCHRONOUS; n++) {
        TS_CLIENT *client = open_at(n);
        cluster_refuses(client, primary);
    }
}

/* read_only does not stop root, but the library does: a change would be at the replica alone. */
TS_ONCE(test_root_at_a_replica)
{
    const rowlock_client_options options = cluster_options(ASYNCHRONOUS);
    rowlock_client_options elsewhere = options;
    char schema[80];
    snprintf(schema, sizeof schema, "%.60s_none", ts_schema());
    elsewhere.schema = schema;
    sql_install(PRIMARY);
    event_install(PRIMARY);
    TS_MYSQL *primary = sql_at(PRIMARY);
    TS_MYSQL *replica = sql_at(ASYNCHRONOUS);
    ts_sql(replica, "SET GLOBAL event_scheduler = ON");
    SOON(event_is(ASYNCHRONOUS, ROWLOCK_NOTE, "another server sweeps"));
    want_sqlstate(replica, "CALL rowlock_try('replica', 5, @token)", "RLRDO");
    WANT(READONLY, rowlock_sweep_event_install(&options, NULL, NULL, &ts_err));
    WANT(READONLY, rowlock_sweep_event_remove(&options, NULL, NULL, &ts_err));
    WANT(READONLY, rowlock_migrate(&elsewhere, NULL, NULL, &ts_err));
    rowlock_client *client = cluster_open(ASYNCHRONOUS);
    WANT(READONLY, rowlock_fence_remove(client, NULL, "resource", &ts_err));
    rowlock_client_close(client);
    /* An event that is enabled at the replica too (as after a copy of the data) does nothing
     * there. */
    ts_sql(replica, "SET SESSION sql_log_bin = OFF");
    ts_sql(replica, "ALTER EVENT rowlock_sweep ENABLE");
    SOON(event_is(ASYNCHRONOUS, ROWLOCK_FINE, "another server sweeps"));
    event_add_dead(primary, "dead", 3);
    SOON(event_freed_all(replica, "dead", 3));
    /* The replica itself (server 3) has written nothing. */
    assert_int_equal(ts_sql_u64(replica, "SELECT @@gtid_binlog_pos LIKE '%%-3-%%'"), 0);
    const rowlock_client_options there = cluster_options(PRIMARY);
    WANT(OK, rowlock_sweep_event_remove(&there, NULL, NULL, &ts_err));
    SOON(event_is(ASYNCHRONOUS, ROWLOCK_FINE, "does not sweep"));
    WANT(READONLY, rowlock_procedures_remove(&options, NULL, NULL, &ts_err));
}

/*
 * The asynchronous replica has the names and neither lock. Promoted, it grants both again, with
 * tokens that were given out before; the client that held them at the old primary is told.
 */
TS_ONCE(test_promotion_of_a_replica_that_lags)
{
    const char *lease_name = ts_name("lease");
    const char *row_name = ts_name("row");
    cluster_node("hold", ASYNCHRONOUS);
    cluster_front_to(PRIMARY);
    TS_CLIENT *holder = open_at(CLUSTER_FRONT);
    TS_CLIENT *other = open_at(CLUSTER_FRONT);
    rowlock_hold *lease = cluster_take(holder, lease_name, ROWLOCK_OPTIMISTIC, TTL_MS);
    rowlock_hold *row = cluster_take(holder, row_name, ROWLOCK_PESSIMISTIC, TTL_MS);
    TS_WAITER waiter = {
        .client = other, .name = lease_name, .options = {.wait_ms = 2 * SOON_MS, .ttl_ms = TTL_MS}};
    ts_waiter_start(&waiter);
    cluster_node("kill-node", PRIMARY);
    cluster_node("promote", ASYNCHRONOUS);
    cluster_front_to(ASYNCHRONOUS);
    int64_t promoted_ms = ts_now_ms();
    WANT(OK, ts_waiter_join(&waiter, 2 * SOON_MS));
    /* Otherwise the replica did not lag, and the test shows nothing. */
    assert_true(rowlock_hold_token(waiter.hold) <= rowlock_hold_token(lease));
    assert_true(POLL_UNTIL(rowlock_hold_check(lease) == ROWLOCK_LOST, TOLD_MS));
    assert_true(POLL_UNTIL(rowlock_hold_check(row) == ROWLOCK_LOST, TOLD_MS));
    print_message("# its holder was told within %d ms\n", (int)(ts_now_ms() - promoted_ms));
    /* The promoted server does not know of this hold. */
    MYSQL *mysql = sql_at(ASYNCHRONOUS);
    ts_sql(mysql, "BEGIN");
    WANT(LOST, rowlock_fence(lease, mysql, &ts_err));
    mysql_close(mysql);
    WANT(LOST, rowlock_release(lease, &ts_err));
    WANT(LOST, rowlock_release(row, &ts_err));
    assert_held(waiter.hold);
    WANT(BUSY, ts_try(holder, lease_name, ROWLOCK_OPTIMISTIC));
    WANT(OK, ts_try(other, row_name, ROWLOCK_PESSIMISTIC));
}

int main(void)
{
    ts_secret("secret");
    return ts_run("replicas", begin, cluster_end);
}
