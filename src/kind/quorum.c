/*
 * A lease at a majority of independent servers.
 *
 *   1. ask:     asks all members at the same time for their vote, for one owner id; each has a
 *               tenth of the TTL at most to answer.
 *   2. confirm: the token is the highest version that they gave. A member with a lower one counts
 *               once it has raised it to the token: so whoever has a majority later meets a member
 *               that has at least this token, and gets a higher one. (Without that, tokens may
 *               fall: with the versions 10, 1, 1 one owner gets 11 from the first two members, the
 *               next one 2 from the last two.)
 *   3. count:   the lease runs until the deadline at the `needed`-th member, the latest deadline
 *               first; half of the TTL must be left.
 *   4. or else: all members that may have voted are told to forget it, also where a reply was lost;
 *               after a random pause the next attempt begins, with another owner id.
 *
 * Waiters stand in line at the first member (bell/turn.h); there is no bell: the first in line asks
 * again and again.
 *
 * The keeper renews at all members. A member where the vote ran out while it was away gives it
 * again. The hold is lost when its deadline is over, never by the loss of one member.
 */
#include "kind/quorum.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "base/random.h"
#include "engine/resource.h"
#include "kind/await.h"

#define STEPS_MOST     6
#define PAUSE_FIRST_US 1000 /* of the first in line, between two attempts */
#define PAUSE_MOST_US  40000
#define AWAY_US        100000  /* the pause where too few members are there, and up to twice that */
#define LOOK_US        1000000 /* a waiter looks whether the line's server is there; up to twice */

/* A bit each. */
typedef enum vote {
    VOTE_NOT_ASKED = 1,
    VOTE_OPEN = 2,    /* asked, and not answered yet, or the reply was lost: may have voted */
    VOTE_YES = 4,     /* from the request that was sent at sent_us on */
    VOTE_TAKEN = 8,   /* another has it, or it is cooling */
    VOTE_ABSENT = 16, /* it was not reached, or does not vote */
    VOTE_NEVER = 32,  /* the name is of another kind there */
    VOTE_FREED = 64
} vote;
#define VOTES_THAT_MAY_HOLD (VOTE_OPEN | VOTE_YES)
#define VOTES_AGAINST       (VOTE_TAKEN | VOTE_ABSENT | VOTE_NEVER)

/* What one member has said to the grant's owner. */
typedef struct seat {
    pthread_mutex_t mutex; /* one request of the grant at a time */
    /* guarded by the grant's mutex */
    vote vote;
    uint64_t version;
    int64_t sent_us;  /* of the last request that it said yes to; 0: none */
    int64_t until_us; /* until then that yes is to last */
    bool broken;      /* ... it did not: others may have had it since. It is not asked again */
    rowlock_error why;
    char taken_over[RL_LABEL_IN_DETAIL]; /* from whom: that lease had run out; "": it was free */
} seat;

struct rl_grant {
    atomic_uint users;
    rl_members *members;
    rl_grant *next;  /* of those that are held */
    uint64_t number; /* by which the keeper names it */
    char *name;
    char owner[ROWLOCK_OWNER_MAX + 1];
    const char *label; /* the client's */
    int64_t ttl_us;
    int64_t at_least_us;
    pthread_mutex_t mutex; /* guards what follows */
    int64_t lease_us;      /* what is asked for: the TTL, or what max_hold leaves of it */
    int64_t asked_us;      /* when the last renewal began; the keeper's own */
    int64_t since_us;      /* from when on it runs, as the keeper has been told */
    uint64_t token;        /* 0: not known yet */
    bool over;             /* it is being released: it asks for no more votes */
    seat seats[];
};

/* ---------------------------------------------------------------------------- a grant */

static rl_grant *make_grant(const rowlock_hold *hold)
{
    rl_members *members = hold->client->quorum;
    rl_grant *grant = calloc(1, sizeof *grant + members->count * sizeof(seat));
    char *name = strdup(hold->locks[0].name);
    if (!grant || !name) {
        free(grant);
        free(name);
        return NULL;
    }
    atomic_init(&grant->users, 1);
    grant->members = members;
    grant->name = name;
    grant->label = hold->client->label;
    grant->ttl_us = grant->lease_us = hold->held.ttl_us;
    grant->at_least_us = hold->at_least_us;
    pthread_mutex_init(&grant->mutex, NULL);
    for (size_t i = 0; i < members->count; i++) {
        grant->seats[i].vote = VOTE_NOT_ASKED;
        pthread_mutex_init(&grant->seats[i].mutex, NULL);
    }
    return grant;
}

static void keep_grant(void *data)
{
    atomic_fetch_add(&((rl_grant *)data)->users, 1);
}

static void drop_grant(void *data)
{
    rl_grant *grant = data;
    if (atomic_fetch_sub(&grant->users, 1) > 1)
        return;
    for (size_t i = 0; i < grant->members->count; i++)
        pthread_mutex_destroy(&grant->seats[i].mutex);
    pthread_mutex_destroy(&grant->mutex);
    free(grant->name);
    free(grant);
}

/* In the child of a fork() its mutexes are left as they are. */
void rl_grant_forget(rl_grant *grant)
{
    if (!grant)
        return;
    free(grant->name);
    free(grant);
}

