/* base/error.h - filling the caller's rowlock_error, which may be NULL. */
#ifndef RL_ERROR_H
#define RL_ERROR_H

#include "rowlock/rowlock.h"

#define RL_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define RL_MUST_USE     __attribute__((warn_unused_result))

/* Returns from the calling function with the status of `call`, unless that is OK. Only where
 * nothing is left to be cleaned up, or RL_CLEANUP does it. */
#define RL_TRY(call)                                                                               \
    do {                                                                                           \
        const rowlock_status rl_status_ = (call);                                                  \
        if (rl_status_ != ROWLOCK_OK)                                                              \
            return rl_status_;                                                                     \
    } while (0)

/* Before a variable: `function` gets its address when the variable goes out of scope. */
#define RL_CLEANUP(function) __attribute__((cleanup(function)))

/* Fills err (one line; control characters become '?') and returns the status. */
rowlock_status rl_fail(rowlock_error *err, rowlock_status status, const char *format, ...)
    RL_PRINTF(3, 4);

/* As rl_fail(), but keeps what the server said besides: number, SQLSTATE and statement. */
rowlock_status rl_fail_again(rowlock_error *err, rowlock_status status, const char *format, ...)
    RL_PRINTF(3, 4);

/* Puts words in front of the message: "acquiring 'x': ..." */
void rl_error_prefix(rowlock_error *err, const char *format, ...) RL_PRINTF(2, 3);

/*
 * The status of what has no effect, or may be done again as it is: where the reply was lost
 * (UNKNOWN), only the connection was (UNAVAILABLE).
 */
rowlock_status rl_no_effect(rowlock_status status, rowlock_error *err) RL_MUST_USE;

/* An error to fill when the caller gave none, for code that reads it back. */
rowlock_error *rl_error_or(rowlock_error *err, rowlock_error *spare);

/* A host's log, or none. */
typedef struct rl_log {
    rowlock_log_fn fn;
    void *data;
} rl_log;

void rl_log_line(const rl_log *log, rowlock_log_level level, const char *format, ...)
    RL_PRINTF(3, 4);

#endif
