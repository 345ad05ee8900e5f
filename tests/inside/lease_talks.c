/* The conversations of kinds that are built on a lease: leaders, once in a period, asks. */
#include "inside/talks.h"
#include "rowlock/rowlock_admin.h"
#include "rowlock/rowlock_leader.h"
#include "rowlock/rowlock_mysql.h"
#include "rowlock/rowlock_once.h"

static rowlock_status lead(talk_state *state, rowlock_hold *hold)
{
    rowlock_leader leader;
    rowlock_status status = rowlock_hold_set_value(hold, "second", &state->err);
    if (status == ROWLOCK_OK)
        status = rowlock_observe(state->client, state->name, NULL, &leader, &state->err);
    if (status == ROWLOCK_OK && strcmp(leader.value, "second") != 0)
        talk_complain("'%s' leads, not 'second'", leader.value);
    return status;
}

rowlock_status talk_leader(talk_state *state)
{
    rowlock_hold *hold = NULL;
    state->how.value = "first";
    rowlock_status status = talk_take(state, &hold);
    return status == ROWLOCK_OK ? talk_give_back(state, hold, lead(state, hold)) : status;
}

static bool is_so(rowlock_once_begun got, rowlock_once_begun wanted)
{
    if (got != wanted)
        talk_complain("the period is %d, not %d", (int)got, (int)wanted);
    return true;
}

/* The same period in each repetition of the talk; a period that is done is begun again. */
static rowlock_status begin(talk_state *state, rowlock_hold *hold, rowlock_once_result *result)
{
    const rowlock_once_options again = {.again = true, .wait_ms = state->how.wait_ms};
    return rowlock_once_begin(hold, 1000, 2000, &again, result, &state->err);
}

static rowlock_status fail_once(talk_state *state, rowlock_hold *hold)
{
    rowlock_once_result result;
    rowlock_status status = begin(state, hold, &result);
    if (status == ROWLOCK_OK && is_so(result.state, ROWLOCK_ONCE_BEGUN))
        status = rowlock_once_failed(hold, 1, &state->err);
    return status;
}

static rowlock_status do_once(talk_state *state, rowlock_hold *hold)
{
    rowlock_once_result result;
    rowlock_status status = begin(state, hold, &result);
    if (status == ROWLOCK_OK && is_so(result.state, ROWLOCK_ONCE_BEGUN))
        status = rowlock_once_done(hold, &state->err);
    return status;
}

static rowlock_status read_ledger(talk_state *state)
{
    const rowlock_once_get_options options = {.name = state->name};
    rowlock_once_runs *runs = NULL;
    rowlock_status status = rowlock_once_get(state->client, &options, &runs, &state->err);
    if (status != ROWLOCK_OK)
        return status;
    const rowlock_once_run *run = rowlock_once_at(runs, 0);
    if (!run || run->state != ROWLOCK_ONCE_RUN_DONE)
        talk_complain("the ledger does not say that the period is done");
    rowlock_once_free(runs);
    return ROWLOCK_OK;
}

rowlock_status talk_once(talk_state *state)
{
    rowlock_hold *hold = NULL;
    rowlock_status status = talk_take(state, &hold);
    if (status == ROWLOCK_OK)
        status = talk_give_back(state, hold, fail_once(state, hold));
    if (status == ROWLOCK_OK)
        status = talk_take(state, &hold);
    if (status == ROWLOCK_OK)
        status = talk_give_back(state, hold, do_once(state, hold));
    return status == ROWLOCK_OK ? read_ledger(state) : status;
}

static rowlock_status do_in_transaction(talk_state *state, rowlock_hold *hold)
{
    rowlock_once_result result;
    rowlock_status status = begin(state, hold, &result);
    if (status != ROWLOCK_OK)
        return status;
    talk_own_sql(state, "START TRANSACTION");
    status = rowlock_tx_once_done(state->client, state->own, state->name, rowlock_hold_token(hold),
                                  &state->err);
    talk_own_sql(state, status == ROWLOCK_OK ? "COMMIT" : "ROLLBACK");
    return status;
}

rowlock_status talk_once_in_transaction(talk_state *state)
{
    rowlock_hold *hold = NULL;
    rowlock_status status = talk_take(state, &hold);
    return status == ROWLOCK_OK ? talk_give_back(state, hold, do_in_transaction(state, hold))
                                : status;
}

rowlock_status talk_ask(talk_state *state)
{
    const rowlock_ask_options why = {.reason = "a talk"};
    rowlock_hold *hold = NULL;
    rowlock_status status = talk_take(state, &hold);
    if (status != ROWLOCK_OK)
        return status;
    status = rowlock_ask(state->client, state->name, &why, &state->err);
    return talk_give_back(state, hold, status);
}

static void note_ask(void *data, rowlock_hold *hold, const rowlock_asked *what)
{
    (void)data;
    (void)hold;
    (void)what;
}

/* The keeper sees the ask, and a thread of its own reads it and calls back; the ask ends with the
 * hold if that comes too late. */
rowlock_status talk_asked(talk_state *state)
{
    rowlock_hold *hold = NULL;
    state->how.on_ask = note_ask;
    rowlock_status status = talk_take(state, &hold);
    if (status != ROWLOCK_OK)
        return status;
    status = rowlock_ask(state->client, state->name, NULL, &state->err);
    ts_pass_ms(state->how.ttl_ms / 2);
    return talk_give_back(state, hold, status);
}
