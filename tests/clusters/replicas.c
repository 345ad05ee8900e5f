/*
 * A MariaDB primary with a semi-synchronous and an asynchronous replica. After a promotion the
 * new primary may lack the newest locks, and tokens may go back: whoever held one at the old
 * primary is told that it is lost, as soon as his client meets the new one.
 */
#include <inttypes.h>
#include <stdio.h>

#include "clusters/sql.h"
#include "rowlock/rowlock_migrate.h"
#include "rowlock/rowlock_mysql.h"

enum { PRIMARY = 1, SEMI_SYNCHRONOUS = 2, ASYNCHRONOUS = 3 };

#define TTL_MS  60000
#define SOON_MS 60000
/* Before the holder's own deadline: it was told, and did not only run out of time. */
#define TOLD_MS 45000

static const char *user;

static int begin(void **state)
{
    (void)state;
    return cluster_begin("replicas");
}

/* read_only is nothing to root. */
static rowlock_client *open_at(int node)
{
    rowlock_client_options options = cluster_options(node);
    rowlock_client *client = NULL;
    options.user = user;
    options.password = "secret";
    WANT(OK, rowlock_client_open(&options, &client, &ts_err));
    return client;
}

static void make_user(void)
{
    cluster_use(PRIMARY);
    user = ts_user("locks", "secret", "SELECT, INSERT, UPDATE, DELETE", ts_schema());
    for (int n = SEMI_SYNCHRONOUS; n <= ASYNCHRONOUS; n++) {
        cluster_use(n);
        MYSQL *mysql = ts_connect(NULL);
        assert_true(POLL_UNTIL(
            ts_sql_u64(mysql, "SELECT COUNT(*) FROM mysql.db WHERE User = '%s'", user) == 1,
            SOON_MS));
        mysql_close(mysql);
    }
}

static rowlock_hold *take(rowlock_client *client, const char *name, rowlock_mode mode)
{
    const rowlock_acquire_options options = {.mode = mode, .wait_ms = SOON_MS, .ttl_ms = TTL_MS};
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_acquire(client, name, &options, &hold, &ts_err));
    return hold;
}

/* -------------------------------------------------------------------------- a replica */

static void test_a_replica_refuses(void **state)
{
    (void)state;
    cluster_needed();
    make_user();
    rowlock_client *primary = open_at(PRIMARY);
    for (int n = SEMI_SYNCHRONOUS; n <= ASYNCHRONOUS; n++)
        for (int i = 0; i < 2; i++) {
            const char *name = ts_name("refused");
            rowlock_client *client = open_at(n);
            rowlock_list *list = NULL;
            WANT(OK, ts_try(primary, name, ts_modes[i]));
            assert_true(
                POLL_UNTIL(rowlock_list_one(client, name, &list, &ts_err) == ROWLOCK_OK, SOON_MS));
            rowlock_list_free(list);
            WANT(READONLY, ts_try(client, name, ts_modes[i]));
            WANT(READONLY, ts_try(client, ts_name("refused"), ts_modes[i]));
            rowlock_client_close(client);
        }
    rowlock_client_close(primary);
}

