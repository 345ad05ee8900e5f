/*
 * bench/bench.c - measures lock systems side by side, in one run.
 *
 *   rowlock-bench [--systems=ID,...] [--clients=N,...] [--seconds=S] [--rounds=N] [--distinct]
 *                 [--list]
 *
 * Prints JSON: for each system and load the figures of each round. The machine is never quite
 * at rest; so the systems take turns, in short rounds, and what is said about two of them is
 * said from rounds that lie beside each other. tools/bench starts the servers, runs this, and
 * makes tables and a picture of it.
 */
#include "bench.h"

#include <ctype.h>
#include <getopt.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "measure_rowlock.h"
#include "rowlock/rowlock_quorum.h"

enum {
    SYSTEMS_MAX = 32,
    COUNTS_MAX = 8,
    LOADS_MAX = 2 * COUNTS_MAX + 1,
    ROUNDS_MAX = 20,
    CROWD = 32,
    WARM_UP_EACH_MS = 10, /* a server opens its tables once for each that works at the same time */
    WORK_US = 100,        /* of the load that looks at the caller's own time */
};

typedef struct outcome {
    bool measured;
    bool good;
    measure_figures figures;
    measure_reason why;
} outcome;

typedef struct bench {
    measure_system systems[SYSTEMS_MAX];
    measure_rowlock rowlocks[SYSTEMS_MAX];
    const char *members[SYSTEMS_MAX][ROWLOCK_MEMBERS_MAX];
    size_t system_count;
    const char *only; /* ids, commas between them; NULL: all */
    bool distinct;    /* nobody wants another's name */
    bool list;        /* only list them, also those whose server is not there */
    unsigned counts[COUNTS_MAX];
    size_t count_count;
    measure_load loads[LOADS_MAX];
    size_t load_count;
    double seconds;
    unsigned rounds;
    char prefix[40];
    outcome outcomes[LOADS_MAX][SYSTEMS_MAX][ROUNDS_MAX];
    unsigned failed;
} bench;

/* ------------------------------------------------------------- the systems */

/* BENCH_<ID>_<WHAT> */
static const char *from_environment(const char *id, const char *what)
{
    char name[80];
    snprintf(name, sizeof name, "BENCH_%s_%s", id, what);
    for (char *c = name; *c; c++)
        *c = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
    return getenv(name);
}

static void take_pids(measure_system *system, const char *pids)
{
    char *end = NULL;
    for (int i = 0; i < MEASURE_PIDS_MAX - 1; i++) {
        long pid = pids ? strtol(pids, &end, 10) : 0;
        if (pid <= 0)
            return;
        system->pids[i] = (pid_t)pid;
        pids = end;
    }
}

static bool in_list(const char *list, const char *id)
{
    size_t length = strlen(id);
    for (const char *p = list; p; p = strchr(p, ','), p = p ? p + 1 : NULL) {
        if (strncmp(p, id, length) == 0 && (p[length] == ',' || p[length] == '\0'))
            return true;
    }
    return false;
}

/* `server` is the id that the environment has its place under. False: it is not there. */
static bool add_system(bench *self, const measure_system *system, const char *server)
{
    const char *at = from_environment(server, "AT");
    if ((!at || !*at) && !self->list)
        return false;
    if (self->only && !in_list(self->only, system->id))
        return false;
    measure_system *mine = &self->systems[self->system_count++];
    *mine = *system;
    mine->at = at;
    take_pids(mine, from_environment(server, "PIDS"));
    return true;
}

/* BENCH_ROWLOCK_QUORUM_AT: the URLs of its members, with commas between them. */
static void add_quorum(bench *self, const measure_rowlock_kind *kind)
{
    const size_t n = self->system_count;
    const char *at = from_environment(kind->id, "AT");
    rowlock_client_options options = {.members = self->members[n], .connect_timeout_ms = 2000};
    char *rest = at ? strdup(at) : NULL; /* the URLs stay */
    for (char *url; options.member_count < ROWLOCK_MEMBERS_MAX && (url = strsep(&rest, ","));)
        self->members[n][options.member_count++] = url;
    measure_system system = measure_rowlock_system(&self->rowlocks[n], &options, kind);
    add_system(self, &system, kind->id);
}

