/*
 * The list of a quorum's members: each of them has it (migrations/0011_quorum.sql).
 *
 * A member that has no list, or another one, has no vote. One that gets the list later than the
 * others, or anew, first gets a floor as high as the highest version of a majority without it: one
 * of those has the token of each holder that it may have forgotten. And it abstains until no lease
 * that it may have forgotten can be running.
 *
 * To replace the list, the old one is closed at a majority of its members, so that it never has a
 * majority again; then its last leases end; then the new list is written, at these members only in
 * place of the old one.
 */
#include "admin/quorum.h"

#include <stdlib.h>
#include <string.h>

#include "base/sha256.h"
#include "kind/members.h"
#include "wait/backoff.h"

#define CLOSING_US 2000000 /* beyond the longest TTL, for a request that was under way */

/* ------------------------------------------------------------------------------- looking */

static const char *const states[] = {
    [ROWLOCK_MEMBER_NONE] = "none",     [ROWLOCK_MEMBER_STRANGE] = "strange",
    [ROWLOCK_MEMBER_CLOSED] = "closed", [ROWLOCK_MEMBER_ABSTAINING] = "abstaining",
    [ROWLOCK_MEMBER_VOTING] = "voting",
};

static rowlock_member_state state_of(const char *word)
{
    for (size_t i = ROWLOCK_MEMBER_NONE; i < sizeof states / sizeof states[0]; i++)
        if (states[i] && strcmp(states[i], word) == 0)
            return (rowlock_member_state)i;
    return ROWLOCK_MEMBER_AWAY;
}

static void keep_standing(void *data, const rl_cell *cells)
{
    rl_standing *s = data;
    s->shown.state = state_of(cells[0].text);
    s->listed = s->shown.state >= ROWLOCK_MEMBER_CLOSED;
    s->closed = s->shown.state == ROWLOCK_MEMBER_CLOSED;
    s->shown.left_ms =
        s->shown.state == ROWLOCK_MEMBER_ABSTAINING ? (cells[1].i64 + 999) / 1000 : 0;
    s->shown.list = rl_texts_keep(&s->texts, cells[2].text);
    s->shown.list_number = (unsigned)cells[3].u64;
    s->shown.list_count = (unsigned)cells[4].u64;
    s->members = rl_texts_keep(&s->texts, cells[5].text);
    s->shown.server = rl_texts_keep(&s->texts, cells[6].text);
    s->shown.ttl_most_ms = (int64_t)(cells[7].u64 / 1000);
    s->shown.durable = cells[8].u64 != 0;
    s->shown.version = cells[9].u64;
    s->stopped = cells[9].null;
    s->shown.status = ROWLOCK_OK;
}

static void keep_replicates(void *data, const rl_cell *cells)
{
    *(bool *)data = cells[0].u64 > 0;
}

/* 1049, 1146: there is nothing in which it could have a list. One of another version may have one.
 */
static bool has_nothing(rowlock_status status, const rowlock_error *why)
{
    return status == ROWLOCK_SCHEMA && (why->server_errno == 1049 || why->server_errno == 1146);
}

static rowlock_status read_one(const rl_asking *asking, rowlock_status reached, rowlock_error *err)
{
    rowlock_quorum *quorum = asking->data;
    rl_standing *s = &quorum->all[asking->member];
    rowlock_client *client = asking->members->all[asking->member].client;
    rowlock_status status = reached;
    bool found = false;
    if (status == ROWLOCK_OK)
        status = rl_client_read(client, asking->budget, RL_SQL_MEMBER_GET, NULL, keep_standing, s,
                                &found, err);
    if (status == ROWLOCK_OK && !found)
        status = rl_fail(err, ROWLOCK_DAMAGED, "the table version_floor has lost its row");
    /* (A subquery that a KILL QUERY meets may say nothing, without an error.) */
    if (status == ROWLOCK_OK && (s->stopped || s->shown.state == ROWLOCK_MEMBER_AWAY))
        status = rl_fail(err, ROWLOCK_UNAVAILABLE, "somebody stopped the look at a member");
    /* Not every user may see it; the doctor says so. */
    if (status == ROWLOCK_OK)
        (void)!rl_client_read(client, asking->budget, RL_SQL_DOCTOR_REPLICA, NULL, keep_replicates,
                              &s->replicates, &found, NULL);
    s->cluster = rl_pool_cluster(&client->pool);
    s->why = *err;
    s->shown.status = status;
    if (status != ROWLOCK_OK)
        s->shown.state = has_nothing(status, err) ? ROWLOCK_MEMBER_NONE : ROWLOCK_MEMBER_AWAY;
    return status;
}

