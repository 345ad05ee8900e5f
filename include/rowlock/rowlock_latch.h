/*
 * rowlock/rowlock_latch.h - a latch: wait until N parts are done.
 *
 * One caller sets the latch to N. Each part that is done counts once. After N counts the latch is
 * open, and all its waiters go on. To set it again begins its next generation; callers that wait
 * for an earlier one are still told that it has opened. A latch remembers how its last 64
 * generations ended; every call for an earlier one answers LOST.
 *
 *     rowlock_latch_set(client, "import", 12, &generation, &err)        12 shards are to come
 *     rowlock_latch_down(client, "import", "shard-7", generation, &err) one has
 *     rowlock_latch_wait(client, "import", &(rowlock_latch_options){
 *         .wait_ms = ROWLOCK_WAIT_FOREVER}, NULL, &err)                 all have
 *
 * Each count is a row of its own, so it may be part of the transaction that does the work
 * (rowlock_tx_latch_down() in rowlock_mysql.h): then the part counts if, and only if, its work is
 * committed.
 */
#ifndef ROWLOCK_LATCH_H
#define ROWLOCK_LATCH_H

#include "rowlock/rowlock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ROWLOCK_LATCH_MAX 10000 /* counts, at most */

typedef enum rowlock_latch_state {
    ROWLOCK_LATCH_UNSET = 0, /* nobody has set it yet */
    ROWLOCK_LATCH_ARMED = 1, /* some counts are still to come */
    ROWLOCK_LATCH_OPEN = 2,
    ROWLOCK_LATCH_BROKEN = 3 /* it will not open: somebody broke it, or a member was lost */
} rowlock_latch_state;

typedef struct rowlock_latch_info {
    rowlock_latch_state state;
    uint64_t generation;                   /* rises each time that it is set */
    unsigned count;                        /* so many counts open it */
    unsigned down;                         /* so many were made */
    unsigned members;                      /* so many have joined, and have not counted yet */
    char broken_by[ROWLOCK_LABEL_MAX + 1]; /* BROKEN: who broke it, or was lost; else "" */
    uint64_t reserved[8];
} rowlock_latch_info;

typedef struct rowlock_latch_options {
    int64_t wait_ms;     /* 0: look once; < 0: forever; else at most this long */
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
 *   BUSY     it is closed, and some counts are still to come (rowlock_break() ends that); or a
 *            transaction that has counted is still open
 *   UNKNOWN  the reply was lost and could not be looked up: it may be set
 *   MODE     the name is another kind of lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_latch_set(rowlock_client *client,
                                                              const char *name, unsigned count,
                                                              uint64_t *generation,
                                                              rowlock_error *err);

/*
 * Counts once. All calls with the same key (text that would be valid as a name) count as one;
 * NULL: each call counts. `generation` 0: the present one. If that has opened already, the call
 * answers OK and changes nothing.
 *
 *   NOT_FOUND  the latch, or that generation of it, was not set yet
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
 * Waits until one generation has opened, even if the latch was set again since, and writes the
 * number of that generation to `generation`, which may be NULL. It waits for a latch that was not
 * set yet, too; if the latch is open, it returns at once.
 *
 *   BUSY       wait_ms is 0, and some counts are still to come
 *   TIMEOUT    the wait ended before the latch had opened
 *   CANCELLED  `cancel` was fired
 *   LOST       the latch was broken, or a member was lost; the message says who
 *   MODE       the name is another kind of lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_latch_wait(rowlock_client *client,
                                                               const char *name,
                                                               const rowlock_latch_options *options,
                                                               uint64_t *generation,
                                                               rowlock_error *err);

/*
 * Reads the latch.
 *
 *   NOT_FOUND  there is no such name
 *   MODE       the name is another kind of lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_latch_get(rowlock_client *client,
                                                              const char *name,
                                                              rowlock_latch_info *info,
                                                              rowlock_error *err);

/*
 * Joins the latch as a member: one that has promised to count. The hold is renewed like a lease,
 * and its token is the generation. If the hold is lost, or released before rowlock_latch_done(),
 * the latch is broken, and all its waiters get LOST, unless somebody has counted its key.
 *
 *   NOT_FOUND  the latch, or that generation of it, was not set yet
 *   LOST       that generation was broken
 *   INVALID    also: the latch is open, so there is nothing to count; or the key is not valid
 *   BUSY       another transaction is about to set or to break it
 *   UNKNOWN    the reply was lost and could not be looked up: it may have joined; then the latch is
 *              broken when its TTL is over
 *   MODE       the name is another kind of lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_latch_join(
    rowlock_client *client, const char *name, const rowlock_latch_join_options *options,
    rowlock_hold **hold, rowlock_error *err);

/*
 * Counts for the member, and ends its membership: the hold is freed whatever the status, as by
 * rowlock_release() (but for INVALID and FORKED). If the member could not count, the latch is
 * broken when its TTL is over, at the latest.
 *
 *   LOST     the member was lost, or the latch was broken
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
