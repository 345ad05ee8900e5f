#include "faults/quorum/plan.h"

static const fault_kind kinds[] = {FAULT_NONE,
                                   FAULT_KILL,
                                   FAULT_TERM,
                                   FAULT_STOP,
                                   FAULT_MEMBER_KILL,
                                   FAULT_MEMBER_STOP,
                                   FAULT_MEMBER_WIPE,
                                   FAULT_MEMBER_LOSE,
                                   FAULT_CLOCK,
                                   FAULT_READ_ONLY,
                                   FAULT_KILL_CONNECTION,
                                   FAULT_KILL_QUERY,
                                   FAULT_CUT,
                                   FAULT_CUT_AFTER,
                                   FAULT_REFUSE,
                                   FAULT_STALL,
                                   FAULT_DELAY,
                                   FAULT_LATENCY,
                                   FAULT_DRIBBLE,
                                   FAULT_LOSE_COMMAND,
                                   FAULT_LOSE_REPLY,
                                   FAULT_STALL_REPLY,
                                   FAULT_LATE_COMMAND};
enum { KINDS = sizeof kinds / sizeof kinds[0] };

bool quorum_knows(fault_kind kind)
{
    unsigned i = 0;
    while (i < KINDS && kinds[i] != kind)
        i++;
    return i < KINDS;
}

/* The longest TTL, and how many times the actors' it is. */
enum { TTL_MOST_MS = 2000, LONGER = 4 };

static quorum_actor plan_actor(dice *d)
{
    /* Through all proxies, none, or some. */
    static const unsigned ways[] = {~0U, 0};
    const unsigned way = dice_roll(d, 3);
    const unsigned some = dice_roll(d, 1U << QUORUM_MEMBERS);
    quorum_actor a = {.proxied = way < 2 ? ways[way] : some};
    a.ttl_ms = dice_between(d, 600, 1800);
    a.respawn_ms = dice_between(d, 50, 800);
    a.seed = dice_roll(d, 1000000);
    return a;
}

static int64_t by_how_much(dice *d, fault_kind kind)
{
    if (kind == FAULT_CLOCK)
        return dice_between(d, 200, 2500) * (dice_roll(d, 2) ? 1 : -1);
    return kind == FAULT_LATENCY ? dice_between(d, 100, 900) : dice_between(d, 5, 60);
}

static planned_fault plan_fault(dice *d, fault_kind kind, const quorum_plan *p)
{
    planned_fault f = {.kind = kind};
    f.at_ms = dice_between(d, 300, p->active_ms - 800);
    f.last_ms = fault_lasting(d, kind);
    f.member = dice_roll(d, p->members);
    f.proxies = 1U << f.member;
    /* Now and then a process that is cut off has too few members left. */
    while (fault_where(kind) == AT_PROXY && dice_roll(d, 3) == 0)
        f.proxies |= 1U << dice_roll(d, p->members);
    if (f.proxies != 1U << f.member && fault_lasts(kind) && f.last_ms < TTL_MOST_MS / 2)
        f.last_ms += TTL_MOST_MS;
    f.actor = dice_roll(d, p->actor_count);
    f.up = dice_roll(d, 3) == 0;
    f.nth = 1 + dice_roll(d, kind == FAULT_CUT_AFTER ? 3000 : 6);
    f.ms = by_how_much(d, kind);
    return f;
}

static bool loses_commits(fault_kind kind)
{
    return kind == FAULT_MEMBER_WIPE || kind == FAULT_MEMBER_LOSE;
}

/* Adds a member that comes back just after another one has lost its data: the two could be a
 * majority that knows nothing. */
static void add_companion(dice *d, quorum_plan *p, const planned_fault *loss)
{
    const int64_t before = dice_between(d, 300, 1500);
    const int64_t at = loss->at_ms > before + 200 ? loss->at_ms - before : 200;
    p->faults[p->fault_count++] = (planned_fault){
        .kind = FAULT_MEMBER_STOP,
        .at_ms = at,
        .last_ms = loss->at_ms - at + dice_between(d, 0, 900),
        .member = (loss->member + 1 + dice_roll(d, p->members - 1)) % p->members,
    };
}

/* A quorum survives that one member loses commits, once in a run. Other faults of that kind become
 * kills. */
static void spare_majority(dice *d, quorum_plan *p)
{
    const unsigned count = p->fault_count;
    bool lost = false;
    for (unsigned i = 0; i < count; i++) {
        planned_fault *f = &p->faults[i];
        if (!loses_commits(f->kind))
            continue;
        if (lost) {
            f->kind = FAULT_MEMBER_KILL;
            continue;
        }
        if (f->kind == FAULT_MEMBER_LOSE)
            p->loose = f->member;
        add_companion(d, p, f);
        lost = true;
    }
    /* Leases that last longer than the start of a server. */
    for (unsigned i = 0; lost && i < p->actor_count; i++)
        p->actors[i].ttl_ms *= LONGER;
    p->ttl_most_ms *= lost ? LONGER : 1;
}

quorum_plan quorum_schedule(uint64_t seed, fault_kind alone)
{
    quorum_plan p = {.seed = seed, .actor_count = QUORUM_ACTORS, .loose = QUORUM_NOBODY};
    dice d = dice_of(seed ^ 0x71756f72756dU);
    p.mixed = alone == FAULT_NO_KIND && seed % 4 == 3;
    if (alone == FAULT_NO_KIND)
        alone = kinds[(seed - seed / 4) % KINDS];
    p.members = dice_roll(&d, 4) == 0 ? 5 : 3;
    p.active_ms = dice_between(&d, 4000, 6000);
    for (unsigned i = 0; i < p.actor_count; i++)
        p.actors[i] = plan_actor(&d);
    /* Leaves one place for the companion. */
    p.fault_count = p.mixed ? 4 + dice_roll(&d, QUORUM_FAULTS_MOST - 4) : 2 + dice_roll(&d, 5);
    p.fault_count *= p.mixed || alone != FAULT_NONE;
    for (unsigned i = 0; i < p.fault_count; i++) {
        const fault_kind any = kinds[1 + dice_roll(&d, KINDS - 1)];
        p.faults[i] = plan_fault(&d, p.mixed ? any : alone, &p);
    }
    schedule_sort(p.faults, p.fault_count);
    p.ttl_most_ms = TTL_MOST_MS;
    spare_majority(&d, &p);
    schedule_sort(p.faults, p.fault_count);
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
    schedule_print_faults(p->faults, p->fault_count, out);
}
