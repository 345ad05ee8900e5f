/*
 * bench/scale.c - what becomes of rowlock's cost with a million names, 10,000 held leases,
 * 100,000 dead ones, 1,000 waiters. Started by bench/scale, which has the server.
 *
 *   rowlock-scale -S SOCKET -p PID [-o FILE] [-n NAMES] [-l LEASES] [-x EXPIRED] [-w WAITERS]
 *                 [-q] [PART...]
 *
 * -q: clients that write no history. PID is the server's, for its memory and processor time. PART:
 * names, renew, sweep, wait (all of them). It makes and drops schemas scale_*, and switches the
 * server's slow log: use a server that is for this alone. Prints a table; FILE gets the same as
 * JSON. Exit status 0: every target is met; 1: one is missed; 2: it could not be measured.
 */
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <mysql.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <json-c/json.h>

#include "rowlock/rowlock_admin.h"

typedef struct settings {
    const char *socket;
    int server_pid;
    const char *file;
    unsigned names;
    unsigned leases;
    unsigned expired;
    unsigned waiters;
    bool no_history;
} settings;

static settings set = {.names = 1000000, .leases = 10000, .expired = 100000, .waiters = 1000};
static json_object *rows;
static bool missed;

/* ------------------------------------------------------------------------- small things */

static void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

static void die(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "scale: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    exit(2);
}

static void *get_memory(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (!memory)
        die("out of memory");
    return memory;
}

static void must(rowlock_status status, const rowlock_error *err)
{
    if (status != ROWLOCK_OK)
        die("%s", err->message);
}

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void pass_ms(int64_t ms)
{
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    while (nanosleep(&span, &span) != 0)
        ;
}

static void progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void progress(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "scale: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* ---------------------------------------------------------------------------- samples */

typedef struct samples {
    size_t count;
    size_t capacity;
    double *us;
} samples;

static void add_sample(samples *s, double us)
{
    if (s->count == s->capacity) {
        s->capacity = s->capacity ? s->capacity * 2 : 1024;
        s->us = realloc(s->us, s->capacity * sizeof *s->us);
        if (!s->us)
            die("out of memory");
    }
    s->us[s->count++] = us;
}

static double quantile(samples *s, double part)
{
    if (s->count == 0)
        return NAN;
    qsort(s->us, s->count, sizeof *s->us, by_size);
    size_t i = (size_t)(part * (double)(s->count - 1) + 0.5);
    return s->us[i];
}

/* Without the slowest twentieth, which are the disk's and the neighbours'. */
static double usual_cost(samples *s)
{
    qsort(s->us, s->count, sizeof *s->us, by_size);
    size_t most = s->count - s->count / 20;
    double sum = 0;
    for (size_t i = 0; i < most; i++)
        sum += s->us[i];
    return most ? sum / (double)most : NAN;
}

static void free_samples(samples *s)
{
    free(s->us);
    *s = (samples){0};
}

/* ----------------------------------------------------------------------------- results */

typedef enum sense { NO_GOAL, AT_MOST, AT_LEAST } sense;

static void report(const char *part, const char *what, double value, const char *unit, sense goal,
                   double target)
{
    bool met = goal == AT_MOST ? value <= target : value >= target;
    char wanted[40] = "";
    if (goal != NO_GOAL) {
        snprintf(wanted, sizeof wanted, "%s %g: %s", goal == AT_MOST ? "at most" : "at least",
                 target, met ? "met" : "MISSED");
        missed = missed || !met;
    }
    printf("%-6s %-78s %10.4g %-9s %s\n", part, what, value, unit, wanted);
    fflush(stdout);
    json_object *row = json_object_new_object();
    json_object_object_add(row, "part", json_object_new_string(part));
    json_object_object_add(row, "what", json_object_new_string(what));
    json_object_object_add(row, "value", json_object_new_double(value));
    json_object_object_add(row, "unit", json_object_new_string(unit));
    if (goal != NO_GOAL) {
        json_object_object_add(row, goal == AT_MOST ? "at_most" : "at_least",
                               json_object_new_double(target));
        json_object_object_add(row, "met", json_object_new_boolean(met));
    }
    json_object_array_add(rows, row);
}

/* --------------------------------------------------------------------------------- SQL */

static MYSQL *sql_connect(void)
{
    MYSQL *mysql = mysql_init(NULL);
    if (!mysql)
        die("out of memory");
    mysql_optionsv(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    if (!mysql_real_connect(mysql, NULL, "root", NULL, NULL, 0, set.socket, 0))
        die("%s", mysql_error(mysql));
    return mysql;
}

/* The first cell of the last row, or NAN. */
static double sql_vrun(MYSQL *mysql, const char *format, va_list args)
    __attribute__((format(printf, 2, 0)));

static double sql_vrun(MYSQL *mysql, const char *format, va_list args)
{
    char text[4000];
    double value = NAN;
    if (vsnprintf(text, sizeof text, format, args) >= (int)sizeof text)
        die("a statement is too long");
    if (mysql_query(mysql, text) != 0)
        die("%s\nin: %s", mysql_error(mysql), text);
    MYSQL_RES *result = mysql_store_result(mysql);
    for (MYSQL_ROW row; result && (row = mysql_fetch_row(result));)
        if (row[0])
            value = strtod(row[mysql_num_fields(result) - 1], NULL);
    mysql_free_result(result);
    return value;
}

static double sql(MYSQL *mysql, const char *format, ...) __attribute__((format(printf, 2, 3)));

static double sql(MYSQL *mysql, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    double value = sql_vrun(mysql, format, args);
    va_end(args);
    return value;
}

static double server_status(MYSQL *mysql, const char *name)
{
    return sql(mysql, "SHOW GLOBAL STATUS LIKE '%s'", name);
}

/* Numbers 0 .. 999,999 as `n.i`; no server's own way to make them. */
#define DIGIT                                                                                      \
    "(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4"   \
    " UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8"                 \
    " UNION ALL SELECT 9)"
#define NUMBERS                                                                                    \
    "(SELECT a.d + 10 * b.d + 100 * c.d + 1000 * d.d + 10000 * e.d + 100000 * f.d AS i "           \
    "FROM " DIGIT " f," DIGIT " e," DIGIT " d," DIGIT " c," DIGIT " b," DIGIT " a) n"

static void make_schema(MYSQL *mysql, const char *schema)
{
    rowlock_error err = {0};
    sql(mysql, "DROP DATABASE IF EXISTS `%s`", schema);
    must(rowlock_migrate(
             &(rowlock_client_options){.socket = set.socket, .user = "root", .schema = schema},
             NULL, NULL, &err),
         &err);
    sql(mysql, "USE `%s`", schema);
}

static rowlock_client *open_client(const char *schema)
{
    rowlock_error err = {0};
    rowlock_client *client = NULL;
    const rowlock_client_options options = {
        .socket = set.socket, .user = "root", .schema = schema, .no_history = set.no_history};
    must(rowlock_client_open(&options, &client, &err), &err);
    return client;
}

/* Until what was written is on disk, so that it is not measured later. */
static void settle_server(MYSQL *mysql)
{
    double percent = sql(mysql, "SELECT @@global.innodb_max_dirty_pages_pct");
    sql(mysql, "SET GLOBAL innodb_max_dirty_pages_pct = 0");
    for (int i = 0; i < 600 && server_status(mysql, "Innodb_buffer_pool_pages_dirty") > 50; i++)
        pass_ms(100);
    sql(mysql, "SET GLOBAL innodb_max_dirty_pages_pct = %g", percent);
}

/* Everything that runs from now on, in new connections too. */
static void slow_log(MYSQL *mysql, bool on)
{
    if (!on) {
        sql(mysql, "SET GLOBAL long_query_time = 10");
        sql(mysql, "SET GLOBAL slow_query_log = 0");
        return;
    }
    sql(mysql, "SET GLOBAL log_output = 'TABLE'");
    sql(mysql, "SET GLOBAL log_slow_filter = ''");
    sql(mysql, "TRUNCATE mysql.slow_log");
    sql(mysql, "SET GLOBAL long_query_time = 0");
    sql(mysql, "SET GLOBAL slow_query_log = 1");
}

/* ---------------------------------------------------------------------------- processes */

static double resident_kib(int pid)
{
    char path[64];
    long pages = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", pid);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*s %ld", &pages) != 1)
        die("cannot read %s", path);
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1024;
}

