#include "admin/waiters.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/text.h"

/* The columns of waiters_of_leases and waiters_of_rows. */
enum { COLUMN_NAME, COLUMN_WHO, COLUMN_OWNER, COLUMN_CONNECTION, COLUMN_WAITED_MS };

static const char not_shown[] = "waiters, which this server does not show";

static rowlock_status add(rowlock_waiters *waiters, rowlock_mode mode, const rl_cell *cells,
                          rowlock_error *err)
{
    if (cells[COLUMN_CONNECTION].u64 == 0) {
        waiters->hidden = not_shown;
        return ROWLOCK_OK;
    }
    if (!RL_GROW(waiters->items, waiters->count, waiters->capacity))
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    /* The server knows any bytes: what gets out is clean, as labels are. */
    char who[ROWLOCK_LABEL_MAX + 1];
    rl_copy_label(who, sizeof who, cells[COLUMN_WHO].text);
    waiters->items[waiters->count++] =
        (rowlock_waiter){.mode = mode,
                         .name = rl_texts_keep(&waiters->texts, cells[COLUMN_NAME].text),
                         .who = rl_texts_keep(&waiters->texts, who),
                         .owner = rl_texts_keep(&waiters->texts, cells[COLUMN_OWNER].text),
                         .connection_id = cells[COLUMN_CONNECTION].u64,
                         .waited_ms = cells[COLUMN_WAITED_MS].i64};
    return waiters->texts.failed ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory") : ROWLOCK_OK;
}

static rowlock_status add_of_lease(void *data, const rl_cell *cells, rowlock_error *err)
{
    return add(data, ROWLOCK_OPTIMISTIC, cells, err);
}

static rowlock_status add_of_row(void *data, const rl_cell *cells, rowlock_error *err)
{
    return add(data, ROWLOCK_PESSIMISTIC, cells, err);
}

static int by_name_and_turn(const void *a, const void *b)
{
    const rowlock_waiter *one = a;
    const rowlock_waiter *other = b;
    int order = strcmp(one->name, other->name);
    if (order == 0)
        order = (one->waited_ms < other->waited_ms) - (one->waited_ms > other->waited_ms);
    if (order == 0)
        order = (one->connection_id > other->connection_id) -
                (one->connection_id < other->connection_id);
    return order;
}

/* That this user may not see them, or that this server does not show them, is no failure. */
static const char *hidden_by(rl_sql_id id, rowlock_status status)
{
    if (status == ROWLOCK_DENIED && id == RL_SQL_WAITERS_OF_ROWS)
        return "waiters of other users and of row locks; seeing them takes the privilege PROCESS, "
               "on MySQL also SELECT on performance_schema.data_locks";
    if (status == ROWLOCK_SCHEMA || status == ROWLOCK_SERVER)
        return not_shown;
    return "";
}

static rowlock_status read_some(rowlock_client *client, const rl_budget *budget, rl_sql_id id,
                                const rl_value *values, rl_each_row each, rowlock_waiters *waiters,
                                rowlock_error *err)
{
    rowlock_error why;
    rowlock_status status = rl_client_read_all(client, budget, id, values, each, waiters, &why);
    const char *hidden = hidden_by(id, status);
    if (*hidden) {
        waiters->hidden = hidden;
        return ROWLOCK_OK;
    }
    if (status != ROWLOCK_OK && err)
        *err = why;
    return status;
}

rowlock_status rl_waiters_get(rowlock_client *client, const rowlock_waiters_options *options,
                              rowlock_waiters **out, rowlock_error *err)
{
    rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    const char *name = options->name ? options->name : "";
    rowlock_waiters *waiters = calloc(1, sizeof *waiters);
    if (!waiters)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    waiters->hidden = "";
    const rl_value at_bells[] = {rl_text(client->bells.prefix), rl_text(name),
                                 rl_u64(!rl_client_via(client))};
    const rl_value at_rows[] = {rl_text(name)};
    rowlock_status status =
        read_some(client, &budget, RL_SQL_WAITERS_OF_LEASES, at_bells, add_of_lease, waiters, err);
    if (status == ROWLOCK_OK)
        status =
            read_some(client, &budget, RL_SQL_WAITERS_OF_ROWS, at_rows, add_of_row, waiters, err);
    if (waiters->count > 1)
        qsort(waiters->items, waiters->count, sizeof *waiters->items, by_name_and_turn);
    if (status == ROWLOCK_OK)
        *out = waiters;
    else
        rl_waiters_free(waiters);
    return status;
}

void rl_waiters_free(rowlock_waiters *waiters)
{
    if (!waiters)
        return;
    rl_texts_free(&waiters->texts);
    free(waiters->items);
    free(waiters);
}
