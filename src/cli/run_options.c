/* cli/run_options.c - the arguments of `rowlock run`. */
#include <string.h>

#include "run.h"

enum { KILL_AFTER_MS = 10000 };

static const char help[] =
    "Usage: rowlock run [options] NAME [--] COMMAND [ARGUMENT...]\n"
    "Runs COMMAND while holding the lock NAME, and exits with its exit status. Whoever comes\n"
    "meanwhile waits. When the lock is being lost, COMMAND and all it started are ended\n"
    "before anyone else can have it: SIGTERM first, SIGKILL in time (a row lock's end, and\n"
    "'rowlock break', come without notice: SIGKILL at once).\n"
    "\n"
    "  -n, --nonblock              do not wait when somebody else has it\n"
    "  -w, --wait=D, --timeout=D   wait at most so long, such as 5, 0.5, 10m; where neither is\n"
    "                              given: for ever; the last one counts. It is the wait for the\n"
    "                              lock. Connecting comes before it: --connect-timeout bounds\n"
    "                              one attempt, and --retry all of them\n"
    "  -E, --conflict-exit-code=N  exit status when it was not got, 0 to 255; 1 where not\n"
    "                              given. With 0, nothing is said either\n"
    "      --mode=MODE             lease (where not given): outlives an outage of the server\n"
    "                              of about a quarter of the TTL; or pessimistic: a row lock\n"
    "                              on a connection, lost with it\n"
    "      --ttl=D                 how long the lock outlives a holder that vanished; 500ms to\n"
    "                              24h, 30s where not given\n"
    "      --at-least=D            lease: nobody gets it sooner than so long after we did,\n"
    "                              however soon COMMAND ends\n"
    "      --max-hold=D            lease: end COMMAND before it has held so long (SIGTERM comes\n"
    "                              up to 10s, or two fifths of D, sooner)\n"
    "      --unfenced              pessimistic: no token, no holder shown; saves a write\n"
    "      --label=TEXT            who we are, for 'rowlock ls'\n"
    "      --pass-password         COMMAND gets MYSQL_PWD, and ROWLOCK_URL with its password\n"
    "      --kill-after=D          from SIGTERM to SIGKILL, see below; 10s where not given, at\n"
    "                              most 24h\n"
    "      --wait-children         when COMMAND has ended, wait until all that it started has\n"
    "                              ended by itself\n"
    "      --leave-children        let it live on, without the lock; and pass SIGTERM to\n"
    "                              COMMAND alone\n"
    "\n"
    "The lock is kept until COMMAND and everything it started have ended, or the next holder\n"
    "would work beside them. By default what is left when COMMAND ends gets SIGTERM, and\n"
    "SIGKILL after --kill-after. SIGTERM to rowlock does the same to COMMAND and all of it.\n"
    "Other signals are passed to COMMAND.\n"
    "\n"
    "Job control is the shell's: &, fg, bg, ^Z, ^C. A stopped job does not renew its lock: it\n"
    "is ended like any whose lock is being lost, at --ttl=30s within 20 to 28 seconds.\n"
    "\n"
    "COMMAND finds ROWLOCK_NAME, ROWLOCK_TOKEN and ROWLOCK_OWNER in its environment; the\n"
    "server's password (MYSQL_PWD, and in ROWLOCK_URL) is taken out of it. '--' is needed\n"
    "where COMMAND begins with '-'; before NAME, it lets NAME begin with '-'.\n"
    "\n"
    "Exit status: COMMAND's, 128+N when signal N ended it; 1 (or -E) not got; 75 lock lost;\n"
    "126 COMMAND cannot be run, 127 not found; others as in 'rowlock --help'.\n"
    "The connection options of 'rowlock --help' may stand among the options.\n";

/* The last one of it and --wait counts. */
static bool take_nonblock(void *into, const char *value)
{
    (void)value;
    ((run_options *)into)->acquire.wait_ms = 0;
    return true;
}

static bool fit_together(const run_options *out)
{
    bool lease = out->acquire.mode == ROWLOCK_OPTIMISTIC;
    if (out->leave_children && out->wait_children)
        cli_usage("--leave-children and --wait-children exclude each other");
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
    out->name = *rest++;
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

static bool check(void *into)
{
    run_options *out = into;
    const int64_t max_hold_ms = out->acquire.max_hold_ms;
    /* A lease that ends with --max-hold needs no TTL beyond that; and what is derived from the
     * TTL (when to send SIGTERM, for one) then fits the shorter of the two. */
    if (max_hold_ms > 0 && max_hold_ms < out->acquire.ttl_ms)
        out->acquire.ttl_ms = max_hold_ms;
    if (!fit_together(out))
        return false;
    if (out->kill_after_ms < 0)
        out->kill_after_ms = KILL_AFTER_MS;
    out->children = out->leave_children  ? CHILDREN_LEAVE
                    : out->wait_children ? CHILDREN_WAIT
                                         : CHILDREN_END;
    return take_operands(out);
}

#define AT(member) CLI_AT(run_options, member)
static const cli_option options[] = {
    {'n', "nonblock", CLI_OWN_FLAG, .take = take_nonblock},
    {'w', "wait", CLI_DURATION, AT(acquire.wait_ms)},
    {0, "timeout", CLI_DURATION, AT(acquire.wait_ms)},
    {'E', "conflict-exit-code", CLI_UNSIGNED, AT(not_got), .most = 255},
    {0, "mode", CLI_WORD, AT(acquire.mode), .words = cli_mode_words,
     .wants = "is lease or pessimistic"},
    /* A command that is to end within less than the least TTL could not be ended in time. */
    {0, "ttl", CLI_DURATION, AT(acquire.ttl_ms), .least = ROWLOCK_TTL_MIN_MS,
     .most = ROWLOCK_TTL_MAX_MS, .wants = "is from 500ms to 24h"},
    {0, "max-hold", CLI_DURATION, AT(acquire.max_hold_ms), .least = ROWLOCK_TTL_MIN_MS,
     .wants = "is at least 500ms"},
    {0, "at-least", CLI_DURATION, AT(acquire.at_least_ms), .most = ROWLOCK_TTL_MAX_MS,
     .wants = "is at most 24h"},
    {0, "unfenced", CLI_FLAG, AT(acquire.unfenced)},
    {0, "label", CLI_TEXT, AT(label)},
    {0, "pass-password", CLI_FLAG, AT(pass_password)},
    {0, "kill-after", CLI_DURATION, AT(kill_after_ms), .most = ROWLOCK_TTL_MAX_MS,
     .wants = "is at most 24h"},
    {0, "leave-children", CLI_FLAG, AT(leave_children)},
    {0, "wait-children", CLI_FLAG, AT(wait_children)},
    {0},
};

const cli_command cli_run = {
    .help = help,
    .options = options,
    .into =
        &(run_options){
            .acquire = {.wait_ms = ROWLOCK_WAIT_FOREVER, .ttl_ms = ROWLOCK_TTL_DEFAULT_MS},
            .not_got = 1, /* of ROWLOCK_BUSY */
            .kill_after_ms = -1,
        },
    .first_ends = true,
    .check = check,
    .run = run_options_run,
};
