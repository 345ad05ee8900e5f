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
#define PROBE_AGAIN_US     50000
#define MARGIN_MIN_US      20000
#define MARGIN_MAX_US      1000000
#define DRIFT_PART         2000  /* two clocks may differ by one part in so many: 500 ppm */
#define RENEW_CHUNK        10000 /* leases in one statement: its parameter stays small */
#define TURN_US            10000 /* for some of the connections, when there is no room for all */
#define WATCH_AFTER_US     50000 /* a row lock younger than this is not yet watched */
#define FEW                16 /* what there is room for from the start, whatever memory is left */

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

static int64_t deadline_of(const rl_held *held, int64_t sent_us, int64_t ttl_us)
{
    return sent_us + ttl_us - rl_margin_us(held->ttl_us);
}

void rl_held_extend(rl_held *held, int64_t sent_us, int64_t ttl_us)
{
    atomic_store(&held->deadline_us, deadline_of(held, sent_us, ttl_us));
    held->next_beat_us = sent_us + held->ttl_us / 3;
}

/* Either its holder finds it over, or the keeper prolongs it: the one who comes first decides. */
bool rl_held_over(rl_held *held)
{
    int_fast64_t deadline = atomic_load(&held->deadline_us);
    while (deadline && rl_now_us() >= deadline)
        if (atomic_compare_exchange_weak(&held->deadline_us, &deadline, 0))
            return true;
    return deadline == 0;
}

/* False: it is over. */
static bool prolong(rl_held *held, int64_t sent_us, int64_t ttl_us)
{
    int_fast64_t was = atomic_load(&held->deadline_us);
    held->next_beat_us = sent_us + held->ttl_us / 3;
    while (was && rl_now_us() < was)
        if (atomic_compare_exchange_weak(&held->deadline_us, &was,
                                         deadline_of(held, sent_us, ttl_us)))
            return true;
    return false;
}

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ------------------------------------------------------------------------- the lists */

static void put_first(rl_held_list *list, rl_held *held)
{
    held->list = list;
    held->previous = NULL;
    held->next = list->first;
    if (list->first)
        list->first->previous = held;
    else
        list->last = held;
    list->first = held;
}

static void put_last(rl_held_list *list, rl_held *held)
{
    held->list = list;
    held->next = NULL;
    held->previous = list->last;
    if (list->last)
        list->last->next = held;
    else
        list->first = held;
    list->last = held;
}

static void take_out(rl_held *held)
{
    rl_held_list *list = held->list;
    if (held->previous)
        held->previous->next = held->next;
    else
        list->first = held->next;
    if (held->next)
        held->next->previous = held->previous;
    else
        list->last = held->previous;
    held->next = held->previous = NULL;
    held->list = NULL;
}

/* ------------------------------------------------------------------------ the losses */

/* With the mutex. Whoever looks at the hold sees it at once; the callback comes later. */
static void mark_lost(rl_keeper *keeper, rl_held *held, const char *reason)
{
    snprintf(held->reason, sizeof held->reason, "%s", reason);
    atomic_store(&held->deadline_us, 0);
    atomic_store(&held->lost, true);
    int fd = atomic_load(&held->event_fd);
    if (fd >= 0)
        eventfd_write(fd, 1);
    take_out(held);
    put_last(&keeper->losses, held);
}

static const char *why_expired(const rl_held *held, int64_t now)
{
    if (held->conn)
        return "the server did not answer a ping in time";
    return now >= held->end_us - rl_margin_us(held->ttl_us)
               ? "it was held for as long as max_hold allows"
               : "it could not be renewed in time";
}

/* LOST is final: who asked since the deadline has heard it, although the server's answer, read too
 * late (the process was stopped), says that the lock was kept. */
static void extend_in_time(rl_keeper *keeper, rl_held *held, int64_t sent_us, int64_t ttl_us)
{
    if (!prolong(held, sent_us, ttl_us))
        mark_lost(keeper, held, why_expired(held, rl_now_us()));
}

static void mark_expired(rl_keeper *keeper, const rl_held_list *list, int64_t now)
{
    for (rl_held *next, *held = list->first; held; held = next) {
        next = held->next;
        if (now >= atomic_load(&held->deadline_us))
            mark_lost(keeper, held, why_expired(held, now));
    }
}

