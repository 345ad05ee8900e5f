/*
 * Network faults: a proxy loses a call, loses its reply, stalls, or cuts the connection. After each
 * fault: at most one holder, the next one acquires within TTL + 1 s, tokens rise, and UNKNOWN comes
 * only if the server could not be asked.
 */

#include "faults/through.h"
#include "rowlock/rowlock_admin.h"

static int begin(void **state)
{
    through_begin(state);
    ts_sql(mysql, "CREATE TABLE work (id INT PRIMARY KEY AUTO_INCREMENT, who VARCHAR(60))"
                  " ENGINE = InnoDB");
    return 0;
}

/* The reply is lost, or late, but the server can be asked: the call reports the truth, and leaves
 * no lock behind. */
TS_BOTH(test_a_lost_reply_is_looked_up)
{
    static const struct {
        const char *name;
        ts_fault fault;
        int64_t wait_ms;
    } cases[] = {{"lost-reply", TS_LOSE_REPLY, 5000},
                 {"lost-command", TS_LOSE_COMMAND, 5000},
                 {"late-reply-to-a-try", TS_STALL_REPLY, 0}};
    TS_CLIENT *client = through_open();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *name = ts_name(cases[i].name);
        uint64_t token = 0;
        rowlock_hold *hold = NULL;
        print_message("# %s\n", name);
        next_one_gets_in(name, mode, &token);
        WANT(OK, ts_try(client, name, mode)); /* prepares the statements */
        ts_proxy_arm(proxy, cases[i].fault, taking(mode), 1, false);
        WANT(OK, acquire_kept(client, name, mode, cases[i].wait_ms, &hold));
        assert_true(ts_proxy_fired(proxy));
        assert_true(rowlock_hold_token(hold) > token);
        token = rowlock_hold_token(hold);
        assert_true(is_ours(hold));
        WANT(BUSY, ts_try(direct, name, mode));
        WANT(OK, rowlock_release(hold, &ts_err));
        ts_proxy_flow(proxy);
        next_one_gets_in(name, mode, &token);
    }
}

/* It stops its change, since the server is late. Nobody has the lock, so it asks again. */
TS_ONCE(test_a_try_at_a_late_server)
{
    TS_CLIENT *client = open_patient();
    for (int reads = 0; reads < 2; reads++) {
        const rowlock_acquire_options how = {.shared = reads, .ttl_ms = 60000};
        const char *name = ts_name("late-server");
        rowlock_hold *hold = NULL;
        WANT(OK, rowlock_release(ts_take_with(client, name, how), &ts_err)); /* prepares */
        WANT(OK, ts_try(direct, name, ROWLOCK_OPTIMISTIC)); /* it is free, and not shared */
        ts_proxy_arm(proxy, TS_DELAY_COMMAND, reads ? "shared_enter" : taking(ROWLOCK_OPTIMISTIC),
                     1, false);
        WANT(OK, rowlock_acquire(client, name, &how, &hold, &ts_err));
        happened();
        assert_true(is_ours(hold) || reads);
        WANT(OK, rowlock_release(hold, &ts_err));
    }
}

/* The server cannot be asked. A lease may stay held, by nobody, for its TTL; a row lock has
 * certainly ended with its connection. */
TS_BOTH(test_a_lost_reply_and_nobody_to_ask)
{
    const char *name = ts_name("unknown");
    TS_CLIENT *client = through_open_hasty();
    uint64_t token = 0;
    rowlock_hold *hold = NULL;
    next_one_gets_in(name, mode, &token);
    WANT(OK, ts_try(client, name, mode));
    ts_proxy_arm(proxy, TS_LOSE_REPLY, taking(mode), 1, true);
    if (mode == ROWLOCK_OPTIMISTIC)
        WANT(UNKNOWN, acquire(client, name, mode, 0, &hold));
    else
        WANT(UNAVAILABLE, acquire(client, name, mode, 0, &hold));
    assert_true(ts_proxy_fired(proxy));
    assert_null(hold);
    ts_proxy_flow(proxy);
    next_one_gets_in(name, mode, &token);
    WANT(OK, ts_try(client, name, mode));
}