/* Its list was written there, and not taken from it since. */
static bool has_list(const rl_standing *s)
{
    return s->listed;
}

static bool is_with(const rl_standing *s, const char *list)
{
    return has_list(s) && strcmp(s->shown.list, list) == 0;
}

/* The first name by which that server was reached. */
static size_t first_of_server(const rowlock_quorum *quorum, size_t i)
{
    const char *server = quorum->all[i].shown.server;
    for (size_t j = 0; *server && j < i; j++)
        if (strcmp(quorum->all[j].shown.server, server) == 0)
            return j;
    return i;
}

/* How many servers have that list; one with two names counts once. */
static size_t number_with(const rowlock_quorum *quorum, const char *list)
{
    size_t count = 0;
    for (size_t i = 0; i < quorum->count; i++)
        count += is_with(&quorum->all[i], list) && first_of_server(quorum, i) == i;
    return count;
}

static bool is_of(const rl_standing *s, const rl_standing *best)
{
    return best && is_with(s, best->shown.list);
}

/* How many vote under the same list, if that has as many members as are named here. */
static size_t number_voting(const rowlock_quorum *quorum, const rl_standing *with)
{
    size_t count = 0;
    for (size_t i = 0; i < quorum->count; i++)
        count += quorum->all[i].shown.state == ROWLOCK_MEMBER_VOTING &&
                 with->shown.list_count == quorum->count && is_of(&quorum->all[i], with) &&
                 first_of_server(quorum, i) == i;
    return count;
}

/* Finds the list that most of them have, and how many vote under one list, even if too few. */
static void find_best(rowlock_quorum *quorum)
{
    for (size_t i = 0; i < quorum->count; i++) {
        const rl_standing *s = &quorum->all[i];
        const size_t voting = number_voting(quorum, s);
        if (has_list(s) && s->shown.list_count == quorum->count &&
            number_with(quorum, s->shown.list) > quorum->count / 2)
            quorum->best = s;
        quorum->voting = voting > quorum->voting ? voting : quorum->voting;
    }
    if (!quorum->best)
        return;
    quorum->voting = number_voting(quorum, quorum->best);
    for (size_t i = 0; i < quorum->count; i++)
        if (has_list(&quorum->all[i]) && !is_of(&quorum->all[i], quorum->best))
            quorum->all[i].shown.state = ROWLOCK_MEMBER_OTHER;
}

rowlock_status rl_quorum_read(rowlock_client *client, rowlock_quorum **out, rowlock_error *err)
{
    rl_members *members = client->quorum;
    const rl_io io = rl_io_until(RL_NEVER);
    unsigned asked = 0;
    rowlock_quorum *quorum = calloc(1, sizeof *quorum + members->count * sizeof(rl_standing));
    const rl_inquiry question = {
        .ask = read_one, .data = quorum, .all = true, .limit_us = client->limit_ms * 1000};
    if (!quorum)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    quorum->count = members->count;
    quorum->needed = members->needed;
    for (size_t i = 0; i < quorum->count; i++) {
        quorum->all[i].members = "";
        quorum->all[i].shown =
            (rowlock_member){.where = rl_texts_keep(&quorum->all[i].texts, members->all[i].where),
                             .server = "",
                             .list = ""};
    }
    rl_round *round = rl_round_begin(members, RL_ALL_MEMBERS, &question, &asked);
    rowlock_status status = round ? rl_round_wait(round, NULL, &io) : ROWLOCK_SYSTEM;
    rl_round_end(round);
    for (size_t i = 0; i < quorum->count; i++) {
        rl_standing *s = &quorum->all[i];
        s->shown.message = s->shown.status == ROWLOCK_OK ? "" : s->why.message;
        if (s->texts.failed)
            status = ROWLOCK_SYSTEM;
    }
    if (status != ROWLOCK_OK) {
        rl_quorum_free(quorum);
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory or descriptors");
    }
    find_best(quorum);
    *out = quorum;
    return ROWLOCK_OK;
}

