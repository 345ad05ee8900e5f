#include "stmt/stmt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * A statement as it is run on a connection: itself, or CALL of its procedure. A procedure of a
 * statement without columns answers one row, these; they are in no OK packet.
 */
static const rl_sql_column done_columns[] = {{"rows", RL_TYPE_I64, 0},
                                             {"insert_id", RL_TYPE_U64, 0}};

typedef struct shape {
    const char *text;
    bool call;
    unsigned use_count;
    const unsigned char *uses; /* NULL: each parameter once, in order */
    unsigned column_count;
    const rl_sql_column *columns;
} shape;

#define ASK_LIMIT_US 20000 /* a stopped call's question what became of it */

typedef struct prepared {
    MYSQL_STMT *handle;
    shape shape;
    bool bound;  /* all values are numbers, and Connector/C knows where they are */
    bool failed; /* not to be executed again */
    MYSQL_BIND in[RL_SQL_MAX_VALUES];
    uint64_t given[RL_SQL_MAX_VALUES];
    MYSQL_BIND out[RL_SQL_MAX_VALUES];
    uint64_t numbers[RL_SQL_MAX_VALUES];
    unsigned long lengths[RL_SQL_MAX_VALUES];
    my_bool nulls[RL_SQL_MAX_VALUES];
    my_bool cut[RL_SQL_MAX_VALUES];
    char *texts; /* all text columns, one after the other */
    /* What a procedure answered, row by row: read to its end before anything is handed out, since
     * the reply to the CALL itself comes behind it. */
    rl_buffer rows;
    size_t rows_at;
} prepared;

static shape shape_of(const rl_conn *conn, rl_sql_id id)
{
    const rl_sql *sql = &rl_sql_table[id];
    if (!conn->via || !sql->call)
        return (shape){.text = sql->text,
                       .use_count = sql->use_count,
                       .uses = sql->uses,
                       .column_count = sql->column_count,
                       .columns = sql->columns};
    bool change = sql->column_count == 0;
    return (shape){.text = sql->call,
                   .call = true,
                   .use_count = sql->param_count,
                   .column_count =
                       change ? sizeof done_columns / sizeof done_columns[0] : sql->column_count,
                   .columns = change ? done_columns : sql->columns};
}

static unsigned used(const shape *of, unsigned i)
{
    return of->uses ? of->uses[i] : i;
}

/* ------------------------------------------------------------------------- values */

rl_value rl_u64(uint64_t number)
{
    return (rl_value){.type = RL_TYPE_U64, .number = number};
}

rl_value rl_text(const char *text)
{
    return rl_text_n(text, strlen(text));
}

rl_value rl_quoted(const char *name)
{
    return (rl_value){.type = RL_TYPE_NAME, .text = name, .length = strlen(name)};
}

rl_value rl_word(const char *word)
{
    return (rl_value){.type = RL_TYPE_WORD, .text = word, .length = strlen(word)};
}

rl_value rl_text_n(const char *text, size_t length)
{
    return (rl_value){.type = RL_TYPE_TEXT, .text = text, .length = length};
}

/* ---------------------------------------------------------------------- operations */

typedef struct stmt_op {
    MYSQL_STMT *handle;
    int result;
} stmt_op;

static int resume_prepare(void *op, int ready)
{
    stmt_op *o = op;
    return mysql_stmt_prepare_cont(&o->result, o->handle, ready);
}

static int resume_execute(void *op, int ready)
{
    stmt_op *o = op;
    return mysql_stmt_execute_cont(&o->result, o->handle, ready);
}

static int resume_store(void *op, int ready)
{
    stmt_op *o = op;
    return mysql_stmt_store_result_cont(&o->result, o->handle, ready);
}

static rowlock_status failed(rl_conn *conn, rl_sql_id id, MYSQL_STMT *handle, rowlock_error *err)
{
    return rl_conn_failed(conn, rl_sql_table[id].name, mysql_stmt_errno(handle),
                          mysql_stmt_sqlstate(handle), mysql_stmt_error(handle), err);
}

