#include "kind/members.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/random.h"
#include "wait/backoff.h"

#define RETRY_FIRST_US 250000 /* a member that is down is asked again after this ... */
#define RETRY_MOST_US  5000000
#define SILENT_US      100000 /* a member without an answer for so long is not counted on */
#define MEET_US        500000 /* a client that is opened waits at least so long for all members */
#define LATE_US        250000 /* a thread may notice its time-out so late */

/* ------------------------------------------------------------------------ begin and end */

static bool init_member(rl_voter *m, rowlock_client *client, const char *where)
{
    *m = (rl_voter){.client = client, .where = rl_strdup(where)};
    pthread_mutex_init(&m->reaching, NULL);
    return m->where != NULL;
}

rl_members *rl_members_new(rowlock_client *const clients[], const char *const where[], size_t count,
                           bool require_all, rl_reach_member reach)
{
    rl_members *members = calloc(1, sizeof *members + count * sizeof(rl_voter));
    if (!members)
        return NULL;
    bool good = rowlock_cancel_new(&members->stop, NULL) == ROWLOCK_OK;
    members->count = count;
    members->needed = require_all ? count : count / 2 + 1;
    members->reach = reach;
    pthread_mutex_init(&members->mutex, NULL);
    rl_workers_init(&members->workers);
    for (size_t i = 0; i < count; i++)
        good = init_member(&members->all[i], clients[i], where[i]) && good;
    if (good)
        return members;
    rl_members_stop(members, false);
    rl_members_free(members, false);
    return NULL;
}

void rl_members_stop(rl_members *members, bool forked)
{
    if (!forked)
        rowlock_cancel_fire(members->stop);
    rl_workers_stop(&members->workers, forked);
}

void rl_members_free(rl_members *members, bool forked)
{
    if (!members)
        return;
    for (size_t i = 0; i < members->count; i++) {
        rl_free_text(members->all[i].where);
        if (!forked)
            pthread_mutex_destroy(&members->all[i].reaching);
    }
    if (!forked)
        pthread_mutex_destroy(&members->mutex);
    rowlock_cancel_free(members->stop);
    free(members);
}

/* ------------------------------------------------------------------ what is known of them */

/* With the mutex. Finds the list that more than half of the members have. A member that is named
 * twice, or has another list, has no say. */
static void choose_list(rl_members *members)
{
    for (size_t i = 0; i < members->count; i++) {
        const rl_voter *m = &members->all[i];
        size_t same = 0;
        for (size_t j = 0; *m->list && j < members->count; j++)
            same += strcmp(m->list, members->all[j].list) == 0;
        if (same <= members->count / 2)
            continue;
        memcpy(members->list, m->list, sizeof members->list);
        members->ttl_most_us = m->ttl_most_us;
    }
}

/* With the mutex. Is that server no other member's? Two names for one server have one vote. */
static bool is_another(const rl_members *members, size_t i, const char *server)
{
    for (size_t j = 0; j < members->count; j++)
        if (j != i && *members->all[j].list && strcmp(members->all[j].server, server) == 0)
            return false;
    return true;
}

static void note_list(rl_members *members, size_t i, const rl_cell *cells)
{
    rl_voter *m = &members->all[i];
    pthread_mutex_lock(&members->mutex);
    const bool fits = cells[10].u64 == members->count && is_another(members, i, cells[9].text);
    snprintf(m->server, sizeof m->server, "%s", cells[9].text);
    snprintf(m->list, sizeof m->list, "%s", fits ? cells[8].text : "");
    m->ttl_most_us = cells[11].i64;
    choose_list(members);
    pthread_mutex_unlock(&members->mutex);
}

typedef struct looking {
    rl_members *members;
    size_t member;
    rl_ballot *seen;
} looking;

