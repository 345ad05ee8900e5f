/* migrate/apply.h - running the files of a plan on connections of their own, under somebody's lock.
 */
#ifndef RL_MIGRATE_APPLY_H
#define RL_MIGRATE_APPLY_H

#include "migrate/plan.h"

/*
 * Takes the history over: our token is the guard's, and the connection of whoever had it before has
 * ended, with its statement. REPAIR, LOST, TIMEOUT, CANCELLED. `anyhow`: as rl_guard_enter().
 */
rowlock_status rl_apply_enter(rl_site *site, bool anyhow, bool gone,
                              rowlock_error *err) RL_MUST_USE;

/* Runs what is left of a wanted entry. */
rowlock_status rl_apply_entry(rl_site *site, const rl_entry *entry, rowlock_error *err) RL_MUST_USE;

/* Does the server take each statement's size, and the sql_mode of each file that asks for one?
 * INVALID. */
rowlock_status rl_apply_check(rl_site *site, const rl_plan *plan, rowlock_error *err) RL_MUST_USE;

/* To the caller, who may not have asked for it. */
void rl_tell(const rl_site *site, const rowlock_migrations_progress *what);

#endif
