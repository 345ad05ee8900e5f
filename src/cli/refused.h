/* cli/refused.h - after the server refused something: all that the command takes. */
#ifndef RL_CLI_REFUSED_H
#define RL_CLI_REFUSED_H

/*
 * Where a right was missing: all GRANT statements that a user of these roles ("batch sweeper")
 * lacks, on stderr, each on a line, unless the message of cli_fail() has them already. Else
 * nothing.
 */
void cli_refused_explain(const char *command, const char *roles);

#endif
