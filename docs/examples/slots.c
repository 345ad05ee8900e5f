/*
 * At most so many at once: each holder has a slot of its own, with a number and a token. Here the
 * number is that of the folder into which it downloads.
 *
 *     cc slots.c -o slots $(pkg-config --cflags --libs rowlock)
 *     ROWLOCK_URL='mysql://user@host/rowlock' ./slots
 */
#include "example.h"
#include <rowlock/rowlock_admin.h>

static rowlock_error err;

static rowlock_hold *enter(rowlock_client *client, unsigned units)
{
    rowlock_hold *hold = NULL;
    const rowlock_acquire_options options = {.slots = 2, .units = units, .wait_ms = 5000};
    must(rowlock_acquire(client, "example downloads", &options, &hold, &err), &err);
    return hold;
}

/* A try, by one who leaves it to the name how many there are. */
static rowlock_status try_once(rowlock_client *client)
{
    rowlock_hold *hold = NULL;
    const rowlock_acquire_options options = {.slots = ROWLOCK_SLOTS_AS_SET};
    rowlock_status status = rowlock_acquire(client, "example downloads", &options, &hold, &err);
    if (status == ROWLOCK_OK)
        must(rowlock_release(hold, &err), &err);
    return status;
}

/* More come in from now on. Were it fewer, who has a slot would keep it until its release. */
static void change_number(rowlock_client *client, unsigned slots)
{
    unsigned now = 0;
    must(rowlock_slots_set(client, "example downloads", slots, &err), &err);
    must(rowlock_slots_get(client, "example downloads", &now, &err), &err);
    expect(now == slots, "it is changed");
}

int main(int argc, char **argv)
{
    rowlock_client *client = NULL;
    const rowlock_client_options options = example_options(argc, argv);
    must(rowlock_client_open(&options, &client, &err), &err);

    rowlock_hold *one = enter(client, 1);
    rowlock_hold *another = enter(client, 1);
    printf("folder %u with token %" PRIu64 ", folder %u with token %" PRIu64 "\n",
           rowlock_hold_slot(one), rowlock_hold_token(one), rowlock_hold_slot(another),
           rowlock_hold_token(another));
    expect(rowlock_hold_slot(one) < 2 && rowlock_hold_slot(another) < 2, "they are 0 and 1");
    expect(rowlock_hold_slot(one) != rowlock_hold_slot(another), "each has its own");
    expect(try_once(client) == ROWLOCK_BUSY, "there is no third");

    must(rowlock_release(one, &err), &err);
    expect(try_once(client) == ROWLOCK_OK, "one of them is free");
    must(rowlock_release(another, &err), &err);

    /* A large one takes two, or waits until it can have both. */
    rowlock_hold *large = enter(client, 2);
    expect(rowlock_hold_slot_at(large, 0) != rowlock_hold_slot_at(large, 1), "they are two");
    expect(try_once(client) == ROWLOCK_BUSY, "it has both");

    change_number(client, 3);
    expect(try_once(client) == ROWLOCK_OK, "there is a third by now");
    must(rowlock_release(large, &err), &err);
    change_number(client, 2);

    rowlock_client_close(client);
    return 0;
}
