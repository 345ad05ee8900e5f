#include "db/exchange.h"
#include "stmt/prepared.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------ failures */

rowlock_status rl_stmt_failed(rl_conn *conn, rl_sql_id id, MYSQL_STMT *handle, rowlock_error *err)
{
    return rl_conn_failed(conn, rl_sql_table[id].name, mysql_stmt_errno(handle),
                          mysql_stmt_sqlstate(handle), mysql_stmt_error(handle), err);
}

static rowlock_status unknown(rl_conn *conn, rl_sql_id id, rowlock_error *err)
{
    conn->broken = true;
    return rl_fail(err, ROWLOCK_UNKNOWN, "%s: it was stopped (in %s)",
                   rowlock_status_text(ROWLOCK_UNKNOWN), rl_sql_table[id].name);
}

/* The status of an operation that ended with `result` (`ended`: why it was interrupted, or OK). */
rowlock_status rl_stmt_outcome(rl_conn *conn, rl_sql_id id, rowlock_status ended,
                               MYSQL_STMT *handle, int result, rowlock_error *err)
{
    if (ended != ROWLOCK_OK && conn->broken)
        return rl_fail(err, ROWLOCK_UNKNOWN, "%s: the server did not answer (in %s)",
                       rowlock_status_text(ROWLOCK_UNKNOWN), rl_sql_table[id].name);
    if (result == 0)
        return ROWLOCK_OK;
    unsigned number = mysql_stmt_errno(handle);
    bool stopped =
        rl_server_status_said(number, mysql_stmt_error(handle), conn->flavour) == ROWLOCK_CANCELLED;
    if (stopped && rl_call_may_have_changed(conn, id))
        return unknown(conn, id, err);
    if (ended == ROWLOCK_OK || !stopped)
        return rl_stmt_failed(conn, id, handle, err);
    /* We have stopped it: the message says why. */
    return rl_fail(err, ended, "%s (in %s)", rowlock_status_text(ended), rl_sql_table[id].name);
}

/* ------------------------------------------------------------------------ preparing */

static void free_prepared(rl_prepared *p)
{
    if (!p)
        return;
    if (p->handle)
        mysql_stmt_close(p->handle);
    rl_buffer_free(&p->rows);
    free(p->texts);
    free(p);
}

static void free_statements(rl_conn *conn)
{
    for (int i = 0; conn->session.statements && i < RL_SQL_COUNT; i++)
        free_prepared(conn->session.statements[i]);
    free(conn->session.statements);
    conn->session.statements = NULL;
}

static bool is_text(rl_type type)
{
    return type == RL_TYPE_TEXT || type == RL_TYPE_BYTES;
}

static enum enum_field_types field_of(rl_type type)
{
    return type == RL_TYPE_TEXT    ? MYSQL_TYPE_STRING
           : type == RL_TYPE_BYTES ? MYSQL_TYPE_BLOB
                                   : MYSQL_TYPE_LONGLONG;
}

static bool bind_columns(rl_prepared *p)
{
    const rl_shape *sql = &p->shape;
    size_t size = 1;
    for (unsigned i = 0; i < sql->column_count; i++)
        size += sql->columns[i].size + 1;
    p->texts = malloc(size);
    if (!p->texts)
        return false;
    char *at = p->texts;
    for (unsigned i = 0; i < sql->column_count; i++) {
        MYSQL_BIND *bind = &p->out[i];
        bind->is_null = &p->nulls[i];
        bind->length = &p->lengths[i];
        bind->error = &p->cut[i];
        if (is_text(sql->columns[i].type)) {
            bind->buffer_type = field_of(sql->columns[i].type);
            bind->buffer = at;
            bind->buffer_length = sql->columns[i].size;
            at += sql->columns[i].size + 1;
        } else {
            bind->buffer_type = MYSQL_TYPE_LONGLONG;
            bind->buffer = &p->numbers[i];
            bind->is_unsigned = sql->columns[i].type == RL_TYPE_U64;
        }
    }
    return true;
}

