/* Names with slots: N clients hold them at once, each slot a lease of its own. */
#include <pthread.h>

#include "bell/bell.h"
#include "rowlock/rowlock_admin.h"

#include "conformance/clients.h" /* last: its names are parameters in other headers */

static rowlock_acquire_options slots_of(unsigned slots, unsigned units, int64_t wait_ms)
{
    return (rowlock_acquire_options){
        .slots = slots, .units = units, .wait_ms = wait_ms, .ttl_ms = 30000};
}

static rowlock_status enter(rowlock_client *from, const char *name, unsigned slots, int64_t wait_ms,
                            rowlock_hold **hold)
{
    const rowlock_acquire_options options = slots_of(slots, 0, wait_ms);
    return rowlock_acquire(from, name, &options, hold, &ts_err);
}

static rowlock_hold *take_slot(rowlock_client *from, const char *name, unsigned slots)
{
    rowlock_hold *hold = NULL;
    WANT(OK, enter(from, name, slots, 20000, &hold));
    assert_held(hold);
    return hold;
}

static const char *slot_name(const char *name, unsigned slot)
{
    static char texts[4][64];
    static unsigned next;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof texts[0], "%s#%u", name, slot);
    return text;
}

/* As many holders as slots, each with another slot, and no more. */
TS_ONCE(test_as_many_as_there_are)
{
    enum { SLOTS = 3 };
    const char *name = ts_name("pool");
    rowlock_hold *holds[SLOTS] = {NULL};
    rowlock_hold *none = NULL;
    bool seen[SLOTS] = {false};
    for (int i = 0; i < SLOTS; i++) {
        holds[i] = take_slot(i % 2 ? other : client, name, SLOTS);
        unsigned slot = rowlock_hold_slot(holds[i]);
        assert_in_range(slot, 0, SLOTS - 1);
        assert_false(seen[slot]);
        seen[slot] = true;
        assert_int_equal(rowlock_hold_count(holds[i]), 1);
        assert_string_equal(rowlock_hold_name(holds[i]), name);
        assert_string_equal(rowlock_hold_name_at(holds[i], 0), slot_name(name, slot));
        assert_true(rowlock_hold_token(holds[i]) > 0);
        assert_between(1, rowlock_hold_remaining_ms(holds[i]), 30000);
        /* It is a lease of its own. */
        WANT(BUSY, ts_try(other, slot_name(name, slot), ROWLOCK_OPTIMISTIC));
    }
    WANT(BUSY, enter(other, name, SLOTS, 0, &none));
    assert_non_null(strstr(ts_err.message, name));
    WANT(OK, rowlock_release(holds[1], &ts_err));
    holds[1] = take_slot(other, name, SLOTS);
    for (int i = 0; i < SLOTS; i++)
        WANT(OK, rowlock_release(holds[i], &ts_err));
}

