/*
 * A set of leases: several names, all or none.
 *
 *   1. take:  one transaction takes all, if all are free; one commit (sql/set.sql).
 *   2. wait:  for the first that is not, as any call waits for a lease; then the others, as in 1.
 *             If another is held by then, this one is given back: a waiter holds nothing.
 *   3. order: after two such rounds they are taken one after the other, in the order of their
 *             names, and what is taken stays. So sets never deadlock, and each call gets
 *             its turn.
 */
#include "kind/set.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "engine/settle.h"
#include "kind/lease.h"
#include "kind/parts.h"
#include "kind/shared.h"
#include "wait/backoff.h"

#define ROUNDS_WITHOUT_HOLDING 2

/* --------------------------------------------------------------- one transaction for all */

/* What is in the statements' lists: the parts that are taken exclusively. */
static bool is_listed(const rowlock_hold *part)
{
    return !rl_part_held(part) && !part->shared;
}

static bool takes_json(rl_buffer *json, const rl_parts *parts, size_t *count)
{
    *count = 0;
    for (size_t i = 0; i < parts->count; i++) {
        const rowlock_hold *part = parts->list[i];
        if (!is_listed(part))
            continue;
        rl_buffer_puts(json, (*count)++ ? ",[" : "[[");
        rl_json_u64(json, part->locks[0].id);
        rl_buffer_puts(json, ",");
        rl_json_string(json, part->locks[0].name);
        rl_buffer_puts(json, "]");
    }
    rl_buffer_puts(json, "]");
    return !json->failed;
}

static rowlock_status not_free(const rl_taking *t, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_BUSY, "'%s' or another name of the set is held",
                   t->whole->locks[0].name);
}

static rowlock_status in_use(rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_BUSY, "a name of the set is in use by a transaction");
}

/* All have one owner id, the first one's, which is new in each attempt. */
static const char *owner_of(const rl_taking *t)
{
    const rl_parts *parts = t->whole->parts;
    for (size_t i = 0; i < parts->count; i++)
        if (!rl_part_held(parts->list[i]))
            return parts->list[i]->owner;
    return t->whole->owner;
}

static rowlock_status take_listed(rl_taking *t, rl_conn *conn, const char *json, size_t count,
                                  rowlock_error *err)
{
    rowlock_client *client = t->whole->client;
    const rl_value with_bell[] = {rl_text(owner_of(t)), rl_text(client->label),
                                  rl_u64((uint64_t)t->whole->held.ttl_us),
                                  rl_text(client->bells.prefix), rl_text(json)};
    const rl_value without[] = {with_bell[0], with_bell[1], with_bell[2], with_bell[4]};
    rl_trace trace;
    rl_done done = {0};
    /* It does not wait with some of the rows locked. */
    rl_budget once = *t->budget;
    once.try_once = true;
    rowlock_status status =
        rl_client_change_on(conn, &once, false, t->quiet ? RL_SQL_SET_TAKE_QUIET : RL_SQL_SET_TAKE,
                            t->quiet ? without : with_bell, &trace, &done, err);
    if (!t->quiet && rl_bell_refused(&client->bells, status, err)) {
        t->quiet = true;
        return not_free(t, err);
    }
    if (rl_try_was_stopped(&once, status, &trace))
        return in_use(err);
    RL_TRY(rl_no_effect(status, err));
    return done.rows == count ? ROWLOCK_OK : not_free(t, err);
}

static void keep_version(const rl_taking *t, uint64_t place, uint64_t version)
{
    const rl_parts *parts = t->whole->parts;
    for (size_t i = 0; i < parts->count; i++)
        if (is_listed(parts->list[i]) && --place == 0)
            parts->list[i]->locks[0].version = version;
}

