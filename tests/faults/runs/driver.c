/*
 * Runs: everything that can break, broken on purpose, at moments that a seed decides; then the
 * checker reads what happened.
 *
 *   faults_runs [--seed S] [--runs N] [--jobs J] [--folder DIR] [--fault KIND] [--readers N]
 *               [--slots N | --latch | --barrier N | --once | --queue] [--alone] [--actor PROGRAM
 * --expect RULE,...] faults_runs --check DIR     a history that was kept
 *
 * Seeds S (1) to S + N - 1 (N: 1), J (1) at a time, each beside a private server of its own. A line
 * of TAP for each. The history of a run that fails is kept in DIR (a new one under TMPDIR), with
 * its schedule and what the checker says.
 * --fault: with this kind of fault alone, whatever the seed would have.
 * --readers: of 100 acquires N are shared, whatever the seed would have.
 * --slots, --latch, --barrier, --once, --queue: the third name is this one, whatever the seed would
 * have;
 * --slots 0: there is none. --alone: nobody is at the other two, and the runs are shorter.
 * --expect: the actor is built on a broken lock; a run has passed if one of these rules
 * was found broken, and all the runs together pass if one did.
 *
 * From outside: ROWLOCK_TOOLS.
 */
#include <getopt.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "faults/runs/checking.h"
#include "faults/runs/faults.h"

typedef struct options {
    uint64_t seed;
    unsigned runs;
    unsigned jobs;
    char folder[300];
    char actor[400];
    const char *expect; /* NULL: nothing is to be found */
    schedule_choice choice;
    unsigned readers; /* AS_PLANNED: as the seed has it */
} options;

enum { AS_PLANNED = 101 };

typedef struct outcome {
    verdict verdict;
    size_t acquired;
    size_t written;
    size_t led;  /* so often somebody was seen to lead */
    size_t done; /* so many periods */
} outcome;

static outcome judge(const char *folder, FILE *out)
{
    outcome result = {0};
    events all;
    model m = {0};
    if (history_read(&all, folder) && model_build(&m, &all)) {
        result.verdict = check(&m, out);
        if (!m.complete)
            result.verdict.violations++;
        for (size_t i = 0; i < m.hold_count; i++)
            result.acquired += hold_ok(&m.holds[i]);
        for (size_t i = 0; i < m.call_count; i++)
            result.acquired +=
                call_is(&m.calls[i], "enter", "OK") || call_is(&m.calls[i], "wait", "OK");
        result.acquired += m.queue.take_count;
        for (size_t i = 0; i < m.queue.give_count; i++)
            result.done += strcmp(m.queue.gives[i].status, "OK") == 0 &&
                           (strcmp(m.queue.gives[i].verb, "done") == 0 ||
                            strcmp(m.queue.gives[i].verb, "job") == 0);
        for (size_t i = 0; i < m.seen_count; i++)
            result.led += m.seen[i].leads;
        for (size_t i = 0; i < m.call_count; i++)
            result.done += m.calls[i].by->lease && (call_is(&m.calls[i], "job", "OK") ||
                                                    call_is(&m.calls[i], "done", "OK"));
        result.written = m.table_count + m.queue.put_count;
    } else {
        result.verdict.violations = 1;
        snprintf(result.verdict.rules, sizeof result.verdict.rules, " unreadable ");
    }
    model_free(&m);
    history_free(&all);
    return result;
}

/* Everybody works while the faults come and go; then all is well, and nobody must be the worse. */
static void live_through(world *w, const plan *p, const options *o)
{
    crew c;
    faults f;
    crew_begin(&c, w, p, o->actor);
    faults_begin(&f, w, &c, p);
    int64_t end = history_now() + p->active_ms * 1000;
    while (history_now() < end) {
        faults_tend(&f);
        crew_tend(&c);
        ts_pass_ms(3);
    }
    faults_end(&f);
    crew_end(&c);
    world_look(w);
    crew_probe(&c);
}

static void keep_schedule(const plan *p, const char *folder)
{
    char path[500];
    snprintf(path, sizeof path, "%s/schedule", folder);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    schedule_print(p, out);
    fclose(out);
}

