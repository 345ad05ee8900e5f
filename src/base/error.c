#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/name.h"

/* Before it is cut between two characters, and what came from outside is cleaned. */
typedef char whole[4096];

static void put_message(rowlock_error *err, const char *format, va_list args) RL_PRINTF(2, 0);
static void put_message(rowlock_error *err, const char *format, va_list args)
{
    whole text;
    vsnprintf(text, sizeof text, format, args);
    rl_copy_label(err->message, sizeof err->message, text);
}

rowlock_status rl_fail(rowlock_error *err, rowlock_status status, const char *format, ...)
{
    if (!err)
        return status;
    rowlock_error made = {.status = status}; /* what is told may be in *err */
    va_list args;
    va_start(args, format);
    put_message(&made, format, args);
    va_end(args);
    *err = made;
    return status;
}

rowlock_status rl_fail_again(rowlock_error *err, rowlock_status status, const char *format, ...)
{
    if (!err)
        return status;
    va_list args;
    err->status = status;
    va_start(args, format);
    put_message(err, format, args);
    va_end(args);
    return status;
}

void rl_error_prefix(rowlock_error *err, const char *format, ...)
{
    if (!err)
        return;
    whole text;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text - sizeof err->message, format, args);
    va_end(args);
    size_t length = strlen(text);
    snprintf(text + length, sizeof text - length, "%s", err->message);
    rl_copy_label(err->message, sizeof err->message, text);
}

rowlock_status rl_no_effect(rowlock_status status, rowlock_error *err)
{
    if (status != ROWLOCK_UNKNOWN)
        return status;
    unsigned number = err ? err->server_errno : 0;
    rl_fail(err, ROWLOCK_UNAVAILABLE, "%s",
            number ? "the connection to the server was lost" : "the server did not answer in time");
    if (err)
        err->server_errno = number;
    return ROWLOCK_UNAVAILABLE;
}

rowlock_error *rl_error_or(rowlock_error *err, rowlock_error *spare)
{
    return err ? err : spare;
}

void rl_log_line(const rl_log *log, rowlock_log_level level, const char *format, ...)
{
    if (!log || !log->fn)
        return;
    whole text;
    char line[700];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    rl_copy_label(line, sizeof line, text);
    log->fn(log->data, level, line);
}
