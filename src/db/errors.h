/* db/errors.h - the one place where the numbers of servers and of Connector/C become statuses. */
#ifndef RL_DB_ERRORS_H
#define RL_DB_ERRORS_H

#include "db/flavour.h"

/*
 * What a failed statement means. A lost connection is UNKNOWN: the statement may have
 * run. BUSY: a lock wait ended. CANCELLED: somebody (we, mostly) sent KILL QUERY, or a
 * time limit ended it.
 */
rowlock_status rl_server_status(unsigned number, rl_flavour flavour);

/* The same, where the server's words (`text`) say what its number does not. */
rowlock_status rl_server_status_said(unsigned number, const char *text, rl_flavour flavour);

/* The same for a SIGNAL (1644), where it is one of rowlock's procedures' (SQLSTATE RLxxx). */
rowlock_status rl_answer_status(unsigned number, const char *sqlstate, const char *text,
                                rl_flavour flavour);

/* Is it such a SIGNAL? Its text is in the library's own words then. */
bool rl_is_signal(unsigned number, const char *sqlstate);

/* The same for a connection that could not be made: nothing has happened yet. */
rowlock_status rl_connect_status(unsigned number, rl_flavour flavour);

#endif
