/* cli/run_waiting.c - on a terminal, the line that says what a `run` waits for. See run.h. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "run.h"
#include "table.h"

enum {
    FIRST_MS = 300, /* a wait that is shorter needs no words */
    REFRESH_MS = 1000,
    FINISH_MS = 500,
    COLUMNS_MIN = 30 /* less shows nothing worth reading */
};

struct run_waiting {
    rowlock_client *client;
    const char *name;
    pthread_t thread;
    int stopped, ended;    /* eventfds */
    pthread_mutex_t mutex; /* guards the rest, and the terminal */
    bool shown;
};

/* ---------------------------------------------------------------- the line */

/* `info` is NULL where it could not be had. */
static void make_text(const char *name, const rowlock_info *info, char *out, size_t size)
{
    char since[CLI_HUMANE];
    char until[CLI_HUMANE];
    char lease[64] = "";
    const char *owner = info && info->owner_label[0] ? info->owner_label : "somebody";
    if (info && info->remaining_ms >= 0)
        cli_humane(info->remaining_ms, until, sizeof until);
    if (!info || info->state == ROWLOCK_FREE || info->state == ROWLOCK_EXPIRED) {
        /* Just become free; or held unfenced, which leaves no trace in the tables. */
        snprintf(out, size, "waiting for %s", name);
        return;
    }
    if (info->state == ROWLOCK_COOLING) {
        snprintf(out, size, "waiting for %s: cooling for another %s", name,
                 info->remaining_ms >= 0 ? until : "while");
        return;
    }
    if (info->remaining_ms >= 0)
        snprintf(lease, sizeof lease, ", lease until %s from now", until);
    snprintf(out, size, "waiting for %s: held by %s since %s%s", name, owner,
             cli_humane(info->held_ms, since, sizeof since), lease);
}

static void erase(run_waiting *self)
{
    static const char erasure[] = "\r\033[K";
    if (self->shown)
        cli_write(STDERR_FILENO, erasure, sizeof erasure - 1);
    self->shown = false;
}

/* The last column stays free: some terminals begin a new line there. */
static void draw(run_waiting *self, const char *text)
{
    char printable[4096];
    char line[4096 + 8];
    size_t columns = cli_terminal_width(STDERR_FILENO);
    size_t used;
    if (columns < COLUMNS_MIN || tcgetpgrp(STDERR_FILENO) != getpgrp()) {
        erase(self); /* it was made narrow, or we were put into the background */
        return;
    }
    cli_printable_into(printable, sizeof printable, text);
    size_t length = cli_fit(printable, columns - 1, &used);
    int size = snprintf(line, sizeof line, "\r%.*s\033[K", (int)length, printable);
    cli_write(STDERR_FILENO, line, (size_t)size);
    self->shown = true;
}

/* --------------------------------------------------------------- the thread */

/* Within so long. */
static bool is_set(int event, int ms)
{
    return poll(&(struct pollfd){.fd = event, .events = POLLIN}, 1, ms) > 0;
}

/* Without the mutex: it may take its time. */
static void look(run_waiting *self, char *text, size_t size)
{
    rowlock_list *list = NULL;
    if (rowlock_list_one(self->client, self->name, &list, NULL) != ROWLOCK_OK)
        list = NULL;
    make_text(self->name, list ? rowlock_list_at(list, 0) : NULL, text, size);
    rowlock_list_free(list);
}

static void *show_line(void *data)
{
    run_waiting *self = data;
    char text[2048];
    for (int ms = FIRST_MS; !is_set(self->stopped, ms); ms = REFRESH_MS) {
        look(self, text, sizeof text);
        pthread_mutex_lock(&self->mutex);
        if (!is_set(self->stopped, 0))
            draw(self, text);
        pthread_mutex_unlock(&self->mutex);
    }
    eventfd_write(self->ended, 1);
    return NULL;
}

void run_waiting_free(run_waiting *self)
{
    if (!self)
        return;
    pthread_mutex_destroy(&self->mutex);
    close(self->stopped);
    close(self->ended);
    free(self);
}

run_waiting *run_waiting_start(rowlock_client *client, const char *name)
{
    if (cli_terminal_width(STDERR_FILENO) < COLUMNS_MIN)
        return NULL;
    run_waiting *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->client = client;
    self->name = name;
    self->stopped = eventfd(0, EFD_CLOEXEC);
    self->ended = eventfd(0, EFD_CLOEXEC);
    pthread_mutex_init(&self->mutex, NULL);
    if (self->stopped >= 0 && self->ended >= 0 &&
        pthread_create(&self->thread, NULL, show_line, self) == 0)
        return self;
    run_waiting_free(self);
    return NULL;
}

void run_waiting_hide(run_waiting *self)
{
    if (!self)
        return;
    pthread_mutex_lock(&self->mutex);
    erase(self);
    pthread_mutex_unlock(&self->mutex);
}

void run_waiting_stop(run_waiting *self)
{
    if (!self)
        return;
    pthread_mutex_lock(&self->mutex);
    erase(self);
    eventfd_write(self->stopped, 1);
    pthread_mutex_unlock(&self->mutex);
}

bool run_waiting_finish(run_waiting *self)
{
    if (!self)
        return true;
    run_waiting_stop(self);
    return is_set(self->ended, FINISH_MS) && pthread_join(self->thread, NULL) == 0;
}
