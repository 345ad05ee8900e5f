/*
 * engine/turn.h - the bell of a lease: who has it, and how a waiting call comes to its turn.
 *
 * Every bell is a GET_LOCK of the server (sql/bell.sql). A holder keeps it on the connection
 * that took its lease, which other statements use meanwhile. A waiter stands in the server's
 * queue on a connection of its own; whoever is woken tries to take the lease.
 */
#ifndef RL_ENGINE_TURN_H
#define RL_ENGINE_TURN_H

#include "engine/client.h"
#include "wait/line.h"

/* A bell that goes with a held lease. */
typedef struct rl_bell {
    bool kept;
    bool waited_for;        /* others may be waiting, too */
    uint64_t serial;        /* of the connection that has it ... */
    uint64_t connection_id; /* ... and the server's number for that */
} rl_bell;

/* The lease was taken on `conn`, and its bell with it. */
void rl_bell_keep(rl_bell *bell, const rl_conn *conn, bool waited_for);

/* The connection that has it, for the release; NULL when it is busy or gone, or nothing is kept. */
rl_conn *rl_bell_connection(rowlock_client *client, const rl_bell *bell);

/* Rings it, if it is kept: at once, or when its connection is not busy any more. */
void rl_bell_give_up(rowlock_client *client, rl_bell *bell, uint64_t resource_id);

/*
 * Somebody has the bell on that connection (0: nobody; or on any that runs no statement) and will
 * not ring it: a holder that does not know yet that it has lost the lease, or one that is stopped.
 * Without the connection it has it no more. Best effort: waiters look again before long.
 */
#define RL_ANY_ASLEEP UINT64_MAX
void rl_bell_seize(rowlock_client *client, const rl_budget *budget, uint64_t resource_id,
                   uint64_t connection_id);

/*
 * A statement with a bell in it answered so: does the server refuse bells? Then the client polls
 * from now on.
 */
bool rl_bell_refused(rowlock_client *client, rowlock_status status, const rowlock_error *err);

/* One waiting call. */
typedef struct rl_turn {
    rowlock_client *client;
    const rl_budget *budget;
    const char *owner;
    uint64_t resource_id; /* to be set before it waits */
    int64_t ttl_us;
    /*
     * Asked while it waits, now and then: could the lease be taken although nobody rang? (Its
     * holder is stopped, or its host has vanished.) Says when it wants to be asked again.
     */
    bool (*look)(void *data, int64_t *again_us);
    void *data;
    rl_conn *conn; /* has the bell: it is our turn */
    bool unrung;   /* look() said yes: go ahead without the bell */
    rl_place place;
    int64_t waited_us; /* in the queue, the last time ... */
    int64_t change_us; /* ... and how long the change took that followed */
    int64_t look_us;   /* when to look next; 0: not known */
} rl_turn;

/* Could it wait by the bell now? */
bool rl_turn_waits(const rl_turn *turn);

/* It can, and the last time somebody had to: asking first whether the lease is free is in vain. */
bool rl_turn_waits_first(const rl_turn *turn);

/*
 * Waits for our turn, behind the other threads of this client, then in the server's queue. OK:
 * try now. TIMEOUT, CANCELLED. BUSY: it is our turn already, or there is no bell; wait in another
 * way.
 */
rowlock_status rl_turn_await(rl_turn *turn, rowlock_error *err) RL_MUST_USE;

/* The connection that has the bell is of no more use. */
void rl_turn_lose_bell(rl_turn *turn);

/* The next one's turn, here and (unless the lease was taken, and keeps the bell) at the server. */
void rl_turn_end(rl_turn *turn, bool taken);

#endif