static outcome run_and_judge(world *w, const plan *p, const options *o, const char *folder)
{
    char path[500];
    world_begin_run(w, p, folder);
    keep_schedule(p, folder);
    live_through(w, p, o);
    world_end_run(w);
    snprintf(path, sizeof path, "%s/verdict", folder);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
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
static void report(const options *o, const plan *p, const outcome *r, int64_t took_ms,
                   const char *folder)
{
    char line[1000];
    const char *kind = p->mixed ? "mixed" : p->fault_count ? fault_word(p->faults[0].kind) : "none";
    bool good = r->verdict.violations == 0;
    int length = snprintf(line, sizeof line,
                          "%s %" PRIu64 " - seed %" PRIu64
                          ", %s: %zu acquired, %zu written, %zu seen to lead, %zu done, %" PRId64
                          ".%" PRId64 " s%s%s%s%s\n",
                          o->expect ? "#"
                          : good    ? "ok"
                                    : "not ok",
                          p->seed - o->seed + 1, p->seed, kind, r->acquired, r->written, r->led,
                          r->done, took_ms / 1000, took_ms % 1000 / 100, good ? "" : ";",
                          r->verdict.rules, good ? "" : "in ", good ? "" : folder);
    if (!good && !o->expect)
        length += snprintf(line + length, sizeof line - (size_t)length,
                           "#   again: ROWLOCK_RUNS=1 ROWLOCK_SEED=%" PRIu64
                           " ctest --preset all -R faults_runs$\n",
                           p->seed);
    if (write(STDOUT_FILENO, line, (size_t)length) != length)
        exit(74);
}

static bool one_run(world *w, const options *o, uint64_t seed)
{
    char folder[400];
    plan p = schedule_with(seed, &o->choice);
    int64_t start = history_now();
    if (o->readers < AS_PLANNED)
        p.readers = o->readers;
    snprintf(folder, sizeof folder, "%s/seed-%" PRIu64, o->folder, seed);
    forget(folder);
    outcome result = run_and_judge(w, &p, o, folder);
    report(o, &p, &result, (history_now() - start) / 1000, folder);
    bool passed = o->expect ? found_expected(o, &result.verdict) : result.verdict.violations == 0;
    if (o->expect || passed)
        forget(folder);
    return passed;
}

/* Every J-th seed, one after the other on the same server. Exit status 0: all have passed;
 * with --expect: one has. `found`: by any job, what was expected. */
static int work(const options *o, unsigned job, atomic_bool *found)
{
    world w;
    unsigned passed = 0;
    unsigned failed = 0;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    world_start(&w);
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
    atomic_bool *found =
        mmap(NULL, sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(found != MAP_FAILED);
    for (unsigned job = 0; job < o->jobs; job++) {
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0)
            exit(work(o, job, found));
    }
    for (int status; wait(&status) > 0 || errno == EINTR;)
        good += status == 0;
    bool passed = o->expect ? good > 0 : good == o->jobs;
    if (o->expect)
        printf("%s 1 - the checker found one of %s\n", passed ? "ok" : "not ok", o->expect);
    return !passed;
}

static void beside(const char *program, const char *name, char *to, size_t size)
{
    const char *slash = strrchr(program, '/');
    snprintf(to, size, "%.*s/%s", slash ? (int)(slash - program) : 1, slash ? program : ".", name);
}

static int check_kept(const char *folder)
{
    outcome result = judge(folder, stdout);
    printf("%zu acquired, %zu written, %u violations\n", result.acquired, result.written,
           result.verdict.violations);
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
    snprintf(o->folder, sizeof o->folder, "%s/rowlock-runs.XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(o->folder))
        exit(73);
}

static void want_third(options *o, unsigned third, const char *count)
{
    o->choice.third = third;
    o->choice.count = count ? (unsigned)strtoul(count, NULL, 10) : 0;
    if (third == PLAN_SLOTS && o->choice.count == 0)
        o->choice.third = PLAN_NONE;
}

static bool take_option(options *o, int c)
{
    if (c == 's')
        o->seed = strtoull(optarg, NULL, 10);
    else if (c == 'n')
        o->runs = (unsigned)strtoul(optarg, NULL, 10);
    else if (c == 'j')
        o->jobs = (unsigned)strtoul(optarg, NULL, 10);
    else if (c == 'f')
        snprintf(o->folder, sizeof o->folder, "%s", optarg);
    else if (c == 'a')
        snprintf(o->actor, sizeof o->actor, "%s", optarg);
    else if (c == 'e')
        o->expect = optarg;
    else if (c == 'r')
        o->readers = (unsigned)strtoul(optarg, NULL, 10);
    else if (c == 'l')
        want_third(o, PLAN_SLOTS, optarg);
    else if (c == 'L')
        want_third(o, PLAN_LATCH, NULL);
    else if (c == 'B')
        want_third(o, PLAN_BARRIER, optarg);
    else if (c == 'O')
        want_third(o, PLAN_ONCE, NULL);
    else if (c == 'Q')
        want_third(o, PLAN_QUEUE, NULL);
    else if (c == 'A')
        o->choice.alone = true;
    else if (c == 'k')
        o->choice.fault = schedule_kind_of(optarg);
    else
        return false;
    return c != 'k' || o->choice.fault != FAULT_KINDS;
}

int main(int argc, char **argv)
{
    options o = {.seed = 1,
                 .runs = 1,
                 .jobs = 1,
                 .choice = {.fault = FAULT_KINDS, .third = PLAN_BY_SEED},
                 .readers = AS_PLANNED};
    static const struct option known[] = {
        {"seed", required_argument, NULL, 's'},    {"runs", required_argument, NULL, 'n'},
        {"jobs", required_argument, NULL, 'j'},    {"folder", required_argument, NULL, 'f'},
        {"actor", required_argument, NULL, 'a'},   {"expect", required_argument, NULL, 'e'},
        {"check", required_argument, NULL, 'c'},   {"fault", required_argument, NULL, 'k'},
        {"readers", required_argument, NULL, 'r'}, {"slots", required_argument, NULL, 'l'},
        {"latch", no_argument, NULL, 'L'},         {"barrier", required_argument, NULL, 'B'},
        {"once", no_argument, NULL, 'O'},          {"queue", no_argument, NULL, 'Q'},
        {"alone", no_argument, NULL, 'A'},         {NULL, 0, NULL, 0}};
    beside(argv[0], "faults_actor", o.actor, sizeof o.actor);
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 'c')
            return check_kept(optarg);
        if (!take_option(&o, c))
            return 64;
    }
    if (o.choice.count > PLAN_SLOTS_MOST)
        return 64;
    if (!getenv("ROWLOCK_TOOLS") || o.jobs == 0) {
        fprintf(stderr, "set ROWLOCK_TOOLS\n");
        return 64;
    }
    choose_folder(&o);
    return run_all(&o);
}
