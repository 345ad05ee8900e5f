/*
 * stmt/caller.h - statements on the caller's own connection.
 *
 * They are sent as text and awaited with poll(), so that they work on any MYSQL * and end on time.
 * The connection is not closed, and never left in the middle of a reply.
 */
#ifndef RL_STMT_CALLER_H
#define RL_STMT_CALLER_H

#include "stmt/stmt.h"

typedef struct rl_caller {
    MYSQL *mysql;
    rl_pool *pool; /* sends KILL QUERY at the deadline */
    const char *schema;
    bool via;              /* through procedures, since this user may have no other rights */
    char key[RL_KEY_SIZE]; /* with `via`: names the call to stop */
} rl_caller;

/*
 * Runs a text statement. *rows: matched or returned rows. The first column of the first row goes to
 * `text` (of `size` bytes; may be NULL). TIMEOUT and CANCELLED: it was stopped; the transaction
 * goes on. UNKNOWN: the connection is gone. BUSY for a row lock: also if the pool cannot reach the
 * caller's server, since a wait there could not be stopped.
 */
rowlock_status rl_caller_run(const rl_caller *caller, rl_sql_id id, const rl_value *values,
                             const rl_io *io, uint64_t *rows, char *text, size_t size,
                             rowlock_error *err) RL_MUST_USE;

/* The id that the last statement has inserted; 0: none. */
uint64_t rl_caller_insert_id(const rl_caller *caller);

/* True: KILL QUERY may stop its statements, since its user is the client's. */
bool rl_caller_same_user(MYSQL *mysql, const char *user);

#endif
