/*
 * Freezes: no client gets the names that a pattern matches, until it is thawed or its time is over.
 * A freeze is written into the names' own rows, which each acquire reads anyway; the patterns are
 * kept for names that are made later (sql/freeze.sql). One transaction: done again after a lost
 * reply it is the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/admin.h"
#include "engine/hold.h"
#include "engine/kind.h"
#include "stmt/session.h"
#include "wait/backoff.h"

typedef struct freezing {
    rowlock_client *client;
    const rowlock_freeze_options *options;
    bool thaws;
    bool found;  /* thaw: there was such a freeze */
    bool unsure; /* a reply was lost */
    rowlock_freeze_result result;
    int64_t try_us;  /* how long the next try may wait */
    int64_t work_us; /* how long the server may work on each statement about names, besides */
    rl_budget budget;
    rl_conn *conn;
    rl_io io;
} freezing;

static const char *begin_of(const rowlock_freeze_options *options)
{
    return options->name ? options->name : options->prefix;
}

/* "billing/" and a star, as it is written */
static void name_pattern(const rowlock_freeze_options *options, char *text, size_t size)
{
    snprintf(text, size, "%s%s", begin_of(options), options->name ? "" : "*");
}

/* ------------------------------------------------------------------------------- list */

static rowlock_status add_frozen(void *data, const rl_cell *cells, rowlock_error *err)
{
    rl_list *list = data;
    rowlock_frozen *frozen = rl_list_add(list, err);
    if (!frozen)
        return ROWLOCK_SYSTEM;
    *frozen = (rowlock_frozen){.text = rl_list_keep(list, &cells[0]),
                               .is_prefix = cells[1].u64 != 0,
                               .by = rl_list_keep(list, &cells[2]),
                               .reason = rl_list_keep(list, &cells[3]),
                               .frozen_at = rl_list_keep(list, &cells[4]),
                               .until_at = rl_list_keep(list, &cells[5]),
                               .since_ms = cells[6].i64 / 1000,
                               .left_ms = cells[7].i64 < 0 ? -1 : cells[7].i64 / 1000};
    return ROWLOCK_OK;
}

rowlock_status rl_freezes_get(rowlock_client *client, rowlock_freezes **out, rowlock_error *err)
{
    rowlock_freezes *freezes = rl_list_new(client, sizeof *freezes, sizeof(rowlock_frozen), err);
    if (!freezes)
        return ROWLOCK_SYSTEM;
    rowlock_status status = rl_list_read(&freezes->all, RL_SQL_FREEZE_LIST, NULL, add_frozen, err);
    if (status == ROWLOCK_OK)
        *out = freezes;
    else
        rl_list_free(freezes);
    return rl_no_effect(status, err);
}

/* -------------------------------------------------------------------- in a transaction */

static rowlock_status change_freeze(freezing *f, rowlock_error *err)
{
    const rowlock_freeze_options *options = f->options;
    const rl_value put[] = {
        rl_text(begin_of(options)),          rl_u64(!options->name),
        rl_text(f->client->label),           rl_text(options->reason),
        rl_u64((uint64_t)options->until_us), rl_u64((uint64_t)options->for_ms * 1000)};
    rl_done done = {0};
    RL_TRY(f->thaws ? rl_run(f->conn, RL_SQL_FREEZE_END, put, &f->io, &done, err)
                    : rl_run(f->conn, RL_SQL_FREEZE_PUT, put, &f->io, &done, err));
    if (!f->thaws && done.rows == 0)
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "the statement was stopped by somebody");
    f->found = f->found || done.rows > 0;
    return ROWLOCK_OK;
}

/* Not to be broken off while the server works, at many names; it waits for a row for a second at
 * most (session_setup). */
static rl_io at_work(const freezing *f, rl_io io)
{
    const int64_t until_us = rl_time_add(rl_now_us(), f->work_us);
    if (until_us > io.deadline_us)
        io.deadline_us = until_us;
    return io;
}

/* Rows are read whole before the next statement runs. */
typedef struct pattern {
    char begin[ROWLOCK_NAME_MAX * 4 + 1];
    char until[32];
    uint64_t is_prefix;
} pattern;

/* Of the names that were thawed, those of that freeze anew. */
static rowlock_status mark(const freezing *f, const pattern *its, rowlock_error *err)
{
    const rl_value values[] = {rl_text(its->until), rl_text(begin_of(f->options)),
                               rl_u64(!f->options->name), rl_text(its->begin),
                               rl_u64(its->is_prefix)};
    const rl_io io = at_work(f, f->io);
    return rl_run(f->conn, RL_SQL_FREEZE_MARK, values, &io, NULL, err);
}

/* May a name match both? */
static bool overlaps(const freezing *f, const pattern *its)
{
    const char *changed = begin_of(f->options);
    const size_t one = strlen(changed);
    const size_t other = strlen(its->begin);
    return strncmp(changed, its->begin, one < other ? one : other) == 0;
}

