/* What observers of a leader have seen. See checker.h. */
#include "checking.h"

/* Had somebody else been told, before it looked, that the lease is his, with a higher token? */
static const hold *later_holder(const checking *c, const observation *o)
{
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *h = &c->m->holds[i];
        if (hold_ok(h) && h->fenced && h->reply < o->at && h->token > o->token &&
            strcmp(h->name, o->by->name) == 0)
            return h;
    }
    return NULL;
}

/* Who may be the one that it saw. Of one that got no answer nobody knows the token. */
static const hold *holder_of(const checking *c, const observation *o)
{
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *h = &c->m->holds[i];
        if (*h->value && strcmp(h->value, o->value) == 0 && h->call < o->reply &&
            (!hold_ok(h) || h->token == o->token) && strcmp(h->name, o->by->name) == 0)
            return h;
    }
    return NULL;
}

static void check_one(checking *c, const observation *o)
{
    const hold *its = holder_of(c, o);
    const hold *later = later_holder(c, o);
    if (!its)
        complain(c, "leader-value",
                 "%s: %u saw %s lead at %" PRId64 ", and nobody had that value with %" PRIu64,
                 o->by->name, o->by->who, o->value, o->reply, o->token);
    else if (its->released < o->at && strcmp(its->release_status, "OK") == 0)
        complain(c, "leader-two", "%s: %u saw %s lead at %" PRId64 ", released at %" PRId64,
                 o->by->name, o->by->who, o->value, o->at, its->released);
    if (later)
        complain(c, "leader-two",
                 "%s: %u saw %s lead at %" PRId64 " (token %" PRIu64 "); %u had %" PRIu64
                 " since %" PRId64,
                 o->by->name, o->by->who, o->value, o->at, o->token, later->by->who, later->token,
                 later->reply);
}

/* (A crash may take back what was seen, but no version that somebody had been told of.) */
static void check_pair(checking *c, const observation *before, const observation *o)
{
    if (before->leads && before->reply < o->at && before->token > o->token &&
        strcmp(before->by->name, o->by->name) == 0)
        complain(c, "leader-back",
                 "%s: %u saw %" PRIu64 " lead at %" PRId64 ", and %u saw %" PRIu64 " at %" PRId64,
                 o->by->name, before->by->who, before->token, before->reply, o->by->who, o->token,
                 o->at);
}

void check_leaders(checking *c)
{
    for (size_t i = 0; i < c->m->seen_count; i++) {
        const observation *o = &c->m->seen[i];
        if (o->reply == TIME_NEVER)
            continue;
        if (!check_explained(c, o->status, o->reply - o->at) && strcmp(o->status, "NOT_FOUND") != 0)
            complain(c, "status", "%s: %u observed at %" PRId64 " and got %s", o->by->name,
                     o->by->who, o->at, o->status);
        if (!o->leads)
            continue;
        check_one(c, o);
        for (size_t j = 0; j < i; j++)
            check_pair(c, &c->m->seen[j], o);
    }
}
