#include "base/budget.h"

#include <errno.h>
#include <poll.h>
#include <time.h>

static struct timespec timespec_of(int64_t us)
{
    return (struct timespec){.tv_sec = us / 1000000, .tv_nsec = (us % 1000000) * 1000};
}

/* self: the rowlock_cancel, or NULL. */
static rl_waited wait_on_poll(void *self, int fd, short events, short *revents, int64_t until_us)
{
    rowlock_cancel *cancel = self;
    struct pollfd fds[2] = {{.fd = fd, .events = events},
                            {.fd = cancel ? cancel->fd : -1, .events = POLLIN}};
    for (;;) {
        int64_t left = until_us == RL_NEVER ? RL_NEVER : until_us - rl_now_us();
        if (left < 0)
            left = 0;
        struct timespec timeout = timespec_of(left);
        int n = ppoll(fds, 2, until_us == RL_NEVER ? NULL : &timeout, NULL);
        if (n > 0 && fds[0].revents) {
            if (revents)
                *revents = fds[0].revents;
            return RL_READY;
        }
        if (n > 0 && fds[1].revents)
            return RL_CANCELLED;
        if (n == 0 || (n < 0 && errno != EINTR))
            return RL_EXPIRED;
    }
}

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
    return (rl_io){.wait = wait_on_poll, .self = budget->cancel, .deadline_us = deadline};
}

rl_io rl_budget_change_io(const rl_budget *budget, bool patient)
{
    rl_io io = rl_budget_quick_io(budget);
    int64_t soon = rl_time_add(rl_now_us(), RL_TRY_US);
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
