/* kind/leader.h - the holder of a lease who publishes a value, and who reads it (sql/leader.sql).
 */
#ifndef RL_KIND_LEADER_H
#define RL_KIND_LEADER_H

#include "engine/hold.h"
#include "rowlock/rowlock_leader.h"

/* INVALID: no text that can be published. "" can: it is none. */
rowlock_status rl_value_check(const char *value, rowlock_error *err) RL_MUST_USE;

/* The hold is an ordinary lease's. Statuses of rowlock_hold_set_value(), and CANCELLED. */
rowlock_status rl_leader_publish(rowlock_hold *hold, const char *value, rowlock_cancel *cancel,
                                 rowlock_error *err) RL_MUST_USE;

/* Statuses of rowlock_observe(). */
rowlock_status rl_leader_observe(rowlock_client *client, const rl_budget *budget, const char *name,
                                 const rowlock_leader *after, rowlock_leader *leader,
                                 rowlock_error *err) RL_MUST_USE;

#endif
