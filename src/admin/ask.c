/* Asks the holder of a lock to stop, and waits until it has. See sql/ask.sql. */
#include "admin/admin.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/hold.h"
#include "engine/kind.h"
#include "wait/backoff.h"

#define TRIES         3 /* where the reply was lost, or the lock changed hands just then */
#define LOOK_FIRST_US 20000
#define LOOK_MOST_US  1000000

/* One lock. */
typedef struct asking {
    rowlock_client *client;
    const char *name;
    const rowlock_ask_options *options;
    rl_budget budget;
    uint64_t version; /* of the holder that was asked; 0: none was */
    bool of_connection;
} asking;

static rowlock_status nobody(const char *name, bool of_connection, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_NOT_FOUND, "nobody holds '%s'%s", name,
                   of_connection ? ", as far as is published; an unfenced holder is not published, "
                                   "and cannot be asked"
                                 : "");
}

static rowlock_status cannot_be_asked(const rowlock_info *info, rowlock_error *err)
{
    if (info->kind == ROWLOCK_KIND_QUORUM)
        return rl_fail(err, ROWLOCK_MODE,
                       "'%s' is a lease of a quorum, whose holder cannot be asked", info->name);
    return rl_fail(err, ROWLOCK_MODE, "'%s' is a %s, which has no holder to ask%s", info->name,
                   info->kind == ROWLOCK_KIND_LATCH     ? "latch"
                   : info->kind == ROWLOCK_KIND_BARRIER ? "barrier"
                                                        : "queue",
                   info->kind == ROWLOCK_KIND_QUEUE ? "" : "; `rowlock break` ends it");
}

/* ------------------------------------------------------------------------------ the ask */

/* Sent again after a lost reply: with the same owner it is the same ask. */
static rowlock_status put(const asking *a, uint64_t seen, bool *done, rowlock_error *err)
{
    char owner[ROWLOCK_OWNER_MAX + 1];
    rl_client_owner(a->client, owner);
    const rl_value values[] = {rl_text(owner),
                               rl_text(a->client->label),
                               rl_text(a->options->reason),
                               rl_u64((uint64_t)a->options->grace_ms * 1000),
                               rl_text(a->name),
                               rl_u64(seen)};
    rowlock_status status = ROWLOCK_OK;
    bool unsure = false;
    for (int i = 0; i < TRIES; i++) {
        rl_done rows = {0};
        status = rl_client_run(a->client, &a->budget, RL_SQL_ASK_PUT, values, &rows, err);
        *done = rows.rows > 0;
        if (status == ROWLOCK_OK && unsure && !*done)
            return rl_fail(err, ROWLOCK_UNKNOWN,
                           "the reply was lost, and '%s' has changed hands since: its previous "
                           "holder may have been asked",
                           a->name);
        unsure |= status == ROWLOCK_UNKNOWN;
        if (status != ROWLOCK_UNKNOWN && status != ROWLOCK_UNAVAILABLE &&
            status != ROWLOCK_DEADLOCK)
            return status;
    }
    if (unsure && err)
        err->status = ROWLOCK_UNKNOWN;
    return unsure ? ROWLOCK_UNKNOWN : status;
}

/* "1m30s", "250ms" */
static void say_grace(char *text, size_t size, int64_t ms)
{
    if (ms % 1000)
        snprintf(text, size, "%" PRId64 "ms", ms);
    else if (ms % 60000)
        snprintf(text, size, "%" PRId64 "s", ms / 1000);
    else
        snprintf(text, size, "%" PRId64 "m", ms / 60000);
}

