/* cli/run_judge.c - the messages and the exit status of a `rowlock run`. See run.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "run.h"

void run_say_acquired(const run *self)
{
    char waited[CLI_HUMANE];
    char token[40] = "no token";
    if (!self->verbose)
        return;
    if (rowlock_hold_token(self->hold) > 0)
        snprintf(token, sizeof token, "token %" PRIu64, rowlock_hold_token(self->hold));
    const int64_t waited_ms = rowlock_hold_waited_ms(self->hold);
    const cli_fact facts[] = {{"name", self->name, 0},
                              {"token", NULL, (int64_t)rowlock_hold_token(self->hold)},
                              {"waited_ms", NULL, waited_ms},
                              {0}};
    cli_say_event("acquired", facts, "%s: acquired (%s, waited %s)", self->name, token,
                  cli_humane(waited_ms, waited, sizeof waited));
}

/* The last deadline was as late as --max-hold allows. (4 margins, since the library has a margin,
 * too, and counts from an earlier time.) */
static bool is_at_max_hold(const run *self)
{
    const int64_t max_hold_us = self->options.acquire.max_hold_ms * 1000;
    return max_hold_us > 0 && !self->lost &&
           self->kill_at_us + 4 * self->margin_us >= self->acquired_us + max_hold_us;
}

void run_lost_because(run *self, char because[RUN_BECAUSE])
{
    pthread_mutex_lock(&self->mutex);
    memcpy(because, self->lost_because, RUN_BECAUSE);
    pthread_mutex_unlock(&self->mutex);
    if (is_at_max_hold(self))
        snprintf(because, RUN_BECAUSE, "it would be held longer than --max-hold allows");
    else if (!because[0] && self->status == ROWLOCK_LOST && self->err.message[0])
        snprintf(because, RUN_BECAUSE, "%.*s", RUN_BECAUSE - 1, self->err.message);
    else if (!because[0])
        snprintf(because, RUN_BECAUSE, "it could not be renewed in time");
}

/* Says why the command was ended, or not started. */
static void say_loss(run *self)
{
    char because[RUN_BECAUSE];
    const char *fate = self->report.too_late ? "was not started" : "was ended";
    self->note = is_at_max_hold(self)    ? "the command was ended: --max-hold"
                 : self->report.too_late ? "the command was not started: the lock was being lost"
                                         : "the command was ended: the lock was being lost";
    run_lost_because(self, because);
    const cli_fact facts[] = {{"name", self->name, 0}, {"reason", because, 0}, {0}};
    cli_say_event("lost", facts, "%s: the lock was lost: %s; %s %s", self->name, because,
                  self->command, fate);
}

static void say_silence(run *self)
{
    char most[CLI_HUMANE];
    self->note = "the command was ended: it showed no life (--alive)";
    const cli_fact facts[] = {
        {"name", self->name, 0}, {"alive_ms", NULL, self->options.alive_ms}, {0}};
    cli_say_event("silent", facts, "%s: %s has shown no life for %s (--alive), and was ended",
                  self->name, self->command, cli_humane(self->options.alive_ms, most, sizeof most));
}

static void say_unsupervised(run *self)
{
    int status = self->supervisor_status;
    self->note = "the command was ended: its supervisor was killed";
    cli_say("%s: the supervising process ended (%s %d); so %s was ended and the lock released",
            self->name, WIFSIGNALED(status) ? "signal" : "status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), self->command);
}

static int not_executed(run *self)
{
    int error = self->report.exec_error;
    self->note = "the command could not be run";
    cli_say("%s: cannot run %s: %s", self->name, self->command, strerror(error));
    return error == ENOENT ? 127 : 126;
}

static void say_processes(const run *self, int count, const char *text)
{
    cli_say("%s: %d process%s that %s started %s", self->name, count, count == 1 ? "" : "es",
            self->command, text);
}

void run_say_children(const run *self)
{
    const supervisor_report *report = &self->report;
    const bool lost = self->ended;
    if (lost && report->left > 0)
        cli_say("%s: not allowed to end %d process%s that %s started", self->name, report->left,
                report->left == 1 ? "" : "es", self->command);
    else if (!lost && report->forced > 0)
        cli_say("%s: SIGKILL sent to %d process%s of %s that did not end on SIGTERM", self->name,
                report->forced, report->forced == 1 ? "" : "es", self->command);
    else if (!lost && report->behind > 0 && self->verbose)
        say_processes(self, report->behind, "outlived it; now all have ended");
    else if (!lost && report->left > 0 && self->verbose)
        say_processes(self, report->left, report->left == 1 ? "lives on" : "live on");
}

void run_judge(run *self)
{
    self->ended =
        self->report.killed || self->report.told || self->report.too_late || self->killed_here;
    if (self->killed_here && !self->lost) {
        say_unsupervised(self);
        self->exit_status = run_exit_status(self->supervisor_status);
    } else if (self->ended) {
        say_loss(self);
        self->exit_status = rowlock_status_exit(ROWLOCK_LOST);
    } else if (self->report.exec_error) {
        self->exit_status = not_executed(self);
    } else if (self->report.silent) {
        say_silence(self);
        self->exit_status = RUN_SILENT;
    } else {
        self->exit_status = run_exit_status(self->report.status);
    }
}

/* The exit status alone does not tell: a command may exit with the same. */
bool run_was_lost(const run *self)
{
    return self->ended && self->exit_status == rowlock_status_exit(ROWLOCK_LOST);
}

/* A failed release is not reported after a loss. */
void run_judge_release(run *self, int64_t held_us)
{
    char held[CLI_HUMANE];
    const cli_fact facts[] = {{"name", self->name, 0},
                              {"held_ms", NULL, held_us / 1000},
                              {"exit_status", NULL, self->exit_status},
                              {0}};
    if (self->status == ROWLOCK_OK && self->verbose)
        cli_say_event("released", facts, "%s: released (held %s)", self->name,
                      cli_humane(held_us / 1000, held, sizeof held));
    if (self->status == ROWLOCK_OK || run_was_lost(self))
        return;
    if (self->left_badly) {
        self->exit_status = cli_fail(&self->err);
        return;
    }
    if (self->status == ROWLOCK_LOST) {
        const cli_fact lost[] = {{"name", self->name, 0}, {"reason", self->err.message, 0}, {0}};
        cli_say_event("lost", lost, "%s: the lock was lost while %s still ran: %s", self->name,
                      self->command, self->err.message);
        self->exit_status = rowlock_status_exit(ROWLOCK_LOST);
        run_begin_on_lost(self);
        return;
    }
    const char *stays = self->options.acquire.mode == ROWLOCK_PESSIMISTIC
                            ? "the lock could not be released as it should"
                            : "the lock may stay until its TTL is over";
    cli_say("%s: %s has ended, but %s: %s", self->name, self->command, stays, self->err.message);
}