/*
 * With the mutex. New connections lead to another server: what an earlier one granted does not
 * count there, and who holds it is told before its next renewal would have found out. A row lock
 * is its node's alone, in a cluster too.
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
            mark_lost(keeper, held, RL_MOVED);
    }
    for (rl_held *next, *held = keeper->rows.first; held; held = next) {
        next = held->next;
        if (!rl_pool_is_current(keeper->pool, &held->conn->server, true))
            mark_lost(keeper, held, RL_MOVED);
    }
}

/* ------------------------------------------------------------------ telling of losses */

/*
 * With the mutex, which it gives up during the callback. The hold is out of our care then
 * and may be gone when the callback returns; rl_keeper_remove() waits for `telling`.
 */
static void tell_one(rl_keeper *keeper, rl_held *held)
{
    take_out(held);
    keeper->telling = held->key;
    keeper->telling_thread = pthread_self();
    char reason[sizeof held->reason];
    snprintf(reason, sizeof reason, "%s", held->reason);
    pthread_mutex_unlock(&keeper->mutex);
    held->on_lost(held, reason);
    pthread_mutex_lock(&keeper->mutex);
    keeper->telling = 0;
    pthread_cond_broadcast(&keeper->told);
}

static void tell_all(rl_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    while (keeper->losses.first && !keeper->silent)
        tell_one(keeper, keeper->losses.first);
    keeper->teller_busy = false;
    pthread_mutex_unlock(&keeper->mutex);
}

static void *run_teller(void *arg)
{
    pthread_setname_np(pthread_self(), "rowlock-teller");
    tell_all(arg);
    return NULL;
}

/* A host's signal handlers are not to run in a thread of ours. */
static int create_without_signals(pthread_t *thread, void *(*function)(void *), void *arg)
{
    sigset_t all;
    sigset_t was;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    int failed = pthread_create(thread, NULL, function, arg);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    return failed;
}

/* With the mutex: is there somebody to tell, and nobody to do it? Then it is to be done. */
static bool teller_missing(rl_keeper *keeper)
{
    bool missing = keeper->losses.first && !keeper->silent && !keeper->teller_busy;
    if (missing)
        keeper->teller_busy = true;
    return missing;
}

/* In the keeper, without the mutex. An earlier teller has nothing left to do. */
static void join_teller(rl_keeper *keeper)
{
    if (keeper->teller_made)
        pthread_join(keeper->teller, NULL);
    keeper->teller_made = false;
}

/* Without a thread for it, late is better than never. */
static void send_teller(rl_keeper *keeper)
{
    join_teller(keeper);
    keeper->teller_made = create_without_signals(&keeper->teller, run_teller, keeper) == 0;
    if (!keeper->teller_made)
        tell_all(keeper);
}

/* -------------------------------------------------------------------- held connections */

static void ping_over(rl_keeper *keeper, rl_held *held)
{
    rl_pong pong = held->conn->pong;
    if (pong == RL_PONG_NONE || pong == RL_PONG_DEMOTED) {
        mark_lost(keeper, held,
                  pong == RL_PONG_DEMOTED
                      ? "the server has become read-only: another is the primary"
                      : "the connection that holds it has ended");
        return;
    }
    /* It came to us when new connections led elsewhere already. */
    if (!rl_pool_is_current(keeper->pool, &held->conn->server, true)) {
        mark_lost(keeper, held, RL_MOVED);
        return;
    }
    /* It lives, but may hold a lock at a server that is the primary no more: asked again. */
    if (pong == RL_PONG_STOPPED) {
        held->next_beat_us = rl_now_us() + PROBE_AGAIN_US;
        keeper->due_us = earlier(keeper->due_us, held->next_beat_us);
        return;
    }
    extend_in_time(keeper, held, held->ping_sent_us, held->ttl_us);
    keeper->due_us = earlier(keeper->due_us, held->next_beat_us);
}

static void begin_due_pings(rl_keeper *keeper, int64_t now)
{
    for (rl_held *next, *held = keeper->rows.first; held; held = next) {
        next = held->next;
        if (held->conn->ping_pending || now < held->next_beat_us)
            continue;
        held->ping_sent_us = now;
        held->next_beat_us = RL_NEVER;
        if (rl_conn_probe_begin(held->conn))
            ping_over(keeper, held);
    }
}

/* An idle connection has something to say: the server ended it. */
static void serve_connection(rl_keeper *keeper, rl_held *held, short revents)
{
    if (held->conn->ping_pending) {
        if (rl_conn_ping_resume(held->conn, revents))
            ping_over(keeper, held);
    } else if (!rl_conn_looks_alive(held->conn)) {
        held->conn->broken = true;
        mark_lost(keeper, held, "the server ended the connection that holds it");
    }
}

