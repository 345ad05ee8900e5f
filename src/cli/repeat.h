/*
 * cli/repeat.h - `rowlock run` again and again, each time in a process of its own: when a run loses
 * its lock, or gets a signal, it ends that process alone.
 */
#ifndef RL_CLI_REPEAT_H
#define RL_CLI_REPEAT_H

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

/*
 * Returns the exit status of the last run. A signal that would end us ends the run, and there is no
 * other run; with hands_over it is 0 then, if nothing was held, or the command has ended and the
 * lock was released. SIGUSR1 and SIGUSR2 are passed on to a command that runs.
 */
int repeat_runs(const repeat *r);

#endif
