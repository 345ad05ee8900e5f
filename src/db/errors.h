/* db/errors.h - the one place where the numbers of servers and of Connector/C become statuses; what
 * to tell of a statement that the server refused, and the right that was missing. */
#ifndef RL_DB_ERRORS_H
#define RL_DB_ERRORS_H

#include "db/flavour.h"

/*
 * What a failed statement means. A lost connection is UNKNOWN: the statement may have run. BUSY: a
 * lock wait ended. CANCELLED: KILL QUERY (mostly ours) or a time limit ended it.
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

typedef struct rl_refusal {
    const char *statement; /* its name */
    const char *schema;    /* NULL: not known. MySQL does not say it where a right is missing */
    unsigned number;
    /* A copy: asking for the account overwrites Connector/C's own error. */
    char sqlstate[6];
    char text[1024];
    const char *account; /* what CURRENT_USER() says: "user@host"; NULL: not known */
    const char *meaning; /* in front of that text; NULL: what the status says */
} rl_refusal;

/* Its text has the GRANT's user, which the account is wanted for. */
bool rl_refusal_names_account(unsigned number);

/* Fills err, and returns the status. Where a right is missing (DENIED), the GRANT that gives it: to
 * the account; where that is not known, to the user and host that the server's text has. */
rowlock_status rl_refused(const rl_refusal *refusal, rowlock_status status, rowlock_error *err);

#define RL_GRANTEE_SIZE 900

/* 'user'@'host', quoted, for a GRANT, of what CURRENT_USER() says. */
void rl_grantee(const char *account, char *text, size_t size);

#endif
