/* cli/cmd_bench.c - bench: what locks cost on this server. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "args.h"
#include "cli.h"
#include "json.h"
#include "measure.h"
#include "measure_rowlock.h"
#include "say.h"
#include "table.h"
#include "text.h"

enum {
    ID_JSON = CLI_ID_COMMAND,
    ID_CLIENTS,
    ID_SECONDS,
    ID_MODE,
    ID_NAMES,

    COUNTS_MAX = 8,
    CLIENTS_LIMIT = 256,
    WINDOW_MS = 2000,
    WINDOW_MIN_MS = 50,
    WINDOW_MAX_MS = 60000,
    WARM_UP_MS = 500,
    WARM_UP_EACH_MS = 10,
    KINDS_MAX = 8,
    RESULTS_MAX = KINDS_MAX * COUNTS_MAX * 2,
};

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

typedef struct result {
    const measure_rowlock_kind *kind;
    unsigned clients;
    bool hot;
    measure_figures figures;
} result;

typedef struct bench {
    cli_context *context;
    unsigned counts[COUNTS_MAX];
    size_t count_count;
    int64_t window_ms;
    bool only_mode;
    rowlock_mode mode;
    bool distinct;
    bool hot;
    char prefix[64]; /* of the names: nobody else's */
    size_t planned;
    size_t measured;
    result results[RESULTS_MAX];
} bench;

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

static void add_row(cli_table *table, const result *row)
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

