#include "bell/turn.h"

#include "base/random.h"
#include "stmt/session.h"

#define FIRST_LOOK_US 250000 /* and up to half as much again */
#define WAIT_MOST_S   86400  /* in the bell queue at a stretch */
/* A connection that waits or has a bell is ended by the server once it has been idle for its TTL,
 * and for this at least: its host has vanished. The keeper lets the server hear from those that
 * live (rl_pool_touch_pinned()). */
#define IDLE_LEAST_S  60

/* ----------------------------------------------------------------------------- waiting */

typedef struct watch {
    rl_turn *turn;
    rl_io base;
} watch;

/* The wait of the call, which looks at the lease in between, without leaving the bell queue. */
static rl_waited wait_and_look(void *self, int fd, short events, short *revents, int64_t until_us)
{
    const watch *w = self;
    rl_turn *turn = w->turn;
    while (turn->look_us && turn->look_us < until_us) {
        rl_waited waited = w->base.wait(w->base.self, fd, events, revents, turn->look_us);
        if (waited != RL_EXPIRED)
            return waited;
        turn->look_us = 0;
        turn->take_without_bell = turn->look(turn->data, &turn->look_us);
        if (turn->take_without_bell)
            return RL_EXPIRED;
    }
    return w->base.wait(w->base.self, fd, events, revents, until_us);
}

/* The server's timeouts are whole seconds on MySQL; the io ends the wait to the millisecond. */
static uint64_t seconds_to_wait(const rl_budget *budget)
{
    if (budget->deadline_us == RL_NEVER)
        return WAIT_MOST_S;
    int64_t left_s = (budget->deadline_us - rl_now_us()) / 1000000 + 2;
    if (left_s < 1)
        return 1;
    return left_s < WAIT_MOST_S ? (uint64_t)left_s : WAIT_MOST_S;
}

static rowlock_status stand_in_queue(rl_turn *turn, rl_conn *conn, bool *got, rowlock_error *err)
{
    const rl_budget *budget = turn->budget;
    watch w = {.turn = turn, .base = rl_budget_lock_io(budget)};
    rl_io io = {.wait = wait_and_look, .self = &w, .deadline_us = w.base.deadline_us};
    const rl_waiter waiter = {.resource_id = turn->resource_id,
                              .waited_ms = (uint64_t)((rl_now_us() - budget->start_us) / 1000),
                              .owner = turn->owner,
                              .label = turn->label};
    if (turn->look_us == 0)
        turn->look_us =
            rl_now_us() + FIRST_LOOK_US + (int64_t)(rl_random_u32() % (FIRST_LOOK_US / 2));
    int64_t start_us = rl_now_us();
    rowlock_status status =
        rl_bell_wait(conn, turn->bells, &waiter, seconds_to_wait(budget), &io, got, err);
    turn->waited_us = rl_now_us() - start_us;
    return status;
}

static rowlock_status open_place(rl_turn *turn, rl_conn **conn, rowlock_error *err)
{
    static const rl_request quiet = {.pins = RL_PINS_NONE};
    rl_io io = rl_budget_quick_io(turn->budget);
    uint64_t ttl_s = (uint64_t)(turn->ttl_us / 1000000) + 1;
    RL_TRY(rl_pool_take(turn->bells->pool, &quiet, &io, conn, err));
    return rl_set_idle_limit(*conn, ttl_s > IDLE_LEAST_S ? ttl_s : IDLE_LEAST_S, &io, err);
}

/* Out of the bell queue without the bell: what it means for the call. */
static rowlock_status came_out(const rl_turn *turn, rowlock_error *err)
{
    if (turn->take_without_bell)
        return ROWLOCK_OK;
    if (rl_budget_cancelled(turn->budget))
        return rl_fail(err, ROWLOCK_CANCELLED, "%s", rowlock_status_text(ROWLOCK_CANCELLED));
    if (rl_budget_spent(turn->budget))
        return rl_fail(err, ROWLOCK_TIMEOUT, "%s", rowlock_status_text(ROWLOCK_TIMEOUT));
    return ROWLOCK_BUSY;
}

/* We stopped waiting just when the bell came. The connection is to be closed, since our KILL QUERY
 * may still hit it. Ring first, so that the bell is free when this call returns; twice, since the
 * KILL QUERY may hit the first ring. */
static void ring_at_last(const rl_turn *turn, rl_conn *conn)
{
    if (rl_bell_ring_soon(conn, turn->bells, turn->resource_id) != ROWLOCK_OK && !conn->broken)
        (void)!rl_bell_ring_soon(conn, turn->bells, turn->resource_id);
}

