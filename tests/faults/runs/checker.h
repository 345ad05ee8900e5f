/*
 * runs/checker.h - does a history keep what rowlock promises (docs/guarantees.md)?
 *
 * All times are of one monotonic clock, and each rule uses the side of a call that favours the
 * lock: something is before something else only if its *reply* is before the other's *call*.
 * So a process that was stopped between the two accuses nobody.
 *
 * A holder has a lock alone, or is one of its readers, and beside other readers only. Of a name
 * with slots each slot is a lease that is had alone, and every rule for leases counts for it; to
 * wait, and to be served, is for the name.
 *
 * Exclusion
 *   token-once     no two that had a lock alone had the same token
 *   token-rises    acquired before another was asked for: a lower token than that one's, if
 *                  that one is a reader; else one that is not higher
 *   token-reader   a reader has the token of the last who had it alone; a higher one only
 *                  where one got lost: of an acquire without a good answer, of a holder who
 *                  did not release, by a break
 *   two-holders    a lease: told "still yours" by a call that began when somebody with a
 *                  higher token had been told that it is his; or, of one that is held alone,
 *                  when a reader with its token had been told so
 *   holders        a lease: at a moment at which one was told "still yours", those who were
 *                  told so before and after it are counted by their kind: one alone, or readers
 *   slots          likewise of a name with slots: those who were told so hold more slots than
 *                  it has
 *   taken-early    a lease: somebody with a higher token, or a reader beside who has it alone,
 *                  was told that it is his before the TTL of its acquire, or what
 *                  hold_remaining promised, was over, though it had not been given up. (Dead or
 *                  stopped holders too: the server must not forget.)
 *   upgrade        a reader has it alone now, though another one had it alone in between
 *                  None of these five counts across rowlock_break() or a step of the server's
 *                  clock.
 *   row-two        a row lock: two processes were told "still yours" for overlapping times,
 *                  and one of them had it alone.
 *                  The server may end a row lock, and its holder then knows as soon as it
 *                  can: where something was broken, LATE_ROW is allowed, and the time for
 *                  which either was stopped.
 * Tokens in the server
 *   row-back       the row's version went down, or is below a token acknowledged before
 *   row-ahead      a token is not above the version that the row had before it was asked for;
 *                  a reader's: is below it
 *                  (across a crash of the server neither counts that was only seen in the row:
 *                  InnoDB shows a commit before it is on the disk)
 *   row-released   released OK, and afterwards still held by that owner with that token, or
 *                  still among the readers (a row lock's row may stay behind where something
 *                  was broken: it is not the lock)
 *   row-slots      the row of a name with slots has a holder, which only its slots have
 *   row-dead       a lease of a dead process with more left to run than its TTL + 1 s since
 * Fenced writes
 *   write-order    in the order of the commits a token went down
 *   write-owner    two owners who had it alone wrote with the same token
 *   write-lost     acknowledged, and not in the table
 *   write-refused  refused, and in the table
 *   write-late     accepted by rowlock_fence() though somebody with a higher token had been
 *                  told, before the transaction began, that the lock is his
 * Waiting
 *   wait-bound     an acquire took longer than its wait
 *   wait-served    a waiter did not get in though the lock had been free
 *   wait-order     a lease went to one who had asked later than a waiter stood in the queue (only
 *                  where nothing was broken, nobody polls, and all holders released). A reader
 *                  may pass readers, and may pass one that waits to have it alone as long as
 *                  that one has not closed it for readers. For slots there is one queue: who
 *                  wants one may not pass who wants several
 * Latch (its calls; status and wait-bound count for them, too)
 *   latch-early    a generation was open, for one who waited or asked, or in its row, when fewer
 *                  than it takes could have counted in it: calls with OK, or without an answer,
 *                  begun before; equal keys once
 *   latch-fate     one generation was open for one, and broken for another; or somebody has
 *                  counted in it, or joined it, when it was known to be broken
 *   latch-broken   it was broken though no operator did that, and every member has counted, or was
 *                  neither gone nor kept from renewing; or though all had counted by then
 *   latch-set      a generation was given twice, in the wrong order, or when the one before was
 *                  not settled by anything
 *   latch-stuck    somebody waited for one in which all had counted; or the probe came to nothing:
 *                  it sets, counts, waits, and waits for one of which a member dies
 *   count-lost     counted with OK, and not in the table while the generation is armed
 *   count-more     more counts in the table than may have been made
 * Barrier
 *   barrier-torn   of a generation that one has entered: fewer or more processes than it takes,
 *                  by then; two with one place, or one with a place that there is not (but for
 *                  those who were told so within the second before a crash of the server)
 *   barrier-twice  a process is in a generation twice, or in an earlier one later
 *   barrier-early  one left though not every member had called leave
 *   barrier-lost   leave said LOST though no member died, went before it was ready, or was kept
 *                  from renewing, and nobody broke it
 *   barrier-stuck  the probes, as many as it takes, did not come in and out again
 * Leaders (who holds a lease alone, and has published a value)
 *   leader-value   somebody was seen to lead with a value that no holder with that token had
 *                  published, or only later
 *   leader-two     ... when somebody with a higher token had been told that the lease is his, or
 *                  when the release of that one had come back
 *   leader-back    ... with a lower token than one who was seen before
 *   leader-late    ... with a value in whose place the same holder had published another one
 *   leader-missed  nobody was seen to lead, or another one, though somebody did for sure, before
 *                  and afterwards, and changed nothing meanwhile. (Not across a break, or a step of
 *                  the clock.)
 * Once in a period (what is said to be done in one transaction with the work is a job)
 *   once-two       a period has more than one job's work, or two attempts were told that it is done
 *   once-work      ... is done by an attempt that did not say so, or whose work is not there; or is
 *                  not, and has a job's work; or has failed, and nobody said so
 *   once-lost      what was begun, done or failed with OK, the ledger has otherwise
 *   once-refused   told LOST, and the attempt is the last one, and has not ended
 *   once-again     begun though it was known to be done; or the ledger shows so
 *   once-late      begun though somebody with a higher token had been told that the lease is his
 *   once-attempts  more of them than there may be, or fewer than were begun, or more than can have
 *                  been; a later one has no higher number
 *   once-token     the ledger's token went down; two periods were begun with one
 *   once-answer    told that it is done, or its attempts used up, and it cannot be
 * Queue (status and wait-bound count for its calls, too)
 *   item-token     an item was taken twice with one token, or later with a lower one
 *   item-attempts  the attempts of its takers do not rise; are more than it may have, or than
 *                  there can have been
 *   item-two       two were told "still yours" of one item for the same moment
 *   item-early     taken by another one before the time was over that its taker was promised,
 *                  though that one had not given it up
 *   item-group     likewise of two items of one group
 *   item-order     taken though one of its group that was put before it was not over
 *   item-ghost     taken, and nobody has put it, or the put was rolled back or refused
 *   item-twice     put once, and there as two items
 *   item-ready     taken before the time at which it was to be ready, by the put or the retry
 *   item-key       put twice with one key though the first was not over; or the put was told of
 *                  an item that was over, or has no key
 *   item-again     taken, or ended, though it was known to be over
 *   item-late      ended or given back with OK when somebody with a higher token had been told
 *                  that it is his
 *   item-work      the work of a job (in one transaction with its done) is there twice; is not
 *                  there, though it was acknowledged; is there, though it was not
 *   item-refused   told LOST though its time was not over
 *   item-back      its token went down in its row
 *   item-kept      there, though it was known to be over; or with a lease of a dead process that
 *                  has more left to run than its TTL + 1 s since
 *   item-dead      among the dead, though attempts were left and nobody had said so
 *   item-lost      put with OK, or taken, and not there at the end, though nobody can have ended it
 *   item-stuck     there when all were taken, at the end; or a wait for any was in vain while one
 *                  was ready that nobody else can have taken
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
    QUEUED = 250000,          /* so long after it asked for its place a waiter is in the queue */
    REOPENS = 250000,         /* who gives up tries for no longer to open it for readers again */
    CLOSED = 10000000,        /* for so long at most, if it is not heard of again */
    CLOCK_RATE = MODEL_CLOCK_RATE
};

typedef struct verdict {
    unsigned violations;
    char rules[300]; /* those that were broken, " token-once row-back " */
} verdict;

/* What is wrong goes to `out`, a line each. */
verdict check(const model *m, FILE *out);
bool verdict_has(const verdict *v, const char *rule);

#endif
