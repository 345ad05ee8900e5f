/* cli/secret.h - passwords stay out of the process list. */
#ifndef RL_CLI_SECRET_H
#define RL_CLI_SECRET_H

#include "rowlock/rowlock.h"

/*
 * A copy of the arguments for the program's own use; in the originals, which every
 * user of the machine can read, passwords are overwritten (up to "--": what follows is
 * another program's).
 */
char **cli_secret_arguments(int argc, char **argv);

/* The URL without its password, for free(); NULL: it has none. */
char *cli_url_without_password(const char *url);

/* Takes passwords out of this process's environment, for what it is about to become. */
void cli_secret_environment(void);

/* What the server was, or is to be, reached by when cli_password() was called last; NULL: it was
 * not. */
const rowlock_client_options *cli_reached(void);

#endif
