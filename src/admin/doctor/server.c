/* admin/doctor/server.c - what rowlock has in the server: its procedures, and the event that
 * sweeps.
 */
#include "admin/doctor/parts.h"
#include "migrate/procedures.h"

#define NO_SUCH_TABLE 1146

void rl_doctor_check_procedures(rl_doctor *d)
{
    rl_procedures_seen seen;
    rowlock_status status;
    RL_UNTIL_HEARD(d, status, rl_procedures_look(d->conn, d->params->schema, &d->io, &seen, NULL));
    if (status != ROWLOCK_OK)
        return;
    if (seen.there == 0)
        rl_doctor_fine(d, "procedures",
                       "none that this user sees; `rowlock init --procedures` installs them");
    else if (seen.same < seen.there)
        rl_doctor_tell(d, "procedures", ROWLOCK_CARE,
                       "SQL programs get what that program did, with its bugs",
                       "`rowlock init` with the newest program in use brings them up to date",
                       "%u of %u are not this program's, but of %s", seen.there - seen.same,
                       seen.there, seen.other);
    else if (*seen.missing)
        rl_doctor_tell(d, "procedures", ROWLOCK_CARE, "what calls them fails",
                       "`rowlock init` makes them again; what was granted on each by itself may "
                       "have to be granted again",
                       "%u of %u are missing, %s for one", seen.all - seen.there, seen.all,
                       seen.missing);
    else if (seen.there < seen.all)
        rl_doctor_tell(d, "procedures", ROWLOCK_NOTE,
                       "a CALL of one of the others fails, with error 1305 or 1370",
                       "`rowlock init` makes what is missing; what is there and not seen takes the "
                       "privilege EXECUTE",
                       "%u of %u are there and this user's to see, as of this program (%s)",
                       seen.there, seen.all, rowlock_version());
    else
        rl_doctor_fine(d, "procedures",
                       "all %u, the internal ones counted, as of this program (%s)", seen.there,
                       rowlock_version());
}

/* -------------------------------------------------------------------------- the event */

void rl_doctor_check_event(rl_doctor *d)
{
    /* information_schema has no row of it for who lacks the privilege EVENT; this is refused then.
     */
    const rowlock_status shown =
        rl_query_text(d->conn, RL_SQL_DOCTOR_EVENT_RIGHT, NULL, &d->io, NULL, NULL, NULL);
    const rl_value values[] = {rl_u64(d->server->read_only),
                               rl_u64(rl_many_writers(d->server->cluster, false)),
                               rl_u64(shown != ROWLOCK_OK)};
    unsigned told = 0;
    rowlock_error err = {0};
    rowlock_status status = rl_doctor_tell_rows(d, RL_SQL_DOCTOR_EVENT, values, &told, &err);
    if (told > 0)
        return;
    if (status == ROWLOCK_OK || err.server_errno == NO_SUCH_TABLE)
        rl_doctor_fine(d, "event", "the server does not sweep by itself (`rowlock init --event`)");
    else if (status == ROWLOCK_DENIED)
        /* No statement: it would fail where the table is not there, and that is hidden, too. */
        rl_doctor_tell(
            d, "event", ROWLOCK_NOTE, "the table is there once the event was installed",
            rl_doctor_text(
                d, "where `rowlock init --event` was run, the right SELECT on `%s`.sweep_event",
                d->params->schema),
            "whether the server sweeps by itself is hidden from this user");
    else
        rl_doctor_tell(d, "event", ROWLOCK_NOTE, "", "",
                       "whether the server sweeps by itself cannot be read: %s", err.message);
}
