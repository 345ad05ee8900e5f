/* cli/supervise.c - the supervisor's own process; see supervisor.h. */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"
#include "descendants.h"

typedef struct supervision {
    const supervisor_job *job;
    supervisor_page *page;
    pid_t parent;
    pid_t parent_group;
    int socket;  /* brings orders, and shows when our parent ends */
    int deaths;  /* a signalfd of SIGCHLD */
    int timer;   /* for the next deadline */
    int failure; /* brings the errno of a failed exec(); -1: the command runs */
    bool begun;
    bool reaped;
    bool childless;
    bool minded;
    bool told_stop; /* our parent was told that the command is stopped */
    pid_t command;
    int input; /* the command's stdin; 0: ours */
    /* A pipe into which the command writes to show life. We keep the writing end open, too, so that
     * the reading end, which does not block, never shows an end of file. -1: no --alive. */
    int life[2];
    int64_t silent_at_us; /* the command is ended if it has shown no life by then; INT64_MAX: no
                             such time, or it is being ended */
    supervisor_go go;
    int64_t kill_left_us; /* when SIGKILL follows ask_all(); INT64_MAX: never */
    process_list asked;
    int64_t told_until_us; /* after a loss: when processes that are left get SIGKILL */
    supervisor_report report;
} supervision;

/* We had no children before the command: all our descendants are the command's. */
static const process_list none;

/* -------------------------------------------------------------- the command */

/* Unsets an empty one, since a `rowlock run` around this one may have set it. */
static void set_or_unset(const char *name, const char *value)
{
    if (*value)
        setenv(name, value, 1);
    else
        unsetenv(name);
}

/* The command that the present order has begun. */
static char **begun_by(const supervision *self)
{
    return *self->go.lost_because ? self->job->on_lost : self->job->command;
}

static bool must_show_life(const supervision *self)
{
    return self->job->alive_us > 0 && !*self->go.lost_because;
}

/* A `rowlock run` inside a worker's COMMAND has no item: it leaves the worker's variables as they
 * are. */
static void set_item(const supervisor_item *item)
{
    setenv("ROWLOCK_ITEM_ID", item->id, 1);
    set_or_unset("ROWLOCK_ITEM_KEY", item->key);
    setenv("ROWLOCK_ITEM_ATTEMPT", item->attempt, 1);
    setenv("ROWLOCK_ITEM_TOKEN", item->token, 1);
}

static void set_environment(const supervision *self)
{
    setenv("ROWLOCK_NAME", self->job->name, 1);
    set_or_unset("ROWLOCK_OWNER", self->go.owner);
    set_or_unset("ROWLOCK_TOKEN", self->go.token);
    set_or_unset("ROWLOCK_INIT_COMMAND", *self->go.lost_because ? "" : self->go.init_command);
    set_or_unset("ROWLOCK_SLOT", self->go.slots);
    set_or_unset("ROWLOCK_PERIOD_START", self->go.period.start);
    set_or_unset("ROWLOCK_PERIOD_END", self->go.period.end);
    set_or_unset("ROWLOCK_ATTEMPT", self->go.period.attempt);
    set_or_unset("ROWLOCK_VALUE", self->job->value ? self->job->value : "");
    set_or_unset("ROWLOCK_LOST", self->go.lost_because);
    if (*self->go.item.id)
        set_item(&self->go.item);
    if (!self->job->pass_password)
        cli_secret_environment();
}

/* Passes the pipe under a number of one digit if one is free: the ">&N" of `sh` takes no others. It
 * overwrites neither descriptors that our caller meant for the command, nor `failure`. */
static void pass_life(int end, int failure)
{
    char number[12];
    int as = end;
    for (int fd = 9; fd > STDERR_FILENO; fd--) {
        const int flags = fcntl(fd, F_GETFD);
        if (fd != failure && (flags < 0 || flags & FD_CLOEXEC))
            as = fd;
    }
    if (as == end)
        fcntl(as, F_SETFD, 0);
    else
        dup2(end, as);
    snprintf(number, sizeof number, "%d", as);
    setenv("ROWLOCK_ALIVE_FD", number, 1);
}

