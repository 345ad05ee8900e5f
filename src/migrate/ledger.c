#include "migrate/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stmt/session.h"

#define NO_SUCH_THREAD 1094
#define DUPLICATE_KEY  1062
#define PAUSE_US       20000

/* ------------------------------------------------------------------------ connecting */

static rowlock_status kill_query(rl_conn *conn, uint64_t connection_id, const char *key,
                                 const rl_io *io)
{
    return rl_stmt_pool_hooks.kill_query(conn, connection_id, key, io);
}

static rowlock_status setup(rl_conn *conn, rl_purpose purpose, const rl_io *io, rowlock_error *err)
{
    (void)purpose;
    return rl_stmt_pool_hooks.setup(conn, RL_WORK, io, err);
}

static const rl_pool_hooks hooks = {.setup = setup, .kill_query = kill_query};

/* A connection for the history: short statements of ours alone. */
static rowlock_status take_control(rl_site *site, const rl_io *io, rl_conn **conn,
                                   rowlock_error *err)
{
    rowlock_status status = rl_pool_take(&site->pool, NULL, io, conn, err);
    if (status == ROWLOCK_OK)
        (*conn)->table = site->table;
    return status;
}

static rowlock_status learn(rl_site *site, rl_conn *conn, const rl_io *io, rowlock_error *err)
{
    const rl_value values[] = {rl_text(site->table)};
    rl_rows rows;
    bool found = false;
    rowlock_status status =
        rl_query_one(conn, RL_SQL_LEDGER_MARKER, values, io, &found, &rows, err);
    if (status != ROWLOCK_OK)
        return status;
    snprintf(site->marker, sizeof site->marker, "%s", rows.cells[0].text);
    site->packet = rows.cells[1].u64;
    site->no_backslashes = rows.cells[2].u64 != 0;
    site->ansi_quotes = rows.cells[3].u64 != 0;
    site->server = conn->server.node;
    return ROWLOCK_OK;
}

static rowlock_status check_server(const rl_server *server, bool single_writer, rowlock_error *err)
{
    const char *why = rl_server_why_no_bell(server, single_writer);
    rowlock_status status = rl_server_check(server, err);
    if (status != ROWLOCK_OK || !why)
        return status;
    return rl_fail(err, ROWLOCK_UNSUPPORTED,
                   "migrations need a server on which a dead migrator's connection can be ended, "
                   "and %s; connect to the server itself, or, where every migrator uses this one "
                   "node, say so (--single-writer)",
                   why);
}

static rowlock_status explain_open(const rl_site *site, rowlock_status status, rowlock_error *err)
{
    unsigned number = err ? err->server_errno : 0;
    if (status == ROWLOCK_SCHEMA && number == 1049)
        return rl_fail(err, status, "there is no schema '%s' to migrate; make it first",
                       site->schema);
    if (status == ROWLOCK_DENIED && number == 1044)
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
    rowlock_status status = rl_pool_init(&site->pool, &params, &hooks, 2, err);
    site->open = status == ROWLOCK_OK;
    rl_io io = rl_io_until(rl_time_add(rl_now_us(), RL_LEDGER_LIMIT_US));
    if (status == ROWLOCK_OK)
        status = take_control(site, &io, &conn, err);
    if (status == ROWLOCK_OK)
        status = check_server(&conn->server, single_writer, err);
    if (status == ROWLOCK_OK)
        status = learn(site, conn, &io, err);
    rl_pool_give(&site->pool, conn);
    return explain_open(site, status, err);
}

void rl_site_close(rl_site *site)
{
    if (site->open)
        rl_pool_destroy(&site->pool, false);
    site->open = false;
}

rowlock_status rl_site_write_check(rl_site *site, rowlock_error *err)
{
    rl_conn *conn = NULL;
    rl_io io = rl_io_until(rl_time_add(rl_now_us(), RL_LEDGER_LIMIT_US));
    rowlock_status status = take_control(site, &io, &conn, err);
    if (status == ROWLOCK_OK)
        status = rl_server_write_check(&conn->server, err);
    rl_pool_give(&site->pool, conn);
    return status;
}

/* --------------------------------------------------------------------------- trying */

/* What is over soon, or is answered by another connection. Each write may be made again: it says
 * how the row is to be, and compares the token. */
static bool may_pass(rowlock_status status)
{
    return status == ROWLOCK_BUSY || status == ROWLOCK_DEADLOCK || status == ROWLOCK_UNKNOWN ||
           status == ROWLOCK_UNAVAILABLE;
}

typedef rowlock_status (*attempt_fn)(rl_site *site, rl_conn *conn, const rl_io *io, void *data,
                                     rowlock_error *err);

