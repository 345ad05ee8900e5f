/*
 * A barrier:
 *
 *   enter: one transaction locks the barrier's row, deletes the rows of members whose time is over,
 *          adds the caller's row of lock_grant, and begins the next generation if the barrier is
 *          complete. Else the caller waits in line (kind/await.h), renewed like a lease's reader.
 *   leave: marks the caller's row, and looks until all rows of the generation are marked. A row
 *          that is not marked, and whose time is over, belongs to a member that was lost.
 */
#include "kind/barrier.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/settle.h"
#include "kind/await.h"
#include "kind/parts.h"
#include "kind/shared.h"
#include "rowlock/rowlock_barrier.h"

#define PAUSE_FIRST_US 1000 /* the first pause of the first in line */
#define PAUSE_MOST_US  40000
#define LEAVE_MOST_US  250000 /* between two looks of a member that waits to leave */

/* One call that enters. */
typedef struct entering {
    rowlock_hold *whole;
    unsigned count;
    const rowlock_acquire_options *options;
    const rl_budget *budget;
    rl_await await;
    uint64_t id;
    rl_trace request;                       /* the last COMMIT */
    bool open;                              /* whose reply was lost */
    bool sent;                              /* the server may have entered it */
    bool has_row;                           /* the present attempt's row was committed */
    char last_owner[ROWLOCK_OWNER_MAX + 1]; /* of a row of ours that may still be there; "": none */
    uint64_t last_version;
} entering;

static rowlock_hold *part_of(const rowlock_hold *whole)
{
    return whole->parts->list[0];
}

static rowlock_status purged(const entering *e, rowlock_error *err)
{
    rl_resource_forget(e->whole->client, e->whole->locks[0].name);
    return rl_fail(err, ROWLOCK_BUSY, "'%s' was purged just now", e->whole->locks[0].name);
}

/* An UPDATE that KILL QUERY stops may answer OK with no row matched, rather than an error. */
static rowlock_status stopped(const char *name, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_UNAVAILABLE, "'%s': a statement was stopped", name);
}

/* ----------------------------------------------------------------------------------- look */

typedef struct barrier_look {
    char kind[17];
    uint64_t version;
    unsigned count;
    unsigned entered;
    bool mine;
} barrier_look;

static rowlock_status look_on(const entering *e, rl_conn *conn, const rl_io *io, const char *owner,
                              uint64_t generation, barrier_look *seen, rowlock_error *err)
{
    const rl_value values[] = {rl_text(owner), rl_u64(generation), rl_u64(e->id),
                               rl_text(e->whole->locks[0].name)};
    rl_rows rows;
    bool found = false;
    *seen = (barrier_look){.count = 0};
    RL_TRY(
        rl_no_effect(rl_query_one(conn, RL_SQL_BARRIER_LOOK, values, io, &found, &rows, err), err));
    if (!found)
        return purged(e, err);
    snprintf(seen->kind, sizeof seen->kind, "%s", rows.cells[0].text);
    seen->version = rows.cells[1].u64;
    seen->count = (unsigned)rows.cells[2].u64;
    seen->entered = (unsigned)rows.cells[3].u64;
    seen->mine = rows.cells[4].u64 != 0;
    return ROWLOCK_OK;
}

/* BUSY: the name was purged after its id was read. */
static rowlock_status look(entering *e, const char *owner, uint64_t generation, barrier_look *seen,
                           rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(e->budget);
    rl_conn *conn = NULL;
    RL_TRY(rl_turn_borrow(&e->await.turn, &conn, err));
    rowlock_status status = look_on(e, conn, &io, owner, generation, seen, err);
    rl_turn_give_back(&e->await.turn, conn);
    return status;
}

/* Its row could not be locked: finds out why. */
static rowlock_status not_locked(entering *e, rowlock_error *err)
{
    const char *name = e->whole->locks[0].name;
    barrier_look seen;
    RL_TRY(look(e, "", 0, &seen, err));
    if (strcmp(seen.kind, RL_KIND_BARRIER) != 0)
        return rl_resource_wrong_kind(name, seen.kind, RL_KIND_BARRIER, err);
    if (seen.count == 0 || seen.count == e->count)
        return stopped(name, err);
    return rl_fail(err, ROWLOCK_MODE, "'%s' is a barrier of %u, not of %u", name, seen.count,
                   e->count);
}

