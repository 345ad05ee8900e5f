#include "checking.h"

#include <signal.h>
#include <stdarg.h>

bool verdict_has(const verdict *v, const char *rule)
{
    char word[40];
    snprintf(word, sizeof word, " %s ", rule);
    return strstr(v->rules, word) != NULL;
}

static void note_rule(verdict *v, const char *rule)
{
    size_t length = strlen(v->rules);
    if (!verdict_has(v, rule))
        snprintf(v->rules + length, sizeof v->rules - length, "%s%s ", length ? "" : " ", rule);
}

void complain(checking *c, const char *rule, const char *format, ...)
{
    va_list args;
    c->verdict.violations++;
    note_rule(&c->verdict, rule);
    fprintf(c->out, "%s: ", rule);
    va_start(args, format);
    vfprintf(c->out, format, args);
    va_end(args);
    fputc('\n', c->out);
}

static bool same_lock(const hold *a, const hold *b)
{
    return strcmp(a->name, b->name) == 0;
}

/* A name with slots, as its waiters see it; not one of the slots. */
static bool is_of_slots(const hold *h)
{
    return h->kind == HOLDER_SLOTS;
}

int64_t check_lateness(const checking *c, int64_t from, int64_t to)
{
    return LATE_TIMES * model_lateness(c->m, (span){from, to});
}

/* Exceptions of the contract: times of client and server cannot be compared across a step of the
 * server's clock; and a break takes the lock from its holder. The token still protects. */
static bool excepted(const checking *c, int64_t from, int64_t to)
{
    return model_disturbed(c->m, "clock", (span){from, to}, 0) ||
           model_disturbed(c->m, "break", (span){from, to}, 0);
}

/* Holders of these kinds may have the lock at the same time. (How many of slots: see
 * check_slots().) */
static bool together(holder_kind a, holder_kind b)
{
    static const bool may[HOLDER_KINDS][HOLDER_KINDS] = {
        [HOLDER_READER] = {[HOLDER_READER] = true}, [HOLDER_SLOTS] = {[HOLDER_SLOTS] = true}};
    return may[a][b];
}

static bool is_reader(const hold *h)
{
    return h->kind == HOLDER_READER;
}

/* An exclusive holder raises the token; a reader does not. */
static bool rises(const hold *a, const hold *b)
{
    return is_reader(b) ? a->token <= b->token : a->token < b->token;
}

static void check_tokens(checking *c)
{
    const model *m = c->m;
    for (size_t i = 0; i < m->hold_count; i++) {
        const hold *a = &m->holds[i];
        for (size_t j = i + 1; hold_ok(a) && a->fenced && j < m->hold_count; j++) {
            const hold *b = &m->holds[j];
            if (!hold_ok(b) || !b->fenced || !same_lock(a, b))
                continue;
            if (a->token == b->token && !is_reader(a) && !is_reader(b))
                complain(c, "token-once", "%s: %" PRIu64 " went to %u and to %u", a->name, a->token,
                         a->by->who, b->by->who);
            else if (a->reply <= b->call && !rises(a, b))
                complain(c, "token-rises",
                         "%s: %u had %" PRIu64 " at %" PRId64 "; %u asked at %" PRId64
                         " and got %" PRIu64,
                         a->name, a->by->who, a->token, a->reply, b->by->who, b->call, b->token);
        }
    }
}

/* The last exclusive holder, by the tokens, of those that had asked by then; NULL: none. */
static const hold *last_alone(const checking *c, const hold *reader)
{
    const hold *last = NULL;
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *h = &c->m->holds[i];
        if (hold_ok(h) && !is_reader(h) && h->fenced && h->call < reader->reply &&
            same_lock(h, reader) && (!last || h->token > last->token))
            last = h;
    }
    return last;
}

/* It may have raised the token without having acquired the lock. */
static bool may_have_raised(const hold *h)
{
    static const char *const sure[] = {"BUSY", "TIMEOUT", "DEADLOCK"};
    for (size_t i = 0; i < sizeof sure / sizeof sure[0]; i++)
        if (strcmp(h->status, sure[i]) == 0)
            return false;
    return !hold_ok(h) && !is_reader(h);
}

static bool token_got_lost(const checking *c, const hold *last, const hold *reader)
{
    const int64_t from = last ? last->call : INT64_MIN;
    /* It may have expired, which ends its token, too. */
    if (last && !last->changed && strcmp(last->release_status, "OK") != 0)
        return true;
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *h = &c->m->holds[i];
        if (may_have_raised(h) && h->call < reader->reply && h->reply > from &&
            same_lock(h, reader))
            return true;
    }
    return model_disturbed(c->m, "break", (span){from, reader->reply}, 0);
}

