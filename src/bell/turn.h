/* bell/turn.h - how a call that waits for a lease comes to its turn. */
#ifndef RL_BELL_TURN_H
#define RL_BELL_TURN_H

#include "bell/bell.h"

/* One waiting call. */
typedef struct rl_turn {
    rl_bells *bells;
    const rl_budget *budget;
    const char *owner;
    const char *label;
    uint64_t resource_id; /* to be set before it waits */
    int64_t ttl_us;
    /*
     * Asked while it waits, now and then: could the lease be taken although the bell did not ring?
     * (Its holder is stopped, or its host has vanished.) Says when it wants to be asked again.
     */
    bool (*look)(void *data, int64_t *again_us);
    void *data;
    bool looks_in_line;     /* also while other threads of this client are before it */
    rl_conn *conn;          /* has the bell: it is our turn */
    bool take_without_bell; /* look() said yes: take the lease without the bell */
    rl_place place;
    int64_t waited_us; /* in the bell queue, the last time ... */
    int64_t change_us; /* ... and how long the change took that followed */
    int64_t look_us;   /* when to look next; 0: not known */
} rl_turn;

/* The last wait for this name, by the bell, was a real one: stand in the bell queue first, since an
 * attempt would probably find the lease held. */
bool rl_turn_waits_first(const rl_turn *turn);

/*
 * Waits for our turn: in the client line, behind the other threads of this client, then in the
 * bell queue. OK: try now. TIMEOUT, CANCELLED. BUSY: it is our turn already, or there is no bell:
 * wait in another way.
 */
rowlock_status rl_turn_await(rl_turn *turn, rowlock_error *err) RL_MUST_USE;

/*
 * A connection for the statement that takes the lease: the one that has the bell, when it is our
 * turn; else one that may get it. One that has the bell and broke has it no more.
 */
rowlock_status rl_turn_borrow(rl_turn *turn, rl_conn **conn, rowlock_error *err) RL_MUST_USE;
void rl_turn_give_back(rl_turn *turn, rl_conn *conn);

/* A statement on the connection that has the bell, which the caller has borrowed, has rung it: it
 * is the others' turn at the server. */
void rl_turn_rung(rl_turn *turn);

/* The next one's turn, here and (unless the lease was taken, and keeps the bell) at the server. */
void rl_turn_end(rl_turn *turn, bool taken);

#endif
