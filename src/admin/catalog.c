#include "admin/catalog.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"
#include "kind/row.h"

#define LIST_DEFAULT    1000
#define HISTORY_DEFAULT 100

/* The columns of list_names and list_name. */
enum {
    COLUMN_ID,
    COLUMN_NAME,
    COLUMN_KIND,
    COLUMN_STATUS,
    COLUMN_VERSION,
    COLUMN_OWNER,
    COLUMN_LABEL,
    COLUMN_CONNECTION,
    COLUMN_ACQUIRED,
    COLUMN_EXPIRES,
    COLUMN_SHUT_UNTIL,
    COLUMN_HELD_US,
    COLUMN_REMAINING_US,
    COLUMN_SHUT_US,
    COLUMN_DESCRIPTION
};

/* ------------------------------------------------------------------------------ locks */

static int64_t milliseconds(const rl_cell *us)
{
    return us->null ? -1 : us->i64 < 0 ? 0 : us->i64 / 1000;
}

/* As far as its row says; a row lock's holder may be dead all the same. */
static rowlock_state state_of(const rl_cell *cells, const rl_kind *kind)
{
    if (strcmp(cells[COLUMN_STATUS].text, "held") != 0)
        return !cells[COLUMN_SHUT_US].null && cells[COLUMN_SHUT_US].i64 > 0 ? ROWLOCK_SHUT
                                                                            : ROWLOCK_FREE;
    if (!kind->of_connection && cells[COLUMN_REMAINING_US].i64 <= 0)
        return ROWLOCK_EXPIRED;
    return ROWLOCK_HELD;
}

static void fill_info(rowlock_info *info, rl_texts *texts, const rl_kind *kind,
                      const rl_cell *cells)
{
    const rowlock_state state = state_of(cells, kind);
    const bool held = state == ROWLOCK_HELD || state == ROWLOCK_EXPIRED;
    const bool shut = state == ROWLOCK_SHUT;
    const char *expires = shut   ? cells[COLUMN_SHUT_UNTIL].text
                          : held ? cells[COLUMN_EXPIRES].text
                                 : "";
    *info = (rowlock_info){.mode = kind->mode,
                           .state = state,
                           .token = cells[COLUMN_VERSION].u64,
                           .name = rl_texts_keep(texts, cells[COLUMN_NAME].text),
                           .owner = rl_texts_keep(texts, cells[COLUMN_OWNER].text),
                           .owner_label = rl_texts_keep(texts, cells[COLUMN_LABEL].text),
                           .acquired_at = rl_texts_keep(texts, cells[COLUMN_ACQUIRED].text),
                           .expires_at = rl_texts_keep(texts, expires),
                           .description = rl_texts_keep(texts, cells[COLUMN_DESCRIPTION].text),
                           /* A lease's is the one that it was taken on, of no meaning to others. */
                           .connection_id = kind->of_connection ? cells[COLUMN_CONNECTION].u64 : 0,
                           .held_ms = held ? milliseconds(&cells[COLUMN_HELD_US]) : -1,
                           .remaining_ms = -1};
    if (shut || (held && !kind->of_connection))
        info->remaining_ms = milliseconds(&cells[shut ? COLUMN_SHUT_US : COLUMN_REMAINING_US]);
}

/* The ids beside the infos, for the probe. */
typedef struct listing {
    rowlock_list *list;
    uint64_t *ids;
    size_t id_capacity;
} listing;

static rowlock_status add_info(void *data, const rl_cell *cells, rowlock_error *err)
{
    listing *to = data;
    rowlock_list *list = to->list;
    const rl_kind *kind = NULL;
    RL_TRY(rl_kind_find(cells[COLUMN_KIND].text, cells[COLUMN_NAME].text, &kind, err));
    if (!RL_GROW(list->infos, list->count, list->capacity) ||
        !RL_GROW(to->ids, list->count, to->id_capacity))
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    to->ids[list->count] = cells[COLUMN_ID].u64;
    fill_info(&list->infos[list->count++], &list->texts, kind, cells);
    return list->texts.failed ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory") : ROWLOCK_OK;
}

/* A row lock that says it is held: only its row knows. */
static rowlock_status probe_row_locks(rowlock_client *client, const rl_budget *budget, listing *to,
                                      rowlock_error *err)
{
    for (size_t i = 0; i < to->list->count; i++) {
        rowlock_info *info = &to->list->infos[i];
        if (info->mode != ROWLOCK_PESSIMISTIC || info->state != ROWLOCK_HELD)
            continue;
        bool locked = true;
        RL_TRY(rl_row_probe(client, budget, to->ids[i], &locked, err));
        if (!locked)
            info->state = ROWLOCK_EXPIRED;
    }
    return ROWLOCK_OK;
}