/* With the mutex. Does this vote count for the token? */
static bool counts(const rl_grant *grant, const seat *s)
{
    return s->vote == VOTE_YES && grant->token && s->version >= grant->token;
}

static int latest_first(const void *a, const void *b)
{
    const int64_t one = *(const int64_t *)a;
    const int64_t other = *(const int64_t *)b;
    return (one < other) - (one > other);
}

/* From when on the lease runs at as many members as are needed; 0: there are fewer. */
static int64_t runs_since(rl_grant *grant)
{
    const rl_members *members = grant->members;
    int64_t sent[ROWLOCK_MEMBERS_MAX] = {0};
    size_t count = 0;
    pthread_mutex_lock(&grant->mutex);
    for (size_t i = 0; i < members->count; i++)
        if (counts(grant, &grant->seats[i]))
            sent[count++] = grant->seats[i].sent_us;
    pthread_mutex_unlock(&grant->mutex);
    qsort(sent, count, sizeof sent[0], latest_first);
    return count >= members->needed ? sent[members->needed - 1] : 0;
}

/* The members that have said one of these, a bit for each. */
static unsigned who_said(rl_grant *grant, unsigned votes)
{
    unsigned who = 0;
    pthread_mutex_lock(&grant->mutex);
    for (size_t i = 0; i < grant->members->count; i++)
        who |= grant->seats[i].vote & votes ? 1U << i : 0;
    pthread_mutex_unlock(&grant->mutex);
    return who;
}

/* The members that said yes, with a version below the token. */
static unsigned unconfirmed(rl_grant *grant)
{
    unsigned who = 0;
    pthread_mutex_lock(&grant->mutex);
    for (size_t i = 0; i < grant->members->count; i++)
        who |= grant->seats[i].vote == VOTE_YES && !counts(grant, &grant->seats[i]) ? 1U << i : 0;
    pthread_mutex_unlock(&grant->mutex);
    return who;
}

static size_t number_that_said(rl_grant *grant, unsigned votes)
{
    return (size_t)__builtin_popcount(who_said(grant, votes));
}

/* ------------------------------------------------------------------------ one member's vote */

/* A statement that changes the row, and when it was sent. */
static rowlock_status change(const rl_asking *asking, rl_sql_id id, const rl_value *values,
                             rl_done *done, int64_t *sent_us, rowlock_error *err)
{
    rl_pool *pool = &asking->members->all[asking->member].client->pool;
    rl_io io = rl_budget_quick_io(asking->budget);
    RL_BORROWED conn = NULL;
    RL_TRY(rl_pool_take(pool, NULL, &io, &conn, err));
    RL_TRY(rl_no_effect(rl_prepare(conn, id, &io, err), err));
    *sent_us = rl_now_us();
    return rl_run(conn, id, values, &io, done, err);
}

/* The steps by which a vote is had: a statement, and a look where it changed nothing. */
typedef enum step { STEP_LOOK, STEP_TAKE, STEP_RENEW, STEP_DECIDED } step;

typedef struct asking_seat {
    const rl_asking *asking;
    rl_grant *grant;
    seat *seat;
    uint64_t id; /* of the name's row there */
    uint64_t token;
    int64_t lease_us;
    uint64_t version; /* as was seen; 0: not yet */
    step step;
    bool tried;                    /* it was free, and taking it failed all the same */
    char from[RL_LABEL_IN_DETAIL]; /* the holder whose lease has run out there; "": none */
    int64_t until_us;              /* of a yes that it has said before; 0: none */
} asking_seat;

static void decide(asking_seat *a, vote how, const rowlock_error *why)
{
    pthread_mutex_lock(&a->grant->mutex);
    a->seat->vote = how;
    if (why)
        a->seat->why = *why;
    pthread_mutex_unlock(&a->grant->mutex);
    a->step = STEP_DECIDED;
}

static void decide_yes(asking_seat *a, uint64_t version, int64_t sent_us)
{
    pthread_mutex_lock(&a->grant->mutex);
    a->seat->vote = VOTE_YES;
    a->seat->version = version;
    a->seat->sent_us = sent_us;
    a->seat->until_us = sent_us + a->lease_us - rl_margin_us(a->grant->ttl_us);
    if (*a->from) /* known when the vote was taken, not at a renewal */
        memcpy(a->seat->taken_over, a->from, sizeof a->from);
    pthread_mutex_unlock(&a->grant->mutex);
    a->step = STEP_DECIDED;
}

