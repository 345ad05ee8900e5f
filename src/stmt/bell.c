#include "stmt/bell.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* "rowlock." and "." around it. */
#define SCHEMA_FITS (RL_BELL_PREFIX_MAX - 9)

void rl_bell_prefix(const char *schema, char prefix[RL_BELL_PREFIX_MAX + 1])
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    size_t length = strlen(schema);
    if (length <= SCHEMA_FITS && strspn(schema, plain) == length)
        snprintf(prefix, RL_BELL_PREFIX_MAX + 1, "rowlock.%s.", schema);
    else
        snprintf(prefix, RL_BELL_PREFIX_MAX + 1, "rowlock.-%013" PRIx64 ".", rl_hash(schema) >> 12);
}

static void hexadecimal(const char *text, char *hex, size_t size)
{
    size_t at = 0;
    for (; *text && at + 3 <= size; text++, at += 2)
        snprintf(hex + at, size - at, "%02x", (unsigned char)*text);
    hex[at] = '\0';
}

/* The first cell of the answer, or 0 for NULL: nobody says NULL but a server that stopped it. */
static void keep_number(void *data, const char *const *cells)
{
    *(uint64_t *)data = cells[0] ? strtoull(cells[0], NULL, 10) : 0;
}

/* --------------------------------------------------------------------------- the bell */

rowlock_status rl_bell_wait(rl_conn *conn, const rl_waiter *waiter, uint64_t seconds,
                            const rl_io *io, bool *got, rowlock_error *err)
{
    char name[RL_BELL_NAME_MAX + 1];
    char label[ROWLOCK_LABEL_MAX * 2 + 1];
    snprintf(name, sizeof name, "%s%" PRIu64, waiter->prefix, waiter->resource_id);
    hexadecimal(waiter->label, label, sizeof label);
    const rl_value values[] = {rl_text(name),
                               rl_u64(seconds),
                               rl_u64(waiter->resource_id),
                               rl_u64(waiter->waited_ms),
                               rl_text(waiter->owner),
                               rl_text(label)};
    uint64_t answer = 0;
    rowlock_status status =
        rl_query_text(conn, RL_SQL_BELL_WAIT, values, io, keep_number, &answer, err);
    *got = answer == 1;
    return status;
}

rowlock_status rl_bell_ring(rl_conn *conn, const char *prefix, uint64_t resource_id,
                            const rl_io *io)
{
    const rl_value values[] = {rl_text(prefix), rl_u64(resource_id)};
    return rl_run(conn, RL_SQL_BELL_RING, values, io, NULL, NULL);
}

rowlock_status rl_bell_take(rl_conn *conn, const char *prefix, uint64_t resource_id,
                            const rl_io *io)
{
    const rl_value values[] = {rl_text(prefix), rl_u64(resource_id)};
    return rl_run(conn, RL_SQL_BELL_TAKE, values, io, NULL, NULL);
}

rowlock_status rl_bell_waive(rl_conn *conn, const rl_waiver *waiver, const rl_io *io,
                             rl_waived *waived, rowlock_error *err)
{
    static const char nothing[] = "rowlock.-";
    const rl_value values[] = {rl_text(conn->waiver[0] ? conn->waiver : nothing),
                               rl_text(waiver->prefix), rl_u64(waiver->resource_id),
                               rl_u64(waiver->version), rl_text(waiver->owner)};
    rl_rows rows;
    bool found = false;
    rowlock_status status = rl_query_one(conn, RL_SQL_LEASE_WAIVE, values, io, &found, &rows, err);
    if (status != ROWLOCK_OK)
        return status;
    *waived = (rl_waived){.mine = found};
    if (found) {
        waived->heir = rows.cells[0].u64 == 1 && rows.cells[4].u64 != 0;
        snprintf(conn->waiver, sizeof conn->waiver, "%s", rows.cells[1].text);
    }
    return ROWLOCK_OK;
}
