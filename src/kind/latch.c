/*
 * A latch:
 *
 *   set:   begins the next generation, once the one before is settled, with a number of counts.
 *   down:  inserts one row of latch_down, perhaps in the user's own transaction.
 *   wait:  stands in line (kind/await.h); the first in line counts the rows. When all are there, it
 *          settles the generation as open, and the next one in line sees that without counting.
 *
 * A member has promised to count, and is renewed like a reader of a lease. If its time is over, or
 * it leaves without having counted, the generation is settled as broken.
 */
#include "kind/latch.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/name.h"
#include "base/random.h"
#include "engine/settle.h"
#include "kind/await.h"
#include "kind/shared.h"

#define PAUSE_FIRST_US 1000   /* pauses of the first in line, from this ... */
#define PAUSE_MOST_US  40000  /* ... to this: all go on within 100 ms of the last count */
#define APART_US       125000 /* pause of a waiter that is not in line, and up to as much again */
#define MEMBERS_US     250000 /* between two checks whether a member was lost */
#define CHANGES_MOST   5      /* attempts, where the latch is settled and set again each time */
#define REMEMBERED     64     /* generations whose end the row still tells */

typedef struct latch {
    rowlock_client *client;
    const rl_budget *budget;
    const char *name;
    const char *owner; /* the caller's owner id */
    uint64_t id;
    uint64_t generation; /* 0: the present one, or the first */
} latch;

/* ----------------------------------------------------------------------------------- look */

typedef struct latch_look {
    char kind[17];
    uint64_t version;
    bool unset;
    bool armed;
    unsigned count;
    uint64_t broken;
    unsigned down;
    char label[ROWLOCK_LABEL_MAX * 4 + 1];
    bool mine; /* the caller has set it */
} latch_look;

static void keep_look(void *data, const rl_cell *cells)
{
    latch_look *seen = data;
    snprintf(seen->kind, sizeof seen->kind, "%s", cells[0].text);
    seen->version = cells[1].u64;
    seen->unset = cells[2].u64 != 0;
    seen->armed = cells[3].u64 != 0;
    seen->count = (unsigned)cells[4].u64;
    seen->broken = cells[5].u64;
    seen->down = (unsigned)cells[6].u64;
    snprintf(seen->label, sizeof seen->label, "%s", cells[7].text);
    seen->mine = cells[8].u64 != 0;
}

static rowlock_status purged(const latch *l, rowlock_error *err)
{
    rl_resource_forget(l->client, l->name);
    return rl_fail(err, ROWLOCK_BUSY, "'%s' was purged just now", l->name);
}

/* BUSY: the name was purged after its id was read. */
static rowlock_status look_on(const latch *l, rl_conn *conn, latch_look *seen, rowlock_error *err)
{
    const rl_value values[] = {rl_text(l->owner ? l->owner : ""), rl_u64(l->generation),
                               rl_u64(l->id), rl_text(l->name)};
    rl_io io = rl_budget_quick_io(l->budget);
    rl_rows rows;
    bool found = false;
    *seen = (latch_look){.count = 0};
    RL_TRY(
        rl_no_effect(rl_query_one(conn, RL_SQL_LATCH_LOOK, values, &io, &found, &rows, err), err));
    if (!found)
        return purged(l, err);
    keep_look(seen, rows.cells);
    if (strcmp(seen->kind, RL_KIND_LATCH) != 0)
        return rl_resource_wrong_kind(l->name, seen->kind, RL_KIND_LATCH, err);
    return ROWLOCK_OK;
}

static rowlock_status look(const latch *l, latch_look *seen, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(l->budget);
    RL_BORROWED conn = NULL;
    RL_TRY(rl_pool_take(&l->client->pool, NULL, &io, &conn, err));
    return look_on(l, conn, seen, err);
}

/* How `generation` ended, as far as the row tells. */
static rowlock_latch_state state_of(const latch_look *seen, uint64_t generation)
{
    if (seen->unset || generation > seen->version)
        return ROWLOCK_LATCH_UNSET;
    if (generation == seen->version && seen->armed)
        return ROWLOCK_LATCH_ARMED;
    const uint64_t age = seen->version - generation;
    bool broken = age >= REMEMBERED || (seen->broken >> age & 1) != 0;
    return broken ? ROWLOCK_LATCH_BROKEN : ROWLOCK_LATCH_OPEN;
}