void rl_quorum_free(rowlock_quorum *quorum)
{
    if (!quorum)
        return;
    for (size_t i = 0; i < quorum->count; i++)
        rl_texts_free(&quorum->all[i].texts);
    free(quorum);
}

/* -------------------------------------------------------------------------------- a list */

typedef struct list {
    char hash[RL_LIST_SIZE];
    unsigned number;
    size_t count;
    int64_t ttl_most_us;
    rl_buffer members;
} list;

static int in_byte_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* What it replicates may overwrite its votes. */
static rowlock_status check_replica(const rl_standing *s, size_t i, rowlock_error *err)
{
    if (!s->replicates)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNSUPPORTED,
                   "member %zu, %s, replicates another server, which may overwrite its votes; let "
                   "it replicate nobody, or take another server",
                   i + 1, s->shown.where);
}

/* INVALID: two of those that can be reached are one server. */
static rowlock_status check_names(const rowlock_quorum *quorum, rowlock_error *err)
{
    for (size_t i = 0; i < quorum->count; i++) {
        const size_t first = first_of_server(quorum, i);
        if (first < i)
            return rl_fail(err, ROWLOCK_INVALID,
                           "members %zu and %zu are one server (%s): two names for it, or a "
                           "copy that kept its identity",
                           first + 1, i + 1, quorum->all[i].shown.server);
    }
    return ROWLOCK_OK;
}

/* All of them must be there. */
static rowlock_status check_servers(const rowlock_quorum *quorum, rowlock_error *err)
{
    for (size_t i = 0; i < quorum->count; i++) {
        const rl_standing *s = &quorum->all[i];
        if (s->shown.status != ROWLOCK_OK)
            return rl_fail(err, s->shown.status, "member %zu, %s: %s", i + 1, s->shown.where,
                           s->shown.message);
        if (s->cluster != RL_ALONE)
            return rl_fail(
                err, ROWLOCK_UNSUPPORTED,
                "member %zu, %s, is %s: its nodes are not independent; use its own locks", i + 1,
                s->shown.where, rl_cluster_traits_of(s->cluster)->name);
        RL_TRY(check_replica(s, i, err));
    }
    return check_names(quorum, err);
}

/* The list with that number, of these servers. */
static rowlock_status make_list(const rowlock_quorum *quorum, unsigned number, int64_t ttl_most_us,
                                list *l, rowlock_error *err)
{
    const char *servers[ROWLOCK_MEMBERS_MAX];
    RL_CLEANUP(rl_buffer_free) rl_buffer text = {0};
    char hash[65];
    for (size_t i = 0; i < quorum->count; i++)
        servers[i] = quorum->all[i].shown.server;
    qsort(servers, quorum->count, sizeof servers[0], in_byte_order);
    for (size_t i = 0; i < quorum->count; i++) {
        rl_buffer_puts(&l->members, servers[i]);
        rl_buffer_puts(&l->members, i + 1 < quorum->count ? "\n" : "");
    }
    rl_buffer_printf(&text, "%u\n%lld\n", number, (long long)ttl_most_us);
    rl_buffer_puts(&text, l->members.failed ? "" : l->members.text);
    if (text.failed || l->members.failed)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    rl_sha256 sum = rl_sha256_begin();
    rl_sha256_add(&sum, text.text, text.length);
    rl_sha256_hex(&sum, hash);
    memcpy(l->hash, hash, sizeof l->hash - 1);
    l->number = number;
    l->count = quorum->count;
    l->ttl_most_us = ttl_most_us;
    return ROWLOCK_OK;
}

