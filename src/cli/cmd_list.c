/* cli/cmd_list.c - ls: who holds what; show: one lock. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "locks.h"
#include "once.h"
#include "rowlock/rowlock_admin.h"
#include "table.h"
#include "usual.h"

static const cli_named states[] = {
    [ROWLOCK_FREE] = {"free", CLI_PLAIN},
    [ROWLOCK_HELD] = {"held", CLI_GREEN},
    [ROWLOCK_EXPIRED] = {"expired", CLI_RED},
    [ROWLOCK_COOLING] = {"cooling", CLI_YELLOW},
};

static const cli_named kinds[] = {
    [ROWLOCK_KIND_LEASE] = {"lease", CLI_PLAIN},     [ROWLOCK_KIND_ROW] = {"row", CLI_PLAIN},
    [ROWLOCK_KIND_SLOTS] = {"slots", CLI_PLAIN},     [ROWLOCK_KIND_LATCH] = {"latch", CLI_PLAIN},
    [ROWLOCK_KIND_BARRIER] = {"barrier", CLI_PLAIN}, [ROWLOCK_KIND_QUORUM] = {"quorum", CLI_PLAIN},
    [ROWLOCK_KIND_QUEUE] = {"queue", CLI_PLAIN},
};

/* A row: a lock, and its waiters: those in `waiters` from `first` to before `end`. */
typedef struct lock_row {
    rowlock_info info;
    const rowlock_waiters *waiters;
    size_t first, end;
} lock_row;

/* ----------------------------------------------------------------- waiters */

/* `from`: where the waiters of earlier locks end. */
static lock_row row_of(const rowlock_info *info, const rowlock_waiters *waiters, size_t from)
{
    const cli_waiting its = cli_waiting_for(waiters, info->name, from);
    return (lock_row){*info, waiters, its.first, its.end};
}

static void add_waiters(json_object *object, const char *key, const void *row)
{
    static const cli_column members[] = {
        {"who", CELL_TEXT, CELL_AT(rowlock_waiter, who)},
        {"owner", CELL_TEXT, CELL_AT(rowlock_waiter, owner)},
        {"connection_id", CELL_COUNT, CELL_AT(rowlock_waiter, connection_id)},
        {"waited_ms", CELL_MS, CELL_AT(rowlock_waiter, waited_ms)},
        {0},
    };
    const lock_row *lock = row;
    json_object *array = cli_json_array(object, key);
    for (size_t i = lock->first; i < lock->end; i++)
        cli_json_append(array, cli_row_json(members, rowlock_waiters_at(lock->waiters, i)));
}

static void add_hidden(json_object *object, const char *key, const void *row)
{
    cli_json_text(object, key, rowlock_waiters_hidden(((const lock_row *)row)->waiters));
}

/* ---------------------------------------------------------------------- ls */

static const char *count_waiters(const void *row, char *text)
{
    const lock_row *lock = row;
    if (lock->end > lock->first)
        snprintf(text, CELL_TEXT_MAX, "%zu", lock->end - lock->first);
    return text;
}

static const char *connection_of(const void *row, char *text)
{
    const rowlock_info *info = &((const lock_row *)row)->info;
    if (info->connection_id != 0)
        snprintf(text, CELL_TEXT_MAX, "%" PRIu64, info->connection_id);
    return text;
}

static const char *holder_of(const void *row, char *text)
{
    const rowlock_info *info = &((const lock_row *)row)->info;
    return cli_is_held(info) ? cli_holder(info, text) : text;
}

static const char *mode_of(const void *row, char *text)
{
    const rowlock_info *info = &((const lock_row *)row)->info;
    (void)text;
    return info->kind >= ROWLOCK_KIND_LATCH ? kinds[info->kind].word : cli_modes[info->mode].word;
}

