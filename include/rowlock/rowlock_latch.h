/*
 * rowlock/rowlock_latch.h - a latch: wait until so many have said that they are done.
 *
 * Somebody sets it to a number. Whoever has finished its part counts it down; when so many have,
 * it is open, and all who wait for it go on. Set again, it is the next generation of the same
 * latch: who waits for an earlier one is still told that it has opened.
 *
 *     rowlock_latch_set(client, "import", 12, &generation, &err)        12 shards are to come
 *     rowlock_latch_down(client, "import", "shard-7", generation, &err) one has
 *     rowlock_latch_wait(client, "import", &(rowlock_latch_options){
 *         .wait_ms = ROWLOCK_WAIT_FOREVER}, NULL, &err)                 all have
 *
 * A count is a row of its own, so it may be part of the transaction that it tells of
 * (rowlock_tx_latch_down() in rowlock_mysql.h): then "committed" and "counted" are one.
 */
#ifndef ROWLOCK_LATCH_H
#define ROWLOCK_LATCH_H

#include "rowlock/rowlock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ROWLOCK_LATCH_MAX 10000 /* to be counted down, at most */

typedef enum rowlock_latch_state {
    ROWLOCK_LATCH_UNSET = 0, /* nobody has set it yet */
    ROWLOCK_LATCH_ARMED = 1, /* some are still to come */
    ROWLOCK_LATCH_OPEN = 2,
    ROWLOCK_LATCH_BROKEN = 3 /* it will not open: somebody broke it, or a member was lost */
} rowlock_latch_state;

typedef struct rowlock_latch_info {
    rowlock_latch_state state;
    uint64_t generation;                   /* rises each time that it is set */
    unsigned count;                        /* so many open it */
    unsigned down;                         /* so many have come */
    unsigned members;                      /* so many have joined, and are still to come */
    char broken_by[ROWLOCK_LABEL_MAX + 1]; /* BROKEN: who broke it, or was lost; else "" */
    uint64_t reserved[8];
} rowlock_latch_info;

typedef struct rowlock_latch_options {
    int64_t wait_ms;     /* 0: look once; < 0: for ever; else at most this long */
    uint64_t generation; /* this one; 0: the present one, or the first that there will be */
    rowlock_cancel *cancel;
    uint64_t reserved[8];
} rowlock_latch_options;

typedef struct rowlock_latch_join_options {
    int64_t ttl_ms;      /* as in rowlock_acquire_options */
    uint64_t generation; /* this one; 0: the present one */
    const char *key;     /* with which it counts; NULL: one of its own */
    rowlock_lost_fn on_lost;
    void *on_lost_data;
    uint64_t reserved[8];
} rowlock_latch_join_options;

/*
 * Sets the latch to `count`, 1 .. ROWLOCK_LATCH_MAX. The name is made if it is new. `generation`
 * may be NULL.
 *
 *   BUSY     it is set, and has not opened: some are still to come (rowlock_break() ends that); or
 *            a transaction that has counted is still open
 *   UNKNOWN  the reply was lost and could not be looked up: it may be set
 *   MODE     the name is another kind of lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_latch_set(rowlock_client *client,
                                                              const char *name, unsigned count,
                                                              uint64_t *generation,
                                                              rowlock_error *err);

/*
 * Counts once. With a key (text as a name's, see rowlock_acquire()) it counts once however often it
 * is called; NULL: each call counts. `generation` 0: the present one. One that has opened already
 * answers OK, and nothing is changed.
 *
 *   NOT_FOUND  the latch was not set yet, or not that often
 *   LOST       that generation was broken
 *   BUSY       another transaction is about to set or to break it
 *   UNKNOWN    the reply was lost and could not be looked up: it may have counted
 *   MODE       the name is another kind of lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_latch_down(rowlock_client *client,
                                                               const char *name, const char *key,
                                                               uint64_t generation,
                                                               rowlock_error *err);

/*
 * Waits until it has opened. Also when it was set again since: the generation that was waited for
 * counts. A latch that was not set yet is waited for; one that is open is passed at once.
 * `generation` may be NULL.
 *
 *   BUSY       wait_ms is 0, and some are still to come
 *   TIMEOUT    the wait ended before all had come
 *   CANCELLED  `cancel` was fired
 *   LOST       it was broken, or a member was lost; the message says who
 *   MODE       the name is another kind of lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_latch_wait(rowlock_client *client,
                                                               const char *name,
                                                               const rowlock_latch_options *options,
                                                               uint64_t *generation,
                                                               rowlock_error *err);

/*
 * How it stands.
 *
 *   NOT_FOUND  there is no such name
 *   MODE       the name is another kind of lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_latch_get(rowlock_client *client,
                                                              const char *name,
                                                              rowlock_latch_info *info,
                                                              rowlock_error *err);

/*
 * Joins it as a member: one that has promised to count. The hold is renewed as a lease; when it is
 * lost, or released before rowlock_latch_done(), the latch is broken, and who waits for it hears
 * LOST; unless its key has been counted, by whomever. The hold's token is the generation.
 *
 *   NOT_FOUND  the latch was not set yet, or not that often
 *   LOST       that generation was broken
 *   INVALID    also: it is open, so there is nothing to count; or the key is not valid
 *   BUSY       another transaction is about to set or to break it
 *   UNKNOWN    the reply was lost and could not be looked up: it may have joined; then the latch is
 *              broken when its TTL is over
 *   MODE       the name is another kind of lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_latch_join(
    rowlock_client *client, const char *name, const rowlock_latch_join_options *options,
    rowlock_hold **hold, rowlock_error *err);

/*
 * The member counts, and is one no more: the hold is freed whatever the status, as by
 * rowlock_release() (but for INVALID and FORKED). If it could not count, the latch is broken when
 * its TTL is over, at the latest.
 *
 *   LOST     it was lost, or the latch was broken
 *   BUSY     another transaction is about to set or to break the latch
 *   UNKNOWN  the reply was lost and could not be looked up: it may have counted
 *   INVALID  the hold is no member of a latch
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_latch_done(rowlock_hold *hold,
                                                               rowlock_error *err);

#ifdef __cplusplus
}
#endif

#endif
