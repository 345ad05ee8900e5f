/* The rules of checker.h for a barrier. */
#include "checking.h"

static bool enters(const call *a)
{
    return a->by->members && strcmp(a->verb, "enter") == 0;
}

static bool is_in(const call *a, uint64_t g)
{
    return enters(a) && strcmp(a->status, "OK") == 0 && a->generation == g;
}

/* A waiter reports what it has seen, which may not have been on the disk when the server crashed:
 * then that generation gathers again. */
static bool may_be_undone(const checking *c, const call *a)
{
    return check_crashed(c, a->reply, a->reply + SECOND);
}

/* It may have entered without having been told so: its outcome is unknown; or it was broken, or cut
 * off until it expired, after the others had entered, and has entered again or given up since. */
static bool may_have_entered(const checking *c, const call *a)
{
    const span when = {a->at, a->reply};
    if (a->reply == TIME_NEVER || strcmp(a->status, "UNKNOWN") == 0 ||
        strcmp(a->status, "UNAVAILABLE") == 0 || model_disturbed(c->m, "break", when, 0))
        return true;
    return a->reply - a->at >= a->by->ttl && check_renewed_late(c, a->by, a->at, a->reply);
}

/* Its row stays until it expires. */
static bool may_be_in(const checking *c, const call *a, const call *e)
{
    const int64_t over = a->reply < a->by->died ? a->reply : a->by->died;
    return enters(a) && a->at < e->reply && may_have_entered(c, a) &&
           (over == TIME_NEVER || over + a->by->ttl + SERVED > e->at);
}

/* This member's first such call for this generation. */
static const call *call_of(const checking *c, const call *e, const char *verb)
{
    for (const call *b = e + 1; b < c->m->calls + c->m->call_count; b++)
        if (b->by == e->by && b->asked == e->generation && strcmp(b->verb, verb) == 0)
            return b;
    return NULL;
}

static void check_pair(checking *c, const call *e, const call *f)
{
    if (e->by == f->by && f->generation <= e->generation)
        complain(c, "barrier-twice", "%u entered %" PRIu64 " after %" PRIu64, e->by->who,
                 f->generation, e->generation);
    else if (f->generation == e->generation && f->place == e->place)
        complain(c, "barrier-torn", "%" PRIu64 ": %u and %u have the place %u", e->generation,
                 e->by->who, f->by->who, e->place);
}

static void check_member(checking *c, const call *e)
{
    const unsigned wanted = e->by->members;
    unsigned entered = 0;
    unsigned called = 0;
    for (size_t i = 0; i < c->m->call_count; i++) {
        const call *a = &c->m->calls[i];
        entered += is_in(a, e->generation) && !may_be_undone(c, a);
        called += a->at < e->reply && (is_in(a, e->generation) || may_be_in(c, a, e));
        if (a > e && enters(a) && strcmp(a->status, "OK") == 0)
            check_pair(c, e, a);
    }
    if (e->place >= wanted)
        complain(c, "barrier-torn", "%" PRIu64 ": %u has the place %u of %u", e->generation,
                 e->by->who, e->place, wanted);
    if (entered > wanted || called < wanted)
        complain(c, "barrier-torn",
                 "%" PRIu64 ": %u was in at %" PRId64 "; %u of %u may have entered by then, and %u"
                 " were told so",
                 e->generation, e->by->who, e->reply, called, wanted, entered);
}

static bool left_with(const call *left, const char *status)
{
    return left && strcmp(left->status, status) == 0;
}

/* The others may miss this member, which has entered. */
static bool may_be_missed(const checking *c, const call *e, int64_t before)
{
    const call *left = call_of(c, e, "leave");
    const call *released = call_of(c, e, "release");
    if (left_with(left, "OK"))
        return false;
    if (e->by->died < before || check_renewed_late(c, e->by, e->at, before))
        return true;
    const bool ready = left_with(left, "TIMEOUT") || left_with(left, "BUSY");
    return released && released->at < before && !ready;
}

static bool may_be_lost(const checking *c, const call *left)
{
    if (model_disturbed(c->m, "break", (span){left->at - 5 * SECOND, left->reply}, 0))
        return true;
    for (size_t i = 0; i < c->m->call_count; i++) {
        const call *a = &c->m->calls[i];
        if (enters(a) && a->at < left->reply &&
            (is_in(a, left->asked) ? may_be_missed(c, a, left->reply) : may_be_in(c, a, left)))
            return true;
    }
    return false;
}

static void check_leave(checking *c, const call *left)
{
    unsigned ready = 0;
    for (size_t i = 0; i < c->m->call_count; i++) {
        const call *a = &c->m->calls[i];
        const call *other = is_in(a, left->asked) ? call_of(c, a, "leave") : NULL;
        ready += other && other->at < left->reply;
    }
    if (strcmp(left->status, "OK") == 0 && ready < left->by->members)
        complain(c, "barrier-early", "%" PRIu64 ": %u left at %" PRId64 "; %u of %u were ready to",
                 left->asked, left->by->who, left->reply, ready, left->by->members);
    if (strcmp(left->status, "LOST") == 0 && !may_be_lost(c, left))
        complain(c, "barrier-lost", "%" PRIu64 ": %u was told at %" PRId64 " that one is missing",
                 left->asked, left->by->who, left->reply);
}

void check_barrier(checking *c)
{
    for (size_t i = 0; i < c->m->call_count; i++) {
        const call *a = &c->m->calls[i];
        if (enters(a) && strcmp(a->status, "OK") == 0 && !may_be_undone(c, a))
            check_member(c, a);
        if (a->by->members && strcmp(a->verb, "leave") == 0)
            check_leave(c, a);
    }
    check_probes(c, "barrier-stuck", "leave", "OK");
}
