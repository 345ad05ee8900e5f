/*
 * The lease: which statements take its row, and which free it. The engine does the rest
 * (engine/acquire.c, engine/release.c).
 *
 * A row is taken together with its bell, a named lock (bell/bell.h), unless a waiter has that
 * already. A holder that had to wait expects other waiters, and hands the lease over with one write
 * where taking it is slow.
 */
#include "kind/lease.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/acquire.h"
#include "kind/shared.h"
#include "stmt/session.h"

#define REOPEN_TRIES 3

/* ------------------------------------------------------------------------- acquire */

rowlock_status rl_lease_raise_idle_limit(rl_conn *conn, int64_t ttl_us, const rl_budget *budget,
                                         rowlock_error *err)
{
    uint64_t ttl_s = (uint64_t)(ttl_us / 1000000) + 1;
    rl_io io = rl_budget_quick_io(budget);
    if (conn->session.idle_limit_s >= ttl_s)
        return ROWLOCK_OK;
    return rl_no_effect(rl_set_idle_limit(conn, ttl_s, &io, err), err);
}

/* Which statement takes it: together with the bell, having the bell already, or without one. */
static rl_sql_id way_to_take(const rl_acquisition *a)
{
    if (a->turn.conn)
        return RL_SQL_LEASE_INHERIT;
    bool quiet = atomic_load(&a->hold->client->bells.polls) || a->turn.take_without_bell;
    return quiet ? RL_SQL_LEASE_ACQUIRE_QUIET : RL_SQL_LEASE_ACQUIRE;
}

static rowlock_status take_on(rl_acquisition *a, rl_conn *conn, rl_sql_id way, bool known_free,
                              rowlock_error *err)
{
    rowlock_hold *hold = a->hold;
    const rl_value values[] = {
        rl_text(hold->owner), rl_text(hold->client->label), rl_u64((uint64_t)a->hold->held.ttl_us),
        rl_u64(a->lock->id),  rl_text(a->lock->name),       rl_text(hold->client->bells.prefix)};
    bool with_bell = way == RL_SQL_LEASE_ACQUIRE;
    if (with_bell)
        RL_TRY(rl_lease_raise_idle_limit(conn, a->hold->held.ttl_us, a->budget, err));
    RL_TRY(rl_acquire_with(a, conn, known_free, way, values, err));
    /* lease_acquire may have taken the row without the bell, where a waiter had that for over a
     * second. It is kept all the same: the RELEASE_LOCK of our release has no effect then. */
    if (way != RL_SQL_LEASE_ACQUIRE_QUIET)
        rl_bell_keep(&hold->bell, conn, !with_bell);
    return ROWLOCK_OK;
}

static rowlock_status take(rl_acquisition *a, bool known_free, rowlock_error *err)
{
    rl_sql_id way = way_to_take(a);
    rl_conn *conn = NULL;
    RL_TRY(rl_turn_borrow(&a->turn, &conn, err));
    rowlock_error spare = {0};
    err = rl_error_or(err, &spare);
    rowlock_status status = take_on(a, conn, way, known_free, err);
    if (way == RL_SQL_LEASE_ACQUIRE && rl_bell_refused(&a->hold->client->bells, status, err))
        status = take_on(a, conn, RL_SQL_LEASE_ACQUIRE_QUIET, known_free, err);
    else if (way == RL_SQL_LEASE_ACQUIRE && status != ROWLOCK_OK && status != ROWLOCK_BUSY)
        /* The connection may have got the bell without the lease: closing it gives the bell back.
         */
        conn->broken = true;
    rl_turn_give_back(&a->turn, conn);
    return status;
}

/* Takes the bell from the old holder's connection, so that our release can ring it. Another waiter
 * may have it already (readers keep none): then it stays the first in line. */
