/* cli/run_waiting.h - on a terminal, the line that says what a `run` waits for. */
#ifndef RL_CLI_RUN_WAITING_H
#define RL_CLI_RUN_WAITING_H

#include <stdbool.h>

#include "rowlock/rowlock.h"

typedef struct run_waiting run_waiting;

/*
 * A thread that shows the line after a moment and refreshes it each second, on `client`.
 * NULL, which every call below takes, where stderr is no terminal wide enough, or there
 * is no thread to be had: it is not worth failing for.
 */
run_waiting *run_waiting_start(rowlock_client *client, const char *name);

/* Takes the line away for something else on stderr; it comes back with the next second. */
void run_waiting_hide(run_waiting *self);

/* Takes it away for good. After that nothing is written any more. */
void run_waiting_stop(run_waiting *self);

/* Waits for its thread, not long. False: that is in a call that does not end; then the
 * client must not be closed, and this not freed. */
bool run_waiting_finish(run_waiting *self);
void run_waiting_free(run_waiting *self);

#endif
