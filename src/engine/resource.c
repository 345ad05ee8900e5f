#include "engine/resource.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "base/text.h"
#include "engine/client.h"
#include "wait/backoff.h"

#define CREATE_MOST    20 /* attempts: a sweep at each node may purge it while it is made */
#define PAUSE_FIRST_US 1000
#define PAUSE_MOST_US  50000
#define TOUCH_AFTER_S  86400
#define SLOTS          4096 /* a name has one place; another name there replaces it */

struct rl_name_slot {
    char *name;
    const char *kind;
    uint64_t id;     /* 0: forgotten */
    uint64_t seen;   /* the highest token that this client was given for it */
    unsigned number; /* rl_resource_number() */
};

rowlock_status rl_names_init(rl_names *names, rowlock_error *err)
{
    names->slots = calloc(SLOTS, sizeof *names->slots);
    if (!names->slots)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    pthread_mutex_init(&names->mutex, NULL);
    return ROWLOCK_OK;
}

void rl_names_destroy(rl_names *names, bool forked)
{
    if (!names->slots)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        free(names->slots[i].name);
    free(names->slots);
    names->slots = NULL;
    if (!forked)
        pthread_mutex_destroy(&names->mutex);
}

static size_t slot_of(const char *name)
{
    return (size_t)(rl_hash(name) % SLOTS);
}

static bool is_of(const struct rl_name_slot *slot, const char *name)
{
    return slot->name && strcmp(slot->name, name) == 0;
}

/* With the mutex. What was seen of the tokens stays. */
static void move_to(rl_names *names, uint64_t identity)
{
    if (names->identity == identity)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        names->slots[i].id = 0;
    names->identity = identity;
}

static bool recall(rl_names *names, uint64_t identity, const char *name, const char *kind,
                   uint64_t *id)
{
    pthread_mutex_lock(&names->mutex);
    move_to(names, identity);
    const struct rl_name_slot *slot = &names->slots[slot_of(name)];
    bool known = slot->id && strcmp(slot->kind, kind) == 0 && strcmp(slot->name, name) == 0;
    if (known)
        *id = slot->id;
    pthread_mutex_unlock(&names->mutex);
    return known;
}

bool rl_resource_recall(rowlock_client *client, const char *name, const char *kind, uint64_t *id)
{
    return recall(&client->names, atomic_load(&client->pool.identity), name, kind, id);
}

/* `kind` is one of the RL_KIND_ literals. Without memory it is simply not remembered, nor is it
 * when the client's server is another one by now. */
static void remember(rl_names *names, uint64_t identity, const char *name, const char *kind,
                     uint64_t id)
{
    char *copy = strdup(name);
    if (!copy)
        return;
    pthread_mutex_lock(&names->mutex);
    struct rl_name_slot *slot = &names->slots[slot_of(name)];
    bool known = is_of(slot, name);
    free(slot->name);
    *slot = (struct rl_name_slot){.name = copy,
                                  .kind = kind,
                                  .id = names->identity == identity ? id : 0,
                                  .seen = known ? slot->seen : 0,
                                  .number = known ? slot->number : RL_NO_NUMBER};
    pthread_mutex_unlock(&names->mutex);
}

unsigned rl_resource_number(rowlock_client *client, const char *name)
{
    pthread_mutex_lock(&client->names.mutex);
    const struct rl_name_slot *slot = &client->names.slots[slot_of(name)];
    unsigned number = is_of(slot, name) ? slot->number : RL_NO_NUMBER;
    pthread_mutex_unlock(&client->names.mutex);
    return number;
}

void rl_resource_keep_number(rowlock_client *client, const char *name, unsigned number)
{
    pthread_mutex_lock(&client->names.mutex);
    struct rl_name_slot *slot = &client->names.slots[slot_of(name)];
    if (is_of(slot, name))
        slot->number = number;
    pthread_mutex_unlock(&client->names.mutex);
}

void rl_resource_forget(rowlock_client *client, const char *name)
{
    pthread_mutex_lock(&client->names.mutex);
    struct rl_name_slot *slot = &client->names.slots[slot_of(name)];
    if (is_of(slot, name))
        slot->id = 0;
    pthread_mutex_unlock(&client->names.mutex);
}

/* True: `least` is above the highest token seen so far, *seen; `token` is noted. False: it is not.
 */
