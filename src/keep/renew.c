#include "keep/inside.h"

#include <stdio.h>
#include <stdlib.h>

#define RETRY_MIN_US 50000
#define RETRY_MAX_US 2000000
#define CHUNK        10000 /* leases in one statement: its parameter stays small */

/* How early a lease is renewed together with others, and how long it waits for another renewal: a
 * long TTL can wait long for a dead connection, a short one would lose its lock. */
static int64_t leeway(const rl_held *held)
{
    return held->ttl_us / 6;
}

static bool is_renewed(const rl_held *held)
{
    return held->next_beat_us != RL_NEVER;
}

/* Leases of a renewal that failed pause before the next attempt; others do not. */
int64_t rl_renew_due(const rl_keeper *keeper, const rl_held *held)
{
    const rl_renewing *r = &keeper->renewing;
    bool tried = r->crowded || held->attempt == r->attempts;
    if (!is_renewed(held))
        return RL_NEVER;
    if (r->under_way)
        return tried ? RL_NEVER : held->next_beat_us + leeway(held);
    return tried && held->next_beat_us < r->again_us ? r->again_us : held->next_beat_us;
}

/* Beyond max_hold there is no further renewal: the lease runs out. */
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

/* With the mutex. Takes along leases that are due soon, so that those with equal TTLs are renewed
 * together. */
static size_t collect_due(rl_keeper *keeper, int64_t now, int64_t *first_deadline_us)
{
    rl_renewing *r = &keeper->renewing;
    size_t count = 0;
    *first_deadline_us = RL_NEVER;
    r->attempts++;
    r->crowded = false;
    for (rl_held *held = keeper->leases.first; held && !r->crowded; held = held->next) {
        if (!is_renewed(held) || held->next_beat_us - leeway(held) > now)
            continue;
        int64_t ttl_us = renewal_ttl(held, now);
        r->crowded = ttl_us != 0 && count == r->capacity;
        if (ttl_us == 0 || r->crowded)
            continue;
        held->attempt = r->attempts;
        held->slot = count;
        rl_renewal *renewal = &r->list[count++];
        *renewal = (rl_renewal){.resource_id = held->resource_id,
                                .version = held->version,
                                .identity = held->identity,
                                .ttl_us = ttl_us,
                                .kept = held->kept};
        snprintf(renewal->owner, sizeof renewal->owner, "%s", held->owner);
        *first_deadline_us = rl_earlier(*first_deadline_us, atomic_load(&held->deadline_us));
    }
    return count;
}

/* With the mutex. Leases that are not known to be renewed are still due. */
static void apply(rl_keeper *keeper, rl_held *held, int64_t sent_us)
{
    const rl_renewal *renewal = &keeper->renewing.list[held->slot];
    if (renewal->held && held->ask_count > 0)
        rl_ask_note(keeper, &held->asks[0], renewal->ask_number);
    if (renewal->held && renewal->renewed)
        rl_extend_in_time(keeper, held, renewal->sent_us ? renewal->sent_us : sent_us,
                          renewal->ttl_us);
    else if (renewal->held && held->kept == RL_KEPT_ITEM) /* a transaction has locked it */
        held->next_beat_us = rl_now_us() + RETRY_MIN_US;
    else if (!renewal->held)
        rl_mark_lost(keeper, held,
                     renewal->moved ? RL_MOVED
                                    : "it was taken away on the server (broken, or expired there)");
    if (renewal->renewed && renewal->ttl_us < held->ttl_us) /* the last */
        held->next_beat_us = RL_NEVER;
    else if (renewal->again_us)
        held->next_beat_us = renewal->again_us;
}

static void apply_renewals(rl_keeper *keeper, int64_t sent_us)
{
    pthread_mutex_lock(&keeper->mutex);
    for (rl_held *next, *held = keeper->leases.first; held; held = next) {
        next = held->next;
        if (held->attempt == keeper->renewing.attempts)
            apply(keeper, held, sent_us);
    }
    pthread_mutex_unlock(&keeper->mutex);
}

/* An attempt may use half of the time until the first deadline, a pause a quarter. */
static int64_t part_of(int64_t left_us, int divisor)
{
    int64_t part = left_us / divisor;
    return part < RETRY_MIN_US ? RETRY_MIN_US : part;
}

static int64_t retry_delay(unsigned failures, int64_t left_us)
{
    int64_t delay = RETRY_MIN_US;
    for (unsigned i = 0; i < failures && delay < RETRY_MAX_US; i++)
        delay *= 2;
    return rl_earlier(delay, part_of(left_us, 4));
}

static void note_renewal(rl_keeper *keeper, rowlock_status status, int64_t first_deadline_us,
                         const rowlock_error *err)
{
    rl_renewing *r = &keeper->renewing;
    if (status == ROWLOCK_OK) {
        if (r->failures)
            rl_log_line(&keeper->log, ROWLOCK_LOG_INFO, "leases are renewed again");
        r->failures = 0;
        r->again_us = 0;
        return;
    }
    int64_t now = rl_now_us();
    r->again_us = now + retry_delay(r->failures, first_deadline_us - now);
    if (r->failures++ == 0)
        rl_log_line(&keeper->log, ROWLOCK_LOG_WARNING, "leases could not be renewed: %s",
                    err->message);
}

/* If there is no memory for all at once, they are renewed a few at a time. */
static void make_room(rl_keeper *keeper)
{
    rl_renewing *r = &keeper->renewing;
    size_t need = 0;
    pthread_mutex_lock(&keeper->mutex);
    for (const rl_held *held = keeper->leases.first; held && need < CHUNK; held = held->next)
        need += is_renewed(held);
    pthread_mutex_unlock(&keeper->mutex);
    if (need <= r->capacity)
        return;
    size_t capacity = need * 2 < CHUNK ? need * 2 : CHUNK;
    rl_renewal *few = r->list;
    rl_renewal *more = malloc(capacity * sizeof *more);
    if (!more)
        return;
    r->list = more;
    r->capacity = capacity;
    free(few);
}

/* From now on, or no longer; what is due is looked up again. */
static size_t set_under_way(rl_keeper *keeper, bool under_way, int64_t now, int64_t *deadline_us)
{
    pthread_mutex_lock(&keeper->mutex);
    size_t count = under_way ? collect_due(keeper, now, deadline_us) : 0;
    keeper->renewing.under_way = count > 0;
    keeper->renew_at_us = RL_NEVER;
    keeper->due_us = 0;
    pthread_mutex_unlock(&keeper->mutex);
    return count;
}

/* A server that does not answer is given up for this attempt; there must be time for another. */
void rl_renew_now(rl_keeper *keeper, const rl_io *how)
{
    int64_t now = rl_now_us();
    int64_t first_deadline_us = RL_NEVER;
    make_room(keeper);
    size_t count = set_under_way(keeper, true, now, &first_deadline_us);
    if (count == 0)
        return;
    rowlock_error err = {0};
    rl_io io = *how;
    io.deadline_us = now + part_of(first_deadline_us - now, 2);
    rowlock_status status =
        keeper->keeping.renew(keeper->pool, keeper->renewing.list, count, &io, &err);
    if (status == ROWLOCK_OK)
        apply_renewals(keeper, now);
    note_renewal(keeper, status, first_deadline_us, &err);
    (void)set_under_way(keeper, false, now, &first_deadline_us);
}
