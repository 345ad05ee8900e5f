/*
 * stmt/caller.h - statements on the caller's own connection.
 *
 * Sent as text and awaited with poll(), so that they work on any MYSQL * and end on time. The
 * connection is never closed, and never left in the middle of a reply.
 */
#ifndef RL_STMT_CALLER_H
#define RL_STMT_CALLER_H

#include "stmt/stmt.h"

typedef struct rl_caller {
    MYSQL *mysql;
    rl_pool *pool; /* sends KILL QUERY when the time is over */
    const char *schema;
    bool via; /* through procedures, where there is one: this user may have no other rights */
    char key[RL_KEY_SIZE]; /* then: by which the call may be stopped */
} rl_caller;

/*
 * Runs a text statement. *rows: matched or returned rows. The first column of the first row
 * goes to `text` (of `size` bytes; may be NULL).
 * TIMEOUT and CANCELLED: stopped, and the transaction has lost nothing. UNKNOWN: the
 * connection is gone. Where the pool has no way to the caller's server, the waiting row lock is
 * only tried (BUSY): a wait could not be stopped.
 */
rowlock_status rl_caller_run(const rl_caller *caller, rl_sql_id id, const rl_value *values,
                             const rl_io *io, uint64_t *rows, char *text, size_t size,
                             rowlock_error *err) RL_MUST_USE;

/* Of what the last statement has inserted; 0: nothing. */
uint64_t rl_caller_insert_id(const rl_caller *caller);

/* May KILL QUERY stop its statements? Only with the same user as the client's. */
bool rl_caller_same_user(MYSQL *mysql, const char *user);

#endif
