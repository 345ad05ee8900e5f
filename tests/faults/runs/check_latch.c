/* The rules of checker.h for a latch. */
#include "checking.h"

enum { REMEMBERED = 60 }; /* so many generations later the end of one is unknown */

/* A generation, with the first times at which something is known about it; TIME_NEVER: never. */
typedef struct generation {
    const call *set; /* NULL: no process was told that it has set it */
    int64_t open;
    int64_t broken;
    int64_t full; /* enough have certainly counted */
} generation;

typedef struct latch_check {
    checking *c;
    const model *m;
    generation *list; /* [0] is unused */
    uint64_t most;
} latch_check;

static void at_first(int64_t *known, int64_t at)
{
    *known = at < *known ? at : *known;
}

/* ---------------------------------------------------------------------- what is known */

static bool is_of_latch(const call *a)
{
    return a->by->latch;
}

static bool counts(const call *a)
{
    return strcmp(a->verb, "down") == 0 || strcmp(a->verb, "done") == 0;
}

static bool is_unknown(const call *a)
{
    return a->reply == TIME_NEVER || strcmp(a->status, "UNKNOWN") == 0;
}

static bool is_ok(const call *a)
{
    return strcmp(a->status, "OK") == 0;
}

/* A call whose reply was lost may have counted before the latch was broken, though it reports only
 * that. */
static bool is_lost(const call *a)
{
    return strcmp(a->status, "LOST") == 0;
}

/* It may have counted in that generation before then. (A statement without a reply may come
 * late.) */
static bool may_count(const latch_check *l, const call *a, uint64_t g, int64_t before)
{
    if (!is_of_latch(a) || !counts(a) || a->at >= before)
        return false;
    if (!is_ok(a) && !is_unknown(a) && !is_lost(a))
        return false;
    if (a->asked)
        return a->asked == g;
    const call *set = l->list[g].set;
    const call *next = g < l->most ? l->list[g + 1].set : NULL;
    return (!set || is_unknown(a) || a->reply > set->at) && (!next || next->reply > a->at);
}

/* It has certainly counted in that generation, or found it open. */
static bool has_counted(const call *a, uint64_t g, int64_t before)
{
    return is_of_latch(a) && counts(a) && is_ok(a) && a->asked == g && a->reply < before;
}

static bool same_key(const call *a, const call *b)
{
    return *a->key && strcmp(a->key, b->key) == 0;
}

/* How many may have counted: calls without a key, and different keys. */
static unsigned may_have_counted(const latch_check *l, uint64_t g, int64_t before)
{
    unsigned count = 0;
    for (size_t i = 0; i < l->m->call_count; i++) {
        const call *a = &l->m->calls[i];
        bool is_new = may_count(l, a, g, before);
        for (size_t j = 0; is_new && j < i; j++)
            is_new = !(may_count(l, &l->m->calls[j], g, before) && same_key(a, &l->m->calls[j]));
        count += is_new;
    }
    return count;
}

static unsigned have_counted(const latch_check *l, uint64_t g, int64_t before)
{
    unsigned count = 0;
    for (size_t i = 0; i < l->m->call_count; i++) {
        const call *a = &l->m->calls[i];
        bool is_new = has_counted(a, g, before);
        for (size_t j = 0; is_new && j < i; j++)
            is_new = !(has_counted(&l->m->calls[j], g, before) && same_key(a, &l->m->calls[j]));
        count += is_new;
    }
    return count;
}

static generation *generation_at(const latch_check *l, uint64_t g)
{
    return &l->list[g <= l->most ? g : 0];
}

static void learn_from_call(const latch_check *l, const call *a)
{
    /* A state that only a look has seen may not have been on the disk. */
    const bool was_seen =
        strcmp(a->verb, "get") == 0 && !check_crashed(l->c, a->at, a->reply + SECOND);
    const bool told = strcmp(a->verb, "wait") == 0 || strcmp(a->verb, "down") == 0 ||
                      strcmp(a->verb, "join") == 0;
    if (call_is(a, "wait", "OK") || (was_seen && strcmp(a->state, "open") == 0))
        at_first(&generation_at(l, a->generation)->open, a->reply);
    if (was_seen && strcmp(a->state, "broken") == 0)
        at_first(&generation_at(l, a->generation)->broken, a->reply);
    if (told && strcmp(a->status, "LOST") == 0 && a->asked + REMEMBERED > l->most)
        at_first(&generation_at(l, a->asked)->broken, a->reply);
}

static void learn_from_row(const latch_check *l, const counted *seen)
{
    if (check_crashed(l->c, seen->from, seen->to + SECOND))
        return;
    for (uint64_t age = seen->armed ? 1 : 0; age < REMEMBERED && age < seen->generation; age++) {
        generation *g = generation_at(l, seen->generation - age);
        at_first(seen->broken >> age & 1 ? &g->broken : &g->open, seen->to);
    }
}

static void learn_set(const latch_check *l, const call *a)
{
    generation *g = generation_at(l, a->generation);
    if (g->set)
        complain(l->c, "latch-set", "generation %" PRIu64 " was set by %u and by %u", a->generation,
                 g->set->by->who, a->by->who);
    else
        g->set = a;
}

