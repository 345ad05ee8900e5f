/* cli/cmd_top.c - top: a live screen of holders and waiters, as top(1) shows processes. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "locks.h"
#include "table.h"

enum {
    INTERVAL_MS = 2000,
    INTERVAL_LEAST_MS = 100,
    STATE_COLUMNS = 8,
    TIME_COLUMNS = 7,
    WAITING_COLUMNS = 4,
    RATE_COLUMNS = 7,
    WIDE_COLUMNS = 60, /* on a narrower screen, state and rate are left out */
    LINE_MAX_BYTES = 2048
};

typedef struct top_options {
    cli_context context;
    int64_t interval_ms;
} top_options;

/* A lock that is held or waited for. */
typedef struct line {
    const rowlock_info *info;
    size_t waiters;
    double rate; /* holds ended per second; -1: not known yet */
} line;

/* The count of a name's holds at the last look. */
typedef struct counted {
    char *name;
    uint64_t holds;
} counted;

typedef struct look {
    cli_locks locks;
    line *lines;
    size_t count;
    size_t held;
    double rate; /* of all names */
} look;

typedef struct top {
    rowlock_client *client;
    int64_t interval_ms;
    int order;     /* the key that selects it */
    sigset_t ends; /* the signals that end it */
    counted *last;
    size_t last_count;
    int64_t counted_us; /* when that was */
    int64_t looked_us;  /* when it last asked, with or without an answer; 0: not yet */
    char trouble[600];  /* why the last look failed; "": it succeeded */
} top;

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* --------------------------------------------------------------------- look */

/* `from` walks through the last counts: both lists are in byte order of the names. */
static double rate_of(const top *self, const rowlock_info *info, int64_t passed_us, size_t *from)
{
    while (*from < self->last_count && strcmp(self->last[*from].name, info->name) < 0)
        (*from)++;
    if (passed_us <= 0)
        return -1;
    const bool known = *from < self->last_count && strcmp(self->last[*from].name, info->name) == 0;
    const uint64_t before = known ? self->last[*from].holds : 0;
    /* A name that was purged in between counts from 0 again. */
    const uint64_t more = info->totals.holds >= before ? info->totals.holds - before : 0;
    return (double)more * 1e6 / (double)passed_us;
}

static void forget(top *self)
{
    for (size_t i = 0; i < self->last_count; i++)
        free(self->last[i].name);
    free(self->last);
    self->last = NULL;
    self->last_count = 0;
}

static void remember(top *self, const cli_locks *locks, int64_t at_us)
{
    forget(self);
    self->last = cli_need(calloc(locks->count + 1, sizeof *self->last));
    for (size_t i = 0; i < locks->count; i++)
        self->last[self->last_count++] =
            (counted){cli_need(strdup(locks->at[i]->name)), locks->at[i]->totals.holds};
    self->counted_us = at_us;
}

static void make_lines(const top *self, look *l, int64_t at_us)
{
    size_t from = 0;
    size_t waiting_from = 0;
    const int64_t passed_us = self->last ? at_us - self->counted_us : 0;
    l->lines = cli_need(calloc(l->locks.count + 1, sizeof *l->lines));
    for (size_t i = 0; i < l->locks.count; i++) {
        const rowlock_info *info = l->locks.at[i];
        const cli_waiting its = cli_waiting_for(l->locks.waiters, info->name, waiting_from);
        const line made = {info, its.end - its.first, rate_of(self, info, passed_us, &from)};
        waiting_from = its.end;
        l->held += cli_is_held(info);
        l->rate += made.rate > 0 ? made.rate : 0;
        if (cli_is_held(info) || made.waiters > 0 || made.rate > 0)
            l->lines[l->count++] = made;
    }
}

static int by_age(const void *a, const void *b)
{
    const int64_t one = ((const line *)a)->info->held_ms;
    const int64_t other = ((const line *)b)->info->held_ms;
    return (one < other) - (one > other);
}

static int by_waiters(const void *a, const void *b)
{
    const size_t one = ((const line *)a)->waiters;
    const size_t other = ((const line *)b)->waiters;
    return one == other ? by_age(a, b) : (one < other) - (one > other);
}

static int by_rate(const void *a, const void *b)
{
    const double one = ((const line *)a)->rate;
    const double other = ((const line *)b)->rate;
    return (one < other) - (one > other);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const line *)a)->info->name, ((const line *)b)->info->name);
}

