/*
 * Applying. What keeps a statement of a migrator that was taken over from starting:
 *
 *   1. Whoever has the lock writes its token into the guard (rl_guard_enter); from then on no write
 *      of an older one succeeds.
 *   2. It ends the connection that the one before has registered there, and waits until the server
 *      knows no such connection and the marker, a named lock of it, is free: the server has undone
 *      its statement then. (A file may release all its locks, the marker with them.)
 *   3. It opens its own connection, registers it (its token is compared), and takes the marker.
 *   4. Before each statement it notes which one, comparing the token; then it sends it. (In a file
 *      that is one transaction, before its first and with its COMMIT: begin_whole().)
 *
 * One that was stopped before its note finds another token. One that was stopped between its note
 * and its statement had registered its connection before, which step 2 has ended: the statement
 * goes nowhere.
 */
#include "migrate/apply.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POLL_US         50000
#define GONE_LIMIT_US   10000000 /* for the end of a connection that we have ended ourselves */
#define MARK_LIMIT_US   10000000
#define STRANGER_US     2000000
#define STOP_LIMIT_US   2000000
#define BULK_NOTE_US    500000
#define CLIENT_LOST     2013
#define CLIENT_GONE     2006
#define WAS_KILLED      1927
#define LOCK_WAIT_ENDED 1205
#define WRONG_VALUE     1231

/* --------------------------------------------------------------------------- telling */

static void tell(const rl_applying *a, const rowlock_migrations_progress *what)
{
    if (!a->progress)
        return;
    rowlock_migrations_progress now = *what;
    now.file = a->file;
    now.files = a->files;
    if (!now.name)
        now.name = "";
    if (!now.statement)
        now.statement = "";
    a->progress(a->progress_data, &now);
}

/* LOST, CANCELLED, or OK. */
static rowlock_status still_ours(const rl_applying *a, rowlock_error *err)
{
    if (!a->ours(a->ours_data))
        return rl_site_lost(a->site, err);
    if (rl_budget_cancelled(&a->budget))
        return rl_fail(err, ROWLOCK_CANCELLED, "cancelled");
    return ROWLOCK_OK;
}

/* ------------------------------------------------------------------ the one before us */

static rowlock_status still_there(const rl_applying *a, const rl_guard *before,
                                  const rowlock_error *killing, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_TIMEOUT,
                   "the connection %" PRIu64 " of the last migrator (%s) has not ended yet: the "
                   "server is still undoing its statement%s%s; nothing was run on %s",
                   before->connection_id, before->who, *killing->message ? ", or: " : "",
                   killing->message, a->site->schema);
}

/* Tries to end it; *ended: it has. It may be that only its own user may end it: then wait. */
static rowlock_status try_to_end(const rl_applying *a, const rl_guard *before, bool *ended,
                                 rowlock_error *killing, rowlock_error *err)
{
    uint64_t holder = 0;
    killing->message[0] = '\0';
    (void)rl_site_end(a->site, before->connection_id, before->age_s, ended, killing);
    rowlock_status status = rl_marker_holder(a->site, &holder, err);
    *ended = *ended && holder != before->connection_id;
    return status;
}

static rowlock_status evict(rl_applying *a, const rl_guard *before, rowlock_error *err)
{
    bool told = false;
    rowlock_error killing = {0};
    for (;;) {
        bool ended = false;
        rowlock_status status = still_ours(a, err);
        if (status == ROWLOCK_OK)
            status = try_to_end(a, before, &ended, &killing, err);
        if (status != ROWLOCK_OK || ended)
            return status;
        if (!told)
            tell(a, &(rowlock_migrations_progress){.event = ROWLOCK_MIGRATIONS_ENDING,
                                                   .connection_id = before->connection_id});
        told = true;
        if (rl_budget_spent(&a->budget))
            return still_there(a, before, &killing, err);
        (void)rl_budget_sleep(&a->budget, POLL_US);
    }
}

