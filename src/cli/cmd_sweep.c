/* cli/cmd_sweep.c - sweep: tidy up, once or for ever. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "rowlock/rowlock_admin.h"
#include "table.h"

typedef struct sweeping {
    cli_context context;
    rowlock_sweep_options options;
    int64_t every_ms; /* 0: once */
    rowlock_client *client;
    rowlock_status trouble; /* why the last sweep failed */
    int64_t trouble_since;  /* monotonic milliseconds */
} sweeping;

/* ------------------------------------------------------------- the report */

#define AT(member) CELL_AT(rowlock_sweep_result, member)
static const cli_column columns[] = {
    {"expired", CELL_COUNT, AT(expired)},
    {"events", CELL_COUNT, AT(events)},
    {"purged", CELL_COUNT, AT(purged)},
    {"dead_items", CELL_COUNT, AT(dead_items)},
    {0},
};

/* With --every, a sweep that found nothing to do is not reported. */
static void report(const sweeping *sweep, const rowlock_sweep_result *result)
{
    bool idle = result->expired == 0 && result->events == 0 && result->purged == 0 &&
                result->dead_items == 0;
    char dead[48] = "\n";
    if (sweep->options.dead_items_ms > 0)
        snprintf(dead, sizeof dead, ", dead items deleted: %" PRIu64 "\n", result->dead_items);
    if (sweep->context.json)
        cli_json_print(cli_row_json(columns, result));
    else if (sweep->every_ms == 0 || !idle || sweep->context.verbose > 0)
        printf("expired locks freed: %" PRIu64 ", events forgotten: %" PRIu64
               ", names purged: %" PRIu64 "%s",
               result->expired, result->events, result->purged, dead);
}

/* ---------------------------------------------------------------- one sweep */

static rowlock_status sweep_once(sweeping *sweep, rowlock_sweep_result *result, rowlock_error *err)
{
    if (!sweep->client) {
        rowlock_status status = rowlock_client_open(&sweep->context.client, &sweep->client, err);
        if (status != ROWLOCK_OK)
            return status;
    }
    return rowlock_sweep(sweep->client, &sweep->options, result, err);
}

/* The trouble may end by itself: READONLY may be a failover under way, SERVER a full disk. */
static bool may_pass(rowlock_status status)
{
    return status != ROWLOCK_DENIED && status != ROWLOCK_INVALID && status != ROWLOCK_MODE &&
           status != ROWLOCK_SCHEMA && status != ROWLOCK_DAMAGED && status != ROWLOCK_UNSUPPORTED &&
           status != ROWLOCK_NOT_FOUND && status != ROWLOCK_FORKED && status != ROWLOCK_REPAIR;
}

/* --------------------------------------------------------------- for ever */

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int end_event = -1; /* readable once the program is asked to end */

static void on_end(int signo)
{
    (void)signo;
    int error = errno;
    const uint64_t one = 1;
    cli_write(end_event, &one, sizeof one);
    errno = error;
}

/* False: asked to end. */
static bool pause_until(int64_t due)
{
    for (;;) {
        int64_t left = due - now_ms();
        int timeout = left < 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
        struct pollfd end = {.fd = end_event, .events = POLLIN};
        int ready = poll(&end, 1, timeout);
        if (ready > 0)
            return false;
        if (ready == 0 && left <= timeout)
            return true;
    }
}

/* Reports trouble once when it starts or changes and once when it is over, not at every attempt. */
static void tell_trouble(sweeping *sweep, const rowlock_error *err)
{
    char wait[CLI_HUMANE];
    if (sweep->trouble == err->status)
        return;
    if (sweep->trouble == ROWLOCK_OK)
        sweep->trouble_since = now_ms();
    sweep->trouble = err->status;
    cli_say("%s; trying again every %s", err->message,
            cli_humane(sweep->every_ms, wait, sizeof wait));
}

static void tell_its_end(sweeping *sweep)
{
    char humane[CLI_HUMANE];
    if (sweep->trouble == ROWLOCK_OK)
        return;
    cli_say("sweeping again after %s",
            cli_humane(now_ms() - sweep->trouble_since, humane, sizeof humane));
    sweep->trouble = ROWLOCK_OK;
}

/* The exit status, or -1 to go on. */
static int sweep_round(sweeping *sweep)
{
    rowlock_sweep_result result;
    rowlock_error err;
    rowlock_status status = sweep_once(sweep, &result, &err);
    if (status != ROWLOCK_OK && (sweep->every_ms == 0 || !may_pass(status)))
        return cli_fail(&err);
    if (status != ROWLOCK_OK) {
        tell_trouble(sweep, &err);
        return -1;
    }
    tell_its_end(sweep);
    report(sweep, &result);
    /* Ends when the reader has closed the pipe. */
    if (cli_flush(0) != 0)
        return CLI_EXIT_OUTPUT;
    return sweep->every_ms == 0 ? 0 : -1;
}

static int sweep_all(void *into)
{
    sweeping *sweep = into;
    if (sweep->every_ms > 0) {
        /* Connecting is not retried within a round: the next round tries again, and a signal can
         * end the pause before it. */
        sweep->context.client.retry_ms = -1;
        end_event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (end_event < 0) {
            cli_say("cannot watch for signals: %s", strerror(errno));
            return rowlock_status_exit(ROWLOCK_SYSTEM);
        }
        cli_catch_end(on_end); /* the first signal lets a running sweep finish */
    }
    int exit_status = sweep_round(sweep);
    int64_t due = now_ms();
    while (exit_status < 0) {
        /* If a round took longer than the interval, the missed rounds are left out. */
        due = due + sweep->every_ms > now_ms() ? due + sweep->every_ms : now_ms();
        exit_status = pause_until(due) ? sweep_round(sweep) : 0;
    }
    rowlock_client_close(sweep->client);
    return exit_status;
}

static const cli_option options[] = {
    {0, "history", CLI_GIVEN_DURATION, CLI_AT(sweeping, options.history_ms), .word = "forever"},
    {0, "history-rows", CLI_NUMBER, CLI_AT(sweeping, options.history_rows), .least = 1,
     .most = INT64_MAX},
    {0, "unused", CLI_GIVEN_DURATION, CLI_AT(sweeping, options.unused_ms), .word = "never"},
    {0, "dead-items", CLI_GIVEN_DURATION, CLI_AT(sweeping, options.dead_items_ms), .word = "never"},
    {0, "every", CLI_DURATION, CLI_AT(sweeping, every_ms), .least = 1,
     .wants = "wants a duration above 0"},
    {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
    {0},
};

const cli_command cli_sweep = {
    .help = cli_help_sweep,
    .options = options,
    .into = CLI_INTO(sweeping),
    .run = sweep_all,
};
