/* cli/run_watch.c - the second phase of `rowlock run`: the command works. See run.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run.h"

enum {
    /* We end the command ourselves if the supervisor has not done so in this time after a loss.
     * Then --on-lost is not run; so if there is one, the supervisor gets more time, in case the
     * machine is busy. */
    OVERDUE_US = 200000,
    OVERDUE_ON_LOST_US = 1000000,
    /* The time of --on-lost from its begin to its SIGKILL, which SIGTERM precedes. */
    ON_LOST_US = 10000000,
    ON_LOST_GRACE_US = 2000000,
    TICK_MIN_US = 20000,
    TICK_MAX_US = 250000 /* greatest age of the supervisor's deadline */
};

static bool has_terminal(void)
{
    int terminal = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (terminal >= 0)
        close(terminal);
    return terminal >= 0;
}

/* We are a job: a shell with job control has given us a process group, and waits for it. */
static bool is_job(void)
{
    return getsid(getppid()) == getsid(0) && getpgid(getppid()) != getpgrp();
}

static int64_t remaining_ms(const run *self)
{
    return self->item ? rowlock_item_remaining_ms(self->item)
                      : rowlock_hold_remaining_ms(self->hold);
}

static bool is_held(const run *self)
{
    return (self->item ? rowlock_item_check(self->item, NULL) : rowlock_hold_check(self->hold)) ==
           ROWLOCK_OK;
}

/* Reads the clock first, so that the deadline is too early rather than too late. */
static void move_deadline(run *self)
{
    int64_t now = supervisor_now_us();
    int64_t kill_at = now + remaining_ms(self) * 1000 - self->margin_us;
    if (kill_at <= self->kill_at_us)
        return;
    self->kill_at_us = kill_at;
    supervisor_set_deadline(&self->supervisor, kill_at);
}

/* The token of one of the names; of a name with slots, its slot's. */
static uint64_t token_of(const rowlock_hold *hold, const char *name)
{
    for (size_t i = 0; i < rowlock_hold_count(hold); i++)
        if (strcmp(rowlock_hold_name_at(hold, i), name) == 0)
            return rowlock_hold_token_at(hold, i);
    return rowlock_hold_token(hold);
}

/* The numbers of the slots: "2", or "0 3" for several. */
static void tell_slots(const rowlock_hold *hold, supervisor_go *go)
{
    size_t used = 0;
    for (size_t i = 0; rowlock_hold_slot_at(hold, i) != ROWLOCK_NO_SLOT; i++)
        used += (size_t)snprintf(go->slots + used, sizeof go->slots - used, "%s%u", i ? " " : "",
                                 rowlock_hold_slot_at(hold, i));
}

bool run_begin(run *self, const supervisor_go *go)
{
    move_deadline(self);
    self->report.too_late = supervisor_now_us() >= self->kill_at_us;
    if (self->report.too_late)
        return false;
    if (go->is_job)
        run_signals_follow(&self->signals);
    /* A row lock ends with its connection. If we are killed, our connection would end before the
     * supervisor has ended the command, so the supervisor keeps it open, too. */
    supervisor_begin(&self->supervisor, go,
                     self->hold && rowlock_hold_mode(self->hold) == ROWLOCK_PESSIMISTIC);
    return true;
}

static supervisor_go go_of(run *self)
{
    supervisor_go go = {
        .own_group = self->own_group = !has_terminal(),
        .is_job = !self->own_group && is_job(),
        .grace_us = self->grace_us,
        .period = self->period,
    };
    uint64_t token = token_of(self->hold, self->name);
    if (token > 0)
        snprintf(go.token, sizeof go.token, "%" PRIu64, token);
    tell_slots(self->hold, &go);
    snprintf(go.owner, sizeof go.owner, "%s", rowlock_hold_owner(self->hold));
    if (rowlock_hold_init_command(self->hold, go.init_command, NULL) != ROWLOCK_OK)
        *go.init_command = '\0';
    return go;
}

bool run_begin_command(run *self)
{
    self->go = go_of(self);
    return run_begin(self, &self->go);
}

/* Somebody has continued us alone, while the command stays stopped. We stop again: going on, we
 * would keep the lock for a command that does not work. */
static bool goes_on_alone(const run *self, int number)
{
    return number == SIGCONT && self->stop.command > 0 && self->signals.is_led &&
           descendants_is_stopped(self->stop.command, getpgrp());
}

