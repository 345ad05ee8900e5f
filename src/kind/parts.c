#include "kind/parts.h"

#include <stdlib.h>

#include "base/text.h"
#include "kind/barrier.h"
#include "kind/latch.h"
#include "kind/lease.h"
#include "kind/row.h"
#include "kind/shared.h"

const rl_driver *rl_lease_driver_of(const rowlock_hold *hold)
{
    if (hold->member == RL_LATCH_MEMBER || hold->member == RL_LATCH_COUNTED)
        return &rl_member_driver;
    if (hold->member != RL_NO_MEMBER)
        return &rl_barrier_driver;
    return hold->shared ? &rl_shared_driver : &rl_lease_driver;
}

rowlock_status rl_parts_init(rowlock_hold *whole, size_t count, rowlock_error *err)
{
    whole->parts = calloc(1, sizeof *whole->parts + count * sizeof(rowlock_hold *));
    if (!whole->parts)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    whole->parts->count = count;
    return ROWLOCK_OK;
}

static bool moves(rowlock_hold *whole, rl_parts_state from, rl_parts_state to)
{
    int is = (int)from;
    return atomic_compare_exchange_strong(&whole->parts->state, &is, (int)to);
}

/* The first loss is the whole's. */
static void tell_whole(void *data, rowlock_hold *part, const char *reason)
{
    rowlock_hold *whole = data;
    (void)part;
    if (moves(whole, RL_PARTS_TAKING, RL_PARTS_SPOILED))
        return;
    if (moves(whole, RL_PARTS_HELD, RL_PARTS_TOLD) && whole->on_lost)
        whole->on_lost(whole->on_lost_data, whole, reason);
}

rowlock_status rl_part_new(rowlock_hold *whole, size_t i, const char *name,
                           const rowlock_acquire_options *options, rowlock_error *err)
{
    rowlock_acquire_options own = *options;
    own.share = NULL;
    own.slots = own.units = 0;
    own.shared = i < whole->count && whole->locks[i].shared;
    own.on_lost = tell_whole;
    own.on_lost_data = whole;
    RL_TRY(rl_hold_new(whole->client, &name, 1, &own, &whole->parts->list[i], err));
    whole->parts->list[i]->whole = whole;
    return ROWLOCK_OK;
}

rowlock_status rl_parts_held(rowlock_hold *whole, const rl_budget *budget, rowlock_error *err)
{
    whole->acquired_us = rl_now_us();
    whole->waited_us = whole->acquired_us - budget->start_us;
    /* Once it is held, a callback may release it at any moment. */
    if (!rl_hold_lost(whole) && moves(whole, RL_PARTS_TAKING, RL_PARTS_HELD))
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNAVAILABLE,
                   "one of the locks was lost before the last was acquired");
}

void rl_part_drop(rowlock_hold *whole, size_t i)
{
    rl_hold_free(whole->parts->list[i]);
    whole->parts->list[i] = NULL;
}

/* Out of the keeper's care already. */
static rowlock_status release_part(rowlock_hold *part, rl_tried tried,
                                   const rowlock_release_options *options, rowlock_error *err)
{
    if (part->mode == ROWLOCK_PESSIMISTIC)
        return rl_row_release(part, options, err);
    return rl_release(rl_lease_driver_of(part), part, tried, options, err);
}

void rl_parts_give_back(rowlock_hold *whole)
{
    static const rowlock_release_options options = {.note = ""};
    for (size_t i = 0; i < whole->parts->count; i++) {
        rowlock_hold *part = whole->parts->list[i];
        if (!part)
            continue;
        if (rl_part_held(part)) {
            rl_hold_end(part);
            part->at_least_us = 0;
            rl_hold_no_work(part);
            (void)!release_part(part, RL_NOT_TRIED, &options, NULL);
        }
        rl_part_drop(whole, i);
    }
}

/* ------------------------------------------------------------------ all in one statement */

/* Those that a statement may free together: each is held alone, and not cooling afterwards. */
static bool is_plain(const rowlock_hold *part)
{
    return part->mode == ROWLOCK_OPTIMISTIC && !part->shared && part->at_least_us == 0 &&
           !rl_hold_lost(part);
}

