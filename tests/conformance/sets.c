/* Sets of names, and row locks without a token. */
#include "conformance/clients.h"

static const rowlock_acquire_options try_once = {.mode = ROWLOCK_PESSIMISTIC};

static rowlock_hold *take_set(rowlock_client *from, const char *const names[], size_t count)
{
    rowlock_hold *hold = NULL;
    rowlock_acquire_options options = {.mode = ROWLOCK_PESSIMISTIC, .wait_ms = 5000};
    WANT(OK, rowlock_acquire_set(from, names, count, &options, &hold, &ts_err));
    return hold;
}

TS_ONCE(test_all_of_them)
{
    const char *names[] = {"set-c", "set-a", "set-b", "set-c", "set-c"}; /* doubles count once */
    static const char *const sorted[] = {"set-a", "set-b", "set-c"};
    TS_HOLD *hold = take_set(client, names, 5);
    assert_int_equal(rowlock_hold_count(hold), 3);
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(rowlock_hold_name_at(hold, i), sorted[i]);
        assert_true(rowlock_hold_token_at(hold, i) > 0);
        WANT(BUSY, ts_try(other, sorted[i], ROWLOCK_PESSIMISTIC));
    }
    assert_string_equal(rowlock_hold_name(hold), "set-a");
    assert_true(rowlock_hold_token(hold) == rowlock_hold_token_at(hold, 0));
    assert_null(rowlock_hold_name_at(hold, 3));
    uint64_t token = rowlock_hold_token_at(hold, 2);
    WANT(OK, rowlock_release(hold, &ts_err));
    for (size_t i = 0; i < 3; i++)
        WANT(OK, ts_try(other, sorted[i], ROWLOCK_PESSIMISTIC));
    hold = take_set(client, names, 5);
    assert_true(rowlock_hold_token_at(hold, 2) > token);
}

TS_ONCE(test_all_or_none)
{
    const char *names[] = {"none-a", "none-b", "none-c"};
    rowlock_hold *none = NULL;
    TS_HOLD *hold = ts_take(client, "none-b", ROWLOCK_PESSIMISTIC, 30000);
    WANT(BUSY, rowlock_acquire_set(other, names, 3, &try_once, &none, &ts_err));
    WANT(OK, ts_try(client, "none-a", ROWLOCK_PESSIMISTIC));
    WANT(OK, ts_try(client, "none-c", ROWLOCK_PESSIMISTIC));
    rowlock_acquire_options wait = {.mode = ROWLOCK_PESSIMISTIC, .wait_ms = 300};
    int64_t stood = ts_stood_ms();
    int64_t start = ts_now_ms();
    WANT_TIMEOUT(ROWLOCK_PESSIMISTIC, stood,
                 rowlock_acquire_set(other, names, 3, &wait, &none, &ts_err));
    assert_between(299, ts_now_ms() - start, 300 + ts_slack_ms());
    /* (On a machine that stood still, a wait that could not be stopped in time may have the first,
     * until the server sees that its connection has ended.) */
    (void)POLL_UNTIL(ts_try(client, "none-a", ROWLOCK_PESSIMISTIC) == ROWLOCK_OK,
                     ts_stood_ms() == stood ? 0 : 10000);
    WANT(OK, ts_try(client, "none-a", ROWLOCK_PESSIMISTIC));
    WANT(OK, ts_try(client, "none-c", ROWLOCK_PESSIMISTIC));
    assert_null(none);
    WANT(OK, rowlock_release(hold, &ts_err));
    hold = take_set(other, names, 3);
}

TS_ONCE(test_a_set_with_a_name_of_the_other_mode)
{
    const char *names[] = {"mixed-a", "mixed-lease", "mixed-z"};
    rowlock_hold *none = NULL;
    WANT(OK, ts_try(client, "mixed-lease", ROWLOCK_OPTIMISTIC));
    WANT(MODE, rowlock_acquire_set(client, names, 3, &try_once, &none, &ts_err));
    assert_non_null(strstr(ts_err.message, "mixed-lease"));
    assert_null(none);
    WANT(OK, ts_try(client, "mixed-a", ROWLOCK_PESSIMISTIC));
}

TS_ONCE(test_a_set_can_be_lost)
{
    const char *names[] = {"lost-a", "lost-b"};
    rowlock_hold *hold = take_set(client, names, 2);
    ts_expire(mysql, "lost-b", ROWLOCK_PESSIMISTIC);
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    TS_HOLD *next = take_set(other, names, 2);
    assert_true(rowlock_hold_token_at(next, 0) > rowlock_hold_token_at(hold, 0));
    WANT(LOST, rowlock_release(hold, &ts_err));
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

/* A name is used without fencing, then with it by one that dies: who locks it next without
 * fencing ends that token. */
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