static rowlock_status prepare_new(rl_conn *conn, rl_sql_id id, const rl_io *io, rl_prepared *p,
                                  rowlock_error *err)
{
    p->shape = rl_shape_of(conn->session.via, id);
    const rl_shape *sql = &p->shape;
    const char *table = conn->session.table; /* [A-Za-z0-9_$] */
    char quoted[70];
    rl_buffer text = {0};
    snprintf(quoted, sizeof quoted, "`%s`", table ? table : "");
    rl_buffer_fill_in(&text, sql->text, "{table}", quoted);
    p->handle = mysql_stmt_init(conn->mysql);
    if (!p->handle || text.failed || !bind_columns(p)) {
        rl_buffer_free(&text);
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    }
    rowlock_status ended;
    int result = 0;
    RL_EXCHANGE(ended, conn, io,
                mysql_stmt_prepare_start(&result, p->handle, text.text, strlen(text.text)),
                mysql_stmt_prepare_cont(&result, p->handle, ready));
    rl_buffer_free(&text);
    RL_TRY(rl_stmt_outcome(conn, id, ended, p->handle, result, err));
    /* The columns of a procedure's rows are known only when it has run. */
    if (mysql_stmt_param_count(p->handle) != sql->use_count ||
        (!sql->call && mysql_stmt_field_count(p->handle) != sql->column_count))
        return rl_fail(err, ROWLOCK_SERVER, "the server reads the statement %s in another way",
                       rl_sql_table[id].name);
    return ROWLOCK_OK;
}

static void discard(rl_conn *conn, rl_prepared *p)
{
    rl_hush hush = rl_hush_begin(conn); /* closing may send a message */
    free_prepared(p);
    rl_hush_end(&hush);
}

/*
 * Galera: if another node's commit has undone the transaction, the next statement gets error 1213;
 * but a COM_STMT_PREPARE swallows that error. Statements after it run in a new transaction, and
 * COMMIT answers OK for only a part of the work (MariaDB 10.11; docs/servers.md).
 */
static rowlock_status check_may_prepare(const rl_conn *conn, rl_sql_id id, rowlock_error *err)
{
    if (!rl_in_transaction(conn->mysql))
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_SYSTEM, "%s was not prepared before its transaction began",
                   rl_sql_table[id].name);
}

static rowlock_status prepare(rl_conn *conn, rl_sql_id id, const rl_io *io, rl_prepared **out,
                              rowlock_error *err)
{
    RL_TRY(check_may_prepare(conn, id, err));
    rl_prepared *p = calloc(1, sizeof *p);
    if (!p)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    rowlock_status status = prepare_new(conn, id, io, p, err);
    if (status != ROWLOCK_OK) {
        discard(conn, p);
        /* Only a preparation was sent. */
        return rl_no_effect(status, err);
    }
    *out = p;
    return ROWLOCK_OK;
}

static rowlock_status get_prepared(rl_conn *conn, rl_sql_id id, const rl_io *io, rl_prepared **out,
                                   rowlock_error *err)
{
    RL_TRY(rl_conn_read_due(conn, io, err));
    if (!conn->session.statements) {
        conn->session.statements = calloc(RL_SQL_COUNT, sizeof *conn->session.statements);
        conn->session.free_statements = free_statements;
    }
    if (!conn->session.statements)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    rl_prepared *p = conn->session.statements[id];
    if (p && p->failed) {
        discard(conn, p);
        conn->session.statements[id] = p = NULL;
    }
    if (!p)
        RL_TRY(prepare(conn, id, io, &p, err));
    conn->session.statements[id] = p;
    *out = p;
    return ROWLOCK_OK;
}

rowlock_status rl_prepare(rl_conn *conn, rl_sql_id id, const rl_io *io, rowlock_error *err)
{
    rl_prepared *p = NULL;
    return get_prepared(conn, id, io, &p, err);
}

rowlock_status rl_prepare_all(rl_conn *conn, const rl_sql_id *ids, size_t count, const rl_io *io,
                              rowlock_error *err)
{
    for (size_t i = 0; i < count; i++)
        RL_TRY(rl_prepare(conn, ids[i], io, err));
    return ROWLOCK_OK;
}

/* -------------------------------------------------------------------------- running */

