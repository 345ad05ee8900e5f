/* engine/resource.h - names: their id and their kind, made at first use. */
#ifndef RL_ENGINE_RESOURCE_H
#define RL_ENGINE_RESOURCE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/error.h"
#include "engine/kind.h"

/* Ids that were seen, at one server: another one may have given them to other names. Hints: every
 * use of one proves the name too, but a wait for a stranger's row lasts as long as any. */
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

/* Without a round trip: is the id known? */
bool rl_resource_recall(rowlock_client *client, const char *name, const char *kind, uint64_t *id);

/* The same of a name that is there; NOT_FOUND: it is not. */
rowlock_status rl_resource_known(rowlock_client *client, const rl_budget *budget, const char *name,
                                 const char *kind, uint64_t *id, rowlock_error *err) RL_MUST_USE;

/* The same for a name that pessimistic mode is to lock. `fenced`: it will be published. */
rowlock_status rl_resource_row_id(rowlock_client *client, const rl_budget *budget, const char *name,
                                  bool fenced, uint64_t *id, rowlock_error *err) RL_MUST_USE;

/* A number that this client has kept with the name; RL_NO_NUMBER: none. */
#define RL_NO_NUMBER (~0U)
unsigned rl_resource_number(rowlock_client *client, const char *name);
void rl_resource_keep_number(rowlock_client *client, const char *name, unsigned number);

/* The hint was wrong (the name was purged, and perhaps made again). */
void rl_resource_forget(rowlock_client *client, const char *name);

/* MODE; DAMAGED where `is` is a kind that this program does not know. */
rowlock_status rl_resource_wrong_kind(const char *name, const char *is, const char *wanted,
                                      rowlock_error *err);

/*
 * Tokens never go back while a server keeps what it has committed. DAMAGED: this one has, as far as
 * this client remembers; the lock (held by `owner`) is freed again, with a token no lower than
 * what was seen. Not a round trip when all is well.
 */
rowlock_status rl_resource_check_shared_token(rowlock_client *client, const char *name,
                                              uint64_t token, rowlock_error *err) RL_MUST_USE;
/* For a quorum, whose members are separate servers: false if this client has seen a token as high
 * as this one before, *seen. */
bool rl_resource_token_rises(rowlock_client *client, const char *name, uint64_t token,
                             uint64_t *seen);
rowlock_status rl_resource_check_token(rowlock_client *client, const rl_budget *budget,
                                       const char *name, uint64_t id, uint64_t token,
                                       const char *owner, rowlock_error *err) RL_MUST_USE;

#endif
