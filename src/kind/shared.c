/*
 * A lease that is held together with others. A reader enters with one statement, which adds its row
 * while the name is open for readers. A reader keeps no bell: when its turn comes it rings it at
 * once for the next waiter, so that readers that stand next to each other in line enter together.
 *
 * A writer closes the name for readers (`next_owner`), waits for the readers that are in, and takes
 * it. Its version rises only then: a writer that gives up has cost no reader its token.
 */
#include "kind/shared.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/text.h"
#include "engine/settle.h"
#include "kind/lease.h"
#include "wait/backoff.h"

#define READERS_LOOK_US 10000    /* between two looks whether readers are left */
#define CLOSED_US       10000000 /* how long it stays closed if its next writer vanishes */
#define REOPEN_MS       100      /* what opening it again may take: the call is over */

/* ------------------------------------------------------------------------ a reader */

/* Not on such a cluster: a reader only reads the row that a writer changes at another node, and
 * clusters certify writes alone. */
rowlock_status rl_shared_check(const rowlock_client *client, rowlock_error *err)
{
    rl_cluster cluster = rl_pool_cluster(&client->pool);
    if (!rl_many_writers(cluster, client->single_writer))
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNSUPPORTED,
                   "the server is %s: a writer at another node would not see readers here; hold it "
                   "alone, or say that this node is the only one in use (--single-writer, "
                   "single_writer)",
                   rl_cluster_traits_of(cluster)->name);
}

static rowlock_status enter(rl_acquisition *a, rl_conn *conn, bool known_free, rowlock_error *err)
{
    rowlock_hold *hold = a->hold;
    const rl_value values[] = {rl_text(hold->owner), rl_text(hold->client->label),
                               rl_u64((uint64_t)a->hold->held.ttl_us), rl_u64(a->lock->id),
                               rl_text(a->lock->name)};
    return rl_acquire_with(a, conn, known_free, RL_SQL_SHARED_ENTER, values, err);
}

/* Opens a free name for readers. Doing that twice, or without a reader, is harmless. */
static rowlock_status open_and_enter(rl_acquisition *a, rl_conn *conn, bool known_free,
                                     rowlock_error *err)
{
    bool turn = a->turn.conn || a->turn.take_without_bell || atomic_load(&a->turn.bells->polls);
    const rl_value values[] = {rl_u64(turn), rl_text(a->turn.bells->prefix), rl_u64(a->lock->id),
                               rl_text(a->lock->name)};
    rl_trace trace;
    rl_done done = {0};
    RL_TRY(rl_no_effect(rl_client_change_on(conn, a->budget, known_free, RL_SQL_SHARED_OPEN, values,
                                            &trace, &done, err),
                        err));
    return enter(a, conn, known_free, err);
}

static rowlock_status take(rl_acquisition *a, bool known_free, rowlock_error *err)
{
    rl_conn *conn = NULL;
    RL_TRY(rl_shared_check(a->hold->client, err));
    RL_TRY(rl_turn_borrow(&a->turn, &conn, err));
    rowlock_status status = enter(a, conn, known_free, err);
    if (status == ROWLOCK_BUSY && !a->met_transaction && (a->turn.conn || known_free))
        status = open_and_enter(a, conn, known_free, err);
    rl_turn_give_back(&a->turn, conn);
    return status;
}

/* The writer's time is over: frees the lease, as a sweeper would. */
static rowlock_status take_over(rl_acquisition *a, const rl_seen *seen, rowlock_error *err)
{
    bool freed = false;
    RL_TRY(rl_no_effect(
        rl_lease_expire(a->hold->client, a->budget, a->lock->id, seen->version, &freed, err), err));
    rl_bell_seize(a->turn.bells, a->budget, a->lock->id, seen->connection_id);
    a->hint_us = RL_AT_ONCE;
    return rl_fail(err, ROWLOCK_BUSY, "'%s' was held until just now", a->lock->name);
}

static void keep_token(void *data, const rl_cell *cells)
{
    *(uint64_t *)data = cells[0].u64;
}

static rowlock_status find(rl_acquisition *a, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(a->lock->id), rl_text(a->hold->owner)};
    bool found = false;
    RL_TRY(rl_client_read(a->hold->client, a->budget, RL_SQL_SHARED_TOKEN, values, keep_token,
                          &a->lock->version, &found, err));
    if (found)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_BUSY, "'%s' was not entered", a->lock->name);
}

