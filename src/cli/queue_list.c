/* cli/queue_list.c - queue ls, queue dead: what is in a queue. See queue.h. */
#include <stdio.h>
#include <string.h>

#include "queue.h"
#include "rowlock/rowlock_admin.h"
#include "table.h"

enum { PAGE = 1000 };

/* ------------------------------------------------------------------------ queues */

typedef struct listed {
    const char *name;
    rowlock_queue_info info;
} listed;

#define AT(member) CELL_AT(listed, member)
static const cli_column queue_columns[] = {
    {"name", CELL_TEXT, AT(name), .title = "NAME", .place = 1, .cut = 1},
    {"depth", CELL_COUNT, AT(info.depth), .title = "DEPTH", .place = 2},
    {"ready", CELL_COUNT, AT(info.ready), .title = "READY", .place = 3},
    {"in_flight", CELL_COUNT, AT(info.in_flight), .title = "IN FLIGHT", .place = 5},
    {"delayed", CELL_COUNT, AT(info.delayed), .title = "DELAYED", .place = 6},
    {"behind", CELL_COUNT, AT(info.behind)},
    {"dead", CELL_COUNT, AT(info.dead), .title = "DEAD", .place = 7},
    {"oldest_ms", CELL_MS, AT(info.oldest_ms), .title = "OLDEST", .place = 4},
    {"next_ms", CELL_MS, AT(info.next_ms)},
    {0},
};
#undef AT

static rowlock_status add_queue(cli_rows *rows, rowlock_client *client, const char *name,
                                rowlock_error *err)
{
    listed row = {.name = name};
    rowlock_status status = rowlock_queue_get(client, name, &row.info, err);
    if (status == ROWLOCK_OK)
        cli_rows_add(rows, &row);
    return status;
}

/* Leaves out a queue that was purged since it was listed. */
static rowlock_status add_page(cli_rows *rows, rowlock_client *client, const rowlock_list *page,
                               rowlock_error *err)
{
    rowlock_status status = ROWLOCK_OK;
    for (size_t i = 0; i < rowlock_list_count(page) && status == ROWLOCK_OK; i++) {
        const rowlock_info *info = rowlock_list_at(page, i);
        if (info->kind == ROWLOCK_KIND_QUEUE)
            status = add_queue(rows, client, info->name, err);
        if (status == ROWLOCK_NOT_FOUND)
            status = ROWLOCK_OK;
    }
    return status;
}

/* Reads page after page. A page is freed after the next one was read, since that begins behind its
 * last name. */
static rowlock_status add_all(cli_rows *rows, rowlock_client *client, rowlock_error *err)
{
    rowlock_list_options options = {.all = true, .limit = PAGE};
    rowlock_list *before = NULL;
    rowlock_status status = ROWLOCK_OK;
    for (size_t count = PAGE; count == PAGE && status == ROWLOCK_OK;) {
        rowlock_list *page = NULL;
        status = rowlock_list_get(client, &options, &page, err);
        rowlock_list_free(before);
        before = page;
        if (status == ROWLOCK_OK)
            status = add_page(rows, client, page, err);
        count = rowlock_list_count(page);
        options.after = count > 0 ? rowlock_list_at(page, count - 1)->name : NULL;
    }
    rowlock_list_free(before);
    return status;
}

rowlock_status queue_list(const queue_job *job, rowlock_client *client, const char *name,
                          rowlock_error *err)
{
    cli_rows rows = cli_rows_begin(queue_columns, job->run.context.json);
    rows.titled = true;
    rowlock_status status =
        name ? add_queue(&rows, client, name, err) : add_all(&rows, client, err);
    if (status == ROWLOCK_OK)
        cli_rows_end(&rows, "there are no queues");
    else
        cli_rows_drop(&rows);
    return status;
}

/* ------------------------------------------------------------------------- items */

static const cli_named states[] = {
    [ROWLOCK_ITEM_READY] = {"ready", CLI_GREEN},
    [ROWLOCK_ITEM_DELAYED] = {"delayed", CLI_PLAIN},
    [ROWLOCK_ITEM_IN_FLIGHT] = {"in flight", CLI_YELLOW},
    [ROWLOCK_ITEM_BEHIND] = {"behind", CLI_PLAIN},
    [ROWLOCK_ITEM_DEAD] = {"dead", CLI_RED},
};

/* "3 of 20" */
static const char *attempts_of(const void *row, char *text)
{
    const rowlock_item_info *item = row;
    snprintf(text, CELL_TEXT_MAX, "%u of %u", item->attempt, item->attempts);
    return text;
}

/* How long ago, or in how long. */
static const char *when_of(const void *row, char *text)
{
    const rowlock_item_info *item = row;
    char humane[CLI_HUMANE];
    const int64_t ms = item->ready_ms;
    cli_humane(ms < 0 ? -ms : ms, humane, sizeof humane);
    snprintf(text, CELL_TEXT_MAX, ms < 0 ? "%s ago" : "in %s", humane);
    return text;
}

#define AT(member) CELL_AT(rowlock_item_info, member)
static const cli_column item_columns[] = {
    {"id", CELL_COUNT, AT(id), .title = "ID", .place = 1},
    {"state", CELL_NAMED, AT(state), .names = states, .title = "STATE", .place = 2},
    {NULL, CELL_TEXT, .text = when_of, .title = "WHEN", .place = 3},
    {"priority", CELL_UNSIGNED, AT(priority)},
    {NULL, CELL_TEXT, .text = attempts_of, .title = "ATTEMPT", .place = 4},
    {"attempt", CELL_UNSIGNED, AT(attempt)},
    {"attempts", CELL_UNSIGNED, AT(attempts)},
    {"token", CELL_COUNT, AT(token)},
    {"size", CELL_COUNT, AT(size)},
    {"key", CELL_TEXT, AT(key), .title = "KEY", .place = 5, .cut = 2},
    {"group", CELL_TEXT, AT(group)},
    {"owner_label", CELL_TEXT, AT(owner_label)},
    {"error", CELL_TEXT, AT(error), .title = "ERROR", .place = 6, .cut = 1},
    {"created_at", CELL_TIME, AT(created_at)},
    {"ready_at", CELL_TIME, AT(ready_at)},
    {0},
};
#undef AT

rowlock_status queue_list_items(const queue_job *job, rowlock_client *client, const char *name,
                                bool dead, rowlock_error *err)
{
    rowlock_items_options options = {.dead = dead, .limit = PAGE};
    cli_rows rows = cli_rows_begin(item_columns, job->run.context.json);
    rowlock_status status = ROWLOCK_OK;
    rows.titled = true;
    for (size_t count = PAGE; count == PAGE && status == ROWLOCK_OK;) {
        rowlock_items *page = NULL;
        status = rowlock_items_get(client, name, &options, &page, err);
        count = rowlock_items_count(page);
        for (size_t i = 0; i < count; i++)
            cli_rows_add(&rows, rowlock_items_at(page, i));
        if (count > 0)
            options.after = rowlock_items_at(page, count - 1)->id;
        rowlock_items_free(page);
    }
    if (status == ROWLOCK_OK)
        cli_rows_end(&rows, dead ? "it has no dead items" : "it has no items");
    else
        cli_rows_drop(&rows);
    return status;
}
