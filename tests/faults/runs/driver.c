/*
 * Runs with faults of all kinds, at times that a seed decides; then the checker reads the history.
 *
 *   faults_runs [--fault KIND] [--readers N] [--slots N | --latch | --barrier N | --once | --queue]
 *               [--alone] and the options of runs/frame.h
 *
 * --fault: only this kind of fault, whatever the seed says. --readers: N of 100 acquires are
 * shared, whatever the seed says. --slots, --latch, --barrier, --once, --queue: the third name is
 * this one, whatever the seed says; --slots 0: there is none. --alone: no process uses the other
 * two, and the runs are shorter.
 */
#include "faults/runs/checking.h"
#include "faults/runs/frame.h"
#include "faults/runs/world.h"

enum { AS_PLANNED = 101 };

static schedule_choice choice = {.fault = FAULT_KINDS, .third = PLAN_BY_SEED};
static unsigned readers = AS_PLANNED; /* as the seed says */

static plan plan_of(uint64_t seed)
{
    plan p = schedule_with(seed, &choice);
    if (readers < AS_PLANNED)
        p.readers = readers;
    return p;
}

static bool take(int c, const char *argument)
{
    static const struct {
        int option;
        unsigned third;
    } thirds[] = {{'l', PLAN_SLOTS},
                  {'L', PLAN_LATCH},
                  {'B', PLAN_BARRIER},
                  {'O', PLAN_ONCE},
                  {'Q', PLAN_QUEUE}};
    const unsigned count = argument ? (unsigned)strtoul(argument, NULL, 10) : 0;
    if (c == 'r')
        readers = count;
    else if (c == 'A')
        choice.alone = true;
    else if (c == 'k')
        choice.fault = fault_of(argument);
    for (size_t i = 0; i < sizeof thirds / sizeof thirds[0]; i++)
        if (c == thirds[i].option) {
            choice.third = c == 'l' && count == 0 ? PLAN_NONE : thirds[i].third;
            choice.count = count;
        }
    return c != '?' && choice.count <= PLAN_SLOTS_MOST &&
           !(c == 'k' && choice.fault >= FAULT_KINDS);
}

static void *begin(const run_options *o, unsigned job)
{
    static world w;
    (void)job;
    world_start(&w, o->actor);
    return &w;
}

static void end(void *of)
{
    world_end(of);
}

/* After the faults the servers work again, and the processes must end well. */
static void live_through(world *w, const plan *p)
{
    crew c;
    faults f;
    world_crew(w, p, &c);
    world_faults(w, &f);
    faults_live_through(&f, &c, p->faults, p->fault_count, p->active_ms);
    world_look(w);
    world_probe(p, &c);
}

static void live(void *of, uint64_t seed, const char *folder)
{
    const plan p = plan_of(seed);
    world_begin_run(of, &p, folder);
    FILE *out = frame_file(folder, "schedule");
    schedule_print(&p, out);
    fclose(out);
    live_through(of, &p);
    world_end_run(of);
}

static void tell(uint64_t seed, const model *m, char line[300])
{
    const plan p = plan_of(seed);
    size_t acquired = frame_acquired(m) + m->queue.take_count;
    size_t led = 0;  /* how often a leader was seen */
    size_t done = 0; /* how many periods */
    for (size_t i = 0; i < m->call_count; i++) {
        const call *a = &m->calls[i];
        acquired += call_is(a, "enter", "OK") || call_is(a, "wait", "OK");
        done += a->by->lease && (call_is(a, "job", "OK") || call_is(a, "done", "OK"));
    }
    for (size_t i = 0; i < m->queue.give_count; i++)
        done += strcmp(m->queue.gives[i].status, "OK") == 0 &&
                (strcmp(m->queue.gives[i].verb, "done") == 0 ||
                 strcmp(m->queue.gives[i].verb, "job") == 0);
    for (size_t i = 0; i < m->seen_count; i++)
        led += m->seen[i].leads;
    snprintf(line, 300, "%s: %zu acquired, %zu written, %zu seen to lead, %zu done",
             p.mixed         ? "mixed"
             : p.fault_count ? fault_word(p.faults[0].kind)
                             : "none",
             acquired, m->table_count + m->queue.put_count, led, done);
}

int main(int argc, char **argv)
{
    static const struct option known[] = {FRAME_OPTIONS,
                                          {"fault", required_argument, NULL, 'k'},
                                          {"readers", required_argument, NULL, 'r'},
                                          {"slots", required_argument, NULL, 'l'},
                                          {"latch", no_argument, NULL, 'L'},
                                          {"barrier", required_argument, NULL, 'B'},
                                          {"once", no_argument, NULL, 'O'},
                                          {"queue", no_argument, NULL, 'Q'},
                                          {"alone", no_argument, NULL, 'A'},
                                          {NULL, 0, NULL, 0}};
    static const frame runs = {.test = "faults_runs",
                               .actor = "faults_actor",
                               .options = known,
                               .take = take,
                               .begin = begin,
                               .end = end,
                               .live = live,
                               .tell = tell};
    return frame_run(&runs, argc, argv);
}
