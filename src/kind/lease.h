/* kind/lease.h - optimistic mode's lease: acquire, renew, release, expire. */
#ifndef RL_KIND_LEASE_H
#define RL_KIND_LEASE_H

#include "engine/hold.h"

/* The hold is new; on OK it is held. Statuses of rowlock_acquire(). */
rowlock_status rl_lease_acquire(rowlock_hold *hold, const rowlock_acquire_options *options,
                                const rl_budget *budget, rowlock_error *err) RL_MUST_USE;

/* The hold has ended (rl_hold_end); the row is given back. Statuses of rowlock_release(). */
rowlock_status rl_lease_release(rowlock_hold *hold, const rowlock_release_options *options,
                                rowlock_error *err) RL_MUST_USE;

/* An rl_renew: all in one statement. */
rowlock_status rl_lease_renew(rl_pool *pool, rl_renewal *renewals, size_t count, const rl_io *io,
                              rowlock_error *err) RL_MUST_USE;

/* Frees a lease whose time is over. *freed: it was, and now it is free. */
rowlock_status rl_lease_expire(rowlock_client *client, const rl_budget *budget, uint64_t id,
                               uint64_t version, bool *freed, rowlock_error *err) RL_MUST_USE;

#endif
