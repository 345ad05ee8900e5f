#include "kind/section.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/settle.h"
#include "kind/lease.h"
#include "wait/backoff.h"

#define DEFAULT_ATTEMPTS      10
#define DEFAULT_DELAY_MS      5
#define DEFAULT_MOST_DELAY_MS 500
#define REDONE_MOST           10

typedef struct version_row {
    char kind[17];
    bool ours; /* the owner id is the asker's */
    bool held;
    bool shut;
    uint64_t version;
    int64_t remaining_us;
} version_row;

static void keep_version(void *data, const rl_cell *cells)
{
    version_row *row = data;
    snprintf(row->kind, sizeof row->kind, "%s", cells[0].text);
    row->held = strcmp(cells[1].text, "held") == 0;
    row->shut = strcmp(cells[1].text, "shut") == 0;
    row->version = cells[2].u64;
    row->remaining_us = cells[3].i64;
}

static void keep_whose(void *data, const rl_cell *cells)
{
    version_row *row = data;
    row->version = cells[0].u64;
    row->ours = cells[1].u64 != 0;
    row->held = strcmp(cells[2].text, "held") == 0;
}

/* ---------------------------------------------------------------------- read and swap */

/* A dead holder's lease: free it, so that the version can be read again. */
static rowlock_status free_expired(rowlock_client *client, const rl_budget *budget,
                                   const char *name, uint64_t id, uint64_t version,
                                   int64_t *hint_us, rowlock_error *err)
{
    bool freed = false;
    rowlock_status status = rl_lease_expire(client, budget, id, version, &freed, err);
    if (status == ROWLOCK_UNKNOWN)
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "the connection to the server was lost");
    if (status != ROWLOCK_OK)
        return status;
    *hint_us = RL_AT_ONCE;
    return rl_fail(err, ROWLOCK_BUSY, "'%s' was held by a lease until just now", name);
}

rowlock_status rl_version_read(rowlock_client *client, const rl_budget *budget, const char *name,
                               uint64_t *id, uint64_t *version, int64_t *hint_us,
                               rowlock_error *err)
{
    rowlock_status status = rl_resource_id(client, budget, name, RL_KIND_LEASE, id, err);
    if (status != ROWLOCK_OK)
        return status;
    const rl_value values[] = {rl_u64(*id), rl_text(name)};
    version_row row = {0};
    bool found = false;
    status = rl_client_read(client, budget, RL_SQL_SECTION_READ, values, keep_version, &row, &found,
                            err);
    if (status != ROWLOCK_OK)
        return status;
    if (!found) {
        rl_resource_forget(client, name);
        *hint_us = RL_AT_ONCE;
        return rl_fail(err, ROWLOCK_BUSY, "'%s' was purged just now", name);
    }
    if (strcmp(row.kind, RL_KIND_LEASE) != 0)
        return rl_resource_wrong_kind(name, row.kind, RL_KIND_LEASE, err);
    if (row.held && row.remaining_us <= 0)
        return free_expired(client, budget, name, *id, row.version, hint_us, err);
    if (row.held || row.shut) {
        *hint_us = row.remaining_us + 1000;
        return rl_fail(err, ROWLOCK_BUSY, "a lease on '%s' is %s for another %.3f s", name,
                       row.held ? "held" : "shut", (double)row.remaining_us / 1e6);
    }
    *version = row.version;
    return ROWLOCK_OK;
}

/* Nothing matched: a lease, or another version? */
rowlock_status rl_version_why_not(rowlock_client *client, const rl_budget *budget, const char *name,
                                  uint64_t id, uint64_t expected, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(id), rl_text(name), rl_text("")};
    version_row row = {0};
    bool found = false;
    rowlock_status status =
        rl_client_read(client, budget, RL_SQL_SECTION_WHOSE, values, keep_whose, &row, &found, err);
    if (status != ROWLOCK_OK)
        return status;
    if (found && row.version == expected)
        return rl_fail(err, ROWLOCK_BUSY, "a lease on '%s' is %s", name,
                       row.held ? "held" : "shut");
    return rl_fail(err, ROWLOCK_CONFLICT, "'%s' has version %" PRIu64 ", not %" PRIu64, name,
                   row.version, expected);
}

