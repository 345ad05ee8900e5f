#include "model.h"

enum { WHO_MAX = 4096 };

typedef struct builder {
    model *m;
    /* Each process, and its open calls. */
    process *process_of[WHO_MAX];
    hold *hold_of[WHO_MAX];
    hold *change_of[WHO_MAX]; /* its upgrade or downgrade */
    guarded_write *write_of[WHO_MAX];
    call *call_of[WHO_MAX];
    publication *published_by[WHO_MAX]; /* its last one */
    observation *seen_by[WHO_MAX];
} builder;

static process *process_of(builder *b, unsigned who)
{
    return who < WHO_MAX ? b->process_of[who] : NULL;
}

static hold *hold_of(builder *b, unsigned who)
{
    return who < WHO_MAX ? b->hold_of[who] : NULL;
}

static bool on_begin(builder *b, const event *e)
{
    if (e->who >= WHO_MAX || b->process_of[e->who])
        return false;
    process *p = &b->m->processes[b->m->process_count++];
    *p = (process){.who = e->who,
                   .slots = (unsigned)event_number(e, "slots"),
                   .lease = event_has(e, "mode", "lease"),
                   .latch = event_has(e, "mode", "latch"),
                   .queue = event_has(e, "mode", "queue"),
                   .members = (unsigned)event_number(e, "members"),
                   .probe = event_number(e, "probe") == 1,
                   .polls = event_has(e, "polls", "1"),
                   .far = event_has(e, "far", "1"),
                   .ttl = event_number(e, "ttl"),
                   .died = TIME_NEVER};
    event_copy(e, "name", p->name, sizeof p->name);
    b->process_of[e->who] = p;
    return true;
}

static hold *add_hold(builder *b, const event *e, holder_kind kind)
{
    hold *h = &b->m->holds[b->m->hold_count++];
    *h = (hold){.by = b->process_of[e->who],
                .kind = kind,
                .units = 1,
                .call = e->at,
                .reply = TIME_NEVER,
                .wait = event_number(e, "wait"),
                .queues = TIME_NEVER,
                .closed = TIME_NEVER,
                .first_sure = TIME_NEVER,
                .last_sure = INT64_MIN,
                .given_up = TIME_NEVER,
                .released = TIME_NEVER};
    snprintf(h->name, sizeof h->name, "%s", h->by->name);
    return h;
}

static void add_publication(builder *b, const event *e, const hold *h, bool apart)
{
    publication *p = &b->m->published[b->m->published_count++];
    *p = (publication){.hold = h, .apart = apart, .at = e->at, .reply = TIME_NEVER};
    event_copy(e, "value", p->value, sizeof p->value);
    b->published_by[e->who] = p;
}

static void end_publication(builder *b, const event *e)
{
    publication *p = b->published_by[e->who];
    p->reply = e->at;
    event_copy(e, "status", p->status, sizeof p->status);
}

static bool on_acquire(builder *b, const event *e)
{
    const process *p = process_of(b, e->who);
    if (!p)
        return false;
    const holder_kind kind = p->slots                         ? HOLDER_SLOTS
                             : event_number(e, "shared") == 1 ? HOLDER_READER
                                                              : HOLDER_ALONE;
    hold *h = add_hold(b, e, kind);
    if (p->slots)
        h->units = (unsigned)event_number(e, "units");
    event_copy(e, "value", h->value, sizeof h->value);
    b->published_by[e->who] = NULL;
    if (*h->value)
        add_publication(b, e, h, false);
    b->hold_of[e->who] = h;
    return h->units > 0 && h->units <= HOLD_PARTS;
}

/* An acquired slot. It is held even if the process died before it wrote "acquired". */
static bool on_slot(builder *b, const event *e)
{
    hold *whole = hold_of(b, e->who);
    if (!whole || whole->kind != HOLDER_SLOTS || whole->reply != TIME_NEVER ||
        whole->part_count == whole->units)
        return false;
    hold *part = add_hold(b, e, HOLDER_ALONE);
    part->whole = whole;
    part->call = whole->call;
    part->reply = e->at;
    part->got = true;
    part->fenced = true;
    part->token = (uint64_t)event_number(e, "token");
    snprintf(part->status, sizeof part->status, "OK");
    event_copy(e, "name", part->name, sizeof part->name);
    event_copy(e, "owner", part->owner, sizeof part->owner);
    whole->parts[whole->part_count++] = part;
    return true;
}

