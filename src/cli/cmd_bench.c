/* cli/cmd_bench.c - bench: what locks cost on this server. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/rows.h"
#include "table.h"

enum { CLIENTS_LIMIT = 256, WINDOW_MIN_MS = 50, WINDOW_MAX_MS = 60000 };

enum { NO_MODE = -1 };

typedef enum names { BOTH, DISTINCT, HOT } names;

static const cli_word names_words[] = {
    {"distinct", DISTINCT, false},
    {"hot", HOT, false},
    {0},
};

/* ------------------------------------------------------------------- figures */

static const char *rate_of(const void *row, char *text)
{
    snprintf(text, CELL_TEXT_MAX, "%.0f", ((const rows_row *)row)->figures.cycles_per_second);
    return text;
}

/* Without the common prefix: the full name has no room beside the figures. */
static const char *short_id(const void *row, char *text)
{
    static const char ours[] = "rowlock-";
    const char *id = ((const rows_row *)row)->kind.id;
    (void)text;
    return strncmp(id, ours, sizeof ours - 1) == 0 ? id + sizeof ours - 1 : id;
}

static const char *history_of(const void *row, char *text)
{
    snprintf(text, CELL_TEXT_MAX, "%s", ((const rows_row *)row)->no_history ? "false" : "true");
    return text;
}

#define AT(member) CELL_AT(rows_row, member)
static const cli_column columns[] = {
    {"lock", CELL_TEXT, AT(kind.id)},
    {NULL, CELL_TEXT, .text = short_id, .title = "LOCK", .place = 10},
    {"mode", CELL_NAMED, AT(kind.mode), .names = cli_modes},
    {"history", CELL_LITERAL, .text = history_of},
    {"names", CELL_TEXT, AT(names), .title = "NAMES", .place = 1},
    {"clients", CELL_UNSIGNED, AT(clients), .title = "CLIENTS", .place = 2},
    {"window_ms", CELL_MS, AT(window_ms)},
    {"cycles", CELL_COUNT, AT(figures.cycles)},
    {"cycles_per_second", CELL_REAL, AT(figures.cycles_per_second), .text = rate_of,
     .title = "CYCLES/S", .place = 3, .colour = CLI_BOLD},
    {"acquire_p50_us", CELL_US, AT(figures.acquire.p50), .title = "ACQUIRE 50%", .place = 4},
    {"acquire_p99_us", CELL_US, AT(figures.acquire.p99), .title = "99%", .place = 5, .spare = 1},
    {"acquire_p999_us", CELL_US, AT(figures.acquire.p999), .title = "99.9%", .place = 6,
     .spare = 3},
    {"hand_over_p50_us", CELL_US, AT(figures.hand_over.p50), .title = "HAND-OVER 50%", .place = 7,
     .spare = 1},
    {"hand_over_p99_us", CELL_US, AT(figures.hand_over.p99), .title = "99%", .place = 8,
     .spare = 4},
    {"hand_over_p999_us", CELL_US, AT(figures.hand_over.p999)},
    {"fairness", CELL_REAL, AT(figures.fairness), .title = "FAIRNESS", .place = 9, .spare = 2},
    {0},
};

/* ------------------------------------------------------------------- progress */

