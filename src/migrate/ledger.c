#include "migrate/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "stmt/session.h"

#define NO_SUCH_TABLE 1146
#define DUPLICATE_KEY 1062
#define PAUSE_US      20000
#define LIMIT_US      10000000

/* ------------------------------------------------------------------------ connecting */

/* A connection for the history: short statements of ours alone. */
static rowlock_status take_control(rl_site *site, const rl_io *io, rl_conn **conn,
                                   rowlock_error *err)
{
    RL_TRY(rl_pool_take(&site->pool, NULL, io, conn, err));
    (*conn)->session.table = site->table;
    return ROWLOCK_OK;
}

static rowlock_status check_server(const rl_server *server, bool single_writer, rowlock_error *err)
{
    const char *why = rl_server_why_no_bell(server, single_writer);
    RL_TRY(rl_server_check(server, err));
    if (!why)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNSUPPORTED,
                   "migrations need a server on which a dead migrator's connection can be ended, "
                   "and %s; connect to the server itself, or, where every migrator uses this one "
                   "node, say so (--single-writer)",
                   why);
}

static rowlock_status learn(rl_site *site, rl_conn *conn, bool single_writer, const rl_io *io,
                            rowlock_error *err)
{
    const rl_value values[] = {rl_text(site->table)};
    rl_rows rows;
    bool found = false;
    RL_TRY(check_server(&conn->server, single_writer, err));
    RL_TRY(rl_query_one(conn, RL_SQL_LEDGER_MARKER, values, io, &found, &rows, err));
    snprintf(site->marker, sizeof site->marker, "%s", rows.cells[0].text);
    site->packet = rows.cells[1].u64;
    site->no_backslashes = rows.cells[2].u64 != 0;
    site->ansi_quotes = rows.cells[3].u64 != 0;
    site->server = conn->server;
    return ROWLOCK_OK;
}

static rowlock_status explain_open(const rl_site *site, rowlock_status status, rowlock_error *err)
{
    if (status == ROWLOCK_SCHEMA && err->server_errno == 1049)
        return rl_fail(err, status, "there is no schema '%s' to migrate: CREATE DATABASE %s first",
                       site->schema, site->schema);
    if (status == ROWLOCK_DENIED && err->server_errno == 1044)
        rl_error_prefix(err,
                        "this user has no rights in the schema '%s', which is to be migrated "
                        "(`rowlock grants --role=migrator --into=%s` prints those it needs): ",
                        site->schema, site->schema);
    return rl_no_effect(status, err);
}

rowlock_status rl_site_open(rl_site *site, const rl_params *from, bool single_writer,
                            rowlock_error *err)
{
    rl_params params;
    rl_conn *conn = NULL;
    bool copied = rl_params_copy(&params, from);
    params.via = false; /* the user's own tables */
    free(params.schema);
    params.schema = rl_strdup(site->schema);
    if (!copied || !params.schema) {
        rl_params_free(&params);
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    }
    rl_pool_init(&site->pool, &params, &rl_stmt_pool_hooks, 2);
    site->open = true;
    rl_io io = rl_ledger_io();
    rowlock_status status = take_control(site, &io, &conn, err);
    if (status == ROWLOCK_OK)
        status = learn(site, conn, single_writer, &io, err);
    rl_pool_give(&site->pool, conn);
    return explain_open(site, status, err);
}

void rl_site_close(rl_site *site)
{
    if (site->open)
        rl_pool_destroy(&site->pool, false);
    site->open = false;
}

/* --------------------------------------------------------------------------- trying */

/* The same write may succeed later, or on another connection. It may be repeated: it sets the row's
 * new content, and compares the token. */
static bool may_pass(rowlock_status status)
{
    return status == ROWLOCK_BUSY || status == ROWLOCK_DEADLOCK || status == ROWLOCK_UNKNOWN ||
           status == ROWLOCK_UNAVAILABLE;
}

rl_io rl_ledger_io(void)
{
    return rl_io_until(rl_time_add(rl_now_us(), LIMIT_US));
}

/*
 * One exchange, repeated on another connection if that may help:
 *
 *     attempt a = begin_attempt(site, err);
 *     while (try_again(&a))
 *         a.status = ... on a.conn, within &a.io
 */
typedef struct attempt {
    rl_site *site;
    rl_io io;
    rowlock_error *err;
    bool tried;
    bool last; /* whatever the status */
    rl_conn *conn;
    rowlock_status status;
} attempt;

