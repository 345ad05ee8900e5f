/*
 * cli/cmd_run.c - run: a command under a lock.
 *
 * Three processes: this one (lock, signals), the supervisor (supervisor.h), the command. Three
 * phases here: wait for the lock, watch the command, let the lock go. What may block in the library
 * is done by a second thread, so that this one always reacts to signals.
 */
#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "run.h"

enum {
    /* A command that is to end has this long from SIGTERM to SIGKILL, at most ... */
    GRACE_MAX_US = 10000000,
    /* ... and SIGKILL is sent this long before the lock's end, since dying takes time, too. */
    MARGIN_MIN_US = 50000,
    MARGIN_MAX_US = 1000000,
    /* A longer wait is worth a line with -v. */
    WAIT_SAID_US = 300000,
    /* After a signal or a loss, we wait this long for a server that does not answer. */
    PATIENCE_US = 2000000
};

/* --------------------------------------------------------- the second thread */

/* Logs the library's lines (-v, -vv), after it has erased the waiting line. */
static void *log_data;
static void log_past_waiting_line(void *data, rowlock_log_level level, const char *line)
{
    run_waiting_hide(atomic_load(&((run *)data)->waiting));
    cli_log(log_data, level, line);
}

static void remember_loss(void *data, rowlock_hold *hold, const char *reason)
{
    run *self = data;
    (void)hold;
    pthread_mutex_lock(&self->mutex);
    snprintf(self->lost_because, sizeof self->lost_because, "%s", reason);
    pthread_mutex_unlock(&self->mutex);
}

/* The first thread tells COMMAND, once that runs: pass_asks_on(). */
static void say_asked(void *data, rowlock_hold *hold, const rowlock_asked *what)
{
    run *self = data;
    char left[CLI_HUMANE];
    (void)hold;
    const cli_fact facts[] = {{"name", what->name, 0},
                              {"by", what->by, 0},
                              {"reason", what->reason, 0},
                              {"left_ms", NULL, what->left_ms},
                              {0}};
    cli_say_event("asked", facts, "%s: asked to stop by %s, within %s%s%s", what->name, what->by,
                  cli_humane(what->left_ms, left, sizeof left), *what->reason ? ": " : "",
                  what->reason);
    atomic_fetch_add(&self->asks, 1);
}

static rowlock_status acquire_lock(run *self, const rowlock_acquire_options *how)
{
    const run_options *options = &self->options;
    if (options->role)
        return options->role->enter(self, how);
    if (options->also == 0)
        return rowlock_acquire(self->client, self->name, how, &self->hold, &self->err);
    return rowlock_acquire_set(self->client, options->names, options->also + 1, how, &self->hold,
                               &self->err);
}

static void *get_lock(void *data)
{
    run *self = data;
    rowlock_acquire_options acquire = self->options.acquire;
    acquire.cancel = self->cancel;
    acquire.on_lost = remember_loss;
    acquire.on_lost_data = self;
    acquire.on_ask = say_asked;
    acquire.on_ask_data = self;
    if (self->options.also)
        acquire.share = self->options.share;
    self->status = rowlock_client_open(&self->options.context.client, &self->client, &self->err);
    if (self->status == ROWLOCK_OK) {
        atomic_store(&self->connected, true);
        if (acquire.wait_ms != 0)
            atomic_store(&self->waiting,
                         run_waiting_start(self->client, &self->options.context.client, self->name,
                                           acquire.wait_ms, self->verbose));
        self->status = acquire_lock(self, &acquire);
    }
    eventfd_write(self->done, 1);
    return NULL;
}

static rowlock_status release(run *self)
{
    /* Keeps the sessions: a statement of a killed client may still run. */
    const rowlock_release_options how = {.has_exit_status = true,
                                         .exit_status = self->exit_status,
                                         .note = self->note,
                                         .keep_sessions = true};
    if (!self->options.role)
        return rowlock_release_with(self->hold, &how, &self->err);
    rowlock_status status = self->options.role->leave(self, &how);
    self->left_badly = status != ROWLOCK_OK;
    return status;
}

