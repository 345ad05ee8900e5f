/* migrate/apply.h - makes a plan from the folder and the history, and runs its files on connections
 * of their own, under the caller's lock. */
#ifndef RL_MIGRATE_APPLY_H
#define RL_MIGRATE_APPLY_H

#include "migrate/folder.h"
#include "migrate/ledger.h"

/* --------------------------------------------------------------------- plan.c: the plan */

typedef struct rl_entry {
    uint64_t version;
    const rl_file *file;     /* NULL: none in the folder */
    const rl_record *record; /* NULL: none in the history */
    rowlock_migrations_state state;
    bool wanted;
    bool anew;          /* run it from its first statement, whatever its row says */
    char problem[1024]; /* "": none */
} rl_entry;

/* Sorted by version. Points into the folder and the ledger. */
typedef struct rl_plan {
    rl_entry *entries;
    size_t count;
    unsigned wanted;
    uint64_t target; /* 0: all */
    bool out_of_order;
    uint64_t newest_file;
    uint64_t newest_record;
} rl_plan;

/* INVALID: the target is no file's number. Free it on every status. */
rowlock_status rl_plan_make(const rowlock_migrations_options *options, const rl_folder *folder,
                            const rl_ledger *ledger, rl_plan *plan, rowlock_error *err) RL_MUST_USE;
void rl_plan_free(rl_plan *plan);

/* REPAIR with the first problem, or OK. */
rowlock_status rl_plan_check(const rl_plan *plan, rowlock_error *err) RL_MUST_USE;

/* ----------------------------------------------------------------- apply.c, running it */

/*
 * Takes the history over: writes our token into the guard, and ends the last migrator's connection
 * with its statement. REPAIR, LOST, TIMEOUT, CANCELLED. `anyhow`: as rl_guard_enter().
 */
rowlock_status rl_apply_enter(rl_site *site, bool anyhow, bool gone,
                              rowlock_error *err) RL_MUST_USE;

/* Runs the rest of a wanted entry. */
rowlock_status rl_apply_entry(rl_site *site, const rl_entry *entry, rowlock_error *err) RL_MUST_USE;

/* INVALID: the server does not take a statement's size, or the sql_mode that a file asks for. */
rowlock_status rl_apply_check(rl_site *site, const rl_plan *plan, rowlock_error *err) RL_MUST_USE;

/* Calls the caller's `progress`, if there is one. */
void rl_tell(const rl_site *site, const rowlock_migrations_progress *what);

/* --------------------------------------- work.c: the connection on which a file is run */

/* A file that is being run. */
typedef struct rl_work {
    rl_site *site;
    const rl_file *file;
    rl_conn *conn; /* NULL: not open */
    bool lingers;  /* it was closed, but the server has not ended it in time */
    int64_t started_us;
    rl_record row; /* as last noted */
    int64_t noted_us;
    rl_statement statement; /* the present one */
    unsigned step;          /* its number */
    unsigned first;         /* statements that had taken effect before */
    rl_sha256 sum;          /* of all statements so far */
} rl_work;

/* LOST, CANCELLED, or OK: the lock is still ours. */
rowlock_status rl_still_ours(const rl_site *site, rowlock_error *err);

/* Opens and registers the file's connection, and takes the marker. Close it on every status. */
rowlock_status rl_work_open(rl_work *w, rowlock_error *err) RL_MUST_USE;

/* *got: the marker is ours. INVALID: the session reads quotes in another way than we split the
 * file. */
rowlock_status rl_work_mark(const rl_work *w, bool *got, rowlock_error *err) RL_MUST_USE;

/* Ends the connection with the statement that it may be running, and waits until both have
 * ended. */
void rl_work_close(rl_work *w);

#endif
