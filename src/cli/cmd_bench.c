/* cli/cmd_bench.c - bench: what locks cost on this server. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "args.h"
#include "bench/rows.h"
#include "cli.h"
#include "json.h"
#include "say.h"
#include "table.h"
#include "text.h"

enum { CLIENTS_LIMIT = 256, WINDOW_MIN_MS = 50, WINDOW_MAX_MS = 60000 };

static const char help[] =
    "Usage: rowlock bench [--clients=N,...] [--seconds=D] [--mode=MODE] [--names=WHICH] [--json]\n"
    "Measures on your server what it costs to take a lock and give it back, in each mode, with\n"
    "names that nobody else wants and with one that all want. Each row takes --seconds, and the\n"
    "server has work to do meanwhile. The names begin with 'rowlock-bench/' and are removed at "
    "the\n"
    "end, also after ^C, which takes DELETE on the tables; nothing is written into the history.\n"
    "With --via=procedures it measures locks through the procedures, with --waiting=poll no lease\n"
    "whose waiters are woken (the bell).\n"
    "\n"
    "      --clients=N,...   how many clients, each a process with a connection of its own or\n"
    "                        more; up to 8 numbers of at most 256; 1,8 where not given\n"
    "      --seconds=D       measure so long for each row, 50ms to 60s; 2s where not given\n"
    "      --mode=MODE       only 'lease' or 'pessimistic'\n"
    "      --names=WHICH     only 'distinct' (each client its own name) or 'hot' (all the same)\n"
    "      --json            an array of objects, times in microseconds\n"
    "\n"
    "CYCLES/S: times that all clients together took and gave back a lock, in a second. ACQUIRE:\n"
    "how long that took, with the wait: half of them at most the 50%, one in a thousand longer "
    "than\n"
    "the 99.9%. HAND-OVER: from one client's release to the next one's having it. FAIRNESS: most\n"
    "turns of a client by least turns. Pessimistic without fencing waits for no disk; the rest "
    "does.\n"
    "The connection options of 'rowlock --help' may stand here too.\n";

enum { NO_MODE = -1 };

typedef enum names { BOTH, DISTINCT, HOT } names;

static const cli_word names_words[] = {
    {"distinct", DISTINCT, false},
    {"hot", HOT, false},
    {0},
};

/* ------------------------------------------------------------------- figures */

static const char *names_word(bool hot)
{
    return hot ? "hot" : "distinct";
}

/* Three digits are all that can be believed. */
static void add_time(cli_table *table, double us)
{
    char text[32] = "";
    if (us >= 999500)
        snprintf(text, sizeof text, "%.2f s", us / 1e6);
    else if (us >= 999.5)
        snprintf(text, sizeof text, "%.*f ms", us < 9995 ? 2 : us < 99950 ? 1 : 0, us / 1e3);
    else if (us >= 0)
        snprintf(text, sizeof text, "%.0f us", us);
    cli_table_add(table, text, CLI_PLAIN);
}

static void add_row(cli_table *table, const rows_row *row)
{
    const measure_figures *figures = &row->figures;
    char text[32];
    cli_table_add(table, row->kind->name, CLI_PLAIN);
    cli_table_add(table, names_word(row->hot), CLI_PLAIN);
    cli_table_add_number(table, row->clients);
    snprintf(text, sizeof text, "%.0f", figures->cycles_per_second);
    cli_table_add(table, text, CLI_BOLD);
    add_time(table, figures->acquire.p50);
    add_time(table, figures->acquire.p99);
    add_time(table, figures->acquire.p999);
    add_time(table, figures->hand_over.p50);
    add_time(table, figures->hand_over.p99);
    snprintf(text, sizeof text, "%.2f", figures->fairness);
    cli_table_add(table, figures->fairness >= 0 ? text : "", CLI_PLAIN);
}

static void print_table(const rows *self)
{
    static const cli_column columns[] = {
        {"LOCK", false, 0},    {"NAMES", false, 0},        {"CLIENTS", true, 0},
        {"CYCLES/S", true, 0}, {"ACQUIRE 50%", true, 0},   {"99%", true, 0},
        {"99.9%", true, 0},    {"HAND-OVER 50%", true, 0}, {"99%", true, 0},
        {"FAIRNESS", true, 0},
    };
    cli_table *table = cli_table_new(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < self->measured; i++)
        add_row(table, &self->row[i]);
    cli_table_print(table);
    cli_table_free(table);
}

