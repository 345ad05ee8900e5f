/*
 * Latches and barriers when a statement or its reply is lost, or somebody stops it. After each
 * fault: a count counts once, a generation is open for all or for none, and a barrier lets exactly
 * its number in.
 */
#include "faults/crew.h"
#include "faults/through.h"
#include "rowlock/rowlock_barrier.h"
#include "rowlock/rowlock_latch.h"

static const char *set_latch(const char *word, unsigned count)
{
    const char *name = ts_name(word);
    WANT(OK, rowlock_latch_set(direct, name, count, NULL, &ts_err));
    return name;
}

static unsigned counted(const char *name)
{
    rowlock_latch_info info = {.count = 0};
    WANT(OK, rowlock_latch_get(direct, name, &info, &ts_err));
    return info.down;
}

static rowlock_status wait_for(rowlock_client *client, const char *name, int64_t wait_ms)
{
    const rowlock_latch_options options = {.wait_ms = wait_ms};
    return rowlock_latch_wait(client, name, &options, NULL, &ts_err);
}

/* Prepares the client's statements with another name. */
static void warm_up(rowlock_client *client)
{
    const char *name = set_latch("warm", 1);
    WANT(BUSY, wait_for(client, name, 0));
    WANT(OK, rowlock_latch_down(client, name, NULL, 0, &ts_err));
    WANT(OK, wait_for(client, name, 0));
}

