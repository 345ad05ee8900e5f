/*
 * Readers, writers, and upgrades and downgrades, when a statement or its reply is lost. After each
 * fault: a writer is alone, whatever others believe; and nobody is kept out for longer than a TTL,
 * or than a dead next writer keeps readers out.
 */
#include "faults/through.h"

/* How long a dead writer keeps a name closed (src/kind/shared.c). */
enum { CLOSED_MS = 10000, LONG_TTL = 60000 };

static rowlock_status enter(rowlock_client *client, const char *name, int64_t wait_ms,
                            int64_t ttl_ms, rowlock_hold **hold)
{
    const rowlock_acquire_options options = {.shared = true, .wait_ms = wait_ms, .ttl_ms = ttl_ms};
    *hold = NULL;
    return rowlock_acquire(client, name, &options, hold, &ts_err);
}

static rowlock_hold *read_it(rowlock_client *client, const char *name, int64_t ttl_ms)
{
    rowlock_hold *hold = NULL;
    WANT(OK, enter(client, name, 20000, ttl_ms, &hold));
    return hold;
}

static rowlock_status try_to_read(rowlock_client *client, const char *name)
{
    rowlock_hold *hold = NULL;
    rowlock_status status = enter(client, name, 0, LONG_TTL, &hold);
    if (status == ROWLOCK_OK)
        WANT(OK, rowlock_release(hold, &ts_err));
    return status;
}

/* A free name; the client has prepared its statements, so that the first one that it sends belongs
 * to the try. */
static const char *free_name(const char *word, rowlock_client *client)
{
    const char *name = ts_name(word);
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    WANT(OK, try_to_read(client, name));
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    return name;
}

/* The same, open for readers, but without any. */
static const char *open_name(const char *word, rowlock_client *client)
{
    const char *name = free_name(word, client);
    WANT(OK, try_to_read(client, name));
    return name;
}

static uint64_t readers_of(const char *name)
{
    return ts_rows_of(mysql, "lock_grant", name, "");
}

