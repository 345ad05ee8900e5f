/* cli/repeat.c - see repeat.h */
#include "repeat.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct repeating {
    const repeat *r;
    run_report *report; /* the run's process writes it */
    repeat_signals signals;
    bool told; /* a signal has told us to end */
} repeating;

static const int taken[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

/* An ignored signal (nohup) stays ignored, except SIGCHLD: with that ignored, children would vanish
 * together with their exit status. SIGPIPE is ignored: a reader of our messages who has gone ends
 * nothing. */
void repeat_signals_block(repeat_signals *self)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigemptyset(&action.sa_mask);
    sigaction(SIGPIPE, &action, &self->pipe_before);
    action.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &action, &self->child_before);
    sigemptyset(&self->waited);
    sigaddset(&self->waited, SIGCHLD);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (sigaction(taken[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&self->waited, taken[i]);
    sigprocmask(SIG_BLOCK, &self->waited, &self->before);
}

void repeat_signals_give_back(const repeat_signals *self)
{
    sigaction(SIGPIPE, &self->pipe_before, NULL);
    sigaction(SIGCHLD, &self->child_before, NULL);
    sigprocmask(SIG_SETMASK, &self->before, NULL);
}

bool repeat_signal_is_deadly(int number)
{
    return number != SIGCHLD && number != SIGUSR1 && number != SIGUSR2;
}

int repeat_signals_await(const repeat_signals *self, siginfo_t *info, int64_t until_us)
{
    int number;
    do {
        const int64_t left_us = between(0, until_us - supervisor_now_us(), INT64_MAX);
        const struct timespec left = {.tv_sec = left_us / 1000000,
                                      .tv_nsec = left_us % 1000000 * 1000};
        number = sigtimedwait(&self->waited, info, &left);
    } while (number < 0 && errno == EINTR);
    return number < 0 ? 0 : number;
}

/* The run got a signal that was typed at the terminal, too. The SIGHUP of a terminal that has gone
 * goes to the leader of the session alone. */
static bool has_heard(const siginfo_t *info)
{
    const bool to_leader = info->si_signo == SIGHUP && getsid(0) == getpid();
    return info->si_code == SI_KERNEL && !to_leader;
}

/* Keeps SIGUSR1 and SIGUSR2 from a run that still waits for its lock: they would end it. */
static void pass_on(repeating *self, pid_t child, const siginfo_t *info)
{
    const bool deadly = repeat_signal_is_deadly(info->si_signo);
    if (deadly)
        self->told = true;
    else if (!self->report->began)
        return;
    if (!has_heard(info))
        kill(child, deadly && self->r->hands_over ? SIGTERM : info->si_signo);
}

static int await_run(repeating *self, pid_t child)
{
    int status = 0;
    siginfo_t info;
    while (waitpid(child, &status, WNOHANG) == 0) {
        const int number = repeat_signals_await(&self->signals, &info, INT64_MAX);
        if (number != 0 && number != SIGCHLD)
            pass_on(self, child, &info);
    }
    return status;
}

static void pause_for(repeating *self, int64_t pause_us)
{
    const int64_t until_us = supervisor_now_us() + pause_us;
    siginfo_t info;
    int number;
    while (!self->told && (number = repeat_signals_await(&self->signals, &info, until_us)) != 0)
        self->told = repeat_signal_is_deadly(number);
}

/* The run's process. However we end, the kernel sends it SIGTERM then. */
_Noreturn static void be_run(const repeating *self, pid_t parent)
{
    static const char *const roles[] = {"batch", NULL};
    const repeat *r = self->r;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    repeat_signals_give_back(&self->signals);
    if (getppid() != parent)
        _exit(128 + SIGTERM);
    const int exit_status = run_options_run(r->options);
    cli_refused_explain(&r->options->context.client, r->command, roles);
    exit(exit_status);
}

static bool run_once(repeating *self, int *status)
{
    const pid_t parent = getpid();
    *self->report = (run_report){.began = false};
    const pid_t child = fork();
    if (child < 0) {
        cli_say("cannot start a process: %s", strerror(errno));
        return false;
    }
    if (child == 0)
        be_run(self, parent);
    *status = await_run(self, child);
    return true;
}

/* The exit status when the run has ended after a signal that told us to end. */
static int told_status(const repeating *self, int status)
{
    if (!self->r->hands_over)
        return run_exit_status(status);
    if (!self->report->began)
        return 0;
    return WIFSIGNALED(status) ? run_exit_status(status)
                               : rowlock_status_exit(self->report->status);
}

static int repeat_all(repeating *self)
{
    int status = 0;
    int exit_status;
    int64_t pause_us;
    do {
        pause_us = 0;
        if (!run_once(self, &status))
            return rowlock_status_exit(ROWLOCK_SYSTEM);
        exit_status = run_exit_status(status);
        if (self->told)
            return told_status(self, status);
        if (!self->r->again(self->r->data, self->report, exit_status, &pause_us))
            return exit_status;
        pause_for(self, pause_us);
    } while (!self->told);
    return self->r->hands_over ? 0 : exit_status;
}

int repeat_runs(const repeat *r)
{
    repeating self = {.r = r};
    self.report =
        mmap(NULL, sizeof *self.report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (self.report == MAP_FAILED) {
        cli_say("out of memory");
        return rowlock_status_exit(ROWLOCK_SYSTEM);
    }
    r->options->report = self.report;
    repeat_signals_block(&self.signals);
    const int exit_status = repeat_all(&self);
    repeat_signals_give_back(&self.signals);
    munmap(self.report, sizeof *self.report);
    return exit_status;
}