static void warm_up_barrier(rowlock_client *client)
{
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_barrier_enter(client, ts_name("warm"), 1, NULL, &hold, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* A count counts once, with a key and without. (The latch is set some time before: otherwise nobody
 * could tell whether the count came before the set.) */
TS_ONCE(test_a_count)
{
    TS_CLIENT *client = open_patient();
    const char *names[4];
    for (int i = 0; i < 4; i++)
        names[i] = set_latch("count", 3);
    warm_up(client);
    for (int i = 0; i < 4; i++) {
        const char *name = names[i];
        ts_proxy_arm(proxy, lost[i % 2], "latch_down", 1, false);
        WANT(OK, rowlock_latch_down(client, name, i < 2 ? NULL : "key", 0, &ts_err));
        assert_true(ts_proxy_fired(proxy));
        assert_int_equal(counted(name), 1);
        ts_proxy_flow(proxy);
    }
}

TS_ONCE(test_a_count_that_is_stopped)
{
    TS_CLIENT *client = open_patient();
    warm_up(client);
    const char *name = set_latch("stopped", 2);
    ts_proxy_answer(proxy, STOPPED, "latch_down", 1);
    WANT(UNAVAILABLE, rowlock_latch_down(client, name, NULL, 0, &ts_err));
    assert_int_equal(counted(name), 0);
    ts_proxy_flow(proxy);
    WANT(OK, rowlock_latch_down(client, name, NULL, 0, &ts_err));
    assert_int_equal(counted(name), 1);
}

/* A latch is set once. */
TS_ONCE(test_a_set)
{
    for (int i = 0; i < 2; i++) {
        TS_CLIENT *client = open_patient();
        warm_up(client);
        const char *name = ts_name("set");
        WANT(BUSY, wait_for(client, name, 0));
        ts_proxy_arm(proxy, lost[i], "latch_set", 1, false);
        WANT(OK, rowlock_latch_set(client, name, 2, NULL, &ts_err));
        happened();
        WANT(BUSY, rowlock_latch_set(client, name, 2, NULL, &ts_err));
        WANT(OK, rowlock_latch_down(direct, name, NULL, 0, &ts_err));
        WANT(OK, rowlock_latch_down(direct, name, NULL, 0, &ts_err));
        WANT(OK, wait_for(direct, name, 0));
    }
}

/* A client that sees that all have counted opens the latch, even if its statement is lost. */
TS_ONCE(test_it_opens)
{
    TS_CLIENT *client = open_patient();
    warm_up(client);
    for (int i = 0; i < 6; i++) {
        const char *name = set_latch("opens", 1);
        WANT(OK, rowlock_latch_down(direct, name, NULL, 0, &ts_err));
        ts_proxy_arm(proxy, lost[i % 2], "latch_open latch_look", 1 + (unsigned)i / 2, false);
        WANT(OK, wait_for(client, name, 20000));
        ts_proxy_flow(proxy);
        WANT(OK, wait_for(direct, name, 0));
    }
    const char *name = set_latch("opens", 1);
    WANT(OK, rowlock_latch_down(direct, name, NULL, 0, &ts_err));
    ts_proxy_answer(proxy, STOPPED, "latch_open", 1);
    WANT(OK, wait_for(client, name, 20000));
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
    ts_proxy_flow(proxy);
}

/* A member joins once and counts once, and its end does not break the latch. */
TS_ONCE(test_a_member)
{
    static const char *const steps[] = {"latch_join", "latch_down", "shared_leave"};
    TS_CLIENT *client = open_patient();
    warm_up(client);
    for (int i = 0; i < 6; i++) {
        const char *name = set_latch("member", 1);
        rowlock_hold *hold = NULL;
        ts_proxy_arm(proxy, lost[i % 2], steps[i / 2], 1, false);
        WANT(OK, rowlock_latch_join(client, name, NULL, &hold, &ts_err));
        assert_held(hold);
        WANT(OK, rowlock_latch_done(hold, &ts_err));
        happened();
        assert_int_equal(counted(name), 1);
        WANT(OK, wait_for(direct, name, 0));
    }
}

TS_ONCE(test_a_member_leaves)
{
    TS_CLIENT *client = open_patient();
    warm_up(client);
    for (int i = 0; i < 2; i++) {
        const char *name = set_latch("leaves", 1);
        rowlock_hold *hold = NULL;
        WANT(OK, rowlock_latch_join(client, name, NULL, &hold, &ts_err));
        ts_proxy_arm(proxy, lost[i], "latch_break_member", 1, false);
        WANT(OK, rowlock_release(hold, &ts_err));
        happened();
        WANT(LOST, wait_for(direct, name, 0));
    }
}

static uint64_t dead_members_of(const char *name)
{
    return ts_rows_of(mysql, "lock_grant", name, " AND x.expires_at <= UTC_TIMESTAMP(6)");
}

/* Another client has counted the member's key: its row may stay and expire, since its part is
 * done. */
TS_ONCE(test_a_member_whose_key_was_counted)
{
    const rowlock_latch_join_options options = {.ttl_ms = TS_KEPT_TTL, .key = "part"};
    static const char *const steps[] = {"latch_down", "shared_leave"};
    for (int i = 0; i < 6; i++) {
        const bool stays = i >= 4;
        TS_CLIENT *client = stays ? through_open_hasty() : open_patient();
        warm_up(client);
        const char *name = set_latch("key", 2);
        rowlock_hold *hold = NULL;
        WANT(OK, rowlock_latch_join(client, name, &options, &hold, &ts_err));
        WANT(OK, rowlock_latch_down(direct, name, "part", 0, &ts_err));
        ts_proxy_arm(proxy, lost[i % 2], steps[stays ? 1 : i / 2], 1, stays);
        WANT(OK, rowlock_latch_done(hold, &ts_err));
        happened();
        if (stays && lost[i % 2] == TS_LOSE_COMMAND)
            assert_true(POLL_UNTIL(dead_members_of(name) == 1, 10000));
        WANT(BUSY, wait_for(direct, name, 0));
        assert_int_equal(counted(name), 1);
        WANT(OK, rowlock_latch_down(direct, name, NULL, 0, &ts_err));
        WANT(OK, wait_for(direct, name, 0));
    }
}

static rowlock_client *open_with_history(void)
{
    rowlock_client_options options = through_options();
    options.no_history = false;
    options.history_min_ms = -1;
    options.connect_timeout_ms = 20000;
    ts_proxy_flow(proxy);
    return ts_open_with(options);
}

static uint64_t events_of(rowlock_client *client, const char *name, const char *event)
{
    WANT(OK, rowlock_client_flush(client, 20000, &ts_err));
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM lock_event WHERE resource_name = %s AND event = '%s'",
                      ts_quote(name), event);
}

static void *flow_later(void *data)
{
    (void)data;
    POLL_UNTIL(ts_proxy_fired(proxy), 20000);
    ts_pass_ms(ROWLOCK_TTL_MIN_MS + 100);
    ts_proxy_flow(proxy);
    return NULL;
}

/* It has counted, so it is no loss that its expired row was deleted. */
TS_ONCE(test_a_member_that_has_counted_is_not_lost)
{
    const rowlock_latch_join_options options = {.ttl_ms = ROWLOCK_TTL_MIN_MS};
    int again = 5;
    for (int i = 0; i < 2; i++) {
        const int64_t stood_ms = ts_stood_ms();
        TS_CLIENT *client = open_with_history();
        pthread_t later;
        warm_up(client);
        const char *name = set_latch("not-lost", 1);
        rowlock_hold *hold = NULL;
        WANT(OK, rowlock_latch_join(client, name, &options, &hold, &ts_err));
        ts_proxy_arm(proxy, lost[i], "shared_leave", 1, true);
        assert_int_equal(pthread_create(&later, NULL, flow_later, NULL), 0);
        WANT(OK, rowlock_latch_done(hold, &ts_err));
        pthread_join(later, NULL);
        /* Lost before it had counted, since the machine stood still: this round says nothing. */
        if (events_of(client, name, "lost") > 0 &&
            ts_stood_ms() - stood_ms >= ROWLOCK_TTL_MIN_MS / 4 && again-- > 0) {
            i--;
            continue;
        }
        assert_int_equal(events_of(client, name, "acquired"), 1);
        assert_int_equal(events_of(client, name, "released"), 1);
        assert_int_equal(events_of(client, name, "lost"), 0);
    }
}

/* The latch was broken meanwhile: the member's row is deleted, and the break reported. */
TS_ONCE(test_a_member_of_a_broken_latch)
{
    TS_CLIENT *client = open_with_history();
    const char *name = set_latch("broken", 1);
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_latch_join(client, name, NULL, &hold, &ts_err));
    WANT(OK, rowlock_break(direct, name, NULL, &ts_err));
    WANT(LOST, rowlock_latch_done(hold, &ts_err));
    assert_int_equal(events_of(client, name, "acquired"), 1);
    assert_int_equal(events_of(client, name, "released"), 1);
    assert_int_equal(ts_rows_of(mysql, "lock_grant", name, ""), 0);
}

