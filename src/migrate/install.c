/*
 * Installing the stored procedures. A routine's comment says which program made it and from which
 * text, so that what is up to date is left alone: on MySQL a routine that is dropped takes the
 * rights with it that were granted on it.
 */
#include <string.h>

#include "base/text.h"
#include "migrate/event.h"
#include "migrate/open.h"
#include "migrate/procedures.h"
#include "migrate/routines.h"
#include "migrate/schema.h"
#include "stmt/session.h"
#include "stmt/stmt.h"

typedef struct installer {
    rl_params *params;
    rl_conn *conn;
    rl_io io;
    rl_routines there;
    rowlock_procedures_result done;
} installer;

static rowlock_status drop(installer *in, const rl_routine *old, rowlock_error *err)
{
    rowlock_status status = rl_server_write_check(&in->conn->server, err);
    if (status != ROWLOCK_OK)
        return status;
    in->done.changed++;
    return rl_conn_command(in->conn, "routine_drop", old->drop, &in->io, err);
}

static rowlock_status create(installer *in, const char *text, const char *comment,
                             rowlock_error *err)
{
    rl_buffer whole = {0};
    rowlock_status status = rl_server_write_check(&in->conn->server, err);
    if (status != ROWLOCK_OK)
        return status;
    rl_buffer_fill_in(&whole, text, "{comment}", comment);
    status = whole.failed ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory")
                          : rl_conn_command(in->conn, "routine_create", whole.text, &in->io, err);
    rl_buffer_free(&whole);
    return status;
}

/* What was granted on it, one statement behind the other, each with its end. Who may not look
 * there has to grant it again (rowlock-sql(7)). */
static rowlock_status read_grants(installer *in, const char *name, rl_buffer *grants,
                                  rowlock_error *err)
{
    const rl_value values[] = {rl_text(name)};
    rl_rows rows;
    rowlock_status status = rl_query(in->conn, RL_SQL_ROUTINE_GRANTS, values, &in->io, &rows, err);
    if (status == ROWLOCK_DENIED)
        return ROWLOCK_OK;
    if (status != ROWLOCK_OK)
        return status;
    while (rl_next(&rows))
        rl_buffer_append(grants, rows.cells[0].text, strlen(rows.cells[0].text) + 1);
    rl_end(&rows);
    if (rows.status == ROWLOCK_OK && grants->failed)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    return rows.status;
}

static rowlock_status grant_again(installer *in, const rl_buffer *grants, rowlock_error *err)
{
    rowlock_status status = ROWLOCK_OK;
    for (size_t at = 0; status == ROWLOCK_OK && at < grants->length;) {
        const char *text = grants->text + at;
        status = rl_conn_command(in->conn, "routine_grant", text, &in->io, err);
        at += strlen(text) + 1;
    }
    return status;
}

/* MySQL has no OR REPLACE. */
static rowlock_status drop_and_create(installer *in, const rl_routine *old, const char *text,
                                      const char *comment, rowlock_error *err)
{
    rl_buffer grants = {0};
    rowlock_status status = read_grants(in, old->name, &grants, err);
    if (status == ROWLOCK_OK)
        status = drop(in, old, err);
    if (status == ROWLOCK_OK)
        status = create(in, text, comment, err);
    if (status == ROWLOCK_OK)
        status = grant_again(in, &grants, err);
    rl_buffer_free(&grants);
    return status;
}

/* `text` has its bell already. */
static rowlock_status install_text(installer *in, const char *name, const char *text,
                                   rowlock_error *err)
{
    char comment[RL_COMMENT_SIZE];
    rl_procedure_comment(text, comment);
    rl_routine *old = rl_routine_find(&in->there, name);
    if (old)
        old->wanted = true;
    if (old && strcmp(old->comment, comment) == 0)
        return ROWLOCK_OK;
    rowlock_status status;
    if (old && in->conn->flavour == RL_MYSQL) {
        status = drop_and_create(in, old, text, comment, err);
    } else {
        in->done.changed++;
        status = create(in, text, comment, err);
    }
    if (status != ROWLOCK_OK)
        rl_error_prefix(err, "the procedure %s: ", name);
    return status;
}

