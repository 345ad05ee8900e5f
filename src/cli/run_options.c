/* cli/run_options.c - the arguments of `rowlock run`. */
#include <stdlib.h>
#include <string.h>

#include "run.h"

/* -n is --wait=0: of the two, the last one counts. */
static bool take_nonblock(void *into, const char *value)
{
    (void)value;
    ((run_options *)into)->acquire.wait_ms = 0;
    return true;
}

static bool take_slots(void *into, const char *value)
{
    uint64_t slots = ROWLOCK_SLOTS_AS_SET;
    if (strcmp(value, "as-set") != 0 && !cli_number(value, 1, ROWLOCK_SLOTS_MAX, &slots))
        return !cli_usage("--slots=%s is not from 1 to %d, nor as-set", value, ROWLOCK_SLOTS_MAX);
    ((run_options *)into)->acquire.slots = (unsigned)slots;
    return true;
}

static bool take_other(run_options *out, const char *name, bool shared)
{
    if (out->also + 1 == ROWLOCK_SET_MAX)
        return !cli_usage("a set has at most %d names", ROWLOCK_SET_MAX);
    out->also++;
    out->names[out->also] = name;
    out->share[out->also] = shared;
    return true;
}

static bool take_also(void *into, const char *value)
{
    return take_other(into, value, false);
}

static bool take_also_shared(void *into, const char *value)
{
    return take_other(into, value, true);
}

static bool fit_together(const run_options *out)
{
    bool lease = out->acquire.mode == ROWLOCK_OPTIMISTIC;
    if (out->leave_children && out->wait_children)
        cli_usage("--leave-children and --wait-children exclude each other");
    else if (out->acquire.shared && out->acquire.at_least_ms > 0)
        cli_usage("--at-least does not go with --shared");
    else if (out->acquire.units && !out->acquire.slots)
        cli_usage("--units needs --slots: how many slots the name has");
    else if (out->acquire.slots && (out->acquire.shared || out->also))
        cli_usage("--slots goes neither with --shared nor with --also");
    else if (lease && out->acquire.unfenced)
        cli_usage("--unfenced needs --mode=pessimistic: a lease always has a token");
    else if (!lease && out->acquire.at_least_ms > 0)
        cli_usage("--at-least is for leases, not for --mode=pessimistic");
    else if (!lease && out->acquire.max_hold_ms > 0)
        cli_usage("--max-hold is for leases, not for --mode=pessimistic");
    else if (out->leave_children && out->kill_after_ms >= 0)
        cli_usage("--kill-after does not go with --leave-children, which kills nothing");
    else
        return true;
    return false;
}

/* NAME [--] COMMAND... */
static bool take_operands(run_options *out)
{
    char **rest = out->context.operands;
    if (*rest && strcmp(*rest, "--") == 0)
        rest++;
    if (!*rest)
        return !cli_usage("the lock's name and a command are missing");
    out->name = out->names[0] = *rest++;
    out->share[0] = out->acquire.shared;
    bool marked = *rest && strcmp(*rest, "--") == 0;
    if (marked)
        rest++;
    out->command = rest;
    if (!*rest)
        return !cli_usage("no command to run while holding '%s'", out->name);
    if (!marked && (*rest)[0] == '-')
        return !cli_usage("options stand before the lock's name; a command that begins with '-' "
                          "needs '--' before it");
    return (*rest)[0] || !cli_usage("the command is empty");
}

/* Demands a "--", since without it the command's options would have been taken for ours. Copies the
 * operands: they do not end with NULL if options stood after them. */
bool run_take_command(run_options *out, const run_role *role, int before, const char *how)
{
    size_t count = (size_t)(out->context.operand_count - before);
    char **rest = out->context.operands + before;
    /* A "--" here is a second one: the first stood before NAME. */
    if (count > 0 && strcmp(*rest, "--") == 0) {
        rest++;
        count--;
    }
    if (count == 0)
        return !cli_usage("no command to run %s '%s'", how, out->name);
    if (!out->context.has_end)
        return !cli_usage("'--' is missing before the command '%s'", *rest);
    out->command = cli_need(calloc(count + 1, sizeof *out->command));
    memcpy(out->command, rest, count * sizeof *out->command);
    out->names[0] = out->name;
    out->role = role;
    out->context.starts_command = true;
    return out->command[0][0] || !cli_usage("the command is empty");
}

bool run_options_settle(run_options *out)
{
    const int64_t max_hold_ms = out->acquire.max_hold_ms;
    out->context.starts_command = true;
    /* A lease that ends with --max-hold needs no longer TTL. Times that are derived from the TTL,
     * such as that of SIGTERM, then fit both. */
    if (max_hold_ms > 0 && max_hold_ms < out->acquire.ttl_ms)
        out->acquire.ttl_ms = max_hold_ms;
    if (!fit_together(out))
        return false;
    if (out->kill_after_ms < 0)
        out->kill_after_ms = RUN_KILL_AFTER_MS;
    out->children = out->leave_children  ? CHILDREN_LEAVE
                    : out->wait_children ? CHILDREN_WAIT
                                         : CHILDREN_END;
    return true;
}

