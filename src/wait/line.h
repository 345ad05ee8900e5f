/*
 * wait/line.h - threads of one client that wait for the same lock stand in line here, and one
 * of them waits at the server. First come, first served.
 */
#ifndef RL_WAIT_LINE_H
#define RL_WAIT_LINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/budget.h"

#define RL_LINE_BUCKETS 64

/* One call's place; in the caller's frame, zeroed before it is used. */
typedef struct rl_place {
    uint64_t key;
    struct rl_place *next; /* later in the same bucket */
    struct rl_place *previous;
    int fd; /* an eventfd, written when it is this one's turn; -1: it was the first */
    bool in_line;
} rl_place;

typedef struct rl_lines {
    pthread_mutex_t mutex;
    struct {
        rl_place *first;
        rl_place *last;
        atomic_uint_fast64_t
            sought; /* the last key that a call stood in line for; 0: for too short a time */
    } buckets[RL_LINE_BUCKETS];
} rl_lines;

rowlock_status rl_lines_init(rl_lines *lines, rowlock_error *err) RL_MUST_USE;
void rl_lines_destroy(rl_lines *lines, bool forked);

/*
 * Stands in line for `key` (or stays in it) until this place is the first. TIMEOUT, CANCELLED: out
 * of the line again; SYSTEM. BUSY: still in line at `until_us` (RL_NEVER: no such time).
 */
rowlock_status rl_line_stand(rl_lines *lines, uint64_t key, const rl_budget *budget,
                             int64_t until_us, rl_place *place, rowlock_error *err) RL_MUST_USE;

/*
 * Is it likely that one has to wait for `key` (not 0)? A thread of this client stands in line for
 * it, or the last one that did had to wait. A guess: another key may have taken its place.
 */
bool rl_line_likely(rl_lines *lines, uint64_t key);

/* What the last call for it has seen: it had to wait, or need not have stood in line at all. */
void rl_line_note(rl_lines *lines, uint64_t key, bool waited);

/* Leaves the line: it is the next one's turn. Does nothing for a place that is in no line. */
void rl_line_leave(rl_lines *lines, rl_place *place);

#endif