/* Binds the values, which are elsewhere each time. False: Connector/C refuses. */
static bool give_values(rl_prepared *p, const rl_value *values)
{
    const rl_shape *sql = &p->shape;
    for (unsigned i = 0; i < sql->use_count; i++) {
        const rl_value *value = &values[rl_shape_used(sql, i)];
        const bool text = is_text(value->type);
        const void *at = text ? (const void *)value->text : &value->number;
        p->in[i] = (MYSQL_BIND){.buffer_type = field_of(value->type),
                                .buffer = (void *)(uintptr_t)at,
                                .buffer_length = text ? value->length : 0,
                                .is_unsigned = value->type == RL_TYPE_U64};
    }
    return sql->use_count == 0 || mysql_stmt_bind_param(p->handle, p->in) == 0;
}

/*
 * MariaDB 10.11 (Galera) crashed when a statement that had ended with 1213 was executed again on
 * its old handle. So a handle is not used again after a failure, except BUSY: that is the usual
 * answer to a try.
 */
static void note_failure(rl_prepared *p, rowlock_status status)
{
    if (status != ROWLOCK_OK && status != ROWLOCK_BUSY)
        p->failed = true;
}

static rowlock_status execute(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                              rl_prepared **out, rowlock_error *err)
{
    rl_prepared *p = NULL;
    RL_TRY(get_prepared(conn, id, io, &p, err));
    if (!give_values(p, values))
        return rl_stmt_failed(conn, id, p->handle, err);
    rowlock_status ended;
    int result = 0;
    conn->session.calling = p->shape.call;
    RL_EXCHANGE(ended, conn, io, mysql_stmt_execute_start(&result, p->handle),
                mysql_stmt_execute_cont(&result, p->handle, ready));
    *out = p;
    rowlock_status status = rl_stmt_outcome(conn, id, ended, p->handle, result, err);
    note_failure(p, status);
    return status;
}

/* -------------------------------------------------------------------------- results */

static rowlock_status store(rl_conn *conn, rl_sql_id id, rl_prepared *p, const rl_io *io,
                            rowlock_error *err)
{
    rowlock_status ended;
    int result = 0;
    RL_EXCHANGE(ended, conn, io, mysql_stmt_store_result_start(&result, p->handle),
                mysql_stmt_store_result_cont(&result, p->handle, ready));
    return rl_stmt_outcome(conn, id, ended, p->handle, result, err);
}

/* False: a text was longer than its buffer. mysql_stmt_fetch() reports that only if the reporting
 * of truncation is on; the length is always that of the whole value. */
static bool read_cells(rl_cell *cells, rl_prepared *p)
{
    const rl_shape *sql = &p->shape;
    for (unsigned i = 0; i < sql->column_count; i++) {
        rl_cell *cell = &cells[i];
        *cell = (rl_cell){.null = p->nulls[i], .text = ""};
        if (cell->null)
            continue;
        if (!is_text(sql->columns[i].type)) {
            cell->u64 = p->numbers[i];
            cell->i64 = (int64_t)p->numbers[i];
            continue;
        }
        if (p->lengths[i] > p->out[i].buffer_length)
            return false;
        char *text = p->out[i].buffer;
        text[p->lengths[i]] = '\0';
        cell->text = text;
        cell->length = p->lengths[i];
    }
    return true;
}

static rowlock_status does_not_fit(rl_sql_id id, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_DAMAGED,
                   "a table is not as this program made it: a value of %s does not "
                   "fit; see `rowlock doctor`",
                   rl_sql_table[id].name);
}

/* Appends the cells of a row, then their texts. rl_stmt_next() sets the pointers: those here are
 * invalid once the buffer has moved. */
static void pack_row(rl_buffer *rows, const rl_cell *cells, unsigned count)
{
    rl_buffer_append(rows, (const char *)cells, count * sizeof *cells);
    for (unsigned i = 0; i < count; i++)
        rl_buffer_append(rows, cells[i].text, cells[i].length + 1);
}

bool rl_stmt_next(rl_prepared *p, rl_cell *cells)
{
    if (p->rows_at >= p->rows.length) {
        rl_buffer_free(&p->rows); /* it may be large */
        return false;
    }
    unsigned count = p->shape.column_count;
    memcpy(cells, p->rows.text + p->rows_at, count * sizeof *cells);
    p->rows_at += count * sizeof *cells;
    for (unsigned i = 0; i < count; i++) {
        cells[i].text = p->rows.text + p->rows_at;
        p->rows_at += cells[i].length + 1;
    }
    return true;
}

