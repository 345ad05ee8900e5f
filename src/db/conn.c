#include "db/exchange.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ------------------------------------------------------------------------- errors */

const char *rl_conn_account(rl_conn *conn)
{
    if (!conn->session.account && conn->session.ask_account && !conn->broken)
        conn->session.ask_account(conn);
    return conn->session.account;
}

rowlock_status rl_conn_failed(rl_conn *conn, const char *name, unsigned number,
                              const char *sqlstate, const char *text, rowlock_error *err)
{
    rowlock_status status = rl_answer_status(number, sqlstate, text, conn->flavour);
    rl_refusal refusal = {.statement = name, .schema = conn->mysql->db, .number = number};
    snprintf(refusal.sqlstate, sizeof refusal.sqlstate, "%s", sqlstate);
    snprintf(refusal.text, sizeof refusal.text, "%s", text);
    /* Without memory Connector/C may have left a reply half read. */
    if (status == ROWLOCK_UNKNOWN || status == ROWLOCK_SYSTEM)
        conn->broken = true;
    conn->demoted = conn->demoted || status == ROWLOCK_READONLY;
    if (err && status == ROWLOCK_DENIED && rl_refusal_names_account(number))
        refusal.account = rl_conn_account(conn);
    if (status != ROWLOCK_CANCELLED)
        return rl_refused(&refusal, status, err);
    refusal.meaning = "the statement was stopped by somebody (KILL QUERY, or a time limit)";
    return rl_refused(&refusal, ROWLOCK_UNAVAILABLE, err);
}

rowlock_status rl_conn_command_failed(rl_conn *conn, const char *name, rowlock_error *err)
{
    return rl_conn_failed(conn, name, mysql_errno(conn->mysql), mysql_sqlstate(conn->mysql),
                          mysql_error(conn->mysql), err);
}

rowlock_status rl_conn_stopped(const rl_conn *conn, rowlock_status ended, const char *name,
                               rowlock_error *err)
{
    if (ended == ROWLOCK_TIMEOUT && conn->broken)
        ended = ROWLOCK_UNKNOWN;
    rl_fail(err, ended, "%s: %s", rowlock_status_text(ended),
            conn->broken ? "the server did not answer in time" : "the statement was stopped");
    if (err)
        snprintf(err->statement, sizeof err->statement, "%s", name);
    return ended;
}

/* ------------------------------------------------------------------------- ending */

static int resume_ping(rl_conn *conn, int ready)
{
    rl_hush hush = rl_hush_begin(conn);
    conn->ping.pending = conn->ping.probing
                             ? mysql_real_query_cont(&conn->ping.result, conn->mysql, ready)
                             : mysql_ping_cont(&conn->ping.result, conn->mysql, ready);
    rl_hush_end(&hush);
    return conn->ping.pending;
}

/*
 * No descriptor is left to put in the socket's place. Our own session is over anyway. A parent's
 * socket is closed instead: mysql_close() then writes to, and closes, a number that is not open,
 * unless another thread of this child opens something in between.
 */
static void detach_without_descriptor(int fd, bool ours)
{
    if (ours)
        shutdown(fd, SHUT_RDWR);
    else
        close(fd);
}

/*
 * Nothing may reach the server through this descriptor any more, whatever
 * mysql_close() tries to send: COM_QUIT would end the session for a parent process
 * that shares the socket.
 */
static void detach_socket(const rl_conn *conn)
{
    int fd = rl_conn_fd(conn);
    if (fd < 0)
        return;
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nowhere < 0) {
        detach_without_descriptor(fd, conn->pid == getpid());
        return;
    }
    dup3(nowhere, fd, O_CLOEXEC);
    close(nowhere);
}

static void destroy(rl_conn *conn)
{
    rl_hush hush = rl_hush_begin(conn);
    mysql_close(conn->mysql);
    rl_hush_end(&hush);
    if (conn->session.free_statements)
        conn->session.free_statements(conn);
    free(conn->session.account);
    free(conn);
}

void rl_conn_drop(rl_conn *conn)
{
    if (!conn)
        return;
    detach_socket(conn);
    while (conn->ping.pending)
        resume_ping(conn, MYSQL_WAIT_TIMEOUT);
    destroy(conn);
}

void rl_conn_break(rl_conn *conn)
{
    const int fd = rl_conn_fd(conn);
    conn->broken = true;
    if (fd >= 0)
        shutdown(fd, SHUT_RDWR);
}

