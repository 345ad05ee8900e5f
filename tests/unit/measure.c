/* The measuring core: percentiles, counting, and that it notices a lock that does not exclude. */

#include <semaphore.h>
#include <sys/mman.h>

#include "../../bench/measure.h"
#include "support/unit.h"

static void assert_near(double value, double wanted)
{
    if (value < wanted * 0.99 || value > wanted * 1.01)
        fail_msg("%f is not within 1 %% of %f", value, wanted);
}

TS_ONCE(test_percentiles)
{
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

typedef enum door_kind { SEMAPHORE, OPEN_TO_ALL, FAILS_ONCE, KILLS_ONCE } door_kind;

typedef struct shared {
    sem_t lock;
    door_kind door;
    _Atomic unsigned opened;
    _Atomic unsigned closed;
    _Atomic unsigned acquired;
    _Atomic unsigned released;
    _Atomic unsigned prepared;
    _Atomic unsigned tidied;
} shared;

#define UNUSED __attribute__((unused))

static shared *board;

static bool fake_prepare(UNUSED const measure_system *system, UNUSED const char *const names[],
                         UNUSED size_t count, UNUSED measure_reason *why)
{
    board->prepared++;
    return true;
}

static bool fake_tidy(UNUSED const measure_system *system, UNUSED const char *const names[],
                      UNUSED size_t count, UNUSED measure_reason *why)
{
    board->tidied++;
    return true;
}

static bool fake_open(UNUSED const measure_system *system, void **session,
                      UNUSED measure_reason *why)
{
    board->opened++;
    *session = board;
    return true;
}

static void fake_close(UNUSED void *session)
{
    board->closed++;
}

static bool wait_for_semaphore(int64_t wait_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += wait_ms / 1000 + 1;
    while (sem_timedwait(&board->lock, &until) != 0)
        if (errno != EINTR)
            return false;
    return true;
}

/* A real lock, or one that every client gets at once; or the second call fails, or kills its
 * process. */
static bool fake_acquire(UNUSED void *session, UNUSED const char *name, int64_t wait_ms,
                         measure_reason *why)
{
    if (board->door == SEMAPHORE && !wait_for_semaphore(wait_ms))
        return measure_because(why, "not in time");
    bool second = ++board->acquired == 2;
    if (second && board->door == KILLS_ONCE)
        raise(SIGKILL);
    if (!second || board->door != FAILS_ONCE)
        return true;
    why->exit_status = 69;
    return measure_because(why, "the cat sat on it");
}

static bool fake_release(UNUSED void *session, UNUSED const char *name, UNUSED measure_reason *why)
{
    board->released++;
    if (board->door == SEMAPHORE)
        sem_post(&board->lock);
    return true;
}

static int setup(TS_NO_STATE)
{
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return board == MAP_FAILED ? -1 : sem_init(&board->lock, 1, 1);
}

static int teardown(TS_NO_STATE)
{
    return munmap(board, sizeof *board);
}

/* (On a busy machine no client may get a turn in 100 ms.) */
static measure_load load_of(unsigned clients, bool hot)
{
    return (measure_load){
        .prefix = "test", .clients = clients, .hot = hot, .window_ms = 1000, .warm_up_ms = 20};
}

static measure_figures figures;
static measure_reason why;

static bool measured(door_kind door, measure_load load)
{
    const measure_system system = {
        .id = "semaphore",
        .name = "semaphore",
        .keeps = "memory",
        .pids = {getpid()},
        .prepare = fake_prepare,
        .tidy = fake_tidy,
        .open = fake_open,
        .acquire = fake_acquire,
        .release = fake_release,
        .close = fake_close,
    };
    board->door = door;
    return measure_run(&system, &load, &figures, &why);
}

TS_ONCE(test_hot)
{
    measure_load load = load_of(3, true);
    load.work_us = 200;
    if (!measured(SEMAPHORE, load))
        fail_msg("%s", why.text);
    assert_int_equal(board->prepared, 1);
    assert_int_equal(board->tidied, 1);
    assert_int_equal(board->opened, 3);
    assert_int_equal(board->closed, 3);
    assert_int_equal(board->acquired, board->released);
    assert_int_equal(figures.violations, 0);
    assert_int_equal(figures.failed, 0);
    /* One at a time, each for 200 us: at most 5000 in a second, and one that ends later. */
    assert_in_range(figures.cycles, 1, 5001);
    assert_true(figures.cycles < board->acquired);
    assert_in_range(figures.most_turns, figures.least_turns, figures.cycles);
    assert_true(figures.own.p50 >= figures.acquire.p50 * 0.99);
    assert_true(figures.acquire.p999 >= figures.acquire.p99);
    assert_true(figures.cycles_per_second > 0.9);
    assert_true(figures.server_percent >= 0);
}

TS_ONCE(test_a_lock_that_is_none)
{
    measure_load load = load_of(2, true);
    load.work_us = 100;
    assert_false(measured(OPEN_TO_ALL, load));
    assert_true(figures.violations > 0);
    assert_non_null(strstr(why.text, "MUTUAL EXCLUSION"));
    assert_int_equal(board->tidied, 1);
}

TS_ONCE(test_a_client_that_fails)
{
    assert_false(measured(FAILS_ONCE, load_of(3, false)));
    assert_string_equal(why.text, "1 of 3 clients failed: the cat sat on it");
    assert_int_equal(why.exit_status, 69);
    assert_int_equal(figures.failed, 1);
    assert_int_equal(board->closed, board->opened);
    assert_int_equal(board->tidied, 1);
}

TS_ONCE(test_a_client_that_dies)
{
    assert_false(measured(KILLS_ONCE, load_of(2, false)));
    assert_string_equal(why.text, "1 of 2 clients failed: ended by signal 9");
    assert_int_equal(board->tidied, 1);
}

static void on_alarm(int signo)
{
    (void)signo;
    measure_stop();
}

/* The last test: measuring that was stopped by a signal stays stopped. */
TS_ONCE(test_stopped)
{
    measure_load load = load_of(2, true);
    load.window_ms = 60000;
    signal(SIGALRM, on_alarm);
    alarm(2); /* when the clients have begun */
    int64_t start = measure_now_ns();
    assert_false(measured(SEMAPHORE, load));
    assert_string_equal(why.text, "interrupted");
    assert_true(measure_now_ns() - start < 20000000000);
    assert_int_equal(board->acquired, board->released);
    assert_int_equal(board->closed, 2);
    assert_int_equal(board->tidied, 1);
    assert_false(measured(SEMAPHORE, load));
    assert_int_equal(board->prepared, 1);
}

int main(void)
{
    return ts_run_each("measure", setup, teardown, NULL, NULL);
}