static rowlock_status attempt(rl_site *site, attempt_fn fn, void *data, rowlock_error *err)
{
    const int64_t until_us = rl_time_add(rl_now_us(), RL_LEDGER_LIMIT_US);
    const rl_budget pause = rl_budget_start(-1, 0, NULL);
    for (;;) {
        rl_io io = rl_io_until(until_us);
        rl_conn *conn = NULL;
        rowlock_status status = take_control(site, &io, &conn, err);
        if (status == ROWLOCK_OK)
            status = fn(site, conn, &io, data, err);
        rl_pool_give(&site->pool, conn);
        if (!may_pass(status) || rl_now_us() >= until_us)
            return status;
        (void)rl_budget_sleep(&pause, PAUSE_US);
    }
}

typedef struct writing {
    rl_sql_id id;
    const rl_value *values;
    uint64_t rows;
} writing;

static rowlock_status attempt_write(rl_site *site, rl_conn *conn, const rl_io *io, void *data,
                                    rowlock_error *err)
{
    (void)site;
    writing *w = data;
    rl_done done = {0};
    rowlock_status status = rl_run(conn, w->id, w->values, io, &done, err);
    w->rows = done.rows;
    return status;
}

static rowlock_status write_rows(rl_site *site, rl_sql_id id, const rl_value *values,
                                 uint64_t *rows, rowlock_error *err)
{
    writing w = {.id = id, .values = values};
    rowlock_status status = attempt(site, attempt_write, &w, err);
    *rows = w.rows;
    if (status == ROWLOCK_DENIED)
        rl_error_prefix(err, "the history %s.%s: ", site->schema, site->table);
    return status;
}

rowlock_status rl_site_lost(const rl_site *site, rowlock_error *err)
{
    char command[RL_ADVICE_SIZE];
    return rl_fail(err, ROWLOCK_LOST,
                   "the lock of the migrations of the schema %s was lost; %s says who has it now",
                   site->schema, rl_advise_lock(site->advice, command, sizeof command, "show"));
}

static rowlock_status taken_over(const rl_site *site, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_LOST,
                   "another migrator has taken over (the guard of %s.%s has another token than "
                   "ours, %" PRIu64 ")",
                   site->schema, site->table, site->token);
}

/* A write that must find its row, and the guard with our token. */
static rowlock_status write_ours(rl_site *site, rl_sql_id id, const rl_value *values,
                                 rowlock_error *err)
{
    uint64_t rows = 0;
    rowlock_status status = write_rows(site, id, values, &rows, err);
    return status == ROWLOCK_OK && rows == 0 ? taken_over(site, err) : status;
}

/* -------------------------------------------------------------------------- reading */

static void free_record(rl_record *record)
{
    free(record->name);
    free(record->statement);
    free(record->error);
    free(record->who);
}

void rl_ledger_free(rl_ledger *ledger)
{
    for (size_t i = 0; i < ledger->count; i++)
        free_record(&ledger->records[i]);
    free(ledger->records);
    *ledger = (rl_ledger){0};
}

static void put(char *to, size_t size, const rl_cell *cell)
{
    snprintf(to, size, "%s", cell->text);
}

static bool add_record(rl_ledger *ledger, const rl_cell *cells)
{
    rl_record *records = realloc(ledger->records, (ledger->count + 1) * sizeof *records);
    if (!records)
        return false;
    ledger->records = records;
    rl_record *record = &records[ledger->count++];
    *record = (rl_record){.version = cells[0].u64,
                          .name = rl_strdup(cells[1].text),
                          .steps = (unsigned)cells[3].u64,
                          .done = (unsigned)cells[4].u64,
                          .running = (unsigned)cells[5].u64,
                          .whole = cells[7].u64 != 0,
                          .decided = cells[8].u64 != 0,
                          .statement = rl_strdup(cells[9].text),
                          .error = rl_strdup(cells[10].text),
                          .token = cells[11].u64,
                          .who = rl_strdup(cells[12].text),
                          .applied = *cells[14].text != '\0',
                          .duration_ms = cells[15].u64};
    put(record->checksum, sizeof record->checksum, &cells[2]);
    put(record->done_checksum, sizeof record->done_checksum, &cells[6]);
    put(record->started_at, sizeof record->started_at, &cells[13]);
    put(record->applied_at, sizeof record->applied_at, &cells[14]);
    return record->name && record->statement && record->error && record->who;
}

typedef struct listing {
    rl_ledger *ledger;
    char lock_name[sizeof((rl_guard *)0)->lock_name]; /* "": not known yet */
} listing;

static bool add_row(listing *list, const rl_cell *cells)
{
    if (cells[0].u64 > 0)
        return add_record(list->ledger, cells);
    put(list->lock_name, sizeof list->lock_name, &cells[1]);
    return true;
}

