/*
 * base/budget.h - how long a call may take, and what may cancel it; and the only function that
 * waits for a descriptor.
 */
#ifndef RL_BUDGET_H
#define RL_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/error.h"
#include "rowlock/rowlock.h"

struct rowlock_cancel {
    int fd; /* eventfd, readable once fired; a child's is the same one */
    pid_t pid;
    atomic_bool fired;
};

typedef enum rl_waited { RL_READY, RL_EXPIRED, RL_CANCELLED } rl_waited;

/*
 * How a statement waits. The keeper has its own way, which serves its other
 * connections meanwhile.
 */
typedef struct rl_io {
    /* Waits until fd (-1: none) has one of the poll events, or until_us. */
    rl_waited (*wait)(void *self, int fd, short events, short *revents, int64_t until_us);
    void *self;
    int64_t deadline_us;
    bool abrupt; /* break off at the deadline, without having the statement stopped: it changes
                    nothing that matters, and there is no time */
} rl_io;

/*
 * Milliseconds for poll(), rounded up; a second at most, so the caller looks whether the time has
 * come, and polls again. -1 for RL_NEVER. Not for ppoll(), which is dearer, and wrong for a process
 * that is stopped (SIGSTOP) and continued: Linux then waits anew for what was left at the stop,
 * where poll() ends at the time that it was to end.
 */
int rl_poll_ms(int64_t until_us);

/* The time that one public call has, and what cancels it. */
typedef struct rl_budget {
    int64_t start_us;
    int64_t deadline_us; /* of the waiting; start_us for a try, RL_NEVER for ever */
    int64_t limit_us;    /* for one exchange with a server that does not answer */
    bool try_once;
    bool abrupt; /* its exchanges are (see rl_io) */
    rowlock_cancel *cancel;
} rl_budget;

/* How long a statement that is under way may go on past the deadline before it is stopped. With
 * STOPPED_GRACE_US (db/exchange.c) that keeps the promise that a wait ends within 100 ms. */
#define RL_GRACE_US 25000
/* How long a try waits for a row that is being changed, beyond the time in which the server answers
 * anyway. */
#define RL_TRY_US   80000

rl_budget rl_budget_start(int64_t wait_ms, int64_t limit_ms, rowlock_cancel *cancel);

/* For a statement that may have to wait for a lock: ends exactly at the deadline. */
rl_io rl_budget_lock_io(const rl_budget *budget);

/*
 * For a statement that the server answers at once: time to finish near the deadline,
 * since breaking it off would leave its effect unknown.
 */
rl_io rl_budget_quick_io(const rl_budget *budget);

/*
 * For a change of a row that a fenced transaction may have locked. A try waits for that for
 * RL_TRY_US beyond `answer_us`, in which the server answers anyway. That may also end a change on a
 * server that is merely slow: look then, and if nobody has the row, ask again with `patient`, which
 * waits as any other change.
 */
rl_io rl_budget_change_io(const rl_budget *budget, bool patient, int64_t answer_us);

/* Sleeps; RL_READY when the time is over, else why it ended early. */
rl_waited rl_budget_sleep(const rl_budget *budget, int64_t us);

/* For work that no call waits for: ends at the deadline only. */
rl_io rl_io_until(int64_t deadline_us);

/* How long one exchange may take that is to be over before the call's deadline is; at least 1. */
int64_t rl_budget_left_ms(const rl_budget *budget);

bool rl_budget_spent(const rl_budget *budget);
bool rl_budget_cancelled(const rl_budget *budget);

#endif