/* Each slot is renewed, and lost, by itself. */
TS_ONCE(test_slots_are_kept)
{
    const char *name = ts_name("kept");
    /* Through procedures one is taken at a time. */
    const unsigned units = ts_via() ? 1 : 2;
    rowlock_acquire_options brief = slots_of(units, units, 20000);
    brief.ttl_ms = TS_KEPT_TTL;
    rowlock_hold *hold = NULL;
    rowlock_hold *none = NULL;
    WANT(OK, rowlock_acquire(client, name, &brief, &hold, &ts_err));
    assert_int_equal(rowlock_hold_count(hold), units);
    assert_true(rowlock_hold_slot_at(hold, 0) != rowlock_hold_slot_at(hold, 1));
    for (int64_t end = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < end; ts_pass_ms(50)) {
        assert_held(hold);
        WANT(BUSY, enter(other, name, units, 0, &none));
    }
    WANT(OK, rowlock_break(other, rowlock_hold_name_at(hold, units - 1), NULL, &ts_err));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_acquire(client, name, &brief, &hold, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* A dead holder's slot is free when its lease expires. */
TS_ONCE(test_a_slot_of_a_dead_holder)
{
    const char *name = ts_name("dead");
    rowlock_hold *hold = take_slot(client, name, 1);
    const uint64_t token = rowlock_hold_token(hold);
    ts_expire(mysql, rowlock_hold_name_at(hold, 0), ROWLOCK_OPTIMISTIC);
    rowlock_hold *next = NULL;
    WANT(OK, enter(other, name, 1, 20000, &next));
    assert_true(rowlock_hold_token(next) > token);
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(next, &ts_err));
}

/* The first to use the name sets its number, and an operator changes it. */
TS_ONCE(test_how_many)
{
    const char *name = ts_name("number");
    rowlock_acquire_options brief = slots_of(ROWLOCK_SLOTS_AS_SET, 0, 20000);
    unsigned slots = 77;
    rowlock_hold *holds[4] = {NULL};
    rowlock_hold *none = NULL;
    brief.ttl_ms = TS_KEPT_TTL;
    WANT(NOT_FOUND, rowlock_slots_get(client, name, &slots, &ts_err));
    WANT(NOT_FOUND, enter(client, name, ROWLOCK_SLOTS_AS_SET, 0, &none));
    assert_int_equal(slots, 77);
    holds[0] = take_slot(client, name, 2);
    holds[1] = take_slot(other, name, ROWLOCK_SLOTS_AS_SET);
    WANT(OK, rowlock_slots_get(client, name, &slots, &ts_err));
    assert_int_equal(slots, 2);
    WANT(MODE, enter(other, name, 3, 0, &none));
    assert_non_null(strstr(ts_err.message, "2 slots, not 3"));
    WANT(BUSY, enter(other, name, ROWLOCK_SLOTS_AS_SET, 0, &none));
    if (ts_via())
        return;
    WANT(OK, rowlock_slots_set(client, name, 3, &ts_err));
    WANT(OK, rowlock_acquire(other, name, &brief, &holds[2], &ts_err));
    /* With fewer slots, the holders keep theirs, and nobody acquires until fewer hold than that. */
    WANT(OK, rowlock_slots_set(client, name, 1, &ts_err));
    for (int i = 0; i < 3; i++)
        assert_held(holds[i]);
    WANT(BUSY, enter(client, name, 1, 0, &none));
    WANT(BUSY, rowlock_purge(client, name, &ts_err));
    WANT(OK, rowlock_release(holds[0], &ts_err));
    WANT(OK, rowlock_release(holds[1], &ts_err));
    WANT(OK, rowlock_ask(client, name, NULL, &ts_err));
    /* (Those below the number are free: who may not sweep is refused at them.) */
    rowlock_client *root = ts_open_as_root();
    WANT(BUSY, rowlock_purge(root, name, &ts_err));
    rowlock_client_close(root);
    WANT(OK, rowlock_break(client, name, "also above the number", &ts_err));
    assert_true(POLL_UNTIL(rowlock_hold_check(holds[2]) == ROWLOCK_LOST, 10000));
    WANT(LOST, rowlock_release(holds[2], &ts_err));
    WANT(BUSY, rowlock_break(client, name, NULL, &ts_err));
    holds[0] = take_slot(client, name, 1);
    assert_int_equal(rowlock_hold_slot(holds[0]), 0);
    WANT(BUSY, enter(other, name, 1, 0, &none));
    WANT(OK, rowlock_release(holds[0], &ts_err));
    WANT(INVALID, rowlock_slots_set(client, name, 0, &ts_err));
    WANT(INVALID, rowlock_slots_set(client, name, ROWLOCK_SLOTS_MAX + 1, &ts_err));
}

/* A free slot is taken soon, and a waiter for several is not overtaken by waiters for one. */
TS_ONCE(test_waiting)
{
    enum { SLOTS = 3 };
    const char *name = ts_name("waiting");
    if (ts_via())
        return;
    rowlock_hold *holds[SLOTS];
    for (int i = 0; i < SLOTS; i++)
        holds[i] = take_slot(client, name, SLOTS);
    rowlock_client *large_client = ts_open();
    ts_waiter large = {.client = large_client, .name = name, .options = slots_of(SLOTS, 2, 30000)};
    ts_waiter_start(&large);
    assert_true(POLL_UNTIL(ts_bell_holder(mysql, name) != 0, 10000));
    ts_waiter small = {.client = other, .name = name, .options = slots_of(SLOTS, 1, 30000)};
    ts_waiter_start(&small);
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == 1, 10000));
    WANT(OK, rowlock_release(holds[0], &ts_err));
    rowlock_hold *none = NULL;
    WANT(BUSY, enter(client, name, SLOTS, 0, &none));
    assert_false(ts_waiter_ended(&small));
    WANT(OK, rowlock_release(holds[1], &ts_err));
    WANT(OK, ts_waiter_join(&large, 10000));
    assert_int_equal(rowlock_hold_count(large.hold), 2);
    assert_false(ts_waiter_ended(&small));
    int64_t start = ts_now_ms();
    int64_t strain_ms = ts_strain_ms();
    WANT(OK, rowlock_release(holds[2], &ts_err));
    WANT(OK, ts_waiter_join(&small, 10000));
    const int64_t took_ms = ts_now_ms() - start;
    assert_between(0, took_ms, (ts_strain_ms() - strain_ms < 10 ? 150 : 1500) + ts_slack_ms());
    WANT(OK, rowlock_release(small.hold, &ts_err));
    WANT(OK, rowlock_release(large.hold, &ts_err));
    rowlock_client_close(large_client);
    ts_no_bell(mysql, name);
}

