/*
 * Release: one statement of the driver frees the row by owner and version. If no row matched, the
 * lock was lost, unless an earlier request of ours, whose reply was lost, has freed it, or the
 * statement was stopped.
 */
#include <inttypes.h>

#include "engine/acquire.h"
#include "wait/backoff.h"

#define LOST_LIMIT_MS 1000 /* for the release of a lock that is lost already */

static rowlock_status not_ours(const rl_departure *d, rowlock_error *err)
{
    const rl_lock *lock = &d->hold->locks[0];
    d->driver->reopen(d);
    return rl_fail(err, ROWLOCK_LOST,
                   "'%s' was no longer held (token %" PRIu64
                   "): it had been broken, or its time was over",
                   lock->name, lock->version);
}

/* A reader's row, which its driver has looked for. */
static rowlock_status no_reader(const rl_departure *d, rowlock_error *err)
{
    /* Before its deadline only a break deletes a reader's row. */
    if (d->tried == RL_NOT_TRIED || rl_hold_lost(d->hold))
        return not_ours(d, err);
    d->driver->reopen(d);
    return ROWLOCK_OK;
}

/* No row matched. An earlier request, whose reply was lost, may have freed it; or somebody has
 * stopped this one, to which MariaDB 11.8 may say OK (docs/notes/keeper.md). */
static rowlock_status no_row(const rl_departure *d, rowlock_error *err)
{
    const rowlock_hold *hold = d->hold;
    const rl_lock *lock = &hold->locks[0];
    rl_seen seen;
    if (d->driver->shared)
        return no_reader(d, err);
    RL_TRY(rl_look(hold->client, d->budget, lock->id, lock->name, d->driver->kind, hold->owner,
                   &seen, err));
    bool found = seen.verdict != RL_VERDICT_GONE;
    bool held = rl_seen_status_held(&seen);
    if (held && seen.ours && seen.version == lock->version)
        return ROWLOCK_UNAVAILABLE; /* it was stopped: again */
    if (d->tried == RL_NOT_TRIED)
        return not_ours(d, err);
    if (found && !held && seen.version == lock->version && seen.last_ours)
        return ROWLOCK_OK;
    if (d->tried == RL_TRIED_TOGETHER)
        return not_ours(d, err);
    /* Before our deadline no client could take it over. A break would have left our owner there. */
    bool in_time = !rl_hold_lost(hold);
    bool handed_over = seen.version > lock->version && d->waived;
    if (handed_over || (in_time && found && seen.version == lock->version + 1 && !seen.last_ours))
        return ROWLOCK_OK;
    if (in_time && (!found || seen.version > lock->version + 1))
        return rl_fail(err, ROWLOCK_UNKNOWN,
                       "'%s' (token %" PRIu64 ") was released or broken; others have had it since",
                       lock->name, lock->version);
    return not_ours(d, err);
}

/* On the connection that has the bell, if it is idle. */
static rowlock_status leave(rl_departure *d, rl_done *done, rowlock_error *err)
{
    rowlock_hold *hold = d->hold;
    rl_pool *pool = &hold->client->pool;
    rl_conn *conn = rl_bell_connection(&hold->client->bells, &hold->bell);
    bool has_bell = conn;
    rl_io io = rl_budget_quick_io(d->budget);
    if (!has_bell)
        RL_TRY(rl_pool_take(pool, NULL, &io, &conn, err));
    rowlock_status status;
    if (conn->server.identity == hold->held.identity)
        status = d->driver->leave(d, conn, has_bell, done, err);
    else
        /* Another server answers: its row, which may be a copy of ours, is not to be touched. */
        status = rl_fail(err, ROWLOCK_LOST, "'%s' was lost: " RL_MOVED, hold->locks[0].name);
    /* A procedure may have committed before somebody stopped it. */
    if (status == ROWLOCK_UNAVAILABLE && !conn->broken)
        d->tried = RL_TRIED_UNANSWERED;
    rl_pool_give(pool, conn);
    /* It was waiting for the row when we stopped it; the server's own limit gives BUSY, too. */
    if (status == ROWLOCK_TIMEOUT)
        return ROWLOCK_BUSY;
    return status;
}

static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    (void)hint_us;
    rl_departure *d = data;
    rl_done done = {0};
    rowlock_status status = leave(d, &done, err);
    if (status == ROWLOCK_UNKNOWN) {
        d->tried = RL_TRIED_UNANSWERED;
        return ROWLOCK_UNAVAILABLE;
    }
    if (status == ROWLOCK_BUSY)
        return rl_fail(
            err, ROWLOCK_BUSY,
            "'%s': a transaction that fenced it is still open; commit it before the release",
            d->hold->locks[0].name);
    if (status != ROWLOCK_OK || done.rows > 0)
        return status;
    return no_row(d, err);
}

/*
 * Until the lock would end by itself, and no longer than a call may take. A lock that is lost
 * already is released for the next holder's sake: one short attempt.
 */
static rl_budget release_budget(const rowlock_hold *hold)
{
    int64_t left_ms = (atomic_load(&hold->held.deadline_us) - rl_now_us()) / 1000;
    int64_t limit_ms = hold->client->limit_ms;
    if (atomic_load(&hold->held.lost))
        return rl_budget_start(0, limit_ms < LOST_LIMIT_MS ? limit_ms : LOST_LIMIT_MS, NULL);
    if (left_ms < 1000)
        left_ms = 1000;
    return rl_budget_start(left_ms < limit_ms ? left_ms : limit_ms, limit_ms, NULL);
}

static rowlock_status free_row(const rl_driver *driver, rowlock_hold *hold, rl_tried tried,
                               rowlock_error *err)
{
    rl_budget budget = release_budget(hold);
    rl_departure d = {.driver = driver, .hold = hold, .budget = &budget, .tried = tried};
    const rl_attempts how = {.budget = &budget,
                             .outage_us = hold->client->outage_us,
                             .backoff = RL_BACKOFF_USUAL,
                             .busy_is_final = true};
    rowlock_status status = rl_attempt_until(&how, attempt, &d, err);
    rl_bell_give_up(&hold->client->bells, &hold->bell, hold->locks[0].id);
    if (status == ROWLOCK_TIMEOUT)
        status = ROWLOCK_UNAVAILABLE;
    if (status != ROWLOCK_UNAVAILABLE)
        return status;
    return rl_fail(
        err, d.tried == RL_NOT_TRIED ? ROWLOCK_UNAVAILABLE : ROWLOCK_UNKNOWN,
        "'%s' could not be released, the server cannot be reached; its lease ends by itself "
        "within %" PRId64 " ms",
        hold->locks[0].name, hold->held.ttl_us / 1000);
}

rowlock_status rl_free_row(const rl_driver *driver, rowlock_hold *hold, rowlock_error *err)
{
    return free_row(driver, hold, RL_NOT_TRIED, err);
}

rowlock_status rl_release(const rl_driver *driver, rowlock_hold *hold, rl_tried tried,
                          const rowlock_release_options *options, rowlock_error *err)
{
    bool was_lost = atomic_load(&hold->held.lost);
    rowlock_status status = free_row(driver, hold, tried, err);
    if (was_lost)
        /* The holder was told of the loss, which is final even if no client took the lock since. */
        return rl_fail(err, ROWLOCK_LOST, "'%s' was lost before its release: %s",
                       hold->locks[0].name, hold->held.reason);
    if (status == ROWLOCK_OK)
        rl_hold_was_released(hold, options);
    else if (status == ROWLOCK_LOST)
        rl_hold_was_lost(hold, options, "found at its release");
    else
        rl_hold_was_left(hold);
    return status;
}
