#include "keep/journal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "stmt/stmt.h"

#define QUEUE_LIMIT  10000
#define BATCH_LIMIT  500
#define GATHER_US    100000   /* events, from the first of a batch on */
#define ADD_UP_US    10000000 /* totals: all clients of a hot name write the same row */
#define TOTALS_CROWD 1000     /* so many names are written at once */

struct rl_journal_entry {
    rl_journal_entry *next;
    int64_t at_us;
    rl_event event; /* its strings are owned */
};

rowlock_status rl_journal_init(rl_journal *journal, bool off, int64_t least_us, rowlock_error *err)
{
    *journal = (rl_journal){.off = off, .least_us = least_us};
    journal->last = &journal->first;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    int failed = pthread_cond_init(&journal->written_more, &attributes);
    pthread_condattr_destroy(&attributes);
    if (!failed)
        failed = pthread_mutex_init(&journal->mutex, NULL);
    if (failed)
        return rl_fail(err, ROWLOCK_SYSTEM, "cannot make a mutex");
    return ROWLOCK_OK;
}

static void free_entry(rl_journal_entry *entry)
{
    rl_free_text(entry->event.name);
    rl_free_text(entry->event.owner);
    rl_free_text(entry->event.label);
    rl_free_text(entry->event.detail);
    free(entry);
}

static void free_entries(rl_journal_entry *entry)
{
    while (entry) {
        rl_journal_entry *next = entry->next;
        free_entry(entry);
        entry = next;
    }
}

void rl_journal_destroy(rl_journal *journal, bool forked)
{
    free_entries(journal->first);
    journal->first = NULL;
    rl_totals_free(&journal->totals);
    if (forked)
        return;
    pthread_cond_destroy(&journal->written_more);
    pthread_mutex_destroy(&journal->mutex);
}

/* `kind` and `event` are literals; the rest is copied. */
static rl_journal_entry *copy_event(const rl_event *event)
{
    rl_journal_entry *entry = calloc(1, sizeof *entry);
    if (!entry)
        return NULL;
    entry->at_us = event->at_us ? event->at_us : rl_now_us();
    entry->event = *event;
    entry->event.name = rl_strdup(event->name);
    entry->event.owner = rl_strdup(event->owner);
    entry->event.label = rl_strdup(event->label);
    entry->event.detail = rl_strdup(event->detail ? event->detail : "");
    if (!entry->event.name || !entry->event.owner || !entry->event.label || !entry->event.detail) {
        free_entry(entry);
        return NULL;
    }
    return entry;
}

static bool is_urgent(const rl_behind *behind)
{
    return behind->settled < behind->wanted;
}

/* With the mutex. */
static void settle(rl_journal *journal, rl_behind *behind, uint64_t count)
{
    behind->settled += count;
    pthread_cond_broadcast(&journal->written_more);
}

static void give_up(rl_journal *journal, rl_behind *behind, uint64_t count)
{
    journal->dropped += count;
    settle(journal, behind, count);
}

bool rl_journal_add(rl_journal *journal, const rl_event *event)
{
    if (journal->off)
        return false;
    rl_journal_entry *entry = copy_event(event);
    pthread_mutex_lock(&journal->mutex);
    bool wake = false;
    journal->events.added++;
    if (entry && journal->count < QUEUE_LIMIT) {
        *journal->last = entry;
        journal->last = &entry->next;
        journal->count++;
        if (journal->count == 1)
            journal->events_due_us = rl_now_us() + GATHER_US;
        wake = journal->count == 1 || journal->count == BATCH_LIMIT;
        entry = NULL;
    } else {
        give_up(journal, &journal->events, 1);
    }
    pthread_mutex_unlock(&journal->mutex);
    if (entry)
        free_entry(entry);
    return wake;
}

/* With the mutex. True: the time of the next write has changed. */
static bool add_total(rl_journal *journal, uint64_t identity, const rl_total *total)
{
    rl_totals *totals = &journal->totals;
    /* Another server's ids are other names'. */
    if (totals->identity != identity) {
        settle(journal, &journal->holds, totals->calls);
        rl_totals_free(totals);
        totals->identity = identity;
    }
    size_t before = totals->count;
    if (!rl_totals_add(totals, total)) {
        give_up(journal, &journal->holds, rl_total_calls(total));
        return false;
    }
    if (before == 0)
        journal->totals_due_us = rl_now_us() + ADD_UP_US;
    if (totals->count == TOTALS_CROWD)
        journal->totals_due_us = 0;
    return before != totals->count && (before == 0 || totals->count == TOTALS_CROWD);
}

