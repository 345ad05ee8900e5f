/*
 * cli/cmd_once.c - once: a command once in a period; once status.
 *
 * `rowlock run` with a role. To enter: which period is to be done, by the server's time and the
 * ledger; wait for what it comes after; take the lease; look again, for the wait may have been
 * long; begin. Several periods to catch up with are runs one after the other (repeat.h), each of
 * which finds the next one in the ledger.
 */
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "once.h"
#include "period.h"
#include "repeat.h"
#include "rowlock/rowlock_once.h"

enum {
    WAIT_NOT_GIVEN = -2, /* -1 is for ever */
    LEDGER = 1000,       /* periods of a name that are looked at, the newest */
    ASK_US = 1000000,    /* between two looks at what it comes after */
    TICK_US = 50000,
    CATCH_UP_MOST = 7
};

typedef enum catch_up { CATCH_UP_SKIP, CATCH_UP_LAST, CATCH_UP_ALL } catch_up;

typedef struct once_job {
    run_options run;
    const char *per, *at, *tz;
    const char *after; /* a name; NULL: none */
    catch_up catch_up;
    unsigned catch_up_most;
    unsigned attempts;
    bool again;
    bool status; /* `once status` */
    int64_t after_wait_ms;
    period_rule rule;
} once_job;

static const once_job *job_of(const run *self)
{
    return self->options.role_data;
}

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

/* ---------------------------------------------------------------------- which period */

typedef struct chosen {
    period period;
    bool done; /* there is nothing to be done; `by`, by whom it was */
    char by[ROWLOCK_LABEL_MAX + 1];
} chosen;

static const rowlock_once_run *run_of(const rowlock_once_runs *runs, int64_t start_us)
{
    for (size_t i = 0; i < rowlock_once_count(runs); i++)
        if (rowlock_once_at(runs, i)->start_us == start_us)
            return rowlock_once_at(runs, i);
    return NULL;
}

static bool is_to_be_retried(const once_job *job, const rowlock_once_run *row)
{
    return row->state != ROWLOCK_ONCE_RUN_DONE && row->attempts < job->attempts;
}

/* The oldest one that is to be caught up with; the present one, if there is none. The last that the
 * ledger has is where it begins: that one itself, if it is to be tried again. */
static period oldest_missed(const once_job *job, const rowlock_once_runs *runs, period present)
{
    const unsigned most = job->catch_up == CATCH_UP_LAST ? 1 : job->catch_up_most;
    const rowlock_once_run *last = rowlock_once_at(runs, 0);
    period found = present;
    if (job->catch_up == CATCH_UP_SKIP || !last || last->start_us >= present.start_us)
        return present;
    for (unsigned i = 0; i < most; i++) {
        const period p = period_before(&job->rule, &found);
        if (p.start_us == last->start_us && is_to_be_retried(job, last))
            return p;
        if (p.start_us < last->end_us)
            return found;
        found = p;
    }
    return found;
}

/* By the server's time and the ledger. */
static rowlock_status choose(run *self, chosen *c)
{
    const once_job *job = job_of(self);
    const rowlock_once_get_options options = {.name = self->name, .limit = LEDGER};
    rowlock_once_runs *runs = NULL;
    rowlock_status status = rowlock_once_get(self->client, &options, &runs, &self->err);
    if (status != ROWLOCK_OK)
        return status;
    const period present = period_around(&job->rule, rowlock_once_now_us(runs));
    c->period = oldest_missed(job, runs, present);
    const rowlock_once_run *row = run_of(runs, c->period.start_us);
    c->done = row && row->state == ROWLOCK_ONCE_RUN_DONE && !job->again;
    snprintf(c->by, sizeof c->by, "%s", row ? row->owner_label : "");
    rowlock_once_free(runs);
    return ROWLOCK_OK;
}

static void say_done(run *self, const chosen *c)
{
    char start[PERIOD_TEXT];
    period_text(c->period.start_us, start);
    run_waiting_hide(atomic_load(&self->waiting));
    if (self->verbose)
        cli_say("%s: the period from %s was done already, by %s", self->name, start, c->by);
}

