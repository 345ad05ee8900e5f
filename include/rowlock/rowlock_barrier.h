/*
 * rowlock/rowlock_barrier.h - a barrier: N members enter together, and leave together.
 *
 *     rowlock_barrier_enter(client, "step", 4, &options, &hold, &err)   until four are there
 *     compute(rowlock_hold_slot(hold));                                 each one is 0, 1, 2 or 3
 *     rowlock_barrier_leave(hold, ROWLOCK_WAIT_FOREVER, NULL, &err)     until all four are done
 *     rowlock_release(hold, &err)
 *
 * The N members that enter together are one generation; the next one to enter belongs to the next
 * generation. Each member is renewed like a lease. One that dies before all have entered is
 * forgotten when its TTL is over; if one dies later, or is released before it was ready to leave,
 * the others get LOST when they leave.
 */
#ifndef ROWLOCK_BARRIER_H
#define ROWLOCK_BARRIER_H

#include "rowlock/rowlock.h"

#ifdef __cplusplus
extern "C" {
#endif

#define ROWLOCK_BARRIER_MAX 1000 /* members of one generation */

typedef struct rowlock_barrier_options {
    int64_t wait_ms; /* 0: only if it is the last one; < 0: forever; else at most this long */
    int64_t ttl_ms;  /* as in rowlock_acquire_options */
    rowlock_cancel *cancel;
    rowlock_lost_fn on_lost;
    void *on_lost_data;
    uint64_t reserved[8];
} rowlock_barrier_options;

/*
 * Enters, and waits until `count` members have, 1 .. ROWLOCK_BARRIER_MAX. The first call for a name
 * sets its count. On OK all have entered: the hold's token (rowlock_hold_token()) is the
 * generation, and its slot (rowlock_hold_slot()) is this member's number, 0 .. count - 1. On any
 * other status but UNKNOWN and UNAVAILABLE (see there) this member has not entered, and the others
 * still wait for one more.
 *
 *   BUSY         wait_ms is 0, and others are still to come
 *   TIMEOUT      the wait ended before all had come
 *   CANCELLED    `cancel` was fired
 *   MODE         the name is another kind of lock, or a barrier of another count
 *                (rowlock_break(), where nobody has entered, makes it forget its count)
 *   UNKNOWN      the reply was lost and could not be looked up: this member may have entered, until
 *                its TTL is over
 *   UNAVAILABLE  also: this member was lost just when all had come; the others will get LOST
 *   UNSUPPORTED  the client works through procedures
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_barrier_enter(
    rowlock_client *client, const char *name, unsigned count,
    const rowlock_barrier_options *options, rowlock_hold **hold, rowlock_error *err);

/*
 * Says that this member is ready to leave, and waits until all members of its generation are. Then
 * release the hold. `cancel` may be NULL. After BUSY and TIMEOUT, too, this member is ready: the
 * others do not miss it when it is released. A server that is slow to hear it makes the call take
 * longer than `wait_ms`, as it does a try.
 *
 *   BUSY         wait_ms is 0, and others are still at work
 *   TIMEOUT      the wait ended before all were ready; leave again, or release
 *   CANCELLED    `cancel` was fired; it is not known whether this member is ready
 *   LOST         this member was lost, or another one was, or was released before it was ready: the
 *                message says who
 *   INVALID      the hold is no member of a barrier
 *   UNAVAILABLE  also: it is not known whether this member is ready
 *
 * Where that is not known, leave again before it is released, or the others may miss it.
 */
ROWLOCK_API ROWLOCK_MUST_USE rowlock_status rowlock_barrier_leave(rowlock_hold *hold,
                                                                  int64_t wait_ms,
                                                                  rowlock_cancel *cancel,
                                                                  rowlock_error *err);

#ifdef __cplusplus
}
#endif

#endif