rowlock_status rl_version_swap(rowlock_client *client, const rl_budget *budget, const char *name,
                               uint64_t id, uint64_t expected, const char *owner, rl_trace *trace,
                               rowlock_error *err)
{
    const rl_value values[] = {rl_text(owner), rl_text(client->label), rl_u64(id), rl_text(name),
                               rl_u64(expected)};
    rl_done done = {0};
    rowlock_status status = rl_client_change(client, budget, NULL, true, RL_SQL_SECTION_SWAP,
                                             values, trace, &done, err);
    if (status != ROWLOCK_OK || done.rows > 0)
        return status;
    return rl_version_why_not(client, budget, name, id, expected, err);
}

/* ------------------------------------------------------------------------ the section */

typedef struct section_call {
    rowlock_client *client;
    const rl_budget *budget;
    const char *name;
    const rl_section_ways *ways;
    unsigned most;
    unsigned tries;  /* attempts, those that found a lease among them */
    unsigned redone; /* attempts that were not counted */
    rowlock_section_result result;
    uint64_t id;
    char owner[ROWLOCK_OWNER_MAX + 1];
    uint64_t expected; /* of a swap whose reply was lost */
    rl_trace lost_request;
    bool open;
    bool in_use; /* the last attempt found a lease, or a transaction */
    bool ended;  /* `end` is final, whatever it is */
    rowlock_status end;
} section_call;

static rowlock_status ended(section_call *call, rowlock_status status)
{
    call->ended = true;
    call->end = status;
    return ROWLOCK_OK;
}

/* That attempt was not undone by another change. */
static void do_not_count(section_call *call)
{
    if (call->ways->cheap && call->redone++ < REDONE_MOST)
        call->tries--;
}

/*
 * The reply to a swap was lost, and the server is done with it. If the row carries our owner id,
 * it was us; if it still is what we expected, or somebody else made the next version, it was
 * not. Anything further on hides the answer.
 */
static rowlock_status whose(section_call *call, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(call->id), rl_text(call->name), rl_text(call->owner)};
    version_row row = {0};
    bool found = false;
    rowlock_status status = rl_client_read(call->client, call->budget, RL_SQL_SECTION_WHOSE, values,
                                           keep_whose, &row, &found, err);
    if (status != ROWLOCK_OK)
        return status;
    call->open = false;
    if (found && row.ours) {
        call->result.version = row.version;
        return ended(call, ROWLOCK_OK);
    }
    if (found && row.version <= call->expected + 1) {
        if (row.version <= call->expected)
            do_not_count(call);
        call->result.conflicts++;
        return rl_fail(err, ROWLOCK_BUSY, "'%s' was not changed", call->name);
    }
    return ended(call,
                 rl_fail(err, ROWLOCK_UNKNOWN,
                         "the reply to the change of '%s' was lost, and others changed it since",
                         call->name));
}

static rowlock_status settle(section_call *call, rowlock_error *err)
{
    if (call->lost_request.connection_id == 0)
        return ended(call, rl_fail(err, ROWLOCK_UNKNOWN,
                                   "the reply to the COMMIT with the change of '%s' was lost",
                                   call->name));
    rowlock_status status = rl_settle(call->client, call->budget, &call->lost_request, err);
    return status == ROWLOCK_OK ? whose(call, err) : status;
}

static rowlock_status swap(section_call *call, uint64_t version, rowlock_error *err)
{
    rl_trace trace = {0};
    rowlock_status status =
        call->ways->swap(call->ways->data, call->id, version, call->owner, &trace, err);
    if (status == ROWLOCK_OK) {
        call->result.version = version + 1;
        return ended(call, ROWLOCK_OK);
    }
    if (status == ROWLOCK_UNKNOWN) {
        call->open = true;
        call->lost_request = trace;
        call->expected = version;
        return ROWLOCK_UNAVAILABLE;
    }
    call->ways->undo(call->ways->data);
    if (status == ROWLOCK_UNAVAILABLE || status == ROWLOCK_DEADLOCK)
        do_not_count(call);
    if (status == ROWLOCK_CONFLICT || status == ROWLOCK_DEADLOCK) {
        call->result.conflicts++;
        return rl_fail(err, ROWLOCK_BUSY, "'%s' was changed by somebody else", call->name);
    }
    call->in_use = status == ROWLOCK_BUSY;
    return status;
}

