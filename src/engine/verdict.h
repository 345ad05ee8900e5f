/*
 * engine/verdict.h - what a look at a name's row finds, at the server's time. The same words in
 * sql/lease.sql and in the procedures.
 */
#ifndef RL_ENGINE_VERDICT_H
#define RL_ENGINE_VERDICT_H

typedef enum rl_verdict {
    RL_VERDICT_GONE,       /* no row: the name was purged */
    RL_VERDICT_WRONG_KIND, /* the name is of another kind */
    RL_VERDICT_HELD,       /* its lease runs */
    RL_VERDICT_EXPIRED,    /* held still, by a holder whose time is over */
    RL_VERDICT_COOLING,    /* free, but not to be had yet (at_least, or it was broken) */
    RL_VERDICT_RESERVED,   /* free, for the waiter who was woken a moment ago */
    RL_VERDICT_FREE
} rl_verdict;

/* A word of a statement's; one that there is not: RL_VERDICT_GONE. */
rl_verdict rl_verdict_of(const char *word);

#endif
