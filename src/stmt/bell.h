/* stmt/bell.h - statements about a bell (sql/bell.sql). */
#ifndef RL_STMT_BELL_H
#define RL_STMT_BELL_H

#include "stmt/stmt.h"

/* MySQL takes names of at most 64 characters: the prefix, an id of up to 20 digits, '=' and 20
 * digits of a hash. */
#define RL_BELL_NAME_MAX   64
#define RL_BELL_PREFIX_MAX (RL_BELL_NAME_MAX - 20 - 1 - 20)

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

/* What is given up: a version of a resource, by its holder. */
typedef struct rl_waiver {
    const char *prefix;
    uint64_t resource_id;
    uint64_t version;
    const char *owner;
} rl_waiver;

typedef struct rl_waived {
    bool mine; /* it was still the holder's to give up; else nothing was rung */
    bool heir; /* somebody was woken, has the bell, and may take the lease (lease_inherit) */
} rl_waived;

/* Gives it up, and rings. UNKNOWN: the reply was lost. */
rowlock_status rl_bell_waive(rl_conn *conn, const rl_waiver *waiver, const rl_io *io,
                             rl_waived *waived, rowlock_error *err) RL_MUST_USE;

#endif
