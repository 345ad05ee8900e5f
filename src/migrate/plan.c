#include "migrate/plan.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* --------------------------------------------------------------- what a session knows */

static bool mentions_any(const rl_statement *statement, const char *const *words)
{
    for (; *words; words++)
        if (rl_statement_mentions(statement, *words))
            return true;
    return false;
}

/* "SET STATEMENT ... FOR INSERT ..." of MariaDB; with a comment between the words one may be. */
static bool sets_for_another(const rl_statement *statement)
{
    rl_statement rest = *statement;
    rest.text += strlen("SET");
    rest.length -= strlen("SET");
    while (rest.length > 0 && isspace((unsigned char)*rest.text)) {
        rest.text++;
        rest.length--;
    }
    bool comment = rest.length > 0 && strchr("/-#", *rest.text);
    return rl_statement_is(&rest, "STATEMENT") ||
           (comment && rl_statement_mentions(&rest, "STATEMENT"));
}

bool rl_is_of_session(const rl_statement *statement)
{
    /* Words, not run. */
    static const char *const beyond[] = {"GLOBAL",       "PERSIST", "PASSWORD",
                                         "DEFAULT ROLE", "(",       NULL};
    if (rl_statement_is(statement, "USE"))
        return true;
    return rl_statement_is(statement, "SET") && !sets_for_another(statement) &&
           !mentions_any(statement, beyond);
}

/* A variable gets a value: behind INTO, or as what a procedure is given. */
static bool fills_variable(const rl_statement *statement)
{
    const char *end = statement->text + statement->length;
    for (const char *at = statement->text; end - at > 4; at++) {
        if (strncasecmp(at, "INTO", 4) != 0)
            continue;
        const char *to = at + 4;
        while (to < end && isspace((unsigned char)*to))
            to++;
        if (to < end && to > at + 4 && *to == '@')
            return true;
    }
    return rl_commits_in_parts(statement) && rl_statement_mentions(statement, "@");
}

/* What it leaves in its session cannot be had again by running it again. */
static bool leaves_something(const rl_statement *statement)
{
    /* Words, not run. */
    static const char *const ways[] = {"TEMPORARY", ":=", "WITH READ LOCK", NULL};
    static const char *const first[] = {"LOCK", "PREPARE", "HANDLER", "GET", NULL};
    for (const char *const *word = first; *word; word++)
        if (rl_statement_is(statement, *word))
            return true;
    bool computed = rl_statement_is(statement, "SET") && rl_statement_mentions(statement, "(");
    return computed || fills_variable(statement) || mentions_any(statement, ways);
}

/* What it needs from the statement before it, in the same session. */
static bool needs_something(const rl_statement *statement)
{
    static const char *const ways[] = {"LAST_INSERT_ID", "ROW_COUNT", "FOUND_ROWS", NULL};
    return mentions_any(statement, ways);
}

/* ------------------------------------------------------------------------ one stopped */

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
static const char *done_words(const rl_record *record, char *words, size_t size)
{
    if (record->done == 0)
        snprintf(words, size, "%s",
                 record->running > 1 ? "none before it took effect for good; " : "");
    else if (record->done == 1)
        snprintf(words, size, "statement 1 took effect; ");
    else
        snprintf(words, size, "statements 1 to %u took effect; ", record->done);
    return words;
}

static void unknown(rl_entry *entry)
{
    const rl_record *record = entry->record;
    char done[60];
    problem(entry, ROWLOCK_MIGRATIONS_UNKNOWN,
            "%s stopped in statement %u of %u: `%.120s`; %swhether %u did is not known%s: look, "
            "then run `rowlock migrate repair --done=%u %s` if it did, or with --done=%u if not",
            record->name, record->running, record->steps, record->statement,
            done_words(record, done, sizeof done), record->running,
            record->running > record->done + 1 ? " (it was in a transaction with those before it)"
                                               : "",
            record->running, entry->where, record->done);
}

/* The statements that took effect, as the file has them now; and whether what they left in their
 * session is needed. */
typedef struct reading {
    rl_sha256 sum;
    unsigned left_line; /* of a statement among them that leaves something; 0: none */
    bool needed;
} reading;

static reading read_done(const rl_file *file, unsigned done)
{
    reading r = {.sum = rl_sha256_begin()};
    rl_statement statement;
    rl_script script = rl_file_script(file);
    for (unsigned step = 1; rl_script_next(&script, &statement); step++) {
        if (step <= done) {
            rl_done_add(&r.sum, &statement);
            if (leaves_something(&statement) && !r.left_line)
                r.left_line = statement.line;
        } else if (step == done + 1) {
            r.needed = needs_something(&statement);
        }
    }
    return r;
}

