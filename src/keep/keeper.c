#include "keep/inside.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define WRITE_RETRY_US 1000000
#define WRITE_LIMIT_US 5000000
#define WATCH_AFTER_US 50000 /* a row lock younger than this is not yet watched */

/* ------------------------------------------------------------------------ what is due */

/*
 * With the mutex. New connections lead to another server: what an earlier one granted does not
 * count there, and its holder is told before its next renewal would find out. A row lock is its
 * node's alone, in a cluster too.
 */
static void mark_moved(rl_keeper *keeper)
{
    uint64_t identity = atomic_load(&keeper->pool->identity);
    uint64_t node = atomic_load(&keeper->pool->node);
    if (identity == keeper->identity && node == keeper->node)
        return;
    keeper->identity = identity;
    keeper->node = node;
    for (rl_held *next, *held = keeper->leases.first; held; held = next) {
        next = held->next;
        if (held->identity != identity)
            rl_mark_lost(keeper, held, RL_MOVED);
    }
    for (rl_held *next, *held = keeper->rows.first; held; held = next) {
        next = held->next;
        if (!rl_pool_is_current(keeper->pool, &held->conn->server, true))
            rl_mark_lost(keeper, held, RL_MOVED);
    }
}

/* While a statement runs it has to wait: then it is no reason to wake. */
static int64_t serve_look(rl_keeper *keeper, const rl_held *held)
{
    const bool busy = keeper->aside || keeper->renewing.under_way;
    keeper->look_at_us = rl_earlier(keeper->look_at_us, held->look_at_us);
    return busy ? RL_NEVER : held->look_at_us;
}

/* With the mutex. Its own part of what is due next; RL_NEVER when it is lost. */
static int64_t serve_held(rl_keeper *keeper, rl_held *held, int64_t now)
{
    const rl_held_list *list = held->list;
    int64_t due = RL_NEVER;
    if (now >= held->long_at_us) {
        held->long_at_us = RL_NEVER;
        held->on_long(held);
    }
    if (now >= atomic_load(&held->deadline_us))
        rl_mark_expired(keeper, held, now);
    else if (held->conn)
        due = rl_watch_due(keeper, held, now);
    else
        due = rl_renew_due(keeper, held);
    if (held->list != list)
        return RL_NEVER;
    if (!held->conn)
        keeper->renew_at_us = rl_earlier(keeper->renew_at_us, due);
    else
        due = rl_earlier(due, serve_look(keeper, held));
    return rl_earlier(rl_earlier(due, held->long_at_us), atomic_load(&held->deadline_us));
}

/* With the mutex. Only when something may be due is each one looked at: there may be many. */
static void serve_due(rl_keeper *keeper, int64_t now)
{
    int64_t due = RL_NEVER;
    if (now < keeper->due_us)
        return;
    keeper->renew_at_us = keeper->look_at_us = RL_NEVER;
    for (rl_held *next, *held = keeper->leases.first; held; held = next) {
        next = held->next;
        due = rl_earlier(due, serve_held(keeper, held, now));
    }
    for (rl_held *next, *held = keeper->rows.first; held; held = next) {
        next = held->next;
        due = rl_earlier(due, serve_held(keeper, held, now));
    }
    keeper->due_us = due;
}

/* --------------------------------------------------------------------------- waiting */

static void poll_until(rl_watch *w, int64_t until_us)
{
    if (poll(w->fds, w->count, rl_poll_ms(until_us)) <= 0)
        for (size_t i = 0; i < w->count; i++)
            w->fds[i].revents = 0;
}

