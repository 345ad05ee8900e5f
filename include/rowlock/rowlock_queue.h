/*
 * rowlock/rowlock_queue.h - a queue of work: delayed, durable, leased.
 *
 * An item is put into a queue once, and taken by one worker at a time. To take it is to get a lease
 * on it, with a token of its own, which the client renews until the item is done: then it is
 * deleted. A worker that dies or is stopped loses the item when its TTL is over, and the item is
 * delivered again, with a higher token.
 *
 *     rowlock_queue_put(client, "mail", "to=x", 4, NULL, &id, &err)
 *
 *     rowlock_queue_take(client, "mail", &(rowlock_take_options){
 *         .wait_ms = ROWLOCK_WAIT_FOREVER}, &item, &err)
 *     ... work with rowlock_item_payload(item) ..., then one of
 *     rowlock_item_done(item, &err)
 *     rowlock_item_retry(item, &(rowlock_retry_options){.reason = "no route"}, &err)
 *
 * An item is delivered at least once. It is done exactly once where done is part of the
 * transaction that does the work (rowlock_tx_queue_done() in rowlock_mysql.h); likewise it is put
 * if, and only if, the transaction commits that puts it (rowlock_tx_queue_put()).
 *
 * Order: the higher priority first, then the item that has been ready for longer. Items of one
 * group are delivered one at a time, in the order in which they were put.
 *
 * A client that works through procedures (ROWLOCK_VIA_PROCEDURES) gets UNSUPPORTED from each call:
 * there each statement is a transaction of its own, and a take, or a put or an end of an item of a
 * group, is several in one. Use the procedures of rowlock-sql(7) (CALL rowlock_queue_put, ...),
 * which need EXECUTE alone.
 */
#ifndef ROWLOCK_QUEUE_H
#define ROWLOCK_QUEUE_H

#include "rowlock/rowlock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ROWLOCK_PAYLOAD_MAX        1048576      /* bytes of an item's payload */
#define ROWLOCK_PRIORITY_MAX       9            /* 0 .. 9: the higher one comes first */
#define ROWLOCK_QUEUE_ATTEMPTS     20           /* of an item, by default ... */
#define ROWLOCK_QUEUE_ATTEMPTS_MAX 1000000      /* ... and at most */
#define ROWLOCK_QUEUE_BATCH_MAX    1000         /* items in one call */
#define ROWLOCK_QUEUE_DELAY_MAX_MS 315360000000 /* ten years of 365 days */
#define ROWLOCK_REASON_MAX         1000         /* bytes of a reason that are kept */

/* One item that is held. Any number of threads may call its functions at once; only one of those
 * that end it (done, retry, dead, release) may be called, once. */
typedef struct rowlock_item rowlock_item;

/* --------------------------------------------------------------------- put */

typedef struct rowlock_put_options {
    int64_t delay_ms;  /* ready after this time; 0 .. ROWLOCK_QUEUE_DELAY_MAX_MS */
    int64_t at_us;     /* or at this time, in microseconds since 1970-01-01 00:00 UTC, by the
                          server's clock; 0: not given. A time that is past: ready at once */
    unsigned priority; /* 0 .. ROWLOCK_PRIORITY_MAX */
    const char *key;   /* while the queue has an item with the same key that is not dead, a put
                          changes nothing and gets that item's id (one whose worker was lost at
                          its last attempt keeps its key until a take makes it dead). Text that
                          would be valid as a name. NULL: none */
    const char *group; /* text that would be valid as a name; NULL: none */
    unsigned attempts; /* it may be delivered so often; 0: ROWLOCK_QUEUE_ATTEMPTS; at most
                          ROWLOCK_QUEUE_ATTEMPTS_MAX */
    uint64_t reserved[8];
} rowlock_put_options;

