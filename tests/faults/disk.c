/*
 * The disk of the server is full: a small tmpfs, in a mount namespace of this program's own, on
 * which a server of its own lives and a file that takes what is left. Skipped where the machine
 * does not allow that.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/own_server.h"
#include "support/support.h"

static char why_not[200]; /* "": it can be done */
static char folder[] = "/tmp/rowlock-disk.XXXXXX";
static char ballast[60];
static rowlock_client *client;
static MYSQL *mysql;

/* --------------------------------------------------------------------------- the disk */

static void cannot(const char *what)
{
    snprintf(why_not, sizeof why_not, "%s: %s", what, strerror(errno));
}

static void make_disk(void)
{
    assert_non_null(mkdtemp(folder));
    snprintf(ballast, sizeof ballast, "%s/ballast", folder);
    if (unshare(CLONE_NEWNS) != 0)
        cannot("no mount namespace");
    else if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
        cannot("no private mounts");
    else if (mount("rowlock", folder, "tmpfs", MS_NOSUID | MS_NODEV, "size=200m,mode=755") != 0)
        cannot("no tmpfs");
}

/* To the last block. */
static void fill_disk(void)
{
    static char block[65536];
    int fd = open(ballast, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    memset(block, 'x', sizeof block);
    for (size_t size = sizeof block; size > 0;)
        if (write(fd, block, size) < 0) {
            assert_int_equal(errno, ENOSPC);
            size /= 2;
        }
    close(fd);
}

static void free_disk(void)
{
    assert_int_equal(unlink(ballast), 0);
}

static void skip_where_impossible(void)
{
    if (!*why_not)
        return;
    print_message("# %s\n", why_not);
    skip();
}

static void start_server(const char *options)
{
    static char usual[300];
    rowlock_client_options how;
    const char *tmpdir = getenv("TMPDIR");
    snprintf(usual, sizeof usual, "%s", tmpdir ? tmpdir : "/tmp");
    setenv("TMPDIR", folder, 1);
    unlink(ballast); /* of a test that failed */
    ts_own_start_with(options);
    setenv("TMPDIR", usual, 1);
    how = ts_options();
    how.connect_timeout_ms = 2000;
    WANT(OK, rowlock_migrate(&how, NULL, &(rowlock_migrate_result){0}, &ts_err));
    WANT(OK, rowlock_client_open(&how, &client, &ts_err));
    mysql = ts_connect(ts_schema());
}

static void stop_server(void)
{
    rowlock_client_close(client);
    mysql_close(mysql);
    ts_own_remove();
}

static int begin(void **state)
{
    make_disk();
    return ts_suite_begin(state);
}

static int end(void **state)
{
    ts_own_remove(); /* a test may have failed */
    ts_suite_end(state);
    if (!*why_not)
        umount(folder);
    rmdir(folder);
    return 0;
}

/* ----------------------------------------------------------------------------- the tests */

/* A long name of its own, which takes a row in three tables. */
static void long_name(char *name, size_t size, unsigned number)
{
    snprintf(name, size, "%0240u", number);
}

/* The release of a lease may be the first that does not fit. */
static rowlock_status take_and_give(rowlock_client *by, const char *name, rowlock_mode mode)
{
    rowlock_hold *hold = NULL;
    rowlock_acquire_options how = {.mode = mode, .wait_ms = 500, .ttl_ms = 2000};
    rowlock_status status = rowlock_acquire(by, name, &how, &hold, &ts_err);
    return status == ROWLOCK_OK ? rowlock_release(hold, &ts_err) : status;
}

/* New names need new pages. There are none: said so, and nobody else is disturbed. */
static void test_no_page_is_left(void **state)
{
    char name[260];
    unsigned number = 0;
    rowlock_mode mode = ts_mode(state);
    rowlock_status status = ROWLOCK_OK;
    skip_where_impossible();
    start_server("");
    rowlock_hold *hold = ts_take(client, "kept", mode, TS_KEPT_TTL);
    fill_disk();
    while (status == ROWLOCK_OK && number < 200000) {
        long_name(name, sizeof name, number++);
        int64_t start = ts_now_ms();
        status = take_and_give(client, name, mode);
        assert_between(0, ts_now_ms() - start, 500 + 5000 + ts_slack_ms());
        assert_held(hold);
    }
    print_message("# after %u names: %s: %s\n", number, rowlock_status_name(status),
                  ts_err.message);
    WANT(SERVER, status);
    assert_true(ts_err.server_errno > 0);
    for (int64_t until = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < until; ts_pass_ms(20))
        assert_held(hold);
    free_disk();
    WANT(OK, take_and_give(client, name, mode));
    WANT(BUSY, ts_try(client, "kept", mode));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_try(client, "kept", mode));
    stop_server();
}

/* With a binary log, the server keeps every commit waiting until there is room again. */
static void test_no_commit_returns(void **state)
{
    rowlock_mode mode = ts_mode(state);
    skip_where_impossible();
    start_server("--log-bin --binlog-format=ROW --sync-binlog=1");
    rowlock_client *waiting = ts_open();
    rowlock_client *hasty = ts_open();
    rowlock_hold *hold = ts_take(client, "held", mode, TS_KEPT_TTL);
    uint64_t token = rowlock_hold_token(hold);
    WANT(OK, ts_try(hasty, "free", mode));
    WANT(BUSY, ts_try(waiting, "held", mode));
    fill_disk();
    ts_waiter waiter = {.client = waiting, .name = "held"};
    waiter.options = (rowlock_acquire_options){.mode = mode, .wait_ms = 200000, .ttl_ms = 30000};
    ts_waiter_start(&waiter);
    /* Some writes may still fit into the last pages of what is there. */
    rowlock_status status = ROWLOCK_OK;
    int64_t start = 0;
    for (int i = 0; i < 200 && status == ROWLOCK_OK; i++) {
        start = ts_now_ms();
        status = take_and_give(hasty, "free", mode);
    }
    print_message("# %s: %s after %" PRId64 " ms: %s\n", ts_mode_word(mode),
                  rowlock_status_name(status), ts_now_ms() - start, ts_err.message);
    assert_true(status == ROWLOCK_SERVER || status == ROWLOCK_TIMEOUT ||
                status == ROWLOCK_UNAVAILABLE || status == ROWLOCK_UNKNOWN);
    assert_between(0, ts_now_ms() - start, 500 + 10000 + ts_slack_ms());
    /* A lease cannot be renewed; its holder knows before the next one can be there. */
    if (mode == ROWLOCK_OPTIMISTIC)
        assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, TS_KEPT_TTL + 10000));
    else
        assert_held(hold);
    assert_false(ts_waiter_ended(&waiter));
    free_disk();
    int64_t freed = ts_now_ms();
    status = rowlock_release(hold, &ts_err);
    assert_int_equal(status, mode == ROWLOCK_OPTIMISTIC ? ROWLOCK_LOST : ROWLOCK_OK);
    WANT(OK, ts_waiter_join(&waiter, 150000));
    print_message("# next in after %" PRId64 " ms\n", ts_now_ms() - freed);
    assert_true(rowlock_hold_token(waiter.hold) > token);
    WANT(BUSY, ts_try(hasty, "held", mode));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    rowlock_client_close(waiting);
    rowlock_client_close(hasty);
    stop_server();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_no_page_is_left),
        BOTH(test_no_commit_returns),
    };
    return cmocka_run_group_tests_name("disk", tests, begin, end);
}
