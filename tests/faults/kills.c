/*
 * The server is killed just before, during and just after the deciding commit; and stopped. death.c
 * kills at any moment.
 */
#include "faults/restart.h"

typedef enum point { BEFORE_COMMIT, IN_COMMIT, AFTER_COMMIT, POINTS } point;

/* Blocks commits from now on; ends with the server. */
static MYSQL *block_commits(void)
{
    MYSQL *blocker = ts_connect(NULL);
    ts_sql(blocker, "BACKUP STAGE START");
    ts_sql(blocker, "BACKUP STAGE FLUSH");
    ts_sql(blocker, "BACKUP STAGE BLOCK_DDL");
    ts_sql(blocker, "BACKUP STAGE BLOCK_COMMIT");
    return blocker;
}

static bool somebody_commits(void)
{
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM " TS_PROCESSLIST
                             " WHERE db = DATABASE() AND state LIKE '%%backup lock%%'") > 0;
}

typedef struct moment {
    point at;
    const char *statement; /* the deciding statement */
    MYSQL *blocker;
} moment;

/* Prepares the kill. (Flushes the history, so that the keeper of `direct` does not commit then.) */
static void prepare(moment *m)
{
    if (m->at == IN_COMMIT)
        WANT(OK, rowlock_client_flush(direct, 20000, &ts_err));
    m->blocker = m->at == IN_COMMIT ? block_commits() : NULL;
    if (m->at != IN_COMMIT)
        ts_proxy_arm(proxy, m->at == BEFORE_COMMIT ? TS_DELAY_COMMAND : TS_STALL_REPLY,
                     m->statement, 1, false);
}

/* `done`: an SQL condition on the name's row that is true after the commit. */
static void kill_at(moment *m, const char *name, const char *done)
{
    if (m->at == IN_COMMIT)
        assert_true(POLL_UNTIL(somebody_commits(), 10000));
    else
        assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 10000));
    if (m->at == AFTER_COMMIT)
        assert_true(POLL_UNTIL(ts_sql_u64(mysql,
                                          "SELECT COUNT(*) FROM resource"
                                          " WHERE resource_name = '%s' AND %s",
                                          name, done) == 1,
                               10000));
    ts_own_kill();
    if (m->blocker)
        mysql_close(m->blocker);
    ts_own_restart();
    ts_proxy_flow(proxy);
    ts_reconnect(&mysql);
}

/* The outcome is unknown at first, and looked up when the server is back: held, in the table,
 * too. */
static void acquire_and_kill(rowlock_mode mode, point at)
{
    const char *name = ts_name("kill-acquire");
    TS_CLIENT *client = open_patiently();
    char done[60];
    uint64_t token = 0;
    next_one_gets_in(name, mode, &token);
    WANT(OK, ts_try(client, name, mode));
    token = ts_version_of(mysql, name);
    moment m = {.at = at, .statement = taking(mode)};
    prepare(&m);
    ts_waiter waiter = ts_wait(client, name, mode, 120000, 60000);
    snprintf(done, sizeof done, "version = %" PRIu64, token + 1);
    kill_at(&m, name, done);
    ASSERT_GETS_IN(&waiter, token, 60000);
    token = rowlock_hold_token(waiter.hold);
    assert_true(is_ours(waiter.hold));
    assert_held(waiter.hold);
    WANT(BUSY, ts_try(direct, name, mode));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    next_one_gets_in(name, mode, &token);
}

TS_BOTH(test_server_killed_at_the_commit_of_an_acquire)
{
    for (int at = 0; at < POINTS; at++)
        acquire_and_kill(mode, (point)at);
}

typedef struct release {
    rowlock_hold *hold;
    rowlock_status status;
} release;

static void *release_it(void *arg)
{
    release *r = arg;
    r->status = rowlock_release(r->hold, NULL);
    return NULL;
}

/* Released, or found not to be ours any more, or unknown; it becomes free in any case, a lease when
 * its TTL is over. */
static void release_and_kill(rowlock_mode mode, point at)
{
    const char *name = ts_name("kill-release");
    TS_CLIENT *client = open_patiently();
    static release r; /* the thread may outlive a failed test */
    pthread_t thread;
    WANT(OK, ts_try(client, name, mode));
    r = (release){.hold = ts_take(client, name, mode, 4000)};
    uint64_t token = rowlock_hold_token(r.hold);
    moment m = {.at = at, .statement = giving(mode)};
    /* A row lock's release commits the end of the publication. */
    if (mode == ROWLOCK_PESSIMISTIC)
        m.statement = "row_unpublish";
    prepare(&m);
    assert_int_equal(pthread_create(&thread, NULL, release_it, &r), 0);
    kill_at(&m, name, "status = 'free'");
    pthread_join(thread, NULL);
    assert_true(r.status == ROWLOCK_OK || r.status == ROWLOCK_LOST || r.status == ROWLOCK_UNKNOWN ||
                r.status == ROWLOCK_UNAVAILABLE);
    next_one_gets_in_after(4000 + 2000, name, mode, &token);
}

TS_BOTH(test_server_killed_at_the_commit_of_a_release)
{
    for (int at = 0; at < POINTS; at++)
        release_and_kill(mode, (point)at);
}

/* The server does not answer for longer than the TTL. All calls return in time; a waiter acquires
 * when the server goes on, and the old holder is told. */
TS_BOTH(test_server_stopped)
{
    const char *name = ts_name("stopped");
    int64_t ttl = TS_KEPT_TTL;
    TS_CLIENT *holder = ts_open();
    TS_CLIENT *waiting = ts_open();
    TS_CLIENT *hasty = ts_open();
    rowlock_hold *hold = ts_take(holder, name, mode, ttl);
    uint64_t token = rowlock_hold_token(hold);
    pid_t pid = ts_own_pid();
    WANT(BUSY, ts_try(hasty, name, mode));
    TS_WAITER waiter = ts_wait(waiting, name, mode, 60000, 30000);
    ts_waiter on_time = ts_wait(hasty, name, mode, 1500, 0);
    ts_pass_ms(200);
    int64_t stopped = ts_now_ms();
    assert_int_equal(kill(pid, SIGSTOP), 0);
    bool told = POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000);
    int64_t told_after = ts_now_ms() - stopped;
    bool ended = POLL_UNTIL(ts_waiter_ended(&on_time), 15000);
    assert_int_equal(kill(pid, SIGCONT), 0); /* before any assertion can fail */
    assert_true(told && ended);
    assert_between(0, told_after, ttl + 2000 + ts_slack_ms());
    rowlock_status status = ts_waiter_join(&on_time, 0);
    assert_true(status == ROWLOCK_TIMEOUT || status == ROWLOCK_UNAVAILABLE ||
                status == ROWLOCK_UNKNOWN);
    assert_between(1490, on_time.ended_ms - on_time.started_ms, 1500 + 5000 + ts_slack_ms());
    ASSERT_GETS_IN(&waiter, token, 20000);
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_held(waiter.hold);
    assert_true(is_ours(waiter.hold));
}

TS_MAIN("kills", restart_begin, restart_end)