/* Of every thread that it has now. */
static double processor_ms(int pid)
{
    char path[400];
    double sum = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *tasks = opendir(path);
    if (!tasks)
        die("cannot read %s", path);
    for (struct dirent *task; (task = readdir(tasks));) {
        unsigned long long ns = 0;
        snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", pid, task->d_name);
        FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        if (file && fscanf(file, "%llu", &ns) == 1)
            sum += (double)ns / 1e6;
        if (file)
            fclose(file);
    }
    closedir(tasks);
    return sum;
}

/* ------------------------------------------------------------------ 1. a million names */

#define SMALL       1000
#define ROUNDS      16
#define ROUND_NAMES 240

/* Name i is of the way with i % step == rest. */
typedef struct kind_of_lock {
    const char *name;
    rowlock_mode mode;
    bool unfenced;
    unsigned step;
    unsigned rest;
} kind_of_lock;

static const kind_of_lock ways[] = {{"lease", ROWLOCK_OPTIMISTIC, false, 2, 0},
                                    {"row lock, fenced", ROWLOCK_PESSIMISTIC, false, 4, 1},
                                    {"row lock, unfenced", ROWLOCK_PESSIMISTIC, true, 4, 3}};
enum { WAYS = sizeof ways / sizeof ways[0] };

/* A name that is used the first time, for long; then by another client; then again by that. */
typedef enum state { COLD, NEW, KNOWN, STATES } state;

static const char *const state_words[STATES] = {"on disk, new to the client",
                                                "in the server's memory, new to the client",
                                                "known to the client"};

typedef struct realm {
    const char *schema;
    unsigned count;
    rowlock_client *client;
    samples cost[WAYS][STATES]; /* of each round */
} realm;

/* Free ones as use has left them: half of them leases, half row locks. */
static void fill(MYSQL *mysql, unsigned count)
{
    const unsigned step = 50000;
    for (unsigned from = 0; from < count; from += step)
        sql(mysql,
            "INSERT INTO resource (resource_name, kind, status, version, owner, owner_label,"
            " acquired_at, lease_expires_at, update_time)"
            " SELECT CONCAT('shop-', i %% 97, '/job-', i),"
            " IF(i %% 2, 'pessimistic', 'optimistic'), 'free', 1 + i %% 1009,"
            " CONCAT(INSERT(INSERT(MD5(i), 9, 0, '-'), 14, 0, '-4'), '.', i %% 5000),"
            " CONCAT('batch@app', i %% 40, ' ', 1000 + i %% 30000, ' nightly-close'),"
            " UTC_TIMESTAMP(6) - INTERVAL i SECOND,"
            " IF(i %% 2, NULL, UTC_TIMESTAMP(6) - INTERVAL i - 30 SECOND),"
            " UTC_TIMESTAMP(6) - INTERVAL i SECOND"
            " FROM " NUMBERS " WHERE i >= %u AND i < %u ORDER BY i",
            from, from + step < count ? from + step : count);
    sql(mysql, "INSERT INTO resource_lock (id, resource_name, fenced, update_time)"
               " SELECT id, resource_name, SUBSTRING_INDEX(resource_name, '-', -1) %% 4 = 1,"
               " update_time FROM resource"
               " WHERE kind = 'pessimistic' ORDER BY id");
    sql(mysql, "INSERT INTO lease_renewal (id) SELECT id FROM resource"
               " WHERE kind = 'optimistic' ORDER BY id");
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    return b ? common_divisor(b, a % b) : a;
}

