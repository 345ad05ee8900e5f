/* admin/admin.h - what looks at all locks and tidies up. */
#ifndef RL_ADMIN_H
#define RL_ADMIN_H

#include "base/text.h"
#include "engine/client.h"
#include "rowlock/rowlock_admin.h"
#include "rowlock/rowlock_once.h"
#include "rowlock/rowlock_queue.h"

/* ------------------------------------------------------------------------------ lists */

/* What is read whole. */
typedef struct rl_list {
    rowlock_client *client;
    rl_budget budget;
    void *items;
    size_t item_size;
    size_t count;
    size_t capacity;
    rl_texts texts; /* the items' */
} rl_list;

/* Makes and frees a list of any item type. NULL: no memory. */
void *rl_list_new(rowlock_client *client, size_t size, size_t item_size, rowlock_error *err);
/* Takes NULL. */
void rl_list_free(void *list);

/* Each row is handed to `each`, with the list. */
rowlock_status rl_list_read(rl_list *list, rl_sql_id id, const rl_value *values, rl_each_row each,
                            rowlock_error *err) RL_MUST_USE;
/* One more item, all zero. NULL: no memory. */
void *rl_list_add(rl_list *list, rowlock_error *err);
const char *rl_list_keep(rl_list *list, const rl_cell *text);
/* NULL: there are not so many. */
const void *rl_list_at(const rl_list *list, size_t i);

struct rowlock_list {
    rl_list all;
};

struct rowlock_history {
    rl_list all;
};

struct rowlock_waiters {
    rl_list all;
    rowlock_mode mode;  /* of those that are being read */
    const char *hidden; /* a constant */
};

struct rowlock_fences {
    rl_list all;
};

struct rowlock_freezes {
    rl_list all;
};

struct rowlock_once_runs {
    rl_list all;
    int64_t now_us; /* the server's */
};

struct rowlock_items {
    rl_list all;
};

/* `name` NULL: all that fit the options. */
rowlock_status rl_catalog_list(rowlock_client *client, const char *name,
                               const rowlock_list_options *options, rowlock_list **list,
                               rowlock_error *err) RL_MUST_USE;
/* The names (const char *) of the slots of a name that are held or cooling, also of those above a
 * lowered number; `all`: of the free ones, too. */
rowlock_status rl_slots_there(rowlock_client *client, const char *name, bool all, rl_list **slots,
                              rowlock_error *err) RL_MUST_USE;
const char *rl_slot_at(const rl_list *slots, size_t i);
rowlock_status rl_catalog_history(rowlock_client *client, const rowlock_history_options *options,
                                  rowlock_history **history, rowlock_error *err) RL_MUST_USE;
/* Who waits for a lock, as the server knows it. */
rowlock_status rl_waiters_get(rowlock_client *client, const rowlock_waiters_options *options,
                              rowlock_waiters **waiters, rowlock_error *err) RL_MUST_USE;

rowlock_status rl_once_list(rowlock_client *client, const rowlock_once_get_options *options,
                            rowlock_once_runs **runs, rowlock_error *err) RL_MUST_USE;

/* --------------------------------------------------- queues, as an operator sees them */

rowlock_status rl_queue_count(rowlock_client *client, const rl_budget *budget, const char *queue,
                              rowlock_queue_info *info, rowlock_error *err) RL_MUST_USE;
rowlock_status rl_items_list(rowlock_client *client, const char *queue,
                             const rowlock_items_options *options, rowlock_items **items,
                             rowlock_error *err) RL_MUST_USE;
rowlock_status rl_queue_requeue(rowlock_client *client, const rl_budget *budget, const char *queue,
                                uint64_t id, uint64_t *count, rowlock_error *err) RL_MUST_USE;
rowlock_status rl_queue_purge(rowlock_client *client, const rl_budget *budget, const char *queue,
                              const rowlock_queue_purge_options *options, uint64_t *count,
                              rowlock_error *err) RL_MUST_USE;
/* The name goes. BUSY: it has items. */
rowlock_status rl_queue_drop(rowlock_client *client, const rl_budget *budget, const char *queue,
                             uint64_t id, rowlock_error *err) RL_MUST_USE;

/* ------------------------------------- fences: triggers that want to be shown the token */

rowlock_status rl_fence_install(rowlock_client *client, const char *table_schema,
                                const char *table_name, const char *name,
                                rowlock_error *err) RL_MUST_USE;
