/* db/connect_aside.c - opening a connection in a thread of its own, which may be left behind. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "db/conn.h"
#include "db/login.h"

/* A dead resolver keeps its threads for long, and every attempt needs another one. Who finds so
 * many waits for the end of one. */
#define HELPERS_MOST    64
#define HELPERS_LOOK_US 5000

static atomic_int helpers; /* threads that are opening a connection now */

void rl_connect_forget_helpers(void)
{
    atomic_store(&helpers, 0); /* a child process has none of its parent's threads */
}

/*
 * Shared by the caller that wants a connection and the thread that opens it. The last of the two
 * frees it. It has all that the thread needs: the client may be closed meanwhile.
 */
typedef struct handover {
    pthread_mutex_t mutex;
    pthread_t thread;
    int fd; /* eventfd, readable when it is done */
    bool done;
    bool left;            /* the caller does not wait any more */
    rowlock_cancel leave; /* fired then: the thread ends as soon as the resolver lets it */
    rl_params params;
    rl_conn *conn;
    rowlock_status status;
    rowlock_error err;
} handover;

static void free_handover(handover *h)
{
    rl_conn_close(h->conn);
    rl_params_free(&h->params);
    if (h->fd >= 0)
        close(h->fd);
    if (h->leave.fd >= 0)
        close(h->leave.fd);
    pthread_mutex_destroy(&h->mutex);
    free(h);
}

static handover *new_handover(const rl_params *params)
{
    handover *h = calloc(1, sizeof *h);
    if (!h)
        return NULL;
    pthread_mutex_init(&h->mutex, NULL);
    h->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    h->leave.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->fd >= 0 && h->leave.fd >= 0 && rl_params_copy(&h->params, params))
        return h;
    free_handover(h);
    return NULL;
}

static void *open_there(void *arg)
{
    pthread_setname_np(pthread_self(), "rowlock-connect");
    handover *h = arg;
    int64_t limit_ms = h->params.connect_timeout_ms;
    rl_budget budget = rl_budget_start(limit_ms, limit_ms, &h->leave);
    rl_io io = rl_budget_lock_io(&budget);
    h->status = rl_connect_here(&h->params, &io, &h->conn, &h->err);
    atomic_fetch_sub(&helpers, 1);
    pthread_mutex_lock(&h->mutex);
    bool left = h->left;
    h->done = true;
    eventfd_write(h->fd, 1);
    pthread_mutex_unlock(&h->mutex);
    if (left)
        free_handover(h);
    return NULL;
}

/* No signal is for this thread: the program's handlers run in its own. */
static bool start_thread(handover *h)
{
    sigset_t all, was;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    bool started = pthread_create(&h->thread, NULL, open_there, h) == 0;
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    return started;
}

/* OK, TIMEOUT or CANCELLED. */
static rowlock_status take_helper(const rl_io *io)
{
    while (atomic_fetch_add(&helpers, 1) >= HELPERS_MOST) {
        atomic_fetch_sub(&helpers, 1);
        int64_t now = rl_now_us();
        int64_t look = rl_time_add(now, HELPERS_LOOK_US);
        short none = 0;
        if (now >= io->deadline_us)
            return ROWLOCK_TIMEOUT;
        if (io->wait(io->self, -1, 0, &none, look < io->deadline_us ? look : io->deadline_us) ==
            RL_CANCELLED)
            return ROWLOCK_CANCELLED;
    }
    return ROWLOCK_OK;
}

static rowlock_status start_helper(handover *h, const rl_io *io, int64_t since_us,
                                   const char *place, rowlock_error *err)
{
    rowlock_status status = take_helper(io);
    if (status != ROWLOCK_OK)
        return rl_connect_gave_up(status, since_us, place, err);
    if (start_thread(h))
        return ROWLOCK_OK;
    atomic_fetch_sub(&helpers, 1);
    return rl_fail(err, ROWLOCK_SYSTEM, "cannot start a thread");
}

/* True when the thread is done, and ended: a host may unload us once its last client is closed.
 * Else it is left alone, and frees everything. */
static bool done_or_left(handover *h)
{
    pthread_t thread = h->thread; /* which may be the one that frees h */
    pthread_mutex_lock(&h->mutex);
    bool done = h->done;
    h->left = !done;
    if (!done)
        eventfd_write(h->leave.fd, 1);
    pthread_mutex_unlock(&h->mutex);
    if (done)
        pthread_join(thread, NULL);
    else
        pthread_detach(thread);
    return done;
}

rowlock_status rl_connect_aside(const rl_params *params, const rl_io *io, rl_conn **out,
                                rowlock_error *err)
{
    int64_t since_us = rl_now_us();
    char place[RL_PLACE_SIZE];
    rl_place_say(NULL, params, place);
    handover *h = new_handover(params);
    if (!h)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory or descriptors");
    rowlock_status status = start_helper(h, io, since_us, place, err);
    if (status != ROWLOCK_OK) {
        free_handover(h);
        return status;
    }
    short revents = 0;
    rl_waited waited = io->wait(io->self, h->fd, POLLIN, &revents, io->deadline_us);
    if (!done_or_left(h))
        return rl_connect_gave_up(waited == RL_CANCELLED ? ROWLOCK_CANCELLED : ROWLOCK_TIMEOUT,
                                  since_us, place, err);
    status = h->status;
    if (status == ROWLOCK_OK)
        *out = h->conn;
    else if (err)
        *err = h->err;
    h->conn = NULL;
    free_handover(h);
    return status;
}