/* The i-th of a shuffle of the names of a way: none comes twice, all are far apart. */
static unsigned shuffled(const realm *r, const kind_of_lock *way, uint64_t i)
{
    uint64_t count = r->count / way->step;
    uint64_t stride = (uint64_t)((double)count * 0.6180339887) | 1;
    while (common_divisor(stride, count) != 1)
        stride += 2;
    return (unsigned)(i * stride % count * way->step + way->rest);
}

static double cycle(rowlock_client *client, const kind_of_lock *way, unsigned i)
{
    char name[64];
    rowlock_error err = {0};
    rowlock_hold *hold = NULL;
    snprintf(name, sizeof name, "shop-%u/job-%u", i % 97, i);
    const rowlock_acquire_options options = {.mode = way->mode, .unfenced = way->unfenced};
    int64_t start = now_us();
    must(rowlock_acquire(client, name, &options, &hold, &err), &err);
    must(rowlock_release(hold, &err), &err);
    return (double)(now_us() - start);
}

/* In turn, so that whatever else the machine does concerns all of them. */
static void cycle_names(realm realms[2], size_t w, state known, unsigned round)
{
    samples costs[2] = {{0}, {0}};
    for (unsigned i = 0; i < 2 * ROUND_NAMES; i++) {
        realm *r = &realms[i % 2];
        uint64_t number = (uint64_t)round * ROUND_NAMES + i / 2;
        add_sample(&costs[i % 2], cycle(r->client, &ways[w], shuffled(r, &ways[w], number)));
    }
    for (int i = 0; i < 2; i++) {
        add_sample(&realms[i].cost[w][known], usual_cost(&costs[i]));
        free_samples(&costs[i]);
    }
}

/* Its connections and statements are there; the name it knows then is none of those measured. */
static void open_warm(realm *r, const kind_of_lock *way)
{
    const unsigned after_the_last = ROUNDS * ROUND_NAMES;
    r->client = open_client(r->schema);
    for (int i = 0; i < 3; i++)
        (void)cycle(r->client, way, shuffled(r, way, after_the_last));
}

static void measure_round(realm realms[2], size_t w, unsigned round)
{
    for (state known = COLD; known < STATES; known++) {
        for (int i = 0; i < 2 && known != KNOWN; i++)
            open_warm(&realms[i], &ways[w]);
        cycle_names(realms, w, known, round);
        for (int i = 0; i < 2 && known != NEW; i++)
            rowlock_client_close(realms[i].client);
    }
}

static void report_names(realm realms[2], size_t w, state known)
{
    char what[120];
    samples ratios = {0};
    for (unsigned i = 0; i < ROUNDS; i++)
        add_sample(&ratios, realms[1].cost[w][known].us[i] / realms[0].cost[w][known].us[i]);
    for (int i = 0; i < 2; i++) {
        snprintf(what, sizeof what, "%s, %s: a cycle, %u names", ways[w].name, state_words[known],
                 realms[i].count);
        report("names", what, quantile(&realms[i].cost[w][known], 0.5), "us", NO_GOAL, 0);
    }
    snprintf(what, sizeof what, "%s, %s: many / few", ways[w].name, state_words[known]);
    report("names", what, quantile(&ratios, 0.5), "times", AT_MOST, 1.2);
    free_samples(&ratios);
}

static void measure_names(MYSQL *mysql)
{
    realm realms[2] = {{.schema = "scale_small", .count = SMALL},
                       {.schema = "scale_large", .count = set.names}};
    for (int i = 0; i < 2; i++) {
        progress("names: making %u", realms[i].count);
        make_schema(mysql, realms[i].schema);
        fill(mysql, realms[i].count);
    }
    settle_server(mysql);
    double reads = server_status(mysql, "Innodb_buffer_pool_reads");
    for (unsigned round = 0; round < ROUNDS; round++) {
        progress("names: round %u of %u", round + 1, ROUNDS);
        for (size_t w = 0; w < WAYS; w++)
            measure_round(realms, w, round);
    }
    reads = server_status(mysql, "Innodb_buffer_pool_reads") - reads;
    for (state known = KNOWN + 1; known-- > COLD;)
        for (size_t w = 0; w < WAYS; w++)
            report_names(realms, w, known);
    report("names", "pages read from disk for a name that is used for the first time",
           reads / ((double)ROUNDS * ROUND_NAMES * WAYS), "pages", NO_GOAL, 0);
    report("names", "the rows of the many, with their indexes",
           sql(mysql, "SELECT SUM(data_length + index_length) / 1048576"
                      " FROM information_schema.tables WHERE table_schema = 'scale_large'"),
           "MiB", NO_GOAL, 0);
    for (int i = 0; i < 2; i++)
        sql(mysql, "DROP DATABASE %s", realms[i].schema);
}

/* --------------------------------------------------------------- 2. many leases renewed */

#define RENEW_TTL_MS 30000

