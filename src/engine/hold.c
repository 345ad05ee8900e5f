#include "engine/hold.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_name(const void *a, const void *b)
{
    return strcmp(((const rl_lock *)a)->name, ((const rl_lock *)b)->name);
}

/* Byte order, the same for every caller. A name that is given twice is kept once, and exclusively
 * if either asked for that. */
static void sort_locks(rowlock_hold *hold)
{
    if (hold->count == 1)
        return;
    qsort(hold->locks, hold->count, sizeof *hold->locks, by_name);
    size_t kept = 0;
    for (size_t i = 0; i < hold->count; i++) {
        if (!kept || strcmp(hold->locks[kept - 1].name, hold->locks[i].name) != 0)
            hold->locks[kept++] = hold->locks[i];
        else
            hold->locks[kept - 1].shared &= hold->locks[i].shared;
    }
    hold->count = kept;
}

/* One block: the hold, its locks, what is asked of them, their names. */
static rowlock_hold *make_hold(const char *const names[], size_t count,
                               const rowlock_acquire_options *options)
{
    size_t size = sizeof(rowlock_hold) + count * (sizeof(rl_lock) + sizeof(rl_askable));
    for (size_t i = 0; i < count; i++)
        size += strlen(names[i]) + 1;
    rowlock_hold *hold = calloc(1, size);
    if (!hold)
        return NULL;
    hold->count = count;
    hold->locks = (rl_lock *)(hold + 1);
    hold->held.asks = (rl_askable *)(hold->locks + count);
    char *at = (char *)(hold->held.asks + count);
    for (size_t i = 0; i < count; i++) {
        hold->locks[i].name = at;
        hold->locks[i].shared = options->share ? options->share[i] : options->shared;
        at = stpcpy(at, names[i]) + 1;
    }
    sort_locks(hold);
    return hold;
}

uint64_t rl_this_thread(void)
{
    static atomic_uint_fast64_t threads;
    static _Thread_local uint64_t number;
    if (number == 0)
        number = atomic_fetch_add(&threads, 1) + 1;
    return number;
}

/* ------------------------------------------------------------------------- the history */

static const char *kind_of(const rowlock_hold *hold)
{
    if (hold->member == RL_LATCH_MEMBER || hold->member == RL_LATCH_COUNTED)
        return RL_KIND_LATCH;
    if (hold->member != RL_NO_MEMBER)
        return RL_KIND_BARRIER;
    if (hold->client->quorum)
        return RL_KIND_QUORUM;
    return hold->mode == ROWLOCK_PESSIMISTIC ? RL_KIND_ROW : RL_KIND_LEASE;
}

/* It gathers, and enters again; or it has counted, and its part is done. Its loss is not recorded,
 * and no callback is called. */
static bool has_nothing_to_lose(const rowlock_hold *hold)
{
    return hold->member == RL_BARRIER_GATHERING || hold->member == RL_LATCH_COUNTED;
}

/* One event for each of its names; `detail` may be NULL. */
static void record(rowlock_hold *hold, const char *event, int64_t at_us, int64_t held_ms,
                   const rowlock_release_options *options, const char *detail)
{
    for (size_t i = 0; i < hold->count; i++) {
        const rl_event entry = {.name = hold->locks[i].name,
                                .kind = kind_of(hold),
                                .event = event,
                                .version = hold->locks[i].version,
                                .owner = hold->owner,
                                .label = hold->client->label,
                                .at_us = at_us,
                                .waited_ms = hold->waited_us / 1000,
                                .held_ms = held_ms,
                                .has_exit_status = options && options->has_exit_status,
                                .exit_status = options ? options->exit_status : 0,
                                .detail = detail};
        rl_client_record(hold->client, &entry);
    }
}

/* Once: by the keeper when the hold has lasted for a while, or by the thread that records its end.
 */
static void tell_begin(rowlock_hold *hold, const char *detail)
{
    if (hold->member != RL_BARRIER_GATHERING && !atomic_exchange(&hold->begin_told, true))
        record(hold, hold->taken_over ? "taken_over" : "acquired", hold->acquired_us, RL_UNKNOWN_MS,
               NULL, detail);
}

static void tell_long(rl_held *held)
{
    tell_begin((rowlock_hold *)held, NULL);
}

/* Another caller may hold the lock before the release returns. */
static int64_t end_of(const rowlock_hold *hold)
{
    return hold->ended_us ? hold->ended_us : rl_now_us();
}

static void tell_end(rowlock_hold *hold, const char *event, const rowlock_release_options *options,
                     const char *detail)
{
    int64_t at_us = end_of(hold);
    tell_begin(hold, NULL);
    record(hold, event, at_us, (at_us - hold->acquired_us) / 1000, options, detail);
}