static void print_table(const bench *self)
{
    static const cli_column columns[] = {
        {"LOCK", false, 0},    {"NAMES", false, 0},        {"CLIENTS", true, 0},
        {"CYCLES/S", true, 0}, {"ACQUIRE 50%", true, 0},   {"99%", true, 0},
        {"99.9%", true, 0},    {"HAND-OVER 50%", true, 0}, {"99%", true, 0},
        {"FAIRNESS", true, 0},
    };
    cli_table *table = cli_table_new(columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < self->measured; i++)
        add_row(table, &self->results[i]);
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

static json_object *row_json(const bench *self, const result *row)
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

static void print_json(const bench *self)
{
    for (size_t i = 0; i < self->measured; i++)
        cli_json_item(row_json(self, &self->results[i]), i);
    cli_json_end(self->measured);
}

/* ------------------------------------------------------------------- progress */

/* The server opens its tables once for each that works at the same time. */
static int64_t warm_up_ms(const bench *self, unsigned clients)
{
    int64_t part = self->window_ms / 4;
    return (part < WARM_UP_MS ? part : WARM_UP_MS) + clients * WARM_UP_EACH_MS;
}

static bool watched(void)
{
    return isatty(STDERR_FILENO) && tcgetpgrp(STDERR_FILENO) == getpgrp();
}

static void show_progress(const bench *self, const result *row)
{
    if (!watched())
        return;
    int64_t each_ms = self->window_ms + warm_up_ms(self, row->clients);
    int64_t left_ms = (int64_t)(self->planned - self->measured) * each_ms;
    char left[CLI_HUMANE];
    fprintf(stderr, "\r%zu of %zu: %.30s, %s, %u clients (%s to go)\033[K", self->measured + 1,
            self->planned, row->kind->name, names_word(row->hot), row->clients,
            cli_humane(left_ms, left, sizeof left));
}

static void hide_progress(void)
{
    if (watched())
        fputs("\r\033[K", stderr);
}

/* ------------------------------------------------------------------ measuring */

static volatile sig_atomic_t ended_by; /* the signal, once there was one */

static void on_end(int signo)
{
    ended_by = signo;
    measure_stop();
}

/* The first lets it clean up, the second one does not wait. */
static void catch_end(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction action = {.sa_handler = on_end, .sa_flags = (int)SA_RESETHAND};
        struct sigaction old;
        sigemptyset(&action.sa_mask);
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

static bool measure_row(bench *self, const measure_rowlock_kind *kind, unsigned clients, bool hot,
                        measure_reason *why)
{
    result *row = &self->results[self->measured];
    measure_rowlock rowlock;
    measure_system system = measure_rowlock_system(&rowlock, &self->context->client, kind);
    const measure_load load = {
        .prefix = self->prefix,
        .clients = clients,
        .hot = hot,
        .window_ms = self->window_ms,
        .warm_up_ms = warm_up_ms(self, clients),
    };
    *row = (result){.kind = kind, .clients = clients, .hot = hot};
    show_progress(self, row);
    bool good = measure_run(&system, &load, &row->figures, why);
    hide_progress();
    if (good)
        self->measured++;
    else if (!measure_stopped())
        cli_say("%s, %s, %u clients: %s", kind->name, names_word(hot), clients, why->text);
    else if (strcmp(why->text, "interrupted") != 0)
        cli_say("%s", why->text);
    return good;
}

static bool measure_kind(bench *self, const measure_rowlock_kind *kind, measure_reason *why)
{
    for (int hot = 0; hot <= 1; hot++) {
        for (size_t i = 0; i < self->count_count; i++) {
            if ((hot ? self->hot : self->distinct) &&
                !measure_row(self, kind, self->counts[i], hot, why))
                return false;
        }
    }
    return true;
}

/* Is it one of the rows that are asked for? */
static bool wanted(const bench *self, const measure_rowlock_kind *kind)
{
    if (kind->no_reply || (self->only_mode && kind->mode != self->mode))
        return false;
    /* Who says that this server has no bell is not to be shown one. */
    return kind->mode != ROWLOCK_OPTIMISTIC || kind->waiting == ROWLOCK_WAITING_POLL ||
           self->context->client.waiting != ROWLOCK_WAITING_POLL;
}

static bool measure_all(bench *self, measure_reason *why)
{
    for (const measure_rowlock_kind *kind = measure_rowlock_kinds; kind->id; kind++) {
        if (wanted(self, kind))
            self->planned += self->count_count * (self->distinct + self->hot);
    }
    for (const measure_rowlock_kind *kind = measure_rowlock_kinds; kind->id; kind++) {
        if (wanted(self, kind) && !measure_kind(self, kind, why))
            return false;
    }
    return true;
}

/* Ends as the signal would have ended us. */
static void end_by_signal(int signo)
{
    fflush(stdout);
    signal(signo, SIG_DFL);
    raise(signo);
}

/* Nobody else's names begin so, on whatever host he is. */
static bool make_prefix(bench *self)
{
    uint32_t random;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return false;
    snprintf(self->prefix, sizeof self->prefix, "rowlock-bench/%ld-%08" PRIx32, (long)getpid(),
             random);
    return true;
}

/* Who may not remove names is told before there are any. */
static int try_to_remove(const bench *self)
{
    const rowlock_client_options options = measure_rowlock_remover(&self->context->client);
    rowlock_client *client;
    rowlock_error err;
    rowlock_status status = rowlock_client_open(&options, &client, &err);
    if (status == ROWLOCK_OK) {
        status = rowlock_purge(client, self->prefix, &err);
        rowlock_client_close(client);
    }
    if (status != ROWLOCK_DENIED)
        return 0;
    rowlock_error told = err;
    snprintf(told.message, sizeof told.message,
             "bench removes its names when it is done, and this user may not: %.500s", err.message);
    return cli_fail(&told);
}

static int run_bench(bench *self)
{
    rowlock_client *client;
    int exit_status = 0;
    measure_reason why;
    /* What would stop every client is better said once; and clients fork, so it is closed. */
    if (!cli_open(self->context, &client, &exit_status))
        return exit_status;
    rowlock_client_close(client);
    if (!make_prefix(self)) {
        cli_say("no random numbers");
        return rowlock_status_exit(ROWLOCK_SYSTEM);
    }
    exit_status = try_to_remove(self);
    if (exit_status)
        return exit_status;
    catch_end();
    bool good = measure_all(self, &why);
    if (self->context->json)
        print_json(self);
    else
        print_table(self);
    if (ended_by)
        end_by_signal(ended_by);
    if (good)
        return 0;
    return why.exit_status ? why.exit_status : 1;
}

/* ------------------------------------------------------------- the arguments */

/* "1,8,32", as they stand. */
static bool take_clients(bench *self, const char *value)
{
    const char *p = value;
    self->count_count = 0;
    while (self->count_count < COUNTS_MAX) {
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
    cli_usage("--clients wants up to %d numbers from 1 to %d, such as 1,8,32, not '%s'", COUNTS_MAX,
              CLIENTS_LIMIT, value);
    return false;
}

static bool take_seconds(const cli_args *args, bench *self)
{
    if (!cli_args_duration(args, "--seconds", NULL, &self->window_ms))
        return false;
    if (self->window_ms >= WINDOW_MIN_MS && self->window_ms <= WINDOW_MAX_MS)
        return true;
    cli_usage("--seconds wants a duration from 50ms to 60s, not '%s'", args->value);
    return false;
}

static bool take_mode(bench *self, const char *value)
{
    self->only_mode = true;
    if (cli_mode(value, &self->mode))
        return true;
    cli_usage("--mode wants lease or pessimistic, not '%s'", value);
    return false;
}

static bool take_names(bench *self, const char *value)
{
    self->distinct = strcmp(value, "distinct") == 0;
    self->hot = strcmp(value, "hot") == 0;
    if (self->distinct || self->hot)
        return true;
    cli_usage("--names wants distinct or hot, not '%s'", value);
    return false;
}

static bool take_option(const cli_args *args, int id, bench *self)
{
    switch (id) {
    case ID_CLIENTS:
        return take_clients(self, args->value);
    case ID_SECONDS:
        return take_seconds(args, self);
    case ID_MODE:
        return take_mode(self, args->value);
    case ID_NAMES:
        return take_names(self, args->value);
    }
    self->context->json = true;
    return true;
}

int cli_bench(const cli_context *context, int argc, char **argv)
{
    static const cli_option options[] = {
        {ID_CLIENTS, "clients", CLI_VALUE}, {ID_SECONDS, "seconds", CLI_VALUE},
        {ID_MODE, "mode", CLI_VALUE},       {ID_NAMES, "names", CLI_VALUE},
        {ID_JSON, "json", CLI_NOTHING},     {0},
    };
    cli_context mine = *context;
    static bench self; /* large */
    self = (bench){.context = &mine,
                   .counts = {1, 8},
                   .count_count = 2,
                   .window_ms = WINDOW_MS,
                   .distinct = true,
                   .hot = true};
    cli_args args = cli_args_start(help, options, &mine, argc, argv);
    for (int id; (id = cli_args_next(&args)) != CLI_ARGS_END;) {
        if (id == CLI_ARGS_STOP)
            return args.exit_status;
        if (!take_option(&args, id, &self))
            return CLI_EXIT_USAGE;
    }
    if (!cli_args_operands(&args, 0, 0, ""))
        return CLI_EXIT_USAGE;
    return run_bench(&self);
}