/* ---------------------------------------------------------------------------- a barrier */

static uint64_t members_of(const char *name)
{
    return ts_rows_of(mysql, "lock_grant", name, "");
}

typedef struct member {
    rowlock_client *from;
    const char *name;
    unsigned count;
    int64_t wait_ms; /* set this and the next two before the start; 0: long enough */
    int64_t ttl_ms;
    rowlock_cancel *cancel;
    pthread_t thread;
    rowlock_status status;
    rowlock_error err;
    rowlock_hold *hold;
    atomic_bool ended;
} member;

static void *enter(void *data)
{
    member *m = data;
    const rowlock_barrier_options options = {.wait_ms = m->wait_ms ? m->wait_ms : 30000,
                                             .ttl_ms = m->ttl_ms ? m->ttl_ms : 30000,
                                             .cancel = m->cancel};
    m->status = rowlock_barrier_enter(m->from, m->name, m->count, &options, &m->hold, &m->err);
    atomic_store(&m->ended, true);
    return NULL;
}

static void start_of(member *m, rowlock_client *from, const char *name, unsigned count)
{
    *m = (member){.from = from,
                  .name = name,
                  .count = count,
                  .wait_ms = m->wait_ms,
                  .ttl_ms = m->ttl_ms,
                  .cancel = m->cancel};
    assert_int_equal(pthread_create(&m->thread, NULL, enter, m), 0);
}

