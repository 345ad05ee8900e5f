#include "engine/client.h"

#include <string.h>
#include <unistd.h>

#include "base/text.h"

/* Not with snprintf(): it is made for every hold. */
void rl_client_owner(rowlock_client *client, char owner[ROWLOCK_OWNER_MAX + 1])
{
    char *at = stpcpy(owner, client->uuid);
    *at++ = '.';
    rl_put_u64(at, atomic_fetch_add(&client->owners, 1) + 1);
}

rowlock_status rl_client_check_any(const rowlock_client *client, rowlock_error *err)
{
    if (!client)
        return rl_fail(err, ROWLOCK_INVALID, "no client was given (NULL)");
    if (client->pid != getpid())
        return rl_fail(err, ROWLOCK_FORKED,
                       "this client belongs to process %d; open one after fork()",
                       (int)client->pid);
    return ROWLOCK_OK;
}

rowlock_status rl_client_check(const rowlock_client *client, rowlock_error *err)
{
    RL_TRY(rl_client_check_any(client, err));
    if (client->quorum)
        return rl_fail(err, ROWLOCK_UNSUPPORTED,
                       "this call needs one server, with its rows and transactions; the "
                       "members of a quorum share none. Open a client of one server");
    return ROWLOCK_OK;
}

/* Of a quorum each member has the history; those that are away miss it. */
static bool is_there(const rowlock_client *member)
{
    return !atomic_load(&member->away);
}

void rl_client_record(rowlock_client *client, const rl_event *event)
{
    for (size_t i = 0; i < client->member_count; i++)
        if (is_there(client->members[i]))
            rl_client_record(client->members[i], event);
    if (client->quorum)
        return;
    if (rl_journal_add(&client->journal, event))
        rl_keeper_wake(&client->keeper);
}

/* Each member knows the name by an id of its own. */
static void count_at_member(rowlock_client *member, const char *name, rl_total total)
{
    if (is_there(member) && rl_resource_recall(member, name, RL_KIND_QUORUM, &total.id))
        rl_client_count(member, name, atomic_load(&member->pool.identity), &total);
}

void rl_client_count(rowlock_client *client, const char *name, uint64_t identity,
                     const rl_total *total)
{
    for (size_t i = 0; i < client->member_count; i++)
        count_at_member(client->members[i], name, *total);
    if (client->quorum)
        return;
    /* Another server has other names by these ids, or will have. */
    if (identity == atomic_load(&client->pool.identity) &&
        rl_journal_count(&client->journal, identity, total))
        rl_keeper_wake(&client->keeper);
}

rowlock_status rl_client_run(rowlock_client *client, const rl_budget *budget, rl_sql_id id,
                             const rl_value *values, rl_done *done, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(budget);
    RL_BORROWED conn = NULL;
    RL_TRY(rl_pool_take(&client->pool, NULL, &io, &conn, err));
    return rl_run(conn, id, values, &io, done, err);
}

rowlock_status rl_client_run_match(rowlock_client *client, const rl_budget *budget, rl_sql_id id,
                                   const rl_value *values, rl_done *done, rowlock_error *err)
{
    RL_TRY(rl_client_run(client, budget, id, values, done, err));
    return done->rows > 0 ? ROWLOCK_OK : rl_client_run(client, budget, id, values, done, err);
}

rowlock_status rl_client_change(rowlock_client *client, const rl_budget *budget,
                                const rl_conn *beside, bool patient, rl_sql_id id,
                                const rl_value *values, rl_trace *trace, rl_done *done,
                                rowlock_error *err)
{
    /* The connection may take its time; the change may not. */
    rl_io open_io = rl_budget_quick_io(budget);
    RL_BORROWED conn = NULL;
    RL_TRY(rl_pool_take(&client->pool, NULL, &open_io, &conn, err));
    if (beside && beside->server.node != conn->server.node)
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "two connections led to different servers (a failover?)");
    return rl_client_change_on(conn, budget, patient, id, values, trace, done, err);
}

