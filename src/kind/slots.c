/*
 * Slots: a name that N may hold at once. Each slot is a lock of its own, NAME#0 to NAME#N-1: a
 * lease, or a row lock, which is tried without a look before.
 *
 *   1. look: how many slots has the name, which of them are free, and does somebody wait?
 *   2. take: one that is free, or as many as were asked for in one transaction; unless others wait.
 *   3. wait: in the line of the name's own bell (bell/turn.h). Any holder may be the next to leave,
 *            so none of them can ring: the first in line looks again, after pauses that grow to
 *            20 ms, and when it has its slots it lets the next one come first. So all come in the
 *            order of that line, and one that wants several slots is not passed by those who want
 *            one.
 */
#include "kind/slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/text.h"
#include "engine/guard.h"
#include "kind/await.h"
#include "kind/lease.h"
#include "kind/parts.h"
#include "kind/row.h"
#include "kind/set.h"

#define SLOT_NAME_MAX  (ROWLOCK_NAME_MAX * 4 + 12)
#define PAUSE_FIRST_US 500   /* pauses of the first in line, from this ... */
#define PAUSE_MOST_US  20000 /* ... to this: no slot stays free for 100 ms while a client waits */
#define MISSES_AT_ONCE 3     /* after which it pauses */
#define FROZEN_LOOK_US 200000
#define RESERVED_US                                                                                \
    20000 /* pause of a try before its next attempt, where free slots are reserved */

typedef struct slots_call {
    rl_taking taking; /* first: rl_taking_unsettled() is asked of the whole call */
    rl_await await;
    const char *name;
    uint64_t id;     /* of the name's row */
    unsigned wanted; /* slots of the name, as the caller expects; 0: as many as it has */
    unsigned units;
    unsigned slots;  /* so many it has, as far as we know; 0: not known */
    bool looks;      /* the last attempt found no free slot */
    unsigned misses; /* looks of the first in line that found too few */
    unsigned count;  /* of the slots whose ids are known */
    uint64_t *ids;
    rl_buffer json; /* of the ids */
    unsigned free[ROWLOCK_UNITS_MAX];
    unsigned free_count;     /* as many as are wanted, or fewer */
    uint64_t sessions_ended; /* of the last holder of a slot, by this call */
    int64_t hint_us;
} slots_call;

static void name_slot(const char *name, unsigned slot, char to[SLOT_NAME_MAX])
{
    snprintf(to, SLOT_NAME_MAX, "%s#%u", name, slot);
}

/* ------------------------------------------------------------------------ how many */

typedef struct capacity {
    unsigned slots;
    uint64_t line;
} capacity;

static void keep_capacity(void *data, const rl_cell *cells)
{
    *(capacity *)data = (capacity){.slots = (unsigned)cells[0].u64, .line = cells[1].u64};
}

static rowlock_status read_capacity(rowlock_client *client, const rl_budget *budget,
                                    const char *name, uint64_t id, capacity *is, bool *found,
                                    rowlock_error *err)
{
    const rl_value values[] = {rl_u64(id), rl_text(name), rl_text(client->bells.prefix)};
    return rl_client_read(client, budget, RL_SQL_SLOTS_COUNT, values, keep_capacity, is, found,
                          err);
}

rowlock_status rl_slots_count(rowlock_client *client, const rl_budget *budget, const char *name,
                              uint64_t *id, unsigned *slots, rowlock_error *err)
{
    capacity now = {0};
    bool found = false;
    RL_TRY(rl_resource_known(client, budget, name, RL_KIND_SLOTS, id, err));
    RL_TRY(read_capacity(client, budget, name, *id, &now, &found, err));
    *slots = now.slots;
    if (found && now.slots)
        return ROWLOCK_OK;
    rl_resource_forget(client, name);
    return rl_fail(err, ROWLOCK_NOT_FOUND, "'%s' has no number of slots yet; say how many", name);
}

/* The name has no number of slots yet: its first user sets it. */
static rowlock_status claim(const slots_call *c, rowlock_error *err)
{
    rowlock_client *client = c->taking.whole->client;
    const rl_value values[] = {rl_u64(c->id), rl_u64(c->slots)};
    return rl_no_effect(
        rl_client_run(client, c->taking.budget, RL_SQL_SLOTS_CLAIM, values, NULL, err), err);
}

