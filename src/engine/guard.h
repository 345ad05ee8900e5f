/*
 * engine/guard.h - ends what is left of a lease's last holder: sessions that it has registered
 * (kind/guard.h); the docs speak of *sessions* alone, SQL of `lock_session` and `guarded`. No
 * client gets the lease before they have ended.
 */
#ifndef RL_ENGINE_GUARD_H
#define RL_ENGINE_GUARD_H

#include "engine/client.h"

typedef struct rl_guard {
    uint64_t id;
    const char *name;
    uint64_t version; /* of that holder: rl_seen.guarded */
} rl_guard;

/*
 * One look. OK: none is left, the lease is to be had. BUSY: some are still there, and have been
 * told to end, or may not be ended by this user. *ended: how many this call has found at the most,
 * 0 at its first look, and again when none is left.
 */
rowlock_status rl_guard_end(rowlock_client *client, const rl_budget *budget, const rl_guard *guard,
                            uint64_t *ended, rowlock_error *err) RL_MUST_USE;

#endif