/* ---------------------------------------------------------------------------------- enter */

/* Reads the members that gather, and the lowest free place. */
typedef struct gathering {
    uint64_t generation;
    bool stale; /* a member's time is over, and its row still there */
    unsigned count;
    unsigned place;
    uint64_t taken[(ROWLOCK_BARRIER_MAX + 63) / 64];
} gathering;

static void note_place(gathering *g, const rl_cell *cells)
{
    g->generation = cells[0].u64;
    g->stale = g->stale || cells[2].u64 != 0;
    if (cells[1].i64 < 0 || cells[1].i64 >= ROWLOCK_BARRIER_MAX)
        return;
    g->count++;
    g->taken[cells[1].i64 / 64] |= (uint64_t)1 << cells[1].i64 % 64;
    while (g->taken[g->place / 64] >> g->place % 64 & 1)
        g->place++;
}

static rowlock_status gather(entering *e, rl_conn *conn, gathering *g, rowlock_error *err)
{
    const rl_value own[] = {rl_text(e->last_owner), rl_u64(e->id)};
    const rl_value gone[] = {rl_u64(e->id), rl_text(e->last_owner)};
    rl_io io = rl_budget_quick_io(e->budget);
    rl_done done = {0};
    rl_rows rows;
    *g = (gathering){.generation = 0};
    RL_TRY(rl_no_effect(rl_run(conn, RL_SQL_BARRIER_DROP, gone, &io, &done, err), err));
    RL_TRY(rl_no_effect(rl_query(conn, RL_SQL_BARRIER_GATHERED, own, &io, &rows, err), err));
    while (rl_next(&rows))
        note_place(g, rows.cells);
    if (g->generation && g->count < e->count && !g->stale)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNAVAILABLE, "who has entered '%s' could not be read",
                   e->whole->locks[0].name);
}

static rowlock_status add_member(entering *e, rl_conn *conn, const gathering *g, rowlock_error *err)
{
    rowlock_hold *part = part_of(e->whole);
    const rl_value member[] = {
        rl_u64(e->id),         rl_text(part->owner), rl_text(part->client->label),
        rl_u64(g->generation), rl_u64(g->place),     rl_u64((uint64_t)part->held.ttl_us)};
    const rl_value complete[] = {rl_u64(e->id), rl_u64(g->generation)};
    rl_io io = rl_budget_quick_io(e->budget);
    rl_done done = {0};
    part->locks[0].version = g->generation;
    part->locks[0].slot = g->place;
    RL_TRY(rl_no_effect(rl_run(conn, RL_SQL_BARRIER_ENTER, member, &io, &done, err), err));
    if (done.rows == 1 && g->count + 1 == e->count)
        RL_TRY(rl_no_effect(rl_run(conn, RL_SQL_BARRIER_COMPLETE, complete, &io, &done, err), err));
    if (done.rows == 1)
        return ROWLOCK_OK;
    return stopped(e->whole->locks[0].name, err);
}

/* The others enter one after the other: its row is locked until this one has. */
static rowlock_status lock_barrier(entering *e, rl_conn *conn, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(e->count), rl_u64(e->id), rl_text(e->whole->locks[0].name)};
    rl_trace trace;
    rl_done done = {0};
    rowlock_status status = rl_client_change_on(conn, e->budget, false, RL_SQL_BARRIER_LOCK, values,
                                                &trace, &done, err);
    if (rl_try_was_stopped(e->budget, status, &trace))
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is in use by a transaction",
                       e->whole->locks[0].name);
    if (status == ROWLOCK_OK && done.rows == 0)
        return ROWLOCK_NOT_FOUND; /* not_locked() says why, when the transaction has ended */
    return rl_no_effect(status, err);
}