static rowlock_status read_tokens(const rl_taking *t, rl_conn *conn, const char *json, size_t count,
                                  rowlock_error *err)
{
    const rl_value values[] = {rl_text(owner_of(t)), rl_text(json)};
    rl_io io = rl_budget_quick_io(t->budget);
    size_t found = 0;
    rl_rows rows;
    RL_TRY(rl_no_effect(rl_query(conn, RL_SQL_SET_TOKENS, values, &io, &rows, err), err));
    for (; rl_next(&rows); found++)
        keep_version(t, rows.cells[0].u64, rows.cells[1].u64);
    if (found == count)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNAVAILABLE,
                   "somebody stopped the statement that reads the tokens");
}

static rowlock_status change(const rl_taking *t, rl_conn *conn, rl_sql_id id,
                             const rl_value *values, rl_done *done, rowlock_error *err)
{
    rl_trace trace;
    rowlock_status status =
        rl_client_change_on(conn, t->budget, false, id, values, &trace, done, err);
    if (rl_try_was_stopped(t->budget, status, &trace))
        return in_use(err);
    return rl_no_effect(status, err);
}

/* Opens a free name for readers, if no client is in line, and enters. */
static rowlock_status enter(const rl_taking *t, rl_conn *conn, rowlock_hold *part,
                            rowlock_error *err)
{
    const rowlock_client *client = t->whole->client;
    rl_lock *lock = &part->locks[0];
    const rl_value open[] = {rl_u64(atomic_load(&client->bells.polls)),
                             rl_text(client->bells.prefix), rl_u64(lock->id), rl_text(lock->name)};
    const rl_value values[] = {rl_text(part->owner), rl_text(client->label),
                               rl_u64((uint64_t)t->whole->held.ttl_us), rl_u64(lock->id),
                               rl_text(lock->name)};
    rl_io io = rl_budget_quick_io(t->budget);
    rl_done done = {0};
    RL_TRY(change(t, conn, RL_SQL_SHARED_OPEN, open, &done, err));
    RL_TRY(change(t, conn, RL_SQL_SHARED_ENTER, values, &done, err));
    lock->version = done.insert_id;
    if (done.rows == 0)
        return not_free(t, err);
    if (done.insert_id)
        return ROWLOCK_OK;
    /* With a trigger on the table the OK packet does not have the token. */
    const rl_value ours[] = {rl_u64(lock->id), rl_text(part->owner)};
    return rl_no_effect(rl_query_number(conn, RL_SQL_SHARED_TOKEN, ours, &io, &lock->version, err),
                        err);
}

static rowlock_status take_each(rl_taking *t, rl_conn *conn, const char *json, size_t count,
                                rowlock_error *err)
{
    const rl_parts *parts = t->whole->parts;
    if (t->may)
        RL_TRY(t->may(t->data, conn, err));
    if (count > 0) {
        RL_TRY(take_listed(t, conn, json, count, err));
        RL_TRY(read_tokens(t, conn, json, count, err));
    }
    for (size_t i = 0; i < parts->count; i++)
        if (!rl_part_held(parts->list[i]) && parts->list[i]->shared)
            RL_TRY(enter(t, conn, parts->list[i], err));
    return ROWLOCK_OK;
}

/* Nothing was taken; the bells that came with it are for others. */
static void undo(const rl_taking *t, rl_conn *conn, const char *json, size_t count)
{
    const rl_value values[] = {rl_text(t->whole->client->bells.prefix), rl_text(json)};
    rl_io io = rl_io_until(rl_time_add(rl_now_us(), RL_GRACE_US));
    uint64_t asked = 0;
    bool undone = rl_run_text(conn, RL_SQL_ROLLBACK, NULL, &io, NULL) == ROWLOCK_OK;
    if (undone && count > 0 && !t->quiet)
        undone = rl_query_number(conn, RL_SQL_SET_RING, values, &io, &asked, NULL) == ROWLOCK_OK &&
                 asked == count;
    if (!undone)
        conn->broken = true;
}

