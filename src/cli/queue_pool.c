/*
 * cli/queue_pool.c - the workers of `queue work`: processes of their own, so that the others work
 * on when one is killed or loses its server. See queue.h.
 *
 * This process has no client and no second thread. At the first signal that would end it, it sends
 * the workers SIGTERM: they finish the running COMMAND. At the second one it sends SIGUSR1: they
 * end COMMAND. (Two SIGTERM could become one.) If it is killed, its workers are, too, and their
 * supervisors end COMMAND.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "queue.h"
#include "repeat.h"

enum {
    PAUSE_FIRST_US = 1000000,
    PAUSE_MOST_US = 60000000,
    STEADY_US = 60000000 /* a worker that lived for so long resets the pause */
};

typedef struct place {
    pid_t pid; /* 0: there is no worker */
    int64_t since_us;
    int64_t next_us; /* when the next worker is started */
    int64_t pause_us;
} place;

typedef struct pool {
    const queue_job *job;
    place *places;
    repeat_signals signals;
    int told;        /* how many signals have told us to end */
    int exit_status; /* that of the worker, or 128 + the signal, that ended us */
} pool;

/* Tells a user who has pressed ^C what is waited for. */
static void say_told(const pool *self)
{
    if (self->told == 1 && (self->job->run.context.verbose || isatty(STDERR_FILENO)))
        cli_say("%s: finishing what runs; a second signal ends it", self->job->run.name);
}

static void tell_all(pool *self, int number)
{
    for (unsigned i = 0; i < self->job->workers; i++)
        if (self->places[i].pid > 0)
            kill(self->places[i].pid, number);
}

static void tell(pool *self, int number)
{
    self->told++;
    say_told(self);
    if (self->told > 1)
        self->exit_status = 128 + number;
    tell_all(self, self->told == 1 ? SIGTERM : SIGUSR1);
}

/* A process group of its own: a ^C at the terminal reaches only us, and we signal the workers. */
_Noreturn static void be_worker(const pool *self, pid_t parent)
{
    static const char *const roles[] = {"batch", NULL};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(128 + SIGKILL);
    setpgid(0, 0);
    repeat_signals_give_back(&self->signals);
    const int exit_status = queue_worker_run(self->job);
    cli_refused_explain(&self->job->run.context.client, "queue", roles);
    exit(exit_status);
}

static void start(pool *self, place *p)
{
    const pid_t parent = getpid();
    p->since_us = supervisor_now_us();
    p->pid = fork();
    if (p->pid == 0)
        be_worker(self, parent);
    if (p->pid < 0) {
        cli_say("%s: cannot start a worker: %s", self->job->run.name, strerror(errno));
        p->pid = 0;
        p->next_us = p->since_us + PAUSE_MOST_US;
    }
}

/* Another worker would end with the same exit status. */
static bool is_final(int exit_status)
{
    return exit_status == CLI_EXIT_USAGE || exit_status == rowlock_status_exit(ROWLOCK_MODE) ||
           exit_status == rowlock_status_exit(ROWLOCK_DENIED) ||
           exit_status == rowlock_status_exit(ROWLOCK_SCHEMA) ||
           exit_status == rowlock_status_exit(ROWLOCK_UNSUPPORTED) ||
           exit_status == QUEUE_CANNOT_RUN || exit_status == QUEUE_NOT_FOUND;
}

static void follow(pool *self, place *p, int status)
{
    const int64_t now = supervisor_now_us();
    char pause[CLI_HUMANE];
    p->pid = 0;
    if (self->told > 0)
        return;
    if (WIFEXITED(status) && is_final(WEXITSTATUS(status))) {
        self->exit_status = WEXITSTATUS(status);
        self->told = 1;
        tell_all(self, SIGTERM);
        return;
    }
    if (now - p->since_us >= STEADY_US)
        p->pause_us = PAUSE_FIRST_US;
    p->next_us = now + p->pause_us;
    cli_humane(p->pause_us / 1000, pause, sizeof pause);
    if (WIFSIGNALED(status))
        cli_say("%s: a worker was killed (signal %d); another one begins in %s",
                self->job->run.name, WTERMSIG(status), pause);
    else if (self->job->run.context.verbose)
        cli_say("%s: a worker has ended (exit status %d); another one begins in %s",
                self->job->run.name, WEXITSTATUS(status), pause);
    p->pause_us = between(0, 2 * p->pause_us, PAUSE_MOST_US);
}

static void reap(pool *self)
{
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (unsigned i = 0; i < self->job->workers; i++)
            if (self->places[i].pid == pid)
                follow(self, &self->places[i], status);
}

/* Starts the workers that are due. Returns when the next one is due; 0: none is running, and none
 * will be started. */
static int64_t start_due(pool *self)
{
    int64_t next_us = 0;
    for (unsigned i = 0; i < self->job->workers; i++) {
        place *p = &self->places[i];
        if (p->pid == 0 && self->told == 0 && p->next_us <= supervisor_now_us())
            start(self, p);
        const int64_t due_us = p->pid > 0 ? INT64_MAX : self->told == 0 ? p->next_us : 0;
        if (due_us > 0 && (next_us == 0 || due_us < next_us))
            next_us = due_us;
    }
    return next_us;
}

int queue_pool_run(const queue_job *job)
{
    pool self = {.job = job};
    siginfo_t info;
    int number;
    self.places = cli_need(calloc(job->workers, sizeof *self.places));
    for (unsigned i = 0; i < job->workers; i++)
        self.places[i].pause_us = PAUSE_FIRST_US;
    repeat_signals_block(&self.signals);
    for (int64_t next_us; (next_us = start_due(&self)) > 0; reap(&self))
        if ((number = repeat_signals_await(&self.signals, &info, next_us)) != 0 &&
            repeat_signal_is_deadly(number))
            tell(&self, number);
    repeat_signals_give_back(&self.signals);
    free(self.places);
    return self.exit_status;
}