/* Runs in the new process. exec() closes all our other descriptors. */
static _Noreturn void become_command(const supervision *self, pid_t supervisor_pid, int failure)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor_pid)
        _exit(127); /* it died before prctl() could tie us to it */
    setpgid(0, self->go.own_group ? 0 : self->parent_group);
    if (self->input > 0)
        dup2(self->input, STDIN_FILENO);
    set_environment(self);
    if (must_show_life(self))
        pass_life(self->life[1], failure);
    run_signals_give_back(self->job->signals);
    execvp(begun_by(self)[0], begun_by(self));
    int error = errno;
    cli_write(failure, &error, sizeof error);
    _exit(127);
}

static void close_input(supervision *self)
{
    if (self->input > 0)
        close(self->input);
    self->input = 0;
}

static void begin(supervision *self)
{
    int ends[2];
    pid_t supervisor_pid = getpid();
    self->begun = true;
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        self->report.exec_error = errno;
        self->reaped = true;
        return;
    }
    self->command = fork();
    if (self->command == 0)
        become_command(self, supervisor_pid, ends[1]);
    self->reaped = self->command < 0;
    self->report.exec_error = self->command < 0 ? errno : 0;
    self->failure = ends[0];
    if (must_show_life(self))
        self->silent_at_us = supervisor_now_us() + self->job->alive_us;
    close(ends[1]);
    close_input(self);
}

/* Reads once, so that a command that writes without end does not keep us from a deadline. The time
 * of the write is unknown; if we read late, the command has longer. */
static void hear_life(supervision *self)
{
    char bytes[65536];
    if (self->silent_at_us < INT64_MAX && read(self->life[0], bytes, sizeof bytes) > 0)
        self->silent_at_us = supervisor_now_us() + self->job->alive_us;
}

/* The pipe brings the errno of a failed exec(), else an end of file. */
static void hear_failure(supervision *self)
{
    if (self->failure < 0)
        return;
    ssize_t length = read(self->failure, &self->report.exec_error, sizeof self->report.exec_error);
    if (length < 0)
        return;
    close(self->failure);
    self->failure = -1;
}

/* ------------------------------------------------------------- job control */

static void signal_parent(const supervision *self, int number)
{
    if (getppid() == self->parent)
        kill(self->parent, number);
}