static void start(member *m, rowlock_client *from, const char *name)
{
    start_of(m, from, name, 2);
}

static void finish(member *m)
{
    assert_true(POLL_UNTIL(atomic_load(&m->ended), 40000));
    pthread_join(m->thread, NULL);
    ts_err = m->err;
    WANT(OK, m->status);
    assert_held(m->hold);
}

/* Loses each statement of a member that enters first, and of one that enters last. */
TS_ONCE(test_entering)
{
    static const char *const steps[] = {
        "begin",         "barrier_lock",     "barrier_drop", "barrier_gathered",
        "barrier_enter", "barrier_complete", "row_commit",   "barrier_look"};
    static member first;
    static member second;
    for (size_t i = 0; i < 4 * sizeof steps / sizeof steps[0]; i++) {
        TS_CLIENT *client = open_patient();
        const char *name = ts_name("enter");
        const bool last = i % 4 >= 2;
        const char *step = steps[i / 4];
        print_message("# %s, %s, %s\n", step, last ? "last" : "first",
                      lost[i % 2] == TS_LOSE_REPLY ? "reply" : "command");
        ts_proxy_arm(proxy, lost[i % 2], step, 1, false);
        start(&first, last ? direct : client, name);
        assert_true(POLL_UNTIL(members_of(name) == 1, 20000));
        start(&second, last ? client : direct, name);
        finish(&first);
        finish(&second);
        ts_proxy_flow(proxy);
        assert_int_equal(members_of(name), 2);
        assert_true(rowlock_hold_token(first.hold) == rowlock_hold_token(second.hold));
        assert_true(rowlock_hold_slot(first.hold) != rowlock_hold_slot(second.hold));
        WANT(BUSY, rowlock_barrier_leave(first.hold, 0, NULL, &ts_err));
        WANT(OK, rowlock_barrier_leave(second.hold, 10000, NULL, &ts_err));
        WANT(OK, rowlock_barrier_leave(first.hold, 10000, NULL, &ts_err));
        WANT(OK, rowlock_release(second.hold, &ts_err));
        WANT(OK, rowlock_release(first.hold, &ts_err));
        assert_int_equal(members_of(name), 0);
    }
}

enum { MANY = 1000000 }; /* as often as it tries */

/* Entering again takes more than one attempt: the member's old row does not count beside its new
 * one, even if it has not expired. */
TS_ONCE(test_entering_anew)
{
    static member first;
    static member second;
    TS_CLIENT *client = open_patient();
    const char *name = ts_name("anew");
    start(&first, client, name);
    assert_true(POLL_UNTIL(members_of(name) == 1, 20000));
    ts_proxy_answer(proxy, STOPPED, "barrier_lock", MANY);
    ts_sql(mysql,
           "UPDATE lock_grant SET expires_at = UTC_TIMESTAMP(6) WHERE resource_id = %" PRIu64,
           ts_id_of(mysql, name));
    assert_true(POLL_UNTIL(ts_proxy_answers_left(proxy) < MANY - 3, 20000));
    ts_sql(mysql,
           "UPDATE lock_grant SET owner_label = 'left', expires_at = UTC_TIMESTAMP(6) + INTERVAL 1"
           " HOUR WHERE resource_id = %" PRIu64,
           ts_id_of(mysql, name));
    ts_proxy_flow(proxy);
    assert_true(POLL_UNTIL(ts_sql_u64(mysql,
                                      "SELECT COUNT(*) FROM lock_grant WHERE owner_label <> 'left'"
                                      " AND resource_id = %" PRIu64,
                                      ts_id_of(mysql, name)) == 1,
                           20000));
    assert_int_equal(members_of(name), 1);
    start(&second, direct, name);
    finish(&first);
    finish(&second);
    WANT(OK, rowlock_release(first.hold, &ts_err));
    WANT(OK, rowlock_release(second.hold, &ts_err));
}