static rl_outcome outcome_of(const rowlock_hold *hold, const rowlock_release_options *options,
                             bool lost)
{
    if (lost)
        return RL_FAILURE;
    if (options && options->has_exit_status)
        return options->exit_status == 0 ? RL_SUCCESS : RL_FAILURE;
    return hold->outcome;
}

/* Of a lease: the last renewal's distance from its end, too, which is what a loss comes from. */
static int64_t longest_gap(const rowlock_hold *hold)
{
    const int64_t last_us = end_of(hold) - hold->held.renewed_us;
    if (hold->mode == ROWLOCK_PESSIMISTIC)
        return 0;
    return last_us > hold->held.gap_us ? last_us : hold->held.gap_us;
}

static void count(rowlock_hold *hold, const rowlock_release_options *options, bool lost)
{
    const int64_t ended_us = end_of(hold);
    const int64_t held_us = ended_us - hold->acquired_us;
    const rl_outcome outcome = outcome_of(hold, options, lost);
    const int64_t gap_us = longest_gap(hold);
    for (size_t i = 0; i < hold->count; i++) {
        const rl_total total = {.id = hold->locks[i].id,
                                .holds = 1,
                                .lost = lost,
                                .taken_over = hold->taken_over,
                                .waited_us = hold->waited_us,
                                .waited_most_us = hold->waited_us,
                                .held_us = held_us,
                                .held_most_us = held_us,
                                .failed = outcome == RL_FAILURE,
                                .ok_at_us = outcome == RL_SUCCESS ? ended_us : 0,
                                .ok_us = held_us,
                                .bad_at_us = outcome == RL_FAILURE ? ended_us : 0,
                                .bad_has_exit = options && options->has_exit_status,
                                .bad_exit = options ? options->exit_status : 0,
                                .gap_us = gap_us,
                                .gap_part = (uint64_t)(gap_us * 1000 / hold->held.ttl_us)};
        rl_client_count(hold->client, hold->locks[i].name, hold->held.identity, &total);
    }
}

void rl_hold_saw_frozen(rowlock_hold *hold, bool frozen)
{
    hold->frozen = frozen;
    if (hold->whole)
        hold->whole->frozen = frozen;
}

void rl_hold_no_work(rowlock_hold *hold)
{
    hold->outcome = RL_NO_WORK;
    for (size_t i = 0; hold->parts && i < hold->parts->count; i++)
        if (hold->parts->list[i])
            hold->parts->list[i]->outcome = RL_NO_WORK;
}

void rl_hold_was_released(rowlock_hold *hold, const rowlock_release_options *options)
{
    const rl_journal *journal = &hold->client->journal;
    bool is_job = options->has_exit_status || *options->note;
    if (journal->off)
        return;
    count(hold, options, false);
    if (is_job || atomic_load(&hold->begin_told) ||
        end_of(hold) - hold->acquired_us >= journal->least_us)
        tell_end(hold, "released", options, options->note);
}

/* A set of leases, and slots, know the ids of their parts alone, which are gone by now. */
static uint64_t id_of(const rowlock_hold *hold, const rl_lock *lock)
{
    uint64_t id = lock->id;
    if (id == 0)
        (void)rl_resource_recall(hold->client, lock->name,
                                 hold->slots ? RL_KIND_SLOTS : kind_of(hold), &id);
    return id;
}

void rl_hold_was_refused(rowlock_hold *hold, const rl_budget *budget, rowlock_status status,
                         const char *detail)
{
    if (hold->client->journal.off)
        return;
    hold->waited_us = rl_now_us() - budget->start_us;
    /* A token that was seen, or got and given back, is not one of this call's. */
    for (size_t i = 0; i < hold->count; i++) {
        const rl_total total = {.id = id_of(hold, &hold->locks[i]), .refused = 1};
        hold->locks[i].version = 0;
        if (total.id != 0 || hold->client->quorum)
            rl_client_count(hold->client, hold->locks[i].name,
                            atomic_load(&hold->client->pool.identity), &total);
    }
    record(hold, status == ROWLOCK_BUSY ? "refused" : "gave_up", 0, RL_UNKNOWN_MS, NULL, detail);
}

void rl_hold_was_left(rowlock_hold *hold)
{
    if (!hold->client->journal.off)
        tell_begin(hold, NULL);
}

void rl_hold_was_lost(rowlock_hold *hold, const rowlock_release_options *options,
                      const char *reason)
{
    if (hold->client->journal.off || has_nothing_to_lose(hold))
        return;
    count(hold, options, true);
    tell_end(hold, "lost", options, reason);
}

/* ---------------------------------------------------------------------------- a loss */