static void send_news(const supervision *self, supervisor_news news, int status)
{
    supervisor_report report = {.news = news, .command = self->command, .status = status};
    send(self->socket, &report, sizeof report, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/*
 * If we run as a job, our parent stops when the command does (run_signals_follow()): otherwise the
 * shell would not get its terminal back from a command that stops by itself (a shell's `suspend`).
 */
static void follow_stop(supervision *self, int number)
{
    if (self->go.is_job) {
        self->told_stop = true;
        send_news(self, NEWS_STOPPED, number);
    } else if (number == SIGTSTP && !self->go.own_group &&
               descendants_group_is_orphaned(self->parent_group)) {
        /* A ^Z without a shell that could continue the command (ssh -t): we undo it. If we were not
         * its parent, the kernel would have ignored it. */
        kill(-self->parent_group, SIGCONT);
    }
}

static void follow_continuation(supervision *self)
{
    if (self->told_stop)
        signal_parent(self, SIGCONT);
    self->told_stop = false;
}

/* --------------------------------------------------------------------- ends */

static void note_change(supervision *self, int status)
{
    if (WIFSTOPPED(status)) {
        follow_stop(self, WSTOPSIG(status));
    } else if (WIFCONTINUED(status)) {
        follow_continuation(self);
    } else {
        self->reaped = true;
        self->report.status = status;
        /* Children that we wait for may still be stopped. */
        if (self->job->children != CHILDREN_WAIT)
            follow_continuation(self);
    }
}

/* Reaps the command, and orphans that have become our children. */
static bool reap(void *data)
{
    supervision *self = data;
    for (int status;;) {
        pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED);
        if (pid == 0 || (pid < 0 && errno != EINTR)) {
            self->childless = pid < 0;
            return self->childless;
        }
        if (pid == self->command)
            note_change(self, status);
    }
}

static void kill_all(supervision *self)
{
    self->report.killed = true;
    self->report.left = descendants_end(&none, reap, self);
    hear_failure(self);
}

/* A blocked write would delay our end, and perhaps the release of the lock. */
static bool is_stderr_ready(void)
{
    struct pollfd out = {.fd = STDERR_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) == 1 && out.revents == POLLOUT;
}

/* Our parent is gone, and nobody renews or releases the lock: kills all descendants. */
static _Noreturn void abandon(supervision *self)
{
    if (self->begun) {
        const supervisor_item *item = &self->go.item;
        kill_all(self);
        if (*item->id && is_stderr_ready())
            cli_say("%s: item %s, attempt %s: rowlock itself was killed; %s was ended; the item is "
                    "delivered again when its lease is over",
                    self->job->name, item->id, item->attempt, begun_by(self)[0]);
        else if (is_stderr_ready())
            cli_say("%s: rowlock itself was killed; %s was ended", self->job->name,
                    begun_by(self)[0]);
    }
    _exit(0);
}

/* Waits until the parent's end of the socket is closed, or reset, if it had not read everything. */
static void await_end_of_parent(const supervision *self)
{
    supervisor_order ignored;
    ssize_t length;
    do {
        length = recv(self->socket, &ignored, sizeof ignored, 0);
    } while (length > 0 || (length < 0 && errno == EINTR));
}

/* Returns to the state before a command, to wait for the next order. */
static void rest(supervision *self)
{
    descendants_forget(&self->asked);
    close_input(self);
    self->begun = self->reaped = self->minded = self->told_stop = false;
    self->command = 0;
    self->kill_left_us = self->silent_at_us = INT64_MAX;
    self->report = (supervisor_report){.news = NEWS_END};
}

/*
 * Sends the last report on this command. Our parent then ends us, or orders another command. If it
 * is killed before it has read the report, it has not released the lock, so the command's processes
 * must not live on.
 */
static void send_report(supervision *self)
{
    self->report.news = NEWS_END;
    send(self->socket, &self->report, sizeof self->report, MSG_NOSIGNAL);
    if (!self->go.own_group)
        signal_parent(self, SIGCONT); /* it may be stopped, and must end, too */
    if (!self->childless) {
        await_end_of_parent(self);
        abandon(self);
    }
    if (!self->job->again)
        _exit(0);
    rest(self);
}

/* Sends SIGTERM to all descendants, also to those that ask_all() has told before. */
static void tell_all(supervision *self, int64_t kill_at_us)
{
    self->report.told = true;
    self->told_until_us = kill_at_us;
    descendants_forget(&self->asked);
    descendants_tell(&none, &self->asked);
}

/* Asks all descendants to end. This is no loss: we keep the lock until they have ended. */
static void ask_all(supervision *self)
{
    int64_t kill_at = supervisor_now_us() + self->job->kill_after_us;
    if (kill_at < self->kill_left_us)
        self->kill_left_us = kill_at;
    descendants_tell(&none, &self->asked);
}

/* Kills the descendants when --kill-after is over. It waits for those that it may not kill, since
 * they work on under our lock. */
static void kill_left(supervision *self)
{
    self->kill_left_us = INT64_MAX;
    self->report.forced = descendants_count(&none);
    int left = descendants_end(&none, reap, self);
    if (left > 0 && is_stderr_ready())
        cli_say("%s: not allowed to end %d of the processes that %s started; waiting for them",
                self->job->name, left, self->job->command[0]);
}

/* Until then the command must show life. Children that are waited for must, too. */
static int64_t silent_at(const supervision *self)
{
    const bool works = self->job->children == CHILDREN_WAIT ? !self->childless : !self->reaped;
    return works ? self->silent_at_us : INT64_MAX;
}

/* Ends a command that has shown no life for --alive. */
static void mind_life(supervision *self)
{
    hear_life(self);
    if (supervisor_now_us() < silent_at(self))
        return;
    self->silent_at_us = INT64_MAX;
    self->report.silent = true;
    ask_all(self);
}

/* Done once, when the command has ended before its children. */
static void mind_children(supervision *self)
{
    if (self->minded)
        return;
    self->minded = true;
    send_news(self, NEWS_BEHIND, 0);
    self->report.behind = descendants_count(&none);
    if (self->job->children == CHILDREN_END)
        ask_all(self);
}

/* Sends the last report when the command has ended, by itself or not. */
static void finish_if_over(supervision *self)
{
    const bool ended = self->report.told || self->report.silent;
    const bool leave = self->job->children == CHILDREN_LEAVE && !ended;
    if (!self->begun || !self->reaped)
        return;
    if (!self->childless && !leave) {
        mind_children(self);
        return;
    }
    hear_failure(self);
    self->report.left = self->childless ? 0 : descendants_count(&none);
    send_report(self);
}

/* ------------------------------------------------------------------- events */

/* Takes the command's stdin from the message. */
static void take_input(supervision *self, struct msghdr *message)
{
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(&self->input, CMSG_DATA(header), sizeof self->input);
}

/* Reads an order. The sockets that come with it stay open, unused, until we end, so that the server
 * sees their end only then. */
static ssize_t receive_order(supervision *self, supervisor_order *order)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int) * SUPERVISOR_SOCKETS)];
    } beside;
    struct iovec part = {.iov_base = order, .iov_len = sizeof *order};
    struct msghdr message = {
        .msg_iov = &part,
        .msg_iovlen = 1,
        .msg_control = beside.space,
        .msg_controllen = sizeof beside.space,
    };
    ssize_t length = recvmsg(self->socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (length == (ssize_t)sizeof *order && order->kind == ORDER_BEGIN && order->go.input > 0)
        take_input(self, &message);
    return length;
}

