#include "model.h"

static bool on_put(queue_model *q, const process *by, const event *e)
{
    item_put *p = &q->puts[q->put_count++];
    *p = (item_put){.by = by,
                    .delay = event_number(e, "delay"),
                    .most = (unsigned)event_number(e, "most"),
                    .at = e->at,
                    .reply = TIME_NEVER};
    event_copy(e, "mark", p->mark, sizeof p->mark);
    event_copy(e, "group", p->group, sizeof p->group);
    event_copy(e, "key", p->key, sizeof p->key);
    if (q->open_put[e->who] == 0)
        q->open_put[e->who] = q->put_count;
    return true;
}

static bool is_open_put(const item_put *p, const process *by)
{
    return p->by == by && p->reply == TIME_NEVER;
}

static bool on_putid(queue_model *q, const process *by, const event *e)
{
    char mark[ITEM_WORD];
    event_copy(e, "mark", mark, sizeof mark);
    for (size_t i = q->put_count; i-- > 0;) {
        item_put *p = &q->puts[i];
        if (!is_open_put(p, by) || strcmp(p->mark, mark) != 0)
            continue;
        p->id = event_unsigned(e, "id");
        return true;
    }
    return false;
}

static bool on_puts(queue_model *q, const process *by, const event *e)
{
    if (q->open_put[e->who] == 0)
        return false;
    for (size_t i = q->open_put[e->who] - 1; i < q->put_count; i++) {
        item_put *p = &q->puts[i];
        if (!is_open_put(p, by))
            continue;
        p->reply = e->at;
        event_copy(e, "status", p->status, sizeof p->status);
    }
    q->open_put[e->who] = 0;
    return true;
}

static bool on_take(queue_model *q, const process *by, const event *e)
{
    if (q->open_take[e->who])
        return false;
    take_call *asked = &q->calls[q->call_count++];
    *asked =
        (take_call){.by = by, .at = e->at, .reply = TIME_NEVER, .wait = event_number(e, "wait")};
    q->open_take[e->who] = asked;
    return true;
}

/* The item is taken even if the process dies before it writes "taken". */
static bool on_took(queue_model *q, const process *by, const event *e)
{
    take_call *asked = q->open_take[e->who];
    if (!asked)
        return false;
    item_take *t = &q->takes[q->take_count++];
    *t = (item_take){.by = by,
                     .id = event_unsigned(e, "id"),
                     .token = event_unsigned(e, "token"),
                     .attempt = (unsigned)event_number(e, "attempt"),
                     .at = asked->at,
                     .reply = e->at,
                     .promised = asked->at + by->ttl - by->ttl / MODEL_CLOCK_RATE,
                     .believed = INT64_MIN,
                     .first_sure = TIME_NEVER,
                     .last_sure = INT64_MIN,
                     .given_up = TIME_NEVER};
    event_copy(e, "mark", t->mark, sizeof t->mark);
    asked->count++;
    return true;
}

static bool on_taken(queue_model *q, const process *by, const event *e)
{
    take_call *asked = q->open_take[e->who];
    (void)by;
    if (!asked)
        return false;
    asked->reply = e->at;
    event_copy(e, "status", asked->status, sizeof asked->status);
    q->open_take[e->who] = NULL;
    return true;
}

/* The process's newest take of the item. */
static item_take *take_of(queue_model *q, const process *by, const event *e)
{
    const uint64_t id = event_unsigned(e, "id");
    for (size_t i = q->take_count; i-- > 0;)
        if (q->takes[i].by == by && q->takes[i].id == id)
            return &q->takes[i];
    return NULL;
}

static bool on_still(queue_model *q, const process *by, const event *e)
{
    item_take *t = take_of(q, by, e);
    if (!t)
        return false;
    item_still *s = &q->stills[q->still_count++];
    *s = (item_still){
        .take = t, .from = event_number(e, "from"), .ok = event_has(e, "status", "OK")};
    if (!s->ok)
        return true;
    const int64_t remaining = event_number(e, "remaining");
    if (remaining > 0 && s->from + remaining > t->believed)
        t->believed = s->from + remaining;
    if (t->believed > t->promised)
        t->promised = t->believed;
    t->last_sure = s->from;
    if (t->first_sure == TIME_NEVER)
        t->first_sure = s->from;
    return true;
}

static bool on_give(queue_model *q, const process *by, const event *e)
{
    item_take *t = take_of(q, by, e);
    if (!t)
        return false;
    item_give *g = &q->gives[q->give_count++];
    *g =
        (item_give){.take = t, .delay = event_number(e, "delay"), .at = e->at, .reply = TIME_NEVER};
    event_copy(e, "verb", g->verb, sizeof g->verb);
    t->given_up = e->at < t->given_up ? e->at : t->given_up;
    return true;
}

static bool on_gave(queue_model *q, const process *by, const event *e)
{
    const item_take *t = take_of(q, by, e);
    for (size_t i = q->give_count; t && i-- > 0;) {
        item_give *g = &q->gives[i];
        if (g->take != t)
            continue;
        g->reply = e->at;
        event_copy(e, "status", g->status, sizeof g->status);
        return true;
    }
    return false;
}

static bool on_item(queue_model *q, const process *by, const event *e)
{
    item_look *l = &q->looks[q->look_count++];
    (void)by;
    *l = (item_look){.from = event_number(e, "from"),
                     .to = e->at,
                     .id = event_unsigned(e, "id"),
                     .token = event_unsigned(e, "token"),
                     .attempts = (unsigned)event_number(e, "attempts"),
                     .remaining = event_number(e, "remaining")};
    event_copy(e, "mark", l->mark, sizeof l->mark);
    event_copy(e, "state", l->state, sizeof l->state);
    return true;
}

/* The driver has looked at all items: those that it saw have this line's `from`. */
static bool on_items(queue_model *q, const process *by, const event *e)
{
    (void)by;
    q->last_look = event_number(e, "from");
    return true;
}

static bool on_jobwork(queue_model *q, const process *by, const event *e)
{
    item_work *w = &q->work[q->work_count++];
    (void)by;
    *w = (item_work){.token = event_unsigned(e, "token")};
    event_copy(e, "mark", w->mark, sizeof w->mark);
    return true;
}

static const struct word {
    const char *word;
    bool (*take)(queue_model *q, const process *by, const event *e);
    bool of_driver;
} words[] = {
    {"put", on_put, false},     {"putid", on_putid, false}, {"puts", on_puts, false},
    {"take", on_take, false},   {"took", on_took, false},   {"taken", on_taken, false},
    {"still", on_still, false}, {"give", on_give, false},   {"gave", on_gave, false},
    {"item", on_item, true},    {"items", on_items, true},  {"jobwork", on_jobwork, true},
};

bool queue_model_take(queue_model *q, const process *by, const event *e)
{
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (event_is(e, words[i].word))
            return (words[i].of_driver || by) && words[i].take(q, by, e);
    return false;
}
