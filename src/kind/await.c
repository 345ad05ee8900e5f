#include "kind/await.h"

#include "base/random.h"

/* The first in line is ended if it has not looked for so long: it is stopped, or its host is gone.
 */
#define ASLEEP_S        2
#define SLEEPER_US      2000000 /* between looks whether it is, and up to as much again */
#define SLEEPER_MOST_US 8000000 /* of many, later */

/* By a waiter in line: a first one that is stopped would keep all others waiting. */
static bool look_from_line(void *data, int64_t *again_us)
{
    rl_await *a = data;
    const rl_turn *turn = &a->turn;
    rl_budget budget = rl_budget_start(0, rl_budget_left_ms(turn->budget), turn->budget->cancel);
    budget.abrupt = true;
    if (a->has_come && a->has_come(a->data, &budget))
        return true;
    if (!a->keeps_back || a->keeps_back(a->data, &budget))
        rl_bell_seize_asleep(turn->bells, &budget, turn->resource_id, ASLEEP_S);
    *again_us = rl_now_us() + a->look_us + (int64_t)(rl_random_u32() % (uint32_t)a->look_us);
    if (a->many && a->look_us < SLEEPER_MOST_US)
        a->look_us *= 2;
    return false;
}

void rl_await_init(rl_await *a, rowlock_client *client, const rl_budget *budget, const char *owner,
                   int64_t ttl_us)
{
    *a = (rl_await){.client = client, .look_us = SLEEPER_US};
    a->turn = (rl_turn){.bells = &client->bells,
                        .budget = budget,
                        .owner = owner,
                        .label = client->label,
                        .ttl_us = ttl_us,
                        .look = look_from_line,
                        .data = a};
}

void rl_await_at(rl_await *a, uint64_t resource_id)
{
    /* Those behind stand in the line of the row that is gone. */
    if (a->turn.resource_id != resource_id)
        rl_turn_end(&a->turn, false);
    a->turn.resource_id = resource_id;
}

bool rl_await_is_first(const rl_await *a)
{
    return a->turn.conn || atomic_load(&a->turn.bells->polls);
}

static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    const rl_await *a = data;
    return a->attempt(a->data, hint_us, err);
}

static bool unsettled(const void *data)
{
    const rl_await *a = data;
    return a->unsettled && a->unsettled(a->data);
}

static rowlock_status await_turn(void *data, rowlock_error *err)
{
    rl_await *a = data;
    return a->apart ? ROWLOCK_BUSY : rl_turn_await(&a->turn, err);
}

rowlock_status rl_await_until(rl_await *a, rl_backoff pauses, rowlock_error *err)
{
    rl_attempts how = {.budget = a->turn.budget,
                       .outage_us = a->client->outage_us,
                       .backoff = RL_BACKOFF_USUAL,
                       .unsettled = unsettled,
                       .await = await_turn};
    a->turn.looks_in_line = a->has_come != NULL;
    /* The first in line alone looks so often. */
    if (!atomic_load(&a->client->bells.polls))
        how.backoff = pauses;
    rowlock_status status = rl_attempt_until(&how, attempt, a, err);
    rl_turn_end(&a->turn, false);
    return status;
}
