/*
 * cli/cmd_once.c - once: a command once in a period; once status.
 *
 * `rowlock run` with a role (once_role.c). To catch up with several periods, one run follows the
 * other (repeat.h), and each finds its period in the ledger.
 */
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "once.h"
#include "once_job.h"
#include "repeat.h"

enum {
    WAIT_NOT_GIVEN = -2, /* -1: for ever */
    CATCH_UP_MOST = 7
};

/* Sets the zone in the run's own process; COMMAND does not see it. */
static void use_zone(const run_options *options)
{
    period_zone_use(((const once_job *)options->role_data)->tz);
}

/* ------------------------------------------------------------------------- arguments */

/* Goes on to the next period if this one was done. */
static bool is_another(void *data, const run_report *report, int exit_status, int64_t *pause_us)
{
    (void)data;
    (void)pause_us;
    return report->began && exit_status == 0;
}

static int catch_up_all(once_job *job)
{
    const repeat all = {.options = &job->run, .command = "once", .again = is_another};
    once_shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        cli_say("out of memory");
        return rowlock_status_exit(ROWLOCK_SYSTEM);
    }
    job->shared = shared;
    const int exit_status = repeat_runs(&all);
    const bool used_up = shared->used_up;
    munmap(shared, sizeof *shared);
    return exit_status == 0 && used_up ? ONCE_USED_UP : exit_status;
}

static int run_once(void *into)
{
    once_job *job = into;
    const cli_context *context = &job->run.context;
    if (job->status)
        return once_status(context, context->operand_count > 1 ? context->operands[1] : NULL);
    return job->catch_up == CATCH_UP_SKIP ? run_options_run(&job->run) : catch_up_all(job);
}

static bool take_nonblock(void *into, const char *value)
{
    (void)value;
    ((once_job *)into)->run.acquire.wait_ms = 0;
    return true;
}

/* Without --wait, it waits for the lock without a limit, but not for OTHER (--after). */
static void settle_waits(once_job *job)
{
    const int64_t wait_ms = job->run.acquire.wait_ms;
    job->after_wait_ms = wait_ms == WAIT_NOT_GIVEN ? 0 : wait_ms;
    job->run.acquire.wait_ms = wait_ms == WAIT_NOT_GIVEN ? ROWLOCK_WAIT_FOREVER : wait_ms;
}

static bool check_periods(once_job *job)
{
    const char *why = NULL;
    if (!period_parse(job->per, NULL, &job->rule, &why))
        return !cli_usage("--per=%s %s", job->per, why);
    if (!period_parse(job->per, job->at, &job->rule, &why))
        return !cli_usage("--at=%s %s", job->at, why);
    if (!period_zone_exists(job->tz))
        return !cli_usage(
            "--tz=%s is not a time zone that this system knows; give one such as Europe/Berlin",
            job->tz);
    if (job->after && strcmp(job->after, job->run.context.operands[0]) == 0)
        return !cli_usage("--after=%s is the name itself; give another one", job->after);
    if (job->catch_up_most != 0 && job->catch_up != CATCH_UP_ALL)
        return !cli_usage("--catch-up-most is an option of --catch-up=all");
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
    return run_take_command(out, &once_role, 1, "once in a period as");
}

/* An option of a run was given. One that was given its default, such as --tz=UTC, is not
 * noticed. */
static bool has_run_options(const once_job *job)
{
    const run_options *given = &job->run;
    const bool how_often = job->at || job->after || job->again || job->attempts != 0 ||
                           job->catch_up != CATCH_UP_SKIP || job->catch_up_most != 0 ||
                           strcmp(job->tz, "UTC") != 0;
    const bool how = given->acquire.wait_ms != WAIT_NOT_GIVEN || given->not_got != 1 ||
                     given->acquire.ttl_ms != ROWLOCK_TTL_DEFAULT_MS ||
                     given->acquire.max_hold_ms || given->alive_ms || given->on_lost ||
                     given->log || given->label || given->pass_password ||
                     given->kill_after_ms >= 0 || given->leave_children || given->wait_children;
    return how_often || how;
}

static bool check_status(const once_job *job)
{
    if (has_run_options(job))
        return !cli_usage("'once status' runs nothing, and takes only --json");
    return cli_operands(&job->run.context, 1, 2, "one NAME at most");
}

static void settle_counts(once_job *job)
{
    if (job->attempts == 0)
        job->attempts = ROWLOCK_ONCE_ATTEMPTS;
    if (job->catch_up_most == 0)
        job->catch_up_most = CATCH_UP_MOST;
}

static bool check(void *into)
{
    once_job *job = into;
    const cli_context *context = &job->run.context;
    job->status = !job->per && strcmp(context->operands[0], "status") == 0;
    if (job->status)
        return check_status(job);
    if (!job->per)
        return !cli_usage("once needs --per, the length of a period, such as --per=1d");
    if (context->json)
        return !cli_usage("--json is for 'once status'");
    settle_waits(job);
    if (!check_periods(job))
        return false;
    settle_counts(job);
    return run_options_settle(&job->run) && take_command(job);
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
    {0, "catch-up-most", CLI_UNSIGNED, AT(catch_up_most), .least = 1, .most = ONCE_CATCH_UP_LIMIT},
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
    {0, "alive", CLI_DURATION, AT(run.alive_ms), .least = RUN_ALIVE_MIN_MS,
     .most = ROWLOCK_TTL_MAX_MS, .wants = RUN_ALIVE_WANTS},
    {0, "on-lost", CLI_TEXT, AT(run.on_lost)},
    {0, "log", CLI_WORD, AT(run.log), .words = run_logs, .wants = RUN_LOG_WANTS},
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
                  .tz = "UTC"},
    .least = 1,
    .most = INT_MAX,
    .operands = "NAME and a COMMAND, or status",
    .check = check,
    .run = run_once,
};
