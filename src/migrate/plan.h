/* migrate/plan.h - the folder beside the history: what is to be done, and what speaks against it.
 */
#ifndef RL_MIGRATE_PLAN_H
#define RL_MIGRATE_PLAN_H

#include "migrate/folder.h"
#include "migrate/ledger.h"
#include "rowlock/rowlock_migrate.h"

typedef struct rl_entry {
    uint64_t version;
    const rl_file *file;     /* NULL: there is none */
    const rl_record *record; /* NULL: there is none */
    rowlock_migrations_state state;
    bool wanted;
    char problem[1024]; /* "": none */
} rl_entry;

/* By version. Points into the folder and the ledger. */
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
                            const rl_ledger *ledger, rl_plan *plan,
                            rowlock_error *err) RL_MUST_USE;
void rl_plan_free(rl_plan *plan);

/* REPAIR, and the first problem; else OK. */
rowlock_status rl_plan_check(const rl_plan *plan, rowlock_error *err) RL_MUST_USE;

#endif
