/*
 * rowlock/rowlock_leader.h - a leader: the holder of a lease that tells others where it is.
 *
 * A client that acquires a lease with `value` (rowlock_acquire_options) leads: everybody can read
 * the value, an address for example, as long as the lease is held, by the server's clock.
 *
 *     rowlock_acquire(client, "primary", &(rowlock_acquire_options){
 *         .wait_ms = ROWLOCK_WAIT_FOREVER, .value = "db1:3306"}, &hold, &err)
 *
 *     rowlock_observe(client, "primary", NULL, &leader, &err)         elsewhere: who leads now?
 *     rowlock_observe(client, "primary", &(rowlock_observe_options){  and until that changes:
 *         .after = &leader, .wait_ms = ROWLOCK_WAIT_FOREVER}, &leader, &err)
 *
 * The leader itself calls rowlock_hold_check(), as the holder of any lease does: it hears of its
 * loss before anybody else can lead. Others may read a value that is out of date a moment later: a
 * program that acts for the leader gives the leader's token to the store, and the store refuses a
 * lower one.
 */
#ifndef ROWLOCK_LEADER_H
#define ROWLOCK_LEADER_H

#include "rowlock/rowlock.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rowlock_leader {
    bool leads;           /* somebody does; else the other members are 0 and "" */
    uint64_t token;       /* of its lease */
    int64_t held_ms;      /* for how long it has held the lease, by the server's clock */
    int64_t remaining_ms; /* until the lease ends without a renewal, likewise */
    char value[ROWLOCK_VALUE_MAX + 1];
    char owner_label[ROWLOCK_LABEL_MAX + 1];
    uint64_t reserved[8];
} rowlock_leader;

typedef struct rowlock_observe_options {
    int64_t wait_ms; /* 0: look once; < 0: forever; else at most this long */
    /* The leader that the last call gave: waits until somebody else leads, the value has changed,
     * or nobody leads. NULL: waits until somebody leads. */
    const rowlock_leader *after;
    rowlock_cancel *cancel;
    uint64_t reserved[8];
} rowlock_observe_options;

/*
 * Says who leads. With wait_ms 0 it looks once, and ignores `after`. Else it looks every 250 ms to
 * 1 s, by one read of the server, until the leader has changed; it misses a leader that comes and
 * goes between two looks. It waits for a name that was never used, too. `leader` may be what
 * `after` points to.
 *
 *   NOT_FOUND    wait_ms is 0, and the name was never used, or is purged
 *   TIMEOUT      the wait ended before the leader had changed
 *   CANCELLED    `cancel` was fired
 *   UNAVAILABLE  also: the server could not be reached for reconnect_ms
 *   MODE         the name is another kind of lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_observe(rowlock_client *client,
                                                            const char *name,
                                                            const rowlock_observe_options *options,
                                                            rowlock_leader *leader,
                                                            rowlock_error *err);

/*
 * Publishes another value, under the rules for `value` of rowlock_acquire_options. NULL or "":
 * none, so that nobody leads, though the lease is held.
 *
 *   LOST         the lease is lost
 *   UNAVAILABLE  the server could not be reached in time; the value is as it was
 *   UNKNOWN      the reply was lost and could not be looked up: it may be published
 *   INVALID      also: the value is not valid; the hold is shared, a set, has slots, or is a member
 *                of a latch or of a barrier
 *   UNSUPPORTED  a row lock
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_hold_set_value(rowlock_hold *hold,
                                                                   const char *value,
                                                                   rowlock_error *err);

#ifdef __cplusplus
}
#endif

#endif