static rowlock_status enter_on(entering *e, rl_conn *conn, rowlock_error *err)
{
    static const rl_sql_id needed[] = {RL_SQL_BARRIER_LOCK,     RL_SQL_BARRIER_DROP,
                                       RL_SQL_BARRIER_GATHERED, RL_SQL_BARRIER_ENTER,
                                       RL_SQL_BARRIER_COMPLETE, RL_SQL_ROW_COMMIT};
    gathering g;
    rl_done done = {0};
    rl_io io = rl_budget_quick_io(e->budget);
    RL_TRY(rl_no_effect(rl_prepare_all(conn, needed, sizeof needed / sizeof needed[0], &io, err),
                        err));
    const int64_t sent_us = rl_now_us();
    rowlock_status status = rl_no_effect(rl_run_text(conn, RL_SQL_BEGIN, NULL, &io, err), err);
    if (status == ROWLOCK_OK)
        status = lock_barrier(e, conn, err);
    if (status == ROWLOCK_OK)
        status = gather(e, conn, &g, err);
    if (status == ROWLOCK_OK)
        status = add_member(e, conn, &g, err);
    if (status != ROWLOCK_OK) {
        if (rl_run_text(conn, RL_SQL_ROLLBACK, NULL, &io, NULL) != ROWLOCK_OK)
            conn->broken = true;
        return status;
    }
    e->sent = true;
    status = rl_client_change_on(conn, e->budget, true, RL_SQL_ROW_COMMIT, NULL, &e->request, &done,
                                 err);
    e->request.sent_us = sent_us;
    /* A statement that was stopped may have taken effect. */
    e->open = status != ROWLOCK_OK && status != ROWLOCK_DEADLOCK;
    e->has_row = status == ROWLOCK_OK;
    if (status != ROWLOCK_OK)
        conn->broken = true;
    /* When the call ends, withdraw() makes sure that nothing is left of it, or says UNKNOWN. */
    return e->open ? rl_no_effect(ROWLOCK_UNKNOWN, err) : status;
}

static rowlock_status begin_member(entering *e, rowlock_error *err)
{
    rowlock_hold *part = part_of(e->whole);
    rl_acquisition a = rl_acquisition_of(&rl_barrier_driver, part, e->budget);
    a.request = e->request;
    return rl_acquired(&a, e->options, err);
}

/* It is no member (any more). */
static void drop_member(entering *e)
{
    rowlock_hold *part = part_of(e->whole);
    if (part && rl_part_held(part))
        rl_hold_end(part);
    /* What is left of it in the table must not count beside the next one. (An attempt that came to
     * nothing has not deleted what was left before.) */
    if (part && e->has_row) {
        memcpy(e->last_owner, part->owner, sizeof e->last_owner);
        e->last_version = part->locks[0].version;
    }
    e->has_row = false;
    rl_part_drop(e->whole, 0);
}

static rowlock_status enter(entering *e, rowlock_error *err)
{
    rowlock_client *client = e->whole->client;
    rl_io io = rl_budget_quick_io(e->budget);
    rl_conn *conn = NULL;
    drop_member(e);
    RL_TRY(rl_part_new(e->whole, 0, e->whole->locks[0].name, e->options, err));
    part_of(e->whole)->member = RL_BARRIER_GATHERING;
    part_of(e->whole)->locks[0].id = e->id;
    RL_TRY(rl_pool_take(&client->pool, NULL, &io, &conn, err));
    rowlock_status status = enter_on(e, conn, err);
    rl_pool_give(&client->pool, conn);
    if (status == ROWLOCK_NOT_FOUND)
        return not_locked(e, err);
    RL_TRY(status);
    return begin_member(e, err);
}

/* After a COMMIT whose reply was lost: finds out whether the caller has entered. */
static rowlock_status settle(entering *e, rowlock_error *err)
{
    const rl_lock *lock = &part_of(e->whole)->locks[0];
    barrier_look seen;
    RL_TRY(rl_settle(e->whole->client, e->budget, &e->request, err));
    RL_TRY(look(e, part_of(e->whole)->owner, lock->version, &seen, err));
    e->open = false;
    e->has_row = seen.mine;
    if (seen.mine)
        return begin_member(e, err);
    drop_member(e);
    return ROWLOCK_OK;
}

static bool has_entered(const entering *e)
{
    const rowlock_hold *part = part_of(e->whole);
    return part && rl_part_held(part) && !rl_hold_lost(part);
}