static void learn_full(const latch_check *l, uint64_t g)
{
    generation *of = &l->list[g];
    for (size_t i = 0; of->set && i < l->m->call_count; i++) {
        const call *a = &l->m->calls[i];
        if (has_counted(a, g, TIME_NEVER) && a->reply < of->full &&
            have_counted(l, g, a->reply + 1) >= of->set->count)
            of->full = a->reply;
    }
}

static bool learn(latch_check *l)
{
    const model *m = l->m;
    for (size_t i = 0; i < m->call_count; i++)
        if (m->calls[i].generation > l->most && is_of_latch(&m->calls[i]))
            l->most = m->calls[i].generation;
    l->list = calloc(l->most + 1, sizeof *l->list);
    for (uint64_t g = 0; l->list && g <= l->most; g++)
        l->list[g] = (generation){.open = TIME_NEVER, .broken = TIME_NEVER, .full = TIME_NEVER};
    for (size_t i = 0; l->list && i < m->call_count; i++) {
        const call *a = &m->calls[i];
        if (is_of_latch(a))
            learn_from_call(l, a);
        if (is_of_latch(a) && call_is(a, "set", "OK"))
            learn_set(l, a);
    }
    for (size_t i = 0; l->list && i < m->counted_count; i++)
        learn_from_row(l, &m->counts[i]);
    for (uint64_t g = 1; l->list && g <= l->most; g++)
        learn_full(l, g);
    return l->list != NULL;
}

/* ------------------------------------------------------------------ why one was broken */

/* The process's next such call. */
static const call *next_of(const latch_check *l, const call *a, const char *verb)
{
    for (const call *b = a + 1; b < l->m->calls + l->m->call_count; b++)
        if (b->by == a->by && strcmp(b->verb, verb) == 0)
            return b;
    return NULL;
}

static bool may_have_joined(const call *a, uint64_t g)
{
    if (strcmp(a->verb, "join") != 0)
        return false;
    if (is_ok(a))
        return a->generation == g;
    return is_unknown(a) && (a->asked == 0 || a->asked == g);
}

/* Somebody has counted with that member's key before it went, so it is not missed. */
static bool was_counted(const latch_check *l, const call *join, int64_t gone)
{
    for (size_t i = 0; i < l->m->call_count; i++)
        if (has_counted(&l->m->calls[i], join->generation, gone) && same_key(join, &l->m->calls[i]))
            return true;
    return false;
}

/* That member may have been lost before it had counted. */
static bool may_break(const latch_check *l, const call *join, int64_t before)
{
    const process *p = join->by;
    const call *done = next_of(l, join, "done");
    const call *left = next_of(l, join, "leave");
    const call *again = next_of(l, join, "join");
    const int64_t until = again ? again->at : TIME_NEVER;
    if (!is_ok(join))
        return true;
    if (done && done->at < until && is_ok(done))
        return false;
    const int64_t gone = left && left->at < until ? left->at : p->died;
    if ((gone < before && !was_counted(l, join, gone)) ||
        check_renewed_late(l->c, p, join->at, before))
        return true;
    return done && done->at < until && done->at < before;
}

static bool may_be_broken(const latch_check *l, uint64_t g, int64_t before)
{
    const call *set = l->list[g].set;
    if (!set || model_disturbed(l->m, "break", (span){set->at, before}, 0))
        return true;
    for (size_t i = 0; i < l->m->call_count; i++) {
        const call *a = &l->m->calls[i];
        if (!is_of_latch(a) || a->at >= before)
            continue;
        if (strcmp(a->verb, "break") == 0 && a->reply > set->at)
            return true;
        if (may_have_joined(a, g) && may_break(l, a, before))
            return true;
    }
    return false;
}

/* --------------------------------------------------------------------------- the rules */

static void check_fate(const latch_check *l, uint64_t g)
{
    const generation *of = &l->list[g];
    const unsigned count = of->set ? of->set->count : 0;
    if (of->open != TIME_NEVER && of->broken != TIME_NEVER)
        complain(l->c, "latch-fate", "%" PRIu64 " was open at %" PRId64 ", and broken at %" PRId64,
                 g, of->open, of->broken);
    if (of->open != TIME_NEVER && may_have_counted(l, g, of->open) < count)
        complain(l->c, "latch-early",
                 "%" PRIu64 " was open at %" PRId64 "; %u of %u may have counted by then", g,
                 of->open, may_have_counted(l, g, of->open), count);
    const int64_t broken = of->full < of->broken ? of->full : of->broken;
    if (of->broken != TIME_NEVER && !may_be_broken(l, g, broken))
        complain(l->c, "latch-broken", "%" PRIu64 " was broken at %" PRId64 ", for no reason%s", g,
                 of->broken, of->full < of->broken ? ": all had counted" : "");
}

/* A call that sets the next generation has found this one open or broken; and no later call gets a
 * lower one. */