static bool is_ours(const freezing *f, const pattern *its)
{
    return strcmp(its->begin, begin_of(f->options)) == 0 &&
           (its->is_prefix != 0) == !f->options->name;
}

/* What was put is among those that are not over. (What is to last for a moment only may be.) */
static rowlock_status check_put(const freezing *f, bool found, rowlock_error *err)
{
    if (f->thaws || found || f->options->for_ms > 0)
        return ROWLOCK_OK;
    if (f->options->until_us > 0)
        return rl_fail(err, ROWLOCK_INVALID,
                       "the time until which to freeze is past by the server's clock (times are "
                       "UTC); nothing was changed");
    return rl_fail(err, ROWLOCK_UNAVAILABLE, "the statement was stopped by somebody");
}

static rowlock_status mark_all(const freezing *f, rowlock_error *err)
{
    pattern *list = NULL;
    size_t count = 0;
    size_t capacity = 0;
    bool found = false;
    rl_rows rows;
    rowlock_status status = rl_query(f->conn, RL_SQL_FREEZE_LIST, NULL, &f->io, &rows, err);
    while (status == ROWLOCK_OK && rl_next(&rows)) {
        void *items = list;
        if (!rl_array_grow(&items, count, &capacity, sizeof *list)) {
            status = rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
            break;
        }
        list = items;
        snprintf(list[count].begin, sizeof list->begin, "%s", rows.cells[0].text);
        snprintf(list[count].until, sizeof list->until, "%s", rows.cells[5].text);
        list[count].is_prefix = rows.cells[1].u64;
        found = found || is_ours(f, &list[count]);
        count++;
    }
    if (status == ROWLOCK_OK)
        status = check_put(f, found, err);
    for (size_t i = 0; status == ROWLOCK_OK && i < count; i++)
        if (overlaps(f, &list[i]))
            status = mark(f, &list[i], err);
    free(list);
    return status;
}

static rowlock_status count_names(freezing *f, rowlock_error *err)
{
    const rl_value its[] = {rl_text(begin_of(f->options)), rl_u64(!f->options->name)};
    const rl_io io = at_work(f, f->io);
    rl_rows rows;
    bool found = false;
    RL_TRY(rl_query_one(f->conn, RL_SQL_FREEZE_COUNT, its, &io, &found, &rows, err));
    if (found)
        f->result = (rowlock_freeze_result){.names = rows.cells[0].u64, .held = rows.cells[1].u64};
    return ROWLOCK_OK;
}

static rowlock_status change_all(freezing *f, rowlock_error *err)
{
    const rl_value its[] = {rl_text(begin_of(f->options)), rl_u64(!f->options->name)};
    uint64_t id = 0;
    RL_TRY(rl_query_number(f->conn, RL_SQL_FREEZE_LOCK, NULL, &f->io, &id, err));
    if (id != 1)
        return rl_fail(err, ROWLOCK_DAMAGED, "the table lock_freeze has lost its first row");
    RL_TRY(change_freeze(f, err));
    const rl_io io = at_work(f, f->io);
    RL_TRY(rl_run(f->conn, RL_SQL_FREEZE_THAW, its, &io, NULL, err));
    RL_TRY(mark_all(f, err));
    return count_names(f, err);
}

#define TRY_MOST_US 400000
/* The statements of its transaction, or some more: a server that is far away answers each late. */
#define STATEMENTS  8

/* Several times what a busy server takes: to pass over a name, and to write one. */
#define PASS_US  10
#define WRITE_US 200

static rowlock_status count_work(freezing *f, rowlock_error *err)
{
    const rl_value its[] = {rl_text(begin_of(f->options)), rl_u64(!f->options->name)};
    rl_rows rows;
    bool found = false;
    RL_TRY(rl_query_one(f->conn, RL_SQL_FREEZE_WORK, its, &f->io, &found, &rows, err));
    if (!found)
        return ROWLOCK_OK;
    f->work_us = (int64_t)(rows.cells[0].u64 * PASS_US + rows.cells[1].u64 * WRITE_US);
    f->budget.deadline_us =
        rl_time_add(f->budget.start_us, f->budget.limit_us + f->work_us); /* all tries' */
    return ROWLOCK_OK;
}

/* While it waits for a row that a fence has locked, no client can make a name, and holders of the
 * rows that it has changed cannot release them: so its first tries are short, each is twice as
 * long, and none waits as long as a release waits for its row (a second). How long it works is
 * another matter: where that takes longer, InnoDB alone ends its waits. */
