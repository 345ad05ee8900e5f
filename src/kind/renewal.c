/* The renewal of leases: all that a client holds in one statement, from its keeper's thread. */
#include "base/text.h"
#include "kind/lease.h"

#define TOUCH_AFTER_US 15000000 /* connections with bells that were idle for so long */

/* What another server granted is not to be renewed here, whatever the rows say (a copy has the
 * same ones). */
static size_t leave_out_moved(rl_renewal *renewals, size_t count, uint64_t identity)
{
    size_t here = 0;
    for (size_t i = 0; i < count; i++) {
        renewals[i].moved = renewals[i].identity != identity;
        here += !renewals[i].moved;
    }
    return here;
}

static bool renewals_json(rl_buffer *json, const rl_renewal *renewals, size_t count)
{
    const char *before = "[[";
    for (size_t i = 0; i < count; i++) {
        if (renewals[i].moved)
            continue;
        rl_buffer_puts(json, before);
        before = ",[";
        rl_json_u64(json, renewals[i].resource_id);
        rl_buffer_puts(json, ",");
        rl_json_u64(json, renewals[i].version);
        rl_buffer_puts(json, ",");
        rl_json_i64(json, renewals[i].ttl_us);
        rl_buffer_puts(json, ",");
        rl_json_string(json, renewals[i].owner);
        rl_buffer_puts(json, "]");
    }
    rl_buffer_puts(json, "]");
    return !json->failed;
}

static bool is_that(const rl_renewal *renewal, const rl_cell *cells)
{
    return renewal->resource_id == cells[0].u64 && renewal->version == cells[1].u64 &&
           !renewal->moved;
}

/* The rows come in the order of the list, so that each search is a step. With fewer than were asked
 * for, the statement was stopped (sql/lease.sql), and nothing is known. */
static rowlock_status which_are_held(rl_conn *conn, rl_renewal *renewals, size_t count,
                                     size_t asked, const rl_value *values, const rl_io *io,
                                     rowlock_error *err)
{
    rl_rows rows;
    rowlock_status status = rl_query(conn, RL_SQL_LEASE_RENEWED, values, io, &rows, err);
    if (status != ROWLOCK_OK)
        return status;
    size_t at = 0;
    for (; rl_next(&rows); asked -= asked > 0) {
        for (size_t step = 0; step < count && !is_that(&renewals[at], rows.cells); step++)
            at = (at + 1) % count;
        if (is_that(&renewals[at], rows.cells))
            renewals[at].held = rows.cells[2].u64 != 0;
    }
    if (asked > 0)
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "somebody stopped the statement that looks after the renewal");
    return ROWLOCK_OK;
}

/* Where it matched fewer rows than it was to, some lease is gone, or it was stopped half-way
 * without an error (JSON_TABLE on MariaDB, sql/lease.sql): which ones were renewed is not known
 * then. */
static rowlock_status renew_on(rl_conn *conn, rl_renewal *renewals, size_t count, const rl_io *io,
                               rowlock_error *err)
{
    size_t asked = leave_out_moved(renewals, count, conn->server.identity);
    if (asked == 0)
        return ROWLOCK_OK;
    rl_buffer json = {0};
    rl_done done = {0};
    rowlock_status status;
    if (renewals_json(&json, renewals, count)) {
        const rl_value value = rl_text_n(json.text, json.length);
        status = rl_run(conn, RL_SQL_LEASE_RENEW, &value, io, &done, err);
        if (status == ROWLOCK_OK)
            status = which_are_held(conn, renewals, count, asked, &value, io, err);
    } else {
        status = rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    }
    for (size_t i = 0; i < count; i++)
        renewals[i].renewed = renewals[i].held && done.rows >= asked;
    rl_buffer_free(&json);
    return status;
}

rowlock_status rl_lease_renew(rl_pool *pool, rl_renewal *renewals, size_t count, const rl_io *io,
                              rowlock_error *err)
{
    /* Not on one whose bell a release may want to ring meanwhile. */
    static const rl_request aside = {.pins = RL_PINS_NOT_LONG};
    rl_conn *conn = NULL;
    RL_TRY(rl_pool_take(pool, &aside, io, &conn, err));
    rowlock_status status = renew_on(conn, renewals, count, io, err);
    rl_pool_give(pool, conn);
    if (status == ROWLOCK_OK)
        rl_pool_touch_pinned(pool, rl_now_us() - TOUCH_AFTER_US, io);
    return status;
}
