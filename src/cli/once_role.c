/*
 * cli/once_role.c - once: the steps before and after COMMAND. See once_job.h.
 *
 * To enter: choose the period; wait for OTHER (--after); acquire the lease; choose again, since the
 * wait may have been long; begin the period.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

#include "once_job.h"
#include "rowlock/rowlock_once.h"

enum {
    ASK_US = 1000000, /* between two looks at OTHER (--after) */
    TICK_US = 50000
};

/* What follows a step of entering. */
typedef enum once_next {
    ONCE_GO_ON,
    ONCE_LOOK_ANEW, /* by now another period may be the one to do */
    ONCE_END        /* with the present status */
} once_next;

static rowlock_status fail(run *self, rowlock_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static rowlock_status fail(run *self, rowlock_status status, const char *format, ...)
{
    va_list list;
    self->err = (rowlock_error){.status = status};
    va_start(list, format);
    vsnprintf(self->err.message, sizeof self->err.message, format, list);
    va_end(list);
    return status;
}

static void say_done(run *self, const once_chosen *c)
{
    char start[PERIOD_TEXT];
    period_text(c->period.start_us, start);
    run_waiting_hide(atomic_load(&self->waiting));
    if (self->verbose)
        cli_say("%s: the period from %s was done already, by %s", self->name, start, c->by);
}

/* ------------------------------------------------------------------ OTHER, of --after */

/* Waits until `until_us`, but at most a second, and not past a signal to end. */
static void pause_until(run *self, int64_t until_us)
{
    const int64_t next_us = supervisor_now_us() + ASK_US;
    const int64_t end_us = next_us < until_us ? next_us : until_us;
    while (supervisor_now_us() < end_us && !atomic_load(&self->hurried))
        usleep(TICK_US);
}

/* The error for OTHER (--after) that is not done when the wait is over. */
static rowlock_status refuse(run *self, const period *p)
{
    const once_job *job = once_job_of(self);
    const rowlock_once_get_options options = {.name = job->after, .limit = 1};
    rowlock_once_runs *runs = NULL;
    char start[PERIOD_TEXT];
    rowlock_status status = rowlock_once_get(self->client, &options, &runs, &self->err);
    const bool never = rowlock_once_count(runs) == 0;
    rowlock_once_free(runs);
    if (status != ROWLOCK_OK)
        return status;
    self->refused = ONCE_OTHER_NOT_DONE;
    if (never)
        return fail(self, ROWLOCK_TIMEOUT, "%s: '%s' (--after) was never run", self->name,
                    job->after);
    period_text(p->start_us, start);
    return fail(self, ROWLOCK_TIMEOUT, "%s: '%s' (--after) was not done yet in the period from %s",
                self->name, job->after, start);
}

static once_next await_other(run *self, const period *p, int64_t until_us, rowlock_status *status)
{
    bool done = true;
    *status = once_job_of(self)->after ? once_look_at_other(self, p, &done) : ROWLOCK_OK;
    if (*status != ROWLOCK_OK)
        return ONCE_END;
    if (done)
        return ONCE_GO_ON;
    if (atomic_load(&self->hurried)) {
        *status = fail(self, ROWLOCK_CANCELLED, "%s", rowlock_status_text(ROWLOCK_CANCELLED));
        return ONCE_END;
    }
    if (supervisor_now_us() >= until_us) {
        *status = refuse(self, p);
        return ONCE_END;
    }
    pause_until(self, until_us);
    return ONCE_LOOK_ANEW;
}

/* -------------------------------------------------------------------- enter and leave */

static int64_t until(int64_t wait_ms)
{
    const int64_t now_us = supervisor_now_us();
    return wait_ms < 0 || wait_ms > (INT64_MAX - now_us) / 1000 ? INT64_MAX
                                                                : now_us + wait_ms * 1000;
}

static int64_t left_ms(int64_t until_us)
{
    const int64_t left_us = until_us - supervisor_now_us();
    return until_us == INT64_MAX ? ROWLOCK_WAIT_FOREVER : left_us > 0 ? (left_us + 999) / 1000 : 0;
}

static void tell_command(run *self, const period *p, unsigned attempt)
{
    period_text(p->start_us, self->period.start);
    period_text(p->end_us, self->period.end);
    snprintf(self->period.attempt, sizeof self->period.attempt, "%u", attempt);
}

/* Called under the lease. */
static once_next begin_period(run *self, const once_chosen *before, int64_t until_us,
                              rowlock_status *status)
{
    const once_job *job = once_job_of(self);
    const rowlock_once_options options = {.attempts = job->attempts,
                                          .again = job->again,
                                          .wait_ms = left_ms(until_us),
                                          .cancel = self->cancel};
    rowlock_once_result result = {.attempt = 0};
    char start[PERIOD_TEXT];
    once_chosen now;
    *status = once_choose(self, true, &now);
    if (*status != ROWLOCK_OK)
        return ONCE_END;
    if (now.done || now.period.start_us != before->period.start_us)
        return ONCE_LOOK_ANEW;
    *status = rowlock_once_begin(self->hold, now.period.start_us, now.period.end_us, &options,
                                 &result, &self->err);
    if (*status != ROWLOCK_OK)
        return ONCE_END;
    if (result.state == ROWLOCK_ONCE_DONE)
        return ONCE_LOOK_ANEW;
    if (result.state == ROWLOCK_ONCE_BEGUN) {
        tell_command(self, &now.period, result.attempt);
        return ONCE_GO_ON;
    }
    period_text(now.period.start_us, start);
    self->refused = ONCE_USED_UP;
    *status = fail(self, ROWLOCK_CONFLICT,
                   "%s: the period from %s was attempted %u times and is not done; --again makes "
                   "another attempt",
                   self->name, start, result.attempt);
    return ONCE_END;
}

static void release_quietly(run *self)
{
    rowlock_status ignored = rowlock_release(self->hold, NULL);
    (void)ignored;
    self->hold = NULL;
}

static once_next try_to_enter(run *self, const rowlock_acquire_options *how, int64_t until_us,
                              int64_t after_until_us, rowlock_status *status)
{
    rowlock_acquire_options options = *how;
    once_chosen c;
    *status = once_choose(self, false, &c);
    if (*status == ROWLOCK_OK && c.done)
        say_done(self, &c);
    if (*status != ROWLOCK_OK || c.done)
        return ONCE_END;
    once_next next = await_other(self, &c.period, after_until_us, status);
    if (next != ONCE_GO_ON)
        return next;
    options.wait_ms = left_ms(until_us);
    *status = rowlock_acquire(self->client, self->name, &options, &self->hold, &self->err);
    if (*status != ROWLOCK_OK)
        return ONCE_END;
    next = begin_period(self, &c, until_us, status);
    if (next != ONCE_GO_ON)
        release_quietly(self);
    return next;
}

static rowlock_status enter(run *self, const rowlock_acquire_options *how)
{
    const int64_t until_us = until(how->wait_ms);
    const int64_t after_until_us = until(once_job_of(self)->after_wait_ms);
    rowlock_status status;
    while (try_to_enter(self, how, until_us, after_until_us, &status) == ONCE_LOOK_ANEW) {
    }
    return status;
}

/* The period stays done even if the release fails: that is only reported. */
static rowlock_status release_done(run *self, const rowlock_release_options *how)
{
    rowlock_error err;
    rowlock_status status = rowlock_release_with(self->hold, how, &err);
    if (status == ROWLOCK_LOST)
        cli_say("%s: done; the lock was lost meanwhile", self->name);
    else if (status != ROWLOCK_OK)
        cli_say("%s: done, but the lock may stay until its TTL is over: %s", self->name,
                err.message);
    return ROWLOCK_OK;
}

static void note_failure(run *self)
{
    rowlock_error err;
    if (rowlock_once_failed(self->hold, self->exit_status, &err) != ROWLOCK_OK)
        cli_say("%s: the failure could not be recorded in the ledger: %s", self->name, err.message);
}

/* Nothing is recorded for a command that was ended because its lock was being lost: the next caller
 * sees an attempt that died, and makes another one. */
static rowlock_status leave(run *self, const rowlock_release_options *how)
{
    if (!self->ended && self->exit_status != 0) {
        note_failure(self);
    }
    if (self->ended || self->exit_status != 0)
        return rowlock_release_with(self->hold, how, &self->err);
    rowlock_status done = rowlock_once_done(self->hold, &self->err);
    if (done == ROWLOCK_OK)
        return release_done(self, how);
    rowlock_error ignored;
    (void)!rowlock_release_with(self->hold, how, &ignored);
    return done;
}

const run_role once_role = {enter, leave};