/* In the order of the line. */
TS_ONCE(test_first_come_first_served)
{
    enum { WAITERS = 16 };
    const char *name = ts_name("fifo");
    rowlock_hold *holds[WAITERS + 2] = {NULL};
    rowlock_client *clients[WAITERS];
    ts_waiter waiters[WAITERS];
    for (int i = 0; i < 2; i++)
        holds[i] = take_slot(client, name, 2);
    for (uint64_t i = 0; i < WAITERS; i++) {
        clients[i] = ts_open();
        waiters[i] =
            (ts_waiter){.client = clients[i], .name = name, .options = slots_of(2, 1, 60000)};
        ts_waiter_start(&waiters[i]);
        /* The first has the bell, the others wait for it. */
        assert_true(i ? POLL_UNTIL(ts_in_queue(mysql, name) == i, 10000)
                      : POLL_UNTIL(ts_bell_holder(mysql, name) != 0, 10000));
    }
    for (int i = 0; i < WAITERS; i++) {
        WANT(OK, rowlock_release(holds[i], &ts_err));
        WANT(OK, ts_waiter_join(&waiters[i], 10000));
        holds[i + 2] = waiters[i].hold;
    }
    for (int i = WAITERS; i < WAITERS + 2; i++)
        WANT(OK, rowlock_release(holds[i], &ts_err));
    for (int i = 0; i < WAITERS; i++)
        rowlock_client_close(clients[i]);
    ts_no_bell(mysql, name);
}

/* Never more holders than slots; each slot's number has one holder at a time. */
enum { MANY_SLOTS = 4, CONTENDERS = 12 };
static atomic_int inside;
static atomic_int in_slot[MANY_SLOTS];

typedef struct contender {
    rowlock_client *client;
    const char *name;
    pthread_t thread;
    int turns;
} contender;

