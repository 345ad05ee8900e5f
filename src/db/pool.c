#include "db/pool.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* What stopping a statement of our own may take: the waiting call is to end within 100 ms of its
 * deadline all the same (see STOPPED_GRACE_US in conn.c). */
#define KILL_LIMIT_US 30000

/* The look at a connection is a system call; it is spared those that were used so lately. */
#define UNSEEN_US 100000

/* On one connection. MariaDB 10.11 looks for a named lock among all that its connection has, one
 * after the other: 1,000 make a statement with one half as dear again, 10,000 eight times as dear.
 */
#define BELLS_MOST 2000

rowlock_status rl_pool_init(rl_pool *pool, rl_params *params, const rl_pool_hooks *hooks,
                            const char *bell_prefix, unsigned max_idle, rowlock_error *err)
{
    *pool = (rl_pool){
        .params = *params, .hooks = *hooks, .bell_prefix = bell_prefix, .max_idle = max_idle};
    *params = (rl_params){0};
    if (pthread_mutex_init(&pool->mutex, NULL) != 0) {
        rl_params_free(&pool->params);
        return rl_fail(err, ROWLOCK_SYSTEM, "cannot make a mutex");
    }
    return ROWLOCK_OK;
}

static void interrupt_through_pool(void *data, const rl_conn *conn)
{
    const char *key = conn->calling ? conn->key : "";
    (void)rl_pool_kill_query(data, &conn->peer, conn->id, key, KILL_LIMIT_US);
}

/* ----------------------------------------------------------------- the two lists */

static void push(rl_conn **first, rl_conn *conn)
{
    conn->previous = NULL;
    conn->next = *first;
    if (*first)
        (*first)->previous = conn;
    *first = conn;
}

static void unlink_from(rl_conn **first, rl_conn *conn)
{
    if (conn->previous)
        conn->previous->next = conn->next;
    else
        *first = conn->next;
    if (conn->next)
        conn->next->previous = conn->previous;
    conn->next = conn->previous = NULL;
}

/* Which idle connection is wanted. */
typedef struct wish {
    rl_purpose purpose;
    const rl_peer *peer; /* the server that it must lead to; NULL: any */
    uint64_t serial;     /* 0: any */
    bool quiet;          /* without bells */
    bool gathers;        /* it is to get a bell */
    bool unseen;         /* without a look at it, if it was used a moment ago */
} wish;

static bool fits(const rl_conn *conn, const wish *wanted)
{
    if (!wanted->serial && conn->bells >= BELLS_MOST)
        return false;
    return (!wanted->peer || rl_peer_same(&conn->peer, wanted->peer)) &&
           (!wanted->serial || conn->serial == wanted->serial) && !(wanted->quiet && conn->bells);
}

/* Few bells are better: somebody may want to ring them meanwhile. More, for one that is to get
 * another: so the others stay quiet. */
static bool is_better(const rl_conn *conn, const rl_conn *best, const wish *wanted)
{
    return wanted->gathers ? conn->bells > best->bells : conn->bells < best->bells;
}

/* With the mutex. Of equally good ones, the one used last: its caches are warm. */
static rl_conn *find_idle(const rl_pool *pool, const wish *wanted)
{
    rl_conn *best = NULL;
    for (rl_conn *conn = pool->idle[wanted->purpose]; conn; conn = conn->next) {
        if (fits(conn, wanted) && (!best || is_better(conn, best, wanted)))
            best = conn;
        if (best && best->bells == 0 && !wanted->gathers)
            break;
    }
    return best;
}

/* With the mutex. */
static void make_busy(rl_pool *pool, rl_conn *conn)
{
    if (conn->purpose == RL_WORK)
        push(&pool->busy, conn);
}

/* With the mutex. */
static void leave_idle(rl_pool *pool, rl_conn *conn)
{
    unlink_from(&pool->idle[conn->purpose], conn);
    pool->idle_count[conn->purpose] -= conn->bells == 0;
}

bool rl_pool_is_current(const rl_pool *pool, const rl_server *server, bool exactly)
{
    return server->identity == atomic_load(&pool->identity) &&
           (!exactly || server->node == atomic_load(&pool->node));
}

static bool is_current(const rl_pool *pool, const rl_conn *conn)
{
    return rl_pool_is_current(pool, &conn->server, conn->purpose == RL_HOLD);
}

