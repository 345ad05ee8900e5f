/*
 * cli/cmd_metrics.c - metrics: figures for Prometheus, written for the node exporter's textfile
 * collector (--out) or to stdout.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "locks.h"
#include "rowlock/rowlock_admin.h"
#include "table.h"

enum { NAMES = 200, NAMES_MOST = 100000, FINDINGS_MOST = 64 };

typedef struct metrics_options {
    cli_context context;
    unsigned names; /* how many names get metrics of their own */
    const char *out;
} metrics_options;

/* The worst finding of one of the doctor's checks. */
typedef struct level {
    char check[64];
    rowlock_level level;
} level;

typedef struct named {
    const rowlock_info *info;
    size_t waiters;
} named;

typedef struct scrape {
    cli_locks locks;
    named *list; /* the first `shown` are printed */
    size_t shown;
    level levels[FINDINGS_MOST];
    size_t level_count;
} scrape;

/* ------------------------------------------------------------------- format */

static void put_head(FILE *out, const char *name, const char *type, const char *help)
{
    fprintf(out, "# HELP rowlock_%s %s\n# TYPE rowlock_%s %s\n", name, help, name, type);
}

/* Escapes no control characters: names of locks have none. */
static void put_label(FILE *out, const char *text)
{
    for (; *text; text++)
        fprintf(out, "%s%c", *text == '\\' || *text == '"' ? "\\" : "", *text);
}

static void put_value(FILE *out, const char *metric, const char *label, const char *of,
                      const char *value)
{
    fprintf(out, "rowlock_%s{%s=\"", metric, label);
    put_label(out, of);
    fprintf(out, "\"} %s\n", value);
}

/* ----------------------------------------------------------- of each name */

static double seconds(int64_t us)
{
    return (double)us / 1e6;
}

/* "2026-11-21 07:56:44.123456" as seconds since 1970. False: the text is empty. */
static bool moment(const char *text, char *value, size_t size)
{
    struct tm tm = {0};
    const char *rest = *text ? strptime(text, "%Y-%m-%d %H:%M:%S", &tm) : NULL;
    if (!rest)
        return false;
    snprintf(value, size, "%" PRId64 "%s", (int64_t)timegm(&tm), rest);
    return true;
}

static bool count_of(uint64_t count, char *value, size_t size)
{
    snprintf(value, size, "%" PRIu64, count);
    return true;
}

static bool seconds_of(int64_t us, char *value, size_t size)
{
    snprintf(value, size, "%.6f", seconds(us));
    return us >= 0;
}

static bool get_holders(const named *n, char *value, size_t size)
{
    const rowlock_info *info = n->info;
    if (!cli_has_holders(info))
        return false;
    const uint64_t many = info->slots > 0 ? info->slots_held : info->readers;
    return count_of(info->slots > 0 || many > 0 ? many : cli_is_held(info), value, size);
}

static bool get_waiters(const named *n, char *value, size_t size)
{
    return count_of(n->waiters, value, size);
}

static bool get_held(const named *n, char *value, size_t size)
{
    return n->info->held_ms >= 0 && seconds_of(n->info->held_ms * 1000, value, size);
}

static bool get_frozen(const named *n, char *value, size_t size)
{
    return cli_has_holders(n->info) && count_of(*n->info->frozen_until != '\0', value, size);
}

#define GET(name, put, member)                                                                     \
    static bool get_##name(const named *n, char *value, size_t size)                               \
    {                                                                                              \
        return put(n->info->totals.member, value, size);                                           \
    }
#define GET_OF_QUEUE(name, put, value_of)                                                          \
    static bool get_##name(const named *n, char *value, size_t size)                               \
    {                                                                                              \
        return n->info->kind == ROWLOCK_KIND_QUEUE && put(value_of, value, size);                  \
    }
GET_OF_QUEUE(ready, count_of, n->info->ready)
GET_OF_QUEUE(in_flight, count_of, n->info->in_flight)
GET_OF_QUEUE(dead, count_of, n->info->dead)
GET_OF_QUEUE(oldest, seconds_of, n->info->oldest_ms < 0 ? 0 : n->info->oldest_ms * 1000)
GET(holds, count_of, holds)
GET(refused, count_of, refused)
GET(lost, count_of, lost)
GET(taken_over, count_of, taken_over)
GET(failed, count_of, failed)
GET(waited, seconds_of, waited_us)
GET(held_all, seconds_of, held_us)
GET(succeeded, moment, succeeded_at)
GET(failed_at, moment, failed_at)
GET(took, seconds_of, succeeded_held_us)

