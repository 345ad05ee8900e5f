/* MySQL's Group Replication with several primaries. */
#include "clusters/writers.h"

static int begin(void **state)
{
    (void)state;
    return cluster_begin("group --multi-primary");
}

int main(void)
{
    const struct CMUnitTest tests[] = {WRITERS_TESTS};
    return cmocka_run_group_tests_name("group_multi", tests, begin, cluster_end);
}
