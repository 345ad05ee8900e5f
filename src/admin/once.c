/* Lists the ledger of what is done once in a period. */
#include <string.h>

#include "admin/admin.h"

/* The columns of once_list and once_list_all. */
enum {
    COLUMN_NOW,
    COLUMN_NAME,
    COLUMN_START,
    COLUMN_END,
    COLUMN_STATE,
    COLUMN_ALIVE,
    COLUMN_TOKEN,
    COLUMN_LABEL,
    COLUMN_ATTEMPTS,
    COLUMN_STARTED,
    COLUMN_ENDED,
    COLUMN_TOOK_US,
    COLUMN_EXIT_STATUS
};

static rowlock_once_state state_of(const rl_cell *cells)
{
    if (strcmp(cells[COLUMN_STATE].text, "done") == 0)
        return ROWLOCK_ONCE_RUN_DONE;
    if (strcmp(cells[COLUMN_STATE].text, "failed") == 0)
        return ROWLOCK_ONCE_RUN_FAILED;
    return cells[COLUMN_ALIVE].u64 ? ROWLOCK_ONCE_RUN_RUNNING : ROWLOCK_ONCE_RUN_DIED;
}

static rowlock_status add(void *data, const rl_cell *cells, rowlock_error *err)
{
    rowlock_once_runs *runs = data;
    rl_list *list = &runs->all;
    runs->now_us = cells[COLUMN_NOW].i64;
    if (!*cells[COLUMN_NAME].text)
        return ROWLOCK_OK;
    rowlock_once_run *run = rl_list_add(list, err);
    if (!run)
        return ROWLOCK_SYSTEM;
    *run = (rowlock_once_run){
        .name = rl_list_keep(list, &cells[COLUMN_NAME]),
        .start_us = cells[COLUMN_START].i64,
        .end_us = cells[COLUMN_END].i64,
        .state = state_of(cells),
        .attempts = (unsigned)cells[COLUMN_ATTEMPTS].u64,
        .token = cells[COLUMN_TOKEN].u64,
        .owner_label = rl_list_keep(list, &cells[COLUMN_LABEL]),
        .started_at = rl_list_keep(list, &cells[COLUMN_STARTED]),
        .ended_at = rl_list_keep(list, &cells[COLUMN_ENDED]),
        .took_ms = cells[COLUMN_TOOK_US].i64 < 0 ? 0 : cells[COLUMN_TOOK_US].i64 / 1000,
        .has_exit_status = !cells[COLUMN_EXIT_STATUS].null,
        .exit_status = (int)cells[COLUMN_EXIT_STATUS].i64};
    return ROWLOCK_OK;
}

rowlock_status rl_once_list(rowlock_client *client, const rowlock_once_get_options *options,
                            rowlock_once_runs **out, rowlock_error *err)
{
    const char *name = options->name;
    const rl_value one[] = {rl_text(name ? name : ""), rl_u64((uint64_t)options->ends_after_us),
                            rl_u64((uint64_t)options->starts_before_us), rl_u64(options->limit)};
    const rl_value all[] = {rl_text(options->after ? options->after : ""), rl_u64(options->limit)};
    rowlock_once_runs *runs = rl_list_new(client, sizeof *runs, sizeof(rowlock_once_run), err);
    if (!runs)
        return ROWLOCK_SYSTEM;
    rowlock_status status = rl_list_read(&runs->all, name ? RL_SQL_ONCE_LIST : RL_SQL_ONCE_LIST_ALL,
                                         name ? one : all, add, err);
    /* A row comes in any case: without one the read was stopped. */
    if (status == ROWLOCK_OK && runs->now_us == 0)
        status = rl_fail(err, ROWLOCK_UNAVAILABLE, "the server ended the statement (KILL QUERY?)");
    if (status == ROWLOCK_OK)
        *out = runs;
    else
        rl_list_free(runs);
    return rl_no_effect(status, err);
}
