/*
 * support/own_server.h - a server of a test's own, which it may kill: through
 * $ROWLOCK_TOOLS/server, in a folder that is removed at the end; in memory if there is room.
 */
#ifndef TS_OWN_SERVER_H
#define TS_OWN_SERVER_H

#include "support.h"

/* All calls fail the test if the server does not start or end. Between start and remove,
 * ts_socket() is this server's socket instead of ROWLOCK_TEST_SOCKET. */
void ts_own_start(void);
/* With options of the server's, separated by blanks. */
void ts_own_start_with(const char *options);
/* On a real disk, whose flushes take time. */
void ts_own_start_on_disk(void);
void ts_own_kill(void); /* SIGKILL */
void ts_own_restart(void);
void ts_own_remove(void); /* if there is a server */
/* For tests that send it signals themselves. */
pid_t ts_own_pid(void);
const char *ts_own_folder(void);

#endif
