#include "migrate/script.h"

#include <ctype.h>
#include <strings.h>

/* -------------------------------------------------------------------- transactions */

/* For MariaDB's SET STATEMENT ... FOR, the statement after FOR; else the whole statement. */
static rl_statement unwrapped(const rl_statement *statement)
{
    rl_statement rest = rl_statement_rest(statement);
    if (!rl_statement_is(statement, "SET") || !rl_statement_is(&rest, "STATEMENT"))
        return *statement;
    while (rest.length > 0 && !rl_statement_is(&rest, "FOR")) {
        rest.text++;
        rest.length--;
    }
    return rest.length > 0 ? rl_statement_rest(&rest) : *statement;
}

/* True if is() holds at one of the places where the statement may begin (rl_statement_head). */
static bool may_be(const rl_statement *statement, bool (*is)(const rl_statement *head))
{
    rl_statement head;
    for (const char *at = NULL; rl_statement_head(statement, &at, &head);) {
        const rl_statement inner = unwrapped(&head);
        if (is(&head) || is(&inner))
            return true;
    }
    return false;
}

static bool runs_others(const rl_statement *head)
{
    /* MariaDB also accepts the statements of a procedure's body outside of one. */
    return rl_statement_is_one_of(head, "IF CASE LOOP WHILE REPEAT FOR BEGIN CALL EXECUTE");
}

bool rl_commits_in_parts(const rl_statement *statement)
{
    static const char at_once[] = "BEGIN NOT ATOMIC"; /* not run */
    /* BEGIN NOT ATOMIC may also follow a label. */
    return may_be(statement, runs_others) || rl_statement_mentions(statement, at_once);
}

/* CREATE and DROP TEMPORARY TABLE do not commit; ALTER, CREATE INDEX, TRUNCATE and DROP TABLE of
 * such a table do (seen on MariaDB 10.11, 11.8 and MySQL 9.7). False if a comment may hide one of
 * the words. */
static bool is_temporary_table(const rl_statement *head)
{
    rl_statement rest = rl_statement_rest(head);
    if (rl_statement_mentions(head, "/*"))
        return false;
    if (rl_statement_is(&rest, "OR")) {
        rest = rl_statement_rest(&rest);
        rest = rl_statement_rest(&rest);
    }
    if (!rl_statement_is(&rest, "TEMPORARY"))
        return false;
    rest = rl_statement_rest(&rest);
    return rl_statement_is(&rest, "TABLE");
}

/* A SET that commits: of a password, or of a default role (MariaDB). SET autocommit commits only
 * when it changes from 0 to 1, which the run itself detects. */
static bool sets_and_commits(const rl_statement *head)
{
    const rl_statement rest = rl_statement_rest(head);
    return rl_statement_is(&rest, "PASSWORD") || rl_statement_is(&rest, "DEFAULT");
}

/* Seen on MariaDB 10.11, 11.8 and MySQL 9.7: each commits on one of them at least. */
static bool head_ends_transaction(const rl_statement *head)
{
    static const char words[] =
        "XA RENAME ALTER TRUNCATE GRANT REVOKE LOCK UNLOCK OPTIMIZE ANALYZE CHECK REPAIR CACHE "
        "IMPORT INSTALL UNINSTALL FLUSH RESET BACKUP CLONE CHANGE BEGIN START STOP COMMIT RESTART "
        "SHUTDOWN";
    rl_statement rest = rl_statement_rest(head);
    if (rl_statement_is_one_of(head, "CREATE DROP")) /* not run */
        return !is_temporary_table(head);
    if (rl_statement_is(head, "ROLLBACK")) { /* not run */
        if (rl_statement_is(&rest, "WORK"))
            rest = rl_statement_rest(&rest);
        return !rl_statement_is(&rest, "TO");
    }
    if (rl_statement_is(head, "LOAD"))
        return rl_statement_is(&rest, "INDEX");
    if (rl_statement_is(head, "SET"))
        return sets_and_commits(head);
    return rl_statement_is_one_of(head, words);
}

bool rl_ends_transaction(const rl_statement *statement)
{
    return may_be(statement, head_ends_transaction);
}

/* A COMMIT that is refused, and was not stopped, has committed nothing. */
static bool head_commits_before(const rl_statement *head)
{
    return head_ends_transaction(head) && !rl_statement_is_one_of(head, "XA COMMIT ROLLBACK");
}

bool rl_commits_before(const rl_statement *statement)
{
    return may_be(statement, head_commits_before);
}