rowlock_status rl_apply_enter(rl_applying *a, bool anyhow, bool gone, rowlock_error *err)
{
    rl_guard before;
    char command[RL_ADVICE_SIZE];
    char who[sizeof before.who] = "";
    uint64_t age_s = 0;
    rowlock_status status = rl_guard_read(a->site, &before, err);
    if (status == ROWLOCK_OK) {
        memcpy(who, before.who, sizeof who);
        age_s = before.age_s;
        status = rl_guard_enter(a->site, anyhow, err);
    }
    if (status == ROWLOCK_OK)
        status = rl_guard_read(a->site, &before, err);
    memcpy(before.who, who, sizeof who);
    before.age_s = age_s;
    if (status != ROWLOCK_OK || before.connection_id == 0)
        return status;
    if (gone)
        return rl_guard_register(a->site, 0, err);
    if (before.server != a->site->server)
        return rl_fail(err, ROWLOCK_REPAIR,
                       "the last migrator (%s) did not end as it should, and worked on another "
                       "server than this one: when its connection %" PRIu64
                       " has ended there, run %s",
                       before.who, before.connection_id,
                       rl_advise(a->site->advice, command, sizeof command, "repair --gone"));
    status = evict(a, &before, err);
    return status == ROWLOCK_OK ? rl_guard_register(a->site, 0, err) : status;
}

/* ----------------------------------------------------------------- a file's connection */

/* One file at work. */
typedef struct run {
    rl_applying *a;
    const rl_file *file;
    rl_record row; /* as noted last; its texts are below */
    char title[200];
    char trouble[600];
    rl_conn *conn;
    rl_sha256 sum;  /* of all statements so far */
    unsigned first; /* statements that had taken effect before */
    bool lingers;   /* its connection has not ended in time */
    int64_t started_us;
    int64_t noted_us;
} run;

/* The lock was lost, or somebody has cancelled. It may still answer how it ended; then, or without
 * an answer, its connection ends, too (close_work). */
static void stop_statement(void *data, const rl_conn *conn)
{
    const run *r = data;
    (void)rl_pool_kill_query(&r->a->site->pool, &conn->peer, conn->id, "", STOP_LIMIT_US);
}

static rl_io work_io(const rl_applying *a)
{
    const rl_budget endless = rl_budget_start(-1, 0, a->budget.cancel);
    return rl_budget_lock_io(&endless);
}

static rl_io short_io(void)
{
    return rl_io_until(rl_time_add(rl_now_us(), RL_LEDGER_LIMIT_US));
}

/* *got: it is ours. INVALID: quotes are not read as the file is. */
static rowlock_status try_mark(const run *r, bool *got, rowlock_error *err)
{
    const rl_value values[] = {rl_text(r->a->site->marker)};
    rl_rows rows;
    bool found = false;
    rl_io io = short_io();
    rowlock_status status =
        rl_query_one(r->conn, RL_SQL_LEDGER_MARK, values, &io, &found, &rows, err);
    if (status != ROWLOCK_OK)
        return status;
    *got = rows.cells[0].u64 == 1;
    if ((rows.cells[1].u64 != 0) != r->file->no_backslashes ||
        (rows.cells[2].u64 != 0) != r->file->ansi_quotes)
        return rl_fail(err, ROWLOCK_INVALID,
                       "the file changes its sql_mode so that quotes are read in another way; say "
                       "\"-- rowlock: sql_mode=...\" at its top instead");
    return ROWLOCK_OK;
}

/* Whoever has it beside us has an older token and will find that out; if it sleeps, it is ended. */
static rowlock_status end_stranger(const run *r, rowlock_error *err)
{
    uint64_t holder = 0;
    bool ended = false;
    rowlock_status status = rl_guard_register(r->a->site, r->conn->id, err);
    if (status == ROWLOCK_OK)
        status = rl_marker_holder(r->a->site, &holder, err);
    if (status == ROWLOCK_OK && holder != 0 && holder != r->conn->id)
        (void)rl_site_end(r->a->site, holder, 0, &ended, NULL);
    return status;
}

static rowlock_status take_mark(const run *r, rowlock_error *err)
{
    const int64_t start_us = rl_now_us();
    for (;;) {
        bool got = false;
        rowlock_status status = still_ours(r->a, err);
        if (status == ROWLOCK_OK)
            status = try_mark(r, &got, err);
        if (status == ROWLOCK_OK && !got && rl_now_us() - start_us > STRANGER_US)
            status = end_stranger(r, err);
        if (status != ROWLOCK_OK || got)
            return status;
        if (rl_now_us() - start_us > MARK_LIMIT_US)
            return rl_fail(err, ROWLOCK_BUSY, "another connection of a migrator on %s does not end",
                           r->a->site->schema);
        (void)rl_budget_sleep(&r->a->budget, POLL_US);
    }
}

