/* migrate/schema.h - the state of rowlock's own schema: which migrations it has, and whether this
 * program can use it. */
#ifndef RL_MIGRATE_SCHEMA_H
#define RL_MIGRATE_SCHEMA_H

#include "db/conn.h"
#include "rowlock/rowlock.h"

#define RL_VERSIONS_MAX 256

/* One row of rowlock_schema_version. */
typedef struct rl_version {
    unsigned version;
    char name[129];
    char checksum[65];
    bool breaking;
    bool applied;
} rl_version;

typedef struct rl_versions {
    rl_version rows[RL_VERSIONS_MAX];
    size_t count;
} rl_versions;

/* For a message with a command in it: " -D NAME"; "" for the schema that the command has by itself.
 */
#define RL_DASH_D_SIZE 300
const char *rl_schema_dash_d(const char *schema, char text[RL_DASH_D_SIZE]);

rowlock_status rl_versions_read(rl_conn *conn, const rl_io *io, rl_versions *all,
                                rowlock_error *err) RL_MUST_USE;
const rl_version *rl_version_find(const rl_versions *all, unsigned version);

/* SCHEMA: a migration of a newer program, with which this one cannot work. */
rowlock_status rl_versions_check_newer(const rl_versions *all, const char *schema,
                                       rowlock_error *err) RL_MUST_USE;

/* SCHEMA: a table with the name of one that rowlock has yet to make exists already. */
rowlock_status rl_schema_check_foreign(rl_conn *conn, const char *schema, const rl_versions *done,
                                       const rl_io *io, rowlock_error *err) RL_MUST_USE;

/* DAMAGED: locks in these tables would not exclude. */
rowlock_status rl_schema_check_shape(rl_conn *conn, const char *schema, const rl_io *io,
                                     rowlock_error *err) RL_MUST_USE;

/* SCHEMA, DAMAGED: this program cannot use the schema. */
rowlock_status rl_schema_check(rl_conn *conn, const char *schema, const rl_io *io,
                               rowlock_error *err) RL_MUST_USE;

/* The schema's version; the place may be NULL. SCHEMA: there is no schema, or it is unfinished. */
rowlock_status rl_schema_version(rl_conn *conn, const char *schema, const rl_io *io,
                                 unsigned *version, rowlock_error *err) RL_MUST_USE;

#endif
