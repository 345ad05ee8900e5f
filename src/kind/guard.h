/* kind/guard.h - other connections of a lease's holder, which end before another client gets it. */
#ifndef RL_KIND_GUARD_H
#define RL_KIND_GUARD_H

#include "engine/hold.h"
#include "rowlock/rowlock_mysql.h"

/* Can connections be registered with it? UNSUPPORTED: no. */
rowlock_status rl_guard_check(const rowlock_hold *hold, rowlock_error *err) RL_MUST_USE;

rowlock_status rl_guard_add(rowlock_hold *hold, MYSQL *mysql, rowlock_error *err) RL_MUST_USE;

/* A statement for sessions that register themselves; of ROWLOCK_INIT_COMMAND_MAX + 1 bytes. */
rowlock_status rl_guard_command(const rowlock_hold *hold, char *text,
                                rowlock_error *err) RL_MUST_USE;

#endif