/* For an acquire. An upgrade or downgrade does not stand in the queue. */
static bool on_place(builder *b, const event *e)
{
    hold *h = hold_of(b, e->who);
    if (!h)
        return false;
    if (h->reply != TIME_NEVER)
        return true;
    if (event_has(e, "is", "queue"))
        h->queues = e->at;
    else
        h->closed = e->at;
    return true;
}

static void take_reply(hold *h, const event *e)
{
    h->reply = e->at;
    event_copy(e, "status", h->status, sizeof h->status);
    h->got = strcmp(h->status, "OK") == 0;
    h->token = (uint64_t)event_number(e, "token");
    h->fenced = h->kind != HOLDER_SLOTS && event_number(e, "fenced") == 1;
}

static bool on_acquired(builder *b, const event *e)
{
    hold *h = hold_of(b, e->who);
    if (!h || h->reply != TIME_NEVER)
        return false;
    take_reply(h, e);
    if (b->published_by[e->who])
        end_publication(b, e);
    event_copy(e, "owner", h->owner, sizeof h->owner);
    return h->kind != HOLDER_SLOTS || !h->got || h->part_count == h->units;
}

static void give_up(hold *h, int64_t at)
{
    h->given_up = h->given_up < at ? h->given_up : at;
}

/* "upgrade" or "downgrade". Readers may enter as soon as a downgrade is called. */
static bool on_change(builder *b, const event *e)
{
    hold *h = hold_of(b, e->who);
    const holder_kind to = event_is(e, "upgrade") ? HOLDER_ALONE : HOLDER_READER;
    if (!h || !hold_ok(h) || h->kind == to || h->kind == HOLDER_SLOTS || b->change_of[e->who])
        return false;
    hold *next = add_hold(b, e, to);
    next->before = h;
    snprintf(next->owner, sizeof next->owner, "%s", h->owner);
    if (to == HOLDER_READER) {
        next->wait = -1; /* it does not wait, and has no bound */
        give_up(h, e->at);
    }
    b->change_of[e->who] = next;
    return true;
}

/* "upgraded" or "downgraded". After an unknown outcome it counts as a reader. */
static bool on_changed(builder *b, const event *e)
{
    const holder_kind to = event_is(e, "upgraded") ? HOLDER_ALONE : HOLDER_READER;
    hold *h = hold_of(b, e->who);
    hold *next = h ? b->change_of[e->who] : NULL;
    if (!next || next->kind != to)
        return false;
    b->change_of[e->who] = NULL;
    take_reply(next, e);
    next->got |= to == HOLDER_READER && strcmp(next->status, "UNKNOWN") == 0;
    if (!next->got)
        return true;
    give_up(h, next->call);
    h->released = e->at;
    h->changed = strcmp(next->status, "OK") == 0;
    b->hold_of[e->who] = next;
    return true;
}

static void add_look(builder *b, const event *e, hold *h)
{
    look *l = &b->m->looks[b->m->look_count++];
    *l = (look){.hold = h,
                .from = event_number(e, "from"),
                .ok = event_has(e, "status", "OK"),
                .remaining = event_number(e, "remaining")};
    if (l->ok && h->first_sure == TIME_NEVER)
        h->first_sure = l->from;
    if (l->ok)
        h->last_sure = l->from;
}

/* A hold of several slots is held as long as all of them are. */
static bool on_checked(builder *b, const event *e)
{
    hold *h = hold_of(b, e->who);
    if (!h || !hold_ok(h))
        return false;
    add_look(b, e, h);
    for (unsigned i = 0; i < h->part_count; i++)
        add_look(b, e, h->parts[i]);
    return true;
}

static bool on_write(builder *b, const event *e)
{
    const hold *h = hold_of(b, e->who);
    if (!h)
        return false;
    guarded_write *w = &b->m->writes[b->m->write_count++];
    *w = (guarded_write){.hold = h->part_count ? h->parts[0] : h,
                         .seq = (unsigned)event_number(e, "seq"),
                         .fence = event_has(e, "kind", "fence"),
                         .call = e->at,
                         .reply = TIME_NEVER};
    b->write_of[e->who] = w;
    return true;
}

static bool on_wrote(builder *b, const event *e)
{
    if (e->who >= WHO_MAX || !b->write_of[e->who])
        return false;
    guarded_write *w = b->write_of[e->who];
    w->reply = e->at;
    event_copy(e, "status", w->status, sizeof w->status);
    return w->seq == (unsigned)event_number(e, "seq");
}

