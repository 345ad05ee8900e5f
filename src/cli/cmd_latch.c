/* cli/cmd_latch.c - latch set, down, wait, show, join: wait until a number of programs have counted
 * down. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rowlock/rowlock_latch.h"
#include "run.h"
#include "table.h"

enum { WAIT_NOT_GIVEN = -2 }; /* -1: for ever */

typedef struct latching {
    run_options run; /* for `join`; all verbs use NAME, --key and --generation */
    const struct action *action;
    int64_t wait_ms;
    uint64_t count;
} latching;

/* -------------------------------------------------------------------- show */

static const cli_named states[] = {
    [ROWLOCK_LATCH_UNSET] = {"unset", CLI_PLAIN},
    [ROWLOCK_LATCH_ARMED] = {"closed", CLI_YELLOW},
    [ROWLOCK_LATCH_OPEN] = {"open", CLI_GREEN},
    [ROWLOCK_LATCH_BROKEN] = {"broken", CLI_RED},
};

typedef struct shown {
    const char *name;
    rowlock_latch_info info;
} shown;

static const char *broken_by(const void *row, char *text)
{
    (void)text;
    return ((const shown *)row)->info.broken_by;
}

#define AT(member) CELL_AT(shown, member)
static const cli_column columns[] = {
    {"name", CELL_TEXT, AT(name)},
    {"state", CELL_NAMED, AT(info.state), .names = states},
    {"generation", CELL_COUNT, AT(info.generation)},
    {"count", CELL_UNSIGNED, AT(info.count)},
    {"down", CELL_UNSIGNED, AT(info.down)},
    {"members", CELL_UNSIGNED, AT(info.members)},
    {"broken_by", CELL_TEXT, .text = broken_by},
    {0},
};
#undef AT

void cli_latch_print(const char *name, const rowlock_latch_info *info)
{
    cli_line("%-12s %s", "name", name);
    printf("%-12s ", "state");
    cli_print_coloured(states[info->state].word, states[info->state].colour);
    printf("\n%-12s latch\n", "mode");
    if (info->state == ROWLOCK_LATCH_UNSET)
        return;
    printf("%-12s %" PRIu64 "\n", "generation", info->generation);
    if (info->state == ROWLOCK_LATCH_BROKEN)
        cli_line("%-12s %s", "broken by", info->broken_by);
    else
        printf("%-12s %u of %u have counted\n", "counts", info->down, info->count);
    if (info->members > 0)
        printf("%-12s %u still to come\n", "members", info->members);
}

static rowlock_status show(const latching *l, rowlock_client *client, rowlock_error *err)
{
    shown latch = {.name = l->run.name};
    rowlock_status status = rowlock_latch_get(client, latch.name, &latch.info, err);
    if (status != ROWLOCK_OK)
        return status;
    if (l->run.context.json)
        cli_json_print(cli_row_json(columns, &latch));
    else
        cli_latch_print(latch.name, &latch.info);
    return ROWLOCK_OK;
}

/* --------------------------------------------------------- set, down, wait */

static void print_generation(const latching *l, uint64_t generation)
{
    json_object *object = cli_json_new();
    cli_json_text(object, "name", l->run.name);
    cli_json_count(object, "generation", generation);
    cli_json_print(object);
}

static rowlock_status set(const latching *l, rowlock_client *client, rowlock_error *err)
{
    uint64_t generation = 0;
    rowlock_status status =
        rowlock_latch_set(client, l->run.name, (unsigned)l->count, &generation, err);
    if (status != ROWLOCK_OK)
        return status;
    if (l->run.context.json)
        print_generation(l, generation);
    else
        printf("%" PRIu64 "\n", generation);
    return ROWLOCK_OK;
}

static rowlock_status count_down(const latching *l, rowlock_client *client, rowlock_error *err)
{
    return rowlock_latch_down(client, l->run.name, l->run.key, l->run.generation, err);
}

static rowlock_status await_open(const latching *l, rowlock_client *client, rowlock_error *err)
{
    const rowlock_latch_options options = {
        .wait_ms = l->wait_ms == WAIT_NOT_GIVEN ? ROWLOCK_WAIT_FOREVER : l->wait_ms,
        .generation = l->run.generation};
    uint64_t opened = 0;
    rowlock_status status = rowlock_latch_wait(client, l->run.name, &options, &opened, err);
    if (status == ROWLOCK_OK && l->run.context.json)
        print_generation(l, opened);
    return status;
}

/* -------------------------------------------------------------------- join */

static rowlock_status join(run *self, const rowlock_acquire_options *how)
{
    const rowlock_latch_join_options options = {.ttl_ms = how->ttl_ms,
                                                .generation = self->options.generation,
                                                .key = self->options.key,
                                                .on_lost = how->on_lost,
                                                .on_lost_data = how->on_lost_data};
    return rowlock_latch_join(self->client, self->name, &options, &self->hold, &self->err);
}

