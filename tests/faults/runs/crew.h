/*
 * runs/crew.h - the processes of a run: programs (actor.c), and probes. Who dies is replaced, until
 * the run is over.
 */
#ifndef RUNS_CREW_H
#define RUNS_CREW_H

#include "faults/runs/schedule.h"
#include "support/support.h"

enum { CREW_MAX = PLAN_ACTORS + PLAN_SLOTS + PLAN_SLOTS_MOST, CREW_WORDS = 13 };

typedef struct life {
    const void *plan;   /* of that process; NULL: there is none */
    int64_t respawn_ms; /* when it has died, another takes its place so much later */
    pid_t pid;          /* 0: it does not live */
    unsigned who;       /* in the history; each life has its own */
    int in;             /* its stdin: it is to end when that does; -1: it is to end */
    bool stopped;
    int64_t replace_at; /* microseconds; when there is to be another */
    unsigned lives;
} life;

typedef struct crew crew;

/* What a process is started with: its program first, NULL behind the last. They are used before the
 * next call. */
typedef void crew_words(const crew *c, const life *l, bool probes,
                        const char *words[CREW_WORDS + 1]);

struct crew {
    history *log;
    const char *folder; /* of the history */
    crew_words *put_words;
    const void *world; /* and what else it takes for that */
    const void *plan;
    unsigned last_who;
    unsigned probes;   /* so many, behind the actors */
    life of[CREW_MAX]; /* the actors, then the probes */
};

void crew_add(crew *c, unsigned actor, const void *planned, int64_t respawn_ms);
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
/* Another one, which takes a lock once more, straight from the servers. */
void crew_add_probe(crew *c, const void *planned);
void crew_end_probes(crew *c);

#endif
