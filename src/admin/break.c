#include "admin/admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/settle.h"
#include "kind/row.h"
#include "stmt/session.h"
#include "wait/backoff.h"

#define KILLED_WAIT_MS 500
#define BREAK_MOST     50
#define OPEN_LOOK_US   250000 /* between two looks at a broken lock that is still cooling */

/* The lock as it is found. */
typedef struct victim {
    char word[17];
    const rl_kind *kind;
    bool held;
    uint64_t id;
    uint64_t version;
    uint64_t connection_id;
    uint64_t readers;
    bool all_down; /* a latch: all have counted */
    bool in;       /* a barrier: it has members that have entered */
    int64_t held_us;
    int64_t cooling_us;
    char owner[ROWLOCK_OWNER_MAX + 1];
    char label[ROWLOCK_LABEL_MAX * 4 + 1];
} victim;

typedef struct breaking {
    rowlock_client *client;
    const char *name;
    const rowlock_break_options *options;
    bool vote;         /* a member's, on a lease of a quorum: of no other kind */
    const char *owner; /* ... which it has given to this one; NULL: to anyone, up to the token */
    rl_budget budget;
    victim v;
    rl_list *slots; /* to wait for */
} breaking;

static void keep_victim(void *data, const rl_cell *cells)
{
    victim *v = data;
    *v = (victim){.id = cells[0].u64,
                  .readers = cells[24].u64,
                  .all_down = cells[28].u64 >= cells[27].u64,
                  .in = cells[24].u64 > cells[28].u64,
                  .held = strcmp(cells[3].text, "held") == 0 || cells[24].u64 > 0,
                  .version = cells[4].u64,
                  .connection_id = cells[7].u64,
                  .held_us = cells[11].null ? 0 : cells[11].i64,
                  .cooling_us = cells[13].null ? 0 : cells[13].i64};
    snprintf(v->word, sizeof v->word, "%s", cells[2].text);
    /* While readers hold it, the row has the last writer's. */
    if (v->readers > 0)
        return;
    snprintf(v->owner, sizeof v->owner, "%s", cells[5].text);
    snprintf(v->label, sizeof v->label, "%s", cells[6].text);
}

static rowlock_status find_victim(const breaking *b, victim *v, rowlock_error *err)
{
    const rl_value values[] = {rl_text(b->name), rl_u64(1)};
    bool found = false;
    RL_TRY(rl_client_read(b->client, &b->budget, RL_SQL_LIST_NAME, values, keep_victim, v, &found,
                          err));
    if (!found)
        return rl_fail(err, ROWLOCK_NOT_FOUND, "there is no lock '%s'", b->name);
    return rl_kind_find(v->word, b->name, &v->kind, err);
}

/* Is the lock still as it was found? The connection may have released it since and hold another
 * lock by now, and a waiter may be the holder. */
static rowlock_status is_the_same(const breaking *b, bool *same, rowlock_error *err)
{
    victim now = {0};
    RL_TRY(find_victim(b, &now, err));
    *same = now.held && now.id == b->v.id && now.version == b->v.version &&
            now.connection_id == b->v.connection_id;
    return ROWLOCK_OK;
}

static rowlock_status changed_hands(const breaking *b, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_BUSY, "'%s' changed hands just now; look again", b->name);
}

/* ---------------------------------------------------------------------------- a lease */

static rowlock_status break_lease(const breaking *b, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(b->options->now), rl_u64(b->v.version), rl_u64(b->v.id)};
    rl_done done = {0};
    const bool votes = b->v.kind->listed == ROWLOCK_KIND_QUORUM;
    RL_TRY(rl_client_run(b->client, &b->budget, votes ? RL_SQL_QUORUM_BREAK : RL_SQL_LEASE_BREAK,
                         values, &done, err));
    if (done.rows == 0)
        return changed_hands(b, err);
    /* The old holder does not know yet, and will ring only when it does. */
    rl_bell_seize(&b->client->bells, &b->budget, b->v.id, b->v.connection_id);
    return ROWLOCK_OK;
}

/* Breaks all readers. The next writer, which may be waiting, has read another version and will look
 * again. */
static rowlock_status break_readers(const breaking *b, rowlock_error *err)
{
    const rl_value resource[] = {rl_u64(b->v.version), rl_u64(b->v.id)};
    const rl_value readers[] = {rl_u64(b->v.id), rl_u64(b->v.version)};
    rl_done done = {0};
    RL_TRY(rl_client_run(b->client, &b->budget, RL_SQL_SHARED_BREAK, resource, &done, err));
    if (done.rows == 0)
        return changed_hands(b, err);
    return rl_client_run(b->client, &b->budget,
                         b->options->now ? RL_SQL_SHARED_DROP_READERS : RL_SQL_SHARED_BREAK_READERS,
                         readers, &done, err);
}

