#include "stmt/caller.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* How long stopping a caller's statement may take, and then its reply. A connection of ours could
 * be dropped earlier; the caller's cannot, and a late KILL QUERY would hit its next statement. */
#define STOP_LIMIT_US 1000000

static rl_flavour flavour_of(MYSQL *mysql)
{
    return mariadb_connection(mysql) ? RL_MARIADB : RL_MYSQL;
}

/* Reads the connection's account, user@host. False: the server does not tell. */
static bool ask_account(MYSQL *mysql, char *account, size_t size)
{
    const char *sql = rl_sql_table[RL_SQL_SESSION_ACCOUNT].text;
    MYSQL_RES *result = NULL;
    if (mysql_real_query(mysql, sql, (unsigned long)strlen(sql)) == 0)
        result = mysql_store_result(mysql);
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
    const bool said = row && row[0];
    if (said)
        snprintf(account, size, "%s", row[0]);
    mysql_free_result(result);
    return said;
}

static rowlock_status caller_failed(const rl_caller *caller, rl_sql_id id, rowlock_error *err)
{
    MYSQL *mysql = caller->mysql;
    char account[700];
    rl_refusal refusal = {
        .statement = rl_sql_table[id].name, .schema = caller->schema, .number = mysql_errno(mysql)};
    snprintf(refusal.sqlstate, sizeof refusal.sqlstate, "%s", mysql_sqlstate(mysql));
    snprintf(refusal.text, sizeof refusal.text, "%s", mysql_error(mysql));
    /* Commands out of sync (2014): nothing was sent. */
    if (refusal.number == 2014)
        return rl_fail(err, ROWLOCK_INVALID,
                       "the connection has a result that was not read to its end");
    rowlock_status status =
        rl_answer_status(refusal.number, refusal.sqlstate, refusal.text, flavour_of(mysql));
    if (err && status == ROWLOCK_DENIED && rl_refusal_names_account(refusal.number) &&
        ask_account(mysql, account, sizeof account))
        refusal.account = account;
    return rl_refused(&refusal, status, err);
}

/*
 * If it has no memory for the reply, Connector/C (3.3) leaves the rest of it unread, and the
 * caller's next statement would take that for its own reply, or wait for ever. So this ends the
 * connection, and with it the transaction.
 */
static rowlock_status reply_failed(const rl_caller *caller, rl_sql_id id, rowlock_error *err)
{
    rowlock_status status = caller_failed(caller, id, err);
    if (status != ROWLOCK_SYSTEM)
        return status;
    shutdown((int)mysql_get_socket(caller->mysql), SHUT_RDWR);
    return rl_fail(err, ROWLOCK_UNKNOWN, "out of memory for the reply; the connection is ended");
}

/* Waits for the reply. At the deadline it stops the statement and goes on waiting, since the
 * caller's connection cannot be left in the middle of a reply. Returns why it was stopped. */
static rowlock_status await_reply(const rl_caller *caller, const rl_io *io)
{
    rowlock_status stopped = ROWLOCK_OK;
    int fd = (int)mysql_get_socket(caller->mysql);
    rl_peer peer = rl_peer_of(fd);
    rl_io now = *io;
    for (;;) {
        short revents = 0;
        rl_waited waited = now.wait(now.self, fd, POLLIN, &revents, now.deadline_us);
        if (waited == RL_READY)
            return stopped;
        if (stopped == ROWLOCK_OK)
            stopped = waited == RL_CANCELLED ? ROWLOCK_CANCELLED : ROWLOCK_TIMEOUT;
        (void)rl_pool_kill_query(caller->pool, &peer, mysql_thread_id(caller->mysql), caller->key,
                                 STOP_LIMIT_US);
        now = rl_io_until(rl_time_add(rl_now_us(), STOP_LIMIT_US));
    }
}

