/* cli/cmd_migrate.c - migrate: numbered .sql files into a schema, under a lock. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "migrate.h"

/* --------------------------------------------------------------------------- signals */

static rowlock_cancel *cancelled;
static volatile sig_atomic_t end_signal;

static void on_end(int signo)
{
    int error = errno;
    end_signal = signo;
    rowlock_cancel_fire(cancelled);
    errno = error;
}

/* The first signal stops the running statement; the second one ends the program at once. */
static bool catch_end(rowlock_error *err)
{
    if (rowlock_cancel_new(&cancelled, err) != ROWLOCK_OK)
        return false;
    cli_catch_end(on_end);
    return true;
}

static void forget_end(void)
{
    if (!cancelled)
        return;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    rowlock_cancel_free(cancelled);
    cancelled = NULL;
}

/* --------------------------------------------------------------------------- progress */

static void clear_line(migrating *m)
{
    if (m->shown)
        fputs("\r\033[K", stdout);
    fflush(stdout); /* before any line on stderr */
    m->shown = false;
}

/* One line on a terminal, which the next one replaces. */
static void show_line(migrating *m, const char *text)
{
    size_t width = cli_terminal_width(STDOUT_FILENO);
    size_t used = 0;
    char *line = cli_need(cli_printable(text));
    size_t length = width > 1 ? cli_fit(line, width - 1, &used) : 0;
    clear_line(m);
    printf("%.*s", (int)length, line);
    fflush(stdout);
    m->shown = true;
    free(line);
}

static void show_applied(migrating *m, const rowlock_migrations_progress *now)
{
    char took[CLI_HUMANE];
    clear_line(m);
    cli_line("%s: %u statement%s in %s", now->name, now->steps, now->steps == 1 ? "" : "s",
             cli_humane(now->elapsed_ms, took, sizeof took));
    fflush(stdout);
}

static const char *number_of(const void *row, char *text)
{
    return migrate_number(((const rowlock_migrations_progress *)row)->version, text);
}

#define PROGRESS_AT(member) CELL_AT(rowlock_migrations_progress, member)
static const cli_column columns[] = {
    {"number", CELL_LITERAL, .text = number_of},
    {"name", CELL_TEXT, PROGRESS_AT(name)},
    {"statements", CELL_UNSIGNED, PROGRESS_AT(steps)},
    {"duration_ms", CELL_MS, PROGRESS_AT(elapsed_ms)},
    {0},
};

static void show_transient(migrating *m, const rowlock_migrations_progress *now)
{
    char line[1024] = "";
    if (now->event == ROWLOCK_MIGRATIONS_LOCKING)
        snprintf(line, sizeof line, "taking the lock %s ...", now->name);
    else
        snprintf(line, sizeof line, "[%u/%u] %s %u/%u: %s", now->file, now->files, now->name,
                 now->step, now->steps, now->statement);
    show_line(m, line);
}

static void on_progress(void *data, const rowlock_migrations_progress *now)
{
    migrating *m = data;
    if (now->event == ROWLOCK_MIGRATIONS_ENDING) {
        clear_line(m);
        cli_say("the last migrator did not end; ending its connection %" PRIu64
                " and waiting until the server has undone its statement",
                now->connection_id);
        return;
    }
    const bool applied = now->event == ROWLOCK_MIGRATIONS_APPLIED;
    if (m->context.json && applied)
        cli_json_append(m->applied, cli_row_json(columns, now));
    if (m->context.json || m->quiet)
        return;
    if (applied)
        show_applied(m, now);
    else if (cli_terminal_width(STDOUT_FILENO) > 0)
        show_transient(m, now);
}

/* ------------------------------------------------------------------------------ apply */

static int end_of(rowlock_status status, const rowlock_error *err)
{
    if (status == ROWLOCK_OK)
        return 0;
    int exit_status = cli_fail(err);
    return status == ROWLOCK_CANCELLED && end_signal ? 128 + end_signal : exit_status;
}

