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

/* A period that was begun with this token; 0: none. */
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
    bool once;        /* it does nothing else with its lease */
    unsigned members; /* of the barrier; 0: it is none */
    unsigned slots;   /* 0: the name has none */
    bool fenced;
    bool poll;
    bool slow_disk;
    int64_t ttl_ms;
    unsigned readers;
    dice dice;
    dice leading;    /* whether it leads, and observes: all else stays as it is */
    unsigned values; /* that it has published */
    dice jobs;       /* what it does once in a period, likewise ... */
    once_late late;  /* ... and what it does of that after the release */
    rowlock_client *client;
    rowlock_hold *hold;
    bool shared;    /* the hold is */
    bool changes;   /* and may be changed */
    uint64_t token; /* of the hold; of several slots, of the first ... */
    char name[64];  /* ... and this is the one that writes are guarded by */
    char owner[64];
    MYSQL *table; /* NULL: not connected */
    unsigned writes;
} actor;

void actor_pass_ms(int64_t ms);
bool actor_told_to_stop(void);
void actor_on_lost(void *data, rowlock_hold *hold, const char *reason);
/* True: there is a client. */
bool actor_open(actor *a, const rowlock_client_options *options);
bool actor_still_ours(const actor *a);
void actor_release(actor *a);
/* Releases, too; but nobody says whether that worked. */
void actor_close(actor *a);
_Noreturn void actor_quit(actor *a);
/* For how long it will wait for what it wants next. */
int64_t actor_wait_ms(actor *a);

bool actor_open_client(actor *a);
/* On the connection of its own. */
bool actor_sql(actor *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* In the user's own transaction. True: it was begun. */
bool actor_begin(actor *a);
/* The status of what was done in it: "OK", "NONE" (rolled back), "UNKNOWN". */
const char *actor_end(actor *a, bool commit);
/* What came back from the call that was logged last. */
void actor_back(actor *a, rowlock_status status, uint64_t generation);

void queue_cycle(actor *a);
void queue_probe(actor *a);
void latch_cycle(actor *a);
void latch_probe(actor *a);
void barrier_cycle(actor *a);
/* By whoever has just acquired the lease alone; and after its release. */
void once_cycle(actor *a);
void once_after(actor *a);
void barrier_probe(actor *a);

#endif
