/*
 * Asks the holder of a lock to stop: a job that works for hours gives way to another one between
 * two of its steps, when it is asked to. The one that asks waits until it has.
 *
 *     cc ask.c -o ask $(pkg-config --cflags --libs rowlock) -pthread
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./ask
 */
#include "example.h"
#include <pthread.h>
#include <rowlock/rowlock_admin.h>
#include <unistd.h>

static rowlock_error err;

/* On a thread of the client's: it only prints the ask; the job looks for itself. */
static void on_ask(void *data, rowlock_hold *hold, const rowlock_asked *what)
{
    (void)data;
    (void)hold;
    printf("%s: %s asks us to stop within %" PRId64 " s: %s\n", what->name, what->by,
           (what->left_ms + 999) / 1000, what->reason);
}

/* Works in steps, and may end between two of them. True: it was asked to stop. */
static bool work(rowlock_hold *hold)
{
    for (int step = 0; step < 500; step++) {
        if (rowlock_hold_check(hold) != ROWLOCK_OK || rowlock_hold_asked(hold, NULL))
            return rowlock_hold_asked(hold, NULL);
        usleep(20000);
    }
    return false;
}

static rowlock_error asking;

static void *ask(void *client)
{
    static rowlock_status status;
    const rowlock_ask_options options = {.grace_ms = 30000, .reason = "a deploy", .wait_ms = 60000};
    status = rowlock_ask(client, "example nightly", &options, &asking);
    return &status;
}

int main(int argc, char **argv)
{
    rowlock_client *client = NULL;
    rowlock_hold *hold = NULL;
    pthread_t other;
    void *status = NULL;
    const rowlock_client_options options = example_options(argc, argv);
    must(rowlock_client_open(&options, &client, &err), &err);
    expect(rowlock_ask(client, "example nightly", NULL, &err) == ROWLOCK_NOT_FOUND,
           "nobody holds it");

    /* A short TTL for the example's sake: the holder hears of an ask within a third of it. */
    const rowlock_acquire_options how = {.wait_ms = 5000, .ttl_ms = 10000, .on_ask = on_ask};
    must(rowlock_acquire(client, "example nightly", &how, &hold, &err), &err);
    expect(!rowlock_hold_asked(hold, NULL), "nobody has asked yet");
    expect(pthread_create(&other, NULL, ask, client) == 0, "a thread");
    expect(work(hold), "the job was asked to stop");
    must(rowlock_release(hold, &err), &err);

    pthread_join(other, &status);
    must(*(rowlock_status *)status, &asking);
    printf("it has stopped\n");
    rowlock_client_close(client);
    return 0;
}
