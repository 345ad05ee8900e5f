/* The rules of checker.h for work once in a period. */
#include "checking.h"

static bool is_of(const call *a, const char *name, uint64_t period)
{
    return a->by->lease && a->asked == period && strcmp(a->by->name, name) == 0;
}

static bool is_open(const call *a)
{
    return a->reply == TIME_NEVER || strcmp(a->status, "UNKNOWN") == 0;
}

static bool is_begun(const call *a)
{
    return call_is(a, "begin", "OK") && strcmp(a->state, "begun") == 0;
}

/* A call without a clear answer may have begun, too. */
static bool may_have_begun(const call *a)
{
    return strcmp(a->verb, "begin") == 0 && (is_begun(a) || is_open(a));
}

static bool may_have_done(const call *a)
{
    return (strcmp(a->verb, "job") == 0 || strcmp(a->verb, "done") == 0) &&
           (is_open(a) || strcmp(a->status, "OK") == 0);
}

static bool has_done(const call *a)
{
    return may_have_done(a) && !is_open(a);
}

static bool may_have_failed(const call *a)
{
    return strcmp(a->verb, "failed") == 0 && (is_open(a) || strcmp(a->status, "OK") == 0);
}

/* How many different attempts calls before then have made. */
static unsigned attempts(const checking *c, const char *name, uint64_t period,
                         bool (*counts)(const call *), int64_t before)
{
    const call *all = c->m->calls;
    unsigned count = 0;
    for (size_t i = 0; i < c->m->call_count; i++) {
        bool is_new = is_of(&all[i], name, period) && counts(&all[i]) && all[i].at < before;
        for (size_t j = 0; is_new && j < i; j++)
            is_new =
                !(is_of(&all[j], name, period) && counts(&all[j]) && all[j].token == all[i].token);
        count += is_new;
    }
    return count;
}

static bool any_with(const checking *c, const ledger *l, bool (*counts)(const call *))
{
    for (size_t i = 0; i < c->m->call_count; i++) {
        const call *a = &c->m->calls[i];
        if (is_of(a, l->name, l->period) && a->token == l->token && counts(a))
            return true;
    }
    return false;
}

/* The period's last row that was seen; NULL: none. */
static const ledger *last_of(const checking *c, const char *name, uint64_t period)
{
    for (size_t i = c->m->ledger_count; i-- > 0;) {
        const ledger *l = &c->m->ledger[i];
        if (l->period == period && strcmp(l->name, name) == 0)
            return l;
    }
    return NULL;
}

static unsigned jobs(const checking *c, const ledger *l, bool joined, bool of_token)
{
    unsigned count = 0;
    for (size_t i = 0; i < c->m->worked_count; i++) {
        const worked *w = &c->m->worked[i];
        count += w->period == l->period && strcmp(w->name, l->name) == 0 &&
                 (w->joined || !joined) && (w->token == l->token || !of_token);
    }
    return count;
}

/* --------------------------------------------------------------------------- the calls */

static void check_pair(checking *c, const call *a, const call *b)
{
    if (strcmp(a->by->name, b->by->name) != 0 || !is_begun(a))
        return;
    if (is_begun(b) && a->token == b->token && a->asked != b->asked)
        complain(c, "once-token", "%" PRIu64 " has begun %" PRIu64 " and %" PRIu64, a->token,
                 a->asked, b->asked);
    if (a->asked != b->asked)
        return;
    if (is_begun(b) && a->token > b->token && a->place <= b->place)
        complain(c, "once-attempts",
                 "%" PRIu64 ": %u with %" PRIu64 " was attempt %u; %u with %" PRIu64 " was %u",
                 a->asked, a->by->who, a->token, a->place, b->by->who, b->token, b->place);
    if (has_done(b) && b->reply < a->at && a->token != b->token)
        complain(c, "once-again",
                 "%" PRIu64 ": %u was told at %" PRId64 " that it is done; %u began it at %" PRId64,
                 a->asked, b->by->who, b->reply, a->by->who, a->at);
}

static void check_begun(checking *c, const call *a)
{
    const hold *later = check_later_holder(c, a->by->name, a->token, a->at);
    if (a->place == 0 || a->place > a->count)
        complain(c, "once-attempts", "%" PRIu64 ": %u began attempt %u of %u", a->asked, a->by->who,
                 a->place, a->count);
    if (later)
        complain(c, "once-late",
                 "%" PRIu64 ": %u began with %" PRIu64 " at %" PRId64 "; %u had %" PRIu64
                 " since %" PRId64,
                 a->asked, a->by->who, a->token, a->at, later->by->who, later->token, later->reply);
    for (size_t i = 0; i < c->m->call_count; i++)
        check_pair(c, a, &c->m->calls[i]);
}

/* Checks an answer that the period is done, or used up. */
static void check_answer(checking *c, const call *a)
{
    const bool done = strcmp(a->state, "done") == 0;
    const unsigned may =
        attempts(c, a->by->name, a->asked, done ? may_have_done : may_have_begun, a->reply);
    if (may < (done ? 1 : a->count))
        complain(c, "once-answer", "%" PRIu64 ": %u was told '%s' at %" PRId64 "; %u may have",
                 a->asked, a->by->who, a->state, a->reply, may);
}

