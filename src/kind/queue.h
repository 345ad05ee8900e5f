/*
 * kind/queue.h - queues of work (sql/queue.sql): an item is put (queue_put.c), taken and kept like
 * a lease (queue_take.c), and ended by the worker that has it (queue_end.c). queue_run.c has what
 * they share: a transaction of their own, and the rows of groups.
 */
#ifndef RL_KIND_QUEUE_H
#define RL_KIND_QUEUE_H

#include "engine/client.h"
#include "rowlock/rowlock_queue.h"

struct rowlock_item {
    rl_held held; /* first: the keeper hands it back to us. Its id and token are in it */
    rowlock_client *client;
    rowlock_item *next; /* the client's list */
    rowlock_item *previous;
    uint64_t queue_id;
    int64_t ready_us; /* since when it was ready, by the server's clock */
    unsigned priority;
    unsigned attempt;
    unsigned attempts;
    rowlock_item_lost_fn on_lost;
    void *on_lost_data;
    char owner[ROWLOCK_OWNER_MAX + 1];
    /* In the item's block of memory. */
    const char *queue;
    const char *key;
    const char *group;
    const char *payload;
    size_t size;
};

#define RL_ITEM_KEY_MAX                                                                            \
    (ROWLOCK_NAME_MAX * 4 + 1) /* bytes of a key as it is stored, and its mark */

/* '=' and the user's key; if there is none, '.' and an id of this put. */
void rl_item_key(rowlock_client *client, const char *key, char item_key[RL_ITEM_KEY_MAX + 1]);

/* Statuses of the calls of rowlock_queue.h. */
rowlock_status rl_queue_put(rowlock_client *client, const char *queue,
                            const rowlock_put_entry *entries, size_t count, uint64_t *ids,
                            rowlock_error *err) RL_MUST_USE;
rowlock_status rl_queue_take(rowlock_client *client, const char *queue, size_t most,
                             const rowlock_take_options *options, const rl_budget *budget,
                             rowlock_item **items, size_t *count, rowlock_error *err) RL_MUST_USE;

/* An item that another process has taken (queue_held.c). */
rowlock_status rl_queue_held(rowlock_client *client, const char *queue, uint64_t id, uint64_t token,
                             rowlock_item **item, rowlock_error *err) RL_MUST_USE;

/* ---------------------------------------------------------------------------- a search */

/* From where to search. False: search the whole queue. */
bool rl_cursor_get(rowlock_client *client, uint64_t queue_id, rl_cursor *cursor);

/* A search of the whole queue has taken so long. */
void rl_cursor_was_whole(rowlock_client *client, uint64_t queue_id, int64_t took_us);

/* An item of that lane was taken, which was ready since `ready_us`: search from there on. */
void rl_cursor_move(rowlock_client *client, uint64_t queue_id, uint64_t lane, int64_t ready_us);

/* ------------------------------------------------------------------------- a held item */

/* For its `held`. */
void rl_item_tell_lost(rl_held *held, const char *reason);

bool rl_item_lost(const rowlock_item *item);

/* Out of the keeper's care and the client's list: it is to be ended. */
void rl_item_leave(rowlock_item *item);

/* Takes NULL, or one that has left. */
void rl_item_free(rowlock_item *item);

/* How a worker ends an item. */
typedef enum rl_ending {
    RL_END_DONE,
    RL_END_RETRY,
    RL_END_RELEASE,
    RL_END_BURY,
    RL_END_USED_UP, /* buried, too, unless that has to wait for its group */
} rl_ending;

/* Ends an item that has left. OK: it has ended in that way. Of `reason` ROWLOCK_REASON_MAX
 * characters count. */
rowlock_status rl_item_end(const rowlock_item *item, const rl_budget *budget, rl_ending how,
                           int64_t delay_us, const char *reason, rowlock_error *err) RL_MUST_USE;

/* Ends many that have left, of one client, as done; `statuses`: what became of each. OK: all are
 * done. */
rowlock_status rl_items_done(rowlock_item *const *items, size_t count, const rl_budget *budget,
                             rowlock_status *statuses, rowlock_error *err) RL_MUST_USE;

rowlock_status rl_item_extend(rowlock_item *item, int64_t ttl_us, rowlock_error *err) RL_MUST_USE;

/* ----------------------------------------------------- a transaction of rowlock's own */

/* UNSUPPORTED for a client that works through procedures: these are transactions of several
 * statements. */
rowlock_status rl_queue_check(const rowlock_client *client, rowlock_error *err) RL_MUST_USE;

typedef struct rl_queue_work {
    rowlock_client *client;
    const rl_budget *budget;
    const char *queue;
    rl_trace request; /* the last change that may be final ... */
    bool open;        /* ... whose reply was lost */
    bool hurried;     /* it does not wait for the row of a group */
} rl_queue_work;

/* The steps of a transaction, on a connection without autocommit. Any status but OK rolls it back.
 */
typedef rowlock_status (*rl_queue_steps)(void *data, rl_conn *conn, rowlock_error *err);

/* Prepares the statements, runs the steps and commits. With UNAVAILABLE and `open` it may be
 * committed. BUSY also: in use by another transaction, or undone by a deadlock. */
rowlock_status rl_queue_transact(rl_queue_work *work, const rl_sql_id *needed, size_t count,
                                 rl_queue_steps steps, void *data, rowlock_error *err) RL_MUST_USE;

/* One change in it. */
rowlock_status rl_queue_change(const rl_queue_work *work, rl_conn *conn, rl_sql_id id,
                               const rl_value *values, rl_done *done,
                               rowlock_error *err) RL_MUST_USE;

/* One change in autocommit. Statuses of rl_queue_transact(). */
rowlock_status rl_queue_change_alone(rl_queue_work *work, rl_sql_id id, const rl_value *values,
                                     rl_done *done, rowlock_error *err) RL_MUST_USE;

/* What rl_queue_leave_group() runs. */
#define RL_QUEUE_LEAVE_GROUP                                                                       \
    RL_SQL_QUEUE_GROUP_LOCK, RL_SQL_QUEUE_GROUP_TRY, RL_SQL_QUEUE_GROUP_NEXT,                      \
        RL_SQL_QUEUE_GROUP_PROMOTE, RL_SQL_QUEUE_GROUP_END

/* The item has ended in this transaction: if it was its group's head, the next one is. */
rowlock_status rl_queue_leave_group(const rl_queue_work *work, rl_conn *conn, uint64_t queue_id,
                                    const char *group, uint64_t item,
                                    rowlock_error *err) RL_MUST_USE;

/* For rl_attempts. */
bool rl_queue_unsettled(const void *work);

/* For a call whose time is over: says that another session has locked a row that it needs. */
rowlock_status rl_queue_in_use(const rl_queue_work *work, rowlock_status status,
                               rowlock_error *err) RL_MUST_USE;

#endif
