/*
 * Leaders when the request to publish, or its reply, is lost or late, or somebody stops it. After
 * each fault: the published value is the last one, and a leader that could not publish does not
 * hold the lease.
 */
#include "faults/through.h"
#include "rowlock/rowlock_leader.h"

enum { REFUSED = 1142, NO_ROW = 0 };

static rowlock_status lead(rowlock_client *client, const char *name, const char *value,
                           rowlock_hold **hold)
{
    const rowlock_acquire_options options = {.ttl_ms = 30000, .value = value};
    *hold = NULL;
    return rowlock_acquire(client, name, &options, hold, &ts_err);
}

static void led_with(const char *name, const char *value)
{
    rowlock_leader leader;
    WANT(OK, rowlock_observe(direct, name, NULL, &leader, &ts_err));
    assert_string_equal(leader.value, value);
}

/* Prepares the client's statements; `later`: and leads, for a publication while it holds. */
static void prepare(rowlock_client *client, bool later, const char *name, rowlock_hold **hold)
{
    rowlock_hold *warm = NULL;
    WANT(OK, lead(client, ts_name("warm"), "warm", &warm));
    WANT(OK, rowlock_release(warm, &ts_err));
    if (later)
        WANT(OK, lead(client, name, "before", hold));
}

/* Publishes in either way. */
static rowlock_status publish(rowlock_client *client, bool later, const char *name,
                              rowlock_hold **hold)
{
    return later ? rowlock_hold_set_value(*hold, "value", &ts_err)
                 : lead(client, name, "value", hold);
}

/* The request or its reply is lost; or the server answers that it was stopped, or that nothing
 * matched, though the lease is ours. */
TS_ONCE(test_it_is_tried_again)
{
    static const unsigned answers[] = {STOPPED, NO_ROW};
    for (int i = 0; i < 8; i++) {
        TS_CLIENT *client = through_open();
        const char *name = ts_name("again");
        const bool later = i >= 4;
        rowlock_hold *hold = NULL;
        prepare(client, later, name, &hold);
        if (i / 2 % 2)
            ts_proxy_answer(proxy, answers[i % 2], "leader_publish", 1);
        else
            ts_proxy_arm(proxy, lost[i % 2], "leader_publish", 1, false);
        WANT(OK, publish(client, later, name, &hold));
        assert_true(i / 2 % 2 ? ts_proxy_answers_left(proxy) == 0 : ts_proxy_fired(proxy));
        led_with(name, "value");
        assert_held(hold);
        WANT(OK, rowlock_release(hold, &ts_err));
        ts_proxy_flow(proxy);
    }
}

/* After a failed publication nobody has the lease. */
TS_ONCE(test_it_is_refused)
{
    TS_CLIENT *client = through_open();
    const char *name = ts_name("refused");
    rowlock_hold *hold = NULL;
    prepare(client, false, name, &hold);
    ts_proxy_answer(proxy, REFUSED, "leader_publish", 1);
    WANT(DENIED, publish(client, false, name, &hold));
    assert_null(hold);
    ts_proxy_flow(proxy);
    led_with(name, "");
    WANT(OK, ts_try(direct, name, ROWLOCK_OPTIMISTIC));
}

/* The server cannot be asked any more: a lease may stay held, by nobody, for its TTL; a hold is
 * told the truth. */
TS_ONCE(test_nobody_to_ask)
{
    for (int i = 0; i < 4; i++) {
        TS_CLIENT *client = through_open_hasty();
        const char *name = ts_name("nobody");
        rowlock_hold *hold = NULL;
        prepare(client, i >= 2, name, &hold);
        ts_proxy_arm(proxy, lost[i % 2], "leader_publish", 1, true);
        WANT(UNKNOWN, publish(client, i >= 2, name, &hold));
        assert_true(ts_proxy_fired(proxy));
        led_with(name, lost[i % 2] == TS_LOSE_REPLY ? "value" : i < 2 ? "" : "before");
        ts_proxy_flow(proxy);
        if (hold)
            WANT(OK, rowlock_hold_set_value(hold, "after", &ts_err));
        if (hold)
            led_with(name, "after");
    }
}

/* The server gets a request only after its caller has published another value. */
TS_ONCE(test_a_late_request)
{
    TS_CLIENT *client = through_open_hasty();
    const char *name = ts_name("late");
    rowlock_hold *hold = NULL;
    prepare(client, true, name, &hold);
    ts_proxy_arm(proxy, TS_DELAY_COMMAND, "leader_publish", 1, false);
    rowlock_status status = rowlock_hold_set_value(hold, "early", &ts_err);
    assert_true(status == ROWLOCK_OK || status == ROWLOCK_UNKNOWN);
    assert_true(ts_proxy_fired(proxy));
    WANT(OK, rowlock_hold_set_value(hold, "later", &ts_err));
    const uint64_t id = ts_id_of(mysql, name);
    const char *set_at = "SELECT COUNT(*) FROM lock_value WHERE value = 'later' AND resource_id = ";
    assert_int_equal(ts_sql_u64(mysql, "%s%" PRIu64, set_at, id), 1);
    ts_proxy_flow(proxy);
    for (int64_t end = ts_now_ms() + 500; ts_now_ms() < end; ts_pass_ms(20))
        led_with(name, "later");
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* An observer survives an outage. */
TS_ONCE(test_an_observer)
{
    for (int i = 0; i < 2; i++) {
        TS_CLIENT *client = through_open();
        const char *name = ts_name("observer");
        rowlock_leader seen = {.leads = false};
        rowlock_hold *hold = NULL;
        const rowlock_observe_options change = {.wait_ms = 30000, .after = &seen};
        WANT(OK, lead(direct, name, "value", &hold));
        ts_proxy_arm(proxy, lost[i], "leader_look", 1, false);
        WANT(OK, rowlock_observe(client, name, &change, &seen, &ts_err));
        assert_string_equal(seen.value, "value");
        happened();
        WANT(OK, rowlock_release(hold, &ts_err));
    }
}

TS_MAIN("leaders", through_begin, through_end)
