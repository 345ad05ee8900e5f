/* cli/cmd_freeze.c - freeze: nobody gets these locks for a while; thaw: ends that. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "rowlock/rowlock_admin.h"
#include "table.h"

enum { HISTORY_WAIT_MS = 2000, OPERANDS_MOST = 1000 };

typedef struct freezing {
    cli_context context;
    rowlock_freeze_options how;
} freezing;

/* --------------------------------------------------------------------- list */

static const char *pattern_of(const void *row, char *text)
{
    const rowlock_frozen *frozen = row;
    snprintf(text, CELL_TEXT_MAX, "%s%s", frozen->text, frozen->is_prefix ? "*" : "");
    return text;
}

#define AT(member) CELL_AT(rowlock_frozen, member)
static const cli_column columns[] = {
    {"pattern", CELL_TEXT, .text = pattern_of, .title = "FROZEN", .place = 1, .cut = 1},
    {"by", CELL_TEXT, AT(by), .title = "BY", .place = 4, .cut = 2},
    {"reason", CELL_TEXT, AT(reason), .title = "REASON", .place = 5, .cut = 2},
    {"frozen_at", CELL_TIME, AT(frozen_at)},
    {"until", CELL_TIME, AT(until_at)},
    {"since_ms", CELL_MS, AT(since_ms), .title = "SINCE", .place = 2},
    {"left_ms", CELL_MS, AT(left_ms), .title = "LEFT", .place = 3},
    {0},
};
#undef AT

static rowlock_status list(const freezing *self, rowlock_client *client, rowlock_error *err)
{
    rowlock_freezes *freezes = NULL;
    rowlock_status status = rowlock_freezes_get(client, &freezes, err);
    if (status != ROWLOCK_OK)
        return status;
    cli_rows rows = cli_rows_begin(columns, self->context.json);
    for (size_t i = 0; i < rowlock_freezes_count(freezes); i++)
        cli_rows_add(&rows, rowlock_freezes_at(freezes, i));
    cli_rows_end(&rows, "nothing is frozen");
    rowlock_freezes_free(freezes);
    return ROWLOCK_OK;
}

/* ---------------------------------------------------------------- one by one */

static void tell_frozen(const freezing *self, const char *operand,
                        const rowlock_freeze_result *result)
{
    if (self->context.json) {
        json_object *object = cli_json_new();
        cli_json_text(object, "pattern", operand);
        cli_json_count(object, "names", result->names);
        cli_json_count(object, "held", result->held);
        cli_json_print(object);
        return;
    }
    cli_line("%s: frozen; %" PRIu64 " name%s, %" PRIu64 " of which %s held", operand, result->names,
             result->names == 1 ? " matches" : "s match", result->held,
             result->held == 1 ? "is" : "are");
}

static void tell_thawed(const freezing *self, const char *operand)
{
    if (!self->context.json) {
        cli_line("%s: thawed", operand);
        return;
    }
    json_object *object = cli_json_new();
    cli_json_text(object, "pattern", operand);
    cli_json_print(object);
}

static rowlock_status change(freezing *self, rowlock_client *client, const char *operand,
                             bool thaws, rowlock_error *err)
{
    cli_pattern which;
    rowlock_freeze_result result;
    rowlock_freeze_options how = self->how;
    cli_pattern_of(operand, &which);
    how.name = which.name;
    how.prefix = which.name ? NULL : which.prefix ? which.prefix : "";
    rowlock_status status =
        thaws ? rowlock_thaw(client, &how, err) : rowlock_freeze(client, &how, &result, err);
    if (status == ROWLOCK_OK && thaws)
        tell_thawed(self, operand);
    else if (status == ROWLOCK_OK)
        tell_frozen(self, operand, &result);
    return status;
}

static rowlock_status change_all(freezing *self, rowlock_client *client, bool thaws,
                                 rowlock_error *err)
{
    rowlock_error ignored;
    rowlock_status status = ROWLOCK_OK;
    for (int i = 0; i < self->context.operand_count && status == ROWLOCK_OK; i++)
        status = change(self, client, self->context.operands[i], thaws, err);
    if (rowlock_client_flush(client, HISTORY_WAIT_MS, &ignored) != ROWLOCK_OK)
        cli_say("done, but that could not be recorded in the history: %s", ignored.message);
    return status;
}

static rowlock_status freeze(void *into, rowlock_client *client, rowlock_error *err)
{
    freezing *self = into;
    if (self->context.operand_count == 0)
        return list(self, client, err);
    return change_all(self, client, false, err);
}

static rowlock_status thaw(void *into, rowlock_client *client, rowlock_error *err)
{
    return change_all(into, client, true, err);
}

/* ----------------------------------------------------------------- the words */

static bool take_until(void *into, const char *value)
{
    freezing *self = into;
    self->how.for_ms = self->how.until_us = 0;
    /* A bare number means seconds; one of four digits is more likely a mistyped year. */
    if (strlen(value) == 4 && strspn(value, "0123456789") == 4)
        return !cli_usage("--until is how long (2h, 3d), or a time in UTC such as "
                          "'2026-11-25 06:00'; %s may be seconds or a year",
                          value);
    if (cli_duration(value, &self->how.for_ms) && self->how.for_ms > 0)
        return true;
    self->how.for_ms = 0;
    if (cli_moment(value, &self->how.until_us))
        return true;
    return !cli_usage("--until is how long (2h, 3d), or a time in UTC such as '2026-11-25 06:00', "
                      "not '%s'",
                      value);
}

static bool check_freeze(void *into)
{
    const freezing *self = into;
    const bool given = self->how.reason || self->how.for_ms || self->how.until_us;
    return self->context.operand_count > 0 || !given ||
           !cli_usage("a NAME or a PATTERN is missing");
}

static const cli_option freeze_options[] = {
    {0, "reason", CLI_TEXT, CLI_AT(freezing, how.reason)},
    {0, "until", CLI_OWN, .take = take_until},
    {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
    {0},
};

const cli_command cli_freeze = {
    .help = cli_help_freeze,
    .options = freeze_options,
    .into = CLI_INTO(freezing),
    .most = OPERANDS_MOST,
    .operands = "so many PATTERNs",
    .check = check_freeze,
    .work = freeze,
};

static const cli_option thaw_options[] = {
    {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
    {0},
};

const cli_command cli_thaw = {
    .help = cli_help_thaw,
    .options = thaw_options,
    .into = CLI_INTO(freezing),
    .least = 1,
    .most = OPERANDS_MOST,
    .operands = "the NAME or the PATTERN",
    .work = thaw,
};
