/* cli/run_waiting.c - shows why a `run` waits, on a terminal or with -v. See run.h. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rowlock/rowlock_quorum.h"
#include "run.h"
#include "table.h"
#include "usual.h"

enum {
    FIRST_MS = 300, /* a shorter wait is not shown */
    REFRESH_MS = 1000,
    FINISH_MS = 500,
    COUNT_EVERY_MS = 5000, /* counting takes a new connection to each member */
    COLUMNS_MIN = 30       /* less shows nothing worth reading */
};

#define TOO_FEW (UINT64_MAX - 1) /* in place of a holder's token, for told */

struct run_waiting {
    rowlock_client *client;
    const rowlock_client_options *options; /* the client's */
    const char *name;
    int64_t wait_ms; /* -1: for ever */
    int64_t since_us;
    bool terminal;          /* false: lines with -v */
    cli_usual usual;        /* read once, by the thread */
    char few[100];          /* the text that too few members of a quorum vote; "": enough do */
    int64_t count_again_us; /* when to count them again */
    pthread_t thread;
    int stopped, ended;    /* eventfds */
    pthread_mutex_t mutex; /* guards the members below, and writing to the terminal */
    bool shown;
};

/* ---------------------------------------------------------------- the line */

/* How much of the text is left out. */
typedef enum brevity { WHOLE, NO_LEASE, TERSE, SHORT_NAME, SHORTEST } brevity;

/* "12s of 5m" */
static void say_waited(const run_waiting *self, char *out, size_t size)
{
    char humane[CLI_HUMANE];
    char all[CLI_HUMANE] = "";
    const int64_t ms = (supervisor_now_us() - self->since_us) / 1000;
    cli_humane(ms, humane, sizeof humane);
    if (self->wait_ms >= 0)
        cli_humane(self->wait_ms, all, sizeof all);
    const size_t length = strlen(all);
    if (length > 4 && strncmp(all + length - 3, "00", 2) == 0)
        all[length - 3] = '\0'; /* 5m00s */
    snprintf(out, size, "%s%s%s", humane, *all ? " of " : "", all);
}

/* "held by batch@app1 2257 sh for 3m12s, usually 5m00s, lease ends in 28s" */
static void say_holder(const run_waiting *self, const rowlock_info *info, brevity how, char *out,
                       size_t size)
{
    char humane[CLI_HUMANE];
    char holder[CELL_TEXT_MAX];
    const rowlock_totals *totals = &info->totals;
    const char *who = *info->owner_label || info->readers ? cli_holder(info, holder) : "somebody";
    size_t n = (size_t)snprintf(out, size, "%s%s", how >= TERSE ? "" : "held by ", who);
    if (info->held_ms >= 0 && how < TERSE && n < size)
        n += (size_t)snprintf(out + n, size - n, " for %s",
                              cli_humane(info->held_ms, humane, sizeof humane));
    if (self->usual.count > 0 && how < SHORTEST && n < size)
        n += (size_t)snprintf(out + n, size - n, ", usually %s",
                              cli_humane(self->usual.median_ms, humane, sizeof humane));
    else if (totals->holds > 0 && how < SHORTEST && n < size)
        n += (size_t)snprintf(
            out + n, size - n, ", %s on average",
            cli_humane(totals->held_us / (int64_t)totals->holds / 1000, humane, sizeof humane));
    if (info->remaining_ms >= 0 && how < NO_LEASE && n < size)
        snprintf(out + n, size - n, ", lease ends in %s",
                 cli_humane(info->remaining_ms, humane, sizeof humane));
}

/* Why the lock cannot be acquired; "": unknown, since it has just become free. */
static void say_why(const run_waiting *self, const rowlock_info *info, brevity how, char *out,
                    size_t size)
{
    char humane[CLI_HUMANE];
    char many[CELL_TEXT_MAX];
    *out = '\0';
    if (info->state == ROWLOCK_COOLING)
        snprintf(out, size, "cooling for another %s",
                 cli_humane(info->remaining_ms, humane, sizeof humane));
    else if (info->kind == ROWLOCK_KIND_BARRIER)
        snprintf(out, size, "%s have come", cli_holder(info, many));
    else if (info->slots > 0)
        snprintf(out, size, "%s are held", cli_holder(info, many));
    else if (info->state == ROWLOCK_FREE && *info->frozen_until)
        snprintf(out, size, "frozen by %s%s%s", info->frozen_by, *info->frozen_why ? ": " : "",
                 info->frozen_why);
    else if (info->state == ROWLOCK_HELD)
        say_holder(self, info, how, out, size);
}

/* `info`: NULL if it could not be read. */
static void make_text(const run_waiting *self, const char *name, const rowlock_info *info,
                      brevity how, char *out, size_t size)
{
    char so_long[2 * CLI_HUMANE + 8];
    char why[CELL_TEXT_MAX + 4 * CLI_HUMANE + 64] = "";
    if (*self->few)
        snprintf(why, sizeof why, "%s", self->few);
    else if (info)
        say_why(self, info, how, why, sizeof why);
    say_waited(self, so_long, sizeof so_long);
    if (!self->terminal) /* this line stays, so it does not say how long we have waited */
        snprintf(out, size, "waiting for %s%s%s", name, *why ? ": " : "", why);
    else if (how >= TERSE)
        snprintf(out, size, "%s, %s%s%s", so_long, name, *why ? ": " : "", why);
    else
        snprintf(out, size, "waiting %s for %s%s%s", so_long, name, *why ? ": " : "", why);
}