/* A reader acquires and releases within so long. */
static void next_reader_gets_in_after(int64_t ms, const char *name)
{
    int64_t start = ts_now_ms();
    rowlock_hold *hold = read_it(direct, name, LONG_TTL);
    assert_between(0, ts_now_ms() - start, ms + 5000 + ts_slack_ms());
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* This hold has it with other readers, without a writer. */
static void is_shared(rowlock_hold *hold)
{
    assert_held(hold);
    assert_int_equal(ts_sql_u64(mysql,
                                "SELECT COUNT(*) FROM lock_grant WHERE owner = '%s' AND version ="
                                " %" PRIu64,
                                rowlock_hold_owner(hold), rowlock_hold_token(hold)),
                     1);
    WANT(BUSY, ts_try(direct, rowlock_hold_name(hold), ROWLOCK_OPTIMISTIC));
}

/* A writer acquires within so long, and not before the hold knows that it is lost. */
static void next_one_is_alone_after(int64_t ttl_ms, rowlock_hold *hold, const char *name)
{
    const rowlock_acquire_options options = {.wait_ms = 30000, .ttl_ms = LONG_TTL};
    rowlock_hold *next = NULL;
    int64_t start = ts_now_ms();
    WANT(OK, rowlock_acquire(direct, name, &options, &next, &ts_err));
    WANT(LOST, rowlock_hold_check(hold));
    assert_between(0, ts_now_ms() - start, ttl_ms + 1000 + ts_slack_ms());
    assert_true(rowlock_hold_token(next) > rowlock_hold_token(hold));
    WANT(OK, rowlock_release(next, &ts_err));
}

/* ------------------------------------------------------------------------ a reader */

/* Loses each statement with which the first reader of a free name enters, and a later one. */
TS_ONCE(test_a_reader_comes_in)
{
    static const struct {
        const char *word;
        bool open;
        unsigned nth;
    } cases[] = {{"open-1", true, 1},
                 {"free-1", false, 1},
                 {"free-2", false, 2},
                 {"free-3", false, 3},
                 {"free-4", false, 4}};
    TS_CLIENT *client = through_open();
    for (size_t i = 0; i < 2 * sizeof cases / sizeof cases[0]; i++) {
        const ts_fault fault = lost[i % 2];
        const char *word = cases[i / 2].word;
        rowlock_hold *hold = NULL;
        print_message("# %s, %s\n", word, fault == TS_LOSE_REPLY ? "reply" : "command");
        const char *name = cases[i / 2].open ? open_name(word, client) : free_name(word, client);
        uint64_t token = ts_version_of(mysql, name);
        ts_proxy_arm(proxy, fault, "shared_enter shared_open", cases[i / 2].nth, false);
        WANT(OK, enter(client, name, 5000, LONG_TTL, &hold));
        assert_true(ts_proxy_fired(proxy));
        assert_true(rowlock_hold_token(hold) == token);
        is_shared(hold);
        assert_int_equal(readers_of(name), 1);
        WANT(OK, try_to_read(direct, name));
        WANT(OK, rowlock_release(hold, &ts_err));
        ts_proxy_flow(proxy);
        next_one_gets_in_after(0, name, ROWLOCK_OPTIMISTIC, &token);
    }
}

/* A try looks up its lost request, too. */
TS_ONCE(test_a_reader_tries)
{
    TS_CLIENT *client = through_open();
    for (int i = 0; i < 2; i++) {
        const char *name = open_name("try", client);
        rowlock_hold *hold = NULL;
        uint64_t token = ts_version_of(mysql, name);
        ts_proxy_arm(proxy, lost[i], "shared_enter", 1, false);
        WANT(OK, enter(client, name, 0, LONG_TTL, &hold));
        assert_true(ts_proxy_fired(proxy));
        is_shared(hold);
        WANT(OK, rowlock_release(hold, &ts_err));
        ts_proxy_flow(proxy);
        next_one_gets_in_after(0, name, ROWLOCK_OPTIMISTIC, &token);
    }
}

/* The server cannot be asked: the reader's row may stay, for nobody, for its TTL. */
TS_ONCE(test_a_reader_and_nobody_to_ask)
{
    for (int i = 0; i < 2; i++) {
        TS_CLIENT *client = through_open_hasty();
        const char *name = open_name("reader-unknown", client);
        rowlock_hold *hold = NULL;
        uint64_t token = ts_version_of(mysql, name);
        ts_proxy_arm(proxy, lost[i], "shared_enter", 1, true);
        WANT(UNKNOWN, enter(client, name, 0, ts_short_ttl(ROWLOCK_OPTIMISTIC), &hold));
        assert_true(ts_proxy_fired(proxy));
        assert_null(hold);
        ts_proxy_flow(proxy);
        WANT(OK, try_to_read(direct, name));
        next_one_gets_in(name, ROWLOCK_OPTIMISTIC, &token);
        WANT(OK, try_to_read(client, name));
    }
}

TS_ONCE(test_a_reader_leaves)
{
    for (int i = 0; i < 4; i++) {
        const bool refuse = i >= 2;
        TS_CLIENT *client = refuse ? through_open_hasty() : through_open();
        const char *name = open_name(refuse ? "leave-unknown" : "leave", client);
        uint64_t token = ts_version_of(mysql, name);
        rowlock_hold *hold = read_it(client, name, refuse ? TS_KEPT_TTL : LONG_TTL);
        ts_proxy_arm(proxy, lost[i % 2], "shared_leave", 1, refuse);
        rowlock_status status = rowlock_release(hold, &ts_err);
        happened();
        if (refuse)
            WANT(UNKNOWN, status);
        else
            WANT(OK, status);
        WANT(OK, try_to_read(direct, name));
        next_one_gets_in_after(refuse ? TS_KEPT_TTL : 0, name, ROWLOCK_OPTIMISTIC, &token);
    }
}

/* ------------------------------------------------------------------------ a writer */

/* It waits for a reader, and acquires when that one leaves. */
TS_ONCE(test_a_writer_closes)
{
    TS_CLIENT *client = through_open();
    for (int i = 0; i < 2; i++) {
        const char *name = open_name("close", client);
        uint64_t token = ts_version_of(mysql, name);
        rowlock_hold *hold = read_it(direct, name, LONG_TTL);
        ts_proxy_arm(proxy, lost[i], "shared_close", 1, false);
        ts_waiter writer = ts_wait(client, name, ROWLOCK_OPTIMISTIC, 20000, LONG_TTL);
        assert_true(POLL_UNTIL(ts_proxy_fired(proxy) && ts_is_closed(mysql, name), 10000));
        WANT(BUSY, try_to_read(direct, name));
        is_shared(hold);
        assert_false(ts_waiter_ended(&writer));
        WANT(OK, rowlock_release(hold, &ts_err));
        ASSERT_GETS_IN(&writer, token, 10000);
        assert_true(is_ours(writer.hold));
        WANT(BUSY, try_to_read(direct, name));
        WANT(OK, rowlock_release(writer.hold, &ts_err));
        ts_proxy_flow(proxy);
    }
}

/* A try looks up its lost request, and goes on. */
TS_ONCE(test_a_try_closes)
{
    TS_CLIENT *client = through_open();
    for (int i = 0; i < 2; i++) {
        const char *name = open_name("try-closes", client);
        uint64_t token = ts_version_of(mysql, name);
        ts_proxy_arm(proxy, lost[i], "shared_close", 1, false);
        WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
        happened();
        assert_true(ts_version_of(mysql, name) == token + 1);
        next_reader_gets_in_after(0, name);
        next_one_gets_in_after(0, name, ROWLOCK_OPTIMISTIC, &token);
    }
}

/* The writer has died: neither readers nor the next writer wait for it for ever. */
TS_ONCE(test_a_writer_closes_and_nobody_to_ask)
{
    for (int next_is_writer = 0; next_is_writer < 2; next_is_writer++) {
        TS_CLIENT *client = through_open_hasty();
        const char *name = open_name("close-unknown", client);
        uint64_t token = ts_version_of(mysql, name);
        rowlock_hold *hold = read_it(direct, name, LONG_TTL);
        ts_proxy_arm(proxy, TS_LOSE_REPLY, "shared_close", 1, true);
        ts_waiter writer = ts_wait(client, name, ROWLOCK_OPTIMISTIC, 20000, LONG_TTL);
        WANT(UNAVAILABLE, ts_waiter_join(&writer, 10000));
        assert_true(ts_proxy_fired(proxy));
        assert_true(ts_is_closed(mysql, name));
        is_shared(hold);
        ts_proxy_flow(proxy);
        if (!next_is_writer)
            next_reader_gets_in_after(CLOSED_MS, name);
        is_shared(hold);
        WANT(OK, rowlock_release(hold, &ts_err));
        next_one_gets_in_after(next_is_writer ? CLOSED_MS : 0, name, ROWLOCK_OPTIMISTIC, &token);
    }
}

/* By a writer that waited for a reader, and by a try that found none. */
TS_ONCE(test_a_writer_takes)
{
    TS_CLIENT *client = through_open();
    for (int i = 0; i < 4; i++) {
        const bool waits = i >= 2;
        const char *name = open_name(waits ? "take" : "try-takes", client);
        uint64_t token = ts_version_of(mysql, name);
        rowlock_hold *hold = waits ? read_it(direct, name, LONG_TTL) : NULL;
        ts_proxy_arm(proxy, lost[i % 2], "shared_take", 1, false);
        ts_waiter writer = ts_wait(client, name, ROWLOCK_OPTIMISTIC, waits ? 20000 : 0, LONG_TTL);
        if (waits) {
            assert_true(POLL_UNTIL(ts_is_closed(mysql, name), 10000));
            WANT(OK, rowlock_release(hold, &ts_err));
        }
        ASSERT_GETS_IN(&writer, token, 10000);
        assert_true(ts_proxy_fired(proxy));
        assert_true(rowlock_hold_token(writer.hold) == token + 1);
        assert_true(is_ours(writer.hold));
        WANT(BUSY, try_to_read(direct, name));
        WANT(BUSY, ts_try(direct, name, ROWLOCK_OPTIMISTIC));
        WANT(OK, rowlock_release(writer.hold, &ts_err));
        ts_proxy_flow(proxy);
        next_reader_gets_in_after(0, name);
    }
}

/* It may stay held, by nobody, for the TTL; or closed, by nobody. */
TS_ONCE(test_a_writer_takes_and_nobody_to_ask)
{
    for (int i = 0; i < 2; i++) {
        TS_CLIENT *client = through_open_hasty();
        const char *name = open_name("take-unknown", client);
        uint64_t token = ts_version_of(mysql, name);
        rowlock_hold *hold = NULL;
        ts_proxy_arm(proxy, lost[i], "shared_take", 1, true);
        WANT(UNKNOWN, acquire(client, name, ROWLOCK_OPTIMISTIC, 0, &hold));
        assert_true(ts_proxy_fired(proxy));
        assert_null(hold);
        ts_proxy_flow(proxy);
        const bool held = lost[i] == TS_LOSE_REPLY;
        next_one_gets_in_after(held ? ts_short_ttl(ROWLOCK_OPTIMISTIC) : CLOSED_MS, name,
                               ROWLOCK_OPTIMISTIC, &token);
    }
}

/* -------------------------------------------------------------------- upgrades and downgrades */

/* The hold stays exclusive, and works on; or, if the last statement took effect, it is lost, and no
 * writer acquires until then. */
TS_ONCE(test_a_downgrade)
{
    static const char *const steps[] = {"shared_join", "shared_begin"};
    TS_CLIENT *client = through_open();
    for (int i = 0; i < 4; i++) {
        const ts_fault fault = lost[i % 2];
        const bool changed = i / 2 == 1 && fault == TS_LOSE_REPLY;
        const char *name = open_name(steps[i / 2], client);
        print_message("# %s, %s\n", name, fault == TS_LOSE_REPLY ? "reply" : "command");
        rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, TS_KEPT_TTL);
        uint64_t token = rowlock_hold_token(hold);
        ts_proxy_arm(proxy, fault, steps[i / 2], 1, false);
        WANT(UNKNOWN, rowlock_hold_downgrade(hold, &ts_err));
        happened();
        assert_true(rowlock_hold_token(hold) == token);
        /* It may be either, so it counts as lost. */
        WANT(LOST, rowlock_hold_check(hold));
        if (changed) {
            WANT(OK, try_to_read(direct, name));
            WANT(BUSY, ts_try(direct, name, ROWLOCK_OPTIMISTIC));
        } else {
            WANT(BUSY, try_to_read(direct, name));
        }
        next_one_is_alone_after(TS_KEPT_TTL, hold, name);
        WANT(LOST, rowlock_release(hold, &ts_err));
    }
}

