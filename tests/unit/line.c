/* The line of one client's threads that wait for the same lock (wait/line.h). */

#include <dirent.h>

#include "base/clock.h"
#include "rowlock/rowlock.h"
#include "support/unit.h"
#include "wait/line.h"

enum { MANY = 12, KEY = 7 };

static rl_lines lines;

static int begin(TS_NO_STATE)
{
    return rl_lines_init(&lines, NULL) == ROWLOCK_OK ? 0 : -1;
}

static int end(TS_NO_STATE)
{
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

/* Waits until so many stand in the line of the key; false after ten seconds. */
static bool stand_soon(uint64_t key, unsigned wanted)
{
    int64_t end_us = rl_now_us() + 10000000;
    while (standing_for(key) != wanted && rl_now_us() < end_us)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return standing_for(key) == wanted;
}

static rowlock_status stand(uint64_t key, int64_t wait_ms, rowlock_cancel *cancel, rl_place *place)
{
    rowlock_error err = {0};
    rl_budget budget = rl_budget_start(wait_ms, 10000, cancel);
    *place = (rl_place){.fd = -1};
    return rl_line_stand(&lines, key, &budget, RL_NEVER, place, &err);
}

TS_ONCE(test_the_first_does_not_wait)
{
    rl_place place = {0};
    rl_place other;
    unsigned before = open_descriptors();
    rl_line_leave(&lines, &place); /* does nothing: it is in no line */
    assert_int_equal(stand(KEY, 0, NULL, &place), ROWLOCK_OK);
    assert_true(place.in_line);
    assert_true(standing_for(KEY));
    assert_int_equal(open_descriptors(), before);
    rl_line_leave(&lines, &place);
    assert_false(place.in_line);
    assert_false(standing_for(KEY));
    /* Leaving twice does nothing. */
    assert_int_equal(stand(KEY, 0, NULL, &other), ROWLOCK_OK);
    rl_line_leave(&lines, &place);
    assert_true(standing_for(KEY));
    rl_line_leave(&lines, &other);
}

TS_ONCE(test_a_wait_ends_on_time_and_leaves_nothing)
{
    rl_place first;
    rl_place second;
    unsigned before = open_descriptors();
    assert_int_equal(stand(KEY, 0, NULL, &first), ROWLOCK_OK);
    int64_t quickest = INT64_MAX; /* the best of five: the machine may stand still */
    for (int i = 0; i < 5; i++) {
        int64_t start = rl_now_us();
        assert_int_equal(stand(KEY, 50, NULL, &second), ROWLOCK_TIMEOUT);
        int64_t took = rl_now_us() - start;
        assert_true(took >= 50000);
        quickest = took < quickest ? took : quickest;
    }
    assert_true(quickest <= 150000);
    assert_false(second.in_line);
    assert_int_equal(standing_for(KEY), 1);
    rl_line_leave(&lines, &first);
    assert_int_equal(open_descriptors(), before);
}

/* Keys in the same bucket have separate lines. */
TS_ONCE(test_neighbours_in_a_bucket)
{
    rl_place a;
    rl_place b;
    rl_place c;
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

/* Starts the threads one by one, so that their order is known. */
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

/* Those that still stand get their turn one by one, in order, none earlier. */
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

/* Timeouts and cancels in the middle and at the end leave the others in their order. */
TS_ONCE(test_some_give_up)
{
    static one all[MANY];
    rowlock_cancel *cancel = NULL;
    unsigned before = open_descriptors();
    assert_int_equal(rowlock_cancel_new(&cancel, NULL), ROWLOCK_OK);
    for (unsigned i = 0; i < MANY; i++)
        all[i] = (one){.wait_ms = ROWLOCK_WAIT_FOREVER};
    all[1].cancel = all[5].cancel = all[MANY - 1].cancel = cancel;
    all[2].wait_ms = all[6].wait_ms = 5000; /* longer than the others take to line up */
    line_up(all, MANY);
    rowlock_cancel_fire(cancel);
    static const unsigned cancelled[] = {1, 5, MANY - 1};
    for (size_t i = 0; i < 3; i++)
        assert_true(answers(&all[cancelled[i]], ROWLOCK_CANCELLED));
    assert_true(answers(&all[2], ROWLOCK_TIMEOUT));
    assert_true(answers(&all[6], ROWLOCK_TIMEOUT));
    assert_true(stand_soon(KEY, MANY - 5));
    serve(all, MANY);
    rowlock_cancel_free(cancel);
    assert_int_equal(open_descriptors(), before);
}

TS_MAIN("line", begin, end)
