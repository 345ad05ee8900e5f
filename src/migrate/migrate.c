/*
 * The migrator. DDL commits by itself, so a migration cannot be one transaction: each of its
 * statements is announced in rowlock_schema_version before it runs, and counted after.
 * Whoever finds an unfinished migration knows which statement was under way.
 */
#include "migrate/migrate.h"
#include "migrate/via.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "migrate/migrations.h"
#include "migrate/procedures.h"
#include "migrate/script.h"
#include "stmt/session.h"

#define LOCK_WAIT_DEFAULT_MS 60000
#define LOCK_WAIT_MOST_S     31536000
#define RECORDS_MAX          256
#define DUPLICATE_COLUMN     1060
#define LOCK_WAIT_TIMEOUT    1205

/* One row of rowlock_schema_version. */
typedef struct record {
    unsigned version;
    char name[129];
    char checksum[65];
    bool breaking;
    bool applied;
    unsigned steps_done;
    unsigned running;
} record;

typedef struct records {
    record rows[RECORDS_MAX];
    size_t count;
} records;

typedef struct migrator {
    const rl_params *params;
    const rowlock_migrate_options *options;
    const char *applied_by;
    rl_conn *conn;
    rl_io io;
} migrator;

/* ------------------------------------------------------------------------- reading */

static rowlock_status read_records(rl_conn *conn, const rl_io *io, records *all, rowlock_error *err)
{
    rl_rows rows;
    all->count = 0;
    rowlock_status status = rl_query(conn, RL_SQL_MIGRATION_LIST, NULL, io, &rows, err);
    if (status != ROWLOCK_OK)
        return status;
    while (all->count < RECORDS_MAX && rl_next(&rows)) {
        record *row = &all->rows[all->count++];
        *row = (record){.version = (unsigned)rows.cells[0].u64,
                        .breaking = rows.cells[3].u64 != 0,
                        .steps_done = (unsigned)rows.cells[5].u64,
                        .running = (unsigned)rows.cells[6].u64,
                        .applied = rows.cells[7].u64 != 0};
        snprintf(row->name, sizeof row->name, "%s", rows.cells[1].text);
        snprintf(row->checksum, sizeof row->checksum, "%s", rows.cells[2].text);
    }
    rl_end(&rows);
    return rows.status;
}

static const record *find_record(const records *all, unsigned version)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->rows[i].version == version)
            return &all->rows[i];
    return NULL;
}

/* Migrations of a newer program, which this one does not know. */
static rowlock_status check_newer(const records *all, const char *schema, rowlock_error *err)
{
    unsigned newest = rl_migrations[rl_migration_count - 1].version;
    for (size_t i = 0; i < all->count; i++)
        if (all->rows[i].version > newest && all->rows[i].breaking)
            return rl_fail(
                err, ROWLOCK_SCHEMA,
                "the schema '%s' has the migration %s of a newer rowlock, which this one "
                "(schema version %u) cannot work with; upgrade this program",
                schema, all->rows[i].name, newest);
    return ROWLOCK_OK;
}

static rowlock_status no_schema(const char *schema, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_SCHEMA,
                   "the schema '%s' has no rowlock tables; run `rowlock -D %s init` once", schema,
                   schema);
}

static rowlock_status check_complete(const records *all, const char *schema, rowlock_error *err)
{
    for (unsigned i = 0; i < rl_migration_count; i++) {
        const record *row = find_record(all, rl_migrations[i].version);
        if (!row)
            return rl_fail(err, ROWLOCK_SCHEMA,
                           "the schema '%s' is older than this program (it lacks %s); run "
                           "`rowlock -D %s init`",
                           schema, rl_migrations[i].name, schema);
        if (!row->applied)
            return rl_fail(
                err, ROWLOCK_SCHEMA,
                "the migration %s of the schema '%s' is not finished; run `rowlock init`",
                row->name, schema);
    }
    return ROWLOCK_OK;
}