/* Not held, but cooling: its time is not waited for. A break keeps it closed, unless that is to be
 * opened, too. */
static rowlock_status open_cooling(const breaking *b, bool *opened, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(b->options->now), rl_u64(b->v.version), rl_u64(b->v.id)};
    rl_done done = {0};
    victim now = {0};
    const bool votes = b->v.kind->listed == ROWLOCK_KIND_QUORUM;
    RL_TRY(rl_client_run(b->client, &b->budget, votes ? RL_SQL_QUORUM_OPEN : RL_SQL_LEASE_OPEN,
                         values, &done, err));
    *opened = done.rows > 0;
    if (*opened)
        return ROWLOCK_OK;
    RL_TRY(find_victim(b, &now, err));
    const bool same = !now.held && now.version == b->v.version && now.cooling_us > 0;
    return same && !b->options->now ? ROWLOCK_OK : changed_hands(b, err);
}

/* Its holder may open it before its time. */
static rowlock_status is_open(void *data, int64_t *hint_us, rowlock_error *err)
{
    const breaking *b = data;
    victim v = {0};
    rowlock_status status = find_victim(b, &v, err);
    if (status == ROWLOCK_NOT_FOUND || (status == ROWLOCK_OK && v.cooling_us <= 0 && !v.readers))
        return ROWLOCK_OK;
    RL_TRY(status);
    if (v.readers > 0)
        return rl_fail(
            err, ROWLOCK_BUSY,
            "broken readers of '%s' may still work; it is free when they have released it, or "
            "their time is over",
            b->name);
    *hint_us = v.cooling_us + 1000;
    return rl_fail(err, ROWLOCK_BUSY,
                   "'%s' is cooling for another %.3f s, or until its old holder has "
                   "ended",
                   b->name, (double)v.cooling_us / 1e6);
}

static rl_budget waiting_of(rowlock_client *client, const rowlock_break_options *options)
{
    return rl_budget_start(options->wait_ms, client->limit_ms, options->cancel);
}

static rl_attempts attempts_of(const rowlock_client *client, const rl_budget *budget)
{
    return (rl_attempts){.budget = budget,
                         .outage_us = client->outage_us,
                         .backoff = {.first_us = OPEN_LOOK_US, .most_us = OPEN_LOOK_US}};
}

rowlock_status rl_break_wait(rowlock_client *client, const char *name, const rl_budget *budget,
                             rowlock_error *err)
{
    breaking b = {.client = client, .name = name, .budget = *budget};
    const rl_attempts how = attempts_of(client, &b.budget);
    return rl_attempt_until(&how, is_open, &b, err);
}

/* ------------------------------------------------------------------------- a row lock */

static rowlock_status mark_free(const breaking *b, bool *freed, rowlock_error *err)
{
    return rl_row_expire(b->client, &b->budget, b->v.id, b->v.version, b->v.owner, freed, err);
}

/* The server takes a moment to roll back what it killed. */
static rowlock_status free_killed(void *data, int64_t *hint_us, rowlock_error *err)
{
    (void)hint_us;
    const breaking *b = data;
    bool freed = false;
    bool same = false;
    RL_TRY(mark_free(b, &freed, err));
    if (!freed)
        RL_TRY(is_the_same(b, &same, err));
    return same ? rl_fail(err, ROWLOCK_BUSY, "its row is still locked") : ROWLOCK_OK;
}

/* Best effort: the next holder does the same. */
static void wait_until_freed(const breaking *b)
{
    breaking after = *b;
    after.budget = rl_budget_start(KILLED_WAIT_MS, b->client->limit_ms, NULL);
    const rl_attempts how = {.budget = &after.budget,
                             .outage_us = KILLED_WAIT_MS * 1000,
                             .backoff = {.first_us = 1000, .most_us = 50000}};
    rowlock_status ignored = rl_attempt_until(&how, free_killed, &after, NULL);
    (void)ignored;
}

static void keep_answer(void *data, const rl_cell *cells)
{
    *(bool *)data = cells[0].u64 != 0;
}

