/* migrate/apply.h - running the files of a plan on connections of their own, under somebody's lock.
 */
#ifndef RL_MIGRATE_APPLY_H
#define RL_MIGRATE_APPLY_H

#include "migrate/plan.h"

typedef struct rl_applying {
    rl_site *site;
    rl_budget budget; /* of the wait for a dead migrator's connection; its cancel ends everything */
    uint64_t table_wait_s;
    bool (*ours)(void *data); /* is the lock still ours? No round trip */
    void *ours_data;
    rowlock_migrations_fn progress; /* may be NULL */
    void *progress_data;
    unsigned file; /* the how-manieth of them is at work */
    unsigned files;
} rl_applying;

/*
 * Takes the history over: our token is the guard's, and the connection of whoever had it before has
 * ended, with its statement. REPAIR, LOST, TIMEOUT, CANCELLED. `anyhow`: as rl_guard_enter().
 */
rowlock_status rl_apply_enter(rl_applying *a, bool anyhow, bool gone,
                              rowlock_error *err) RL_MUST_USE;

/* Runs what is left of a wanted entry. */
rowlock_status rl_apply_entry(rl_applying *a, const rl_entry *entry,
                              rowlock_error *err) RL_MUST_USE;

/* Does the server take each statement's size, and the sql_mode of each file that asks for one?
 * INVALID. */
rowlock_status rl_apply_check(rl_site *site, const rl_plan *plan, rowlock_error *err) RL_MUST_USE;

#endif
