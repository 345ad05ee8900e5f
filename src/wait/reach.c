#include "wait/reach.h"

#include <inttypes.h>
#include <stdio.h>

#include "wait/backoff.h"

#define FIRST_PAUSE_US INT64_C(100000)
#define MOST_PAUSE_US  INT64_C(1000000)

/* The last attempt of a series has at least this long, as a connect timeout must be. */
#define LIMIT_LEAST_MS 100

typedef struct reaching {
    const rl_reach *how;
    rl_reach_attempt attempt;
    void *data;
    rl_budget budget;
    unsigned attempts;
    rowlock_status last;
} reaching;

/* "3.0 s" */
static const char *seconds(int64_t us, char text[32])
{
    int64_t tenths = (us + 50000) / 100000;
    snprintf(text, 32, "%" PRId64 ".%" PRId64 " s", tenths / 10, tenths % 10);
    return text;
}

static bool passes(rowlock_status status)
{
    return status == ROWLOCK_UNAVAILABLE || status == ROWLOCK_READONLY;
}

static int64_t limit_of_next(const reaching *r)
{
    int64_t left_ms = (r->budget.deadline_us - rl_now_us()) / 1000;
    if (r->attempts == 0 || left_ms > r->how->limit_ms)
        return r->how->limit_ms;
    return left_ms > LIMIT_LEAST_MS ? left_ms : LIMIT_LEAST_MS;
}

static void tell_failure(const reaching *r, const rowlock_error *err)
{
    char text[32];
    if (r->how->retry_ms > 0 && r->attempts == 1)
        rl_log_line(r->how->log, ROWLOCK_LOG_WARNING, "trying again to connect, for up to %s: %s",
                    seconds(r->how->retry_ms * 1000, text), err->message);
}

static void tell_success(const reaching *r)
{
    char text[32];
    if (r->attempts > 1)
        rl_log_line(r->how->log, ROWLOCK_LOG_WARNING, "connected after %s (attempts: %u)",
                    seconds(rl_now_us() - r->budget.start_us, text), r->attempts);
}

static rowlock_status attempt_once(void *data, int64_t *hint_us, rowlock_error *err)
{
    reaching *r = data;
    (void)hint_us;
    if (rl_budget_cancelled(&r->budget))
        return rl_fail(err, ROWLOCK_CANCELLED, "%s", rowlock_status_text(ROWLOCK_CANCELLED));
    r->last = r->attempt(r->data, limit_of_next(r), err);
    r->attempts++;
    if (r->last == ROWLOCK_OK)
        tell_success(r);
    if (!passes(r->last))
        return r->last;
    tell_failure(r, err);
    /* So that rl_attempt_until() does not take it for an answer that the end of the wait cut off.
     */
    if (!*err->statement)
        snprintf(err->statement, sizeof err->statement, "connect");
    return ROWLOCK_UNAVAILABLE;
}

rowlock_status rl_reach_server(const rl_reach *how, rl_reach_attempt attempt, void *data,
                               rowlock_error *err)
{
    char text[32];
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    reaching r = {.how = how,
                  .attempt = attempt,
                  .data = data,
                  .budget = rl_budget_start(how->retry_ms, how->limit_ms, how->cancel)};
    const rl_attempts series = {.budget = &r.budget,
                                .outage_us = RL_NEVER,
                                .backoff = {.first_us = FIRST_PAUSE_US, .most_us = MOST_PAUSE_US},
                                .busy_is_final = true};
    rowlock_status status = rl_attempt_until(&series, attempt_once, &r, err);
    if (status != ROWLOCK_UNAVAILABLE)
        return status;
    if (how->retry_ms > 0)
        rl_error_prefix(err, "gave up after %s (attempts: %u): ",
                        seconds(rl_now_us() - r.budget.start_us, text), r.attempts);
    return r.last;
}
