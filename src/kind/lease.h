/* kind/lease.h - optimistic mode's lease. */
#ifndef RL_KIND_LEASE_H
#define RL_KIND_LEASE_H

#include "engine/acquire.h"

extern const rl_driver rl_lease_driver;

/* An rl_renew: all in one statement. */
rowlock_status rl_lease_renew(rl_pool *pool, rl_renewal *renewals, size_t count, const rl_io *io,
                              rowlock_error *err) RL_MUST_USE;

/* The same of asks: an rl_renew of row locks, which finds out which of them were asked, and an
 * rl_ask_read. */
rowlock_status rl_asks_look_at(rl_pool *pool, rl_renewal *renewals, size_t count, const rl_io *io,
                               rowlock_error *err) RL_MUST_USE;
rowlock_status rl_ask_read_one(rl_pool *pool, uint64_t id, uint64_t version, const rl_io *io,
                               rl_ask *ask, rowlock_error *err) RL_MUST_USE;

/* Frees a lease whose time is over. *freed: it was, and now it is free. */
rowlock_status rl_lease_expire(rowlock_client *client, const rl_budget *budget, uint64_t id,
                               uint64_t version, bool *freed, rowlock_error *err) RL_MUST_USE;

/* Raises the connection's wait_timeout to the TTL at least: before that the server would end it,
 * and ring the bell that it has. */
rowlock_status rl_lease_raise_idle_limit(rl_conn *conn, int64_t ttl_us, const rl_budget *budget,
                                         rowlock_error *err) RL_MUST_USE;

#endif
