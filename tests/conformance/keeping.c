/* While a lock is held: renewal, loss, limits. */
#include "conformance/clients.h"

static rowlock_hold *take_telling(const char *name, rowlock_mode mode, int64_t ttl_ms, ts_loss *t)
{
    return ts_take_with(client, name,
                        (rowlock_acquire_options){.mode = mode,
                                                  .wait_ms = 10000,
                                                  .ttl_ms = ttl_ms,
                                                  .on_lost = ts_on_lost,
                                                  .on_lost_data = t});
}

TS_BOTH(test_it_is_kept_beyond_its_ttl)
{
    const char *name = ts_name("kept");
    ts_loss t = {0};
    rowlock_hold *hold = take_telling(name, mode, TS_KEPT_TTL, &t);
    stays_held(hold);
    assert_false(readable(rowlock_hold_fd(hold)));
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_int_equal(atomic_load(&t.times), 0);
    WANT(OK, ts_try(other, name, mode));
}

/* The descriptor of a loss is readable, whether it was asked for before or after that. */
static void tell_of_a_loss(rowlock_mode mode, bool asked_before)
{
    const char *name = ts_name("told");
    ts_loss t = {0};
    rowlock_hold *hold = take_telling(name, mode, TS_KEPT_TTL, &t);
    if (asked_before)
        assert_true(rowlock_hold_fd(hold) >= 0);
    int fd = asked_before ? rowlock_hold_fd(hold) : -1;
    WANT(OK, rowlock_break(other, name, "for the test", &ts_err));
    assert_true(POLL_UNTIL(atomic_load(&t.times) == 1, 10000));
    assert_ptr_equal(t.hold, hold);
    assert_between(1, (int64_t)strlen(t.reason), 255);
    assert_null(strchr(t.reason, '\n'));
    /* It is told by its next renewal, not at the end of its TTL. */
    if (mode == ROWLOCK_OPTIMISTIC)
        assert_non_null(strstr(t.reason, "taken away"));
    WANT(LOST, rowlock_hold_check(hold));
    assert_true(fd == -1 || fd == rowlock_hold_fd(hold));
    assert_true(readable(rowlock_hold_fd(hold)));
    assert_int_equal(rowlock_hold_remaining_ms(hold), 0);
    WANT(LOST, rowlock_present(hold, mysql, &ts_err));
    WANT(LOST, rowlock_release(hold, &ts_err));
    assert_non_null(strstr(ts_err.message, name));
    assert_int_equal(atomic_load(&t.times), 1);
    WANT(OK, ts_try(other, name, mode));
}

TS_BOTH(test_a_loss_is_told)
{
    tell_of_a_loss(mode, true);
    tell_of_a_loss(mode, false);
}

/* The connection is all that a row lock has: its end is seen on the socket at once. */
TS_ONCE(test_a_cut_row_lock_is_known_at_once)
{
    const char *name = ts_name("cut");
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_PESSIMISTIC, 60000);
    ts_expire(mysql, name, ROWLOCK_PESSIMISTIC);
    /* Long before its next ping, twenty seconds later. */
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    WANT(LOST, rowlock_release(hold, &ts_err));
}

/* Also a limit that is shorter than the first TTL. */
TS_ONCE(test_max_hold)
{
    static const rowlock_acquire_options limits[] = {{.ttl_ms = 1000, .max_hold_ms = 1500},
                                                     {.ttl_ms = 30000, .max_hold_ms = 800}};
    for (size_t i = 0; i < 2; i++) {
        const char *name = ts_name("max-hold");
        int64_t max_ms = limits[i].max_hold_ms;
        ts_loss t = {0};
        rowlock_acquire_options options = limits[i];
        options.on_lost = ts_on_lost;
        options.on_lost_data = &t;
        int64_t start = ts_now_ms();
        int64_t stood = ts_stood_ms();
        rowlock_hold *hold = ts_take_with(client, name, options);
        int64_t remaining = rowlock_hold_remaining_ms(hold);
        /* On a machine that stood still it may be over already. */
        assert_between(ts_stood_ms() - stood < 300, remaining, max_ms);
        TS_WAITER waiter = ts_wait(other, name, ROWLOCK_OPTIMISTIC, 10000, 0);
        WANT(OK, ts_waiter_join(&waiter, 10000));
        WANT(LOST, rowlock_hold_check(hold));
        assert_true(POLL_UNTIL(atomic_load(&t.times) == 1, 10000));
        assert_between(0, atomic_load(&t.at_ms), waiter.ended_ms + ts_stood_ms() - stood);
        assert_between(max_ms - 600, waiter.ended_ms - start, max_ms + 1000 + ts_slack_ms());
        assert_between(max_ms - 700, atomic_load(&t.at_ms) - start, max_ms + ts_stood_ms() - stood);
        WANT(LOST, rowlock_release(hold, &ts_err));
    }
}

/* It also applies to a waiter when the lease is released. */
TS_ONCE(test_at_least)
{
    enum { AT_LEAST = 6000 }; /* long enough to look at it */
    const char *name = ts_name("at-least");
    rowlock_list *list = NULL;
    int64_t start = ts_now_ms();
    rowlock_hold *hold =
        ts_take_with(client, name, (rowlock_acquire_options){.at_least_ms = AT_LEAST});
    int64_t got = ts_now_ms();
    TS_WAITER waiter = ts_wait(other, name, ROWLOCK_OPTIMISTIC, 20000, 0);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(BUSY, ts_try(other, name, ROWLOCK_OPTIMISTIC));
    WANT(BUSY, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    WANT(OK, rowlock_list_one(other, name, &list, &ts_err));
    assert_int_equal(rowlock_list_at(list, 0)->state, ROWLOCK_COOLING);
    assert_between(1, rowlock_list_at(list, 0)->remaining_ms, AT_LEAST);
    assert_between(19, (int64_t)strlen(rowlock_list_at(list, 0)->expires_at), 26);
    rowlock_list_free(list);
    WANT(OK, ts_waiter_join(&waiter, 20000));
    assert_between(AT_LEAST - 5, waiter.ended_ms - start,
                   AT_LEAST + (got - start) + 2000 + ts_slack_ms());
}

TS_MAIN("keeping", open_clients, close_clients)
