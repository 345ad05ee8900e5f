/* cli/cmd_history.c - history: who held what, and how it ended. */
#include <inttypes.h>
#include <stdio.h>

#include "args.h"
#include "cli.h"
#include "json.h"
#include "say.h"
#include "table.h"
#include "text.h"

enum { MOST = 100000 };

static const char help[] =
    "Usage: rowlock history [-n LIMIT] [--json] [NAME]\n"
    "Lists what happened to the lock NAME, or to all locks, the oldest first.\n"
    "\n"
    "  -n, --limit=LIMIT  the newest so many, up to 100000; 100 where not given\n"
    "      --json         an array of objects, times in UTC, durations in milliseconds\n"
    "\n"
    "EVENT: acquired; released; expired: its holder was gone; taken_over: by the next, from\n"
    "a holder that was gone; broken: by 'rowlock break'; lost: the holder saw it go.\n"
    "WAITED, HELD: how long the holder waited for it and had it. EXIT: the exit status of\n"
    "the command that 'rowlock run' ran.\n"
    "The connection options of 'rowlock --help' may stand here too.\n";

static cli_colour event_colour(const char *event)
{
    /* What went as it should needs no colour. */
    bool usual = event[0] == 'a' || event[0] == 'r';
    return usual ? CLI_PLAIN : CLI_YELLOW;
}

static void add_row(cli_table *table, const rowlock_event *event)
{
    char exit_status[12];
    snprintf(exit_status, sizeof exit_status, "%d", event->exit_status);
    cli_table_add_time(table, event->happened_at);
    cli_table_add(table, event->event, event_colour(event->event));
    cli_table_add(table, event->name, CLI_PLAIN);
    cli_table_add_number(table, event->token);
    cli_table_add(table, *event->owner_label ? event->owner_label : event->owner, CLI_PLAIN);
    cli_table_add_duration(table, event->waited_ms);
    cli_table_add_duration(table, event->held_ms);
    cli_table_add(table, event->has_exit_status ? exit_status : "",
                  event->exit_status != 0 ? CLI_RED : CLI_PLAIN);
    cli_table_add(table, event->detail, CLI_PLAIN);
}

static void print_table(const rowlock_history *history)
{
    static const cli_column columns[] = {
        {"WHEN (UTC)", false, 0}, {"EVENT", false, 0},  {"NAME", false, 1},
        {"TOKEN", true, 0},       {"HOLDER", false, 2}, {"WAITED", true, 0},
        {"HELD", true, 0},        {"EXIT", true, 0},    {"DETAIL", false, 2},
    };
    cli_table *table = cli_table_new(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < rowlock_history_count(history); i++)
        add_row(table, rowlock_history_at(history, i));
    cli_table_print(table);
    cli_table_free(table);
    if (rowlock_history_count(history) == 0 && cli_terminal_width() > 0)
        cli_say("nothing happened yet");
}

static json_object *event_json(const rowlock_event *event)
{
    json_object *object = cli_json_new();
    cli_json_count(object, "id", event->id);
    cli_json_text(object, "name", event->name);
    cli_json_text(object, "mode", cli_mode_word(event->mode));
    cli_json_text(object, "event", event->event);
    cli_json_count(object, "token", event->token);
    cli_json_text(object, "owner", event->owner);
    cli_json_text(object, "owner_label", event->owner_label);
    cli_json_time(object, "happened_at", event->happened_at);
    cli_json_int(object, "waited_ms", event->waited_ms >= 0, event->waited_ms);
    cli_json_int(object, "held_ms", event->held_ms >= 0, event->held_ms);
    cli_json_int(object, "exit_status", event->has_exit_status, event->exit_status);
    cli_json_text(object, "detail", event->detail);
    return object;
}

static void print_json(const rowlock_history *history)
{
    size_t count = rowlock_history_count(history);
    for (size_t i = 0; i < count; i++)
        cli_json_item(event_json(rowlock_history_at(history, i)), i);
    cli_json_end(count);
}

typedef struct asked {
    cli_context context;
    uint64_t limit;
} asked;

static rowlock_status print_history(void *into, rowlock_client *client, rowlock_error *err)
{
    const asked *self = into;
    const rowlock_history_options options = {
        .name = self->context.operand_count > 0 ? self->context.operands[0] : NULL,
        .limit = self->limit,
    };
    rowlock_history *history;
    rowlock_status status = rowlock_history_get(client, &options, &history, err);
    if (status != ROWLOCK_OK)
        return status;
    if (self->context.json)
        print_json(history);
    else
        print_table(history);
    rowlock_history_free(history);
    return ROWLOCK_OK;
}

static asked asked_for;

const cli_command cli_history = {
    .help = help,
    .options =
        (const cli_option[]){
            {'n', "limit", CLI_NUMBER, CLI_AT(asked, limit), .least = 1, .most = MOST},
            {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
            {0},
        },
    .into = &asked_for,
    .most = 1,
    .operands = "the lock's NAME",
    .work = print_history,
};