#define FIXED 2 /* descriptors of a watch that are no held connection's */

/*
 * Keeps what there is when there is no memory for more. Not with realloc(): the child of a
 * fork() at any moment must find pointers that it can free.
 */
static bool watch_room(rl_watch *w, size_t need)
{
    rl_watch was = *w;
    size_t capacity = need * 2;
    struct pollfd *fds = malloc(capacity * sizeof *fds);
    uint64_t *keys = malloc(capacity * sizeof *keys);
    if (!fds || !keys) {
        free(fds);
        free(keys);
        return false;
    }
    for (size_t i = 0; i < was.count; i++) {
        fds[i] = was.fds[i];
        keys[i] = was.keys[i];
    }
    w->fds = fds;
    w->keys = keys;
    w->capacity = capacity;
    free(was.fds);
    free(was.keys);
    return true;
}

/*
 * With the mutex. Those that are held for a short time only are in no watch, so that neither
 * their coming and going nor their replies wake the keeper. Where there is no room for all,
 * those that follow have the next turn. Returns when the next watch is due.
 */
static int64_t watch_held(rl_keeper *keeper, int64_t now)
{
    rl_watch *w = &keeper->watch;
    int64_t again_us = RL_NEVER;
    w->count = w->wanted = FIXED;
    for (const rl_held *held = keeper->rows.first; held; held = held->next) {
        if (now < held->watch_from_us && !held->conn->ping_pending) {
            again_us = earlier(again_us, held->watch_from_us);
            continue;
        }
        w->wanted++;
        if (held->key >= w->below || w->count == w->capacity)
            continue;
        short events = held->conn->ping_pending ? rl_conn_ping_events(held->conn) : POLLIN;
        w->fds[w->count] = (struct pollfd){.fd = rl_conn_fd(held->conn), .events = events};
        w->keys[w->count++] = held->key;
    }
    bool all = w->count == w->wanted;
    w->below = !all && w->count == w->capacity ? w->keys[w->count - 1] : UINT64_MAX;
    return all ? again_us : earlier(again_us, now + TURN_US);
}

/*
 * With the mutex. A hold may have come or gone since; the list runs from the highest key
 * to the lowest, and so does the watch.
 */
static void serve_ready(rl_keeper *keeper)
{
    const rl_watch *w = &keeper->watch;
    size_t i = FIXED;
    for (rl_held *next, *held = keeper->rows.first; held && i < w->count; held = next) {
        next = held->next;
        while (i < w->count && w->keys[i] > held->key)
            i++;
        if (i < w->count && w->keys[i] == held->key && w->fds[i].revents)
            serve_connection(keeper, held, w->fds[i].revents);
    }
}

/* With the mutex: when a deadline or a ping is due next. */
static int64_t next_due(const rl_keeper *keeper)
{
    int64_t due = RL_NEVER;
    for (const rl_held *held = keeper->leases.first; held; held = held->next)
        due = earlier(due, atomic_load(&held->deadline_us));
    for (const rl_held *held = keeper->rows.first; held; held = held->next)
        due = earlier(due, earlier(atomic_load(&held->deadline_us), held->next_beat_us));
    return due;
}

/* With the mutex. Only when something may be due is each one looked at: there may be many. */
static void serve_due(rl_keeper *keeper, int64_t now)
{
    if (now < keeper->due_us)
        return;
    mark_expired(keeper, &keeper->leases, now);
    mark_expired(keeper, &keeper->rows, now);
    begin_due_pings(keeper, now);
    keeper->due_us = next_due(keeper);
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
    bool losses = teller_missing(keeper);
    if (now >= keeper->watch_us)
        keeper->watch_us = RL_NEVER;
    keeper->watch_us = earlier(keeper->watch_us, watch_held(keeper, now));
    int64_t due = earlier(keeper->watch_us, earlier(until_us, keeper->due_us));
    keeper->asleep_until_us = due;
    pthread_mutex_unlock(&keeper->mutex);
    if (losses)
        send_teller(keeper);
    bool grown = w->wanted > w->capacity && watch_room(w, w->wanted);
    w->fds[0] = (struct pollfd){.fd = fd, .events = events};
    w->fds[1] = (struct pollfd){.fd = keeper->wake_fd, .events = POLLIN};
    poll_until(w, losses || grown ? 0 : due);
    pthread_mutex_lock(&keeper->mutex);
    keeper->asleep_until_us = 0;
    serve_ready(keeper);
    pthread_mutex_unlock(&keeper->mutex);
    eventfd_t ignored;
    if (w->fds[1].revents)
        eventfd_read(keeper->wake_fd, &ignored);
}

