/*
 * Many readers and writers of one name, in threads of several processes: no writer works beside
 * another one or a reader, and no reader sees half of a writer's change. The lock protects the
 * board, in memory that the processes share: each writer writes two words, one after the other.
 */
#include <sched.h>
#include <sys/mman.h>

#include "support/support.h"

enum { PROCESSES = 3, THREADS = 4, USUAL = 2000, MOST = 20000, ONE_WRITES_OF = 8 };

typedef struct board {
    char name[48];
    rowlock_mode mode;
    atomic_int left; /* sections left to do */
    atomic_uint_fast64_t words[2];
    atomic_uint_fast64_t token; /* the last writer's; 0: none */
    atomic_int writers;         /* inside now */
    atomic_int readers;
    atomic_int most_readers; /* the most that were inside at once */
    atomic_int written;      /* sections */
    atomic_int read;
    atomic_int torn;   /* the two words were not equal */
    atomic_int beside; /* a forbidden one was inside, too */
    atomic_int tokens; /* wrong tokens */
    atomic_int failed; /* failed calls */
} board;

typedef struct worker {
    board *on;
    rowlock_client *client; /* one for each process */
    pthread_t thread;
} worker;

static void write_both(board *b, uint64_t token)
{
    if (atomic_fetch_add(&b->writers, 1) != 0 || atomic_load(&b->readers) != 0)
        atomic_fetch_add(&b->beside, 1);
    uint64_t n = atomic_load(&b->words[0]) + 1;
    atomic_store(&b->words[0], n);
    sched_yield();
    if (atomic_load(&b->words[1]) != n - 1)
        atomic_fetch_add(&b->torn, 1);
    atomic_store(&b->words[1], n);
    if (token <= atomic_load(&b->token))
        atomic_fetch_add(&b->tokens, 1);
    atomic_store(&b->token, token);
    atomic_fetch_add(&b->written, 1);
    atomic_fetch_sub(&b->writers, 1);
}

static void note_most(board *b, int readers)
{
    int most = atomic_load(&b->most_readers);
    while (readers > most && !atomic_compare_exchange_weak(&b->most_readers, &most, readers))
        continue;
}

/* A reader of a lease has the last writer's token; one of a row lock has none. */
static void read_both(board *b, uint64_t token)
{
    note_most(b, atomic_fetch_add(&b->readers, 1) + 1);
    uint64_t first = atomic_load(&b->words[0]);
    sched_yield();
    if (atomic_load(&b->words[1]) != first)
        atomic_fetch_add(&b->torn, 1);
    if (atomic_load(&b->writers) != 0)
        atomic_fetch_add(&b->beside, 1);
    uint64_t wanted = b->mode == ROWLOCK_OPTIMISTIC ? atomic_load(&b->token) : 0;
    if (token != wanted && (wanted != 0 || b->mode == ROWLOCK_PESSIMISTIC))
        atomic_fetch_add(&b->tokens, 1);
    atomic_fetch_add(&b->read, 1);
    atomic_fetch_sub(&b->readers, 1);
}

static bool is_good(board *b, const char *call, rowlock_status status, const rowlock_error *err)
{
    if (status == ROWLOCK_OK)
        return true;
    if (atomic_fetch_add(&b->failed, 1) == 0)
        fprintf(stderr, "%s: %s: %s\n", call, rowlock_status_name(status), err->message);
    return false;
}

static void do_section(const worker *w, bool writes)
{
    board *b = w->on;
    rowlock_hold *hold = NULL;
    rowlock_error err = {0};
    const rowlock_acquire_options options = {
        .mode = b->mode, .shared = !writes, .wait_ms = 60000, .ttl_ms = 30000};
    if (!is_good(b, "acquire", rowlock_acquire(w->client, b->name, &options, &hold, &err), &err))
        return;
    if (writes)
        write_both(b, rowlock_hold_token(hold));
    else
        read_both(b, rowlock_hold_token(hold));
    (void)is_good(b, "release", rowlock_release(hold, &err), &err);
}

/* Works until all sections are done, or one fails. */
static void *do_sections(void *arg)
{
    const worker *w = arg;
    for (int n; (n = atomic_fetch_sub(&w->on->left, 1)) > 0 && !atomic_load(&w->on->failed);)
        do_section(w, n % ONE_WRITES_OF == 0);
    return NULL;
}

/* No assertion here: this is a child's. */
static int work(void *arg)
{
    worker workers[THREADS];
    int started = 0;
    rowlock_error err = {0};
    rowlock_client *client = NULL;
    rowlock_client_options options = ts_options();
    options.no_history = true;
    if (rowlock_client_open(&options, &client, &err) != ROWLOCK_OK) {
        fprintf(stderr, "open: %s\n", err.message);
        return 1;
    }
    for (; started < THREADS; started++) {
        workers[started] = (worker){.on = arg, .client = client};
        if (pthread_create(&workers[started].thread, NULL, do_sections, &workers[started]))
            break;
    }
    for (int i = 0; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    rowlock_client_close(client);
    return started == THREADS ? 0 : 2;
}

TS_BOTH(test_none_is_torn)
{
    pid_t pids[PROCESSES];
    const int sections = (int)ts_rounds((unsigned)(ts_long() ? MOST : USUAL));
    board *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(b != MAP_FAILED);
    snprintf(b->name, sizeof b->name, "%s", ts_name("many"));
    b->mode = mode;
    atomic_store(&b->left, sections);
    int64_t start = ts_now_ms();
    for (int i = 0; i < PROCESSES; i++)
        pids[i] = ts_fork(work, b);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(ts_reap(pids[i], ts_long() ? 600000 : 240000), 0);
    print_message("# %s: %d sections in %d ms: %d writers, %d readers, %d of them at once\n",
                  ts_mode_word(mode), sections, (int)(ts_now_ms() - start),
                  atomic_load(&b->written), atomic_load(&b->read), atomic_load(&b->most_readers));
    assert_int_equal(atomic_load(&b->failed), 0);
    assert_int_equal(atomic_load(&b->torn), 0);
    assert_int_equal(atomic_load(&b->beside), 0);
    assert_int_equal(atomic_load(&b->tokens), 0);
    assert_int_equal(atomic_load(&b->written), sections / ONE_WRITES_OF);
    assert_int_equal(atomic_load(&b->read), sections - sections / ONE_WRITES_OF);
    assert_int_equal(atomic_load(&b->words[0]), sections / ONE_WRITES_OF);
    assert_int_equal(atomic_load(&b->words[1]), sections / ONE_WRITES_OF);
    /* Otherwise the test would show nothing about readers beside each other. */
    assert_true(atomic_load(&b->most_readers) > 1);
    munmap(b, sizeof *b);
}

TS_MAIN("shared_many", ts_suite_begin, ts_suite_end)