static void add_rowlock(bench *self, const measure_rowlock_kind *kind)
{
    measure_rowlock *place = &self->rowlocks[self->system_count];
    const rowlock_client_options options = {
        .socket = from_environment("mariadb", "AT"), .user = "root", .connect_timeout_ms = 60000};
    measure_system system = measure_rowlock_system(place, &options, kind);
    add_system(self, &system, "mariadb");
}

static void add_systems(bench *self)
{
    for (const measure_rowlock_kind *kind = measure_rowlock_kinds; kind->id; kind++)
        (kind->quorum ? add_quorum : add_rowlock)(self, kind);
    for (const measure_system *redlock = bench_redlocks; redlock->id; redlock++)
        add_system(self, redlock, redlock->id);
    add_system(self, &bench_node_nothing, bench_redlocks[0].id);
    add_system(self, &bench_raw_row, "mariadb");
    add_system(self, &bench_raw_named, "mariadb");
    add_system(self, &bench_raw_swap, "mariadb");
    add_system(self, &bench_raw_bell, "mariadb");
#ifdef BENCH_REDIS
    add_system(self, &bench_redis_memory, bench_redis_memory.id);
    add_system(self, &bench_redis_always, bench_redis_always.id);
    add_system(self, &bench_redis_semaphore_memory, bench_redis_memory.id);
    add_system(self, &bench_redis_semaphore_always, bench_redis_always.id);
#endif
#ifdef BENCH_ZOOKEEPER
    add_system(self, &bench_zookeeper, bench_zookeeper.id);
    add_system(self, &bench_zookeeper_semaphore, bench_zookeeper.id);
#endif
#ifdef BENCH_ETCD
    add_system(self, &bench_etcd, bench_etcd.id);
#endif
}

/* --------------------------------------------------------------- the loads */

/* Many on one name have few turns each: their fairness needs more time to show. */
static void add_load(bench *self, unsigned clients, bool hot, int64_t work_us)
{
    int longer = hot && clients > CROWD ? 5 : 1;
    self->loads[self->load_count++] = (measure_load){
        .prefix = self->prefix,
        .clients = clients,
        .hot = hot,
        .window_ms = (int64_t)(self->seconds * 1000) * longer,
        .warm_up_ms = (int64_t)(self->seconds * 1000 / 5) + clients * WARM_UP_EACH_MS,
        .work_us = work_us,
    };
}

/* One client on the hot name is one on a name of its own. */
static void add_loads(bench *self)
{
    for (int hot = 0; hot <= !self->distinct; hot++) {
        for (size_t i = 0; i < self->count_count; i++) {
            if (!hot || self->counts[i] > 1)
                add_load(self, self->counts[i], hot, 0);
        }
    }
    add_load(self, 1, false, WORK_US);
}

static const char *names_word(const measure_load *load)
{
    return load->hot ? "hot" : "distinct";
}

/* --------------------------------------------------------------- measuring */

static void tell_progress(const bench *self, size_t load, unsigned round, size_t system)
{
    size_t runs = self->load_count * self->rounds * self->system_count;
    size_t done = (load * self->rounds + round) * self->system_count + system;
    if (!isatty(STDERR_FILENO))
        return;
    fprintf(stderr, "\r%zu of %zu: %s, %u clients, %s\033[K", done + 1, runs,
            self->systems[system].name, self->loads[load].clients, names_word(&self->loads[load]));
    fflush(stderr);
}

