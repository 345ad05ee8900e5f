/*
 * cli/cmd_run.c - run: a command under a lock.
 *
 * Three processes: this one (lock, signals), the supervisor (supervisor.h), the command.
 * Three phases here: wait for the lock, watch the command, let the lock go. What may block
 * in the library is done by a second thread, so that this one always hears signals.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "descendants.h"
#include "run_options.h"
#include "run_signals.h"
#include "run_sockets.h"
#include "run_waiting.h"
#include "supervisor.h"
#include "text.h"

enum {
    /* A command that is to end has this long from SIGTERM to SIGKILL, at most ... */
    GRACE_MAX_US = 10000000,
    /* ... and SIGKILL comes this long before the lock's end, for it takes its time too. */
    MARGIN_MIN_US = 50000,
    MARGIN_MAX_US = 1000000,
    /* What the supervisor has not ended so long after it should have, we do. */
    OVERDUE_US = 200000,
    TICK_MIN_US = 20000,
    TICK_MAX_US = 250000, /* a job that is stopped behind a renewal is to have the time of it */
    /* A wait worth a line with -v. */
    WAIT_SAID_US = 300000,
    /* How long a signal, or a loss, bears a server that does not answer. */
    PATIENCE_US = 2000000
};

typedef struct run {
    run_options options;
    run_signals signals;
    descendants descendants;
    supervisor supervisor;
    int inherited_sockets[SUPERVISOR_SOCKETS];
    size_t inherited_socket_count;
    char label[ROWLOCK_LABEL_MAX + 1];

    rowlock_client *client;
    rowlock_hold *hold;
    rowlock_cancel *cancel;
    _Atomic(run_waiting *) waiting;

    /* The second thread's work, ready to be looked at when `done` is readable. */
    pthread_t worker;
    int done;
    atomic_bool connected;
    rowlock_status status;
    rowlock_error err;

    pthread_mutex_t mutex;
    char lost_because[256]; /* guarded by it: the keeper's thread writes */

    int64_t margin_us;
    int64_t grace_us;
    int64_t acquired_us;
    int64_t kill_at_us;
    bool own_group;
    bool lost;              /* seen while the command ran */
    bool killed_here;       /* the supervisor did not, we did */
    bool ended;             /* the command did not end by itself: the lock was being lost */
    int supervisor_status;  /* how it ended where it should not have; -1: all is well */
    supervisor_report stop; /* the last that was told of */
    supervisor_report report;
    int exit_status;
    const char *note;
} run;

static const char *command_of(const run *self)
{
    return self->options.command[0];
}

static const char *name_of(const run *self)
{
    return self->options.name;
}

static bool is_verbose(const run *self)
{
    return self->options.context.verbose > 0;
}

