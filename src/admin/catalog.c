#include "admin/admin.h"

#include <stdlib.h>
#include <string.h>

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
    COLUMN_COOLING_UNTIL,
    COLUMN_HELD_US,
    COLUMN_REMAINING_US,
    COLUMN_COOLING_US,
    COLUMN_DESCRIPTION,
    COLUMN_HOLDS,
    COLUMN_LOST,
    COLUMN_TAKEN_OVER,
    COLUMN_WAITED_US,
    COLUMN_WAITED_MOST_US,
    COLUMN_TOTAL_US,
    COLUMN_MOST_US,
    COLUMN_FIRST_AT,
    COLUMN_LAST_AT,
    COLUMN_READERS,
    COLUMN_SLOTS,
    COLUMN_SLOTS_HELD,
    COLUMN_COUNT,
    COLUMN_DOWN,
    COLUMN_VALUE,
    COLUMN_ASKED_AT,
    COLUMN_ASKED_BY,
    COLUMN_ASKED_WHY,
    COLUMN_STOP_BY,
    COLUMN_ASKED_US,
    COLUMN_PERIOD_START,
    COLUMN_PERIOD_END,
    COLUMN_PERIOD_STATE,
    COLUMN_QUEUE,
    COLUMN_FAILED,
    COLUMN_REFUSED,
    COLUMN_SUCCEEDED_AT,
    COLUMN_SUCCEEDED_AGE_US,
    COLUMN_SUCCEEDED_US,
    COLUMN_FAILED_AT,
    COLUMN_FAILED_AGE_US,
    COLUMN_FAILED_EXIT,
    COLUMN_GAP_US,
    COLUMN_GAP_PART,
    COLUMN_FROZEN_UNTIL,
    COLUMN_FROZEN_BY,
    COLUMN_FROZEN_WHY,
    COLUMN_SESSIONS
};

/* ------------------------------------------------------------------ what is read whole */

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

/* ------------------------------------------------------------------------------ locks */

static int64_t milliseconds(const rl_cell *us)
{
    return us->null ? -1 : us->i64 < 0 ? 0 : us->i64 / 1000;
}

static int64_t unless_null(const rl_cell *us)
{
    return us->null ? -1 : us->i64;
}

/* When all have counted the latch is open, even if no client has written that into its row yet. */
static rowlock_state latch_state(const rl_cell *cells)
{
    const bool closed = strcmp(cells[COLUMN_STATUS].text, "held") == 0 &&
                        cells[COLUMN_DOWN].u64 < cells[COLUMN_COUNT].u64;
    return closed ? ROWLOCK_HELD : ROWLOCK_FREE;
}

/* Of a queue; of another lock all 0. */
typedef struct queue_counts {
    uint64_t depth;
    uint64_t ready;
    uint64_t in_flight;
    uint64_t dead;
    int64_t oldest_us;
} queue_counts;

static queue_counts counts_of(const rl_cell *cells)
{
    queue_counts c = {.oldest_us = -1};
    char *at = NULL;
    c.depth = strtoull(cells[COLUMN_QUEUE].text, &at, 10);
    c.ready = strtoull(at, &at, 10);
    c.in_flight = strtoull(at, &at, 10);
    c.dead = strtoull(at, &at, 10);
    if (*at)
        c.oldest_us = strtoll(at, &at, 10);
    /* Items whose worker was lost: without attempts left they count as dead. */
    const uint64_t again = strtoull(at, &at, 10);
    const uint64_t used_up = strtoull(at, &at, 10);
    const int64_t again_us = strtoll(at, NULL, 10);
    c.depth -= used_up;
    c.ready += again;
    c.dead += used_up;
    if (again > 0 && again_us > c.oldest_us)
        c.oldest_us = again_us;
    return c;
}

/* As far as its row says; a row lock's holder may be dead all the same. */
static rowlock_state state_of(const rl_cell *cells, const rl_kind *kind)
{
    if (kind->listed == ROWLOCK_KIND_LATCH)
        return latch_state(cells);
    if (kind->listed == ROWLOCK_KIND_QUEUE)
        return counts_of(cells).in_flight > 0 ? ROWLOCK_HELD : ROWLOCK_FREE;
    if (cells[COLUMN_READERS].u64 > 0 || cells[COLUMN_SLOTS_HELD].u64 > 0)
        return ROWLOCK_HELD;
    if (strcmp(cells[COLUMN_STATUS].text, "held") != 0)
        return !cells[COLUMN_COOLING_US].null && cells[COLUMN_COOLING_US].i64 > 0 ? ROWLOCK_COOLING
                                                                                  : ROWLOCK_FREE;
    if (!kind->of_connection && cells[COLUMN_REMAINING_US].i64 <= 0)
        return ROWLOCK_EXPIRED;
    return ROWLOCK_HELD;
}

