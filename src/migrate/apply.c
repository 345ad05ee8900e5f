/*
 * Applying. A migrator that was taken over starts no statement any more, since the next one does
 * this:
 *
 *   1. The new holder of the lock writes its token into the guard (rl_guard_enter); from then on no
 *      write with an older token succeeds.
 *   2. It ends the connection that the last migrator has registered there, and waits until the
 *      server knows no such connection and the marker, a named lock of it, is free: the server has
 *      undone its statement then. (The marker alone proves nothing: a file may release all locks.)
 *   3. It opens its own connection, registers it (its token is compared), and takes the marker.
 *      (2 and 3: work.c.)
 *   4. Before it sends a statement, it notes in the history which one, if the token is still its
 *      own. (In a file that is one transaction it does so before the first statement and with the
 *      COMMIT: begin_whole().)
 *
 * A migrator that was stopped before its note finds another token. One that was stopped between its
 * note and its statement had registered its connection, which step 2 has ended: the statement does
 * not reach the server.
 *
 * In a transaction of the file's own nothing counts before the server has committed it: for COMMIT,
 * but also before an ALTER TABLE, or a second START TRANSACTION.
 */
#include "migrate/apply.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "db/errors.h"

#define BULK_NOTE_US    500000
#define TITLE_SIZE      200
#define TROUBLE_SIZE    600
#define LOCK_WAIT_ENDED 1205

/* ------------------------------------------------------------------------- the history */

static rowlock_status note(rl_work *w, rowlock_error *err)
{
    w->noted_us = rl_now_us();
    return rl_ledger_note(w->site, NULL, &w->row, err);
}

/* Writes the file's row before the transaction begins; until it ends nobody else writes that row,
 * since with innodb_snapshot_isolation the transaction could not write it then. The statement for
 * that is prepared now, before a USE in the file leads it to another history. */
static rowlock_status begin_whole(rl_work *w, rowlock_error *err)
{
    rl_io io = rl_ledger_io();
    w->conn->session.table = w->site->table;
    RL_TRY(rl_prepare(w->conn, RL_SQL_LEDGER_NOTE, &io, err));
    RL_TRY(note(w, err));
    return rl_run_text(w->conn, RL_SQL_BEGIN, NULL, &io, err);
}

/* Notes how many statements have taken effect for good. */
static void count_done(rl_work *w, unsigned done)
{
    w->row.done = done;
    w->row.running = 0;
    rl_sha256_hex(&w->sum, w->row.done_checksum);
}

/* The server has committed what is before the present statement. */
static void count_those_before(rl_work *w)
{
    w->row.done = w->step - 1;
    w->row.running = 0;
    w->row.decided = false;
    rl_done_checksum(w->file, w->row.done, w->row.done_checksum);
}

/* LOST if it was stopped because the lock was lost. */
static rowlock_status why_stopped(const rl_work *w, rowlock_status status, rowlock_error *err)
{
    rowlock_error spare;
    if (rl_still_ours(w->site, &spare) == ROWLOCK_LOST)
        return rl_site_lost(w->site, err);
    if (status == ROWLOCK_CANCELLED)
        return rl_fail(err, ROWLOCK_CANCELLED, "cancelled");
    return status;
}

/* Stops the file: ends its connection, with its transaction, and writes the reason into the
 * history. LOST in place of `status` if another migrator has taken over. */
static rowlock_status end_early(rl_work *w, unsigned running, rowlock_status status,
                                rowlock_error *err)
{
    rowlock_error spare;
    rl_work_close(w);
    w->row.running = running;
    rl_copy_label(w->row.error, TROUBLE_SIZE, err->message);
    if (note(w, &spare) == ROWLOCK_LOST && status != ROWLOCK_LOST)
        return rl_site_lost(w->site, err);
    return status;
}

/* ---------------------------------------------------------------------------- messages */

/* The server has answered how the statement ended. (2000 to 2999, and 5000 to 5999, are
 * Connector/C's own errors: for a SIGNAL with such a number it reports 2027.) */
static bool answered(const rl_work *w, const rowlock_error *err)
{
    const unsigned number = err->server_errno;
    const bool is_own = number / 1000 == 2 || number / 1000 == 5;
    return number != 0 && !is_own && rl_server_status(number, w->conn->flavour) != ROWLOCK_UNKNOWN;
}

/* Puts file and statement before the server's message. */
static void say_where(const rl_work *w, rowlock_error *err)
{
    if (err->server_errno == LOCK_WAIT_ENDED)
        rl_error_prefix(err, "a transaction uses the table or the row (`rowlock doctor` says "
                             "whose); run again when it has ended: ");
    rl_error_prefix(err, "%s, statement %u of %u (line %u, `%.100s`): ", w->file->name, w->step,
                    w->file->steps, w->statement.line, w->row.statement);
}

