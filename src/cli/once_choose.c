/*
 * cli/once_choose.c - once: chooses the period to do. See once_job.h.
 *
 * That is the present period, by the server's time; with --catch-up, first the oldest that was
 * missed since the newest one in the ledger.
 */
#include <stdio.h>

#include "once_job.h"
#include "rowlock/rowlock_once.h"

enum { OTHERS = 1000 /* the newest periods of OTHER that are looked at within one of ours */ };

static bool is_of(const rowlock_once_run *row, const period *p)
{
    return row && row->start_us == p->start_us && row->end_us == p->end_us;
}

static bool is_done(const rowlock_once_run *row)
{
    return row->state == ROWLOCK_ONCE_RUN_DONE;
}

/* ------------------------------------------------------------------- OTHER, of --after */

/* A period of OTHER counts for ours if it begins within ours, or contains the whole of ours. */
rowlock_status once_look_at_other(run *self, const period *p, bool *done)
{
    const rowlock_once_get_options options = {.name = once_job_of(self)->after,
                                              .ends_after_us = p->start_us,
                                              .starts_before_us = p->end_us,
                                              .limit = OTHERS};
    rowlock_once_runs *runs = NULL;
    rowlock_status status = rowlock_once_get(self->client, &options, &runs, &self->err);
    *done = false;
    for (size_t i = 0; i < rowlock_once_count(runs); i++) {
        const rowlock_once_run *row = rowlock_once_at(runs, i);
        const bool counts = row->start_us >= p->start_us || row->end_us >= p->end_us;
        *done = *done || (is_done(row) && counts);
    }
    rowlock_once_free(runs);
    return status;
}

/* ----------------------------------------------------------------------- what was missed */

static bool is_to_be_retried(const once_job *job, const rowlock_once_run *row)
{
    return !is_done(row) && row->attempts < job->attempts;
}

/* The periods between the ledger's last one and the present one, the newest first, and after them
 * the last one itself if it is not done and has attempts left. *used_up: the last one is not done
 * and has no attempt left. Returns their number. */
static unsigned find_missed(const once_job *job, const rowlock_once_run *last,
                            const period *present, period *missed, bool *used_up)
{
    const unsigned most = job->catch_up == CATCH_UP_LAST ? 1 : job->catch_up_most;
    period p = *present;
    unsigned count = 0;
    *used_up = false;
    if (job->catch_up == CATCH_UP_SKIP || !last || last->start_us >= present->start_us)
        return 0;
    while (count < most) {
        p = period_before(&job->rule, &p);
        const bool again = is_of(last, &p) && is_to_be_retried(job, last);
        *used_up = is_of(last, &p) && !again && !is_done(last);
        if (p.start_us < last->end_us && !again)
            return count;
        missed[count++] = p;
        if (again)
            return count;
    }
    return count;
}

static void say_left_out(run *self, const period *p)
{
    const once_job *job = once_job_of(self);
    char start[PERIOD_TEXT];
    if (p->start_us <= job->shared->left_out_us)
        return;
    job->shared->left_out_us = p->start_us;
    period_text(p->start_us, start);
    run_waiting_hide(atomic_load(&self->waiting));
    if (self->verbose)
        cli_say("%s: the period from %s is left out: %s was not done in it", self->name, start,
                job->after);
}

static void say_used_up(run *self, const rowlock_once_run *row)
{
    const once_job *job = once_job_of(self);
    char start[PERIOD_TEXT];
    if (job->shared->used_up)
        return;
    job->shared->used_up = true;
    period_text(row->start_us, start);
    run_waiting_hide(atomic_load(&self->waiting));
    cli_say(
        "%s: the period from %s was attempted %u times and is not done; going on to the next one",
        self->name, start, row->attempts);
}

/* Chooses the oldest missed period in which OTHER was done (in a past one it cannot be done any
 * more). *chosen stays as it is if there is none. */
static rowlock_status choose_missed(run *self, const period *missed, unsigned count, period *chosen)
{
    for (unsigned i = count; i-- > 0;) {
        bool possible = true;
        rowlock_status status = ROWLOCK_OK;
        if (once_job_of(self)->after)
            status = once_look_at_other(self, &missed[i], &possible);
        if (status != ROWLOCK_OK)
            return status;
        if (possible) {
            *chosen = missed[i];
            return ROWLOCK_OK;
        }
        say_left_out(self, &missed[i]);
    }
    return ROWLOCK_OK;
}

/* -------------------------------------------------------------------------- altogether */

static void note_row(const once_job *job, const rowlock_once_run *row, once_chosen *c)
{
    const bool there = is_of(row, &c->period);
    c->done = there && is_done(row) && !job->again;
    snprintf(c->by, sizeof c->by, "%s", there ? row->owner_label : "");
}

/* If the server's clock was put back, the ledger has periods later than the chosen one, and `last`
 * is not the chosen one's row. */
static rowlock_status look_at_chosen(run *self, const rowlock_once_run *last, once_chosen *c)
{
    const rowlock_once_get_options options = {
        .name = self->name, .starts_before_us = c->period.start_us + 1, .limit = 1};
    rowlock_once_runs *runs = NULL;
    rowlock_status status = ROWLOCK_OK;
    if (last && last->start_us > c->period.start_us) {
        status = rowlock_once_get(self->client, &options, &runs, &self->err);
        last = rowlock_once_at(runs, 0);
    }
    note_row(once_job_of(self), last, c);
    rowlock_once_free(runs);
    return status;
}

rowlock_status once_choose(run *self, bool held, once_chosen *chosen)
{
    const once_job *job = once_job_of(self);
    const rowlock_once_get_options options = {.name = self->name, .limit = 1};
    period missed[ONCE_CATCH_UP_LIMIT];
    rowlock_once_runs *runs = NULL;
    bool used_up;
    rowlock_status status = rowlock_once_get(self->client, &options, &runs, &self->err);
    if (status != ROWLOCK_OK)
        return status;
    const rowlock_once_run *last = rowlock_once_at(runs, 0);
    chosen->period = period_around(&job->rule, rowlock_once_now_us(runs));
    const unsigned count = find_missed(job, last, &chosen->period, missed, &used_up);
    if (held && used_up)
        say_used_up(self, last);
    status = choose_missed(self, missed, count, &chosen->period);
    if (status == ROWLOCK_OK)
        status = look_at_chosen(self, last, chosen);
    rowlock_once_free(runs);
    return status;
}
