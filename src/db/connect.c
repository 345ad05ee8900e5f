/*
 * db/connect.c - opening a connection.
 *
 * Connecting waits in the caller's rl_io (connect_now()), but for two places: Connector/C calls
 * getaddrinfo() (pvio_socket_connect() in 3.3), and a resolver without an answer takes 5 s and
 * more for each of its servers; and OpenSSL reads in a TLS handshake. So a thread opens the
 * connection where either may be, and the caller waits for it in its rl_io, or leaves it behind.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/text.h"
#include "db/conn.h"
#include "db/login.h"
#include "db/tls.h"

/* The stack on which Connector/C's non-blocking calls run. Its own 60 KB are little where TLS is
 * used; pages that are not used cost nothing. */
#define CONNECT_STACK ((size_t)256 * 1024)

/* What they own. */
static const size_t texts[] = {
    offsetof(rl_params, host),
    offsetof(rl_params, socket),
    offsetof(rl_params, user),
    offsetof(rl_params, password),
    offsetof(rl_params, schema),
    offsetof(rl_params, defaults_file),
    offsetof(rl_params, defaults_extra_file),
    offsetof(rl_params, tls.ca),
    offsetof(rl_params, tls.cert),
    offsetof(rl_params, tls.key),
    offsetof(rl_params, tls.fingerprint),
    offsetof(rl_params, tls.crl),
};
#define TEXTS (sizeof texts / sizeof texts[0])

static char **text_of(rl_params *params, size_t i)
{
    return (char **)(void *)((char *)params + texts[i]);
}

void rl_params_free(rl_params *params)
{
    if (params->password)
        explicit_bzero(params->password, strlen(params->password));
    for (size_t i = 0; i < TEXTS; i++)
        free(*text_of(params, i));
    *params = (rl_params){0};
}

bool rl_params_copy(rl_params *to, const rl_params *from)
{
    bool whole = true;
    *to = *from;
    for (size_t i = 0; i < TEXTS; i++) {
        char **text = text_of(to, i);
        const char *theirs = *text;
        *text = rl_strdup(theirs);
        whole = whole && (*text || !theirs);
    }
    return whole;
}

/* --------------------------------------------------------------------- in this thread */

/*
 * mysql_library_init() sets SIGPIPE to be ignored for the whole process (Connector/C's
 * mysql_server_init). A library has no business doing so; put back what was.
 */
static void init_connector(void)
{
    struct sigaction was;
    sigaction(SIGPIPE, NULL, &was);
    mysql_library_init(0, NULL, NULL);
    sigaction(SIGPIPE, &was, NULL);
    pthread_atfork(NULL, NULL, rl_connect_forget_helpers);
}

/*
 * Connector/C asks for SO_KEEPALIVE and no more (the system's default is two hours).
 * A vanished server is noticed after about 20 s without an answer.
 */
static void tune_socket(int fd)
{
    int idle = 10;
    int interval = 3;
    int count = 3;
    unsigned user_timeout_ms = 20000;
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout_ms, sizeof user_timeout_ms);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/* LOAD DATA LOCAL: a server may answer any statement by asking for a file of the client's. */
static int refuse_file(void **file, const char *name, void *data)
{
    (void)name;
    (void)data;
    *file = NULL;
    return 1;
}

static int no_bytes(void *file, char *bytes, unsigned size)
{
    (void)file;
    (void)bytes;
    (void)size;
    return -1;
}

static void no_end(void *file)
{
    (void)file;
}

static int say_refused(void *file, char *text, unsigned size)
{
    (void)file;
    snprintf(text, size, "rowlock sends no files");
    return 2000; /* CR_UNKNOWN_ERROR */
}

/*
 * Connector/C reads option files when it connects, and then what they say wins over what the
 * program has set. So they are read first: by a connect to an empty list of hosts, which goes
 * no further.
 */
static void read_option_file(MYSQL *mysql, const char *file)
{
    if (file)
        mysql_optionsv(mysql, MYSQL_READ_DEFAULT_FILE, file);
    mysql_optionsv(mysql, MYSQL_READ_DEFAULT_GROUP, "rowlock");
    (void)mysql_real_connect(mysql, ",", NULL, NULL, NULL, 0, NULL, CLIENT_REMEMBER_OPTIONS);
}