static attempt begin_attempt(rl_site *site, rowlock_error *err)
{
    return (attempt){.site = site, .io = rl_ledger_io(), .err = err};
}

/* False: it has ended, with a->status. */
static bool try_again(attempt *a)
{
    const rl_budget pause = rl_budget_start(-1, 0, NULL);
    do {
        rl_pool_give(&a->site->pool, a->conn);
        a->conn = NULL;
        if (a->tried && (a->last || !may_pass(a->status) || rl_now_us() >= a->io.deadline_us))
            return false;
        if (a->tried)
            (void)rl_budget_sleep(&pause, PAUSE_US);
        a->tried = true;
        a->status = take_control(a->site, &a->io, &a->conn, a->err);
    } while (a->status != ROWLOCK_OK);
    return true;
}

static rowlock_status write_rows(rl_site *site, rl_sql_id id, const rl_value *values,
                                 uint64_t *rows, rowlock_error *err)
{
    rl_done done = {0};
    attempt a = begin_attempt(site, err);
    while (try_again(&a)) {
        a.status = rl_server_write_check(&a.conn->server, err);
        if (a.status == ROWLOCK_OK)
            a.status = rl_run(a.conn, id, values, &a.io, &done, err);
    }
    *rows = done.rows;
    if (a.status == ROWLOCK_DENIED)
        rl_error_prefix(err, "the history %s.%s: ", site->schema, site->table);
    return a.status;
}

rowlock_status rl_site_lost(const rl_site *site, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_LOST,
                   "the lock of the migrations of the schema %s was lost; `rowlock show %s` says "
                   "who has it now",
                   site->schema, site->lock);
}

static rowlock_status taken_over(const rl_site *site, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_LOST,
                   "another migrator has taken over (the guard of %s.%s has another token than "
                   "ours, %" PRIu64 ")",
                   site->schema, site->table, site->token);
}

/* A write that must match its row, and the guard with our token. */
static rowlock_status write_ours(rl_site *site, rl_sql_id id, const rl_value *values,
                                 rowlock_error *err)
{
    uint64_t rows = 0;
    RL_TRY(write_rows(site, id, values, &rows, err));
    return rows == 0 ? taken_over(site, err) : ROWLOCK_OK;
}

/* -------------------------------------------------------------------------- reading */

void rl_ledger_free(rl_ledger *ledger)
{
    free(ledger->records);
    *ledger = (rl_ledger){0};
}

static void put(char *to, size_t size, const rl_cell *cell)
{
    snprintf(to, size, "%s", cell->text);
}

static bool add_record(rl_ledger *ledger, const rl_cell *cells)
{
    if (!RL_GROW(ledger->records, ledger->count, ledger->capacity))
        return false;
    rl_record *record = &ledger->records[ledger->count++];
    *record = (rl_record){.version = cells[0].u64,
                          .steps = (unsigned)cells[3].u64,
                          .done = (unsigned)cells[4].u64,
                          .running = (unsigned)cells[5].u64,
                          .whole = cells[7].u64 != 0,
                          .decided = cells[8].u64 != 0,
                          .token = cells[11].u64,
                          .applied = *cells[14].text != '\0',
                          .duration_ms = cells[15].u64};
    put(record->name, sizeof record->name, &cells[1]);
    put(record->checksum, sizeof record->checksum, &cells[2]);
    put(record->done_checksum, sizeof record->done_checksum, &cells[6]);
    put(record->statement, sizeof record->statement, &cells[9]);
    put(record->error, sizeof record->error, &cells[10]);
    put(record->who, sizeof record->who, &cells[12]);
    put(record->started_at, sizeof record->started_at, &cells[13]);
    put(record->applied_at, sizeof record->applied_at, &cells[14]);
    return true;
}

static rowlock_status read_rows(rl_conn *conn, rl_ledger *ledger, const rl_io *io,
                                rowlock_error *err)
{
    rl_rows rows;
    bool memory = true;
    rl_ledger_free(ledger);
    RL_TRY(rl_query(conn, RL_SQL_LEDGER_LIST, NULL, io, &rows, err));
    while (memory && rl_next(&rows))
        if (rows.cells[0].u64 == 0)
            put(ledger->lock_name, sizeof ledger->lock_name, &rows.cells[1]);
        else
            memory = add_record(ledger, rows.cells);
    return memory ? ROWLOCK_OK : rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
}

