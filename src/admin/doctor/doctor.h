/* admin/doctor/doctor.h - looking at the server, the schema and the user. */
#ifndef RL_ADMIN_DOCTOR_H
#define RL_ADMIN_DOCTOR_H

#include "db/pool.h"
#include "rowlock/rowlock.h"

/* What is wanted of the server. */
typedef struct rl_wants {
    int64_t ttl_ms;
    bool polls;         /* no bell */
    bool single_writer; /* no other node of a cluster is used */
    const char *role;   /* whose rights are looked for (sql/grants.sql); NULL: who takes locks */
    bool rights_only;   /* nothing else is looked at */
} rl_wants;

/* INVALID: there is no such role. */
rowlock_status rl_diagnose(rl_params *params, const rl_wants *wants, rowlock_finding_fn fn,
                           void *data, rowlock_error *err) RL_MUST_USE;

#endif