static void tell_result(const migrating *m, const rowlock_migrations_result *result)
{
    if (m->quiet)
        return;
    const char *schema = m->options.schema;
    if (result->applied > 0)
        cli_line("%s is at %" PRIu64 " (%u file%s applied)", schema, result->version,
                 result->applied, result->applied == 1 ? "" : "s");
    else if (result->version > 0)
        cli_line("%s is up to date (%" PRIu64 ")", schema, result->version);
    else /* perhaps the folder was mistyped */
        cli_line("%s is up to date: there is no .sql file in %s", schema, m->options.folder);
}

/* Prints, after a failure too, the files that were applied. A run that failed before it read the
 * history knows no number. */
static void print_result(const migrating *m, const rowlock_migrations_result *result,
                         rowlock_status status, json_object *object)
{
    char version[24] = "";
    if (status == ROWLOCK_OK || result->version > 0)
        snprintf(version, sizeof version, "%" PRIu64, result->version);
    cli_json_text(object, "schema", m->options.schema);
    cli_json_number(object, "version", version);
    cli_json_print(object);
}

static int apply(migrating *m, rowlock_client *client)
{
    rowlock_migrations_result result;
    rowlock_error err;
    if (!catch_end(&err))
        return cli_fail(&err);
    json_object *object = m->context.json ? cli_json_new() : NULL;
    if (object)
        m->applied = cli_json_array(object, "applied");
    m->options.cancel = cancelled;
    m->options.progress = on_progress;
    m->options.progress_data = m;
    rowlock_status status = rowlock_migrations_apply(client, &m->options, &result, &err);
    clear_line(m);
    if (object)
        print_result(m, &result, status, object);
    else if (status == ROWLOCK_OK)
        tell_result(m, &result);
    return end_of(status, &err);
}

/* ----------------------------------------------------------------------------- repair */

/* An option of repair was given. Every repair also sets the lock anew (--relock). */
static bool is_repair(const migrating *m)
{
    return m->done != NOT_DONE || m->repair.checksums || m->repair.forget || m->repair.baseline ||
           m->repair.gone || m->relock;
}

static const cli_column repaired_columns[] = {
    {"number", CELL_LITERAL, .text = number_of},
    {"name", CELL_TEXT, PROGRESS_AT(name)},
    {"what", CELL_TEXT, PROGRESS_AT(statement)},
    {0},
};

static void on_repaired(void *data, const rowlock_migrations_progress *now)
{
    migrating *m = data;
    if (now->event != ROWLOCK_MIGRATIONS_REPAIRED) {
        on_progress(data, now);
    } else if (m->context.json) {
        cli_json_append(m->applied, cli_row_json(repaired_columns, now));
    } else if (!m->quiet) {
        clear_line(m);
        cli_line("%s: %s", now->name, now->statement);
    }
}

static void tell_repaired(const migrating *m, unsigned files)
{
    if (files > 0)
        printf("repaired: %u file%s\n", files, files == 1 ? "" : "s");
    if (m->repair.gone)
        puts("the last migrator's connection counts as ended");
    if (m->relock)
        puts("the history is kept under this lock, by its tokens, from now on");
    if (files == 0 && !m->repair.gone && !m->relock)
        puts("nothing to repair");
}

static int repair(migrating *m, rowlock_client *client)
{
    rowlock_error err;
    unsigned repaired = 0;
    if (!is_repair(m))
        return cli_usage("say what 'migrate repair' is to correct: --done=N, --checksums, "
                         "--forget=N, --baseline=N, --gone or --relock");
    if (!catch_end(&err))
        return cli_fail(&err);
    m->options.cancel = cancelled;
    m->repair.has_done = m->done != NOT_DONE;
    m->repair.done = (unsigned)m->done;
    json_object *object = m->context.json ? cli_json_new() : NULL;
    if (object)
        m->applied = cli_json_array(object, "files");
    m->options.progress = on_repaired;
    m->options.progress_data = m;
    rowlock_status outcome =
        rowlock_migrations_repair(client, &m->options, &m->repair, &repaired, &err);
    clear_line(m);
    if (object) {
        cli_json_count(object, "repaired", repaired);
        cli_json_print(object);
    } else if (outcome == ROWLOCK_OK && !m->quiet) {
        tell_repaired(m, repaired);
    }
    return end_of(outcome, &err);
}

/* -------------------------------------------------------------------------- arguments */

