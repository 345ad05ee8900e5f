#include "db/errors.h"

#include <stddef.h>

/* Numbers are written out: the two flavours' headers disagree about names. */
typedef struct meaning {
    unsigned short number;
    unsigned char status; /* a rowlock_status */
    unsigned char only;   /* FLAVOUR_* */
} meaning;

enum { EITHER, ONLY_MARIADB, ONLY_MYSQL };

static const meaning meanings[] = {
    /* a lock could not be had: lock wait timeout (also MariaDB's NOWAIT), MySQL's NOWAIT */
    {1205, ROWLOCK_BUSY, EITHER},
    {3572, ROWLOCK_BUSY, ONLY_MYSQL},
    /* the whole transaction is rolled back: deadlock, changed since the snapshot (MariaDB),
     * group replication, error at commit, deadlock among user locks */
    {1213, ROWLOCK_DEADLOCK, EITHER},
    {1020, ROWLOCK_DEADLOCK, EITHER},
    {3101, ROWLOCK_DEADLOCK, ONLY_MYSQL},
    {1180, ROWLOCK_DEADLOCK, EITHER},
    {3058, ROWLOCK_DEADLOCK, ONLY_MYSQL},
    /* interrupted: KILL QUERY, the flavours' statement time limits */
    {1317, ROWLOCK_CANCELLED, EITHER},
    {1969, ROWLOCK_CANCELLED, ONLY_MARIADB},
    {3024, ROWLOCK_CANCELLED, ONLY_MYSQL},
    /* the connection is gone; whether the statement ran is not known */
    {2006, ROWLOCK_UNKNOWN, EITHER},
    {2013, ROWLOCK_UNKNOWN, EITHER},
    {2055, ROWLOCK_UNKNOWN, EITHER},
    {2026, ROWLOCK_UNKNOWN, EITHER},
    {2014, ROWLOCK_UNKNOWN, EITHER},
    {2027, ROWLOCK_UNKNOWN, EITHER},
    {2030, ROWLOCK_UNKNOWN, EITHER},
    {1053, ROWLOCK_UNKNOWN, EITHER},
    {1152, ROWLOCK_UNKNOWN, EITHER},
    {1158, ROWLOCK_UNKNOWN, EITHER},
    {1159, ROWLOCK_UNKNOWN, EITHER},
    {1160, ROWLOCK_UNKNOWN, EITHER},
    {1161, ROWLOCK_UNKNOWN, EITHER},
    {1184, ROWLOCK_UNKNOWN, EITHER},
    {1927, ROWLOCK_UNKNOWN, EITHER},
    {4031, ROWLOCK_UNKNOWN, ONLY_MYSQL},
    /* cannot be reached */
    {2002, ROWLOCK_UNAVAILABLE, EITHER},
    {2003, ROWLOCK_UNAVAILABLE, EITHER},
    {2005, ROWLOCK_UNAVAILABLE, EITHER},
    {2012, ROWLOCK_UNAVAILABLE, EITHER},
    {1040, ROWLOCK_UNAVAILABLE, EITHER},
    {1203, ROWLOCK_UNAVAILABLE, EITHER},
    {1226, ROWLOCK_UNAVAILABLE, EITHER},
    {1129, ROWLOCK_UNAVAILABLE, EITHER},
    /* the wrong node */
    {1290, ROWLOCK_READONLY, EITHER},
    {1792, ROWLOCK_READONLY, EITHER},
    {1836, ROWLOCK_READONLY, EITHER},
    {1047, ROWLOCK_READONLY, EITHER},
    {1036, ROWLOCK_READONLY, EITHER},
    /* not allowed */
    {1044, ROWLOCK_DENIED, EITHER},
    {1045, ROWLOCK_DENIED, EITHER},
    {1095, ROWLOCK_DENIED, EITHER},
    {1130, ROWLOCK_DENIED, EITHER},
    {1142, ROWLOCK_DENIED, EITHER},
    {1143, ROWLOCK_DENIED, EITHER},
    {1227, ROWLOCK_DENIED, EITHER},
    {1251, ROWLOCK_DENIED, EITHER},
    {1370, ROWLOCK_DENIED, EITHER},
    {1410, ROWLOCK_DENIED, EITHER},
    {1698, ROWLOCK_DENIED, EITHER},
    {1820, ROWLOCK_DENIED, EITHER},
    {1862, ROWLOCK_DENIED, EITHER},
    {2058, ROWLOCK_DENIED, EITHER},
    {2059, ROWLOCK_DENIED, EITHER},
    {2061, ROWLOCK_DENIED, EITHER},
    {3118, ROWLOCK_DENIED, ONLY_MYSQL},
    {3159, ROWLOCK_DENIED, ONLY_MYSQL},
    {4151, ROWLOCK_DENIED, ONLY_MARIADB},
    /* no such schema, table, routine */
    {1049, ROWLOCK_SCHEMA, EITHER},
    {1146, ROWLOCK_SCHEMA, EITHER},
    {1305, ROWLOCK_SCHEMA, EITHER},
    /* a table is there and is not what it was: columns, keys, what fits into them, its engine */
    {1048, ROWLOCK_DAMAGED, EITHER},
    {1054, ROWLOCK_DAMAGED, EITHER},
    {1062, ROWLOCK_DAMAGED, EITHER},
    {1136, ROWLOCK_DAMAGED, EITHER},
    {1176, ROWLOCK_DAMAGED, EITHER},
    {1264, ROWLOCK_DAMAGED, EITHER},
    {1265, ROWLOCK_DAMAGED, EITHER},
    {1292, ROWLOCK_DAMAGED, EITHER},
    {1364, ROWLOCK_DAMAGED, EITHER},
    {1366, ROWLOCK_DAMAGED, EITHER},
    {1406, ROWLOCK_DAMAGED, EITHER},
    {1452, ROWLOCK_DAMAGED, EITHER},
    {1644, ROWLOCK_DAMAGED, EITHER},
    {1932, ROWLOCK_DAMAGED, ONLY_MARIADB},
    {4025, ROWLOCK_DAMAGED, ONLY_MARIADB},
    {3819, ROWLOCK_DAMAGED, ONLY_MYSQL},
    /* READ COMMITTED with binlog_format = STATEMENT */
    {1665, ROWLOCK_UNSUPPORTED, EITHER},
    /* this machine */
    {2008, ROWLOCK_SYSTEM, EITHER},
    {2001, ROWLOCK_SYSTEM, EITHER},
};

rowlock_status rl_server_status(unsigned number, rl_flavour flavour)
{
    unsigned char other = flavour == RL_MARIADB ? ONLY_MYSQL : ONLY_MARIADB;
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++)
        if (meanings[i].number == number && meanings[i].only != other)
            return (rowlock_status)meanings[i].status;
    return ROWLOCK_SERVER;
}

rowlock_status rl_connect_status(unsigned number, rl_flavour flavour)
{
    rowlock_status status = rl_server_status(number, flavour);
    return status == ROWLOCK_UNKNOWN ? ROWLOCK_UNAVAILABLE : status;
}
