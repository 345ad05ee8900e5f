/* stmt/bell.h - statements about a bell (sql/bell.sql). */
#ifndef RL_STMT_BELL_H
#define RL_STMT_BELL_H

#include "stmt/stmt.h"

/* The server takes names of 64 bytes; an id has up to 20 digits. */
#define RL_BELL_PREFIX_MAX 44

/*
 * The beginning of the names of a schema's bells, "rowlock.<schema>.". The server does not
 * distinguish the case of names, and they are short: a schema that does not fit gives its hash.
 */
void rl_bell_prefix(const char *schema, char prefix[RL_BELL_PREFIX_MAX + 1]);

/* Who waits, for what; it can be read in the server's process list. */
typedef struct rl_waiter {
    const char *prefix;
    uint64_t resource_id;
    uint64_t waited_ms; /* before this statement */
    const char *owner;
    const char *label;
} rl_waiter;

/*
 * Stands in the queue until the bell is ours, for at most so many seconds (at least 1). *got: it
 * is. TIMEOUT, CANCELLED as the io says; then the connection is of no more use.
 */
rowlock_status rl_bell_wait(rl_conn *conn, const rl_waiter *waiter, uint64_t seconds,
                            const rl_io *io, bool *got, rowlock_error *err) RL_MUST_USE;

/* Gives one bell of this connection to the first who waits for it. */
rowlock_status rl_bell_ring(rl_conn *conn, const char *prefix, uint64_t resource_id,
                            const rl_io *io) RL_MUST_USE;

/* Takes one for this connection if nobody has it. */
rowlock_status rl_bell_take(rl_conn *conn, const char *prefix, uint64_t resource_id,
                            const rl_io *io) RL_MUST_USE;

#endif