/* Nothing was sent, so nothing can have been acquired. */
TS_BOTH(test_no_connection_at_all)
{
    const char *name = ts_name("refused");
    TS_CLIENT *client = through_open_hasty();
    rowlock_hold *hold = NULL;
    WANT(OK, ts_try(client, name, mode));
    ts_proxy_refuse(proxy, true);
    ts_proxy_cut(proxy);
    WANT(UNAVAILABLE, acquire(client, name, mode, 0, &hold));
    WANT(OK, ts_try(direct, name, mode));
    /* A wait goes on through an outage of reconnect_ms. */
    int64_t start = ts_now_ms();
    WANT(UNAVAILABLE, acquire(client, name, mode, 10000, &hold));
    assert_between(100, ts_now_ms() - start, 1500 + ts_slack_ms());
    ts_proxy_flow(proxy);
    WANT(OK, ts_try(client, name, mode));
}

/* The release is looked up if the server can be asked; otherwise the lock may stay for its TTL. */
TS_BOTH(test_a_release_without_its_reply)
{
    for (int i = 0; i < 4; i++) {
        bool refuse = i >= 2;
        TS_CLIENT *client = refuse ? through_open_hasty() : open_patient();
        const char *name = ts_name(refuse ? "release-unknown" : "release");
        rowlock_hold *hold = NULL;
        WANT(OK, ts_try(client, name, mode));
        WANT(OK, acquire_kept(client, name, mode, 0, &hold));
        uint64_t token = rowlock_hold_token(hold);
        ts_proxy_arm(proxy, lost[i % 2], giving(mode), 1, refuse);
        rowlock_status status = rowlock_release(hold, &ts_err);
        happened();
        if (refuse) {
            WANT(UNKNOWN, status);
        } else {
            WANT(OK, status);
            WANT(OK, ts_try(direct, name, mode));
        }
        next_one_gets_in_after(refuse ? TS_KEPT_TTL : ts_short_ttl(mode), name, mode, &token);
    }
}

static rowlock_status next_after_a_stuck_commit(void)
{
    const char *name = ts_name("release-stuck");
    TS_CLIENT *client = through_open();
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_PESSIMISTIC, 60000);
    ts_proxy_arm(proxy, TS_DELAY_COMMAND, giving(ROWLOCK_PESSIMISTIC), 1, false);
    rowlock_status status = rowlock_release(hold, &ts_err);
    assert_true(status == ROWLOCK_OK || status == ROWLOCK_UNKNOWN);
    assert_true(ts_proxy_fired(proxy));
    status = acquire(direct, name, ROWLOCK_PESSIMISTIC, 10000, &hold);
    if (status == ROWLOCK_OK)
        WANT(OK, rowlock_release(hold, &ts_err));
    ts_proxy_flow(proxy);
    return status;
}

/* The COMMIT is stuck on its way, so the server would keep the row locked for the TTL. The release
 * ends that connection, for which it has 0.2 s: again if the machine stood still meanwhile. */
TS_ONCE(test_a_release_whose_commit_is_stuck)
{
    int64_t stood = 0;
    rowlock_status next = ROWLOCK_TIMEOUT;
    for (int round = 0; round < 5 && next == ROWLOCK_TIMEOUT; round++) {
        stood = ts_stood_ms();
        next = next_after_a_stuck_commit();
        assert_true(next == ROWLOCK_OK || ts_stood_ms() > stood);
    }
    assert_int_equal(next, ROWLOCK_OK);
}

/* The version rises by exactly one, whatever was lost; if the server cannot be asked, by at most
 * one. */
