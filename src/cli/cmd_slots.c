/* cli/cmd_slots.c - slots: sets how many may hold a name at once. */
#include <inttypes.h>
#include <stdio.h>

#include "rowlock/rowlock_admin.h"
#include "table.h"

#define AT(member) CELL_AT(rowlock_info, member)
static const cli_column columns[] = {
    {"name", CELL_TEXT, AT(name)},
    {"slots", CELL_COUNT, AT(slots)},
    {"slots_held", CELL_COUNT, AT(slots_held)},
    {0},
};

typedef struct asked {
    cli_context context;
} asked;

static rowlock_status tell(const cli_context *context, rowlock_client *client, const char *name,
                           rowlock_error *err)
{
    unsigned slots = 0;
    rowlock_list *found = NULL;
    rowlock_status status = rowlock_slots_get(client, name, &slots, err);
    if (status == ROWLOCK_OK && !context->json)
        printf("%u\n", slots);
    if (status != ROWLOCK_OK || !context->json)
        return status;
    status = rowlock_list_one(client, name, &found, err);
    if (status == ROWLOCK_OK)
        cli_json_print(cli_row_json(columns, rowlock_list_at(found, 0)));
    rowlock_list_free(found);
    return status;
}

static rowlock_status slots(void *into, rowlock_client *client, rowlock_error *err)
{
    const cli_context *context = into;
    const char *name = context->operands[0];
    uint64_t wanted = 0;
    if (context->operand_count == 1)
        return tell(context, client, name, err);
    (void)cli_number(context->operands[1], 1, ROWLOCK_SLOTS_MAX, &wanted);
    rowlock_status status = rowlock_slots_set(client, name, (unsigned)wanted, err);
    return status == ROWLOCK_OK && context->json ? tell(context, client, name, err) : status;
}

static bool check(void *into)
{
    const cli_context *context = into;
    uint64_t wanted = 0;
    return context->operand_count == 1 ||
           cli_number(context->operands[1], 1, ROWLOCK_SLOTS_MAX, &wanted) ||
           !cli_usage("'%s' is not a number of slots, 1 to %d", context->operands[1],
                      ROWLOCK_SLOTS_MAX);
}

static const cli_option options[] = {
    {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
    {0},
};

const cli_command cli_slots = {
    .help = cli_help_slots,
    .options = options,
    .into = CLI_INTO(asked),
    .least = 1,
    .most = 2,
    .operands = "the lock's NAME",
    .check = check,
    .work = slots,
};