static rowlock_hold **take_leases(rowlock_client *client)
{
    rowlock_hold **holds = get_memory(set.leases, sizeof(rowlock_hold *));
    rowlock_error err = {0};
    const rowlock_acquire_options options = {.ttl_ms = RENEW_TTL_MS};
    for (unsigned i = 0; i < set.leases; i++) {
        char name[32];
        snprintf(name, sizeof name, "lease-%u", i);
        must(rowlock_acquire(client, name, &options, &holds[i], &err), &err);
    }
    must(rowlock_client_flush(client, 60000, &err), &err);
    return holds;
}

#define RENEWS                                                                                     \
    " FROM mysql.slow_log WHERE db = 'scale_renew' AND sql_text LIKE 'UPDATE JSON_TABLE%%'"
#define LOOKS                                                                                      \
    " FROM mysql.slow_log WHERE db = 'scale_renew' AND sql_text LIKE 'SELECT l.id, l.version%%'"

static void report_renewals(MYSQL *mysql, double processor)
{
    double rounds = sql(mysql, "SELECT COUNT(*)" RENEWS);
    if (rounds < 1)
        die("no renewal was seen");
    report("renew", "rounds in one TTL of 30 s", rounds, "", AT_MOST, 4);
    report("renew", "UPDATE of all leases, longest",
           sql(mysql, "SELECT MAX(TIME_TO_SEC(query_time)) * 1000" RENEWS), "ms", NO_GOAL, 0);
    report("renew", "look at all leases, longest",
           sql(mysql, "SELECT MAX(TIME_TO_SEC(query_time)) * 1000" LOOKS), "ms", NO_GOAL, 0);
    report("renew", "one round: time of its statements in the server",
           sql(mysql, "SELECT SUM(TIME_TO_SEC(query_time)) * 1000 FROM mysql.slow_log"
                      " WHERE db = 'scale_renew'") /
               rounds,
           "ms", AT_MOST, 200);
    report("renew", "one round: processor time of the server, all threads", processor / rounds,
           "ms", AT_MOST, 200);
    report("renew", "one round: statements",
           sql(mysql, "SELECT COUNT(*) FROM mysql.slow_log WHERE db = 'scale_renew'") / rounds, "",
           AT_MOST, 2);
}

static void watch_renewals(MYSQL *mysql)
{
    sql(mysql, "TRUNCATE mysql.slow_log");
    progress("renew: one TTL of %d s", RENEW_TTL_MS / 1000);
    double executed = server_status(mysql, "Com_stmt_execute");
    double processor = processor_ms(set.server_pid);
    pass_ms(RENEW_TTL_MS);
    processor = processor_ms(set.server_pid) - processor;
    executed = server_status(mysql, "Com_stmt_execute") - executed;
    slow_log(mysql, false);
    report_renewals(mysql, processor);
    report("renew", "statements in one TTL, as the server counts them", executed, "", AT_MOST, 8);
}

static void measure_renewal(MYSQL *mysql)
{
    make_schema(mysql, "scale_renew");
    /* Before the client: a connection keeps the limit that it began with. */
    slow_log(mysql, true);
    rowlock_client *client = open_client("scale_renew");
    progress("renew: taking %u leases", set.leases);
    rowlock_hold **holds = take_leases(client);
    watch_renewals(mysql);
    report("renew", "connections of the process",
           sql(mysql, "SELECT COUNT(*) FROM information_schema.processlist"
                      " WHERE db = 'scale_renew' AND id <> CONNECTION_ID()"),
           "", AT_MOST, 8);
    unsigned lost = 0;
    for (unsigned i = 0; i < set.leases; i++)
        lost += rowlock_hold_check(holds[i]) != ROWLOCK_OK;
    report("renew", "leases lost", lost, "", AT_MOST, 0);
    rowlock_client_close(client);
    free(holds);
    sql(mysql, "DROP DATABASE scale_renew");
}

/* --------------------------------------------------------------------- 3. a large sweep */

#define PROBES     4
#define PROBE_STEP 200

/* What a probe asks for, and how it knows that the sweep has passed there. */
typedef enum wanted { A_DEAD_LEASE, AN_UNUSED_NAME, THE_FLOOR } wanted;

/*
 * Somebody who wants a row for a moment, there where the sweep is: it tries a row until that
 * has been swept, then one further on.
 */
typedef struct probe {
    pthread_t thread;
    wanted wish;
    unsigned first;
    atomic_bool *stop;
    samples waits;
} probe;

static bool probe_once(MYSQL *mysql, wanted wish, unsigned id)
{
    if (wish == THE_FLOOR) {
        sql(mysql, "SELECT version FROM scale_sweep.version_floor LOCK IN SHARE MODE");
        return false;
    }
    double status =
        sql(mysql, "SELECT status + 0 FROM scale_sweep.resource WHERE id = %u FOR UPDATE", id);
    return wish == A_DEAD_LEASE ? status == 1 : isnan(status);
}

