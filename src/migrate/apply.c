/*
 * Applying. What keeps a statement of a migrator that was taken over from starting:
 *
 *   1. Whoever has the lock writes its token into the guard (rl_guard_enter); from then on no write
 *      of an older one succeeds.
 *   2. It ends the connection that the one before has registered there, and waits until the server
 *      knows no such connection and the marker, a named lock of it, is free: the server has undone
 *      its statement then. (A file may release all its locks, the marker with them.)
 *   3. It opens its own connection, registers it (its token is compared), and takes the marker.
 *      (2 and 3: work.c.)
 *   4. Before each statement it notes which one, comparing the token; then it sends it. (In a file
 *      that is one transaction, before its first and with its COMMIT: begin_whole().)
 *
 * One that was stopped before its note finds another token. One that was stopped between its note
 * and its statement had registered its connection before, which step 2 has ended: the statement
 * goes nowhere.
 */
#include "migrate/apply.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "migrate/work.h"

#define BULK_NOTE_US    500000
#define TITLE_SIZE      200
#define TROUBLE_SIZE    600
#define CLIENT_LOST     2013
#define CLIENT_GONE     2006
#define WAS_KILLED      1927
#define LOCK_WAIT_ENDED 1205

/* One file at work. */
typedef struct run {
    const rl_applying *a;
    const rl_file *file;
    rl_work work;
    rl_record row;          /* as noted last */
    rl_statement statement; /* at work */
    unsigned step;          /* its number */
    unsigned first;         /* statements that had taken effect before */
    rl_sha256 sum;          /* of all statements so far */
    int64_t noted_us;
} run;

/* ------------------------------------------------------------------------- the history */

static rowlock_status note(run *r, rowlock_error *err)
{
    r->noted_us = rl_now_us();
    return rl_ledger_note(r->a->site, NULL, &r->row, err);
}

/* From here to its end nobody else writes the file's row: where a transaction may not write what
 * was changed behind its snapshot (innodb_snapshot_isolation), it could not commit it. And the
 * statement is prepared before the file may say USE, which would lead it to another history. */
static rowlock_status begin_whole(run *r, rowlock_error *err)
{
    rl_io io = rl_ledger_io();
    r->work.conn->table = r->a->site->table;
    RL_TRY(rl_prepare(r->work.conn, RL_SQL_LEDGER_NOTE, &io, err));
    RL_TRY(note(r, err));
    return rl_run_text(r->work.conn, RL_SQL_BEGIN, NULL, &io, err);
}

/* So many statements have taken effect for good. */
static void count_done(run *r, unsigned done)
{
    r->row.done = done;
    r->row.running = 0;
    rl_sha256_hex(&r->sum, r->row.done_checksum);
}

/* LOST where that is why it was stopped. */
static rowlock_status why_stopped(const run *r, rowlock_status status, rowlock_error *err)
{
    rowlock_error spare;
    if (rl_still_ours(r->a, &spare) == ROWLOCK_LOST)
        return rl_site_lost(r->a->site, err);
    if (status == ROWLOCK_CANCELLED)
        return rl_fail(err, ROWLOCK_CANCELLED, "cancelled");
    return status;
}

/* The file ends here: its connection, with the transaction that it was in, and how, in the history.
 * LOST in place of `status` where another migrator has taken over: that is why. */
static rowlock_status end_early(run *r, unsigned running, rowlock_status status, rowlock_error *err)
{
    rowlock_error spare;
    rl_work_close(&r->work);
    r->row.running = running;
    rl_copy_label(r->row.error, TROUBLE_SIZE, err->message);
    if (note(r, &spare) == ROWLOCK_LOST && status != ROWLOCK_LOST)
        return rl_site_lost(r->a->site, err);
    return status;
}

/* ---------------------------------------------------------------------------- in words */

