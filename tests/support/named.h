/*
 * support/named.h - the statements of sql/ by their names, as a test says them: "lease_renew", or
 * several, with spaces between. A name means the statement itself and the CALL of its procedure.
 * Statements that have the same text (row_commit and caller_commit) are the same here. "=TEXT" is a
 * statement of the test's own, "~TEXT" any that has it in it. A name that there is not fails the
 * test, and so does a TEXT that is in no statement.
 */
#ifndef TS_NAMED_H
#define TS_NAMED_H

#include <stdbool.h>
#include <stddef.h>

#include <mysql.h>

void ts_named_check(const char *names);
/* Is the text one of them, with or without its values? */
bool ts_named_is(const char *names, const char *text, size_t length);
/* An SQL condition: the process list's `info` is one of them. Until the next call. */
const char *ts_named_info(const char *names);

#endif
