/*
 * runs/actor.h - one process of a run, and its work at each kind of name. Processes of a quorum use
 * the first part (acting.c).
 */
#ifndef RUNS_ACTOR_H
#define RUNS_ACTOR_H

#include <mysql.h>

#include "faults/runs/history.h"
#include "faults/runs/schedule.h"
#include "rowlock/rowlock.h"

/* A period, and the token with which it was begun; 0: none. */
typedef struct once_late {
    int64_t period;
    uint64_t token;
} once_late;

typedef struct actor {
    history log;
    const char *socket;
    const char *schema;
    const char *lock;
    bool lease;
    bool latch;
    bool queue;
    bool once;        /* it only works once in a period under its lease */
    unsigned members; /* the barrier's number; 0: no barrier */
    unsigned slots;   /* 0: none */
    bool fenced;
    bool poll;
    bool slow_disk;
    int64_t ttl_ms;
    unsigned readers;
    dice dice;
    dice leading;    /* for leading and observing, so that other choices do not depend on it */
    unsigned values; /* how many values it has published */
    dice jobs;       /* likewise for work once in a period ... */
    once_late late;  /* ... and the work that it does after the release */
    rowlock_client *client;
    rowlock_hold *hold;
    bool shared;    /* the hold is shared */
    bool changes;   /* the hold may be upgraded or downgraded */
    uint64_t token; /* the hold's token; of several slots, the first one's ... */
    char name[64];  /* ... and its name, by which writes are guarded */
    char owner[64];
    MYSQL *table; /* NULL: not connected */
    unsigned writes;
} actor;

void actor_pass_ms(int64_t ms);
bool actor_told_to_stop(void);
void actor_on_lost(void *data, rowlock_hold *hold, const char *reason);
/* True: the client is open. */
bool actor_open(actor *a, const rowlock_client_options *options);
bool actor_still_ours(const actor *a);
void actor_release(actor *a);
/* Releases, too, with an unknown outcome. */
void actor_close(actor *a);
_Noreturn void actor_quit(actor *a);
/* Chooses how long it waits for its next lock. */
int64_t actor_wait_ms(actor *a);

bool actor_open_client(actor *a);
/* Runs SQL on its own connection. */
bool actor_sql(actor *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Begins the user's own transaction. True: it was begun. */
bool actor_begin(actor *a);
/* Ends it. The status of its work: "OK", "NONE" (rolled back), "UNKNOWN". */
const char *actor_end(actor *a, bool commit);
/* Logs the result of the call that was logged last. */
void actor_back(actor *a, rowlock_status status, uint64_t generation);

void queue_cycle(actor *a);
void queue_probe(actor *a);
void latch_cycle(actor *a);
void latch_probe(actor *a);
void barrier_cycle(actor *a);
/* once_cycle() works under a lease that was just acquired; once_after() works after its release. */
void once_cycle(actor *a);
void once_after(actor *a);
void barrier_probe(actor *a);

#endif
