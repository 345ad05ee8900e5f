/* cli/run_waiting.c - see run_waiting.h */
#include "run_waiting.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

enum {
    FIRST_MS = 300, /* a wait that is shorter needs no words */
    REFRESH_MS = 1000,
    FINISH_MS = 500,
    COLUMNS_MIN = 30,    /* less shows nothing worth reading */
    COLUMNS_DEFAULT = 80 /* of a terminal that does not know */
};

struct run_waiting {
    rowlock_client *client;
    const char *name;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards the rest, and the terminal */
    pthread_cond_t changed;
    bool shown;
    bool stopped;
    bool ended;
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
    if (info->state == ROWLOCK_SHUT) {
        snprintf(out, size, "waiting for %s: shut for another %s", name,
                 info->remaining_ms >= 0 ? until : "while");
        return;
    }
    if (info->remaining_ms >= 0)
        snprintf(lease, sizeof lease, ", lease until %s from now", until);
    snprintf(out, size, "waiting for %s: held by %s since %s%s", name, owner,
             cli_humane(info->held_ms, since, sizeof since), lease);
}

static size_t terminal_columns(void)
{
    struct winsize window;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col == 0)
        return COLUMNS_DEFAULT;
    return window.ws_col;
}

static void write_terminal(const char *text, size_t length)
{
    ssize_t ignored = write(STDERR_FILENO, text, length);
    (void)ignored;
}

static void erase(run_waiting *self)
{
    static const char erasure[] = "\r\033[K";
    if (self->shown)
        write_terminal(erasure, sizeof erasure - 1);
    self->shown = false;
}

/* The last column stays free: some terminals begin a new line there. */
static void draw(run_waiting *self, const char *text)
{
    char printable[4096];
    char line[4096 + 8];
    size_t columns = terminal_columns();
    size_t used;
    if (columns < COLUMNS_MIN || tcgetpgrp(STDERR_FILENO) != getpgrp()) {
        erase(self); /* it was made narrow, or we were put into the background */
        return;
    }
    cli_printable_into(printable, sizeof printable, text);
    size_t length = cli_fit(printable, columns - 1, &used);
    int size = snprintf(line, sizeof line, "\r%.*s\033[K", (int)length, printable);
    write_terminal(line, (size_t)size);
    self->shown = true;
}

/* --------------------------------------------------------------- the thread */

static struct timespec from_now(int ms)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_sec += ms / 1000;
    at.tv_nsec += ms % 1000 * 1000000L;
    if (at.tv_nsec >= 1000000000L) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000L;
    }
    return at;
}

/* With the mutex held. False: stopped. */
static bool sleep_for(run_waiting *self, int ms)
{
    const struct timespec until = from_now(ms);
    int result = 0;
    while (!self->stopped && result == 0)
        result = pthread_cond_timedwait(&self->changed, &self->mutex, &until);
    return !self->stopped;
}

/* Without the mutex held: it may take its time. */
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
    pthread_mutex_lock(&self->mutex);
    for (int ms = FIRST_MS; sleep_for(self, ms); ms = REFRESH_MS) {
        pthread_mutex_unlock(&self->mutex);
        look(self, text, sizeof text);
        pthread_mutex_lock(&self->mutex);
        if (!self->stopped)
            draw(self, text);
    }
    self->ended = true;
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->mutex);
    return NULL;
}

void run_waiting_free(run_waiting *self)
{
    if (!self)
        return;
    pthread_cond_destroy(&self->changed);
    pthread_mutex_destroy(&self->mutex);
    free(self);
}

run_waiting *run_waiting_start(rowlock_client *client, const char *name)
{
    pthread_condattr_t monotonic;
    if (!isatty(STDERR_FILENO) || terminal_columns() < COLUMNS_MIN)
        return NULL;
    run_waiting *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->client = client;
    self->name = name;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&self->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (pthread_create(&self->thread, NULL, show_line, self) == 0)
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
    self->stopped = true;
    erase(self);
    pthread_cond_broadcast(&self->changed);
    pthread_mutex_unlock(&self->mutex);
}

bool run_waiting_finish(run_waiting *self)
{
    const struct timespec until = from_now(FINISH_MS);
    int result = 0;
    if (!self)
        return true;
    run_waiting_stop(self);
    pthread_mutex_lock(&self->mutex);
    while (!self->ended && result == 0)
        result = pthread_cond_timedwait(&self->changed, &self->mutex, &until);
    bool ended = self->ended;
    pthread_mutex_unlock(&self->mutex);
    if (ended)
        pthread_join(self->thread, NULL);
    return ended;
}