static void tell_holder(rl_held *held, const char *reason)
{
    rowlock_hold *hold = (rowlock_hold *)held;
    if (has_nothing_to_lose(hold))
        return;
    hold->told = true;
    /* The holder may release it much later. */
    rl_bell_give_up(&hold->client->bells, &hold->bell, hold->locks[0].id);
    rl_hold_was_lost(hold, NULL, reason);
    rl_log_line(&hold->client->log, ROWLOCK_LOG_WARNING, "'%s' is lost: %s", hold->locks[0].name,
                reason);
    if (hold->on_lost)
        hold->on_lost(hold->on_lost_data, hold, reason);
}

/* ------------------------------------------------------------------------ to be asked */

static bool keep_asked(rowlock_hold *hold, const char *name, const rl_ask *ask)
{
    pthread_mutex_lock(&hold->client->mutex);
    if (!hold->asked)
        hold->asked = malloc(sizeof *hold->asked);
    if (hold->asked) {
        *hold->asked = *ask;
        hold->asked_name = name;
    }
    bool kept = hold->asked != NULL;
    pthread_mutex_unlock(&hold->client->mutex);
    return kept;
}

static void describe_ask(const char *name, const rl_ask *ask, rowlock_asked *out)
{
    const int64_t left_us = ask->stop_us - rl_now_us();
    *out = (rowlock_asked){.name = name, .left_ms = left_us > 0 ? left_us / 1000 : 0};
    memcpy(out->by, ask->by, sizeof out->by);
    memcpy(out->reason, ask->reason, sizeof out->reason);
    memcpy(out->asked_at, ask->asked_at, sizeof out->asked_at);
    memcpy(out->stop_by, ask->stop_by, sizeof out->stop_by);
}

/* Of what is held as one, the whole is asked, once the caller has it. */
static bool tell_asked(rl_held *held, size_t i, const rl_ask *ask)
{
    rowlock_hold *part = (rowlock_hold *)held;
    rowlock_hold *hold = part->whole ? part->whole : part;
    const char *name = part->locks[i].name;
    const bool early = hold->parts && atomic_load(&hold->parts->state) < RL_PARTS_HELD;
    if (early || !keep_asked(hold, name, ask))
        return false;
    rowlock_asked asked;
    describe_ask(name, ask, &asked);
    if (hold->on_ask)
        hold->on_ask(hold->on_ask_data, hold, &asked);
    else
        rl_log_line(&hold->client->log, ROWLOCK_LOG_INFO, "'%s' is asked to stop, by %s%s%s", name,
                    ask->by, *ask->reason ? ": " : "", ask->reason);
    return true;
}

bool rl_hold_asked(rowlock_hold *hold, rowlock_asked *asked)
{
    pthread_mutex_lock(&hold->client->mutex);
    const bool is_asked = hold->asked != NULL;
    if (is_asked && asked)
        describe_ask(hold->asked_name, hold->asked, asked);
    pthread_mutex_unlock(&hold->client->mutex);
    return is_asked;
}

/* An ask that names another token was for another hold. */
static void can_be_asked(rowlock_hold *hold)
{
    rl_held *held = &hold->held;
    held->ask_count = hold->count;
    for (size_t i = 0; i < hold->count; i++)
        if (held->asks[i].version != hold->locks[i].version)
            held->asks[i] =
                (rl_askable){.id = hold->locks[i].id, .version = hold->locks[i].version};
}

/* ---------------------------------------------------------------------------- a hold */

/* A lease is granted for no longer than it may be held; margin and renewals go by that, too. */
static int64_t ttl_us_of(const rowlock_acquire_options *options)
{
    bool is_shorter = options->mode == ROWLOCK_OPTIMISTIC && options->max_hold_ms > 0 &&
                      options->max_hold_ms < options->ttl_ms;
    return (is_shorter ? options->max_hold_ms : options->ttl_ms) * 1000;
}

rowlock_status rl_hold_new(rowlock_client *client, const char *const names[], size_t count,
                           const rowlock_acquire_options *options, rowlock_hold **out,
                           rowlock_error *err)
{
    rowlock_hold *hold = make_hold(names, count, options);
    if (!hold)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    hold->client = client;
    hold->mode = options->mode;
    hold->unfenced = options->unfenced;
    hold->shared = hold->count == 1 && hold->locks[0].shared;
    hold->held.kept = hold->shared ? RL_KEPT_SHARED : RL_KEPT_ALONE;
    hold->slots = options->slots != 0;
    hold->reentrant = options->reentrant;
    hold->thread = rl_this_thread();
    hold->depth = 1;
    hold->at_least_us = options->at_least_ms * 1000;
    hold->on_lost = options->on_lost;
    hold->on_lost_data = options->on_lost_data;
    hold->on_ask = options->on_ask;
    hold->on_ask_data = options->on_ask_data;
    hold->held.ttl_us = ttl_us_of(options);
    hold->held.end_us = RL_NEVER;
    hold->held.long_at_us = RL_NEVER;
    hold->held.look_at_us = RL_NEVER;
    hold->held.on_ask = tell_asked;
    hold->held.on_long = tell_long;
    hold->held.on_lost = tell_holder;
    atomic_store(&hold->held.event_fd, -1);
    rl_client_owner(client, hold->owner);
    hold->held.owner = hold->owner;
    *out = hold;
    return ROWLOCK_OK;
}