static void check_tokens_of_readers(checking *c)
{
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *r = &c->m->holds[i];
        if (!hold_ok(r) || !is_reader(r) || !r->fenced)
            continue;
        const hold *last = last_alone(c, r);
        /* If there was no exclusive holder yet, the first reader gets 1. */
        const uint64_t highest = last ? last->token : 1;
        if (r->token > highest && !token_got_lost(c, last, r))
            complain(c, "token-reader",
                     "%s: %u, a reader, got %" PRIu64 " at %" PRId64 "; the last was %" PRIu64,
                     r->name, r->by->who, r->token, r->reply, highest);
    }
}

/* A reader that entered while `a` had it alone, and had not released it. */
static bool read_beside(const hold *a, const hold *b)
{
    return !is_reader(a) && is_reader(b) && b->token == a->token && b->reply > a->call &&
           b->reply <= a->given_up;
}

/* Another process that excludes `a`, and was told before `before` that it has the lock. */
static const hold *successor(const checking *c, const hold *a, int64_t before)
{
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *b = &c->m->holds[i];
        if (hold_ok(b) && b->fenced && b->reply < before && same_lock(a, b) &&
            (b->token > a->token || read_beside(a, b)))
            return b;
    }
    return NULL;
}

static void check_two_holders(checking *c)
{
    const hold *accused = NULL;
    for (size_t i = 0; i < c->m->look_count; i++) {
        const look *l = &c->m->looks[i];
        const hold *a = l->hold;
        if (!l->ok || !a->by->lease || a == accused || excepted(c, a->call, l->from))
            continue;
        const hold *b = successor(c, a, l->from);
        if (!b)
            continue;
        accused = a;
        complain(c, "two-holders",
                 "%s: %u (token %" PRIu64 ") still holds it at %" PRId64 "; %u got %" PRIu64
                 " at %" PRId64,
                 a->name, a->by->who, a->token, l->from, b->by->who, b->token, b->reply);
    }
}

static bool has_for_sure(const hold *h, int64_t at)
{
    return hold_ok(h) && h->first_sure <= at && at <= h->last_sure &&
           (is_reader(h) || at <= h->given_up);
}

static bool too_many(const unsigned count[HOLDER_KINDS])
{
    for (int a = 0; a < HOLDER_KINDS; a++)
        for (int b = 0; b < HOLDER_KINDS; b++)
            if (!together((holder_kind)a, (holder_kind)b) && count[a] > 0 &&
                count[b] > (a == b ? 1U : 0U))
                return true;
    return false;
}

static void check_holders(checking *c)
{
    const hold *accused = NULL;
    for (size_t i = 0; i < c->m->look_count; i++) {
        const look *l = &c->m->looks[i];
        unsigned count[HOLDER_KINDS] = {0};
        if (!l->ok || !l->hold->by->lease || l->hold == accused)
            continue;
        for (size_t j = 0; j < c->m->hold_count; j++) {
            const hold *h = &c->m->holds[j];
            if (has_for_sure(h, l->from) && same_lock(h, l->hold) && !excepted(c, h->call, l->from))
                count[h->kind]++;
        }
        if (!too_many(count))
            continue;
        accused = l->hold;
        complain(c, "holders", "%s: %u alone and %u readers at %" PRId64, accused->name,
                 count[HOLDER_ALONE], count[HOLDER_READER], l->from);
    }
}

/* How many slots of the name are certainly held. */
static unsigned slots_held(const checking *c, const look *l)
{
    unsigned held = 0;
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *h = &c->m->holds[i];
        if (is_of_slots(h) && has_for_sure(h, l->from) && same_lock(h, l->hold) &&
            !excepted(c, h->call, l->from))
            held += h->units;
    }
    return held;
}

static void check_slots(checking *c)
{
    const hold *accused = NULL;
    for (size_t i = 0; i < c->m->look_count; i++) {
        const look *l = &c->m->looks[i];
        if (!l->ok || !is_of_slots(l->hold) || l->hold == accused)
            continue;
        const unsigned held = slots_held(c, l);
        if (held <= l->hold->by->slots)
            continue;
        accused = l->hold;
        complain(c, "slots", "%s: %u slots are held at %" PRId64 ", and it has %u", accused->name,
                 held, l->from, accused->by->slots);
    }
}

/* No other exclusive holder was between the reader and its upgrade. */
static void check_upgrade(checking *c, const hold *now)
{
    const hold *was = now->before;
    if (excepted(c, was->call, now->reply))
        return;
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *b = &c->m->holds[i];
        if (hold_ok(b) && !is_reader(b) && same_lock(b, now) && was->token < b->token &&
            b->token < now->token)
            complain(c, "upgrade",
                     "%s: %u was a reader with %" PRIu64 ", and has %" PRIu64 "; %u had %" PRIu64,
                     now->name, now->by->who, was->token, now->token, b->by->who, b->token);
    }
}

