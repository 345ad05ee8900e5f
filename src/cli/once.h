/* cli/once.h - once_status.c: the ledger of `rowlock once`, for people and programs. */
#ifndef RL_CLI_ONCE_H
#define RL_CLI_ONCE_H

#include "cli.h"
#include "rowlock/rowlock_once.h"

/* `once status`: of one name, or (NULL) of all. Returns the exit status. */
int once_status(const cli_context *context, const char *name);

/* For `show`: prints the first period of the list, and when the next one begins; nothing if the
 * list is empty. */
void once_print_last(const rowlock_once_runs *runs);

#endif
