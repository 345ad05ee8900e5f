#include "rowlock/rowlock_barrier.h"

#include "api/options.h"
#include "base/name.h"
#include "engine/hold.h"
#include "kind/barrier.h"

static rowlock_status check(const rowlock_client *client, const char *name, unsigned count,
                            rowlock_hold *const *hold, rowlock_error *err)
{
    RL_TRY(rl_client_check(client, err));
    RL_TRY(rl_name_check(name, err));
    RL_TRY(rl_place_check(hold, "the hold", err));
    if (count < 1 || count > ROWLOCK_BARRIER_MAX)
        return rl_fail(err, ROWLOCK_INVALID, "'%s' cannot be a barrier of %u; 1 to %d enter it",
                       name, count, ROWLOCK_BARRIER_MAX);
    if (rl_client_via(client))
        return rl_fail(err, ROWLOCK_UNSUPPORTED,
                       "'%s': a barrier is entered in a transaction, for which there is no "
                       "procedure (via=procedures)",
                       name);
    return ROWLOCK_OK;
}

rowlock_status rowlock_barrier_enter(rowlock_client *client, const char *name, unsigned count,
                                     const rowlock_barrier_options *given, rowlock_hold **out,
                                     rowlock_error *err)
{
    const rowlock_barrier_options asked = given ? *given : (rowlock_barrier_options){0};
    const rowlock_acquire_options as_lease = {.shared = true,
                                              .wait_ms = asked.wait_ms,
                                              .ttl_ms = asked.ttl_ms,
                                              .cancel = asked.cancel,
                                              .on_lost = asked.on_lost,
                                              .on_lost_data = asked.on_lost_data};
    rowlock_acquire_options options;
    rowlock_hold *hold = NULL;
    RL_TRY(check(client, name, count, out, err));
    RL_TRY(rl_options_acquire(&as_lease, &options, err));
    rl_budget budget = rl_budget_start(options.wait_ms, client->limit_ms, options.cancel);
    if (rl_budget_cancelled(&budget))
        return rl_fail(err, ROWLOCK_CANCELLED, "%s", rowlock_status_text(ROWLOCK_CANCELLED));
    RL_TRY(rl_hold_new(client, &name, 1, &options, &hold, err));
    hold->member = RL_BARRIER_MEMBER;
    rowlock_status status = rl_barrier_enter(hold, count, &options, &budget, err);
    if (status == ROWLOCK_OK)
        *out = hold;
    else
        rl_hold_free(hold);
    return status;
}

rowlock_status rowlock_barrier_leave(rowlock_hold *hold, int64_t wait_ms, rowlock_cancel *cancel,
                                     rowlock_error *err)
{
    if (!hold)
        return rl_fail(err, ROWLOCK_INVALID, "no hold was given (NULL)");
    RL_TRY(rl_client_check(hold->client, err));
    if (hold->member != RL_BARRIER_MEMBER)
        return rl_fail(err, ROWLOCK_INVALID, "'%s' is held, and not as a member of a barrier",
                       hold->locks[0].name);
    rl_budget budget = rl_budget_start(wait_ms, hold->client->limit_ms, cancel);
    return rl_barrier_leave(hold, &budget, err);
}
