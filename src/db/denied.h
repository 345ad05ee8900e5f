/* db/denied.h - what a user lacks, from what the server says when it refuses. */
#ifndef RL_DB_DENIED_H
#define RL_DB_DENIED_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The GRANT that would allow it, from the text of error 1142 or 1143 in the server's English.
 * `schema`: where MySQL does not say it; NULL: not known. False: it says something else.
 */
bool rl_denied_grant(const char *text, const char *schema, char *grant, size_t size);

#endif
