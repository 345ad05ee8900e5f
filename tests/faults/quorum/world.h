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
    char clock[300]; /* the file with its clock's offset */
    bool wiped;      /* it is started without its data, ... */
    bool joins;      /* ... and then rejoins */
} member;

typedef struct world {
    char cluster[200];
    char schema[40];
    char folder[400];    /* the history's folder */
    char actor[400];     /* the processes' program, which also lets a member rejoin */
    history log;         /* the driver's */
    unsigned started;    /* number of servers */
    unsigned members;    /* members of this run's quorum */
    const member *loose; /* the member that does not flush its commits; NULL: all do */
    member member[QUORUM_MEMBERS];
    bool clocks; /* clocks can be moved */
    watch watch;
} world;

/* Starts a world for any number of runs with at most so many members. */
void world_start(world *w, unsigned members, const char *actor);
void world_end(world *w);

/* A fresh quorum, and an empty history in `folder`. */
void world_begin_run(world *w, const quorum_plan *p, const char *folder);
void world_end_run(world *w, const quorum_plan *p);

/* Sets the crew's processes. At the end a probe acquires the lease once more, without the
 * proxies. */
void world_crew(world *w, const quorum_plan *p, crew *c);
void world_probe(crew *c);

/* Sets the faults that can be made at these servers. */
void world_faults(world *w, faults *f);

#endif
