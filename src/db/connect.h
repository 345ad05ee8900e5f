/* db/connect.h - the two ways of rl_conn_open(), for src/db alone. */
#ifndef RL_DB_CONNECT_H
#define RL_DB_CONNECT_H

#include "db/conn.h"

/* In this thread: blocks in the resolver where the host is a name. */
rowlock_status rl_connect_here(const rl_params *params, const rl_io *io, rl_conn **out,
                               rowlock_error *err) RL_MUST_USE;

/* In a thread of its own, which is left behind when the io's time is over. */
rowlock_status rl_connect_aside(const rl_params *params, const rl_io *io, rl_conn **out,
                                rowlock_error *err) RL_MUST_USE;

/* A child process has none of its parent's threads. */
void rl_connect_forget_helpers(void);

/* What it means that a connect was ended (TIMEOUT, CANCELLED), which began at `since_us`. */
rowlock_status rl_connect_gave_up(rowlock_status ended, int64_t since_us, rowlock_error *err);

#endif