static rowlock_status take_or_renew(asking_seat *a, rowlock_error *err)
{
    const rl_grant *grant = a->grant;
    rl_members *members = grant->members;
    char list[RL_LIST_SIZE];
    char server[RL_SERVER_ID_MAX];
    const rl_voter *m = &members->all[a->asking->member];
    pthread_mutex_lock(&members->mutex);
    /* (Two names may lead to one server: one of them has no list here.) */
    const bool listed = *m->list && strcmp(m->list, members->list) == 0;
    memcpy(list, m->list, sizeof list);
    memcpy(server, m->server, sizeof server);
    pthread_mutex_unlock(&members->mutex);
    const bool renews = a->step == STEP_RENEW;
    a->step = STEP_LOOK;
    if (!listed)
        return ROWLOCK_OK;
    const rl_value ttl = rl_u64((uint64_t)a->lease_us);
    const rl_value take[] = {
        rl_u64(a->token), rl_text(grant->owner), rl_text(grant->label), ttl,
        rl_u64(a->id),    rl_text(grant->name),  rl_u64(*a->from != 0), rl_text(list),
        rl_text(server)};
    const rl_value renew[] = {rl_u64(a->token),      ttl,           rl_u64(a->id),
                              rl_text(grant->owner), rl_text(list), rl_text(server)};
    int64_t sent_us = 0;
    rl_done done = {0};
    rowlock_status status = change(a->asking, renews ? RL_SQL_QUORUM_RENEW : RL_SQL_QUORUM_TAKE,
                                   renews ? renew : take, &done, &sent_us, err);
    /* Somebody else changes the row just now. A vote that it gave before stays. */
    if (status == ROWLOCK_BUSY || status == ROWLOCK_DEADLOCK) {
        if (!renews)
            decide(a, VOTE_TAKEN, err);
        a->step = STEP_DECIDED;
        return ROWLOCK_OK;
    }
    RL_TRY(status);
    /* With a trigger on the table the OK packet may not say the version. */
    const uint64_t least = renews ? a->version : 0;
    if (done.rows > 0 && (done.insert_id || least))
        decide_yes(a, done.insert_id ? done.insert_id : least, sent_us);
    return ROWLOCK_OK;
}

static void abstained(asking_seat *a, const rl_ballot *seen)
{
    rowlock_error why = {0};
    if (strcmp(seen->state, "abstaining") == 0)
        rl_fail(&why, ROWLOCK_UNAVAILABLE, "it does not vote for another %.1f s",
                (double)seen->abstains_us / 1e6);
    else
        rl_fail(&why, ROWLOCK_UNAVAILABLE, "it does not vote (%s; see `rowlock quorum status`)",
                strcmp(seen->state, "voting") == 0 ? "it has another list" : seen->state);
    decide(a, VOTE_ABSENT, &why);
}

/* True if our vote there is gone before its time is over: it was broken. */
static bool is_early(const asking_seat *a)
{
    return rl_now_us() < a->until_us;
}

static void is_taken_by(asking_seat *a, const rl_ballot *seen)
{
    rowlock_error why = {0};
    if (seen->verdict == RL_BALLOT_HELD)
        rl_fail(&why, ROWLOCK_BUSY, "held by %s (token %" PRIu64 ", lease ends in %.3f s)",
                seen->label, seen->version, (double)seen->left_us / 1e6);
    else
        rl_fail(&why, ROWLOCK_BUSY, "%s",
                seen->verdict == RL_BALLOT_COOLING
                    ? "free, but still closed (at-least, or it was broken)"
                    : "taken by another one just now");
    if (is_early(a)) {
        pthread_mutex_lock(&a->grant->mutex);
        a->seat->broken = true;
        pthread_mutex_unlock(&a->grant->mutex);
    }
    decide(a, VOTE_TAKEN, &why);
}

/* A vote that is ours is renewed, even if only its reply was lost: the lease is counted from a
 * request of which we know when it was sent. */
static rowlock_status look(asking_seat *a, rowlock_error *err)
{
    const rl_asking *asking = a->asking;
    rl_ballot seen;
    rowlock_error why = {0};
    RL_TRY(rl_member_look(asking->members, asking->member, asking->budget, a->id, a->grant->name,
                          a->grant->owner, &seen, err));
    if (strcmp(seen.state, "voting") != 0 || !seen.same_list) {
        abstained(a, &seen);
    } else if (seen.verdict == RL_BALLOT_GONE) {
        rl_resource_forget(asking->members->all[asking->member].client, a->grant->name);
        is_taken_by(a, &seen);
    } else if (seen.verdict == RL_BALLOT_WRONG_KIND) {
        (void)rl_resource_wrong_kind(a->grant->name, seen.kind, RL_KIND_QUORUM, &why);
        decide(a, VOTE_NEVER, &why);
    } else if (seen.verdict == RL_BALLOT_HELD && seen.ours) {
        a->version = seen.version > a->token ? seen.version : a->token;
        a->step = STEP_RENEW;
    } else if (seen.verdict >= RL_BALLOT_EXPIRED && !a->tried && !is_early(a)) {
        a->tried = true;
        a->step = STEP_TAKE;
        if (seen.verdict == RL_BALLOT_EXPIRED)
            rl_copy_label(a->from, sizeof a->from, *seen.label ? seen.label : "somebody");
    } else {
        is_taken_by(a, &seen);
    }
    return ROWLOCK_OK;
}

static bool is_over(rl_grant *grant)
{
    pthread_mutex_lock(&grant->mutex);
    bool over = grant->over;
    pthread_mutex_unlock(&grant->mutex);
    return over;
}

