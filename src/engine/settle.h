/* engine/settle.h - after a lost reply: making sure that the request is over, one way or the other.
 */
#ifndef RL_ENGINE_SETTLE_H
#define RL_ENGINE_SETTLE_H

#include "engine/client.h"

/*
 * A look at the row proves nothing while the server may still be working on the request (a
 * commit that waits for the disk, or for a replica). Ends the connection it went out on. OK: the
 * server has forgotten it, so the change is committed or it is not. UNAVAILABLE: it has not yet, or
 * cannot be asked; the caller asks again.
 */
rowlock_status rl_settle(rowlock_client *client, const rl_budget *budget, const rl_trace *trace,
                         rowlock_error *err) RL_MUST_USE;

/*
 * Ends the connection of `trace`, and waits for that within the budget, so that what it had locked
 * is free. In vain where the server cannot be reached.
 */
void rl_settle_connection(rowlock_client *client, const rl_budget *budget, const rl_trace *trace);

/* rl_session_kill() on a connection of the pool. */
rowlock_status rl_kill_connection(rowlock_client *client, const rl_budget *budget,
                                  uint64_t connection_id, rowlock_error *err) RL_MUST_USE;

#endif
