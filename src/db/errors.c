/*
 * db/errors.c - what the server's errors mean; and the GRANT that a user lacks, by these texts:
 *   MariaDB 1142: UPDATE command denied to user 'u'@'h' for table `schema`.`table`
 *   MySQL 1142:   UPDATE command denied to user 'u'@'h' for table 'table'
 *                 SELECT with locking clause command denied to user ... (UPDATE is what it wants)
 *   both, 1143:   UPDATE command denied to user 'u'@'h' for column 'c' in table 'table'
 *   both, 1370:   execute command denied to user 'u'@'h' for routine 'schema.procedure'
 * The user there is the account's, but the host is the connection's: for the account 'u'@'%' a
 * GRANT to 'u'@'localhost' would name an account that does not exist (error 1133).
 */
#include "db/errors.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* What both flavours mean the same by; each one's own numbers are in db/flavour.c. */
static const rl_meaning meanings[] = {
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
    {0},
};

static bool find_meaning(const rl_meaning *in, unsigned number, rowlock_status *status)
{
    for (; *in->numbers; in++)
        for (const unsigned short *at = in->numbers; *at; at++)
            if (*at == number) {
                *status = in->status;
                return true;
            }
    return false;
}

/* No number at all is what Connector/C says when mysql_stmt_prepare() had no memory (3.3). */
rowlock_status rl_server_status(unsigned number, rl_flavour flavour)
{
    rowlock_status status = number == 0 ? ROWLOCK_SYSTEM : ROWLOCK_SERVER;
    if (!find_meaning(rl_traits_of(flavour)->own_numbers, number, &status))
        (void)find_meaning(meanings, number, &status);
    return status;
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
    {"RLDMG", ROWLOCK_DAMAGED},  {"RLUNS", ROWLOCK_UNSUPPORTED}, {"RLFRZ", ROWLOCK_FROZEN},
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

/* ----------------------------------------------------------------------- refusals */

/* A user has 128 characters at most, a host 255. */
#define ACCOUNT_PART 512

/* Ends the text where `mark` stands; what is behind that, or NULL where it stands nowhere. */
static char *cut(char *text, const char *mark)
{
    char *found = text ? strstr(text, mark) : NULL;
    if (!found)
        return NULL;
    *found = '\0';
    return found + strlen(mark);
}

/* 'name' and `name` without what is around them. */
static char *bare(char *name)
{
    const size_t length = strlen(name);
    if (length < 2 || (*name != '\'' && *name != '`') || name[length - 1] != *name)
        return name;
    name[length - 1] = '\0';
    return name + 1;
}

static bool put_table(char *table, const char *schema, char *text, size_t size)
{
    if (strstr(table, "`.`"))
        snprintf(text, size, "%s", table);
    else if (schema && *schema)
        snprintf(text, size, "`%s`.`%s`", schema, bare(table));
    else
        return false;
    return true;
}

/* The account that was refused: this user, or the definer of a procedure. */
static bool is_of_account(const char *user, const char *account)
{
    const char *end = account ? strrchr(account, '@') : NULL;
    size_t length = end ? (size_t)(end - account) : 0;
    return end && *user == '\'' && strncmp(user + 1, account, length) == 0 &&
           strncmp(user + 1 + length, "'@'", 3) == 0;
}

/* Of 'user'@'host'; nothing in it is escaped. */
static bool put_grantee(char *user, const char *account, char *grantee, size_t size)
{
    char said[RL_GRANTEE_SIZE];
    const bool known = is_of_account(user, account);
    char *host = *user == '\'' ? cut(user + 1, "'@'") : NULL;
    if (!host || !cut(host, "'"))
        return false;
    snprintf(said, sizeof said, "%s@%s", user + 1, host);
    rl_grantee(known ? account : said, grantee, size);
    return true;
}

/* The GRANT that would allow it, from the text of error 1142, 1143 or 1370 in the server's English.
 * False: it says something else. */
static bool missing_grant(const rl_refusal *refusal, char *grant, size_t size)
{
    char right[sizeof refusal->text];
    char where[300];
    char grantee[RL_GRANTEE_SIZE];
    memcpy(right, refusal->text, sizeof right);
    char *user = cut(right, " command denied to user ");
    char *routine = cut(user, " for routine ");
    char *column = cut(user, " for column ");
    char *table = column ? cut(column, " in table ") : cut(user, " for table ");
    if (!user || !*right || !put_grantee(user, refusal->account, grantee, sizeof grantee))
        return false;
    if (routine) {
        /* No schema of ours has a dot in its name. */
        char *schema = bare(routine);
        char *procedure = cut(schema, ".");
        /* Helpers (rl_...) call one another: who needs one gets all procedures. */
        if (procedure && strncmp(procedure, "rl_", 3) == 0)
            snprintf(grant, size, "GRANT EXECUTE ON `%s`.* TO %s", schema, grantee); /* not run */
        else
            /* not run */
            snprintf(grant, size, "GRANT EXECUTE ON PROCEDURE `%s`.`%s` TO %s", schema,
                     procedure ? procedure : "", grantee);
        return procedure;
    }
    if (!table || !put_table(table, refusal->schema, where, sizeof where))
        return false;
    /* not run: for people */
    snprintf(grant, size, "GRANT %s%s%s%s ON %s TO %s",
             strstr(right, " with locking") ? "UPDATE" : right, /* not run */
             column ? " (" : "", column ? bare(column) : "", column ? ")" : "", where, grantee);
    return true;
}

bool rl_refusal_names_account(unsigned number)
{
    return number == 1142 || number == 1143 || number == 1370;
}

rowlock_status rl_refused(const rl_refusal *refusal, rowlock_status status, rowlock_error *err)
{
    const char *meaning = refusal->meaning ? refusal->meaning : rowlock_status_text(status);
    char grant[1600];
    if (status == ROWLOCK_DENIED && missing_grant(refusal, grant, sizeof grant))
        rl_fail(err, status, "this user lacks a privilege (error %u): %s;", refusal->number, grant);
    else if (rl_is_signal(refusal->number, refusal->sqlstate))
        rl_fail(err, status, "%s", refusal->text); /* in words of ours */
    else
        rl_fail(err, status, "%s: %s (error %u)", meaning, refusal->text, refusal->number);
    if (err) {
        err->server_errno = refusal->number;
        snprintf(err->sqlstate, sizeof err->sqlstate, "%s", refusal->sqlstate);
        snprintf(err->statement, sizeof err->statement, "%s", refusal->statement);
    }
    return status;
}

/* As a string of SQL: a quote and a backslash are doubled. */
static void put_quoted(const char *from, size_t length, char *text, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < length && at + 4 < size; i++) {
        if (from[i] == '\'' || from[i] == '\\')
            text[at++] = from[i];
        text[at++] = from[i];
    }
    text[at] = '\0';
}

void rl_grantee(const char *account, char *text, size_t size)
{
    char user[2 * ACCOUNT_PART + 1];
    char host[2 * ACCOUNT_PART + 1];
    const char *at = strrchr(account, '@');
    size_t length = at ? (size_t)(at - account) : strlen(account);
    const char *where = at ? at + 1 : "%";
    put_quoted(account, length, user, sizeof user);
    put_quoted(where, strlen(where), host, sizeof host);
    snprintf(text, size, "'%s'@'%s'", user, host);
}
