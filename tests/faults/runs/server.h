/*
 * runs/server.h - a server of a run: its process, an administrator's session on it, and a proxy
 * before it; and threads that measure delays.
 */
#ifndef RUNS_SERVER_H
#define RUNS_SERVER_H

#include "faults/runs/history.h"
#include "support/proxy.h"

typedef struct server {
    char folder[300]; /* for tools/server */
    char socket[108];
    ts_proxy *proxy;
    MYSQL *admin;
    /* Above 0: it is down, stopped, or has just come back, so its delays are not reported. */
    atomic_uint faults;
    atomic_uint changes;
    pid_t job; /* the process that starts it again; 0: none */
} server;

/* The path of a tool of ours; and a process that runs one. */
const char *server_tool_path(const char *name, char path[400]);
pid_t server_begin(const char *const argv[]);
void server_obey(const char *const argv[]);

/* An error ends the session: the next call opens a new one. */
bool server_query(const server *s, MYSQL **mysql, const char *text);
void server_end_session(MYSQL **mysql);
/* Runs SQL as the administrator; false: it failed, or the server is not up. */
bool server_sql(server *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The number in the first cell of a query's result; 0: there is none. */
uint64_t server_number(server *s, const char *text);
/* Kills the nth connection of an actor, or its statement. */
bool server_kill(server *s, const char *what, unsigned nth);

/* False: it is not up. The calls below do nothing then. */
bool server_up(const server *s);
bool server_down(server *s, int signal); /* SIGKILL or SIGSTOP */
void server_continue(server *s);
/* Called when its job has ended: it is up again. */
void server_back(server *s);

/* Threads that record how late a thread is that is ready to run ... */
typedef struct watch {
    history *log;
    atomic_bool stop;
    pthread_t heart;
    pthread_t observer;
} watch;

/* ... and look at the servers. They run until watch_end(). */
void watch_begin(watch *w, history *log, void *(*observe)(void *world), void *world);
void watch_end(watch *w);
/* A small commit in the table `beat` of that schema. It is slow only if the machine is, or because
 * of a fault at that server. */
void watch_commit(watch *w, server *s, MYSQL **mysql, const char *schema);

#endif
