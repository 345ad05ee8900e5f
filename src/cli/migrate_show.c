/* cli/migrate_show.c - migrate --dry-run and migrate status. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "migrate.h"

/* ---------------------------------------------------------------------------- dry run */

/* Where the statements of a file go, without the first `done`. */
typedef struct statements_json {
    json_object *array;
    unsigned done;
} statements_json;

static void print_statement(void *data, const rowlock_migrations_statement *statement)
{
    const unsigned *done = data;
    if (statement->step <= *done)
        return;
    const char *end = memchr(statement->text, '\n', statement->length);
    size_t length = end ? (size_t)(end - statement->text) : statement->length;
    cli_line("  %u (line %u): %.*s%s", statement->step, statement->line, (int)length,
             statement->text, length < statement->length ? " ..." : "");
}

static void add_statement(void *data, const rowlock_migrations_statement *statement)
{
    statements_json *to = data;
    if (statement->step <= to->done)
        return;
    json_object *object = cli_json_new();
    char *text = cli_need(strndup(statement->text, statement->length));
    cli_json_count(object, "statement", statement->step);
    cli_json_count(object, "line", statement->line);
    cli_json_text(object, "text", text);
    cli_json_append(to->array, object);
    free(text);
}

/* The first file for which a run would be refused; NULL: none. */
static const rowlock_migrations_file *first_problem(const rowlock_migrations_list *list)
{
    for (size_t i = 0; i < rowlock_migrations_count(list); i++)
        if (*rowlock_migrations_at(list, i)->problem)
            return rowlock_migrations_at(list, i);
    return NULL;
}

/* How many statements of a wanted file have taken effect. */
static unsigned done_of(const rowlock_migrations_file *file)
{
    return file->state == ROWLOCK_MIGRATIONS_STOPPED ? file->steps_done : 0;
}

static void print_file(const rowlock_migrations_list *list, size_t i)
{
    const rowlock_migrations_file *file = rowlock_migrations_at(list, i);
    unsigned done = done_of(file);
    cli_line("%s: %u statement%s%s", file->name, file->steps - done,
             file->steps - done == 1 ? "" : "s", done ? " left" : "");
    rowlock_migrations_statements(list, i, print_statement, &done);
}

const char *migrate_number(uint64_t version, char text[CELL_TEXT_MAX])
{
    if (version < ROWLOCK_MIGRATIONS_REPEATABLE)
        snprintf(text, CELL_TEXT_MAX, "%" PRIu64, version);
    return text;
}

static json_object *plan_json(const rowlock_migrations_list *list, size_t i)
{
    const rowlock_migrations_file *file = rowlock_migrations_at(list, i);
    json_object *object = cli_json_new();
    char number[CELL_TEXT_MAX] = "";
    cli_json_number(object, "number", migrate_number(file->version, number));
    cli_json_text(object, "name", file->name);
    statements_json to = {cli_json_array(object, "statements"), done_of(file)};
    rowlock_migrations_statements(list, i, add_statement, &to);
    return object;
}

static int show_plan(const migrating *m, const rowlock_migrations_list *list)
{
    const rowlock_migrations_file *wrong = first_problem(list);
    size_t wanted = 0;
    if (wrong) {
        cli_say("%s", wrong->problem);
        return rowlock_status_exit(ROWLOCK_REPAIR);
    }
    for (size_t i = 0; i < rowlock_migrations_count(list); i++) {
        if (!rowlock_migrations_at(list, i)->wanted)
            continue;
        if (m->context.json)
            cli_json_item(plan_json(list, i), wanted);
        else
            print_file(list, i);
        wanted++;
    }
    if (m->context.json)
        cli_json_end(wanted);
    else if (wanted == 0 && !m->quiet)
        puts("nothing to do");
    return 0;
}

int migrate_dry_run(migrating *m, rowlock_client *client)
{
    rowlock_migrations_list *list;
    rowlock_error err;
    if (rowlock_migrations_get(client, &m->options, &list, &err) != ROWLOCK_OK)
        return cli_fail(&err);
    int exit_status = show_plan(m, list);
    rowlock_migrations_free(list);
    return exit_status;
}

/* ----------------------------------------------------------------------------- status */

static const cli_named states[] = {
    [ROWLOCK_MIGRATIONS_PENDING] = {"pending", CLI_YELLOW},
    [ROWLOCK_MIGRATIONS_DONE] = {"applied", CLI_GREEN},
    [ROWLOCK_MIGRATIONS_STOPPED] = {"stopped", CLI_YELLOW},
    [ROWLOCK_MIGRATIONS_UNKNOWN] = {"unknown", CLI_RED},
    [ROWLOCK_MIGRATIONS_CHANGED] = {"changed", CLI_RED},
    [ROWLOCK_MIGRATIONS_MISSING] = {"missing", CLI_RED},
    [ROWLOCK_MIGRATIONS_LATE] = {"late", CLI_RED},
    [ROWLOCK_MIGRATIONS_RUNNING] = {"running", CLI_GREEN},
};

