/* kind/parts.h - several locks that are held as one (a set of leases, or slots of one name): each
 * is a hold of its own, renewed, lost and recorded for itself. */
#ifndef RL_KIND_PARTS_H
#define RL_KIND_PARTS_H

#include "engine/acquire.h"

/* How a hold of a lease, be it a part or not, is acquired and released. */
const rl_driver *rl_lease_driver_of(const rowlock_hold *hold);

/* Makes the hold one of `count` parts, none of which is there yet. */
rowlock_status rl_parts_init(rowlock_hold *whole, size_t count, rowlock_error *err) RL_MUST_USE;

/* The i-th part, not yet held. */
rowlock_status rl_part_new(rowlock_hold *whole, size_t i, const char *name,
                           const rowlock_acquire_options *options, rowlock_error *err) RL_MUST_USE;

/* It is not held. */
void rl_part_drop(rowlock_hold *whole, size_t i);

static inline bool rl_part_held(const rowlock_hold *part)
{
    return part && part->acquired_us != 0;
}

/* All are held: from now on a loss of one is told as a loss of the whole. UNAVAILABLE: one has been
 * lost already. */
rowlock_status rl_parts_held(rowlock_hold *whole, const rl_budget *budget,
                             rowlock_error *err) RL_MUST_USE;

/* Those that are held are released, and none is there any more. */
void rl_parts_give_back(rowlock_hold *whole);

/* All of them, also past one that fails: the first failure is told. */
rowlock_status rl_parts_release(rowlock_hold *whole, const rowlock_release_options *options,
                                rowlock_error *err) RL_MUST_USE;

#endif