/* "12 ready for 3m12s, 2 in flight, 1 dead" */
static const char *queue_in_table(const rowlock_info *info, char *text)
{
    char age[CLI_HUMANE];
    char oldest[CLI_HUMANE + 8] = "";
    char dead[32] = "";
    if (info->oldest_ms >= 0)
        snprintf(oldest, sizeof oldest, " for %s", cli_humane(info->oldest_ms, age, sizeof age));
    if (info->dead > 0)
        snprintf(dead, sizeof dead, ", %" PRIu64 " dead", info->dead);
    snprintf(text, CELL_TEXT_MAX, "%" PRIu64 " ready%s, %" PRIu64 " in flight%s", info->ready,
             oldest, info->in_flight, dead);
    return text;
}

/* "held, value db1:3306, asked 3m12s ago"; "free, done (until 2026-11-25 02:00)" */
static const char *state_in_table(const void *row, char *text)
{
    const rowlock_info *info = &((const lock_row *)row)->info;
    char ago[CLI_HUMANE];
    char asked[CLI_HUMANE + 16] = "";
    char period[64] = "";
    if (info->kind == ROWLOCK_KIND_QUEUE)
        return queue_in_table(info, text);
    const char *frozen = *info->frozen_until ? ", frozen" : "";
    if (info->asked_ms >= 0)
        snprintf(asked, sizeof asked, ", asked %s ago",
                 cli_humane(info->asked_ms, ago, sizeof ago));
    if (*info->period_state)
        snprintf(period, sizeof period, ", %s (until %.16s)", info->period_state, info->period_end);
    snprintf(text, CELL_TEXT_MAX, "%s%s%s%s%s%s", states[info->state].word, frozen,
             *info->value ? ", value " : "", info->value, asked, period);
    return text;
}

/* Unknown once the lease has expired. */
static const char *remaining_of(const void *row, char *text)
{
    const rowlock_info *info = &((const lock_row *)row)->info;
    return cli_humane(info->state == ROWLOCK_EXPIRED ? -1 : info->remaining_ms, text,
                      CELL_TEXT_MAX);
}

static const char *succeeded_held_of(const void *row, char *text)
{
    const rowlock_totals *totals = &((const lock_row *)row)->info.totals;
    if (totals->succeeded_held_us >= 0)
        snprintf(text, CELL_TEXT_MAX, "%" PRId64, totals->succeeded_held_us);
    return text;
}

static const char *failed_exit_of(const void *row, char *text)
{
    const rowlock_totals *totals = &((const lock_row *)row)->info.totals;
    if (totals->failed_has_exit_status)
        snprintf(text, CELL_TEXT_MAX, "%d", totals->failed_exit_status);
    return text;
}