static rowlock_status commit(rl_taking *t, rl_conn *conn, rowlock_error *err)
{
    rl_done done = {0};
    rowlock_status status = rl_client_change_on(conn, t->budget, true, RL_SQL_ROW_COMMIT, NULL,
                                                &t->request, &done, err);
    /* A statement that was stopped may have taken effect. */
    t->open = status != ROWLOCK_OK && status != ROWLOCK_DEADLOCK;
    if (status != ROWLOCK_OK)
        conn->broken = true;
    return t->open ? ROWLOCK_UNAVAILABLE : status;
}

static void keep_bells(const rl_taking *t, rl_conn *conn)
{
    const rl_parts *parts = t->whole->parts;
    for (size_t i = 0; i < parts->count; i++)
        if (is_listed(parts->list[i]) && !t->quiet)
            rl_bell_keep(&parts->list[i]->bell, conn, false);
}

/* The statements, which are prepared before; and the server's patience with a silent connection
 * that has bells. */
static rowlock_status prepare(const rl_taking *t, rl_conn *conn, rowlock_error *err)
{
    static const rl_sql_id needed[] = {
        RL_SQL_SET_TAKE,    RL_SQL_SET_TAKE_QUIET, RL_SQL_SET_TOKENS,   RL_SQL_SET_RING,
        RL_SQL_SHARED_OPEN, RL_SQL_SHARED_ENTER,   RL_SQL_SHARED_TOKEN, RL_SQL_ROW_COMMIT};
    rl_io io = rl_budget_quick_io(t->budget);
    if (!t->quiet)
        RL_TRY(rl_lease_raise_idle_limit(conn, t->whole->held.ttl_us, t->budget, err));
    if (t->may)
        RL_TRY(rl_prepare(conn, t->may_runs, &io, err));
    return rl_prepare_all(conn, needed, sizeof needed / sizeof needed[0], &io, err);
}

static rowlock_status take_on(rl_taking *t, rl_conn *conn, const char *json, size_t count,
                              rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(t->budget);
    RL_TRY(rl_no_effect(prepare(t, conn, err), err));
    const int64_t sent_us = rl_now_us();
    rowlock_status status = rl_no_effect(rl_run_text(conn, RL_SQL_BEGIN, NULL, &io, err), err);
    /* It may have begun. */
    if (status != ROWLOCK_OK) {
        conn->broken = true;
        return status;
    }
    status = take_each(t, conn, json, count, err);
    if (status != ROWLOCK_OK) {
        undo(t, conn, json, count);
        return status;
    }
    status = commit(t, conn, err);
    t->request.sent_us = sent_us;
    if (status == ROWLOCK_OK)
        keep_bells(t, conn);
    return status;
}

static rowlock_status take_together(rl_taking *t, rowlock_error *err)
{
    rowlock_client *client = t->whole->client;
    const rl_request wanted = {.pins = t->quiet ? RL_PINS_FEW : RL_PINS_MANY};
    rl_io io = rl_budget_quick_io(t->budget);
    RL_CLEANUP(rl_buffer_free) rl_buffer json = {0};
    size_t count = 0;
    rl_conn *conn = NULL;
    if (!takes_json(&json, t->whole->parts, &count))
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    RL_TRY(rl_pool_take(&client->pool, &wanted, &io, &conn, err));
    rowlock_status status = take_on(t, conn, json.text, count, err);
    rl_pool_give(&client->pool, conn);
    return status;
}

/* ------------------------------------------------------------------------ a lost COMMIT */

rowlock_status rl_part_find(const rl_taking *t, rowlock_hold *part, bool *ours, rowlock_error *err)
{
    rl_lock *lock = &part->locks[0];
    rl_acquisition a = rl_acquisition_of(rl_lease_driver_of(part), part, t->budget);
    rl_seen seen;
    if (part->shared) {
        rowlock_status status = a.driver->find(&a, err);
        *ours = *ours && status == ROWLOCK_OK;
        return status == ROWLOCK_BUSY ? ROWLOCK_OK : status;
    }
    RL_TRY(rl_look(part->client, t->budget, lock->id, lock->name, RL_KIND_LEASE, part->owner, &seen,
                   err));
    *ours = *ours && rl_seen_status_held(&seen) && seen.ours;
    lock->version = seen.version;
    return ROWLOCK_OK;
}