/* OK: all members have entered. */
static rowlock_status is_complete(entering *e, int64_t *hint_us, rowlock_error *err)
{
    const rl_lock *lock = &part_of(e->whole)->locks[0];
    barrier_look seen;
    RL_TRY(look(e, part_of(e->whole)->owner, lock->version, &seen, err));
    if (seen.mine && seen.version > lock->version)
        return ROWLOCK_OK;
    if (!seen.mine) {
        /* Its own time was over before all had entered: it enters again. */
        drop_member(e);
        *hint_us = RL_AT_ONCE;
    }
    return rl_fail(err, ROWLOCK_BUSY, "%u of %u have entered '%s'", seen.entered, e->count,
                   e->whole->locks[0].name);
}

static rowlock_status attempt_enter(void *data, int64_t *hint_us, rowlock_error *err)
{
    entering *e = data;
    rowlock_status status = rl_resource_id(e->whole->client, e->budget, e->whole->locks[0].name,
                                           RL_KIND_BARRIER, &e->id, err);
    rl_await_at(&e->await, e->id);
    if (status == ROWLOCK_OK && e->open)
        status = settle(e, err);
    if (status == ROWLOCK_OK && !has_entered(e))
        status = enter(e, err);
    if (status == ROWLOCK_OK)
        status = is_complete(e, hint_us, err);
    /* Only members that have entered stand in line, and wait for the others. */
    e->await.apart = !has_entered(e);
    return status;
}

static bool has_come(void *data, const rl_budget *budget)
{
    const entering *e = data;
    const rowlock_hold *part = part_of(e->whole);
    barrier_look seen;
    rl_io io = rl_budget_quick_io(budget);
    RL_BORROWED conn = NULL;
    if (!part || rl_pool_take(&part->client->pool, NULL, &io, &conn, NULL) != ROWLOCK_OK)
        return false;
    rowlock_status status = look_on(e, conn, &io, part->owner, part->locks[0].version, &seen, NULL);
    if (status != ROWLOCK_OK) /* purged: the line that it stands in is of the old row */
        return status == ROWLOCK_BUSY;
    return seen.version > part->locks[0].version || !seen.mine;
}

static bool is_unsettled(const void *data)
{
    return ((const entering *)data)->open;
}

/* Deletes the caller's row, if it is there. OK: it is known to be gone. */
static rowlock_status take_row_away(entering *e, const char *owner, uint64_t generation,
                                    rowlock_error *err)
{
    rowlock_client *client = e->whole->client;
    const rl_value values[] = {rl_u64(e->id), rl_text(owner), rl_u64(generation)};
    if (e->open)
        RL_TRY(rl_settle(client, e->budget, &e->request, err));
    e->has_row = e->has_row || e->open;
    e->open = false;
    return rl_client_run(client, e->budget, RL_SQL_BARRIER_WITHDRAW, values, NULL, err);
}

/* The wait has ended: withdraws the caller's row. OK: all had entered just before. BUSY: they had
 * not, and its row is gone. */
static rowlock_status attempt_withdraw(void *data, int64_t *hint_us, rowlock_error *err)
{
    entering *e = data;
    const rowlock_hold *part = part_of(e->whole);
    const bool its_own = e->has_row || e->open; /* else the row of an earlier attempt */
    const char *owner = its_own ? part->owner : e->last_owner;
    const uint64_t generation = its_own ? part->locks[0].version : e->last_version;
    barrier_look seen;
    /* (BUSY: another member is entering, and has the barrier's row locked.) */
    if (take_row_away(e, owner, generation, err) != ROWLOCK_OK)
        return ROWLOCK_UNAVAILABLE;
    rowlock_status status = look(e, owner, generation, &seen, err);
    if (status != ROWLOCK_OK && status != ROWLOCK_BUSY)
        return ROWLOCK_UNAVAILABLE;
    *hint_us = RL_FINAL;
    if (status == ROWLOCK_BUSY || !seen.mine) /* (BUSY: it was purged, and its row with it.) */
        return ROWLOCK_BUSY;
    if (seen.version > generation && has_entered(e))
        return ROWLOCK_OK;
    if (seen.version > generation)
        return rl_fail(err, ROWLOCK_LOST, "'%s' was lost just when all had come",
                       e->whole->locks[0].name);
    *hint_us = 0; /* somebody stopped the statement */
    return ROWLOCK_UNAVAILABLE;
}