#define SEE_STATUS "; see `rowlock migrate status`"

/* Appends the outcome to the server's message. `known`: the message is the answer to the
 * statement. */
static void say_outcome(const rl_work *w, bool known, bool stopped, rowlock_error *err)
{
    char next[100];
    const char *outcome = next;
    int length = snprintf(next, sizeof next, "mend it and run again");
    if (w->row.done > 0)
        snprintf(next + length, sizeof next - (size_t)length, ", which goes on behind statement %u",
                 w->row.done);
    if (w->row.whole)
        outcome = "nothing of the file took effect";
    else if (!known)
        outcome = w->lingers ? "the server may still be at work on it" SEE_STATUS
                             : "it was stopped, and whether it took effect is not known" SEE_STATUS;
    else if (rl_commits_in_parts(&w->statement) && !w->file->resumable)
        outcome = "what it did before that may have taken effect" SEE_STATUS;
    else if (w->row.running > 0 && !w->file->resumable)
        outcome = "what is before it in its transaction may have taken effect" SEE_STATUS;
    else if (stopped)
        outcome = "the statement was stopped; the next run goes on with it";
    else if (err->server_errno == LOCK_WAIT_ENDED)
        return;
    size_t n = strlen(err->message);
    snprintf(err->message + n, sizeof err->message - n, "; %s", outcome);
}

/* --------------------------------------------------------------------- one statement */

/* A statement that need not be noted: in a transaction nothing takes effect before the COMMIT,
 * which is noted. That saves time for files with thousands of INSERTs. */
static bool is_bulk(const rl_work *w)
{
    return rl_in_transaction(w->conn->mysql) && rl_now_us() - w->noted_us <= BULK_NOTE_US &&
           rl_statement_is_one_of(&w->statement, "INSERT UPDATE DELETE REPLACE");
}

static rowlock_status keep_mark(const rl_work *w, rowlock_error *err)
{
    bool got = false;
    RL_TRY(rl_work_mark(w, &got, err));
    return got ? ROWLOCK_OK : rl_fail(err, ROWLOCK_LOST, "another migrator has taken over");
}

static rowlock_status announce(rl_work *w, rowlock_error *err)
{
    w->row.running = w->row.whole ? 0 : w->step;
    rl_tell(w->site, &(rowlock_migrations_progress){.event = ROWLOCK_MIGRATIONS_STATEMENT,
                                                    .name = w->file->name,
                                                    .version = w->file->version,
                                                    .statement = w->row.statement,
                                                    .step = w->step,
                                                    .steps = w->file->steps});
    RL_TRY(rl_still_ours(w->site, err));
    if (is_bulk(w))
        return ROWLOCK_OK;
    /* Else it would read of the marker's statement in place of the file's. */
    if (!rl_reads_result(&w->statement))
        RL_TRY(keep_mark(w, err));
    if (!w->row.whole)
        RL_TRY(note(w, err));
    return rl_still_ours(w->site, err);
}

static rowlock_status send_statement(rl_work *w, rowlock_error *err)
{
    const rl_budget endless = rl_budget_start(-1, 0, w->site->budget.cancel);
    rl_io io = rl_budget_lock_io(&endless);
    return rl_conn_run_foreign(w->conn, "migration", w->statement.text, w->statement.length, &io,
                               err);
}

/* The statement has had no effect; what is noted of those before it is right. */
static rowlock_status not_sent(rl_work *w, rowlock_status status, rowlock_error *err)
{
    if (status == ROWLOCK_UNKNOWN)
        status = rl_fail(err, ROWLOCK_UNAVAILABLE, "the connection was lost before it was sent");
    status = end_early(w, 0, status, err);
    say_where(w, err);
    return status;
}

/* Of these errors the transaction may have been undone, and not committed: a deadlock (in a
 * cluster, with another node's commit), an error of the commit itself, and a server that takes no
 * writes any more. */
static bool may_be_undone(const rl_work *w, const rowlock_error *err)
{
    const rowlock_status status = rl_server_status(err->server_errno, w->conn->flavour);
    return status == ROWLOCK_DEADLOCK || status == ROWLOCK_READONLY ||
           w->site->server.cluster != RL_ALONE;
}

/* By us, or by somebody else's KILL QUERY. */
static bool was_stopped(const rl_work *w, const rowlock_error *err)
{
    return w->conn->broken ||
           rl_server_status(err->server_errno, w->conn->flavour) == ROWLOCK_CANCELLED;
}

/*
 * The server has refused the statement, which has not taken effect, except for parts that it
 * committed itself; in a transaction of the file's own what is before it may have been committed
 * for it. An error says nothing of that (rl_in_transaction() is as before it): the next answer
 * does. Notes what was committed, and gives the number of a statement if that is not known.
 */