/* ---------------------------------------------------------------- what it comes after */

/* *done: in a period that overlaps ours. */
static rowlock_status look_at_other(run *self, const period *p, bool *done)
{
    const rowlock_once_get_options options = {
        .name = job_of(self)->after, .ends_after_us = p->start_us, .limit = LEDGER};
    rowlock_once_runs *runs = NULL;
    rowlock_status status = rowlock_once_get(self->client, &options, &runs, &self->err);
    *done = false;
    for (size_t i = 0; i < rowlock_once_count(runs); i++) {
        const rowlock_once_run *row = rowlock_once_at(runs, i);
        *done = *done || (row->state == ROWLOCK_ONCE_RUN_DONE && row->start_us < p->end_us);
    }
    rowlock_once_free(runs);
    return status;
}

/* Until then, or for a second, or until this process is to end. */
static void pause_until(run *self, int64_t until_us)
{
    const int64_t next_us = supervisor_now_us() + ASK_US;
    const int64_t end_us = next_us < until_us ? next_us : until_us;
    while (supervisor_now_us() < end_us && !atomic_load(&self->hurried))
        usleep(TICK_US);
}

/* BUSY: not yet. */
static rowlock_status await_other(run *self, const period *p, int64_t until_us)
{
    const once_job *job = job_of(self);
    char start[PERIOD_TEXT];
    bool done = true;
    rowlock_status status = job->after ? look_at_other(self, p, &done) : ROWLOCK_OK;
    if (status != ROWLOCK_OK || done)
        return status;
    period_text(p->start_us, start);
    if (atomic_load(&self->hurried))
        return fail(self, ROWLOCK_CANCELLED, "%s", rowlock_status_text(ROWLOCK_CANCELLED));
    if (supervisor_now_us() >= until_us)
        return fail(self, ROWLOCK_LOST,
                    "%s: %s, after which it comes, was not done yet in the period from %s",
                    self->name, job->after, start);
    pause_until(self, until_us);
    return ROWLOCK_BUSY;
}

/* ------------------------------------------------------------------------ to and fro */

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

/* Under the lease. *begun false: there is another one to be done by now, or none. */
static rowlock_status begin_period(run *self, const chosen *before, int64_t until_us, bool *begun)
{
    const once_job *job = job_of(self);
    const rowlock_once_options options = {.attempts = job->attempts,
                                          .again = job->again,
                                          .wait_ms = left_ms(until_us),
                                          .cancel = self->cancel};
    rowlock_once_result result = {.attempt = 0};
    char start[PERIOD_TEXT];
    chosen now;
    rowlock_status status = choose(self, &now);
    *begun = false;
    if (status != ROWLOCK_OK || now.done || now.period.start_us != before->period.start_us)
        return status;
    status = rowlock_once_begin(self->hold, now.period.start_us, now.period.end_us, &options,
                                &result, &self->err);
    if (status != ROWLOCK_OK || result.state == ROWLOCK_ONCE_DONE)
        return status;
    period_text(now.period.start_us, start);
    if (result.state == ROWLOCK_ONCE_USED_UP)
        return fail(self, ROWLOCK_CONFLICT,
                    "%s: the period from %s was attempted %u times and is not done; --again makes "
                    "another attempt",
                    self->name, start, result.attempt);
    *begun = true;
    tell_command(self, &now.period, result.attempt);
    return ROWLOCK_OK;
}

static void release_quietly(run *self)
{
    rowlock_status ignored = rowlock_release(self->hold, NULL);
    (void)ignored;
    self->hold = NULL;
}

