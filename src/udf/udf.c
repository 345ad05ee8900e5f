#include "udf/udf.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/name.h"
#include "udf/token.h"
#include "udf/uuid.h"

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

/* Every argument as text. A number that the server hands over as a long long does not say
 * whether it was unsigned, and a double has no 64 bits for a token. */
static void want_text(rowlock_udf_args *args)
{
    for (unsigned i = 0; i < args->arg_count; i++)
        args->arg_type[i] = ROWLOCK_UDF_STRING;
}

static char init_tokens(rowlock_udf_init *init, rowlock_udf_args *args, char *message,
                        const char *usage)
{
    if (args->arg_count != 2)
        return refuse(message, usage);
    for (unsigned i = 0; i < 2; i++)
        if (args->arg_type[i] == ROWLOCK_UDF_REAL)
            return refuse(message,
                          "a token is a whole number or its digits, not a floating-point number");
    want_text(args);
    init->maybe_null = 0;
    return 0;
}

static char init_name(rowlock_udf_args *args, char *message, const char *usage)
{
    if (args->arg_count != 1)
        return refuse(message, usage);
    want_text(args);
    return 0;
}

/* Not folded into a constant: each call, each row has its own. */
static char init_nothing(rowlock_udf_init *init, rowlock_udf_args *args, char *message,
                         const char *usage)
{
    if (args->arg_count != 0)
        return refuse(message, usage);
    init->maybe_null = 0;
    init->const_item = 0;
    return 0;
}

/* The token that is presented, which is not 0, and what it is compared with. */
static bool read_tokens(const rowlock_udf_args *args, uint64_t *presented, uint64_t *other)
{
    return rl_token_read(args->args[0], args->lengths[0], presented) && *presented > 0 &&
           rl_token_read(args->args[1], args->lengths[1], other);
}

/* ------------------------------------------------------------------------------ uuid */

char rowlock_uuid_init(rowlock_udf_init *init, rowlock_udf_args *args, char *message)
{
    char bad = init_nothing(init, args, message, "rowlock_uuid() takes no argument");
    init->max_length = RL_UUID_TEXT;
    init->maybe_null = 1;
    return bad;
}

char *rowlock_uuid(rowlock_udf_init *init, rowlock_udf_args *args, char *result,
                   unsigned long *length, char *is_null, char *error)
{
    struct timespec now;
    uint64_t random;
    (void)init;
    (void)args;
    (void)is_null;
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

char rowlock_token_valid_init(rowlock_udf_init *init, rowlock_udf_args *args, char *message)
{
    return init_tokens(init, args, message, "use rowlock_token_valid(presented, current)");
}

long long rowlock_token_valid(rowlock_udf_init *init, rowlock_udf_args *args, char *is_null,
                              char *error)
{
    uint64_t presented, current;
    (void)init;
    (void)is_null;
    (void)error;
    return read_tokens(args, &presented, &current) && presented == current;
}

char rowlock_token_fresh_init(rowlock_udf_init *init, rowlock_udf_args *args, char *message)
{
    return init_tokens(init, args, message, "use rowlock_token_fresh(presented, highest_seen)");
}

long long rowlock_token_fresh(rowlock_udf_init *init, rowlock_udf_args *args, char *is_null,
                              char *error)
{
    uint64_t presented, seen;
    (void)init;
    (void)is_null;
    (void)error;
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
    /* It would end the name for whoever reads it in C. */
    if (strlen(name) < length)
        return rl_fail(err, ROWLOCK_INVALID,
                       "the lock's name has a control character (U+0000, byte %zu)",
                       strlen(name) + 1);
    return rl_name_check(name, err);
}

char rowlock_name_valid_init(rowlock_udf_init *init, rowlock_udf_args *args, char *message)
{
    init->maybe_null = 0;
    return init_name(args, message, "use rowlock_name_valid(name)");
}

long long rowlock_name_valid(rowlock_udf_init *init, rowlock_udf_args *args, char *is_null,
                             char *error)
{
    (void)init;
    (void)is_null;
    (void)error;
    return check_name(args, NULL) == ROWLOCK_OK;
}

char rowlock_name_problem_init(rowlock_udf_init *init, rowlock_udf_args *args, char *message)
{
    if (init_name(args, message, "use rowlock_name_problem(name)"))
        return 1;
    rowlock_error *err = calloc(1, sizeof *err); /* the message may be longer than `result` */
    if (!err)
        return refuse(message, "out of memory");
    init->ptr = (char *)err;
    init->maybe_null = 1;
    init->max_length = sizeof err->message;
    return 0;
}

void rowlock_name_problem_deinit(rowlock_udf_init *init)
{
    free(init->ptr);
}

char *rowlock_name_problem(rowlock_udf_init *init, rowlock_udf_args *args, char *result,
                           unsigned long *length, char *is_null, char *error)
{
    rowlock_error *err = (rowlock_error *)(void *)init->ptr;
    (void)result;
    (void)error;
    if (check_name(args, err) == ROWLOCK_OK) {
        *is_null = 1;
        return NULL;
    }
    *length = strlen(err->message);
    return err->message;
}

/* ---------------------------------------------------------------------------- others */

char rowlock_clock_us_init(rowlock_udf_init *init, rowlock_udf_args *args, char *message)
{
    return init_nothing(init, args, message, "rowlock_clock_us() takes no argument");
}

long long rowlock_clock_us(rowlock_udf_init *init, rowlock_udf_args *args, char *is_null,
                           char *error)
{
    (void)init;
    (void)args;
    (void)is_null;
    (void)error;
    return rl_now_us();
}

char rowlock_udf_version_init(rowlock_udf_init *init, rowlock_udf_args *args, char *message)
{
    char bad = init_nothing(init, args, message, "rowlock_udf_version() takes no argument");
    init->max_length = strlen(ROWLOCK_VERSION_STRING);
    return bad;
}

char *rowlock_udf_version(rowlock_udf_init *init, rowlock_udf_args *args, char *result,
                          unsigned long *length, char *is_null, char *error)
{
    (void)init;
    (void)args;
    (void)is_null;
    (void)error;
    *length = strlen(ROWLOCK_VERSION_STRING);
    memcpy(result, ROWLOCK_VERSION_STRING, *length);
    return result;
}
