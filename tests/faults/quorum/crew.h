/*
 * quorum/crew.h - the processes of a run (actor.c). Who dies is replaced, until the run is over.
 */
#ifndef QUORUM_CREW_H
#define QUORUM_CREW_H

#include "faults/quorum/world.h"

typedef struct life {
    pid_t pid;    /* 0: it does not live */
    unsigned who; /* in the history; each life has its own */
    int in;       /* its stdin: it is to end when that does */
    bool stopped;
    int64_t replace_at; /* microseconds; when there is to be another */
    unsigned lives;
} life;

typedef struct crew {
    world *world;
    const quorum_plan *plan;
    unsigned last_who;
    life of[QUORUM_ACTORS + 1]; /* the actors, and the probe at the end */
} crew;

void crew_begin(crew *c, world *w, const quorum_plan *p);
/* Buries the dead and starts who is due. */
void crew_tend(crew *c);
/* False: it cannot be. */
bool crew_signal(crew *c, unsigned actor, int signal);
bool crew_stop(crew *c, unsigned actor);
void crew_continue(crew *c, unsigned actor);
/* Everybody is told to end, and nobody is replaced. Who does not is killed. */
void crew_end(crew *c);
/* Takes the lease once more, straight from the servers. */
void crew_probe(crew *c);

#endif