static bool asks_to_end(int number)
{
    return number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT;
}

/* While the command runs, SIGTERM is for all descendants; after its end, the other signals that ask
 * for an end, too. */
static bool is_for_all(const supervision *self, int number)
{
    if (self->job->children == CHILDREN_LEAVE)
        return false;
    return number == SIGTERM || (self->reaped && asks_to_end(number));
}

/* The command got the signal itself. A shell sends SIGCONT to the whole group of its job, and a
 * second one might undo a later ^Z. A command in another group gets only ours. */
static bool has_heard(const supervision *self, const supervisor_order *order)
{
    bool by_shell = order->number == SIGCONT && self->go.is_job;
    return order->heard || (by_shell && getpgid(self->command) == self->parent_group);
}

static void pass_on(supervision *self, const supervisor_order *order)
{
    if (!self->begun)
        return;
    if (is_for_all(self, order->number)) {
        descendants_forget(&self->asked);
        ask_all(self);
    } else if (!self->reaped && !has_heard(self, order)) {
        kill(self->command, order->number); /* it was not reaped, so the pid is still its own */
    }
}

static void obey(supervision *self)
{
    supervisor_order order;
    ssize_t length = receive_order(self, &order);
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (length != (ssize_t)sizeof order)
        abandon(self);
    switch (order.kind) {
    case ORDER_BEGIN:
        /* Our parent may have been stopped since it acquired the lock. */
        self->report.too_late = supervisor_now_us() >= atomic_load(&self->page->kill_at_us);
        self->go = order.go;
        if (self->report.too_late)
            send_report(self);
        else
            begin(self);
        break;
    case ORDER_SIGNAL:
        pass_on(self, &order);
        break;
    case ORDER_ASK:
        if (self->begun && !self->reaped && self->command > 0)
            kill(self->command, order.number);
        break;
    case ORDER_KILL:
        /* The order may have crossed our last report. */
        if (!self->begun)
            break;
        kill_all(self);
        send_report(self);
    }
}

