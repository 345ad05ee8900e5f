/*
 * runs/server.h - a server of a run: its process, an administrator's session on it, and a proxy
 * before it; and threads that measure delays.
 */
#ifndef RUNS_SERVER_H
#define RUNS_SERVER_H

#include "faults/runs/history.h"
#include "support/proxy.h"

typedef struct server {
    char folder[300]; /* of tools/server */
    char socket[108];
    ts_proxy *proxy;
    MYSQL *admin;
    /* While it is down, stopped, or has just come back, its slowness is no news. */
    atomic_uint faults;
    atomic_uint changes;
    pid_t job; /* that starts it again; 0: none */
} server;

/* A tool of ours by its name, and a process that runs one. */
const char *server_tool_path(const char *name, char path[400]);
pid_t server_begin(const char *const argv[]);
void server_obey(const char *const argv[]);

/* An error ends the session: the next one will be new. */
bool server_query(const server *s, MYSQL **mysql, const char *text);
void server_end_session(MYSQL **mysql);
/* By the administrator; false: it did not work, or the server is not up. */
bool server_sql(server *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The first number in the first cell that a query finds; 0: there is none. */
uint64_t server_number(server *s, const char *text);
/* Kills the nth connection of an actor (or what it runs). */
bool server_kill(server *s, const char *what, unsigned nth);

/* What is done to one that is not up does nothing: false. */
bool server_up(const server *s);
bool server_down(server *s, int signal); /* SIGKILL or SIGSTOP */
void server_continue(server *s);
/* It comes back when its job has ended. */
void server_back(server *s);

/* Until it is told to stop: writes down how late a thread runs that wants to run ... */
typedef struct watch {
    history *log;
    atomic_bool stop;
    pthread_t heart;
    pthread_t observer;
} watch;

/* ... and has another one look at the servers. */
void watch_begin(watch *w, history *log, void *(*observe)(void *world), void *world);
void watch_end(watch *w);
/* A small commit, in the table `beat` of that schema; slow only because the machine is, or because
 * we broke that server. */
void watch_commit(watch *w, server *s, MYSQL **mysql, const char *schema);

#endif