void rl_conn_forget(const rl_conn *conn)
{
    int fd = conn ? rl_conn_fd(conn) : -1;
    if (fd >= 0)
        close(fd);
}

void rl_conn_close(rl_conn *conn)
{
    if (!conn)
        return;
    if (conn->broken || conn->ping.pending || conn->reply_due || conn->pid != getpid())
        rl_conn_drop(conn);
    else
        destroy(conn);
}

/* ----------------------------------------------------------------------- commands */

static rowlock_status finish_reply(rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    rowlock_status ended;
    my_bool failed = 0;
    conn->reply_due = false;
    RL_EXCHANGE(ended, conn, io, mysql_read_query_result_start(&failed, conn->mysql),
                mysql_read_query_result_cont(&failed, conn->mysql, ready));
    if (ended != ROWLOCK_OK) {
        conn->broken = true;
        return rl_conn_stopped(conn, ended, "commit", err);
    }
    if (!failed)
        return ROWLOCK_OK;
    /* That was another call's, which did not want to know. This one is to have another connection.
     */
    conn->broken = true;
    return rl_fail(err, ROWLOCK_UNKNOWN, "the connection is gone");
}

/* The one error that a probe makes by itself: a subquery with two rows. */
#define PROBE_SAYS_NO 1242

/* COM_PING is never answered with an error of a statement (200,000 of them under as many KILL QUERY
 * on MariaDB 10.11, 11.8 and MySQL 9.7); the probe is a statement. */
static rl_pong judge(const rl_conn *conn)
{
    if (conn->ping.result == 0)
        return RL_PONG_GOOD;
    unsigned number = mysql_errno(conn->mysql);
    rowlock_status status = rl_server_status(number, conn->flavour);
    if (status == ROWLOCK_UNKNOWN || status == ROWLOCK_SYSTEM)
        return RL_PONG_NONE;
    if (number == PROBE_SAYS_NO || status == ROWLOCK_READONLY)
        return RL_PONG_DEMOTED;
    return RL_PONG_STOPPED;
}

static void note_pong(rl_conn *conn)
{
    conn->ping.pong = judge(conn);
    conn->demoted = conn->demoted || conn->ping.pong == RL_PONG_DEMOTED;
}

/* Any answer shows that the connection works. */
static rowlock_status pinged(rl_conn *conn, rowlock_error *err)
{
    note_pong(conn);
    bool goes_on = conn->ping.pong == RL_PONG_GOOD || conn->ping.pong == RL_PONG_STOPPED;
    return goes_on ? ROWLOCK_OK : rl_conn_command_failed(conn, "ping", err);
}

rowlock_status rl_conn_read_due(rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    if (conn->broken)
        return rl_fail(err, ROWLOCK_UNKNOWN, "the connection is gone");
    if (conn->reply_due)
        return finish_reply(conn, io, err);
    if (!conn->ping.pending)
        return ROWLOCK_OK;
    rowlock_status ended;
    RL_EXCHANGE(ended, conn, io, conn->ping.pending, resume_ping(conn, ready));
    conn->ping.pending = 0;
    if (ended != ROWLOCK_OK)
        return rl_conn_stopped(conn, ended, "ping", err);
    return pinged(conn, err);
}

rowlock_status rl_conn_command(rl_conn *conn, const char *name, const char *text, const rl_io *io,
                               rowlock_error *err)
{
    rowlock_status ended;
    int failed = 0;
    RL_TRY(rl_conn_read_due(conn, io, err));
    conn->session.calling = false;
    RL_EXCHANGE(ended, conn, io, mysql_real_query_start(&failed, conn->mysql, text, strlen(text)),
                mysql_real_query_cont(&failed, conn->mysql, ready));
    /* Stopped by us and answered "interrupted": the caller wants to hear why. */
    if (ended != ROWLOCK_OK && (conn->broken || failed))
        return rl_conn_stopped(conn, ended, name, err);
    return failed ? rl_conn_command_failed(conn, name, err) : ROWLOCK_OK;
}

/* What the last reply said of the connection. */
static unsigned server_status(MYSQL *mysql)
{
    unsigned status = 0;
    return mariadb_get_infov(mysql, MARIADB_CONNECTION_SERVER_STATUS, &status) == 0 ? status : 0;
}

