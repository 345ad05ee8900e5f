/*
 * The migrator. DDL commits by itself, so a migration cannot be one transaction: each of its
 * statements is announced in rowlock_schema_version before it runs, and counted after.
 * Whoever finds an unfinished migration knows which statement was under way.
 */
#include "migrate/migrate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "migrate/migrations.h"
#include "migrate/open.h"
#include "migrate/schema.h"
#include "migrate/script.h"
#include "stmt/session.h"
#include "stmt/stmt.h"

#define DUPLICATE_COLUMN  1060
#define LOCK_WAIT_TIMEOUT 1205

typedef struct migrator {
    rl_params *params;
    const rowlock_migrate_options *options;
    const char *applied_by;
    rl_conn *conn;
    rl_io io;
} migrator;

/* ------------------------------------------------------------------------ applying */

static rowlock_status checksum_of(migrator *m, const rl_migration *migration, char checksum[65],
                                  rowlock_error *err)
{
    const rl_value values[] = {rl_text(migration->content)};
    rl_rows rows;
    bool found = false;
    rowlock_status status =
        rl_query_one(m->conn, RL_SQL_MIGRATION_CHECKSUM, values, &m->io, &found, &rows, err);
    if (status == ROWLOCK_OK)
        snprintf(checksum, 65, "%s", rows.cells[0].text);
    return status;
}

static void report(const migrator *m, const rl_migration *migration, const char *title,
                   unsigned step, unsigned steps)
{
    if (!m->options->progress)
        return;
    const rowlock_migration now = {.version = migration->version,
                                   .name = migration->name,
                                   .statement = title,
                                   .step = step,
                                   .steps = steps};
    m->options->progress(m->options->progress_data, &now);
}

static rowlock_status note_step(migrator *m, const rl_migration *migration, unsigned done,
                                unsigned running, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(done), rl_u64(running), rl_u64(migration->version)};
    return rl_run(m->conn, RL_SQL_MIGRATION_STEP, values, &m->io, NULL, err);
}

static rowlock_status run_statement(migrator *m, const rl_statement *statement, rowlock_error *err)
{
    rl_buffer text = {0};
    rl_buffer_append(&text, statement->text, statement->length);
    rowlock_status status = text.failed
                                ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory")
                                : rl_conn_command(m->conn, "migration", text.text, &m->io, err);
    rl_buffer_free(&text);
    return status;
}

/* MySQL has no ADD COLUMN IF NOT EXISTS: "may be run again" means this answer, there. */
static bool had_been_added(const rl_migration *migration, const rowlock_error *err)
{
    return migration->resumable && err->server_errno == DUPLICATE_COLUMN;
}

static rowlock_status run_step(migrator *m, const rl_migration *migration,
                               const rl_statement *statement, unsigned step, unsigned steps,
                               rowlock_error *err)
{
    char title[80];
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    rl_statement_title(statement, title, sizeof title);
    report(m, migration, title, step, steps);
    rowlock_status status = note_step(m, migration, step - 1, step, err);
    if (status == ROWLOCK_OK)
        status = run_statement(m, statement, err);
    if (status != ROWLOCK_OK && had_been_added(migration, err))
        status = ROWLOCK_OK;
    if (status != ROWLOCK_OK && err->server_errno == LOCK_WAIT_TIMEOUT)
        rl_error_prefix(err, "a transaction is using the table (somebody holds a lock); try again "
                             "when it has ended: ");
    if (status != ROWLOCK_OK)
        rl_error_prefix(err, "%s, statement %u of %u (%s): ", migration->name, step, steps, title);
    return status;
}