static void keep_id(void *data, const char *const *cells)
{
    *(bool *)data = !cells[0] || strcmp(cells[0], "0") != 0;
}

/*
 * A procedure that was stopped: before its change, or behind it? Its UPDATE sets LAST_INSERT_ID()
 * as soon as it has a row, and the procedure clears it before. Where it does neither, nobody knows.
 */
static bool may_have_changed(rl_conn *conn, rl_sql_id id)
{
    const rl_sql *sql = &rl_sql_table[id];
    bool changed = true;
    if (!conn->via || !sql->call || sql->column_count > 0)
        return false;
    if (!strstr(sql->text, "LAST_INSERT_ID("))
        return true;
    rl_io io = rl_io_until(rl_time_add(rl_now_us(), ASK_LIMIT_US));
    io.abrupt = true;
    return rl_query_text(conn, RL_SQL_SESSION_INSERT_ID, NULL, &io, keep_id, &changed, NULL) !=
               ROWLOCK_OK ||
           changed;
}

static rowlock_status unknown(rl_conn *conn, rl_sql_id id, rowlock_error *err)
{
    conn->broken = true;
    return rl_fail(err, ROWLOCK_UNKNOWN, "%s: it was stopped (in %s)",
                   rowlock_status_text(ROWLOCK_UNKNOWN), rl_sql_table[id].name);
}

/* The operation ended (`ended`: why it was interrupted, or OK) with `result`. */
static rowlock_status outcome(rl_conn *conn, rl_sql_id id, rowlock_status ended, stmt_op *op,
                              rowlock_error *err)
{
    if (ended != ROWLOCK_OK && conn->broken)
        return rl_fail(err, ROWLOCK_UNKNOWN, "%s: the server did not answer (in %s)",
                       rowlock_status_text(ROWLOCK_UNKNOWN), rl_sql_table[id].name);
    if (op->result == 0)
        return ROWLOCK_OK;
    unsigned number = mysql_stmt_errno(op->handle);
    bool stopped = rl_server_status_said(number, mysql_stmt_error(op->handle), conn->flavour) ==
                   ROWLOCK_CANCELLED;
    if (stopped && may_have_changed(conn, id))
        return unknown(conn, id, err);
    if (ended == ROWLOCK_OK || !stopped)
        return failed(conn, id, op->handle, err);
    /* We had it stopped, and it was: say why we did. */
    return rl_fail(err, ended, "%s (in %s)", rowlock_status_text(ended), rl_sql_table[id].name);
}

/* ------------------------------------------------------------------------ preparing */

static void free_prepared(prepared *p)
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
    for (int i = 0; conn->statements && i < RL_SQL_COUNT; i++)
        free_prepared(conn->statements[i]);
    free(conn->statements);
    conn->statements = NULL;
}

