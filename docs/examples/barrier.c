/*
 * Begin together, and end together: two workers, each with its own client as if on another host,
 * load one half each. Neither goes on before both halves are loaded.
 *
 *     cc barrier.c -o barrier $(pkg-config --cflags --libs rowlock) -pthread
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./barrier
 */
#include "example.h"
#include <pthread.h>
#include <rowlock/rowlock_barrier.h>
#include <stdatomic.h>

typedef struct worker {
    pthread_t thread;
    const rowlock_client_options *where;
    unsigned half;
    uint64_t generation;
} worker;

/* What both have done. (Work on another host would be seen in a table.) */
static atomic_bool loaded[2];

static void *work(void *data)
{
    worker *self = data;
    rowlock_error err;
    rowlock_client *client = NULL;
    rowlock_hold *hold = NULL;
    const rowlock_barrier_options options = {.wait_ms = 30000, .ttl_ms = 10000};
    must(rowlock_client_open(self->where, &client, &err), &err);

    must(rowlock_barrier_enter(client, "example step", 2, &options, &hold, &err), &err);
    self->half = rowlock_hold_slot(hold);
    self->generation = rowlock_hold_token(hold);
    if (rowlock_hold_check(hold) == ROWLOCK_OK)
        loaded[self->half] = true;

    /* LOST: the other one was. The message says who. */
    must(rowlock_barrier_leave(hold, 30000, NULL, &err), &err);
    must(rowlock_release(hold, &err), &err);
    expect(loaded[0] && loaded[1], "both halves are loaded");
    rowlock_client_close(client);
    return NULL;
}

/* One alone does not get in. */
static void come_alone(const rowlock_client_options *where)
{
    rowlock_error err;
    rowlock_client *client = NULL;
    rowlock_hold *hold = NULL;
    must(rowlock_client_open(where, &client, &err), &err);
    expect(rowlock_barrier_enter(client, "example step", 2, NULL, &hold, &err) == ROWLOCK_BUSY,
           "another one is still to come");
    printf("%s\n", err.message);
    rowlock_client_close(client);
}

int main(int argc, char **argv)
{
    const rowlock_client_options options = example_options(argc, argv);
    worker workers[2] = {{.where = &options}, {.where = &options}};
    come_alone(&options);
    for (int i = 0; i < 2; i++)
        expect(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "it is started");
    for (int i = 0; i < 2; i++)
        pthread_join(workers[i].thread, NULL);

    printf("generation %" PRIu64 ": one was member %u, the other %u\n", workers[0].generation,
           workers[0].half, workers[1].half);
    expect(workers[0].generation == workers[1].generation, "they are of one generation");
    expect(workers[0].half + workers[1].half == 1, "each had its own half");
    return 0;
}
