/* cli/cmd_break.c - break: take a lock from its holder by force. */
#include <inttypes.h>
#include <stdio.h>

#include "table.h"

enum { HISTORY_WAIT_MS = 2000 };

static const char help[] =
    "Usage: rowlock break [--reason=TEXT] [--wait] [--now] NAME\n"
    "Takes the lock NAME from its holder by force.\n"
    "\n"
    "      --reason=TEXT  kept in the history\n"
    "      --wait         return when the lock can be had; also of one that is shut already\n"
    "      --now          free a lease at once, although its holder may still work under it\n"
    "\n"
    "A lease: its token is void at once, and its holder is told at its next renewal (a third\n"
    "of its TTL). The lock stays shut until the holder's time would have been over, or until\n"
    "its work has ended and it has let go; so the next holder's work is not beside it.\n"
    "Breaking the lock once more does not shorten that; --now does, also of a lock that is\n"
    "shut. Until the old holder hears of --now, only the fencing token protects.\n"
    "A row lock is free at once: its connection is ended, which needs the same user, or the\n"
    "right to do so.\n"
    "Exit status: 1 nobody holds it, 66 no such lock.\n"
    "The connection options of 'rowlock --help' may stand here too.\n";

static void tell_shut(rowlock_client *client, const char *name)
{
    char left[CLI_HUMANE];
    rowlock_list *now;
    if (rowlock_list_one(client, name, &now, NULL) != ROWLOCK_OK)
        return;
    const rowlock_info *info = rowlock_list_at(now, 0);
    if (info->state == ROWLOCK_SHUT)
        printf("it opens when its holder has ended, in %s at the latest\n",
               cli_humane(info->remaining_ms, left, sizeof left));
    rowlock_list_free(now);
}

/* `info` is how it was just before. */
static void tell(const rowlock_info *info, bool now)
{
    char held[CLI_HUMANE + 8] = "";
    char humane[CLI_HUMANE];
    const char *holder = *info->owner_label ? info->owner_label : info->owner;
    if (info->state == ROWLOCK_SHUT) {
        cli_line(now ? "opened %s, which was shut" : "%s was shut, and can be had now", info->name);
        return;
    }
    if (info->held_ms >= 0)
        snprintf(held, sizeof held, " for %s", cli_humane(info->held_ms, humane, sizeof humane));
    cli_line("broke %s: held by %s%s (%s, token %" PRIu64 ")", info->name,
             *holder ? holder : "an unnamed holder", held, cli_modes[info->mode].word, info->token);
}

/* The lock is broken all the same; but who did it, and why, is to be found later. */
static void warn_of_history(rowlock_client *client, const char *name)
{
    rowlock_error err;
    if (rowlock_client_flush(client, HISTORY_WAIT_MS, &err) != ROWLOCK_OK)
        cli_say("%s is broken, but the history does not have it: %s", name, err.message);
}

typedef struct breaking {
    cli_context context;
    rowlock_break_options how;
    bool wait;
} breaking;

static rowlock_status break_and_tell(void *into, rowlock_client *client, rowlock_error *err)
{
    breaking *self = into;
    const char *name = self->context.operands[0];
    rowlock_list *before;
    self->how.wait_ms = self->wait ? ROWLOCK_WAIT_FOREVER : 0;
    rowlock_status status = rowlock_list_one(client, name, &before, err);
    if (status != ROWLOCK_OK)
        return status;
    status = rowlock_break_with(client, name, &self->how, err);
    if (status == ROWLOCK_OK) {
        tell(rowlock_list_at(before, 0), self->how.now);
        tell_shut(client, name);
        warn_of_history(client, name);
    }
    rowlock_list_free(before);
    return status;
}

static const cli_option options[] = {
    {0, "reason", CLI_TEXT, CLI_AT(breaking, how.reason)},
    {0, "now", CLI_FLAG, CLI_AT(breaking, how.now)},
    {0, "wait", CLI_FLAG, CLI_AT(breaking, wait)},
    {0},
};

const cli_command cli_break = {
    .help = help,
    .options = options,
    .into = CLI_INTO(breaking),
    .least = 1,
    .most = 1,
    .operands = "the lock's NAME",
    .work = break_and_tell,
};