/* A procedure that changes rows returns one row with their number (src/stmt/call.c). */
static void read_answer(MYSQL_RES *result, rl_sql_id id, uint64_t *rows, char *text, size_t size)
{
    MYSQL_ROW row = mysql_fetch_row(result);
    const char *cell = row && row[0] ? row[0] : "";
    if (rl_sql_table[id].column_count == 0)
        *rows = strtoull(cell, NULL, 10);
    else if (row && text)
        snprintf(text, size, "%s", cell);
}

/* Reads on to the reply to the CALL itself, which follows the procedure's rows. */
static rowlock_status read_to_end(const rl_caller *caller, rl_sql_id id, rowlock_error *err)
{
    int more;
    while ((more = mysql_next_result(caller->mysql)) == 0)
        mysql_free_result(mysql_use_result(caller->mysql));
    return more > 0 ? reply_failed(caller, id, err) : ROWLOCK_OK;
}

static rowlock_status read_reply(const rl_caller *caller, rl_sql_id id, uint64_t *rows, char *text,
                                 size_t size, rowlock_error *err)
{
    MYSQL *mysql = caller->mysql;
    if (mysql_read_query_result(mysql))
        return reply_failed(caller, id, err);
    if (mysql_field_count(mysql) == 0) {
        *rows = mysql_affected_rows(mysql);
        return ROWLOCK_OK;
    }
    MYSQL_RES *result = mysql_store_result(mysql);
    if (!result)
        return reply_failed(caller, id, err);
    *rows = mysql_num_rows(result);
    read_answer(result, id, rows, text, size);
    mysql_free_result(result);
    return read_to_end(caller, id, err);
}

/*
 * Sends a harmless statement for a KILL QUERY to hit that came too late for ours, or a second time,
 * or from somebody else before ours: it must not stop the caller's next statement.
 */
static void absorb_kill(const rl_caller *caller)
{
    const rl_value values[] = {rl_text(caller->key)};
    rl_sql_id id = caller->via ? RL_SQL_SESSION_FORGET_KEY : RL_SQL_CALLER_NOTHING;
    rl_buffer sql = {0};
    if (rl_render(false, id, "", values, &sql))
        (void)mysql_real_query(caller->mysql, sql.text, sql.length);
    rl_buffer_free(&sql);
}

/* If the pool cannot reach the caller's server, it could not stop a wait there: then the row is
 * only tried. */
static rl_sql_id wait_or_try(const rl_caller *caller, rl_sql_id id)
{
    if (id != RL_SQL_CALLER_ROW_LOCK)
        return id;
    rl_peer peer = rl_peer_of((int)mysql_get_socket(caller->mysql));
    return rl_pool_reaches(caller->pool, &peer) ? id : RL_SQL_CALLER_ROW_TRY;
}

rowlock_status rl_caller_run(const rl_caller *caller, rl_sql_id wanted, const rl_value *values,
                             const rl_io *io, uint64_t *rows, char *text, size_t size,
                             rowlock_error *err)
{
    rl_sql_id id = wait_or_try(caller, wanted);
    rl_buffer sql = {0};
    if (!rl_render(caller->via, id, caller->schema, values, &sql)) {
        rl_buffer_free(&sql);
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    }
    int failed = mysql_send_query(caller->mysql, sql.text, sql.length);
    rl_buffer_free(&sql);
    if (failed)
        return caller_failed(caller, id, err);
    rowlock_status stopped = await_reply(caller, io);
    rowlock_status status = read_reply(caller, id, rows, text, size, err);
    if (stopped != ROWLOCK_OK && status != ROWLOCK_UNKNOWN)
        absorb_kill(caller);
    if (stopped != ROWLOCK_OK && status == ROWLOCK_CANCELLED)
        return rl_fail(err, stopped, "%s", rowlock_status_text(stopped));
    if (status == ROWLOCK_CANCELLED)
        return rl_fail(err, ROWLOCK_BUSY,
                       "the statement was stopped by somebody (KILL QUERY, or a time limit)");
    return status;
}

uint64_t rl_caller_insert_id(const rl_caller *caller)
{
    return mysql_insert_id(caller->mysql);
}

bool rl_caller_same_user(MYSQL *mysql, const char *user)
{
    return mysql->user && strcmp(mysql->user, user) == 0;
}