static void take_bell_too(rl_acquisition *a, rl_conn *conn, uint64_t from_connection)
{
    rowlock_client *client = a->hold->client;
    rl_io io = rl_budget_quick_io(a->budget);
    bool has_bell = conn == a->turn.conn;
    if (!has_bell) {
        /* Not from ourselves: a lost hold of ours may have it on this connection, beside others. */
        if (from_connection != conn->id)
            rl_bell_seize(&client->bells, a->budget, a->lock->id, from_connection);
        if (atomic_load(&client->bells.polls) ||
            rl_bell_take(conn, client->bells.prefix, a->lock->id, &io) != ROWLOCK_OK)
            return;
    }
    rl_bell_keep(&a->hold->bell, conn, has_bell);
}

/* A compare-and-swap on the version that was read. */
static rowlock_status take_seen(rl_acquisition *a, rl_sql_id id, const rl_seen *seen,
                                rowlock_error *err)
{
    const rl_conn *bell = a->turn.conn;
    const rl_value values[] = {rl_u64(seen->version),
                               rl_text(a->hold->owner),
                               rl_text(a->hold->client->label),
                               rl_u64(bell ? bell->id : 0),
                               rl_u64((uint64_t)a->hold->held.ttl_us),
                               rl_u64(a->lock->id),
                               rl_text(a->lock->name)};
    rl_conn *conn = NULL;
    RL_TRY(rl_turn_borrow(&a->turn, &conn, err));
    rowlock_status status = rl_acquire_with(a, conn, false, id, values, err);
    if (status == ROWLOCK_OK)
        take_bell_too(a, conn, seen->connection_id);
    rl_turn_give_back(&a->turn, conn);
    return status;
}

static rowlock_status take_over(rl_acquisition *a, const rl_seen *seen, rowlock_error *err)
{
    char label[RL_LABEL_IN_DETAIL];
    RL_TRY(take_seen(a, RL_SQL_LEASE_TAKE_OVER, seen, err));
    rl_copy_label(label, sizeof label, seen->label);
    snprintf(a->taken_over, sizeof a->taken_over,
             "from %s, token %" PRIu64 ", held %" PRId64 " ms, whose lease ran out", label,
             seen->version, seen->held_us / 1000);
    return ROWLOCK_OK;
}

/* Takes the lease from readers, once the last of them has left. */
static rowlock_status drain(rl_acquisition *a, const rl_seen *seen, rowlock_error *err)
{
    /* The last attempt did not change it. */
    if (a->left_alone)
        rl_hold_keep_again(a->hold);
    a->left_alone = false;
    RL_TRY(rl_shared_drain(a, seen, err));
    /* Once it is the writer's, it must not be renewed as a reader's. */
    if (a->upgrade)
        rl_hold_leave_alone(a->hold);
    rowlock_status status = take_seen(a, RL_SQL_SHARED_TAKE, seen, err);
    a->left_alone = a->upgrade;
    a->draining = status != ROWLOCK_OK;
    return status;
}

/* ------------------------------------------------------------------------- release */

/* After a break the lease is cooling until our time is over; our work has ended, so it may open
 * now. Several tries, since the break ends the connection that has the bell, perhaps just now. */
static void reopen(const rl_departure *d)
{
    const rowlock_hold *hold = d->hold;
    const rl_lock *lock = &hold->locks[0];
    const rl_value values[] = {rl_u64((uint64_t)hold->at_least_us), rl_u64(lock->id),
                               rl_u64(lock->version), rl_text(hold->owner)};
    for (int i = 0; i < REOPEN_TRIES; i++) {
        rowlock_status status =
            rl_client_run(hold->client, d->budget, RL_SQL_LEASE_REOPEN, values, NULL, NULL);
        if (status != ROWLOCK_UNAVAILABLE && status != ROWLOCK_UNKNOWN)
            return;
    }
}

