#include "kind/section.h"

#include <inttypes.h>

#include "engine/guard.h"
#include "engine/look.h"
#include "engine/settle.h"
#include "kind/lease.h"
#include "kind/shared.h"
#include "kind/transaction.h"
#include "wait/backoff.h"

#define DEFAULT_ATTEMPTS      10
#define DEFAULT_DELAY_MS      5
#define DEFAULT_MOST_DELAY_MS 500
#define REDONE_MOST           10
#define GUARDED_LOOK_US       20000
#define READERS_LOOK_US       100000

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
    RL_TRY(status);
    *hint_us = RL_AT_ONCE;
    return rl_fail(err, ROWLOCK_BUSY, "'%s' was held by a lease until just now", name);
}

rowlock_status rl_version_read(rowlock_client *client, const rl_budget *budget, const char *name,
                               const char *owner, rl_section_read *read, int64_t *hint_us,
                               rowlock_error *err)
{
    rl_seen seen;
    read->has_sessions = false;
    RL_TRY(rl_resource_id(client, budget, name, RL_KIND_LEASE, &read->id, err));
    RL_TRY(rl_look(client, budget, read->id, name, RL_KIND_LEASE, owner, &seen, err));
    if (seen.guarded) {
        const rl_guard guard = {.id = read->id, .name = name, .version = seen.guarded};
        read->has_sessions = true;
        *hint_us = RL_NOT_BEFORE(GUARDED_LOOK_US);
        RL_TRY(rl_guard_end(client, budget, &guard, &read->sessions_ended, err));
        read->has_sessions = false;
        *hint_us = 0;
    }
    switch (seen.verdict) {
    case RL_VERDICT_GONE:
        rl_resource_forget(client, name);
        *hint_us = RL_AT_ONCE;
        return rl_fail(err, ROWLOCK_BUSY, "'%s' was purged just now", name);
    case RL_VERDICT_WRONG_KIND:
        return rl_resource_wrong_kind(name, seen.kind, RL_KIND_LEASE, err);
    case RL_VERDICT_EXPIRED:
        return free_expired(client, budget, name, read->id, seen.version, hint_us, err);
    case RL_VERDICT_SHARED:
        *hint_us = READERS_LOOK_US;
        RL_TRY(rl_shared_make_free(client, budget, name, read->id, seen.version, err));
        *hint_us = RL_AT_ONCE;
        return rl_fail(err, ROWLOCK_BUSY, "'%s' was shared until just now", name);
    case RL_VERDICT_DRAINING:
    case RL_VERDICT_HELD:
    case RL_VERDICT_COOLING:
        *hint_us = seen.left_us + 1000;
        if (seen.frozen)
            return rl_fail(err, ROWLOCK_BUSY, "'%s' is frozen", name);
        return rl_fail(err, ROWLOCK_BUSY, "a lease on '%s' is %s for another %.3f s", name,
                       seen.verdict == RL_VERDICT_COOLING ? "cooling" : "held",
                       (double)seen.left_us / 1e6);
    case RL_VERDICT_RESERVED:
    case RL_VERDICT_FREE:
        break;
    }
    read->version = seen.version;
    return ROWLOCK_OK;
}

/* No row matched: a lease, or another version? */
static rowlock_status why_not(rowlock_client *client, const rl_budget *budget, const char *name,
                              uint64_t id, uint64_t expected, const char *owner, rowlock_error *err)
{
    rl_seen seen;
    RL_TRY(rl_look(client, budget, id, name, RL_KIND_LEASE, owner, &seen, err));
    if (seen.verdict != RL_VERDICT_GONE && seen.version == expected)
        return rl_fail(err, ROWLOCK_BUSY, "a lease on '%s' is %s", name,
                       seen.verdict == RL_VERDICT_COOLING ? "cooling" : "held");
    return rl_fail(err, ROWLOCK_CONFLICT, "'%s' has version %" PRIu64 ", not %" PRIu64, name,
                   seen.version, expected);
}

/* On a connection of the client's. */
static rowlock_status swap_alone(rowlock_client *client, const rl_budget *budget, const char *name,
                                 uint64_t id, uint64_t expected, const char *owner, rl_trace *trace,
                                 rowlock_error *err)
{
    const rl_value values[] = {rl_text(owner), rl_text(client->label), rl_u64(id), rl_text(name),
                               rl_u64(expected)};
    rl_done done = {0};
    RL_TRY(rl_client_change(client, budget, NULL, true, RL_SQL_SECTION_SWAP, values, trace, &done,
                            err));
    return done.rows > 0 ? ROWLOCK_OK : why_not(client, budget, name, id, expected, owner, err);
}

