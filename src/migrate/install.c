/*
 * The stored procedures, and the event that calls one of them. A routine's comment says which
 * program made it and from which text. A routine that is up to date is not replaced: on MySQL,
 * dropping it would also drop the rights that were granted on it.
 */
#include "migrate/migrate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "bell/bell.h"
#include "migrate/schema.h"
#include "stmt/stmt.h"

#define COMMENT_SIZE 64
#define NOTE_TRIES   10

/* A routine that is in rowlock's schema. */
typedef struct routine {
    char name[65];
    char comment[COMMENT_SIZE];
    char drop[128];
    bool wanted; /* installing: this program has it; looking: it is the text of this program */
} routine;

typedef struct routines {
    routine *rows;
    size_t count;
    size_t capacity;
} routines;

static void free_routines(routines *there)
{
    free(there->rows);
}

static rowlock_status read_routines(rl_conn *conn, const rl_io *io, routines *there,
                                    rowlock_error *err)
{
    rl_rows rows;
    RL_TRY(rl_query(conn, RL_SQL_ROUTINE_LIST, NULL, io, &rows, err));
    while (rl_next(&rows)) {
        if (!RL_GROW(there->rows, there->count, there->capacity))
            return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
        routine *row = &there->rows[there->count++];
        *row = (routine){.wanted = false};
        snprintf(row->name, sizeof row->name, "%s", rows.cells[0].text);
        snprintf(row->comment, sizeof row->comment, "%s", rows.cells[1].text);
        snprintf(row->drop, sizeof row->drop, "%s", rows.cells[2].text);
    }
    return ROWLOCK_OK;
}

/* NULL: not there. */
static routine *find(routines *there, const char *name)
{
    for (size_t i = 0; i < there->count; i++)
        if (strcmp(there->rows[i].name, name) == 0)
            return &there->rows[i];
    return NULL;
}

/* The routine's text, with the prefix of the schema's bells in it, and its comment. */
static rowlock_status make_text(const rl_procedure *procedure, const char *schema, rl_buffer *text,
                                char comment[COMMENT_SIZE], rowlock_error *err)
{
    char bell[RL_BELL_PREFIX_MAX + 1];
    rl_bell_prefix(schema, bell);
    rl_buffer_fill_in(text, procedure->text, "{bell}", bell);
    if (text->failed)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    snprintf(comment, COMMENT_SIZE, "rowlock %s %016" PRIx64, ROWLOCK_VERSION_STRING,
             rl_hash(text->text));
    return ROWLOCK_OK;
}

/* ---------------------------------------------------------------------- installing */

typedef struct installer {
    rl_maker maker;
    routines there;
    rowlock_procedures_result done;
} installer;

static rowlock_status run(installer *in, const char *what, const char *text, rowlock_error *err)
{
    RL_TRY(rl_server_write_check(&in->maker.conn->server, err));
    return rl_conn_command(in->maker.conn, what, text, &in->maker.io, err);
}

static rowlock_status drop(installer *in, const routine *old, rowlock_error *err)
{
    in->done.changed++;
    return run(in, "routine_drop", old->drop, err);
}

static rowlock_status create(installer *in, const char *text, const char *comment,
                             rowlock_error *err)
{
    RL_CLEANUP(rl_buffer_free) rl_buffer whole = {0};
    rl_buffer_fill_in(&whole, text, "{comment}", comment);
    if (whole.failed)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    return run(in, "routine_create", whole.text, err);
}

/* The GRANT statements for the rights on a routine, each with its NUL. None if this user may not
 * read them: then an administrator grants them again (rowlock-sql(7)). */
static rowlock_status read_grants(installer *in, const char *name, rl_buffer *grants,
                                  rowlock_error *err)
{
    const rl_value values[] = {rl_text(name)};
    rl_rows rows;
    rowlock_status status =
        rl_query(in->maker.conn, RL_SQL_ROUTINE_GRANTS, values, &in->maker.io, &rows, err);
    if (status == ROWLOCK_DENIED)
        return ROWLOCK_OK;
    RL_TRY(status);
    while (rl_next(&rows))
        rl_buffer_append(grants, rows.cells[0].text, strlen(rows.cells[0].text) + 1);
    return grants->failed ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory") : ROWLOCK_OK;
}

/* For MySQL, which has no OR REPLACE. */
static rowlock_status drop_and_create(installer *in, const routine *old, const char *text,
                                      const char *comment, rowlock_error *err)
{
    RL_CLEANUP(rl_buffer_free) rl_buffer grants = {0};
    RL_TRY(read_grants(in, old->name, &grants, err));
    RL_TRY(drop(in, old, err));
    RL_TRY(create(in, text, comment, err));
    for (size_t at = 0; at < grants.length; at += strlen(grants.text + at) + 1)
        RL_TRY(run(in, "routine_grant", grants.text + at, err));
    return ROWLOCK_OK;
}

