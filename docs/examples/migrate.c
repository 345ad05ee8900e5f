/*
 * Brings a program's own schema up to date when it starts, however many of it start at once: files
 * 0001_..., 0002_... under a lock. Here they are written first; then one of them fails, is mended,
 * and goes on where it stopped.
 *
 *     cc migrate.c -o migrate $(pkg-config --cflags --libs rowlock)
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./migrate
 */
#include <string.h>
#include <unistd.h>

#include "example.h"
#include <rowlock/rowlock_admin.h>

#include <rowlock/rowlock_migrate.h>

static rowlock_error err;

static void write_file(const char *folder, const char *name, const char *text)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    expect(file && fputs(text, file) >= 0 && fclose(file) == 0, "the file is written");
}

static void remove_file(const char *folder, const char *name)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    unlink(path);
}

static void on_progress(void *data, const rowlock_migrations_progress *now)
{
    (void)data;
    if (now->event == ROWLOCK_MIGRATIONS_STATEMENT)
        printf("[%u/%u] %s %u/%u: %s\n", now->file, now->files, now->name, now->step, now->steps,
               now->statement);
}

static void print_statement(void *data, const rowlock_migrations_statement *statement)
{
    (void)data;
    printf("    line %u: %.*s\n", statement->line, (int)statement->length, statement->text);
}

static rowlock_migrations_state show(rowlock_client *client,
                                     const rowlock_migrations_options *options)
{
    rowlock_migrations_list *list = NULL;
    rowlock_migrations_state last = ROWLOCK_MIGRATIONS_PENDING;
    must(rowlock_migrations_get(client, options, &list, &err), &err);
    for (size_t i = 0; i < rowlock_migrations_count(list); i++) {
        const rowlock_migrations_file *file = rowlock_migrations_at(list, i);
        printf("%s: %u of %u statements\n", file->name, file->steps_done, file->steps);
        if (file->wanted)
            rowlock_migrations_statements(list, i, print_statement, NULL);
        last = file->state;
    }
    rowlock_migrations_free(list);
    return last;
}

static void migrate(rowlock_client *client, rowlock_migrations_options options)
{
    rowlock_migrations_result result;
    write_file(options.folder, "0001_example.sql",
               "CREATE TABLE IF NOT EXISTS example_order (id INT PRIMARY KEY);\n"
               "INSERT INTO example_odrer VALUES (1);\n");
    rowlock_status status = rowlock_migrations_apply(client, &options, &result, &err);
    printf("%s: %s\n", rowlock_status_name(status), err.message);
    expect(status == ROWLOCK_FAILED && result.applied == 0, "the server refused a statement");
    expect(show(client, &options) == ROWLOCK_MIGRATIONS_STOPPED, "the history says where");

    write_file(options.folder, "0001_example.sql",
               "CREATE TABLE IF NOT EXISTS example_order (id INT PRIMARY KEY);\n"
               "REPLACE INTO example_order VALUES (1);\n");
    options.progress = on_progress;
    must(rowlock_migrations_apply(client, &options, &result, &err), &err);
    expect(result.applied == 1 && result.version == 1, "it went on behind the first statement");
    must(rowlock_migrations_apply(client, &options, &result, &err), &err);
    expect(result.applied == 0, "there is nothing to do any more");

    /* A comment was put into what is applied: nobody would have to know, but it is told. */
    write_file(options.folder, "0001_example.sql", "-- orders\nSELECT 1;\n");
    status = rowlock_migrations_apply(client, &options, &result, &err);
    printf("%s: %s\n", rowlock_status_name(status), err.message);
    expect(status == ROWLOCK_REPAIR, "a changed file needs a decision");
    unsigned repaired = 0;
    must(rowlock_migrations_repair(client, &options,
                                   &(rowlock_migrations_repair_options){.checksums = true},
                                   &repaired, &err),
         &err);
    expect(repaired == 1, "the decision: it is as it should be");
    expect(show(client, &options) == ROWLOCK_MIGRATIONS_DONE, "and all is well");
    must(rowlock_migrations_repair(client, &options,
                                   &(rowlock_migrations_repair_options){.forget = 1}, NULL, &err),
         &err);
}

/* A real program's schema is its own; this one borrows rowlock's. */
static const char *borrowed_schema(const rowlock_client_options *options)
{
    static char schema[65];
    const char *server = options->url ? strstr(options->url, "://") : NULL;
    const char *path = server ? strchr(server + 3, '/') : NULL;
    if (options->schema)
        return options->schema;
    snprintf(schema, sizeof schema, "%.*s", path ? (int)strcspn(path + 1, "?") : 0,
             path ? path + 1 : "");
    return *schema ? schema : "rowlock";
}

int main(int argc, char **argv)
{
    const rowlock_client_options options = example_options(argc, argv);
    rowlock_client *client = NULL;
    char folder[] = "/tmp/rowlock-example-XXXXXX";
    expect(mkdtemp(folder) != NULL, "a folder for the files");
    must(rowlock_client_open(&options, &client, &err), &err);
    migrate(client, (rowlock_migrations_options){.folder = folder,
                                                 .schema = borrowed_schema(&options),
                                                 .table = "example_history",
                                                 .lock = "example migrations",
                                                 .wait_ms = 60000});
    rowlock_client_close(client);
    remove_file(folder, "0001_example.sql");
    rmdir(folder);
    return 0;
}
