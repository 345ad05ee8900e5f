/* Shared leases and row locks: readers, and the writers between them. */
#include "bell/bell.h"
#include "conformance/clients.h"
#include "stmt/stmt.h"

static rowlock_status enter(rowlock_client *from, const char *name, rowlock_mode mode,
                            int64_t wait_ms, rowlock_hold **hold)
{
    const rowlock_acquire_options options = {
        .mode = mode, .shared = true, .wait_ms = wait_ms, .ttl_ms = 30000};
    return rowlock_acquire(from, name, &options, hold, &ts_err);
}

static rowlock_hold *read_it(rowlock_client *from, const char *name, rowlock_mode mode)
{
    rowlock_hold *hold = NULL;
    WANT(OK, enter(from, name, mode, 0, &hold));
    assert_held(hold);
    return hold;
}

/* Waits until a writer waits for readers. */
static void await_writer(const char *name, rowlock_mode mode)
{
    if (mode == ROWLOCK_OPTIMISTIC)
        assert_true(POLL_UNTIL(ts_is_closed(watch, name), 10000));
    else
        assert_true(ts_row_waits(watch, "resource_lock", 10000) != 0);
}

static uint64_t readers_of(const char *name)
{
    return ts_rows_of(watch, "lock_grant", name, "");
}

/* Readers of one client and of two share it; no writer beside them until the last has left. */
TS_BOTH(test_readers_share_it)
{
    const char *name = ts_name("together");
    rowlock_hold *none = NULL;
    rowlock_hold *first = read_it(client, name, mode);
    rowlock_hold *second = read_it(client, name, mode);
    rowlock_hold *third = read_it(other, name, mode);
    assert_true(rowlock_hold_token(first) == rowlock_hold_token(third));
    WANT(BUSY, ts_try(other, name, mode));
    assert_non_null(strstr(ts_err.message, name));
    WANT(OK, rowlock_release(first, &ts_err));
    WANT(OK, rowlock_release(third, &ts_err));
    WANT(BUSY, ts_try(client, name, mode));
    WANT(OK, rowlock_release(second, &ts_err));
    second = ts_take(other, name, mode, 30000);
    WANT(BUSY, enter(client, name, mode, 0, &none));
    assert_null(none);
    WANT(OK, rowlock_release(second, &ts_err));
    second = read_it(client, name, mode);
    WANT(OK, rowlock_release(second, &ts_err));
}

/* A reader's token is the last writer's; the next writer's is above it. */
TS_ONCE(test_whose_token)
{
    const char *name = ts_name("tokens");
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
    uint64_t written = rowlock_hold_token(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    for (int i = 0; i < 3; i++) {
        hold = read_it(i % 2 ? other : client, name, ROWLOCK_OPTIMISTIC);
        assert_true(rowlock_hold_token(hold) == written);
        WANT(OK, rowlock_release(hold, &ts_err));
    }
    hold = ts_take(other, name, ROWLOCK_OPTIMISTIC, 30000);
    assert_true(rowlock_hold_token(hold) == written + 1);
    WANT(OK, rowlock_release(hold, &ts_err));
    /* A name that was never held alone has a token, too. */
    hold = read_it(client, ts_name("tokens-new"), ROWLOCK_OPTIMISTIC);
    assert_true(rowlock_hold_token(hold) > 0);
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* Readers that come after a waiting writer wait behind it; a writer that gives up delays nobody. */
TS_ONCE(test_a_writer_is_not_passed)
{
    const char *name = ts_name("writer-waits");
    rowlock_hold *none = NULL;
    rowlock_hold *reader = read_it(client, name, ROWLOCK_OPTIMISTIC);
    uint64_t token = rowlock_hold_token(reader);
    ts_waiter writer = ts_wait(other, name, ROWLOCK_OPTIMISTIC, 20000, 30000);
    await_writer(name, ROWLOCK_OPTIMISTIC);
    WANT(BUSY, enter(client, name, ROWLOCK_OPTIMISTIC, 0, &none));
    assert_held(reader);
    WANT(OK, rowlock_release(reader, &ts_err));
    ASSERT_GETS_IN(&writer, token, 10000);
    WANT(BUSY, enter(client, name, ROWLOCK_OPTIMISTIC, 0, &none));
    WANT(OK, rowlock_release(writer.hold, &ts_err));

    reader = read_it(client, name, ROWLOCK_OPTIMISTIC);
    rowlock_acquire_options brief = {.wait_ms = 300};
    int64_t strain = ts_strain_ms();
    WANT_TIMEOUT(ROWLOCK_OPTIMISTIC, strain, rowlock_acquire(other, name, &brief, &none, &ts_err));
    rowlock_hold *beside = NULL;
    WANT(OK, enter(other, name, ROWLOCK_OPTIMISTIC, 20000, &beside));
    assert_true(rowlock_hold_token(beside) == rowlock_hold_token(reader));
    assert_held(reader);
    WANT(OK, rowlock_release(beside, &ts_err));
    WANT(OK, rowlock_release(reader, &ts_err));
}

/* Waiters acquire in the order of their line; readers next to each other enter together. */
TS_ONCE(test_readers_enter_behind_a_writer)
{
    enum { READERS = 6 };
    const char *name = ts_name("behind");
    const rowlock_acquire_options together = {.shared = true, .wait_ms = 20000, .ttl_ms = 30000};
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
    rowlock_client *clients[READERS];
    ts_waiter waiters[READERS];
    for (int i = 0; i < READERS; i++) {
        clients[i] = ts_open();
        waiters[i] = (ts_waiter){.client = clients[i], .name = name, .options = together};
        ts_waiter_start(&waiters[i]);
    }
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == READERS, 10000));
    WANT(OK, rowlock_release(hold, &ts_err));
    for (int i = 0; i < READERS; i++)
        WANT(OK, ts_waiter_join(&waiters[i], 10000));
    assert_int_equal(readers_of(name), READERS);
    for (int i = 0; i < READERS; i++) {
        WANT(OK, rowlock_release(waiters[i].hold, &ts_err));
        rowlock_client_close(clients[i]);
    }
    ts_no_bell(mysql, name);
}

