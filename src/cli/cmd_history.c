/* cli/cmd_history.c - history: who held what, and how it ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rowlock/rowlock_admin.h"
#include "table.h"

enum { MOST = 100000 };

#define SINCE_MOST_MS UINT64_C(315360000000) /* 10 years */

static cli_colour event_colour(const void *row)
{
    /* What went as it should needs no colour. */
    const char *event = ((const rowlock_event *)row)->event;
    const bool plain = strcmp(event, "acquired") == 0 || strcmp(event, "released") == 0;
    return plain ? CLI_PLAIN : CLI_YELLOW;
}

static const char *holder_of(const void *row, char *text)
{
    const rowlock_event *event = row;
    (void)text;
    return *event->owner_label ? event->owner_label : event->owner;
}

static const char *when_of(const void *row, char *text)
{
    return cli_local_time(((const rowlock_event *)row)->happened_at, text);
}

/* Of a program's own release it may be negative. */
static const char *exit_text(const void *row, char *text)
{
    const rowlock_event *event = row;
    if (event->has_exit_status)
        snprintf(text, CELL_TEXT_MAX, "%d", event->exit_status);
    return text;
}

static cli_colour exit_colour(const void *row)
{
    return ((const rowlock_event *)row)->exit_status != 0 ? CLI_RED : CLI_PLAIN;
}

#define AT(member) CELL_AT(rowlock_event, member)
static const cli_column columns[] = {
    /* Or happened_at, for --utc. */
    {NULL, CELL_TIME, .text = when_of, .title = "WHEN", .place = 1},
    {"id", CELL_COUNT, AT(id)},
    {"name", CELL_TEXT, AT(name), .title = "NAME", .place = 9, .cut = 1, .cut_middle = true},
    {"mode", CELL_NAMED, AT(mode), .names = cli_modes},
    {"event", CELL_TEXT, AT(event), .title = "EVENT", .place = 2, .colour_of = event_colour},
    {"token", CELL_COUNT, AT(token), .title = "TOKEN", .place = 3, .spare = 3},
    {"owner", CELL_TEXT, AT(owner)},
    {"owner_label", CELL_TEXT, AT(owner_label)},
    {NULL, CELL_TEXT, .text = holder_of, .title = "HOLDER", .place = 7, .cut = 2, .spare = 1},
    {"happened_at", CELL_TIME, AT(happened_at)},
    {"waited_ms", CELL_MS, AT(waited_ms), .title = "WAITED", .place = 4, .spare = 4},
    {"held_ms", CELL_MS, AT(held_ms), .title = "HELD", .place = 5, .spare = 2},
    {"exit_status", CELL_LITERAL, .text = exit_text, .title = "EXIT", .place = 6, .spare = 1,
     .colour_of = exit_colour},
    {"detail", CELL_TEXT, AT(detail), .title = "DETAIL", .place = 8, .cut = 2, .spare = 1},
    {0},
};

typedef struct asked {
    cli_context context;
    uint64_t limit;
    int64_t since_ms;
    char *events; /* of --event, as often as it is given; the library knows which there are */
    const char *name;
    bool failed;
    bool utc;
    const char *columns; /* of -o */
    const cli_column *shown;
} asked;

/* No event was found: of a name that was never used, that is no answer. */
static rowlock_status check_name(const char *name, rowlock_client *client, rowlock_error *err)
{
    rowlock_list *found = NULL;
    rowlock_status status = rowlock_list_one(client, name, &found, err);
    rowlock_list_free(found);
    return status;
}

static rowlock_status print_history(void *into, rowlock_client *client, rowlock_error *err)
{
    const asked *self = into;
    cli_pattern which = {0};
    if (self->name)
        cli_pattern_of(self->name, &which);
    const rowlock_history_options options = {
        .name = which.name,
        .prefix = which.prefix,
        .event = self->events,
        .failed = self->failed,
        .since_ms = self->since_ms,
        .limit = self->limit,
    };
    rowlock_history *history;
    rowlock_status status = rowlock_history_get(client, &options, &history, err);
    if (status != ROWLOCK_OK)
        return status;
    const size_t count = rowlock_history_count(history);
    if (count == 0 && which.name)
        status = check_name(which.name, client, err);
    if (status == ROWLOCK_OK) {
        cli_rows rows = cli_rows_begin(self->shown, self->context.json);
        for (size_t i = 0; i < count; i++)
            cli_rows_add(&rows, rowlock_history_at(history, i));
        const bool all = !which.prefix && !self->events && !self->failed && !self->since_ms;
        cli_rows_end(&rows, all ? "nothing happened yet" : "nothing of that happened");
    }
    rowlock_history_free(history);
    return status;
}

static void use_utc(cli_column *all)
{
    cli_column *utc = all;
    while (!utc->key || strcmp(utc->key, "happened_at") != 0)
        utc++;
    utc->title = "WHEN (UTC)";
    utc->place = all[0].place;
    all[0].title = NULL;
}

static bool choose_columns(asked *self)
{
    static cli_column all[sizeof columns / sizeof columns[0]];
    memcpy(all, columns, sizeof columns);
    if (self->utc)
        use_utc(all);
    self->shown = all;
    if (self->columns)
        self->shown = cli_columns_of(all, self->columns);
    return self->shown != NULL;
}

/* --name and the operand are one. */
static bool check(void *into)
{
    asked *self = into;
    bool given = self->context.operand_count > 0;
    if (given && self->name)
        return !cli_usage("the lock is given twice: --name, and '%s'", self->context.operands[0]);
    if (given)
        self->name = self->context.operands[0];
    return choose_columns(self);
}

/* Several are joined with commas. */
static bool take_event(void *into, const char *value)
{
    asked *self = into;
    const char *before = self->events ? self->events : "";
    const size_t size = strlen(before) + 1 + strlen(value) + 1;
    char *all = cli_need(malloc(size));
    snprintf(all, size, "%s%s%s", before, *before ? "," : "", value);
    free(self->events);
    self->events = all;
    return true;
}

static const cli_option options[] = {
    {'n', "limit", CLI_NUMBER, CLI_AT(asked, limit), .least = 1, .most = MOST},
    {0, "name", CLI_TEXT, CLI_AT(asked, name)},
    {0, "event", CLI_OWN, .take = take_event},
    {0, "failed", CLI_FLAG, CLI_AT(asked, failed)},
    {0, "utc", CLI_FLAG, CLI_AT(asked, utc)},
    {'o', "columns", CLI_TEXT, CLI_AT(asked, columns)},
    {0, "since", CLI_DURATION, CLI_AT(asked, since_ms), .least = 1, .most = SINCE_MOST_MS,
     .wants = "is how long ago at most: 2h, 7d; more than 0, and at most 10 years"},
    {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
    {0},
};

const cli_command cli_history = {
    .help = cli_help_history,
    .of_quorums = true,
    .options = options,
    .into = CLI_INTO(asked),
    .most = 1,
    .operands = "the lock's NAME",
    .check = check,
    .work = print_history,
};
