/* cli/cmd_leader.c - leader: the value that the leader of a name has published. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "rowlock/rowlock_leader.h"
#include "table.h"

typedef struct asked {
    cli_context context;
    int64_t wait_ms;
    bool watch;
} asked;

typedef struct seen {
    const char *name;
    rowlock_leader leader;
} seen;

static const char *leads_of(const void *row, char *text)
{
    (void)text;
    return ((const seen *)row)->leader.leads ? "true" : "false";
}

static const char *value_of(const void *row, char *text)
{
    (void)text;
    return ((const seen *)row)->leader.value;
}

static const char *label_of(const void *row, char *text)
{
    (void)text;
    return ((const seen *)row)->leader.owner_label;
}

#define AT(member) CELL_AT(seen, member)
static const cli_column columns[] = {
    {"name", CELL_TEXT, AT(name)},
    {"leads", CELL_LITERAL, .text = leads_of},
    {"value", CELL_TEXT, .text = value_of},
    {"token", CELL_COUNT, AT(leader.token)},
    {"owner_label", CELL_TEXT, .text = label_of},
    {"held_ms", CELL_MS, AT(leader.held_ms)},
    {"remaining_ms", CELL_MS, AT(leader.remaining_ms)},
    {0},
};

static void print(const asked *a, const seen *now)
{
    if (a->context.json)
        cli_json_print(cli_row_json(columns, now));
    else
        cli_line("%s", now->leader.value);
}

/* Cancels the watch when the reader closes its end of the pipe, which poll() tells without a
 * write. */
static void *await_last_reader(void *gone)
{
    struct pollfd out = {.fd = STDOUT_FILENO};
    while (poll(&out, 1, -1) < 0 && errno == EINTR)
        ;
    rowlock_cancel_fire(gone);
    return NULL;
}

/* Prints a line at each change. */
static rowlock_status print_changes(const asked *a, seen *now, rowlock_client *client,
                                    rowlock_cancel *gone, rowlock_error *err)
{
    const rowlock_observe_options change = {
        .wait_ms = ROWLOCK_WAIT_FOREVER, .after = &now->leader, .cancel = gone};
    rowlock_status status = rowlock_observe(client, now->name, NULL, &now->leader, err);
    while (status == ROWLOCK_OK || status == ROWLOCK_NOT_FOUND) {
        print(a, now);
        if (fflush(stdout) != 0)
            return ROWLOCK_OK;
        status = rowlock_observe(client, now->name, &change, &now->leader, err);
    }
    return status == ROWLOCK_CANCELLED ? ROWLOCK_OK : status;
}

/* Prints changes as long as somebody reads them. The thread and `gone` live until the process
 * ends. */
static rowlock_status watch(const asked *a, seen *now, rowlock_client *client, rowlock_error *err)
{
    static rowlock_cancel *gone; /* the thread uses it, too */
    pthread_t thread;
    rowlock_status status = rowlock_cancel_new(&gone, err);
    if (status == ROWLOCK_OK && pthread_create(&thread, NULL, await_last_reader, gone) == 0)
        pthread_detach(thread);
    return status == ROWLOCK_OK ? print_changes(a, now, client, gone, err) : status;
}

static rowlock_status leader(void *into, rowlock_client *client, rowlock_error *err)
{
    const asked *a = into;
    seen now = {.name = a->context.operands[0]};
    if (a->watch)
        return watch(a, &now, client, err);
    const rowlock_observe_options options = {.wait_ms = a->wait_ms};
    rowlock_status status = rowlock_observe(client, now.name, &options, &now.leader, err);
    if (status == ROWLOCK_OK && (now.leader.leads || a->context.json))
        print(a, &now);
    if (status != ROWLOCK_OK || now.leader.leads)
        return status;
    *err = (rowlock_error){.status = ROWLOCK_BUSY};
    snprintf(err->message, sizeof err->message, "nobody leads '%s'", now.name);
    return ROWLOCK_BUSY;
}

static bool check(void *into)
{
    const asked *a = into;
    return !a->watch || a->wait_ms == 0 || !cli_usage("--wait and --watch exclude each other");
}

#undef AT
#define AT(member) CLI_AT(asked, member)
static const cli_option options[] = {
    {'w', "wait", CLI_DURATION, AT(wait_ms), .word = "forever"},
    {0, "watch", CLI_FLAG, AT(watch)},
    {0, "json", CLI_FLAG, AT(context.json)},
    {0},
};

const cli_command cli_leader = {
    .help = cli_help_leader,
    .options = options,
    .into = CLI_INTO(asked),
    .least = 1,
    .most = 1,
    .operands = "the lock's NAME",
    .check = check,
    .work = leader,
};
