/* Installing the event that sweeps. It calls a procedure, so that a newer program's sweep gets to
 * it with the procedures. */
#include "migrate/event.h"

#include <strings.h>

#include "migrate/open.h"
#include "stmt/session.h"
#include "stmt/stmt.h"

rowlock_status rl_event_there(rl_conn *conn, const rl_io *io, bool *there, rowlock_error *err)
{
    uint64_t count = 0;
    RL_TRY(rl_query_number(conn, RL_SQL_MIGRATE_EVENT_THERE, NULL, io, &count, err));
    *there = count > 0;
    return ROWLOCK_OK;
}

static rowlock_status begin(rl_maker *m, int64_t wait_ms, rowlock_sweep_event_result *done,
                            rowlock_error *err)
{
    rl_rows rows;
    bool found = false;
    RL_TRY(rl_maker_open(m, wait_ms, err));
    RL_TRY(rl_query_one(m->conn, RL_SQL_MIGRATE_EVENT_SCHEDULER, NULL, &m->io, &found, &rows, err));
    done->scheduler_on = strcasecmp(rows.cells[0].text, "ON") == 0;
    return ROWLOCK_OK;
}

static rowlock_status check_procedure(rl_maker *m, rowlock_error *err)
{
    uint64_t count = 0;
    RL_TRY(rl_query_number(m->conn, RL_SQL_MIGRATE_EVENT_PROCEDURE, NULL, &m->io, &count, err));
    if (count > 0)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_SCHEMA,
                   "the event calls a procedure that is not there; run `rowlock -D %s init "
                   "--procedures`",
                   m->params->schema);
}

static rowlock_status install(rl_maker *m, const rl_event_plan *plan,
                              rowlock_sweep_event_result *done, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(plan->every_s), rl_u64(plan->history_us),
                               rl_u64(plan->history_rows), rl_u64(plan->unused_us)};
    RL_TRY(check_procedure(m, err));
    RL_TRY(rl_server_write_check(&m->conn->server, err));
    RL_TRY(rl_run_text(m->conn, RL_SQL_MIGRATE_EVENT_TABLE, NULL, &m->io, err));
    /* Refused without the privilege EVENT: what is noted of the event that is there stays, then. */
    RL_TRY(rl_run_text(m->conn, RL_SQL_MIGRATE_EVENT_DROP, NULL, &m->io, err));
    RL_TRY(rl_run(m->conn, RL_SQL_MIGRATE_EVENT_NOTE, values, &m->io, NULL, err));
    RL_TRY(rl_run_text(m->conn, RL_SQL_MIGRATE_EVENT_CREATE, values, &m->io, err));
    done->there = true;
    return ROWLOCK_OK;
}

static rowlock_status remove_it(rl_maker *m, rowlock_sweep_event_result *done, rowlock_error *err)
{
    RL_TRY(rl_event_there(m->conn, &m->io, &done->there, err));
    RL_TRY(rl_server_write_check(&m->conn->server, err));
    RL_TRY(rl_run_text(m->conn, RL_SQL_MIGRATE_EVENT_DROP, NULL, &m->io, err));
    return rl_run_text(m->conn, RL_SQL_MIGRATE_EVENT_TABLE_DROP, NULL, &m->io, err);
}

rowlock_status rl_event_change(rl_params *params, const rl_event_plan *plan, int64_t wait_ms,
                               rowlock_sweep_event_result *result, rowlock_error *err)
{
    rl_maker m = {.params = params, .io = rl_io_until(RL_NEVER)};
    rowlock_sweep_event_result done = {0};
    rowlock_status status = begin(&m, wait_ms, &done, err);
    if (status == ROWLOCK_OK)
        status = plan ? install(&m, plan, &done, err) : remove_it(&m, &done, err);
    if (status == ROWLOCK_OK && result)
        *result = done;
    return rl_maker_close(&m, status, plan ? "to install the event" : "to remove the event",
                          plan ? "EVENT, CREATE, SELECT, INSERT, UPDATE, DELETE, EXECUTE"
                               : "EVENT, DROP", /* not run */
                          err);
}
