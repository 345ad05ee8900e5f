#include "admin/admin.h"
#include "api/options.h"
#include "base/name.h"

#define LIMIT_MOST 100000

/* How what was read is looked at. NULL is nothing. */
#define RL_LOOKED_AT(list, one)                                                                    \
    size_t list##_count(const list *these)                                                         \
    {                                                                                              \
        return these ? these->all.count : 0;                                                       \
    }                                                                                              \
    const one *list##_at(const list *these, size_t i)                                              \
    {                                                                                              \
        return these ? rl_list_at(&these->all, i) : NULL;                                          \
    }                                                                                              \
    void list##_free(list *these)                                                                  \
    {                                                                                              \
        rl_list_free(these);                                                                       \
    }

RL_LOOKED_AT(rowlock_list, rowlock_info)
RL_LOOKED_AT(rowlock_waiters, rowlock_waiter)
RL_LOOKED_AT(rowlock_history, rowlock_event)
RL_LOOKED_AT(rowlock_fences, rowlock_fenced)

/* `name` NULL: of all; `place` for `what` is read. */
static rowlock_status check(const rowlock_client *client, const char *name, const void *place,
                            const char *what, size_t limit, rowlock_error *err)
{
    RL_TRY(rl_client_check(client, err));
    if (name)
        RL_TRY(rl_name_check(name, err));
    RL_TRY(rl_place_check(place, what, err));
    if (limit > LIMIT_MOST)
        return rl_fail(err, ROWLOCK_INVALID, "a limit of %zu is over %d", limit, LIMIT_MOST);
    return ROWLOCK_OK;
}

rowlock_status rowlock_list_get(rowlock_client *client, const rowlock_list_options *given,
                                rowlock_list **list, rowlock_error *err)
{
    const rowlock_list_options options = given ? *given : (rowlock_list_options){0};
    RL_TRY(check(client, NULL, list, "the list", options.limit, err));
    return rl_catalog_list(client, NULL, &options, list, err);
}

rowlock_status rowlock_list_one(rowlock_client *client, const char *name, rowlock_list **list,
                                rowlock_error *err)
{
    const rowlock_list_options options = {0};
    RL_TRY(check(client, NULL, list, "the list", 0, err));
    RL_TRY(rl_name_check(name, err));
    return rl_catalog_list(client, name, &options, list, err);
}

rowlock_status rowlock_waiters_get(rowlock_client *client, const rowlock_waiters_options *given,
                                   rowlock_waiters **waiters, rowlock_error *err)
{
    const rowlock_waiters_options options = given ? *given : (rowlock_waiters_options){0};
    RL_TRY(check(client, options.name, waiters, "the waiters", 0, err));
    return rl_waiters_get(client, &options, waiters, err);
}

const char *rowlock_waiters_hidden(const rowlock_waiters *waiters)
{
    return waiters ? waiters->hidden : "";
}

rowlock_status rowlock_history_get(rowlock_client *client, const rowlock_history_options *given,
                                   rowlock_history **history, rowlock_error *err)
{
    const rowlock_history_options options = given ? *given : (rowlock_history_options){0};
    RL_TRY(check(client, options.name, history, "the history", options.limit, err));
    if (rl_client_via(client))
        return rl_fail(
            err, ROWLOCK_DENIED,
            "reading the history takes SELECT on lock_event, as `looker` in sql/grants.sql "
            "(share/rowlock/grants.sql) has it: do it as such a user, without via=procedures");
    return rl_catalog_history(client, &options, history, err);
}

rowlock_status rowlock_fences_get(rowlock_client *client, rowlock_fences **fences,
                                  rowlock_error *err)
{
    RL_TRY(check(client, NULL, fences, "the fences", 0, err));
    return rl_fences_get(client, fences, err);
}
