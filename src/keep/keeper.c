#include "keep/keeper.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define WRITE_DELAY_US     100000 /* the history gathers for so long */
#define WRITE_RETRY_US     1000000
#define RENEW_RETRY_MIN_US 50000
#define RENEW_RETRY_MAX_US 2000000
#define MARGIN_MIN_US      20000
#define MARGIN_MAX_US      1000000
#define DRIFT_PART         2000  /* two clocks may differ by one part in so many: 500 ppm */
#define RENEW_CHUNK        10000 /* leases in one statement: its parameter stays small */

/* ------------------------------------------------------------------------ deadlines */

int64_t rl_margin_us(int64_t ttl_us)
{
    int64_t margin = ttl_us / 10;
    if (margin < MARGIN_MIN_US)
        margin = MARGIN_MIN_US;
    if (margin > MARGIN_MAX_US)
        margin = MARGIN_MAX_US;
    return margin < ttl_us / DRIFT_PART ? ttl_us / DRIFT_PART : margin;
}

void rl_held_extend(rl_held *held, int64_t sent_us, int64_t ttl_us)
{
    atomic_store(&held->deadline_us, sent_us + ttl_us - rl_margin_us(held->ttl_us));
    held->next_beat_us = sent_us + held->ttl_us / 3;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ------------------------------------------------------------------------ the losses */

/* With the mutex. The callback comes later, without it. */
static void mark_lost(rl_held *held, const char *reason)
{
    if (atomic_load(&held->lost))
        return;
    snprintf(held->reason, sizeof held->reason, "%s", reason);
    atomic_store(&held->deadline_us, 0);
    atomic_store(&held->lost, true);
    int fd = atomic_load(&held->event_fd);
    if (fd >= 0)
        eventfd_write(fd, 1);
}

static const char *why_expired(const rl_held *held, int64_t now)
{
    if (held->conn)
        return "the server did not answer a ping in time";
    return now >= held->end_us - rl_margin_us(held->ttl_us)
               ? "it was held for as long as max_hold allows"
               : "it could not be renewed in time";
}

static void mark_expired(rl_keeper *keeper, int64_t now)
{
    for (rl_held *held = keeper->first; held; held = held->next)
        if (now >= atomic_load(&held->deadline_us))
            mark_lost(held, why_expired(held, now));
}

static void take_out(rl_keeper *keeper, rl_held *held)
{
    if (held->previous)
        held->previous->next = held->next;
    else
        keeper->first = held->next;
    if (held->next)
        held->next->previous = held->previous;
    held->next = held->previous = NULL;
    held->key = 0;
}

static rl_held *first_lost(rl_keeper *keeper)
{
    for (rl_held *held = keeper->first; held; held = held->next)
        if (atomic_load(&held->lost))
            return held;
    return NULL;
}

/*
 * Calls back for what is lost, each without the mutex. The hold is out of our care then
 * and may be gone when the callback returns; rl_keeper_remove() waits for `telling`.
 */
static void tell_losses(rl_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    for (rl_held *held; (held = first_lost(keeper));) {
        take_out(keeper, held);
        keeper->telling = held;
        char reason[sizeof held->reason];
        snprintf(reason, sizeof reason, "%s", held->reason);
        pthread_mutex_unlock(&keeper->mutex);
        held->on_lost(held, reason);
        pthread_mutex_lock(&keeper->mutex);
        keeper->telling = NULL;
        pthread_cond_broadcast(&keeper->told);
    }
    pthread_mutex_unlock(&keeper->mutex);
}

/* -------------------------------------------------------------------- held connections */

static void ping_over(rl_held *held)
{
    if (held->conn->ping_result == 0)
        rl_held_extend(held, held->ping_sent_us, held->ttl_us);
    else
        mark_lost(held, "the connection that holds it has ended");
}

static void begin_due_pings(rl_keeper *keeper, int64_t now)
{
    for (rl_held *held = keeper->first; held; held = held->next) {
        if (!held->conn || held->conn->ping_pending || now < held->next_beat_us ||
            atomic_load(&held->lost))
            continue;
        held->ping_sent_us = now;
        held->next_beat_us = RL_NEVER;
        if (rl_conn_ping_begin(held->conn))
            ping_over(held);
    }
}

/* An idle connection has something to say: the server ended it. */
static void serve_connection(rl_held *held, short revents)
{
    if (held->conn->ping_pending) {
        if (rl_conn_ping_resume(held->conn, revents))
            ping_over(held);
    } else if (!rl_conn_looks_alive(held->conn)) {
        held->conn->broken = true;
        mark_lost(held, "the server ended the connection that holds it");
    }
}

/* What one poll() looks at: [0] the statement's descriptor, [1] the wake-up, then held ones. */
typedef struct watch {
    struct pollfd *fds;
    uint64_t *keys;
    size_t count;
    size_t capacity;
} watch;

#define FIXED 2

static int64_t next_renewal(rl_keeper *keeper);

static bool watch_room(watch *w, size_t need)
{
    if (need <= w->capacity)
        return true;
    size_t capacity = need * 2;
    struct pollfd *fds = realloc(w->fds, capacity * sizeof *fds);
    if (fds)
        w->fds = fds;
    uint64_t *keys = realloc(w->keys, capacity * sizeof *keys);
    if (keys)
        w->keys = keys;
    if (!fds || !keys)
        return false;
    w->capacity = capacity;
    return true;
}

static size_t held_connections(const rl_keeper *keeper)
{
    size_t count = 0;
    for (const rl_held *held = keeper->first; held; held = held->next)
        count += held->conn != NULL;
    return count;
}

/* With the mutex. Without memory for all, the deadlines still tell of every loss. */
static void watch_held(rl_keeper *keeper, watch *w)
{
    w->count = FIXED;
    if (!watch_room(w, FIXED + held_connections(keeper)))
        return;
    for (const rl_held *held = keeper->first; held; held = held->next) {
        if (!held->conn || atomic_load(&held->lost))
            continue;
        short events = held->conn->ping_pending ? rl_conn_ping_events(held->conn) : POLLIN;
        w->fds[w->count] = (struct pollfd){.fd = rl_conn_fd(held->conn), .events = events};
        w->keys[w->count++] = held->key;
    }
}

/*
 * With the mutex. A hold may have come or gone since; the list runs from the highest key
 * to the lowest, and so does the watch.
 */
static void serve_ready(rl_keeper *keeper, const watch *w)
{
    size_t i = FIXED;
    for (rl_held *held = keeper->first; held && i < w->count; held = held->next) {
        while (i < w->count && w->keys[i] > held->key)
            i++;
        if (i < w->count && w->keys[i] == held->key && w->fds[i].revents && held->conn)
            serve_connection(held, w->fds[i].revents);
    }
}

/* With the mutex: when something of the held ones is due next. */
static int64_t next_due(const rl_keeper *keeper)
{
    int64_t due = RL_NEVER;
    for (const rl_held *held = keeper->first; held; held = held->next) {
        due = earlier(due, atomic_load(&held->deadline_us));
        if (held->conn)
            due = earlier(due, held->next_beat_us);
    }
    return due;
}

/* --------------------------------------------------------------------------- waiting */

static void poll_until(watch *w, int64_t until_us)
{
    int64_t left = until_us == RL_NEVER ? 3600000000 : until_us - rl_now_us();
    if (left < 0)
        left = 0;
    struct timespec timeout = {.tv_sec = left / 1000000, .tv_nsec = (left % 1000000) * 1000};
    if (ppoll(w->fds, w->count, &timeout, NULL) <= 0)
        for (size_t i = 0; i < w->count; i++)
            w->fds[i].revents = 0;
}

/* One round of everything that is due, and the wait for the next thing. */
static void serve_once(rl_keeper *keeper, watch *w, int fd, short events, int64_t until_us)
{
    int64_t now = rl_now_us();
    pthread_mutex_lock(&keeper->mutex);
    mark_expired(keeper, now);
    begin_due_pings(keeper, now);
    bool losses = first_lost(keeper) != NULL;
    watch_held(keeper, w);
    int64_t due = earlier(until_us, next_due(keeper));
    keeper->asleep_until_us = due;
    pthread_mutex_unlock(&keeper->mutex);
    if (losses)
        tell_losses(keeper);
    w->fds[0] = (struct pollfd){.fd = fd, .events = events};
    w->fds[1] = (struct pollfd){.fd = keeper->wake_fd, .events = POLLIN};
    poll_until(w, losses ? 0 : due);
    pthread_mutex_lock(&keeper->mutex);
    keeper->asleep_until_us = RL_NEVER;
    serve_ready(keeper, w);
    pthread_mutex_unlock(&keeper->mutex);
    eventfd_t ignored;
    if (w->fds[1].revents)
        eventfd_read(keeper->wake_fd, &ignored);
}

/* The keeper's way to wait in a statement of its own: it serves the others meanwhile. */
static rl_waited serve_while(void *self, int fd, short events, short *revents, int64_t until_us)
{
    rl_keeper *keeper = self;
    watch w = {0};
    rl_waited waited = RL_EXPIRED;
    if (!watch_room(&w, FIXED + 16))
        return RL_EXPIRED;
    for (;;) {
        /* A renewal that falls due does not wait for the history. */
        int64_t end_us = keeper->writing ? earlier(until_us, next_renewal(keeper)) : until_us;
        serve_once(keeper, &w, fd, events, end_us);
        if (w.fds[0].revents) {
            *revents = w.fds[0].revents;
            waited = RL_READY;
            break;
        }
        if (atomic_load(&keeper->stop)) {
            waited = RL_CANCELLED;
            break;
        }
        if (rl_now_us() >= end_us)
            break;
    }
    free(w.fds);
    free(w.keys);
    return waited;
}

/* ------------------------------------------------------------------------- renewing */

/* Leases that are due soon go along, so that equal TTLs come to be renewed together. */
static bool due_for_renewal(const rl_held *held, int64_t now)
{
    return !held->conn && !atomic_load(&held->lost) && held->next_beat_us != RL_NEVER &&
           held->next_beat_us - held->ttl_us / 6 <= now;
}

static int64_t next_renewal(rl_keeper *keeper)
{
    int64_t due = RL_NEVER;
    pthread_mutex_lock(&keeper->mutex);
    for (const rl_held *held = keeper->first; held; held = held->next)
        if (!held->conn && !atomic_load(&held->lost))
            due = earlier(due, held->next_beat_us);
    pthread_mutex_unlock(&keeper->mutex);
    if (due != RL_NEVER && due < keeper->renew_again_us)
        due = keeper->renew_again_us;
    return due;
}

/* A renewal that max_hold leaves no room for is the last: the lease runs out. */
static int64_t renewal_ttl(rl_held *held, int64_t now)
{
    int64_t left = held->end_us == RL_NEVER ? RL_NEVER : held->end_us - now;
    if (left >= held->ttl_us)
        return held->ttl_us;
    if (left > 2 * rl_margin_us(held->ttl_us))
        return left;
    held->next_beat_us = RL_NEVER;
    return 0;
}

/* With the mutex. From the highest key to the lowest. */
static size_t collect_due(rl_keeper *keeper, int64_t now, rl_renewal *renewals,
                          int64_t *first_deadline_us)
{
    size_t count = 0;
    *first_deadline_us = RL_NEVER;
    for (rl_held *held = keeper->first; held && count < RENEW_CHUNK; held = held->next) {
        if (!due_for_renewal(held, now))
            continue;
        int64_t ttl_us = renewal_ttl(held, now);
        if (ttl_us == 0)
            continue;
        renewals[count++] = (rl_renewal){.key = held->key,
                                         .resource_id = held->resource_id,
                                         .version = held->version,
                                         .ttl_us = ttl_us};
        snprintf(renewals[count - 1].owner, sizeof renewals->owner, "%s", held->owner);
        *first_deadline_us = earlier(*first_deadline_us, atomic_load(&held->deadline_us));
    }
    return count;
}

static void apply_renewals(rl_keeper *keeper, const rl_renewal *renewals, size_t count,
                           int64_t sent_us)
{
    pthread_mutex_lock(&keeper->mutex);
    size_t i = 0;
    for (rl_held *held = keeper->first; held && i < count; held = held->next) {
        while (i < count && renewals[i].key > held->key)
            i++;
        if (i == count || renewals[i].key != held->key || atomic_load(&held->lost))
            continue;
        bool last = renewals[i].ttl_us < held->ttl_us;
        if (!renewals[i].reached) {
            mark_lost(held, "it was taken away on the server (broken, or expired there)");
            continue;
        }
        rl_held_extend(held, sent_us, renewals[i].ttl_us);
        if (last)
            held->next_beat_us = RL_NEVER;
    }
    pthread_mutex_unlock(&keeper->mutex);
}

static void note_renewal(rl_keeper *keeper, rowlock_status status, const rowlock_error *err)
{
    if (status == ROWLOCK_OK) {
        if (keeper->renew_failures)
            rl_log_line(&keeper->log, ROWLOCK_LOG_INFO, "leases are renewed again");
        keeper->renew_failures = 0;
        keeper->renew_again_us = 0;
        return;
    }
    int64_t delay = RENEW_RETRY_MIN_US;
    for (unsigned i = 0; i < keeper->renew_failures && delay < RENEW_RETRY_MAX_US; i++)
        delay *= 2;
    if (keeper->renew_failures++ == 0)
        rl_log_line(&keeper->log, ROWLOCK_LOG_WARNING, "leases could not be renewed: %s",
                    err->message);
    keeper->renew_again_us = rl_now_us() + delay;
}

/*
 * A failed attempt must leave time for another before the first deadline; a server that
 * does not answer is given up for this attempt.
 */
static int64_t attempt_end(int64_t now, int64_t first_deadline_us)
{
    int64_t half = (first_deadline_us - now) / 2;
    return now + (half < 50000 ? 50000 : half);
}

static void renew_due(rl_keeper *keeper)
{
    rl_renewal *renewals = malloc(RENEW_CHUNK * sizeof *renewals);
    if (!renewals)
        return;
    int64_t now = rl_now_us();
    int64_t first_deadline_us;
    pthread_mutex_lock(&keeper->mutex);
    size_t count = collect_due(keeper, now, renewals, &first_deadline_us);
    pthread_mutex_unlock(&keeper->mutex);
    if (count > 0) {
        rowlock_error err = {0};
        rl_io io = {.wait = serve_while,
                    .self = keeper,
                    .deadline_us = attempt_end(now, first_deadline_us)};
        rowlock_status status = keeper->renew(keeper->pool, renewals, count, &io, &err);
        if (status == ROWLOCK_OK)
            apply_renewals(keeper, renewals, count, now);
        note_renewal(keeper, status, &err);
    }
    free(renewals);
}

/* ---------------------------------------------------------------------- the history */

static void write_history(rl_keeper *keeper)
{
    rowlock_error err = {0};
    rl_io io = {.wait = serve_while, .self = keeper, .deadline_us = rl_now_us() + 5000000};
    keeper->writing = true;
    rowlock_status status = rl_journal_write(keeper->journal, keeper->pool, &io, &err);
    keeper->writing = false;
    keeper->write_at_us = 0;
    if (status == ROWLOCK_OK)
        return;
    keeper->write_at_us = rl_now_us() + WRITE_RETRY_US;
    rl_log_line(&keeper->log, ROWLOCK_LOG_WARNING, "the history could not be written: %s",
                err.message);
}

static int64_t next_write(rl_keeper *keeper)
{
    if (rl_journal_empty(keeper->journal)) {
        keeper->write_at_us = 0;
        return RL_NEVER;
    }
    if (keeper->write_at_us == 0)
        keeper->write_at_us = rl_now_us() + WRITE_DELAY_US;
    return rl_journal_urgent(keeper->journal) && keeper->write_at_us - rl_now_us() <= WRITE_DELAY_US
               ? 0
               : keeper->write_at_us;
}

/* -------------------------------------------------------------------------- the thread */

static void keep(rl_keeper *keeper, watch *w)
{
    while (!atomic_load(&keeper->stop)) {
        int64_t write_at = next_write(keeper);
        int64_t renew_at = next_renewal(keeper);
        int64_t now = rl_now_us();
        if (now >= renew_at)
            renew_due(keeper);
        else if (now >= write_at)
            write_history(keeper);
        else
            serve_once(keeper, w, -1, 0, earlier(renew_at, write_at));
    }
}

static void *run(void *arg)
{
    rl_keeper *keeper = arg;
    watch w = {0};
    if (watch_room(&w, FIXED + 16))
        keep(keeper, &w);
    free(w.fds);
    free(w.keys);
    return NULL;
}

/* A host's signal handlers are not to run in this thread. */
static int create_without_signals(rl_keeper *keeper)
{
    sigset_t all;
    sigset_t was;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    int failed = pthread_create(&keeper->thread, NULL, run, keeper);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    return failed;
}

rowlock_status rl_keeper_start(rl_keeper *keeper, rl_pool *pool, rl_journal *journal,
                               rl_renew renew, rl_log log, rowlock_error *err)
{
    *keeper = (rl_keeper){
        .pool = pool, .journal = journal, .renew = renew, .log = log, .asleep_until_us = RL_NEVER};
    keeper->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (keeper->wake_fd < 0)
        return rl_fail(err, ROWLOCK_SYSTEM, "cannot make a descriptor for the keeper (error %d)",
                       errno);
    pthread_mutex_init(&keeper->mutex, NULL);
    pthread_cond_init(&keeper->told, NULL);
    int failed = create_without_signals(keeper);
    if (failed) {
        rl_keeper_stop(keeper, false);
        return rl_fail(err, ROWLOCK_SYSTEM, "cannot start the keeper thread (error %d)", failed);
    }
    keeper->running = true;
    return ROWLOCK_OK;
}

void rl_keeper_stop(rl_keeper *keeper, bool forked)
{
    if (!forked && keeper->running) {
        atomic_store(&keeper->stop, true);
        rl_keeper_wake(keeper);
        pthread_join(keeper->thread, NULL);
    }
    if (!forked) {
        pthread_cond_destroy(&keeper->told);
        pthread_mutex_destroy(&keeper->mutex);
    }
    close(keeper->wake_fd);
    keeper->running = false;
}

void rl_keeper_wake(rl_keeper *keeper)
{
    eventfd_write(keeper->wake_fd, 1);
}

void rl_keeper_add(rl_keeper *keeper, rl_held *held)
{
    pthread_mutex_lock(&keeper->mutex);
    held->key = ++keeper->last_key;
    held->previous = NULL;
    held->next = keeper->first;
    if (keeper->first)
        keeper->first->previous = held;
    keeper->first = held;
    /* A connection is to be watched from now on; a lease's beat is seldom the next. */
    bool wake = held->conn || keeper->asleep_until_us == RL_NEVER ||
                held->next_beat_us < keeper->asleep_until_us;
    pthread_mutex_unlock(&keeper->mutex);
    if (wake)
        rl_keeper_wake(keeper);
}

void rl_keeper_remove(rl_keeper *keeper, rl_held *held)
{
    pthread_mutex_lock(&keeper->mutex);
    while (keeper->telling == held && !pthread_equal(pthread_self(), keeper->thread))
        pthread_cond_wait(&keeper->told, &keeper->mutex);
    if (held->key)
        take_out(keeper, held);
    pthread_mutex_unlock(&keeper->mutex);
}
