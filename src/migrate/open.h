/* migrate/open.h - connections for what changes rowlock's own schema. */
#ifndef RL_MIGRATE_OPEN_H
#define RL_MIGRATE_OPEN_H

#include "db/pool.h"
#include "rowlock/rowlock.h"

/* One call that changes the schema which `params` name. */
typedef struct rl_maker {
    rl_params *params;
    rl_io io;
    rl_conn *conn;
} rl_maker;

/* A connection that leads to `schema`; NULL: to none. For rl_conn_close(). */
rowlock_status rl_maker_connect(const rl_maker *m, const char *schema, rl_conn **conn,
                                rowlock_error *err) RL_MUST_USE;

/*
 * m->conn: one that has the schema, which is named in the params as the server has it from then on,
 * and the lock of `rowlock init`, which ends with it. Close it on every status.
 * TIMEOUT: another one has the lock.
 */
rowlock_status rl_maker_open(rl_maker *m, int64_t wait_ms, rowlock_error *err) RL_MUST_USE;

/* Returns `status`; where a right is missing for `task`, with the GRANT of `rights` in front. */
rowlock_status rl_maker_close(rl_maker *m, rowlock_status status, const char *task,
                              const char *rights, rowlock_error *err) RL_MUST_USE;

#endif
