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
} rl_total;

/* A hash table by id, with open addressing: a slot with the id 0 is free. */
typedef struct rl_totals {
    rl_total *slots;
    size_t capacity; /* a power of two; 0: no slots yet */
    size_t count;
    uint64_t holds;    /* of all of them */
    uint64_t identity; /* of the server whose ids these are */
} rl_totals;

/* False: no memory, or too many names; nothing was added. */
bool rl_totals_add(rl_totals *totals, const rl_total *more);

void rl_totals_free(rl_totals *totals);

/* The parameter of total_add_many. */
void rl_totals_json(const rl_totals *totals, rl_buffer *json);

#endif
