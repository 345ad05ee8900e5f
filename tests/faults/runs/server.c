#include "faults/runs/server.h"

#include <fcntl.h>
#include <stdarg.h>
#include <sys/wait.h>

enum {
    HEART_MS = 10,
    LATE_US = 20000, /* delays from this on get a line */
    TIMEOUT_S = 30
};

/* ------------------------------------------------------------------------------- tools */

const char *server_tool_path(const char *name, char path[400])
{
    const char *tools = getenv("ROWLOCK_TOOLS");
    assert_non_null(tools);
    snprintf(path, 400, "%s/%s", tools, name);
    return path;
}

/* Its output is thrown away. */
pid_t server_begin(const char *const argv[])
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

void server_obey(const char *const argv[])
{
    int status = 0;
    pid_t pid = server_begin(argv);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        fail_msg("%s %s %s: status %d", argv[0], argv[1], argv[2], status);
}

/* ---------------------------------------------------------------------------- sessions */

void server_end_session(MYSQL **mysql)
{
    if (*mysql)
        mysql_close(*mysql);
    *mysql = NULL;
}

/* NULL: it cannot be opened now. */
static MYSQL *session(const server *s)
{
    unsigned seconds = TIMEOUT_S;
    MYSQL *mysql = mysql_init(NULL);
    assert_non_null(mysql);
    mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
    mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &seconds);
    if (mysql_real_connect(mysql, NULL, "root", NULL, NULL, 0, s->socket, 0))
        return mysql;
    mysql_close(mysql);
    return NULL;
}

bool server_query(const server *s, MYSQL **mysql, const char *text)
{
    if (!*mysql)
        *mysql = session(s);
    if (*mysql && mysql_query(*mysql, text) == 0)
        return true;
    server_end_session(mysql);
    return false;
}

bool server_sql(server *s, const char *format, ...)
{
    char text[600];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!server_up(s) || !server_query(s, &s->admin, text))
        return false;
    MYSQL_RES *result = mysql_store_result(s->admin);
    if (result)
        mysql_free_result(result);
    return true;
}

uint64_t server_number(server *s, const char *text)
{
    uint64_t number = 0;
    if (!server_up(s) || !server_query(s, &s->admin, text))
        return 0;
    MYSQL_RES *result = mysql_store_result(s->admin);
    MYSQL_ROW row = result ? mysql_fetch_row(result) : NULL;
    if (row && row[0])
        number = strtoull(row[0], NULL, 10);
    mysql_free_result(result);
    return number;
}

bool server_kill(server *s, const char *what, unsigned nth)
{
    char text[200];
    snprintf(text, sizeof text,
             "SELECT id FROM " TS_PROCESSLIST " WHERE user = 'actor' ORDER BY id LIMIT %u, 1", nth);
    const uint64_t id = server_number(s, text);
    return id > 0 && server_sql(s, "KILL %s %" PRIu64, what, id);
}

/* ----------------------------------------------------------------------- up and down */

static void change(server *s, int by)
{
    atomic_fetch_add(&s->changes, 1);
    atomic_fetch_add(&s->faults, (unsigned)by);
}

bool server_up(const server *s)
{
    return atomic_load(&s->faults) == 0;
}

static pid_t pid_of(const server *s)
{
    char path[400];
    long pid = 0;
    snprintf(path, sizeof path, "%s/pid", s->folder);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_int_equal(fscanf(in, "%ld", &pid), 1);
    fclose(in);
    assert_true(pid > 1);
    return (pid_t)pid;
}

bool server_down(server *s, int signal)
{
    if (!server_up(s) || s->job)
        return false;
    change(s, 1);
    server_end_session(&s->admin);
    kill(pid_of(s), signal);
    return true;
}

void server_continue(server *s)
{
    kill(pid_of(s), SIGCONT);
    change(s, -1);
}

void server_back(server *s)
{
    change(s, -1);
}

/* ------------------------------------------------------------------ how late are we? */

static void *beat(void *arg)
{
    watch *w = arg;
    while (!atomic_load(&w->stop)) {
        int64_t due = history_now() + HEART_MS * 1000;
        ts_pass_ms(HEART_MS);
        if (history_now() - due > LATE_US)
            history_log(w->log, "late from=%" PRId64, due);
    }
    return NULL;
}

void watch_begin(watch *w, history *log, void *(*observe)(void *world), void *world)
{
    w->log = log;
    atomic_store(&w->stop, false);
    assert_int_equal(pthread_create(&w->heart, NULL, beat, w), 0);
    assert_int_equal(pthread_create(&w->observer, NULL, observe, world), 0);
}

void watch_end(watch *w)
{
    atomic_store(&w->stop, true);
    pthread_join(w->heart, NULL);
    pthread_join(w->observer, NULL);
}

void watch_commit(watch *w, server *s, MYSQL **mysql, const char *schema)
{
    char text[100];
    unsigned changes = atomic_load(&s->changes);
    bool up = server_up(s);
    int64_t from = history_now();
    snprintf(text, sizeof text, "UPDATE `%s`.beat SET n = n + 1", schema);
    bool done = up && server_query(s, mysql, text);
    if (done && changes == atomic_load(&s->changes) && history_now() - from > LATE_US)
        history_log(w->log, "late from=%" PRId64, from);
    if (!done)
        server_end_session(mysql);
}
