/* The rules of checker.h for the queue. */
#include "checking.h"

static bool is_open(const char *status, int64_t reply)
{
    return reply == TIME_NEVER || strcmp(status, "UNKNOWN") == 0;
}

static bool verb_is(const item_give *g, const char *verb)
{
    return strcmp(g->verb, verb) == 0;
}

static bool is_job(const item_give *g)
{
    return verb_is(g, "job");
}

static bool ends(const item_give *g)
{
    return verb_is(g, "done") || verb_is(g, "dead") || is_job(g);
}

static bool has_ended(const item_give *g)
{
    return ends(g) && strcmp(g->status, "OK") == 0;
}

static bool may_have_ended(const item_give *g)
{
    return has_ended(g) || (ends(g) && is_open(g->status, g->reply));
}

/* An operator may have requeued dead items, with all their attempts. */
static bool put_back(const checking *c, int64_t from, int64_t to)
{
    return model_disturbed(c->m, "break", (span){from, to}, 0);
}

static bool clock_stepped(const checking *c, int64_t from, int64_t to)
{
    return model_disturbed(c->m, "clock", (span){from, to}, 0);
}

/* The put that made the item; NULL: it was not told the id. */
static const item_put *put_of(const queue_model *q, const char *mark)
{
    for (size_t i = 0; i < q->put_count; i++)
        if (strcmp(q->puts[i].mark, mark) == 0)
            return &q->puts[i];
    return NULL;
}

static bool may_have_put(const item_put *p)
{
    return strcmp(p->status, "OK") == 0 || is_open(p->status, p->reply);
}

/* The mark of the item that was taken with this id; NULL: none was. */
static const char *mark_of(const queue_model *q, uint64_t id)
{
    for (size_t i = 0; i < q->take_count; i++)
        if (q->takes[i].id == id)
            return q->takes[i].mark;
    for (size_t i = 0; i < q->look_count; i++)
        if (q->looks[i].id == id)
            return q->looks[i].mark;
    return NULL;
}

/* The put's id is a new item's, not an earlier one's with the same key. */
static bool is_fresh(const queue_model *q, const item_put *p)
{
    const char *mark = mark_of(q, p->id);
    if (p->id == 0 || mark)
        return p->id > 0 && strcmp(mark, p->mark) == 0;
    for (const item_put *other = q->puts; other < p; other++)
        if (other->id == p->id)
            return false;
    return true;
}

static const char *group_of(const queue_model *q, const item_take *t)
{
    const item_put *p = put_of(q, t->mark);
    return p ? p->group : "";
}

/* --------------------------------------------------------------------------- one holder */

/* How many deliveries between the two do not count as attempts. */
static unsigned released(const queue_model *q, const item_take *from, const item_take *to)
{
    unsigned count = 0;
    for (size_t i = 0; i < q->give_count; i++) {
        const item_give *g = &q->gives[i];
        count += g->take->id == from->id && g->take->token >= from->token &&
                 g->take->token < to->token && (verb_is(g, "release") || verb_is(g, "close"));
    }
    return count;
}

static void check_tokens_of_items(checking *c, const item_take *a, const item_take *b)
{
    if (a->token == b->token)
        complain(c, "item-token", "%" PRIu64 ": %" PRIu64 " went to %u and to %u", a->id, a->token,
                 a->by->who, b->by->who);
    else if (a->reply <= b->at && b->token < a->token)
        complain(c, "item-token",
                 "%" PRIu64 ": %u had %" PRIu64 " at %" PRId64 "; %u asked at %" PRId64
                 " and got %" PRIu64,
                 a->id, a->by->who, a->token, a->reply, b->by->who, b->at, b->token);
    if (a->token == b->token || (a->token > b->token) != (a->reply > b->at))
        return;
    const item_take *first = a->token < b->token ? a : b;
    const item_take *next = first == a ? b : a;
    if (first->attempt >= next->attempt + released(&c->m->queue, first, next) &&
        !put_back(c, first->at, next->reply))
        complain(c, "item-attempts",
                 "%" PRIu64 ": %u with %" PRIu64 " was attempt %u; %u with %" PRIu64 " was %u",
                 a->id, first->by->who, first->token, first->attempt, next->by->who, next->token,
                 next->attempt);
}

