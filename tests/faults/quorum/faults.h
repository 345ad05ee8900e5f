/*
 * quorum/faults.h - carries out the faults of a plan, each from its moment for its time.
 */
#ifndef QUORUM_FAULTS_H
#define QUORUM_FAULTS_H

#include "faults/quorum/world.h"

typedef enum fault_stage { STAGE_PLANNED, STAGE_ON, STAGE_RESTARTING, STAGE_OVER } fault_stage;

typedef struct live_fault {
    const quorum_fault *plan;
    fault_stage stage;
    int64_t until; /* microseconds */
} live_fault;

typedef struct faults {
    world *world;
    crew *crew;
    int64_t start;
    live_fault list[QUORUM_FAULTS_MOST];
    unsigned count;
} faults;

void faults_begin(faults *f, world *w, crew *c, const quorum_plan *p);
void faults_tend(faults *f);
/* All is well again when it returns. */
void faults_end(faults *f);

#endif
