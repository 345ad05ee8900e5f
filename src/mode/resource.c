#include "mode/resource.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "mode/client.h"

#define CREATE_MOST   5
#define TOUCH_AFTER_S 86400
#define SLOTS         4096 /* a name has one place; another name there replaces it */

struct rl_name_slot {
    char *name;
    const char *kind;
    uint64_t id;   /* 0: forgotten */
    uint64_t seen; /* the highest token that this client was given for it */
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
                                  .seen = known ? slot->seen : 0};
    pthread_mutex_unlock(&names->mutex);
}

void rl_resource_forget(rowlock_client *client, const char *name)
{
    pthread_mutex_lock(&client->names.mutex);
    struct rl_name_slot *slot = &client->names.slots[slot_of(name)];
    if (is_of(slot, name))
        slot->id = 0;
    pthread_mutex_unlock(&client->names.mutex);
}

/* False: a token of that height was given before; *seen is the highest. */
static bool note_token(rl_names *names, const char *name, uint64_t token, uint64_t *seen)
{
    pthread_mutex_lock(&names->mutex);
    struct rl_name_slot *slot = &names->slots[slot_of(name)];
    bool known = is_of(slot, name);
    *seen = known ? slot->seen : 0;
    bool rises = token > *seen;
    if (known && rises)
        slot->seen = token;
    pthread_mutex_unlock(&names->mutex);
    return rises;
}

rowlock_status rl_resource_check_token(rowlock_client *client, const rl_budget *budget,
                                       const char *name, uint64_t id, uint64_t token,
                                       const char *owner, rowlock_error *err)
{
    uint64_t seen = 0;
    if (note_token(&client->names, name, token, &seen))
        return ROWLOCK_OK;
    const rl_value values[] = {rl_u64(seen), rl_u64(id), rl_u64(token), rl_text(owner)};
    rl_done done = {0};
    rowlock_status status =
        rl_client_run(client, budget, RL_SQL_RESOURCE_RAISE, values, &done, NULL);
    if (status == ROWLOCK_OK && done.rows == 0)
        /* Another thread has had it since. */
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "'%s' was lost before the call returned", name);
    return rl_fail(err, ROWLOCK_DAMAGED,
                   "the token of '%s' has gone back: this client has had %" PRIu64
                   ", the server gave %" PRIu64
                   "; it has lost committed changes (a failover to a copy that lagged, or an older "
                   "backup). The lock was given back%s",
                   name, seen, token, status == ROWLOCK_OK ? "; its next token is above both" : "");
}

const char *rl_kind_word(const char *kind)
{
    return strcmp(kind, RL_KIND_LEASE) == 0 ? "lease (optimistic)" : kind;
}

rowlock_status rl_resource_wrong_kind(const char *name, const char *is, const char *wanted,
                                      rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_MODE,
                   "'%s' is used as a %s lock; it cannot be a %s lock too; use that mode or "
                   "another name",
                   name, rl_kind_word(is), rl_kind_word(wanted));
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

/* Another session made it first, or we did and the reply was lost: both are fine. */
static rowlock_status made(rowlock_status status, rowlock_error *err)
{
    if (status == ROWLOCK_DAMAGED && err->server_errno == 1062)
        return ROWLOCK_OK;
    return rl_no_effect(status, err);
}

/* *nothing: there was nothing to make it from. */
static rowlock_status create(rowlock_client *client, const rl_budget *budget, const char *name,
                             const char *kind, bool *nothing, rowlock_error *err)
{
    const rl_value values[] = {rl_text(name), rl_text(kind)};
    rl_done done = {0};
    rowlock_status status =
        rl_client_run(client, budget, RL_SQL_RESOURCE_CREATE, values, &done, err);
    *nothing = status == ROWLOCK_OK && done.rows == 0;
    return made(status, err);
}

static rowlock_status find(rowlock_client *client, const rl_budget *budget, const char *name,
                           bool *found, found_resource *resource, rowlock_error *err)
{
    const rl_value values[] = {rl_text(name)};
    return rl_client_read(client, budget, RL_SQL_RESOURCE_FIND, values, keep_resource, resource,
                          found, err);
}

/* Its name may be taken there by a row of another id, which no lock would ever find. */
static rowlock_status check_lock_row(rowlock_client *client, const rl_budget *budget,
                                     const char *name, uint64_t id, rowlock_error *err)
{
    found_resource now = {0};
    bool found = false;
    rowlock_status status = find(client, budget, name, &found, &now, err);
    if (status != ROWLOCK_OK || !found || now.id != id || now.has_lock)
        return status;
    return rl_fail(err, ROWLOCK_DAMAGED,
                   "the table resource_lock has '%s' under an id that the table resource does not "
                   "have; delete that row",
                   name);
}

static rowlock_status create_companion(rowlock_client *client, const rl_budget *budget,
                                       const char *name, bool fenced, const found_resource *found,
                                       rowlock_error *err)
{
    if (strcmp(found->kind, RL_KIND_ROW) == 0 && !found->has_lock) {
        const rl_value values[] = {rl_text(name), rl_u64(fenced), rl_u64(found->id)};
        rowlock_status status = made(
            rl_client_run(client, budget, RL_SQL_RESOURCE_CREATE_LOCK, values, NULL, err), err);
        return status == ROWLOCK_OK ? check_lock_row(client, budget, name, found->id, err) : status;
    }
    if (strcmp(found->kind, RL_KIND_LEASE) == 0 && !found->has_renewal) {
        const rl_value values[] = {rl_u64(found->id)};
        return made(
            rl_client_run(client, budget, RL_SQL_RESOURCE_CREATE_RENEWAL, values, NULL, err), err);
    }
    return ROWLOCK_OK;
}

/*
 * Read, make, read: whoever makes it, its kind is what the row says. A sweep may purge it in
 * between, in a cluster also before this node has seen the row that its own was refused for.
 */
static rowlock_status find_or_create(rowlock_client *client, const rl_budget *budget,
                                     const char *name, const char *kind, found_resource *resource,
                                     rowlock_error *err)
{
    bool found = false;
    bool nothing = false;
    rowlock_status status = find(client, budget, name, &found, resource, err);
    for (int i = 0; i < CREATE_MOST && status == ROWLOCK_OK && !found && !nothing; i++) {
        status = create(client, budget, name, kind, &nothing, err);
        if (status == ROWLOCK_OK)
            status = find(client, budget, name, &found, resource, err);
    }
    if (status == ROWLOCK_OK && !found)
        return rl_fail(err, ROWLOCK_DAMAGED,
                       "'%s' could not be made: the table version_floor has lost its row, or a "
                       "trigger is in the way; see `rowlock doctor`",
                       name);
    return status;
}

/* In vain is no matter. */
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
    rowlock_status status = find_or_create(client, budget, name, kind, &resource, err);
    if (status == ROWLOCK_OK && strcmp(resource.kind, kind) != 0)
        return rl_resource_wrong_kind(name, resource.kind, kind, err);
    if (status == ROWLOCK_OK)
        status = create_companion(client, budget, name, fenced, &resource, err);
    if (status != ROWLOCK_OK)
        return status;
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

rowlock_status rl_resource_row_id(rowlock_client *client, const rl_budget *budget, const char *name,
                                  bool fenced, uint64_t *id, rowlock_error *err)
{
    return id_of(client, budget, name, RL_KIND_ROW, fenced, id, err);
}