static const char *steps_of(const void *row, char *text)
{
    const rowlock_migrations_file *file = row;
    if (file->state == ROWLOCK_MIGRATIONS_PENDING || file->state == ROWLOCK_MIGRATIONS_LATE)
        snprintf(text, CELL_TEXT_MAX, "%u", file->steps);
    else
        snprintf(text, CELL_TEXT_MAX, "%u of %u", file->steps_done, file->steps);
    return text;
}

static const char *number_of(const void *row, char *text)
{
    return migrate_number(((const rowlock_migrations_file *)row)->version, text);
}

#define FILE_AT(member) CELL_AT(rowlock_migrations_file, member)
static const cli_column columns[] = {
    {"number", CELL_LITERAL, .text = number_of, .title = "NUMBER", .place = 1},
    {"name", CELL_TEXT, FILE_AT(name), .title = "NAME", .place = 2, .cut = 2, .cut_middle = true},
    {"state", CELL_NAMED, FILE_AT(state), .names = states, .title = "STATE", .place = 3},
    {"problem", CELL_TEXT, FILE_AT(problem)},
    {"statements", CELL_UNSIGNED, FILE_AT(steps), .title = "STATEMENTS", .place = 4, .spare = 1,
     .text = steps_of},
    {"done", CELL_UNSIGNED, FILE_AT(steps_done)},
    {"running", CELL_UNSIGNED, FILE_AT(running)},
    {"statement", CELL_TEXT, FILE_AT(statement)},
    {"error", CELL_TEXT, FILE_AT(error)},
    {"checksum", CELL_TEXT, FILE_AT(checksum)},
    {"started_at", CELL_TIME, FILE_AT(started_at)},
    {"applied_at", CELL_TIME, FILE_AT(applied_at), .title = "APPLIED (UTC)", .place = 5,
     .spare = 1},
    {"applied_by", CELL_TEXT, FILE_AT(applied_by), .title = "BY", .place = 7, .cut = 1, .spare = 2},
    {"token", CELL_COUNT, FILE_AT(token)},
    {"duration_ms", CELL_MS, FILE_AT(duration_ms), .title = "TOOK", .place = 6, .spare = 1},
    {0},
};

/* Reports a gap between two numbers that are small and near each other; dates have gaps. */
static void print_gap(const rowlock_migrations_file *before, const rowlock_migrations_file *file)
{
    enum { COUNTED = 100000 };
    if (file->version <= before->version + 1 || file->version > COUNTED)
        return;
    printf("note: there is no number between %" PRIu64 " and %" PRIu64 "\n", before->version,
           file->version);
}

static void print_running(const rowlock_migrations_file *file)
{
    if (file->running > 0)
        cli_line("running: %s, statement %u of %u: %s", file->name, file->running, file->steps,
                 file->statement);
    else
        cli_line("running: %s", file->name);
}

static void print_stopped(const rowlock_migrations_file *file)
{
    cli_line("stopped, the next run goes on: %s%s%s%s%s%s", file->name,
             *file->statement ? ", `" : "", file->statement, *file->statement ? "`" : "",
             *file->error ? ": " : "", file->error);
}

static void print_notes(const rowlock_migrations_list *list)
{
    for (size_t i = 0; i < rowlock_migrations_count(list); i++) {
        const rowlock_migrations_file *file = rowlock_migrations_at(list, i);
        if (i > 0)
            print_gap(rowlock_migrations_at(list, i - 1), file);
        if (file->state == ROWLOCK_MIGRATIONS_RUNNING)
            print_running(file);
        else if (*file->problem)
            cli_line("needs a decision: %s", file->problem);
        else if (file->state == ROWLOCK_MIGRATIONS_STOPPED)
            print_stopped(file);
    }
}

/* A run would apply something. (A file that is being applied is another run's.) */
static bool has_wanted(const rowlock_migrations_list *list)
{
    for (size_t i = 0; i < rowlock_migrations_count(list); i++)
        if (rowlock_migrations_at(list, i)->wanted)
            return true;
    return false;
}

int migrate_status(migrating *m, rowlock_client *client)
{
    rowlock_migrations_list *list;
    rowlock_error err;
    if (rowlock_migrations_get(client, &m->options, &list, &err) != ROWLOCK_OK)
        return cli_fail(&err);
    size_t count = rowlock_migrations_count(list);
    cli_rows rows = cli_rows_begin(columns, m->context.json);
    for (size_t i = 0; i < count; i++)
        cli_rows_add(&rows, rowlock_migrations_at(list, i));
    cli_rows_end(&rows, NULL);
    if (!m->context.json)
        print_notes(list);
    if (count == 0 && !m->context.json && cli_terminal_width(STDOUT_FILENO) > 0)
        cli_say("no .sql file in %s, and nothing was applied to %s", m->options.folder,
                m->options.schema);
    int exit_status = first_problem(list) ? rowlock_status_exit(ROWLOCK_REPAIR)
                      : has_wanted(list)  ? MIGRATE_PENDING
                                          : 0;
    rowlock_migrations_free(list);
    return exit_status;
}