static void free_list(list *l)
{
    rl_buffer_free(&l->members);
}

static rowlock_status list_of(const rl_standing *s, list *l, rowlock_error *err)
{
    *l = (list){.number = s->shown.list_number,
                .count = s->shown.list_count,
                .ttl_most_us = s->shown.ttl_most_ms * 1000};
    memcpy(l->hash, s->shown.list, sizeof l->hash);
    rl_buffer_puts(&l->members, s->members);
    return l->members.failed ? rl_fail(err, ROWLOCK_SYSTEM, "out of memory") : ROWLOCK_OK;
}

/* --------------------------------------------------------------------- what is written there */

typedef struct writing {
    rowlock_client *client;
    rowlock_quorum *quorum; /* as it was seen */
} writing;

/* A call that is done again goes on where this one ended. */
static rowlock_status write_to(const writing *w, size_t i, rl_sql_id id, const rl_value *values,
                               rl_done *done, rowlock_error *err)
{
    rowlock_client *member = w->client->members[i];
    rl_budget budget = rl_budget_start(0, member->limit_ms, NULL);
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    rowlock_status status =
        rl_no_effect(rl_client_run(member, &budget, id, values, done, err), err);
    if (status != ROWLOCK_OK)
        rl_error_prefix(err, "member %zu, %s: ", i + 1, w->quorum->all[i].shown.where);
    return status;
}

static rowlock_status was_given_another(const writing *w, size_t i, rowlock_error *err)
{
    return rl_fail(err, ROWLOCK_MODE,
                   "member %zu, %s, was given a list by another call just now; see "
                   "`rowlock quorum status`",
                   i + 1, w->quorum->all[i].shown.where);
}

/* Replaces only what was seen at the member: no list, or one that is closed by now. However late
 * this comes, it undoes nothing that another call has written since. */
static rowlock_status give_list(const writing *w, size_t i, const list *l, int64_t abstain_us,
                                rowlock_error *err)
{
    const char *old = w->quorum->all[i].shown.list;
    const rl_value values[] = {rl_text(l->hash),
                               rl_u64(l->number),
                               rl_u64(l->count),
                               rl_text(l->members.text),
                               rl_u64((uint64_t)l->ttl_most_us),
                               rl_u64((uint64_t)abstain_us),
                               rl_text(old)};
    rl_done done = {0};
    rowlock_error spare;
    err = rl_error_or(err, &spare);
    rowlock_status status =
        write_to(w, i, *old ? RL_SQL_MEMBER_CHANGE : RL_SQL_MEMBER_ADD, values, &done, err);
    const bool there = status == ROWLOCK_DAMAGED && err->server_errno == 1062;
    if (there || (status == ROWLOCK_OK && done.rows != 1))
        return was_given_another(w, i, err);
    return status;
}

static rowlock_status close_list(const writing *w, size_t i, rowlock_error *err)
{
    const rl_value values[] = {rl_text(w->quorum->all[i].shown.list)};
    rl_done done = {0};
    RL_TRY(write_to(w, i, RL_SQL_MEMBER_CLOSE, values, &done, err));
    return done.rows == 1 ? ROWLOCK_OK : was_given_another(w, i, err);
}

/* From now on the member gives only tokens above `version`. */
static rowlock_status raise_to(const writing *w, size_t i, uint64_t version, rowlock_error *err)
{
    const rl_value values[] = {rl_u64(version)};
    RL_TRY(write_to(w, i, RL_SQL_PURGE_FLOOR_RAISE, values, NULL, err));
    return write_to(w, i, RL_SQL_MEMBER_RAISE, values, NULL, err);
}

/* The highest version of the members that have the list, but for `without`; *count: how many of
 * them are not closed. A list that is being replaced must have no majority: it would vote again. */
static uint64_t highest_of_others(const rowlock_quorum *quorum, size_t without, size_t *count)
{
    uint64_t highest = 0;
    *count = 0;
    for (size_t i = 0; i < quorum->count; i++) {
        const rl_standing *s = &quorum->all[i];
        if (i == without || !is_of(s, quorum->best))
            continue;
        *count += !s->closed;
        if (s->shown.version > highest)
            highest = s->shown.version;
    }
    return highest;
}

