#include "keep/held.h"

#define MARGIN_MIN_US 20000
#define MARGIN_MAX_US 1000000
#define LOOK_MOST_US  10000000
#define DRIFT_PART    2000 /* two clocks may differ by one part in so many: 500 ppm */

int64_t rl_margin_us(int64_t ttl_us)
{
    int64_t margin = ttl_us / 10;
    if (margin < MARGIN_MIN_US)
        margin = MARGIN_MIN_US;
    if (margin > MARGIN_MAX_US)
        margin = MARGIN_MAX_US;
    return margin < ttl_us / DRIFT_PART ? ttl_us / DRIFT_PART : margin;
}

static int64_t deadline_of(const rl_held *held, int64_t sent_us, int64_t ttl_us)
{
    return sent_us + ttl_us - rl_margin_us(held->ttl_us);
}

void rl_held_start(rl_held *held, int64_t sent_us, int64_t ttl_us)
{
    atomic_store(&held->deadline_us, deadline_of(held, sent_us, ttl_us));
    held->next_beat_us = sent_us + held->ttl_us / 3;
    held->renewed_us = sent_us;
}

int64_t rl_held_next_look(const rl_held *held, int64_t now)
{
    return now + rl_earlier(held->ttl_us / 3, LOOK_MOST_US);
}

/* Either its holder finds it over, or the keeper prolongs it: the first to write decides. */
bool rl_held_over(rl_held *held)
{
    int_fast64_t deadline = atomic_load(&held->deadline_us);
    while (deadline && rl_now_us() >= deadline)
        if (atomic_compare_exchange_weak(&held->deadline_us, &deadline, 0))
            return true;
    return deadline == 0;
}

static void note_gap(rl_held *held, int64_t sent_us)
{
    if (sent_us - held->renewed_us > held->gap_us)
        held->gap_us = sent_us - held->renewed_us;
    held->renewed_us = sent_us;
}

bool rl_held_prolong(rl_held *held, int64_t sent_us, int64_t ttl_us)
{
    int_fast64_t was = atomic_load(&held->deadline_us);
    held->next_beat_us = sent_us + held->ttl_us / 3;
    while (was && rl_now_us() < was)
        if (atomic_compare_exchange_weak(&held->deadline_us, &was,
                                         deadline_of(held, sent_us, ttl_us))) {
            note_gap(held, sent_us);
            return true;
        }
    return false;
}

void rl_held_put_first(rl_held_list *list, rl_held *held)
{
    held->list = list;
    held->previous = NULL;
    held->next = list->first;
    if (list->first)
        list->first->previous = held;
    else
        list->last = held;
    list->first = held;
}

void rl_held_put_last(rl_held_list *list, rl_held *held)
{
    held->list = list;
    held->next = NULL;
    held->previous = list->last;
    if (list->last)
        list->last->next = held;
    else
        list->first = held;
    list->last = held;
}

void rl_held_take_out(rl_held *held)
{
    rl_held_list *list = held->list;
    if (held->previous)
        held->previous->next = held->next;
    else
        list->first = held->next;
    if (held->next)
        held->next->previous = held->previous;
    else
        list->last = held->previous;
    held->next = held->previous = NULL;
    held->list = NULL;
}