/* One round. *over: it has come to an end; else there is something new to be found. */
static rowlock_status try_to_enter(run *self, const rowlock_acquire_options *how, int64_t until_us,
                                   int64_t after_until_us, bool *over)
{
    rowlock_acquire_options options = *how;
    chosen c;
    rowlock_status status = choose(self, &c);
    *over = true;
    if (status == ROWLOCK_OK && c.done)
        say_done(self, &c);
    if (status != ROWLOCK_OK || c.done)
        return status;
    status = await_other(self, &c.period, after_until_us);
    *over = status != ROWLOCK_BUSY;
    if (status != ROWLOCK_OK)
        return status;
    options.wait_ms = left_ms(until_us);
    status = rowlock_acquire(self->client, self->name, &options, &self->hold, &self->err);
    if (status != ROWLOCK_OK)
        return status;
    status = begin_period(self, &c, until_us, over);
    if (!*over)
        release_quietly(self);
    *over = *over || status != ROWLOCK_OK;
    return status;
}

static rowlock_status enter(run *self, const rowlock_acquire_options *how)
{
    const int64_t until_us = until(how->wait_ms);
    const int64_t after_until_us = until(job_of(self)->after_wait_ms);
    rowlock_status status;
    bool over;
    do {
        status = try_to_enter(self, how, until_us, after_until_us, &over);
    } while (!over);
    return status;
}

/* What was done is done, however the release ends: it says so, and no more. */
static rowlock_status release_done(run *self, const rowlock_release_options *how)
{
    rowlock_error err;
    rowlock_status status = rowlock_release_with(self->hold, how, &err);
    if (status != ROWLOCK_OK)
        cli_say("%s: done, but the lock may stay until its TTL is over: %s", self->name,
                err.message);
    return ROWLOCK_OK;
}

/* A command that was ended since its lock was being lost has said nothing of its work: the next one
 * finds that it died, and tries again. */
static rowlock_status leave(run *self, const rowlock_release_options *how)
{
    rowlock_error ignored;
    if (!self->ended && self->exit_status != 0) {
        rowlock_status failed = rowlock_once_failed(self->hold, self->exit_status, &ignored);
        (void)failed;
    }
    if (self->ended || self->exit_status != 0)
        return rowlock_release_with(self->hold, how, &self->err);
    rowlock_status done = rowlock_once_done(self->hold, &self->err);
    if (done == ROWLOCK_OK)
        return release_done(self, how);
    release_quietly(self);
    return done;
}

/* Its process alone is in that zone. */
static void use_zone(const run_options *options)
{
    period_zone_use(((const once_job *)options->role_data)->tz);
}

static const run_role worker = {enter, leave};

/* ------------------------------------------------------------------------- arguments */

/* The next period, if this one was done. */
static bool is_another(void *data, const run_report *report, int exit_status, int64_t *pause_us)
{
    (void)data;
    (void)pause_us;
    return report->began && exit_status == 0;
}

static int run_once(void *into)
{
    once_job *job = into;
    const repeat all = {.options = &job->run, .command = "once", .again = is_another};
    if (job->status)
        return once_status(&job->run.context, job->run.context.operand_count > 1
                                                  ? job->run.context.operands[1]
                                                  : NULL);
    return job->catch_up == CATCH_UP_SKIP ? run_options_run(&job->run) : repeat_runs(&all);
}

static bool take_nonblock(void *into, const char *value)
{
    (void)value;
    ((once_job *)into)->run.acquire.wait_ms = 0;
    return true;
}

/* Without --wait the lock is waited for, and what it comes after is not. */
static void settle_waits(once_job *job)
{
    const int64_t wait_ms = job->run.acquire.wait_ms;
    job->after_wait_ms = wait_ms == WAIT_NOT_GIVEN ? 0 : wait_ms;
    job->run.acquire.wait_ms = wait_ms == WAIT_NOT_GIVEN ? ROWLOCK_WAIT_FOREVER : wait_ms;
}

static bool check_periods(once_job *job)
{
    const char *why = NULL;
    if (!period_parse(job->per, job->at, &job->rule, &why))
        return !cli_usage("%s", why);
    if (!period_zone_exists(job->tz))
        return !cli_usage("--tz=%s is no time zone that this system knows, such as Europe/Berlin",
                          job->tz);
    if (job->again && job->catch_up != CATCH_UP_SKIP)
        return !cli_usage("--again is for the present period, and does not go with --catch-up");
    return true;
}

