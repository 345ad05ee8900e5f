/* cli/cmd_init.c - init: make the schema, or bring it up to date. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "cli.h"
#include "say.h"

enum { ID_WAIT = CLI_ID_COMMAND, ID_RESUME, ID_PROCEDURES, ID_REMOVE_PROCEDURES };

typedef struct init_call {
    rowlock_migrate_options migrate;
    bool procedures;
    bool remove_procedures;
    bool quiet;
} init_call;

static const char help[] =
    "Usage: rowlock init [-q] [--wait D] [--resume VERSION:DONE]\n"
    "                    [--procedures | --remove-procedures]\n"
    "Makes the schema (-D, else rowlock) and its tables, or brings them up to date. May be\n"
    "run again, and by many at once: one works, the others wait.\n"
    "\n"
    "  -q, --quiet                say nothing when all went well\n"
    "      --wait=D               how long to wait for another init: a duration such as 30s,\n"
    "                             or 'forever'; 1m where not given\n"
    "      --resume=VERSION:DONE  after an interrupted one that asked for it: how many\n"
    "                             statements of that version have taken effect\n"
    "      --procedures           also the stored procedures, see rowlock-sql(7); where they\n"
    "                             are, they are brought up to date without it\n"
    "      --remove-procedures    take them away again\n"
    "\n"
    "It needs the right to create the schema and its tables; the error names the GRANT.\n"
    "The connection options of 'rowlock --help' may stand here too.\n";

static void show_progress(void *data, const rowlock_migration *migration)
{
    (void)data;
    if (*migration->statement)
        printf("%s %u/%u: %s\n", migration->name, migration->step, migration->steps,
               migration->statement);
    else
        printf("%s done\n", migration->name);
    fflush(stdout);
}

/* "3:2" */
static bool take_resume(const char *text, rowlock_migrate_options *options)
{
    char version[16];
    uint64_t number;
    uint64_t done;
    const char *colon = strchr(text, ':');
    if (!colon || (size_t)(colon - text) >= sizeof version)
        return false;
    snprintf(version, sizeof version, "%.*s", (int)(colon - text), text);
    if (!cli_number(version, 1, 9999, &number) || !cli_number(colon + 1, 0, 9999, &done))
        return false;
    options->resume_version = (unsigned)number;
    options->resume_done = (unsigned)done;
    return true;
}

static bool take_option(const cli_args *args, int id, init_call *call)
{
    if (id == ID_WAIT) {
        if (!cli_args_duration(args, "--wait", "forever", &call->migrate.wait_ms))
            return false;
        if (call->migrate.wait_ms == 0)
            call->migrate.wait_ms = 1; /* 0 would stand for the default */
        return true;
    }
    if (id == ID_RESUME) {
        if (take_resume(args->value, &call->migrate))
            return true;
        cli_usage("--resume wants VERSION:DONE, two numbers, not '%s'", args->value);
        return false;
    }
    call->quiet |= id == 'q';
    call->procedures |= id == ID_PROCEDURES;
    call->remove_procedures |= id == ID_REMOVE_PROCEDURES;
    if (!call->procedures || !call->remove_procedures)
        return true;
    cli_usage("--procedures and --remove-procedures exclude each other");
    return false;
}

static int init_procedures(const cli_context *context, const init_call *call)
{
    const rowlock_procedures_options options = {.wait_ms = call->migrate.wait_ms,
                                                .update_only = !call->procedures};
    rowlock_procedures_result result;
    rowlock_error err;
    rowlock_status status =
        call->remove_procedures
            ? rowlock_procedures_remove(&context->client, &options, &result, &err)
            : rowlock_procedures_install(&context->client, &options, &result, &err);
    if (status != ROWLOCK_OK)
        return cli_fail(&err);
    if (call->quiet)
        return 0;
    if (call->remove_procedures)
        printf("procedures removed: %u\n", result.changed);
    else if (result.changed > 0)
        printf("procedures installed: %u of %u\n", result.changed, result.total);
    else if (result.total > 0)
        printf("procedures up to date (%u)\n", result.total);
    return 0;
}

static int init(cli_context *context, const init_call *call)
{
    rowlock_migrate_result result;
    rowlock_error err;
    if (!cli_password(context))
        return CLI_EXIT_USAGE;
    if (rowlock_migrate(&context->client, &call->migrate, &result, &err) != ROWLOCK_OK)
        return cli_fail(&err);
    if (!call->quiet && result.applied > 0)
        printf("schema at version %u\n", result.to);
    else if (!call->quiet)
        printf("schema up to date (version %u)\n", result.to);
    return init_procedures(context, call);
}

int cli_init(const cli_context *context, int argc, char **argv)
{
    static const cli_option options[] = {
        {'q', "quiet", CLI_NOTHING},
        {ID_WAIT, "wait", CLI_VALUE},
        {ID_RESUME, "resume", CLI_VALUE},
        {ID_PROCEDURES, "procedures", CLI_NOTHING},
        {ID_REMOVE_PROCEDURES, "remove-procedures", CLI_NOTHING},
        {0},
    };
    cli_context mine = *context;
    cli_args args = cli_args_start(help, options, &mine, argc, argv);
    init_call call = {0};
    for (int id; (id = cli_args_next(&args)) != CLI_ARGS_END;) {
        if (id == CLI_ARGS_STOP)
            return args.exit_status;
        if (!take_option(&args, id, &call))
            return CLI_EXIT_USAGE;
    }
    if (!cli_args_operands(&args, 0, 0, ""))
        return CLI_EXIT_USAGE;
    if (!call.quiet && isatty(STDOUT_FILENO))
        call.migrate.progress = show_progress;
    return init(&mine, &call);
}
