/* cli/cmd_doctor.c - doctor: prints what the library's checks have found, and how to repair it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rowlock/rowlock_admin.h"
#include "table.h"

enum {
    INDENT = 22 /* where the text starts: "BROKEN  wait_timeout  ..." */
};

/* The parts of a finding that are printed for people. */
typedef struct told {
    rowlock_level level;
    char *check, *found, *follows, *remedy;
} told;

typedef struct doctor {
    cli_context context;
    rowlock_diagnose_options how;
    bool broken;
    size_t count;
    told *all;
    size_t width; /* of the terminal; 0: no wrapping */
} doctor;

static const cli_named levels[] = {
    [ROWLOCK_FINE] = {"fine", CLI_GREEN},
    [ROWLOCK_NOTE] = {"note", CLI_PLAIN},
    [ROWLOCK_CARE] = {"care", CLI_YELLOW},
    [ROWLOCK_BROKEN] = {"BROKEN", CLI_RED},
};

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

static void print_remedy(const told *finding, size_t width)
{
    if (strcmp(finding->check, "privileges") != 0 || finding->level != ROWLOCK_BROKEN) {
        print_part("to do:  ", finding->remedy, width);
        return;
    }
    print_part("to do:  ", "let an administrator run", width);
    cli_lines(stdout, finding->remedy); /* statements, unwrapped so that they can be copied */
}

static void print_finding(const told *finding, size_t width)
{
    const char *word = levels[finding->level].word;
    cli_print_coloured(word, levels[finding->level].colour);
    printf("%*s%-13s ", 8 - (int)strlen(word), "", finding->check);
    print_wrapped(finding->found, width);
    print_part("so:  ", finding->follows, width);
    print_remedy(finding, width);
}

#define SESSION(member) CELL_AT(rowlock_finding_session, member)
static const cli_column session_columns[] = {
    {"role", CELL_TEXT, SESSION(role)},       {"connection_id", CELL_COUNT, SESSION(connection_id)},
    {"user", CELL_TEXT, SESSION(user)},       {"host", CELL_TEXT, SESSION(host)},
    {"command", CELL_TEXT, SESSION(command)}, {"state", CELL_TEXT, SESSION(state)},
    {"age_ms", CELL_MS, SESSION(age_ms)},     {"transaction_ms", CELL_MS, SESSION(transaction_ms)},
    {"object", CELL_TEXT, SESSION(object)},   {"lock", CELL_TEXT, SESSION(lock)},
    {"query", CELL_TEXT, SESSION(query)},     {0},
};

static void add_sessions(json_object *object, const char *key, const void *row)
{
    const rowlock_finding *finding = row;
    json_object *array = cli_json_array(object, key);
    for (size_t i = 0; i < finding->session_count; i++)
        cli_json_append(array, cli_row_json(session_columns, &finding->sessions[i]));
}

#define AT(member) CELL_AT(rowlock_finding, member)
static const cli_column columns[] = {
    {"check", CELL_TEXT, AT(check)},
    {"level", CELL_NAMED, AT(level), .names = levels},
    {"found", CELL_TEXT, AT(found)},
    {"follows", CELL_TEXT, AT(follows)},
    {"remedy", CELL_TEXT, AT(remedy)},
    {"sessions", CELL_JSON, .json = add_sessions},
    {0},
};

static void keep(doctor *self, const rowlock_finding *finding)
{
    self->all = cli_need(reallocarray(self->all, self->count + 1, sizeof *self->all));
    self->all[self->count] = (told){.level = finding->level,
                                    .check = cli_need(strdup(finding->check)),
                                    .found = cli_need(strdup(finding->found)),
                                    .follows = cli_need(strdup(finding->follows)),
                                    .remedy = cli_need(strdup(finding->remedy))};
}

static void take_finding(void *data, const rowlock_finding *finding)
{
    doctor *self = data;
    self->broken = self->broken || finding->level == ROWLOCK_BROKEN;
    if (self->context.json)
        cli_json_item(cli_row_json(columns, finding), self->count);
    else
        keep(self, finding);
    self->count++;
}

/* The worst level first; within a level in the order of the checks. */
static void print_all(const doctor *self)
{
    for (int level = ROWLOCK_BROKEN; level >= ROWLOCK_FINE; level--)
        for (size_t i = 0; i < self->count; i++)
            if (self->all[i].level == (rowlock_level)level)
                print_finding(&self->all[i], self->width);
}

/* "1 BROKEN (privileges), 2 care (clock, tls), 1 note, 12 fine". */
static void print_summary(const doctor *self)
{
    bool first = true;
    for (int level = ROWLOCK_BROKEN; level >= ROWLOCK_FINE; level--) {
        size_t count = 0;
        for (size_t i = 0; i < self->count; i++)
            count += self->all[i].level == (rowlock_level)level;
        if (count == 0)
            continue;
        printf("%s%zu ", first ? "" : ", ", count);
        cli_print_coloured(levels[level].word, levels[level].colour);
        const char *mark = " (";
        for (size_t i = 0; i < self->count && level >= ROWLOCK_CARE; i++) {
            if (self->all[i].level != (rowlock_level)level)
                continue;
            printf("%s%s", mark, self->all[i].check);
            mark = ", ";
        }
        fputs(level >= ROWLOCK_CARE ? ")" : "", stdout);
        first = false;
    }
    putchar('\n');
}

static void forget_all(doctor *self)
{
    for (size_t i = 0; self->all && i < self->count; i++) {
        free(self->all[i].check);
        free(self->all[i].found);
        free(self->all[i].follows);
        free(self->all[i].remedy);
    }
    free(self->all);
}

static int diagnose(void *into)
{
    doctor *self = into;
    rowlock_error err;
    self->width = cli_terminal_width(STDOUT_FILENO);
    rowlock_status status =
        rowlock_diagnose_with(&self->context.client, &self->how, take_finding, self, &err);
    /* If the checks were interrupted, prints what was found until then. */
    if (self->context.json && (status == ROWLOCK_OK || self->count > 0))
        cli_json_end(self->count);
    if (!self->context.json)
        print_all(self);
    if (!self->context.json && status == ROWLOCK_OK)
        print_summary(self);
    forget_all(self);
    if (status != ROWLOCK_OK)
        return cli_fail(&err);
    return self->broken ? 1 : 0;
}

static const cli_option options[] = {
    {0, "role", CLI_TEXT, CLI_AT(doctor, how.role)},
    {0, "ttl", CLI_DURATION, CLI_AT(doctor, how.ttl_ms), .least = ROWLOCK_TTL_MIN_MS,
     .most = ROWLOCK_TTL_MAX_MS, .wants = "wants a duration from 500ms to 24h"},
    {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
    {0},
};

const cli_command cli_doctor = {
    .help = cli_help_doctor,
    .of_quorums = true,
    .options = options,
    .into = CLI_INTO(doctor),
    .run = diagnose,
};
