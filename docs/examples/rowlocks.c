/*
 * Row locks: several names at once without deadlock, a try that finds them taken, a wait that
 * another thread ends.
 *
 *     cc rowlocks.c -o rowlocks $(pkg-config --cflags --libs rowlock) -pthread
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./rowlocks
 */
#include <pthread.h>

#include "example.h"

typedef struct waiter {
    rowlock_client *client;
    rowlock_cancel *cancel;
    rowlock_status status;
} waiter;

static void *wait_for_ever(void *data)
{
    waiter *self = data;
    rowlock_hold *hold = NULL;
    self->status = rowlock_acquire(self->client, "example shard 2",
                                   &(rowlock_acquire_options){.mode = ROWLOCK_PESSIMISTIC,
                                                              .wait_ms = ROWLOCK_WAIT_FOREVER,
                                                              .cancel = self->cancel},
                                   &hold, NULL);
    return NULL;
}

/* Ends the wait, now or as soon as it begins; then the cancel can be used again. */
static void cancel_a_wait(rowlock_client *client)
{
    rowlock_error err;
    pthread_t thread;
    waiter self = {.client = client};
    must(rowlock_cancel_new(&self.cancel, &err), &err);
    expect(pthread_create(&thread, NULL, wait_for_ever, &self) == 0, "there is a thread");
    rowlock_cancel_fire(self.cancel);
    pthread_join(thread, NULL);
    expect(self.status == ROWLOCK_CANCELLED, "the wait was cancelled");
    rowlock_cancel_reset(self.cancel);
    rowlock_cancel_free(self.cancel);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"example shard 3", "example shard 1", "example shard 2"};
    const rowlock_client_options options = example_options(argc, argv);
    const rowlock_acquire_options acquire = {
        .mode = ROWLOCK_PESSIMISTIC, .wait_ms = 5000, .ttl_ms = 5000};
    rowlock_error err;
    rowlock_client *client = NULL;
    rowlock_hold *set = NULL;
    rowlock_hold *hold = NULL;
    must(rowlock_client_open(&options, &client, &err), &err);
    must(rowlock_acquire_set(client, names, 3, &acquire, &set, &err), &err);
    for (size_t i = 0; i < rowlock_hold_count(set); i++)
        printf("%s with token %" PRIu64 "\n", rowlock_hold_name_at(set, i),
               rowlock_hold_token_at(set, i));

    /* wait_ms 0: a try. */
    rowlock_status status =
        rowlock_acquire(client, "example shard 1",
                        &(rowlock_acquire_options){.mode = ROWLOCK_PESSIMISTIC}, &hold, &err);
    expect(status == ROWLOCK_BUSY, "it is taken");
    printf("%s: %s\n", rowlock_status_name(status), err.message);

    cancel_a_wait(client);
    must(rowlock_release(set, &err), &err);
    rowlock_client_close(client);
    return 0;
}
