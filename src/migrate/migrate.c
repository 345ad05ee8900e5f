/*
 * The migrator of rowlock's own tables. DDL commits by itself, so a migration cannot be one
 * transaction: each of its statements may be run again, and an interrupted migration begins anew.
 */
#include "migrate/migrate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "base/text.h"
#include "migrate/schema.h"
#include "migrate/script.h"
#include "stmt/session.h"
#include "wait/reach.h"

#define DUPLICATE_COLUMN     1060
#define LOCK_WAIT_TIMEOUT    1205
#define LOCK_WAIT_DEFAULT_MS 60000
#define LOCK_WAIT_MOST_S     31536000
#define NO_LOGIN             1045
#define NO_LOGIN_BY_SOCKET   1698

/* ----------------------------------------------------------------------- connecting */

static rowlock_status set_up(rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    RL_TRY(rl_stmt_pool_hooks.setup(conn, RL_WORK, io, err));
    return rl_run_text(conn, RL_SQL_MIGRATION_PATIENCE, NULL, io, err);
}

typedef struct connecting {
    rl_params to;
    const rl_io *io;
    rl_conn **conn;
} connecting;

static rowlock_status try_to_connect(void *data, int64_t limit_ms, rowlock_error *err)
{
    connecting *c = data;
    rl_conn *opened = NULL;
    c->to.connect_timeout_ms = limit_ms;
    RL_TRY(rl_conn_open(&c->to, c->io, &opened, err));
    rowlock_status status = set_up(opened, c->io, err);
    if (status == ROWLOCK_OK) {
        *c->conn = opened;
        return ROWLOCK_OK;
    }
    rl_conn_close(opened);
    /* Only settings of the session were sent. */
    return rl_no_effect(status, err);
}

/* Connects to `schema`; NULL: to none. */
static rowlock_status connect_to(const rl_maker *m, const char *schema, rl_conn **conn,
                                 rowlock_error *err)
{
    const rl_params *params = m->params;
    connecting c = {.to = *params, .io = &m->io, .conn = conn};
    const rl_reach how = {.retry_ms = params->retry_ms, .limit_ms = params->connect_timeout_ms};
    c.to.schema = (char *)(uintptr_t)schema;
    return rl_reach_server(&how, try_to_connect, &c, err);
}

static uint64_t lock_wait_s(int64_t wait_ms)
{
    if (wait_ms == 0)
        wait_ms = LOCK_WAIT_DEFAULT_MS;
    if (wait_ms < 0 || wait_ms / 1000 >= LOCK_WAIT_MOST_S)
        return LOCK_WAIT_MOST_S;
    return (uint64_t)(wait_ms + 999) / 1000;
}

rowlock_status rl_maker_open(rl_maker *m, int64_t wait_ms, rowlock_error *err)
{
    RL_TRY(connect_to(m, m->params->schema, &m->conn, err));
    RL_TRY(rl_session_name_schema(m->conn, m->params, &m->io, err));
    const rl_value values[] = {rl_text(m->params->schema), rl_u64(lock_wait_s(wait_ms))};
    uint64_t got = 0;
    RL_TRY(rl_query_number(m->conn, RL_SQL_MIGRATE_LOCK, values, &m->io, &got, err));
    if (got != 1)
        return rl_fail(err, ROWLOCK_TIMEOUT,
                       "another `rowlock init` is working on '%s' and did not finish in time",
                       m->params->schema);
    return ROWLOCK_OK;
}

/* Is what was refused (1044: anything in the schema) among these rights? Then their GRANT says it
 * all. */
static bool are_missing(const char *rights, const rowlock_error *err)
{
    char right[40];
    const char *grant = strstr(err->message, ": GRANT ");
    const char *end = grant ? strstr(grant, " ON ") : NULL;
    if (err->server_errno == 1044 || !end)
        return err->server_errno == 1044;
    grant += strlen(": GRANT ");
    snprintf(right, sizeof right, "%.*s", (int)(end - grant), grant);
    return strstr(rights, right) != NULL;
}

