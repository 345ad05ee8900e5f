/* stmt/session.h - what a connection of rowlock's own is told, and asked, when it is made. */
#ifndef RL_STMT_SESSION_H
#define RL_STMT_SESSION_H

#include "stmt/stmt.h"

/* Sets a session up and finds out where it leads (conn->server), whatever that is. */
rowlock_status rl_session_setup(rl_conn *conn, rl_purpose purpose, const rl_io *io,
                                rowlock_error *err) RL_MUST_USE;

/*
 * Makes params->schema, by which this connection was opened, what the server calls it: where it
 * makes names lower case, the procedures and the triggers know no other. Asks no other server.
 */
rowlock_status rl_session_name_schema(rl_conn *conn, rl_params *params, const rl_io *io,
                                      rowlock_error *err) RL_MUST_USE;

/* Whose connection it is, for rl_session_grantee(), which else gives that a second. */
rowlock_status rl_session_ask_account(rl_conn *conn, const rl_io *io,
                                      rowlock_error *err) RL_MUST_USE;

/* For a GRANT after a refusal (DENIED): the account of this connection, quoted. "this user" where
 * it cannot be asked; `conn` may be NULL. Of RL_GRANTEE_SIZE. */
void rl_session_grantee(rl_conn *conn, rowlock_status status, char *text, size_t size);

/* Setting sessions up that lead to where locks may be taken (and finding out where they lead:
 * conn->server), stopping statements; for rl_pool_init(). */
extern const rl_pool_hooks rl_stmt_pool_hooks;

/* The session's wait_timeout on this connection: sent only when it differs from the last. */
rowlock_status rl_set_idle_limit(rl_conn *conn, uint64_t seconds, const rl_io *io,
                                 rowlock_error *err) RL_MUST_USE;

/* KILL CONNECTION, once, by its number. */
rowlock_status rl_session_kill(rl_conn *conn, const rl_io *io, uint64_t connection_id,
                               rowlock_error *err) RL_MUST_USE;

/*
 * The same for a connection that keeps the named lock `marker`. *ended: it keeps that no more, so
 * that its statement is undone, too; asked only where there is no such connection to be ended.
 */
rowlock_status rl_session_end(rl_conn *conn, const rl_io *io, uint64_t connection_id,
                              const char *marker, bool *ended, rowlock_error *err) RL_MUST_USE;

#define RL_NO_SUCH_THREAD 1094 /* server_errno then: there is no such connection ... */
#define RL_NOT_OWNER      1095 /* ... or its number is another user's by now: it has gone, too */

/*
 * Was the server started in the last `age_us`? A yes is sure, and a no means nothing where it was
 * started about as long ago. `older_id`: the number of a connection to this very server that was
 * made before then; 0: none is known.
 */
rowlock_status rl_session_restarted(rl_conn *conn, const rl_io *io, int64_t age_us,
                                    uint64_t older_id, bool *restarted,
                                    rowlock_error *err) RL_MUST_USE;

/* A key of a connection that works through procedures (sql/session.sql); false: no random number.
 */
bool rl_key_make(char key[RL_KEY_SIZE]) RL_MUST_USE;

#endif