/* COMMIT and ROLLBACK: AND CHAIN, or by completion_type. LOCK TABLES: with autocommit = 0 (MariaDB
 * 10.11). (BEGIN also begins a block; and one in a comment that only some servers run has no word
 * at its front.) */
bool rl_begins_anew(const rl_statement *statement)
{
    const rl_statement rest = rl_statement_rest(statement);
    if (rl_statement_is(statement, "START"))
        return rl_statement_is(&rest, "TRANSACTION");
    if (rl_statement_is(statement, "LOCK"))
        return rl_statement_is_one_of(&rest, "TABLES TABLE");
    if (rl_statement_is(statement, "BEGIN")) /* not run */
        return rest.length == 0 || rl_statement_is(&rest, "WORK");
    const bool ends = rl_statement_is_one_of(statement, "COMMIT ROLLBACK"); /* not run */
    return ends && head_ends_transaction(statement);
}

/* --------------------------------------------------------------- what a session knows */

static bool mentions_any(const rl_statement *statement, const char *const *words)
{
    while (*words && !rl_statement_mentions(statement, *words))
        words++;
    return *words != NULL;
}

/* The same at one place. MariaDB's "SET STATEMENT ... FOR INSERT ..." does not only change the
 * session. */
static bool head_is_of_session(const rl_statement *head)
{
    /* Words, not run. */
    static const char *const beyond[] = {"GLOBAL",       "PERSIST", "PASSWORD",
                                         "DEFAULT ROLE", "(",       NULL};
    if (rl_statement_is(head, "USE"))
        return true;
    const rl_statement rest = rl_statement_rest(head);
    return rl_statement_is(head, "SET") && !rl_statement_is(&rest, "STATEMENT") &&
           !mentions_any(head, beyond);
}

/* True only if it holds at all places where the statement may begin. */
bool rl_is_of_session(const rl_statement *statement)
{
    rl_statement head;
    bool all = true;
    const char *at = NULL;
    while (all && rl_statement_head(statement, &at, &head))
        all = head_is_of_session(&head);
    return all && at;
}

/* It sets a variable: after INTO, or as an argument of a procedure. */
static bool fills_variable(const rl_statement *statement)
{
    const char *end = statement->text + statement->length;
    for (const char *at = statement->text; end - at > 4; at++) {
        if (strncasecmp(at, "INTO", 4) != 0)
            continue;
        const char *to = at + 4;
        while (to < end && isspace((unsigned char)*to))
            to++;
        if (to < end && to > at + 4 && *to == '@')
            return true;
    }
    return rl_commits_in_parts(statement) && rl_statement_mentions(statement, "@");
}

/* At that place. */
static bool head_leaves_something(const rl_statement *head)
{
    return rl_statement_is_one_of(head, "LOCK BACKUP PREPARE HANDLER GET") ||
           (rl_statement_is(head, "SET") && rl_statement_mentions(head, "("));
}

bool rl_leaves_something(const rl_statement *statement)
{
    /* Words, not run. */
    static const char *const ways[] = {"TEMPORARY", ":=", "WITH READ LOCK", "GET_LOCK", NULL};
    rl_statement head;
    for (const char *at = NULL; rl_statement_head(statement, &at, &head);)
        if (head_leaves_something(&head))
            return true;
    return fills_variable(statement) || mentions_any(statement, ways);
}

static bool gets_diagnostics(const rl_statement *head)
{
    return rl_statement_is(head, "GET");
}

bool rl_reads_result(const rl_statement *statement)
{
    static const char *const ways[] = {"ROW_COUNT",
                                       "FOUND_ROWS",
                                       "@@WARNING_COUNT",
                                       "@@SESSION.WARNING_COUNT",
                                       "@@ERROR_COUNT",
                                       "@@SESSION.ERROR_COUNT",
                                       NULL};
    return may_be(statement, gets_diagnostics) || mentions_any(statement, ways);
}

/* MariaDB's sequences have a last number, too. */
bool rl_reads_number(const rl_statement *statement)
{
    static const char *const ways[] = {"LAST_INSERT_ID", "@@IDENTITY",     "@@SESSION.IDENTITY",
                                       "LASTVAL",        "PREVIOUS VALUE", NULL};
    return mentions_any(statement, ways);
}

bool rl_may_make_number(const rl_statement *statement)
{
    return !rl_ends_transaction(statement) || rl_commits_in_parts(statement);
}