static bool note_token(rl_names *names, const char *name, uint64_t token, uint64_t least,
                       uint64_t *seen)
{
    pthread_mutex_lock(&names->mutex);
    struct rl_name_slot *slot = &names->slots[slot_of(name)];
    bool known = is_of(slot, name);
    *seen = known ? slot->seen : 0;
    bool good = least > *seen;
    if (known && good)
        slot->seen = token;
    pthread_mutex_unlock(&names->mutex);
    return good;
}

bool rl_resource_token_rises(rowlock_client *client, const char *name, uint64_t token,
                             uint64_t *seen)
{
    remember(&client->names, atomic_load(&client->pool.identity), name, RL_KIND_QUORUM, 0);
    return note_token(&client->names, name, token, token, seen);
}

/* Readers have the last writer's token, one after the other. */
rowlock_status rl_resource_check_shared_token(rowlock_client *client, const char *name,
                                              uint64_t token, rowlock_error *err)
{
    uint64_t seen = 0;
    if (note_token(&client->names, name, token, token + 1, &seen))
        return ROWLOCK_OK;
    return rl_fail(
        err, ROWLOCK_DAMAGED,
        "the token of '%s' has gone back: this client has had %" PRIu64 ", the server gave %" PRIu64
        "; it has lost committed changes (a failover to a "
        "copy that lagged, or an older backup). Acquire it alone once to repair its token",
        name, seen, token);
}

rowlock_status rl_resource_check_token(rowlock_client *client, const rl_budget *budget,
                                       const char *name, uint64_t id, uint64_t token,
                                       const char *owner, rowlock_error *err)
{
    uint64_t seen = 0;
    if (note_token(&client->names, name, token, token, &seen))
        return ROWLOCK_OK;
    const rl_value values[] = {rl_u64(seen), rl_u64(id), rl_u64(token), rl_text(owner)};
    rl_done done = {0};
    rowlock_status status =
        rl_client_run(client, budget, RL_SQL_RESOURCE_RAISE, values, &done, NULL);
    if (status == ROWLOCK_OK && done.rows == 0)
        /* Another thread has had it since. */
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "'%s' was lost before the call returned", name);
    return rl_fail(
        err, ROWLOCK_DAMAGED,
        "the token of '%s' has gone back: this client has had %" PRIu64 ", the server gave %" PRIu64
        "; it has lost committed changes (a failover to a copy that lagged, or an older "
        "backup). %s",
        name, seen, token,
        status == ROWLOCK_OK
            ? "The lock was given back; its next token is above both"
            : "The lock could not be given back; nobody holds it until its time is over");
}

/* A mode is an option (--mode); other kinds have calls of their own. */
static bool is_mode(const rl_kind *kind)
{
    return kind->listed == ROWLOCK_KIND_LEASE || kind->listed == ROWLOCK_KIND_ROW;
}

rowlock_status rl_resource_wrong_kind(const char *name, const char *is, const char *wanted,
                                      rowlock_error *err)
{
    const rl_kind *to_be = rl_kind_of(wanted);
    const rl_kind *kind = NULL;
    RL_TRY(rl_kind_find(is, name, &kind, err));
    return rl_fail(err, ROWLOCK_MODE, "'%s' is a %s; it cannot be a %s too; use %sanother name",
                   name, kind->shown, to_be->shown,
                   is_mode(kind) && is_mode(to_be) ? "that mode or " : "");
}

typedef struct found_resource {
    uint64_t id;
    char kind[17];
    int64_t idle_s;
    bool has_lock;
    bool has_renewal;
} found_resource;

static void keep_resource(void *data, const rl_cell *cells)
{
    found_resource *found = data;
    found->id = cells[0].u64;
    strncpy(found->kind, cells[1].text, sizeof found->kind - 1);
    found->idle_s = cells[2].i64;
    found->has_lock = cells[3].u64 != 0;
    found->has_renewal = cells[4].u64 != 0;
}

static bool is_there_already(rowlock_status status, const rowlock_error *err)
{
    return status == ROWLOCK_DAMAGED && err->server_errno == 1062;
}

/* Its name is taken there by a row of another id, which no lock would ever find. */
static rowlock_status orphaned(const char *name, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_DAMAGED,
                   "the table resource_lock has '%s' under an id that the table resource does not "
                   "have; delete that row",
                   name);
}