/* Has the server said how the statement ended? */
static bool answered(const rowlock_error *err)
{
    return err->server_errno != 0 && err->server_errno != CLIENT_LOST &&
           err->server_errno != CLIENT_GONE && err->server_errno != WAS_KILLED;
}

/* What stands before the server's words. */
static void say_where(const run *r, rowlock_error *err)
{
    char command[RL_ADVICE_SIZE / 2];
    if (err->server_errno == LOCK_WAIT_ENDED)
        rl_error_prefix(
            err,
            "a transaction uses the table or the row (%s says whose); run again "
            "when it has ended: ",
            rl_advise_verb(r->a->site->advice, command, sizeof command, "doctor", false));
    rl_error_prefix(err, "%s, statement %u of %u (line %u, `%.100s`): ", r->file->name, r->step,
                    r->file->steps, r->statement.line, r->row.statement);
}

/* As a whole, or not: a command that was cut would be another one. */
static void append(rowlock_error *err, const char *before, const char *words)
{
    size_t n = strlen(err->message);
    if (n + strlen(before) + strlen(words) < sizeof err->message)
        snprintf(err->message + n, sizeof err->message - n, "%s%s", before, words);
}

static void say_status(const run *r, rowlock_error *err)
{
    char command[RL_ADVICE_SIZE];
    append(err, "; see ", rl_advise(r->a->site->advice, command, sizeof command, "status"));
}

/* Behind the server's words. `known`: they are the answer to the statement. */
static void say_outcome(const run *r, bool known, bool stopped, rowlock_error *err)
{
    char next[100];
    bool look = false;
    const char *outcome = next;
    int length = snprintf(next, sizeof next, "mend it and run again");
    if (r->row.done > 0)
        snprintf(next + length, sizeof next - (size_t)length, ", which goes on behind statement %u",
                 r->row.done);
    if (r->row.whole) {
        outcome = "nothing of the file took effect";
    } else if (!known) {
        outcome = r->work.lingers ? "the server may still be at work on it"
                                  : "it was stopped, and whether it took effect is not known";
        look = true;
    } else if (rl_commits_in_parts(&r->statement) && !r->file->resumable) {
        outcome = "what it did before that may have taken effect";
        look = true;
    } else if (stopped) {
        outcome = "the statement was stopped; the next run goes on with it";
    } else if (err->server_errno == LOCK_WAIT_ENDED) {
        return;
    }
    append(err, "; ", outcome);
    if (look)
        say_status(r, err);
}

/* --------------------------------------------------------------------- one statement */

/* In a transaction nothing takes effect before its COMMIT, which is noted: rows by the thousand
 * need not be. */
static bool is_bulk(const run *r)
{
    /* Words, not run. */
    static const char *const words[] = {"INSERT", "UPDATE", "DELETE", "REPLACE", NULL};
    return rl_in_transaction(r->work.conn->mysql) && rl_now_us() - r->noted_us <= BULK_NOTE_US &&
           rl_statement_is_one_of(&r->statement, words);
}

static rowlock_status announce(run *r, rowlock_error *err)
{
    bool got = false;
    r->row.running = r->row.whole ? 0 : r->step;
    rl_tell(r->a, &(rowlock_migrations_progress){.event = ROWLOCK_MIGRATIONS_STATEMENT,
                                                 .name = r->file->name,
                                                 .version = r->file->version,
                                                 .statement = r->row.statement,
                                                 .step = r->step,
                                                 .steps = r->file->steps});
    RL_TRY(rl_still_ours(r->a, err));
    if (is_bulk(r))
        return ROWLOCK_OK;
    RL_TRY(rl_work_mark(&r->work, &got, err));
    if (!got)
        return rl_fail(err, ROWLOCK_LOST, "another migrator has taken over");
    if (!r->row.whole)
        RL_TRY(note(r, err));
    return rl_still_ours(r->a, err);
}