/* All were taken, or none. */
rowlock_status rl_taking_settle(rl_taking *t, bool *ours, rowlock_error *err)
{
    const rl_parts *parts = t->whole->parts;
    RL_TRY(rl_settle(t->whole->client, t->budget, &t->request, err));
    *ours = true;
    for (size_t i = 0; i < parts->count && *ours; i++)
        if (!rl_part_held(parts->list[i]))
            RL_TRY(rl_part_find(t, parts->list[i], ours, err));
    t->open = false;
    return ROWLOCK_OK;
}

bool rl_taking_unsettled(const void *data)
{
    return ((const rl_taking *)data)->open;
}

rowlock_status rl_taking_ended(const rl_taking *t, rowlock_status status, rowlock_error *err)
{
    if (status == ROWLOCK_OK || !t->open)
        return status;
    return rl_fail(err, ROWLOCK_UNKNOWN,
                   "the reply was lost and the server could not be asked again: the names may stay "
                   "taken, though no program holds them, for up to %" PRId64 " ms",
                   t->whole->held.ttl_us / 1000);
}

/* -------------------------------------------------------------------------- all of them */

/* Each is a hold of its own from now on. Those that are not good are given back by the caller. */
rowlock_status rl_parts_begin(const rl_taking *t, rowlock_error *err)
{
    const rl_parts *parts = t->whole->parts;
    rowlock_status worst = ROWLOCK_OK;
    for (size_t i = 0; i < parts->count; i++) {
        rowlock_hold *part = parts->list[i];
        if (rl_part_held(part))
            continue;
        rl_acquisition a = rl_acquisition_of(rl_lease_driver_of(part), part, t->budget);
        a.request = t->request;
        rowlock_status status = rl_acquired(&a, t->options, worst == ROWLOCK_OK ? err : NULL);
        if (status != ROWLOCK_OK)
            (void)!rl_free_row(a.driver, part, NULL);
        if (worst == ROWLOCK_OK)
            worst = status;
    }
    return worst;
}

/* One owner id for this attempt: a late request of an earlier attempt does not match it. */
static void name_owner(rowlock_hold *whole)
{
    const rl_parts *parts = whole->parts;
    char owner[ROWLOCK_OWNER_MAX + 1];
    rl_client_owner(whole->client, owner);
    for (size_t i = 0; i < parts->count; i++) {
        rowlock_hold *part = parts->list[i];
        if (part && !rl_part_held(part))
            memcpy(part->owner, owner, sizeof owner);
    }
}

rowlock_status rl_take_parts(rl_taking *t, rowlock_error *err)
{
    bool ours = false;
    if (t->open)
        RL_TRY(rl_taking_settle(t, &ours, err));
    if (!ours) {
        name_owner(t->whole);
        RL_TRY(take_together(t, err));
    }
    return rl_parts_begin(t, err);
}

/* --------------------------------------------------------------------------------- a set */

static rowlock_status find_ids(rl_taking *t, rowlock_error *err)
{
    const rl_parts *parts = t->whole->parts;
    for (size_t i = 0; i < parts->count; i++) {
        rl_lock *lock = &parts->list[i]->locks[0];
        RL_TRY(
            rl_resource_id(t->whole->client, t->budget, lock->name, RL_KIND_LEASE, &lock->id, err));
    }
    return ROWLOCK_OK;
}

static rowlock_status make_parts(const rl_taking *t, rowlock_error *err)
{
    rowlock_hold *whole = t->whole;
    for (size_t i = 0; i < whole->count; i++)
        if (!whole->parts->list[i])
            RL_TRY(rl_part_new(whole, i, whole->locks[i].name, t->options, err));
    return ROWLOCK_OK;
}