static bool is_full(const latch_look *seen, uint64_t generation)
{
    return seen->armed && seen->version == generation && seen->down >= seen->count;
}

static uint64_t generation_of(const latch *l, const latch_look *seen)
{
    return l->generation ? l->generation : seen->version;
}

/* ------------------------------------------------------------------------------ what it is */

/* `generation`: which one was asked for; 0: any. */
static rowlock_status not_set(const latch *l, uint64_t generation, rowlock_status status,
                              rowlock_error *err)
{
    if (generation)
        return rl_fail(err, status, "'%s' was not set to generation %" PRIu64 " yet", l->name,
                       generation);
    return rl_fail(err, status, "'%s' was not set yet (`rowlock latch set`)", l->name);
}

static rowlock_status broken(const latch *l, const latch_look *seen, rowlock_error *err)
{
    const uint64_t generation = generation_of(l, seen);
    if (generation == seen->version)
        return rl_fail(err, ROWLOCK_LOST,
                       "'%s' will not open, because of %s (generation %" PRIu64 ")", l->name,
                       seen->label, generation);
    return rl_fail(err, ROWLOCK_LOST,
                   "generation %" PRIu64 " of '%s' was broken, or was too long ago to tell; the "
                   "present one is %" PRIu64,
                   generation, l->name, seen->version);
}

static rowlock_status some_to_come(const latch *l, const latch_look *seen, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_BUSY, "'%s' is closed: %u of %u have counted", l->name, seen->down,
                   seen->count);
}

/* A reply was lost; `err` says why it could not be found out what became of the request. */
static rowlock_status unknown(const char *name, const char *what, rowlock_error *err)
{
    rl_error_prefix(err, "'%s' may have been %s: the reply was lost, and then: ", name, what);
    if (err)
        err->status = ROWLOCK_UNKNOWN;
    return ROWLOCK_UNKNOWN;
}

/* ---------------------------------------------------------------------------------- settle */

/* Settles a generation; the row then tells how it ended, even if another client has settled it. */
static rowlock_status settle_open(const latch *l, uint64_t generation, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(l->id), rl_u64(generation)};
    rl_trace trace;
    rl_done done = {0};
    rowlock_status status = rl_client_change(l->client, l->budget, NULL, false, RL_SQL_LATCH_OPEN,
                                             values, &trace, &done, err);
    if (status == ROWLOCK_TIMEOUT)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is in use by a transaction", l->name);
    return rl_no_effect(status, err);
}

/* `member`: the one that leaves; "": any whose time is over. */
static rowlock_status settle_broken(const latch *l, uint64_t generation, const char *member,
                                    rowlock_error *err)
{
    const rl_value values[] = {rl_u64(l->id), rl_u64(generation), rl_text(member)};
    rl_trace trace;
    rl_done done = {0};
    rowlock_status status = rl_client_change(l->client, l->budget, NULL, false,
                                             RL_SQL_LATCH_BREAK_MEMBER, values, &trace, &done, err);
    if (status == ROWLOCK_TIMEOUT)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is in use by a transaction", l->name);
    return rl_no_effect(status, err);
}

typedef struct members {
    unsigned count;
    bool dead;
} members;

static void keep_members(void *data, const rl_cell *cells)
{
    *(members *)data = (members){.count = (unsigned)cells[0].u64, .dead = cells[1].text[0] != '\0'};
}

static rowlock_status look_at_members(const latch *l, uint64_t generation, members *seen,
                                      rowlock_error *err)
{
    const rl_value values[] = {rl_u64(l->id), rl_u64(generation)};
    bool found = false;
    *seen = (members){.count = 0};
    return rl_client_read(l->client, l->budget, RL_SQL_LATCH_MEMBERS, values, keep_members, seen,
                          &found, err);
}

/* Settles the generation if that is possible. `again`: it was settled, look again. */
static rowlock_status settle(const latch *l, const latch_look *seen, bool members_too, bool *again,
                             rowlock_error *err)
{
    members those = {.count = 0};
    *again = seen->armed && seen->down >= seen->count;
    if (*again)
        return settle_open(l, seen->version, err);
    if (seen->armed && members_too)
        RL_TRY(look_at_members(l, seen->version, &those, err));
    *again = those.dead;
    return those.dead ? settle_broken(l, seen->version, "", err) : ROWLOCK_OK;
}