/* Another session made it first, or we did and the reply was lost: both are fine. */
static rowlock_status made(rowlock_status status, rowlock_error *err)
{
    if (is_there_already(status, err))
        return ROWLOCK_OK;
    return rl_no_effect(status, err);
}

static rowlock_status find(rowlock_client *client, const rl_budget *budget, const char *name,
                           bool *found, found_resource *resource, rowlock_error *err)
{
    const rl_value values[] = {rl_text(name)};
    return rl_client_read(client, budget, RL_SQL_RESOURCE_FIND, values, keep_resource, resource,
                          found, err);
}

static rowlock_status check_lock_row(rowlock_client *client, const rl_budget *budget,
                                     const char *name, uint64_t id, rowlock_error *err)
{
    found_resource now = {0};
    bool found = false;
    rowlock_status status = find(client, budget, name, &found, &now, err);
    if (status != ROWLOCK_OK || !found || now.id != id || now.has_lock)
        return status;
    return orphaned(name, err);
}

/* The row that goes with a name's kind, and the statement that makes it. */
typedef struct companion {
    rl_sql_id id;
    rl_value values[3];
} companion;

static bool has_companion(const char *kind)
{
    return rl_kind_of(kind)->companion != RL_SQL_COUNT;
}

static companion companion_of(const char *name, const char *kind, bool fenced, uint64_t id)
{
    const rl_kind *of = rl_kind_of(kind);
    if (of->of_connection)
        return (companion){.id = of->companion,
                           .values = {rl_text(name), rl_u64(fenced), rl_u64(id)}};
    return (companion){.id = of->companion, .values = {rl_u64(id)}};
}

static rowlock_status create_companion(rowlock_client *client, const rl_budget *budget,
                                       const char *name, bool fenced, const found_resource *found,
                                       rowlock_error *err)
{
    const bool row_lock = strcmp(found->kind, RL_KIND_ROW) == 0;
    if ((row_lock ? found->has_lock : found->has_renewal) || !has_companion(found->kind))
        return ROWLOCK_OK;
    const companion made_of = companion_of(name, found->kind, fenced, found->id);
    rowlock_status status =
        made(rl_client_run(client, budget, made_of.id, made_of.values, NULL, err), err);
    if (status == ROWLOCK_OK && row_lock)
        return check_lock_row(client, budget, name, found->id, err);
    return status;
}

/* The making of one name. */
typedef struct creation {
    const char *name;
    const char *kind;
    bool fenced;
    rl_conn *conn;
    rl_io io;
    uint64_t id; /* of what was made; 0: not known */
} creation;

static rowlock_status no_floor(const creation *c, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_DAMAGED,
                   "'%s' could not be made: the table version_floor has lost its row; see "
                   "`rowlock doctor`",
                   c->name);
}

/* One row: else it was stopped (MySQL 9.7 ends an INSERT ... SELECT that KILL QUERY meets, and says
 * OK), or the transaction is not what it was. It is to be rolled back. */
static rowlock_status change_one(creation *c, rl_sql_id id, const rl_value *values, rl_done *done,
                                 rowlock_error *err)
{
    rowlock_status status = rl_run(c->conn, id, values, &c->io, done, err);
    if (status != ROWLOCK_OK || done->rows == 1)
        return status;
    return rl_fail(err, ROWLOCK_UNAVAILABLE,
                   "'%s' could not be made: a statement was stopped by somebody (%s)", c->name,
                   rl_sql_table[id].name);
}

/* The row is in, so nothing that purged the name before is to be committed any more. It begins
 * frozen, if a freeze matches it, and its kind can be. */
static rowlock_status begin_at_floor(creation *c, uint64_t id, rowlock_error *err)
{
    rl_rows rows;
    rl_done done = {0};
    bool found = false;
    const rl_value name[] = {rl_text(c->name)};
    RL_TRY(rl_query_one(c->conn, RL_SQL_RESOURCE_FLOOR, name, &c->io, &found, &rows, err));
    if (!found)
        return no_floor(c, err);
    if (rows.cells[0].u64 == 0 && !*rows.cells[1].text)
        return ROWLOCK_OK;
    const rl_value values[] = {rl_u64(rows.cells[0].u64), rl_text(rows.cells[1].text), rl_u64(id)};
    return change_one(c, RL_SQL_RESOURCE_BEGIN_AT, values, &done, err);
}