/* The orders, with the keys that select them. */
static const struct {
    int key;
    const char *word;
    int (*compare)(const void *a, const void *b);
} orders[] = {
    {'o', "oldest", by_age},
    {'w', "waiting", by_waiters},
    {'r', "rate", by_rate},
    {'n', "name", by_name},
};
enum { ORDERS = sizeof orders / sizeof orders[0] };

static void sort(const top *self, look *l)
{
    if (!l->lines)
        return;
    for (size_t i = 0; i < ORDERS; i++)
        if (orders[i].key == self->order)
            qsort(l->lines, l->count, sizeof *l->lines, orders[i].compare);
}

/* Takes a look, and keeps the counts: rates are since the last look. */
static rowlock_status take_look(top *self, look *l, rowlock_error *err)
{
    rowlock_status status = cli_locks_read(self->client, NULL, true, &l->locks, err);
    const int64_t at_us = now_us();
    if (status != ROWLOCK_OK)
        return status;
    make_lines(self, l, at_us);
    sort(self, l);
    remember(self, &l->locks, at_us);
    return ROWLOCK_OK;
}

static void end_look(look *l)
{
    cli_locks_free(&l->locks);
    free(l->lines);
    *l = (look){0};
}

/* --------------------------------------------------------------------- once */

static const cli_named states[] = {
    [ROWLOCK_FREE] = {"free", CLI_PLAIN},
    [ROWLOCK_HELD] = {"held", CLI_PLAIN},
    [ROWLOCK_EXPIRED] = {"expired", CLI_PLAIN},
    [ROWLOCK_COOLING] = {"cooling", CLI_PLAIN},
};

static const char *holder_of(const rowlock_info *info, char *text)
{
    return cli_is_held(info) ? cli_holder(info, text) : text;
}

static const char *holder_cell(const void *row, char *text)
{
    return holder_of(((const line *)row)->info, text);
}

static const char *name_cell(const void *row, char *text)
{
    (void)text;
    return ((const line *)row)->info->name;
}

static const char *state_cell(const void *row, char *text)
{
    (void)text;
    return states[((const line *)row)->info->state].word;
}

static const char *held_cell(const void *row, char *text)
{
    const int64_t ms = ((const line *)row)->info->held_ms;
    if (ms >= 0)
        snprintf(text, CELL_TEXT_MAX, "%" PRId64, ms);
    return text;
}

static const char *held_in_table(const void *row, char *text)
{
    return cli_humane(((const line *)row)->info->held_ms, text, CELL_TEXT_MAX);
}

static const cli_column columns[] = {
    {"name", CELL_TEXT, .text = name_cell, .title = "NAME", .place = 1, .cut = 1},
    {"state", CELL_TEXT, .text = state_cell, .title = "STATE", .place = 2},
    {"held_ms", CELL_LITERAL, .text = held_cell},
    {NULL, CELL_TEXT, .text = held_in_table, .title = "HELD", .place = 3},
    {"waiting", CELL_COUNT, CELL_AT(line, waiters), .title = "WAIT", .place = 4},
    {"holder", CELL_TEXT, .text = holder_cell, .title = "HOLDER", .place = 5, .cut = 2},
    {0},
};

/* If stdout is no terminal, or with --json. */
static int print_once(top *self, bool json)
{
    look l = {0};
    rowlock_error err;
    rowlock_status status = take_look(self, &l, &err);
    if (status == ROWLOCK_OK) {
        cli_rows rows = cli_rows_begin(columns, json);
        for (size_t i = 0; i < l.count; i++)
            cli_rows_add(&rows, &l.lines[i]);
        cli_rows_end(&rows, "no lock is held");
    }
    end_look(&l);
    return status == ROWLOCK_OK ? 0 : cli_fail(&err);
}

/* -------------------------------------------------------------------- screen */

typedef struct screen {
    size_t columns, rows;
    size_t name_columns;
    size_t used; /* lines */
    char *text;  /* written in one go */
    size_t length, room;
} screen;

static void put(screen *s, const char *text, size_t length)
{
    if (s->length + length > s->room) {
        s->room = (s->length + length) * 2;
        s->text = cli_need(realloc(s->text, s->room));
    }
    memcpy(s->text + s->length, text, length);
    s->length += length;
}

/* Adds a line, cut to the screen's width. The last column stays free, since some terminals begin a
 * new line there. */
