#include "migrate/schema.h"

#include <stdio.h>
#include <string.h>

#include "migrate/migrate.h"
#include "migrate/via.h"
#include "stmt/session.h"
#include "stmt/stmt.h"

const char *rl_schema_dash_d(const char *schema, char text[RL_DASH_D_SIZE])
{
    const bool usual = strcmp(schema, "rowlock") == 0;
    snprintf(text, RL_DASH_D_SIZE, "%s%s", usual ? "" : " -D ", usual ? "" : schema);
    return text;
}

/* ------------------------------------------------------------------------- reading */

rowlock_status rl_versions_read(rl_conn *conn, const rl_io *io, rl_versions *all,
                                rowlock_error *err)
{
    rl_rows rows;
    all->count = 0;
    rowlock_status status = rl_query(conn, RL_SQL_MIGRATION_LIST, NULL, io, &rows, err);
    if (status == ROWLOCK_DAMAGED)
        rl_error_prefix(err,
                        "the schema's table rowlock_schema_version is not rowlock's; give rowlock "
                        "a schema of its own (`rowlock -D NAME init`): ");
    RL_TRY(status);
    while (all->count < RL_VERSIONS_MAX && rl_next(&rows)) {
        rl_version *row = &all->rows[all->count++];
        *row = (rl_version){.version = (unsigned)rows.cells[0].u64,
                            .breaking = rows.cells[3].u64 != 0,
                            .applied = rows.cells[4].u64 != 0};
        snprintf(row->name, sizeof row->name, "%s", rows.cells[1].text);
        snprintf(row->checksum, sizeof row->checksum, "%s", rows.cells[2].text);
    }
    return ROWLOCK_OK;
}

const rl_version *rl_version_find(const rl_versions *all, unsigned version)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->rows[i].version == version)
            return &all->rows[i];
    return NULL;
}

/* Migrations of a newer program, which this one does not know. */
rowlock_status rl_versions_check_newer(const rl_versions *all, const char *schema,
                                       rowlock_error *err)
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

static rowlock_status check_complete(const rl_versions *all, const char *schema, rowlock_error *err)
{
    char where[RL_DASH_D_SIZE];
    for (unsigned i = 0; i < rl_migration_count; i++) {
        const rl_version *row = rl_version_find(all, rl_migrations[i].version);
        if (!row)
            return rl_fail(err, ROWLOCK_SCHEMA,
                           "the schema '%s' is older than this program (it lacks %s); an "
                           "administrator runs `rowlock%s init`",
                           schema, rl_migrations[i].name, rl_schema_dash_d(schema, where));
        if (!row->applied)
            return rl_fail(
                err, ROWLOCK_SCHEMA,
                "the migration %s of the schema '%s' is not finished; an administrator runs "
                "`rowlock%s init`",
                row->name, schema, rl_schema_dash_d(schema, where));
    }
    return ROWLOCK_OK;
}

/* For a user that works through procedures. Error 1370: this user can see none of them. */
static rowlock_status check_procedures(rl_conn *conn, const char *schema, const rl_io *io,
                                       rowlock_error *err)
{
    rl_rows rows;
    bool found = false;
    char who[RL_GRANTEE_SIZE];
    char where[RL_DASH_D_SIZE];
    rl_schema_dash_d(schema, where);
    rowlock_status status = rl_query_one(conn, RL_SQL_VIA_STAMP, NULL, io, &found, &rows, err);
    rl_session_grantee(conn, status, who, sizeof who);
    if (status == ROWLOCK_DENIED)
        return rl_fail_again(err, status,
                             "this user may not EXECUTE rowlock's procedures in '%s' (or there are "
                             "none: `rowlock%s init --procedures`): GRANT EXECUTE ON `%s`.* TO %s;",
                             schema, where, schema, who);
    if (status == ROWLOCK_SCHEMA)
        return rl_fail(
            err, status,
            "the schema '%s' has no procedures of rowlock's (or not all); an administrator runs "
            "`rowlock%s init --procedures`",
            schema, where);
    if (status == ROWLOCK_OK && (!found || rows.cells[0].u64 != RL_VIA_STAMP))
        return rl_fail(err, ROWLOCK_SCHEMA,
                       "the procedures in the schema '%s' are of another version of rowlock; an "
                       "administrator runs `rowlock%s init --procedures` of this one (%s)",
                       schema, where, ROWLOCK_VERSION_STRING);
    return status;
}