/* Its state, after settling everything that can be settled. */
static rowlock_status look_settled(const latch *l, latch_look *seen, rowlock_error *err)
{
    bool again = true;
    for (unsigned i = 0; again && i < CHANGES_MOST; i++) {
        RL_TRY(look(l, seen, err));
        RL_TRY(settle(l, seen, true, &again, err));
    }
    return ROWLOCK_OK;
}

/* ------------------------------------------------------------------------------------- set */

typedef struct setting {
    latch l;
    unsigned count;
    rl_trace request; /* the last one that set it ... */
    bool open;        /* ... whose reply was lost */
    uint64_t generation;
} setting;

static bool set_is_open(const void *data)
{
    return ((const setting *)data)->open;
}

/* The server is done with the request whose reply was lost, so the row now tells the result. */
static rowlock_status settle_set(setting *s, rowlock_error *err)
{
    RL_TRY(rl_settle(s->l.client, s->l.budget, &s->request, err));
    s->open = false;
    return ROWLOCK_OK;
}

static rowlock_status set_next(setting *s, const latch_look *seen, rowlock_error *err)
{
    const latch *l = &s->l;
    const rl_value values[] = {rl_u64(s->count),      rl_text(l->owner), rl_text(l->client->label),
                               rl_u64(seen->version), rl_u64(l->id),     rl_text(l->name)};
    rl_done done = {0};
    rowlock_status status = rl_client_change(l->client, l->budget, NULL, false, RL_SQL_LATCH_SET,
                                             values, &s->request, &done, err);
    s->open = status == ROWLOCK_UNKNOWN;
    if (s->open)
        return ROWLOCK_UNAVAILABLE;
    if (status == ROWLOCK_TIMEOUT)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is in use by a transaction", l->name);
    s->generation = seen->version + 1;
    if (status != ROWLOCK_OK || done.rows > 0)
        return status;
    return rl_fail(err, ROWLOCK_BUSY, "'%s' was set by another one just now", l->name);
}

static rowlock_status attempt_set(void *data, int64_t *hint_us, rowlock_error *err)
{
    setting *s = data;
    latch *l = &s->l;
    latch_look seen;
    *hint_us = RL_AT_ONCE; /* purged, or set by another one: what is it now? */
    RL_TRY(rl_resource_id(l->client, l->budget, l->name, RL_KIND_LATCH, &l->id, err));
    if (s->open)
        RL_TRY(settle_set(s, err));
    RL_TRY(look_settled(l, &seen, err));
    s->generation = seen.version;
    if (seen.mine)
        return ROWLOCK_OK;
    if (seen.armed)
        *hint_us = RL_FINAL;
    return seen.armed ? some_to_come(l, &seen, err) : set_next(s, &seen, err);
}

rowlock_status rl_latch_set(rowlock_client *client, const rl_budget *budget, const char *name,
                            unsigned count, uint64_t *generation, rowlock_error *err)
{
    char owner[ROWLOCK_OWNER_MAX + 1];
    setting s = {.l = {.client = client, .budget = budget, .name = name, .owner = owner},
                 .count = count};
    const rl_attempts how = {.budget = budget,
                             .outage_us = client->outage_us,
                             .backoff = RL_BACKOFF_USUAL,
                             .unsettled = set_is_open};
    rl_client_owner(client, owner);
    rowlock_status status = rl_attempt_until(&how, attempt_set, &s, err);
    if (status != ROWLOCK_OK && s.open)
        return unknown(name, "set", err);
    RL_TRY(status);
    const rl_value earlier[] = {rl_u64(s.l.id)};
    (void)!rl_client_run(client, budget, RL_SQL_LATCH_FORGET, earlier, NULL, NULL);
    *generation = s.generation;
    return ROWLOCK_OK;
}

/* ------------------------------------------------------------------------------------ down */

typedef struct counting {
    latch l;
    rl_sql_id statement; /* latch_down, latch_join */
    rl_value values[7];
    const char *key; /* the key of the count, now or later */
    int64_t ttl_us;
    rl_trace *trace;      /* of the last request ... */
    bool open;            /* ... whose reply was lost */
    uint64_t *generation; /* in which it counts; 0: the latch was open already */
} counting;

