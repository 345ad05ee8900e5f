/* The measuring core: percentiles, counting, and that it notices a lock that is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cli/measure.h"

/* ---------------------------------------------------------------- histogram */

static void assert_near(double value, double wanted)
{
    if (value < wanted * 0.99 || value > wanted * 1.01)
        fail_msg("%f is not within 1 %% of %f", value, wanted);
}

static void test_percentiles(void **state)
{
    (void)state;
    static measure_histogram histogram;
    assert_true(measure_histogram_at(&histogram, 0.5) == -1);
    for (int64_t us = 1; us <= 10000; us++)
        measure_histogram_add(&histogram, us * 1000);
    assert_int_equal(histogram.count, 10000);
    assert_near(measure_histogram_at(&histogram, 0.0001), 1e3);
    assert_near(measure_histogram_at(&histogram, 0.5), 5000e3);
    assert_near(measure_histogram_at(&histogram, 0.99), 9900e3);
    assert_near(measure_histogram_at(&histogram, 0.999), 9990e3);
    assert_near(measure_histogram_at(&histogram, 1), 10000e3);
}

/* Every magnitude, and the ends of the octaves. */
static void test_error_of_a_bucket(void **state)
{
    (void)state;
    for (int64_t ns = 1; ns < 500000000000; ns = ns * 5 / 4 + 1) {
        measure_histogram histogram = {0};
        measure_histogram_add(&histogram, ns);
        assert_near(measure_histogram_at(&histogram, 0.5), (double)ns);
    }
    for (int shift = 0; shift < 39; shift++) {
        for (int64_t ns = (1LL << shift) - 1; ns <= (1LL << shift); ns++) {
            measure_histogram histogram = {0};
            measure_histogram_add(&histogram, ns);
            assert_near(measure_histogram_at(&histogram, 1), (double)ns);
        }
    }
}

static void test_beyond_the_ends(void **state)
{
    (void)state;
    measure_histogram histogram = {0};
    measure_histogram_add(&histogram, -5);
    assert_true(measure_histogram_at(&histogram, 1) == 0);
    measure_histogram_add(&histogram, INT64_MAX);
    assert_int_equal(histogram.count, 2);
    assert_near(measure_histogram_at(&histogram, 1), (double)(1LL << 39));
}

static void test_merge(void **state)
{
    (void)state;
    static measure_histogram one;
    static measure_histogram other;
    for (int i = 0; i < 99; i++)
        measure_histogram_add(&one, 1000);
    measure_histogram_add(&other, 7000);
    measure_histogram_merge(&one, &other);
    assert_int_equal(one.count, 100);
    assert_near(measure_histogram_at(&one, 0.99), 1000);
    assert_near(measure_histogram_at(&one, 0.999), 7000);
}

/* ---------------------------------------------------------- systems to measure */

typedef struct shared {
    sem_t lock;
    _Atomic unsigned opened;
    _Atomic unsigned closed;
    _Atomic unsigned acquired;
    _Atomic unsigned released;
    _Atomic unsigned prepared;
    _Atomic unsigned tidied;
    _Atomic unsigned names;
    char name[MEASURE_NAME_MAX];
} shared;

static shared *board;

static bool fake_prepare(const measure_system *system, const char *const names[], size_t count,
                         measure_reason *why)
{
    (void)system;
    (void)why;
    board->prepared++;
    board->names = (unsigned)count;
    memcpy(board->name, names[count - 1], strlen(names[count - 1]) + 1);
    return true;
}

static bool fake_tidy(const measure_system *system, const char *const names[], size_t count,
                      measure_reason *why)
{
    (void)system;
    (void)names;
    (void)count;
    (void)why;
    board->tidied++;
    return true;
}

static bool fake_open(const measure_system *system, void **session, measure_reason *why)
{
    (void)system;
    (void)why;
    board->opened++;
    *session = board;
    return true;
}