static bool is_known(const take_call *asked)
{
    return strcmp(asked->status, "OK") == 0 || strcmp(asked->status, "TIMEOUT") == 0 ||
           strcmp(asked->status, "BUSY") == 0;
}

/* How many calls may have taken an item with an unknown outcome. */
static unsigned unknown_calls(const queue_model *q, int64_t from, int64_t to)
{
    unsigned count = 0;
    for (size_t i = 0; i < q->call_count; i++) {
        const take_call *asked = &q->calls[i];
        count += !is_known(asked) && asked->at < to && asked->reply > from;
    }
    return count;
}

/* How long it may have been held up at most: also within its wait, if a fault was there. */
static int64_t held_up(const checking *c, const take_call *asked)
{
    const int64_t took = asked->reply - asked->at;
    const int64_t late = check_lateness(c, asked->at, asked->reply);
    const bool within = late >= asked->by->ttl ||
                        model_troubled(c->m, asked->by->who, (span){asked->at, asked->reply}, 0);
    return within ? took : took > asked->wait ? took - asked->wait : 0;
}

/* How long after it was asked for a holder may keep an item: the TTL less the library's margin. */
static int64_t kept_for(int64_t ttl)
{
    const int64_t tenth = ttl / 10;
    return ttl - (tenth < 20000 ? 20000 : tenth > 1000000 ? 1000000 : tenth);
}

/* How many deliveries were not reported: those of unknown calls; and a call that was held up until
 * its item could not be kept any more goes on without it, whatever its status is. */
static unsigned untold(const checking *c, int64_t to)
{
    const queue_model *q = &c->m->queue;
    unsigned count = unknown_calls(q, INT64_MIN, to);
    for (size_t i = 0; i < q->call_count; i++) {
        const take_call *asked = &q->calls[i];
        if (asked->at < to && is_known(asked))
            count += (unsigned)(held_up(c, asked) / kept_for(asked->by->ttl));
    }
    return count;
}

/* `b` was told that it has the item, or another one of the group, before `a` must have lost it. */
static void check_early(checking *c, const char *rule, const item_take *a, const item_take *b)
{
    const int64_t until = a->promised < a->given_up ? a->promised : a->given_up;
    if (b->reply >= until || b->reply <= a->at || clock_stepped(c, a->at, b->reply))
        return;
    complain(c, rule,
             "%u (%" PRIu64 ", token %" PRIu64 ") was to have it until %" PRId64 "; %u got %" PRIu64
             " (token %" PRIu64 ") at %" PRId64,
             a->by->who, a->id, a->token, until, b->by->who, b->id, b->token, b->reply);
}

/* Both certainly had it at the same time. */
static void check_both(checking *c, const char *rule, const item_take *a, const item_take *b)
{
    const int64_t from = a->first_sure > b->first_sure ? a->first_sure : b->first_sure;
    int64_t to = a->last_sure < b->last_sure ? a->last_sure : b->last_sure;
    to = a->given_up < to ? a->given_up : to;
    to = b->given_up < to ? b->given_up : to;
    if (from > to || clock_stepped(c, a->at, to))
        return;
    complain(c, rule,
             "%u (%" PRIu64 ", token %" PRIu64 ") and %u (%" PRIu64 ", token %" PRIu64
             ") both had it from %" PRId64 " to %" PRId64,
             a->by->who, a->id, a->token, b->by->who, b->id, b->token, from, to);
}

/* The first item was certainly put before the other one of its group. */
static bool is_before(const queue_model *q, const item_take *a, const item_take *b)
{
    const item_put *x = put_of(q, a->mark);
    const item_put *y = put_of(q, b->mark);
    return x && y && x->reply < y->at && strcmp(x->status, "OK") == 0;
}