static rowlock_status work_and_swap(section_call *call, uint64_t version, rowlock_error *err)
{
    const rowlock_section section = {
        .name = call->name, .version = version, .attempt = ++call->result.attempts};
    rowlock_status status = call->ways->begin(call->ways->data, err);
    if (status == ROWLOCK_BUSY) { /* stopped by somebody, before the work */
        call->result.attempts--;
        if (call->redone++ < REDONE_MOST)
            call->tries--;
        return status;
    }
    if (status != ROWLOCK_OK)
        return ended(call, status);
    status = call->ways->work(call->ways->data, &section);
    if (status == ROWLOCK_OK)
        return swap(call, version, err);
    call->ways->undo(call->ways->data);
    /* The server undid the work to end a deadlock: that is a conflict like any other. */
    if (status == ROWLOCK_DEADLOCK) {
        call->result.conflicts++;
        return rl_fail(err, ROWLOCK_BUSY, "'%s': the work met a deadlock", call->name);
    }
    return ended(call, rl_fail(err, status, "the work of the section on '%s' ended it: %s",
                               call->name, rowlock_status_text(status)));
}

static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    section_call *call = data;
    if (call->open)
        return settle(call, err);
    if (call->tries == call->most && call->in_use)
        return ended(call, rl_fail(err, ROWLOCK_BUSY,
                                   "a lease on '%s' is held, or a transaction has it locked",
                                   call->name));
    if (call->tries == call->most)
        return ended(call, rl_fail(err, ROWLOCK_CONFLICT,
                                   "'%s' was changed by somebody else at each of %u attempts",
                                   call->name, call->result.attempts));
    uint64_t version = 0;
    rowlock_status status =
        rl_version_read(call->client, call->budget, call->name, &call->id, &version, hint_us, err);
    call->in_use = status == ROWLOCK_BUSY && *hint_us != RL_AT_ONCE;
    if (status == ROWLOCK_OK || call->in_use)
        call->tries++;
    if (status != ROWLOCK_OK)
        return status;
    return work_and_swap(call, version, err);
}

static bool unsettled(const void *data)
{
    return ((const section_call *)data)->open;
}

static rowlock_status section_end(section_call *call, rowlock_status status, rowlock_error *err)
{
    if (status == ROWLOCK_OK && call->ended)
        return call->end;
    if (!call->open)
        return status;
    return rl_fail(err, ROWLOCK_UNKNOWN,
                   "the reply to the change of '%s' was lost and the server cannot be asked",
                   call->name);
}

rowlock_status rl_section_run(rowlock_client *client, const char *name,
                              const rowlock_section_options *options, const rl_section_ways *ways,
                              rowlock_section_result *result, rowlock_error *err)
{
    int64_t wait_ms = options->wait_ms ? options->wait_ms : ROWLOCK_WAIT_FOREVER;
    rl_budget budget = rl_budget_start(wait_ms, client->limit_ms, options->cancel);
    section_call call = {.client = client,
                         .budget = &budget,
                         .name = name,
                         .ways = ways,
                         .most = options->max_attempts ? options->max_attempts : DEFAULT_ATTEMPTS};
    rl_client_owner(client, call.owner);
    int64_t first_ms = options->backoff_ms ? options->backoff_ms : DEFAULT_DELAY_MS;
    int64_t most_ms = options->backoff_max_ms ? options->backoff_max_ms : DEFAULT_MOST_DELAY_MS;
    const rl_attempts how = {.budget = &budget,
                             .outage_us = client->outage_us,
                             .backoff = {.first_us = first_ms * 1000, .most_us = most_ms * 1000},
                             .unsettled = unsettled};
    rowlock_status status = section_end(&call, rl_attempt_until(&how, attempt, &call, err), err);
    if (result)
        *result = call.result;
    return status;
}
