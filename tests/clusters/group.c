/* MySQL's Group Replication with one primary: a secondary's answers, and a failover. */
#include "clusters/sql.h"
#include "clusters/turns.h"

static int begin(TS_NO_STATE)
{
    return cluster_begin("group");
}

static int any_secondary(void)
{
    return cluster_primary() % CLUSTER_NODES + 1;
}

/* A secondary shows locks and gives none: 1290, super_read_only, for root too. */
TS_ONCE(test_a_secondary_refuses)
{
    TS_CLIENT *client = cluster_open(any_secondary());
    TS_CLIENT *primary = cluster_open(cluster_primary());
    cluster_refuses(client, primary);
    const rowlock_sweep_options options = {0};
    rowlock_sweep_result result;
    assert_int_not_equal(rowlock_sweep(client, &options, &result, &ts_err), ROWLOCK_OK);
}

/* Procedures take locks only at the primary, whichever user calls them. */
static void want_read_only(int node)
{
    TS_MYSQL *mysql = sql_at(node);
    want_sqlstate(mysql, "CALL rowlock_acquire('read only', 5, 5, @token)", "RLRDO");
    want_sqlstate(mysql, "CALL rowlock_try('read only', 5, @token)", "RLRDO");
    want_sqlstate(mysql, "CALL rowlock_row_make('read only')", "RLRDO");
    want_sqlstate(mysql, "CALL rowlock_break('read only')", "RLRDO");
}

/* Makes another node the primary; no server is killed. */
static void switch_to(MYSQL *mysql)
{
    free(ts_sql_text(mysql, "SELECT group_replication_set_as_primary(@@server_uuid)"));
    SOON(cluster_so(mysql, "NOT @@global.super_read_only"));
}

/* The event sweeps at the node where it was made, as long as that is the primary. After a switch no
 * node sweeps until the event is enabled at the new primary, and the doctor says so. A lease taken
 * in SQL goes on there. */
TS_ONCE(test_the_event_and_a_new_primary)
{
    int old = cluster_primary();
    int new = any_secondary();
    const char *dead = ts_name("dead");
    const char *name = ts_name("sql");
    sql_install(old);
    event_install(old);
    TS_MYSQL *before = sql_at(old);
    TS_MYSQL *after = sql_at(new);
    SOON(event_is(new, ROWLOCK_NOTE, "another server sweeps"));
    event_add_dead(before, dead, 3);
    SOON(event_freed_all(before, dead, 3));
    want_read_only(new);
    ts_sql(before, "CALL rowlock_acquire('%s', 600, 30, @token)", name);
    uint64_t token = ts_sql_u64(before, "SELECT @token");
    switch_to(after);
    SOON(event_is(new, ROWLOCK_CARE, "SIDE_DISABLED"));
    want_read_only(old);
    ts_sql(after, "CALL rowlock_check('%s', %d)", name, (int)token);
    ts_sql(after, "CALL rowlock_release('%s', %d)", name, (int)token);
    ts_sql(after, "ALTER EVENT rowlock_sweep ENABLE");
    dead = ts_name("dead");
    event_add_dead(after, dead, 3);
    SOON(event_freed_all(after, dead, 3));
    SOON(event_is(new, ROWLOCK_FINE, "the server sweeps"));
    SOON(event_is(old, ROWLOCK_NOTE, "another server sweeps"));
    const rowlock_client_options options = cluster_options(new);
    WANT(OK, rowlock_sweep_event_remove(&options, NULL, NULL, &ts_err));
}

static bool another_primary(int old)
{
    for (int n = 1; n <= CLUSTER_NODES; n++) {
        if (n == old)
            continue;
        MYSQL *mysql = sql_at(n);
        bool primary =
            cluster_so(mysql, "NOT @@global.super_read_only AND EXISTS (SELECT 1 FROM"
                              " performance_schema.replication_group_members"
                              " WHERE member_id = @@server_uuid AND member_state = 'ONLINE'"
                              "   AND member_role = 'PRIMARY')");
        mysql_close(mysql);
        if (!primary)
            continue;
        cluster_front_to(n);
        return true;
    }
    return false;
}

/* Kills the primary, and leads the front to the one that the group elects: that one. */
static int fail_over(void)
{
    int old = cluster_primary();
    cluster_node("kill-node", old);
    SOON(another_primary(old));
    return old;
}

/*
 * The new primary has what the old one had committed: a lease goes on, with its token, and its
 * holder renews it there. A row lock was in the old server, and is lost; its waiter gets it.
 */
TS_ONCE(test_failover_of_what_is_held)
{
    const char *lease_name = ts_name("lease");
    const char *row_name = ts_name("row");
    cluster_front_to(cluster_primary());
    TS_CLIENT *client = cluster_open(CLUSTER_FRONT);
    rowlock_client *other = cluster_open(CLUSTER_FRONT);
    rowlock_hold *row = ts_take(client, row_name, ROWLOCK_PESSIMISTIC, 60000);
    rowlock_hold *lease = ts_take(client, lease_name, ROWLOCK_OPTIMISTIC, 75000);
    uint64_t lease_token = rowlock_hold_token(lease);
    uint64_t row_token = rowlock_hold_token(row);
    int old = fail_over();
    SOON(rowlock_hold_check(row) == ROWLOCK_LOST);
    (void)rowlock_release(row, &ts_err);
    assert_held(lease);
    SOON(ts_try(other, lease_name, ROWLOCK_OPTIMISTIC) == ROWLOCK_BUSY);
    ts_waiter waiter = {.client = other, .name = lease_name, .options = {.wait_ms = SOON_MS}};
    ts_waiter_start(&waiter);
    /* Renewed at the new primary: more than was left when the old one died. */
    int64_t left_ms = rowlock_hold_remaining_ms(lease);
    assert_true(POLL_UNTIL(rowlock_hold_remaining_ms(lease) > left_ms, 120000));
    assert_false(ts_waiter_ended(&waiter));
    WANT(OK, rowlock_release(lease, &ts_err));
    ASSERT_GETS_IN(&waiter, lease_token, SOON_MS);
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    rowlock_hold *next = ts_take(other, row_name, ROWLOCK_PESSIMISTIC, 60000);
    assert_true(rowlock_hold_token(next) > row_token);
    WANT(OK, rowlock_release(next, &ts_err));
    rowlock_client_close(client);
    rowlock_client_close(other);
    cluster_node("start-node", old);
    client = cluster_open(old);
    WANT(READONLY, ts_try(client, lease_name, ROWLOCK_OPTIMISTIC));
}

TS_ONCE(test_failover_beside_turns)
{
    enum { CLIENTS = 6, TURNS = 60 };
    cluster_front_to(cluster_primary());
    turns *all = turns_start(&(turns_plan){.nodes = {CLUSTER_FRONT},
                                           .clients = CLIENTS,
                                           .names = 2,
                                           .turns = TURNS,
                                           .ttl_ms = 5000,
                                           .within_ms = 600000,
                                           .troubled = true});
    SOON(turns_done(all, 0) >= CLIENTS * TURNS / 10);
    fail_over();
    turns_finish(all);
}

TS_MAIN("group", begin, cluster_end)
