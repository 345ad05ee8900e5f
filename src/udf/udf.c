/*
 * The functions that the server finds in rowlock_udf.so, by these names. What they mean is in
 * docs/udf.md; sql/udf/ has the statements that make them known.
 *
 * All of them are pure: no allocation but in an _init, no file, no lock, no connection. They
 * may be called by any number of sessions at once.
 */
#include "rowlock/rowlock_udf.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/name.h"
#include "rowlock/rowlock.h"
#include "udf/values.h"

/* Declares a function and begins its definition, with all parameters, used or not. */
#define RL_UDF_ANY __attribute__((unused))
#define RL_UDF_DECLARED(head)                                                                      \
    ROWLOCK_API head;                                                                              \
    head
#define RL_UDF_INIT(f)                                                                             \
    RL_UDF_DECLARED(char f##_init(rowlock_udf_init *init RL_UDF_ANY,                               \
                                  rowlock_udf_args *args RL_UDF_ANY, char *message RL_UDF_ANY))
#define RL_UDF_DEINIT(f) RL_UDF_DECLARED(void f##_deinit(rowlock_udf_init *init))
#define RL_UDF_INTEGER(f)                                                                          \
    RL_UDF_DECLARED(long long f(rowlock_udf_init *init RL_UDF_ANY,                                 \
                                rowlock_udf_args *args RL_UDF_ANY, char *is_null RL_UDF_ANY,       \
                                char *error RL_UDF_ANY))
#define RL_UDF_STRING(f)                                                                           \
    RL_UDF_DECLARED(char *f(rowlock_udf_init *init RL_UDF_ANY, rowlock_udf_args *args RL_UDF_ANY,  \
                            char *result RL_UDF_ANY, unsigned long *length RL_UDF_ANY,             \
                            char *is_null RL_UDF_ANY, char *error RL_UDF_ANY))

/* As the servers' own headers lay them out, on a machine with 64 bits. */
_Static_assert(sizeof(void *) != 8 || offsetof(rowlock_udf_args, lengths) == 24, "UDF_ARGS");
_Static_assert(sizeof(void *) != 8 || sizeof(rowlock_udf_args) == 64, "UDF_ARGS");
_Static_assert(sizeof(void *) != 8 || offsetof(rowlock_udf_init, ptr) == 16, "UDF_INIT");
_Static_assert(sizeof(void *) != 8 || offsetof(rowlock_udf_init, const_item) == 24, "UDF_INIT");
_Static_assert(sizeof(void *) != 8 || sizeof(rowlock_udf_init) == 40, "UDF_INIT");

/* One character more than a name may have, of four bytes each: no cut can make a name valid. */
#define NAME_ROOM (4 * (ROWLOCK_NAME_MAX + 1))

/* ------------------------------------------------------------------------- arguments */

/* What the statement is refused with. */
static char refuse(char *message, const char *words)
{
    snprintf(message, ROWLOCK_UDF_MESSAGE_MAX, "%s", words);
    return 1;
}

/* So many, and each as text: a number that the server hands over as a long long does not say
 * whether it was unsigned, and a double has no 64 bits for a token. */
static char init_args(rowlock_udf_init *init, rowlock_udf_args *args, unsigned count, char *message,
                      const char *usage)
{
    if (args->arg_count != count)
        return refuse(message, usage);
    for (unsigned i = 0; i < count; i++)
        args->arg_type[i] = ROWLOCK_UDF_STRING;
    init->maybe_null = 0;
    return 0;
}

static char init_tokens(rowlock_udf_init *init, rowlock_udf_args *args, char *message,
                        const char *usage)
{
    for (unsigned i = 0; args->arg_count == 2 && i < 2; i++)
        if (args->arg_type[i] == ROWLOCK_UDF_REAL)
            return refuse(message,
                          "a token is a whole number or its digits, not a floating-point number");
    return init_args(init, args, 2, message, usage);
}

/* Not folded into a constant: each call, each row has its own. */
static char init_nothing(rowlock_udf_init *init, rowlock_udf_args *args, char *message,
                         const char *usage)
{
    init->const_item = 0;
    return init_args(init, args, 0, message, usage);
}

