/* faults/restart.h - a server of the test's own, which is killed and restarted: between two calls,
 * or just before or just after a statement of a call. */
#ifndef FAULTS_RESTART_H
#define FAULTS_RESTART_H

#include "faults/through.h"
#include "support/own_server.h"

enum { SHORT = 2000, LONG = 600000, RESTART = 60000 };

/* The server never sees the statement; or has carried it out, and nobody hears of that. */
extern const ts_fault moments[2];

extern rowlock_client *patient; /* bears the time that a restart takes */

/* As through_begin() and through_end(), with that server, and with `patient`. */
int restart_begin(void **state);
int restart_end(void **state);

/* As patient as that one, through the proxy, which lets everything flow again. */
rowlock_client *open_patiently(void);
void restart_server(void);

/* A call that is under way then; a test's own begins with this. */
typedef struct restart_call {
    rowlock_status (*carry_out)(struct restart_call *call);
    rowlock_client *client;
    const char *name;
    rowlock_status status;
    rowlock_error err; /* which becomes ts_err */
} restart_call;

/* The server is killed there. `changed` (NULL: it does not matter) tells by another number that the
 * statement was carried out. */
void killed_at(restart_call *call, size_t size, const char *statements, ts_fault moment,
               uint64_t (*changed)(const char *name));

#endif
