/* cli/once.h - once_status.c: the ledger of `rowlock once`, for people and programs. */
#ifndef RL_CLI_ONCE_H
#define RL_CLI_ONCE_H

#include "cli.h"

/* `once status`: of one name, or (NULL) of all. Returns the exit status. */
int once_status(const cli_context *context, const char *name);

/* Of a name that is shown: its newest period; nothing where it has none. */
rowlock_status once_show(rowlock_client *client, const char *name, rowlock_error *err);

#endif