static rowlock_status insert_rows(creation *c, rowlock_error *err)
{
    const rl_value values[] = {rl_text(c->name), rl_text(c->kind)};
    rl_done row = {0};
    rl_done done = {0};
    RL_TRY(change_one(c, RL_SQL_RESOURCE_CREATE, values, &row, err));
    RL_TRY(begin_at_floor(c, row.insert_id, err));
    c->id = row.insert_id;
    if (!has_companion(c->kind))
        return ROWLOCK_OK;
    const companion made_of = companion_of(c->name, c->kind, c->fenced, row.insert_id);
    rowlock_status status = change_one(c, made_of.id, made_of.values, &done, err);
    return is_there_already(status, err) ? orphaned(c->name, err) : status;
}

static rowlock_status create_in_transaction(creation *c, rowlock_error *err)
{
    const rl_sql_id needed[] = {RL_SQL_RESOURCE_CREATE, RL_SQL_RESOURCE_FLOOR,
                                RL_SQL_RESOURCE_BEGIN_AT,
                                companion_of(c->name, c->kind, c->fenced, 0).id};
    const size_t count = sizeof needed / sizeof needed[0];
    RL_TRY(
        rl_prepare_all(c->conn, needed, has_companion(c->kind) ? count : count - 1, &c->io, err));
    rowlock_status status = rl_run_text(c->conn, RL_SQL_BEGIN, NULL, &c->io, err);
    /* It may have begun. */
    if (status != ROWLOCK_OK) {
        c->conn->broken = true;
        return status;
    }
    status = insert_rows(c, err);
    if (status == ROWLOCK_OK)
        return rl_run_text(c->conn, RL_SQL_COMMIT, NULL, &c->io, err);
    if (rl_run_text(c->conn, RL_SQL_ROLLBACK, NULL, &c->io, NULL) != ROWLOCK_OK)
        c->conn->broken = true;
    return status;
}

static rowlock_status create_on(creation *c, rowlock_error *err)
{
    if (!c->conn->session.via)
        return create_in_transaction(c, err);
    const rl_value values[] = {rl_text(c->name), rl_text(c->kind)};
    return rl_run(c->conn, RL_SQL_RESOURCE_CREATE, values, &c->io, NULL, err);
}

/* OK also if another client has made it: *id is 0 then. */
static rowlock_status create(rowlock_client *client, const rl_budget *budget, const char *name,
                             const char *kind, bool fenced, uint64_t *id, rowlock_error *err)
{
    creation c = {.name = name, .kind = kind, .fenced = fenced, .io = rl_budget_quick_io(budget)};
    RL_TRY(rl_pool_take(&client->pool, NULL, &c.io, &c.conn, err));
    rowlock_status status = create_on(&c, err);
    /* A COMMIT that failed may have left it in the transaction. */
    if (status != ROWLOCK_OK && rl_in_transaction(c.conn->mysql))
        c.conn->broken = true;
    rl_pool_give(&client->pool, c.conn);
    *id = status == ROWLOCK_OK ? c.id : 0;
    return made(status, err);
}

bool rl_resource_unread(rowlock_status status, const rowlock_error *err)
{
    return status == ROWLOCK_DAMAGED && err->server_errno == 1048;
}

/* DEADLOCK: two waited for a third one's INSERT of the name, which was rolled back; the server
 * ended one of the two (InnoDB: both then had a shared lock on its place). Unread: KILL QUERY met
 * its reading of lock_freeze (resource_create), unless that has lost its row. Nothing is held, so
 * it tries again. */
static bool may_be_made(rowlock_status status, const rowlock_error *err)
{
    return status == ROWLOCK_OK || status == ROWLOCK_DEADLOCK || rl_resource_unread(status, err);
}

static found_resource just_made(const char *kind, uint64_t id)
{
    found_resource resource = {.id = id, .has_lock = true, .has_renewal = true};
    snprintf(resource.kind, sizeof resource.kind, "%s", kind);
    return resource;
}

/*
 * Read, make, read again: another caller may have made it, and its kind is the one in the row. A
 * sweep may purge it in between. Hence the pauses: the INSERT may be refused because of a row that
 * no read sees yet, since its COMMIT has begun and not ended, or only another node of a cluster has
 * it.
 */
