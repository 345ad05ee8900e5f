/*
 * races SPEC - runs the races of a spec and compares the results.
 *
 * Whether a step waits is decided by the server's state, not by time: in several looks, one after
 * the other, all connections of its session only waited for a row or a bell, or slept.
 */
#include <dirent.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "db/conn.h"
#include "session.h"
#include "spec.h"
#include "support/witness.h"

enum {
    LOOKS = 5, /* looks that must agree; together longer than the longest backoff (250 ms) */
    LOOK_APART_MS = 80,
    STEP_MOST_MS = 60000,
    PARTS_MOST = 4
};

static session sessions[SESSIONS_MAX];
static size_t session_count;
static MYSQL *admin;
static FILE *out;

/* A thread of this process that is ready to run, whether or not it has a processor; none of the
 * witness, which works all the time. */
static bool is_thread_ready(const struct dirent *task)
{
    char path[300];
    char name[32] = "";
    char state = 'S';
    snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
    FILE *stat = fopen(path, "r"); /* NULL: it has ended */
    if (stat)
        (void)!fscanf(stat, "%*d (%31[^)]) %c", name, &state);
    if (stat)
        fclose(stat);
    return state != 'S' && strcmp(name, TS_WITNESS) != 0;
}

static bool are_threads_ready(void)
{
    bool ready = false;
    DIR *tasks = opendir("/proc/self/task");
    for (const struct dirent *task; !ready && (task = readdir(tasks));)
        ready = atoi(task->d_name) > 0 && atoi(task->d_name) != gettid() && is_thread_ready(task);
    closedir(tasks);
    return ready;
}

/*
 * How many connections this process is making: the server does not show one that it has not
 * accepted yet.
 */
static atomic_uint connecting;

/* The linker puts these in place of rl_conn_open() and mysql_real_connect() (--wrap). */
rowlock_status __real_rl_conn_open(const rl_params *params, const rl_io *io, rl_conn **conn,
                                   rowlock_error *err);
rowlock_status __wrap_rl_conn_open(const rl_params *params, const rl_io *io, rl_conn **conn,
                                   rowlock_error *err);
MYSQL *__real_mysql_real_connect(MYSQL *mysql, const char *host, const char *user,
                                 const char *password, const char *schema, unsigned port,
                                 const char *path, unsigned long flags);
MYSQL *__wrap_mysql_real_connect(MYSQL *mysql, const char *host, const char *user,
                                 const char *password, const char *schema, unsigned port,
                                 const char *path, unsigned long flags);

rowlock_status __wrap_rl_conn_open(const rl_params *params, const rl_io *io, rl_conn **conn,
                                   rowlock_error *err)
{
    atomic_fetch_add(&connecting, 1);
    rowlock_status status = __real_rl_conn_open(params, io, conn, err);
    atomic_fetch_sub(&connecting, 1);
    return status;
}

MYSQL *__wrap_mysql_real_connect(MYSQL *mysql, const char *host, const char *user,
                                 const char *password, const char *schema, unsigned port,
                                 const char *path, unsigned long flags)
{
    atomic_fetch_add(&connecting, 1);
    mysql = __real_mysql_real_connect(mysql, host, user, password, schema, port, path, flags);
    atomic_fetch_sub(&connecting, 1);
    return mysql;
}

/* True if the server has a request of ours that it has not read yet: its connection looks idle. */
static bool is_request_on_its_way(void)
{
    bool unread = false;
    DIR *fds = opendir("/proc/self/fd");
    for (const struct dirent *fd; !unread && (fd = readdir(fds));) {
        int bytes = 0;
        unread = ioctl(atoi(fd->d_name), SIOCOUTQ, &bytes) == 0 && bytes > 0;
    }
    closedir(fds);
    return unread;
}

/* True if a connection of the session is being made, or runs a statement and waits neither for a
 * row nor for a bell; or if a thread of ours is at work. */
static bool is_working(const session *s)
{
    if (are_threads_ready() || atomic_load(&connecting) > 0 || is_request_on_its_way())
        return true;
    char *waiting = ts_lock_waits(admin);
    bool working = ts_sql_u64(admin,
                              "SELECT COUNT(*) FROM " TS_PROCESSLIST
                              " WHERE (user = '%s' OR id = %lu) AND command <> 'Sleep'"
                              "   AND COALESCE(state, '') <> 'User lock' AND id NOT IN (%s)",
                              s->user, mysql_thread_id(s->admin), waiting) > 0;
    free(waiting);
    return working;
}

/* A step that waits for time to pass, or for a row, but never for long. */
static bool ends_by_itself(const race_step *step)
{
    return strncmp(step->command, "told ", 5) == 0 || strncmp(step->command, "asked ", 6) == 0 ||
           strncmp(step->command, "latch_set ", 10) == 0;
}

