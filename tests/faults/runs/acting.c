/* The common part of all processes of a run, on one server or on several. */
#include "actor.h"

#include <poll.h>
#include <time.h>

void actor_pass_ms(int64_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

bool actor_told_to_stop(void)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&in, 1, 0) == 1;
}

void actor_on_lost(void *data, rowlock_hold *hold, const char *reason)
{
    const actor *a = data;
    (void)hold;
    (void)reason;
    history_log(&a->log, "lost");
}

bool actor_open(actor *a, const rowlock_client_options *options)
{
    rowlock_error err = {0};
    if (!a->client && rowlock_client_open(options, &a->client, &err) != ROWLOCK_OK)
        a->client = NULL;
    return a->client != NULL;
}

bool actor_still_ours(const actor *a)
{
    const int64_t from = history_now();
    /* In this order, so that the remaining time was promised while it was still held. */
    const int64_t remaining_ms = rowlock_hold_remaining_ms(a->hold);
    const rowlock_status status = rowlock_hold_check(a->hold);
    history_log(&a->log, "checked from=%" PRId64 " status=%s remaining=%" PRId64, from,
                rowlock_status_name(status), remaining_ms * 1000);
    return status == ROWLOCK_OK;
}

void actor_release(actor *a)
{
    rowlock_error err = {0};
    history_log(&a->log, "release");
    const rowlock_status status = rowlock_release(a->hold, &err);
    a->hold = NULL;
    history_log(&a->log, "released status=%s server=%u", rowlock_status_name(status),
                err.server_errno);
}

void actor_close(actor *a)
{
    if (a->hold)
        history_log(&a->log, "release");
    rowlock_client_close(a->client);
    if (a->hold)
        history_log(&a->log, "released status=UNKNOWN");
    a->client = NULL;
    a->hold = NULL;
}

_Noreturn void actor_quit(actor *a)
{
    history_log(&a->log, "quit");
    _exit(0);
}

int64_t actor_wait_ms(actor *a)
{
    switch (dice_roll(&a->dice, 3)) {
    case 0:
        return 0;
    case 1:
        return dice_between(&a->dice, 50, 400);
    default:
        return dice_between(&a->dice, 1000, 4000);
    }
}
