#include "kind/latch.h"

#include <string.h>

#include "api/options.h"
#include "base/name.h"
#include "base/text.h"
#include "engine/hold.h"
#include "kind/transaction.h"

static rowlock_status check(const rowlock_client *client, const char *name, rowlock_error *err)
{
    RL_TRY(rl_client_check(client, err));
    return rl_name_check(name, err);
}

static rowlock_status check_key(const char *key, rowlock_error *err)
{
    rowlock_error why = {0};
    if (!key || rl_name_check(key, &why) == ROWLOCK_OK)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_INVALID,
                   "the key is not valid: it has 1 to %d characters, none of "
                   "them a control character, and no white space at either end",
                   ROWLOCK_NAME_MAX);
}

rowlock_status rowlock_latch_set(rowlock_client *client, const char *name, unsigned count,
                                 uint64_t *generation, rowlock_error *err)
{
    uint64_t set = 0;
    RL_TRY(check(client, name, err));
    if (count < 1 || count > ROWLOCK_LATCH_MAX)
        return rl_fail(err, ROWLOCK_INVALID, "'%s' cannot be set to %u; 1 to %d are to count", name,
                       count, ROWLOCK_LATCH_MAX);
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    RL_TRY(rl_latch_set(client, &budget, name, count, &set, err));
    if (generation)
        *generation = set;
    return ROWLOCK_OK;
}

rowlock_status rowlock_latch_down(rowlock_client *client, const char *name, const char *key,
                                  uint64_t generation, rowlock_error *err)
{
    RL_TRY(check(client, name, err));
    RL_TRY(check_key(key, err));
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    return rl_latch_down(client, &budget, name, key, generation, err);
}

rowlock_status rowlock_tx_latch_down(rowlock_client *client, MYSQL *mysql, const char *name,
                                     const char *key, uint64_t generation, rowlock_error *err)
{
    RL_TRY(check(client, name, err));
    RL_TRY(check_key(key, err));
    RL_TRY(rl_tx_check(mysql, true, err));
    return rl_tx_latch_down(client, mysql, name, key, generation, err);
}

rowlock_status rowlock_latch_wait(rowlock_client *client, const char *name,
                                  const rowlock_latch_options *given, uint64_t *generation,
                                  rowlock_error *err)
{
    const rowlock_latch_options options = given ? *given : (rowlock_latch_options){0};
    uint64_t opened = options.generation;
    RL_TRY(check(client, name, err));
    rl_budget budget = rl_budget_start(options.wait_ms, client->limit_ms, options.cancel);
    if (rl_budget_cancelled(&budget))
        return rl_fail(err, ROWLOCK_CANCELLED, "%s", rowlock_status_text(ROWLOCK_CANCELLED));
    RL_TRY(rl_latch_wait(client, &budget, name, &opened, err));
    if (generation)
        *generation = opened;
    return ROWLOCK_OK;
}

rowlock_status rowlock_latch_get(rowlock_client *client, const char *name, rowlock_latch_info *info,
                                 rowlock_error *err)
{
    RL_TRY(check(client, name, err));
    RL_TRY(rl_place_check(info, "the latch", err));
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    return rl_latch_get(client, &budget, name, info, err);
}

static rowlock_status make_member(rowlock_client *client, const char *name, const char *key,
                                  const rowlock_acquire_options *options, rowlock_hold **hold,
                                  rowlock_error *err)
{
    RL_TRY(rl_hold_new(client, &name, 1, options, hold, err));
    (*hold)->member = RL_LATCH_MEMBER;
    (*hold)->key = key ? strdup(key) : NULL;
    if (!key || (*hold)->key)
        return ROWLOCK_OK;
    rl_hold_free(*hold);
    return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
}

rowlock_status rowlock_latch_join(rowlock_client *client, const char *name,
                                  const rowlock_latch_join_options *given, rowlock_hold **out,
                                  rowlock_error *err)
{
    const rowlock_latch_join_options asked = given ? *given : (rowlock_latch_join_options){0};
    const rowlock_acquire_options as_lease = {.shared = true,
                                              .ttl_ms = asked.ttl_ms,
                                              .on_lost = asked.on_lost,
                                              .on_lost_data = asked.on_lost_data};
    rowlock_acquire_options options;
    rowlock_hold *hold = NULL;
    RL_TRY(check(client, name, err));
    RL_TRY(rl_place_check(out, "the hold", err));
    RL_TRY(check_key(asked.key, err));
    RL_TRY(rl_options_acquire(&as_lease, &options, err));
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    RL_TRY(make_member(client, name, asked.key, &options, &hold, err));
    rowlock_status status = rl_latch_join(hold, &options, &budget, asked.generation, err);
    if (status == ROWLOCK_OK)
        *out = hold;
    else
        rl_hold_free(hold);
    return status;
}

rowlock_status rowlock_latch_done(rowlock_hold *hold, rowlock_error *err)
{
    static const rowlock_release_options options = {.note = ""};
    if (!hold)
        return rl_fail(err, ROWLOCK_INVALID, "no hold was given (NULL)");
    RL_TRY(rl_client_check(hold->client, err));
    if (hold->member != RL_LATCH_MEMBER)
        return rl_fail(err, ROWLOCK_INVALID, "'%s' is held, and not as a member of a latch",
                       hold->locks[0].name);
    if (rl_hold_lost(hold)) {
        rowlock_status status =
            rl_fail(err, ROWLOCK_LOST, "'%s': this member was lost before it had counted",
                    hold->locks[0].name);
        (void)!rowlock_release(hold, NULL);
        return status;
    }
    rowlock_status status = rl_latch_done(hold, &options, err);
    rl_hold_free(hold);
    return status;
}