static rowlock_status install_one(installer *in, const rl_procedure *procedure, rowlock_error *err)
{
    char comment[COMMENT_SIZE];
    RL_CLEANUP(rl_buffer_free) rl_buffer text = {0};
    RL_TRY(make_text(procedure, in->maker.params->schema, &text, comment, err));
    routine *old = find(&in->there, procedure->name);
    if (old)
        old->wanted = true;
    if (old && strcmp(old->comment, comment) == 0)
        return ROWLOCK_OK;
    if (old && in->maker.conn->flavour == RL_MYSQL)
        return drop_and_create(in, old, text.text, comment, err);
    in->done.changed++;
    return create(in, text.text, comment, err);
}

/* Drops routines of an older program that this one does not have; for the removal all. */
static rowlock_status drop_unwanted(installer *in, rowlock_error *err)
{
    for (size_t i = 0; i < in->there.count; i++)
        if (!in->there.rows[i].wanted)
            RL_TRY(drop(in, &in->there.rows[i], err));
    return ROWLOCK_OK;
}

static rowlock_status install(installer *in, bool update_only, rowlock_error *err)
{
    rl_maker *m = &in->maker;
    if (update_only && in->there.count == 0)
        return ROWLOCK_OK;
    RL_TRY(rl_schema_version(m->conn, m->params->schema, &m->io, NULL, err));
    for (unsigned i = 0; i < rl_procedure_count; i++) {
        rowlock_status status = install_one(in, &rl_procedures[i], err);
        if (status != ROWLOCK_OK)
            rl_error_prefix(err, "the procedure %s: ", rl_procedures[i].name);
        RL_TRY(status);
    }
    in->done.total = rl_procedure_count;
    return drop_unwanted(in, err);
}

/* *there: the event exists, as far as this user may see. */
static rowlock_status event_there(rl_maker *m, bool *there, rowlock_error *err)
{
    uint64_t count = 0;
    RL_TRY(rl_query_number(m->conn, RL_SQL_MIGRATE_EVENT_THERE, NULL, &m->io, &count, err));
    *there = count > 0;
    return ROWLOCK_OK;
}

static rowlock_status remove_all(installer *in, rowlock_error *err)
{
    bool event = false;
    char where[RL_DASH_D_SIZE];
    RL_TRY(event_there(&in->maker, &event, err));
    if (event)
        return rl_fail(err, ROWLOCK_INVALID,
                       "the event that sweeps calls them; run `rowlock%s init --remove-event` "
                       "before",
                       rl_schema_dash_d(in->maker.params->schema, where));
    return drop_unwanted(in, err);
}

static rowlock_status change(installer *in, const rowlock_procedures_options *options, bool wanted,
                             rowlock_error *err)
{
    RL_TRY(rl_maker_open(&in->maker, options->wait_ms, err));
    RL_TRY(read_routines(in->maker.conn, &in->maker.io, &in->there, err));
    return wanted ? install(in, options->update_only, err) : remove_all(in, err);
}

rowlock_status rl_procedures_change(rl_params *params, const rowlock_procedures_options *options,
                                    bool wanted, rowlock_procedures_result *result,
                                    rowlock_error *err)
{
    installer in = {.maker = {.params = params, .io = rl_io_until(RL_NEVER)}};
    rowlock_status status = change(&in, options, wanted, err);
    if (status == ROWLOCK_OK && result)
        *result = in.done;
    free_routines(&in.there);
    /* They run with the rights of who installs them. */
    const char *rights = "SELECT, ALTER ROUTINE"; /* not run */
    if (wanted)
        rights = "SELECT, INSERT, UPDATE, DELETE, "        /* not run */
                 "CREATE ROUTINE, ALTER ROUTINE, EXECUTE"; /* not run */
    return rl_maker_close(&in.maker, status,
                          wanted ? "to install the procedures" : "to remove the procedures", rights,
                          err);
}

/* ------------------------------------------------------------------------- looking */

/* A user that sees a helper (rl_...) sees all routines: a helper is never granted alone. */
static bool shows_all(const routines *there)
{
    for (size_t i = 0; i < there->count; i++)
        if (strncmp(there->rows[i].name, "rl_", 3) == 0)
            return true;
    return false;
}