static rowlock_status set_mode(rl_conn *conn, const rl_file *file, rowlock_error *err)
{
    const rl_value mode[] = {rl_text(file->sql_mode)};
    rl_io io = short_io();
    rowlock_status status = rl_run(conn, RL_SQL_LEDGER_SQL_MODE, mode, &io, NULL, err);
    if (status != ROWLOCK_OK && err && err->server_errno == WRONG_VALUE)
        return rl_fail(err, ROWLOCK_INVALID, "%s: this server takes no sql_mode=%s", file->name,
                       file->sql_mode);
    return status;
}

static rowlock_status set_session(const run *r, rowlock_error *err)
{
    const rl_value wait[] = {rl_u64(r->a->table_wait_s)};
    rl_io io = short_io();
    rowlock_status status = rl_run_text(r->conn, RL_SQL_LEDGER_SESSION, wait, &io, err);
    if (status != ROWLOCK_OK || !r->file->sql_mode)
        return status;
    return set_mode(r->conn, r->file, err);
}

static rowlock_status open_work(run *r, rowlock_error *err)
{
    static const rl_request hold = {.purpose = RL_HOLD};
    rl_site *site = r->a->site;
    rl_io io = short_io();
    rowlock_status status = rl_pool_take(&site->pool, &hold, &io, &r->conn, err);
    if (status != ROWLOCK_OK)
        return status;
    r->conn->interrupt = stop_statement;
    r->conn->interrupt_data = r;
    if (r->conn->server.node != site->server)
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "connections lead to another server than before (a failover)");
    status = rl_guard_register(site, r->conn->id, err);
    if (status == ROWLOCK_OK)
        status = set_session(r, err);
    if (status == ROWLOCK_OK)
        status = take_mark(r, err);
    return status;
}

/* A connection that has answered has no statement any more; one that is broken may. */
static bool has_ended(const run *r, uint64_t id, bool broken)
{
    const int64_t until_us = rl_now_us() + GONE_LIMIT_US;
    const uint64_t age_s = (uint64_t)(rl_now_us() - r->started_us) / 1000000;
    const rl_budget pause = rl_budget_start(-1, 0, NULL);
    do {
        uint64_t holder = 0;
        bool ended = !broken;
        if (broken && rl_site_end(r->a->site, id, age_s, &ended, NULL) != ROWLOCK_OK)
            return false;
        if (rl_marker_holder(r->a->site, &holder, NULL) != ROWLOCK_OK)
            return false;
        if (ended && holder != id)
            return true;
        (void)rl_budget_sleep(&pause, POLL_US / 10);
    } while (rl_now_us() < until_us);
    return false;
}

/* Ends it, and sees to it that it has ended: the next one, or we, would have to wait for it. */
static void close_work(run *r)
{
    if (!r->conn)
        return;
    const uint64_t id = r->conn->id;
    const bool broken = r->conn->broken;
    rl_conn_close(r->conn);
    r->conn = NULL;
    r->lingers = !has_ended(r, id, broken);
}

/* -------------------------------------------------------------------- one statement */

static rowlock_status note(run *r, rowlock_error *err)
{
    r->noted_us = rl_now_us();
    return rl_ledger_note(r->a->site, &r->row, err);
}

/* From here to its end nobody else writes the file's row: where a transaction may not write what
 * was changed behind its snapshot (innodb_snapshot_isolation), it could not commit it. And the
 * statement is prepared before the file may say USE, which would lead it to another history. */
static rowlock_status begin_whole(run *r, rowlock_error *err)
{
    rl_io io = short_io();
    r->conn->table = r->a->site->table;
    rowlock_status status = rl_prepare(r->conn, RL_SQL_LEDGER_NOTE, &io, err);
    if (status == ROWLOCK_OK)
        status = note(r, err);
    if (status == ROWLOCK_OK)
        status = rl_run_text(r->conn, RL_SQL_BEGIN, NULL, &io, err);
    return status;
}

