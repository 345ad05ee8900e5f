/* cli/cmd_barrier.c - barrier: commands that begin together, and end together. */
#include <limits.h>

#include "rowlock/rowlock_barrier.h"
#include "run.h"

static rowlock_status enter(run *self, const rowlock_acquire_options *how)
{
    const rowlock_barrier_options options = {.wait_ms = how->wait_ms,
                                             .ttl_ms = how->ttl_ms,
                                             .cancel = how->cancel,
                                             .on_lost = how->on_lost,
                                             .on_lost_data = how->on_lost_data};
    return rowlock_barrier_enter(self->client, self->name, (unsigned)self->options.members,
                                 &options, &self->hold, &self->err);
}

/* Waits for the other members' commands without a limit; a signal ends the wait. */
static rowlock_status leave(run *self, const rowlock_release_options *how)
{
    rowlock_error ignored;
    /* COMMAND did not finish: this member counts as lost for the others. */
    if (!self->acquired_us || self->ended || self->report.exec_error)
        return rowlock_release_with(self->hold, how, &self->err);
    rowlock_status left =
        rowlock_barrier_leave(self->hold, ROWLOCK_WAIT_FOREVER, self->cancel, &self->err);
    rowlock_status released =
        rowlock_release_with(self->hold, how, left == ROWLOCK_OK ? &self->err : &ignored);
    return left == ROWLOCK_OK ? released : left;
}

static const run_role member = {enter, leave};

static bool check(void *into)
{
    run_options *out = into;
    if (out->context.operand_count < 2)
        return !cli_usage("'barrier' needs NAME, N and a COMMAND");
    out->name = out->names[0] = out->context.operands[0];
    if (!cli_number(out->context.operands[1], 1, ROWLOCK_BARRIER_MAX, &out->members))
        return !cli_usage("'%s' is not a number of members, 1 to %d", out->context.operands[1],
                          ROWLOCK_BARRIER_MAX);
    return run_take_command(out, &member, 2, "as a member of");
}

#define AT(member) CLI_AT(run_options, member)
static const cli_option options[] = {
    {'w', "wait", CLI_DURATION, AT(acquire.wait_ms), .word = "forever"},
    {'t', "ttl", CLI_DURATION, AT(acquire.ttl_ms), .least = ROWLOCK_TTL_MIN_MS,
     .most = ROWLOCK_TTL_MAX_MS, .wants = "is from 500ms to 24h"},
    {'E', "conflict-exit-code", CLI_UNSIGNED, AT(not_got), .most = 255},
    {0, "label", CLI_TEXT, AT(label)},
    {0},
};

const cli_command cli_barrier = {
    .help = cli_help_barrier,
    .options = options,
    .into = &(run_options){.not_got = 1,
                           .kill_after_ms = RUN_KILL_AFTER_MS,
                           .acquire = {.wait_ms = ROWLOCK_WAIT_FOREVER,
                                       .ttl_ms = ROWLOCK_TTL_DEFAULT_MS}},
    .most = INT_MAX,
    .check = check,
    .run = run_options_run,
};