static const struct {
    const char *name;
    const char *type;
    const char *help;
    /* False: the name has no such figure. */
    bool (*get)(const named *n, char *value, size_t size);
} metrics[] = {
    {"holders", "gauge", "How many hold the lock now.", get_holders},
    {"waiters", "gauge", "How many wait for the lock now, as far as this user may see.",
     get_waiters},
    {"held_seconds", "gauge", "For how long its holder has had it now.", get_held},
    {"frozen", "gauge", "1 while the name is frozen, else 0.", get_frozen},
    {"acquisitions_total", "counter", "Holds that have ended.", get_holds},
    {"refused_total", "counter", "Tries that did not get it, of those that are recorded.",
     get_refused},
    {"lost_total", "counter", "Holds that were lost before their release.", get_lost},
    {"taken_over_total", "counter", "Holds that began by taking over from a dead holder.",
     get_taken_over},
    {"failed_total", "counter", "Holds that were lost, or released with an exit status above 0.",
     get_failed},
    {"wait_seconds_total", "counter", "Time spent waiting for it.", get_waited},
    {"hold_seconds_total", "counter", "Time for which it was held.", get_held_all},
    {"last_success_timestamp_seconds", "gauge", "When its work went well for the last time.",
     get_succeeded},
    {"last_failure_timestamp_seconds", "gauge", "When its work failed for the last time.",
     get_failed_at},
    {"last_success_duration_seconds", "gauge", "For how long the last success held it.", get_took},
    {"queue_ready", "gauge", "Items of the queue that are ready.", get_ready},
    {"queue_in_flight", "gauge", "Items that workers have.", get_in_flight},
    {"queue_dead", "gauge", "Items that have failed too often.", get_dead},
    {"queue_oldest_seconds", "gauge", "For how long the oldest ready item has been ready.",
     get_oldest},
};

static void print_names(FILE *out, const scrape *all)
{
    char value[64];
    for (size_t m = 0; m < sizeof metrics / sizeof metrics[0]; m++) {
        put_head(out, metrics[m].name, metrics[m].type, metrics[m].help);
        for (size_t i = 0; i < all->shown; i++)
            if (metrics[m].get(&all->list[i], value, sizeof value))
                put_value(out, metrics[m].name, "name", all->list[i].info->name, value);
    }
}

/* ---------------------------------------------------------- of the whole */

static void print_whole(FILE *out, const scrape *all)
{
    static const char *const states[] = {[ROWLOCK_FREE] = "free",
                                         [ROWLOCK_HELD] = "held",
                                         [ROWLOCK_EXPIRED] = "expired",
                                         [ROWLOCK_COOLING] = "cooling"};
    enum { STATES = sizeof states / sizeof states[0] };
    size_t counts[STATES] = {0};
    size_t frozen = 0;
    for (size_t i = 0; i < all->locks.count; i++) {
        counts[all->locks.at[i]->state]++;
        frozen += *all->locks.at[i]->frozen_until != '\0';
    }
    put_head(out, "info", "gauge", "Which rowlock has looked.");
    put_value(out, "info", "version", rowlock_version(), "1");
    put_head(out, "locks", "gauge", "Names of locks, by state.");
    for (size_t i = 0; i < STATES; i++)
        fprintf(out, "rowlock_locks{state=\"%s\"} %zu\n", states[i], counts[i]);
    put_head(out, "all_waiters", "gauge", "How many wait for any lock, as far as this user sees.");
    fprintf(out, "rowlock_all_waiters %zu\n", rowlock_waiters_count(all->locks.waiters));
    put_head(out, "frozen_names", "gauge", "Names that are frozen.");
    fprintf(out, "rowlock_frozen_names %zu\n", frozen);
    put_head(out, "names_left_out", "gauge", "Names that have no metrics of their own here.");
    fprintf(out, "rowlock_names_left_out %zu\n", all->locks.count - all->shown);
    put_head(out, "doctor_level", "gauge",
             "What rowlock doctor finds: 0 fine, 1 a note, 2 care, 3 broken.");
    for (size_t i = 0; i < all->level_count; i++) {
        char value[16];
        snprintf(value, sizeof value, "%u", (unsigned)all->levels[i].level);
        put_value(out, "doctor_level", "check", all->levels[i].check, value);
    }
}

/* ------------------------------------------------------------------ reading */