static rowlock_status check_capacity(const slots_call *c, unsigned slots, rowlock_error *err)
{
    if (c->wanted && slots != c->wanted)
        return rl_fail(err, ROWLOCK_MODE, "'%s' has %u slot%s, not %u (`rowlock slots` changes it)",
                       c->name, slots, slots == 1 ? "" : "s", c->wanted);
    if (c->units > slots)
        return rl_fail(err, ROWLOCK_INVALID, "'%s' has %u slot%s, and %u are asked for", c->name,
                       slots, slots == 1 ? "" : "s", c->units);
    return ROWLOCK_OK;
}

/* ---------------------------------------------------------------------------- which */

static const char *kind_of(const slots_call *c)
{
    return c->taking.whole->mode == ROWLOCK_PESSIMISTIC ? RL_KIND_ROW : RL_KIND_LEASE;
}

static rowlock_status find_ids(slots_call *c, rowlock_error *err)
{
    char name[SLOT_NAME_MAX];
    c->json.length = 0;
    for (unsigned i = 0; i < c->count; i++) {
        name_slot(c->name, i, name);
        RL_TRY(rl_resource_id(c->taking.whole->client, c->taking.budget, name, kind_of(c),
                              &c->ids[i], err));
        rl_buffer_puts(&c->json, i ? "," : "[");
        rl_json_u64(&c->json, c->ids[i]);
    }
    rl_buffer_puts(&c->json, "]");
    return c->json.failed ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory") : ROWLOCK_OK;
}

/* The slots' ids, of as many as the name has; they are looked up again when that has changed. */
static rowlock_status know_slots(slots_call *c, unsigned slots, rowlock_error *err)
{
    if (slots == c->count)
        return ROWLOCK_OK;
    uint64_t *ids = realloc(c->ids, slots * sizeof *ids);
    if (!ids)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    c->ids = ids;
    c->count = slots;
    rowlock_status status = find_ids(c, err);
    if (status != ROWLOCK_OK)
        c->count = 0;
    return status;
}

static rowlock_status changed(slots_call *c, rowlock_error *err)
{
    c->count = c->slots = 0;
    c->hint_us = RL_AT_ONCE;
    return rl_fail(err, ROWLOCK_BUSY, "the slots of '%s' were changed just now", c->name);
}

/* The number that the caller expects, or else the one in the row. */
static rowlock_status find_name(slots_call *c, rowlock_error *err)
{
    rowlock_client *client = c->taking.whole->client;
    const rl_budget *budget = c->taking.budget;
    char last[SLOT_NAME_MAX];
    if (c->slots)
        return ROWLOCK_OK;
    if (c->wanted)
        RL_TRY(rl_resource_id(client, budget, c->name, RL_KIND_SLOTS, &c->id, err));
    else
        RL_TRY(rl_slots_count(client, budget, c->name, &c->id, &c->slots, err));
    rl_await_at(&c->await, c->id);
    if (c->wanted)
        c->slots = c->wanted;
    name_slot(c->name, c->slots - 1, last);
    return rl_name_check(last, err);
}

/* ----------------------------------------------------------------------------- look */

typedef struct slot_look {
    capacity name;
    unsigned rows;
    bool gone;         /* one that was purged since its id was learned */
    unsigned frozen;   /* frozen slots, held or not */
    unsigned of_other; /* 1 + one that is of another kind; 0: none */
    unsigned expired;  /* likewise: its holder's time is over */
    uint64_t expired_version;
    unsigned guarded; /* likewise: sessions of whom had it as a lease may be there */
    uint64_t guarded_version;
} slot_look;

static bool is(const rl_cell *cell, const char *word)
{
    return strcmp(cell->text, word) == 0;
}

static void note_slot(slots_call *c, slot_look *seen, const rl_cell *cells)
{
    const unsigned place = (unsigned)cells[2].u64;
    seen->rows++;
    keep_capacity(&seen->name, cells);
    if (is(&cells[3], "GONE")) {
        seen->gone = true;
    } else if (is(&cells[3], "WRONG_KIND")) {
        seen->of_other = place;
    } else if (is(&cells[3], "FROZEN")) {
        seen->frozen++;
    } else if (is(&cells[3], "GUARDED")) {
        seen->guarded = place;
        seen->guarded_version = cells[4].u64;
    } else if (is(&cells[3], "EXPIRED")) {
        seen->expired = place;
        seen->expired_version = cells[4].u64;
    } else if (is(&cells[3], "FREE") && c->free_count < c->units) {
        c->free[c->free_count++] = place - 1;
    } else if (is(&cells[3], "FREE") && c->units > 0 && rl_random_u32() % 2) {
        /* A random choice, since others choose at the same time. */
        c->free[rl_random_u32() % c->units] = place - 1;
    }
}

