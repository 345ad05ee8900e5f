#include "faults/quorum/plan.h"

static const struct {
    const char *word;
    bool lasts;
    quorum_place where;
} kinds[] = {
#define QUORUM_FAULT_ROW(name, word, lasts, where) [QUORUM_##name] = {(word), (lasts), AT_##where},
    QUORUM_FAULTS(QUORUM_FAULT_ROW)
#undef QUORUM_FAULT_ROW
};

const char *quorum_word(quorum_fault_kind kind)
{
    return kinds[kind].word;
}

bool quorum_lasts(quorum_fault_kind kind)
{
    return kinds[kind].lasts;
}

quorum_place quorum_where(quorum_fault_kind kind)
{
    return kinds[kind].where;
}

quorum_fault_kind quorum_kind_of(const char *word)
{
    int kind = 0;
    while (kind < QUORUM_KINDS && strcmp(kinds[kind].word, word) != 0)
        kind++;
    return (quorum_fault_kind)kind;
}

/* Any; to take and renew; to free; to make sure that others know the token. */
static const char *const texts[] = {NULL, NULL, NULL, NULL};

const char *quorum_text_of(unsigned text)
{
    return texts[text];
}

/* The longest TTL; above those of the actors. */
enum { TTL_MOST_MS = 2000, LONGER = 4 };

static quorum_actor plan_actor(dice *d)
{
    /* All through the proxies, none, or some. */
    static const unsigned ways[] = {~0U, 0};
    const unsigned way = dice_roll(d, 3);
    const unsigned some = dice_roll(d, 1U << QUORUM_MEMBERS);
    quorum_actor a = {.proxied = way < 2 ? ways[way] : some};
    a.ttl_ms = dice_between(d, 600, 1800);
    a.respawn_ms = dice_between(d, 50, 800);
    a.seed = dice_roll(d, 1000000);
    return a;
}

/* Shorter than the TTLs, about as long, and longer. */
static int64_t lasting(dice *d)
{
    static const int64_t bounds[] = {50, 400, 1200, 2600};
    const unsigned third = dice_roll(d, 3);
    return dice_between(d, bounds[third], bounds[third + 1]);
}

static int64_t by_how_much(dice *d, quorum_fault_kind kind)
{
    if (kind == QUORUM_CLOCK)
        return dice_between(d, 200, 2500) * (dice_roll(d, 2) ? 1 : -1);
    return kind == QUORUM_LATENCY ? dice_between(d, 100, 900) : dice_between(d, 5, 60);
}

static quorum_fault plan_fault(dice *d, quorum_fault_kind kind, const quorum_plan *p)
{
    quorum_fault f = {.kind = kind};
    f.at_ms = dice_between(d, 300, p->active_ms - 800);
    f.last_ms = lasting(d) * quorum_lasts(kind);
    f.member = dice_roll(d, p->members);
    f.proxies = 1U << f.member;
    /* Now and then one that is cut off has too few members left. */
    while (quorum_where(kind) == AT_PROXY && dice_roll(d, 3) == 0)
        f.proxies |= 1U << dice_roll(d, p->members);
    if (f.proxies != 1U << f.member && quorum_lasts(kind) && f.last_ms < TTL_MOST_MS / 2)
        f.last_ms += TTL_MOST_MS;
    f.actor = dice_roll(d, p->actor_count);
    f.up = dice_roll(d, 3) == 0;
    f.nth = 1 + dice_roll(d, kind == QUORUM_CUT_AFTER ? 3000 : 6);
    f.ms = by_how_much(d, kind);
    f.text = dice_roll(d, 4);
    return f;
}

static int by_time(const void *a, const void *b)
{
    const quorum_fault *x = a;
    const quorum_fault *y = b;
    return x->at_ms < y->at_ms ? -1 : x->at_ms > y->at_ms;
}

static bool loses_commits(quorum_fault_kind kind)
{
    return kind == QUORUM_MEMBER_WIPE || kind == QUORUM_MEMBER_LOSE;
}

/* A member that is there again just after another one has lost what it had: the two could be a
 * majority that knows of nothing. */
