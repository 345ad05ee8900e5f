/*
 * cli/cmd_check.c - check: a monitoring plugin. It prints one short line, then "|" and performance
 * data; its exit status is 0 to 3.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "locks.h"
#include "table.h"

enum {
    OPERANDS_MOST = 1000,
    NAMES_IN_DATA = 100, /* most names in the performance data */
    LINE_COLUMNS = 60,   /* of the first line, without the performance data */
    NAME_COLUMNS = 4     /* a name gets at least so many of them */
};

/* Also the exit statuses. */
typedef enum verdict { CHECK_OK, CHECK_WARNING, CHECK_CRITICAL, CHECK_UNKNOWN } verdict;

static const cli_named words[] = {
    [CHECK_OK] = {"OK", CLI_PLAIN},
    [CHECK_WARNING] = {"WARNING", CLI_PLAIN},
    [CHECK_CRITICAL] = {"CRITICAL", CLI_PLAIN},
    [CHECK_UNKNOWN] = {"UNKNOWN", CLI_PLAIN},
};

typedef struct checking {
    cli_context context;
    int64_t max_age_ms; /* 0: not asked for */
    int64_t max_held_ms;
    bool failed;
} checking;

/* One name; the figures of a name with slots are those of all its slots together. */
typedef struct job {
    const char *name; /* or a pattern that no name matches */
    uint64_t holds;
    int64_t succeeded_ms; /* how long ago; -1: never */
    int64_t took_us;
    int64_t failed_ms;
    bool has_exit_status;
    int exit_status;
    bool held;
    int64_t held_ms; /* -1: it is not held, is held by readers, or its holder is not published */
    const char *holder;
    uint64_t readers;
    bool expired;             /* its lease has expired */
    const char *period_state; /* of the newest period */
    bool has_slots;
    verdict verdict;
    size_t brief;   /* length of the first finding in `text` */
    char text[400]; /* "has not succeeded for 26h05m, failed 3m12s ago (exit 3)" */
} job;

typedef struct jobs {
    job *list;
    size_t count;
    cli_locks *locks; /* own the texts of the jobs */
    size_t locks_count;
    cli_pattern *which; /* one for each operand */
} jobs;

/* ----------------------------------------------------------------- reading */

