#include "db/errors.h"

#include <stddef.h>
#include <string.h>

/* What both flavours mean the same by; each one's own numbers are in db/flavour.c. */
typedef struct meaning {
    unsigned short number;
    unsigned char status; /* a rowlock_status */
} meaning;

static const meaning meanings[] = {
    /* a lock could not be had: lock wait timeout (also MariaDB's NOWAIT), MySQL's NOWAIT */
    {1205, ROWLOCK_BUSY},
    /* the whole transaction is rolled back: deadlock, changed since the snapshot (MariaDB),
     * group replication, error at commit, deadlock among user locks */
    {1213, ROWLOCK_DEADLOCK},
    {1020, ROWLOCK_DEADLOCK},
    {1180, ROWLOCK_DEADLOCK},
    /* interrupted: KILL QUERY, the flavours' statement time limits; while it waited for a table's
     * auto-increment lock (MariaDB) */
    {1317, ROWLOCK_CANCELLED},
    {1467, ROWLOCK_CANCELLED},
    /* the connection is gone; whether the statement ran is not known */
    {2006, ROWLOCK_UNKNOWN},
    {2013, ROWLOCK_UNKNOWN},
    {2055, ROWLOCK_UNKNOWN},
    {2026, ROWLOCK_UNKNOWN},
    {2014, ROWLOCK_UNKNOWN},
    {2027, ROWLOCK_UNKNOWN},
    {2030, ROWLOCK_UNKNOWN},
    {1053, ROWLOCK_UNKNOWN},
    {1152, ROWLOCK_UNKNOWN},
    {1158, ROWLOCK_UNKNOWN},
    {1159, ROWLOCK_UNKNOWN},
    {1160, ROWLOCK_UNKNOWN},
    {1161, ROWLOCK_UNKNOWN},
    {1184, ROWLOCK_UNKNOWN},
    {1927, ROWLOCK_UNKNOWN},
    /* cannot be reached */
    {2002, ROWLOCK_UNAVAILABLE},
    {2003, ROWLOCK_UNAVAILABLE},
    {2005, ROWLOCK_UNAVAILABLE},
    {2012, ROWLOCK_UNAVAILABLE},
    {1040, ROWLOCK_UNAVAILABLE},
    {1203, ROWLOCK_UNAVAILABLE},
    {1226, ROWLOCK_UNAVAILABLE},
    {1129, ROWLOCK_UNAVAILABLE},
    /* the wrong node */
    {1290, ROWLOCK_READONLY},
    {1792, ROWLOCK_READONLY},
    {1836, ROWLOCK_READONLY},
    {1047, ROWLOCK_READONLY},
    {1036, ROWLOCK_READONLY},
    /* not allowed */
    {1044, ROWLOCK_DENIED},
    {1045, ROWLOCK_DENIED},
    {1095, ROWLOCK_DENIED},
    {1130, ROWLOCK_DENIED},
    {1142, ROWLOCK_DENIED},
    {1143, ROWLOCK_DENIED},
    {1227, ROWLOCK_DENIED},
    {1251, ROWLOCK_DENIED},
    {1370, ROWLOCK_DENIED},
    {1410, ROWLOCK_DENIED},
    {1419, ROWLOCK_DENIED},
    {1698, ROWLOCK_DENIED},
    {1820, ROWLOCK_DENIED},
    {1862, ROWLOCK_DENIED},
    {2058, ROWLOCK_DENIED},
    {2059, ROWLOCK_DENIED},
    {2061, ROWLOCK_DENIED},
    /* no such schema, table, routine */
    {1049, ROWLOCK_SCHEMA},
    {1146, ROWLOCK_SCHEMA},
    {1305, ROWLOCK_SCHEMA},
    /* a table is there and is not what it was: columns, keys, what fits into them, its engine */
    {1048, ROWLOCK_DAMAGED},
    {1054, ROWLOCK_DAMAGED},
    {1062, ROWLOCK_DAMAGED},
    {1136, ROWLOCK_DAMAGED},
    {1176, ROWLOCK_DAMAGED},
    {1264, ROWLOCK_DAMAGED},
    {1265, ROWLOCK_DAMAGED},
    {1292, ROWLOCK_DAMAGED},
    {1364, ROWLOCK_DAMAGED},
    {1366, ROWLOCK_DAMAGED},
    {1406, ROWLOCK_DAMAGED},
    {1452, ROWLOCK_DAMAGED},
    {1644, ROWLOCK_DAMAGED},
    /* a trigger on a table of the server's own */
    {1465, ROWLOCK_INVALID},
    /* READ COMMITTED with binlog_format = STATEMENT */
    {1665, ROWLOCK_UNSUPPORTED},
    /* this machine; no number at all is what Connector/C says when mysql_stmt_prepare() had no
     * memory (3.3) */
    {0, ROWLOCK_SYSTEM},
    {2008, ROWLOCK_SYSTEM},
    {2001, ROWLOCK_SYSTEM},
};