static rowlock_status find_or_create(rowlock_client *client, const rl_budget *budget,
                                     const char *name, const char *kind, bool fenced,
                                     found_resource *resource, rowlock_error *err)
{
    rl_backoff pauses = {.first_us = PAUSE_FIRST_US, .most_us = PAUSE_MOST_US};
    bool found = false;
    rowlock_status status = find(client, budget, name, &found, resource, err);
    for (int i = 0; i < CREATE_MOST && may_be_made(status, err) && !found; i++) {
        uint64_t id = 0;
        if (i > 0)
            rl_give_moment(budget, rl_backoff_next_us(&pauses, rl_random_u32()));
        status = create(client, budget, name, kind, fenced, &id, err);
        found = id != 0;
        if (found)
            *resource = just_made(kind, id);
        else if (status == ROWLOCK_OK)
            status = find(client, budget, name, &found, resource, err);
    }
    if (status == ROWLOCK_OK && !found)
        return rl_fail(err, ROWLOCK_DAMAGED,
                       "'%s' could not be made: a trigger is in the way, perhaps; see `rowlock "
                       "doctor`",
                       name);
    return status;
}

/* It does not matter if that fails. */
static void touch(rowlock_client *client, const rl_budget *budget, const found_resource *found)
{
    if (strcmp(found->kind, RL_KIND_ROW) != 0 || found->idle_s < TOUCH_AFTER_S)
        return;
    const rl_value values[] = {rl_u64(found->id)};
    rowlock_status ignored =
        rl_client_run(client, budget, RL_SQL_RESOURCE_TOUCH, values, NULL, NULL);
    (void)ignored;
}

static rowlock_status id_of(rowlock_client *client, const rl_budget *budget, const char *name,
                            const char *kind, bool fenced, uint64_t *id, rowlock_error *err)
{
    uint64_t identity = atomic_load(&client->pool.identity);
    if (recall(&client->names, identity, name, kind, id))
        return ROWLOCK_OK;
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    found_resource resource = {0};
    RL_TRY(find_or_create(client, budget, name, kind, fenced, &resource, err));
    if (strcmp(resource.kind, kind) != 0)
        return rl_resource_wrong_kind(name, resource.kind, kind, err);
    RL_TRY(create_companion(client, budget, name, fenced, &resource, err));
    touch(client, budget, &resource);
    remember(&client->names, identity, name, kind, resource.id);
    *id = resource.id;
    return ROWLOCK_OK;
}

rowlock_status rl_resource_id(rowlock_client *client, const rl_budget *budget, const char *name,
                              const char *kind, uint64_t *id, rowlock_error *err)
{
    return id_of(client, budget, name, kind, false, id, err);
}

/* Who would make it, too. */
static rowlock_status none_of(const char *name, const char *kind, rowlock_error *err)
{
    if (strcmp(kind, RL_KIND_SLOTS) == 0)
        return rl_fail(err, ROWLOCK_NOT_FOUND, "'%s' has no number of slots yet; say how many",
                       name);
    if (strcmp(kind, RL_KIND_LATCH) == 0)
        return rl_fail(err, ROWLOCK_NOT_FOUND, "there is no latch '%s'; setting it makes it", name);
    if (strcmp(kind, RL_KIND_QUEUE) == 0)
        return rl_fail(err, ROWLOCK_NOT_FOUND, "there is no queue '%s'; the first put makes it",
                       name);
    return rl_fail(err, ROWLOCK_NOT_FOUND, "there is no lock '%s'; look at its spelling", name);
}

rowlock_status rl_resource_known(rowlock_client *client, const rl_budget *budget, const char *name,
                                 const char *kind, uint64_t *id, rowlock_error *err)
{
    uint64_t identity = atomic_load(&client->pool.identity);
    found_resource resource = {0};
    bool found = false;
    if (rl_resource_recall(client, name, kind, id))
        return ROWLOCK_OK;
    RL_TRY(find(client, budget, name, &found, &resource, err));
    if (!found)
        return none_of(name, kind, err);
    if (strcmp(resource.kind, kind) != 0)
        return rl_resource_wrong_kind(name, resource.kind, kind, err);
    remember(&client->names, identity, name, kind, resource.id);
    *id = resource.id;
    return ROWLOCK_OK;
}

rowlock_status rl_resource_row_id(rowlock_client *client, const rl_budget *budget, const char *name,
                                  bool fenced, uint64_t *id, rowlock_error *err)
{
    return id_of(client, budget, name, RL_KIND_ROW, fenced, id, err);
}
