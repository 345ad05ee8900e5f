#include "migrate/apply.h"

#include <inttypes.h>

#include "stmt/stmt.h"

#define POLL_US       50000
#define GONE_LIMIT_US 10000000 /* wait for the end of a connection that we have closed */
#define MARK_LIMIT_US 10000000
#define STRANGER_US   2000000
#define STOP_LIMIT_US 2000000
#define WRONG_VALUE   1231

static const rl_request foreign = {.purpose = RL_FOREIGN};

/* --------------------------------------------------------------------------- telling */

void rl_tell(const rl_site *site, const rowlock_migrations_progress *what)
{
    rowlock_migrations_progress now = *what;
    if (!site->options->progress)
        return;
    now.file = site->file;
    now.files = site->files;
    if (!now.name)
        now.name = "";
    if (!now.statement)
        now.statement = "";
    site->options->progress(site->options->progress_data, &now);
}

rowlock_status rl_still_ours(const rl_site *site, rowlock_error *err)
{
    if (site->check(site->hold) != ROWLOCK_OK)
        return rl_site_lost(site, err);
    if (rl_budget_cancelled(&site->budget))
        return rl_fail(err, ROWLOCK_CANCELLED, "cancelled");
    return ROWLOCK_OK;
}

/* ------------------------------------------------------------------ the last migrator */

static rowlock_status still_there(const rl_site *site, const rl_guard *before, const char *killing,
                                  rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_TIMEOUT,
                   "the connection %" PRIu64 " of the last migrator (%s) has not ended yet: the "
                   "server is still undoing its statement%s%s; nothing was run on %s",
                   before->connection_id, before->who, *killing ? ", or: " : "", killing,
                   site->schema);
}

static rowlock_status evict(rl_site *site, const rl_guard *before, rowlock_error *err)
{
    bool told = false;
    for (;;) {
        bool ended = false;
        rowlock_error killing = {0};
        RL_TRY(rl_still_ours(site, err));
        rowlock_status status =
            rl_site_end(site, before->connection_id, before->age_s, &ended, &killing);
        if (ended)
            return ROWLOCK_OK;
        /* DENIED: we may not end it, so we wait until it ends by itself. */
        if (status != ROWLOCK_OK && status != ROWLOCK_DENIED) {
            *err = killing;
            return status;
        }
        if (!told)
            rl_tell(site, &(rowlock_migrations_progress){.event = ROWLOCK_MIGRATIONS_ENDING,
                                                         .connection_id = before->connection_id});
        told = true;
        if (rl_budget_spent(&site->budget))
            return still_there(site, before, killing.message, err);
        (void)rl_budget_sleep(&site->budget, POLL_US);
    }
}

static rowlock_status elsewhere(const rl_guard *before, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_REPAIR,
                   "the last migrator (%s) did not end as it should, and worked on another "
                   "server than this one: when its connection %" PRIu64
                   " has ended there, run " RL_REPAIR("--gone"),
                   before->who, before->connection_id);
}

rowlock_status rl_apply_enter(rl_site *site, bool anyhow, bool gone, rowlock_error *err)
{
    rl_guard before;
    RL_TRY(rl_guard_enter(site, anyhow, err));
    RL_TRY(rl_guard_read(site, &before, err));
    if (before.connection_id == 0)
        return ROWLOCK_OK;
    if (!gone && before.server != site->server.node)
        return elsewhere(&before, err);
    if (!gone)
        RL_TRY(evict(site, &before, err));
    return rl_guard_register(site, 0, err);
}

/* ----------------------------------------------------------------- a file's connection */

/* Stops the statement, since the lock was lost or the call was cancelled. The server may still
 * answer how it ended; then its connection is closed (rl_work_close). */
static void stop_statement(void *data, const rl_conn *conn)
{
    const rl_work *w = data;
    (void)rl_pool_kill_query(&w->site->pool, &conn->peer, conn->id, "", STOP_LIMIT_US);
}

rowlock_status rl_work_mark(const rl_work *w, bool *got, rowlock_error *err)
{
    const rl_value values[] = {rl_text(w->site->marker)};
    rl_rows rows;
    bool found = false;
    rl_io io = rl_ledger_io();
    RL_TRY(rl_query_one(w->conn, RL_SQL_LEDGER_MARK, values, &io, &found, &rows, err));
    if (!found)
        return rl_fail(err, ROWLOCK_INVALID,
                       "the session gives no rows to a SELECT (sql_select_limit)");
    *got = rows.cells[0].u64 == 1;
    if ((rows.cells[1].u64 != 0) != w->file->no_backslashes ||
        (rows.cells[2].u64 != 0) != w->file->ansi_quotes)
        return rl_fail(err, ROWLOCK_INVALID,
                       "the file changes its sql_mode so that quotes are read in another way; say "
                       "\"-- rowlock: sql_mode=...\" at its top instead");
    return ROWLOCK_OK;
}

/* Another migrator that has the marker has an older token, and will notice; a sleeping one does
 * not, so this ends its connection. The token is compared last: whoever enters after that cannot be
 * the holder that was read. */
