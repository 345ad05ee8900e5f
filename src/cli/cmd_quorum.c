/* cli/cmd_quorum.c - quorum init, status, rejoin, replace: the servers that vote on locks. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rowlock/rowlock_admin.h"
#include "rowlock/rowlock_quorum.h"
#include "table.h"

enum { ONLY_MOST_VOTE = 1 }; /* exit status: a majority votes, but not all members */

typedef struct quorum_call {
    cli_context context;
    const struct action *action;
    rowlock_quorum_options how;
    size_t member;
} quorum_call;

static rowlock_cancel *cancel; /* fired by the first SIGINT or SIGTERM; ends with the process */

static void on_end(int signo)
{
    (void)signo;
    rowlock_cancel_fire(cancel);
}

static rowlock_status cancel_by_signal(quorum_call *call, rowlock_error *err)
{
    rowlock_status status = rowlock_cancel_new(&cancel, err);
    if (status != ROWLOCK_OK)
        return status;
    call->how.cancel = cancel;
    cli_catch_end(on_end);
    return ROWLOCK_OK;
}

static rowlock_status look(const quorum_call *call, rowlock_quorum **out, rowlock_error *err)
{
    return rowlock_quorum_get(&call->context.client, &call->how, out, err);
}

/* ------------------------------------------------------------------ status */

static const cli_named states[] = {
    [ROWLOCK_MEMBER_AWAY] = {"away", CLI_RED},
    [ROWLOCK_MEMBER_NONE] = {"none", CLI_RED},
    [ROWLOCK_MEMBER_STRANGE] = {"strange", CLI_RED},
    [ROWLOCK_MEMBER_OTHER] = {"other", CLI_RED},
    [ROWLOCK_MEMBER_CLOSED] = {"closed", CLI_RED},
    [ROWLOCK_MEMBER_ABSTAINING] = {"abstaining", CLI_YELLOW},
    [ROWLOCK_MEMBER_VOTING] = {"voting", CLI_GREEN},
};

/* What the state means, and what to do about it. */
static const char *const meanings[] = {
    [ROWLOCK_MEMBER_AWAY] = "",
    [ROWLOCK_MEMBER_NONE] =
        "it has no list of members: quorum init, or quorum rejoin if it had one",
    [ROWLOCK_MEMBER_STRANGE] = "its list was written on another server: quorum rejoin",
    [ROWLOCK_MEMBER_OTHER] = "it has another list of members: quorum replace",
    [ROWLOCK_MEMBER_CLOSED] = "its list is being replaced: quorum replace goes on",
    [ROWLOCK_MEMBER_ABSTAINING] =
        "it may have forgotten leases: it votes again when these have expired",
    [ROWLOCK_MEMBER_VOTING] = "",
};

typedef struct placed {
    rowlock_member m;
    unsigned place;
} placed;

static const rowlock_member *member_of(const void *row)
{
    return &((const placed *)row)->m;
}

static const char *state_in_table(const void *row, char *text)
{
    const rowlock_member *m = member_of(row);
    char left[CLI_HUMANE];
    if (m->state != ROWLOCK_MEMBER_ABSTAINING)
        return states[m->state].word;
    snprintf(text, CELL_TEXT_MAX, "%s for %s", states[m->state].word,
             cli_humane(m->left_ms, left, sizeof left));
    return text;
}

/* The number if the member has a list, else "". */
static const char *number_of(const rowlock_member *m, uint64_t number, char *text)
{
    if (*m->list)
        snprintf(text, CELL_TEXT_MAX, "%" PRIu64, number);
    return text;
}

static const char *list_number_of(const void *row, char *text)
{
    return number_of(member_of(row), member_of(row)->list_number, text);
}

static const char *list_count_of(const void *row, char *text)
{
    return number_of(member_of(row), member_of(row)->list_count, text);
}

static const char *ttl_most_of(const void *row, char *text)
{
    return number_of(member_of(row), (uint64_t)member_of(row)->ttl_most_ms, text);
}

static const char *version_of(const void *row, char *text)
{
    return number_of(member_of(row), member_of(row)->version, text);
}

static const char *durable_of(const void *row, char *text)
{
    const rowlock_member *m = member_of(row);
    (void)text;
    return m->status != ROWLOCK_OK ? "" : m->durable ? "true" : "false";
}

