#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/options.h"
#include "base/budget.h"

rowlock_status rowlock_cancel_new(rowlock_cancel **cancel, rowlock_error *err)
{
    RL_TRY(rl_place_check(cancel, "the result", err));
    rowlock_cancel *made = calloc(1, sizeof *made);
    if (!made)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    made->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (made->fd < 0) {
        free(made);
        return rl_fail(err, ROWLOCK_SYSTEM, "the system has no descriptor left");
    }
    made->pid = getpid();
    *cancel = made;
    return ROWLOCK_OK;
}

void rowlock_cancel_free(rowlock_cancel *cancel)
{
    if (!cancel)
        return;
    close(cancel->fd);
    free(cancel);
}

/* A child shares the descriptor with its parent, whose calls it must not end. */
static bool is_ours(const rowlock_cancel *cancel)
{
    return cancel && cancel->pid == getpid();
}

/* getpid(), an atomic store and a write(): async-signal-safe. */
void rowlock_cancel_fire(rowlock_cancel *cancel)
{
    if (!is_ours(cancel))
        return;
    atomic_store(&cancel->fired, true);
    uint64_t one = 1;
    ssize_t ignored = write(cancel->fd, &one, sizeof one);
    (void)ignored;
}

void rowlock_cancel_reset(rowlock_cancel *cancel)
{
    if (!is_ours(cancel))
        return;
    eventfd_t ignored;
    eventfd_read(cancel->fd, &ignored);
    atomic_store(&cancel->fired, false);
}