static void put_line(screen *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put_line(screen *s, const char *format, ...)
{
    char text[LINE_MAX_BYTES];
    char printable[LINE_MAX_BYTES * 2];
    size_t used;
    va_list args;
    if (s->used == s->rows)
        return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    cli_printable_into(printable, sizeof printable, text);
    if (s->used++ > 0)
        put(s, "\r\n", 2);
    put(s, printable, cli_fit(printable, s->columns - 1, &used));
    put(s, "\033[K", 3);
}

/* Cuts the text to so many columns, or pads it with blanks. */
static void in_columns(char *out, size_t size, const char *text, size_t wanted)
{
    char printable[LINE_MAX_BYTES];
    size_t used;
    cli_printable_into(printable, sizeof printable, text);
    const size_t bytes = cli_fit(printable, wanted, &used);
    snprintf(out, size, "%.*s%*s", (int)bytes, printable, (int)(wanted - used), "");
}

static const char *rate_text(double rate, char *text, size_t size)
{
    if (rate < 0)
        snprintf(text, size, "-");
    else if (rate < 100)
        snprintf(text, size, "%.1f/s", rate);
    else
        snprintf(text, size, "%.0f/s", rate);
    return text;
}

static void put_cells(screen *s, const char *name, const char *state, const char *held,
                      const char *waiting, const char *rate, const char *holder)
{
    char name_cell[LINE_MAX_BYTES];
    char state_cell[32] = "";
    char rate_cell[32] = "";
    in_columns(name_cell, sizeof name_cell, name, s->name_columns);
    if (s->columns >= WIDE_COLUMNS) {
        snprintf(state_cell, sizeof state_cell, " %-*s", STATE_COLUMNS, state);
        snprintf(rate_cell, sizeof rate_cell, " %*s", RATE_COLUMNS, rate);
    }
    put_line(s, "%s%s %*s %*s%s %s", name_cell, state_cell, TIME_COLUMNS, held, WAITING_COLUMNS,
             waiting, rate_cell, holder);
}

static void put_lock(screen *s, const line *its)
{
    char text[CELL_TEXT_MAX] = "";
    char held[CLI_HUMANE];
    char waiting[24];
    char rate[32];
    snprintf(waiting, sizeof waiting, "%zu", its->waiters);
    put_cells(s, its->info->name, states[its->info->state].word,
              cli_humane(its->info->held_ms, held, sizeof held), waiting,
              rate_text(its->rate, rate, sizeof rate), holder_of(its->info, text));
}

/* Name and holder share the columns that the others leave. */
static screen new_screen(void)
{
    struct winsize size = {.ws_col = 80, .ws_row = 24};
    (void)!ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    screen s = {.columns = size.ws_col > 1 ? size.ws_col : 80,
                .rows = size.ws_row > 0 ? size.ws_row : 24};
    const size_t wide = s.columns >= WIDE_COLUMNS ? STATE_COLUMNS + RATE_COLUMNS + 2 : 0;
    const size_t fixed = wide + TIME_COLUMNS + WAITING_COLUMNS + 4;
    const size_t rest = s.columns > fixed + 16 ? s.columns - fixed : 16;
    s.name_columns = rest / 2 < 30 ? rest - rest / 2 : rest - 30;
    return s;
}

static void put_head(screen *s, const top *self, const look *l)
{
    char clock[16];
    char rate[32];
    char keys[64] = "";
    const time_t now = time(NULL);
    struct tm tm;
    strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&now, &tm));
    put_line(s, "rowlock %s  held %zu  waiting %zu  names %zu  %s", clock, l->held,
             rowlock_waiters_count(l->locks.waiters), l->locks.count,
             rate_text(l->rate, rate, sizeof rate));
    for (size_t i = 0; i < ORDERS; i++)
        snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "%s%c %s%s", i ? "  " : "",
                 orders[i].key, orders[i].word, orders[i].key == self->order ? "*" : "");
    put_line(s, "q quit  %s", keys);
    if (*self->trouble)
        put_line(s, "%s", self->trouble);
}

static void draw(const top *self, const look *l)
{
    screen s = new_screen();
    put(&s, "\033[H", 3);
    put_head(&s, self, l);
    put_cells(&s, "NAME", "STATE", "HELD", "WAIT", "RATE", "HOLDER");
    for (size_t i = 0; i < l->count; i++)
        put_lock(&s, &l->lines[i]);
    if (l->count == 0)
        put_line(&s, "no lock is held");
    put(&s, "\033[J", 3);
    cli_write(STDOUT_FILENO, s.text, s.length);
    free(s.text);
}

/* ------------------------------------------------------------------ the user */

static struct termios before;

/* Switches to the terminal's alternate screen, without echo; end_screen() switches back. */
static bool begin_screen(void)
{
    struct termios raw;
    if (tcgetattr(STDIN_FILENO, &before) != 0)
        return false;
    raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) != 0)
        return false;
    cli_write(STDOUT_FILENO, "\033[?1049h\033[?25l\033[2J", 18);
    return true;
}

