/*
 * support/proxy.h - a small forwarding proxy between a client and a server's unix socket,
 * in a thread of the test. It understands just enough of the protocol to know which
 * statement a command runs, and can lose a command or its reply, stall, cut (at any byte), delay,
 * deliver byte by byte, answer with an error and refuse.
 */
#ifndef TS_PROXY_H
#define TS_PROXY_H

#include "support.h"

typedef enum ts_fault {
    TS_LOSE_COMMAND, /* the server never sees it; the connection ends */
    TS_LOSE_REPLY,   /* the server carries it out; the connection ends before the reply */
    TS_STALL_REPLY,  /* the reply is held back until ts_proxy_flow() */
    TS_DELAY_COMMAND /* the server sees it only after ts_proxy_flow(), even if its sender has
                        gone */
} ts_fault;

typedef enum ts_way {
    TS_UP,  /* from the client to the server */
    TS_DOWN /* back */
} ts_way;

typedef struct ts_proxy ts_proxy;

/* Listens on a socket of its own (ts_proxy_socket()) and forwards to `server`. */
ts_proxy *ts_proxy_start(const char *server);
const char *ts_proxy_socket(const ts_proxy *proxy);
/* A session of root, through it, on this binary's schema. */
MYSQL *ts_proxy_connect(const ts_proxy *proxy);
/* Listens on a port of 127.0.0.1 from now on, which it returns. */
unsigned ts_proxy_port(ts_proxy *proxy);
void ts_proxy_stop(ts_proxy *proxy);
/* TS_PROXY: stopped at the end of its block. */
TS_AT_END(proxy, ts_proxy *, ts_proxy_stop(*it))
#define TS_PROXY __attribute__((unused, cleanup(ts_end_proxy))) ts_proxy

/* New connections go to that server; open ones stay. */
void ts_proxy_lead(ts_proxy *proxy, const char *server);

/*
 * The fault happens once, to the `nth` command from now that runs one of these statements (names:
 * support/named.h; NULL: any command). With `then_refuse` all connections (except that of a delayed
 * command) end then, and new ones are refused.
 */
void ts_proxy_arm(ts_proxy *proxy, ts_fault fault, const char *names, unsigned nth,
                  bool then_refuse);
/* The proxy itself answers the next `times` commands that run one of these statements (NULL: any)
 * with this error of the server's; 0: with OK and no rows. */
void ts_proxy_answer(ts_proxy *proxy, unsigned number, const char *names, unsigned times);
unsigned ts_proxy_answers_left(ts_proxy *proxy);
/* The armed fault has happened; TS_LOSE_REPLY: the reply has come, or the client has given up. */
bool ts_proxy_fired(ts_proxy *proxy);
/* Commands that were forwarded since the start. */
unsigned ts_proxy_commands(ts_proxy *proxy);

/* Bytes delivered that way since the start, on all connections. */
uint64_t ts_proxy_bytes(ts_proxy *proxy, ts_way way);
/*
 * After so many more bytes in that direction, the connection that they belong to ends
 * (ts_proxy_fired()). 0: before the next byte. `then_refuse` as for ts_proxy_arm().
 */
void ts_proxy_cut_after(ts_proxy *proxy, ts_way way, uint64_t after, bool then_refuse);
/* From now on data, and ends of connections, arrive so much later. */
void ts_proxy_delay(ts_proxy *proxy, int64_t up_ms, int64_t down_ms);
/* Sends one byte at a time, in both directions, each after the last one was read. */
void ts_proxy_dribble(ts_proxy *proxy, bool dribble);

/* Ends all connections, on both sides. */
void ts_proxy_cut(ts_proxy *proxy);
/* New connections are refused. */
void ts_proxy_refuse(ts_proxy *proxy, bool refuse);
/* True: nothing flows in either direction, on old connections and new ones, as if the host had
 * vanished. False: it flows again, from where it stopped. */
void ts_proxy_stall(ts_proxy *proxy, bool stall);
/* Back to the initial state: data flows, nothing is armed, nothing is refused. */
void ts_proxy_flow(ts_proxy *proxy);

#endif
