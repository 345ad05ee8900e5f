#include "bell/bell.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "stmt/session.h"
#include "wait/backoff.h"

/* "rowlock." and "." around it. */
#define SCHEMA_FITS (RL_BELL_PREFIX_MAX - 9)

/*
 * A limit for ringing a bell, so that the call or the keeper is not late. Without an answer the
 * connection is closed, and the server rings.
 */
#define RING_LIMIT_US 50000

/* On one connection. MariaDB 10.11 looks for a named lock among all that its connection has, one
 * after the other: 1,000 make a statement with one half as dear again, 10,000 eight times as dear.
 */
#define BELLS_MOST 2000

/* How long a successor is given to inherit; what it takes is learnt. */
#define SUCCESSOR_LEAST_US 200
#define SUCCESSOR_FIRST_US 500
#define SUCCESSOR_MOST_US  5000

/* Where the statement that takes a lease takes so long (its commit and the round trip), a hand-over
 * with one write is quicker than one with two (docs/performance.md). */
#define SLOW_COMMIT_US 1000
#define COMMIT_MOST_US 10000 /* more means that the row was locked */

struct rl_due_ring {
    rl_due_ring *next;
    uint64_t serial; /* the connection's, and the server's number for it */
    uint64_t connection_id;
    uint64_t resource_id;
};

void rl_bell_prefix(const char *schema, char prefix[RL_BELL_PREFIX_MAX + 1])
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz0123456789_";
    size_t length = strlen(schema);
    if (length <= SCHEMA_FITS && strspn(schema, plain) == length)
        snprintf(prefix, RL_BELL_PREFIX_MAX + 1, "rowlock.%s.", schema);
    else
        snprintf(prefix, RL_BELL_PREFIX_MAX + 1, "rowlock.-%013" PRIx64 ".", rl_hash(schema) >> 12);
}

/* ------------------------------------------------------------------- single statements */

rowlock_status rl_bell_ring(rl_conn *conn, const char *prefix, uint64_t resource_id,
                            const rl_io *io)
{
    const rl_value values[] = {rl_text(prefix), rl_u64(resource_id)};
    return rl_run(conn, RL_SQL_BELL_RING, values, io, NULL, NULL);
}

rowlock_status rl_bell_take(rl_conn *conn, const char *prefix, uint64_t resource_id,
                            const rl_io *io)
{
    const rl_value values[] = {rl_text(prefix), rl_u64(resource_id)};
    uint64_t got = 0;
    RL_TRY(rl_query_number(conn, RL_SQL_BELL_TAKE, values, io, &got, NULL));
    return got ? ROWLOCK_OK : ROWLOCK_BUSY;
}

static void hexadecimal(const char *text, char *hex, size_t size)
{
    size_t at = 0;
    for (; *text && at + 3 <= size; text++, at += 2)
        snprintf(hex + at, size - at, "%02x", (unsigned char)*text);
    hex[at] = '\0';
}

/* The first cell of the answer, or 0 for NULL, which means that the statement was stopped. */
static void keep_number(void *data, const char *const *cells)
{
    *(uint64_t *)data = cells[0] ? strtoull(cells[0], NULL, 10) : 0;
}

rowlock_status rl_bell_wait(rl_conn *conn, const rl_bells *bells, const rl_waiter *waiter,
                            uint64_t seconds, const rl_io *io, bool *got, rowlock_error *err)
{
    char name[RL_BELL_NAME_MAX + 1];
    char label[ROWLOCK_LABEL_MAX * 2 + 1];
    snprintf(name, sizeof name, "%s%" PRIu64, bells->prefix, waiter->resource_id);
    hexadecimal(waiter->label, label, sizeof label);
    const rl_value values[] = {rl_text(name),
                               rl_u64(seconds),
                               rl_u64(waiter->resource_id),
                               rl_u64(waiter->waited_ms),
                               rl_text(waiter->owner),
                               rl_text(label)};
    uint64_t answer = 0;
    rowlock_status status =
        rl_query_text(conn, RL_SQL_BELL_WAIT, values, io, keep_number, &answer, err);
    *got = answer == 1;
    return status;
}

/* -------------------------------------------------------------------------- hand-over */

void rl_bell_note_commit(rl_bells *bells, int64_t us)
{
    int64_t known_us = atomic_load(&bells->commit_us);
    us = us < COMMIT_MOST_US ? us : COMMIT_MOST_US;
    atomic_store(&bells->commit_us, known_us ? known_us + (us - known_us) / 8 : us);
}

bool rl_bell_commits_slowly(const rl_bells *bells)
{
    return atomic_load(&bells->commit_us) >= SLOW_COMMIT_US;
}

