#include "clusters/cluster.h"

#define CANNOT 77 /* exit status of tools/cluster where such a cluster cannot be had */

static char folder[200];
static char sockets[CLUSTER_FRONT + 1][TS_LINE];
static char front[30]; /* short: a socket's path */
static pid_t owner;

static void obey(const char *before, const char *after)
{
    char line[TS_LINE];
    int status = ts_tool("cluster", before, folder, after, line);
    if (status == 0)
        return;
    fail_msg("tools/cluster %s %s: status %d", before, after, status);
}

void cluster_node(const char *verb, int node)
{
    char number[12];
    snprintf(number, sizeof number, "%d", node);
    obey(verb, number);
}

int cluster_primary(void)
{
    char line[TS_LINE];
    assert_int_equal(ts_tool("cluster", "primary", folder, "", line), 0);
    return atoi(line);
}

/* A test that failed must not leave servers behind. */
static void remove_at_exit(void)
{
    char line[TS_LINE];
    if (!*folder || getpid() != owner)
        return;
    unlink(sockets[CLUSTER_FRONT]);
    rmdir(front);
    (void)ts_tool("cluster", "remove", folder, "", line);
    *folder = 0;
}

int cluster_begin(const char *what)
{
    char line[TS_LINE];
    char before[60];
    ts_make_folder("cluster", folder, sizeof folder);
    snprintf(front, sizeof front, "/tmp/rowlock-front.XXXXXX");
    assert_non_null(mkdtemp(front));
    snprintf(sockets[CLUSTER_FRONT], sizeof sockets[0], "%s/s", front);
    static bool registered;
    owner = getpid();
    if (!registered)
        atexit(remove_at_exit);
    registered = true;
    snprintf(before, sizeof before, "start %s", what);
    int status = ts_tool("cluster", before, folder, "", line);
    if (status == CANNOT) {
        rmdir(folder); /* empty: no cluster was started */
        rmdir(front);
        *folder = 0;
        printf("ok 1 - %s # SKIP\n", what);
        exit(0);
    }
    assert_int_equal(status, 0);
    for (int n = 1; n <= CLUSTER_NODES; n++) {
        char number[12];
        snprintf(number, sizeof number, "%d", n);
        assert_int_equal(ts_tool("cluster", "socket", folder, number, sockets[n]), 0);
    }
    cluster_use(1);
    ts_suite_begin(NULL);
    cluster_schema_everywhere();
    return 0;
}

int cluster_end(TS_NO_STATE)
{
    remove_at_exit();
    return 0;
}

const char *cluster_socket(int node)
{
    return sockets[node];
}

void cluster_use(int node)
{
    setenv("ROWLOCK_TEST_SOCKET", sockets[node], 1);
}

void cluster_front_to(int node)
{
    char new_link[TS_LINE + 4];
    snprintf(new_link, sizeof new_link, "%s.new", sockets[CLUSTER_FRONT]);
    unlink(new_link);
    assert_int_equal(symlink(sockets[node], new_link), 0);
    assert_int_equal(rename(new_link, sockets[CLUSTER_FRONT]), 0);
}

rowlock_client_options cluster_options(int node)
{
    rowlock_client_options options = ts_options(); /* heeds $ROWLOCK_TEST_ROLES */
    options.socket = sockets[node];
    options.connect_timeout_ms = 10000;
    return options;
}

rowlock_client *cluster_open(int node)
{
    rowlock_client_options options = cluster_options(node);
    rowlock_client *client = NULL;
    /* A group expels a member that stands still for some seconds, and lets it in again. */
    (void)POLL_UNTIL(rowlock_client_open(&options, &client, &ts_err) != ROWLOCK_READONLY, 60000);
    if (!client)
        print_error("node %d: %s\n", node, ts_err.message);
    assert_non_null(client);
    return client;
}

MYSQL *sql_at(int node)
{
    cluster_use(node);
    return ts_connect(ts_schema());
}

