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

/* See rowlock_procedures_install(). `params` names the schema. */
rowlock_status rl_procedures_install(rl_params *params, const rowlock_procedures_options *options,
                                     rowlock_procedures_result *result,
                                     rowlock_error *err) RL_MUST_USE;
rowlock_status rl_procedures_remove(rl_params *params, const rowlock_procedures_options *options,
                                    rowlock_procedures_result *result,
                                    rowlock_error *err) RL_MUST_USE;

#endif
