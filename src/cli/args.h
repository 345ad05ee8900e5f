/* cli/args.h - the arguments of a command, option by option. */
#ifndef RL_CLI_ARGS_H
#define RL_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli.h"

typedef enum cli_takes {
    CLI_NOTHING,
    CLI_VALUE,   /* -nX, -n X, --name=X, --name X */
    CLI_ATTACHED /* -nX, --name=X, or no value at all */
} cli_takes;

/* A table of options ends with an empty one. A letter's id is the letter; what has none
 * gets a number from CLI_ID_COMMAND up, each command its own. */
typedef struct cli_option {
    int id;
    const char *name; /* without the dashes; NULL: none */
    cli_takes takes;
} cli_option;

enum {
    CLI_ID_COMMAND = 256,
    CLI_ID_CONNECTION = 512, /* see options.c */
    CLI_ID_HELP = 1024
};

/* What cli_args_next() returns beside ids. */
enum { CLI_ARGS_END = 0, CLI_ARGS_STOP = -1 };

typedef struct cli_args {
    cli_context *context;
    const cli_option *options;
    const char *help;
    bool stop_at_operand; /* leave the first operand and what follows alone */

    int argc;
    char **argv;
    int i;               /* the next argument */
    const char *cluster; /* where to go on in "-vq"; NULL: at argv[i] */

    const char *value;  /* of the option last returned */
    bool of_connection; /* the option last read is a connection option */
    char **operands;    /* packed at the front of argv as they come */
    int operand_count;
    int exit_status; /* after CLI_ARGS_STOP */
} cli_args;

/* argv[0] is not looked at. `help` is what --help prints. */
cli_args cli_args_start(const char *help, const cli_option *options, cli_context *context, int argc,
                        char **argv);

/*
 * The next option's id. Connection options go into the context and are not returned.
 * Options may stand between and after the operands, up to "--". CLI_ARGS_STOP: nothing
 * more is to be done, exit with exit_status: --help was answered (0), or an option was
 * wrong and it has complained (64).
 */
int cli_args_next(cli_args *args);

/* Complains when the operands are not between `least` and `most`; `what` names them. */
bool cli_args_operands(const cli_args *args, int least, int most, const char *what);

/*
 * The value of the option last returned, called `name` in the complaint when it is not
 * one. `word`, where not NULL, may stand for no limit and gives -1.
 */
bool cli_args_duration(const cli_args *args, const char *name, const char *word, int64_t *ms);
/* The same for an option of the library's in which 0 stands for the default: 0 gives 1. */
bool cli_args_given_duration(const cli_args *args, const char *name, const char *word, int64_t *ms);
bool cli_args_number(const cli_args *args, const char *name, uint64_t least, uint64_t most,
                     uint64_t *number);

/* Digits alone, between `least` and `most`. */
bool cli_number(const char *text, uint64_t least, uint64_t most, uint64_t *number);

/* The connection options, for the parser. */
extern const cli_option cli_connection_options[];
/* An option of the mysql client that is none of ours: what to use instead. NULL: not known. */
const char *cli_connection_instead(const char *name, size_t length);
/* Into the context. False: it has complained, without telling a secret. */
bool cli_connection_take(cli_context *context, int id, const char *value);

#endif