/* The earliest time at which the item may have ended. */
static int64_t may_end(const checking *c, uint64_t id, const item_put *p)
{
    const queue_model *q = &c->m->queue;
    int64_t at = TIME_NEVER;
    for (size_t i = 0; i < q->give_count; i++) {
        const item_give *g = &q->gives[i];
        if (g->take->id == id && may_have_ended(g) && g->at < at)
            at = g->at;
    }
    /* The last attempt may be one that was not reported. */
    for (size_t i = 0; p->most > 0 && i < q->take_count; i++) {
        const item_take *t = &q->takes[i];
        const int64_t over = t->given_up < t->promised ? t->given_up : t->promised;
        if (t->id == id && t->attempt + untold(c, TIME_NEVER) >= p->most && over < at)
            at = over;
    }
    return at;
}

/* Another item of the group, put later, was held before this one had ended. */
static void check_order_of_group(checking *c, const item_take *a, const item_take *b)
{
    const queue_model *q = &c->m->queue;
    const item_put *x = put_of(q, a->mark);
    if (!is_before(q, a, b) || put_back(c, x->at, b->reply) || b->reply >= may_end(c, a->id, x))
        return;
    complain(c, "item-order",
             "%u was given %" PRIu64 " of the group %s at %" PRId64 "; %" PRIu64
             " was put before it, and was not over",
             b->by->who, b->id, x->group, b->reply, a->id);
}

static void check_two(checking *c, const item_take *a, const item_take *b)
{
    const queue_model *q = &c->m->queue;
    const char *group = group_of(q, a);
    if (a->id == b->id && a < b) {
        check_tokens_of_items(c, a, b);
        check_both(c, "item-two", a, b);
    }
    if (a->id == b->id && a->token < b->token)
        check_early(c, "item-early", a, b);
    if (a->id == b->id || !*group || strcmp(group, group_of(q, b)) != 0)
        return;
    if (a < b)
        check_both(c, "item-group", a, b);
    if (a->reply < b->at)
        check_early(c, "item-group", a, b);
    check_order_of_group(c, a, b);
}

/* How many may have taken it before: known takes, and calls without a clear answer. */
static unsigned attempts_before(const checking *c, const item_take *t)
{
    const queue_model *q = &c->m->queue;
    unsigned count = 0;
    for (size_t i = 0; i < q->take_count; i++)
        count += q->takes[i].id == t->id && q->takes[i].token < t->token;
    count += untold(c, t->reply);
    return count;
}

static void check_attempt(checking *c, const item_take *t)
{
    const queue_model *q = &c->m->queue;
    const item_put *p = put_of(q, t->mark);
    if (t->attempt == 0 || (p && p->most > 0 && t->attempt > p->most))
        complain(c, "item-attempts", "%" PRIu64 ": %u was given attempt %u of %u", t->id,
                 t->by->who, t->attempt, p ? p->most : 0);
    if (t->attempt > attempts_before(c, t) + 1 && !put_back(c, INT64_MIN, t->reply))
        complain(c, "item-attempts", "%" PRIu64 ": %u was given attempt %u; there were %u at most",
                 t->id, t->by->who, t->attempt, attempts_before(c, t));
}

/* ------------------------------------------------------------------------- what was put */

static void check_put_of(checking *c, const item_take *t)
{
    const queue_model *q = &c->m->queue;
    const item_put *p = put_of(q, t->mark);
    if (!p || t->reply < p->at || !may_have_put(p) || (p->id > 0 && p->id != t->id))
        complain(c, "item-ghost", "%" PRIu64 " (%s): %u was given what was %s", t->id, t->mark,
                 t->by->who, p ? "not put there" : "put by nobody");
    if (p && p->delay > 0 && t->reply < p->at + p->delay - p->delay / CLOCK_RATE &&
        !clock_stepped(c, p->at, t->reply))
        complain(c, "item-ready",
                 "%" PRIu64 ": %u was given at %" PRId64 " what was put at %" PRId64 " for %" PRId64
                 " us later",
                 t->id, t->by->who, t->reply, p->at, p->delay);
    for (size_t i = 0; i < q->take_count; i++)
        if (strcmp(q->takes[i].mark, t->mark) == 0 && q->takes[i].id < t->id)
            complain(c, "item-twice", "%s was put once, and is %" PRIu64 " and %" PRIu64, t->mark,
                     q->takes[i].id, t->id);
}