static rowlock_status end_stranger(const rl_work *w, rowlock_error *err)
{
    uint64_t holder = 0;
    bool ended = false;
    RL_TRY(rl_marker_holder(w->site, &holder, err));
    RL_TRY(rl_guard_register(w->site, w->conn->id, err));
    if (holder != 0 && holder != w->conn->id)
        (void)rl_site_end(w->site, holder, 0, &ended, NULL);
    return ROWLOCK_OK;
}

static rowlock_status take_mark(const rl_work *w, rowlock_error *err)
{
    const int64_t start_us = rl_now_us();
    const rl_budget pause = rl_budget_start(-1, 0, w->site->budget.cancel);
    for (;;) {
        bool got = false;
        RL_TRY(rl_still_ours(w->site, err));
        RL_TRY(rl_work_mark(w, &got, err));
        const int64_t waited_us = rl_now_us() - start_us;
        if (got)
            return ROWLOCK_OK;
        if (waited_us > MARK_LIMIT_US)
            return rl_fail(err, ROWLOCK_BUSY, "another connection of a migrator on %s does not end",
                           w->site->schema);
        if (waited_us > STRANGER_US)
            RL_TRY(end_stranger(w, err));
        (void)rl_budget_sleep(&pause, POLL_US);
    }
}

static rowlock_status set_mode(rl_conn *conn, const rl_file *file, rowlock_error *err)
{
    const rl_value mode[] = {rl_text(file->sql_mode)};
    rl_io io = rl_ledger_io();
    rowlock_status status = rl_run(conn, RL_SQL_LEDGER_SQL_MODE, mode, &io, NULL, err);
    if (status != ROWLOCK_OK && err->server_errno == WRONG_VALUE)
        return rl_fail(err, ROWLOCK_INVALID, "%s: this server takes no sql_mode=%s", file->name,
                       file->sql_mode);
    return status;
}

rowlock_status rl_work_open(rl_work *w, rowlock_error *err)
{
    rl_site *site = w->site;
    const rl_value wait[] = {rl_u64((uint64_t)(site->options->table_wait_ms + 999) / 1000)};
    rl_io io = rl_ledger_io();
    RL_TRY(rl_pool_take(&site->pool, &foreign, &io, &w->conn, err));
    w->conn->interrupt = stop_statement;
    w->conn->interrupt_data = w;
    RL_TRY(rl_site_same(site, w->conn, err));
    RL_TRY(rl_guard_register(site, w->conn->id, err));
    RL_TRY(rl_run_text(w->conn, RL_SQL_LEDGER_SESSION, wait, &io, err));
    if (w->file->sql_mode)
        RL_TRY(set_mode(w->conn, w->file, err));
    return take_mark(w, err);
}

/* A connection that has answered runs no statement any more, but may have to undo a transaction,
 * and has the marker until then. One that was broken off (`at_work`) may also still run its
 * statement. */
static bool has_ended(const rl_work *w, uint64_t id, bool at_work)
{
    const int64_t until_us = rl_now_us() + GONE_LIMIT_US;
    const uint64_t age_s = (uint64_t)(rl_now_us() - w->started_us) / 1000000;
    const rl_budget pause = rl_budget_start(-1, 0, NULL);
    do {
        uint64_t holder = 0;
        bool ended = false;
        rowlock_status status = at_work ? rl_site_end(w->site, id, age_s, &ended, NULL)
                                        : rl_marker_holder(w->site, &holder, NULL);
        if (status != ROWLOCK_OK)
            return false;
        if (ended || (!at_work && holder != id))
            return true;
        (void)rl_budget_sleep(&pause, POLL_US / 10);
    } while (rl_now_us() < until_us);
    return false;
}

void rl_work_close(rl_work *w)
{
    if (!w->conn)
        return;
    const uint64_t id = w->conn->id;
    const bool at_work = w->conn->broken || w->conn->reply_due;
    rl_conn_close(w->conn);
    w->conn = NULL;
    w->lingers = !has_ended(w, id, at_work);
}

/* ------------------------------------------------------------------- before they are run */

static rowlock_status check_file(rl_site *site, const rl_file *file, rl_conn **conn,
                                 rowlock_error *err)
{
    rl_io io = rl_ledger_io();
    if (file->longest >= site->packet)
        return rl_fail(err, ROWLOCK_INVALID,
                       "%s, line %u: the statement has %zu bytes, more than the server takes "
                       "(max_allowed_packet is %" PRIu64 ")",
                       file->name, file->longest_line, file->longest, site->packet);
    if (!file->sql_mode)
        return ROWLOCK_OK;
    if (!*conn)
        RL_TRY(rl_pool_take(&site->pool, &foreign, &io, conn, err));
    return set_mode(*conn, file, err);
}

rowlock_status rl_apply_check(rl_site *site, const rl_plan *plan, rowlock_error *err)
{
    rl_conn *conn = NULL; /* closed, not returned to the pool: its sql_mode is a file's */
    rowlock_status status = ROWLOCK_OK;
    for (size_t i = 0; status == ROWLOCK_OK && i < plan->count; i++)
        if (plan->entries[i].wanted)
            status = check_file(site, plan->entries[i].file, &conn, err);
    rl_conn_close(conn);
    return status;
}