/* No row matched: finds out why. */
static rowlock_status not_counted(const latch *l, rowlock_error *err)
{
    latch_look seen = {.count = 0};
    RL_TRY(rl_no_effect(look(l, &seen, err), err));
    switch (state_of(&seen, generation_of(l, &seen))) {
    case ROWLOCK_LATCH_UNSET:
        return not_set(l, l->generation, ROWLOCK_NOT_FOUND, err);
    case ROWLOCK_LATCH_BROKEN:
        return broken(l, &seen, err);
    case ROWLOCK_LATCH_OPEN:
        return ROWLOCK_OK;
    case ROWLOCK_LATCH_ARMED:
        break;
    }
    return rl_fail(err, ROWLOCK_BUSY, "'%s' was set by another one just now", l->name);
}

rowlock_status rl_latch_not_counted(rowlock_client *client, const rl_budget *budget,
                                    const char *name, uint64_t id, uint64_t generation,
                                    rowlock_error *err)
{
    const latch l = {
        .client = client, .budget = budget, .name = name, .id = id, .generation = generation};
    return not_counted(&l, err);
}

static bool count_is_open(const void *data)
{
    return ((const counting *)data)->open;
}

static void keep_token(void *data, const rl_cell *cells)
{
    *(uint64_t *)data = cells[0].u64;
}

typedef struct counted {
    bool is;
    int64_t set_us;
} counted;

static void keep_counted(void *data, const rl_cell *cells)
{
    *(counted *)data = (counted){.is = cells[0].u64 != 0, .set_us = cells[1].i64};
}

/* The member's own row of lock_grant, with its generation. */
static rowlock_status find_member(const counting *c, bool *found, rowlock_error *err)
{
    const latch *l = &c->l;
    const rl_value values[] = {rl_u64(l->id), rl_text(l->owner)};
    return rl_client_read(l->client, l->budget, RL_SQL_SHARED_TOKEN, values, keep_token,
                          c->generation, found, err);
}

/* UNAVAILABLE: it may have counted in a generation that has ended since, of which no count is left.
 * (Also where the latch was set just before, by less than the way of a reply.) */
static rowlock_status find_count(const counting *c, bool *found, rowlock_error *err)
{
    const latch *l = &c->l;
    const rl_value values[] = {rl_text(l->owner), rl_u64(l->id)};
    counted row = {.is = false};
    bool there = false;
    RL_TRY(rl_client_read(l->client, l->budget, RL_SQL_LATCH_COUNTED, values, keep_counted, &row,
                          &there, err));
    *found = row.is;
    if (!row.is && !l->generation && row.set_us < rl_now_us() - c->trace->sent_us)
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "'%s' was set again meanwhile", l->name);
    return ROWLOCK_OK;
}

/* A reply was lost. OK: it has counted. BUSY: it has not. */
static rowlock_status settle_count(counting *c, rowlock_error *err)
{
    const latch *l = &c->l;
    bool found = false;
    RL_TRY(rl_settle(l->client, l->budget, c->trace, err));
    RL_TRY(c->statement == RL_SQL_LATCH_JOIN ? find_member(c, &found, err)
                                             : find_count(c, &found, err));
    c->open = false;
    return found ? ROWLOCK_OK : rl_fail(err, ROWLOCK_BUSY, "'%s': nothing was counted", l->name);
}

static rowlock_status count_once(counting *c, int64_t *hint_us, rowlock_error *err)
{
    const latch *l = &c->l;
    rl_done done = {0};
    rowlock_status status = rl_client_change(l->client, l->budget, NULL, true, c->statement,
                                             c->values, c->trace, &done, err);
    *c->generation = done.insert_id;
    c->open = status == ROWLOCK_UNKNOWN;
    if (c->open)
        return ROWLOCK_UNAVAILABLE;
    if (status == ROWLOCK_TIMEOUT)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is in use by a transaction", l->name);
    /* With a trigger on the table (an audit, say) the OK packet does not have the generation. */
    bool found = false;
    if (status == ROWLOCK_OK && done.rows > 0 && !done.insert_id &&
        c->statement == RL_SQL_LATCH_JOIN)
        return find_member(c, &found, err);
    if (status != ROWLOCK_OK || done.rows > 0)
        return status;
    *hint_us = RL_AT_ONCE;
    return not_counted(l, err);
}

