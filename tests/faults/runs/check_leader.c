/* The rules of checker.h for leaders. */
#include "checking.h"

const hold *check_later_holder(const checking *c, const char *name, uint64_t token, int64_t before)
{
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *h = &c->m->holds[i];
        if (hold_ok(h) && h->fenced && h->reply < before && h->token > token &&
            strcmp(h->name, name) == 0)
            return h;
    }
    return NULL;
}

/* It was certainly not published. */
static bool was_not(const publication *p)
{
    return p->apart && strcmp(p->status, "UNAVAILABLE") == 0;
}

/* The publication that it may have seen. (The token of an acquire without a reply is unknown.) */
static const publication *seen_in(const checking *c, const observation *o)
{
    for (size_t i = 0; i < c->m->published_count; i++) {
        const publication *p = &c->m->published[i];
        const hold *h = p->hold;
        if (*p->value && strcmp(p->value, o->value) == 0 && p->at < o->reply && !was_not(p) &&
            (!hold_ok(h) || h->token == o->token) && strcmp(h->name, o->by->name) == 0)
            return p;
    }
    return NULL;
}

/* The last publication that this hold had called by then; `for_sure`: and that had returned OK. */
static const publication *last_by(const checking *c, const hold *h, int64_t by, bool for_sure)
{
    const publication *last = NULL;
    for (size_t i = 0; i < c->m->published_count; i++) {
        const publication *p = &c->m->published[i];
        const bool counts = for_sure ? p->reply < by && strcmp(p->status, "OK") == 0 : p->at < by;
        if (p->hold == h && counts)
            last = p;
    }
    return last;
}

static void check_one(checking *c, const observation *o)
{
    const publication *p = seen_in(c, o);
    const publication *newer = p ? last_by(c, p->hold, o->at, true) : NULL;
    const hold *later = check_later_holder(c, o->by->name, o->token, o->at);
    if (!p)
        complain(c, "leader-value",
                 "%s: %u saw %s lead at %" PRId64 ", and nobody had that value with %" PRIu64,
                 o->by->name, o->by->who, o->value, o->reply, o->token);
    else if (p->hold->released < o->at && strcmp(p->hold->release_status, "OK") == 0)
        complain(c, "leader-two", "%s: %u saw %s lead at %" PRId64 ", released at %" PRId64,
                 o->by->name, o->by->who, o->value, o->at, p->hold->released);
    if (newer > p)
        complain(c, "leader-late",
                 "%s: %u saw %s lead at %" PRId64 "; '%s' had taken its place at %" PRId64,
                 o->by->name, o->by->who, o->value, o->at, newer->value, newer->reply);
    if (later)
        complain(c, "leader-two",
                 "%s: %u saw %s lead at %" PRId64 " (token %" PRIu64 "); %u had %" PRIu64
                 " since %" PRId64,
                 o->by->name, o->by->who, o->value, o->at, o->token, later->by->who, later->token,
                 later->reply);
}

/* A crash may undo what was seen, but no version that was acknowledged. */
static void check_pair(checking *c, const observation *before, const observation *o)
{
    if (before->leads && before->reply < o->at && before->token > o->token &&
        strcmp(before->by->name, o->by->name) == 0)
        complain(c, "leader-back",
                 "%s: %u saw %" PRIu64 " lead at %" PRId64 ", and %u saw %" PRIu64 " at %" PRId64,
                 o->by->name, before->by->who, before->token, before->reply, o->by->who, o->token,
                 o->at);
}

/* It certainly led all the time, with one value. */
static bool led(const checking *c, const publication *p, const observation *o)
{
    const hold *h = p->hold;
    const span when = {h->call, o->reply};
    return *p->value && last_by(c, h, o->at, true) == p && last_by(c, h, o->reply, false) == p &&
           h->last_sure > o->reply && h->given_up > o->reply && strcmp(h->name, o->by->name) == 0 &&
           !model_disturbed(c->m, "break", when, 0) && !model_disturbed(c->m, "clock", when, 0);
}

static void check_missed(checking *c, const observation *o)
{
    for (size_t i = 0; i < c->m->published_count; i++) {
        const publication *p = &c->m->published[i];
        if (led(c, p, o) && !(o->leads && o->token == p->hold->token))
            complain(c, "leader-missed",
                     "%s: %u saw '%s' at %" PRId64 " (token %" PRIu64 "); %u led with %s since"
                     " %" PRId64,
                     o->by->name, o->by->who, o->value, o->at, o->token, p->hold->by->who, p->value,
                     p->reply);
    }
}

/* A publication may take as long as the lease runs. */
static void check_publication(checking *c, const publication *p)
{
    const process *by = p->hold->by;
    const int64_t took = p->reply - p->at;
    if (!p->apart || p->reply == TIME_NEVER)
        return;
    if (!check_explained(c, p->status, took))
        complain(c, "status", "%s: %u published at %" PRId64 " and got %s", by->name, by->who,
                 p->at, p->status);
    if (took > by->ttl + SLACK_TRY + check_lateness(c, p->at, p->reply) +
                   model_stopped(c->m, by->who, (span){p->at, p->reply}))
        complain(c, "wait-bound", "%s: %u published at %" PRId64 ", for %" PRId64 " us", by->name,
                 by->who, p->at, took);
}

void check_leaders(checking *c)
{
    for (size_t i = 0; i < c->m->published_count; i++)
        check_publication(c, &c->m->published[i]);
    for (size_t i = 0; i < c->m->seen_count; i++) {
        const observation *o = &c->m->seen[i];
        if (o->reply == TIME_NEVER)
            continue;
        if (!check_explained(c, o->status, o->reply - o->at) && strcmp(o->status, "NOT_FOUND") != 0)
            complain(c, "status", "%s: %u observed at %" PRId64 " and got %s", o->by->name,
                     o->by->who, o->at, o->status);
        if (strcmp(o->status, "OK") == 0)
            check_missed(c, o);
        if (!o->leads)
            continue;
        check_one(c, o);
        for (size_t j = 0; j < i; j++)
            check_pair(c, &c->m->seen[j], o);
    }
}
