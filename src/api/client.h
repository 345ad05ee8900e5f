/* api/client.h - opening the client of a quorum, in two steps. */
#ifndef RL_API_CLIENT_H
#define RL_API_CLIENT_H

#include "engine/client.h"

/* All but asking the members: whether one of them is there is not known yet. INVALID, UNSUPPORTED,
 * SYSTEM. */
rowlock_status rl_client_of_members(const rowlock_client_options *options, rowlock_client **client,
                                    rowlock_error *err) RL_MUST_USE;

#endif
