/* After fork(): the child's calls fail cleanly, and the parent's sessions go on. */
#include <sys/resource.h>

#include "support/support.h"

typedef struct family {
    rowlock_client *client;
    rowlock_hold *hold;
    rowlock_cancel *cancel;
    rowlock_mode mode;
    const char *name;
    pthread_t busy[2]; /* both want one name, so that one waits in line */
    atomic_bool stop;
    atomic_int status; /* the first that is not OK */
} family;

#define EXPECT(name, call)                                                                         \
    do {                                                                                           \
        err = (rowlock_error){0};                                                                  \
        rowlock_status got_ = (call);                                                              \
        if (got_ != ROWLOCK_##name) {                                                              \
            fprintf(stderr, "in the child: %s: %s\n", #call, rowlock_status_name(got_));           \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static int use_it_in_the_child(void *arg)
{
    family *f = arg;
    rowlock_error err;
    rowlock_hold *hold = NULL;
    rowlock_list *list = NULL;
    rowlock_history *history = NULL;
    uint64_t version = 0;
    rowlock_acquire_options options = {.mode = f->mode, .wait_ms = 1000};
    const char *names[] = {"a", "b"};
    rowlock_acquire_options rows = {.mode = ROWLOCK_PESSIMISTIC};
    EXPECT(FORKED, rowlock_acquire(f->client, "in-child", &options, &hold, &err));
    if (ts_error_flaw(ROWLOCK_FORKED, &err))
        return 2;
    EXPECT(FORKED, rowlock_acquire_set(f->client, names, 2, &rows, &hold, &err));
    EXPECT(FORKED, rowlock_hold_check(f->hold));
    EXPECT(FORKED, rowlock_version_read(f->client, f->name, &version, &err));
    EXPECT(FORKED, rowlock_version_bump(f->client, f->name, 0, &version, &err));
    EXPECT(FORKED, rowlock_section_run(f->client, f->name, NULL, ts_no_work, NULL, NULL, &err));
    EXPECT(FORKED, rowlock_list_get(f->client, NULL, &list, &err));
    EXPECT(FORKED, rowlock_list_one(f->client, f->name, &list, &err));
    EXPECT(FORKED, rowlock_history_get(f->client, NULL, &history, &err));
    EXPECT(FORKED, rowlock_sweep(f->client, NULL, NULL, &err));
    EXPECT(FORKED, rowlock_break(f->client, f->name, NULL, &err));
    EXPECT(FORKED, rowlock_client_flush(f->client, 1000, &err));
    /* Reading what the parent knew is harmless. */
    if (rowlock_hold_token(f->hold) == 0 || rowlock_hold_count(f->hold) != 1)
        return 3;
    EXPECT(FORKED, rowlock_release(f->hold, &err));
    rowlock_client_close(f->client);
    return 0;
}

static int only_close_in_the_child(void *arg)
{
    rowlock_client_close(((family *)arg)->client);
    return 0;
}

static int only_release_in_the_child(void *arg)
{
    return rowlock_release(((family *)arg)->hold, NULL) == ROWLOCK_FORKED ? 0 : 1;
}

/* The child cannot open anything in place of the parent's sockets. */
static int close_without_descriptors(void *arg)
{
    const struct rlimit none = {0, 0};
    return setrlimit(RLIMIT_NOFILE, &none) == 0 ? only_close_in_the_child(arg) : 1;
}

static int exit_at_once(void *arg)
{
    (void)arg;
    return 0;
}

/* glibc's malloc can be used in the child of a parent with threads (it takes its own locks around a
 * fork), that of AddressSanitizer in GCC 12 cannot: a child that is forked while another thread is
 * inside of it waits for ever in free(). Seen in 2 of 25 runs, and not distinguishable from a fault
 * of ours. */
#ifdef __SANITIZE_ADDRESS__
enum { MALLOC_SURVIVES_FORK = 0 };
#else
enum { MALLOC_SURVIVES_FORK = 1 };
#endif

/* A child does not inherit a locked mutex of a busy thread. */
static void *be_busy(void *arg)
{
    family *f = arg;
    char name[60];
    snprintf(name, sizeof name, "%s-busy", f->name);
    rowlock_acquire_options options = {.mode = f->mode, .wait_ms = 10000};
    while (!atomic_load(&f->stop) && atomic_load(&f->status) == ROWLOCK_OK) {
        rowlock_hold *hold = NULL;
        rowlock_status status = rowlock_acquire(f->client, name, &options, &hold, NULL);
        if (status == ROWLOCK_OK)
            status = rowlock_release(hold, NULL);
        if (status != ROWLOCK_OK)
            atomic_store(&f->status, (int)status);
    }
    return NULL;
}

/* The parent is not affected, also while its other threads are in calls: its hold is kept for
 * longer than its TTL, and then released. */
TS_BOTH(test_the_parents_hold_lives_on)
{
    static int (*const deeds[])(void *) = {exit_at_once, only_close_in_the_child,
                                           close_without_descriptors, only_release_in_the_child,
                                           use_it_in_the_child};
    enum { DEEDS = sizeof deeds / sizeof deeds[0] };
    TS_CLIENT *other = ts_open();
    family families[DEEDS];
    for (size_t i = 0; i < DEEDS; i++) {
        family *f = &families[i];
        *f = (family){.client = ts_open(), .mode = mode, .name = ts_name("fork")};
        f->hold = ts_take(f->client, f->name, mode, TS_KEPT_TTL);
        WANT(OK, ts_try(f->client, ts_name("warm"), mode));
        for (int n = 0; n < 2 && MALLOC_SURVIVES_FORK; n++)
            assert_int_equal(pthread_create(&f->busy[n], NULL, be_busy, f), 0);
    }
    for (int64_t end = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < end; ts_pass_ms(50)) {
        for (size_t i = 0; i < DEEDS; i++) {
            assert_int_equal(ts_reap(ts_fork(deeds[i], &families[i]), 10000), 0);
            assert_held(families[i].hold);
            WANT(BUSY, ts_try(other, families[i].name, mode));
        }
    }
    for (size_t i = 0; i < DEEDS; i++) {
        family *f = &families[i];
        atomic_store(&f->stop, true);
        for (int n = 0; n < 2 && MALLOC_SURVIVES_FORK; n++)
            pthread_join(f->busy[n], NULL);
        WANT(OK, (rowlock_status)atomic_load(&f->status));
        WANT(OK, ts_try(f->client, ts_name("after"), mode));
        WANT(OK, rowlock_release(f->hold, &ts_err));
        WANT(OK, ts_try(other, f->name, mode));
        rowlock_client_close(f->client);
    }
}

/* No descriptor of ours survives an exec(). */
static int list_descriptors(void *arg)
{
    (void)arg;
    execl("/bin/sh", "sh", "-c", "n=$(ls -l /proc/$$/fd | grep -c -e socket: -e eventfd); exit $n",
          (char *)NULL);
    return 99;
}

TS_ONCE(test_nothing_is_inherited_by_exec)
{
    int before = ts_reap(ts_fork(list_descriptors, NULL), 10000);
    TS_CLIENT *client = ts_open();
    rowlock_hold *holds[2];
    for (int i = 0; i < 2; i++) {
        holds[i] = ts_take(client, ts_name("exec"), ts_modes[i], 30000);
        assert_true(rowlock_hold_fd(holds[i]) >= 0);
    }
    rowlock_cancel *cancel = ts_cancel();
    assert_int_equal(ts_reap(ts_fork(list_descriptors, NULL), 10000), before);
    rowlock_cancel_free(cancel);
    for (int i = 0; i < 2; i++)
        WANT(OK, rowlock_release(holds[i], &ts_err));
}

static int fire_in_the_child(void *arg)
{
    rowlock_cancel_fire(((family *)arg)->cancel);
    return 0;
}

static int reset_in_the_child(void *arg)
{
    rowlock_cancel_reset(((family *)arg)->cancel);
    return 0;
}

/* A child that has inherited a signal handler, say, ends no call of its parent's, and its reset
 * takes nothing back there. */
TS_ONCE(test_the_parents_cancel_is_not_the_childs)
{
    const char *name = ts_name("cancel");
    TS_CLIENT *client = ts_open();
    TS_CLIENT *other = ts_open();
    family f = {.cancel = ts_cancel()};
    const rowlock_acquire_options reader = {.shared = true, .ttl_ms = 30000};
    const rowlock_acquire_options writer = {.wait_ms = 1000, .cancel = f.cancel};
    rowlock_hold *none = NULL;
    TS_HOLD *one = ts_take_with(client, name, reader);
    TS_HOLD *two = ts_take_with(other, name, reader);
    assert_int_equal(ts_reap(ts_fork(fire_in_the_child, &f), 10000), 0);
    const int64_t strain_ms = ts_strain_ms();
    WANT_TIMEOUT(ROWLOCK_OPTIMISTIC, strain_ms,
                 rowlock_acquire(other, name, &writer, &none, &ts_err));
    rowlock_cancel_fire(f.cancel);
    assert_int_equal(ts_reap(ts_fork(reset_in_the_child, &f), 10000), 0);
    WANT(CANCELLED, rowlock_hold_upgrade(one, 2000, f.cancel, &ts_err));
    rowlock_cancel_free(f.cancel);
}

TS_MAIN("fork", ts_suite_begin, ts_suite_end)
