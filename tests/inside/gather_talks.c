/* The conversations of latches and barriers. (Their names are made from the lock's, which another
 * client takes afterwards.) */
#include "inside/talks.h"
#include "rowlock/rowlock_barrier.h"
#include "rowlock/rowlock_latch.h"
#include "rowlock/rowlock_queue.h"

typedef struct name {
    char text[80];
} name;

static name name_of(const talk_state *state, const char *kind)
{
    name n;
    snprintf(n.text, sizeof n.text, "%s-%s", state->name, kind);
    return n;
}

/* Counts down twice, as two parties would, and waits. */
rowlock_status talk_latch(talk_state *state)
{
    const rowlock_latch_options options = {.wait_ms = state->how.wait_ms};
    const name latch = name_of(state, "latch");
    rowlock_latch_info info;
    uint64_t generation = 0;
    rowlock_error *err = &state->err;
    rowlock_status status = rowlock_latch_set(state->client, latch.text, 2, &generation, err);
    if (status == ROWLOCK_OK)
        status = rowlock_latch_down(state->client, latch.text, "first", generation, err);
    if (status == ROWLOCK_OK)
        status = rowlock_latch_get(state->client, latch.text, &info, err);
    if (status == ROWLOCK_OK && info.down != 1)
        talk_complain("one has counted, and %u are shown", info.down);
    if (status == ROWLOCK_OK)
        status = rowlock_latch_down(state->client, latch.text, NULL, 0, err);
    if (status == ROWLOCK_OK)
        status = rowlock_latch_wait(state->client, latch.text, &options, &generation, err);
    return status;
}

rowlock_status talk_latch_in_vain(talk_state *state)
{
    const rowlock_latch_options options = {.wait_ms = 60};
    const name latch = name_of(state, "latch");
    rowlock_status status = rowlock_latch_set(state->client, latch.text, 1, NULL, &state->err);
    if (status == ROWLOCK_OK)
        status = rowlock_latch_wait(state->client, latch.text, &options, NULL, &state->err);
    return status == ROWLOCK_TIMEOUT ? ROWLOCK_OK : status;
}

rowlock_status talk_latch_member(talk_state *state)
{
    const rowlock_latch_join_options options = {.ttl_ms = state->how.ttl_ms, .key = "member"};
    const name latch = name_of(state, "latch");
    rowlock_hold *hold = NULL;
    rowlock_status status = rowlock_latch_set(state->client, latch.text, 2, NULL, &state->err);
    if (status == ROWLOCK_OK)
        status = rowlock_latch_join(state->client, latch.text, &options, &hold, &state->err);
    if (status == ROWLOCK_OK)
        status = rowlock_latch_done(hold, &state->err);
    if (status != ROWLOCK_OK)
        return status;
    /* A member that leaves without counting down. */
    status = rowlock_latch_join(state->client, latch.text, NULL, &hold, &state->err);
    return status == ROWLOCK_OK ? rowlock_release(hold, &state->err) : status;
}

rowlock_status talk_latch_in_transaction(talk_state *state)
{
    const name latch = name_of(state, "latch");
    rowlock_status status = rowlock_latch_set(state->client, latch.text, 1, NULL, &state->err);
    if (status != ROWLOCK_OK)
        return status;
    talk_own_sql(state, "START TRANSACTION");
    status = rowlock_tx_latch_down(state->client, state->own, latch.text, "key", 0, &state->err);
    talk_own_sql(state, status == ROWLOCK_OK ? "COMMIT" : "ROLLBACK");
    return status;
}

/* A barrier of one party: it is the first to enter, and the last. */
rowlock_status talk_barrier(talk_state *state)
{
    const rowlock_barrier_options options = {.wait_ms = state->how.wait_ms,
                                             .ttl_ms = state->how.ttl_ms};
    const name barrier = name_of(state, "barrier");
    rowlock_hold *hold = NULL;
    rowlock_status status =
        rowlock_barrier_enter(state->client, barrier.text, 1, &options, &hold, &state->err);
    if (status != ROWLOCK_OK)
        return status;
    status = rowlock_barrier_leave(hold, state->how.wait_ms, NULL, &state->err);
    return talk_give_back(state, hold, status);
}

