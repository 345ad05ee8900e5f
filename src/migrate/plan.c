#include "migrate/apply.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- a file that was stopped */

static void problem(rl_entry *entry, rowlock_migrations_state state, const char *format, ...)
    RL_PRINTF(3, 4);
static void problem(rl_entry *entry, rowlock_migrations_state state, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(entry->problem, sizeof entry->problem, format, args);
    va_end(args);
    entry->state = state;
}

/* "statements 1 to 2 took effect; " */
static const char *done_words(const rl_record *record, bool committed, char *words, size_t size)
{
    if (record->done == 0)
        snprintf(words, size, "%s",
                 record->running > 1 && !committed ? "none before it took effect for good; " : "");
    else if (record->done == 1)
        snprintf(words, size, "statement 1 took effect; ");
    else
        snprintf(words, size, "statements 1 to %u took effect; ", record->done);
    return words;
}

/* " (line 12)" for statement `step`, if the file has not changed since it was run. */
static const char *line_words(const rl_entry *entry, unsigned step, char *words, size_t size)
{
    rl_statement statement = {0};
    rl_script script = rl_file_script(entry->file);
    words[0] = '\0';
    if (strcmp(entry->file->checksum, entry->record->checksum) != 0)
        return words;
    while (step > 0 && rl_script_next(&script, &statement))
        step--;
    if (step == 0)
        snprintf(words, size, " (line %u)", statement.line);
    return words;
}

/* What to say if the running statement did not take effect. `committed`: the server may have
 * committed for it those behind the ones done and before it. */
static const char *if_not_words(const rl_record *record, bool committed, char *words, size_t size)
{
    if (record->running > record->done + 1 && committed)
        snprintf(words, size,
                 "--done=%u if only those before it did (the server may have committed them), or "
                 "with --done=%u if they did not either",
                 record->running - 1, record->done);
    else
        snprintf(words, size, "--done=%u if not%s", record->done,
                 record->running > record->done + 1
                     ? " (it was in a transaction with those before it)"
                     : "");
    return words;
}

static void unknown(rl_entry *entry)
{
    const rl_record *record = entry->record;
    const rl_statement begun = {.text = record->statement, .length = strlen(record->statement)};
    const bool committed = rl_commits_before(&begun);
    char line[24];
    char done[60];
    char if_not[200];
    problem(entry, ROWLOCK_MIGRATIONS_UNKNOWN,
            "%s stopped in statement %u of %u%s: `%.100s`%s%.100s; %swhether %u did is not "
            "known: look, then run " RL_REPAIR("--done=%u") " if it did, or with %s",
            record->name, record->running, record->steps,
            line_words(entry, record->running, line, sizeof line), record->statement,
            *record->error ? ": " : "", record->error,
            done_words(record, committed, done, sizeof done), record->running, record->running,
            if_not_words(record, committed, if_not, sizeof if_not));
}

/* The session of the first `done` statements has ended. True: the rest of the file needs, or may
 * need, something that they left in it. *left: they left something. */
static bool misses_session(const rl_file *file, unsigned done, bool *left)
{
    bool number = false;
    bool needed = false;
    rl_statement statement;
    rl_script script = rl_file_script(file);
    *left = false;
    for (unsigned step = 1; rl_script_next(&script, &statement); step++)
        if (step <= done) {
            *left = *left || rl_leaves_something(&statement);
            number = number || (rl_may_make_number(&statement) && !rl_is_of_session(&statement));
        } else {
            needed = needed || (number && rl_reads_number(&statement)) ||
                     (step == done + 1 && rl_reads_result(&statement));
        }
    return *left || needed;
}

static void check_rest(rl_entry *entry)
{
    const rl_record *record = entry->record;
    const rl_file *file = entry->file;
    char sum[65];
    bool left = false;
    if (record->done == 0)
        return;
    rl_done_checksum(file, record->done, sum);
    if (record->done > file->steps || strcmp(sum, record->done_checksum) != 0)
        problem(entry, ROWLOCK_MIGRATIONS_CHANGED,
                "%s was changed in its first statements (%u), which took effect already; put them "
                "back as they were, or, where the schema is as the file says, run " RL_REPAIR(
                    "--done=%u"),
                file->name, record->done, record->done);
    else if (!record->decided && misses_session(file, record->done, &left))
        problem(entry, ROWLOCK_MIGRATIONS_UNKNOWN,
                "%s stopped behind statement %u of %u, and what is left needs what the ones before "
                "left in their session%s: finish it by hand and run " RL_REPAIR(
                    "--done=%u") ", or, if the rest can do without, with --done=%u",
                file->name, record->done, file->steps,
                left ? " (temporary tables, locks, variables)" : "", file->steps, record->done);
}

static void judge_stopped(rl_entry *entry)
{
    entry->state = ROWLOCK_MIGRATIONS_STOPPED;
    entry->wanted = true;
    if (entry->record->whole)
        return; /* no statement took effect: run all again */
    if (entry->record->running > 0 && !entry->file->resumable)
        unknown(entry);
    else
        check_rest(entry);
}

/* ---------------------------------------------------------------------------- judging */

static void judge_applied(rl_entry *entry)
{
    entry->state = ROWLOCK_MIGRATIONS_DONE;
    if (strcmp(entry->file->checksum, entry->record->checksum) != 0)
        problem(
            entry, ROWLOCK_MIGRATIONS_CHANGED,
            "%s is not what was applied at %.19s (checksum %.12s there, %.12s here); put it back "
            "and write a new file for the change, or, where the schema is as it says now, "
            "run " RL_REPAIR("--checksums"),
            entry->file->name, entry->record->applied_at, entry->record->checksum,
            entry->file->checksum);
}

