/*
 * The locks that a quorum's client lists: each member lists its own, and a lock is held by an owner
 * that more than half of them name. The waiters, which stand in line at one member, and the
 * history, which each member writes for itself, are read from one member alone. (The command reads
 * the history of each.)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/quorum.h"
#include "base/name.h"
#include "kind/members.h"

#define PATIENCE_US 250000

/* What the members have answered so far. Members that hang may answer when the call has ended. */
typedef struct answers {
    atomic_uint users;
    rl_members *members;
    char *name; /* of the one lock that is looked at; NULL: all */
    rowlock_list_options options;
    char *after;
    char *prefix;
    pthread_mutex_t mutex; /* guards what follows */
    rowlock_list *lists[ROWLOCK_MEMBERS_MAX];
    size_t good; /* OK, or there is no such name */
    bool found;
} answers;

static void keep_answers(void *data)
{
    atomic_fetch_add(&((answers *)data)->users, 1);
}

static void drop_answers(void *data)
{
    answers *a = data;
    if (atomic_fetch_sub(&a->users, 1) > 1)
        return;
    for (size_t i = 0; i < ROWLOCK_MEMBERS_MAX; i++)
        rl_list_free(a->lists[i]);
    pthread_mutex_destroy(&a->mutex);
    free(a->name);
    free(a->after);
    free(a->prefix);
    free(a);
}

static rowlock_status ask_for_list(const rl_asking *asking, rowlock_status reached,
                                   rowlock_error *err)
{
    answers *a = asking->data;
    rowlock_list *list = NULL;
    RL_TRY(reached);
    rowlock_status status = rl_catalog_list(asking->members->all[asking->member].client, a->name,
                                            &a->options, &list, err);
    pthread_mutex_lock(&a->mutex);
    a->lists[asking->member] = list;
    a->good += status == ROWLOCK_OK || status == ROWLOCK_NOT_FOUND;
    a->found |= status == ROWLOCK_OK;
    pthread_mutex_unlock(&a->mutex);
    return status == ROWLOCK_NOT_FOUND ? ROWLOCK_OK : status;
}

static size_t good_answers(answers *a)
{
    pthread_mutex_lock(&a->mutex);
    const size_t good = a->good;
    pthread_mutex_unlock(&a->mutex);
    return good;
}

static bool have_answered(void *data)
{
    answers *a = data;
    return good_answers(a) > a->members->count / 2;
}

/* -------------------------------------------------------------------------- one lock of all */

/* The place at which each list is read. */
typedef struct merging {
    const answers *a;
    size_t at[ROWLOCK_MEMBERS_MAX];
} merging;

static const rowlock_info *info_of(const merging *m, size_t i)
{
    return m->a->lists[i] ? rl_list_at(&m->a->lists[i]->all, m->at[i]) : NULL;
}

/* The first in byte order of those that have not been merged yet; NULL: none. */
static const char *next_name(const merging *m)
{
    const char *first = NULL;
    for (size_t i = 0; i < m->a->members->count; i++) {
        const rowlock_info *info = info_of(m, i);
        if (info && (!first || strcmp(info->name, first) < 0))
            first = info->name;
    }
    return first;
}

static bool is_held(const rowlock_info *info, const char *owner)
{
    return info->state == ROWLOCK_HELD && strcmp(info->owner, owner) == 0;
}

/* The lock as a majority holds it for the owner: at the `needed`-th member, the longest lease
 * first. NULL: the owner has no majority. */
static const rowlock_info *held_by(const rowlock_info *const infos[], size_t count, size_t needed,
                                   const char *owner)
{
    for (size_t i = 0; i < count; i++) {
        size_t longer = 0;
        for (size_t j = 0; j < count && is_held(infos[i], owner); j++)
            longer += is_held(infos[j], owner) &&
                      (infos[j]->remaining_ms > infos[i]->remaining_ms ||
                       (infos[j]->remaining_ms == infos[i]->remaining_ms && j <= i));
        if (longer == needed)
            return infos[i];
    }
    return NULL;
}