static rowlock_totals totals_of(rl_list *list, const rl_cell *cells)
{
    return (rowlock_totals){.holds = cells[COLUMN_HOLDS].u64,
                            .lost = cells[COLUMN_LOST].u64,
                            .taken_over = cells[COLUMN_TAKEN_OVER].u64,
                            .waited_us = cells[COLUMN_WAITED_US].i64,
                            .waited_most_us = cells[COLUMN_WAITED_MOST_US].i64,
                            .held_us = cells[COLUMN_TOTAL_US].i64,
                            .held_most_us = cells[COLUMN_MOST_US].i64,
                            .first_at = rl_list_keep(list, &cells[COLUMN_FIRST_AT]),
                            .last_at = rl_list_keep(list, &cells[COLUMN_LAST_AT]),
                            .failed = cells[COLUMN_FAILED].u64,
                            .refused = cells[COLUMN_REFUSED].u64,
                            .succeeded_at = rl_list_keep(list, &cells[COLUMN_SUCCEEDED_AT]),
                            .succeeded_ms = milliseconds(&cells[COLUMN_SUCCEEDED_AGE_US]),
                            .succeeded_held_us = unless_null(&cells[COLUMN_SUCCEEDED_US]),
                            .failed_at = rl_list_keep(list, &cells[COLUMN_FAILED_AT]),
                            .failed_ms = milliseconds(&cells[COLUMN_FAILED_AGE_US]),
                            .failed_has_exit_status = !cells[COLUMN_FAILED_EXIT].null,
                            .failed_exit_status = (int)cells[COLUMN_FAILED_EXIT].i64,
                            .gap_us = cells[COLUMN_GAP_US].i64,
                            .gap_part = (unsigned)cells[COLUMN_GAP_PART].u64};
}

/* 0: it has none. */
static uint64_t token_of(const rl_cell *cells, const rl_kind *kind)
{
    const bool unset = kind->listed == ROWLOCK_KIND_LATCH && cells[COLUMN_ACQUIRED].null;
    return unset || cells[COLUMN_SLOTS].u64 || kind->listed == ROWLOCK_KIND_QUEUE
               ? 0
               : cells[COLUMN_VERSION].u64;
}

/* The id is for the probe. */
typedef struct listed {
    rowlock_info info;
    uint64_t id;
} listed;

