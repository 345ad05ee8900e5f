/* migrate/open.h - connections for what changes rowlock's own schema. For rl_conn_close(). */
#ifndef RL_MIGRATE_OPEN_H
#define RL_MIGRATE_OPEN_H

#include "db/pool.h"
#include "rowlock/rowlock.h"

/* One that leads to `schema`; NULL: to none. */
rowlock_status rl_migrate_connect(const rl_params *params, const char *schema, const rl_io *io,
                                  rl_conn **conn, rowlock_error *err) RL_MUST_USE;

/* One that has the schema of `params`, which is named there as the server has it from then on, and
 * the lock of `rowlock init`, which ends with it.
 * TIMEOUT: another one has the lock. */
rowlock_status rl_migrate_open(rl_params *params, int64_t wait_ms, const rl_io *io, rl_conn **conn,
                               rowlock_error *err) RL_MUST_USE;

#endif
