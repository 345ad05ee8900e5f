#include "db/pool.h"

#include <stdlib.h>

/* What stopping a statement of our own may take: the waiting call is to end within 100 ms of its
 * deadline all the same (see STOPPED_GRACE_US in conn.c). */
#define KILL_LIMIT_US 30000

rowlock_status rl_pool_init(rl_pool *pool, rl_params *params, const rl_pool_hooks *hooks,
                            unsigned max_idle, rowlock_error *err)
{
    *pool = (rl_pool){.params = *params, .hooks = *hooks, .max_idle = max_idle};
    *params = (rl_params){0};
    if (pthread_mutex_init(&pool->mutex, NULL) != 0) {
        rl_params_free(&pool->params);
        return rl_fail(err, ROWLOCK_SYSTEM, "cannot make a mutex");
    }
    return ROWLOCK_OK;
}

static void interrupt_through_pool(void *data, const rl_conn *conn)
{
    (void)rl_pool_kill_query(data, &conn->peer, conn->id, KILL_LIMIT_US);
}

/* `peer`: the server that it must lead to; NULL: any. */
static rl_conn *take_idle(rl_pool *pool, rl_purpose purpose, const rl_peer *peer)
{
    pthread_mutex_lock(&pool->mutex);
    rl_conn **link = &pool->idle[purpose];
    while (*link && peer && !rl_peer_same(&(*link)->peer, peer))
        link = &(*link)->next;
    rl_conn *conn = *link;
    if (conn) {
        *link = conn->next;
        pool->idle_count[purpose]--;
    }
    pthread_mutex_unlock(&pool->mutex);
    return conn;
}

static rl_conn *take_idle_alive(rl_pool *pool, rl_purpose purpose, const rl_peer *peer)
{
    for (rl_conn *conn; (conn = take_idle(pool, purpose, peer));) {
        if (rl_conn_looks_alive(conn))
            return conn;
        conn->broken = true;
        rl_conn_close(conn);
    }
    return NULL;
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
    pthread_mutex_lock(&pool->mutex);
    pool->peer = conn->peer;
    pthread_mutex_unlock(&pool->mutex);
    *out = conn;
    return ROWLOCK_OK;
}

rowlock_status rl_pool_take(rl_pool *pool, rl_purpose purpose, const rl_io *io, rl_conn **conn,
                            rowlock_error *err)
{
    rl_conn *idle = take_idle_alive(pool, purpose, NULL);
    if (idle) {
        *conn = idle;
        return ROWLOCK_OK;
    }
    return open_new(pool, purpose, io, conn, err);
}

void rl_pool_give(rl_pool *pool, rl_conn *conn)
{
    if (!conn)
        return;
    pthread_mutex_lock(&pool->mutex);
    bool keep = !conn->broken && !conn->interrupted && !conn->ping_pending &&
                pool->idle_count[conn->purpose] < pool->max_idle;
    if (keep) {
        conn->next = pool->idle[conn->purpose];
        pool->idle[conn->purpose] = conn;
        pool->idle_count[conn->purpose]++;
    }
    pthread_mutex_unlock(&pool->mutex);
    if (!keep)
        rl_conn_close(conn);
}

rl_conn *rl_pool_take_at(rl_pool *pool, const rl_peer *peer, const rl_io *io)
{
    rl_conn *conn = take_idle_alive(pool, RL_WORK, peer);
    if (conn || open_new(pool, RL_WORK, io, &conn, NULL) != ROWLOCK_OK)
        return conn;
    if (rl_peer_same(&conn->peer, peer))
        return conn;
    rl_pool_give(pool, conn);
    return NULL;
}

bool rl_pool_kill_query(rl_pool *pool, const rl_peer *peer, uint64_t connection_id,
                        int64_t limit_us)
{
    rl_io io = rl_io_until(rl_time_add(rl_now_us(), limit_us));
    rl_conn *conn = rl_pool_take_at(pool, peer, &io);
    if (!conn)
        return false;
    /* This one is not to be interrupted in its turn. */
    conn->interrupt = NULL;
    rowlock_status status = pool->hooks.kill_query(conn, connection_id, &io);
    conn->interrupt = interrupt_through_pool;
    rl_pool_give(pool, conn);
    return status == ROWLOCK_OK;
}

bool rl_pool_reaches(rl_pool *pool, const rl_peer *peer)
{
    pthread_mutex_lock(&pool->mutex);
    bool found = rl_peer_same(&pool->peer, peer);
    for (rl_conn *conn = pool->idle[RL_WORK]; conn && !found; conn = conn->next)
        found = rl_peer_same(&conn->peer, peer);
    pthread_mutex_unlock(&pool->mutex);
    return found;
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