rowlock_status rl_version_swap_in(const rl_caller *caller, rowlock_client *client,
                                  const rl_budget *budget, const char *name, uint64_t id,
                                  uint64_t expected, const char *owner, rowlock_error *err)
{
    const rl_value values[] = {rl_text(owner), rl_u64(id), rl_u64(expected), rl_text(caller->key)};
    rl_io io = rl_budget_lock_io(budget);
    uint64_t rows = 0;
    rowlock_status status =
        rl_caller_run(caller, RL_SQL_CALLER_SECTION_SWAP, values, &io, &rows, NULL, 0, err);
    /* Its procedure has rolled back what did not match. */
    if (status != ROWLOCK_OK || rows > 0 || !caller->via)
        status = rl_tx_outcome(caller, name, status, err);
    if (status != ROWLOCK_OK || rows > 0)
        return status;
    return why_not(client, budget, name, id, expected, owner, err);
}

/* ------------------------------------------------------------------------ the section */

typedef struct section_call {
    rowlock_client *client;
    const rl_budget *budget;
    const char *name;
    const rl_section_work *work;
    rl_caller caller; /* whose transaction it runs in, if it does */
    uint64_t node;    /* to which the client's connections led when that began */
    unsigned most;
    unsigned tries;  /* attempts, those that found a lease among them */
    unsigned redone; /* attempts that were not counted */
    rowlock_section_result result;
    rl_section_read read;
    char owner[ROWLOCK_OWNER_MAX + 1];
    uint64_t expected; /* of a swap whose reply was lost */
    rl_trace lost_request;
    bool open;
    bool in_use;      /* the last attempt found a lease, or a transaction */
    int64_t *hint_us; /* of this attempt: see rl_attempts */
} section_call;

/* Whatever the status is, no other attempt follows. */
static rowlock_status final(section_call *call, rowlock_status status)
{
    *call->hint_us = RL_FINAL;
    return status;
}

/* This attempt does not count as undone by another change. */
static void do_not_count(section_call *call)
{
    if (call->work->cheap && call->redone++ < REDONE_MOST)
        call->tries--;
}

/*
 * The reply to a swap was lost, and the server is done with it. If the row carries our owner id, it
 * was us; if it still is what we expected, or another client made the next version, it was not.
 * Anything further on hides the answer.
 */
static rowlock_status whose(section_call *call, rowlock_error *err)
{
    rl_seen seen;
    RL_TRY(rl_look(call->client, call->budget, call->read.id, call->name, RL_KIND_LEASE,
                   call->owner, &seen, err));
    bool found = seen.verdict != RL_VERDICT_GONE;
    call->open = false;
    if (found && seen.last_ours) {
        call->result.version = seen.version;
        return ROWLOCK_OK;
    }
    if (found && seen.version <= call->expected + 1) {
        if (seen.version <= call->expected)
            do_not_count(call);
        call->result.conflicts++;
        return rl_fail(err, ROWLOCK_BUSY, "'%s' was not changed", call->name);
    }
    return rl_fail(err, ROWLOCK_UNKNOWN,
                   "the reply to the change of '%s' was lost, and others changed it since",
                   call->name);
}

static rowlock_status settle(section_call *call, rowlock_error *err)
{
    if (call->lost_request.connection_id == 0)
        return rl_fail(err, ROWLOCK_UNKNOWN,
                       "the reply to the COMMIT with the change of '%s' was lost", call->name);
    RL_TRY(rl_settle(call->client, call->budget, &call->lost_request, err));
    return whose(call, err);
}

static rowlock_status command(const section_call *call, rl_sql_id id, rowlock_error *err)
{
    rl_io io = rl_io_until(RL_NEVER);
    uint64_t rows = 0;
    return rl_caller_run(&call->caller, id, NULL, &io, &rows, NULL, 0, err);
}

static rowlock_status begin(section_call *call, rowlock_error *err)
{
    if (!call->work->mysql)
        return ROWLOCK_OK;
    call->node = atomic_load(&call->client->pool.node);
    rowlock_status status = command(call, RL_SQL_CALLER_BEGIN, err);
    return status == ROWLOCK_UNKNOWN
               ? rl_fail(err, ROWLOCK_UNAVAILABLE, "the caller's connection is gone")
               : status;
}

static void undo(const section_call *call)
{
    if (call->work->mysql)
        (void)!command(call, RL_SQL_CALLER_ROLLBACK, NULL);
}

static rowlock_status work(const section_call *call, const rowlock_section *section)
{
    const rl_section_work *how = call->work;
    return how->mysql ? how->tx_fn(how->data, section, how->mysql) : how->fn(how->data, section);
}

