/* cli/cli.h - what the subcommands share. The command uses the public API alone. */
#ifndef RL_CLI_H
#define RL_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "rowlock/rowlock.h"

/* What the options before the subcommand (and the same ones after it) gave. */
typedef struct cli_context {
    rowlock_client_options client; /* the strings live as long as the context */
    unsigned verbose;              /* -v, -vv */
    bool json;
} cli_context;

/* argv[0] is the subcommand's name. Each returns the exit status. */
int cli_init(const cli_context *context, int argc, char **argv);
int cli_run(const cli_context *context, int argc, char **argv);
int cli_ls(const cli_context *context, int argc, char **argv);
int cli_show(const cli_context *context, int argc, char **argv);
int cli_history(const cli_context *context, int argc, char **argv);
int cli_sweep(const cli_context *context, int argc, char **argv);
int cli_break(const cli_context *context, int argc, char **argv);
int cli_doctor(const cli_context *context, int argc, char **argv);

/* "rowlock: <message>" on stderr, one line; returns the status' exit status. */
int cli_fail(const rowlock_error *err);
/* "rowlock: <message>" and where to find help; returns 64. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "rowlock: <message>" on stderr. */
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "30s", "5m", "2h", "1d", "250ms", "1.5" (seconds), into milliseconds. False when it is
 * no duration, is negative, or does not fit. */
bool cli_duration(const char *text, int64_t *ms);

/*
 * A connection option at argv[*i]? Takes it (and its value) into the context and
 * returns true. On a bad value it has already complained and *bad is set. Lets
 * connection options stand after the subcommand too.
 */
bool cli_connection_option(cli_context *context, int argc, char **argv, int *i, bool *bad);

#endif
