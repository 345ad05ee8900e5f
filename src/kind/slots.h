/* kind/slots.h - a name that several hold at once, up to a number. */
#ifndef RL_KIND_SLOTS_H
#define RL_KIND_SLOTS_H

#include "engine/acquire.h"

/* Statuses of rowlock_acquire(). */
rowlock_status rl_slots_acquire(rowlock_hold *whole, const rowlock_acquire_options *options,
                                const rl_budget *budget, rowlock_error *err) RL_MUST_USE;

/* How many the name has. NOT_FOUND: it is not there, or is not one of slots. */
rowlock_status rl_slots_count(rowlock_client *client, const rl_budget *budget, const char *name,
                              uint64_t *id, unsigned *slots, rowlock_error *err) RL_MUST_USE;
/* The name is made if it is new. */
rowlock_status rl_slots_set(rowlock_client *client, const rl_budget *budget, const char *name,
                            unsigned slots, rowlock_error *err) RL_MUST_USE;

#endif
