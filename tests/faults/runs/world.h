/*
 * runs/world.h - what the actors of a run live in: a private server, a proxy before it, a schema
 * with the guarded table; and the threads that watch it.
 */
#ifndef RUNS_WORLD_H
#define RUNS_WORLD_H

#include "faults/runs/history.h"
#include "faults/runs/schedule.h"
#include "support/own_server.h"
#include "support/proxy.h"

typedef struct world {
    char server[108]; /* its socket */
    ts_proxy *proxy;
    char schema[40];
    char folder[400]; /* of the history */
    history log;      /* the driver's */
    MYSQL *admin;
    MYSQL *locker; /* of ROW_LOCKED */
    pid_t restarting;
    /* While it is down, stopped, or has just come back, its slowness is no news. */
    atomic_uint server_faults;
    atomic_uint server_changes;
    atomic_bool stop_watching;
    pthread_t heart;
    pthread_t observer;
    unsigned slots; /* of the name that has some, in this run */
    bool latch;     /* there is one */
    bool queue;     /* likewise */
} world;

/* For any number of runs. */
void world_start(world *w);
void world_end(world *w);

/* A fresh schema and an empty history in `folder`. */
void world_begin_run(world *w, const plan *p, const char *folder);
/* The driver looks at all rows, now. */
void world_look(world *w);
/* The last looks; then the schema is dropped. */
void world_end_run(world *w);

const char *world_lock(unsigned lock);

/* The server by its process. What is done to one that is not up does nothing: false. */
bool world_server_up(const world *w);
bool world_server_down(world *w, int signal); /* SIGKILL or SIGSTOP */
void world_server_restart(world *w);          /* begins it */
bool world_server_restarted(world *w);        /* has it come to its end? */
void world_server_continue(world *w);

/* On the administrator's connection; false: it did not work. */
bool world_sql(world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Kills the nth connection of an actor (or what it runs). */
bool world_kill(world *w, const char *what, unsigned nth);
/* The process that the server shows as the lock's holder, or as one of several; 0: none, or nobody
 * can tell. */
pid_t world_holder(world *w, unsigned lock);
/* Takes a lock from its holder by force. `nth`: which slot, where it has some; the one after the
 * last is the name itself, with all of them. */
bool world_break(world *w, unsigned lock, unsigned nth);
bool world_lock_row(world *w, unsigned lock, unsigned nth);
void world_unlock_row(world *w);

#endif
