/*
 * runs/faults.h - carries out the faults of a plan, each from its moment for its time.
 */
#ifndef RUNS_FAULTS_H
#define RUNS_FAULTS_H

#include "faults/runs/crew.h"
#include "faults/runs/server.h"

/* What a world does about its servers beyond what any of them can be told. */
typedef struct fault_ways {
    /* The process that holds the lock; 0: none, or nobody can tell. */
    pid_t (*holder)(void *world, unsigned lock);
    /* Faults of its own; false: it cannot be. */
    bool (*begin)(void *world, const planned_fault *p);
    void (*end)(void *world, const planned_fault *p);
    /* A server that was killed: begins to start it; has that come to its end? */
    void (*restart)(void *world, const planned_fault *p);
    bool (*restarted)(void *world, const planned_fault *p);
} fault_ways;

typedef enum fault_stage {
    STAGE_PLANNED,
    STAGE_ARMED, /* waits for the statement that sets it off */
    STAGE_ON,
    STAGE_RESTARTING, /* the server comes back */
    STAGE_OVER
} fault_stage;

typedef struct live_fault {
    const planned_fault *plan;
    fault_stage stage;
    unsigned actor; /* whom it hit */
    int64_t until;  /* microseconds: when the stage is to end */
} live_fault;

enum { FAULTS_SERVERS = 5 };

typedef struct faults {
    const fault_ways *ways;
    void *world;
    crew *crew;
    server *servers[FAULTS_SERVERS];
    unsigned server_count;
    int64_t start;
    live_fault list[PLAN_FAULTS];
    unsigned count;
} faults;

/* The crew works for so long, while the faults come and go. When it returns all is well again, and
 * nobody works. (`f` knows its world, and the servers.) */
void faults_live_through(faults *f, crew *c, const planned_fault *list, unsigned count,
                         int64_t active_ms);

#endif
