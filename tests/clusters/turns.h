/*
 * clusters/turns.h - many clients, on several nodes, take turns at a few names; each hold is
 * recorded with its times, and the record is checked afterwards.
 */
#ifndef CLUSTERS_TURNS_H
#define CLUSTERS_TURNS_H

#include "clusters/cluster.h"

typedef struct turns_plan {
    int nodes[CLUSTER_NODES]; /* of the clients; 0 ends the list */
    int clients;              /* per node; a thread each */
    int names;                /* how many new names */
    int turns;                /* per client, to be completed */
    int64_t ttl_ms;
    int64_t within_ms; /* the limit for all of them */
    bool troubled;     /* nodes come and go: calls may fail, and holds be lost */
} turns_plan;

typedef struct turns turns;

turns *turns_start(const turns_plan *plan);
/* The number of turns completed so far by the clients of a node (0: by all). */
int turns_done(turns *all, int node);
/* True if no turn will be taken any more: all are completed, or one has failed, or the time is
 * over. */
bool turns_over(turns *all);
/*
 * Waits for all clients and checks the record: every turn was completed; on each name, in the order
 * of the tokens, no two holds overlap and no token comes twice. Fails the test otherwise.
 */
void turns_finish(turns *all);

#endif
