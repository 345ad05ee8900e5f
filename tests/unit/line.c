/* The line in which threads of one client stand for the same lock (wait/line.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "rowlock/rowlock.h"
#include "wait/line.h"

enum { MANY = 12, KEY = 7 };

static rl_lines lines;

static int begin(void **state)
{
    (void)state;
    return rl_lines_init(&lines, NULL) == ROWLOCK_OK ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    rl_lines_destroy(&lines, false);
    return 0;
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;
    DIR *dir = opendir("/proc/self/fd");
    assert_non_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

static unsigned standing_for(uint64_t key)
{
    unsigned count = 0;
    pthread_mutex_lock(&lines.mutex);
    for (rl_place *p = lines.buckets[key % RL_LINE_BUCKETS].first; p; p = p->next)
        count += p->key == key;
    pthread_mutex_unlock(&lines.mutex);
    return count;
}

/* Until so many stand for it, or ten seconds. */
static bool stand_soon(uint64_t key, unsigned wanted)
{
    int64_t end_us = rl_now_us() + 10000000;
    while (standing_for(key) != wanted && rl_now_us() < end_us)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return standing_for(key) == wanted;
}

/* -------------------------------------------------------------------------- one thread */

static rowlock_status stand(uint64_t key, int64_t wait_ms, rowlock_cancel *cancel, rl_place *place)
{
    rowlock_error err = {0};
    rl_budget budget = rl_budget_start(wait_ms, 10000, cancel);
    return rl_line_stand(&lines, key, &budget, place, &err);
}

static void test_the_first_does_not_wait(void **state)
{
    rl_place place;
    unsigned before = open_descriptors();
    (void)state;
    assert_int_equal(stand(KEY, 0, NULL, &place), ROWLOCK_OK);
    assert_true(place.standing);
    assert_true(standing_for(KEY));
    assert_int_equal(open_descriptors(), before);
    rl_line_leave(&lines, &place);
    assert_false(place.standing);
    assert_false(standing_for(KEY));
}

static void test_leaving_twice_is_nothing(void **state)
{
    rl_place place = {0};
    rl_place other;
    (void)state;
    rl_line_leave(&lines, &place);
    assert_int_equal(stand(KEY, 0, NULL, &place), ROWLOCK_OK);
    rl_line_leave(&lines, &place);
    assert_int_equal(stand(KEY, 0, NULL, &other), ROWLOCK_OK);
    rl_line_leave(&lines, &place);
    assert_true(standing_for(KEY));
    rl_line_leave(&lines, &other);
}

static void test_a_wait_ends_on_time_and_leaves_nothing(void **state)
{
    rl_place first;
    rl_place second;
    unsigned before = open_descriptors();
    (void)state;
    assert_int_equal(stand(KEY, 0, NULL, &first), ROWLOCK_OK);
    int64_t start = rl_now_us();
    assert_int_equal(stand(KEY, 50, NULL, &second), ROWLOCK_TIMEOUT);
    assert_in_range(rl_now_us() - start, 50000, 150000);
    assert_false(second.standing);
    assert_int_equal(standing_for(KEY), 1);
    rl_line_leave(&lines, &first);
    assert_int_equal(open_descriptors(), before);
}

/* Keys that fall into the same bucket are strangers. */
static void test_neighbours_in_a_bucket(void **state)
{
    rl_place a;
    rl_place b;
    rl_place c;
    (void)state;
    assert_int_equal(stand(KEY, 0, NULL, &a), ROWLOCK_OK);
    assert_int_equal(stand(KEY + RL_LINE_BUCKETS, 0, NULL, &b), ROWLOCK_OK);
    assert_int_equal(stand(KEY + 2 * RL_LINE_BUCKETS, 0, NULL, &c), ROWLOCK_OK);
    assert_int_equal(stand(KEY + RL_LINE_BUCKETS, 20, NULL, &(rl_place){0}), ROWLOCK_TIMEOUT);
    rl_line_leave(&lines, &b);
    assert_false(standing_for(KEY + RL_LINE_BUCKETS));
    assert_true(standing_for(KEY));
    assert_true(standing_for(KEY + 2 * RL_LINE_BUCKETS));
    rl_line_leave(&lines, &a);
    rl_line_leave(&lines, &c);
}

/* ------------------------------------------------------------------------ many threads */

typedef struct one {
    pthread_t thread;
    rl_place place;
    rowlock_cancel *cancel;
    int64_t wait_ms;
    atomic_int status; /* -1: still waits */
    atomic_bool may_leave;
} one;

static void *stand_and_leave(void *arg)
{
    one *this = arg;
    rowlock_status status = stand(KEY, this->wait_ms, this->cancel, &this->place);
    atomic_store(&this->status, status);
    while (status == ROWLOCK_OK && !atomic_load(&this->may_leave))
        nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
    rl_line_leave(&lines, &this->place);
    return NULL;
}

