/* Conversations of migrations, fences on tables, and procedures. */
#include "inside/talks.h"

#define EVERY_MS 3600000 /* long: the event does not run during the test */

static char folders[400]; /* it has a folder for each talk */
static const char *others;

void sql_talks_begin(void)
{
    rowlock_client_options options = ts_options();
    ts_make_folder("talks", folders, sizeof folders);
    others = ts_extra_schema("others", true);
    WANT(OK, rowlock_procedures_install(&options, NULL, NULL, &ts_err));
}

/* Runs a statement of the test, which must succeed; the number in its result, if it has one. */
__attribute__((format(printf, 2, 3))) static unsigned own_sql(const talk_state *state,
                                                              const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (mysql_query(state->own, text))
        talk_complain("%s: %s", text, mysql_error(state->own));
    MYSQL_RES *result = mysql_store_result(state->own);
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
    unsigned number = row && row[0] ? (unsigned)strtoul(row[0], NULL, 10) : 0;
    mysql_free_result(result);
    return number;
}

/* The tables and the folder of one talk. */
typedef struct site {
    char written[80];
    char history[80];
    char folder[500];
    rowlock_migrations_options options;
} site;

/* Writes a migration with two statements. */
static void write_file(const char *folder, const char *name, const char *first, const char *table,
                       unsigned n)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file ||
        fprintf(file, "%sINSERT INTO %s VALUES (%u);\nINSERT INTO %s VALUES (%u);\n", first, table,
                n, table, n + 1) < 0 ||
        fclose(file) != 0)
        talk_complain("%s cannot be written", path);
}

/* Makes a table's name from a lock's: it may have no '-'. */
static void table_name(char *table, size_t size, const char *word, const char *name)
{
    snprintf(table, size, "%s_%s", word, name);
    for (char *at = table; *at; at++)
        if (*at == '-')
            *at = '_';
}

/* A site where no migration was applied yet. */
static void make_site(const talk_state *state, site *s)
{
    table_name(s->written, sizeof s->written, "written", state->name);
    table_name(s->history, sizeof s->history, "history", state->name);
    snprintf(s->folder, sizeof s->folder, "%s/%s", folders, state->name);
    s->options = (rowlock_migrations_options){.folder = s->folder,
                                              .schema = ts_schema(),
                                              .table = s->history,
                                              .lock = state->name,
                                              .wait_ms = 30000,
                                              .ttl_ms = 8000};
    (void)mkdir(s->folder, 0755);
    write_file(s->folder, "0001_one_by_one.sql", "", s->written, 1);
    write_file(s->folder, "0002_all_or_nothing.sql", "-- rowlock: transaction\n", s->written, 3);
    own_sql(state, "DROP TABLE IF EXISTS %s, %s", s->written, s->history);
    own_sql(state, "CREATE TABLE %s (n INT NOT NULL)", s->written);
}

/* It is not known whether a statement was run: repairs by what the table has, and goes on. */
static rowlock_status decide(talk_state *state, const site *s, rowlock_error *err)
{
    const unsigned applied = own_sql(
        state, "SELECT COUNT(*) FROM %s WHERE version > 0 AND applied_at IS NOT NULL", s->history);
    const rowlock_migrations_repair_options repair = {
        .has_done = true,
        .done = own_sql(state, "SELECT COUNT(*) FROM %s WHERE n %s", s->written,
                        applied ? "> 2" : "<= 2")};
    rowlock_status status =
        rowlock_migrations_repair(state->client, &s->options, &repair, NULL, err);
    if (status != ROWLOCK_OK)
        return status;
    return rowlock_migrations_apply(state->client, &s->options, NULL, err);
}

/* Whatever failed, the next migrator goes on, and in the end each statement was run once. */
static void check_migrated(talk_state *state, const site *s, rowlock_status before)
{
    rowlock_error err = {0};
    rowlock_migrations_result result = {0};
    rowlock_status status = rowlock_migrations_apply(state->client, &s->options, &result, &err);
    if (status == ROWLOCK_REPAIR && before != ROWLOCK_OK)
        status = decide(state, s, &err);
    if (status != ROWLOCK_OK)
        talk_complain("after %s the next one cannot go on: %s: %s", rowlock_status_name(before),
                      rowlock_status_name(status), err.message);
    if (before == ROWLOCK_OK && result.applied != 0)
        talk_complain("it said OK, and %u files were left", result.applied);
    unsigned done =
        own_sql(state, "SELECT GROUP_CONCAT(n ORDER BY n SEPARATOR '') FROM %s", s->written);
    if (done != 1234)
        talk_complain("after %s not every statement was run once, but %u",
                      rowlock_status_name(before), done);
}

rowlock_status talk_migrations(talk_state *state)
{
    site s;
    rowlock_migrations_result result;
    inject_pause();
    make_site(state, &s);
    inject_resume();
    rowlock_status status =
        rowlock_migrations_apply(state->client, &s.options, &result, &state->err);
    inject_disarm();
    inject_pause();
    check_migrated(state, &s, status);
    inject_resume();
    return status;
}

static void forget_statement(void *data, const rowlock_migrations_statement *statement)
{
    (void)data;
    (void)statement;
}