/* Without a name: the usual ones. */
static void read_option_files(MYSQL *mysql, const rl_params *params)
{
    if (params->defaults_file || params->read_defaults)
        read_option_file(mysql, params->defaults_file);
    if (params->defaults_extra_file)
        read_option_file(mysql, params->defaults_extra_file);
    if (!params->own_login)
        return;
    mysql_optionsv(mysql, MARIADB_OPT_USER, NULL);
    mysql_optionsv(mysql, MARIADB_OPT_PASSWORD, NULL);
}

/* What option files must not decide. */
static void set_firm_options(MYSQL *mysql, const rl_params *params)
{
    unsigned seconds = (unsigned)((params->connect_timeout_ms + 999) / 1000);
    my_bool off = 0;
    my_bool on = 1;
    unsigned none = 0;
    /* A silent reconnect would lose a lock. */
    mysql_optionsv(mysql, MYSQL_OPT_RECONNECT, &off);
    mysql_optionsv(mysql, MYSQL_REPORT_DATA_TRUNCATION, &on);
    mysql_optionsv(mysql, MYSQL_OPT_LOCAL_INFILE, &none);
    mysql_optionsv(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_optionsv(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
}

static void set_protocol(MYSQL *mysql, rowlock_protocol protocol)
{
    unsigned tcp = MYSQL_PROTOCOL_TCP;
    unsigned socket = MYSQL_PROTOCOL_SOCKET;
    if (protocol != ROWLOCK_PROTOCOL_DEFAULT)
        mysql_optionsv(mysql, MYSQL_OPT_PROTOCOL,
                       protocol == ROWLOCK_PROTOCOL_TCP ? &tcp : &socket);
}

/* Connector/C (3.3) would go over TCP all the same. */
static rowlock_status check_protocol(const rl_params *params, const rl_tls_plan *plan,
                                     rowlock_error *err)
{
    if (params->protocol != ROWLOCK_PROTOCOL_SOCKET || plan->local)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_INVALID,
                   "the protocol is socket, but the host is '%s': leave one of them out",
                   plan->host);
}

static rowlock_status set_options(MYSQL *mysql, const rl_params *params, rl_tls_plan *plan,
                                  rowlock_error *err)
{
    mysql_set_local_infile_handler(mysql, refuse_file, no_bytes, no_end, say_refused, NULL);
    rl_tls_begin(mysql);
    read_option_files(mysql, params);
    set_firm_options(mysql, params);
    set_protocol(mysql, params->protocol);
    RL_TRY(rl_tls_settle(mysql, params, plan, err));
    return check_protocol(params, plan, err);
}

/* Connector/C opens its sockets without SOCK_CLOEXEC (3.3), one for each address of a name. */
static void close_on_exec(int fd)
{
    int flags = fcntl(fd, F_GETFD);
    if (flags >= 0 && !(flags & FD_CLOEXEC))
        fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
}

/* How the connect that this thread is in waits; Connector/C hands no data to the function below. */
static _Thread_local const rl_io *connecting;
static _Thread_local rl_waited waited_last;

/* As poll() answers: 1, or 0 when the time is over. Connector/C's own idea of a timeout is in whole
 * seconds, and knows of no cancelling. */
static int wait_while_connecting(my_socket fd, my_bool reads, int timeout_ms)
{
    const short events = reads ? POLLIN : POLLOUT;
    struct pollfd alone = {.fd = (int)fd, .events = events};
    short revents = 0;
    close_on_exec((int)fd);
    if (!connecting)
        return poll(&alone, 1, timeout_ms) > 0;
    waited_last =
        connecting->wait(connecting->self, (int)fd, events, &revents, connecting->deadline_us);
    if (waited_last != RL_READY)
        errno = ETIMEDOUT;
    return waited_last == RL_READY;
}

rowlock_status rl_connect_gave_up(rowlock_status ended, int64_t since_us, const char *place,
                                  rowlock_error *err)
{
    if (ended == ROWLOCK_CANCELLED)
        rl_fail(err, ended, "%s while connecting", rowlock_status_text(ended));
    else
        ended = rl_fail(err, ROWLOCK_UNAVAILABLE,
                        "cannot connect %s: the server did not answer within %lld ms", place,
                        (long long)(rl_now_us() - since_us) / 1000);
    if (err)
        snprintf(err->statement, sizeof err->statement, "connect");
    return ended;
}

#define WHY_SIZE 400

/* Why the login may have been refused. */
static void say_refusal(const rl_conn *conn, const rl_params *params, const rl_tls_plan *plan,
                        char why[WHY_SIZE])
{
    if (params->own_login && !params->password)
        snprintf(why, WHY_SIZE,
                 "; the URL names the host, so user and password of the option files' other groups "
                 "are not used: put them into the URL, or into a group of the host's name");
    else
        snprintf(why, WHY_SIZE,
                 "; the user or the password is wrong, or the account is for other hosts%s",
                 rl_tls_hint(conn->mysql, plan));
}

/* The system's error, which Connector/C (3.3) puts behind the place: "... socket '/x' (2)". 0: none
 * is there. */
static int system_error_of(MYSQL *mysql, unsigned number)
{
    const char *last = strrchr(mysql_error(mysql), '(');
    char *end = NULL;
    const long error = last ? strtol(last + 1, &end, 10) : 0;
    const bool can_be = (number == 2002 || number == 2003) && error > 0 && error < 4096 &&
                        strcmp(end, ")") == 0 && strerrordesc_np((int)error);
    return can_be ? (int)error : 0;
}

/* EINPROGRESS is what Connector/C (3.3) has over TCP, whatever it was. */
static rowlock_status unreached(int error, rowlock_status status, const char *place,
                                const char *unread, rowlock_error *err)
{
    const char *why = error == ENOENT || error == ECONNREFUSED ? "no server listens there"
                      : error == EACCES                        ? "this user may not use it"
                                                               : "it cannot be reached";
    if (error == EINPROGRESS)
        return rl_fail(err, status, "cannot connect %s: no server answers there%s", place, unread);
    return rl_fail(err, status, "cannot connect %s: %s (%s)%s", place, why, strerrordesc_np(error),
                   unread);
}

/* The server's number, also of an answer that came before TLS was agreed on (1130, too many
 * connections): Connector/C (3.3) makes it 2002, with the number in the text. */
static unsigned number_of(MYSQL *mysql)
{
    static const char before[] = "cannot be verified: ";
    const char *told = strstr(mysql_error(mysql), before);
    return told ? (unsigned)strtoul(told + sizeof before - 1, NULL, 10) : mysql_errno(mysql);
}

static rowlock_status refused(rl_conn *conn, const rl_params *params, const rl_tls_plan *plan,
                              const char *place, rowlock_error *err)
{
    unsigned number = number_of(conn->mysql);
    const rl_flavour flavour = rl_says_mysql(conn->mysql) ? RL_MYSQL : RL_MARIADB;
    rowlock_status status = rl_connect_status(number, flavour);
    int error = system_error_of(conn->mysql, number);
    char why[WHY_SIZE] = "";
    char unread[RL_UNREAD_SIZE];
    rl_unread_say(params, unread);
    if (number == 1045)
        say_refusal(conn, params, plan, why);
    if (error)
        unreached(error, status, place, unread, err);
    else if (!rl_tls_explain(conn->mysql, plan, &status, err))
        rl_fail(err, status, "cannot connect %s: %s (error %u)%s%s", place,
                mysql_error(conn->mysql), number, why, unread);
    if (err) {
        err->server_errno = number;
        snprintf(err->sqlstate, sizeof err->sqlstate, "%s", mysql_sqlstate(conn->mysql));
        snprintf(err->statement, sizeof err->statement, "connect");
    }
    return status;
}

/* Connector/C (3.3) leaves a socket that it connected with its blocking call blocking, and asks
 * for MSG_DONTWAIT where it reads itself; OpenSSL reads as the socket says. */
static void set_nonblocking(rl_conn *conn)
{
    int fd = rl_conn_fd(conn);
    int flags = fcntl(fd, F_GETFL);
    conn->tls = mysql_get_ssl_cipher(conn->mysql);
    if (conn->tls && flags >= 0)
        fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

/*
 * With the blocking call and our own way to wait in it: the non-blocking one of Connector/C 3.3
 * closes the descriptor twice when a unix socket refuses (seen with strace), and the second time
 * it may be another thread's file. All that follows uses the non-blocking calls.
 */
static rowlock_status connect_now(rl_conn *conn, const rl_params *params, const rl_tls_plan *plan,
                                  const rl_io *io, rowlock_error *err)
{
    int64_t since_us = rl_now_us();
    size_t stack = CONNECT_STACK;
    char place[RL_PLACE_SIZE];
    rl_place_say(conn->mysql, params, place); /* it will have forgotten it when it fails */
    mysql_optionsv(conn->mysql, MARIADB_OPT_IO_WAIT, wait_while_connecting);
    connecting = io;
    waited_last = RL_READY;
    const unsigned long flags = params->counts_changed ? 0 : CLIENT_FOUND_ROWS;
    bool good = mysql_real_connect(conn->mysql, params->host, params->user, params->password,
                                   params->schema, params->port, params->socket, flags);
    connecting = NULL;
    if (!good && waited_last != RL_READY)
        return rl_connect_gave_up(waited_last == RL_CANCELLED ? ROWLOCK_CANCELLED : ROWLOCK_TIMEOUT,
                                  since_us, place, err);
    if (!good)
        return refused(conn, params, plan, place, err);
    close_on_exec(rl_conn_fd(conn));
    set_nonblocking(conn);
    mysql_optionsv(conn->mysql, MYSQL_OPT_NONBLOCK, &stack);
    return ROWLOCK_OK;
}

static void note_session(rl_conn *conn)
{
    int fd = rl_conn_fd(conn);
    conn->id = mysql_thread_id(conn->mysql);
    conn->flavour = mariadb_connection(conn->mysql) ? RL_MARIADB : RL_MYSQL;
    conn->peer = rl_peer_of(fd);
    if (conn->peer.address.ss_family != AF_UNIX)
        tune_socket(fd);
}

/* Blocks in the resolver where the host is a name. */
rowlock_status rl_connect_here(const rl_params *params, const rl_io *io, rl_conn **out,
                               rowlock_error *err)
{
    rl_tls_plan plan = {0};
    rl_conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    conn->pid = getpid();
    conn->session.via = params->via;
    conn->mysql = mysql_init(NULL);
    if (!conn->mysql) {
        free(conn);
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    }
    rowlock_status status = set_options(conn->mysql, params, &plan, err);
    if (status == ROWLOCK_OK)
        status = connect_now(conn, params, &plan, io, err);
    if (status == ROWLOCK_OK)
        status = rl_tls_proven(conn->mysql, &plan, err);
    if (status != ROWLOCK_OK) {
        rl_conn_drop(conn);
        return status;
    }
    note_session(conn);
    conn->local = plan.local;
    conn->proven = conn->tls && plan.proven;
    *out = conn;
    return ROWLOCK_OK;
}

/* ------------------------------------------------------------------- with or without it */

/*
 * An option file may name a host, an address of ours to bind to, and TLS; it is read while
 * connecting. A TLS handshake reads from a blocking socket (3.3), with a limit in whole seconds
 * for each read.
 */
static bool may_block(const rl_params *params)
{
    unsigned char address[sizeof(struct in6_addr)];
    if (params->defaults_file || params->read_defaults || params->defaults_extra_file ||
        params->tls.mode > ROWLOCK_TLS_OFF)
        return true;
    if (!params->host || strcmp(params->host, "localhost") == 0)
        return params->protocol == ROWLOCK_PROTOCOL_TCP; /* else the unix socket */
    if (params->tls.mode == ROWLOCK_TLS_DEFAULT)
        return true;
    return inet_pton(AF_INET, params->host, address) != 1 &&
           inet_pton(AF_INET6, params->host, address) != 1;
}

rowlock_status rl_conn_open(const rl_params *params, const rl_io *io, rl_conn **conn,
                            rowlock_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_connector);
    const int64_t now_us = rl_now_us();
    rl_io bounded = *io;
    int64_t limit = rl_time_add(now_us, params->connect_timeout_ms * 1000);
    if (limit < bounded.deadline_us)
        bounded.deadline_us = limit;
    rowlock_status status = may_block(params) ? rl_connect_aside(params, &bounded, conn, err)
                                              : rl_connect_here(params, &bounded, conn, err);
    if (status == ROWLOCK_OK)
        (*conn)->opened_us = now_us;
    return status;
}
