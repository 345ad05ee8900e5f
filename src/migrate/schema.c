#include "migrate/schema.h"

#include <stdio.h>
#include <string.h>

#include "migrate/migrations.h"
#include "migrate/routines.h"
#include "migrate/via.h"
#include "stmt/session.h"
#include "stmt/stmt.h"

/* ------------------------------------------------------------------------- reading */

rowlock_status rl_versions_read(rl_conn *conn, const rl_io *io, rl_versions *all,
                                rowlock_error *err)
{
    rl_rows rows;
    all->count = 0;
    rowlock_status status = rl_query(conn, RL_SQL_MIGRATION_LIST, NULL, io, &rows, err);
    if (status != ROWLOCK_OK)
        return status;
    while (all->count < RL_VERSIONS_MAX && rl_next(&rows)) {
        rl_version *row = &all->rows[all->count++];
        *row = (rl_version){.version = (unsigned)rows.cells[0].u64,
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

static rowlock_status no_schema(const char *schema, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_SCHEMA,
                   "the schema '%s' has no rowlock tables; run `rowlock -D %s init` once", schema,
                   schema);
}

static rowlock_status check_complete(const rl_versions *all, const char *schema, rowlock_error *err)
{
    for (unsigned i = 0; i < rl_migration_count; i++) {
        const rl_version *row = rl_version_find(all, rl_migrations[i].version);
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
    char who[RL_GRANTEE_SIZE];
    rowlock_status status = rl_query_one(conn, RL_SQL_VIA_STAMP, NULL, io, &found, &rows, err);
    rl_session_grantee(conn, status, who, sizeof who);
    if (status == ROWLOCK_DENIED)
        rl_error_prefix(err,
                        "this user may not EXECUTE rowlock's procedures in '%s' (or there are "
                        "none: `rowlock -D %s init --procedures`); GRANT EXECUTE ON `%s`.* TO %s; ",
                        schema, schema, schema, who);
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
    rl_versions all = {.count = 0};
    rowlock_status status = conn->via ? check_procedures(conn, schema, io, err) : ROWLOCK_OK;
    if (status != ROWLOCK_OK)
        return status;
    status = rl_versions_read(conn, io, &all, err);
    if (status == ROWLOCK_SCHEMA || (status == ROWLOCK_OK && all.count == 0))
        return no_schema(schema, err);
    if (status == ROWLOCK_OK)
        status = rl_versions_check_newer(&all, schema, err);
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

static const expected_table tables[] = {{"resource", true},
                                        {"resource_lock", true},
                                        {"lease_renewal", false},
                                        {"version_floor", false},
                                        {"lock_event", false}};
enum { TABLES = sizeof tables / sizeof tables[0] };

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
rowlock_status rl_schema_check_shape(rl_conn *conn, const char *schema, const rl_io *io,
                                     rowlock_error *err)
{
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

static void no_row(void *data, const char *const *cells)
{
    (void)data;
    (void)cells;
}

static bool may_take_locks(rl_conn *conn, const rl_io *io)
{
    return rl_prepare(conn, RL_SQL_LEASE_ACQUIRE_QUIET, io, NULL) != ROWLOCK_DENIED;
}

/* Some write the history and may not read it, others only read it: either shows the table. */
static rowlock_status see_history(rl_conn *conn, const rl_io *io, rowlock_status reading,
                                  rowlock_error *err)
{
    rowlock_error writing;
    rowlock_status status = rl_prepare(conn, RL_SQL_EVENT_ADD_MANY, io, &writing);
    if (status != ROWLOCK_DENIED)
        return status;
    if (err && may_take_locks(conn, io))
        *err = writing;
    return reading;
}

/* May it see the table? */
static rowlock_status see_table(rl_conn *conn, const char *table, const rl_io *io,
                                rowlock_error *err)
{
    const rl_value values[] = {rl_quoted(table)};
    rowlock_status status = rl_query_text(conn, RL_SQL_SCHEMA_SEE, values, io, no_row, NULL, err);
    if (status == ROWLOCK_DENIED && strcmp(table, "lock_event") == 0)
        return see_history(conn, io, status, err);
    return status;
}

/* What a user may not read looks as if it were not there. DENIED then, and which right is missing;
 * else OK. */
static rowlock_status check_sight(rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    /* The procedures see them. */
    for (size_t i = 0; i < TABLES && !conn->via; i++) {
        rowlock_status status = see_table(conn, tables[i].name, io, err);
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
        status = rl_schema_check_shape(conn, schema, io, err);
    if (status != ROWLOCK_DAMAGED || check_sight(conn, io, &denied) == ROWLOCK_OK)
        return status;
    if (err)
        *err = denied;
    return ROWLOCK_DENIED;
}