static bool bind_columns(prepared *p)
{
    const shape *sql = &p->shape;
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
        if (sql->columns[i].type == RL_TYPE_TEXT) {
            bind->buffer_type = MYSQL_TYPE_STRING;
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

/* The text with the connection's table, [A-Za-z0-9_$], where {table} stands. */
static void put_table(const char *text, const char *table, rl_buffer *out)
{
    static const char place[] = "{table}";
    for (const char *at; (at = strstr(text, place)); text = at + sizeof place - 1) {
        rl_buffer_append(out, text, (size_t)(at - text));
        rl_buffer_puts(out, "`");
        rl_buffer_puts(out, table ? table : "");
        rl_buffer_puts(out, "`");
    }
    rl_buffer_puts(out, text);
}

static rowlock_status prepare_text(rl_conn *conn, const char *text, const rl_io *io, stmt_op *op)
{
    rl_hush hush = rl_hush_begin(conn);
    int pending = mysql_stmt_prepare_start(&op->result, op->handle, text, strlen(text));
    rl_hush_end(&hush);
    return rl_conn_drive(conn, io, resume_prepare, op, pending);
}

static rowlock_status prepare_new(rl_conn *conn, rl_sql_id id, const rl_io *io, prepared *p,
                                  rowlock_error *err)
{
    p->shape = shape_of(conn, id);
    const shape *sql = &p->shape;
    rl_buffer text = {0};
    p->handle = mysql_stmt_init(conn->mysql);
    put_table(sql->text, conn->table, &text);
    if (!p->handle || text.failed || !bind_columns(p)) {
        rl_buffer_free(&text);
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    }
    stmt_op op = {.handle = p->handle};
    rowlock_status ended = prepare_text(conn, text.text, io, &op);
    rl_buffer_free(&text);
    rowlock_status status = outcome(conn, id, ended, &op, err);
    if (status != ROWLOCK_OK)
        return status;
    /* What a procedure answers is known only when it has run. */
    if (mysql_stmt_param_count(p->handle) != sql->use_count ||
        (!sql->call && mysql_stmt_field_count(p->handle) != sql->column_count))
        return rl_fail(err, ROWLOCK_SERVER, "the server reads the statement %s in another way",
                       rl_sql_table[id].name);
    if (!sql->call && sql->column_count && mysql_stmt_bind_result(p->handle, p->out))
        return failed(conn, id, p->handle, err);
    return ROWLOCK_OK;
}

static void discard(rl_conn *conn, prepared *p)
{
    rl_hush hush = rl_hush_begin(conn); /* it may tell the server */
    free_prepared(p);
    rl_hush_end(&hush);
}

/*
 * Galera: where another node's commit has undone a transaction, the next statement is told (1213);
 * but a COM_STMT_PREPARE takes that answer and tells nobody. What comes behind it runs in a new
 * transaction, and COMMIT says OK to a part (MariaDB 10.11; docs/servers.md).
 */
static rowlock_status check_may_prepare(const rl_conn *conn, rl_sql_id id, rowlock_error *err)
{
    if (!rl_in_transaction(conn->mysql))
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_SYSTEM, "%s was not prepared before its transaction began",
                   rl_sql_table[id].name);
}

static rowlock_status prepare(rl_conn *conn, rl_sql_id id, const rl_io *io, prepared **out,
                              rowlock_error *err)
{
    rowlock_status status = check_may_prepare(conn, id, err);
    if (status != ROWLOCK_OK)
        return status;
    prepared *p = calloc(1, sizeof *p);
    if (!p)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    status = prepare_new(conn, id, io, p, err);
    if (status != ROWLOCK_OK) {
        discard(conn, p);
        /* Nothing but a preparation was sent. */
        return rl_no_effect(status, err);
    }
    *out = p;
    return ROWLOCK_OK;
}

static rowlock_status get_prepared(rl_conn *conn, rl_sql_id id, const rl_io *io, prepared **out,
                                   rowlock_error *err)
{
    rowlock_status status = rl_conn_settle(conn, io, err);
    if (status != ROWLOCK_OK)
        return status;
    if (!conn->statements) {
        conn->statements = calloc(RL_SQL_COUNT, sizeof *conn->statements);
        conn->free_statements = free_statements;
    }
    if (!conn->statements)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    prepared *p = conn->statements[id];
    if (p && p->failed) {
        discard(conn, p);
        conn->statements[id] = p = NULL;
    }
    if (!p)
        status = prepare(conn, id, io, &p, err);
    if (status != ROWLOCK_OK)
        return status;
    conn->statements[id] = p;
    *out = p;
    return ROWLOCK_OK;
}

rowlock_status rl_prepare(rl_conn *conn, rl_sql_id id, const rl_io *io, rowlock_error *err)
{
    prepared *p = NULL;
    return get_prepared(conn, id, io, &p, err);
}

rowlock_status rl_prepare_all(rl_conn *conn, const rl_sql_id *ids, size_t count, const rl_io *io,
                              rowlock_error *err)
{
    rowlock_status status = ROWLOCK_OK;
    for (size_t i = 0; status == ROWLOCK_OK && i < count; i++)
        status = rl_prepare(conn, ids[i], io, err);
    return status;
}

/* -------------------------------------------------------------------------- running */

static void bind_value(MYSQL_BIND *bind, const rl_value *value, uint64_t *given)
{
    *bind = (MYSQL_BIND){0};
    if (value->type == RL_TYPE_TEXT) {
        bind->buffer_type = MYSQL_TYPE_STRING;
        bind->buffer = (void *)(uintptr_t)value->text;
        bind->buffer_length = value->length;
    } else {
        bind->buffer_type = MYSQL_TYPE_LONGLONG;
        bind->buffer = given;
        bind->is_unsigned = value->type == RL_TYPE_U64;
    }
}

/* Numbers have their place for as long as the statement; texts are bound where they are, each
 * time. False: Connector/C refuses. */
static bool give_values(prepared *p, const rl_value *values)
{
    const shape *sql = &p->shape;
    bool texts = false;
    for (unsigned i = 0; i < sql->use_count; i++) {
        const rl_value *value = &values[used(sql, i)];
        p->given[i] = value->number;
        texts = texts || value->type == RL_TYPE_TEXT;
    }
    if (p->bound || sql->use_count == 0)
        return true;
    for (unsigned i = 0; i < sql->use_count; i++)
        bind_value(&p->in[i], &values[used(sql, i)], &p->given[i]);
    p->bound = !texts;
    return mysql_stmt_bind_param(p->handle, p->in) == 0;
}

/*
 * MariaDB 10.11 (Galera) crashed when a statement that had ended with 1213 was executed again on
 * its old handle. A row that somebody else has locked says nothing against the handle, and is the
 * everyday answer to a try; but a proxy that answered by itself has kept the types of the values
 * from the server.
 */
static void note_failure(prepared *p, rowlock_status status)
{
    if (status != ROWLOCK_OK)
        p->bound = false;
    if (status != ROWLOCK_OK && status != ROWLOCK_BUSY)
        p->failed = true;
}

static rowlock_status execute(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                              prepared **out, rowlock_error *err)
{
    prepared *p = NULL;
    rowlock_status status = get_prepared(conn, id, io, &p, err);
    if (status != ROWLOCK_OK)
        return status;
    if (!give_values(p, values))
        return failed(conn, id, p->handle, err);
    stmt_op op = {.handle = p->handle};
    conn->calling = p->shape.call;
    rl_hush hush = rl_hush_begin(conn);
    int pending = mysql_stmt_execute_start(&op.result, p->handle);
    rl_hush_end(&hush);
    rowlock_status ended = rl_conn_drive(conn, io, resume_execute, &op, pending);
    *out = p;
    status = outcome(conn, id, ended, &op, err);
    note_failure(p, status);
    return status;
}

static rowlock_status store(rl_conn *conn, rl_sql_id id, prepared *p, const rl_io *io,
                            rowlock_error *err)
{
    stmt_op op = {.handle = p->handle};
    rl_hush hush = rl_hush_begin(conn);
    int pending = mysql_stmt_store_result_start(&op.result, p->handle);
    rl_hush_end(&hush);
    rowlock_status ended = rl_conn_drive(conn, io, resume_store, &op, pending);
    return outcome(conn, id, ended, &op, err);
}

/* False when a text was longer than its buffer: mysql_stmt_fetch() says so only where the reporting
 * of truncation is on, and the length is that of the whole value. */
static bool read_cells(rl_cell *cells, prepared *p)
{
    const shape *sql = &p->shape;
    for (unsigned i = 0; i < sql->column_count; i++) {
        rl_cell *cell = &cells[i];
        *cell = (rl_cell){.null = p->nulls[i], .text = ""};
        if (cell->null)
            continue;
        if (sql->columns[i].type != RL_TYPE_TEXT) {
            cell->u64 = p->numbers[i];
            cell->i64 = (int64_t)p->numbers[i];
            continue;
        }
        if (p->lengths[i] > p->out[i].buffer_length)
            return false;
        char *text = p->out[i].buffer;
        text[p->lengths[i]] = '\0';
        cell->text = text;
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

/* ------------------------------------------------------------- what a procedure answers */

/* The cells of a row, then their texts; kept apart, so that a pointer needs no place of its own. */
static void pack_row(rl_buffer *rows, const rl_cell *cells, unsigned count)
{
    rl_buffer_append(rows, (const char *)cells, count * sizeof *cells);
    for (unsigned i = 0; i < count; i++)
        rl_buffer_append(rows, cells[i].text, strlen(cells[i].text) + 1);
}

static void unpack_row(prepared *p, rl_cell *cells)
{
    unsigned count = p->shape.column_count;
    memcpy(cells, p->rows.text + p->rows_at, count * sizeof *cells);
    p->rows_at += count * sizeof *cells;
    for (unsigned i = 0; i < count; i++) {
        cells[i].text = p->rows.text + p->rows_at;
        p->rows_at += strlen(cells[i].text) + 1;
    }
}

static rowlock_status pack_rows(rl_conn *conn, rl_sql_id id, prepared *p, rowlock_error *err)
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
        return failed(conn, id, p->handle, err);
    return p->rows.failed ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory") : ROWLOCK_OK;
}

static int resume_next(void *op, int ready)
{
    stmt_op *o = op;
    return mysql_stmt_next_result_cont(&o->result, o->handle, ready);
}

/* The reply to the CALL itself. */
static rowlock_status end_call(rl_conn *conn, rl_sql_id id, prepared *p, const rl_io *io,
                               rowlock_error *err)
{
    stmt_op op = {.handle = p->handle};
    rl_hush hush = rl_hush_begin(conn);
    mysql_stmt_free_result(p->handle);
    int pending = mysql_stmt_next_result_start(&op.result, p->handle);
    rl_hush_end(&hush);
    rowlock_status ended = rl_conn_drive(conn, io, resume_next, &op, pending);
    rowlock_status status = outcome(conn, id, ended, &op, err);
    if (status == ROWLOCK_OK && !conn->broken && mysql_stmt_more_results(p->handle)) {
        conn->broken = true;
        return rl_fail(err, ROWLOCK_SERVER, "the procedure of %s answers more than it should",
                       rl_sql_table[id].name);
    }
    return status;
}

/* After execute(): reads it all. What is in the middle of a reply is of no more use. */
static rowlock_status read_call(rl_conn *conn, rl_sql_id id, prepared *p, const rl_io *io,
                                rowlock_error *err)
{
    p->rows.length = p->rows_at = 0;
    p->rows.failed = false;
    if (mysql_stmt_field_count(p->handle) != p->shape.column_count) {
        conn->broken = true;
        return rl_fail(err, ROWLOCK_SCHEMA,
                       "the procedure of %s is not this program's; run `rowlock init --procedures`",
                       rl_sql_table[id].name);
    }
    rowlock_status status = ROWLOCK_OK;
    if (mysql_stmt_bind_result(p->handle, p->out))
        status = failed(conn, id, p->handle, err);
    if (status == ROWLOCK_OK)
        status = store(conn, id, p, io, err);
    if (status == ROWLOCK_OK)
        status = pack_rows(conn, id, p, err);
    if (status == ROWLOCK_OK)
        return end_call(conn, id, p, io, err);
    conn->broken = true;
    return status;
}

/* Of a change. */
static rowlock_status read_done(rl_conn *conn, rl_sql_id id, prepared *p, const rl_io *io,
                                rl_done *done, rowlock_error *err)
{
    rl_cell cells[RL_SQL_MAX_VALUES];
    rowlock_status status = read_call(conn, id, p, io, err);
    if (status != ROWLOCK_OK)
        return status;
    if (p->rows.length == 0)
        return rl_fail(err, ROWLOCK_SERVER, "the procedure of %s answered nothing",
                       rl_sql_table[id].name);
    unpack_row(p, cells);
    if (done)
        *done = (rl_done){.rows = cells[0].i64 < 0 ? 0 : cells[0].u64, .insert_id = cells[1].u64};
    return ROWLOCK_OK;
}

/* -------------------------------------------------------------------------- running */

rowlock_status rl_run(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                      rl_done *done, rowlock_error *err)
{
    prepared *p = NULL;
    rowlock_status status = execute(conn, id, values, io, &p, err);
    bool call = status == ROWLOCK_OK && p->shape.call;
    if (call) {
        status = read_done(conn, id, p, io, done, err);
        note_failure(p, status);
    }
    /* It was sent, as like as not, and there was no memory for the reply. */
    if (status == ROWLOCK_SYSTEM && p)
        return rl_fail(err, ROWLOCK_UNKNOWN, "%s: out of memory (in %s)",
                       rowlock_status_text(ROWLOCK_UNKNOWN), rl_sql_table[id].name);
    if (status == ROWLOCK_OK && done && !call)
        *done = (rl_done){.rows = mysql_stmt_affected_rows(p->handle),
                          .insert_id = mysql_stmt_insert_id(p->handle)};
    return status;
}

rowlock_status rl_query(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                        rl_rows *rows, rowlock_error *err)
{
    prepared *p = NULL;
    rowlock_status status = execute(conn, id, values, io, &p, err);
    if (status != ROWLOCK_OK)
        return status;
    status = p->shape.call ? read_call(conn, id, p, io, err) : store(conn, id, p, io, err);
    note_failure(p, status);
    if (status == ROWLOCK_OK)
        *rows = (rl_rows){.conn = conn, .id = id, .err = err};
    return status;
}

bool rl_next(rl_rows *rows)
{
    if (!rows->conn || rows->status != ROWLOCK_OK)
        return false;
    prepared *p = rows->conn->statements[rows->id];
    if (p->shape.call && p->rows_at < p->rows.length) {
        unpack_row(p, rows->cells);
        return true;
    }
    int result = p->shape.call ? MYSQL_NO_DATA : mysql_stmt_fetch(p->handle);
    if (result == 0 && read_cells(rows->cells, p))
        return true;
    if (result == 0 || result == MYSQL_DATA_TRUNCATED)
        rows->status = does_not_fit(rows->id, rows->err);
    else if (result != MYSQL_NO_DATA)
        rows->status = failed(rows->conn, rows->id, p->handle, rows->err);
    rl_end(rows);
    return false;
}

void rl_end(rl_rows *rows)
{
    if (!rows->conn)
        return;
    prepared *p = rows->conn->statements[rows->id];
    if (!p->shape.call)
        mysql_stmt_free_result(p->handle);
    rows->conn = NULL;
}

rowlock_status rl_query_one(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                            bool *found, rl_rows *rows, rowlock_error *err)
{
    rowlock_status status = rl_query(conn, id, values, io, rows, err);
    if (status != ROWLOCK_OK)
        return status;
    bool any = rl_next(rows);
    rl_end(rows);
    if (rows->status == ROWLOCK_OK)
        *found = any;
    return rows->status;
}

rowlock_status rl_query_number(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                               uint64_t *number, rowlock_error *err)
{
    rl_rows rows;
    bool found = false;
    rowlock_status status = rl_query_one(conn, id, values, io, &found, &rows, err);
    if (status == ROWLOCK_OK)
        *number = found && !rows.cells[0].null ? rows.cells[0].u64 : 0;
    return status;
}

/* --------------------------------------------------------------------------- as text */

static bool harmless(const char *text, size_t length)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";
    return strspn(text, allowed) == length;
}

/* A quote in a name is doubled; the server refuses what else may not be in one. */
static void render_name(const rl_value *name, rl_buffer *text)
{
    if (name->length == 0)
        return;
    rl_buffer_puts(text, "`");
    for (size_t i = 0; i < name->length; i++) {
        if (name->text[i] == '`')
            rl_buffer_puts(text, "`");
        rl_buffer_append(text, &name->text[i], 1);
    }
    rl_buffer_puts(text, "`");
}

static bool render_value(const rl_value *value, rl_buffer *text)
{
    if (value->type == RL_TYPE_TEXT) {
        if (!harmless(value->text, value->length))
            return false;
        rl_buffer_puts(text, "'");
        rl_buffer_append(text, value->text, value->length);
        rl_buffer_puts(text, "'");
        return true;
    }
    if (value->type == RL_TYPE_NAME) {
        render_name(value, text);
        return true;
    }
    if (value->type == RL_TYPE_WORD) {
        rl_buffer_append(text, value->text, value->length);
        return harmless(value->text, value->length);
    }
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, value->number);
    rl_buffer_puts(text, digits);
    return true;
}

