/* migrate/migrate.h - rowlock's own tables, procedures and event in a schema. */
#ifndef RL_MIGRATE_H
#define RL_MIGRATE_H

#include "db/pool.h"
#include "rowlock/rowlock_admin.h"

/* A row of the table that the build makes from migrations/. */
typedef struct rl_migration {
    unsigned version;
    const char *name;
    const char *content; /* each of its statements may be run again */
    bool breaking;       /* a program that does not know it must not use the schema */
} rl_migration;

extern const rl_migration rl_migrations[];
extern const unsigned rl_migration_count;

/* `params`, here and below, name the schema. See rowlock_migrate(). */
rowlock_status rl_migrate(rl_params *params, const rowlock_migrate_options *options,
                          const char *applied_by, rowlock_migrate_result *result,
                          rowlock_error *err) RL_MUST_USE;

/* ------------------------------------------------------------------- procedures */

/* A row of the table that the build makes from sql/procedures/. */
typedef struct rl_procedure {
    const char *name;
    const char *text; /* CREATE PROCEDURE ...; {bell}: the prefix of the schema's bells */
} rl_procedure;

extern const rl_procedure rl_procedures[];
extern const unsigned rl_procedure_count;

/* See rowlock_procedures_install() and rowlock_procedures_remove(). */
rowlock_status rl_procedures_change(rl_params *params, const rowlock_procedures_options *options,
                                    bool wanted, rowlock_procedures_result *result,
                                    rowlock_error *err) RL_MUST_USE;

/* The procedures that a connection's user sees in its schema, for the doctor. */
typedef struct rl_procedures_seen {
    unsigned there;
    unsigned same;       /* as this program would make them */
    unsigned all;        /* as many as this program has */
    char other[65];      /* the comment of another one, "rowlock 0.1.0 ..."; or "" */
    const char *missing; /* one that is missing; "": none, as far as this user may see */
} rl_procedures_seen;

rowlock_status rl_procedures_look(rl_conn *conn, const char *schema, const rl_io *io,
                                  rl_procedures_seen *seen, rowlock_error *err) RL_MUST_USE;

/* ------------------------------------------------------------------------ event */

/* 0 us: for ever. */
typedef struct rl_event_plan {
    uint64_t every_s;
    uint64_t history_us;
    uint64_t history_rows;
    uint64_t unused_us;
} rl_event_plan;

/* See rowlock_sweep_event_install(); without a plan, _remove(). */
rowlock_status rl_event_change(rl_params *params, const rl_event_plan *plan, int64_t wait_ms,
                               rowlock_sweep_event_result *result, rowlock_error *err) RL_MUST_USE;

/* ---------------------------------------------- connections for these changes */

/* A call that changes the schema which `params` name. */
typedef struct rl_maker {
    rl_params *params;
    rl_io io;
    rl_conn *conn;
} rl_maker;

/*
 * Opens m->conn, a connection to the schema, and takes the lock of `rowlock init` on it. From then
 * on the params spell the schema as the server does. Close it on every status, which releases the
 * lock. TIMEOUT: another program has the lock.
 */
rowlock_status rl_maker_open(rl_maker *m, int64_t wait_ms, rowlock_error *err) RL_MUST_USE;

/* Returns `status`. If a right is missing for `task`, the message is, or begins with, the GRANT of
 * `rights`. */
rowlock_status rl_maker_close(rl_maker *m, rowlock_status status, const char *task,
                              const char *rights, rowlock_error *err) RL_MUST_USE;

#endif