static void set_down(counting *c)
{
    const latch *l = &c->l;
    const rl_value values[] = {rl_text(c->key), rl_text(l->owner), rl_u64(l->id), rl_text(l->name),
                               rl_u64(l->generation)};
    memcpy(c->values, values, sizeof values);
}

static void set_join(counting *c)
{
    const latch *l = &c->l;
    const rl_value values[] = {rl_text(l->owner),    rl_text(l->client->label),
                               rl_text(c->key),      rl_u64((uint64_t)c->ttl_us),
                               rl_u64(l->id),        rl_text(l->name),
                               rl_u64(l->generation)};
    memcpy(c->values, values, sizeof values);
}

static rowlock_status attempt_count(void *data, int64_t *hint_us, rowlock_error *err)
{
    counting *c = data;
    latch *l = &c->l;
    rowlock_status status = ROWLOCK_BUSY;
    RL_TRY(rl_resource_known(l->client, l->budget, l->name, RL_KIND_LATCH, &l->id, err));
    if (c->open)
        status = settle_count(c, err);
    if (status != ROWLOCK_BUSY)
        return status;
    if (c->statement == RL_SQL_LATCH_JOIN)
        set_join(c);
    else
        set_down(c);
    return count_once(c, hint_us, err);
}

static rowlock_status count(counting *c, rowlock_error *err)
{
    const rl_attempts how = {.budget = c->l.budget,
                             .outage_us = c->l.client->outage_us,
                             .backoff = RL_BACKOFF_USUAL,
                             .unsettled = count_is_open};
    rowlock_status status = rl_attempt_until(&how, attempt_count, c, err);
    if (status == ROWLOCK_OK || !c->open)
        return status;
    return unknown(c->l.name, c->statement == RL_SQL_LATCH_JOIN ? "joined" : "counted", err);
}

rowlock_status rl_latch_down(rowlock_client *client, const rl_budget *budget, const char *name,
                             const char *key, uint64_t generation, rowlock_error *err)
{
    char owner[ROWLOCK_OWNER_MAX + 1];
    rl_trace trace;
    uint64_t in = 0;
    counting c = {.l = {.client = client,
                        .budget = budget,
                        .name = name,
                        .owner = owner,
                        .generation = generation},
                  .statement = RL_SQL_LATCH_DOWN,
                  .key = key ? key : owner,
                  .trace = &trace,
                  .generation = &in};
    rl_client_owner(client, owner);
    return count(&c, err);
}

/* ------------------------------------------------------------------------------------ wait */

typedef struct waiting {
    latch l;
    rl_await await;
    uint64_t asked;     /* the generation that the caller named */
    bool was_set;       /* a look has found it set */
    int64_t members_us; /* when to look at the members next */
} waiting;

static rowlock_status look_in_turn(waiting *w, latch_look *seen, rowlock_error *err)
{
    rl_conn *conn = NULL;
    RL_TRY(rl_turn_borrow(&w->await.turn, &conn, err));
    rowlock_status status = look_on(&w->l, conn, seen, err);
    rl_turn_give_back(&w->await.turn, conn);
    return status;
}

static bool members_are_due(waiting *w)
{
    const int64_t now = rl_now_us();
    if (!rl_await_is_first(&w->await) && !w->await.turn.budget->try_once)
        return false;
    if (now < w->members_us)
        return false;
    w->members_us = now + MEMBERS_US;
    return true;
}

static bool has_come(void *data, const rl_budget *budget)
{
    const waiting *w = data;
    latch l = w->l;
    latch_look seen;
    l.budget = budget;
    rowlock_status status = look(&l, &seen, NULL);
    if (status != ROWLOCK_OK) /* purged: the line that it stands in is of the old row */
        return status == ROWLOCK_BUSY;
    const rowlock_latch_state state = state_of(&seen, l.generation);
    return state == ROWLOCK_LATCH_OPEN || state == ROWLOCK_LATCH_BROKEN ||
           is_full(&seen, l.generation);
}

/* Reads the name's row. The generation that the first look finds is the one that is waited for,
 * also when later ones begin. */