/* `schema` is [A-Za-z0-9_$]: nothing to escape. */
static void render_schema(const char *schema, rl_buffer *text)
{
    rl_buffer_puts(text, "`");
    rl_buffer_puts(text, schema);
    rl_buffer_puts(text, "`");
}

static bool render(const shape *sql, const char *schema, const rl_value *values, rl_buffer *text)
{
    static const char placeholder[] = "{schema}";
    unsigned use = 0;
    for (const char *at = sql->text; *at;) {
        if (strncmp(at, placeholder, sizeof placeholder - 1) == 0) {
            render_schema(schema, text);
            at += sizeof placeholder - 1;
        } else if (*at == '?') {
            if (!render_value(&values[used(sql, use++)], text))
                return false;
            at++;
        } else {
            rl_buffer_append(text, at++, 1);
        }
    }
    return !text->failed;
}

bool rl_render(rl_sql_id id, const char *schema, const rl_value *values, rl_buffer *text)
{
    const rl_sql *sql = &rl_sql_table[id];
    const shape direct = {.text = sql->text, .uses = sql->uses};
    return render(&direct, schema, values, text);
}

bool rl_render_call(rl_sql_id id, const char *schema, const rl_value *values, rl_buffer *text)
{
    const shape call = {.text = rl_sql_table[id].call};
    return render(&call, schema, values, text);
}

