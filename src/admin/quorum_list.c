/*
 * What a quorum's client sees of locks: each member lists its own, and a lock is held by an owner
 * that more than half of them name. Asked of one member alone: the waiters, who stand in line
 * there, and the history, which each of them has.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "admin/quorum.h"
#include "base/name.h"
#include "kind/members.h"

#define PATIENCE_US 250000

/* What the members have answered so far; those that hang answer when nobody listens any more. */
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

/* Where each list is being read. */
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

/* Of those at which the owner holds it, the one at which as many others hold it for longer as are
 * needed. NULL: they are fewer than a majority. */
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

static bool has_it(const rowlock_info *info, const char *owner, uint64_t token)
{
    return (!owner || is_held(info, owner)) && info->token >= token;
}

/* As many of the owner's votes as are needed have the token, or a later version: one that was given
 * late, or again. Of a lock that nobody has, the highest of all. */
static uint64_t token_of(const rowlock_info *const infos[], size_t count, size_t needed,
                         const char *owner)
{
    uint64_t token = 0;
    for (size_t i = 0; i < count; i++) {
        size_t votes = 0;
        for (size_t j = 0; j < count; j++)
            votes += has_it(infos[j], owner, infos[i]->token);
        if (votes >= needed && has_it(infos[i], owner, token))
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
    info->token =
        held ? token_of(infos, count, needed, held->owner) : token_of(infos, count, 1, NULL);
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
    return ROWLOCK_OK;
}

static rowlock_status merge(const answers *a, rowlock_list *to, rowlock_error *err)
{
    merging m = {.a = a};
    const size_t limit = a->options.limit ? a->options.limit : 1000;
    for (const char *name; to->all.count < limit && (name = next_name(&m));) {
        const rowlock_info *infos[ROWLOCK_MEMBERS_MAX];
        size_t count = 0;
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

static rowlock_status read_merged(rowlock_client *client, answers *a, rowlock_list *to,
                                  rowlock_error *err)
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
    rowlock_status status = merge(a, to, err);
    if (status == ROWLOCK_OK && a->name && to->all.count == 0)
        status = rl_fail(err, a->found ? ROWLOCK_MODE : ROWLOCK_NOT_FOUND,
                         a->found ? "'%s' is no lease of a quorum"
                                  : "there is no lock '%s' (it was never used, or is purged)",
                         a->name);
    pthread_mutex_unlock(&a->mutex);
    return status;
}

rowlock_status rl_quorum_list(rowlock_client *client, const char *name,
                              const rowlock_list_options *options, rowlock_list **out,
                              rowlock_error *err)
{
    answers *a = new_answers(client->quorum, name, options);
    rowlock_list *to = a ? rl_list_new(client, sizeof *to, sizeof(rowlock_info), err) : NULL;
    rowlock_status status =
        to ? read_merged(client, a, to, err) : rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    if (a)
        drop_answers(a);
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

/* Its token is known to a majority alone. */
static rowlock_status check_token(rowlock_client *client, const char *name, uint64_t token,
                                  rowlock_error *err)
{
    rowlock_list *list = NULL;
    if (!token)
        return ROWLOCK_OK;
    RL_TRY(rl_quorum_list(client, name, &(rowlock_list_options){.all = true}, &list, err));
    const rowlock_info *info = rl_list_at(&list->all, 0);
    const uint64_t has = info->token;
    rl_list_free(list);
    return has == token
               ? ROWLOCK_OK
               : rl_fail(err, ROWLOCK_BUSY,
                         "'%s' has the token %" PRIu64 ", not %" PRIu64 "; nothing was broken",
                         name, has, token);
}

rowlock_status rl_quorum_break(rowlock_client *client, const char *name,
                               const rowlock_break_options *options, rowlock_error *err)
{
    rl_members *members = client->quorum;
    rowlock_break_options at_once = *options;
    rowlock_status worst = ROWLOCK_OK;
    size_t broken = 0;
    at_once.wait_ms = 0;
    at_once.token = 0;
    RL_TRY(check_token(client, name, options->token, err));
    for (size_t i = 0; i < members->count; i++) {
        rowlock_status status = rl_break_vote(members->all[i].client, name, &at_once, err);
        broken += status == ROWLOCK_OK;
        if (status != ROWLOCK_OK)
            worst = status;
    }
    if (broken <= members->count / 2)
        return worst;
    at_once.wait_ms = options->wait_ms;
    for (size_t i = 0; i < members->count && options->wait_ms != 0; i++)
        if (!atomic_load(&members->all[i].client->away)) {
            rowlock_status status = rl_break_vote(members->all[i].client, name, &at_once, err);
            if (status != ROWLOCK_OK && status != ROWLOCK_BUSY && status != ROWLOCK_NOT_FOUND &&
                status != ROWLOCK_MODE)
                return status;
        }
    return ROWLOCK_OK;
}