static rowlock_status find_generation(waiting *w, latch_look *seen, int64_t *hint_us,
                                      rowlock_error *err)
{
    latch *l = &w->l;
    const uint64_t before = l->id;
    RL_TRY(rl_resource_id(l->client, l->budget, l->name, RL_KIND_LATCH, &l->id, err));
    rl_await_at(&w->await, l->id);
    if (l->id != before && !w->was_set)
        l->generation = w->asked;
    rowlock_status status = look_in_turn(w, seen, err);
    /* Purged before it was set: the first generation will be another one. */
    if (status == ROWLOCK_BUSY && !w->was_set) {
        l->generation = w->asked;
        *hint_us = RL_AT_ONCE;
    }
    RL_TRY(status);
    w->was_set = w->was_set || !seen->unset;
    const uint64_t next = seen->unset ? seen->version + 1 : seen->version;
    if (!l->generation)
        l->generation = next;
    /* The line is for waiters for the present generation, or the first. */
    w->await.apart = l->generation != next;
    if (w->await.apart)
        *hint_us = RL_NOT_BEFORE(APART_US + (int64_t)(rl_random_u32() % APART_US));
    return ROWLOCK_OK;
}

/* OK: it has opened. */
static rowlock_status has_opened(const waiting *w, const latch_look *seen, rowlock_error *err)
{
    const latch *l = &w->l;
    switch (state_of(seen, l->generation)) {
    case ROWLOCK_LATCH_OPEN:
        return ROWLOCK_OK;
    case ROWLOCK_LATCH_BROKEN:
        return broken(l, seen, err);
    case ROWLOCK_LATCH_UNSET:
        return not_set(l, w->asked, ROWLOCK_BUSY, err);
    case ROWLOCK_LATCH_ARMED:
        break;
    }
    return some_to_come(l, seen, err);
}

static rowlock_status attempt_wait(void *data, int64_t *hint_us, rowlock_error *err)
{
    waiting *w = data;
    const latch *l = &w->l;
    latch_look seen;
    bool again = false;
    RL_TRY(find_generation(w, &seen, hint_us, err));
    /* When all have counted the latch is open, even if that cannot be written down at the
     * moment. */
    if (is_full(&seen, l->generation)) {
        (void)!settle_open(l, seen.version, NULL);
        return ROWLOCK_OK;
    }
    RL_TRY(settle(l, &seen, members_are_due(w), &again, err));
    if (again) {
        RL_TRY(look_in_turn(w, &seen, err));
        if (state_of(&seen, l->generation) == ROWLOCK_LATCH_ARMED)
            *hint_us = RL_AT_ONCE;
    }
    return has_opened(w, &seen, err);
}

rowlock_status rl_latch_wait(rowlock_client *client, const rl_budget *budget, const char *name,
                             uint64_t *generation, rowlock_error *err)
{
    const rl_backoff pauses = {.first_us = PAUSE_FIRST_US, .most_us = PAUSE_MOST_US};
    char owner[ROWLOCK_OWNER_MAX + 1];
    waiting w = {.l = {.client = client, .budget = budget, .name = name, .generation = *generation},
                 .asked = *generation};
    rl_client_owner(client, owner);
    rl_await_init(&w.await, client, budget, owner, (int64_t)ROWLOCK_TTL_DEFAULT_MS * 1000);
    w.await.attempt = attempt_wait;
    w.await.has_come = has_come;
    w.await.data = &w;
    RL_TRY(rl_no_effect(rl_await_until(&w.await, pauses, err), err));
    *generation = w.l.generation;
    return ROWLOCK_OK;
}

/* ------------------------------------------------------------------------------------- get */

static rowlock_status get(const latch *l, rowlock_latch_info *info, rowlock_error *err)
{
    latch_look seen;
    members those = {.count = 0};
    RL_TRY(look(l, &seen, err));
    if (seen.armed)
        RL_TRY(look_at_members(l, seen.version, &those, err));
    *info = (rowlock_latch_info){.state = state_of(&seen, seen.version),
                                 .generation = seen.unset ? 0 : seen.version,
                                 .count = seen.count,
                                 .down = seen.armed ? seen.down : 0,
                                 .members = those.count};
    if (info->state == ROWLOCK_LATCH_ARMED && seen.down >= seen.count)
        info->state = ROWLOCK_LATCH_OPEN;
    if (info->state == ROWLOCK_LATCH_OPEN)
        info->down = seen.count;
    if (info->state == ROWLOCK_LATCH_BROKEN)
        rl_copy_label(info->broken_by, sizeof info->broken_by, seen.label);
    return ROWLOCK_OK;
}