static bool are_plain(const rowlock_hold *whole)
{
    const rl_parts *parts = whole->parts;
    bool plain = parts->count > 1 && !rl_client_via(whole->client);
    for (size_t i = 0; i < parts->count; i++)
        plain = plain && is_plain(parts->list[i]);
    return plain;
}

static bool releases_json(rl_buffer *json, const rl_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++) {
        const rowlock_hold *part = parts->list[i];
        rl_buffer_puts(json, i ? ",[" : "[[");
        rl_json_u64(json, part->locks[0].id);
        rl_buffer_puts(json, ",");
        rl_json_u64(json, part->locks[0].version);
        rl_buffer_puts(json, ",");
        rl_json_string(json, part->owner);
        rl_buffer_puts(json, "]");
    }
    rl_buffer_puts(json, "]");
    return !json->failed;
}

/* On the connection that has the bell of the first, and of the others, too, if they were taken
 * together. */
static rl_conn *bell_connection(const rowlock_hold *whole, const rl_io *io)
{
    rowlock_client *client = whole->client;
    rl_conn *conn = rl_bell_connection(&client->bells, &whole->parts->list[0]->bell);
    if (!conn && rl_pool_take(&client->pool, NULL, io, &conn, NULL) != ROWLOCK_OK)
        return NULL;
    return conn;
}

static void note_rung(const rl_parts *parts, rl_conn *conn)
{
    for (size_t i = 0; i < parts->count; i++) {
        rl_bell *bell = &parts->list[i]->bell;
        if (bell->kept && bell->serial == conn->pooled.serial)
            rl_bell_rung(bell, conn);
    }
}

/* All were freed, and their bells are rung: *freed. */
static rl_tried free_together(const rowlock_hold *whole, const char *json, rl_conn *conn,
                              const rl_io *io, bool *freed)
{
    const rl_parts *parts = whole->parts;
    const rl_value values[] = {rl_text(whole->client->bells.prefix),
                               rl_u64(rl_hold_keeps_sessions(whole)), rl_text(json)};
    rl_done done = {0};
    if (conn->server.identity != parts->list[0]->held.identity)
        return RL_NOT_TRIED;
    if (rl_run(conn, RL_SQL_SET_RELEASE, values, io, &done, NULL) != ROWLOCK_OK)
        return RL_TRIED_UNANSWERED;
    *freed = done.rows == parts->count;
    if (*freed)
        note_rung(parts, conn);
    return RL_TRIED_TOGETHER;
}

static rl_tried release_together(const rowlock_hold *whole, bool *freed)
{
    const int64_t limit_ms = whole->client->limit_ms;
    rl_budget budget = rl_budget_start(limit_ms, limit_ms, NULL);
    rl_io io = rl_budget_quick_io(&budget);
    RL_CLEANUP(rl_buffer_free) rl_buffer json = {0};
    rl_conn *conn = releases_json(&json, whole->parts) ? bell_connection(whole, &io) : NULL;
    if (!conn)
        return RL_NOT_TRIED;
    rl_tried tried = free_together(whole, json.text, conn, &io, freed);
    rl_pool_give(&whole->client->pool, conn);
    return tried;
}

rowlock_status rl_parts_release(rowlock_hold *whole, const rowlock_release_options *options,
                                rowlock_error *err)
{
    rl_parts *parts = whole->parts;
    rowlock_status first = ROWLOCK_OK;
    for (size_t i = 0; i < parts->count; i++)
        rl_hold_end(parts->list[i]);
    bool freed = false;
    const rl_tried tried = are_plain(whole) ? release_together(whole, &freed) : RL_NOT_TRIED;
    for (size_t i = 0; i < parts->count; i++) {
        rowlock_hold *part = parts->list[i];
        rowlock_status status = ROWLOCK_OK;
        if (freed) {
            rl_bell_give_up(&whole->client->bells, &part->bell, part->locks[0].id);
            rl_hold_was_released(part, options);
        } else {
            status = release_part(part, tried, options, first == ROWLOCK_OK ? err : NULL);
        }
        if (first == ROWLOCK_OK)
            first = status;
        rl_part_drop(whole, i);
    }
    return first;
}