bool rl_try_was_stopped(const rl_budget *budget, rowlock_status status, const rl_trace *trace)
{
    return budget->try_once &&
           (status == ROWLOCK_TIMEOUT || (status == ROWLOCK_UNKNOWN && trace->stopped));
}

rowlock_status rl_client_change_on(rl_conn *conn, const rl_budget *budget, bool patient,
                                   rl_sql_id id, const rl_value *values, rl_trace *trace,
                                   rl_done *done, rowlock_error *err)
{
    *trace = (rl_trace){.connection_id = conn->id,
                        .peer = conn->peer,
                        .identity = conn->server.identity,
                        .sent_us = rl_now_us()};
    memcpy(trace->key, conn->session.key, sizeof trace->key);
    /* Preparing waits for no row: only the change itself is not to take long. */
    rl_io io = rl_budget_quick_io(budget);
    RL_TRY(rl_prepare(conn, id, &io, err));
    io = rl_budget_change_io(budget, patient, conn->session.answer_us);
    rowlock_status status = rl_run(conn, id, values, &io, done, err);
    trace->stopped = conn->interrupted;
    return status;
}

typedef struct reading {
    rl_sql_id id;
    const rl_value *values;
    rl_each_row each;
    void *data;
    bool begun; /* a row was handed over */
} reading;

static rowlock_status read_on(rl_conn *conn, const rl_io *io, reading *what, rowlock_error *err)
{
    rl_rows rows;
    rowlock_status status = ROWLOCK_OK;
    RL_TRY(rl_query(conn, what->id, what->values, io, &rows, err));
    while (status == ROWLOCK_OK && rl_next(&rows)) {
        what->begun = true;
        status = what->each(what->data, rows.cells, err);
    }
    return status;
}

/* The connection has ended; it is not that the server did not answer, or had no time to. */
static bool has_died(const rl_conn *conn, rowlock_status status, const rl_budget *budget,
                     const rl_io *io)
{
    return (status == ROWLOCK_UNKNOWN || status == ROWLOCK_UNAVAILABLE) && conn->broken &&
           !budget->abrupt && !rl_budget_cancelled(budget) && rl_now_us() < io->deadline_us;
}

/*
 * A read has no effect: where its connection turns out to be dead it is made once more, on a new
 * one. The pool may have such a connection: a KILL (rowlock_break() of the client's own lease is
 * one) returns before the server has ended what it kills.
 */
static rowlock_status read_rows(rowlock_client *client, const rl_budget *budget, reading *what,
                                rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(budget);
    for (rl_request wanted = {0};; wanted.fresh = true) {
        RL_BORROWED conn = NULL;
        RL_TRY(rl_pool_take(&client->pool, &wanted, &io, &conn, err));
        rowlock_status status = read_on(conn, &io, what, err);
        if (wanted.fresh || what->begun || !has_died(conn, status, budget, &io))
            return rl_no_effect(status, err);
    }
}

typedef struct one_row {
    rl_keep_row keep;
    void *data;
    bool found;
} one_row;

static rowlock_status keep_first(void *data, const rl_cell *cells, rowlock_error *err)
{
    one_row *row = data;
    (void)err;
    if (!row->found)
        row->keep(row->data, cells);
    row->found = true;
    return ROWLOCK_OK;
}

rowlock_status rl_client_read(rowlock_client *client, const rl_budget *budget, rl_sql_id id,
                              const rl_value *values, rl_keep_row keep, void *data, bool *found,
                              rowlock_error *err)
{
    one_row row = {.keep = keep, .data = data};
    reading what = {.id = id, .values = values, .each = keep_first, .data = &row};
    rowlock_status status = read_rows(client, budget, &what, err);
    if (status == ROWLOCK_OK)
        *found = row.found;
    return status;
}

rowlock_status rl_client_read_all(rowlock_client *client, const rl_budget *budget, rl_sql_id id,
                                  const rl_value *values, rl_each_row each, void *data,
                                  rowlock_error *err)
{
    reading what = {.id = id, .values = values, .each = each, .data = data};
    return read_rows(client, budget, &what, err);
}