rowlock_status rl_latch_get(rowlock_client *client, const rl_budget *budget, const char *name,
                            rowlock_latch_info *info, rowlock_error *err)
{
    latch l = {.client = client, .budget = budget, .name = name};
    RL_TRY(rl_resource_known(client, budget, name, RL_KIND_LATCH, &l.id, err));
    rowlock_status status = get(&l, info, err);
    if (status != ROWLOCK_BUSY)
        return status;
    /* Purged since its id was learned; and perhaps made again. */
    RL_TRY(rl_resource_known(client, budget, name, RL_KIND_LATCH, &l.id, err));
    return get(&l, info, err);
}

/* --------------------------------------------------------------------------------- members */

static latch latch_of(const rowlock_hold *hold, const rl_budget *budget)
{
    return (latch){.client = hold->client,
                   .budget = budget,
                   .name = hold->locks[0].name,
                   .owner = hold->owner,
                   .id = hold->locks[0].id,
                   .generation = hold->locks[0].version};
}

/* A member that leaves without having counted breaks the latch; one that could not join does not.
 */
static rowlock_status leave(rl_departure *d, rl_conn *conn, bool has_bell, rl_done *done,
                            rowlock_error *err)
{
    const latch l = latch_of(d->hold, d->budget);
    if (d->hold->member == RL_LATCH_MEMBER && d->hold->acquired_us != 0)
        RL_TRY(settle_broken(&l, l.generation, d->hold->owner, err));
    return rl_shared_leave(d, conn, has_bell, done, err);
}

const rl_driver rl_member_driver = {
    .kind = RL_KIND_LATCH, .shared = true, .leave = leave, .reopen = rl_shared_ended};

static const char *key_of(const rowlock_hold *hold)
{
    return hold->key ? hold->key : hold->owner;
}

rowlock_status rl_latch_join(rowlock_hold *hold, const rowlock_acquire_options *options,
                             const rl_budget *budget, uint64_t generation, rowlock_error *err)
{
    rl_lock *lock = &hold->locks[0];
    rl_acquisition a = rl_acquisition_of(&rl_member_driver, hold, budget);
    counting c = {.l = latch_of(hold, budget),
                  .statement = RL_SQL_LATCH_JOIN,
                  .key = key_of(hold),
                  .ttl_us = hold->held.ttl_us,
                  .trace = &a.request,
                  .generation = &lock->version};
    c.l.generation = generation;
    RL_TRY(count(&c, err));
    lock->id = c.l.id;
    if (lock->version == 0)
        return rl_fail(err, ROWLOCK_INVALID, "'%s' is open already: there is nothing to count",
                       lock->name);
    return rl_acquired(&a, options, err);
}

static rowlock_status count_for(const rowlock_hold *hold, rowlock_error *err)
{
    rl_budget budget = rl_budget_start(0, hold->client->limit_ms, NULL);
    rl_trace trace;
    uint64_t in = 0;
    counting c = {.l = latch_of(hold, &budget),
                  .statement = RL_SQL_LATCH_DOWN,
                  .key = key_of(hold),
                  .trace = &trace,
                  .generation = &in};
    return count(&c, err);
}

rowlock_status rl_latch_done(rowlock_hold *hold, const rowlock_release_options *options,
                             rowlock_error *err)
{
    rowlock_status status = count_for(hold, err);
    if (status == ROWLOCK_OK)
        hold->member = RL_LATCH_COUNTED;
    rl_hold_end(hold);
    if (status == ROWLOCK_OK) {
        /* It has counted, so its row does not matter. */
        (void)!rl_free_row(&rl_member_driver, hold, NULL);
        if (!hold->told)
            rl_hold_was_released(hold, options);
    } else if (status == ROWLOCK_LOST) {
        (void)!rl_release(&rl_member_driver, hold, RL_NOT_TRIED, options, NULL);
    } else {
        /* Its row stays, and breaks the latch when its time is over. */
        rl_hold_was_left(hold);
    }
    return status;
}
