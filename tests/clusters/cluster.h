/*
 * clusters/cluster.h - a cluster of three servers for a test binary: through
 * $ROWLOCK_TOOLS/cluster, in a folder that is removed at the end.
 *
 * cluster_use(n) makes node n the server of tests/support (ts_socket(), ts_open(), ts_connect()
 * ...).
 */
#ifndef CLUSTERS_CLUSTER_H
#define CLUSTERS_CLUSTER_H

#include "support/support.h"

enum { CLUSTER_NODES = 3, CLUSTER_FRONT = 4 };
enum { SOON_MS = 60000 }; /* the longest wait for what must happen sooner or later */
#define SOON(expression) assert_true(POLL_UNTIL((expression), SOON_MS))

/* A list of tests is a macro whose argument is applied to each test: DECLARED, LISTED. */
#define DECLARED(test) void test(void);
#define LISTED(test)   ts_add(#test, "", (ts_case){.once = test});

/* For cmocka's group set-up and tear-down. Where the cluster cannot be had, tools/cluster says
 * why, and the program ends as skipped. */
int cluster_begin(const char *what); /* the kind, as `tools/cluster start` takes it */
int cluster_end(void **state);

/* `tools/cluster kill-node`, `start-node` ... on a node; the test fails unless it succeeds. */
void cluster_node(const char *verb, int node);
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
/* A session of root on this binary's schema. */
MYSQL *sql_at(int node);

/* True if the condition holds in that session; false also while the node refuses the query. */
bool cluster_so(MYSQL *mysql, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Waits for the lock; fails the test if it does not get it. */
rowlock_hold *cluster_take(rowlock_client *client, const char *name, rowlock_mode mode,
                           int64_t ttl_ms);
/* True if this client's node knows of the hold with this token. */
bool cluster_shows(rowlock_client *client, const char *name, uint64_t token);
/* True if the doctor's check at that node has this level and a text that contains `found`. */
bool cluster_finds(int node, const char *check, rowlock_level level, const char *found);
/* The client of a node that takes no writes can look at a lock (as soon as the primary's change has
 * arrived there), and cannot take one. */
void cluster_refuses(rowlock_client *client, rowlock_client *primary);

/* A thread with a client of its own; they are spread over the nodes. `work` returns why it failed
 * (the test fails then), or NULL. Joining closes the clients. */
typedef struct cluster_worker {
    rowlock_client *client;
    void *what;    /* shared by all workers */
    unsigned who;  /* 0 is the first */
    uint64_t told; /* its result */
    const char *(*work)(struct cluster_worker *self);
    pthread_t thread;
} cluster_worker;

void cluster_start(cluster_worker *all, unsigned count, void *what,
                   const char *(*work)(cluster_worker *self));
void cluster_join(cluster_worker *all, unsigned count);
/* Starts and joins that many workers. */
void cluster_all_work(unsigned count, void *what, const char *(*work)(cluster_worker *self));

/* Until the schema of this binary, and its migrations, have arrived at every node. */
void cluster_schema_everywhere(void);

#endif