static int64_t next_renewal(rl_keeper *keeper);
static int64_t others_overdue(rl_keeper *keeper);

/* A renewal that falls due does not wait for the history, nor long for another renewal. */
static int64_t statement_end(rl_keeper *keeper, int64_t until_us)
{
    if (keeper->writing)
        return earlier(until_us, next_renewal(keeper));
    if (keeper->renewing)
        return earlier(until_us, others_overdue(keeper));
    return until_us;
}

/* The keeper's way to wait in a statement of its own: it serves the others meanwhile. */
static rl_waited serve_while(void *self, int fd, short events, short *revents, int64_t until_us)
{
    rl_keeper *keeper = self;
    for (;;) {
        int64_t end_us = statement_end(keeper, until_us);
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

/* ------------------------------------------------------------------------- renewing */

/* How early a lease goes along with others, and how long it lets another renewal finish. */
static int64_t leeway(const rl_held *held)
{
    return held->ttl_us / 6;
}

static bool is_renewed(const rl_held *held)
{
    return held->next_beat_us != RL_NEVER;
}

/* Leases that are due soon go along, so that equal TTLs come to be renewed together. */
static bool due_for_renewal(const rl_held *held, int64_t now)
{
    return is_renewed(held) && held->next_beat_us - leeway(held) <= now;
}

/* With the mutex. What was in a renewal that failed waits for a while; what was not does not. */
static int64_t first_renewal(const rl_keeper *keeper)
{
    int64_t due = RL_NEVER;
    for (const rl_held *held = keeper->leases.first; held; held = held->next) {
        if (!is_renewed(held))
            continue;
        bool tried = keeper->crowded || held->attempt == keeper->attempts;
        bool waits = tried && held->next_beat_us < keeper->renew_again_us;
        due = earlier(due, waits ? keeper->renew_again_us : held->next_beat_us);
    }
    return due;
}

/* Each one is looked at only when a renewal may be due, as in serve_due(). */
static int64_t next_renewal(rl_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    if (rl_now_us() >= keeper->renewal_us)
        keeper->renewal_us = first_renewal(keeper);
    int64_t due = keeper->renewal_us;
    pthread_mutex_unlock(&keeper->mutex);
    return due;
}

/*
 * Until when the leases that are not in the running renewal can do without one. A long TTL
 * has much patience with a dead connection; a short one must not lose its lock by that.
 */
static int64_t others_overdue(rl_keeper *keeper)
{
    int64_t due = RL_NEVER;
    pthread_mutex_lock(&keeper->mutex);
    for (const rl_held *held = keeper->leases.first; held && !keeper->crowded; held = held->next)
        if (is_renewed(held) && held->attempt != keeper->attempts)
            due = earlier(due, held->next_beat_us + leeway(held));
    pthread_mutex_unlock(&keeper->mutex);
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
static size_t collect_due(rl_keeper *keeper, int64_t now, int64_t *first_deadline_us)
{
    size_t count = 0;
    *first_deadline_us = RL_NEVER;
    keeper->attempts++;
    keeper->crowded = false;
    keeper->renewal_us = 0; /* its outcome decides */
    for (rl_held *held = keeper->leases.first; held; held = held->next) {
        if (!due_for_renewal(held, now))
            continue;
        int64_t ttl_us = renewal_ttl(held, now);
        if (ttl_us == 0)
            continue;
        keeper->crowded = count == keeper->renewals_capacity;
        if (keeper->crowded)
            break;
        held->attempt = keeper->attempts;
        rl_renewal *renewal = &keeper->renewals[count++];
        *renewal = (rl_renewal){.key = held->key,
                                .resource_id = held->resource_id,
                                .version = held->version,
                                .identity = held->identity,
                                .ttl_us = ttl_us};
        snprintf(renewal->owner, sizeof renewal->owner, "%s", held->owner);
        *first_deadline_us = earlier(*first_deadline_us, atomic_load(&held->deadline_us));
    }
    return count;
}

static void apply_renewals(rl_keeper *keeper, size_t count, int64_t sent_us)
{
    const rl_renewal *renewals = keeper->renewals;
    pthread_mutex_lock(&keeper->mutex);
    size_t i = 0;
    for (rl_held *next, *held = keeper->leases.first; held && i < count; held = next) {
        next = held->next;
        while (i < count && renewals[i].key > held->key)
            i++;
        if (i == count || renewals[i].key != held->key)
            continue;
        if (!renewals[i].held) {
            mark_lost(keeper, held,
                      renewals[i].moved
                          ? RL_MOVED
                          : "it was taken away on the server (broken, or expired there)");
            continue;
        }
        if (!renewals[i].renewed)
            continue; /* it is still due, and the next attempt's */
        extend_in_time(keeper, held, sent_us, renewals[i].ttl_us);
        keeper->due_us = earlier(keeper->due_us, atomic_load(&held->deadline_us));
        if (renewals[i].ttl_us < held->ttl_us) /* the last */
            held->next_beat_us = RL_NEVER;
    }
    pthread_mutex_unlock(&keeper->mutex);
}

/* Of what is left until the first deadline, an attempt may use a half and a pause a quarter. */
static int64_t part_of(int64_t left_us, int divisor)
{
    int64_t part = left_us / divisor;
    return part < RENEW_RETRY_MIN_US ? RENEW_RETRY_MIN_US : part;
}

static int64_t retry_delay(unsigned failures, int64_t left_us)
{
    int64_t delay = RENEW_RETRY_MIN_US;
    for (unsigned i = 0; i < failures && delay < RENEW_RETRY_MAX_US; i++)
        delay *= 2;
    return earlier(delay, part_of(left_us, 4));
}

static void note_renewal(rl_keeper *keeper, rowlock_status status, int64_t first_deadline_us,
                         const rowlock_error *err)
{
    if (status == ROWLOCK_OK) {
        if (keeper->renew_failures)
            rl_log_line(&keeper->log, ROWLOCK_LOG_INFO, "leases are renewed again");
        keeper->renew_failures = 0;
        keeper->renew_again_us = 0;
        return;
    }
    int64_t now = rl_now_us();
    keeper->renew_again_us = now + retry_delay(keeper->renew_failures, first_deadline_us - now);
    if (keeper->renew_failures++ == 0)
        rl_log_line(&keeper->log, ROWLOCK_LOG_WARNING, "leases could not be renewed: %s",
                    err->message);
}

/* Without memory for all, they are renewed a few at a time. */
static void make_room_for_renewals(rl_keeper *keeper)
{
    size_t need = 0;
    pthread_mutex_lock(&keeper->mutex);
    for (const rl_held *held = keeper->leases.first; held && need < RENEW_CHUNK; held = held->next)
        need += is_renewed(held);
    pthread_mutex_unlock(&keeper->mutex);
    if (need <= keeper->renewals_capacity)
        return;
    size_t capacity = need * 2 < RENEW_CHUNK ? need * 2 : RENEW_CHUNK;
    rl_renewal *few = keeper->renewals;
    rl_renewal *more = malloc(capacity * sizeof *more);
    if (!more)
        return;
    keeper->renewals = more;
    keeper->renewals_capacity = capacity;
    free(few);
}

/* A server that does not answer is given up for this attempt; there must be time for another. */
static void renew_due(rl_keeper *keeper)
{
    int64_t now = rl_now_us();
    int64_t first_deadline_us;
    make_room_for_renewals(keeper);
    pthread_mutex_lock(&keeper->mutex);
    size_t count = collect_due(keeper, now, &first_deadline_us);
    pthread_mutex_unlock(&keeper->mutex);
    if (count == 0)
        return;
    rowlock_error err = {0};
    rl_io io = {.wait = serve_while,
                .self = keeper,
                .deadline_us = now + part_of(first_deadline_us - now, 2)};
    keeper->renewing = true;
    rowlock_status status = keeper->renew(keeper->pool, keeper->renewals, count, &io, &err);
    keeper->renewing = false;
    if (status == ROWLOCK_OK)
        apply_renewals(keeper, count, now);
    note_renewal(keeper, status, first_deadline_us, &err);
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
    rl_journal_log_dropped(keeper->journal, &keeper->log);
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

static void *run(void *arg)
{
    /* Whoever looks at the host's threads is to see whose this is. */
    pthread_setname_np(pthread_self(), "rowlock-keeper");
    rl_keeper *keeper = arg;
    while (!atomic_load(&keeper->stop)) {
        int64_t write_at = next_write(keeper);
        int64_t renew_at = next_renewal(keeper);
        int64_t now = rl_now_us();
        if (now >= renew_at)
            renew_due(keeper);
        else if (now >= write_at)
            write_history(keeper);
        else
            serve_once(keeper, -1, 0, earlier(renew_at, write_at));
    }
    return NULL;
}

/* The thread must be able to work whatever becomes of memory later. */
static bool make_room(rl_keeper *keeper)
{
    keeper->renewals = malloc(FEW * sizeof *keeper->renewals);
    keeper->renewals_capacity = keeper->renewals ? FEW : 0;
    keeper->watch.below = UINT64_MAX;
    return watch_room(&keeper->watch, FIXED + FEW) && keeper->renewals;
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
    if (!make_room(keeper))
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    int failed = create_without_signals(&keeper->thread, run, keeper);
    if (failed)
        return rl_fail(err, ROWLOCK_SYSTEM, "cannot start the keeper thread (error %d)", failed);
    keeper->running = true;
    return ROWLOCK_OK;
}

rowlock_status rl_keeper_start(rl_keeper *keeper, rl_pool *pool, rl_journal *journal,
                               rl_renew renew, rl_log log, rowlock_error *err)
{
    *keeper = (rl_keeper){.pool = pool,
                          .journal = journal,
                          .renew = renew,
                          .log = log,
                          .identity = atomic_load(&pool->identity),
                          .node = atomic_load(&pool->node),
                          .due_us = RL_NEVER,
                          .watch_us = RL_NEVER};
    pool->moved_data = keeper;
    pool->moved = wake_for_move;
    pthread_mutex_init(&keeper->mutex, NULL);
    pthread_cond_init(&keeper->told, NULL);
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
    join_teller(keeper);
}

void rl_keeper_stop(rl_keeper *keeper, bool forked)
{
    if (!forked && keeper->running)
        stop_threads(keeper);
    keeper->pool->moved = NULL;
    if (!forked) {
        pthread_cond_destroy(&keeper->told);
        pthread_mutex_destroy(&keeper->mutex);
    }
    free(keeper->watch.fds);
    free(keeper->watch.keys);
    free(keeper->renewals);
    if (keeper->wake_fd >= 0)
        close(keeper->wake_fd);
    keeper->running = false;
}

void rl_keeper_silence(rl_keeper *keeper)
{
    pthread_mutex_lock(&keeper->mutex);
    keeper->silent = true;
    while (keeper->telling)
        pthread_cond_wait(&keeper->told, &keeper->mutex);
    pthread_mutex_unlock(&keeper->mutex);
}

void rl_keeper_wake(rl_keeper *keeper)
{
    eventfd_write(keeper->wake_fd, 1);
}

/* With the mutex. Must the keeper, asleep, be woken for it? Awake, it sees a row lock before it
 * sleeps again; when the next renewal is due it may have looked up already. */
static bool add_row(rl_keeper *keeper, rl_held *held)
{
    put_first(&keeper->rows, held);
    held->watch_from_us = rl_now_us() + WATCH_AFTER_US;
    keeper->watch_us = earlier(keeper->watch_us, held->watch_from_us);
    keeper->due_us = earlier(keeper->due_us, held->next_beat_us);
    return earlier(keeper->watch_us, keeper->due_us) < keeper->asleep_until_us;
}

static bool add_lease(rl_keeper *keeper, rl_held *held)
{
    put_first(&keeper->leases, held);
    keeper->due_us = earlier(keeper->due_us, atomic_load(&held->deadline_us));
    keeper->renewal_us = earlier(keeper->renewal_us, held->next_beat_us);
    return keeper->asleep_until_us == 0 || held->next_beat_us < keeper->asleep_until_us;
}

void rl_keeper_add(rl_keeper *keeper, rl_held *held)
{
    pthread_mutex_lock(&keeper->mutex);
    held->key = ++keeper->last_key;
    bool wake = held->conn ? add_row(keeper, held) : add_lease(keeper, held);
    pthread_mutex_unlock(&keeper->mutex);
    if (wake)
        rl_keeper_wake(keeper);
}

/* With the mutex: from another thread, that is. The callback itself may remove its hold. */
static bool is_being_told(const rl_keeper *keeper, const rl_held *held)
{
    return keeper->telling && keeper->telling == held->key &&
           !pthread_equal(pthread_self(), keeper->telling_thread);
}

bool rl_keeper_remove(rl_keeper *keeper, rl_held *held)
{
    pthread_mutex_lock(&keeper->mutex);
    while (is_being_told(keeper, held))
        pthread_cond_wait(&keeper->told, &keeper->mutex);
    bool untold = held->list == &keeper->losses;
    if (held->list)
        take_out(held);
    pthread_mutex_unlock(&keeper->mutex);
    return untold;
}