/* Each reader is renewed by itself, and one that was removed is told. */
TS_ONCE(test_readers_are_renewed)
{
    const char *name = ts_name("renewed");
    const rowlock_acquire_options brief = {.shared = true, .ttl_ms = TS_KEPT_TTL};
    rowlock_hold *holds[3] = {NULL};
    for (int i = 0; i < 3; i++)
        WANT(OK, rowlock_acquire(i == 2 ? other : client, name, &brief, &holds[i], &ts_err));
    for (int64_t end = ts_now_ms() + TS_KEPT_FOR; ts_now_ms() < end; ts_pass_ms(50)) {
        for (int i = 0; i < 3; i++)
            assert_held(holds[i]);
        WANT(BUSY, ts_try(other, name, ROWLOCK_OPTIMISTIC));
    }
    ts_sql(mysql, "DELETE FROM lock_grant WHERE owner = %s",
           ts_quote(rowlock_hold_owner(holds[1])));
    assert_true(POLL_UNTIL(rowlock_hold_check(holds[1]) == ROWLOCK_LOST, 10000));
    assert_held(holds[0]);
    assert_held(holds[2]);
    WANT(LOST, rowlock_release(holds[1], &ts_err));
    WANT(OK, rowlock_release(holds[0], &ts_err));
    WANT(OK, rowlock_release(holds[2], &ts_err));
    WANT(OK, ts_try(other, name, ROWLOCK_OPTIMISTIC));
}

/* A dead reader keeps a writer out for its TTL, and a dead writer that waited keeps readers out for
 * its own. */
TS_ONCE(test_who_is_gone_is_waited_for_no_longer_than_its_ttl)
{
    const char *name = ts_name("gone");
    rowlock_hold *hold = read_it(client, name, ROWLOCK_OPTIMISTIC);
    int64_t start = ts_now_ms();
    ts_sql(mysql,
           "UPDATE lock_grant SET expires_at = UTC_TIMESTAMP(6) + INTERVAL 600000 MICROSECOND"
           " WHERE owner = %s",
           ts_quote(rowlock_hold_owner(hold)));
    rowlock_hold *writer = ts_take(other, name, ROWLOCK_OPTIMISTIC, 30000);
    assert_between(590, ts_now_ms() - start, 10000 + ts_slack_ms());
    assert_int_equal(readers_of(name), 0);
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(writer, &ts_err));

    hold = read_it(client, name, ROWLOCK_OPTIMISTIC);
    ts_sql(mysql,
           "UPDATE resource SET next_owner = 'somebody', next_label = 'a dead one',"
           " next_expires_at = UTC_TIMESTAMP(6) + INTERVAL 3 SECOND WHERE resource_name = %s",
           ts_quote(name));
    rowlock_hold *beside = NULL;
    WANT(BUSY, enter(other, name, ROWLOCK_OPTIMISTIC, 0, &beside));
    WANT(OK, enter(other, name, ROWLOCK_OPTIMISTIC, 20000, &beside));
    assert_held(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(beside, &ts_err));
}

