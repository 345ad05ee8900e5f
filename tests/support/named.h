/*
 * support/named.h - the statements of sql/ by their names: "lease_renew", or several, separated by
 * spaces. A name means the statement itself and the CALL of its procedure. Statements with the same
 * text (row_commit and caller_commit) are the same here. "=TEXT" is a statement of the test's own,
 * "~TEXT" any statement that contains it. An unknown name fails the test, and so does a TEXT that
 * no statement contains.
 */
#ifndef TS_NAMED_H
#define TS_NAMED_H

#include <stdbool.h>
#include <stddef.h>

#include <mysql.h>

void ts_named_check(const char *names);
/* The text is one of these statements, with or without its values. */
bool ts_named_is(const char *names, const char *text, size_t length);
/* An SQL condition: the process list's `info` is one of these statements. Valid until the next
 * call. */
const char *ts_named_info(const char *names);

#endif
