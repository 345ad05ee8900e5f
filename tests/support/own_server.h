/*
 * support/own_server.h - a server of a test's own, which it may kill: through
 * $ROWLOCK_TOOLS/server, in a folder that is removed at the end; in memory if there is room.
 */
#ifndef TS_OWN_SERVER_H
#define TS_OWN_SERVER_H

#include "support.h"

/* All of them fail the test when the server does not obey. Between start and remove it
 * stands in for ROWLOCK_TEST_SOCKET: ts_socket() is its socket. */
void ts_own_start(void);
/* With options of the server's, separated by blanks. */
void ts_own_start_with(const char *options);
/* With flushes that take their time, as users have them. */
void ts_own_start_on_disk(void);
void ts_own_kill(void); /* SIGKILL */
void ts_own_restart(void);
void ts_own_remove(void); /* if there is one */
/* For those who do something to it themselves. */
pid_t ts_own_pid(void);
const char *ts_own_folder(void);

#endif
