/*
 * keep/journal.h - the history, written behind: events wait in a bounded queue, totals are added
 * up, and the keeper writes many at a time.
 */
#ifndef RL_KEEP_JOURNAL_H
#define RL_KEEP_JOURNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "db/pool.h"
#include "keep/totals.h"

#define RL_UNKNOWN_MS (-1)

/* Strings are copied. */
typedef struct rl_event {
    const char *name;
    const char *kind;
    const char *event;
    uint64_t version;
    const char *owner;
    const char *label;
    int64_t at_us;     /* when it happened (rl_now_us()); 0: now */
    int64_t waited_ms; /* RL_UNKNOWN_MS: not known */
    int64_t held_ms;
    bool has_exit_status;
    int exit_status;
    const char *detail; /* may be NULL */
} rl_event;

typedef struct rl_journal_entry rl_journal_entry;

/* How far behind the writing is. What was added first is settled first. */
typedef struct rl_behind {
    uint64_t added;
    uint64_t settled; /* of those: written, or given up */
    uint64_t wanted;  /* a flush waits until so many are settled: they are urgent */
} rl_behind;

typedef struct rl_journal {
    pthread_mutex_t mutex;
    pthread_cond_t written_more;
    rl_journal_entry *first;
    rl_journal_entry **last;
    size_t count;
    int64_t events_due_us; /* when they are written; not sooner, lest each be a write of its own */
    rl_totals totals;
    int64_t totals_due_us;
    rl_behind events;
    rl_behind holds;  /* in the totals */
    uint64_t dropped; /* of both: given up, they are not in a table */
    uint64_t logged;  /* of the dropped: the log has them */
    uint64_t told;    /* of the dropped: a flush said so */
    bool off;
    int64_t least_us; /* a shorter hold makes no events, if it was just acquired and released */
} rl_journal;

rowlock_status rl_journal_init(rl_journal *journal, bool off, int64_t least_us,
                               rowlock_error *err) RL_MUST_USE;
void rl_journal_destroy(rl_journal *journal, bool forked);

/*
 * Never fails: without memory, or with a full queue, the event is counted as dropped.
 * Returns true when the keeper may be asleep over it: wake it.
 */
bool rl_journal_add(rl_journal *journal, const rl_event *event);

/* The same of a hold that has ended; `identity`: of the server that granted it. */
bool rl_journal_count(rl_journal *journal, uint64_t identity, const rl_total *total);

/* When there is something to write next; RL_NEVER: not before something is added. */
int64_t rl_journal_due_us(rl_journal *journal);

/*
 * Writes one batch of events, and the totals when they are due. OK also when there is nothing, and
 * when all was written but what the server refuses: that is dropped, lest it block the queue.
 */
rowlock_status rl_journal_write(rl_journal *journal, rl_pool *pool, const rl_io *io,
                                rowlock_error *err) RL_MUST_USE;

/* Somebody is going to wait for it: do not gather any longer. Then wake the keeper. */
void rl_journal_hurry(rl_journal *journal);

/*
 * Waits until everything added so far is settled; false when the deadline comes first.
 * `dropped`: how many events were given up since the last wait that said so.
 */
bool rl_journal_wait(rl_journal *journal, int64_t deadline_us, uint64_t *dropped);

/* A warning about events that were dropped since the last one. */
void rl_journal_log_dropped(rl_journal *journal, const rl_log *log);

#endif