/* The item had certainly ended by then; or, with the other `counts`, may have. */
static bool over_by(const checking *c, uint64_t id, int64_t at, bool (*counts)(const item_give *))
{
    const queue_model *q = &c->m->queue;
    for (size_t i = 0; i < q->give_count; i++) {
        const item_give *g = &q->gives[i];
        const int64_t when = counts == has_ended ? g->reply : g->at;
        if (g->take->id == id && counts(g) && when < at)
            return true;
    }
    return false;
}

static void check_keys(checking *c, const item_put *a, const item_put *b)
{
    if (!*a->key || strcmp(a->key, b->key) != 0 || strcmp(a->status, "OK") != 0 ||
        strcmp(b->status, "OK") != 0)
        return;
    const bool fresh = is_fresh(&c->m->queue, b);
    if (!is_fresh(&c->m->queue, a))
        return;
    if (fresh && a->reply < b->at && !put_back(c, a->at, b->reply) &&
        may_end(c, a->id, a) > b->reply)
        complain(c, "item-key",
                 "%s is the key of %" PRIu64 ", which %u put at %" PRId64 ", and of %" PRIu64
                 ", which %u put at %" PRId64,
                 a->key, a->id, a->by->who, a->at, b->id, b->by->who, b->at);
    /* It is the item of another put, which had ended. */
    if (!fresh && a->id == b->id && over_by(c, a->id, b->at, has_ended) &&
        !put_back(c, a->at, b->at))
        complain(c, "item-key",
                 "%" PRIu64 " was told to %u, who put %s at %" PRId64 ", and was over already",
                 b->id, b->by->who, b->key, b->at);
}

static void check_key(checking *c, const item_put *b)
{
    for (size_t i = 0; i < c->m->queue.put_count; i++)
        if (&c->m->queue.puts[i] != b)
            check_keys(c, &c->m->queue.puts[i], b);
    if (strcmp(b->status, "OK") == 0 && !is_fresh(&c->m->queue, b) && !*b->key)
        complain(c, "item-key", "%s has no key, and was told to be %" PRIu64, b->mark, b->id);
}

/* ----------------------------------------------------------------------- what was said */

static const item_work *work_of(const queue_model *q, const item_take *t)
{
    for (size_t i = 0; i < q->work_count; i++)
        if (strcmp(q->work[i].mark, t->mark) == 0 && q->work[i].token == t->token)
            return &q->work[i];
    return NULL;
}

/* An item that has ended is neither taken nor ended again. */
static void check_after(checking *c, const item_give *g)
{
    const queue_model *q = &c->m->queue;
    const item_take *t = g->take;
    const bool has_work = is_job(g) && may_have_ended(g) && work_of(q, t);
    for (size_t i = 0; i < q->take_count && (has_ended(g) || has_work); i++) {
        const item_take *b = &q->takes[i];
        const bool later = b->at > g->reply || (b->token > t->token && b->reply > t->at);
        if (b->id == t->id && later && !put_back(c, g->at, b->reply))
            complain(c, "item-again",
                     "%" PRIu64 ": %u was told at %" PRId64
                     " that its %s is OK; %u took it, with %" PRIu64,
                     t->id, t->by->who, g->reply, g->verb, b->by->who, b->token);
    }
    for (size_t i = 0; i < q->give_count && has_ended(g); i++) {
        const item_give *b = &q->gives[i];
        if (b->take->id == t->id && b->take->token < t->token && has_ended(b) &&
            !put_back(c, b->at, g->at))
            complain(c, "item-again", "%" PRIu64 " was ended by %" PRIu64 " and by %" PRIu64, t->id,
                     b->take->token, t->token);
    }
}

