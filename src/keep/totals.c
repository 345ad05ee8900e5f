#include "keep/totals.h"

#include <stdlib.h>

#define NAMES_LEAST 16   /* room at first */
#define NAMES_MOST  4096 /* in one statement, whose parameter stays small */

static rl_total *find_slot(rl_total *slots, size_t capacity, uint64_t id)
{
    /* Ids are given one after the other: their low bits spread them. */
    size_t i = id & (capacity - 1);
    while (slots[i].id != 0 && slots[i].id != id)
        i = (i + 1) & (capacity - 1);
    return &slots[i];
}

/* At most half of the slots are in use. */
static bool make_room(rl_totals *totals)
{
    if (2 * totals->count < totals->capacity)
        return true;
    size_t capacity = totals->capacity ? 2 * totals->capacity : NAMES_LEAST;
    rl_total *slots = capacity > 2 * NAMES_MOST ? NULL : calloc(capacity, sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < totals->capacity; i++)
        if (totals->slots[i].id != 0)
            *find_slot(slots, capacity, totals->slots[i].id) = totals->slots[i];
    /* The child of a fork() at any moment must find a pointer that it can free. */
    rl_total *old = totals->slots;
    totals->slots = slots;
    totals->capacity = capacity;
    free(old);
    return true;
}

static int64_t greater(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* The later one counts. */
static void add_outcomes(rl_total *total, const rl_total *more)
{
    if (more->ok_at_us > total->ok_at_us) {
        total->ok_at_us = more->ok_at_us;
        total->ok_us = more->ok_us;
    }
    if (more->bad_at_us > total->bad_at_us) {
        total->bad_at_us = more->bad_at_us;
        total->bad_has_exit = more->bad_has_exit;
        total->bad_exit = more->bad_exit;
    }
}

bool rl_totals_add(rl_totals *totals, const rl_total *more)
{
    rl_total *total = NULL;
    if (totals->capacity)
        total = find_slot(totals->slots, totals->capacity, more->id);
    if ((!total || total->id == 0) && !make_room(totals))
        return false;
    total = find_slot(totals->slots, totals->capacity, more->id);
    totals->count += total->id == 0;
    totals->calls += rl_total_calls(more);
    total->id = more->id;
    total->holds += more->holds;
    total->lost += more->lost;
    total->taken_over += more->taken_over;
    total->waited_us += more->waited_us;
    total->waited_most_us = greater(total->waited_most_us, more->waited_most_us);
    total->held_us += more->held_us;
    total->held_most_us = greater(total->held_most_us, more->held_most_us);
    total->failed += more->failed;
    total->refused += more->refused;
    /* Of one hold, both: the one that came nearest to its end. */
    if (more->gap_part > total->gap_part) {
        total->gap_us = more->gap_us;
        total->gap_part = more->gap_part;
    }
    add_outcomes(total, more);
    return true;
}

void rl_totals_free(rl_totals *totals)
{
    rl_total *old = totals->slots;
    *totals = (rl_totals){0};
    free(old);
}

static void add_number(rl_buffer *json, int64_t value, bool absent)
{
    rl_buffer_puts(json, ",");
    if (absent)
        rl_buffer_puts(json, "null");
    else
        rl_json_i64(json, value);
}

static void total_json(rl_buffer *json, const rl_total *total, int64_t now_us)
{
    const uint64_t counts[] = {total->holds, total->lost, total->taken_over};
    const int64_t times[] = {total->waited_us, total->waited_most_us, total->held_us,
                             total->held_most_us};
    rl_buffer_puts(json, json->length ? ",[" : "[[");
    rl_json_u64(json, total->id);
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        rl_buffer_puts(json, ",");
        rl_json_u64(json, counts[i]);
    }
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        add_number(json, times[i], false);
    add_number(json, (int64_t)total->failed, false);
    add_number(json, (int64_t)total->refused, false);
    add_number(json, now_us - total->ok_at_us, total->ok_at_us == 0);
    add_number(json, total->ok_us, total->ok_at_us == 0);
    add_number(json, now_us - total->bad_at_us, total->bad_at_us == 0);
    add_number(json, total->bad_exit, !total->bad_has_exit);
    add_number(json, total->gap_us, false);
    add_number(json, (int64_t)total->gap_part, false);
    rl_buffer_puts(json, "]");
}

void rl_totals_json(const rl_totals *totals, int64_t now_us, rl_buffer *json)
{
    for (size_t i = 0; i < totals->capacity; i++)
        if (totals->slots[i].id != 0)
            total_json(json, &totals->slots[i], now_us);
    rl_buffer_puts(json, "]");
}
