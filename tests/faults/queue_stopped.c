/*
 * A queue during a storm of KILL QUERY. No item is lost, held by two workers at once, or done
 * twice: what a call has reported is true, and a failed call can be repeated.
 */
#include "faults/crew.h"
#include "faults/through.h"
#include "rowlock/rowlock_queue.h"

enum {
    ROUNDS = 60,
    BATCHES = 15,
    BATCH = 4,
    TTL = 20000,
    AGAIN_TTL = 6000,
    WAIT = 300,
    DRAIN = 90000
};
enum { ITEMS = CREW * ROUNDS };
enum { GROUPS = 3 };

typedef struct ledger {
    atomic_uint there[ITEMS];  /* how many items of this number may exist */
    atomic_uint inside[ITEMS]; /* a worker has one */
    atomic_uint done[ITEMS];   /* calls that were told so */
    atomic_uint maybe[ITEMS];  /* unknown outcomes */
    atomic_uint groups[GROUPS];
} ledger;

static ledger seen;

/* ---------------------------------------------------------------------------- to put */

typedef enum kind { PLAIN, KEYED, GROUPED, KINDS } kind;

static kind kind_of(unsigned number)
{
    return (kind)(number % KINDS);
}

static unsigned group_of(unsigned number)
{
    return number / KINDS % GROUPS;
}

typedef struct new_item {
    unsigned number;
    char key[20];
    char group[20];
    rowlock_put_options options;
} new_item;

static void make_item(unsigned number, new_item *item)
{
    *item = (new_item){.number = number};
    snprintf(item->key, sizeof item->key, "k%u", number);
    snprintf(item->group, sizeof item->group, "g%u", group_of(number));
    item->options.key = kind_of(number) == KEYED ? item->key : NULL;
    item->options.group = kind_of(number) == GROUPED ? item->group : NULL;
}

/* With a key it is one item, however often it is put; without, an unknown outcome may be one
 * more. */
static void put_one(rowlock_client *client, const char *name, unsigned number)
{
    new_item item;
    rowlock_status status;
    rowlock_error err = {0};
    make_item(number, &item);
    do {
        if (kind_of(number) != KEYED || atomic_load(&seen.there[number]) == 0)
            atomic_fetch_add(&seen.there[number], 1);
        status = rowlock_queue_put(client, name, &number, sizeof number, &item.options, NULL, &err);
        if (kind_of(number) != KEYED && status == ROWLOCK_UNAVAILABLE)
            atomic_fetch_sub(&seen.there[number], 1);
    } while (crew_was_stopped(status, &err));
}

static void put_several(rowlock_client *client, const char *name, unsigned first)
{
    new_item items[BATCH];
    rowlock_put_entry entries[BATCH] = {{0}};
    rowlock_status status;
    rowlock_error err = {0};
    for (unsigned i = 0; i < BATCH; i++) {
        make_item(first + i, &items[i]);
        entries[i] = (rowlock_put_entry){.payload = &items[i].number,
                                         .size = sizeof items[i].number,
                                         .options = &items[i].options};
    }
    do {
        for (unsigned i = 0; i < BATCH; i++)
            atomic_fetch_add(&seen.there[first + i], 1);
        status = rowlock_queue_put_batch(client, name, entries, BATCH, NULL, &err);
        for (unsigned i = 0; i < BATCH && status != ROWLOCK_OK && status != ROWLOCK_UNKNOWN; i++)
            atomic_fetch_sub(&seen.there[first + i], 1);
    } while (crew_was_stopped(status, &err));
}

/* ------------------------------------------------------------------- to take, and be done */

static unsigned number_of(const rowlock_item *item)
{
    unsigned number = ITEMS;
    if (rowlock_item_size(item) == sizeof number)
        memcpy(&number, rowlock_item_payload(item), sizeof number);
    crew_expect(number < ITEMS, "another payload");
    return number < ITEMS ? number : 0;
}

static void enter(const rowlock_item *item)
{
    const unsigned number = number_of(item);
    crew_expect(atomic_load(&seen.there[number]) > 0, "nobody has put it");
    crew_expect(atomic_fetch_add(&seen.inside[number], 1) < atomic_load(&seen.there[number]),
                "two have it");
    if (kind_of(number) == GROUPED)
        crew_expect(atomic_fetch_add(&seen.groups[group_of(number)], 1) == 0,
                    "two have items of one group");
}

