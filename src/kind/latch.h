/* kind/latch.h - a latch: open when so many have counted (sql/latch.sql). */
#ifndef RL_KIND_LATCH_H
#define RL_KIND_LATCH_H

#include "engine/acquire.h"
#include "rowlock/rowlock_latch.h"

/* Statuses of the calls of rowlock_latch.h. `generation` 0: the present one. */
rowlock_status rl_latch_set(rowlock_client *client, const rl_budget *budget, const char *name,
                            unsigned count, uint64_t *generation, rowlock_error *err) RL_MUST_USE;
rowlock_status rl_latch_down(rowlock_client *client, const rl_budget *budget, const char *name,
                             const char *key, uint64_t generation, rowlock_error *err) RL_MUST_USE;
rowlock_status rl_latch_wait(rowlock_client *client, const rl_budget *budget, const char *name,
                             uint64_t *generation, rowlock_error *err) RL_MUST_USE;
/* After a statement that found nothing to count: why. OK: it is open. */
rowlock_status rl_latch_not_counted(rowlock_client *client, const rl_budget *budget,
                                    const char *name, uint64_t id, uint64_t generation,
                                    rowlock_error *err) RL_MUST_USE;
rowlock_status rl_latch_get(rowlock_client *client, const rl_budget *budget, const char *name,
                            rowlock_latch_info *info, rowlock_error *err) RL_MUST_USE;

/* A member's hold. It is renewed as a reader's (kind/shared.h). */
extern const rl_driver rl_member_driver;
rowlock_status rl_latch_join(rowlock_hold *hold, const rowlock_acquire_options *options,
                             const rl_budget *budget, uint64_t generation,
                             rowlock_error *err) RL_MUST_USE;
/* The hold has ended then, whatever the status. */
rowlock_status rl_latch_done(rowlock_hold *hold, const rowlock_release_options *options,
                             rowlock_error *err) RL_MUST_USE;

#endif
