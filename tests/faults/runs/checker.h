/*
 * runs/checker.h - checks that a history keeps the promises of docs/guarantees.md.
 *
 * All times are of one monotonic clock, and each rule uses the side of a call that favours the
 * lock: one event is before another only if its *reply* is before the other's *call*. So a process
 * that was stopped between the two breaks no rule.
 *
 * A holder has a lock alone, or is one of its readers. Each slot of a name with slots is a lease
 * that is held alone, and all rules for leases apply to it; the rules of waiting apply to the name.
 *
 * Exclusion
 *   token-once     two that held a lock alone had the same token
 *   token-rises    a lock that was asked for after another acquire had succeeded got a lower token
 *                  than that one's (if that one is a reader), or one that is not higher
 *   token-reader   a reader's token is not that of the last exclusive holder; it may be higher only
 *                  if a token may have been lost: by an acquire without a clear answer, a holder
 *                  that did not release, or a break
 *   two-holders    a lease: a holder was told "still yours" by a call that began after somebody
 *                  with a higher token had been told that it has the lease; or an exclusive holder
 *                  was told so after a reader with its token had been
 *   holders        a lease: all that were told "still yours" both before and after one moment are
 *                  not a single exclusive holder, or readers only
 *   slots          likewise for a name with slots: they hold more slots than it has
 *   taken-early    a lease: somebody with a higher token, or a reader beside an exclusive holder,
 *                  was told that it has the lease before the TTL of the acquire, or the time that
 *                  hold_remaining promised, was over, though the lease had not been released. (Dead
 *                  and stopped holders, too: the server must not forget.)
 *   upgrade        a reader became the exclusive holder, though another one was in between
 *                  None of these five applies across rowlock_break() or a step of the server's
 *                  clock.
 *   row-two        a row lock: two processes were told "still yours" for overlapping times, and one
 *                  of them held it alone. The server may end a row lock, and its holder is told as
 *                  soon as possible: in a run with faults, LATE_ROW is allowed, and the time for
 *                  which either was stopped.
 * Tokens in the server
 *   row-back       the row's version went down, or is below a token that was acknowledged before
 *   row-ahead      a token is not above the version that the row had before it was asked for; of a
 *                  reader: is below it
 *                  (Versions that were only seen in the row do not count across a crash of the
 *                  server: InnoDB shows a commit before it is on the disk.)
 *   row-released   released with OK, but still held by that owner with that token afterwards, or
 *                  still among the readers (a row lock's row may stay in a run with faults: it is
 *                  not the lock)
 *   row-slots      the row of a name with slots has a holder, which only its slots have
 *   row-dead       a lease of a dead process runs for longer than its TTL + 1 s since the death
 * Fenced writes
 *   write-order    in the order of the commits a token went down
 *   write-owner    two owners that held it alone wrote with the same token
 *   write-lost     acknowledged, but not in the table
 *   write-refused  refused, but in the table
 *   write-late     accepted by rowlock_fence() though somebody with a higher token had been told,
 *                  before the transaction began, that it has the lock
 * Waiting
 *   wait-bound     an acquire took longer than its wait
 *   wait-served    a waiter did not acquire though the lock had been free
 *   wait-order     a lease went to a process that had asked after a waiter stood in the queue (only
 *                  in runs without faults, without polling, and with all holders releasing). A
 *                  reader may overtake readers, and also a writer until that has closed the name
 *                  for readers. Names with slots have one queue: a waiter for one slot may not
 *                  overtake a waiter for several
 * Latch (status and wait-bound apply to its calls, too)
 *   latch-early    a generation was open, for a process that waited or asked, or in its row, though
 *                  fewer counts than it takes had been begun (with OK or without an answer; equal
 *                  keys count once)
 *   latch-fate     one generation was open for one process and broken for another; or somebody has
 *                  counted in it, or joined it, after it was known to be broken
 *   latch-broken   it was broken, not by an operator, though each member has counted, or was
 *                  neither dead nor kept from renewing; or though all had counted by then
 *   latch-set      a generation was given twice, in the wrong order, or before the last one had
 *                  ended
 *   latch-stuck    somebody waited for one in which all had counted; or the probe failed: it sets,
 *                  counts, waits, and waits for one of which a member dies
 *   count-lost     counted with OK, but not in the table while the latch is closed
 *   count-more     more counts in the table than can have been made
 * Barrier
 *   barrier-torn   a generation that a process has entered has, by then, fewer or more members than
 *                  it takes, two with one place, or one with an impossible place (except those that
 *                  entered within the second before a crash of the server)
 *   barrier-twice  a process is in a generation twice, or later in an earlier one
 *   barrier-early  a member left though not all members had called leave
 *   barrier-lost   leave answered LOST though no member died, went before it was ready, or was kept
 *                  from renewing, and nobody broke it
 *   barrier-stuck  the probes, as many as it takes, did not enter and leave
 * Leaders (a leader holds a lease alone, and has published a value)
 *   leader-value   a leader was seen with a value that no holder with that token had published yet
 *   leader-two     ... after somebody with a higher token had been told that it has the lease, or
 *                  after the leader's release had returned
 *   leader-back    ... with a lower token than a leader that was seen before
 *   leader-late    ... with a value that the same holder had replaced by another one
 *   leader-missed  no leader was seen, or another one, though one certainly led before and
 *                  afterwards, and changed nothing meanwhile. (Not across a break, or a step of the
 *                  clock.)
 * Once in a period (a job is work that is done, and recorded as done, in one transaction)
 *   once-two       a period has the work of two jobs, or two attempts were told that it is done
 *   once-work      a period is done by an attempt that did not say so, or whose work is missing; or
 *                  is not done, and has a job's work; or has failed, though nobody said so
 *   once-lost      the ledger does not have what was begun, done or failed with OK
 *   once-refused   told LOST, though the attempt is the last one, and has not ended
 *   once-again     begun though it was known to be done, or though the ledger shows that
 *   once-late      begun after somebody with a higher token had been told that it has the lease
 *   once-attempts  more attempts than allowed, fewer than were begun, or more than can have been;
 *                  or a later one has no higher number
 *   once-token     the ledger's token went down, or two periods were begun with one token
 *   once-answer    told that it is done, or its attempts used up, which is impossible
 * Queue (status and wait-bound apply to its calls, too)
 *   item-token     an item was taken twice with one token, or later with a lower one
 *   item-attempts  the attempts of its takers do not rise, or are more than it may have, or than
 *                  there can have been
 *   item-two       two workers were told "still yours" of one item for the same moment
 *   item-early     taken by another worker before the time was over that its taker was promised,
 *                  though that one had not given it up
 *   item-group     likewise of two items of one group
 *   item-order     taken though an item of its group that was put before had not ended
 *   item-ghost     taken, but never put, or the put was rolled back or refused
 *   item-twice     put once, and there as two items
 *   item-ready     taken before the time at which the put or the retry made it ready
 *   item-key       put twice with one key though the first had not ended; or the put was told of an
 *                  item that had ended, or has no key
 *   item-again     taken, or ended, though it was known to have ended
 *   item-late      ended or given back with OK after somebody with a higher token had been told
 *                  that it has it
 *   item-work      the work of a job (in one transaction with its done) is there twice; is missing,
 *                  though it was acknowledged; or is there, though it was not
 *   item-refused   told LOST before its time was over
 *   item-back      the token in its row went down
 *   item-kept      there, though it was known to have ended; or leased by a dead process for longer
 *                  than its TTL + 1 s since the death
 *   item-dead      dead, though attempts were left and nobody had made it so
 *   item-lost      put with OK, or taken, but missing at the end, though nobody can have ended it
 *   item-stuck     left after all were taken at the end; or a wait got nothing while an item was
 *                  ready that nobody else can have taken
 * Ends
 *   status         a call had a status for which the run has no cause
 *   hung           a process did not end when told to, though no fault was left
 *   exit           a process crashed, or ended otherwise than it was made to
 *
 * An event may be later than promised by the figures below, and by LATE_TIMES the longest time by
 * which, meanwhile, a thread of the driver that was ready to run, or a small commit on a connection
 * of its own, was late (a loaded machine is no fault of the lock's).
 */
#ifndef RUNS_CHECKER_H
#define RUNS_CHECKER_H

#include "model.h"

enum {
    SECOND = 1000000,
    LATE_TIMES = 4,
    LATE_ROW = 1500000,       /* see row-two */
    SLACK_WAIT = 1000000,     /* wait-bound */
    SLACK_TRY = 4000000,      /* ... of a try, which may have to settle a lost reply */
    SERVED = 3000000,         /* wait-served, without faults */
    SERVED_STOPPED = 5000000, /* more, if somebody in the queue was stopped: others look every
                                 4 s */
    QUEUED = 250000,          /* a waiter is in the queue so long after it asked for its place */
    REOPENS = 250000,         /* a writer that gives up opens the name for readers within */
    CLOSED = 10000000,        /* how long a dead next writer keeps readers out */
    CLOCK_RATE = MODEL_CLOCK_RATE
};

typedef struct verdict {
    unsigned violations;
    char rules[300]; /* the broken ones, " token-once row-back " */
} verdict;

/* Prints each violation to `out`, a line each. */
verdict check(const model *m, FILE *out);
bool verdict_has(const verdict *v, const char *rule);

#endif