static void leave(const rowlock_item *item)
{
    const unsigned number = number_of(item);
    if (kind_of(number) == GROUPED)
        atomic_fetch_sub(&seen.groups[group_of(number)], 1);
    atomic_fetch_sub(&seen.inside[number], 1);
}

static void count_end(unsigned number, rowlock_status status)
{
    if (status == ROWLOCK_OK)
        atomic_fetch_add(&seen.done[number], 1);
    else if (status == ROWLOCK_UNKNOWN)
        atomic_fetch_add(&seen.maybe[number], 1);
    crew_expect(atomic_load(&seen.done[number]) <= atomic_load(&seen.there[number]),
                "it was done twice");
}

static bool took(rowlock_status status, const rowlock_error *err)
{
    if (status == ROWLOCK_TIMEOUT || status == ROWLOCK_BUSY)
        return false;
    return !crew_was_stopped(status, err);
}

/* An item that could not be ended is delivered again when its lease expires, so the TTL is
 * short. */
static void end_one(rowlock_item *item, unsigned round)
{
    const unsigned number = number_of(item);
    rowlock_status status;
    rowlock_error err = {0};
    leave(item);
    if (round % 5 == 4) {
        const rowlock_retry_options soon = {.delay_ms = 1, .reason = "again"};
        status = rowlock_item_retry(item, &soon, &err);
    } else {
        status = rowlock_item_done(item, &err);
        count_end(number, status);
    }
    (void)crew_was_stopped(status, &err);
}

static void queue_round(rowlock_client *client, const char *name, unsigned who, unsigned round)
{
    const rowlock_take_options options = {.wait_ms = WAIT, .ttl_ms = AGAIN_TTL};
    rowlock_item *item = NULL;
    rowlock_error err = {0};
    put_one(client, name, who * ROUNDS + round);
    if (!took(rowlock_queue_take(client, name, &options, &item, &err), &err))
        return;
    enter(item);
    end_one(item, round);
}

static void batch_round(rowlock_client *client, const char *name, unsigned who, unsigned round)
{
    const rowlock_take_options options = {.wait_ms = WAIT, .ttl_ms = AGAIN_TTL};
    rowlock_item *items[BATCH];
    unsigned numbers[BATCH];
    rowlock_status statuses[BATCH];
    size_t count = 0;
    rowlock_error err = {0};
    put_several(client, name, who * ROUNDS + round * BATCH);
    if (!took(rowlock_queue_take_batch(client, name, BATCH, &options, items, &count, &err), &err))
        return;
    for (size_t i = 0; i < count; i++)
        enter(items[i]);
    for (size_t i = 0; i < count; i++) {
        numbers[i] = number_of(items[i]);
        leave(items[i]);
    }
    (void)crew_was_stopped(rowlock_item_done_batch(items, count, statuses, &err), &err);
    for (size_t i = 0; i < count; i++)
        count_end(numbers[i], statuses[i]);
}

/* ----------------------------------------------------------------------------- the end */

static bool drained(const char *name)
{
    const rowlock_take_options options = {.wait_ms = WAIT, .ttl_ms = TTL};
    rowlock_item *item = NULL;
    rowlock_queue_info info;
    while (rowlock_queue_take(direct, name, &options, &item, &ts_err) == ROWLOCK_OK) {
        const unsigned number = number_of(item);
        WANT(OK, rowlock_item_done(item, &ts_err));
        count_end(number, ROWLOCK_OK);
    }
    WANT(OK, rowlock_queue_get(direct, name, &info, &ts_err));
    assert_int_equal(info.dead, 0);
    return info.depth == 0;
}

static void all_were_done(const char *name)
{
    assert_true(POLL_UNTIL(drained(name), DRAIN));
    for (unsigned i = 0; i < ITEMS; i++) {
        const unsigned there = atomic_load(&seen.there[i]);
        const unsigned done = atomic_load(&seen.done[i]);
        assert_true(there >= 1 && done <= there);
        assert_true(done + atomic_load(&seen.maybe[i]) >= 1);
    }
}

TS_ONCE(test_a_queue_beside_kill_query)
{
    memset(&seen, 0, sizeof seen);
    all_were_done(crew_run("stopped-queue", "queue_item", ROUNDS, queue_round));
}

/* No table is locked: KILL QUERY hits statements where they are. */
TS_ONCE(test_batches_beside_kill_query)
{
    memset(&seen, 0, sizeof seen);
    all_were_done(crew_run("stopped-batches", NULL, BATCHES, batch_round));
}

TS_MAIN("queue_stopped", through_begin, through_end)