static void *run_probe(void *data)
{
    probe *p = data;
    MYSQL *mysql = sql_connect();
    unsigned id = p->first;
    int64_t arrived = now_us();
    sql(mysql, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    while (!atomic_load(p->stop)) {
        int64_t start = now_us();
        bool swept = probe_once(mysql, p->wish, id);
        int64_t end = now_us();
        add_sample(&p->waits, (double)(end - start) / 1000);
        if (swept || end - arrived > 100000) {
            id = (id + PROBE_STEP) % set.expired + 1;
            arrived = end;
        } else {
            pass_ms(1);
        }
    }
    mysql_close(mysql);
    mysql_thread_end();
    return NULL;
}

typedef struct probing {
    atomic_bool stop;
    probe probes[PROBES];
} probing;

static void begin_probing(probing *all, wanted wish)
{
    atomic_store(&all->stop, false);
    for (unsigned i = 0; i < PROBES; i++) {
        all->probes[i] = (probe){.first = 1 + i * PROBE_STEP / PROBES,
                                 .stop = &all->stop,
                                 /* new names wait for the purge's lock on the floor, too */
                                 .wish = wish == AN_UNUSED_NAME && i % 2 ? THE_FLOOR : wish};
        if (pthread_create(&all->probes[i].thread, NULL, run_probe, &all->probes[i]) != 0)
            die("cannot start a thread");
    }
}

/* The longest wait of any of them, in milliseconds. */
static double end_probing(probing *all)
{
    double longest = 0;
    atomic_store(&all->stop, true);
    for (unsigned i = 0; i < PROBES; i++) {
        pthread_join(all->probes[i].thread, NULL);
        double most = quantile(&all->probes[i].waits, 1);
        longest = most > longest ? most : longest;
        free_samples(&all->probes[i].waits);
    }
    return longest;
}

static void fill_expired(MYSQL *mysql)
{
    make_schema(mysql, "scale_sweep");
    for (unsigned from = 0; from < set.expired; from += 50000)
        sql(mysql,
            "INSERT INTO resource (resource_name, kind, status, version, owner, owner_label,"
            " acquired_at, lease_expires_at, update_time)"
            " SELECT CONCAT('shop-', i %% 97, '/job-', i), 'optimistic', 'held', 1 + i %% 1009,"
            " CONCAT(INSERT(INSERT(MD5(i), 9, 0, '-'), 14, 0, '-4'), '.', i %% 5000),"
            " CONCAT('batch@app', i %% 40, ' ', 1000 + i %% 30000, ' nightly-close'),"
            " UTC_TIMESTAMP(6) - INTERVAL 90 SECOND, UTC_TIMESTAMP(6) - INTERVAL 60 SECOND,"
            " UTC_TIMESTAMP(6) FROM " NUMBERS " WHERE i >= %u AND i < %u ORDER BY i",
            from, from + 50000 < set.expired ? from + 50000 : set.expired);
    sql(mysql, "INSERT INTO lease_renewal (id, version) SELECT id, version FROM resource"
               " ORDER BY id");
    settle_server(mysql);
}

/* What one sweep did, with the probes beside it. */
typedef struct swept {
    rowlock_sweep_result result;
    double seconds;
    double longest_wait_ms;
} swept;

static swept sweep_among(MYSQL *mysql, const rowlock_sweep_options *options, wanted wish)
{
    swept s = {0};
    probing all;
    rowlock_error err = {0};
    slow_log(mysql, true);
    rowlock_client *client = open_client("scale_sweep");
    begin_probing(&all, wish);
    int64_t start = now_us();
    must(rowlock_sweep(client, options, &s.result, &err), &err);
    s.seconds = (double)(now_us() - start) / 1e6;
    s.longest_wait_ms = end_probing(&all);
    slow_log(mysql, false);
    rowlock_client_close(client);
    return s;
}

/* The batches in the slow log: from the start of the statement that locks until COMMIT is done. */
static void report_batches(MYSQL *mysql, const char *what, const char *locking, double changed)
{
    char text[120];
    sql(mysql,
        "CREATE TEMPORARY TABLE batch"
        " WITH l AS (SELECT start_time, ROW_NUMBER() OVER (ORDER BY start_time) AS n"
        "              FROM mysql.slow_log WHERE db = 'scale_sweep' AND sql_text LIKE '%s'),"
        "      c AS (SELECT start_time, query_time, ROW_NUMBER() OVER (ORDER BY start_time) AS n"
        "              FROM mysql.slow_log WHERE db = 'scale_sweep' AND sql_text = 'COMMIT')"
        " SELECT TIMESTAMPDIFF(MICROSECOND, l.start_time, c.start_time) / 1000"
        "        + TIME_TO_SEC(c.query_time) * 1000 AS ms FROM l JOIN c USING (n)",
        locking);
    double batches = sql(mysql, "SELECT COUNT(*) FROM batch");
    snprintf(text, sizeof text, "%s: batches", what);
    report("sweep", text, batches, "", NO_GOAL, 0);
    snprintf(text, sizeof text, "%s: rows in a batch, mean", what);
    report("sweep", text, changed / batches, "rows", NO_GOAL, 0);
    snprintf(text, sizeof text, "%s: row locks held by a batch, median", what);
    report("sweep", text, sql(mysql, "SELECT DISTINCT MEDIAN(ms) OVER () FROM batch"), "ms",
           NO_GOAL, 0);
    snprintf(text, sizeof text, "%s: row locks held by a batch, 99 of 100 less than", what);
    report("sweep", text,
           sql(mysql, "SELECT DISTINCT PERCENTILE_CONT(0.99) WITHIN GROUP (ORDER BY ms) OVER ()"
                      " FROM batch"),
           "ms", NO_GOAL, 0);
    snprintf(text, sizeof text, "%s: row locks held by a batch, longest", what);
    report("sweep", text, sql(mysql, "SELECT MAX(ms) FROM batch"), "ms", AT_MOST, 50);
    sql(mysql, "DROP TEMPORARY TABLE batch");
}

static void report_sweep(const char *what, double changed, const swept *s)
{
    char text[120];
    snprintf(text, sizeof text, "%s: rows", what);
    report("sweep", text, changed, "rows", NO_GOAL, 0);
    snprintf(text, sizeof text, "%s: rows per second", what);
    report("sweep", text, changed / s->seconds, "per s", NO_GOAL, 0);
    snprintf(text, sizeof text, "%s: longest wait of others for such a row", what);
    report("sweep", text, s->longest_wait_ms, "ms", AT_MOST, 50);
}

static void sweep_expired(MYSQL *mysql)
{
    const rowlock_sweep_options options = {.history_ms = -1, .unused_ms = -1};
    progress("sweep: %u dead leases", set.expired);
    swept s = sweep_among(mysql, &options, A_DEAD_LEASE);
    report_sweep("dead leases", (double)s.result.expired, &s);
    report_batches(mysql, "dead leases", "SELECT r.id, r.version%SKIP LOCKED",
                   (double)s.result.expired);
    /* Those that a probe had locked just then. */
    rowlock_client *client = open_client("scale_sweep");
    rowlock_error err = {0};
    must(rowlock_sweep(client, &options, NULL, &err), &err);
    rowlock_client_close(client);
    double wrong = sql(mysql, "SELECT COUNT(*) FROM resource r JOIN lease_renewal l USING (id)"
                              " LEFT JOIN lock_event e ON e.resource_name = r.resource_name"
                              " AND e.event = 'expired' AND e.version = r.version - 1"
                              " WHERE r.status <> 'free' OR l.version <> r.version"
                              " OR e.id IS NULL");
    if (!set.no_history)
        report("sweep", "dead leases: not freed, or not in the history", wrong, "rows", AT_MOST, 0);
}

static void sweep_history(MYSQL *mysql)
{
    progress("sweep: the history");
    sql(mysql, "UPDATE lock_event SET happened_at = UTC_TIMESTAMP(6) - INTERVAL 40 DAY");
    settle_server(mysql);
    const rowlock_sweep_options options = {.unused_ms = -1};
    swept s = sweep_among(mysql, &options, A_DEAD_LEASE);
    report("sweep", "history: rows", (double)s.result.events, "rows", NO_GOAL, 0);
    report("sweep", "history: rows per second", (double)s.result.events / s.seconds, "per s",
           NO_GOAL, 0);
    report("sweep", "history: row locks held by a batch, longest",
           sql(mysql, "SELECT MAX(TIME_TO_SEC(query_time)) * 1000 FROM mysql.slow_log"
                      " WHERE db = 'scale_sweep' AND sql_text LIKE 'DELETE FROM lock_event%%'"),
           "ms", AT_MOST, 50);
}

static void sweep_unused(MYSQL *mysql)
{
    progress("sweep: unused names");
    sql(mysql, "UPDATE resource SET update_time = UTC_TIMESTAMP(6) - INTERVAL 100 DAY");
    settle_server(mysql);
    const rowlock_sweep_options options = {.history_ms = -1};
    swept s = sweep_among(mysql, &options, AN_UNUSED_NAME);
    report_sweep("unused names", (double)s.result.purged, &s);
    report_batches(mysql, "unused names", "SELECT version FROM version_floor%",
                   (double)s.result.purged);
}

static void measure_sweep(MYSQL *mysql)
{
    probing all;
    progress("sweep: making %u dead leases", set.expired);
    fill_expired(mysql);
    begin_probing(&all, A_DEAD_LEASE);
    pass_ms(3000);
    report("sweep", "nothing is swept: longest wait of others for a row", end_probing(&all), "ms",
           NO_GOAL, 0);
    sweep_expired(mysql);
    if (!set.no_history)
        sweep_history(mysql);
    sweep_unused(mysql);
    sql(mysql, "DROP DATABASE scale_sweep");
}

/* -------------------------------------------------------------------- 4. many waiters */

#define FEW_WAITERS   128
#define CROWD_ROUNDS  3
#define CROWD_MS      4000
#define WAIT_LIMIT_MS 300000
#define HOT           "hot"

/* What the clients of a crowd share. */
typedef struct crowd {
    const kind_of_lock *way;
    unsigned count;
    rowlock_client **clients;
    MYSQL **raw;
    atomic_uint turns;
    atomic_bool counting;
    atomic_bool stop;
} crowd;

typedef struct member {
    crowd *crowd;
    rowlock_client *client;
    MYSQL *raw; /* instead: FOR UPDATE and COMMIT, with nothing around them */
    pthread_t thread;
    unsigned turn;  /* in a queue: the how manieth it was to have the lock */
    unsigned turns; /* in a race */
} member;

static rowlock_hold *take_hot(const crowd *c, rowlock_client *client)
{
    rowlock_error err = {0};
    rowlock_hold *hold = NULL;
    const rowlock_acquire_options options = {
        .mode = c->way->mode, .unfenced = c->way->unfenced, .wait_ms = WAIT_LIMIT_MS};
    must(rowlock_acquire(client, HOT, &options, &hold, &err), &err);
    return hold;
}

static void give_back(rowlock_hold *hold)
{
    rowlock_error err = {0};
    must(rowlock_release(hold, &err), &err);
}

static void begin_member(member *m, void *(*run)(void *))
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    if (pthread_create(&m->thread, &attributes, run, m) != 0)
        die("cannot start a thread");
    pthread_attr_destroy(&attributes);
}