/* In a transaction nothing takes effect before its COMMIT, which is noted: rows by the thousand
 * need not be. */
static bool is_bulk(const run *r, const rl_statement *statement)
{
    /* Words, not run. */
    static const char *const words[] = {"INSERT", "UPDATE", "DELETE", "REPLACE", NULL};
    if (!rl_in_transaction(r->conn->mysql) || rl_now_us() - r->noted_us > BULK_NOTE_US)
        return false;
    for (const char *const *word = words; *word; word++)
        if (rl_statement_is(statement, *word))
            return true;
    return false;
}

static rowlock_status announce(run *r, const rl_statement *statement, unsigned step,
                               rowlock_error *err)
{
    bool got = false;
    rl_statement_title(statement, r->title, sizeof r->title);
    r->row.running = r->row.whole ? 0 : step;
    tell(r->a, &(rowlock_migrations_progress){.event = ROWLOCK_MIGRATIONS_STATEMENT,
                                              .name = r->file->name,
                                              .version = r->file->version,
                                              .statement = r->title,
                                              .step = step,
                                              .steps = r->file->steps});
    rowlock_status status = still_ours(r->a, err);
    if (status != ROWLOCK_OK || is_bulk(r, statement))
        return status;
    status = try_mark(r, &got, err);
    if (status == ROWLOCK_OK && !got)
        status = rl_fail(err, ROWLOCK_LOST, "another migrator has taken over");
    if (status == ROWLOCK_OK && !r->row.whole)
        status = note(r, err);
    return status == ROWLOCK_OK ? still_ours(r->a, err) : status;
}

/* Has the server said how the statement ended? */
static bool answered(const rowlock_error *err)
{
    return err->server_errno != 0 && err->server_errno != CLIENT_LOST &&
           err->server_errno != CLIENT_GONE && err->server_errno != WAS_KILLED;
}

/* What stands before the server's words. */
static void say_where(const run *r, const rl_statement *statement, unsigned step,
                      rowlock_error *err)
{
    char command[RL_ADVICE_SIZE / 2];
    if (err->server_errno == LOCK_WAIT_ENDED)
        rl_error_prefix(err,
                        "a transaction uses the table or the row (%s says whose); run again "
                        "when it has ended: ",
                        rl_advise_verb(r->a->site->advice, command, sizeof command, "doctor"));
    rl_error_prefix(err, "%s, statement %u of %u (line %u, `%.100s`): ", r->file->name, step,
                    r->file->steps, statement->line, r->title);
}

/* How it ended, with the error, into the history. LOST in place of `status` where another migrator
 * has taken over: that is why. */
static rowlock_status note_end(run *r, rowlock_status status, rowlock_error *err)
{
    rowlock_error spare;
    rl_copy_label(r->trouble, sizeof r->trouble, err->message);
    if (rl_ledger_note(r->a->site, &r->row, &spare) == ROWLOCK_LOST)
        return rl_site_lost(r->a->site, err);
    return status;
}

/* It failed, and the server said so: it has not taken effect, but for what it has committed. */
static rowlock_status note_failure(run *r, const rl_statement *statement, unsigned step,
                                   rowlock_status status, rowlock_error *err)
{
    r->row.running = rl_commits_in_parts(statement) ? step : 0;
    return note_end(r, status, err);
}

/* LOST where that is why it was stopped. */
static rowlock_status why_stopped(const run *r, rowlock_status status, rowlock_error *err)
{
    rowlock_error spare;
    if (still_ours(r->a, &spare) == ROWLOCK_LOST)
        return rl_site_lost(r->a->site, err);
    if (status == ROWLOCK_CANCELLED)
        return rl_fail(err, ROWLOCK_CANCELLED, "cancelled");
    return status;
}

/* As a whole, or not: a command that was cut would be another one. */
static void append(rowlock_error *err, const char *words)
{
    size_t n = strlen(err->message);
    if (n + strlen(words) < sizeof err->message)
        memcpy(err->message + n, words, strlen(words) + 1);
}

static void say_outcome(const run *r, const char *outcome, rowlock_error *err)
{
    append(err, "; ");
    append(err, r->row.whole ? "nothing of the file took effect" : outcome);
}