/* After a lost reply the next step looks, on another connection, while there is time. */
static rowlock_status walk(asking_seat *a, rowlock_error *err)
{
    const rl_asking *asking = a->asking;
    rowlock_client *client = asking->members->all[asking->member].client;
    rowlock_status status =
        rl_resource_id(client, asking->budget, a->grant->name, RL_KIND_QUORUM, &a->id, err);
    if (status == ROWLOCK_MODE)
        decide(a, VOTE_NEVER, err);
    for (int i = 0; i < STEPS_MOST && a->step != STEP_DECIDED; i++) {
        if (status != ROWLOCK_OK && status != ROWLOCK_UNKNOWN)
            return status;
        if (is_over(a->grant))
            return ROWLOCK_OK;
        if (rl_budget_spent(asking->budget))
            return rl_fail(err, ROWLOCK_UNAVAILABLE, "it did not answer in time");
        status = a->step == STEP_LOOK ? look(a, err) : take_or_renew(a, err);
    }
    if (a->step == STEP_DECIDED)
        return ROWLOCK_OK;
    return rl_fail(err, ROWLOCK_UNAVAILABLE, "what became of a request could not be found out");
}

/* The member could not be asked: a vote that it gave before runs on. */
static void note_absent(rl_grant *grant, seat *s, rowlock_status status, const rowlock_error *err)
{
    pthread_mutex_lock(&grant->mutex);
    s->why = *err;
    s->why.status = status;
    if (s->vote == VOTE_NOT_ASKED || s->vote == VOTE_TAKEN)
        s->vote = VOTE_ABSENT;
    pthread_mutex_unlock(&grant->mutex);
}

static rowlock_status ask_from(const rl_asking *asking, step first, rowlock_status reached,
                               rowlock_error *err)
{
    rl_grant *grant = asking->data;
    seat *s = &grant->seats[asking->member];
    if (reached != ROWLOCK_OK) {
        note_absent(grant, s, reached, err);
        return reached;
    }
    asking_seat a = {.asking = asking, .grant = grant, .seat = s, .step = first};
    rowlock_status status = ROWLOCK_OK;
    pthread_mutex_lock(&s->mutex);
    pthread_mutex_lock(&grant->mutex);
    a.token = grant->token;
    a.lease_us = grant->lease_us;
    a.until_us = s->vote == VOTE_YES ? s->until_us : 0;
    const bool asks = !grant->over && !s->broken;
    if (asks && s->vote != VOTE_YES)
        s->vote = VOTE_OPEN;
    pthread_mutex_unlock(&grant->mutex);
    if (asks)
        status = walk(&a, err);
    if (status != ROWLOCK_OK)
        note_absent(grant, s, status, err);
    pthread_mutex_unlock(&s->mutex);
    return status;
}

static rowlock_status ask_to_take(const rl_asking *asking, rowlock_status reached,
                                  rowlock_error *err)
{
    return ask_from(asking, STEP_TAKE, reached, err);
}

/* For a call that was refused before: the name is probably not free, so look first. */
static rowlock_status ask_after_look(const rl_asking *asking, rowlock_status reached,
                                     rowlock_error *err)
{
    return ask_from(asking, STEP_LOOK, reached, err);
}

static rowlock_status ask_to_renew(const rl_asking *asking, rowlock_status reached,
                                   rowlock_error *err)
{
    return ask_from(asking, STEP_RENEW, reached, err);
}

/* Waits for a request of the grant that is under way there, if there is one. */
static rowlock_status ask_to_forget(const rl_asking *asking, rowlock_status reached,
                                    rowlock_error *err)
{
    rl_grant *grant = asking->data;
    seat *s = &grant->seats[asking->member];
    rowlock_client *client = asking->members->all[asking->member].client;
    uint64_t id = 0;
    int64_t sent_us = 0;
    rl_done done = {0};
    RL_TRY(reached);
    pthread_mutex_lock(&s->mutex);
    rowlock_status status =
        rl_resource_known(client, asking->budget, grant->name, RL_KIND_QUORUM, &id, err);
    const rl_value values[] = {rl_u64((uint64_t)grant->at_least_us), rl_u64(id),
                               rl_text(grant->owner)};
    if (status == ROWLOCK_OK)
        status = change(asking, RL_SQL_QUORUM_RELEASE, values, &done, &sent_us, err);
    const bool again = status == ROWLOCK_UNKNOWN;
    if (again)
        status = change(asking, RL_SQL_QUORUM_RELEASE, values, &done, &sent_us, err);
    const bool freed = status == ROWLOCK_OK && (done.rows > 0 || again);
    pthread_mutex_lock(&grant->mutex);
    if (status == ROWLOCK_OK)
        s->vote = freed ? VOTE_FREED : VOTE_TAKEN;
    pthread_mutex_unlock(&grant->mutex);
    pthread_mutex_unlock(&s->mutex);
    return status == ROWLOCK_NOT_FOUND || status == ROWLOCK_MODE ? ROWLOCK_OK : status;
}

/* ------------------------------------------------------------------------- all members */

static int64_t time_out_us(const rl_grant *grant)
{
    int64_t us = grant->ttl_us / 10;
    for (size_t i = 0; i < grant->members->count; i++)
        us = rl_earlier(us, grant->members->all[i].client->limit_ms * 1000);
    return us;
}

static rl_round *begin_round(rl_grant *grant, unsigned which, rl_ask_member ask, unsigned *asked)
{
    const rl_inquiry question = {.ask = ask,
                                 .data = grant,
                                 .keep = keep_grant,
                                 .done = drop_grant,
                                 /* A member that hangs is told to forget, too. */
                                 .all = ask == ask_to_forget,
                                 .patience_us = 1000,
                                 .limit_us = time_out_us(grant)};
    return rl_round_begin(grant->members, which, &question, asked);
}

