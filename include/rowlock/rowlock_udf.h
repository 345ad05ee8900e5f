/*
 * rowlock/rowlock_udf.h - the ABI of loadable functions (CREATE FUNCTION ... SONAME), which MariaDB
 * and MySQL share.
 *
 * Their own headers have it, too (MariaDB: mysql_com.h; MySQL: udf_registration_types.h), but only
 * one server's are installed at a time, and Connector/C's mysql.h has structs of the same names
 * with another layout. The names here clash with neither. docs/udf.md is the manual; src/udf/ and
 * docs/examples/udf/ have functions that use this header.
 */
#ifndef ROWLOCK_UDF_H
#define ROWLOCK_UDF_H

#ifdef __cplusplus
extern "C" {
#endif

/* The type of an argument. An _init function may set it; then the server converts. */
enum rowlock_udf_type {
    ROWLOCK_UDF_STRING = 0,
    ROWLOCK_UDF_REAL = 1,    /* args[i] points to a double */
    ROWLOCK_UDF_INTEGER = 2, /* to a long long, which does not say whether it was unsigned */
    ROWLOCK_UDF_ROW = 3,
    ROWLOCK_UDF_DECIMAL = 4 /* text */
};

/* The arguments. In _init, args[i] is NULL where the argument is not constant. */
typedef struct rowlock_udf_args {
    unsigned arg_count;
    int *arg_type;          /* enum rowlock_udf_type; the server's enum is an int */
    char **args;            /* NULL: SQL's NULL. Text has no NUL at its end */
    unsigned long *lengths; /* bytes */
    char *maybe_null;
    char **attributes; /* the arguments as they were written */
    unsigned long *attribute_lengths;
    void *extension;
} rowlock_udf_args;

/* One use of the function in one statement, from its _init to its _deinit. */
typedef struct rowlock_udf_init {
    char maybe_null; /* 1: the result can be NULL */
    unsigned decimals;
    unsigned long max_length; /* of the result, in bytes */
    char *ptr;                /* the function's own */
    char const_item;          /* 1: the same for every row */
    void *extension;
} rowlock_udf_init;

#define ROWLOCK_UDF_MESSAGE_MAX 512 /* bytes for _init's message, with its end */
#define ROWLOCK_UDF_RESULT_MAX  255 /* bytes of `result` that a function of text may use */

/*
 * The functions of f, with C linkage and default visibility; the server finds them by name:
 *
 *   char f_init(rowlock_udf_init *, rowlock_udf_args *, char *message)
 *           1 with a message: the statement fails (error 1123, 08000 or HY000)
 *   void f_deinit(rowlock_udf_init *)           after each _init that returned 0
 *   long long f(rowlock_udf_init *, rowlock_udf_args *, char *is_null, char *error)
 *           RETURNS INTEGER
 *   double f(...)                               RETURNS REAL, the same arguments
 *   char *f(rowlock_udf_init *, rowlock_udf_args *, char *result, unsigned long *length,
 *           char *is_null, char *error)
 *           RETURNS STRING. What it returns must last until the next call or _deinit
 *
 * *error = 1 makes this result and the statement's further ones NULL; there is no message.
 */

#ifdef __cplusplus
}
#endif

#endif
