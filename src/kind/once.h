/* kind/once.h - work that is done once in a period: the ledger's row (sql/once.sql). */
#ifndef RL_KIND_ONCE_H
#define RL_KIND_ONCE_H

#include "engine/hold.h"
#include "rowlock/rowlock_once.h"

typedef struct rl_period {
    int64_t start_us;
    int64_t end_us;
} rl_period;

/* Statuses of the calls of rowlock_once.h. */
rowlock_status rl_once_begin(rowlock_hold *hold, const rl_budget *budget, const rl_period *period,
                             const rowlock_once_options *options, rowlock_once_result *result,
                             rowlock_error *err) RL_MUST_USE;
rowlock_status rl_once_end(rowlock_hold *hold, const rl_budget *budget, bool done, int exit_status,
                           rowlock_error *err) RL_MUST_USE;

#endif