static rowlock_status run_round(rl_grant *grant, unsigned which, rl_ask_member ask,
                                bool (*enough)(void *data), const rl_io *io, rowlock_error *err)
{
    unsigned asked = 0;
    rl_round *round = begin_round(grant, which, ask, &asked);
    if (!round)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory or descriptors");
    rowlock_status status = rl_round_wait(round, enough, io);
    rl_round_end(round);
    if (status != ROWLOCK_OK)
        return rl_fail(err, status, "%s", rowlock_status_text(status));
    return ROWLOCK_OK;
}

/* As many have voted as are needed, or so many have refused that they cannot. */
static bool have_voted(void *data)
{
    rl_grant *grant = data;
    const rl_members *members = grant->members;
    return number_that_said(grant, VOTE_YES) >= members->needed ||
           number_that_said(grant, VOTES_AGAINST) > members->count - members->needed;
}

static bool are_confirmed(void *data)
{
    return runs_since(data) != 0;
}

/* So many votes are free again that another owner can have the lease; or we have none any more. */
static bool have_forgotten(void *data)
{
    rl_grant *grant = data;
    return number_that_said(grant, VOTE_FREED) >= grant->members->needed ||
           who_said(grant, VOTE_YES) == 0;
}

static void settle_token(rl_grant *grant)
{
    pthread_mutex_lock(&grant->mutex);
    for (size_t i = 0; i < grant->members->count; i++)
        if (grant->seats[i].vote == VOTE_YES && grant->seats[i].version > grant->token)
            grant->token = grant->seats[i].version;
    pthread_mutex_unlock(&grant->mutex);
}

/* Tells the members of `which` to forget the vote; failures of some do not matter. Not for long: at
 * a member that hangs the lease ends by itself when its time is over. */
static void forget(rl_grant *grant, unsigned which)
{
    const rl_io io = rl_io_until(rl_time_add(rl_now_us(), time_out_us(grant)));
    pthread_mutex_lock(&grant->mutex);
    grant->over = true;
    pthread_mutex_unlock(&grant->mutex);
    if (which)
        (void)!run_round(grant, which, ask_to_forget, have_forgotten, &io, NULL);
}

/* --------------------------------------------------------------------------- acquire */

typedef struct call {
    rowlock_hold *hold;
    const rowlock_acquire_options *options;
    const rl_budget *budget;
    rl_members *members;
    rl_grant *grant; /* of this attempt */
    bool looks;      /* first: it was held at the last attempt */
    rl_await await;  /* its place in line ... */
    size_t line;     /* ... at this member; members->count: none */
    rl_budget in_line;
    char line_owner[ROWLOCK_OWNER_MAX + 1];
} call;

#define WORDS_MAX 1000

/* The reason of the first of `who` that gives one; else that the first does not answer. */
static void words_of(rl_grant *grant, unsigned who, char words[WORDS_MAX])
{
    const char *why = "";
    *words = 0;
    pthread_mutex_lock(&grant->mutex);
    for (size_t i = 0; i < grant->members->count && !*why; i++) {
        why = who >> i & 1 ? grant->seats[i].why.message : "";
        if (who >> i & 1 && (*why || !*words))
            snprintf(words, WORDS_MAX, "; %s: %s", grant->members->all[i].where,
                     *why ? why : "it does not answer");
    }
    pthread_mutex_unlock(&grant->mutex);
}

static rowlock_status not_granted(rl_grant *grant, rowlock_error *err)
{
    const rl_members *members = grant->members;
    const unsigned never = who_said(grant, VOTE_NEVER);
    const unsigned taken = who_said(grant, VOTE_TAKEN);
    /* After some said that it is taken, or too many refused, the others were not waited for. */
    const bool waited =
        !taken && number_that_said(grant, VOTES_AGAINST) <= members->count - members->needed;
    const unsigned absent =
        who_said(grant, VOTE_ABSENT | VOTE_NOT_ASKED | (waited ? VOTE_OPEN : 0));
    const size_t there = members->count - (size_t)__builtin_popcount(absent);
    char words[WORDS_MAX];
    words_of(grant, never ? never : there < members->needed ? absent : taken, words);
    if (never)
        return rl_fail(err, ROWLOCK_MODE, "'%s' is another kind of lock at a member%s", grant->name,
                       words);
    if (there < members->needed)
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "only %zu of %zu members vote, and %zu are needed%s", there, members->count,
                       members->needed, words);
    /* A majority that is not enough: with --require=all. */
    const bool left = number_that_said(grant, VOTE_YES) > members->count / 2;
    return rl_fail(err, ROWLOCK_BUSY, "'%s' is taken at %d of %zu members%s%s", grant->name,
                   __builtin_popcount(taken), members->count, words,
                   left ? "; no majority has it: it was left there while the member was away, and "
                          "ends by itself, or another one asks just now"
                        : "");
}

/* Members have lost what they had committed (see rl_resource_check_token()). Raises those that have
 * voted to the token that was seen, if there is time, so that the next token is above both. */