TS_ONCE(test_every_command_of_a_section)
{
    for (int i = 0; i < 4; i++) {
        bool refuse = i >= 2;
        bool fired = true;
        for (unsigned nth = 1; fired && nth < 100; nth++) {
            const char *name = ts_name("section");
            uint64_t before = 0;
            unsigned calls = 0;
            rowlock_section_result result = {0};
            WANT(OK, rowlock_version_read(direct, name, &before, &ts_err));
            TS_CLIENT *client = refuse ? through_open_hasty() : through_open();
            ts_proxy_arm(proxy, lost[i % 2], NULL, nth, refuse);
            rowlock_status status =
                rowlock_section_run(client, name, NULL, ts_no_work, &calls, &result, &ts_err);
            fired = ts_proxy_fired(proxy);
            uint64_t after = ts_version_of(mysql, name);
            if (!refuse) {
                WANT(OK, status);
                assert_int_equal(result.version, after);
            }
            if (status == ROWLOCK_OK)
                assert_int_equal(after, before + 1);
            else if (status == ROWLOCK_UNAVAILABLE)
                assert_int_equal(after, before);
            else
                WANT(UNKNOWN, status);
            ts_proxy_flow(proxy);
        }
        assert_false(fired);
    }
}

static rowlock_status insert_one(void *data, const rowlock_section *section, MYSQL *conn)
{
    (void)data;
    ts_sql(conn, "INSERT INTO work (who) VALUES (%s)", ts_quote(section->name));
    return ROWLOCK_OK;
}

/* The caller's own connection loses its COMMIT, or the reply to it. */
TS_ONCE(test_the_commit_of_a_section)
{
    for (int i = 0; i < 2; i++) {
        const char *name = ts_name("commit");
        TS_MYSQL *own = ts_proxy_connect(proxy);
        ts_proxy_arm(proxy, lost[i], "caller_commit", 1, false);
        rowlock_section_result result = {0};
        rowlock_status status =
            rowlock_tx_section_run(direct, own, name, NULL, insert_one, NULL, &result, &ts_err);
        assert_true(ts_proxy_fired(proxy));
        uint64_t rows =
            ts_sql_u64(mysql, "SELECT COUNT(*) FROM work WHERE who = %s", ts_quote(name));
        if (lost[i] == TS_LOSE_REPLY) {
            WANT(OK, status);
            assert_int_equal(rows, 1);
        } else {
            WANT(UNAVAILABLE, status);
            assert_int_equal(rows, 0);
        }
        ts_proxy_flow(proxy);
    }
}

TS_BOTH(test_a_short_stall_while_held)
{
    /* Besides the stalls of the test, the machine may stand still for two seconds. */
    enum { TTL = TS_KEPT_TTL * 3 / 2 };
    const char *name = ts_name("short-stall");
    TS_CLIENT *client = through_open();
    TS_HOLD *hold = ts_take(client, name, mode, TTL);
    for (int i = 0; i < 3; i++) {
        ts_proxy_stall(proxy, true);
        ts_pass_ms(TTL / 8);
        ts_proxy_stall(proxy, false);
        ts_pass_ms(TTL / 3);
        assert_held(hold);
    }
    WANT(BUSY, ts_try(direct, name, mode));
}

/* A request of an ended call, which the server reads later from the dead connection, must not
 * acquire the lock, unless the call answered UNKNOWN. */
static void after_the_line_is_back(const char *name, rowlock_mode mode, rowlock_status said,
                                   uint64_t token)
{
    ts_proxy_flow(proxy);
    ts_pass_ms(100);
    uint64_t spent = said == ROWLOCK_UNKNOWN;
    assert_between((int64_t)token, (int64_t)ts_version_of(mysql, name), (int64_t)(token + spent));
    next_one_gets_in(name, mode, &token);
}

