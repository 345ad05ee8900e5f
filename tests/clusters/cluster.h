/*
 * clusters/cluster.h - three real servers that belong together, for a test binary: through
 * $ROWLOCK_TOOLS/cluster, in a folder that is removed at the end.
 *
 * cluster_use(n) makes node n the server of tests/support (ts_socket(), ts_open(), ts_connect()
 * ...).
 */
#ifndef CLUSTERS_CLUSTER_H
#define CLUSTERS_CLUSTER_H

#include "support/support.h"

enum { CLUSTER_NODES = 3, CLUSTER_FRONT = 4 };

/* For cmocka's group set-up and tear-down. Where the cluster cannot be had, tools/cluster says
 * why, and every test is skipped. */
int cluster_begin(const char *what); /* "galera", "group", ... as tools/cluster start has it */
int cluster_end(void **state);
/* The first line of every test: skips it where there is no cluster. */
void cluster_needed(void);

/* `kill-node`, `start-node` ... on node n; fails the test when it does not obey. */
void cluster_node(const char *verb, int node);
void cluster_all(const char *verb);
int cluster_primary(void);

/*
 * The front: a path that leads to the socket of one node, as a name or a virtual address of a
 * primary does. Connections that are open stay where they are.
 */
void cluster_front_to(int node);

/* 1 to 3, or CLUSTER_FRONT. */
const char *cluster_socket(int node);
void cluster_use(int node);
/* A client of root on this binary's schema, at that node. */
rowlock_client_options cluster_options(int node);
rowlock_client *cluster_open(int node);

/* Until the schema of this binary, and its migrations, have arrived at every node. */
void cluster_schema_everywhere(void);

#endif