rowlock_status rl_catalog_list(rowlock_client *client, const char *name,
                               const rowlock_list_options *options, rowlock_list **out,
                               rowlock_error *err)
{
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    listing to = {.list = calloc(1, sizeof *to.list)};
    if (!to.list)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    uint64_t open = !rl_client_via(client);
    const rl_value one[] = {rl_text(name ? name : ""), rl_u64(open)};
    const rl_value many[] = {rl_text(options->after ? options->after : ""),
                             rl_u64(options->all ? 1 : 0),
                             rl_u64(options->limit ? options->limit : LIST_DEFAULT), rl_u64(open)};
    rowlock_status status =
        rl_client_read_all(client, &budget, name ? RL_SQL_LIST_NAME : RL_SQL_LIST_NAMES,
                           name ? one : many, add_info, &to, err);
    if (status == ROWLOCK_OK)
        status = probe_row_locks(client, &budget, &to, err);
    if (status == ROWLOCK_OK && name && to.list->count == 0)
        status = rl_fail(err, ROWLOCK_NOT_FOUND,
                         "there is no lock '%s' (it was never used, or is purged)", name);
    free(to.ids);
    if (status == ROWLOCK_OK)
        *out = to.list;
    else
        rl_catalog_list_free(to.list);
    return rl_no_effect(status, err);
}

void rl_catalog_list_free(rowlock_list *list)
{
    if (!list)
        return;
    rl_texts_free(&list->texts);
    free(list->infos);
    free(list);
}

/* ---------------------------------------------------------------------------- history */

/* The columns of event_list and event_list_of. */
static void fill_event(rowlock_event *event, rl_texts *texts, const rl_kind *kind,
                       const rl_cell *cells)
{
    *event = (rowlock_event){.id = cells[0].u64,
                             .mode = kind->mode,
                             .token = cells[4].u64,
                             .waited_ms = cells[8].null ? -1 : cells[8].i64,
                             .held_ms = cells[9].null ? -1 : cells[9].i64,
                             .has_exit_status = !cells[10].null,
                             .exit_status = (int)cells[10].i64,
                             .name = rl_texts_keep(texts, cells[1].text),
                             .event = rl_texts_keep(texts, cells[3].text),
                             .owner = rl_texts_keep(texts, cells[5].text),
                             .owner_label = rl_texts_keep(texts, cells[6].text),
                             .happened_at = rl_texts_keep(texts, cells[7].text),
                             .detail = rl_texts_keep(texts, cells[11].text)};
}

static rowlock_status add_event(void *data, const rl_cell *cells, rowlock_error *err)
{
    rowlock_history *history = data;
    const rl_kind *kind = NULL;
    RL_TRY(rl_kind_find(cells[2].text, cells[1].text, &kind, err));
    if (!RL_GROW(history->events, history->count, history->capacity))
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    fill_event(&history->events[history->count++], &history->texts, kind, cells);
    return history->texts.failed ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory") : ROWLOCK_OK;
}

static rowlock_status read_events(rowlock_client *client, const rl_budget *budget,
                                  const rowlock_history_options *options, rowlock_history *history,
                                  rowlock_error *err)
{
    uint64_t limit = options->limit ? options->limit : HISTORY_DEFAULT;
    const rl_value all[] = {rl_u64(limit)};
    const rl_value some[] = {rl_text(options->name ? options->name : ""), rl_u64(limit)};
    return rl_client_read_all(client, budget,
                              options->name ? RL_SQL_EVENT_LIST_OF : RL_SQL_EVENT_LIST,
                              options->name ? some : all, add_event, history, err);
}

rowlock_status rl_catalog_history(rowlock_client *client, const rowlock_history_options *options,
                                  rowlock_history **out, rowlock_error *err)
{
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    rowlock_history *history = calloc(1, sizeof *history);
    if (!history)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    rowlock_status status = read_events(client, &budget, options, history, err);
    if (status == ROWLOCK_OK)
        *out = history;
    else
        rl_catalog_history_free(history);
    return status;
}

void rl_catalog_history_free(rowlock_history *history)
{
    if (!history)
        return;
    rl_texts_free(&history->texts);
    free(history->events);
    free(history);
}
