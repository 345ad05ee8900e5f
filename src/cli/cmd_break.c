/* cli/cmd_break.c - break: take a lock from its holder by force. */
#include <inttypes.h>
#include <stdio.h>

#include "rowlock/rowlock_admin.h"
#include "table.h"

enum { HISTORY_WAIT_MS = 2000, PAGE = 1000 };

static void tell_cooling(rowlock_client *client, const char *name)
{
    char left[CLI_HUMANE];
    rowlock_list *now;
    if (rowlock_list_one(client, name, &now, NULL) != ROWLOCK_OK)
        return;
    const rowlock_info *info = rowlock_list_at(now, 0);
    if (info->state == ROWLOCK_COOLING)
        printf("it opens when its holder has ended, in %s at the latest\n",
               cli_humane(info->remaining_ms, left, sizeof left));
    rowlock_list_free(now);
}

/* Of a barrier, the members that have entered. */
static uint64_t members_of(const rowlock_info *info)
{
    return info->readers - info->down;
}

/* `info`: the lock just before it was broken. */
static void tell(const rowlock_info *info, bool waited)
{
    char held[CLI_HUMANE + 8] = "";
    char humane[CLI_HUMANE];
    if (info->state == ROWLOCK_COOLING) {
        cli_line(waited ? "%s was cooling, and can be had now" : "opened %s, which was cooling",
                 info->name);
        return;
    }
    if (info->kind == ROWLOCK_KIND_LATCH) {
        cli_line("broke %s, a latch: %" PRIu64 " of %" PRIu64 " had counted (generation %" PRIu64
                 ")",
                 info->name, info->down, info->count, info->token);
        return;
    }
    if (info->kind == ROWLOCK_KIND_BARRIER && members_of(info) > 0) {
        cli_line("broke %s, a barrier: it had %" PRIu64 " members", info->name, members_of(info));
        return;
    }
    if (info->kind == ROWLOCK_KIND_BARRIER) {
        cli_line("%s, a barrier of %" PRIu64 ": the next one to enter says of how many it is",
                 info->name, info->count);
        return;
    }
    if (info->held_ms >= 0)
        snprintf(held, sizeof held, " for %s", cli_humane(info->held_ms, humane, sizeof humane));
    char holder[CELL_TEXT_MAX];
    cli_line("broke %s: held by %s%s (%s, token %" PRIu64 ")", info->name, cli_holder(info, holder),
             held, cli_modes[info->mode].word, info->token);
}

/* The lock is broken in any case; this warns that the history will not show by whom, and why. */
static void warn_of_history(rowlock_client *client, const char *name)
{
    rowlock_error err;
    if (rowlock_client_flush(client, HISTORY_WAIT_MS, &err) != ROWLOCK_OK)
        cli_say("%s is broken, but that could not be recorded in the history: %s", name,
                err.message);
}

typedef struct breaking {
    cli_context context;
    rowlock_break_options how;
    bool wait;
    bool yes;
    cli_pattern which;
} breaking;

static rowlock_status break_one(const rowlock_break_options *how, rowlock_client *client,
                                const rowlock_info *before, rowlock_error *err)
{
    rowlock_status status = rowlock_break_with(client, before->name, how, err);
    if (status != ROWLOCK_OK)
        return status;
    tell(before, how->wait_ms != 0 && !how->now);
    tell_cooling(client, before->name);
    warn_of_history(client, before->name);
    return ROWLOCK_OK;
}

/* ------------------------------------------------------------------ a pattern */

/* The result of breaking all locks of a pattern. */
typedef struct outcome {
    size_t found;
    size_t cooling; /* not broken, since --now was not given */
    size_t broken;
    rowlock_error failed; /* the first that sets the exit status; OK: none */
} outcome;

static bool can_be_broken(const rowlock_info *info, bool now)
{
    if (info->kind == ROWLOCK_KIND_BARRIER)
        return members_of(info) > 0;
    if (info->kind == ROWLOCK_KIND_QUEUE)
        return false; /* its items have holders of their own */
    return info->state == ROWLOCK_HELD || info->state == ROWLOCK_EXPIRED ||
           (now && info->state == ROWLOCK_COOLING);
}

static void show_one(const rowlock_info *info)
{
    const bool cooling = info->state == ROWLOCK_COOLING;
    char holder[CELL_TEXT_MAX];
    if (info->kind == ROWLOCK_KIND_LATCH) {
        cli_line("%s: a latch, %" PRIu64 " of %" PRIu64 " have counted (generation %" PRIu64 ")",
                 info->name, info->down, info->count, info->token);
        return;
    }
    if (info->kind == ROWLOCK_KIND_BARRIER) {
        cli_line("%s: a barrier, it has %" PRIu64 " members", info->name, members_of(info));
        return;
    }
    cli_line("%s: %s%s (%s, token %" PRIu64 ")", info->name, cooling ? "cooling" : "held by ",
             cooling ? "" : cli_holder(info, holder), cli_modes[info->mode].word, info->token);
}

static bool is_as_listed(rowlock_client *client, const rowlock_info *listed, bool now)
{
    rowlock_list *again;
    if (rowlock_list_one(client, listed->name, &again, NULL) != ROWLOCK_OK)
        return false;
    const rowlock_info *info = rowlock_list_at(again, 0);
    const bool same = info->token == listed->token && can_be_broken(info, now);
    rowlock_list_free(again);
    return same;
}

/* After such a failure the other locks are still tried. */
static bool concerns_one_lock(rowlock_status status)
{
    return status == ROWLOCK_BUSY || status == ROWLOCK_NOT_FOUND || status == ROWLOCK_DENIED ||
           status == ROWLOCK_DEADLOCK || status == ROWLOCK_LOST || status == ROWLOCK_MODE ||
           status == ROWLOCK_UNSUPPORTED;
}