static void check_upgrades(checking *c)
{
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *h = &c->m->holds[i];
        if (hold_ok(h) && h->before && !is_reader(h))
            check_upgrade(c, h);
    }
}

static void check_early(checking *c, const hold *a, int64_t promised)
{
    int64_t until = promised < a->given_up ? promised : a->given_up;
    const hold *b = successor(c, a, until);
    if (!b || excepted(c, a->call, b->reply))
        return;
    complain(c, "taken-early",
             "%s: %u (token %" PRIu64 ") was to have it until %" PRId64 "; %u got %" PRIu64
             " at %" PRId64,
             a->name, a->by->who, a->token, promised, b->by->who, b->token, b->reply);
}

static void check_taken_early(checking *c)
{
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *a = &c->m->holds[i];
        if (hold_ok(a) && a->by->lease && strcmp(a->status, "OK") == 0)
            check_early(c, a, a->call + a->by->ttl - a->by->ttl / CLOCK_RATE);
    }
    for (size_t i = 0; i < c->m->look_count; i++) {
        const look *l = &c->m->looks[i];
        if (l->ok && l->remaining > 0 && l->hold->by->lease)
            check_early(c, l->hold, l->from + l->remaining);
    }
}

static void check_row_pair(checking *c, const hold *a, const hold *b)
{
    span both = {a->first_sure > b->first_sure ? a->first_sure : b->first_sure,
                 a->last_sure < b->last_sure ? a->last_sure : b->last_sure};
    span since = {a->call < b->call ? a->call : b->call, both.to};
    int64_t allowed = 0;
    if (both.to <= both.from)
        return;
    if (model_disturbed(c->m, NULL, since, 0))
        allowed = LATE_ROW + check_lateness(c, both.from, both.to) +
                  model_stopped(c->m, a->by->who, both) + model_stopped(c->m, b->by->who, both);
    if (both.to - both.from > allowed)
        complain(c, "row-two",
                 "%s: %u and %u both held it from %" PRId64 " to %" PRId64 " (allowed %" PRId64
                 " us)",
                 a->name, a->by->who, b->by->who, both.from, both.to, allowed);
}

static void check_row_two(checking *c)
{
    const model *m = c->m;
    for (size_t i = 0; i < m->hold_count; i++) {
        const hold *a = &m->holds[i];
        for (size_t j = i + 1; hold_ok(a) && !a->by->lease && j < m->hold_count; j++)
            if (hold_ok(&m->holds[j]) && same_lock(a, &m->holds[j]) &&
                !together(a->kind, m->holds[j].kind))
                check_row_pair(c, a, &m->holds[j]);
    }
}

/*
 * InnoDB shows a commit to others before its log is on the disk, and the driver may have seen such
 * a one. Only acknowledged commits must survive a crash.
 */
