#include "db/pool.h"

/* What stopping a statement of our own may take: the waiting call is to end within 100 ms of its
 * deadline all the same (see STOPPED_GRACE_US in exchange.c). */
#define KILL_LIMIT_US 30000

void rl_pool_init(rl_pool *pool, rl_params *params, const rl_pool_hooks *hooks, unsigned max_idle)
{
    *pool = (rl_pool){.params = *params, .hooks = *hooks, .max_idle = max_idle};
    *params = (rl_params){0};
    pthread_mutex_init(&pool->mutex, NULL);
}

static void interrupt_through_pool(void *data, const rl_conn *conn)
{
    const char *key = conn->session.calling ? conn->session.key : "";
    (void)rl_pool_kill_query(data, &conn->peer, conn->id, key, KILL_LIMIT_US);
}

/* ----------------------------------------------------------------- the two lists */

static void push(rl_conn **first, rl_conn *conn)
{
    conn->pooled.next = *first;
    *first = conn;
}

static void unlink_from(rl_conn **first, rl_conn *conn)
{
    while (*first != conn)
        first = &(*first)->pooled.next;
    *first = conn->pooled.next;
    conn->pooled.next = NULL;
}

static bool fits(const rl_pool *pool, const rl_conn *conn, const rl_request *wanted)
{
    bool few = wanted->pins == RL_PINS_NONE || wanted->pins == RL_PINS_NOT_LONG
                   ? conn->pooled.pins == 0
                   : conn->pooled.pins == 0 || conn->pooled.pins < pool->pins_most;
    return few && (!wanted->peer || rl_peer_same(&conn->peer, wanted->peer));
}

static bool is_better(const rl_conn *conn, const rl_conn *best, const rl_request *wanted)
{
    return wanted->pins == RL_PINS_MANY ? conn->pooled.pins > best->pooled.pins
                                        : conn->pooled.pins < best->pooled.pins;
}

/* With the mutex. Of equally good ones, the one used last: its caches are warm. */
static rl_conn *find_idle(const rl_pool *pool, const rl_request *wanted)
{
    rl_conn *best = NULL;
    for (rl_conn *conn = pool->idle[wanted->purpose]; conn; conn = conn->pooled.next) {
        if (fits(pool, conn, wanted) && (!best || is_better(conn, best, wanted)))
            best = conn;
        if (best && best->pooled.pins == 0 && wanted->pins != RL_PINS_MANY)
            break;
    }
    return best;
}

static rl_conn *find_serial(rl_conn *list, uint64_t serial)
{
    while (list && list->pooled.serial != serial)
        list = list->pooled.next;
    return list;
}

rl_conn *rl_pool_find(const rl_pool *pool, uint64_t serial, bool *busy)
{
    rl_conn *conn = find_serial(pool->busy, serial);
    *busy = conn != NULL;
    return conn ? conn : find_serial(pool->idle[RL_WORK], serial);
}

/* With the mutex. */
static void make_busy(rl_pool *pool, rl_conn *conn)
{
    if (conn->pooled.purpose == RL_WORK)
        push(&pool->busy, conn);
}

/* With the mutex. */
static void leave_idle(rl_pool *pool, rl_conn *conn)
{
    unlink_from(&pool->idle[conn->pooled.purpose], conn);
    pool->idle_count[conn->pooled.purpose] -= conn->pooled.pins == 0;
}

/* With the mutex. Takes NULL. */
static rl_conn *make_taken(rl_pool *pool, rl_conn *conn)
{
    if (conn) {
        leave_idle(pool, conn);
        make_busy(pool, conn);
    }
    return conn;
}

bool rl_pool_is_current(const rl_pool *pool, const rl_server *server, bool exactly)
{
    return server->identity == atomic_load(&pool->identity) &&
           (!exactly || server->node == atomic_load(&pool->node));
}

static bool is_current(const rl_pool *pool, const rl_conn *conn)
{
    return rl_pool_is_current(pool, &conn->server, conn->pooled.purpose == RL_HOLD);
}

/* With the mutex: those that lead elsewhere, or to `node`, in a list of their own. */
static rl_conn *take_out_stale(rl_pool *pool, uint64_t node)
{
    rl_conn *stale = NULL;
    for (int purpose = 0; purpose < RL_PURPOSES; purpose++)
        for (rl_conn *next, *conn = pool->idle[purpose]; conn; conn = next) {
            next = conn->pooled.next;
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
        list = conn->pooled.next;
        rl_conn_close(conn);
    }
}

/* It was idle; is it alive? Else it is gone, and NULL. */
static rl_conn *alive(rl_pool *pool, rl_conn *conn)
{
    if (!conn || rl_conn_looks_alive(conn))
        return conn;
    conn->broken = true;
    rl_pool_give(pool, conn);
    return NULL;
}