#define AT(member) CELL_AT(lock_row, info.member)
static const cli_column columns[] = {
    /* The column is left out if nobody waits for any lock. */
    {NULL, CELL_LITERAL, .text = count_waiters, .title = "WAITING", .place = 8},
    {"name", CELL_TEXT, AT(name), .title = "NAME", .place = 1, .cut = 1, .least = 12,
     .cut_middle = true},
    {"kind", CELL_NAMED, AT(kind), .names = kinds},
    {"mode", CELL_NAMED, AT(mode), .names = cli_modes, .title = "MODE", .place = 3, .spare = 4,
     .text = mode_of},
    {"state", CELL_NAMED, AT(state), .names = states, .title = "STATE", .place = 2, .cut = 1,
     .least = 14, .text = state_in_table},
    {"token", CELL_COUNT, AT(token), .title = "TOKEN", .place = 7, .spare = 2},
    {"readers", CELL_COUNT, AT(readers)},
    {"slots", CELL_COUNT, AT(slots)},
    {"slots_held", CELL_COUNT, AT(slots_held)},
    {"count", CELL_COUNT, AT(count)},
    {"down", CELL_COUNT, AT(down)},
    {"depth", CELL_COUNT, AT(depth)},
    {"ready", CELL_COUNT, AT(ready)},
    {"in_flight", CELL_COUNT, AT(in_flight)},
    {"dead", CELL_COUNT, AT(dead)},
    {"oldest_ms", CELL_MS, AT(oldest_ms)},
    {"value", CELL_TEXT, AT(value)},
    {"owner", CELL_TEXT, AT(owner)},
    {"owner_label", CELL_TEXT, AT(owner_label)},
    {NULL, CELL_TEXT, .text = holder_of, .title = "HOLDER", .place = 4, .cut = 2, .least = 12},
    {"acquired_at", CELL_TIME, AT(acquired_at)},
    {"expires_at", CELL_TIME, AT(expires_at)},
    {"held_ms", CELL_MS, AT(held_ms), .title = "SINCE", .place = 5},
    {"remaining_ms", CELL_MS, AT(remaining_ms), .title = "REMAINING", .place = 6, .spare = 3,
     .text = remaining_of},
    {"asked_at", CELL_TIME, AT(asked_at)},
    {"asked_by", CELL_TEXT, AT(asked_by)},
    {"reason", CELL_TEXT, AT(asked_why)},
    {"stop_by", CELL_TIME, AT(stop_by)},
    {"period_start", CELL_TIME, AT(period_start)},
    {"period_end", CELL_TIME, AT(period_end)},
    {"period_state", CELL_TEXT, AT(period_state)},
    {"frozen_until", CELL_TIME, AT(frozen_until)},
    {"frozen_by", CELL_TEXT, AT(frozen_by)},
    {"frozen_reason", CELL_TEXT, AT(frozen_why)},
    {"sessions", CELL_TEXT, AT(sessions)},
    {"connection_id", CELL_LITERAL, .text = connection_of},
    {"description", CELL_TEXT, AT(description)},
    {"holds", CELL_COUNT, AT(totals.holds)},
    {"holds_lost", CELL_COUNT, AT(totals.lost)},
    {"holds_taken_over", CELL_COUNT, AT(totals.taken_over)},
    {"total_waited_us", CELL_COUNT, AT(totals.waited_us)},
    {"longest_wait_us", CELL_COUNT, AT(totals.waited_most_us)},
    {"total_held_us", CELL_COUNT, AT(totals.held_us)},
    {"longest_hold_us", CELL_COUNT, AT(totals.held_most_us)},
    {"counted_since", CELL_TIME, AT(totals.first_at)},
    {"counted_until", CELL_TIME, AT(totals.last_at)},
    {"holds_failed", CELL_COUNT, AT(totals.failed)},
    {"refused", CELL_COUNT, AT(totals.refused)},
    {"succeeded_at", CELL_TIME, AT(totals.succeeded_at)},
    {"succeeded_held_us", CELL_LITERAL, .text = succeeded_held_of},
    {"failed_at", CELL_TIME, AT(totals.failed_at)},
    {"failed_exit_status", CELL_LITERAL, .text = failed_exit_of},
    {"longest_gap_us", CELL_COUNT, AT(totals.gap_us)},
    {"waiters", CELL_JSON, .json = add_waiters},
    {"waiters_not_shown", CELL_JSON, .json = add_hidden},
    {0},
};

typedef struct listed {
    cli_context context;
    bool all;
    cli_pattern which;
} listed;

static void print_all(const listed *self, const cli_locks *locks)
{
    bool waiting = rowlock_waiters_count(locks->waiters) > 0;
    cli_rows rows = cli_rows_begin(columns + !waiting, self->context.json);
    lock_row row = {0};
    for (size_t i = 0; i < locks->count; i++) {
        row = row_of(locks->at[i], locks->waiters, row.end);
        cli_rows_add(&rows, &row);
    }
    if (self->which.prefix)
        cli_rows_end(&rows, self->all ? "there is no such lock" : "no such lock is held");
    else
        cli_rows_end(&rows, self->all ? "no lock was used yet" : "no lock is held");
}

/* Reads everything before it prints the first line, so that the output is complete or empty. */
static rowlock_status list(void *into, rowlock_client *client, rowlock_error *err)
{
    listed *self = into;
    cli_locks locks = {0};
    rowlock_status status = cli_locks_read(client, self->which.prefix, self->all, &locks, err);
    if (status == ROWLOCK_OK)
        print_all(self, &locks);
    cli_locks_free(&locks);
    return status;
}

