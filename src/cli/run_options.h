/* cli/run_options.h - the arguments of `rowlock run`. */
#ifndef RL_CLI_RUN_OPTIONS_H
#define RL_CLI_RUN_OPTIONS_H

#include "cli.h"
#include "supervisor.h"

typedef struct run_options {
    cli_context context;
    rowlock_acquire_options acquire; /* ttl_ms is never 0 */
    const char *label;               /* NULL: not given */
    bool pass_password;
    bool leave_children, wait_children; /* as given */
    supervisor_children children;       /* what they come to */
    int64_t kill_after_ms;
    unsigned not_got; /* exit status when somebody else has it */
    const char *name;
    char **command; /* ends with NULL */
} run_options;

/* What cli_run does when the options (a run_options) are read: cmd_run.c. */
int run_options_run(void *into);

#endif