/* With the mutex: those that lead elsewhere, or to `node`, in a list of their own. */
static rl_conn *take_out_stale(rl_pool *pool, uint64_t node)
{
    rl_conn *stale = NULL;
    for (int purpose = 0; purpose < RL_PURPOSES; purpose++)
        for (rl_conn *next, *conn = pool->idle[purpose]; conn; conn = next) {
            next = conn->next;
            if (is_current(pool, conn) && conn->server.node != node)
                continue;
            leave_idle(pool, conn);
            push(&stale, conn);
        }
    return stale;
}

static void close_all(rl_conn *list)
{
    while (list) {
        rl_conn *conn = list;
        list = conn->next;
        rl_conn_close(conn);
    }
}

static rl_conn *take_idle(rl_pool *pool, const wish *wanted)
{
    pthread_mutex_lock(&pool->mutex);
    rl_conn *conn = find_idle(pool, wanted);
    if (conn) {
        leave_idle(pool, conn);
        make_busy(pool, conn);
    }
    pthread_mutex_unlock(&pool->mutex);
    return conn;
}

static void close_busy(rl_pool *pool, rl_conn *conn)
{
    pthread_mutex_lock(&pool->mutex);
    if (conn->purpose == RL_WORK)
        unlink_from(&pool->busy, conn);
    pthread_mutex_unlock(&pool->mutex);
    rl_conn_close(conn);
}

static rl_conn *take_idle_alive(rl_pool *pool, const wish *wanted)
{
    for (rl_conn *conn; (conn = take_idle(pool, wanted));) {
        conn->unseen = wanted->unseen && rl_now_us() - conn->used_us < UNSEEN_US;
        if (conn->unseen || rl_conn_looks_alive(conn))
            return conn;
        conn->broken = true;
        close_busy(pool, conn);
    }
    return NULL;
}

/* A new connection, which says where all others lead to from now on. */
static void adopt(rl_pool *pool, rl_conn *conn)
{
    rl_conn *stale = NULL;
    pthread_mutex_lock(&pool->mutex);
    bool moved = !rl_pool_is_current(pool, &conn->server, true);
    pool->peer = conn->peer;
    atomic_store(&pool->cluster, (int)conn->server.cluster);
    atomic_store(&pool->identity, conn->server.identity);
    atomic_store(&pool->node, conn->server.node);
    conn->serial = ++pool->serial;
    make_busy(pool, conn);
    if (moved)
        stale = take_out_stale(pool, 0);
    pthread_mutex_unlock(&pool->mutex);
    close_all(stale);
    if (moved && pool->moved)
        pool->moved(pool->moved_data);
}

static rowlock_status open_new(rl_pool *pool, rl_purpose purpose, const rl_io *io, rl_conn **out,
                               rowlock_error *err)
{
    rl_conn *conn = NULL;
    rowlock_status status = rl_conn_open(&pool->params, io, &conn, err);
    if (status != ROWLOCK_OK)
        return status;
    conn->purpose = (int)purpose;
    status = pool->hooks.setup(conn, purpose, io, err);
    if (status != ROWLOCK_OK) {
        rl_conn_close(conn);
        /* No statement of the caller's has been sent: nothing is unknown. */
        if (status == ROWLOCK_UNKNOWN)
            status = rl_fail(err, ROWLOCK_UNAVAILABLE, "the server ended a new connection");
        return status;
    }
    conn->interrupt = interrupt_through_pool;
    conn->interrupt_data = pool;
    adopt(pool, conn);
    *out = conn;
    return ROWLOCK_OK;
}

static rowlock_status take(rl_pool *pool, const wish *wanted, const rl_io *io, rl_conn **conn,
                           rowlock_error *err)
{
    rl_conn *idle = take_idle_alive(pool, wanted);
    if (idle) {
        *conn = idle;
        return ROWLOCK_OK;
    }
    return open_new(pool, wanted->purpose, io, conn, err);
}

rowlock_status rl_pool_take(rl_pool *pool, rl_purpose purpose, const rl_io *io, rl_conn **conn,
                            rowlock_error *err)
{
    const wish any = {.purpose = purpose};
    return take(pool, &any, io, conn, err);
}

rowlock_status rl_pool_take_new(rl_pool *pool, rl_purpose purpose, const rl_io *io, rl_conn **conn,
                                rowlock_error *err)
{
    return open_new(pool, purpose, io, conn, err);
}