/* As many digits as are worth it; null where it is not known, that is negative. */
static void json_real(json_object *object, const char *key, double value)
{
    char digits[32];
    snprintf(digits, sizeof digits, "%.*f", value < 1000 ? 2 : 0, value);
    json_object *number = value >= 0 ? cli_need(json_object_new_double_s(value, digits)) : NULL;
    if (json_object_object_add(object, key, number) != 0)
        cli_out_of_memory();
}

static json_object *row_json(const rows *self, const rows_row *row)
{
    const measure_figures *figures = &row->figures;
    json_object *object = cli_json_new();
    cli_json_text(object, "lock", row->kind->id);
    cli_json_text(object, "mode", cli_mode_word(row->kind->mode));
    cli_json_text(object, "names", names_word(row->hot));
    cli_json_count(object, "clients", row->clients);
    cli_json_count(object, "window_ms", (uint64_t)self->window_ms);
    cli_json_count(object, "cycles", figures->cycles);
    json_real(object, "cycles_per_second", figures->cycles_per_second);
    json_real(object, "acquire_p50_us", figures->acquire.p50);
    json_real(object, "acquire_p99_us", figures->acquire.p99);
    json_real(object, "acquire_p999_us", figures->acquire.p999);
    json_real(object, "hand_over_p50_us", figures->hand_over.p50);
    json_real(object, "hand_over_p99_us", figures->hand_over.p99);
    json_real(object, "hand_over_p999_us", figures->hand_over.p999);
    json_real(object, "fairness", figures->fairness);
    return object;
}

static void print_json(const rows *self)
{
    for (size_t i = 0; i < self->measured; i++)
        cli_json_item(row_json(self, &self->row[i]), i);
    cli_json_end(self->measured);
}

/* ------------------------------------------------------------------- progress */

static bool watched(void)
{
    return isatty(STDERR_FILENO) && tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static void begin_row(const rows *all, const rows_row *row, int64_t left_ms)
{
    char left[CLI_HUMANE];
    if (watched())
        fprintf(stderr, "\r%zu of %zu: %.30s, %s, %u clients (%s to go)\033[K", all->measured + 1,
                all->planned, row->kind->name, names_word(row->hot), row->clients,
                cli_humane(left_ms, left, sizeof left));
}

static void end_row(const rows *all, const rows_row *row, const measure_reason *why)
{
    (void)all;
    if (watched())
        fputs("\r\033[K", stderr);
    if (why && !measure_stopped())
        cli_say("%s, %s, %u clients: %s", row->kind->name, names_word(row->hot), row->clients,
                why->text);
    else if (why && strcmp(why->text, "interrupted") != 0)
        cli_say("%s", why->text);
}

/* Ends as the signal would have ended us. */
static void end_by_signal(int signo)
{
    fflush(stdout);
    signal(signo, SIG_DFL);
    raise(signo);
}

typedef struct bench {
    cli_context context;
    unsigned counts[ROWS_COUNTS_MAX];
    size_t count_count;
    int64_t window_ms;
    int mode; /* of an enum, or NO_MODE */
    names names;
} bench;

static int run_bench(void *into)
{
    static rows all; /* large */
    bench *self = into;
    rowlock_client *client;
    rowlock_error err;
    measure_reason why;
    int exit_status = 0;
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
    /* What would stop every client is better said once; and clients fork, so it is closed. */
    if (!cli_open(&self->context, &client, &exit_status))
        return exit_status;
    rowlock_client_close(client);
    if (rows_prepare(&all, &err) != ROWLOCK_OK)
        return cli_fail(&err);
    bool good = rows_measure(&all, &why);
    if (self->context.json)
        print_json(&all);
    else
        print_table(&all);
    if (measure_ended_by())
        end_by_signal(measure_ended_by());
    if (good)
        return 0;
    return why.exit_status ? why.exit_status : 1;
}

/* "1,8,32", as they stand. */
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

static bench bench_now = {
    .counts = {1, 8}, .count_count = 2, .window_ms = 2000, .mode = NO_MODE, .names = BOTH};

const cli_command cli_bench = {
    .help = help,
    .options =
        (const cli_option[]){
            {0, "clients", CLI_OWN, .take = take_clients},
            {0, "seconds", CLI_DURATION, CLI_AT(bench, window_ms), .least = WINDOW_MIN_MS,
             .most = WINDOW_MAX_MS, .wants = "wants a duration from 50ms to 60s"},
            {0, "mode", CLI_WORD, CLI_AT(bench, mode), .words = cli_mode_words,
             .wants = "wants lease or pessimistic"},
            {0, "names", CLI_WORD, CLI_AT(bench, names), .words = names_words,
             .wants = "wants distinct or hot"},
            {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
            {0},
        },
    .into = &bench_now,
    .run = run_bench,
};