static rowlock_status has_gone_back(rl_grant *grant, uint64_t seen, const rl_io *io,
                                    rowlock_error *err)
{
    const uint64_t token = grant->token;
    pthread_mutex_lock(&grant->mutex);
    grant->token = seen;
    pthread_mutex_unlock(&grant->mutex);
    (void)!run_round(grant, unconfirmed(grant), ask_to_renew, are_confirmed, io, NULL);
    const char *next = are_confirmed(grant) ? "its next token is above both" : "try again";
    return rl_fail(err, ROWLOCK_DAMAGED,
                   "the token of '%s' has gone back: this client has had %" PRIu64
                   ", the members gave %" PRIu64 "; they have lost committed changes (was one "
                   "restored from a backup, without `rowlock quorum rejoin`?). The lock was given "
                   "back; %s",
                   grant->name, seen, token, next);
}

/* Sees to it that the token is at as many members as are needed, and that there is time to work. */
static rowlock_status confirm(const call *c, const rl_io *io, rowlock_error *err)
{
    rl_grant *grant = c->grant;
    uint64_t seen = 0;
    settle_token(grant);
    if (!are_confirmed(grant))
        RL_TRY(run_round(grant, unconfirmed(grant), ask_to_renew, are_confirmed, io, err));
    const int64_t since_us = runs_since(grant);
    if (since_us == 0)
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "fewer than %zu members have confirmed the token of '%s'",
                       grant->members->needed, grant->name);
    const bool rises = rl_resource_token_rises(c->hold->client, grant->name, grant->token, &seen);
    /* While time is left, no other client has got a token since `rises` was asked. */
    const int64_t left_us = since_us + grant->ttl_us - rl_margin_us(grant->ttl_us) - rl_now_us();
    if (left_us < grant->ttl_us / 2)
        return rl_fail(err, ROWLOCK_UNAVAILABLE,
                       "the members took longer than half of the TTL to answer; '%s' is given back",
                       grant->name);
    return rises ? ROWLOCK_OK : has_gone_back(grant, seen, io, err);
}

static rowlock_status ask_all(call *c, rowlock_error *err)
{
    rl_grant *grant = c->grant;
    const rl_io io = rl_budget_quick_io(c->budget);
    RL_TRY(run_round(grant, RL_ALL_MEMBERS, c->looks ? ask_after_look : ask_to_take, have_voted,
                     &io, err));
    if (number_that_said(grant, VOTE_YES) < grant->members->needed)
        return not_granted(grant, err);
    return confirm(c, &io, err);
}

/* Describes the holder from which the lease was taken over, if it ran out at a majority: as the
 * first of them has it. */
static const char *taken_over(rl_grant *grant, char words[RL_DETAIL_MAX])
{
    size_t count = 0;
    const char *from = "";
    pthread_mutex_lock(&grant->mutex);
    for (size_t i = grant->members->count; i-- > 0;)
        if (grant->seats[i].vote == VOTE_YES && *grant->seats[i].taken_over) {
            from = grant->seats[i].taken_over;
            count++;
        }
    snprintf(words, RL_DETAIL_MAX, "from %s, whose lease ran out", from);
    pthread_mutex_unlock(&grant->mutex);
    return count > grant->members->count / 2 ? words : NULL;
}

/* From now on the grant is an ordinary hold. */
static void begin_hold(call *c)
{
    rowlock_hold *hold = c->hold;
    rl_grant *grant = c->grant;
    rl_members *members = c->members;
    const int64_t since_us = grant->since_us = runs_since(grant);
    char words[RL_DETAIL_MAX];
    hold->grant = grant;
    memcpy(hold->owner, grant->owner, sizeof hold->owner);
    pthread_mutex_lock(&members->mutex);
    grant->number = ++members->last_grant;
    grant->next = members->grants;
    members->grants = grant;
    pthread_mutex_unlock(&members->mutex);
    hold->locks[0].id = grant->number;
    hold->locks[0].version = grant->token;
    if (c->options->max_hold_ms)
        hold->held.end_us = rl_time_add(since_us, c->options->max_hold_ms * 1000);
    rl_held_start(&hold->held, since_us, hold->held.ttl_us);
    rl_hold_begin(hold, c->budget, taken_over(grant, words));
}

static rowlock_status attempt(void *data, int64_t *hint_us, rowlock_error *err)
{
    call *c = data;
    c->grant = make_grant(c->hold);
    if (!c->grant)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    rl_client_owner(c->hold->client, c->grant->owner);
    rowlock_status status = ask_all(c, err);
    c->looks = status == ROWLOCK_BUSY;
    if (status == ROWLOCK_OK) {
        begin_hold(c);
        return status;
    }
    c->grant->at_least_us = 0; /* no client has had it */
    forget(c->grant, who_said(c->grant, VOTES_THAT_MAY_HOLD));
    drop_grant(c->grant);
    if (status == ROWLOCK_UNAVAILABLE)
        *hint_us = RL_NOT_BEFORE(AWAY_US + (int64_t)(rl_random_u32() % AWAY_US));
    return status;
}

/* ------------------------------------------------------------------------------ in line */

