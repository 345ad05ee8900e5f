/* cli/run_signals.h - the signals that `run` reads from a descriptor, and restores for its
 * command. */
#ifndef RL_CLI_RUN_SIGNALS_H
#define RL_CLI_RUN_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

enum { RUN_SIGNALS_STOPS = 3 }; /* SIGTSTP, SIGTTIN, SIGTTOU */

typedef struct run_signals {
    sigset_t mask_before;
    struct sigaction child_before, pipe_before;
    struct sigaction stops_before[RUN_SIGNALS_STOPS];
    int fd;      /* a signalfd of the signals to pass on */
    bool is_led; /* see run_signals_follow() */
} run_signals;

typedef struct run_signal {
    int number;
    bool of_terminal; /* the kernel sent it to our whole process group */
} run_signal;

/*
 * Blocks the signals that the descriptor will show. Call it before there is a second thread.
 * Ignored signals (nohup, `&` in a script) stay ignored. False: no descriptor could be made.
 */
bool run_signals_take(run_signals *self);

/* Restores the signals for the command. Call it in a process with one thread, before exec(). */
void run_signals_give_back(const run_signals *self);

/* Reads the next signal; false: there is none. A signal that stops our process group stops us in
 * this call. */
bool run_signals_next(const run_signals *self, run_signal *signal);

/*
 * From now on, we stop when a command in our process group stops, and not by the kernel's signals.
 * With both, the shell would see the job stop twice, and its `fg` would end at the second stop.
 */
void run_signals_follow(run_signals *self);

/* For when the command has ended: the kernel's signals stop us again. */
void run_signals_follow_no_more(run_signals *self);

/* Stops us by the signal that has stopped the command, for the shell to see, unless the command
 * goes on by now. */
void run_signals_stop(int number, pid_t command);

/* Its default action would end us. */
bool run_signal_is_deadly(int number);

/* Ends this process by the signal's default action. */
_Noreturn void run_signal_die(int number);

#endif