static void end_screen(void)
{
    cli_write(STDOUT_FILENO, "\033[?25h\033[?1049l", 14);
    tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

/* False: the user wants to leave. */
static bool take_key(top *self)
{
    char key;
    const ssize_t got = read(STDIN_FILENO, &key, 1);
    if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR) || key == 'q' || key == 4)
        return false;
    for (size_t i = 0; i < ORDERS; i++)
        if (orders[i].key == key)
            self->order = key;
    return true;
}

/* Handles a signal that comes while we wait for the server, which may take long. */
static void leave_at_once(int signal)
{
    end_screen();
    _exit(signal == SIGINT ? 0 : 128 + signal);
}

/* Gives the terminal back to the shell, until the shell continues us. */
static void stop(void)
{
    end_screen();
    raise(SIGSTOP);
    begin_screen();
}

/* Waits until the next look is due, a key is pressed or the window changes its size. Returns the
 * signal that is to end us, or 0. */
static int await_user(top *self, int signals, bool *leaves)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = signals, .events = POLLIN}};
    struct signalfd_siginfo signal;
    const int64_t left_ms = self->interval_ms - (now_us() - self->looked_us) / 1000;
    poll(fds, 2,
         left_ms < 0                   ? 0
         : left_ms > self->interval_ms ? (int)self->interval_ms
                                       : (int)left_ms);
    if (fds[0].revents)
        *leaves = !take_key(self);
    if (!fds[1].revents || read(signals, &signal, sizeof signal) != (ssize_t)sizeof signal ||
        signal.ssi_signo == SIGWINCH)
        return 0;
    if (signal.ssi_signo != SIGTSTP)
        return (int)signal.ssi_signo;
    stop();
    return 0;
}

static void show(top *self, look *l)
{
    look next = {0};
    rowlock_error err;
    sigprocmask(SIG_UNBLOCK, &self->ends, NULL);
    const rowlock_status status = take_look(self, &next, &err);
    sigprocmask(SIG_BLOCK, &self->ends, NULL);
    self->looked_us = now_us();
    if (status == ROWLOCK_OK) {
        end_look(l);
        *l = next;
        *self->trouble = '\0';
        return;
    }
    /* Keeps the last figures on the screen. */
    end_look(&next);
    snprintf(self->trouble, sizeof self->trouble, "%s", err.message);
}

/* Returns the signal that ended it, or 0. */
static int watch(top *self)
{
    static const int ends[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
    const struct sigaction action = {.sa_handler = leave_at_once};
    sigset_t set;
    look l = {0};
    bool leaves = false;
    int ended = 0;
    sigemptyset(&self->ends);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        sigaddset(&self->ends, ends[i]);
    set = self->ends;
    sigaddset(&set, SIGTSTP);
    sigaddset(&set, SIGWINCH);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        sigaction(ends[i], &action, NULL);
    const int signals = signalfd(-1, &set, SFD_CLOEXEC);
    while (!leaves && !ended) {
        if (self->looked_us == 0 || now_us() - self->looked_us >= self->interval_ms * 1000)
            show(self, &l);
        sort(self, &l);
        draw(self, &l);
        ended = await_user(self, signals, &leaves);
    }
    close(signals);
    end_look(&l);
    return ended;
}

static int show_top(void *into)
{
    const top_options *self = into;
    int exit_status;
    top t = {.interval_ms = self->interval_ms, .order = 'o'};
    t.client = cli_open(&self->context, &exit_status);
    if (!t.client)
        return exit_status;
    const bool live = !self->context.json && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (!live) {
        exit_status = print_once(&t, self->context.json);
    } else if (begin_screen()) {
        const int signal = watch(&t);
        end_screen();
        exit_status = signal && signal != SIGINT ? 128 + signal : 0;
    } else {
        cli_say("cannot use this terminal: %s", strerror(errno));
        exit_status = rowlock_status_exit(ROWLOCK_SYSTEM);
    }
    forget(&t);
    rowlock_client_close(t.client);
    return exit_status;
}

static const cli_option options[] = {
    {0, "interval", CLI_DURATION, CLI_AT(top_options, interval_ms), .least = INTERVAL_LEAST_MS,
     .most = 3600000, .wants = "is from 100ms to 1h"},
    {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
    {0},
};

const cli_command cli_top = {
    .help = cli_help_top,
    .options = options,
    .into = &(top_options){.interval_ms = INTERVAL_MS},
    .run = show_top,
};