/* Breaks the lock only if it still has the listed holder. Not OK: do not try the others. */
static rowlock_status break_listed(const breaking *self, rowlock_client *client,
                                   const rowlock_info *info, outcome *so_far, rowlock_error *err)
{
    rowlock_break_options how = self->how;
    /* A barrier's token is that of the gathering generation, not of its members. */
    how.token = info->kind == ROWLOCK_KIND_BARRIER ? 0 : info->token;
    rowlock_status status = break_one(&how, client, info, err);
    so_far->broken += status == ROWLOCK_OK;
    if (status == ROWLOCK_OK || !concerns_one_lock(status))
        return status;
    /* The holder has released it since: worth a line, but no failure. */
    const bool gone = (status == ROWLOCK_BUSY || status == ROWLOCK_NOT_FOUND) &&
                      !is_as_listed(client, info, how.now);
    if (gone || so_far->failed.status != ROWLOCK_OK)
        cli_say("%s", err->message);
    else
        so_far->failed = *err;
    return ROWLOCK_OK;
}

static rowlock_status next_page(const breaking *self, rowlock_client *client, rowlock_list **page,
                                rowlock_error *err)
{
    const size_t count = rowlock_list_count(*page);
    const rowlock_list_options options = {
        .prefix = self->which.prefix,
        .after = count > 0 ? rowlock_list_at(*page, count - 1)->name : NULL,
        .limit = PAGE,
    };
    rowlock_list *next = NULL;
    rowlock_status status = rowlock_list_get(client, &options, &next, err);
    rowlock_list_free(*page);
    *page = next;
    return status;
}

static rowlock_status fail(rowlock_error *err, rowlock_status status, const char *why)
{
    *err = (rowlock_error){.status = status};
    snprintf(err->message, sizeof err->message, "%s", why);
    return status;
}

/* `status`: OK, or the failure after which no more locks were tried. */
static rowlock_status judge(const breaking *self, const outcome *all, rowlock_status status,
                            rowlock_error *err)
{
    if (all->failed.status != ROWLOCK_OK) {
        if (status != ROWLOCK_OK)
            cli_say("%s", err->message);
        *err = all->failed;
        return err->status;
    }
    if (status != ROWLOCK_OK || all->broken > 0)
        return status;
    if (all->found == 0 && all->cooling > 0)
        return fail(err, ROWLOCK_BUSY,
                    "no such lock is held; some are cooling, and --now opens these at once");
    if (all->found == 0)
        return fail(err, ROWLOCK_BUSY, "no such lock is held");
    if (self->yes)
        return fail(err, ROWLOCK_BUSY, "nothing was broken");
    return fail(err, ROWLOCK_INVALID,
                all->found == 1 ? "nothing was broken; --yes breaks it"
                                : "nothing was broken; --yes breaks all of these");
}

static rowlock_status break_pattern(const breaking *self, rowlock_client *client,
                                    rowlock_error *err)
{
    outcome all = {0};
    rowlock_list *page = NULL;
    rowlock_status status;
    do {
        status = next_page(self, client, &page, err);
        for (size_t i = 0; i < rowlock_list_count(page) && status == ROWLOCK_OK; i++) {
            const rowlock_info *info = rowlock_list_at(page, i);
            all.cooling += info->state == ROWLOCK_COOLING && !self->how.now;
            /* The slots of a name are listed as locks of their own. */
            if (info->slots > 0 || !can_be_broken(info, self->how.now))
                continue;
            all.found++;
            if (self->yes)
                status = break_listed(self, client, info, &all, err);
            else
                show_one(info);
        }
    } while (status == ROWLOCK_OK && rowlock_list_count(page) == PAGE);
    rowlock_list_free(page);
    return judge(self, &all, status, err);
}

/* -------------------------------------------------------------------- break */

static rowlock_status break_and_tell(void *into, rowlock_client *client, rowlock_error *err)
{
    breaking *self = into;
    rowlock_list *before;
    self->how.wait_ms = self->wait ? ROWLOCK_WAIT_FOREVER : 0;
    if (!self->which.name)
        return break_pattern(self, client, err);
    rowlock_status status = rowlock_list_one(client, self->which.name, &before, err);
    if (status != ROWLOCK_OK)
        return status;
    status = break_one(&self->how, client, rowlock_list_at(before, 0), err);
    rowlock_list_free(before);
    return status;
}

static bool check(void *into)
{
    breaking *self = into;
    cli_pattern_of(self->context.operands[0], &self->which);
    if (self->which.name)
        return true;
    if (self->wait || self->how.token)
        return !cli_usage("--%s goes with one lock, not with a pattern",
                          self->wait ? "wait" : "token");
    return true;
}

static const cli_option options[] = {
    {0, "reason", CLI_TEXT, CLI_AT(breaking, how.reason)},
    {0, "now", CLI_FLAG, CLI_AT(breaking, how.now)},
    {0, "token", CLI_NUMBER, CLI_AT(breaking, how.token), .least = 1, .most = UINT64_MAX},
    {0, "wait", CLI_FLAG, CLI_AT(breaking, wait)},
    {0, "yes", CLI_FLAG, CLI_AT(breaking, yes)},
    {0},
};

const cli_command cli_break = {
    .help = cli_help_break,
    .of_quorums = true,
    .options = options,
    .into = CLI_INTO(breaking),
    .least = 1,
    .most = 1,
    .operands = "the lock's NAME",
    .check = check,
    .work = break_and_tell,
};
