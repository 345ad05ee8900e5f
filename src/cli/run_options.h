/* cli/run_options.h - the arguments of `rowlock run`. */
#ifndef RL_CLI_RUN_OPTIONS_H
#define RL_CLI_RUN_OPTIONS_H

#include "cli.h"
#include "supervisor.h"

typedef struct run_options {
    rowlock_acquire_options acquire; /* ttl_ms is never 0 */
    const char *label;               /* NULL: not given */
    bool pass_password;
    supervisor_children children;
    int64_t kill_after_ms;
    int not_got; /* exit status when somebody else has it */
    const char *name;
    char **command; /* ends with NULL */
} run_options;

/* Connection options go into the context. False: exit with *exit_status, it has
 * complained (or answered --help). */
bool run_options_parse(run_options *out, cli_context *context, int argc, char **argv,
                       int *exit_status);

#endif