/* No row was deleted. MariaDB answers so, too, when the statement was stopped. */
static rowlock_status has_left(const rl_departure *d, rl_conn *conn, rowlock_error *err)
{
    const rl_lock *lock = &d->hold->locks[0];
    const rl_value values[] = {rl_u64(lock->id), rl_text(d->hold->owner)};
    rl_io io = rl_budget_quick_io(d->budget);
    uint64_t token = 0;
    RL_TRY(rl_no_effect(rl_query_number(conn, RL_SQL_SHARED_TOKEN, values, &io, &token, err), err));
    if (token != lock->version)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNAVAILABLE,
                   "'%s' could not be released: a statement was stopped by somebody", lock->name);
}

rowlock_status rl_shared_leave(rl_departure *d, rl_conn *conn, bool has_bell, rl_done *done,
                               rowlock_error *err)
{
    const rowlock_hold *hold = d->hold;
    const rl_lock *lock = &hold->locks[0];
    const rl_value values[] = {rl_u64(lock->id), rl_u64(lock->version), rl_text(hold->owner)};
    rl_io io = rl_budget_quick_io(d->budget);
    (void)has_bell;
    RL_TRY(rl_run(conn, RL_SQL_SHARED_LEAVE, values, &io, done, err));
    return done->rows > 0 ? ROWLOCK_OK : has_left(d, conn, err);
}

/* After a break the name keeps writers out until our time is over: end that now. */
void rl_shared_ended(const rl_departure *d)
{
    const rowlock_hold *hold = d->hold;
    const rl_value values[] = {rl_u64(hold->locks[0].id), rl_text(hold->owner)};
    (void)!rl_client_run(hold->client, d->budget, RL_SQL_SHARED_ENDED, values, NULL, NULL);
}

const rl_driver rl_shared_driver = {.kind = RL_KIND_LEASE,
                                    .shared = true,
                                    .take = take,
                                    .take_over = take_over,
                                    .find = find,
                                    .leave = rl_shared_leave,
                                    .reopen = rl_shared_ended};

/* --------------------------------------------------------------------- the next writer */

/* A writer that closes a name for readers. */
typedef struct writer {
    rowlock_client *client;
    const rl_budget *budget;
    const char *name;
    uint64_t id;
    uint64_t version; /* as it was read: no writer has come since */
    const char *owner;
    bool turn; /* it is first in line; else it does not overtake those in line */
} writer;

/* The result of closing it. */
typedef struct closing {
    bool done; /* we may have closed it */
    rl_trace request;
    bool unsettled; /* whose reply was lost */
} closing;

static rowlock_status busy(const writer *w, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_BUSY, "'%s' is held by readers, or in use by a transaction",
                   w->name);
}

/* A lost reply is settled before anything else is done: a close that comes late would close it
 * behind readers that have come in since. */
static rowlock_status close_for_readers(const writer *w, closing *closed, rowlock_error *err)
{
    const bool try_once = w->budget->try_once;
    const rl_value values[] = {rl_u64(w->turn),
                               rl_text(w->client->bells.prefix),
                               rl_u64(w->version),
                               rl_text(w->owner),
                               rl_text(w->client->label),
                               rl_u64(CLOSED_US),
                               rl_u64(w->id),
                               rl_text(w->name)};
    rl_done done = {0};
    rowlock_status status =
        rl_client_change(w->client, w->budget, NULL, !try_once, RL_SQL_SHARED_CLOSE, values,
                         &closed->request, &done, err);
    closed->unsettled = status == ROWLOCK_UNKNOWN;
    closed->done = closed->done || closed->unsettled || done.rows > 0;
    if (status == ROWLOCK_TIMEOUT && try_once)
        return busy(w, err);
    RL_TRY(rl_no_effect(status, err));
    return done.rows > 0 ? ROWLOCK_OK : busy(w, err);
}

/* What a look at the readers finds: one of them, if there is one. */
typedef struct reader {
    bool closed; /* no reader can have come in */
    bool in;
    int64_t left_us;
    char label[ROWLOCK_LABEL_MAX * 4 + 1];
} reader;

static void keep_reader(void *data, const rl_cell *cells)
{
    reader *one = data;
    one->closed = cells[0].u64 != 0;
    one->in = cells[1].text[0] != '\0';
    snprintf(one->label, sizeof one->label, "%s", cells[2].text);
    one->left_us = cells[3].i64;
}