static uint64_t highest_of_all(const rowlock_quorum *quorum)
{
    uint64_t highest = 0;
    for (size_t i = 0; i < quorum->count; i++)
        if (quorum->all[i].shown.version > highest)
            highest = quorum->all[i].shown.version;
    return highest;
}

/* Until the member has the list it gives no vote, and then only for tokens above `version`. */
static rowlock_status bring_in(const writing *w, size_t i, const list *l, uint64_t version,
                               int64_t abstain_us, rowlock_error *err)
{
    if (*w->quorum->all[i].shown.list)
        RL_TRY(close_list(w, i, err));
    RL_TRY(raise_to(w, i, version, err));
    return give_list(w, i, l, abstain_us, err);
}

/* The member has forgotten leases and tokens that the others know, or never knew of them. */
static rowlock_status bring_back(const writing *w, size_t i, const list *l, rowlock_error *err)
{
    size_t count = 0;
    const uint64_t highest = highest_of_others(w->quorum, i, &count);
    if (count <= w->quorum->count / 2)
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "member %zu, %s, cannot rejoin: only %zu of the others can be read, and are "
                       "not closed, and %zu are needed; see `rowlock quorum status`",
                       i + 1, w->quorum->all[i].shown.where, count, w->quorum->count / 2 + 1);
    return bring_in(w, i, l, highest, l->ttl_most_us, err);
}

/* --------------------------------------------------------------------------------- init */

static rowlock_status check_old_lists(const rowlock_quorum *quorum, const list *l, size_t *old,
                                      rowlock_error *err)
{
    *old = 0;
    for (size_t i = 0; i < quorum->count; i++)
        *old += quorum->all[i].shown.state != ROWLOCK_MEMBER_NONE;
    for (size_t i = 0; i < quorum->count; i++) {
        const rl_standing *s = &quorum->all[i];
        if (s->shown.state == ROWLOCK_MEMBER_NONE)
            continue;
        /* One that a call has closed, and ended: it begins anew with those that have lost theirs.
         */
        const bool changing = s->closed && *old > quorum->count / 2;
        if (strcmp(s->members, l->members.text) != 0 || s->shown.state == ROWLOCK_MEMBER_STRANGE ||
            changing)
            return rl_fail(err, ROWLOCK_MODE,
                           "member %zu, %s, belongs to another quorum, or its list is being "
                           "changed; see `rowlock quorum status`",
                           i + 1, s->shown.where);
        if (s->shown.ttl_most_ms * 1000 != l->ttl_most_us)
            return rl_fail(err, ROWLOCK_MODE,
                           "member %zu, %s, has a quorum whose longest TTL is %lld ms, not %lld",
                           i + 1, s->shown.where, (long long)s->shown.ttl_most_ms,
                           (long long)(l->ttl_most_us / 1000));
    }
    return ROWLOCK_OK;
}

/* Some members have the list already, since an earlier call was interrupted. The others are treated
 * as members that have lost it, which cannot be ruled out. */
static rowlock_status complete(const writing *w, rowlock_error *err)
{
    const rowlock_quorum *quorum = w->quorum;
    if (!quorum->best)
        return rl_fail(err, ROWLOCK_MODE,
                       "fewer than a majority of these members have the list: it cannot be known "
                       "what the others had; see `rowlock quorum status`");
    RL_CLEANUP(free_list) list l = {.number = 0};
    RL_TRY(list_of(quorum->best, &l, err));
    for (size_t i = 0; i < quorum->count; i++)
        if (!is_of(&quorum->all[i], quorum->best))
            RL_TRY(bring_back(w, i, &l, err));
    return ROWLOCK_OK;
}

/* Fewer than a majority have it: an earlier call was interrupted, or the others have lost what they
 * had. Nobody can say which, so these begin as members that may have forgotten leases. */
