/* cli/usual.h - how long the work under a lock usually takes. */
#ifndef RL_CLI_USUAL_H
#define RL_CLI_USUAL_H

#include "cli.h"

/* The durations of the newest successful holds that the history has. */
typedef struct cli_usual {
    size_t count; /* 0: too few holds, or no right to read the history */
    int64_t median_ms;
    int64_t most_ms; /* 95 % of them were at most this long */
} cli_usual;

cli_usual cli_usual_of(rowlock_client *client, const char *name);

#endif
