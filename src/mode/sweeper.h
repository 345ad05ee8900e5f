/* mode/sweeper.h - freeing what the dead left, bounding the history, purging unused names. */
#ifndef RL_MODE_SWEEPER_H
#define RL_MODE_SWEEPER_H

#include "mode/client.h"

rowlock_status rl_sweep(rowlock_client *client, const rowlock_sweep_options *options,
                        rowlock_sweep_result *result, rowlock_error *err) RL_MUST_USE;

rowlock_status rl_break(rowlock_client *client, const char *name, const char *reason,
                        rowlock_error *err) RL_MUST_USE;

#endif