static const rowlock_info *holding(const rowlock_info *const infos[], size_t count, size_t needed)
{
    for (size_t i = 0; i < count; i++) {
        const rowlock_info *found =
            infos[i]->state == ROWLOCK_HELD ? held_by(infos, count, needed, infos[i]->owner) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

static rowlock_state state_of(const rowlock_info *const infos[], size_t count, size_t needed)
{
    size_t cooling = 0;
    size_t expired = 0;
    for (size_t i = 0; i < count; i++) {
        cooling += infos[i]->state == ROWLOCK_COOLING;
        expired += infos[i]->state == ROWLOCK_EXPIRED;
    }
    return cooling >= needed ? ROWLOCK_COOLING : expired >= needed ? ROWLOCK_EXPIRED : ROWLOCK_FREE;
}

static const char *kept(rowlock_list *to, const char *text)
{
    return rl_texts_keep(&to->all.texts, text);
}

/* The token: the version that a majority has given the owner, or one above it. (A single member
 * that came late, or came back, may have a higher one.) If the lock is free, the highest of all. */
static uint64_t token_of(const rowlock_info *const infos[], size_t count, size_t needed,
                         const char *owner)
{
    uint64_t token = 0;
    for (size_t i = 0; i < count; i++) {
        size_t reach_it = 0;
        for (size_t j = 0; j < count; j++)
            reach_it += (!owner || is_held(infos[j], owner)) && infos[j]->token >= infos[i]->token;
        if (reach_it >= (owner ? needed : 1) && infos[i]->token > token)
            token = infos[i]->token;
    }
    return token;
}

static rowlock_status add_lock(rowlock_list *to, const rowlock_info *const infos[], size_t count,
                               const answers *a, rowlock_error *err)
{
    const size_t needed = a->members->count / 2 + 1;
    const rowlock_info *held = holding(infos, count, needed);
    const rowlock_state state = held ? ROWLOCK_HELD : state_of(infos, count, needed);
    if (state == ROWLOCK_FREE && !a->options.all && !a->name)
        return ROWLOCK_OK;
    const rowlock_info *from = held ? held : infos[0];
    rowlock_info *info = rl_list_add(&to->all, err);
    if (!info)
        return ROWLOCK_SYSTEM;
    *info = *from;
    info->state = state;
    info->token = token_of(infos, count, needed, held ? held->owner : NULL);
    info->held_ms = held ? from->held_ms : -1;
    info->remaining_ms = state == from->state ? from->remaining_ms : -1;
    info->name = kept(to, from->name);
    info->owner = kept(to, from->owner);
    info->owner_label = kept(to, from->owner_label);
    info->acquired_at = kept(to, from->acquired_at);
    info->expires_at = kept(to, state == from->state ? from->expires_at : "");
    info->description = kept(to, from->description);
    info->totals.first_at = kept(to, from->totals.first_at);
    info->totals.last_at = kept(to, from->totals.last_at);
    info->totals.succeeded_at = kept(to, from->totals.succeeded_at);
    info->totals.failed_at = kept(to, from->totals.failed_at);
    info->value = info->asked_at = info->asked_by = info->asked_why = info->stop_by = "";
    info->period_start = info->period_end = info->period_state = "";
    info->frozen_until = kept(to, from->frozen_until);
    info->frozen_by = kept(to, from->frozen_by);
    info->frozen_why = kept(to, from->frozen_why);
    info->sessions = kept(to, from->sessions);
    return ROWLOCK_OK;
}

/* Where the first list ends that is full: names behind that are not merged, since the member may
 * have them, too. NULL: no list is full. */
static const char *end_of_lists(const answers *a)
{
    const char *end = NULL;
    for (size_t i = 0; i < a->members->count; i++) {
        const rl_list *list = a->lists[i] ? &a->lists[i]->all : NULL;
        const rowlock_info *last =
            list && list->count >= a->options.limit ? rl_list_at(list, list->count - 1) : NULL;
        if (last && (!end || strcmp(last->name, end) < 0))
            end = last->name;
    }
    return end;
}

/* Merges as far as all lists go, or until there are as many as are wanted. */
static rowlock_status merge(const answers *a, const char *end, rowlock_list *to, rowlock_error *err)
{
    merging m = {.a = a};
    for (const char *name; to->all.count < a->options.limit && (name = next_name(&m));) {
        const rowlock_info *infos[ROWLOCK_MEMBERS_MAX];
        size_t count = 0;
        if (end && strcmp(name, end) > 0)
            break;
        for (size_t i = 0; i < a->members->count; i++) {
            const rowlock_info *info = info_of(&m, i);
            if (!info || strcmp(info->name, name) != 0)
                continue;
            m.at[i]++;
            if (info->kind == ROWLOCK_KIND_QUORUM)
                infos[count++] = info;
        }
        if (count > 0)
            RL_TRY(add_lock(to, infos, count, a, err));
    }
    return to->all.texts.failed ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory") : ROWLOCK_OK;
}

/* -------------------------------------------------------------------------------- the call */

static answers *new_answers(rl_members *members, const char *name,
                            const rowlock_list_options *options)
{
    answers *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    atomic_init(&a->users, 1);
    pthread_mutex_init(&a->mutex, NULL);
    a->members = members;
    a->options = *options;
    a->options.after = a->after = rl_strdup(options->after);
    a->options.prefix = a->prefix = rl_strdup(options->prefix);
    a->name = rl_strdup(name);
    if ((options->after && !a->after) || (options->prefix && !a->prefix) || (name && !a->name)) {
        drop_answers(a);
        return NULL;
    }
    return a;
}

typedef char list_end[ROWLOCK_NAME_MAX * 4 + 1];

/* `end`: after which name it goes on; "": that is all. */
static rowlock_status read_merged(rowlock_client *client, answers *a, rowlock_list *to,
                                  list_end end, rowlock_error *err)
{
    rl_members *members = client->quorum;
    const rl_inquiry inquiry = {.ask = ask_for_list,
                                .data = a,
                                .keep = keep_answers,
                                .done = drop_answers,
                                .patience_us = PATIENCE_US,
                                .limit_us = client->limit_ms * 1000};
    const rl_budget budget = rl_budget_start(0, client->limit_ms, NULL);
    const rl_io io = rl_budget_quick_io(&budget);
    unsigned asked = 0;
    rl_round *round = rl_round_begin(members, RL_ALL_MEMBERS, &inquiry, &asked);
    if (!round)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory or descriptors");
    (void)!rl_round_wait(round, have_answered, &io);
    rl_round_end(round);
    if (!have_answered(a))
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "only %zu of %zu members answer, and %zu are needed", good_answers(a),
                       members->count, members->count / 2 + 1);
    pthread_mutex_lock(&a->mutex);
    const char *last = end_of_lists(a);
    snprintf(end, sizeof(list_end), "%s", last ? last : "");
    rowlock_status status = merge(a, last, to, err);
    if (status == ROWLOCK_OK && a->name && to->all.count == 0)
        status = rl_fail(err, a->found ? ROWLOCK_MODE : ROWLOCK_NOT_FOUND,
                         a->found ? "'%s' is no lease of a quorum"
                                  : "there is no lock '%s' (it was never used, or is purged)",
                         a->name);
    pthread_mutex_unlock(&a->mutex);
    return status;
}

/* Names that no majority has held are left out, so that one round may be too little. */
static rowlock_status read_pages(rowlock_client *client, const char *name,
                                 const rowlock_list_options *given, rowlock_list *to,
                                 rowlock_error *err)
{
    rowlock_list_options options = *given;
    list_end end = "";
    rowlock_status status = ROWLOCK_OK;
    options.limit = options.limit ? options.limit : 1000;
    do {
        answers *a = new_answers(client->quorum, name, &options);
        if (!a)
            return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
        status = read_merged(client, a, to, end, err);
        drop_answers(a);
        options.after = end;
    } while (status == ROWLOCK_OK && *end && to->all.count < options.limit);
    return status;
}

rowlock_status rl_quorum_list(rowlock_client *client, const char *name,
                              const rowlock_list_options *options, rowlock_list **out,
                              rowlock_error *err)
{
    rowlock_list *to = rl_list_new(client, sizeof *to, sizeof(rowlock_info), err);
    if (!to)
        return ROWLOCK_SYSTEM;
    rowlock_status status = read_pages(client, name, options, to, err);
    if (status == ROWLOCK_OK)
        *out = to;
    else
        rl_list_free(to);
    return status;
}

rowlock_client *rl_quorum_spokesman(rowlock_client *client)
{
    const rl_members *members = client->quorum;
    if (!members)
        return client;
    const size_t first = rl_members_first(client->quorum);
    return members->all[first < members->count ? first : 0].client;
}

/* ----------------------------------------------------------------------------------- break */

typedef struct breaking {
    const char *name;
    const rowlock_break_options *options;
    char owner[ROWLOCK_OWNER_MAX + 1]; /* of the lease that is to be broken; "": any */
    rowlock_status status[ROWLOCK_MEMBERS_MAX];
    rowlock_error why[ROWLOCK_MEMBERS_MAX];
} breaking;

/* Finds the owner of the token, whose lease is broken at each member: a member may have given it
 * another version. */
static rowlock_status find_owner(rowlock_client *client, breaking *b, rowlock_error *err)
{
    const rowlock_list_options all = {.all = true};
    const uint64_t token = b->options->token;
    rowlock_list *list = NULL;
    RL_TRY(rl_quorum_list(client, b->name, &all, &list, err));
    const rowlock_info *info = rl_list_at(&list->all, 0);
    const rowlock_status status =
        info->token == token
            ? ROWLOCK_OK
            : rl_fail(err, ROWLOCK_BUSY,
                      "'%s' has the token %" PRIu64 ", not %" PRIu64 "; nothing was broken",
                      b->name, info->token, token);
    if (info->state == ROWLOCK_HELD)
        snprintf(b->owner, sizeof b->owner, "%s", info->owner);
    rl_list_free(list);
    return status;
}

static rowlock_status break_at(const rl_asking *asking, rowlock_status reached, rowlock_error *err)
{
    breaking *b = asking->data;
    const size_t i = asking->member;
    b->status[i] = reached;
    if (reached == ROWLOCK_OK)
        b->status[i] = rl_break_vote(asking->members->all[i].client, b->name,
                                     *b->owner ? b->owner : NULL, b->options, err);
    b->why[i] = *err;
    const bool answered = b->status[i] == ROWLOCK_BUSY || b->status[i] == ROWLOCK_NOT_FOUND ||
                          b->status[i] == ROWLOCK_MODE || b->status[i] == ROWLOCK_DENIED;
    return answered ? ROWLOCK_OK : b->status[i];
}

/* Waits until the lock is free at a majority: then another owner can have it. */
static rowlock_status wait_at_all(rl_members *members, const breaking *b, rowlock_error *err)
{
    const rl_budget budget =
        rl_budget_start(b->options->wait_ms, members->all[0].client->limit_ms, b->options->cancel);
    rowlock_status last = ROWLOCK_OK;
    size_t open = 0;
    for (size_t i = 0; i < members->count && open <= members->count / 2; i++) {
        if (b->status[i] != ROWLOCK_OK)
            continue;
        rowlock_status status = rl_break_wait(members->all[i].client, b->name, &budget, err);
        open += status == ROWLOCK_OK;
        last = status == ROWLOCK_OK ? last : status;
    }
    return open > members->count / 2 ? ROWLOCK_OK : last;
}

rowlock_status rl_quorum_break(rowlock_client *client, const char *name,
                               const rowlock_break_options *options, rowlock_error *err)
{
    rl_members *members = client->quorum;
    breaking b = {.name = name, .options = options};
    const rl_inquiry question = {
        .ask = break_at, .data = &b, .all = true, .limit_us = client->limit_ms * 1000};
    const rl_io io = rl_io_until(RL_NEVER);
    unsigned asked = 0;
    size_t broken = 0;
    size_t last = 0;
    if (options->token)
        RL_TRY(find_owner(client, &b, err));
    rl_round *round = rl_round_begin(members, RL_ALL_MEMBERS, &question, &asked);
    if (!round)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory or descriptors");
    (void)!rl_round_wait(round, NULL, &io);
    rl_round_end(round);
    for (size_t i = 0; i < members->count; i++) {
        broken += b.status[i] == ROWLOCK_OK;
        last = b.status[i] == ROWLOCK_OK ? last : i;
    }
    if (broken > members->count / 2)
        return options->wait_ms == 0 ? ROWLOCK_OK : wait_at_all(members, &b, err);
    if (err)
        *err = b.why[last];
    return b.status[last];
}
