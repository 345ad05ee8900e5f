#include "engine/reentrant.h"

#include <string.h>

static bool is_it(const rowlock_hold *hold, const char *name, rowlock_mode mode)
{
    return hold->reentrant && hold->mode == mode && hold->count == 1 &&
           hold->thread == rl_this_thread() && strcmp(hold->locks[0].name, name) == 0;
}

rowlock_hold *rl_reenter(rowlock_client *client, const char *name, rowlock_mode mode)
{
    pthread_mutex_lock(&client->mutex);
    rowlock_hold *hold = client->holds;
    while (hold && !is_it(hold, name, mode))
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
