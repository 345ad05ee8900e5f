/* cli/run_signals.h - the signals that `run` takes, and gives back to its command. */
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
    int fd;      /* a signalfd of those that are passed on */
    bool is_led; /* see run_signals_follow() */
} run_signals;

typedef struct run_signal {
    int number;
    bool of_terminal; /* the kernel sent it to our whole process group */
} run_signal;

/*
 * Blocks, before there is a second thread, what is to come through the descriptor. What
 * is ignored (nohup, `&` in a script) stays ignored. False: no descriptor can be had.
 */
bool run_signals_take(run_signals *self);

/* Makes the signals as they were, for the command. In a process of one thread, before exec(). */
void run_signals_give_back(const run_signals *self);

/* The next one that has come; false: none. What stops our process group stops us in here. */
bool run_signals_next(const run_signals *self, run_signal *signal);

/*
 * From now on we stop when a command in our process group does, not by a signal of the kernel: with
 * both the shell would see the job stop twice, and its `fg` would end at the second.
 */
void run_signals_follow(run_signals *self);

/* The command has ended: the kernel's signals stop us again. */
void run_signals_follow_no_more(run_signals *self);

/* The command was stopped by this signal: stops us by the same one, which the shell sees, unless
 * the command goes on by now. */
void run_signals_stop(int number, pid_t command);

/* Would it end a program that does nothing about it? */
bool run_signal_is_deadly(int number);

/* Dies by it, by its default action. */
_Noreturn void run_signal_die(int number);

#endif
