/*
 * runs/world.h - the environment of a run's processes: a private server, a proxy before it, a
 * schema with the guarded table; and threads that watch it.
 */
#ifndef RUNS_WORLD_H
#define RUNS_WORLD_H

#include "faults/runs/faults.h"
#include "support/own_server.h"

typedef struct world {
    const char *actor; /* path of the processes' program */
    server server;
    watch watch;
    char schema[40];
    char folder[400]; /* the history's folder */
    history log;      /* the driver's */
    MYSQL *locker;    /* the session of ROW_LOCKED */
    unsigned slots;   /* of this run's name with slots */
    bool queue;       /* this run has a queue */
} world;

/* Starts a world for any number of runs. */
void world_start(world *w, const char *actor);
void world_end(world *w);

/* A fresh schema and an empty history in `folder`. */
void world_begin_run(world *w, const plan *p, const char *folder);
/* The driver looks at all rows now. */
void world_look(world *w);
/* The last looks; then the schema is dropped. */
void world_end_run(world *w);

/* Sets the crew's processes. At the end probes acquire every lock once more: all slots of a name,
 * and a barrier with as many as it takes. */
void world_crew(world *w, const plan *p, crew *c);
void world_probe(const plan *p, crew *c);

/* Sets the faults that can be made in this world. */
void world_faults(world *w, faults *f);

#endif
