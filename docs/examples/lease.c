/*
 * A lease around a piece of work: wait for it, work while it is held, hear of a loss at once,
 * give it back with a word for the history.
 *
 *     cc lease.c -o lease $(pkg-config --cflags --libs rowlock)
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./lease
 */
#include <poll.h>

#include "example.h"

/* From the keeper thread, and before anyone else can have the lease. */
static void on_lost(void *data, rowlock_hold *hold, const char *reason)
{
    (void)data;
    fprintf(stderr, "%s is lost: %s\n", rowlock_hold_name(hold), reason);
}

/* One step of the work; false: stop. */
static bool step(rowlock_hold *hold, int number)
{
    /* For work that itself waits in poll(): the descriptor is readable once the lock is lost. */
    struct pollfd lost = {.fd = rowlock_hold_fd(hold), .events = POLLIN};
    if (poll(&lost, 1, 10) > 0 || rowlock_hold_check(hold) != ROWLOCK_OK)
        return false;
    printf("step %d with token %" PRIu64 ", nobody else for %" PRId64 " ms\n", number,
           rowlock_hold_token(hold), rowlock_hold_remaining_ms(hold));
    return true;
}

/* The same thread may take it again where both sides asked for it. */
static void work_within_work(rowlock_client *client)
{
    rowlock_error err;
    rowlock_hold *again = NULL;
    must(rowlock_acquire(client, "example lease", &(rowlock_acquire_options){.reentrant = true},
                         &again, &err),
         &err);
    expect(rowlock_hold_depth(again) == 2, "it is held twice");
    must(rowlock_release(again, &err), &err);
}

int main(int argc, char **argv)
{
    rowlock_error err;
    rowlock_client *client = NULL;
    rowlock_hold *hold = NULL;
    const rowlock_client_options options = example_options(argc, argv);
    const rowlock_acquire_options acquire = {
        .mode = ROWLOCK_OPTIMISTIC,
        .wait_ms = 5000,
        .ttl_ms = 10000,
        .max_hold_ms = 60000, /* should the work hang */
        .reentrant = true,
        .on_lost = on_lost,
    };
    must(rowlock_client_open(&options, &client, &err), &err);
    must(rowlock_acquire(client, "example lease", &acquire, &hold, &err), &err);
    expect(rowlock_hold_mode(hold) == ROWLOCK_OPTIMISTIC, "it is a lease");
    printf("%s is ours (owner %s) after %" PRId64 " ms\n", rowlock_hold_name(hold),
           rowlock_hold_owner(hold), rowlock_hold_waited_ms(hold));

    work_within_work(client);
    bool done = true;
    for (int number = 1; done && number <= 3; number++)
        done = step(hold, number);

    /* Whatever the status, the hold is gone after this. */
    const rowlock_release_options release = {
        .has_exit_status = true, .exit_status = done ? 0 : 1, .note = "three steps"};
    must(rowlock_release_with(hold, &release, &err), &err);
    must(rowlock_client_flush(client, 5000, &err), &err);
    rowlock_client_close(client);
    return 0;
}
