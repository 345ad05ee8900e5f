/* MySQL's Group Replication with one primary: what a secondary says, and a failover. */
#include <stdio.h>

#include "clusters/turns.h"

#define SOON_MS 60000

static int begin(void **state)
{
    (void)state;
    return cluster_begin("group");
}

static int any_secondary(void)
{
    return cluster_primary() % CLUSTER_NODES + 1;
}

/* One may look, and take nothing: 1290, super_read_only, for root too. */
static void test_a_secondary_refuses(void **state)
{
    (void)state;
    cluster_needed();
    int secondary = any_secondary();
    rowlock_client *client = cluster_open(secondary);
    rowlock_client *primary = cluster_open(cluster_primary());
    rowlock_list *list = NULL;
    for (int i = 0; i < 2; i++) {
        const char *name = ts_name("refused");
        WANT(OK, ts_try(primary, name, ts_modes[i]));
        assert_true(
            POLL_UNTIL(rowlock_list_one(client, name, &list, &ts_err) == ROWLOCK_OK, SOON_MS));
        rowlock_list_free(list);
        WANT(READONLY, ts_try(client, name, ts_modes[i]));
        WANT(READONLY, ts_try(client, ts_name("refused"), ts_modes[i]));
    }
    const rowlock_sweep_options options = {0};
    rowlock_sweep_result result;
    assert_int_not_equal(rowlock_sweep(client, &options, &result, &ts_err), ROWLOCK_OK);
    rowlock_client_close(client);
    rowlock_client_close(primary);
}

/* There is one writer: row locks, and the bell, are as on a server alone. */
static void test_both_modes_at_the_primary(void **state)
{
    rowlock_mode mode = ts_mode(state);
    cluster_needed();
    const char *name = ts_name("primary");
    rowlock_client *first = cluster_open(cluster_primary());
    rowlock_client *second = cluster_open(cluster_primary());
    rowlock_hold *hold = ts_take(first, name, mode, 30000);
    ts_waiter waiter = {
        .client = second, .name = name, .options = {.mode = mode, .wait_ms = SOON_MS}};
    ts_waiter_start(&waiter);
    WANT(BUSY, ts_try(first, name, mode));
    ts_hand_over(hold, &waiter, SOON_MS);
    rowlock_client_close(first);
    rowlock_client_close(second);
}

/* --------------------------------------------------------------------------- failover */

static bool another_primary(int old)
{
    for (int n = 1; n <= CLUSTER_NODES; n++) {
        if (n == old)
            continue;
        cluster_use(n);
        MYSQL *mysql = ts_connect(NULL);
        bool primary = ts_sql_u64(mysql, "SELECT COUNT(*) FROM"
                                         " performance_schema.replication_group_members"
                                         " WHERE member_id = @@server_uuid"
                                         "   AND member_state = 'ONLINE'"
                                         "   AND member_role = 'PRIMARY'"
                                         "   AND NOT @@global.super_read_only") == 1;
        mysql_close(mysql);
        if (!primary)
            continue;
        cluster_front_to(n);
        return true;
    }
    return false;
}

/* Kills the primary, and leads the front to the one that the group elects. */
static int fail_over(void)
{
    int old = cluster_primary();
    cluster_node("kill-node", old);
    assert_true(POLL_UNTIL(another_primary(old), SOON_MS));
    return old;
}

/*
 * What the old primary had committed, the new one has: a lease goes on, with its token, and its
 * holder renews it there. A row lock was the old server's, and is lost. Who waits gets in.
 */
static void test_failover_of_what_is_held(void **state)
{
    (void)state;
    cluster_needed();
    const char *lease_name = ts_name("lease");
    const char *row_name = ts_name("row");
    cluster_front_to(cluster_primary());
    rowlock_client *client = cluster_open(CLUSTER_FRONT);
    rowlock_client *other = cluster_open(CLUSTER_FRONT);
    rowlock_hold *row = ts_take(client, row_name, ROWLOCK_PESSIMISTIC, 60000);
    rowlock_hold *lease = ts_take(client, lease_name, ROWLOCK_OPTIMISTIC, 75000);
    uint64_t lease_token = rowlock_hold_token(lease);
    uint64_t row_token = rowlock_hold_token(row);
    int old = fail_over();
    assert_true(POLL_UNTIL(rowlock_hold_check(row) == ROWLOCK_LOST, SOON_MS));
    (void)rowlock_release(row, &ts_err);
    WANT(OK, rowlock_hold_check(lease));
    assert_true(POLL_UNTIL(ts_try(other, lease_name, ROWLOCK_OPTIMISTIC) == ROWLOCK_BUSY, SOON_MS));
    ts_waiter waiter = {.client = other, .name = lease_name, .options = {.wait_ms = SOON_MS}};
    ts_waiter_start(&waiter);
    /* Renewed at the new primary: more than was left when the old one died. */
    int64_t left_ms = rowlock_hold_remaining_ms(lease);
    assert_true(POLL_UNTIL(rowlock_hold_remaining_ms(lease) > left_ms, 120000));
    assert_false(atomic_load(&waiter.ended));
    WANT(OK, rowlock_release(lease, &ts_err));
    WANT(OK, ts_waiter_join(&waiter, SOON_MS));
    assert_true(rowlock_hold_token(waiter.hold) > lease_token);
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    rowlock_hold *next = ts_take(other, row_name, ROWLOCK_PESSIMISTIC, 60000);
    assert_true(rowlock_hold_token(next) > row_token);
    WANT(OK, rowlock_release(next, &ts_err));
    rowlock_client_close(client);
    rowlock_client_close(other);
    cluster_node("start-node", old);
    client = cluster_open(old);
    WANT(READONLY, ts_try(client, lease_name, ROWLOCK_OPTIMISTIC));
    rowlock_client_close(client);
}

static void test_failover_beside_turns(void **state)
{
    (void)state;
    cluster_needed();
    enum { CLIENTS = 6, TURNS = 60 };
    cluster_front_to(cluster_primary());
    turns *all = turns_start(&(turns_plan){.nodes = {CLUSTER_FRONT},
                                           .clients = CLIENTS,
                                           .names = 2,
                                           .turns = TURNS,
                                           .ttl_ms = 5000,
                                           .within_ms = 240000,
                                           .troubled = true});
    assert_true(POLL_UNTIL(turns_done(all, 0) >= CLIENTS * TURNS / 10, SOON_MS));
    fail_over();
    turns_finish(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONCE(test_a_secondary_refuses),
        BOTH(test_both_modes_at_the_primary),
        ONCE(test_failover_of_what_is_held),
        ONCE(test_failover_beside_turns),
    };
    return cmocka_run_group_tests_name("group", tests, begin, cluster_end);
}
