/* migrate/script.h - an SQL script as a list of statements. */
#ifndef RL_MIGRATE_SCRIPT_H
#define RL_MIGRATE_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>

/* One statement in the script's text, without its semicolon and the comments before it. */
typedef struct rl_statement {
    const char *text;
    size_t length;
} rl_statement;

/*
 * The next statement at *at, which moves behind it. Semicolons in quotes and comments do not
 * end one. False at the end.
 */
bool rl_script_next(const char **at, rl_statement *statement);

unsigned rl_script_count(const char *script);

/* Copies its first line, for people. */
void rl_statement_title(const rl_statement *statement, char *title, size_t size);

#endif
