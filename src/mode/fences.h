/* mode/fences.h - fences on tables: triggers that want to be shown the token first. */
#ifndef RL_MODE_FENCES_H
#define RL_MODE_FENCES_H

#include "mode/client.h"

/* Where the token of this lock stands in a session's @rowlock_presented: what the triggers look at,
 * rl_present() and CALL rowlock_present write. Two schemas may have a lock of the same name. */
enum { RL_PRESENTED_MAX = 2 * 64 + 1 + 8 * ROWLOCK_NAME_MAX };
void rl_presented_as(const char *schema, const char *name, char as[RL_PRESENTED_MAX + 1]);

struct rowlock_fences {
    rowlock_fenced *items; /* their strings are owned */
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
