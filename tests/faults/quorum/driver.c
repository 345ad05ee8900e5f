/*
 * Runs on several servers: members are killed, frozen, cut off, lose their data, have their clocks
 * moved, at moments that a seed decides; then the checker of faults/runs reads what happened: one
 * holder at a time, and tokens that rise.
 *
 *   faults_quorum [--seed S] [--runs N] [--jobs J] [--folder DIR] [--fault KIND] [--members N]
 *                 [--actor PROGRAM --expect RULE,...]
 *   faults_quorum --check DIR     a history that was kept
 *
 * Seeds S (1) to S + N - 1 (N: 1), J (1) at a time, each beside private servers of its own. A line
 * of TAP for each. The history of a run that fails is kept in DIR (a new one under TMPDIR), with
 * its plan and what the checker says.
 * --fault, --members: with this kind of fault alone, this many members, whatever the seed would
 * have.
 * --expect: the actor is built on a broken lock; a run has passed if one of these rules
 * was found broken, and all the runs together pass if one did.
 *
 * From outside: ROWLOCK_TOOLS.
 */
#include <getopt.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "faults/quorum/faults.h"
#include "faults/runs/checker.h"

typedef struct options {
    uint64_t seed;
    unsigned runs;
    unsigned jobs;
    unsigned members; /* 0: as the seed has it */
    quorum_fault_kind fault;
    char folder[300];
    char actor[400];
    const char *expect; /* NULL: nothing is to be found */
} options;

/* Everybody works while the faults come and go; then all is well, and nobody must be the worse. */
static void live_through(world *w, const quorum_plan *p)
{
    crew c;
    faults f;
    crew_begin(&c, w, p);
    faults_begin(&f, w, &c, p);
    int64_t end = history_now() + p->active_ms * 1000;
    while (history_now() < end) {
        faults_tend(&f);
        crew_tend(&c);
        ts_pass_ms(3);
    }
    faults_end(&f);
    crew_end(&c);
    crew_probe(&c);
}

typedef struct outcome {
    verdict verdict;
    size_t acquired;
} outcome;

static outcome judge(const char *folder, FILE *out)
{
    outcome result = {0};
    events all;
    model m = {0};
    if (history_read(&all, folder) && model_build(&m, &all)) {
        result.verdict = check(&m, out);
        result.verdict.violations += !m.complete;
        for (size_t i = 0; i < m.hold_count; i++)
            result.acquired += hold_ok(&m.holds[i]);
    } else {
        result.verdict.violations = 1;
        snprintf(result.verdict.rules, sizeof result.verdict.rules, " unreadable ");
    }
    model_free(&m);
    history_free(&all);
    return result;
}

static FILE *file_of(const char *folder, const char *name)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    return out;
}

static outcome run_and_judge(world *w, const quorum_plan *p, const char *folder)
{
    world_begin_run(w, p, folder);
    FILE *out = file_of(folder, "plan");
    quorum_print(p, out);
    fclose(out);
    live_through(w, p);
    world_end_run(w, p);
    out = file_of(folder, "verdict");
    outcome result = judge(folder, out);
    fclose(out);
    return result;
}

static void forget(const char *folder)
{
    char command[600];
    snprintf(command, sizeof command, "exec rm -rf -- '%s'", folder);
    if (system(command) != 0)
        fprintf(stderr, "%s stays\n", folder);
}

static bool found_expected(const options *o, const verdict *v)
{
    char list[200];
    char *rest = list;
    snprintf(list, sizeof list, "%s", o->expect);
    for (char *rule; (rule = strsep(&rest, ",")) != NULL;)
        if (verdict_has(v, rule))
            return true;
    return false;
}

/* One line, written at once: several processes write them. */
static void report(const options *o, const quorum_plan *p, const outcome *r, int64_t took_ms,
                   const char *folder)
{
    char line[1000];
    const char *kind = p->mixed         ? "mixed"
                       : p->fault_count ? quorum_word(p->faults[0].kind)
                                        : "none";
    bool good = r->verdict.violations == 0;
    int length = snprintf(line, sizeof line,
                          "%s %" PRIu64 " - seed %" PRIu64
                          ", %s, %u members: %zu acquired, %" PRId64 ".%" PRId64 " s%s%s%s%s\n",
                          o->expect ? "#"
                          : good    ? "ok"
                                    : "not ok",
                          p->seed - o->seed + 1, p->seed, kind, p->members, r->acquired,
                          took_ms / 1000, took_ms % 1000 / 100, good ? "" : ";", r->verdict.rules,
                          good ? "" : "in ", good ? "" : folder);
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        exit(74);
}