static void clear_progress(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

static void measure_one(bench *self, size_t load, unsigned round, size_t system)
{
    outcome *result = &self->outcomes[load][system][round];
    tell_progress(self, load, round, system);
    result->good =
        measure_run(&self->systems[system], &self->loads[load], &result->figures, &result->why);
    result->measured = true;
    clear_progress();
    if (result->good || measure_stopped())
        return;
    self->failed++;
    fprintf(stderr, "%s, %u clients, %s: %s\n", self->systems[system].name,
            self->loads[load].clients, names_word(&self->loads[load]), result->why.text);
}

/* One throw-away load for each: the servers fill their caches, a JVM compiles. Who fails
 * here will fail again. */
static void warm_up(bench *self)
{
    const measure_load load = {
        .prefix = self->prefix, .clients = 8, .window_ms = (int64_t)(self->seconds * 3000)};
    for (size_t system = 0; system < self->system_count && !measure_stopped(); system++) {
        measure_figures figures;
        measure_reason why;
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\rwarming up: %s\033[K", self->systems[system].name);
        measure_run(&self->systems[system], &load, &figures, &why);
    }
}

static void measure_all(bench *self)
{
    for (size_t load = 0; load < self->load_count; load++) {
        for (unsigned round = 0; round < self->rounds; round++) {
            for (size_t system = 0; system < self->system_count; system++) {
                if (!measure_stopped())
                    measure_one(self, load, round, system);
            }
        }
    }
}

/* ---------------------------------------------------------- what measuring costs */

static bool open_nothing(const measure_system *system, void **session, measure_reason *why)
{
    (void)system, (void)why;
    *session = NULL;
    return true;
}

static bool take_nothing(void *session, const char *name, int64_t wait_ms, measure_reason *why)
{
    (void)session, (void)name, (void)wait_ms, (void)why;
    return true;
}

static bool free_nothing(void *session, const char *name, measure_reason *why)
{
    (void)session, (void)name, (void)why;
    return true;
}

static void close_nothing(void *session)
{
    (void)session;
}

/* In each cycle, whatever is measured: of a lock that is nothing. -1: not known. */
static double measuring_us(const bench *self)
{
    static const measure_system nothing = {.id = "nothing",
                                           .name = "nothing",
                                           .keeps = "memory",
                                           .open = open_nothing,
                                           .acquire = take_nothing,
                                           .release = free_nothing,
                                           .close = close_nothing};
    const measure_load load = {
        .prefix = self->prefix, .clients = 1, .window_ms = 200, .warm_up_ms = 50};
    measure_figures figures;
    measure_reason why;
    if (!measure_run(&nothing, &load, &figures, &why) || figures.cycles == 0)
        return -1;
    return 1e6 / figures.cycles_per_second;
}

/* -------------------------------------------------------------------- JSON */

static void add_text(json_object *object, const char *key, const char *value)
{
    json_object_object_add(object, key, value ? json_object_new_string(value) : NULL);
}

/* null where it is not known, that is negative. */
static void add_real(json_object *object, const char *key, double value)
{
    char digits[40];
    snprintf(digits, sizeof digits, "%.*f", value < 1000 ? 3 : 1, value);
    json_object_object_add(object, key,
                           value >= 0 ? json_object_new_double_s(value, digits) : NULL);
}

static void add_spread(json_object *object, const char *what, const measure_spread *spread)
{
    char key[40];
    snprintf(key, sizeof key, "%s_p50_us", what);
    add_real(object, key, spread->p50);
    snprintf(key, sizeof key, "%s_p99_us", what);
    add_real(object, key, spread->p99);
    snprintf(key, sizeof key, "%s_p999_us", what);
    add_real(object, key, spread->p999);
}

static json_object *round_json(const outcome *result)
{
    const measure_figures *figures = &result->figures;
    json_object *object = json_object_new_object();
    if (!result->good)
        add_text(object, "error", result->why.text);
    add_real(object, "cycles", (double)figures->cycles);
    add_real(object, "cycles_per_second", figures->cycles_per_second);
    add_spread(object, "acquire", &figures->acquire);
    add_spread(object, "hand_over", &figures->hand_over);
    add_spread(object, "own", &figures->own);
    add_real(object, "most_turns", (double)figures->most_turns);
    add_real(object, "least_turns", (double)figures->least_turns);
    add_real(object, "fairness", figures->fairness);
    add_real(object, "longest_free_us", figures->longest_free_us);
    add_real(object, "server_us_per_cycle", figures->server_us_per_cycle);
    add_real(object, "server_percent", figures->server_percent);
    add_real(object, "violations", (double)figures->violations);
    return object;
}

static json_object *row_json(const bench *self, size_t load, size_t system)
{
    json_object *object = json_object_new_object();
    json_object *rounds = json_object_new_array();
    add_text(object, "system", self->systems[system].id);
    json_object_object_add(object, "clients", json_object_new_int((int)self->loads[load].clients));
    add_text(object, "names", names_word(&self->loads[load]));
    json_object_object_add(object, "work_us", json_object_new_int64(self->loads[load].work_us));
    for (unsigned round = 0; round < self->rounds; round++) {
        if (self->outcomes[load][system][round].measured)
            json_object_array_add(rounds, round_json(&self->outcomes[load][system][round]));
    }
    json_object_object_add(object, "rounds", rounds);
    return object;
}

static json_object *system_json(const measure_system *system)
{
    json_object *object = json_object_new_object();
    add_text(object, "id", system->id);
    add_text(object, "name", system->name);
    add_text(object, "keeps", system->keeps);
    return object;
}

static void print_json(const bench *self)
{
    json_object *object = json_object_new_object();
    json_object *systems = json_object_new_array();
    json_object *rows = json_object_new_array();
    for (size_t system = 0; system < self->system_count; system++)
        json_object_array_add(systems, system_json(&self->systems[system]));
    for (size_t load = 0; load < self->load_count; load++) {
        for (size_t system = 0; system < self->system_count; system++)
            json_object_array_add(rows, row_json(self, load, system));
    }
    add_real(object, "seconds", self->seconds);
    add_real(object, "measuring_us", measuring_us(self));
    json_object_object_add(object, "rounds", json_object_new_int((int)self->rounds));
    json_object_object_add(object, "systems", systems);
    json_object_object_add(object, "rows", rows);
    puts(json_object_to_json_string_ext(object,
                                        JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE));
    json_object_put(object);
}

/* --------------------------------------------------------------- arguments */

static void wrong(const char *what)
{
    fprintf(stderr, "rowlock-bench: %s\n", what);
    exit(64);
}

static void take_counts(bench *self, const char *text)
{
    self->count_count = 0;
    for (const char *p = text; *p;) {
        char *end;
        long count = strtol(p, &end, 10);
        if (end == p || (*end && *end != ',') || count < 1 || count > MEASURE_CLIENTS_MAX ||
            self->count_count == COUNTS_MAX)
            wrong("--clients wants up to 8 numbers of at most 1024, such as 1,8,32");
        self->counts[self->count_count++] = (unsigned)count;
        p = *end ? end + 1 : end;
    }
}

/* How many systems there must be. */
static size_t asked_for(const bench *self)
{
    size_t count = 1;
    for (const char *p = self->only; p && *p; p++)
        count += *p == ',';
    return count;
}

static void list_systems(const bench *self)
{
    for (size_t i = 0; i < self->system_count; i++)
        printf("%-24s %-8s %s\n", self->systems[i].id, self->systems[i].keeps,
               self->systems[i].name);
}

static void take_arguments(bench *self, int argc, char **argv)
{
    static const struct option options[] = {
        {"systems", required_argument, NULL, 's'},
        {"clients", required_argument, NULL, 'c'},
        {"seconds", required_argument, NULL, 't'},
        {"rounds", required_argument, NULL, 'r'},
        {"list", no_argument, NULL, 'l'},
        {"distinct", no_argument, NULL, 'd'},
        {0},
    };
    for (int id; (id = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (id == 's')
            self->only = optarg;
        else if (id == 'c')
            take_counts(self, optarg);
        else if (id == 't')
            self->seconds = strtod(optarg, NULL);
        else if (id == 'r')
            self->rounds = (unsigned)strtoul(optarg, NULL, 10);
        else if (id == 'l')
            self->list = true;
        else if (id == 'd')
            self->distinct = true;
        else
            exit(64);
    }
    if (optind < argc || !(self->seconds >= 0.05 && self->seconds <= 60) || self->rounds < 1 ||
        self->rounds > ROUNDS_MAX || self->count_count == 0)
        wrong("--seconds is 0.05 to 60, --rounds 1 to 20, and nothing else is wanted");
}

int main(int argc, char **argv)
{
    static bench self = {.counts = {1, 8, 32, 128}, .count_count = 4, .seconds = 1, .rounds = 5};
    take_arguments(&self, argc, argv);
    snprintf(self.prefix, sizeof self.prefix, "rowlock-bench/%ld", (long)getpid());
    add_systems(&self);
    if (self.system_count < asked_for(&self))
        wrong("a system that is asked for is unknown (--list), or its server is not there "
              "(tools/bench starts them)");
    if (self.list) {
        list_systems(&self);
        return 0;
    }
    add_loads(&self);
    measure_catch_end();
    warm_up(&self);
    measure_all(&self);
    if (measure_stopped()) {
        fputs("rowlock-bench: interrupted\n", stderr);
        return 130;
    }
    print_json(&self);
    return self.failed > 0;
}