/* A shared acquire by the thread that holds alone is re-entrant; not the other way round. */
TS_BOTH(test_reentrant)
{
    const char *name = ts_name("again");
    rowlock_hold *again = NULL;
    const rowlock_acquire_options alone = {.mode = mode, .reentrant = true};
    const rowlock_acquire_options together = {.mode = mode, .reentrant = true, .shared = true};
    rowlock_hold *hold = NULL;
    WANT(OK, rowlock_acquire(client, name, &alone, &hold, &ts_err));
    WANT(OK, rowlock_acquire(client, name, &together, &again, &ts_err));
    assert_ptr_equal(hold, again);
    WANT(OK, rowlock_release(again, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_acquire(client, name, &together, &hold, &ts_err));
    WANT(OK, rowlock_acquire(client, name, &together, &again, &ts_err));
    assert_ptr_equal(hold, again);
    rowlock_hold *none = NULL;
    WANT(BUSY, rowlock_acquire(client, name, &alone, &none, &ts_err));
    WANT(OK, rowlock_release(again, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* A re-entrant acquire waits for nobody, or it would wait for a writer that waits for it. */
TS_BOTH(test_reentrance_behind_a_writer)
{
    const char *name = ts_name("again-behind");
    const rowlock_acquire_options together = {
        .mode = mode, .shared = true, .reentrant = true, .wait_ms = 20000, .ttl_ms = 30000};
    rowlock_hold *again = NULL;
    rowlock_hold *hold = ts_take_with(client, name, together);
    uint64_t token = rowlock_hold_token(hold);
    ts_waiter writer = ts_wait(other, name, mode, 20000, 30000);
    await_writer(name, mode);
    WANT_WITHIN(OK, 0, 100, rowlock_acquire(client, name, &together, &again, &ts_err));
    assert_ptr_equal(hold, again);
    assert_int_equal(rowlock_hold_depth(hold), 2);
    WANT(OK, rowlock_release(again, &ts_err));
    assert_false(ts_waiter_ended(&writer));
    assert_held(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    ASSERT_GETS_IN(&writer, token, 10000);
    WANT(OK, rowlock_release(writer.hold, &ts_err));
}

/* An upgrade succeeds when the others have left; a second one fails at once. And a downgrade. */
TS_ONCE(test_upgrade_and_downgrade)
{
    const char *name = ts_name("upgrade");
    rowlock_hold *hold = read_it(client, name, ROWLOCK_OPTIMISTIC);
    rowlock_hold *second = read_it(other, name, ROWLOCK_OPTIMISTIC);
    uint64_t token = rowlock_hold_token(hold);
    WANT(BUSY, rowlock_hold_upgrade(hold, 0, NULL, &ts_err));
    int64_t strain = ts_strain_ms();
    WANT_TIMEOUT(ROWLOCK_OPTIMISTIC, strain, rowlock_hold_upgrade(hold, 200, NULL, &ts_err));
    assert_held(hold);
    assert_true(rowlock_hold_token(hold) == token);
    ts_sql(mysql,
           "UPDATE resource SET next_owner = 'another', next_expires_at = UTC_TIMESTAMP(6) +"
           " INTERVAL 1 HOUR WHERE resource_name = %s",
           ts_quote(name));
    WANT(DEADLOCK, rowlock_hold_upgrade(hold, 20000, NULL, &ts_err));
    ts_sql(mysql, "UPDATE resource SET next_owner = '' WHERE resource_name = %s", ts_quote(name));
    WANT(OK, rowlock_release(second, &ts_err));
    WANT(OK, rowlock_hold_upgrade(hold, 20000, NULL, &ts_err));
    assert_true(rowlock_hold_token(hold) == token + 1);
    assert_int_equal(readers_of(name), 0);
    WANT(BUSY, enter(other, name, ROWLOCK_OPTIMISTIC, 0, &second));
    WANT(INVALID, rowlock_hold_upgrade(hold, 0, NULL, &ts_err));
    WANT(OK, rowlock_hold_downgrade(hold, &ts_err));
    assert_true(rowlock_hold_token(hold) == token + 1);
    WANT(INVALID, rowlock_hold_downgrade(hold, &ts_err));
    WANT(BUSY, ts_try(other, name, ROWLOCK_OPTIMISTIC));
    second = read_it(other, name, ROWLOCK_OPTIMISTIC);
    assert_true(rowlock_hold_token(second) == token + 1);
    WANT(BUSY, ts_try(other, name, ROWLOCK_OPTIMISTIC));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(second, &ts_err));
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
}

typedef struct upgrade {
    rowlock_hold *hold;
    pthread_t thread;
    atomic_bool ended;
    rowlock_status status;
    rowlock_error err;
} upgrade;

static void *upgrade_it(void *arg)
{
    upgrade *u = arg;
    u->status = rowlock_hold_upgrade(u->hold, 20000, NULL, &u->err);
    atomic_store(&u->ended, true);
    return NULL;
}

/* Each would wait for the other to leave, so the second fails at once, and leaves. */
TS_ONCE(test_two_upgrades)
{
    static upgrade first; /* the thread may outlive a failed test */
    const char *name = ts_name("two-upgrades");
    rowlock_hold *second = read_it(other, name, ROWLOCK_OPTIMISTIC);
    first.hold = read_it(client, name, ROWLOCK_OPTIMISTIC);
    uint64_t token = rowlock_hold_token(second);
    assert_int_equal(pthread_create(&first.thread, NULL, upgrade_it, &first), 0);
    await_writer(name, ROWLOCK_OPTIMISTIC);
    WANT_WITHIN(DEADLOCK, 0, 5000, rowlock_hold_upgrade(second, 20000, NULL, &ts_err));
    assert_held(second);
    assert_held(first.hold);
    assert_true(ts_is_closed(watch, name));
    assert_false(atomic_load(&first.ended));
    WANT(OK, rowlock_release(second, &ts_err));
    assert_true(POLL_UNTIL(atomic_load(&first.ended), 10000));
    pthread_join(first.thread, NULL);
    WANT(OK, first.status);
    assert_true(rowlock_hold_token(first.hold) == token + 1);
    assert_int_equal(readers_of(name), 0);
    WANT(BUSY, enter(other, name, ROWLOCK_OPTIMISTIC, 0, &second));
    WANT(OK, rowlock_release(first.hold, &ts_err));
    WANT(OK, ts_try(other, name, ROWLOCK_OPTIMISTIC));
}

/* The holder's own fence keeps the row: it is the writer still, and leaves no reader behind. */
TS_ONCE(test_a_downgrade_beside_a_fence)
{
    const char *name = ts_name("fenced-writer");
    TS_MYSQL *own = ts_connect(ts_schema());
    rowlock_hold *reader = NULL;
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
    ts_sql(own, "START TRANSACTION");
    WANT(OK, rowlock_fence(hold, own, &ts_err));
    WANT(BUSY, rowlock_hold_downgrade(hold, &ts_err));
    assert_held(hold);
    WANT(BUSY, enter(other, name, ROWLOCK_OPTIMISTIC, 0, &reader));
    ts_sql(own, "COMMIT");
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, enter(other, name, ROWLOCK_OPTIMISTIC, 0, &reader));
    WANT(OK, rowlock_release(reader, &ts_err));
    WANT(OK, ts_try(other, name, ROWLOCK_OPTIMISTIC));
}

/* Waiting readers enter beside the former writer. */
TS_ONCE(test_a_downgrade_lets_readers_in)
{
    enum { READERS = 2 };
    const char *name = ts_name("downgrade");
    const rowlock_acquire_options together = {.shared = true, .wait_ms = 20000, .ttl_ms = 30000};
    rowlock_client *clients[READERS];
    ts_waiter readers[READERS];
    rowlock_hold *hold = ts_take(client, name, ROWLOCK_OPTIMISTIC, 30000);
    for (int i = 0; i < READERS; i++) {
        clients[i] = ts_open();
        readers[i] = (ts_waiter){.client = clients[i], .name = name, .options = together};
        ts_waiter_start(&readers[i]);
    }
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == READERS, 10000));
    WANT(OK, rowlock_hold_downgrade(hold, &ts_err));
    for (int i = 0; i < READERS; i++) {
        WANT(OK, ts_waiter_join(&readers[i], 10000));
        assert_true(rowlock_hold_token(readers[i].hold) == rowlock_hold_token(hold));
    }
    assert_int_equal(readers_of(name), READERS + 1);
    assert_held(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(BUSY, ts_try(client, name, ROWLOCK_OPTIMISTIC));
    for (int i = 0; i < READERS; i++) {
        WANT(OK, rowlock_release(readers[i].hold, &ts_err));
        rowlock_client_close(clients[i]);
    }
    WANT(OK, ts_try(client, name, ROWLOCK_OPTIMISTIC));
}

static uint64_t broken_readers(const char *name)
{
    return ts_sql_u64(mysql,
                      "SELECT COUNT(*) FROM lock_event WHERE resource_name = %s AND"
                      " event = 'broken' AND owner_label = '' AND held_ms IS NULL",
                      ts_quote(name));
}

/* All readers lose it, and are told; a writer waits until they have ended, or not (`now`). */
TS_ONCE(test_break)
{
    const char *name = ts_name("break");
    rowlock_hold *holds[2] = {NULL};
    const rowlock_break_options now = {.now = true};
    for (int at_once = 0; at_once < 2; at_once++) {
        const rowlock_acquire_options brief = {.shared = true, .ttl_ms = TS_KEPT_TTL};
        for (int i = 0; i < 2; i++)
            WANT(OK, rowlock_acquire(i ? other : client, name, &brief, &holds[i], &ts_err));
        WANT(OK, rowlock_break_with(other, name, at_once ? &now : NULL, &ts_err));
        if (at_once)
            WANT(OK, ts_try(other, name, ROWLOCK_OPTIMISTIC));
        for (int i = 0; i < 2; i++) {
            assert_true(POLL_UNTIL(rowlock_hold_check(holds[i]) == ROWLOCK_LOST, 10000));
            WANT(LOST, rowlock_release(holds[i], &ts_err));
        }
        assert_int_equal(readers_of(name), 0);
        WANT(OK, ts_try(other, name, ROWLOCK_OPTIMISTIC));
    }
    WANT(BUSY, rowlock_break(other, name, NULL, &ts_err));
    /* The history of that has nothing of the writer before. */
    assert_true(POLL_UNTIL(broken_readers(name) == 2, 10000));
}

/* A reader's writes under its fence are committed before the next writer acquires. */
TS_ONCE(test_fence)
{
    const char *name = ts_name("fence");
    MYSQL *own = ts_connect(ts_schema());
    rowlock_hold *hold = read_it(client, name, ROWLOCK_OPTIMISTIC);
    ts_sql(own, "BEGIN");
    WANT(OK, rowlock_fence(hold, own, &ts_err));
    rowlock_hold *second = NULL;
    WANT(OK, enter(other, name, ROWLOCK_OPTIMISTIC, 0, &second));
    WANT(INVALID, rowlock_present(hold, own, &ts_err));
    WANT(BUSY, ts_try(other, name, ROWLOCK_OPTIMISTIC));
    WANT(OK, rowlock_release(second, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(BUSY, ts_try(other, name, ROWLOCK_OPTIMISTIC));
    ts_sql(own, "COMMIT");
    WANT(OK, ts_try(other, name, ROWLOCK_OPTIMISTIC));
    mysql_close(own);
}

/* A waiting writer waits for the COMMIT, not only for the reader. */
TS_ONCE(test_a_writer_waits_for_a_fence)
{
    const char *name = ts_name("fence-first");
    TS_MYSQL *own = ts_connect(ts_schema());
    rowlock_hold *hold = read_it(client, name, ROWLOCK_OPTIMISTIC);
    uint64_t token = rowlock_hold_token(hold);
    ts_sql(own, "BEGIN");
    WANT(OK, rowlock_fence(hold, own, &ts_err));
    ts_waiter writer = ts_wait(other, name, ROWLOCK_OPTIMISTIC, 20000, 30000);
    assert_true(ts_row_waits(watch, "resource", 10000) != 0);
    assert_held(hold);
    WANT(OK, rowlock_release(hold, &ts_err));
    assert_true(ts_row_waits(watch, "resource", 10000) != 0);
    assert_false(ts_waiter_ended(&writer));
    assert_true(ts_version_of(mysql, name) == token);
    ts_sql(own, "COMMIT");
    ASSERT_GETS_IN(&writer, token, 10000);
    WANT(OK, rowlock_release(writer.hold, &ts_err));
}

/* A section is a writer, too. */
TS_ONCE(test_sections)
{
    const char *name = ts_name("section");
    uint64_t version = 0;
    rowlock_hold *hold = read_it(client, name, ROWLOCK_OPTIMISTIC);
    WANT(BUSY, rowlock_version_read(other, name, &version, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_version_read(other, name, &version, &ts_err));
    WANT(OK, rowlock_version_bump(other, name, version, &version, &ts_err));
}

/* Sends a statement that will have to wait, and does not wait for the reply. */
static void send_off(MYSQL *from, const char *text)
{
    assert_int_equal(mysql_send_query(from, text, strlen(text)), 0);
}

/* Waits for the reply: how many rows were changed. */
static uint64_t answer_of(MYSQL *from)
{
    if (mysql_read_query_result(from))
        fail_msg("%u: %s", mysql_errno(from), mysql_error(from));
    uint64_t rows = mysql_affected_rows(from);
    while (mysql_next_result(from) == 0)
        mysql_free_result(mysql_store_result(from));
    return rows;
}

/* A writer in SQL waits behind readers in C, and they behind it. */
TS_ONCE(test_a_writer_in_sql)
{
    char call[200];
    rowlock_client_options options = ts_options();
    options.user = "root";
    WANT(OK, rowlock_procedures_install(&options, NULL, NULL, &ts_err));
    const char *name = ts_name("in-sql");
    TS_MYSQL *own = ts_connect(ts_schema());
    rowlock_hold *first = read_it(client, name, ROWLOCK_OPTIMISTIC);
    rowlock_hold *second = read_it(other, name, ROWLOCK_OPTIMISTIC);
    rowlock_hold *none = NULL;
    uint64_t token = rowlock_hold_token(first);
    ts_sql(own, "CALL rowlock_try('%s', 30, @t)", name);
    assert_int_equal(ts_sql_u64(own, "SELECT @t IS NULL"), 1);
    snprintf(call, sizeof call, "CALL rowlock_acquire('%s', 30, 20, @t)", name);
    send_off(own, call);
    await_writer(name, ROWLOCK_OPTIMISTIC);
    WANT(BUSY, enter(client, name, ROWLOCK_OPTIMISTIC, 0, &none));
    WANT(OK, rowlock_release(first, &ts_err));
    assert_true(ts_is_closed(watch, name));
    assert_true(ts_version_of(mysql, name) == token);
    WANT(OK, rowlock_release(second, &ts_err));
    (void)answer_of(own);
    assert_true(ts_sql_u64(own, "SELECT @t") == token + 1);
    WANT(BUSY, enter(client, name, ROWLOCK_OPTIMISTIC, 0, &none));
    ts_waiter reader = {.client = other, .name = name};
    reader.options = (rowlock_acquire_options){.shared = true, .wait_ms = 20000, .ttl_ms = 30000};
    ts_waiter_start(&reader);
    assert_true(POLL_UNTIL(ts_in_queue(mysql, name) == 1, 10000));
    ts_sql(own, "CALL rowlock_release('%s', @t)", name);
    WANT(OK, ts_waiter_join(&reader, 10000));
    assert_true(rowlock_hold_token(reader.hold) == token + 1);
    WANT(OK, rowlock_release(reader.hold, &ts_err));
}

static void end_all_of(const char *user)
{
    char *ids = ts_sql_text(
        watch, "SELECT GROUP_CONCAT(id) FROM " TS_PROCESSLIST " WHERE user = '%s'", user);
    assert_true(*ids);
    for (char *at = ids; *at; at += *at == ',')
        (void)ts_sql_try(watch, "KILL CONNECTION %lu", strtoul(at, &at, 10));
    free(ids);
}

/* A shared row lock ends with its connection, too, and its holder is told. */
TS_ONCE(test_a_reader_of_rows_is_cut_off)
{
    const char *name = ts_name("cut-off");
    const char *user = ts_user("reader", "of rows", "ALL", ts_schema());
    TS_CLIENT *mine = ts_open_as((rowlock_client_options){.user = user, .password = "of rows"});
    rowlock_hold *hold =
        ts_take_with(mine, name,
                     (rowlock_acquire_options){
                         .mode = ROWLOCK_PESSIMISTIC, .shared = true, .ttl_ms = TS_KEPT_TTL});
    ts_waiter writer = ts_wait(other, name, ROWLOCK_PESSIMISTIC, 20000, 30000);
    await_writer(name, ROWLOCK_PESSIMISTIC);
    int64_t start = ts_now_ms();
    end_all_of(user);
    ASSERT_GETS_IN(&writer, 0, 10000);
    assert_between(0, writer.ended_ms - start, 3000 + ts_slack_ms());
    assert_true(POLL_UNTIL(rowlock_hold_check(hold) == ROWLOCK_LOST, 10000));
    WANT(LOST, rowlock_release(hold, &ts_err));
    WANT(OK, rowlock_release(writer.hold, &ts_err));
}

TS_ONCE(test_what_cannot_be_shared)
{
    rowlock_hold *none = NULL;
    const char *name = ts_name("cooling");
    for (int i = 0; i < 2; i++) {
        const rowlock_acquire_options cooling = {
            .mode = ts_modes[i], .shared = true, .at_least_ms = 1000};
        WANT(INVALID, rowlock_acquire(client, name, &cooling, &none, &ts_err));
        WANT(INVALID, rowlock_acquire_shared(client, name, &cooling, &none, &ts_err));
    }
    WANT(INVALID, rowlock_acquire_shared(NULL, name, NULL, &none, &ts_err));
    WANT(INVALID, rowlock_acquire_shared(client, NULL, NULL, &none, &ts_err));
    WANT(INVALID, rowlock_acquire_shared(client, "", NULL, &none, &ts_err));
    WANT(INVALID, rowlock_acquire_shared(client, name, NULL, NULL, &ts_err));
    assert_null(none);
    assert_true(ts_id_of(mysql, name) == 0);
}

/* Holds that cannot be upgraded or downgraded. */
TS_ONCE(test_what_cannot_be_changed)
{
    const char *name = ts_name("no-change");
    rowlock_hold *again = NULL;
    const rowlock_acquire_options together = {.shared = true, .reentrant = true, .ttl_ms = 30000};
    WANT(INVALID, rowlock_hold_upgrade(NULL, 0, NULL, &ts_err));
    WANT(INVALID, rowlock_hold_downgrade(NULL, &ts_err));
    rowlock_hold *hold = ts_take_with(client, name, together);
    WANT(OK, rowlock_acquire(client, name, &together, &again, &ts_err));
    WANT(INVALID, rowlock_hold_upgrade(hold, 0, NULL, &ts_err));
    WANT(OK, rowlock_release(again, &ts_err));
    WANT(INVALID, rowlock_hold_downgrade(hold, &ts_err));
    assert_held(hold);
    assert_false(ts_is_closed(watch, name));
    ts_sql(mysql, "DELETE FROM lock_grant WHERE owner = %s", ts_quote(rowlock_hold_owner(hold)));
    WANT(LOST, rowlock_release(hold, &ts_err));
}

TS_ONCE(test_row_locks_are_not_changed)
{
    const char *name = ts_name("rows-no-change");
    rowlock_hold *hold = read_it(client, name, ROWLOCK_PESSIMISTIC);
    WANT(UNSUPPORTED, rowlock_hold_upgrade(hold, 20000, NULL, &ts_err));
    WANT(UNSUPPORTED, rowlock_hold_downgrade(hold, &ts_err));
    assert_held(hold);
    rowlock_hold *second = read_it(other, name, ROWLOCK_PESSIMISTIC);
    WANT(OK, rowlock_release(second, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
    hold = ts_take(client, name, ROWLOCK_PESSIMISTIC, 30000);
    WANT(UNSUPPORTED, rowlock_hold_downgrade(hold, &ts_err));
    WANT(OK, rowlock_release(hold, &ts_err));
}

/* ------------------------------------------- the statements, one against the other */

/* Two sessions like the library's, each with one statement of sql/shared.sql at a time, on a name
 * without a next writer; `watch` looks on. So the statements must be right without the library's
 * checks. */
typedef struct pair {
    const char *name;
    uint64_t id;
    uint64_t version;
    MYSQL *first;
    MYSQL *second;
} pair;

static MYSQL *session(void)
{
    MYSQL *own = ts_connect(ts_schema());
    ts_sql(own, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
    return own;
}

static pair begin_pair(const char *word)
{
    pair p = {.name = ts_name(word), .version = 1};
    WANT(OK, ts_try(client, p.name, ROWLOCK_OPTIMISTIC));
    ts_sql(watch, "UPDATE resource SET status = 'shared', version = 1 WHERE resource_name = %s",
           ts_quote(p.name));
    p.id = ts_id_of(watch, p.name);
    p.first = session();
    p.second = session();
    return p;
}

static void end_pair(const pair *p)
{
    mysql_close(p->first);
    mysql_close(p->second);
}

/* A statement of sql/ with its values; free() it. */
static char *text_of(rl_sql_id id, const rl_value *values)
{
    const rl_sql *sql = &rl_sql_table[id];
    unsigned use = 0;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    assert_non_null(out);
    for (const char *at = sql->text; *at; at++) {
        if (*at != '?') {
            fputc(*at, out);
            continue;
        }
        const rl_value *value = &values[sql->uses[use++]];
        if (value->type == RL_TYPE_TEXT)
            fputs(ts_quote(value->text), out);
        else
            fprintf(out, "%" PRIu64, value->number);
    }
    assert_int_equal(use, sql->use_count);
    assert_int_equal(fclose(out), 0);
    return text;
}

/* Runs a statement: how many rows it changes. If it has to wait for the other session, it is only
 * sent. */
static uint64_t run_it(MYSQL *on, bool waits, rl_sql_id id, const rl_value *values)
{
    char *text = text_of(id, values);
    send_off(on, text);
    free(text);
    return waits ? 0 : answer_of(on);
}

static uint64_t do_enter(const pair *p, MYSQL *on, bool waits, const char *owner)
{
    const rl_value values[] = {rl_text(owner), rl_text("a-reader"), rl_u64(60000000), rl_u64(p->id),
                               rl_text(p->name)};
    return run_it(on, waits, RL_SQL_SHARED_ENTER, values);
}

static uint64_t do_close(const pair *p, MYSQL *on, bool waits, const char *owner)
{
    char prefix[RL_BELL_PREFIX_MAX + 1];
    rl_bell_prefix(ts_schema(), prefix);
    const rl_value values[] = {rl_u64(1),      rl_text(prefix), rl_u64(p->version),
                               rl_text(owner), rl_text("next"), rl_u64(10000000),
                               rl_u64(p->id),  rl_text(p->name)};
    return run_it(on, waits, RL_SQL_SHARED_CLOSE, values);
}

static uint64_t do_take(const pair *p, MYSQL *on, bool waits, const char *owner)
{
    const rl_value values[] = {rl_u64(p->version), rl_text(owner), rl_text("a-writer"), rl_u64(0),
                               rl_u64(60000000),   rl_u64(p->id),  rl_text(p->name)};
    return run_it(on, waits, RL_SQL_SHARED_TAKE, values);
}

static uint64_t do_reopen(const pair *p, MYSQL *on, bool waits, const char *owner)
{
    const rl_value values[] = {rl_u64(p->id), rl_text(owner)};
    return run_it(on, waits, RL_SQL_SHARED_REOPEN, values);
}

static uint64_t do_expire(const pair *p, MYSQL *on, bool waits)
{
    const rl_value values[] = {rl_u64(p->id)};
    return run_it(on, waits, RL_SQL_SHARED_EXPIRE, values);
}

static uint64_t do_renew(const pair *p, MYSQL *on, bool waits, const char *owner)
{
    char leases[200];
    snprintf(leases, sizeof leases, "[[%" PRIu64 ",%" PRIu64 ",60000000,\"%s\"]]", p->id,
             p->version, owner);
    const rl_value value = rl_text(leases);
    return run_it(on, waits, RL_SQL_SHARED_RENEW, &value);
}

/* What its next writer sees: "1 reader-1": closed for others, and that reader is left. */
static void expect_look(const pair *p, const char *owner, const char *seen)
{
    const rl_value values[] = {rl_u64(p->version), rl_text(owner), rl_u64(p->id)};
    char *text = text_of(RL_SQL_SHARED_READER, values);
    char found[200] = "no row";
    assert_int_equal(mysql_query(watch, text), 0);
    free(text);
    MYSQL_RES *result = mysql_store_result(watch);
    assert_non_null(result);
    MYSQL_ROW row = mysql_fetch_row(result);
    if (row)
        snprintf(found, sizeof found, "%s %s", row[0], row[1]);
    mysql_free_result(result);
    assert_string_equal(found, seen);
}

static void expect_next(const pair *p, const char *owner)
{
    char *next = ts_sql_text(watch, "SELECT next_owner FROM resource WHERE id = %" PRIu64, p->id);
    assert_string_equal(next, owner);
    free(next);
}

static void let_expire(const pair *p, const char *owner)
{
    ts_sql(watch,
           "UPDATE lock_grant SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND"
           " WHERE resource_id = %" PRIu64 " AND owner = '%s'",
           p->id, owner);
}

/* It has expired, but was renewed before, in a transaction that is still open. */
static void renew_late(const pair *p, MYSQL *on, const char *owner)
{
    let_expire(p, owner);
    ts_sql(on, "BEGIN");
    ts_sql(on, "SET timestamp = UNIX_TIMESTAMP() - 10");
    assert_int_equal(do_renew(p, on, false, owner), 1);
    ts_sql(on, "SET timestamp = DEFAULT");
}

static void let_close_be_over(const pair *p)
{
    ts_sql(watch,
           "UPDATE resource SET next_expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND"
           " WHERE id = %" PRIu64,
           p->id);
}

static void expect_wait(const char *table)
{
    assert_true(ts_row_waits(watch, table, 10000) != 0);
}

TS_ONCE(test_enter_against_close)
{
    pair p = begin_pair("enter-close");
    /* It is entering when the name is closed, and is seen afterwards. */
    ts_sql(p.first, "BEGIN");
    assert_int_equal(do_enter(&p, p.first, false, "reader-1"), 1);
    (void)do_close(&p, p.second, true, "writer-1");
    expect_wait("resource");
    /* A look that comes too soon sees no reader, and that the name is not closed yet. */
    expect_look(&p, "writer-1", "0 ");
    ts_sql(p.first, "COMMIT");
    assert_int_equal(answer_of(p.second), 1);
    expect_look(&p, "writer-1", "1 reader-1");
    assert_int_equal(do_take(&p, p.second, false, "writer-1"), 0);
    assert_int_equal(do_enter(&p, p.first, false, "reader-2"), 0);
    /* It comes while the name is being closed, and does not enter; after a ROLLBACK of that it
     * does. */
    assert_int_equal(do_reopen(&p, p.first, false, "writer-1"), 1);
    for (int good = 0; good < 2; good++) {
        ts_sql(p.second, "BEGIN");
        assert_int_equal(do_close(&p, p.second, false, "writer-2"), 1);
        (void)do_enter(&p, p.first, true, "reader-3");
        expect_wait("resource");
        ts_sql(p.second, good ? "ROLLBACK" : "COMMIT");
        assert_int_equal(answer_of(p.first), good);
        (void)do_reopen(&p, p.second, false, "writer-2");
    }
    end_pair(&p);
}

TS_ONCE(test_take_against_a_renewal_that_comes_late)
{
    pair p = begin_pair("take-renew");
    assert_int_equal(do_enter(&p, p.first, false, "reader-1"), 1);
    assert_int_equal(do_close(&p, p.second, false, "writer-1"), 1);
    renew_late(&p, p.first, "reader-1");
    /* (This one may wait or not, depending on the server.) */
    (void)do_take(&p, p.second, true, "writer-1");
    ts_sql(p.first, "COMMIT");
    assert_int_equal(answer_of(p.second), 0);
    expect_look(&p, "writer-1", "1 reader-1");
    /* An expired reader is not renewed any more, though its row is still there. */
    let_expire(&p, "reader-1");
    assert_int_equal(do_renew(&p, p.first, false, "reader-1"), 0);
    assert_int_equal(do_take(&p, p.second, false, "writer-1"), 0);
    assert_int_equal(do_expire(&p, p.second, false), 1);
    assert_int_equal(do_renew(&p, p.first, false, "reader-1"), 0);
    expect_look(&p, "writer-1", "1 ");
    assert_int_equal(do_take(&p, p.second, false, "writer-1"), 1);
    assert_true(ts_version_of(watch, p.name) == p.version + 1);
    end_pair(&p);
}

TS_ONCE(test_expire_against_renew)
{
    pair p = begin_pair("expire-renew");
    assert_int_equal(do_enter(&p, p.first, false, "reader-1"), 1);
    /* The renewal comes first: the row stays. */
    renew_late(&p, p.first, "reader-1");
    (void)do_expire(&p, p.second, true);
    expect_wait("lock_grant");
    ts_sql(p.first, "COMMIT");
    assert_int_equal(answer_of(p.second), 0);
    assert_int_equal(readers_of(p.name), 1);
    /* The removal comes first: the renewal finds no row. */
    let_expire(&p, "reader-1");
    ts_sql(p.second, "BEGIN");
    assert_int_equal(do_expire(&p, p.second, false), 1);
    (void)do_renew(&p, p.first, true, "reader-1");
    expect_wait("lock_grant");
    ts_sql(p.second, "COMMIT");
    assert_int_equal(answer_of(p.first), 0);
    assert_int_equal(readers_of(p.name), 0);
    end_pair(&p);
}

TS_ONCE(test_upgrade_against_a_close)
{
    static const char *const owners[] = {"reader-1", "writer-1"};
    for (int i = 0; i < 2; i++) {
        pair p = begin_pair("upgrade-close");
        assert_int_equal(do_enter(&p, p.first, false, "reader-1"), 1);
        ts_sql(p.first, "BEGIN");
        assert_int_equal(do_close(&p, p.first, false, owners[i]), 1);
        (void)do_close(&p, p.second, true, owners[1 - i]);
        expect_wait("resource");
        ts_sql(p.first, "COMMIT");
        assert_int_equal(answer_of(p.second), 0);
        expect_next(&p, owners[i]);
        /* A reader that upgrades does not wait for itself; the other one waits for it. */
        assert_int_equal(do_take(&p, p.second, false, owners[1 - i]), 0);
        assert_int_equal(do_take(&p, p.first, false, owners[i]), i == 0);
        end_pair(&p);
    }
}

TS_ONCE(test_reopen_against_the_next_close)
{
    pair p = begin_pair("reopen-close");
    /* A writer gives up late: another one has closed the name since, and it stays closed. */
    assert_int_equal(do_close(&p, p.first, false, "writer-1"), 1);
    assert_int_equal(do_close(&p, p.second, false, "writer-2"), 0);
    let_close_be_over(&p);
    ts_sql(p.second, "BEGIN");
    assert_int_equal(do_close(&p, p.second, false, "writer-2"), 1);
    (void)do_reopen(&p, p.first, true, "writer-1");
    expect_wait("resource");
    ts_sql(p.second, "COMMIT");
    assert_int_equal(answer_of(p.first), 0);
    expect_next(&p, "writer-2");
    assert_int_equal(do_enter(&p, p.first, false, "reader-1"), 0);
    /* Nor does it take the other's name. */
    assert_int_equal(do_take(&p, p.first, false, "writer-1"), 0);
    /* If it gives up in time, the next one closes the name as usual. */
    ts_sql(p.second, "BEGIN");
    assert_int_equal(do_reopen(&p, p.second, false, "writer-2"), 1);
    (void)do_close(&p, p.first, true, "writer-1");
    expect_wait("resource");
    ts_sql(p.second, "COMMIT");
    assert_int_equal(answer_of(p.first), 1);
    expect_next(&p, "writer-1");
    assert_int_equal(do_take(&p, p.first, false, "writer-1"), 1);
    end_pair(&p);
}

TS_MAIN("shared", open_clients, close_clients)