static void *wait_for_one_turn(void *data)
{
    member *m = data;
    rowlock_hold *hold = take_hot(m->crowd, m->client);
    m->turn = atomic_fetch_add(&m->crowd->turns, 1);
    give_back(hold);
    mysql_thread_end();
    return NULL;
}

static double waiting_in_server(MYSQL *mysql, const crowd *c)
{
    if (c->way->mode == ROWLOCK_PESSIMISTIC)
        return server_status(mysql, "Innodb_row_lock_current_waits");
    return sql(mysql, "SELECT COUNT(*) FROM information_schema.processlist"
                      " WHERE state = 'User lock'");
}

static bool await_waiting(MYSQL *mysql, const crowd *c, unsigned count)
{
    int64_t end = now_us() + 60000000;
    while (waiting_in_server(mysql, c) < count) {
        if (now_us() > end)
            return false;
        pass_ms(1);
    }
    return true;
}

/* All at once, or each when the one before is waiting. False: they do not wait in the server. */
static bool line_up(MYSQL *mysql, crowd *c, member *members, bool in_order)
{
    for (unsigned i = 0; i < c->count; i++) {
        members[i] = (member){.crowd = c, .client = c->clients[i + 1]};
        begin_member(&members[i], wait_for_one_turn);
        if (in_order && !await_waiting(mysql, c, i + 1))
            die("waiter %u is not seen in the server", i + 1);
    }
    return await_waiting(mysql, c, c->count);
}

