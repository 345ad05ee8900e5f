/*
 * quorum/world.h - the independent servers of a run; a proxy before each; and a clock of its own
 * for each, if libfaketime is installed.
 */
#ifndef QUORUM_WORLD_H
#define QUORUM_WORLD_H

#include "faults/quorum/plan.h"
#include "faults/runs/faults.h"
#include "rowlock/rowlock_quorum.h"

typedef struct member {
    server server;
    char clock[300]; /* the file that says how far off its clock is */
    bool wiped;      /* it is started anew without data, ... */
    bool joins;      /* ... and then asks the others what it is to know */
} member;

typedef struct world {
    char cluster[200];
    char schema[40];
    char folder[400];    /* of the history */
    char actor[400];     /* the program, which lets a member join again, too */
    history log;         /* the driver's */
    unsigned started;    /* so many servers there are */
    unsigned members;    /* of this run */
    const member *loose; /* it does not flush its commits; NULL: all do */
    member member[QUORUM_MEMBERS];
    bool clocks; /* they can be moved */
    watch watch;
} world;

/* For any number of runs with so many members at most. */
void world_start(world *w, unsigned members, const char *actor);
void world_end(world *w);

/* A fresh quorum, and an empty history in `folder`. */
void world_begin_run(world *w, const quorum_plan *p, const char *folder);
void world_end_run(world *w, const quorum_plan *p);

/* Its processes; at the end one takes the lease once more, straight from the servers. */
void world_crew(world *w, const quorum_plan *p, crew *c);
void world_probe(crew *c);

/* Knows what can be done to these servers. */
void world_faults(world *w, faults *f);

#endif