static rowlock_status free_row_on(const rl_departure *d, rl_conn *conn, rl_sql_id way,
                                  rl_done *done, rowlock_error *err)
{
    const rowlock_hold *hold = d->hold;
    const rl_lock *lock = &hold->locks[0];
    char due[RL_RINGS_DUE_MAX] = "";
    if (way == RL_SQL_LEASE_RELEASE_APART)
        rl_bell_rings_due(&hold->client->bells, lock->id, due, sizeof due);
    const rl_value values[] = {rl_u64((uint64_t)hold->at_least_us),
                               rl_u64(rl_hold_keeps_sessions(hold)),
                               rl_u64(lock->id),
                               rl_u64(lock->version),
                               rl_text(hold->owner),
                               rl_text(hold->client->bells.prefix),
                               rl_u64(hold->bell.connection_id),
                               rl_text(due)};
    rl_io io = rl_budget_quick_io(d->budget);
    return rl_run(conn, way, values, &io, done, err);
}

/*
 * We had to wait, so others may wait now. We waive our version in the server's memory; a successor
 * may take the lease by that, and our release then finds nothing left to free. If it does not, we
 * free the row as usual, so nothing depends on the waiver after the release has returned.
 */
static rowlock_status hand_over(rl_departure *d, rl_conn *conn, rl_done *done, rowlock_error *err)
{
    rowlock_hold *hold = d->hold;
    rl_bells *bells = &hold->client->bells;
    const rl_waiver waiver = {
        .resource_id = hold->locks[0].id, .version = hold->locks[0].version, .owner = hold->owner};
    rl_io io = rl_budget_quick_io(d->budget);
    rl_waived waived = {0};
    rowlock_status status = rl_bell_waive(conn, bells, &waiver, &io, &waived, err);
    /* The statement may have taken effect, and a successor the lease, although it failed. */
    if (status != ROWLOCK_OK)
        d->tried = RL_TRIED_UNANSWERED;
    if (status != ROWLOCK_OK || !waived.mine)
        return status;
    d->waived = true;
    d->tried = RL_TRIED_UNANSWERED;
    rl_bell_rung(&hold->bell, conn);
    if (waived.successor)
        rl_bell_await_successor(bells, d->budget);
    RL_TRY(free_row_on(d, conn, RL_SQL_LEASE_RELEASE_APART, done, err));
    if (!waived.successor)
        return ROWLOCK_OK;
    rl_bell_note_successor(bells, done->rows == 0);
    done->rows = 1; /* the successor has it */
    return ROWLOCK_OK;
}

static rowlock_status free_and_ring(const rl_departure *d, rl_conn *conn, rl_done *done,
                                    rowlock_error *err)
{
    RL_TRY(free_row_on(d, conn, RL_SQL_LEASE_RELEASE, done, err));
    if (done->rows > 0)
        rl_bell_rung(&d->hold->bell, conn);
    return ROWLOCK_OK;
}

static rowlock_status leave(rl_departure *d, rl_conn *conn, bool has_bell, rl_done *done,
                            rowlock_error *err)
{
    const rowlock_hold *hold = d->hold;
    if (atomic_load(&hold->client->bells.polls))
        return free_row_on(d, conn, RL_SQL_LEASE_RELEASE_QUIET, done, err);
    if (!has_bell)
        return free_row_on(d, conn, RL_SQL_LEASE_RELEASE_APART, done, err);
    bool others_wait =
        hold->bell.came_from_queue && hold->at_least_us == 0 && !atomic_load(&hold->held.lost);
    if (others_wait && rl_bell_commits_slowly(&hold->client->bells))
        return hand_over(d, conn, done, err);
    return free_and_ring(d, conn, done, err);
}

const rl_driver rl_lease_driver = {.kind = RL_KIND_LEASE,
                                   .take = take,
                                   .take_over = take_over,
                                   .drain = drain,
                                   .give_up = rl_shared_reopen,
                                   .leave = leave,
                                   .reopen = reopen};

/* ------------------------------------------------------------------------- expiring */

rowlock_status rl_lease_expire(rowlock_client *client, const rl_budget *budget, uint64_t id,
                               uint64_t version, bool *freed, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(version), rl_u64(id)};
    rl_done done = {0};
    RL_TRY(rl_client_run(client, budget, RL_SQL_LEASE_EXPIRE, values, &done, err));
    *freed = done.rows > 0;
    return ROWLOCK_OK;
}