static rowlock_status look(slots_call *c, rl_conn *conn, slot_look *seen, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(c->id), rl_text(c->name),
                               rl_text(c->await.turn.bells->prefix),
                               rl_text_n(c->json.text, c->json.length)};
    rl_io io = rl_budget_quick_io(c->taking.budget);
    rl_rows rows;
    *seen = (slot_look){.rows = 0};
    c->free_count = 0;
    RL_TRY(rl_no_effect(rl_query(conn, RL_SQL_SLOTS_LOOK, values, &io, &rows, err), err));
    while (rl_next(&rows))
        note_slot(c, seen, rows.cells);
    return ROWLOCK_OK;
}

static rowlock_status of_other_kind(const slots_call *c, unsigned slot, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_MODE, "'%s#%u' is no lease, so it cannot be a slot of '%s'",
                   c->name, slot, c->name);
}

/* Frees a slot whose holder's time is over, as a sweep does. */
static rowlock_status free_expired(slots_call *c, const slot_look *seen, rowlock_error *err)
{
    bool freed = false;
    RL_TRY(
        rl_no_effect(rl_lease_expire(c->taking.whole->client, c->taking.budget,
                                     c->ids[seen->expired - 1], seen->expired_version, &freed, err),
                     err));
    c->hint_us = RL_AT_ONCE;
    return rl_fail(err, ROWLOCK_BUSY, "a slot of '%s' was held until just now", c->name);
}

static rowlock_status end_sessions(slots_call *c, const slot_look *seen, rowlock_error *err)
{
    char name[SLOT_NAME_MAX];
    const rl_guard guard = {
        .id = c->ids[seen->guarded - 1], .name = name, .version = seen->guarded_version};
    name_slot(c->name, seen->guarded - 1, name);
    RL_TRY(
        rl_guard_end(c->taking.whole->client, c->taking.budget, &guard, &c->sessions_ended, err));
    c->hint_us = RL_AT_ONCE;
    return rl_fail(err, ROWLOCK_BUSY, "a slot of '%s' was held until just now", c->name);
}

static rowlock_status purged(slots_call *c, rowlock_error *err)
{
    char name[SLOT_NAME_MAX];
    rl_resource_forget(c->taking.whole->client, c->name);
    for (unsigned i = 0; i < c->count; i++) {
        name_slot(c->name, i, name);
        rl_resource_forget(c->taking.whole->client, name);
    }
    return changed(c, err);
}

/* Slots are free, but others wait. A call that does not wait gives the first in line a moment to
 * take its slots and leave. */
static rowlock_status reserved(slots_call *c, rowlock_error *err)
{
    if (c->taking.budget->try_once) {
        rl_give_moment(c->taking.budget, RESERVED_US);
        c->hint_us = RL_AT_ONCE;
    }
    return rl_fail(err, ROWLOCK_BUSY, "the slots of '%s' are reserved for waiters", c->name);
}

/* Does the name have as many slots as we know of? */
static rowlock_status is_current(slots_call *c, const capacity *name, rowlock_error *err)
{
    if (name->slots == 0) {
        RL_TRY(claim(c, err));
        return changed(c, err);
    }
    RL_TRY(check_capacity(c, name->slots, err));
    return name->slots == c->slots ? ROWLOCK_OK : changed(c, err);
}

static rowlock_status too_few(const slots_call *c, rowlock_error *err)
{
    if (c->units > 1)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' has fewer than %u of its %u slots free", c->name,
                       c->units, c->slots);
    if (c->slots == 1)
        return rl_fail(err, ROWLOCK_BUSY, "the only slot of '%s' is in use", c->name);
    return rl_fail(err, ROWLOCK_BUSY, "none of the %u slots of '%s' is free", c->slots, c->name);
}

/* OK: as many as are wanted are free, and it is our turn. */
static rowlock_status decide(slots_call *c, const slot_look *seen, rowlock_error *err)
{
    if (seen->rows == 0 || seen->gone)
        return purged(c, err);
    if (seen->rows < c->count)
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "somebody stopped the statement that looks at "
                       "the slots");
    RL_TRY(is_current(c, &seen->name, err));
    rl_hold_saw_frozen(c->taking.whole, seen->frozen > 0);
    if (seen->of_other)
        return of_other_kind(c, seen->of_other - 1, err);
    if (seen->frozen == seen->rows) {
        c->hint_us = RL_NOT_BEFORE(FROZEN_LOOK_US);
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is frozen", c->name);
    }
    if (c->free_count < c->units && seen->expired)
        return free_expired(c, seen, err);
    if (c->free_count < c->units && seen->guarded)
        return end_sessions(c, seen, err);
    /* Others probably hold theirs for less than the shortest pause. */
    if (c->free_count < c->units && c->await.turn.conn && c->misses++ < MISSES_AT_ONCE)
        c->hint_us = RL_AT_ONCE;
    if (c->free_count < c->units)
        return too_few(c, err);
    if (seen->name.line && !rl_await_is_first(&c->await))
        return reserved(c, err);
    return ROWLOCK_OK;
}