/* Of a user that works through them. 1370: for all that this user may see, there are none. */
static rowlock_status check_procedures(rl_conn *conn, const char *schema, const rl_io *io,
                                       rowlock_error *err)
{
    rl_rows rows;
    bool found = false;
    rowlock_status status = rl_query_one(conn, RL_SQL_VIA_STAMP, NULL, io, &found, &rows, err);
    if (status == ROWLOCK_DENIED)
        rl_error_prefix(err,
                        "this user may not EXECUTE rowlock's procedures in '%s' (or there are "
                        "none: `rowlock -D %s init --procedures`); GRANT EXECUTE ON `%s`.*: ",
                        schema, schema, schema);
    if (status == ROWLOCK_SCHEMA)
        return rl_fail(
            err, status,
            "the schema '%s' has no procedures of rowlock's (or not all); run `rowlock -D "
            "%s init --procedures`",
            schema, schema);
    if (status == ROWLOCK_OK && (!found || rows.cells[0].u64 != RL_VIA_STAMP))
        return rl_fail(err, ROWLOCK_SCHEMA,
                       "the procedures in the schema '%s' are of another version of rowlock; run "
                       "`rowlock -D %s init --procedures` of this one (%s)",
                       schema, schema, ROWLOCK_VERSION_STRING);
    return status;
}

rowlock_status rl_schema_version(rl_conn *conn, const char *schema, const rl_io *io,
                                 unsigned *version, rowlock_error *err)
{
    records all = {.count = 0};
    rowlock_status status = conn->via ? check_procedures(conn, schema, io, err) : ROWLOCK_OK;
    if (status != ROWLOCK_OK)
        return status;
    status = read_records(conn, io, &all, err);
    if (status == ROWLOCK_SCHEMA || (status == ROWLOCK_OK && all.count == 0))
        return no_schema(schema, err);
    if (status == ROWLOCK_OK)
        status = check_newer(&all, schema, err);
    if (status == ROWLOCK_OK)
        status = check_complete(&all, schema, err);
    if (status == ROWLOCK_OK)
        *version = all.rows[all.count - 1].version;
    return status;
}

/* --------------------------------------------------------------------------- shape */

typedef struct expected_table {
    const char *name;
    bool name_unique;
} expected_table;

static rowlock_status check_table(const rl_rows *row, const expected_table *table,
                                  const char *schema, rowlock_error *err)
{
    const char *what = NULL;
    if (strcasecmp(row->cells[1].text, "InnoDB") != 0)
        what = "is not an InnoDB table any more: it has no row locks and no transactions";
    else if (strcmp(row->cells[2].text, "id") != 0)
        what = "has lost its primary key (id)";
    else if (table->name_unique && row->cells[3].u64 == 0)
        what = "has lost its unique key on resource_name: a name could be locked twice";
    if (!what)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_DAMAGED,
                   "the table %s.%s %s; restore it as rowlock's migrations/ has it (installed in "
                   "share/rowlock)",
                   schema, table->name, what);
}

/* A lock on a table without row locks, or with a name twice, would be no lock. */
static rowlock_status check_shape(rl_conn *conn, const char *schema, const rl_io *io,
                                  rowlock_error *err)
{
    static const expected_table tables[] = {{"resource", true},
                                            {"resource_lock", true},
                                            {"lease_renewal", false},
                                            {"version_floor", false},
                                            {"lock_event", false}};
    enum { TABLES = sizeof tables / sizeof tables[0] };
    bool seen[TABLES] = {false};
    rl_rows rows;
    rowlock_status status = rl_query(conn, RL_SQL_SCHEMA_SHAPE, NULL, io, &rows, err);
    if (status != ROWLOCK_OK)
        return status;
    while (status == ROWLOCK_OK && rl_next(&rows))
        for (size_t i = 0; i < TABLES; i++)
            if (strcmp(rows.cells[0].text, tables[i].name) == 0) {
                seen[i] = true;
                status = check_table(&rows, &tables[i], schema, err);
            }
    rl_end(&rows);
    if (status == ROWLOCK_OK)
        status = rows.status;
    for (size_t i = 0; status == ROWLOCK_OK && i < TABLES; i++)
        if (!seen[i])
            status = rl_fail(err, ROWLOCK_DAMAGED,
                             "the table %s.%s is missing; restore it as rowlock's migrations/ has "
                             "it (installed in share/rowlock)",
                             schema, tables[i].name);
    return status;
}