rowlock_status talk_barrier_in_vain(talk_state *state)
{
    const rowlock_barrier_options options = {.wait_ms = 60, .ttl_ms = state->how.ttl_ms};
    const name barrier = name_of(state, "barrier");
    rowlock_hold *hold = NULL;
    rowlock_status status =
        rowlock_barrier_enter(state->client, barrier.text, 2, &options, &hold, &state->err);
    return status == ROWLOCK_TIMEOUT ? ROWLOCK_OK : status;
}

/* --------------------------------------------------------------------------------- queues */

static rowlock_status put_some(talk_state *state, const char *queue)
{
    const rowlock_put_options plain = {.key = "k"};
    const rowlock_put_options grouped = {.group = "g"};
    const rowlock_put_entry entries[] = {{.payload = "1", .size = 1, .options = &plain},
                                         {.payload = "2", .size = 1, .options = &grouped},
                                         {.payload = "3", .size = 1, .options = &grouped}};
    return rowlock_queue_put_batch(state->client, queue, entries, 3, NULL, &state->err);
}

/* Takes each ready item: retries it after the first attempt, and ends it after the second. */
static rowlock_status work_off(talk_state *state, const char *queue)
{
    const rowlock_take_options options = {.wait_ms = state->how.wait_ms,
                                          .ttl_ms = state->how.ttl_ms};
    const rowlock_retry_options at_once = {.delay_ms = 1};
    rowlock_item *items[3] = {NULL};
    size_t count = 0;
    rowlock_status status =
        rowlock_queue_take(state->client, queue, &options, &items[0], &state->err);
    if (status == ROWLOCK_OK)
        status = rowlock_item_retry(items[0], &at_once, &state->err);
    if (status == ROWLOCK_OK)
        status =
            rowlock_queue_take_batch(state->client, queue, 3, &options, items, &count, &state->err);
    return status == ROWLOCK_OK ? rowlock_item_done_batch(items, count, NULL, &state->err) : status;
}

rowlock_status talk_queue(talk_state *state)
{
    const name queue = name_of(state, "queue");
    rowlock_queue_info info;
    rowlock_status status = put_some(state, queue.text);
    if (status == ROWLOCK_OK)
        status = work_off(state, queue.text);
    if (status == ROWLOCK_OK)
        status = rowlock_queue_get(state->client, queue.text, &info, &state->err);
    if (status == ROWLOCK_OK && info.in_flight != 0)
        talk_complain("all are ended, and %u are in flight", (unsigned)info.in_flight);
    return status;
}

rowlock_status talk_queue_in_transaction(talk_state *state)
{
    const name queue = name_of(state, "queue");
    const rowlock_put_options options = {.group = "g"};
    rowlock_item *item = NULL;
    talk_own_sql(state, "START TRANSACTION");
    rowlock_status status = rowlock_tx_queue_put(state->client, state->own, queue.text, "x", 1,
                                                 &options, NULL, &state->err);
    talk_own_sql(state, status == ROWLOCK_OK ? "COMMIT" : "ROLLBACK");
    if (status == ROWLOCK_OK)
        status = rowlock_queue_take(state->client, queue.text, NULL, &item, &state->err);
    if (status != ROWLOCK_OK)
        return status;
    talk_own_sql(state, "START TRANSACTION");
    status = rowlock_tx_queue_done(state->client, state->own, queue.text, rowlock_item_id(item),
                                   rowlock_item_token(item), &state->err);
    talk_own_sql(state, status == ROWLOCK_OK ? "COMMIT" : "ROLLBACK");
    rowlock_item_forget(item);
    return status;
}
