/* wait/reach.h - the first connection of a call: tried again while no server takes it. */
#ifndef RL_WAIT_REACH_H
#define RL_WAIT_REACH_H

#include "base/budget.h"

typedef struct rl_reach {
    int64_t retry_ms;       /* how long, all attempts together; 0: one attempt */
    int64_t limit_ms;       /* for one attempt */
    rowlock_cancel *cancel; /* or NULL */
    const rl_log *log;      /* or NULL */
} rl_reach;

/* One attempt, which may take so long. */
typedef rowlock_status (*rl_reach_attempt)(void *data, int64_t limit_ms, rowlock_error *err);

/*
 * Tries again after UNAVAILABLE, and after READONLY: at a connect that is a node which is cut off
 * from its cluster, or has not joined it yet. Every other status is final. The first attempt has
 * limit_ms in any case, a later one ends with retry_ms. When the time is over: the status of the
 * last attempt, with a message that says how long and how often it was tried.
 */
rowlock_status rl_reach_server(const rl_reach *how, rl_reach_attempt attempt, void *data,
                               rowlock_error *err) RL_MUST_USE;

#endif
