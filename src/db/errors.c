#include "db/errors.h"

#include <stddef.h>
#include <string.h>

/* What both flavours mean the same by; each one's own numbers are in db/flavour.c. */
typedef struct meaning {
    rowlock_status status;
    unsigned short numbers[20]; /* 0 behind the last */
} meaning;

static const meaning meanings[] = {
    /* a lock could not be had: lock wait timeout (also MariaDB's NOWAIT) */
    {ROWLOCK_BUSY, {1205}},
    /* the whole transaction is rolled back: deadlock, changed since the snapshot (MariaDB), error
     * at commit */
    {ROWLOCK_DEADLOCK, {1213, 1020, 1180}},
    /* interrupted: KILL QUERY, the flavours' statement time limits; while it waited for a table's
     * auto-increment lock (MariaDB) */
    {ROWLOCK_CANCELLED, {1317, 1467}},
    /* the connection is gone; whether the statement ran is not known */
    {ROWLOCK_UNKNOWN,
     {2006, 2013, 2055, 2026, 2014, 2027, 2030, 1053, 1152, 1158, 1159, 1160, 1161, 1184, 1927}},
    /* cannot be reached */
    {ROWLOCK_UNAVAILABLE, {2002, 2003, 2005, 2012, 1040, 1203, 1226, 1129}},
    /* the wrong node */
    {ROWLOCK_READONLY, {1290, 1792, 1836, 1047, 1036}},
    /* not allowed */
    {ROWLOCK_DENIED,
     {1044, 1045, 1095, 1130, 1142, 1143, 1227, 1251, 1370, 1410, 1419, 1698, 1820, 1862, 2058,
      2059, 2061}},
    /* no such schema, table, routine */
    {ROWLOCK_SCHEMA, {1049, 1146, 1305}},
    /* a table is there and is not what it was: columns, keys, what fits into them, its engine */
    {ROWLOCK_DAMAGED,
     {1048, 1054, 1062, 1136, 1176, 1264, 1265, 1292, 1364, 1366, 1406, 1452, 1644}},
    /* a trigger on a table of the server's own */
    {ROWLOCK_INVALID, {1465}},
    /* READ COMMITTED with binlog_format = STATEMENT */
    {ROWLOCK_UNSUPPORTED, {1665}},
    /* this machine */
    {ROWLOCK_SYSTEM, {2008, 2001}},
};

static bool is_one_of(unsigned number, const unsigned short *numbers)
{
    while (*numbers && *numbers != number)
        numbers++;
    return *numbers != 0;
}

/* No number at all is what Connector/C says when mysql_stmt_prepare() had no memory (3.3). */
rowlock_status rl_server_status(unsigned number, rl_flavour flavour)
{
    const rl_traits *traits = rl_traits_of(flavour);
    for (size_t i = 0; i < traits->own_number_count; i++)
        if (traits->own_numbers[i].number == number)
            return (rowlock_status)traits->own_numbers[i].status;
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (is_one_of(number, meanings[i].numbers))
            return meanings[i].status;
    return number == 0 ? ROWLOCK_SYSTEM : ROWLOCK_SERVER;
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
