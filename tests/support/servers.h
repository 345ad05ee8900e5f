/*
 * support/servers.h - several servers that know nothing of each other, of a test's own: through
 * $ROWLOCK_TOOLS/server, in folders that are removed at the end. Each has the schema, and a proxy
 * in front of it.
 */
#ifndef TS_SERVERS_H
#define TS_SERVERS_H

#include "proxy.h"
#include "support.h"

#define TS_SERVERS_MOST 5

/* $ROWLOCK_TEST_FLAVOURS, "mariadb mysql-9.7 mariadb-11.8", says which they are, again and again;
 * else all are of ROWLOCK_FLAVOUR. */
void ts_servers_start(size_t count);
void ts_servers_remove(void);

const char *ts_server_socket(size_t i); /* its own */
ts_proxy *ts_server_proxy(size_t i);
/* "mysql://root@localhost/rowlock?socket=...", through the proxy. */
const char *ts_server_url(size_t i);
/* A session of root on its schema, not through the proxy. */
MYSQL *ts_server_connect(size_t i);

void ts_server_kill(size_t i);                       /* SIGKILL */
void ts_server_start(size_t i, const char *options); /* it had ended; "": those that it had */
void ts_server_lose(size_t i);   /* killed, its data gone, and started; without a schema */
void ts_server_schema(size_t i); /* makes it */
void ts_server_freeze(size_t i, bool frozen); /* SIGSTOP, SIGCONT */
/* A tear-down of every test (ts_run_each()): one that failed leaves no server frozen or out of
 * reach, for which the next ones would wait. */
int ts_servers_flow(void **state);

#endif