rowlock_status rl_run_text(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                           rowlock_error *err)
{
    const rl_sql *sql = &rl_sql_table[id];
    const shape as = shape_of(conn, id);
    if (sql->use_count == 0)
        return rl_conn_command(conn, sql->name, sql->text, io, err);
    rl_buffer text = {0};
    rowlock_status status;
    if (render(&as, "", values, &text))
        status = rl_conn_command(conn, sql->name, text.text, io, err);
    else
        status = rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    rl_buffer_free(&text);
    return status;
}

rowlock_status rl_run_parts(rl_conn *conn, const rl_sql_id *ids, size_t count, const char *schema,
                            const rl_value *values, const rl_io *io, rowlock_error *err)
{
    rl_buffer text = {0};
    bool whole = true;
    for (size_t i = 0; i < count && whole; i++) {
        whole = rl_render(ids[i], schema, values, &text);
        rl_buffer_puts(&text, "\n");
    }
    rowlock_status status = ROWLOCK_SYSTEM;
    if (whole && !text.failed)
        status = rl_conn_command(conn, rl_sql_table[ids[0]].name, text.text, io, err);
    else
        rl_fail(err, status, "out of memory");
    rl_buffer_free(&text);
    return status;
}

/* ---------------------------------------------------------------- the answer to a text */

