#include "faults/runs/frame.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

typedef struct outcome {
    verdict verdict;
    char told[300];
} outcome;

size_t frame_acquired(const model *m)
{
    size_t count = 0;
    for (size_t i = 0; i < m->hold_count; i++)
        count += hold_ok(&m->holds[i]);
    return count;
}

FILE *frame_file(const char *folder, const char *name)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    return out;
}

static outcome judge(const frame *f, uint64_t seed, const char *folder, FILE *out)
{
    outcome result = {0};
    events all;
    model m = {0};
    if (history_read(&all, folder) && model_build(&m, &all)) {
        result.verdict = check(&m, out);
        result.verdict.violations += !m.complete;
        f->tell(seed, &m, result.told);
    } else {
        result.verdict.violations = 1;
        snprintf(result.verdict.rules, sizeof result.verdict.rules, " unreadable ");
    }
    model_free(&m);
    history_free(&all);
    return result;
}

static void forget(const char *folder)
{
    char command[600];
    snprintf(command, sizeof command, "exec rm -rf -- '%s'", folder);
    if (system(command) != 0)
        fprintf(stderr, "%s stays\n", folder);
}

static bool found_expected(const run_options *o, const verdict *v)
{
    char list[200];
    char *rest = list;
    snprintf(list, sizeof list, "%s", o->expect);
    for (char *rule; (rule = strsep(&rest, ",")) != NULL;)
        if (verdict_has(v, rule))
            return true;
    return false;
}

/* The checker's first violations, since the folder may be gone when somebody reads this. */
static size_t put_complaints(const char *folder, char *to, size_t size)
{
    char path[500];
    char text[400];
    size_t length = 0;
    snprintf(path, sizeof path, "%s/verdict", folder);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    for (int i = 0; i < 5 && fgets(text, sizeof text, in); i++)
        length += (size_t)snprintf(to + length, size - length, "#   %.*s\n",
                                   (int)strcspn(text, "\n"), text);
    fclose(in);
    return length;
}

/* One write, since several processes write lines. */
static void report(const frame *f, const run_options *o, uint64_t seed, const outcome *r,
                   int64_t took_ms, const char *folder)
{
    char line[4000];
    bool good = r->verdict.violations == 0;
    size_t length = (size_t)snprintf(
        line, sizeof line,
        "%s %" PRIu64 " - seed %" PRIu64 ", %s, %" PRId64 ".%" PRId64 " s%s%s%s%s\n",
        o->expect ? "#"
        : good    ? "ok"
                  : "not ok",
        seed - o->seed + 1, seed, r->told, took_ms / 1000, took_ms % 1000 / 100, good ? "" : ";",
        r->verdict.rules, good ? "" : "in ", good ? "" : folder);
    if (!good && !o->expect) {
        length += put_complaints(folder, line + length, sizeof line - length);
        length += (size_t)snprintf(line + length, sizeof line - length,
                                   "#   again: ROWLOCK_RUNS=1 ROWLOCK_SEED=%" PRIu64
                                   " ctest --preset all -R '^%s$'\n",
                                   seed, f->test);
    }
    if (write(STDOUT_FILENO, line, length) != (ssize_t)length)
        exit(74);
}

static bool one_run(const frame *f, void *world, const run_options *o, uint64_t seed)
{
    char folder[400];
    int64_t start = history_now();
    snprintf(folder, sizeof folder, "%s/seed-%" PRIu64, o->folder, seed);
    forget(folder);
    f->live(world, seed, folder);
    FILE *out = frame_file(folder, "verdict");
    outcome result = judge(f, seed, folder, out);
    fclose(out);
    report(f, o, seed, &result, (history_now() - start) / 1000, folder);
    bool passed = o->expect ? found_expected(o, &result.verdict) : result.verdict.violations == 0;
    if (o->expect || passed)
        forget(folder);
    return passed;
}

/* Runs every J-th seed, one after the other on the same servers. Exit status 0: all have passed;
 * with --expect: one has. `found`: a job has found the expected violation. */
static int work(const frame *f, const run_options *o, unsigned job, atomic_bool *found)
{
    unsigned passed = 0;
    unsigned failed = 0;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    void *world = f->begin(o, job);
    for (unsigned i = job; i < o->runs && !atomic_load(found); i += o->jobs) {
        if (one_run(f, world, o, o->seed + i))
            passed++;
        else
            failed++;
        if (o->expect && passed)
            atomic_store(found, true);
    }
    f->end(world);
    return o->expect ? passed == 0 : failed > 0;
}

static int run_all(const frame *f, const run_options *o)
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
            exit(work(f, o, started, found));
    }
    for (int status; wait(&status) > 0 || errno == EINTR;)
        good += status == 0;
    bool passed = o->expect ? good > 0 : good == started;
    if (o->expect)
        printf("%s 1 - the checker found one of %s\n", passed ? "ok" : "not ok", o->expect);
    return !passed;
}

static int check_kept(const frame *f, const char *folder)
{
    outcome result = judge(f, 0, folder, stdout);
    printf("%s, %u violations\n", result.told, result.verdict.violations);
    return result.verdict.violations > 0;
}

static void choose_folder(run_options *o)
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

static bool take_option(run_options *o, int c)
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
    else
        return false;
    return true;
}

int frame_run(const frame *f, int argc, char **argv)
{
    run_options o = {.seed = 1, .runs = 1, .jobs = 1};
    const char *slash = strrchr(argv[0], '/');
    snprintf(o.actor, sizeof o.actor, "%.*s/%s", slash ? (int)(slash - argv[0]) : 1,
             slash ? argv[0] : ".", f->actor);
    for (int c; (c = getopt_long(argc, argv, "", f->options, NULL)) != -1;) {
        if (c == 'c')
            return check_kept(f, optarg);
        if (!take_option(&o, c) && !f->take(c, optarg))
            return 64;
    }
    if (!getenv("ROWLOCK_TOOLS") || o.jobs == 0) {
        fprintf(stderr, "set ROWLOCK_TOOLS\n");
        return 64;
    }
    choose_folder(&o);
    return run_all(f, &o);
}
