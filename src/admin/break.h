/* admin/break.h - a lock is taken from its holder by force. */
#ifndef RL_ADMIN_BREAK_H
#define RL_ADMIN_BREAK_H

#include "engine/client.h"

rowlock_status rl_break(rowlock_client *client, const char *name,
                        const rowlock_break_options *options, rowlock_error *err) RL_MUST_USE;

#endif