static void check_rest(rl_entry *entry)
{
    const rl_record *record = entry->record;
    const rl_file *file = entry->file;
    if (record->done == 0)
        return;
    reading r = read_done(file, record->done);
    char sum[65];
    rl_sha256_hex(&r.sum, sum);
    if (record->done > file->steps || strcmp(sum, record->done_checksum) != 0)
        problem(entry, ROWLOCK_MIGRATIONS_CHANGED,
                "%s was changed in its first statements (%u), which took effect already; put them "
                "back as they were, or, where the schema is as the file says, run `rowlock migrate "
                "repair --done=%u %s`",
                file->name, record->done, record->done, entry->where);
    else if (!record->decided && (r.left_line || r.needed))
        problem(entry, ROWLOCK_MIGRATIONS_UNKNOWN,
                "%s stopped behind statement %u of %u, and what is left needs what the ones before "
                "left in their session%s: finish it by hand and run `rowlock migrate repair "
                "--done=%u %s`, or, if the rest can do without, with --done=%u",
                file->name, record->done, file->steps,
                r.left_line ? " (temporary tables, locks, variables)" : "", file->steps,
                entry->where, record->done);
}

static void judge_stopped(rl_entry *entry)
{
    entry->state = ROWLOCK_MIGRATIONS_STOPPED;
    entry->wanted = true;
    if (entry->record->whole)
        return; /* nothing of it took effect: all of it again */
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
            "and write a new file for the change, or, where the schema is as it says now, run "
            "`rowlock migrate repair --checksums %s`",
            entry->file->name, entry->record->applied_at, entry->record->checksum,
            entry->file->checksum, entry->where);
}

static void judge_missing(rl_entry *entry, uint64_t newest_file)
{
    const rl_record *record = entry->record;
    if (entry->version > newest_file)
        problem(entry, ROWLOCK_MIGRATIONS_MISSING,
                "%s is in the history and newer than all files here: this folder is older than the "
                "schema; use the newer one",
                record->name);
    else
        problem(entry, ROWLOCK_MIGRATIONS_MISSING,
                "%s is in the history, and there is no such file; put it back, or run `rowlock "
                "migrate repair --forget=%" PRIu64 " %s`",
                record->name, entry->version, entry->where);
}

static void judge_new(rl_entry *entry, uint64_t newest_record, const rl_aim *aim)
{
    bool late = entry->version < newest_record && !aim->out_of_order;
    entry->wanted = true;
    if (late)
        problem(entry, ROWLOCK_MIGRATIONS_LATE,
                "%s is new, and %" PRIu64 " is in the history already; give it a higher number, or "
                "say --out-of-order",
                entry->file->name, newest_record);
}

static void judge(rl_entry *entry, uint64_t newest_file, uint64_t newest_record, const rl_aim *aim)
{
    if (!entry->file)
        judge_missing(entry, newest_file);
    else if (!entry->record)
        judge_new(entry, newest_record, aim);
    else if (entry->record->applied)
        judge_applied(entry);
    else
        judge_stopped(entry);
    if (aim->target > 0 && entry->version > aim->target)
        entry->wanted = false;
}

/* ----------------------------------------------------------------------------- merging */

static const rl_record *record_at(const rl_ledger *ledger, size_t i)
{
    return i < ledger->count ? &ledger->records[i] : NULL;
}

static const rl_file *file_at(const rl_folder *folder, size_t i)
{
    return i < folder->count ? &folder->files[i] : NULL;
}

static void merge(const rl_folder *folder, const rl_ledger *ledger, const char *where,
                  rl_plan *plan)
{
    for (size_t f = 0, r = 0; f < folder->count || r < ledger->count;) {
        const rl_file *file = file_at(folder, f);
        const rl_record *record = record_at(ledger, r);
        if (file && record && file->version != record->version) {
            if (file->version < record->version)
                record = NULL;
            else
                file = NULL;
        }
        plan->entries[plan->count++] = (rl_entry){.version = file ? file->version : record->version,
                                                  .file = file,
                                                  .record = record,
                                                  .where = where};
        f += file != NULL;
        r += record != NULL;
    }
}

static rowlock_status check_target(const rl_folder *folder, uint64_t target, rowlock_error *err)
{
    for (size_t i = 0; i < folder->count; i++)
        if (folder->files[i].version == target)
            return ROWLOCK_OK;
    return target == 0
               ? ROWLOCK_OK
               : rl_fail(err, ROWLOCK_INVALID, "there is no file with the number %" PRIu64, target);
}

rowlock_status rl_plan_make(const rl_folder *folder, const rl_ledger *ledger, const rl_aim *aim,
                            rl_plan *plan, rowlock_error *err)
{
    *plan = (rl_plan){0};
    rowlock_status status = check_target(folder, aim->target, err);
    if (status != ROWLOCK_OK)
        return status;
    plan->entries = calloc(folder->count + ledger->count + 1, sizeof *plan->entries);
    if (!plan->entries)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    merge(folder, ledger, aim->where, plan);
    uint64_t newest_file = folder->count ? folder->files[folder->count - 1].version : 0;
    uint64_t newest_record = ledger->count ? ledger->records[ledger->count - 1].version : 0;
    for (size_t i = 0; i < plan->count; i++) {
        judge(&plan->entries[i], newest_file, newest_record, aim);
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