/* One by one, so that the order is known. */
static void line_up(one *all, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        atomic_init(&all[i].status, -1);
        atomic_init(&all[i].may_leave, false);
        assert_int_equal(pthread_create(&all[i].thread, NULL, stand_and_leave, &all[i]), 0);
        assert_true(stand_soon(KEY, i + 1));
    }
}

static bool answers(one *this, int wanted)
{
    int64_t end_us = rl_now_us() + 10000000;
    while (atomic_load(&this->status) == -1 && rl_now_us() < end_us)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return atomic_load(&this->status) == wanted;
}

/* Those that still stand come to their turn one by one, in order; nobody earlier. */
static void serve(one *all, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        int status = atomic_load(&all[i].status);
        if (status == ROWLOCK_TIMEOUT || status == ROWLOCK_CANCELLED) {
            pthread_join(all[i].thread, NULL);
            continue;
        }
        assert_true(answers(&all[i], ROWLOCK_OK));
        for (unsigned later = i + 1; later < count; later++)
            assert_int_not_equal(atomic_load(&all[later].status), ROWLOCK_OK);
        atomic_store(&all[i].may_leave, true);
        pthread_join(all[i].thread, NULL);
    }
    assert_false(standing_for(KEY));
}

static void test_first_come_first_served(void **state)
{
    static one all[MANY];
    unsigned before = open_descriptors();
    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        all[i] = (one){.wait_ms = ROWLOCK_WAIT_FOREVER};
    line_up(all, MANY);
    serve(all, MANY);
    assert_int_equal(open_descriptors(), before);
}

/* Timeouts and cancels in the middle and at the end leave the others in their order. */
static void test_some_give_up(void **state)
{
    static one all[MANY];
    rowlock_cancel *cancel = NULL;
    unsigned before = open_descriptors();
    (void)state;
    assert_int_equal(rowlock_cancel_new(&cancel, NULL), ROWLOCK_OK);
    for (unsigned i = 0; i < MANY; i++)
        all[i] = (one){.wait_ms = ROWLOCK_WAIT_FOREVER};
    all[1].cancel = all[5].cancel = all[MANY - 1].cancel = cancel;
    all[2].wait_ms = all[6].wait_ms = 400;
    line_up(all, MANY);
    rowlock_cancel_fire(cancel);
    assert_true(answers(&all[1], ROWLOCK_CANCELLED));
    assert_true(answers(&all[5], ROWLOCK_CANCELLED));
    assert_true(answers(&all[MANY - 1], ROWLOCK_CANCELLED));
    assert_true(answers(&all[2], ROWLOCK_TIMEOUT));
    assert_true(answers(&all[6], ROWLOCK_TIMEOUT));
    assert_true(stand_soon(KEY, MANY - 5));
    serve(all, MANY);
    rowlock_cancel_free(cancel);
    assert_int_equal(open_descriptors(), before);
}

/* ----------------------------------------------------------------------------- a storm */

typedef struct stormer {
    pthread_t thread;
    unsigned seed;
    unsigned turns;
    unsigned odd;
} stormer;

static atomic_int inside[3];

static void *storm(void *arg)
{
    stormer *this = arg;
    for (int i = 0; i < 400; i++) {
        rl_place place;
        unsigned which = (this->seed = this->seed * 1103515245 + 12345) >> 16;
        uint64_t key = KEY + (uint64_t)RL_LINE_BUCKETS * (which % 3);
        rowlock_status status = stand(key, which % 7 == 0 ? 1 : 10000, NULL, &place);
        if (status == ROWLOCK_OK) {
            this->odd += atomic_fetch_add(&inside[which % 3], 1) != 0;
            this->turns++;
            atomic_fetch_sub(&inside[which % 3], 1);
        } else {
            this->odd += status != ROWLOCK_TIMEOUT;
        }
        rl_line_leave(&lines, &place);
    }
    return NULL;
}

static void test_a_storm(void **state)
{
    static stormer all[MANY];
    unsigned before = open_descriptors();
    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        all[i] = (stormer){.seed = i + 1};
        assert_int_equal(pthread_create(&all[i].thread, NULL, storm, &all[i]), 0);
    }
    for (unsigned i = 0; i < MANY; i++) {
        pthread_join(all[i].thread, NULL);
        assert_int_equal(all[i].odd, 0);
        assert_true(all[i].turns > 200);
    }
    for (unsigned i = 0; i < 3; i++)
        assert_false(standing_for(KEY + (uint64_t)RL_LINE_BUCKETS * i));
    assert_int_equal(open_descriptors(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_does_not_wait),
        cmocka_unit_test(test_leaving_twice_is_nothing),
        cmocka_unit_test(test_a_wait_ends_on_time_and_leaves_nothing),
        cmocka_unit_test(test_neighbours_in_a_bucket),
        cmocka_unit_test(test_first_come_first_served),
        cmocka_unit_test(test_some_give_up),
        cmocka_unit_test(test_a_storm),
    };
    return cmocka_run_group_tests_name("line", tests, begin, end);
}
