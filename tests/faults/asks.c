/*
 * Asks when a statement or its reply is lost, or somebody stops it. After each fault there is one
 * ask; the holder that was asked is told once, and nobody else is.
 */
#include "faults/through.h"

enum { TTL = TS_KEPT_TTL };

static rowlock_hold *hold_by(rowlock_client *client, const char *name, rowlock_mode mode,
                             atomic_int *heard)
{
    return ts_take_with(client, name,
                        (rowlock_acquire_options){.mode = mode,
                                                  .wait_ms = 10000,
                                                  .ttl_ms = TTL,
                                                  .on_ask = ts_count_ask,
                                                  .on_ask_data = heard});
}

static uint64_t number_of(const char *name)
{
    return ts_sql_u64(mysql,
                      "SELECT COALESCE(MAX(a.number), 0) FROM lock_ask a JOIN resource r"
                      " ON r.id = a.resource_id WHERE r.resource_name = %s",
                      ts_quote(name));
}

/* The ask is heard once, and not again with later renewals. */
static void is_heard_once(rowlock_hold *hold, atomic_int *heard)
{
    assert_true(POLL_UNTIL(atomic_load(heard) > 0, 20000));
    for (int64_t end = ts_now_ms() + TTL * 3 / 4; ts_now_ms() < end; ts_pass_ms(20))
        assert_held(hold);
    assert_int_equal(atomic_load(heard), 1);
}

/* The asker's statement is lost: it is sent again, and remains one ask. */
TS_BOTH(test_an_ask)
{
    TS_CLIENT *client = through_open();
    const char *name = ts_name("ask");
    atomic_int heard = 0;
    for (unsigned i = 0; i < 2; i++) {
        TS_HOLD *hold = hold_by(direct, name, mode, &heard);
        ts_proxy_arm(proxy, lost[i], "ask_put", 1, false);
        WANT(OK, rowlock_ask(client, name, NULL, &ts_err));
        happened();
        assert_int_equal(number_of(name), i + 1);
        is_heard_once(hold, &heard);
        atomic_store(&heard, 0);
    }
}

/* The server is gone before the reply. */
TS_ONCE(test_an_ask_that_nobody_knows_of)
{
    TS_CLIENT *client = through_open();
    const char *name = ts_name("unknown");
    atomic_int heard = 0;
    TS_HOLD *hold = hold_by(direct, name, ROWLOCK_OPTIMISTIC, &heard);
    ts_proxy_arm(proxy, TS_LOSE_REPLY, "ask_put", 1, true);
    WANT(UNKNOWN, rowlock_ask(client, name, NULL, &ts_err));
    ts_proxy_flow(proxy);
    is_heard_once(hold, &heard);
}

/* The only holder of a slot changes each time, just before it is asked: somebody holds one. */
TS_ONCE(test_slots_that_change_hands)
{
    TS_CLIENT *client = through_open();
    const char *name = ts_name("slots");
    TS_HOLD *hold = ts_take_with(direct, name, (rowlock_acquire_options){.slots = 2});
    ts_proxy_answer(proxy, 0, "ask_put", 3);
    WANT(BUSY, rowlock_ask(client, name, NULL, &ts_err));
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
    WANT(OK, rowlock_ask(client, name, NULL, &ts_err));
}

TS_ONCE(test_an_ask_that_is_stopped)
{
    TS_CLIENT *client = through_open();
    const char *name = ts_name("stopped");
    atomic_int heard = 0;
    TS_HOLD *hold = hold_by(direct, name, ROWLOCK_OPTIMISTIC, &heard);
    ts_proxy_answer(proxy, STOPPED, "ask_put", 100);
    WANT(UNAVAILABLE, rowlock_ask(client, name, NULL, &ts_err));
    assert_int_equal(number_of(name), 0);
    ts_proxy_flow(proxy);
    WANT(OK, rowlock_ask(client, name, NULL, &ts_err));
    is_heard_once(hold, &heard);
}

