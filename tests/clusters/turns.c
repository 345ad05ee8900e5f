#include "clusters/turns.h"

enum { MOST_WORKERS = 64, MOST_NAMES = 16, MOST_HOLDS = 20000, HOLD_MOST_US = 3000 };

/* One hold, by this machine's clock: from the return of the acquire to the start of the last check
 * that said it is held. */
typedef struct held {
    int name;
    int node;
    uint64_t token;
    int64_t from_us;
    int64_t to_us;
} held;

typedef struct worker {
    turns *all;
    int node;
    unsigned seed;
    rowlock_client *client;
    pthread_t thread;
    atomic_int done;
} worker;

struct turns {
    turns_plan plan;
    const char *names[MOST_NAMES];
    worker workers[MOST_WORKERS];
    int count;
    int64_t end_ms;
    pthread_mutex_t mutex;
    held holds[MOST_HOLDS];
    int held;
    atomic_bool failed;
    char odd[700]; /* the first unexpected status */
};

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void note_held(turns *all, const held *hold)
{
    pthread_mutex_lock(&all->mutex);
    if (all->held < MOST_HOLDS)
        all->holds[all->held] = *hold;
    all->held++;
    pthread_mutex_unlock(&all->mutex);
}

static void note_odd(worker *w, const char *call, rowlock_status status, const rowlock_error *err)
{
    pthread_mutex_lock(&w->all->mutex);
    if (!*w->all->odd)
        snprintf(w->all->odd, sizeof w->all->odd, "node %d: %s: %s: %s", w->node, call,
                 rowlock_status_name(status), err->message);
    atomic_store(&w->all->failed, true);
    pthread_mutex_unlock(&w->all->mutex);
}

/* True for an answer that a call may give while nodes come and go. */
static bool trouble(rowlock_status status)
{
    return status == ROWLOCK_UNAVAILABLE || status == ROWLOCK_UNKNOWN || status == ROWLOCK_LOST ||
           status == ROWLOCK_READONLY || status == ROWLOCK_TIMEOUT;
}

/* Keeps the lock for a moment, and checks it all the while. */
static void stay(worker *w, const rowlock_hold *hold, held *record)
{
    int64_t until_us = record->from_us + rand_r(&w->seed) % HOLD_MOST_US;
    do {
        int64_t asked_us = now_us();
        if (rowlock_hold_check(hold) != ROWLOCK_OK)
            return;
        record->to_us = asked_us;
        ts_pass_ms(1);
    } while (now_us() < until_us);
}

static bool turn(worker *w)
{
    turns *all = w->all;
    rowlock_error err = {0};
    rowlock_hold *hold = NULL;
    held record = {.name = (int)(rand_r(&w->seed) % (unsigned)all->plan.names), .node = w->node};
    const rowlock_acquire_options options = {.wait_ms = all->end_ms - ts_now_ms(),
                                             .ttl_ms = all->plan.ttl_ms};
    if (options.wait_ms <= 0)
        return false;
    rowlock_status status =
        rowlock_acquire(w->client, all->names[record.name], &options, &hold, &err);
    if (status != ROWLOCK_OK) {
        if (!all->plan.troubled || !trouble(status))
            note_odd(w, "acquire", status, &err);
        return false;
    }
    record.token = rowlock_hold_token(hold);
    record.from_us = now_us();
    record.to_us = record.from_us;
    stay(w, hold, &record);
    note_held(all, &record);
    status = rowlock_release(hold, &err);
    if (status != ROWLOCK_OK && (!all->plan.troubled || !trouble(status)))
        note_odd(w, "release", status, &err);
    return status == ROWLOCK_OK;
}

static bool should_go_on(const worker *w)
{
    return atomic_load(&w->done) < w->all->plan.turns && ts_now_ms() < w->all->end_ms &&
           !atomic_load(&w->all->failed);
}