static void keep_ballot(void *data, const rl_cell *cells)
{
    static const char *const verdicts[] = {
        [RL_BALLOT_GONE] = "GONE",       [RL_BALLOT_WRONG_KIND] = "WRONG_KIND",
        [RL_BALLOT_HELD] = "HELD",       [RL_BALLOT_COOLING] = "COOLING",
        [RL_BALLOT_EXPIRED] = "EXPIRED", [RL_BALLOT_FREE] = "FREE"};
    const looking *l = data;
    rl_members *members = l->members;
    rl_ballot *seen = l->seen;
    snprintf(seen->kind, sizeof seen->kind, "%s", cells[0].text);
    for (int i = 0; i <= RL_BALLOT_FREE; i++)
        if (strcmp(cells[1].text, verdicts[i]) == 0)
            seen->verdict = i;
    seen->left_us = cells[2].i64;
    seen->ours = cells[3].u64 != 0;
    seen->version = cells[4].u64;
    snprintf(seen->label, sizeof seen->label, "%s", cells[5].text);
    snprintf(seen->state, sizeof seen->state, "%s", cells[6].text);
    seen->abstains_us = cells[7].i64;
    note_list(members, l->member, cells);
    pthread_mutex_lock(&members->mutex);
    seen->same_list = *members->list && strcmp(members->all[l->member].list, members->list) == 0;
    pthread_mutex_unlock(&members->mutex);
}

rowlock_status rl_member_look(rl_members *members, size_t i, const rl_budget *budget, uint64_t id,
                              const char *name, const char *owner, rl_ballot *seen,
                              rowlock_error *err)
{
    const rl_value values[] = {rl_u64(id), rl_text(name), rl_text(owner)};
    looking l = {members, i, seen};
    bool found = false;
    *seen = (rl_ballot){.verdict = RL_BALLOT_GONE};
    RL_TRY(rl_client_read(members->all[i].client, budget, RL_SQL_QUORUM_LOOK, values, keep_ballot,
                          &l, &found, err));
    return found ? ROWLOCK_OK
                 : rl_fail(err, ROWLOCK_UNAVAILABLE, "somebody stopped the look at a member");
}

/* With the mutex. */
static bool is_silent(const rl_voter *m, int64_t now)
{
    return m->down || (m->running > 0 && now - m->silent_us > SILENT_US);
}

size_t rl_members_first(rl_members *members)
{
    const int64_t now = rl_now_us();
    size_t first = members->count;
    pthread_mutex_lock(&members->mutex);
    for (size_t i = 0; i < members->count; i++) {
        const rl_voter *m = &members->all[i];
        if (!is_silent(m, now) && *m->list && strcmp(m->list, members->list) == 0 &&
            (first == members->count || strcmp(m->server, members->all[first].server) < 0))
            first = i;
    }
    pthread_mutex_unlock(&members->mutex);
    return first;
}

/* ------------------------------------------------------------------------------ a round */

typedef struct rl_errand {
    rl_job job; /* first */
    rl_round *round;
    size_t member;
} rl_errand;

struct rl_round {
    atomic_uint users;
    rl_members *members;
    rl_inquiry inquiry;
    int fd; /* counts the answers */
    int64_t start_us;
    unsigned asked;
    unsigned answered; /* as its waiter has read */
    rl_errand errands[ROWLOCK_MEMBERS_MAX];
};

static void leave_round(rl_round *round)
{
    if (atomic_fetch_sub(&round->users, 1) > 1)
        return;
    close(round->fd);
    if (round->inquiry.done)
        round->inquiry.done(round->inquiry.data);
    free(round);
}

/* Looks at a member's first connection, one request at a time; once it was good, none looks again.
 */
static rowlock_status reach(rl_members *members, rl_voter *m, const rl_budget *budget,
                            rowlock_error *err)
{
    pthread_mutex_lock(&m->reaching);
    rowlock_status status = m->reached ? ROWLOCK_OK : members->reach(m->client, budget, err);
    m->reached = status == ROWLOCK_OK;
    pthread_mutex_unlock(&m->reaching);
    return status;
}

static void note_answer(rl_members *members, rl_voter *m, rowlock_status status,
                        const rowlock_error *err)
{
    rl_backoff backoff = {.first_us = RETRY_FIRST_US, .most_us = RETRY_MOST_US};
    const int64_t now = rl_now_us();
    pthread_mutex_lock(&members->mutex);
    m->running--;
    m->asked--;
    m->down = status != ROWLOCK_OK;
    if (m->down) {
        backoff.attempt = m->failures++;
        m->retry_us = now + rl_backoff_next_us(&backoff, rl_random_u32());
        m->why = *err;
    } else {
        m->failures = 0;
        m->silent_us = now;
    }
    atomic_store(&m->client->away, m->down);
    pthread_mutex_unlock(&members->mutex);
}