bool check_crashed(const checking *c, int64_t from, int64_t to)
{
    static const char *const kinds[] = {"server-kill", "server-before", "server-in",
                                        "server-after"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (model_disturbed(c->m, kinds[i], (span){from, to}, 0))
            return true;
    return false;
}

static void check_row_dead(checking *c, const row *r, const hold *h)
{
    const process *p = h->by;
    if (!p->lease || p->died >= r->from || excepted(c, h->call, r->from))
        return;
    int64_t calm = model_calm_since(c->m, r->from, false);
    int64_t since = p->died > calm ? p->died : calm;
    int64_t over = r->from + r->remaining - since - p->ttl;
    if (over > SECOND + check_lateness(c, since - p->ttl, r->from))
        complain(c, "row-dead",
                 "%s: %u died at %" PRId64 "; at %" PRId64 " its lease runs for another %" PRId64
                 " us",
                 r->name, p->who, p->died, r->from, r->remaining);
}

/* The row has this hold as its holder, or one of its readers. (Unknown for a downgrade without a
 * reply.) */
static bool shows(const row *r, const hold *h)
{
    return r->held == !is_reader(h) && r->reader == is_reader(h) &&
           (!h->before || strcmp(h->status, "OK") == 0) && strcmp(r->owner, h->owner) == 0 &&
           r->version == h->token;
}

static void check_version(checking *c, const row *r, const hold *h)
{
    const bool ahead = is_reader(h) ? h->token < r->version : h->token <= r->version;
    if (h->reply < r->from && r->version < h->token)
        complain(c, "row-back",
                 "%s: %u had %" PRIu64 " at %" PRId64 "; at %" PRId64 " the row has %" PRIu64,
                 r->name, h->by->who, h->token, h->reply, r->from, r->version);
    if (r->to < h->call && ahead && !check_crashed(c, r->from, h->call))
        complain(c, "row-ahead",
                 "%s: the row had %" PRIu64 " at %" PRId64 "; %u asked at %" PRId64
                 " and got %" PRIu64,
                 r->name, r->version, r->to, h->by->who, h->call, h->token);
}

static void check_row_and_hold(checking *c, const row *r, const hold *h)
{
    if (!r->reader)
        check_version(c, r, h);
    if (!shows(r, h))
        return;
    /* A row lock's row is only its publication. It may stay if it could not be written. */
    bool counts = h->by->lease || !model_disturbed(c->m, NULL, (span){h->call, r->from}, 0);
    if (counts && h->released < r->from && strcmp(h->release_status, "OK") == 0)
        complain(c, "row-released",
                 "%s: %u released %" PRIu64 " at %" PRId64 " and still has it at %" PRId64, r->name,
                 h->by->who, h->token, h->released, r->from);
    check_row_dead(c, r, h);
}

/* The name's own row has the number of slots, and no holder. */
static void check_row_of_slots(checking *c, const row *r)
{
    for (size_t i = 0; i < c->m->process_count; i++) {
        const process *p = &c->m->processes[i];
        if (p->slots == 0 || strcmp(p->name, r->name) != 0)
            continue;
        if (r->held || r->reader || strcmp(r->owner, "-") != 0)
            complain(c, "row-slots", "%s: the row of the name has a holder, %s, at %" PRId64,
                     r->name, r->owner, r->from);
        return;
    }
}

static const row *row_before(const model *m, size_t i)
{
    for (size_t j = i; j-- > 0;)
        if (strcmp(m->rows[j].name, m->rows[i].name) == 0 && !m->rows[j].reader)
            return &m->rows[j];
    return NULL;
}

static void check_rows(checking *c)
{
    const model *m = c->m;
    for (size_t i = 0; i < m->row_count; i++) {
        const row *r = &m->rows[i];
        const row *last = r->reader ? NULL : row_before(m, i);
        check_row_of_slots(c, r);
        if (last && last->version > r->version && !check_crashed(c, last->from, r->to))
            complain(c, "row-back", "%s: %" PRIu64 " at %" PRId64 ", %" PRIu64 " at %" PRId64,
                     r->name, last->version, last->to, r->version, r->from);
        for (size_t j = 0; j < m->hold_count; j++) {
            const hold *h = &m->holds[j];
            if (hold_ok(h) && h->fenced && strcmp(h->name, r->name) == 0)
                check_row_and_hold(c, r, h);
        }
    }
}

static bool wrote_as_reader(const model *m, const written *w)
{
    for (size_t i = 0; i < m->write_count; i++) {
        const hold *h = m->writes[i].hold;
        if (h->by->who == w->writer && m->writes[i].seq == w->seq)
            return is_reader(h);
    }
    return false;
}

static void check_order(checking *c)
{
    const model *m = c->m;
    for (size_t i = 1; i < m->table_count; i++) {
        const written *w = &m->table[i];
        for (size_t j = i; j-- > 0;) {
            const written *before = &m->table[j];
            if (strcmp(before->name, w->name) != 0)
                continue;
            if (before->token > w->token)
                complain(c, "write-order", "%s: %u wrote with %" PRIu64 " after %u with %" PRIu64,
                         w->name, w->writer, w->token, before->writer, before->token);
            if (before->token == w->token && strcmp(before->owner, w->owner) != 0 &&
                !wrote_as_reader(m, before) && !wrote_as_reader(m, w))
                complain(c, "write-owner", "%s: %u and %u wrote with %" PRIu64, w->name,
                         before->writer, w->writer, w->token);
            break;
        }
    }
}

static bool in_table(const model *m, const guarded_write *w)
{
    for (size_t i = 0; i < m->table_count; i++)
        if (m->table[i].writer == w->hold->by->who && m->table[i].seq == w->seq)
            return true;
    return false;
}

static void check_writes(checking *c)
{
    for (size_t i = 0; i < c->m->write_count; i++) {
        const guarded_write *w = &c->m->writes[i];
        const process *p = w->hold->by;
        bool ok = strcmp(w->status, "ok") == 0;
        bool not_made = strcmp(w->status, "refused") == 0 || strcmp(w->status, "failed") == 0;
        bool there = in_table(c->m, w);
        if (ok && !there)
            complain(c, "write-lost", "%s: number %u of %u was acknowledged", p->name, w->seq,
                     p->who);
        if (not_made && there)
            complain(c, "write-refused", "%s: number %u of %u was %s, and is there", p->name,
                     w->seq, p->who, w->status);
        const hold *b = ok && w->fence ? successor(c, w->hold, w->call) : NULL;
        if (b)
            complain(c, "write-late",
                     "%s: %u (token %" PRIu64 ") began a fenced write at %" PRId64
                     "; %u had %" PRIu64 " since %" PRId64,
                     p->name, p->who, w->hold->token, w->call, b->by->who, b->token, b->reply);
    }
}

static void check_wait_bound(checking *c, const hold *h)
{
    if (h->reply == TIME_NEVER || h->wait < 0)
        return;
    /* A value is published after the wait; if that fails, the lease is released. */
    int64_t slack = (h->wait > 0 ? SLACK_WAIT : SLACK_TRY) + (*h->value ? SLACK_TRY : 0);
    int64_t allowed = h->wait + slack + check_lateness(c, h->call, h->reply) +
                      model_stopped(c->m, h->by->who, (span){h->call, h->reply});
    if (h->reply - h->call > allowed)
        complain(c, "wait-bound",
                 "%s: %u waited %" PRId64 " us at %" PRId64 ", %s after %" PRId64 " us", h->name,
                 h->by->who, h->wait, h->call, h->status, h->reply - h->call);
}

/* The latest time at which this hold ended; TIME_NEVER: unknown at `at`. */
static int64_t hold_end(const hold *h, int64_t at)
{
    int64_t ttl = h->by->ttl + SECOND;
    bool died = h->by->died < at;
    if (h->reply >= at) {
        /* It may have it already. One that died during its request may have acquired, too. */
        if (died)
            return h->by->died + ttl;
        return hold_ok(h) ? TIME_NEVER : INT64_MIN;
    }
    if (!hold_ok(h))
        return strcmp(h->status, "UNKNOWN") == 0 ? h->reply + ttl : INT64_MIN;
    if (h->released < at) {
        /* For several, the first failure is reported. */
        bool sure = h->changed || strcmp(h->release_status, "OK") == 0 ||
                    (strcmp(h->release_status, "LOST") == 0 && h->units == 1);
        return h->released + (sure ? 0 : ttl);
    }
    return died ? h->by->died + ttl : TIME_NEVER;
}

static int64_t write_end(const guarded_write *w, int64_t at)
{
    if (w->reply < at)
        return w->reply;
    return w->hold->by->died < at ? w->hold->by->died : TIME_NEVER;
}

/* A transaction that had fenced it was open: it has the row locked, so nobody can open the name
 * again. */
static bool was_fenced(const checking *c, const hold *h, int64_t at)
{
    for (size_t i = 0; i < c->m->write_count; i++) {
        const guarded_write *w = &c->m->writes[i];
        if (w->fence && same_lock(w->hold, h) && w->call < at && w->reply > at - REOPENS)
            return true;
    }
    return false;
}

/* Until when a writer may keep the name closed for readers: one that dies leaves it closed. */
static int64_t closed_end(const checking *c, const hold *h, int64_t at)
{
    if (is_reader(h) || !h->by->lease || hold_ok(h))
        return INT64_MIN;
    int64_t end = h->reply < at ? h->reply : h->by->died;
    bool opened = h->reply < at && check_lateness(c, h->call, h->reply) == 0 &&
                  !was_fenced(c, h, h->reply) &&
                  !model_disturbed(c->m, NULL, (span){h->call, h->reply}, 0);
    return opened || end >= at ? INT64_MIN : end + CLOSED;
}

static bool has_readers(const model *m, const hold *waiter, int64_t at)
{
    for (size_t i = 0; i < m->hold_count; i++) {
        const hold *h = &m->holds[i];
        if (is_reader(h) && h->call < at && same_lock(h, waiter))
            return true;
    }
    return false;
}

/* Since when certainly nobody has it; TIME_NEVER: somebody may have it. */
static int64_t free_since(const checking *c, const hold *waiter, int64_t at)
{
    const model *m = c->m;
    const bool may_be_closed = has_readers(m, waiter, at);
    int64_t since = INT64_MIN;
    for (size_t i = 0; i < m->hold_count; i++) {
        const hold *h = &m->holds[i];
        if (h == waiter || h->call >= at || !same_lock(h, waiter))
            continue;
        int64_t end = hold_end(h, at);
        int64_t closed = may_be_closed ? closed_end(c, h, at) : INT64_MIN;
        since = end > since ? end : since;
        since = closed > since ? closed : since;
    }
    for (size_t i = 0; i < m->write_count; i++) {
        const guarded_write *w = &m->writes[i];
        if (w->call >= at || !w->fence || !same_lock(w->hold, waiter))
            continue;
        int64_t end = write_end(w, at);
        since = end > since ? end : since;
    }
    return since;
}

/* It stood in line before that waiter, and did not acquire: then all behind it wait, whatever is
 * free. (With a slow connection it may have come to the line much later than it asked.) */
static bool stood_before(const hold *h, const hold *waiter)
{
    const int64_t unsure = waiter->by->far || h->by->far ? 2 * SECOND : QUEUED;
    return !hold_ok(h) && h->wait != 0 && h->call <= waiter->call + unsure;
}

/* The latest time until which it kept slots from that waiter; as hold_end(). */
static int64_t keeps_until(const hold *h, const hold *waiter, int64_t at)
{
    const int64_t end = hold_end(h, at);
    if (!stood_before(h, waiter))
        return end;
    const int64_t left = h->reply < at ? h->reply : h->by->died < at ? h->by->died : TIME_NEVER;
    return left > end ? left : end;
}

/* How many slots may not have been free for the waiter at `then`, as known at `at`. */
static unsigned slots_kept(const checking *c, const hold *waiter, int64_t at, int64_t then)
{
    unsigned kept = 0;
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *h = &c->m->holds[i];
        if (h != waiter && h->call < at && h->call <= then && same_lock(h, waiter) &&
            keeps_until(h, waiter, at) > then)
            kept += hold_ok(h) ? h->units : h->by->slots;
    }
    return kept;
}

