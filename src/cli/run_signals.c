/* cli/run_signals.c - see run_signals.h */
#include "run_signals.h"

#include <pthread.h>
#include <stddef.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "descendants.h"

static const int passed_on[] = {SIGTERM, SIGINT,  SIGHUP,   SIGQUIT, SIGUSR1,
                                SIGUSR2, SIGCONT, SIGWINCH, SIGALRM};
static const int stops[RUN_SIGNALS_STOPS] = {SIGTSTP, SIGTTIN, SIGTTOU};

static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && !(action.sa_flags & SA_SIGINFO) &&
           action.sa_handler == SIG_IGN;
}

static void set_handler(int number, void (*handler)(int), struct sigaction *before)
{
    struct sigaction action = {.sa_handler = handler};
    sigemptyset(&action.sa_mask);
    sigaction(number, &action, before);
}

bool run_signals_take(run_signals *self)
{
    sigset_t taken;
    sigset_t blocked;
    sigemptyset(&taken);
    for (size_t i = 0; i < sizeof passed_on / sizeof passed_on[0]; i++) {
        if (!is_ignored(passed_on[i]))
            sigaddset(&taken, passed_on[i]);
    }
    blocked = taken;
    /* Blocked, so that a line that we write from the background does not stop us while we hold a
     * lock (stty tostop). If another process of our group writes, the kernel stops the whole group,
     * and us: the signalfd shows that. */
    sigaddset(&blocked, SIGTTOU);
    if (!is_ignored(SIGTTOU))
        sigaddset(&taken, SIGTTOU);
    sigprocmask(SIG_BLOCK, &blocked, &self->mask_before);
    /* Children that nobody waits for would vanish with their exit status ... */
    set_handler(SIGCHLD, SIG_DFL, &self->child_before);
    /* ... and a closed pipe at stderr must not end us while we hold the lock. */
    set_handler(SIGPIPE, SIG_IGN, &self->pipe_before);
    self->fd = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
    return self->fd >= 0;
}

void run_signals_give_back(const run_signals *self)
{
    sigaction(SIGCHLD, &self->child_before, NULL);
    sigaction(SIGPIPE, &self->pipe_before, NULL);
    sigprocmask(SIG_SETMASK, &self->mask_before, NULL);
}

/* Lets a pending, blocked signal take its default action: we stop here until SIGCONT. */
static void let_in(int number)
{
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, number);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
    pthread_sigmask(SIG_BLOCK, &only, NULL);
}

/* The kernel sends the SIGHUP and SIGCONT of a closed terminal to the leader of the session
 * alone. */
static bool is_to_leader(int number)
{
    return (number == SIGHUP || number == SIGCONT) && getsid(0) == getpid();
}

bool run_signals_next(const run_signals *self, run_signal *signal)
{
    struct signalfd_siginfo info;
    while (read(self->fd, &info, sizeof info) == sizeof info) {
        signal->number = (int)info.ssi_signo;
        signal->of_terminal = info.ssi_code == SI_KERNEL && !is_to_leader(signal->number);
        if (signal->number != SIGTTOU)
            return true;
        if (!self->is_led) {
            kill(getpid(), SIGTTOU);
            let_in(SIGTTOU);
        }
    }
    return false;
}

void run_signals_follow(run_signals *self)
{
    self->is_led = true;
    for (size_t i = 0; i < RUN_SIGNALS_STOPS; i++)
        set_handler(stops[i], SIG_IGN, &self->stops_before[i]);
}

void run_signals_follow_no_more(run_signals *self)
{
    if (!self->is_led)
        return;
    self->is_led = false;
    for (size_t i = 0; i < RUN_SIGNALS_STOPS; i++) {
        set_handler(stops[i], SIG_IGN, NULL); /* discards one that is pending */
        sigaction(stops[i], &self->stops_before[i], NULL);
    }
}

void run_signals_stop(int number, pid_t command)
{
    sigset_t only;
    sigset_t before;
    int as = number == SIGSTOP ? SIGTSTP : number; /* SIGSTOP cannot be blocked */
    sigemptyset(&only);
    sigaddset(&only, as);
    pthread_sigmask(SIG_BLOCK, &only, &before);
    set_handler(as, SIG_DFL, NULL);
    pthread_kill(pthread_self(), as);
    /* The command may go on already: a shell's SIGCONT reaches a command in our group before it
     * reaches us. If it goes on after this look, the supervisor's SIGCONT discards the pending
     * signal. */
    if (descendants_is_stopped(command, 0))
        let_in(as);
    set_handler(as, SIG_IGN, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

bool run_signal_is_deadly(int number)
{
    return number != SIGCONT && number != SIGWINCH;
}

void run_signal_die(int number)
{
    sigset_t only;
    /* Our core dump is of no use, and might contain a password. */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    set_handler(number, SIG_DFL, NULL);
    sigemptyset(&only);
    sigaddset(&only, number);
    kill(getpid(), number);
    pthread_sigmask(SIG_UNBLOCK, &only, NULL);
    _exit(128 + number);
}
