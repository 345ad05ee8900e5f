#include "engine/reentrant.h"

#include <string.h>

/* Who has it alone may also share it; not the other way round. */
static bool is_it(const rowlock_hold *hold, const char *name, rowlock_mode mode, bool shared)
{
    return hold->reentrant && hold->mode == mode && (shared || !hold->shared) && hold->count == 1 &&
           hold->thread == rl_this_thread() && strcmp(hold->locks[0].name, name) == 0;
}

rowlock_hold *rl_reenter(rowlock_client *client, const char *name, rowlock_mode mode, bool shared)
{
    pthread_mutex_lock(&client->mutex);
    rowlock_hold *hold = client->holds;
    while (hold && !is_it(hold, name, mode, shared))
        hold = hold->next;
    if (hold)
        hold->depth++;
    pthread_mutex_unlock(&client->mutex);
    return hold;
}

bool rl_leave(rowlock_hold *hold)
{
    pthread_mutex_lock(&hold->client->mutex);
    bool last = --hold->depth == 0;
    pthread_mutex_unlock(&hold->client->mutex);
    return last;
}
