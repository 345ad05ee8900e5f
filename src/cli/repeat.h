/*
 * cli/repeat.h - `rowlock run` again and again, each time in a process of its own, since a run that
 * loses its lock or gets a signal ends its process.
 */
#ifndef RL_CLI_REPEAT_H
#define RL_CLI_REPEAT_H

#include <signal.h>

#include "run.h"

typedef struct repeat {
    run_options *options;
    const char *command; /* our command's name, for the message about missing rights */
    /* Called when a run has ended. True: another one follows, after *pause_us. */
    bool (*again)(void *data, const run_report *report, int exit_status, int64_t *pause_us);
    void *data;
    bool hands_over; /* a signal that would end us becomes SIGTERM for the command, and is no
                        failure: another host takes over */
} repeat;

/* The signals of a process without threads that waits for others. All that would end it, SIGUSR1,
 * SIGUSR2 and SIGCHLD are blocked, and read with sigtimedwait(); none has a handler. SIGPIPE is
 * ignored. */
typedef struct repeat_signals {
    sigset_t before, waited;
    struct sigaction child_before, pipe_before;
} repeat_signals;

void repeat_signals_block(repeat_signals *self);
/* Restores the signals, for a child process with another job. */
void repeat_signals_give_back(const repeat_signals *self);
/* The next signal; 0: none has come by `until_us`. */
int repeat_signals_await(const repeat_signals *self, siginfo_t *info, int64_t until_us);
/* It would end us if it were not blocked. */
bool repeat_signal_is_deadly(int number);

/*
 * Returns the exit status of the last run. A signal that would end us ends the run, and no other
 * one follows. With hands_over the status is 0 then if nothing was held, or if the command has
 * ended and the lock was released. SIGUSR1 and SIGUSR2 are passed on to a running command.
 */
int repeat_runs(const repeat *r);

#endif