static rowlock_status look(talk_state *state, const site *s)
{
    rowlock_migrations_list *list = NULL;
    rowlock_status status = rowlock_migrations_get(state->client, &s->options, &list, &state->err);
    for (size_t i = 0; status == ROWLOCK_OK && i < rowlock_migrations_count(list); i++)
        rowlock_migrations_statements(list, i, forget_statement, NULL);
    rowlock_migrations_free(list);
    return status;
}

/* Adopts all migrations, looks, and forgets one. */
rowlock_status talk_migrations_repair(talk_state *state)
{
    site s;
    const rowlock_migrations_repair_options adopt = {.baseline = 2};
    const rowlock_migrations_repair_options forget = {.forget = 2};
    inject_pause();
    make_site(state, &s);
    inject_resume();
    rowlock_status status =
        rowlock_migrations_repair(state->client, &s.options, &adopt, NULL, &state->err);
    if (status == ROWLOCK_OK)
        status = look(state, &s);
    if (status == ROWLOCK_OK)
        status = rowlock_migrations_repair(state->client, &s.options, &forget, NULL, &state->err);
    return status;
}

static bool may_write(const talk_state *state, const char *table)
{
    char text[200];
    snprintf(text, sizeof text, "INSERT INTO %s VALUES (1)", table);
    return mysql_query(state->own, text) == 0;
}

static rowlock_status present(talk_state *state)
{
    rowlock_hold *hold = NULL;
    rowlock_status status = talk_take(state, &hold);
    return status == ROWLOCK_OK
               ? talk_give_back(state, hold, rowlock_present(hold, state->own, &state->err))
               : status;
}

static bool is_listed(const rowlock_fences *fences, const char *table)
{
    for (size_t i = 0; i < rowlock_fences_count(fences); i++) {
        const rowlock_fenced *one = rowlock_fences_at(fences, i);
        if (strcmp(one->table_name, table) == 0)
            return one->on_insert && one->on_update && one->on_delete;
    }
    return false;
}

static rowlock_status list_fences(talk_state *state, const char *table)
{
    rowlock_fences *fences = NULL;
    rowlock_status status = rowlock_fences_get(state->client, &fences, &state->err);
    if (status == ROWLOCK_OK && !is_listed(fences, table))
        talk_complain("it said OK, and the fence is not in the list, or not all of it");
    rowlock_fences_free(fences);
    return status;
}

/* OK means that the fence is complete; a fence that is half made can be installed again. */
static void check_fence(const talk_state *state, const char *table, bool installed)
{
    rowlock_error err = {0};
    if (installed && may_write(state, table))
        talk_complain("it said OK, and the table has no fence");
    if (rowlock_fence_install(state->client, NULL, table, state->name, &err) != ROWLOCK_OK)
        talk_complain("it cannot be installed again: %s", err.message);
}

/* The removal before may have been carried out though its reply was lost. */
static void check_no_fence(const talk_state *state, const char *table, bool removed)
{
    rowlock_error err = {0};
    rowlock_status status = rowlock_fence_remove(state->client, NULL, table, &err);
    if (status != ROWLOCK_NOT_FOUND && (removed || status != ROWLOCK_OK))
        talk_complain("after the removal: %s: %s", rowlock_status_name(status), err.message);
    if (mysql_query(state->own, "SET @rowlock_presented = NULL") != 0)
        return; /* this connection itself failed */
    if (!may_write(state, table))
        talk_complain("a trigger is left: %s", mysql_error(state->own));
}

rowlock_status talk_table_fence(talk_state *state)
{
    char table[80];
    table_name(table, sizeof table, "fenced", state->name);
    inject_pause();
    own_sql(state, "CREATE TABLE IF NOT EXISTS %s (n INT NOT NULL)", table);
    inject_resume();
    rowlock_status status =
        rowlock_fence_install(state->client, NULL, table, state->name, &state->err);
    inject_pause();
    check_fence(state, table, status == ROWLOCK_OK);
    inject_resume();
    if (status == ROWLOCK_OK) /* a second time: it changes nothing */
        status = rowlock_fence_install(state->client, NULL, table, state->name, &state->err);
    if (status == ROWLOCK_OK)
        status = list_fences(state, table);
    if (status == ROWLOCK_OK)
        status = present(state);
    bool goes_on = status == ROWLOCK_OK;
    if (goes_on)
        status = rowlock_fence_remove(state->client, NULL, table, &state->err);
    inject_pause();
    check_no_fence(state, table, goes_on && status == ROWLOCK_OK);
    inject_resume();
    return status;
}

rowlock_status talk_procedures(talk_state *state)
{
    rowlock_client_options options = ts_options();
    options.schema = others;
    rowlock_status status = rowlock_procedures_install(&options, NULL, NULL, &state->err);
    if (status == ROWLOCK_OK)
        status = rowlock_procedures_remove(&options, NULL, NULL, &state->err);
    return status;
}

rowlock_status talk_sweep_event(talk_state *state)
{
    const rowlock_client_options options = ts_options();
    const rowlock_sweep_event_options event = {.every_ms = EVERY_MS};
    rowlock_sweep_event_result result;
    rowlock_status status = rowlock_sweep_event_install(&options, &event, &result, &state->err);
    if (status == ROWLOCK_OK)
        status = rowlock_sweep_event_remove(&options, NULL, &result, &state->err);
    return status;
}
