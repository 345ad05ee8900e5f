/* kind/fence.h - a transaction that commits only while the lock is still held. */
#ifndef RL_KIND_FENCE_H
#define RL_KIND_FENCE_H

#include "engine/hold.h"
#include "rowlock/rowlock_mysql.h"

rowlock_status rl_fence(rowlock_hold *hold, MYSQL *mysql, rowlock_error *err) RL_MUST_USE;

/* Where the token of this lock stands in a session's @rowlock_presented: what the triggers look at,
 * rl_present() and CALL rowlock_present write. Two schemas may have a lock of the same name. */
enum { RL_PRESENTED_MAX = 2 * 64 + 1 + 8 * ROWLOCK_NAME_MAX };
void rl_presented_as(const char *schema, const char *name, char as[RL_PRESENTED_MAX + 1]);

/* The token into the session, for the triggers of admin/fences.h. */
rowlock_status rl_present(rowlock_hold *hold, MYSQL *mysql, rowlock_error *err) RL_MUST_USE;

#endif
