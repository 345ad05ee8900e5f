/* cli/cli.h - what the subcommands share. The command uses the public API alone. */
#ifndef RL_CLI_H
#define RL_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "rowlock/rowlock_quorum.h"

enum { CLI_EXIT_USAGE = 64, CLI_EXIT_OUTPUT = 74 };

/* --ssl and the like: 0 where it is not given. */
typedef enum cli_switch { CLI_UNSAID, CLI_ON, CLI_OFF } cli_switch;

/* The connection options, which may stand before the subcommand or after it. */
typedef struct cli_context {
    rowlock_client_options client; /* the strings live as long as the process */
    rowlock_tls_options tls;       /* where client.tls points to */
    /* Each --url, or the URLs of ROWLOCK_URLS. client.url is set if there is one, client.members if
     * there are several. */
    const char *urls[ROWLOCK_MEMBERS_MAX];
    unsigned url_count;
    unsigned verbose; /* -v, -vv; client.log is set accordingly */
    bool json;
    rowlock_tls_mode tls_mode; /* --tls or --ssl-mode; tls.mode is what follows from all options */
    cli_switch ssl;            /* --ssl */
    cli_switch verify;         /* --ssl-verify-server-cert */
    bool ask_password;         /* a bare -p was given: see cli_password() */
    bool starts_command;       /* set by `check`: its program gets SIGPIPE as we found it */
    char **operands;           /* NULL-terminated only if no option stood after them */
    int operand_count;
    bool has_end; /* "--" ended the options */
} cli_context;

/* --------------------------------------- a command and its arguments: args.c */

/* What value an option takes, and where the value goes. */
typedef enum cli_kind {
    CLI_FLAG = 1, /* no value: a bool is set */
    CLI_TEXT,     /* a const char * */
    CLI_UNSIGNED, /* an unsigned, from `least` to `most` */
    CLI_NUMBER,   /* an uint64_t, the same */
    CLI_DURATION, /* an int64_t, milliseconds, the same (`most` 0: no bound); `word` gives -1 */
    CLI_GIVEN_DURATION, /* the same, but 0 gives 1: the library takes 0 for its default */
    CLI_WORD,           /* an enum: the value of one of `words` */
    CLI_SWITCH,         /* the same in --name=WORD; --name alone: CLI_ON */
    CLI_UNSWITCH,       /* no value: CLI_OFF. Follows the CLI_SWITCH that it undoes */
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
    const char *wants; /* for the message about a value: "is 1s or 2s" */
    /* False: it has reported an error. */
    bool (*take)(void *into, const char *value);
} cli_option;

#define CLI_AT(type, member) .at = offsetof(type, member)

/* A zeroed struct with static storage, for `into`. */
#define CLI_INTO(type) (&(type){.context.json = false})

typedef struct cli_command {
    const char *help; /* what --help prints */
    const cli_option *options;
    void *into;                /* a struct that begins with a cli_context; holds the defaults */
    int least, most;           /* operands */
    const char *operands;      /* for the error message, if one is missing */
    bool asks_no_server;       /* so a bare -p asks for no password */
    bool of_quorums;           /* takes several --url */
    bool first_ends;           /* from the first operand on, another program's words */
    bool (*check)(void *into); /* may be NULL. False: it has reported an error */
    /* One of the two is set. `work` is called with an open client, and its error is printed. */
    int (*run)(void *into);
    rowlock_status (*work)(void *into, rowlock_client *client, rowlock_error *err);
    int (*on_end)(int exit_status); /* may be NULL. Returns the exit status to use instead */
} cli_command;

/* docs/help */
extern const char cli_help_alive[], cli_help_ask[], cli_help_barrier[], cli_help_bench[],
    cli_help_break[], cli_help_doctor[], cli_help_fence[], cli_help_grants[], cli_help_history[],
    cli_help_init[], cli_help_latch[], cli_help_lead[], cli_help_leader[], cli_help_ls[],
    cli_help_migrate[], cli_help_once[], cli_help_queue[], cli_help_quorum[], cli_help_rowlock[],
    cli_help_run[], cli_help_show[], cli_help_slots[], cli_help_sweep[], cli_help_check[],
    cli_help_freeze[], cli_help_metrics[], cli_help_thaw[], cli_help_top[], cli_help_commands[],
    cli_help_connection[];

