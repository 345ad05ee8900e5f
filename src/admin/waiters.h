/* admin/waiters.h - who waits for a lock, as the server knows it. */
#ifndef RL_ADMIN_WAITERS_H
#define RL_ADMIN_WAITERS_H

#include "base/text.h"
#include "engine/client.h"

struct rowlock_waiters {
    rowlock_waiter *items;
    rl_texts texts; /* theirs */
    size_t count;
    size_t capacity;
    const char *hidden; /* a constant */
};

rowlock_status rl_waiters_get(rowlock_client *client, const rowlock_waiters_options *options,
                              rowlock_waiters **waiters, rowlock_error *err) RL_MUST_USE;
void rl_waiters_free(rowlock_waiters *waiters);

#endif