/* The wait ends before it has entered: its old row is deleted, too. */
TS_ONCE(test_entering_anew_in_vain)
{
    static member first;
    TS_CLIENT *client = open_patient();
    TS_CANCEL *cancel = ts_cancel();
    const char *name = ts_name("in-vain");
    warm_up_barrier(client);
    first = (member){.from = client, .name = name, .count = 2, .cancel = cancel};
    assert_int_equal(pthread_create(&first.thread, NULL, enter, &first), 0);
    assert_true(POLL_UNTIL(members_of(name) == 1, 20000));
    ts_proxy_answer(proxy, STOPPED, "barrier_lock", MANY);
    ts_sql(mysql,
           "UPDATE lock_grant SET expires_at = UTC_TIMESTAMP(6) WHERE resource_id = %" PRIu64,
           ts_id_of(mysql, name));
    assert_true(POLL_UNTIL(ts_proxy_answers_left(proxy) < MANY - 2, 20000));
    ts_sql(mysql,
           "UPDATE lock_grant SET expires_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR"
           " WHERE resource_id = %" PRIu64,
           ts_id_of(mysql, name));
    rowlock_cancel_fire(cancel);
    pthread_join(first.thread, NULL);
    ts_err = first.err;
    WANT(CANCELLED, first.status);
    assert_true(ts_proxy_answers_left(proxy) > 0);
    assert_int_equal(dead_members_of(name), 1);
    assert_int_equal(members_of(name), 1);
}

/* Stopped: the transaction is undone, and the member enters again. */
TS_ONCE(test_entering_is_stopped)
{
    static const char *const steps[] = {"barrier_lock", "barrier_drop", "barrier_gathered",
                                        "barrier_enter", "barrier_complete"};
    static member first;
    static member second;
    TS_CLIENT *client = open_patient();
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        const char *name = ts_name("stop");
        start(&first, direct, name);
        assert_true(POLL_UNTIL(members_of(name) == 1, 20000));
        ts_proxy_answer(proxy, STOPPED, steps[i], 1);
        start(&second, client, name);
        finish(&first);
        finish(&second);
        assert_int_equal(ts_proxy_answers_left(proxy), 0);
        assert_int_equal(members_of(name), 2);
        WANT(BUSY, rowlock_barrier_leave(first.hold, 0, NULL, &ts_err));
        WANT(OK, rowlock_barrier_leave(second.hold, 10000, NULL, &ts_err));
        WANT(OK, rowlock_release(second.hold, &ts_err));
        WANT(OK, rowlock_release(first.hold, &ts_err));
    }
}

/* The statement that deletes dead members was stopped, and answered OK with no row (MariaDB). */
TS_ONCE(test_the_dead_are_not_counted)
{
    static member first;
    static member second;
    static member third;
    TS_CLIENT *client = open_patient();
    const char *name = ts_name("dead");
    start_of(&first, direct, name, 3);
    assert_true(POLL_UNTIL(members_of(name) == 1, 20000));
    ts_sql(mysql,
           "INSERT INTO lock_grant (resource_id, owner, owner_label, version, place, acquired_at,"
           " expires_at) SELECT id, 'dead', 'the dead', version, 1, UTC_TIMESTAMP(6),"
           " UTC_TIMESTAMP(6) FROM resource WHERE resource_name = %s",
           ts_quote(name));
    ts_proxy_answer(proxy, 0, "barrier_drop", 2);
    start_of(&second, client, name, 3);
    assert_true(POLL_UNTIL(ts_proxy_answers_left(proxy) == 0, 20000));
    start_of(&third, direct, name, 3);
    finish(&first);
    finish(&second);
    finish(&third);
    assert_int_equal(members_of(name), 3);
    WANT(BUSY, rowlock_barrier_leave(first.hold, 0, NULL, &ts_err));
    WANT(BUSY, rowlock_barrier_leave(second.hold, 0, NULL, &ts_err));
    WANT(OK, rowlock_barrier_leave(third.hold, 10000, NULL, &ts_err));
    WANT(OK, rowlock_release(first.hold, &ts_err));
    WANT(OK, rowlock_release(second.hold, &ts_err));
    WANT(OK, rowlock_release(third.hold, &ts_err));
}

