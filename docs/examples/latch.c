/*
 * Wait until all have said that they are done: three shards are loaded, each by somebody else, and
 * the report is made when all of them are. Who loads the third one is a member of the latch: if it
 * died, those who wait would be told.
 *
 *     cc latch.c -o latch $(pkg-config --cflags --libs rowlock)
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./latch
 */
#include "example.h"
#include <rowlock/rowlock_latch.h>

static rowlock_error err;

static uint64_t set(rowlock_client *client)
{
    uint64_t generation = 0;
    must(rowlock_latch_set(client, "example shards", 3, &generation, &err), &err);
    return generation;
}

static void has_loaded(rowlock_client *client, const char *shard, uint64_t generation)
{
    must(rowlock_latch_down(client, "example shards", shard, generation, &err), &err);
}

static rowlock_hold *join(rowlock_client *client, uint64_t generation)
{
    rowlock_hold *hold = NULL;
    const rowlock_latch_join_options options = {
        .ttl_ms = 10000, .generation = generation, .key = "shard 3"};
    must(rowlock_latch_join(client, "example shards", &options, &hold, &err), &err);
    return hold;
}

/* Looks once; who has the time says how long with `wait_ms`. */
static rowlock_status look(rowlock_client *client, uint64_t generation)
{
    const rowlock_latch_options options = {.generation = generation};
    return rowlock_latch_wait(client, "example shards", &options, NULL, &err);
}

int main(int argc, char **argv)
{
    rowlock_client *client = NULL;
    const rowlock_client_options options = example_options(argc, argv);
    must(rowlock_client_open(&options, &client, &err), &err);

    const uint64_t first = set(client);
    has_loaded(client, "shard 1", first);
    has_loaded(client, "shard 1", first); /* again, after an error: it counts once */
    has_loaded(client, "shard 2", first);

    rowlock_hold *hold = join(client, first);
    rowlock_latch_info info;
    must(rowlock_latch_get(client, "example shards", &info, &err), &err);
    printf("generation %" PRIu64 ": %u of %u, %u still to come\n", info.generation, info.down,
           info.count, info.members);
    expect(info.down == 2 && info.members == 1, "two shards are loaded");
    expect(look(client, first) == ROWLOCK_BUSY, "it is closed");
    must(rowlock_latch_done(hold, &err), &err);
    expect(look(client, first) == ROWLOCK_OK, "all shards are loaded");

    /* The next import. Its member leaves without having counted. */
    const uint64_t second = set(client);
    hold = join(client, second);
    must(rowlock_release(hold, &err), &err);
    expect(look(client, second) == ROWLOCK_LOST, "it is broken");
    printf("%s\n", err.message);
    expect(look(client, first) == ROWLOCK_OK, "the first one has opened, and stays so");

    rowlock_client_close(client);
    return 0;
}
