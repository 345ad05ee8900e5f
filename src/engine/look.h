/*
 * engine/look.h - what a look at a name's row finds, at the server's time.
 */
#ifndef RL_ENGINE_LOOK_H
#define RL_ENGINE_LOOK_H

#include "engine/client.h"

/* The same words as in sql/resource.sql and in the procedures. */
typedef enum rl_verdict {
    RL_VERDICT_GONE,       /* no row: the name was purged */
    RL_VERDICT_WRONG_KIND, /* the name is of another kind */
    RL_VERDICT_HELD,       /* its lease runs, or it is published for a row lock */
    RL_VERDICT_EXPIRED,    /* held still, by a holder whose time is over */
    RL_VERDICT_SHARED,   /* readers may enter, and may be in; or its next writer was not heard of */
    RL_VERDICT_DRAINING, /* its next writer waits for the readers that are in */
    RL_VERDICT_COOLING,  /* free, but still closed (at_least, or it was broken), or frozen */
    RL_VERDICT_RESERVED, /* free, for the waiter that was woken a moment ago */
    RL_VERDICT_FREE
} rl_verdict;

typedef struct rl_seen {
    char kind[17];
    rl_verdict verdict;
    int64_t left_us; /* how long that lasts if the row is not changed (SHARED: sql/resource.sql) */
    uint64_t version;
    bool ours;      /* the owner id is the caller's; of SHARED and DRAINING, the next writer's is */
    bool last_ours; /* readers or not: the last to hold it alone, or to change it, was the caller */
    char label[ROWLOCK_LABEL_MAX * 4 + 1];
    int64_t held_us;
    uint64_t connection_id; /* as the clause `reserved` says (sql/clauses.sql) */
    bool read_only;         /* the server */
    bool frozen;            /* no client gets it now, whatever the verdict (sql/freeze.sql) */
    uint64_t guarded; /* the version whose sessions must end first (engine/guard.h); 0: none */
} rl_seen;

/* One round trip. A name that was purged is a verdict, too: the status is OK then. */
rowlock_status rl_look(rowlock_client *client, const rl_budget *budget, uint64_t id,
                       const char *name, const char *kind, const char *owner, rl_seen *seen,
                       rowlock_error *err) RL_MUST_USE;

/* The row's status is `held`: its verdict is HELD or EXPIRED, by any owner. */
bool rl_seen_status_held(const rl_seen *seen);

#endif