static void *let_go(void *data)
{
    run *self = data;
    /* Processes that we were not allowed to end still work. So nothing is released: a release would
     * make a broken lease free before its time. */
    if (self->ended && self->report.left > 0) {
        rowlock_status ignored = rowlock_client_flush(self->client, PATIENCE_US / 1000, NULL);
        (void)ignored;
        eventfd_write(self->done, 1);
        return NULL;
    }
    if (self->hold)
        self->status = release(self);
    /* If the waiting thread still uses the client, it stays open: its connections end with this
     * process. */
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

/* Reads the signals that have come, and notes the last one that would end us. */
static void take_deadly_signal(run *self)
{
    run_signal signal;
    while (run_signals_next(&self->signals, &signal)) {
        if (run_signal_is_deadly(signal.number))
            self->deadly = signal.number;
    }
}

/*
 * True: the worker has finished. False: not by `until_us`; or a signal came meanwhile, or the
 * supervisor ended, and the worker has not finished then: at once if nothing can be held yet (it
 * may be trying to connect), else when the library has had time to tidy up.
 */
static bool await_worker(run *self, int64_t say_at, int64_t until_us)
{
    bool hurried = false;
    eventfd_t ignored;
    struct pollfd fds[] = {
        {.fd = self->done, .events = POLLIN},
        {.fd = self->signals.fd, .events = POLLIN},
        {.fd = self->tells_loss ? -1 : self->supervisor.socket, .events = POLLIN},
    };
    while (!(fds[0].revents & POLLIN) && supervisor_now_us() < until_us) {
        poll(fds, sizeof fds / sizeof fds[0], run_until(say_at < until_us ? say_at : until_us));
        take_deadly_signal(self);
        self->unsupervised = self->unsupervised || fds[2].revents != 0;
        if ((self->deadly || self->unsupervised) && !hurried) {
            hurried = true;
            fds[2].fd = -1;
            until_us = supervisor_now_us() + (atomic_load(&self->connected) ? PATIENCE_US : 0);
            atomic_store(&self->hurried, true);
            rowlock_cancel_fire(self->cancel);
        }
        if (supervisor_now_us() >= say_at && !self->deadly) {
            if (self->verbose && !atomic_load(&self->waiting))
                cli_say_event("waiting", (const cli_fact[]){{"name", self->name, 0}, {0}},
                              "waiting for %s", self->name);
            say_at = INT64_MAX;
        }
    }
    if (!(fds[0].revents & POLLIN))
        return false;
    pthread_join(self->worker, NULL);
    eventfd_read(self->done, &ignored);
    return true;
}

/* ----------------------------------------------------- 1. wait for the lock */

static void say_unsupervised_wait(const run *self)
{
    cli_say("%s: the supervising process ended before the lock was acquired", self->name);
}

static void wait_for_lock(run *self)
{
    const bool over = await_worker(self, supervisor_now_us() + WAIT_SAID_US, INT64_MAX);
    run_waiting_stop(atomic_load(&self->waiting));
    take_deadly_signal(self);
    if (over)
        return;
    /* The worker is in a call that does not end. Nothing is held, or the lock ends with our
     * connections. */
    supervisor_finish(&self->supervisor);
    if (self->deadly)
        run_signal_die(self->deadly);
    say_unsupervised_wait(self);
    _exit(rowlock_status_exit(ROWLOCK_SYSTEM));
}

/* ------------------------------------ 3. release (2, the command: run_watch.c) */

/* Releases, and closes the client. If the server does not answer, ends the process without that. */
static void leave(run *self, bool hasty)
{
    bool held = self->hold != NULL;
    int64_t now = supervisor_now_us();
    self->deadly = 0;
    self->unsupervised = false;
    if (!self->client)
        return;
    if (!start_worker(self, let_go)) {
        let_go(self);
    } else if (!await_worker(self, INT64_MAX, hasty ? now + PATIENCE_US : INT64_MAX)) {
        if (self->deadly)
            run_signal_die(self->deadly);
        run_await_on_lost(self);
        _exit(self->exit_status);
    }
    if (held)
        run_judge_release(self, now - self->acquired_us);
}

/* ------------------------------------------------------------- altogether */

static int system_error(const char *what)
{
    cli_say("%s: %s", what, strerror(errno));
    return rowlock_status_exit(ROWLOCK_SYSTEM);
}

/* The library's label, "user@host pid command", with the name of COMMAND instead of our own. */
static void make_label(run *self)
{
    char host[65] = "?";
    char user[24];
    const struct passwd *entry = getpwuid(geteuid());
    const char *base = strrchr(self->command, '/');
    snprintf(user, sizeof user, "%lu", (unsigned long)geteuid());
    gethostname(host, sizeof host - 1);
    snprintf(self->label, sizeof self->label, "%s@%s %d %s", entry ? entry->pw_name : user, host,
             (int)getpid(), base ? base + 1 : self->command);
}

static void set_client_options(run *self)
{
    rowlock_client_options *client = &self->options.context.client;
    make_label(self);
    client->label = self->options.label && *self->options.label ? self->options.label : self->label;
    log_data = client->log_data;
    if (client->log) {
        client->log = log_past_waiting_line;
        client->log_data = self;
    }
}

bool run_prepare(run *self, bool again)
{
    static char shell[] = "sh";
    static char script[] = "-c";
    const char *text = self->options.on_lost;
    char *on_lost[] = {shell, script, NULL, NULL};
    again = again || text;
    const supervisor_job job = {self->name,
                                self->options.command,
                                text ? on_lost : NULL,
                                &self->signals,
                                self->options.pass_password,
                                self->options.children,
                                self->options.kill_after_ms * 1000,
                                self->options.alive_ms * 1000,
                                self->options.acquire.value,
                                again};
    const int64_t ttl_us = self->options.acquire.ttl_ms * 1000;
    pthread_mutex_init(&self->mutex, NULL);
    set_client_options(self);
    self->again = again;
    self->grace_us = between(0, ttl_us / 4, GRACE_MAX_US);
    self->margin_us = between(MARGIN_MIN_US, ttl_us / 20, MARGIN_MAX_US);
    if (!run_signals_take(&self->signals) || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        self->exit_status = system_error("cannot start");
        return false;
    }
    if (!descendants_start(&self->before)) {
        self->exit_status = system_error("cannot look into /proc for what the command starts");
        return false;
    }
    self->done = eventfd(0, EFD_CLOEXEC);
    char *copy = text ? cli_need(strdup(text)) : NULL;
    on_lost[2] = copy;
    const bool started = self->done >= 0 && supervisor_start(&self->supervisor, &job);
    free(copy); /* the supervisor is a process, with memory of its own */
    if (!started) {
        self->exit_status = system_error("cannot start the supervising process");
        return false;
    }
    if (rowlock_cancel_new(&self->cancel, &self->err) != ROWLOCK_OK) {
        self->exit_status = cli_fail(&self->err);
        return false;
    }
    return true;
}

/* The exit status if the lock was not acquired; with -E 0, a lock that somebody else holds is no
 * failure. */
static int not_got(run *self)
{
    if (self->refused) {
        cli_fail(&self->err);
        return self->refused;
    }
    bool conflict = self->status == ROWLOCK_BUSY || self->status == ROWLOCK_TIMEOUT;
    if (!conflict)
        return cli_fail(&self->err);
    if (self->options.not_got != 0)
        cli_fail(&self->err);
    return (int)self->options.not_got;
}

static void report(const run *self, bool began)
{
    const int error = self->report.exec_error;
    const int64_t held_us = self->acquired_us ? supervisor_now_us() - self->acquired_us : 0;
    if (self->options.report)
        *self->options.report =
            (run_report){.began = began && !error,
                         .not_executed = error && !supervisor_error_may_pass(error),
                         .status = self->status,
                         .held_us = held_us};
}

static void guard_command(run *self)
{
    if (self->options.begin)
        self->options.begin(&self->options);
    if (!start_worker(self, get_lock)) {
        self->exit_status = system_error("cannot start a thread");
        return;
    }
    wait_for_lock(self);
    const int deadly = self->deadly;
    report(self, false);
    if (deadly || self->unsupervised || self->status != ROWLOCK_OK) {
        if (self->unsupervised)
            say_unsupervised_wait(self);
        self->exit_status = deadly               ? 128 + deadly
                            : self->unsupervised ? rowlock_status_exit(ROWLOCK_SYSTEM)
                                                 : not_got(self);
        self->note = "the command was not started";
        supervisor_finish(&self->supervisor);
        leave(self, deadly != 0);
        if (deadly)
            run_signal_die(deadly);
        return;
    }
    if (!self->hold) {
        supervisor_finish(&self->supervisor);
        leave(self, false);
        return;
    }
    self->acquired_us = supervisor_now_us();
    run_say_acquired(self);
    report(self, true);
    if (run_begin_command(self))
        run_watch_command(self);
    run_signals_follow_no_more(&self->signals);
    run_judge(self);
    if (run_was_lost(self)) {
        self->status = ROWLOCK_LOST;
        run_begin_on_lost(self);
    }
    report(self, true);
    leave(self, run_was_lost(self));
    report(self, true);
    run_await_on_lost(self);
    run_say_children(self); /* after the release: stderr may be a pipe that nobody reads */
    supervisor_finish(&self->supervisor);
}

int run_options_run(void *into)
{
    static run self; /* other threads may outlive this call */
    const run_options *options = into;
    if (options->log)
        cli_say_json();
    self = (run){.options = *options,
                 .name = options->name,
                 .command = options->command[0],
                 .verbose = options->context.verbose > 0};
    if (run_prepare(&self, false))
        guard_command(&self);
    rowlock_cancel_free(self.cancel);
    descendants_forget(&self.before);
    return self.exit_status;
}