typedef struct queue_seen {
    bool queued;
    unsigned out_of_order;
    double per_second;
    double connections;
    double server_kib;
    double client_kib;
} queue_seen;

static queue_seen run_queue(MYSQL *mysql, crowd *c, bool in_order)
{
    queue_seen seen = {0};
    member *members = get_memory(c->count, sizeof *members);
    atomic_store(&c->turns, 0);
    rowlock_hold *hold = take_hot(c, c->clients[0]);
    seen.queued = line_up(mysql, c, members, in_order);
    seen.connections = sql(mysql, "SELECT COUNT(*) FROM information_schema.processlist"
                                  " WHERE db = 'scale_wait' AND id <> CONNECTION_ID()");
    seen.server_kib = resident_kib(set.server_pid);
    seen.client_kib = resident_kib(getpid());
    int64_t start = now_us();
    give_back(hold);
    for (unsigned i = 0; i < c->count; i++)
        pthread_join(members[i].thread, NULL);
    seen.per_second = c->count / ((double)(now_us() - start) / 1e6);
    for (unsigned i = 0; i < c->count; i++)
        seen.out_of_order += members[i].turn != i;
    free(members);
    return seen;
}

static void raw_turn(member *m)
{
    sql(m->raw, "SELECT id FROM scale_wait.raw WHERE id = 1 FOR UPDATE");
    m->turns += atomic_load(&m->crowd->counting);
    sql(m->raw, "COMMIT");
}

static void hot_turn(member *m)
{
    rowlock_hold *hold = take_hot(m->crowd, m->client);
    m->turns += atomic_load(&m->crowd->counting);
    give_back(hold);
}

static void *run_race(void *data)
{
    member *m = data;
    while (!atomic_load(&m->crowd->stop))
        m->raw ? raw_turn(m) : hot_turn(m);
    mysql_thread_end();
    return NULL;
}

/* Turns per second of so many; in *spread the most of one over the least of one. */
static double race(crowd *c, unsigned count, double *spread)
{
    member *members = get_memory(count, sizeof *members);
    unsigned sum = 0;
    unsigned most = 0;
    unsigned least = UINT_MAX;
    atomic_store(&c->stop, false);
    for (unsigned i = 0; i < count; i++) {
        members[i] = (member){.crowd = c,
                              .client = c->clients ? c->clients[i] : NULL,
                              .raw = c->raw ? c->raw[i] : NULL};
        begin_member(&members[i], run_race);
    }
    pass_ms(CROWD_MS / 2);
    atomic_store(&c->counting, true);
    pass_ms(CROWD_MS);
    atomic_store(&c->counting, false);
    atomic_store(&c->stop, true);
    for (unsigned i = 0; i < count; i++) {
        pthread_join(members[i].thread, NULL);
        sum += members[i].turns;
        most = members[i].turns > most ? members[i].turns : most;
        least = members[i].turns < least ? members[i].turns : least;
    }
    free(members);
    *spread = (double)most / least;
    return sum / (CROWD_MS / 1000.0);
}

static void open_crowd(crowd *c)
{
    c->clients = get_memory(c->count + 1, sizeof(rowlock_client *));
    for (unsigned i = 0; i <= c->count; i++)
        c->clients[i] = open_client("scale_wait");
}

static void close_crowd(crowd *c)
{
    for (unsigned i = 0; i <= c->count; i++)
        rowlock_client_close(c->clients[i]);
    free(c->clients);
}

static void tell(const crowd *c, const char *what, double value, const char *unit, sense goal,
                 double target)
{
    char text[120];
    snprintf(text, sizeof text, "%s, %u waiters: %s", c->way->name, c->count, what);
    report("wait", text, value, unit, goal, target);
}

/*
 * After the first queue every connection has what it needs. From then on nothing may be left
 * behind.
 */
static bool measure_queue(MYSQL *mysql, crowd *c, double server_kib, double client_kib)
{
    progress("wait: %s: %u in a queue", c->way->name, c->count);
    if (!run_queue(mysql, c, false).queued) {
        progress("wait: %s: they do not wait in the server; left out", c->way->name);
        return false;
    }
    progress("wait: %s: %u in a queue, one after the other", c->way->name, c->count);
    queue_seen before = run_queue(mysql, c, true);
    queue_seen seen = run_queue(mysql, c, true);
    tell(c, "connections of each, on the average", seen.connections / c->count, "", NO_GOAL, 0);
    tell(c, "memory of the server for each", (seen.server_kib - server_kib) / c->count, "KiB",
         NO_GOAL, 0);
    tell(c, "memory of the process for each (a client, two threads)",
         (seen.client_kib - client_kib) / c->count, "KiB", NO_GOAL, 0);
    tell(c, "memory of the server, third queue / second", seen.server_kib / before.server_kib,
         "times", AT_MOST, 1.1);
    tell(c, "memory of the process, third queue / second", seen.client_kib / before.client_kib,
         "times", AT_MOST, 1.1);
    tell(c, "got it out of their order, two queues", before.out_of_order + seen.out_of_order, "",
         AT_MOST, 0);
    tell(c, "hand-overs of a queue that drains", seen.per_second, "per s", NO_GOAL, 0);
    return true;
}

