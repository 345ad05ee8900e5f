/* cli/cmd_doctor.c - doctor: what is fine here, and what follows from what is not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "cli.h"
#include "json.h"
#include "say.h"
#include "table.h"
#include "text.h"

enum {
    INDENT = 22 /* where the text starts: "BROKEN  wait_timeout  ..." */
};

static const char help[] =
    "Usage: rowlock doctor [--role=ROLE] [--ttl=D] [--json]\n"
    "Looks at the server, the schema and this user, changes nothing, and says for each check:\n"
    "fine, or what follows and what to do.\n"
    "\n"
    "      --role=ROLE  what the user is for, as in 'rowlock help grants'; batch (takes locks)\n"
    "                   where not given\n"
    "      --ttl=D      the TTL that is to be used; 30s where not given\n"
    "      --json       an array of objects\n"
    "\n"
    "'privileges' prints the GRANT statements for all rights of the role that are missing.\n"
    "Levels: fine; note: for information; care: works, with care; BROKEN: will not work, or\n"
    "not safely.\n"
    "Exit status: 0 nothing is broken, 1 something is, others: it could not look.\n"
    "The connection options of 'rowlock --help' may stand here too.\n";

typedef struct diagnosis {
    bool json;
    bool broken;
    size_t count;
    size_t width; /* of the terminal; 0: no wrapping */
} diagnosis;

static const char *level_word(rowlock_level level)
{
    switch (level) {
    case ROWLOCK_FINE:
        return "fine";
    case ROWLOCK_NOTE:
        return "note";
    case ROWLOCK_CARE:
        return "care";
    case ROWLOCK_BROKEN:
        return "BROKEN";
    }
    return "?";
}

static cli_colour level_colour(rowlock_level level)
{
    switch (level) {
    case ROWLOCK_FINE:
        return CLI_GREEN;
    case ROWLOCK_NOTE:
        return CLI_PLAIN;
    case ROWLOCK_CARE:
        return CLI_YELLOW;
    case ROWLOCK_BROKEN:
        return CLI_RED;
    }
    return CLI_PLAIN;
}

/* Text in the columns right of INDENT, broken between words where a terminal ends. */
static void print_wrapped(const char *text, size_t width)
{
    char *printable = cli_need(cli_printable(text));
    char *save = NULL;
    size_t column = INDENT;
    for (char *word = strtok_r(printable, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        size_t columns = cli_width(word);
        bool first = column == INDENT;
        if (!first && width > 0 && column + 1 + columns > width) {
            printf("\n%*s", INDENT, "");
            column = INDENT;
            first = true;
        }
        printf("%s%s", first ? "" : " ", word);
        column += columns + !first;
    }
    putchar('\n');
    free(printable);
}

static void print_part(const char *label, const char *text, size_t width)
{
    if (!*text)
        return;
    printf("%*s", INDENT, label);
    print_wrapped(text, width);
}

/* Statements, each on a line, as they are to be copied. */
static void print_lines(const char *text)
{
    for (const char *line = text; *line;) {
        const size_t size = strcspn(line, "\n");
        char *one = cli_need(strndup(line, size));
        char *printable = cli_need(cli_printable(one));
        printf("%s\n", printable);
        free(printable);
        free(one);
        line += size + (line[size] == '\n');
    }
}

static void print_remedy(const rowlock_finding *finding, size_t width)
{
    if (strcmp(finding->check, "privileges") != 0 || finding->level != ROWLOCK_BROKEN) {
        print_part("to do:  ", finding->remedy, width);
        return;
    }
    print_part("to do:  ", "let an administrator run", width);
    print_lines(finding->remedy);
}

static void print_finding(const rowlock_finding *finding, size_t width)
{
    const char *word = level_word(finding->level);
    cli_print_coloured(word, level_colour(finding->level));
    printf("%*s%-13s ", 8 - (int)strlen(word), "", finding->check);
    print_wrapped(finding->found, width);
    print_part("so:  ", finding->follows, width);
    print_remedy(finding, width);
}

static void add_session(json_object *array, const rowlock_finding_session *session)
{
    json_object *object = cli_json_new();
    cli_json_text(object, "role", session->role);
    cli_json_count(object, "connection_id", session->connection_id);
    cli_json_text(object, "user", session->user);
    cli_json_text(object, "host", session->host);
    cli_json_text(object, "command", session->command);
    cli_json_text(object, "state", session->state);
    cli_json_int(object, "age_ms", true, session->age_ms);
    cli_json_int(object, "transaction_ms", session->transaction_ms >= 0, session->transaction_ms);
    cli_json_text(object, "object", session->object);
    cli_json_text(object, "lock", session->lock);
    cli_json_text(object, "query", session->query);
    cli_json_append(array, object);
}

static void add_json(const rowlock_finding *finding, size_t index)
{
    json_object *object = cli_json_new();
    cli_json_text(object, "check", finding->check);
    cli_json_text(object, "level", level_word(finding->level));
    cli_json_text(object, "found", finding->found);
    cli_json_text(object, "follows", finding->follows);
    cli_json_text(object, "remedy", finding->remedy);
    json_object *sessions = cli_json_array(object, "sessions");
    for (size_t i = 0; i < finding->session_count; i++)
        add_session(sessions, &finding->sessions[i]);
    cli_json_item(object, index);
}

static void take_finding(void *data, const rowlock_finding *finding)
{
    diagnosis *all = data;
    all->broken = all->broken || finding->level == ROWLOCK_BROKEN;
    if (all->json)
        add_json(finding, all->count);
    else
        print_finding(finding, all->width);
    all->count++;
}

typedef struct doctor {
    cli_context context;
    rowlock_diagnose_options how;
} doctor;

static int diagnose(void *into)
{
    doctor *self = into;
    diagnosis all = {.json = self->context.json, .width = cli_terminal_width()};
    rowlock_error err;
    if (!cli_password(&self->context))
        return CLI_EXIT_USAGE;
    rowlock_status status =
        rowlock_diagnose_with(&self->context.client, &self->how, take_finding, &all, &err);
    /* What was found before it could no longer look is worth having too. */
    if (all.json && (status == ROWLOCK_OK || all.count > 0))
        cli_json_end(all.count);
    if (status != ROWLOCK_OK)
        return cli_fail(&err);
    return all.broken ? 1 : 0;
}

static doctor doctor_now;

const cli_command cli_doctor = {
    .help = help,
    .options =
        (const cli_option[]){
            {0, "role", CLI_TEXT, CLI_AT(doctor, how.role)},
            {0, "ttl", CLI_DURATION, CLI_AT(doctor, how.ttl_ms), .least = ROWLOCK_TTL_MIN_MS,
             .most = ROWLOCK_TTL_MAX_MS, .wants = "wants a duration from 500ms to 24h"},
            {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
            {0},
        },
    .into = &doctor_now,
    .run = diagnose,
};