static unsigned settle_refused(rl_work *w, const rowlock_error *err)
{
    bool got = false;
    if (rl_commits_in_parts(&w->statement))
        return w->step;
    if (w->row.whole || !rl_in_transaction(w->conn->mysql) || !rl_ends_transaction(&w->statement))
        return 0;
    /* A COMMIT that was stopped may have taken effect all the same. */
    if (!rl_commits_before(&w->statement))
        return was_stopped(w, err) ? w->step : 0;
    if (w->conn->broken || rl_work_mark(w, &got, NULL) != ROWLOCK_OK)
        return w->step;
    if (rl_in_transaction(w->conn->mysql))
        return 0;
    if (may_be_undone(w, err))
        return w->step;
    count_those_before(w);
    return 0;
}

static rowlock_status failed(rl_work *w, rowlock_status status, rowlock_error *err)
{
    const bool stopped = status == ROWLOCK_CANCELLED;
    const bool known = answered(w, err);
    unsigned running = known ? settle_refused(w, err) : w->row.running;
    rl_work_close(w);
    /* A syntax error, for one, quotes the statement. */
    if (known && rl_statement_has_secret(&w->statement))
        rl_fail_again(err, status,
                      "the server refused it (error %u; its words are left out, since the "
                      "statement may have a password)",
                      err->server_errno);
    if (!known && !stopped)
        status = rl_fail(err, ROWLOCK_UNKNOWN, "the connection was lost");
    if (!known || stopped)
        status = why_stopped(w, status, err);
    if (known && !stopped)
        status = err->status = ROWLOCK_FAILED;
    status = end_early(w, running, status, err);
    say_where(w, err);
    if (!known || status != ROWLOCK_LOST)
        say_outcome(w, known, stopped, err);
    return status;
}

static rowlock_status committed_early(rl_work *w, rowlock_error *err)
{
    w->row.whole = false;
    count_done(w, w->step);
    rl_fail(err, ROWLOCK_INVALID,
            "it ended the transaction that the file asks for; what was before it took effect");
    rowlock_status status = end_early(w, 0, ROWLOCK_INVALID, err);
    say_where(w, err);
    return status;
}

/* A transaction of the file's own has begun. If it was in another one, the next statement is noted
 * whatever it is, and the count of the last one's with it. */
static void begin_anew(rl_work *w)
{
    if (w->row.done == w->step - 1)
        return;
    count_those_before(w);
    w->noted_us = 0;
}

/* Notes the statement, runs it, and counts it. */
static rowlock_status run_step(rl_work *w, rowlock_error *err)
{
    rowlock_status status = announce(w, err);
    if (status != ROWLOCK_OK)
        return not_sent(w, status, err);
    status = send_statement(w, err);
    if (status != ROWLOCK_OK)
        return failed(w, status, err);
    if (rl_in_transaction(w->conn->mysql)) {
        if (!w->row.whole && rl_begins_anew(&w->statement))
            begin_anew(w);
        return ROWLOCK_OK;
    }
    if (w->row.whole)
        return committed_early(w, err);
    count_done(w, w->step);
    w->row.decided = false; /* that was about the statements before this one */
    return ROWLOCK_OK;
}

/* Leaves out a statement that took effect in an earlier run, unless it only changes its session:
 * then it is run in this session, too. */
static rowlock_status pass_step(rl_work *w, rowlock_error *err)
{
    if (!rl_is_of_session(&w->statement))
        return ROWLOCK_OK;
    rowlock_status status = send_statement(w, err);
    if (status == ROWLOCK_CANCELLED)
        status = why_stopped(w, status, err);
    return status == ROWLOCK_OK ? status : not_sent(w, status, err);
}

static rowlock_status run_steps(rl_work *w, rowlock_error *err)
{
    rl_script script = rl_file_script(w->file);
    for (w->step = 1; rl_script_next(&script, &w->statement); w->step++) {
        rl_done_add(&w->sum, &w->statement);
        rl_statement_title(&w->statement, w->row.statement, TITLE_SIZE);
        RL_TRY(w->step <= w->first ? pass_step(w, err) : run_step(w, err));
    }
    return ROWLOCK_OK;
}

/* ---------------------------------------------------------------------------- a file */

static void set_applied(rl_work *w)
{
    count_done(w, w->file->steps);
    w->row.applied = true;
    w->row.decided = false;
    w->row.error[0] = w->row.statement[0] = '\0';
    w->row.duration_ms = (uint64_t)(rl_now_us() - w->started_us) / 1000;
}

/* After a COMMIT without an OK: ends the connection, then reads from the file's row whether the
 * COMMIT took effect. */
