/* Sets of names, and row locks without a token. */
#include <pthread.h>

#include "conformance/clients.h"

static rowlock_hold *take_set(rowlock_client *from, const char *const names[], size_t count,
                              rowlock_mode mode)
{
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {.mode = mode, .wait_ms = 20000, .ttl_ms = TS_KEPT_TTL};
    WANT(OK, rowlock_acquire_set(from, names, count, &options, &hold, &ts_err));
    return hold;
}

/* This test's names, in byte order. */
enum { NAMES = 3 };
typedef struct name_set {
    const char *list[NAMES];
} name_set;

static name_set some_names(void)
{
    return (name_set){{ts_name("a"), ts_name("b"), ts_name("c")}};
}

TS_BOTH(test_all_of_them)
{
    const name_set sorted = some_names();
    /* A repeated name counts once. */
    const char *names[] = {sorted.list[2], sorted.list[0], sorted.list[1], sorted.list[2],
                           sorted.list[2]};
    TS_HOLD *hold = take_set(client, names, 5, mode);
    assert_int_equal(rowlock_hold_count(hold), 3);
    for (size_t i = 0; i < NAMES; i++) {
        assert_string_equal(rowlock_hold_name_at(hold, i), sorted.list[i]);
        assert_true(rowlock_hold_token_at(hold, i) > 0);
        WANT(BUSY, ts_try(other, sorted.list[i], mode));
    }
    assert_string_equal(rowlock_hold_name(hold), sorted.list[0]);
    assert_true(rowlock_hold_token(hold) == rowlock_hold_token_at(hold, 0));
    assert_null(rowlock_hold_name_at(hold, 3));
    assert_true(rowlock_hold_slot(hold) == ROWLOCK_NO_SLOT);
    uint64_t token = rowlock_hold_token_at(hold, 2);
    WANT(OK, rowlock_release(hold, &ts_err));
    for (size_t i = 0; i < NAMES; i++)
        WANT(OK, ts_try(other, sorted.list[i], mode));
    hold = take_set(client, names, 5, mode);
    assert_true(rowlock_hold_token_at(hold, 2) > token);
}

TS_BOTH(test_all_or_none)
{
    const name_set names = some_names();
    const rowlock_acquire_options try_once = {.mode = mode};
    rowlock_hold *none = NULL;
    TS_HOLD *hold = ts_take(client, names.list[1], mode, 30000);
    WANT(BUSY, rowlock_acquire_set(other, names.list, NAMES, &try_once, &none, &ts_err));
    WANT(OK, ts_try(client, names.list[0], mode));
    WANT(OK, ts_try(client, names.list[2], mode));
    rowlock_acquire_options wait = {.mode = mode, .wait_ms = 300};
    const int64_t stood = ts_stood_ms();
    const int64_t strain = ts_strain_ms();
    int64_t start = ts_now_ms();
    const bool unknown = WANT_TIMEOUT(
        mode, strain, rowlock_acquire_set(other, names.list, NAMES, &wait, &none, &ts_err));
    assert_between(299, ts_now_ms() - start, 300 + ts_slack_ms());
    /* On a busy machine, a wait that could not be stopped in time may have the first,
     * until the server sees that its connection has ended. */
    (void)POLL_UNTIL(ts_try(client, names.list[0], mode) == ROWLOCK_OK,
                     !unknown && ts_stood_ms() == stood ? 0 : 10000);
    WANT(OK, ts_try(client, names.list[0], mode));
    WANT(OK, ts_try(client, names.list[2], mode));
    assert_null(none);
    WANT(OK, rowlock_release(hold, &ts_err));
    hold = take_set(other, names.list, NAMES, mode);
}

TS_BOTH(test_a_set_with_a_name_of_the_other_mode)
{
    const name_set names = some_names();
    const rowlock_mode others =
        mode == ROWLOCK_PESSIMISTIC ? ROWLOCK_OPTIMISTIC : ROWLOCK_PESSIMISTIC;
    const rowlock_acquire_options try_once = {.mode = mode};
    rowlock_hold *none = NULL;
    WANT(OK, ts_try(client, names.list[1], others));
    WANT(MODE, rowlock_acquire_set(client, names.list, NAMES, &try_once, &none, &ts_err));
    assert_non_null(strstr(ts_err.message, names.list[1]));
    assert_null(none);
    WANT(OK, ts_try(client, names.list[0], mode));
}