typedef struct answer_op {
    MYSQL *mysql;
    MYSQL_RES *result;
} answer_op;

static int resume_answer(void *op, int ready)
{
    answer_op *o = op;
    return mysql_store_result_cont(&o->result, o->mysql, ready);
}

rowlock_status rl_query_text(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                             rl_text_row each, void *data, rowlock_error *err)
{
    rowlock_status status = rl_run_text(conn, id, values, io, err);
    if (status != ROWLOCK_OK)
        return status;
    answer_op op = {.mysql = conn->mysql};
    rl_hush hush = rl_hush_begin(conn);
    int pending = mysql_store_result_start(&op.result, conn->mysql);
    rl_hush_end(&hush);
    rowlock_status ended = rl_conn_drive(conn, io, resume_answer, &op, pending);
    if (!op.result && ended == ROWLOCK_OK)
        return rl_conn_failed(conn, rl_sql_table[id].name, mysql_errno(conn->mysql),
                              mysql_sqlstate(conn->mysql), mysql_error(conn->mysql), err);
    for (MYSQL_ROW row; op.result && (row = mysql_fetch_row(op.result));)
        each(data, (const char *const *)row);
    mysql_free_result(op.result);
    return ended == ROWLOCK_OK ? ROWLOCK_OK : rl_fail(err, ended, "%s", rowlock_status_text(ended));
}