static bool on_release(builder *b, const event *e)
{
    hold *h = hold_of(b, e->who);
    if (!h)
        return false;
    give_up(h, e->at);
    for (unsigned i = 0; i < h->part_count; i++)
        give_up(h->parts[i], e->at);
    return true;
}

static void end_hold(hold *h, const event *e)
{
    h->released = e->at;
    event_copy(e, "status", h->release_status, sizeof h->release_status);
}

static bool on_released(builder *b, const event *e)
{
    hold *h = hold_of(b, e->who);
    if (!h)
        return false;
    end_hold(h, e);
    for (unsigned i = 0; i < h->part_count; i++)
        end_hold(h->parts[i], e);
    return true;
}

static bool on_nothing(builder *b, const event *e)
{
    (void)b;
    (void)e;
    return true;
}

static bool on_fault(builder *b, const event *e)
{
    fault *f = &b->m->faults[b->m->fault_count++];
    *f = (fault){.target = (unsigned)event_number(e, "target"), .when = {e->at, TIME_NEVER}};
    event_copy(e, "kind", f->kind, sizeof f->kind);
    if (event_is(e, "stop") || event_is(e, "kill"))
        snprintf(f->kind, sizeof f->kind, "%s", e->word);
    return true;
}

/* Ends the newest open fault of that kind. */
static bool heal(builder *b, const char *kind, unsigned target, int64_t at)
{
    for (size_t i = b->m->fault_count; i-- > 0;) {
        fault *f = &b->m->faults[i];
        if (strcmp(f->kind, kind) == 0 && f->target == target && f->when.to == TIME_NEVER) {
            f->when.to = at;
            return true;
        }
    }
    return false;
}

static bool on_healed(builder *b, const event *e)
{
    char kind[20];
    event_copy(e, "kind", kind, sizeof kind);
    return heal(b, kind, 0, e->at);
}

static bool on_continued(builder *b, const event *e)
{
    return heal(b, "stop", (unsigned)event_number(e, "target"), e->at);
}

static bool on_kill(builder *b, const event *e)
{
    process *p = process_of(b, (unsigned)event_number(e, "target"));
    if (p)
        p->killed = true;
    return on_fault(b, e) && heal(b, "kill", (unsigned)event_number(e, "target"), e->at);
}

static bool on_died(builder *b, const event *e)
{
    process *p = process_of(b, (unsigned)event_number(e, "target"));
    if (p) {
        p->died = e->at;
        p->status = (int)event_number(e, "status");
    }
    /* A dead process is not stopped any more. */
    (void)heal(b, "stop", (unsigned)event_number(e, "target"), e->at);
    return true;
}

static bool on_hung(builder *b, const event *e)
{
    process *p = process_of(b, (unsigned)event_number(e, "target"));
    if (p)
        p->hung = true;
    return p != NULL;
}

static bool on_late(builder *b, const event *e)
{
    span *s = &b->m->lates[b->m->late_count++];
    *s = (span){event_number(e, "from"), e->at};
    return true;
}

static bool on_row(builder *b, const event *e)
{
    row *r = &b->m->rows[b->m->row_count++];
    *r = (row){.from = event_number(e, "from"),
               .to = e->at,
               .version = (uint64_t)event_number(e, "version"),
               .held = event_has(e, "status", "held"),
               .reader = event_has(e, "status", "reader"),
               .remaining = event_number(e, "remaining")};
    event_copy(e, "name", r->name, sizeof r->name);
    event_copy(e, "owner", r->owner, sizeof r->owner);
    return true;
}

static bool on_written(builder *b, const event *e)
{
    written *w = &b->m->table[b->m->table_count++];
    *w = (written){.token = (uint64_t)event_number(e, "token"),
                   .writer = (unsigned)event_number(e, "writer"),
                   .seq = (unsigned)event_number(e, "seq")};
    event_copy(e, "name", w->name, sizeof w->name);
    event_copy(e, "owner", w->owner, sizeof w->owner);
    return true;
}

static bool on_call(builder *b, const event *e)
{
    const process *p = process_of(b, e->who);
    if (!p || b->call_of[e->who])
        return false;
    call *made = &b->m->calls[b->m->call_count++];
    *made = (call){.by = p,
                   .at = e->at,
                   .reply = TIME_NEVER,
                   .wait = event_number(e, "wait"),
                   .asked = event_unsigned(e, "asked"),
                   .token = event_unsigned(e, "token"),
                   .count = (unsigned)event_number(e, "count")};
    event_copy(e, "verb", made->verb, sizeof made->verb);
    event_copy(e, "key", made->key, sizeof made->key);
    b->call_of[e->who] = made;
    return true;
}

