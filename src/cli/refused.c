/* cli/refused.c - after a refusal by the server: prints all rights that the command lacks. */
#include "cli.h"
#include "rowlock/rowlock_admin.h"

#include <stdio.h>
#include <string.h>

/* True for a missing right that a GRANT gives: not for a refused login. */
static bool lacked_a_right(const rowlock_error *refusal)
{
    const unsigned number = refusal->server_errno;
    /* On a schema, a table, a column, a procedure. */
    return refusal->status == ROWLOCK_DENIED &&
           (number == 1044 || number == 1142 || number == 1143 || number == 1370);
}

static void take_finding(void *data, const rowlock_finding *finding)
{
    const char *const *command = data;
    if (strcmp(finding->check, "privileges") != 0 || finding->level != ROWLOCK_BROKEN ||
        !*finding->remedy || strstr(cli_failure()->message, finding->remedy))
        return;
    cli_say("all that 'rowlock %s' lacks, for an administrator to run:", *command);
    if (cli_says_json())
        cli_say("%s", finding->remedy);
    else
        cli_lines(stderr, finding->remedy);
}

/* The message itself says what is to be granted, or that there may be no such schema: a list of
 * rights would be about what may be a typing error. */
static bool says_all(const rowlock_error *refusal, bool by_procedures)
{
    const bool hidden = refusal->server_errno == 1044 && strcmp(refusal->statement, "connect") == 0;
    return (hidden && !by_procedures) || strstr(refusal->message, " takes GRANT ");
}

/* Such a user needs the role of the procedures' users, whatever the command is. */
static bool works_through_procedures(const rowlock_client_options *client)
{
    return client->via == ROWLOCK_VIA_PROCEDURES ||
           (client->url && strstr(client->url, "via=procedures"));
}

static void explain(const rowlock_client_options *client, const char *role, const char *command)
{
    const rowlock_diagnose_options how = {.role = role, .rights_only = true};
    rowlock_error ignored;
    /* If it cannot look, the message of cli_fail() must do. */
    if (rowlock_diagnose_with(client, &how, take_finding, &command, &ignored) != ROWLOCK_OK)
        return;
}

void cli_refused_explain(const rowlock_client_options *client, const char *command,
                         const char *const *roles)
{
    const bool by_procedures = works_through_procedures(client);
    if (!*roles || !lacked_a_right(cli_failure()) || says_all(cli_failure(), by_procedures))
        return;
    /* A user with EXECUTE alone needs no further rights: the message says to use via=procedures. */
    if (strstr(cli_failure()->message, "use via=procedures"))
        return;
    if (by_procedures)
        explain(client, NULL, command);
    else
        for (; *roles; roles++)
            explain(client, *roles, command);
}
