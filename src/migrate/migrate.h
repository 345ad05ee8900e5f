/* migrate/migrate.h - bringing the schema up to date. */
#ifndef RL_MIGRATE_H
#define RL_MIGRATE_H

#include "db/pool.h"
#include "rowlock/rowlock.h"

/* `params` names the schema. */
rowlock_status rl_migrate(rl_params *params, const rowlock_migrate_options *options,
                          const char *applied_by, rowlock_migrate_result *result,
                          rowlock_error *err) RL_MUST_USE;

#endif
