/* cli/args.h - a command, its options and its operands, and how they are read. */
#ifndef RL_CLI_ARGS_H
#define RL_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli.h"

/* What an option takes, and what becomes of it. */
typedef enum cli_kind {
    CLI_FLAG = 1, /* no value: a bool is set */
    CLI_TEXT,     /* a const char * */
    CLI_UNSIGNED, /* an unsigned, from `least` to `most` */
    CLI_NUMBER,   /* an uint64_t, the same */
    CLI_DURATION, /* an int64_t, milliseconds, the same (`most` 0: no bound); `word` gives -1 */
    CLI_GIVEN_DURATION, /* the same, but 0 gives 1: the library takes 0 for its default */
    CLI_WORD,           /* an enum: the value of one of `words` */
    CLI_SWITCH,         /* the same in --name=WORD; --name alone: CLI_ON */
    CLI_UNSWITCH,       /* no value: CLI_OFF. Stands behind the CLI_SWITCH that it undoes */
    CLI_OWN,            /* a value, for `take` */
    CLI_OWN_FLAG,       /* no value: NULL for `take` */
    CLI_OWN_ATTACHED,   /* -nX, --name=X, or no value at all, for `take` */
    CLI_HELP            /* prints the help */
} cli_kind;

/* Words for the values of an enum; ends with an empty one. */
typedef struct cli_word {
    const char *word;
    int value;
    bool any_case; /* upper and lower case are the same */
} cli_word;

/* A table of options ends with an empty one. */
typedef struct cli_option {
    char letter;      /* 0: none */
    const char *name; /* without the dashes; NULL: none */
    cli_kind kind;
    size_t at; /* where the value goes, from the start of the command's `into` */
    uint64_t least, most;
    const char *word; /* stands for no limit */
    const cli_word *words;
    const char *wants; /* of a word that is none, of a duration out of its range: "is 1s or 2s" */
    /* False: it has complained. */
    bool (*take)(void *into, const char *value);
} cli_option;

#define CLI_AT(type, member) .at = offsetof(type, member)

/* A zeroed struct with static storage, for `into`. */
#define CLI_INTO(type) (&(type){.context.json = false})

struct cli_command {
    const char *help; /* what --help prints */
    const cli_option *options;
    void *into;           /* a struct that begins with a cli_context; holds the defaults */
    int least, most;      /* operands */
    const char *operands; /* what they are, where one is missing */
    bool first_ends;      /* the first operand and what follows is another program's, uncounted */
    bool (*check)(void *into); /* may be NULL. False: it has complained */
    /* One of the two: `work` is called with an open client, and its error is printed. */
    int (*run)(void *into);
    rowlock_status (*work)(void *into, rowlock_client *client, rowlock_error *err);
};

/*
 * Reads options and operands into command->into; argv[0] is not looked at. Connection options,
 * which may stand anywhere among the command's own, go into the context. Options may stand between
 * and after the operands, up to "--". False: exit with *exit_status: --help was answered (0), or it
 * has complained (64), without telling a secret.
 */
bool cli_parse(const cli_command *command, int argc, char **argv, int *exit_status);

/* Complains when the operands are not between `least` and `most`; `what` names them. */
bool cli_operands(const cli_context *context, int least, int most, const char *what);

/* Digits alone, between `least` and `most`. */
bool cli_number(const char *text, uint64_t least, uint64_t most, uint64_t *number);
/* The value that is one of the words. */
bool cli_find_word(const cli_word *words, const char *text, int *value);

/* "lease" (or "optimistic") and "pessimistic". */
extern const cli_word cli_mode_words[];

/* For the parser: the connection options, for a cli_context. */
extern const cli_option cli_connection_options[];
/* An option of the mysql client that is none of ours: what to use instead. NULL: not known. */
const char *cli_connection_instead(const char *name, size_t length);
/* Notes that it was given; called before it is taken. */
void cli_connection_note(cli_context *context, const cli_option *option, const char *value);
/* Called once after all options are read: works out tls.mode, and sets client.tls. */
void cli_connection_settle(cli_context *context);

#endif
