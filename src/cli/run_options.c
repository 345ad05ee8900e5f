/* cli/run_options.c - see run_options.h */
#include "run_options.h"

#include <string.h>

#include "args.h"

enum {
    ID_MODE = CLI_ID_COMMAND,
    ID_TTL,
    ID_AT_LEAST,
    ID_MAX_HOLD,
    ID_UNFENCED,
    ID_LABEL,
    ID_PASS_PASSWORD,
    ID_KILL_AFTER,
    ID_LEAVE_CHILDREN,
    ID_WAIT_CHILDREN,
    ID_TIMEOUT
};

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

static const cli_option options[] = {
    {'n', "nonblock", CLI_NOTHING},
    {'w', "wait", CLI_VALUE},
    {ID_TIMEOUT, "timeout", CLI_VALUE},
    {'E', "conflict-exit-code", CLI_VALUE},
    {ID_MODE, "mode", CLI_VALUE},
    {ID_TTL, "ttl", CLI_VALUE},
    {ID_AT_LEAST, "at-least", CLI_VALUE},
    {ID_MAX_HOLD, "max-hold", CLI_VALUE},
    {ID_UNFENCED, "unfenced", CLI_NOTHING},
    {ID_LABEL, "label", CLI_VALUE},
    {ID_PASS_PASSWORD, "pass-password", CLI_NOTHING},
    {ID_KILL_AFTER, "kill-after", CLI_VALUE},
    {ID_LEAVE_CHILDREN, "leave-children", CLI_NOTHING},
    {ID_WAIT_CHILDREN, "wait-children", CLI_NOTHING},
    {0},
};

static bool take_not_got(run_options *out, const cli_args *args)
{
    uint64_t number;
    if (!cli_args_number(args, "--conflict-exit-code", 0, 255, &number))
        return false;
    out->not_got = (int)number;
    return true;
}

static bool take_mode(run_options *out, const cli_args *args)
{
    if (cli_mode(args->value, &out->acquire.mode))
        return true;
    cli_usage("--mode is lease or pessimistic, not '%s'", args->value);
    return false;
}

static bool take_ttl(run_options *out, const cli_args *args)
{
    int64_t *ttl = &out->acquire.ttl_ms;
    if (!cli_args_duration(args, "--ttl", NULL, ttl))
        return false;
    if (*ttl >= ROWLOCK_TTL_MIN_MS && *ttl <= ROWLOCK_TTL_MAX_MS)
        return true;
    cli_usage("--ttl is from 500ms to 24h, not '%s'", args->value);
    return false;
}

/* As short as a TTL can be: within less, nothing can be ended in time. */
static bool take_max_hold(run_options *out, const cli_args *args)
{
    int64_t *max_hold = &out->acquire.max_hold_ms;
    if (!cli_args_duration(args, "--max-hold", NULL, max_hold))
        return false;
    if (*max_hold >= ROWLOCK_TTL_MIN_MS)
        return true;
    cli_usage("--max-hold is at least 500ms, not '%s'", args->value);
    return false;
}

static bool take_at_least(run_options *out, const cli_args *args)
{
    int64_t *at_least = &out->acquire.at_least_ms;
    if (!cli_args_duration(args, "--at-least", NULL, at_least))
        return false;
    if (*at_least <= ROWLOCK_TTL_MAX_MS)
        return true;
    cli_usage("--at-least is at most 24h, not '%s'", args->value);
    return false;
}

static bool take_kill_after(run_options *out, const cli_args *args)
{
    if (!cli_args_duration(args, "--kill-after", NULL, &out->kill_after_ms))
        return false;
    if (out->kill_after_ms <= ROWLOCK_TTL_MAX_MS)
        return true;
    cli_usage("--kill-after is at most 24h, not '%s'", args->value);
    return false;
}

static bool take_children(run_options *out, supervisor_children children)
{
    bool fits = out->children == CHILDREN_END || out->children == children;
    if (!fits)
        cli_usage("--leave-children and --wait-children exclude each other");
    out->children = children;
    return fits;
}

