/* engine/reentrant.h - the same lock again, for the thread that has it. */
#ifndef RL_ENGINE_REENTRANT_H
#define RL_ENGINE_REENTRANT_H

#include "engine/hold.h"

/* This thread's re-entrant hold of the name in this mode, counted once more; or NULL. */
rowlock_hold *rl_reenter(rowlock_client *client, const char *name, rowlock_mode mode, bool shared);

/* Counts one off; true when it was the last and the lock is to be released. */
bool rl_leave(rowlock_hold *hold);

#endif