/* The server of the line may have gone without a word while the other members are there. */
static bool look_from_line(void *data, int64_t *again_us)
{
    call *c = data;
    rl_budget budget = rl_budget_start(0, c->in_line.limit_us / 1000, c->budget->cancel);
    rl_ballot seen;
    budget.abrupt = true;
    bool gone = rl_member_look(c->members, c->line, &budget, 0, "", "", &seen, NULL) != ROWLOCK_OK;
    *again_us = rl_now_us() + LOOK_US + (int64_t)(rl_random_u32() % LOOK_US);
    if (!gone)
        rl_bell_seize_asleep(c->await.turn.bells, &budget, c->await.turn.resource_id, 2);
    return gone;
}

/* The line is where all clients stand: at the first member that is there. */
static rowlock_status find_line(call *c, rowlock_error *err)
{
    const size_t first = rl_members_first(c->members);
    uint64_t id = 0;
    if (c->line != first && c->line < c->members->count)
        rl_turn_end(&c->await.turn, false);
    if (c->line != first && first < c->members->count) {
        rl_await_init(&c->await, c->members->all[first].client, &c->in_line, c->line_owner,
                      c->hold->held.ttl_us);
        c->await.turn.look = look_from_line;
        c->await.turn.data = c;
    }
    c->line = first;
    if (first == c->members->count)
        return ROWLOCK_BUSY;
    RL_TRY(rl_resource_id(c->members->all[first].client, &c->in_line, c->hold->locks[0].name,
                          RL_KIND_QUORUM, &id, err));
    rl_await_at(&c->await, id);
    return ROWLOCK_OK;
}

/* BUSY where there is no line: pause, and attempt again. */
static rowlock_status await_turn(void *data, rowlock_error *err)
{
    call *c = data;
    return find_line(c, err) == ROWLOCK_OK ? rl_turn_await(&c->await.turn, err) : ROWLOCK_BUSY;
}

static int64_t ttl_most_ms(rl_members *members)
{
    pthread_mutex_lock(&members->mutex);
    const int64_t ms = members->ttl_most_us / 1000;
    pthread_mutex_unlock(&members->mutex);
    return ms;
}

rowlock_status rl_quorum_check(rowlock_client *client, rowlock_acquire_options *options,
                               bool any_ttl, rowlock_error *err)
{
    const int64_t most_ms = ttl_most_ms(client->quorum);
    const char *what = options->mode == ROWLOCK_PESSIMISTIC
                           ? "a row lock is one server's connection"
                       : options->shared ? "readers are rows that one server compares with a writer"
                       : options->slots  ? "slots are rows that one server counts"
                       : options->value && *options->value ? "a value is one server's row"
                                                           : NULL;
    if (what)
        return rl_fail(err, ROWLOCK_UNSUPPORTED, "a quorum has exclusive leases alone: %s", what);
    if (any_ttl)
        options->ttl_ms = rl_earlier(options->ttl_ms, most_ms);
    if (options->ttl_ms > ROWLOCK_QUORUM_TTL_MAX_MS)
        return rl_fail(err, ROWLOCK_INVALID,
                       "a TTL of %" PRId64 " ms is more than %d ms, the most of any quorum",
                       options->ttl_ms, ROWLOCK_QUORUM_TTL_MAX_MS);
    if (options->ttl_ms > most_ms)
        return rl_fail(err, ROWLOCK_INVALID,
                       "a TTL of %" PRId64 " ms is more than %" PRId64
                       " ms, the most of this quorum (`rowlock quorum init --ttl-most`)",
                       options->ttl_ms, most_ms);
    return ROWLOCK_OK;
}

rowlock_status rl_quorum_acquire(rowlock_hold *hold, const rowlock_acquire_options *options,
                                 const rl_budget *budget, rowlock_error *err)
{
    rl_members *members = hold->client->quorum;
    call c = {.hold = hold,
              .options = options,
              .budget = budget,
              .members = members,
              .line = members->count};
    const rl_attempts how = {.budget = budget,
                             .outage_us = hold->client->outage_us,
                             .backoff = {.first_us = PAUSE_FIRST_US, .most_us = PAUSE_MOST_US},
                             .await = await_turn};
    memcpy(c.line_owner, hold->owner, sizeof c.line_owner);
    c.in_line = *budget;
    c.in_line.limit_us = rl_earlier(budget->limit_us, hold->held.ttl_us / 10);
    rowlock_status status = rl_attempt_until(&how, attempt, &c, err);
    if (c.line < members->count)
        rl_turn_end(&c.await.turn, false);
    return status;
}

/* ---------------------------------------------------------------------------- release */

static void unlist(rl_members *members, rl_grant *grant)
{
    pthread_mutex_lock(&members->mutex);
    rl_grant **at = &members->grants;
    while (*at != grant)
        at = &(*at)->next;
    *at = grant->next;
    pthread_mutex_unlock(&members->mutex);
}

/* OK: freed at as many members as are needed. Else LOST, or UNKNOWN. */
static rowlock_status what_was_freed(rl_grant *grant, rowlock_error *err)
{
    const rl_members *members = grant->members;
    const size_t freed = number_that_said(grant, VOTE_FREED);
    const size_t unknown = number_that_said(grant, VOTES_THAT_MAY_HOLD);
    if (freed >= members->needed)
        return ROWLOCK_OK;
    if (freed + unknown < members->needed)
        return rl_fail(err, ROWLOCK_LOST,
                       "'%s' was no longer held at %zu of %zu members (token %" PRIu64 ")",
                       grant->name, members->needed, members->count, grant->token);
    return rl_fail(err, ROWLOCK_UNKNOWN,
                   "'%s' could be released at %zu of %zu members only; at the others it ends by "
                   "itself within %" PRId64 " ms",
                   grant->name, freed, members->count, grant->ttl_us / 1000);
}

