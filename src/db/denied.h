/* db/denied.h - what to tell of a statement that the server refused; and the right that was
 * missing. */
#ifndef RL_DB_DENIED_H
#define RL_DB_DENIED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct rl_refusal {
    const char *statement; /* its name */
    const char *schema;    /* NULL: not known. MySQL does not say it where a right is missing */
    unsigned number;
    /* Kept: who asks for the account has another answer in Connector/C's place for errors. */
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
