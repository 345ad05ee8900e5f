/*
 * migrate/script.h - an SQL script as a list of statements, as the mysql client would send them.
 *
 * It parses rowlock's own migrations and users' files. It knows quotes (backslashes and doubled
 * ones), comments, executed comments, and the client's DELIMITER lines; no grammar. `problem`
 * reports a script that cannot be meant so (an unclosed quote, a command of the client's, the END
 * of a body that was cut at its first semicolon); the statements are returned in any case.
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
    bool no_backslashes; /* sql_mode has NO_BACKSLASH_ESCAPES: \ is an ordinary character */
    bool ansi_quotes;    /* sql_mode has ANSI_QUOTES: " encloses a name, in which \ is ordinary */
    char delimiter[RL_DELIMITER_MAX + 1];
    size_t delimiter_length;
    const char *problem; /* the first; NULL: none. Static */
    unsigned problem_line;
} rl_script;

/* One statement in the script's text, without its delimiter and the comments before it. */
typedef struct rl_statement {
    const char *text;
    size_t length;
    unsigned line; /* where it begins */
} rl_statement;

/* The text must stay. Set the sql_mode's members before the first statement. */
rl_script rl_script_begin(const char *text, size_t length);

/* The next statement; false at the end. Delimiters in quotes and comments do not end one. */
bool rl_script_next(rl_script *script, rl_statement *statement);

/* The number of statements in a script of our own. */
unsigned rl_script_count(const char *text);

/* Copies its first line for people, or more if that is a single word: at most size - 1 bytes, cut
 * between characters, and before a text that may be a password. */
void rl_statement_title(const rl_statement *statement, char *title, size_t size);

/* It has a text that may be a password, of which its title has nothing. */
bool rl_statement_has_secret(const rl_statement *statement);

/* `what` is anywhere in it, in quotes and comments too, in upper or lower case. */
bool rl_statement_mentions(const rl_statement *statement, const char *what);

/*
 * Iterates over the places where a statement may begin: within each executed comment at its front,
 * which a server executes or not, by its version, and after these. Begin with *at NULL. False: no
 * more.
 */
bool rl_statement_head(const rl_statement *statement, const char **at, rl_statement *head);

/* The statement without its first word and the comments after that; the text of executed comments
 * stays. */
rl_statement rl_statement_rest(const rl_statement *statement);

/* Its first word is this one (in capitals), or one of these (separated by single blanks). */
bool rl_statement_is(const rl_statement *statement, const char *word);
bool rl_statement_is_one_of(const rl_statement *statement, const char *words);

/*
 * statement.c: what a statement does to its transaction and its session, as far as its words say.
 */

/* It ends its transaction, at least on one of the servers. */
bool rl_ends_transaction(const rl_statement *statement);

/* The server commits what is before it in its transaction, also if it refuses the statement itself
 * then: ALTER TABLE, START TRANSACTION, and the like. */
bool rl_commits_before(const rl_statement *statement);

/* Where it has succeeded and the session is in a transaction, this is another one than before:
 * START TRANSACTION; COMMIT AND CHAIN. */
bool rl_begins_anew(const rl_statement *statement);

/* It may commit in its middle, so that a part of it stays when it fails: CALL and the like. */
bool rl_commits_in_parts(const rl_statement *statement);

/* It changes only its session, and can be run again there: SET, USE. */
bool rl_is_of_session(const rl_statement *statement);

/* It leaves something in its session that ends with that, such as a temporary table. */
bool rl_leaves_something(const rl_statement *statement);

/* It may make a number that LAST_INSERT_ID() gives from then on: all but DDL and the like. */
bool rl_may_make_number(const rl_statement *statement);

/* It reads such a number. */
bool rl_reads_number(const rl_statement *statement);

/* It reads what the server says of the statement before it: rows, warnings, errors. */
bool rl_reads_result(const rl_statement *statement);

#endif