/* Since when enough slots are free for it; as free_since(). */
static int64_t slots_free_since(const checking *c, const hold *waiter, int64_t at)
{
    const unsigned most = waiter->by->slots - waiter->units;
    int64_t since = INT64_MIN;
    if (slots_kept(c, waiter, at, at) > most)
        return TIME_NEVER;
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *h = &c->m->holds[i];
        if (h == waiter || h->call >= at || !same_lock(h, waiter))
            continue;
        const int64_t end = keeps_until(h, waiter, at);
        if (end > since && slots_kept(c, waiter, at, end - 1) > most)
            since = end;
    }
    return since;
}

/* Another call may just have taken the slot that a try had chosen. */
static bool somebody_asked(const checking *c, const hold *try)
{
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *h = &c->m->holds[i];
        if (h != try && h->call <= try->reply && h->reply >= try->call && same_lock(h, try))
            return true;
    }
    return false;
}

static int64_t had_since(const checking *c, const hold *h, int64_t at)
{
    if (!is_of_slots(h))
        return free_since(c, h, at);
    if (h->wait == 0 && somebody_asked(c, h))
        return TIME_NEVER;
    return slots_free_since(c, h, at);
}

static void check_served(checking *c, const hold *h)
{
    bool got = hold_ok(h) || strcmp(h->status, "TIMEOUT") == 0;
    bool busy = strcmp(h->status, "BUSY") == 0;
    if (h->reply == TIME_NEVER || (!got && !busy) || excepted(c, h->call, h->reply))
        return;
    int64_t at = busy ? h->call : h->reply;
    /* It may take longer, but must not return BUSY. */
    if (!busy && at - h->call <= SERVED)
        return;
    int64_t since = had_since(c, h, at);
    int64_t calm = model_calm_since(c->m, at, true);
    if (since == TIME_NEVER)
        return;
    if (!busy && since < h->call)
        since = h->call;
    since = calm > since ? calm : since;
    if (since == INT64_MIN)
        return;
    int64_t allowed = SERVED + check_lateness(c, since, at);
    if (model_disturbed(c->m, NULL, (span){since, at}, SERVED_STOPPED))
        allowed += SERVED_STOPPED;
    if (at - since > allowed)
        complain(c, "wait-served",
                 "%s: %u asked at %" PRId64 ", %s at %" PRId64 "; it was free since %" PRId64,
                 h->name, h->by->who, h->call, h->status, h->reply, since);
}