static rowlock_status run_steps(migrator *m, const rl_migration *migration, unsigned done,
                                rowlock_error *err)
{
    unsigned steps = rl_script_count(migration->content);
    rl_script script = rl_script_begin(migration->content, strlen(migration->content));
    rl_statement statement;
    for (unsigned step = 1; rl_script_next(&script, &statement); step++) {
        if (step <= done)
            continue;
        rowlock_status status = run_step(m, migration, &statement, step, steps, err);
        if (status != ROWLOCK_OK)
            return status;
    }
    const rl_value values[] = {rl_u64(migration->version)};
    rowlock_status status = rl_run(m->conn, RL_SQL_MIGRATION_END, values, &m->io, NULL, err);
    if (status == ROWLOCK_OK)
        report(m, migration, "", steps, steps);
    return status;
}

static rowlock_status begin_migration(migrator *m, const rl_migration *migration,
                                      const char *checksum, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(migration->version),
                               rl_text(migration->name),
                               rl_text(checksum),
                               rl_u64(migration->breaking ? 1 : 0),
                               rl_u64(rl_script_count(migration->content)),
                               rl_text(m->applied_by)};
    return rl_run(m->conn, RL_SQL_MIGRATION_BEGIN, values, &m->io, NULL, err);
}

/* From which statement an unfinished migration goes on. */
static rowlock_status resume_point(const migrator *m, const rl_migration *migration,
                                   const rl_version *row, unsigned *done, rowlock_error *err)
{
    *done = row->steps_done;
    if (m->options->resume_version == migration->version) {
        unsigned steps = rl_script_count(migration->content);
        if (m->options->resume_done > steps)
            return rl_fail(err, ROWLOCK_INVALID, "the migration %s has %u statements, not %u",
                           migration->name, steps, m->options->resume_done);
        *done = m->options->resume_done;
        return ROWLOCK_OK;
    }
    if (migration->resumable || row->running == 0)
        return ROWLOCK_OK;
    return rl_fail(
        err, ROWLOCK_SCHEMA,
        "the migration %s was interrupted in its statement %u: look whether that took "
        "effect, then run `rowlock init --resume %u:%u` if it did, or `--resume %u:%u` if not",
        migration->name, row->running, migration->version, row->running, migration->version,
        row->running - 1);
}

static rowlock_status apply_one(migrator *m, const rl_migration *migration, const rl_versions *all,
                                bool *applied, rowlock_error *err)
{
    char checksum[65] = "";
    rowlock_status status = checksum_of(m, migration, checksum, err);
    if (status != ROWLOCK_OK)
        return status;
    const rl_version *row = rl_version_find(all, migration->version);
    if (row && strcmp(row->checksum, checksum) != 0)
        return rl_fail(err, ROWLOCK_SCHEMA,
                       "the migration %s is not the one that was applied to '%s' (checksum %.12s… "
                       "there, %.12s… here); use the program that applied it",
                       migration->name, m->params->schema, row->checksum, checksum);
    if (row && row->applied)
        return ROWLOCK_OK;
    unsigned done = 0;
    status = rl_server_write_check(&m->conn->server, err);
    if (status == ROWLOCK_OK && row)
        status = resume_point(m, migration, row, &done, err);
    else if (status == ROWLOCK_OK)
        status = begin_migration(m, migration, checksum, err);
    if (status == ROWLOCK_OK)
        status = run_steps(m, migration, done, err);
    *applied = status == ROWLOCK_OK;
    return status;
}

static unsigned version_of(const rl_versions *all)
{
    unsigned version = 0;
    for (size_t i = 0; i < all->count; i++)
        if (all->rows[i].applied)
            version = all->rows[i].version;
    return version;
}

