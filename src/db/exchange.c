#include "db/exchange.h"
#include "db/tls.h"

#include <poll.h>

/*
 * A wait that is over must be told within 100 ms of its deadline. So long after the deadline the
 * server may take for KILL QUERY (30 ms at most, the pool's limit) and for the answer of the
 * statement that it has stopped; then the connection is given up.
 */
#define STOPPED_GRACE_US 65000

/* ---------------------------------------------------------------------- SIGPIPE and TLS */

static bool sigpipe_pending(void)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGPIPE) == 1;
}

rl_hush rl_hush_begin(const rl_conn *conn)
{
    rl_hush hush = {.on = conn->tls};
    sigset_t sigpipe;
    if (!hush.on)
        return hush;
    rl_tls_forget_errors();
    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    hush.pending = sigpipe_pending();
    pthread_sigmask(SIG_BLOCK, &sigpipe, &hush.mask);
    return hush;
}

/* A SIGPIPE that a write of ours made is for this thread alone, and is taken away here. */
void rl_hush_end(const rl_hush *hush)
{
    const struct timespec now = {0};
    sigset_t sigpipe;
    if (!hush->on)
        return;
    rl_tls_forget_errors();
    sigemptyset(&sigpipe);
    sigaddset(&sigpipe, SIGPIPE);
    if (!hush->pending && sigpipe_pending())
        sigtimedwait(&sigpipe, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &hush->mask, NULL);
}

/* ------------------------------------------------------------ waiting in an operation */

static const struct {
    int wait;
    short event;
} pairs[] = {{MYSQL_WAIT_READ, POLLIN}, {MYSQL_WAIT_WRITE, POLLOUT}, {MYSQL_WAIT_EXCEPT, POLLPRI}};

short rl_poll_events(int pending)
{
    int events = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        events |= pending & pairs[i].wait ? pairs[i].event : 0;
    return (short)events;
}

int rl_ready_flags(short revents, int pending)
{
    const bool over = revents & (POLLERR | POLLHUP | POLLNVAL);
    int ready = over ? pending & (MYSQL_WAIT_READ | MYSQL_WAIT_WRITE) : 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        ready |= revents & pairs[i].event ? pairs[i].wait : 0;
    return ready;
}

rl_exchange rl_exchange_begin(rl_conn *conn, const rl_io *io)
{
    return (rl_exchange){.conn = conn, .io = *io, .hush = rl_hush_begin(conn)};
}

/* The server does not answer: the operation sees its time-out, for good. */
static int give_up(rl_exchange *x)
{
    x->given_up = true;
    rl_conn_break(x->conn);
    return MYSQL_WAIT_TIMEOUT;
}

int rl_exchange_wait(rl_exchange *x, int pending)
{
    rl_conn *conn = x->conn;
    while (!x->given_up) {
        short revents = 0;
        rl_waited waited = x->io.wait(x->io.self, rl_conn_fd(conn), rl_poll_events(pending),
                                      &revents, x->io.deadline_us);
        if (waited == RL_READY)
            return rl_ready_flags(revents, pending);
        bool first = x->ended == ROWLOCK_OK;
        if (first)
            x->ended = waited == RL_CANCELLED ? ROWLOCK_CANCELLED : ROWLOCK_TIMEOUT;
        if (!first || !conn->interrupt || x->io.abrupt)
            break;
        /* The server stops the statement and answers, if it can; not for long. */
        const int64_t until_us = rl_time_add(rl_now_us(), STOPPED_GRACE_US);
        conn->interrupted = true;
        conn->interrupt(conn->interrupt_data, conn);
        x->io = rl_io_until(until_us);
    }
    return give_up(x);
}

rowlock_status rl_exchange_end(const rl_exchange *x)
{
    rl_hush_end(&x->hush);
    return x->ended;
}