TS_BOTH(test_a_set_can_be_lost)
{
    const name_set names = some_names();
    rowlock_hold *hold = take_set(client, names.list, NAMES, mode);
    if (mode == ROWLOCK_PESSIMISTIC)
        ts_cut(mysql, names.list[1]);
    else
        WANT(OK, rowlock_break(other, names.list[1], NULL, &ts_err));
    int fd = rowlock_hold_fd(hold);
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 15000));
    assert_true(POLL_UNTIL(readable(fd), 10000));
    assert_int_equal(rowlock_hold_remaining_ms(hold), 0);
    const uint64_t token = rowlock_hold_token_at(hold, 1);
    WANT(LOST, rowlock_release(hold, &ts_err));
    TS_HOLD *next = take_set(other, names.list, NAMES, mode);
    assert_true(rowlock_hold_token_at(next, 1) > token);
}

/* Each lease is renewed, and the loss of one is reported once, with the set. */
TS_ONCE(test_a_set_is_kept)
{
    const name_set names = some_names();
    const rowlock_acquire_options brief = {.ttl_ms = TS_KEPT_TTL};
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_acquire_set(client, names.list, NAMES, &brief, &hold, &ts_err));
    for (int64_t end = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < end; ts_pass_ms(50)) {
        assert_held(hold);
        for (size_t i = 0; i < NAMES; i++)
            WANT(BUSY, ts_try(other, names.list[i], ROWLOCK_OPTIMISTIC));
    }
    WANT(OK, rowlock_release(hold, &ts_err));
    for (size_t i = 0; i < NAMES; i++)
        WANT(OK, ts_try(other, names.list[i], ROWLOCK_OPTIMISTIC));
}

static void count_loss(void *data, rowlock_hold *hold, const char *reason)
{
    (void)hold;
    (void)reason;
    atomic_fetch_add((atomic_int *)data, 1);
}

TS_ONCE(test_a_loss_is_told_once)
{
    const name_set names = some_names();
    atomic_int told = 0;
    const rowlock_acquire_options brief = {
        .ttl_ms = TS_KEPT_TTL, .on_lost = count_loss, .on_lost_data = &told};
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_acquire_set(client, names.list, NAMES, &brief, &hold, &ts_err));
    for (size_t i = 0; i < NAMES; i++)
        WANT(OK, rowlock_break(other, names.list[i], NULL, &ts_err));
    assert_true(POLL_UNTIL(atomic_load(&told) > 0, 10000));
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_int_equal(atomic_load(&told), 1);
    for (size_t i = 0; i < NAMES; i++)
        WANT(OK, ts_try(other, names.list[i], ROWLOCK_OPTIMISTIC));
}

/* Two sets with the same names, given in other orders, again and again. */
typedef struct contender {
    rowlock_client *client;
    const char *names[NAMES];
    pthread_t thread;
    int turns;
} contender;

static atomic_int inside;

static void *take_turns(void *data)
{
    contender *self = data;
    const rowlock_acquire_options wait = {.wait_ms = 60000};
    for (int i = 0; i < self->turns; i++) {
        rowlock_hold *hold = NULL;
        rowlock_error err;
        if (rowlock_acquire_set(self->client, self->names, NAMES, &wait, &hold, &err) != ROWLOCK_OK)
            return strdup(err.message);
        if (atomic_fetch_add(&inside, 1) != 0)
            return strdup("two hold the same names");
        atomic_fetch_sub(&inside, 1);
        if (rowlock_release(hold, &err) != ROWLOCK_OK)
            return strdup(err.message);
    }
    return NULL;
}

TS_ONCE(test_sets_do_not_wait_for_each_other)
{
    const name_set names = some_names();
    contender both[] = {
        {.client = client, .names = {names.list[0], names.list[1], names.list[2]}, .turns = 60},
        {.client = other, .names = {names.list[2], names.list[0], names.list[1]}, .turns = 60}};
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&both[i].thread, NULL, take_turns, &both[i]), 0);
    for (int i = 0; i < 2; i++) {
        void *why = NULL;
        assert_int_equal(pthread_join(both[i].thread, &why), 0);
        if (why)
            fail_msg("%s", (char *)why);
    }
}

