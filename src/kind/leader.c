/*
 * A leader: the holder of a lease has published a value in a row of its own, under the version of
 * the lease. The row counts only while that lease runs, so nothing is undone when it ends.
 */
#include "kind/leader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/name.h"
#include "engine/look.h"
#include "wait/backoff.h"

#define LOOK_FIRST_US 500000 /* between two looks of a call that waits; less up to half of it */
#define LOOK_MOST_US  1000000

rowlock_status rl_value_check(const char *value, rowlock_error *err)
{
    return *value ? rl_text_check("the value", value, ROWLOCK_VALUE_MAX, err) : ROWLOCK_OK;
}

/* --------------------------------------------------------------------------------- publish */

typedef struct publishing {
    const rowlock_hold *hold;
    const char *value;
    uint64_t number; /* of the hold's values: one that comes late changes nothing */
    const rl_budget *budget;
    bool open; /* a request's reply was lost */
} publishing;

static rowlock_status lost(const publishing *p, rowlock_error *err)
{
    const rl_lock *lock = &p->hold->locks[0];
    return rl_fail(err, ROWLOCK_LOST, "'%s' is no longer held (token %" PRIu64 ")", lock->name,
                   lock->version);
}

static rowlock_status publish_once(publishing *p, rl_done *done, rowlock_error *err)
{
    const rowlock_hold *hold = p->hold;
    const rl_lock *lock = &hold->locks[0];
    const rl_value values[] = {rl_text(p->value), rl_u64(p->number), rl_u64(lock->id),
                               rl_u64(lock->version), rl_text(hold->owner)};
    rl_io io = rl_budget_quick_io(p->budget);
    RL_BORROWED conn = NULL;
    RL_TRY(rl_pool_take(&hold->client->pool, NULL, &io, &conn, err));
    if (conn->server.identity != hold->held.identity)
        return rl_fail(err, ROWLOCK_LOST, "'%s' was lost: " RL_MOVED, lock->name);
    rowlock_status status = rl_run(conn, RL_SQL_LEADER_PUBLISH, values, &io, done, err);
    p->open = p->open || status == ROWLOCK_UNKNOWN;
    return rl_no_effect(status, err);
}

/* No row matched: the lease is lost, or the statement was stopped (KILL QUERY). */
static rowlock_status not_published(const publishing *p, rowlock_error *err)
{
    const rowlock_hold *hold = p->hold;
    const rl_lock *lock = &hold->locks[0];
    rl_seen seen;
    RL_TRY(rl_look(hold->client, p->budget, lock->id, lock->name, RL_KIND_LEASE, hold->owner, &seen,
                   err));
    const bool ours = rl_seen_status_held(&seen) && seen.ours && seen.version == lock->version;
    if (!ours && seen.verdict != RL_VERDICT_GONE)
        return lost(p, err);
    return rl_fail(err, ROWLOCK_UNAVAILABLE, "'%s': somebody stopped the statement that publishes",
                   lock->name);
}

static rowlock_status attempt_publish(void *data, int64_t *hint_us, rowlock_error *err)
{
    publishing *p = data;
    rl_done done = {0};
    (void)hint_us;
    if (rl_hold_lost(p->hold))
        return lost(p, err);
    RL_TRY(publish_once(p, &done, err));
    return done.rows > 0 ? ROWLOCK_OK : not_published(p, err);
}

/* As long as the lease runs, and not for longer than a call may take. */
static int64_t time_to_publish(const rowlock_hold *hold)
{
    const int64_t left_ms = (atomic_load(&hold->held.deadline_us) - rl_now_us()) / 1000;
    const int64_t limit_ms = hold->client->limit_ms;
    return left_ms < 1 ? 1 : left_ms < limit_ms ? left_ms : limit_ms;
}