/* Refuses a full name: `show` says more about one lock. */
static bool check_ls(void *into)
{
    listed *self = into;
    if (self->context.operand_count == 0)
        return true;
    cli_pattern_of(self->context.operands[0], &self->which);
    const char *name = self->which.name;
    if (!name)
        return true;
    if (self->context.ask_password)
        return !cli_usage("ls takes a pattern such as 'billing/*' " CLI_MAYBE_PASSWORD);
    /* For a name that ends with a star, a star behind it would not make a pattern of that name. */
    const bool starred = *name && name[strlen(name) - 1] == '*';
    if (starred)
        return !cli_usage("ls takes a pattern such as 'billing/*'; for one lock: show '%s'", name);
    return !cli_usage("ls takes a pattern such as '%s*'; for one lock: show '%s'", name, name);
}

static const cli_option ls_options[] = {
    {'a', "all", CLI_FLAG, CLI_AT(listed, all)},
    {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
    {0},
};

const cli_command cli_ls = {
    .help = cli_help_ls,
    .of_quorums = true,
    .options = ls_options,
    .into = CLI_INTO(listed),
    .most = 1,
    .operands = "a PATTERN",
    .check = check_ls,
    .work = list,
};

/* -------------------------------------------------------------------- show */

static void print_member(const char *key, const char *value)
{
    if (*value)
        cli_line("%-12s %s", key, value);
}

static void print_number(const char *key, uint64_t value)
{
    printf("%-12s %" PRIu64 "\n", key, value);
}

/* "2026-11-21 07:56:44 UTC (3m12s ago)"; the duration only if it is known. */
static void print_moment(const char *key, const char *when, const char *before, int64_t ms,
                         const char *after)
{
    char humane[CLI_HUMANE];
    char line[160];
    if (!*when)
        return;
    int used = snprintf(line, sizeof line, "%.19s UTC", when);
    if (ms >= 0)
        snprintf(line + used, sizeof line - (size_t)used, " (%s%s%s)", before,
                 cli_humane(ms, humane, sizeof humane), after);
    print_member(key, line);
}

/* An unfenced row lock: its holder is not published. */
static bool is_unseen(const rowlock_info *info)
{
    return info->kind == ROWLOCK_KIND_ROW && info->state == ROWLOCK_HELD && info->token == 0;
}

static void print_end(const rowlock_info *info)
{
    if (info->readers > 0 || info->slots > 0)
        return;
    if (info->state == ROWLOCK_HELD && !*info->expires_at)
        print_member("until", "its connection ends");
    else
        print_moment(info->state == ROWLOCK_COOLING ? "opens" : "until", info->expires_at, "in ",
                     info->remaining_ms > 0 ? info->remaining_ms : -1, "");
}

/* A freeze without an end is stored as the year 9999. */
static void print_freeze(const rowlock_info *info)
{
    const bool for_ever = strncmp(info->frozen_until, "9999", 4) == 0;
    if (!*info->frozen_until)
        return;
    if (for_ever)
        print_member("frozen", "until it is thawed");
    else
        print_moment("frozen until", info->frozen_until, "", -1, "");
    print_member("frozen by", info->frozen_by);
    print_member("reason", info->frozen_why);
}

static void print_sessions(const rowlock_info *info)
{
    if (*info->sessions)
        print_member(info->state == ROWLOCK_HELD ? "sessions" : "not ended", info->sessions);
}

static void print_ask(const rowlock_info *info)
{
    if (info->asked_ms < 0)
        return;
    print_moment("asked", info->asked_at, "", info->asked_ms, " ago");
    print_member("asked by", info->asked_by);
    print_member("reason", info->asked_why);
    print_moment("to stop by", info->stop_by, "", -1, "");
}

static const char *brief(int64_t us, char *buffer, size_t size)
{
    if (us >= 10000000)
        return cli_humane(us / 1000, buffer, size);
    snprintf(buffer, size, "%.1f ms", (double)us / 1e3);
    return buffer;
}

/* "0.4 ms each, 12.0 ms at most"; "5m00s each" */
static void print_times(const char *key, int64_t all_us, int64_t most_us, uint64_t count)
{
    char each[CLI_HUMANE];
    char most[CLI_HUMANE];
    cli_line("%-12s %s each, %s at most", key, brief(all_us / (int64_t)count, each, sizeof each),
             brief(most_us, most, sizeof most));
}

/* "exit status 3, 2026-11-21 07:56:44 UTC (3m12s ago)" */
static void print_failure(const rowlock_totals *totals)
{
    print_moment("failed", totals->failed_at, "", totals->failed_ms, " ago");
    if (*totals->failed_at && totals->failed_has_exit_status)
        cli_line("%-12s exit status %d", "", totals->failed_exit_status);
}

static void print_totals(const rowlock_totals *totals)
{
    if (totals->holds == 0)
        return;
    cli_line("%-12s %" PRIu64 " since %.19s UTC, %" PRIu64 " lost, %" PRIu64 " taken over", "holds",
             totals->holds, totals->first_at, totals->lost, totals->taken_over);
    print_moment("succeeded", totals->succeeded_at, "", totals->succeeded_ms, " ago");
    print_failure(totals);
    print_times("waited", totals->waited_us, totals->waited_most_us, totals->holds);
    print_times("held", totals->held_us, totals->held_most_us, totals->holds);
}

/* "usually      4m12s, 95 % within 6m03s (of the last 42)"; "due          in 1m30s" */
static void print_usual(const rowlock_info *info, const cli_usual *u)
{
    char half[CLI_HUMANE];
    char most[CLI_HUMANE];
    if (u->count == 0)
        return;
    cli_line("%-12s %s, 95 %% within %s (of the last %zu)", "usually",
             cli_humane(u->median_ms, half, sizeof half), cli_humane(u->most_ms, most, sizeof most),
             u->count);
    const int64_t left_ms = u->median_ms - info->held_ms;
    if (info->held_ms >= 0 && left_ms >= 0)
        cli_line("%-12s in %s", "due", cli_humane(left_ms, half, sizeof half));
    else if (info->held_ms >= 0)
        cli_line("%-12s %s ago", "due", cli_humane(-left_ms, half, sizeof half));
}

static void print_barrier(const rowlock_info *info)
{
    char gathered[64];
    snprintf(gathered, sizeof gathered, "%" PRIu64 " of %" PRIu64, info->down, info->count);
    print_number("generation", info->token);
    print_member("gathered", gathered);
    print_number("members", info->readers - info->down); /* the others gather */
}

static void print_queue(const rowlock_info *info)
{
    char oldest[CLI_HUMANE];
    print_number("depth", info->depth);
    print_number("ready", info->ready);
    print_number("in flight", info->in_flight);
    print_number("dead", info->dead);
    if (info->oldest_ms >= 0)
        print_member("oldest", cli_humane(info->oldest_ms, oldest, sizeof oldest));
}

static void print_info(const rowlock_info *info)
{
    bool held = cli_is_held(info);
    char slots[64];
    print_member("name", info->name);
    printf("%-12s ", "state");
    cli_print_coloured(states[info->state].word, states[info->state].colour);
    putchar('\n');
    print_sessions(info);
    print_freeze(info);
    print_member("mode", info->kind >= ROWLOCK_KIND_BARRIER ? kinds[info->kind].word
                                                            : cli_modes[info->mode].word);
    if (info->kind == ROWLOCK_KIND_QUEUE) {
        print_queue(info);
        return;
    }
    if (info->kind == ROWLOCK_KIND_BARRIER) {
        print_barrier(info);
        return;
    }
    if (info->readers > 0)
        print_number("held together", info->readers);
    snprintf(slots, sizeof slots, "%" PRIu64 " of %" PRIu64 " held (each is a lock, NAME#0 ...)",
             info->slots_held, info->slots);
    if (info->slots > 0) {
        print_member("slots", slots);
        return;
    }
    if (is_unseen(info)) {
        print_member("holder", "not known: held --unfenced or --shared, without a token");
        print_end(info);
        print_member("description", info->description);
        print_totals(&info->totals);
        return;
    }
    print_member(held ? "holder" : "last holder", info->owner_label);
    print_member(held ? "owner" : "last owner", info->owner);
    print_member("value", info->value);
    print_number("token", info->token);
    print_moment(held ? "since" : "was acquired", info->acquired_at, "", info->held_ms, " ago");
    print_end(info);
    print_ask(info);
    if (info->connection_id != 0)
        print_number("connection", info->connection_id);
    print_member("description", info->description);
    print_totals(&info->totals);
}

/* "batch@app2 311 sh, for 3.2s"; for a waiter of a row lock its connection, since nothing else is
 * known. */
static void print_waiter(const char *key, const rowlock_waiter *waiter)
{
    char humane[CLI_HUMANE];
    char connection[40] = "";
    char line[ROWLOCK_LABEL_MAX + 100];
    if (waiter->mode == ROWLOCK_PESSIMISTIC)
        snprintf(connection, sizeof connection, ", connection %" PRIu64, waiter->connection_id);
    snprintf(line, sizeof line, "%s%s, for %s", waiter->who, connection,
             cli_humane(waiter->waited_ms, humane, sizeof humane));
    print_member(key, line);
}

static void print_waiters(const rowlock_waiters *waiters)
{
    for (size_t i = 0; i < rowlock_waiters_count(waiters); i++)
        print_waiter(i == 0 ? "waiting" : "", rowlock_waiters_at(waiters, i));
    print_member("not shown", rowlock_waiters_hidden(waiters));
}

/* `latch`: NULL unless the lock is a latch. */
static void print_one(const rowlock_info *info, const rowlock_latch_info *latch,
                      const rowlock_waiters *waiters)
{
    if (latch)
        cli_latch_print(info->name, latch);
    else
        print_info(info);
    print_waiters(waiters);
}

static rowlock_status show_found(const rowlock_info *info, const rowlock_waiters *waiters,
                                 rowlock_client *client, rowlock_error *err)
{
    rowlock_latch_info latch = {0};
    const bool is_latch = info->kind == ROWLOCK_KIND_LATCH;
    rowlock_status status =
        is_latch ? rowlock_latch_get(client, info->name, &latch, err) : ROWLOCK_OK;
    const rowlock_once_get_options newest = {.name = info->name, .limit = 1};
    rowlock_once_runs *runs = NULL;
    if (status == ROWLOCK_OK && info->kind == ROWLOCK_KIND_LEASE)
        status = rowlock_once_get(client, &newest, &runs, err);
    if (status == ROWLOCK_OK) {
        cli_usual u = {.count = 0};
        if (info->kind == ROWLOCK_KIND_LEASE || info->kind == ROWLOCK_KIND_ROW)
            u = cli_usual_of(client, info->name);
        print_one(info, is_latch ? &latch : NULL, waiters);
        print_usual(info, &u);
        once_print_last(runs);
    }
    rowlock_once_free(runs);
    return status;
}

static void print_json(const rowlock_info *info, const rowlock_waiters *waiters)
{
    const lock_row row = row_of(info, waiters, 0);
    cli_json_print(cli_row_json(columns, &row));
}

static rowlock_status show(void *into, rowlock_client *client, rowlock_error *err)
{
    const cli_context *context = into;
    const rowlock_waiters_options options = {.name = context->operands[0]};
    rowlock_list *found = NULL;
    rowlock_waiters *waiters = NULL;
    rowlock_status status = rowlock_list_one(client, options.name, &found, err);
    if (status == ROWLOCK_OK)
        status = rowlock_waiters_get(client, &options, &waiters, err);
    if (status == ROWLOCK_OK && context->json)
        print_json(rowlock_list_at(found, 0), waiters);
    else if (status == ROWLOCK_OK)
        status = show_found(rowlock_list_at(found, 0), waiters, client, err);
    rowlock_list_free(found);
    rowlock_waiters_free(waiters);
    return status;
}

static const cli_option show_options[] = {
    {0, "json", CLI_FLAG, CLI_AT(cli_context, json)},
    {0},
};

const cli_command cli_show = {
    .help = cli_help_show,
    .of_quorums = true,
    .options = show_options,
    .into = CLI_INTO(listed),
    .least = 1,
    .most = 1,
    .operands = "the lock's NAME",
    .work = show,
};
