#include "kind/leader.h"

#include "api/options.h"
#include "base/name.h"

rowlock_status rowlock_observe(rowlock_client *client, const char *name,
                               const rowlock_observe_options *given, rowlock_leader *leader,
                               rowlock_error *err)
{
    const rowlock_observe_options options = given ? *given : (rowlock_observe_options){0};
    RL_TRY(rl_client_check(client, err));
    RL_TRY(rl_name_check(name, err));
    RL_TRY(rl_place_check(leader, "the leader", err));
    rl_budget budget = rl_budget_start(options.wait_ms, client->limit_ms, options.cancel);
    if (rl_budget_cancelled(&budget))
        return rl_fail(err, ROWLOCK_CANCELLED, "%s", rowlock_status_text(ROWLOCK_CANCELLED));
    return rl_leader_observe(client, &budget, name, options.after, leader, err);
}

static rowlock_status check(const rowlock_hold *hold, rowlock_error *err)
{
    if (!hold)
        return rl_fail(err, ROWLOCK_INVALID, "no hold was given (NULL)");
    RL_TRY(rl_client_check(hold->client, err));
    const char *name = hold->locks[0].name;
    if (hold->mode != ROWLOCK_OPTIMISTIC)
        return rl_fail(err, ROWLOCK_UNSUPPORTED, "'%s' is a row lock; only leases have a value",
                       name);
    if (hold->shared || hold->parts || hold->member != RL_NO_MEMBER)
        return rl_fail(err, ROWLOCK_INVALID, "'%s' is %s; it has no value", name,
                       hold->member  ? "a latch or a barrier"
                       : hold->parts ? "one of a set, or has slots"
                                     : "held together with others");
    return ROWLOCK_OK;
}

rowlock_status rowlock_hold_set_value(rowlock_hold *hold, const char *value, rowlock_error *err)
{
    RL_TRY(check(hold, err));
    RL_TRY(rl_value_check(value ? value : "", err));
    return rl_leader_publish(hold, value ? value : "", NULL, err);
}