/* ----------------------------------------------------------------------------- take */

static int by_number(const void *a, const void *b)
{
    const unsigned one = *(const unsigned *)a;
    const unsigned other = *(const unsigned *)b;
    return (one > other) - (one < other);
}

/* Makes this slot the i-th part. */
static rowlock_status new_part(const slots_call *c, unsigned i, unsigned slot, rowlock_error *err)
{
    rowlock_hold *whole = c->taking.whole;
    char name[SLOT_NAME_MAX];
    name_slot(c->name, slot, name);
    RL_TRY(rl_part_new(whole, i, name, c->taking.options, err));
    whole->parts->list[i]->locks[0].slot = slot;
    return ROWLOCK_OK;
}

static rowlock_status make_parts(slots_call *c, rowlock_error *err)
{
    rowlock_hold *whole = c->taking.whole;
    rl_parts_give_back(whole);
    qsort(c->free, c->units, sizeof c->free[0], by_number);
    for (unsigned i = 0; i < c->units; i++) {
        RL_TRY(new_part(c, i, c->free[i], err));
        rl_lock *lock = &whole->parts->list[i]->locks[0];
        RL_TRY(rl_resource_id(whole->client, c->taking.budget, lock->name, RL_KIND_LEASE, &lock->id,
                              err));
    }
    return ROWLOCK_OK;
}

/* In the transaction that takes several: does the name have them still, and is it our turn? */
static rowlock_status may_take(void *data, rl_conn *conn, rowlock_error *err)
{
    slots_call *c = data;
    const rl_value values[] = {rl_u64(c->id), rl_text(c->await.turn.bells->prefix)};
    rl_io io = rl_budget_quick_io(c->taking.budget);
    rl_rows rows;
    bool found = false;
    RL_TRY(
        rl_no_effect(rl_query_one(conn, RL_SQL_SLOTS_KEEP, values, &io, &found, &rows, err), err));
    for (unsigned i = 0; found && i < c->units; i++)
        found = rows.cells[0].u64 > c->free[i];
    if (found && (rows.cells[1].u64 == 0 || rl_await_is_first(&c->await)))
        return ROWLOCK_OK;
    return changed(c, err);
}

static rowlock_status taken(slots_call *c, rowlock_error *err)
{
    c->hint_us = RL_AT_ONCE;
    return rl_fail(err, ROWLOCK_BUSY, "another one took that slot of '%s' just now", c->name);
}

static rowlock_status in_use(const slots_call *c, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_BUSY, "'%s' is in use by a transaction", c->name);
}

/* With a trigger on the table the OK packet does not have the token. */
static rowlock_status read_token(slots_call *c, rowlock_hold *part, rowlock_error *err)
{
    bool ours = true;
    RL_TRY(rl_part_find(&c->taking, part, &ours, err));
    return ours ? ROWLOCK_OK : taken(c, err);
}

static rowlock_status take_one(slots_call *c, rl_conn *conn, rowlock_error *err)
{
    rl_taking *t = &c->taking;
    rowlock_hold *part = t->whole->parts->list[0];
    rl_lock *lock = &part->locks[0];
    const bool rings = c->await.turn.conn != NULL;
    const rl_value values[] = {rl_u64(rings ? 2 : rl_await_is_first(&c->await)),
                               rl_text(c->await.turn.bells->prefix),
                               rl_text(part->owner),
                               rl_text(part->client->label),
                               rl_u64((uint64_t)t->whole->held.ttl_us),
                               rl_u64(c->id),
                               rl_u64(c->wanted),
                               rl_u64(c->free[0]),
                               rl_u64(lock->id),
                               rl_text(lock->name)};
    rl_done done = {0};
    const int64_t sent_us = rl_now_us();
    rowlock_status status = rl_client_change_on(conn, t->budget, false, RL_SQL_SLOTS_TAKE, values,
                                                &t->request, &done, err);
    c->await.turn.change_us = rl_now_us() - sent_us;
    t->open = status == ROWLOCK_UNKNOWN;
    if (t->open)
        return ROWLOCK_UNAVAILABLE;
    if (status == ROWLOCK_TIMEOUT && t->budget->try_once)
        return in_use(c, err);
    RL_TRY(status);
    if (done.rows == 0)
        return taken(c, err);
    if (rings && !conn->broken && !conn->interrupted)
        rl_turn_rung(&c->await.turn);
    rl_resource_keep_number(part->client, c->name, c->free[0]);
    lock->version = done.insert_id;
    return done.insert_id ? ROWLOCK_OK : read_token(c, part, err);
}