/* One round of everything that is due, and the wait for the next thing. */
static void serve_once(rl_keeper *keeper, int fd, short events, int64_t until_us)
{
    rl_watch *w = &keeper->watch;
    int64_t now = rl_now_us();
    pthread_mutex_lock(&keeper->mutex);
    mark_moved(keeper);
    serve_due(keeper, now);
    rl_watch_fill(keeper, now);
    bool losses = rl_teller_missing(keeper);
    until_us = rl_earlier(until_us, keeper->due_us);
    pthread_mutex_unlock(&keeper->mutex);
    if (losses)
        rl_teller_send(keeper);
    bool again = rl_watch_grow(w) || losses;
    w->fds[0] = (struct pollfd){.fd = fd, .events = events};
    w->fds[1] = (struct pollfd){.fd = keeper->wake_fd, .events = POLLIN};
    poll_until(w, again ? 0 : until_us);
    pthread_mutex_lock(&keeper->mutex);
    rl_watch_serve(keeper);
    pthread_mutex_unlock(&keeper->mutex);
    eventfd_t ignored;
    if (w->fds[1].revents)
        eventfd_read(keeper->wake_fd, &ignored);
}

/* The keeper's way to wait in a statement of its own: it serves the others meanwhile. A renewal
 * that falls due does not wait for the history, nor long for another renewal. */
static rl_waited serve_while(void *self, int fd, short events, short *revents, int64_t until_us)
{
    rl_keeper *keeper = self;
    for (;;) {
        bool ends_early = keeper->aside || keeper->renewing.under_way;
        int64_t end_us = ends_early ? rl_earlier(until_us, keeper->renew_at_us) : until_us;
        serve_once(keeper, fd, events, end_us);
        if (keeper->watch.fds[0].revents) {
            *revents = keeper->watch.fds[0].revents;
            return RL_READY;
        }
        if (atomic_load(&keeper->stop))
            return RL_CANCELLED;
        if (rl_now_us() >= end_us)
            return RL_EXPIRED;
    }
}

/* ---------------------------------------------------------------------- the history */

static void write_history(rl_keeper *keeper)
{
    rowlock_error err = {0};
    rl_io io = {.wait = serve_while, .self = keeper, .deadline_us = rl_now_us() + WRITE_LIMIT_US};
    keeper->aside = true;
    rowlock_status status = rl_journal_write(keeper->journal, keeper->pool, &io, &err);
    keeper->aside = false;
    keeper->write_again_us = 0;
    rl_journal_log_dropped(keeper->journal, &keeper->log);
    if (status == ROWLOCK_OK)
        return;
    keeper->write_again_us = rl_now_us() + WRITE_RETRY_US;
    rl_log_line(&keeper->log, ROWLOCK_LOG_WARNING, "the history could not be written: %s",
                err.message);
}

static int64_t next_write(rl_keeper *keeper)
{
    int64_t due = rl_journal_due_us(keeper->journal);
    return due > keeper->write_again_us ? due : keeper->write_again_us;
}

/* -------------------------------------------------------------------------- the thread */

static void *run(void *arg)
{
    /* For tools that list a process's threads. */
    pthread_setname_np(pthread_self(), "rowlock-keeper");
    rl_keeper *keeper = arg;
    const rl_io in_statement = {.wait = serve_while, .self = keeper};
    while (!atomic_load(&keeper->stop)) {
        int64_t write_at = next_write(keeper);
        int64_t now = rl_now_us();
        if (now >= keeper->renew_at_us)
            rl_renew_now(keeper, &in_statement);
        else if (now >= keeper->look_at_us)
            rl_asks_look(keeper, &in_statement);
        else if (now >= write_at)
            write_history(keeper);
        else
            serve_once(keeper, -1, 0, rl_earlier(write_at, keeper->look_at_us));
    }
    return NULL;
}

static void wake_for_move(void *keeper)
{
    rl_keeper_wake(keeper);
}

static rowlock_status begin(rl_keeper *keeper, rowlock_error *err)
{
    if (keeper->wake_fd < 0)
        return rl_fail(err, ROWLOCK_SYSTEM, "cannot make a descriptor for the keeper (error %d)",
                       errno);
    keeper->renewing.list = malloc(RL_KEEP_FEW * sizeof *keeper->renewing.list);
    keeper->renewing.capacity = RL_KEEP_FEW;
    keeper->watch.wanted = RL_KEEP_FEW;
    if (!keeper->renewing.list || !rl_watch_grow(&keeper->watch))
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    int failed = rl_thread_make(&keeper->thread, run, keeper);
    if (failed)
        return rl_fail(err, ROWLOCK_SYSTEM, "cannot start the keeper thread (error %d)", failed);
    keeper->running = true;
    return ROWLOCK_OK;
}

