/*
 * stmt/call.c - working through procedures (conn->session.via): runs the CALL of a statement's
 * procedure in its place, with the same results. For a statement without columns the procedure
 * returns one row, done_columns, since the OK packet of a CALL has neither its rows nor its insert
 * id.
 */
#include <string.h>

#include "db/exchange.h"
#include "stmt/prepared.h"

#define ASK_LIMIT_US 20000 /* for asking whether a stopped call has taken effect */

/* rows, insert_id */
static const rl_sql_column done_columns[] = {{RL_TYPE_I64, 0}, {RL_TYPE_U64, 0}};

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
 * Asks whether a stopped procedure has made its change: its UPDATE sets LAST_INSERT_ID() when it
 * matches a row, and the procedure clears that first. If the statement has no LAST_INSERT_ID(), it
 * may have.
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

/* ------------------------------------------------------------- what a procedure returns */

/* Reads the reply to the CALL itself, which follows the procedure's rows. */
static rowlock_status end_call(rl_conn *conn, rl_sql_id id, rl_prepared *p, const rl_io *io,
                               rowlock_error *err)
{
    rowlock_status ended;
    int result = 0;
    RL_EXCHANGE(ended, conn, io, mysql_stmt_next_result_start(&result, p->handle),
                mysql_stmt_next_result_cont(&result, p->handle, ready));
    RL_TRY(rl_stmt_outcome(conn, id, ended, p->handle, result, err));
    if (!conn->broken && mysql_stmt_more_results(p->handle)) {
        conn->broken = true;
        return rl_fail(err, ROWLOCK_SERVER, "the procedure of %s answers more than it should",
                       rl_sql_table[id].name);
    }
    return ROWLOCK_OK;
}

static rowlock_status read_answer(rl_conn *conn, rl_sql_id id, rl_prepared *p, const rl_io *io,
                                  rowlock_error *err)
{
    if (mysql_stmt_field_count(p->handle) != p->shape.column_count)
        return rl_fail(err, ROWLOCK_SCHEMA,
                       "the procedure of %s is not this program's; run `rowlock init --procedures`",
                       rl_sql_table[id].name);
    RL_TRY(rl_stmt_read(conn, id, p, io, err));
    return end_call(conn, id, p, io, err);
}

rowlock_status rl_call_read(rl_conn *conn, rl_sql_id id, rl_prepared *p, const rl_io *io,
                            rowlock_error *err)
{
    rowlock_status status = read_answer(conn, id, p, io, err);
    conn->broken = conn->broken || status != ROWLOCK_OK;
    return status;
}

rowlock_status rl_call_done(rl_conn *conn, rl_sql_id id, rl_prepared *p, const rl_io *io,
                            rl_done *done, rowlock_error *err)
{
    rl_cell cells[RL_SQL_MAX_VALUES];
    RL_TRY(rl_call_read(conn, id, p, io, err));
    if (!rl_stmt_next(p, cells))
        return rl_fail(err, ROWLOCK_SERVER, "the procedure of %s answered nothing",
                       rl_sql_table[id].name);
    if (done)
        *done = (rl_done){.rows = cells[0].i64 < 0 ? 0 : cells[0].u64, .insert_id = cells[1].u64};
    return ROWLOCK_OK;
}