extern const cli_command cli_init, cli_run, cli_ls, cli_show, cli_history, cli_slots, cli_latch,
    cli_barrier, cli_lead, cli_leader, cli_ask, cli_once, cli_queue, cli_sweep, cli_break,
    cli_doctor, cli_migrate, cli_fence, cli_grants, cli_bench, cli_quorum, cli_complete, cli_check,
    cli_metrics, cli_freeze, cli_thaw, cli_top, cli_alive;

/*
 * Reads options and operands into command->into; argv[0] is not looked at. Connection options,
 * which may stand anywhere among the command's own, go into the context. Options may stand between
 * and after the operands, up to "--". False: exit with *exit_status, since --help was answered (0)
 * or an error was reported (64). Error messages tell no secret.
 */
bool cli_parse(const cli_command *command, int argc, char **argv, int *exit_status);

/* The i-th option that the command takes, its own ones first; NULL: there are no more. */
const cli_option *cli_option_at(const cli_command *command, size_t i);
/* The option with this letter, or (if `name` is not NULL) with this name of `length` bytes. */
const cli_option *cli_find_option(const cli_command *command, char letter, const char *name,
                                  size_t length);
/* cli_wants_value(): it needs a value. cli_is_connection(): it is one of cli_connection_options. */
bool cli_wants_value(const cli_option *option);
bool cli_is_connection(const cli_option *option);
/* Stores the value. False: it has reported an error. */
bool cli_take(const cli_option *option, void *into, const char *value);

/* main.c: the command of that name, or NULL. With NULL for the name: the options that may stand
 * before a command. The second one prints the commands whose names begin with `typed`, one a
 * line. */
const cli_command *cli_command_of(const char *name);
void cli_commands_offer(const char *typed);

/* False: there are fewer than `least` or more than `most` operands, and it has reported an error;
 * `what` names them. */
bool cli_operands(const cli_context *context, int least, int most, const char *what);

/* The locks that an operand means: `name` or `prefix` is NULL, or both are (all locks). A final `*`
 * stands for any text. Of the backslashes right before it, two stand for one, and an odd one makes
 * the star a part of the name. Do not copy the struct: both may point into `text`. */
typedef struct cli_pattern {
    const char *name;
    const char *prefix;
    char text[ROWLOCK_NAME_MAX * 5];
} cli_pattern;
void cli_pattern_of(const char *operand, cli_pattern *pattern);

/* Digits alone, between `least` and `most`. */
bool cli_number(const char *text, uint64_t least, uint64_t most, uint64_t *number);

/* "lease" (or "optimistic") and "pessimistic". */
extern const cli_word cli_mode_words[];

/* The connection options, which the parser stores in a cli_context. */
extern const cli_option cli_connection_options[];
/* For an option that only the mysql client has: what to use instead. NULL: not known. */
const char *cli_connection_instead(const char *name, size_t length);
/* Called once after all options are read: works out tls.mode, and sets client.tls. */
void cli_connection_settle(cli_context *context);
/*
 * Called after it: takes the servers from --url, or else from the environment. False: it has
 * reported an error.
 */
bool cli_connection_servers(cli_context *context);

/* "30s", "5m", "2h", "1d", "250ms", "1h30m", "1.5" (seconds), into milliseconds, rounded up, so
 * that only a zero gives 0. False if the text is no duration, is negative, or does not fit. */
bool cli_duration(const char *text, int64_t *ms);

/* A moment in UTC into microseconds since 1970: "2026-11-25 06:00", with a T, with seconds, with a
 * Z, the day alone, or "@1764036000". False: it is none. */
bool cli_moment(const char *text, int64_t *us);

/* ----------------------------------------------------------- messages: say.c */

/*
 * Lines on stderr, "rowlock: <message>". Control characters in the message are replaced, so that it
 * stays one line.
 */
/* Returns the status' exit status. */
int cli_fail(const rowlock_error *err);
/* Ends a message about a word too many, which is not repeated if -p was given: it may be a password
 * that was typed after -p and a blank. */
#define CLI_MAYBE_PASSWORD "(a password is given as --password=..., without a blank)"

