#include "admin/doctor/parts.h"

#include <stdarg.h>
#include <stdio.h>

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

rowlock_status rl_doctor_tell_rows(rl_doctor *d, rl_sql_id id, const rl_value *values,
                                   unsigned *told, rowlock_error *err)
{
    rl_rows rows;
    rowlock_status status;
    RL_UNTIL_HEARD(d, status, rl_query(d->conn, id, values, &d->io, &rows, err));
    RL_TRY(status);
    for (*told = 0; rl_next(&rows); ++*told) {
        const bool fine = rows.cells[1].u64 == ROWLOCK_FINE;
        rl_doctor_tell(d, rows.cells[0].text, (rowlock_level)rows.cells[1].u64,
                       fine ? "" : rows.cells[3].text, fine ? "" : rows.cells[4].text, "%s",
                       rows.cells[2].text);
    }
    return ROWLOCK_OK;
}

const char *rl_doctor_text(rl_doctor *d, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(d->text, sizeof d->text, format, args);
    va_end(args);
    return d->text;
}