static rowlock_status attempt_list(rl_site *site, rl_conn *conn, const rl_io *io, void *data,
                                   rowlock_error *err)
{
    (void)site;
    listing *list = data;
    rl_rows rows;
    bool memory = true;
    rl_ledger_free(list->ledger);
    list->lock_name[0] = '\0';
    rowlock_status status = rl_query(conn, RL_SQL_LEDGER_LIST, NULL, io, &rows, err);
    if (status != ROWLOCK_OK)
        return status;
    while (memory && rl_next(&rows))
        memory = add_row(list, rows.cells);
    rl_end(&rows);
    return memory ? rows.status : rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
}

/* `data`: how many there are, a uint64_t. */
static rowlock_status attempt_exists(rl_site *site, rl_conn *conn, const rl_io *io, void *data,
                                     rowlock_error *err)
{
    const rl_value values[] = {rl_text(site->table)};
    return rl_query_number(conn, RL_SQL_LEDGER_EXISTS, values, io, data, err);
}

rowlock_status rl_ledger_make(rl_site *site, rowlock_error *err)
{
    uint64_t count = 0;
    uint64_t rows = 0;
    rowlock_status status = attempt(site, attempt_exists, &count, err);
    if (status == ROWLOCK_OK && count == 0)
        status = write_rows(site, RL_SQL_LEDGER_CREATE, NULL, &rows, err);
    if (status == ROWLOCK_OK)
        status = write_rows(site, RL_SQL_LEDGER_GUARD_CREATE, NULL, &rows, err);
    return status;
}

/* ---------------------------------------------------------------------------- guard */

static rowlock_status attempt_guard(rl_site *site, rl_conn *conn, const rl_io *io, void *data,
                                    rowlock_error *err)
{
    rl_guard *guard = data;
    rl_rows rows;
    bool found = false;
    rowlock_status status = rl_query_one(conn, RL_SQL_LEDGER_GUARD, NULL, io, &found, &rows, err);
    if (status != ROWLOCK_OK)
        return status;
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
    *guard = (rl_guard){0};
    return attempt(site, attempt_guard, guard, err);
}

/* One schema's locks are told by their names alone. */
static rowlock_status other_lock(const rl_site *site, const char *lock_name, rowlock_error *err)
{
    char command[RL_ADVICE_SIZE];
    size_t schema = strlen(site->lock_name) - strlen(site->lock);
    bool same = strncmp(lock_name, site->lock_name, schema) == 0;
    size_t skip = same ? schema : 0;
    rl_advise(site->advice, command, sizeof command, "repair --relock");
    return rl_fail(err, ROWLOCK_REPAIR,
                   "the history %s.%s is kept under the lock '%s', not '%s'; use that one (%s), "
                   "or, when nobody does any more, run %s",
                   site->schema, site->table, lock_name + skip, site->lock_name + skip,
                   same ? "--lock" : "its schema with -D, its name with --lock", command);
}

rowlock_status rl_ledger_read(rl_site *site, rl_ledger *ledger, rowlock_error *err)
{
    uint64_t count = 0;
    listing list = {.ledger = ledger};
    *ledger = (rl_ledger){0};
    rowlock_status status = attempt(site, attempt_exists, &count, err);
    if (status == ROWLOCK_OK && count > 0)
        status = attempt(site, attempt_list, &list, err);
    if (status == ROWLOCK_DAMAGED)
        rl_error_prefix(err, "the table %s.%s is no history of `rowlock migrate`: ", site->schema,
                        site->table);
    /* A history whose row 0 is missing or has no lock is one that is being made. */
    if (status != ROWLOCK_OK || !*list.lock_name || !strcmp(list.lock_name, site->lock_name))
        return status;
    return other_lock(site, list.lock_name, err);
}

static rowlock_status not_entered(rl_site *site, rowlock_error *err)
{
    rl_guard guard;
    char command[RL_ADVICE_SIZE];
    rowlock_status status = rl_guard_read(site, &guard, err);
    if (status != ROWLOCK_OK)
        return status;
    if (strcmp(guard.lock_name, site->lock_name) != 0)
        return other_lock(site, guard.lock_name, err);
    rl_advise(site->advice, command, sizeof command, "repair --relock");
    return rl_fail(err, ROWLOCK_REPAIR,
                   "the history %s.%s was written under the token %" PRIu64 " and ours is %" PRIu64
                   ": the lock's rows were made anew, or another migrator "
                   "has taken over; when none is at work, run %s",
                   site->schema, site->table, guard.token, site->token, command);
}

rowlock_status rl_guard_enter(rl_site *site, bool anyhow, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(site->token), rl_text(site->lock_name), rl_text(site->who)};
    rl_sql_id id = anyhow ? RL_SQL_LEDGER_ENTER_ANYHOW : RL_SQL_LEDGER_ENTER;
    uint64_t rows = 0;
    rowlock_status status = write_rows(site, id, values, &rows, err);
    return status == ROWLOCK_OK && rows == 0 ? not_entered(site, err) : status;
}

