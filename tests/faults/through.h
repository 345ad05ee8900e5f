/* faults/through.h - clients that reach the server through a proxy, and the checks after the
 * proxy's faults. */
#ifndef FAULTS_THROUGH_H
#define FAULTS_THROUGH_H

#include "support/proxy.h"
#include "support/support.h"

extern ts_proxy *proxy;
extern rowlock_client *direct; /* a client that does not use the proxy */
extern MYSQL *mysql;           /* nor does this session */

/* cmocka group set-up and tear-down: the schema, and these three. */
int through_begin(void **state);
int through_end(void **state);

/* Options of a client whose every byte goes through the proxy, and which writes no history (whose
 * commands would be counted, too). */
rowlock_client_options through_options(void);
/* Such a client; the proxy lets everything flow again. */
rowlock_client *through_open(void);
/* A client that soon gives up a server that cannot be reached. */
rowlock_client *through_open_hasty(void);

/* A client for busy machines, on which the end of a connection may take time: it tries longer to
 * settle a lost reply. */
rowlock_client *open_patient(void);

/* The two ways to lose a statement. */
extern const ts_fault lost[2];
/* Checks that the armed fault has happened, and lets everything flow again. */
void happened(void);
/* The errors of a statement that KILL QUERY stops, and of an INSERT whose subquery it stops. */
enum { STOPPED = 1317, NOT_NULL = 1048 };

/* The statements (support/named.h) whose reply decides about an acquire, and about a release. */
const char *taking(rowlock_mode mode);
const char *giving(rowlock_mode mode);

/* Acquires with the mode's short TTL; *hold is NULL on failure. */
rowlock_status acquire(rowlock_client *client, const char *name, rowlock_mode mode, int64_t wait_ms,
                       rowlock_hold **hold);
/* The same with TS_KEPT_TTL. */
rowlock_status acquire_kept(rowlock_client *client, const char *name, rowlock_mode mode,
                            int64_t wait_ms, rowlock_hold **hold);

/* Another client acquires within the mode's short TTL (or this one) + 1 s, with a higher token,
 * which becomes *token. */
void next_one_gets_in(const char *name, rowlock_mode mode, uint64_t *token);
void next_one_gets_in_after(int64_t ttl_ms, const char *name, rowlock_mode mode, uint64_t *token);

/* It is held, and `direct` cannot acquire it, for so long. */
void kept_from_others(rowlock_hold *hold, int64_t ms);

/* The table has it as this hold's. */
bool is_ours(const rowlock_hold *hold);

/* Checks the ledger's row, "running 1", of a name's only period. */
void ledger_is(const char *name, const char *wanted);

/* KILL QUERY or KILL CONNECTION for all connections of this user. Returns how many there were. */
unsigned kill_all_of(const char *user, const char *what);

#endif