/* Compares a reported result with the ledger. */
static void check_told(checking *c, const call *a)
{
    const ledger *l = last_of(c, a->by->name, a->asked);
    const bool its = l && l->token == a->token;
    const bool ok = strcmp(a->status, "OK") == 0;
    const bool ended = its && strcmp(l->state, "running") != 0;
    bool good = true;
    if (has_done(a))
        good = its && strcmp(l->state, "done") == 0;
    else if (strcmp(a->verb, "failed") == 0 && ok)
        good = ended || (l && l->token > a->token);
    else if (is_begun(a))
        good = l && l->token >= a->token;
    if (!good)
        complain(c, "once-lost",
                 "%" PRIu64 ": %u was told OK to %s with %" PRIu64 " at %" PRId64
                 "; at the end it is %s with %" PRIu64,
                 a->asked, a->by->who, a->verb, a->token, a->reply, l ? l->state : "not there",
                 l ? l->token : 0);
    if (strcmp(a->verb, "begin") != 0 && strcmp(a->status, "LOST") == 0 && its && !ended)
        complain(c, "once-refused",
                 "%" PRIu64 ": %u was told LOST (%s, %" PRIu64 ") at %" PRId64
                 "; at the end it is running",
                 a->asked, a->by->who, a->verb, a->token, a->reply);
}

/* -------------------------------------------------------------------------- the ledger */

static void check_look(checking *c, const ledger *before, const ledger *l)
{
    const bool done = strcmp(before->state, "done") == 0;
    if (check_crashed(c, before->from, l->to))
        return;
    if (l->token < before->token || l->attempts < before->attempts)
        complain(c, "once-token",
                 "%" PRIu64 ": %" PRIu64 " at %" PRId64 " (%u), %" PRIu64 " at %" PRId64 " (%u)",
                 l->period, before->token, before->to, before->attempts, l->token, l->from,
                 l->attempts);
    if (done && (strcmp(l->state, "done") != 0 || l->token != before->token))
        complain(c, "once-again",
                 "%" PRIu64 " was done by %" PRIu64 " at %" PRId64 ", and is %s with %" PRIu64
                 " at %" PRId64,
                 l->period, before->token, before->to, l->state, l->token, l->from);
}

static void check_looks(checking *c)
{
    const ledger *all = c->m->ledger;
    for (size_t i = 0; i < c->m->ledger_count; i++) {
        size_t j = i;
        while (j > 0 &&
               (all[j - 1].period != all[i].period || strcmp(all[j - 1].name, all[i].name) != 0))
            j--;
        if (j > 0)
            check_look(c, &all[j - 1], &all[i]);
    }
}

static void check_work(checking *c, const ledger *l)
{
    const bool done = strcmp(l->state, "done") == 0;
    const bool failed = strcmp(l->state, "failed") == 0;
    const unsigned joined = jobs(c, l, true, false);
    const unsigned its = jobs(c, l, true, true);
    if (joined > 1 || attempts(c, l->name, l->period, has_done, TIME_NEVER) > 1)
        complain(c, "once-two", "%" PRIu64 " has the work of %u jobs; %u were told that it is done",
                 l->period, joined, attempts(c, l->name, l->period, has_done, TIME_NEVER));
    else if (joined != its || (joined > 0 && !done))
        complain(c, "once-work", "%" PRIu64 " is %s with %" PRIu64 ", and has a job's work",
                 l->period, l->state, l->token);
    if ((done && !any_with(c, l, may_have_done)) || (failed && !any_with(c, l, may_have_failed)))
        complain(c, "once-work", "%" PRIu64 " is %s, which %" PRIu64 " did not say", l->period,
                 l->state, l->token);
    if (done && jobs(c, l, false, true) == 0)
        complain(c, "once-work", "%" PRIu64 " was done by %" PRIu64 ", whose work is not there",
                 l->period, l->token);
}

static void check_attempts(checking *c, const ledger *l)
{
    const unsigned begun = attempts(c, l->name, l->period, is_begun, TIME_NEVER);
    const unsigned may = attempts(c, l->name, l->period, may_have_begun, TIME_NEVER);
    if (l->attempts < begun || l->attempts > may || !any_with(c, l, may_have_begun))
        complain(c, "once-attempts",
                 "%" PRIu64 " is %s with %" PRIu64 " after %u attempts; %u were begun, at most %u",
                 l->period, l->state, l->token, l->attempts, begun, may);
}

void check_once(checking *c)
{
    for (size_t i = 0; i < c->m->call_count; i++) {
        const call *a = &c->m->calls[i];
        if (!a->by->lease || a->reply == TIME_NEVER)
            continue;
        check_told(c, a);
        if (is_begun(a))
            check_begun(c, a);
        else if (call_is(a, "begin", "OK"))
            check_answer(c, a);
    }
    check_looks(c);
    for (size_t i = 0; i < c->m->ledger_count; i++) {
        const ledger *l = &c->m->ledger[i];
        if (l != last_of(c, l->name, l->period))
            continue;
        check_work(c, l);
        check_attempts(c, l);
    }
}