/* A flag for each name: some are read, some written. */
TS_BOTH(test_shared_in_part)
{
    const name_set names = some_names();
    const bool share[NAMES] = {true, false, true};
    const rowlock_acquire_options in_part = {.mode = mode, .share = share, .wait_ms = 20000};
    TS_CLIENT *first_use = ts_open();
    const rowlock_acquire_options shared = {.mode = mode, .shared = true};
    rowlock_hold *reader = NULL;
    rowlock_hold *none = NULL;
    rowlock_hold *hold = NULL;
    if (mode == ROWLOCK_PESSIMISTIC) {
        const rowlock_acquire_options once = {.mode = mode, .share = share};
        WANT(OK, rowlock_acquire_set(first_use, names.list, NAMES, &once, &hold, &ts_err));
        WANT(OK, rowlock_release(hold, &ts_err));
    }
    WANT(OK, rowlock_acquire_set(first_use, names.list, NAMES, &in_part, &hold, &ts_err));
    for (size_t i = 0; i < NAMES; i++) {
        WANT(BUSY, ts_try(other, names.list[i], mode));
        if (!share[i])
            WANT(BUSY, rowlock_acquire(other, names.list[i], &shared, &none, &ts_err));
        if (!share[i])
            continue;
        WANT(OK, rowlock_acquire(other, names.list[i], &shared, &reader, &ts_err));
        WANT(OK, rowlock_release(reader, &ts_err));
    }
    WANT(OK, rowlock_release(hold, &ts_err));
    for (size_t i = 0; i < NAMES; i++)
        WANT(OK, ts_try(other, names.list[i], mode));
}

TS_ONCE(test_bad_sets)
{
    const name_set names = some_names();
    const char *with_null[] = {names.list[0], NULL};
    const rowlock_acquire_options again = {.reentrant = true};
    const rowlock_acquire_options slots = {.slots = 2};
    rowlock_hold *none = NULL;
    WANT(INVALID, rowlock_acquire_set(client, NULL, 1, NULL, &none, &ts_err));
    WANT(INVALID, rowlock_acquire_set(client, names.list, 0, NULL, &none, &ts_err));
    WANT(INVALID,
         rowlock_acquire_set(client, names.list, ROWLOCK_SET_MAX + 1, NULL, &none, &ts_err));
    WANT(INVALID, rowlock_acquire_set(client, with_null, 2, NULL, &none, &ts_err));
    WANT(INVALID, rowlock_acquire_set(client, names.list, NAMES, &again, &none, &ts_err));
    WANT(INVALID, rowlock_acquire_set(client, names.list, NAMES, &slots, &none, &ts_err));
    assert_null(none);
}

TS_ONCE(test_unfenced)
{
    const char *name = ts_name("unfenced");
    rowlock_acquire_options options = {.mode = ROWLOCK_PESSIMISTIC, .unfenced = true};
    rowlock_hold *none = NULL;
    WANT(OK, ts_try(client, name, ROWLOCK_PESSIMISTIC));
    char *before = ts_dump(mysql, ts_schema());
    rowlock_hold *hold = ts_take_with(client, name, options);
    assert_true(rowlock_hold_token(hold) == 0);
    assert_held(hold);
    WANT(BUSY, ts_try(other, name, ROWLOCK_PESSIMISTIC));
    WANT(BUSY, rowlock_acquire(other, name, &options, &none, &ts_err));
    ts_same(before, ts_dump(mysql, ts_schema()));
    ts_sql(mysql, "BEGIN");
    WANT(INVALID, rowlock_fence(hold, mysql, &ts_err));
    ts_sql(mysql, "ROLLBACK");
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, ts_try(other, name, ROWLOCK_PESSIMISTIC));
}

static uint64_t marked_fenced(const char *name)
{
    return ts_sql_u64(mysql, "SELECT fenced FROM resource_lock WHERE resource_name = '%s'", name);
}

/* A name is locked unfenced, then fenced by a holder that dies: the next unfenced holder ends that
 * token. */
TS_ONCE(test_unfenced_ends_the_token_of_the_dead)
{
    const char *name = ts_name("mixed");
    const rowlock_acquire_options unfenced = {
        .mode = ROWLOCK_PESSIMISTIC, .unfenced = true, .wait_ms = 5000};
    TS_HOLD *hold = ts_take_with(client, name, unfenced);
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_int_equal(marked_fenced(name), 0);
    rowlock_hold *dead = ts_take_with(
        other, name, (rowlock_acquire_options){.mode = ROWLOCK_PESSIMISTIC, .wait_ms = 5000});
    assert_int_equal(marked_fenced(name), 1);
    uint64_t token = rowlock_hold_token(dead);
    ts_sql(
        mysql, "KILL CONNECTION %" PRIu64,
        ts_sql_u64(mysql, "SELECT connection_id FROM resource WHERE resource_name = '%s'", name));
    WANT(OK, rowlock_acquire(client, name, &unfenced, &hold, &ts_err));
    assert_int_equal(ts_sql_u64(mysql,
                                "SELECT COUNT(*) FROM resource WHERE resource_name = '%s'"
                                " AND status = 'free' AND version > %" PRIu64,
                                name, token),
                     1);
    WANT(LOST, rowlock_release(dead, &ts_err));
}

TS_MAIN("sets", open_clients, close_clients)