/*
 * Puts an item of `size` bytes, 0 .. ROWLOCK_PAYLOAD_MAX, of any kind. The queue is made when it is
 * used first. On OK the item is durable; `id` may be NULL.
 *
 *   INVALID  also: the payload is too large, or an option is out of its range; nothing was put
 *   UNKNOWN  the reply was lost, and the item is not there: it was not put, or it was put and is
 *            done or dead already
 *   BUSY     a transaction that is still open has locked the same key, or the same group
 *   MODE     the name is another kind of lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_queue_put(rowlock_client *client,
                                                              const char *queue,
                                                              const void *payload, size_t size,
                                                              const rowlock_put_options *options,
                                                              uint64_t *id, rowlock_error *err);

/* One of several. */
typedef struct rowlock_put_entry {
    const void *payload;
    size_t size;
    const rowlock_put_options *options; /* NULL: all defaults */
    uint64_t reserved[2];
} rowlock_put_entry;

/*
 * Puts `count` items, 1 .. ROWLOCK_QUEUE_BATCH_MAX, in this order: all of them or none, in one
 * transaction. `ids` has room for so many, or is NULL. Statuses of rowlock_queue_put().
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status
rowlock_queue_put_batch(rowlock_client *client, const char *queue, const rowlock_put_entry *entries,
                        size_t count, uint64_t *ids, rowlock_error *err);

/* -------------------------------------------------------------------- take */

/* As rowlock_lost_fn, of an item: it will be delivered again, or is somebody else's already. The
 * callback may end the item. */
typedef void (*rowlock_item_lost_fn)(void *data, rowlock_item *item, const char *reason);

typedef struct rowlock_take_options {
    int64_t wait_ms; /* 0: look once; < 0: forever; else at most this long */
    int64_t ttl_ms;  /* 0: 30000. ROWLOCK_TTL_MIN_MS .. ROWLOCK_TTL_MAX_MS */
    rowlock_cancel *cancel;
    rowlock_item_lost_fn on_lost;
    void *on_lost_data;
    uint64_t reserved[8];
} rowlock_take_options;

/*
 * Takes the item whose turn it is. An item that was delivered as often as it may be (its workers
 * died, or lost it) becomes a dead one instead.
 *
 *   BUSY         wait_ms is 0, and no item is ready
 *   TIMEOUT      the wait ended before an item was ready
 *   CANCELLED    `cancel` was fired
 *   UNKNOWN      the reply was lost and could not be looked up: an item may stay taken, without a
 *                worker, for up to its TTL
 *   MODE         the name is another kind of lock
 *   UNSUPPORTED  the client works through procedures: CALL rowlock_queue_take
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_queue_take(rowlock_client *client,
                                                               const char *queue,
                                                               const rowlock_take_options *options,
                                                               rowlock_item **item,
                                                               rowlock_error *err);

/*
 * Takes up to `most` items, 1 .. ROWLOCK_QUEUE_BATCH_MAX, in one transaction: as many as are ready,
 * and at least one. `items` has room for `most`. Each is an item of its own. Statuses of
 * rowlock_queue_take().
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_queue_take_batch(
    rowlock_client *client, const char *queue, size_t most, const rowlock_take_options *options,
    rowlock_item **items, size_t *count, rowlock_error *err);

/* -------------------------------------------------------------- a held item */

/* Valid until the item is ended. */
ROWLOCK_API uint64_t rowlock_item_id(const rowlock_item *item);
ROWLOCK_API const void *rowlock_item_payload(const rowlock_item *item); /* and a byte 0 behind it */
ROWLOCK_API size_t rowlock_item_size(const rowlock_item *item);
ROWLOCK_API const char *rowlock_item_queue(const rowlock_item *item);
ROWLOCK_API const char *rowlock_item_key(const rowlock_item *item);   /* "": none */
ROWLOCK_API const char *rowlock_item_group(const rowlock_item *item); /* "": none */
ROWLOCK_API unsigned rowlock_item_priority(const rowlock_item *item);
/* How often it was delivered, this time included. */
ROWLOCK_API unsigned rowlock_item_attempt(const rowlock_item *item);
/* How often it may be delivered. */
ROWLOCK_API unsigned rowlock_item_attempts(const rowlock_item *item);
/* The fencing token: rises each time that the item is taken. */
ROWLOCK_API uint64_t rowlock_item_token(const rowlock_item *item);

/*
 * Is the item still this worker's? Asks no server: it goes by the client's own clock, and by what
 * the keeper has found.
 *
 *   LOST  it is not, and never will be again
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_item_check(const rowlock_item *item,
                                                               rowlock_error *err);
/* How long until it is lost unless it is renewed; 0: it is lost. */
ROWLOCK_API int64_t rowlock_item_remaining_ms(const rowlock_item *item);
/* As rowlock_hold_fd(): readable once it is lost. */
ROWLOCK_API int rowlock_item_fd(rowlock_item *item);