rowlock_status rl_schema_version(rl_conn *conn, const char *schema, const rl_io *io,
                                 unsigned *version, rowlock_error *err)
{
    rl_versions all = {.count = 0};
    char where[RL_DASH_D_SIZE];
    if (conn->session.via)
        RL_TRY(check_procedures(conn, schema, io, err));
    rowlock_status status = rl_versions_read(conn, io, &all, err);
    if (status == ROWLOCK_SCHEMA || (status == ROWLOCK_OK && all.count == 0)) {
        rl_fail(
            err, ROWLOCK_SCHEMA,
            "the schema '%s' has no rowlock tables; an administrator runs `rowlock%s init` once",
            schema, rl_schema_dash_d(schema, where));
        if (err)
            err->server_errno = 1146;
        return ROWLOCK_SCHEMA;
    }
    RL_TRY(status);
    RL_TRY(rl_versions_check_newer(&all, schema, err));
    RL_TRY(check_complete(&all, schema, err));
    if (version)
        *version = all.rows[all.count - 1].version;
    return ROWLOCK_OK;
}

/* --------------------------------------------------------------------------- shape */

static const struct {
    const char *name;
    bool name_unique;
    unsigned made_by; /* the migration */
    const char *primary_key;
} tables[] = {{"resource", true, 1, "id"},
              {"resource_lock", true, 1, "id"},
              {"lease_renewal", false, 1, "id"},
              {"version_floor", false, 1, "id"},
              {"lock_event", false, 1, "id"},
              {"lock_total", false, 3, "id"},
              {"lock_grant", false, 5, "resource_id,owner"},
              {"latch_down", false, 6, "resource_id,generation,down_key"},
              {"lock_value", false, 9, "resource_id"},
              {"lock_ask", false, 10, "resource_id"},
              {"once_run", false, 8, "resource_id,period_start"},
              {"quorum_member", false, 11, "id"},
              {"queue_item", false, 12, "id"},
              {"queue_group", false, 12, "queue_id,group_key"},
              {"lock_freeze", false, 14, "id"},
              {"lock_session", false, 15, "resource_id,version,connection_id"}};
enum { TABLES = sizeof tables / sizeof tables[0] };

static rowlock_status damaged(const char *schema, size_t table, const char *what,
                              rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_DAMAGED,
                   "the table %s.%s %s; restore it as rowlock's migrations/ has it (installed in "
                   "share/rowlock)",
                   schema, tables[table].name, what);
}

static rowlock_status check_table(const rl_rows *row, size_t table, const char *schema,
                                  rowlock_error *err)
{
    if (strcasecmp(row->cells[1].text, "InnoDB") != 0)
        return damaged(schema, table,
                       "is not an InnoDB table any more: it has no row locks and no transactions",
                       err);
    if (strcmp(row->cells[2].text, tables[table].primary_key) != 0)
        return damaged(schema, table, "has lost its primary key", err);
    if (tables[table].name_unique && row->cells[3].u64 == 0)
        return damaged(schema, table,
                       "has lost its unique key on resource_name: a name could be locked twice",
                       err);
    return ROWLOCK_OK;
}