bool rl_journal_count(rl_journal *journal, uint64_t identity, const rl_total *total)
{
    if (journal->off)
        return false;
    pthread_mutex_lock(&journal->mutex);
    journal->holds.added += rl_total_calls(total);
    bool wake = add_total(journal, identity, total);
    pthread_mutex_unlock(&journal->mutex);
    return wake;
}

int64_t rl_journal_due_us(rl_journal *journal)
{
    int64_t due = RL_NEVER;
    pthread_mutex_lock(&journal->mutex);
    if (journal->totals.count > 0)
        due = is_urgent(&journal->holds) ? 0 : journal->totals_due_us;
    if (journal->count > 0 && journal->events_due_us < due)
        due = journal->events_due_us;
    if (journal->count >= BATCH_LIMIT || (journal->count > 0 && is_urgent(&journal->events)))
        due = 0;
    pthread_mutex_unlock(&journal->mutex);
    return due;
}

/* ------------------------------------------------------------------------- writing */

static void member(rl_buffer *json, const char *before, const char *text)
{
    rl_buffer_puts(json, before);
    rl_json_string(json, text);
}

static void number_member(rl_buffer *json, const char *before, int64_t value, bool absent)
{
    rl_buffer_puts(json, before);
    if (absent)
        rl_buffer_puts(json, "null");
    else
        rl_json_i64(json, value);
}

static void event_json(rl_buffer *json, const rl_journal_entry *entry, int64_t now_us)
{
    const rl_event *event = &entry->event;
    member(json, "{\"name\":", event->name);
    member(json, ",\"kind\":", event->kind);
    member(json, ",\"event\":", event->event);
    rl_buffer_puts(json, ",\"version\":");
    rl_json_u64(json, event->version);
    member(json, ",\"owner\":", event->owner);
    member(json, ",\"label\":", event->label);
    number_member(json, ",\"age_us\":", now_us - entry->at_us, false);
    number_member(json, ",\"waited_ms\":", event->waited_ms, event->waited_ms < 0);
    number_member(json, ",\"held_ms\":", event->held_ms, event->held_ms < 0);
    number_member(json, ",\"exit_status\":", event->exit_status, !event->has_exit_status);
    member(json, ",\"detail\":", event->detail);
    rl_buffer_puts(json, "}");
}

/* Takes up to BATCH_LIMIT entries off the queue. */
static rl_journal_entry *take_batch(rl_journal *journal, size_t *taken)
{
    pthread_mutex_lock(&journal->mutex);
    rl_journal_entry *batch = journal->first;
    rl_journal_entry **end = &batch;
    *taken = 0;
    while (*end && *taken < BATCH_LIMIT) {
        end = &(*end)->next;
        ++*taken;
    }
    journal->first = *end;
    *end = NULL;
    if (!journal->first)
        journal->last = &journal->first;
    journal->count -= *taken;
    pthread_mutex_unlock(&journal->mutex);
    return batch;
}

static void put_back(rl_journal *journal, rl_journal_entry *batch, size_t taken)
{
    rl_journal_entry *end = batch;
    while (end->next)
        end = end->next;
    pthread_mutex_lock(&journal->mutex);
    end->next = journal->first;
    if (!journal->first)
        journal->last = &end->next;
    journal->first = batch;
    journal->count += taken;
    pthread_mutex_unlock(&journal->mutex);
}

static void settle_batch(rl_journal *journal, rl_behind *behind, uint64_t count, bool written)
{
    pthread_mutex_lock(&journal->mutex);
    if (written)
        settle(journal, behind, count);
    else
        give_up(journal, behind, count);
    pthread_mutex_unlock(&journal->mutex);
}

/* Not a connection that keeps many bells: its statements are slow. */
static const rl_request aside = {.pins = RL_PINS_NOT_LONG};