static void mind_deadline(supervision *self)
{
    int64_t now = supervisor_now_us();
    int64_t kill_at = atomic_load(&self->page->kill_at_us);
    if (!self->begun)
        return;
    if (now >= kill_at || (self->report.told && self->reaped && now >= self->told_until_us)) {
        kill_all(self);
        send_report(self);
        return;
    }
    if (!self->report.told && now >= kill_at - self->go.grace_us)
        tell_all(self, kill_at);
    if (now >= self->kill_left_us)
        kill_left(self);
}

/* The timer's clock goes on while the machine is suspended; poll()'s does not. If our parent moves
 * the deadline, we wake up early and set the timer again. */
static void set_timer(supervision *self)
{
    int64_t at = atomic_load(&self->page->kill_at_us);
    if (!self->begun || at == INT64_MAX)
        return;
    if (!self->report.told)
        at -= self->go.grace_us;
    else if (self->reaped && self->told_until_us < at)
        at = self->told_until_us;
    if (self->kill_left_us < at)
        at = self->kill_left_us;
    if (silent_at(self) < at)
        at = silent_at(self);
    if (at < 1)
        at = 1;
    struct itimerspec when = {.it_value = {at / 1000000, at % 1000000 * 1000}};
    timerfd_settime(self->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static void drain(int fd)
{
    char bytes[1024];
    while (read(fd, bytes, sizeof bytes) > 0)
        continue;
}

static _Noreturn void watch(supervision *self)
{
    for (;;) {
        set_timer(self);
        struct pollfd fds[] = {
            {.fd = self->socket, .events = POLLIN},
            {.fd = self->deaths, .events = POLLIN},
            {.fd = self->timer, .events = POLLIN},
            {.fd = self->failure, .events = POLLIN},
            {.fd = self->silent_at_us < INT64_MAX ? self->life[0] : -1, .events = POLLIN},
        };
        poll(fds, sizeof fds / sizeof fds[0], -1);
        drain(self->timer);
        drain(self->deaths);
        mind_deadline(self);
        /* Reaps first: a signal that comes after the command's death is for its children. */
        reap(self);
        if (fds[0].revents)
            obey(self);
        if (fds[3].revents)
            hear_failure(self);
        reap(self);
        mind_life(self);
        finish_if_over(self);
    }
}

/*
 * The supervisor has a process group of its own and blocks every signal: neither a ^Z or ^C at the
 * terminal nor a `kill -9 -GROUP` at `rowlock` may reach the process that cleans up afterwards.
 */
void supervise(const supervisor_job *job, int socket, supervisor_page *page, pid_t group)
{
    sigset_t all;
    sigset_t child;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    setpgid(0, 0);
    prctl(PR_SET_NAME, "rowlock-super", 0, 0, 0);
    supervision self = {
        .job = job,
        .page = page,
        .parent = getppid(),
        .parent_group = group,
        .socket = socket,
        .deaths = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK),
        .timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK),
        .failure = -1,
        .life = {-1, -1},
        .kill_left_us = INT64_MAX,
        .silent_at_us = INT64_MAX,
    };
    const bool has_life = job->alive_us == 0 || (pipe2(self.life, O_CLOEXEC) == 0 &&
                                                 fcntl(self.life[0], F_SETFL, O_NONBLOCK) == 0);
    if (!has_life || self.deaths < 0 || self.timer < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0)
        _exit(rowlock_status_exit(ROWLOCK_SYSTEM));
    watch(&self);
}
