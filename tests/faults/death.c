/*
 * Real processes, real kills, a server of its own. After each death: at most one holder at
 * any time (the holders' guarded beats), the next one gets in within TTL + 1 s, tokens rise.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/own_server.h"
#include "support/support.h"

static char holder_path[500];
static MYSQL *mysql;

/* ------------------------------------------------------------------------ the guard */

static void reconnect(void)
{
    if (mysql)
        mysql_close(mysql);
    mysql = ts_connect(ts_schema());
}

static const char *new_lock(const char *word)
{
    const char *name = ts_name(word);
    ts_sql(mysql, "INSERT INTO guard (name) VALUES ('%s')", name);
    return name;
}

static uint64_t guard(const char *name, const char *column)
{
    return ts_sql_u64(mysql, "SELECT %s FROM guard WHERE name = '%s'", column, name);
}

/* Beats of somebody who was not the holder any more. */
static uint64_t late_beats(const char *name)
{
    return ts_sql_u64(mysql, "SELECT COUNT(*) FROM late WHERE name = '%s'", name);
}

/* --------------------------------------------------------------------- the processes */

typedef struct holder {
    pid_t pid;
    int in;
    int out;
    char line[900]; /* the last one read */
    char rest[2000];
    size_t rest_length;
} holder;

static holder spawn(const char *name, rowlock_mode mode, int64_t ttl_ms, const char *what)
{
    holder h = {0};
    int in[2];
    int out[2];
    char ttl[24];
    snprintf(ttl, sizeof ttl, "%" PRId64, ttl_ms);
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    fflush(NULL);
    h.pid = fork();
    assert_true(h.pid >= 0);
    if (h.pid == 0) {
        dup2(in[0], STDIN_FILENO);
        dup2(out[1], STDOUT_FILENO);
        execl(holder_path, "holder", ts_socket(), ts_schema(), name, ts_mode_word(mode), ttl, what,
              (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    h.in = in[1];
    h.out = out[0];
    return h;
}

static void tell(const holder *h, const char *word)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%s\n", word);
    assert_int_equal(write(h->in, line, (size_t)length), length);
}

static bool take_line(holder *h)
{
    char *newline = memchr(h->rest, '\n', h->rest_length);
    if (!newline)
        return false;
    size_t length = (size_t)(newline - h->rest);
    snprintf(h->line, sizeof h->line, "%.*s", (int)length, h->rest);
    h->rest_length -= length + 1;
    memmove(h->rest, newline + 1, h->rest_length);
    return true;
}

/* The next line, within so long. */
static bool hear(holder *h, int64_t within_ms)
{
    int64_t end = ts_now_ms() + within_ms;
    while (!take_line(h)) {
        int64_t left = end - ts_now_ms();
        struct pollfd p = {.fd = h->out, .events = POLLIN};
        if (left <= 0 || poll(&p, 1, (int)left) != 1)
            return false;
        ssize_t n = read(h->out, h->rest + h->rest_length, sizeof h->rest - h->rest_length);
        if (n <= 0)
            return false;
        h->rest_length += (size_t)n;
    }
    return true;
}

/* It must say this next. */
static void expect(holder *h, const char *begins, int64_t within_ms)
{
    bool heard = hear(h, within_ms);
    if (heard && strncmp(h->line, begins, strlen(begins)) == 0)
        return;
    print_error("wanted '%s' within %" PRId64 " ms, got '%s'\n", begins, within_ms,
                heard ? h->line : "nothing");
    fail();
}

/* Connected, and about to wait for the lock. */
static holder start(const char *name, rowlock_mode mode, int64_t ttl_ms, const char *what)
{
    holder h = spawn(name, mode, ttl_ms, what);
    expect(&h, "READY", 10000);
    return h;
}

static uint64_t expect_token(holder *h, int64_t within_ms)
{
    expect(h, "TOKEN ", within_ms);
    return strtoull(h->line + 6, NULL, 10);
}

static void bury(holder *h)
{
    kill(h->pid, SIGKILL);
    kill(h->pid, SIGCONT);
    waitpid(h->pid, NULL, 0);
    close(h->in);
    close(h->out);
}

/* It ends by itself, and well. */
static void finish(holder *h)
{
    tell(h, "quit");
    assert_int_equal(ts_reap(h->pid, 10000), 0);
    close(h->in);
    close(h->out);
}

static void expect_beats(const char *name, uint64_t token)
{
    assert_true(POLL_UNTIL(guard(name, "token") == token, 3000));
    uint64_t before = guard(name, "beats");
    assert_true(POLL_UNTIL(guard(name, "beats") > before + 3, 3000));
}

/* --------------------------------------------------------------------------- clients */

static void test_holder_killed(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = new_lock("killed");
    int64_t ttl = 2000;
    holder a = start(name, mode, ttl, "hold");
    uint64_t first = expect_token(&a, 10000);
    expect_beats(name, first);
    holder b = start(name, mode, ttl, "hold");
    assert_false(hear(&b, 500));
    int64_t killed = ts_now_ms();
    bury(&a);
    uint64_t second = expect_token(&b, ttl + 1000);
    /* A row lock ends with the connection: at once. */
    if (mode == ROWLOCK_PESSIMISTIC)
        assert_between(0, ts_now_ms() - killed, 1000);
    assert_true(second > first);
    expect_beats(name, second);
    tell(&b, "release");
    expect(&b, "RELEASE OK", 5000);
    finish(&b);
    assert_int_equal(late_beats(name), 0);
}

static void test_holder_stopped(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = new_lock("stopped");
    int64_t ttl = 2000;
    holder a = start(name, mode, ttl, "hold");
    uint64_t first = expect_token(&a, 10000);
    expect_beats(name, first);
    holder b = start(name, mode, ttl, "hold");
    /* Not in the middle of a beat, which no lock could call back. */
    tell(&a, "pause");
    expect(&a, "PAUSED", 5000);
    kill(a.pid, SIGSTOP);
    uint64_t second = expect_token(&b, ttl + 1000);
    assert_true(second > first);
    expect_beats(name, second);
    tell(&a, "resume");
    kill(a.pid, SIGCONT);
    expect(&a, "LOST", 2000);
    tell(&a, "check");
    expect(&a, "CHECK LOST", 2000);
    tell(&a, "release");
    expect(&a, "RELEASE LOST", 5000);
    /* The late release has harmed nobody. */
    tell(&b, "check");
    expect(&b, "CHECK OK", 2000);
    expect_beats(name, second);
    tell(&b, "release");
    expect(&b, "RELEASE OK", 5000);
    finish(&a);
    finish(&b);
    assert_int_equal(late_beats(name), 0);
}

/* Stopped for less than its TTL: nothing happens. */
static void test_holder_stopped_for_a_moment(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = new_lock("moment");
    holder a = start(name, mode, 3000, "hold");
    uint64_t first = expect_token(&a, 10000);
    holder b = start(name, mode, 3000, "hold");
    for (int i = 0; i < 3; i++) {
        kill(a.pid, SIGSTOP);
        ts_pass_ms(500);
        kill(a.pid, SIGCONT);
        ts_pass_ms(300);
    }
    tell(&a, "check");
    expect(&a, "CHECK OK", 2000);
    expect_beats(name, first);
    assert_false(hear(&b, 100));
    tell(&a, "release");
    expect(&a, "RELEASE OK", 5000);
    expect_token(&b, 2000);
    finish(&a);
    finish(&b);
    assert_int_equal(late_beats(name), 0);
}

/* A child has the holder's sockets and lives on, silent, when the holder is killed. */
static void test_fork_in_a_holder(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = new_lock("forked");
    int64_t ttl = 2000;
    holder a = start(name, mode, ttl, "hold");
    uint64_t first = expect_token(&a, 10000);
    tell(&a, "fork");
    expect(&a, "CHILD ", 5000);
    pid_t child = (pid_t)strtol(a.line + 6, NULL, 10);
    holder b = start(name, mode, ttl, "hold");
    /* While both live, the lock is the parent's. */
    assert_false(hear(&b, ttl + 500));
    tell(&a, "check");
    expect(&a, "CHECK OK", 2000);
    bury(&a);
    uint64_t second = expect_token(&b, ttl + 1000);
    assert_true(second > first);
    kill(child, SIGKILL);
    expect_beats(name, second);
    finish(&b);
    assert_int_equal(late_beats(name), 0);
}

static void kill_connections(void)
{
    char *ids = ts_sql_text(mysql,
                            "SELECT GROUP_CONCAT(id) FROM information_schema.processlist"
                            " WHERE id <> CONNECTION_ID() AND db = '%s'",
                            ts_schema());
    for (char *at = ids; *at;) {
        unsigned long id = strtoul(at, &at, 10);
        ts_sql_try(mysql, "KILL CONNECTION %lu", id);
        at += *at == ',';
    }
    free(ids);
}

/* The server ends every connection there is: of the holder, of the waiter. */
static void test_connections_cut(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = new_lock("cut");
    int64_t ttl = 2000;
    holder a = start(name, mode, ttl, "hold");
    uint64_t first = expect_token(&a, 10000);
    holder b = start(name, mode, ttl, "hold");
    expect_beats(name, first);
    /* Its socket is watched once it is 50 ms old (docs/guarantees.md, 4). */
    ts_pass_ms(100);
    tell(&a, "pause");
    expect(&a, "PAUSED", 5000);
    kill_connections();
    tell(&a, "resume");
    if (mode == ROWLOCK_PESSIMISTIC) {
        expect(&a, "LOST", 1000);
        uint64_t second = expect_token(&b, ttl + 1000);
        assert_true(second > first);
        expect_beats(name, second);
        tell(&a, "release");
        expect(&a, "RELEASE LOST", 5000);
    } else {
        /* A lease outlives its connections. */
        assert_false(hear(&b, ttl + 500));
        tell(&a, "check");
        expect(&a, "CHECK OK", 2000);
        expect_beats(name, first);
        tell(&a, "release");
        expect(&a, "RELEASE OK", 5000);
        assert_true(expect_token(&b, 2000) > first);
    }
    finish(&a);
    finish(&b);
    assert_int_equal(late_beats(name), 0);
}

/* ---------------------------------------------------------------------------- server */

static void test_server_killed_while_held(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = new_lock("server");
    int64_t ttl = 15000;
    holder a = start(name, mode, ttl, "hold");
    uint64_t first = expect_token(&a, 10000);
    expect_beats(name, first);
    holder b = start(name, mode, ttl, "hold");
    assert_false(hear(&b, 300));
    ts_own_kill();
    if (mode == ROWLOCK_PESSIMISTIC)
        expect(&a, "LOST", 1000);
    ts_own_restart();
    reconnect();
    if (mode == ROWLOCK_PESSIMISTIC) {
        uint64_t second = expect_token(&b, ttl + 1000);
        assert_true(second > first);
        expect_beats(name, second);
        tell(&a, "release");
        expect(&a, "RELEASE LOST", 5000);
    } else {
        /* The outage was shorter than its TTL: it is renewed and goes on. */
        tell(&a, "check");
        expect(&a, "CHECK OK", 2000);
        expect_beats(name, first);
        assert_false(hear(&b, 500));
        tell(&a, "release");
        expect(&a, "RELEASE OK", 5000);
        assert_true(expect_token(&b, 5000) > first);
    }
    finish(&a);
    finish(&b);
    assert_int_equal(late_beats(name), 0);
}

static void test_server_away_for_longer_than_the_ttl(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = new_lock("away");
    int64_t ttl = 1000;
    holder a = start(name, mode, ttl, "hold");
    uint64_t first = expect_token(&a, 10000);
    expect_beats(name, first);
    holder b = start(name, mode, ttl, "hold");
    ts_own_kill();
    expect(&a, "LOST", ttl + 200);
    ts_own_restart();
    int64_t back = ts_now_ms();
    reconnect();
    uint64_t second = expect_token(&b, ttl + 1000);
    assert_between(0, ts_now_ms() - back, ttl + 1000);
    assert_true(second > first);
    expect_beats(name, second);
    tell(&a, "release");
    expect(&a, "RELEASE LOST", 5000);
    tell(&b, "check");
    expect(&b, "CHECK OK", 2000);
    finish(&a);
    finish(&b);
    assert_int_equal(late_beats(name), 0);
}

/* The kill comes a little before, with, and a little after the release. */
static void test_server_killed_in_a_release(void **state)
{
    static const int64_t leads_ms[] = {0, 10, 40};
    rowlock_mode mode = ts_mode(state);
    const char *name = new_lock("in-release");
    int64_t ttl = 1500;
    uint64_t last = 0;
    for (size_t i = 0; i < sizeof leads_ms / sizeof leads_ms[0]; i++) {
        holder a = start(name, mode, ttl, "hold");
        uint64_t token = expect_token(&a, ttl + 10000);
        assert_true(token > last);
        last = token;
        pid_t killer = fork();
        if (killer == 0) {
            ts_own_kill();
            _exit(0);
        }
        ts_pass_ms(leads_ms[i]);
        tell(&a, "release");
        ts_reap(killer, 20000);
        ts_own_restart();
        reconnect();
        while (hear(&a, 20000) && strncmp(a.line, "LOST", 4) == 0)
            continue;
        assert_memory_equal(a.line, "RELEASE ", 8);
        const char *said = a.line + 8;
        assert_true(strcmp(said, "OK") == 0 || strcmp(said, "UNKNOWN") == 0 ||
                    strcmp(said, "UNAVAILABLE") == 0 || strcmp(said, "LOST") == 0);
        finish(&a);
    }
    holder b = start(name, mode, ttl, "hold");
    assert_true(expect_token(&b, ttl + 1000) > last);
    finish(&b);
    assert_int_equal(late_beats(name), 0);
}

enum { STORM = 6 };

static void expect_progress(const char *name, int64_t within_ms)
{
    uint64_t before = guard(name, "beats");
    assert_true(POLL_UNTIL(guard(name, "beats") > before + 10, within_ms));
}

static unsigned end_of_storm(holder *h)
{
    unsigned cycles = 0;
    close(h->in);
    while (hear(h, 30000) && sscanf(h->line, "CYCLES %u", &cycles) != 1) {
        print_error("%s\n", h->line);
        fail();
    }
    assert_int_equal(ts_reap(h->pid, 10000), 0);
    close(h->out);
    return cycles;
}

/* Acquires, waits and releases of six processes, and the server dies in between. */
static void test_server_killed_in_a_storm(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = new_lock("storm");
    int64_t ttl = 1500;
    holder storm[STORM];
    for (int i = 0; i < STORM; i++)
        storm[i] = start(name, mode, ttl, "storm");
    for (int round = 0; round < 3; round++) {
        expect_progress(name, ttl + 5000);
        ts_pass_ms(37 * (round + 1)); /* another moment each time */
        ts_own_kill();
        ts_own_restart();
        reconnect();
        /* Whoever had it: the next one gets in within TTL + 1 s, and it goes on. */
        expect_progress(name, ttl + 1000 + 2000);
    }
    unsigned all = 0;
    for (int i = 0; i < STORM; i++)
        all += end_of_storm(&storm[i]);
    assert_true(all > 30);
    assert_int_equal(late_beats(name), 0);
}

/* A storm in which the server ends connections, and processes are killed and replaced. */
static void test_kills_in_a_storm(void **state)
{
    rowlock_mode mode = ts_mode(state);
    const char *name = new_lock("kills");
    int64_t ttl = 1000;
    holder storm[STORM];
    for (int i = 0; i < STORM; i++)
        storm[i] = start(name, mode, ttl, "storm");
    for (int round = 0; round < 8; round++) {
        expect_progress(name, ttl + 3000);
        bury(&storm[round % STORM]);
        storm[round % STORM] = start(name, mode, ttl, "storm");
        if (mode == ROWLOCK_OPTIMISTIC)
            kill_connections();
    }
    for (int i = 0; i < STORM; i++)
        end_of_storm(&storm[i]);
    assert_int_equal(late_beats(name), 0);
}

/* ------------------------------------------------------------------------------ main */

static int begin(void **state)
{
    ts_own_start();
    ts_suite_begin(state);
    reconnect();
    ts_guard_tables(mysql);
    return 0;
}

static int end(void **state)
{
    (void)state;
    mysql_close(mysql);
    ts_own_remove();
    return 0;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        BOTH(test_holder_killed),
        BOTH(test_holder_stopped),
        BOTH(test_holder_stopped_for_a_moment),
        BOTH(test_fork_in_a_holder),
        BOTH(test_connections_cut),
        BOTH(test_server_killed_while_held),
        BOTH(test_server_away_for_longer_than_the_ttl),
        BOTH(test_server_killed_in_a_release),
        BOTH(test_server_killed_in_a_storm),
        BOTH(test_kills_in_a_storm),
    };
    (void)argc;
    signal(SIGPIPE, SIG_IGN);
    snprintf(holder_path, sizeof holder_path, "%.*s/faults_holder",
             (int)(strrchr(argv[0], '/') - argv[0]), argv[0]);
    return cmocka_run_group_tests_name("death", tests, begin, end);
}
