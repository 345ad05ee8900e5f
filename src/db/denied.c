/*
 * db/denied.c - see denied.h. The texts:
 *   MariaDB 1142: UPDATE command denied to user 'u'@'h' for table `schema`.`table`
 *   MySQL 1142:   UPDATE command denied to user 'u'@'h' for table 'table'
 *                 SELECT with locking clause command denied to user ... (UPDATE is what it wants)
 *   both, 1143:   UPDATE command denied to user 'u'@'h' for column 'c' in table 'table'
 *   both, 1370:   execute command denied to user 'u'@'h' for routine 'schema.procedure'
 */
#include "db/denied.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "db/errors.h"

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
static bool put_routine(piece routine, const piece *user, char *grant, size_t size)
{
    routine = bare(routine);
    const char *dot = memchr(routine.text, '.', (size_t)routine.size);
    if (!dot)
        return false;
    int schema_size = (int)(dot - routine.text);
    /* not run: for people */
    snprintf(grant, size, "GRANT EXECUTE ON PROCEDURE `%.*s`.`%.*s` TO %.*s", schema_size,
             routine.text, routine.size - schema_size - 1, dot + 1, user->size, user->text);
    return true;
}

/* The GRANT that would allow it, from the text of error 1142, 1143 or 1370 in the server's English.
 * False: it says something else. */
static bool missing_grant(const char *text, const char *schema, char *grant, size_t size)
{
    piece right, user, column, table, routine;
    char where[300];
    const char *at = text;
    if (!cut(&at, "", " command denied to user ", &right) ||
        !cut(&at, " denied to user ", " for ", &user))
        return false;
    const char *of_routine = at;
    if (cut(&of_routine, " for routine ", "", &routine))
        return put_routine(routine, &user, grant, size);
    if (memmem(right.text, (size_t)right.size, " with locking", 13))
        right = (piece){.text = "UPDATE", .size = 6}; /* not run */
    bool of_column = cut(&at, " for column ", " in table ", &column);
    if (!cut(&at, of_column ? " in table " : " for table ", "", &table) ||
        !put_table(table, schema, where, sizeof where))
        return false;
    column = of_column ? bare(column) : (piece){.text = ""};
    /* not run: for people */
    snprintf(grant, size, "GRANT %.*s%s%.*s%s ON %s TO %.*s", right.size, right.text,
             of_column ? " (" : "", column.size, column.text, of_column ? ")" : "", where,
             user.size, user.text);
    return true;
}

rowlock_status rl_refused(const rl_refusal *refusal, rowlock_status status, rowlock_error *err)
{
    const char *meaning = refusal->meaning ? refusal->meaning : rowlock_status_text(status);
    char grant[400];
    if (status == ROWLOCK_DENIED &&
        missing_grant(refusal->text, refusal->schema, grant, sizeof grant))
        rl_fail(err, status, "this user lacks a privilege: %s; (error %u in %s)", grant,
                refusal->number, refusal->statement);
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

void rl_grantee(const char *user, char *text, size_t size)
{
    const char *at = strrchr(user, '@');
    int length = at ? (int)(at - user) : (int)strlen(user);
    snprintf(text, size, "'%.*s'@'%s'", length, user, at ? at + 1 : "%");
}