/* The history hears of it at once, or when it has been held for long. */
static void note_begin(rowlock_hold *hold, const rl_budget *budget, const char *taken_over)
{
    const rl_journal *journal = &hold->client->journal;
    hold->acquired_us = rl_now_us();
    hold->waited_us = hold->acquired_us - budget->start_us;
    hold->taken_over = taken_over != NULL;
    if (taken_over || journal->least_us == 0)
        tell_begin(hold, taken_over);
    else if (!journal->off)
        hold->held.long_at_us = hold->acquired_us + journal->least_us;
}

void rl_hold_begin(rowlock_hold *hold, const rl_budget *budget, const char *taken_over)
{
    rowlock_client *client = hold->client;
    note_begin(hold, budget, taken_over);
    hold->held.resource_id = hold->locks[0].id;
    hold->held.version = hold->locks[0].version;
    can_be_asked(hold);
    if (hold->held.conn && hold->on_ask && !hold->unfenced)
        hold->held.look_at_us = rl_held_next_look(&hold->held, hold->acquired_us);
    pthread_mutex_lock(&client->mutex);
    hold->next = client->holds;
    if (client->holds)
        client->holds->previous = hold;
    client->holds = hold;
    pthread_mutex_unlock(&client->mutex);
    rl_keeper_add(&client->keeper, &hold->held);
}

void rl_hold_leave_alone(rowlock_hold *hold)
{
    (void)rl_keeper_remove(&hold->client->keeper, &hold->held);
}

/* A loss is told once. */
void rl_hold_keep_again(rowlock_hold *hold)
{
    if (!hold->told)
        rl_keeper_add(&hold->client->keeper, &hold->held);
}

void rl_hold_entered(rowlock_hold *hold, const rl_budget *budget)
{
    rl_hold_leave_alone(hold);
    hold->member = RL_BARRIER_MEMBER;
    note_begin(hold, budget, NULL);
    rl_hold_keep_again(hold);
}

void rl_hold_changed(rowlock_hold *hold, int64_t sent_us)
{
    rl_hold_leave_alone(hold);
    hold->held.kept = hold->shared ? RL_KEPT_SHARED : RL_KEPT_ALONE;
    hold->held.version = hold->locks[0].version;
    can_be_asked(hold);
    if (!rl_hold_lost(hold))
        rl_held_start(&hold->held, sent_us, hold->held.ttl_us);
    rl_hold_keep_again(hold);
}

void rl_hold_give_up(rowlock_hold *hold)
{
    rl_hold_leave_alone(hold);
    atomic_store(&hold->held.deadline_us, rl_now_us());
    rl_hold_keep_again(hold);
}

void rl_hold_end(rowlock_hold *hold)
{
    rowlock_client *client = hold->client;
    int64_t now = rl_now_us();
    /* Waits for a callback about a loss that is running: only then no other thread uses the hold.
     */
    bool untold = rl_keeper_remove(&client->keeper, &hold->held);
    hold->ended_us = now;
    /* The history has every loss, also one that its release overtook. */
    if (untold)
        rl_hold_was_lost(hold, NULL, hold->held.reason);
    pthread_mutex_lock(&client->mutex);
    if (hold->previous)
        hold->previous->next = hold->next;
    else if (client->holds == hold)
        client->holds = hold->next;
    if (hold->next)
        hold->next->previous = hold->previous;
    hold->next = hold->previous = NULL;
    pthread_mutex_unlock(&client->mutex);
}

void rl_hold_free(rowlock_hold *hold)
{
    if (!hold)
        return;
    int fd = atomic_load(&hold->held.event_fd);
    if (hold->client && fd >= 0 && !hold->whole)
        close(fd);
    free(hold->parts);
    free(hold->key);
    free(hold->asked);
    free(hold);
}

/* One lost means all. */
static bool part_lost(const rl_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        if (parts->list[i] && rl_hold_lost(parts->list[i]))
            return true;
    return false;
}

bool rl_hold_lost(const rowlock_hold *hold)
{
    if (hold->parts)
        return part_lost(hold->parts);
    /* To look is to decide (rl_held_over()); no hold was made constant. */
    return atomic_load(&hold->held.lost) || rl_held_over((rl_held *)(uintptr_t)&hold->held);
}

bool rl_hold_keeps_sessions(const rowlock_hold *hold)
{
    const rowlock_hold *whole = hold->whole ? hold->whole : hold;
    return whole->keep_sessions || rl_hold_lost(hold);
}
