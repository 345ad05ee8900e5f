#include <stdlib.h>
#include <string.h>

#include "admin/admin.h"
#include "base/text.h"

void *rl_list_new(rowlock_client *client, size_t size, size_t item_size, rowlock_error *err)
{
    rl_list *list = calloc(1, size);
    if (!list) {
        rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
        return NULL;
    }
    list->client = client;
    list->budget = rl_budget_start(0, client->limit_ms, NULL);
    list->item_size = item_size;
    return list;
}

void rl_list_free(void *given)
{
    rl_list *list = given;
    if (!list)
        return;
    rl_texts_free(&list->texts);
    free(list->items);
    free(list);
}

rowlock_status rl_list_read(rl_list *list, rl_sql_id id, const rl_value *values, rl_each_row each,
                            rowlock_error *err)
{
    RL_TRY(rl_client_read_all(list->client, &list->budget, id, values, each, list, err));
    return list->texts.failed ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory") : ROWLOCK_OK;
}

void *rl_list_add(rl_list *list, rowlock_error *err)
{
    if (!rl_array_grow(&list->items, list->count, &list->capacity, list->item_size)) {
        rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
        return NULL;
    }
    return memset((char *)list->items + list->item_size * list->count++, 0, list->item_size);
}

const char *rl_list_keep(rl_list *list, const rl_cell *text)
{
    return rl_texts_keep(&list->texts, text->text);
}

const void *rl_list_at(const rl_list *list, size_t i)
{
    return i < list->count ? (const char *)list->items + list->item_size * i : NULL;
}