static void fake_close(void *session)
{
    (void)session;
    board->closed++;
}

static bool semaphore_acquire(void *session, const char *name, int64_t wait_ms, measure_reason *why)
{
    (void)session;
    (void)name;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += wait_ms / 1000 + 1;
    while (sem_timedwait(&board->lock, &until) != 0) {
        if (errno != EINTR)
            return measure_because(why, "not in time");
    }
    board->acquired++;
    return true;
}

static bool semaphore_release(void *session, const char *name, measure_reason *why)
{
    (void)session;
    (void)name;
    (void)why;
    board->released++;
    sem_post(&board->lock);
    return true;
}

/* A lock that everybody gets. */
static bool open_door(void *session, const char *name, int64_t wait_ms, measure_reason *why)
{
    (void)session;
    (void)name;
    (void)wait_ms;
    (void)why;
    return true;
}

static bool leave_door(void *session, const char *name, measure_reason *why)
{
    (void)session;
    (void)name;
    (void)why;
    return true;
}

/* The second of all calls fails. */
static bool second_fails(void *session, const char *name, int64_t wait_ms, measure_reason *why)
{
    (void)session;
    (void)name;
    (void)wait_ms;
    if (++board->acquired != 2)
        return true;
    why->exit_status = 69;
    return measure_because(why, "the cat sat on it");
}

static bool dies(void *session, const char *name, int64_t wait_ms, measure_reason *why)
{
    (void)session;
    (void)name;
    (void)wait_ms;
    (void)why;
    if (++board->acquired == 2)
        raise(SIGKILL);
    return true;
}

static measure_system semaphore_system(void)
{
    return (measure_system){
        .id = "semaphore",
        .name = "semaphore",
        .keeps = "memory",
        .pids = {getpid()},
        .prepare = fake_prepare,
        .tidy = fake_tidy,
        .open = fake_open,
        .acquire = semaphore_acquire,
        .release = semaphore_release,
        .close = fake_close,
    };
}

static int setup(void **state)
{
    (void)state;
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return board == MAP_FAILED ? -1 : sem_init(&board->lock, 1, 1);
}

static int teardown(void **state)
{
    (void)state;
    return munmap(board, sizeof *board);
}

static measure_load load_of(unsigned clients, bool hot)
{
    return (measure_load){
        .prefix = "test", .clients = clients, .hot = hot, .window_ms = 100, .warm_up_ms = 20};
}

/* ------------------------------------------------------------------ measuring */

static void test_hot(void **state)
{
    (void)state;
    measure_system system = semaphore_system();
    measure_load load = load_of(3, true);
    measure_figures figures;
    measure_reason why;
    load.work_us = 200;
    if (!measure_run(&system, &load, &figures, &why))
        fail_msg("%s", why.text);
    assert_int_equal(board->prepared, 1);
    assert_int_equal(board->tidied, 1);
    assert_int_equal(board->names, 1);
    assert_string_equal(board->name, "test/semaphore/hot");
    assert_int_equal(board->opened, 3);
    assert_int_equal(board->closed, 3);
    assert_int_equal(board->acquired, board->released);
    assert_int_equal(figures.violations, 0);
    assert_int_equal(figures.failed, 0);
    /* One at a time, each for 200 us: no more than 500 in 100 ms, and one on the edge. */
    assert_in_range(figures.cycles, 1, 501);
    assert_true(figures.cycles < board->acquired);
    assert_in_range(figures.most_turns, figures.least_turns, figures.cycles);
    assert_true(figures.own.p50 >= figures.acquire.p50 * 0.99);
    assert_true(figures.acquire.p999 >= figures.acquire.p99);
    assert_true(figures.cycles_per_second > 9);
    assert_true(figures.server_percent >= 0);
}

