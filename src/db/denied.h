/* db/denied.h - what to tell of a statement that the server refused; and the right that was
 * missing. */
#ifndef RL_DB_DENIED_H
#define RL_DB_DENIED_H

#include <stddef.h>

#include "base/error.h"

typedef struct rl_refusal {
    const char *statement; /* its name */
    const char *schema;    /* NULL: not known. MySQL does not say it where a right is missing */
    unsigned number;
    const char *sqlstate;
    const char *text;
    const char *meaning; /* in front of that text; NULL: what the status says */
} rl_refusal;

/* Fills err, and returns the status. Where a right is missing (DENIED), the GRANT that gives it. */
rowlock_status rl_refused(const rl_refusal *refusal, rowlock_status status, rowlock_error *err);

/* 'user'@'host', for a GRANT, of what CURRENT_USER() says. */
void rl_grantee(const char *user, char *text, size_t size);

#endif
