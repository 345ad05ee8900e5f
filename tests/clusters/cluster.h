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
enum { SOON_MS = 60000 }; /* for what must happen in the end */
#define SOON(expression) assert_true(POLL_UNTIL((expression), SOON_MS))

/* A list of tests is a macro of what is done with each: to declare it, to list it. */
#define DECLARED(test) void test(void);
#define LISTED(test)   ts_add(#test, "", (ts_case){.once = test});

/* For cmocka's group set-up and tear-down. Where the cluster cannot be had, tools/cluster says
 * why, and the program ends as skipped. */
int cluster_begin(const char *what); /* "galera", "group", ... as tools/cluster start has it */
int cluster_end(void **state);

/* `kill-node`, `start-node` ... on node n; fails the test when it does not obey. */
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

/* A condition holds in that session; not while a node aborts or refuses the very look at it. */
bool cluster_so(MYSQL *mysql, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Waits for it; or fails the test. */
rowlock_hold *cluster_take(rowlock_client *client, const char *name, rowlock_mode mode,
                           int64_t ttl_ms);
/* It is held with this token, as far as this client's node knows. */
bool cluster_shows(rowlock_client *client, const char *name, uint64_t token);
/* What the doctor says of a check at a node. */
bool cluster_finds(int node, const char *check, rowlock_level level, const char *found);
/* The client is of a node that takes no writes: it may look, as soon as it has heard of what the
 * primary's did, and takes nothing. */
void cluster_refuses(rowlock_client *client, rowlock_client *primary);

/* Clients at every node in turn, each in a thread of its own; `work` returns why it failed (NULL:
 * it did not), and the test fails then. Joining closes them. */
typedef struct cluster_worker {
    rowlock_client *client;
    void *what;    /* that all of them work on */
    unsigned who;  /* 0 is the first */
    uint64_t told; /* its own */
    const char *(*work)(struct cluster_worker *self);
    pthread_t thread;
} cluster_worker;

void cluster_start(cluster_worker *all, unsigned count, void *what,
                   const char *(*work)(cluster_worker *self));
void cluster_join(cluster_worker *all, unsigned count);
/* Both: so many of them. */
void cluster_all_work(unsigned count, void *what, const char *(*work)(cluster_worker *self));

/* Until the schema of this binary, and its migrations, have arrived at every node. */
void cluster_schema_everywhere(void);

#endif