/* Keeps the worst of several findings of one check. */
static void keep_level(void *data, const rowlock_finding *finding)
{
    scrape *all = data;
    level *its = all->levels;
    level *end = all->levels + all->level_count;
    while (its < end && strcmp(its->check, finding->check) != 0)
        its++;
    if (its == end && all->level_count == FINDINGS_MOST)
        return;
    if (its == end) {
        all->level_count++;
        *its = (level){.level = ROWLOCK_FINE};
        snprintf(its->check, sizeof its->check, "%s", finding->check);
    }
    if (finding->level > its->level)
        its->level = finding->level;
}

static bool in_use(const named *n)
{
    return cli_is_held(n->info) || n->waiters > 0;
}

static int most_wanted_first(const void *a, const void *b)
{
    const named *one = a;
    const named *other = b;
    const int later = strcmp(other->info->totals.last_at, one->info->totals.last_at);
    if (in_use(one) != in_use(other))
        return in_use(one) ? -1 : 1;
    return later ? later : strcmp(one->info->name, other->info->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const named *)a)->info->name, ((const named *)b)->info->name);
}

/* Chooses the names to show: those in use first, then those counted last. They are printed in byte
 * order, so that two files can be compared. */
static void choose(scrape *all, size_t most)
{
    size_t from = 0;
    all->list = cli_need(calloc(all->locks.count + 1, sizeof *all->list));
    for (size_t i = 0; i < all->locks.count; i++) {
        const cli_waiting its = cli_waiting_for(all->locks.waiters, all->locks.at[i]->name, from);
        all->list[i] = (named){all->locks.at[i], its.end - its.first};
        from = its.end;
    }
    all->shown = all->locks.count < most ? all->locks.count : most;
    qsort(all->list, all->locks.count, sizeof *all->list, most_wanted_first);
    qsort(all->list, all->shown, sizeof *all->list, by_name);
}

/* ------------------------------------------------------------------ writing */

/* Writes everything, and to the disk, before the file replaces the last one. */
static bool write_into(FILE *out, const scrape *all)
{
    print_whole(out, all);
    print_names(out, all);
    const bool written = fflush(out) == 0 && !ferror(out) && fchmod(fileno(out), 0644) == 0 &&
                         fsync(fileno(out)) == 0;
    const int error = errno;
    const bool closed = fclose(out) == 0;
    if (!written)
        errno = error;
    return written && closed;
}

/* Replaces the file at once: a reader finds the old one or this one, whole. False: it has reported
 * an error. */
static bool write_file(const char *file, const scrape *all)
{
    char *next = NULL;
    if (asprintf(&next, "%s.XXXXXX", file) < 0)
        cli_out_of_memory();
    const int fd = mkstemp(next);
    FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
    const bool written = out && write_into(out, all) && rename(next, file) == 0;
    if (!written)
        cli_say("cannot write %s: %s", file, strerror(errno));
    if (!written && fd >= 0)
        unlink(next);
    free(next);
    return written;
}

static int print_metrics(void *into)
{
    const metrics_options *self = into;
    const rowlock_diagnose_options how = {.role = "looker"};
    static scrape all;
    rowlock_error err;
    int exit_status;
    rowlock_client *client = cli_open(&self->context, &exit_status);
    if (!client)
        return exit_status;
    rowlock_status status = cli_locks_read(client, NULL, true, &all.locks, &err);
    rowlock_client_close(client);
    if (status == ROWLOCK_OK)
        status = rowlock_diagnose_with(&self->context.client, &how, keep_level, &all, &err);
    exit_status = status == ROWLOCK_OK ? 0 : cli_fail(&err);
    if (status == ROWLOCK_OK)
        choose(&all, self->names);
    if (status == ROWLOCK_OK && self->out)
        exit_status = write_file(self->out, &all) ? 0 : CLI_EXIT_OUTPUT;
    else if (status == ROWLOCK_OK) {
        print_whole(stdout, &all);
        print_names(stdout, &all);
    }
    cli_locks_free(&all.locks);
    free(all.list);
    return exit_status;
}

static const cli_option options[] = {
    {0, "out", CLI_TEXT, CLI_AT(metrics_options, out)},
    {0, "names", CLI_UNSIGNED, CLI_AT(metrics_options, names), .most = NAMES_MOST},
    {0},
};

const cli_command cli_metrics = {
    .help = cli_help_metrics,
    .options = options,
    .into = &(metrics_options){.names = NAMES},
    .run = print_metrics,
};
