/* db/foreign.c - somebody else's text, whatever it answers (rl_conn_run_foreign()). */
#include "db/exchange.h"

#include <stdio.h>

/* Reads the rows of the present result, if it has any. */
static rowlock_status drain_rows(rl_conn *conn, const rl_io *io, bool *failed)
{
    MYSQL_RES *result = mysql_use_result(conn->mysql);
    MYSQL_ROW row = NULL;
    rowlock_status ended = ROWLOCK_OK;
    if (!result) {
        *failed = mysql_field_count(conn->mysql) > 0;
        return ROWLOCK_OK;
    }
    do {
        RL_EXCHANGE(ended, conn, io, mysql_fetch_row_start(&row, result),
                    mysql_fetch_row_cont(&row, result, ready));
    } while (row && ended == ROWLOCK_OK);
    *failed = mysql_errno(conn->mysql) != 0;
    rl_hush hush = rl_hush_begin(conn); /* what is left is read */
    mysql_free_result(result);
    rl_hush_end(&hush);
    return ended;
}

static rowlock_status next_result(rl_conn *conn, const rl_io *io, bool *more, bool *failed)
{
    rowlock_status ended;
    int result = 0;
    *more = mysql_more_results(conn->mysql);
    if (!*more)
        return ROWLOCK_OK;
    RL_EXCHANGE(ended, conn, io, mysql_next_result_start(&result, conn->mysql),
                mysql_next_result_cont(&result, conn->mysql, ready));
    *failed = result > 0;
    return ended;
}

/* What an error says of rowlock's own tables it does not say of others'. */
static rowlock_status foreign_failed(rl_conn *conn, const char *name, rowlock_error *err)
{
    const unsigned number = mysql_errno(conn->mysql);
    char text[512];
    snprintf(text, sizeof text, "%s", mysql_error(conn->mysql));
    rowlock_status status = rl_conn_command_failed(conn, name, err);
    if (status == ROWLOCK_UNKNOWN || status == ROWLOCK_SYSTEM || status == ROWLOCK_UNAVAILABLE ||
        status == ROWLOCK_READONLY)
        return status;
    if (status != ROWLOCK_DENIED)
        status = ROWLOCK_SERVER;
    rl_fail(err, status, "%s (error %u)", text, number);
    if (err)
        err->server_errno = number;
    return status;
}

rowlock_status rl_conn_run_foreign(rl_conn *conn, const char *name, const char *text, size_t length,
                                   const rl_io *io, rowlock_error *err)
{
    rowlock_status ended;
    int result = 0;
    RL_TRY(rl_conn_settle(conn, io, err));
    RL_EXCHANGE(ended, conn, io,
                mysql_real_query_start(&result, conn->mysql, text, (unsigned long)length),
                mysql_real_query_cont(&result, conn->mysql, ready));
    bool failed = result != 0;
    bool more = failed || mysql_field_count(conn->mysql) > 0 || mysql_more_results(conn->mysql);
    while (ended == ROWLOCK_OK && !failed && more) {
        ended = drain_rows(conn, io, &failed);
        if (ended == ROWLOCK_OK && !failed)
            ended = next_result(conn, io, &more, &failed);
    }
    if (ended != ROWLOCK_OK && (conn->broken || failed || more)) {
        (void)rl_conn_stopped(conn, ended, name, err);
        if (err && failed && !conn->broken)
            err->server_errno = mysql_errno(conn->mysql);
        conn->broken = true;
        return ended;
    }
    return failed ? foreign_failed(conn, name, err) : ROWLOCK_OK;
}