/* A member that leaves without having counted breaks the latch. */
static rowlock_status count_or_break(run *self, const rowlock_release_options *how)
{
    if (self->exit_status == 0)
        return rowlock_latch_done(self->hold, &self->err);
    return rowlock_release_with(self->hold, how, &self->err);
}

static const run_role member = {join, count_or_break};

/* ------------------------------------------------------------------- verbs */

typedef struct action {
    const char *word;
    /* NULL: join, which is a `rowlock run`. */
    rowlock_status (*work)(const latching *l, rowlock_client *client, rowlock_error *err);
    bool takes_key, takes_generation, takes_wait, takes_ttl, takes_json;
} action;

static const action actions[] = {
    {"set", set, .takes_json = true},
    {"down", count_down, .takes_key = true, .takes_generation = true},
    {"wait", await_open, .takes_generation = true, .takes_wait = true, .takes_json = true},
    {"show", show, .takes_json = true},
    {"join", NULL, .takes_key = true, .takes_generation = true, .takes_ttl = true},
};

static bool find_action(latching *l)
{
    const char *word = l->run.context.operands[0];
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
        if (strcmp(actions[i].word, word) == 0)
            l->action = &actions[i];
    return l->action || !cli_usage("there is no 'latch %s'; set, down, wait, show or join", word);
}

static bool check_options(const latching *l)
{
    const action *a = l->action;
    const struct {
        const char *name;
        bool wrong;
    } given[] = {
        {"key", l->run.key && !a->takes_key},
        {"generation", l->run.generation > 0 && !a->takes_generation},
        {"wait", l->wait_ms != WAIT_NOT_GIVEN && !a->takes_wait},
        {"ttl", l->run.acquire.ttl_ms > 0 && !a->takes_ttl},
        {"json", l->run.context.json && !a->takes_json},
    };
    for (size_t i = 0; i < sizeof given / sizeof given[0]; i++)
        if (given[i].wrong)
            return !cli_usage("latch %s takes no --%s", a->word, given[i].name);
    return true;
}

static bool take_command(latching *l)
{
    run_options *out = &l->run;
    if (out->acquire.ttl_ms == 0)
        out->acquire.ttl_ms = ROWLOCK_TTL_DEFAULT_MS;
    return run_take_command(out, &member, 2, "as a member of");
}

static bool take_operands(latching *l)
{
    const cli_context *context = &l->run.context;
    if (!cli_operands(context, 2, INT_MAX, "the latch's NAME"))
        return false;
    l->run.name = context->operands[1];
    if (!l->action->work)
        return take_command(l);
    if (l->action->work != set)
        return cli_operands(context, 2, 2, "the latch's NAME");
    if (context->operand_count != 3)
        return !cli_usage("'latch set' needs NAME and N, the number of counts");
    return cli_number(context->operands[2], 1, ROWLOCK_LATCH_MAX, &l->count) ||
           !cli_usage("'%s' is not a number of counts, 1 to %d", context->operands[2],
                      ROWLOCK_LATCH_MAX);
}

static bool check(void *into)
{
    latching *l = into;
    return find_action(l) && check_options(l) && take_operands(l);
}

static int run_action(void *into)
{
    latching *l = into;
    rowlock_error err;
    int exit_status;
    if (!l->action->work)
        return run_options_run(&l->run);
    rowlock_client *client = cli_open(&l->run.context, &exit_status);
    if (!client)
        return exit_status;
    rowlock_status status = l->action->work(l, client, &err);
    rowlock_client_close(client);
    return status == ROWLOCK_OK ? 0 : cli_fail(&err);
}

#define AT(member) CLI_AT(latching, member)
static const cli_option options[] = {
    {0, "key", CLI_TEXT, AT(run.key)},
    {0, "generation", CLI_NUMBER, AT(run.generation), .least = 1, .most = UINT64_MAX},
    {'w', "wait", CLI_DURATION, AT(wait_ms), .word = "forever"},
    {'t', "ttl", CLI_DURATION, AT(run.acquire.ttl_ms), .least = ROWLOCK_TTL_MIN_MS,
     .most = ROWLOCK_TTL_MAX_MS, .wants = "is from 500ms to 24h"},
    {0, "json", CLI_FLAG, AT(run.context.json)},
    {0},
};

const cli_command cli_latch = {
    .help = cli_help_latch,
    .options = options,
    .into = &(latching){.run = {.not_got = 1, .kill_after_ms = RUN_KILL_AFTER_MS},
                        .wait_ms = WAIT_NOT_GIVEN},
    .least = 1,
    .most = INT_MAX,
    .operands = "set, down, wait, show or join",
    .check = check,
    .run = run_action,
};