/* Adds a line that says where to find help; returns 64. */
int cli_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same on stdout, without "rowlock: ". */
void cli_line(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From now on each line on stderr is a JSON object: time, event, the event's facts, message. */
void cli_say_json(void);
bool cli_says_json(void);

/* A fact of an event, beside its message: a text or a number. A list of them ends with a NULL
 * key. */
typedef struct cli_fact {
    const char *key;
    const char *text; /* NULL: the fact is `number` */
    int64_t number;
} cli_fact;
/* cli_say() for an event. Without cli_say_json() it writes the message alone. */
void cli_say_event(const char *event, const cli_fact *facts, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Writes several lines in one write, without control characters. */
void cli_lines(FILE *out, const char *text);

/* write() without its result: there is no other place to report an error to. */
void cli_write(int fd, const void *bytes, size_t length);

/* For the "try ..." line of cli_usage(); the string must stay. "" before a command is known. */
void cli_set_command(const char *name);

/* The last error that cli_fail() reported; its status is OK if there was none. */
const rowlock_error *cli_failure(void);

/* A rowlock_log_fn: `data` holds, as a number, the highest level that is printed. */
void cli_log(void *data, rowlock_log_level level, const char *line);

/*
 * Flushes stdout. Returns `status`, or 74 if some output could not be written (to a full disk, or
 * to a closed pipe, which is not reported).
 */
int cli_flush(int status);

/* The first SIGINT or SIGTERM calls on_end; the second one ends the program. */
void cli_catch_end(void (*on_end)(int signo));

/* Reports it and ends the program. */
void cli_out_of_memory(void) __attribute__((noreturn));
/* Returns `memory`; if it is NULL, ends the program. */
void *cli_need(void *memory);

/* --------------------------------------------------- text for people: text.c */

/* Once at the start: lets the C library know how wide characters are. */
void cli_text_start(void);

/*
 * A copy (free() it) that cannot steer a terminal or break a line: control characters, direction
 * marks, invisible characters and bytes that are not UTF-8 are written as \n, \x1b, \u202e. NULL:
 * out of memory.
 */
char *cli_printable(const char *text);

/* The same into a buffer, truncated to its size. Returns `out`. */
char *cli_printable_into(char *out, size_t size, const char *text);

/* The width of a printable text in columns. */
size_t cli_width(const char *text);

/* The longest beginning of a printable text that fits into `columns`: returns its bytes; *used: its
 * columns. */
size_t cli_fit(const char *text, size_t columns, size_t *used);

/* A copy (free() it) of a printable text, cut to `columns` (at least 1), with "…" in place of its
 * end or its middle. NULL: out of memory. */
char *cli_cut(const char *text, size_t columns, bool middle);

/* Bytes of valid UTF-8 at `text` (1 to 4) and the character, or 0. */
size_t cli_utf8(const char *text, uint32_t *character);

/* A character that could steer a terminal, or that it does not show. */
bool cli_is_risky(uint32_t character);

/* "850ms", "3.2s", "45s", "3m12s", "2h05m", "3d04h"; "-" for a negative one. */
const char *cli_humane(int64_t ms, char *buffer, size_t size);

enum {
    CLI_HUMANE = 32 /* size of a buffer for cli_humane() */
};

/* ------------------------- the server, and its password: options.c, secret.c */

/*
 * If a bare -p was given, asks for the password on the terminal. False: it cannot, and has reported
 * that; the exit status is 64.
 */
bool cli_password(cli_context *context);

/* The options for a client of the i-th member of a quorum alone. */
rowlock_client_options cli_member_options(const cli_context *context, size_t i);

/* rowlock_quorum_get() without log lines, and with at most a second for members that do not
 * answer. */
rowlock_status cli_quorum_look(const rowlock_client_options *options, rowlock_quorum **out,
                               rowlock_error *err);

/* rowlock_client_open(). NULL: it has reported the error; exit with *exit_status. */
rowlock_client *cli_open(const cli_context *context, int *exit_status);

/*
 * A copy of the arguments for the program's own use; in the originals, which every user of the
 * machine can read, passwords are overwritten (up to "--": the arguments after it are another
 * program's).
 */
char **cli_secret_arguments(int argc, char **argv);

/* Removes passwords from this process's environment, before it executes another program. */
void cli_secret_environment(void);

/* ----------------------------------------------------------------- refused.c */

/*
 * If the last error was a missing right: prints to stderr all GRANT statements that the user lacks
 * for these roles (a NULL ends them), one a line, unless cli_fail() has printed them already.
 */
void cli_refused_explain(const rowlock_client_options *client, const char *command,
                         const char *const *roles);

#endif
