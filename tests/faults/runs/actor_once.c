/* What the holder of a lease does once in a period: begins it, works, and says how that has ended;
 * or dies at one of these steps. */
#include "actor.h"
#include "rowlock/rowlock_mysql.h"
#include "rowlock/rowlock_once.h"

enum {
    END_US = 20000000, /* reconnect_ms of the client */
    JOB_US = 12000000  /* the table's connection gives up a statement after 3 s */
};

static void maybe_die(actor *a)
{
    if (dice_roll(&a->jobs, 50) == 0)
        actor_quit(a);
}

static const char *state_name(rowlock_once_begun state)
{
    static const char *const names[] = {"", "begun", "done", "used-up"};
    return names[state];
}

/* Asked again, where it is not known, it answers the same. */
static bool begin(actor *a, int64_t period)
{
    const int64_t period_us = PLAN_PERIOD_MS * 1000;
    const rowlock_once_options options = {.attempts = PLAN_ATTEMPTS,
                                          .wait_ms = dice_roll(&a->jobs, 4) ? 1500 : 0};
    rowlock_status status = ROWLOCK_UNKNOWN;
    rowlock_once_result result = {.attempt = 0};
    for (int i = 0; i < 2 && status == ROWLOCK_UNKNOWN; i++) {
        history_log(&a->log,
                    "call verb=begin asked=%" PRId64 " token=%" PRIu64 " count=%d wait=%" PRId64,
                    period, a->token, PLAN_ATTEMPTS, options.wait_ms * 1000);
        status = rowlock_once_begin(a->hold, period * period_us, (period + 1) * period_us, &options,
                                    &result, NULL);
        history_log(&a->log, "back status=%s place=%u state=%s", rowlock_status_name(status),
                    result.attempt, status == ROWLOCK_OK ? state_name(result.state) : "");
    }
    return status == ROWLOCK_OK && result.state == ROWLOCK_ONCE_BEGUN;
}

static void ends(actor *a, int64_t period, bool done)
{
    history_log(&a->log, "call verb=%s asked=%" PRId64 " token=%" PRIu64 " wait=%d",
                done ? "done" : "failed", period, a->token, END_US);
    actor_back(a, done ? rowlock_once_done(a->hold, NULL) : rowlock_once_failed(a->hold, 1, NULL),
               0);
}

static bool put_work(actor *a, const once_late *job, bool joined)
{
    return actor_sql(a,
                     "INSERT INTO job (period, token, writer, joined) VALUES (%" PRId64 ", %" PRIu64
                     ", %u, %d)",
                     job->period, job->token, a->log.who, joined);
}

/* Now and then the transaction is open for longer than the lease can last without a renewal. */
static int64_t how_long_to_work(actor *a)
{
    return dice_roll(&a->jobs, 5) ? dice_between(&a->jobs, 0, 20)
                                  : dice_between(&a->jobs, 20, a->ttl_ms * 3 / 2);
}

/* The work, and that it is done, in one transaction. */
static void do_job(actor *a, const once_late *job)
{
    if (!actor_begin(a))
        return;
    history_log(&a->log, "call verb=job asked=%" PRId64 " token=%" PRIu64 " wait=%d", job->period,
                job->token, JOB_US);
    rowlock_status status = ROWLOCK_UNAVAILABLE;
    if (put_work(a, job, true))
        status = rowlock_tx_once_done(a->client, a->table, a->lock, job->token, NULL);
    maybe_die(a);
    if (status == ROWLOCK_OK)
        actor_pass_ms(how_long_to_work(a));
    const char *ended = actor_end(a, status == ROWLOCK_OK);
    if (status == ROWLOCK_OK && strcmp(ended, "NONE") == 0)
        status = ROWLOCK_UNAVAILABLE;
    history_log(&a->log, "back status=%s",
                status == ROWLOCK_OK ? ended : rowlock_status_name(status));
}

/* The work, and afterwards that it is done; which may be the last that this process does. */
static void work_apart(actor *a, const once_late *job)
{
    if (!actor_begin(a))
        return;
    history_log(&a->log, "call verb=work asked=%" PRId64 " token=%" PRIu64 " wait=%d", job->period,
                job->token, JOB_US);
    const char *ended = actor_end(a, put_work(a, job, false));
    history_log(&a->log, "back status=%s", strcmp(ended, "NONE") == 0 ? "UNAVAILABLE" : ended);
    maybe_die(a);
    ends(a, job->period, strcmp(ended, "OK") == 0);
}

void once_cycle(actor *a)
{
    const int64_t now = history_now() / 1000 / PLAN_PERIOD_MS;
    const once_late job = {now - (dice_roll(&a->jobs, 4) == 0), a->token};
    a->late.token = 0;
    maybe_die(a);
    if (dice_roll(&a->jobs, 2) == 0)
        actor_pass_ms(dice_between(&a->jobs, 0, 120));
    if (!begin(a, job.period))
        return;
    maybe_die(a);
    const unsigned roll = dice_roll(&a->jobs, 100);
    if (roll < 20)
        ends(a, job.period, false);
    else if (roll < 40)
        work_apart(a, &job);
    else if (roll < 70)
        do_job(a, &job);
    else if (roll < 90)
        a->late = job;
    /* What is done already is done. */
    if (roll >= 60 && roll < 70)
        ends(a, job.period, dice_roll(&a->jobs, 2));
    maybe_die(a);
}

/* Whoever has begun may work for longer than it has the lease, and race with the next one. */
void once_after(actor *a)
{
    if (a->late.token == 0)
        return;
    actor_pass_ms(dice_between(&a->jobs, 0, 40));
    do_job(a, &a->late);
    a->late.token = 0;
}