/* True if the step is done, false if it waits. */
static bool settle(session *s, const race_step *step, char *outcome)
{
    int64_t end = ts_now_ms() + STEP_MOST_MS;
    if (ends_by_itself(step))
        return POLL_UNTIL(session_done(s, outcome), STEP_MOST_MS);
    for (unsigned looks = 0; looks < LOOKS && ts_now_ms() < end;) {
        if (POLL_UNTIL(session_done(s, outcome), LOOK_APART_MS))
            return true;
        looks = is_working(s) ? 0 : looks + 1;
    }
    return false;
}

static const race_step *running[SESSIONS_MAX]; /* each session's step that waits */
static bool line_begun, line_ends;

static void tell_outcome(const char *who, const char *outcome)
{
    fprintf(out, "%s%s%s%s", line_ends ? "; " : " -> ", who, *who ? ": " : "", outcome);
    line_ends = true;
}

static void end_line(bool ends)
{
    if (!ends)
        return;
    fputc('\n', out);
    line_begun = line_ends = false;
}

static void tell_completed(void)
{
    char outcome[OUTCOME_MAX];
    for (size_t i = 0; i < session_count; i++) {
        if (!running[i] || !settle(&sessions[i], running[i], outcome))
            continue;
        tell_outcome(running[i]->name, outcome);
        running[i] = NULL;
    }
}

static bool run_step(const race_step *step)
{
    char outcome[OUTCOME_MAX];
    session *s = &sessions[step->session];
    fprintf(out, "%s%s", line_begun ? " " : "    ", step->name);
    line_begun = true;
    if (running[step->session]) {
        tell_outcome(running[step->session]->name, "it still waits");
        return false;
    }
    session_begin(s, step);
    if (!settle(s, step, outcome)) {
        tell_outcome("", "waits");
        running[step->session] = step;
    } else if (strcmp(outcome, "OK") != 0 && strcmp(outcome, "done") != 0) {
        tell_outcome("", outcome);
    }
    tell_completed();
    end_line(line_ends);
    return true;
}

static bool any_running(void)
{
    for (size_t i = 0; i < session_count; i++)
        if (running[i])
            return true;
    return false;
}

static void empty_tables(void)
{
    static const char *const tables[] = {
        "resource", "resource_lock", "lease_renewal", "lock_grant",  "latch_down", "lock_value",
        "lock_ask", "once_run",      "queue_item",    "queue_group", "lock_event"};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        ts_sql(admin, "DELETE FROM %s", tables[i]);
    ts_sql(admin, "DELETE FROM lock_freeze WHERE id <> 1");
    ts_sql(admin, "UPDATE version_floor SET version = 0");
}

static void run_race(const race *r)
{
    bool good = true;
    empty_tables();
    line_begun = line_ends = false;
    for (size_t i = 0; i < session_count; i++)
        session_start(&sessions[i]);
    for (size_t i = 0; good && i < r->count; i++)
        good = run_step(r->order[i]);
    for (int i = 0; i < 20 && any_running(); i++)
        tell_completed();
    end_line(line_begun);
    if (any_running()) {
        fprintf(out, "a step still waits at the end\n");
        return; /* the step hangs: so does the end of its session */
    }
    for (size_t i = 0; i < session_count; i++)
        session_end(&sessions[i]);
}

/* True if the results are as wanted; else it prints both. */
static bool compare(const race *r, const char *text)
{
    for (size_t i = 0; i < r->ways; i++)
        if (strcmp(text, r->wanted[i]) == 0)
            return true;
    printf("the race in line %u is to be\n%sand was\n%s", r->line, r->wanted[0], text);
    return false;
}

/* Runs every `parts`th race, from the one at `part` on. */
static bool run_part(const race_spec *spec, size_t part, size_t parts)
{
    bool good = true;
    ts_suite_begin(NULL);
    admin = ts_connect(ts_schema());
    session_count = spec->session_count;
    for (size_t i = 0; i < session_count; i++)
        session_prepare(&sessions[i], spec->sessions[i], sessions, session_count);
    ts_sql(admin, "CREATE TABLE work (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE = InnoDB");
    for (size_t i = part; good && i < spec->race_count; i += parts) {
        char *text = NULL;
        size_t size = 0;
        ts_sql(admin, "REPLACE INTO work VALUES (1, 0), (2, 0)");
        out = open_memstream(&text, &size);
        run_race(&spec->races[i]);
        fclose(out);
        good = compare(&spec->races[i], text);
        free(text);
    }
    mysql_close(admin);
    if (good)
        ts_suite_end(NULL);
    return good;
}

/* A race spends most of its time on looks whether a step waits: so several run at once, each in a
 * process and a schema of its own. */
static bool run_spec(const race_spec *spec)
{
    const size_t parts = spec->race_count < PARTS_MOST ? spec->race_count : PARTS_MOST;
    bool good = true;
    for (size_t part = 0; part < parts; part++) {
        const pid_t pid = fork();
        if (pid == 0)
            exit(run_part(spec, part, parts) ? 0 : 1);
        good = good && pid > 0;
    }
    for (int status; wait(&status) > 0;)
        good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return good;
}

int main(int argc, char **argv)
{
    static race_spec spec;
    if (argc != 2 || !race_spec_read(argv[1], &spec))
        return 64;
    return run_spec(&spec) ? 0 : 1;
}