/* A call in progress when the connection goes dead ends in time, and when it is cancelled. */
TS_BOTH(test_a_wait_on_a_dead_line)
{
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        const char *name = ts_name(cancelled ? "dead-cancel" : "dead-line");
        TS_CLIENT *client = through_open();
        TS_CANCEL *cancel = ts_cancel();
        rowlock_hold *hold = ts_take(direct, name, mode, 30000);
        uint64_t token = rowlock_hold_token(hold);
        WANT(BUSY, ts_try(client, name, mode));
        ts_waiter waiter = {.client = client, .name = name};
        waiter.options = (rowlock_acquire_options){.mode = mode,
                                                   .wait_ms = cancelled ? -1 : 1000,
                                                   .ttl_ms = ts_short_ttl(mode),
                                                   .cancel = cancel};
        ts_waiter_start(&waiter);
        ts_pass_ms(200);
        ts_proxy_stall(proxy, true);
        WANT(OK, rowlock_release(hold, &ts_err));
        ts_pass_ms(cancelled ? 300 : 0);
        int64_t due = cancelled ? ts_now_ms() : waiter.started_ms + 1000;
        if (cancelled)
            rowlock_cancel_fire(cancel);
        rowlock_status status = ts_waiter_join(&waiter, 10000);
        assert_true(status == ROWLOCK_UNKNOWN ||
                    (cancelled ? status == ROWLOCK_CANCELLED
                               : status == ROWLOCK_TIMEOUT || status == ROWLOCK_UNAVAILABLE));
        assert_between(cancelled ? -1 : -10, waiter.ended_ms - due, 2 * ts_slack_ms());
        after_the_line_is_back(name, mode, status, token);
    }
}

/* The version whose renewal has not expired; 0: none. */
static uint64_t renewed_version(const char *name)
{
    return ts_sql_u64(mysql,
                      "SELECT IF(l.expires_at > UTC_TIMESTAMP(6), l.version, 0)"
                      "  FROM lease_renewal l JOIN resource r ON r.id = l.id"
                      " WHERE r.resource_name = %s",
                      ts_quote(name));
}

/* The network delivers a renewal when somebody else has long had the lease: it must not change that
 * holder's renewals. */
TS_ONCE(test_a_renewal_delivered_late)
{
    const char *name = ts_name("late-renewal");
    /* Without a bell: a take-over would kill the connection that has the bell. */
    rowlock_client_options options = through_options();
    options.waiting = ROWLOCK_WAITING_POLL;
    ts_proxy_flow(proxy);
    TS_CLIENT *client = ts_open_with(options);
    TS_CLIENT *third = ts_open();
    rowlock_hold *old = NULL;
    WANT(OK, acquire_kept(client, name, ROWLOCK_OPTIMISTIC, 0, &old));
    ts_proxy_arm(proxy, TS_DELAY_COMMAND, "lease_renew", 1, true);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 10000));
    TS_HOLD *hold = ts_take(third, name, ROWLOCK_OPTIMISTIC, 6000);
    WANT(LOST, rowlock_hold_check(old));
    /* As if it had been renewed for long, so that only its renewal counts. */
    assert_true(POLL_UNTIL(renewed_version(name) == rowlock_hold_token(hold), 10000));
    ts_sql(mysql, "UPDATE resource SET lease_expires_at = acquired_at WHERE resource_name = %s",
           ts_quote(name));
    uint64_t commands = ts_proxy_commands(proxy);
    ts_proxy_flow(proxy);
    /* The renewal arrives at last, from a connection whose client has given up. */
    assert_true(POLL_UNTIL(ts_proxy_commands(proxy) > commands, 10000));
    kept_from_others(hold, 400);
    assert_int_equal(renewed_version(name), rowlock_hold_token(hold));
    WANT(LOST, rowlock_release(old, &ts_err));
}

/* A take-over is on its way while the late holder renews, or somebody else takes over: the
 * statement that arrives last has no effect. */