static void *work(void *arg)
{
    worker *w = arg;
    while (should_go_on(w)) {
        if (turn(w))
            atomic_fetch_add(&w->done, 1);
        else
            ts_pass_ms(20);
    }
    mysql_thread_end();
    return NULL;
}

/* A client that waits for the reply of a dead server for no longer than this limit. */
static rowlock_client *open_at(int node)
{
    rowlock_client_options options = cluster_options(node);
    options.reconnect_ms = 10000;
    return ts_open_with(options);
}

static void add_workers(turns *all, int node)
{
    for (int i = 0; i < all->plan.clients; i++) {
        assert_true(all->count < MOST_WORKERS);
        worker *w = &all->workers[all->count];
        w->all = all;
        w->node = node;
        w->seed = (unsigned)all->count++ + 1;
        w->client = open_at(node);
    }
}

turns *turns_start(const turns_plan *plan)
{
    turns *all = calloc(1, sizeof *all);
    assert_non_null(all);
    all->plan = *plan;
    assert_in_range(plan->names, 1, MOST_NAMES);
    pthread_mutex_init(&all->mutex, NULL);
    for (int i = 0; i < plan->names; i++)
        all->names[i] = ts_name("turns");
    for (int i = 0; i < CLUSTER_NODES && plan->nodes[i]; i++)
        add_workers(all, plan->nodes[i]);
    all->end_ms = ts_now_ms() + plan->within_ms;
    for (int i = 0; i < all->count; i++)
        assert_int_equal(pthread_create(&all->workers[i].thread, NULL, work, &all->workers[i]), 0);
    return all;
}

int turns_done(turns *all, int node)
{
    int done = 0;
    for (int i = 0; i < all->count; i++)
        if (node == 0 || all->workers[i].node == node)
            done += atomic_load(&all->workers[i].done);
    return done;
}

bool turns_over(turns *all)
{
    for (int i = 0; i < all->count; i++)
        if (should_go_on(&all->workers[i]))
            return false;
    return true;
}

static int by_name_and_token(const void *a, const void *b)
{
    const held *x = a;
    const held *y = b;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return x->token < y->token ? -1 : x->token > y->token;
}

/* True if two holds of a name that follow each other by their tokens do not overlap in time. */
static bool apart(const held *first, const held *second)
{
    if (first->name != second->name)
        return true;
    if (first->token < second->token && first->to_us <= second->from_us)
        return true;
    print_error("name %d: node %d held with token %" PRIu64 " until %" PRId64
                " us, node %d with token %" PRIu64 " from %" PRId64 " us\n",
                first->name, first->node, first->token, first->to_us, second->node, second->token,
                second->from_us);
    return false;
}

static void read_record(turns *all)
{
    int wrong = 0;
    assert_in_range(all->held, 1, MOST_HOLDS);
    qsort(all->holds, (size_t)all->held, sizeof all->holds[0], by_name_and_token);
    for (int i = 1; i < all->held; i++)
        wrong += !apart(&all->holds[i - 1], &all->holds[i]);
    assert_int_equal(wrong, 0);
}

void turns_finish(turns *all)
{
    int64_t start_ms = all->end_ms - all->plan.within_ms;
    int completed = 0;
    for (int i = 0; i < all->count; i++)
        pthread_join(all->workers[i].thread, NULL);
    print_message("# %d turns of %d, %d holds, %d clients, in %" PRId64 " ms\n", turns_done(all, 0),
                  all->count * all->plan.turns, all->held, all->count, ts_now_ms() - start_ms);
    for (int i = 0; i < all->count; i++) {
        completed += atomic_load(&all->workers[i].done);
        rowlock_client_close(all->workers[i].client);
    }
    if (*all->odd)
        print_error("%s\n", all->odd);
    read_record(all);
    assert_string_equal(all->odd, "");
    assert_int_equal(completed, all->count * all->plan.turns);
    pthread_mutex_destroy(&all->mutex);
    free(all);
}
