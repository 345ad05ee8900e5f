/* Installing the event that sweeps. It calls a procedure, so that a newer program's sweep gets to
 * it with the procedures. */
#include "migrate/event.h"

#include <strings.h>

#include "migrate/open.h"
#include "stmt/session.h"
#include "stmt/stmt.h"

typedef struct installer {
    rl_params *params;
    rl_conn *conn;
    rl_io io;
    rowlock_sweep_event_result done;
} installer;

rowlock_status rl_event_there(rl_conn *conn, const rl_io *io, bool *there, rowlock_error *err)
{
    uint64_t count = 0;
    rowlock_status status =
        rl_query_number(conn, RL_SQL_MIGRATE_EVENT_THERE, NULL, io, &count, err);
    if (status == ROWLOCK_OK)
        *there = count > 0;
    return status;
}

static rowlock_status look_at_scheduler(installer *in, rowlock_error *err)
{
    rl_rows rows;
    bool found = false;
    rowlock_status status =
        rl_query_one(in->conn, RL_SQL_MIGRATE_EVENT_SCHEDULER, NULL, &in->io, &found, &rows, err);
    if (status == ROWLOCK_OK)
        in->done.scheduler_on = strcasecmp(rows.cells[0].text, "ON") == 0;
    return status;
}

static rowlock_status check_procedure(installer *in, rowlock_error *err)
{
    uint64_t count = 0;
    rowlock_status status =
        rl_query_number(in->conn, RL_SQL_MIGRATE_EVENT_PROCEDURE, NULL, &in->io, &count, err);
    if (status != ROWLOCK_OK || count > 0)
        return status;
    return rl_fail(err, ROWLOCK_SCHEMA,
                   "the event calls a procedure that is not there; run `rowlock -D %s init "
                   "--procedures`",
                   in->params->schema);
}

static rowlock_status create(installer *in, const rl_event_plan *plan, rowlock_error *err)
{
    const rl_value note[] = {rl_u64(plan->every_s)};
    const rl_value values[] = {note[0], rl_u64(plan->history_us), rl_u64(plan->history_rows),
                               rl_u64(plan->unused_us)};
    rowlock_status status = rl_server_write_check(&in->conn->server, err);
    if (status == ROWLOCK_OK)
        status = rl_run_text(in->conn, RL_SQL_MIGRATE_EVENT_TABLE, NULL, &in->io, err);
    /* Refused without the privilege EVENT: what is noted of the event that is there stays, then. */
    if (status == ROWLOCK_OK)
        status = rl_run_text(in->conn, RL_SQL_MIGRATE_EVENT_DROP, NULL, &in->io, err);
    if (status == ROWLOCK_OK)
        status = rl_run(in->conn, RL_SQL_MIGRATE_EVENT_NOTE, note, &in->io, NULL, err);
    if (status == ROWLOCK_OK)
        status = rl_run_text(in->conn, RL_SQL_MIGRATE_EVENT_CREATE, values, &in->io, err);
    in->done.there = status == ROWLOCK_OK;
    return status;
}

static rowlock_status drop(installer *in, rowlock_error *err)
{
    rowlock_status status = rl_server_write_check(&in->conn->server, err);
    if (status == ROWLOCK_OK)
        status = rl_run_text(in->conn, RL_SQL_MIGRATE_EVENT_DROP, NULL, &in->io, err);
    if (status == ROWLOCK_OK)
        status = rl_run_text(in->conn, RL_SQL_MIGRATE_EVENT_TABLE_DROP, NULL, &in->io, err);
    return status;
}

static rowlock_status begin(installer *in, int64_t wait_ms, rowlock_error *err)
{
    err->server_errno = 0;
    rowlock_status status = rl_migrate_open(in->params, wait_ms, &in->io, &in->conn, err);
    return status == ROWLOCK_OK ? look_at_scheduler(in, err) : status;
}

static rowlock_status end(installer *in, rowlock_status status, const char *rights,
                          rowlock_sweep_event_result *result, rowlock_error *err)
{
    bool login = err->server_errno == 1045 || err->server_errno == 1698;
    char who[RL_GRANTEE_SIZE];
    rl_session_grantee(in->conn, status, who, sizeof who);
    rl_conn_close(in->conn);
    if (status == ROWLOCK_OK && result)
        *result = in->done;
    if (status == ROWLOCK_DENIED && !login)
        rl_error_prefix(err, "to %s the event takes GRANT %s ON %s.* TO %s; ",
                        in->done.there ? "remove" : "install", rights, in->params->schema, who);
    return status;
}

rowlock_status rl_event_install(rl_params *params, const rl_event_plan *plan, int64_t wait_ms,
                                rowlock_sweep_event_result *result, rowlock_error *err)
{
    installer in = {.params = params, .io = rl_io_until(RL_NEVER)};
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    rowlock_status status = begin(&in, wait_ms, err);
    if (status == ROWLOCK_OK)
        status = check_procedure(&in, err);
    if (status == ROWLOCK_OK)
        status = create(&in, plan, err);
    return end(&in, status, "EVENT, CREATE, SELECT, INSERT, UPDATE, DELETE, EXECUTE", result, err);
}

rowlock_status rl_event_remove(rl_params *params, int64_t wait_ms,
                               rowlock_sweep_event_result *result, rowlock_error *err)
{
    installer in = {.params = params, .io = rl_io_until(RL_NEVER)};
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    rowlock_status status = begin(&in, wait_ms, err);
    if (status == ROWLOCK_OK)
        status = rl_event_there(in.conn, &in.io, &in.done.there, err);
    if (status == ROWLOCK_OK)
        status = drop(&in, err);
    return end(&in, status, "EVENT, DROP", result, err);
}