static int64_t between(int64_t least, int64_t value, int64_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* Milliseconds for poll(), rounded up: never awake too early. */
static int until(int64_t at_us)
{
    int64_t ms = (at_us - supervisor_now_us() + 999) / 1000;
    return (int)between(0, ms, 60000);
}

/* --------------------------------------------------------- the second thread */

static void hide_waiting_line(run *self)
{
    run_waiting_hide(atomic_load(&self->waiting));
}

/* The library's lines, -v or -vv: not in the middle of the waiting line. */
static rowlock_log_fn log_line;
static void *log_data;
static void log_past_waiting_line(void *data, rowlock_log_level level, const char *line)
{
    hide_waiting_line(data);
    log_line(log_data, level, line);
}

static void remember_loss(void *data, rowlock_hold *hold, const char *reason)
{
    run *self = data;
    (void)hold;
    pthread_mutex_lock(&self->mutex);
    snprintf(self->lost_because, sizeof self->lost_because, "%s", reason);
    pthread_mutex_unlock(&self->mutex);
}

static void *get_lock(void *data)
{
    run *self = data;
    rowlock_acquire_options acquire = self->options.acquire;
    acquire.cancel = self->cancel;
    acquire.on_lost = remember_loss;
    acquire.on_lost_data = self;
    self->status = rowlock_client_open(&self->options.context.client, &self->client, &self->err);
    if (self->status == ROWLOCK_OK) {
        atomic_store(&self->connected, true);
        if (acquire.wait_ms != 0)
            atomic_store(&self->waiting, run_waiting_start(self->client, name_of(self)));
        self->status =
            rowlock_acquire(self->client, name_of(self), &acquire, &self->hold, &self->err);
    }
    eventfd_write(self->done, 1);
    return NULL;
}

/* What we were not allowed to end still works: a broken lease is not opened before its time. */
static bool is_outlived(const run *self)
{
    return self->ended && self->report.left > 0;
}

static void *let_go(void *data)
{
    run *self = data;
    if (is_outlived(self)) {
        rowlock_status ignored = rowlock_client_flush(self->client, PATIENCE_US / 1000, NULL);
        (void)ignored;
        eventfd_write(self->done, 1);
        return NULL;
    }
    const rowlock_release_options release = {
        .has_exit_status = true, .exit_status = self->exit_status, .note = self->note};
    if (self->hold)
        self->status = rowlock_release_with(self->hold, &release, &self->err);
    /* A client in use is not closed; then the end of this process closes its connections. */
    if (run_waiting_finish(atomic_load(&self->waiting))) {
        rowlock_client_close(self->client);
        run_waiting_free(atomic_exchange(&self->waiting, NULL));
    }
    eventfd_write(self->done, 1);
    return NULL;
}

static bool start_worker(run *self, void *(*work)(void *))
{
    return pthread_create(&self->worker, NULL, work, self) == 0;
}

static void join_worker(run *self)
{
    eventfd_t ignored;
    pthread_join(self->worker, NULL);
    eventfd_read(self->done, &ignored);
}

/* ----------------------------------------------------- 1. wait for the lock */

/* The last signal that has come and would end us; else `before`. */
static int take_deadly_signal(run *self, int before)
{
    run_signal signal;
    while (run_signals_next(&self->signals, &signal)) {
        if (run_signal_is_deadly(signal.number))
            before = signal.number;
    }
    return before;
}

static void say_waiting(run *self)
{
    if (is_verbose(self) && !atomic_load(&self->waiting))
        cli_say("waiting for %s", name_of(self));
}

static void say_unsupervised_wait(const run *self)
{
    cli_say("%s: the supervising process ended before the lock was got", name_of(self));
}

/* The worker is in a call that does not end; nothing is held, or it ends with our
 * connection. */
static _Noreturn void die_waiting(run *self, int deadly)
{
    run_waiting_stop(atomic_load(&self->waiting));
    supervisor_finish(&self->supervisor);
    if (deadly)
        run_signal_die(deadly);
    say_unsupervised_wait(self);
    _exit(rowlock_status_exit(ROWLOCK_SYSTEM));
}

/*
 * Returns when the worker has finished. A signal ends the wait, and then the process: at
 * once where nothing can be held yet (it may be trying again to connect), else when the library
 * has tidied up.
 */
static void wait_for_lock(run *self, int *deadly, bool *unsupervised)
{
    int64_t say_at = supervisor_now_us() + WAIT_SAID_US;
    int64_t die_at = INT64_MAX;
    struct pollfd fds[] = {
        {.fd = self->done, .events = POLLIN},
        {.fd = self->signals.fd, .events = POLLIN},
        {.fd = self->supervisor.socket, .events = POLLIN},
    };
    while (!(fds[0].revents & POLLIN)) {
        poll(fds, sizeof fds / sizeof fds[0], until(say_at < die_at ? say_at : die_at));
        *deadly = take_deadly_signal(self, *deadly);
        *unsupervised = *unsupervised || fds[2].revents != 0;
        if ((*deadly || *unsupervised) && die_at == INT64_MAX) {
            fds[2].fd = -1;
            die_at = supervisor_now_us() + (atomic_load(&self->connected) ? PATIENCE_US : 0);
            rowlock_cancel_fire(self->cancel);
        }
        if (supervisor_now_us() >= say_at && !*deadly) {
            say_waiting(self);
            say_at = INT64_MAX;
        }
        if (supervisor_now_us() >= die_at)
            die_waiting(self, *deadly);
    }
    join_worker(self);
    run_waiting_stop(atomic_load(&self->waiting));
    *deadly = take_deadly_signal(self, *deadly);
}

static void say_acquired(const run *self)
{
    char waited[CLI_HUMANE];
    char token[40] = "no token";
    if (!is_verbose(self))
        return;
    if (rowlock_hold_token(self->hold) > 0)
        snprintf(token, sizeof token, "token %" PRIu64, rowlock_hold_token(self->hold));
    cli_say("%s: acquired (%s, waited %s)", name_of(self), token,
            cli_humane(rowlock_hold_waited_ms(self->hold), waited, sizeof waited));
}

/* ---------------------------------------------------- 2. watch the command */

static bool has_terminal(void)
{
    int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (terminal >= 0)
        close(terminal);
    return terminal >= 0;
}

/* A shell with job control gave us a group of our own, and waits for what becomes of us. */
static bool is_job(void)
{
    return getsid(getppid()) == getsid(0) && getpgid(getppid()) != getpgrp();
}

/* The time is read first, so that what comes out is too early rather than too late. */
static void move_deadline(run *self)
{
    int64_t now = supervisor_now_us();
    int64_t kill_at = now + rowlock_hold_remaining_ms(self->hold) * 1000 - self->margin_us;
    if (kill_at <= self->kill_at_us)
        return;
    self->kill_at_us = kill_at;
    supervisor_set_deadline(&self->supervisor, kill_at);
}

/* False: too late, we were stopped since we got the lock. (The supervisor looks again.) */
static bool begin_command(run *self)
{
    supervisor_go go = {
        .own_group = self->own_group = !has_terminal(),
        .is_job = !self->own_group && is_job(),
        .grace_us = self->grace_us,
        .token = rowlock_hold_token(self->hold),
        .owner = rowlock_hold_owner(self->hold),
    };
    /* A row lock ends with its connection, and a killed `rowlock` closes its own before
     * the supervisor can have ended the command: so the supervisor keeps it open. */
    if (rowlock_hold_mode(self->hold) == ROWLOCK_PESSIMISTIC)
        go.socket_count = run_sockets(self->inherited_sockets, self->inherited_socket_count,
                                      go.sockets, SUPERVISOR_SOCKETS);
    move_deadline(self);
    self->report.too_late = supervisor_now_us() >= self->kill_at_us;
    if (self->report.too_late)
        return false;
    if (go.is_job)
        run_signals_follow(&self->signals);
    supervisor_begin(&self->supervisor, &go);
    return true;
}

/* Somebody has continued us alone: a job goes on as a whole, or would keep its lock for nothing. */
static bool goes_on_alone(const run *self, int number)
{
    return number == SIGCONT && self->stop.command > 0 && self->signals.is_led &&
           descendants_is_stopped(self->stop.command, getpgrp());
}

/* What the kernel sent to the whole group, a command in our group has heard itself. */
static void pass_signals_on(run *self)
{
    run_signal signal;
    while (run_signals_next(&self->signals, &signal)) {
        bool heard = !self->own_group && signal.of_terminal;
        if (goes_on_alone(self, signal.number))
            run_signals_stop(self->stop.status, self->stop.command);
        else
            supervisor_signal(&self->supervisor, signal.number, heard);
    }
}

static bool reap(void *data)
{
    (void)data;
    pid_t pid;
    do {
        pid = waitpid(-1, NULL, WNOHANG);
    } while (pid > 0 || (pid < 0 && errno == EINTR));
    return pid < 0;
}

/* Without the supervisor: its orphans are our children. */
static void kill_here(run *self)
{
    self->killed_here = true;
    self->supervisor_status = supervisor_finish(&self->supervisor);
    self->report.left = descendants_end(&self->descendants, reap, NULL);
}

/* When the supervisor must have ended the command; INT64_MAX: need not. */
static int64_t overdue_at(const run *self, int64_t lost_at)
{
    int64_t by_deadline = self->kill_at_us + self->margin_us / 2;
    int64_t by_loss = self->lost ? lost_at + OVERDUE_US : INT64_MAX;
    return by_deadline < by_loss ? by_deadline : by_loss;
}

/* True: it was the last that we hear of the command. */
static bool hear_supervisor(run *self)
{
    supervisor_report report;
    if (!supervisor_receive(&self->supervisor, &report)) {
        kill_here(self);
        return true;
    }
    switch (report.news) {
    case NEWS_STOPPED:
        self->stop = report;
        run_signals_stop(report.status, report.command);
        return false;
    case NEWS_BEHIND:
        run_signals_follow_no_more(&self->signals);
        return false;
    case NEWS_END:
        self->report = report;
        supervisor_finish(&self->supervisor);
    }
    return true;
}

static void watch_command(run *self)
{
    const int64_t tick =
        between(TICK_MIN_US, self->options.acquire.ttl_ms * 1000 / 12, TICK_MAX_US);
    int64_t lost_at = 0;
    struct pollfd fds[] = {
        {.fd = self->supervisor.socket, .events = POLLIN},
        {.fd = self->signals.fd, .events = POLLIN},
        {.fd = rowlock_hold_fd(self->hold), .events = POLLIN},
    };
    for (;;) {
        int64_t next = supervisor_now_us() + tick;
        int64_t overdue = overdue_at(self, lost_at);
        poll(fds, sizeof fds / sizeof fds[0], until(next < overdue ? next : overdue));
        pass_signals_on(self);
        if (fds[0].revents && hear_supervisor(self))
            return;
        move_deadline(self);
        if (!self->lost && rowlock_hold_check(self->hold) != ROWLOCK_OK) {
            self->lost = true;
            lost_at = supervisor_now_us();
            fds[2].fd = -1; /* stays readable: once is enough */
            supervisor_kill(&self->supervisor);
        }
        /* Looked at again: after we were stopped, what poll() said is old. */
        if (supervisor_now_us() >= overdue_at(self, lost_at) && poll(fds, 1, 0) == 0) {
            self->lost = true;
            kill_here(self);
            return;
        }
    }
}

/* ------------------------------------------------------ 3. let the lock go */

/* The last deadline was as late as --max-hold lets any be (the library has a margin too, and counts
 * from earlier). */
static bool is_at_max_hold(const run *self)
{
    const int64_t max_hold_us = self->options.acquire.max_hold_ms * 1000;
    return max_hold_us > 0 && !self->lost &&
           self->kill_at_us + 4 * self->margin_us >= self->acquired_us + max_hold_us;
}

/* Why the command was ended. */
static void say_loss(run *self)
{
    char because[sizeof self->lost_because];
    pthread_mutex_lock(&self->mutex);
    memcpy(because, self->lost_because, sizeof because);
    pthread_mutex_unlock(&self->mutex);
    const char *fate = self->report.too_late ? "was not started" : "was ended";
    self->note = self->report.too_late ? "the command was not started: the lock was being lost"
                                       : "the command was ended: the lock was being lost";
    if (is_at_max_hold(self)) {
        self->note = "the command was ended: --max-hold";
        cli_say("%s: would be held longer than --max-hold allows; %s %s", name_of(self),
                command_of(self), fate);
    } else if (because[0])
        cli_say("%s: the lock was lost: %s; %s %s", name_of(self), because, command_of(self), fate);
    else
        cli_say("%s: the lock could not be renewed in time; %s %s", name_of(self), command_of(self),
                fate);
}

static void say_unsupervised(run *self)
{
    int status = self->supervisor_status;
    self->note = "the command was ended: its supervisor was killed";
    cli_say("%s: the supervising process ended (%s %d); so %s was ended and the lock released",
            name_of(self), WIFSIGNALED(status) ? "signal" : "status",
            WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), command_of(self));
}