/* A call that was answered OK after another process had been told that it has the item. */
static void check_late(checking *c, const item_give *g)
{
    for (size_t i = 0; i < c->m->queue.take_count; i++) {
        const item_take *b = &c->m->queue.takes[i];
        if (strcmp(g->status, "OK") == 0 && b->id == g->take->id && b->token > g->take->token &&
            b->reply < g->at && !put_back(c, b->at, g->at))
            complain(c, "item-late",
                     "%" PRIu64 ": the %s of %u with %" PRIu64 " at %" PRId64
                     " was OK; %u had %" PRIu64 " since %" PRId64,
                     b->id, g->verb, g->take->by->who, g->take->token, g->at, b->by->who, b->token,
                     b->reply);
    }
}

static void check_retry(checking *c, const item_give *g)
{
    for (size_t i = 0; i < c->m->queue.take_count; i++) {
        const item_take *b = &c->m->queue.takes[i];
        if (strcmp(g->status, "OK") == 0 && b->id == g->take->id && b->reply > g->at &&
            b->reply < g->at + g->delay - g->delay / CLOCK_RATE && !put_back(c, g->at, b->reply) &&
            !clock_stepped(c, g->at, b->reply))
            complain(c, "item-ready",
                     "%" PRIu64 ": %u wanted it tried again %" PRId64 " us after %" PRId64
                     "; %u took it at %" PRId64,
                     b->id, g->take->by->who, g->delay, g->at, b->by->who, b->reply);
    }
}

static void check_work_of(checking *c, const item_give *g)
{
    const bool there = work_of(&c->m->queue, g->take) != NULL;
    if (strcmp(g->status, "OK") == 0 && !there)
        complain(c, "item-work", "%" PRIu64 ": the job of %u was acknowledged, and is not there",
                 g->take->id, g->take->by->who);
    if (!is_open(g->status, g->reply) && strcmp(g->status, "OK") != 0 && there)
        complain(c, "item-work", "%" PRIu64 ": the job of %u was %s, and is there", g->take->id,
                 g->take->by->who, g->status);
}

/* It was refused, though nobody else had taken the item, and its lease had not expired. */
static void check_refused(checking *c, const item_give *g)
{
    if (strcmp(g->status, "LOST") == 0 && g->at == g->take->given_up &&
        g->reply < g->take->believed && !clock_stepped(c, g->take->at, g->reply) &&
        !put_back(c, g->take->at, g->reply))
        complain(c, "item-refused",
                 "%" PRIu64 ": %u was told LOST at %" PRId64 ", and was to have it until %" PRId64,
                 g->take->id, g->take->by->who, g->reply, g->take->believed);
}

static void check_works(checking *c)
{
    const queue_model *q = &c->m->queue;
    for (size_t i = 0; i < q->work_count; i++)
        for (size_t j = 0; j < i; j++)
            if (strcmp(q->work[i].mark, q->work[j].mark) == 0)
                complain(c, "item-work", "%s has the work of two jobs, %" PRIu64 " and %" PRIu64,
                         q->work[i].mark, q->work[j].token, q->work[i].token);
}

/* ------------------------------------------------------------------------- the table */

static const item_take *holder_of(const queue_model *q, const item_look *l)
{
    for (size_t i = 0; i < q->take_count; i++)
        if (q->takes[i].id == l->id && q->takes[i].token == l->token)
            return &q->takes[i];
    return NULL;
}

static void check_dead_holder(checking *c, const item_look *l)
{
    const item_take *t = holder_of(&c->m->queue, l);
    if (!t || strcmp(l->state, "held") != 0 || t->by->died >= l->from ||
        clock_stepped(c, t->at, l->from))
        return;
    const int64_t calm = model_calm_since(c->m, l->from, false);
    const int64_t since = t->by->died > calm ? t->by->died : calm;
    const int64_t over = l->from + l->remaining - since - t->by->ttl;
    if (over > SECOND + check_lateness(c, since - t->by->ttl, l->from))
        complain(c, "item-kept",
                 "%" PRIu64 ": %u died at %" PRId64 "; at %" PRId64
                 " it has it for another %" PRId64 " us",
                 l->id, t->by->who, t->by->died, l->from, l->remaining);
}