/* The token that is presented, which is not 0, and what it is compared with. */
static bool read_tokens(const rowlock_udf_args *args, uint64_t *presented, uint64_t *other)
{
    return rl_token_read(args->args[0], args->lengths[0], presented) && *presented > 0 &&
           rl_token_read(args->args[1], args->lengths[1], other);
}

/* ------------------------------------------------------------------------------ uuid */

RL_UDF_INIT(rowlock_uuid)
{
    char bad = init_nothing(init, args, message, "rowlock_uuid() takes no argument");
    init->max_length = RL_UUID_TEXT;
    init->maybe_null = 1;
    return bad;
}

RL_UDF_STRING(rowlock_uuid)
{
    struct timespec now;
    uint64_t random;
    /* It blocks only where the kernel has had no entropy yet; then it has none for us either. */
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random) {
        *error = 1;
        return NULL;
    }
    clock_gettime(CLOCK_REALTIME, &now);
    rl_uuid7(now.tv_sec, (uint32_t)now.tv_nsec, random, result);
    *length = RL_UUID_TEXT;
    return result;
}

/* ---------------------------------------------------------------------------- tokens */

RL_UDF_INIT(rowlock_token_valid)
{
    return init_tokens(init, args, message, "use rowlock_token_valid(presented, current)");
}

RL_UDF_INTEGER(rowlock_token_valid)
{
    uint64_t presented, current;
    return read_tokens(args, &presented, &current) && presented == current;
}

RL_UDF_INIT(rowlock_token_fresh)
{
    return init_tokens(init, args, message, "use rowlock_token_fresh(presented, highest_seen)");
}

RL_UDF_INTEGER(rowlock_token_fresh)
{
    uint64_t presented, seen;
    return read_tokens(args, &presented, &seen) && presented >= seen;
}

/* ----------------------------------------------------------------------------- names */

static rowlock_status check_name(const rowlock_udf_args *args, rowlock_error *err)
{
    char name[NAME_ROOM + 1];
    size_t length = args->args[0] ? args->lengths[0] : 0;
    if (length > NAME_ROOM)
        length = NAME_ROOM;
    if (length > 0)
        memcpy(name, args->args[0], length);
    name[length] = '\0';
    /* C code that reads the name would end there. */
    if (strlen(name) < length)
        return rl_fail(err, ROWLOCK_INVALID,
                       "the lock's name has a control character (U+0000, byte %zu)",
                       strlen(name) + 1);
    return rl_name_check(name, err);
}

RL_UDF_INIT(rowlock_name_valid)
{
    return init_args(init, args, 1, message, "use rowlock_name_valid(name)");
}

RL_UDF_INTEGER(rowlock_name_valid)
{
    return check_name(args, NULL) == ROWLOCK_OK;
}

RL_UDF_INIT(rowlock_name_problem)
{
    if (init_args(init, args, 1, message, "use rowlock_name_problem(name)"))
        return 1;
    rowlock_error *err = calloc(1, sizeof *err); /* the message may be longer than `result` */
    if (!err)
        return refuse(message, "out of memory");
    init->ptr = (char *)err;
    init->maybe_null = 1;
    init->max_length = sizeof err->message;
    return 0;
}

RL_UDF_DEINIT(rowlock_name_problem)
{
    free(init->ptr);
}

RL_UDF_STRING(rowlock_name_problem)
{
    rowlock_error *err = (rowlock_error *)(void *)init->ptr;
    if (check_name(args, err) == ROWLOCK_OK) {
        *is_null = 1;
        return NULL;
    }
    *length = strlen(err->message);
    return err->message;
}

/* ---------------------------------------------------------------------------- others */

RL_UDF_INIT(rowlock_clock_us)
{
    return init_nothing(init, args, message, "rowlock_clock_us() takes no argument");
}

RL_UDF_INTEGER(rowlock_clock_us)
{
    return rl_now_us();
}

RL_UDF_INIT(rowlock_udf_version)
{
    char bad = init_nothing(init, args, message, "rowlock_udf_version() takes no argument");
    init->max_length = strlen(ROWLOCK_VERSION_STRING);
    return bad;
}

RL_UDF_STRING(rowlock_udf_version)
{
    *length = strlen(ROWLOCK_VERSION_STRING);
    memcpy(result, ROWLOCK_VERSION_STRING, *length);
    return result;
}
