/* kind/row.h - pessimistic mode: the row lock is the lock. */
#ifndef RL_KIND_ROW_H
#define RL_KIND_ROW_H

#include "engine/hold.h"

/* One name or a set. The hold is new; on OK it is held. Statuses of rowlock_acquire(). */
rowlock_status rl_row_acquire(rowlock_hold *hold, const rl_budget *budget,
                              rowlock_error *err) RL_MUST_USE;

/* The hold has ended (rl_hold_end). Statuses of rowlock_release(). */
rowlock_status rl_row_release(rowlock_hold *hold, const rowlock_release_options *options,
                              rowlock_error *err) RL_MUST_USE;

/*
 * If the row says that the lock is held, but no session has it locked, marks it free (its holder is
 * dead). *freed: it was marked. Takes the row's lock for a moment.
 */
rowlock_status rl_row_expire(rowlock_client *client, const rl_budget *budget, uint64_t id,
                             uint64_t version, const char *owner, bool *freed,
                             rowlock_error *err) RL_MUST_USE;

/* The same without marking: *locked. For lists. */
rowlock_status rl_row_probe(rowlock_client *client, const rl_budget *budget, uint64_t id,
                            bool *locked, rowlock_error *err) RL_MUST_USE;

/* UNSUPPORTED where two nodes could grant one row lock. */
rowlock_status rl_row_check(const rowlock_client *client, rowlock_error *err) RL_MUST_USE;

/* A TTL in whole seconds, as the server's wait_timeout takes it. */
int64_t rl_row_ttl_ms(int64_t ttl_ms);

#endif
