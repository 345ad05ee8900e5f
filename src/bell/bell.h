/*
 * bell/bell.h - who is woken when a lease becomes free: the protocol of the bell.
 *
 * The bell of a lease is a named lock of the server (GET_LOCK), `rowlock.<schema>.<id>`. The server
 * keeps its waiters in the order in which they came, and takes it back from a connection that ends.
 * It proves nothing: the connection that has the bell still has to swap the row.
 *
 * Waiters stand in two places. The *client line*: threads of one client, one behind the other
 * (wait/line.h); the first of them waits at the server, in the *bell queue*: the connections that
 * wait in GET_LOCK. (Where it does not matter which one it is, the docs say *line*. *Queue* alone
 * is the kind of name.)
 *
 *   the row               who has the bell                    the others
 *   held                  its holder, on the connection       wait in GET_LOCK, each on a
 *                         that took the lease                 connection of its own
 *   free, after a ring    the first who waited: it is woken   wait on; a newcomer finds the bell
 *                         and takes the row now               taken, and waits behind them
 *   held, waived          the first who waited: it takes the  the same
 *   (hand-over)           row over from the one who waived
 *   free                  nobody                              nobody waits
 *   held, without a bell  nobody: its holder lost its         the first who waits gets the bell
 *                         connection, or polls                at once, and looks at the row
 *
 * What goes to the server (sql/bell.sql, sql/lease.sql):
 *
 *   take with   lease_acquire   row and bell in one statement: GET_LOCK(.., 0) in the WHERE clause
 *   await       bell_wait       stands in the bell queue, and looks at the row now and then, on
 *                               another connection (turn.h)
 *   inherit     lease_inherit   the first who waited takes the row; it has the bell already
 *   ring        lease_release   RELEASE_LOCK in the SET clause that frees the row; or bell_ring,
 *                               or the end of the connection
 *   waive       lease_waive     hand-over: one write for two (below)
 *   seize       bell_holder     who has the bell and does not ring? That connection is ended
 *
 * A connection that has bells goes on to run other short statements, for other leases, too
 * (conn->pooled.pins counts its bells). If it is busy when its bell is to be rung, the caller that
 * has it rings when giving it back; the row was freed on another connection then
 * (lease_release_apart).
 *
 * Hand-over with one write, where the statement that takes a lease takes 1 ms or more: below that
 * two writes are quicker than the statements that save one. A holder that had to wait expects
 * others to. In one statement it waives this very version, in the server's memory (another named
 * lock, `<bell>=<version>`, the *waiver*), rings, and learns whether a waiter was woken. That one,
 * the successor, may take the row from status `held` as long as a session has the waiver of the
 * version that it finds there.
 * The releaser gives it a moment, then frees the row as ever; if the successor was there before, it
 * finds nothing left to free. So nothing depends on the waiver once the release has returned.
 * docs/notes/bell.md has the proof, and what was tried.
 */
#ifndef RL_BELL_BELL_H
#define RL_BELL_BELL_H

#include "stmt/stmt.h"
#include "wait/line.h"

/* MySQL takes names of at most 64 characters: the prefix, an id of up to 20 digits, '=' and 20
 * digits of a hash. */
#define RL_BELL_NAME_MAX   64
#define RL_BELL_PREFIX_MAX (RL_BELL_NAME_MAX - 20 - 1 - 20)

/*
 * The beginning of the names of a schema's bells, "rowlock.<schema>.". The server does not
 * distinguish the case of names, and they are short: a schema that does not fit gives its hash.
 */
void rl_bell_prefix(const char *schema, char prefix[RL_BELL_PREFIX_MAX + 1]);

/* A bell to be rung when its connection, which is busy, is given back. */
typedef struct rl_due_ring rl_due_ring;

/* A client's bells. */
typedef struct rl_bells {
    rl_pool *pool;
    const rl_log *log;
    char prefix[RL_BELL_PREFIX_MAX + 1]; /* of the names of this schema's bells */
    /* Waiters poll: asked for, or the server has no bell (it may turn out late). */
    atomic_bool polls;
    atomic_int_fast64_t commit_us;    /* how long taking a lease took of late; 0: not known */
    atomic_int_fast64_t successor_us; /* how long a successor may take to inherit a lease */
    rl_lines lines;                   /* of threads that wait for the same lock */
    rl_due_ring *due;                 /* guarded by the pool's mutex */
} rl_bells;

/* `prefix` and `polls` are the caller's to set. */
rowlock_status rl_bells_init(rl_bells *bells, rl_pool *pool, const rl_log *log,
                             rowlock_error *err) RL_MUST_USE;
void rl_bells_destroy(rl_bells *bells, bool forked);

/* The bell that goes with a held lease. */
typedef struct rl_bell {
    bool kept;
    bool came_from_queue;   /* we waited for it in the bell queue: others may, too */
    uint64_t serial;        /* of the connection that has it ... */
    uint64_t connection_id; /* ... and the server's number for that */
} rl_bell;

