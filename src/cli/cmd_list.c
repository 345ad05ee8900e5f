/* cli/cmd_list.c - ls: who holds what; show: one lock. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "cli.h"
#include "json.h"
#include "say.h"
#include "table.h"
#include "text.h"

enum { PAGE = 1000 };

static const char ls_help[] =
    "Usage: rowlock ls [-a] [--json]\n"
    "Lists the locks that somebody holds, by name.\n"
    "\n"
    "  -a, --all   those that nobody holds too\n"
    "      --json  an array of objects, times in UTC, durations in milliseconds\n"
    "\n"
    "STATE: held; expired: its holder is gone, and the next to ask gets it; shut: released,\n"
    "but closed until its --at-least is over, or broken, and its old holder may still work;\n"
    "free.\n"
    "SINCE: for how long it has been held. REMAINING: until the lease ends if it is not\n"
    "renewed, or until a shut lock opens; a row lock ends with its connection.\n"
    "TOKEN: the fencing token; it rises with each change of hands.\n"
    "WAITING: how many wait for it; the column is there when anybody does. 'show' says who.\n"
    "The connection options of 'rowlock --help' may stand here too.\n";

static const char show_help[] =
    "Usage: rowlock show [--json] NAME\n"
    "Shows one lock, held or not: state, mode, holder, since when, until when, token; and who\n"
    "waits for it, the longest wait first.\n"
    "\n"
    "      --json  one object, times in UTC, durations in milliseconds\n"
    "\n"
    "Exit status 66: no lock of that name was ever used (or it is purged).\n"
    "The connection options of 'rowlock --help' may stand here too.\n";

static const char *state_word(rowlock_state state)
{
    switch (state) {
    case ROWLOCK_FREE:
        return "free";
    case ROWLOCK_HELD:
        return "held";
    case ROWLOCK_EXPIRED:
        return "expired";
    case ROWLOCK_SHUT:
        return "shut";
    }
    return "?";
}

/* -1, nothing to say, once its time is over. */
static int64_t left_of(const rowlock_info *info)
{
    return info->state == ROWLOCK_EXPIRED ? -1 : info->remaining_ms;
}

static cli_colour state_colour(rowlock_state state)
{
    switch (state) {
    case ROWLOCK_HELD:
        return CLI_GREEN;
    case ROWLOCK_EXPIRED:
        return CLI_RED;
    case ROWLOCK_SHUT:
        return CLI_YELLOW;
    case ROWLOCK_FREE:
        return CLI_PLAIN;
    }
    return CLI_PLAIN;
}

/* The label people know, else the owner id. */
static const char *holder_of(const rowlock_info *info)
{
    return *info->owner_label ? info->owner_label : info->owner;
}

static bool has_holder(const rowlock_info *info)
{
    return info->state == ROWLOCK_HELD || info->state == ROWLOCK_EXPIRED;
}

/* ----------------------------------------------------------------- waiters */

/* They are in byte order of the names: the first of those who wait for `name`, or where it
 * would be. */