static void find(job *its, verdict how, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A worse finding replaces the present one, an equally bad one is appended to it. */
static void find(job *its, verdict how, const char *format, ...)
{
    va_list args;
    size_t used = how > its->verdict ? 0 : strlen(its->text);
    if (how < its->verdict)
        return;
    its->verdict = how;
    if (used > 0 && used + 2 < sizeof its->text)
        used += (size_t)snprintf(its->text + used, sizeof its->text - used, ", ");
    va_start(args, format);
    vsnprintf(its->text + used, sizeof its->text - used, format, args);
    va_end(args);
    if (used == 0)
        its->brief = strlen(its->text);
}

static void add_outcomes(job *to, const rowlock_totals *totals)
{
    to->holds += totals->holds;
    if (totals->succeeded_ms >= 0 &&
        (to->succeeded_ms < 0 || totals->succeeded_ms < to->succeeded_ms)) {
        to->succeeded_ms = totals->succeeded_ms;
        to->took_us = totals->succeeded_held_us;
    }
    if (totals->failed_ms >= 0 && (to->failed_ms < 0 || totals->failed_ms < to->failed_ms)) {
        to->failed_ms = totals->failed_ms;
        to->has_exit_status = totals->failed_has_exit_status;
        to->exit_status = totals->failed_exit_status;
    }
}

static void add_lock(job *to, const rowlock_info *info)
{
    to->expired = to->expired || info->state == ROWLOCK_EXPIRED;
    to->held = to->held || cli_is_held(info);
    to->readers += info->readers;
    if (info->held_ms > to->held_ms) {
        to->held_ms = info->held_ms;
        to->holder = info->owner_label;
    }
    if (*info->period_state)
        to->period_state = info->period_state;
    add_outcomes(to, &info->totals);
}

static job *add_job(jobs *all, const char *name)
{
    all->list = cli_need(reallocarray(all->list, all->count + 1, sizeof *all->list));
    all->list[all->count] = (job){.name = name,
                                  .succeeded_ms = -1,
                                  .took_us = -1,
                                  .failed_ms = -1,
                                  .held_ms = -1,
                                  .holder = "",
                                  .period_state = ""};
    return &all->list[all->count++];
}

static cli_locks *new_locks(jobs *all)
{
    all->locks = cli_need(reallocarray(all->locks, all->locks_count + 1, sizeof *all->locks));
    all->locks[all->locks_count] = (cli_locks){0};
    return &all->locks[all->locks_count++];
}

/* A slot is a lock of its own, NAME#0. */
static bool is_slot_of(const char *name, const char *slot)
{
    const size_t length = strlen(name);
    return strncmp(slot, name, length) == 0 && slot[length] == '#' && slot[length + 1] &&
           slot[length + 1 + strspn(slot + length + 1, "0123456789")] == '\0';
}

/* The job of the name whose slot this is, looked for from `first` on; else a new job. */
static job *job_of(jobs *all, size_t first, const rowlock_info *info)
{
    for (size_t i = strrchr(info->name, '#') ? all->count : first; i > first; i--)
        if (all->list[i - 1].has_slots && is_slot_of(all->list[i - 1].name, info->name))
            return &all->list[i - 1];
    job *its = add_job(all, info->name);
    its->has_slots = info->slots > 0;
    return its;
}

static rowlock_status read_slots(jobs *all, rowlock_client *client, job *its, rowlock_error *err)
{
    cli_locks *locks = new_locks(all);
    char prefix[ROWLOCK_NAME_MAX * 4 + 2];
    snprintf(prefix, sizeof prefix, "%s#", its->name);
    rowlock_status status = cli_locks_read(client, prefix, true, locks, err);
    for (size_t i = 0; status == ROWLOCK_OK && i < locks->count; i++)
        if (is_slot_of(its->name, locks->at[i]->name))
            add_lock(its, locks->at[i]);
    return status;
}

static const char *kind_of(const rowlock_info *info)
{
    return info->kind == ROWLOCK_KIND_LATCH     ? "latch"
           : info->kind == ROWLOCK_KIND_BARRIER ? "barrier"
                                                : "queue";
}

static rowlock_status read_name(jobs *all, rowlock_client *client, const char *name,
                                rowlock_error *err)
{
    cli_locks *locks = new_locks(all);
    rowlock_status status = cli_locks_read_one(client, name, locks, err);
    if (status != ROWLOCK_OK && status != ROWLOCK_NOT_FOUND)
        return status;
    job *its = add_job(all, name);
    if (locks->count == 0)
        return ROWLOCK_OK;
    if (!cli_has_holders(locks->at[0]))
        find(its, CHECK_UNKNOWN, "is a %s: nobody holds it", kind_of(locks->at[0]));
    add_lock(its, locks->at[0]);
    return locks->at[0]->slots > 0 ? read_slots(all, client, its, err) : ROWLOCK_OK;
}

/* `operand`: the pattern as given; NULL: all names. */
static rowlock_status read_many(jobs *all, rowlock_client *client, const char *prefix,
                                const char *operand, rowlock_error *err)
{
    cli_locks *locks = new_locks(all);
    const size_t before = all->count;
    rowlock_status status = cli_locks_read(client, prefix, true, locks, err);
    if (status != ROWLOCK_OK)
        return status;
    for (size_t i = 0; i < locks->count; i++)
        if (cli_has_holders(locks->at[i]))
            add_lock(job_of(all, before, locks->at[i]), locks->at[i]);
    if (operand && all->count == before)
        add_job(all, operand);
    return ROWLOCK_OK;
}

static rowlock_status read_jobs(const checking *self, rowlock_client *client, jobs *all,
                                rowlock_error *err)
{
    const size_t count = (size_t)self->context.operand_count;
    rowlock_status status = ROWLOCK_OK;
    all->which = cli_need(calloc(count + 1, sizeof *all->which));
    for (size_t i = 0; i < count && status == ROWLOCK_OK; i++) {
        cli_pattern *which = &all->which[i];
        cli_pattern_of(self->context.operands[i], which);
        if (which->name)
            status = read_name(all, client, which->name, err);
        else
            status = read_many(all, client, which->prefix, self->context.operands[i], err);
    }
    if (count == 0)
        status = read_many(all, client, NULL, NULL, err);
    return status;
}

/* ----------------------------------------------------------------- judging */

static bool period_failed(const job *its)
{
    return strcmp(its->period_state, "failed") == 0 || strcmp(its->period_state, "died") == 0;
}

static void judge_age(job *its, int64_t max_ms)
{
    char age[CLI_HUMANE];
    if (its->succeeded_ms > max_ms)
        find(its, CHECK_CRITICAL, "has not succeeded for %s",
             cli_humane(its->succeeded_ms, age, sizeof age));
    /* A job without a success may still be at its first run. */
    else if (its->succeeded_ms < 0 &&
             (its->holds > 0 || its->held_ms > max_ms || its->expired || period_failed(its)))
        find(its, CHECK_CRITICAL, "has never succeeded");
}

static void judge_failure(job *its)
{
    char age[CLI_HUMANE];
    const bool newer =
        its->failed_ms >= 0 && (its->succeeded_ms < 0 || its->failed_ms < its->succeeded_ms);
    if (newer && its->has_exit_status)
        find(its, CHECK_CRITICAL, "failed %s ago (exit %d)",
             cli_humane(its->failed_ms, age, sizeof age), its->exit_status);
    else if (newer)
        find(its, CHECK_CRITICAL, "failed %s ago", cli_humane(its->failed_ms, age, sizeof age));
    else if (period_failed(its))
        find(its, CHECK_CRITICAL, "its period has %s", its->period_state);
}

static void judge_hold(job *its, int64_t max_ms)
{
    char held[CLI_HUMANE];
    if (its->held_ms > max_ms)
        find(its, CHECK_WARNING, "is held for %s", cli_humane(its->held_ms, held, sizeof held));
    if (its->held_ms > max_ms && its->verdict == CHECK_WARNING)
        find(its, CHECK_WARNING, "by %s", its->holder);
}

static void tell_fine(job *its)
{
    char age[CLI_HUMANE];
    char took[CLI_HUMANE];
    if (its->succeeded_ms >= 0)
        find(its, CHECK_OK, "succeeded %s ago%s%s", cli_humane(its->succeeded_ms, age, sizeof age),
             its->took_us >= 0 ? ", took " : "",
             its->took_us >= 0 ? cli_humane(its->took_us / 1000, took, sizeof took) : "");
    if (its->held_ms >= 0)
        find(its, CHECK_OK, "is held for %s", cli_humane(its->held_ms, age, sizeof age));
    else if (its->readers > 0)
        find(its, CHECK_OK, "is held by %" PRIu64 " reader%s", its->readers,
             its->readers == 1 ? "" : "s");
    else if (its->held)
        find(its, CHECK_OK, "is held");
    if (!*its->text)
        find(its, CHECK_OK, "is free");
}

static void judge(const checking *self, job *its)
{
    const bool ran =
        its->holds > 0 || its->succeeded_ms >= 0 || its->held || *its->period_state != '\0';
    if (its->verdict == CHECK_UNKNOWN)
        return;
    if (self->context.operand_count > 0 && !ran)
        find(its, CHECK_CRITICAL, "never ran");
    else if (self->max_age_ms)
        judge_age(its, self->max_age_ms);
    if (self->failed)
        judge_failure(its);
    if (self->max_held_ms)
        judge_hold(its, self->max_held_ms);
    if (its->expired)
        find(its, CHECK_WARNING, "has a holder whose time is over");
    tell_fine(its);
}

/* As max_state_alt() of the monitoring plugins: CRITICAL, WARNING, UNKNOWN, OK. */
static int worst_first(const void *a, const void *b)
{
    static const int rank[] = {
        [CHECK_OK] = 0, [CHECK_UNKNOWN] = 1, [CHECK_WARNING] = 2, [CHECK_CRITICAL] = 3};
    const job *one = a;
    const job *other = b;
    if (one->verdict != other->verdict)
        return rank[other->verdict] - rank[one->verdict];
    return strcmp(one->name, other->name);
}

/* ----------------------------------------------------------------- telling */

/* Replaces "|", which would begin the performance data. */
static void put_text(const char *text)
{
    char *printable = cli_need(cli_printable(text));
    for (char *at = printable; (at = strchr(at, '|'));)
        *at = '/';
    fputs(printable, stdout);
    free(printable);
}

/* 'nightly_age'=93900.000s;;93600.000;0 */
static void put_datum(const char *name, const char *what, int64_t ms, int64_t warn_ms,
                      int64_t crit_ms)
{
    char *printable = cli_need(cli_printable(name));
    if (ms >= 0) {
        fputs(" '", stdout);
        for (const char *at = printable; *at; at++)
            fputs(*at == '\'' ? "''" : (char[]){*at == '=' || *at == '|' ? '_' : *at, 0}, stdout);
        printf("_%s'=%" PRId64 ".%03ds;", what, ms / 1000, (int)(ms % 1000));
        if (warn_ms)
            printf("%" PRId64 ".%03d", warn_ms / 1000, (int)(warn_ms % 1000));
        putchar(';');
        if (crit_ms)
            printf("%" PRId64 ".%03d", crit_ms / 1000, (int)(crit_ms % 1000));
        fputs(";0", stdout);
    }
    free(printable);
}

static void print_data(const checking *self, const jobs *all, size_t held)
{
    printf(" | names=%zu;;;0 held=%zu;;;0", all->count, held);
    for (size_t i = 0; i < all->count && i < NAMES_IN_DATA; i++) {
        const job *its = &all->list[i];
        put_datum(its->name, "age", its->succeeded_ms, 0, self->max_age_ms);
        put_datum(its->name, "took", its->took_us < 0 ? -1 : its->took_us / 1000, 0, 0);
        put_datum(its->name, "held", its->held_ms, self->max_held_ms, 0);
    }
}

/* The first line: the worst verdict, and the first finding of it. False: there are further
 * findings. */
static bool make_first(const jobs *all, char *out, size_t size)
{
    char name[ROWLOCK_NAME_MAX * 4 + 1] = "";
    char many[64] = "";
    size_t bad = 0;
    for (size_t i = 0; i < all->count; i++)
        bad += all->list[i].verdict != CHECK_OK;
    const job *its = all->list;
    if (all->count == 0 || (all->count > 1 && bad == 0)) {
        snprintf(out, size, all->count ? "OK - all %zu are well" : "OK - no name was used yet",
                 all->count);
        return all->count == 0;
    }
    if (all->count > 1)
        snprintf(many, sizeof many, "%zu of %zu: ", bad, all->count);
    cli_printable_into(name, sizeof name, its->name);
    const char *word = words[its->verdict].word;
    const size_t taken = strlen(word) + strlen(" - ") + strlen(many) + 1 + its->brief;
    const size_t most =
        taken + NAME_COLUMNS < LINE_COLUMNS ? LINE_COLUMNS - taken : (size_t)NAME_COLUMNS;
    char *cut = cli_width(name) > most ? cli_need(cli_cut(name, most, true)) : NULL;
    snprintf(out, size, "%s - %s%s %.*s", word, many, cut ? cut : name, (int)its->brief, its->text);
    free(cut);
    return all->count == 1 && !cut && !its->text[its->brief];
}

/* On a terminal the performance data is left out: people would lose the text in it. */
static void print_text(const checking *self, const jobs *all, size_t held)
{
    char first[LINE_COLUMNS * 8];
    const bool is_all = make_first(all, first, sizeof first);
    put_text(first);
    if (!isatty(STDOUT_FILENO))
        print_data(self, all, held);
    putchar('\n');
    for (size_t i = 0; !is_all && i < all->count; i++) {
        printf("%s: ", words[all->list[i].verdict].word);
        put_text(all->list[i].name);
        putchar(' ');
        put_text(all->list[i].text);
        putchar('\n');
    }
}

static const char *failed_exit_of(const void *row, char *text)
{
    const job *its = row;
    if (its->has_exit_status)
        snprintf(text, CELL_TEXT_MAX, "%d", its->exit_status);
    return text;
}

static const char *took_of(const void *row, char *text)
{
    const job *its = row;
    if (its->took_us >= 0)
        snprintf(text, CELL_TEXT_MAX, "%" PRId64, its->took_us);
    return text;
}

static const char *text_of(const void *row, char *text)
{
    (void)text;
    return ((const job *)row)->text;
}

static const cli_column columns[] = {
    {"name", CELL_TEXT, CELL_AT(job, name)},
    {"status", CELL_NAMED, CELL_AT(job, verdict), .names = words},
    {"message", CELL_TEXT, .text = text_of},
    {"succeeded_ms", CELL_MS, CELL_AT(job, succeeded_ms)},
    {"succeeded_held_us", CELL_LITERAL, .text = took_of},
    {"failed_ms", CELL_MS, CELL_AT(job, failed_ms)},
    {"failed_exit_status", CELL_LITERAL, .text = failed_exit_of},
    {"held_ms", CELL_MS, CELL_AT(job, held_ms)},
    {"holder", CELL_TEXT, CELL_AT(job, holder)},
    {"readers", CELL_COUNT, CELL_AT(job, readers)},
    {0},
};

static void print_json(verdict worst, const char *message, const jobs *all, size_t held)
{
    json_object *object = cli_json_new();
    cli_json_text(object, "status", words[worst].word);
    cli_json_count(object, "exit_status", (uint64_t)worst);
    cli_json_text(object, "message", message);
    cli_json_count(object, "held", held);
    json_object *array = cli_json_array(object, "names");
    for (size_t i = 0; i < all->count; i++)
        cli_json_append(array, cli_row_json(columns, &all->list[i]));
    cli_json_print(object);
}

static verdict print_all(const checking *self, jobs *all)
{
    char first[LINE_COLUMNS * 8];
    size_t held = 0;
    for (size_t i = 0; i < all->count; i++) {
        judge(self, &all->list[i]);
        held += all->list[i].held;
    }
    if (all->count > 1)
        qsort(all->list, all->count, sizeof *all->list, worst_first);
    const verdict worst = all->count > 0 ? all->list[0].verdict : CHECK_OK;
    if (self->context.json) {
        make_first(all, first, sizeof first);
        print_json(worst, first, all, held);
    } else {
        print_text(self, all, held);
    }
    return worst;
}

static void free_jobs(jobs *all)
{
    for (size_t i = 0; i < all->locks_count; i++)
        cli_locks_free(&all->locks[i]);
    free(all->locks);
    free(all->list);
    free(all->which);
}

static int check_all(void *into)
{
    const checking *self = into;
    jobs all = {0};
    rowlock_error err;
    int exit_status = CHECK_UNKNOWN;
    rowlock_client *client = cli_open(&self->context, &exit_status);
    if (!client)
        return CHECK_UNKNOWN;
    rowlock_status status = read_jobs(self, client, &all, &err);
    rowlock_client_close(client);
    if (status == ROWLOCK_OK)
        exit_status = (int)print_all(self, &all);
    else
        cli_fail(&err);
    free_jobs(&all);
    return exit_status;
}

/* Repeats the error on stdout, which is what a monitoring system shows. */
static int tell_unknown(int exit_status)
{
    const checking *self = cli_check.into;
    const char *message = cli_failure()->message;
    const char begin[] = "UNKNOWN - ";
    const size_t most = LINE_COLUMNS - strlen(begin);
    char *printable;
    char *cut;
    if (exit_status <= CHECK_CRITICAL || !*message) /* it was reported already */
        return exit_status;
    if (self->context.json) {
        print_json(CHECK_UNKNOWN, message, &(jobs){0}, 0);
        return CHECK_UNKNOWN;
    }
    printable = cli_need(cli_printable(message));
    cut = cli_width(printable) > most ? cli_need(cli_cut(printable, most, false)) : NULL;
    fputs(begin, stdout);
    put_text(cut ? cut : printable);
    putchar('\n');
    if (cut) {
        put_text(printable);
        putchar('\n');
    }
    free(printable);
    free(cut);
    return CHECK_UNKNOWN;
}

static const cli_option options[] = {
    {0, "max-age", CLI_DURATION, CLI_AT(checking, max_age_ms), .least = 1,
     .wants = "is more than 0: 26h"},
    {0, "max-held", CLI_DURATION, CLI_AT(checking, max_held_ms), .least = 1,
     .wants = "is more than 0: 2h"},
    {0, "failed", CLI_FLAG, CLI_AT(checking, failed)},
    {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
    {0},
};

const cli_command cli_check = {
    .help = cli_help_check,
    .options = options,
    .into = CLI_INTO(checking),
    .most = OPERANDS_MOST,
    .operands = "so many NAMEs",
    .run = check_all,
    .on_end = tell_unknown,
};
