/* cli/say.h - what main and the commands of this folder need beside cli.h's lines. */
#ifndef RL_CLI_SAY_H
#define RL_CLI_SAY_H

#include "rowlock/rowlock.h"

/* For the "try ..." line of cli_usage(); the string must stay. "" before a command is known. */
void cli_set_command(const char *name);

/* What cli_fail() told of last; its status is OK where it told of nothing. */
const rowlock_error *cli_failure(void);

/* A rowlock_log_fn: says what is at most of the level that `data`, a number, is. */
void cli_log(void *data, rowlock_log_level level, const char *line);

/*
 * Sends what is still in stdout's buffer on its way. Returns `status`, or 74 when the
 * output did not all arrive (a full disk; a closed pipe, which is not complained of).
 */
int cli_flush(int status);

/* Says so and ends the program. */
void cli_out_of_memory(void) __attribute__((noreturn));
/* The memory, or, where it is NULL, the end. */
void *cli_need(void *memory);

#endif
