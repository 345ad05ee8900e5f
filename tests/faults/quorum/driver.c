/*
 * Runs on several servers: members are killed, frozen, cut off, lose their data, or have their
 * clocks moved, at times that a seed decides. Then the checker of faults/runs reads the history:
 * one holder at a time, and tokens that rise.
 *
 *   faults_quorum [--fault KIND] and the options of runs/frame.h
 *
 * --fault: only this kind of fault, whatever the seed says.
 */
#include "faults/quorum/world.h"
#include "faults/runs/frame.h"

static fault_kind alone = FAULT_NO_KIND;

static quorum_plan plan_of(uint64_t seed)
{
    return quorum_schedule(seed, alone);
}

static bool take(int c, const char *argument)
{
    alone = c == 'k' ? fault_of(argument) : FAULT_NO_KIND;
    return quorum_knows(alone);
}

/* Most runs have three members, so it starts more servers only when they are needed. */
static void *begin(const run_options *o, unsigned job)
{
    static world w;
    unsigned most = 0;
    for (unsigned i = job; i < o->runs; i += o->jobs) {
        const quorum_plan p = plan_of(o->seed + i);
        most = p.members > most ? p.members : most;
    }
    world_start(&w, most, o->actor);
    return &w;
}

static void end(void *of)
{
    world_end(of);
}

/* After the faults the servers work again, and the processes must end well. */
static void live_through(world *w, const quorum_plan *p)
{
    crew c;
    faults f;
    world_crew(w, p, &c);
    world_faults(w, &f);
    faults_live_through(&f, &c, p->faults, p->fault_count, p->active_ms);
    world_probe(&c);
}

static void live(void *of, uint64_t seed, const char *folder)
{
    const quorum_plan p = plan_of(seed);
    world_begin_run(of, &p, folder);
    FILE *out = frame_file(folder, "plan");
    quorum_print(&p, out);
    fclose(out);
    live_through(of, &p);
    world_end_run(of, &p);
}

static void tell(uint64_t seed, const model *m, char line[300])
{
    const quorum_plan p = plan_of(seed);
    snprintf(line, 300, "%s, %u members: %zu acquired",
             p.mixed         ? "mixed"
             : p.fault_count ? fault_word(p.faults[0].kind)
                             : "none",
             p.members, frame_acquired(m));
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        FRAME_OPTIONS, {"fault", required_argument, NULL, 'k'}, {NULL, 0, NULL, 0}};
    static const frame runs = {.test = "faults_runs_quorum",
                               .actor = "faults_quorum_actor",
                               .options = known,
                               .take = take,
                               .begin = begin,
                               .end = end,
                               .live = live,
                               .tell = tell};
    return frame_run(&runs, argc, argv);
}
