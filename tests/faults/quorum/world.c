#include "faults/quorum/world.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/wait.h>

enum { HEART_MS = 10, LATE_US = 20000, COMMIT_MS = 150, TIMEOUT_S = 30 };

static const char *tool_path(const char *name, char path[400])
{
    const char *tools = getenv("ROWLOCK_TOOLS");
    assert_non_null(tools);
    snprintf(path, 400, "%s/%s", tools, name);
    return path;
}

/* A process of its own; what it prints is not ours to tell. */
static pid_t begin(const char *const argv[])
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    dup2(nowhere, STDIN_FILENO);
    dup2(nowhere, STDOUT_FILENO);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static void obey(const char *const argv[])
{
    int status = 0;
    pid_t pid = begin(argv);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        fail_msg("%s %s %s: status %d", argv[0], argv[1], argv[2], status);
}

static void server_tool(const member *m, const char *verb)
{
    char path[400];
    obey((const char *const[]){tool_path("server", path), verb, m->folder, NULL});
}

/* ---------------------------------------------------------------------------- sessions */

static void end_session(MYSQL **mysql)
{
    if (*mysql)
        mysql_close(*mysql);
    *mysql = NULL;
}

/* NULL: not now. */
static MYSQL *session(const member *m)
{
    unsigned seconds = TIMEOUT_S;
    MYSQL *mysql = mysql_init(NULL);
    assert_non_null(mysql);
    mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
    mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &seconds);
    if (mysql_real_connect(mysql, NULL, "root", NULL, NULL, 0, m->server, 0))
        return mysql;
    mysql_close(mysql);
    return NULL;
}

/* An error ends the session: the next one will be new. */
static bool query(const member *m, MYSQL **mysql, const char *text)
{
    if (!*mysql)
        *mysql = session(m);
    if (*mysql && mysql_query(*mysql, text) == 0)
        return true;
    end_session(mysql);
    return false;
}

bool world_sql(member *m, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!world_up(m) || !query(m, &m->admin, text))
        return false;
    MYSQL_RES *result = mysql_store_result(m->admin);
    if (result)
        mysql_free_result(result);
    return true;
}

bool world_kill(member *m, const char *what, unsigned nth)
{
    char text[200];
    uint64_t id = 0;
    snprintf(text, sizeof text,
             "SELECT id FROM " TS_PROCESSLIST " WHERE user = 'actor' ORDER BY id LIMIT %u, 1", nth);
    if (!world_up(m) || !query(m, &m->admin, text))
        return false;
    MYSQL_RES *result = mysql_store_result(m->admin);
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
    if (row && row[0])
        id = strtoull(row[0], NULL, 10);
    mysql_free_result(result);
    return id > 0 && world_sql(m, "KILL %s %" PRIu64, what, id);
}

/* ----------------------------------------------------------------------------- members */

static void change(member *m, int by)
{
    atomic_fetch_add(&m->changes, 1);
    atomic_fetch_add(&m->faults, (unsigned)by);
}

bool world_up(const member *m)
{
    return atomic_load(&m->faults) == 0;
}

static pid_t pid_of(const member *m)
{
    char path[400];
    long pid = 0;
    snprintf(path, sizeof path, "%s/pid", m->folder);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_int_equal(fscanf(in, "%ld", &pid), 1);
    fclose(in);
    assert_true(pid > 1);
    return (pid_t)pid;
}

bool world_down(member *m, int signal)
{
    if (!world_up(m) || m->job)
        return false;
    change(m, 1);
    end_session(&m->admin);
    kill(pid_of(m), signal);
    return true;
}

void world_thaw(member *m)
{
    kill(pid_of(m), SIGCONT);
    change(m, -1);
}

/* Never half written: it is read at each look at the clock. */
static void set_clock(const member *m, int64_t ms)
{
    char fresh[320];
    snprintf(fresh, sizeof fresh, "%s.new", m->clock);
    FILE *out = fopen(fresh, "w");
    assert_non_null(out);
    fprintf(out, "%+.3f\n", (double)ms / 1000);
    assert_int_equal(fchmod(fileno(out), 0644), 0); /* the server is another user */
    assert_int_equal(fclose(out), 0);
    assert_int_equal(rename(fresh, m->clock), 0);
}

bool world_step(member *m, int64_t ms)
{
    if (!*m->clock)
        return false;
    set_clock(m, ms);
    return true;
}

