/* cli/locks.c - see locks.h */
#include "locks.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 1000 };

static void add_page(cli_locks *locks, rowlock_list *page)
{
    const size_t count = rowlock_list_count(page);
    locks->pages =
        cli_need(reallocarray(locks->pages, locks->page_count + 1, sizeof(rowlock_list *)));
    locks->pages[locks->page_count++] = page;
    locks->at = cli_need(reallocarray(locks->at, locks->count + count + 1, sizeof(rowlock_info *)));
    for (size_t i = 0; i < count; i++)
        locks->at[locks->count++] = rowlock_list_at(page, i);
}

rowlock_status cli_locks_read(rowlock_client *client, const char *prefix, bool all,
                              cli_locks *locks, rowlock_error *err)
{
    rowlock_list_options options = {.all = all, .limit = PAGE, .prefix = prefix};
    for (size_t count = PAGE; count == PAGE;) {
        rowlock_list *page = NULL;
        rowlock_status status = rowlock_list_get(client, &options, &page, err);
        if (status != ROWLOCK_OK)
            return status;
        add_page(locks, page);
        count = rowlock_list_count(page);
        options.after = count > 0 ? locks->at[locks->count - 1]->name : NULL;
    }
    return rowlock_waiters_get(client, NULL, &locks->waiters, err);
}

rowlock_status cli_locks_read_one(rowlock_client *client, const char *name, cli_locks *locks,
                                  rowlock_error *err)
{
    rowlock_list *found = NULL;
    rowlock_status status = rowlock_list_one(client, name, &found, err);
    if (status == ROWLOCK_OK)
        add_page(locks, found);
    return status;
}

void cli_locks_free(cli_locks *locks)
{
    for (size_t i = 0; i < locks->page_count; i++)
        rowlock_list_free(locks->pages[i]);
    free(locks->pages);
    free(locks->at);
    rowlock_waiters_free(locks->waiters);
    *locks = (cli_locks){0};
}

bool cli_is_held(const rowlock_info *info)
{
    return info->state == ROWLOCK_HELD || info->state == ROWLOCK_EXPIRED;
}

bool cli_has_holders(const rowlock_info *info)
{
    return info->kind != ROWLOCK_KIND_LATCH && info->kind != ROWLOCK_KIND_BARRIER &&
           info->kind != ROWLOCK_KIND_QUEUE;
}

cli_waiting cli_waiting_for(const rowlock_waiters *waiters, const char *name, size_t from)
{
    cli_waiting found = {.first = from};
    const size_t count = rowlock_waiters_count(waiters);
    while (found.first < count && strcmp(rowlock_waiters_at(waiters, found.first)->name, name) < 0)
        found.first++;
    found.end = found.first;
    while (found.end < count && strcmp(rowlock_waiters_at(waiters, found.end)->name, name) == 0)
        found.end++;
    return found;
}
