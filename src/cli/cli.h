/* cli/cli.h - what the subcommands share. The command uses the public API alone. */
#ifndef RL_CLI_H
#define RL_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "rowlock/rowlock.h"

enum { CLI_EXIT_USAGE = 64, CLI_EXIT_OUTPUT = 74 };

enum { CLI_GIVEN_MAX = 48 };

/* --ssl and the like: 0 where it is not given. */
typedef enum cli_switch { CLI_UNSAID, CLI_ON, CLI_OFF } cli_switch;

/* A connection option that was given, the last time where it was given often; no password. */
typedef struct cli_given {
    const char *name;
    const char *value; /* NULL: it has none, or it is a password */
} cli_given;

/* What the options before the subcommand (and the same ones after it) gave. */
typedef struct cli_context {
    rowlock_client_options client; /* the strings live as long as the process */
    rowlock_tls_options tls;       /* where client.tls points to */
    unsigned verbose;              /* -v, -vv; client.log already says so much */
    bool json;
    rowlock_tls_mode tls_mode; /* --tls or --ssl-mode; tls.mode is the result of all */
    cli_switch ssl;            /* --ssl */
    cli_switch verify;         /* --ssl-verify-server-cert */
    bool ask_password;         /* a bare -p was given: see cli_password() */
    const char *program;       /* as it was called */
    cli_given given[CLI_GIVEN_MAX];
    unsigned given_count;
    char **operands; /* end with a NULL only where no option stood behind them */
    int operand_count;
} cli_context;

/* args.h */
typedef struct cli_command cli_command;
extern const cli_command cli_init, cli_run, cli_ls, cli_show, cli_history, cli_sweep, cli_break,
    cli_doctor, cli_migrate, cli_fence, cli_grants, cli_bench;

/*
 * Lines on stderr, "rowlock: <message>". What is written is always one line and
 * holds no control character, whatever the message was made of.
 */
/* Returns the status' exit status. */
int cli_fail(const rowlock_error *err);
/* And where to find help; returns 64. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same on stdout, without "rowlock: ". */
void cli_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "30s", "5m", "2h", "1d", "250ms", "1.5" (seconds), into milliseconds. False when it is
 * no duration, is negative, or does not fit. What is between two milliseconds counts as
 * the later one, so that only a zero gives 0. */
bool cli_duration(const char *text, int64_t *ms);

/*
 * Asks for the password on the terminal where a bare -p was given, else does nothing.
 * Call it when all arguments are parsed and before the context's client options are
 * used. False: it cannot ask and has said so; the exit status is 64.
 */
bool cli_password(cli_context *context);

/*
 * cli_password(), then rowlock_client_open(). False: it has complained and
 * *exit_status is what to exit with.
 */
bool cli_open(cli_context *context, rowlock_client **client, int *exit_status);

/* The words with which one calls the program again to get to the same server: as it was called,
 * with its connection options, of which a password is asked for. Ends with a NULL; for
 * cli_words_free(). */
char **cli_called(const cli_context *context);
void cli_words_free(char **words);

#endif