static rowlock_status withdraw(entering *e, rowlock_status status, rowlock_error *err)
{
    rowlock_client *client = e->whole->client;
    const rl_budget *of_call = e->budget;
    rl_budget budget = rl_budget_start(client->limit_ms, client->limit_ms, NULL);
    const rl_attempts how = {.budget = &budget,
                             .outage_us = client->limit_ms * 1000,
                             .backoff = {.first_us = PAUSE_FIRST_US, .most_us = PAUSE_MOST_US}};
    if (!e->sent || !part_of(e->whole))
        return status;
    e->budget = e->await.turn.budget = &budget;
    rowlock_status gone = rl_attempt_until(&how, attempt_withdraw, e, NULL);
    e->budget = e->await.turn.budget = of_call;
    if (gone == ROWLOCK_OK)
        return ROWLOCK_OK;
    if (gone == ROWLOCK_BUSY)
        return status;
    if (gone == ROWLOCK_LOST)
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "'%s' was lost just when all had come",
                       e->whole->locks[0].name);
    return rl_fail(err, ROWLOCK_UNKNOWN,
                   "the server could not be asked again: '%s' may have been entered, by nobody, "
                   "for up to %" PRId64 " ms",
                   e->whole->locks[0].name, e->whole->held.ttl_us / 1000);
}

rowlock_status rl_barrier_enter(rowlock_hold *whole, unsigned count,
                                const rowlock_acquire_options *options, const rl_budget *budget,
                                rowlock_error *err)
{
    const rl_backoff pauses = {.first_us = PAUSE_FIRST_US, .most_us = PAUSE_MOST_US};
    entering e = {.whole = whole, .count = count, .options = options, .budget = budget};
    RL_TRY(rl_parts_init(whole, 1, err));
    rl_await_init(&e.await, whole->client, budget, whole->owner, whole->held.ttl_us);
    e.await.attempt = attempt_enter;
    e.await.unsettled = is_unsettled;
    e.await.has_come = has_come;
    e.await.data = &e;
    rowlock_status status = rl_await_until(&e.await, pauses, err);
    if (status != ROWLOCK_OK)
        status = withdraw(&e, status, err);
    if (status != ROWLOCK_OK) {
        drop_member(&e);
        return status;
    }
    rl_hold_entered(part_of(whole), budget);
    status = rl_parts_held(whole, budget, err);
    if (status != ROWLOCK_OK)
        rl_parts_give_back(whole);
    return status;
}

/* ---------------------------------------------------------------------------------- leave */

typedef struct leaving {
    rowlock_hold *part;
    const rl_budget *budget;
} leaving;

typedef struct not_ready {
    uint64_t working;
    char dead[ROWLOCK_LABEL_MAX * 4 + 1];
} not_ready;

static void keep_not_ready(void *data, const rl_cell *cells)
{
    not_ready *seen = data;
    seen->working = cells[0].u64;
    snprintf(seen->dead, sizeof seen->dead, "%s", cells[1].text);
}

static void keep_mine(void *data, const rl_cell *cells)
{
    *(bool *)data = cells[4].u64 != 0;
}

/* Its row did not match: it is not there, or the statement was stopped. */
static rowlock_status not_said(const rowlock_hold *part, const rl_budget *budget,
                               rowlock_error *err)
{
    const rl_lock *lock = &part->locks[0];
    const rl_value values[] = {rl_text(part->owner), rl_u64(lock->version), rl_u64(lock->id),
                               rl_text(lock->name)};
    bool mine = false;
    bool found = false;
    RL_TRY(rl_client_read(part->client, budget, RL_SQL_BARRIER_LOOK, values, keep_mine, &mine,
                          &found, err));
    if (mine)
        return stopped(lock->name, err);
    return rl_fail(err, ROWLOCK_LOST, "'%s': this member was lost", lock->name);
}

/* It has as long as a try, whatever the wait: a member that is released before it was ready is
 * missed by the others. May be repeated after a lost reply. */