static rowlock_status send_statement(run *r, rowlock_error *err)
{
    const rl_budget endless = rl_budget_start(-1, 0, r->a->budget.cancel);
    rl_io io = rl_budget_lock_io(&endless);
    return rl_conn_run_foreign(r->work.conn, "migration", r->statement.text, r->statement.length,
                               &io, err);
}

/* What was before it is as noted, and it itself has done nothing. */
static rowlock_status not_sent(run *r, rowlock_status status, rowlock_error *err)
{
    if (status == ROWLOCK_UNKNOWN)
        status = rl_fail(err, ROWLOCK_UNAVAILABLE, "the connection was lost before it was sent");
    status = end_early(r, 0, status, err);
    say_where(r, err);
    return status;
}

/* Where the server said so, it has not taken effect, but for what it has committed. */
static rowlock_status failed(run *r, rowlock_status status, rowlock_error *err)
{
    const bool stopped = status == ROWLOCK_CANCELLED;
    const bool known = answered(err);
    unsigned running = r->row.running;
    rl_work_close(&r->work);
    if (!known && !stopped)
        status = rl_fail(err, ROWLOCK_UNKNOWN, "the connection was lost");
    if (!known || stopped)
        status = why_stopped(r, status, err);
    if (known)
        running = rl_commits_in_parts(&r->statement) ? r->step : 0;
    status = end_early(r, running, status, err);
    say_where(r, err);
    if (!known || status != ROWLOCK_LOST)
        say_outcome(r, known, stopped, err);
    return status;
}

static rowlock_status committed_early(run *r, rowlock_error *err)
{
    r->row.whole = false;
    count_done(r, r->step);
    rl_fail(err, ROWLOCK_INVALID,
            "it ended the transaction that the file asks for; what was before it took effect");
    rowlock_status status = end_early(r, 0, ROWLOCK_INVALID, err);
    say_where(r, err);
    return status;
}

/* Runs it and keeps account. */
static rowlock_status run_step(run *r, rowlock_error *err)
{
    rowlock_status status = announce(r, err);
    if (status != ROWLOCK_OK)
        return not_sent(r, status, err);
    status = send_statement(r, err);
    if (status != ROWLOCK_OK)
        return failed(r, status, err);
    if (rl_in_transaction(r->work.conn->mysql))
        return ROWLOCK_OK;
    if (r->row.whole)
        return committed_early(r, err);
    count_done(r, r->step);
    return ROWLOCK_OK;
}

/* One that took effect in an earlier run; what it said to its session is said again. */
static rowlock_status pass_step(run *r, rowlock_error *err)
{
    if (!rl_is_of_session(&r->statement))
        return ROWLOCK_OK;
    rowlock_status status = send_statement(r, err);
    if (status == ROWLOCK_CANCELLED)
        status = why_stopped(r, status, err);
    return status == ROWLOCK_OK ? status : not_sent(r, status, err);
}

static rowlock_status run_steps(run *r, rowlock_error *err)
{
    rl_script script = rl_file_script(r->file);
    for (r->step = 1; rl_script_next(&script, &r->statement); r->step++) {
        rl_done_add(&r->sum, &r->statement);
        rl_statement_title(&r->statement, r->row.statement, TITLE_SIZE);
        RL_TRY(r->step <= r->first ? pass_step(r, err) : run_step(r, err));
    }
    return ROWLOCK_OK;
}

/* ---------------------------------------------------------------------------- a file */

static void set_applied(run *r)
{
    count_done(r, r->file->steps);
    r->row.applied = true;
    r->row.decided = false;
    r->row.error[0] = r->row.statement[0] = '\0';
    r->row.duration_ms = (uint64_t)(rl_now_us() - r->work.started_us) / 1000;
}

