/*
 * runs/faults.h - carries out the faults of a schedule, each from its moment for its time.
 */
#ifndef RUNS_FAULTS_H
#define RUNS_FAULTS_H

#include "faults/runs/world.h"

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

typedef struct faults {
    world *world;
    crew *crew;
    int64_t start;
    live_fault list[PLAN_FAULTS];
    unsigned count;
} faults;

void faults_begin(faults *f, world *w, crew *c, const plan *p);
void faults_tend(faults *f);
/* All is well again when it returns. */
void faults_end(faults *f);

#endif
