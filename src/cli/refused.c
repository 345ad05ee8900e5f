/* cli/refused.c - after the server refused something: all that the command takes. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Not the login, nor what no GRANT gives. */
static bool lacked_a_right(const rowlock_error *refusal)
{
    /* On a schema, a table, a column, a procedure. */
    static const unsigned numbers[] = {1044, 1142, 1143, 1370};
    if (refusal->status != ROWLOCK_DENIED)
        return false;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (refusal->server_errno == numbers[i])
            return true;
    return false;
}

/* Each whole line in one write. */
static void print_lines(const char *text)
{
    for (size_t size; *text; text += size + (text[size] == '\n')) {
        size = strcspn(text, "\n");
        char *line = cli_need(strndup(text, size));
        char *printable = cli_need(cli_printable(line));
        dprintf(STDERR_FILENO, "%s\n", printable);
        free(printable);
        free(line);
    }
}

static void take_finding(void *data, const rowlock_finding *finding)
{
    const char *command = data;
    if (strcmp(finding->check, "privileges") != 0 || finding->level != ROWLOCK_BROKEN ||
        !*finding->remedy || strstr(cli_failure()->message, finding->remedy))
        return;
    cli_say("all that 'rowlock %s' lacks, for an administrator to run:", command);
    print_lines(finding->remedy);
}

/* Then the role is the one that such users have. */
static bool works_through_procedures(const rowlock_client_options *client)
{
    return client->via == ROWLOCK_VIA_PROCEDURES ||
           (client->url && strstr(client->url, "via=procedures"));
}

static void explain(const rowlock_client_options *client, const char *role, const char *command)
{
    const rowlock_diagnose_options how = {.role = role, .rights_only = true};
    rowlock_error ignored;
    char name[32];
    snprintf(name, sizeof name, "%s", command);
    /* Where it cannot look, what was told of has to do. */
    if (rowlock_diagnose_with(client, &how, take_finding, name, &ignored) != ROWLOCK_OK)
        return;
}

void cli_refused_explain(const char *command, const char *roles)
{
    const rowlock_client_options *client = cli_reached();
    char one[64];
    char *save = NULL;
    if (!roles || !client || !lacked_a_right(cli_failure()))
        return;
    if (works_through_procedures(client)) {
        explain(client, NULL, command);
        return;
    }
    snprintf(one, sizeof one, "%s", roles);
    for (char *role = strtok_r(one, " ", &save); role; role = strtok_r(NULL, " ", &save))
        explain(client, role, command);
}