/* False if the member answers no other request, and no call waits for this one any more: else a
 * member that hangs would occupy all threads, one after the other. */
static bool begin_errand(const rl_round *round, rl_voter *m)
{
    rl_members *members = round->members;
    const int64_t now = rl_now_us();
    pthread_mutex_lock(&members->mutex);
    const bool asks =
        round->inquiry.all || now < round->start_us + round->inquiry.limit_us || !is_silent(m, now);
    if (asks && m->running++ == 0)
        m->silent_us = now;
    m->asked -= !asks;
    pthread_mutex_unlock(&members->mutex);
    return asks;
}

static void run_errand(rl_job *job)
{
    const rl_errand *errand = (const rl_errand *)job;
    rl_round *round = errand->round;
    rl_members *members = round->members;
    rl_voter *m = &members->all[errand->member];
    const int64_t limit_ms = round->inquiry.limit_us / 1000;
    rowlock_error err = {0};
    rl_budget budget = rl_budget_start(limit_ms, limit_ms, members->stop);
    budget.abrupt = true;
    const rl_asking asking = {members, errand->member, &budget, round->inquiry.data};
    if (begin_errand(round, m)) {
        rowlock_status status = reach(members, m, &budget, &err);
        status = round->inquiry.ask(&asking, status, &err);
        note_answer(members, m, status, &err);
    } else {
        rl_fail(&err, ROWLOCK_UNAVAILABLE, "it does not answer");
        (void)!round->inquiry.ask(&asking, ROWLOCK_UNAVAILABLE, &err);
    }
    eventfd_write(round->fd, 1);
    leave_round(round);
}

/* With the mutex: those of `which` that are to be asked now. */
static unsigned choose(const rl_members *members, unsigned which, bool all, int64_t now)
{
    unsigned chosen = 0;
    unsigned well = 0;
    size_t count = 0;
    for (size_t i = 0; i < members->count; i++) {
        const rl_voter *m = &members->all[i];
        const unsigned bit = which & (1U << i);
        const bool good = !is_silent(m, now);
        count += good && bit;
        well |= good ? bit : 0;
        chosen |= good || (m->down && m->asked == 0 && now >= m->retry_us) ? bit : 0;
    }
    return all || (count < members->needed && well != which) ? which : chosen;
}

rl_round *rl_round_begin(rl_members *members, unsigned which, const rl_inquiry *question,
                         unsigned *asked)
{
    const int64_t now = rl_now_us();
    rl_round *round = calloc(1, sizeof *round);
    if (!round)
        return NULL;
    round->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (round->fd < 0) {
        free(round);
        return NULL;
    }
    round->members = members;
    round->inquiry = *question;
    round->start_us = now;
    pthread_mutex_lock(&members->mutex);
    *asked = choose(members, which & ((1U << members->count) - 1), question->all, now);
    for (size_t i = 0; i < members->count; i++)
        if (*asked >> i & 1 && members->all[i].asked++ == 0)
            members->all[i].silent_us = now;
    pthread_mutex_unlock(&members->mutex);
    round->asked = (unsigned)__builtin_popcount(*asked);
    atomic_init(&round->users, 1 + round->asked);
    if (question->keep)
        question->keep(question->data);
    for (size_t i = 0; i < members->count; i++) {
        round->errands[i] = (rl_errand){.job.run = run_errand, .round = round, .member = i};
        if (*asked >> i & 1)
            rl_workers_run(&members->workers, &round->errands[i].job);
    }
    return round;
}