/*
 * Makes the item's lease run for `ttl_ms`, ROWLOCK_TTL_MIN_MS .. ROWLOCK_TTL_MAX_MS, from now on,
 * and again from each renewal on. At the server it ends no earlier than before.
 *
 *   LOST     it is lost
 *   BUSY     a transaction has locked the item for connect_timeout_ms; the lease is as before
 *   UNKNOWN  the reply was lost; the item is still held if rowlock_item_check() says so
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_item_extend(rowlock_item *item, int64_t ttl_ms,
                                                                rowlock_error *err);

/*
 * Gives an item that another process has taken, by its id and token, without its payload, to end or
 * extend it in place of that process. This client does not renew it, unless rowlock_item_extend()
 * was called. End it, or leave it as it is by rowlock_item_forget(), before the client is closed.
 *
 *   LOST       it is not held with this token any more, or not there
 *   NOT_FOUND  there is no such queue
 *   MODE       the name is another kind of lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_queue_held(rowlock_client *client,
                                                               const char *queue, uint64_t id,
                                                               uint64_t token, rowlock_item **item,
                                                               rowlock_error *err);

/* --------------------------------------------------------------- its end */

/*
 * Each of these ends the item, and frees it whatever the status (but for INVALID and FORKED). An
 * item that could not be ended is delivered again when its TTL is over. A server that cannot be
 * reached is tried again for reconnect_ms.
 *
 *   LOST     it is not this worker's any more (or rowlock_tx_queue_done() ended it already);
 *            nothing was changed
 *   BUSY     a transaction has locked the item, or its group, for connect_timeout_ms
 *   UNKNOWN  the reply was lost and could not be looked up
 *   INVALID  the item is NULL, or an option is out of its range
 */

/* The work is done: the item is deleted. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_item_done(rowlock_item *item,
                                                              rowlock_error *err);

/*
 * The same for `count` items of one client, 1 .. ROWLOCK_QUEUE_BATCH_MAX, in one transaction where
 * that is possible. `statuses` has room for so many, or is NULL: what became of each. OK: all are
 * done; else the status of the first that is not.
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_item_done_batch(rowlock_item *const *items,
                                                                    size_t count,
                                                                    rowlock_status *statuses,
                                                                    rowlock_error *err);

typedef struct rowlock_retry_options {
    const char *reason; /* kept with the item, for people: the first ROWLOCK_REASON_MAX bytes; NULL:
                           none */
    int64_t delay_ms;   /* until it is ready again; 0: 1 s, doubled with each attempt, 1 h at most,
                           less a random part of up to a half */
    uint64_t reserved[4];
} rowlock_retry_options;

/* The work has failed: the item is delivered again later; or it becomes a dead one, if this was its
 * last attempt. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_item_retry(rowlock_item *item,
                                                               const rowlock_retry_options *options,
                                                               rowlock_error *err);

/* The work will never be done: the item becomes a dead one now. `reason` may be NULL. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_item_dead(rowlock_item *item,
                                                              const char *reason,
                                                              rowlock_error *err);

/* Nobody has worked on the item: it is ready again at once, and this delivery does not count as an
 * attempt. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_item_release(rowlock_item *item,
                                                                 rowlock_error *err);

/* Frees an item without telling the server: after rowlock_tx_queue_done() was committed. Takes
 * NULL. */
ROWLOCK_API void rowlock_item_forget(rowlock_item *item);

/* ------------------------------------------------------ the queue, for people */

typedef struct rowlock_queue_info {
    uint64_t depth;     /* items that are not dead: the sum of the next four */
    uint64_t ready;     /* to be taken now */
    uint64_t in_flight; /* held by workers */
    uint64_t delayed;   /* ready later */
    uint64_t behind;    /* wait for an earlier item of their group */
    uint64_t dead;
    int64_t oldest_ms; /* for how long the oldest ready item has been ready; -1: none is */
    int64_t next_ms;   /* until the next one becomes ready, 0: one is; -1: none will by itself */
    uint64_t reserved[4];
} rowlock_queue_info;

