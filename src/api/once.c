#include "kind/once.h"

#include "admin/admin.h"
#include "api/options.h"
#include "base/name.h"
#include "engine/kind.h"
#include "kind/transaction.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MOST    100000

static rowlock_status check_hold(const rowlock_hold *hold, rowlock_error *err)
{
    if (!hold)
        return rl_fail(err, ROWLOCK_INVALID, "no hold was given (NULL)");
    RL_TRY(rl_client_check(hold->client, err));
    if (hold->mode == ROWLOCK_OPTIMISTIC && !hold->shared && hold->count == 1 && !hold->parts &&
        !hold->member)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_INVALID,
                   "'%s' is not held as a lease alone: it cannot begin a period",
                   hold->locks[0].name);
}

static rowlock_status check_period(const char *name, const rl_period *period, rowlock_error *err)
{
    if (period->start_us >= 0 && period->start_us < period->end_us &&
        period->end_us <= ROWLOCK_ONCE_TIME_MAX)
        return ROWLOCK_OK;
    return rl_fail(
        err, ROWLOCK_INVALID,
        "'%s': a period begins in 1970 or later and ends after that, before the year 10000", name);
}

rowlock_status rowlock_once_begin(rowlock_hold *hold, int64_t start_us, int64_t end_us,
                                  const rowlock_once_options *given, rowlock_once_result *result,
                                  rowlock_error *err)
{
    const rl_period period = {start_us, end_us};
    rowlock_once_options options = given ? *given : (rowlock_once_options){0};
    RL_TRY(check_hold(hold, err));
    RL_TRY(check_period(hold->locks[0].name, &period, err));
    RL_TRY(rl_place_check(result, "the result", err));
    if (options.attempts == 0)
        options.attempts = ROWLOCK_ONCE_ATTEMPTS;
    if (options.attempts > ROWLOCK_ONCE_ATTEMPTS_MAX)
        return rl_fail(err, ROWLOCK_INVALID, "'%s': %u attempts are over %d", hold->locks[0].name,
                       options.attempts, ROWLOCK_ONCE_ATTEMPTS_MAX);
    const rl_budget budget =
        rl_budget_start(options.wait_ms, hold->client->limit_ms, options.cancel);
    if (rl_budget_cancelled(&budget))
        return rl_fail(err, ROWLOCK_CANCELLED, "%s", rowlock_status_text(ROWLOCK_CANCELLED));
    *result = (rowlock_once_result){.attempt = 0};
    return rl_once_begin(hold, &budget, &period, &options, result, err);
}

static rowlock_status end(rowlock_hold *hold, bool done, int exit_status, rowlock_error *err)
{
    RL_TRY(check_hold(hold, err));
    if (exit_status < 0 || exit_status > ROWLOCK_ONCE_EXIT_STATUS_MAX)
        return rl_fail(err, ROWLOCK_INVALID, "'%s': an exit status is 0 to %d, not %d",
                       hold->locks[0].name, ROWLOCK_ONCE_EXIT_STATUS_MAX, exit_status);
    /* It bears an outage as long as a waiting call does: what was done is not to be done again. */
    const rl_budget budget =
        rl_budget_start(hold->client->outage_us / 1000, hold->client->limit_ms, NULL);
    return rl_once_end(hold, &budget, done, exit_status, err);
}

rowlock_status rowlock_once_done(rowlock_hold *hold, rowlock_error *err)
{
    return end(hold, true, 0, err);
}

rowlock_status rowlock_once_failed(rowlock_hold *hold, int exit_status, rowlock_error *err)
{
    return end(hold, false, exit_status, err);
}

rowlock_status rowlock_tx_once_done(rowlock_client *client, MYSQL *mysql, const char *name,
                                    uint64_t token, rowlock_error *err)
{
    RL_TRY(rl_client_check(client, err));
    RL_TRY(rl_name_check(name, err));
    RL_TRY(rl_tx_check(mysql, true, err));
    return rl_tx_once_done(client, mysql, name, token, err);
}

/* ----------------------------------------------------------------- the ledger */

rowlock_status rowlock_once_get(rowlock_client *client, const rowlock_once_get_options *given,
                                rowlock_once_runs **runs, rowlock_error *err)
{
    rowlock_once_get_options options = given ? *given : (rowlock_once_get_options){0};
    RL_TRY(rl_client_check(client, err));
    RL_TRY(rl_place_check(runs, "the list", err));
    if (options.name)
        RL_TRY(rl_name_check(options.name, err));
    if (options.after)
        RL_TRY(rl_name_check(options.after, err));
    if (options.limit > LIMIT_MOST)
        return rl_fail(err, ROWLOCK_INVALID, "a limit of %zu is over %d", options.limit,
                       LIMIT_MOST);
    if (options.limit == 0)
        options.limit = LIMIT_DEFAULT;
    if (options.ends_after_us < 0 || options.ends_after_us > ROWLOCK_ONCE_TIME_MAX)
        return rl_fail(err, ROWLOCK_INVALID,
                       "a period ends in 1970 or later, and before the year 10000");
    if (options.starts_before_us < 0 || options.starts_before_us > ROWLOCK_ONCE_TIME_MAX)
        return rl_fail(err, ROWLOCK_INVALID,
                       "a period begins in 1970 or later, and before the year 10000");
    if (options.starts_before_us == 0)
        options.starts_before_us = ROWLOCK_ONCE_TIME_MAX;
    return rl_once_list(client, &options, runs, err);
}

size_t rowlock_once_count(const rowlock_once_runs *runs)
{
    return runs ? runs->all.count : 0;
}

const rowlock_once_run *rowlock_once_at(const rowlock_once_runs *runs, size_t i)
{
    return runs ? rl_list_at(&runs->all, i) : NULL;
}

int64_t rowlock_once_now_us(const rowlock_once_runs *runs)
{
    return runs ? runs->now_us : 0;
}

void rowlock_once_free(rowlock_once_runs *runs)
{
    rl_list_free(runs);
}