/* What a user may not read looks as if it were not there. DENIED then, and which right is missing;
 * else OK. */
static rowlock_status check_sight(rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    /* Together they read each table. */
    static const rl_sql_id readers[] = {RL_SQL_LIST_NAMES, RL_SQL_ROW_LOCK, RL_SQL_RESOURCE_CREATE,
                                        RL_SQL_EVENT_ADD_MANY};
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++) {
        rowlock_status status = rl_prepare(conn, readers[i], io, err);
        if (status == ROWLOCK_DENIED)
            return status;
    }
    return ROWLOCK_OK;
}

/* Who was given EXECUTE alone is not to be told to ask for rights on tables. */
static void hint_procedures(rl_conn *conn, const char *schema, const rl_io *io, rowlock_error *err)
{
    rl_procedures_seen seen;
    if (rl_procedures_look(conn, schema, io, &seen, NULL) == ROWLOCK_OK && seen.there > 0)
        rl_error_prefix(err, "this user may EXECUTE rowlock's procedures: use via=procedures; for "
                             "the tables, ");
}

rowlock_status rl_schema_check(rl_conn *conn, const char *schema, const rl_io *io,
                               rowlock_error *err)
{
    unsigned version = 0;
    rowlock_error denied;
    rowlock_status status = rl_schema_version(conn, schema, io, &version, err);
    if (status == ROWLOCK_DENIED && err && !conn->via)
        hint_procedures(conn, schema, io, err);
    if (status == ROWLOCK_OK)
        status = check_shape(conn, schema, io, err);
    if (status != ROWLOCK_DAMAGED || check_sight(conn, io, &denied) == ROWLOCK_OK)
        return status;
    if (err)
        *err = denied;
    return ROWLOCK_DENIED;
}

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
                                   const record *row, unsigned *done, rowlock_error *err)
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

static rowlock_status apply_one(migrator *m, const rl_migration *migration, const records *all,
                                bool *applied, rowlock_error *err)
{
    char checksum[65] = "";
    rowlock_status status = checksum_of(m, migration, checksum, err);
    if (status != ROWLOCK_OK)
        return status;
    const record *row = find_record(all, migration->version);
    if (row && strcmp(row->checksum, checksum) != 0)
        return rl_fail(err, ROWLOCK_SCHEMA,
                       "the migration %s is not the one that was applied to '%s' (checksum %.12s… "
                       "there, %.12s… here); use the program that applied it",
                       migration->name, m->params->schema, row->checksum, checksum);
    if (row && row->applied)
        return ROWLOCK_OK;
    unsigned done = 0;
    if (row)
        status = resume_point(m, migration, row, &done, err);
    else
        status = begin_migration(m, migration, checksum, err);
    if (status == ROWLOCK_OK)
        status = run_steps(m, migration, done, err);
    *applied = status == ROWLOCK_OK;
    return status;
}

static unsigned version_of(const records *all)
{
    unsigned version = 0;
    for (size_t i = 0; i < all->count; i++)
        if (all->rows[i].applied)
            version = all->rows[i].version;
    return version;
}