/* NAME=VALUE; the list ends with a NULL. */
static bool take_placeholder(void *into, const char *value)
{
    migrating *m = into;
    const char *equals = strchr(value, '=');
    if (!equals || equals == value)
        return !cli_usage("--placeholder wants NAME=VALUE, not '%s'", value);
    if (m->placeholder_count + 1 == PLACEHOLDERS_MOST)
        return !cli_usage("there are more than %d placeholders", PLACEHOLDERS_MOST - 1);
    m->placeholders[m->placeholder_count++] = value;
    m->options.placeholders = m->placeholders;
    return true;
}

#define AT(member) CLI_AT(migrating, member)
static const cli_option options[] = {
    {0, "into", CLI_TEXT, AT(options.schema)},
    {0, "dry-run", CLI_FLAG, AT(dry_run)},
    {0, "placeholder", CLI_OWN, .take = take_placeholder},
    {0, "target", CLI_NUMBER, AT(options.target), .least = 1, .most = UINT64_MAX},
    {'w', "wait", CLI_GIVEN_DURATION, AT(options.wait_ms), .word = "forever"},
    {0, "table-wait", CLI_GIVEN_DURATION, AT(options.table_wait_ms)},
    {0, "out-of-order", CLI_FLAG, AT(options.out_of_order)},
    {0, "lock", CLI_TEXT, AT(options.lock)},
    {0, "ttl", CLI_GIVEN_DURATION, AT(options.ttl_ms)},
    {0, "history-table", CLI_TEXT, AT(options.table)},
    {'q', "quiet", CLI_FLAG, AT(quiet)},
    {0, "json", CLI_FLAG, AT(context.json)},
    {0, "done", CLI_NUMBER, AT(done), .most = UINT32_MAX},
    {0, "checksums", CLI_FLAG, AT(repair.checksums)},
    {0, "forget", CLI_NUMBER, AT(repair.forget), .least = 1, .most = UINT64_MAX},
    {0, "baseline", CLI_NUMBER, AT(repair.baseline), .least = 1, .most = UINT64_MAX},
    {0, "gone", CLI_FLAG, AT(repair.gone)},
    {0, "relock", CLI_FLAG, AT(relock)},
    {0},
};

/* Takes "status" or "repair" from before the folder. */
static void take_verb(migrating *m)
{
    cli_context *context = &m->context;
    const char *word = context->operand_count > 0 ? context->operands[0] : "";
    m->verb = strcmp(word, "status") == 0   ? migrate_status
              : strcmp(word, "repair") == 0 ? repair
                                            : NULL;
    if (m->verb) {
        context->operands++;
        context->operand_count--;
    } else {
        m->verb = m->dry_run ? migrate_dry_run : apply;
    }
}

static bool check(void *into)
{
    migrating *m = into;
    take_verb(m);
    char **operands = m->context.operands;
    if (!cli_operands(&m->context, 1, m->verb == repair ? 2 : 1, "the folder DIR"))
        return false;
    m->options.folder = operands[0];
    if (m->context.operand_count == 2 &&
        !cli_number(operands[1], 1, UINT64_MAX, &m->repair.version))
        cli_usage("'%s' is not the number of a migration", operands[1]);
    else if (!m->options.schema || !*m->options.schema)
        cli_usage("--into=SCHEMA is missing: the schema that is to be migrated");
    else if (m->dry_run && m->verb != migrate_dry_run)
        cli_usage("--dry-run goes with neither 'status' nor 'repair'");
    else if (m->verb == repair && (m->options.target || m->options.out_of_order))
        cli_usage("--target and --out-of-order do not go with 'migrate repair'");
    else if (is_repair(m) && m->verb != repair)
        cli_usage("--done, --checksums, --forget, --baseline, --gone and --relock belong to "
                  "'migrate repair'");
    else
        return true;
    return false;
}

static int migrate(void *into)
{
    migrating *m = into;
    int exit_status;
    rowlock_client *client = cli_open(&m->context, &exit_status);
    if (!client)
        return exit_status;
    exit_status = m->verb(m, client);
    rowlock_client_close(client);
    forget_end();
    return exit_status;
}

const cli_command cli_migrate = {
    .help = cli_help_migrate,
    .options = options,
    .into = &(migrating){.done = NOT_DONE},
    .most = INT_MAX,
    .check = check,
    .run = migrate,
};
