#include "base/budget.h"

#include <errno.h>
#include <poll.h>

/* poll()'s clock stands still while the machine is suspended, and ours does not: whoever waits
 * looks at ours so often. */
#define POLL_MOST_MS 1000

int rl_poll_ms(int64_t until_us)
{
    if (until_us == RL_NEVER)
        return -1;
    int64_t left_us = until_us - rl_now_us();
    if (left_us <= 0)
        return 0;
    int64_t left_ms = (left_us + 999) / 1000;
    return left_ms < POLL_MOST_MS ? (int)left_ms : POLL_MOST_MS;
}

/* self: the rowlock_cancel, or NULL. */
static rl_waited wait_on_poll(void *self, int fd, short events, short *revents, int64_t until_us)
{
    rowlock_cancel *cancel = self;
    struct pollfd fds[2] = {{.fd = fd, .events = events},
                            {.fd = cancel ? cancel->fd : -1, .events = POLLIN}};
    for (;;) {
        int n = poll(fds, cancel ? 2 : 1, rl_poll_ms(until_us));
        if (n > 0 && fds[0].revents) {
            if (revents)
                *revents = fds[0].revents;
            return RL_READY;
        }
        if (n > 0 && fds[1].revents)
            return RL_CANCELLED;
        if ((n == 0 && rl_now_us() >= until_us) || (n < 0 && errno != EINTR))
            return RL_EXPIRED;
    }
}

/* ----------------------------------------------------------------------- the budget */

rl_budget rl_budget_start(int64_t wait_ms, int64_t limit_ms, rowlock_cancel *cancel)
{
    rl_budget budget = {.start_us = rl_now_us(),
                        .limit_us = limit_ms * 1000,
                        .try_once = wait_ms == 0,
                        .cancel = cancel};
    budget.deadline_us = wait_ms < 0 || wait_ms > INT64_MAX / 1000
                             ? RL_NEVER
                             : rl_time_add(budget.start_us, wait_ms * 1000);
    return budget;
}

rl_io rl_budget_lock_io(const rl_budget *budget)
{
    if (budget->try_once)
        return rl_budget_quick_io(budget);
    return (rl_io){
        .wait = wait_on_poll, .self = budget->cancel, .deadline_us = budget->deadline_us};
}

rl_io rl_budget_quick_io(const rl_budget *budget)
{
    int64_t now = rl_now_us();
    int64_t deadline = rl_time_add(now, budget->limit_us);
    if (!budget->try_once && budget->deadline_us != RL_NEVER) {
        int64_t end = budget->deadline_us > now ? budget->deadline_us : now;
        if (end + RL_GRACE_US < deadline)
            deadline = end + RL_GRACE_US;
    }
    return (rl_io){.wait = wait_on_poll,
                   .self = budget->cancel,
                   .deadline_us = deadline,
                   .abrupt = budget->abrupt};
}

int64_t rl_budget_left_ms(const rl_budget *budget)
{
    int64_t left_ms = budget->deadline_us == RL_NEVER ? budget->limit_us / 1000
                                                      : (budget->deadline_us - rl_now_us()) / 1000;
    if (left_ms < 1)
        return 1;
    return left_ms < budget->limit_us / 1000 ? left_ms : budget->limit_us / 1000;
}

rl_io rl_budget_change_io(const rl_budget *budget, bool patient, int64_t answer_us)
{
    rl_io io = rl_budget_quick_io(budget);
    int64_t soon = rl_time_add(rl_now_us(), RL_TRY_US + answer_us);
    if (budget->try_once && !patient && soon < io.deadline_us)
        io.deadline_us = soon;
    return io;
}

rl_waited rl_budget_sleep(const rl_budget *budget, int64_t us)
{
    int64_t until = rl_time_add(rl_now_us(), us);
    int64_t end = until < budget->deadline_us ? until : budget->deadline_us;
    if (wait_on_poll(budget->cancel, -1, 0, NULL, end) == RL_CANCELLED)
        return RL_CANCELLED;
    return end == until ? RL_READY : RL_EXPIRED;
}

rl_io rl_io_until(int64_t deadline_us)
{
    return (rl_io){.wait = wait_on_poll, .self = NULL, .deadline_us = deadline_us};
}

bool rl_budget_spent(const rl_budget *budget)
{
    return budget->deadline_us != RL_NEVER && rl_now_us() >= budget->deadline_us;
}

bool rl_budget_cancelled(const rl_budget *budget)
{
    return budget->cancel && atomic_load(&budget->cancel->fired);
}