static void check_dead_item(checking *c, const item_look *l)
{
    const queue_model *q = &c->m->queue;
    const item_put *p = put_of(q, l->mark);
    bool may = p && p->most > 0 && l->attempts >= p->most;
    for (size_t i = 0; i < q->give_count; i++)
        may |= q->gives[i].take->id == l->id && verb_is(&q->gives[i], "dead") &&
               may_have_ended(&q->gives[i]);
    if (!may)
        complain(c, "item-dead", "%" PRIu64 " is dead after %u attempts of %u", l->id, l->attempts,
                 p ? p->most : 0);
}

static void check_look(checking *c, const item_look *l)
{
    const queue_model *q = &c->m->queue;
    const item_look *before = NULL;
    for (size_t i = 0; i < q->look_count && &q->looks[i] != l; i++)
        if (q->looks[i].id == l->id)
            before = &q->looks[i];
    if (before && before->token > l->token && !check_crashed(c, before->from, l->to))
        complain(c, "item-back", "%" PRIu64 ": %" PRIu64 " at %" PRId64 ", %" PRIu64 " at %" PRId64,
                 l->id, before->token, before->to, l->token, l->from);
    for (size_t i = 0; i < q->take_count; i++)
        if (q->takes[i].id == l->id && q->takes[i].reply < l->from && q->takes[i].token > l->token)
            complain(c, "item-back",
                     "%" PRIu64 ": %u had %" PRIu64 " at %" PRId64 "; at %" PRId64
                     " the row has %" PRIu64,
                     l->id, q->takes[i].by->who, q->takes[i].token, q->takes[i].reply, l->from,
                     l->token);
    for (size_t i = 0; i < q->give_count; i++) {
        const item_give *g = &q->gives[i];
        const bool dead = verb_is(g, "dead");
        if (g->take->id == l->id && has_ended(g) && g->reply < l->from &&
            !(dead && (strcmp(l->state, "dead") == 0 || put_back(c, g->at, l->from))))
            complain(c, "item-kept",
                     "%" PRIu64 ": the %s of %u was OK at %" PRId64 "; at %" PRId64 " it is %s",
                     l->id, g->verb, g->take->by->who, g->reply, l->from, l->state);
    }
    check_dead_holder(c, l);
    if (strcmp(l->state, "dead") == 0)
        check_dead_item(c, l);
}

/* --------------------------------------------------------------------- nothing is lost */

static const item_look *at_the_end(const queue_model *q, uint64_t id)
{
    for (size_t i = q->look_count; i-- > 0 && q->looks[i].from == q->last_look;)
        if (q->looks[i].id == id)
            return &q->looks[i];
    return NULL;
}

/* An item that was certainly put has been ended, or is dead. */
static void check_accounted(checking *c, uint64_t id, const char *mark)
{
    const item_look *l = at_the_end(&c->m->queue, id);
    if (l && strcmp(l->state, "dead") != 0)
        complain(c, "item-stuck", "%" PRIu64 " (%s) is %s at the end", id, mark, l->state);
    else if (!l && !over_by(c, id, TIME_NEVER, may_have_ended))
        complain(c, "item-lost", "%" PRIu64 " (%s) was done by nobody, and is not there", id, mark);
}

static void check_losses(checking *c)
{
    const queue_model *q = &c->m->queue;
    for (size_t i = 0; i < q->put_count; i++)
        if (strcmp(q->puts[i].status, "OK") == 0 && is_fresh(q, &q->puts[i]))
            check_accounted(c, q->puts[i].id, q->puts[i].mark);
    for (size_t i = 0; i < q->take_count; i++) {
        const item_put *p = put_of(q, q->takes[i].mark);
        if (p && strcmp(p->status, "OK") != 0)
            check_accounted(c, q->takes[i].id, q->takes[i].mark);
    }
}

/* ------------------------------------------------------------------------------- waits */