/* A lost reply to the COMMIT: the connection has ended, so the row says it. */
static rowlock_status look_whole(run *r, rowlock_error *err)
{
    RL_CLEANUP(rl_ledger_free) rl_ledger ledger = {0};
    rl_work_close(&r->work);
    if (r->work.lingers) {
        rl_fail(err, ROWLOCK_UNKNOWN, "%s: the reply to its COMMIT was lost", r->file->name);
        say_status(r, err);
        return ROWLOCK_UNKNOWN;
    }
    RL_TRY(rl_ledger_read(r->a->site, &ledger, err));
    for (size_t i = 0; i < ledger.count; i++)
        if (ledger.records[i].version == r->file->version && ledger.records[i].applied)
            return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNAVAILABLE,
                   "%s: the connection was lost; nothing of it took effect", r->file->name);
}

/* The record goes into the transaction, and only under our token. */
static rowlock_status note_applied(run *r, rowlock_error *err)
{
    set_applied(r);
    RL_TRY(rl_ledger_note(r->a->site, r->work.conn, &r->row, err));
    return rl_still_ours(r->a, err);
}

/* It commits with the rows. Where the server has undone it all for a deadlock, another migrator's
 * write into the guard's row may be what it met: end_early() finds that out. */
static rowlock_status commit_whole(run *r, rowlock_error *err)
{
    const rl_record begun = r->row;
    rl_io io = rl_ledger_io();
    rowlock_status status = note_applied(r, err);
    if (status == ROWLOCK_OK) {
        status = rl_run_text(r->work.conn, RL_SQL_LEDGER_COMMIT, NULL, &io, err);
        if (status == ROWLOCK_UNKNOWN || status == ROWLOCK_TIMEOUT)
            return look_whole(r, err);
    }
    if (status == ROWLOCK_OK)
        return ROWLOCK_OK;
    r->row = begun;
    rl_work_close(&r->work);
    status = end_early(r, 0, why_stopped(r, status, err), err);
    rl_error_prefix(err, "%s, nothing of it took effect: ", r->file->name);
    return status;
}

static rowlock_status finish(run *r, rowlock_error *err)
{
    if (r->row.whole)
        return commit_whole(r, err);
    if (!rl_in_transaction(r->work.conn->mysql)) {
        set_applied(r);
        return note(r, err);
    }
    rl_fail(err, ROWLOCK_INVALID,
            "%s ends in a transaction: what is behind its statement %u was rolled back; "
            "put a COMMIT at its end",
            r->file->name, r->row.done);
    return end_early(r, 0, ROWLOCK_INVALID, err);
}

static run begin_run(rl_applying *a, const rl_entry *entry)
{
    const rl_record *record = entry->record;
    run r = {.a = a,
             .file = entry->file,
             .work = {.a = a, .file = entry->file, .started_us = rl_now_us()},
             .sum = rl_sha256_begin()};
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

static rowlock_status run_file(run *r, bool is_new, rowlock_error *err)
{
    RL_TRY(rl_work_open(&r->work, err));
    if (is_new)
        RL_TRY(rl_ledger_begin(r->a->site, r->file->version, r->file->name, err));
    if (r->row.whole)
        RL_TRY(begin_whole(r, err));
    RL_TRY(run_steps(r, err));
    return finish(r, err);
}

rowlock_status rl_apply_entry(rl_applying *a, const rl_entry *entry, rowlock_error *err)
{
    rowlock_error spare;
    run r = begin_run(a, entry);
    a->file++;
    rowlock_status status = run_file(&r, !entry->record, rl_error_or(err, &spare));
    rl_work_close(&r.work);
    if (!r.work.lingers)
        (void)rl_guard_register(a->site, 0, NULL);
    if (status == ROWLOCK_OK)
        rl_tell(a, &(rowlock_migrations_progress){.event = ROWLOCK_MIGRATIONS_APPLIED,
                                                  .name = entry->file->name,
                                                  .version = entry->version,
                                                  .step = r.row.steps,
                                                  .steps = r.row.steps,
                                                  .elapsed_ms = (int64_t)r.row.duration_ms});
    return status;
}