rowlock_status rl_maker_close(rl_maker *m, rowlock_status status, const char *task,
                              const char *rights, rowlock_error *err)
{
    char who[RL_GRANTEE_SIZE];
    bool login = err && (err->server_errno == NO_LOGIN || err->server_errno == NO_LOGIN_BY_SOCKET);
    bool connected = m->conn != NULL; /* else the account for a GRANT is unknown */
    rl_session_grantee(m->conn, status, who, sizeof who);
    rl_conn_close(m->conn);
    if (status == ROWLOCK_DENIED && !login && connected && err && are_missing(rights, err))
        return rl_fail_again(err, status, "%s takes GRANT %s ON `%s`.* TO %s;", task, rights,
                             m->params->schema, who);
    if (status == ROWLOCK_DENIED && !login && connected)
        rl_error_prefix(err, "%s takes GRANT %s ON `%s`.* TO %s; ", task, rights, m->params->schema,
                        who);
    else if (status == ROWLOCK_DENIED && !login)
        rl_error_prefix(err, "%s takes %s on %s.*: ", task, rights, m->params->schema);
    return status;
}

/* ------------------------------------------------------------------------ applying */

typedef struct migrator {
    rl_maker maker;
    const rowlock_migrate_options *options;
    const char *applied_by;
    rowlock_migrate_result done;
} migrator;

static rowlock_status run(migrator *m, rl_sql_id id, const rl_value *values, rowlock_error *err)
{
    return rl_run(m->maker.conn, id, values, &m->maker.io, NULL, err);
}

static void report(const migrator *m, const rowlock_migration *now)
{
    if (m->options->progress)
        m->options->progress(m->options->progress_data, now);
}

static rowlock_status run_statement(migrator *m, const rl_statement *statement, rowlock_error *err)
{
    RL_CLEANUP(rl_buffer_free) rl_buffer text = {0};
    rl_buffer_append(&text, statement->text, statement->length);
    if (text.failed)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    return rl_conn_command(m->maker.conn, "migration", text.text, &m->maker.io, err);
}

static rowlock_status run_step(migrator *m, rowlock_migration *now, const rl_statement *statement,
                               rowlock_error *err)
{
    char title[80];
    rl_statement_title(statement, title, sizeof title);
    now->statement = title;
    now->step++;
    report(m, now);
    rowlock_status status = run_statement(m, statement, err);
    now->statement = "";
    /* MySQL has no ADD COLUMN IF NOT EXISTS, so a statement that is run again ends with this
     * error. */
    if (status == ROWLOCK_OK || err->server_errno == DUPLICATE_COLUMN)
        return ROWLOCK_OK;
    if (err->server_errno == LOCK_WAIT_TIMEOUT)
        rl_error_prefix(err, "a transaction is using the table (somebody holds a lock); try again "
                             "when it has ended: ");
    rl_error_prefix(err, "%s, statement %u of %u (%s): ", now->name, now->step, now->steps, title);
    return status;
}

/* `is_new`: the history has no row of it yet. */
static rowlock_status run_steps(migrator *m, const rl_migration *migration, const char *checksum,
                                bool is_new, rowlock_error *err)
{
    rowlock_migration now = {.version = migration->version,
                             .name = migration->name,
                             .statement = "",
                             .steps = rl_script_count(migration->content)};
    const rl_value values[] = {rl_u64(now.version), rl_text(now.name),
                               rl_text(checksum),   rl_u64(migration->breaking ? 1 : 0),
                               rl_u64(now.steps),   rl_text(m->applied_by)};
    rl_script script = rl_script_begin(migration->content, strlen(migration->content));
    rl_statement statement;
    if (is_new)
        RL_TRY(run(m, RL_SQL_MIGRATION_BEGIN, values, err));
    while (rl_script_next(&script, &statement))
        RL_TRY(run_step(m, &now, &statement, err));
    RL_TRY(run(m, RL_SQL_MIGRATION_END, values, err)); /* takes the first value alone */
    report(m, &now);
    return ROWLOCK_OK;
}

static rowlock_status apply_one(migrator *m, const rl_migration *migration, const rl_version *row,
                                rowlock_error *err)
{
    rl_sha256 sum = rl_sha256_begin();
    char checksum[65];
    rl_sha256_add(&sum, migration->content, strlen(migration->content));
    rl_sha256_hex(&sum, checksum);
    if (row && strcmp(row->checksum, checksum) != 0)
        return rl_fail(err, ROWLOCK_SCHEMA,
                       "the migration %s is not the one that was applied to '%s' (checksum %.12s… "
                       "there, %.12s… here); use the program that applied it",
                       migration->name, m->maker.params->schema, row->checksum, checksum);
    if (row && row->applied)
        return ROWLOCK_OK;
    RL_TRY(rl_server_write_check(&m->maker.conn->server, err));
    RL_TRY(run_steps(m, migration, checksum, !row, err));
    m->done.applied++;
    if (migration->version > m->done.to)
        m->done.to = migration->version;
    return ROWLOCK_OK;
}