rowlock_status rl_procedures_look(rl_conn *conn, const char *schema, const rl_io *io,
                                  rl_procedures_seen *seen, rowlock_error *err)
{
    RL_CLEANUP(free_routines) routines there = {0};
    *seen = (rl_procedures_seen){.all = rl_procedure_count, .missing = ""};
    RL_TRY(read_routines(conn, io, &there, err));
    seen->there = (unsigned)there.count;
    for (unsigned i = 0; i < rl_procedure_count; i++) {
        char comment[COMMENT_SIZE];
        RL_CLEANUP(rl_buffer_free) rl_buffer text = {0};
        routine *row = find(&there, rl_procedures[i].name);
        if (!row && !*seen->missing && shows_all(&there))
            seen->missing = rl_procedures[i].name;
        if (!row)
            continue;
        RL_TRY(make_text(&rl_procedures[i], schema, &text, comment, err));
        row->wanted = strcmp(row->comment, comment) == 0;
        seen->same += row->wanted;
    }
    for (size_t i = 0; i < there.count; i++)
        if (!there.rows[i].wanted)
            snprintf(seen->other, sizeof seen->other, "%s", there.rows[i].comment);
    return ROWLOCK_OK;
}

/* --------------------------------------------------------------------------- event */

/* Checks that the procedure exists which the event calls. (It calls one, so that a newer program's
 * sweep comes with its procedures.) */
static rowlock_status check_procedure(rl_maker *m, rowlock_error *err)
{
    uint64_t count = 0;
    char where[RL_DASH_D_SIZE];
    RL_TRY(rl_query_number(m->conn, RL_SQL_MIGRATE_EVENT_PROCEDURE, NULL, &m->io, &count, err));
    if (count > 0)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_SCHEMA,
                   "the event calls a procedure that is not there; run `rowlock%s init "
                   "--procedures`",
                   rl_schema_dash_d(m->params->schema, where));
}

/* Where several nodes write, the event may change the same row at another one. */
static rowlock_status change_note(rl_maker *m, rl_sql_id id, const rl_value *values,
                                  rowlock_error *err)
{
    rowlock_status status = ROWLOCK_DEADLOCK;
    for (int i = 0; i < NOTE_TRIES && status == ROWLOCK_DEADLOCK; i++)
        status = rl_run(m->conn, id, values, &m->io, NULL, err);
    return status;
}

static rowlock_status install_event(rl_maker *m, const rl_event_plan *plan,
                                    rowlock_sweep_event_result *done, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(plan->every_s), rl_u64(plan->history_us),
                               rl_u64(plan->history_rows), rl_u64(plan->unused_us)};
    RL_TRY(check_procedure(m, err));
    RL_TRY(rl_server_write_check(&m->conn->server, err));
    RL_TRY(rl_run_text(m->conn, RL_SQL_MIGRATE_EVENT_TABLE, NULL, &m->io, err));
    /* Dropped before the note is changed: without the privilege EVENT this is refused, and the note
     * stays that of the present event. */
    RL_TRY(rl_run_text(m->conn, RL_SQL_MIGRATE_EVENT_DROP, NULL, &m->io, err));
    RL_TRY(change_note(m, RL_SQL_MIGRATE_EVENT_NOTE, values, err));
    RL_TRY(rl_run_text(m->conn, RL_SQL_MIGRATE_EVENT_CREATE, values, &m->io, err));
    done->there = true;
    return ROWLOCK_OK;
}

static rowlock_status remove_event(rl_maker *m, rowlock_sweep_event_result *done,
                                   rowlock_error *err)
{
    RL_TRY(event_there(m, &done->there, err));
    RL_TRY(rl_server_write_check(&m->conn->server, err));
    RL_TRY(rl_run_text(m->conn, RL_SQL_MIGRATE_EVENT_DROP, NULL, &m->io, err));
    rowlock_status status = change_note(m, RL_SQL_MIGRATE_EVENT_FORGET, NULL, err);
    return status == ROWLOCK_SCHEMA ? ROWLOCK_OK : status; /* it never had a table */
}

static rowlock_status change_event(rl_maker *m, const rl_event_plan *plan, int64_t wait_ms,
                                   rowlock_sweep_event_result *done, rowlock_error *err)
{
    rl_rows rows;
    bool found = false;
    RL_TRY(rl_maker_open(m, wait_ms, err));
    RL_TRY(rl_query_one(m->conn, RL_SQL_MIGRATE_EVENT_SCHEDULER, NULL, &m->io, &found, &rows, err));
    done->scheduler_on = strcasecmp(rows.cells[0].text, "ON") == 0;
    return plan ? install_event(m, plan, done, err) : remove_event(m, done, err);
}

rowlock_status rl_event_change(rl_params *params, const rl_event_plan *plan, int64_t wait_ms,
                               rowlock_sweep_event_result *result, rowlock_error *err)
{
    rl_maker m = {.params = params, .io = rl_io_until(RL_NEVER)};
    rowlock_sweep_event_result done = {0};
    rowlock_status status = change_event(&m, plan, wait_ms, &done, err);
    if (status == ROWLOCK_OK && result)
        *result = done;
    return rl_maker_close(&m, status, plan ? "to install the event" : "to remove the event",
                          plan ? "EVENT, CREATE, SELECT, INSERT, UPDATE, DELETE, EXECUTE"
                               : "EVENT, SELECT, DELETE", /* not run */
                          err);
}