/* read_only does not stop root; what root would change there would be the replica's alone. */
static void test_root_at_a_replica(void **state)
{
    (void)state;
    cluster_needed();
    const rowlock_client_options options = cluster_options(ASYNCHRONOUS);
    rowlock_client_options elsewhere = options;
    char schema[80];
    snprintf(schema, sizeof schema, "%.60s_none", ts_schema());
    elsewhere.schema = schema;
    sql_install(PRIMARY);
    event_install(PRIMARY);
    MYSQL *primary = sql_at(PRIMARY);
    MYSQL *replica = sql_at(ASYNCHRONOUS);
    ts_sql(replica, "SET GLOBAL event_scheduler = ON");
    assert_true(POLL_UNTIL(event_is(ASYNCHRONOUS, ROWLOCK_NOTE, "another server sweeps"), SOON_MS));
    want_sqlstate(replica, "CALL rowlock_try('replica', 5, @token)", "RLRDO");
    WANT(READONLY, rowlock_sweep_event_install(&options, NULL, NULL, &ts_err));
    WANT(READONLY, rowlock_sweep_event_remove(&options, NULL, NULL, &ts_err));
    WANT(READONLY, rowlock_migrate(&elsewhere, NULL, NULL, &ts_err));
    rowlock_client *client = cluster_open(ASYNCHRONOUS);
    WANT(READONLY, rowlock_fence_remove(client, NULL, "resource", &ts_err));
    rowlock_client_close(client);
    /* Enabled there too, as on a replica that was made of a copy: it waits until it may write. */
    ts_sql(replica, "SET SESSION sql_log_bin = OFF");
    ts_sql(replica, "ALTER EVENT rowlock_sweep ENABLE");
    assert_true(POLL_UNTIL(event_is(ASYNCHRONOUS, ROWLOCK_FINE, "another server sweeps"), SOON_MS));
    event_add_dead(primary, "dead", 3);
    assert_true(POLL_UNTIL(event_freed_all(replica, "dead", 3), SOON_MS));
    /* None of it was written by the replica itself (0-3-...). */
    assert_int_equal(ts_sql_u64(replica, "SELECT @@gtid_binlog_pos LIKE '%%-3-%%'"), 0);
    const rowlock_client_options there = cluster_options(PRIMARY);
    WANT(OK, rowlock_sweep_event_remove(&there, NULL, NULL, &ts_err));
    assert_true(POLL_UNTIL(event_is(ASYNCHRONOUS, ROWLOCK_FINE, "does not sweep"), SOON_MS));
    WANT(READONLY, rowlock_procedures_remove(&options, NULL, NULL, &ts_err));
    mysql_close(primary);
    mysql_close(replica);
}

/* ------------------------------------------------------------------------- promotions */

typedef struct scene {
    rowlock_client *holder;
    rowlock_client *other;
    rowlock_hold *lease;
    rowlock_hold *row;
    uint64_t token; /* of the lease */
    const char *lease_name;
    const char *row_name;
} scene;

static scene set_scene(void)
{
    scene s = {.lease_name = ts_name("lease"), .row_name = ts_name("row")};
    cluster_front_to(PRIMARY);
    s.holder = open_at(CLUSTER_FRONT);
    s.other = open_at(CLUSTER_FRONT);
    s.lease = take(s.holder, s.lease_name, ROWLOCK_OPTIMISTIC);
    s.row = take(s.holder, s.row_name, ROWLOCK_PESSIMISTIC);
    s.token = rowlock_hold_token(s.lease);
    return s;
}

static void fail_over_to(int node)
{
    cluster_node("kill-node", PRIMARY);
    cluster_node("promote", node);
    cluster_front_to(node);
}

static bool knows_of(rowlock_client *reader, const char *name, uint64_t token)
{
    rowlock_list *list = NULL;
    if (rowlock_list_one(reader, name, &list, &ts_err) != ROWLOCK_OK)
        return false;
    bool knows = rowlock_list_at(list, 0)->token == token;
    rowlock_list_free(list);
    return knows;
}

static void end_scene(scene *s)
{
    rowlock_client_close(s->holder);
    rowlock_client_close(s->other);
}

/* In the promoted server's eyes this hold is nobody's. */
static void expect_nothing_left(scene *s, int node)
{
    cluster_use(node);
    MYSQL *mysql = ts_connect(ts_schema());
    ts_sql(mysql, "BEGIN");
    WANT(LOST, rowlock_fence(s->lease, mysql, &ts_err));
    ts_sql(mysql, "ROLLBACK");
    mysql_close(mysql);
    WANT(LOST, rowlock_release(s->lease, &ts_err));
    WANT(LOST, rowlock_release(s->row, &ts_err));
}