static void record(const asking *a, const rowlock_info *info)
{
    char label[RL_LABEL_IN_DETAIL];
    char grace[32];
    char detail[2 * RL_LABEL_IN_DETAIL + 64];
    rl_copy_label(label, sizeof label, a->client->label);
    say_grace(grace, sizeof grace, a->options->grace_ms);
    snprintf(detail, sizeof detail, "by %s, within %s%s%s", label, grace,
             *a->options->reason ? ": " : "", a->options->reason);
    const rl_event event = {.name = a->name,
                            .kind = a->of_connection ? RL_KIND_ROW : RL_KIND_LEASE,
                            .event = "asked",
                            .version = a->version,
                            .owner = info->owner,
                            .label = info->owner_label,
                            .waited_ms = RL_UNKNOWN_MS,
                            .held_ms = info->held_ms,
                            .detail = detail};
    rl_client_record(a->client, &event);
}

/* *done: the holder that was seen was asked, and no other one. */
static rowlock_status ask_holder(asking *a, const rowlock_info *info, bool *done,
                                 rowlock_error *err)
{
    a->version = info->token;
    a->of_connection = info->kind == ROWLOCK_KIND_ROW;
    /* (A row lock without a token: its holder is not published.) */
    if (info->state != ROWLOCK_HELD || info->token == 0)
        return nobody(a->name, a->of_connection, err);
    RL_TRY(put(a, info->token, done, err));
    if (*done)
        record(a, info);
    return ROWLOCK_OK;
}

/* ----------------------------------------------------------------------------- the wait */

static void keep_held(void *data, const rl_cell *cells)
{
    *(bool *)data = cells[0].u64 != 0;
}

/* A row lock whose connection has ended is published all the same: the list looks at its row. */
static rowlock_status look_at_row(const asking *a, bool *held, rowlock_error *err)
{
    static const rowlock_list_options any = {0};
    rowlock_list *list = NULL;
    rowlock_status status = rl_catalog_list(a->client, a->name, &any, &list, err);
    if (status == ROWLOCK_NOT_FOUND)
        return ROWLOCK_OK;
    RL_TRY(status);
    const rowlock_info *info = rowlock_list_at(list, 0);
    *held = info->token == a->version && info->state == ROWLOCK_HELD;
    rowlock_list_free(list);
    return ROWLOCK_OK;
}

static rowlock_status look_at_lease(const asking *a, bool *held, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(a->version), rl_text(a->name)};
    bool found = false;
    RL_TRY(rl_client_read(a->client, &a->budget, RL_SQL_ASK_PENDING, values, keep_held, held,
                          &found, err));
    return found ? ROWLOCK_OK
                 : rl_fail(err, ROWLOCK_UNAVAILABLE, "somebody stopped the look at '%s'", a->name);
}

static rowlock_status has_ended(void *data, int64_t *hint_us, rowlock_error *err)
{
    const asking *a = data;
    bool held = false;
    (void)hint_us;
    RL_TRY(a->of_connection ? look_at_row(a, &held, err) : look_at_lease(a, &held, err));
    if (!held)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_BUSY, "the holder that was asked still holds '%s'", a->name);
}

static rowlock_status await_end(asking *a, const rl_budget *budget, rowlock_error *err)
{
    a->budget = *budget;
    const rl_attempts how = {.budget = budget,
                             .outage_us = a->client->outage_us,
                             .backoff = {.first_us = LOOK_FIRST_US, .most_us = LOOK_MOST_US}};
    return rl_attempt_until(&how, has_ended, a, err);
}

/* ---------------------------------------------------------------------------- altogether */

typedef struct found {
    rowlock_list *list;
    const rowlock_info *info;
} found;

static rowlock_status find(rowlock_client *client, const char *name, found *it, rowlock_error *err)
{
    static const rowlock_list_options any = {0};
    rowlock_list_free(it->list);
    it->list = NULL;
    RL_TRY(rl_catalog_list(client, name, &any, &it->list, err));
    it->info = rowlock_list_at(it->list, 0);
    return ROWLOCK_OK;
}

static rowlock_status changed_hands(const char *name, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_BUSY, "'%s' changed hands just now; look again", name);
}