static void say_status(const run *r, rowlock_error *err)
{
    char command[RL_ADVICE_SIZE];
    append(err, "; see ");
    append(err, rl_advise(r->a->site->advice, command, sizeof command, "status"));
}

/* Behind the server's words, where it has answered. */
static void say_next(const run *r, const rl_statement *statement, bool stopped, rowlock_error *err)
{
    char next[100];
    if (r->row.whole) {
        say_outcome(r, "", err);
    } else if (rl_commits_in_parts(statement) && !r->file->resumable) {
        say_outcome(r, "what it did before that may have taken effect", err);
        say_status(r, err);
    } else if (stopped) {
        say_outcome(r, "the statement was stopped; the next run goes on with it", err);
    } else if (err->server_errno != LOCK_WAIT_ENDED) {
        int length = snprintf(next, sizeof next, "mend it and run again");
        if (r->row.done > 0)
            snprintf(next + length, sizeof next - (size_t)length,
                     ", which goes on behind statement %u", r->row.done);
        say_outcome(r, next, err);
    }
}

/* Its connection ends, and with it the transaction that it was in, if it was in one. */
static rowlock_status failed(run *r, const rl_statement *statement, unsigned step,
                             rowlock_status status, rowlock_error *err)
{
    const bool stopped = status == ROWLOCK_CANCELLED;
    const bool known = answered(err);
    close_work(r);
    if (!known && !stopped)
        status = rl_fail(err, ROWLOCK_UNKNOWN, "the connection was lost");
    if (!known || stopped)
        status = why_stopped(r, status, err);
    status = known ? note_failure(r, statement, step, status, err) : note_end(r, status, err);
    say_where(r, statement, step, err);
    if (!known)
        say_outcome(r,
                    r->lingers ? "the server may still be at work on it"
                               : "it was stopped, and whether it took effect is not known",
                    err);
    if (!known && !r->row.whole)
        say_status(r, err);
    else if (known && status != ROWLOCK_LOST)
        say_next(r, statement, stopped, err);
    return status;
}

static rowlock_status committed_early(run *r, const rl_statement *statement, unsigned step,
                                      rowlock_error *err)
{
    r->row.whole = false;
    r->row.done = step;
    r->row.running = 0;
    rl_sha256_hex(&r->sum, r->row.done_checksum);
    rl_fail(err, ROWLOCK_INVALID,
            "it ended the transaction that the file asks for; what was before it took effect");
    rowlock_status status = note_failure(r, statement, step, ROWLOCK_INVALID, err);
    say_where(r, statement, step, err);
    return status;
}

/* What was before it is as noted, and it itself has done nothing. */
static rowlock_status not_sent(run *r, const rl_statement *statement, unsigned step,
                               rowlock_status status, rowlock_error *err)
{
    close_work(r);
    if (status == ROWLOCK_UNKNOWN)
        status = rl_fail(err, ROWLOCK_UNAVAILABLE, "the connection was lost before it was sent");
    r->row.running = 0;
    status = note_end(r, status, err);
    say_where(r, statement, step, err);
    return status;
}

/* Runs it and keeps account. */
static rowlock_status run_step(run *r, const rl_statement *statement, unsigned step,
                               rowlock_error *err)
{
    rowlock_status status = announce(r, statement, step, err);
    if (status != ROWLOCK_OK)
        return not_sent(r, statement, step, status, err);
    rl_io io = work_io(r->a);
    status =
        rl_conn_run_foreign(r->conn, "migration", statement->text, statement->length, &io, err);
    if (status != ROWLOCK_OK)
        return failed(r, statement, step, status, err);
    rl_done_add(&r->sum, statement);
    bool open = rl_in_transaction(r->conn->mysql);
    if (r->row.whole && !open)
        return committed_early(r, statement, step, err);
    if (!open) {
        r->row.done = step;
        rl_sha256_hex(&r->sum, r->row.done_checksum);
    }
    return ROWLOCK_OK;
}

