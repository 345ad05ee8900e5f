/*
 * clusters/queue.h - queues on a cluster on which every node takes writes.
 */
#ifndef CLUSTERS_QUEUE_H
#define CLUSTERS_QUEUE_H

#include "clusters/cluster.h"

#define QUEUE_WRITERS_TESTS(X)                                                                     \
    X(test_a_queue_from_every_node)                                                                \
    X(test_an_item_is_delivered_again_at_another_node)

QUEUE_WRITERS_TESTS(DECLARED)

#endif
