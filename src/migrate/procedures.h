/* migrate/procedures.h - the stored procedures: the table made from sql/procedures/. */
#ifndef RL_MIGRATE_PROCEDURES_H
#define RL_MIGRATE_PROCEDURES_H

#include "db/pool.h"
#include "rowlock/rowlock.h"

typedef struct rl_procedure {
    const char *name;
    const char *text; /* CREATE PROCEDURE ...; {bell}: the prefix of the schema's bells */
} rl_procedure;

extern const rl_procedure rl_procedures[];
extern const unsigned rl_procedure_count;

/* See rowlock_procedures_install(); where none is wanted, _remove(). `params` names the schema. */
rowlock_status rl_procedures_change(rl_params *params, const rowlock_procedures_options *options,
                                    bool wanted, rowlock_procedures_result *result,
                                    rowlock_error *err) RL_MUST_USE;

/* What of them a connection's user sees in its schema, for the doctor. */
typedef struct rl_procedures_seen {
    unsigned there;
    unsigned same;       /* as this program would make them */
    unsigned all;        /* that it would make */
    char other[65];      /* the comment of one that is not, "rowlock 0.1.0 ..."; or "" */
    const char *missing; /* one that is not there; "": none, or this user may just not see it */
} rl_procedures_seen;

rowlock_status rl_procedures_look(rl_conn *conn, const char *schema, const rl_io *io,
                                  rl_procedures_seen *seen, rowlock_error *err) RL_MUST_USE;

#endif
