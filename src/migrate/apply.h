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

/* --------------------------------------- work.c: the connection on which a file is run */

/* One file at work. */
typedef struct rl_work {
    rl_site *site;
    const rl_file *file;
    rl_conn *conn; /* NULL: not open */
    bool lingers;  /* it was closed, and has not ended in time */
    int64_t started_us;
    rl_record row; /* as noted last */
    int64_t noted_us;
    rl_statement statement; /* at work */
    unsigned step;          /* its number */
    unsigned first;         /* statements that had taken effect before */
    rl_sha256 sum;          /* of all statements so far */
} rl_work;

/* LOST, CANCELLED, or OK: is the lock ours? */
rowlock_status rl_still_ours(const rl_site *site, rowlock_error *err);

/* Opens and registers its connection, and takes the marker. Close it on every status. */
rowlock_status rl_work_open(rl_work *w, rowlock_error *err) RL_MUST_USE;

/* *got: the marker is ours. INVALID: quotes are not read there as the file is. */
rowlock_status rl_work_mark(const rl_work *w, bool *got, rowlock_error *err) RL_MUST_USE;

/* Ends it, and what it may be at: the next one, or we, would have to wait for it. */
void rl_work_close(rl_work *w);

#endif