static bool take_command(once_job *job)
{
    run_options *out = &job->run;
    out->name = out->context.operands[0];
    out->role_data = job;
    out->begin = use_zone;
    return run_take_command(out, &worker, 1, "once in a period as");
}

static bool check(void *into)
{
    once_job *job = into;
    const cli_context *context = &job->run.context;
    job->status = !job->per && strcmp(context->operands[0], "status") == 0;
    if (job->status)
        return cli_operands(context, 1, 2, "one NAME at most");
    if (!job->per)
        return !cli_usage("once wants --per, how long a period is: --per=1d");
    if (context->json)
        return !cli_usage("--json is for 'once status'");
    settle_waits(job);
    return check_periods(job) && run_options_settle(&job->run) && take_command(job);
}

static const cli_word catch_up_words[] = {{"skip", CATCH_UP_SKIP, false},
                                          {"last", CATCH_UP_LAST, false},
                                          {"all", CATCH_UP_ALL, false},
                                          {0}};

#define AT(member) CLI_AT(once_job, member)
static const cli_option options[] = {
    {0, "per", CLI_TEXT, AT(per)},
    {0, "at", CLI_TEXT, AT(at)},
    {0, "tz", CLI_TEXT, AT(tz)},
    {0, "catch-up", CLI_WORD, AT(catch_up), .words = catch_up_words,
     .wants = "is skip, last or all"},
    {0, "catch-up-most", CLI_UNSIGNED, AT(catch_up_most), .least = 1, .most = LEDGER},
    {0, "after", CLI_TEXT, AT(after)},
    {0, "attempts", CLI_UNSIGNED, AT(attempts), .least = 1, .most = ROWLOCK_ONCE_ATTEMPTS_MAX},
    {0, "again", CLI_FLAG, AT(again)},
    {'n', "nonblock", CLI_OWN_FLAG, .take = take_nonblock},
    {'w', "wait", CLI_DURATION, AT(run.acquire.wait_ms), .word = "forever"},
    {'E', "conflict-exit-code", CLI_UNSIGNED, AT(run.not_got), .most = 255},
    {'t', "ttl", CLI_DURATION, AT(run.acquire.ttl_ms), .least = ROWLOCK_TTL_MIN_MS,
     .most = ROWLOCK_TTL_MAX_MS, .wants = "is from 500ms to 24h"},
    {0, "max-hold", CLI_DURATION, AT(run.acquire.max_hold_ms), .least = ROWLOCK_TTL_MIN_MS,
     .wants = "is at least 500ms"},
    {0, "label", CLI_TEXT, AT(run.label)},
    {0, "pass-password", CLI_FLAG, AT(run.pass_password)},
    {0, "kill-after", CLI_DURATION, AT(run.kill_after_ms), .most = ROWLOCK_TTL_MAX_MS,
     .wants = "is at most 24h"},
    {0, "leave-children", CLI_FLAG, AT(run.leave_children)},
    {0, "wait-children", CLI_FLAG, AT(run.wait_children)},
    {0, "json", CLI_FLAG, AT(run.context.json)},
    {0},
};

const cli_command cli_once = {
    .help = cli_help_once,
    .options = options,
    .into = &(
        once_job){.run = {.not_got = 1,
                          .kill_after_ms = -1,
                          .on_ask = SIGTERM,
                          .acquire = {.wait_ms = WAIT_NOT_GIVEN, .ttl_ms = ROWLOCK_TTL_DEFAULT_MS}},
                  .tz = "UTC",
                  .catch_up_most = CATCH_UP_MOST,
                  .attempts = ROWLOCK_ONCE_ATTEMPTS},
    .least = 1,
    .most = INT_MAX,
    .operands = "NAME and a COMMAND, or status",
    .check = check,
    .run = run_once,
};
