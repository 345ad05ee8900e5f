/*
 * cli/cmd_lead.c - lead: one instance of a command in a fleet.
 *
 * Each round is a `rowlock run` in a process of its own (repeat.h). However its command ends, the
 * lease is released, and a pause lets another host acquire it.
 */
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "repeat.h"

enum {
    PAUSE_FIRST_US = 1000000,
    PAUSE_MOST_US = 60000000,
    STEADY_US = 60000000,  /* a command that ran for so long resets the pause */
    CONNECT_MS = 86400000, /* an unreachable server is waited for, too */
};

typedef struct leading {
    run_options run;
    char host[256];
    int64_t pause_us; /* before the next round */
} leading;

/* Another round would fail for the same reason. (After DAMAGED, a token that went back, acquiring
 * again helps.) */
static bool is_final(const run_report *report)
{
    switch (report->status) {
    case ROWLOCK_INVALID:
    case ROWLOCK_DENIED:
    case ROWLOCK_MODE:
    case ROWLOCK_SCHEMA:
    case ROWLOCK_UNSUPPORTED:
        return !report->began;
    case ROWLOCK_OK:
    case ROWLOCK_BUSY:
    case ROWLOCK_TIMEOUT:
    case ROWLOCK_CONFLICT:
    case ROWLOCK_CANCELLED:
    case ROWLOCK_DEADLOCK:
    case ROWLOCK_LOST:
    case ROWLOCK_UNAVAILABLE:
    case ROWLOCK_UNKNOWN:
    case ROWLOCK_DAMAGED:
    case ROWLOCK_READONLY:
    case ROWLOCK_NOT_FOUND:
    case ROWLOCK_FORKED:
    case ROWLOCK_SYSTEM:
    case ROWLOCK_SERVER:
    case ROWLOCK_REPAIR:
    case ROWLOCK_FROZEN:
    case ROWLOCK_FAILED:
        break;
    }
    return report->not_executed;
}

static void say_again(const leading *l, const run_report *report, int exit_status)
{
    const char *name = l->run.name;
    char pause[CLI_HUMANE];
    cli_humane(l->pause_us / 1000, pause, sizeof pause);
    if (report->began && report->status != ROWLOCK_LOST)
        cli_say("%s: %s has ended (exit status %d); in line again in %s", name, l->run.command[0],
                exit_status, pause);
    else if (l->run.context.verbose > 0)
        cli_say("%s: in line again in %s", name, pause);
}

static bool again(void *data, const run_report *report, int exit_status, int64_t *pause_us)
{
    leading *l = data;
    if (is_final(report))
        return false;
    if (report->held_us >= STEADY_US)
        l->pause_us = PAUSE_FIRST_US;
    say_again(l, report, exit_status);
    *pause_us = l->pause_us;
    l->pause_us = between(0, 2 * l->pause_us, PAUSE_MOST_US);
    return true;
}

static int lead(void *into)
{
    leading *l = into;
    if (l->run.log)
        cli_say_json();
    const repeat all = {
        .options = &l->run, .command = "lead", .again = again, .data = l, .hands_over = true};
    return repeat_runs(&all);
}

static bool check(void *into)
{
    leading *l = into;
    run_options *out = &l->run;
    out->name = out->context.operands[0];
    if (!out->acquire.value && gethostname(l->host, sizeof l->host - 1) == 0)
        out->acquire.value = l->host;
    if (out->context.client.retry_ms == 0)
        out->context.client.retry_ms = CONNECT_MS;
    return run_take_command(out, NULL, 1, "while leading");
}

#define AT(member) CLI_AT(leading, run.member)
static const cli_option options[] = {
    {0, "value", CLI_TEXT, AT(acquire.value)},
    {'t', "ttl", CLI_DURATION, AT(acquire.ttl_ms), .least = ROWLOCK_TTL_MIN_MS,
     .most = ROWLOCK_TTL_MAX_MS, .wants = "is from 500ms to 24h"},
    {0, "alive", CLI_DURATION, AT(alive_ms), .least = RUN_ALIVE_MIN_MS, .most = ROWLOCK_TTL_MAX_MS,
     .wants = RUN_ALIVE_WANTS},
    {0, "on-lost", CLI_TEXT, AT(on_lost)},
    {0, "log", CLI_WORD, AT(log), .words = run_logs, .wants = RUN_LOG_WANTS},
    {0, "label", CLI_TEXT, AT(label)},
    {0, "pass-password", CLI_FLAG, AT(pass_password)},
    {0, "kill-after", CLI_DURATION, AT(kill_after_ms), .most = ROWLOCK_TTL_MAX_MS,
     .wants = "is at most 24h"},
    {0},
};

const cli_command cli_lead = {
    .help = cli_help_lead,
    .options = options,
    .into = &(leading){.run = {.not_got = 1,
                               .kill_after_ms = RUN_KILL_AFTER_MS,
                               .on_ask = SIGTERM,
                               .acquire = {.wait_ms = ROWLOCK_WAIT_FOREVER,
                                           .ttl_ms = ROWLOCK_TTL_DEFAULT_MS}},
                       .pause_us = PAUSE_FIRST_US},
    .least = 1,
    .most = INT_MAX,
    .operands = "the lock's NAME",
    .check = check,
    .run = lead,
};
