/*
 * cli/repeat.h - `rowlock run` again and again, each time in a process of its own: when a run loses
 * its lock, or gets a signal, it ends that process alone.
 */
#ifndef RL_CLI_REPEAT_H
#define RL_CLI_REPEAT_H

#include <signal.h>

#include "run.h"

typedef struct repeat {
    run_options *options;
    const char *command; /* our command's name, to say which rights it lacks */
    /* The run has ended, as its report and its exit status say. Is there to be another one, and
     * after which pause? */
    bool (*again)(void *data, const run_report *report, int exit_status, int64_t *pause_us);
    void *data;
    bool hands_over; /* any signal that would end us is SIGTERM for the command, so that another
                        host takes over; and ending so is no failure */
} repeat;

/* The signals of a process that waits for others (and has no thread): all that would end it,
 * SIGUSR1, SIGUSR2 and SIGCHLD are blocked, and waited for; none has a handler. */
typedef struct repeat_signals {
    sigset_t before, waited;
    struct sigaction child_before;
} repeat_signals;

void repeat_signals_block(repeat_signals *self);
/* As they were, for a process that does something else. */
void repeat_signals_give_back(const repeat_signals *self);
/* The next signal; 0: none has come until then. */
int repeat_signals_await(const repeat_signals *self, siginfo_t *info, int64_t until_us);
/* Would it end us, had we not blocked it? */
bool repeat_signal_is_deadly(int number);

/*
 * Returns the exit status of the last run. A signal that would end us ends the run, and there is no
 * other run; with hands_over it is 0 then, if nothing was held, or the command has ended and the
 * lock was released. SIGUSR1 and SIGUSR2 are passed on to a command that runs.
 */
int repeat_runs(const repeat *r);

#endif