/* Without a row in the answer nothing is known (sql/shared.sql). */
static rowlock_status look_for_reader(const writer *w, reader *one, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(w->version), rl_text(w->owner), rl_u64(w->id)};
    bool found = false;
    *one = (reader){.left_us = 1};
    RL_TRY(rl_client_read(w->client, w->budget, RL_SQL_SHARED_READER, values, keep_reader, one,
                          &found, err));
    if (!found)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' changed just now", w->name);
    if (one->in)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is held by a reader, %s", w->name, one->label);
    return ROWLOCK_OK;
}

/* OK: no reader is left, and none can enter. Deletes readers whose time is over. */
static rowlock_status none_is_in(const writer *w, rowlock_error *err)
{
    reader one;
    rl_done done = {0};
    const rl_value values[] = {rl_u64(w->id)};
    rowlock_status status = look_for_reader(w, &one, err);
    if (status == ROWLOCK_BUSY && one.in && one.left_us <= 0) {
        RL_TRY(rl_no_effect(
            rl_client_run(w->client, w->budget, RL_SQL_SHARED_EXPIRE, values, &done, err), err));
        status = look_for_reader(w, &one, err);
    }
    if (status == ROWLOCK_OK && !one.closed)
        return busy(w, err);
    return status;
}

/* A call that does not wait closes nothing while a reader is in. */
static rowlock_status is_worth_it(const writer *w, rowlock_error *err)
{
    reader one;
    rowlock_status status = look_for_reader(w, &one, err);
    return status == ROWLOCK_BUSY && one.in && one.left_us <= 0 ? ROWLOCK_OK : status;
}

/* Or for the first time. */
static rowlock_status close_again(rl_acquisition *a, const writer *w, rowlock_error *err)
{
    closing closed = {.done = a->draining};
    rowlock_status status = close_for_readers(w, &closed, err);
    a->draining = closed.done;
    if (closed.unsettled) {
        a->request = closed.request;
        a->was_close = true;
        a->stage = RL_STAGE_SETTLE;
    }
    return status;
}

rowlock_status rl_shared_drain(rl_acquisition *a, const rl_seen *seen, rowlock_error *err)
{
    const writer w = {.client = a->hold->client,
                      .budget = a->budget,
                      .name = a->lock->name,
                      .id = a->lock->id,
                      .version = seen->version,
                      .owner = a->hold->owner,
                      .turn = a->turn.conn || a->turn.take_without_bell || a->draining ||
                              atomic_load(&a->turn.bells->polls)};
    a->hint_us = READERS_LOOK_US;
    if (a->budget->try_once && !a->draining)
        RL_TRY(is_worth_it(&w, err));
    if (seen->verdict == RL_VERDICT_SHARED || seen->left_us < CLOSED_US / 2)
        RL_TRY(close_again(a, &w, err));
    a->draining = true;
    return none_is_in(&w, err);
}

static void open_again(rowlock_client *client, uint64_t id, const char *owner)
{
    const rl_value values[] = {rl_u64(id), rl_text(owner)};
    rl_budget budget = rl_budget_start(REOPEN_MS, REOPEN_MS, NULL);
    (void)!rl_client_run(client, &budget, RL_SQL_SHARED_REOPEN, values, NULL, NULL);
}

void rl_shared_reopen(rl_acquisition *a)
{
    a->draining = false;
    open_again(a->hold->client, a->lock->id, a->hold->owner);
}

rowlock_status rl_shared_make_free(rowlock_client *client, const rl_budget *budget,
                                   const char *name, uint64_t id, uint64_t version,
                                   rowlock_error *err)
{
    /* One for each call: what an earlier one has sent, and is late, finds another one there. */
    char owner[ROWLOCK_OWNER_MAX + 1];
    rl_client_owner(client, owner);
    const writer w = {.client = client,
                      .budget = budget,
                      .name = name,
                      .id = id,
                      .version = version,
                      .owner = owner};
    const rl_value values[] = {rl_text(owner), rl_u64(id)};
    rl_done done = {0};
    closing closed = {.done = false};
    RL_TRY(is_worth_it(&w, err));
    rowlock_status status = close_for_readers(&w, &closed, err);
    if (status == ROWLOCK_OK)
        status = none_is_in(&w, err);
    if (status == ROWLOCK_OK)
        status = rl_no_effect(rl_client_run(client, budget, RL_SQL_SHARED_FREE, values, &done, err),
                              err);
    if (status != ROWLOCK_OK && closed.done)
        open_again(client, id, owner);
    return status;
}