void rl_quorum_abandon(rowlock_hold *hold)
{
    if (!hold->grant)
        return;
    unlist(hold->grant->members, hold->grant);
    drop_grant(hold->grant);
    hold->grant = NULL;
}

rowlock_status rl_quorum_release(rowlock_hold *hold, const rowlock_release_options *options,
                                 rowlock_error *err)
{
    rl_grant *grant = hold->grant;
    const bool was_lost = rl_hold_lost(hold);
    unlist(grant->members, grant);
    /* Also at members where it was taken from us: a break keeps the name closed until we say so. */
    forget(grant, who_said(grant, ~(unsigned)VOTE_NOT_ASKED));
    hold->grant = NULL;
    rowlock_status status = what_was_freed(grant, err);
    drop_grant(grant);
    if (was_lost)
        return rl_fail(err, ROWLOCK_LOST, "'%s' was lost before its release: %s",
                       hold->locks[0].name,
                       *hold->held.reason ? hold->held.reason : "its time was over");
    if (status == ROWLOCK_OK)
        rl_hold_was_released(hold, options);
    else if (status == ROWLOCK_LOST)
        rl_hold_was_lost(hold, options, "found at its release");
    else
        rl_hold_was_left(hold);
    return status;
}

/* ---------------------------------------------------------------------------- renewal */

static rl_grant *find_grant(rl_members *members, uint64_t number)
{
    pthread_mutex_lock(&members->mutex);
    rl_grant *grant = members->grants;
    while (grant && grant->number != number)
        grant = grant->next;
    if (grant)
        keep_grant(grant);
    pthread_mutex_unlock(&members->mutex);
    return grant;
}

/* One of those that are renewed together. */
typedef struct renewing {
    rl_grant *grant; /* NULL: it is being released */
    rl_round *round;
} renewing;

/* So many members have given it to others that we cannot have enough votes before the deadline: it
 * was broken. */
static bool is_taken_away(rl_grant *grant)
{
    const rl_members *members = grant->members;
    return members->count - number_that_said(grant, VOTE_TAKEN) < members->needed;
}

static bool are_renewed(void *data)
{
    rl_grant *grant = data;
    return runs_since(grant) >= grant->asked_us;
}

static rl_round *begin_renewal(rl_grant *grant, const rl_renewal *renewal)
{
    unsigned asked = 0;
    pthread_mutex_lock(&grant->mutex);
    grant->lease_us = renewal->ttl_us;
    pthread_mutex_unlock(&grant->mutex);
    grant->asked_us = rl_now_us();
    return begin_round(grant, RL_ALL_MEMBERS, ask_to_renew, &asked);
}

/* If too few members have renewed it this time, they are asked again soon. What they said before
 * stays: the deadline is put back neither by a member that has gone since, nor by the last, shorter
 * lease (max_hold) at some of them. */
static void note_renewal(rl_renewal *renewal, rl_grant *grant)
{
    const int64_t since_us = runs_since(grant);
    const bool whole = renewal->ttl_us == grant->ttl_us;
    renewal->held = !is_taken_away(grant);
    renewal->renewed = since_us > grant->since_us && (whole || since_us >= grant->asked_us);
    renewal->sent_us = since_us;
    if (renewal->renewed)
        grant->since_us = since_us;
    if (since_us < grant->asked_us)
        renewal->again_us = rl_now_us() + grant->ttl_us / 12;
}

rowlock_status rl_quorum_renew(rl_pool *pool, rl_renewal *renewals, size_t count, const rl_io *io,
                               rowlock_error *err)
{
    rowlock_client *client = (rowlock_client *)((char *)pool - offsetof(rowlock_client, pool));
    renewing *all = calloc(count, sizeof *all);
    if (!all)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory");
    for (size_t i = 0; i < count; i++) {
        all[i].grant = find_grant(client->quorum, renewals[i].resource_id);
        if (all[i].grant)
            all[i].round = begin_renewal(all[i].grant, &renewals[i]);
    }
    for (size_t i = 0; i < count; i++) {
        renewals[i].held = true;
        if (all[i].round)
            (void)rl_round_wait(all[i].round, are_renewed, io);
        rl_round_end(all[i].round);
        if (!all[i].grant)
            continue;
        note_renewal(&renewals[i], all[i].grant);
        drop_grant(all[i].grant);
    }
    free(all);
    return ROWLOCK_OK;
}

size_t rl_quorum_votes(const rowlock_hold *hold)
{
    rl_grant *grant = hold->grant;
    const int64_t now = rl_now_us();
    size_t count = 0;
    if (!grant)
        return 0;
    pthread_mutex_lock(&grant->mutex);
    for (size_t i = 0; i < grant->members->count; i++) {
        const seat *s = &grant->seats[i];
        count += counts(grant, s) && now < s->sent_us + grant->ttl_us - rl_margin_us(grant->ttl_us);
    }
    pthread_mutex_unlock(&grant->mutex);
    return count;
}