static rowlock_status install_one(installer *in, const rl_procedure *procedure, rowlock_error *err)
{
    rl_buffer text = {0};
    rl_procedure_fill_bell(&text, procedure->text, in->params->schema);
    rowlock_status status = text.failed ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory")
                                        : install_text(in, procedure->name, text.text, err);
    rl_buffer_free(&text);
    return status;
}

/* Of an older program, which this one does not have any more; or all of them. */
static rowlock_status drop_unwanted(installer *in, rowlock_error *err)
{
    rowlock_status status = ROWLOCK_OK;
    for (size_t i = 0; status == ROWLOCK_OK && i < in->there.count; i++)
        if (!in->there.rows[i].wanted)
            status = drop(in, &in->there.rows[i], err);
    return status;
}

static rowlock_status install_all(installer *in, rowlock_error *err)
{
    rowlock_status status = ROWLOCK_OK;
    for (unsigned i = 0; status == ROWLOCK_OK && i < rl_procedure_count; i++)
        status = install_one(in, &rl_procedures[i], err);
    if (status == ROWLOCK_OK)
        status = drop_unwanted(in, err);
    in->done.total = rl_procedure_count;
    return status;
}

static rowlock_status name_privileges(const installer *in, rowlock_status status,
                                      rowlock_error *err)
{
    char who[RL_GRANTEE_SIZE];
    bool login = err && (err->server_errno == 1045 || err->server_errno == 1698);
    rl_session_grantee(in->conn, status, who, sizeof who);
    if (status == ROWLOCK_DENIED && !login)
        rl_error_prefix(
            err,
            "to install the procedures takes GRANT CREATE ROUTINE, ALTER ROUTINE, %s ON "
            "`%s`.* TO %s; ",
            "EXECUTE", in->params->schema, who); /* not run */
    return status;
}

/* Opens, and reads what is there. */
static rowlock_status begin(installer *in, int64_t wait_ms, rowlock_error *err)
{
    rowlock_status status = rl_migrate_open(in->params, wait_ms, &in->io, &in->conn, err);
    return status == ROWLOCK_OK ? rl_routines_read(in->conn, &in->io, &in->there, err) : status;
}

static rowlock_status end(installer *in, rowlock_status status, rowlock_procedures_result *result,
                          rowlock_error *err)
{
    status = name_privileges(in, status, err);
    rl_conn_close(in->conn);
    if (status == ROWLOCK_OK && result)
        *result = in->done;
    return status;
}

rowlock_status rl_procedures_install(rl_params *params, const rowlock_procedures_options *options,
                                     rowlock_procedures_result *result, rowlock_error *err)
{
    installer in = {.params = params, .io = rl_io_until(RL_NEVER)};
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    rowlock_status status = begin(&in, options->wait_ms, err);
    unsigned version = 0;
    if (status == ROWLOCK_OK && options->update_only && in.there.count == 0)
        return end(&in, status, result, err);
    if (status == ROWLOCK_OK)
        status = rl_schema_version(in.conn, params->schema, &in.io, &version, err);
    if (status == ROWLOCK_OK)
        status = install_all(&in, err);
    return end(&in, status, result, err);
}

rowlock_status rl_procedures_remove(rl_params *params, const rowlock_procedures_options *options,
                                    rowlock_procedures_result *result, rowlock_error *err)
{
    installer in = {.params = params, .io = rl_io_until(RL_NEVER)};
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    bool event = false;
    rowlock_status status = begin(&in, options->wait_ms, err);
    if (status == ROWLOCK_OK)
        status = rl_event_there(in.conn, &in.io, &event, err);
    if (status == ROWLOCK_OK && event)
        status = rl_fail(err, ROWLOCK_INVALID,
                         "the event that sweeps calls them; run `rowlock -D %s init "
                         "--remove-event` before",
                         params->schema);
    if (status == ROWLOCK_OK)
        status = drop_unwanted(&in, err);
    return end(&in, status, result, err);
}
