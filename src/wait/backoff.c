#include "wait/backoff.h"

#include "base/random.h"

#define HURRIES_MOST 3       /* attempts without a pause in one call */
#define OUTAGE_US    1000000 /* a server that is silent for so long cannot be reached */

int64_t rl_backoff_next_us(rl_backoff *backoff, uint32_t random)
{
    int64_t delay = backoff->first_us;
    for (unsigned i = 0; i < backoff->attempt && delay < backoff->most_us; i++)
        delay *= 2;
    if (delay > backoff->most_us)
        delay = backoff->most_us;
    if (backoff->attempt < 30)
        backoff->attempt++;
    int64_t half = delay / 2;
    return half + (int64_t)((uint64_t)random * (uint64_t)(delay - half) >> 32);
}

static bool again(rowlock_status status)
{
    return status == ROWLOCK_BUSY || status == ROWLOCK_DEADLOCK || status == ROWLOCK_UNAVAILABLE;
}

/* Is this the end, although `status` alone would be worth another attempt? */
static bool give_up(const rl_attempts *how, rowlock_status status, int64_t down_since_us,
                    bool unsettled)
{
    if (status == ROWLOCK_BUSY && how->busy_is_final)
        return true;
    if (status == ROWLOCK_UNAVAILABLE && rl_now_us() - down_since_us >= how->outage_us)
        return true;
    if (!how->budget->try_once)
        return false;
    /* A try may ask what became of its request, for as long as one call may take. */
    return !unsettled || rl_now_us() - how->budget->start_us >= how->budget->limit_us;
}

static rowlock_status pause(const rl_attempts *how, rl_backoff *backoff, int64_t hint_us,
                            bool unsettled)
{
    int64_t delay = rl_backoff_next_us(backoff, rl_random_u32());
    if (hint_us > 0 && hint_us < delay)
        delay = hint_us;
    if (hint_us < 0)
        delay = -hint_us;
    rl_budget budget = *how->budget;
    if (unsettled && budget.try_once)
        budget.deadline_us = RL_NEVER;
    switch (rl_budget_sleep(&budget, delay)) {
    case RL_CANCELLED:
        return ROWLOCK_CANCELLED;
    case RL_EXPIRED:
        return ROWLOCK_TIMEOUT;
    case RL_READY:
        break;
    }
    return ROWLOCK_OK;
}

static rowlock_status wait_for_next(const rl_attempts *how, rl_backoff *backoff, void *data,
                                    rowlock_status last, int64_t hint_us, bool unsettled,
                                    rowlock_error *err)
{
    if (!how->await || last != ROWLOCK_BUSY || unsettled)
        return pause(how, backoff, hint_us, unsettled);
    /* When the wait ends without the lock, the message is that of the last attempt. */
    rowlock_error why = {0};
    rowlock_status status = how->await(data, &why);
    if (status == ROWLOCK_BUSY)
        return pause(how, backoff, hint_us, unsettled);
    if (err && status != ROWLOCK_OK && status != ROWLOCK_TIMEOUT)
        *err = why;
    return status;
}

/* The wait is over: the message of the last attempt tells why the lock was not acquired. */
static rowlock_status ended(rowlock_status paused, rowlock_status last, rowlock_error *err)
{
    if (paused == ROWLOCK_CANCELLED)
        return rl_fail(err, paused, "%s", rowlock_status_text(paused));
    /* An outage that outlasts the wait is an outage. */
    if (last == ROWLOCK_UNAVAILABLE)
        return last;
    if (paused != ROWLOCK_TIMEOUT)
        return paused;
    rl_error_prefix(err, "%s: ", rowlock_status_text(ROWLOCK_TIMEOUT));
    if (err)
        err->status = ROWLOCK_TIMEOUT;
    return ROWLOCK_TIMEOUT;
}

/* No error of a server, nor of the way to it: the end of the wait has broken off what was about to
 * be answered. */
static bool is_cut_off(const rl_attempts *how, int64_t begun_us, int64_t down_since_us,
                       const rowlock_error *err)
{
    bool failed = err->server_errno || *err->statement;
    return !failed && down_since_us == RL_NEVER && !how->budget->try_once &&
           rl_budget_spent(how->budget) && rl_now_us() - begun_us < OUTAGE_US;
}

static bool is_new_outage(const rl_attempts *how, int64_t down_since_us)
{
    return down_since_us == RL_NEVER || (how->reached_us && *how->reached_us > down_since_us);
}

rowlock_status rl_attempt_until(const rl_attempts *how, rl_attempt attempt, void *data,
                                rowlock_error *err)
{
    rowlock_error spare = {0};
    rl_backoff backoff = how->backoff;
    int64_t down_since_us = RL_NEVER;
    unsigned hurries = 0;
    err = rl_error_or(err, &spare);
    for (;;) {
        int64_t hint_us = 0;
        int64_t begun_us = rl_now_us();
        rowlock_status status = attempt(data, &hint_us, err);
        if (!again(status) || hint_us == RL_FINAL)
            return status;
        if (status == ROWLOCK_UNAVAILABLE && is_cut_off(how, begun_us, down_since_us, err))
            return ended(ROWLOCK_TIMEOUT, ROWLOCK_BUSY, err);
        if (status == ROWLOCK_BUSY && hint_us == RL_AT_ONCE && hurries++ < HURRIES_MOST)
            continue;
        int64_t now = rl_now_us();
        if (status != ROWLOCK_UNAVAILABLE)
            down_since_us = RL_NEVER;
        else if (is_new_outage(how, down_since_us))
            down_since_us = now;
        bool unsettled = how->unsettled && how->unsettled(data);
        if (give_up(how, status, down_since_us, unsettled))
            return status;
        rowlock_status paused = wait_for_next(how, &backoff, data, status, hint_us, unsettled, err);
        if (paused != ROWLOCK_OK)
            return ended(paused, status, err);
    }
}

void rl_give_time(const rl_budget *budget, int64_t us)
{
    (void)rl_budget_sleep(budget, us);
}

void rl_give_moment(const rl_budget *budget, int64_t us)
{
    rl_budget moment = *budget;
    moment.deadline_us = RL_NEVER;
    rl_give_time(&moment, us);
}