/* A member that has probably lost its place enters again, and does not count twice. */
TS_ONCE(test_its_own_row_is_not_another)
{
    static member first;
    static member second;
    TS_CLIENT *client = open_patient();
    const char *name = ts_name("own");
    first.ttl_ms = TS_KEPT_TTL;
    start(&first, client, name);
    assert_true(POLL_UNTIL(members_of(name) == 1, 20000));
    char *owner = ts_sql_text(mysql, "SELECT owner FROM lock_grant WHERE resource_id = %" PRIu64,
                              ts_id_of(mysql, name));
    ts_proxy_stall(proxy, true);
    ts_sql(mysql,
           "UPDATE lock_grant SET expires_at = UTC_TIMESTAMP(6) + INTERVAL 1 HOUR WHERE owner = %s",
           ts_quote(owner));
    ts_pass_ms(TS_KEPT_FOR);
    ts_proxy_flow(proxy);
    assert_true(POLL_UNTIL(
        ts_sql_u64(mysql, "SELECT COUNT(*) FROM lock_grant WHERE owner = %s", ts_quote(owner)) == 0,
        20000));
    free(owner);
    assert_true(POLL_UNTIL(members_of(name) == 1, 20000));
    assert_false(atomic_load(&first.ended));
    start(&second, direct, name);
    finish(&first);
    finish(&second);
    assert_int_equal(members_of(name), 2);
    (void)!rowlock_release(first.hold, &ts_err);
    (void)!rowlock_release(second.hold, &ts_err);
}

/* The statement that deletes its own row was stopped so, too: it is repeated. */
TS_ONCE(test_going_is_stopped)
{
    TS_CLIENT *client = open_patient();
    const char *name = ts_name("goes");
    const rowlock_barrier_options options = {.ttl_ms = 60000};
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_barrier_enter(client, name, 1, &options, &hold, &ts_err));
    WANT(OK, rowlock_barrier_leave(hold, 0, NULL, &ts_err));
    ts_proxy_answer(proxy, 0, "shared_leave", 2);
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
    assert_int_equal(members_of(name), 0);
}

static uint64_t living_of(const char *name)
{
    return ts_rows_of(mysql, "lock_grant", name, " AND x.expires_at > UTC_TIMESTAMP(6)");
}

/* A member that gathers, and stops waiting. */
static void enter_and_withdraw(rowlock_client *client, const char *name, int64_t ttl_ms)
{
    static member m;
    TS_CANCEL *cancel = ts_cancel();
    m = (member){.ttl_ms = ttl_ms, .cancel = cancel};
    start(&m, client, name);
    assert_true(POLL_UNTIL(living_of(name) == 1, 20000));
    rowlock_cancel_fire(cancel);
    assert_true(POLL_UNTIL(atomic_load(&m.ended), 40000));
    pthread_join(m.thread, NULL);
    ts_err = m.err;
    WANT(CANCELLED, m.status);
}

/* Another member that enters has the row locked meanwhile. */
TS_ONCE(test_withdrawing_waits)
{
    TS_CLIENT *client = open_patient();
    const char *name = ts_name("locked");
    ts_proxy_answer(proxy, 1205, "barrier_withdraw", 2);
    enter_and_withdraw(client, name, 30000);
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
    ts_proxy_flow(proxy);
    assert_int_equal(living_of(name), 0);
}

