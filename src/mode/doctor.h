/* mode/doctor.h - looking at the server, the schema and the user. */
#ifndef RL_MODE_DOCTOR_H
#define RL_MODE_DOCTOR_H

#include "db/pool.h"
#include "rowlock/rowlock.h"

typedef struct rl_server {
    rl_flavour flavour;
    unsigned major;
    unsigned minor;
    bool read_only;
    bool galera;
    bool proxied; /* the number of the connection is another at the server */
    bool binlog;
    char binlog_format[33];
    char version[129];
    char comment[257];
} rl_server;

/* SERVER, UNAVAILABLE ... */
rowlock_status rl_server_look(rl_conn *conn, const rl_io *io, rl_server *server,
                              rowlock_error *err) RL_MUST_USE;

/* UNSUPPORTED when it lacks what rowlock is built on. */
rowlock_status rl_server_check(const rl_server *server, rowlock_error *err) RL_MUST_USE;

/* `polls`: the user wants no bell. */
rowlock_status rl_diagnose(const rl_params *params, int64_t ttl_ms, bool polls,
                           rowlock_finding_fn fn, void *data, rowlock_error *err) RL_MUST_USE;

#endif