static rowlock_status ask_one(asking *a, found *it, rowlock_error *err)
{
    bool done = false;
    for (int i = 0; i < TRIES; i++) {
        RL_TRY(ask_holder(a, it->info, &done, err));
        if (done)
            return ROWLOCK_OK;
        RL_TRY(find(a->client, a->name, it, err));
    }
    return changed_hands(a->name, err);
}

/* Each slot is a lock of its own. A holder that has let it go meanwhile need not be asked:
 * NOT_FOUND; BUSY: another one has it now. */
static rowlock_status ask_slot(asking *a, found *it, rowlock_error *err)
{
    RL_TRY(find(a->client, a->name, it, err));
    rowlock_status status = ask_one(a, it, err);
    if (status != ROWLOCK_OK)
        a->version = 0;
    return status;
}

/* OK: one at least was asked. */
static rowlock_status ask_slots(asking *all, size_t count, const char *name, rowlock_error *err)
{
    found it = {0};
    rowlock_status status = ROWLOCK_OK;
    bool asked = false;
    bool changed = false;
    for (size_t i = 0; i < count; i++) {
        status = ask_slot(&all[i], &it, err);
        asked = asked || status == ROWLOCK_OK;
        changed = changed || status == ROWLOCK_BUSY;
        if (status != ROWLOCK_OK && status != ROWLOCK_BUSY && status != ROWLOCK_NOT_FOUND)
            break;
        status = ROWLOCK_OK;
    }
    rowlock_list_free(it.list);
    if (status != ROWLOCK_OK || asked)
        return status;
    return changed ? changed_hands(name, err)
                   : rl_fail(err, ROWLOCK_NOT_FOUND, "nobody holds a slot of '%s'", name);
}

static rowlock_status ask_all(const asking *whole, const rl_list *slots, const rl_budget *budget,
                              rowlock_error *err)
{
    const size_t count = slots->count;
    asking *all = calloc(count + 1, sizeof *all);
    if (!all)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    for (size_t i = 0; i < count; i++) {
        all[i] = *whole;
        all[i].name = rl_slot_at(slots, i);
    }
    rowlock_status status = ask_slots(all, count, whole->name, err);
    for (size_t i = 0; i < count && status == ROWLOCK_OK && budget; i++)
        if (all[i].version)
            status = await_end(&all[i], budget, err);
    free(all);
    return status;
}

static rowlock_status ask_name_with_slots(const asking *whole, const rl_budget *budget,
                                          rowlock_error *err)
{
    rl_list *slots = NULL;
    RL_TRY(rl_slots_there(whole->client, whole->name, false, &slots, err));
    rowlock_status status = ask_all(whole, slots, budget, err);
    rl_list_free(slots);
    return status;
}

/* `wait` NULL: does not wait for the end. */
static rowlock_status ask(asking *a, found *it, const rl_budget *wait, rowlock_error *err)
{
    RL_TRY(find(a->client, a->name, it, err));
    if (it->info->kind == ROWLOCK_KIND_SLOTS)
        return ask_name_with_slots(a, wait, err);
    if (it->info->kind != ROWLOCK_KIND_LEASE && it->info->kind != ROWLOCK_KIND_ROW)
        return cannot_be_asked(it->info, err);
    RL_TRY(ask_one(a, it, err));
    return wait ? await_end(a, wait, err) : ROWLOCK_OK;
}

rowlock_status rl_ask_to_stop(rowlock_client *client, const char *name,
                              const rowlock_ask_options *options, rowlock_error *err)
{
    rl_budget wait = rl_budget_start(options->wait_ms, client->limit_ms, options->cancel);
    asking a = {.client = client,
                .name = name,
                .options = options,
                .budget = rl_budget_start(0, client->limit_ms, NULL)};
    found it = {0};
    rowlock_status status = ask(&a, &it, options->wait_ms ? &wait : NULL, err);
    rowlock_list_free(it.list);
    return status;
}