/* Tries the slot that this client had the last time: one statement if no other client wants it. */
static rowlock_status take_last(slots_call *c, rowlock_error *err)
{
    const unsigned last = rl_resource_number(c->taking.whole->client, c->name);
    rl_conn *conn = NULL;
    c->looks = true;
    if (last == RL_NO_NUMBER || last >= c->slots)
        return too_few(c, err);
    c->free[0] = last;
    RL_TRY(make_parts(c, err));
    RL_TRY(rl_turn_borrow(&c->await.turn, &conn, err));
    rowlock_status status = take_one(c, conn, err);
    rl_turn_give_back(&c->await.turn, conn);
    RL_TRY(status);
    return rl_parts_begin(&c->taking, err);
}

static rowlock_status look_and_take(slots_call *c, rl_conn *conn, rowlock_error *err)
{
    slot_look seen;
    RL_TRY(know_slots(c, c->slots, err));
    RL_TRY(look(c, conn, &seen, err));
    RL_TRY(decide(c, &seen, err));
    RL_TRY(make_parts(c, err));
    return c->units == 1 ? take_one(c, conn, err) : ROWLOCK_OK;
}

/* ------------------------------------------------------------------------- row locks */

/* One after the other, each by a try, until there are enough. */
static rowlock_status lock_rows(slots_call *c, rowlock_error *err)
{
    rowlock_hold *whole = c->taking.whole;
    const rl_budget once = rl_budget_start(0, whole->client->limit_ms, c->taking.budget->cancel);
    const unsigned first = c->slots ? rl_random_u32() % c->slots : 0;
    unsigned taken = 0;
    for (unsigned i = 0; i < c->slots && taken < c->units; i++) {
        RL_TRY(new_part(c, taken, (first + i) % c->slots, err));
        rowlock_status status = rl_row_acquire(whole->parts->list[taken], &once, err);
        if (status == ROWLOCK_OK)
            taken++;
        else
            rl_part_drop(whole, taken);
        if (status != ROWLOCK_OK && status != ROWLOCK_BUSY)
            return status;
    }
    return taken == c->units ? ROWLOCK_OK : too_few(c, err);
}

/* On the connection that has the bell, if it is our turn: so others see that we are awake. */
static rowlock_status read_line(slots_call *c, capacity *now, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(c->id), rl_text(c->name),
                               rl_text(c->await.turn.bells->prefix)};
    rl_io io = rl_budget_quick_io(c->taking.budget);
    rl_conn *conn = NULL;
    rl_rows rows;
    bool found = false;
    RL_TRY(rl_turn_borrow(&c->await.turn, &conn, err));
    rowlock_status status =
        rl_no_effect(rl_query_one(conn, RL_SQL_SLOTS_COUNT, values, &io, &found, &rows, err), err);
    if (status == ROWLOCK_OK && found)
        keep_capacity(now, rows.cells);
    rl_turn_give_back(&c->await.turn, conn);
    if (status != ROWLOCK_OK || found)
        return status;
    return purged(c, err);
}

/* The name may have fewer slots by the time that these are taken. */
static rowlock_status take_rows(slots_call *c, rowlock_error *err)
{
    capacity now = {0};
    rl_parts_give_back(c->taking.whole);
    RL_TRY(read_line(c, &now, err));
    RL_TRY(is_current(c, &now, err));
    if (now.line && !rl_await_is_first(&c->await))
        return reserved(c, err);
    rowlock_status status = lock_rows(c, err);
    if (status == ROWLOCK_OK)
        status = read_line(c, &now, err);
    if (status == ROWLOCK_OK)
        status = is_current(c, &now, err);
    if (status == ROWLOCK_OK && now.line && !rl_await_is_first(&c->await))
        status = changed(c, err);
    if (status != ROWLOCK_OK)
        rl_parts_give_back(c->taking.whole);
    return status;
}

