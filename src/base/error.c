#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/name.h"

/* Before it is cut between two characters, and what came from outside is cleaned. */
typedef char whole[4096];

rowlock_status rl_fail(rowlock_error *err, rowlock_status status, const char *format, ...)
{
    if (!err)
        return status;
    whole text;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    *err = (rowlock_error){.status = status};
    rl_copy_label(err->message, sizeof err->message, text);
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
