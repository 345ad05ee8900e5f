/* kind/barrier.h - a barrier: so many enter together, and leave together (sql/barrier.sql). */
#ifndef RL_KIND_BARRIER_H
#define RL_KIND_BARRIER_H

#include "engine/acquire.h"

/* Statuses of rowlock_barrier_enter() and _leave(). The hold is one of a single part. */
rowlock_status rl_barrier_enter(rowlock_hold *whole, unsigned count,
                                const rowlock_acquire_options *options, const rl_budget *budget,
                                rowlock_error *err) RL_MUST_USE;
rowlock_status rl_barrier_leave(rowlock_hold *whole, const rl_budget *budget,
                                rowlock_error *err) RL_MUST_USE;

extern const rl_driver rl_barrier_driver;

#endif
