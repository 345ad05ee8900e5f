/* Galera: three nodes of MariaDB, each of which takes writes. */
#include "clusters/queue.h"
#include "clusters/sql.h"
#include "clusters/writers.h"

static int begin(TS_NO_STATE)
{
    return cluster_begin("galera");
}

/* False also for 1180, which a commit may answer for a moment (see rl_server_status_said()). */
static bool refused_for_good(rowlock_client *client, const char *name)
{
    return ts_try(client, name, ROWLOCK_OPTIMISTIC) == ROWLOCK_READONLY &&
           (ts_err.server_errno == 1047 || strstr(ts_err.message, "no working member"));
}

/* A node that has lost both others is no primary component any more: it answers 1047 to
 * everything. */
static void test_a_node_that_is_cut_off(void)
{
    const char *name = ts_name("cut-off");
    const char *fresh = ts_name("new");
    rowlock_client_options options = cluster_options(1);
    TS_CLIENT *client = cluster_open(1);
    rowlock_client *none = NULL;
    const rowlock_acquire_options how = {.ttl_ms = 4000};
    rowlock_hold *hold = ts_take_with(client, name, how);
    uint64_t token = rowlock_hold_token(hold);
    cluster_node("kill-node", 2);
    cluster_node("kill-node", 3);
    /* A lease that cannot be renewed is lost when its TTL is over. */
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 60000));
    assert_true(POLL_UNTIL(refused_for_good(client, fresh), 60000));
    WANT(READONLY, rowlock_client_open(&options, &none, &ts_err));
    (void)rowlock_release(hold, &ts_err);
    cluster_node("kill-node", 1);
    /* The cluster is started again, with what was committed: the tokens go on. */
    for (int n = 1; n <= CLUSTER_NODES; n++)
        cluster_node("start-node", n);
    TS_HOLD *again = ts_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
    assert_true(rowlock_hold_token(again) > token);
}

int main(void)
{
    WRITERS_TESTS(LISTED)
    SQL_WRITERS_TESTS(LISTED)
    QUEUE_WRITERS_TESTS(LISTED)
    LISTED(test_a_node_is_killed_and_comes_back)
    LISTED(test_a_node_that_is_cut_off)
    return ts_run("galera", begin, cluster_end);
}