/* -------------------------------------------------------------------- from one to the other */

/* The name cannot be closed for us: another writer has closed it, and each would wait for the
 * other; or this hold was broken. */
static rowlock_status not_closed(const rowlock_hold *hold, const rl_budget *budget,
                                 rowlock_error *err)
{
    const rl_lock *lock = &hold->locks[0];
    const rl_value values[] = {rl_u64(lock->id), rl_text(hold->owner)};
    uint64_t token = 0;
    bool found = false;
    rl_seen seen;
    RL_TRY(rl_client_read(hold->client, budget, RL_SQL_SHARED_TOKEN, values, keep_token, &token,
                          &found, err));
    if (!found || token != lock->version)
        return rl_fail(err, ROWLOCK_LOST, "'%s' is no longer held (token %" PRIu64 ")", lock->name,
                       lock->version);
    RL_TRY(rl_look(hold->client, budget, lock->id, lock->name, RL_KIND_LEASE, hold->owner, &seen,
                   err));
    if (seen.verdict == RL_VERDICT_DRAINING && !seen.ours)
        return rl_fail(err, ROWLOCK_DEADLOCK,
                       "another writer waits for '%s'; release it and acquire it again",
                       lock->name);
    return rl_fail(err, ROWLOCK_BUSY, "'%s' is in use by a transaction", lock->name);
}

rowlock_status rl_shared_upgrade(rowlock_hold *hold, const rl_budget *budget, rowlock_error *err)
{
    rowlock_client *client = hold->client;
    const rl_lock *lock = &hold->locks[0];
    const uint64_t token = lock->version;
    const writer w = {.client = client,
                      .budget = budget,
                      .name = lock->name,
                      .id = lock->id,
                      .version = token,
                      .owner = hold->owner,
                      .turn = true};
    closing closed = {.done = false};
    rowlock_status status = close_for_readers(&w, &closed, err);
    if (closed.unsettled)
        (void)!rl_settle(client, budget, &closed.request, NULL);
    if (status == ROWLOCK_BUSY)
        return not_closed(hold, budget, err);
    if (status == ROWLOCK_OK)
        status = rl_acquire_alone(&rl_lease_driver, hold, budget, err);
    else if (closed.done)
        open_again(client, lock->id, hold->owner);
    if (status != ROWLOCK_OK)
        return status;
    const rl_value values[] = {rl_u64(lock->id), rl_u64(token), rl_text(hold->owner)};
    (void)!rl_client_run(client, budget, RL_SQL_SHARED_LEAVE, values, NULL, NULL);
    return ROWLOCK_OK;
}

static rowlock_status change_one(const rowlock_hold *hold, rl_sql_id id, const rl_value *values,
                                 rowlock_error *err)
{
    rl_budget budget = rl_budget_start(0, hold->client->limit_ms, NULL);
    rl_done done = {0};
    RL_TRY(rl_client_run_match(hold->client, &budget, id, values, &done, err));
    if (done.rows > 0)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_LOST, "'%s' is no longer held (token %" PRIu64 ")",
                   hold->locks[0].name, hold->locks[0].version);
}

rowlock_status rl_shared_downgrade(rowlock_hold *hold, rowlock_error *err)
{
    const rl_lock *lock = &hold->locks[0];
    const int64_t sent_us = rl_now_us();
    const rl_value join[] = {rl_text(hold->client->label), rl_u64((uint64_t)hold->held.ttl_us),
                             rl_u64(lock->id), rl_u64(lock->version), rl_text(hold->owner)};
    const rl_value begin[] = {rl_u64(lock->id), rl_u64(lock->version), rl_text(hold->owner)};
    /* Until it is known what it is, nothing is renewed. */
    rl_hold_leave_alone(hold);
    rowlock_status status = change_one(hold, RL_SQL_SHARED_JOIN, join, err);
    if (status == ROWLOCK_OK)
        status = change_one(hold, RL_SQL_SHARED_BEGIN, begin, err);
    if (status == ROWLOCK_UNKNOWN || status == ROWLOCK_LOST)
        rl_hold_give_up(hold);
    else if (status != ROWLOCK_OK)
        rl_hold_keep_again(hold);
    if (status != ROWLOCK_OK)
        return status;
    hold->shared = true;
    rl_bell_give_up(&hold->client->bells, &hold->bell, lock->id);
    rl_hold_changed(hold, sent_us);
    return ROWLOCK_OK;
}
