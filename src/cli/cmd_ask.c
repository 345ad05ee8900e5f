/* cli/cmd_ask.c - ask: ask the holder of a lock to stop. */
#include <inttypes.h>
#include <stdio.h>

#include "rowlock/rowlock_admin.h"
#include "table.h"

enum { HISTORY_WAIT_MS = 2000, GRACE_MS = 60000, GRACE_MOST_MS = 86400000 };

typedef struct asking {
    cli_context context;
    rowlock_ask_options how;
} asking;

/* `info`: the lock just before the ask. */
static void tell(const asking *self, const rowlock_info *info)
{
    char grace[CLI_HUMANE];
    char holder[CELL_TEXT_MAX] = "";
    if (self->how.wait_ms)
        cli_line("%s: let go; it was held by %s", info->name, cli_holder(info, holder));
    else
        cli_line("%s: held by %s, asked to stop within %s", info->name, cli_holder(info, holder),
                 cli_humane(self->how.grace_ms, grace, sizeof grace));
}

static void print_json(const asking *self, const rowlock_info *info, bool ended)
{
    static const cli_column columns[] = {
        {"name", CELL_TEXT, CELL_AT(rowlock_info, name)},
        {"token", CELL_COUNT, CELL_AT(rowlock_info, token)},
        {"readers", CELL_COUNT, CELL_AT(rowlock_info, readers)},
        {"slots_held", CELL_COUNT, CELL_AT(rowlock_info, slots_held)},
        {"owner", CELL_TEXT, CELL_AT(rowlock_info, owner)},
        {"owner_label", CELL_TEXT, CELL_AT(rowlock_info, owner_label)},
        {0},
    };
    json_object *object = cli_row_json(columns, info);
    cli_json_count(object, "grace_ms", (uint64_t)self->how.grace_ms);
    cli_json_number(object, "ended", ended ? "true" : "false");
    cli_json_print(object);
}

static rowlock_status ask(void *into, rowlock_client *client, rowlock_error *err)
{
    asking *self = into;
    rowlock_list *before = NULL;
    rowlock_error ignored;
    rowlock_status status = rowlock_list_one(client, self->context.operands[0], &before, err);
    if (status != ROWLOCK_OK)
        return status;
    status = rowlock_ask(client, self->context.operands[0], &self->how, err);
    const bool asked =
        status == ROWLOCK_OK || status == ROWLOCK_TIMEOUT || status == ROWLOCK_CANCELLED;
    if (asked && self->context.json)
        print_json(self, rowlock_list_at(before, 0), status == ROWLOCK_OK && self->how.wait_ms);
    else if (status == ROWLOCK_OK)
        tell(self, rowlock_list_at(before, 0));
    if (asked && rowlock_client_flush(client, HISTORY_WAIT_MS, &ignored) != ROWLOCK_OK)
        cli_say("%s: asked, but that could not be recorded in the history: %s",
                self->context.operands[0], ignored.message);
    rowlock_list_free(before);
    return status;
}

static const cli_option options[] = {
    {0, "grace", CLI_DURATION, CLI_AT(asking, how.grace_ms), .least = 1, .most = GRACE_MOST_MS,
     .wants = "is from 1ms to 24h"},
    {0, "reason", CLI_TEXT, CLI_AT(asking, how.reason)},
    {'w', "wait", CLI_DURATION, CLI_AT(asking, how.wait_ms), .word = "forever"},
    {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
    {0},
};

const cli_command cli_ask = {
    .help = cli_help_ask,
    .options = options,
    .into = &(asking){.how.grace_ms = GRACE_MS},
    .least = 1,
    .most = 1,
    .operands = "the lock's NAME",
    .work = ask,
};