static bool on_back(builder *b, const event *e)
{
    call *made = process_of(b, e->who) ? b->call_of[e->who] : NULL;
    if (!made)
        return false;
    made->reply = e->at;
    made->generation = event_unsigned(e, "generation");
    made->place = (unsigned)event_number(e, "place");
    event_copy(e, "status", made->status, sizeof made->status);
    event_copy(e, "state", made->state, sizeof made->state);
    b->call_of[e->who] = NULL;
    return true;
}

static bool on_publish(builder *b, const event *e)
{
    const hold *h = hold_of(b, e->who);
    if (!h || !hold_ok(h) || h->kind != HOLDER_ALONE)
        return false;
    add_publication(b, e, h, true);
    return true;
}

static bool on_published(builder *b, const event *e)
{
    const publication *p = process_of(b, e->who) ? b->published_by[e->who] : NULL;
    if (!p || p->reply != TIME_NEVER)
        return false;
    end_publication(b, e);
    return true;
}

static bool on_observe(builder *b, const event *e)
{
    const process *p = process_of(b, e->who);
    if (!p)
        return false;
    observation *o = &b->m->seen[b->m->seen_count++];
    *o = (observation){.by = p, .at = e->at, .reply = TIME_NEVER};
    b->seen_by[e->who] = o;
    return true;
}

static bool on_observed(builder *b, const event *e)
{
    observation *o = process_of(b, e->who) ? b->seen_by[e->who] : NULL;
    if (!o || o->reply != TIME_NEVER)
        return false;
    o->reply = e->at;
    o->leads = event_number(e, "leads") == 1;
    o->token = event_unsigned(e, "token");
    event_copy(e, "status", o->status, sizeof o->status);
    event_copy(e, "value", o->value, sizeof o->value);
    return true;
}

static bool on_counted(builder *b, const event *e)
{
    counted *seen = &b->m->counts[b->m->counted_count++];
    *seen = (counted){.from = event_number(e, "from"),
                      .to = e->at,
                      .generation = event_unsigned(e, "generation"),
                      .armed = event_has(e, "status", "held"),
                      .count = (unsigned)event_number(e, "count"),
                      .broken = event_unsigned(e, "broken"),
                      .of = event_unsigned(e, "of")};
    event_copy(e, "key", seen->key, sizeof seen->key);
    return true;
}

static bool on_ledger(builder *b, const event *e)
{
    ledger *l = &b->m->ledger[b->m->ledger_count++];
    *l = (ledger){.from = event_number(e, "from"),
                  .to = e->at,
                  .period = event_unsigned(e, "period"),
                  .token = event_unsigned(e, "token"),
                  .attempts = (unsigned)event_number(e, "attempts")};
    event_copy(e, "name", l->name, sizeof l->name);
    event_copy(e, "state", l->state, sizeof l->state);
    return true;
}

static bool on_worked(builder *b, const event *e)
{
    worked *w = &b->m->worked[b->m->worked_count++];
    *w = (worked){.period = event_unsigned(e, "period"),
                  .token = event_unsigned(e, "token"),
                  .joined = event_number(e, "joined") == 1};
    event_copy(e, "name", w->name, sizeof w->name);
    return true;
}

static bool on_end(builder *b, const event *e)
{
    (void)e;
    b->m->complete = true;
    return true;
}

static const struct word {
    const char *word;
    bool (*take)(builder *b, const event *e);
} words[] = {
    {"begin", on_begin},        {"acquire", on_acquire},   {"acquired", on_acquired},
    {"checked", on_checked},    {"write", on_write},       {"wrote", on_wrote},
    {"upgrade", on_change},     {"upgraded", on_changed},  {"downgrade", on_change},
    {"downgraded", on_changed}, {"release", on_release},   {"released", on_released},
    {"slot", on_slot},          {"quit", on_nothing},      {"lost", on_nothing},
    {"fault", on_fault},        {"healed", on_healed},     {"kill", on_kill},
    {"stop", on_fault},         {"died", on_died},         {"continued", on_continued},
    {"hung", on_hung},          {"late", on_late},         {"row", on_row},
    {"written", on_written},    {"call", on_call},         {"back", on_back},
    {"counted", on_counted},    {"publish", on_publish},   {"published", on_published},
    {"observe", on_observe},    {"observed", on_observed}, {"ledger", on_ledger},
    {"worked", on_worked},      {"place", on_place},       {"end", on_end},
};