static rowlock_status change_in_transaction(freezing *f, rowlock_error *err)
{
    rowlock_status status = rl_run_text(f->conn, RL_SQL_BEGIN, NULL, &f->io, err);
    const int64_t answers_us = STATEMENTS * f->conn->session.answer_us;
    const int64_t soon_us = rl_time_add(rl_now_us(), f->try_us + answers_us);
    if (soon_us < f->io.deadline_us)
        f->io.deadline_us = soon_us;
    f->try_us = rl_earlier(2 * f->try_us, TRY_MOST_US);
    if (status == ROWLOCK_OK)
        status = change_all(f, err);
    const rl_io patient = at_work(f, rl_budget_quick_io(&f->budget));
    if (status == ROWLOCK_OK)
        return rl_run_text(f->conn, RL_SQL_COMMIT, NULL, &patient, err);
    if (rl_run_text(f->conn, RL_SQL_ROLLBACK, NULL, &patient, NULL) != ROWLOCK_OK)
        f->conn->broken = true;
    return rl_no_effect(status, err);
}

/* Nothing is prepared in a transaction (docs/notes/data.md). */
static rowlock_status prepare(freezing *f, rowlock_error *err)
{
    const rl_sql_id needed[] = {
        RL_SQL_FREEZE_LOCK, f->thaws ? RL_SQL_FREEZE_END : RL_SQL_FREEZE_PUT,
        RL_SQL_FREEZE_THAW, RL_SQL_FREEZE_LIST,
        RL_SQL_FREEZE_MARK, RL_SQL_FREEZE_COUNT};
    RL_TRY(rl_prepare_all(f->conn, needed, sizeof needed / sizeof needed[0], &f->io, err));
    return count_work(f, err);
}

static rowlock_status change_once(freezing *f, rowlock_error *err)
{
    rl_pool *pool = &f->client->pool;
    f->io = rl_budget_quick_io(&f->budget);
    RL_TRY(rl_no_effect(rl_pool_take(pool, NULL, &f->io, &f->conn, err), err));
    rowlock_status status = rl_no_effect(prepare(f, err), err);
    if (status == ROWLOCK_OK)
        status = change_in_transaction(f, err);
    if (status != ROWLOCK_OK && rl_in_transaction(f->conn->mysql))
        f->conn->broken = true;
    rl_pool_give(pool, f->conn);
    return status;
}

/* Done again it is the same: also where it is not known what became of it. */
static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    freezing *f = data;
    (void)hint_us;
    rowlock_status status = change_once(f, err);
    if (status == ROWLOCK_UNKNOWN) {
        f->unsure = true;
        return ROWLOCK_UNAVAILABLE;
    }
    return status == ROWLOCK_TIMEOUT ? ROWLOCK_BUSY : status;
}

static rowlock_status change(freezing *f, rowlock_error *err)
{
    rowlock_error spare = {0};
    const rl_attempts how = {
        .budget = &f->budget, .outage_us = f->client->outage_us, .backoff = RL_BACKOFF_USUAL};
    err = rl_error_or(err, &spare);
    rowlock_status status = rl_attempt_until(&how, attempt, f, err);
    if (status != ROWLOCK_OK && f->unsure)
        return rl_fail(
            err, ROWLOCK_UNKNOWN,
            "the reply of the server was lost, and it could not be done again; look with "
            "`rowlock freeze`");
    if (status == ROWLOCK_TIMEOUT || status == ROWLOCK_BUSY)
        return rl_fail(err, ROWLOCK_BUSY,
                       "a transaction that fenced one of these locks is still open; nothing was "
                       "changed");
    return status;
}

/* ------------------------------------------------------------------------- altogether */

static void record(const freezing *f)
{
    char name[ROWLOCK_NAME_MAX * 4 + 2];
    char detail[RL_DETAIL_MAX];
    name_pattern(f->options, name, sizeof name);
    snprintf(detail, sizeof detail, "%s", f->options->reason);
    const rl_event event = {.name = name,
                            .kind = RL_KIND_LEASE,
                            .event = f->thaws ? "thawed" : "frozen",
                            .owner = "",
                            .label = f->client->label,
                            .waited_ms = RL_UNKNOWN_MS,
                            .held_ms = RL_UNKNOWN_MS,
                            .detail = detail};
    rl_client_record(f->client, &event);
}

static freezing freezing_of(rowlock_client *client, const rowlock_freeze_options *options)
{
    return (freezing){.client = client,
                      .options = options,
                      .try_us = RL_TRY_US,
                      .budget = rl_budget_start(client->limit_ms, client->limit_ms, NULL)};
}

rowlock_status rl_freeze(rowlock_client *client, const rowlock_freeze_options *options,
                         rowlock_freeze_result *result, rowlock_error *err)
{
    freezing f = freezing_of(client, options);
    RL_TRY(change(&f, err));
    record(&f);
    *result = f.result;
    return ROWLOCK_OK;
}

rowlock_status rl_thaw(rowlock_client *client, const rowlock_freeze_options *options,
                       rowlock_error *err)
{
    freezing f = freezing_of(client, options);
    f.thaws = true;
    RL_TRY(change(&f, err));
    if (!f.found)
        return rl_fail(err, ROWLOCK_NOT_FOUND,
                       "'%s%s' is not frozen by that pattern (`rowlock freeze` lists what is)",
                       begin_of(options), options->name ? "" : "*");
    record(&f);
    return ROWLOCK_OK;
}