/* The holder's look is lost, or stopped: the next look finds the ask. */
TS_BOTH(test_a_look)
{
    TS_CLIENT *client = through_open();
    const char *looks = mode == ROWLOCK_PESSIMISTIC ? "row_asked" : "lease_renewed";
    const char *reads[] = {looks, "ask_read"};
    for (unsigned i = 0; i < 6; i++) {
        const char *name = ts_name("look");
        atomic_int heard = 0;
        TS_HOLD *hold = hold_by(client, name, mode, &heard);
        if (i < 4)
            ts_proxy_arm(proxy, lost[i % 2], reads[i / 2], 1, false);
        else
            ts_proxy_answer(proxy, STOPPED, reads[i % 2], 1);
        WANT(OK, rowlock_ask(direct, name, NULL, &ts_err));
        is_heard_once(hold, &heard);
        if (i < 4)
            happened();
    }
}

/* A renewal that had no effect: its look still counts. */
TS_ONCE(test_a_renewal_that_did_nothing)
{
    TS_CLIENT *client = through_open();
    const char *name = ts_name("nothing");
    atomic_int heard = 0;
    TS_HOLD *hold = hold_by(client, name, ROWLOCK_OPTIMISTIC, &heard);
    WANT(OK, rowlock_ask(direct, name, NULL, &ts_err));
    ts_proxy_answer(proxy, 0, "lease_renew", 1);
    is_heard_once(hold, &heard);
    ts_proxy_flow(proxy);
}

static void note_time(void *data, rowlock_hold *hold, const char *reason)
{
    (void)hold;
    (void)reason;
    atomic_store((atomic_llong *)data, ts_now_ms());
}

/* The line goes dead while an ask is read, which may take longer than the lease lasts. */
TS_ONCE(test_a_loss_does_not_wait_for_a_read)
{
    TS_CLIENT *client = through_open();
    const char *name = ts_name("dead");
    atomic_int heard = 0;
    atomic_llong told_ms = 0;
    rowlock_hold *hold = ts_take_with(client, name,
                                      (rowlock_acquire_options){.ttl_ms = TTL,
                                                                .on_ask = ts_count_ask,
                                                                .on_ask_data = &heard,
                                                                .on_lost = note_time,
                                                                .on_lost_data = &told_ms});
    ts_proxy_arm(proxy, TS_STALL_REPLY, "ask_read", 1, false);
    WANT(OK, rowlock_ask(direct, name, NULL, &ts_err));
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 10000));
    ts_proxy_stall(proxy, true);
    int64_t held_ms = ts_now_ms();
    for (int64_t now = held_ms; rowlock_hold_check(hold) == ROWLOCK_OK; now = ts_now_ms()) {
        held_ms = now;
        ts_pass_ms(5);
    }
    assert_true(POLL_UNTIL(atomic_load(&told_ms) != 0, 10000));
    assert_between(0, atomic_load(&told_ms) - held_ms, 500 + ts_slack_ms());
    ts_proxy_cut(proxy);
    ts_proxy_flow(proxy);
    WANT(LOST, rowlock_release(hold, &ts_err));
}

static void release_it(void *data, rowlock_hold *hold, const rowlock_asked *what)
{
    (void)what;
    atomic_store((atomic_int *)data, (int)rowlock_release(hold, NULL));
}

/* A caller that waits for the end sees it, even if a look is lost; and not too early. */
TS_ONCE(test_the_wait)
{
    TS_CLIENT *client = through_open();
    for (unsigned i = 0; i < 3; i++) {
        const char *name = ts_name("wait");
        atomic_int released = -1;
        (void)ts_take_with(
            direct, name,
            (rowlock_acquire_options){
                .wait_ms = 10000, .ttl_ms = TTL, .on_ask = release_it, .on_ask_data = &released});
        if (i < 2)
            ts_proxy_arm(proxy, lost[i], "ask_pending", 1, false);
        else
            ts_proxy_answer(proxy, STOPPED, "ask_pending", 3);
        const rowlock_ask_options options = {.wait_ms = 20000};
        WANT(OK, rowlock_ask(client, name, &options, &ts_err));
        assert_true(i == 2 || ts_proxy_fired(proxy));
        assert_int_equal(ts_proxy_answers_left(proxy), 0);
        ts_proxy_flow(proxy);
        WANT(NOT_FOUND, rowlock_ask(client, name, NULL, &ts_err));
        assert_true(POLL_UNTIL(atomic_load(&released) == ROWLOCK_OK, 10000));
    }
}

TS_MAIN("asks", through_begin, through_end)