static bool take(builder *b, const event *e)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (event_is(e, words[i].word))
            return words[i].take(b, e);
    return queue_model_take(&b->m->queue, process_of(b, e->who), e);
}

#define LISTS(X)                                                                                   \
    X(processes)                                                                                   \
    X(holds)                                                                                       \
    X(writes)                                                                                      \
    X(rows) X(table) X(published) X(seen) X(calls) X(counts) X(ledger) X(worked) X(faults) X(lates)

/* No list can be longer than the history (a look counts for each part), so none is moved while it
 * is filled. */
static bool make_room(model *m, size_t most)
{
    queue_model *q = &m->queue;
    m->looks = calloc(most * (1 + HOLD_PARTS), sizeof *m->looks);
#define ROOM(list)       (m->list = calloc(most, sizeof *m->list)) &&
#define QUEUE_ROOM(list) (q->list = calloc(most, sizeof *q->list)) &&
    return LISTS(ROOM) QUEUE_MODEL_LISTS(QUEUE_ROOM) m->looks;
#undef ROOM
#undef QUEUE_ROOM
}

bool model_build(model *m, const events *all)
{
    builder *b = calloc(1, sizeof *b);
    *m = (model){0};
    bool good = b && make_room(m, all->count + 1);
    if (b)
        b->m = m;
    for (size_t i = 0; good && i < all->count; i++) {
        good = take(b, &all->list[i]);
        if (!good)
            fprintf(stderr, "out of place: %" PRId64 " %u %s %s\n", all->list[i].at,
                    all->list[i].who, all->list[i].word, all->list[i].rest);
    }
    free(b);
    return good;
}

void model_free(model *m)
{
#define FREE(list)       free(m->list);
#define QUEUE_FREE(list) free(m->queue.list);
    LISTS(FREE)
    QUEUE_MODEL_LISTS(QUEUE_FREE)
#undef FREE
#undef QUEUE_FREE
    free(m->looks);
    *m = (model){0};
}

bool hold_ok(const hold *h)
{
    return h->got;
}

bool model_disturbed(const model *m, const char *kind, span when, int64_t after)
{
    for (size_t i = 0; i < m->fault_count; i++) {
        const fault *f = &m->faults[i];
        bool over = f->when.to != TIME_NEVER && f->when.to + after < when.from;
        if ((!kind || strcmp(kind, f->kind) == 0) && f->when.from <= when.to && !over)
            return true;
    }
    return false;
}

bool model_troubled(const model *m, unsigned who, span when, int64_t after)
{
    for (size_t i = 0; i < m->fault_count; i++) {
        const fault *f = &m->faults[i];
        bool over = f->when.to != TIME_NEVER && f->when.to + after < when.from;
        if ((f->target == 0 || f->target == who) && f->when.from <= when.to && !over)
            return true;
    }
    return false;
}

int64_t model_calm_since(const model *m, int64_t at, bool stops)
{
    int64_t since = INT64_MIN;
    for (size_t i = 0; i < m->fault_count; i++) {
        const fault *f = &m->faults[i];
        if (f->when.from > at || (!stops && strcmp(f->kind, "stop") == 0))
            continue;
        int64_t to = f->when.to < at ? f->when.to : at;
        since = to > since ? to : since;
    }
    return since;
}

static int64_t overlap(span a, span b)
{
    int64_t from = a.from > b.from ? a.from : b.from;
    int64_t to = a.to < b.to ? a.to : b.to;
    return to > from ? to - from : 0;
}

int64_t model_stopped(const model *m, unsigned who, span when)
{
    int64_t sum = 0;
    for (size_t i = 0; i < m->fault_count; i++)
        if (m->faults[i].target == who && strcmp(m->faults[i].kind, "stop") == 0)
            sum += overlap(m->faults[i].when, when);
    return sum;
}

int64_t model_lateness(const model *m, span when)
{
    int64_t longest = 0;
    for (size_t i = 0; i < m->late_count; i++) {
        int64_t late = m->lates[i].to - m->lates[i].from;
        if (overlap(m->lates[i], when) > 0 && late > longest)
            longest = late;
    }
    return longest;
}
