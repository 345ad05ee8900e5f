/*
 * migrate/script.h - an SQL script as a list of statements, as the mysql client would send them.
 *
 * The one parser of scripts: of rowlock's own migrations and of users' files. It knows quotes
 * (backslashes and doubled ones), comments, executed comments, and the client's DELIMITER lines;
 * no grammar. `problem` tells what cannot be meant (an unclosed quote, a command of the client's,
 * the END of a body that was cut at its first semicolon); the statements come all the same.
 */
#ifndef RL_MIGRATE_SCRIPT_H
#define RL_MIGRATE_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

#define RL_DELIMITER_MAX 15

typedef struct rl_script {
    const char *at;
    const char *end;
    unsigned line;       /* of `at`, from 1 */
    bool no_backslashes; /* sql_mode has NO_BACKSLASH_ESCAPES: \ is a character like any other */
    bool ansi_quotes;    /* it has ANSI_QUOTES: " encloses a name, in which \ is such a character */
    char delimiter[RL_DELIMITER_MAX + 1];
    size_t delimiter_length;
    const char *problem; /* the first; NULL: none. Static */
    unsigned problem_line;
} rl_script;

/* One statement in the script's text, without its delimiter and the comments before it. */
typedef struct rl_statement {
    const char *text;
    size_t length;
    unsigned line; /* in which it begins */
} rl_statement;

/* The text must stay. Set the sql_mode's members before the first statement. */
rl_script rl_script_begin(const char *text, size_t length);

/* The next statement; false at the end. Delimiters in quotes and comments do not end one. */
bool rl_script_next(rl_script *script, rl_statement *statement);

/* The number of statements in a script of our own. */
unsigned rl_script_count(const char *text);

/* Copies its first line, or what it begins with where that is one word, for people: at most size -
 * 1 bytes, cut between characters, and before what may be a password. */
void rl_statement_title(const rl_statement *statement, char *title, size_t size);

/* Is `what` anywhere in it, in quotes and comments too? Case does not matter. */
bool rl_statement_mentions(const rl_statement *statement, const char *what);

/*
 * The places where a statement may begin: within each executed comment at its front, which a server
 * leaves out or not, by its version, and behind them. Begin with *at NULL. False: no more.
 */
bool rl_statement_head(const rl_statement *statement, const char **at, rl_statement *head);

/* What is behind its first word, and behind comments; what executed comments hold is part of it. */
rl_statement rl_statement_rest(const rl_statement *statement);

/* Is its first word this one (in capitals)? One of these, with one blank between them? */
bool rl_statement_is(const rl_statement *statement, const char *word);
bool rl_statement_is_one_of(const rl_statement *statement, const char *words);

/*
 * statement.c: what a statement does to its transaction and its session, as far as its words say.
 */

/* Does it end the transaction that it is in, on one of the servers at least? */
bool rl_ends_transaction(const rl_statement *statement);

/* May a part of it stay when it fails, since it may commit in its midst? CALL and the like. */
bool rl_commits_in_parts(const rl_statement *statement);

/* Does it change nothing but its session, and can be run again there? SET, USE. */
bool rl_is_of_session(const rl_statement *statement);

/* Does it leave something in its session that would be lost without it (a temporary table ...)? */
bool rl_leaves_something(const rl_statement *statement);

/* Does it need what the statement before it left in the session? */
bool rl_needs_something(const rl_statement *statement);

#endif