static void add_companion(dice *d, quorum_plan *p, const quorum_fault *loss)
{
    const int64_t before = dice_between(d, 300, 1500);
    const int64_t at = loss->at_ms > before + 200 ? loss->at_ms - before : 200;
    p->faults[p->fault_count++] = (quorum_fault){
        .kind = QUORUM_MEMBER_STOP,
        .at_ms = at,
        .last_ms = loss->at_ms - at + dice_between(d, 0, 900),
        .member = (loss->member + 1 + dice_roll(d, p->members - 1)) % p->members,
    };
}

/* What a quorum bears: one member alone loses what it has committed, and once in a run. The other
 * faults of that kind are kills. */
static void spare_majority(dice *d, quorum_plan *p)
{
    const unsigned count = p->fault_count;
    bool lost = false;
    for (unsigned i = 0; i < count; i++) {
        quorum_fault *f = &p->faults[i];
        if (!loses_commits(f->kind))
            continue;
        if (lost) {
            f->kind = QUORUM_MEMBER_KILL;
            continue;
        }
        if (f->kind == QUORUM_MEMBER_LOSE)
            p->loose = f->member;
        add_companion(d, p, f);
        lost = true;
    }
    /* Leases that outlast the start of a server. */
    for (unsigned i = 0; lost && i < p->actor_count; i++)
        p->actors[i].ttl_ms *= LONGER;
    p->ttl_most_ms *= lost ? LONGER : 1;
}

quorum_plan quorum_schedule(uint64_t seed, quorum_fault_kind alone, unsigned members)
{
    quorum_plan p = {.seed = seed, .actor_count = QUORUM_ACTORS, .loose = QUORUM_NOBODY};
    dice d = dice_of(seed ^ 0x71756f72756dU);
    p.mixed = alone == QUORUM_KINDS && seed % 4 == 3;
    if (alone == QUORUM_KINDS)
        alone = (quorum_fault_kind)((seed - seed / 4) % QUORUM_KINDS);
    p.members = dice_roll(&d, 4) == 0 ? 5 : 3;
    p.members = members ? members : p.members;
    p.active_ms = dice_between(&d, 4000, 6000);
    for (unsigned i = 0; i < p.actor_count; i++)
        p.actors[i] = plan_actor(&d);
    /* One place is the companion's. */
    p.fault_count = p.mixed ? 4 + dice_roll(&d, QUORUM_FAULTS_MOST - 4) : 2 + dice_roll(&d, 5);
    p.fault_count *= p.mixed || alone != QUORUM_NONE;
    for (unsigned i = 0; i < p.fault_count; i++) {
        const quorum_fault_kind any = (quorum_fault_kind)(1 + dice_roll(&d, QUORUM_KINDS - 1));
        p.faults[i] = plan_fault(&d, p.mixed ? any : alone, &p);
    }
    qsort(p.faults, p.fault_count, sizeof p.faults[0], by_time);
    p.ttl_most_ms = TTL_MOST_MS;
    spare_majority(&d, &p);
    qsort(p.faults, p.fault_count, sizeof p.faults[0], by_time);
    return p;
}

void quorum_print(const quorum_plan *p, FILE *out)
{
    fprintf(out, "seed %" PRIu64 ", %s, %u members, %" PRId64 " ms", p->seed,
            p->mixed ? "mixed" : "alone", p->members, p->active_ms);
    if (p->loose != QUORUM_NOBODY)
        fprintf(out, ", member %u does not flush", p->loose + 1);
    fputc('\n', out);
    for (unsigned i = 0; i < p->actor_count; i++) {
        const quorum_actor *a = &p->actors[i];
        fprintf(out,
                "  actor %u: ttl %" PRId64 " ms, proxies %#x, replaced after %" PRId64
                " ms, seed %" PRIu64 "\n",
                i, a->ttl_ms, a->proxied, a->respawn_ms, a->seed);
    }
    for (unsigned i = 0; i < p->fault_count; i++) {
        const quorum_fault *f = &p->faults[i];
        const char *text = quorum_text_of(f->text);
        fprintf(out,
                "  at %" PRId64 " ms: %s for %" PRId64
                " ms (member %u, proxies %#x, actor %u, %s, '%s', nth %u, %" PRId64 " ms)\n",
                f->at_ms, quorum_word(f->kind), f->last_ms, f->member + 1, f->proxies, f->actor,
                f->up ? "up" : "down", text ? text : "any", f->nth, f->ms);
    }
}
