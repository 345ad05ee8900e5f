#include "kind/section.h"

#include <inttypes.h>

#include "api/options.h"
#include "base/name.h"
#include "kind/transaction.h"
#include "rowlock/rowlock_mysql.h"
#include "wait/backoff.h"

static rowlock_status check_section(const rowlock_client *client, const char *name,
                                    const rowlock_section_options *options, bool has_fn,
                                    rowlock_error *err)
{
    RL_TRY(rl_client_check(client, err));
    RL_TRY(rl_name_check(name, err));
    if (!has_fn)
        return rl_fail(err, ROWLOCK_INVALID, "the section on '%s' has no function (NULL)", name);
    if (options->wait_ms < 0 || options->backoff_ms < 0 || options->backoff_max_ms < 0)
        return rl_fail(err, ROWLOCK_INVALID, "the section on '%s' has a negative duration", name);
    if (options->backoff_ms > ROWLOCK_TTL_MAX_MS || options->backoff_max_ms > ROWLOCK_TTL_MAX_MS)
        return rl_fail(err, ROWLOCK_INVALID, "the section on '%s' has a backoff of over 24 h",
                       name);
    return ROWLOCK_OK;
}

static rowlock_status run(rowlock_client *client, const char *name,
                          const rowlock_section_options *given, const rl_section_work *work,
                          rowlock_section_result *result, rowlock_error *err)
{
    const rowlock_section_options options = given ? *given : (rowlock_section_options){0};
    if (result)
        *result = (rowlock_section_result){0};
    RL_TRY(check_section(client, name, &options, work->fn || work->tx_fn, err));
    if (work->tx_fn)
        RL_TRY(rl_tx_check(work->mysql, false, err));
    return rl_section_run(client, name, &options, work, result, err);
}

rowlock_status rowlock_section_run(rowlock_client *client, const char *name,
                                   const rowlock_section_options *given, rowlock_section_fn fn,
                                   void *data, rowlock_section_result *result, rowlock_error *err)
{
    const rl_section_work work = {.fn = fn, .data = data};
    return run(client, name, given, &work, result, err);
}

rowlock_status rowlock_tx_section_run(rowlock_client *client, MYSQL *mysql, const char *name,
                                      const rowlock_section_options *given,
                                      rowlock_tx_section_fn fn, void *data,
                                      rowlock_section_result *result, rowlock_error *err)
{
    const rl_section_work work = {.mysql = mysql, .tx_fn = fn, .data = data};
    return run(client, name, given, &work, result, err);
}

/* -------------------------------------------------------------------- the halves */

static rowlock_status check_half(const rowlock_client *client, const char *name,
                                 const uint64_t *version, rowlock_error *err)
{
    RL_TRY(rl_client_check(client, err));
    RL_TRY(rl_name_check(name, err));
    return rl_place_check(version, "the version", err);
}

rowlock_status rowlock_version_read(rowlock_client *client, const char *name, uint64_t *version,
                                    rowlock_error *err)
{
    RL_TRY(check_half(client, name, version, err));
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    rowlock_status status = ROWLOCK_OK;
    char owner[ROWLOCK_OWNER_MAX + 1];
    rl_section_read read = {0};
    int64_t hint_us = RL_AT_ONCE;
    rl_client_owner(client, owner);
    for (int i = 0; i < 10 && hint_us == RL_AT_ONCE; i++) {
        hint_us = 0;
        status = rl_version_read(client, &budget, name, owner, &read, &hint_us, err);
    }
    if (status == ROWLOCK_OK)
        *version = read.version;
    return status;
}

typedef struct bump {
    uint64_t expected;
    uint64_t seen;
} bump;

static rowlock_status compare(void *data, const rowlock_section *section)
{
    bump *b = data;
    b->seen = section->version;
    return b->seen == b->expected ? ROWLOCK_OK : ROWLOCK_CONFLICT;
}

/*
 * A section of one attempt, whose work is to see that the version is the caller's: so that a
 * lost reply is looked up as a section's is.
 */
rowlock_status rowlock_version_bump(rowlock_client *client, const char *name, uint64_t expected,
                                    uint64_t *version, rowlock_error *err)
{
    RL_TRY(check_half(client, name, version, err));
    const rowlock_section_options once = {.max_attempts = 1};
    bump b = {.expected = expected};
    const rl_section_work work = {.fn = compare, .data = &b, .cheap = true};
    rowlock_section_result result;
    rowlock_status status = rl_section_run(client, name, &once, &work, &result, err);
    if (status == ROWLOCK_OK)
        *version = result.version;
    if (status == ROWLOCK_CONFLICT)
        return rl_fail(err, status, "'%s' has version %" PRIu64 " or a later one, not %" PRIu64,
                       name, b.seen, expected);
    return status;
}

rowlock_status rowlock_tx_version_bump(rowlock_client *client, MYSQL *mysql, const char *name,
                                       uint64_t expected, uint64_t *version, rowlock_error *err)
{
    RL_TRY(check_half(client, name, version, err));
    RL_TRY(rl_tx_check(mysql, true, err));
    rl_budget budget = rl_budget_start(client->limit_ms, client->limit_ms, NULL);
    const rl_caller caller = rl_tx_caller(client, mysql);
    char owner[ROWLOCK_OWNER_MAX + 1];
    uint64_t id = 0;
    rl_client_owner(client, owner);
    RL_TRY(rl_resource_id(client, &budget, name, RL_KIND_LEASE, &id, err));
    rowlock_status status =
        rl_version_swap_in(&caller, client, &budget, name, id, expected, owner, err);
    if (status == ROWLOCK_OK)
        *version = expected + 1;
    return status == ROWLOCK_UNKNOWN ? rl_tx_gone(name, err) : status;
}
