/* db/pool.h - the client's connections: idle ones are kept, up to a number, by purpose. */
#ifndef RL_DB_POOL_H
#define RL_DB_POOL_H

#include <pthread.h>
#include <stdatomic.h>

#include "db/conn.h"

typedef enum rl_purpose {
    RL_WORK, /* autocommit; statements that are done at once, and waits for a bell */
    RL_HOLD, /* autocommit off; keeps row locks */
    RL_PURPOSES
} rl_purpose;

/* What a pool does with statements; the stmt layer knows how. */
typedef struct rl_pool_hooks {
    /* Fills conn->server, too. */
    rowlock_status (*setup)(rl_conn *conn, rl_purpose purpose, const rl_io *io, rowlock_error *err);
    rowlock_status (*kill_query)(rl_conn *conn, uint64_t connection_id, const char *key,
                                 const rl_io *io);
    rowlock_status (*ring)(rl_conn *conn, const char *prefix, uint64_t resource_id,
                           const rl_io *io);
} rl_pool_hooks;

/*
 * What ringing a bell on the way may take: the call, or the keeper, is not to be late. Without an
 * answer the connection is closed, and the server rings.
 */
#define RL_RING_LIMIT_US 50000

typedef struct rl_pool {
    rl_params params;
    rl_pool_hooks hooks;
    const char *bell_prefix; /* the client's */
    unsigned max_idle;
    pthread_mutex_t mutex;
    rl_conn *idle[RL_PURPOSES];
    unsigned idle_count[RL_PURPOSES]; /* without bells; the others are kept anyway */
    rl_conn *busy;                    /* of RL_WORK */
    uint64_t serial;                  /* given out */
    rl_peer peer;                     /* of the connection that was opened last */
    /* Likewise. Whoever connects now gets there: what leads elsewhere is not used any more. */
    atomic_int cluster; /* an rl_cluster */
    atomic_uint_fast64_t identity;
    atomic_uint_fast64_t node;
    void (*moved)(void *data); /* called when they change, with no mutex held; may be NULL */
    void *moved_data;
} rl_pool;

/* Takes the params over. `bell_prefix` must live as long as the pool. */
rowlock_status rl_pool_init(rl_pool *pool, rl_params *params, const rl_pool_hooks *hooks,
                            const char *bell_prefix, unsigned max_idle,
                            rowlock_error *err) RL_MUST_USE;

/*
 * The newest connection decides which server is meant: idle ones that lead to another one, or to
 * one that said it is read-only, are closed. That catches a change of servers, since a
 * connection stays where it is; a proxy that sends each statement where it likes is beyond it.
 *
 * An idle connection that looks alive, the one with the fewest bells (unless it has as many as one
 * may have), or a new one. Statuses of rl_conn_open().
 */
rowlock_status rl_pool_take(rl_pool *pool, rl_purpose purpose, const rl_io *io, rl_conn **conn,
                            rowlock_error *err) RL_MUST_USE;

/* The same, but always a new one. */
rowlock_status rl_pool_take_new(rl_pool *pool, rl_purpose purpose, const rl_io *io, rl_conn **conn,
                                rowlock_error *err) RL_MUST_USE;

/*
 * As rl_pool_take(), but one that was used a moment ago is not looked at (conn->unseen). For a
 * request that is made once more, at once, when the connection turns out to be gone.
 */
rowlock_status rl_pool_take_unseen(rl_pool *pool, rl_purpose purpose, const rl_io *io,
                                   rl_conn **conn, rowlock_error *err) RL_MUST_USE;

/* A working connection without bells: it may wait in a statement, nobody needs it meanwhile. */
rowlock_status rl_pool_take_quiet(rl_pool *pool, const rl_io *io, rl_conn **conn,
                                  rowlock_error *err) RL_MUST_USE;

/* A working connection that is to get a bell; one that has some, if there is one. */
rowlock_status rl_pool_take_for_bell(rl_pool *pool, const rl_io *io, rl_conn **conn,
                                     rowlock_error *err) RL_MUST_USE;

/* One without bells if it can be had, since somebody may want to ring them meanwhile; else any. */
rowlock_status rl_pool_take_aside(rl_pool *pool, const rl_io *io, rl_conn **conn,
                                  rowlock_error *err) RL_MUST_USE;

/*
 * Gives it back, in no transaction; closes it when it is broken, or without a bell and one too
 * many. Rings what was to be rung later. Takes NULL.
 */
void rl_pool_give(rl_pool *pool, rl_conn *conn);

/*
 * A working connection to that very server, or NULL. A name may lead to another server each
 * time: one attempt.
 */
rl_conn *rl_pool_take_at(rl_pool *pool, const rl_peer *peer, const rl_io *io);

/* The working connection of that serial number, if it is idle and alive; else NULL. */
rl_conn *rl_pool_take_that(rl_pool *pool, uint64_t serial);

/*
 * That working connection is busy: whoever has it rings the bell of this resource when giving it
 * back. Nothing to do when it is gone: the server has rung its bells. False: it is idle (again).
 */
bool rl_pool_ring_later(rl_pool *pool, uint64_t serial, uint64_t resource_id);

/* The server's numbers of busy connections that are to ring this bell later, or are at it:
 * "17,23", "" where there is none. Only one of them has it; of more than there is room for, some.
 */
enum { RL_ID_TEXT_MAX = 21, RL_RINGS_DUE_MAX = 12 * RL_ID_TEXT_MAX };
void rl_pool_rings_due(rl_pool *pool, uint64_t resource_id, char *ids, size_t size);

/* Pings idle connections with bells that were last used before `before_us`: the server ends what
 * it has not heard of for long. */
void rl_pool_touch_bells(rl_pool *pool, int64_t before_us, const rl_io *io);

/*
 * KILL QUERY for a connection of any program of ours, on a connection to the same server. False
 * when it did not succeed within so long, or there is no way to that server; the KILL may
 * have arrived all the same. `key`: that connection's, if it is in a procedure; else "".
 */
bool rl_pool_kill_query(rl_pool *pool, const rl_peer *peer, uint64_t connection_id, const char *key,
                        int64_t limit_us);

/* Rings a bell that this connection, which the caller has taken, keeps. */
rowlock_status rl_pool_ring(const rl_pool *pool, rl_conn *conn, uint64_t resource_id) RL_MUST_USE;
/* The same, and it is one bell less. One that cannot ring is broken: it is closed, and the server
 * rings for it. */
void rl_pool_ring_off(const rl_pool *pool, rl_conn *conn, uint64_t resource_id);

/* Is it likely that rl_pool_kill_query() finds a way to that server? */
bool rl_pool_reaches(rl_pool *pool, const rl_peer *peer);

/* What the server is a member of, as the newest connection found it. */
rl_cluster rl_pool_cluster(const rl_pool *pool);

/*
 * Is this the server to which the newest connection led? To its cluster, where the nodes of that
 * are one and the same; `exactly`: to this very node, whose row locks the others do not have.
 */
bool rl_pool_is_current(const rl_pool *pool, const rl_server *server, bool exactly);

/* `forked`: in a child process, so no word to the server and no mutex. */
void rl_pool_destroy(rl_pool *pool, bool forked);

#endif
