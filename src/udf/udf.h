/*
 * udf/udf.h - the functions that the server finds in rowlock_udf.so, by these names. What they
 * mean is in docs/udf.md; sql/udf/ has the statements that make them known.
 *
 * All of them are pure: no allocation but in an _init, no file, no lock, no connection. They
 * may be called by any number of sessions at once.
 */
#ifndef RL_UDF_H
#define RL_UDF_H

#include "rowlock/rowlock.h"
#include "rowlock/rowlock_udf.h"

/* Each parameter is there, whatever a function needs of them. */
#define RL_UDF_ANY __attribute__((unused))
#define RL_UDF_INIT(f)                                                                             \
    ROWLOCK_API char f##_init(rowlock_udf_init *init RL_UDF_ANY,                                   \
                              rowlock_udf_args *args RL_UDF_ANY, char *message RL_UDF_ANY)
#define RL_UDF_DEINIT(f) ROWLOCK_API void f##_deinit(rowlock_udf_init *init)
#define RL_UDF_INTEGER(f)                                                                          \
    ROWLOCK_API long long f(rowlock_udf_init *init RL_UDF_ANY, rowlock_udf_args *args RL_UDF_ANY,  \
                            char *is_null RL_UDF_ANY, char *error RL_UDF_ANY)
#define RL_UDF_STRING(f)                                                                           \
    ROWLOCK_API char *f(rowlock_udf_init *init RL_UDF_ANY, rowlock_udf_args *args RL_UDF_ANY,      \
                        char *result RL_UDF_ANY, unsigned long *length RL_UDF_ANY,                 \
                        char *is_null RL_UDF_ANY, char *error RL_UDF_ANY)

RL_UDF_INIT(rowlock_uuid);
RL_UDF_STRING(rowlock_uuid);

RL_UDF_INIT(rowlock_token_valid);
RL_UDF_INTEGER(rowlock_token_valid);

RL_UDF_INIT(rowlock_token_fresh);
RL_UDF_INTEGER(rowlock_token_fresh);

RL_UDF_INIT(rowlock_name_valid);
RL_UDF_INTEGER(rowlock_name_valid);

RL_UDF_INIT(rowlock_name_problem);
RL_UDF_STRING(rowlock_name_problem);
RL_UDF_DEINIT(rowlock_name_problem);

RL_UDF_INIT(rowlock_clock_us);
RL_UDF_INTEGER(rowlock_clock_us);

RL_UDF_INIT(rowlock_udf_version);
RL_UDF_STRING(rowlock_udf_version);

#endif
