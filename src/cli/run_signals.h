/* cli/run_signals.h - the signals that `run` takes, and gives back to its command. */
#ifndef RL_CLI_RUN_SIGNALS_H
#define RL_CLI_RUN_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

typedef struct run_signals {
    sigset_t mask_before;
    struct sigaction child_before, pipe_before;
    int fd; /* a signalfd of those that are passed on */
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

/* As they were, for the command. In a process of one thread, before exec(). */
void run_signals_give_back(const run_signals *self);

/* The next one that has come; false: none. What stops our process group stops us in here. */
bool run_signals_next(const run_signals *self, run_signal *signal);

/* Would it end a program that does nothing about it? */
bool run_signal_is_deadly(int number);

/* Dies by it, by its default action. */
_Noreturn void run_signal_die(int number);

#endif
