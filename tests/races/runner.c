/*
 * races - runs the permutations of a spec and compares what came out.
 *
 *   races SPEC EXPECTED [EXPECTED...]     one of the expected files must fit
 *   races SPEC                            prints what comes out
 *
 * A step that does not end is told as waiting by the state of the server, not by the time it
 * takes: in several looks, apart from each other, none of its session's connections was
 * doing anything but wait for a row or a bell, or sleep.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "session.h"
#include "spec.h"

enum {
    LOOKS = 5, /* that must agree; together longer than the longest backoff (250 ms) */
    LOOK_APART_MS = 80,
    STEP_MOST_MS = 60000
};

static session sessions[SESSIONS_MAX];
static size_t session_count;
static MYSQL *admin;
static FILE *out;

/* --------------------------------------------------------------- waiting, or working? */

/* Connections of the session that run a statement and wait neither for a row nor for a bell. */
static bool is_working(const session *s)
{
    char *waiting = ts_lock_waits(admin);
    bool working = ts_sql_u64(admin,
                              "SELECT COUNT(*) FROM information_schema.processlist"
                              " WHERE user = '%s' AND command <> 'Sleep'"
                              "   AND COALESCE(state, '') <> 'User lock' AND id NOT IN (%s)",
                              s->user, waiting) > 0;
    free(waiting);
    return working;
}

/* True: done. False: it waits. What waits for time itself (told) is waited for. */
static bool settle(session *s, const race_step *step, char *outcome)
{
    int64_t end = ts_now_ms() + STEP_MOST_MS;
    if (strncmp(step->command, "told ", 5) == 0)
        return POLL_UNTIL(session_done(s, outcome), STEP_MOST_MS);
    for (unsigned looks = 0; looks < LOOKS && ts_now_ms() < end;) {
        if (POLL_UNTIL(session_done(s, outcome), LOOK_APART_MS))
            return true;
        looks = is_working(s) ? 0 : looks + 1;
    }
    return false;
}

/* ---------------------------------------------------------------------- permutations */

static const race_step *running[SESSIONS_MAX]; /* by session: the step that waits */

static void tell_completed(void)
{
    char outcome[OUTCOME_MAX];
    for (size_t i = 0; i < session_count; i++) {
        if (!running[i] || !settle(&sessions[i], running[i], outcome))
            continue;
        fprintf(out, "step %s: <... completed> -> %s\n", running[i]->name, outcome);
        running[i] = NULL;
    }
}

static bool run_step(const race_step *step)
{
    char outcome[OUTCOME_MAX];
    session *s = &sessions[step->session];
    if (running[step->session]) {
        fprintf(out, "step %s: cannot run, %s still waits\n", step->name,
                running[step->session]->name);
        return false;
    }
    fprintf(out, "step %s: %s", step->name, step->command);
    session_begin(s, step);
    if (settle(s, step, outcome)) {
        fprintf(out, " -> %s\n", outcome);
    } else {
        fprintf(out, " <waiting ...>\n");
        running[step->session] = step;
    }
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
    static const char *const tables[] = {"resource", "resource_lock", "lease_renewal",
                                         "lock_event"};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        ts_sql(admin, "DELETE FROM %s", tables[i]);
    ts_sql(admin, "UPDATE version_floor SET version = 0");
}

static bool run_permutation(const race_spec *spec, const race_permutation *p)
{
    bool good = true;
    empty_tables();
    memset(sessions, 0, sizeof sessions);
    memset(running, 0, sizeof running);
    session_count = spec->session_count;
    for (size_t i = 0; i < session_count; i++) {
        session *s = &sessions[i];
        snprintf(s->name, sizeof s->name, "%s", spec->sessions[i]);
        snprintf(s->user, sizeof s->user, "race_%d_%.8s", (int)getpid(), s->name);
        s->all = sessions;
        s->count = session_count;
        session_start(s);
    }
    fprintf(out, "permutation");
    for (size_t i = 0; i < p->count; i++)
        fprintf(out, " \"%s\"", p->order[i]->name);
    fprintf(out, "\n");
    for (size_t i = 0; good && i < p->count; i++) {
        good = run_step(p->order[i]);
        if (good)
            tell_completed();
    }
    for (int i = 0; i < 20 && any_running(); i++)
        tell_completed();
    if (any_running()) {
        fprintf(out, "a step still waits at the end\n");
        fflush(out);
        return false;
    }
    for (size_t i = 0; i < session_count; i++)
        session_end(&sessions[i]);
    fprintf(out, "\n");
    return true;
}

/* ------------------------------------------------------------------------------ main */

static void make_users(const race_spec *spec, bool make)
{
    for (size_t i = 0; i < spec->session_count; i++) {
        ts_sql(admin, "DROP USER IF EXISTS 'race_%d_%.8s'@'localhost'", (int)getpid(),
               spec->sessions[i]);
        if (!make)
            continue;
        ts_sql(admin, "CREATE USER 'race_%d_%.8s'@'localhost' IDENTIFIED BY 'race'", (int)getpid(),
               spec->sessions[i]);
        ts_sql(admin, "GRANT ALL ON `%s`.* TO 'race_%d_%.8s'@'localhost'", ts_schema(),
               (int)getpid(), spec->sessions[i]);
        /* To break the locks of the others. */
        ts_sql(admin, "GRANT %s ON *.* TO 'race_%d_%.8s'@'localhost'",
               ts_is_mysql(admin) ? "CONNECTION_ADMIN" : "CONNECTION ADMIN", (int)getpid(),
               spec->sessions[i]);
    }
}

static bool run_spec(const race_spec *spec)
{
    bool good = true;
    ts_suite_begin(NULL);
    admin = ts_connect(ts_schema());
    make_users(spec, true);
    ts_sql(admin, "CREATE TABLE work (id INT PRIMARY KEY, n BIGINT NOT NULL) ENGINE = InnoDB");
    for (size_t i = 0; good && i < spec->permutation_count; i++) {
        ts_sql(admin, "REPLACE INTO work VALUES (1, 0), (2, 0)");
        good = run_permutation(spec, &spec->permutations[i]);
    }
    make_users(spec, false);
    mysql_close(admin);
    ts_suite_end(NULL);
    return good;
}

static bool same(const char *text, const char *path)
{
    char *wanted = NULL;
    size_t size = 0;
    FILE *in = fopen(path, "r");
    if (!in)
        return false;
    ssize_t length = getdelim(&wanted, &size, 0, in);
    fclose(in);
    bool equal = length >= 0 && strcmp(wanted, text) == 0;
    free(wanted);
    return equal;
}

static void show_difference(const char *text, const char *path)
{
    char command[1000];
    snprintf(command, sizeof command, "diff -u '%s' -", path);
    FILE *diff = popen(command, "w");
    if (!diff)
        return;
    fputs(text, diff);
    pclose(diff);
}

int main(int argc, char **argv)
{
    static race_spec spec;
    char *text = NULL;
    size_t size = 0;
    if (argc < 2 || !race_spec_read(argv[1], &spec))
        return 64;
    out = argc > 2 ? open_memstream(&text, &size) : stdout;
    bool good = run_spec(&spec);
    if (argc == 2)
        return good ? 0 : 1;
    fclose(out);
    for (int i = 2; good && i < argc; i++)
        if (same(text, argv[i])) {
            free(text);
            return 0;
        }
    show_difference(text, argv[2]);
    free(text);
    return 1;
}