rowlock_status rl_bell_waive(rl_conn *conn, const rl_bells *bells, const rl_waiver *waiver,
                             const rl_io *io, rl_waived *waived, rowlock_error *err)
{
    static const char nothing[] = "rowlock.-";
    const rl_value values[] = {rl_text(conn->pooled.pin_note[0] ? conn->pooled.pin_note : nothing),
                               rl_text(bells->prefix), rl_u64(waiver->resource_id),
                               rl_u64(waiver->version), rl_text(waiver->owner)};
    rl_rows rows;
    bool found = false;
    RL_TRY(rl_query_one(conn, RL_SQL_LEASE_WAIVE, values, io, &found, &rows, err));
    *waived = (rl_waived){.mine = found};
    if (found) {
        waived->successor = rows.cells[0].u64 == 1 && rows.cells[4].u64 != 0;
        snprintf(conn->pooled.pin_note, sizeof conn->pooled.pin_note, "%s", rows.cells[1].text);
    }
    return ROWLOCK_OK;
}

void rl_bell_await_successor(const rl_bells *bells, const rl_budget *budget)
{
    rl_give_time(budget, atomic_load(&bells->successor_us));
}

void rl_bell_note_successor(rl_bells *bells, bool inherited)
{
    int64_t us = atomic_load(&bells->successor_us);
    us = inherited ? us - us / 16 : us * 2;
    us = us < SUCCESSOR_LEAST_US  ? SUCCESSOR_LEAST_US
         : us > SUCCESSOR_MOST_US ? SUCCESSOR_MOST_US
                                  : us;
    atomic_store(&bells->successor_us, us);
}

/* --------------------------------------------------------------------- a holder's bell */

void rl_bell_keep(rl_bell *bell, rl_conn *conn, bool came_from_queue)
{
    *bell = (rl_bell){.kept = true,
                      .came_from_queue = came_from_queue,
                      .serial = conn->pooled.serial,
                      .connection_id = conn->id};
    conn->pooled.pins += !came_from_queue;
}

void rl_bell_rung(rl_bell *bell, rl_conn *conn)
{
    conn->pooled.pins--;
    bell->kept = false;
}

rl_conn *rl_bell_connection(rl_bells *bells, const rl_bell *bell)
{
    if (!bell->kept)
        return NULL;
    return rl_pool_take_that(bells->pool, bell->serial);
}

rowlock_status rl_bell_ring_soon(rl_conn *conn, const rl_bells *bells, uint64_t resource_id)
{
    rl_io io = rl_io_until(rl_time_add(rl_now_us(), RING_LIMIT_US));
    io.abrupt = true;
    return rl_bell_ring(conn, bells->prefix, resource_id, &io);
}

void rl_bell_ring_on(rl_conn *conn, const rl_bells *bells, uint64_t resource_id)
{
    if (rl_bell_ring_soon(conn, bells, resource_id) != ROWLOCK_OK)
        conn->broken = true;
    conn->pooled.pins--;
}

/* Without memory it is closed when it is given back, which rings all its bells. */
static void note_ring(rl_bells *bells, rl_conn *conn, uint64_t resource_id)
{
    rl_due_ring *due = malloc(sizeof *due);
    if (!due) {
        conn->interrupted = true;
        return;
    }
    *due = (rl_due_ring){.next = bells->due,
                         .serial = conn->pooled.serial,
                         .connection_id = conn->id,
                         .resource_id = resource_id};
    bells->due = due;
}

/* The thread that uses the connection rings when giving it back. If the connection is gone, the
 * server has rung its bells. False: it is idle (again). */
static bool ring_later(rl_bells *bells, uint64_t serial, uint64_t resource_id)
{
    bool busy = false;
    pthread_mutex_lock(&bells->pool->mutex);
    rl_conn *conn = rl_pool_find(bells->pool, serial, &busy);
    if (busy)
        note_ring(bells, conn, resource_id);
    pthread_mutex_unlock(&bells->pool->mutex);
    return busy || !conn;
}

void rl_bell_give_up(rl_bells *bells, rl_bell *bell, uint64_t resource_id)
{
    for (bool rung = !bell->kept; !rung;) {
        rl_conn *conn = rl_bell_connection(bells, bell);
        if (conn)
            rl_bell_ring_on(conn, bells, resource_id);
        rl_pool_give(bells->pool, conn);
        rung = conn || ring_later(bells, bell->serial, resource_id);
    }
    bell->kept = false;
}

/* With the pool's mutex, given up while it rings: until it has been rung it stays in the list, for
 * rl_bell_rings_due(). */