static rowlock_status begin_anew(const writing *w, const list *l, int64_t abstain_us,
                                 rowlock_error *err)
{
    const uint64_t highest = highest_of_all(w->quorum);
    for (size_t i = 0; i < w->quorum->count; i++)
        if (!is_with(&w->quorum->all[i], l->hash) || w->quorum->all[i].closed)
            RL_TRY(bring_in(w, i, l, highest, abstain_us, err));
    return ROWLOCK_OK;
}

static rowlock_status make_on(const writing *w, int64_t ttl_most_us, rowlock_error *err)
{
    RL_CLEANUP(free_list) list l = {.number = 0};
    size_t old = 0;
    RL_TRY(check_servers(w->quorum, err));
    RL_TRY(make_list(w->quorum, 1, ttl_most_us, &l, err));
    RL_TRY(check_old_lists(w->quorum, &l, &old, err));
    if (old > w->quorum->count / 2)
        return complete(w, err);
    return begin_anew(w, &l, old > 0 ? ttl_most_us : 0, err);
}

rowlock_status rl_quorum_make(rowlock_client *client, int64_t ttl_most_us, rowlock_error *err)
{
    writing w = {.client = client};
    RL_TRY(rl_quorum_read(client, &w.quorum, err));
    rowlock_status status = make_on(&w, ttl_most_us, err);
    rl_quorum_free(w.quorum);
    return status;
}

/* -------------------------------------------------------------------------------- rejoin */

static bool is_in(const char *server, const char *members)
{
    const size_t length = strlen(server);
    for (const char *at = members; at && *at; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, server, length) == 0 && (at[length] == '\n' || !at[length]))
            return true;
    }
    return false;
}

static rowlock_status rejoin_one(const writing *w, size_t i, const list *l, rowlock_error *err)
{
    const rl_standing *s = &w->quorum->all[i];
    if (s->shown.status != ROWLOCK_OK)
        return rl_fail(err, s->shown.status, "member %zu, %s: %s", i + 1, s->shown.where,
                       s->shown.message);
    RL_TRY(check_replica(s, i, err));
    if (!is_in(s->shown.server, l->members.text))
        return rl_fail(err, ROWLOCK_MODE,
                       "member %zu, %s, is a server that the list does not have (a new one, or one "
                       "with a new identity); run `rowlock quorum replace`",
                       i + 1, s->shown.where);
    if (s->shown.state == ROWLOCK_MEMBER_OTHER)
        return rl_fail(err, ROWLOCK_MODE,
                       "member %zu, %s, has another list; run `rowlock quorum replace`", i + 1,
                       s->shown.where);
    return bring_back(w, i, l, err);
}

static bool has_lost_it(const rl_standing *s)
{
    return s->shown.state == ROWLOCK_MEMBER_NONE || s->shown.state == ROWLOCK_MEMBER_STRANGE;
}

/* Says that no list is known to be that of most of them. */
static rowlock_status no_list(const rowlock_quorum *quorum, rowlock_error *err)
{
    bool any = false;
    for (size_t i = 0; i < quorum->count; i++)
        any |= has_list(&quorum->all[i]);
    for (size_t i = 0; any && i < quorum->count; i++)
        if (quorum->all[i].shown.status != ROWLOCK_OK)
            return rl_fail(err, quorum->all[i].shown.status, "member %zu, %s: %s", i + 1,
                           quorum->all[i].shown.where, quorum->all[i].shown.message);
    return rl_fail(err, ROWLOCK_NOT_FOUND,
                   "no list is known to a majority of these members; see `rowlock quorum status`%s",
                   any ? "" : ", and run `rowlock quorum init` once");
}

static rowlock_status rejoin_on(const writing *w, size_t member, rowlock_error *err)
{
    const rowlock_quorum *quorum = w->quorum;
    RL_TRY(check_names(quorum, err));
    if (!quorum->best)
        return no_list(quorum, err);
    RL_CLEANUP(free_list) list l = {.number = 0};
    RL_TRY(list_of(quorum->best, &l, err));
    for (size_t i = 0; i < quorum->count; i++) {
        const rl_standing *s = &quorum->all[i];
        const bool wanted =
            member == i || (member == ROWLOCK_ALL_MEMBERS && s->shown.status == ROWLOCK_OK &&
                            (has_lost_it(s) || (s->closed && is_of(s, quorum->best))));
        if (wanted)
            RL_TRY(rejoin_one(w, i, &l, err));
    }
    return ROWLOCK_OK;
}

