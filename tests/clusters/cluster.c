#include "clusters/cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CANNOT 77 /* of tools/cluster: it cannot be had here */

static char folder[200];
static char sockets[CLUSTER_FRONT + 1][220];
static char front[30]; /* short: a socket's path */
static bool missing;
static pid_t owner;

/* The exit status; `line` gets the first line of what it says on stdout. */
static int tool(const char *before, const char *after, char *line, size_t size)
{
    char command[700];
    const char *tools = getenv("ROWLOCK_TOOLS");
    if (!tools) {
        fprintf(stderr, "set ROWLOCK_TOOLS to the folder with the script `cluster`\n");
        exit(2);
    }
    snprintf(command, sizeof command, "exec '%s/cluster' %s '%s' %s", tools, before, folder, after);
    FILE *out = popen(command, "re");
    assert_non_null(out);
    char rest[300];
    if (!fgets(line, (int)size, out))
        *line = 0;
    line[strcspn(line, "\n")] = 0;
    while (fgets(rest, sizeof rest, out))
        continue;
    int status = pclose(out);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static void obey(const char *before, const char *after)
{
    char line[300];
    int status = tool(before, after, line, sizeof line);
    if (status == 0)
        return;
    print_error("tools/cluster %s %s: status %d\n", before, after, status);
    fail();
}

void cluster_node(const char *verb, int node)
{
    char number[12];
    snprintf(number, sizeof number, "%d", node);
    obey(verb, number);
}

void cluster_all(const char *verb)
{
    obey(verb, "");
}

int cluster_primary(void)
{
    char line[300];
    assert_int_equal(tool("primary", "", line, sizeof line), 0);
    return atoi(line);
}

/* ------------------------------------------------------------------- set-up, tear-down */

/* A test that failed must not leave servers behind. */
static void remove_at_exit(void)
{
    char line[300];
    if (!*folder || getpid() != owner)
        return;
    unlink(sockets[CLUSTER_FRONT]);
    rmdir(front);
    (void)tool("remove", "", line, sizeof line);
    *folder = 0;
}

int cluster_begin(const char *what)
{
    char line[300];
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
    int status = tool(before, "", line, sizeof line);
    missing = status == CANNOT;
    if (missing) {
        rmdir(folder); /* nothing was put into it */
        rmdir(front);
        *folder = 0;
        return 0;
    }
    assert_int_equal(status, 0);
    for (int n = 1; n <= CLUSTER_NODES; n++) {
        char number[12];
        snprintf(number, sizeof number, "%d", n);
        assert_int_equal(tool("socket", number, sockets[n], sizeof sockets[0]), 0);
    }
    cluster_use(1);
    ts_suite_begin(NULL);
    cluster_schema_everywhere();
    return 0;
}

int cluster_end(void **state)
{
    (void)state;
    remove_at_exit();
    return 0;
}

void cluster_needed(void)
{
    if (missing)
        skip();
}

/* ------------------------------------------------------------------------------- nodes */

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
    char new_link[240];
    snprintf(new_link, sizeof new_link, "%s.new", sockets[CLUSTER_FRONT]);
    unlink(new_link);
    assert_int_equal(symlink(sockets[node], new_link), 0);
    assert_int_equal(rename(new_link, sockets[CLUSTER_FRONT]), 0);
}

rowlock_client_options cluster_options(int node)
{
    rowlock_client_options options = ts_options(); /* $ROWLOCK_TEST_ROLES counts here, too */
    options.socket = sockets[node];
    options.connect_timeout_ms = 10000;
    return options;
}

rowlock_client *cluster_open(int node)
{
    rowlock_client_options options = cluster_options(node);
    rowlock_client *client = NULL;
    /* A group expels who stands still for some seconds, and lets him in again. */
    (void)POLL_UNTIL(rowlock_client_open(&options, &client, &ts_err) != ROWLOCK_READONLY, 60000);
    if (!client)
        print_error("node %d: %s\n", node, ts_err.message);
    assert_non_null(client);
    return client;
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
        if (!POLL_UNTIL(opens(n), 30000)) {
            print_error("node %d: %s\n", n, ts_err.message);
            fail();
        }
}
