/*
 * cli/queue_worker.c - one worker of `queue work`: takes items, and runs COMMAND for one after the
 * other. See queue.h.
 *
 * It is made of the parts of `rowlock run` (run.h): a supervisor, signals through a descriptor, a
 * second thread for calls of the library that may block. But a single supervisor starts all its
 * commands, one after the other: no other one can be forked once there is a connection.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "queue.h"

enum {
    CONNECT_MS = 86400000, /* an unreachable server is waited for, too */
    RETRY_FIRST_MS = 1000, /* as rowlock_item_retry() has it ... */
    RETRY_DOUBLED = 12,    /* ... after so many attempts */
    RETRY_MOST_MS = 3600000,
    PATIENCE_US = 2000000,   /* at the end, for a server that does not answer ... */
    PATIENCE_ITEM_US = 10000 /* ... and this much longer for each item that is left */
};

typedef enum wanted { WORK, DRAIN, END } wanted;

typedef struct worker {
    run run; /* first, so that hear() can get the worker from it */
    const queue_job *job;
    wanted wanted;
    rowlock_item *items[ROWLOCK_QUEUE_BATCH_MAX]; /* those from `next` on were not begun yet */
    size_t next, count;
    /* The item that COMMAND works on. */
    int64_t began_us;
    char why[400]; /* why it was not done; "": it was */
    char then[64]; /* what becomes of it */

    bool last; /* this worker ends after the present item */
    int exit_status;
} worker;

/* SIGTERM: takes no further item. SIGUSR1: ends COMMAND, too. See queue_pool.c. */
static void hear(run *self, int number)
{
    worker *w = (worker *)self;
    if (number == SIGTERM && w->wanted == WORK)
        w->wanted = DRAIN;
    if (number != SIGUSR1)
        return;
    w->wanted = END;
    supervisor_signal(&self->supervisor, SIGTERM, false);
}

/* ---------------------------------------------------------- the second thread */

static rowlock_status take_items(worker *w)
{
    run *self = &w->run;
    const rowlock_take_options options = {.wait_ms = ROWLOCK_WAIT_FOREVER,
                                          .ttl_ms = self->options.acquire.ttl_ms,
                                          .cancel = self->cancel};
    rowlock_status status = ROWLOCK_OK;
    if (!self->client)
        status = rowlock_client_open(&self->options.context.client, &self->client, &self->err);
    if (status != ROWLOCK_OK)
        return status;
    atomic_store(&self->connected, true);
    return rowlock_queue_take_batch(self->client, self->name, w->job->batch, &options, w->items,
                                    &w->count, &self->err);
}

static void say_then(worker *w, const char *then)
{
    snprintf(w->then, sizeof w->then, "%s", then);
}

/* Says the longest delay: the library chooses a random one up to that (rowlock_item_retry()). */
static void say_retry(worker *w)
{
    const unsigned attempt = rowlock_item_attempt(w->run.item);
    char most[CLI_HUMANE];
    if (attempt >= rowlock_item_attempts(w->run.item)) {
        say_then(w, "it is dead now");
        return;
    }
    cli_humane(attempt > RETRY_DOUBLED ? RETRY_MOST_MS : RETRY_FIRST_MS << (attempt - 1), most,
               sizeof most);
    snprintf(w->then, sizeof w->then, "it is retried within %s", most);
}

static rowlock_status end_item(worker *w)
{
    run *self = &w->run;
    const rowlock_retry_options retry = {.reason = w->why};
    const bool by_itself = !self->ended && !self->report.exec_error;
    if (!*w->why)
        return rowlock_item_done(self->item, &self->err);
    if (self->report.exec_error || (by_itself && w->wanted == END)) {
        say_then(w, "it is ready again");
        return rowlock_item_release(self->item, &self->err);
    }
    if (by_itself && w->job->dead_on > 0 && self->exit_status == (int)w->job->dead_on) {
        say_then(w, "it is dead now");
        return rowlock_item_dead(self->item, w->why, &self->err);
    }
    say_retry(w);
    return rowlock_item_retry(self->item, &retry, &self->err);
}

/* Gives back the items that were not begun, then closes the client. */
static rowlock_status give_back(worker *w)
{
    for (; w->next < w->count; w->next++) {
        rowlock_status ignored = rowlock_item_release(w->items[w->next], NULL);
        (void)ignored;
    }
    rowlock_client_close(w->run.client);
    return ROWLOCK_OK;
}

typedef struct aside {
    worker *w;
    rowlock_status (*work)(worker *w);
} aside;

static void *work_aside(void *data)
{
    const aside *a = data;
    run *self = &a->w->run;
    self->status = a->work(a->w);
    eventfd_write(self->done, 1);
    return NULL;
}

/* Ends the process while the second thread is in a call that does not end. The leases of held items
 * expire. */