static rowlock_status add_info(void *data, const rl_cell *cells, rowlock_error *err)
{
    rl_list *list = data;
    const rl_kind *kind = NULL;
    RL_TRY(rl_kind_find(cells[COLUMN_KIND].text, cells[COLUMN_NAME].text, &kind, err));
    listed *to = rl_list_add(list, err);
    if (!to)
        return ROWLOCK_SYSTEM;
    const rowlock_state state = state_of(cells, kind);
    const uint64_t readers = cells[COLUMN_READERS].u64;
    const bool held = state == ROWLOCK_HELD || state == ROWLOCK_EXPIRED;
    const bool alone = held && readers == 0 && cells[COLUMN_SLOTS].u64 == 0 &&
                       (kind->listed < ROWLOCK_KIND_LATCH || kind->listed == ROWLOCK_KIND_QUORUM);
    const bool cooling = state == ROWLOCK_COOLING;
    const queue_counts counts = counts_of(cells);
    to->id = cells[COLUMN_ID].u64;
    to->info =
        (rowlock_info){.mode = kind->mode,
                       .state = state,
                       .token = token_of(cells, kind),
                       .name = rl_list_keep(list, &cells[COLUMN_NAME]),
                       /* (Beside readers it is the last writer's that is there.) */
                       .owner = readers ? "" : rl_list_keep(list, &cells[COLUMN_OWNER]),
                       .owner_label = readers ? "" : rl_list_keep(list, &cells[COLUMN_LABEL]),
                       .acquired_at = readers ? "" : rl_list_keep(list, &cells[COLUMN_ACQUIRED]),
                       .expires_at = "",
                       .readers = readers,
                       .slots = cells[COLUMN_SLOTS].u64,
                       .slots_held = cells[COLUMN_SLOTS_HELD].u64,
                       .kind = kind->listed,
                       .count = cells[COLUMN_COUNT].u64,
                       .down = cells[COLUMN_DOWN].u64,
                       .value = rl_list_keep(list, &cells[COLUMN_VALUE]),
                       .asked_at = rl_list_keep(list, &cells[COLUMN_ASKED_AT]),
                       .asked_by = rl_list_keep(list, &cells[COLUMN_ASKED_BY]),
                       .asked_why = rl_list_keep(list, &cells[COLUMN_ASKED_WHY]),
                       .stop_by = rl_list_keep(list, &cells[COLUMN_STOP_BY]),
                       .asked_ms = milliseconds(&cells[COLUMN_ASKED_US]),
                       .period_start = rl_list_keep(list, &cells[COLUMN_PERIOD_START]),
                       .period_end = rl_list_keep(list, &cells[COLUMN_PERIOD_END]),
                       .period_state = rl_list_keep(list, &cells[COLUMN_PERIOD_STATE]),
                       .depth = counts.depth,
                       .ready = counts.ready,
                       .in_flight = counts.in_flight,
                       .dead = counts.dead,
                       .oldest_ms = counts.oldest_us < 0 ? -1 : counts.oldest_us / 1000,
                       .frozen_until = rl_list_keep(list, &cells[COLUMN_FROZEN_UNTIL]),
                       .frozen_by = rl_list_keep(list, &cells[COLUMN_FROZEN_BY]),
                       .frozen_why = rl_list_keep(list, &cells[COLUMN_FROZEN_WHY]),
                       .sessions = rl_list_keep(list, &cells[COLUMN_SESSIONS]),
                       .description = rl_list_keep(list, &cells[COLUMN_DESCRIPTION]),
                       /* A lease's is the one that it was taken on, of no meaning to others. */
                       .connection_id = kind->of_connection ? cells[COLUMN_CONNECTION].u64 : 0,
                       .held_ms = alone ? milliseconds(&cells[COLUMN_HELD_US]) : -1,
                       .remaining_ms = -1,
                       .totals = totals_of(list, cells)};
    if (alone || cooling)
        to->info.expires_at =
            rl_list_keep(list, &cells[cooling ? COLUMN_COOLING_UNTIL : COLUMN_EXPIRES]);
    if (cooling || (alone && !kind->of_connection))
        to->info.remaining_ms =
            milliseconds(&cells[cooling ? COLUMN_COOLING_US : COLUMN_REMAINING_US]);
    return ROWLOCK_OK;
}

/* The holder is not published: the row still describes the last one that was. */
static void say_unseen(rowlock_info *info)
{
    info->state = ROWLOCK_HELD;
    info->owner = info->owner_label = info->acquired_at = "";
    info->connection_id = 0;
    info->held_ms = -1;
    info->token = 0;
}

/* Of a row lock only its row knows whether it is held. In a list those are probed that say so; of
 * one alone (`one`) also whether it is held unfenced or shared, which publishes nothing. */
static rowlock_status probe_row_locks(rl_list *list, bool one, rowlock_error *err)
{
    listed *items = list->items;
    for (size_t i = 0; i < list->count; i++) {
        rowlock_info *info = &items[i].info;
        const bool published = info->state == ROWLOCK_HELD;
        if (info->kind != ROWLOCK_KIND_ROW || (!published && !one))
            continue;
        bool locked = published;
        RL_TRY(rl_row_probe(list->client, &list->budget, items[i].id, &locked, err));
        if (published && !locked)
            info->state = ROWLOCK_EXPIRED;
        if (!published && locked)
            say_unseen(info);
    }
    return ROWLOCK_OK;
}

static rowlock_status read_infos(rl_list *list, const char *name,
                                 const rowlock_list_options *options, rowlock_error *err)
{
    uint64_t open = !rl_client_via(list->client);
    const char *begin = options->prefix ? options->prefix : "";
    const rl_value one[] = {rl_text(name ? name : ""), rl_u64(open)};
    const rl_value many[] = {rl_text(options->after ? options->after : ""), rl_text(begin),
                             rl_u64(options->all ? 1 : 0),
                             rl_u64(options->limit ? options->limit : LIST_DEFAULT), rl_u64(open)};
    RL_TRY(rl_list_read(list, name ? RL_SQL_LIST_NAME : RL_SQL_LIST_NAMES, name ? one : many,
                        add_info, err));
    RL_TRY(probe_row_locks(list, name != NULL, err));
    if (name && list->count == 0)
        return rl_fail(err, ROWLOCK_NOT_FOUND,
                       "there is no lock '%s' (it was never used, or is purged)", name);
    return ROWLOCK_OK;
}