/* Passes signals on to the command, except those that the kernel has sent to our whole group, and
 * so to the command. */
static void pass_signals_on(run *self)
{
    run_signal signal;
    while (run_signals_next(&self->signals, &signal)) {
        bool heard = !self->own_group && signal.of_terminal;
        if (self->hear)
            self->hear(self, signal.number);
        else if (goes_on_alone(self, signal.number))
            run_signals_stop(self->stop.status, self->stop.command);
        else
            supervisor_signal(&self->supervisor, signal.number, heard);
    }
}

/* Sends COMMAND one signal for each ask. */
static void pass_asks_on(run *self)
{
    for (const unsigned asks = atomic_load(&self->asks); self->asks_told != asks; self->asks_told++)
        if (self->options.on_ask)
            supervisor_ask(&self->supervisor, self->options.on_ask);
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

/* Ends the supervisor, then the command's processes, which have become our children. */
static void kill_here(run *self)
{
    self->killed_here = true;
    self->supervisor_status = supervisor_finish(&self->supervisor);
    self->report.left = descendants_end(&self->before, reap, NULL);
}

/* When the supervisor must have ended the command; INT64_MAX: no deadline. */
static int64_t overdue_at(const run *self, int64_t lost_at)
{
    int64_t by_deadline = self->kill_at_us + self->margin_us / 2;
    const int64_t late_us = self->options.on_lost ? OVERDUE_ON_LOST_US : OVERDUE_US;
    int64_t by_loss = self->lost ? lost_at + late_us : INT64_MAX;
    return by_deadline < by_loss ? by_deadline : by_loss;
}

/* Reads a report. True: it was the last one on the command. */
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
        if (!self->again || report.left > 0)
            supervisor_finish(&self->supervisor);
    }
    return true;
}

void run_watch_command(run *self)
{
    const int64_t tick =
        between(TICK_MIN_US, self->options.acquire.ttl_ms * 1000 / 12, TICK_MAX_US);
    int64_t lost_at = 0;
    struct pollfd fds[] = {
        {.fd = self->supervisor.socket, .events = POLLIN},
        {.fd = self->signals.fd, .events = POLLIN},
        {.fd = self->item ? rowlock_item_fd(self->item) : rowlock_hold_fd(self->hold),
         .events = POLLIN},
    };
    for (;;) {
        int64_t next = supervisor_now_us() + tick;
        int64_t overdue = overdue_at(self, lost_at);
        poll(fds, sizeof fds / sizeof fds[0], run_until(next < overdue ? next : overdue));
        pass_signals_on(self);
        pass_asks_on(self);
        if (fds[0].revents && hear_supervisor(self))
            return;
        move_deadline(self);
        if (!self->lost && !is_held(self)) {
            self->lost = true;
            lost_at = supervisor_now_us();
            fds[2].fd = -1; /* it stays readable */
            supervisor_kill(&self->supervisor);
        }
        /* poll() again, since this process may have been stopped since the first one. */
        if (supervisor_now_us() >= overdue_at(self, lost_at) && poll(fds, 1, 0) == 0) {
            self->lost = true;
            kill_here(self);
            return;
        }
    }
}

/* The same supervisor runs --on-lost, with a deadline of its own. */
void run_begin_on_lost(run *self)
{
    supervisor_go go = self->go;
    if (!self->options.on_lost || self->tells_loss || self->supervisor.pid <= 0)
        return;
    self->tells_loss = true;
    go.is_job = false;
    go.grace_us = ON_LOST_GRACE_US;
    run_lost_because(self, go.lost_because);
    supervisor_set_deadline(&self->supervisor, supervisor_now_us() + ON_LOST_US);
    supervisor_begin(&self->supervisor, &go, false);
}

void run_await_on_lost(run *self)
{
    supervisor_report report = {.news = NEWS_BEHIND};
    struct pollfd fds[] = {
        {.fd = self->supervisor.socket, .events = POLLIN},
        {.fd = self->signals.fd, .events = POLLIN},
    };
    if (!self->tells_loss)
        return;
    while (report.news != NEWS_END) {
        poll(fds, sizeof fds / sizeof fds[0], -1);
        pass_signals_on(self);
        if (fds[0].revents && !supervisor_receive(&self->supervisor, &report))
            return;
    }
    if (report.told || report.killed)
        cli_say("%s: --on-lost has taken longer than %d s, and was ended", self->name,
                ON_LOST_US / 1000000);
}