rowlock_status rl_leader_publish(rowlock_hold *hold, const char *value, rowlock_cancel *cancel,
                                 rowlock_error *err)
{
    const rl_budget budget = rl_budget_start(time_to_publish(hold), hold->client->limit_ms, cancel);
    publishing p = {.hold = hold,
                    .value = value,
                    .number = atomic_fetch_add(&hold->published, 1) + 1,
                    .budget = &budget};
    const rl_attempts how = {
        .budget = &budget, .outage_us = hold->client->outage_us, .backoff = RL_BACKOFF_USUAL};
    rowlock_status status = rl_attempt_until(&how, attempt_publish, &p, err);
    if (status == ROWLOCK_OK && rl_hold_lost(hold))
        return lost(&p, err);
    if (status != ROWLOCK_TIMEOUT && status != ROWLOCK_UNAVAILABLE)
        return status;
    return rl_fail(err, p.open ? ROWLOCK_UNKNOWN : ROWLOCK_UNAVAILABLE,
                   "the server could not be reached in time: the value of '%s' %s",
                   hold->locks[0].name, p.open ? "may have been published" : "was not published");
}

/* --------------------------------------------------------------------------------- observe */

typedef struct observing {
    rowlock_client *client;
    const char *name;
    const rl_budget *budget;
    const rowlock_leader *after; /* NULL: until there is a leader */
    rowlock_leader now;
    char kind[17]; /* "": there is no such name */
} observing;

static void keep_leader(void *data, const rl_cell *cells)
{
    observing *o = data;
    snprintf(o->kind, sizeof o->kind, "%s", cells[0].text);
    if (cells[1].u64 == 0)
        return;
    o->now = (rowlock_leader){.leads = true,
                              .token = cells[2].u64,
                              .held_ms = cells[5].i64 / 1000,
                              .remaining_ms = cells[6].i64 / 1000};
    rl_copy_label(o->now.value, sizeof o->now.value, cells[3].text);
    rl_copy_label(o->now.owner_label, sizeof o->now.owner_label, cells[4].text);
}

static rowlock_status look(observing *o, rowlock_error *err)
{
    const rl_value values[] = {rl_text(o->name)};
    bool found = false;
    o->now = (rowlock_leader){.leads = false};
    o->kind[0] = '\0';
    RL_TRY(rl_client_read(o->client, o->budget, RL_SQL_LEADER_LOOK, values, keep_leader, o, &found,
                          err));
    if (found && strcmp(o->kind, RL_KIND_LEASE) != 0)
        return rl_resource_wrong_kind(o->name, o->kind, RL_KIND_LEASE, err);
    return ROWLOCK_OK;
}

static bool has_changed(const observing *o)
{
    const rowlock_leader *before = o->after;
    const rowlock_leader *now = &o->now;
    if (!before || !before->leads || !now->leads)
        return now->leads != (before && before->leads);
    return now->token != before->token || strcmp(now->value, before->value) != 0;
}

static rowlock_status attempt_observe(void *data, int64_t *hint_us, rowlock_error *err)
{
    observing *o = data;
    RL_TRY(look(o, err));
    if (o->budget->try_once && !o->kind[0])
        return rl_fail(err, ROWLOCK_NOT_FOUND,
                       "there is no lock '%s' (it was never used, or is purged)", o->name);
    if (o->budget->try_once || has_changed(o))
        return ROWLOCK_OK;
    if (!o->now.leads)
        return rl_fail(err, ROWLOCK_BUSY, "nobody leads '%s'", o->name);
    *hint_us = o->now.remaining_ms * 1000 + 1000;
    return rl_fail(err, ROWLOCK_BUSY, "'%s' is still led by %s (token %" PRIu64 ")", o->name,
                   o->now.owner_label, o->now.token);
}

rowlock_status rl_leader_observe(rowlock_client *client, const rl_budget *budget, const char *name,
                                 const rowlock_leader *after, rowlock_leader *leader,
                                 rowlock_error *err)
{
    observing o = {.client = client, .name = name, .budget = budget, .after = after};
    const rl_attempts how = {.budget = budget,
                             .outage_us = client->outage_us,
                             .backoff = {.first_us = LOOK_FIRST_US, .most_us = LOOK_MOST_US}};
    RL_TRY(rl_attempt_until(&how, attempt_observe, &o, err));
    *leader = o.now;
    return ROWLOCK_OK;
}