/* Before the name is closed, nothing has changed. */
TS_ONCE(test_an_upgrade_closes)
{
    TS_CLIENT *client = through_open();
    for (int i = 0; i < 2; i++) {
        const char *name = open_name("upgrade-closes", client);
        rowlock_hold *hold = read_it(client, name, LONG_TTL);
        uint64_t token = rowlock_hold_token(hold);
        ts_proxy_arm(proxy, lost[i], "shared_close", 1, false);
        WANT(UNAVAILABLE, rowlock_hold_upgrade(hold, 5000, NULL, &ts_err));
        happened();
        assert_true(rowlock_hold_token(hold) == token);
        is_shared(hold);
        next_reader_gets_in_after(CLOSED_MS, name);
        WANT(OK, rowlock_hold_upgrade(hold, 5000, NULL, &ts_err));
        assert_true(rowlock_hold_token(hold) == token + 1);
        WANT(OK, rowlock_release(hold, &ts_err));
    }
}

/* The upgrade is looked up: the hold is exclusive. If its reader's row is left behind, it delays
 * nobody for longer than its TTL. */
TS_ONCE(test_an_upgrade_takes)
{
    static const char *const steps[] = {"shared_take", "shared_leave"};
    TS_CLIENT *client = through_open();
    for (int i = 0; i < 4; i++) {
        const char *name = open_name(steps[i / 2], client);
        print_message("# %s, %s\n", name, lost[i % 2] == TS_LOSE_REPLY ? "reply" : "command");
        rowlock_hold *hold = read_it(client, name, TS_KEPT_TTL);
        uint64_t token = rowlock_hold_token(hold);
        ts_proxy_arm(proxy, lost[i % 2], steps[i / 2], 1, false);
        WANT(OK, rowlock_hold_upgrade(hold, 5000, NULL, &ts_err));
        happened();
        assert_true(rowlock_hold_token(hold) == token + 1);
        assert_true(is_ours(hold));
        WANT(BUSY, try_to_read(direct, name));
        kept_from_others(hold, TS_KEPT_TTL / 2);
        WANT(OK, rowlock_release(hold, &ts_err));
        WANT(OK, try_to_read(direct, name));
        token++;
        next_one_gets_in_after(TS_KEPT_TTL, name, ROWLOCK_OPTIMISTIC, &token);
    }
}