rowlock_status rl_server_status(unsigned number, rl_flavour flavour)
{
    const rl_traits *traits = rl_traits_of(flavour);
    for (size_t i = 0; i < traits->own_number_count; i++)
        if (traits->own_numbers[i].number == number)
            return (rowlock_status)traits->own_numbers[i].status;
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (meanings[i].number == number)
            return (rowlock_status)meanings[i].status;
    return ROWLOCK_SERVER;
}

/* A Galera node that has just lost its quorum, at a commit (10.11: "Error while appending streaming
 * replication fragment(provider status: Not connected to Primary Component)"); 1047 a moment later.
 * Elsewhere 1180 is a conflict. */
static const char cut_off[] = "Not connected to Primary Component";

/* What MySQL (9.7) says of an UPDATE over several tables that KILL QUERY met; 1105 is no more than
 * "unknown error" elsewhere. */
static const char several_tables[] = "An error occurred in multi-table update";

rowlock_status rl_server_status_said(unsigned number, const char *text, rl_flavour flavour)
{
    if (number == 1105 && strstr(text, several_tables))
        return ROWLOCK_CANCELLED;
    if (number == 1180 && strstr(text, cut_off))
        return ROWLOCK_READONLY;
    return rl_server_status(number, flavour);
}

typedef struct signal_meaning {
    const char *sqlstate;
    rowlock_status status;
} signal_meaning;

static const signal_meaning signal_meanings[] = {
    {"RLBSY", ROWLOCK_BUSY},     {"RLTMO", ROWLOCK_TIMEOUT},     {"RLLST", ROWLOCK_LOST},
    {"RLCNF", ROWLOCK_CONFLICT}, {"RLINV", ROWLOCK_INVALID},     {"RLTXN", ROWLOCK_INVALID},
    {"RLMOD", ROWLOCK_MODE},     {"RLNOF", ROWLOCK_NOT_FOUND},   {"RLRDO", ROWLOCK_READONLY},
    {"RLDMG", ROWLOCK_DAMAGED},  {"RLUNS", ROWLOCK_UNSUPPORTED},
};

static const signal_meaning *meaning_of_signal(unsigned number, const char *sqlstate)
{
    for (size_t i = 0; number == 1644 && i < sizeof signal_meanings / sizeof signal_meanings[0];
         i++)
        if (strcmp(signal_meanings[i].sqlstate, sqlstate) == 0)
            return &signal_meanings[i];
    return NULL;
}

bool rl_is_signal(unsigned number, const char *sqlstate)
{
    return meaning_of_signal(number, sqlstate) != NULL;
}

rowlock_status rl_answer_status(unsigned number, const char *sqlstate, const char *text,
                                rl_flavour flavour)
{
    const signal_meaning *of_signal = meaning_of_signal(number, sqlstate);
    return of_signal ? of_signal->status : rl_server_status_said(number, text, flavour);
}

rowlock_status rl_connect_status(unsigned number, rl_flavour flavour)
{
    rowlock_status status = rl_server_status(number, flavour);
    return status == ROWLOCK_UNKNOWN ? ROWLOCK_UNAVAILABLE : status;
}