static void judge_missing(rl_entry *entry, const rl_plan *plan)
{
    const rl_record *record = entry->record;
    if (entry->version > plan->newest_file)
        problem(entry, ROWLOCK_MIGRATIONS_MISSING,
                "%s is in the history and newer than all files here: this folder is older than the "
                "schema; use the newer one",
                record->name);
    else
        problem(entry, ROWLOCK_MIGRATIONS_MISSING,
                "%s is in the history, and there is no such file; put it back, or run " RL_REPAIR(
                    "--forget=%" PRIu64),
                record->name, entry->version);
}

static void judge_new(rl_entry *entry, const rl_plan *plan)
{
    bool late = entry->version < plan->newest_record && !plan->out_of_order;
    entry->wanted = true;
    if (late)
        problem(entry, ROWLOCK_MIGRATIONS_LATE,
                "%s is new, and %" PRIu64 " is in the history already; give it a higher number, or "
                "say --out-of-order",
                entry->file->name, plan->newest_record);
}

/* A repeatable file that is new or has changed is run from its beginning; one that was stopped is
 * continued. */
static void judge_repeatable(rl_entry *entry)
{
    const rl_record *record = entry->record;
    if (!entry->file)
        entry->state = ROWLOCK_MIGRATIONS_MISSING; /* its changes stay */
    else if (record && strcmp(entry->file->checksum, record->checksum) == 0)
        record->applied ? judge_applied(entry) : judge_stopped(entry);
    else
        entry->wanted = entry->anew = true;
}

static void judge(rl_entry *entry, const rl_plan *plan)
{
    if (entry->version >= ROWLOCK_MIGRATIONS_REPEATABLE)
        judge_repeatable(entry);
    else if (!entry->file)
        judge_missing(entry, plan);
    else if (!entry->record)
        judge_new(entry, plan);
    else if (entry->record->applied)
        judge_applied(entry);
    else
        judge_stopped(entry);
    if (plan->target > 0 && entry->version > plan->target)
        entry->wanted = false;
}

/* ----------------------------------------------------------------------------- merging */

static void merge(const rl_folder *folder, const rl_ledger *ledger, rl_plan *plan)
{
    for (size_t f = 0, r = 0; f < folder->count || r < ledger->count;) {
        const rl_file *file = f < folder->count ? &folder->files[f] : NULL;
        const rl_record *record = r < ledger->count ? &ledger->records[r] : NULL;
        if (file && record && file->version < record->version)
            record = NULL;
        if (file && record && file->version > record->version)
            file = NULL;
        plan->entries[plan->count++] = (rl_entry){
            .version = file ? file->version : record->version, .file = file, .record = record};
        f += file != NULL;
        r += record != NULL;
    }
}

/* Repeatable files come after the numbered ones, by name. */
static int by_name(const void *a, const void *b)
{
    const rl_entry *one = a;
    const rl_entry *other = b;
    return strcmp(one->file ? one->file->name : one->record->name,
                  other->file ? other->file->name : other->record->name);
}

static void order_repeatable(rl_plan *plan)
{
    size_t first = 0;
    while (first < plan->count && plan->entries[first].version < ROWLOCK_MIGRATIONS_REPEATABLE)
        first++;
    if (first < plan->count)
        qsort(plan->entries + first, plan->count - first, sizeof *plan->entries, by_name);
}

/* The higher of `newest` and `version`, unless that is a repeatable file's. */
static uint64_t newest(uint64_t newest, uint64_t version)
{
    return version < ROWLOCK_MIGRATIONS_REPEATABLE && version > newest ? version : newest;
}

static rowlock_status check_target(const rl_folder *folder, uint64_t target, rowlock_error *err)
{
    bool found = target == 0;
    for (size_t i = 0; i < folder->count; i++)
        found = found || folder->files[i].version == target;
    if (found)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_INVALID, "there is no file with the number %" PRIu64, target);
}

rowlock_status rl_plan_make(const rowlock_migrations_options *options, const rl_folder *folder,
                            const rl_ledger *ledger, rl_plan *plan, rowlock_error *err)
{
    *plan = (rl_plan){.target = options->target, .out_of_order = options->out_of_order};
    RL_TRY(check_target(folder, plan->target, err));
    plan->entries = calloc(folder->count + ledger->count + 1, sizeof *plan->entries);
    if (!plan->entries)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    merge(folder, ledger, plan);
    order_repeatable(plan);
    for (size_t i = 0; i < folder->count; i++)
        plan->newest_file = newest(plan->newest_file, folder->files[i].version);
    for (size_t i = 0; i < ledger->count; i++)
        plan->newest_record = newest(plan->newest_record, ledger->records[i].version);
    for (size_t i = 0; i < plan->count; i++) {
        judge(&plan->entries[i], plan);
        plan->wanted += plan->entries[i].wanted;
    }
    return ROWLOCK_OK;
}

void rl_plan_free(rl_plan *plan)
{
    free(plan->entries);
    *plan = (rl_plan){0};
}

rowlock_status rl_plan_check(const rl_plan *plan, rowlock_error *err)
{
    for (size_t i = 0; i < plan->count; i++)
        if (*plan->entries[i].problem)
            return rl_fail(err, ROWLOCK_REPAIR, "%s", plan->entries[i].problem);
    return ROWLOCK_OK;
}