static void *flow_when_lost(void *hold)
{
    (void)POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 20000);
    ts_proxy_flow(proxy);
    return NULL;
}

/* The server cannot be asked whether the upgrade took effect: the next holder acquires after this
 * one knows of its loss, whether the table has it as a reader, as the holder, or both. */
TS_ONCE(test_an_upgrade_takes_and_nobody_to_ask)
{
    for (int i = 0; i < 2; i++) {
        TS_CLIENT *client = through_open_hasty();
        const char *name = open_name("upgrade-unknown", client);
        rowlock_hold *hold = read_it(client, name, TS_KEPT_TTL);
        ts_proxy_arm(proxy, lost[i], "shared_take", 1, true);
        WANT(UNKNOWN, rowlock_hold_upgrade(hold, 0, NULL, &ts_err));
        happened();
        if (lost[i] == TS_LOSE_REPLY) {
            next_one_is_alone_after(TS_KEPT_TTL, hold, name);
            WANT(LOST, rowlock_release(hold, &ts_err));
            continue;
        }
        /* It may still be a reader, which keeps writers out, or be lost, and keep out nobody. */
        rowlock_status status = rowlock_release(hold, &ts_err);
        assert_true(status == ROWLOCK_OK || status == ROWLOCK_LOST);
        uint64_t token = ts_version_of(mysql, name);
        next_one_gets_in_after(CLOSED_MS, name, ROWLOCK_OPTIMISTIC, &token);
    }
}

