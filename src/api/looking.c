#include "admin/admin.h"
#include "api/options.h"
#include "base/name.h"

#define LIMIT_MOST 100000

static rowlock_status check_limit(size_t limit, rowlock_error *err)
{
    if (limit > LIMIT_MOST)
        return rl_fail(err, ROWLOCK_INVALID, "a limit of %zu is over %d", limit, LIMIT_MOST);
    return ROWLOCK_OK;
}

rowlock_status rowlock_list_get(rowlock_client *client, const rowlock_list_options *given,
                                rowlock_list **list, rowlock_error *err)
{
    static const rowlock_list_options defaults = {0};
    const rowlock_list_options *options = given ? given : &defaults;
    RL_TRY(rl_client_check(client, err));
    RL_TRY(rl_place_check(list, "the list", err));
    RL_TRY(check_limit(options->limit, err));
    return rl_catalog_list(client, NULL, options, list, err);
}

rowlock_status rowlock_list_one(rowlock_client *client, const char *name, rowlock_list **list,
                                rowlock_error *err)
{
    static const rowlock_list_options defaults = {0};
    RL_TRY(rl_client_check(client, err));
    RL_TRY(rl_name_check(name, err));
    RL_TRY(rl_place_check(list, "the list", err));
    return rl_catalog_list(client, name, &defaults, list, err);
}

size_t rowlock_list_count(const rowlock_list *list)
{
    return list ? list->all.count : 0;
}

const rowlock_info *rowlock_list_at(const rowlock_list *list, size_t i)
{
    return list ? rl_list_at(&list->all, i) : NULL;
}

void rowlock_list_free(rowlock_list *list)
{
    rl_list_free(list);
}

rowlock_status rowlock_waiters_get(rowlock_client *client, const rowlock_waiters_options *given,
                                   rowlock_waiters **waiters, rowlock_error *err)
{
    static const rowlock_waiters_options defaults = {0};
    const rowlock_waiters_options *options = given ? given : &defaults;
    RL_TRY(rl_client_check(client, err));
    if (options->name)
        RL_TRY(rl_name_check(options->name, err));
    RL_TRY(rl_place_check(waiters, "the waiters", err));
    return rl_waiters_get(client, options, waiters, err);
}

size_t rowlock_waiters_count(const rowlock_waiters *waiters)
{
    return waiters ? waiters->all.count : 0;
}

const rowlock_waiter *rowlock_waiters_at(const rowlock_waiters *waiters, size_t i)
{
    return waiters ? rl_list_at(&waiters->all, i) : NULL;
}

const char *rowlock_waiters_hidden(const rowlock_waiters *waiters)
{
    return waiters ? waiters->hidden : "";
}

void rowlock_waiters_free(rowlock_waiters *waiters)
{
    rl_list_free(waiters);
}

rowlock_status rowlock_history_get(rowlock_client *client, const rowlock_history_options *given,
                                   rowlock_history **history, rowlock_error *err)
{
    static const rowlock_history_options defaults = {0};
    const rowlock_history_options *options = given ? given : &defaults;
    RL_TRY(rl_client_check(client, err));
    if (options->name)
        RL_TRY(rl_name_check(options->name, err));
    RL_TRY(rl_place_check(history, "the history", err));
    RL_TRY(check_limit(options->limit, err));
    if (rl_client_via(client))
        return rl_fail(
            err, ROWLOCK_DENIED,
            "reading the history takes SELECT on lock_event, as `looker` in sql/grants.sql "
            "(share/rowlock/grants.sql) has it: do it as such a user, without via=procedures");
    return rl_catalog_history(client, options, history, err);
}

size_t rowlock_history_count(const rowlock_history *history)
{
    return history ? history->all.count : 0;
}

const rowlock_event *rowlock_history_at(const rowlock_history *history, size_t i)
{
    return history ? rl_list_at(&history->all, i) : NULL;
}

void rowlock_history_free(rowlock_history *history)
{
    rl_list_free(history);
}