/* A holder may have published a connection that is not its own: that is not ended. */
static rowlock_status check_whose(const breaking *b, rowlock_error *err)
{
    const rl_value values[] = {rl_text(b->v.label), rl_u64(b->v.connection_id)};
    bool theirs = false;
    bool found = false;
    RL_TRY(rl_client_read(b->client, &b->budget, RL_SQL_CONNECTION_IS_HOLDERS, values, keep_answer,
                          &theirs, &found, err));
    if (theirs)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_BUSY,
                   "connection %" PRIu64 ", which the holder of '%s' says is its own, is not one "
                   "of its user's, or cannot be seen without PROCESS; nothing was ended",
                   b->v.connection_id, b->name);
}

/*
 * Ends the holder's connection and marks its row free. Not if the row is not locked: the holder is
 * dead then, and the server may have given the connection's number to another client.
 */
static rowlock_status end_holder(const breaking *b, rowlock_error *err)
{
    bool same = false;
    RL_TRY(check_whose(b, err));
    RL_TRY(is_the_same(b, &same, err));
    if (!same)
        return changed_hands(b, err);
    rowlock_status status = rl_kill_connection(b->client, &b->budget, b->v.connection_id, err);
    if (status == ROWLOCK_DENIED)
        return rl_fail(err, status,
                       "the connection that holds the lock belongs to another user; break it as "
                       "that user, or GRANT CONNECTION ADMIN (on MySQL CONNECTION_ADMIN) ON *.* to "
                       "yours");
    if (status != ROWLOCK_OK && err->server_errno != RL_NO_SUCH_THREAD)
        return status;
    wait_until_freed(b);
    return ROWLOCK_OK;
}

static rowlock_status break_row(const breaking *b, rowlock_error *err)
{
    bool freed = false;
    /* At another node the same number is another client's connection. */
    RL_TRY(rl_row_check(b->client, err));
    RL_TRY(mark_free(b, &freed, err));
    return freed ? ROWLOCK_OK : end_holder(b, err);
}

/* -------------------------------------------------------------------------- the break */

/* Who it was and why, for the history. */
typedef char breaker[600];

static void say_breaker(breaker by, const char *prefix, const breaking *b)
{
    char label[RL_LABEL_IN_DETAIL];
    char reason[RL_LABEL_IN_DETAIL];
    rl_copy_label(label, sizeof label, b->client->label);
    rl_copy_label(reason, sizeof reason, b->options->reason);
    snprintf(by, sizeof(breaker), "%s%s%s%s", prefix, label, *reason ? ": " : "", reason);
}

/* By what its row says; of others it says something else. */
static bool is_held_by_one(const rl_kind *kind)
{
    return kind->listed == ROWLOCK_KIND_LEASE || kind->listed == ROWLOCK_KIND_ROW ||
           kind->listed == ROWLOCK_KIND_QUORUM;
}

static bool is_barrier(const breaking *b)
{
    return b->v.kind->listed == ROWLOCK_KIND_BARRIER;
}

/* A barrier's row has the generation that gathers: members that are in have the one before, or the
 * one that was asked for. */
static uint64_t broken_version(const breaking *b)
{
    if (!is_barrier(b) || !b->v.in)
        return b->v.version;
    return b->options->token ? b->options->token : b->v.version - 1;
}

/* Its own time was over already, where it is only opened. */
static void record_broken(const breaking *b)
{
    const bool by_one = is_held_by_one(b->v.kind);
    const bool known = b->v.held && by_one && b->v.readers == 0; /* of readers: the last writer's */
    breaker detail;
    say_breaker(detail, b->v.held || !by_one ? "by " : "opened by ", b);
    const rl_event event = {.name = b->name,
                            .kind = b->v.kind->word,
                            .event = "broken",
                            .version = broken_version(b),
                            .owner = b->v.owner,
                            .label = b->v.label,
                            .waited_ms = RL_UNKNOWN_MS,
                            .held_ms = known ? b->v.held_us / 1000 : RL_UNKNOWN_MS,
                            .detail = detail};
    rl_client_record(b->client, &event);
}

/* A cooling one is opened; where it was broken before, it is waited for. */
static rowlock_status not_held(const breaking *b, rowlock_error *err)
{
    const bool cooling = b->v.cooling_us > 0;
    bool opened = false;
    if (cooling)
        RL_TRY(open_cooling(b, &opened, err));
    if (opened)
        record_broken(b);
    if (opened || (cooling && b->options->wait_ms != 0))
        return ROWLOCK_OK;
    if (cooling)
        return rl_fail(err, ROWLOCK_BUSY,
                       "'%s' was broken, and its old holder may still work: it is cooling for "
                       "another %.3f s, or until that one has ended; --now opens it at once",
                       b->name, (double)b->v.cooling_us / 1e6);
    return rl_fail(err, ROWLOCK_BUSY, "'%s' is not held%s; there is nothing to break", b->name,
                   b->v.kind->of_connection ? " (as far as is published: an unfenced holder is not)"
                                            : "");
}