/* Its lease ended without a release, since it died or expired: waiters find that out by themselves,
 * in any order. */
static bool ended_silently(const hold *h, int64_t from, int64_t to)
{
    int64_t died = h->by->died;
    if (strcmp(h->release_status, "LOST") == 0)
        return h->call < to && h->released > from;
    return h->call < died && h->released > died && died > from - 3 * SECOND && died < to;
}

/* Until then only the queue decided who got the lease before this waiter. */
static bool orderly(const checking *c, const hold *waiter, int64_t at)
{
    const model *m = c->m;
    const process *by = waiter->by;
    if (!by->lease || by->polls || by->far || waiter->wait == 0 ||
        check_lateness(c, waiter->call, at) > SECOND / 2 ||
        model_disturbed(m, NULL, (span){waiter->call - 2 * SECOND, at}, SECOND))
        return false;
    for (size_t i = 0; i < m->hold_count; i++) {
        const hold *h = &m->holds[i];
        if (!same_lock(h, waiter))
            continue;
        /* A dead holder's slots are for the first in the queue, as all others. */
        if (h->by->polls || (!is_of_slots(h) && ended_silently(h, waiter->call, at)))
            return false;
    }
    return true;
}

/* The first to use a name with slots makes the rows of all slots, and may be overtaken
 * meanwhile. */
