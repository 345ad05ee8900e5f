/* cli/cmd_init.c - init: make the schema, or bring it up to date. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "cli.h"
#include "rowlock/rowlock_admin.h"

typedef struct init_call {
    cli_context context;
    rowlock_migrate_options migrate;
    bool procedures;
    bool remove_procedures;
    bool event;
    bool remove_event;
    bool restored;
    rowlock_sweep_event_options sweep;
    bool quiet;
} init_call;

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

/* One of the options is given that say how the event sweeps. */
static bool has_event_options(const rowlock_sweep_event_options *sweep)
{
    return sweep->every_ms || sweep->sweep.history_ms || sweep->sweep.history_rows ||
           sweep->sweep.unused_ms;
}

static bool options_agree(void *into)
{
    init_call *call = into;
    call->procedures |= call->event;
    if (call->sweep.every_ms % 1000 != 0)
        cli_usage("--every wants whole seconds, 1s to 24h");
    else if (call->event && call->remove_event)
        cli_usage("--event and --remove-event exclude each other");
    else if (has_event_options(&call->sweep) && !call->event)
        cli_usage("--every, --history, --history-rows and --unused are options of --event");
    else if (call->procedures && call->remove_procedures)
        cli_usage(call->event ? "--event needs the procedures"
                              : "--procedures and --remove-procedures exclude each other");
    else
        return true;
    return false;
}

static int init_procedures(const init_call *call)
{
    const rowlock_procedures_options options = {.wait_ms = call->migrate.wait_ms,
                                                .update_only = !call->procedures};
    rowlock_procedures_result result;
    rowlock_error err;
    rowlock_status status =
        call->remove_procedures
            ? rowlock_procedures_remove(&call->context.client, &options, &result, &err)
            : rowlock_procedures_install(&call->context.client, &options, &result, &err);
    if (status != ROWLOCK_OK)
        return cli_fail(&err);
    if (call->quiet)
        return 0;
    /* Without a number: it counts also procedures that rowlock-sql(7) does not name. */
    if (call->remove_procedures && result.changed == 0)
        puts("there were no procedures");
    else if (call->remove_procedures)
        printf("procedures removed: %u, the internal ones counted\n", result.changed);
    else if (result.changed > 0)
        printf("procedures installed: %u of %u, the internal ones counted\n", result.changed,
               result.total);
    else if (result.total > 0)
        printf("procedures up to date: all %u, the internal ones counted\n", result.total);
    return 0;
}

static int init_event(const init_call *call)
{
    rowlock_sweep_event_options options = call->sweep;
    options.wait_ms = call->migrate.wait_ms;
    rowlock_sweep_event_result result;
    rowlock_error err;
    rowlock_status status =
        call->event ? rowlock_sweep_event_install(&call->context.client, &options, &result, &err)
                    : rowlock_sweep_event_remove(&call->context.client, &options, &result, &err);
    if (status != ROWLOCK_OK)
        return cli_fail(&err);
    if (call->event && !call->quiet)
        printf("event installed: it sweeps every %" PRId64 " s\n",
               (options.every_ms ? options.every_ms : 60000) / 1000);
    if (call->remove_event && !call->quiet)
        puts(result.there ? "event removed" : "there was no event");
    if (call->event && !result.scheduler_on)
        cli_say("the server runs no events now; an administrator switches them on by %s, and "
                "event_scheduler=ON in the server's option file",
                "SET GLOBAL event_scheduler = ON"); /* not run */
    return 0;
}

static void say_restored(const rowlock_restored_result *result)
{
    printf("restored: all %" PRIu64 " names are free (%" PRIu64 " were held), %" PRIu64
           " items are in queues; tokens go on 2^32 higher\n",
           result->names, result->held, result->items);
}

static int init_restored(const init_call *call)
{
    rowlock_restored_result result;
    rowlock_error err;
    int exit_status;
    rowlock_client *client = cli_open(&call->context, &exit_status);
    if (!client)
        return exit_status;
    rowlock_status status = rowlock_restored(client, &result, &err);
    rowlock_client_close(client);
    if (status != ROWLOCK_OK)
        return cli_fail(&err);
    if (!call->quiet)
        say_restored(&result);
    if (result.was_member)
        cli_say("this server was a member of a quorum, and has no vote until 'rowlock quorum "
                "rejoin' brings it back");
    return 0;
}

static int init_rest(const init_call *call)
{
    /* The event is removed before the procedures that it calls, and created after them. */
    int exit_status = call->remove_event ? init_event(call) : 0;
    if (exit_status == 0 && call->restored)
        exit_status = init_restored(call);
    if (exit_status == 0)
        exit_status = init_procedures(call);
    return exit_status == 0 && call->event ? init_event(call) : exit_status;
}

static int init(void *into)
{
    init_call *call = into;
    rowlock_migrate_result result;
    rowlock_error err;
    if (!call->quiet && isatty(STDOUT_FILENO))
        call->migrate.progress = show_progress;
    if (rowlock_migrate(&call->context.client, &call->migrate, &result, &err) != ROWLOCK_OK)
        return cli_fail(&err);
    if (!call->quiet && result.applied > 0)
        printf("schema at version %u\n", result.to);
    else if (!call->quiet)
        printf("schema up to date (version %u)\n", result.to);
    fflush(stdout); /* before what may be refused now */
    return init_rest(call);
}

#define AT(member) CLI_AT(init_call, member)
static const cli_option options[] = {
    {'q', "quiet", CLI_FLAG, AT(quiet)},
    {'w', "wait", CLI_GIVEN_DURATION, AT(migrate.wait_ms), .word = "forever"},
    {0, "procedures", CLI_FLAG, AT(procedures)},
    {0, "remove-procedures", CLI_FLAG, AT(remove_procedures)},
    {0, "event", CLI_FLAG, AT(event)},
    {0, "remove-event", CLI_FLAG, AT(remove_event)},
    {0, "restored", CLI_FLAG, AT(restored)},
    {0, "every", CLI_DURATION, AT(sweep.every_ms), .least = 1000, .most = 86400000,
     .wants = "wants whole seconds, 1s to 24h"},
    {0, "history", CLI_GIVEN_DURATION, AT(sweep.sweep.history_ms), .word = "forever"},
    {0, "history-rows", CLI_NUMBER, AT(sweep.sweep.history_rows), .least = 1, .most = INT64_MAX},
    {0, "unused", CLI_GIVEN_DURATION, AT(sweep.sweep.unused_ms), .word = "never"},
    {0},
};

const cli_command cli_init = {
    .help = cli_help_init,
    .options = options,
    .into = CLI_INTO(init_call),
    .check = options_agree,
    .run = init,
};
