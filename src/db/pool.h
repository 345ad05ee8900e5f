/* db/pool.h - the client's connections: idle ones are kept, up to a number, by purpose. */
#ifndef RL_DB_POOL_H
#define RL_DB_POOL_H

#include <pthread.h>
#include <stdatomic.h>

#include "db/conn.h"

typedef enum rl_purpose {
    RL_WORK, /* autocommit; statements that are done at once, and waits in the queue for a lease */
    RL_HOLD, /* autocommit off; keeps row locks */
    RL_FOREIGN, /* for a user's own statements: rows are counted as the mysql client counts them */
    RL_PURPOSES
} rl_purpose;

/* What a pool does with statements; the stmt layer knows how. */
typedef struct rl_pool_hooks {
    /* Fills conn->server, too. */
    rowlock_status (*setup)(rl_conn *conn, rl_purpose purpose, const rl_io *io, rowlock_error *err);
    rowlock_status (*kill_query)(rl_conn *conn, uint64_t connection_id, const char *key,
                                 const rl_io *io);
} rl_pool_hooks;

typedef struct rl_pool {
    rl_params params;
    rl_pool_hooks hooks;
    unsigned max_idle;
    pthread_mutex_t mutex;
    rl_conn *idle[RL_PURPOSES];
    unsigned idle_count[RL_PURPOSES]; /* without bells; the others are kept anyway */
    rl_conn *busy;                    /* of RL_WORK */
    uint64_t serial;                  /* given out */
    rl_peer peer;                     /* of the connection that was opened last */
    /* Of the newest connection, too: a connection that leads to another server is not used any
     * more. */
    atomic_int cluster; /* an rl_cluster */
    atomic_uint_fast64_t identity;
    atomic_uint_fast64_t node;
    void (*moved)(void *data); /* called when they change, with no mutex held; may be NULL */
    void *moved_data;
    /* Called when a connection with pins is given back, or found dead, before another caller can
     * have it; with the mutex, which it may give up meanwhile. */
    void (*returned)(void *data, rl_conn *conn);
    void *returned_data;
    unsigned pins_most; /* on one connection */
} rl_pool;

/* Takes the params over. */
void rl_pool_init(rl_pool *pool, rl_params *params, const rl_pool_hooks *hooks, unsigned max_idle);

/* The caller that has pinned a connection (conn->pooled.pins) may need it at any time. */
typedef enum rl_pins {
    RL_PINS_FEW,      /* the one with the fewest, and never one that is full (pins_most) */
    RL_PINS_NONE,     /* for a statement that may wait: no pin's owner needs it meanwhile */
    RL_PINS_NOT_LONG, /* without any if one can be had or made, else whichever */
    RL_PINS_MANY      /* it is to get another: so the others stay quiet */
} rl_pins;

/* Which connection is wanted. All zero, or NULL: any working one. */
typedef struct rl_request {
    rl_purpose purpose;
    rl_pins pins;
    const rl_peer *peer; /* one to that very server. A name may lead to another each time: one
                            attempt; UNAVAILABLE */
    bool fresh;          /* a new one, always */
} rl_request;

/*
 * The newest connection decides which server is meant: idle ones that lead to another one, or to
 * one that said it is read-only, are closed. That catches a change of servers, since a
 * connection stays where it is; a proxy that sends each statement where it likes is beyond it.
 *
 * An idle connection that looks alive, or a new one. Statuses of rl_conn_open().
 */
rowlock_status rl_pool_take(rl_pool *pool, const rl_request *wanted, const rl_io *io,
                            rl_conn **conn, rowlock_error *err) RL_MUST_USE;

/* The working connection of that serial number, if it is idle and alive; else NULL. */
rl_conn *rl_pool_take_that(rl_pool *pool, uint64_t serial);

/* With the pool's mutex: that one, be it idle or busy; NULL: it is gone. */
rl_conn *rl_pool_find(const rl_pool *pool, uint64_t serial, bool *busy);

/* True if the connection can be used again when it is given back. */
bool rl_pool_keeps(const rl_pool *pool, const rl_conn *conn);

/* Gives it back, in no transaction; closes it when it is broken, or without pins and one too many.
 * Takes NULL. */
void rl_pool_give(rl_pool *pool, rl_conn *conn);

/* A connection that is given back by itself. */
#define RL_BORROWED RL_CLEANUP(rl_pool_give_back) rl_conn *
void rl_pool_give_back(rl_conn **conn);

/* Pings idle connections with pins that were last used before `before_us`: the server ends what
 * it has not heard of for long. Those for which there is no time are left to the next call. */
void rl_pool_touch_pinned(rl_pool *pool, int64_t before_us, const rl_io *io);

/*
 * KILL QUERY for a connection of any program of ours, on a connection to the same server. False
 * when it did not succeed within so long, or there is no way to that server; the KILL may
 * have arrived all the same. `key`: that connection's, if it is in a procedure; else "".
 */
bool rl_pool_kill_query(rl_pool *pool, const rl_peer *peer, uint64_t connection_id, const char *key,
                        int64_t limit_us);

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