static void test_distinct(void **state)
{
    (void)state;
    measure_system system = semaphore_system();
    measure_load load = load_of(2, false);
    measure_figures figures;
    measure_reason why;
    system.acquire = open_door;
    system.release = leave_door;
    if (!measure_run(&system, &load, &figures, &why))
        fail_msg("%s", why.text);
    assert_int_equal(board->names, 2);
    assert_string_equal(board->name, "test/semaphore/2");
    assert_true(figures.cycles > 100);
    assert_true(figures.least_turns > 0);
    /* Nobody hands a name of his own over to anybody. */
    assert_true(figures.hand_over.p50 == -1);
}

static void test_a_lock_that_is_none(void **state)
{
    (void)state;
    measure_system system = semaphore_system();
    measure_load load = load_of(2, true);
    measure_figures figures;
    measure_reason why;
    load.work_us = 100;
    system.acquire = open_door;
    system.release = leave_door;
    assert_false(measure_run(&system, &load, &figures, &why));
    assert_true(figures.violations > 0);
    assert_non_null(strstr(why.text, "MUTUAL EXCLUSION"));
    assert_int_equal(board->tidied, 1);
}

static void test_a_client_that_fails(void **state)
{
    (void)state;
    measure_system system = semaphore_system();
    measure_load load = load_of(3, false);
    measure_figures figures;
    measure_reason why;
    system.acquire = second_fails;
    system.release = leave_door;
    assert_false(measure_run(&system, &load, &figures, &why));
    assert_string_equal(why.text, "1 of 3 clients failed: the cat sat on it");
    assert_int_equal(why.exit_status, 69);
    assert_int_equal(figures.failed, 1);
    assert_int_equal(board->closed, board->opened);
    assert_int_equal(board->tidied, 1);
}

static void test_a_client_that_dies(void **state)
{
    (void)state;
    measure_system system = semaphore_system();
    measure_load load = load_of(2, false);
    measure_figures figures;
    measure_reason why;
    system.acquire = dies;
    system.release = leave_door;
    assert_false(measure_run(&system, &load, &figures, &why));
    assert_string_equal(why.text, "1 of 2 clients failed: ended by signal 9");
    assert_int_equal(board->tidied, 1);
}

static void test_no_such_load(void **state)
{
    (void)state;
    measure_system system = semaphore_system();
    measure_load load = load_of(0, false);
    measure_figures figures;
    measure_reason why;
    assert_false(measure_run(&system, &load, &figures, &why));
    load.clients = MEASURE_CLIENTS_MAX + 1;
    assert_false(measure_run(&system, &load, &figures, &why));
    assert_int_equal(board->prepared, 0);
}

static void on_alarm(int signo)
{
    (void)signo;
    measure_stop();
}

/* The last one: what is stopped stays so. */
static void test_stopped(void **state)
{
    (void)state;
    measure_system system = semaphore_system();
    measure_load load = load_of(2, true);
    measure_figures figures;
    measure_reason why;
    load.window_ms = 60000;
    signal(SIGALRM, on_alarm);
    ualarm(200000, 0);
    int64_t start = measure_now_ns();
    assert_false(measure_run(&system, &load, &figures, &why));
    assert_string_equal(why.text, "interrupted");
    assert_true(measure_now_ns() - start < 20000000000);
    assert_int_equal(board->acquired, board->released);
    assert_int_equal(board->closed, 2);
    assert_int_equal(board->tidied, 1);
    assert_false(measure_run(&system, &load, &figures, &why));
    assert_int_equal(board->prepared, 1);
}

#define WITH_BOARD(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles),
        cmocka_unit_test(test_error_of_a_bucket),
        cmocka_unit_test(test_beyond_the_ends),
        cmocka_unit_test(test_merge),
        WITH_BOARD(test_hot),
        WITH_BOARD(test_distinct),
        WITH_BOARD(test_a_lock_that_is_none),
        WITH_BOARD(test_a_client_that_fails),
        WITH_BOARD(test_a_client_that_dies),
        WITH_BOARD(test_no_such_load),
        WITH_BOARD(test_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