static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    rl_taking *t = data;
    (void)hint_us;
    RL_TRY(find_ids(t, err));
    return rl_take_parts(t, err);
}

static rowlock_status take_rest(rl_taking *t, rowlock_error *err)
{
    const rl_attempts how = {.budget = t->budget,
                             .outage_us = t->whole->client->outage_us,
                             .backoff = RL_BACKOFF_USUAL,
                             .unsettled = rl_taking_unsettled,
                             .busy_is_final = true};
    RL_TRY(make_parts(t, err));
    return rl_taking_ended(t, rl_attempt_until(&how, attempt, t, err), err);
}

/* The first that is not free; or the first of all, if all are by now. A row that was purged since
 * its id was learned is found anew. */
static size_t who_is_in_the_way(const rl_taking *t)
{
    const rl_parts *parts = t->whole->parts;
    for (size_t i = 0; i < parts->count; i++) {
        const rowlock_hold *part = parts->list[i];
        const rl_lock *lock = &part->locks[0];
        rl_seen seen;
        if (rl_part_held(part))
            continue;
        if (rl_look(part->client, t->budget, lock->id, lock->name, RL_KIND_LEASE, part->owner,
                    &seen, NULL) != ROWLOCK_OK)
            continue;
        if (seen.verdict == RL_VERDICT_GONE)
            rl_resource_forget(part->client, lock->name);
        if (seen.verdict != RL_VERDICT_FREE && !(seen.verdict == RL_VERDICT_SHARED && part->shared))
            return i;
    }
    return 0;
}

/* It waits as any call for a lease. */
static rowlock_status take_one(const rl_taking *t, size_t i, rowlock_error *err)
{
    rowlock_hold *whole = t->whole;
    if (!whole->parts->list[i])
        RL_TRY(rl_part_new(whole, i, whole->locks[i].name, t->options, err));
    rowlock_hold *part = whole->parts->list[i];
    return rl_acquire(rl_lease_driver_of(part), part, t->options, t->budget, err);
}

static rowlock_status take_in_order(const rl_taking *t, rowlock_error *err)
{
    rl_parts_give_back(t->whole);
    for (size_t i = 0; i < t->whole->count; i++)
        RL_TRY(take_one(t, i, err));
    return ROWLOCK_OK;
}

static rowlock_status take_all(rl_taking *t, rowlock_error *err)
{
    for (int round = 0; round <= ROUNDS_WITHOUT_HOLDING; round++) {
        rowlock_status status = take_rest(t, err);
        if (status != ROWLOCK_BUSY)
            return status;
        if (round == ROUNDS_WITHOUT_HOLDING)
            break;
        size_t blocker = who_is_in_the_way(t);
        rl_parts_give_back(t->whole);
        RL_TRY(take_one(t, blocker, err));
    }
    return take_in_order(t, err);
}

static rowlock_status check_shared(const rowlock_hold *whole, rowlock_error *err)
{
    for (size_t i = 0; i < whole->count; i++)
        if (whole->locks[i].shared)
            return rl_shared_check(whole->client, err);
    return ROWLOCK_OK;
}

rowlock_status rl_set_acquire(rowlock_hold *whole, const rowlock_acquire_options *options,
                              const rl_budget *budget, rowlock_error *err)
{
    rl_taking t = {.whole = whole,
                   .options = options,
                   .budget = budget,
                   .quiet = atomic_load(&whole->client->bells.polls)};
    RL_TRY(check_shared(whole, err));
    RL_TRY(rl_parts_init(whole, whole->count, err));
    /* Its procedures are one statement each, and commit. */
    rowlock_status status =
        rl_client_via(whole->client) ? take_in_order(&t, err) : take_all(&t, err);
    if (status == ROWLOCK_OK)
        status = rl_parts_held(whole, budget, err);
    if (status != ROWLOCK_OK)
        rl_parts_give_back(whole);
    return status;
}