/* One that took effect in an earlier run; what it said to its session is said again. */
static rowlock_status pass_step(run *r, const rl_statement *statement, unsigned step,
                                rowlock_error *err)
{
    rl_done_add(&r->sum, statement);
    if (!rl_is_of_session(statement))
        return ROWLOCK_OK;
    rl_io io = work_io(r->a);
    rl_statement_title(statement, r->title, sizeof r->title);
    rowlock_status status =
        rl_conn_run_foreign(r->conn, "migration", statement->text, statement->length, &io, err);
    if (status == ROWLOCK_CANCELLED)
        status = why_stopped(r, status, err);
    return status == ROWLOCK_OK ? status : not_sent(r, statement, step, status, err);
}

static rowlock_status run_steps(run *r, rowlock_error *err)
{
    rl_statement statement;
    rl_script script = rl_file_script(r->file);
    rowlock_status status = ROWLOCK_OK;
    for (unsigned step = 1; status == ROWLOCK_OK && rl_script_next(&script, &statement); step++) {
        if (step <= r->first)
            status = pass_step(r, &statement, step, err);
        else
            status = run_step(r, &statement, step, err);
    }
    return status;
}

/* ---------------------------------------------------------------------------- a file */

static rowlock_status left_open(run *r, rowlock_error *err)
{
    rl_fail(err, ROWLOCK_INVALID,
            "%s ends in a transaction: what is behind its statement %u was rolled back; "
            "put a COMMIT at its end",
            r->file->name, r->row.done);
    close_work(r);
    r->row.running = 0;
    return note_end(r, ROWLOCK_INVALID, err);
}

static void set_applied(run *r)
{
    r->row.applied = true;
    r->row.running = 0;
    r->row.done = r->file->steps;
    r->row.decided = false;
    r->trouble[0] = r->title[0] = '\0';
    rl_sha256_hex(&r->sum, r->row.done_checksum);
    r->row.duration_ms = (uint64_t)(rl_now_us() - r->started_us) / 1000;
}

/* A lost reply to the COMMIT: the connection has ended, so the row says it. */
static rowlock_status look_whole(run *r, rowlock_error *err)
{
    rl_ledger ledger;
    close_work(r);
    if (r->lingers) {
        rl_fail(err, ROWLOCK_UNKNOWN, "%s: the reply to its COMMIT was lost", r->file->name);
        say_status(r, err);
        return ROWLOCK_UNKNOWN;
    }
    bool applied = false;
    rowlock_status status = rl_ledger_read(r->a->site, &ledger, err);
    for (size_t i = 0; status == ROWLOCK_OK && i < ledger.count; i++)
        applied =
            applied || (ledger.records[i].version == r->file->version && ledger.records[i].applied);
    rl_ledger_free(&ledger);
    if (status == ROWLOCK_OK && !applied)
        status = rl_fail(err, ROWLOCK_UNAVAILABLE,
                         "%s: the connection was lost; nothing of it took effect", r->file->name);
    return status;
}

/* The server undid it all, for a deadlock as it says: also where another migrator's write into the
 * guard's row, which the record's has read, was what it met. `status`, LOST, or that the history
 * cannot be asked any more. */
static rowlock_status why_undone(run *r, rowlock_status status, rowlock_error *err)
{
    rowlock_error asking = {0};
    const uint64_t id = r->conn->id;
    close_work(r);
    status = why_stopped(r, status, err);
    if (status != ROWLOCK_DEADLOCK)
        return status;
    /* It compares the token under the row's lock: who has written before us has committed. */
    rowlock_status asked = rl_guard_register(r->a->site, r->lingers ? id : 0, &asking);
    if (asked == ROWLOCK_LOST)
        return rl_site_lost(r->a->site, err);
    if (asked != ROWLOCK_OK)
        *err = asking;
    return asked == ROWLOCK_OK ? status : asked;
}

/* The record commits with the rows, and only under our token. */
static rowlock_status commit_whole(run *r, rowlock_error *err)
{
    rl_io io = short_io();
    set_applied(r);
    rowlock_status status = rl_ledger_note_on(r->a->site, r->conn, &io, &r->row, err);
    if (status == ROWLOCK_OK)
        status = still_ours(r->a, err);
    if (status == ROWLOCK_OK) {
        status = rl_run_text(r->conn, RL_SQL_LEDGER_COMMIT, NULL, &io, err);
        if (status == ROWLOCK_UNKNOWN || status == ROWLOCK_TIMEOUT)
            return look_whole(r, err);
    }
    if (status != ROWLOCK_OK) {
        status = why_undone(r, status, err);
        rl_error_prefix(err, "%s, nothing of it took effect: ", r->file->name);
    }
    return status;
}

