/*
 * inside/talks.h - the conversations with the library in which something is made to fail, and what
 * must hold after each of them, whatever failed.
 */
#ifndef RL_TALKS_H
#define RL_TALKS_H

#include "inside/inject.h"
#include "support/support.h"

/* A set of statuses. */
#define MAY(status) (1u << ROWLOCK_##status)

typedef struct talk_state {
    rowlock_client *client; /* open, unless the talk opens it itself */
    MYSQL *own;             /* the caller's own connection, in no transaction; only where wanted */
    const char *name;       /* of the lock, not used before where the talk is `fresh` */
    rowlock_mode mode;
    rowlock_error err; /* of the call that ended it */
} talk_state;

enum {
    TALK_OPENS = 1,   /* it opens and closes the client itself */
    TALK_FRESH = 2,   /* a new name each time */
    TALK_OWN = 4,     /* it wants a connection of the caller's */
    TALK_HELD = 8,    /* somebody else holds the lock meanwhile ... */
    TALK_BREAKS = 16, /* ... and may not have it any more afterwards */
    TALK_BEHIND = 32, /* the library's threads have something of their own to do in it */
    TALK_ALIKE = 64,  /* it hardly differs from another one */
    TALK_VIA = 128,   /* its client works through the procedures */
};

typedef struct talk {
    const char *name;
    /* What it ends with: the status of the first call that did not go as when nothing fails, else
     * OK. */
    rowlock_status (*run)(talk_state *state);
    rowlock_mode mode;
    unsigned flags;
    unsigned also;  /* statuses that it may end with, too: a set of MAY() */
    unsigned every; /* only each so-manieth thing fails, unless ts_long(); 0: each */
} talk;

/* In sql_talks.c. */
void sql_talks_begin(void);
void sql_talks_end(void);
rowlock_status talk_migrations(talk_state *state);
rowlock_status talk_migrations_repair(talk_state *state);
rowlock_status talk_table_fence(talk_state *state);
rowlock_status talk_procedures(talk_state *state);
rowlock_status talk_sweep_event(talk_state *state);

/* In a talk: what must not be. It ends there. */
void talk_complain(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

extern const talk talks[];
extern const size_t talk_count;

/* What stands beside: the witness, another client that nothing fails for. */
int talks_begin(void **state);
int talks_end(void **state);
typedef struct trial {
    inject_kind kind;
    inject_side side;
    unsigned allowed; /* what the talk may end with, when something failed */
    bool brief;       /* without the talks that hardly differ from another one */
    unsigned shift;   /* where the sampled ones begin, so that not all have the same samples */
} trial;

typedef struct talk_result {
    unsigned failed;    /* things that failed, one in each round */
    unsigned connector; /* rounds in which Connector/C crashed over what it was refused ... */
    unsigned leaks;     /* ... and in which it has not freed something of its own */
} talk_result;

/*
 * The talk again and again; each time the next thing of this kind fails, until nothing is left
 * that could. After each: the status is an allowed one with a proper error, the same client works,
 * and when it is closed nothing of it is left: no block, no descriptor, no thread; and another
 * client gets the lock, at once or when its TTL is over.
 */
talk_result talk_through(const talk *t, const trial *how);

/* All the talks in which that side has something to do; says how many failed. ROWLOCK_TALK="renew"
 * has only those with this in their names. */
void talk_through_all(const trial *how);

#endif