rowlock_status rl_pool_take_unseen(rl_pool *pool, rl_purpose purpose, const rl_io *io,
                                   rl_conn **conn, rowlock_error *err)
{
    const wish any = {.purpose = purpose, .unseen = true};
    return take(pool, &any, io, conn, err);
}

rowlock_status rl_pool_take_for_bell(rl_pool *pool, const rl_io *io, rl_conn **conn,
                                     rowlock_error *err)
{
    const wish gathering = {.purpose = RL_WORK, .gathers = true};
    return take(pool, &gathering, io, conn, err);
}

rowlock_status rl_pool_take_aside(rl_pool *pool, const rl_io *io, rl_conn **conn,
                                  rowlock_error *err)
{
    rowlock_status status = rl_pool_take_quiet(pool, io, conn, err);
    if (status == ROWLOCK_OK || status == ROWLOCK_CANCELLED)
        return status;
    return rl_pool_take(pool, RL_WORK, io, conn, err);
}

rowlock_status rl_pool_take_quiet(rl_pool *pool, const rl_io *io, rl_conn **conn,
                                  rowlock_error *err)
{
    const wish quiet = {.purpose = RL_WORK, .quiet = true};
    return take(pool, &quiet, io, conn, err);
}

/* With the mutex. True: nothing is to be rung any more, and it is idle or out of the lists. */
static bool put_away(rl_pool *pool, rl_conn *conn, bool *keep)
{
    bool good = !conn->broken && !conn->interrupted && !conn->ping_pending && !conn->demoted &&
                is_current(pool, conn);
    if (good && conn->ring_count)
        return false;
    if (conn->purpose == RL_WORK)
        unlink_from(&pool->busy, conn);
    *keep = good && (conn->bells || pool->idle_count[conn->purpose] < pool->max_idle);
    if (*keep) {
        push(&pool->idle[conn->purpose], conn);
        pool->idle_count[conn->purpose] += conn->bells == 0;
    }
    return true;
}

rowlock_status rl_pool_ring(const rl_pool *pool, rl_conn *conn, uint64_t resource_id)
{
    rl_io io = rl_io_until(rl_time_add(rl_now_us(), RL_RING_LIMIT_US));
    io.abrupt = true;
    return pool->hooks.ring(conn, pool->bell_prefix, resource_id, &io);
}

void rl_pool_ring_off(const rl_pool *pool, rl_conn *conn, uint64_t resource_id)
{
    if (rl_pool_ring(pool, conn, resource_id) != ROWLOCK_OK)
        conn->broken = true;
    conn->bells--;
}

/* Until it is rung it stays in the list, where rl_pool_rings_due() sees it; what comes meanwhile
 * comes behind it. */
static void ring_one(rl_pool *pool, rl_conn *conn)
{
    pthread_mutex_lock(&pool->mutex);
    uint64_t resource_id = conn->rings[0];
    pthread_mutex_unlock(&pool->mutex);
    rl_pool_ring_off(pool, conn, resource_id);
    pthread_mutex_lock(&pool->mutex);
    conn->rings[0] = conn->rings[--conn->ring_count];
    pthread_mutex_unlock(&pool->mutex);
}

/* What one connection to it said holds for all: the next ones lead to who is the primary now. */
static void drop_node(rl_pool *pool, uint64_t node)
{
    pthread_mutex_lock(&pool->mutex);
    rl_conn *stale = take_out_stale(pool, node);
    pthread_mutex_unlock(&pool->mutex);
    close_all(stale);
}

void rl_pool_give(rl_pool *pool, rl_conn *conn)
{
    if (!conn)
        return;
    bool away = false;
    bool keep = false;
    conn->used_us = rl_now_us();
    while (!away) {
        pthread_mutex_lock(&pool->mutex);
        away = put_away(pool, conn, &keep);
        pthread_mutex_unlock(&pool->mutex);
        if (!away)
            ring_one(pool, conn);
    }
    if (!keep && conn->demoted)
        drop_node(pool, conn->server.node);
    if (!keep)
        rl_conn_close(conn);
}

rl_conn *rl_pool_take_at(rl_pool *pool, const rl_peer *peer, const rl_io *io)
{
    const wish there = {.purpose = RL_WORK, .peer = peer};
    rl_conn *conn = take_idle_alive(pool, &there);
    if (conn || open_new(pool, RL_WORK, io, &conn, NULL) != ROWLOCK_OK)
        return conn;
    if (rl_peer_same(&conn->peer, peer))
        return conn;
    rl_pool_give(pool, conn);
    return NULL;
}

