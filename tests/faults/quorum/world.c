#include "faults/quorum/world.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/wait.h>

enum { COMMIT_MS = 150 };

static void server_tool(const member *m, const char *verb)
{
    char path[400];
    server_obey(
        (const char *const[]){server_tool_path("server", path), verb, m->server.folder, NULL});
}

/* ----------------------------------------------------------------------------- members */

/* Replaces the file in one step, since each look at the clock reads it. */
static void set_clock(const member *m, int64_t ms)
{
    char fresh[320];
    snprintf(fresh, sizeof fresh, "%s.new", m->clock);
    FILE *out = fopen(fresh, "w");
    assert_non_null(out);
    fprintf(out, "%+.3f\n", (double)ms / 1000);
    assert_int_equal(fchmod(fileno(out), 0644), 0); /* the server runs as another user */
    assert_int_equal(fclose(out), 0);
    assert_int_equal(rename(fresh, m->clock), 0);
}

/* (CLOCK) */
static bool step(void *of, const planned_fault *p)
{
    const world *w = of;
    const member *m = &w->member[p->member];
    if (!*m->clock)
        return false;
    set_clock(m, p->ms);
    return true;
}

static void step_back(void *of, const planned_fault *p)
{
    const world *w = of;
    set_clock(&w->member[p->member], 0);
}

/* A killed process with a clock of its own leaves shared memory behind, named by its pid; another
 * process with that pid would not start. */
static void sweep_clocks(void)
{
    glob_t found = {0};
    if (glob("/dev/shm/*faketime_*", 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++) {
            const char *number = strrchr(found.gl_pathv[i], '_') + 1;
            const pid_t pid = (pid_t)strtol(number, NULL, 10);
            if (pid > 1 && kill(pid, 0) != 0 && errno == ESRCH)
                unlink(found.gl_pathv[i]);
        }
    }
    globfree(&found);
}

/* Servers that are started until wear_off() have this clock. */
static void wear(const world *w, const member *m)
{
    if (!w->clocks)
        return;
    sweep_clocks();
    setenv("ROWLOCK_SERVER_CLOCK", m->clock, 1);
}

static void wear_off(void)
{
    unsetenv("ROWLOCK_SERVER_CLOCK");
}

static unsigned number_of(const world *w, const member *m)
{
    return (unsigned)(m - w->member) + 1;
}

/* Starts it, with new data if it is to be wiped. */
static void restart(void *of, const planned_fault *p)
{
    world *w = of;
    member *m = &w->member[p->member];
    const bool wiped = p->kind == FAULT_MEMBER_WIPE;
    char path[400];
    char number[12];
    char id[40];
    snprintf(number, sizeof number, "%u", number_of(w, m));
    snprintf(id, sizeof id, "--server-id=%s", number);
    const char *const wipe[] = {server_tool_path("cluster", path), "wipe", w->cluster, number,
                                NULL};
    const char *const start[] = {
        path, "restart", m->server.folder,
        "--", id,        m == w->loose ? "--innodb-flush-log-at-trx-commit=0" : NULL,
        NULL};
    m->wiped = wiped;
    if (!wiped)
        server_tool_path("server", path);
    wear(w, m);
    m->server.job = server_begin(wiped ? wipe : start);
    wear_off();
}

/* The URLs of its members, separated by blanks; bit i of `proxied`: through the proxy. */
static void put_urls(const world *w, unsigned proxied, char *to, size_t size)
{
    size_t used = 0;
    for (unsigned i = 0; i < w->members && i < sizeof w->member / sizeof w->member[0]; i++) {
        const member *m = &w->member[i];
        const char *socket = proxied >> i & 1 ? ts_proxy_socket(m->server.proxy) : m->server.socket;
        used += (size_t)snprintf(to + used, size - used, "%smysql://%s@localhost/%s?socket=%s",
                                 i ? " " : "", "actor", w->schema, socket);
        assert_true(used < size);
    }
}

/* As an administrator would, repeatedly while too few of the others can be asked. */
static void begin_to_rejoin(world *w, member *m)
{
    char urls[2000];
    char number[12];
    put_urls(w, 0, urls, sizeof urls);
    snprintf(number, sizeof number, "%u", number_of(w, m));
    m->server.job = server_begin((const char *const[]){w->actor, "rejoin", urls, number, NULL});
}

/* Makes the processes' user, which also has the rights to make the schema. */
static void make_actor(const world *w, member *m)
{
    assert_true(server_sql(&m->server, "CREATE USER IF NOT EXISTS actor@localhost"));
    assert_true(server_sql(&m->server, "GRANT ALL ON `%s`.* TO actor@localhost", w->schema));
}