static rowlock_status finish(run *r, rowlock_error *err)
{
    if (r->row.whole)
        return commit_whole(r, err);
    if (rl_in_transaction(r->conn->mysql))
        return left_open(r, err);
    set_applied(r);
    return note(r, err);
}

static run begin_run(rl_applying *a, const rl_entry *entry)
{
    const rl_record *record = entry->record;
    run r = {.a = a, .file = entry->file, .sum = rl_sha256_begin(), .started_us = rl_now_us()};
    r.row.version = entry->version;
    r.row.steps = entry->file->steps;
    r.row.whole = entry->file->whole;
    snprintf(r.row.checksum, sizeof r.row.checksum, "%s", entry->file->checksum);
    if (!record || record->whole)
        return r;
    /* Part of it took effect, so it is no transaction any more. */
    r.row.whole = r.row.whole && record->done == 0;
    r.row.done = r.first = record->done;
    r.row.decided = record->decided;
    snprintf(r.row.done_checksum, sizeof r.row.done_checksum, "%s", record->done_checksum);
    return r;
}

rowlock_status rl_apply_entry(rl_applying *a, const rl_entry *entry, rowlock_error *err)
{
    rowlock_status status;
    rowlock_error spare;
    run r = begin_run(a, entry);
    r.row.statement = r.title;
    r.row.error = r.trouble;
    err = rl_error_or(err, &spare);
    a->file++;
    status = open_work(&r, err);
    if (status == ROWLOCK_OK && !entry->record)
        status = rl_ledger_begin(a->site, entry->version, entry->file->name, err);
    if (status == ROWLOCK_OK && r.row.whole)
        status = begin_whole(&r, err);
    if (status == ROWLOCK_OK)
        status = run_steps(&r, err);
    if (status == ROWLOCK_OK)
        status = finish(&r, err);
    close_work(&r);
    if (!r.lingers)
        (void)rl_guard_register(a->site, 0, NULL);
    if (status == ROWLOCK_OK)
        tell(a, &(rowlock_migrations_progress){.event = ROWLOCK_MIGRATIONS_APPLIED,
                                               .name = entry->file->name,
                                               .version = entry->version,
                                               .step = r.row.steps,
                                               .steps = r.row.steps,
                                               .elapsed_ms = (int64_t)r.row.duration_ms});
    return status;
}

rowlock_status rl_apply_check_sizes(const rl_site *site, const rl_plan *plan, rowlock_error *err)
{
    for (size_t i = 0; i < plan->count; i++) {
        const rl_file *file = plan->entries[i].file;
        if (plan->entries[i].wanted && file->longest >= site->packet)
            return rl_fail(err, ROWLOCK_INVALID,
                           "%s, line %u: the statement has %zu bytes, more than the server takes "
                           "(max_allowed_packet is %" PRIu64 ")",
                           file->name, file->longest_line, file->longest, site->packet);
    }
    return ROWLOCK_OK;
}

/* On a connection that is closed again: a history that begins a file which cannot run would refuse
 * every folder without it. */
rowlock_status rl_apply_check_modes(rl_site *site, const rl_plan *plan, rowlock_error *err)
{
    rl_io io = short_io();
    rl_conn *conn = NULL;
    rowlock_error spare;
    rowlock_status status = ROWLOCK_OK;
    err = rl_error_or(err, &spare);
    for (size_t i = 0; status == ROWLOCK_OK && i < plan->count; i++) {
        const rl_file *file = plan->entries[i].file;
        if (!plan->entries[i].wanted || !file->sql_mode)
            continue;
        if (!conn)
            status = rl_pool_take(&site->pool, &(rl_request){.purpose = RL_HOLD}, &io, &conn, err);
        if (status == ROWLOCK_OK)
            status = set_mode(conn, file, err);
    }
    if (conn)
        rl_conn_close(conn);
    return status;
}
