/* The holder of a lease, once in a period: begins it, works, and reports the result; or dies at one
 * of these steps. */
#include "actor.h"
#include "rowlock/rowlock_mysql.h"
#include "rowlock/rowlock_once.h"

enum {
    END_US = 20000000, /* the client's reconnect_ms */
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

/* Begins the period; after an unknown outcome it asks again. */
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
                     "INSERT INTO job (name, period, token, writer, joined)"
                     " VALUES ('%s', %" PRId64 ", %" PRIu64 ", %u, %d)",
                     a->lock, job->period, job->token, a->log.who, joined);
}

/* Now and then the transaction is open for longer than a lease lasts without a renewal. */
static int64_t how_long_to_work(actor *a)
{
    return dice_roll(&a->jobs, 5) ? dice_between(&a->jobs, 0, 20)
                                  : dice_between(&a->jobs, 20, a->ttl_ms * 3 / 2);
}

/* The job's outcome. (A word of its own, not `ended`: gcc's sanitizers warn about that.) */
static const char *outcome(rowlock_status status, const char *ended)
{
    if (status != ROWLOCK_OK)
        return rowlock_status_name(status);
    if (strcmp(ended, "OK") == 0)
        return "OK";
    return strcmp(ended, "UNKNOWN") == 0 ? "UNKNOWN" : "UNAVAILABLE";
}

/* The work and its done, in one transaction. True: it was committed. */
static bool do_job(actor *a, const once_late *job)
{
    if (!actor_begin(a))
        return false;
    history_log(&a->log, "call verb=job asked=%" PRId64 " token=%" PRIu64 " wait=%d", job->period,
                job->token, JOB_US);
    rowlock_status status = ROWLOCK_UNAVAILABLE;
    if (put_work(a, job, true))
        status = rowlock_tx_once_done(a->client, a->table, a->lock, job->token, NULL);
    maybe_die(a);
    if (status == ROWLOCK_OK)
        actor_pass_ms(how_long_to_work(a));
    const char *word = outcome(status, actor_end(a, status == ROWLOCK_OK));
    history_log(&a->log, "back status=%s", word);
    return strcmp(word, "OK") == 0;
}

/* The work, and afterwards done; the process may die after either. */
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

/* The present period, or an earlier one, which may not be done yet. A process that has the lease
 * rarely and for long does every fourth. */
static int64_t choose_period(actor *a)
{
    const int64_t now = history_now() / 1000 / PLAN_PERIOD_MS;
    return a->once ? now - dice_roll(&a->jobs, 4) : now / 4 * 4;
}

void once_cycle(actor *a)
{
    const once_late job = {choose_period(a), a->token};
    a->late.token = 0;
    maybe_die(a);
    if (dice_roll(&a->jobs, 4) == 0)
        actor_pass_ms(dice_between(&a->jobs, 0, 120));
    if (!begin(a, job.period))
        return;
    maybe_die(a);
    const unsigned roll = dice_roll(&a->jobs, 10);
    if (roll < 2)
        ends(a, job.period, false);
    else if (roll < 4)
        work_apart(a, &job);
    else if (roll < 6)
        (void)do_job(a, &job);
    else if (roll < 7 && do_job(a, &job))
        ends(a, job.period, dice_roll(&a->jobs, 2)); /* a done period stays done */
    else if (roll < 9)
        a->late = job;
    maybe_die(a);
}

/* A worker may work for longer than it has the lease, and race with the next one. */
void once_after(actor *a)
{
    if (a->late.token == 0)
        return;
    actor_pass_ms(dice_between(&a->jobs, 0, 40));
    (void)do_job(a, &a->late);
    a->late.token = 0;
}