/* Another worker has taken it, or may have. */
static bool may_be_taken(const queue_model *q, const item_put *p, const take_call *waiter)
{
    for (size_t i = 0; i < q->take_count; i++)
        if (q->takes[i].id == p->id && q->takes[i].at < waiter->reply)
            return true;
    return unknown_calls(q, p->at, waiter->reply) > 0;
}

static void check_served_with(checking *c, const take_call *asked, const item_put *p)
{
    if (strcmp(p->status, "OK") != 0 || !is_fresh(&c->m->queue, p) || *p->group ||
        p->reply > asked->reply)
        return;
    int64_t since = p->reply + p->delay;
    const int64_t calm = model_calm_since(c->m, asked->reply, true);
    since = since > asked->at ? since : asked->at;
    since = since > calm ? since : calm;
    if (asked->reply - since <= SERVED || may_be_taken(&c->m->queue, p, asked))
        return;
    int64_t allowed = SERVED + check_lateness(c, since, asked->reply);
    if (model_disturbed(c->m, NULL, (span){since, asked->reply}, SERVED_STOPPED))
        allowed += SERVED_STOPPED;
    if (asked->reply - since > allowed)
        complain(c, "item-stuck",
                 "%u asked at %" PRId64 ", %s at %" PRId64 "; %" PRIu64 " was ready since %" PRId64,
                 asked->by->who, asked->at, asked->status, asked->reply, p->id, since);
}

static void check_call(checking *c, const take_call *asked)
{
    const int64_t took = asked->reply - asked->at;
    if (asked->reply == TIME_NEVER)
        return;
    if (!check_explained(c, asked->status, took))
        complain(c, "status", "%u wanted to take at %" PRId64 " and got %s", asked->by->who,
                 asked->at, asked->status);
    if (took > asked->wait + SLACK_TRY + check_lateness(c, asked->at, asked->reply) +
                   model_stopped(c->m, asked->by->who, (span){asked->at, asked->reply}))
        complain(c, "wait-bound",
                 "%u waited %" PRId64 " us at %" PRId64 ", %s after %" PRId64 " us", asked->by->who,
                 asked->wait, asked->at, asked->status, took);
    if (strcmp(asked->status, "TIMEOUT") != 0)
        return;
    for (size_t i = 0; i < c->m->queue.put_count; i++)
        check_served_with(c, asked, &c->m->queue.puts[i]);
}

/* NONE: rolled back; DEADLOCK: rolled back by the server. */
static void check_status(checking *c, const process *by, const char *what, const char *status,
                         int64_t at, int64_t reply)
{
    if (reply != TIME_NEVER && strcmp(status, "NONE") != 0 &&
        !check_explained(c, status, reply - at))
        complain(c, "status", "the %s of %u at %" PRId64 " got %s", what, by->who, at, status);
}

void check_queue(checking *c)
{
    const queue_model *q = &c->m->queue;
    for (size_t i = 0; i < q->take_count; i++) {
        check_put_of(c, &q->takes[i]);
        check_attempt(c, &q->takes[i]);
        for (size_t j = 0; j < q->take_count; j++)
            if (i != j)
                check_two(c, &q->takes[i], &q->takes[j]);
    }
    for (size_t i = 0; i < q->put_count; i++) {
        const item_put *p = &q->puts[i];
        check_key(c, p);
        check_status(c, p->by, "put", p->status, p->at, p->reply);
    }
    for (size_t i = 0; i < q->give_count; i++) {
        const item_give *g = &q->gives[i];
        check_after(c, g);
        check_late(c, g);
        check_refused(c, g);
        if (!verb_is(g, "close") && !(is_job(g) && strcmp(g->status, "DEADLOCK") == 0))
            check_status(c, g->take->by, g->verb, g->status, g->at, g->reply);
        if (verb_is(g, "retry"))
            check_retry(c, g);
        if (is_job(g))
            check_work_of(c, g);
    }
    check_works(c);
    for (size_t i = 0; i < q->look_count; i++)
        check_look(c, &q->looks[i]);
    for (size_t i = 0; i < q->call_count; i++)
        check_call(c, &q->calls[i]);
    check_losses(c);
}
