/*
 * Readers and a writer: who only reads shares the lock with other readers; who writes has it alone.
 *
 *     cc shared.c -o shared $(pkg-config --cflags --libs rowlock)
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./shared
 */
#include "example.h"

static rowlock_hold *enter(rowlock_client *client)
{
    rowlock_error err;
    rowlock_hold *hold = NULL;
    must(rowlock_acquire_shared(client, "example catalogue", NULL, &hold, &err), &err);
    return hold;
}

int main(int argc, char **argv)
{
    rowlock_error err;
    rowlock_client *client = NULL;
    rowlock_hold *writer = NULL;
    const rowlock_client_options options = example_options(argc, argv);
    must(rowlock_client_open(&options, &client, &err), &err);

    /* Any number of them, in any number of programs. */
    rowlock_hold *one = enter(client);
    rowlock_hold *another = enter(client);
    expect(rowlock_acquire(client, "example catalogue", NULL, &writer, &err) == ROWLOCK_BUSY,
           "nobody has it alone beside readers");
    must(rowlock_release(one, &err), &err);
    must(rowlock_release(another, &err), &err);

    /* Look first; write only where there is something to do, and nobody can have written between. */
    writer = enter(client);
    must(rowlock_hold_upgrade(writer, 5000, NULL, &err), &err);
    printf("the catalogue is written under token %" PRIu64 "\n", rowlock_hold_token(writer));
    must(rowlock_hold_downgrade(writer, &err), &err);
    must(rowlock_release(writer, &err), &err);

    rowlock_client_close(client);
    return 0;
}