static size_t first_waiter(const rowlock_waiters *waiters, const char *name)
{
    size_t low = 0;
    size_t high = rowlock_waiters_count(waiters);
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(rowlock_waiters_at(waiters, middle)->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The one behind them. */
static size_t end_of_waiters(const rowlock_waiters *waiters, size_t first, const char *name)
{
    size_t end = first;
    while (end < rowlock_waiters_count(waiters) &&
           strcmp(rowlock_waiters_at(waiters, end)->name, name) == 0)
        end++;
    return end;
}

static size_t count_waiters(const rowlock_waiters *waiters, const char *name)
{
    size_t first = first_waiter(waiters, name);
    return end_of_waiters(waiters, first, name) - first;
}

static json_object *waiter_json(const rowlock_waiter *waiter)
{
    json_object *object = cli_json_new();
    cli_json_text(object, "who", waiter->who);
    cli_json_text(object, "owner", waiter->owner);
    cli_json_count(object, "connection_id", waiter->connection_id);
    cli_json_int(object, "waited_ms", true, waiter->waited_ms);
    return object;
}

static void add_waiters(json_object *object, const rowlock_waiters *waiters, const char *name)
{
    json_object *array = cli_json_array(object, "waiters");
    size_t first = first_waiter(waiters, name);
    size_t end = end_of_waiters(waiters, first, name);
    for (size_t i = first; i < end; i++)
        cli_json_append(array, waiter_json(rowlock_waiters_at(waiters, i)));
    cli_json_text(object, "waiters_not_shown", rowlock_waiters_hidden(waiters));
}

static json_object *info_json(const rowlock_info *info, const rowlock_waiters *waiters)
{
    json_object *object = cli_json_new();
    cli_json_text(object, "name", info->name);
    cli_json_text(object, "mode", cli_mode_word(info->mode));
    cli_json_text(object, "state", state_word(info->state));
    cli_json_count(object, "token", info->token);
    cli_json_text(object, "owner", info->owner);
    cli_json_text(object, "owner_label", info->owner_label);
    cli_json_time(object, "acquired_at", info->acquired_at);
    cli_json_time(object, "expires_at", info->expires_at);
    cli_json_int(object, "held_ms", info->held_ms >= 0, info->held_ms);
    cli_json_int(object, "remaining_ms", info->remaining_ms >= 0, info->remaining_ms);
    cli_json_int(object, "connection_id", info->connection_id != 0, (int64_t)info->connection_id);
    cli_json_text(object, "description", info->description);
    add_waiters(object, waiters, info->name);
    return object;
}

/* ---------------------------------------------------------------------- ls */

enum { WAITING = 7, COLUMNS };

/* The last one is left out where nobody waits. */
static const cli_column columns[COLUMNS] = {
    {"NAME", false, 1}, {"STATE", false, 0},
    {"MODE", false, 0}, {"HOLDER", false, 2},
    {"SINCE", true, 0}, {"REMAINING", true, 0},
    {"TOKEN", true, 0}, [WAITING] = {"WAITING", true, 0},
};

static void add_count(cli_table *table, size_t count)
{
    if (count > 0)
        cli_table_add_number(table, count);
    else
        cli_table_add(table, "", CLI_PLAIN);
}

static void add_row(cli_table *table, const rowlock_info *info, const rowlock_waiters *waiters)
{
    cli_table_add(table, info->name, CLI_PLAIN);
    cli_table_add(table, state_word(info->state), state_colour(info->state));
    cli_table_add(table, cli_mode_word(info->mode), CLI_PLAIN);
    cli_table_add(table, has_holder(info) ? holder_of(info) : "", CLI_PLAIN);
    cli_table_add_duration(table, info->held_ms);
    cli_table_add_duration(table, left_of(info));
    cli_table_add_number(table, info->token);
    if (rowlock_waiters_count(waiters) > 0)
        add_count(table, count_waiters(waiters, info->name));
}

/* All that was found, page after page, and all who wait. */
typedef struct listing {
    rowlock_list **pages;
    size_t page_count;
    rowlock_waiters *waiters;
} listing;

static void free_listing(listing *found)
{
    for (size_t i = 0; i < found->page_count; i++)
        rowlock_list_free(found->pages[i]);
    free(found->pages);
    rowlock_waiters_free(found->waiters);
}

/* Everything is there before the first line is printed: what comes out is whole or not
 * at all. */
static rowlock_status list_all(rowlock_client *client, bool all, listing *found, rowlock_error *err)
{
    rowlock_list_options options = {.all = all, .limit = PAGE};
    for (size_t count = PAGE; count == PAGE;) {
        rowlock_list *page;
        rowlock_status status = rowlock_list_get(client, &options, &page, err);
        if (status != ROWLOCK_OK)
            return status;
        found->pages =
            cli_need(reallocarray(found->pages, found->page_count + 1, sizeof(rowlock_list *)));
        found->pages[found->page_count++] = page;
        count = rowlock_list_count(page);
        options.after = count > 0 ? rowlock_list_at(page, count - 1)->name : NULL;
    }
    return rowlock_waiters_get(client, NULL, &found->waiters, err);
}

static void print_json(const listing *found)
{
    size_t count = 0;
    for (size_t p = 0; p < found->page_count; p++) {
        for (size_t i = 0; i < rowlock_list_count(found->pages[p]); i++)
            cli_json_item(info_json(rowlock_list_at(found->pages[p], i), found->waiters), count++);
    }
    cli_json_end(count);
}

static void print_table(const listing *found, bool all)
{
    bool waiting = rowlock_waiters_count(found->waiters) > 0;
    cli_table *table = cli_table_new(columns, waiting ? COLUMNS : WAITING);
    for (size_t p = 0; p < found->page_count; p++) {
        for (size_t i = 0; i < rowlock_list_count(found->pages[p]); i++)
            add_row(table, rowlock_list_at(found->pages[p], i), found->waiters);
    }
    cli_table_print(table);
    cli_table_free(table);
    if (rowlock_list_count(found->pages[0]) == 0 && cli_terminal_width() > 0)
        cli_say(all ? "no lock was used yet" : "no lock is held");
}

typedef struct listed {
    cli_context context;
    bool all;
} listed;

static rowlock_status list(void *into, rowlock_client *client, rowlock_error *err)
{
    const listed *self = into;
    listing found = {0};
    rowlock_status status = list_all(client, self->all, &found, err);
    if (status == ROWLOCK_OK && self->context.json)
        print_json(&found);
    else if (status == ROWLOCK_OK)
        print_table(&found, self->all);
    free_listing(&found);
    return status;
}

static listed listed_now;

const cli_command cli_ls = {
    .help = ls_help,
    .options =
        (const cli_option[]){
            {'a', "all", CLI_FLAG, CLI_AT(listed, all)},
            {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
            {0},
        },
    .into = &listed_now,
    .work = list,
};

/* -------------------------------------------------------------------- show */

static void print_member(const char *key, const char *value)
{
    char *printable = cli_need(cli_printable(value));
    if (*printable)
        printf("%-12s %s\n", key, printable);
    free(printable);
}

static void print_number(const char *key, uint64_t value)
{
    printf("%-12s %" PRIu64 "\n", key, value);
}

/* "2026-11-21 07:56:44 UTC (3m12s ago)", the duration only where it is known. */
static void print_moment(const char *key, const char *when, const char *before, int64_t ms,
                         const char *after)
{
    char humane[CLI_HUMANE];
    char line[160];
    if (!*when)
        return;
    int used = snprintf(line, sizeof line, "%.19s UTC", when);
    if (ms >= 0)
        snprintf(line + used, sizeof line - (size_t)used, " (%s%s%s)", before,
                 cli_humane(ms, humane, sizeof humane), after);
    print_member(key, line);
}

static void print_end(const rowlock_info *info)
{
    if (info->state == ROWLOCK_HELD && !*info->expires_at)
        print_member("until", "its connection ends");
    else
        print_moment(info->state == ROWLOCK_SHUT ? "opens" : "until", info->expires_at, "in ",
                     info->remaining_ms, "");
}

static void print_info(const rowlock_info *info)
{
    bool held = has_holder(info);
    print_member("name", info->name);
    printf("%-12s ", "state");
    cli_print_coloured(state_word(info->state), state_colour(info->state));
    putchar('\n');
    print_member("mode", cli_mode_word(info->mode));
    print_member(held ? "holder" : "last holder", info->owner_label);
    print_member(held ? "owner" : "last owner", info->owner);
    print_number("token", info->token);
    print_moment(held ? "since" : "was acquired", info->acquired_at, "", info->held_ms, " ago");
    print_end(info);
    if (info->connection_id != 0)
        print_number("connection", info->connection_id);
    print_member("description", info->description);
}

/* "batch@app2 311 sh, for 3.2s"; a row lock's waiter, of which there is no more to say, with
 * its connection. */
static void print_waiter(const char *key, const rowlock_waiter *waiter)
{
    char humane[CLI_HUMANE];
    char connection[40] = "";
    char line[ROWLOCK_LABEL_MAX + 100];
    if (waiter->mode == ROWLOCK_PESSIMISTIC)
        snprintf(connection, sizeof connection, ", connection %" PRIu64, waiter->connection_id);
    snprintf(line, sizeof line, "%s%s, for %s", waiter->who, connection,
             cli_humane(waiter->waited_ms, humane, sizeof humane));
    print_member(key, line);
}

static void print_waiters(const rowlock_waiters *waiters)
{
    for (size_t i = 0; i < rowlock_waiters_count(waiters); i++)
        print_waiter(i == 0 ? "waiting" : "", rowlock_waiters_at(waiters, i));
    print_member("not shown", rowlock_waiters_hidden(waiters));
}

static void print_one(const rowlock_info *info, const rowlock_waiters *waiters, bool json)
{
    if (json) {
        cli_json_print(info_json(info, waiters));
        return;
    }
    print_info(info);
    print_waiters(waiters);
}

static rowlock_status show(void *into, rowlock_client *client, rowlock_error *err)
{
    const cli_context *context = into;
    const rowlock_waiters_options options = {.name = context->operands[0]};
    rowlock_list *found = NULL;
    rowlock_waiters *waiters = NULL;
    rowlock_status status = rowlock_list_one(client, options.name, &found, err);
    if (status == ROWLOCK_OK)
        status = rowlock_waiters_get(client, &options, &waiters, err);
    if (status == ROWLOCK_OK)
        print_one(rowlock_list_at(found, 0), waiters, context->json);
    rowlock_list_free(found);
    rowlock_waiters_free(waiters);
    return status;
}

static cli_context shown_now;

const cli_command cli_show = {
    .help = show_help,
    .options = (const cli_option[]){{0, "json", CLI_FLAG, CLI_AT(cli_context, json)}, {0}},
    .into = &shown_now,
    .least = 1,
    .most = 1,
    .operands = "the lock's NAME",
    .work = show,
};