rowlock_status rl_fence_remove(rowlock_client *client, const char *table_schema,
                               const char *table_name, rowlock_error *err) RL_MUST_USE;
rowlock_status rl_fences_get(rowlock_client *client, rowlock_fences **fences,
                             rowlock_error *err) RL_MUST_USE;

/* ---------------------------------------------------------------------------- tidying */

/* A lock is taken from its holder by force. */
rowlock_status rl_break(rowlock_client *client, const char *name,
                        const rowlock_break_options *options, rowlock_error *err) RL_MUST_USE;
/* A member's vote on a lease of a quorum, which it has given to `owner`; NULL: to anyone, with a
 * version up to the token if there is one. MODE: the name is of another kind there. Not waited for.
 */
rowlock_status rl_break_vote(rowlock_client *member, const char *name, const char *owner,
                             const rowlock_break_options *options, rowlock_error *err) RL_MUST_USE;
/* Until what was broken is open again; nothing is broken. */
rowlock_status rl_break_wait(rowlock_client *client, const char *name, const rl_budget *budget,
                             rowlock_error *err) RL_MUST_USE;

/* Its holder is asked to stop; nothing is taken. `options` are filled in. */
rowlock_status rl_ask_to_stop(rowlock_client *client, const char *name,
                              const rowlock_ask_options *options, rowlock_error *err) RL_MUST_USE;

/* Nobody gets the names that the options say; `options` are filled in. */
rowlock_status rl_freeze(rowlock_client *client, const rowlock_freeze_options *options,
                         rowlock_freeze_result *result, rowlock_error *err) RL_MUST_USE;
rowlock_status rl_thaw(rowlock_client *client, const rowlock_freeze_options *options,
                       rowlock_error *err) RL_MUST_USE;
rowlock_status rl_freezes_get(rowlock_client *client, rowlock_freezes **freezes,
                              rowlock_error *err) RL_MUST_USE;

rowlock_status rl_restored(rowlock_client *client, rowlock_restored_result *result,
                           rowlock_error *err) RL_MUST_USE;

/* The defaults, in place of 0. */
void rl_sweep_fill_in(rowlock_sweep_options *options);

/* Frees what the dead left, bounds the history, purges unused names. */
rowlock_status rl_sweep(rowlock_client *client, const rowlock_sweep_options *options,
                        rowlock_sweep_result *result, rowlock_error *err) RL_MUST_USE;

/*
 * Pure: how many rows the next batch is to have, after one of up to `size` has changed so many
 * in so long. It is to hold its row locks for about 10 ms: at most double, at least 1.
 */
size_t rl_sweep_pace(size_t size, size_t changed, int64_t took_us);

rowlock_status rl_purge(rowlock_client *client, const char *name, rowlock_error *err) RL_MUST_USE;

/* ------------------------------------------------------------------------- the doctor */

/* What is wanted of the server. */
typedef struct rl_wants {
    int64_t ttl_ms;
    bool polls;         /* no bell */
    bool single_writer; /* no other node of a cluster is used */
    const char *role;   /* its rights are checked (sql/grants.sql); NULL: a user that takes locks */
    bool rights_only;   /* nothing else is looked at */
} rl_wants;

/* INVALID: there is no such role. */
rowlock_status rl_diagnose(rl_params *params, const rl_wants *wants, rowlock_finding_fn fn,
                           void *data, rowlock_error *err) RL_MUST_USE;
/* The members of a quorum: each by itself, then what they are to one another. What it finds of each
 * begins with where that is. UNAVAILABLE ...: of the last one, where none could be looked at. */
rowlock_status rl_diagnose_members(rl_params *params, size_t count, const rl_wants *wants,
                                   rowlock_finding_fn fn, void *data,
                                   rowlock_error *err) RL_MUST_USE;

/* A right that sql/grants.sql gives a role. */
typedef struct rl_right {
    const char *role;
    const char *table;  /* "*": every table of the schema, or the schema itself */
    const char *right;  /* "SELECT", "CREATE ROUTINE" */
    const char *column; /* "": all of them */
} rl_right;

/* Made by cmake/embed_grants.awk. Those of a role, and of a table, stand together. */
extern const rl_right rl_rights[];
extern const unsigned rl_right_count;
extern const char rl_roles[]; /* with commas between */

#endif