/* For a wiped member: when it belongs to the quorum again. */
static bool restarted(void *of, const planned_fault *p)
{
    world *w = of;
    member *m = &w->member[p->member];
    int status = 0;
    if (waitpid(m->server.job, &status, WNOHANG) != m->server.job)
        return false;
    m->server.job = 0;
    if (m->joins && status == 0) {
        m->joins = false;
        return true;
    }
    if (!m->joins) {
        assert_int_equal(status, 0);
        server_back(&m->server);
        if (!m->wiped)
            return true;
        make_actor(w, m);
        m->joins = true;
    }
    begin_to_rejoin(w, m);
    return false;
}

void world_faults(world *w, faults *f)
{
    static const fault_ways ways = {
        .begin = step, .end = step_back, .restart = restart, .restarted = restarted};
    *f = (faults){.ways = &ways, .world = w, .server_count = w->members};
    for (unsigned i = 0; i < w->members && i < QUORUM_MEMBERS; i++)
        f->servers[i] = &w->member[i].server;
}

static void *observe(void *arg)
{
    world *w = arg;
    MYSQL *mysql[QUORUM_MEMBERS] = {NULL};
    char schema[60];
    snprintf(schema, sizeof schema, "beat_%s", w->schema);
    while (!atomic_load(&w->watch.stop)) {
        for (unsigned i = 0; i < w->members; i++)
            watch_commit(&w->watch, &w->member[i].server, &mysql[i], schema);
        ts_pass_ms(COMMIT_MS);
    }
    for (unsigned i = 0; i < w->members; i++)
        server_end_session(&mysql[i]);
    mysql_thread_end();
    return NULL;
}

/* --------------------------------------------------------------------- begin and end */

static void start_member(world *w, unsigned i)
{
    member *m = &w->member[i];
    snprintf(m->server.folder, sizeof m->server.folder, "%s/%u", w->cluster, i + 1);
    snprintf(m->clock, sizeof m->clock, "%s/%u.clock", w->cluster, i + 1);
    if (w->clocks)
        set_clock(m, 0);
    else
        *m->clock = '\0';
    /* Each server has a clock of its own, by the environment at its start. */
    wear(w, m);
    server_tool(m, "restart");
    wear_off();
    assert_true(snprintf(m->server.socket, sizeof m->server.socket, "%s/%u/s", w->cluster, i + 1) <
                (int)sizeof m->server.socket);
    m->server.proxy = ts_proxy_start(m->server.socket);
}

void world_start(world *w, unsigned members, const char *actor)
{
    char path[400];
    char count[12];
    glob_t found = {0};
    *w = (world){.started = members};
    snprintf(w->actor, sizeof w->actor, "%s", actor);
    w->clocks = glob("/usr/lib/*/faketime/libfaketimeMT.so.1", 0, NULL, &found) == 0;
    globfree(&found);
    ts_make_folder("quorum", w->cluster, sizeof w->cluster);
    assert_int_equal(chmod(w->cluster, 0755), 0);
    snprintf(count, sizeof count, "%u", members);
    server_obey((const char *const[]){server_tool_path("cluster", path), "start", "quorum",
                                      w->cluster, count, NULL});
    for (unsigned i = 0; i < members; i++)
        start_member(w, i);
}

void world_end(world *w)
{
    char path[400];
    for (unsigned i = 0; i < w->started; i++) {
        server_end_session(&w->member[i].server.admin);
        ts_proxy_stop(w->member[i].server.proxy);
    }
    server_obey(
        (const char *const[]){server_tool_path("cluster", path), "remove", w->cluster, NULL});
}

/* An administrator's options. */
static rowlock_client_options options_of(const world *w, char urls[QUORUM_MEMBERS][300],
                                         const char *members[QUORUM_MEMBERS])
{
    for (unsigned i = 0; i < w->members; i++) {
        snprintf(urls[i], 300, "mysql://root@localhost/%s?socket=%s", w->schema,
                 w->member[i].server.socket);
        members[i] = urls[i];
    }
    return (rowlock_client_options){
        .members = members, .member_count = w->members, .connect_timeout_ms = 30000};
}