static rowlock_status apply_all(migrator *m, rowlock_migrate_result *result, rowlock_error *err)
{
    records all = {.count = 0};
    rowlock_status status = read_records(m->conn, &m->io, &all, err);
    if (status == ROWLOCK_SCHEMA)
        status = rl_run_text(m->conn, RL_SQL_SCHEMA_VERSION_CREATE, NULL, &m->io, err);
    if (status == ROWLOCK_OK)
        status = check_newer(&all, m->params->schema, err);
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

static rowlock_status open_conn(const rl_params *params, const char *schema, const rl_io *io,
                                rl_conn **conn, rowlock_error *err)
{
    rl_params to = *params;
    to.schema = (char *)(uintptr_t)schema;
    rowlock_status status = rl_conn_open(&to, io, conn, err);
    if (status != ROWLOCK_OK)
        return status;
    status = rl_stmt_pool_hooks.setup(*conn, RL_WORK, io, err);
    if (status == ROWLOCK_OK)
        status = rl_run_text(*conn, RL_SQL_MIGRATION_PATIENCE, NULL, io, err);
    if (status != ROWLOCK_OK) {
        rl_conn_close(*conn);
        *conn = NULL;
    }
    /* Nothing but the session's own settings was sent. */
    return status == ROWLOCK_UNKNOWN
               ? rl_fail(err, ROWLOCK_UNAVAILABLE, "the server ended a new connection")
               : status;
}

static rowlock_status schema_there(rl_conn *conn, const char *schema, const rl_io *io, bool *there,
                                   rowlock_error *err)
{
    const rl_value values[] = {rl_text(schema)};
    rl_rows rows;
    bool found = false;
    rowlock_status status =
        rl_query_one(conn, RL_SQL_SCHEMA_EXISTS, values, io, &found, &rows, err);
    if (status == ROWLOCK_OK)
        *there = found && rows.cells[0].u64 > 0;
    return status;
}

static rowlock_status create_schema(const rl_params *params, const rl_io *io, rowlock_error *err)
{
    rl_conn *conn = NULL;
    bool there = false;
    rl_buffer text = {0};
    rowlock_status status = open_conn(params, NULL, io, &conn, err);
    if (status == ROWLOCK_OK)
        status = schema_there(conn, params->schema, io, &there, err);
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

static uint64_t lock_wait_s(int64_t wait_ms)
{
    if (wait_ms == 0)
        wait_ms = LOCK_WAIT_DEFAULT_MS;
    if (wait_ms < 0 || wait_ms / 1000 >= LOCK_WAIT_MOST_S)
        return LOCK_WAIT_MOST_S;
    return (uint64_t)(wait_ms + 999) / 1000;
}

static rowlock_status lock(rl_conn *conn, const char *schema, int64_t wait_ms, const rl_io *io,
                           rowlock_error *err)
{
    const rl_value values[] = {rl_text(schema), rl_u64(lock_wait_s(wait_ms))};
    rl_rows rows;
    bool found = false;
    rowlock_status status = rl_query_one(conn, RL_SQL_MIGRATE_LOCK, values, io, &found, &rows, err);
    if (status == ROWLOCK_OK && rows.cells[0].u64 != 1)
        return rl_fail(err, ROWLOCK_TIMEOUT,
                       "another `rowlock init` is working on '%s' and did not finish in time",
                       schema);
    return status;
}

rowlock_status rl_migrate_open(const rl_params *params, int64_t wait_ms, const rl_io *io,
                               rl_conn **conn, rowlock_error *err)
{
    rl_conn *opened = NULL;
    rowlock_status status = open_conn(params, params->schema, io, &opened, err);
    if (status == ROWLOCK_OK)
        status = lock(opened, params->schema, wait_ms, io, err);
    if (status == ROWLOCK_OK)
        *conn = opened;
    else
        rl_conn_close(opened);
    return status;
}

static rowlock_status name_privileges(const migrator *m, rowlock_status status, rowlock_error *err)
{
    bool login = err && (err->server_errno == 1045 || err->server_errno == 1698);
    if (status == ROWLOCK_DENIED && !login)
        rl_error_prefix(err, "`rowlock init` needs CREATE, ALTER, SELECT, INSERT, UPDATE on %s.*: ",
                        m->params->schema);
    return status;
}

rowlock_status rl_migrate(const rl_params *params, const rowlock_migrate_options *options,
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
        status = check_shape(m.conn, params->schema, &m.io, err);
    /* The lock ends with its connection. */
    rl_conn_close(m.conn);
    return name_privileges(&m, status, err);
}
