/*
 * A leader tells others where it is: it holds a lease and has published an address, which is there
 * for all to read as long as the lease is held. An observer waits for each change.
 *
 *     cc leader.c -o leader $(pkg-config --cflags --libs rowlock)
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./leader
 */
#include "example.h"
#include <rowlock/rowlock_leader.h>

static rowlock_error err;

static rowlock_hold *lead(rowlock_client *client, const char *address)
{
    rowlock_hold *hold = NULL;
    const rowlock_acquire_options options = {
        .wait_ms = 5000, .ttl_ms = 10000, .value = address};
    must(rowlock_acquire(client, "example primary", &options, &hold, &err), &err);
    return hold;
}

/* Waits until the leader or its value is another than in `seen`, and updates that. */
static void await_change(rowlock_client *client, rowlock_leader *seen)
{
    const rowlock_observe_options options = {.wait_ms = 10000, .after = seen};
    must(rowlock_observe(client, "example primary", &options, seen, &err), &err);
    if (seen->leads)
        printf("%s leads, with token %" PRIu64 "\n", seen->value, seen->token);
    else
        printf("nobody leads\n");
}

int main(int argc, char **argv)
{
    rowlock_client *client = NULL;
    rowlock_leader seen = {.leads = false};
    const rowlock_client_options options = example_options(argc, argv);
    must(rowlock_client_open(&options, &client, &err), &err);

    rowlock_hold *hold = lead(client, "db1:3306");
    await_change(client, &seen);
    expect(seen.token == rowlock_hold_token(hold), "its token is the leader's");
    const uint64_t first = seen.token;

    /* A leader checks this before each step: it hears of its loss before anybody else can lead. */
    expect(rowlock_hold_check(hold) == ROWLOCK_OK, "it leads");
    must(rowlock_hold_set_value(hold, "db1:3307", &err), &err);
    await_change(client, &seen);
    must(rowlock_release(hold, &err), &err);
    await_change(client, &seen);

    hold = lead(client, "db2:3306");
    await_change(client, &seen);
    expect(seen.token > first, "the token rises with each leader");
    must(rowlock_release(hold, &err), &err);

    rowlock_client_close(client);
    return 0;
}