static rowlock_status look_whole(rl_work *w, bool *applied, rowlock_error *err)
{
    RL_CLEANUP(rl_ledger_free) rl_ledger ledger = {0};
    rl_work_close(w);
    if (w->lingers || rl_ledger_read(w->site, &ledger, err) != ROWLOCK_OK)
        return rl_fail(err, ROWLOCK_UNKNOWN, "%s: the reply to its COMMIT was lost" SEE_STATUS,
                       w->file->name);
    for (size_t i = 0; i < ledger.count; i++)
        if (ledger.records[i].version == w->file->version)
            *applied = ledger.records[i].applied;
    return ROWLOCK_OK;
}

/* Writes the record in the file's transaction, if the token is ours. */
static rowlock_status note_applied(rl_work *w, rowlock_error *err)
{
    set_applied(w);
    RL_TRY(rl_ledger_note(w->site, w->conn, &w->row, err));
    return rl_still_ours(w->site, err);
}

/* Commits the record with the file's changes. A deadlock may have been with another migrator's
 * write into the guard's row: end_early() finds that out. */
static rowlock_status commit_whole(rl_work *w, rowlock_error *err)
{
    const rl_record begun = w->row;
    rl_io io = rl_ledger_io();
    rowlock_error looking;
    bool applied = false;
    rowlock_status status = note_applied(w, err);
    if (status == ROWLOCK_OK) {
        status = rl_run_text(w->conn, RL_SQL_LEDGER_COMMIT, NULL, &io, err);
        if (status == ROWLOCK_OK)
            return ROWLOCK_OK;
        rowlock_status looked = look_whole(w, &applied, &looking);
        if (looked != ROWLOCK_OK)
            *err = looking;
        if (looked != ROWLOCK_OK || applied)
            return looked;
    }
    w->row = begun;
    status = rl_no_effect(status == ROWLOCK_TIMEOUT ? ROWLOCK_UNKNOWN : status, err);
    rl_work_close(w);
    status = end_early(w, 0, why_stopped(w, status, err), err);
    rl_error_prefix(err, "%s, nothing of it took effect: ", w->file->name);
    return status;
}

static rowlock_status finish(rl_work *w, rowlock_error *err)
{
    if (w->row.whole)
        return commit_whole(w, err);
    if (!rl_in_transaction(w->conn->mysql)) {
        set_applied(w);
        return note(w, err);
    }
    rl_fail(err, ROWLOCK_INVALID,
            "%s ends in a transaction: what is behind its statement %u was rolled back; "
            "put a COMMIT at its end",
            w->file->name, w->row.done);
    return end_early(w, 0, ROWLOCK_INVALID, err);
}

static rl_work begin_run(rl_site *site, const rl_entry *entry)
{
    const rl_record *record = entry->record;
    rl_work w = {
        .site = site, .file = entry->file, .sum = rl_sha256_begin(), .started_us = rl_now_us()};
    w.row.version = entry->version;
    w.row.steps = entry->file->steps;
    w.row.whole = entry->file->whole;
    snprintf(w.row.checksum, sizeof w.row.checksum, "%s", entry->file->checksum);
    if (!record || record->whole || entry->anew)
        return w;
    /* If a part of the file took effect already, the rest is not run as a transaction. */
    w.row.whole = w.row.whole && record->done == 0;
    w.row.done = w.first = record->done;
    w.row.decided = record->decided;
    snprintf(w.row.done_checksum, sizeof w.row.done_checksum, "%s", record->done_checksum);
    return w;
}

static rowlock_status run_file(rl_work *w, bool is_new, rowlock_error *err)
{
    RL_TRY(rl_work_open(w, err));
    if (is_new)
        RL_TRY(rl_ledger_begin(w->site, w->file->version, w->file->name, err));
    if (w->row.whole)
        RL_TRY(begin_whole(w, err));
    RL_TRY(run_steps(w, err));
    return finish(w, err);
}

rowlock_status rl_apply_entry(rl_site *site, const rl_entry *entry, rowlock_error *err)
{
    rl_work w = begin_run(site, entry);
    site->file++;
    rowlock_status status = run_file(&w, !entry->record, err);
    rl_work_close(&w);
    if (!w.lingers)
        (void)rl_guard_register(site, 0, NULL);
    if (status == ROWLOCK_OK)
        rl_tell(site, &(rowlock_migrations_progress){.event = ROWLOCK_MIGRATIONS_APPLIED,
                                                     .name = entry->file->name,
                                                     .version = entry->version,
                                                     .step = w.row.steps,
                                                     .steps = w.row.steps,
                                                     .elapsed_ms = (int64_t)w.row.duration_ms});
    return status;
}