TS_ONCE(test_a_take_over_is_overtaken)
{
    for (int by_another = 0; by_another < 2; by_another++) {
        const char *name = ts_name(by_another ? "two-take-over" : "renewed");
        TS_CLIENT *client = open_patient();
        TS_CANCEL *cancel = ts_cancel();
        print_message("# %s\n", name);
        rowlock_hold *old = ts_take(direct, name, ROWLOCK_OPTIMISTIC, 30000);
        WANT(BUSY, ts_try(client, name, ROWLOCK_OPTIMISTIC));
        ts_expire(mysql, name, ROWLOCK_OPTIMISTIC);
        ts_proxy_arm(proxy, TS_DELAY_COMMAND, "lease_take_over", 1, false);
        ts_waiter waiter = {
            .client = client, .name = name, .options = {.wait_ms = 60000, .cancel = cancel}};
        ts_waiter_start(&waiter);
        assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 10000));
        TS_HOLD *hold = by_another ? ts_take(direct, name, ROWLOCK_OPTIMISTIC, 30000) : old;
        if (!by_another)
            ts_sql(mysql,
                   "UPDATE lease_renewal l JOIN resource r ON r.id = l.id"
                   "   SET l.version = r.version,"
                   "       l.expires_at = UTC_TIMESTAMP(6) + INTERVAL 60 SECOND"
                   " WHERE r.resource_name = '%s'",
                   name);
        uint64_t commands = ts_proxy_commands(proxy);
        ts_proxy_flow(proxy);
        /* It had no effect, and the waiter goes on waiting. */
        assert_true(POLL_UNTIL(ts_proxy_commands(proxy) > commands + 2, 10000));
        rowlock_cancel_fire(cancel);
        WANT(CANCELLED, ts_waiter_join(&waiter, 10000));
        assert_held(hold);
        assert_int_equal(ts_version_of(mysql, name), rowlock_hold_token(hold));
        if (by_another)
            WANT(LOST, rowlock_release(old, &ts_err));
    }
}

static uint64_t published_connection(const char *name)
{
    return ts_sql_u64(mysql, "SELECT connection_id FROM resource WHERE resource_name = '%s'", name);
}

/* The connection with the row lock dies while the version is being published on another one: the
 * token was not made under the lock, so the acquire must not succeed with it. */
TS_ONCE(test_a_row_lock_dies_while_it_is_published)
{
    const char *name = ts_name("published");
    TS_CLIENT *client = through_open();
    /* The next hold has its row lock on the same connection. */
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_PESSIMISTIC, 30000);
    uint64_t connection = published_connection(name);
    WANT(OK, rowlock_release(hold, &ts_err));
    ts_proxy_arm(proxy, TS_DELAY_COMMAND, taking(ROWLOCK_PESSIMISTIC), 1, false);
    ts_waiter waiter = ts_wait(client, name, ROWLOCK_PESSIMISTIC, 10000, 30000);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 10000));
    ts_sql(mysql, "KILL CONNECTION %" PRIu64, connection);
    assert_true(POLL_UNTIL(ts_try(direct, name, ROWLOCK_PESSIMISTIC) == ROWLOCK_OK, 10000));
    ts_proxy_flow(proxy);
    rowlock_status status = ts_waiter_join(&waiter, 10000);
    if (status == ROWLOCK_OK) {
        /* It may have tried again, and acquired. */
        WANT(BUSY, ts_try(direct, name, ROWLOCK_PESSIMISTIC));
        WANT(OK, rowlock_release(waiter.hold, &ts_err));
    } else {
        assert_true(status == ROWLOCK_UNAVAILABLE);
        WANT(OK, ts_try(direct, name, ROWLOCK_PESSIMISTIC));
    }
}

typedef struct breaking {
    rowlock_client *client;
    const char *name;
    rowlock_status status;
} breaking;

static void *break_it(void *arg)
{
    breaking *b = arg;
    b->status = rowlock_break(b->client, b->name, "a test", NULL);
    return NULL;
}

/* The holder releases during the break, and has another lock on the same connection then. */
TS_ONCE(test_a_break_behind_a_release)
{
    static breaking b; /* the thread may outlive a test that fails */
    pthread_t thread;
    /* One that goes on asking for as long as this takes. */
    rowlock_client_options patient = through_options();
    patient.connect_timeout_ms = 20000;
    ts_proxy_flow(proxy);
    TS_CLIENT *client = ts_open();
    TS_CLIENT *breaker = ts_open_with(patient);
    b = (breaking){.client = breaker, .name = ts_name("let-go")};
    TS_HOLD *hold = ts_take(client, b.name, ROWLOCK_PESSIMISTIC, 60000);
    uint64_t connection = published_connection(b.name);
    ts_proxy_arm(proxy, TS_DELAY_COMMAND, "connection_is_holders", 1, false);
    assert_int_equal(pthread_create(&thread, NULL, break_it, &b), 0);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 10000));
    WANT(OK, rowlock_release(hold, &ts_err));
    const char *another = ts_name("another");
    hold = ts_take(client, another, ROWLOCK_PESSIMISTIC, 60000);
    assert_int_equal(published_connection(another), connection);
    ts_proxy_flow(proxy);
    pthread_join(thread, NULL);
    WANT(BUSY, b.status);
    assert_held(hold);
}