static void ring_due(void *data, rl_conn *conn)
{
    rl_bells *bells = data;
    for (rl_due_ring **at = &bells->due; *at;) {
        rl_due_ring *due = *at;
        if (due->serial != conn->pooled.serial) {
            at = &due->next;
            continue;
        }
        if (rl_pool_keeps(bells->pool, conn)) {
            pthread_mutex_unlock(&bells->pool->mutex);
            rl_bell_ring_on(conn, bells, due->resource_id);
            pthread_mutex_lock(&bells->pool->mutex);
            for (at = &bells->due; *at != due;)
                at = &(*at)->next;
        }
        *at = due->next;
        free(due);
        at = &bells->due;
    }
}

void rl_bell_rings_due(rl_bells *bells, uint64_t resource_id, char *ids, size_t size)
{
    size_t length = 0;
    *ids = 0;
    pthread_mutex_lock(&bells->pool->mutex);
    for (const rl_due_ring *due = bells->due; due && size - length > RL_ID_TEXT_MAX;
         due = due->next)
        if (due->resource_id == resource_id)
            length += (size_t)snprintf(ids + length, size - length, "%s%" PRIu64, length ? "," : "",
                                       due->connection_id);
    pthread_mutex_unlock(&bells->pool->mutex);
}

/* ------------------------------------------------------------------- somebody else's */

/* Asks and kills on one connection: where a host name leads to several servers, each counts its
 * connections by itself. A waiter that is merely slow, as all are on a machine that stood still, is
 * in a statement or about to be; it is spared, since a session in CALL rowlock_acquire would lose
 * all that it has. */
static void end_connection_of_bell(rl_conn *conn, const char *prefix, uint64_t resource_id,
                                   uint64_t connection_id, uint64_t asleep_s, const rl_io *io)
{
    const rl_value values[] = {rl_text(prefix), rl_u64(resource_id), rl_u64(asleep_s)};
    uint64_t found = 0;
    rl_sql_id who = connection_id == RL_ANY_ASLEEP ? RL_SQL_BELL_SLEEPER : RL_SQL_BELL_HOLDER;
    if (rl_query_number(conn, who, values, io, &found, NULL) != ROWLOCK_OK)
        return;
    if (found == 0 || (found != connection_id && connection_id != RL_ANY_ASLEEP))
        return;
    (void)!rl_session_kill(conn, io, found, NULL);
}

static void seize(rl_bells *bells, const rl_budget *budget, uint64_t resource_id,
                  uint64_t connection_id, uint64_t asleep_s)
{
    rl_io io = rl_budget_quick_io(budget);
    RL_BORROWED conn = NULL;
    if (connection_id == 0 || rl_pool_take(bells->pool, NULL, &io, &conn, NULL) != ROWLOCK_OK)
        return;
    end_connection_of_bell(conn, bells->prefix, resource_id, connection_id, asleep_s, &io);
}

void rl_bell_seize(rl_bells *bells, const rl_budget *budget, uint64_t resource_id,
                   uint64_t connection_id)
{
    seize(bells, budget, resource_id, connection_id, 0);
}

void rl_bell_seize_asleep(rl_bells *bells, const rl_budget *budget, uint64_t resource_id,
                          uint64_t seconds)
{
    seize(bells, budget, resource_id, RL_ANY_ASLEEP, seconds);
}

/* 1105: Percona's strict mode; 1235: not supported; 1305: no such function; 1370: may not call it.
 * The last two also come, for a moment, while a procedure of ours is installed anew. */
static bool is_refusal(unsigned server_errno, bool via)
{
    return server_errno == 1105 || server_errno == 1235 ||
           (!via && (server_errno == 1305 || server_errno == 1370));
}

bool rl_bell_refused(rl_bells *bells, rowlock_status status, const rowlock_error *err)
{
    /* UNAVAILABLE: somebody stopped the statement, which MySQL may call 1105, too. */
    bool refused = status != ROWLOCK_OK && status != ROWLOCK_UNAVAILABLE &&
                   is_refusal(err->server_errno, bells->pool->params.via);
    if (refused && !atomic_exchange(&bells->polls, true))
        rl_log_line(bells->log, ROWLOCK_LOG_INFO,
                    "the server has no bell (it refuses GET_LOCK); waiters of leases poll");
    return refused;
}

/* --------------------------------------------------------------------- of a client */

rowlock_status rl_bells_init(rl_bells *bells, rl_pool *pool, const rl_log *log, rowlock_error *err)
{
    bells->pool = pool;
    bells->log = log;
    atomic_init(&bells->successor_us, SUCCESSOR_FIRST_US);
    pool->returned = ring_due;
    pool->returned_data = bells;
    pool->pins_most = BELLS_MOST;
    return rl_lines_init(&bells->lines, err);
}

void rl_bells_destroy(rl_bells *bells, bool forked)
{
    for (rl_due_ring *due; (due = bells->due);) {
        bells->due = due->next;
        free(due);
    }
    rl_lines_destroy(&bells->lines, forked);
}
