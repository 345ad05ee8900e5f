/* A process at a barrier: enters, works, leaves; or goes without leaving. */
#include "actor.h"
#include "rowlock/rowlock_barrier.h"

enum { PROBE_MS = 10000 };

static rowlock_status enter(actor *a, int64_t wait_ms)
{
    const rowlock_barrier_options options = {
        .wait_ms = wait_ms, .ttl_ms = a->ttl_ms, .on_lost = actor_on_lost, .on_lost_data = a};
    rowlock_error err = {0};
    history_log(&a->log, "call verb=enter wait=%" PRId64, wait_ms * 1000);
    rowlock_status status =
        rowlock_barrier_enter(a->client, a->lock, a->members, &options, &a->hold, &err);
    if (status != ROWLOCK_OK) {
        a->hold = NULL;
        actor_back(a, status, 0);
        return status;
    }
    a->token = rowlock_hold_token(a->hold);
    history_log(&a->log, "back status=OK generation=%" PRIu64 " place=%u", a->token,
                rowlock_hold_slot(a->hold));
    return status;
}

static rowlock_status leave(actor *a, int64_t wait_ms)
{
    history_log(&a->log, "call verb=leave asked=%" PRIu64 " wait=%" PRId64, a->token,
                wait_ms * 1000);
    rowlock_status status = rowlock_barrier_leave(a->hold, wait_ms, NULL, NULL);
    actor_back(a, status, 0);
    return status;
}

static void release(actor *a)
{
    history_log(&a->log, "call verb=release asked=%" PRIu64, a->token);
    rowlock_status status = rowlock_release(a->hold, NULL);
    a->hold = NULL;
    actor_back(a, status, 0);
}

static void close_client(actor *a)
{
    history_log(&a->log, "call verb=release asked=%" PRIu64, a->token);
    rowlock_client_close(a->client);
    a->client = NULL;
    a->hold = NULL;
    actor_back(a, ROWLOCK_UNKNOWN, 0);
}

static void work_for(actor *a, int64_t ms)
{
    const int64_t end = history_now() + ms * 1000;
    while (rowlock_hold_check(a->hold) == ROWLOCK_OK && history_now() < end &&
           !actor_told_to_stop())
        actor_pass_ms(dice_between(&a->dice, 3, 20));
}

static int64_t how_long(actor *a)
{
    switch (dice_roll(&a->dice, 8)) {
    case 0:
        return 0;
    case 1:
    case 2:
    case 3:
        return dice_between(&a->dice, 20, 300);
    default:
        return dice_between(&a->dice, 1000, 3000);
    }
}

static void leave_or_not(actor *a)
{
    unsigned roll = dice_roll(&a->dice, 100);
    if (roll < 4)
        actor_quit(a);
    if (roll < 8) {
        close_client(a);
        return;
    }
    if (roll >= 14 && leave(a, how_long(a)) == ROWLOCK_TIMEOUT && roll >= 40)
        (void)!leave(a, 2000);
    release(a);
}

void barrier_cycle(actor *a)
{
    if (!actor_open_client(a)) {
        actor_pass_ms(100);
        return;
    }
    if (enter(a, how_long(a)) != ROWLOCK_OK) {
        actor_pass_ms(dice_between(&a->dice, 0, 40));
        return;
    }
    work_for(a, dice_between(&a->dice, 0, dice_roll(&a->dice, 10) ? 40 : a->ttl_ms));
    leave_or_not(a);
    actor_pass_ms(dice_between(&a->dice, 0, 30));
}

/*
 * Run by as many probes at once as the barrier takes. If a dead member had entered, they leave and
 * enter again.
 */
void barrier_probe(actor *a)
{
    const int64_t end = history_now() + 2 * PROBE_MS * 1000;
    rowlock_status status = ROWLOCK_LOST;
    while (status != ROWLOCK_OK && history_now() < end) {
        status = enter(a, (end - history_now()) / 1000);
        if (status != ROWLOCK_OK)
            continue;
        status = leave(a, PROBE_MS);
        release(a);
    }
}