static bool check(void *into)
{
    return run_options_settle(into) && take_operands(into);
}

const cli_word run_logs[] = {{"text", 0, false}, {"json", 1, false}, {0}};

/* Signals that COMMAND may get when we are asked to stop. */
static const cli_word ask_signals[] = {
    {"none", 0, false},           {"HUP", SIGHUP, true},
    {"SIGHUP", SIGHUP, true},     {"INT", SIGINT, true},
    {"SIGINT", SIGINT, true},     {"QUIT", SIGQUIT, true},
    {"SIGQUIT", SIGQUIT, true},   {"USR1", SIGUSR1, true},
    {"SIGUSR1", SIGUSR1, true},   {"USR2", SIGUSR2, true},
    {"SIGUSR2", SIGUSR2, true},   {"ALRM", SIGALRM, true},
    {"SIGALRM", SIGALRM, true},   {"TERM", SIGTERM, true},
    {"SIGTERM", SIGTERM, true},   {"CONT", SIGCONT, true},
    {"SIGCONT", SIGCONT, true},   {"WINCH", SIGWINCH, true},
    {"SIGWINCH", SIGWINCH, true}, {0},
};

#define AT(member) CLI_AT(run_options, member)
static const cli_option options[] = {
    {'n', "nonblock", CLI_OWN_FLAG, .take = take_nonblock},
    {'w', "wait", CLI_DURATION, AT(acquire.wait_ms), .word = "forever"},
    {0, "timeout", CLI_DURATION, AT(acquire.wait_ms), .word = "forever"},
    {'E', "conflict-exit-code", CLI_UNSIGNED, AT(not_got), .most = 255},
    {0, "mode", CLI_WORD, AT(acquire.mode), .words = cli_mode_words,
     .wants = "is lease or pessimistic"},
    /* Within a shorter TTL a command could not be ended in time. */
    {0, "ttl", CLI_DURATION, AT(acquire.ttl_ms), .least = ROWLOCK_TTL_MIN_MS,
     .most = ROWLOCK_TTL_MAX_MS, .wants = "is from 500ms to 24h"},
    {0, "max-hold", CLI_DURATION, AT(acquire.max_hold_ms), .least = ROWLOCK_TTL_MIN_MS,
     .wants = "is at least 500ms"},
    {0, "at-least", CLI_DURATION, AT(acquire.at_least_ms), .most = ROWLOCK_TTL_MAX_MS,
     .wants = "is at most 24h"},
    {0, "shared", CLI_FLAG, AT(acquire.shared)},
    {0, "slots", CLI_OWN, .take = take_slots},
    {0, "units", CLI_UNSIGNED, AT(acquire.units), .least = 1, .most = ROWLOCK_UNITS_MAX},
    {0, "also", CLI_OWN, .take = take_also},
    {0, "also-shared", CLI_OWN, .take = take_also_shared},
    {0, "unfenced", CLI_FLAG, AT(acquire.unfenced)},
    {0, "record-refused", CLI_FLAG, AT(acquire.record_refused)},
    {0, "alive", CLI_DURATION, AT(alive_ms), .least = RUN_ALIVE_MIN_MS, .most = ROWLOCK_TTL_MAX_MS,
     .wants = RUN_ALIVE_WANTS},
    {0, "on-ask", CLI_WORD, AT(on_ask), .words = ask_signals,
     .wants = "is none, or a signal: TERM, INT, HUP, QUIT, USR1, USR2, ALRM, CONT, WINCH"},
    {0, "on-lost", CLI_TEXT, AT(on_lost)},
    {0, "log", CLI_WORD, AT(log), .words = run_logs, .wants = RUN_LOG_WANTS},
    {0, "label", CLI_TEXT, AT(label)},
    {0, "pass-password", CLI_FLAG, AT(pass_password)},
    {0, "kill-after", CLI_DURATION, AT(kill_after_ms), .most = ROWLOCK_TTL_MAX_MS,
     .wants = "is at most 24h"},
    {0, "leave-children", CLI_FLAG, AT(leave_children)},
    {0, "wait-children", CLI_FLAG, AT(wait_children)},
    {0},
};

const cli_command cli_run = {
    .help = cli_help_run,
    .of_quorums = true,
    .options = options,
    .into =
        &(run_options){
            .acquire = {.wait_ms = ROWLOCK_WAIT_FOREVER, .ttl_ms = ROWLOCK_TTL_DEFAULT_MS},
            .on_ask = SIGTERM,
            .not_got = 1, /* the exit status of ROWLOCK_BUSY */
            .kill_after_ms = -1,
        },
    .first_ends = true,
    .check = check,
    .run = run_options_run,
};