/* Makes the longest text that fits the columns. A shortened one leaves at most a quarter of them to
 * the name. */
static void make_line(const run_waiting *self, const rowlock_info *info, size_t columns, char *out,
                      size_t size)
{
    char text[8192];
    char name[4096];
    cli_printable_into(name, sizeof name, self->name);
    for (brevity how = WHOLE; how <= SHORTEST; how++) {
        const size_t most = how < SHORT_NAME ? SIZE_MAX : columns / 4;
        char *cut = cli_width(name) > most ? cli_cut(name, most, true) : NULL;
        make_text(self, cut ? cut : name, info, how, text, sizeof text);
        free(cut);
        cli_printable_into(out, size, text);
        if (cli_width(out) < columns)
            return;
    }
    char *cut = cli_cut(out, columns - 1, false);
    if (cut)
        snprintf(out, size, "%s", cut);
    free(cut);
}

/* Erases from the beginning of the line, where the cursor stays, to the end of the screen: a
 * terminal that was made narrower may have wrapped the line. */
#define ERASURE "\r\033[J"

static void erase(run_waiting *self)
{
    if (self->shown)
        cli_write(STDERR_FILENO, ERASURE, sizeof ERASURE - 1);
    self->shown = false;
}

/* Leaves the last column free, since some terminals begin a new line there. */
static void draw(run_waiting *self, const char *text)
{
    char line[8192 + 16];
    size_t columns = cli_terminal_width(STDERR_FILENO);
    size_t used;
    if (columns < COLUMNS_MIN || tcgetpgrp(STDERR_FILENO) != getpgrp()) {
        erase(self); /* the terminal is too narrow now, or we are in the background */
        return;
    }
    size_t length = cli_fit(text, columns - 1, &used);
    int size = snprintf(line, sizeof line, ERASURE "%.*s\r", (int)length, text);
    cli_write(STDERR_FILENO, line, (size_t)size);
    self->shown = true;
}

/* --------------------------------------------------------------- the thread */

/* Waits up to `ms` for the event. */
static bool is_set(int event, int ms)
{
    return poll(&(struct pollfd){.fd = event, .events = POLLIN}, 1, ms) > 0;
}

static void count_votes(run_waiting *self)
{
    rowlock_quorum *quorum;
    if (self->options->member_count == 0 || supervisor_now_us() < self->count_again_us)
        return;
    *self->few = '\0';
    if (cli_quorum_look(self->options, &quorum, NULL) == ROWLOCK_OK) {
        const size_t voting = rowlock_quorum_voting(quorum);
        if (voting < rowlock_quorum_needed(quorum))
            snprintf(self->few, sizeof self->few,
                     "only %zu of %zu members vote, and %zu are needed", voting,
                     rowlock_quorum_count(quorum), rowlock_quorum_needed(quorum));
        rowlock_quorum_free(quorum);
    }
    self->count_again_us = supervisor_now_us() + COUNT_EVERY_MS * INT64_C(1000);
}

/* Called without the mutex, since it may take long. `token`: the present holder's; 0: none. */
static void look(run_waiting *self, char *text, size_t size, uint64_t *token)
{
    rowlock_list *list = NULL;
    const size_t columns = self->terminal ? cli_terminal_width(STDERR_FILENO) : SIZE_MAX;
    if (rowlock_list_one(self->client, self->name, &list, NULL) != ROWLOCK_OK)
        list = NULL;
    const rowlock_info *info = list ? rowlock_list_at(list, 0) : NULL;
    *token = info && info->state == ROWLOCK_HELD ? info->token : 0;
    if (!info || info->state == ROWLOCK_FREE)
        count_votes(self);
    else
        *self->few = '\0';
    *token = *self->few ? TOO_FEW : *token;
    make_line(self, info, columns, text, size);
    rowlock_list_free(list);
}

static void *show_line(void *data)
{
    run_waiting *self = data;
    char text[8192];
    uint64_t token = 0;
    uint64_t told = UINT64_MAX; /* the token of the last printed line: one line for each holder */
    for (int ms = FIRST_MS; !is_set(self->stopped, ms); ms = REFRESH_MS) {
        if (ms == FIRST_MS)
            self->usual = cli_usual_of(self->client, self->name);
        look(self, text, sizeof text, &token);
        pthread_mutex_lock(&self->mutex);
        if (!is_set(self->stopped, 0) && self->terminal)
            draw(self, text);
        else if (!is_set(self->stopped, 0) && token != told && (token > 0 || told == UINT64_MAX))
            cli_say_event("waiting", (const cli_fact[]){{"name", self->name, 0}, {0}}, "%s", text);
        told = token > 0 || told == UINT64_MAX ? token : told;
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

run_waiting *run_waiting_start(rowlock_client *client, const rowlock_client_options *options,
                               const char *name, int64_t wait_ms, bool verbose)
{
    const size_t columns = cli_says_json() ? 0 : cli_terminal_width(STDERR_FILENO);
    if (columns == 0 ? !verbose : columns < COLUMNS_MIN)
        return NULL;
    run_waiting *self = calloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->client = client;
    self->options = options;
    self->name = name;
    self->wait_ms = wait_ms;
    self->since_us = supervisor_now_us();
    self->terminal = columns > 0;
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
