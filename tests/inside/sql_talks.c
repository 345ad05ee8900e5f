/* Conversations about what else is in the server: migrations, fences on tables, procedures. */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "inside/talks.h"
#include "rowlock/rowlock_migrate.h"
#include "rowlock/rowlock_mysql.h"

#define TTL_MS      8000
#define PATIENCE_MS 30000
#define EVERY_MS    3600000 /* the event does nothing meanwhile */

static char folders[400]; /* in it one for each name of a talk */
static const char *others;

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *where)
{
    (void)about;
    (void)type;
    (void)where;
    return remove(path);
}

void sql_talks_begin(void)
{
    const char *tmp = getenv("TMPDIR");
    rowlock_client_options options = ts_options();
    snprintf(folders, sizeof folders, "%s/rowlock-talks-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(folders));
    others = ts_extra_schema("others", true);
    WANT(OK, rowlock_procedures_install(&options, NULL, NULL, &ts_err));
}

void sql_talks_end(void)
{
    (void)nftw(folders, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* The test's own statement: it must go well. */
static void own_sql(const talk_state *state, const char *text)
{
    if (mysql_query(state->own, text))
        talk_complain("%s: %s", text, mysql_error(state->own));
}

static unsigned own_number(const talk_state *state, const char *text)
{
    own_sql(state, text);
    MYSQL_RES *result = mysql_store_result(state->own);
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
    unsigned number = row && row[0] ? (unsigned)strtoul(row[0], NULL, 10) : 0;
    mysql_free_result(result);
    return number;
}

/* ---------------------------------------------------------------------------- migrations */

/* One name's: the tables, and the folder. */
typedef struct site {
    char written[80];
    char history[80];
    char folder[500];
    rowlock_migrations_options options;
} site;

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    if (!file || fputs(text, file) == EOF || fclose(file) != 0)
        talk_complain("%s cannot be written", path);
}

/* A table's name is no lock's name. */
static void table_name(char *table, size_t size, const char *word, const char *name)
{
    snprintf(table, size, "%s_%s", word, name);
    for (char *at = table; *at; at++)
        if (*at == '-')
            *at = '_';
}

/* Nothing was applied yet. */
static void make_site(const talk_state *state, site *s)
{
    char text[600];
    table_name(s->written, sizeof s->written, "written", state->name);
    table_name(s->history, sizeof s->history, "history", state->name);
    snprintf(s->folder, sizeof s->folder, "%s/%s", folders, state->name);
    s->options = (rowlock_migrations_options){.folder = s->folder,
                                              .schema = ts_schema(),
                                              .table = s->history,
                                              .lock = state->name,
                                              .wait_ms = PATIENCE_MS,
                                              .ttl_ms = TTL_MS};
    (void)mkdir(s->folder, 0755);
    snprintf(text, sizeof text, "INSERT INTO %s VALUES (1);\nINSERT INTO %s VALUES (2);\n",
             s->written, s->written);
    write_file(s->folder, "0001_one_by_one.sql", text);
    snprintf(text, sizeof text,
             "-- rowlock: transaction\nINSERT INTO %s VALUES (3);\nINSERT INTO %s VALUES (4);\n",
             s->written, s->written);
    write_file(s->folder, "0002_all_or_nothing.sql", text);
    snprintf(text, sizeof text, "DROP TABLE IF EXISTS %s, %s", s->written, s->history);
    own_sql(state, text);
    snprintf(text, sizeof text, "CREATE TABLE %s (n INT NOT NULL)", s->written);
    own_sql(state, text);
}

static unsigned count_of(const talk_state *state, const char *table, const char *where)
{
    char text[200];
    snprintf(text, sizeof text, "SELECT COUNT(*) FROM %s WHERE %s", table, where);
    return own_number(state, text);
}

/* It is not known what a statement has done: whoever decides looks at the table. */
static rowlock_status decide(talk_state *state, const site *s, rowlock_error *err)
{
    const unsigned applied = count_of(state, s->history, "version > 0 AND applied_at IS NOT NULL");
    const rowlock_migrations_repair_options repair = {
        .has_done = true, .done = count_of(state, s->written, applied ? "n > 2" : "n <= 2")};
    rowlock_status status =
        rowlock_migrations_repair(state->client, &s->options, &repair, NULL, err);
    if (status != ROWLOCK_OK)
        return status;
    return rowlock_migrations_apply(state->client, &s->options, NULL, err);
}

/* Whatever failed: the next one goes on, and in the end each statement was run once. */
static void check_migrated(talk_state *state, const site *s, rowlock_status before)
{
    char text[200];
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
    snprintf(text, sizeof text, "SELECT GROUP_CONCAT(n ORDER BY n SEPARATOR '') FROM %s",
             s->written);
    if (own_number(state, text) != 1234)
        talk_complain("after %s not every statement was run once, but %u",
                      rowlock_status_name(before), own_number(state, text));
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

/* All of it adopted, one forgotten, and a look. */
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

/* -------------------------------------------------------------------------------- fences */

static bool may_write(const talk_state *state, const char *table)
{
    char text[200];
    snprintf(text, sizeof text, "INSERT INTO %s VALUES (1)", table);
    return mysql_query(state->own, text) == 0;
}

static rowlock_status present(talk_state *state)
{
    const rowlock_acquire_options options = {
        .mode = state->mode, .ttl_ms = TTL_MS, .wait_ms = PATIENCE_MS};
    rowlock_hold *hold = NULL;
    rowlock_error err;
    rowlock_status status =
        rowlock_acquire(state->client, state->name, &options, &hold, &state->err);
    if (status != ROWLOCK_OK)
        return status;
    status = rowlock_present(hold, state->own, &state->err);
    rowlock_status last = rowlock_release(hold, &err);
    if (status == ROWLOCK_OK && last != ROWLOCK_OK)
        state->err = err;
    return status == ROWLOCK_OK ? last : status;
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

/* OK is only said of a fence that is whole; what is half made can be made again, and taken away. */
static void check_fence(const talk_state *state, const char *table, bool installed)
{
    rowlock_error err = {0};
    if (installed && may_write(state, table))
        talk_complain("it said OK, and the table has no fence");
    if (rowlock_fence_install(state->client, NULL, table, state->name, &err) != ROWLOCK_OK)
        talk_complain("it cannot be installed again: %s", err.message);
}

/* The one before may have gone, with the reply lost. */
static void check_no_fence(const talk_state *state, const char *table, bool removed)
{
    rowlock_error err = {0};
    rowlock_status status = rowlock_fence_remove(state->client, NULL, table, &err);
    if (status != ROWLOCK_NOT_FOUND && (removed || status != ROWLOCK_OK))
        talk_complain("after the removal: %s: %s", rowlock_status_name(status), err.message);
    if (mysql_query(state->own, "SET @rowlock_presented = NULL") != 0)
        return; /* the failure was this connection's */
    if (!may_write(state, table))
        talk_complain("a trigger is left: %s", mysql_error(state->own));
}

rowlock_status talk_table_fence(talk_state *state)
{
    char table[80];
    char text[200];
    table_name(table, sizeof table, "fenced", state->name);
    snprintf(text, sizeof text, "CREATE TABLE IF NOT EXISTS %s (n INT NOT NULL)", table);
    inject_pause();
    own_sql(state, text);
    inject_resume();
    rowlock_status status =
        rowlock_fence_install(state->client, NULL, table, state->name, &state->err);
    inject_pause();
    check_fence(state, table, status == ROWLOCK_OK);
    inject_resume();
    if (status == ROWLOCK_OK) /* again: nothing to be done */
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

/* ---------------------------------------------------------------------------- procedures */

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