rl_conn *rl_pool_take_that(rl_pool *pool, uint64_t serial)
{
    const wish that = {.purpose = RL_WORK, .serial = serial};
    return take_idle_alive(pool, &that);
}

/* With the mutex. Without memory it is closed when it is given back, which rings all its bells. */
static void note_ring(rl_conn *conn, uint64_t resource_id)
{
    uint64_t *rings = realloc(conn->rings, (conn->ring_count + 1) * sizeof *rings);
    if (!rings) {
        conn->interrupted = true;
        return;
    }
    rings[conn->ring_count++] = resource_id;
    conn->rings = rings;
}

bool rl_pool_ring_later(rl_pool *pool, uint64_t serial, uint64_t resource_id)
{
    const wish that = {.purpose = RL_WORK, .serial = serial};
    pthread_mutex_lock(&pool->mutex);
    rl_conn *conn = pool->busy;
    while (conn && !fits(conn, &that))
        conn = conn->next;
    if (conn)
        note_ring(conn, resource_id);
    bool idle = !conn && find_idle(pool, &that);
    pthread_mutex_unlock(&pool->mutex);
    return !idle;
}

static bool is_to_ring(const rl_conn *conn, uint64_t resource_id)
{
    for (size_t i = 0; i < conn->ring_count; i++)
        if (conn->rings[i] == resource_id)
            return true;
    return false;
}

void rl_pool_rings_due(rl_pool *pool, uint64_t resource_id, char *ids, size_t size)
{
    size_t length = 0;
    *ids = 0;
    pthread_mutex_lock(&pool->mutex);
    for (const rl_conn *conn = pool->busy; conn && size - length > RL_ID_TEXT_MAX;
         conn = conn->next)
        if (is_to_ring(conn, resource_id))
            length += (size_t)snprintf(ids + length, size - length, "%s%" PRIu64, length ? "," : "",
                                       conn->id);
    pthread_mutex_unlock(&pool->mutex);
}

static rl_conn *take_untouched(rl_pool *pool, int64_t before_us)
{
    pthread_mutex_lock(&pool->mutex);
    rl_conn *conn = pool->idle[RL_WORK];
    while (conn && !(conn->bells && conn->used_us < before_us))
        conn = conn->next;
    if (conn) {
        leave_idle(pool, conn);
        make_busy(pool, conn);
    }
    pthread_mutex_unlock(&pool->mutex);
    return conn;
}

void rl_pool_touch_bells(rl_pool *pool, int64_t before_us, const rl_io *io)
{
    for (rl_conn *conn; (conn = take_untouched(pool, before_us));) {
        if (rl_conn_ping(conn, io, NULL) != ROWLOCK_OK)
            conn->broken = true;
        rl_pool_give(pool, conn);
    }
}

bool rl_pool_kill_query(rl_pool *pool, const rl_peer *peer, uint64_t connection_id, const char *key,
                        int64_t limit_us)
{
    rl_io io = rl_io_until(rl_time_add(rl_now_us(), limit_us));
    rl_conn *conn = rl_pool_take_at(pool, peer, &io);
    if (!conn)
        return false;
    /* This one is not to be interrupted in its turn. */
    conn->interrupt = NULL;
    rowlock_status status = pool->hooks.kill_query(conn, connection_id, key, &io);
    conn->interrupt = interrupt_through_pool;
    rl_pool_give(pool, conn);
    return status == ROWLOCK_OK;
}

bool rl_pool_reaches(rl_pool *pool, const rl_peer *peer)
{
    pthread_mutex_lock(&pool->mutex);
    bool found = rl_peer_same(&pool->peer, peer);
    const wish there = {.purpose = RL_WORK, .peer = peer};
    found = found || find_idle(pool, &there);
    pthread_mutex_unlock(&pool->mutex);
    return found;
}

rl_cluster rl_pool_cluster(const rl_pool *pool)
{
    return (rl_cluster)atomic_load(&pool->cluster);
}

void rl_pool_destroy(rl_pool *pool, bool forked)
{
    for (int purpose = 0; purpose < RL_PURPOSES; purpose++) {
        while (pool->idle[purpose]) {
            rl_conn *conn = pool->idle[purpose];
            pool->idle[purpose] = conn->next;
            if (forked)
                rl_conn_drop(conn);
            else
                rl_conn_close(conn);
        }
    }
    if (!forked)
        pthread_mutex_destroy(&pool->mutex);
    rl_params_free(&pool->params);
}
