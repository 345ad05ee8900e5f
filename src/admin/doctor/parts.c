#include "admin/doctor/parts.h"

#include <stdarg.h>
#include <stdio.h>

#include "db/denied.h"

#define STOPS_MOST 20 /* in all that is looked at */

bool rl_doctor_again(rl_doctor *d, rowlock_status status)
{
    return status == ROWLOCK_UNAVAILABLE && !d->conn->broken && d->stops++ < STOPS_MOST;
}

bool rl_doctor_could_look(const rl_doctor *d)
{
    return !d->conn->broken && d->stops <= STOPS_MOST;
}

void rl_doctor_tell(const rl_doctor *d, const char *check, rowlock_level level, const char *follows,
                    const char *remedy, const char *found, ...)
{
    char text[700];
    va_list args;
    if (!rl_doctor_could_look(d))
        return;
    va_start(args, found);
    vsnprintf(text, sizeof text, found, args);
    va_end(args);
    const rowlock_finding finding = {
        .check = check, .level = level, .found = text, .follows = follows, .remedy = remedy};
    d->fn(d->data, &finding);
}

void rl_doctor_grantee(const rl_doctor *d, char *text, size_t size)
{
    rl_grantee(d->user, text, size);
}