static const char *durable_in_table(const void *row, char *text)
{
    const rowlock_member *m = member_of(row);
    (void)text;
    return m->status != ROWLOCK_OK ? "" : m->durable ? "yes" : "no";
}

static const char *status_of(const void *row, char *text)
{
    (void)text;
    return rowlock_status_name(member_of(row)->status);
}

static const char *message_of(const void *row, char *text)
{
    const rowlock_member *m = member_of(row);
    (void)text;
    return *m->message ? m->message : meanings[m->state];
}

static const cli_column columns[] = {
    {"place", CELL_UNSIGNED, CELL_AT(placed, place), .title = "MEMBER", .place = 1},
    {"where", CELL_TEXT, CELL_AT(placed, m.where), .title = "WHERE", .place = 2, .cut = 1},
    {"state", CELL_NAMED, CELL_AT(placed, m.state), .names = states, .text = state_in_table,
     .title = "STATE", .place = 3},
    {"left_ms", CELL_MS, CELL_AT(placed, m.left_ms)},
    {"server", CELL_TEXT, CELL_AT(placed, m.server)},
    {"list", CELL_TEXT, CELL_AT(placed, m.list)},
    {"list_number", CELL_LITERAL, .text = list_number_of, .title = "LIST", .place = 4},
    {"list_count", CELL_LITERAL, .text = list_count_of},
    {"ttl_most_ms", CELL_LITERAL, .text = ttl_most_of},
    {"version", CELL_LITERAL, .text = version_of, .title = "HIGHEST TOKEN", .place = 5},
    {"durable", CELL_LITERAL, .text = durable_of},
    {NULL, CELL_TEXT, .text = durable_in_table, .title = "DURABLE", .place = 6},
    {"status", CELL_TEXT, .text = status_of},
    {"message", CELL_TEXT, .text = message_of, .title = "WHAT TO DO", .place = 7, .cut = 2},
    {0},
};

static void print_people(const rowlock_quorum *quorum)
{
    cli_rows rows = cli_rows_begin(columns, false);
    const size_t count = rowlock_quorum_count(quorum);
    for (size_t i = 0; i < count; i++)
        cli_rows_add(&rows, &(placed){*rowlock_quorum_at(quorum, i), (unsigned)i + 1});
    cli_rows_end(&rows, NULL);
    printf("%zu of %zu members vote; a lock takes %zu\n", rowlock_quorum_voting(quorum), count,
           rowlock_quorum_needed(quorum));
}

static void print_json(const rowlock_quorum *quorum)
{
    json_object *whole = cli_json_new();
    const size_t count = rowlock_quorum_count(quorum);
    cli_json_count(whole, "count", count);
    cli_json_count(whole, "needed", rowlock_quorum_needed(quorum));
    cli_json_count(whole, "voting", rowlock_quorum_voting(quorum));
    json_object *members = cli_json_array(whole, "members");
    for (size_t i = 0; i < count; i++) {
        const placed row = {*rowlock_quorum_at(quorum, i), (unsigned)i + 1};
        cli_json_append(members, cli_row_json(columns, &row));
    }
    cli_json_print(whole);
}

static int verdict(const rowlock_quorum *quorum)
{
    const size_t voting = rowlock_quorum_voting(quorum);
    if (voting < rowlock_quorum_needed(quorum))
        return rowlock_status_exit(ROWLOCK_UNAVAILABLE);
    return voting < rowlock_quorum_count(quorum) ? ONLY_MOST_VOTE : 0;
}

static int status(quorum_call *call)
{
    rowlock_quorum *quorum;
    rowlock_error err;
    if (look(call, &quorum, &err) != ROWLOCK_OK)
        return cli_fail(&err);
    if (call->context.json)
        print_json(quorum);
    else
        print_people(quorum);
    const int exit_status = verdict(quorum);
    rowlock_quorum_free(quorum);
    return exit_status;
}

/* ----------------------------------------------------------- init, rejoin, replace */

/* Makes the schema of a member that has none, or an older one. */
static rowlock_status make_schema(const quorum_call *call, size_t i, const char *where,
                                  rowlock_error *err)
{
    const rowlock_client_options options = cli_member_options(&call->context, i);
    rowlock_migrate_result result;
    rowlock_status made = rowlock_migrate(&options, NULL, &result, err);
    if (made == ROWLOCK_OK && !call->context.json)
        cli_line("%s: schema at version %u", where, result.to);
    return made;
}