_Noreturn static void end_without(worker *w)
{
    supervisor_finish(&w->run.supervisor);
    _exit(w->exit_status      ? w->exit_status
          : w->wanted == WORK ? rowlock_status_exit(ROWLOCK_SYSTEM)
                              : 0);
}

/* How long we wait for the second thread: it may have to give back each item that is left of a
 * batch. */
static int64_t patience_us(const worker *w)
{
    if (!atomic_load(&w->run.connected))
        return 0;
    return PATIENCE_US + (int64_t)(w->count - w->next) * PATIENCE_ITEM_US;
}

/*
 * Does `work` in the second thread, and hears signals meanwhile. At the signal `hurried_from` or a
 * later one, or if the supervisor has ended, it cancels the work. If that does not end, the process
 * does: at once if it cannot hold anything yet (it may still be connecting), else after the library
 * has had time to tidy up.
 */
static rowlock_status do_aside(worker *w, rowlock_status (*work)(worker *w), wanted hurried_from)
{
    static aside a; /* the thread may outlive this call */
    run *self = &w->run;
    int64_t until_us = INT64_MAX;
    eventfd_t ignored;
    run_signal signal;
    struct pollfd fds[] = {
        {.fd = self->done, .events = POLLIN},
        {.fd = self->signals.fd, .events = POLLIN},
        {.fd = self->supervisor.socket, .events = POLLIN},
    };
    a = (aside){w, work};
    if (pthread_create(&self->worker, NULL, work_aside, &a) != 0) {
        cli_say("%s: cannot start a thread", self->name);
        end_without(w);
    }
    while (!(fds[0].revents & POLLIN)) {
        if ((w->wanted >= hurried_from || w->last) && until_us == INT64_MAX) {
            until_us = supervisor_now_us() + patience_us(w);
            rowlock_cancel_fire(self->cancel);
        }
        poll(fds, sizeof fds / sizeof fds[0], run_until(until_us));
        while (run_signals_next(&self->signals, &signal))
            hear(self, signal.number);
        if (fds[2].revents) {
            fds[2].fd = -1;
            w->last = true;
        }
        if (supervisor_now_us() >= until_us && !(fds[0].revents & POLLIN))
            end_without(w);
    }
    pthread_join(self->worker, NULL);
    eventfd_read(self->done, &ignored);
    return self->status;
}

/* ------------------------------------------------------------------ one item */

/* A file in memory with the payload, for COMMAND's stdin. */
static int make_input(const rowlock_item *item)
{
    const char *bytes = rowlock_item_payload(item);
    size_t left = rowlock_item_size(item);
    const int fd = memfd_create("item", MFD_CLOEXEC);
    while (fd >= 0 && left > 0) {
        const ssize_t written = write(fd, bytes, left);
        if (written < 0) {
            close(fd);
            return -1;
        }
        bytes += written;
        left -= (size_t)written;
    }
    if (fd >= 0)
        lseek(fd, 0, SEEK_SET);
    return fd;
}

/* Forgets the state of the last item. */
static void forget_last(worker *w, rowlock_item *item)
{
    run *self = &w->run;
    self->item = item;
    self->lost = self->killed_here = self->ended = false;
    self->kill_at_us = 0;
    self->exit_status = 0;
    self->report = (supervisor_report){.news = NEWS_END};
    w->why[0] = '\0';
    w->then[0] = '\0';
}

/* False: COMMAND was not begun. */
static bool begin(worker *w)
{
    run *self = &w->run;
    const rowlock_item *item = self->item;
    supervisor_go go = {.own_group = true, .grace_us = self->grace_us};
    snprintf(go.item.id, sizeof go.item.id, "%" PRIu64, rowlock_item_id(item));
    snprintf(go.item.key, sizeof go.item.key, "%s", rowlock_item_key(item));
    snprintf(go.item.attempt, sizeof go.item.attempt, "%u", rowlock_item_attempt(item));
    snprintf(go.item.token, sizeof go.item.token, "%" PRIu64, rowlock_item_token(item));
    snprintf(go.token, sizeof go.token, "%s", go.item.token);
    snprintf(go.period.attempt, sizeof go.period.attempt, "%s", go.item.attempt);
    go.input = make_input(item);
    if (go.input < 0) {
        snprintf(w->why, sizeof w->why, "no memory for its payload: %s", strerror(errno));
        return false;
    }
    w->began_us = supervisor_now_us();
    const bool begun = run_begin(self, &go);
    close(go.input);
    return begun;
}