static void check_set(const latch_check *l, uint64_t g)
{
    const call *a = l->list[g].set;
    const call *before = l->list[g - 1].set;
    if (!a)
        return;
    if (before && may_have_counted(l, g - 1, a->reply) < before->count &&
        !may_be_broken(l, g - 1, a->reply))
        complain(l->c, "latch-set",
                 "%u set %" PRIu64 " at %" PRId64 "; the one before was neither open nor broken",
                 a->by->who, g, a->reply);
    for (uint64_t other = g + 1; other <= l->most; other++)
        if (l->list[other].set && l->list[other].set->reply < a->at)
            complain(l->c, "latch-set", "%" PRIu64 " was set after %" PRIu64, g, other);
}

/* No process is told that it has counted in, or joined, a broken generation. */
static void check_told_ok(const latch_check *l, const call *a)
{
    const generation *of = generation_at(l, a->asked);
    if (a->asked && is_ok(a) && (strcmp(a->verb, "down") == 0 || strcmp(a->verb, "join") == 0) &&
        of->broken < a->at)
        complain(l->c, "latch-fate",
                 "%" PRIu64 " was broken at %" PRId64 "; at %" PRId64 " the %s of %u got OK",
                 a->asked, of->broken, a->at, a->verb, a->by->who);
}

static void check_wait(const latch_check *l, const call *a)
{
    const bool busy = strcmp(a->status, "BUSY") == 0;
    const generation *of = generation_at(l, a->asked);
    if (strcmp(a->verb, "wait") != 0 || !a->asked || (!busy && strcmp(a->status, "TIMEOUT") != 0) ||
        of->full == TIME_NEVER)
        return;
    const int64_t at = busy ? a->at : a->reply;
    const int64_t calm = model_calm_since(l->m, at, true);
    int64_t since = busy || a->at < of->full ? of->full : a->at;
    since = calm > since ? calm : since;
    if (at - since > SERVED + check_lateness(l->c, since, at))
        complain(l->c, "latch-stuck",
                 "%u waited for %" PRIu64 " since %" PRId64 ", %s at %" PRId64
                 "; all had counted at %" PRId64,
                 a->by->who, a->asked, a->at, a->status, a->reply, of->full);
}

/* ------------------------------------------------------------------ the counts in the table */

/* It was counted in the generation that is closed in this look. */
static bool is_due(const latch_check *l, const call *a, const counted *seen)
{
    const call *set = generation_at(l, seen->generation)->set;
    if (!is_of_latch(a) || !counts(a) || !is_ok(a) || a->reply >= seen->from)
        return false;
    return a->asked == seen->generation || (!a->asked && set && set->reply < a->at);
}

/* The lines of one look are [first, end). */
static void check_look(const latch_check *l, size_t first, size_t end)
{
    const counted *rows = &l->m->counts[first];
    unsigned nameless = 0;
    for (size_t i = 0; i < l->m->call_count; i++) {
        const call *a = &l->m->calls[i];
        bool there = !rows->armed || !is_due(l, a, rows);
        for (size_t j = first; !there && *a->key && j < end; j++)
            there =
                l->m->counts[j].of == rows->generation && strcmp(l->m->counts[j].key, a->key) == 0;
        nameless += !there && !*a->key;
        if (!there && *a->key)
            complain(l->c, "count-lost",
                     "%" PRIu64 ": %u counted with %s at %" PRId64 "; at %" PRId64
                     " that is not there",
                     rows->generation, a->by->who, a->key, a->reply, rows->from);
    }
    unsigned rows_here = 0;
    for (size_t j = first; j < end; j++)
        rows_here += l->m->counts[j].of == rows->generation;
    if (nameless > rows_here)
        complain(l->c, "count-lost",
                 "%" PRIu64 ": %u have counted without a key; at %" PRId64 " there are %u counts",
                 rows->generation, nameless, rows->from, rows_here);
    if (rows_here > may_have_counted(l, rows->generation, rows->to))
        complain(l->c, "count-more", "%" PRIu64 ": %u counts at %" PRId64 "; %u may have been made",
                 rows->generation, rows_here, rows->from,
                 may_have_counted(l, rows->generation, rows->to));
}

static void check_looks(const latch_check *l)
{
    const model *m = l->m;
    for (size_t i = 0, end; i < m->counted_count; i = end) {
        for (end = i + 1; end < m->counted_count && m->counts[end].from == m->counts[i].from;)
            end++;
        if (m->counts[i].generation > 0 && m->counts[i].generation <= l->most)
            check_look(l, i, end);
    }
}

void check_latch(checking *c)
{
    latch_check l = {.c = c, .m = c->m};
    if (learn(&l)) {
        for (uint64_t g = 1; g <= l.most; g++) {
            check_fate(&l, g);
            check_set(&l, g);
        }
        for (size_t i = 0; i < c->m->call_count; i++) {
            if (!is_of_latch(&c->m->calls[i]))
                continue;
            check_told_ok(&l, &c->m->calls[i]);
            check_wait(&l, &c->m->calls[i]);
        }
        check_looks(&l);
    }
    free(l.list);
    check_probes(c, "latch-stuck", "wait", "OK");
    check_probes(c, "latch-stuck", "wait", "LOST");
}