/* The holder of a broken lease opens it when its work has ended; the break may end just the
 * connection on which it says so. */
TS_ONCE(test_a_broken_lease_opens_in_spite_of_a_lost_word)
{
    TS_CLIENT *client = through_open();
    for (size_t i = 0; i < 2; i++) {
        const char *name = ts_name(i ? "reopen-command" : "reopen-reply");
        rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 60000);
        WANT(OK, rowlock_break(direct, name, NULL, &ts_err));
        ts_proxy_arm(proxy, lost[i], "lease_reopen", 1, false);
        WANT(LOST, rowlock_release(hold, &ts_err));
        assert_true(ts_proxy_fired(proxy));
        WANT(OK, ts_try(direct, name, ROWLOCK_OPTIMISTIC));
    }
}

/* What it says is so; where nobody could be asked, doing it again does no harm. */
static void freeze_and_lose(ts_fault fault, bool thaws, bool refuse)
{
    const char *name = ts_name(thaws ? "thaw" : "freeze");
    const rowlock_freeze_options options = {.name = name};
    TS_CLIENT *client = refuse ? through_open_hasty() : open_patient();
    const bool done = !refuse || fault == TS_LOSE_REPLY;
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    if (thaws)
        WANT(OK, rowlock_freeze(direct, &options, NULL, &ts_err));
    ts_proxy_arm(proxy, fault, "commit", 1, refuse);
    const rowlock_status status = thaws ? rowlock_thaw(client, &options, &ts_err)
                                        : rowlock_freeze(client, &options, NULL, &ts_err);
    assert_true(ts_proxy_fired(proxy));
    assert_int_equal(status, refuse ? ROWLOCK_UNKNOWN : ROWLOCK_OK);
    ts_proxy_flow(proxy);
    assert_int_equal(ts_try(direct, name, ROWLOCK_OPTIMISTIC),
                     done == thaws ? ROWLOCK_OK : ROWLOCK_FROZEN);
    if (!thaws)
        WANT(OK, rowlock_freeze(client, &options, NULL, &ts_err));
    const rowlock_status thawed = rowlock_thaw(client, &options, &ts_err);
    assert_int_equal(thawed, thaws && done ? ROWLOCK_NOT_FOUND : ROWLOCK_OK);
    WANT(OK, ts_try(direct, name, ROWLOCK_OPTIMISTIC));
}

TS_ONCE(test_the_commit_of_a_freeze_and_of_a_thaw)
{
    for (unsigned i = 0; i < 8; i++)
        freeze_and_lose(lost[i & 1], (i & 2) != 0, (i & 4) != 0);
}

/* Not done again by itself: that would raise all once more. */
TS_ONCE(test_the_commit_after_a_restore)
{
    static const char floor[] = "SELECT version FROM version_floor";
    TS_CLIENT *client = through_open();
    ts_sql(mysql, "UPDATE resource SET status = 'free'"); /* left behind by the tests above */
    for (size_t i = 0; i < 2; i++) {
        const uint64_t before = ts_sql_u64(mysql, floor);
        ts_proxy_arm(proxy, lost[i], "commit", 1, false);
        WANT(UNKNOWN, rowlock_restored(client, NULL, &ts_err));
        assert_true(ts_proxy_fired(proxy));
        assert_int_equal(ts_sql_u64(mysql, floor) - before,
                         lost[i] == TS_LOSE_REPLY ? UINT64_C(1) << 32 : 0);
        /* Until the server has seen that the connection ended its rows are locked. */
        assert_true(POLL_UNTIL(rowlock_restored(client, NULL, &ts_err) == ROWLOCK_OK, 10000));
    }
}

TS_MAIN("wire", begin, through_end)
