/*
 * quorum/world.h - the servers of a run, of which each knows nothing of the others; a proxy before
 * each; a clock of its own for each, where libfaketime is installed.
 */
#ifndef QUORUM_WORLD_H
#define QUORUM_WORLD_H

#include "faults/quorum/plan.h"
#include "rowlock/rowlock_quorum.h"
#include "support/proxy.h"

typedef struct member {
    char folder[300]; /* of tools/server */
    char clock[300];  /* the file that says how far off its clock is */
    char server[108]; /* its socket */
    ts_proxy *proxy;
    MYSQL *admin;
    /* While it is down, frozen, or has just come back, its slowness is no news. */
    atomic_uint faults;
    atomic_uint changes;
    pid_t job;  /* that starts it, or lets it join again; 0: none */
    bool wiped; /* it is started anew without data, ... */
    bool joins; /* ... and then asks the others what it is to know */
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
    atomic_bool stop_watching;
    pthread_t heart;
    pthread_t observer;
} world;

/* For any number of runs with so many members at most. */
void world_start(world *w, unsigned members, const char *actor);
void world_end(world *w);

/* A fresh quorum, and an empty history in `folder`. */
void world_begin_run(world *w, const quorum_plan *p, const char *folder);
void world_end_run(world *w, const quorum_plan *p);

/* The URLs of its members, separated by blanks: bit i of `proxied`: through the proxy. */
void world_urls(const world *w, unsigned proxied, char *to, size_t size);

/* What is done to a member that is not up does nothing: false. */
bool world_up(const member *m);
bool world_down(member *m, int signal); /* SIGKILL or SIGSTOP */
void world_thaw(member *m);
/* Begins to start it; with new data, where it is to be wiped. */
void world_restart(world *w, member *m, bool wiped);
/* Has it come to its end? Of one that was wiped: it belongs to the quorum again. */
bool world_restarted(world *w, member *m);
bool world_step(member *m, int64_t ms);
bool world_sql(member *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Kills the nth connection of an actor (or what it runs). */
bool world_kill(member *m, const char *what, unsigned nth);

#endif