static bool makes_slots(const checking *c, const hold *waiter)
{
    size_t first = 0;
    while (!same_lock(&c->m->holds[first], waiter))
        first++;
    return waiter->call < c->m->holds[first].call + SECOND;
}

/* An upgrade or downgrade does not stand in the queue. For slots there is one queue, however many
 * are wanted. */
static bool may_pass(const checking *c, const hold *waiter, const hold *b)
{
    if (is_of_slots(waiter))
        return makes_slots(c, waiter);
    return waiter->before || b->before || together(waiter->kind, b->kind);
}

/* Since when a later `b` may not overtake: since it stood in the queue, or, for readers, since it
 * had closed the lease. (Coming to the queue takes a connection, and each reply takes time on a
 * busy machine.) */
static int64_t stood_since(const checking *c, const hold *waiter, const hold *b)
{
    int64_t queued = waiter->queues;
    if (is_reader(b) || queued == TIME_NEVER)
        return waiter->closed;
    queued += QUEUED + check_lateness(c, queued, queued + QUEUED);
    return queued < waiter->closed ? queued : waiter->closed;
}

/* Until when it stood in the queue. It may have left long before its reply; if only one can have
 * the lock, the one that acquired had left last. */
static int64_t stood_until(const checking *c, const hold *waiter)
{
    const int64_t unsure = is_of_slots(waiter) ? 2 * QUEUED : hold_ok(waiter) ? 0 : QUEUED;
    const int64_t until = waiter->reply - unsure;
    if (unsure == 0 || waiter->reply == TIME_NEVER)
        return until;
    return until - check_lateness(c, until, waiter->reply);
}

static void check_order_of_waiters(checking *c, const hold *waiter)
{
    const int64_t until = stood_until(c, waiter);
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *b = &c->m->holds[i];
        if (hold_ok(b) && same_lock(b, waiter) && b->reply < until &&
            b->call > stood_since(c, waiter, b) && !may_pass(c, waiter, b) &&
            orderly(c, waiter, b->reply))
            complain(c, "wait-order",
                     "%s: %u waited since %" PRId64 "; %u asked at %" PRId64
                     " and got it at %" PRId64,
                     b->name, waiter->by->who, waiter->call, b->by->who, b->call, b->reply);
    }
}

static void check_waits(checking *c)
{
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *h = &c->m->holds[i];
        if (h->whole)
            continue;
        check_wait_bound(c, h);
        check_served(c, h);
        check_order_of_waiters(c, h);
    }
}

static bool any_fault(const model *m, const char *kind)
{
    return model_disturbed(m, kind, (span){INT64_MIN, TIME_NEVER}, 0);
}

/* `took`: how long the call took; `given`: how long it must take at least to reach its deadline
 * without a reply (on a loaded machine that needs no fault). */
static bool explained(const model *m, const char *status, int64_t took, int64_t given)
{
    static const char *const always[] = {"", "OK", "BUSY", "TIMEOUT", "LOST"};
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        if (strcmp(status, always[i]) == 0)
            return true;
    if (strcmp(status, "READONLY") == 0)
        return any_fault(m, "read-only");
    if (strcmp(status, "UNAVAILABLE") == 0 || strcmp(status, "UNKNOWN") == 0)
        return took >= given || any_fault(m, NULL);
    return false;
}

/* A call for a lock that ends without an answer has lasted at least so long. (A grant that comes
 * after the TTL, less a tenth, is given back: UNAVAILABLE.) */
static int64_t without_answer(int64_t wait, const process *p, const char *status)
{
    const int64_t limit = wait > 0 ? wait : SECOND;
    const int64_t late = p->ttl - p->ttl / 10;
    return strcmp(status, "UNAVAILABLE") == 0 && late > 0 && late < limit ? late : limit;
}

bool check_explained(const checking *c, const char *status, int64_t took)
{
    return explained(c->m, status, took, SECOND);
}

/* An answer about the latch's state: not set, or not that often; open, so that it cannot be joined.
 * Closing has no status: UNKNOWN. */