static const char *one_turn(const contender *self, unsigned units)
{
    const rowlock_acquire_options wait = slots_of(MANY_SLOTS, units, 60000);
    rowlock_hold *hold = NULL;
    rowlock_error err;
    if (rowlock_acquire(self->client, self->name, &wait, &hold, &err) != ROWLOCK_OK)
        return strdup(err.message);
    if (atomic_fetch_add(&inside, (int)units) + (int)units > MANY_SLOTS)
        return "more hold it than there are slots";
    for (size_t i = 0; i < units; i++)
        if (atomic_fetch_add(&in_slot[rowlock_hold_slot_at(hold, i)], 1) != 0)
            return "two have the same slot";
    for (size_t i = 0; i < units; i++)
        atomic_fetch_sub(&in_slot[rowlock_hold_slot_at(hold, i)], 1);
    atomic_fetch_sub(&inside, (int)units);
    return rowlock_release(hold, &err) == ROWLOCK_OK ? NULL : strdup(err.message);
}

static void *take_turns(void *data)
{
    const contender *self = data;
    const char *why = NULL;
    for (int i = 0; i < self->turns && !why; i++)
        why = one_turn(self, ts_via() ? 1 : 1 + (unsigned)i % 3);
    return (void *)(uintptr_t)why;
}

TS_ONCE(test_never_more)
{
    contender all[CONTENDERS];
    const char *name = ts_name("many");
    for (int i = 0; i < CONTENDERS; i++) {
        all[i] = (contender){
            .client = i % 2 ? client : other, .name = name, .turns = (int)ts_rounds(20)};
        assert_int_equal(pthread_create(&all[i].thread, NULL, take_turns, &all[i]), 0);
    }
    for (int i = 0; i < CONTENDERS; i++) {
        void *why = NULL;
        assert_int_equal(pthread_join(all[i].thread, &why), 0);
        if (why)
            fail_msg("%s", (char *)why);
    }
}