static int exit_status_of(int status)
{
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int not_executed(run *self)
{
    int error = self->report.exec_error;
    self->note = "the command could not be run";
    cli_say("cannot run %s: %s", command_of(self), strerror(error));
    return error == ENOENT ? 127 : 126;
}

static void say_processes(const run *self, int count, const char *text)
{
    cli_say("%s: %d process%s that %s started %s", name_of(self), count, count == 1 ? "" : "es",
            command_of(self), text);
}

/* What became of what the command started. */
static void say_children(const run *self)
{
    const supervisor_report *report = &self->report;
    const bool lost = self->ended;
    if (lost && report->left > 0)
        cli_say("%s: not allowed to end %d process%s that %s started", name_of(self), report->left,
                report->left == 1 ? "" : "es", command_of(self));
    else if (!lost && report->forced > 0)
        cli_say("%s: SIGKILL for %d process%s of %s that did not end on SIGTERM", name_of(self),
                report->forced, report->forced == 1 ? "" : "es", command_of(self));
    else if (!lost && report->behind > 0 && is_verbose(self))
        say_processes(self, report->behind, "outlived it; now all have ended");
    else if (!lost && report->left > 0 && is_verbose(self))
        say_processes(self, report->left, report->left == 1 ? "lives on" : "live on");
}

static void judge(run *self)
{
    self->ended =
        self->report.killed || self->report.told || self->report.too_late || self->killed_here;
    if (self->killed_here && !self->lost) {
        say_unsupervised(self);
        self->exit_status = exit_status_of(self->supervisor_status);
    } else if (self->ended) {
        say_loss(self);
        self->exit_status = rowlock_status_exit(ROWLOCK_LOST);
    } else if (self->report.exec_error) {
        self->exit_status = not_executed(self);
    } else {
        self->exit_status = exit_status_of(self->report.status);
    }
}

/* The release came to nothing. After a loss that is no news. */
static void judge_release(run *self)
{
    if (self->status == ROWLOCK_OK || self->exit_status == rowlock_status_exit(ROWLOCK_LOST))
        return;
    if (self->status == ROWLOCK_LOST) {
        cli_say("%s: the lock was lost while %s still ran: %s", name_of(self), command_of(self),
                self->err.message);
        self->exit_status = rowlock_status_exit(ROWLOCK_LOST);
        return;
    }
    const char *stays = self->options.acquire.mode == ROWLOCK_PESSIMISTIC
                            ? "the lock could not be released as it should"
                            : "the lock may stay until its TTL is over";
    cli_say("%s: %s has ended, but %s: %s", name_of(self), command_of(self), stays,
            self->err.message);
}

static void say_released(const run *self, int64_t held_us)
{
    char held[CLI_HUMANE];
    if (is_verbose(self) && self->status == ROWLOCK_OK)
        cli_say("%s: released (held %s)", name_of(self),
                cli_humane(held_us / 1000, held, sizeof held));
}

/* True when the worker has finished; not when a signal, or a loss, ran out of patience. */
static bool wait_for_release(run *self, int64_t until_us, int *deadly)
{
    struct pollfd fds[] = {
        {.fd = self->done, .events = POLLIN},
        {.fd = self->signals.fd, .events = POLLIN},
    };
    while (!(fds[0].revents & POLLIN) && supervisor_now_us() < until_us) {
        poll(fds, sizeof fds / sizeof fds[0], until(until_us));
        int came = take_deadly_signal(self, 0);
        if (came && !*deadly) {
            *deadly = came;
            until_us = supervisor_now_us() + PATIENCE_US;
        }
    }
    if (fds[0].revents & POLLIN)
        join_worker(self);
    else
        pthread_detach(self->worker);
    return (fds[0].revents & POLLIN) != 0;
}

/* Releases and closes. Where the server does not answer, the process ends without. */
static void leave(run *self, bool hasty)
{
    int deadly = 0;
    bool held = self->hold != NULL;
    int64_t now = supervisor_now_us();
    if (!self->client)
        return;
    if (!start_worker(self, let_go)) {
        let_go(self);
    } else if (!wait_for_release(self, hasty ? now + PATIENCE_US : INT64_MAX, &deadly)) {
        if (deadly)
            run_signal_die(deadly);
        _exit(self->exit_status);
    }
    if (held)
        judge_release(self);
    if (held)
        say_released(self, now - self->acquired_us);
}

/* ------------------------------------------------------------- altogether */

static int system_error(const char *what)
{
    cli_say("%s: %s", what, strerror(errno));
    return rowlock_status_exit(ROWLOCK_SYSTEM);
}

/* "user@host pid command", as the library says it, but with the command that matters. */
static void make_label(run *self)
{
    char host[65] = "?";
    char user[24];
    const struct passwd *entry = getpwuid(geteuid());
    const char *base = strrchr(command_of(self), '/');
    snprintf(user, sizeof user, "%lu", (unsigned long)geteuid());
    gethostname(host, sizeof host - 1);
    snprintf(self->label, sizeof self->label, "%s@%s %d %s", entry ? entry->pw_name : user, host,
             (int)getpid(), base ? base + 1 : command_of(self));
}

static void set_client_options(run *self)
{
    rowlock_client_options *client = &self->options.context.client;
    make_label(self);
    client->label = self->options.label && *self->options.label ? self->options.label : self->label;
    log_line = client->log;
    log_data = client->log_data;
    if (client->log) {
        client->log = log_past_waiting_line;
        client->log_data = self;
    }
}

/* Everything that must be there before the first connection or thread. */
static bool prepare(run *self)
{
    const supervisor_job job = {name_of(self),          self->options.command,
                                &self->signals,         self->options.pass_password,
                                self->options.children, self->options.kill_after_ms * 1000};
    const int64_t ttl_us = self->options.acquire.ttl_ms * 1000;
    self->grace_us = between(0, ttl_us / 4, GRACE_MAX_US);
    self->margin_us = between(MARGIN_MIN_US, ttl_us / 20, MARGIN_MAX_US);
    self->supervisor_status = -1;
    if (!run_sockets_guard_standard() || !run_signals_take(&self->signals) ||
        prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        self->exit_status = system_error("cannot start");
        return false;
    }
    if (!descendants_start(&self->descendants)) {
        self->exit_status = system_error("cannot look into /proc for what the command starts");
        return false;
    }
    self->inherited_socket_count =
        run_sockets(NULL, 0, self->inherited_sockets, SUPERVISOR_SOCKETS);
    self->done = eventfd(0, EFD_CLOEXEC);
    if (self->done < 0 || !supervisor_start(&self->supervisor, &job)) {
        self->exit_status = system_error("cannot start the supervising process");
        return false;
    }
    if (rowlock_cancel_new(&self->cancel, &self->err) != ROWLOCK_OK) {
        self->exit_status = cli_fail(&self->err);
        return false;
    }
    return true;
}

/* Somebody else has it: with -E 0 nothing went wrong. */
static int not_got(run *self)
{
    bool conflict = self->status == ROWLOCK_BUSY || self->status == ROWLOCK_TIMEOUT;
    if (!conflict)
        return cli_fail(&self->err);
    if (self->options.not_got != 0)
        cli_fail(&self->err);
    return (int)self->options.not_got;
}

static void guard_command(run *self)
{
    int deadly = 0;
    bool unsupervised = false;
    if (!start_worker(self, get_lock)) {
        self->exit_status = system_error("cannot start a thread");
        return;
    }
    wait_for_lock(self, &deadly, &unsupervised);
    if (deadly || unsupervised || self->status != ROWLOCK_OK) {
        if (unsupervised)
            say_unsupervised_wait(self);
        self->exit_status = deadly         ? 128 + deadly
                            : unsupervised ? rowlock_status_exit(ROWLOCK_SYSTEM)
                                           : not_got(self);
        self->note = "the command was not started";
        leave(self, deadly != 0);
        supervisor_finish(&self->supervisor);
        if (deadly)
            run_signal_die(deadly);
        return;
    }
    self->acquired_us = supervisor_now_us();
    say_acquired(self);
    if (begin_command(self))
        watch_command(self);
    run_signals_follow_no_more(&self->signals);
    judge(self);
    leave(self, self->exit_status == rowlock_status_exit(ROWLOCK_LOST));
    say_children(self); /* the lock does not wait for a reader of it */
    supervisor_finish(&self->supervisor);
}

int run_options_run(void *into)
{
    static run self; /* other threads may outlive this call */
    self = (run){.options = *(const run_options *)into};
    pthread_mutex_init(&self.mutex, NULL);
    if (!cli_password(&self.options.context))
        return CLI_EXIT_USAGE;
    set_client_options(&self);
    if (prepare(&self))
        guard_command(&self);
    rowlock_cancel_free(self.cancel);
    descendants_finish(&self.descendants);
    return self.exit_status;
}
