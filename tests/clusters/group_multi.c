/* MySQL's Group Replication with several primaries. */
#include "clusters/queue.h"
#include "clusters/sql.h"
#include "clusters/writers.h"

static int begin(TS_NO_STATE)
{
    return cluster_begin("group --multi-primary");
}

/*
 * A node that has left its group, or was started and has not joined, is a server like any other,
 * with old data: a lease taken there would have a second holder. The library answers READONLY,
 * although the server would take the write.
 */
static void test_a_node_outside_its_group(void)
{
    const char *name = ts_name("outside");
    TS_CLIENT *client = cluster_open(2);
    TS_CLIENT *member = cluster_open(1);
    rowlock_hold *hold = ts_take(member, name, ROWLOCK_OPTIMISTIC, 30000);
    TS_MYSQL *mysql = sql_at(2);
    ts_sql(mysql, "STOP GROUP_REPLICATION");
    WANT(READONLY, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    ts_sql(mysql, "SET GLOBAL super_read_only = OFF");
    ts_sql(mysql, "SET GLOBAL read_only = OFF");
    rowlock_client_options options = ts_options();
    rowlock_client *late = NULL;
    WANT(READONLY, rowlock_client_open(&options, &late, &ts_err));
    /* The doctor can still look at that node. */
    assert_true(cluster_finds(2, "cluster", ROWLOCK_BROKEN, ""));
    WANT(READONLY, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    WANT(READONLY, ts_try(client, ts_name("outside"), ROWLOCK_OPTIMISTIC));
    ts_sql(mysql, "SET GLOBAL super_read_only = ON");
    ts_sql(mysql, "START GROUP_REPLICATION");
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_true(POLL_UNTIL(ts_try(client, name, ROWLOCK_OPTIMISTIC) == ROWLOCK_OK, 60000));
}

int main(void)
{
    WRITERS_TESTS(LISTED)
    SQL_WRITERS_TESTS(LISTED)
    QUEUE_WRITERS_TESTS(LISTED)
    LISTED(test_a_node_outside_its_group)
    LISTED(test_a_node_is_killed_and_comes_back)
    return ts_run("group_multi", begin, cluster_end);
}