rowlock_status rl_guard_register(rl_site *site, uint64_t connection_id, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(connection_id), rl_u64(connection_id ? site->server : 0),
                               rl_u64(site->token)};
    return write_ours(site, RL_SQL_LEDGER_REGISTER, values, err);
}

/* ---------------------------------------------------------------------------- files */

rowlock_status rl_ledger_begin(rl_site *site, uint64_t version, const char *name,
                               rowlock_error *err)
{
    const rl_value values[] = {rl_u64(version), rl_text(name), rl_u64(site->token)};
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    rowlock_status status = write_ours(site, RL_SQL_LEDGER_BEGIN, values, err);
    /* The reply to an earlier attempt was lost: under the lock nobody else makes this row. */
    return status == ROWLOCK_DAMAGED && err->server_errno == DUPLICATE_KEY ? ROWLOCK_OK : status;
}

enum { NOTE_VALUES = 14 };

static void note_values(const rl_site *site, const rl_record *record, rl_value *values)
{
    const rl_value all[NOTE_VALUES] = {rl_u64(site->token),
                                       rl_text(record->checksum),
                                       rl_u64(record->steps),
                                       rl_u64(record->done),
                                       rl_u64(record->running),
                                       rl_text(record->done_checksum),
                                       rl_u64(record->whole),
                                       rl_u64(record->decided),
                                       rl_text(record->statement ? record->statement : ""),
                                       rl_text(record->error ? record->error : ""),
                                       rl_text(site->who),
                                       rl_u64(record->applied),
                                       rl_u64(record->duration_ms),
                                       rl_u64(record->version)};
    memcpy(values, all, sizeof all);
}

rowlock_status rl_ledger_note(rl_site *site, const rl_record *record, rowlock_error *err)
{
    rl_value values[NOTE_VALUES];
    note_values(site, record, values);
    return write_ours(site, RL_SQL_LEDGER_NOTE, values, err);
}

rowlock_status rl_ledger_note_on(rl_site *site, rl_conn *conn, const rl_io *io,
                                 const rl_record *record, rowlock_error *err)
{
    rl_value values[NOTE_VALUES];
    rl_done done = {0};
    note_values(site, record, values);
    conn->table = site->table;
    rowlock_status status = rl_run(conn, RL_SQL_LEDGER_NOTE, values, io, &done, err);
    return status == ROWLOCK_OK && done.rows == 0 ? taken_over(site, err) : status;
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
    rowlock_status status = write_rows(site, RL_SQL_LEDGER_FORGET, values, &rows, err);
    if (status != ROWLOCK_OK || rows > 0)
        return status;
    /* Not there: removed by an attempt whose reply was lost, or the token is not ours any more. */
    status = rl_guard_read(site, &guard, err);
    return status == ROWLOCK_OK && guard.token != site->token ? taken_over(site, err) : status;
}

/* --------------------------------------------------------------------------- marker */

/* `data`: the connection's number, a uint64_t. */
static rowlock_status attempt_holder(rl_site *site, rl_conn *conn, const rl_io *io, void *data,
                                     rowlock_error *err)
{
    const rl_value values[] = {rl_text(site->marker)};
    return rl_query_number(conn, RL_SQL_LEDGER_MARKED, values, io, data, err);
}

rowlock_status rl_marker_holder(rl_site *site, uint64_t *connection_id, rowlock_error *err)
{
    return attempt(site, attempt_holder, connection_id, err);
}

typedef struct ending {
    uint64_t connection_id;
    uint64_t age_s;
    bool ended;
} ending;

static rowlock_status attempt_end(rl_site *site, rl_conn *conn, const rl_io *io, void *data,
                                  rowlock_error *err)
{
    (void)site;
    ending *e = data;
    const rl_value values[] = {rl_u64(e->connection_id)};
    rowlock_status status =
        rl_session_restarted(conn, io, (int64_t)e->age_s * 1000000, 0, &e->ended, err);
    if (status != ROWLOCK_OK || e->ended)
        return status;
    status = rl_run_text(conn, RL_SQL_KILL_CONNECTION, values, io, err);
    e->ended = status != ROWLOCK_OK && err->server_errno == NO_SUCH_THREAD;
    return e->ended ? ROWLOCK_OK : status;
}

rowlock_status rl_site_end(rl_site *site, uint64_t connection_id, uint64_t age_s, bool *ended,
                           rowlock_error *err)
{
    rowlock_error spare;
    ending e = {.connection_id = connection_id, .age_s = age_s};
    rowlock_status status = attempt(site, attempt_end, &e, rl_error_or(err, &spare));
    *ended = e.ended;
    return status;
}