/* Notes why COMMAND was ended. */
static void judge_loss(worker *w)
{
    run *self = &w->run;
    rowlock_error err;
    const char *fate = self->report.too_late ? "was not started" : "was ended";
    if (self->killed_here && !self->lost)
        snprintf(w->why, sizeof w->why, "the supervising process ended, so %s %s", self->command,
                 fate);
    else if (rowlock_item_check(self->item, &err) == ROWLOCK_OK)
        snprintf(w->why, sizeof w->why, "its lease could not be renewed in time; %s %s",
                 self->command, fate);
    else
        snprintf(w->why, sizeof w->why, "%.240s; %s %s", err.message, self->command, fate);
}

/* Another worker begins if its COMMAND may run then: see is_final() in queue_pool.c. */
static int not_executed(int error)
{
    if (supervisor_error_may_pass(error))
        return rowlock_status_exit(ROWLOCK_SYSTEM);
    return error == ENOENT ? QUEUE_NOT_FOUND : QUEUE_CANNOT_RUN;
}

static void judge(worker *w)
{
    run *self = &w->run;
    const supervisor_report *report = &self->report;
    self->ended = report->killed || report->told || report->too_late || self->killed_here;
    if (self->killed_here || report->left > 0) {
        w->last = true;
        w->exit_status = rowlock_status_exit(ROWLOCK_SYSTEM);
    }
    if (self->ended) {
        judge_loss(w);
    } else if (report->exec_error) {
        w->last = true;
        w->exit_status = not_executed(report->exec_error);
        snprintf(w->why, sizeof w->why, "cannot run %s: %s", self->command,
                 strerror(report->exec_error));
    } else if (WIFSIGNALED(report->status)) {
        self->exit_status = 128 + WTERMSIG(report->status);
        snprintf(w->why, sizeof w->why, "signal %d", WTERMSIG(report->status));
    } else if (WEXITSTATUS(report->status) != 0) {
        self->exit_status = WEXITSTATUS(report->status);
        snprintf(w->why, sizeof w->why, "exit status %d", self->exit_status);
    }
}

/* Says what became of the item, which is freed already. */
static void say_end(const worker *w, uint64_t id, unsigned attempt, unsigned attempts)
{
    const run *self = &w->run;
    const char *then = self->status == ROWLOCK_OK     ? w->then
                       : self->status == ROWLOCK_LOST ? "it is not this worker's any more"
                                                      : self->err.message;
    char took[CLI_HUMANE];
    cli_humane((supervisor_now_us() - w->began_us) / 1000, took, sizeof took);
    if (*w->why)
        cli_say("%s: item %" PRIu64 ", attempt %u of %u: %s; %s", self->name, id, attempt, attempts,
                w->why, then);
    else if (self->status != ROWLOCK_OK && self->status != ROWLOCK_LOST)
        cli_say("%s: item %" PRIu64 ": %s has ended with 0, but: %s", self->name, id, self->command,
                then);
    else if (self->verbose)
        cli_say("%s: item %" PRIu64 ", attempt %u of %u: %s (took %s)", self->name, id, attempt,
                attempts, self->status == ROWLOCK_OK ? "done" : "was ended by somebody else", took);
}

static void work_on(worker *w, rowlock_item *item)
{
    run *self = &w->run;
    const uint64_t id = rowlock_item_id(item);
    const unsigned attempt = rowlock_item_attempt(item);
    const unsigned attempts = rowlock_item_attempts(item);
    forget_last(w, item);
    if (begin(w))
        run_watch_command(self);
    if (!*w->why)
        judge(w);
    do_aside(w, end_item, END);
    self->item = NULL;
    say_end(w, id, attempt, attempts);
    run_say_children(self);
}

/* -------------------------------------------------------------- altogether */

/* False: no item was taken, and the worker ends. */
static bool take_and_work(worker *w)
{
    run *self = &w->run;
    w->next = w->count = 0;
    const rowlock_status status = do_aside(w, take_items, DRAIN);
    if (status == ROWLOCK_CANCELLED && w->wanted != WORK)
        return false;
    if (status != ROWLOCK_OK) {
        w->exit_status = cli_fail(&self->err);
        return false;
    }
    while (w->next < w->count && w->wanted == WORK && !w->last)
        work_on(w, w->items[w->next++]);
    return w->wanted == WORK && !w->last;
}

int queue_worker_run(const queue_job *job)
{
    static worker w; /* other threads may outlive this call */
    run *self = &w.run;
    w = (worker){.job = job, .run = {.options = job->run, .hear = hear}};
    self->name = job->run.name;
    self->command = job->run.command[0];
    self->verbose = job->run.context.verbose > 0;
    if (self->options.context.client.retry_ms == 0)
        self->options.context.client.retry_ms = CONNECT_MS;
    if (!run_prepare(self, true))
        return self->exit_status;
    while (take_and_work(&w))
        continue;
    if (self->client)
        do_aside(&w, give_back, WORK);
    supervisor_finish(&self->supervisor);
    rowlock_cancel_free(self->cancel);
    descendants_forget(&self->before);
    return w.exit_status;
}
