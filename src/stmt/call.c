/*
 * stmt/call.c - working through procedures (conn->session.via): the CALL of a statement's procedure
 * in its place, with the same answers. A statement without columns is answered by one row,
 * done_columns, since the OK packet of a CALL tells nothing.
 */
#include <string.h>

#include "db/exchange.h"
#include "stmt/prepared.h"

#define ASK_LIMIT_US 20000 /* a stopped call's question what became of it */

static const rl_sql_column done_columns[] = {{"rows", RL_TYPE_I64, 0},
                                             {"insert_id", RL_TYPE_U64, 0}};

rl_shape rl_shape_of(bool via, rl_sql_id id)
{
    const rl_sql *sql = &rl_sql_table[id];
    const bool change = sql->column_count == 0;
    rl_shape shape = {.text = sql->text,
                      .use_count = sql->use_count,
                      .uses = sql->uses,
                      .column_count = sql->column_count,
                      .columns = sql->columns};
    if (!via || !sql->call)
        return shape;
    shape.text = sql->call;
    shape.call = true;
    shape.use_count = sql->param_count;
    shape.uses = NULL;
    if (change) {
        shape.column_count = sizeof done_columns / sizeof done_columns[0];
        shape.columns = done_columns;
    }
    return shape;
}

static void keep_id(void *data, const char *const *cells)
{
    *(bool *)data = !cells[0] || strcmp(cells[0], "0") != 0;
}

/*
 * A procedure that was stopped: before its change, or behind it? Its UPDATE sets LAST_INSERT_ID()
 * as soon as it has a row, and the procedure clears it before. Where it does neither, nobody knows.
 */
bool rl_call_may_have_changed(rl_conn *conn, rl_sql_id id)
{
    const rl_sql *sql = &rl_sql_table[id];
    bool changed = true;
    if (!conn->session.via || !sql->call || sql->column_count > 0)
        return false;
    if (!strstr(sql->text, "LAST_INSERT_ID("))
        return true;
    rl_io io = rl_io_until(rl_time_add(rl_now_us(), ASK_LIMIT_US));
    io.abrupt = true;
    return rl_query_text(conn, RL_SQL_SESSION_INSERT_ID, NULL, &io, keep_id, &changed, NULL) !=
               ROWLOCK_OK ||
           changed;
}

/* ------------------------------------------------------------- what a procedure answers */

/* The cells of a row, then their texts; kept apart, so that a pointer needs no place of its own. */
static void pack_row(rl_buffer *rows, const rl_cell *cells, unsigned count)
{
    rl_buffer_append(rows, (const char *)cells, count * sizeof *cells);
    for (unsigned i = 0; i < count; i++)
        rl_buffer_append(rows, cells[i].text, strlen(cells[i].text) + 1);
}

bool rl_call_next(rl_prepared *p, rl_cell *cells)
{
    if (p->rows_at >= p->rows.length)
        return false;
    unsigned count = p->shape.column_count;
    memcpy(cells, p->rows.text + p->rows_at, count * sizeof *cells);
    p->rows_at += count * sizeof *cells;
    for (unsigned i = 0; i < count; i++) {
        cells[i].text = p->rows.text + p->rows_at;
        p->rows_at += strlen(cells[i].text) + 1;
    }
    return true;
}

static rowlock_status pack_rows(rl_conn *conn, rl_sql_id id, rl_prepared *p, rowlock_error *err)
{
    rl_cell cells[RL_SQL_MAX_VALUES];
    int result;
    while ((result = mysql_stmt_fetch(p->handle)) == 0) {
        if (!rl_stmt_cells(cells, p))
            return rl_stmt_does_not_fit(id, err);
        pack_row(&p->rows, cells, p->shape.column_count);
    }
    if (result == MYSQL_DATA_TRUNCATED)
        return rl_stmt_does_not_fit(id, err);
    if (result != MYSQL_NO_DATA)
        return rl_stmt_failed(conn, id, p->handle, err);
    return p->rows.failed ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory") : ROWLOCK_OK;
}

/* The reply to the CALL itself. */
static rowlock_status end_call(rl_conn *conn, rl_sql_id id, rl_prepared *p, const rl_io *io,
                               rowlock_error *err)
{
    rowlock_status ended;
    int result = 0;
    RL_EXCHANGE(
        ended, conn, io,
        (mysql_stmt_free_result(p->handle), mysql_stmt_next_result_start(&result, p->handle)),
        mysql_stmt_next_result_cont(&result, p->handle, ready));
    RL_TRY(rl_stmt_outcome(conn, id, ended, p->handle, result, err));
    if (!conn->broken && mysql_stmt_more_results(p->handle)) {
        conn->broken = true;
        return rl_fail(err, ROWLOCK_SERVER, "the procedure of %s answers more than it should",
                       rl_sql_table[id].name);
    }
    return ROWLOCK_OK;
}

static rowlock_status read_rows(rl_conn *conn, rl_sql_id id, rl_prepared *p, const rl_io *io,
                                rowlock_error *err)
{
    p->rows.length = p->rows_at = 0;
    p->rows.failed = false;
    if (mysql_stmt_field_count(p->handle) != p->shape.column_count)
        return rl_fail(err, ROWLOCK_SCHEMA,
                       "the procedure of %s is not this program's; run `rowlock init --procedures`",
                       rl_sql_table[id].name);
    if (mysql_stmt_bind_result(p->handle, p->out))
        return rl_stmt_failed(conn, id, p->handle, err);
    RL_TRY(rl_stmt_store(conn, id, p, io, err));
    return pack_rows(conn, id, p, err);
}

rowlock_status rl_call_read(rl_conn *conn, rl_sql_id id, rl_prepared *p, const rl_io *io,
                            rowlock_error *err)
{
    rowlock_status status = read_rows(conn, id, p, io, err);
    if (status == ROWLOCK_OK)
        return end_call(conn, id, p, io, err);
    conn->broken = true;
    return status;
}

rowlock_status rl_call_done(rl_conn *conn, rl_sql_id id, rl_prepared *p, const rl_io *io,
                            rl_done *done, rowlock_error *err)
{
    rl_cell cells[RL_SQL_MAX_VALUES];
    RL_TRY(rl_call_read(conn, id, p, io, err));
    if (!rl_call_next(p, cells))
        return rl_fail(err, ROWLOCK_SERVER, "the procedure of %s answered nothing",
                       rl_sql_table[id].name);
    if (done)
        *done = (rl_done){.rows = cells[0].i64 < 0 ? 0 : cells[0].u64, .insert_id = cells[1].u64};
    return ROWLOCK_OK;
}