/* In the caller's transaction, with its COMMIT. */
static rowlock_status swap_and_commit(section_call *call, uint64_t version, rl_trace *trace,
                                      rowlock_error *err)
{
    rowlock_status status =
        rl_version_swap_in(&call->caller, call->client, call->budget, call->name, call->read.id,
                           version, call->owner, err);
    /* Lost before the COMMIT was sent: the server rolls it back. */
    if (status == ROWLOCK_UNKNOWN)
        return final(call, rl_tx_gone(call->name, err));
    RL_TRY(status);
    bool ours = rl_caller_same_user(call->caller.mysql, call->client->user);
    *trace = (rl_trace){.connection_id = ours ? mysql_thread_id(call->caller.mysql) : 0,
                        .callers = true,
                        .node = call->node,
                        .sent_us = rl_now_us()};
    return command(call, RL_SQL_CALLER_COMMIT, err);
}

static rowlock_status swap(section_call *call, uint64_t version, rowlock_error *err)
{
    rl_trace trace = {0};
    rowlock_status status = call->work->mysql
                                ? swap_and_commit(call, version, &trace, err)
                                : swap_alone(call->client, call->budget, call->name, call->read.id,
                                             version, call->owner, &trace, err);
    if (status == ROWLOCK_OK)
        call->result.version = version + 1;
    if (status == ROWLOCK_OK || *call->hint_us == RL_FINAL)
        return status;
    if (status == ROWLOCK_UNKNOWN) {
        call->open = true;
        call->lost_request = trace;
        call->expected = version;
        return ROWLOCK_UNAVAILABLE;
    }
    undo(call);
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
    rowlock_status status = begin(call, err);
    if (status == ROWLOCK_BUSY) { /* stopped by KILL QUERY, before the work */
        call->result.attempts--;
        if (call->redone++ < REDONE_MOST)
            call->tries--;
        return status;
    }
    if (status != ROWLOCK_OK)
        return final(call, status);
    status = work(call, &section);
    if (status == ROWLOCK_OK)
        return swap(call, version, err);
    undo(call);
    /* The server undid the work to end a deadlock: that is a conflict like any other. */
    if (status == ROWLOCK_DEADLOCK) {
        call->result.conflicts++;
        return rl_fail(err, ROWLOCK_BUSY, "'%s': the work met a deadlock", call->name);
    }
    return final(call, rl_fail(err, status, "the work of the section on '%s' ended it: %s",
                               call->name, rowlock_status_text(status)));
}

static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    section_call *call = data;
    call->hint_us = hint_us;
    if (call->open)
        return settle(call, err);
    if (call->tries == call->most && call->in_use)
        return final(call, rl_fail(err, ROWLOCK_BUSY,
                                   "a lease on '%s' is held, or a transaction has it locked",
                                   call->name));
    if (call->tries == call->most)
        return rl_fail(err, ROWLOCK_CONFLICT,
                       "'%s' was changed by somebody else at each of %u attempts", call->name,
                       call->result.attempts);
    rowlock_status status = rl_version_read(call->client, call->budget, call->name, call->owner,
                                            &call->read, hint_us, err);
    /* Looks that wait for sessions of a lease's last holder are not counted as attempts. */
    const bool awaits_sessions = call->read.has_sessions && !call->work->cheap;
    call->in_use = status == ROWLOCK_BUSY && *hint_us != RL_AT_ONCE && !awaits_sessions;
    if (status == ROWLOCK_OK || call->in_use)
        call->tries++;
    RL_TRY(status);
    return work_and_swap(call, call->read.version, err);
}

static bool unsettled(const void *data)
{
    return ((const section_call *)data)->open;
}

rowlock_status rl_section_run(rowlock_client *client, const char *name,
                              const rowlock_section_options *options, const rl_section_work *work,
                              rowlock_section_result *result, rowlock_error *err)
{
    int64_t wait_ms = options->wait_ms ? options->wait_ms : ROWLOCK_WAIT_FOREVER;
    rl_budget budget = rl_budget_start(wait_ms, client->limit_ms, options->cancel);
    section_call call = {.client = client,
                         .budget = &budget,
                         .name = name,
                         .work = work,
                         .most = options->max_attempts ? options->max_attempts : DEFAULT_ATTEMPTS};
    if (work->mysql)
        call.caller = rl_tx_caller(client, work->mysql);
    rl_client_owner(client, call.owner);
    int64_t first_ms = options->backoff_ms ? options->backoff_ms : DEFAULT_DELAY_MS;
    int64_t most_ms = options->backoff_max_ms ? options->backoff_max_ms : DEFAULT_MOST_DELAY_MS;
    const rl_attempts how = {.budget = &budget,
                             .outage_us = client->outage_us,
                             .backoff = {.first_us = first_ms * 1000, .most_us = most_ms * 1000},
                             .unsettled = unsettled};
    rowlock_status status = rl_attempt_until(&how, attempt, &call, err);
    if (call.open && status != ROWLOCK_UNKNOWN)
        status = rl_fail(err, ROWLOCK_UNKNOWN,
                         "the reply to the change of '%s' was lost and the server cannot be asked",
                         name);
    if (result)
        *result = call.result;
    return status;
}
