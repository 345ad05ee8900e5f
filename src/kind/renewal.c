/* The renewal of leases: all that a client holds in one statement, from its keeper's thread. */
#include <stdio.h>

#include "base/text.h"
#include "kind/lease.h"

#define TOUCH_AFTER_US 15000000 /* connections with bells that were idle for so long */

/* What is renewed by the same statement. */
typedef struct batch {
    rl_renewal *renewals;
    size_t count;
    rl_kept kept;
    size_t wanted; /* leases of `kept` among them */
    int64_t begun_us;
    int64_t look_us; /* when it was asked which of them are held */
} batch;

static const struct {
    rl_sql_id renew;
    rl_sql_id renewed; /* which of them are still held? */
} statements[RL_KEPTS] = {
    [RL_KEPT_ALONE] = {RL_SQL_LEASE_RENEW, RL_SQL_LEASE_RENEWED},
    [RL_KEPT_SHARED] = {RL_SQL_SHARED_RENEW, RL_SQL_SHARED_RENEWED},
    [RL_KEPT_ITEM] = {RL_SQL_QUEUE_RENEW, RL_SQL_QUEUE_RENEWED},
};

static bool is_in(const batch *b, size_t i)
{
    return !b->renewals[i].moved && b->renewals[i].kept == b->kept;
}

static bool renewals_json(rl_buffer *json, const batch *b)
{
    const char *before = "[[";
    for (size_t i = 0; i < b->count; i++) {
        const rl_renewal *renewal = &b->renewals[i];
        if (!is_in(b, i))
            continue;
        rl_buffer_puts(json, before);
        before = ",[";
        rl_json_u64(json, renewal->resource_id);
        rl_buffer_puts(json, ",");
        rl_json_u64(json, renewal->version);
        rl_buffer_puts(json, ",");
        rl_json_i64(json, renewal->ttl_us);
        rl_buffer_puts(json, ",");
        rl_json_string(json, renewal->owner);
        rl_buffer_puts(json, "]");
    }
    rl_buffer_puts(json, "]");
    return !json->failed;
}

/* An item that a transaction has locked is not renewed, and says nothing of the others: its row
 * tells how long the lease runs, counted from after the look was sent. */
static void mark_item(const batch *b, rl_renewal *renewal, uint64_t left_us)
{
    const int64_t passed_us = b->look_us - b->begun_us;
    renewal->renewed =
        (int64_t)left_us + passed_us + rl_margin_us(renewal->ttl_us) / 4 >= renewal->ttl_us;
}

/* The rows come in the order of the list, so that each search is a step; `place` counts from 1.
 * `what`: the number of the ask; of an item: how long its lease runs. */
static void mark_held(const batch *b, uint64_t place, uint64_t what, uint64_t *at_place, size_t *at)
{
    if (place == 0)
        return;
    if (place <= *at_place)
        *at_place = *at = 0;
    for (; *at < b->count && *at_place < place; ++*at)
        *at_place += is_in(b, *at);
    if (*at_place != place)
        return;
    b->renewals[*at - 1].held = true;
    if (b->kept == RL_KEPT_ITEM)
        mark_item(b, &b->renewals[*at - 1], what);
    else
        b->renewals[*at - 1].ask_number = what;
}

/* With fewer rows than `wanted`, the statement was stopped (sql/lease.sql), and nothing is known.
 */
static rowlock_status which_are_held(rl_conn *conn, batch *b, const rl_value *values,
                                     const rl_io *io, rowlock_error *err)
{
    rl_rows rows;
    size_t answers = 0;
    uint64_t at_place = 0;
    size_t at = 0;
    b->look_us = rl_now_us();
    RL_TRY(rl_query(conn, statements[b->kept].renewed, values, io, &rows, err));
    for (; rl_next(&rows); answers++)
        if (rows.cells[1].u64 != 0)
            mark_held(b, rows.cells[0].u64, rows.cells[2].u64, &at_place, &at);
    if (answers < b->wanted)
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "somebody stopped the statement that looks after the renewal");
    return ROWLOCK_OK;
}

/* Where it matched fewer rows than it was to, some lease is gone, or it was stopped half-way
 * without an error (JSON_TABLE on MariaDB, sql/lease.sql): which ones were renewed is not known
 * then. */
