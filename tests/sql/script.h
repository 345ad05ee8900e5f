/*
 * sql/script.h - the form of a script: what several sessions do, one line after the other.
 *
 *     # told again in what comes out, as every line is
 *     # no procedures                  the schema is to have none; this very line
 *     user app                         a login of its own, without rights: {app} in statements
 *     login b as app charset=latin1    session b is his (who is not logged in is root, utf8mb4)
 *     mask /[0-9]+ rows/N rows/        what differs from run to run (a regular expression)
 *     a> SELECT 1;                     session a runs it; what came out stands below
 *        FROM DUAL;                    a line that begins with a space goes on with the one above
 *     b& CALL rowlock_acquire(...);    begun, not waited for
 *     until b waits                    for a row, a named lock, a table, or in SLEEP()
 *     until 2 wait                     so many connections of this schema do
 *     until a> SELECT ...;             its first column is true
 *     b<                               what came out of it, when it has ended
 *     $ rowlock run x -- true          a shell; `rowlock` is the built command, on this schema
 *     s$& rowlock run x -- true        one in the background; s< waits for it
 *     c! acquire x lease wait=0        the library, commands of races/session.c (also c!& ...)
 *     close b                          ends the session's connection
 *     without mysql                    ends the script there (or: without mariadb)
 *
 * In statements and commands {schema} is the schema, {b.id} the number of b's connection, {xFF} a
 * byte. One `;` at the end is taken away.
 */
#ifndef SQL_SCRIPT_H
#define SQL_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

enum { NAME_MAX_BYTES = 16, STEPS_IN_SCRIPT = 600 };

typedef enum step_kind {
    STEP_NOTHING, /* an empty line, a comment */
    STEP_SQL,
    STEP_SHELL,
    STEP_LIBRARY,
    STEP_AWAIT,
    STEP_UNTIL_WAITS,
    STEP_UNTIL_COUNT,
    STEP_UNTIL_SQL,
    STEP_USER,
    STEP_LOGIN,
    STEP_CLOSE,
    STEP_MASK,
    STEP_WITHOUT
} step_kind;

typedef struct script_step {
    step_kind kind;
    bool background;
    unsigned line;
    char who[NAME_MAX_BYTES];
    char *text; /* as it stands in the script, all its lines */
    char *body; /* what is to be run */
} script_step;

typedef struct sql_script {
    script_step steps[STEPS_IN_SCRIPT];
    size_t count;
} sql_script;

/* Complains on stderr with the line. */
bool script_read(const char *path, sql_script *script);
void script_free(sql_script *script);

#endif
