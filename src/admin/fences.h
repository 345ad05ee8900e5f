/* admin/fences.h - fences on tables: triggers that want to be shown the token first. */
#ifndef RL_ADMIN_FENCES_H
#define RL_ADMIN_FENCES_H

#include "base/text.h"
#include "engine/client.h"

struct rowlock_fences {
    rowlock_fenced *items;
    rl_texts texts; /* theirs */
    size_t count;
    size_t capacity;
};

rowlock_status rl_fence_install(rowlock_client *client, const char *table_schema,
                                const char *table_name, const char *name,
                                rowlock_error *err) RL_MUST_USE;
rowlock_status rl_fence_remove(rowlock_client *client, const char *table_schema,
                               const char *table_name, rowlock_error *err) RL_MUST_USE;
rowlock_status rl_fences_get(rowlock_client *client, rowlock_fences **fences,
                             rowlock_error *err) RL_MUST_USE;
void rl_fences_free(rowlock_fences *fences);

#endif