/* The first `count` of them, in one statement. */
static rowlock_status insert(rl_pool *pool, const rl_journal_entry *first, size_t count,
                             const rl_io *io, rowlock_error *err)
{
    RL_CLEANUP(rl_buffer_free) rl_buffer json = {0};
    int64_t now = rl_now_us();
    const rl_journal_entry *entry = first;
    for (size_t i = 0; i < count; i++, entry = entry->next) {
        rl_buffer_puts(&json, i == 0 ? "[" : ",");
        event_json(&json, entry, now);
    }
    rl_buffer_puts(&json, "]");
    if (json.failed)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    rl_done done = {0};
    RL_BORROWED conn = NULL;
    RL_TRY(rl_pool_take(pool, &aside, io, &conn, err));
    const rl_value values[] = {rl_text_n(json.text, json.length), rl_text(""), rl_u64(UINT64_MAX)};
    RL_TRY(rl_run(conn, RL_SQL_EVENT_ADD_MANY, values, io, &done, err));
    /* MariaDB's JSON_TABLE ends too early without an error when KILL QUERY meets it. */
    if (done.rows < count)
        return rl_fail(err, ROWLOCK_UNAVAILABLE, "the INSERT was stopped by somebody");
    return ROWLOCK_OK;
}

/*
 * Is it worth trying again later? UNKNOWN too: the batch may be in the table already and is then
 * there twice. An event that is there twice does less harm than one that is missing.
 */
static bool worth_keeping(rowlock_status status)
{
    return status == ROWLOCK_UNAVAILABLE || status == ROWLOCK_BUSY || status == ROWLOCK_DEADLOCK ||
           status == ROWLOCK_TIMEOUT || status == ROWLOCK_CANCELLED || status == ROWLOCK_READONLY ||
           status == ROWLOCK_UNKNOWN || status == ROWLOCK_SYSTEM;
}

/* Does it say something about the events, or would it be the same for any? */
static bool about_events(rowlock_status status)
{
    return status != ROWLOCK_DENIED && status != ROWLOCK_SCHEMA && status != ROWLOCK_UNSUPPORTED;
}

/* The server refuses something in the batch: one by one, only that is dropped. */
static rowlock_status write_singly(rl_journal *journal, rl_pool *pool, rl_journal_entry *batch,
                                   size_t taken, const rl_io *io, rowlock_error *err)
{
    while (batch) {
        rl_journal_entry *entry = batch;
        rowlock_status status = insert(pool, entry, 1, io, err);
        if (status != ROWLOCK_OK && worth_keeping(status)) {
            put_back(journal, batch, taken);
            return status;
        }
        batch = entry->next;
        taken--;
        free_entry(entry);
        settle_batch(journal, &journal->events, 1, status == ROWLOCK_OK);
    }
    return ROWLOCK_OK;
}

static rowlock_status write_events(rl_journal *journal, rl_pool *pool, const rl_io *io,
                                   rowlock_error *err)
{
    size_t taken = 0;
    rl_journal_entry *batch = take_batch(journal, &taken);
    if (!batch)
        return ROWLOCK_OK;
    rowlock_status status = insert(pool, batch, taken, io, err);
    if (status != ROWLOCK_OK && worth_keeping(status)) {
        put_back(journal, batch, taken);
        return status;
    }
    if (status != ROWLOCK_OK && taken > 1 && about_events(status))
        return write_singly(journal, pool, batch, taken, io, err);
    free_entries(batch);
    settle_batch(journal, &journal->events, taken, status == ROWLOCK_OK);
    return status;
}

/* What is due now; none: it has no slots. */
static rl_totals take_totals(rl_journal *journal)
{
    rl_totals taken = {0};
    pthread_mutex_lock(&journal->mutex);
    if (is_urgent(&journal->holds) || rl_now_us() >= journal->totals_due_us) {
        taken = journal->totals;
        journal->totals = (rl_totals){.identity = taken.identity};
    }
    pthread_mutex_unlock(&journal->mutex);
    return taken;
}