/* The withdrawal comes too late: the last one has entered, and so has this one. */
TS_ONCE(test_withdrawing_beside_the_last_one)
{
    static member first;
    static member second;
    TS_CLIENT *client = open_patient();
    TS_CANCEL *cancel = ts_cancel();
    const char *name = ts_name("beside");
    first.cancel = cancel;
    start(&first, client, name);
    /* It stands in line: it knows that it gathers. */
    assert_true(POLL_UNTIL(ts_bell_holder(mysql, name) != 0, 20000));
    ts_proxy_arm(proxy, TS_DELAY_COMMAND, "barrier_withdraw", 1, false);
    rowlock_cancel_fire(cancel);
    assert_true(POLL_UNTIL(ts_proxy_fired(proxy), 20000));
    start(&second, direct, name);
    finish(&second);
    ts_proxy_flow(proxy);
    finish(&first);
    assert_true(rowlock_hold_token(first.hold) == rowlock_hold_token(second.hold));
    WANT(OK, rowlock_release(first.hold, &ts_err));
    WANT(OK, rowlock_release(second.hold, &ts_err));
}

/* Stopped, and answered OK with no row. */
TS_ONCE(test_withdrawing_is_stopped)
{
    TS_CLIENT *client = open_patient();
    const char *name = ts_name("again");
    ts_proxy_answer(proxy, 0, "barrier_withdraw", 2);
    enter_and_withdraw(client, name, 30000);
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
    assert_int_equal(living_of(name), 0);
}

static void *cancel_and_flow(void *cancel)
{
    (void)POLL_UNTIL(ts_proxy_fired(proxy), 20000);
    rowlock_cancel_fire(cancel);
    ts_pass_ms(100);
    ts_proxy_flow(proxy);
    return NULL;
}

/* The wait is over when the reply to the COMMIT is lost: the member is withdrawn. */
TS_ONCE(test_withdrawing_who_may_have_entered)
{
    TS_CLIENT *client = open_patient();
    TS_CANCEL *cancel = ts_cancel();
    const char *name = ts_name("may-have");
    const rowlock_barrier_options options = {.wait_ms = 30000, .cancel = cancel};
    rowlock_hold *hold = NULL;
    pthread_t thread;
    enter_and_withdraw(client, name, 30000); /* it prepares the statements */
    ts_proxy_arm(proxy, TS_LOSE_REPLY, "row_commit", 1, true);
    assert_int_equal(pthread_create(&thread, NULL, cancel_and_flow, cancel), 0);
    WANT(CANCELLED, rowlock_barrier_enter(client, name, 2, &options, &hold, &ts_err));
    pthread_join(thread, NULL);
    happened();
    assert_int_equal(living_of(name), 0);
}

/* When a wait ends, another member can have the place, also if the reply to the withdrawal is
 * lost. */
TS_ONCE(test_withdrawing)
{
    static member first;
    static member second;
    for (int i = 0; i < 2; i++) {
        TS_CLIENT *client = open_patient();
        const char *name = ts_name("withdraw");
        ts_proxy_arm(proxy, lost[i], "barrier_withdraw", 1, false);
        enter_and_withdraw(client, name, ROWLOCK_TTL_MIN_MS);
        happened();
        /* Its row expires with its TTL. */
        assert_true(POLL_UNTIL(living_of(name) == 0, 10000));
        start(&first, direct, name);
        assert_true(POLL_UNTIL(members_of(name) >= 1, 20000));
        assert_false(atomic_load(&first.ended));
        start(&second, client, name);
        finish(&first);
        finish(&second);
        (void)!rowlock_release(first.hold, &ts_err);
        (void)!rowlock_release(second.hold, &ts_err);
    }
}

/* The end of a wait is no loss, although the row is deleted before its renewals stop. Nor is the
 * deletion of a row while others are still to come. */
TS_ONCE(test_withdrawing_is_no_loss)
{
    TS_CLIENT *client = open_with_history();
    const char *name = ts_name("no-loss");
    warm_up_barrier(client);
    /* The look after the withdrawal. */
    ts_proxy_answer(proxy, STOPPED, "barrier_look", 40);
    enter_and_withdraw(client, name, ROWLOCK_TTL_MIN_MS);
    assert_int_equal(ts_proxy_answers_left(proxy), 0);
    assert_int_equal(events_of(client, name, "acquired"), 0);
    assert_int_equal(events_of(client, name, "lost"), 0);
    assert_int_equal(ts_sql_u64(mysql,
                                "SELECT COUNT(*) FROM lock_total t JOIN resource r ON r.id = t.id"
                                " WHERE r.resource_name = %s",
                                ts_quote(name)),
                     0);
}

