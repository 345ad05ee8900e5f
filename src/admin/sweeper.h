/* admin/sweeper.h - freeing what the dead left, bounding the history, purging unused names. */
#ifndef RL_ADMIN_SWEEPER_H
#define RL_ADMIN_SWEEPER_H

#include "engine/client.h"

/* The defaults, in place of 0. */
void rl_sweep_fill_in(rowlock_sweep_options *options);

rowlock_status rl_sweep(rowlock_client *client, const rowlock_sweep_options *options,
                        rowlock_sweep_result *result, rowlock_error *err) RL_MUST_USE;

/*
 * Pure: how many rows the next batch is to have, after one of up to `size` has changed so many
 * in so long. It is to hold its row locks for about 10 ms: at most double, at least 1.
 */
size_t rl_sweep_pace(size_t size, size_t changed, int64_t took_us);

rowlock_status rl_purge(rowlock_client *client, const char *name, rowlock_error *err) RL_MUST_USE;

#endif
