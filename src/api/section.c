#include "kind/section.h"
#include <inttypes.h>

#include "api/options.h"
#include "base/name.h"
#include "kind/transaction.h"
#include "rowlock/rowlock_mysql.h"

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

static const rowlock_section_options section_defaults = {0};

/* ------------------------------------------------------------------- alone */

typedef struct alone {
    rowlock_client *client;
    const char *name;
    rl_budget budget;
    rowlock_section_fn fn;
    void *data;
} alone;

static rowlock_status begin_nothing(void *data, rowlock_error *err)
{
    (void)data;
    (void)err;
    return ROWLOCK_OK;
}

static rowlock_status work(void *data, const rowlock_section *section)
{
    const alone *a = data;
    return a->fn(a->data, section);
}

static rowlock_status swap(void *data, uint64_t id, uint64_t expected, const char *owner,
                           rl_trace *trace, rowlock_error *err)
{
    const alone *a = data;
    return rl_version_swap(a->client, &a->budget, a->name, id, expected, owner, trace, err);
}

static void undo_nothing(void *data)
{
    (void)data;
}

rowlock_status rowlock_section_run(rowlock_client *client, const char *name,
                                   const rowlock_section_options *given, rowlock_section_fn fn,
                                   void *data, rowlock_section_result *result, rowlock_error *err)
{
    const rowlock_section_options *options = given ? given : &section_defaults;
    if (result)
        *result = (rowlock_section_result){0};
    RL_TRY(check_section(client, name, options, fn != NULL, err));
    int64_t wait_ms = options->wait_ms ? options->wait_ms : ROWLOCK_WAIT_FOREVER;
    alone a = {.client = client,
               .name = name,
               .budget = rl_budget_start(wait_ms, client->limit_ms, options->cancel),
               .fn = fn,
               .data = data};
    const rl_section_ways ways = {
        .data = &a, .begin = begin_nothing, .work = work, .swap = swap, .undo = undo_nothing};
    return rl_section_run(client, name, options, &ways, result, err);
}

/* ---------------------------------------------------------------- in a transaction */

rowlock_status rowlock_tx_section_run(rowlock_client *client, MYSQL *mysql, const char *name,
                                      const rowlock_section_options *given,
                                      rowlock_tx_section_fn fn, void *data,
                                      rowlock_section_result *result, rowlock_error *err)
{
    const rowlock_section_options *options = given ? given : &section_defaults;
    if (result)
        *result = (rowlock_section_result){0};
    RL_TRY(check_section(client, name, options, fn != NULL, err));
    RL_TRY(rl_tx_check(mysql, false, err));
    return rl_tx_section(client, mysql, name, options, fn, data, result, err);
}

/* -------------------------------------------------------------------- the halves */

static rowlock_status check_bump(const rowlock_client *client, const char *name,
                                 const uint64_t *version, rowlock_error *err)
{
    RL_TRY(check_section(client, name, &section_defaults, true, err));
    return rl_place_check(version, "the version", err);
}

rowlock_status rowlock_version_read(rowlock_client *client, const char *name, uint64_t *version,
                                    rowlock_error *err)
{
    RL_TRY(check_bump(client, name, version, err));
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    rowlock_status status = ROWLOCK_OK;
    uint64_t id = 0;
    uint64_t read = 0;
    int64_t hint_us = 1;
    /* hint 1: the row changed under us; look again. */
    for (int i = 0; i < 10 && hint_us == 1; i++) {
        hint_us = 0;
        status = rl_version_read(client, &budget, name, &id, &read, &hint_us, err);
    }
    if (status == ROWLOCK_OK)
        *version = read;
    return status;
}

/*
 * A section of one attempt, whose work is to see that the version is the caller's: so that a
 * lost reply is looked up as a section's is.
 */
typedef struct bump {
    alone section;
    uint64_t expected;
    uint64_t seen;
} bump;

static rowlock_status compare(void *data, const rowlock_section *section)
{
    bump *b = data;
    b->seen = section->version;
    return b->seen == b->expected ? ROWLOCK_OK : ROWLOCK_CONFLICT;
}

static rowlock_status swap_of_bump(void *data, uint64_t id, uint64_t expected, const char *owner,
                                   rl_trace *trace, rowlock_error *err)
{
    bump *b = data;
    return swap(&b->section, id, expected, owner, trace, err);
}

rowlock_status rowlock_version_bump(rowlock_client *client, const char *name, uint64_t expected,
                                    uint64_t *version, rowlock_error *err)
{
    const rowlock_section_options once = {.max_attempts = 1};
    RL_TRY(check_bump(client, name, version, err));
    bump b = {.section = {.client = client,
                          .name = name,
                          .budget = rl_budget_start(0, client->limit_ms, NULL)},
              .expected = expected};
    const rl_section_ways ways = {.data = &b,
                                  .cheap = true,
                                  .begin = begin_nothing,
                                  .work = compare,
                                  .swap = swap_of_bump,
                                  .undo = undo_nothing};
    rowlock_section_result result;
    rowlock_status status = rl_section_run(client, name, &once, &ways, &result, err);
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
    RL_TRY(check_bump(client, name, version, err));
    RL_TRY(rl_tx_check(mysql, true, err));
    rl_budget budget = rl_budget_start(client->limit_ms, client->limit_ms, NULL);
    char owner[ROWLOCK_OWNER_MAX + 1];
    uint64_t id = 0;
    rl_client_owner(client, owner);
    rowlock_status status = rl_resource_id(client, &budget, name, RL_KIND_LEASE, &id, err);
    if (status == ROWLOCK_OK)
        status = rl_tx_swap(client, mysql, &budget, name, id, expected, owner, err);
    if (status == ROWLOCK_OK)
        *version = expected + 1;
    if (status != ROWLOCK_UNKNOWN)
        return status;
    return rl_fail(err, ROWLOCK_UNAVAILABLE,
                   "'%s': the connection is gone, and its transaction with it", name);
}