/* Locks do not exclude on a table without row locks (MyISAM), or if a name may be there twice. */
rowlock_status rl_schema_check_shape(rl_conn *conn, const char *schema, const rl_io *io,
                                     rowlock_error *err)
{
    bool seen[TABLES] = {false};
    rowlock_status status = ROWLOCK_OK;
    rl_rows rows;
    RL_TRY(rl_query(conn, RL_SQL_SCHEMA_SHAPE, NULL, io, &rows, err));
    while (status == ROWLOCK_OK && rl_next(&rows))
        for (size_t i = 0; i < TABLES; i++)
            if (strcmp(rows.cells[0].text, tables[i].name) == 0) {
                seen[i] = true;
                status = check_table(&rows, i, schema, err);
            }
    RL_TRY(status);
    for (size_t i = 0; i < TABLES; i++)
        if (!seen[i])
            return damaged(schema, i, "is missing", err);
    return ROWLOCK_OK;
}

rowlock_status rl_schema_check_foreign(rl_conn *conn, const char *schema, const rl_versions *done,
                                       const rl_io *io, rowlock_error *err)
{
    rl_rows rows;
    RL_TRY(rl_query(conn, RL_SQL_SCHEMA_SHAPE, NULL, io, &rows, err));
    while (rl_next(&rows))
        for (size_t i = 0; i < TABLES; i++)
            if (strcmp(rows.cells[0].text, tables[i].name) == 0 && rows.cells[4].u64 == 0 &&
                !rl_version_find(done, tables[i].made_by))
                return rl_fail(
                    err, ROWLOCK_SCHEMA,
                    "the schema '%s' has a table `%s` that is not rowlock's; nothing was "
                    "changed: give rowlock a schema of its own (`rowlock -D NAME init`)",
                    schema, tables[i].name);
    return ROWLOCK_OK;
}

static void no_row(void *data, const char *const *cells)
{
    (void)data;
    (void)cells;
}

/* Checks that the history's table exists. Some users may only write it, others only read it: either
 * right shows the table. */
static rowlock_status see_history(rl_conn *conn, const rl_io *io, rowlock_status reading,
                                  rowlock_error *err)
{
    rowlock_error writing;
    rowlock_status status = rl_prepare(conn, RL_SQL_EVENT_ADD_MANY, io, &writing);
    if (status != ROWLOCK_DENIED)
        return status;
    /* A user that acquires locks needs the right to write, so that error is the one to report. */
    if (rl_prepare(conn, RL_SQL_LEASE_ACQUIRE_QUIET, io, NULL) != ROWLOCK_DENIED)
        *err = writing;
    return reading;
}

/* A table that the user may not read looks as if it did not exist. DENIED: it exists, and err says
 * which right is missing. */
static rowlock_status check_sight(rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    /* Procedures can read the tables even if their caller may not. */
    for (size_t i = 0; i < TABLES && !conn->session.via; i++) {
        const rl_value table[] = {rl_quoted(tables[i].name)};
        rowlock_status status =
            rl_query_text(conn, RL_SQL_SCHEMA_SEE, table, io, no_row, NULL, err);
        if (status == ROWLOCK_DENIED && strcmp(tables[i].name, "lock_event") == 0)
            status = see_history(conn, io, status, err);
        if (status == ROWLOCK_DENIED)
            return status;
    }
    return ROWLOCK_OK;
}

rowlock_status rl_schema_check(rl_conn *conn, const char *schema, const rl_io *io,
                               rowlock_error *err)
{
    rowlock_error denied;
    rl_procedures_seen seen;
    rowlock_status status = rl_schema_version(conn, schema, io, NULL, err);
    /* A user that was given EXECUTE alone needs no rights on tables, but via=procedures. */
    if (status == ROWLOCK_DENIED && err && !conn->session.via &&
        rl_procedures_look(conn, schema, io, &seen, NULL) == ROWLOCK_OK && seen.there > 0)
        rl_error_prefix(err, "this user may EXECUTE rowlock's procedures: use via=procedures; for "
                             "the tables, ");
    if (status == ROWLOCK_OK)
        status = rl_schema_check_shape(conn, schema, io, err);
    if (status != ROWLOCK_DAMAGED || check_sight(conn, io, &denied) == ROWLOCK_OK)
        return status;
    if (err)
        *err = denied;
    return ROWLOCK_DENIED;
}