static void put_totals_back(rl_journal *journal, const rl_totals *totals)
{
    pthread_mutex_lock(&journal->mutex);
    if (journal->totals.count > 0 && journal->totals.identity != totals->identity)
        settle(journal, &journal->holds, totals->calls);
    else
        for (size_t i = 0; i < totals->capacity; i++)
            if (totals->slots[i].id != 0)
                (void)add_total(journal, totals->identity, &totals->slots[i]);
    journal->totals_due_us = 0; /* when the keeper tries again */
    pthread_mutex_unlock(&journal->mutex);
}

static rowlock_status insert_totals(rl_pool *pool, const rl_totals *totals, const rl_io *io,
                                    rowlock_error *err)
{
    RL_CLEANUP(rl_buffer_free) rl_buffer json = {0};
    rl_totals_json(totals, rl_now_us(), &json);
    if (json.failed)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    const rl_value values[] = {rl_text_n(json.text, json.length)};
    rl_done done = {0};
    RL_BORROWED conn = NULL;
    RL_TRY(rl_pool_take(pool, &aside, io, &conn, err));
    /* After a failover to a server that has other names; then the last counts are lost. */
    if (conn->server.identity != totals->identity)
        return ROWLOCK_OK;
    return rl_run(conn, RL_SQL_TOTAL_ADD_MANY, values, io, &done, err);
}

static rowlock_status write_totals(rl_journal *journal, rl_pool *pool, const rl_io *io,
                                   rowlock_error *err)
{
    rl_totals totals = take_totals(journal);
    rowlock_status status = totals.count > 0 ? insert_totals(pool, &totals, io, err) : ROWLOCK_OK;
    if (status != ROWLOCK_OK && worth_keeping(status))
        put_totals_back(journal, &totals);
    else
        settle_batch(journal, &journal->holds, totals.calls, status == ROWLOCK_OK);
    rl_totals_free(&totals);
    return status;
}

rowlock_status rl_journal_write(rl_journal *journal, rl_pool *pool, const rl_io *io,
                                rowlock_error *err)
{
    rowlock_status events = write_events(journal, pool, io, err);
    if (events != ROWLOCK_OK && worth_keeping(events))
        return events;
    rowlock_status totals = write_totals(journal, pool, io, events == ROWLOCK_OK ? err : NULL);
    return events == ROWLOCK_OK ? totals : events;
}

/* rl_now_us() is not the condition variable's clock; the distance is. */
static struct timespec monotonic_after(int64_t us)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    int64_t nanoseconds = at.tv_nsec + (us % 1000000) * 1000;
    at.tv_sec += us / 1000000 + nanoseconds / 1000000000;
    at.tv_nsec = nanoseconds % 1000000000;
    return at;
}

void rl_journal_hurry(rl_journal *journal)
{
    pthread_mutex_lock(&journal->mutex);
    journal->events.wanted = journal->events.added;
    journal->holds.wanted = journal->holds.added;
    pthread_mutex_unlock(&journal->mutex);
}

bool rl_journal_wait(rl_journal *journal, int64_t deadline_us, uint64_t *dropped)
{
    pthread_mutex_lock(&journal->mutex);
    const uint64_t events = journal->events.added;
    const uint64_t holds = journal->holds.added;
    uint64_t told = journal->told;
    while (journal->events.settled < events || journal->holds.settled < holds) {
        int64_t left = deadline_us == RL_NEVER ? 3600000000 : deadline_us - rl_now_us();
        if (left <= 0)
            break;
        struct timespec until = monotonic_after(left);
        pthread_cond_timedwait(&journal->written_more, &journal->mutex, &until);
    }
    bool settled = journal->events.settled >= events && journal->holds.settled >= holds;
    /* Of two that wait at once both are woken. */
    *dropped = journal->dropped - told;
    journal->told = journal->dropped;
    pthread_mutex_unlock(&journal->mutex);
    return settled;
}

void rl_journal_log_dropped(rl_journal *journal, const rl_log *log)
{
    pthread_mutex_lock(&journal->mutex);
    uint64_t dropped = journal->dropped - journal->logged;
    journal->logged = journal->dropped;
    pthread_mutex_unlock(&journal->mutex);
    if (dropped)
        rl_log_line(log, ROWLOCK_LOG_WARNING,
                    "events, or counted holds, that are missing in the history: %" PRIu64, dropped);
}
