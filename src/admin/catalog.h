/* admin/catalog.h - lists of locks and of history, read whole. */
#ifndef RL_ADMIN_CATALOG_H
#define RL_ADMIN_CATALOG_H

#include "base/text.h"
#include "engine/client.h"

struct rowlock_list {
    rowlock_info *infos;
    rl_texts texts; /* theirs */
    size_t count;
    size_t capacity;
};

struct rowlock_history {
    rowlock_event *events;
    rl_texts texts; /* theirs */
    size_t count;
    size_t capacity;
};

/* `name` NULL: all that fit the options. */
rowlock_status rl_catalog_list(rowlock_client *client, const char *name,
                               const rowlock_list_options *options, rowlock_list **list,
                               rowlock_error *err) RL_MUST_USE;
void rl_catalog_list_free(rowlock_list *list);

rowlock_status rl_catalog_history(rowlock_client *client, const rowlock_history_options *options,
                                  rowlock_history **history, rowlock_error *err) RL_MUST_USE;
void rl_catalog_history_free(rowlock_history *history);

#endif