/* Reads no versions if their table does not exist. */
static rowlock_status read_versions(migrator *m, rl_versions *all, rowlock_error *err)
{
    rl_maker *maker = &m->maker;
    rowlock_status status = rl_versions_read(maker->conn, &maker->io, all, err);
    if (status == ROWLOCK_OK || status == ROWLOCK_SCHEMA)
        RL_TRY(rl_schema_check_foreign(maker->conn, maker->params->schema, all, &maker->io, err));
    if (status != ROWLOCK_SCHEMA)
        return status;
    RL_TRY(rl_server_write_check(&maker->conn->server, err));
    return rl_run_text(maker->conn, RL_SQL_SCHEMA_VERSION_CREATE, NULL, &maker->io, err);
}

static rowlock_status apply_all(migrator *m, rowlock_error *err)
{
    rl_versions all = {.count = 0};
    RL_TRY(read_versions(m, &all, err));
    RL_TRY(rl_versions_check_newer(&all, m->maker.params->schema, err));
    for (size_t i = 0; i < all.count; i++)
        if (all.rows[i].applied)
            m->done.from = all.rows[i].version;
    m->done.to = m->done.from;
    for (unsigned i = 0; i < rl_migration_count; i++)
        RL_TRY(
            apply_one(m, &rl_migrations[i], rl_version_find(&all, rl_migrations[i].version), err));
    return ROWLOCK_OK;
}

/* --------------------------------------------------------------------- the frame */

static void close_conn(rl_conn **conn)
{
    rl_conn_close(*conn);
}

static rowlock_status create_schema(const rl_maker *maker, rowlock_error *err)
{
    const char *schema = maker->params->schema;
    char where[RL_DASH_D_SIZE];
    const rl_value values[] = {rl_text(schema)};
    uint64_t count = 0;
    RL_CLEANUP(close_conn) rl_conn *conn = NULL;
    RL_CLEANUP(rl_buffer_free) rl_buffer text = {0};
    RL_TRY(connect_to(maker, NULL, &conn, err));
    RL_TRY(rl_query_number(conn, RL_SQL_SCHEMA_EXISTS, values, &maker->io, &count, err));
    if (count > 0)
        return ROWLOCK_OK;
    RL_TRY(rl_server_write_check(&conn->server, err));
    if (!rl_render(false, RL_SQL_SCHEMA_CREATE, schema, NULL, &text))
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    rowlock_status status = rl_conn_command(conn, "schema_create", text.text, &maker->io, err);
    if (status == ROWLOCK_DENIED)
        rl_error_prefix(err,
                        "this user may not create the schema '%s'; let an administrator run "
                        "`rowlock%s init`, or CREATE DATABASE %s: ",
                        schema, rl_schema_dash_d(schema, where), schema);
    return status;
}

static rowlock_status migrate(migrator *m, rowlock_migrate_result *result, rowlock_error *err)
{
    rl_maker *maker = &m->maker;
    RL_TRY(create_schema(maker, err));
    RL_TRY(rl_maker_open(maker, m->options->wait_ms, err));
    RL_TRY(apply_all(m, err));
    if (result)
        *result = m->done;
    return rl_schema_check_shape(maker->conn, maker->params->schema, &maker->io, err);
}

rowlock_status rl_migrate(rl_params *params, const rowlock_migrate_options *options,
                          const char *applied_by, rowlock_migrate_result *result,
                          rowlock_error *err)
{
    migrator m = {.maker = {.params = params, .io = rl_io_until(RL_NEVER)},
                  .options = options,
                  .applied_by = applied_by};
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    rowlock_status status = migrate(&m, result, err);
    return rl_maker_close(&m.maker, status, "`rowlock init`",
                          "CREATE, ALTER, SELECT, INSERT, UPDATE", err); /* not run */
}