static breaking breaking_of(rowlock_client *client, const char *name,
                            const rowlock_break_options *options)
{
    return (breaking){.client = client,
                      .name = name,
                      .options = options,
                      .budget = rl_budget_start(0, client->limit_ms, NULL)};
}

static rowlock_status break_itself(breaking *b, rowlock_error *err);

/* Each slot that is held is a lock of its own. All are broken before any is waited for. */
static rowlock_status break_each(const breaking *b, const rl_list *slots, rowlock_error *err)
{
    bool broken = false;
    for (size_t i = 0; i < slots->count; i++) {
        breaking slot = breaking_of(b->client, rl_slot_at(slots, i), b->options);
        rowlock_status status = break_itself(&slot, err);
        if (status != ROWLOCK_OK && status != ROWLOCK_BUSY && status != ROWLOCK_NOT_FOUND)
            return status;
        broken |= status == ROWLOCK_OK;
    }
    if (broken)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_BUSY, "none of the slots of '%s' is held", b->name);
}

static rowlock_status break_slots(const breaking *b, rowlock_error *err)
{
    rl_list *slots = NULL;
    if (b->options->token)
        return rl_fail(err, ROWLOCK_BUSY,
                       "'%s' has slots, each with a token of its own; break the slot ('%s#0', ...)",
                       b->name, b->name);
    RL_TRY(rl_slots_there(b->client, b->name, false, &slots, err));
    rowlock_status status = break_each(b, slots, err);
    rl_list_free(slots);
    return status;
}

/* Who waits for it is told; a member hears of it when it counts. */
static rowlock_status break_latch(const breaking *b, rowlock_error *err)
{
    breaker by;
    char who[ROWLOCK_LABEL_MAX + 1];
    rl_done done = {0};
    if (!b->v.held || b->v.all_down)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' is not closed; there is nothing to break", b->name);
    say_breaker(by, "", b);
    rl_copy_label(who, sizeof who, by);
    const rl_value values[] = {rl_text(who), rl_u64(b->v.id), rl_u64(b->v.version)};
    RL_TRY(rl_client_run(b->client, &b->budget, RL_SQL_LATCH_BREAK, values, &done, err));
    if (done.rows == 0)
        return rl_fail(err, ROWLOCK_BUSY, "'%s' was opened or broken by another one just now",
                       b->name);
    return ROWLOCK_OK;
}

/* A barrier: its members that have entered are lost; without any, its number is forgotten. */
static rowlock_status break_barrier(const breaking *b, rowlock_error *err)
{
    const uint64_t generation = b->options->token;
    const rl_value values[] = {rl_u64(b->v.id), rl_u64(generation)};
    rl_done done = {0};
    RL_TRY(rl_client_run(b->client, &b->budget, RL_SQL_BARRIER_BREAK, values, &done, err));
    if (done.rows == 0 && generation)
        return rl_fail(err, ROWLOCK_BUSY,
                       "nobody of generation %" PRIu64 " is in '%s'; nothing was broken",
                       generation, b->name);
    if (done.rows == 0)
        RL_TRY(rl_client_run(b->client, &b->budget, RL_SQL_BARRIER_RESET, values, &done, err));
    if (done.rows > 0)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_BUSY, "nobody is in '%s'; there is nothing to break", b->name);
}

static rowlock_status break_held(const breaking *b, rowlock_error *err)
{
    if (b->v.kind->listed == ROWLOCK_KIND_LATCH)
        return break_latch(b, err);
    if (is_barrier(b))
        return break_barrier(b, err);
    if (b->v.kind->of_connection)
        return break_row(b, err);
    return b->v.readers ? break_readers(b, err) : break_lease(b, err);
}

static rowlock_status check_vote(const breaking *b, rowlock_error *err)
{
    if (b->v.kind->listed != ROWLOCK_KIND_QUORUM)
        return rl_fail(err, ROWLOCK_MODE, "'%s' is another kind of lock at a member", b->name);
    const uint64_t most = b->options->token;
    const bool later = most && b->v.held && b->v.version > most;
    if (b->owner ? strcmp(b->owner, b->v.owner) != 0 : later)
        return changed_hands(b, err);
    return ROWLOCK_OK;
}