static void measure_race(crowd *c)
{
    samples few = {0};
    samples many = {0};
    double spread = 0;
    double ignored = 0;
    for (int round = 0; round < CROWD_ROUNDS; round++) {
        progress("wait: %s: race %d of %d", c->way->name, round + 1, CROWD_ROUNDS);
        add_sample(&few, race(c, FEW_WAITERS < c->count ? FEW_WAITERS : c->count, &spread));
        add_sample(&many, race(c, c->count, &ignored));
    }
    double ratio = quantile(&many, 0.5) / quantile(&few, 0.5);
    sense wanted_of = c->raw ? NO_GOAL : AT_LEAST;
    tell(c, "hand-overs per second with 128 of them", quantile(&few, 0.5), "per s", NO_GOAL, 0);
    tell(c, "hand-overs per second with all", quantile(&many, 0.5), "per s", NO_GOAL, 0);
    tell(c, "hand-overs with all / with 128", ratio, "times", wanted_of, 0.7);
    tell(c, "most turns / least turns with 128 of them", spread, "times", NO_GOAL, 0);
    free_samples(&few);
    free_samples(&many);
}

/* What the server itself makes of such a queue. */
static void measure_raw(MYSQL *mysql)
{
    static const kind_of_lock raw = {.name = "raw FOR UPDATE, COMMIT"};
    crowd c = {.way = &raw, .count = set.waiters, .raw = get_memory(set.waiters, sizeof(MYSQL *))};
    sql(mysql, "CREATE TABLE raw (id INT PRIMARY KEY) ENGINE = InnoDB");
    sql(mysql, "INSERT INTO raw VALUES (1)");
    for (unsigned i = 0; i < c.count; i++) {
        c.raw[i] = sql_connect();
        sql(c.raw[i], "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
        sql(c.raw[i], "SET autocommit = 0, innodb_lock_wait_timeout = 300");
    }
    measure_race(&c);
    for (unsigned i = 0; i < c.count; i++)
        mysql_close(c.raw[i]);
    free(c.raw);
}

static void measure_waiters(MYSQL *mysql)
{
    make_schema(mysql, "scale_wait");
    /* Before any crowd; the one with the fewest connections comes first. What one leaves behind
     * counts as the next one's, too. */
    double server_kib = resident_kib(set.server_pid);
    double client_kib = resident_kib(getpid());
    for (size_t w = WAYS; w-- > 0;) {
        sql(mysql, "DELETE FROM resource");
        sql(mysql, "DELETE FROM resource_lock");
        sql(mysql, "DELETE FROM lease_renewal");
        crowd c = {.way = &ways[w], .count = set.waiters};
        open_crowd(&c);
        if (measure_queue(mysql, &c, server_kib, client_kib))
            measure_race(&c);
        close_crowd(&c);
    }
    measure_raw(mysql);
    sql(mysql, "DROP DATABASE scale_wait");
}

/* -------------------------------------------------------------------------------- main */

static const struct {
    const char *name;
    void (*measure)(MYSQL *mysql);
} parts[] = {{"names", measure_names},
             {"renew", measure_renewal},
             {"sweep", measure_sweep},
             {"wait", measure_waiters}};
enum { PARTS = sizeof parts / sizeof parts[0] };

static unsigned number(const char *text, unsigned most)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || value < 1 || value > most)
        die("%s: a number from 1 to %u", text, most);
    return (unsigned)value;
}

static void read_options(int argc, char **argv)
{
    for (int option; (option = getopt(argc, argv, "S:p:o:n:l:x:w:q")) != -1;) {
        switch (option) {
        case 'S':
            set.socket = optarg;
            break;
        case 'p':
            set.server_pid = (int)number(optarg, INT_MAX);
            break;
        case 'o':
            set.file = optarg;
            break;
        case 'n':
            set.names = number(optarg, 1000000);
            break;
        case 'l':
            set.leases = number(optarg, 1000000);
            break;
        case 'x':
            set.expired = number(optarg, 1000000);
            break;
        case 'w':
            set.waiters = number(optarg, 10000);
            break;
        case 'q':
            set.no_history = true;
            break;
        default:
            exit(2);
        }
    }
    if (!set.socket || !set.server_pid)
        die("-S SOCKET and -p PID are needed");
}

static bool is_part(const char *word)
{
    for (size_t i = 0; i < PARTS; i++)
        if (strcmp(word, parts[i].name) == 0)
            return true;
    return false;
}

static bool is_wanted(char *const *words, const char *part)
{
    bool found = !*words;
    for (; *words; words++)
        found = found || strcmp(*words, part) == 0;
    return found;
}

/* A thousand clients have thousands of descriptors. */
static void allow_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int main(int argc, char **argv)
{
    read_options(argc, argv);
    for (char **word = argv + optind; *word; word++)
        if (!is_part(*word))
            die("%s: no such part; names, renew, sweep, wait", *word);
    allow_descriptors();
    rows = json_object_new_array();
    MYSQL *mysql = sql_connect();
    for (size_t i = 0; i < PARTS; i++)
        if (is_wanted(argv + optind, parts[i].name))
            parts[i].measure(mysql);
    mysql_close(mysql);
    if (set.file && json_object_to_file_ext(set.file, rows, JSON_C_TO_STRING_PRETTY) != 0)
        die("cannot write %s", set.file);
    json_object_put(rows);
    return missed ? 1 : 0;
}
