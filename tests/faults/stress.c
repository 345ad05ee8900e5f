/*
 * 16 processes of two threads each on one unprotected counter: read it, wait for a random
 * moment, write what was read plus one. Under the lock not one update is lost, and the tokens
 * rise strictly in the order of the sections. A control run without the lock must lose some,
 * or the test proves nothing.
 *
 * ROWLOCK_STRESS_SECTIONS: sections of all threads together; 6400 where not set, 20000
 * in a long run.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/counter.h"

enum { PROCESSES = 16, THREADS = 2, WORKERS = PROCESSES * THREADS, WAIT_MOST_US = 1000 };

typedef struct run {
    const char *name;
    bool locked;
    rowlock_mode mode;
    unsigned sections; /* of each worker */
    int gate;          /* readable when all may begin */
} run;

typedef struct worker {
    const run *run;
    rowlock_client *client;
    MYSQL *mysql;
    unsigned seed;
    int failed; /* a line was said */
    pthread_t thread;
} worker;

/* ----------------------------------------------------------------------- the workers */

static bool add_one(worker *w, uint64_t token)
{
    uint64_t before = 0;
    unsigned moment_us = (unsigned)rand_r(&w->seed) % (WAIT_MOST_US + 1);
    return ts_counter_add(w->mysql, w->run->name, token, moment_us, &before);
}

static bool section(worker *w)
{
    rowlock_error err;
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {
        .mode = w->run->mode, .wait_ms = ROWLOCK_WAIT_FOREVER, .ttl_ms = 30000};
    if (!w->run->locked)
        return add_one(w, 0);
    rowlock_status status = rowlock_acquire(w->client, w->run->name, &options, &hold, &err);
    bool good = status == ROWLOCK_OK && add_one(w, rowlock_hold_token(hold));
    if (status == ROWLOCK_OK)
        status = rowlock_release(hold, &err);
    if (status != ROWLOCK_OK)
        fprintf(stderr, "%s: %s\n", rowlock_status_name(status), err.message);
    return good && status == ROWLOCK_OK;
}

static void *work(void *arg)
{
    worker *w = arg;
    for (unsigned i = 0; i < w->run->sections && !w->failed; i++)
        w->failed = !section(w);
    mysql_thread_end();
    return NULL;
}

static bool connect_worker(worker *w)
{
    w->mysql = mysql_init(NULL);
    return mysql_real_connect(w->mysql, NULL, "root", NULL, ts_schema(), 0, ts_socket(), 0) != NULL;
}

static int process(void *arg)
{
    const run *r = arg;
    rowlock_client_options options = ts_options();
    rowlock_error err;
    rowlock_client *client = NULL;
    worker workers[THREADS];
    int failed = 0;
    options.connect_timeout_ms = 30000;
    if (rowlock_client_open(&options, &client, &err) != ROWLOCK_OK) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.run = r, .client = client};
        workers[i].seed = (unsigned)getpid() * THREADS + (unsigned)i;
        failed |= !connect_worker(&workers[i]);
    }
    char c;
    if (failed || read(r->gate, &c, 1) != 1)
        return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        failed |= workers[i].failed;
        mysql_close(workers[i].mysql);
    }
    rowlock_client_close(client);
    return failed;
}

/* -------------------------------------------------------------------------- the runs */

static unsigned sections_in_all(void)
{
    const char *given = getenv("ROWLOCK_STRESS_SECTIONS");
    unsigned usual = ts_rounds(ts_long() ? 20000 : 6400);
    return given && *given ? (unsigned)strtoul(given, NULL, 10) : usual;
}

/* The counter at the end; *expected is what it should be. */
static uint64_t run_all(run r, unsigned sections, uint64_t *expected)
{
    int gate[2];
    pid_t pids[PROCESSES];
    MYSQL *mysql = ts_connect(ts_schema());
    r.sections = (sections + WORKERS - 1) / WORKERS;
    *expected = (uint64_t)r.sections * WORKERS;
    ts_counter_make(mysql, r.name);
    assert_int_equal(pipe(gate), 0);
    r.gate = gate[0];
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = ts_fork(process, &r);
    int64_t start = ts_now_ms();
    char all[PROCESSES] = {0};
    assert_int_equal(write(gate[1], all, PROCESSES), PROCESSES);
    int failed = 0;
    for (int i = 0; i < PROCESSES; i++)
        failed |= ts_reap(pids[i], 800000);
    assert_int_equal(failed, 0);
    int64_t took = ts_now_ms() - start;
    uint64_t value = ts_counter_value(mysql, r.name);
    print_message("# %s: %" PRIu64 " sections in %" PRId64 " ms, counter %" PRIu64 "\n",
                  r.locked ? ts_mode_word(r.mode) : "no lock", *expected, took, value);
    mysql_close(mysql);
    close(gate[0]);
    close(gate[1]);
    return value;
}

static void test_no_update_is_lost(void **state)
{
    uint64_t expected = 0;
    run r = {.name = ts_name("counter"), .locked = true, .mode = ts_mode(state)};
    uint64_t value = run_all(r, sections_in_all(), &expected);
    assert_int_equal(value, expected);
}

static void test_without_the_lock_some_are_lost(void **state)
{
    uint64_t expected = 0;
    run r = {.name = ts_name("control"), .locked = false};
    (void)state;
    uint64_t value = run_all(r, sections_in_all() / 10, &expected);
    assert_true(value < expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ONCE(test_without_the_lock_some_are_lost),
        BOTH(test_no_update_is_lost),
    };
    return cmocka_run_group_tests_name("stress", tests, ts_suite_begin, ts_suite_end);
}