rowlock_status rl_catalog_list(rowlock_client *client, const char *name,
                               const rowlock_list_options *options, rowlock_list **out,
                               rowlock_error *err)
{
    rowlock_list *list = rl_list_new(client, sizeof *list, sizeof(listed), err);
    if (!list)
        return ROWLOCK_SYSTEM;
    rowlock_status status = read_infos(&list->all, name, options, err);
    if (status == ROWLOCK_OK)
        *out = list;
    else
        rl_list_free(list);
    return rl_no_effect(status, err);
}

/* ------------------------------------------------------------------------------ slots */

static rowlock_status add_slot(void *data, const rl_cell *cells, rowlock_error *err)
{
    const char **name = rl_list_add(data, err);
    if (!name)
        return ROWLOCK_SYSTEM;
    *name = rl_list_keep(data, &cells[0]);
    return ROWLOCK_OK;
}

rowlock_status rl_slots_there(rowlock_client *client, const char *name, bool all, rl_list **out,
                              rowlock_error *err)
{
    const rl_value values[] = {rl_text(name), rl_u64(all)};
    rl_list *slots = rl_list_new(client, sizeof *slots, sizeof(const char *), err);
    if (!slots)
        return ROWLOCK_SYSTEM;
    rowlock_status status = rl_list_read(slots, RL_SQL_SLOTS_THERE, values, add_slot, err);
    if (status == ROWLOCK_OK)
        *out = slots;
    else
        rl_list_free(slots);
    return status;
}

const char *rl_slot_at(const rl_list *slots, size_t i)
{
    return *(const char *const *)rl_list_at(slots, i);
}

/* ---------------------------------------------------------------------------- history */

/* The columns of event_list and event_list_of. */
static rowlock_status add_event(void *data, const rl_cell *cells, rowlock_error *err)
{
    rl_list *list = data;
    const rl_kind *kind = NULL;
    RL_TRY(rl_kind_find(cells[2].text, cells[1].text, &kind, err));
    rowlock_event *event = rl_list_add(list, err);
    if (!event)
        return ROWLOCK_SYSTEM;
    *event = (rowlock_event){.id = cells[0].u64,
                             .mode = kind->mode,
                             .token = cells[4].u64,
                             .waited_ms = cells[8].null ? -1 : cells[8].i64,
                             .held_ms = cells[9].null ? -1 : cells[9].i64,
                             .has_exit_status = !cells[10].null,
                             .exit_status = (int)cells[10].i64,
                             .name = rl_list_keep(list, &cells[1]),
                             .event = rl_list_keep(list, &cells[3]),
                             .owner = rl_list_keep(list, &cells[5]),
                             .owner_label = rl_list_keep(list, &cells[6]),
                             .happened_at = rl_list_keep(list, &cells[7]),
                             .detail = rl_list_keep(list, &cells[11])};
    return ROWLOCK_OK;
}

rowlock_status rl_catalog_history(rowlock_client *client, const rowlock_history_options *options,
                                  rowlock_history **out, rowlock_error *err)
{
    const char *begin = options->prefix ? options->prefix : "";
    const rl_value values[] = {rl_text(options->name ? options->name : begin),
                               rl_text(options->event ? options->event : ""),
                               rl_u64(options->failed), rl_u64((uint64_t)options->since_ms * 1000),
                               rl_u64(options->limit ? options->limit : HISTORY_DEFAULT)};
    rowlock_history *history = rl_list_new(client, sizeof *history, sizeof(rowlock_event), err);
    if (!history)
        return ROWLOCK_SYSTEM;
    rowlock_status status =
        rl_list_read(&history->all, options->name ? RL_SQL_EVENT_LIST_OF : RL_SQL_EVENT_LIST,
                     values, add_event, err);
    if (status == ROWLOCK_OK)
        *out = history;
    else
        rl_list_free(history);
    return status;
}