static rowlock_status break_once(breaking *b, rowlock_error *err)
{
    uint64_t token = b->options->token;
    RL_TRY(find_victim(b, &b->v, err));
    if (b->vote)
        RL_TRY(check_vote(b, err));
    if (b->v.kind->listed == ROWLOCK_KIND_SLOTS)
        return break_slots(b, err);
    if (b->v.kind->listed == ROWLOCK_KIND_QUEUE)
        return rl_fail(err, ROWLOCK_UNSUPPORTED,
                       "'%s' is a queue, which nobody holds; `rowlock queue requeue` takes an item "
                       "from its worker",
                       b->name);
    if (token && token != b->v.version && !is_barrier(b) && !b->vote)
        return rl_fail(err, ROWLOCK_BUSY,
                       "'%s' has the token %" PRIu64 ", not %" PRIu64 "; nothing was broken",
                       b->name, b->v.version, token);
    if (!b->v.held && is_held_by_one(b->v.kind))
        return not_held(b, err);
    RL_TRY(break_held(b, err));
    record_broken(b);
    return ROWLOCK_OK;
}

/* The procedure does it all, the history too, with the rights of its definer. */
static rowlock_status break_by_procedure(const breaking *b, rowlock_error *err)
{
    breaker by;
    say_breaker(by, "", b);
    const rl_value values[] = {rl_text(b->name), rl_text(by), rl_u64(b->options->now),
                               rl_u64(b->options->token)};
    rl_done done = {0};
    rowlock_status status =
        rl_client_run(b->client, &b->budget, RL_SQL_VIA_BREAK, values, &done, err);
    if (status == ROWLOCK_DENIED && err->server_errno == RL_NOT_OWNER)
        return rl_fail(
            err, status,
            "the connection that holds the lock belongs to another user than who ran "
            "`rowlock init --procedures`, and who lacks CONNECTION ADMIN ON *.*; on MySQL "
            "CONNECTION_ADMIN, which ends none of a SYSTEM_USER's");
    return status;
}

/* DEADLOCK: on a cluster, a fence or a renewal at another node was committed first; nothing was
 * changed. */
static rowlock_status break_itself(breaking *b, rowlock_error *err)
{
    rowlock_status status = break_once(b, err);
    for (int i = 1; i < BREAK_MOST && status == ROWLOCK_DEADLOCK; i++)
        status = break_once(b, err);
    return status;
}

/* What there is to wait for: the lock, or its slots. */
static rowlock_status find_broken(void *data, int64_t *hint_us, rowlock_error *err)
{
    breaking *b = data;
    (void)hint_us;
    if (!b->v.kind)
        RL_TRY(find_victim(b, &b->v, err));
    if (b->v.kind->listed == ROWLOCK_KIND_SLOTS)
        return rl_slots_there(b->client, b->name, false, &b->slots, err);
    return ROWLOCK_OK;
}

static rowlock_status await_slots(breaking *b, const rl_budget *budget, rowlock_error *err)
{
    rowlock_status status = ROWLOCK_OK;
    for (size_t i = 0; i < b->slots->count && status == ROWLOCK_OK; i++)
        status = rl_break_wait(b->client, rl_slot_at(b->slots, i), budget, err);
    rl_list_free(b->slots);
    return status;
}

static rowlock_status await_open(breaking *b, rowlock_error *err)
{
    const rl_budget budget = waiting_of(b->client, b->options);
    const rl_attempts how = attempts_of(b->client, &budget);
    b->budget = budget;
    rowlock_status status = rl_attempt_until(&how, find_broken, b, err);
    if (status != ROWLOCK_OK || is_barrier(b))
        return status == ROWLOCK_NOT_FOUND ? ROWLOCK_OK : status;
    return b->slots ? await_slots(b, &budget, err)
                    : rl_break_wait(b->client, b->name, &budget, err);
}

rowlock_status rl_break(rowlock_client *client, const char *name,
                        const rowlock_break_options *options, rowlock_error *err)
{
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    breaking b = breaking_of(client, name, options);
    RL_TRY(rl_client_via(client) ? break_by_procedure(&b, err) : break_itself(&b, err));
    return options->wait_ms == 0 ? ROWLOCK_OK : await_open(&b, err);
}

rowlock_status rl_break_vote(rowlock_client *member, const char *name, const char *owner,
                             const rowlock_break_options *options, rowlock_error *err)
{
    breaking b = breaking_of(member, name, options);
    b.vote = true;
    b.owner = owner;
    return break_itself(&b, err);
}
