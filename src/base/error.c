#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/name.h"

/* What came from outside may hold anything: each such character, and each byte that is not
 * UTF-8, becomes a '?'. It gets no longer. */
static void one_line(char *text)
{
    char *to = text;
    for (size_t length; *text; text += length) {
        unsigned c = 0;
        length = rl_utf8_decode(text, &c);
        bool plain = length > 0 && !rl_is_control(c);
        length = length ? length : 1;
        if (plain)
            memmove(to, text, length);
        else
            *to = '?';
        to += plain ? length : 1;
    }
    *to = '\0';
}

/* A cut must not leave half a character. */
static void trim_utf8(char *text)
{
    size_t n = strlen(text);
    size_t start = n;
    while (start > 0 && ((unsigned char)text[start - 1] & 0xc0) == 0x80)
        start--;
    if (start == 0)
        return;
    unsigned char lead = (unsigned char)text[start - 1];
    size_t need = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc0 ? 2 : 1;
    if (need > n - start + 1)
        text[start - 1] = '\0';
}

rowlock_status rl_fail(rowlock_error *err, rowlock_status status, const char *format, ...)
{
    if (!err)
        return status;
    *err = (rowlock_error){.status = status};
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    trim_utf8(err->message);
    one_line(err->message);
    return status;
}

void rl_error_prefix(rowlock_error *err, const char *format, ...)
{
    if (!err)
        return;
    char was[sizeof err->message];
    memcpy(was, err->message, sizeof was);
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    size_t n = strlen(err->message);
    snprintf(err->message + n, sizeof err->message - n, "%s", was);
    trim_utf8(err->message);
    one_line(err->message);
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
    char line[700];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    trim_utf8(line);
    one_line(line);
    log->fn(log->data, level, line);
}