/* A process with a clock of its own that is killed leaves shared memory behind, named by its
 * number; the next one of that number would not start. */
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

/* What is started until wear_off() has this clock. */
static void wear(const world *w, const member *m)
{
    glob_t found = {0};
    if (!w->clocks)
        return;
    sweep_clocks();
    assert_int_equal(glob("/usr/lib/*/faketime/libfaketimeMT.so.1", 0, NULL, &found), 0);
    setenv("FAKETIME_TIMESTAMP_FILE", m->clock, 1);
    setenv("FAKETIME_NO_CACHE", "1", 1);
    setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1);
    setenv("LD_PRELOAD", found.gl_pathv[0], 1);
    globfree(&found);
}

static void wear_off(void)
{
    unsetenv("LD_PRELOAD");
    unsetenv("FAKETIME_TIMESTAMP_FILE");
    unsetenv("FAKETIME_NO_CACHE");
    unsetenv("FAKETIME_DONT_FAKE_MONOTONIC");
}

static unsigned number_of(const world *w, const member *m)
{
    return (unsigned)(m - w->member) + 1;
}

void world_restart(world *w, member *m, bool wiped)
{
    char path[400];
    char number[12];
    char id[40];
    snprintf(number, sizeof number, "%u", number_of(w, m));
    snprintf(id, sizeof id, "--server-id=%s", number);
    const char *const wipe[] = {tool_path("cluster", path), "wipe", w->cluster, number, NULL};
    const char *const start[] = {
        path, "restart", m->folder,
        "--", id,        m == w->loose ? "--innodb-flush-log-at-trx-commit=0" : NULL,
        NULL};
    m->wiped = wiped;
    if (!wiped)
        tool_path("server", path);
    wear(w, m);
    m->job = begin(wiped ? wipe : start);
    wear_off();
}

/* As an administrator does, again and again while too few of the others can be asked. */
static void begin_to_rejoin(world *w, member *m)
{
    char urls[2000];
    char number[12];
    world_urls(w, 0, urls, sizeof urls);
    snprintf(number, sizeof number, "%u", number_of(w, m));
    m->job = begin((const char *const[]){w->actor, "rejoin", urls, number, NULL});
}

/* A user with its rights, who makes the schema anew, too. */
static void make_actor(const world *w, member *m)
{
    assert_true(world_sql(m, "CREATE USER IF NOT EXISTS actor@localhost"));
    assert_true(world_sql(m, "GRANT ALL ON `%s`.* TO actor@localhost", w->schema));
}

bool world_restarted(world *w, member *m)
{
    int status = 0;
    if (waitpid(m->job, &status, WNOHANG) != m->job)
        return false;
    m->job = 0;
    if (m->joins && status == 0) {
        m->joins = false;
        return true;
    }
    if (!m->joins) {
        assert_int_equal(status, 0);
        change(m, -1);
        if (!m->wiped)
            return true;
        make_actor(w, m);
        m->joins = true;
    }
    begin_to_rejoin(w, m);
    return false;
}

/* ------------------------------------------------------------------ how late are we? */

static void *beat(void *arg)
{
    world *w = arg;
    while (!atomic_load(&w->stop_watching)) {
        int64_t due = history_now() + HEART_MS * 1000;
        ts_pass_ms(HEART_MS);
        if (history_now() - due > LATE_US)
            history_log(&w->log, "late from=%" PRId64, due);
    }
    return NULL;
}

/* A small commit; slow only because the machine is, or because we broke that member. */
static void commit_something(world *w, member *m, MYSQL **mysql)
{
    char text[100];
    unsigned changes = atomic_load(&m->changes);
    bool up = world_up(m);
    int64_t from = history_now();
    snprintf(text, sizeof text, "UPDATE `beat_%s`.beat SET n = n + 1", w->schema);
    bool done = up && query(m, mysql, text);
    if (done && changes == atomic_load(&m->changes) && history_now() - from > LATE_US)
        history_log(&w->log, "late from=%" PRId64, from);
    if (!done)
        end_session(mysql);
}

static void *observe(void *arg)
{
    world *w = arg;
    MYSQL *mysql[QUORUM_MEMBERS] = {NULL};
    while (!atomic_load(&w->stop_watching)) {
        for (unsigned i = 0; i < w->members; i++)
            commit_something(w, &w->member[i], &mysql[i]);
        ts_pass_ms(COMMIT_MS);
    }
    for (unsigned i = 0; i < w->members; i++)
        end_session(&mysql[i]);
    mysql_thread_end();
    return NULL;
}

