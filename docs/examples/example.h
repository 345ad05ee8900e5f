/*
 * What the examples share: how to say what went wrong, and where the server is.
 *
 *     ROWLOCK_URL=mysql://user@host/schema PROGRAM
 *     PROGRAM OPTION-FILE [SCHEMA]
 *
 * Without ROWLOCK_URL the usual option files say where; OPTION-FILE is one that the mysql client
 * would read, too, groups [client] and [rowlock].
 */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <rowlock/rowlock.h>

static inline rowlock_client_options example_options(int argc, char **argv)
{
    return (rowlock_client_options){
        .url = argc > 1 ? NULL : getenv("ROWLOCK_URL"),
        .defaults_file = argc > 1 ? argv[1] : NULL,
        .read_defaults = argc < 2,
        .schema = argc > 2 ? argv[2] : NULL, /* "rowlock" */
    };
}

/* Ends the program when a call did not go well. A real one would look at the status. */
static inline void must(rowlock_status status, const rowlock_error *err)
{
    if (status == ROWLOCK_OK)
        return;
    fprintf(stderr, "%s: %s\n", rowlock_status_name(status), err->message);
    exit(rowlock_status_exit(status));
}

/* What the example claims about itself. */
static inline void expect(int so, const char *what)
{
    if (so)
        return;
    fprintf(stderr, "not so: %s\n", what);
    exit(1);
}

#endif
