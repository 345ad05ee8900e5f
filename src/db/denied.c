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

typedef struct piece {
    const char *text;
    int size;
} piece;

/* Between two words, the first of them where `*at` stands or behind it; moves it behind. */
static bool cut(const char **at, const char *before, const char *after, piece *out)
{
    const char *from = strstr(*at, before);
    if (!from)
        return false;
    from += strlen(before);
    const char *end = *after ? strstr(from, after) : from + strlen(from);
    if (!end || end == from)
        return false;
    *out = (piece){.text = from, .size = (int)(end - from)};
    *at = end;
    return true;
}

/* 'name' and `name` without what is around them. */
static piece bare(piece p)
{
    if (p.size > 1 && (*p.text == '\'' || *p.text == '`') && p.text[p.size - 1] == *p.text)
        return (piece){.text = p.text + 1, .size = p.size - 2};
    return p;
}

static bool put_table(piece table, const char *schema, char *text, size_t size)
{
    if (memmem(table.text, (size_t)table.size, "`.`", 3))
        snprintf(text, size, "%.*s", table.size, table.text);
    else if (schema && *schema)
        snprintf(text, size, "`%s`.`%.*s`", schema, bare(table).size, bare(table).text);
    else
        return false;
    return true;
}

/* No schema of ours has a dot in its name. */
static bool put_routine(piece routine, const char *grantee, char *grant, size_t size)
{
    routine = bare(routine);
    const char *dot = memchr(routine.text, '.', (size_t)routine.size);
    if (!dot)
        return false;
    int schema_size = (int)(dot - routine.text);
    /* not run: for people */
    snprintf(grant, size, "GRANT EXECUTE ON PROCEDURE `%.*s`.`%.*s` TO %s", schema_size,
             routine.text, routine.size - schema_size - 1, dot + 1, grantee);
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

/* Behind " denied to user ": 'user'@'host', and nothing in it is escaped. */
static bool put_grantee(const char *user, const char *account, char *grantee, size_t size)
{
    char said[RL_GRANTEE_SIZE];
    const char *middle = *user == '\'' ? strstr(user, "'@'") : NULL;
    const char *end = middle ? strchr(middle + 3, '\'') : NULL;
    if (!end)
        return false;
    snprintf(said, sizeof said, "%.*s@%.*s", (int)(middle - user - 1), user + 1,
             (int)(end - middle - 3), middle + 3);
    rl_grantee(is_of_account(user, account) ? account : said, grantee, size);
    return true;
}

/* The GRANT that would allow it, from the text of error 1142, 1143 or 1370 in the server's English.
 * False: it says something else. */
static bool missing_grant(const rl_refusal *refusal, char *grant, size_t size)
{
    piece right, column, table, routine;
    char where[300];
    char grantee[RL_GRANTEE_SIZE];
    const char *at = refusal->text;
    if (!cut(&at, "", " command denied to user ", &right) ||
        !put_grantee(at + strlen(" command denied to user "), refusal->account, grantee,
                     sizeof grantee))
        return false;
    const char *of_routine = at;
    if (cut(&of_routine, " for routine ", "", &routine))
        return put_routine(routine, grantee, grant, size);
    if (memmem(right.text, (size_t)right.size, " with locking", 13))
        right = (piece){.text = "UPDATE", .size = 6}; /* not run */
    bool of_column = cut(&at, " for column ", " in table ", &column);
    if (!cut(&at, of_column ? " in table " : " for table ", "", &table) ||
        !put_table(table, refusal->schema, where, sizeof where))
        return false;
    column = of_column ? bare(column) : (piece){.text = ""};
    /* not run: for people */
    snprintf(grant, size, "GRANT %.*s%s%.*s%s ON %s TO %s", right.size, right.text,
             of_column ? " (" : "", column.size, column.text, of_column ? ")" : "", where, grantee);
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
