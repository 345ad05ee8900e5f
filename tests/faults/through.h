/* faults/through.h - clients that reach the server through a proxy, and the checks after the
 * proxy's faults. */
#ifndef FAULTS_THROUGH_H
#define FAULTS_THROUGH_H

#include "support/proxy.h"
#include "support/support.h"

extern ts_proxy *proxy;
extern rowlock_client *direct; /* not through the proxy */
extern MYSQL *mysql;           /* nor this */

/* cmocka group set-up and tear-down: the schema, and these three. */
int through_begin(void **state);
int through_end(void **state);

/* Of a client whose every byte goes through the proxy, and who writes no history (its commands
 * would be counted, too). */
rowlock_client_options through_options(void);
/* Such a client; the proxy lets everything flow again. */
rowlock_client *through_open(void);
/* One that does not look for long for a server that cannot be reached any more. */
rowlock_client *through_open_hasty(void);

/* One for whom a busy machine may take its time to end a connection: what became of a lost reply is
 * asked for as long as that. */
rowlock_client *open_patient(void);

/* A statement is lost in one of two ways. */
extern const ts_fault lost[2];
/* What was armed has happened; everything flows again. */
void happened(void);
enum { STOPPED = 1317 /* what KILL QUERY has a statement answer */ };

/* The statements (support/named.h) whose reply decides about an acquire, and about a release. */
const char *taking(rowlock_mode mode);
const char *giving(rowlock_mode mode);

/* With the mode's short TTL; *hold is NULL when it is not got. */
rowlock_status acquire(rowlock_client *client, const char *name, rowlock_mode mode, int64_t wait_ms,
                       rowlock_hold **hold);
/* With TS_KEPT_TTL. */
rowlock_status acquire_kept(rowlock_client *client, const char *name, rowlock_mode mode,
                            int64_t wait_ms, rowlock_hold **hold);

/* Somebody else gets in within the mode's short TTL (or this one) + 1 s, with a higher token, which
 * becomes *token. */
void next_one_gets_in(const char *name, rowlock_mode mode, uint64_t *token);
void next_one_gets_in_after(int64_t ttl_ms, const char *name, rowlock_mode mode, uint64_t *token);

/* It is held, and `direct` does not get it, for so long. */
void kept_from_others(rowlock_hold *hold, int64_t ms);

/* Whose is it, by the table? */
bool is_ours(const rowlock_hold *hold);

/* KILL QUERY or KILL CONNECTION, for all connections of this user; how many there were. */
unsigned kill_all_of(const char *user, const char *what);

#endif