/*
 * Counts the items of a queue. One whose worker was lost at its last attempt counts as dead. If it
 * is the first of a group, it counts as ready, with next_ms 0: the next take makes it a dead one,
 * and the next item of its group ready.
 *
 *   NOT_FOUND  there is no such name
 *   MODE       the name is another kind of lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_queue_get(rowlock_client *client,
                                                              const char *queue,
                                                              rowlock_queue_info *info,
                                                              rowlock_error *err);

typedef enum rowlock_item_state {
    ROWLOCK_ITEM_READY = 1,
    ROWLOCK_ITEM_DELAYED = 2,
    ROWLOCK_ITEM_IN_FLIGHT = 3,
    ROWLOCK_ITEM_BEHIND = 4, /* an earlier item of its group is there */
    ROWLOCK_ITEM_DEAD = 5
} rowlock_item_state;

/* Strings are "" where there is nothing to say. Times are UTC, as in rowlock_info. */
typedef struct rowlock_item_info {
    uint64_t id;
    rowlock_item_state state;
    unsigned priority;
    unsigned attempt; /* how often it was delivered */
    unsigned attempts;
    uint64_t token;
    uint64_t size;
    const char *key;
    const char *group;
    const char *owner_label; /* who has it, or had it last */
    const char *error;       /* why it was retried last, or is dead */
    const char *created_at;
    const char *ready_at; /* when it will be, or was, ready; IN_FLIGHT: its lease's end; DEAD: since
                             when it is dead */
    int64_t ready_ms;     /* until ready_at, by the server's clock; below 0: it is past */
    uint64_t reserved[4];
} rowlock_item_info;

typedef struct rowlock_items rowlock_items;

typedef struct rowlock_items_options {
    bool dead;      /* the dead ones; else the others */
    uint64_t after; /* only items with a higher id: for paging */
    size_t limit;   /* 0: 100; at most 100000 */
    uint64_t reserved[4];
} rowlock_items_options;

/*
 * The items of a queue, in the order of their ids, without their payloads. Free with
 * rowlock_items_free(), which frees the infos too; rowlock_items_at() is NULL beyond the last one.
 *
 *   NOT_FOUND  there is no such name
 *   MODE       the name is another kind of lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_items_get(rowlock_client *client,
                                                              const char *queue,
                                                              const rowlock_items_options *options,
                                                              rowlock_items **items,
                                                              rowlock_error *err);
ROWLOCK_API size_t rowlock_items_count(const rowlock_items *items);
ROWLOCK_API const rowlock_item_info *rowlock_items_at(const rowlock_items *items, size_t i);
ROWLOCK_API void rowlock_items_free(rowlock_items *items);

/*
 * Makes the item `id`, or with 0 all dead ones of the queue, ready again, as if it had never been
 * delivered; in a group that has others a dead one waits for its turn. An item in flight is taken
 * from its worker, which hears LOST; a delayed one is ready at once; one that waits behind others
 * of its group stays there. `count`, which may be NULL: how many.
 *
 *   NOT_FOUND  there is no such name, or no such item
 *   BUSY       an item that is not dead has the same key; or a transaction has locked the item, or
 *              its group
 *   MODE       the name is another kind of lock
 *   UNKNOWN    the reply was lost and could not be looked up
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_queue_requeue(rowlock_client *client,
                                                                  const char *queue, uint64_t id,
                                                                  uint64_t *count,
                                                                  rowlock_error *err);

typedef struct rowlock_queue_purge_options {
    uint64_t id;      /* this one, whatever its state; 0: all that the next two say */
    bool all;         /* also those that are not dead. (In flight: their workers hear LOST.) */
    int64_t older_ms; /* dead ones: only those that have been dead for so long */
    uint64_t reserved[4];
} rowlock_queue_purge_options;

/* Deletes items: by default all that are dead. `count`, which may be NULL: how many. Statuses of
 * rowlock_queue_requeue(). rowlock_purge() removes the name of an empty queue. */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_queue_purge(
    rowlock_client *client, const char *queue, const rowlock_queue_purge_options *options,
    uint64_t *count, rowlock_error *err);

#ifdef __cplusplus
}
#endif

#endif