/* ------------------------------------------------------------------------ KILL QUERY */

/* The crew goes through generations. Each member notes that it has come before it counts, and
 * checks how many have when it goes on. */
enum { ROUNDS = 40 };

typedef struct together {
    atomic_uint come[ROUNDS];
    atomic_uint ready[ROUNDS];
    atomic_uint places[ROUNDS]; /* a bit for each place that was given */
} together;

static together all;

static void latch_round(rowlock_client *client, const char *name, unsigned who, unsigned number)
{
    const uint64_t generation = number + 1;
    const rowlock_latch_options options = {.wait_ms = 60000, .generation = generation};
    char key[12];
    rowlock_status status = ROWLOCK_NOT_FOUND;
    rowlock_error err = {0};
    snprintf(key, sizeof key, "%u", who);
    atomic_fetch_add(&all.come[number], 1);
    while (status == ROWLOCK_NOT_FOUND || status == ROWLOCK_BUSY ||
           crew_was_stopped(status, &err)) {
        /* The first one sets it. */
        status = rowlock_latch_set(client, name, CREW, NULL, &err);
        if (status != ROWLOCK_BUSY)
            (void)crew_was_stopped(status, &err);
        status = rowlock_latch_down(client, name, key, generation, &err);
    }
    do
        status = rowlock_latch_wait(client, name, &options, NULL, &err);
    while (crew_was_stopped(status, &err));
    crew_expect(atomic_load(&all.come[number]) == CREW, "not all had come");
}

static void barrier_round(rowlock_client *client, const char *name, unsigned who, unsigned number)
{
    const rowlock_barrier_options options = {.wait_ms = 60000, .ttl_ms = 60000};
    rowlock_hold *hold = NULL;
    rowlock_status status;
    rowlock_error err = {0};
    (void)who;
    atomic_fetch_add(&all.come[number], 1);
    do
        status = rowlock_barrier_enter(client, name, CREW, &options, &hold, &err);
    while (crew_was_stopped(status, &err));
    crew_expect(atomic_load(&all.come[number]) == CREW, "not all had come");
    if (!hold)
        return;
    crew_expect(rowlock_hold_token(hold) == number + 1, "it is another generation");
    atomic_fetch_or(&all.places[number], 1U << rowlock_hold_slot(hold));
    atomic_fetch_add(&all.ready[number], 1);
    do
        status = rowlock_barrier_leave(hold, 60000, NULL, &err);
    while (crew_was_stopped(status, &err));
    crew_expect(atomic_load(&all.ready[number]) == CREW, "not all were ready");
    crew_expect(atomic_load(&all.places[number]) == (1U << CREW) - 1, "a place was given twice");
    (void)crew_was_stopped(rowlock_release(hold, &err), &err);
}

TS_ONCE(test_counts_beside_kill_query)
{
    all = (together){.come = {0}};
    const char *name = crew_run("stopped-latch", NULL, ROUNDS, latch_round);
    rowlock_latch_info info;
    WANT(OK, rowlock_latch_get(direct, name, &info, &ts_err));
    assert_int_equal(info.state, ROWLOCK_LATCH_OPEN);
    assert_int_equal(info.generation, ROUNDS);
    assert_int_equal(info.down, CREW);
}

TS_ONCE(test_entering_beside_kill_query)
{
    all = (together){.come = {0}};
    const char *name = crew_run("stopped-barrier", NULL, ROUNDS, barrier_round);
    assert_int_equal(
        ts_sql_u64(mysql, "SELECT version FROM resource WHERE resource_name = %s", ts_quote(name)),
        ROUNDS + 1);
}

TS_MAIN("latches and barriers", through_begin, through_end)