static rowlock_status say_ready(const leaving *l, rowlock_error *err)
{
    rowlock_hold *part = l->part;
    const rl_budget try = rl_budget_start(0, part->client->limit_ms, l->budget->cancel);
    const rl_lock *lock = &part->locks[0];
    const rl_value values[] = {rl_u64(lock->id), rl_text(part->owner), rl_u64(lock->version)};
    rl_done done = {0};
    rowlock_status status =
        rl_client_run(part->client, &try, RL_SQL_BARRIER_LEAVE, values, &done, err);
    if (status == ROWLOCK_TIMEOUT) /* of this statement: the wait may go on */
        return stopped(lock->name, err);
    RL_TRY(rl_no_effect(status, err));
    if (done.rows == 0)
        return not_said(part, &try, err);
    part->member = RL_BARRIER_READY;
    return ROWLOCK_OK;
}

static rowlock_status attempt_leave(void *data, int64_t *hint_us, rowlock_error *err)
{
    const leaving *l = data;
    const rl_lock *lock = &l->part->locks[0];
    if (l->part->member != RL_BARRIER_READY) {
        RL_TRY(say_ready(l, err));
        /* The look is an attempt of its own, which the end of the wait may cut off. */
        *hint_us = RL_AT_ONCE;
        return rl_fail(err, ROWLOCK_BUSY, "the other members of '%s' may be at work", lock->name);
    }
    const rl_value values[] = {rl_u64(lock->version), rl_u64(lock->id)};
    not_ready seen = {.working = 0};
    bool found = false;
    RL_TRY(rl_client_read(l->part->client, l->budget, RL_SQL_BARRIER_LEAVING, values,
                          keep_not_ready, &seen, &found, err));
    if (!found || rl_hold_lost(l->part))
        return rl_fail(err, ROWLOCK_LOST, "'%s': this member was lost", lock->name);
    if (*seen.dead)
        return rl_fail(err, ROWLOCK_LOST, "'%s': %s was lost before it left", lock->name,
                       seen.dead);
    if (seen.working == 0)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_BUSY, "%" PRIu64 " members of '%s' are still at work", seen.working,
                   lock->name);
}

/* BUSY and TIMEOUT tell that a member is ready: they are not for one that may not be. */
static rowlock_status not_heard(const leaving *l, rowlock_error *err)
{
    rl_error_prefix(err, "'%s': it is not known whether this member is ready to leave: ",
                    l->part->locks[0].name);
    if (err)
        err->status = ROWLOCK_UNAVAILABLE;
    return ROWLOCK_UNAVAILABLE;
}

rowlock_status rl_barrier_leave(rowlock_hold *whole, const rl_budget *budget, rowlock_error *err)
{
    leaving l = {.part = part_of(whole), .budget = budget};
    const rl_attempts how = {.budget = budget,
                             .outage_us = whole->client->outage_us,
                             .backoff = {.first_us = PAUSE_FIRST_US, .most_us = LEAVE_MOST_US}};
    rowlock_status status = rl_attempt_until(&how, attempt_leave, &l, err);
    const bool open =
        status == ROWLOCK_TIMEOUT || status == ROWLOCK_BUSY || status == ROWLOCK_DEADLOCK;
    return open && l.part->member != RL_BARRIER_READY ? not_heard(&l, err) : status;
}

/* A member that is released without having been ready is lost for the others. */
static rowlock_status go(rl_departure *d, rl_conn *conn, bool has_bell, rl_done *done,
                         rowlock_error *err)
{
    const rowlock_hold *part = d->hold;
    const rl_lock *lock = &part->locks[0];
    const rl_value values[] = {rl_u64(lock->id), rl_text(part->owner), rl_u64(lock->version)};
    rl_io io = rl_budget_quick_io(d->budget);
    if (part->member == RL_BARRIER_READY)
        return rl_shared_leave(d, conn, has_bell, done, err);
    return rl_run_match(conn, RL_SQL_BARRIER_QUIT, values, &io, done, err);
}

const rl_driver rl_barrier_driver = {
    .kind = RL_KIND_BARRIER, .shared = true, .leave = go, .reopen = rl_shared_ended};
