/*
 * Nobody gets the locks of billing while a schema is changed; who holds one finishes.
 *
 *     cc freeze.c -o freeze $(pkg-config --cflags --libs rowlock)
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./freeze
 */
#include "example.h"
#include <rowlock/rowlock_admin.h>

static void list(rowlock_client *client)
{
    rowlock_error err;
    rowlock_freezes *freezes = NULL;
    must(rowlock_freezes_get(client, &freezes, &err), &err);
    for (size_t i = 0; i < rowlock_freezes_count(freezes); i++) {
        const rowlock_frozen *frozen = rowlock_freezes_at(freezes, i);
        printf("%s%s: %s\n", frozen->text, frozen->is_prefix ? "*" : "", frozen->reason);
    }
    rowlock_freezes_free(freezes);
}

int main(int argc, char **argv)
{
    const rowlock_client_options options = example_options(argc, argv);
    const rowlock_freeze_options billing = {.prefix = "example billing/",
                                            .reason = "schema change",
                                            .for_ms = INT64_C(2) * 3600 * 1000};
    rowlock_error err;
    rowlock_client *client = NULL;
    rowlock_hold *hold = NULL;
    rowlock_freeze_result result;

    must(rowlock_client_open(&options, &client, &err), &err);
    must(rowlock_freeze(client, &billing, &result, &err), &err);
    list(client);
    expect(rowlock_acquire(client, "example billing/invoices", NULL, &hold, &err) == ROWLOCK_FROZEN,
           "nobody gets a frozen lock");
    printf("%s\n", err.message);
    must(rowlock_thaw(client, &billing, &err), &err);
    must(rowlock_acquire(client, "example billing/invoices", NULL, &hold, &err), &err);
    must(rowlock_release(hold, &err), &err);
    rowlock_client_close(client);
    return 0;
}