rowlock_status rl_quorum_rejoin(rowlock_client *client, size_t member, rowlock_error *err)
{
    writing w = {.client = client};
    if (member != ROWLOCK_ALL_MEMBERS && member >= client->member_count)
        return rl_fail(err, ROWLOCK_INVALID, "there is no member %zu of %zu", member + 1,
                       client->member_count);
    RL_TRY(rl_quorum_read(client, &w.quorum, err));
    rowlock_status status = rejoin_on(&w, member, err);
    rl_quorum_free(w.quorum);
    return status;
}

/* ------------------------------------------------------------------------------- replace */

static rowlock_status wait_for_leases(int64_t ttl_most_us, rowlock_cancel *cancel,
                                      rowlock_error *err)
{
    rl_budget budget = rl_budget_start(ROWLOCK_WAIT_FOREVER, 0, cancel);
    if (rl_budget_sleep(&budget, ttl_most_us + CLOSING_US) == RL_CANCELLED)
        return rl_fail(err, ROWLOCK_CANCELLED,
                       "cancelled: the quorum is closed until its list has "
                       "been replaced");
    return ROWLOCK_OK;
}

/* A member with the list that was closed, if others have the next one already. */
static const rl_standing *half_written(const rowlock_quorum *quorum)
{
    for (size_t i = 0; i < quorum->count; i++) {
        const rl_standing *s = &quorum->all[i];
        RL_CLEANUP(free_list) list next = {.number = 0};
        if (has_list(s) && s->shown.list_count == quorum->count &&
            make_list(quorum, s->shown.list_number + 1, s->shown.ttl_most_ms * 1000, &next, NULL) ==
                ROWLOCK_OK &&
            number_with(quorum, s->shown.list) + number_with(quorum, next.hash) > quorum->count / 2)
            return s;
    }
    return NULL;
}

/* True if it belongs to another quorum: none of its list's other servers is named here. */
static bool is_anothers(const rowlock_quorum *quorum, size_t i)
{
    const rl_standing *s = &quorum->all[i];
    bool shares = !has_list(s) || s->closed;
    for (size_t j = 0; j < quorum->count; j++)
        shares |= j != i && is_in(quorum->all[j].shown.server, s->members);
    return !shares;
}

static rowlock_status check_whose(const rowlock_quorum *quorum, rowlock_error *err)
{
    for (size_t i = 0; i < quorum->count; i++)
        if (is_anothers(quorum, i))
            return rl_fail(err, ROWLOCK_MODE, "member %zu, %s, belongs to another quorum", i + 1,
                           quorum->all[i].shown.where);
    return ROWLOCK_OK;
}

static rowlock_status check_counts(const rowlock_quorum *quorum, rowlock_error *err)
{
    for (size_t i = 0; i < quorum->count; i++) {
        const rl_standing *s = &quorum->all[i];
        if (has_list(s) && s->shown.list_count != quorum->count)
            return rl_fail(err, ROWLOCK_INVALID,
                           "member %zu, %s, has a list of %u members, and %zu are named: their "
                           "number stays",
                           i + 1, s->shown.where, s->shown.list_count, quorum->count);
    }
    return ROWLOCK_OK;
}

static bool is_any_closed(const rowlock_quorum *quorum)
{
    bool closed = false;
    for (size_t i = 0; i < quorum->count; i++)
        closed |= quorum->all[i].closed && is_of(&quorum->all[i], quorum->best);
    return closed;
}

static rowlock_status close_old(const writing *w, const char *old, rowlock_error *err)
{
    for (size_t i = 0; i < w->quorum->count; i++)
        if (is_with(&w->quorum->all[i], old))
            RL_TRY(close_list(w, i, err));
    return ROWLOCK_OK;
}

