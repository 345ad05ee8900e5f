/* cli/run_sockets.h - which descriptors are connections. */
#ifndef RL_CLI_RUN_SOCKETS_H
#define RL_CLI_RUN_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The connected stream sockets of this process that are not in `known`, at most `size` of
 * them, into `fds`; returns how many. Called before there are connections, it tells those
 * that we were started with.
 */
size_t run_sockets(const int *known, size_t known_count, int *fds, size_t size);

/* Where stdin, stdout or stderr is closed, /dev/null takes its place (and is closed again
 * for the command), so that no connection gets its number and our lines with it. */
bool run_sockets_guard_standard(void);

#endif