/*
 * The asynchronous replica has heard of the names and of neither lock. Promoted, it gives both to
 * whoever asks, with a token that was given out before.
 */
static void test_promotion_of_a_replica_that_lags(void **state)
{
    (void)state;
    cluster_needed();
    cluster_node("hold", ASYNCHRONOUS);
    scene s = set_scene();
    ts_waiter waiter = {.client = s.other,
                        .name = s.lease_name,
                        .options = {.wait_ms = 2 * SOON_MS, .ttl_ms = TTL_MS}};
    ts_waiter_start(&waiter);
    fail_over_to(ASYNCHRONOUS);
    int64_t promoted_ms = ts_now_ms();
    WANT(OK, ts_waiter_join(&waiter, 2 * SOON_MS));
    uint64_t token = rowlock_hold_token(waiter.hold);
    print_message("# the lease was token %" PRIu64 " at the old primary, %" PRIu64
                  " at the new one\n",
                  s.token, token);
    assert_true(token <= s.token); /* or this replica did not lag, and nothing is shown */
    assert_true(POLL_UNTIL(rowlock_hold_check(s.lease) == ROWLOCK_LOST, TOLD_MS));
    assert_true(POLL_UNTIL(rowlock_hold_check(s.row) == ROWLOCK_LOST, TOLD_MS));
    print_message("# its holder was told within %d ms\n", (int)(ts_now_ms() - promoted_ms));
    expect_nothing_left(&s, ASYNCHRONOUS);
    assert_held(waiter.hold);
    WANT(BUSY, ts_try(s.holder, s.lease_name, ROWLOCK_OPTIMISTIC));
    WANT(OK, ts_try(s.other, s.row_name, ROWLOCK_PESSIMISTIC));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    end_scene(&s);
}

/*
 * The semi-synchronous replica has all of it. Nobody can know that who meets it: its holder is
 * told of the loss nevertheless, and the next one gets it when the lease is over, with a
 * higher token.
 */
static void test_promotion_of_a_replica_that_has_it_all(void **state)
{
    (void)state;
    cluster_needed();
    make_user();
    scene s = set_scene();
    rowlock_client *reader = open_at(SEMI_SYNCHRONOUS);
    assert_true(POLL_UNTIL(knows_of(reader, s.lease_name, s.token), SOON_MS));
    rowlock_client_close(reader);
    fail_over_to(SEMI_SYNCHRONOUS);
    int64_t promoted_ms = ts_now_ms();
    assert_true(POLL_UNTIL(rowlock_hold_check(s.lease) == ROWLOCK_LOST, TOLD_MS));
    assert_true(POLL_UNTIL(rowlock_hold_check(s.row) == ROWLOCK_LOST, TOLD_MS));
    print_message("# its holder was told within %d ms\n", (int)(ts_now_ms() - promoted_ms));
    ts_waiter waiter = {
        .client = s.other, .name = s.lease_name, .options = {.wait_ms = 2 * SOON_MS + TTL_MS}};
    ts_waiter_start(&waiter);
    WANT(OK, ts_waiter_join(&waiter, 3 * SOON_MS));
    assert_true(rowlock_hold_token(waiter.hold) > s.token);
    expect_nothing_left(&s, SEMI_SYNCHRONOUS);
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    end_scene(&s);
}

int main(void)
{
    ts_secret("secret");
    const struct CMUnitTest lagging[] = {
        ONCE(test_a_replica_refuses),
        ONCE(test_root_at_a_replica),
        ONCE(test_promotion_of_a_replica_that_lags),
    };
    const struct CMUnitTest whole[] = {
        ONCE(test_promotion_of_a_replica_that_has_it_all),
    };
    return cmocka_run_group_tests_name("replicas", lagging, begin, cluster_end) +
           cmocka_run_group_tests_name("replicas", whole, begin, cluster_end);
}
