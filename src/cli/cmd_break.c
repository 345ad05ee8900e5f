/* cli/cmd_break.c - break: take a lock from its holder by force. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "args.h"
#include "cli.h"
#include "say.h"
#include "text.h"

enum { ID_REASON = CLI_ID_COMMAND, HISTORY_WAIT_MS = 2000 };

static const char help[] =
    "Usage: rowlock break [--reason=TEXT] NAME\n"
    "Takes the lock NAME from its holder by force. Until the old holder hears of it, only\n"
    "the fencing token protects what it works on.\n"
    "\n"
    "      --reason=TEXT  kept in the history\n"
    "\n"
    "A lease is free at once, and its holder told at its next renewal (a third of its TTL).\n"
    "A row lock's connection is ended: that needs the same user, or the right to do so.\n"
    "Exit status: 1 nobody holds it, 66 no such lock.\n"
    "The connection options of 'rowlock --help' may stand here too.\n";

/* `info` is how it was just before. */
static void tell(const rowlock_info *info)
{
    char held[CLI_HUMANE];
    char *name = cli_need(cli_printable(info->name));
    char *holder = cli_need(cli_printable(*info->owner_label ? info->owner_label : info->owner));
    printf("broke %s: held by %s", name, *holder ? holder : "an unnamed holder");
    if (info->held_ms >= 0)
        printf(" for %s", cli_humane(info->held_ms, held, sizeof held));
    printf(" (%s, token %" PRIu64 ")\n", cli_mode_word(info->mode), info->token);
    free(holder);
    free(name);
}

/* The lock is broken all the same; but who did it, and why, is to be found later. */
static void warn_of_history(rowlock_client *client, const char *name)
{
    rowlock_error err;
    if (rowlock_client_flush(client, HISTORY_WAIT_MS, &err) != ROWLOCK_OK)
        cli_say("%s is broken, but the history does not have it: %s", name, err.message);
}

static rowlock_status break_and_tell(rowlock_client *client, const char *name, const char *reason,
                                     rowlock_error *err)
{
    rowlock_list *before;
    rowlock_status status = rowlock_list_one(client, name, &before, err);
    if (status != ROWLOCK_OK)
        return status;
    status = rowlock_break(client, name, reason, err);
    if (status == ROWLOCK_OK) {
        tell(rowlock_list_at(before, 0));
        warn_of_history(client, name);
    }
    rowlock_list_free(before);
    return status;
}

int cli_break(const cli_context *context, int argc, char **argv)
{
    static const cli_option options[] = {
        {ID_REASON, "reason", CLI_VALUE},
        {0},
    };
    cli_context mine = *context;
    cli_args args = cli_args_start(help, options, &mine, argc, argv);
    const char *reason = NULL;
    for (int id; (id = cli_args_next(&args)) != CLI_ARGS_END;) {
        if (id == CLI_ARGS_STOP)
            return args.exit_status;
        reason = args.value;
    }
    if (!cli_args_operands(&args, 1, 1, "the lock's NAME"))
        return CLI_EXIT_USAGE;
    rowlock_client *client;
    rowlock_error err;
    int exit_status;
    if (!cli_open(&mine, &client, &exit_status))
        return exit_status;
    rowlock_status status = break_and_tell(client, args.operands[0], reason, &err);
    rowlock_client_close(client);
    return status == ROWLOCK_OK ? 0 : cli_fail(&err);
}
