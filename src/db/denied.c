/*
 * db/denied.c - see denied.h. The texts:
 *   MariaDB 1142: UPDATE command denied to user 'u'@'h' for table `schema`.`table`
 *   MySQL 1142:   UPDATE command denied to user 'u'@'h' for table 'table'
 *                 SELECT with locking clause command denied to user ... (UPDATE is what it wants)
 *   both, 1143:   UPDATE command denied to user 'u'@'h' for column 'c' in table 'table'
 *   both, 1370:   execute command denied to user 'u'@'h' for routine 'schema.procedure'
 * The user there is the account's, but the host is the connection's: for the account 'u'@'%' a
 * GRANT to 'u'@'localhost' would name an account that does not exist (error 1133).
 */
#include "db/denied.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "db/errors.h"

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

/* The account is the one that was refused, unless a procedure was refused for who made it. */
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
        /* not run: for people */
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
        rl_fail(err, status, "this user lacks a privilege (error %u in %s): %s;", refusal->number,
                refusal->statement, grant);
    else if (rl_is_signal(refusal->number, refusal->sqlstate))
        rl_fail(err, status, "%s", refusal->text); /* in words of ours */
    else
        rl_fail(err, status, "%s: %s (error %u in %s)", meaning, refusal->text, refusal->number,
                refusal->statement);
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
