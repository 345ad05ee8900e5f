/*
 * runs/checker.h - does a history keep what rowlock promises (docs/guarantees.md)?
 *
 * All times are of one monotonic clock, and each rule uses the side of a call that favours the
 * lock: something is before something else only if its *reply* is before the other's *call*.
 * So a process that was stopped between the two accuses nobody.
 *
 * Exclusion
 *   token-once     no two holds of a lock have the same token
 *   token-rises    acquired before another was asked for: a lower token than that
 *   two-holders    a lease: told "still yours" by a call that began when somebody with a
 *                  higher token had been told that it is his
 *   taken-early    a lease: somebody with a higher token was told that it is his before the
 *                  TTL of its acquire, or what hold_remaining promised, was over, though it
 *                  had not been given up. (Dead or stopped holders too: the server must not
 *                  forget.)
 *                  Neither counts across rowlock_break() or a step of the server's clock.
 *   row-two        a row lock: two processes were told "still yours" for overlapping times.
 *                  The server may end a row lock, and its holder then knows as soon as it
 *                  can: where something was broken, LATE_ROW is allowed, and the time for
 *                  which either was stopped.
 * Tokens in the server
 *   row-back       the row's version went down, or is below a token acknowledged before
 *   row-ahead      a token is not above the version that the row had before it was asked for
 *                  (across a crash of the server neither counts that was only seen in the row:
 *                  InnoDB shows a commit before it is on the disk)
 *   row-released   released OK, and afterwards still held by that owner with that token (a
 *                  row lock's row may stay behind where something was broken: it is not
 *                  the lock)
 *   row-dead       a lease of a dead process with more left to run than its TTL + 1 s since
 * Fenced writes
 *   write-order    in the order of the commits a token went down
 *   write-owner    two owners wrote with the same token
 *   write-lost     acknowledged, and not in the table
 *   write-refused  refused, and in the table
 *   write-late     accepted by rowlock_fence() though somebody with a higher token had been
 *                  told, before the transaction began, that the lock is his
 * Waiting
 *   wait-bound     an acquire took longer than its wait
 *   wait-served    a waiter did not get in though the lock had been free
 *   wait-order     a lease went to one who had asked later than a waiter in the queue (only
 *                  where nothing was broken, nobody polls, and all holders released)
 * Ends
 *   status         of a call: one that the run gives no reason for
 *   hung           a process did not end when told to, though nothing was broken any more
 *   exit           one crashed, or ended otherwise than it was made to
 *
 * How long something may take besides its promise: the figures below, and LATE_TIMES the
 * longest time by which a thread of the driver that wanted to run, or a small commit on a
 * connection of its own, was late meanwhile (a loaded machine is no fault of the lock's).
 */
#ifndef RUNS_CHECKER_H
#define RUNS_CHECKER_H

#include "model.h"

enum {
    SECOND = 1000000,
    LATE_TIMES = 4,
    LATE_ROW = 1500000,       /* see row-two */
    SLACK_WAIT = 1000000,     /* wait-bound */
    SLACK_TRY = 4000000,      /* ... of a try: it asks what became of a lost reply */
    SERVED = 3000000,         /* wait-served, where nothing is broken */
    SERVED_STOPPED = 5000000, /* more, where somebody in the queue was stopped: the others look
                                 every 4 s */
    QUEUED = 250000,          /* after so long a waiter is in the queue */
    CLOCK_RATE = 2000         /* the clocks of server and client agree to 1 in so many */
};

typedef struct verdict {
    unsigned violations;
    char rules[200]; /* those that were broken, " token-once row-back " */
} verdict;

/* What is wrong goes to `out`, a line each. */
verdict check(const model *m, FILE *out);
bool verdict_has(const verdict *v, const char *rule);

#endif
