/* migrate/migrate.h - bringing the schema up to date, and checking that it is. */
#ifndef RL_MIGRATE_H
#define RL_MIGRATE_H

#include "db/pool.h"
#include "rowlock/rowlock.h"

/* `params` names the schema. */
rowlock_status rl_migrate(const rl_params *params, const rowlock_migrate_options *options,
                          const char *applied_by, rowlock_migrate_result *result,
                          rowlock_error *err) RL_MUST_USE;

/*
 * A connection that has the schema, and the lock of `rowlock init`, which ends with it; for
 * rl_conn_close(). TIMEOUT: another one has the lock.
 */
rowlock_status rl_migrate_open(const rl_params *params, int64_t wait_ms, const rl_io *io,
                               rl_conn **conn, rowlock_error *err) RL_MUST_USE;

/* Is the schema one that this program can use? SCHEMA, DAMAGED. */
rowlock_status rl_schema_check(rl_conn *conn, const char *schema, const rl_io *io,
                               rowlock_error *err) RL_MUST_USE;

/* The schema's version; 0: none. SCHEMA when there is none, or an unfinished one. */
rowlock_status rl_schema_version(rl_conn *conn, const char *schema, const rl_io *io,
                                 unsigned *version, rowlock_error *err) RL_MUST_USE;

#endif
