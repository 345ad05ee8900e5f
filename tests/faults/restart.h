/* faults/restart.h - a server of the test's own, which is killed and restarted: between two calls,
 * or just before or just after a statement of a call. */
#ifndef FAULTS_RESTART_H
#define FAULTS_RESTART_H

#include "faults/through.h"
#include "support/own_server.h"

enum { SHORT = 2000, LONG = 600000, RESTART = 60000 };

/* The server never gets the statement; or it has carried it out, and the reply is lost. */
extern const ts_fault moments[2];

extern rowlock_client *patient; /* waits as long as a restart takes */

/* As through_begin() and through_end(), with that server, and with `patient`. */
int restart_begin(void **state);
int restart_end(void **state);

/* Waits as long, but through the proxy, which lets everything flow again. */
rowlock_client *open_patiently(void);
void restart_server(void);

/* A call that is under way then; a test's own struct begins with this. */
typedef struct restart_call {
    rowlock_status (*carry_out)(struct restart_call *call);
    rowlock_client *client;
    const char *name;
    rowlock_status status;
    rowlock_error err; /* copied to ts_err */
} restart_call;

/* Kills the server there. `changed` (may be NULL) returns a number that changes when the statement
 * was carried out. */
void killed_at(restart_call *call, size_t size, const char *statements, ts_fault moment,
               uint64_t (*changed)(const char *name));

#endif
