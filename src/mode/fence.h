/* mode/fence.h - a transaction that commits only while the lock is still held. */
#ifndef RL_MODE_FENCE_H
#define RL_MODE_FENCE_H

#include "mode/hold.h"
#include "rowlock/rowlock_mysql.h"

rowlock_status rl_fence(rowlock_hold *hold, MYSQL *mysql, rowlock_error *err) RL_MUST_USE;

/* The token into the session, for the triggers of mode/fences.h. */
rowlock_status rl_present(rowlock_hold *hold, MYSQL *mysql, rowlock_error *err) RL_MUST_USE;

#endif
