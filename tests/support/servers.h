/*
 * support/servers.h - several independent servers of a test's own: through $ROWLOCK_TOOLS/server,
 * in folders that are removed at the end. Each has the schema, and a proxy in front of it.
 */
#ifndef TS_SERVERS_H
#define TS_SERVERS_H

#include "proxy.h"
#include "support.h"

#define TS_SERVERS_MOST 5

/* $ROWLOCK_TEST_FLAVOURS, such as "mariadb mysql-9.7 mariadb-11.8", lists their flavours, and is
 * repeated; else all have that of ROWLOCK_FLAVOUR. */
void ts_servers_start(size_t count);
void ts_servers_remove(void);

const char *ts_server_socket(size_t i); /* its own */
ts_proxy *ts_server_proxy(size_t i);
/* "mysql://root@localhost/rowlock?socket=...", through the proxy. */
const char *ts_server_url(size_t i);
/* A session of root on its schema, not through the proxy. */
MYSQL *ts_server_connect(size_t i);

void ts_server_kill(size_t i);                       /* SIGKILL */
void ts_server_start(size_t i, const char *options); /* after its end; "": with its old options */
void ts_server_lose(size_t i);   /* killed, and started without its data; it has no schema */
void ts_server_schema(size_t i); /* makes it */
void ts_server_freeze(size_t i, bool frozen); /* SIGSTOP, SIGCONT */
/* A tear-down of every test (ts_run_each()), so that a failed one leaves no server frozen or out of
 * reach. */
int ts_servers_flow(void **state);

#endif
