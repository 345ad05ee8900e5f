/*
 * db/exchange.h - one exchange with the server, by Connector/C's non-blocking calls.
 *
 * X_start() begins an operation and says what it waits for (0: it is done); X_cont() goes on with
 * what has become ready. The wait between them is the caller's rl_io. When its time is over, or it
 * is cancelled, KILL QUERY goes out on another connection, and the server answers the statement
 * that it has stopped; without that answer the connection is given up (conn->broken).
 */
#ifndef RL_DB_EXCHANGE_H
#define RL_DB_EXCHANGE_H

#include "db/conn.h"

/*
 * Around whatever reads from the server or writes to it, for two habits of OpenSSL. It writes
 * without MSG_NOSIGNAL: a server that has gone would end the program by SIGPIPE. And it keeps a
 * queue of errors for each thread, which Connector/C (3.3, ma_tls_async_check_result()) neither
 * empties nor expects to have anything in it: one connection that has ended badly would end all
 * others of its thread. Connections without TLS cost nothing here.
 */
typedef struct rl_hush {
    bool on;
    bool pending; /* the program had one pending before */
    sigset_t mask;
} rl_hush;

rl_hush rl_hush_begin(const rl_conn *conn) RL_MUST_USE;
void rl_hush_end(const rl_hush *hush);

typedef struct rl_exchange {
    rl_conn *conn;
    rl_io io;
    rowlock_status ended; /* TIMEOUT, CANCELLED: interrupted; then conn->broken says whether the
                             connection survived */
    bool given_up;
    rl_hush hush;
} rl_exchange;

rl_exchange rl_exchange_begin(rl_conn *conn, const rl_io *io) RL_MUST_USE;
/* Waits; what X_cont() is to be told. */
int rl_exchange_wait(rl_exchange *exchange, int pending) RL_MUST_USE;
rowlock_status rl_exchange_end(const rl_exchange *exchange) RL_MUST_USE;

/*
 * Runs one to its end: `start` is a call of X_start(), `go_on` one of X_cont() with `ready`.
 * `ended`: OK when it ended by itself (its own result may still be an error), else why it was
 * interrupted.
 */
#define RL_EXCHANGE(ended, conn, io, start, go_on)                                                 \
    do {                                                                                           \
        rl_exchange exchange_ = rl_exchange_begin(conn, io);                                       \
        for (int ready, pending_ = (start); pending_; pending_ = (go_on))                          \
            ready = rl_exchange_wait(&exchange_, pending_);                                        \
        (ended) = rl_exchange_end(&exchange_);                                                     \
    } while (0)

/* The poll() events of what an operation waits for, and back. */
short rl_poll_events(int pending);
int rl_ready_flags(short revents, int pending);

#endif