static rl_conn *take_idle(rl_pool *pool, const rl_request *wanted)
{
    for (;;) {
        pthread_mutex_lock(&pool->mutex);
        rl_conn *conn = make_taken(pool, find_idle(pool, wanted));
        pthread_mutex_unlock(&pool->mutex);
        if (!conn || alive(pool, conn))
            return conn;
    }
}

rl_conn *rl_pool_take_that(rl_pool *pool, uint64_t serial)
{
    pthread_mutex_lock(&pool->mutex);
    rl_conn *conn = make_taken(pool, find_serial(pool->idle[RL_WORK], serial));
    pthread_mutex_unlock(&pool->mutex);
    return alive(pool, conn);
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
    conn->pooled.serial = ++pool->serial;
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
    rl_params to = pool->params; /* not a copy: the strings are the pool's */
    to.counts_changed = purpose == RL_FOREIGN;
    RL_TRY(rl_conn_open(&to, io, &conn, err));
    conn->pooled.purpose = (int)purpose;
    rowlock_status status = pool->hooks.setup(conn, purpose, io, err);
    if (status != ROWLOCK_OK) {
        rl_conn_close(conn);
        /* No statement of the caller's has been sent: nothing is unknown. */
        return rl_no_effect(status, err);
    }
    conn->interrupt = interrupt_through_pool;
    conn->interrupt_data = conn->pooled.pool = pool;
    adopt(pool, conn);
    *out = conn;
    return ROWLOCK_OK;
}

rowlock_status rl_pool_take(rl_pool *pool, const rl_request *wanted, const rl_io *io,
                            rl_conn **conn, rowlock_error *err)
{
    static const rl_request any = {0};
    wanted = wanted ? wanted : &any;
    rl_conn *idle = wanted->fresh ? NULL : take_idle(pool, wanted);
    rowlock_status status = ROWLOCK_OK;
    if (!idle)
        status = open_new(pool, wanted->purpose, io, &idle, err);
    if (status != ROWLOCK_OK && status != ROWLOCK_CANCELLED && wanted->pins == RL_PINS_NOT_LONG)
        return rl_pool_take(pool, &any, io, conn, err);
    if (status != ROWLOCK_OK)
        return status;
    if (wanted->peer && !rl_peer_same(&idle->peer, wanted->peer)) {
        rl_pool_give(pool, idle);
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "the name leads to another server now");
    }
    *conn = idle;
    return ROWLOCK_OK;
}

bool rl_pool_keeps(const rl_pool *pool, const rl_conn *conn)
{
    return !conn->broken && !conn->interrupted && !conn->ping.pending && !conn->demoted &&
           is_current(pool, conn);
}

/* What one connection to the node said holds for all of them; new ones lead to the present
 * primary. */
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
    conn->pooled.used_us = rl_now_us();
    pthread_mutex_lock(&pool->mutex);
    if (conn->pooled.pins)
        pool->returned(pool->returned_data, conn);
    bool keep = rl_pool_keeps(pool, conn) &&
                (conn->pooled.pins || pool->idle_count[conn->pooled.purpose] < pool->max_idle);
    if (conn->pooled.purpose == RL_WORK)
        unlink_from(&pool->busy, conn);
    if (keep) {
        push(&pool->idle[conn->pooled.purpose], conn);
        pool->idle_count[conn->pooled.purpose] += conn->pooled.pins == 0;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (keep)
        return;
    if (conn->demoted)
        drop_node(pool, conn->server.node);
    rl_conn_close(conn);
}

void rl_pool_give_back(rl_conn **conn)
{
    if (*conn)
        rl_pool_give((*conn)->pooled.pool, *conn);
}

static rl_conn *take_untouched(rl_pool *pool, int64_t before_us)
{
    pthread_mutex_lock(&pool->mutex);
    rl_conn *conn = pool->idle[RL_WORK];
    while (conn && !(conn->pooled.pins && conn->pooled.used_us < before_us))
        conn = conn->pooled.next;
    make_taken(pool, conn);
    pthread_mutex_unlock(&pool->mutex);
    return conn;
}

void rl_pool_touch_pinned(rl_pool *pool, int64_t before_us, const rl_io *io)
{
    rl_conn *conn;
    while (rl_now_us() < io->deadline_us && (conn = take_untouched(pool, before_us))) {
        if (rl_conn_ping(conn, io, NULL) != ROWLOCK_OK)
            conn->broken = true;
        rl_pool_give(pool, conn);
    }
}

bool rl_pool_kill_query(rl_pool *pool, const rl_peer *peer, uint64_t connection_id, const char *key,
                        int64_t limit_us)
{
    rl_io io = rl_io_until(rl_time_add(rl_now_us(), limit_us));
    const rl_request there = {.peer = peer};
    rl_conn *conn = NULL;
    if (rl_pool_take(pool, &there, &io, &conn, NULL) != ROWLOCK_OK)
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
    const rl_request there = {.peer = peer};
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
            pool->idle[purpose] = conn->pooled.next;
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