static rowlock_status renew_batch(rl_conn *conn, batch *b, const rl_io *io, rowlock_error *err)
{
    rl_buffer json = {0};
    rl_done done = {0};
    rowlock_status status;
    b->begun_us = rl_now_us();
    if (renewals_json(&json, b)) {
        const rl_value value = rl_text_n(json.text, json.length);
        status = rl_run(conn, statements[b->kept].renew, &value, io, &done, err);
        if (status == ROWLOCK_OK)
            status = which_are_held(conn, b, &value, io, err);
    } else {
        status = rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    }
    for (size_t i = 0; i < b->count && b->kept != RL_KEPT_ITEM; i++)
        if (is_in(b, i))
            b->renewals[i].renewed = b->renewals[i].held && done.rows >= b->wanted;
    rl_buffer_free(&json);
    return status;
}

/* A lease that another server granted must not be renewed here, even if the rows are the same (as
 * in a copy). */
static rowlock_status renew_on(rl_conn *conn, rl_renewal *renewals, size_t count, const rl_io *io,
                               rowlock_error *err)
{
    for (size_t i = 0; i < count; i++)
        renewals[i].moved = renewals[i].identity != conn->server.identity;
    for (rl_kept kept = 0; kept < RL_KEPTS; kept++) {
        batch b = {.renewals = renewals, .count = count, .kept = kept};
        for (size_t i = 0; i < count; i++)
            b.wanted += is_in(&b, i);
        if (b.wanted > 0)
            RL_TRY(renew_batch(conn, &b, io, err));
    }
    return ROWLOCK_OK;
}

/* Not on one whose bell a release may want to ring meanwhile. */
static const rl_request aside = {.pins = RL_PINS_NOT_LONG};

rowlock_status rl_lease_renew(rl_pool *pool, rl_renewal *renewals, size_t count, const rl_io *io,
                              rowlock_error *err)
{
    rl_conn *conn = NULL;
    RL_TRY(rl_pool_take(pool, &aside, io, &conn, err));
    rowlock_status status = renew_on(conn, renewals, count, io, err);
    rl_pool_give(pool, conn);
    if (status == ROWLOCK_OK)
        rl_pool_touch_pinned(pool, rl_now_us() - TOUCH_AFTER_US, io);
    return status;
}

/* -------------------------------------------------------------------------------- asks */

static rowlock_status look_on(rl_conn *conn, rl_renewal *renewals, size_t count, const rl_io *io,
                              rowlock_error *err)
{
    batch b = {.renewals = renewals, .count = count};
    RL_CLEANUP(rl_buffer_free) rl_buffer json = {0};
    rl_rows rows;
    uint64_t at_place = 0;
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        renewals[i].moved = renewals[i].identity != conn->server.identity;
        b.wanted += is_in(&b, i);
    }
    if (b.wanted == 0)
        return ROWLOCK_OK;
    if (!renewals_json(&json, &b))
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    const rl_value value = rl_text_n(json.text, json.length);
    RL_TRY(rl_query(conn, RL_SQL_ROW_ASKED, &value, io, &rows, err));
    while (rl_next(&rows))
        mark_held(&b, rows.cells[0].u64, rows.cells[1].u64, &at_place, &at);
    return ROWLOCK_OK;
}

rowlock_status rl_asks_look_at(rl_pool *pool, rl_renewal *renewals, size_t count, const rl_io *io,
                               rowlock_error *err)
{
    rl_conn *conn = NULL;
    RL_TRY(rl_pool_take(pool, &aside, io, &conn, err));
    rowlock_status status = look_on(conn, renewals, count, io, err);
    rl_pool_give(pool, conn);
    return status;
}

static void keep_ask(const rl_cell *cells, rl_ask *ask)
{
    *ask = (rl_ask){.number = cells[0].u64, .stop_us = rl_time_add(rl_now_us(), cells[5].i64)};
    rl_copy_label(ask->by, sizeof ask->by, cells[1].text);
    rl_copy_label(ask->reason, sizeof ask->reason, cells[2].text);
    snprintf(ask->asked_at, sizeof ask->asked_at, "%s", cells[3].text);
    snprintf(ask->stop_by, sizeof ask->stop_by, "%s", cells[4].text);
}

rowlock_status rl_ask_read_one(rl_pool *pool, uint64_t id, uint64_t version, const rl_io *io,
                               rl_ask *ask, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(id), rl_u64(version)};
    rl_conn *conn = NULL;
    rl_rows rows;
    bool found = false;
    RL_TRY(rl_pool_take(pool, &aside, io, &conn, err));
    rowlock_status status = rl_query_one(conn, RL_SQL_ASK_READ, values, io, &found, &rows, err);
    if (status == ROWLOCK_OK && found)
        keep_ask(rows.cells, ask);
    rl_pool_give(pool, conn);
    if (status == ROWLOCK_OK && !found)
        return rl_fail(err, ROWLOCK_NOT_FOUND, "nothing is asked");
    return status;
}
