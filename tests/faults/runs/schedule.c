#include "schedule.h"

/* splitmix64, which is the same on all machines, unlike rand(). */
static uint64_t next(dice *d)
{
    uint64_t z = d->state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

dice dice_of(uint64_t seed)
{
    return (dice){.state = seed * 0x2545f4914f6cdd1du + 1};
}

unsigned dice_roll(dice *d, unsigned below)
{
    return (unsigned)(next(d) % below);
}

int64_t dice_between(dice *d, int64_t low, int64_t high)
{
    return low + (int64_t)(next(d) % (uint64_t)(high - low + 1));
}

static const struct {
    const char *word;
    bool lasts;
    fault_place where;
} kinds[] = {
#define RUNS_FAULT_ROW(name, word, lasts, where) [FAULT_##name] = {(word), (lasts), AT_##where},
    RUNS_FAULTS(RUNS_FAULT_ROW)
#undef RUNS_FAULT_ROW
};

const char *fault_word(fault_kind kind)
{
    return kinds[kind].word;
}

bool fault_lasts(fault_kind kind)
{
    return kinds[kind].lasts;
}

fault_place fault_where(fault_kind kind)
{
    return kinds[kind].where;
}

fault_kind fault_of(const char *word)
{
    int kind = 0;
    while (kind < FAULT_NO_KIND && strcmp(kinds[kind].word, word) != 0)
        kind++;
    return (fault_kind)kind;
}

int64_t fault_lasting(dice *d, fault_kind kind)
{
    static const int64_t bounds[] = {50, 400, 1200, 2600};
    if (!fault_lasts(kind))
        return 0;
    const unsigned third = dice_roll(d, 3);
    return dice_between(d, bounds[third], bounds[third + 1]);
}

/* Statements for a fault: acquiring (and those before and after), renewing, freeing, waiting for a
 * row, committing, fencing. */
static const char *const texts[] = {
    NULL,
    ("lease_acquire lease_inherit lease_acquire_quiet lease_take_over row_publish row_publish_over"
     " shared_enter shared_open shared_close shared_take shared_join shared_begin"
     " slots_take slots_keep set_take_quiet set_tokens leader_publish"
     " once_insert once_take"
     " latch_set latch_down latch_join barrier_lock barrier_enter barrier_complete"
     " queue_put queue_put_grouped queue_group_enter queue_ready queue_ready_from queue_take "
     "queue_take_batch"),
    "lease_renew shared_renew queue_renew",
    ("lease_release lease_release_apart lease_release_quiet row_unpublish row_end_stale"
     " shared_leave shared_reopen shared_expire lease_expire set_release"
     " latch_open latch_break_member barrier_withdraw barrier_leave barrier_quit once_end"
     " queue_done queue_done_batch queue_retry queue_release queue_bury queue_group_promote"
     " queue_group_end"),
    "row_lock row_try row_probe caller_row_lock caller_row_try row_share row_share_try",
    "row_commit",
    "caller_fence caller_fence_shared caller_once_done"};
enum { TEXTS = sizeof texts / sizeof texts[0] };

const char *schedule_text_of(unsigned text)
{
    return texts[text];
}

static planned_actor plan_actor(dice *d, unsigned lock)
{
    planned_actor a = {.lock = lock};
    a.fenced = dice_roll(d, 4) > 0;
    a.proxied = dice_roll(d, 4) > 0;
    a.poll = dice_roll(d, 6) == 0;
    a.ttl_ms = dice_between(d, 500, 1500);
    a.respawn_ms = dice_between(d, 50, 800);
    a.seed = next(d);
    return a;
}

static planned_fault plan_fault(dice *d, fault_kind kind, int64_t active_ms)
{
    planned_fault f = {.kind = kind, .proxies = 1};
    f.at_ms = dice_between(d, 300, active_ms - 800);
    f.last_ms = fault_lasting(d, kind);
    f.holder = dice_roll(d, 3) > 0;
    f.actor = dice_roll(d, PLAN_ACTORS_OF_TWO);
    f.up = dice_roll(d, 3) == 0;
    f.lock = dice_roll(d, 2) ? PLAN_ROW : PLAN_LEASE;
    f.text = dice_roll(d, TEXTS);
    f.nth = 1 + dice_roll(d, kind == FAULT_CUT_AFTER ? 3000 : 6);
    f.ms = kind == FAULT_LATENCY ? dice_between(d, 400, 900) : dice_between(d, 5, 150);
    return f;
}

static int by_time(const void *a, const void *b)
{
    const planned_fault *x = a;
    const planned_fault *y = b;
    return x->at_ms < y->at_ms ? -1 : x->at_ms > y->at_ms;
}

void schedule_sort(planned_fault *faults, unsigned count)
{
    qsort(faults, count, sizeof faults[0], by_time);
}

/* With dice of its own, so that the rest of the plan does not depend on it. */
static unsigned plan_readers(uint64_t seed)
{
    static const unsigned shares[] = {0, 25, 50, 80};
    dice d = dice_of(~seed);
    return shares[dice_roll(&d, sizeof shares / sizeof shares[0])];
}

static unsigned how_many(dice *d, const plan *p, fault_kind alone)
{
    unsigned some = p->mixed ? 4 + dice_roll(d, PLAN_FAULTS - 3) : 2 + dice_roll(d, 4);
    if (!p->mixed && alone == FAULT_NONE)
        return 0;
    /* A fault that hits holders often comes when there is none. */
    bool often = alone == FAULT_BREAK || alone == FAULT_KILL || alone == FAULT_STOP;
    return !p->mixed && often ? PLAN_FAULTS : some;
}

/* Chooses the third name: as wanted, or by these dice. */
static void choose_third(plan *p, const schedule_choice *w, dice *d)
{
    const unsigned slots = 2 + dice_roll(d, PLAN_SLOTS_MOST - 1);
    const unsigned members = 2 + dice_roll(d, PLAN_SLOTS_MOST - 1);
    const bool by_seed = w->third == PLAN_BY_SEED;
    p->third = PLAN_SLOTS + dice_roll(d, PLAN_QUEUE - PLAN_SLOTS);
    p->third = by_seed ? p->third : w->third;
    if (p->third == PLAN_SLOTS)
        p->slots = by_seed ? slots : w->count;
    if (p->third == PLAN_BARRIER)
        p->members = by_seed ? members : w->count;
}

/* Adds the third name and its processes, and aims some of the faults at them; also with dice of its
 * own. */
static void add_third(plan *p, const schedule_choice *w)
{
    static const unsigned actors[PLAN_LOCKS] = {
        [PLAN_SLOTS] = 4, [PLAN_LATCH] = 5, [PLAN_BARRIER] = 6, [PLAN_ONCE] = 4, [PLAN_QUEUE] = 6};
    dice d = dice_of(p->seed ^ 0x736c6f7473u);
    choose_third(p, w, &d);
    if (p->third == PLAN_NONE)
        return;
    for (unsigned i = 0; i < actors[p->third]; i++)
        p->actors[p->actor_count++] = plan_actor(&d, p->third);
    for (unsigned i = 0; i < p->fault_count; i++) {
        const bool hits = dice_roll(&d, 5) < 2;
        const unsigned actor = PLAN_ACTORS_OF_TWO + dice_roll(&d, actors[p->third]);
        if (!hits && !p->alone)
            continue;
        p->faults[i].lock = p->third;
        p->faults[i].actor = actor;
    }
}

static plan make(uint64_t seed, bool mixed, fault_kind alone, const schedule_choice *w)
{
    plan p = {.seed = seed, .mixed = mixed, .alone = w->alone, .actor_count = PLAN_ACTORS_OF_TWO};
    dice d = dice_of(seed);
    p.active_ms = dice_between(&d, 4000, 6000) / (w->alone ? 2 : 1);
    p.readers = plan_readers(seed);
    for (unsigned i = 0; i < PLAN_LOCKS; i++)
        p.lease[i] = i != PLAN_ROW;
    /* Half of the processes use each. */
    for (unsigned i = 0; i < PLAN_ACTORS_OF_TWO; i++)
        p.actors[i] = plan_actor(&d, i % 2 ? PLAN_ROW : PLAN_LEASE);
    p.fault_count = how_many(&d, &p, alone);
    for (unsigned i = 0; i < p.fault_count; i++) {
        fault_kind kind = mixed ? (fault_kind)(1 + dice_roll(&d, FAULT_KINDS - 1)) : alone;
        p.faults[i] = plan_fault(&d, kind, p.active_ms);
    }
    schedule_sort(p.faults, p.fault_count);
    add_third(&p, w);
    return p;
}

plan schedule(uint64_t seed)
{
    return schedule_with(seed, &(schedule_choice){.fault = FAULT_KINDS, .third = PLAN_BY_SEED});
}

plan schedule_with(uint64_t seed, const schedule_choice *w)
{
    if (w->fault != FAULT_KINDS)
        return make(seed, false, w->fault, w);
    return make(seed, seed % 4 == 3, (fault_kind)((seed - seed / 4) % FAULT_KINDS), w);
}

void schedule_print_faults(const planned_fault *faults, unsigned count, FILE *out)
{
    for (unsigned i = 0; i < count; i++) {
        const planned_fault *f = &faults[i];
        const char *text = schedule_text_of(f->text);
        fprintf(out,
                "  at %" PRId64 " ms: %s for %" PRId64
                " ms (%sactor %u, server %u, proxies %#x, %s,"
                " lock %u, '%s', nth %u, %" PRId64 " ms)\n",
                f->at_ms, fault_word(f->kind), f->last_ms, f->holder ? "the holder, else " : "",
                f->actor, f->member + 1, f->proxies, f->up ? "up" : "down", f->lock,
                text ? text : "any", f->nth, f->ms);
    }
}

void schedule_print(const plan *p, FILE *out)
{
    static const char *const locks[PLAN_LOCKS] = {"lease",   "row lock", "slots", "latch",
                                                  "barrier", "once",     "queue"};
    fprintf(out,
            "seed %" PRIu64 ", %s, %" PRId64
            " ms, %u of 100 acquires are shared, %u slots, a barrier of %u\n",
            p->seed, p->mixed ? "mixed" : "alone", p->active_ms, p->readers, p->slots, p->members);
    for (unsigned i = 0; i < p->actor_count; i++) {
        const planned_actor *a = &p->actors[i];
        fprintf(out,
                "  actor %u: %s%s, ttl %" PRId64 " ms, %s%s, replaced after %" PRId64
                " ms, seed %" PRIu64 "\n",
                i, locks[a->lock], a->fenced ? "" : " unfenced", a->ttl_ms,
                a->proxied ? "by the proxy" : "direct", a->poll ? ", polls" : "", a->respawn_ms,
                a->seed);
    }
    schedule_print_faults(p->faults, p->fault_count, out);
}