static bool take(run_options *out, const cli_args *args, int id)
{
    switch (id) {
    case 'n':
        out->acquire.wait_ms = 0;
        return true;
    case 'w':
        return cli_args_duration(args, "--wait", NULL, &out->acquire.wait_ms);
    case ID_TIMEOUT:
        return cli_args_duration(args, "--timeout", NULL, &out->acquire.wait_ms);
    case 'E':
        return take_not_got(out, args);
    case ID_MODE:
        return take_mode(out, args);
    case ID_TTL:
        return take_ttl(out, args);
    case ID_AT_LEAST:
        return take_at_least(out, args);
    case ID_MAX_HOLD:
        return take_max_hold(out, args);
    case ID_UNFENCED:
        out->acquire.unfenced = true;
        return true;
    case ID_LABEL:
        out->label = args->value;
        return true;
    case ID_PASS_PASSWORD:
        out->pass_password = true;
        return true;
    case ID_KILL_AFTER:
        return take_kill_after(out, args);
    case ID_LEAVE_CHILDREN:
        return take_children(out, CHILDREN_LEAVE);
    case ID_WAIT_CHILDREN:
        return take_children(out, CHILDREN_WAIT);
    }
    return false;
}

static bool fit_together(const run_options *out)
{
    bool lease = out->acquire.mode == ROWLOCK_OPTIMISTIC;
    if (lease && out->acquire.unfenced)
        cli_usage("--unfenced needs --mode=pessimistic: a lease always has a token");
    else if (!lease && out->acquire.at_least_ms > 0)
        cli_usage("--at-least is for leases, not for --mode=pessimistic");
    else if (!lease && out->acquire.max_hold_ms > 0)
        cli_usage("--max-hold is for leases, not for --mode=pessimistic");
    else if (out->children == CHILDREN_LEAVE && out->kill_after_ms >= 0)
        cli_usage("--kill-after does not go with --leave-children, which kills nothing");
    else
        return true;
    return false;
}

/* A lease that ends with --max-hold needs no TTL beyond that; and what is derived from the
 * TTL (when to send SIGTERM, for one) then fits the shorter of the two. */
static void bound_ttl(rowlock_acquire_options *acquire)
{
    if (acquire->max_hold_ms > 0 && acquire->max_hold_ms < acquire->ttl_ms)
        acquire->ttl_ms = acquire->max_hold_ms;
}

/* NAME [--] COMMAND... */
static bool take_operands(run_options *out, const cli_args *args)
{
    char **rest = args->argv + args->i;
    if (*rest && strcmp(*rest, "--") == 0)
        rest++;
    if (!*rest) {
        cli_usage("the lock's name and a command are missing");
        return false;
    }
    out->name = *rest++;
    bool marked = *rest && strcmp(*rest, "--") == 0;
    if (marked)
        rest++;
    if (!*rest)
        cli_usage("no command to run while holding '%s'", out->name);
    else if (!marked && (*rest)[0] == '-')
        cli_usage("options stand before the lock's name; a command that begins with '-' needs "
                  "'--' before it");
    else if (!(*rest)[0])
        cli_usage("the command is empty");
    else {
        out->command = rest;
        return true;
    }
    return false;
}

bool run_options_parse(run_options *out, cli_context *context, int argc, char **argv,
                       int *exit_status)
{
    cli_args args = cli_args_start(help, options, context, argc, argv);
    args.stop_at_operand = true;
    *exit_status = CLI_EXIT_USAGE;
    *out = (run_options){
        .acquire = {.wait_ms = ROWLOCK_WAIT_FOREVER, .ttl_ms = ROWLOCK_TTL_DEFAULT_MS},
        .not_got = rowlock_status_exit(ROWLOCK_BUSY),
        .kill_after_ms = -1,
    };
    for (int id; (id = cli_args_next(&args)) != CLI_ARGS_END;) {
        if (id == CLI_ARGS_STOP) {
            *exit_status = args.exit_status;
            return false;
        }
        if (!take(out, &args, id))
            return false;
    }
    bound_ttl(&out->acquire);
    if (!fit_together(out))
        return false;
    if (out->kill_after_ms < 0)
        out->kill_after_ms = KILL_AFTER_MS;
    return take_operands(out, &args);
}
