/* keep/totals.h - how often and for how long names were held, added up until it is written. */
#ifndef RL_KEEP_TOTALS_H
#define RL_KEEP_TOTALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text.h"

/* Of one name. */
typedef struct rl_total {
    uint64_t id; /* the resource's */
    uint64_t holds;
    uint64_t lost;
    uint64_t taken_over;
    int64_t waited_us;
    int64_t waited_most_us;
    int64_t held_us;
    int64_t held_most_us;
    uint64_t failed;
    uint64_t refused;
    /* The last success and the last failure, by rl_now_us(); 0: none. */
    int64_t ok_at_us;
    int64_t ok_us; /* how long it was held */
    int64_t bad_at_us;
    bool bad_has_exit;
    int bad_exit;
    int64_t gap_us;    /* the longest time between two renewals ... */
    uint64_t gap_part; /* ... and in thousandths of the TTL */
} rl_total;

/* Of how many calls it tells. */
static inline uint64_t rl_total_calls(const rl_total *total)
{
    return total->holds + total->refused;
}

/* A hash table by id, with open addressing: a slot with the id 0 is free. */
typedef struct rl_totals {
    rl_total *slots;
    size_t capacity; /* a power of two; 0: no slots yet */
    size_t count;
    uint64_t calls;    /* of which all of them tell */
    uint64_t identity; /* of the server whose ids these are */
} rl_totals;

/* False: no memory, or too many names; nothing was added. */
bool rl_totals_add(rl_totals *totals, const rl_total *more);

void rl_totals_free(rl_totals *totals);

/* The parameter of total_add_many, at `now_us`. */
void rl_totals_json(const rl_totals *totals, int64_t now_us, rl_buffer *json);

#endif