bool cluster_so(MYSQL *mysql, const char *format, ...)
{
    char condition[600];
    va_list args;
    va_start(args, format);
    vsnprintf(condition, sizeof condition, format, args);
    va_end(args);
    /* A condition that does not hold is made an error as well. */
    return ts_sql_try(mysql, "SET @so = IF((%s), 1, (SELECT 1 UNION SELECT 2))", condition) == 0;
}

rowlock_hold *cluster_take(rowlock_client *client, const char *name, rowlock_mode mode,
                           int64_t ttl_ms)
{
    return ts_take_with(
        client, name,
        (rowlock_acquire_options){.mode = mode, .wait_ms = SOON_MS, .ttl_ms = ttl_ms});
}

bool cluster_shows(rowlock_client *client, const char *name, uint64_t token)
{
    rowlock_list *list = NULL;
    if (rowlock_list_one(client, name, &list, &ts_err) != ROWLOCK_OK)
        return false;
    const rowlock_info *info = rowlock_list_at(list, 0);
    bool good = info->state == ROWLOCK_HELD && info->token == token;
    rowlock_list_free(list);
    return good;
}

typedef struct looked {
    const char *check;
    rowlock_level level;
    char found[700];
} looked;

static void note(void *data, const rowlock_finding *finding)
{
    looked *l = data;
    if (strcmp(finding->check, l->check) != 0)
        return;
    l->level = finding->level;
    snprintf(l->found, sizeof l->found, "%s", finding->found);
}

bool cluster_finds(int node, const char *check, rowlock_level level, const char *found)
{
    const rowlock_client_options options = cluster_options(node);
    looked l = {.check = check, .level = (rowlock_level)-1};
    WANT(OK, rowlock_diagnose(&options, 0, note, &l, &ts_err));
    return l.level == level && strstr(l.found, found) != NULL;
}

void cluster_refuses(rowlock_client *client, rowlock_client *primary)
{
    for (int i = 0; i < 2; i++) {
        const char *name = ts_name("refused");
        rowlock_list *list = NULL;
        WANT(OK, ts_try(primary, name, ts_modes[i]));
        SOON(rowlock_list_one(client, name, &list, &ts_err) == ROWLOCK_OK);
        rowlock_list_free(list);
        WANT(READONLY, ts_try(client, name, ts_modes[i]));
        WANT(READONLY, ts_try(client, ts_name("refused"), ts_modes[i]));
    }
}

static void *at_work(void *arg)
{
    cluster_worker *self = arg;
    return (void *)(uintptr_t)self->work(self);
}

void cluster_start(cluster_worker *all, unsigned count, void *what,
                   const char *(*work)(cluster_worker *self))
{
    for (unsigned i = 0; i < count; i++) {
        all[i] = (cluster_worker){.client = cluster_open(1 + (int)i % CLUSTER_NODES),
                                  .what = what,
                                  .who = i,
                                  .work = work};
        assert_int_equal(pthread_create(&all[i].thread, NULL, at_work, &all[i]), 0);
    }
}

void cluster_join(cluster_worker *all, unsigned count)
{
    const char *failed = NULL;
    for (unsigned i = 0; i < count; i++) {
        void *why = NULL;
        assert_int_equal(pthread_join(all[i].thread, &why), 0);
        failed = why ? why : failed;
        rowlock_client_close(all[i].client);
    }
    if (failed)
        fail_msg("%s", failed);
}

void cluster_all_work(unsigned count, void *what, const char *(*work)(cluster_worker *self))
{
    cluster_worker all[20];
    assert_true(count <= sizeof all / sizeof all[0]);
    cluster_start(all, count, what, work);
    cluster_join(all, count);
}

static bool opens(int node)
{
    rowlock_client_options options = cluster_options(node);
    rowlock_client *client = NULL;
    if (rowlock_client_open(&options, &client, &ts_err) != ROWLOCK_OK)
        return false;
    rowlock_client_close(client);
    return true;
}

void cluster_schema_everywhere(void)
{
    for (int n = 1; n <= CLUSTER_NODES; n++)
        if (!POLL_UNTIL(opens(n), 30000))
            fail_msg("node %d: %s", n, ts_err.message);
}
