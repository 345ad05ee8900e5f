#include "servers.h"

#include <glob.h>

static struct server {
    char folder[200];
    char socket[300];
    char flavour[40];
    char url[400];
    ts_proxy *proxy;
    bool frozen;
} servers[TS_SERVERS_MOST];
static size_t server_count;
static pid_t owner;

/* `rest`: the arguments after the folder. The last line of its output goes to `line`. */
static void tool(const char *verb, const struct server *s, const char *rest, char line[TS_LINE])
{
    const int status = ts_tool("server", verb, s->folder, rest, line);
    if (status != 0)
        fail_msg("tools/server %s '%s' %s: status %d", verb, s->folder, rest, status);
}

static void run(const char *verb, struct server *s, const char *rest)
{
    char line[TS_LINE];
    tool(verb, s, rest, line);
    if (*line == '/')
        snprintf(s->socket, sizeof s->socket, "%s", line);
}

static void remove_at_exit(void)
{
    if (getpid() == owner)
        ts_servers_remove();
}

/* The i-th word of the list, which repeats. */
static void choose_flavour(struct server *s, size_t i)
{
    const char *list = getenv("ROWLOCK_TEST_FLAVOURS");
    const char *usual = getenv("ROWLOCK_FLAVOUR");
    char words[200];
    char *all[TS_SERVERS_MOST];
    char *rest = NULL;
    size_t count = 0;
    snprintf(words, sizeof words, "%s", list && *list ? list : usual && *usual ? usual : "mariadb");
    for (char *word = strtok_r(words, " ", &rest); word && count < TS_SERVERS_MOST;
         word = strtok_r(NULL, " ", &rest))
        all[count++] = word;
    snprintf(s->flavour, sizeof s->flavour, "%s", all[i % count]);
}

static rowlock_client_options direct(const struct server *s)
{
    return (rowlock_client_options){
        .socket = s->socket, .user = "root", .connect_timeout_ms = 20000};
}

void ts_server_schema(size_t i)
{
    const rowlock_client_options options = direct(&servers[i]);
    WANT(OK, rowlock_migrate(&options, NULL, &(rowlock_migrate_result){0}, &ts_err));
}

/* In memory, if there is room. */
static void make_folder(struct server *s)
{
    snprintf(s->folder, sizeof s->folder, "%s/rowlock-member.XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    assert_non_null(mkdtemp(s->folder));
}

static void start(struct server *s, size_t i, bool fresh)
{
    char options[200];
    snprintf(options, sizeof options, "--server-id=%zu", i + 1);
    char flavour[100];
    snprintf(flavour, sizeof flavour, "start --flavour %s%s", s->flavour, fresh ? " --fresh" : "");
    char rest[300];
    snprintf(rest, sizeof rest, "-- %s", options);
    run(flavour, s, rest);
}

void ts_servers_start(size_t count)
{
    static bool registered;
    ts_servers_remove();
    owner = getpid();
    if (!registered)
        atexit(remove_at_exit);
    registered = true;
    for (; server_count < count; server_count++) {
        struct server *s = &servers[server_count];
        *s = (struct server){.proxy = NULL};
        make_folder(s);
        choose_flavour(s, server_count);
        start(s, server_count, false);
        s->proxy = ts_proxy_start(s->socket);
        snprintf(s->url, sizeof s->url, "mysql://root@localhost/rowlock?socket=%s",
                 ts_proxy_socket(s->proxy));
        ts_server_schema(server_count);
    }
}

void ts_servers_remove(void)
{
    for (; server_count > 0; server_count--) {
        struct server *s = &servers[server_count - 1];
        if (s->frozen)
            ts_server_freeze(server_count - 1, false);
        if (s->proxy)
            ts_proxy_stop(s->proxy);
        run("remove", s, "");
    }
}

const char *ts_server_socket(size_t i)
{
    return servers[i].socket;
}

ts_proxy *ts_server_proxy(size_t i)
{
    return servers[i].proxy;
}

const char *ts_server_url(size_t i)
{
    return servers[i].url;
}

MYSQL *ts_server_connect(size_t i)
{
    setenv("ROWLOCK_TEST_SOCKET", servers[i].socket, 1);
    return ts_connect("rowlock");
}

void ts_server_kill(size_t i)
{
    run("kill", &servers[i], "");
    servers[i].frozen = false;
}

void ts_server_start(size_t i, const char *options)
{
    char rest[300];
    snprintf(rest, sizeof rest, "-- --server-id=%zu %s", i + 1, options);
    run("restart", &servers[i], rest);
}

void ts_server_lose(size_t i)
{
    ts_server_kill(i);
    start(&servers[i], i, true);
}

/* All its threads are stopped. (A thread that is about to answer does so before it stops.) */
static bool stands(pid_t pid)
{
    char path[64];
    glob_t threads;
    bool all = true;
    snprintf(path, sizeof path, "/proc/%d/task/*/stat", (int)pid);
    assert_int_equal(glob(path, 0, NULL, &threads), 0);
    for (size_t i = 0; i < threads.gl_pathc; i++) {
        char state = 'T';
        FILE *stat = fopen(threads.gl_pathv[i], "r");
        /* The name is in parentheses, and may contain blanks. */
        if (stat && fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
            state = 'T';
        if (stat)
            fclose(stat);
        all = all && state == 'T';
    }
    globfree(&threads);
    return all;
}

void ts_server_freeze(size_t i, bool frozen)
{
    char line[TS_LINE];
    if (servers[i].frozen == frozen)
        return;
    tool("pid", &servers[i], "", line);
    const pid_t pid = (pid_t)atol(line);
    assert_int_equal(kill(pid, frozen ? SIGSTOP : SIGCONT), 0);
    servers[i].frozen = frozen;
    if (frozen)
        assert_true(POLL_UNTIL(stands(pid), 10000));
}

int ts_servers_flow(TS_NO_STATE)
{
    for (size_t i = 0; i < server_count; i++) {
        ts_server_freeze(i, false);
        ts_proxy_flow(servers[i].proxy);
    }
    return 0;
}