static rowlock_status apply_all(migrator *m, rowlock_migrate_result *result, rowlock_error *err)
{
    rl_versions all = {.count = 0};
    rowlock_status status = rl_versions_read(m->conn, &m->io, &all, err);
    if (status == ROWLOCK_SCHEMA) {
        status = rl_server_write_check(&m->conn->server, err);
        if (status == ROWLOCK_OK)
            status = rl_run_text(m->conn, RL_SQL_SCHEMA_VERSION_CREATE, NULL, &m->io, err);
    }
    if (status == ROWLOCK_OK)
        status = rl_versions_check_newer(&all, m->params->schema, err);
    rowlock_migrate_result done = {.from = version_of(&all)};
    done.to = done.from;
    for (unsigned i = 0; status == ROWLOCK_OK && i < rl_migration_count; i++) {
        bool applied = false;
        status = apply_one(m, &rl_migrations[i], &all, &applied, err);
        done.applied += applied;
        if (applied && rl_migrations[i].version > done.to)
            done.to = rl_migrations[i].version;
    }
    if (status == ROWLOCK_OK && result)
        *result = done;
    return status;
}

/* --------------------------------------------------------------------- the frame */

static rowlock_status schema_there(rl_conn *conn, const char *schema, const rl_io *io, bool *there,
                                   rowlock_error *err)
{
    const rl_value values[] = {rl_text(schema)};
    uint64_t count = 0;
    rowlock_status status = rl_query_number(conn, RL_SQL_SCHEMA_EXISTS, values, io, &count, err);
    if (status == ROWLOCK_OK)
        *there = count > 0;
    return status;
}

static rowlock_status create_schema(const rl_params *params, const rl_io *io, rowlock_error *err)
{
    rl_conn *conn = NULL;
    bool there = false;
    rl_buffer text = {0};
    rowlock_status status = rl_migrate_connect(params, NULL, io, &conn, err);
    if (status == ROWLOCK_OK)
        status = schema_there(conn, params->schema, io, &there, err);
    if (status == ROWLOCK_OK && !there)
        status = rl_server_write_check(&conn->server, err);
    if (status == ROWLOCK_OK && !there) {
        status = rl_render(RL_SQL_SCHEMA_CREATE, params->schema, NULL, &text)
                     ? rl_conn_command(conn, "schema_create", text.text, io, err)
                     : rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
        if (status == ROWLOCK_DENIED)
            rl_error_prefix(err,
                            "this user may not create the schema '%s'; let an administrator run "
                            "`rowlock -D %s init`, or CREATE DATABASE %s: ",
                            params->schema, params->schema, params->schema);
    }
    rl_buffer_free(&text);
    rl_conn_close(conn);
    return status;
}

static rowlock_status name_privileges(const migrator *m, rowlock_status status, rowlock_error *err)
{
    bool login = err && (err->server_errno == 1045 || err->server_errno == 1698);
    char who[RL_GRANTEE_SIZE];
    if (status != ROWLOCK_DENIED || login)
        return status;
    rl_session_grantee(m->conn, status, who, sizeof who);
    rl_error_prefix(err, "`rowlock init` needs CREATE, ALTER, SELECT, INSERT, UPDATE on %s.*: ",
                    m->params->schema);
    if (m->conn)
        rl_error_prefix(err, "this user lacks a privilege: %s ON `%s`.* TO %s; ",
                        "GRANT CREATE, ALTER, SELECT, INSERT, UPDATE", /* not run */
                        m->params->schema, who);
    return status;
}

rowlock_status rl_migrate(rl_params *params, const rowlock_migrate_options *options,
                          const char *applied_by, rowlock_migrate_result *result,
                          rowlock_error *err)
{
    migrator m = {.params = params,
                  .options = options,
                  .applied_by = applied_by,
                  .io = rl_io_until(RL_NEVER)};
    rowlock_status status = create_schema(params, &m.io, err);
    if (status == ROWLOCK_OK)
        status = rl_migrate_open(params, options->wait_ms, &m.io, &m.conn, err);
    if (status == ROWLOCK_OK)
        status = apply_all(&m, result, err);
    if (status == ROWLOCK_OK)
        status = rl_schema_check_shape(m.conn, params->schema, &m.io, err);
    status = name_privileges(&m, status, err);
    /* The lock ends with its connection. */
    rl_conn_close(m.conn);
    return status;
}