static void make_quorum(const world *w, int64_t ttl_most_ms)
{
    const char *members[QUORUM_MEMBERS];
    char urls[QUORUM_MEMBERS][300];
    const rowlock_client_options all = options_of(w, urls, members);
    for (unsigned i = 0; i < w->members; i++) {
        const rowlock_client_options one = {.url = urls[i], .connect_timeout_ms = 30000};
        WANT(OK, rowlock_migrate(&one, NULL, NULL, &ts_err));
    }
    const rowlock_quorum_options how = {.ttl_most_ms = ttl_most_ms};
    WANT(OK, rowlock_quorum_init(&all, &how, &ts_err));
}

static void make_ready(world *w, member *m)
{
    make_actor(w, m);
    assert_true(server_sql(&m->server, "CREATE DATABASE `beat_%s`", w->schema));
    assert_true(
        server_sql(&m->server, "CREATE TABLE `beat_%s`.beat (n INT) ENGINE = InnoDB", w->schema));
    assert_true(server_sql(&m->server, "INSERT INTO `beat_%s`.beat VALUES (0)", w->schema));
}

static void restart_as_usual(world *w, member *m)
{
    char path[400];
    char id[40];
    snprintf(id, sizeof id, "--server-id=%u", number_of(w, m));
    server_end_session(&m->server.admin);
    wear(w, m);
    server_obey((const char *const[]){server_tool_path("server", path), "restart", m->server.folder,
                                      "--", id, NULL});
    wear_off();
}

static bool all_vote(const world *w)
{
    const char *members[QUORUM_MEMBERS];
    char urls[QUORUM_MEMBERS][300];
    rowlock_quorum *seen = NULL;
    const rowlock_client_options all = options_of(w, urls, members);
    if (rowlock_quorum_get(&all, NULL, &seen, &ts_err) != ROWLOCK_OK)
        return false;
    const bool all_of_them = rowlock_quorum_voting(seen) == w->members;
    rowlock_quorum_free(seen);
    return all_of_them;
}

void world_begin_run(world *w, const quorum_plan *p, const char *folder)
{
    snprintf(w->schema, sizeof w->schema, "run_%" PRIu64, p->seed);
    snprintf(w->folder, sizeof w->folder, "%s", folder);
    w->members = p->members;
    w->loose = p->loose == QUORUM_NOBODY ? NULL : &w->member[p->loose];
    if (w->loose)
        assert_true(server_sql(&w->member[p->loose].server,
                               "SET GLOBAL innodb_flush_log_at_trx_commit = 0"));
    for (unsigned i = 0; i < w->members; i++)
        make_ready(w, &w->member[i]);
    make_quorum(w, p->ttl_most_ms);
    /* A member that does not flush its commits abstains at first. */
    assert_true(POLL_UNTIL(all_vote(w), 60000));
    assert_true(mkdir(folder, 0777) == 0);
    assert_true(history_open(&w->log, folder, 0));
    watch_begin(&w->watch, &w->log, observe, w);
}

void world_end_run(world *w, const quorum_plan *p)
{
    watch_end(&w->watch);
    history_log(&w->log, "end");
    close(w->log.fd);
    for (unsigned i = 0; i < w->members; i++) {
        assert_true(server_sql(&w->member[i].server, "DROP DATABASE `%s`", w->schema));
        assert_true(
            server_sql(&w->member[i].server, "DROP DATABASE IF EXISTS `beat_%s`", w->schema));
    }
    if (w->loose)
        restart_as_usual(w, &w->member[p->loose]);
}

/* ---------------------------------------------------------------------- the processes */

static void put_words(const crew *c, const life *l, bool probes, const char *words[CREW_WORDS + 1])
{
    static char urls[2000], who[20], ttl[24], seed[24];
    const world *w = c->world;
    const quorum_actor *a = l->plan;
    put_urls(w, a->proxied, urls, sizeof urls);
    snprintf(who, sizeof who, "%u", l->who);
    snprintf(ttl, sizeof ttl, "%" PRId64, a->ttl_ms);
    snprintf(seed, sizeof seed, "%" PRIu64, a->seed + l->lives);
    const char *const all[] = {w->actor, probes ? "probe" : "work", w->folder, who, urls, ttl,
                               seed};
    memcpy(words, all, sizeof all);
}

void world_crew(world *w, const quorum_plan *p, crew *c)
{
    *c = (crew){.log = &w->log, .folder = w->folder, .put_words = put_words, .world = w, .plan = p};
    for (unsigned i = 0; i < p->actor_count; i++)
        crew_add(c, i, &p->actors[i], p->actors[i].respawn_ms);
}

void world_probe(crew *c)
{
    static const quorum_actor probe = {.ttl_ms = 1000};
    crew_add_probe(c, &probe);
    crew_end_probes(c);
}
