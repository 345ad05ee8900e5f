#include "admin/admin.h"
#include "admin/quorum.h"
#include "api/options.h"
#include "base/name.h"

#include <string.h>

#define LIMIT_MOST    100000
#define SINCE_MOST_MS INT64_C(315360000000) /* 10 years */

/* gcc makes one of equal functions, and the debugger, and tools/check-abi, then know only that. */
#if defined(__GNUC__) && !defined(__clang__)
#define RL_NOT_MERGED __attribute__((no_icf))
#else
#define RL_NOT_MERGED
#endif

/* How what was read is looked at. NULL is nothing. */
#define RL_LOOKED_AT(list, one)                                                                    \
    RL_NOT_MERGED size_t list##_count(const list *these)                                           \
    {                                                                                              \
        return these ? these->all.count : 0;                                                       \
    }                                                                                              \
    RL_NOT_MERGED const one *list##_at(const list *these, size_t i)                                \
    {                                                                                              \
        return these ? rl_list_at(&these->all, i) : NULL;                                          \
    }                                                                                              \
    RL_NOT_MERGED void list##_free(list *these)                                                    \
    {                                                                                              \
        rl_list_free(these);                                                                       \
    }

RL_LOOKED_AT(rowlock_list, rowlock_info)
RL_LOOKED_AT(rowlock_waiters, rowlock_waiter)
RL_LOOKED_AT(rowlock_history, rowlock_event)
RL_LOOKED_AT(rowlock_fences, rowlock_fenced)
RL_LOOKED_AT(rowlock_freezes, rowlock_frozen)

/* All there are (the column's, in migrations/). */
static const char events[] = "acquired, released, expired, taken_over, broken, lost, refused, "
                             "gave_up, asked, frozen, thawed, ended";

/* `name` NULL: of all; `place` for `what` is read. */
static rowlock_status check(const rowlock_client *client, const char *name, const void *place,
                            const char *what, size_t limit, rowlock_error *err)
{
    RL_TRY(rl_client_check_any(client, err));
    if (name)
        RL_TRY(rl_name_check(name, err));
    RL_TRY(rl_place_check(place, what, err));
    if (limit > LIMIT_MOST)
        return rl_fail(err, ROWLOCK_INVALID, "a limit of %zu is over %d", limit, LIMIT_MOST);
    return ROWLOCK_OK;
}

static rowlock_status check_prefix(const char *prefix, rowlock_error *err)
{
    return prefix ? rl_prefix_check(prefix, err) : ROWLOCK_OK;
}

rowlock_status rowlock_list_get(rowlock_client *client, const rowlock_list_options *given,
                                rowlock_list **list, rowlock_error *err)
{
    const rowlock_list_options options = given ? *given : (rowlock_list_options){0};
    RL_TRY(check(client, NULL, list, "the list", options.limit, err));
    RL_TRY(check_prefix(options.prefix, err));
    return client->quorum ? rl_quorum_list(client, NULL, &options, list, err)
                          : rl_catalog_list(client, NULL, &options, list, err);
}

rowlock_status rowlock_list_one(rowlock_client *client, const char *name, rowlock_list **list,
                                rowlock_error *err)
{
    const rowlock_list_options options = {0};
    RL_TRY(check(client, NULL, list, "the list", 0, err));
    RL_TRY(rl_name_check(name, err));
    return client->quorum ? rl_quorum_list(client, name, &options, list, err)
                          : rl_catalog_list(client, name, &options, list, err);
}

rowlock_status rowlock_waiters_get(rowlock_client *client, const rowlock_waiters_options *given,
                                   rowlock_waiters **waiters, rowlock_error *err)
{
    const rowlock_waiters_options options = given ? *given : (rowlock_waiters_options){0};
    RL_TRY(check(client, options.name, waiters, "the waiters", 0, err));
    return rl_waiters_get(rl_quorum_spokesman(client), &options, waiters, err);
}

const char *rowlock_waiters_hidden(const rowlock_waiters *waiters)
{
    return waiters ? waiters->hidden : "";
}

static bool is_event(const char *word, size_t length)
{
    for (const char *at = events; *at; at += strcspn(at, ", "), at += strspn(at, ", "))
        if (strcspn(at, ", ") == length && strncmp(at, word, length) == 0)
            return true;
    return false;
}

static rowlock_status check_events(const rowlock_history_options *options, rowlock_error *err)
{
    for (const char *word = options->event; word;) {
        const size_t length = strcspn(word, ",");
        if (!is_event(word, length))
            return rl_fail(err, ROWLOCK_INVALID, "there is no event '%.*s'; there are %s",
                           length < 40 ? (int)length : 40, word, events);
        word = word[length] ? word + length + 1 : NULL;
    }
    if (options->since_ms < 0 || options->since_ms > SINCE_MOST_MS)
        return rl_fail(err, ROWLOCK_INVALID, "since_ms is from 0 to 10 years");
    if (options->name && options->prefix)
        return rl_fail(err, ROWLOCK_INVALID, "a history is of a name or of a prefix, not of both");
    return ROWLOCK_OK;
}

rowlock_status rowlock_history_get(rowlock_client *client, const rowlock_history_options *given,
                                   rowlock_history **history, rowlock_error *err)
{
    const rowlock_history_options options = given ? *given : (rowlock_history_options){0};
    RL_TRY(check(client, options.name, history, "the history", options.limit, err));
    RL_TRY(check_prefix(options.prefix, err));
    RL_TRY(check_events(&options, err));
    if (rl_client_via(client))
        return rl_fail(
            err, ROWLOCK_DENIED,
            "reading the history takes SELECT on lock_event, as `looker` in sql/grants.sql "
            "(share/rowlock/grants.sql) has it: do it as such a user, without via=procedures");
    return rl_catalog_history(rl_quorum_spokesman(client), &options, history, err);
}

rowlock_status rowlock_fences_get(rowlock_client *client, rowlock_fences **fences,
                                  rowlock_error *err)
{
    RL_TRY(check(client, NULL, fences, "the fences", 0, err));
    RL_TRY(rl_client_check(client, err));
    return rl_fences_get(client, fences, err);
}

rowlock_status rowlock_freezes_get(rowlock_client *client, rowlock_freezes **freezes,
                                   rowlock_error *err)
{
    RL_TRY(check(client, NULL, freezes, "the freezes", 0, err));
    if (rl_client_via(client))
        return rl_fail(err, ROWLOCK_DENIED,
                       "reading what is frozen takes SELECT on lock_freeze, as `looker` in "
                       "sql/grants.sql (share/rowlock/grants.sql) has it: do it as such a user, "
                       "without via=procedures");
    return rl_freezes_get(client, freezes, err);
}