static rowlock_status pack_rows(rl_conn *conn, rl_sql_id id, rl_prepared *p, rowlock_error *err)
{
    rl_cell cells[RL_SQL_MAX_VALUES];
    int result;
    while ((result = mysql_stmt_fetch(p->handle)) == 0) {
        if (!read_cells(cells, p))
            return does_not_fit(id, err);
        pack_row(&p->rows, cells, p->shape.column_count);
    }
    if (result == MYSQL_DATA_TRUNCATED)
        return does_not_fit(id, err);
    if (result != MYSQL_NO_DATA)
        return rl_stmt_failed(conn, id, p->handle, err);
    return p->rows.failed ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory") : ROWLOCK_OK;
}

rowlock_status rl_stmt_read(rl_conn *conn, rl_sql_id id, rl_prepared *p, const rl_io *io,
                            rowlock_error *err)
{
    p->rows.length = p->rows_at = 0;
    p->rows.failed = false;
    if (mysql_stmt_field_count(p->handle) != p->shape.column_count) {
        conn->broken = true;
        return rl_fail(err, ROWLOCK_SERVER, "the server reads the statement %s in another way",
                       rl_sql_table[id].name);
    }
    if (mysql_stmt_bind_result(p->handle, p->out))
        return rl_stmt_failed(conn, id, p->handle, err);
    RL_TRY(store(conn, id, p, io, err));
    rowlock_status status = pack_rows(conn, id, p, err);
    mysql_stmt_free_result(p->handle);
    return status;
}

/* ------------------------------------------------------------------------- for callers */

rowlock_status rl_run(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                      rl_done *done, rowlock_error *err)
{
    rl_prepared *p = NULL;
    rowlock_status status = execute(conn, id, values, io, &p, err);
    bool call = status == ROWLOCK_OK && p->shape.call;
    if (call) {
        status = rl_call_done(conn, id, p, io, done, err);
        note_failure(p, status);
    }
    /* The statement was probably sent, and there was no memory for the reply. */
    if (status == ROWLOCK_SYSTEM && p)
        return rl_fail(err, ROWLOCK_UNKNOWN, "%s: out of memory (in %s)",
                       rowlock_status_text(ROWLOCK_UNKNOWN), rl_sql_table[id].name);
    if (status == ROWLOCK_OK && done && !call)
        *done = (rl_done){.rows = mysql_stmt_affected_rows(p->handle),
                          .insert_id = mysql_stmt_insert_id(p->handle)};
    return status;
}

rowlock_status rl_run_match(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                            rl_done *done, rowlock_error *err)
{
    RL_TRY(rl_run(conn, id, values, io, done, err));
    return done->rows > 0 ? ROWLOCK_OK : rl_run(conn, id, values, io, done, err);
}

rowlock_status rl_query(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                        rl_rows *rows, rowlock_error *err)
{
    rl_prepared *p = NULL;
    RL_TRY(execute(conn, id, values, io, &p, err));
    rowlock_status status =
        p->shape.call ? rl_call_read(conn, id, p, io, err) : rl_stmt_read(conn, id, p, io, err);
    note_failure(p, status);
    if (status == ROWLOCK_OK)
        rows->from = p;
    return status;
}

bool rl_next(rl_rows *rows)
{
    return rl_stmt_next(rows->from, rows->cells);
}

rowlock_status rl_query_one(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                            bool *found, rl_rows *rows, rowlock_error *err)
{
    RL_TRY(rl_query(conn, id, values, io, rows, err));
    *found = rl_next(rows);
    return ROWLOCK_OK;
}

rowlock_status rl_query_number(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                               uint64_t *number, rowlock_error *err)
{
    rl_rows rows;
    bool found = false;
    RL_TRY(rl_query_one(conn, id, values, io, &found, &rows, err));
    *number = found && !rows.cells[0].null ? rows.cells[0].u64 : 0;
    return ROWLOCK_OK;
}
