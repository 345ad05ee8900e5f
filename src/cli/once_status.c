/* cli/once_status.c - once status: which periods were done, by whom. See once.h. */
#include <stdio.h>
#include <string.h>

#include "once.h"
#include "period.h"
#include "table.h"

enum { PAGE = 1000 };

static const cli_named states[] = {
    [ROWLOCK_ONCE_RUN_RUNNING] = {"running", CLI_YELLOW},
    [ROWLOCK_ONCE_RUN_DONE] = {"done", CLI_GREEN},
    [ROWLOCK_ONCE_RUN_FAILED] = {"failed", CLI_RED},
    [ROWLOCK_ONCE_RUN_DIED] = {"died", CLI_RED},
};

/* "2026-11-23 02:00:00", as the library writes times. */
static const char *moment(int64_t us, char *text)
{
    char iso[PERIOD_TEXT];
    period_text(us, iso);
    snprintf(text, CELL_TEXT_MAX, "%.10s %.8s", iso, iso + 11);
    return text;
}

static const char *start_of(const void *row, char *text)
{
    return moment(((const rowlock_once_run *)row)->start_us, text);
}

static const char *end_of(const void *row, char *text)
{
    return moment(((const rowlock_once_run *)row)->end_us, text);
}

/* "2026-11-23 02:00 1d00h" */
static const char *period_cell(const void *row, char *text)
{
    const rowlock_once_run *run = row;
    char iso[PERIOD_TEXT];
    char humane[CLI_HUMANE];
    period_text(run->start_us, iso);
    snprintf(text, CELL_TEXT_MAX, "%.10s %.5s %s", iso, iso + 11,
             cli_humane((run->end_us - run->start_us) / 1000, humane, sizeof humane));
    return text;
}

static const char *exit_of(const void *row, char *text)
{
    const rowlock_once_run *run = row;
    if (run->has_exit_status)
        snprintf(text, CELL_TEXT_MAX, "%d", run->exit_status);
    return text;
}

#define AT(member) CELL_AT(rowlock_once_run, member)
static const cli_column columns[] = {
    {"name", CELL_TEXT, AT(name), .title = "NAME", .place = 1, .cut = 1},
    {NULL, CELL_TEXT, .text = period_cell, .title = "PERIOD", .place = 2},
    {"period_start", CELL_TIME, .text = start_of},
    {"period_end", CELL_TIME, .text = end_of},
    {"state", CELL_NAMED, AT(state), .names = states, .title = "STATE", .place = 3},
    {"attempts", CELL_UNSIGNED, AT(attempts), .title = "ATTEMPTS", .place = 4},
    {"token", CELL_COUNT, AT(token)},
    {"owner_label", CELL_TEXT, AT(owner_label), .title = "BY", .place = 5, .cut = 2},
    {"started_at", CELL_TIME, AT(started_at), .title = "STARTED", .place = 6},
    {"ended_at", CELL_TIME, AT(ended_at)},
    {"took_ms", CELL_MS, AT(took_ms), .title = "TOOK", .place = 7},
    {"exit_status", CELL_LITERAL, .text = exit_of, .title = "EXIT", .place = 8},
    {0},
};
#undef AT

/* Reads page after page. A page is freed after the next one was read, since that begins behind its
 * last name. */
static rowlock_status print_all(cli_rows *rows, rowlock_client *client, rowlock_error *err)
{
    rowlock_once_get_options options = {.limit = PAGE};
    rowlock_once_runs *before = NULL;
    rowlock_once_runs *page = NULL;
    rowlock_status status = ROWLOCK_OK;
    for (size_t count = PAGE; count == PAGE && status == ROWLOCK_OK;) {
        status = rowlock_once_get(client, &options, &page, err);
        rowlock_once_free(before);
        before = NULL;
        if (status != ROWLOCK_OK)
            break;
        count = rowlock_once_count(page);
        for (size_t i = 0; i < count; i++)
            cli_rows_add(rows, rowlock_once_at(page, i));
        options.after = count > 0 ? rowlock_once_at(page, count - 1)->name : NULL;
        before = page;
    }
    rowlock_once_free(before);
    return status;
}

static rowlock_status print_periods(cli_rows *rows, rowlock_client *client, const char *name,
                                    rowlock_error *err)
{
    const rowlock_once_get_options options = {.name = name};
    rowlock_once_runs *runs = NULL;
    rowlock_status status = rowlock_once_get(client, &options, &runs, err);
    for (size_t i = 0; i < rowlock_once_count(runs); i++)
        cli_rows_add(rows, rowlock_once_at(runs, i));
    rowlock_once_free(runs);
    return status;
}

int once_status(const cli_context *context, const char *name)
{
    rowlock_error err;
    int exit_status;
    rowlock_client *client = cli_open(context, &exit_status);
    if (!client)
        return exit_status;
    cli_rows rows = cli_rows_begin(columns, context->json);
    rowlock_status status =
        name ? print_periods(&rows, client, name, &err) : print_all(&rows, client, &err);
    rowlock_client_close(client);
    if (status != ROWLOCK_OK)
        return cli_fail(&err);
    const bool unknown = name && rows.count == 0;
    cli_rows_end(&rows, unknown ? NULL : "the ledger has no periods yet");
    if (unknown)
        cli_say("the ledger has no period of '%s'", name);
    return unknown ? rowlock_status_exit(ROWLOCK_NOT_FOUND) : 0;
}

void once_print_last(const rowlock_once_runs *runs)
{
    const rowlock_once_run *run = rowlock_once_at(runs, 0);
    char last[CELL_TEXT_MAX];
    char next[CELL_TEXT_MAX];
    if (!run)
        return;
    cli_line("%-12s %s, %s, attempt %u", "last period", period_cell(run, last),
             states[run->state].word, run->attempts);
    if (run->end_us > rowlock_once_now_us(runs))
        cli_line("%-12s from %s UTC", "next period", moment(run->end_us, next));
    else
        cli_line("%-12s may begin: the last one ended %s UTC", "next period",
                 moment(run->end_us, next));
}
