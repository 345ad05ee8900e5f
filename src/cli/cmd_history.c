/* cli/cmd_history.c - history: who held what, and how it ended. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "rowlock/rowlock_admin.h"
#include "rowlock/rowlock_quorum.h"
#include "table.h"

enum { MOST = 100000, LIMIT = 100 };

#define SINCE_MOST_MS UINT64_C(315360000000) /* 10 years */

/* An event, and which members of a quorum have it. Each member keeps a history of its own, which
 * misses the events during its outages. */
typedef struct told {
    rowlock_event event; /* first */
    unsigned members;    /* a bit for each member that has it; 0: no quorum */
} told;

static cli_colour event_colour(const void *row)
{
    /* Only events of something that went wrong are coloured. */
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

/* A program that releases by a library call may give a negative one. */
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

/* "1 3" */
static const char *members_of(const void *row, char *text)
{
    size_t n = 0;
    for (unsigned i = 0; i < ROWLOCK_MEMBERS_MAX; i++)
        if (((const told *)row)->members >> i & 1)
            n += (size_t)snprintf(text + n, CELL_TEXT_MAX - n, "%s%u", n ? " " : "", i + 1);
    return text;
}

#define AT(member) CELL_AT(rowlock_event, member)
static const cli_column columns[] = {
    /* Or happened_at, for --utc. */
    {NULL, CELL_TIME, .text = when_of, .title = "WHEN", .place = 1},
    {"id", CELL_COUNT, AT(id)},
    {"name", CELL_TEXT, AT(name), .title = "NAME", .place = 9, .cut = 1, .least = 12,
     .cut_middle = true},
    {"mode", CELL_NAMED, AT(mode), .names = cli_modes},
    {"event", CELL_TEXT, AT(event), .title = "EVENT", .place = 2, .colour_of = event_colour},
    {"token", CELL_COUNT, AT(token), .title = "TOKEN", .place = 3, .spare = 4},
    {"owner", CELL_TEXT, AT(owner)},
    {"owner_label", CELL_TEXT, AT(owner_label)},
    {NULL, CELL_TEXT, .text = holder_of, .title = "HOLDER", .place = 7, .cut = 2, .least = 16,
     .spare = 1},
    {"happened_at", CELL_TIME, AT(happened_at)},
    {"waited_ms", CELL_MS, AT(waited_ms), .title = "WAITED", .place = 4, .spare = 5},
    {"held_ms", CELL_MS, AT(held_ms), .title = "HELD", .place = 5, .spare = 3},
    {"exit_status", CELL_LITERAL, .text = exit_text, .title = "EXIT", .place = 6, .spare = 1,
     .colour_of = exit_colour},
    {"detail", CELL_TEXT, AT(detail), .title = "DETAIL", .place = 8, .cut = 2, .least = 12,
     .spare = 2},
    {"members", CELL_TEXT, .text = members_of, .title = "MEMBERS", .place = 10},
    {0},
};

static cli_column chosen[sizeof columns / sizeof columns[0]];

static void hide_members(void)
{
    cli_column *last = &chosen[sizeof columns / sizeof columns[0] - 2];
    last->key = last->title = NULL;
}

typedef struct asked {
    cli_context context;
    uint64_t limit;
    int64_t since_ms;
    char *events; /* all --event options, joined; the library checks them */
    const char *name;
    bool failed;
    bool utc;
    const char *columns; /* of -o */
    const cli_column *shown;
} asked;

/* After an empty answer: reports an error if the name was never used. */
static rowlock_status check_name(const char *name, rowlock_client *client, rowlock_error *err)
{
    rowlock_list *found = NULL;
    rowlock_status status = rowlock_list_one(client, name, &found, err);
    rowlock_list_free(found);
    return status;
}

typedef struct tale {
    told *list;
    size_t count;
    rowlock_history *read[ROWLOCK_MEMBERS_MAX]; /* they own the texts */
} tale;

/* 0: both are the same event, from several members. */
static int by_what_it_is(const rowlock_event *one, const rowlock_event *other)
{
    int order = strcmp(one->owner, other->owner);
    order = order ? order : strcmp(one->event, other->event);
    order = order ? order : strcmp(one->name, other->name);
    return order ? order : (one->token > other->token) - (one->token < other->token);
}

static int by_time(const void *a, const void *b)
{
    const rowlock_event *one = a;
    const rowlock_event *other = b;
    const int order = strcmp(one->happened_at, other->happened_at);
    return order ? order : (one->id > other->id) - (one->id < other->id);
}

static int together(const void *a, const void *b)
{
    const int order = by_what_it_is(a, b);
    return order ? order : by_time(a, b);
}

/* Merges the events of all members. Clocks differ, so equal events are matched by their order: the
 * first one of each member is one event, the second one of each the next. It keeps the earliest
 * time. */
static void merge(tale *all)
{
    size_t begin = 0;
    size_t count = 0;
    size_t told_by[ROWLOCK_MEMBERS_MAX] = {0}; /* of the equal events from `begin` on */
    if (all->count > 1)
        qsort(all->list, all->count, sizeof *all->list, together);
    for (size_t i = 0; i < all->count; i++) {
        const told its = all->list[i];
        if (count > begin && by_what_it_is(&all->list[begin].event, &its.event) != 0) {
            begin = count;
            memset(told_by, 0, sizeof told_by);
        }
        const size_t at = begin + told_by[ffs((int)its.members) - 1]++;
        if (at < count)
            all->list[at].members |= its.members;
        else
            all->list[count++] = its;
    }
    all->count = count;
    if (count > 1)
        qsort(all->list, count, sizeof *all->list, by_time);
}

static rowlock_status read_one(tale *all, rowlock_client *client, size_t i, unsigned members,
                               const rowlock_history_options *options, rowlock_error *err)
{
    rowlock_status status = rowlock_history_get(client, options, &all->read[i], err);
    if (status != ROWLOCK_OK)
        return status;
    const size_t count = rowlock_history_count(all->read[i]);
    all->list = cli_need(reallocarray(all->list, all->count + count + 1, sizeof *all->list));
    for (size_t j = 0; j < count; j++)
        all->list[all->count++] = (told){*rowlock_history_at(all->read[i], j), members};
    return ROWLOCK_OK;
}

static rowlock_status read_member(const asked *self, tale *all, size_t i,
                                  const rowlock_history_options *options, rowlock_error *err)
{
    const rowlock_client_options how = cli_member_options(&self->context, i);
    rowlock_client *client = NULL;
    rowlock_status status = rowlock_client_open(&how, &client, err);
    if (status == ROWLOCK_OK)
        status = read_one(all, client, i, 1U << i, options, err);
    rowlock_client_close(client);
    return status;
}

/* Reports each member that cannot be asked, and goes on without it. */
static rowlock_status read_members(const asked *self, tale *all,
                                   const rowlock_history_options *options, rowlock_error *err)
{
    rowlock_quorum *quorum = NULL;
    rowlock_status status = cli_quorum_look(&self->context.client, &quorum, err);
    size_t good = 0;
    for (size_t i = 0; i < rowlock_quorum_count(quorum); i++) {
        const rowlock_member *m = rowlock_quorum_at(quorum, i);
        *err = (rowlock_error){.status = m->status};
        snprintf(err->message, sizeof err->message, "%s", m->message);
        status = m->status == ROWLOCK_OK ? read_member(self, all, i, options, err) : m->status;
        good += status == ROWLOCK_OK;
        if (status != ROWLOCK_OK)
            cli_say("without member %zu, %s: %s", i + 1, m->where, err->message);
    }
    rowlock_quorum_free(quorum);
    merge(all);
    return good > 0 ? ROWLOCK_OK : status;
}

static void print_tale(const asked *self, const tale *all, bool whole)
{
    const size_t most = self->limit ? self->limit : LIMIT;
    cli_rows rows = cli_rows_begin(self->shown, self->context.json);
    for (size_t i = all->count > most ? all->count - most : 0; i < all->count; i++)
        cli_rows_add(&rows, &all->list[i]);
    cli_rows_end(&rows, whole ? "nothing happened yet" : "nothing of that happened");
}

static rowlock_status print_history(void *into, rowlock_client *client, rowlock_error *err)
{
    const asked *self = into;
    cli_pattern which = {0};
    tale all = {0};
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
    const bool many = self->context.client.member_count > 0;
    if (!many && !self->columns)
        hide_members();
    rowlock_status status = many ? read_members(self, &all, &options, err)
                                 : read_one(&all, client, 0, 0, &options, err);
    if (status == ROWLOCK_OK && all.count == 0 && which.name)
        status = check_name(which.name, client, err);
    if (status == ROWLOCK_OK)
        print_tale(self, &all, !which.prefix && !self->events && !self->failed && !self->since_ms);
    for (size_t i = 0; i < ROWLOCK_MEMBERS_MAX; i++)
        rowlock_history_free(all.read[i]);
    free(all.list);
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
    memcpy(chosen, columns, sizeof columns);
    if (self->utc)
        use_utc(chosen);
    self->shown = chosen;
    if (self->columns)
        self->shown = cli_columns_of(chosen, self->columns);
    return self->shown != NULL;
}

/* --name means the same as the operand. */
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

/* Joins the values of several --event with commas. */
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
