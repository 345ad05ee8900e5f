/* engine/resource.h - names: their id and their kind, made at first use. */
#ifndef RL_ENGINE_RESOURCE_H
#define RL_ENGINE_RESOURCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/error.h"
#include "engine/kind.h"

/* The ids of names that this client has used, at one server. An id may be stale (the name was
 * purged, or another server answers); each statement therefore compares the name as well. */
typedef struct rl_names {
    pthread_mutex_t mutex;
    struct rl_name_slot *slots;
    uint64_t identity; /* of that server */
} rl_names;

rowlock_status rl_names_init(rl_names *names, rowlock_error *err) RL_MUST_USE;
void rl_names_destroy(rl_names *names, bool forked);

/*
 * The id of `name`, which is made if it is new. MODE when it belongs to another kind.
 * UNAVAILABLE, BUSY (try again), DENIED, SCHEMA, DAMAGED ...
 */
rowlock_status rl_resource_id(rowlock_client *client, const rl_budget *budget, const char *name,
                              const char *kind, uint64_t *id, rowlock_error *err) RL_MUST_USE;

/* The id if it is in the cache: without a round trip. False: it is not. */
bool rl_resource_recall(rowlock_client *client, const char *name, const char *kind, uint64_t *id);

/* The id of a name, which is not made; NOT_FOUND: there is no such name. */
rowlock_status rl_resource_known(rowlock_client *client, const rl_budget *budget, const char *name,
                                 const char *kind, uint64_t *id, rowlock_error *err) RL_MUST_USE;

/* As rl_resource_id(), for a row lock. `fenced`: its holder will be published. */
rowlock_status rl_resource_row_id(rowlock_client *client, const rl_budget *budget, const char *name,
                                  bool fenced, uint64_t *id, rowlock_error *err) RL_MUST_USE;

/* A number that this client keeps with the name (the slot that it took last); RL_NO_NUMBER: none.
 */
#define RL_NO_NUMBER (~0U)
unsigned rl_resource_number(rowlock_client *client, const char *name);
void rl_resource_keep_number(rowlock_client *client, const char *name, unsigned number);

/* The cached id is stale (the name was purged, and perhaps made again). */
void rl_resource_forget(rowlock_client *client, const char *name);

/* Error 1048: what an INSERT reads, and locks, to fill a column (resource_create, queue_put) is not
 * there, or KILL QUERY met the reading. Nothing was written. */
bool rl_resource_unread(rowlock_status status, const rowlock_error *err);

/* MODE; DAMAGED where `is` is a kind that this program does not know. */
rowlock_status rl_resource_wrong_kind(const char *name, const char *is, const char *wanted,
                                      rowlock_error *err);

/*
 * Of readers, all of which have the same token. DAMAGED: this client has had a higher one, so the
 * server has lost commits. Not freed here.
 */
rowlock_status rl_resource_check_shared_token(rowlock_client *client, const char *name,
                                              uint64_t token, rowlock_error *err) RL_MUST_USE;
/* For a quorum, whose members are separate servers: false if this client has had a token as high
 * as this one before, *seen. */
bool rl_resource_token_rises(rowlock_client *client, const char *name, uint64_t token,
                             uint64_t *seen);
/*
 * Tokens never go back while a server keeps what it has committed. DAMAGED: this client has had one
 * as high before; the lock (held by `owner`) is freed again, and its next token is above both. No
 * round trip when all is well.
 */
rowlock_status rl_resource_check_token(rowlock_client *client, const rl_budget *budget,
                                       const char *name, uint64_t id, uint64_t token,
                                       const char *owner, rowlock_error *err) RL_MUST_USE;

#endif