static rowlock_status make_schemas(const quorum_call *call, rowlock_error *err)
{
    rowlock_quorum *quorum;
    rowlock_status done = look(call, &quorum, err);
    if (done != ROWLOCK_OK)
        return done;
    for (size_t i = 0; i < rowlock_quorum_count(quorum) && done == ROWLOCK_OK; i++) {
        const rowlock_member *m = rowlock_quorum_at(quorum, i);
        if (m->status == ROWLOCK_SCHEMA)
            done = make_schema(call, i, m->where, err);
    }
    rowlock_quorum_free(quorum);
    return done;
}

static rowlock_status init(const quorum_call *call, rowlock_error *err)
{
    return rowlock_quorum_init(&call->context.client, &call->how, err);
}

static rowlock_status rejoin(const quorum_call *call, rowlock_error *err)
{
    return rowlock_quorum_rejoin(&call->context.client, call->member, &call->how, err);
}

static rowlock_status replace(const quorum_call *call, rowlock_error *err)
{
    return rowlock_quorum_replace(&call->context.client, &call->how, err);
}

typedef struct action {
    const char *verb;
    rowlock_status (*work)(const quorum_call *call,
                           rowlock_error *err); /* NULL: the verb changes nothing */
    bool takes_member;
} action;

static const action actions[] = {
    {"init", init, false},
    {"status", NULL, false},
    {"rejoin", rejoin, true},
    {"replace", replace, false},
};

/* Makes the change, then shows the state of the members. A signal ends init and rejoin at once,
 * since they may stop after any step; it cancels a replace, whose message says how far it came. */
static int change(quorum_call *call)
{
    rowlock_error err;
    rowlock_status done = call->action->work == replace ? cancel_by_signal(call, &err) : ROWLOCK_OK;
    if (done == ROWLOCK_OK)
        done = make_schemas(call, &err);
    if (done == ROWLOCK_OK)
        done = call->action->work(call, &err);
    const int exit_status = done == ROWLOCK_OK ? 0 : cli_fail(&err);
    if (exit_status == 0)
        status(call);
    return exit_status;
}

static int quorum(void *into)
{
    quorum_call *call = into;
    if (call->context.client.member_count == 0)
        return cli_usage("'quorum' needs several servers: --url once for each, or ROWLOCK_URLS");
    return call->action->work ? change(call) : status(call);
}

static const action *find_action(const char *verb)
{
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].verb, verb) == 0)
            return &actions[i];
    return NULL;
}

static bool take_member(quorum_call *call, const char *text)
{
    uint64_t place;
    if (!cli_number(text, 1, ROWLOCK_MEMBERS_MAX, &place))
        return !cli_usage("a member is named by its place, 1 to %d, not '%s'", ROWLOCK_MEMBERS_MAX,
                          text);
    call->member = (size_t)place - 1;
    return true;
}

static bool check(void *into)
{
    quorum_call *call = into;
    char **operands = call->context.operands;
    const bool has_member = call->context.operand_count > 1;
    call->member = ROWLOCK_ALL_MEMBERS;
    call->action = find_action(operands[0]);
    if (!call->action)
        return !cli_usage("there is no 'quorum %s'; there are init, status, rejoin and replace",
                          operands[0]);
    if (has_member && !call->action->takes_member)
        return !cli_usage("unexpected argument '%s' after %s", operands[1], operands[0]);
    if (call->how.ttl_most_ms && call->action->work != init)
        return !cli_usage("--ttl-most is an option of 'quorum init'");
    return !has_member || take_member(call, operands[1]);
}

static const cli_option options[] = {
    {0, "ttl-most", CLI_DURATION, CLI_AT(quorum_call, how.ttl_most_ms), .least = ROWLOCK_TTL_MIN_MS,
     .most = ROWLOCK_QUORUM_TTL_MAX_MS, .wants = "is from 500ms to 5m"},
    {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
    {0},
};

const cli_command cli_quorum = {
    .help = cli_help_quorum,
    .options = options,
    .into = CLI_INTO(quorum_call),
    .of_quorums = true,
    .least = 1,
    .most = 2,
    .operands = "init, status, rejoin or replace",
    .check = check,
    .run = quorum,
};