bool rl_in_transaction(MYSQL *mysql)
{
    return (server_status(mysql) & SERVER_STATUS_IN_TRANS) != 0;
}

bool rl_commits_by_itself(MYSQL *mysql)
{
    return (server_status(mysql) & SERVER_STATUS_AUTOCOMMIT) != 0;
}

rowlock_status rl_conn_send_only(rl_conn *conn, const char *text)
{
    if (conn->broken || conn->ping.pending || conn->reply_due)
        return ROWLOCK_UNKNOWN;
    rl_hush hush = rl_hush_begin(conn);
    int failed = mysql_send_query(conn->mysql, text, strlen(text));
    rl_hush_end(&hush);
    if (failed) {
        conn->broken = true;
        return ROWLOCK_UNKNOWN;
    }
    conn->reply_due = true;
    return ROWLOCK_OK;
}

rowlock_status rl_conn_ping(rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    RL_TRY(rl_conn_read_due(conn, io, err));
    if (rl_conn_ping_begin(conn))
        return pinged(conn, err);
    return rl_conn_read_due(conn, io, err);
}

static bool ping_is_over(rl_conn *conn)
{
    if (conn->ping.pending)
        return false;
    note_pong(conn);
    return true;
}

static bool begin_ping(rl_conn *conn, const char *probe)
{
    conn->ping.probing = probe;
    conn->ping.result = 1;
    rl_hush hush = rl_hush_begin(conn);
    conn->ping.pending =
        probe ? mysql_real_query_start(&conn->ping.result, conn->mysql, probe, strlen(probe))
              : mysql_ping_start(&conn->ping.result, conn->mysql);
    rl_hush_end(&hush);
    return ping_is_over(conn);
}

bool rl_conn_ping_begin(rl_conn *conn)
{
    return begin_ping(conn, NULL);
}

bool rl_conn_probe_begin(rl_conn *conn)
{
    return begin_ping(conn, conn->ping.probe);
}

bool rl_conn_ping_resume(rl_conn *conn, short revents)
{
    resume_ping(conn, rl_ready_flags(revents, conn->ping.pending));
    return ping_is_over(conn);
}

short rl_conn_ping_events(const rl_conn *conn)
{
    return rl_poll_events(conn->ping.pending);
}

/* ------------------------------------- somebody else's text, whatever it answers */

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
    /* Else the rest would be read, however long it is. */
    if (ended != ROWLOCK_OK && row)
        rl_conn_break(conn);
    rl_hush hush = rl_hush_begin(conn);
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
    return rl_fail_again(err, status, "%s (error %u)", text, number);
}

rowlock_status rl_conn_run_foreign(rl_conn *conn, const char *name, const char *text, size_t length,
                                   const rl_io *io, rowlock_error *err)
{
    rowlock_status ended;
    int result = 0;
    RL_TRY(rl_conn_read_due(conn, io, err));
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

/* ------------------------------------------------------------------- what it leads to */

rl_peer rl_peer_of(int fd)
{
    rl_peer peer = {.size = sizeof peer.address};
    if (getpeername(fd, (struct sockaddr *)&peer.address, &peer.size) != 0)
        peer.size = 0;
    return peer;
}

bool rl_peer_same(const rl_peer *one, const rl_peer *other)
{
    bool same_node = one->node == other->node || one->node == 0 || other->node == 0;
    return one->size != 0 && one->size == other->size && same_node &&
           memcmp(&one->address, &other->address, one->size) == 0;
}

int rl_conn_fd(const rl_conn *conn)
{
    return (int)mysql_get_socket(conn->mysql);
}

void rl_conn_cipher(const rl_conn *conn, char *text, size_t size)
{
    const char *version = NULL;
    const char *cipher = mysql_get_ssl_cipher(conn->mysql);
    mariadb_get_infov(conn->mysql, MARIADB_CONNECTION_TLS_VERSION, &version);
    snprintf(text, size, "%s %s", version ? version : "TLS", cipher ? cipher : "");
}

bool rl_conn_loopback(const rl_conn *conn)
{
    const struct sockaddr *address = (const struct sockaddr *)&conn->peer.address;
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)&conn->peer.address;
        return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&conn->peer.address;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

bool rl_conn_looks_alive(const rl_conn *conn)
{
    if (conn->broken)
        return false;
    char byte;
    ssize_t n = recv(rl_conn_fd(conn), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0)
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    return n > 0 && conn->reply_due;
}
