/* cli/cmd_break.c - break: take a lock from its holder by force. */
#include <inttypes.h>
#include <stdio.h>

#include "table.h"

enum { HISTORY_WAIT_MS = 2000 };

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
    .help = cli_help_break,
    .options = options,
    .into = CLI_INTO(breaking),
    .least = 1,
    .most = 1,
    .operands = "the lock's NAME",
    .work = break_and_tell,
};
