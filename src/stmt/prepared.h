/*
 * stmt/prepared.h - a prepared statement on a connection; for src/stmt alone.
 *
 * It is the statement itself, or the CALL of its procedure (stmt/call.c has the differences).
 */
#ifndef RL_STMT_PREPARED_H
#define RL_STMT_PREPARED_H

#include "stmt/stmt.h"

typedef struct rl_shape {
    const char *text;
    bool call;
    unsigned use_count;
    const unsigned char *uses; /* NULL: each parameter once, in order */
    unsigned column_count;
    const rl_sql_column *columns;
} rl_shape;

/* For a connection of ours (`via`: through procedures). */
rl_shape rl_shape_of(bool via, rl_sql_id id);

static inline unsigned rl_shape_used(const rl_shape *shape, unsigned i)
{
    return shape->uses ? shape->uses[i] : i;
}

typedef struct rl_prepared {
    MYSQL_STMT *handle;
    rl_shape shape;
    bool failed; /* prepare it again before the next execution */
    MYSQL_BIND in[RL_SQL_MAX_VALUES];
    MYSQL_BIND out[RL_SQL_MAX_VALUES];
    uint64_t numbers[RL_SQL_MAX_VALUES];
    unsigned long lengths[RL_SQL_MAX_VALUES];
    my_bool nulls[RL_SQL_MAX_VALUES];
    my_bool cut[RL_SQL_MAX_VALUES];
    char *texts; /* all text columns, one after the other */
    /* The result, row by row. It is read whole before a row is returned, since the reply to a CALL
     * follows the procedure's rows. */
    rl_buffer rows;
    size_t rows_at;
} rl_prepared;

/* The status for the server's error. */
rowlock_status rl_stmt_failed(rl_conn *conn, rl_sql_id id, MYSQL_STMT *handle, rowlock_error *err);

/* The status of an exchange that ended with `result` (`ended`: why it was interrupted, or OK). */
rowlock_status rl_stmt_outcome(rl_conn *conn, rl_sql_id id, rowlock_status ended,
                               MYSQL_STMT *handle, int result, rowlock_error *err) RL_MUST_USE;

/* Reads the whole result into p->rows. */
rowlock_status rl_stmt_read(rl_conn *conn, rl_sql_id id, rl_prepared *p, const rl_io *io,
                            rowlock_error *err) RL_MUST_USE;

/* The next of those rows; false: there is none. */
bool rl_stmt_next(rl_prepared *p, rl_cell *cells);

/* True if a CALL that was stopped may have made its change. */
bool rl_call_may_have_changed(rl_conn *conn, rl_sql_id id);

/* Reads all replies to an executed CALL. After a failure in the middle of a reply the connection is
 * broken. */
rowlock_status rl_call_read(rl_conn *conn, rl_sql_id id, rl_prepared *p, const rl_io *io,
                            rowlock_error *err) RL_MUST_USE;

/* The same for a change; *done: what it did. */
rowlock_status rl_call_done(rl_conn *conn, rl_sql_id id, rl_prepared *p, const rl_io *io,
                            rl_done *done, rowlock_error *err) RL_MUST_USE;

#endif