static bool one_run(world *w, const options *o, uint64_t seed)
{
    char folder[400];
    const quorum_plan p = quorum_schedule(seed, o->fault, o->members);
    int64_t start = history_now();
    snprintf(folder, sizeof folder, "%s/seed-%" PRIu64, o->folder, seed);
    forget(folder);
    outcome result = run_and_judge(w, &p, folder);
    report(o, &p, &result, (history_now() - start) / 1000, folder);
    bool passed = o->expect ? found_expected(o, &result.verdict) : result.verdict.violations == 0;
    if (o->expect || passed)
        forget(folder);
    return passed;
}

/* Most runs have three members: only then is there need for more servers. */
static unsigned most_members(const options *o, unsigned job)
{
    unsigned most = 0;
    for (unsigned i = job; i < o->runs; i += o->jobs) {
        const quorum_plan p = quorum_schedule(o->seed + i, o->fault, o->members);
        most = p.members > most ? p.members : most;
    }
    return most;
}

/* Every J-th seed, one after the other on the same servers. Exit status 0: all have passed; with
 * --expect: one has. `found`: by any job, what was expected. */
static int work(const options *o, unsigned job, atomic_bool *found)
{
    static world w;
    unsigned passed = 0;
    unsigned failed = 0;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    world_start(&w, most_members(o, job), o->actor);
    for (unsigned i = job; i < o->runs && !atomic_load(found); i += o->jobs) {
        if (one_run(&w, o, o->seed + i))
            passed++;
        else
            failed++;
        if (o->expect && passed)
            atomic_store(found, true);
    }
    world_end(&w);
    return o->expect ? passed == 0 : failed > 0;
}

static int run_all(const options *o)
{
    unsigned good = 0;
    unsigned started = 0;
    atomic_bool *found =
        mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(found != MAP_FAILED);
    for (; started < o->jobs && started < o->runs; started++) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
            exit(work(o, started, found));
    }
    for (int status; wait(&status) > 0 || errno == EINTR;)
        good += status == 0;
    bool passed = o->expect ? good > 0 : good == started;
    if (o->expect)
        printf("%s 1 - the checker found one of %s\n", passed ? "ok" : "not ok", o->expect);
    return !passed;
}

static int check_kept(const char *folder)
{
    outcome result = judge(folder, stdout);
    printf("%zu acquired, %u violations\n", result.acquired, result.verdict.violations);
    return result.verdict.violations > 0;
}

static void choose_folder(options *o)
{
    const char *base = getenv("TMPDIR");
    if (*o->folder) {
        if (mkdir(o->folder, 0777) != 0 && errno != EEXIST)
            exit(73);
        return;
    }
    snprintf(o->folder, sizeof o->folder, "%s/rowlock-quorums.XXXXXX",
             base && *base ? base : "/tmp");
    if (!mkdtemp(o->folder))
        exit(73);
}

static bool take_option(options *o, int c)
{
    if (c == 's')
        o->seed = strtoull(optarg, NULL, 10);
    else if (c == 'n')
        o->runs = (unsigned)strtoul(optarg, NULL, 10);
    else if (c == 'j')
        o->jobs = (unsigned)strtoul(optarg, NULL, 10);
    else if (c == 'm')
        o->members = (unsigned)strtoul(optarg, NULL, 10);
    else if (c == 'f')
        snprintf(o->folder, sizeof o->folder, "%s", optarg);
    else if (c == 'a')
        snprintf(o->actor, sizeof o->actor, "%s", optarg);
    else if (c == 'e')
        o->expect = optarg;
    else if (c == 'k')
        o->fault = quorum_kind_of(optarg);
    else
        return false;
    return c != 'k' || o->fault != QUORUM_KINDS;
}

int main(int argc, char **argv)
{
    options o = {.seed = 1, .runs = 1, .jobs = 1, .fault = QUORUM_KINDS};
    static const struct option known[] = {
        {"seed", required_argument, NULL, 's'},    {"runs", required_argument, NULL, 'n'},
        {"jobs", required_argument, NULL, 'j'},    {"folder", required_argument, NULL, 'f'},
        {"actor", required_argument, NULL, 'a'},   {"expect", required_argument, NULL, 'e'},
        {"check", required_argument, NULL, 'c'},   {"fault", required_argument, NULL, 'k'},
        {"members", required_argument, NULL, 'm'}, {NULL, 0, NULL, 0}};
    const char *slash = strrchr(argv[0], '/');
    snprintf(o.actor, sizeof o.actor, "%.*s/faults_quorum_actor",
             slash ? (int)(slash - argv[0]) : 1, slash ? argv[0] : ".");
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 'c')
            return check_kept(optarg);
        if (!take_option(&o, c))
            return 64;
    }
    if (!getenv("ROWLOCK_TOOLS") || o.jobs == 0 || o.members > QUORUM_MEMBERS) {
        fprintf(stderr, "set ROWLOCK_TOOLS\n");
        return 64;
    }
    choose_folder(&o);
    return run_all(&o);
}