/* --------------------------------------------------------------------- begin and end */

void world_urls(const world *w, unsigned proxied, char *to, size_t size)
{
    size_t used = 0;
    for (unsigned i = 0; i < w->members && i < sizeof w->member / sizeof w->member[0]; i++) {
        const member *m = &w->member[i];
        const char *socket = proxied >> i & 1 ? ts_proxy_socket(m->proxy) : m->server;
        used += (size_t)snprintf(to + used, size - used, "%smysql://%s@localhost/%s?socket=%s",
                                 i ? " " : "", "actor", w->schema, socket);
        assert_true(used < size);
    }
}

static void start_member(world *w, unsigned i)
{
    member *m = &w->member[i];
    snprintf(m->folder, sizeof m->folder, "%s/%u", w->cluster, i + 1);
    snprintf(m->clock, sizeof m->clock, "%s/%u.clock", w->cluster, i + 1);
    if (w->clocks)
        set_clock(m, 0);
    else
        *m->clock = '\0';
    /* Each with a clock of its own, which the environment names when it is started. */
    wear(w, m);
    server_tool(m, "restart");
    wear_off();
    assert_true(snprintf(m->server, sizeof m->server, "%s/s", m->folder) < (int)sizeof m->server);
    m->proxy = ts_proxy_start(m->server);
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
    obey((const char *const[]){tool_path("cluster", path), "start", "quorum", w->cluster, count,
                               NULL});
    for (unsigned i = 0; i < members; i++)
        start_member(w, i);
}

void world_end(world *w)
{
    char path[400];
    for (unsigned i = 0; i < w->started; i++) {
        end_session(&w->member[i].admin);
        ts_proxy_stop(w->member[i].proxy);
    }
    obey((const char *const[]){tool_path("cluster", path), "remove", w->cluster, NULL});
}

/* An administrator's. */
static rowlock_client_options options_of(const world *w, char urls[QUORUM_MEMBERS][300],
                                         const char *members[QUORUM_MEMBERS])
{
    for (unsigned i = 0; i < w->members; i++) {
        snprintf(urls[i], 300, "mysql://root@localhost/%s?socket=%s", w->schema,
                 w->member[i].server);
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
    assert_true(world_sql(m, "CREATE DATABASE `beat_%s`", w->schema));
    assert_true(world_sql(m, "CREATE TABLE `beat_%s`.beat (n INT) ENGINE = InnoDB", w->schema));
    assert_true(world_sql(m, "INSERT INTO `beat_%s`.beat VALUES (0)", w->schema));
}

static void restart_as_usual(world *w, member *m)
{
    char path[400];
    char id[40];
    snprintf(id, sizeof id, "--server-id=%u", number_of(w, m));
    end_session(&m->admin);
    wear(w, m);
    obey((const char *const[]){tool_path("server", path), "restart", m->folder, "--", id, NULL});
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
        assert_true(
            world_sql(&w->member[p->loose], "SET GLOBAL innodb_flush_log_at_trx_commit = 0"));
    for (unsigned i = 0; i < w->members; i++)
        make_ready(w, &w->member[i]);
    make_quorum(w, p->ttl_most_ms);
    /* One that does not flush abstains at first. */
    assert_true(POLL_UNTIL(all_vote(w), 60000));
    assert_true(mkdir(folder, 0777) == 0);
    assert_true(history_open(&w->log, folder, 0));
    atomic_store(&w->stop_watching, false);
    assert_int_equal(pthread_create(&w->heart, NULL, beat, w), 0);
    assert_int_equal(pthread_create(&w->observer, NULL, observe, w), 0);
}

void world_end_run(world *w, const quorum_plan *p)
{
    atomic_store(&w->stop_watching, true);
    pthread_join(w->heart, NULL);
    pthread_join(w->observer, NULL);
    history_log(&w->log, "end");
    close(w->log.fd);
    for (unsigned i = 0; i < w->members; i++) {
        assert_true(world_sql(&w->member[i], "DROP DATABASE `%s`", w->schema));
        assert_true(world_sql(&w->member[i], "DROP DATABASE IF EXISTS `beat_%s`", w->schema));
    }
    if (w->loose)
        restart_as_usual(w, &w->member[p->loose]);
}
