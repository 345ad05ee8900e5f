/*
 * runs/crew.h - the processes of a run: programs (actor.c), and probes. Who dies is replaced, until
 * the run is over.
 */
#ifndef RUNS_CREW_H
#define RUNS_CREW_H

#include "world.h"

enum { CREW_MAX = PLAN_ACTORS + PLAN_SLOTS + PLAN_SLOTS_MOST };

typedef struct member {
    const planned_actor *plan; /* NULL: there is none */
    pid_t pid;                 /* 0: it does not live */
    unsigned who;              /* in the history; each life has its own */
    int in;                    /* its stdin: it is to end when that does; -1: it is to end */
    bool stopped;
    int64_t replace_at; /* microseconds; when there is to be another */
    unsigned lives;
} member;

typedef struct crew {
    world *world;
    const plan *plan;
    const char *actor; /* path of the program */
    unsigned last_who;
    member members[CREW_MAX]; /* the actors, then the probes */
} crew;

void crew_begin(crew *c, world *w, const plan *p, const char *actor);
/* Buries the dead and starts who is due. */
void crew_tend(crew *c);
/* Who has this process; PLAN_ACTORS: nobody. */
unsigned crew_member(const crew *c, pid_t pid);
/* False: it cannot be. */
bool crew_signal(crew *c, unsigned actor, int signal);
bool crew_stop(crew *c, unsigned actor);
void crew_continue(crew *c, unsigned actor);
/* Everybody is told to end, and nobody is replaced. Who does not is killed. */
void crew_end(crew *c);
/* Takes every lock once more, straight from the server; of a name with slots all of them; a barrier
 * with as many as it takes. */
void crew_probe(crew *c);

#endif