/* The time of the reader is over when the reply comes. Nobody else may get the lock before the work
 * of that reader has ended, which its release says. */
TS_ONCE(test_an_upgrade_takes_longer_than_the_lease)
{
    TS_CLIENT *client = open_patient();
    const char *name = open_name("upgrade-late", client);
    rowlock_hold *hold = read_it(client, name, TS_KEPT_TTL);
    pthread_t thread;
    ts_proxy_arm(proxy, TS_STALL_REPLY, "shared_take", 1, false);
    assert_int_equal(pthread_create(&thread, NULL, flow_when_lost, hold), 0);
    WANT(LOST, rowlock_hold_upgrade(hold, 20000, NULL, &ts_err));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(is_ours(hold));
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, ts_try(direct, name, ROWLOCK_OPTIMISTIC));
}

/* ------------------------------------------------------------- a reader hides who was there */

/* One that comes in when the armed fault has happened, before anybody can ask. */
typedef struct hiding {
    const char *name;
    rowlock_status status;
    rowlock_hold *hold;
    pthread_t thread;
} hiding;

static void *hide(void *arg)
{
    hiding *h = arg;
    const int64_t end_ms = ts_now_ms() + 20000;
    while (!ts_proxy_fired(proxy) && ts_now_ms() < end_ms)
        ts_pass_ms(1);
    const rowlock_acquire_options options = {.shared = true, .wait_ms = 20000, .ttl_ms = LONG_TTL};
    h->status = rowlock_acquire(direct, h->name, &options, &h->hold, NULL);
    ts_proxy_flow(proxy);
    return NULL;
}

/* The reply to this statement will be lost, and a reader be in when the client asks what it did. */
static hiding *will_be_hidden(const char *name, const char *statement)
{
    static hiding h; /* the thread may outlive a test that fails */
    h = (hiding){.name = name, .status = ROWLOCK_UNKNOWN};
    ts_proxy_arm(proxy, TS_LOSE_REPLY, statement, 1, true);
    assert_int_equal(pthread_create(&h.thread, NULL, hide, &h), 0);
    return &h;
}

static void was_hidden(hiding *h)
{
    pthread_join(h->thread, NULL);
    assert_true(ts_proxy_fired(proxy));
    WANT(OK, h->status);
    is_shared(h->hold);
    WANT(OK, rowlock_release(h->hold, &ts_err));
}

/* A change is made once, and is said to have been made. */
TS_ONCE(test_a_section_behind_a_reader)
{
    for (int i = 0; i < 3; i++) {
        TS_CLIENT *client = open_patient();
        TS_MYSQL *own = ts_proxy_connect(proxy);
        const char *name = free_name("section", client);
        const uint64_t before = ts_version_of(mysql, name);
        unsigned calls = 0;
        rowlock_section_result result = {0};
        print_message("# %d\n", i);
        hiding *h = will_be_hidden(name, i == 1 ? "caller_commit" : "section_swap");
        if (i == 0)
            WANT(OK, rowlock_section_run(client, name, NULL, ts_no_work, &calls, &result, &ts_err));
        else if (i == 1)
            WANT(OK, rowlock_tx_section_run(client, own, name, NULL, ts_no_work_tx, &calls, &result,
                                            &ts_err));
        else
            WANT(OK, rowlock_version_bump(client, name, before, &result.version, &ts_err));
        was_hidden(h);
        assert_int_equal(calls, i < 2);
        assert_int_equal(result.version, before + 1);
        assert_int_equal(ts_version_of(mysql, name), before + 1);
    }
}

/* It was held to the end; or a break has ended it before. */
TS_ONCE(test_a_release_behind_a_reader)
{
    for (int broken = 0; broken < 2; broken++) {
        TS_CLIENT *client = open_patient();
        const char *name = free_name(broken ? "broken" : "released", client);
        rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, LONG_TTL);
        if (broken)
            WANT(OK, ts_break_now(direct, name));
        hiding *h = will_be_hidden(name, "lease_release lease_release_apart lease_release_quiet");
        const rowlock_status status = rowlock_release(hold, &ts_err);
        was_hidden(h);
        assert_int_equal(status, broken ? ROWLOCK_LOST : ROWLOCK_OK);
    }
}

TS_MAIN("shared", through_begin, through_end)