/* Takes the bell, and its connection. BUSY: not acquired. */
static rowlock_status queue_up(rl_turn *turn, rowlock_error *err)
{
    rl_conn *conn = NULL;
    bool got = false;
    rowlock_status status = open_place(turn, &conn, err);
    if (status == ROWLOCK_OK) {
        status = stand_in_queue(turn, conn, &got, err);
        (void)rl_bell_refused(turn->bells, status, err);
    }
    if (got && !conn->interrupted) {
        conn->pooled.pins++;
        turn->conn = conn;
        return ROWLOCK_OK;
    }
    if (got)
        ring_at_last(turn, conn);
    rl_pool_give(turn->bells->pool, conn);
    return ROWLOCK_BUSY;
}

/* In the client line. BUSY: look() said yes. */
static rowlock_status stand_in_line(rl_turn *turn, rowlock_error *err)
{
    rl_lines *lines = &turn->bells->lines;
    int64_t look_us = turn->looks_in_line ? rl_now_us() + FIRST_LOOK_US : RL_NEVER;
    for (;;) {
        rowlock_status status =
            rl_line_stand(lines, turn->resource_id, turn->budget, look_us, &turn->place, err);
        if (status != ROWLOCK_BUSY)
            return status;
        look_us = rl_now_us() + FIRST_LOOK_US;
        turn->take_without_bell = turn->look(turn->data, &look_us);
        if (turn->take_without_bell)
            return ROWLOCK_BUSY;
    }
}

static bool may_wait(const rl_turn *turn)
{
    return !turn->budget->try_once && !turn->conn && !atomic_load(&turn->bells->polls);
}

bool rl_turn_waits_first(const rl_turn *turn)
{
    return may_wait(turn) && !turn->place.in_line &&
           rl_line_likely(&turn->bells->lines, turn->resource_id);
}

rowlock_status rl_turn_await(rl_turn *turn, rowlock_error *err)
{
    rowlock_status status = ROWLOCK_OK;
    if (!may_wait(turn))
        return ROWLOCK_BUSY;
    turn->take_without_bell = false;
    if (!turn->place.in_line) {
        status = stand_in_line(turn, err);
        /* Those before it may have waited for the same: has it come by now? */
        if (status == ROWLOCK_OK && turn->looks_in_line && turn->place.fd >= 0)
            return ROWLOCK_OK;
    }
    if (status == ROWLOCK_SYSTEM) /* no descriptor to stand in line with */
        status = ROWLOCK_BUSY;
    else if (status == ROWLOCK_OK)
        status = queue_up(turn, err);
    /* The others may try, too: is it the server that has gone? */
    if (status != ROWLOCK_OK) {
        rl_line_note(&turn->bells->lines, turn->resource_id, false);
        rl_line_leave(&turn->bells->lines, &turn->place);
    }
    return status == ROWLOCK_BUSY ? came_out(turn, err) : status;
}

rowlock_status rl_turn_borrow(rl_turn *turn, rl_conn **conn, rowlock_error *err)
{
    rl_io io = rl_budget_quick_io(turn->budget);
    const rl_request wanted = {.pins =
                                   atomic_load(&turn->bells->polls) ? RL_PINS_FEW : RL_PINS_MANY};
    *conn = turn->conn;
    return *conn ? ROWLOCK_OK : rl_pool_take(turn->bells->pool, &wanted, &io, conn, err);
}

void rl_turn_give_back(rl_turn *turn, rl_conn *conn)
{
    bool has_bell = conn == turn->conn;
    if (has_bell && !conn->broken && !conn->interrupted)
        return;
    if (has_bell) {
        conn->broken = true;
        turn->conn = NULL;
    }
    rl_pool_give(turn->bells->pool, conn);
}

void rl_turn_rung(rl_turn *turn)
{
    turn->conn->pooled.pins--;
    turn->conn = NULL;
}

void rl_turn_end(rl_turn *turn, bool taken)
{
    if (turn->conn && !taken)
        rl_bell_ring_on(turn->conn, turn->bells, turn->resource_id);
    rl_pool_give(turn->bells->pool, turn->conn);
    turn->conn = NULL;
    /* After a wait shorter than the change that followed, queuing was not worth its statements: the
     * next call for this name attempts first. */
    if (turn->place.in_line)
        rl_line_note(&turn->bells->lines, turn->resource_id, turn->waited_us > turn->change_us);
    rl_line_leave(&turn->bells->lines, &turn->place);
}
