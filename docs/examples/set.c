/*
 * Several names at once, all or none: some of them alone, one together with other readers.
 *
 *     cc set.c -o set $(pkg-config --cflags --libs rowlock)
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./set
 */
#include "example.h"

static rowlock_error err;

static const char *const names[] = {"example orders", "example stock", "example prices"};
static const bool share[] = {false, false, true};

static void show(const rowlock_hold *set)
{
    for (size_t i = 0; i < rowlock_hold_count(set); i++)
        printf("%s with token %" PRIu64 "\n", rowlock_hold_name_at(set, i),
               rowlock_hold_token_at(set, i));
}

/* Another reader comes in, a writer does not. */
static void look_at_prices(rowlock_client *client)
{
    rowlock_hold *reader = NULL;
    rowlock_hold *writer = NULL;
    must(rowlock_acquire_shared(client, "example prices", NULL, &reader, &err), &err);
    must(rowlock_release(reader, &err), &err);
    expect(rowlock_acquire(client, "example prices", NULL, &writer, &err) == ROWLOCK_BUSY,
           "the set reads the prices");
}

/* A set that meets ours in one name gets none of its names. */
static void try_another(rowlock_client *client)
{
    static const char *const others[] = {"example returns", "example stock"};
    const rowlock_acquire_options once = {.mode = ROWLOCK_OPTIMISTIC};
    rowlock_hold *hold = NULL;
    expect(rowlock_acquire_set(client, others, 2, &once, &hold, &err) == ROWLOCK_BUSY,
           "the stock is taken");
    must(rowlock_acquire(client, "example returns", &once, &hold, &err), &err);
    must(rowlock_release(hold, &err), &err);
}

int main(int argc, char **argv)
{
    rowlock_client *client = NULL;
    rowlock_hold *set = NULL;
    const rowlock_client_options options = example_options(argc, argv);
    const rowlock_acquire_options acquire = {
        .mode = ROWLOCK_OPTIMISTIC,
        .wait_ms = 5000, /* for all of them */
        .ttl_ms = 10000,
        .share = share,
    };
    must(rowlock_client_open(&options, &client, &err), &err);
    must(rowlock_acquire_set(client, names, 3, &acquire, &set, &err), &err);
    expect(rowlock_hold_count(set) == 3, "it has three names");
    show(set);
    look_at_prices(client);
    try_another(client);

    /* One release frees all. */
    must(rowlock_release(set, &err), &err);
    must(rowlock_acquire(client, "example stock", NULL, &set, &err), &err);
    must(rowlock_release(set, &err), &err);
    rowlock_client_close(client);
    return 0;
}
