/*
 * clusters/writers.h - tests of a cluster on which every node takes writes: the same for Galera
 * and for Group Replication with several primaries.
 */
#ifndef CLUSTERS_WRITERS_H
#define CLUSTERS_WRITERS_H

#include "clusters/turns.h"

#define WRITERS_TESTS(X)                                                                           \
    X(test_turns_from_every_node)                                                                  \
    X(test_sweeps_at_every_node_beside_turns)                                                      \
    X(test_a_fence_at_another_node)                                                                \
    X(test_a_fenced_table_at_another_node)                                                         \
    X(test_sections_from_every_node)                                                               \
    X(test_row_locks_are_refused)                                                                  \
    X(test_shared_leases_are_refused)                                                              \
    X(test_slots_and_sets_from_every_node)                                                         \
    X(test_latches_and_barriers_from_every_node)                                                   \
    X(test_once_from_every_node)                                                                   \
    X(test_a_period_is_begun_anew_at_another_node)                                                 \
    X(test_a_leader_seen_from_every_node)                                                          \
    X(test_leaders_from_every_node)                                                                \
    X(test_an_ask_from_another_node)                                                               \
    X(test_a_freeze_at_another_node)                                                               \
    X(test_through_procedures) X(test_the_doctor_at_a_node)

WRITERS_TESTS(DECLARED)

/*
 * After all that need each node: 20 s after it has come back, a group may expel the node once more,
 * and let it in again, because another member has lost the connection to it (seen on MySQL 9.7).
 */
DECLARED(test_a_node_is_killed_and_comes_back)

#endif