/* The lease was taken on `conn`, which has the bell, or tried to take it with the row: if a waiter
 * has it, ringing it has no effect. `came_from_queue`: we got it in the bell queue, which counted
 * its pin already. */
void rl_bell_keep(rl_bell *bell, rl_conn *conn, bool came_from_queue);

/* A statement on `conn` has rung it. */
void rl_bell_rung(rl_bell *bell, rl_conn *conn);

/* The connection that has it, for the release; NULL when it is busy or gone, or nothing is kept. */
rl_conn *rl_bell_connection(rl_bells *bells, const rl_bell *bell);

/* Rings it, if it is kept: at once, or when its connection is not busy any more. */
void rl_bell_give_up(rl_bells *bells, rl_bell *bell, uint64_t resource_id);

/* Rings a bell that this connection, which the caller has taken, keeps. One that cannot ring is
 * broken: it is closed, and the server rings for it. */
void rl_bell_ring_on(rl_conn *conn, const rl_bells *bells, uint64_t resource_id);

/* The same for one that was not counted yet, and is closed in any case. */
rowlock_status rl_bell_ring_soon(rl_conn *conn, const rl_bells *bells,
                                 uint64_t resource_id) RL_MUST_USE;

/* The server's numbers of busy connections that are to ring this bell later, or are at it:
 * "17,23", "" where there is none. Only one of them has it; of more than there is room for, some.
 */
enum { RL_ID_TEXT_MAX = 21, RL_RINGS_DUE_MAX = 12 * RL_ID_TEXT_MAX };
void rl_bell_rings_due(rl_bells *bells, uint64_t resource_id, char *ids, size_t size);

/*
 * Ends the connection that has the bell and will not ring it: that of a holder that does not know
 * yet that it has lost the lease, or one that is stopped. `connection_id`: its number; 0: do
 * nothing; RL_ANY_ASLEEP: whichever connection has the bell, if that runs no statement. Best
 * effort: waiters look again before long.
 */
#define RL_ANY_ASLEEP UINT64_MAX
void rl_bell_seize(rl_bells *bells, const rl_budget *budget, uint64_t resource_id,
                   uint64_t connection_id);

/* The same for a connection that has the bell and has run no statement for so long. */
void rl_bell_seize_asleep(rl_bells *bells, const rl_budget *budget, uint64_t resource_id,
                          uint64_t seconds);

/*
 * A statement with a bell in it answered so: does the server refuse bells? Then the client polls
 * from now on.
 */
bool rl_bell_refused(rl_bells *bells, rowlock_status status, const rowlock_error *err);

/* ------------------------------------------------------------------ single statements */

/* Rings one bell of this connection. */
rowlock_status rl_bell_ring(rl_conn *conn, const char *prefix, uint64_t resource_id,
                            const rl_io *io) RL_MUST_USE;

/* Takes a bell for this connection. BUSY: another connection has it. */
rowlock_status rl_bell_take(rl_conn *conn, const char *prefix, uint64_t resource_id,
                            const rl_io *io) RL_MUST_USE;

/* Who waits; it can be read in the server's process list. */
typedef struct rl_waiter {
    uint64_t resource_id;
    uint64_t waited_ms; /* before this statement */
    const char *owner;
    const char *label;
} rl_waiter;

/*
 * Stands in the bell queue until the bell is ours, for at most so many seconds (at least 1). *got:
 * it is. TIMEOUT, CANCELLED as the io says; then the connection is of no more use.
 */
rowlock_status rl_bell_wait(rl_conn *conn, const rl_bells *bells, const rl_waiter *waiter,
                            uint64_t seconds, const rl_io *io, bool *got,
                            rowlock_error *err) RL_MUST_USE;

/* -------------------------------------------------------------------------- hand-over */

/* What is waived: a version of a resource, by its holder. */
typedef struct rl_waiver {
    uint64_t resource_id;
    uint64_t version;
    const char *owner;
} rl_waiver;

typedef struct rl_waived {
    bool mine;      /* it was still the holder's to waive; else nothing was rung */
    bool successor; /* a waiter was woken, has the bell, and may take the lease (lease_inherit) */
} rl_waived;

/* A lease was taken by a statement that took so long: round trip and commit (mostly the flush of
 * the disk), and where it was new to its connection, PREPARE. */
void rl_bell_note_commit(rl_bells *bells, int64_t us);
/* Does that take so long here that one write for two is worth its statements? */
bool rl_bell_commits_slowly(const rl_bells *bells);

/* Waives it, and rings. UNKNOWN: the reply was lost. */
rowlock_status rl_bell_waive(rl_conn *conn, const rl_bells *bells, const rl_waiver *waiver,
                             const rl_io *io, rl_waived *waived, rowlock_error *err) RL_MUST_USE;

/* Gives the successor a moment; then: had it taken the lease by then? The next one gets a little
 * less time, or more. */
void rl_bell_await_successor(const rl_bells *bells, const rl_budget *budget);
void rl_bell_note_successor(rl_bells *bells, bool inherited);

#endif