TS_ONCE(test_bad_input)
{
    const char *name = ts_name("bad");
    const char *lease = ts_name("lease");
    rowlock_hold *none = NULL;
    const rowlock_acquire_options bad[] = {
        {.slots = ROWLOCK_SLOTS_MAX + 1},
        {.units = 1},
        {.slots = 2, .units = 3},
        {.slots = ROWLOCK_SLOTS_AS_SET, .units = ROWLOCK_UNITS_MAX + 1},
        {.slots = 2, .shared = true},
        {.slots = 2, .reentrant = true},
        {.slots = 2, .unfenced = true}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        WANT(INVALID, rowlock_acquire(client, name, &bad[i], &none, &ts_err));
    WANT(OK, ts_try(client, lease, ROWLOCK_OPTIMISTIC));
    WANT(MODE, enter(client, lease, 2, 0, &none));
    rowlock_hold *hold = take_slot(client, name, 2);
    WANT(MODE, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    WANT(MODE, ts_try(client, name, ROWLOCK_PESSIMISTIC));
    WANT(INVALID, rowlock_hold_upgrade(hold, 0, NULL, &ts_err));
    WANT(INVALID, rowlock_hold_downgrade(hold, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    /* Such a name has no room for the slot's number. */
    char longest[ROWLOCK_NAME_MAX + 1];
    memset(longest, 'x', ROWLOCK_NAME_MAX);
    longest[ROWLOCK_NAME_MAX] = '\0';
    WANT(INVALID, enter(client, longest, 2, 0, &none));
    assert_null(none);
}

/* As row locks they are free as soon as their connection ends. */
TS_ONCE(test_row_locks)
{
    const char *name = ts_name("rows");
    const rowlock_acquire_options row = {
        .mode = ROWLOCK_PESSIMISTIC, .slots = 3, .units = 2, .wait_ms = 0};
    rowlock_acquire_options wait = {.mode = ROWLOCK_PESSIMISTIC, .slots = 3, .wait_ms = 20000};
    rowlock_hold *hold = NULL;
    rowlock_hold *second = NULL;
    rowlock_hold *none = NULL;
    WANT(OK, rowlock_acquire(client, name, &row, &hold, &ts_err));
    assert_int_equal(rowlock_hold_count(hold), 2);
    assert_true(rowlock_hold_slot_at(hold, 0) != rowlock_hold_slot_at(hold, 1));
    assert_true(rowlock_hold_token_at(hold, 1) > 0);
    WANT(BUSY, rowlock_acquire(other, name, &row, &none, &ts_err));
    WANT(OK, rowlock_acquire(other, name, &wait, &second, &ts_err));
    WANT(MODE, enter(other, name, 3, 0, &none));
    ts_waiter waiter = {.client = other, .name = name, .options = wait};
    ts_waiter_start(&waiter);
    assert_true(POLL_UNTIL(ts_bell_holder(mysql, name) != 0, 10000));
    ts_cut(mysql, rowlock_hold_name_at(hold, 0));
    WANT(OK, ts_waiter_join(&waiter, 10000));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    WANT(OK, rowlock_release(second, &ts_err));
    WANT(OK, rowlock_acquire(client, name, &row, &hold, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
}

TS_ONCE(test_listed)
{
    const char *name = ts_name("listed");
    rowlock_list *list = NULL;
    rowlock_hold *hold = take_slot(client, name, 4);
    rowlock_hold *second = take_slot(other, name, 4);
    WANT(OK, rowlock_list_one(client, name, &list, &ts_err));
    const rowlock_info *info = rowlock_list_at(list, 0);
    assert_int_equal(info->slots, 4);
    assert_int_equal(info->slots_held, 2);
    assert_int_equal(info->state, ROWLOCK_HELD);
    assert_string_equal(info->owner, "");
    rowlock_list_free(list);
    WANT(OK, rowlock_release(second, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_list_one(client, name, &list, &ts_err));
    assert_int_equal(rowlock_list_at(list, 0)->slots_held, 0);
    assert_int_equal(rowlock_list_at(list, 0)->state, ROWLOCK_FREE);
    rowlock_list_free(list);
}

/* A stopped first in line delays the others for some seconds at most, since its connection is
 * ended. (A killed waiter's closes by itself.) */
TS_ONCE(test_a_stopped_waiter)
{
    /* The stopped one is root's, whose connections another user cannot end. */
    if (getenv("ROWLOCK_TEST_ROLES"))
        return;
    const char *name = ts_name("stopped");
    rowlock_hold *hold = take_slot(client, name, 1);
    MYSQL *stopped = ts_connect(ts_schema());
    const uint64_t id = ts_id_of(mysql, name);
    char prefix[RL_BELL_PREFIX_MAX + 1];
    rl_bell_prefix(ts_schema(), prefix);
    ts_sql(stopped, "DO GET_LOCK('%s%" PRIu64 "', 10)", prefix, id);
    ts_waiter waiter = {.client = other, .name = name, .options = slots_of(1, 1, 60000)};
    ts_waiter_start(&waiter);
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == 1, 10000));
    WANT(OK, rowlock_release(hold, &ts_err));
    int64_t start = ts_now_ms();
    WANT(OK, ts_waiter_join(&waiter, 20000));
    assert_between(0, ts_now_ms() - start, 8000 + ts_slack_ms());
    WANT(OK, rowlock_release(waiter.hold, &ts_err));
    mysql_close(stopped);
}

/* Slots that were broken before are waited for, as other locks are. */
TS_ONCE(test_wait_for_broken_slots)
{
    const char *name = ts_name("cooling");
    const rowlock_break_options waits = {.wait_ms = 300};
    if (ts_via())
        return;
    rowlock_hold *hold = take_slot(client, name, 2); /* its renewal is not due */
    WANT(OK, rowlock_break(other, name, NULL, &ts_err));
    WANT(BUSY, rowlock_break(other, name, NULL, &ts_err));
    WANT(TIMEOUT, rowlock_break_with(other, name, &waits, &ts_err));
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(BUSY, rowlock_break_with(other, name, &waits, &ts_err));
}

TS_MAIN("slots", open_clients, close_clients)
