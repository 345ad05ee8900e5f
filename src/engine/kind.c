#include "engine/kind.h"

#include <string.h>

static const rl_kind kinds[] = {
    {RL_KIND_LEASE, "lock (lease)", ROWLOCK_KIND_LEASE, ROWLOCK_OPTIMISTIC, false,
     RL_SQL_RESOURCE_CREATE_RENEWAL},
    {RL_KIND_ROW, "row lock (pessimistic)", ROWLOCK_KIND_ROW, ROWLOCK_PESSIMISTIC, true,
     RL_SQL_RESOURCE_CREATE_LOCK},
    {RL_KIND_SLOTS, "semaphore (slots)", ROWLOCK_KIND_SLOTS, ROWLOCK_OPTIMISTIC, false,
     RL_SQL_COUNT},
    {RL_KIND_LATCH, "latch", ROWLOCK_KIND_LATCH, ROWLOCK_OPTIMISTIC, false, RL_SQL_COUNT},
    {RL_KIND_BARRIER, "barrier", ROWLOCK_KIND_BARRIER, ROWLOCK_OPTIMISTIC, false, RL_SQL_COUNT},
    {RL_KIND_QUORUM, "lease of a quorum of servers", ROWLOCK_KIND_QUORUM, ROWLOCK_OPTIMISTIC, false,
     RL_SQL_COUNT},
    {RL_KIND_QUEUE, "queue", ROWLOCK_KIND_QUEUE, ROWLOCK_OPTIMISTIC, false, RL_SQL_COUNT},
};

const rl_kind *rl_kind_of(const char *word)
{
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i].word, word) == 0)
            return &kinds[i];
    return NULL;
}

rowlock_status rl_kind_find(const char *word, const char *name, const rl_kind **kind,
                            rowlock_error *err)
{
    *kind = rl_kind_of(word);
    if (*kind)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_DAMAGED, "'%s' is of a kind that this program does not know: %s",
                   name, word);
}
