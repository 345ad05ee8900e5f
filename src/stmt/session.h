/* stmt/session.h - what a new connection of rowlock's own sets and asks. */
#ifndef RL_STMT_SESSION_H
#define RL_STMT_SESSION_H

#include "stmt/stmt.h"

/* Sets a session up and finds out which server it leads to (conn->server), without judging that. */
rowlock_status rl_session_setup(rl_conn *conn, rl_purpose purpose, const rl_io *io,
                                rowlock_error *err) RL_MUST_USE;

/*
 * Spells params->schema, with which this connection was opened, as the server does: on a server
 * that makes names lower case, procedures and triggers know no other spelling. Asks no other
 * server.
 */
rowlock_status rl_session_name_schema(rl_conn *conn, rl_params *params, const rl_io *io,
                                      rowlock_error *err) RL_MUST_USE;

/* Reads the connection's account for rl_session_grantee(), which otherwise asks itself, for up to a
 * second. */
rowlock_status rl_session_ask_account(rl_conn *conn, const rl_io *io,
                                      rowlock_error *err) RL_MUST_USE;

/* For a GRANT after a refusal (DENIED): the quoted account of this connection, or "this user" if it
 * cannot be asked; `conn` may be NULL. `size`: RL_GRANTEE_SIZE. */
void rl_session_grantee(rl_conn *conn, rowlock_status status, char *text, size_t size);

/* For rl_pool_init(): sets sessions up, refuses a server where locks may not be taken, stops
 * statements. */
extern const rl_pool_hooks rl_stmt_pool_hooks;

/* Sets the session's wait_timeout, if it differs from the last one. */
rowlock_status rl_set_idle_limit(rl_conn *conn, uint64_t seconds, const rl_io *io,
                                 rowlock_error *err) RL_MUST_USE;

/* Sends KILL CONNECTION once, by the connection's number. */
rowlock_status rl_session_kill(rl_conn *conn, const rl_io *io, uint64_t connection_id,
                               rowlock_error *err) RL_MUST_USE;

/*
 * The same for a connection that holds the named lock `marker`. *ended: there is no such
 * connection, and it does not hold the lock any more, so its statement is undone, too.
 */
rowlock_status rl_session_end(rl_conn *conn, const rl_io *io, uint64_t connection_id,
                              const char *marker, bool *ended, rowlock_error *err) RL_MUST_USE;

#define RL_NO_SUCH_THREAD 1094 /* server_errno: there is no such connection ... */
#define RL_NOT_OWNER      1095 /* ... or another user's connection has its number */

/*
 * *restarted: the server was started in the last `age_us`, for certain. False is not certain if it
 * was started about that long ago. `older_id`: the number of a connection to this server that was
 * made before; 0: none is known.
 */
rowlock_status rl_session_restarted(rl_conn *conn, const rl_io *io, int64_t age_us,
                                    uint64_t older_id, bool *restarted,
                                    rowlock_error *err) RL_MUST_USE;

/*
 * Makes the key of a connection that works through procedures (sql/session.sql). False: no random
 * number.
 */
bool rl_key_make(char key[RL_KEY_SIZE]) RL_MUST_USE;

#endif
