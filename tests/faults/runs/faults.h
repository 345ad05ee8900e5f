/* runs/faults.h - makes the faults of a plan, each at its time and for its duration. */
#ifndef RUNS_FAULTS_H
#define RUNS_FAULTS_H

#include "faults/runs/crew.h"
#include "faults/runs/server.h"

/* What a world adds to the faults of a server. */
typedef struct fault_ways {
    /* The process that holds the lock; 0: none, or unknown. */
    pid_t (*holder)(void *world, unsigned lock);
    /* Makes a fault of its own; false: it is impossible now. */
    bool (*begin)(void *world, const planned_fault *p);
    void (*end)(void *world, const planned_fault *p);
    /* For a server that was killed: the first begins to start it, the second tells whether that has
     * ended. */
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
    unsigned actor; /* the process that it hit */
    int64_t until;  /* microseconds: end of the stage */
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

/* Lets the crew work for so long, while the faults come and go. When it returns, no fault is left,
 * and no process works. (`f` knows its world and servers.) */
void faults_live_through(faults *f, crew *c, const planned_fault *list, unsigned count,
                         int64_t active_ms);

#endif