/* The message leaves out the schema of both names if it is the same. */
static rowlock_status check_lock(const rl_site *site, const char *lock_name, rowlock_error *err)
{
    size_t schema = strlen(site->lock_name) - strlen(site->lock);
    bool same = strncmp(lock_name, site->lock_name, schema) == 0;
    size_t skip = same ? schema : 0;
    if (strcmp(lock_name, site->lock_name) == 0)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_REPAIR,
                   "the history %s.%s is kept under the lock '%s', not '%s'; use that one (%s), "
                   "or, when nobody does any more, run " RL_REPAIR("--relock"),
                   site->schema, site->table, lock_name + skip, site->lock_name + skip,
                   same ? "--lock" : "its schema with -D, its name with --lock");
}

rowlock_status rl_ledger_read(rl_site *site, rl_ledger *ledger, rowlock_error *err)
{
    *ledger = (rl_ledger){0};
    attempt a = begin_attempt(site, err);
    while (try_again(&a))
        a.status = read_rows(a.conn, ledger, &a.io, err);
    if (a.status == ROWLOCK_SCHEMA && err->server_errno == NO_SUCH_TABLE)
        return ROWLOCK_OK;
    if (a.status == ROWLOCK_DAMAGED)
        rl_error_prefix(err, "the table %s.%s is no history of `rowlock migrate`: ", site->schema,
                        site->table);
    RL_TRY(a.status);
    /* If row 0 is missing or has no lock, the history is just being made. */
    return *ledger->lock_name ? check_lock(site, ledger->lock_name, err) : ROWLOCK_OK;
}

/* ---------------------------------------------------------------------------- guard */

rowlock_status rl_ledger_make(rl_site *site, rowlock_error *err)
{
    uint64_t rows = 0;
    rowlock_status status = write_rows(site, RL_SQL_LEDGER_GUARD_CREATE, NULL, &rows, err);
    if (status != ROWLOCK_SCHEMA || err->server_errno != NO_SUCH_TABLE)
        return status;
    RL_TRY(write_rows(site, RL_SQL_LEDGER_CREATE, NULL, &rows, err));
    return write_rows(site, RL_SQL_LEDGER_GUARD_CREATE, NULL, &rows, err);
}

static rowlock_status read_guard(const rl_site *site, rl_conn *conn, rl_guard *guard,
                                 const rl_io *io, rowlock_error *err)
{
    rl_rows rows;
    bool found = false;
    RL_TRY(rl_query_one(conn, RL_SQL_LEDGER_GUARD, NULL, io, &found, &rows, err));
    if (!found)
        return rl_fail(err, ROWLOCK_DAMAGED, "the history %s.%s has lost its row 0", site->schema,
                       site->table);
    guard->token = rows.cells[0].u64;
    put(guard->lock_name, sizeof guard->lock_name, &rows.cells[1]);
    put(guard->who, sizeof guard->who, &rows.cells[2]);
    guard->connection_id = rows.cells[3].u64;
    guard->server = rows.cells[4].u64;
    guard->age_s = rows.cells[5].u64;
    return ROWLOCK_OK;
}

rowlock_status rl_guard_read(rl_site *site, rl_guard *guard, rowlock_error *err)
{
    attempt a = begin_attempt(site, err);
    while (try_again(&a))
        a.status = read_guard(site, a.conn, guard, &a.io, err);
    return a.status;
}

static rowlock_status not_entered(rl_site *site, rowlock_error *err)
{
    rl_guard guard;
    RL_TRY(rl_guard_read(site, &guard, err));
    RL_TRY(check_lock(site, guard.lock_name, err));
    return rl_fail(err, ROWLOCK_REPAIR,
                   "the history %s.%s was written under the token %" PRIu64 " and ours is %" PRIu64
                   ": the lock's rows were made anew, or another migrator "
                   "has taken over; when none is at work, run " RL_REPAIR("--relock"),
                   site->schema, site->table, guard.token, site->token);
}

rowlock_status rl_guard_enter(rl_site *site, bool anyhow, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(site->token), rl_text(site->lock_name), rl_u64(anyhow)};
    uint64_t rows = 0;
    RL_TRY(write_rows(site, RL_SQL_LEDGER_ENTER, values, &rows, err));
    return rows == 0 ? not_entered(site, err) : ROWLOCK_OK;
}

rowlock_status rl_guard_register(rl_site *site, uint64_t connection_id, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(connection_id), rl_u64(connection_id ? site->server.node : 0),
                               rl_text(site->who), rl_u64(site->token)};
    return write_ours(site, RL_SQL_LEDGER_REGISTER, values, err);
}

/* ---------------------------------------------------------------------------- files */

