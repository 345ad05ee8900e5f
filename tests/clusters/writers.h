/*
 * clusters/writers.h - tests of a cluster on which every node takes writes: the same for Galera
 * and for Group Replication with several primaries.
 */
#ifndef CLUSTERS_WRITERS_H
#define CLUSTERS_WRITERS_H

#include "clusters/turns.h"

void test_turns_from_every_node(void **state);
void test_new_names_from_every_node(void **state);
void test_a_waiter_at_another_node_gets_in(void **state);
void test_the_dead_are_replaced_from_another_node(void **state);
void test_every_node_shows_the_holder(void **state);
void test_a_sweep_beside_turns(void **state);
void test_a_fence_at_another_node(void **state);
void test_a_fenced_table_at_another_node(void **state);
void test_sections_from_every_node(void **state);
void test_row_locks_are_refused(void **state);
void test_row_locks_of_a_single_writer(void **state);
void test_through_procedures(void **state);
void test_the_doctor_at_a_node(void **state);
void test_a_node_is_killed_and_comes_back(void **state);

#define WRITERS_TESTS                                                                              \
    ONCE(test_turns_from_every_node), ONCE(test_new_names_from_every_node),                        \
        ONCE(test_a_waiter_at_another_node_gets_in),                                               \
        ONCE(test_the_dead_are_replaced_from_another_node),                                        \
        ONCE(test_every_node_shows_the_holder), ONCE(test_a_sweep_beside_turns),                   \
        ONCE(test_a_fence_at_another_node), ONCE(test_a_fenced_table_at_another_node),             \
        ONCE(test_sections_from_every_node), ONCE(test_row_locks_are_refused),                     \
        ONCE(test_row_locks_of_a_single_writer), ONCE(test_through_procedures),                    \
        ONCE(test_the_doctor_at_a_node), ONCE(test_a_node_is_killed_and_comes_back)

#endif
