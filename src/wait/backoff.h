/* wait/backoff.h - the only place that waits between attempts. An *attempt* is one round of a
 * call's loop; a *try* is a call with wait_ms 0 (try_once of its budget). */
#ifndef RL_WAIT_BACKOFF_H
#define RL_WAIT_BACKOFF_H

#include "base/budget.h"

/* Doubles from `first_us` to `most_us`; each delay is drawn between half of it and all. */
typedef struct rl_backoff {
    int64_t first_us;
    int64_t most_us;
    unsigned attempt;
} rl_backoff;

/* For what an answer of the server is awaited: a row that is free again, a server that is back. */
#define RL_BACKOFF_USUAL                                                                           \
    {                                                                                              \
        .first_us = 5000, .most_us = 250000                                                        \
    }

/* Pure: `random` is any 32 bits. */
int64_t rl_backoff_next_us(rl_backoff *backoff, uint32_t random);

/* In *hint_us: what was in the way is gone, so even a try tries again (a few times). */
#define RL_AT_ONCE 1

/* In *hint_us: no other attempt follows, whatever the status is. */
#define RL_FINAL INT64_MIN

/* In *hint_us: an attempt within the next `us` (above 0) cannot succeed, whatever happens
 * meanwhile. */
#define RL_NOT_BEFORE(us) (-(us))

/*
 * One call's attempts. `attempt` answers OK or a final status, or one after which it is
 * worth trying again: BUSY (also DEADLOCK), UNAVAILABLE. In *hint_us it says when to try again:
 * above 0, within so many microseconds; 0, no idea; or RL_AT_ONCE, RL_FINAL, RL_NOT_BEFORE().
 */
typedef struct rl_attempts {
    const rl_budget *budget;
    int64_t outage_us; /* how long UNAVAILABLE may go on, measured from its first */
    /* When the server last answered, also in an attempt that ended with UNAVAILABLE: an outage is
     * measured from there. NULL: only the attempts' statuses tell. */
    const int64_t *reached_us;
    rl_backoff backoff;
    bool busy_is_final;
    bool (*unsettled)(const void *data); /* true: a try must go on, its own effect is open */
    /*
     * After BUSY, in place of the pause; may be NULL. OK: try again at once. BUSY: pause as
     * usual. Anything else ends the call.
     */
    rowlock_status (*await)(void *data, rowlock_error *err);
} rl_attempts;

typedef rowlock_status (*rl_attempt)(void *data, int64_t *hint_us, rowlock_error *err);

/*
 * BUSY once only (but see RL_AT_ONCE) when the budget is for a try; TIMEOUT, CANCELLED when the
 * waiting ended; UNAVAILABLE when the outage lasted too long; else what `attempt` said last.
 */
rowlock_status rl_attempt_until(const rl_attempts *how, rl_attempt attempt, void *data,
                                rowlock_error *err) RL_MUST_USE;

/* Pauses: others may do meanwhile what we would otherwise have to do for them. */
void rl_give_time(const rl_budget *budget, int64_t us);
/* The same, even past the budget's deadline (which a call that does not wait has at its start). */
void rl_give_moment(const rl_budget *budget, int64_t us);

#endif