/* Several, in a transaction of their own. */
static rowlock_status take_several(slots_call *c, rowlock_error *err)
{
    rowlock_status status = rl_take_parts(&c->taking, err);
    if (status == ROWLOCK_BUSY) /* another caller took one of them first */
        c->hint_us = RL_AT_ONCE;
    return status;
}

static rowlock_status attempt_one(slots_call *c, rowlock_error *err)
{
    rowlock_status status = ROWLOCK_BUSY;
    rl_conn *conn = NULL;
    bool ours = false;
    const bool settled = c->taking.open;
    if (settled)
        RL_TRY(rl_taking_settle(&c->taking, &ours, err));
    if (ours)
        return rl_parts_begin(&c->taking, err);
    if (settled && rl_try_was_stopped(c->taking.budget, ROWLOCK_UNKNOWN, &c->taking.request))
        return in_use(c, err);
    RL_TRY(find_name(c, err));
    if (rl_turn_waits_first(&c->await.turn))
        return rl_fail(err, ROWLOCK_BUSY, "'%s': others wait for its slots", c->name);
    if (c->taking.whole->mode == ROWLOCK_PESSIMISTIC)
        return take_rows(c, err);
    if (c->units == 1 && !c->looks)
        status = take_last(c, err);
    if (status != ROWLOCK_BUSY)
        return status;
    c->hint_us = 0;
    RL_TRY(rl_turn_borrow(&c->await.turn, &conn, err));
    status = look_and_take(c, conn, err);
    rl_turn_give_back(&c->await.turn, conn);
    RL_TRY(status);
    return c->units == 1 ? rl_parts_begin(&c->taking, err) : take_several(c, err);
}

static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    slots_call *c = data;
    c->hint_us = 0;
    rowlock_status status = attempt_one(c, err);
    *hint_us = c->hint_us;
    return status;
}

rowlock_status rl_slots_acquire(rowlock_hold *whole, const rowlock_acquire_options *options,
                                const rl_budget *budget, rowlock_error *err)
{
    const rl_backoff pauses = {.first_us = PAUSE_FIRST_US, .most_us = PAUSE_MOST_US};
    slots_call c = {.name = whole->locks[0].name,
                    .wanted = options->slots == ROWLOCK_SLOTS_AS_SET ? 0 : options->slots,
                    .units = options->units ? options->units : 1};
    if (c.units > 1 && rl_client_via(whole->client) && whole->mode == ROWLOCK_OPTIMISTIC)
        return rl_fail(err, ROWLOCK_UNSUPPORTED,
                       "several slots at once are taken in a transaction, for which there is no "
                       "procedure (via=procedures); take them one by one");
    RL_TRY(rl_parts_init(whole, c.units, err));
    c.taking = (rl_taking){.whole = whole,
                           .options = options,
                           .budget = budget,
                           .may = may_take,
                           .may_runs = RL_SQL_SLOTS_KEEP,
                           .data = &c,
                           .quiet = true};
    rl_await_init(&c.await, whole->client, budget, whole->owner, whole->held.ttl_us);
    c.await.attempt = attempt;
    c.await.unsettled = rl_taking_unsettled;
    c.await.data = &c;
    rowlock_status status = rl_await_until(&c.await, pauses, err);
    status = rl_taking_ended(&c.taking, status, err);
    free(c.ids);
    rl_buffer_free(&c.json);
    if (status == ROWLOCK_OK)
        status = rl_parts_held(whole, budget, err);
    if (status != ROWLOCK_OK)
        rl_parts_give_back(whole);
    return status;
}

/* -------------------------------------------------------------------------- to operate */

rowlock_status rl_slots_set(rowlock_client *client, const rl_budget *budget, const char *name,
                            unsigned slots, rowlock_error *err)
{
    char last[SLOT_NAME_MAX];
    uint64_t id = 0;
    rl_done done = {0};
    name_slot(name, slots - 1, last);
    RL_TRY(rl_name_check(last, err));
    RL_TRY(rl_resource_id(client, budget, name, RL_KIND_SLOTS, &id, err));
    const rl_value values[] = {rl_u64(slots), rl_u64(id)};
    RL_TRY(rl_client_run(client, budget, RL_SQL_SLOTS_SET, values, &done, err));
    if (done.rows > 0)
        return ROWLOCK_OK;
    rl_resource_forget(client, name);
    return rl_fail(err, ROWLOCK_UNAVAILABLE, "'%s' was purged just now; try again", name);
}
