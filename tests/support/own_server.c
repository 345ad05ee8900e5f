#include "own_server.h"

static char folder[200];
static char usual_socket[200];
static pid_t owner;

/* `rest`: what follows the folder. */
static void tool(const char *verb, const char *rest)
{
    char line[TS_LINE];
    const int status = ts_tool("server", verb, folder, rest, line);
    if (status != 0)
        fail_msg("tools/server %s '%s' %s: status %d", verb, folder, rest, status);
    if (*line == '/')
        setenv("ROWLOCK_TEST_SOCKET", line, 1);
}

/* A test that failed must not leave a server behind. */
static void remove_at_exit(void)
{
    if (getpid() == owner)
        ts_own_remove();
}

/* Beside the shared server's folder, which is in memory if there is room. */
static void make_folder_in_memory(void)
{
    const char *shared = getenv("ROWLOCK_TEST_SERVER");
    if (!shared || !*shared) {
        ts_make_folder("own", folder, sizeof folder);
        return;
    }
    snprintf(folder, sizeof folder, "%s-own.XXXXXX", shared);
    assert_non_null(mkdtemp(folder));
}

/* Starts a server in the new folder. */
static void start(const char *options)
{
    char rest[200];
    snprintf(rest, sizeof rest, "%s%s", *options ? "-- " : "", options);
    static bool registered;
    if (!registered)
        atexit(remove_at_exit);
    registered = true;
    owner = getpid();
    const char *usual = getenv("ROWLOCK_TEST_SOCKET");
    snprintf(usual_socket, sizeof usual_socket, "%s", usual ? usual : "");
    tool("start", rest);
}

void ts_own_start(void)
{
    ts_own_start_with("");
}

void ts_own_start_with(const char *options)
{
    ts_own_remove(); /* a failed test may have left one */
    make_folder_in_memory();
    start(options);
}

void ts_own_start_on_disk(void)
{
    ts_own_remove();
    ts_make_folder("own", folder, sizeof folder);
    start("");
}

void ts_own_kill(void)
{
    tool("kill", "");
}

void ts_own_restart(void)
{
    tool("restart", "");
}

void ts_own_remove(void)
{
    if (!*folder)
        return;
    tool("remove", "");
    *folder = 0;
    setenv("ROWLOCK_TEST_SOCKET", usual_socket, 1);
}

pid_t ts_own_pid(void)
{
    char path[300];
    long pid = 0;
    snprintf(path, sizeof path, "%s/pid", folder);
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    assert_int_equal(fscanf(in, "%ld", &pid), 1);
    fclose(in);
    assert_true(pid > 1);
    return (pid_t)pid;
}

const char *ts_own_folder(void)
{
    return folder;
}