rowlock_status rl_ledger_begin(rl_site *site, uint64_t version, const char *name,
                               rowlock_error *err)
{
    const rl_value values[] = {rl_u64(version), rl_text(name), rl_u64(site->token)};
    rowlock_status status = write_ours(site, RL_SQL_LEDGER_BEGIN, values, err);
    /* An earlier attempt, whose reply was lost, has made the row: under the lock no other client
     * does. */
    return status == ROWLOCK_DAMAGED && err->server_errno == DUPLICATE_KEY ? ROWLOCK_OK : status;
}

rowlock_status rl_ledger_note(rl_site *site, rl_conn *on, const rl_record *record,
                              rowlock_error *err)
{
    const rl_value values[] = {
        rl_u64(site->token),         rl_text(record->checksum), rl_u64(record->steps),
        rl_u64(record->done),        rl_u64(record->running),   rl_text(record->done_checksum),
        rl_u64(record->whole),       rl_u64(record->decided),   rl_text(record->statement),
        rl_text(record->error),      rl_text(site->who),        rl_u64(record->applied),
        rl_u64(record->duration_ms), rl_u64(record->version)};
    if (!on)
        return write_ours(site, RL_SQL_LEDGER_NOTE, values, err);
    /* Only rows that change are counted there: `applied_at` does. */
    rl_done done = {0};
    rl_io io = rl_ledger_io();
    RL_TRY(rl_run(on, RL_SQL_LEDGER_NOTE, values, &io, &done, err));
    return done.rows == 0 ? taken_over(site, err) : ROWLOCK_OK;
}

rowlock_status rl_ledger_adopt(rl_site *site, const char *name, const rl_record *record,
                               rowlock_error *err)
{
    const rl_value values[] = {rl_u64(site->token),
                               rl_text(name),
                               rl_text(record->checksum),
                               rl_u64(record->steps),
                               rl_text(record->done_checksum),
                               rl_u64(record->version)};
    return write_ours(site, RL_SQL_LEDGER_ADOPT, values, err);
}

rowlock_status rl_ledger_forget(rl_site *site, uint64_t version, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(site->token), rl_u64(version)};
    rl_guard guard;
    uint64_t rows = 0;
    RL_TRY(write_rows(site, RL_SQL_LEDGER_FORGET, values, &rows, err));
    if (rows > 0)
        return ROWLOCK_OK;
    /* The row is not there: an attempt whose reply was lost has removed it, or the token is not
     * ours any more. */
    RL_TRY(rl_guard_read(site, &guard, err));
    return guard.token != site->token ? taken_over(site, err) : ROWLOCK_OK;
}

/* --------------------------------------------------------------------------- marker */

rowlock_status rl_site_same(const rl_site *site, const rl_conn *conn, rowlock_error *err)
{
    if (conn->server.node == site->server.node)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNAVAILABLE,
                   "connections lead to another server than before (a failover)");
}

rowlock_status rl_marker_holder(rl_site *site, uint64_t *connection_id, rowlock_error *err)
{
    const rl_value values[] = {rl_text(site->marker)};
    attempt a = begin_attempt(site, err);
    while (try_again(&a))
        a.status =
            rl_query_number(a.conn, RL_SQL_SESSION_MARKED, values, &a.io, connection_id, err);
    return a.status;
}

static rowlock_status end_once(const rl_site *site, rl_conn *conn, uint64_t connection_id,
                               uint64_t age_s, bool *ended, const rl_io *io, rowlock_error *err)
{
    const rl_value marker[] = {rl_text(site->marker)};
    uint64_t holder = 0;
    bool restarted = false;
    RL_TRY(rl_session_restarted(conn, io, (int64_t)age_s * 1000000, 0, &restarted, err));
    if (!restarted)
        return rl_session_end(conn, io, connection_id, site->marker, ended, err);
    RL_TRY(rl_query_number(conn, RL_SQL_SESSION_MARKED, marker, io, &holder, err));
    *ended = holder != connection_id;
    return ROWLOCK_OK;
}

rowlock_status rl_site_end(rl_site *site, uint64_t connection_id, uint64_t age_s, bool *ended,
                           rowlock_error *err)
{
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    *ended = false;
    attempt a = begin_attempt(site, err);
    while (try_again(&a)) {
        a.status = rl_site_same(site, a.conn, err);
        a.last = a.status != ROWLOCK_OK;
        if (!a.last)
            a.status = end_once(site, a.conn, connection_id, age_s, ended, &a.io, err);
    }
    return a.status;
}
