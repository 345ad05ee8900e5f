#include "admin/admin.h"

#include <stdlib.h>
#include <string.h>

/* The columns of all three statements. */
enum { COLUMN_NAME, COLUMN_WHO, COLUMN_OWNER, COLUMN_CONNECTION, COLUMN_WAITED_MS };

static const char not_shown[] = "waiters, which this server does not show";

static rowlock_status add(void *data, const rl_cell *cells, rowlock_error *err)
{
    rowlock_waiters *waiters = data;
    if (!*cells[COLUMN_NAME].text) {
        waiters->hidden = not_shown;
        return ROWLOCK_OK;
    }
    rowlock_waiter *waiter = rl_list_add(&waiters->all, err);
    if (!waiter)
        return ROWLOCK_SYSTEM;
    /* The server knows any bytes: what gets out is clean, as labels are. */
    char who[ROWLOCK_LABEL_MAX + 1];
    rl_copy_label(who, sizeof who, cells[COLUMN_WHO].text);
    *waiter = (rowlock_waiter){.mode = waiters->mode,
                               .name = rl_list_keep(&waiters->all, &cells[COLUMN_NAME]),
                               .who = rl_texts_keep(&waiters->all.texts, who),
                               .owner = rl_list_keep(&waiters->all, &cells[COLUMN_OWNER]),
                               .connection_id = cells[COLUMN_CONNECTION].u64,
                               .waited_ms = cells[COLUMN_WAITED_MS].i64};
    return ROWLOCK_OK;
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

static rowlock_status read_some(rowlock_waiters *waiters, rowlock_mode mode, rl_sql_id id,
                                const rl_value *values, rowlock_error *err)
{
    rowlock_error why;
    waiters->mode = mode;
    rowlock_status status = rl_list_read(&waiters->all, id, values, add, &why);
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
    const rl_value name = rl_text(options->name ? options->name : "");
    const rl_value open = rl_u64(!rl_client_via(client));
    const rl_value at_bells[] = {rl_text(client->bells.prefix), name, open};
    const rl_value at_barriers[] = {open, name};
    rowlock_waiters *waiters = rl_list_new(client, sizeof *waiters, sizeof(rowlock_waiter), err);
    if (!waiters)
        return ROWLOCK_SYSTEM;
    waiters->hidden = "";
    rowlock_status status =
        read_some(waiters, ROWLOCK_OPTIMISTIC, RL_SQL_WAITERS_OF_LEASES, at_bells, err);
    if (status == ROWLOCK_OK)
        status =
            read_some(waiters, ROWLOCK_OPTIMISTIC, RL_SQL_WAITERS_AT_BARRIERS, at_barriers, err);
    if (status == ROWLOCK_OK)
        status = read_some(waiters, ROWLOCK_PESSIMISTIC, RL_SQL_WAITERS_OF_ROWS, &name, err);
    if (waiters->all.count > 1)
        qsort(waiters->all.items, waiters->all.count, sizeof(rowlock_waiter), by_name_and_turn);
    if (status == ROWLOCK_OK)
        *out = waiters;
    else
        rl_list_free(waiters);
    return status;
}