/* After the wait: does a majority still have that list, closed? */
static rowlock_status check_closed(const rowlock_quorum *quorum, const char *old, const list *l,
                                   rowlock_error *err)
{
    bool good = number_with(quorum, old) + number_with(quorum, l->hash) > quorum->count / 2;
    for (size_t i = 0; i < quorum->count; i++)
        good &= !is_with(&quorum->all[i], old) || quorum->all[i].closed;
    return good
               ? ROWLOCK_OK
               : rl_fail(err, ROWLOCK_UNAVAILABLE,
                         "another one has changed the list meanwhile; see `rowlock quorum status`");
}

/* The member whose name for itself is the next one in byte order; quorum->count: none. */
static size_t next_in_order(const rowlock_quorum *quorum, const char *after)
{
    size_t next = quorum->count;
    for (size_t i = 0; i < quorum->count; i++) {
        const char *server = quorum->all[i].shown.server;
        if (strcmp(server, after) > 0 &&
            (next == quorum->count || strcmp(server, quorum->all[next].shown.server) < 0))
            next = i;
    }
    return next;
}

/*
 * The old list is closed, and no lease runs any more. The members that had it get the new one
 * first, in an order that is the same for all calls: of two calls with different members, the one
 * that gets the first of these gets all, and the other ends there. The list of that one has no
 * majority, since members that are new get it last.
 */
static rowlock_status write_new(const writing *w, const char *old, const list *l,
                                rowlock_error *err)
{
    const rowlock_quorum *quorum = w->quorum;
    const uint64_t highest = highest_of_all(quorum);
    for (size_t i = next_in_order(quorum, ""); i < quorum->count;
         i = next_in_order(quorum, quorum->all[i].shown.server))
        if (is_with(&quorum->all[i], old))
            RL_TRY(give_list(w, i, l, 0, err));
    for (size_t i = 0; i < quorum->count; i++)
        if (!is_with(&quorum->all[i], old) && !is_with(&quorum->all[i], l->hash))
            RL_TRY(bring_in(w, i, l, highest, 0, err));
    return ROWLOCK_OK;
}

static rowlock_status close_and_write(writing *w, const char *old, const list *l,
                                      rowlock_cancel *cancel, rowlock_error *err)
{
    RL_TRY(close_old(w, old, err));
    RL_TRY(wait_for_leases(l->ttl_most_us, cancel, err));
    /* Reads the versions as they are now. */
    rl_quorum_free(w->quorum);
    w->quorum = NULL;
    RL_TRY(rl_quorum_read(w->client, &w->quorum, err));
    RL_TRY(check_servers(w->quorum, err));
    RL_TRY(check_closed(w->quorum, old, l, err));
    return write_new(w, old, l, err);
}

static rowlock_status replace_on(writing *w, rowlock_cancel *cancel, rowlock_error *err)
{
    RL_CLEANUP(free_list) list l = {.number = 0};
    char closed[RL_LIST_SIZE];
    RL_TRY(check_servers(w->quorum, err));
    RL_TRY(check_counts(w->quorum, err));
    const rl_standing *best = w->quorum->best;
    const rl_standing *old = best ? best : half_written(w->quorum);
    if (!old)
        return no_list(w->quorum, err);
    RL_TRY(check_whose(w->quorum, err));
    RL_TRY(
        make_list(w->quorum, old->shown.list_number + 1, old->shown.ttl_most_ms * 1000, &l, err));
    /* A majority has the new list already, or nothing is to be replaced. */
    const char *members = l.members.text ? l.members.text : "";
    if (best && strcmp(best->members, members) == 0 && !is_any_closed(w->quorum))
        return complete(w, err);
    memcpy(closed, old->shown.list, sizeof closed);
    return close_and_write(w, closed, &l, cancel, err);
}

rowlock_status rl_quorum_replace(rowlock_client *client, rowlock_cancel *cancel, rowlock_error *err)
{
    writing w = {.client = client};
    RL_TRY(rl_quorum_read(client, &w.quorum, err));
    rowlock_status status = replace_on(&w, cancel, err);
    rl_quorum_free(w.quorum);
    return status;
}