rowlock_status rl_keeper_start(rl_keeper *keeper, rl_pool *pool, rl_journal *journal,
                               const rl_keeping *keeping, rl_log log, rowlock_error *err)
{
    *keeper = (rl_keeper){.pool = pool,
                          .journal = journal,
                          .keeping = *keeping,
                          .log = log,
                          .identity = atomic_load(&pool->identity),
                          .node = atomic_load(&pool->node),
                          .due_us = RL_NEVER,
                          .renew_at_us = RL_NEVER,
                          .look_at_us = RL_NEVER};
    pool->moved_data = keeper;
    pool->moved = wake_for_move;
    pthread_mutex_init(&keeper->mutex, NULL);
    pthread_cond_init(&keeper->teller.told, NULL);
    keeper->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    rowlock_status status = begin(keeper, err);
    if (status != ROWLOCK_OK)
        rl_keeper_stop(keeper, false);
    return status;
}

static void stop_threads(rl_keeper *keeper)
{
    rl_keeper_silence(keeper);
    atomic_store(&keeper->stop, true);
    rl_keeper_wake(keeper);
    pthread_join(keeper->thread, NULL);
    rl_teller_join(keeper);
}

void rl_keeper_stop(rl_keeper *keeper, bool forked)
{
    if (!forked && keeper->running)
        stop_threads(keeper);
    keeper->pool->moved = NULL;
    if (!forked) {
        pthread_cond_destroy(&keeper->teller.told);
        pthread_mutex_destroy(&keeper->mutex);
    }
    free(keeper->watch.fds);
    free(keeper->renewing.list);
    if (keeper->wake_fd >= 0)
        close(keeper->wake_fd);
    keeper->running = false;
}

void rl_keeper_wake(rl_keeper *keeper)
{
    eventfd_write(keeper->wake_fd, 1);
}

/* With the mutex. It wakes the thread, if that would sleep too long. */
static void note_due(rl_keeper *keeper, int64_t due)
{
    if (due >= keeper->due_us)
        return;
    keeper->due_us = due;
    rl_keeper_wake(keeper);
}

/* With the mutex. */
static void add(rl_keeper *keeper, rl_held *held)
{
    int64_t due = rl_earlier(held->next_beat_us, atomic_load(&held->deadline_us));
    due = rl_earlier(due, held->long_at_us);
    held->key = ++keeper->last_key;
    held->slot = 0;
    held->attempt = 0; /* it is in no renewal that is under way */
    if (held->conn) {
        held->watch_from_us = rl_now_us() + WATCH_AFTER_US;
        due = rl_earlier(due, held->watch_from_us);
    }
    if (atomic_load(&held->lost))
        rl_held_put_last(&keeper->teller.losses, held);
    else
        rl_held_put_first(held->conn ? &keeper->rows : &keeper->leases, held);
    note_due(keeper, due);
}

void rl_keeper_add(rl_keeper *keeper, rl_held *held)
{
    pthread_mutex_lock(&keeper->mutex);
    add(keeper, held);
    pthread_mutex_unlock(&keeper->mutex);
}

bool rl_keeper_extend(rl_keeper *keeper, rl_held *held, int64_t sent_us, int64_t ttl_us)
{
    pthread_mutex_lock(&keeper->mutex);
    held->ttl_us = ttl_us;
    bool kept = rl_held_prolong(held, sent_us, ttl_us);
    if (kept && held->list) {
        held->attempt = 0; /* a renewal that is under way is for the TTL before */
        note_due(keeper, held->next_beat_us);
    } else if (kept) {
        add(keeper, held);
    }
    pthread_mutex_unlock(&keeper->mutex);
    return kept;
}

void rl_keeper_lose(rl_keeper *keeper, rl_held *held)
{
    pthread_mutex_lock(&keeper->mutex);
    atomic_store(&held->deadline_us, 0);
    if (held->list)
        note_due(keeper, 0);
    pthread_mutex_unlock(&keeper->mutex);
}