static bool is_answer(const call *a)
{
    if (call_is(a, "release", "UNKNOWN") || (a->by->latch && call_is(a, "leave", "UNKNOWN")))
        return true;
    return a->by->latch && (strcmp(a->status, "NOT_FOUND") == 0 || call_is(a, "join", "INVALID") ||
                            call_is(a, "down", "NONE"));
}

/* Another writer waits: an upgrade would wait for that one for ever. */
static bool upgrade_in_vain(const hold *h)
{
    return h->before && !is_reader(h) && strcmp(h->status, "DEADLOCK") == 0;
}

static void check_statuses(checking *c)
{
    for (size_t i = 0; i < c->m->hold_count; i++) {
        const hold *h = &c->m->holds[i];
        if (h->whole)
            continue;
        if (!upgrade_in_vain(h) && !explained(c->m, h->status, h->reply - h->call,
                                              without_answer(h->wait, h->by, h->status)))
            complain(c, "status", "%s: %u asked at %" PRId64 " and got %s", h->name, h->by->who,
                     h->call, h->status);
        /* Closing has no status: UNKNOWN. */
        if (!explained(c->m, h->release_status, h->released - h->given_up, SECOND) &&
            strcmp(h->release_status, "UNKNOWN") != 0)
            complain(c, "status", "%s: the release of %u at %" PRId64 " got %s", h->name,
                     h->by->who, h->given_up, h->release_status);
    }
}

/* A quarter of the TTL: the witness sees only a part of how long many processes at once wait. */
bool check_renewed_late(const checking *c, const process *p, int64_t from, int64_t to)
{
    return model_troubled(c->m, p->who, (span){from, to}, SECOND) ||
           check_lateness(c, from, to) > p->ttl / 4;
}

void check_calls(checking *c)
{
    for (size_t i = 0; i < c->m->call_count; i++) {
        const call *a = &c->m->calls[i];
        const int64_t wait = a->wait > 0 ? a->wait : SECOND;
        const int64_t took = a->reply - a->at;
        if (a->reply == TIME_NEVER)
            continue;
        const bool grants = strcmp(a->verb, "join") == 0 || strcmp(a->verb, "enter") == 0;
        const int64_t given = grants ? without_answer(a->wait, a->by, a->status) : wait;
        if (!explained(c->m, a->status, took, given) && !is_answer(a))
            complain(c, "status", "%s: the %s of %u at %" PRId64 " got %s", a->by->name, a->verb,
                     a->by->who, a->at, a->status);
        if (took > wait + SLACK_TRY + check_lateness(c, a->at, a->reply) +
                       model_stopped(c->m, a->by->who, (span){a->at, a->reply}))
            complain(c, "wait-bound",
                     "%s: the %s of %u at %" PRId64 " took %" PRId64 " us of %" PRId64, a->by->name,
                     a->verb, a->by->who, a->at, took, a->wait);
    }
}

void check_probes(checking *c, const char *rule, const char *verb, const char *status)
{
    for (size_t i = 0; i < c->m->process_count; i++) {
        const process *p = &c->m->processes[i];
        bool good = !p->probe || !(strcmp(verb, "wait") == 0 ? p->latch : p->members > 0);
        for (size_t j = 0; !good && j < c->m->call_count; j++)
            good = c->m->calls[j].by == p && call_is(&c->m->calls[j], verb, status);
        if (!good)
            complain(c, rule, "%s: no %s of %u, at the end, got %s", p->name, verb, p->who, status);
    }
}

static bool good_end(const process *p)
{
    bool by_signal = p->status == 128 + SIGKILL || p->status == 128 + SIGTERM;
    return p->died == TIME_NEVER || p->hung || p->status == 0 || (p->killed && by_signal);
}

static void check_ends(checking *c)
{
    for (size_t i = 0; i < c->m->process_count; i++) {
        const process *p = &c->m->processes[i];
        if (p->hung)
            complain(c, "hung", "%s: %u did not end", p->name, p->who);
        if (!good_end(p))
            complain(c, "exit", "%s: %u ended with status %d", p->name, p->who, p->status);
    }
}

verdict check(const model *m, FILE *out)
{
    checking c = {.m = m, .out = out};
    check_tokens(&c);
    check_tokens_of_readers(&c);
    check_two_holders(&c);
    check_holders(&c);
    check_slots(&c);
    check_upgrades(&c);
    check_taken_early(&c);
    check_row_two(&c);
    check_rows(&c);
    check_order(&c);
    check_writes(&c);
    check_waits(&c);
    check_latch(&c);
    check_barrier(&c);
    check_leaders(&c);
    check_once(&c);
    check_queue(&c);
    check_calls(&c);
    check_statuses(&c);
    check_ends(&c);
    return c.verdict;
}
