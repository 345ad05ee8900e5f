/* cli/usual.h - how long the work under a lock usually takes. */
#ifndef RL_CLI_USUAL_H
#define RL_CLI_USUAL_H

#include "cli.h"

/* Of the newest holds that ended well, as far as the history has them. */
typedef struct cli_usual {
    size_t count; /* 0: there are too few, or this user may not read the history */
    int64_t median_ms;
    int64_t most_ms; /* 95 % kept within */
} cli_usual;

cli_usual cli_usual_of(rowlock_client *client, const char *name);

#endif
