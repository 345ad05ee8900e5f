/*
 * kind/quorum.h - a lease at a majority of independent servers (kind/members.h).
 *
 * A hold of a quorum's client is an ordinary lease to all that is above: it has a token, a deadline
 * and a keeper. Below it is a grant: what each member has said to one owner id.
 */
#ifndef RL_KIND_QUORUM_H
#define RL_KIND_QUORUM_H

#include "engine/hold.h"
#include "kind/members.h"

/* UNSUPPORTED or INVALID, with the reason: a quorum cannot do that. `any_ttl`: the caller has named
 * no TTL. */
rowlock_status rl_quorum_check(rowlock_client *client, rowlock_acquire_options *options,
                               bool any_ttl, rowlock_error *err) RL_MUST_USE;

/* The hold is new; on OK it is held. Statuses of rowlock_acquire(). */
rowlock_status rl_quorum_acquire(rowlock_hold *hold, const rowlock_acquire_options *options,
                                 const rl_budget *budget, rowlock_error *err) RL_MUST_USE;

/* The hold has ended (rl_hold_end). Statuses of rowlock_release(). */
rowlock_status rl_quorum_release(rowlock_hold *hold, const rowlock_release_options *options,
                                 rowlock_error *err) RL_MUST_USE;

/* An rl_renew. */
rowlock_status rl_quorum_renew(rl_pool *pool, rl_renewal *renewals, size_t count, const rl_io *io,
                               rowlock_error *err) RL_MUST_USE;

/* At how many members a hold counts now that is not lost, and this process's. */
size_t rl_quorum_votes(const rowlock_hold *hold);

/* Drops the grant without a word to the members: their votes end by themselves. Does nothing for a
 * hold that is no quorum's. */
void rl_quorum_abandon(rowlock_hold *hold);

/* In a forked child. Takes NULL. */
void rl_grant_forget(rl_grant *grant);

#endif
