/*
 * stmt/stmt.h - running the named statements of sql/.
 *
 * Values are given in the order of the statement's `-- params:`. A statement is prepared once for
 * each connection, with buffers that live as long as the connection, and again after an execution
 * that failed (except with BUSY). Preparing in a transaction is refused: prepare what will run in
 * it before it begins. On a connection that works through procedures (conn->session.via), the CALL
 * of the statement's procedure is run, if it has one, with the same results.
 */
#ifndef RL_STMT_H
#define RL_STMT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "db/pool.h"
#include "stmt/statements.h"

/* ------------------------------------------- the table made from sql/ (cmake/embed.awk) */

#define RL_SQL_MAX_VALUES 64 /* columns, or placeholders, of one statement */

/* Bytes have no character set. Only in statements that are sent as text: a name, which is quoted,
 * and a word of SQL, which is not. */
typedef enum rl_type {
    RL_TYPE_U64,
    RL_TYPE_I64,
    RL_TYPE_TEXT,
    RL_TYPE_BYTES,
    RL_TYPE_NAME,
    RL_TYPE_WORD
} rl_type;

typedef struct rl_sql_column {
    rl_type type;
    unsigned size; /* bytes, for text and bytes */
} rl_sql_column;

typedef struct rl_sql {
    const char *name;
    const char *text; /* one ? for each use of a parameter */
    const char *call; /* the CALL of its procedure, one ? for each parameter; NULL: none */
    bool as_text;     /* sent as text, with the values in it */
    unsigned param_count;
    unsigned use_count;
    const unsigned char *uses; /* which parameter each ? stands for */
    unsigned column_count;
    const rl_sql_column *columns;
} rl_sql;

extern const rl_sql rl_sql_table[RL_SQL_COUNT];

/* ----------------------------------------------------------------------------- running */

typedef struct rl_value {
    rl_type type;
    uint64_t number;
    const char *text;
    size_t length;
} rl_value;

rl_value rl_u64(uint64_t number);
rl_value rl_text(const char *text);
rl_value rl_text_n(const char *text, size_t length);
rl_value rl_bytes(const void *bytes, size_t length);
/* For text statements: a name, which is quoted ("": left out), and a word of SQL. */
rl_value rl_quoted(const char *name);
rl_value rl_word(const char *word);

typedef struct rl_cell {
    bool null;
    uint64_t u64;
    int64_t i64;
    const char *text; /* "" if null; a NUL follows it ... */
    size_t length;    /* ... after so many bytes */
} rl_cell;

typedef struct rl_done {
    uint64_t rows;      /* matched (CLIENT_FOUND_ROWS) */
    uint64_t insert_id; /* LAST_INSERT_ID(expr) of this statement */
} rl_done;

/* Runs a statement without a result. `done` may be NULL. UNKNOWN: the reply was lost. */
rowlock_status rl_run(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                      rl_done *done, rowlock_error *err) RL_MUST_USE;

/* rl_run() of a change that should match a row: one that matched none runs once more, since MariaDB
 * 11.8 may say so of one that somebody has stopped (docs/notes/keeper.md). */
rowlock_status rl_run_match(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                            rl_done *done, rowlock_error *err) RL_MUST_USE;

/*
 * Runs a statement and reads its whole result; DAMAGED: a value does not fit. Then call rl_next()
 * for each row: its cells are valid until the next call, or until the statement is run again on
 * this connection.
 */
typedef struct rl_rows {
    struct rl_prepared *from;
    rl_cell cells[RL_SQL_MAX_VALUES];
} rl_rows;

rowlock_status rl_query(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                        rl_rows *rows, rowlock_error *err) RL_MUST_USE;
bool rl_next(rl_rows *rows);

/* The same, and reads the first row, if there is one (*found). */
rowlock_status rl_query_one(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                            bool *found, rl_rows *rows, rowlock_error *err) RL_MUST_USE;

/* The first column of the first row, a U64; 0 if there is no row, or it is NULL. */
rowlock_status rl_query_number(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                               uint64_t *number, rowlock_error *err) RL_MUST_USE;

/* Prepares without running: for a transaction, or to check that the tables exist and the user has
 * the rights. */
rowlock_status rl_prepare(rl_conn *conn, rl_sql_id id, const rl_io *io,
                          rowlock_error *err) RL_MUST_USE;
rowlock_status rl_prepare_all(rl_conn *conn, const rl_sql_id *ids, size_t count, const rl_io *io,
                              rowlock_error *err) RL_MUST_USE;

/*
 * Appends a statement as text, with its values: numbers, identifiers that rowlock has made
 * (letters, digits, '-', '.'), and quoted names; {schema} becomes the quoted schema. `via`: the
 * CALL of its procedure, if it has one. False: another kind of value, or out of memory.
 */
bool rl_render(bool via, rl_sql_id id, const char *schema, const rl_value *values, rl_buffer *text);

/* Runs a text statement whose values are numbers, on a connection of rowlock's own: COMMIT, KILL,
 * SET ... */
rowlock_status rl_run_text(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                           rowlock_error *err) RL_MUST_USE;

/* Runs one statement that is composed of the statements `ids`; the first one has the values. */
rowlock_status rl_run_parts(rl_conn *conn, const rl_sql_id *ids, size_t count, const char *schema,
                            const rl_value *values, const rl_io *io,
                            rowlock_error *err) RL_MUST_USE;

/* Runs a text statement with a result, and calls `each` (may be NULL) for each row; a cell is NULL
 * for NULL. */
typedef void (*rl_text_row)(void *data, const char *const *cells);
rowlock_status rl_query_text(rl_conn *conn, rl_sql_id id, const rl_value *values, const rl_io *io,
                             rl_text_row each, void *data, rowlock_error *err) RL_MUST_USE;

#endif