rowlock_status rl_round_wait(rl_round *round, bool (*enough)(void *data), const rl_io *io)
{
    int64_t until_us = round->start_us + round->inquiry.limit_us + LATE_US;
    bool patient = true;
    eventfd_t more = 0;
    if (!enough) /* they write into the caller's memory: wait until all have ended */
        until_us = RL_NEVER;
    while (round->answered < round->asked) {
        const int64_t now = rl_now_us();
        if (patient && enough && enough(round->inquiry.data)) {
            patient = false;
            until_us = now + (now - round->start_us) + round->inquiry.patience_us;
        }
        const bool ours = until_us < io->deadline_us;
        short revents = 0;
        rl_waited waited =
            io->wait(io->self, round->fd, POLLIN, &revents, ours ? until_us : io->deadline_us);
        if (waited == RL_CANCELLED)
            return ROWLOCK_CANCELLED;
        if (waited == RL_EXPIRED)
            return ours || !patient ? ROWLOCK_OK : ROWLOCK_TIMEOUT;
        if (waited == RL_READY && eventfd_read(round->fd, &more) == 0)
            round->answered += (unsigned)more;
    }
    return ROWLOCK_OK;
}

void rl_round_end(rl_round *round)
{
    if (round)
        leave_round(round);
}

/* ------------------------------------------------------------------------------ who they are */

static rowlock_status ask_who(const rl_asking *asking, rowlock_status reached, rowlock_error *err)
{
    rl_ballot seen;
    RL_TRY(reached);
    return rl_member_look(asking->members, asking->member, asking->budget, 0, "", "", &seen, err);
}

/* How many of them have the list that most have. */
static size_t listed(rl_members *members)
{
    size_t count = 0;
    pthread_mutex_lock(&members->mutex);
    for (size_t i = 0; *members->list && i < members->count; i++)
        count += strcmp(members->all[i].list, members->list) == 0;
    pthread_mutex_unlock(&members->mutex);
    return count;
}

static bool are_enough(void *data)
{
    rl_members *members = data;
    return listed(members) >= members->needed;
}

/* Says that these are no quorum, or too few are there, with what is known of the first of those. */
static rowlock_status why_not(rl_members *members, rowlock_error *err)
{
    rowlock_status status = ROWLOCK_UNAVAILABLE;
    size_t away = 0;
    const rl_voter *first = NULL;
    pthread_mutex_lock(&members->mutex);
    for (size_t i = 0; i < members->count; i++) {
        const rl_voter *m = &members->all[i];
        away += m->down || !*m->server;
        if (m->down && !first)
            first = m;
    }
    if (members->count - away >= members->needed)
        status =
            rl_fail(err, ROWLOCK_SCHEMA,
                    "these %zu servers are no quorum, or not all of one, or two of them are "
                    "one server; see `rowlock quorum status`, and run `rowlock quorum init` once",
                    members->count);
    else
        status = rl_fail(err, first ? first->why.status : status,
                         "only %zu of %zu members can be reached, and %zu are needed; %s: %s",
                         members->count - away, members->count, members->needed,
                         first ? first->where : "one of them",
                         first ? first->why.message : "it does not answer");
    pthread_mutex_unlock(&members->mutex);
    return status;
}

static rowlock_status check_different(rl_members *members, rowlock_error *err)
{
    rowlock_status status = ROWLOCK_OK;
    pthread_mutex_lock(&members->mutex);
    for (size_t i = 0; i < members->count; i++)
        for (size_t j = 0; j < i; j++)
            if (*members->all[i].server &&
                strcmp(members->all[i].server, members->all[j].server) == 0)
                status =
                    rl_fail(err, ROWLOCK_INVALID, "%s and %s are one server (%s)",
                            members->all[j].where, members->all[i].where, members->all[i].server);
    pthread_mutex_unlock(&members->mutex);
    return status;
}

rowlock_status rl_members_reach(rl_members *members, const rl_budget *budget, rowlock_error *err)
{
    const rl_inquiry question = {.ask = ask_who,
                                 .data = members,
                                 .all = true,
                                 .patience_us = MEET_US,
                                 .limit_us = budget->limit_us};
    const rl_io io = rl_budget_quick_io(budget);
    unsigned asked = 0;
    rl_round *round = rl_round_begin(members, RL_ALL_MEMBERS, &question, &asked);
    if (!round)
        return rl_fail(err, ROWLOCK_SYSTEM, "out of memory or descriptors");
    rowlock_status status = rl_round_wait(round, are_enough, &io);
    rl_round_end(round);
    if (status == ROWLOCK_CANCELLED)
        return rl_fail(err, status, "%s", rowlock_status_text(status));
    RL_TRY(check_different(members, err));
    return are_enough(members) ? ROWLOCK_OK : why_not(members, err);
}