static bool watched(void)
{
    return isatty(STDERR_FILENO) && tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static void begin_row(const rows *all, const rows_row *row, int64_t left_ms)
{
    char left[CLI_HUMANE];
    char text[160];
    size_t used;
    if (!watched())
        return;
    snprintf(text, sizeof text, "%zu of %zu, %s to go: %s, %s, %u client%s", all->measured + 1,
             all->planned, cli_humane(left_ms, left, sizeof left), row->kind.name, row->names,
             row->clients, row->clients == 1 ? "" : "s");
    fprintf(stderr, "\r%.*s\033[K",
            (int)cli_fit(text, cli_terminal_width(STDERR_FILENO) - 1, &used), text);
}

static void end_row(const rows *all, const rows_row *row, const measure_reason *why)
{
    (void)all;
    if (watched())
        fputs("\r\033[K", stderr);
    if (why && !measure_stopped())
        cli_say("%s, %s, %u clients: %s", row->kind.name, row->names, row->clients, why->text);
    else if (why && strcmp(why->text, "interrupted") != 0)
        cli_say("%s", why->text);
}

typedef struct bench {
    cli_context context;
    unsigned counts[ROWS_COUNTS_MAX];
    size_t count_count;
    int64_t window_ms;
    int mode; /* of an enum, or NO_MODE */
    names names;
    const char *columns; /* of -o */
    const cli_column *shown;
} bench;

static int run_bench(void *into)
{
    static rows all; /* large */
    bench *self = into;
    rowlock_error err;
    measure_reason why;
    int exit_status;
    all = (rows){.client = &self->context.client,
                 .count_count = self->count_count,
                 .window_ms = self->window_ms,
                 .only_mode = self->mode != NO_MODE,
                 .mode = (rowlock_mode)self->mode,
                 .distinct = self->names != HOT,
                 .hot = self->names != DISTINCT,
                 .begin = begin_row,
                 .end = end_row};
    memcpy(all.counts, self->counts, sizeof all.counts);
    /* Reports an error that would stop every client once. This client is closed before those that
     * measure are forked. */
    rowlock_client *client = cli_open(&self->context, &exit_status);
    if (!client)
        return exit_status;
    rowlock_client_close(client);
    if (rows_prepare(&all, &err) != ROWLOCK_OK)
        return cli_fail(&err);
    bool good = rows_measure(&all, &why);
    cli_rows out = cli_rows_begin(self->shown, self->context.json);
    for (size_t i = 0; i < all.measured; i++)
        cli_rows_add(&out, &all.row[i]);
    cli_rows_end(&out, NULL);
    if (measure_ended_by()) { /* dies of the same signal, for the shell */
        fflush(stdout);
        signal(measure_ended_by(), SIG_DFL);
        raise(measure_ended_by());
    }
    if (good)
        return 0;
    return why.exit_status ? why.exit_status : 1;
}

/* "1,8,32", in that order. */
static bool take_clients(void *into, const char *value)
{
    bench *self = into;
    const char *p = value;
    self->count_count = 0;
    while (self->count_count < ROWS_COUNTS_MAX) {
        char number[8];
        uint64_t clients;
        size_t length = strcspn(p, ",");
        snprintf(number, sizeof number, "%.*s", (int)(length < 7 ? length : 7), p);
        if (!cli_number(number, 1, CLIENTS_LIMIT, &clients))
            break;
        self->counts[self->count_count++] = (unsigned)clients;
        p += length;
        if (!*p)
            return true;
        p++;
    }
    return !cli_usage("--clients wants up to %d numbers from 1 to %d, such as 1,8,32, not '%s'",
                      ROWS_COUNTS_MAX, CLIENTS_LIMIT, value);
}

static bool check(void *into)
{
    bench *self = into;
    self->shown = self->columns ? cli_columns_of(columns, self->columns) : columns;
    return self->shown != NULL;
}

static const cli_option options[] = {
    {'o', "columns", CLI_TEXT, CLI_AT(bench, columns)},
    {0, "clients", CLI_OWN, .take = take_clients},
    {0, "seconds", CLI_DURATION, CLI_AT(bench, window_ms), .least = WINDOW_MIN_MS,
     .most = WINDOW_MAX_MS, .wants = "wants a duration from 50ms to 60s"},
    {0, "mode", CLI_WORD, CLI_AT(bench, mode), .words = cli_mode_words,
     .wants = "wants lease or pessimistic"},
    {0, "names", CLI_WORD, CLI_AT(bench, names), .words = names_words,
     .wants = "wants distinct or hot"},
    {0, "no-history", CLI_FLAG, CLI_AT(cli_context, client.no_history)},
    {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
    {0},
};

const cli_command cli_bench = {
    .help = cli_help_bench,
    .options = options,
    .into =
        &(bench){
            .counts = {1, 8}, .count_count = 2, .window_ms = 2000, .mode = NO_MODE, .names = BOTH},
    .check = check,
    .run = run_bench,
};
